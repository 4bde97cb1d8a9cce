"""The door in: arrays and data frames become a checked, centred `Dataset`.

Every refusal of bad data lives here, so that the modules behind it can trust what they get: finite
float64 numbers, at least two samples, one unique name a column, constant columns exactly zero.
"""

from __future__ import annotations

import datetime
import json
import re
import reprlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.interchange as interchange
from scipy import sparse

from bigdag.errors import DataError, DataWarning

__all__ = ["Dataset", "as_dataset"]

FloatArray = npt.NDArray[np.float64]

# Beyond this the square of a value, which every learner needs, is no float64 any more.
_LARGEST = 1e150
# A column whose standard deviation is below this share of its largest value differs from a constant
# only by rounding; one below the inverse of _LARGEST has a variance that vanishes in float64.
_ROUNDING = 1e-13
_SHOWN = 3  # columns named in a message before "and k more"
_BLOCK = 2**20  # values worked on at a time
# Two columns of length 1 that are no further apart than this are copies of each other.
_COPIES = 1e-9

_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity|nan)|true|false", re.I)


class _DataTypeError(DataError, TypeError):
    """Bad data that Python and scikit-learn call a `TypeError`."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A checked and centred table, or a covariance matrix with its sample size.

    Made by `as_dataset`, `read_table` or `Dataset.from_covariance`, which check what they get.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features), or None
        The centred values, float64 in Fortran order, read-only. None when only a covariance matrix
        is known.
    names : tuple of str
        One name a column; "x0", "x1", ... where the input has none.
    named : bool
        Whether the names came with the data.
    mean : ndarray of shape (n_features,)
        What was subtracted from each column; zeros for a covariance matrix.
    n_samples : int
        The number of rows.
    covariance : ndarray of shape (n_features, n_features), or None
        The covariance matrix, where that is the input.

    Examples
    --------
    >>> data = as_dataset([[1.0, 5.0], [2.0, 3.0], [3.0, 1.0]], names=["dose", "pain"])
    >>> data
    Dataset(n_samples=3, n_features=2, named=True)
    >>> data.mean
    array([2., 3.])
    >>> data.X[:, 1]
    array([ 2.,  0., -2.])
    """

    X: FloatArray | None
    names: tuple[str, ...]
    named: bool
    mean: FloatArray
    n_samples: int
    covariance: FloatArray | None = None

    def __repr__(self) -> str:
        return (
            f"Dataset(n_samples={self.n_samples}, n_features={self.n_features}, named={self.named})"
        )

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return len(self.names)

    @cached_property
    def constant(self) -> npt.NDArray[np.bool_]:
        """Which columns never change, shape (n_features,)."""
        if self.X is not None:
            return np.asarray(~self.X.any(axis=0))
        assert self.covariance is not None
        return np.diagonal(self.covariance) == 0.0

    @classmethod
    def from_covariance(cls, S: Any, n_samples: int, names: Sequence[str] | None = None) -> Dataset:
        """Take a covariance matrix and its sample size instead of data.

        Parameters
        ----------
        S : array or data frame of shape (d, d)
            The covariance matrix, used as it is: learners read it as ``X.T @ X / n``, X centred.
            Names come from the columns of a data frame. Positive semi-definiteness is checked up to
            2,000 variables.
        n_samples : int
            The number of samples it was computed from, at least 2.
        names : sequence of str, optional
            The names of the variables, in place of those of a data frame.

        Returns
        -------
        Dataset
            With `covariance` set and `X` None.

        Raises
        ------
        DataError
            If `S` is not a covariance matrix, or `n_samples` not an integer of at least 2.

        Examples
        --------
        >>> Dataset.from_covariance([[1.0, 0.5], [0.5, 2.0]], n_samples=100)
        Dataset(n_samples=100, n_features=2, named=False)
        """
        matrix, found = matrix_of(S)
        rows = _names_of(S.index) if isinstance(S, pd.DataFrame) and found is not None else None
        if rows is not None and found is not None:
            check_row_names(rows, found)
        given = checked_names(names, found, matrix.shape[1])
        return covariance_dataset(matrix, n_samples, *given)


def as_dataset(table: Any, names: Sequence[str] | None = None) -> Dataset:
    """Check and centre a table.

    Parameters
    ----------
    table : array, data frame or Dataset, of shape (n_samples, n_features)
        A NumPy array of any real dtype and memory order, a pandas DataFrame, an Arrow table, any
        object with ``__arrow_c_stream__``, ``__dataframe__`` or ``__array__``, or a sequence of
        rows. It is copied, never changed. A `Dataset` is returned as it is.
    names : sequence of str, optional
        The names of the columns, in place of those that `table` has. The labels of a pandas
        DataFrame that are not text become text: 2019 is "2019", a date is in ISO form as in
        "2020-12-31", and the levels of a MultiIndex are joined as in "mean_height", without empty
        ones. The labels 0, 1, 2, ... that pandas makes up are no names.

    Returns
    -------
    Dataset
        Constant columns are exactly zero in it.

    Raises
    ------
    DataError
        If the table cannot be learnt from; the message says where and why.

    Warns
    -----
    DataWarning
        If columns are constant: they become isolated nodes. If columns are copies of each other,
        exactly or up to a factor and a shift: no data can tell which of them has the arcs.

    Examples
    --------
    >>> import pandas as pd
    >>> as_dataset(pd.DataFrame({"a": [1, 2, 4], "b": [0.5, 0.1, 0.2]})).names
    ('a', 'b')
    >>> as_dataset([[1.0, float("nan")], [2.0, 3.0]])
    Traceback (most recent call last):
        ...
    bigdag.errors.DataError: 1 value is NaN or infinite, in 1 of 2 columns ('x1'); ...
    """
    if isinstance(table, Dataset):
        if names is None:
            return table
        return replace(table, names=checked_names(names, None, table.n_features)[0], named=True)
    X, found = matrix_of(table)
    return centred_dataset(X, *checked_names(names, found, X.shape[1]))


# From a table to a Dataset.


def centred_dataset(X: FloatArray, names: tuple[str, ...], named: bool) -> Dataset:
    """Check and centre the matrix X (n, d), in place, and make it a Dataset.

    Warnings point at the caller of the function that calls this.
    """
    n, d = X.shape
    _check_values(X, names)
    mean, norm = np.empty(d), np.empty(d)
    for part in _column_blocks(n, d):
        block = X[:, part]  # a view: X changes
        largest = np.abs(block).max(axis=0)
        first = block.mean(axis=0)
        block -= first
        rest = block.mean(axis=0)  # what rounding left of the mean
        block -= rest
        mean[part] = first + rest
        deviation = np.sqrt(np.einsum("ij,ij->j", block, block) / n)
        constant = deviation <= np.maximum(_ROUNDING * largest, 1 / _LARGEST)
        block[:, constant] = 0.0
        norm[part] = np.where(constant, 0.0, deviation * np.sqrt(n))
    X.flags.writeable = mean.flags.writeable = False
    data = Dataset(X, names, named, mean, n)
    _warn_of_constants(data, stacklevel=4)
    _warn_of_copies(data, norm, stacklevel=4)
    return data


def covariance_dataset(
    S: FloatArray, n_samples: int, names: tuple[str, ...], named: bool
) -> Dataset:
    """Check the covariance matrix S (d, d), make it symmetric in place, and make it a Dataset.

    Warnings as in `centred_dataset`.
    """
    if not isinstance(n_samples, int | np.integer) or n_samples < 2:
        raise DataError(f"n_samples must be an integer of at least 2. Got {n_samples!r} instead.")
    _check_covariance(S, names)
    mean = np.zeros(len(names))
    S.flags.writeable = mean.flags.writeable = False
    data = Dataset(None, names, named, mean, int(n_samples), S)
    _warn_of_constants(data, stacklevel=4)
    return data


def check_row_names(rows: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse a covariance matrix whose rows have other names than its columns."""
    if list(rows) != list(columns):
        raise DataError(
            "The rows and columns of the covariance matrix must have the same names in the same "
            f"order. Rows: {_listing(rows)}; columns: {_listing(columns)}."
        )


def _column_blocks(n: int, d: int) -> Iterable[slice]:
    step = max(1, _BLOCK // max(n, 1))
    return (slice(start, min(start + step, d)) for start in range(0, d, step))


def _check_values(X: FloatArray, names: Sequence[str], what: str = "value") -> None:
    """Refuse shapes too small to learn from, and values that are not finite or too large."""
    n, d = X.shape
    if d < 1:
        raise DataError(
            f"Found array with 0 feature(s) (shape=({n}, 0)) while a minimum of 1 is required. "
            "The table has no columns to learn from."
        )
    if n < 2 and what == "value":
        raise DataError(
            f"Found array with {n} sample(s) (shape=({n}, {d})) while a minimum of 2 is required. "
            f"The table has {'only one row' if n else 'no rows'}; relations between columns need "
            "many."
        )
    limit = _LARGEST if what == "value" else _LARGEST**2
    counts, largest = np.empty(d, dtype=np.int64), np.empty(d)
    for part in _column_blocks(n, d):
        counts[part] = n - np.isfinite(X[:, part]).sum(axis=0)
        largest[part] = np.abs(X[:, part]).max(axis=0)
    gaps, large = (np.flatnonzero(bad).tolist() for bad in (counts, largest > limit))
    if gaps:
        total, j = counts.sum(), gaps[0]
        i = int(np.argmin(np.isfinite(X[:, j])))
        raise DataError(
            f"{total} {what}{'s are' if total > 1 else ' is'} NaN or infinite, in {len(gaps)} "
            f"of {d} columns ({_listing([names[c] for c in gaps])}); the first is "
            f"{'NaN' if np.isnan(X[i, j]) else X[i, j]} in column {names[j]!r}, row {i + 1} "
            "(counted from 1). Leave these rows or columns out, or fill the gaps, for example with "
            "sklearn.impute.SimpleImputer."
        )
    if large:
        j = large[0]
        i = int(np.argmax(np.abs(X[:, j]) > limit))
        raise DataError(
            f"Column {names[j]!r} holds {X[i, j]:.3g} in row {i + 1} (counted from 1). A {what} "
            f"must be at most {limit:.0e} in size, or squares overflow. Rescale the column."
        )


def _check_covariance(S: FloatArray, names: Sequence[str]) -> None:
    """Refuse what no data can have as its covariance; make S (d, d) exactly symmetric in place."""
    n, d = S.shape
    if n != d:
        raise DataError(
            f"A covariance matrix must be square. Got {n} rows and {d} columns instead."
        )
    _check_values(S, names, "covariance")
    variance = np.diagonal(S).copy()
    if (variance < 0).any():
        j = int(np.argmin(variance))
        raise DataError(
            f"A variance cannot be negative. Got {variance[j]:.6g} for {names[j]!r} instead."
        )
    deviation, vanishing = np.sqrt(variance), _LARGEST**-2
    # A matrix that came in single precision is exact only to some 1e-7.
    with np.errstate(over="ignore"):  # what overflows did not come in single precision
        single = all((S[:, p].astype(np.float32) == S[:, p]).all() for p in _column_blocks(d, d))
    bound = 1e-5 if single else 1e-8
    uneven, excess = (0.0, 0, 0), None
    for part in _column_blocks(d, d):
        scale = np.outer(deviation, deviation[part])
        gap = np.abs(S[:, part] - S[part, :].T)
        gap[gap <= 1e-6 * scale + vanishing] = 0.0
        i, j = divmod(int(np.argmax(gap)), gap.shape[1])
        if gap[i, j] > uneven[0]:
            uneven = (float(gap[i, j]), i, part.start + j)
        over = np.argwhere(np.abs(S[:, part]) > scale * (1 + bound) + vanishing)
        if excess is None and len(over):
            excess = (int(over[0, 0]), part.start + int(over[0, 1]))
    if uneven[0] > 0:
        size, i, j = uneven
        raise DataError(
            f"A covariance matrix must be symmetric. The largest asymmetry is {size:.6g}, between "
            f"{names[i]!r} and {names[j]!r}: {S[i, j]:.6g} in row {i + 1}, column {j + 1}, but "
            f"{S[j, i]:.6g} in row {j + 1}, column {i + 1}."
        )
    if excess is not None:
        i, j = excess
        raise DataError(
            f"The covariance {S[i, j]:.6g} of {names[i]!r} and {names[j]!r} is larger than "
            f"their variances {variance[i]:.6g} and {variance[j]:.6g} allow: its square must "
            "not exceed their product. This is not a covariance matrix."
        )
    for k in range(1, d):  # one triangle decides, the other differs by rounding at most
        S[k, :k] = S[:k, k]
    S[variance <= vanishing, :] = 0.0
    S[:, variance <= vanishing] = 0.0
    live = np.flatnonzero(np.diagonal(S))
    if len(live) and d <= 2000:
        correlation = S[np.ix_(live, live)] / deviation[live] / deviation[live, None]
        values = np.linalg.eigvalsh(correlation)
        if values[0] < -100 * bound * values[-1]:
            raise DataError(
                "A covariance matrix must be positive semi-definite. The smallest eigenvalue of "
                f"its correlation matrix is {values[0]:.3g}. Covariances computed pair by pair, "
                "around missing values, have this fault; compute them from complete rows."
            )


def _warn_of_constants(data: Dataset, stacklevel: int) -> None:
    constant = np.flatnonzero(data.constant)
    if len(constant):
        warnings.warn(
            f"{len(constant)} of {data.n_features} columns are constant and become isolated nodes: "
            f"{_listing([data.names[j] for j in constant])}.",
            DataWarning,
            stacklevel=stacklevel,
        )


def _warn_of_copies(data: Dataset, norm: FloatArray, stacklevel: int) -> None:
    groups = _copies(data, norm)
    if groups:
        shown = ["(" + _listing([data.names[j] for j in group]) + ")" for group in groups[:_SHOWN]]
        more = f" and {len(groups) - _SHOWN} more groups" if len(groups) > _SHOWN else ""
        warnings.warn(
            f"{sum(map(len, groups))} of {data.n_features} columns are copies of others, exactly "
            f"or up to a factor and a shift: {', '.join(shown)}{more}. No data can tell them "
            "apart, so only chance decides which of them gets the arcs. Keep one of each group.",
            DataWarning,
            stacklevel=stacklevel,
        )


def _copies(data: Dataset, norm: FloatArray) -> list[list[int]]:
    """Find the groups of columns that are equal up to a factor and a shift; norm is theirs (d,).

    One product with a random direction tells columns apart, up to a sign; what falls together is
    compared in full. So this takes n·d operations and a sort, not a correlation of every pair.
    """
    X = data.X
    assert X is not None
    live = np.flatnonzero(norm)
    n = data.n_samples
    if n == 2:  # two samples lie on a line always; only equal columns mean something
        key = X[0]
    else:
        direction = np.random.default_rng(0).standard_normal(n)
        scale = np.where(norm > 0, norm, 1.0)
        key = np.abs(direction @ X) / scale
    live = live[np.argsort(key[live], kind="stable")]
    runs = np.split(live, np.flatnonzero(np.diff(key[live]) > (n > 2) * 10 * _COPIES) + 1)
    groups: list[list[int]] = []
    for run in runs:
        if len(run) < 2:
            continue
        found: list[list[int]] = []
        for j in sorted(run.tolist()):
            column = X[:, j] / norm[j]
            for group in found:
                other = X[:, group[0]] / norm[group[0]]
                if n == 2:
                    same = bool((X[:, group[0]] == X[:, j]).all())
                    same = same and data.mean[group[0]] == data.mean[j]
                else:
                    sign = np.sign(column @ other)
                    same = float(np.linalg.norm(column - sign * other)) <= _COPIES
                if same:
                    group.append(j)
                    break
            else:
                found.append([j])
        groups += [group for group in found if len(group) > 1]
    return sorted(groups)


# Names.


def _listing(names: Sequence[Any]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def default_names(d: int) -> tuple[str, ...]:
    return tuple(f"x{j}" for j in range(d))


def _names_of(labels: pd.Index) -> tuple[str, ...] | None:
    """Names from the labels of a data frame: as text, or none where they only count.

    Text mixed with other types is refused, by scikit-learn's rule.
    """
    values = list(labels)
    text = [isinstance(label, str) for label in values]
    if any(text) and not all(text):
        types = sorted({type(label).__qualname__ for label in values})
        raise _DataTypeError(
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


def checked_names(
    given: Sequence[str] | None, found: tuple[str, ...] | None, d: int
) -> tuple[tuple[str, ...], bool]:
    """Return the names to use, and whether they are more than x0, x1, ..."""
    if given is not None:
        if isinstance(given, str) or not all(isinstance(name, str) for name in given):
            raise DataError(
                f"names must be a sequence of strings. Got {reprlib.repr(given)} instead."
            )
        if len(given) != d:
            raise DataError(f"names must hold one name a column. Got {len(given)} for {d} columns.")
        found = tuple(str(name) for name in given)
    if found is None:
        return default_names(d), False
    if len(set(found)) < len(found):
        twice = [name for name, count in Counter(found).items() if count > 1]
        raise DataError(
            f"Column names must be unique. More than one column is called {_listing(twice)}. "
            "Rename them."
        )
    return found, True


# From anything to an own float64 matrix in Fortran order, with the names it brought.


def matrix_of(table: Any) -> tuple[FloatArray, tuple[str, ...] | None]:
    """Return the numbers of a table as an own matrix (n, d) in Fortran order, and its names."""
    if sparse.issparse(table):
        raise _DataTypeError(
            f"Sparse data are not supported. Got {type(table).__name__}; pass .toarray() instead."
        )
    if isinstance(table, str | Path):
        raise DataError(
            f"Expected a table, got the text {str(table)!r}. To read a file use "
            "bigdag.data.tables.read_table."
        )
    if isinstance(table, pd.DataFrame):
        return _pandas_matrix(table)
    if hasattr(table, "__arrow_c_stream__") and not isinstance(table, pd.Series):
        try:
            arrow = table if isinstance(table, pa.Table) else pa.table(table)
        except (TypeError, pa.ArrowInvalid):
            pass  # a stream of one array is no table; below it is refused as 1-D
        else:
            return _arrow_matrix(arrow)
    if hasattr(table, "__dataframe__"):
        try:
            arrow = interchange.from_dataframe(table)
        except Exception as err:  # foreign protocols raise anything
            raise DataError(f"{_kind(table)} cannot be read as a table: {err}") from err
        return _arrow_matrix(arrow)
    return _array_matrix(table)


def _array_matrix(table: Any) -> tuple[FloatArray, tuple[str, ...] | None]:
    if np.ma.isMaskedArray(table):
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
        return _pandas_matrix(pd.DataFrame(array))
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
            "Reshape your data to one row a sample and one column a variable"
            + ("; array.reshape(-1, 1) makes one column." if array.ndim == 1 else ".")
        )
    if array.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # an overflow gives inf, which is refused with its place
            return np.array(array, dtype=np.float64, order="F"), None
    n, d = array.shape
    X = np.empty((n, d), order="F")
    array = array.astype(object)
    _fill(X, range(d), lambda j: _numbers(array[:, j]), lambda j: array[:, j], default_names(d))
    return X, None


def _pandas_matrix(frame: pd.DataFrame) -> tuple[FloatArray, tuple[str, ...] | None]:
    names = _names_of(frame.columns)
    n, d = frame.shape
    dtypes = list(frame.dtypes)
    if any(getattr(dtype, "kind", "O") == "c" for dtype in set(dtypes)):
        raise DataError("Complex data not supported. Pass columns of real numbers.")
    numeric = {dtype: pd.api.types.is_numeric_dtype(dtype) for dtype in set(dtypes)}
    other = [j for j, dtype in enumerate(dtypes) if not numeric[dtype]]
    X = np.empty((n, d), order="F")

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
    for part in _column_blocks(n, len(rest)):
        columns = rest[part]
        block = frame if len(columns) == d else frame.iloc[:, columns]
        X[:, columns] = block.to_numpy(dtype=np.float64, na_value=np.nan)
    return X, names


def _arrow_matrix(table: pa.Table) -> tuple[FloatArray, tuple[str, ...] | None]:
    # The index of a pandas frame is no data; one that is a mere range has no column.
    index = pandas_index(table.schema)
    table = table.select([j for j, name in enumerate(table.column_names) if name not in index])
    names = tuple(table.column_names)
    n, d = table.shape
    X = np.empty((n, d), order="F")
    _fill(
        X,
        range(d),
        lambda j: arrow_floats(table.column(j)),
        lambda j: arrow_values(table.column(j)),
        names,
    )
    return X, names or None


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
            "the metadata 'pandas' of the table are not what pandas writes, so it cannot be told "
            "which columns are its index. Write the table again, or without these metadata."
        ) from None


def arrow_floats(column: pa.ChunkedArray) -> FloatArray | None:
    """Return an Arrow column as floats, missing values as NaN; None if it holds no numbers."""
    if not holds_numbers(column.type):
        return None
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


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
    refuse_columns(bad, names, lambda j: telling(values(j)))


def refuse_columns(
    bad: Sequence[int], names: Sequence[str], example: Callable[[int], tuple[int, Any]]
) -> NoReturn:
    """Raise the error for columns that hold no numbers; `example` gives a row and its value."""
    shown, reason, categories = [], "", False
    for j in bad[:_SHOWN]:
        row, value = example(j)
        if isinstance(value, Categories):
            shown.append(f"{names[j]!r} (the categories {_listing(value)})")
            categories = True
            continue
        shown.append(f"{names[j]!r} (row {row}: {reprlib.repr(value)})")
        if not reason and not isinstance(value, str | bytes):
            try:
                float(value)
            except TypeError as err:
                reason = f" ({err})"
            except (ValueError, OverflowError):
                pass
    more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
    error = _DataTypeError if reason else DataError
    raise error(
        f"{len(bad)} of {len(names)} columns hold text or other values that are not numbers: "
        f"{', '.join(shown)}{more}{reason}. Leave these columns out, or encode them as numbers."
        + (
            " Categories are names, even where they are written as numbers; if they are "
            "quantities, make them numbers, for example with .astype(float)."
            if categories
            else ""
        )
    )


def telling(values: Iterable[Any]) -> tuple[int, Any]:
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
        if merit == 4:
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
