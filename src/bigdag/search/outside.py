"""What a search by the extended BIC has missed outside of its candidates.

A variable u would help v where ``x² > t (1 - R²)``: x is the correlation of u with the residual of
v, R² the share of u that the parents of v explain, and t follows from the cost of an arc. Variables
that no parent of v is correlated with have a small R², so that those with a large x are all of
them; half of a product in float32 finds these, in the sequence of the order. The others are in the
lists of the parents, and are few. What both find is weighed exactly. A variable without parents is
its own residual, so that all that would help it is in its list already.

A next look computes only what has changed since: variables with other parents, and pairs whose
sequence in the order is another one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bigdag.compiled import kernel
from bigdag.engine.exceeding import Residuals, exceeding
from bigdag.engine.limits import may
from bigdag.engine.regression import COLLINEAR, GAIN, add, clear, gain_of, new_desk
from bigdag.search import insertion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram
    from bigdag.engine.limits import Limits

__all__ = ["Outside", "moved_between", "outsiders"]

_KEEP = 10  # new candidates of a variable at a time
_EXPLAINED = 0.75  # of an R²: where the bound is larger, all products of a variable are computed
_CHUNK = 64  # variables whose pairs a thread weighs at a time


class _Seen(NamedTuple):
    """The state at the last look: what need not be looked at again."""

    order: NDArray[np.int64]
    keys: NDArray[np.int64]  # of all arcs, sorted
    again: NDArray[np.bool_]  # variables that had more outside of their candidates than were taken


class Outside:
    """Looks outside of the candidates of a search, the first time everywhere.

    Parameters
    ----------
    gram : Gram
        The second moments; it has the variables as rows.
    indptr, indices : ndarray
        Each variable's correlated ones: all whose correlation exceeds ``limit``, but in lists that
        were cut.
    limit : float
        The least correlation in the lists.
    cut : ndarray of bool, shape (d,)
        The variables whose lists need not hold all of them.
    limits : Limits, optional
        Which arcs are possible; the lists then need only hold what may be a cause.
    """

    def __init__(
        self,
        gram: Gram,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        limit: float,
        cut: NDArray[np.bool_],
        limits: Limits | None = None,
    ) -> None:
        self.gram, self.indptr, self.indices = gram, indptr, indices
        self.limits = limits
        self._cause = np.ones(gram.d, dtype=np.bool_) if limits is None else limits.cause
        self._largest = np.where(cut, 1.0, limit)  # correlation that a list may miss
        self._seen: _Seen | None = None

    def look(
        self, problem: insertion.Problem, state: insertion.State, stop: Callable[[], bool]
    ) -> NDArray[np.int64] | None:
        """Return pairs (u, v): u comes before v, is no candidate of it, and would help it.

        Parameters
        ----------
        problem : Problem
            With the present candidates.
        state : State
            The present order and parents.
        stop : callable
            True ends the work.

        Returns
        -------
        ndarray of shape (m, 2), or None
            At most ten of each v, those that help most; None where a stop came first.
        """
        gram, d = self.gram, self.gram.d
        keys = np.sort(_keys(state))
        changed, moved = np.ones(d, dtype=np.bool_), np.zeros(d, dtype=np.bool_)
        if self._seen is not None:
            other = np.setxor1d(keys, self._seen.keys, assume_unique=True) // d
            moved = moved_between(self._seen.order, state.order)
            changed = self._seen.again | moved
            changed[other] = True
        full = state.counts >= state.most  # have all the parents that they may have
        bound, coefficients = self._bounds(problem, state)
        hard = (bound > _EXPLAINED) & ~full
        easy = ~hard & ~full & (gram.sd > 0)
        pairs = []
        threshold = -np.expm1(-(problem.arc_cost + GAIN) / problem.n)
        limits = np.sqrt(threshold * (1 - np.minimum(bound, _EXPLAINED)))
        alone = (state.counts == 0) & (self._largest**2 <= threshold)  # see their own lists
        for rows, columns in ((changed, None), (~changed, moved)):
            pairs.append(self._near(state, rows & easy, alone, columns))
            chosen = state.order[(rows & easy & ~alone)[state.order]]
            wanted = self._cause if columns is None else self._cause & columns
            others = state.order[wanted[state.order]]
            if not len(chosen) or not len(others):
                continue
            ends = np.searchsorted(state.rank[others], state.rank[chosen])
            found = exceeding(
                gram, chosen, others, limits[chosen], ends,
                _residuals(state, coefficients, chosen), stop,
            )  # fmt: skip
            if found is None:
                return None
            pairs.append(np.column_stack([found.column, chosen[found.row]]))
        pairs.append(self._of_whole_rows(state, np.flatnonzero(hard), threshold))
        possible = np.concatenate(pairs)
        if self.limits is not None:
            possible = possible[self.limits.pairs(possible[:, 0], possible[:, 1])]
        best, again = _weighed(gram, problem, state, possible)
        self._seen = _Seen(state.order.copy(), keys, again)
        return best

    def saved(self) -> tuple[NDArray[Any], ...]:
        """Return what the next look depends on beside the state."""
        return () if self._seen is None else tuple(self._seen)

    def go_on_from(self, *saved: NDArray[Any]) -> None:
        """Take over what `saved` returned."""
        self._seen = _Seen(*saved)

    def load(self, state: insertion.State, again: NDArray[np.bool_]) -> None:
        """Take a look at a state as done, after which ``again`` was the last that is saved."""
        self._seen = _Seen(state.order.copy(), np.sort(_keys(state)), again)

    def _bounds(
        self, problem: insertion.Problem, state: insertion.State
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a bound on R² on the parents of each variable, and all coefficients.

        The bound is on what these explain of a variable that is in none of their lists: its
        correlations c with them are below the limits, and R² is cᵀC⁻¹c with the parents' own
        correlations C.
        """
        gram = self.gram
        values = np.zeros(len(state.parents))
        bound = np.concatenate(
            gram.each(partial(_bound, gram.Z, state, self._largest), gram.d, _CHUNK)
        )
        gram.each(partial(insertion.coefficients, problem, state, values), gram.d, _CHUNK)
        return bound, values

    def _near(
        self,
        state: insertion.State,
        rows: NDArray[np.bool_],
        alone: NDArray[np.bool_],
        columns: NDArray[np.bool_] | None,
    ) -> NDArray[np.int64]:
        """Return pairs (u, v): u is in the list of a parent of v, and among given columns.

        Of what is ``alone`` its own list counts.
        """
        parents, variables = state.arcs()
        keep, own = rows[variables], np.flatnonzero(rows & alone)
        parents, variables = (np.concatenate([a[keep], own]) for a in (parents, variables))
        sizes = np.diff(self.indptr)[parents]
        at = np.repeat(self.indptr[parents] - (np.cumsum(sizes) - sizes), sizes)
        u = self.indices[at + np.arange(int(sizes.sum()))].astype(np.int64)
        v = np.repeat(variables, sizes)
        inside = (state.rank[u] < state.rank[v]) & self._cause[u]
        if columns is not None:
            inside &= columns[u]
        return np.column_stack([u[inside], v[inside]])

    def _of_whole_rows(
        self,
        state: insertion.State,
        variables: NDArray[np.int64],
        threshold: float,
    ) -> NDArray[np.int64]:
        """Return pairs (u, v) for some v by all products of their residuals and their parents."""
        gram = self.gram
        assert gram.Z is not None
        found = [np.empty((0, 2), dtype=np.int64)]
        rows: list[NDArray[np.float64]] = []
        owners: list[int] = []
        for i, v in enumerate(variables):
            parents = gram.Z[state.parents_of(v)]
            basis = np.linalg.qr(parents.T)[0].T
            rest = gram.Z[v] - (gram.Z[v] @ basis.T) @ basis
            share = float(rest @ rest)
            rest *= 1 / np.sqrt(share) if share > COLLINEAR else 0.0
            rows += [basis, rest[None]]
            owners.append(int(v))
            if i == len(variables) - 1 or sum(map(len, rows)) >= gram.block_size:
                products = gram.product(np.concatenate(rows), gram.Z.T)
                at = 0
                for w in owners:
                    p = int(state.counts[w])
                    left = 1.0 - np.einsum("ij,ij->j", products[at : at + p], products[at : at + p])
                    x = products[at + p]
                    hit = (x * x > 0.999 * threshold * left) & (left > COLLINEAR)
                    hit &= (state.rank < state.rank[w]) & self._cause
                    u = np.flatnonzero(hit)
                    found.append(np.column_stack([u, np.full(len(u), w)]))
                    at += p + 1
                rows, owners = [], []
        return np.concatenate(found)


def moved_between(before: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the fewest variables without which two orders are the same (d,).

    Examples
    --------
    >>> moved_between(np.array([0, 1, 2, 3]), np.array([3, 0, 1, 2]))
    array([False, False, False,  True])
    """
    place = np.empty(len(before), dtype=np.int64)
    place[before] = np.arange(len(before))
    moved = np.ones(len(before), dtype=np.bool_)
    moved[after[_longest_ascent(place[after])]] = False
    return moved


def _keys(state: insertion.State) -> NDArray[np.int64]:
    """Return a number for each arc: its variable times d, and its parent."""
    parents, variables = state.arcs()
    return variables * len(state.order) + parents


def _residuals(
    state: insertion.State, values: NDArray[np.float64], variables: NDArray[np.int64]
) -> Residuals:
    return Residuals(
        state.begins[:-1], state.begins[:-1] + state.counts, state.parents, values, variables
    )


def _weighed(
    gram: Gram, problem: insertion.Problem, state: insertion.State, pairs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the pairs that help, the best ten of each variable, and where there were more."""
    d = gram.d
    keys = np.unique(pairs[:, 1] * d + pairs[:, 0])
    v, u = np.divmod(keys, d)
    begins = np.searchsorted(v, np.arange(d + 1))
    work = partial(_gains, gram.Z, problem, state, begins, u)
    gains = np.concatenate(gram.each(work, d, _CHUNK))
    keep = np.flatnonzero(gains > GAIN)
    keep = keep[np.lexsort((u[keep], -gains[keep], v[keep]))]
    place = np.arange(len(keep)) - np.searchsorted(v[keep], v[keep])
    again = np.zeros(d, dtype=np.bool_)
    again[v[keep[place >= _KEEP]]] = True
    keep = keep[place < _KEEP]
    return np.column_stack([u[keep], v[keep]]), again


# ------------------------------------------------------------------ every pair, exactly


def outsiders(
    problem: insertion.Problem,
    state: insertion.State,
    variables: NDArray[np.int64],
    among: NDArray[np.int64],
    keep: int,
    first: int,
    last: int,
) -> NDArray[np.int64]:
    """Return pairs (u, v), v of variables first..last: u comes before v and would help it.

    It is no candidate of v yet, and ``among`` a list. At most the ``keep`` best of each v, the best
    first, as the rows of an array.
    """
    d, most = len(state.order), state.most
    width = min(d, len(among) + most)
    pairs = np.empty((keep * (last - first), 2), dtype=np.int64)
    allowed, gains = np.zeros(d, dtype=np.bool_), np.empty(width)
    found = _outsiders(
        problem, new_desk(width, most), state, variables[first:last], among, keep, allowed, gains,
        pairs,
    )  # fmt: skip
    return pairs[:found]


# ------------------------------------------------------------------ compiled kernels


@kernel
def _bound(Z, state, largest, first, last):  # type: ignore[no-untyped-def]
    """Return the bounds on R² for variables first..last; 1 where none is known."""
    out = np.zeros(last - first)
    most = 1
    for v in range(first, last):
        most = max(most, state.counts[v])
    R, G = np.zeros((most, most)), np.zeros((most, most))
    for v in range(first, last):
        size, parents = state.counts[v], state.parents[state.begins[v] :]
        total = 0.0
        for a in range(size):
            total += largest[parents[a]] ** 2
        if total >= 1.0:
            out[v - first] = 1.0
            continue
        for a in range(size):
            row = Z[parents[a]]
            for c in range(a + 1):
                other = Z[parents[c]]
                entry = 0.0
                for s in range(len(row)):
                    entry += row[s] * other[s]
                for e in range(c):
                    entry -= R[a, e] * R[c, e]
                R[a, c] = np.sqrt(max(entry, 1e-300)) if a == c else entry / R[c, c]
        for c in range(size):  # column c of the inverse of the lower factor
            G[c, c] = 1.0 / R[c, c]
            for a in range(c + 1, size):
                entry = 0.0
                for e in range(c, a):
                    entry -= R[a, e] * G[e, c]
                G[a, c] = entry / R[a, a]
        total = 0.0
        for a in range(size):
            for c in range(size):
                entry = 0.0
                for e in range(max(a, c), size):
                    entry += G[e, a] * G[e, c]
                total += abs(entry) * largest[parents[a]] * largest[parents[c]]
        out[v - first] = min(total, 1.0)
    return out


@kernel(fastmath=True)
def _gains(Z, problem, state, begins, others, first, last):  # type: ignore[no-untyped-def]
    """Return what variables first..last gain by one more parent, from lists of possible ones.

    Candidates and what comes later have none. The parents are made orthogonal once a variable.
    """
    n = Z.shape[1]
    out = np.full(begins[last] - begins[first], -np.inf)
    most = 1
    for v in range(first, last):
        most = max(most, state.counts[v])
    basis, rest = np.empty((most, n)), np.empty(n)
    for v in range(first, last):
        if begins[v] == begins[v + 1]:
            continue
        size = 0
        for a in range(state.counts[v] + 1):
            row = rest if a == state.counts[v] else basis[size]
            own = Z[v if a == state.counts[v] else state.parents[state.begins[v] + a]]
            for s in range(n):
                row[s] = own[s]
            for c in range(size):
                other = basis[c]
                inner = 0.0
                for s in range(n):
                    inner += row[s] * other[s]
                for s in range(n):
                    row[s] -= inner * other[s]
            if a < state.counts[v]:
                square = 0.0
                for s in range(n):
                    square += row[s] * row[s]
                if square > COLLINEAR:
                    for s in range(n):
                        row[s] /= np.sqrt(square)
                    size += 1
        share = 0.0
        for s in range(n):
            share += rest[s] * rest[s]
        listed = problem.indices[problem.indptr[v] : problem.indptr[v + 1]]
        at = 0
        for e in range(begins[v], begins[v + 1]):
            u = others[e]
            while at < len(listed) and listed[at] < u:
                at += 1
            if u == v or state.rank[u] > state.rank[v] or (at < len(listed) and listed[at] == u):
                continue
            row = Z[u]
            num, den = 0.0, 1.0
            for s in range(n):
                num += row[s] * rest[s]
            for c in range(size):
                other = basis[c]
                inner = 0.0
                for s in range(n):
                    inner += row[s] * other[s]
                den -= inner * inner
            out[e - begins[first]] = gain_of(problem, share, num, den)
    return out


@kernel
def _longest_ascent(places):  # type: ignore[no-untyped-def]
    """Return where the longest ascending part of a sequence is."""
    d = len(places)
    ends = np.empty(d, dtype=np.int64)  # the last place of the best ascent of each length
    before = np.full(d, -1, dtype=np.int64)
    length = 0
    for i in range(d):
        low, high = 0, length
        while low < high:
            middle = (low + high) // 2
            if places[ends[middle]] < places[i]:
                low = middle + 1
            else:
                high = middle
        before[i] = ends[low - 1] if low > 0 else -1
        ends[low] = i
        length = max(length, low + 1)
    out = np.empty(length, dtype=np.int64)
    at = ends[length - 1] if length > 0 else -1
    for i in range(length - 1, -1, -1):
        out[i] = at
        at = before[at]
    return out


@kernel(_nrt=False)
def _outsiders(problem, desk, state, variables, among, keep, allowed, gains, pairs):  # type: ignore[no-untyped-def]
    """Fill in the pairs; return how many."""
    names, most = desk.names, state.most
    total = 0
    for j in range(len(variables)):
        v = variables[j]
        count = state.counts[v]
        for i in range(len(among)):
            u = among[i]
            allowed[u] = state.rank[u] < state.rank[v] and may(problem.rules, u, v)
        for e in range(problem.indptr[v], problem.indptr[v + 1]):
            allowed[problem.indices[e]] = False
        for a in range(count):
            names[a] = state.parents[state.begins[v] + a]
        m = count
        for i in range(len(among)):
            if allowed[among[i]]:
                names[m] = among[i]
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
    return total
