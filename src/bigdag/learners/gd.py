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

The swaps. For a single move both sides are known better, with the regression fitted anew: what a
column loses without a parent, and what it gains by one. Many moves are tried at once, and each is
kept by what its columns really gained: the lasso is solved again for the columns whose allowed
parents changed in a way that matters, and only for those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bigdag.compiled import kernel
from bigdag.engine import lasso, objective
from bigdag.engine.order import project, rank_of, sort_with
from bigdag.graph.acyclic import topological_order
from bigdag.graph.feedback_arc_set import greedy_order, improve_order
from bigdag.learners.base import Learner
from bigdag.learners.parameters import Number
from bigdag.learners.run import Run, State

__all__ = ["GD"]

_HALVINGS = 4  # steps tried, each half as long, before the swaps
_CAUTION = 0.8  # share of the estimated losses that a move has to make up for
_SHARE = 0.1  # of what a move promises: arcs below it do not decide
_LEAST_PENALTY = 1e-10  # on the correlation scale, as in the lasso
_RIDGE = 1e-6  # added to correlations before they are inverted


class GD(Learner):
    """Learn a DAG by gradient steps, projections and a lasso on each order (Park & Klabjan 2017).

    Parameters
    ----------
    lambda1 : float, default=0.1
        The weight of the L1 norm in equation (1).
    tol : float, default=1e-4
        The fit has converged when gradient steps and swaps together lower equation (1) by a
        smaller share.
    max_iter : int, optional
        Gradient steps and rounds of swaps at the most.
    time_limit : float, optional
        Seconds at the most; the fit ends with the best graph so far.
    random_state : int or Generator, optional
        Unused, as the method is deterministic; for the common interface.
    callback : callable, optional
        Called with a :class:`~bigdag.learners.base.State` after each iteration; True ends the fit.
    warm_start_dag : DAG or matrix of shape (d, d), optional
        Whose order to begin from; by default that of the lasso without acyclicity.
    n_jobs : int, optional
        Threads; all cores by default.
    memory_limit : float or str, optional
        Bytes, or text such as "4GB"; by default four fifths of the free memory.
    verbose : bool, default=False
        Whether to log progress.

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
        One row an iteration: phase ("fit", "order", "gradient" or "swap"), iteration, seconds,
        objective, arcs.
    status_ : str
        One of converged, max_iter, time_limit, interrupted, diverged.
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
    >>> model = GD().fit(simulate.sample(truth, 1000, rng=1))
    >>> metrics.average_precision(model.dag_, truth) > 0.8
    True
    """

    _parameters: ClassVar[dict[str, Any]] = {
        **Learner._parameters,
        "tol": Number(0, 1, above=True),
    }

    def __init__(
        self,
        lambda1: float = 0.1,
        *,
        tol: float = 1e-4,
        max_iter: int | None = None,
        time_limit: float | None = None,
        random_state: Any = None,
        callback: Callable[[State], Any] | None = None,
        warm_start_dag: Any = None,
        n_jobs: int | None = None,
        memory_limit: float | str | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.lambda1 = lambda1
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.callback = callback
        self.warm_start_dag = warm_start_dag
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.verbose = verbose

    def _learn(self, run: Run) -> None:
        weights = self._begin(run)
        if weights is None:
            return
        order = topological_order(weights)
        if order is None:
            order = greedy_order(weights)
        point = _Point(run, order, project(weights, order))
        if run.status != "converged" or point.note("order"):
            return
        while True:
            before = point.value
            if not (self._descend(point) and self._swap(run, point)):
                return
            if before - point.value <= self.tol * before:
                return

    def _workspace(self, n: int, d: int, hold: bool) -> int:
        return 4 * super()._workspace(n, d, hold)  # of the point, a trial and its moves

    def _begin(self, run: Run) -> sp.csc_array | None:
        """Return weights to take the first order from, or None if the fit has to stop."""
        if run.warm_start is not None:
            run.warm_start.sort_indices()  # so that the order of the given variables rounds nothing
            return run.warm_start
        fit = lasso.solve(run.gram, run.lambda1, stop=run.out_of_time)
        order = greedy_order(fit.weights)
        run.offer(project(fit.weights, order), order)
        value = objective.value(run.gram, fit.weights, run.lambda1)
        stopped = run.step("fit", value, fit.weights.nnz, lambda: fit.weights)
        return None if stopped else fit.weights

    def _descend(self, point: _Point) -> bool:
        """Take gradient steps while they pay; False if the fit has to stop."""
        step, failures = 1.0, 0
        while failures < _HALVINGS:
            point.measure()
            order = improve_order(point.step(step), point.order)
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

    def _swap(self, run: Run, point: _Point) -> bool:
        """Move single variables while it pays; False if the fit has to stop."""
        rounding = 1e-12 * float(run.gram.diag().sum())
        least = 0.1 * self.tol * point.value + rounding
        # A variable whose move has failed is left alone until a regression it is in changes.
        blocked = np.zeros(run.gram.d, dtype=bool)
        while moves := point.moves(least, blocked):
            trial = point.try_moves(moves, least, blocked)
            if run.status != "converged":
                return False
            if trial is not None:
                point.accept(trial)
                blocked[np.abs(trial.gained) > least] = False
            if point.note("swap"):
                return False
        return True


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


@dataclass(frozen=True)
class _Move:
    """A variable, its new place between two ranks, and the columns that decide on it."""

    variable: int
    place: float
    columns: NDArray[np.int64]


class _Point:
    """An order, the lasso on it, and what each arc is worth.

    ``steps`` and ``gains`` share one pattern, (d, d): the arcs of the lasso, all forward in the
    order, and the arcs against the order that would lower equation (1). ``steps`` is the gradient
    step with t = 1, scaled by the metric's root: ``sd_i W̃_ij``. ``gains`` is what equation (1)
    loses without a forward arc or gains by a backward one, with the column's regression fitted
    anew (least squares on its present parents).
    """

    def __init__(self, run: Run, order: NDArray[np.int64], start: sp.csc_array) -> None:
        self.run, self.gram = run, run.gram
        self.root = np.sqrt(run.lambda1) * self.gram.inverse_sd  # the penalty of i, j, factored
        fit = lasso.solve(self.gram, run.lambda1, order=order, start=start, stop=run.out_of_time)
        self.order, self.objective = order, fit.objective
        self.weights = project(fit.weights, order)
        run.offer(self.weights, order)
        self._stale = np.arange(self.gram.d)
        nothing = np.empty(0, dtype=np.int64), np.empty(0), np.empty(0)
        self._columns = [nothing] * self.gram.d  # members, steps, gains
        self.steps = self.gains = sp.csc_array((self.gram.d, self.gram.d))

    @property
    def value(self) -> float:
        return float(self.objective.sum())

    def note(self, phase: str) -> bool:
        """Note the end of an iteration; True when the fit has to stop."""
        return self.run.step(phase, self.value, self.weights.nnz, lambda: self.weights)

    # -------------------------------------------------------------- what the arcs are worth

    def measure(self) -> None:
        """Bring steps and gains up to date, for the columns that have changed."""
        gram, rank = self.gram, rank_of(self.order)
        B = objective.on_correlation_scale(gram, self.weights)
        starts = B.indptr
        for block in gram.blocks(self._stale):
            self._measure_block(block, [slice(starts[j], starts[j + 1]) for j in block], B, rank)
        self._stale = self._stale[:0]
        indptr = np.concatenate([[0], np.cumsum([len(c[0]) for c in self._columns])])
        members, steps, gains = (np.concatenate([c[k] for c in self._columns]) for k in range(3))
        self.steps = sp.csc_array((steps, members, indptr), shape=B.shape)
        self.gains = sp.csc_array((gains, members, indptr), shape=B.shape)

    def _measure_block(
        self,
        block: NDArray[np.int64],
        pieces: list[slice],
        B: sp.csc_array,
        rank: NDArray[np.int64],
    ) -> None:
        """Set what the arcs of a block of columns are worth; ``pieces`` are theirs in B."""
        gram = self.gram
        support = [B.indices[p].astype(np.int64) for p in pieces]
        b = [B.data[p] for p in pieces]
        indptr = np.concatenate([[0], np.cumsum([len(s) for s in support])]).astype(np.int64)
        left = gram.residual_rows(block, indptr, np.concatenate(support), np.concatenate(b))
        penalty = np.maximum(self.root * self.root[block][:, None], _LEAST_PENALTY)
        over = np.abs(left) - penalty  # (k, d), what the soft threshold leaves of the gradient
        over[rank <= rank[block][:, None]] = 0.0

        def work(first: int, last: int) -> None:
            for a in range(first, last):
                new = np.flatnonzero(over[a] > 0)
                worth = self._worth(block[a], support[a], b[a], new, over[a, new])
                self._columns[block[a]] = worth

        gram.each(work, len(block))

    def _worth(
        self,
        j: int,
        support: NDArray[np.int64],
        b: NDArray[np.float64],
        new: NDArray[np.int64],
        over: NDArray[np.float64],
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Return column j's members, steps and gains: those of its parents, then the new arcs'."""
        loss, gain = b**2, over**2
        if len(support):
            Q = self.gram.block(support, support)
            Q[np.diag_indices(len(support))] += _RIDGE
            inverse = np.linalg.inv(Q)
            loss = loss / np.diag(inverse)
            if len(new):
                K = self.gram.block(support, new)
                apart = 1 - np.einsum("ij,ij->j", K, inverse @ K)  # what is new in the new ones
                gain = gain / np.maximum(apart, 1e-3)
        sd = self.gram.sd[j]
        return (
            np.concatenate([support, new]),
            np.concatenate([b, over]) * sd,
            np.concatenate([loss, gain]) * (0.5 * sd**2),
        )

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
            stop=self.run.out_of_time,
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

    def moves(self, least: float, blocked: NDArray[np.bool_]) -> list[_Move]:
        """Return moves that promise more than ``least``, best first, none in another's way."""
        self.measure()
        into, rank = self.gains, rank_of(self.order)
        out = into.tocsr()
        gain, place = _best_places(
            rank, out.indptr, out.indices, out.data, into.indptr, into.indices, into.data
        )
        gain[blocked] = 0.0
        used = np.zeros(self.gram.d, dtype=bool)
        moves = []
        for v in np.argsort(-gain, kind="stable"):
            if gain[v] <= least:
                break
            low, high = min(rank[v], place[v]), max(rank[v], place[v])
            deciding = [np.array([v])]
            for arcs in (out, into):
                piece = slice(arcs.indptr[v], arcs.indptr[v + 1])
                others = arcs.indices[piece]
                passed = (low < rank[others]) & (rank[others] < high)
                deciding.append(others[passed & (arcs.data[piece] > _SHARE * gain[v])])
            if used[np.concatenate(deciding)].any():
                continue
            used[np.concatenate(deciding)] = True
            moves.append(_Move(int(v), float(place[v]), np.concatenate(deciding[:2])))
        return moves

    def try_moves(
        self, moves: list[_Move], least: float, blocked: NDArray[np.bool_]
    ) -> _Trial | None:
        """Return the lasso on the order after those moves that pay, or None; mark in ``blocked``.

        At first only the columns that decide are solved; those moves that do not pay there are
        left out. What remains is solved in all affected columns, and has to lower equation (1).
        """
        while moves:
            place = rank_of(self.order).astype(np.float64)
            place[[m.variable for m in moves]] = [m.place for m in moves]
            order = np.argsort(place, kind="stable")
            columns = np.unique(np.concatenate([m.columns for m in moves]))
            trial = self.solve(order, columns, self.weights)
            if trial is None:
                return None
            gained = np.array([trial.gained[m.columns].sum() for m in moves])
            pays = gained > 0.1 * least
            blocked[[m.variable for m, good in zip(moves, pays) if not good]] = True
            if pays.all():
                trial = self.solve(order, self.affected(order), trial.weights)
                if trial is None or trial.total > 0.1 * least:
                    return trial
                # Alone they pay, together they do not: go on with the better half.
                pays = gained > np.median(gained)
                blocked[[m.variable for m, good in zip(moves, pays) if not good]] = True
            moves = [m for m, good in zip(moves, pays) if good]
        return None


@kernel
def _best_places(rank, out_ptr, out_idx, out_gain, in_ptr, in_idx, in_gain):  # type: ignore[no-untyped-def]
    """Return for each variable what its best move promises, and the place it goes to.

    Passing a variable on the way turns the arcs between the two: one that went forward is lost,
    one that went backward is won.
    """
    d = len(rank)
    best, place = np.zeros(d), np.zeros(d)
    for v in range(d):
        n_out, n_in = out_ptr[v + 1] - out_ptr[v], in_ptr[v + 1] - in_ptr[v]
        at, gain = np.empty(n_out + n_in), np.empty(n_out + n_in)
        for e in range(n_out):
            at[e], gain[e] = rank[out_idx[out_ptr[v] + e]], out_gain[out_ptr[v] + e]
            if at[e] > rank[v]:
                gain[e] *= -_CAUTION
        for e in range(n_in):
            k = n_out + e
            at[k], gain[k] = rank[in_idx[in_ptr[v] + e]], in_gain[in_ptr[v] + e]
            if at[k] < rank[v]:
                gain[k] *= -_CAUTION
        by_rank = np.arange(n_out + n_in)
        sort_with(at, by_rank, n_out + n_in)
        split = 0
        while split < len(at) and at[split] < rank[v]:
            split += 1
        for direction in (-1, 1):
            total = 0.0
            s = split - 1 if direction < 0 else split
            while 0 <= s < len(at):
                here = at[s]
                while 0 <= s < len(at) and at[s] == here:
                    total += gain[by_rank[s]]
                    s += direction
                if total > best[v]:
                    best[v], place[v] = total, here + 0.5 * direction
    return best, place
