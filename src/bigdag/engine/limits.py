"""Which arcs are possible: what is known beforehand, in numbers.

Each variable has a tier or none, may be a cause or not, and may be an effect or not; besides there
are lists of forbidden and of required arcs. All of it takes bytes a variable and a pair that is
named, never a d × d array. An order agrees with it if required arcs go forward in it and no tier
comes before a lower one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bigdag.compiled import kernel
from bigdag.engine.heap import pop, sift
from bigdag.engine.order import project, rank_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram

__all__ = ["Limits", "Precedence", "Rules", "bounds", "may", "no_rules", "required"]

_FAINT = 1e-12  # the weight, over the sd's, of a required arc to which the data give none
_WAITING = 2**62  # added to the key of a variable that may not be taken yet


class Rules(NamedTuple):
    """The limits as compiled code reads them; all arrays are empty where nothing is known.

    Attributes
    ----------
    tier : ndarray of int64
        Of each variable; negative where it has none.
    within : bool
        Whether there may be arcs between variables of the same tier.
    cause, effect, moves : ndarray of bool
        Which variables may have effects, which may have causes, and which take part in a search
        over orders.
    barred_ptr, barred : ndarray of int64
        The causes that each variable must not have, compressed and sorted.
    needed_ptr, needed : ndarray of int64
        The causes that it must have.
    """

    tier: NDArray[np.int64]
    within: bool
    cause: NDArray[np.bool_]
    effect: NDArray[np.bool_]
    moves: NDArray[np.bool_]
    barred_ptr: NDArray[np.int64]
    barred: NDArray[np.int64]
    needed_ptr: NDArray[np.int64]
    needed: NDArray[np.int64]


class Precedence(NamedTuple):
    """Who has to come before whom, as lists over the variables and one barrier a tier after them.

    Attributes
    ----------
    n_barriers : int
        A barrier stands between two tiers: all of the lower come before it, all others after it.
    after_ptr, after : ndarray of int64
        Who has to come after each, compressed.
    before_ptr, before : ndarray of int64
        Who has to come before each.
    """

    n_barriers: int
    after_ptr: NDArray[np.int64]
    after: NDArray[np.int64]
    before_ptr: NDArray[np.int64]
    before: NDArray[np.int64]


def no_rules() -> Rules:
    """Return the rules where nothing is known.

    Examples
    --------
    >>> bool(may(no_rules(), 3, 4))
    True
    """
    numbers, truths = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
    return Rules(numbers, True, truths, truths, truths, numbers, numbers, numbers, numbers)


@dataclass(frozen=True, eq=False)
class Limits:
    """Which arcs are possible among d variables, and which there have to be.

    Parameters
    ----------
    tier : ndarray of int64, shape (d,)
        Negative where a variable has none.
    within_tier : bool
        Whether there may be arcs between variables of the same tier.
    cause, effect : ndarray of bool, shape (d,)
        Which variables may have effects, and which may have causes.
    forbidden, required : csc_array of bool, shape (d, d)
        Single arcs.

    Examples
    --------
    >>> nothing = sp.csc_array((3, 3), dtype=bool)
    >>> everyone = np.ones(3, dtype=bool)
    >>> limits = Limits(np.array([1, -1, 0]), True, everyone, everyone, nothing, nothing)
    >>> limits.pairs(np.array([0, 2]), np.array([2, 0]))
    array([False,  True])
    >>> limits.extended(np.array([0, 1, 2]))
    array([1, 2, 0])
    """

    tier: NDArray[np.int64]
    within_tier: bool
    cause: NDArray[np.bool_]
    effect: NDArray[np.bool_]
    forbidden: sp.csc_array
    required: sp.csc_array

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.tier)

    # -------------------------------------------------------------- which arcs

    def pairs(self, causes: Any, effects: Any) -> NDArray[np.bool_]:
        """Tell of each arc from one list of variables to another whether it is possible."""
        i, j = np.asarray(causes, dtype=np.int64), np.asarray(effects, dtype=np.int64)
        possible = self.cause[i] & self.effect[j] & (i != j)
        if self._tiers:
            possible &= self._in_time(self.tier[i], self.tier[j])
        if self.forbidden.nnz:
            possible &= ~_among(self._forbidden_keys, j * self.d + i)
        return np.asarray(possible)

    def requires(self, causes: Any, effects: Any) -> NDArray[np.bool_]:
        """Tell of each arc from one list of variables to another whether it has to be there."""
        i, j = np.asarray(causes, dtype=np.int64), np.asarray(effects, dtype=np.int64)
        return _among(self._required_keys, j * self.d + i)

    def required_with(self, v: int) -> NDArray[np.int64]:
        """Return the causes and effects that one variable has to have."""
        i, j = self._required_arcs
        return np.concatenate([i[j == v], j[i == v]])

    def parents(self, block: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which variables may be causes of each of a block (k, d)."""
        possible = self.cause & self.effect[block][:, None]
        if self._tiers:
            possible &= self._in_time(self.tier, self.tier[block][:, None])
        indptr, indices = self.forbidden.indptr, self.forbidden.indices
        for a, j in enumerate(block if self.forbidden.nnz else ()):
            possible[a, indices[indptr[j] : indptr[j + 1]]] = False
        possible[np.arange(len(block)), block] = False
        return np.asarray(possible)

    def children(self, block: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which variables may be effects of each of a block (k, d)."""
        possible = self.effect & self.cause[block][:, None]
        if self._tiers:
            possible &= self._in_time(self.tier[block][:, None], self.tier)
        by_cause = self._forbidden_by_cause
        for a, i in enumerate(block if self.forbidden.nnz else ()):
            possible[a, by_cause.indices[by_cause.indptr[i] : by_cause.indptr[i + 1]]] = False
        possible[np.arange(len(block)), block] = False
        return np.asarray(possible)

    def all_pairs(self) -> NDArray[np.bool_]:
        """Tell of every arc whether it is possible (d, d): for methods on full matrices alone."""
        return self.parents(np.arange(self.d)).T

    def count(self) -> int:
        """Return how many arcs are possible, without a look at each."""
        causes, effects = self.cause.astype(np.int64), self.effect.astype(np.int64)
        total = int(causes.sum()) * int(effects.sum()) - int((causes * effects).sum())
        if self._tiers:
            top = int(self.tier.max()) + 1
            tiered = self.tier >= 0
            here = np.bincount(self.tier[tiered], causes[tiered], top).astype(np.int64)
            there = np.bincount(self.tier[tiered], effects[tiered], top).astype(np.int64)
            both = np.bincount(self.tier[tiered], (causes * effects)[tiered], top).astype(np.int64)
            earlier = np.concatenate([[0], np.cumsum(there)[:-1]])
            total -= int((here * earlier).sum())
            if not self.within_tier:
                total -= int((here * there).sum()) - int(both.sum())
        if self.forbidden.nnz:
            arcs = self.forbidden.tocoo()
            free = Limits(
                self.tier, self.within_tier, self.cause, self.effect,
                sp.csc_array(self.forbidden.shape, dtype=bool), self.required,
            )  # fmt: skip
            total -= int(free.pairs(arcs.row, arcs.col).sum())
        return total

    def confined(self, W: sp.csc_array) -> sp.csc_array:
        """Return weights without the arcs that are not possible."""
        W = sp.csc_array(W)
        columns = np.repeat(np.arange(self.d), np.diff(W.indptr))
        keep = self.pairs(W.indices, columns) & (W.data != 0)
        if keep.all():
            return W
        indptr = np.concatenate([[0], np.cumsum(keep)])[W.indptr]
        return sp.csc_array((W.data[keep], W.indices[keep], indptr), shape=W.shape)

    def mask(self, candidates: sp.csc_array | None) -> sp.csc_array | None:
        """Return a mask of candidates without what is not possible, and with what is required."""
        if candidates is None:
            return None
        mask = sp.csc_array(self.confined(candidates) + self.required.astype(np.int8))
        mask.sort_indices()
        return mask

    def completed(self, gram: Gram, W: sp.csc_array) -> sp.csc_array:
        """Return weights with all required arcs.

        One that is missing gets its weight by least squares, the others staying as they are; where
        the data give it none, a weight of 1e-12 on the scale of the standard deviations.
        """
        needed = self.required
        if not needed.nnz:
            return W
        columns = np.repeat(np.arange(self.d), np.diff(needed.indptr))
        arcs = W.tocoo()
        keys = np.sort(arcs.col.astype(np.int64) * self.d + arcs.row)
        missing = ~_among(keys, columns * self.d + needed.indices)
        if not missing.any():
            return W
        sources, targets = needed.indices[missing].astype(np.int64), columns[missing]
        values = np.empty(len(sources))
        unit = np.where(gram.sd > 0, gram.sd, 1.0)
        for j in np.unique(targets):
            at = np.flatnonzero(targets == j)
            new = sources[at]
            span = slice(W.indptr[j], W.indptr[j + 1])
            old = W.indices[span].astype(np.int64)
            b = W.data[span] * gram.sd[old] * gram.inverse_sd[j]
            left = gram.block(new, [j])[:, 0] - gram.block(new, old) @ b
            inside = gram.block(new, new)
            np.fill_diagonal(inside, gram.sd[new] > 0)
            found = np.linalg.pinv(inside, rcond=1e-9, hermitian=True) @ left
            found = np.where(np.abs(found) > _FAINT, found, _FAINT) * unit[j] / unit[new]
            values[at] = np.where(np.abs(found) > 1e-300, found, 1e-300)
        more = sp.coo_array((values, (sources, targets)), shape=W.shape)
        whole = sp.csc_array(W + sp.csc_array(more))
        whole.sort_indices()
        return whole

    # -------------------------------------------------------------- which orders

    @cached_property
    def moves(self) -> NDArray[np.bool_]:
        """Which variables take part in a search over orders (d,).

        One that can have no effects may always come last, unless a later tier has to come after
        it, and one that can have no causes may always come first.
        """
        return ~(self._first | self._last)

    @cached_property
    def causes(self) -> NDArray[np.int64]:
        """The variables that may have effects."""
        return np.flatnonzero(self.cause)

    @cached_property
    def precedence(self) -> Precedence:
        """Who has to come before whom."""
        arcs = self.required.tocoo()
        tiers = np.unique(self.tier[self.tier >= 0])
        count = max(0, len(tiers) - 1)
        source, target = [arcs.row.astype(np.int64)], [arcs.col.astype(np.int64)]
        for k in range(count):
            lower, upper = np.flatnonzero(self.tier == tiers[k]), self.tier == tiers[k + 1]
            upper = np.flatnonzero(upper)
            source += [lower, np.full(len(upper), self.d + k)]
            target += [np.full(len(lower), self.d + k), upper]
        size = self.d + count
        ends = np.concatenate(source), np.concatenate(target)
        graph = sp.coo_array((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(size, size))
        after, before = sp.csr_array(graph), sp.csc_array(graph)
        return Precedence(
            count, after.indptr.astype(np.int64), after.indices.astype(np.int64),
            before.indptr.astype(np.int64), before.indices.astype(np.int64),
        )  # fmt: skip

    def agrees(self, order: NDArray[np.integer]) -> bool:
        """Tell whether an order, or a stretch of one, keeps the tiers and the required arcs."""
        if self._tiers:
            tiers = self.tier[order]
            tiers = tiers[tiers >= 0]
            if (np.diff(tiers) < 0).any():
                return False
        if not self.required.nnz:
            return True
        rank = np.full(self.d, -1, dtype=np.int64)
        rank[order] = np.arange(len(order))
        arcs = self._required_arcs
        i, j = rank[arcs[0]], rank[arcs[1]]
        return bool(((i < j) | (i < 0) | (j < 0)).all())

    def extended(self, order: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return an order that agrees, as near to a given one as taking the next free one is.

        Variables that can have no causes come first and those that can have no effects last,
        where the tiers let them.
        """
        priority = rank_of(np.asarray(order, dtype=np.int64))
        priority = priority + self.d * (1 + self._last.astype(np.int64) - self._first)
        after = self.precedence
        key = np.concatenate([priority, np.full(after.n_barriers, -1)])
        taken = _take(key, after.after_ptr, after.after)
        return taken[taken < self.d]

    def agreeing(self, order: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return an order as it is where it agrees, and else one near to it that does."""
        return np.asarray(order, dtype=np.int64) if self.agrees(order) else self.extended(order)

    def interval(self, order: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return between which ranks each variable may move in an order, both excluded (d,)."""
        rank = rank_of(order)
        low = np.full(self.d, -1, dtype=np.int64)
        high = np.full(self.d, self.d, dtype=np.int64)
        if self._tiers:
            top = int(self.tier.max()) + 1
            tiered = np.flatnonzero(self.tier >= 0)
            last, first = np.full(top, -1), np.full(top, self.d)
            np.maximum.at(last, self.tier[tiered], rank[tiered])
            np.minimum.at(first, self.tier[tiered], rank[tiered])
            last = np.concatenate([[-1], np.maximum.accumulate(last)[:-1]])
            first = np.concatenate([np.minimum.accumulate(first[::-1])[::-1][1:], [self.d]])
            low[tiered], high[tiered] = last[self.tier[tiered]], first[self.tier[tiered]]
        i, j = self._required_arcs
        np.maximum.at(low, j, rank[i])
        np.minimum.at(high, i, rank[j])
        still = ~self.moves
        low[still], high[still] = rank[still] - 1, rank[still] + 1
        return low, high

    def kept(self, W: sp.csc_array, order: NDArray[np.integer]) -> sp.csc_array:
        """Return the possible arcs of W that go forward in an order."""
        return self.confined(project(W, order))

    @cached_property
    def rules(self) -> Rules:
        """The same as compiled code reads it."""
        return Rules(
            np.ascontiguousarray(self.tier, dtype=np.int64), bool(self.within_tier), self.cause,
            self.effect, self.moves, self.forbidden.indptr.astype(np.int64),
            self.forbidden.indices.astype(np.int64), self.required.indptr.astype(np.int64),
            self.required.indices.astype(np.int64),
        )  # fmt: skip

    # -------------------------------------------------------------- inside

    @cached_property
    def _tiers(self) -> bool:
        return bool((self.tier >= 0).any())

    def _in_time(self, before: Any, after: Any) -> NDArray[np.bool_]:
        late = before >= after if not self.within_tier else before > after
        return np.asarray(~(late & (before >= 0) & (after >= 0)))

    @cached_property
    def _forbidden_keys(self) -> NDArray[np.int64]:
        arcs = self.forbidden.tocoo()
        return np.sort(arcs.col.astype(np.int64) * self.d + arcs.row)

    @cached_property
    def _required_keys(self) -> NDArray[np.int64]:
        i, j = self._required_arcs
        return np.sort(j * self.d + i)

    @cached_property
    def _forbidden_by_cause(self) -> sp.csr_array:
        return sp.csr_array(self.forbidden)

    @cached_property
    def _required_arcs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        arcs = self.required.tocoo()
        return arcs.row.astype(np.int64), arcs.col.astype(np.int64)

    @cached_property
    def _last(self) -> NDArray[np.bool_]:
        top = self.tier.max(initial=-1)
        return ~self.cause & ((self.tier < 0) | (self.tier == top))

    @cached_property
    def _first(self) -> NDArray[np.bool_]:
        tiers = self.tier[self.tier >= 0]
        bottom = tiers.min() if len(tiers) else -1
        return ~self.effect & ((self.tier < 0) | (self.tier == bottom)) & ~self._last


def _among(known: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which keys are in a sorted list."""
    if not len(known):
        return np.zeros(keys.shape, dtype=np.bool_)
    return np.asarray(known[np.minimum(np.searchsorted(known, keys), len(known) - 1)] == keys)


# ------------------------------------------------------------------ compiled kernels


@kernel
def _take(priority, after_ptr, after):  # type: ignore[no-untyped-def]
    """Take next the variable with the least priority that need not wait; return the order."""
    d = len(priority)
    key = np.empty(d, dtype=np.int64)
    waits = np.zeros(d, dtype=np.int64)
    for e in range(len(after)):
        waits[after[e]] += 1
    for v in range(d):
        key[v] = priority[v] + (_WAITING if waits[v] > 0 else 0)
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
        for e in range(after_ptr[v], after_ptr[v + 1]):
            u = after[e]
            waits[u] -= 1
            if waits[u] == 0:
                key[u] = priority[u]
                sift(heap, place, key, place[u], size)
    return order


@kernel(inside=True, _nrt=False)
def _holds(ptr, names, v, u):  # type: ignore[no-untyped-def]
    """Tell whether u is in the sorted list of v."""
    low, high = ptr[v], ptr[v + 1]
    while low < high:
        middle = (low + high) // 2
        if names[middle] < u:
            low = middle + 1
        else:
            high = middle
    return low < ptr[v + 1] and names[low] == u


@kernel(inside=True, _nrt=False)
def may(rules, u, v):  # type: ignore[no-untyped-def]
    """Tell whether u may be a cause of v."""
    if len(rules.cause) == 0:
        return True
    if not (rules.cause[u] and rules.effect[v]):
        return False
    before, after = rules.tier[u], rules.tier[v]
    if before >= 0 and after >= 0 and (before > after or (before == after and not rules.within)):
        return False
    return not _holds(rules.barred_ptr, rules.barred, v, u)


@kernel(inside=True, _nrt=False)
def required(rules, u, v):  # type: ignore[no-untyped-def]
    """Tell whether u has to be a cause of v."""
    if len(rules.needed) == 0:
        return False
    return _holds(rules.needed_ptr, rules.needed, v, u)


@kernel(inside=True, _nrt=False)
def bounds(rules, order, rank, v):  # type: ignore[no-untyped-def]
    """Return between which ranks v may move in an order, both excluded."""
    d = len(order)
    if len(rules.cause) == 0:
        return np.int64(-1), np.int64(d)
    tier = rules.tier[v]
    low = rank[v] - 1
    while low >= 0:
        u = order[low]
        other = rules.tier[u]
        if not rules.moves[u] or (0 <= other < tier) or required(rules, u, v):
            break
        low -= 1
    high = rank[v] + 1
    while high < d:
        u = order[high]
        other = rules.tier[u]
        if not rules.moves[u] or (tier >= 0 and other > tier) or required(rules, v, u):
            break
        high += 1
    return low, high
