"""Whether a graph has cycles, and the order of one that has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from bigdag.compiled import kernel
from bigdag.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["acyclic_threshold", "arcs_by_source", "check_square", "is_acyclic", "topological_order"]

_FEW_ARCS = 4  # a variable: so many of the heaviest arcs are looked at first for a cycle


def topological_order(W: ArrayLike | sp.sparray) -> NDArray[np.int64] | None:
    """Return an order with causes first, or None where the arcs hold a cycle.

    Parameters
    ----------
    W : array or sparse array of shape (d, d)
        ``W[i, j] != 0`` is the arc i → j.

    Returns
    -------
    ndarray of int64, shape (d,), or None

    Examples
    --------
    >>> topological_order(np.array([[0, 0], [1, 0]]))
    array([1, 0])
    >>> topological_order(np.array([[0, 1], [1, 0]])) is None
    True
    """
    arcs = arcs_by_source(W)
    order = _kahn(arcs.indptr.astype(np.int64), arcs.indices.astype(np.int64))
    return order if len(order) == arcs.shape[0] else None


def is_acyclic(W: ArrayLike | sp.sparray) -> bool:
    """Tell whether the arcs of W hold no cycle.

    Examples
    --------
    >>> is_acyclic(np.array([[0, 0.5], [0, 0]]))
    True
    """
    return topological_order(W) is not None


def acyclic_threshold(W: ArrayLike | sp.sparray) -> tuple[float, sp.csc_array]:
    """Return the smallest threshold that leaves no cycle, and the arcs above it.

    Found by bisection over the sorted magnitudes: without the arcs up to some magnitude there is
    either a cycle or none, and there is none once there is none.

    Parameters
    ----------
    W : array or sparse array of shape (d, d)
        Finite weights.

    Returns
    -------
    threshold : float
        Zero where W has no cycle, and else the magnitude of the heaviest arc that has to go.
    kept : csc_array of shape (d, d)
        The arcs with a magnitude above the threshold.

    Examples
    --------
    >>> threshold, kept = acyclic_threshold(np.array([[0, 2.0], [-0.5, 0]]))
    >>> threshold, kept.toarray()
    (0.5, array([[0., 2.],
           [0., 0.]]))
    """
    arcs = arcs_by_source(W)
    magnitude = np.abs(arcs.data)

    def above(level: float) -> sp.csr_array:
        keep = magnitude > level
        indptr = np.concatenate([[0], np.cumsum(keep)])[arcs.indptr]
        return sp.csr_array((arcs.data[keep], arcs.indices[keep], indptr), shape=arcs.shape)

    # Of a full matrix few arcs remain: those are looked for among the heaviest first.
    low, high = -1.0, float(magnitude.max(initial=0.0))
    count = _FEW_ARCS * arcs.shape[0]
    while count < len(magnitude):
        level = float(np.partition(magnitude, -count)[-count])
        kept = above(level)
        if topological_order(kept) is None:
            low, arcs, magnitude = level, kept, np.abs(kept.data)
            break
        high, count = level, 4 * count
    levels = np.unique(np.append(magnitude, 0.0))
    levels = levels[(levels > low) & (levels <= high)]
    first, last = 0, len(levels) - 1  # above the last level there is no cycle
    while first < last:
        middle = (first + last) // 2
        if topological_order(above(levels[middle])) is None:
            first = middle + 1
        else:
            last = middle
    return float(levels[last]), sp.csc_array(above(levels[last]))


def check_square(W: NDArray[np.generic] | sp.sparray) -> None:
    """Refuse what is no matrix of weights."""
    if W.ndim != 2 or W.shape[0] != W.shape[1]:
        raise ParameterError(f"A weight matrix must be square. Got shape {W.shape} instead.")


def arcs_by_source(W: ArrayLike | sp.sparray) -> sp.csr_array:
    """Return the arcs of W by source, without explicit zeros."""
    arcs = sp.csr_array(W)
    check_square(arcs)
    if arcs.nnz and not arcs.data.all():
        arcs = arcs.copy()
        arcs.eliminate_zeros()
    return arcs


@kernel
def _kahn(indptr, indices):  # type: ignore[no-untyped-def]
    """Return the variables that can be ordered, causes first; all of them without a cycle."""
    d = len(indptr) - 1
    waiting = np.zeros(d, dtype=np.int64)
    for j in indices:
        waiting[j] += 1
    order = np.empty(d, dtype=np.int64)
    tail = 0
    for v in range(d):
        if waiting[v] == 0:
            order[tail] = v
            tail += 1
    head = 0
    while head < tail:
        v = order[head]
        head += 1
        for e in range(indptr[v], indptr[v + 1]):
            j = indices[e]
            waiting[j] -= 1
            if waiting[j] == 0:
                order[tail] = j
                tail += 1
    return order[:tail]
