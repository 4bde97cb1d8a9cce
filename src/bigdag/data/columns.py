"""Tables in Parquet, Feather and Arrow files, read some columns at a time."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bigdag.data import content
from bigdag.data.cells import Categories, best_example, without_words
from bigdag.data.content import Choice, Content, TextColumn
from bigdag.data.convert import (
    FloatArray,
    Rows,
    arrow_floats,
    arrow_values,
    block_rows,
    counts_rows,
    holds_numbers,
    index_names,
    pandas_categories,
    pandas_index,
)
from bigdag.data.labels import is_unnamed
from bigdag.data.moments import is_one_pass
from bigdag.data.names import checked_names, matches
from bigdag.errors import DataError

__all__ = ["ArrowFile", "Parquet", "read_columns"]

_BUFFER = 2**14  # bytes of a column that are read at a time, where not all of them fit
_THREADS = 2**25  # bytes that the threads of Arrow take for themselves
_PAGE = 2**20  # bytes of a page in a Parquet file, as most programs write them


class Parquet:
    """A Parquet file, alone: folder names add no columns."""

    column_bytes = content.COLUMN

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = pq.ParquetFile(
            pa.OSFile(os.fsencode(path)), page_checksum_verification=True, pre_buffer=False
        )
        self.schema = self.file.schema_arrow
        self.names = list(self.schema.names)
        self.n_rows = int(self.file.metadata.num_rows)
        # Rows that are read at a time: the bytes of a column in a row group come together.
        groups = range(self.file.metadata.num_row_groups)
        self.batch = max((self.file.metadata.row_group(g).num_rows for g in groups), default=1)

    def blocks(self, columns: list[int], rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield some columns, all their rows or the first `rows`, in batches."""
        names = [self.names[j] for j in columns]
        for batch in self.file.iter_batches(batch_size=rows or 2**17, columns=names):
            # A name with a dot brings the columns it could be a part of, too.
            yield batch.select(names)

    def stream(self, columns: list[int], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns in batches of so many rows, with only some pages in memory."""
        names = [self.names[j] for j in columns]
        file = pq.ParquetFile(
            pa.OSFile(os.fsencode(self.path)),
            metadata=self.file.metadata,
            buffer_size=_BUFFER,
            page_checksum_verification=True,
            pre_buffer=False,
        )
        for batch in file.iter_batches(batch_size=rows, columns=names):
            yield batch.select(names)

    def stream_memory(self, d: int, rows: int) -> int:
        """Return about the bytes that streaming d columns takes."""
        about = self.file.metadata
        groups = [about.row_group(g) for g in range(about.num_row_groups)]
        first = groups[0] if groups else None
        # Of each column a page, compressed and not, and its dictionary.
        plain = first is not None and not any(
            first.column(j).has_dictionary_page for j in range(first.num_columns)
        )
        pages = d * (2 if plain else 3) * _PAGE
        pages = min(3 * max((group.total_byte_size for group in groups), default=0), pages)
        return pages + d * (_BUFFER + self.column_bytes) + 3 * 8 * rows * d + _THREADS


class ArrowFile:
    """A Feather or Arrow file."""

    column_bytes = content.COLUMN // 2

    def __init__(self, path: Path) -> None:
        self.path = path
        with pa.OSFile(os.fsencode(path)) as source:
            self.schema = pa.ipc.open_file(source).schema
        self.names = list(self.schema.names)
        rows = [batch.num_rows for batch in self.blocks([0])] if len(self.schema) else []
        self.n_rows = sum(rows)
        self.batch = max(rows, default=1)

    def blocks(self, columns: list[int], rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield some columns, all their rows or the first `rows`, in batches."""
        options = pa.ipc.IpcReadOptions(included_fields=columns)
        names = [self.names[j] for j in columns]
        with pa.OSFile(os.fsencode(self.path), memory_pool=content.POOL) as source:
            reader = pa.ipc.open_file(source, options=options, memory_pool=content.POOL)
            for i in range(reader.num_record_batches):
                batch = reader.get_batch(i)
                batch.validate(full=False)
                if batch.schema.names != names:  # to select takes time for every column
                    batch = batch.select(names)
                yield batch.slice(0, rows) if rows else batch

    def stream(self, columns: list[int], rows: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Yield some columns in the batches of the file."""
        return self.blocks(columns)

    def stream_memory(self, d: int, rows: int) -> int:  # noqa: ARG002
        """Return about the bytes that streaming d columns takes."""
        return 2 * 8 * self.batch * d + self.column_bytes * d


class _Batches:
    """The rows of a file, batch after batch."""

    def __init__(self, file: Parquet | ArrowFile, columns: list[int]) -> None:
        self.n = file.n_rows
        self.batches = file.stream(columns, block_rows(len(columns)))
        self.batch: pa.RecordBatch | None = None
        self.used = 0  # rows of the batch

    def __call__(self, start: int, stop: int, out: FloatArray) -> None:
        """Fill in the next rows."""
        row = 0
        while row < stop - start:
            if self.batch is None or self.used == self.batch.num_rows:
                self.batch, self.used = next(self.batches, None), 0
                if self.batch is None:
                    raise _too_few(self.n, start + row)
            take = min(stop - start - row, self.batch.num_rows - self.used)
            for j in range(out.shape[1]):
                values = arrow_floats(self.batch.column(j).slice(self.used, take))
                # A column of text is among them only if it is left out afterwards.
                out[row : row + take, j] = 0.0 if values is None else values
            row, self.used = row + take, self.used + take
        if stop == self.n:
            more = self.batch is not None and self.used < self.batch.num_rows
            if more or any(batch.num_rows for batch in self.batches):
                raise content.changed()
            self.batch = None


def _too_few(n: int, row: int) -> DataError:
    return DataError(f"the file says that it has {n} rows, but holds {row}; it is damaged.")


def read_columns(
    file: Parquet | ArrowFile,
    memory_limit: float | str | None,
    covariance: bool,
    row_labels: Choice = "auto",
    wanted: Collection[str] = (),
    copies: int = 1,
    words: Sequence[str] = (),
) -> Content:
    """Read the columns of numbers, or their rows where they do not fit so many times into memory.

    The index of a pandas frame is no data, unless it is said. Of columns whose names match those
    `wanted` the values are kept, if they are no numbers. Cells of text that hold one of the `words`
    are missing.
    """
    all_names, types, n = file.names, file.schema.types, file.n_rows
    if n < 0:
        raise DataError(f"the file says that it has {n} rows; it is damaged. Write it again.")
    checked_names(all_names, len(all_names))  # columns are read by name
    index = set(pandas_index(file.schema))
    levels = [name for name in all_names if name in index]
    kinds = dict(zip(all_names, types))
    if row_labels is False and not covariance:
        index -= {name for name in levels if holds_numbers(kinds[name]) and not is_unnamed(name)}
    left_out = [name for name in levels if name in index]
    if len(left_out) == 1 and is_unnamed(left_out[0]) and kinds[left_out[0]] == pa.int64():
        at = all_names.index(left_out[0])
        blocks = (batch.column(0).to_numpy(zero_copy_only=False) for batch in file.blocks([at]))
        left_out = [] if counts_rows(blocks) else left_out
    labels, inside = None, True
    beside = [j for j, name in enumerate(all_names) if name in index]
    kept = [j for j, name in enumerate(all_names) if name not in index]
    d = len(kept)
    if covariance and n <= d + 1:
        for at in beside[:1] or kept[:1]:
            kind = types[at]
            if pa.types.is_string(kind) or pa.types.is_large_string(kind):
                cells = [
                    cell for batch in file.blocks([at]) for cell in batch.column(0).to_pylist()
                ]
                labels, inside = [(cell or "").strip() for cell in cells], not beside
    # Parquet keeps the values of categories, and pandas notes what they are.
    named = set(pandas_categories(file.schema))
    numbers = [
        k for k in range(d) if holds_numbers(types[kept[k]]) and all_names[kept[k]] not in named
    ]
    others = np.setdiff1d(np.arange(d), numbers).tolist()
    names = [all_names[j] for j in kept]
    notes = _index_notes(left_out, row_labels) if left_out and not covariance else []
    if not covariance and is_one_pass(n, d, memory_limit, 0, copies):
        stream = file.stream_memory(d, block_rows(d))
        if is_one_pass(n, d, memory_limit, stream, copies):
            text = {k: TextColumn(_example(file, kept[k])) for k in others}
            rows = Rows(n, d, _Batches(file, kept), stream)
            return Content(np.empty((0, d)), names, kept, True, text, notes, rows=rows)
    step = max(1, content.BLOCK // (8 * max(1, min(n, file.batch))))
    # What Arrow decodes, and its bytes as they are in the file.
    block = 6 * 8 * min(n, file.batch) * min(step, d) + file.column_bytes * d
    content.require_table(n, d, block, memory_limit)
    X = content.new_matrix(n, d)
    decoded = 0
    for k in list(others) if words else []:
        kind = types[kept[k]]
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            continue
        cells = pa.chunked_array([batch.column(0) for batch in file.blocks([kept[k]])], kind)
        left, count = without_words(cells, words)
        decoded += count
        if left.type == pa.float64():
            X[:, k] = left.to_numpy()
            others.remove(k)
    text = {k: TextColumn(_example(file, kept[k])) for k in others}
    for k in others:
        if matches(all_names[kept[k]], wanted):
            text[k].values = _values(file, kept[k], n)
    for start in range(0, len(numbers), step):
        part = numbers[start : start + step]
        row = 0
        for batch in file.blocks([kept[k] for k in part]):
            stop = row + batch.num_rows
            if stop > n:
                raise content.changed()
            for i, k in enumerate(part):
                X[row:stop, k] = arrow_floats(batch.column(i))
            row = stop
        if row != n:
            raise _too_few(n, row)
    return Content(
        X, names, kept, bool(d), text, notes, labels=labels, labels_inside=inside, decoded=decoded
    )


def _index_notes(levels: list[str], row_labels: Choice) -> list[str]:
    what = f"the index that pandas noted in the file ({index_names(levels)}) was left out"
    unnamed = [is_unnamed(name) for name in levels]
    if row_labels is False:
        return [f"{what}, for it {'has no name or ' if any(unnamed) else ''}holds no numbers."]
    if all(unnamed):
        return [f"{what}. If it holds data, give it a name and write the file again."]
    return [f"{what}. Pass row_labels=False (--no-row-labels) to keep its columns of numbers."]


def _values(file: Parquet | ArrowFile, column: int, n: int) -> npt.NDArray[np.object_]:
    """Return the values of a column that holds no numbers."""
    values = np.empty(n, dtype=object)
    row = 0
    for batch in file.blocks([column]):
        stop = row + batch.num_rows
        if stop > n:
            raise content.changed()
        values[row:stop] = batch.column(0).to_pylist()
        row = stop
    return values


def _example(file: Parquet | ArrowFile, column: int) -> tuple[int, Any]:
    """Return a row and its value, or the categories, of a column that holds no numbers."""
    for batch in file.blocks([column], rows=1000):
        values = batch.column(0)
        if holds_numbers(values.type):
            return 1, Categories(values.unique().to_pylist())
        return best_example(arrow_values(pa.chunked_array([values])))
    return 1, None
