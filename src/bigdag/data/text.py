"""Tables in text files: the first lines, the number of lines, then the numbers, block by block."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from bigdag.data import content
from bigdag.data.cells import NUMBER, is_number
from bigdag.data.content import Choice, Content, TextColumn
from bigdag.data.labels import MISSING, hold_text, is_header
from bigdag.data.names import matches
from bigdag.errors import DataError
from bigdag.resources import require_memory

__all__ = ["TextFile", "read_text"]

_LONGEST_LINE = 2**30  # bytes
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?', re.I)  # tells Excel the separator
_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.I)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")  # 12,345 or 12,345.6
_SPACES = " \t\u00a0"  # around a cell
_SAMPLE = 50  # lines that a header is compared with


class _Line(NamedTuple):
    text: str
    start: int  # in the file, in bytes
    stop: int


class TextFile:
    """The text in a file, also in a compressed one, as a stream that Arrow owns."""

    def __init__(self, path: Path, memory_limit: float | str | None) -> None:
        self.path, self.memory_limit = path, memory_limit
        self.newline = b"\n"
        self.block_size = content.BLOCK  # bytes that are parsed at a time

    def open(self) -> pa.NativeFile:
        """Return the text as a stream."""
        stream = pa.OSFile(os.fsencode(self.path))
        if self.path.suffix.lower() == ".gz":
            stream = pa.CompressedInputStream(stream, "gzip")
        return stream

    def first_lines(self) -> list[_Line]:
        """Return the first lines that are not blank: two at least, where there are so many.

        A line that only tells the separator comes before these.
        """
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
                if ended or len(lines) > 1 + _tells_separator(lines):
                    return lines
                if len(data) >= _LONGEST_LINE:
                    raise DataError("the first line is longer than 1 GB; this is not a table.")
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
        """Refuse a table of n lines and d columns that would not fit into the memory."""
        # A block of text, what the parser makes of it, and its numbers.
        block = 3 * content.BLOCK + 3 * self.block_size
        remedy = "Leave out rows or columns, or allow more memory."
        if n > 4 * d:
            remedy += " A Parquet file of many rows need not fit: it is read in one pass."
        block = min(block, 120 * n * d) + content.COLUMN * d
        content.require_table(n, d, block, self.memory_limit, "lines", remedy)


def _not_utf8() -> DataError:
    return DataError("the file is not UTF-8 text. Save it as CSV in UTF-8.")


def _tells_separator(lines: list[_Line]) -> bool:
    return bool(lines) and _SEPARATOR_LINE.fullmatch(lines[0].text.strip(" ")) is not None


def read_text(
    file: TextFile,
    separators: str,
    header: Choice,
    covariance: bool,
    row_labels: Choice = "auto",
    wanted: Collection[str] = (),
    words: Collection[str] = (),
) -> Content:
    """Read a table of numbers, and find out what text is in it.

    Of columns whose names match those `wanted` the text is kept, if it is text. Cells that hold one
    of the `words` are missing.
    """
    lines = file.first_lines()
    told = _SEPARATOR_LINE.fullmatch(lines[0].text.strip(" ")) if lines else None
    lines = lines[1:] if told else lines
    if not lines:
        raise DataError("the file is empty; it needs a line of numbers for each sample.")
    first = lines[0]
    separator = (
        told[1]
        if told
        else _separator(first.text, lines[1].text if len(lines) > 1 else "", separators)
    )
    rows = _without_words([_cells(line.text, separator) for line in lines], words)
    _refuse_decimal_commas(rows)
    cells = rows[0]
    short = header is not False and _is_short(cells, rows[1:])
    if short:
        cells = ["", *cells]
    d = len(cells)
    length = max(line.stop - line.start for line in lines[:2])
    # Each block costs something for every column.
    file.block_size = min(max(content.BLOCK, 32 * length), max(content.BLOCK, 2**26, length))
    n, size = file.count(d)
    notes: list[str] = []
    if header == "auto":
        square = n - bool(told) if covariance else 0
        below, quoted = rows[1:], _is_quoted(lines, separator)
        if row_labels is True and _is_labelled(cells, below):
            # The text is a label, as below it; the other cells tell.
            header, notes = is_header(cells[1:], [row[1:] for row in below], quoted, 0)
            if not header:
                shown = ", ".join(cells[:3]) + ", ..." * (d > 3)
                notes = [
                    f"the first line ({shown}) was taken as a row of data with its label, since "
                    "all of its other cells are numbers. Pass header=True (--header) if it holds "
                    "names."
                ]
        else:
            header, notes = is_header(cells, below, quoted, square)
    if short and header:
        notes = [
            *notes,
            "the header has one cell fewer than the rows, so that the first column has no name.",
        ]
    elif short:
        cells, d = cells[1:], d - 1
    if header and len(lines) < 2:
        raise DataError(
            f"the file has a header of {d} names, but no rows (0 sample(s)); it needs a "
            "line of numbers for each sample."
        )
    names = cells if header else [""] * d
    kept = [j for j, name in enumerate(names) if matches(name or f"x{j}", wanted)]
    rows_of_text = _Rows(file, separator, d, length, covariance, kept, words)
    X = rows_of_text.read(
        content.new_matrix(n - bool(header), d), first.stop if header else first.start, size
    )
    labels = rows_of_text.first if covariance else None
    return Content(
        X, names, list(range(d)), bool(header), rows_of_text.text, notes, lines=True, labels=labels,
        decoded=rows_of_text.decoded,
    )  # fmt: skip


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        line = re.sub(r"[ \t]+", " ", line).strip(" ")
    # A mark within a cell quotes no line break, so that this may be more than one row.
    rows = csv.reader(io.StringIO(line, newline=""), delimiter=separator)
    return [cell.strip() for cell in next(rows)]


def _without_words(rows: list[list[str]], words: Collection[str]) -> list[list[str]]:
    """Return lines in which words for missing values are empty; a line of names stays as it is."""
    if not words:
        return rows
    plain = [["" if cell in words else cell for cell in row] for row in rows]
    return [rows[0] if hold_text(plain[0]) else plain[0], *plain[1:]]


def _is_short(cells: list[str], rows: list[list[str]]) -> bool:
    """Whether the first line has one cell fewer than all others, as R's write.table writes it."""
    if len(cells) < 2 or not rows or any(len(row) != len(cells) + 1 for row in rows):
        return False
    return any(row[-1] for row in rows)  # not for a separator at the end of each line


def _is_labelled(cells: list[str], rows: list[list[str]]) -> bool:
    """Whether the first line holds text in its first cell only, and so do lines below."""
    return (
        len(cells) > 1
        and not hold_text(cells[1:])
        and hold_text(cells[:1])
        and hold_text(cell for row in rows for cell in row[:1])
    )


def _refuse_decimal_commas(rows: list[list[str]]) -> None:
    """Refuse numbers with commas in them, which would be text."""
    below = rows[1:] or rows
    found = [
        (j, cell)
        for row in below
        for j, cell in enumerate(row)
        if _COMMA.fullmatch(cell) or _THOUSANDS.fullmatch(cell)
    ]
    # One such cell among numbers with points is a mistake, which is told with its row.
    columns = {j for j, _ in found}
    points = sum(
        len(row) > j and "." in row[j] and "," not in row[j] for row in below for j in columns
    )
    if len(found) > points:
        elsewhere = any("." in cell and is_number(cell) for row in below for cell in row)
        if all(_THOUSANDS.fullmatch(cell) for _, cell in found):
            shown = found[0][1]
            beside = ", beside numbers with decimal points" if elsewhere else ""
            raise DataError(
                f"numbers are written with commas in them, such as {shown!r}{beside}. If the "
                "commas separate thousands, write the numbers without "
                f"them, as {shown.replace(',', '')}; if they are decimal commas, write points."
            )
        raise DataError(
            f"numbers are written with commas in them, such as {found[0][1]!r}. Write them with "
            'decimal points: dec="." in R, decimal="." in pandas; a spreadsheet takes the sign '
            "from its region settings."
        )


def _separator(first: str, second: str, candidates: str) -> str:
    """Find the separator that the first two lines agree on, else the commonest in the first."""
    bare = [re.sub(r'"[^"]*"', "q", line).strip(" ") for line in (first, second)]
    counts = [
        [len(re.findall(re.escape(c) + "+" * (c == " "), line)) for line in bare]
        for c in candidates
    ]
    for separator, (above, below) in zip(candidates, counts):
        if above and (above == below or not second):
            return separator
    best = max(range(len(candidates)), key=lambda k: counts[k][0])
    return candidates[best] if counts[best][0] or "," not in candidates else ","


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


class _Rows:
    """The rows of a text file, parsed in blocks of lines."""

    def __init__(
        self,
        file: TextFile,
        separator: str,
        d: int,
        length: int,
        keep_first: bool,
        kept: Iterable[int] = (),
        words: Collection[str] = (),
    ) -> None:
        self.file, self.separator, self.d = file, separator, d
        self.block_size = max(2**20, 64 * length)  # what a thread of Arrow works on
        self.names = [str(j) for j in range(d)]
        self.keep_first = keep_first
        self.words = pa.array(sorted(words), pa.string())
        self.missing = pa.array([*MISSING, *words])
        self.decoded = 0  # cells that hold one of the words
        self.first: list[str] = []  # the cells of the first column, where they are kept
        self.cells: dict[int, list[Any]] = {j: [] for j in kept}  # of columns whose text is kept
        self.text: dict[int, TextColumn] = {}
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
                buffer = pa.allocate_buffer(len(tail) + room, memory_pool=content.POOL)
                view = np.frombuffer(buffer, np.uint8)
                view[: len(tail)] = tail
                got = stream.readinto(view[len(tail) :])
                read += got
                end = len(tail) + got
                stop = _cut(view[:end], newline) if got else end
                if got and not stop:
                    if end > _LONGEST_LINE:
                        raise DataError(f"line {line} is longer than 1 GB; this is not a table.")
                    room = max(room, end)  # a line that is longer than a block
                tail = view[stop:end].copy()
                if stop:
                    row += self._fill(X, row, buffer.slice(0, stop), line)
                    line += int(np.count_nonzero(view[:stop] == newline))
                if not got:
                    break
        if read != size:
            raise content.changed()
        self._check_truths(X[:row])
        for j, cells in self.cells.items():
            if j in self.text:
                values = np.empty(len(cells), dtype=object)
                values[:] = cells
                self.text[j].values = values
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
        texts = {*self.text, *self.truths, *self.cells, *([0] if self.keep_first else [])}
        table = self._parse(block, texts)
        if table is None:  # ragged, blank, or some cell is not plainly a number
            if not bytes(block).strip(b" \r\n"):
                return 0
            table = self._parse(block, set(range(self.d)), line)
            assert table is not None
        if row + table.num_rows > len(X):
            raise content.changed()
        rows = slice(row, row + table.num_rows)
        if self.keep_first:
            self.first += [(cell or "").strip() for cell in table.column(0).to_pylist()]
        for j, cells in self.cells.items():
            cells += _without_missing(table.column(j), self.missing).to_pylist()
        for j in range(self.d):
            column = table.column(j)
            if column.type == pa.float64():
                X[rows, j] = column.to_numpy()
                continue
            text = _without_missing(column, self.missing)
            self.decoded += self._count_words(column)
            numbers = _parse_column(text) if j not in self.text else text
            if numbers.type == pa.float64():
                X[rows, j] = numbers.to_numpy()
            elif numbers.type == pa.bool_():
                X[rows, j] = numbers.cast(pa.float64()).to_numpy()
                if j not in self.truths:
                    at, value = _example_of_text(text)
                    self.truths[j] = (row + at, value, 0)
                at, value, count = self.truths[j]
                present = len(numbers) - numbers.null_count
                self.truths[j] = (at, value, count + present)
            else:
                self._note_text(j, numbers, row)
        return int(table.num_rows)

    def _count_words(self, column: pa.ChunkedArray) -> int:
        """Return how many cells hold one of the words for missing values."""
        if not len(self.words):
            return 0
        cells = pc.utf8_trim(column, _SPACES)
        return pc.sum(pc.is_in(cells, value_set=self.words)).as_py() or 0

    def _parse(self, block: pa.Buffer, texts: set[int], line: int = 0) -> pa.Table | None:
        """Parse a block; where that fails, return None, or raise if it starts at a given line."""
        types = {
            name: pa.string() if j in texts else pa.float64() for j, name in enumerate(self.names)
        }
        quotes = line > 0 or np.any(np.frombuffer(block, np.uint8) == 34)
        # A row must fit into a block, and each costs something for every column.
        size = max(block.size if line else self.block_size, 1)
        options = pacsv.ReadOptions(column_names=self.names, block_size=size)
        try:
            return self._read(block, types, options, newlines_in_values=bool(quotes))
        except pa.ArrowMemoryError:
            raise
        except pa.ArrowInvalid:
            if not line:
                return None
            try:
                bytes(block).decode()
            except UnicodeDecodeError:
                raise _not_utf8() from None
            self._refuse_ragged(block, line)
            raise

    def _read(
        self,
        block: pa.Buffer,
        types: dict[str, pa.DataType],
        options: pacsv.ReadOptions,
        **parsing: Any,
    ) -> pa.Table:
        return pacsv.read_csv(
            pa.BufferReader(block),
            memory_pool=content.POOL,
            read_options=options,
            parse_options=pacsv.ParseOptions(delimiter=self.separator, **parsing),
            convert_options=pacsv.ConvertOptions(
                # Words for missing values are looked for later: each would cost some kilobytes
                # for every column.
                column_types=types,
                null_values=[""],
                true_values=[],
                false_values=[],
                strings_can_be_null=True,
            ),
        )

    def _refuse_ragged(self, block: pa.Buffer, line: int) -> None:
        """Raise the error for the first line of a block that has not d cells, if there is one."""
        found: list[pacsv.InvalidRow] = []

        def note(row: pacsv.InvalidRow) -> str:
            found.append(row)
            return "error"

        # Rows are counted only where one thread reads them all.
        options = pacsv.ReadOptions(
            use_threads=False, column_names=self.names, block_size=block.size
        )
        with suppress(pa.ArrowInvalid):
            self._read(block, {}, options, newlines_in_values=True, invalid_row_handler=note)
        if not found:
            return
        row, text = found[0], np.frombuffer(block, np.uint8)
        newline = self.file.newline[0]
        start = 0
        for quoted in (True, False):  # a mark within a cell quotes nothing
            starts = _row_starts(text, newline, quoted)
            start = int(starts[row.number - 1]) if row.number <= len(starts) else start
            written = row.text.encode()
            if text[start : start + len(written)].tobytes() == written:
                break
        line += int(np.count_nonzero(text[:start] == newline))
        above = (
            " If the first lines are a title or remarks, take them out: the names come first."
            if row.actual_columns > self.d
            else ""
        )
        raise DataError(
            f"line {line} has {row.actual_columns} cell{'s' * (row.actual_columns > 1)}, expected "
            f"{self.d} as in the first line. Every line must have the same number of cells.{above}"
        )

    def _note_text(self, j: int, cells: pa.ChunkedArray, row: int) -> None:
        if j not in self.text:
            at, value = _example_of_text(cells)
            # The rows before held numbers.
            self.text[j] = TextColumn((row + at, value), 0, row)
        self.text[j].cells += len(cells) - cells.null_count
        self.text[j].texts += pc.sum(pc.invert(_are_numbers(cells))).as_py() or 0

    def _check_truths(self, X: npt.NDArray[np.float64]) -> None:
        """Take true and false as numbers only where a column holds nothing else."""
        for j, (at, value, count) in self.truths.items():
            if j not in self.text and len(X) - np.count_nonzero(np.isnan(X[:, j])) != count:
                self.text[j] = TextColumn((at, value))


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
    own = pa.allocate_buffer(len(text), memory_pool=content.POOL)
    np.frombuffer(own, np.uint8)[:] = np.frombuffer(text, np.uint8)
    return own


def _parse_column(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Turn a column of text into numbers or truth values; return its text where that fails."""
    truth = pc.is_in(pc.utf8_lower(text), value_set=pa.array(["true", "false"]))
    if pc.all(pc.or_(truth, pc.is_null(text))).as_py() and pc.any(truth).as_py():
        return pc.equal(pc.utf8_lower(text), "true")
    try:
        return pc.utf8_ltrim(text, "+").cast(pa.float64())
    except pa.ArrowInvalid:
        return text


def _are_numbers(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether cells read as numbers or truth values."""
    return pc.match_substring_regex(text, rf"^({NUMBER})$", ignore_case=True)


def _example_of_text(text: pa.ChunkedArray) -> tuple[int, str | None]:
    """Return the row and the cell that best show that a column of a text file holds no numbers."""
    truth = pc.is_in(pc.utf8_lower(text), value_set=pa.array(["true", "false"]))
    for shows in (pc.invert(_are_numbers(text)), truth, text.is_valid()):
        at = pc.index(shows, True).as_py()
        if at >= 0:
            return at + 1, text[at].as_py()
    return 1, None


def _without_missing(column: pa.ChunkedArray, missing: pa.Array) -> pa.ChunkedArray:
    """Return a column of text, without spaces around it and without words for missing values."""
    text = pc.utf8_trim(column, _SPACES)
    return pc.if_else(pc.is_in(text, value_set=missing), pa.scalar(None, pa.string()), text)


def _row_starts(text: npt.NDArray[np.uint8], newline: int, quoted: bool) -> npt.NDArray[np.int64]:
    """Return where the lines that are not blank start; `quoted`: not those within quotes."""
    breaks = np.flatnonzero(text == newline)
    if quoted:
        breaks = breaks[np.searchsorted(np.flatnonzero(text == 34), breaks) % 2 == 0]
    starts = np.concatenate([[0], breaks + 1])
    length = np.diff(starts, append=len(text) + 1) - 1
    first = text[np.minimum(starts, len(text) - 1)]
    return starts[(length > 1) | ((length == 1) & (first != 13))]
