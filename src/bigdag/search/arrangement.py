"""Moves in an order that lower equation (1), each column's lasso re-solved only where touched.

With the order fixed, equation (1) is d lasso problems. Taking a variable v from one place of the
order to another touches v, and of the variables it passes only those that use it now or would use
it then. Moves on disjoint stretches of the order touch disjoint columns, so that many are tried in
one solve, and each is kept or taken back by the columns of its own stretch: equation (1) never
rises.

Which moves are tried: insertions that must gain, by a bound in closed form (:meth:`Arrangement.
insertions`); arcs turned round together with what depends on them (:meth:`Arrangement.reverse`);
and all swaps of neighbours in the order that interact (:meth:`Arrangement.swaps`). An arrangement
that no such swap improves is a local optimum for swaps, up to the lasso's tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bigdag.compiled import kernel
from bigdag.engine import lasso
from bigdag.engine.column_problem import Coefficients
from bigdag.engine.executor import Task
from bigdag.engine.gram import correlation
from bigdag.engine.objective import on_correlation_scale
from bigdag.engine.order import rank_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.executor import Step
    from bigdag.engine.gram import Gram
    from bigdag.engine.limits import Limits

__all__ = ["Arrangement"]

_WORTH = 1e-5  # of equation (1): the least gain that an insertion must promise
_MOVERS = 512  # variables whose best places are a piece of work
_REACH = 2000  # places between the ends of an arc that is tried the other way
_MOST_PAIRS = 2**16  # of variables that pass each other when an arc is turned
_GAIN = 1e-11  # of equation (1): less is rounding
_ENOUGH = 1e-4  # of equation (1): what a round of insertions must gain for another round


class Arrangement:
    """An order, the lasso on it, and moves that lower equation (1).

    Parameters
    ----------
    gram : Gram
        The second moments.
    lambda1 : float
        The weight of the L1 norm.
    order : ndarray of shape (d,)
        Causes first.
    mask : csc_array of shape (d, d), optional
        The arcs that may be used.
    start : csc_array, optional
        Weights to begin from.
    limits : Limits, optional
        Which arcs are possible, and who has to come before whom.
    tol : float
        Of each lasso.
    stop : callable, optional
        True ends the work under way.

    Attributes
    ----------
    order : ndarray of int64, shape (d,)
        The present order.
    weights : csc_array of shape (d, d)
        The lasso on it.
    costs : ndarray of shape (d,)
        Each column's part of equation (1).

    Examples
    --------
    >>> from bigdag import simulate
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> truth = simulate.random_dag(20, 1, rng=0)
    >>> gram = Gram(as_dataset(simulate.sample(truth, 500, rng=1)))
    >>> arrangement = Arrangement(gram, 0.1, np.arange(20))
    >>> before = arrangement.value
    >>> bool(arrangement.attempt(arrangement.insertions()).any())
    True
    >>> arrangement.value < before
    True
    """

    def __init__(
        self,
        gram: Gram,
        lambda1: float,
        order: NDArray[np.integer],
        *,
        mask: sp.csc_array | None = None,
        start: sp.csc_array | None = None,
        limits: Limits | None = None,
        tol: float = 1e-4,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        self.gram, self.lambda1, self.mask, self.tol, self.stop = gram, lambda1, mask, tol, stop
        self.limits = limits
        self.order = np.asarray(order, dtype=np.int64).copy()
        fit = lasso.solve(
            gram,
            lambda1,
            order=self.order,
            mask=mask,
            start=start,
            limits=limits,
            tol=tol,
            stop=stop,
        )
        self.weights = fit.weights
        self.costs = fit.objective
        self.complete = bool(np.isfinite(fit.gap).all())
        self._root = np.sqrt(lambda1) * gram.inverse_sd
        self._changes = np.zeros(gram.d, dtype=np.int64)  # of each variable's place or column
        self._refused: dict[tuple[int, int], tuple[int, int]] = {}  # swaps, at which changes

    @property
    def value(self) -> float:
        """Equation (1)."""
        return float(self.costs.sum())

    # -------------------------------------------------------------- trying moves

    def improve(self, note: Callable[[str], bool]) -> bool:
        """Insert while much is gained, then turn arcs round while anything is.

        Parameters
        ----------
        note : callable
            Called with "insertion" or "reversal" after each round; True ends the work.

        Returns
        -------
        bool
            Whether it came to its end.
        """
        stuck = np.zeros(self.gram.d, dtype=np.bool_)
        gain, inserts = np.inf, True
        step = self.gram.step("moves", self.lambda1, self.tol, self.mask, *self.saved())
        if step.found is not None:
            self.load(step.found[:-2])
            stuck, (gain, inserts) = step.found[-2], step.found[-1]
        while inserts and gain > _ENOUGH * self.value:
            if not len(moves := self.insertions(stuck)):
                break
            variables, before = self.order[moves[:, 0]], self.value
            kept = self.attempt(moves)
            gain = before - self.value
            stuck[variables[~kept]] = True
            if note("insertion"):
                return False
            self._keep(step, stuck, gain, True)
        while self.reverse():
            if note("reversal"):
                return False
            self._keep(step, stuck, gain, False)
        return True

    def _keep(self, step: Step, stuck: NDArray[np.bool_], gain: float, inserts: bool) -> None:
        step.keep(lambda: (*self.saved(), stuck, [gain, inserts]))

    def saved(self) -> tuple[NDArray[Any], ...]:
        """Return all that the moves go on from; it is not copied."""
        refused = [[*pair, *stamp] for pair, stamp in self._refused.items()]
        return (
            self.order, self.weights.indptr, self.weights.indices, self.weights.data, self.costs,
            self._changes, np.array(refused, dtype=np.int64).reshape(-1, 4),
            np.array([self.complete]),
        )  # fmt: skip

    def load(self, saved: tuple[NDArray[Any], ...]) -> None:
        """Take over what `saved` returned."""
        self.order, indptr, indices, data, self.costs, self._changes, refused, complete = saved
        self.weights = sp.csc_array((data, indices, indptr), shape=self.weights.shape)
        self._refused = {(u, v): (a, b) for u, v, a, b in refused.tolist()}
        self.complete = bool(complete[0])

    def attempt(self, moves: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Try moves on disjoint stretches, and keep those that lower equation (1).

        Parameters
        ----------
        moves : ndarray of shape (k, 2)
            Each from one place of the order to another.

        Returns
        -------
        ndarray of bool, shape (k,)
            Which were kept.
        """
        if not len(moves):
            return np.zeros(0, dtype=np.bool_)
        stretches = []
        for old, new in moves:
            low, high = min(old, new), max(old, new) + 1
            stretches.append((low, np.roll(self.order[low:high], 1 if new < old else -1)))
        passed = [
            (self.order[min(old, new) : max(old, new) + 1], self.order[old]) for old, new in moves
        ]
        others = [part[part != v] for part, v in passed]
        by = [np.full(len(part), v) for part, (_, v) in zip(others, passed)]
        earlier = [np.full(len(part), new < old) for part, (old, new) in zip(others, moves)]
        columns = np.union1d(
            self.order[moves[:, 0]],
            self._touched(np.concatenate(others), np.concatenate(by), np.concatenate(earlier)),
        )
        before = self.order
        kept, changes = self._try(stretches, columns)
        for (old, new), keep, change in zip(moves, kept, changes):
            if not keep and old == new + 1 and np.isfinite(change):
                pair = (int(before[new]), int(before[old]))
                self._refused[pair] = self._stamp(*pair)
        return kept

    def reverse(self) -> int:
        """Turn arcs round, with what depends on them, where that lowers equation (1).

        The arc u → v is turned by putting u after v, and with u all variables between the two that
        descend from it. Arcs are tried where u would gain more from v than v from u, the largest
        gain first, on disjoint stretches of the order.

        Returns
        -------
        int
            How many were turned.
        """
        stretches, columns, free = [], [], np.ones(self.gram.d, dtype=np.bool_)
        rank, arcs = rank_of(self.order), sp.csr_array(self.weights)
        for u, v in self._doubtful(rank):
            low, high = rank[u], rank[v] + 1
            if not free[low:high].all():
                continue
            after = np.zeros(high - low, dtype=np.bool_)  # by place: u and its descendants
            after[0] = True
            for at in range(high - low):
                if after[at]:
                    w = self.order[low + at]
                    children = rank[arcs.indices[arcs.indptr[w] : arcs.indptr[w + 1]]] - low
                    after[children[(children > 0) & (children < high - low - 1)]] = True
            here = self.order[low:high]
            back, front = here[after], here[~after]
            if not (self.limits is None or self.limits.agrees(np.concatenate([front, back]))):
                continue
            if len(back) * len(front) > _MOST_PAIRS:
                continue
            free[low:high] = False
            stretches.append((int(low), np.concatenate([front, back])))
            gain = np.repeat(back, len(front)), np.tile(front, len(back))
            lose = gain[1], gain[0]
            for (them, by), new in ((gain, True), (lose, False)):
                columns.append(self._touched(them, by, np.full(len(by), new)))
        if not stretches:
            return 0
        kept, _ = self._try(stretches, np.unique(np.concatenate(columns)))
        return int(kept.sum())

    def _doubtful(self, rank: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Return arcs (u, v) that by a first estimate gain when turned, the largest gain first."""
        arcs = self.weights.tocoo()
        near = np.abs(rank[arcs.row] - rank[arcs.col]) <= _REACH
        u, v = arcs.row[near].astype(np.int64), arcs.col[near].astype(np.int64)
        if not len(u):
            return []
        p, variance = self._root[u] * self._root[v], self.gram.diag()
        left, b = self._pairs(v, u)
        lost = (b * left - p * np.abs(b) + 0.5 * b * b) * variance[v]
        extra = np.maximum(np.abs(self._pairs(u, v)[0]) - p, 0.0)
        gain = 0.5 * extra**2 * variance[u] - lost
        best = [i for i in np.argsort(-gain, kind="stable") if gain[i] > _WORTH * self.value]
        return [(int(u[i]), int(v[i])) for i in best]

    def _try(
        self, stretches: list[tuple[int, NDArray[np.int64]]], columns: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Rearrange disjoint stretches of the order, and keep those that lower equation (1).

        Returns which were kept, and the change of each; infinite where a stop came first.
        """
        order, stretch = self.order.copy(), np.full(self.gram.d, -1, dtype=np.int64)
        for i, (low, fresh) in enumerate(stretches):
            order[low : low + len(fresh)] = fresh
            stretch[fresh] = i  # by variable
        fit = lasso.solve(
            self.gram, self.lambda1, order=order, mask=self.mask, start=self.weights,
            columns=columns, limits=self.limits, tol=self.tol, stop=self.stop,
        )  # fmt: skip
        change = np.zeros(len(stretches))
        np.add.at(change, stretch[columns], fit.objective[columns] - self.costs[columns])
        unsolved = columns[~np.isfinite(fit.gap[columns])]
        change[stretch[unsolved]] = np.inf
        kept = change < -_GAIN * self.value
        before = self.order.copy()
        for (low, fresh), keep in zip(stretches, kept):
            if keep:
                self._changes[fresh] += 1
                before[low : low + len(fresh)] = fresh
        self._take(fit, columns[kept[stretch[columns]]])
        self.order = before
        return kept, change

    def widen(self, mask: sp.csc_array, columns: NDArray[np.int64]) -> None:
        """Let more arcs into some columns, by a wider mask, and solve these again."""
        self.mask = mask
        fit = lasso.solve(
            self.gram, self.lambda1, order=self.order, mask=mask, start=self.weights,
            columns=columns, limits=self.limits, tol=self.tol, stop=self.stop,
        )  # fmt: skip
        self._take(fit, columns[np.isfinite(fit.gap[columns])])

    def _take(self, fit: lasso.LassoFit, columns: NDArray[np.int64]) -> None:
        """Take over some columns of a fit."""
        fresh = np.zeros(self.gram.d)
        fresh[columns] = 1.0
        weights = self.weights @ sp.diags_array(1.0 - fresh) + fit.weights @ sp.diags_array(fresh)
        self.weights = sp.csc_array(weights)
        self.weights.eliminate_zeros()
        self.weights.sort_indices()
        self.costs[columns] = fit.objective[columns]
        self._changes[columns] += 1

    def _stamp(self, u: int, v: int) -> tuple[int, int]:
        return int(self._changes[u]), int(self._changes[v])

    def _touched(
        self, passed: NDArray[np.int64], by: NDArray[np.int64], earlier: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return which columns change when variables come before them, or go behind them."""
        left, size = self._pairs(passed, by)
        limit = self._root[passed] * self._root[by]
        touched = np.where(earlier, np.abs(left) > limit * (1 + 1e-9), size != 0)
        return np.unique(passed[touched])

    def _pairs(
        self, columns: NDArray[np.int64], others: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return others' correlations with the columns' residuals, and their coefficients there.

        Pairs that the mask rules out have zeros.
        """
        if not len(columns):
            return np.empty(0), np.empty(0)
        B = _coefficients(on_correlation_scale(self.gram, self.weights))
        work = partial(_pairs, *self.gram.source, B, columns, others)
        pieces = self.gram.each(work, len(columns), chunk=256)
        left, size = (
            np.concatenate([np.empty(0), *(piece[i] for piece in pieces)]) for i in (0, 1)
        )
        _rule_out(left, columns, others, self.mask, self.limits)
        return left, size

    # -------------------------------------------------------------- finding moves

    def swaps(self, parity: int) -> NDArray[np.int64]:
        """Return the swaps of neighbours at even (0) or odd (1) places that can change anything.

        Swaps that were refused are left out while their variables stay as they are.
        """
        old = np.arange(parity + 1, self.gram.d, 2)
        earlier, later = self.order[old - 1], self.order[old]
        left, _ = self._pairs(earlier, later)
        _, used = self._pairs(later, earlier)
        matter = (used != 0) | (np.abs(left) > self._root[earlier] * self._root[later])
        refused = [
            self._refused.get(pair) == self._stamp(*pair)
            for pair in zip(earlier.tolist(), later.tolist())
        ]
        if self.limits is not None:
            low, _ = self.limits.interval(self.order)
            matter &= low[later] < old - 1
        return np.column_stack([old, old - 1])[matter & ~np.array(refused, dtype=np.bool_)]

    def insertions(self, skip: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return insertions on disjoint stretches that must gain, the best first.

        The gain of a move is at least what the passed columns gain when only the coefficient of
        the moved variable changes, less what it loses when its lost parents just drop out.

        Parameters
        ----------
        skip : ndarray of bool, shape (d,), optional
            Variables to leave where they are.
        """
        gains, places = self._best_places()
        rank = rank_of(self.order)
        if skip is not None:
            gains[skip] = 0.0
        free = np.ones(self.gram.d, dtype=np.bool_)
        moves = []
        for v in np.lexsort((rank, -gains)):
            if gains[v] <= _WORTH * self.value:
                break
            low, high = min(rank[v], places[v]), max(rank[v], places[v]) + 1
            if free[low:high].all():
                free[low:high] = False
                moves.append((rank[v], places[v]))
        return np.array(moves, dtype=np.int64).reshape(-1, 2)

    def _best_places(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return each variable's best insertion by the bound: its gain and its place (d,)."""
        gram, d = self.gram, self.gram.d
        B = on_correlation_scale(gram, self.weights)
        rank = rank_of(self.order)
        into, out = _coefficients(B), _coefficients(sp.csr_array(B))
        gains, places = np.zeros(d), rank.copy()
        low, high = np.full(d, -1), np.full(d, d)
        movers = np.arange(d)
        if self.limits is not None:
            low, high = self.limits.interval(self.order)
            movers = np.flatnonzero(self.limits.moves)
        if self.mask is not None:
            task = _Places(
                movers, into, out, self.mask, self.limits, self.order, self._root,
                np.asarray(low), np.asarray(high),
            )  # fmt: skip
            found = gram.spread(task, len(movers), _MOVERS)
            assert all(part is not None for part in found)  # nothing stops it
            gains[movers], places[movers] = (
                np.concatenate([np.empty(0, kind), *(part[i] for part in found if part)])
                for i, kind in ((0, np.float64), (1, np.int64))
            )
            return gains, places
        residual = self._residuals(B)
        for block in gram.blocks(movers):
            names = self.order[None, :]
            sizes = np.full(len(block), d)
            own = [B.indices[B.indptr[v] : B.indptr[v + 1]] for v in block]
            flat = np.concatenate([np.empty(0, dtype=np.int64), *own]).astype(np.int64)
            indptr = np.concatenate([[0], np.cumsum([len(o) for o in own])]).astype(np.int64)
            values = [B.data[B.indptr[v] : B.indptr[v + 1]] for v in block]
            left_of = gram.residual_rows(
                block, indptr, flat, np.concatenate([np.empty(0), *values])
            ).take(self.order, axis=1)
            left_by = self._left_by(block, B, residual).take(self.order, axis=1)
            if self.limits is not None:
                left_of[~self.limits.parents(block).take(self.order, axis=1)] = 0.0
                left_by[~self.limits.children(block).take(self.order, axis=1)] = 0.0
            around = _Around(block, names, sizes, left_by, left_of, low, high)
            work = partial(_best_places, *gram.source, around, rank, gram.sd, self._root, into, out)
            for (a, b), piece in zip(
                ((a, min(a + 16, len(block))) for a in range(0, len(block), 16)),
                gram.each(work, len(block)),
            ):
                gains[block[a:b]], places[block[a:b]] = piece
        return gains, places

    def _residuals(self, B: sp.csc_array) -> NDArray[np.float64] | None:
        """Return all residuals as rows (d, n), where that is less work than rows of C are."""
        Z, gram = self.gram.Z, self.gram
        if Z is None or (gram.C is not None and gram.n_samples >= gram.d):
            return None
        residual = sp.csr_array(B.T) @ Z
        return np.subtract(Z, residual, out=residual)

    def _left_by(
        self, block: NDArray[np.int64], B: sp.csc_array, residual: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        """Return the block's correlations with all residuals (k, d)."""
        if residual is None:
            rows = self.gram.rows(block)
            return rows - (B.T @ rows.T).T
        assert self.gram.Z is not None
        return self.gram.product(self.gram.Z[block], residual.T)


@dataclass(frozen=True)
class _Places(Task):
    """The best insertions of variables among those that a mask lets them be joined with."""

    movers: NDArray[np.int64]
    into: Coefficients
    out: Coefficients
    mask: sp.csc_array
    limits: Limits | None
    order: NDArray[np.int64]
    root: NDArray[np.float64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    def prepare(self, gram: Gram) -> tuple[sp.csr_array, NDArray[np.int64]]:  # noqa: ARG002
        """Return who is joined with whom, and the ranks."""
        return sp.csr_array(self.mask + self.mask.T), rank_of(self.order)

    def piece(
        self,
        gram: Gram,
        prepared: tuple[sp.csr_array, NDArray[np.int64]],
        first: int,
        last: int,
        stop: Callable[[], bool] | None,  # noqa: ARG002
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the gains and the places of some variables."""
        (near, rank), block = prepared, self.movers[first:last]
        names, sizes = _neighbours(near, block, rank, self.order)
        inside = np.arange(names.shape[1]) < sizes[:, None]
        them, us = names[inside], np.repeat(block, sizes)
        left_by, left_of = np.zeros(names.shape), np.zeros(names.shape)
        for lefts, columns, others in ((left_by, them, us), (left_of, us, them)):
            left, _ = _pairs(*gram.source, self.into, columns, others, 0, len(columns))
            _rule_out(left, columns, others, self.mask, self.limits)
            lefts[inside] = left
        around = _Around(block, names, sizes, left_by, left_of, self.low, self.high)
        found: tuple[NDArray[np.float64], NDArray[np.int64]] = _best_places(
            *gram.source, around, rank, gram.sd, self.root, self.into, self.out, 0, len(block)
        )
        return found


def _coefficients(B: sp.sparray) -> Coefficients:
    """Return a compressed matrix as kernels take it."""
    return Coefficients(B.indptr.astype(np.int64), B.indices.astype(np.int64), B.data)


def _rule_out(
    left: NDArray[np.float64],
    columns: NDArray[np.int64],
    others: NDArray[np.int64],
    mask: sp.csc_array | None,
    limits: Limits | None,
) -> None:
    """Set to zero, in place, what a mask or limits do not let the others do to the columns."""
    if mask is not None and len(columns):
        left[np.asarray(mask[others, columns]).ravel() == 0] = 0.0
    if limits is not None:
        left[~limits.pairs(others, columns)] = 0.0


def _neighbours(
    near: sp.csr_array, block: NDArray[np.int64], rank: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each variable's neighbours by rank, padded (k, m), and their numbers (k,)."""
    sizes = np.diff(near.indptr)[block].astype(np.int64)
    names = np.zeros((len(block), max(1, sizes.max(initial=0))), dtype=np.int64)
    for a, v in enumerate(block):
        ranks = np.sort(rank[near.indices[near.indptr[v] : near.indptr[v + 1]]])
        names[a, : sizes[a]] = order[ranks]
    return names, sizes


# ------------------------------------------------------------------ compiled kernels


@kernel
def _pairs(source, held, coefficients, columns, others, first, last):  # type: ignore[no-untyped-def]
    """Return correlations of others with the columns' residuals, and their coefficients there."""
    indptr, indices, data = coefficients
    left, size = np.empty(last - first), np.zeros(last - first)
    for a in range(first, last):
        w, v = columns[a], others[a]
        total = correlation(source, held, v, w)
        for e in range(indptr[w], indptr[w + 1]):
            total -= data[e] * correlation(source, held, v, indices[e])
            if indices[e] == v:
                size[a - first] = data[e]
        left[a - first] = total
    return left, size


class _Around(NamedTuple):
    """Variables that may move, and those they may pass.

    Attributes
    ----------
    block : ndarray of shape (k,)
        The variables that may move.
    names : ndarray of shape (k, m) or (1, m)
        Whom each may pass, by rank; one row where it is the same for all.
    sizes : ndarray of shape (k,)
        How many of them count.
    left_by, left_of : ndarray of shape (k, m)
        The correlation of v = block[a] with the residual of names[a, i], and that of names[a, i]
        with the residual of v.
    low, high : ndarray of shape (d,)
        Between which ranks each variable may move, both excluded.
    """

    block: NDArray[np.int64]
    names: NDArray[np.int64]
    sizes: NDArray[np.int64]
    left_by: NDArray[np.float64]
    left_of: NDArray[np.float64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


@kernel
def _best_places(source, held, around, rank, sd, root, into, out, first, last):  # type: ignore[no-untyped-def]
    """Return the gains and places of the best insertions of the block's variables first..last.

    ``into`` and ``out`` are the coefficients by column and by row.
    """
    in_ptr, in_names, in_b = into
    out_ptr, out_names, out_b = out
    gains, places = np.zeros(last - first), np.empty(last - first, dtype=np.int64)
    d = len(rank)
    given, taken = np.zeros(d), np.zeros(d)  # v's coefficients on others, and others' on v
    lost = np.empty(d, dtype=np.int64)
    for a in range(first, last):
        v, size = around.block[a], around.sizes[a]
        names = around.names[a if len(around.names) > 1 else 0]
        left_by, left_of = around.left_by[a], around.left_of[a]
        for e in range(in_ptr[v], in_ptr[v + 1]):
            given[in_names[e]] = in_b[e]
        for e in range(out_ptr[v], out_ptr[v + 1]):
            taken[out_names[e]] = out_b[e]
        here = 0
        while here < size and rank[names[here]] < rank[v]:
            here += 1
        best, place = 0.0, rank[v]
        others, own, count = 0.0, 0.0, 0
        for i in range(here - 1, -1, -1):  # towards the causes
            w = names[i]
            if rank[w] <= around.low[v]:
                break
            p = root[v] * root[w]
            extra = abs(left_by[i]) - p
            if extra > 0:
                others += 0.5 * extra * extra * sd[w] * sd[w]
            b = given[w]
            if b != 0.0:
                own += b * left_of[i] - p * abs(b) + 0.5 * b * b
                for c in range(count):
                    own += b * given[lost[c]] * correlation(source, held, w, lost[c])
                lost[count] = w
                count += 1
            if others - own * sd[v] * sd[v] > best:
                best, place = others - own * sd[v] * sd[v], rank[w]
        others, own = 0.0, 0.0
        for i in range(here, size):  # towards the effects
            w = names[i]
            if w == v:
                continue
            if rank[w] >= around.high[v]:
                break
            p = root[v] * root[w]
            b = taken[w]
            if b != 0.0:
                others += (b * left_by[i] - p * abs(b) + 0.5 * b * b) * sd[w] * sd[w]
            extra = abs(left_of[i]) - p
            if extra > 0:
                own = max(own, 0.5 * extra * extra * sd[v] * sd[v])
            if own - others > best:
                best, place = own - others, rank[w]
        gains[a - first], places[a - first] = best, place
        for e in range(in_ptr[v], in_ptr[v + 1]):
            given[in_names[e]] = 0.0
        for e in range(out_ptr[v], out_ptr[v + 1]):
            taken[out_names[e]] = 0.0
    return gains, places
