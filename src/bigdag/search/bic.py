"""The search over orders by the extended BIC.

Begins from the best of the starts and inserts variables where the sum of all costs falls most
(:mod:`bigdag.search.insertion`), on candidates that grow where the residuals ask for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from bigdag.engine import screening
from bigdag.engine.exceeding import exceeding_memory
from bigdag.engine.executor import Step, Task
from bigdag.engine.explained import r_squared_memory
from bigdag.engine.limits import Rules, no_rules
from bigdag.engine.regression import nothing_known, places_known
from bigdag.search import candidates, insertion, start_orders
from bigdag.search.ebic import least_squares
from bigdag.search.outside import Outside, outsiders

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram
    from bigdag.learners.run import Run

__all__ = [
    "InsertionSearch",
    "holds_correlations",
    "insertion_memory",
    "most_parents",
]

_BYTES_OF_A_PAIR = 12  # in the lists of every pair
_BYTES_OF_A_VARIABLE = 1200  # in lists of what is correlated, while longer ones are put together
_BYTES_OF_A_KNOWN = 16  # correlation that is kept
_ROUNDS = 8  # of candidates from paths of two arcs, at the most
_THOROUGH = 400  # variables up to which every look is: more take too long before the last round
_PARENTS = 256  # of a variable, at the most
_EXACT = 8  # variables up to which every order is weighed
_CHAINS = 4  # restarts that go on from the same order, side by side
_SHAKEN = 10  # variables moved at random for a restart
_ROUNDING = 1e-6  # of two BICs
_HELD = 5000  # variables up to which all correlations are held from the start, where they fit
_KNOWN = 64  # correlations of a variable, where they are not held, that are kept
_MOST_KNOWN = 2**26  # of all variables: 1 GB
_FITTED = (16, 512)  # variables that are fitted at a time, at least and at the most
_LOOKS = 64  # variables looked at between two looks at the clock


def insertion_memory(n: int, d: int, correlated: float | None = None) -> int:
    """Return about the bytes that a search by the extended BIC takes beside the moments.

    Parameters
    ----------
    n, d : int
        Samples and variables.
    correlated : float, optional
        The mean number of variables that one is correlated with, where it is known; else every
        pair of a table of up to 5,000 variables may become candidates.

    Examples
    --------
    >>> insertion_memory(1000, 500)
    2280000
    >>> insertion_memory(1000, 4000) > insertion_memory(1000, 4000, 10.0)
    True
    """
    if d <= candidates.EVERY_PAIR:
        lists = 4 * d * d + 2 * 4 * d * most_parents(n, d)
    else:  # candidates, correlations that are kept, and one look at half of the matrix
        known = 0 if d <= _HELD else _BYTES_OF_A_KNOWN * places_known(_most_known(d))
        lists = _BYTES_OF_A_VARIABLE * d + known + exceeding_memory(n, d)
        dense = correlated is None or candidates.takes_every_pair(d, correlated * d)
        if d <= candidates.EVERY_PAIR_DENSE and dense:
            lists = max(lists, _BYTES_OF_A_PAIR * d * d)
    return max(r_squared_memory(n, d), lists) + 8 * d * 64


def _most_known(d: int) -> int:
    """Return how many correlations that are not held are kept."""
    return min(_KNOWN * d, _MOST_KNOWN)


def holds_correlations(d: int) -> bool:
    """Tell whether a search holds all correlations from the start, where they fit.

    Of more variables it computes those that it reads, and holds them only where its candidates
    are so many that this is less work.
    """
    return d <= _HELD


def most_parents(n: int, d: int) -> int:
    """Return how many parents a variable may have."""
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
        self.limits = run.limits
        self._outside: Outside | None = None
        # Correlations that are worth an arc on their own; the others come in later.
        limit = np.sqrt(-np.expm1(-cost / gram.n_samples))
        causes = None if self.limits is None else self.limits.causes
        some = screening.correlated(gram, limit, candidates.MOST_CANDIDATES, causes)
        indptr, indices = self._lists(*some)
        large = gram.Z is not None and gram.d > candidates.EVERY_PAIR
        if large and candidates.is_rare(gram, limit):
            near = candidates.joined(*some) if self.limits is None else some
            cut = np.diff(some[0]) >= candidates.MOST_CANDIDATES
            self._outside = Outside(gram, *near, limit, cut, self.limits)
        if gram.C is None and candidates.asks_for_many(indptr):
            gram.hold()
        source, held = gram.source
        dense = candidates.needs_every_pair(gram.d, len(indices))
        if dense:
            indptr, indices = self._every_pair()
        self._has_every_pair = dense
        self._wants_every_pair = candidates.takes_every_pair(gram.d, len(indices))
        self.problem = insertion.Problem(
            source, held, float(gram.n_samples), cost, indptr, indices,
            no_rules() if self.limits is None else self.limits.rules,
        )  # fmt: skip
        # What the one thread that makes moves has computed before.
        self._known = nothing_known(0 if held else _most_known(gram.d))
        self.most = most_parents(gram.n_samples, gram.d)
        self.state = insertion.begin(np.arange(gram.d), self.most, self._room())
        self._begun = False  # whether the state is more than the empty graph
        self._halted = False
        # Variables whose candidates miss nothing, whatever is moved: what always comes last is
        # looked at again only where it got new candidates.
        self._missing = np.ones(gram.d, dtype=np.bool_)

    def _room(self) -> NDArray[np.int64]:
        """Return for how many parents of each variable there has to be room."""
        return np.minimum(np.diff(self.problem.indptr), self.most)

    def _alone(self) -> insertion.Problem:
        """Return the problem with what was computed before, for one thread."""
        return self.problem._replace(known=self._known)

    def _replace_candidates(self, indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> None:
        """Take other lists, which hold all the present parents."""
        self.problem = self.problem._replace(indptr=indptr, indices=indices)
        self.state = self.state.with_room(self._room())

    def weights_on(self, order: NDArray[np.int64]) -> sp.csc_array:
        """Return the regressions of each variable on parents before it in an order (d, d)."""
        return least_squares(self.gram, self.problem, self._fitted(order))

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
        if gram.d <= _EXACT and self.limits is None:
            self._exact()
            self._begun = True
            self._note("exact")
            return
        self.state = _least([self._fitted(order) for order in self.starts])
        self._begun = True
        if not self._note("start") and self._approach() and self._descend():
            self._restart()

    def _approach(self) -> bool:
        """Go down on few candidates first, which is quick; tell whether time was enough.

        Causes whose effects cancel are not correlated with what they cause. On correlated
        candidates alone the search explains it by other arcs, and does not find back. So every pair
        becomes a candidate where there are not too many variables. Else the ends of all paths of
        two arcs do, in rounds: the other arcs run along these.
        """
        if self._has_every_pair:
            return True
        before = np.inf
        for _ in range(_ROUNDS):
            finished, _moved = self._lower(self.gram.d <= _THOROUGH)
            if not finished:
                return False
            if self._wants_every_pair or self.state.total() > before - self.problem.arc_cost:
                break
            before = self.state.total()
            sizes = np.diff(self.problem.indptr)
            lists = self._lists(self.problem.indptr, self.problem.indices, self._two_steps())
            self._replace_candidates(*lists)
            grown = np.flatnonzero(np.diff(self.problem.indptr) > sizes)
            if not len(grown):
                break
            self._fit_still(grown)
            self._look_at(grown)
        if self._wants_every_pair:
            self._replace_candidates(*self._every_pair())
            self._has_every_pair, self._outside = True, None
            self._fit_still(np.arange(self.gram.d))
            self._look_at(slice(None))
        return True

    def _fit_still(self, variables: NDArray[np.int64]) -> None:
        """Fit anew those of some variables that no round of the descent looks at.

        With knowledge, what always comes first or last takes no part in the search.
        """
        if self.limits is None:
            return
        still = variables[~self.limits.moves[variables]]
        fit_all(self.gram, self.problem, self.state, still)

    def _two_steps(self) -> NDArray[np.int64]:
        """Return the pairs of variables that a path of two arcs joins, whatever their direction."""
        d = self.gram.d
        arcs = sp.coo_array((np.ones(int(self.state.counts.sum()), dtype=np.int32),
                             self.state.arcs()), shape=(d, d)).tocsr()  # fmt: skip
        near = sp.csr_array(arcs + arcs.T)
        few = np.diff(near.indptr) <= candidates.MOST_CANDIDATES  # of a hub all would be ends
        between = np.flatnonzero(few)
        paths = sp.coo_array(near[:, between] @ near[between])
        once = paths.row < paths.col
        return np.column_stack([paths.row[once], paths.col[once]]).astype(np.int64)

    def _every_pair(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return candidates.every_pair(self.gram.sd > 0, self.limits)

    def _lists(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        pairs: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return candidates.possible(self.limits, self.gram.sd > 0, indptr, indices, pairs)

    def _look_at(self, variables: Any) -> None:
        """Begin a round that looks at these variables, too."""
        self.state.dirty[variables] = True
        self.state.queue[:] = self.state.order
        self.state.cursor[0] = 0

    def _fitted(self, order: NDArray[np.int64]) -> insertion.State:
        state = insertion.begin(self.run.possible(order), self.most, self._room())
        fit_all(self.gram, self.problem, state, np.arange(self.gram.d))
        return state

    def _descend(self) -> bool:
        """Go down to an order that no insertion improves, on candidates that miss no arc."""
        closed = False  # whether the candidates miss nothing
        thorough = self.gram.d <= _THOROUGH
        while True:
            whole = bool(self.state.dirty.all())
            finished, moved = self._lower(thorough)
            if not finished:
                return False
            if moved or not closed:
                closed = not self._widen()
                if not closed:
                    thorough = self.gram.d <= _THOROUGH
                    continue
            if thorough and whole and not moved:
                return True
            # What a variable would gain also depends on who precedes its neighbours, which moves
            # do not mark: only a thorough round of all without a move proves the optimum.
            self.state.dirty[:] = True
            thorough = True

    def _lower(self, thorough: bool) -> tuple[bool, int]:
        """Make insertions until none is left; tell whether time was enough, and how many."""
        done, moved = False, 0
        step = self.gram.step("descent", thorough, *self._beginning())
        if step.found is not None:
            self.state.load(step.found[:-1])
            done, moved = bool(step.found[-1][0]), int(step.found[-1][1])
        workspace = insertion.new_workspace(self.problem, self.state)
        while not done:
            done, more = self._some_looks(thorough, workspace)
            moved += more
            ended = (more and self._note("insertion")) or self.run.out_of_time()
            self._keep(step, done, moved)
            if ended:
                return False, moved
        return True, moved

    def _keep(self, step: Step, done: bool, moved: int) -> None:
        step.keep(lambda: (*self.state.saved(), [done, moved]))

    def _beginning(self) -> tuple[Any, ...]:
        """Return all that decides what the search does next."""
        problem = self.problem
        return problem.arc_cost, problem.indptr, problem.indices, *self.state.saved()

    def _some_looks(self, thorough: bool, workspace: insertion.Workspace) -> tuple[bool, int]:
        """Look at a quarter of the variables, or until time is up; as `insertion.descend`."""
        done, moved, looks = False, 0, max(_LOOKS, self.gram.d // 4)
        while not done and looks > 0 and not self.run.out_of_time():
            done, more = insertion.descend(
                self._alone(), self.state, min(looks, _LOOKS), thorough, workspace
            )
            moved += more
            looks -= _LOOKS
        return done, moved

    def _widen(self) -> bool:
        """Add to the candidates what would help from outside of them; tell whether any."""
        pairs = self._helpful()
        if not len(pairs):
            return False
        self._replace_candidates(*self._lists(self.problem.indptr, self.problem.indices, pairs))
        insertion.fit(self._alone(), self.state, np.unique(pairs[:, 1]))
        self._look_at(pairs.ravel())
        return True

    def _helpful(self) -> NDArray[np.int64]:
        """Return pairs (u, v): u comes before v, is no candidate of it, and would help it."""
        gram = self.gram
        if self._has_every_pair:
            return np.empty((0, 2), dtype=np.int64)
        if self._outside is not None:
            step = gram.step("look", *self._beginning(), *self._outside.saved())
            if step.found is not None:
                self._outside.load(self.state, step.found[1])
                return step.found[0]
            found = self._outside.look(self.problem, self.state, self.run.out_of_time)
            if found is None:
                return np.empty((0, 2), dtype=np.int64)
            again = self._outside.saved()[-1]
            step.keep(lambda: (found, again))
            return found
        among = everyone = np.arange(gram.d)
        if self.limits is not None:
            among, everyone = self.limits.causes, np.flatnonzero(self._missing)
        look = partial(outsiders, self.problem, self.state, everyone, among, 10)
        pairs = np.concatenate([np.empty((0, 2), dtype=np.int64), *gram.each(look, len(everyone))])
        if self.limits is not None:
            self._missing = self.limits.moves.copy()
            self._missing[pairs[:, 1]] = True
        return pairs

    def _restart(self) -> None:
        """Shake the order and descend again, several times side by side; keep what is better."""
        run, wanted = self.run, self.restarts
        done, d = 0, self.gram.d
        places = np.arange(d)
        if self.limits is not None:  # those that take part in the search stand together
            places = np.flatnonzero(self.limits.moves[self.state.order])
            if not len(places):
                return
        d = len(places)
        step, first = self.gram.step("restarts", *self._beginning()), self.problem
        pending = False  # whether chains are done, and the descent from the best is not
        if step.found is not None:
            done, pending = self._load_restarts(step.found)
        while wanted is None or done < wanted:
            count = _CHAINS if wanted is None else min(_CHAINS, wanted - done)
            size = min(d, _SHAKEN)
            whole = better = pending
            if not pending:
                draws = [
                    (places[run.rng.integers(d, size=size)], run.rng.random(size))
                    for _ in range(count)
                ]
                best = _least([self.state, *self._chains(draws)])
                whole, better = not run.out_of_time(), best is not self.state
                self.state = best
                if whole and better:
                    self._keep_restarts(step, first, done, True)
            pending = False
            if better and not self._descend():
                return
            done += count
            ended = self._note("restart")
            if whole:
                self._keep_restarts(step, first, done, False)
            if ended:
                return

    def _keep_restarts(
        self, step: Step, first: insertion.Problem, done: int, pending: bool
    ) -> None:
        """Keep how far the restarts have come, in place of what was kept of them before."""

        def made() -> tuple[Any, ...]:
            generator = json.dumps(self.run.rng.bit_generator.state).encode()
            lists = self.problem.indptr, self.problem.indices
            if self.problem.indices is first.indices:  # as at the beginning, and may be long
                lists = lists[0][:0], lists[1][:0]
            seen = () if self._outside is None else self._outside.saved()
            return (
                [done, pending], np.frombuffer(generator, np.uint8), self._missing, *lists,
                *self.state.saved(), *seen,
            )  # fmt: skip

        step.keep(made)

    def _load_restarts(self, found: tuple[NDArray[Any], ...]) -> tuple[int, bool]:
        """Go on from what was kept; return how many were done, and whether a descent is due."""
        (done, pending), generator, self._missing, indptr, indices, *rest = found
        self.run.rng.bit_generator.state = json.loads(generator.tobytes())
        if len(indptr):
            self._replace_candidates(indptr, indices)
        parts = len(self.state.saved())
        self.state.load(tuple(rest[:parts]))
        if self._outside is not None and rest[parts:]:
            self._outside.go_on_from(*rest[parts:])
        return int(done), bool(pending)

    def _chains(self, draws: list[Any]) -> list[insertion.State]:
        try:
            return self.gram.each(lambda a, b: self._chain(draws[a]), len(draws), chunk=1)  # noqa: ARG005
        except BaseException:
            self._halted = True  # an interrupt need not wait for the chains under way
            raise

    def _chain(self, draw: tuple[NDArray[np.int64], NDArray[np.float64]]) -> insertion.State:
        state = self.state.copy()
        insertion.shake(self.problem, state, *draw)
        done, workspace = False, insertion.new_workspace(self.problem, state)
        thorough = self.gram.d <= _THOROUGH
        while not done and not self._halted and not self.run.out_of_time():
            done, _ = insertion.descend(self.problem, state, _LOOKS, thorough, workspace)
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
                        cost = n * np.log(max(share, 1e-12)) + self.problem.arc_cost * len(P)
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
            self.state.counts[v], self.state.costs[v] = len(P), costs[v, before]
            self.state.parents_of(v)[:] = P
            before |= 1 << int(v)


def fit_all(
    gram: Gram, problem: insertion.Problem, state: insertion.State, variables: NDArray[np.int64]
) -> None:
    """Fit many variables in the present order, as `insertion.fit` does, in pieces; in place."""
    task = _Regressions(
        variables, problem.n, problem.arc_cost, problem.indptr, problem.indices, problem.rules,
        state.order, state.begins, state.counts, state.parents, state.most,
    )  # fmt: skip
    chunk = max(_FITTED[0], min(_FITTED[1], len(variables) // 64))
    for number, found in enumerate(gram.spread(task, len(variables), chunk)):
        assert found is not None
        counts, costs, parents = found
        block = variables[number * chunk : (number + 1) * chunk]
        state.counts[block], state.costs[block], state.factor_at[block] = counts, costs, -1
        at = np.repeat(state.begins[block] - (np.cumsum(counts) - counts), counts)
        state.parents[at + np.arange(len(parents))] = parents


@dataclass(frozen=True)
class _Regressions(Task):
    """The regressions of variables on candidates before them in an order."""

    variables: NDArray[np.int64]
    n: float
    arc_cost: float
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    rules: Rules
    order: NDArray[np.int64]
    begins: NDArray[np.int64]
    counts: NDArray[np.int64]
    parents: NDArray[np.int32]
    most: int

    def prepare(self, gram: Gram) -> tuple[insertion.Problem, insertion.State]:
        """Return the problem, and a state that the pieces write to, each its own variables."""
        problem = insertion.Problem(
            *gram.source, self.n, self.arc_cost, self.indptr, self.indices, self.rules
        )
        state = insertion.begin(self.order, self.most, np.diff(self.begins))
        state.counts[:], state.parents[:] = self.counts, self.parents
        return problem, state

    def piece(
        self,
        gram: Gram,  # noqa: ARG002
        prepared: tuple[insertion.Problem, insertion.State],
        first: int,
        last: int,
        stop: Callable[[], bool] | None,  # noqa: ARG002
    ) -> tuple[NDArray[Any], ...]:
        """Return how many parents each variable has, what it costs, and the parents."""
        (problem, state), block = prepared, self.variables[first:last]
        insertion.fit(problem, state, block)
        counts = state.counts[block]
        parents = [state.parents_of(v) for v in block]
        return counts, state.costs[block], np.concatenate([np.empty(0, dtype=np.int32), *parents])


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
