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
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from bigdag.data import Dataset, checked_dataset, is_number
from bigdag.errors import DataError, DataWarning, ParameterError

__all__ = ["read_table"]

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
    if header not in (True, False, "auto"):
        raise ParameterError(f"header must be True, False or 'auto'. Got {header!r} instead.")
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path} is a directory; give a file that ends in {_SUFFIXES}.")
    if not path.exists():
        raise DataError(f"There is no file {path}. Check the spelling and the working directory.")
    suffix = path.suffix.lower()
    inner = path.with_suffix("").suffix.lower() if suffix == ".gz" else suffix
    try:
        if inner in _TEXT:
            table, named = _read_text(path, inner, header)
            return replace(checked_dataset(table), named=named)
        if suffix in (".parquet", ".pq"):
            # ParquetFile reads this file only; read_table would add columns from folder names.
            return checked_dataset(pq.ParquetFile(path).read())
        if suffix in (".feather", ".arrow"):
            with pa.memory_map(str(path)) as source:
                return checked_dataset(pa.ipc.open_file(source).read_all())
        if suffix in (".npy", ".npz"):
            return checked_dataset(*_read_numpy(path))
        raise DataError(f"the suffix {suffix!r} is not known. Known are {_SUFFIXES}.")
    except DataError as err:
        raise type(err)(f"{path}: {err}") from None
    except (OSError, EOFError, ValueError, zlib.error, pa.ArrowException, csv.Error) as err:
        reason = " ".join(str(err).split())[:300].rstrip(".")
        raise DataError(
            f"{path}: the file cannot be read as {suffix}: {reason}. "
            "It may be damaged, or its suffix may not say what it is."
        ) from err


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


def _read_text(path: Path, suffix: str, header: bool | Literal["auto"]) -> tuple[pa.Table, bool]:
    """Read a table of numbers, and of text where a column has any; tell whether it has names."""
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
                stacklevel=3,
            )
    begin = stop if header else start
    labelled = bool(header) and len(cells) > 1 and cells[0] in _INDEX_HEADERS
    if not _first_line(data, begin)[0]:
        raise DataError(f"the file has a header of {len(cells)} names, but no rows (0 sample(s)).")
    table = _parse(data, begin, separator, len(cells), labelled)
    # Renamed only now: the names need not be unique, and rows are parsed by place.
    table = table.rename_columns([(header and cell) or f"x{j}" for j, cell in enumerate(cells)])
    if labelled and _are_row_labels(table.column(0)):
        warnings.warn(
            f"{path}: the first column has no name and holds row labels; it was left out.",
            DataWarning,
            stacklevel=3,
        )
        table = table.remove_column(0)
    elif labelled:
        table = table.set_column(0, table.field(0).name, _parse_column(table.column(0)))
    return table, bool(header)


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


def _parse(data: bytes | mmap.mmap, begin: int, separator: str, d: int, labelled: bool) -> pa.Table:
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
        return read({**types, "0": pa.string()} if labelled else types)
    except pa.ArrowInvalid:
        pass  # ragged, or some cell is not plainly a number
    try:
        table = read(dict.fromkeys(names, pa.string()))
    except pa.ArrowInvalid as err:
        _refuse_ragged(data, separator, d)
        raise DataError(f"the file cannot be read as text columns: {err}") from err
    first = [table.column(0)] if labelled else []
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
    cells = [(cell or "").strip() for cell in column.to_pylist()]
    counted = [str(i) for i in range(len(cells) + 1)]
    if cells in (counted[:-1], counted[1:]):
        return True
    return _hold_text(cells)


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
