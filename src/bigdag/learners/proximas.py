"""ProxiMAS: algorithm 1 of the paper with accelerated proximal gradient steps.

Iteration k minimises, by one step, ``φ_k(W) = 1/(2n)‖XW − X‖² + λ2/2·‖W − W_{k−1}‖² + λ1‖W‖₁``,
which gives the cyclic W̃_k, and projects it on the acyclic graphs by a greedy maximum acyclic
subgraph, which gives W_k. The answer is the W_k with the least equation (1). Before that the model
is fitted without acyclicity, the paper's warm start.

Given W_{k−1}, the columns of φ_k are independent of each other. The sparse engine therefore fits by
column lassos, keeps each column on a working set of parents, lets a column rest that no longer
moves, and looks at all parents of all columns from time to time for arcs that belong into the set.
Its steps are scaled: with variances from 1 to 1e7 the paper's global step 1/L never arrives, so a
column on the correlation scale has the step 1/(L_j + λ2/sd_i²), L_j a bound of its own curvature.
The dense engine is the paper to the letter, in torch on any device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bigdag.engine import lasso, objective, screening
from bigdag.errors import ParameterError
from bigdag.graph.feedback_arc_set import greedy_order, greedy_order_dense, improve_order
from bigdag.learners import proximal_columns
from bigdag.learners.base import Learner
from bigdag.learners.dense import check_dense
from bigdag.learners.parameters import Number, OneOf
from bigdag.learners.proximal_columns import ProximalColumns
from bigdag.learners.run import Run, State
from bigdag.learners.torch_support import load_torch, pick_device

__all__ = ["ProxiMAS"]

_PATIENCE = 100  # steps without a relative gain in the objective, for the answer without refit
_REFIT_AT = (10, 30, 100, 300, 1000, 3000)  # steps after which the order is tried by a refit
_GAIN = 1e-3  # the relative gain that is worth going on for


class ProxiMAS(Learner):
    """Learn a DAG by proximal steps and projections on acyclic graphs.

    Parameters
    ----------
    lambda1 : float, default=0.1
        The weight of the L1 norm in equation (1).
    lambda2 : float, default=20.0
        The pull towards the last acyclic graph.
    engine : {"sparse", "dense"}, default="sparse"
        Column lassos and working sets, or the paper to the letter in torch.
    start : {"auto", "lasso", "zeros"}, default="auto"
        Where the steps begin: at the fit without acyclicity, the paper's warm start; at zero (or
        at ``warm_start_dag``), so that acyclicity holds from the first step on; or first the one
        and, where the refit shows that the pull has held nothing, the other too.
    steps : {"scaled", "global"}, default="scaled"
        Steps that suit each column, or the paper's step 1/L for all; the dense engine always
        takes the latter.
    improve : bool, default=False
        Whether to improve each greedy order by local search before projecting on it.
    refit : bool, default=True
        Whether to end with a lasso on the best order (and one on the last), which can only lower
        equation (1). False gives the paper's answer.
    tol : float, default=1e-4
        The relative duality gap of the fit and the refit.
    candidates : {"auto", "all", "correlated"}, default="auto"
        Which variables may be parents of one: all others, or those whose correlation with it
        exceeds 4/√n, 200 at the most. "auto": all up to 5,000 variables, beyond that the correlated
        ones, unless most variables have very many. With the paper's steps and the dense engine
        always all.
    acyclic_from : float, default=50/60
        The share of ``time_limit``, or in the dense engine of ``max_iter``, after which
        acyclicity is enforced even if the fit has not converged.
    device : str, optional
        The torch device of the dense engine; the CPU by default.
    max_iter : int, default=500
        Steps at the most.
    time_limit : float, optional
        Seconds at the most; the fit ends with the best graph so far.
    random_state : int or Generator, optional
        Unused, as the method is deterministic; for the common interface.
    callback : callable, optional
        Called with a :class:`~bigdag.learners.run.State` after each step; True ends the fit.
    warm_start_dag : DAG or matrix of shape (d, d), optional
        Where the fit begins.
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
    refit_gain_ : float
        How much the refit lowered equation (1).
    history_ : DataFrame
        One row an iteration: phase, iteration, seconds, objective, arcs.
    status_ : str
        One of converged, max_iter, time_limit, interrupted, diverged.
    n_iter_ : int
        The number of iterations.
    noise_variances_ : ndarray of shape (d,)
        What is left of each variance.

    References
    ----------
    Gillot & Parviainen, Learning Large DAGs by Combining Continuous Optimization and Feedback Arc
    Set Heuristics.

    Examples
    --------
    >>> from bigdag import ProxiMAS, metrics, simulate
    >>> truth = simulate.random_dag(30, 1, rng=0)
    >>> model = ProxiMAS().fit(simulate.sample(truth, 1000, rng=1))
    >>> metrics.average_precision(model.dag_, truth) > 0.8
    True
    """

    _parameters: ClassVar[dict[str, Any]] = {
        **Learner._parameters,
        "lambda2": Number(0, 1e300),
        "engine": OneOf("sparse", "dense"),
        "start": OneOf("auto", "lasso", "zeros"),
        "steps": OneOf("scaled", "global"),
        "improve": OneOf(True, False),
        "refit": OneOf(True, False),
        "tol": Number(0, 1, above=True),
        "acyclic_from": Number(0, 1),
        "candidates": OneOf("auto", "all", "correlated"),
    }

    def __init__(
        self,
        lambda1: float = 0.1,
        lambda2: float = 20.0,
        *,
        engine: str = "sparse",
        start: str = "auto",
        steps: str = "scaled",
        improve: bool = False,
        refit: bool = True,
        tol: float = 1e-4,
        acyclic_from: float = 50 / 60,
        candidates: str = "auto",
        device: str | None = None,
        max_iter: int | None = 500,
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
        self.lambda2 = lambda2
        self.engine = engine
        self.start = start
        self.steps = steps
        self.improve = improve
        self.refit = refit
        self.tol = tol
        self.acyclic_from = acyclic_from
        self.candidates = candidates
        self.device = device
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.callback = callback
        self.warm_start_dag = warm_start_dag
        self.knowledge = knowledge
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.engine == "sparse" and self.device not in (None, "cpu"):
            raise ParameterError(
                "device must be None or 'cpu' for engine='sparse', which runs on the CPU. "
                f"Got {self.device!r} instead: use engine='dense'."
            )

    def _confined(self, d: int) -> bool:
        """Tell whether only correlated variables may be parents."""
        if self.engine == "dense" or self.steps == "global":
            return False
        if self.candidates == "auto":
            return d > screening.ALL_PREDECESSORS
        return self.candidates == "correlated"

    def _hold(self, d: int, only_moments: bool) -> bool | None:
        return only_moments if self._confined(d) else None  # each column reads few correlations

    def _workspace(self, n: int, d: int, hold: bool) -> int:
        if self.engine == "dense":
            return 7 * 8 * d * d
        if self._confined(d):
            return proximal_columns.confined_memory(d)
        return proximal_columns.columns_memory(n, d, hold)

    def _least_workspace(self, n: int, d: int, hold: bool) -> int:
        if self.engine == "dense" or self._confined(d):
            return self._workspace(n, d, hold)
        return proximal_columns.columns_memory(n, d, hold=False)

    def _learn(self, run: Run) -> None:
        self.refit_gain_ = 0.0
        walk = self._dense if self.engine == "dense" else self._sparse
        held = walk(run, self.start != "zeros")
        if self.start == "auto" and not held and run.status == "converged":
            walk(run, False)

    def _order(self, run: Run, W: sp.csc_array) -> NDArray[np.int64]:
        order = greedy_order(W, run.precedence)
        return improve_order(W, order, precedence=run.precedence) if self.improve else order

    # -------------------------------------------------------------- the sparse engine

    def _sparse(self, run: Run, fit_first: bool) -> bool:
        """Fit by column lassos, then step and project; return whether the pull has held."""
        mask = None
        if self._confined(run.gram.d):
            whatever = self.candidates == "correlated"
            mask = screening.mask_of_candidates(run.gram, whatever, run.limits)
        W = run.warm_start if run.warm_start is not None else sp.csc_array((run.gram.d, run.gram.d))
        if fit_first:
            fit = lasso.solve(
                run.gram, run.lambda1, start=W, limits=run.limits, tol=self.tol, mask=mask,
                stop=lambda: run.share_is_over(self.acyclic_from),
            )  # fmt: skip
            W = fit.weights
            order = self._order(run, W)
            run.offer(W, order)
            value = objective.value(run.gram, W, run.lambda1)
            if run.step("fit", value, W.nnz, lambda: W):
                return True
        columns = ProximalColumns(
            run.gram, run.lambda1, self.lambda2, W, self.steps == "global",
            eager=not fit_first, limits=run.limits, mask=mask,
        )  # fmt: skip
        if not fit_first:
            columns.grow()
        order = self._order(run, W)
        walked = _Walk(self, run, fit_first, mask)
        for k in range(1, 10**9):
            value = columns.step(order)
            if walked.is_over(k, value, order, columns.n_acyclic, columns.acyclic, columns.weights):
                break
            order = self._order(run, columns.weights())
            still = columns.at_rest(order)
            if columns.due(k, still):
                columns.grow()
            elif still:
                walked.end()
                break
        return walked.held

    # -------------------------------------------------------------- the dense engine

    def _dense(self, run: Run, fit_first: bool) -> bool:
        """Run algorithm 1 to the letter in torch; return whether the pull has held."""
        torch = load_torch("ProxiMAS(engine='dense')")
        device = pick_device(torch, self.device)
        check_dense(run.gram.d, 7, 8, self.memory_limit)
        dtype = torch.float32 if device.type == "mps" else torch.float64
        S = torch.as_tensor(run.gram.rows(slice(None)), dtype=dtype, device=device)
        sd = torch.as_tensor(run.gram.sd, dtype=dtype, device=device)
        S = S * sd[:, None] * sd
        W = torch.zeros_like(S)
        if run.warm_start is not None:
            W = torch.as_tensor(run.warm_start.toarray(), dtype=dtype, device=device)

        def sparse(W: Any) -> sp.csc_array:
            return sp.csc_array(W.cpu().numpy().astype(np.float64))

        def value(W: Any) -> float:
            loss = 0.5 * (S.diagonal().sum() - (W * (2 * S - S @ W)).sum())
            return float(loss + run.lambda1 * W.abs().sum())

        possible = None
        if run.limits is not None:
            possible = torch.as_tensor(run.limits.all_pairs(), dtype=dtype, device=device)
        curvature = float(torch.linalg.matrix_norm(S, 2))
        Y, t, last = W, 1.0, np.inf
        while fit_first and not self._fit_is_over(run):
            W, Y, t = fista_step(S, W, Y, t, None, curvature or 1.0, run.lambda1, 0.0, possible)
            now = value(W)
            if run.step("fit", now, int((W != 0).sum()), partial(sparse, W)):
                break
            if abs(last - now) <= 1e-3 * self.tol * abs(now):
                break
            last = now
        Y, t = W, 1.0
        walked = _Walk(self, run, fit_first)
        for k in range(1, 10**9):
            if self.improve or run.limits is not None:
                taken = torch.as_tensor(self._order(run, sparse(W)), device=device)
            else:
                taken = greedy_order_dense(W)
            rank = torch.empty_like(taken)
            rank[taken] = torch.arange(run.gram.d, device=device)
            acyclic = torch.where(rank[:, None] < rank, W, 0.0)
            now, order, arcs = value(acyclic), taken.cpu().numpy(), int((acyclic != 0).sum())
            if walked.is_over(k, now, order, arcs, partial(sparse, acyclic), partial(sparse, W)):
                break
            L = curvature + self.lambda2 or 1.0
            W, Y, t = fista_step(S, W, Y, t, acyclic, L, run.lambda1, self.lambda2, possible)
        return walked.held

    def _fit_is_over(self, run: Run) -> bool:
        if run.share_is_over(self.acyclic_from):
            return True
        return run.max_iter is not None and run.iteration >= self.acyclic_from * run.max_iter


class _Walk:
    """What both engines do after a step: offer its graph, refit now and then, know when to end.

    Without a refit the walk ends when 100 steps have not lowered equation (1). With it, the orders
    after 10, 30, 100, ... steps are refitted, and the walk ends when that no longer pays: the order
    settles long before the weights do. A refit that more than halves equation (1) says that the
    pull has held nothing: ``held`` is then False, and a walk from the fit is given up, as one from
    zero begins where the pull is strong.
    """

    def __init__(
        self, learner: ProxiMAS, run: Run, fit_first: bool, mask: sp.csc_array | None = None
    ) -> None:
        self.learner, self.run, self.fit_first, self.mask = learner, run, fit_first, mask
        self.best, self.best_at = np.inf, 0
        self.best_order = self.order = np.arange(run.gram.d)
        self.refitted = np.inf
        self.held = True

    def is_over(
        self,
        k: int,
        value: float,
        order: NDArray[np.int64],
        arcs: int,
        acyclic: Callable[[], sp.csc_array],
        weights: Callable[[], sp.csc_array],
    ) -> bool:
        """Note step k, which gave an order and equation (1) of its projection; True to stop."""
        run = self.run
        if value < run.best_objective:
            run.offer(acyclic(), order, value)
        if value < self.best * (1 - _GAIN):
            self.best_at = k
        if value < self.best:
            self.best, self.best_order = value, order
        self.order = order
        stopped = run.status != "converged"  # by the fit already: this projection is the answer
        if stopped or run.step("mas", value, arcs, weights):
            if run.status == "max_iter":
                self.end()
            return True
        if not self.learner.refit:
            return k - self.best_at >= _PATIENCE
        if k not in _REFIT_AT:
            return False
        last, self.refitted = self.refitted, min(self.refitted, self._refit(order))
        if run.status != "converged":
            return True
        self.held = value <= 2 * self.refitted
        may_go_on = self.held or self.learner.start != "auto" or not self.fit_first or k < 30
        if may_go_on and self.refitted < last * (1 - _GAIN):
            return False
        self.end()
        return True

    def end(self) -> None:
        """Refit the last order and the best one."""
        if self.learner.refit:
            self._refit(self.order)
            if self.best_order is not self.order:
                self._refit(self.best_order)

    def _refit(self, order: NDArray[np.int64]) -> float:
        """Offer the lasso on an order, begun from the best graph so far; return equation (1)."""
        run = self.run
        before = run.best_objective
        fit = lasso.solve(
            run.gram, run.lambda1, order=order, start=run.best_weights, limits=run.limits,
            tol=self.learner.tol, mask=self.mask, stop=run.out_of_time,
        )  # fmt: skip
        value = objective.value(run.gram, fit.weights, run.lambda1)
        run.offer(fit.weights, order, value)
        self.learner.refit_gain_ += before - run.best_objective
        status = run.status
        if run.step("refit", value, fit.weights.nnz, lambda: fit.weights) and status == "max_iter":
            run.status = status
        return value


def fista_step(
    S: Any,
    W: Any,
    Y: Any,
    t: float,
    centre: Any,
    L: float,
    lambda1: float,
    lambda2: float,
    possible: Any = None,
) -> tuple[Any, Any, float]:
    """Return W̃_k, the next momentum point and the next t: one FISTA step on φ_k, diagonal zero.

    Arcs that are not possible, where ``possible`` (d, d) is zero, stay zero too.
    """
    gradient = S @ Y - S
    if centre is not None:
        gradient += lambda2 * (Y - centre)
    new = Y - gradient / L
    new = new.sign() * (new.abs() - lambda1 / L).clamp(min=0)
    new.fill_diagonal_(0)
    if possible is not None:
        new = new * possible
    t_next = (1 + (1 + 4 * t * t) ** 0.5) / 2
    return new, new + ((t - 1) / t_next) * (new - W), t_next
