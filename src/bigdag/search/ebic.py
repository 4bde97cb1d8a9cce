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
    from bigdag.engine.limits import Limits

__all__ = ["arc_cost", "choose_lambda1", "evidence", "least_squares", "refitted", "significant"]

_STEPS = 60  # of the path
_ENTRIES = 2**22  # numbers in a batch of regressions (32 MB)
_NOTHING = 1e-12  # share of a variance left that counts as nothing left
_COLUMNS = 64  # that a thread solves at a time
_RIDGE = 1e-12  # on a parent's own correlation: copies must not stop the work
_RATIO = 10 ** (-1 / 6)  # from one lambda1 of the path to the next
_RISES = 3  # steps without a better score that end the path


def arc_cost(n: int, d: int, gamma: float | str = "auto", factor: float = 1.0) -> float:
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
    >>> round(arc_cost(1000, 500, gamma=0.0), 3)
    6.908
    """
    log_n, log_d = math.log(max(n, 2)), math.log(max(d, 1))
    weight = min(1.0, (log_d / log_n) ** 2) if isinstance(gamma, str) else gamma
    return factor * (log_n + 2 * weight * log_d)


def significant(
    gram: Gram,
    weights: sp.csc_array,
    *,
    gamma: float | str = "auto",
    factor: float = 1.0,
    required: sp.csc_array | None = None,
) -> sp.csc_array:
    """Return the arcs of a DAG that are worth their cost once they are refitted.

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
        As in :func:`arc_cost`.
    required : csc_array of bool, shape (d, d), optional
        Arcs that stay whatever they are worth.

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
    problem, state = _on_arcs(gram, weights, arc_cost(gram.n_samples, gram.d, gamma, factor))
    gram.each(partial(insertion.prune, problem, state), gram.d)
    rows, columns = state.arcs()
    kept = sp.csc_array((np.ones(len(columns)), (rows, columns)), shape=weights.shape)
    if required is not None:
        kept = sp.csc_array((kept + required.astype(np.float64)) != 0)
    result = sp.csc_array(weights * kept)
    result.eliminate_zeros()
    result.sort_indices()
    return result


def least_squares(gram: Gram, problem: insertion.Problem, state: insertion.State) -> sp.csc_array:
    """Return the weights of plain least squares on the parents of a state (d, d)."""
    values = np.zeros(len(state.parents))
    gram.each(partial(insertion.coefficients, problem, state, values), gram.d, _COLUMNS)
    rows, columns = state.arcs()
    data = values[state.places()] * gram.sd[columns] * gram.inverse_sd[rows]
    weights = sp.csc_array((data, (rows, columns)), shape=(gram.d, gram.d))
    weights.eliminate_zeros()
    weights.sort_indices()
    return weights


def refitted(gram: Gram, weights: sp.csc_array) -> sp.csc_array:
    """Return the weights of plain least squares on the arcs of a DAG (d, d).

    Of more parents than a third of the samples only the strongest stay.

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> gram = Gram(as_dataset([[-1.0, 2.0], [0.0, 0.0], [1.0, -2.0]]))
    >>> refitted(gram, sp.csc_array([[0, -0.1], [0, 0]])).toarray().round(3) + 0.0
    array([[ 0., -2.],
           [ 0.,  0.]])
    """
    return least_squares(gram, *_on_arcs(gram, weights, 0.0))


def evidence(gram: Gram, weights: sp.csc_array, cost: float) -> NDArray[np.float64]:
    """Return what the extended BIC loses without each arc, its target refitted (m,).

    Parameters
    ----------
    gram : Gram
        The second moments.
    weights : csc_array of shape (d, d)
        An acyclic graph; only its arcs are read.
    cost : float
        Of an arc, as from :func:`arc_cost`.

    Returns
    -------
    ndarray of shape (m,)
        In the sequence of ``weights.data``: n log of the variance left without the arc over that
        with it, minus the cost. It is above zero for every arc that a search by the BIC keeps, and
        capped where nothing is left of a variance.

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> X[:, 2] += X[:, 0]
    >>> arcs = sp.csc_array([[0, 0, 1.0], [0, 0, 1.0], [0, 0, 0]])
    >>> strong, weak = evidence(Gram(as_dataset(X)), arcs, 5.0)
    >>> strong > 50, weak < 0
    (np.True_, np.True_)
    """
    found = np.empty(weights.nnz)
    counts = np.diff(weights.indptr)
    for size in np.unique(counts[counts > 0]):
        targets = np.flatnonzero(counts == size)
        step = max(
            1, _ENTRIES // int(size * max(size, 0 if gram.C is not None else gram.n_samples))
        )
        for first in range(0, len(targets), step):
            some = targets[first : first + step]
            places = weights.indptr[some][:, None] + np.arange(size)
            left = _shares_left(gram, some, weights.indices[places])
            ratio = np.maximum(left[1], _NOTHING) / np.maximum(left[0], _NOTHING)[:, None]
            found[places] = gram.n_samples * np.log(ratio) - cost
    return found


def _shares_left(
    gram: Gram, targets: NDArray[np.int64], parents: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what all the parents (k, p) leave of variances (k,), and what all but one (k, p)."""
    if gram.C is not None:
        among = gram.C[parents[:, :, None], parents[:, None, :]]
        right = gram.C[parents, targets[:, None]]
    else:
        assert gram.Z is not None
        rows = gram.Z[parents]  # (k, p, n)
        among = rows @ rows.transpose(0, 2, 1)
        right = (rows @ gram.Z[targets][:, :, None])[:, :, 0]
    among = among + _RIDGE * np.eye(parents.shape[1])
    inverse = np.linalg.inv(among)
    b = (inverse @ right[:, :, None])[:, :, 0]
    left = 1.0 - np.einsum("kp,kp->k", b, right)
    return left, left[:, None] + b**2 / np.einsum("kpp->kp", inverse)


def choose_lambda1(
    gram: Gram,
    order: NDArray[np.integer],
    *,
    mask: sp.csc_array | None = None,
    gamma: float | str = "auto",
    factor: float = 1.0,
    limits: Limits | None = None,
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
        As in :func:`arc_cost`.
    limits : Limits, optional
        Which arcs are possible.
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
    cost = arc_cost(gram.n_samples, gram.d, gamma, factor)
    lambda1 = _largest(gram)
    best, best_score, rises = lambda1, 0.0, 0  # no arcs: all variances are left
    weights: sp.csc_array | None = None
    arcs = 0
    for _ in range(_STEPS):
        lambda1 *= _RATIO
        fit = lasso.solve(
            gram, lambda1, order=order, mask=mask, start=weights, limits=limits, tol=1e-3, stop=stop
        )
        if not np.isfinite(fit.gap).all():
            break
        weights = fit.weights
        problem, state = _on_arcs(gram, weights, 0.0)  # no cost, so that every arc stays
        gram.each(partial(insertion.prune, problem, state), gram.d)
        score = state.total() + cost * int(state.counts.sum())
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
    gram: Gram, weights: sp.csc_array, cost: float
) -> tuple[insertion.Problem, insertion.State]:
    """Return a state with the arcs of a graph as parents; its costs are not known yet."""
    order = topological_order(weights)
    assert order is not None
    counts = np.diff(weights.indptr).astype(np.int64)
    most = max(1, min(int(counts.max(initial=0)), gram.n_samples // 3))
    state = insertion.begin(order, most, np.minimum(counts, most))
    strength = np.abs(weights.data) * gram.sd[weights.indices]
    for v in np.flatnonzero(counts):
        span = slice(weights.indptr[v], weights.indptr[v + 1])
        strongest = np.argsort(-strength[span], kind="stable")[:most]
        state.counts[v] = len(strongest)
        state.parents_of(v)[:] = weights.indices[span][strongest]
    nothing = np.zeros(gram.d + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    problem = insertion.Problem(*gram.source, float(gram.n_samples), cost, *nothing)
    return problem, state
