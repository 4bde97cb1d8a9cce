"""Tables in Parquet, Feather and Arrow files, read some columns at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bigdag.data import content
from bigdag.data.content import Choice, Content, TextColumn
from bigdag.data.convert import (
    Categories,
    arrow_floats,
    arrow_values,
    best_example,
    holds_numbers,
    pandas_categories,
    pandas_index,
)
from bigdag.data.labels import is_unnamed
from bigdag.data.names import checked_names
from bigdag.errors import DataError, few_names

__all__ = ["ArrowFile", "Parquet", "read_columns"]


class Parquet:
    """A Parquet file, alone: folder names add no columns."""

    column_bytes = content.COLUMN

    def __init__(self, path: Path) -> None:
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


def read_columns(
    file: Parquet | ArrowFile,
    memory_limit: float | str | None,
    covariance: bool,
    row_labels: Choice = "auto",
) -> Content:
    """Read the columns of numbers; the index of a pandas frame is no data, unless it is said."""
    all_names, types, n = file.names, file.schema.types, file.n_rows
    if n < 0:
        raise DataError(f"the file says that it has {n} rows; it is damaged. Write it again.")
    checked_names(all_names, len(all_names))  # columns are read by name
    index = set(pandas_index(file.schema))
    named_levels = [name for name in all_names if name in index and not is_unnamed(name)]
    if row_labels is False and not covariance:
        kinds = dict(zip(all_names, types))
        index -= {name for name in named_levels if holds_numbers(kinds[name])}
    left_out = [name for name in named_levels if name in index]
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
    step = max(1, content.BLOCK // (8 * max(1, min(n, file.batch))))
    # What Arrow decodes, and its bytes as they are in the file.
    block = 6 * 8 * min(n, file.batch) * min(step, d) + file.column_bytes * d
    content.require_table(n, d, block, memory_limit)
    X = content.new_matrix(n, d)
    # Parquet keeps the values of categories, and pandas notes what they are.
    named = set(pandas_categories(file.schema))
    numbers = [
        k for k in range(d) if holds_numbers(types[kept[k]]) and all_names[kept[k]] not in named
    ]
    others = np.setdiff1d(np.arange(d), numbers).tolist()
    text = {k: TextColumn(_example(file, kept[k])) for k in others}
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
            raise DataError(f"the file says that it has {n} rows, but holds {row}; it is damaged.")
    names = [all_names[j] for j in kept]
    notes = _index_notes(left_out, row_labels) if left_out and not covariance else []
    return Content(X, names, kept, bool(d), text, notes, labels=labels, labels_inside=inside)


def _index_notes(levels: list[str], row_labels: Choice) -> list[str]:
    what = f"the index that pandas noted in the file ({few_names(levels)}) was left out"
    if row_labels is False:
        return [f"{what}, for it holds no numbers."]
    return [f"{what}. Pass row_labels=False (--no-row-labels) to keep its columns of numbers."]


def _example(file: Parquet | ArrowFile, column: int) -> tuple[int, Any]:
    """Return a row and its value, or the categories, of a column that holds no numbers."""
    for batch in file.blocks([column], rows=1000):
        values = batch.column(0)
        if holds_numbers(values.type):
            return 1, Categories(values.unique().to_pylist())
        return best_example(arrow_values(pa.chunked_array([values])))
    return 1, None
