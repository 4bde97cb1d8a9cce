"""Choices made from the data: the weight of the L1 norm, and which arcs are worth keeping.

Both use the extended BIC (Chen & Chen 2008; Foygel & Drton 2010): n log of the variance left,
summed over the variables, and for each arc ``log n + 2 gamma log d``. Nothing here knows a truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from bigdag.engine import lasso
from bigdag.graph.acyclic import topological_order
from bigdag.search import insertion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram

__all__ = ["arc_penalty", "choose_lambda1", "least_squares", "significant"]

_STEPS = 60  # of the path
_RATIO = 10 ** (-1 / 6)  # from one lambda1 of the path to the next
_RISES = 3  # steps without a better score that end the path


def arc_penalty(n: int, d: int, gamma: float | str = "auto", factor: float = 1.0) -> float:
    """Return what an arc costs in the extended BIC, in units of n log variance.

    Parameters
    ----------
    n, d : int
        Samples and variables.
    gamma : float or "auto", default="auto"
        How much the number of possible arcs counts; 0 is the plain BIC. "auto" is the square of
        log d / log n, at most 1: little where there are few variables, all of it from d = n on.
    factor : float, default=1.0
        Times the whole.

    Examples
    --------
    >>> round(arc_penalty(1000, 500, gamma=0.0), 3)
    6.908
    """
    log_n, log_d = math.log(max(n, 2)), math.log(max(d, 1))
    weight = min(1.0, (log_d / log_n) ** 2) if isinstance(gamma, str) else gamma
    return factor * (log_n + 2 * weight * log_d)


def significant(
    gram: Gram, weights: sp.csc_array, *, gamma: float | str = "auto", factor: float = 1.0
) -> sp.csc_array:
    """Return the arcs of a DAG that are worth their penalty once they are refitted.

    Each variable is regressed on its parents by plain least squares, and the parent that explains
    least is left out while the extended BIC falls. Of more parents than a third of the samples
    only the strongest are looked at.

    Parameters
    ----------
    gram : Gram
        The second moments.
    weights : csc_array of shape (d, d)
        An acyclic graph.
    gamma, factor
        As in :func:`arc_penalty`.

    Returns
    -------
    csc_array of shape (d, d)
        The same weights on the arcs that stay.

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> X[:, 2] += X[:, 0]
    >>> weak = sp.csc_array([[0, 0, 0.9], [0, 0, 0.01], [0, 0, 0]])
    >>> significant(Gram(as_dataset(X)), weak).toarray()
    array([[0. , 0. , 0.9],
           [0. , 0. , 0. ],
           [0. , 0. , 0. ]])
    """
    problem, state = _on_arcs(gram, weights, arc_penalty(gram.n_samples, gram.d, gamma, factor))
    gram.each(partial(insertion.prune, problem, state), gram.d)
    sizes = state.counts
    inside = np.arange(state.parents.shape[1]) < sizes[:, None]
    columns = np.repeat(np.arange(gram.d), sizes)
    kept = sp.csc_array(
        (np.ones(len(columns)), (state.parents[inside], columns)), shape=weights.shape
    )
    result = sp.csc_array(weights * kept)
    result.eliminate_zeros()
    result.sort_indices()
    return result


def least_squares(gram: Gram, problem: insertion.Problem, state: insertion.State) -> sp.csc_array:
    """Return the weights of plain least squares on the parents of a state (d, d)."""
    values = np.zeros(state.parents.shape)
    gram.each(partial(insertion.coefficients, problem, state, values), gram.d)
    inside = np.arange(state.parents.shape[1]) < state.counts[:, None]
    rows = state.parents[inside].astype(np.int64)
    columns = np.repeat(np.arange(gram.d), state.counts)
    data = values[inside] * gram.sd[columns] * gram.inverse_sd[rows]
    weights = sp.csc_array((data, (rows, columns)), shape=(gram.d, gram.d))
    weights.eliminate_zeros()
    weights.sort_indices()
    return weights


def choose_lambda1(
    gram: Gram,
    order: NDArray[np.integer],
    *,
    mask: sp.csc_array | None = None,
    gamma: float | str = "auto",
    factor: float = 1.0,
    stop: Callable[[], bool] | None = None,
) -> float:
    """Return the lambda1 whose arcs, refitted, have the least extended BIC on an order.

    The path goes from the least lambda1 that leaves no arc downwards in steps of a sixth of a
    power of ten, each lasso started from the last one, and ends when the score has stopped
    falling.

    Parameters
    ----------
    gram : Gram
        The second moments.
    order : ndarray of shape (d,)
        Causes first.
    mask : csc_array of shape (d, d), optional
        The arcs that may be used.
    gamma, factor
        As in :func:`arc_penalty`.
    stop : callable, optional
        True ends the path early.

    Examples
    --------
    >>> from bigdag import simulate
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> truth = simulate.random_dag(30, 1, rng=0)
    >>> gram = Gram(as_dataset(simulate.sample(truth, 500, rng=1)))
    >>> 0.05 < choose_lambda1(gram, truth.order) < 1
    True
    """
    penalty = arc_penalty(gram.n_samples, gram.d, gamma, factor)
    lambda1 = _largest(gram)
    best, best_score, rises = lambda1, 0.0, 0  # no arcs: all variances are left
    weights: sp.csc_array | None = None
    arcs = 0
    for _ in range(_STEPS):
        lambda1 *= _RATIO
        fit = lasso.solve(gram, lambda1, order=order, mask=mask, start=weights, tol=1e-3, stop=stop)
        if not np.isfinite(fit.gap).all():
            break
        weights = fit.weights
        problem, state = _on_arcs(gram, weights, 0.0)  # no penalty, so that every arc stays
        gram.each(partial(insertion.prune, problem, state), gram.d)
        score = state.total() + penalty * int(state.counts.sum())
        if score < best_score:
            best, best_score, rises = lambda1, score, 0
        elif int(state.counts.sum()) != arcs:  # else nothing has changed
            rises += 1
        arcs = int(state.counts.sum())
        if rises == _RISES or weights.nnz > gram.d * gram.n_samples / 3:
            break
    return float(best)


def _largest(gram: Gram) -> float:
    """Return the lambda1 from which on there are no arcs: the largest covariance."""
    largest = 0.0
    for block in gram.blocks(np.arange(gram.d)):
        rows = np.abs(gram.rows(block)) * gram.sd * gram.sd[block][:, None]
        rows[np.arange(len(block)), block] = 0.0
        largest = max(largest, float(rows.max()))
    return largest or 1.0


def _on_arcs(
    gram: Gram, weights: sp.csc_array, penalty: float
) -> tuple[insertion.Problem, insertion.State]:
    """Return a state with the arcs of a graph as parents; its costs are not known yet."""
    order = topological_order(weights)
    assert order is not None
    counts = np.diff(weights.indptr).astype(np.int64)
    most = max(1, min(int(counts.max(initial=0)), gram.n_samples // 3))
    state = insertion.begin(order, most)
    strength = np.abs(weights.data) * gram.sd[weights.indices]
    for v in np.flatnonzero(counts):
        span = slice(weights.indptr[v], weights.indptr[v + 1])
        strongest = np.argsort(-strength[span], kind="stable")[:most]
        state.parents[v, : len(strongest)] = weights.indices[span][strongest]
        state.counts[v] = len(strongest)
    nothing = np.zeros(gram.d + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    problem = insertion.Problem(*gram.source, float(gram.n_samples), penalty, *nothing)
    return problem, state
