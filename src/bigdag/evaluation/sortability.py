"""How far simple scores give the causal order away: variances, and R² (Reisach et al. 2021, 2023).

Data whose order can be read from such a score cannot tell a method that learns structure from one
that sorts columns.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from bigdag.compiled import kernel
from bigdag.engine.explained import r_squared_of_rows
from bigdag.graph.align import Graph, on_columns, samples

__all__ = ["r2_sortability", "r_squared", "var_sortability"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_TIE = 1e-9  # scores that are closer count as equal


def var_sortability(X: Any, truth: Graph) -> float:
    """How far the variances alone give the causal order away (Reisach et al. 2021).

    Parameters
    ----------
    X : table
        An array, a data frame or a `Dataset`, (n, d).
    truth : DAG, sparse or dense matrix
        Acyclic.

    Returns
    -------
    float
        For each length, each pair of variables joined by a directed path of that length counts
        once: 1 if the variance grows from the first to the last, 1/2 if they are equal up to a
        relative 1e-9, else 0. The mean over all. 1 means that sorting by variance finds the order,
        1/2 that variances tell nothing; NaN when there are no true arcs.

    Examples
    --------
    >>> var_sortability([[1.0, 9.0], [2.0, 5.0], [4.0, 0.0]], [[0, 1], [0, 0]])
    1.0
    """
    table, values = samples(X)
    with np.errstate(divide="ignore"):
        # A constant column has variance 0, and log -inf: equal to others of its kind.
        scores = np.log(np.einsum("ij,ij->j", values, values) / len(values))
    return _alignment(on_columns(truth, table).weights, scores)


def r2_sortability(X: Any, truth: Graph) -> float:
    """How far R², which no rescaling changes, gives the causal order away (Reisach et al. 2023).

    Parameters
    ----------
    X : table
        An array, a data frame or a `Dataset`, (n, d).
    truth : DAG, sparse or dense matrix
        Acyclic.

    Returns
    -------
    float
        As `var_sortability`, with the share of each variable's variance that all others explain
        linearly (`r_squared`) in the place of the variance.

    Examples
    --------
    >>> from bigdag import simulate
    >>> dag = simulate.random_dag(20, 1, rng=0)
    >>> bool(0 <= r2_sortability(simulate.sample(dag, 100, rng=0), dag) <= 1)
    True
    """
    table, _ = samples(X)
    return _alignment(on_columns(truth, table).weights, r_squared(table))


def r_squared(X: Any) -> Floats:
    """Share of each column's variance that all other columns explain linearly.

    Parameters
    ----------
    X : table
        An array, a data frame or a `Dataset`, (n, d).

    Returns
    -------
    array of shape (d,)
        R²_j = 1 - 1 / (C^-1)_jj with the correlation matrix C; 0 for a constant column.

    Notes
    -----
    When n <= d every R² would be 1. Then C is shrunk towards the identity as Ledoit and Wolf (2004)
    do, and inverted by way of the n x n matrix of inner products.

    Examples
    --------
    >>> r_squared([[1.0, 2.0, 5.0], [2.0, 4.0, 4.0], [3.0, 6.0, 4.0], [4.0, 8.0, 5.0]]).round(6)
    array([1., 1., 0.])
    """
    _, values = samples(X)
    length = np.sqrt(np.einsum("ij,ij->j", values, values))
    scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
    return r_squared_of_rows(values.T * scale[:, None])


def _alignment(weights: csc_array, scores: Floats) -> float:
    """Share of the paths along which the scores grow; see `var_sortability`."""
    if weights.nnz == 0:
        return float("nan")
    children = weights.tocsr()
    by_score = np.argsort(scores, kind="stable")
    ranked = scores[by_score]
    halves, paths = _walk(
        children.indptr.astype(np.int64),
        children.indices.astype(np.int64),
        by_score,
        np.searchsorted(ranked, scores - _TIE, side="left"),
        np.searchsorted(ranked, scores + _TIE, side="right"),
    )
    return float(halves / (2 * paths))


@kernel(inside=True)
def _ones(bits):  # type: ignore[no-untyped-def]
    count = 0
    while bits != np.uint64(0):
        bits &= bits - np.uint64(1)
        count += 1
    return count


@kernel
def _walk(indptr: Ints, indices: Ints, by_score: Ints, below: Ints, upto: Ints) -> tuple[int, int]:
    """Count ends of walks from 64 sources at a time, one bit each, one step after the other.

    The sources are taken by score, so that those that score less than v are the lowest bits: the
    ones among the first `below[v]` in `by_score`, and with ties among the first `upto[v]`. Returns
    2 for a source below and 1 for a tie, summed, and the number of (source, end, length).
    """
    d = len(by_score)
    full = ~np.uint64(0)
    halves = paths = 0
    reach, ahead = np.zeros(d, np.uint64), np.zeros(d, np.uint64)
    here, there = np.empty(d, np.int64), np.empty(d, np.int64)
    for start in range(0, d, 64):
        n_here = min(64, d - start)
        for bit in range(n_here):
            here[bit] = by_score[start + bit]
            reach[here[bit]] = np.uint64(1) << np.uint64(bit)
        while n_here:
            n_there = 0
            for at in range(n_here):
                u = here[at]
                for slot in range(indptr[u], indptr[u + 1]):
                    v = indices[slot]
                    if ahead[v] == np.uint64(0):
                        there[n_there] = v
                        n_there += 1
                    ahead[v] |= reach[u]
                reach[u] = np.uint64(0)
            for at in range(n_there):
                v = there[at]
                paths += _ones(ahead[v])
                for limit in (below[v], upto[v]):
                    if limit >= start + 64:
                        halves += _ones(ahead[v])
                    elif limit > start:
                        halves += _ones(ahead[v] & (full >> np.uint64(64 - (limit - start))))
            reach, ahead = ahead, reach
            here, there = there, here
            n_here = n_there
    return halves, paths
