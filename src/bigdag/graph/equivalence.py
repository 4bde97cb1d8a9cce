"""Which arcs of a DAG the data could direct: Markov equivalence.

Two DAGs with the same skeleton and the same colliders fit Gaussian data equally well. What all of
them have in common is the completed partially directed graph, the CPDAG.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from bigdag.engine.order import rank_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["cpdag", "reversible"]


def cpdag(weights: sp.csc_array, order: NDArray[np.integer]) -> sp.csc_array:
    """Return the CPDAG of a DAG.

    Parameters
    ----------
    weights : csc_array of shape (d, d)
        The arcs.
    order : ndarray of shape (d,)
        The variables, causes first.

    Returns
    -------
    csc_array of int8, shape (d, d)
        1 at (i, j) alone where every equivalent DAG has i → j; 1 at (i, j) and (j, i) where some
        have the one and some the other.

    Examples
    --------
    >>> chain = sp.csc_array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    >>> cpdag(chain, np.arange(3)).toarray()
    array([[0, 1, 0],
           [1, 0, 1],
           [0, 1, 0]], dtype=int8)
    """
    arcs = weights.tocoo()
    loose = ~_compelled(weights, order)
    row = np.concatenate([arcs.row, arcs.col[loose]])
    col = np.concatenate([arcs.col, arcs.row[loose]])
    return sp.csc_array((np.ones(len(row), np.int8), (row, col)), shape=arcs.shape)


def reversible(weights: sp.csc_array, order: NDArray[np.integer]) -> sp.csc_array:
    """Return the arcs that some equivalent DAG has the other way round, as a boolean matrix.

    Examples
    --------
    >>> collider = sp.csc_array([[0, 0, 1], [0, 0, 1], [0, 0, 0]])
    >>> reversible(collider, np.arange(3)).nnz
    0
    """
    arcs = weights.tocoo()
    loose = ~_compelled(weights, order)
    ends = arcs.row[loose], arcs.col[loose]
    return sp.csc_array((np.ones(len(ends[0]), dtype=bool), ends), shape=arcs.shape)


def _compelled(weights: sp.csc_array, order: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Tell of each arc whether every equivalent DAG has it this way (m,).

    The algorithm is Chickering's (1995). Arcs are labelled node after node along the order; the
    parent x of y that is last in the order decides on all arcs into y, in time linear in them.
    """
    rank = rank_of(np.asarray(order))
    parents = [set(ids.tolist()) for ids in np.split(weights.indices, weights.indptr[1:-1])]
    compelled: list[set[int]] = [set() for _ in parents]
    for y in np.asarray(order).tolist():
        if parents[y]:
            x = max(parents[y], key=rank.__getitem__)
            # A compelled w → x with w, y apart, or a collider z → y ← x with z, x apart.
            if not compelled[x] <= parents[y] or not parents[y] - {x} <= parents[x]:
                compelled[y] = parents[y]
            else:
                compelled[y] = compelled[x]
    arcs = weights.tocoo()
    fixed = [i in compelled[j] for i, j in zip(arcs.row.tolist(), arcs.col.tolist())]
    return np.array(fixed, dtype=bool)
