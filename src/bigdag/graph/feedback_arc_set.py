"""Maximum acyclic subgraph: an order of the variables that keeps the heaviest arcs.

The weight of an arc is its squared coefficient, so that keeping the most weight is the same as
staying closest to the given matrix (equation 2 of the paper). All forms of algorithm 2 work on
whole numbers: the squares are scaled by one power of two and rounded up to 64-bit integers. Sums
are then exact in any order, those on full and on sparse matrices return the same order to the last
tie, and an arc too light for the scale still counts: only a variable with no arc left scores zero.
Orders list causes first; the paper fills the same list from the back.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bigdag.compiled import kernel
from bigdag.engine.heap import pop, sift
from bigdag.engine.order import project, rank_of, sort_with
from bigdag.errors import ParameterError, missing_extra
from bigdag.graph.acyclic import arcs_by_source, check_square

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from bigdag.engine.limits import Precedence

__all__ = ["greedy_order", "greedy_order_dense", "improve_order", "kept_weight"]

_BITS = 60  # a column's keys add up to less than 2**61
_TAKEN = np.iinfo(np.int64).max
_WAITING = 2**62  # added to the keys of a variable that may not be taken yet
_COMPILED = (np.dtype(np.float32), np.dtype(np.float64))  # what full matrices are compiled for
_NO_ONE = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)  # has to come after anyone


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


def greedy_order(
    W: ArrayLike | sp.sparray, precedence: Precedence | None = None
) -> NDArray[np.int64]:
    """Algorithm 2: on sparse weights with a heap, O(m log d) for m arcs; on full ones in O(d²).

    Takes, one after the other, the variable with the least squared weight coming in from the
    variables not yet taken; among equals the one with the smaller index.

    Parameters
    ----------
    W : array or sparse array of shape (d, d)
        Weights; the diagonal is ignored.
    precedence : Precedence, optional
        Who has to come before whom: a variable is only taken once all that have to come before it
        are.

    Returns
    -------
    ndarray of int64, shape (d,)
        The variables, causes first.

    Examples
    --------
    >>> greedy_order(np.array([[0, 2.0, 0], [1.0, 0, 0], [0, 3.0, 0]]))
    array([2, 0, 1])
    """
    if precedence is None and isinstance(W, np.ndarray) and W.dtype in _COMPILED:
        return _greedy_full_order(W)
    keys = _arc_keys(W)
    if precedence is None:
        return _greedy_heap(_lists(keys), *_NO_ONE)
    order = _greedy_heap(
        _lists(_with_barriers(keys, precedence)), precedence.after_ptr, precedence.after
    )
    return order[order < keys.shape[0]]


def _greedy_full_order(W: NDArray[np.floating]) -> NDArray[np.int64]:
    """Algorithm 2 on all entries of a matrix; one in rows takes memory for a few of them only."""
    check_square(W)
    W = np.ascontiguousarray(W)
    largest = float(_largest_arc(W))
    _check_largest(largest)
    heaviest = float(_weights_into(W, largest or 1.0).max(initial=0.0))
    return _greedy_full(W, largest or 1.0, _key_root(heaviest))


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
    W: ArrayLike | sp.sparray,
    order: NDArray[np.integer],
    max_sweeps: int = 100,
    precedence: Precedence | None = None,
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
    precedence : Precedence, optional
        Who has to come before whom, which the order to begin from keeps; no move breaks it.

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
    if precedence is not None:
        return _improved_under(keys, start, max_sweeps, precedence)
    n_components, component = sp.csgraph.connected_components(keys, connection="strong")
    first = np.full(n_components, d, dtype=np.int64)
    np.minimum.at(first, component, rank_of(start))
    between = _condensation_order(keys, component, first)
    apart = start[np.argsort(between[component[start]], kind="stable")]
    if n_components == d:  # no cycle: everything is kept
        return apart
    into = sp.csc_array(keys)
    return _insertion_search(
        apart,
        component.astype(np.int64),
        _lists(keys),
        _lists(into),
        max_sweeps,
        *_NO_ONE,
        *_NO_ONE,
    )


def _improved_under(
    keys: sp.csr_array, start: NDArray[np.int64], max_sweeps: int, precedence: Precedence
) -> NDArray[np.int64]:
    """Move variables between those that have to come before them and after them.

    The barriers between tiers stand in the order, too: they have no arcs and stay where they are.
    """
    d = keys.shape[0]
    wide = _with_barriers(keys, precedence)
    priority = np.concatenate([rank_of(start) + 1, np.zeros(precedence.n_barriers)])
    by = np.argsort(priority, kind="stable")
    after = sp.csr_array(
        (np.ones(len(precedence.after)), precedence.after, precedence.after_ptr), shape=wide.shape
    )
    after = after[by][:, by]
    # With no weights, algorithm 2 takes next the free variable that comes first in the order.
    nothing = sp.csr_array(wide.shape, dtype=np.int64)
    whole = by[
        _greedy_heap(_lists(nothing), after.indptr.astype(np.int64), after.indices.astype(np.int64))
    ]
    order = _insertion_search(
        whole, np.zeros(len(whole), dtype=np.int64), _lists(wide), _lists(sp.csc_array(wide)),
        max_sweeps, precedence.after_ptr, precedence.after, precedence.before_ptr,
        precedence.before,
    )  # fmt: skip
    return order[order < d]


def _with_barriers(keys: sp.csr_array, precedence: Precedence) -> sp.csr_array:
    """Return the keys with a row and a column for each barrier between two tiers."""
    size = keys.shape[0] + precedence.n_barriers
    indptr = np.concatenate([keys.indptr, np.full(precedence.n_barriers, keys.indptr[-1])])
    return sp.csr_array((keys.data, keys.indices, indptr), shape=(size, size))


# ------------------------------------------------------------------ whole-number keys


def _arc_keys(W: ArrayLike | sp.sparray, both_ends: bool = False) -> sp.csr_array:
    """Return a whole number for each arc, by source: its square, scaled and rounded up.

    The keys that come into a variable add up to a 64-bit integer; with ``both_ends`` also those
    that come in and go out together.
    """
    arcs = arcs_by_source(W)
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


class _Arcs(NamedTuple):
    """The arcs of each variable, compressed, with their keys."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    key: NDArray[np.int64]


def _lists(arcs: sp.csr_array | sp.csc_array) -> _Arcs:
    """Return arcs as lists of one type, so that one compiled function does for all."""
    return _Arcs(arcs.indptr.astype(np.int64), arcs.indices.astype(np.int64), arcs.data)


def _greedy_heap(
    arcs: _Arcs, after_ptr: NDArray[np.int64], after: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Take the variable with the least keys coming in, one after the other; return the order.

    One that has to come after others, which are in the lists ``after`` of these, waits for them.
    """
    d = len(arcs.indptr) - 1
    order, heap, place = np.empty(d, dtype=np.int64), np.arange(d), np.arange(d)
    key, waits = np.zeros(d, dtype=np.int64), np.zeros(d if len(after) else 0, dtype=np.int64)
    _take_by_heap(arcs, after_ptr, after, key, waits, heap, place, order)
    return order


@kernel(_nrt=False)
def _take_by_heap(arcs, after_ptr, after, key, waits, heap, place, order):  # type: ignore[no-untyped-def]
    """Fill in the order; keys and waits are zero, heap and place the variables as they come."""
    indptr, indices, arc_key = arcs
    d = len(indptr) - 1
    for e in range(len(indices)):
        key[indices[e]] += arc_key[e]
    for e in range(len(after)):
        if waits[after[e]] == 0:
            key[after[e]] += _WAITING
        waits[after[e]] += 1
    for at in range(1, d):
        sift(heap, place, key, at, at + 1)
    size = d
    for i in range(d):
        v = pop(heap, place, key, size)
        order[i] = v
        size -= 1
        for e in range(indptr[v], indptr[v + 1]):
            j = indices[e]
            if place[j] >= 0:
                key[j] -= arc_key[e]
                sift(heap, place, key, place[j], size)
        if len(after) > 0:
            for e in range(after_ptr[v], after_ptr[v + 1]):
                j = after[e]
                waits[j] -= 1
                if waits[j] == 0:
                    key[j] -= _WAITING
                    sift(heap, place, key, place[j], size)


@kernel
def _largest_arc(W):  # type: ignore[no-untyped-def]
    """Return the largest absolute weight off the diagonal; NaN where there is one."""
    largest = 0.0
    for i in range(len(W)):
        for j in range(len(W)):
            size = abs(np.float64(W[i, j]))
            if i != j and not size <= largest:
                if np.isnan(size):
                    return size
                largest = size
    return largest


@kernel
def _weights_into(W, largest):  # type: ignore[no-untyped-def]
    """Return the sum of squares that come into each variable, in units of the largest weight."""
    into = np.zeros(len(W))
    for i in range(len(W)):
        for j in range(len(W)):
            if i != j:
                scaled = W[i, j] / largest
                into[j] += scaled * scaled
    return into


@kernel(inside=True, _nrt=False)
def _key(weight, largest, root):  # type: ignore[no-untyped-def]
    """Return the whole number of one weight, as `_arc_keys` does of all."""
    if weight == 0:
        return np.int64(0)
    scaled = weight / largest * root
    return max(np.int64(math.ceil(scaled * scaled)), np.int64(1))


@kernel
def _greedy_full(W, largest, root):  # type: ignore[no-untyped-def]
    """Take the variable with the least keys coming in, one after the other; return the order."""
    d = len(W)
    score = np.zeros(d, dtype=np.int64)
    for i in range(d):
        for j in range(d):
            if i != j:
                score[j] += _key(np.float64(W[i, j]), largest, root)
    order = np.empty(d, dtype=np.int64)
    for place in range(d):
        v = 0
        for j in range(1, d):
            if score[j] < score[v]:
                v = j
        order[place] = v
        score[v] = _TAKEN
        for j in range(d):
            if score[j] != _TAKEN:
                score[j] -= _key(np.float64(W[v, j]), largest, root)
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
    place[by_first[_greedy_heap(_lists(arcs), *_NO_ONE)]] = np.arange(len(first))
    return place


@kernel
def _insertion_search(  # type: ignore[no-untyped-def]
    order, component, out, into, max_sweeps, after_ptr, after, before_ptr, before
):
    """Move single variables inside their component while that raises the kept weight, in place.

    None passes one that has to come before it or after it, in the lists of these names.

    The members of a component stand one after the other in the order, and stay so: each stretch
    is only ever sorted in itself, by labels that are compared with those of no other component.
    """
    out_ptr, out_idx, out_key = out
    in_ptr, in_idx, in_key = into
    d = len(order)
    label = np.empty(d, dtype=np.float64)  # sorted labels are a component's order
    keys = np.empty(d, dtype=np.float64)
    for i in range(d):
        label[order[i]] = i
    widest = 0
    for v in range(d):
        widest = max(widest, out_ptr[v + 1] - out_ptr[v] + in_ptr[v + 1] - in_ptr[v])
    at = np.empty(widest, dtype=np.float64)
    gain = np.empty(widest, dtype=np.int64)
    for _ in range(max_sweeps):
        moved = False
        for place in range(d):
            v = order[place]
            count = np.int64(0)
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
            sort_with(at, gain, count)
            here = label[v]
            split = 0
            while split < count and at[split] < here:
                split += 1
            least, most = -np.inf, np.inf  # labels that v has to stay between
            if len(after) > 0:
                for e in range(before_ptr[v], before_ptr[v + 1]):
                    least = max(least, label[before[e]])
                for e in range(after_ptr[v], after_ptr[v + 1]):
                    most = min(most, label[after[e]])
            best, best_low, best_high = 0, 0.0, 0.0
            total = 0
            for s in range(split - 1, -1, -1):  # to the left: v comes before what it passes
                if at[s] <= least:
                    break
                total += gain[s]
                last_of_node = s == 0 or at[s - 1] != at[s]
                if last_of_node and total > best:
                    best = total
                    best_high = at[s]
                    best_low = max(at[s - 1] if s > 0 else best_high - 2.0, least)
            total = 0
            for s in range(split, count):  # to the right: v comes after what it passes
                if at[s] >= most:
                    break
                total -= gain[s]
                last_of_node = s == count - 1 or at[s + 1] != at[s]
                if last_of_node and total > best:
                    best = total
                    best_low = at[s]
                    best_high = min(at[s + 1] if s < count - 1 else best_low + 2.0, most)
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
                for i in range(first, last):
                    keys[i] = label[order[i]]
                sort_with(keys[first:last], order[first:last], last - first)
                for i in range(first, last):
                    label[order[i]] = i - first
            first = last
        if not moved:
            break
    return order
