"""Where a search by best insertion stands: an order and the parents chosen in it.

Its parents become weights (`coefficients`), or are shrunk to those that are worth their cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bigdag.compiled import kernel
from bigdag.engine.regression import COLLINEAR, add, clear, cost, grow_and_shrink, new_desk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.regression import Desk, Problem

__all__ = ["State", "begin", "coefficients", "factor_size", "prune"]

_FACTORS = 2**22  # numbers in the factors that are kept: 32 MB


class State(NamedTuple):
    """An order, the parents chosen in it, and what is still to be looked at; changed in place.

    Attributes
    ----------
    order, rank : ndarray of shape (d,)
        Causes first, and its inverse.
    parents : ndarray of int32
        Each variable's parents: ``counts`` entries from its place in ``begins`` on.
    begins : ndarray of shape (d + 1,)
        Where the room of each variable begins and ends in ``parents``; it is enough for all its
        candidates, or for the most parents that it may have.
    counts, costs : ndarray of shape (d,)
        Their number, and what the variable costs with them.
    dirty : ndarray of bool, shape (d,)
        The variables whose surroundings have changed since they were looked at.
    queue, cursor : ndarray
        The variables in the order of the present round, and the place in it.
    factor_at, factors, factors_used : ndarray
        Where the factor of each variable's parents begins, or -1 where it is not known; the
        factors, one after the other; and how much of them is used (1,).
    most : int
        Parents that a variable may have.
    """

    order: NDArray[np.int64]
    rank: NDArray[np.int64]
    parents: NDArray[np.int32]
    begins: NDArray[np.int64]
    counts: NDArray[np.int64]
    costs: NDArray[np.float64]
    dirty: NDArray[np.bool_]
    queue: NDArray[np.int64]
    cursor: NDArray[np.int64]
    factor_at: NDArray[np.int64]
    factors: NDArray[np.float64]
    factors_used: NDArray[np.int64]
    most: int

    def copy(self) -> State:
        """Return a copy that shares nothing, and knows no factors."""
        return State(
            self.order.copy(), self.rank.copy(), self.parents.copy(), self.begins.copy(),
            self.counts.copy(), self.costs.copy(), self.dirty.copy(), self.queue.copy(),
            self.cursor.copy(), np.full_like(self.factor_at, -1), np.empty_like(self.factors),
            np.zeros_like(self.factors_used), self.most,
        )  # fmt: skip

    def with_room(self, room: NDArray[np.int64]) -> State:
        """Return the state with room for so many parents of each variable; shares the rest."""
        begins = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
        parents = np.zeros(begins[-1], dtype=np.int32)
        at = self.places()
        fresh = at - np.repeat(self.begins[:-1] - begins[:-1], self.counts)
        parents[fresh] = self.parents[at]
        return self._replace(parents=parents, begins=begins)

    def places(self) -> NDArray[np.int64]:
        """Return where in ``parents`` there are any, variable by variable."""
        before = np.cumsum(self.counts) - self.counts
        total = int(self.counts.sum())
        return np.repeat(self.begins[:-1] - before, self.counts) + np.arange(total)

    def arcs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all arcs, the parents and the variables, variable by variable."""
        variables = np.repeat(np.arange(len(self.counts)), self.counts)
        return self.parents[self.places()].astype(np.int64), variables

    def parents_of(self, v: Any) -> NDArray[np.int32]:
        """Return the parents of a variable; a view."""
        return self.parents[self.begins[v] : self.begins[v] + self.counts[v]]

    def saved(self) -> tuple[NDArray[Any], ...]:
        """Return all of the state that a search goes on from; some of it is not copied."""
        return (
            self.order, self.counts, self.parents[self.places()], self.costs, self.dirty,
            self.queue, self.cursor,
        )  # fmt: skip

    def load(self, saved: tuple[NDArray[Any], ...]) -> None:
        """Take over in place what `saved` returned, with the same room for parents."""
        self.order[:], self.counts[:], parents = saved[:3]
        self.rank[self.order] = np.arange(len(self.order))
        self.parents[self.places()] = parents
        self.costs[:], self.dirty[:], self.queue[:], self.cursor[:] = saved[3:]
        self.factor_at[:], self.factors_used[:] = -1, 0

    def total(self) -> float:
        """Return the score: the sum of all costs."""
        return float(self.costs.sum())


def begin(order: NDArray[np.integer], most: int, room: NDArray[np.int64] | None = None) -> State:
    """Return a state with an order, no parents, and everything to be looked at.

    Parameters
    ----------
    order : ndarray of shape (d,)
        Causes first.
    most : int
        Parents that a variable may have.
    room : ndarray of shape (d,), optional
        How many parents of each variable there has to be room for; ``most`` by default.
    """
    own: NDArray[np.int64] = np.array(order, dtype=np.int64)
    d = len(own)
    rank = np.empty(d, dtype=np.int64)
    rank[own] = np.arange(d)
    sizes = np.full(d, most) if room is None else room
    begins = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return State(
        own, rank, np.zeros(begins[-1], dtype=np.int32), begins, np.zeros(d, dtype=np.int64),
        np.zeros(d), np.ones(d, dtype=np.bool_), own.copy(), np.zeros(1, dtype=np.int64),
        np.full(d, -1, dtype=np.int64),
        np.empty(max(factor_size(most), min(_FACTORS, d * factor_size(most)))),
        np.zeros(1, dtype=np.int64), most,
    )  # fmt: skip


@kernel(_nrt=False)
def factor_size(p):  # type: ignore[no-untyped-def]
    """Return the numbers that the factor of p parents takes."""
    return 2 + p + p * (p + 1) // 2


def _desk(state: State, first: int, last: int) -> Desk:
    """Return a desk for the parents that variables first..last have room for."""
    most = int(np.diff(state.begins[first : last + 1]).max(initial=1))
    return new_desk(most + 1, most)


def coefficients(
    problem: Problem, state: State, values: NDArray[np.float64], first: int, last: int
) -> None:
    """Write the least-squares coefficients of variables first..last, on the correlation scale."""
    _coefficients(problem, _desk(state, first, last), state, values, first, last)


@kernel(_nrt=False)
def _coefficients(problem, desk, state, values, first, last):  # type: ignore[no-untyped-def]
    for v in range(first, last):
        size = state.counts[v]
        for a in range(size):
            desk.names[a] = state.parents[state.begins[v] + a]
        clear(problem, desk, v, size)
        for a in range(size):
            values[state.begins[v] + a] = 0.0
        kept = np.int64(0)
        for a in range(size):
            if desk.den[a] > COLLINEAR:
                add(problem, desk, size, kept, a)
                kept += 1
        for c in range(kept):
            values[state.begins[v] + desk.chosen[c]] = desk.b[c]


def prune(problem: Problem, state: State, first: int, last: int) -> None:
    """Shrink the parents of variables first..last to those that are worth their cost."""
    _prune(problem, _desk(state, first, last), state, first, last)


@kernel(_nrt=False)
def _prune(problem, desk, state, first, last):  # type: ignore[no-untyped-def]
    for v in range(first, last):
        m = state.counts[v]
        for a in range(m):
            desk.names[a] = state.parents[state.begins[v] + a]
        clear(problem, desk, v, m)
        size, share = np.int64(0), 1.0
        for a in range(m):
            if desk.den[a] > COLLINEAR:
                share -= add(problem, desk, m, size, a)
                size += 1
        size, share = grow_and_shrink(problem, desk, m, size, share)
        for a in range(size):
            state.parents[state.begins[v] + a] = desk.names[desk.chosen[a]]
        state.counts[v], state.factor_at[v] = size, -1
        state.costs[v] = cost(problem, share) + problem.arc_cost * size
