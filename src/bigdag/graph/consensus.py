"""Many graphs of the same variables: how often each arc is there, and the graph they agree on.

The agreement is a maximum acyclic subgraph of the probabilities, by algorithm 2 of the paper and
its improvement: the order that goes with the most of them. An arc is in it where the pair is joined
often enough, and directed where one direction is seen often enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from bigdag.engine.order import rank_of
from bigdag.graph.feedback_arc_set import greedy_order, improve_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.limits import Limits

__all__ = ["Agreement", "Answer", "Tally", "agreement", "entries_at", "tally"]

_TIE = 2.0**-20  # what a share of the DAGs counts beside one of the probabilities, in an order


class Answer(NamedTuple):
    """One of many graphs.

    Attributes
    ----------
    weights : csc_array of shape (d, d)
        The arcs, with sorted indices; acyclic.
    loose : ndarray of bool, shape (m,)
        Which of them are undirected: an equivalent DAG has them the other way round.
    """

    weights: sp.csc_array
    loose: NDArray[np.bool_]


class Tally(NamedTuple):
    """What many graphs say of each arc; all of shape (d, d).

    Attributes
    ----------
    probability : csc_array
        The share of the graphs with i → j at (i, j); an undirected arc is half one in each
        direction.
    count : csc_array
        How many of the DAGs have i → j, undirected or not.
    mean, deviation : csc_array
        Mean and standard deviation of the weights of i → j in these DAGs; a deviation of one
        weight alone is stored as zero.
    """

    probability: sp.csc_array
    count: sp.csc_array
    mean: sp.csc_array
    deviation: sp.csc_array


def tally(answers: Sequence[Answer], d: int) -> Tally:
    """Count the arcs of graphs; the sums are made in the sequence given.

    Examples
    --------
    >>> chain = Answer(sp.csc_array([[0, 2.0], [0, 0]]), np.array([True]))
    >>> sure = Answer(sp.csc_array([[0, 4.0], [0, 0]]), np.array([False]))
    >>> found = tally([chain, sure], 2)
    >>> found.probability.toarray()
    array([[0.  , 0.75],
           [0.25, 0.  ]])
    >>> found.mean.toarray()[0, 1]
    np.float64(3.0)
    """
    none = np.empty(0, dtype=np.int64)
    rows = np.concatenate([none, *(a.weights.indices for a in answers)]).astype(np.int64)
    columns = np.concatenate(
        [none, *(np.repeat(np.arange(d), np.diff(a.weights.indptr)) for a in answers)]
    )
    weights = np.concatenate([np.empty(0), *(a.weights.data for a in answers)])
    loose = np.concatenate([np.empty(0, dtype=bool), *(a.loose for a in answers)])
    total = max(1, len(answers))

    places = columns * d + rows
    by_place = np.argsort(places, kind="stable")
    places, weights = places[by_place], weights[by_place]
    first = np.flatnonzero(np.diff(places, prepend=-1))
    sizes = np.diff(first, append=len(places))
    sums = np.add.reduceat(weights, first) if len(first) else np.empty(0)
    mean = sums / np.maximum(sizes, 1)
    apart = (weights - np.repeat(mean, sizes)) ** 2
    squares = np.add.reduceat(apart, first) if len(first) else np.empty(0)
    deviation = np.sqrt(squares / np.maximum(sizes - 1, 1))

    def matrix(values: NDArray[np.float64]) -> sp.csc_array:
        column, row = np.divmod(places[first], max(d, 1))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=d))])
        return sp.csc_array((values, row, indptr), shape=(d, d))

    amount = np.where(loose, 0.5, 1.0)  # whose sums are exact
    forward = sp.coo_array((amount, (rows, columns)), shape=(d, d))
    back = sp.coo_array((np.full(loose.sum(), 0.5), (columns[loose], rows[loose])), shape=(d, d))
    probability = sp.csc_array(forward.tocsc() + back.tocsc())
    probability.data /= total
    probability.sort_indices()
    return Tally(probability, matrix(sizes.astype(np.float64)), matrix(mean), matrix(deviation))


class Agreement(NamedTuple):
    """The graph that many agree on.

    Attributes
    ----------
    order : ndarray of shape (d,)
        The variables, causes first.
    source, target : ndarray of shape (m,)
        The arcs, all of them along the order, column by column.
    undirected : ndarray of bool, shape (m,)
        Where the graphs do not agree on the direction.
    """

    order: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    undirected: NDArray[np.bool_]


def agreement(
    probability: sp.csc_array,
    threshold: float,
    direction_threshold: float,
    count: sp.csc_array | None = None,
    limits: Limits | None = None,
) -> Agreement:
    """Return the graph of the pairs that are joined often enough, along the best order.

    Parameters
    ----------
    probability : csc_array of shape (d, d)
        How often i → j.
    threshold : float
        The least probability of a pair, both directions together.
    direction_threshold : float
        The least share of a pair's probability that its direction must have to be directed.
    count : csc_array of shape (d, d), optional
        How many DAGs have i → j: decides between orders that the probabilities cannot tell apart.
    limits : Limits, optional
        Which arcs are possible, and which there have to be: the order agrees with it, only possible
        arcs are in the graph, all that are required are, and an arc that is possible one way only
        is directed.

    Examples
    --------
    >>> cycle = sp.csc_array([[0, 0.9, 0.1], [0, 0, 0.8], [0.6, 0, 0]])
    >>> found = agreement(cycle, 0.5, 0.6)
    >>> found.order, list(zip(found.source.tolist(), found.target.tolist()))
    (array([0, 1, 2]), [(0, 1), (0, 2), (1, 2)])
    >>> found.undirected
    array([False,  True, False])
    """
    if limits is not None:  # what has to be there is sure
        probability = _with_required(probability, limits)
    pair = sp.csc_array(probability + probability.T)
    pair.data[pair.data < threshold - 1e-12] = 0.0  # a sum of shares may miss it by rounding
    pair.eliminate_zeros()
    kept = pair.astype(bool).astype(np.float64)
    inside = sp.csc_array(probability.multiply(kept))
    if count is not None and count.nnz:
        inside = sp.csc_array(inside + count.multiply(kept) * (_TIE / count.data.max()))
    # An order keeps sums of squares: of the roots, it keeps the sum of the probabilities.
    root = inside.copy()
    root.data = np.sqrt(root.data)
    before = None if limits is None else limits.precedence
    order = improve_order(root, greedy_order(root, before), precedence=before)
    rank = rank_of(order)
    arcs = pair.tocoo()
    along = rank[arcs.row] < rank[arcs.col]
    if limits is not None:
        along &= limits.pairs(arcs.row.astype(np.int64), arcs.col.astype(np.int64))
    source, target = arcs.row[along].astype(np.int64), arcs.col[along].astype(np.int64)
    sequence = np.lexsort((source, target))
    source, target = source[sequence], target[sequence]
    share = entries_at(probability, source, target) / entries_at(pair, source, target)
    undirected = np.asarray(share < direction_threshold - 1e-12)
    if limits is not None:
        undirected &= limits.pairs(target, source) & ~limits.requires(source, target)
    return Agreement(order, source, target, undirected)


def _with_required(probability: sp.csc_array, limits: Limits) -> sp.csc_array:
    """Return the probabilities with one for each required arc, and none for its reverse."""
    needed = sp.csc_array(limits.required.astype(np.float64))
    if not needed.nnz:
        return probability
    others = sp.csc_array(probability - probability.multiply(needed + needed.T))
    others.eliminate_zeros()
    return sp.csc_array(others + needed)


def entries_at(
    matrix: sp.csc_array, source: NDArray[np.int64], target: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return entries of a sparse matrix (m,)."""
    if not len(source):
        return np.empty(0)
    return np.array(matrix[source, target], dtype=np.float64).ravel()
