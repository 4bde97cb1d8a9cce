"""From anything that is a table to an own float64 matrix in Fortran order, and its names."""

from __future__ import annotations

import datetime
import json
import mmap
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.interchange as interchange
from scipy import sparse

from bigdag.data.cells import Categories, DataTypeError, best_example, is_number, refuse_columns
from bigdag.data.names import default_names
from bigdag.errors import DataError, DataWarning, few_names
from bigdag.resources import require_memory

__all__ = [
    "FloatArray",
    "Rows",
    "arrow_floats",
    "arrow_values",
    "block_rows",
    "column_blocks",
    "counts_rows",
    "holds_numbers",
    "index_names",
    "matrix_of",
    "names_of",
    "pandas_categories",
    "pandas_index",
    "require_table",
    "rows_of",
    "table_memory",
]

FloatArray = npt.NDArray[np.float64]

_BLOCK = 2**20  # values worked on at a time
_ROWS = 512  # of a block in one pass at least: with fewer, adding products takes the longest


def column_blocks(n: int, d: int) -> Iterable[slice]:
    """Return slices of columns of length n that are small enough to work on at a time."""
    step = max(1, _BLOCK // max(n, 1))
    return (slice(start, min(start + step, d)) for start in range(0, d, step))


def require_table(
    n: int,
    d: int,
    block: int,
    memory_limit: float | str | None,
    unit: str = "rows",
    remedy: str = "Leave out rows or columns, or allow more memory.",
) -> None:
    """Refuse a matrix (n, d) that would go beyond the limit, with the blocks it is read in."""
    require_memory(
        table_memory(n, d, block),
        f"a table of {n:,} {unit} and {d:,} columns",
        remedy,
        memory_limit,
    )


def table_memory(n: int, d: int, block: int = 0) -> int:
    """Return the bytes of a matrix (n, d), with what reading or checking it takes for a while.

    Examples
    --------
    >>> table_memory(1000, 10)
    320000
    """
    checks = 3 * 8 * max(min(n * d, 2**20), n)
    return 8 * n * d + max(block, checks)


def block_rows(d: int) -> int:
    """Return the number of rows of d columns that are worked on at a time in one pass."""
    return max(_ROWS, _BLOCK // 2 // max(1, d))


class Rows(NamedTuple):
    """A table whose rows are there on demand, from the first to the last.

    Attributes
    ----------
    n, d : int
        Rows and columns.
    fill : callable
        Takes `start`, `stop` and an array (stop - start, d), and writes these rows into it. It is
        called for one block after the other, once each.
    overhead : int
        The bytes that it takes for a while.
    """

    n: int
    d: int
    fill: Callable[[int, int, FloatArray], None]
    overhead: int = 0

    def without(self, columns: Sequence[int]) -> Rows:
        """Leave columns out.

        Examples
        --------
        >>> X = np.arange(6.0).reshape(2, 3)
        >>> def fill(start, stop, out):
        ...     out[...] = X[start:stop]
        >>> out = np.empty((2, 2))
        >>> Rows(2, 3, fill).without([0]).fill(0, 2, out)
        >>> out
        array([[1., 2.],
               [4., 5.]])
        """
        kept = np.setdiff1d(np.arange(self.d), columns)

        def fill(start: int, stop: int, out: FloatArray) -> None:
            whole = np.empty((stop - start, self.d))
            self.fill(start, stop, whole)
            out[...] = whole[:, kept]

        block = 8 * block_rows(self.d) * self.d
        return Rows(self.n, len(kept), fill, self.overhead + block)


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
        return _sparse_matrix(table, memory_limit), None
    if isinstance(table, str | Path):
        raise DataError(
            f"Expected a table, got the text {str(table)!r}. To read a file use "
            "bigdag.data.tables.read_table."
        )
    if isinstance(table, pd.DataFrame):
        return _pandas_matrix(table, memory_limit)
    if _is_dask_array(table):
        return _dask_matrix(table, memory_limit), None
    if _is_stored_array(table):
        return _stored_matrix(table, memory_limit), None
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
            lazy = " Call its method .collect() first." if hasattr(table, "collect") else ""
            raise DataError(
                f"Expected a 2-D table, got {_kind(table)} instead. Reshape your data.{lazy}"
            )
        raise DataError(
            f"Expected a 2-D table, got a {array.ndim}-D array of shape {array.shape} instead. "
            "Reshape your data to one row per sample and one column per variable"
            + ("; array.reshape(-1, 1) makes one column." if array.ndim == 1 else ".")
        )
    n, d = array.shape
    X = _own_matrix(n, d, memory_limit)
    if array.dtype.kind in "biuf":
        give_back, step = _mapped_pages(array), block_rows(d)
        for start in range(0, n, step):
            with np.errstate(over="ignore"):  # an overflow gives inf, refused with its place
                X[start : start + step] = array[start : start + step]
            give_back()
        return X, None
    array = array.astype(object)
    _fill(X, range(d), lambda j: _numbers(array[:, j]), lambda j: array[:, j], default_names(d))
    return X, None


def _is_dask_array(table: Any) -> bool:
    """Tell whether a table is a two-dimensional array of numbers that Dask computes by blocks."""
    parts = ("__dask_graph__", "chunks", "blocks", "compute_chunk_sizes")
    is_one = all(hasattr(type(table), name) for name in parts)
    return is_one and table.ndim == 2 and table.dtype.kind in "biuf"


def _known_shape(table: Any) -> tuple[int, int]:
    """Return the shape of a Dask array, or say that it is not known."""
    if any(size != size for size in table.shape):  # NaN
        raise DataError(
            f"The Dask array has the shape {table.shape}: how large its blocks are is not known. "
            "Call its method compute_chunk_sizes() first."
        )
    n, d = table.shape
    return int(n), int(d)


def _dask_matrix(table: Any, memory_limit: float | str | None) -> FloatArray:
    """Return a Dask array as a matrix, gathered one block at a time."""
    X = _own_matrix(*_known_shape(table), memory_limit)
    rows, columns = (np.concatenate([[0], np.cumsum(sizes)]) for sizes in table.chunks)
    for i, j in np.ndindex(*table.numblocks):
        with np.errstate(over="ignore"):  # an overflow gives inf, which is refused with its place
            X[rows[i] : rows[i + 1], columns[j] : columns[j + 1]] = table.blocks[i, j].compute()
    return X


def _is_stored_array(table: Any) -> bool:
    """Tell whether a table is a two-dimensional array of numbers that is read by parts.

    Those are arrays of Zarr and of HDF5 files (h5py). Dask's have chunks of several sizes.
    """
    if isinstance(table, np.ndarray) or not hasattr(table, "chunks"):
        return False
    shape, dtype = getattr(table, "shape", ()), getattr(table, "dtype", None)
    chunks = () if table.chunks is None else table.chunks  # None: all of it is one piece
    numbers = isinstance(dtype, np.dtype) and dtype.kind in "biuf"
    whole = all(isinstance(size, int | np.integer) for size in (*shape, *chunks))
    return numbers and whole and len(shape) == 2 and hasattr(type(table), "__getitem__")


def _stored_matrix(table: Any, memory_limit: float | str | None) -> FloatArray:
    """Return a stored array as a matrix, read some of its chunks at a time."""
    n, d = map(int, table.shape)
    rows, columns = map(int, table.chunks or (1, d))
    require_table(n, d, min(rows, n) * min(columns, d) * table.dtype.itemsize, memory_limit)
    X = _own_matrix(n, d, memory_limit)
    columns *= max(1, _BLOCK // max(1, rows * columns))
    rows *= max(1, _BLOCK // max(1, rows * min(columns, d)))
    for start in range(0, n, max(1, rows)):
        for first in range(0, d, max(1, columns)):
            part = slice(start, min(start + rows, n)), slice(first, min(first + columns, d))
            with np.errstate(over="ignore"):  # an overflow gives inf, refused with its place
                X[part] = table[part]
    return X


def _sparse_matrix(table: Any, memory_limit: float | str | None) -> FloatArray:
    """Return a sparse matrix or array of SciPy as a dense matrix, made some lines at a time."""
    if table.ndim != 2:
        raise DataError(
            f"Expected a 2-D table, got a {table.ndim}-D sparse array of shape {table.shape} "
            "instead. Reshape your data to one row per sample and one column per variable."
        )
    if table.dtype.kind == "c":
        raise DataError("Complex data not supported. Pass a sparse matrix of real numbers.")
    if table.dtype.kind not in "biuf":
        raise DataTypeError(f"A sparse matrix must hold numbers. Got the dtype {table.dtype}.")
    n, d = table.shape
    _check_sparse(table)
    by_rows = table.format == "csr"
    # Made float64 first: sums of entries that stand twice must not overflow.
    lines = table if by_rows or table.format == "csc" else table.astype(np.float64).tocsc()
    X = _own_matrix(n, d, memory_limit)
    for part in column_blocks(d, n) if by_rows else column_blocks(n, d):
        if by_rows:
            X[part] = lines[part].astype(np.float64).toarray()
        else:
            X[:, part] = lines[:, part].astype(np.float64).toarray()
    return X


def _check_sparse(table: Any) -> None:
    """Refuse a sparse matrix with places outside of it, which SciPy would follow."""
    if hasattr(table, "check_format"):
        try:
            table.check_format(full_check=True)
        except ValueError as err:
            raise DataError(f"The sparse matrix is damaged: {err}.") from err


def rows_of(table: Any) -> Rows | None:
    """Return the rows of an array (Dask, Zarr, h5py, NumPy) or a sparse matrix of numbers, or None.

    Pages of a file that is mapped into the memory are given back after each block: else they would
    count as memory that the process holds.
    """
    if sparse.issparse(table):
        if table.ndim != 2 or table.dtype.kind not in "biuf":
            return None
        by_rows = table.format == "csr"
        held: list[Any] = [table] if by_rows else []

        def fill_sparse(start: int, stop: int, out: FloatArray) -> None:
            if start == 0:
                _check_sparse(table)
            if not held:
                held.append(table.astype(np.float64).tocsr())
            held[0][start:stop].astype(np.float64).toarray(out=out)

        size = 0 if by_rows else 2 * 16 * table.nnz  # of a copy by rows
        return Rows(table.shape[0], table.shape[1], fill_sparse, overhead=size)
    if _is_dask_array(table):

        def fill_blocks(start: int, stop: int, out: FloatArray) -> None:
            with np.errstate(over="ignore"):
                out[...] = table[start:stop].compute()

        return Rows(*_known_shape(table), fill_blocks)
    if _is_stored_array(table):
        n, d = map(int, table.shape)
        chunk = max(1, int((table.chunks or (1,))[0]))
        step = chunk * -(-block_rows(d) // chunk)  # rows of whole chunks
        band: dict[int, FloatArray] = {}  # the last of them, by their first row

        def fill_stored(start: int, stop: int, out: FloatArray) -> None:
            for first in range(start - start % step, stop, step):
                if first not in band:
                    band.clear()
                    band[first] = table[first : first + step]
                a, b = max(start, first), min(stop, first + step)
                with np.errstate(over="ignore"):
                    out[a - start : b - start] = band[first][a - first : b - first]

        return Rows(n, d, fill_stored, overhead=min(step, n) * d * table.dtype.itemsize)
    plain = isinstance(table, np.ndarray) and not np.ma.isMaskedArray(table)
    if not plain or table.ndim != 2 or table.dtype.kind not in "biuf":
        return None
    give_back = _mapped_pages(table)

    def fill(start: int, stop: int, out: FloatArray) -> None:
        with np.errstate(over="ignore"):  # an overflow gives inf, which is refused with its place
            out[...] = table[start:stop]
        give_back()

    return Rows(table.shape[0], table.shape[1], fill)


def _mapped_pages(array: npt.NDArray[Any]) -> Callable[[], None]:
    """Return what gives back the memory that the pages of a mapped file take."""
    base: Any = array
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    pages = getattr(base, "_mmap", None)
    # What was changed in a mapping of one's own ("c") is nowhere else.
    own = getattr(base, "mode", "c") not in ("r", "r+", "w+")
    if pages is None or own or not hasattr(mmap, "MADV_DONTNEED"):
        return lambda: None
    return lambda: pages.madvise(mmap.MADV_DONTNEED)


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
    beside = [j for j, name in enumerate(table.column_names) if name in index]
    chunks = table.column(beside[0]).chunks if len(beside) == 1 else []
    counted = counts_rows(chunk.to_numpy(zero_copy_only=False) for chunk in chunks)
    if beside and not counted:
        levels = [table.column_names[j] for j in beside]
        warnings.warn(
            f"the index that pandas noted in the table ({index_names(levels)}) was left out. If it "
            "holds data, pass table.replace_schema_metadata(), which forgets what was the index.",
            DataWarning,
            stacklevel=4,  # the caller of as_dataset
        )
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


def index_names(levels: Sequence[str]) -> str:
    """Return the names of an index's levels, to show them."""
    if all(re.fullmatch(r"__index_level_\d+__", name) for name in levels):
        return "without a name" if len(levels) == 1 else f"{len(levels)} levels without names"
    return few_names(levels)


def counts_rows(blocks: Iterable[npt.NDArray[Any]]) -> bool:
    """Whether numbers that come in blocks are 0, 1, 2, ..., as in the index that pandas makes up.

    Examples
    --------
    >>> counts_rows([np.arange(3), np.arange(3, 5)]), counts_rows([np.array([1, 2])])
    (True, False)
    """
    row = 0
    for block in blocks:
        if block.dtype.kind not in "iu" or (block != np.arange(row, row + len(block))).any():
            return False
        row += len(block)
    return row > 0


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
