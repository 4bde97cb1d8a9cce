"""The search over orders by the extended BIC.

Begins from the best of the starts and inserts variables where the sum of all costs falls most
(:mod:`bigdag.search.insertion`), on candidates that grow where the residuals ask for it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from bigdag.engine import screening
from bigdag.search import insertion, start_orders
from bigdag.search.ebic import least_squares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram
    from bigdag.learners.run import Run

__all__ = ["InsertionSearch", "insertion_memory"]

_CANDIDATES = 512  # of a variable, at the most
_ALL = 2000  # variables up to which every pair becomes candidates
_DENSE = 0.2  # of all pairs: with more that are correlated, every pair is from the beginning
_PARENTS = 256  # of a variable, at the most
_EXACT = 8  # variables up to which every order is weighed
_CHAINS = 4  # restarts that go on from the same order, side by side
_SHAKEN = 10  # variables moved at random for a restart
_ROUNDING = 1e-6  # of two BICs
_LOOKS = 64  # variables looked at between two looks at the clock


def insertion_memory(n: int, d: int) -> int:
    """Return about the bytes that a search by the extended BIC takes beside the moments.

    Examples
    --------
    >>> insertion_memory(1000, 500)
    2280000
    """
    r_squared = 8 * (d * d if n > d else n * n)
    candidates = 4 * d * (d if d <= _ALL else 64)
    states = 2 * 4 * d * _most_parents(n, d)
    return max(r_squared, candidates + states) + 8 * d * 64


def _most_parents(n: int, d: int) -> int:
    return max(1, min(d - 1, (n - 1) // 3, _PARENTS))


class InsertionSearch:
    """The search that lowers the extended BIC.

    Parameters
    ----------
    run : Run
        Where the answers and the steps go.
    gram : Gram
        The second moments: those of the run, or of a part of its rows.
    cost : float
        Of an arc.
    starts : list of ndarray
        Orders to begin from, of which the best is taken.
    restarts : int or None, default=0
        As of OrderSearch.
    phase : str, optional
        What every step is called, in place of what it does.
    """

    def __init__(
        self,
        run: Run,
        gram: Gram,
        cost: float,
        starts: list[NDArray[np.int64]],
        restarts: int | None = 0,
        phase: str | None = None,
    ) -> None:
        self.run, self.gram, self.starts = run, gram, starts
        self.restarts, self.phase = restarts, phase
        source, held = gram.source
        # Correlations that are worth an arc on their own; the others come in later.
        limit = np.sqrt(-np.expm1(-cost / gram.n_samples))
        indptr, indices = _symmetric(*screening.correlated(gram, limit, _CANDIDATES))
        dense = len(indices) > _DENSE * gram.d**2
        if gram.d <= _ALL and dense:
            indptr, indices = self._every_pair()
        self._begins_small = gram.d <= _ALL and not dense
        self.problem = insertion.Problem(source, held, float(gram.n_samples), cost, indptr, indices)
        self.most = _most_parents(gram.n_samples, gram.d)
        self.state = insertion.begin(np.arange(gram.d), self.most)
        self._begun = False  # whether the state is more than the empty graph
        self._halted = False

    def hand_over(self) -> None:
        """Make the present state the answer."""
        if not self._begun:
            return
        weights = least_squares(self.gram, self.problem, self.state)
        self.run.answer_with(weights, self.state.order.copy())

    def _note(self, phase: str) -> bool:
        self.hand_over()
        run = self.run
        weights = run.best_weights
        return run.step(self.phase or phase, run.best_objective, weights.nnz, lambda: weights)

    def work(self) -> None:
        """Begin from the best start, descend, look outside the candidates, and go on."""
        gram = self.gram
        if gram.d <= _EXACT:
            self._exact()
            self._begun = True
            self._note("exact")
            return
        self.state = _least([self._fitted(order) for order in self.starts])
        self._begun = True
        if not self._note("start") and self._begin_small() and self._descend():
            self._restart()

    def _begin_small(self) -> bool:
        """Go down on the few candidates, which is quick, and then make every pair candidates.

        Causes whose effects cancel are not correlated with what they cause. On the few candidates
        alone the search would explain it by other arcs, and not find back.
        """
        if not self._begins_small:
            return True
        finished, _ = self._lower()
        indptr, indices = self._every_pair()
        self.problem = self.problem._replace(indptr=indptr, indices=indices)
        self._look_at(slice(None))
        return finished

    def _every_pair(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        varies = self.gram.sd > 0
        live = np.flatnonzero(varies).astype(np.int32)
        others = max(0, len(live) - 1)
        indices = np.empty((len(live), others), dtype=np.int32)
        for a in range(len(live)):
            indices[a, :a], indices[a, a:] = live[:a], live[a + 1 :]
        indptr = np.concatenate([[0], np.cumsum(varies * others)])
        return indptr.astype(np.int64), indices.ravel()

    def _look_at(self, variables: Any) -> None:
        """Begin a round that looks at these variables, too."""
        self.state.dirty[variables] = True
        self.state.queue[:] = self.state.order
        self.state.cursor[0] = 0

    def _fitted(self, order: NDArray[np.int64]) -> insertion.State:
        state = insertion.begin(order, self.most)
        self.gram.each(
            lambda a, b: insertion.fit(self.problem, state, np.arange(a, b)), self.gram.d
        )
        return state

    def _descend(self) -> bool:
        """Go down to an order that no insertion improves, on candidates that miss no arc."""
        closed = False  # whether the candidates miss nothing
        while True:
            whole = bool(self.state.dirty.all())
            finished, moved = self._lower()
            if not finished:
                return False
            if moved or not closed:
                closed = not self._widen()
                if not closed:
                    continue
            if whole and not moved:
                return True
            # What a variable would gain also depends on who precedes its neighbours, which moves
            # do not mark: only a round of all without a move proves the optimum.
            self.state.dirty[:] = True

    def _lower(self) -> tuple[bool, int]:
        """Make insertions until none is left; tell whether time was enough, and how many."""
        done, moved = False, 0
        while not done:
            done, more = self._some_looks()
            moved += more
            if (more and self._note("insertion")) or self.run.out_of_time():
                return False, moved
        return True, moved

    def _some_looks(self) -> tuple[bool, int]:
        """Look at a quarter of the variables, or until time is up; as `insertion.descend`."""
        done, moved, looks = False, 0, max(_LOOKS, self.gram.d // 4)
        while not done and looks > 0 and not self.run.out_of_time():
            done, more = insertion.descend(self.problem, self.state, min(looks, _LOOKS))
            moved += more
            looks -= _LOOKS
        return done, moved

    def _widen(self) -> bool:
        """Add to the candidates what would help from outside of them; tell whether any."""
        gram = self.gram
        found = gram.each(partial(insertion.outsiders, self.problem, self.state, 10), gram.d)
        pairs = np.concatenate([np.empty((0, 2), dtype=np.int64), *found])
        if not len(pairs):
            return False
        indptr, indices = _symmetric(self.problem.indptr, self.problem.indices, pairs)
        self.problem = self.problem._replace(indptr=indptr, indices=indices)
        insertion.fit(self.problem, self.state, np.unique(pairs[:, 1]))
        self._look_at(pairs.ravel())
        return True

    def _restart(self) -> None:
        """Shake the order and descend again, several times side by side; keep what is better."""
        run, wanted = self.run, self.restarts
        done, d = 0, self.gram.d
        while wanted is None or done < wanted:
            count = _CHAINS if wanted is None else min(_CHAINS, wanted - done)
            size = min(d, _SHAKEN)
            draws = [(run.rng.integers(d, size=size), run.rng.random(size)) for _ in range(count)]
            tried = self._chains(draws)
            best = _least([self.state, *tried])
            if best is not self.state:
                self.state = best
                if not self._descend():
                    return
            done += count
            if self._note("restart"):
                return

    def _chains(self, draws: list[Any]) -> list[insertion.State]:
        try:
            return self.gram.each(lambda a, b: self._chain(draws[a]), len(draws), chunk=1)  # noqa: ARG005
        except BaseException:
            self._halted = True  # an interrupt need not wait for the chains under way
            raise

    def _chain(self, draw: tuple[NDArray[np.int64], NDArray[np.float64]]) -> insertion.State:
        state = self.state.copy()
        insertion.shake(self.problem, state, *draw)
        done = False
        while not done and not self._halted and not self.run.out_of_time():
            done, _ = insertion.descend(self.problem, state, _LOOKS)
        return state

    def _exact(self) -> None:
        """Weigh every order and every set of parents."""
        d, n = self.gram.d, self.gram.n_samples
        C = self.gram.block(np.arange(d), np.arange(d))
        live = self.gram.sd > 0
        costs, chosen = np.zeros((d, 2**d)), np.zeros((d, 2**d), dtype=np.int64)
        for v in range(d):
            for s in range(2**d):
                P = [u for u in range(d) if s >> u & 1]
                cost = np.inf
                if v not in P and len(P) <= self.most and live[P].all() and live[v]:
                    factor = _factor(C[np.ix_(P, P)])
                    if factor is not None:
                        share = 1.0 - np.sum(np.linalg.solve(factor, C[P, v]) ** 2)
                        cost = n * np.log(max(share, 1e-12)) + self.problem.penalty * len(P)
                elif not P:
                    cost = 0.0
                best = s
                for u in P:  # the best subset without u
                    if costs[v, s ^ (1 << u)] <= cost:
                        cost, best = costs[v, s ^ (1 << u)], chosen[v, s ^ (1 << u)]
                costs[v, s], chosen[v, s] = cost, best
        order = start_orders.optimal_order(costs)
        self.state = insertion.begin(order, self.most)
        before = 0
        for v in order:
            best = chosen[v, before]
            P = [u for u in range(d) if best >> u & 1]
            self.state.parents[v, : len(P)] = P
            self.state.counts[v], self.state.costs[v] = len(P), costs[v, before]
            before |= 1 << int(v)


def _least(states: list[insertion.State]) -> insertion.State:
    """Return the state with the least score; of those that differ by rounding, the first."""
    best = states[0]
    for state in states[1:]:
        if state.total() < best.total() - _ROUNDING:
            best = state
    return best


def _factor(C: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the Cholesky factor, or None where a variable is a copy of the others."""
    try:
        factor: NDArray[np.float64] = np.linalg.cholesky(C).astype(np.float64)
    except np.linalg.LinAlgError:
        return None
    return factor if not len(C) or np.diag(factor).min() > 3e-5 else None


def _symmetric(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    pairs: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return lists that hold each pair both ways, with more pairs added."""
    d = len(indptr) - 1
    row, col = np.repeat(np.arange(d), np.diff(indptr)), indices.astype(np.int64)
    if pairs is not None:
        row, col = np.concatenate([row, pairs[:, 0]]), np.concatenate([col, pairs[:, 1]])
    both = sp.coo_array((np.ones(2 * len(row), dtype=np.int8),
                         (np.concatenate([row, col]), np.concatenate([col, row]))),
                        shape=(d, d)).tocsr()  # fmt: skip
    both.sort_indices()
    return both.indptr.astype(np.int64), both.indices.astype(np.int32)
