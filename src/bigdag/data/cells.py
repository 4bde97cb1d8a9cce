"""Cells of a table: which are numbers, and the error for columns that hold something else."""

from __future__ import annotations

import datetime
import re
import reprlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from bigdag.errors import DataError, counted, few_names

__all__ = [
    "NUMBER",
    "Categories",
    "DataTypeError",
    "best_example",
    "cell_advice",
    "is_number",
    "is_slip",
    "refuse_columns",
    "without_words",
]

_SHOWN = 3  # columns named in a message before "and k more"
# How a number, or a truth value, is written.
NUMBER = r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity|nan)|true|false"
_NUMBER = re.compile(NUMBER, re.I)
_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
_SLIPS = 5  # times as many numbers as other cells make a column one of numbers
_EXAMPLES = 1000  # cells that are looked at for a better example, where there is one already


class DataTypeError(DataError, TypeError):
    """Bad data that Python and scikit-learn call a `TypeError`."""


class Categories(list[Any]):
    """The categories of a column, in place of its values."""


def refuse_columns(
    bad: Sequence[int],
    names: Sequence[str],
    example: Callable[[int], tuple[int, Any]],
    d: int | None = None,
    counts: Callable[[int], tuple[int, int]] | None = None,
) -> NoReturn:
    """Raise the error for columns that hold no numbers; `example` gives a row and its value.

    `d` is the number of all columns, where `names` are not theirs. `counts` tells how many cells of
    a column are no numbers, of how many that are not missing, where that is known.
    """
    shown, reason, times, categories, sign = [], "", "", False, ""
    if counts is not None and all(
        is_slip(*counts(j)) and isinstance(example(j)[1], str) for j in bad
    ):
        _refuse_cells(bad, names, example, counts)
    for j in bad[:_SHOWN]:
        row, value = example(j)
        if isinstance(value, Categories):
            shown.append(f"{names[j]!r} (the categories {few_names(value)})")
            categories = True
            continue
        shown.append(f"{names[j]!r} (row {row}: {reprlib.repr(value)})")
        if isinstance(value, str) and not any(letter.isalnum() for letter in value):
            value = value.strip()
            sign = (
                f" If {value!r} means a missing value, write NA or nothing in its place, or name "
                f"it: missing_code={value!r} of prepare (--missing-code={value!r})."
            )
        if isinstance(value, _TIMES):
            times = times or f" Column {names[j]!r} holds dates or times; make them numbers first."
        elif not reason and not isinstance(value, str | bytes):
            try:
                float(value)
            except TypeError as err:
                reason = f" ({err})"
            except (ValueError, OverflowError):
                pass
    more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
    if (d or len(names)) == 1 and isinstance(value := example(bad[0])[1], str):
        sign += _other_separator(value)
    error = DataTypeError if reason or times else DataError
    leave_out = (
        "Leave these columns out, or encode them as numbers."
        if len(bad) > 1
        else "Leave this column out, or encode it as numbers."
    )
    raise error(
        f"{len(bad)} of {counted(d or len(names), 'column')} hold{'s' * (len(bad) == 1)} text or "
        "other values that are not numbers: "
        f"{', '.join(shown)}{more}{reason}. {leave_out}"
        + sign
        + times
        + (
            " Categories are names, even where they are written as numbers; if they are "
            "quantities, make them numbers, for example with .astype(float)."
            if categories
            else ""
        )
    )


def _other_separator(cell: str) -> str:
    """Say which sign may separate the cells of a table that was read as one column."""
    found = max("|;,\t:", key=cell.count)
    if not cell.count(found):
        return ""
    written = "a tab" if found == "\t" else repr(found)
    return (
        f" The table has one column only. If {written} separates its cells, write the line "
        f"sep={found} above the names."
    )


def is_slip(texts: int, cells: int) -> bool:
    """Tell whether so few cells of a column are no numbers that it is a column of numbers.

    Examples
    --------
    >>> is_slip(1, 500), is_slip(1, 1), is_slip(300, 500)
    (True, False, False)
    """
    return 0 < _SLIPS * texts <= cells


def cell_advice(value: Any) -> str:
    """Say what to do with a cell among numbers that is none."""
    text = str(value).strip()
    if re.fullmatch(r"[+-]?\d+,\d+", text):
        return "Write numbers with a decimal point, as in 1.5, and without other commas."
    return (
        "Correct such a cell; where it stands for a missing value, write NA or nothing in its "
        f"place, or name it: missing_code={text!r} of prepare (--missing-code={text!r})."
    )


def _refuse_cells(
    bad: Sequence[int],
    names: Sequence[str],
    example: Callable[[int], tuple[int, Any]],
    counts: Callable[[int], tuple[int, int]],
) -> NoReturn:
    """Raise the error for columns of numbers in which some cells are none."""
    if len(bad) > 1 and len({example(j)[0] for j in bad}) == max(counts(j)[0] for j in bad) == 1:
        _refuse_row(bad, names, example)
    shown = []
    for j in bad[:_SHOWN]:
        (row, value), (texts, cells) = example(j), counts(j)
        others = f", and {texts - 1:,} more of its {cells:,} values" if texts > 1 else ""
        shown.append(f"{names[j]!r} (row {row}: {reprlib.repr(value)}{others})")
    more = f" and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
    columns = "A column" if len(bad) == 1 else f"{len(bad):,} columns"
    hold = "holds" if len(bad) == 1 else "hold"
    total = sum(counts(j)[0] for j in bad)
    what = "a cell that is no number" if total == 1 else f"{total:,} cells that are no numbers"
    raise DataError(
        f"{columns} of numbers {hold} {what}: {', '.join(shown)}{more}. "
        f"{cell_advice(example(bad[0])[1])} Or leave "
        f"{'the column' if len(bad) == 1 else 'these columns'} out: drop= (--drop)."
    )


def _refuse_row(
    bad: Sequence[int], names: Sequence[str], example: Callable[[int], tuple[int, Any]]
) -> NoReturn:
    """Raise the error for text in one row of several columns of numbers."""
    row = example(bad[0])[0]
    shown = [f"{example(j)[1]!r} in {names[j]!r}" for j in bad[:_SHOWN]]
    more = f" and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
    reason = (
        "If it holds units, take this line out of the file; if it holds the names of the columns, "
        "take out the line above it instead."
        if row == 1
        else "If it is a line of totals, of units or of remarks, take it out of the file."
    )
    raise DataError(
        f"row {row:,} holds text in {len(bad):,} columns of numbers: {', '.join(shown)}{more}. "
        f"{reason}"
    )


def best_example(values: Iterable[Any]) -> tuple[int, Any]:
    """Return the row and the value that best show that a column does not hold numbers."""
    if isinstance(values, Categories):
        return 1, values
    best, place, shown = -1, 1, None
    for row, value in enumerate(values, 1):
        # Best is what does not even look like a number, then true or false, then text, then any.
        if value is None or value is pd.NA or value is pd.NaT:
            merit = 0
        elif not is_number(value):
            merit = 4
        elif isinstance(value, str):
            merit = 3 if value.strip().lower() in ("true", "false") else 2
        else:
            merit = 1 + isinstance(value, bytes)
        if merit > best:
            best, place, shown = merit, row, value
        if merit == 4 or (best >= 2 and row >= _EXAMPLES):
            break
    return place, shown


def without_words(column: pa.ChunkedArray, words: Sequence[str]) -> tuple[pa.ChunkedArray, int]:
    """Return text whose cells with words for missing values are empty, and how many these were.

    It becomes numbers, where there were such words and nothing else keeps it from it.

    Examples
    --------
    >>> column, count = without_words(pa.chunked_array([["1.5", "?", "2"]]), ["?"])
    >>> column.to_pylist(), count
    ([1.5, None, 2.0], 1)
    """
    cells = pc.utf8_trim_whitespace(column)
    here = pc.is_in(cells, value_set=pa.array(words, column.type))
    count = pc.sum(here).as_py() or 0
    if not count:
        return column, 0
    left = pc.if_else(here, pa.scalar(None, column.type), cells)
    with suppress(pa.ArrowInvalid):
        left = left.cast(pa.float64())
    return left, count


def is_number(value: Any) -> bool:
    """Whether a cell is a number, or text that reads as one."""
    if isinstance(value, str | bytes):
        text = value if isinstance(value, str) else value.decode("utf-8", "replace")
        return _NUMBER.fullmatch(text.strip()) is not None
    try:
        float(value)
    except OverflowError:
        pass  # an integer beyond float64
    except (TypeError, ValueError):
        return False
    return True
