"""The search over orders by equation (1).

Begins from the best of the starts, lets in candidates that the residuals ask for, and moves
variables until nothing is gained; the moves are those of :mod:`bigdag.search.arrangement`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from bigdag.compiled import kernel
from bigdag.engine import lasso, screening
from bigdag.engine.exceeding import Residuals, exceeding
from bigdag.engine.objective import losses, on_correlation_scale
from bigdag.engine.order import rank_of
from bigdag.search import start_orders
from bigdag.search.arrangement import Arrangement
from bigdag.search.ebic import choose_lambda1

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.learners.order_search import OrderSearch
    from bigdag.learners.run import Run

__all__ = ["LeastSquaresSearch"]

_CORRELATED = 4.0  # over √n: correlations with a residual that make a candidate parent
_LET_IN = 10  # more of them at a time, where the residuals say so
_EXACT = 8  # variables up to which every order is weighed


class LeastSquaresSearch:
    """The search that lowers equation (1)."""

    def __init__(self, learner: OrderSearch, run: Run) -> None:
        self.learner, self.run = learner, run
        self.mask: sp.csc_array | None = None

    def hand_over(self) -> None:
        """Nothing to do: the run holds the best of what it was offered."""

    def work(self) -> None:
        """Choose the start and move variables until nothing is gained."""
        if self.begin():
            self.improve()

    def begin(self) -> bool:
        """Fit the best of the starts; tell whether there is time to go on from it."""
        run, gram, learner = self.run, self.run.gram, self.learner
        support = None
        if learner._confined(gram.d):
            among = None if run.limits is None else run.limits.causes
            support, self.mask = screening.candidates(
                gram, learner.candidates == "correlated", among
            )
            if run.limits is not None:
                support = None  # an order is read off all correlations
                self.mask = run.limits.mask(self.mask)
        found = [run.possible(o) for o in learner._orders(run, ["least_variance"], support)]
        if isinstance(learner.lambda1, str):
            step = gram.step("lambda1", found[0], self.mask, learner.gamma, learner.penalty_)
            if step.found is None:
                run.lambda1 = choose_lambda1(
                    gram, found[0], mask=self.mask, gamma=learner.gamma, factor=learner.penalty_,
                    limits=run.limits, stop=run.out_of_time,
                )  # fmt: skip
                if not run.out_of_time():
                    step.keep(lambda: ([run.lambda1],))
            else:
                run.lambda1 = float(step.found[0][0])
            run.answer_with(run.best_weights, run.best_order)  # its equation (1) has changed
        if self._is_exact():
            found = [start_orders.optimal_order(self._all_costs())]
        best: Arrangement | None = None
        for order in found:
            tried = self._arranged(order, None if best is None else best.weights)
            if self._note("start", tried):
                return False
            if best is None or tried.value < best.value:
                best = tried
        assert best is not None
        columns = np.arange(gram.d)
        while len(columns := self._widen(best, columns)):
            if self._note("start", best):
                return False
        self._best = best
        return not run.out_of_time()

    def improve(self) -> None:
        """Move variables in the order until nothing is gained."""
        if not self._is_exact():
            self._improve(self._best)

    def _is_exact(self) -> bool:
        """Tell whether every order is weighed."""
        run = self.run
        return run.gram.d <= _EXACT and self.mask is None and run.limits is None

    def _arranged(self, order: NDArray[np.int64], start: sp.csc_array | None) -> Arrangement:
        run = self.run
        return Arrangement(
            run.gram, run.lambda1, order, mask=self.mask, start=start, tol=self.learner.tol,
            limits=run.limits, stop=run.out_of_time,
        )  # fmt: skip

    def _widen(self, arrangement: Arrangement, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Let in what is correlated with the residuals, though not with the variables themselves.

        Returns which of the columns have new candidates.
        """
        if self.mask is None:
            return columns[:0]
        look = self._outside_of_rows if self.run.gram.Z is None else self._outside_of_tiles
        pairs = look(arrangement, columns)
        if self.run.out_of_time() or not len(pairs):
            return columns[:0]
        sources, targets = pairs.T
        more = sp.coo_array(
            (np.ones(len(pairs), dtype=np.int8), (sources, targets)), shape=self.mask.shape
        )
        self.mask = sp.csc_array(self.mask + sp.csc_array(more))
        arrangement.widen(self.mask, np.unique(targets))
        room = np.diff(self.mask.indptr) <= lasso.FEW - _LET_IN
        return np.intersect1d(columns[room[columns]], targets)

    def _outside_of_tiles(
        self, arrangement: Arrangement, columns: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return pairs (u, v) as `_outside` does, each pair computed in one direction only."""
        gram, run, order = self.run.gram, self.run, arrangement.order
        assert self.mask is not None
        rank = rank_of(order)
        rows = columns[np.argsort(rank[columns])]
        B = on_correlation_scale(gram, arrangement.weights)
        begins = B.indptr.astype(np.int64)
        coefficients = (begins[:-1], begins[1:], B.indices.astype(np.int64), B.data)
        limits = np.full(len(rows), _CORRELATED / np.sqrt(gram.n_samples))
        found = exceeding(
            gram, rows, order, limits, rank[rows],
            Residuals(*coefficients, rows), run.out_of_time,
        )  # fmt: skip
        if found is None:
            return np.empty((0, 2), dtype=np.int64)
        targets, sources = rows[found.row], found.column
        fresh = ~_inside(self.mask, sources, targets)
        if run.limits is not None:
            fresh &= run.limits.pairs(sources, targets)
        keep = np.flatnonzero(fresh)
        keep = keep[np.lexsort((sources[keep], -np.abs(found.value[keep]), found.row[keep]))]
        place = np.arange(len(keep)) - np.searchsorted(found.row[keep], found.row[keep])
        keep = keep[place < _LET_IN]
        return np.column_stack([sources[keep], targets[keep]])

    def _outside_of_rows(
        self, arrangement: Arrangement, columns: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return pairs (u, v) as `_outside` does, from correlations that are held."""
        gram, rank = self.run.gram, rank_of(arrangement.order)
        assert self.mask is not None
        B = on_correlation_scale(gram, arrangement.weights)
        share = 2 * losses(gram, arrangement.weights) * gram.inverse_sd**2  # of the variances
        limit = _CORRELATED / np.sqrt(gram.n_samples) * np.sqrt(np.maximum(share, 0.0))
        lists = (self.mask.indptr.astype(np.int64), self.mask.indices.astype(np.int64))
        found = []
        for block in gram.blocks(columns):
            part = sp.csc_array(B[:, block])
            left = gram.residual_rows(
                block, part.indptr.astype(np.int64), part.indices.astype(np.int64), part.data
            )
            if self.run.limits is not None:
                left[~self.run.limits.parents(block)] = 0.0
            work = partial(_outside, left, block, rank, limit, *lists, _LET_IN)
            found += gram.each(work, len(block))
            if self.run.out_of_time():
                break
        return np.concatenate([np.empty((0, 2), dtype=np.int64), *found])

    def _note(self, phase: str, arrangement: Arrangement) -> bool:
        weights, run = arrangement.weights, self.run
        _, order, value = self._answer(arrangement)
        run.offer(weights, order, value)
        value = run.best_objective if value is None else value
        return run.step(phase, value, weights.nnz, lambda: weights) or run.out_of_time()

    def _answer(
        self, arrangement: Arrangement
    ) -> tuple[sp.csc_array, NDArray[np.int64], float | None]:
        """Return an arrangement as `Run.offer` takes it."""
        value = arrangement.value if arrangement.complete else None
        return arrangement.weights, arrangement.order, value

    def _improve(self, arrangement: Arrangement) -> None:
        """Insert while much is gained, turn arcs, then swap neighbours until that gains nothing."""
        run = self.run
        if not arrangement.improve(lambda phase: self._note(phase, arrangement)):
            return
        run.offer(*self._answer(arrangement))  # moves of a fit before were not noted
        swapped, parity = 0, 0
        step = run.gram.step("swaps", run.lambda1, *arrangement.saved())
        if step.found is not None:
            arrangement.load(step.found[:-1])
            swapped, parity = step.found[-1].tolist()
            run.offer(*self._answer(arrangement))
        while True:
            if len(moves := arrangement.swaps(parity)):
                swapped += int(arrangement.attempt(moves).sum())
                if self._note("swap", arrangement):
                    return
            parity = 1 - parity
            if parity == 0:
                if not swapped:
                    return
                swapped = 0
            step.keep(partial(_with_place, arrangement, swapped, parity))

    def _all_costs(self) -> NDArray[np.float64]:
        """Return what each variable costs after every set of others (d, 2**d)."""
        gram, d = self.run.gram, self.run.gram.d
        members = (np.arange(2**d)[:, None] >> np.arange(d) & 1).astype(bool)
        chosen, columns = np.nonzero(~members)  # a set, and who may come after it
        nothing = [np.empty(0, dtype=np.int64)] * len(columns), [np.empty(0)] * len(columns)
        tol = min(self.learner.tol, 1e-8)
        costs = np.zeros((d, 2**d))
        costs[columns, chosen] = lasso.solve_sets(
            gram, self.run.lambda1, columns, members[chosen], nothing, tol=tol
        )[2]
        return costs


def _with_place(arrangement: Arrangement, *place: int) -> tuple[Any, ...]:
    """Return what swaps go on from: the arrangement, and where they are."""
    return *arrangement.saved(), place


def _inside(
    mask: sp.csc_array, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell which entries a mask with sorted indices has."""
    d = mask.shape[0]
    there = np.repeat(np.arange(d), np.diff(mask.indptr)) * d + mask.indices
    wanted = columns * d + rows
    at = np.minimum(np.searchsorted(there, wanted), max(0, len(there) - 1))
    return there[at] == wanted if len(there) else np.zeros(len(wanted), dtype=np.bool_)


@kernel
def _outside(left, block, rank, limit, indptr, indices, keep, first, last):  # type: ignore[no-untyped-def]
    """Return pairs (u, v): u precedes v, is no candidate, and correlates with its residual.

    At most the ``keep`` strongest of each v, as the rows of an array.
    """
    d = left.shape[1]
    pairs = np.empty((keep * (last - first), 2), dtype=np.int64)
    total = 0
    size = np.empty(d)
    for a in range(first, last):
        v = block[a]
        for u in range(d):
            size[u] = abs(left[a, u]) if rank[u] < rank[v] else 0.0
        for e in range(indptr[v], indptr[v + 1]):
            size[indices[e]] = 0.0
        count = 0
        for u in range(d):
            count += size[u] > limit[v]
        for _ in range(min(count, keep)):
            best = 0
            for u in range(1, d):
                if size[u] > size[best]:
                    best = u
            pairs[total, 0], pairs[total, 1] = best, v
            total += 1
            size[best] = 0.0
    return pairs[:total]
