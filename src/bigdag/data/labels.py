"""Headers and row labels: what in a file is a name, and what is data."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow.csv as pacsv

from bigdag.data.content import Choice, Content
from bigdag.data.convert import is_number
from bigdag.errors import DataError

__all__ = [
    "MISSING",
    "hold_text",
    "is_header",
    "labels_rows",
    "row_names",
    "without_row_labels",
]

MISSING = [*pacsv.ConvertOptions().null_values, "None"]
# What pandas, Arrow and R's readr write above a column without a name.
_UNNAMED = re.compile(r"|Unnamed: \d+(\.\d+)?(_level_\d+)?|__index_level_\d+__|\.\.\.\d+")
_HEADER_WORDS = "header=True or header=False (--header or --no-header)"


# Row labels.


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
    unnamed = file.named and _UNNAMED.fullmatch(file.names[0]) is not None and d > 1
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
        f"it is not clear whether the first line ({shown}) holds the names of the columns or "
        f"data. Pass {_HEADER_WORDS} to decide it."
    )


def _numbers_below(rows: list[list[str]], d: int) -> npt.NDArray[np.float64]:
    """Return the numbers in some lines (m, d); NaN for text and what is missing."""
    below = np.full((len(rows), d), np.nan)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row[:d]):
            if cell not in MISSING and is_number(cell) and cell.lower() not in ("true", "false"):
                below[i, j] = float(cell)
    below[np.isinf(below)] = np.nan
    return below
