"""Search over orders by best insertion, on a score that is a sum over the variables.

Each variable has a cost that depends on its parents alone: what its residual costs, and a cost
for each parent. Given an order, the parents of a variable are grown and shrunk inside its
predecessors. A move takes one variable out of the order and puts it back where the sum of all
costs is least. That sum is known for every place at once, because the order without the variable
stays as it is: each other variable has one cost with it and one without it, and only those it is
correlated with differ. Moves are made while they lower the sum, so the search ends.

A variable with a share ``s`` of its variance left costs ``n log s``: the Gaussian likelihood with a
noise variance of its own for each variable, whatever the units.

Regressions are triangular factors, extended when a parent is added and rotated when one is taken
out. Parents come from lists of candidates; :mod:`bigdag.search.outside` looks for what they miss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bigdag.compiled import kernel
from bigdag.engine.limits import bounds, may, required
from bigdag.engine.regression import (
    COLLINEAR,
    GAIN,
    Desk,
    Problem,
    add,
    between,
    clear,
    cost,
    gain_of,
    grow_and_shrink,
    least_gain,
    new_desk,
    remove,
)
from bigdag.search.state import State, begin, coefficients, factor_size, prune

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Problem",
    "State",
    "Workspace",
    "begin",
    "coefficients",
    "descend",
    "fit",
    "new_workspace",
    "prune",
    "shake",
]

_MANY = 32  # parents from which on luck is not looked for
_NOBODY = np.empty(0, dtype=np.int64)


class Workspace(NamedTuple):
    """Room for the regression and the move of one variable; of use again for the same lists."""

    desk: Desk
    move: _Move


def new_workspace(problem: Problem, state: State) -> Workspace:
    """Return room for the most candidates and the most parents that a variable has."""
    width = int(np.diff(problem.indptr).max(initial=1))
    most = min(width, state.most)
    return Workspace(new_desk(width, most), _move(width, most, len(state.order)))


# ------------------------------------------------------------------ one variable given an order


@kernel(inside=True, _nrt=False)
def _refit(problem, desk, state, w, v, with_v):  # type: ignore[no-untyped-def]
    """Fit w on its predecessors, with or without v, from its present parents.

    Leaves the new ones on the desk; returns their number and the cost, penalties included.
    """
    m = problem.indptr[w + 1] - problem.indptr[w]
    names, rank = desk.names, state.rank
    for i in range(m):
        names[i] = problem.indices[problem.indptr[w] + i]
        desk.allowed[i] = with_v if names[i] == v else rank[names[i]] < rank[w]
    _apply_rules(problem, desk, w, m)
    clear(problem, desk, w, m)
    size, share = np.int64(0), 1.0
    for a in range(state.counts[w] + 1):
        p = v if a == state.counts[w] else np.int64(state.parents[state.begins[w] + a])
        if (p == v and not with_v) or size >= len(desk.y) - 1:
            continue
        for i in range(m):
            if names[i] == p:
                if desk.den[i] > COLLINEAR and not desk.member[i]:
                    share -= add(problem, desk, m, size, i)
                    size += 1
                break
    size, share = _add_needed(problem, desk, m, size, share)
    size, share = grow_and_shrink(problem, desk, m, size, share)
    return size, cost(problem, share) + problem.arc_cost * size


@kernel(inside=True, _nrt=False)
def _apply_rules(problem, desk, v, m):  # type: ignore[no-untyped-def]
    """Take what cannot be a parent of v off the first m candidates, and mark what has to be one."""
    if len(problem.rules.cause) == 0:
        return
    for i in range(m):
        desk.needed[i] = required(problem.rules, desk.names[i], v)
        desk.allowed[i] = desk.allowed[i] and may(problem.rules, desk.names[i], v)


@kernel(inside=True, _nrt=False)
def _add_needed(problem, desk, m, size, share):  # type: ignore[no-untyped-def]
    """Make parents of what has to be one; return their number and the share left."""
    if len(problem.rules.needed) > 0:
        for i in range(m):
            inside = desk.needed[i] and desk.allowed[i] and not desk.member[i]
            if inside and size < len(desk.y) - 1 and desk.den[i] > COLLINEAR:
                share -= add(problem, desk, m, size, i)
                size += 1
    return size, share


@kernel(inside=True, _nrt=False)
def _factor(problem, desk, state, w):  # type: ignore[no-untyped-def]
    """Return where the factor of the parents of w begins; it is made where it is not known.

    There are the share that is left of w, the trace of the inverse of the parents' correlations,
    the coefficients of w, and the inverse of their lower triangular factor, row by row.
    """
    if state.factor_at[w] >= 0:
        return state.factor_at[w]
    p, names = state.counts[w], state.begins[w]
    if state.factors_used[0] + factor_size(p) > len(state.factors):
        state.factors_used[0] = 0
        for v in range(len(state.factor_at)):
            state.factor_at[v] = -1
    begin = state.factors_used[0]
    state.factors_used[0] += factor_size(p)
    state.factor_at[w] = begin
    L, out, b = desk.R, state.factors, begin + 2
    for a in range(p):
        u = np.int64(state.parents[names + a])
        own = 1.0
        for c in range(a):
            entry = between(problem, np.int64(state.parents[names + c]), u)
            for e in range(c):
                entry -= L[c, e] * L[a, e]
            entry /= L[c, c]
            L[a, c] = entry
            own -= entry * entry
        L[a, a] = np.sqrt(max(own, 1e-300))
        desk.num[a] = between(problem, u, w)
    share, trace, row = 1.0, 0.0, b + p
    for a in range(p):
        out[b + a] = 0.0
    for a in range(p):  # row a of the inverse, from the rows before it
        for c in range(a):
            out[row + c] = 0.0
        before = b + p
        for e in range(a):
            factor = L[a, e]
            for c in range(e + 1):
                out[row + c] -= factor * out[before + c]
            before += e + 1
        root = L[a, a]
        out[row + a] = 1.0
        top = 0.0
        for c in range(a + 1):
            entry = out[row + c] / root
            out[row + c] = entry
            trace += entry * entry
            top += entry * desk.num[c]
        for c in range(a + 1):
            out[b + c] += out[row + c] * top
        share -= top * top
        row += a + 1
    state.factors[begin], state.factors[begin + 1] = share, trace
    return begin


@kernel(inline="always")
def _gain_through(problem, desk, state, w, v, least):  # type: ignore[no-untyped-def]
    """Return what w gains by v as one more parent.

    Where v explains so little that it cannot be worth its cost, by ``least_gain``, minus infinity.
    """
    begin = state.factor_at[w]
    if begin < 0:
        begin = _factor(problem, desk, state, w)
    p, names, row = state.counts[w], state.begins[w], desk.b
    share, trace = state.factors[begin], state.factors[begin + 1]
    cross, square = between(problem, v, w), 0.0
    for a in range(p):
        r = between(problem, v, np.int64(state.parents[names + a]))
        row[a] = r
        cross -= state.factors[begin + 2 + a] * r
        square += r * r
    gain = -np.inf
    if cross * cross >= 0.999 * least * share * (1.0 - square * trace):
        own, at = 1.0, begin + 2 + p
        for a in range(p):
            entry = 0.0
            for c in range(a + 1):
                entry += state.factors[at + c] * row[c]
            own -= entry * entry
            at += a + 1
        gain = gain_of(problem, share, cross, own)
    return gain


@kernel(inside=True, _nrt=False)
def _find_gainers(problem, desk, state, move, v, first, here):  # type: ignore[no-untyped-def]
    """Mark by a count of 0 who of the candidates first..here of v would gain by it, others by -1.

    One call for all of them: handing over all these arrays takes longer than one of the tests.
    """
    least, free = least_gain(problem), len(problem.rules.cause) == 0
    for i in range(first, here):
        w = move.names[i]
        move.change[i], move.counts[i] = 0.0, -1
        if free or may(problem.rules, v, w):
            gain = _gain_through(problem, desk, state, w, v, least)
            if gain > GAIN:
                move.counts[i] = 0


# ------------------------------------------------------------------ one variable in the order


@kernel(inside=True, _nrt=False)
def _by_rank(problem, state, move, v):  # type: ignore[no-untyped-def]
    """Lay out the candidates of v by rank, in place; return how many there are."""
    first = problem.indptr[v]
    m = problem.indptr[v + 1] - first
    names, places = move.names, move.places
    if 8 * m > len(state.order):  # most of them: by going through the order
        for i in range(m):
            move.listed[state.rank[problem.indices[first + i]]] = True
        at = 0
        for place in range(len(state.order)):
            if move.listed[place]:
                move.listed[place] = False
                names[at], places[at] = state.order[place], place
                at += 1
        return m
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


@kernel(inside=True, _nrt=False)
def _walk(problem, desk, state, move, v, m, stop, worst):  # type: ignore[no-untyped-def]
    """Take v from its place to behind its first ``stop`` candidates by rank, past one by one.

    ``move.own`` gets its cost at each place passed, always from the parents of the place before:
    what took many steps to find is not lost. On its way to the causes it ends early where it costs
    more than ``worst``. Leaves the last parents on the desk; returns their number, and the place.
    """
    own, places = move.own, move.places
    here = np.int64(0)
    for i in range(m):
        desk.names[i] = move.names[i]
        desk.allowed[i] = places[i] < state.rank[v]
        here += desk.allowed[i]
    _apply_rules(problem, desk, v, m)
    clear(problem, desk, v, m)
    size, share = np.int64(0), 1.0
    for a in range(state.counts[v]):
        i, above, place = np.int64(0), m, state.rank[state.parents[state.begins[v] + a]]  # type: ignore[assignment]
        while i < above:  # where among the places it is
            middle = (i + above) // 2
            if places[middle] < place:
                i = middle + 1
            else:
                above = middle
        if desk.den[i] > COLLINEAR:
            share -= add(problem, desk, m, size, i)
            size += 1
    size, share = _add_needed(problem, desk, m, size, share)
    size, share = grow_and_shrink(problem, desk, m, size, share)
    now, least = cost(problem, share) + problem.arc_cost * size, least_gain(problem)
    own[here] = now
    for i in range(here - 1, stop - 1, -1):
        if now > worst:
            return size, np.int64(i + 1)
        desk.allowed[i] = False
        if desk.member[i]:
            t = np.int64(0)
            while desk.chosen[t] != i:
                t += 1
            share += remove(desk, m, size, t)
            size, share = grow_and_shrink(problem, desk, m, size - 1, share)
            now = cost(problem, share) + problem.arc_cost * size
        own[i] = now
    for i in range(here, stop):
        desk.allowed[i] = may(problem.rules, desk.names[i], v)
        if (
            desk.allowed[i]
            and size < len(desk.y) - 1
            and desk.num[i] * desk.num[i] > least * share * desk.den[i]
        ):
            size, share = grow_and_shrink(problem, desk, m, size, share)
            now = cost(problem, share) + problem.arc_cost * size
        own[i + 1] = now
    return size, np.int64(stop)


class _Move(NamedTuple):
    """What one variable's places cost: its own cost, and the others' changes when it passes."""

    names: Any  # its candidates by rank
    places: Any  # their ranks
    own: Any
    change: Any
    fresh: Any  # a candidate's parents, once it is passed
    counts: Any  # their number; -1 where nothing changes
    listed: Any  # False throughout, by place in the order


def _move(width: int, most: int, d: int) -> _Move:
    return _Move(
        np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int64),
        np.empty(width + 1), np.empty(width), np.empty((width, most), dtype=np.int32),
        np.empty(width, dtype=np.int64), np.zeros(d, dtype=np.bool_),
    )  # fmt: skip


@kernel(inline="always")
def _look(problem, desk, state, move, v, thorough):  # type: ignore[no-untyped-def]
    """Fill in the move of v; return its candidates, its first, last and present place.

    Places are numbers of candidates that precede it. A look that is not thorough leaves out the
    places that are no better where nobody gains by fewer variables to choose from. That holds for
    the best parents, but growing and shrinking may find better ones among fewer by luck. A thorough
    one does so at variables with more than 32 parents, whose regressions take long.
    """
    m = _by_rank(problem, state, move, v)
    low, high = bounds(problem.rules, state.order, state.rank, v)
    first, last = np.int64(0), m
    while first < m and move.places[first] <= low:
        first += 1
    while last > 0 and move.places[last - 1] >= high:
        last -= 1
    here = np.int64(0)
    while here < m and move.places[here] < state.rank[v]:
        here += 1
    hope = 0.0  # what the others may gain at the most, when v comes before them
    _find_gainers(problem, desk, state, move, v, first, here)
    for i in range(first, here):
        if move.counts[i] == 0:
            _note_change(problem, desk, state, move, i, v, np.bool_(True))
            hope -= min(move.change[i], 0.0)
    if hope > 0.0 or thorough:
        worst = np.inf if thorough else state.costs[v] + hope
        _, first = _walk(problem, desk, state, move, v, m, first, worst)
    else:
        first = here
    _walk(problem, desk, state, move, v, m, last, np.inf)
    best = np.inf  # the least that v itself costs further on, by place
    for i in range(last - 1, here - 1, -1):
        best = min(best, move.own[i + 1])
        move.change[i] = best
    total = -state.costs[v]
    for i in range(here, last):
        w = move.names[i]
        if move.change[i] + total >= -GAIN and (not thorough or state.counts[w] > _MANY):
            return m, first, i, here  # others only lose when v comes after them
        move.change[i], move.counts[i] = 0.0, -1
        touched = False
        for a in range(state.counts[w]):
            touched |= state.parents[state.begins[w] + a] == v
        if touched:
            _note_change(problem, desk, state, move, i, v, np.bool_(False))
        total += max(move.change[i], 0.0)
    return m, first, last, here


@kernel(inside=True, _nrt=False)
def _note_change(problem, desk, state, move, i, v, with_v):  # type: ignore[no-untyped-def]
    """Fill in what changes for candidate number i of v, when v passes it."""
    w = move.names[i]
    size, total = _refit(problem, desk, state, w, v, with_v)
    move.change[i], move.counts[i] = total - state.costs[w], size
    for a in range(size):
        move.fresh[i, a] = desk.names[desk.chosen[a]]


@kernel(inside=True, _nrt=False)
def _best_place(state, move, v, first, last, here):  # type: ignore[no-untyped-def]
    """Return before which candidate v is best put, or -1 where no place is better than its own.

    Of places that differ by rounding the first one looked at is taken, whatever the units and the
    order of the columns.
    """
    best, place = 0.0, np.int64(-1)
    if move.own[here] - state.costs[v] < best - GAIN:
        best, place = move.own[here] - state.costs[v], here
    total = -state.costs[v]
    for i in range(here - 1, first - 1, -1):
        total += move.change[i]
        if move.own[i] + total < best - GAIN:
            best, place = move.own[i] + total, i  # type: ignore[assignment]
    total = -state.costs[v]
    for i in range(here, last):
        total += move.change[i]
        if move.own[i + 1] + total < best - GAIN:
            best, place = move.own[i + 1] + total, i + 1  # type: ignore[assignment]
    return place


@kernel(inside=True, _nrt=False)
def _put(problem, desk, state, move, v, size, here, place):  # type: ignore[no-untyped-def]
    """Put v before its candidate number ``place``, with all that follows from it.

    It has been walked there, and its ``size`` parents are on the desk.
    """
    order, rank, dirty = state.order, state.rank, state.dirty
    indptr, indices = problem.indptr, problem.indices
    state.counts[v], state.costs[v] = size, move.own[place]
    state.factor_at[v] = -1
    for a in range(size):
        state.parents[state.begins[v] + a] = desk.names[desk.chosen[a]]
    for e in range(indptr[v], indptr[v + 1]):
        dirty[indices[e]] = True
    for i in range(min(place, here), max(place, here)):
        w = move.names[i]
        if move.counts[i] < 0:
            continue
        state.counts[w], state.factor_at[w] = move.counts[i], -1
        state.costs[w] += move.change[i]
        for a in range(move.counts[i]):
            state.parents[state.begins[w] + a] = move.fresh[i, a]
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


def fit(problem: Problem, state: State, variables: NDArray[np.int64]) -> None:
    """Grow and shrink the parents of the given variables in the present order."""
    _fit_and_descend(problem, state, *new_workspace(problem, state), variables, 0, False)


def descend(
    problem: Problem,
    state: State,
    looks: int,
    thorough: bool,
    workspace: Workspace | None = None,
) -> tuple[bool, int]:
    """Make best insertions until none is left; look at ``looks`` variables at the most.

    Looks that are not thorough take less time, and may miss a move, see ``_look``.
    Returns whether all is done, and how many variables moved. A next call goes on where this one
    stopped, so that the result does not depend on how the work is cut.
    """
    workspace = workspace or new_workspace(problem, state)
    done, moved = _fit_and_descend(problem, state, *workspace, _NOBODY, looks, thorough)
    return done, moved


@kernel(_nrt=False)
def _fit_and_descend(problem, state, desk, move, variables, looks, thorough):  # type: ignore[no-untyped-def]
    """Fit some variables anew, then make insertions.

    One kernel for both, as nearly all of the first is in the second, too, and would be compiled
    twice.
    """
    for i in range(len(variables)):
        v = variables[i]
        size, state.costs[v] = _refit(problem, desk, state, v, np.int64(-1), np.bool_(False))
        state.counts[v], state.factor_at[v] = size, -1
        for a in range(size):
            state.parents[state.begins[v] + a] = desk.names[desk.chosen[a]]
    if looks == 0:
        return False, 0
    d = len(state.order)
    queue, cursor, dirty = state.queue, state.cursor, state.dirty
    moved = 0
    while True:
        while cursor[0] < d:
            v = queue[cursor[0]]
            if dirty[v] and len(problem.rules.moves) > 0 and not problem.rules.moves[v]:
                dirty[v] = False
            if dirty[v]:
                if looks == 0:
                    return False, moved
                looks -= 1
                dirty[v] = False
                m, first, last, here = _look(problem, desk, state, move, v, thorough)
                place = _best_place(state, move, v, first, last, here)
                if place >= 0:
                    size, _ = _walk(problem, desk, state, move, v, m, place, np.inf)
                    _put(problem, desk, state, move, v, size, here, place)
                    dirty[v] = False
                    moved += 1
            cursor[0] += 1
        cursor[0] = 0
        left = 0
        for i in range(d):
            queue[i] = state.order[i]
            left += dirty[i] and (len(problem.rules.moves) == 0 or problem.rules.moves[i])
        if left == 0:
            return True, moved


def shake(
    problem: Problem, state: State, places: NDArray[np.int64], shares: NDArray[np.float64]
) -> None:
    """Move the variables at some places of the order elsewhere among their candidates.

    ``shares`` in [0, 1) say where. The sum may rise: that is the point.
    """
    _shake(problem, state, *new_workspace(problem, state), places, shares)


@kernel(_nrt=False)
def _shake(problem, state, desk, move, places, shares):  # type: ignore[no-untyped-def]
    for e in range(len(places)):
        v, share = state.order[places[e]], shares[e]
        m, first, last, here = _look(problem, desk, state, move, v, True)
        place = first + int(share * (last - first + 1))
        if place != here:
            size, _ = _walk(problem, desk, state, move, v, m, place, np.inf)
            _put(problem, desk, state, move, v, size, here, place)
            state.dirty[v] = True
    for i in range(len(state.order)):
        state.queue[i] = state.order[i]
    state.cursor[0] = 0
