"""From anything that is a table to an own float64 matrix in Fortran order, and its names."""

from __future__ import annotations

import datetime
import json
import re
import reprlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.interchange as interchange
from scipy import sparse

from bigdag.data.names import default_names
from bigdag.errors import DataError, few_names
from bigdag.resources import require_memory

__all__ = [
    "NUMBER",
    "Categories",
    "FloatArray",
    "arrow_floats",
    "arrow_values",
    "best_example",
    "column_blocks",
    "holds_numbers",
    "is_number",
    "matrix_of",
    "names_of",
    "pandas_categories",
    "pandas_index",
    "refuse_columns",
    "require_table",
]

FloatArray = npt.NDArray[np.float64]

_SHOWN = 3  # columns named in a message before "and k more"
_BLOCK = 2**20  # values worked on at a time
# How a number, or a truth value, is written.
NUMBER = r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity|nan)|true|false"
_NUMBER = re.compile(NUMBER, re.I)
_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
_EXAMPLES = 1000  # cells that are looked at for a better example, where there is one already


class DataTypeError(DataError, TypeError):
    """Bad data that Python and scikit-learn call a `TypeError`."""


def column_blocks(n: int, d: int) -> Iterable[slice]:
    """Return slices of columns of length n that are small enough to work on at a time."""
    step = max(1, _BLOCK // max(n, 1))
    return (slice(start, min(start + step, d)) for start in range(0, d, step))


def require_table(
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


def _own_matrix(n: int, d: int, memory_limit: float | str | None) -> FloatArray:
    """Return an empty matrix (n, d) in Fortran order, if there is memory for it."""
    if memory_limit is not None or n * d > _BLOCK:  # asking takes longer than a small table
        require_table(n, d, 0, memory_limit)
    return np.empty((n, d), order="F")


def matrix_of(
    table: Any, memory_limit: float | str | None = None
) -> tuple[FloatArray, tuple[str, ...] | None]:
    """Return the numbers of a table as an own matrix (n, d) in Fortran order, and its names."""
    if sparse.issparse(table):
        raise DataTypeError(
            f"Sparse data are not supported. Got {type(table).__name__}; pass .toarray() instead."
        )
    if isinstance(table, str | Path):
        raise DataError(
            f"Expected a table, got the text {str(table)!r}. To read a file use "
            "bigdag.data.tables.read_table."
        )
    if isinstance(table, pd.DataFrame):
        return _pandas_matrix(table, memory_limit)
    if hasattr(table, "__arrow_c_stream__") and not isinstance(table, pd.Series):
        try:
            arrow = table if isinstance(table, pa.Table) else pa.table(table)
        except (TypeError, pa.ArrowInvalid):
            pass  # a stream of one array is no table; below it is refused as 1-D
        else:
            return _arrow_matrix(arrow, memory_limit)
    if hasattr(table, "__dataframe__"):
        try:
            arrow = interchange.from_dataframe(table)
        except Exception as err:  # foreign protocols raise anything
            raise DataError(f"{_kind(table)} cannot be read as a table: {err}") from err
        return _arrow_matrix(arrow, memory_limit)
    return _array_matrix(table, memory_limit)


def _array_matrix(
    table: Any, memory_limit: float | str | None
) -> tuple[FloatArray, tuple[str, ...] | None]:
    if np.ma.isMaskedArray(table):
        need = 3 * 8 * table.size  # with the copy below
        require_memory(need, "this masked array", "Leave out rows or columns.", memory_limit)
        table = np.ma.filled(table.astype(np.float64), np.nan)
    try:
        array = np.asarray(table)
        if array.dtype.kind in "US" and isinstance(table, Sequence):
            array = np.asarray(table, dtype=object)  # keep the numbers beside the text
    except Exception as err:  # foreign __array__ methods raise anything
        raise DataError(
            _ragged_rows(table) or f"{_kind(table)} cannot be read as a table: {err}"
        ) from err
    if array.dtype.names is not None and array.ndim == 1:
        return _pandas_matrix(pd.DataFrame(array), memory_limit)
    if np.iscomplexobj(array):
        raise DataError(
            f"Complex data not supported. Got the dtype {array.dtype}; pass real numbers."
        )
    if array.ndim != 2:
        if array.ndim == 1 and array.size == 0:
            raise DataError("Found 0 sample(s): the table is empty.")
        if array.ndim == 0:
            raise DataError(f"Expected a 2-D table, got {_kind(table)} instead. Reshape your data.")
        raise DataError(
            f"Expected a 2-D table, got a {array.ndim}-D array of shape {array.shape} instead. "
            "Reshape your data to one row per sample and one column per variable"
            + ("; array.reshape(-1, 1) makes one column." if array.ndim == 1 else ".")
        )
    n, d = array.shape
    X = _own_matrix(n, d, memory_limit)
    if array.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # an overflow gives inf, which is refused with its place
            X[...] = array
        return X, None
    array = array.astype(object)
    _fill(X, range(d), lambda j: _numbers(array[:, j]), lambda j: array[:, j], default_names(d))
    return X, None


def _pandas_matrix(
    frame: pd.DataFrame, memory_limit: float | str | None
) -> tuple[FloatArray, tuple[str, ...] | None]:
    names = names_of(frame.columns)
    n, d = frame.shape
    dtypes = list(frame.dtypes)
    if any(getattr(dtype, "kind", "O") == "c" for dtype in set(dtypes)):
        raise DataError("Complex data not supported. Pass columns of real numbers.")
    numeric = {dtype: pd.api.types.is_numeric_dtype(dtype) for dtype in set(dtypes)}
    other = [j for j, dtype in enumerate(dtypes) if not numeric[dtype]]
    X = _own_matrix(n, d, memory_limit)

    def values(j: int) -> npt.NDArray[np.object_]:
        return frame.iloc[:, j].to_numpy(dtype=object)

    _fill(
        X,
        other,
        lambda j: _numbers(values(j)) if dtypes[j] == np.dtype(object) else None,
        lambda j: (
            Categories(dtypes[j].categories)
            if isinstance(dtypes[j], pd.CategoricalDtype)
            else values(j)
        ),
        names or default_names(d),
    )
    rest = np.setdiff1d(np.arange(d), other)
    for part in column_blocks(n, len(rest)):
        columns = rest[part]
        block = frame if len(columns) == d else frame.iloc[:, columns]
        X[:, columns] = block.to_numpy(dtype=np.float64, na_value=np.nan)
    return X, names


def _arrow_matrix(
    table: pa.Table, memory_limit: float | str | None
) -> tuple[FloatArray, tuple[str, ...] | None]:
    # The index of a pandas frame is no data; one that is a mere range has no column.
    index = pandas_index(table.schema)
    table = table.select([j for j, name in enumerate(table.column_names) if name not in index])
    names = tuple(table.column_names)
    n, d = table.shape
    X = _own_matrix(n, d, memory_limit)
    _fill(
        X,
        range(d),
        lambda j: arrow_floats(table.column(j)),
        lambda j: arrow_values(table.column(j)),
        names,
    )
    return X, names or None


def names_of(labels: pd.Index) -> tuple[str, ...] | None:
    """Names from the labels of a data frame: as text, or none where they only count.

    Text mixed with other types is refused, by scikit-learn's rule.
    """
    values = list(labels)
    text = [isinstance(label, str) for label in values]
    if any(text) and not all(text):
        types = sorted({type(label).__qualname__ for label in values})
        raise DataTypeError(
            "Feature names are only supported if all input features have string names, but your "
            f"input has {types} as column name types. Convert them, for example with "
            "X.columns = X.columns.astype(str)."
        )
    if all(text):
        return tuple(str(label) for label in values) or None
    whole = all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in values)
    if whole and values == list(range(len(values))):
        return None
    return tuple(_label_text(label) for label in values)


def _label_text(label: Any) -> str:
    """Return the label of a column as text; the levels of a MultiIndex are joined by "_"."""
    if isinstance(label, tuple):
        return "_".join(text for text in map(_label_text, label) if text)
    if label is pd.NaT or label is pd.NA:
        return str(label)
    if isinstance(label, np.datetime64):
        label = pd.Timestamp(label)
    if isinstance(label, datetime.datetime):  # a Timestamp too
        text = label.isoformat()
        return text.removesuffix("T00:00:00")
    if isinstance(label, datetime.date | datetime.time):
        return label.isoformat()
    return str(label)


def pandas_index(schema: pa.Schema) -> list[str]:
    """Return the names of the columns that pandas wrote its index to, by the table's metadata."""
    # A dict among them tells of an index that is a mere range, and has no column.
    return [name for name in _pandas_notes(schema, "index_columns") if isinstance(name, str)]


def pandas_categories(schema: pa.Schema) -> list[str]:
    """Return the names of the columns that were categories in pandas, by the table's metadata."""
    notes = [note for note in _pandas_notes(schema, "columns") if isinstance(note, dict)]
    return [str(n.get("field_name")) for n in notes if n.get("pandas_type") == "categorical"]


def _pandas_notes(schema: pa.Schema, about: str) -> list[Any]:
    raw = (schema.metadata or {}).get(b"pandas")
    if raw is None:
        return []
    try:
        return list(json.loads(raw).get(about, []))
    except (ValueError, RecursionError, AttributeError, TypeError):
        raise DataError(
            "the metadata 'pandas' of the table are not what pandas writes, so it is unknown "
            "which columns are its index. Write the table again, or without these metadata."
        ) from None


def arrow_floats(column: pa.ChunkedArray) -> FloatArray | None:
    """Return an Arrow column as floats, missing values as NaN; None if it holds no numbers."""
    if not holds_numbers(column.type):
        return None
    if column.type != pa.float64():
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False))


@cache  # a wide table has one type many times
def holds_numbers(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of numbers or truth values."""
    kinds = pa.types
    tests = kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal, kinds.is_null
    return any(test(kind) for test in tests)


def arrow_values(column: pa.ChunkedArray) -> Iterable[Any]:
    """Return the values of an Arrow column that holds no numbers, to show one of them."""
    if pa.types.is_dictionary(column.type) and column.num_chunks:
        return Categories(column.chunk(0).dictionary.to_pylist())
    return column.to_pylist()


class Categories(list[Any]):
    """The categories of a column, in place of its values."""


def _fill(
    X: FloatArray,
    columns: Iterable[int],
    floats: Callable[[int], FloatArray | None],
    values: Callable[[int], Iterable[Any]],
    names: Sequence[str],
) -> None:
    """Write the given columns into X in place, or refuse those that `floats` has no numbers for."""
    bad = []
    for j in columns:
        column = floats(j)
        if column is None:
            bad.append(j)
        else:
            X[:, j] = column
    if not bad:
        return
    refuse_columns(bad, names, lambda j: best_example(values(j)))


def refuse_columns(
    bad: Sequence[int], names: Sequence[str], example: Callable[[int], tuple[int, Any]]
) -> NoReturn:
    """Raise the error for columns that hold no numbers; `example` gives a row and its value."""
    shown, reason, times, categories = [], "", "", False
    for j in bad[:_SHOWN]:
        row, value = example(j)
        if isinstance(value, Categories):
            shown.append(f"{names[j]!r} (the categories {few_names(value)})")
            categories = True
            continue
        shown.append(f"{names[j]!r} (row {row}: {reprlib.repr(value)})")
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
    error = DataTypeError if reason or times else DataError
    raise error(
        f"{len(bad)} of {len(names)} columns hold text or other values that are not numbers: "
        f"{', '.join(shown)}{more}{reason}. Leave these columns out, or encode them as numbers."
        + times
        + (
            " Categories are names, even where they are written as numbers; if they are "
            "quantities, make them numbers, for example with .astype(float)."
            if categories
            else ""
        )
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


def _numbers(values: npt.NDArray[np.object_]) -> FloatArray | None:
    """Turn a column of Python objects into floats; None if one of them is not a number."""
    kinds = ("floating", "integer", "mixed-integer-float", "boolean", "decimal", "empty")
    present = ~np.asarray(pd.isna(values), dtype=bool)
    if pd.api.types.infer_dtype(values, skipna=True) not in kinds and any(
        isinstance(value, str | bytes) or not is_number(value) for value in values[present]
    ):
        return None
    out = np.full(len(values), np.nan)
    try:
        out[present] = values[present].astype(np.float64)
    except OverflowError:  # an integer beyond float64
        out[present] = np.inf
    return out


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


def _kind(table: Any) -> str:
    return "None" if table is None else f"an object of type {type(table).__name__!r}"


def _ragged_rows(table: Any) -> str | None:
    """Say which row of a sequence of rows has another length than the first."""
    if not isinstance(table, Sequence) or not all(hasattr(row, "__len__") for row in table):
        return None
    for number, row in enumerate(table, 1):
        if len(row) != len(table[0]):
            return f"Row {number} has {len(row)} cells, but row 1 has {len(table[0])}."
    return None
