"""Search over orders by best insertion, on a score that is a sum over the variables.

Each variable has a cost that depends on its parents alone: what its residual costs, and a penalty
for each parent. Given an order, the parents of a variable are grown and shrunk inside its
predecessors. A move takes one variable out of the order and puts it back where the sum of all
costs is least. That sum is known for every place at once, because the order without the variable
stays as it is: each other variable has one cost with it and one without it, and only those it is
correlated with differ. Moves are made while they lower the sum, so the search ends.

A variable with a share ``s`` of its variance left costs ``n log s``: the Gaussian likelihood with a
noise variance of its own for each variable, whatever the units.

Regressions are triangular factors, extended when a parent is added and rotated when one is taken
out. Parents come from lists of candidates; :func:`outsiders` looks for what the lists have missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bigdag.compiled import kernel
from bigdag.engine.gram import correlation
from bigdag.engine.regression import (
    COLLINEAR,
    GAIN,
    INSIDE,
    Problem,
    add,
    clear,
    cost,
    gain_of,
    new_desk,
    remove,
    settle,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Problem",
    "State",
    "begin",
    "coefficients",
    "descend",
    "fit",
    "outsiders",
    "prune",
    "shake",
]


class State(NamedTuple):
    """An order, the parents chosen in it, and what is still to be looked at; changed in place.

    Attributes
    ----------
    order, rank : ndarray of shape (d,)
        Causes first, and its inverse.
    parents : ndarray of shape (d, most)
        Each variable's parents, in its first ``counts`` entries.
    counts, costs : ndarray of shape (d,)
        Their number, and what the variable costs with them.
    dirty : ndarray of bool, shape (d,)
        The variables whose surroundings have changed since they were looked at.
    queue, cursor : ndarray
        The variables in the order of the present round, and the place in it.
    """

    order: NDArray[np.int64]
    rank: NDArray[np.int64]
    parents: NDArray[np.int32]
    counts: NDArray[np.int64]
    costs: NDArray[np.float64]
    dirty: NDArray[np.bool_]
    queue: NDArray[np.int64]
    cursor: NDArray[np.int64]

    def copy(self) -> State:
        """Return a copy that shares nothing."""
        return State._make(part.copy() for part in self)

    def total(self) -> float:
        """Return the score: the sum of all costs."""
        return float(self.costs.sum())


def begin(order: NDArray[np.integer], most: int) -> State:
    """Return a state with an order, no parents, and everything to be looked at."""
    own: NDArray[np.int64] = np.array(order, dtype=np.int64)
    d = len(own)
    rank = np.empty(d, dtype=np.int64)
    rank[own] = np.arange(d)
    return State(
        own, rank, np.zeros((d, most), dtype=np.int32), np.zeros(d, dtype=np.int64),
        np.zeros(d), np.ones(d, dtype=np.bool_), own.copy(), np.zeros(1, dtype=np.int64),
    )  # fmt: skip


@kernel(**INSIDE)
def _width(problem):  # type: ignore[no-untyped-def]
    width = 1
    for v in range(len(problem.indptr) - 1):
        width = max(width, problem.indptr[v + 1] - problem.indptr[v])
    return width


# ------------------------------------------------------------------ one variable given an order


@kernel(**INSIDE)
def _refit(problem, desk, state, w, v, with_v):  # type: ignore[no-untyped-def]
    """Fit w on its predecessors, with or without v, from its present parents.

    Leaves the new ones on the desk; returns their number and the cost, penalties included.
    """
    m = problem.indptr[w + 1] - problem.indptr[w]
    names, rank = desk.names, state.rank
    for i in range(m):
        names[i] = problem.indices[problem.indptr[w] + i]
        desk.allowed[i] = with_v if names[i] == v else rank[names[i]] < rank[w]
    clear(problem, desk, w, m)
    size, share = np.int64(0), 1.0
    for a in range(state.counts[w] + 1):
        p = v if a == state.counts[w] else np.int64(state.parents[w, a])
        if (p == v and not with_v) or size >= len(desk.y) - 1:
            continue
        for i in range(m):
            if names[i] == p:
                if desk.den[i] > COLLINEAR and not desk.member[i]:
                    share -= add(problem, desk, m, size, i)
                    size += 1
                break
    size, share = settle(problem, desk, m, size, share)
    return size, cost(problem, share) + problem.penalty * size


@kernel(_nrt=False)
def _gain_through(problem, desk, state, w, v):  # type: ignore[no-untyped-def]
    """Return what w gains by v as one more parent; a plain Cholesky factorisation."""
    R, first, second = desk.R, desk.b, desk.inverse
    parents = state.parents[w]
    share, own, cross = 1.0, 1.0, correlation(problem.source, problem.held, v, w)
    for a in range(state.counts[w]):
        p = np.int64(parents[a])
        total = 1.0
        x, z = (
            correlation(problem.source, problem.held, p, v),
            correlation(problem.source, problem.held, p, w),
        )
        for c in range(a):
            entry = correlation(problem.source, problem.held, np.int64(parents[c]), p)
            for e in range(c):
                entry -= R[e, c] * R[e, a]
            entry /= R[c, c]
            R[c, a] = entry
            total -= entry * entry
            x -= entry * first[c]
            z -= entry * second[c]
        R[a, a] = np.sqrt(max(total, 1e-300))
        first[a], second[a] = x / R[a, a], z / R[a, a]
        own -= first[a] * first[a]
        share -= second[a] * second[a]
        cross -= first[a] * second[a]
    return gain_of(problem, share, cross, own)


# ------------------------------------------------------------------ one variable in the order


@kernel(**INSIDE)
def _by_rank(problem, state, move, v):  # type: ignore[no-untyped-def]
    """Lay out the candidates of v by rank, in place; return how many there are."""
    first = problem.indptr[v]
    m = problem.indptr[v + 1] - first
    names, places = move.names, move.places
    for i in range(m):
        places[i] = state.rank[problem.indices[first + i]]
    gap = np.int64(1)  # a shell sort: short, and quick to compile
    while gap < m // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, m):
            place, at = places[i], i
            while at >= gap and places[at - gap] > place:
                places[at] = places[at - gap]
                at -= gap  # type: ignore[assignment]
            places[at] = place
        gap //= 3
    for i in range(m):
        names[i] = state.order[places[i]]
    return m


@kernel(**INSIDE)
def _walk(problem, desk, state, move, v, m, stop):  # type: ignore[no-untyped-def]
    """Take v from its place to behind its first ``stop`` candidates by rank, past one by one.

    ``move.own`` gets its cost at each place passed, always from the parents of the place before:
    what took many steps to find is not lost. Leaves the last parents on the desk; returns their
    number, and how many candidates precede v.
    """
    own, places = move.own, move.places
    here = np.int64(0)
    for i in range(m):
        desk.names[i] = move.names[i]
        desk.allowed[i] = places[i] < state.rank[v]
        here += desk.allowed[i]
    clear(problem, desk, v, m)
    size, share = np.int64(0), 1.0
    for a in range(state.counts[v]):
        i, above, place = np.int64(0), m, state.rank[state.parents[v, a]]  # type: ignore[assignment]
        while i < above:  # where among the places it is
            middle = (i + above) // 2
            if places[middle] < place:
                i = middle + 1
            else:
                above = middle
        if desk.den[i] > COLLINEAR:
            share -= add(problem, desk, m, size, i)
            size += 1
    size, share = settle(problem, desk, m, size, share)
    own[here] = cost(problem, share) + problem.penalty * size
    for i in range(here - 1, stop - 1, -1):
        desk.allowed[i] = False
        if desk.member[i]:
            t = np.int64(0)
            while desk.chosen[t] != i:
                t += 1
            share += remove(desk, m, size, t)
            size, share = settle(problem, desk, m, size - 1, share)
        own[i] = cost(problem, share) + problem.penalty * size
    for i in range(here, stop):
        desk.allowed[i] = True
        if size < len(desk.y) - 1 and gain_of(problem, share, desk.num[i], desk.den[i]) > GAIN:
            size, share = settle(problem, desk, m, size, share)
        own[i + 1] = cost(problem, share) + problem.penalty * size
    return size, here


class _Move(NamedTuple):
    """What one variable's places cost: its own cost, and the others' changes when it passes."""

    names: Any  # its candidates by rank
    places: Any  # their ranks
    own: Any
    change: Any
    fresh: Any  # a candidate's parents, once it is passed
    counts: Any  # their number; -1 where nothing changes


@kernel
def _move(width, most):  # type: ignore[no-untyped-def]
    return _Move(
        np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int64),
        np.empty(width + 1), np.empty(width), np.empty((width, most), dtype=np.int32),
        np.empty(width, dtype=np.int64),
    )  # fmt: skip


@kernel(inline="always")
def _look(problem, desk, state, move, v):  # type: ignore[no-untyped-def]
    """Fill in the move of v; return how many candidates it has and how many precede it."""
    m = _by_rank(problem, state, move, v)
    _walk(problem, desk, state, move, v, m, np.int64(0))
    _, here = _walk(problem, desk, state, move, v, m, m)
    for i in range(m):
        w = move.names[i]
        move.change[i], move.counts[i] = 0.0, -1
        if i < here:
            touched = _gain_through(problem, desk, state, w, v) > GAIN
        else:
            touched = False
            for a in range(state.counts[w]):
                touched |= state.parents[w, a] == v
        if touched:
            size, total = _refit(problem, desk, state, w, v, i < here)
            move.change[i], move.counts[i] = total - state.costs[w], size
            for a in range(size):
                move.fresh[i, a] = desk.names[desk.chosen[a]]
    return m, here


@kernel(**INSIDE)
def _best_place(state, move, v, m, here):  # type: ignore[no-untyped-def]
    """Return before which candidate v is best put, or -1 where no place is better than its own.

    Of places that differ by rounding the first one looked at is taken, whatever the units and the
    order of the columns.
    """
    best, place = 0.0, np.int64(-1)
    if move.own[here] - state.costs[v] < best - GAIN:
        best, place = move.own[here] - state.costs[v], here
    total = -state.costs[v]
    for i in range(here - 1, -1, -1):
        total += move.change[i]
        if move.own[i] + total < best - GAIN:
            best, place = move.own[i] + total, i  # type: ignore[assignment]
    total = -state.costs[v]
    for i in range(here, m):
        total += move.change[i]
        if move.own[i + 1] + total < best - GAIN:
            best, place = move.own[i + 1] + total, i + 1  # type: ignore[assignment]
    return place


@kernel(**INSIDE)
def _put(problem, desk, state, move, v, size, here, place):  # type: ignore[no-untyped-def]
    """Put v before its candidate number ``place``, with all that follows from it.

    It has been walked there, and its ``size`` parents are on the desk.
    """
    order, rank, dirty = state.order, state.rank, state.dirty
    indptr, indices = problem.indptr, problem.indices
    state.counts[v], state.costs[v] = size, move.own[place]
    for a in range(size):
        state.parents[v, a] = desk.names[desk.chosen[a]]
    for e in range(indptr[v], indptr[v + 1]):
        dirty[indices[e]] = True
    for i in range(min(place, here), max(place, here)):
        w = move.names[i]
        if move.counts[i] < 0:
            continue
        state.counts[w] = move.counts[i]
        state.costs[w] += move.change[i]
        for a in range(move.counts[i]):
            state.parents[w, a] = move.fresh[i, a]
        for e in range(indptr[w], indptr[w + 1]):
            dirty[indices[e]] = True
    old = new = rank[v]
    if place < here:
        new = rank[move.names[place]]
        for p in range(old, new, -1):
            order[p] = order[p - 1]
            rank[order[p]] = p
    elif place > here:
        new = rank[move.names[place - 1]]
        for p in range(old, new):
            order[p] = order[p + 1]
            rank[order[p]] = p
    order[new], rank[v] = v, new


# ------------------------------------------------------------------ the search


@kernel
def fit(problem, state, variables):  # type: ignore[no-untyped-def]
    """Grow and shrink the parents of the given variables in the present order."""
    most = state.parents.shape[1]
    desk = new_desk(_width(problem), most)
    for v in variables:
        size, state.costs[v] = _refit(problem, desk, state, v, np.int64(-1), np.bool_(False))
        state.counts[v] = size
        for a in range(size):
            state.parents[v, a] = desk.names[desk.chosen[a]]


@kernel
def descend(problem, state, looks):  # type: ignore[no-untyped-def]
    """Make best insertions until none is left; look at ``looks`` variables at the most.

    Returns whether all is done, and how many variables moved. A next call goes on where this one
    stopped, so that the result does not depend on how the work is cut.
    """
    d, most = state.parents.shape
    width = _width(problem)
    desk, move = new_desk(width, most), _move(width, most)
    queue, cursor, dirty = state.queue, state.cursor, state.dirty
    moved = 0
    while True:
        while cursor[0] < d:
            v = queue[cursor[0]]
            if dirty[v]:
                if looks == 0:
                    return False, moved
                looks -= 1
                dirty[v] = False
                m, here = _look(problem, desk, state, move, v)
                place = _best_place(state, move, v, m, here)
                if place >= 0:
                    size, _ = _walk(problem, desk, state, move, v, m, place)
                    _put(problem, desk, state, move, v, size, here, place)
                    dirty[v] = False
                    moved += 1
            cursor[0] += 1
        cursor[0] = 0
        left = 0
        for i in range(d):
            queue[i] = state.order[i]
            left += dirty[i]
        if left == 0:
            return True, moved


@kernel
def shake(problem, state, places, shares):  # type: ignore[no-untyped-def]
    """Move the variables at some places of the order elsewhere among their candidates.

    ``shares`` in [0, 1) say where. The sum may rise: that is the point.
    """
    most = state.parents.shape[1]
    width = _width(problem)
    desk, move = new_desk(width, most), _move(width, most)
    for e in range(len(places)):
        v, share = state.order[places[e]], shares[e]
        m, here = _look(problem, desk, state, move, v)
        place = int(share * (m + 1))
        if place != here:
            size, _ = _walk(problem, desk, state, move, v, m, place)
            _put(problem, desk, state, move, v, size, here, place)
            state.dirty[v] = True
    for i in range(len(state.order)):
        state.queue[i] = state.order[i]
    state.cursor[0] = 0


@kernel
def outsiders(problem, state, keep, first, last):  # type: ignore[no-untyped-def]
    """Return pairs (u, v), v in first..last: u precedes v, is no candidate of it, and would help.

    At most the ``keep`` best of each v, the best first, as the rows of an array.
    """
    d, most = state.parents.shape
    desk = new_desk(d, most)
    names, allowed = desk.names, desk.allowed
    gains = np.empty(d)
    pairs = np.empty((keep * (last - first), 2), dtype=np.int64)
    total = 0
    for v in range(first, last):
        count = state.counts[v]
        for u in range(d):
            allowed[u] = state.rank[u] < state.rank[v]
        for e in range(problem.indptr[v], problem.indptr[v + 1]):
            allowed[problem.indices[e]] = False
        for a in range(count):
            names[a] = state.parents[v, a]
        m = count
        for u in range(d):
            if allowed[u]:
                names[m] = u
                m += 1
        if count == most:
            continue
        clear(problem, desk, v, m)
        share = 1.0
        for a in range(count):
            share -= add(problem, desk, m, a, a)
        for i in range(count, m):
            gains[i] = gain_of(problem, share, desk.num[i], desk.den[i])
        for _ in range(keep):
            best, which = GAIN, np.int64(-1)
            for i in range(count, m):
                if gains[i] > best:
                    best, which = gains[i], i  # type: ignore[assignment]
            if which < 0:
                break
            gains[which] = -np.inf
            pairs[total, 0], pairs[total, 1] = names[which], v
            total += 1
    return pairs[:total]


# ------------------------------------------------------------------ from parents to weights


@kernel
def coefficients(problem, state, values, first, last):  # type: ignore[no-untyped-def]
    """Write the least-squares coefficients of variables first..last, on the correlation scale."""
    most = state.parents.shape[1]
    desk = new_desk(most + 1, most)
    for v in range(first, last):
        size = state.counts[v]
        for a in range(size):
            desk.names[a] = state.parents[v, a]
        clear(problem, desk, v, size)
        for a in range(size):
            values[v, a] = 0.0
        kept = np.int64(0)
        for a in range(size):
            if desk.den[a] > COLLINEAR:
                add(problem, desk, size, kept, a)
                kept += 1
        for c in range(kept):
            values[v, desk.chosen[c]] = desk.b[c]


@kernel
def prune(problem, state, first, last):  # type: ignore[no-untyped-def]
    """Shrink the parents of variables first..last to those that are worth their penalty."""
    most = state.parents.shape[1]
    desk = new_desk(most + 1, most)
    for i in range(most + 1):
        desk.allowed[i] = False
    for v in range(first, last):
        m = state.counts[v]
        for a in range(m):
            desk.names[a] = state.parents[v, a]
        clear(problem, desk, v, m)
        size, share = np.int64(0), 1.0
        for a in range(m):
            if desk.den[a] > COLLINEAR:
                share -= add(problem, desk, m, size, a)
                size += 1
        size, share = settle(problem, desk, m, size, share)
        for a in range(size):
            state.parents[v, a] = desk.names[desk.chosen[a]]
        state.counts[v] = size
        state.costs[v] = cost(problem, share) + problem.penalty * size
