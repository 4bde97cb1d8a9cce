"""Tables changed before they are learnt from."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from bigdag.data.dataset import Dataset, as_dataset
from bigdag.errors import DataError, DataWarning

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["deviations", "standardise", "standardised"]


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
    return table


def deviations(data: Dataset) -> NDArray[np.float64]:
    """Return the standard deviation of each column (d,)."""
    if data.X is None:
        assert data.covariance is not None
        return np.sqrt(np.diag(data.covariance))
    return np.sqrt(np.einsum("ij,ij->j", data.X, data.X) / data.n_samples)


def standardised(data: Dataset) -> Dataset:
    """Return the data with each column scaled to variance 1; a constant one stays as it is.

    Examples
    --------
    >>> standardised(as_dataset([[0.0, 10.0], [2.0, 30.0]])).X
    array([[-1., -1.],
           [ 1.,  1.]])
    """
    names = data.names if data.named else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of constant columns: said already
        if data.X is not None:
            return as_dataset(standardise(data.X), names)
        sd = deviations(data)
        inverse = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0)
        assert data.covariance is not None
        S = data.covariance * inverse[:, None] * inverse
        np.fill_diagonal(S, sd > 0)
        return Dataset.from_covariance(S, data.n_samples, names)
