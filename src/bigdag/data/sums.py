"""Columns that are computed from others: totals, differences, shares of a whole."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from bigdag.data.convert import FloatArray

__all__ = ["linear_relations"]

_MOST_COLUMNS = 1000  # whose eigenvalues take a fraction of a second
_ROWS = 2  # times as many rows as columns: with fewer, chance makes relations that are nearly exact
_NEAR, _EXACT = 1e-4, 1e-11  # of a variance: near enough to look at, and what floats leave
_DIGITS = 7  # after the point, at the most, that values are taken as rounded to
_PART = 5e-4  # the least share that a column has in a relation


def linear_relations(X: FloatArray, columns: np.ndarray) -> list[list[int]]:
    """Return groups of columns that are bound by exact linear relations, up to rounding.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        The values; rows with missing values are left out.
    columns : ndarray of int
        The columns to look at, none of which is constant. Of more than 1,000, or of more than half
        as many as there are whole rows, nothing is said.

    Returns
    -------
    list of list of int
        The groups, by place.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> X[:, 3] = X[:, 0] + X[:, 1]
    >>> linear_relations(X, np.arange(4))
    [[0, 1, 3]]
    """
    if not 2 < len(columns) <= _MOST_COLUMNS or len(X) < _ROWS * len(columns):
        return []
    values = X[:, columns]
    values = values[~np.isnan(values).any(axis=1)]
    if len(values) < _ROWS * len(columns):
        return []
    values = values - values.mean(axis=0)
    deviation = np.sqrt(np.einsum("ij,ij->j", values, values))
    live = deviation > 0
    columns, values = columns[live], values[:, live] / deviation[live]
    sizes, vectors = np.linalg.eigh(values.T @ values)
    near = sizes < _NEAR
    if not near.any():
        return []
    vectors = vectors[:, near]
    rounding = len(values) * _unit(X[:, columns]) ** 2 / 12 / deviation[live] ** 2
    # Strong relations with noise of their own are none: rounding alone may be left.
    null = vectors[:, sizes[near] < _EXACT + 4 * rounding @ vectors**2]
    shares = np.abs(null @ null.T)  # does not depend on which vectors span the relations
    inside = np.flatnonzero(np.diag(shares) > _PART)
    joined = sp.csr_array(shares[np.ix_(inside, inside)] > _PART)
    count, label = connected_components(joined, directed=False)
    groups = [columns[inside[label == g]].tolist() for g in range(count)]
    return [group for group in groups if len(group) > 2]


def _unit(X: FloatArray) -> FloatArray:
    """Return the least decimal unit that all values of a column are multiples of, or 0 (d,).

    Examples
    --------
    >>> _unit(np.array([[0.25, 3.0, np.pi], [0.5, np.nan, 1.0]])).tolist()
    [0.01, 1.0, 0.0]
    """
    unit = np.zeros(X.shape[1])
    for digits in range(_DIGITS, -1, -1):
        scaled = X * 10.0**digits
        off = np.abs(scaled - np.round(scaled))
        whole = (off < np.clip(1e-9 * np.abs(scaled), 1e-9, 0.01)) | np.isnan(X)
        unit[whole.all(axis=0)] = 10.0**-digits
    return unit
