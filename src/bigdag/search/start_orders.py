"""Orders of the variables read off the data, without fitting a graph.

All return the variables as an int64 array, causes first. An order says nothing about which arcs
there are; one lasso on it does (:mod:`bigdag.learners.sort_regress`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bigdag.compiled import kernel
from bigdag.engine.explained import r_squared_of_correlations, r_squared_of_rows
from bigdag.engine.heap import pop, sift
from bigdag.engine.screening import correlated
from bigdag.resources import blas_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram

__all__ = [
    "least_variance_memory",
    "least_variance_order",
    "optimal_order",
    "r2_order",
    "random_order",
    "variance_order",
]

_PANEL = 64  # variables taken between two updates of the whole matrix
_STRIP = 128  # rows of the matrix that one thread updates at a time
_RANK = 1e-13  # share of a variance below which nothing but rounding is left of it
_SAME = 1e-11  # of a sum of costs: less is rounding
_EXACT = 0.8  # of n: variables that the exact rule may take where n <= d
_SUPPORT = 4.0  # over √n: correlations that count as such from the start
_UPDATE = 4.5  # over √n: correlations left that are worth projecting out


def variance_order(gram: Gram) -> NDArray[np.int64]:
    """Order by variance, the least first; among equals by index.

    Knows nothing but the units, and finds the order of most simulated data (Reisach et al. 2021).

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> variance_order(Gram(as_dataset([[0.0, 1.0], [9.0, 5.0], [4.0, 3.0]])))
    array([1, 0])
    """
    return np.argsort(gram.diag(), kind="stable").astype(np.int64)


def r2_order(gram: Gram) -> NDArray[np.int64]:
    """Order by the share of each variance that all other variables explain, the least first.

    No rescaling changes it (Reisach et al. 2023). Where n <= d the correlations are shrunk towards
    the identity.

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> x = np.random.default_rng(0).normal(size=(500, 3))
    >>> x[:, 0] += x[:, 1] + x[:, 2]
    >>> int(r2_order(Gram(as_dataset(x)))[-1])
    0
    """
    step = gram.step("r2")
    if step.found is not None:
        return step.found[0]
    # Rounded: with another number of threads the last digits differ.
    order = np.argsort(_explained(gram).round(9), kind="stable").astype(np.int64)
    step.keep(lambda: (order,))
    return order


def random_order(d: int, rng: np.random.Generator | int | None = None) -> NDArray[np.int64]:
    """Return a random order: what any other order has to beat.

    Examples
    --------
    >>> sorted(random_order(4, rng=0).tolist())
    [0, 1, 2, 3]
    """
    return np.random.default_rng(rng).permutation(d).astype(np.int64)


def least_variance_order(
    gram: Gram, support: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None
) -> NDArray[np.int64]:
    """Take next the variable with the least variance left given those taken.

    Finds the causal order where all noises have the same variance (Chen, Drton & Wang 2019).

    Parameters
    ----------
    gram : Gram
        The second moments.
    support : pair of arrays, optional
        Each variable's correlated ones, where they are known already (see `correlated`).

    Returns
    -------
    ndarray of int64, shape (d,)
        The variables, causes first; among equals the smaller index first.

    Notes
    -----
    With more samples than variables this is a Cholesky factorisation that always takes the
    smallest pivot. Otherwise all variances would end at zero, so a variable is only ever regressed
    on those it correlates with: the pairs with a correlation above 4/√n are the support, and of
    those a variable just taken is projected out where the correlation left exceeds 4.5/√n. That
    needs a second copy of the data and the support, never a d × d array.

    The exact rule is much better on dense graphs (500 variables, 4 arcs each, 1000 samples: no arc
    the wrong way against 2 %), so up to d = 2n it still chooses the first 0.8 n variables, where
    the correlations are held.

    Examples
    --------
    >>> from bigdag import metrics, simulate
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> truth = simulate.random_dag(50, 1, rng=0)
    >>> order = least_variance_order(Gram(as_dataset(simulate.sample(truth, 1000, rng=1))))
    >>> metrics.order_errors(order, truth)
    0.0
    """
    n, d = gram.n_samples, gram.d
    if gram.C is not None and n > d:
        return _exact_order(gram, d)
    if gram.C is not None and 2 * n >= d:
        count = int(_EXACT * n)
        return _sparse_order(gram, _exact_order(gram, count)[:count], support)
    return _sparse_order(gram, np.empty(0, dtype=np.int64), support)


def least_variance_memory(n: int, d: int, hold: bool) -> int:
    """Return the bytes that `least_variance_order` takes beside the moments.

    Examples
    --------
    >>> least_variance_memory(1000, 500, True)
    2000000
    """
    exact = 8 * d * d if hold and 2 * n >= d else 0
    return max(exact, 0 if exact and n > d else 8 * n * d)


def optimal_order(costs: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the order with the least sum of costs, by dynamic programming over sets.

    Parameters
    ----------
    costs : ndarray of shape (d, 2**d)
        ``costs[v, s]``: what v costs when the variables in s precede it; bit u of s stands for u.
        Entries with v itself in s are not read. Takes d 2**d steps, so d is small.

    Returns
    -------
    ndarray of int64, shape (d,)
        The variables, causes first.

    Examples
    --------
    >>> optimal_order(np.array([[5.0, 0, 1, 0], [5.0, 4, 0, 0]]))
    array([1, 0])
    """
    d = len(costs)
    least = np.full(2**d, np.inf)
    last = np.zeros(2**d, dtype=np.int64)
    least[0] = 0.0
    for s in range(1, 2**d):
        for v in range(d):
            if s >> v & 1:
                total = least[s ^ (1 << v)] + costs[v, s ^ (1 << v)]
                # What differs by rounding is the same, so that the first one is taken.
                if total < least[s] - _SAME * abs(total):
                    least[s], last[s] = total, v
    order = np.empty(d, dtype=np.int64)
    s = 2**d - 1
    for place in range(d - 1, -1, -1):
        order[place] = last[s]
        s ^= 1 << int(last[s])
    return order


# ------------------------------------------------------------------ R²


def _explained(gram: Gram) -> NDArray[np.float64]:
    """Return R² of each variable on all others, from correlations or from samples, (d,)."""
    with gram.blas():
        if gram.C is not None and (gram.Z is None or gram.n_samples > gram.d):
            return r_squared_of_correlations(gram.C, gram.n_samples)
        assert gram.Z is not None
        return r_squared_of_rows(gram.Z, gram)


# ------------------------------------------------------------------ least variance left


def _exact_order(gram: Gram, count: int) -> NDArray[np.int64]:
    """Take ``count`` variables by a pivoted Cholesky factorisation, smallest pivot first.

    The factor is that of the correlations, the pivots are compared in the original units. The
    matrix is permuted as it goes: positions before k are taken. A panel of rows is kept apart,
    so that the rest is updated by one matrix product a panel.
    """
    assert gram.C is not None
    A = gram.C.copy()
    d = gram.d
    variance = gram.diag()
    order = np.arange(d)
    left = variance.copy()  # by position, in the original units
    share = (variance > 0).astype(np.float64)  # by position, of the variance
    for first in range(0, count, _PANEL):
        last = min(first + _PANEL, count)
        panel = np.zeros((last - first, d))  # rows of the factor
        for k in range(first, last):
            least = k + np.flatnonzero(left[k:] == left[k:].min())
            j = least[np.argmin(order[least])]
            for array in (order, left, share):
                array[[k, j]] = array[[j, k]]
            A[[k, j]] = A[[j, k]]
            A[:, [k, j]] = A[:, [j, k]]
            panel[:, [k, j]] = panel[:, [j, k]]
            if share[k] <= _RANK:
                continue  # nothing is left to regress the others on
            above = panel[: k - first]
            row = (A[k, k + 1 :] - above[:, k] @ above[:, k + 1 :]) / np.sqrt(share[k])
            panel[k - first, k + 1 :] = row
            share[k + 1 :] = np.maximum(share[k + 1 :] - row**2, 0.0)
            left[k + 1 :] = share[k + 1 :] * variance[order[k + 1 :]]
        rest = panel[:, last:]
        with blas_threads(1):  # BLAS rounds differently with another number of threads
            gram.each(partial(_subtract_products, A[last:, last:], rest), d - last, _STRIP)
    return order


def _subtract_products(
    A: NDArray[np.float64], rest: NDArray[np.float64], first: int, last: int
) -> None:
    """Subtract rows first to last of restᵀ rest from those of A, in place."""
    A[first:last] -= rest[:, first:last].T @ rest


def _sparse_order(
    gram: Gram,
    head: NDArray[np.int64],
    support: tuple[NDArray[np.int64], NDArray[np.int32]] | None,
) -> NDArray[np.int64]:
    """Keep residuals for each variable; project out only what is correlated.

    The variables in ``head`` are taken first, in that order.
    """
    if gram.Z is not None:
        residual = gram.Z.copy()
    else:  # any rows with these inner products will do
        assert gram.C is not None
        values, vectors = np.linalg.eigh(gram.C)
        residual = vectors * np.sqrt(np.maximum(values, 0.0))
    root = np.sqrt(gram.n_samples)
    indptr, indices = correlated(gram, _SUPPORT / root) if support is None else support
    step = gram.step("least variance", head, indptr, indices)
    if step.found is not None:
        return step.found[0]
    order: NDArray[np.int64] = _take(residual, gram.diag(), indptr, indices, _UPDATE / root, head)
    step.keep(lambda: (order,))
    return order


@kernel(fastmath=True)
def _take(R, variance, indptr, indices, threshold, head):  # type: ignore[no-untyped-def]
    """Return the order, head first; R (d, n), rows of unit length, is changed in place."""
    d, n = R.shape
    share = np.empty(d)  # of its variance that is left
    key = np.empty(d)
    for v in range(d):
        share[v] = np.dot(R[v], R[v])
        key[v] = variance[v]
    for i in range(len(head)):
        key[head[i]] = i - d  # below any variance
    heap = np.arange(d)
    place = np.arange(d)
    for at in range(1, d):
        sift(heap, place, key, at, at + 1)
    order = np.empty(d, dtype=np.int64)
    size = d
    for i in range(d):
        v = pop(heap, place, key, size)
        order[i] = v
        size -= 1
        if share[v] <= _RANK:
            continue
        taken = R[v]
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if place[u] < 0:
                continue
            row = R[u]
            inner = 0.0
            for s in range(n):
                inner += row[s] * taken[s]
            if inner * inner <= threshold * threshold * share[u] * share[v]:
                continue
            factor = inner / share[v]
            total = 0.0
            for s in range(n):
                row[s] -= factor * taken[s]
                total += row[s] * row[s]
            share[u] = total
            if key[u] >= 0.0:
                key[u] = total * variance[u]
            sift(heap, place, key, place[u], size)
    return order
