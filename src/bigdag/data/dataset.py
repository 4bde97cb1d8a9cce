"""The door in: arrays and data frames become a checked, centred `Dataset`.

Every refusal of bad data lives here, so that the modules behind it can trust what they get: finite
float64 numbers, at least two samples, one unique name a column, constant columns exactly zero.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bigdag.data.annotated import annotated_values, is_annotated
from bigdag.data.convert import FloatArray, Rows, column_blocks, matrix_of, names_of, rows_of
from bigdag.data.copies import Copies, copies_by_projections, find_copies
from bigdag.data.moments import is_one_pass, pass_over
from bigdag.data.names import checked_names, default_names
from bigdag.errors import DataError, DataWarning, ParameterError, few_names

__all__ = ["LARGEST", "Dataset", "Incomplete", "as_dataset"]

# Beyond this the square of a value, which every learner needs, is no float64 any more.
LARGEST = 1e150
# A column whose standard deviation is below this share of its largest value differs from a constant
# only by rounding; one below the inverse of LARGEST has a variance that vanishes in float64.
_ROUNDING = 1e-13
_SHOWN = 3  # groups of columns named in a message before "and k more"


class Incomplete(NamedTuple):
    """The rows behind moments that were taken around missing values.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        The values in the scale of the moments, NaN where one is missing; read-only.
    missing : str
        How the moments were taken: "pairwise" or "em".
    seconds : float
        How long that took.
    correlations : ndarray of shape (d, d)
        Of the moments.
    """

    X: FloatArray
    missing: str
    seconds: float
    correlations: FloatArray


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
        What was subtracted from each column; zeros where a covariance matrix is the input.
    n_samples : int
        The number of rows.
    covariance : ndarray of shape (n_features, n_features), or None
        The covariance matrix, where that is the input, or where the table was too large to be held.
    about : mapping
        What was done to the table before, as `prepare` notes it; learners hand it on to their DAG.
    incomplete : Incomplete or None
        The rows with their missing values, where the covariance matrix was taken around them. A
        bootstrap draws from them.
    temporary : bool
        Whether nobody else reads the values, so that a learner may overwrite them.

    Examples
    --------
    >>> data = as_dataset([[1.0, 5.0], [2.0, 3.0], [3.0, 4.0]], names=["dose", "pain"])
    >>> data
    Dataset(n_samples=3, n_features=2, named=True)
    >>> data.mean
    array([2., 4.])
    >>> data.X[:, 1]
    array([ 1., -1.,  0.])
    """

    X: FloatArray | None
    names: tuple[str, ...]
    named: bool
    mean: FloatArray
    n_samples: int
    covariance: FloatArray | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    incomplete: Incomplete | None = None
    temporary: bool = False

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
        rows = names_of(S.index) if isinstance(S, pd.DataFrame) and found is not None else None
        if rows is not None and found is not None:
            check_row_names(rows, found)
        given = _chosen_names(names, found, matrix.shape[1])
        return covariance_dataset(matrix, n_samples, *given)


def as_dataset(
    table: Any,
    names: Sequence[str] | None = None,
    memory_limit: float | str | None = None,
    *,
    layer: str | None = None,
    copies: int = 1,
    n_jobs: int | None = None,
) -> Dataset:
    """Check and centre a table.

    Parameters
    ----------
    table : array, data frame or Dataset, of shape (n_samples, n_features)
        A NumPy array of any real dtype and memory order, a Dask array, which is gathered block by
        block, an array of Zarr or of an HDF5 file (h5py), which is read chunk by chunk, a sparse
        matrix or array of SciPy, a pandas or polars DataFrame, an Arrow table, an AnnData, any
        object with ``__arrow_c_stream__``, ``__dataframe__`` or ``__array__``, or a sequence of
        rows. It is copied, never changed. A `Dataset` is returned as it is.
    names : sequence of str, optional
        The names of the columns, in place of those that `table` has. The labels of a pandas
        DataFrame that are not text become text: 2019 is "2019", a date is in ISO form as in
        "2020-12-31", and the levels of a MultiIndex are joined as in "mean_height", without empty
        ones. The labels 0, 1, 2, ... that pandas and anndata make up are no names.
    memory_limit : float or str, optional
        What the whole process may hold, in bytes or as in "4GB"; by default what the machine can
        spare. An array (also one that is mapped from a file, as by ``numpy.memmap``, or that is
        stored in one) or a sparse matrix that does not fit, while its covariance matrix does, is
        read in one pass, and the Dataset holds its means and covariances in place of the samples.
    layer : str, optional
        The layer of an AnnData, in place of its X.
    copies : int, default=1
        How many times the table must fit into the memory, or it is read in one pass. A learner
        works on a copy beside the table, and passes 2.
    n_jobs : int, optional
        Threads that one pass takes; all cores by default.

    Returns
    -------
    Dataset
        Constant columns are exactly zero in it.

    Raises
    ------
    DataError
        If the table cannot be learnt from; the message says where and why.
    MemoryLimitError
        If the copy would need more than the limit; raised before it is made.

    Warns
    -----
    DataWarning
        If columns are constant: they become isolated nodes. If columns are copies of each other,
        exactly or up to a factor and a shift: no data can tell which of them has the arcs. If a
        column with a name counts the rows, of ten or more: it stays a variable. If the table was
        read in one pass.

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
        return replace(table, names=checked_names(names, table.n_features), named=True)
    known = None
    if is_annotated(table):
        table, known = annotated_values(table, layer)
    elif layer is not None:
        raise ParameterError(f"layer goes with an AnnData. Got {type(table).__name__!r} instead.")
    rows = rows_of(table)
    if rows is not None and is_one_pass(rows.n, rows.d, memory_limit, rows.overhead, copies):
        return moments_dataset(rows, *_chosen_names(names, known, rows.d), n_jobs=n_jobs)
    X, found = matrix_of(table, memory_limit)
    return centred_dataset(X, *_chosen_names(names, known or found, X.shape[1]))


def _chosen_names(
    given: Sequence[str] | None, found: tuple[str, ...] | None, d: int
) -> tuple[tuple[str, ...], bool]:
    """Return the names to use, and whether they are more than x0, x1, ..."""
    names = found if given is None else given
    if names is None:
        return default_names(d), False
    return checked_names(names, d), True


# From a table to a Dataset.


def centred_dataset(
    X: FloatArray,
    names: tuple[str, ...],
    named: bool,
    tell_counts: bool = True,
    first_in_file: str | None = None,
) -> Dataset:
    """Check and centre the matrix X (n, d), in place, and make it a Dataset.

    Warnings point at the caller of the function that calls this. `tell_counts` says that columns
    with names that count the rows are among them; `first_in_file` is the one that an option of
    the reader leaves out.
    """
    n, d = X.shape
    _check_values(X, names)
    counts = _counting_columns(X) if named and tell_counts else []
    mean, norm = np.empty(d), np.empty(d)
    vague: list[int] = []  # constant as float64, and maybe only so
    tiny: list[int] = []  # whose squares vanish
    for part in column_blocks(n, d):
        block = X[:, part]  # a view: X changes
        largest = np.abs(block).max(axis=0)
        first = block.mean(axis=0)
        block -= first
        rest = block.mean(axis=0)  # what rounding left of the mean
        block -= rest
        mean[part] = first + rest
        deviation = np.sqrt(np.einsum("ij,ij->j", block, block) / n)
        constant = deviation <= np.maximum(_ROUNDING * largest, 1 / LARGEST)
        differ = constant & ((largest >= 2.0**53) | (block != block[0]).any(axis=0))
        small = _vanish(largest, block.max(axis=0) - block.min(axis=0), deviation)
        vague += (part.start + np.flatnonzero(differ & ~small)).tolist()
        tiny += (part.start + np.flatnonzero(small)).tolist()
        block[:, constant] = 0.0
        norm[part] = np.where(constant, 0.0, deviation * np.sqrt(n))
    X.flags.writeable = mean.flags.writeable = False
    data = Dataset(X, names, named, mean, n)
    _warn_of_constants(data, stacklevel=4, vague=vague, tiny=tiny)
    _warn_of_counts([names[j] for j in counts], first_in_file, stacklevel=4)
    _warn_of_copies(data, find_copies(X, mean, norm, _SHOWN), stacklevel=4)
    return data


def moments_dataset(
    rows: Rows,
    names: tuple[str, ...],
    named: bool,
    tell_counts: bool = True,
    first_in_file: str | None = None,
    n_jobs: int | None = None,
) -> Dataset:
    """Check a table that does not fit into the memory, and keep its means and covariances.

    All that `centred_dataset` checks is checked too. Warnings and parameters as there.
    """
    found = pass_over(rows, names, LARGEST, n_jobs)
    S, mean = found.covariance, found.mean
    deviation = np.sqrt(np.diagonal(S))
    largest = np.maximum(np.abs(found.low), np.abs(found.high))
    constant = deviation <= np.maximum(_ROUNDING * largest, 1 / LARGEST)
    small = _vanish(largest, found.high - found.low, deviation)
    vague = np.flatnonzero(constant & ~small & ((largest >= 2.0**53) | (found.low != found.high)))
    S[constant] = 0.0
    S[:, constant] = 0.0
    S.flags.writeable = mean.flags.writeable = False
    data = Dataset(None, names, named, mean, rows.n, S)
    warnings.warn(
        f"the table of {rows.n:,} rows and {rows.d:,} columns does not fit into the memory "
        "with what is made of it, so its means and covariances were taken in one pass over its "
        "rows. What needs the rows themselves, such as penalty='auto', is refused.",
        DataWarning,
        stacklevel=3,
    )
    norm = np.where(constant, 0.0, deviation * np.sqrt(rows.n))
    tiny = np.flatnonzero(small).tolist()
    _warn_of_constants(data, stacklevel=4, vague=vague.tolist(), tiny=tiny)
    if named and tell_counts:
        _warn_of_counts([names[j] for j in found.counting], first_in_file, stacklevel=4)
    copies = copies_by_projections(found.projections, norm, found.single, _SHOWN)
    _warn_of_copies(data, copies, stacklevel=4)
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
            f"order. Rows: {few_names(rows)}; columns: {few_names(columns)}."
        )


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
            f"The table has {'only one row' if n else 'no rows'}. A fit needs at least two rows, "
            "and relations between columns many more."
        )
    limit = LARGEST if what == "value" else LARGEST**2
    counts, largest = np.empty(d, dtype=np.int64), np.empty(d)
    for part in column_blocks(n, d):
        counts[part] = n - np.isfinite(X[:, part]).sum(axis=0)
        largest[part] = np.abs(X[:, part]).max(axis=0)
    unusable, large = (np.flatnonzero(bad).tolist() for bad in (counts, largest > limit))
    if unusable:
        total, j = counts.sum(), unusable[0]
        i = int(np.argmin(np.isfinite(X[:, j])))
        raise DataError(
            f"{total} {what}{'s are' if total > 1 else ' is'} NaN or infinite, in {len(unusable)} "
            f"of {d} columns ({few_names([names[c] for c in unusable])}); the first is "
            f"{'NaN' if np.isnan(X[i, j]) else X[i, j]} in column {names[j]!r}, row {i + 1} "
            f"(counted from 1). {_remedy(X, what)}"
        )
    if large:
        j = large[0]
        i = int(np.argmax(np.abs(X[:, j]) > limit))
        raise DataError(
            f"Column {names[j]!r} holds {X[i, j]:.3g} in row {i + 1} (counted from 1). A {what} "
            f"must be at most {limit:.0e} in size, or squares overflow. Rescale the column."
        )


def _remedy(X: FloatArray, what: str) -> str:
    """Say what to do about values that are not finite."""
    infinite = any(np.isinf(X[:, part]).any() for part in column_blocks(*X.shape))
    if infinite or what != "value":
        return "Leave these rows or columns out."
    return (
        "Leave these rows or columns out, or say what to do about missing values: "
        "--missing pairwise, em or drop, and in Python bigdag.prepare(X, missing='pairwise').data."
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
    deviation, vanishing = np.sqrt(variance), LARGEST**-2
    # A matrix that came in single precision is exact only to some 1e-7.
    with np.errstate(over="ignore"):  # what overflows did not come in single precision
        single = all((S[:, p].astype(np.float32) == S[:, p]).all() for p in column_blocks(d, d))
    bound = 1e-5 if single else 1e-8
    uneven, excess = (0.0, 0, 0), None
    for part in column_blocks(d, d):
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
                "around missing values, have this fault; bigdag.prepare(X, missing='pairwise') "
                "mends it."
            )


def _counting_columns(X: FloatArray) -> list[int]:
    """Return the columns that are 0 to n - 1 or 1 to n, of ten rows at least."""
    n = len(X)
    if n < 10:
        return []
    starts = np.flatnonzero(((X[0] == 0.0) | (X[0] == 1.0)) & (X[1] - X[0] == 1.0))
    return [j for j in starts.tolist() if (X[:, j] - X[0, j] == np.arange(n)).all()]


def _warn_of_counts(names: list[str], first_in_file: str | None, stacklevel: int) -> None:
    if not names:
        return
    one = len(names) == 1
    option = (
        f" row_labels=True (--row-labels) leaves out {first_in_file!r}, the first column."
        if first_in_file in names
        else ""
    )
    warnings.warn(
        f"{'the column' if one else 'the columns'} {few_names(names)} "
        f"{'counts' if one else 'count'} the rows, and {'stays a variable' if one else 'stay'}"
        f"{'' if one else ' variables'}. If {'it only labels' if one else 'they only label'} the "
        f"rows, drop {'it' if one else 'them'} from the table.{option}",
        DataWarning,
        stacklevel=stacklevel,
    )


def _vanish(largest: FloatArray, span: FloatArray, deviation: FloatArray) -> npt.NDArray[np.bool_]:
    """Tell which columns (d,) vary, but by so little that their squares vanish in float64."""
    return np.asarray((deviation <= 1 / LARGEST) & (span > _ROUNDING * largest))


def _warn_of_constants(
    data: Dataset, stacklevel: int, vague: Sequence[int] = (), tiny: Sequence[int] = ()
) -> None:
    if tiny:
        several = len(tiny) > 1
        warnings.warn(
            f"{len(tiny)} of {data.n_features} columns {'vary' if several else 'varies'} by less "
            f"than {1 / LARGEST:.0e}, whose squares vanish in float64, and "
            f"{'become isolated nodes' if several else 'becomes an isolated node'}: "
            f"{few_names([data.names[j] for j in tiny])}. Rescale {'them' if several else 'it'}, "
            "as to other units, or take ranks: transform='rank' (--transform rank).",
            DataWarning,
            stacklevel=stacklevel,
        )
    constant = np.setdiff1d(np.flatnonzero(data.constant), tiny)
    if len(constant):
        rounded = (
            f" Numbers in {few_names([data.names[j] for j in vague])} are so large that they may "
            "differ in the table by less than float64 can tell. Subtract what they have in "
            "common before they become float64."
            if vague
            else ""
        )
        what = (
            "are constant and become isolated nodes"
            if len(constant) > 1
            else "is constant and becomes an isolated node"
        )
        warnings.warn(
            f"{len(constant)} of {data.n_features} columns {what}: "
            f"{few_names([data.names[j] for j in constant])}.{rounded}",
            DataWarning,
            stacklevel=stacklevel,
        )


def _warn_of_copies(data: Dataset, found: Copies, stacklevel: int) -> None:
    if found.n_columns:
        groups = ["(" + few_names([data.names[j] for j in group]) + ")" for group in found.first]
        more = found.n_groups - len(groups)
        warnings.warn(
            f"{found.n_columns} of {data.n_features} columns "
            f"{'are copies of others' if found.n_columns > 1 else 'is a copy of another'}, exactly "
            f"or up to a factor and a shift: {', '.join(groups)}"
            f"{f' and {more:,} more groups' if more else ''}. No data can tell them "
            "apart, so only chance decides which of them gets the arcs. Keep one of each group.",
            DataWarning,
            stacklevel=stacklevel,
        )
