"""Headers and row labels: what in a file is a name, and what is data."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow.csv as pacsv

from bigdag.data.cells import is_number
from bigdag.data.content import Choice, Content
from bigdag.errors import DataError

__all__ = [
    "MISSING",
    "hold_text",
    "is_header",
    "is_unnamed",
    "labels_rows",
    "row_names",
    "without_row_labels",
]

MISSING = [*pacsv.ConvertOptions().null_values, "None", "na", "NAN", "Null", "<NA>"]
# What pandas, Arrow and R's readr write above a column without a name.
_UNNAMED = re.compile(r"|Unnamed: \d+(\.\d+)?(_level_\d+)?|__index_level_\d+__|\.\.\.\d+")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.I)
_CHANCE = 1e-2  # what happens by chance more rarely is taken as a sign
_FEW = 0.02  # the share of rows that may do what a header does
_FAR, _ENOUGH = 6.0, 10  # standard deviations, of a column with so many numbers
_HEADER_WORDS = "header=True or header=False (--header or --no-header)"


# Row labels.


def is_unnamed(name: str) -> bool:
    """Whether a name is empty, or what programs write above a column without one."""
    return _UNNAMED.fullmatch(name) is not None


def without_row_labels(file: Content, wanted: Choice) -> tuple[Content, list[str]]:
    """Leave out the columns that label the rows; also return the warnings about it."""
    if wanted is False:
        return file, []
    d = len(file.names)
    if wanted is True:
        if d < 2:
            raise DataError(
                "the table has only one column, which cannot be left out as row labels. "
                "Pass row_labels=False."
            )
        return file.without([0]), []
    if d < 2 or not (file.named or file.lines):
        return file, []
    if not file.named:  # no column has a name; a count of the rows is detected all the same
        if 0 in file.text:
            return file, []
        if _counts(file.X[:, 0]):
            return file.without([0]), [_left_out("the first column counts the rows")]
        if len(file.X) > 2 and _are_labels(file.X[:, 0]) and _are_measured(file):
            what = "the first column holds different whole numbers beside numbers that are not"
            return file.without([0]), [_left_out(f"{what}, and was taken as row labels")]
        return file, []
    left_out: list[int] = []
    unnamed = [j for j, name in enumerate(file.names) if is_unnamed(name)]
    if unnamed and file.rows is not None:
        raise DataError(
            f"column {file.places[unnamed[0]] + 1} has no name, and whether it labels the rows is "
            "only found out in a table that fits into the memory. Give it a name in the file, or "
            "pass row_labels=True (--row-labels) if the first column labels the rows, and "
            "row_labels=False (--no-row-labels) if every column holds data."
        )
    for j in unnamed:
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
                f"column {file.places[j] + 1} has no name{name}, and it is not clear whether it "
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


def _are_measured(file: Content) -> bool:
    """Whether most columns beside the first hold numbers that mostly are not whole."""
    columns = [j for j in range(1, len(file.names)) if j not in file.text]
    half = len(file.X) / 2
    broken = sum(int(np.count_nonzero(file.X[:, j] % 1 != 0)) > half for j in columns)
    return 2 * broken > len(file.names) - 1


def _counts(values: npt.NDArray[np.float64]) -> bool:
    """Whether numbers are 0 to n - 1 or 1 to n, of three rows at least."""
    n = len(values)
    return n > 2 and values[0] in (0.0, 1.0) and bool((values - values[0] == np.arange(n)).all())


def labels_rows(file: Content) -> bool:
    """Whether the labels that were read are those of a covariance table's rows."""
    n, d = file.X.shape
    labels = file.labels
    assert labels is not None
    if not file.labels_inside or d == n + 1:
        return True
    unnamed = file.named and is_unnamed(file.names[0]) and d > 1
    return unnamed and (_are_counted(labels) or hold_text(labels))


def row_names(labels: list[str], names: list[str]) -> list[str] | None:
    """Return the names of a covariance table's rows; None where the labels only count the rows."""
    if len(labels) != len(names) or (_are_counted(labels) and set(labels) != set(names)):
        return None  # a table that is not square is refused for that
    return labels


def _are_counted(cells: list[str]) -> bool:
    """Whether the cells are the numbers 0 to n - 1 or 1 to n."""
    counted = [str(i) for i in range(len(cells) + 1)]
    return cells in (counted[:-1], counted[1:])


def hold_text(cells: Iterable[str]) -> bool:
    """Whether some cell is neither a number nor missing."""
    return not all(cell in MISSING or is_number(cell) for cell in cells)


# Whether a first line of numbers is a header.


def is_header(
    cells: list[str], rows: list[list[str]], quoted: bool, square: int
) -> tuple[bool, list[str]]:
    """Tell whether the first line holds names, and what to say of it; refuse what looks like both.

    `rows` are the cells of some lines below it, `quoted` tells that only its own are in quotation
    marks, `square` is the number of all lines where the table must be square, else 0.
    """
    d = len(cells)
    if hold_text(cells):
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
    if not (rows and all(_DECIMAL.fullmatch(name) for name in names)):
        return False, []
    values = np.array([float(name) for name in names])
    if not np.isfinite(values).all():
        return False, []
    lines = [row[len(cells) - len(names) :] for row in rows]
    below = _numbers_below(lines, len(names))
    broken, by_chance = _wholeness(lines, below)
    measured = 2 * np.count_nonzero(broken > 0.5) >= len(names)
    whole = bool((values % 1 == 0).all())
    counting = all(re.fullmatch(r"\d+(\.0*)?", name) for name in names)
    plain = all(name.isdecimal() for name in names)
    # Measured numbers can be whole by chance, and are then written as 3.0 by many programs.
    surely = plain or (len(names) > 1 and by_chance < _CHANCE)
    if different and counting and measured and surely:
        reason = "it holds different whole numbers above numbers that are not whole"
        return True, [f"{taken}, since {reason}. {otherwise}"]
    # A header with a number twice, or below zero; a row of equal numbers is a sample.
    varied = 2 * len(set(names)) > len(names) > 1
    unlike = whole and measured and varied and by_chance < _CHANCE
    numbered = different and counting and _looks_numbered(values, below, broken, plain)
    if not (unlike or numbered or _steps_evenly(values, below, whole) or _is_far(values, below)):
        return False, []
    raise DataError(
        f"it is not clear whether the first line ({shown}) holds the names of the columns or "
        f"data. Pass {_HEADER_WORDS} to decide it."
    )


def _wholeness(
    lines: list[list[str]], below: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], float]:
    """Return the share of broken numbers in each column below, and how rarely a row has none."""
    m = (~np.isnan(below)).sum(axis=0)
    with np.errstate(invalid="ignore"):
        n_broken = (~np.isnan(below) & (below % 1 != 0)).sum(axis=0)
    # Of the numbers with k decimals one in 10**k is whole.
    digits = np.zeros(below.shape[1])
    for line in lines:
        for j, cell in enumerate(line[: len(digits)]):
            if _DECIMAL.fullmatch(cell):
                scientific = "e" in cell.lower()
                digits[j] = max(digits[j], 6 if scientific else len(cell.partition(".")[2]))
    broken = n_broken / np.maximum(m, 1)
    return broken, float(np.prod(np.maximum(1 - broken, 10.0**-digits)))


def _looks_numbered(
    values: npt.NDArray[np.float64],
    below: npt.NDArray[np.float64],
    broken: npt.NDArray[np.float64],
    plain: bool,
) -> bool:
    """Whether different whole numbers count, are years, or are otherwise unlike those below."""
    m = len(below)
    steps = np.diff(values)
    if len(values) > 2 and steps[0] != 0 and bool((steps == steps[0]).all()):
        return True
    years = bool(
        ((values >= 1800) & (values <= 2100)).all()
        and not ((below >= 1800) & (below <= 2100)).any()
    )
    # By chance a row of the table is its largest in every column, or has no fractions, as rarely.
    towers = (
        bool((values > np.fmax.reduce(below, axis=0)).all()) and (m + 1.0) ** -len(values) < _CHANCE
    )
    whole = float(np.prod(1 - broken * m / (m + 1))) < _CHANCE
    return plain and (years or towers or whole)


def _steps_evenly(
    values: npt.NDArray[np.float64], below: npt.NDArray[np.float64], whole: bool
) -> bool:
    """Whether the numbers are a grid, or rise or fall throughout, as hardly any row below does."""
    rows = np.vstack([values, below])
    steps = np.diff(rows, axis=1)
    found = np.zeros(len(rows), dtype=bool)
    if len(values) >= (5 if whole else 3):  # whole numbers step evenly by chance more often
        found |= _equal(steps, rows)
    if len(values) >= 4:
        with np.errstate(invalid="ignore", divide="ignore"):
            logs = np.log(np.where(rows > 0, rows, np.nan))
        found |= _equal(np.diff(logs, axis=1), np.ones_like(rows))
    if found[0] and found[1:].mean() <= _FEW:
        return True
    monotone = np.all(steps > 0, axis=1) | np.all(steps < 0, axis=1)
    return bool(len(values) >= 6 and monotone[0] and monotone[1:].mean() <= _FEW)


def _equal(steps: npt.NDArray[np.float64], rows: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Whether the steps in each row are equal, up to rounding, and not zero."""
    size = np.abs(rows).max(axis=1)
    even = (np.abs(steps - steps[:, :1]) <= 1e-9 * size[:, None]).all(axis=1)
    return np.asarray(even & (np.abs(steps[:, 0]) > 1e-6 * size))


def _is_far(values: npt.NDArray[np.float64], below: npt.NDArray[np.float64]) -> bool:
    """Whether most numbers are far outside of what their columns hold below."""
    present = ~np.isnan(below)
    columns = [j for j in range(len(values)) if present[:, j].sum() >= _ENOUGH]
    far = 0
    for j in columns:
        column = below[present[:, j], j]
        spread = column.std()
        # In a column that is constant so far any other number would be far.
        far += bool(spread > 0 and abs(values[j] - column.mean()) > _FAR * spread)
    return far > 1 and 2 * far > len(values)


def _numbers_below(rows: list[list[str]], d: int) -> npt.NDArray[np.float64]:
    """Return the numbers in some lines (m, d); NaN for text and what is missing."""
    below = np.full((len(rows), d), np.nan)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row[:d]):
            if cell not in MISSING and is_number(cell) and cell.lower() not in ("true", "false"):
                below[i, j] = float(cell)
    below[np.isinf(below)] = np.nan
    return below
