"""Columns in units of their own: mean zero and variance one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bigdag.data.dataset import Dataset
from bigdag.errors import DataError
from bigdag.resources import require_memory

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["deviations", "standardise", "standardised"]

_BLOCK = 2**20  # values worked on at a time


def standardise(X: ArrayLike) -> NDArray[np.float64]:
    """Return a copy of a table whose columns have mean zero and variance one.

    Parameters
    ----------
    X : array of shape (n, d)
        The data.

    Returns
    -------
    array of shape (n, d)
        The variance is the mean square (divided by n). A constant column becomes zero.

    Examples
    --------
    >>> standardise([[1.0, 7.0], [3.0, 7.0]])
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    table = np.array(X, dtype=np.float64)
    if table.ndim != 2 or table.size == 0:
        raise DataError(
            f"standardise needs a table of n rows and d columns, both at least 1. "
            f"Got an array of shape {table.shape} instead."
        )
    step = max(1, _BLOCK // len(table))
    for a in range(0, table.shape[1], step):
        _standardise(table[:, a : a + step])
    return table


def _standardise(table: NDArray[np.float64]) -> None:
    """Standardise columns in place."""
    low, high = table.min(axis=0), table.max(axis=0)
    if not np.isfinite([low, high]).all():
        raise DataError("standardise needs finite numbers. The table holds NaN or infinity.")
    # Halved, so that neither the range nor, later, the squares of extreme numbers overflow.
    half_range = high / 2 - low / 2
    varies = half_range > 0
    table /= np.where(varies, half_range, 1.0)
    table -= table.mean(axis=0)
    table /= np.where(varies, np.sqrt(np.mean(np.square(table), axis=0)), 1.0)
    table[:, ~varies] = 0.0


def deviations(data: Dataset) -> NDArray[np.float64]:
    """Return the standard deviation of each column (d,)."""
    if data.X is None:
        assert data.covariance is not None
        return np.sqrt(np.diag(data.covariance))
    return np.sqrt(np.einsum("ij,ij->j", data.X, data.X) / data.n_samples)


def standardised(data: Dataset, memory_limit: float | str | None = None) -> Dataset:
    """Return the data with each column scaled to variance 1; a constant one stays as it is.

    Parameters
    ----------
    data : Dataset
        Samples, or a covariance matrix.
    memory_limit : float or str, optional
        Bytes that the whole process may hold; the copy is refused where it would not fit.

    Examples
    --------
    >>> from bigdag.data import as_dataset
    >>> standardised(as_dataset([[0.0, 10.0], [2.0, 30.0]])).X
    array([[-1., -1.],
           [ 1.,  1.]])
    """
    values = data.covariance if data.X is None else data.X
    assert values is not None
    require_memory(
        values.nbytes, "Standardising the table", "Use fewer columns, or raise it.", memory_limit
    )
    about = {**data.about, "standardised": True}
    if data.X is not None:
        X = standardise(data.X)
        X.flags.writeable = False
        return replace(data, X=X, mean=np.zeros(data.n_features), about=about)
    sd = deviations(data)
    inverse = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0)
    S = values * inverse[:, None]
    S *= inverse
    np.fill_diagonal(S, sd > 0)
    S.flags.writeable = False
    return replace(data, covariance=S, mean=np.zeros(data.n_features), about=about)
