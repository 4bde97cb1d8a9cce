"""Where the variables of a large graph stand in an overview of all of it: blocks by layer.

Causes stand left of their effects, unless the graph is so long that it is folded into lines. A
layer is a block of several columns, so that the whole is not a strip; in a layer, variables stand
at the height of those that they are joined with. No physics is needed, as the graph has an order,
and the same graph gives the same picture.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from bigdag.engine.order import rank_of
from bigdag.graph.layout import levels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.graph.dag import DAG

__all__ = ["overview"]

_WIDE = 1.5  # width of the picture to its height
_BETWEEN = 3.0  # columns left free between two layers, at the most
_SWEEPS = 8
_FEWEST_LINES = 3  # into which a strip is folded
_ZIGZAG = 3  # heights that layers of few variables have in turn


def overview(dag: DAG) -> NDArray[np.float32]:
    """Return the places (d, 2) of all variables, about one unit from each other.

    Examples
    --------
    >>> from bigdag import DAG
    >>> overview(DAG([[0, 1, 1], [0, 0, 1], [0, 0, 0]]))[:, 0].argsort()
    array([0, 1, 2])
    """
    d, W = dag.n_nodes, dag.weights
    at = np.zeros((d, 2))
    joined = np.zeros(d, dtype=bool)
    joined[W.indices] = True
    joined |= np.diff(W.indptr) > 0
    nodes = dag.order[joined[dag.order]]  # causes first
    below = 0.0
    if len(nodes):
        at[nodes] = _layers(_renumbered(dag, nodes), len(nodes))
        below = at[nodes, 1].max() + 3
    alone = dag.order[~joined[dag.order]]  # a block of their own, below
    if len(alone):
        width = at[nodes, 0].max() + 1 if len(nodes) else 0.0
        across = max(math.ceil(width), math.ceil(math.sqrt(_WIDE * len(alone))))
        place = np.arange(len(alone))
        at[alone] = np.column_stack([place % across, below + place // across])
    return at.astype(np.float32)


def _renumbered(dag: DAG, nodes: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the ends of all arcs as places in `nodes`."""
    place = np.full(dag.n_nodes, -1)
    place[nodes] = np.arange(len(nodes))
    arcs = dag._arcs()
    return place[arcs.source], place[arcs.target]


def _layers(ends: tuple[NDArray[Any], NDArray[Any]], k: int) -> NDArray[np.float64]:
    """Return the places (k, 2) of variables that list causes first, each with an arc."""
    source, target = ends
    level = np.array(levels(k, list(zip(source.tolist(), target.tolist()))))
    from scipy.optimize import isotonic_regression

    level = np.unique(level, return_inverse=True)[1].reshape(-1)
    counts = np.bincount(level)
    parents = sparse.csr_array((np.ones(len(source)), (target, source)), shape=(k, k))
    share, wish = _sweeps(parents, level, counts)
    # So many rows that the blocks, with what is free between them, are as wide as they should be.
    rows = max(1, math.ceil(math.sqrt(k / _WIDE)))
    while rows < counts.max() and _edges(counts, rows)[1][-1] > _WIDE * rows:
        rows = math.ceil(rows * 1.1)
    rows = min(rows, int(counts.max()))
    columns, edges = _edges(counts, rows)
    sequence, begin = np.lexsort((share, level)), np.cumsum(counts) - counts
    inside = np.empty(k, dtype=np.int64)  # the place in its layer, from top to bottom
    inside[sequence] = np.arange(k) - np.repeat(begin, counts)
    x = edges[level] + inside % columns[level]
    least = inside / columns[level]  # below the top of the layer, as they do not overlap
    lowest = rows - (counts / columns)[level]
    y = least + np.clip(wish * rows - least, 0, lowest)
    for layer in np.flatnonzero(counts > 1):
        members = sequence[begin[layer] : begin[layer] + counts[layer]]
        free = isotonic_regression(wish[members] * rows - least[members]).x
        y[members] = least[members] + np.clip(free, 0, lowest[members])
    if rows < _ZIGZAG:  # on one line, arcs would lie on each other
        y += level % _ZIGZAG
        rows += _ZIGZAG - 1
    return _folded(x, y, edges[-1], rows)


def _edges(counts: NDArray[np.int64], rows: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return how many columns each layer has, and where each begins; last, the whole width."""
    columns = -(-counts // rows)
    return columns, np.concatenate([[0], np.cumsum(columns + np.minimum(_BETWEEN, 1 + columns))])


def _sweeps(
    parents: sparse.csr_array, level: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each variable's share of its layer above it, and the mean of that of its neighbours.

    In turn, the variables of all layers are sorted by the mean of their parents and of their
    children.
    """
    k = len(level)
    children = sparse.csr_array(parents.T)
    both = sparse.csr_array(parents + children)
    # Parts that hang together begin next to each other.
    share = rank_of(reverse_cuthill_mckee(both, symmetric_mode=True).astype(np.int64)) / k
    begin = np.cumsum(counts) - counts
    place = (np.arange(k) - np.repeat(begin, counts) + 0.5) / np.repeat(counts, counts)

    def means(side: sparse.csr_array) -> NDArray[np.float64]:
        degree = np.diff(side.indptr)
        return np.where(degree > 0, (side @ share) / np.maximum(degree, 1), share)

    for sweep in range(_SWEEPS):
        share = means((parents, children)[sweep % 2])
        share[np.lexsort((share, level))] = place
    return share, means(both)


def _folded(x: NDArray[Any], y: NDArray[Any], width: float, rows: int) -> NDArray[np.float64]:
    """Return the places with a long strip folded into lines, one below the other."""
    lines = round(math.sqrt(width / (_WIDE * (rows + 2))))
    if lines < _FEWEST_LINES:
        return np.column_stack([x, y])
    length = width / lines
    line = np.minimum(x // length, lines - 1)
    return np.column_stack([x - line * length, y + line * (rows + 2)])
