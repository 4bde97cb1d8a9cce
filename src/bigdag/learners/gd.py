"""GD: gradient steps, projections on acyclic graphs, and a lasso on each order (Park & Klabjan).

One iteration of "Bayesian network learning via topological order" (2017), as section 3 of the paper
describes it: a gradient step on equation (1) from the present acyclic W, the maximum acyclic
subgraph of where that leads, and the lasso on its order. When that no longer lowers equation (1),
single variables change their place in the order.

The step. In the units of the data a step 1/L never arrives, so the gradient is scaled by the
variances: ``W̃ = soft(W − t·D⁻¹S(W − I), t·λ1·D⁻¹)`` with D the diagonal of S, the step of
coordinate descent for t = 1. As W solves the lasso on its order, the arcs that go forward stay as
they are; those against the order that would lower equation (1) come in. The projection is taken in
the metric of D, where ``D_i W̃_ij²`` is twice what the arc gains: the heaviest acyclic subgraph is
the order that promises most. It is searched from the present order, which a greedy order from
nothing would forget. A step that does not pay is halved.

The swaps. Where no step pays, variables are inserted where a bound says that it pays, and arcs are
turned round, many at once (:mod:`bigdag.search.arrangement`). Then single variables are inserted at
their best place in the order, with the lassos of all columns that this touches solved again
(:mod:`bigdag.search.best_insertion`), until a round over all variables finds no better place for
any: no insertion, and so no swap of two neighbours, is left that lowers equation (1).

The restarts. From the best order a few variables are put at random places, and the swaps begin
again; what is lower in equation (1) is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bigdag.engine import lasso, objective
from bigdag.engine.order import project, rank_of
from bigdag.graph.acyclic import topological_order
from bigdag.graph.feedback_arc_set import greedy_order, improve_order
from bigdag.learners.base import Learner
from bigdag.learners.parameters import Number
from bigdag.learners.run import Run, State
from bigdag.search.arrangement import Arrangement
from bigdag.search.best_insertion import OrderedLasso

__all__ = ["GD"]

_HALVINGS = 4  # steps tried, each half as long, before the swaps
_LEAST_PENALTY = 1e-10  # on the correlation scale, as in the lasso
_WORTH = 1e-2  # of tol: the share of equation (1) that an insertion has to gain
_LOOKS = 64  # variables that look for a better place between two notes in the history
_SHAKEN = 5  # variables put at random places for a restart
_RESTARTS = 5  # without gain, where there is no time limit


class GD(Learner):
    """Learn a DAG by gradient steps, projections and a lasso on each order (Park & Klabjan 2017).

    Parameters
    ----------
    lambda1 : float, default=0.1
        The weight of the L1 norm in equation (1).
    n_restarts : int, optional
        Restarts that together gain less than the share ``tol`` of equation (1), after which the fit
        has converged; 0 ends it at the first order that no insertion improves. By default 5, and
        with a time limit as many as fit into it.
    tol : float, default=1e-4
        The share of equation (1) that a gradient step has to gain, and the restarts together; an
        insertion has to gain a hundredth of it.
    max_iter : int, optional
        Iterations at the most: gradient steps, rounds of insertions or reversals, and restarts.
    time_limit : float, optional
        Seconds at the most; the fit ends with the best graph so far. Unless ``n_restarts`` says
        otherwise all of it is used, except where no graph at all can be better.
    random_state : int, Generator or None, default=None
        Seed of the restarts.
    callback : callable, optional
        Called with a :class:`~bigdag.learners.run.State` after each iteration; True ends the fit.
    warm_start_dag : DAG or matrix of shape (d, d), optional
        Whose order to begin from, for instance another learner's ``dag_``; by default that of the
        lasso without acyclicity.
    knowledge : Knowledge, optional
        What is known beforehand, see :class:`~bigdag.Knowledge`; kept exactly.
    n_jobs : int, optional
        Threads; all cores by default.
    memory_limit : float or str, optional
        Bytes, or text such as "4GB"; by default four fifths of the free memory.
    verbose : bool, default=False
        Whether to log progress; a notebook also shows a bar.

    Attributes
    ----------
    dag_ : DAG
        The answer.
    weights_ : csc_array of shape (d, d)
        Its weights, ``W[i, j]`` for the arc i → j.
    order_ : ndarray of shape (d,)
        The variables, causes first.
    objective_ : float
        Equation (1) of the answer.
    history_ : DataFrame
        One row an iteration: phase, iteration, seconds, objective, arcs. The phases are "fit" (the
        lasso without acyclicity), "order" (the lasso on the first order), "gradient", "insertion"
        (some variables have moved; at the end of the descent up to 64 have looked for their best
        place), "reversal" (arcs turned round), "proof" (every variable has looked at every place,
        and none has moved) and "restart", with the best equation (1) so far.
    status_ : str
        One of converged, max_iter, time_limit, interrupted, diverged. Converged means: moving one
        variable to any other place of the order, all others staying, lowers equation (1) by no more
        than the share ``0.01 * tol``, with the lasso solved anew, and the last ``n_restarts``
        restarts have not lowered it by the share ``tol`` either. Or it is that of the lasso without
        acyclicity, up to ``tol``, below which no graph is. A row "proof" of the history says that
        the first of these holds for the graph of that moment, whatever ended the fit.
    n_iter_ : int
        The number of iterations.
    noise_variances_ : ndarray of shape (d,)
        What is left of each variance.

    References
    ----------
    Park & Klabjan, Bayesian network learning via topological order, JMLR 18, 2017.

    Examples
    --------
    >>> from bigdag import GD, metrics, simulate
    >>> truth = simulate.random_dag(30, 1, rng=0)
    >>> model = GD(random_state=0).fit(simulate.sample(truth, 1000, rng=1))
    >>> metrics.average_precision(model.dag_, truth) > 0.95
    True
    """

    _parameters: ClassVar[dict[str, Any]] = {
        **Learner._parameters,
        "n_restarts": Number(0, whole=True, none=True),
        "tol": Number(0, 1, above=True),
    }

    def __init__(
        self,
        lambda1: float = 0.1,
        *,
        n_restarts: int | None = None,
        tol: float = 1e-4,
        max_iter: int | None = None,
        time_limit: float | None = None,
        random_state: Any = None,
        callback: Callable[[State], Any] | None = None,
        warm_start_dag: Any = None,
        knowledge: Any = None,
        n_jobs: int | None = None,
        memory_limit: float | str | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.lambda1 = lambda1
        self.n_restarts = n_restarts
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.callback = callback
        self.warm_start_dag = warm_start_dag
        self.knowledge = knowledge
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.verbose = verbose

    def _learn(self, run: Run) -> None:
        free = None if run.warm_start is not None else self._fit_freely(run)
        if run.status != "converged":
            return
        weights = run.warm_start if free is None else free.weights
        assert weights is not None
        order = topological_order(weights)
        if order is None:
            order = greedy_order(weights, run.precedence)
        order = run.possible(order)
        point = _Point(run, order, project(weights, order))
        if run.status != "converged" or point.note("order"):
            return
        if free is None:
            free = lasso.solve(run.gram, run.lambda1, limits=run.limits, stop=run.out_of_time)
        proven = np.inf
        while True:
            if run.status != "converged" or not self._descend(point):
                return
            if point.value > (1 - 0.5 * self.tol) * proven:  # no step was taken since the proof
                break
            moved = self._move_many(run, point)
            if moved is None:
                return
            swaps = _Swaps(run, self.tol, moved, free)
            if not swaps.complete or not swaps.exhaust():
                return
            proven = swaps.best.value
            point = _Point(run, swaps.best.order, swaps.best.weights)
        wanted = self.n_restarts
        if wanted is None and self.time_limit is None:
            wanted = _RESTARTS
        swaps.restart(wanted)

    def _workspace(self, n: int, d: int, hold: bool) -> int:
        residuals = 0 if hold and n >= d else 8 * n * d  # of the moves
        return 4 * super()._workspace(n, d, hold) + residuals  # the point, a trial and its moves

    def _fit_freely(self, run: Run) -> lasso.LassoFit:
        """Return the lasso without acyclicity, to take the first order from."""
        fit = lasso.solve(run.gram, run.lambda1, limits=run.limits, stop=run.out_of_time)
        order = greedy_order(fit.weights, run.precedence)
        run.offer(project(fit.weights, order), order)
        value = objective.value(run.gram, fit.weights, run.lambda1)
        run.step("fit", value, fit.weights.nnz, lambda: fit.weights)
        return fit

    def _descend(self, point: _Point) -> bool:
        """Take gradient steps while they pay; False if the fit has to stop."""
        step, failures = 1.0, 0
        while failures < _HALVINGS:
            point.measure()
            order = improve_order(point.step(step), point.order, precedence=point.run.precedence)
            trial = point.solve(order, point.affected(order), point.weights)
            if trial is None:
                return False
            if trial.total > self.tol * point.value:
                point.accept(trial)
                if point.note("gradient"):
                    return False
                step, failures = 1.0, 0
            else:
                step, failures = 0.5 * step, failures + 1
        return True

    def _move_many(self, run: Run, point: _Point) -> Arrangement | None:
        """Make the moves that pay by a bound; None if the fit has to stop."""
        moved = Arrangement(
            run.gram, run.lambda1, point.order, start=point.weights, limits=run.limits,
            stop=run.out_of_time,
        )  # fmt: skip
        if not moved.complete:
            return None

        def note(phase: str) -> bool:
            weights = moved.weights
            run.offer(weights, moved.order, moved.value)
            return run.step(phase, moved.value, weights.nnz, lambda: weights)

        return moved if moved.improve(note) and run.status == "converged" else None


@dataclass(frozen=True)
class _Trial:
    """The lasso on another order, for the columns where it may differ."""

    order: NDArray[np.int64]
    columns: NDArray[np.int64]
    weights: sp.csc_array
    gained: NDArray[np.float64]  # (d,), what each column's part of equation (1) has fallen by

    @property
    def total(self) -> float:
        return float(self.gained.sum())


class _Point:
    """An order, the lasso on it, and where a gradient step from there leads.

    ``steps`` (d, d) is the gradient step with t = 1, scaled by the metric's root: ``sd_i W̃_ij``.
    It holds the arcs of the lasso, all forward in the order, and the arcs against the order that
    would lower equation (1).
    """

    def __init__(self, run: Run, order: NDArray[np.int64], start: sp.csc_array) -> None:
        self.run, self.gram = run, run.gram
        self.root = np.sqrt(run.lambda1) * self.gram.inverse_sd  # the penalty of i, j, factored
        fit = lasso.solve(
            self.gram, run.lambda1, order=order, start=start, limits=run.limits,
            stop=run.out_of_time,
        )  # fmt: skip
        self.order, self.objective = order, fit.objective
        self.weights = project(fit.weights, order)
        run.offer(self.weights, order)
        self._stale = np.arange(self.gram.d)
        nothing = np.empty(0, dtype=np.int64), np.empty(0)
        self._columns = [nothing] * self.gram.d  # members, steps
        self.steps = sp.csc_array((self.gram.d, self.gram.d))

    @property
    def value(self) -> float:
        return float(self.objective.sum())

    def note(self, phase: str) -> bool:
        """Note the end of an iteration; True when the fit has to stop."""
        return self.run.step(phase, self.value, self.weights.nnz, lambda: self.weights)

    # -------------------------------------------------------------- gradient steps

    def measure(self) -> None:
        """Bring the steps up to date, for the columns that have changed."""
        gram, rank = self.gram, rank_of(self.order)
        B = objective.on_correlation_scale(gram, self.weights)
        for block in gram.blocks(self._stale):
            pieces = [slice(B.indptr[j], B.indptr[j + 1]) for j in block]
            support = [B.indices[piece].astype(np.int64) for piece in pieces]
            b = [B.data[piece] for piece in pieces]
            indptr = np.concatenate([[0], np.cumsum([len(s) for s in support])]).astype(np.int64)
            left = gram.residual_rows(block, indptr, np.concatenate(support), np.concatenate(b))
            penalty = np.maximum(self.root * self.root[block][:, None], _LEAST_PENALTY)
            over = np.abs(left) - penalty  # (k, d), what the soft threshold leaves of the gradient
            over[rank <= rank[block][:, None]] = 0.0
            if self.run.limits is not None:
                over[~self.run.limits.parents(block)] = 0.0
            for a, j in enumerate(block):
                new = np.flatnonzero(over[a] > 0)
                steps = np.concatenate([b[a], over[a, new]]) * gram.sd[j]
                self._columns[j] = np.concatenate([support[a], new]), steps
        self._stale = self._stale[:0]
        indptr = np.concatenate([[0], np.cumsum([len(c[0]) for c in self._columns])])
        members, steps = (np.concatenate([c[k] for c in self._columns]) for k in range(2))
        self.steps = sp.csc_array((steps, members, indptr), shape=B.shape)

    def step(self, t: float) -> sp.csc_array:
        """Return where a gradient step of length t leads, ``sd_i W̃_ij`` up to signs."""
        W = self.steps.copy()
        W.data[~self._forward(self.order)] *= t
        return W

    def _forward(self, order: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which arcs of the pattern go forward in an order."""
        rank = rank_of(order)
        columns = np.repeat(np.arange(self.gram.d), np.diff(self.steps.indptr))
        return rank[self.steps.indices] < rank[columns]

    # -------------------------------------------------------------- other orders

    def affected(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the columns whose lasso may differ on another order.

        A column that keeps its parents, and gains none that would lower equation (1), keeps its
        solution.
        """
        turned = self._forward(self.order) != self._forward(order)
        columns = np.repeat(np.arange(self.gram.d), np.diff(self.steps.indptr))
        return np.unique(columns[turned])

    def solve(
        self, order: NDArray[np.int64], columns: NDArray[np.int64], start: sp.csc_array
    ) -> _Trial | None:
        """Solve the lasso of some columns on another order; None if time is up before the end."""
        fit = lasso.solve(
            self.gram, self.run.lambda1, order=order, start=start, columns=columns,
            limits=self.run.limits, stop=self.run.out_of_time,
        )  # fmt: skip
        if self.run.status != "converged":
            return None
        gained = np.zeros(self.gram.d)
        gained[columns] = self.objective[columns] - fit.objective[columns]
        return _Trial(order, columns, fit.weights, gained)

    def accept(self, trial: _Trial) -> None:
        """Go to an order that was tried with all its affected columns."""
        self.order, self.weights = trial.order, trial.weights
        self.objective = self.objective - trial.gained
        self._stale = np.union1d(self._stale, trial.columns)
        self.run.offer(self.weights, self.order, self.value)


class _Swaps:
    """Insertions and restarts from an order; ``best`` is the best by equation (1).

    Parameters
    ----------
    run : Run
        Where the answers and the iterations go.
    tol : float
        As of GD.
    begin : Arrangement
        Where to begin.
    free : LassoFit
        The lasso without acyclicity, below which no order is.
    """

    def __init__(self, run: Run, tol: float, begin: Arrangement, free: lasso.LassoFit) -> None:
        self.run, self.tol = run, tol
        self.bound = float(free.objective.sum())
        floor = np.maximum(free.objective - free.gap, 0.0)
        self.best = OrderedLasso(
            run.gram, run.lambda1, begin.order, floor, start=begin.weights, limits=run.limits,
            tol=max(_WORTH * tol, 1e-10), stop=run.out_of_time,
        )  # fmt: skip
        self.complete = self.best.complete and run.status == "converged"
        self._rounding = 1e-12 * float(run.gram.diag().sum())

    @property
    def least(self) -> float:
        """What an insertion has to gain: less is the tolerance of the lasso, or rounding."""
        return _WORTH * self.tol * self.best.value + self._rounding

    def _note(self, phase: str) -> bool:
        """Offer the best, and note the end of an iteration; True when the fit has to stop."""
        weights = self.best.weights
        self.run.offer(weights, self.best.order, self.best.value)
        return self.run.step(phase, self.best.value, weights.nnz, lambda: weights)

    def _insert(
        self, ordered: OrderedLasso, variables: NDArray[np.int64], waiting: NDArray[np.bool_]
    ) -> bool:
        """Put those of the variables that wait at their best places; tell whether any has moved.

        Those whose regression changes by it wait for their turn again.
        """
        moved = False
        for v in variables[waiting[variables]]:
            found = ordered.best_insertion(int(v), self.least)
            if self.run.status != "converged":
                break
            waiting[v] = False
            if found is not None:
                ordered.apply(found)
                waiting[found.columns] = True
                waiting[v] = False
                moved = True
        return moved

    def exhaust(self) -> bool:
        """Insert until no variable has a better place; False if the fit has to stop."""
        best, run = self.best, self.run
        moved = True
        while moved:
            # What a variable gains also depends on regressions that it is not in: only a round of
            # all without a move is a proof.
            waiting, moved = np.ones(run.gram.d, dtype=np.bool_), False
            while waiting.any():
                sweep = best.order[waiting[best.order]]
                for a in range(0, len(sweep), _LOOKS):
                    if self._insert(best, sweep[a : a + _LOOKS], waiting):
                        moved = True
                        if self._note("insertion"):
                            return False
                    if run.out_of_time():
                        return False
        return not self._note("proof")

    def restart(self, wanted: int | None) -> None:
        """Go on from random changes of the best order; None for as long as there is time."""
        without, reference = 0, self.best.value
        while wanted is None or without < wanted:
            if self.best.value <= self.bound + self.tol * self.best.value:
                return  # no order can be better
            ended, tried = self._shaken()
            without += 1
            if tried.value < self.best.value - self.least:
                self.best = tried
                if ended or not self.exhaust():
                    self.run.offer(tried.weights, tried.order, tried.value)
                    return
                if tried.value < (1 - self.tol) * reference:
                    without, reference = 0, tried.value
            if ended or self._note("restart"):
                return

    def _shaken(self) -> tuple[bool, OrderedLasso]:
        """Put some variables at random places and insert from there.

        Returns whether time was up before the end, and where it led.
        """
        d, rng = self.run.gram.d, self.run.rng
        variables = rng.permutation(d)[:_SHAKEN]
        places = rng.integers(d, size=len(variables))
        tried, waiting = self.best.copy(), np.zeros(d, dtype=np.bool_)
        for v, place in zip(variables, places):
            found = tried.insertion(int(v), int(place))
            if found is None:
                return True, tried
            tried.apply(found)
            waiting[found.columns] = True
        while waiting.any():
            self._insert(tried, tried.order.copy(), waiting)
            if self.run.out_of_time():
                return True, tried
        return False, tried
