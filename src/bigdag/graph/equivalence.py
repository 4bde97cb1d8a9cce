"""Which arcs of a DAG the data could direct: Markov equivalence.

Two DAGs with the same skeleton and the same colliders fit Gaussian data equally well. What all of
them have in common is the completed partially directed graph, the CPDAG. What is known beforehand
directs more of its arcs, and these others by Meek's rules (1995): that is the maximally oriented
graph, whose DAGs are those of the class that keep what is known.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from bigdag.engine.order import rank_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.limits import Limits

__all__ = ["compelled", "cpdag", "reversible", "undirected"]


def cpdag(
    weights: sp.csc_array, order: NDArray[np.integer], limits: Limits | None = None
) -> sp.csc_array:
    """Return the CPDAG of a DAG, or with limits the maximally oriented graph.

    Parameters
    ----------
    weights : csc_array of shape (d, d)
        The arcs.
    order : ndarray of shape (d,)
        The variables, causes first.
    limits : Limits, optional
        Which arcs are possible; those of the DAG are.

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
    loose = undirected(weights, order, limits)
    row = np.concatenate([arcs.row, arcs.col[loose]])
    col = np.concatenate([arcs.col, arcs.row[loose]])
    return sp.csc_array((np.ones(len(row), np.int8), (row, col)), shape=arcs.shape)


def reversible(
    weights: sp.csc_array, order: NDArray[np.integer], limits: Limits | None = None
) -> sp.csc_array:
    """Return the arcs that some equivalent DAG has the other way round, as a boolean matrix.

    With limits, only DAGs count whose arcs are all possible.

    Examples
    --------
    >>> collider = sp.csc_array([[0, 0, 1], [0, 0, 1], [0, 0, 0]])
    >>> reversible(collider, np.arange(3)).nnz
    0
    """
    arcs = weights.tocoo()
    loose = undirected(weights, order, limits)
    ends = arcs.row[loose], arcs.col[loose]
    return sp.csc_array((np.ones(len(ends[0]), dtype=bool), ends), shape=arcs.shape)


def undirected(
    weights: sp.csc_array, order: NDArray[np.integer], limits: Limits | None = None
) -> NDArray[np.bool_]:
    """Tell of each arc whether it may run the other way (m,)."""
    loose = ~compelled(weights, order)
    if limits is None or not loose.any():
        return loose
    arcs = weights.tocoo()
    i, j = arcs.row.astype(np.int64), arcs.col.astype(np.int64)
    known = ~limits.pairs(j, i) | limits.requires(i, j)
    if not (loose & known).any():
        return loose
    rank = rank_of(np.asarray(order))
    return _closed_by_meek(len(rank), i, j, loose & ~known, rank)


def _closed_by_meek(
    d: int,
    i: NDArray[np.int64],
    j: NDArray[np.int64],
    loose: NDArray[np.bool_],
    rank: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Return which arcs stay undirected once Meek's four rules say nothing more (m,).

    The arcs of the DAG keep to all that is known, so that a rule that directs one of them directs
    it as the DAG has it.
    """
    near: list[set[int]] = [set() for _ in range(d)]
    into: list[set[int]] = [set() for _ in range(d)]  # of the directed arcs
    for a, b, open_ in zip(i.tolist(), j.tolist(), loose.tolist()):
        near[a].add(b)
        near[b].add(a)
        if not open_:
            into[b].add(a)

    def directed(a: int, b: int) -> bool:
        if not into[a] <= near[b] | {b}:  # c → a — b, c and b apart
            return True
        middle = into[b] & near[a]
        if any(a in into[c] for c in middle):  # a → c → b
            return True
        between = middle - into[a]
        if any(e not in near[c] and e != c for c in between for e in between):
            return True  # a — c → b and a — e → b, c and e apart
        return any(  # a — e → c → b, e and b apart
            e not in near[b] and e != b for c in middle for e in into[c] & near[a]
        )

    still = loose.copy()
    sequence = np.lexsort((rank[j], rank[i]))
    changed = True
    while changed:
        changed = False
        for e in sequence[still[sequence]].tolist():
            a, b = int(i[e]), int(j[e])
            if directed(a, b):
                into[b].add(a)
                still[e], changed = False, True
    return still


def compelled(weights: sp.csc_array, order: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Tell of each arc whether every equivalent DAG has it this way (m,).

    The algorithm is Chickering's (1995). Arcs are labelled node after node along the order; the
    parent x of y that is last in the order decides on all arcs into y, in time linear in them.
    """
    rank = rank_of(np.asarray(order)).tolist()  # lists: quicker than arrays, one entry at a time
    sources, ends = weights.indices.tolist(), weights.indptr.tolist()
    parents = [set(sources[a:b]) for a, b in itertools.pairwise(ends)]
    compelled: list[set[int]] = [set() for _ in parents]
    for y in np.asarray(order).tolist():
        if parents[y]:
            x = max(parents[y], key=rank.__getitem__)
            # A compelled w → x with w, y apart, or a collider z → y ← x with z, x apart.
            if not compelled[x] <= parents[y] or not parents[y] - {x} <= parents[x]:
                compelled[y] = parents[y]
            else:
                compelled[y] = compelled[x]
    fixed = [
        i in compelled[j] for j, (a, b) in enumerate(itertools.pairwise(ends)) for i in sources[a:b]
    ]
    return np.array(fixed, dtype=bool)
