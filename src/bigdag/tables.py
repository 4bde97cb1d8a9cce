"""Tables in files become a `Dataset`: text, Parquet, Arrow and NumPy files, known by suffix."""

from __future__ import annotations

import csv
import gzip
import io
import mmap
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from bigdag.data import Dataset, checked_covariance, checked_dataset, is_number
from bigdag.errors import DataError, DataWarning, ParameterError

__all__ = ["read_covariance", "read_table"]

_MISSING = [*pacsv.ConvertOptions().null_values, "None"]
_INDEX_HEADERS = ("", "Unnamed: 0")  # what pandas and R write above row labels
_TEXT = {".csv": "\t;,", ".tsv": "\t", ".txt": "\t;, "}  # suffix: separators, in the order tried
_SUFFIXES = ".csv, .tsv, .txt (each also with .gz), .parquet, .pq, .feather, .arrow, .npy and .npz"


def read_table(path: str | Path, header: bool | Literal["auto"] = "auto") -> Dataset:
    r"""Read a file by its suffix, check it and centre it.

    Parameters
    ----------
    path : str or Path
        A file that ends in .csv, .tsv or .txt (each also with .gz), .parquet, .pq, .feather,
        .arrow, .npy or .npz. An NPZ file holds one 2-D array and, if wanted, an array `names`. The
        separator of a CSV or TXT file is found out.
    header : bool or "auto", default="auto"
        Whether the first line of a text file holds the names of the columns. "auto": it does if any
        of its cells is not a number.

    Returns
    -------
    Dataset
        As from `as_dataset`.

    Raises
    ------
    DataError
        If the file cannot be read or learnt from; the message says where and why.

    Warns
    -----
    DataWarning
        If columns are constant, or a first column without a name was left out as row labels.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "trial.csv")
    ...     _ = path.write_text("dose,pain\n1,5\n2,3\n3,1\n")
    ...     read_table(path).names
    ('dose', 'pain')
    """
    with _reading(path, header) as source:
        file = _load(source, header)
        table = file.table
        if file.unnamed and _are_row_labels(table.column(0)):
            warnings.warn(
                f"{path}: the first column has no name and holds row labels; it was left out.",
                DataWarning,
                stacklevel=2,
            )
            table = table.remove_column(0)
        elif file.unnamed:
            table = _with_first_parsed(table)
        data = checked_dataset(table, file.names)
        return replace(data, named=data.named and file.named)


def read_covariance(
    path: str | Path, n_samples: int, header: bool | Literal["auto"] = "auto"
) -> Dataset:
    r"""Read a covariance matrix by the file's suffix and check it; its numbers stay as written.

    Parameters
    ----------
    path : str or Path
        A file as for `read_table`, with a row and a column for each variable. The names come from
        the columns. A column of text that repeats them, first or as the index of pandas, is left
        out.
    n_samples : int
        The number of samples that the matrix was computed from, at least 2.
    header : bool or "auto", default="auto"
        As in `read_table`.

    Returns
    -------
    Dataset
        As from `Dataset.from_covariance`.

    Raises
    ------
    DataError
        If the file cannot be read or holds no covariance matrix, or if the rows have other names
        than the columns.

    Warns
    -----
    DataWarning
        If variances are zero, or a first column was left out as row labels.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "trial.csv")
    ...     _ = path.write_text("dose,pain\n1,-0.5\n-0.5,2\n")
    ...     read_covariance(path, n_samples=80).covariance
    array([[ 1. , -0.5],
           [-0.5,  2. ]])
    """
    with _reading(path, header) as source:
        file = _load(source, header)
        table, place, rows = file.table, _place_of_labels(file), None
        if place is not None:
            labels, table = table.column(place), table.remove_column(place)
            rows = _row_names(_stripped(labels), table.column_names)
            if place == 0:
                warnings.warn(
                    f"{path}: the first column holds row labels; it was left out.",
                    DataWarning,
                    stacklevel=2,
                )
        elif file.unnamed:
            table = _with_first_parsed(table)
        data = checked_covariance(table, n_samples, file.names, rows)
        return replace(data, named=data.named and file.named)


class _File(NamedTuple):
    """What a file holds, not checked yet."""

    table: Any  # pa.Table or array
    names: list[str] | None = None  # where the table itself holds none
    named: bool = True  # False where the names in the table are made up
    unnamed: bool = False  # whether the first column has no name, and was left as text


@contextmanager
def _reading(path: str | Path, header: bool | Literal["auto"]) -> Iterator[Path]:
    """Check that there is a file; put its path before every error of what is in it."""
    if header not in (True, False, "auto"):
        raise ParameterError(f"header must be True, False or 'auto'. Got {header!r} instead.")
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path} is a directory; give a file that ends in {_SUFFIXES}.")
    if not path.exists():
        raise DataError(f"There is no file {path}. Check the spelling and the working directory.")
    try:
        yield path
    except DataError as err:
        raise type(err)(f"{path}: {err}") from None
    except (OSError, EOFError, ValueError, zlib.error, pa.ArrowException, csv.Error) as err:
        reason = " ".join(str(err).split())[:300].rstrip(".")
        raise DataError(
            f"{path}: the file cannot be read as {path.suffix.lower()}: {reason}. "
            "It may be damaged, or its suffix may not say what it is."
        ) from err


def _load(path: Path, header: bool | Literal["auto"]) -> _File:
    """Read a file by its suffix; warnings point at the caller of the function that calls this."""
    suffix = path.suffix.lower()
    inner = path.with_suffix("").suffix.lower() if suffix == ".gz" else suffix
    if inner in _TEXT:
        return _read_text(path, inner, header)
    if suffix in (".parquet", ".pq"):
        # ParquetFile reads this file only; read_table would add columns from folder names.
        return _File(pq.ParquetFile(path).read())
    if suffix in (".feather", ".arrow"):
        with pa.memory_map(str(path)) as source:
            return _File(pa.ipc.open_file(source).read_all())
    if suffix in (".npy", ".npz"):
        return _File(*_read_numpy(path))
    raise DataError(f"the suffix {suffix!r} is not known. Known are {_SUFFIXES}.")


def _with_first_parsed(table: pa.Table) -> pa.Table:
    return table.set_column(0, table.field(0).name, _parse_column(table.column(0)))


def _place_of_labels(file: _File) -> int | None:
    """Return which column of a covariance table labels its rows: pandas' index, or the first."""
    table = file.table
    if not isinstance(table, pa.Table) or not table.num_columns:
        return None
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    place = next((j for j, name in enumerate(table.column_names) if name in index), None)
    column = table.column(place or 0)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return None
    if (
        place is not None
        or table.num_columns == table.num_rows + 1
        or (file.unnamed and _are_row_labels(column))
    ):
        return place or 0
    return None


def _row_names(labels: list[str], names: list[str]) -> list[str] | None:
    """Return the names of a covariance table's rows; None where the labels only count the rows."""
    if len(labels) != len(names) or (_are_counted(labels) and set(labels) != set(names)):
        return None  # a table that is not square is refused for that
    # A name like NA was read as a gap.
    return [label or (name if name in _MISSING else "") for label, name in zip(labels, names)]


def _read_numpy(path: Path) -> tuple[npt.NDArray[Any], list[str] | None]:
    """Read the table of an NPY or NPZ file, and the names that an NPZ file may hold."""
    try:
        if path.suffix.lower() == ".npy":
            return np.load(path, mmap_mode="r", allow_pickle=False), None
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as err:
        raise DataError(
            f"the file is no {path.suffix} file, is damaged, or holds Python objects (pickles), "
            "which are never loaded. Save an array of numbers with numpy.save or numpy.savez."
        ) from err
    labels = arrays.pop("names", None)
    tables = [key for key, array in arrays.items() if array.ndim == 2]
    if len(tables) != 1:
        held = ", ".join(f"{key!r} {array.shape}" for key, array in arrays.items()) or "no array"
        raise DataError(
            "an NPZ file must hold one 2-D array and, if wanted, an array 'names'. "
            f"This one holds {held}."
        )
    table = arrays[tables[0]]
    if labels is None:
        return table, None
    if labels.dtype.kind != "U" or labels.shape != table.shape[1:]:
        raise DataError(
            f"the array 'names' must hold {table.shape[1]} strings, one a column. "
            f"Got shape {labels.shape} and dtype {labels.dtype} instead."
        )
    return table, labels.tolist()


def _read_text(path: Path, suffix: str, header: bool | Literal["auto"]) -> _File:
    """Read a table of numbers, and of text where a column has any."""
    data: bytes | mmap.mmap
    if path.suffix.lower() == ".gz":
        with gzip.open(path) as stream:
            data = stream.read()
    else:
        with path.open("rb") as file:
            # Mapped, so that the text takes no memory beside the numbers.
            data = (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
            )
    line, start, stop = _first_line(data, 3 if data[:3] == b"\xef\xbb\xbf" else 0)
    if not line:
        raise DataError("the file is empty; it needs a line of numbers for each sample.")
    separator = _separator(line, _first_line(data, stop)[0], _TEXT[suffix])
    if separator == " ":  # columns may be aligned with any number of spaces
        data = re.sub(rb" ?(\r?\n|$) ?", rb"\1", re.sub(rb"[ \t]+", b" ", bytes(data))).lstrip(b" ")
        line, start, stop = _first_line(data, 0)
    cells = [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]
    counted = [str(j) for j in range(len(cells))]
    if header == "auto":
        header = cells == ["", *counted[:-1]] or _hold_text(cells)
        if not header and len(cells) > 2 and cells == counted:
            warnings.warn(
                f"{path}: the first line reads 0, 1, 2, ... like column numbers, and was taken as "
                "data. Pass header=True if it is not.",
                DataWarning,
                stacklevel=4,
            )
    begin = stop if header else start
    unnamed = bool(header) and len(cells) > 1 and cells[0] in _INDEX_HEADERS
    if not _first_line(data, begin)[0]:
        raise DataError(f"the file has a header of {len(cells)} names, but no rows (0 sample(s)).")
    table = _parse(data, begin, separator, len(cells), unnamed)
    # Renamed only now: the names need not be unique, and rows are parsed by place.
    table = table.rename_columns([(header and cell) or f"x{j}" for j, cell in enumerate(cells)])
    return _File(table, named=bool(header), unnamed=unnamed)


def _first_line(data: bytes | mmap.mmap, start: int) -> tuple[str, int, int]:
    """Return the first line from `start` that is not blank, and where it starts and stops."""
    while start < len(data):
        stop = data.find(b"\n", start) + 1 or len(data)
        line = data[start:stop]
        while line.count(b'"') % 2 and stop < len(data):  # a quoted name goes on in the next line
            stop = data.find(b"\n", stop) + 1 or len(data)
            line = data[start:stop]
        if line.strip(b" \r\n"):
            try:
                return line.decode("utf-8").strip("\r\n"), start, stop
            except UnicodeDecodeError:
                raise DataError("the file is not UTF-8 text. Save it as CSV in UTF-8.") from None
        start = stop
    return "", start, start


def _separator(first: str, second: str, candidates: str) -> str:
    """Find the separator that the first two lines agree on, else the commonest in the first."""
    bare = [re.sub(r'"[^"]*"', "", line).strip(" ") for line in (first, second)]
    counts = [
        [len(re.findall(re.escape(c) + "+" * (c == " "), line)) for line in bare]
        for c in candidates
    ]
    for separator, (above, below) in zip(candidates, counts):
        if above and (above == below or not second):
            return separator
    best = max(range(len(candidates)), key=lambda k: counts[k][0])
    return candidates[best] if counts[best][0] or "," not in candidates else ","


def _parse(data: bytes | mmap.mmap, begin: int, separator: str, d: int, unnamed: bool) -> pa.Table:
    """Parse the rows from `begin` on into d columns: numbers, else text where there is text."""
    names = [str(j) for j in range(d)]
    line = len(_first_line(data, begin)[0])
    options = {
        # Large blocks: a row must fit into one, and each costs something for every column.
        "read_options": pacsv.ReadOptions(
            column_names=names, block_size=min(2**31 - 1, max(2**26, 16 * line))
        ),
        "parse_options": pacsv.ParseOptions(delimiter=separator),
    }

    def read(types: dict[str, pa.DataType]) -> pa.Table:
        convert = pacsv.ConvertOptions(
            column_types=types, null_values=_MISSING, strings_can_be_null=True
        )
        source = pa.BufferReader(pa.py_buffer(memoryview(data)[begin:]))
        return pacsv.read_csv(source, convert_options=convert, **options)

    types = dict.fromkeys(names, pa.float64())
    try:
        return read({**types, "0": pa.string()} if unnamed else types)
    except pa.ArrowInvalid:
        pass  # ragged, or some cell is not plainly a number
    try:
        table = read(dict.fromkeys(names, pa.string()))
    except pa.ArrowInvalid as err:
        _refuse_ragged(data, separator, d)
        raise DataError(f"the file cannot be read as text columns: {err}") from err
    first = [table.column(0)] if unnamed else []
    rest = [_parse_column(table.column(j)) for j in range(len(first), d)]
    return pa.table(first + rest, names=names)


def _parse_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Turn a column of text into numbers or truth values; return it as it is where that fails."""
    text = pc.utf8_trim_whitespace(column)
    text = pc.if_else(
        pc.is_in(text, value_set=pa.array(_MISSING)), pa.scalar(None, pa.string()), text
    )
    truth = pc.is_in(pc.utf8_lower(text), value_set=pa.array(["true", "false"]))
    if pc.all(pc.or_(truth, pc.is_null(text))).as_py() and pc.any(truth).as_py():
        return pc.equal(pc.utf8_lower(text), "true")
    try:
        return pc.utf8_ltrim(text, "+").cast(pa.float64())
    except pa.ArrowInvalid:
        return text


def _are_row_labels(column: pa.ChunkedArray) -> bool:
    """Whether a column of text holds labels: words, or the numbers 0 to n - 1 or 1 to n."""
    cells = _stripped(column)
    return _are_counted(cells) or _hold_text(cells)


def _stripped(column: pa.ChunkedArray) -> list[str]:
    return [(cell or "").strip() for cell in column.to_pylist()]


def _are_counted(cells: list[str]) -> bool:
    """Whether the cells are the numbers 0 to n - 1 or 1 to n."""
    counted = [str(i) for i in range(len(cells) + 1)]
    return cells in (counted[:-1], counted[1:])


def _hold_text(cells: Iterable[str]) -> bool:
    """Whether some cell is neither a number nor missing."""
    return not all(cell in _MISSING or is_number(cell) for cell in cells)


def _refuse_ragged(data: bytes | mmap.mmap, separator: str, d: int) -> None:
    """Raise the error for the first line that has not d cells, if there is one."""
    stream = io.BytesIO(data) if isinstance(data, bytes) else data
    stream.seek(0)
    lines = (line.decode("utf-8", "replace") for line in iter(stream.readline, b""))
    reader = csv.reader(lines, delimiter=separator)
    for cells in reader:
        if cells and len(cells) != d:
            raise DataError(
                f"line {reader.line_num} has {len(cells)} cell{'s' * (len(cells) > 1)}, expected "
                f"{d} as in the first line. Every line must have the same number of cells."
            )
