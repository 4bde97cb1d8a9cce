"""A table as it came: numbers with missing values among them, and columns that are no numbers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from bigdag.data.cells import (
    Categories,
    best_example,
    is_number,
    is_slip,
    refuse_columns,
    without_words,
)
from bigdag.data.content import TextColumn
from bigdag.data.convert import (
    FloatArray,
    arrow_values,
    holds_numbers,
    matrix_of,
    names_of,
    pandas_index,
)
from bigdag.data.dataset import Dataset
from bigdag.data.names import checked_names, default_names
from bigdag.errors import DataError, ParameterError, near_or_some

__all__ = ["Raw", "chosen_names", "raw_table"]

_LOOKED_AT = 100  # cells, of which one is a number where text is the exception


class Raw(NamedTuple):
    """The columns of a table before they are checked; X is an own copy that may be changed."""

    X: FloatArray  # (n, d), Fortran order; NaN where a value is missing
    names: tuple[str, ...]
    named: bool  # False where the table has no names at all
    text: dict[str, TextColumn]  # the columns that hold no numbers
    first_in_file: str | None = None  # the column that an option of the reader leaves out
    tell_counts: bool = True  # whether columns that count the rows are to be told
    decoded: int = 0  # cells that were words for missing values

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names of all columns, those of text last."""
        return (*self.names, *self.text)

    def only(self, names: Sequence[str]) -> Raw:
        """Keep some of the columns of numbers, in their order; X changes.

        Made-up names say more than the place of a column once others before it are gone: they are
        kept as names then, or "x1" would be called "x0" in the answer.
        """
        wanted = set(names)
        kept = [j for j, name in enumerate(self.names) if name in wanted]
        X = self.X
        for new, old in enumerate(kept):
            if new != old:  # in place: a copy would take the memory twice
                X[:, new] = X[:, old]
        left = tuple(self.names[j] for j in kept)
        named = self.named or left != default_names(len(left))
        return self._replace(X=X[:, : len(kept)], names=left, named=named)

    def refuse_text(self, names: Sequence[str]) -> None:
        """Refuse the table if one of these columns holds no numbers."""
        bad = [name for name in names if name in self.text]
        if not bad:
            return
        try:
            refuse_columns(
                range(len(bad)), bad, lambda j: self.text[bad[j]].example, len(self.all_names),
                lambda j: (self.text[bad[j]].texts, self.text[bad[j]].cells),
            )  # fmt: skip
        except DataError as error:
            if all(is_slip(self.text[name].texts, self.text[name].cells) for name in bad):
                raise
            raise type(error)(
                f"{error} drop= (--drop) leaves columns out; batch= and adjust= (--batch, "
                "--adjust) take their effect out of the others."
            ) from None


def raw_table(
    table: Any, memory_limit: float | str | None = None, words: Sequence[str] = ()
) -> Raw:
    """Copy a table of anything that `as_dataset` takes; columns of text are set apart.

    Cells of text that hold one of the `words` are missing.

    Examples
    --------
    >>> raw = raw_table(pd.DataFrame({"a": [1.0, None], "site": ["x", "y"]}))
    >>> raw.names, list(raw.text)
    (('a',), ['site'])
    """
    if isinstance(table, Raw):
        return table
    if isinstance(table, Dataset):
        return _of_dataset(table)
    if isinstance(table, np.ndarray) and table.dtype.kind in "OUS" and table.ndim == 2:
        table = pd.DataFrame(table)
    if isinstance(table, pd.DataFrame):
        table, decoded = _decoded_pandas(table, words)
        return _of_pandas(table, memory_limit)._replace(decoded=decoded)
    if hasattr(table, "__arrow_c_stream__") and not isinstance(table, pd.Series):
        try:
            arrow = table if isinstance(table, pa.Table) else pa.table(table)
        except (TypeError, pa.ArrowInvalid):
            pass  # matrix_of refuses it
        else:
            arrow, decoded = _decoded_arrow(arrow, words)
            return _of_arrow(arrow, memory_limit)._replace(decoded=decoded)
    return _numbers(*matrix_of(table, memory_limit))


def _numbers(
    X: FloatArray, names: tuple[str, ...] | None, text: dict[str, TextColumn] | None = None
) -> Raw:
    text = text or {}
    named = names is not None
    found = default_names(X.shape[1]) if names is None else names
    checked_names((*found, *text), len(found) + len(text))
    return Raw(X, tuple(found), named, text)


def _of_dataset(data: Dataset) -> Raw:
    if data.X is None:
        raise DataError("This needs samples. Got a covariance matrix instead.")
    return Raw(np.asfortranarray(data.X + data.mean), data.names, data.named, {})


def _of_pandas(frame: pd.DataFrame, memory_limit: float | str | None) -> Raw:
    dtypes = list(frame.dtypes)
    numeric = {dtype: pd.api.types.is_numeric_dtype(dtype) for dtype in set(dtypes)}
    found = names_of(frame.columns)
    names = found or default_names(len(dtypes))
    text: dict[int, TextColumn] = {}
    for j, dtype in enumerate(dtypes):
        if numeric[dtype] or (dtype == np.dtype(object) and _reads_as_numbers(frame.iloc[:, [j]])):
            continue
        values = frame.iloc[:, j].to_numpy(dtype=object)
        kind = Categories(dtype.categories) if isinstance(dtype, pd.CategoricalDtype) else values
        text[j] = TextColumn(best_example(kind), *_counted(values), values)
    if not text:
        return _numbers(*matrix_of(frame, memory_limit))
    kept = [j for j in range(len(dtypes)) if j not in text]
    X, _ = matrix_of(frame.iloc[:, kept], memory_limit)
    apart = {names[j]: column for j, column in text.items()}
    return _numbers(X, tuple(names[j] for j in kept), apart)._replace(named=found is not None)


def _decoded_pandas(frame: pd.DataFrame, words: Sequence[str]) -> tuple[pd.DataFrame, int]:
    """Return a frame whose text lacks words for missing values, and how many there were."""
    total = 0
    for j, dtype in enumerate(frame.dtypes if words else ()):
        if pd.api.types.is_numeric_dtype(dtype):
            continue
        column = frame.iloc[:, j]
        here = np.array([isinstance(cell, str) and cell.strip() in words for cell in column])
        if not here.any():
            continue
        total += int(here.sum())
        left = column.mask(here)
        if not isinstance(dtype, pd.CategoricalDtype):  # categories are names, also of numbers
            with suppress(TypeError, ValueError):
                left = pd.to_numeric(left)
        frame = frame.copy(deep=False)
        frame.isetitem(j, left.array)
    return frame, total


def _decoded_arrow(table: pa.Table, words: Sequence[str]) -> tuple[pa.Table, int]:
    """Return an Arrow table whose text lacks words for missing values, and how many there were."""
    total = 0
    for j, field in enumerate(table.schema if words else ()):
        if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
            continue
        left, count = without_words(table.column(j), words)
        if count:
            total += count
            table = table.set_column(j, field.name, left)
    return table, total


def _counted(values: npt.NDArray[np.object_]) -> tuple[int, int]:
    """Return how many values of a column are no numbers, and how many are not missing."""
    there = values[~np.asarray(pd.isna(values), dtype=bool)]
    if not any(is_number(value) for value in there[:_LOOKED_AT]):
        return len(there), len(there)
    return sum(not is_number(value) for value in there), len(there)


def _reads_as_numbers(column: pd.DataFrame) -> bool:
    try:
        matrix_of(column)
    except DataError:
        return False
    return True


def _of_arrow(table: pa.Table, memory_limit: float | str | None) -> Raw:
    index = pandas_index(table.schema)
    kept = [j for j, name in enumerate(table.column_names) if name not in index]
    text = {}
    for j in kept:
        column = table.column(j)
        if not holds_numbers(column.type):
            values = np.empty(len(column), dtype=object)
            values[:] = column.to_pylist()
            example = best_example(arrow_values(column))
            text[table.column_names[j]] = TextColumn(example, values=values)
    numbers = [j for j in kept if table.column_names[j] not in text]
    return _numbers(*matrix_of(table.select(numbers), memory_limit), text)


# ------------------------------------------------------------------ names and patterns


def chosen_names(names: Sequence[str], patterns: Sequence[str], option: str) -> list[str]:
    """Return the names that patterns choose, in their order; each must choose one at least.

    A name that is a pattern literally is chosen for that, whatever its signs mean in a glob.
    """
    known = set(names)
    found: set[str] = set()
    for pattern in patterns:
        hit = {pattern} & known or {name for name in names if fnmatchcase(name, pattern)}
        if not hit:
            hint = near_or_some(pattern, names, "There are")
            raise ParameterError(f"{option} names no column of the table. Got {pattern!r}. {hint}")
        found |= hit
    return [name for name in names if name in found]
