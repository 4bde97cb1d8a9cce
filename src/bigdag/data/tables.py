"""Tables in files become a `Dataset`: text, Parquet, Arrow and NumPy files, known by suffix.

What is about to be made is compared with the memory limit before it is made. Every file is read in
blocks straight into the matrix that the Dataset keeps, so that its numbers are in memory once, and
none is mapped: a file that changes while it is read gives an error, not a crash. Arrow is handed
only memory that it owns, since its threads may outlive the interpreter.
"""

from __future__ import annotations

import csv
import errno
import io
import os
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from bigdag.data.dataset import (
    Categories,
    Dataset,
    arrow_floats,
    arrow_values,
    centred_dataset,
    check_row_names,
    checked_names,
    covariance_dataset,
    default_names,
    holds_numbers,
    is_number,
    matrix_of,
    pandas_categories,
    pandas_index,
    refuse_columns,
    telling,
)
from bigdag.errors import DataError, DataWarning, MemoryLimitError, ParameterError
from bigdag.resources import require_memory

__all__ = ["read_covariance", "read_table"]

Choice = bool | Literal["auto"]

_MISSING = [*pacsv.ConvertOptions().null_values, "None"]
# What pandas, Arrow and R's readr write above a column without a name.
_UNNAMED = re.compile(r"|Unnamed: \d+(\.\d+)?(_level_\d+)?|__index_level_\d+__|\.\.\.\d+")
_TEXT = {".csv": "\t;,", ".tsv": "\t", ".txt": "\t;, "}  # suffix: separators, in the order tried
_SUFFIXES = ".csv, .tsv, .txt (each also with .gz), .parquet, .pq, .feather, .arrow, .npy and .npz"
_BLOCK = 2**24  # bytes of a file that are worked on at a time
_COLUMN = 2**12  # bytes that a reader of Arrow takes for each column
_LONGEST_LINE = 2**30  # bytes
_SAMPLE = 50  # lines that a header is compared with
_POOL = pa.system_memory_pool()  # others keep for themselves what was given back
_HEADER_WORDS = "header=True or header=False (--header or --no-header)"


def read_table(
    path: str | Path,
    header: Choice = "auto",
    row_labels: Choice = "auto",
    memory_limit: float | str | None = None,
) -> Dataset:
    r"""Read a file by its suffix, check it and centre it.

    Parameters
    ----------
    path : str or Path
        A file that ends in .csv, .tsv or .txt (each also with .gz), .parquet, .pq, .feather,
        .arrow, .npy or .npz. An NPZ file holds one 2-D array and, if wanted, an array `names`. The
        separator of a CSV or TXT file is found out.
    header : bool or "auto", default="auto"
        Whether the first line of a text file holds the names of the columns. "auto": it does if any
        of its cells is text, and it does, with a warning, if it holds different whole numbers in
        quotation marks or above measured numbers. Whole numbers above whole numbers that look like
        names, such as years, are refused.
    row_labels : bool or "auto", default="auto"
        Whether the first column holds labels of the rows, and is left out. "auto": columns that
        have no name (or "Unnamed: 0" and the like) and hold text or different whole numbers are
        left out, with a warning; other columns without a name are refused. False: every column
        holds data. A column that pandas noted as its index in a Parquet or Feather file is left
        out always.
    memory_limit : float or str, optional
        What the whole process may hold, in bytes or as in "4GB"; by default what the machine can
        spare.

    Returns
    -------
    Dataset
        As from `as_dataset`.

    Raises
    ------
    DataError
        If the file cannot be read or learnt from; the message says where and why.
    MemoryLimitError
        If the table would need more than the limit; raised before it is made.

    Warns
    -----
    DataWarning
        If columns are constant or copies of each other, if columns were left out as row labels, or
        if a first line of numbers was taken as a header.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "trial.csv")
    ...     _ = path.write_text("dose,pain\n1,5\n2,2\n3,1\n")
    ...     read_table(path).names
    ('dose', 'pain')
    """
    with _reading(path, header, row_labels) as source:
        file = _load(source, header, memory_limit)
        file, left_out = _without_row_labels(file, row_labels)
        for note in [*file.notes, *left_out]:
            warnings.warn(f"{path}: {note}", DataWarning, stacklevel=2)
        # Its own label is that of the place in the file, where a column has none.
        return centred_dataset(file.matrix(), *file.final_names())


def read_covariance(
    path: str | Path,
    n_samples: int,
    header: Choice = "auto",
    memory_limit: float | str | None = None,
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
        As in `read_table`; a first line of numbers is a header if the matrix is square without it.
    memory_limit : float or str, optional
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
    MemoryLimitError
        If the matrix would need more than the limit; raised before it is made.

    Warns
    -----
    DataWarning
        If variances are zero, if a first column was left out as row labels, or if a first line of
        numbers was taken as a header.

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
        file = _load(source, header, memory_limit, covariance=True)
        notes = file.notes
        if file.labels is not None and _labels_rows(file):
            labels, inside = file.labels, file.labels_inside
            file = file.without([0]) if inside else file
            rows = _row_names(labels, file.names)
            if rows is not None:
                check_row_names(rows, file.names)
            if inside:
                notes = [*notes, "the first column holds row labels; it was left out."]
        for note in notes:
            warnings.warn(f"{path}: {note}", DataWarning, stacklevel=2)
        return covariance_dataset(file.matrix(), n_samples, *file.final_names())


class _File(NamedTuple):
    """What a file holds, not checked yet."""

    X: npt.NDArray[np.float64]  # (n, d), Fortran order, own memory; columns of text are not filled
    names: list[str]  # as in the file; "" where it has none
    places: list[int]  # of the columns in the file
    named: bool  # False where the file has no names at all
    text: dict[int, _TextColumn]  # the columns that hold text or other things that are no numbers
    notes: list[str]  # what the user should know of
    lines: bool = False  # whether it is a text file
    labels: list[str] | None = None  # of the rows, as text, where a covariance matrix may have them
    labels_inside: bool = True  # whether they are the first column; else an index beside the table

    def without(self, columns: list[int]) -> _File:
        """Leave columns out; X changes."""
        kept = [j for j in range(len(self.names)) if j not in columns]
        X = self.X
        for new, old in enumerate(kept):
            if new != old:  # in place: a copy would take the memory twice
                X[:, new] = X[:, old]
        return self._replace(
            X=X[:, : len(kept)],
            names=[self.names[j] for j in kept],
            places=[self.places[j] for j in kept],
            text={new: self.text[old] for new, old in enumerate(kept) if old in self.text},
        )

    def matrix(self) -> npt.NDArray[np.float64]:
        """Return X, or refuse it where a column holds text."""
        if self.text:
            names, _ = self.final_names(check=False)
            refuse_columns(sorted(self.text), names, lambda j: self.text[j].example)
        return self.X

    def final_names(self, check: bool = True) -> tuple[tuple[str, ...], bool]:
        if not self.named:
            return default_names(len(self.names)), False
        names = tuple(name or f"x{j}" for name, j in zip(self.names, self.places))
        return checked_names(None, names, len(names)) if check else (names, True)


class _TextColumn:
    """What is known of a column that does not hold numbers."""

    def __init__(self, example: tuple[int, Any], texts: int = 1, cells: int = 1) -> None:
        self.example = example  # a row, from 1, and its value
        self.texts, self.cells = texts, cells  # cells that are no numbers, and that are not missing


@contextmanager
def _reading(path: str | Path, header: Choice, row_labels: Choice = "auto") -> Iterator[Path]:
    """Check that there is a file; put its path before every error of what is in it."""
    for name, value in (("header", header), ("row_labels", row_labels)):
        if not isinstance(value, bool) and value != "auto":
            raise ParameterError(f"{name} must be True, False or 'auto'. Got {value!r} instead.")
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path} is a directory; give a file that ends in {_SUFFIXES}.")
    if not path.exists():
        raise DataError(f"There is no file {path}. Check the spelling and the working directory.")
    if not path.is_file():
        raise DataError(f"{path} is a pipe or a device; give a file that ends in {_SUFFIXES}.")
    try:
        yield path
    except MemoryLimitError as err:
        raise MemoryLimitError(f"{path}: {err}") from None
    except MemoryError as err:  # of Arrow and NumPy
        reason = " ".join(str(err).split())[:300].rstrip(".")
        raise MemoryLimitError(
            f"{path}: the memory is used up while the file is read ({reason}). "
            "Leave out rows or columns, or use a machine with more memory."
        ) from err
    except DataError as err:
        raise type(err)(f"{path}: {err}") from None
    except OSError as err:
        if err.errno in (errno.EACCES, errno.EPERM):
            raise DataError(f"{path}: there is no permission to read the file.") from None
        raise _damaged(path, err) from err
    except (EOFError, ValueError, zlib.error, pa.ArrowException, csv.Error) as err:
        raise _damaged(path, err) from err
    finally:
        for pool in (_POOL, pa.default_memory_pool()):
            pool.release_unused()


def _damaged(path: Path, err: Exception) -> DataError:
    reason = " ".join(str(err).split())[:300].rstrip(".")
    return DataError(
        f"{path}: the file cannot be read as {path.suffix.lower()}: {reason}. "
        "It may be damaged, or its suffix may not say what it is."
    )


def _load(
    path: Path, header: Choice, memory_limit: float | str | None, covariance: bool = False
) -> _File:
    """Read a file by its suffix; for a covariance matrix also the labels of its rows."""
    suffix = path.suffix.lower()
    inner = path.with_suffix("").suffix.lower() if suffix == ".gz" else suffix
    if inner in _TEXT:
        return _read_text(_TextFile(path, memory_limit), _TEXT[inner], header, covariance)
    if suffix in (".parquet", ".pq"):
        return _read_columns(_Parquet(path), memory_limit, covariance)
    if suffix in (".feather", ".arrow"):
        return _read_columns(_ArrowFile(path), memory_limit, covariance)
    if suffix == ".npy":
        return _read_npy(path, memory_limit)
    if suffix == ".npz":
        return _read_npz(path, memory_limit)
    raise DataError(f"the suffix {suffix!r} is not known. Known are {_SUFFIXES}.")


def _require(
    n: int, d: int, block: int, memory_limit: float | str | None, unit: str = "rows"
) -> None:
    """Refuse a matrix (n, d) that would go beyond the limit, with the blocks it is read in."""
    values = n * d
    checks = 3 * 8 * max(min(values, 2**20), n)  # what checking and centring takes for a while
    require_memory(
        8 * values + max(block, checks),
        f"a table of {n:,} {unit} and {d:,} columns",
        "Leave out rows or columns, or allow more memory.",
        memory_limit,
    )


def _matrix(n: int, d: int) -> npt.NDArray[np.float64]:
    try:
        return np.empty((n, d), order="F")
    except ValueError:  # NumPy's word for more bytes than there are addresses
        raise DataError(
            f"a table of {n:,} rows and {d:,} columns fits into no memory; the file is damaged."
        ) from None


# Row labels.


def _without_row_labels(file: _File, wanted: Choice) -> tuple[_File, list[str]]:
    """Leave out the columns that label the rows; also return what to tell of it."""
    if wanted is False:
        return file, []
    d = len(file.names)
    if wanted is True:
        if d < 2:
            raise DataError("the table has one column only, which cannot be left out as labels.")
        return file.without([0]), []
    if d < 2 or not (file.named or file.lines):
        return file, []
    if not file.named:  # no column has a name; a count of the rows is told by itself
        if 0 in file.text or not _counts(file.X[:, 0]):
            return file, []
        return file.without([0]), [_left_out("the first column counts the rows")]
    left_out: list[int] = []
    for j in [j for j, name in enumerate(file.names) if _UNNAMED.fullmatch(name)]:
        if j in file.text:
            column = file.text[j]
            if j == len(left_out) and 2 * column.texts >= column.cells:
                left_out.append(j)
        elif _are_labels(file.X[:, j]):
            left_out.append(j)
        elif not np.isnan(file.X[:, j]).all():
            name = f" (it is called {file.names[j]!r})" if file.names[j] else ""
            choice = "row_labels=True (--row-labels) if it labels the rows, and " if j == 0 else ""
            raise DataError(
                f"column {file.places[j] + 1} has no name{name}, and it cannot be told whether it "
                f"holds data: its values are not the different whole numbers of row labels "
                f"(row 1: {file.X[0, j]:.6g}). Give it a name in the file, or pass {choice}"
                "row_labels=False (--no-row-labels) if it holds data."
            )
    if not left_out:
        return file, []
    places = [str(j + 1) for j in left_out]
    if left_out == [0]:
        what = "the first column has no name and holds row labels"
    elif len(places) == 1:
        what = f"column {places[0]} has no name and holds row labels"
    else:
        what = f"the columns {', '.join(places)} have no names and hold row labels"
    return file.without(left_out), [_left_out(what)]


def _left_out(what: str) -> str:
    many = "they were" if what.startswith("the columns") else "it was"
    return f"{what}; {many} left out. Pass row_labels=False (--no-row-labels) to keep all columns."


def _are_labels(values: npt.NDArray[np.float64]) -> bool:
    """Whether numbers can be row labels: whole, not negative, and all different."""
    if not (np.isfinite(values).all() and (values >= 0).all() and (values % 1 == 0).all()):
        return False
    return len(np.unique(values)) == len(values)


def _counts(values: npt.NDArray[np.float64]) -> bool:
    """Whether numbers are 0 to n - 1 or 1 to n, of three rows at least."""
    n = len(values)
    return n > 2 and values[0] in (0.0, 1.0) and bool((values - values[0] == np.arange(n)).all())


def _labels_rows(file: _File) -> bool:
    """Whether the labels that were read are those of a covariance table's rows."""
    n, d = file.X.shape
    labels = file.labels
    assert labels is not None
    if not file.labels_inside or d == n + 1:
        return True
    unnamed = file.named and _UNNAMED.fullmatch(file.names[0]) is not None and d > 1
    return unnamed and (_are_counted(labels) or _hold_text(labels))


def _row_names(labels: list[str], names: list[str]) -> list[str] | None:
    """Return the names of a covariance table's rows; None where the labels only count the rows."""
    if len(labels) != len(names) or (_are_counted(labels) and set(labels) != set(names)):
        return None  # a table that is not square is refused for that
    return labels


def _are_counted(cells: list[str]) -> bool:
    """Whether the cells are the numbers 0 to n - 1 or 1 to n."""
    counted = [str(i) for i in range(len(cells) + 1)]
    return cells in (counted[:-1], counted[1:])


def _hold_text(cells: Iterable[str]) -> bool:
    """Whether some cell is neither a number nor missing."""
    return not all(cell in _MISSING or is_number(cell) for cell in cells)


# Text: the first lines, the number of lines, and then the numbers, block by block.


class _Line(NamedTuple):
    text: str
    start: int  # in the file, in bytes
    stop: int


class _TextFile:
    """The text in a file, also in a compressed one, as a stream that Arrow owns."""

    def __init__(self, path: Path, memory_limit: float | str | None) -> None:
        self.path, self.memory_limit = path, memory_limit
        self.newline = b"\n"
        self.block_size = _BLOCK  # bytes that are parsed at a time

    def open(self, begin: int = 0) -> pa.NativeFile:
        stream = pa.OSFile(os.fsencode(self.path))
        if self.path.suffix.lower() == ".gz":
            stream = pa.CompressedInputStream(stream, "gzip")
        while begin:
            read = len(stream.read(min(begin, _BLOCK)))
            if not read:
                raise _changed()
            begin -= read
        return stream

    def first_lines(self) -> list[_Line]:
        """Return the first lines that are not blank: two at least, where there are so many."""
        data, size = b"", 2**18
        with self.open() as stream:
            while True:
                more = stream.read(size - len(data))
                data += more
                if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in more:
                    raise _not_utf8()
                ended = not more
                self.newline = b"\r" if b"\r" in data and b"\n" not in data else b"\n"
                # A line may end in \r\n, of which only the first may have been read.
                lines = self._lines(data if ended else data.rstrip(b"\r"), ended)
                if ended or len(lines) > 1:
                    return lines
                if len(data) >= _LONGEST_LINE:
                    raise DataError("the first line is longer than 1 GB; this is no table.")
                if len(data) == size:
                    size *= 2
                    require_memory(
                        3 * size, "its first line", "Check that it is a table.", self.memory_limit
                    )

    def _lines(self, data: bytes, ended: bool) -> list[_Line]:
        lines: list[_Line] = []
        start = 3 if data[:3] == b"\xef\xbb\xbf" else 0
        while start < len(data) and len(lines) <= _SAMPLE:
            stop = self._line_end(data, start, ended)
            if not stop:
                break
            line = data[start:stop]
            if line.strip(b" \r\n"):
                try:
                    lines.append(_Line(line.decode("utf-8").strip("\r\n"), start, stop))
                except UnicodeDecodeError:
                    raise _not_utf8() from None
            start = stop
        return lines

    def _line_end(self, data: bytes, start: int, ended: bool) -> int:
        """Return where a line stops, 0 if that is not known yet; a quoted name may hold breaks."""
        first = stop = data.find(self.newline, start) + 1
        quotes = data.count(b'"', start, stop or len(data))
        for _ in range(1000):
            if quotes % 2 == 0 or not stop:
                break
            stop, last = data.find(self.newline, stop) + 1, stop
            quotes += data.count(b'"', last, stop or len(data))
        if stop and quotes % 2 == 0:
            return stop
        if not ended and not stop:
            return 0
        # The end of the file; a quotation mark that is never closed is a character like others.
        return (first or len(data)) if quotes % 2 else (stop or len(data))

    def count(self, d: int) -> tuple[int, int]:
        """Return a number of lines that the file does not exceed, and its bytes of text.

        A table of so many rows and d columns fits into the memory: else this stops.
        """
        part = np.empty(2**22, np.uint8)
        lines, size, checked, last = 0, 0, 2**16, 0
        with self.open() as stream:
            while got := stream.readinto(part):
                text = part[:got]
                size, last = size + got, text[-1]
                lines += int(np.count_nonzero(text == 10))
                returns = text == 13
                if returns.any():  # alone it ends a line too
                    lines += int(np.count_nonzero(returns[:-1] & (text[1:] != 10)) + returns[-1])
                if lines > checked:
                    checked = 2 * lines
                    self.require(lines, d)
        lines += int(last not in (10, 13))
        self.require(lines, d)
        return lines, size

    def require(self, n: int, d: int) -> None:
        # A block of text, what the parser makes of it, and its numbers.
        block = 3 * _BLOCK + 3 * self.block_size
        _require(n, d, min(block, 120 * n * d) + _COLUMN * d, self.memory_limit, "lines")


def _not_utf8() -> DataError:
    return DataError("the file is not UTF-8 text. Save it as CSV in UTF-8.")


def _changed() -> DataError:
    return DataError("the file has changed while it was read. Read it again when it is complete.")


def _read_text(file: _TextFile, separators: str, header: Choice, covariance: bool) -> _File:
    """Read a table of numbers, and find out what text is in it."""
    lines = file.first_lines()
    if not lines:
        raise DataError("the file is empty; it needs a line of numbers for each sample.")
    first = lines[0]
    separator = _separator(first.text, lines[1].text if len(lines) > 1 else "", separators)
    rows = [_cells(line.text, separator) for line in lines]
    cells = rows[0]
    d = len(cells)
    length = max(line.stop - line.start for line in lines[:2])
    # Each block costs something for every column.
    file.block_size = min(max(_BLOCK, 32 * length), max(_BLOCK, 2**26, length))
    n, size = file.count(d)
    notes: list[str] = []
    if header == "auto":
        square = n if covariance else 0
        header, notes = _is_header(cells, rows[1:], _is_quoted(lines, separator), square)
    if header and len(lines) < 2:
        raise DataError(f"the file has a header of {d} names, but no rows (0 sample(s)).")
    rows_of_text = _Rows(file, separator, d, length, covariance)
    X = rows_of_text.read(_matrix(n - bool(header), d), first.stop if header else first.start, size)
    names = cells if header else [""] * d
    labels = rows_of_text.first if covariance else None
    return _File(
        X, names, list(range(d)), bool(header), rows_of_text.text, notes, lines=True, labels=labels
    )


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        line = re.sub(r"[ \t]+", " ", line).strip(" ")
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]


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


# Whether a first line of numbers is a header.


def _is_quoted(lines: list[_Line], separator: str) -> bool:
    """Whether every cell of the first line is in quotation marks, and not so in the second."""
    if len(lines) < 2:
        return False
    quoted = r'\s*("[^"]*")?\s*'
    above = (
        re.fullmatch(f"{quoted}({re.escape(separator)}{quoted})*", lines[0].text) is not None
        and '"' in lines[0].text
    )
    return above and '"' not in lines[1].text


def _is_header(
    cells: list[str], rows: list[list[str]], quoted: bool, square: int
) -> tuple[bool, list[str]]:
    """Tell whether the first line holds names, and what to say of it; refuse what looks like both.

    `rows` are the cells of some lines below it, `quoted` tells that only its own are in quotation
    marks, `square` is the number of all lines where the table must be square, else 0.
    """
    d = len(cells)
    if _hold_text(cells):
        return True, []
    if cells == ["", *[str(j) for j in range(d - 1)]]:
        return True, []  # as pandas writes columns without names beside row labels
    shown = ", ".join(cells[:3]) + ", ..." * (d > 3)
    taken = f"the first line ({shown}) was taken as the header"
    otherwise = "Pass header=False (--no-header) if it holds data."
    names = cells[1:] if cells[0] == "" and d > 1 else cells
    different = len(set(names)) == len(names)
    if quoted and different and "" not in names:
        reason = "its numbers are in quotation marks, and those below are not"
        return True, [f"{taken}, since {reason}. {otherwise}"]
    if square in (d, d + 1) and len(rows) > 1:
        if square == d:
            return False, []
        return True, [f"{taken}, since the matrix is square without it. {otherwise}"]
    if not (different and rows and all(re.fullmatch(r"\d+(\.0*)?", name) for name in names)):
        return False, []
    values = np.array([float(name) for name in names])
    below = _numbers_below([row[len(cells) - len(names) :] for row in rows], len(names))
    plain = all(name.isdecimal() for name in names)
    with np.errstate(invalid="ignore"):
        broken = np.nanmean(np.where(np.isnan(below), np.nan, below % 1 != 0), axis=0)
    if plain and 2 * np.count_nonzero(broken > 0.5) >= len(names):
        reason = "it holds different whole numbers above numbers that are not whole"
        return True, [f"{taken}, since {reason}. {otherwise}"]
    m = len(below)
    steps = np.diff(values)
    counted = len(values) > 2 and steps[0] != 0 and bool((steps == steps[0]).all())
    years = bool(
        ((values >= 1800) & (values <= 2100)).all()
        and not ((below >= 1800) & (below <= 2100)).any()
    )
    # By chance a row of the table is its largest in every column, or has no fractions, as rarely.
    towers = (
        bool((values > np.fmax.reduce(below, axis=0)).all()) and (m + 1.0) ** -len(names) < 1e-2
    )
    whole = float(np.prod(1 - broken * m / (m + 1))) < 1e-2
    if not (counted or (plain and (years or towers or whole))):
        return False, []
    raise DataError(
        f"it cannot be told whether the first line ({shown}) holds the names of the columns or "
        f"data. Pass {_HEADER_WORDS} to say it."
    )


def _numbers_below(rows: list[list[str]], d: int) -> npt.NDArray[np.float64]:
    """Return the numbers in some lines (m, d); NaN for text and what is missing."""
    below = np.full((len(rows), d), np.nan)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row[:d]):
            if cell not in _MISSING and is_number(cell) and cell.lower() not in ("true", "false"):
                below[i, j] = float(cell)
    below[np.isinf(below)] = np.nan
    return below


class _Rows:
    """The rows of a text file, parsed in blocks of lines."""

    def __init__(
        self, file: _TextFile, separator: str, d: int, length: int, keep_first: bool
    ) -> None:
        self.file, self.separator, self.d = file, separator, d
        self.block_size = max(2**20, 64 * length)  # what a thread of Arrow works on
        self.names = [str(j) for j in range(d)]
        self.keep_first = keep_first
        self.first: list[str] = []  # the cells of the first column, where they are kept
        self.text: dict[int, _TextColumn] = {}
        self.truths: dict[
            int, tuple[int, Any, int]
        ] = {}  # a row, its value, and how many there are

    def read(self, X: npt.NDArray[np.float64], begin: int, size: int) -> npt.NDArray[np.float64]:
        """Fill X with the rows from byte `begin` on; return it, cut to their number."""
        row, line = 0, 1
        tail = np.empty(0, np.uint8)
        room, read = min(self.file.block_size, max(size - begin, 1)), begin
        newline = self.file.newline[0]
        with self.file.open() as stream:
            # The lines before are counted, so that errors can name a line.
            skipped = stream.read(begin)
            line += skipped.count(self.file.newline)
            while True:
                buffer = pa.allocate_buffer(len(tail) + room, memory_pool=_POOL)
                view = np.frombuffer(buffer, np.uint8)
                view[: len(tail)] = tail
                got = stream.readinto(view[len(tail) :])
                read += got
                end = len(tail) + got
                stop = _cut(view[:end], newline) if got else end
                if got and not stop:
                    if end > _LONGEST_LINE:
                        raise DataError(f"line {line} is longer than 1 GB; this is no table.")
                    room = max(room, end)  # a line that is longer than a block
                tail = view[stop:end].copy()
                if stop:
                    row += self._fill(X, row, buffer.slice(0, stop), line)
                    line += int(np.count_nonzero(view[:stop] == newline))
                if not got:
                    break
        if read != size:
            raise _changed()
        self._check_truths(X[:row])
        if row < len(X):  # blank lines, or the header: the columns move together, in place
            flat = X.reshape(-1, order="F")
            n = len(X)
            for j in range(1, self.d):
                flat[j * row : (j + 1) * row] = flat[j * n : j * n + row]
            X = flat[: row * self.d].reshape((row, self.d), order="F")
        return X

    def _fill(self, X: npt.NDArray[np.float64], row: int, block: pa.Buffer, line: int) -> int:
        """Parse the lines of a block into X from `row` on; return their number."""
        if self.separator == " ":  # columns may be aligned with any number of spaces
            block = _single_spaces(block)
        texts = set(self.text) | ({0} if self.keep_first else set())
        table = self._parse(block, texts)
        if table is None:  # ragged, blank, or some cell is not plainly a number
            if not bytes(block).strip(b" \r\n"):
                return 0
            table = self._parse(block, set(range(self.d)), line)
            assert table is not None
        if row + table.num_rows > len(X):
            raise _changed()
        rows = slice(row, row + table.num_rows)
        if self.keep_first:
            self.first += [(cell or "").strip() for cell in table.column(0).to_pylist()]
        for j in range(self.d):
            column = table.column(j)
            if column.type == pa.float64():
                X[rows, j] = column.to_numpy()
                continue
            numbers = _parse_column(column) if j not in self.text else _without_missing(column)
            if numbers.type == pa.float64():
                X[rows, j] = numbers.to_numpy()
            elif numbers.type == pa.bool_():
                X[rows, j] = numbers.cast(pa.float64()).to_numpy()
                at, value, count = self.truths.get(j, (0, None, 0))
                if not at:
                    at, value = telling(_without_missing(column).to_pylist())
                    at += row
                present = len(numbers) - numbers.null_count
                self.truths[j] = (at, value, count + present)
            else:
                self._note_text(j, numbers.to_pylist(), row)
        return int(table.num_rows)

    def _parse(self, block: pa.Buffer, texts: set[int], line: int = 0) -> pa.Table | None:
        """Parse a block; where that fails, return None, or raise if it starts at a given line."""
        types = {
            name: pa.string() if j in texts else pa.float64() for j, name in enumerate(self.names)
        }
        quotes = line > 0 or np.any(np.frombuffer(block, np.uint8) == 34)
        try:
            return pacsv.read_csv(
                pa.BufferReader(block),
                memory_pool=_POOL,
                read_options=pacsv.ReadOptions(
                    # A row must fit into a block, and each costs something for every column.
                    column_names=self.names,
                    block_size=max(block.size if line else self.block_size, 1),
                ),
                parse_options=pacsv.ParseOptions(
                    delimiter=self.separator, newlines_in_values=bool(quotes)
                ),
                convert_options=pacsv.ConvertOptions(
                    # Words for missing values are looked for below: each would cost some
                    # kilobytes for every column.
                    column_types=types,
                    null_values=[""],
                    true_values=[],
                    false_values=[],
                    strings_can_be_null=True,
                ),
            )
        except pa.ArrowMemoryError:
            raise
        except pa.ArrowInvalid as err:
            if not line:
                return None
            _refuse_ragged(bytes(block), self.separator, self.d, line)
            if "UTF8" in str(err):
                raise _not_utf8() from None
            raise

    def _note_text(self, j: int, cells: list[str | None], row: int) -> None:
        if j not in self.text:
            at, value = telling(cells)
            # The rows before held numbers.
            self.text[j] = _TextColumn((row + at, value), 0, row)
        self.text[j].cells += sum(cell is not None for cell in cells)
        self.text[j].texts += sum(cell is not None and not is_number(cell) for cell in cells)

    def _check_truths(self, X: npt.NDArray[np.float64]) -> None:
        """Take true and false as numbers only where a column holds nothing else."""
        for j, (at, value, count) in self.truths.items():
            if j not in self.text and len(X) - np.count_nonzero(np.isnan(X[:, j])) != count:
                self.text[j] = _TextColumn((at, value))


def _cut(text: npt.NDArray[np.uint8], newline: int) -> int:
    """Return where the last line that is complete in a block ends; 0 if none is."""
    breaks = np.flatnonzero(text == newline)
    if not len(breaks):
        return 0
    quotes = np.flatnonzero(text == 34)
    if len(quotes):  # a line break in quotation marks ends no line
        even = breaks[np.searchsorted(quotes, breaks) % 2 == 0]
        breaks = even if len(even) else breaks  # a mark that is never closed is no quotation
    return int(breaks[-1]) + 1


def _single_spaces(block: pa.Buffer) -> pa.Buffer:
    text = re.sub(rb"[ \t]+", b" ", bytes(block))
    text = re.sub(rb" ?([\r\n]+|$) ?", rb"\1", text).lstrip(b" ")
    own = pa.allocate_buffer(len(text), memory_pool=_POOL)
    np.frombuffer(own, np.uint8)[:] = np.frombuffer(text, np.uint8)
    return own


def _parse_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Turn a column of text into numbers or truth values; return its text where that fails."""
    text = _without_missing(column)
    truth = pc.is_in(pc.utf8_lower(text), value_set=pa.array(["true", "false"]))
    if pc.all(pc.or_(truth, pc.is_null(text))).as_py() and pc.any(truth).as_py():
        return pc.equal(pc.utf8_lower(text), "true")
    try:
        return pc.utf8_ltrim(text, "+").cast(pa.float64())
    except pa.ArrowInvalid:
        return text


def _without_missing(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of text, without spaces around it and without words for missing values."""
    text = pc.utf8_trim(column, " \t\u00a0")
    missing = pc.is_in(text, value_set=pa.array(_MISSING))
    return pc.if_else(missing, pa.scalar(None, pa.string()), text)


def _refuse_ragged(block: bytes, separator: str, d: int, line: int) -> None:
    """Raise the error for the first line that has not d cells, if there is one."""
    reader = csv.reader(
        io.StringIO(block.decode("utf-8", "replace"), newline=""), delimiter=separator
    )
    for cells in reader:
        if cells and len(cells) != d:
            raise DataError(
                f"line {line - 1 + reader.line_num} has {len(cells)} "
                f"cell{'s' * (len(cells) > 1)}, expected {d} as in the first line. "
                "Every line must have the same number of cells."
            )


# Parquet and Arrow files: some columns at a time.


class _Parquet:
    """A Parquet file, alone: folder names add no columns."""

    column_bytes = _COLUMN

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
        names = [self.names[j] for j in columns]
        for batch in self.file.iter_batches(batch_size=rows or 2**17, columns=names):
            # A name with a dot brings the columns it could be a part of, too.
            yield batch.select(names)


class _ArrowFile:
    """A Feather or Arrow file."""

    column_bytes = _COLUMN // 2

    def __init__(self, path: Path) -> None:
        self.path = path
        with pa.OSFile(os.fsencode(path)) as source:
            self.schema = pa.ipc.open_file(source).schema
        self.names = list(self.schema.names)
        rows = [batch.num_rows for batch in self.blocks([0])] if len(self.schema) else []
        self.n_rows = sum(rows)
        self.batch = max(rows, default=1)

    def blocks(self, columns: list[int], rows: int | None = None) -> Iterator[pa.RecordBatch]:
        options = pa.ipc.IpcReadOptions(included_fields=columns)
        names = [self.names[j] for j in columns]
        with pa.OSFile(os.fsencode(self.path), memory_pool=_POOL) as source:
            reader = pa.ipc.open_file(source, options=options, memory_pool=_POOL)
            for i in range(reader.num_record_batches):
                batch = reader.get_batch(i)
                batch.validate(full=False)
                yield (batch.slice(0, rows) if rows else batch).select(names)


def _read_columns(
    file: _Parquet | _ArrowFile, memory_limit: float | str | None, covariance: bool
) -> _File:
    """Read the columns of numbers; the index of a pandas frame is no data."""
    all_names, types, n = file.names, file.schema.types, file.n_rows
    if n < 0:
        raise DataError(f"the file says that it has {n} rows; it is damaged.")
    checked_names(None, tuple(all_names), len(all_names))  # columns are read by name
    index = set(pandas_index(file.schema))
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
    step = max(1, _BLOCK // (8 * max(1, min(n, file.batch))))
    # What Arrow decodes, and its bytes as they are in the file.
    block = 6 * 8 * min(n, file.batch) * min(step, d) + file.column_bytes * d
    _require(n, d, block, memory_limit)
    X = _matrix(n, d)
    # Parquet keeps the values of categories, and pandas notes what they are.
    named = set(pandas_categories(file.schema))
    numbers = [
        k for k in range(d) if holds_numbers(types[kept[k]]) and all_names[kept[k]] not in named
    ]
    others = np.setdiff1d(np.arange(d), numbers).tolist()
    text = {k: _TextColumn(_example(file, kept[k])) for k in others}
    for start in range(0, len(numbers), step):
        part = numbers[start : start + step]
        row = 0
        for batch in file.blocks([kept[k] for k in part]):
            stop = row + batch.num_rows
            if stop > n:
                raise _changed()
            for i, k in enumerate(part):
                X[row:stop, k] = arrow_floats(batch.column(i))
            row = stop
        if row != n:
            raise DataError(f"the file says that it has {n} rows, but holds {row}; it is damaged.")
    names = [all_names[j] for j in kept]
    return _File(X, names, kept, bool(d), text, [], labels=labels, labels_inside=inside)


def _example(file: _Parquet | _ArrowFile, column: int) -> tuple[int, Any]:
    """Return a row and its value, or the categories, of a column that holds no numbers."""
    for batch in file.blocks([column], rows=1000):
        values = batch.column(0)
        if holds_numbers(values.type):
            return 1, Categories(values.unique().to_pylist())
        return telling(arrow_values(pa.chunked_array([values])))
    return 1, None


# NumPy's files.


def _read_npy(path: Path, memory_limit: float | str | None) -> _File:
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        return _named(*_read_array(stream, size, ".npy", memory_limit))


def _named(X: npt.NDArray[np.float64], found: Iterable[str] | None) -> _File:
    d = X.shape[1]
    names = [""] * d if found is None else list(found)
    return _File(X, names, list(range(d)), found is not None, {}, [])


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    size: int  # bytes of the values


def _array_header(stream: IO[bytes], size: int, suffix: str) -> _Header:
    """Read what an NPY file of `size` bytes says of its array, or refuse it."""
    try:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(f"version {version}")
        reader: Callable[..., Any] = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0  # version 3 differs in what names may hold
        )
        shape, fortran, dtype = reader(stream)
        count = 1
        for length in shape:
            count *= length
        header = _Header(shape, fortran, dtype, count * dtype.itemsize)
        if dtype.hasobject or min(shape, default=0) < 0 or header.size > size:
            raise ValueError(f"shape {shape}, dtype {dtype}")
    except MemoryError:
        raise
    except Exception as err:  # a header is Python's notation; its tokenizer raises many things
        raise _no_array(suffix) from err
    return header


def _no_array(suffix: str) -> DataError:
    return DataError(
        f"the file is no {suffix} file, is damaged, or holds Python objects (pickles), "
        "which are never loaded. Save an array of numbers with numpy.save or numpy.savez."
    )


def _read_array(
    stream: IO[bytes], size: int, suffix: str, memory_limit: float | str | None
) -> tuple[npt.NDArray[np.float64], tuple[str, ...] | None]:
    """Read the array of an NPY file of `size` bytes in blocks; what else it holds is not read."""
    header = _array_header(stream, size, suffix)
    shape, dtype = header.shape, header.dtype
    if len(shape) != 2 or dtype.kind not in "biuf":
        require_memory(6 * header.size, "its array", "Save an array of numbers.", memory_limit)
        array = np.frombuffer(_read_exactly(stream, header.size, suffix), dtype=dtype)
        return matrix_of(array.reshape(shape, order="F" if header.fortran else "C"))
    n, d = shape
    # Inflating takes more than reading.
    _require(n, d, min((4 if suffix == ".npz" else 2) * _BLOCK, 3 * header.size), memory_limit)
    X = _matrix(n, d)
    length = n if header.fortran else d  # of what is stored in one piece
    step = max(1, _BLOCK // max(1, length * dtype.itemsize))
    for start in range(0, d if header.fortran else n, step) if n and d else ():
        count = min(step, (d if header.fortran else n) - start)
        raw = _read_exactly(stream, count * length * dtype.itemsize, suffix)
        block = np.frombuffer(raw, dtype=dtype).reshape(count, length)
        with np.errstate(over="ignore"):  # an overflow gives inf, which is refused with its place
            if header.fortran:
                X[:, start : start + count] = block.T
            else:
                X[start : start + count] = block
    return X, None


def _read_exactly(stream: IO[bytes], size: int, suffix: str) -> bytes:
    raw = stream.read(size)
    if len(raw) != size:
        raise _no_array(suffix)
    return raw


def _read_npz(path: Path, memory_limit: float | str | None) -> _File:
    """Read the table of an NPZ file, and the names that it may hold."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _read_archive(archive, memory_limit)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as err:
        raise _no_array(".npz") from err


def _read_archive(archive: zipfile.ZipFile, memory_limit: float | str | None) -> _File:
    members: dict[str, tuple[zipfile.ZipInfo, _Header]] = {}
    for info in archive.infolist():
        if info.flag_bits & 1:
            raise DataError("the file is encrypted. Save it without a password.")
        if not info.filename.endswith(".npy"):
            raise DataError(
                f"the file holds {info.filename!r}, which is no array. An NPZ file must hold one "
                "2-D array and, if wanted, an array 'names'."
            )
        with archive.open(info) as stream:
            key = info.filename.removesuffix(".npy")
            members[key] = info, _array_header(stream, info.file_size, ".npz")
    labels = members.pop("names", None)
    tables = [key for key, (_, header) in members.items() if len(header.shape) == 2]
    if len(tables) != 1:
        held = ", ".join(f"{key!r} {header.shape}" for key, (_, header) in members.items())
        raise DataError(
            "an NPZ file must hold one 2-D array and, if wanted, an array 'names'. "
            f"This one holds {held or 'no array'}."
        )
    info, header = members[tables[0]]
    found: list[str] | None = None
    if labels is not None:
        about, names = labels
        d = header.shape[1]
        if names.dtype.kind != "U" or names.shape != (d,):
            raise DataError(
                f"the array 'names' must hold {d} strings, one a column. "
                f"Got shape {names.shape} and dtype {names.dtype} instead."
            )
        require_memory(3 * names.size, "its array 'names'", "Use shorter names.", memory_limit)
        with archive.open(about) as stream:
            _array_header(stream, about.file_size, ".npz")
            raw = _read_exactly(stream, names.size, ".npz")
            _check_end(stream)
        try:
            found = np.frombuffer(raw, dtype=names.dtype).tolist()
        except (ValueError, UnicodeDecodeError):
            raise _no_array(".npz") from None
    with archive.open(info) as stream:
        X, own = _read_array(stream, info.file_size, ".npz", memory_limit)
        _check_end(stream)
    return _named(X, found if found is not None else own)


def _check_end(stream: IO[bytes]) -> None:
    """Read on to the end of a member, where zipfile compares its checksum."""
    if stream.read(1):
        raise _no_array(".npz")
