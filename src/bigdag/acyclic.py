"""Maximum acyclic subgraph: an order of the variables that keeps the heaviest arcs.

The weight of an arc is its squared coefficient, so that keeping the most weight is the same as
staying closest to the given matrix (equation 2 of the paper). Both forms of algorithm 2 work on
whole numbers: the squares are scaled by one power of two and rounded up to 64-bit integers. Sums
are then exact in any order, the dense and the sparse form return the same order to the last tie,
and an arc too light for the scale still counts: only a variable with no arc left scores zero.
Orders list causes first; the paper fills the same list from the back.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from bigdag.compiled import kernel
from bigdag.errors import ParameterError, missing_extra

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "acyclic_threshold",
    "greedy_order",
    "greedy_order_dense",
    "improve_order",
    "is_acyclic",
    "kept_weight",
    "project",
    "rank_of",
    "topological_order",
]

_BITS = 60  # a column's keys add up to less than 2**61
_TAKEN = np.iinfo(np.int64).max
_FEW_ARCS = 4  # a variable: so many of the heaviest arcs are looked at first for a cycle


# ------------------------------------------------------------------ orders and projections


def rank_of(order: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the place of each variable in an order.

    Examples
    --------
    >>> rank_of(np.array([2, 0, 1]))
    array([1, 2, 0])
    """
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


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
    arcs = _arcs(W)
    order = _kahn(arcs.indptr, arcs.indices)
    return order if len(order) == arcs.shape[0] else None


def is_acyclic(W: ArrayLike | sp.sparray) -> bool:
    """Tell whether the arcs of W hold no cycle.

    Examples
    --------
    >>> is_acyclic(np.array([[0, 0.5], [0, 0]]))
    True
    """
    return topological_order(W) is not None


def project(W: ArrayLike | sp.sparray, order: NDArray[np.integer]) -> sp.csc_array:
    """Return W with only the arcs that go forward in the order.

    Examples
    --------
    >>> project(np.array([[0, 2.0], [3.0, 0]]), np.array([1, 0])).toarray()
    array([[0., 0.],
           [3., 0.]])
    """
    W = sp.csc_array(W)
    rank = rank_of(order)
    columns = np.repeat(np.arange(W.shape[1]), np.diff(W.indptr))
    keep = (rank[W.indices] < rank[columns]) & (W.data != 0)
    count = np.zeros(W.shape[1] + 1, dtype=W.indptr.dtype)
    np.cumsum(np.bincount(columns[keep], minlength=W.shape[1]), out=count[1:])
    return sp.csc_array((W.data[keep], W.indices[keep], count), shape=W.shape)


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
    arcs = _arcs(W)
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


def kept_weight(W: ArrayLike | sp.sparray, order: NDArray[np.integer]) -> float:
    """Return the sum of squares that an order keeps.

    Examples
    --------
    >>> kept_weight(np.array([[0, 2.0], [3.0, 0]]), np.array([1, 0]))
    9.0
    """
    kept = project(W, order).data
    return float(np.dot(kept, kept))


# ------------------------------------------------------------------ algorithm 2


def greedy_order(W: ArrayLike | sp.sparray) -> NDArray[np.int64]:
    """Algorithm 2 on sparse weights, with a heap: O(m log d) for m arcs.

    Takes, one after the other, the variable with the least squared weight coming in from the
    variables not yet taken; among equals the one with the smaller index.

    Parameters
    ----------
    W : array or sparse array of shape (d, d)
        Weights; the diagonal is ignored.

    Returns
    -------
    ndarray of int64, shape (d,)
        The variables, causes first.

    Examples
    --------
    >>> greedy_order(np.array([[0, 2.0, 0], [1.0, 0, 0], [0, 3.0, 0]]))
    array([2, 0, 1])
    """
    keys = _arc_keys(W)
    return _greedy_heap(keys.indptr, keys.indices, keys.data)


def greedy_order_dense(W: Any) -> Any:
    """Algorithm 2 on a dense torch tensor, vectorised, on the tensor's own device.

    Parameters
    ----------
    W : torch.Tensor of shape (d, d)
        Weights; the diagonal is ignored.

    Returns
    -------
    torch.Tensor of int64, shape (d,)
        The same order as :func:`greedy_order`, causes first, on the device of W.

    Examples
    --------
    >>> import torch
    >>> greedy_order_dense(torch.tensor([[0, 2.0, 0], [1.0, 0, 0], [0, 3.0, 0]])).tolist()
    [2, 0, 1]
    """
    try:
        import torch
    except ImportError:
        raise missing_extra("torch", "torch", "greedy_order_dense") from None

    d = W.shape[0]
    order = torch.empty(d, dtype=torch.int64, device=W.device)
    if d == 0:
        return order
    largest = float(W.detach().abs().fill_diagonal_(0).max())
    _check_largest(largest)

    def rows(first: int, last: int) -> tuple[Any, Any]:
        """Return rows of W over the largest weight, and where they hold an arc."""
        arcs = W[first:last].detach() != 0
        arcs.diagonal(first).zero_()
        scaled = W[first:last].detach().to(torch.float64) / (largest or 1.0)
        return torch.where(arcs, scaled, 0.0), arcs  # a diagonal may have become infinite

    strip = max(1, 2**22 // d)
    strips = [(a, min(a + strip, d)) for a in range(0, d, strip)]
    root = _key_root(float(sum(rows(a, b)[0].square_().sum(dim=0) for a, b in strips).max()))

    def keys(first: int, last: int) -> Any:
        scaled, arcs = rows(first, last)
        return torch.maximum((scaled * root).square_().ceil_(), arcs).to(torch.int64)

    scores = sum(keys(a, b).sum(dim=0) for a, b in strips)
    for i in range(d):
        node = torch.argmin(scores)
        order[i] = node
        scores -= keys(int(node), int(node) + 1)[0]
        scores[node] = _TAKEN
    return order


def improve_order(
    W: ArrayLike | sp.sparray, order: NDArray[np.integer], max_sweeps: int = 100
) -> NDArray[np.int64]:
    """Raise the weight that an order keeps, by moving one variable at a time.

    The strongly connected components are laid out one after the other first, so that every arc
    between two of them is kept; then each variable in turn goes to the place inside its component
    that gains most, until a sweep finds no gain. No move ever lowers the kept weight.

    Parameters
    ----------
    W : array or sparse array of shape (d, d)
        Weights; the diagonal is ignored.
    order : ndarray of shape (d,)
        The order to begin from, causes first.
    max_sweeps : int, default=100
        Sweeps over all variables at the most.

    Returns
    -------
    ndarray of int64, shape (d,)

    Examples
    --------
    >>> W = np.array([[0, 2.0, 0], [1.0, 0, 0], [0, 3.0, 0]])
    >>> improve_order(W, np.array([1, 0, 2]))
    array([2, 0, 1])
    """
    keys = _arc_keys(W, both_ends=True)
    d = keys.shape[0]
    start = np.asarray(order, dtype=np.int64)
    n_components, component = sp.csgraph.connected_components(keys, connection="strong")
    first = np.full(n_components, d, dtype=np.int64)
    np.minimum.at(first, component, rank_of(start))
    between = _condensation_order(keys, component, first)
    apart = start[np.argsort(between[component[start]], kind="stable")]
    if n_components == d:  # no cycle: everything is kept
        return apart
    into = sp.csc_array(keys)
    return _insertion_search(
        apart, component, keys.indptr, keys.indices, keys.data, into.indptr, into.indices,
        into.data, max_sweeps,
    )  # fmt: skip


# ------------------------------------------------------------------ whole-number keys


def _arcs(W: ArrayLike | sp.sparray) -> sp.csr_array:
    """Return the arcs of W by source, without explicit zeros."""
    arcs = sp.csr_array(W)
    if arcs.shape[0] != arcs.shape[1]:
        raise ParameterError(f"A weight matrix must be square. Got shape {arcs.shape} instead.")
    if arcs.nnz and not arcs.data.all():
        arcs = arcs.copy()
        arcs.eliminate_zeros()
    return arcs


def _arc_keys(W: ArrayLike | sp.sparray, both_ends: bool = False) -> sp.csr_array:
    """Return a whole number for each arc, by source: its square, scaled and rounded up.

    The keys that come into a variable add up to a 64-bit integer; with ``both_ends`` also those
    that come in and go out together.
    """
    arcs = _arcs(W)
    d = arcs.shape[0]
    rows = np.repeat(np.arange(d), np.diff(arcs.indptr))
    off = arcs.indices != rows
    if not off.all():
        arcs = sp.csr_array((arcs.data[off], (rows[off], arcs.indices[off])), shape=arcs.shape)
    largest = float(np.abs(arcs.data).max(initial=0.0))
    _check_largest(largest)
    scaled = arcs.data.astype(np.float64) / (largest or 1.0)
    into = np.bincount(arcs.indices, scaled**2, minlength=d)
    heaviest = float(into.max(initial=0.0))
    if both_ends:
        out = np.bincount(np.repeat(np.arange(d), np.diff(arcs.indptr)), scaled**2, minlength=d)
        heaviest = max(heaviest, 0.5 * float((into + out).max(initial=0.0)))
    keys = np.maximum(np.ceil((scaled * _key_root(heaviest)) ** 2), 1).astype(np.int64)
    return sp.csr_array((keys, arcs.indices, arcs.indptr), shape=arcs.shape)


def _check_largest(largest: float) -> None:
    if not math.isfinite(largest):
        raise ParameterError("Weights must be finite. Got NaN or infinity among them instead.")


def _key_root(heaviest: float) -> float:
    """Return the power of two whose square takes the heaviest column's sum just below 2**60."""
    return math.ldexp(1.0, (_BITS - math.frexp(heaviest)[1]) // 2) if heaviest > 0 else 1.0


# ------------------------------------------------------------------ compiled kernels


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


@kernel
def _sift(heap, place, key, at, size):  # type: ignore[no-untyped-def]
    """Restore the heap at one place, in place: up if it can rise, else down."""
    v = heap[at]
    while at > 0:
        up = (at - 1) >> 1
        u = heap[up]
        if key[v] < key[u] or (key[v] == key[u] and v < u):
            heap[at] = u
            place[u] = at
            at = up
        else:
            break
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        c = heap[child]
        if child + 1 < size:
            r = heap[child + 1]
            if key[r] < key[c] or (key[r] == key[c] and r < c):
                child += 1
                c = r
        if key[c] < key[v] or (key[c] == key[v] and c < v):
            heap[at] = c
            place[c] = at
            at = child
        else:
            break
    heap[at] = v
    place[v] = at


@kernel
def _greedy_heap(indptr, indices, arc_key):  # type: ignore[no-untyped-def]
    d = len(indptr) - 1
    key = np.zeros(d, dtype=np.int64)
    for e in range(len(indices)):
        key[indices[e]] += arc_key[e]
    heap = np.arange(d)
    place = np.arange(d)
    for at in range(1, d):
        _sift(heap, place, key, at, at + 1)
    order = np.empty(d, dtype=np.int64)
    size = d
    for i in range(d):
        v = heap[0]
        order[i] = v
        place[v] = -1
        size -= 1
        if size > 0:
            heap[0] = heap[size]
            place[heap[0]] = 0
            _sift(heap, place, key, 0, size)
        for e in range(indptr[v], indptr[v + 1]):
            j = indices[e]
            if place[j] >= 0:
                key[j] -= arc_key[e]
                _sift(heap, place, key, place[j], size)
    return order


def _condensation_order(
    keys: sp.csr_array, component: NDArray[np.int32], first: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the place of each strongly connected component, causes first.

    Among components that are free to go, the one whose earliest member came first goes first.
    """
    rows = np.repeat(np.arange(keys.shape[0]), np.diff(keys.indptr))
    source, target = component[rows], component[keys.indices]
    out = source != target
    arcs = sp.csr_array(
        (np.ones(out.sum(), dtype=np.int64), (source[out], target[out])),
        shape=(len(first), len(first)),
    )
    # Relabelled by first appearance, ties of the heap fall to the component that came first.
    by_first = np.argsort(first, kind="stable")
    arcs = arcs[by_first][:, by_first]
    arcs.data[:] = 1
    place = np.empty(len(first), dtype=np.int64)
    place[by_first[_greedy_heap(arcs.indptr, arcs.indices, arcs.data)]] = np.arange(len(first))
    return place


@kernel
def _insertion_search(  # type: ignore[no-untyped-def]
    order, component, out_ptr, out_idx, out_key, in_ptr, in_idx, in_key, max_sweeps
):
    """Move single variables inside their component while that raises the kept weight, in place.

    The members of a component stand one after the other in the order, and stay so: each stretch
    is only ever sorted in itself, by labels that are compared with those of no other component.
    """
    d = len(order)
    label = np.empty(d, dtype=np.float64)  # sorted labels are a component's order
    for i in range(d):
        label[order[i]] = i
    widest = 0
    for v in range(d):
        widest = max(widest, out_ptr[v + 1] - out_ptr[v] + in_ptr[v + 1] - in_ptr[v])
    at = np.empty(widest, dtype=np.float64)
    gain = np.empty(widest, dtype=np.int64)
    for _ in range(max_sweeps):
        moved = False
        for v in order:
            count = 0
            for e in range(out_ptr[v], out_ptr[v + 1]):
                if component[out_idx[e]] == component[v]:
                    at[count] = label[out_idx[e]]
                    gain[count] = out_key[e]
                    count += 1
            for e in range(in_ptr[v], in_ptr[v + 1]):
                if component[in_idx[e]] == component[v]:
                    at[count] = label[in_idx[e]]
                    gain[count] = -in_key[e]
                    count += 1
            if count == 0:
                continue
            by_label = np.argsort(at[:count])
            here = label[v]
            split = 0
            while split < count and at[by_label[split]] < here:
                split += 1
            best, best_low, best_high = 0, 0.0, 0.0
            total = 0
            for s in range(split - 1, -1, -1):  # to the left: v comes before what it passes
                total += gain[by_label[s]]
                last_of_node = s == 0 or at[by_label[s - 1]] != at[by_label[s]]
                if last_of_node and total > best:
                    best = total
                    best_high = at[by_label[s]]
                    best_low = at[by_label[s - 1]] if s > 0 else best_high - 2.0
            total = 0
            for s in range(split, count):  # to the right: v comes after what it passes
                total -= gain[by_label[s]]
                last_of_node = s == count - 1 or at[by_label[s + 1]] != at[by_label[s]]
                if last_of_node and total > best:
                    best = total
                    best_low = at[by_label[s]]
                    best_high = at[by_label[s + 1]] if s < count - 1 else best_low + 2.0
            if best > 0:
                # Strictly between its neighbours: a label may be that of a variable without an
                # arc to v, which may then come on either side of it.
                label[v] = 0.5 * (best_low + best_high)
                if label[v] <= best_low or label[v] >= best_high:
                    label[v] = here  # no room between the labels: wait for the next sweep's
                else:
                    moved = True
        first = 0
        while first < d:
            last = first + 1
            while last < d and component[order[last]] == component[order[first]]:
                last += 1
            if last - first > 1:
                members = order[first:last].copy()
                by_label = np.argsort(label[members])
                for i in range(last - first):
                    order[first + i] = members[by_label[i]]
                    label[order[first + i]] = i
            first = last
        if not moved:
            break
    return order
