"""OptiMAS: algorithm 1 of the paper with automatic differentiation and any optimiser of torch.

Iteration k takes one optimiser's step on ``φ_k(W) = 1/(2n)‖XW − X‖² + λ2/2·‖W − W_{k−1}‖² +
λ1‖W‖₁``, which moves the cyclic W̃_{k−1} to W̃_k, and projects that on the acyclic graphs by a
greedy maximum acyclic subgraph, which gives W_k. The optimiser goes on from W̃_k, not from W_k: at
W_{k−1} itself the pull would have no gradient. The answer is the W_k with the least equation (1).
Before that the model is fitted without acyclicity, the paper's warm start: by column lassos, or
from zeros by the optimiser.

Adam moves every weight by about the learning rate whatever its gradient, so its weights are never
zero but oscillate around it, and an iterate is as dense as its order allows. The refit ends that.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bigdag.engine import lasso, objective, screening
from bigdag.engine.order import project, rank_of
from bigdag.graph.feedback_arc_set import greedy_order, greedy_order_dense
from bigdag.learners import proximal_columns
from bigdag.learners.base import Learner
from bigdag.learners.dense import Pace, check_dense
from bigdag.learners.parameters import Number, OneOf
from bigdag.learners.run import Run, State
from bigdag.learners.torch_loss import Residuals, penalties
from bigdag.learners.torch_support import (
    Convergence,
    Descent,
    TorchLearner,
    pick_device,
    possible_arcs,
    to_sparse,
)
from bigdag.resources import memory_left

__all__ = ["OptiMAS"]

_MATRICES = 10  # W̃, W_k, the best, gradient, optimiser's state, moments, and what is passing
_DENSE_SHARE = 0.6  # of the memory, at the most, for dense matrices before a support is used
_ENDING = 3.0  # steps: what making a DAG out of a full triangle takes
_REFIT_SHARE = 0.25  # of the time that the fit without acyclicity left, at the most, for the refit


class OptiMAS(TorchLearner):
    """Learn a DAG by steps of any torch optimiser and projections on acyclic graphs.

    Parameters
    ----------
    lambda1 : float, default=0.1
        The weight of the L1 norm in equation (1).
    lambda2 : float, default=20.0
        The pull towards the last acyclic graph.
    optimizer : str or callable, default="Adam"
        An optimiser of ``torch.optim`` by name, or a function from parameters to an optimiser.
    learning_rate : float, default=0.01
        Of an optimiser by name.
    decays : int, default=2
        How often the optimiser's learning rate is divided by ten: whenever the loss has settled. A
        phase has converged when it has settled after the last time. 0 keeps the rate constant.
    start : {"lasso", "zeros"}, default="lasso"
        Where to begin: from the optimum without acyclicity, or from zeros with a fit by the
        optimiser. ``warm_start_dag`` takes the place of both.
    engine : {"auto", "dense", "sparse"}, default="auto"
        All weights, or only those on the arcs of the lasso solution (and of ``warm_start_dag``),
        without any (d, d) matrix. Auto is dense where any variable may be a parent of any, while
        that fits the memory.
    candidates : {"auto", "all", "correlated"}, default="auto"
        Which variables may be parents of one: all others, or those whose correlation with it
        exceeds 4/√n, 200 at the most. "auto": all up to 5,000 variables, beyond that the correlated
        ones, unless most variables have very many. With the dense engine always all.
    refit : bool, default=True
        Whether to end with one lasso on the best order, which can only lower equation (1). Of a
        ``time_limit`` up to a quarter is left for it. False gives the paper's answer.
    tol : float, default=1e-5
        An objective has settled when it has fallen by this share of itself, or less, over the last
        third of a phase's steps, and over ``patience`` of them at the least; also the relative
        duality gap of the lassos.
    patience : int, default=100
        See ``tol``.
    acyclic_from : float, default=50/60
        The share of ``time_limit``, or from zeros also of ``max_iter``, after which acyclicity is
        enforced even if the fit has not converged.
    device : str, optional
        The torch device; the CPU by default.
    dtype : {"auto", "float32", "float64"}, default="auto"
        float32 unless the variances are too far apart for it.
    max_iter : int, default=10000
        Steps at the most.
    time_limit : float, optional
        Seconds at the most; the fit ends with the best graph so far.
    random_state : int or Generator, optional
        Unused, as the method is deterministic; for the common interface.
    callback : callable, optional
        Called with a :class:`~bigdag.learners.run.State` after each step; True ends the fit.
    warm_start_dag : DAG or matrix of shape (d, d), optional
        The weights that acyclicity begins from.
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
        One row an iteration: phase ("fit", "mas", "refit"), iteration, seconds, objective, arcs.
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
    >>> from bigdag import OptiMAS, metrics, simulate
    >>> truth = simulate.random_dag(30, 1, rng=0)
    >>> model = OptiMAS().fit(simulate.sample(truth, 1000, rng=1))
    >>> metrics.average_precision(model.dag_, truth) > 0.8
    True
    """

    _matrices = _MATRICES
    _parameters: ClassVar[dict[str, Any]] = {
        **TorchLearner._parameters,
        "start": OneOf("lasso", "zeros"),
        "engine": OneOf("auto", "dense", "sparse"),
        "candidates": OneOf("auto", "all", "correlated"),
        "refit": OneOf(True, False),
        "acyclic_from": Number(0, 1),
    }

    def __init__(
        self,
        lambda1: float = 0.1,
        lambda2: float = 20.0,
        *,
        optimizer: str | Callable[[Any], Any] = "Adam",
        learning_rate: float = 0.01,
        decays: int = 2,
        start: str = "lasso",
        engine: str = "auto",
        candidates: str = "auto",
        refit: bool = True,
        tol: float = 1e-5,
        patience: int = 100,
        acyclic_from: float = 50 / 60,
        device: str | None = None,
        dtype: str = "auto",
        max_iter: int | None = 10_000,
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
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.decays = decays
        self.start = start
        self.engine = engine
        self.candidates = candidates
        self.refit = refit
        self.tol = tol
        self.patience = patience
        self.acyclic_from = acyclic_from
        self.device = device
        self.dtype = dtype
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.callback = callback
        self.warm_start_dag = warm_start_dag
        self.knowledge = knowledge
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.verbose = verbose

    # -------------------------------------------------------------- algorithm 1

    def _learn(self, run: Run) -> None:
        self.refit_gain_ = 0.0
        mask = None  # of possible arcs, where only correlated variables may be parents
        if self._confined(run.gram.d):
            whatever = self.candidates == "correlated"
            mask = screening.mask_of_candidates(run.gram, whatever, run.limits)
        with self._torch(run) as torch:
            dense = mask is None and self._is_dense(run, torch)
            W = sp.csc_array((run.gram.d, run.gram.d)) if run.warm_start is None else run.warm_start
            support, lasso_seconds = W, math.inf  # where there is no lasso to go by
            from_lasso = self.start == "lasso" and run.warm_start is None
            if from_lasso or not dense:
                began = run.seconds
                fit = self._lasso(run, from_lasso, mask)
                lasso_seconds = run.seconds - began
                W, support = (fit, fit) if from_lasso else (W, abs(W) + abs(fit))
            order = greedy_order(W, run.precedence)
            run.offer(project(W, order), order)  # W_0, whatever the optimiser makes of it
            weights: _Dense | _Support
            if dense:
                weights = _Dense(self, run, torch, W)
            else:
                weights = _Support(self, run, torch, W, support)
            if not bool(weights.tensor.isfinite().all()):
                raise FloatingPointError(
                    f"the weights to begin from are beyond {weights.tensor.dtype}"
                )
            descent = self._descent(torch, weights.tensor, weights.equation_1, weights.possible)
            going = run.status == "converged"
            if going and self.start == "zeros" and run.warm_start is None:
                with _projected_if_interrupted(run, lambda: weights.sparse(weights.tensor)):
                    going = self._fit(run, descent, weights)
            self._mas(run, descent, weights, going, self._reserve(run, lasso_seconds))
        if self.refit and (run.status in {"converged", "max_iter"} or self._has_time_left(run)):
            self._refit(run, support, mask)

    def _confined(self, d: int) -> bool:
        """Tell whether only correlated variables may be parents."""
        if self.candidates == "auto":
            return self.engine != "dense" and d > screening.ALL_PREDECESSORS
        return self.engine != "dense" and self.candidates == "correlated"

    def _hold(self, d: int, only_moments: bool) -> bool | None:
        return only_moments if self._confined(d) else None  # each column reads few correlations

    def _is_dense(self, run: Run, torch: Any) -> bool:
        d, bytes_each = run.gram.d, self._dtype(run, torch, _uses_data(run)).itemsize
        if self.engine == "dense":
            check_dense(d, _MATRICES, bytes_each, self.memory_limit)
        fits = _MATRICES * d * d * bytes_each <= _DENSE_SHARE * memory_left(self.memory_limit)
        return self.engine == "dense" or (self.engine == "auto" and fits)

    def _workspace(self, n: int, d: int, hold: bool) -> int:
        if self._confined(d):
            return proximal_columns.confined_memory(d) + 3 * 4 * n * d  # the rows for torch
        if self.engine == "sparse":
            return Learner._workspace(self, n, d, hold)
        return super()._workspace(n, d, hold)

    def _least_workspace(self, n: int, d: int, hold: bool) -> int:
        if self.engine == "auto" and not self._confined(d):  # with little memory, a support
            return Learner._workspace(self, n, d, hold)
        return self._workspace(n, d, hold)

    def _lasso(self, run: Run, counts: bool, mask: sp.csc_array | None) -> sp.csc_array:
        """Return the optimum without acyclicity, column by column; it may count as an iteration."""
        fit = lasso.solve(
            run.gram, run.lambda1, limits=run.limits, mask=mask, tol=self.tol,
            stop=lambda: run.share_is_over(self.acyclic_from),
        )  # fmt: skip
        if counts:
            value = objective.value(run.gram, fit.weights, run.lambda1)
            with _projected_if_interrupted(run, lambda: fit.weights):
                run.step("fit", value, fit.weights.nnz, lambda: fit.weights)
        return fit.weights

    def _convergence(self, descent: Descent) -> Convergence:
        return Convergence(descent, self.tol, self.patience, self.decays)

    def _fit(self, run: Run, descent: Descent, weights: _Dense | _Support) -> bool:
        """Descend without acyclicity; return False if the run has to stop."""
        convergence, unit = self._convergence(descent), weights.unit
        share = None if run.max_iter is None else self.acyclic_from * run.max_iter
        present = weights.tensor.detach()  # the same memory
        while not run.share_is_over(self.acyclic_from) and (share is None or run.iteration < share):
            descent.step()
            value = descent.evaluate()
            arcs = weights.n_arcs(present)
            if run.step("fit", unit * value, arcs, lambda: weights.sparse(present)):
                return False
            if convergence.reached(value):
                break
        convergence.undo_decays()
        return True

    def _mas(
        self, run: Run, descent: Descent, weights: _Dense | _Support, going: bool, reserve: float
    ) -> None:
        """Step and project until the best objective stays level; project at least once.

        ``reserve`` is in seconds, what to leave of the time limit.
        """
        convergence, pace = self._convergence(descent), Pace(run, _ENDING, reserve)
        present = weights.tensor.detach()  # W̃, in the same memory

        def acyclic() -> tuple[Any, float]:
            """Offer W_k; return it, and equation (1) of it."""
            order = weights.order(present)
            nearest = weights.project(present, order)
            value = weights.unit * float(weights.equation_1(nearest))
            run.offer(partial(weights.sparse, nearest), order, value)
            return nearest, value

        centre, value = acyclic()  # W_0
        if not going or run.out_of_time():
            return

        def penalised(W: Any) -> Any:  # φ_k
            return weights.equation_1(W, centre, pull)

        pull = self.lambda2 / weights.unit
        descent.loss = penalised
        while not pace.is_over():
            descent.forget()
            descent.step()
            centre, value = acyclic()
            if run.step("mas", value, weights.n_arcs(centre), lambda: weights.sparse(present)):
                return
            if convergence.reached(value):
                return

    def _reserve(self, run: Run, lasso_seconds: float) -> float:
        """Return the seconds to leave for the refit, as long as the lasso took or a share."""
        if not self.refit or run.time_limit is None:
            return 0.0
        left = max(0.0, run.time_limit - run.seconds)
        return min(lasso_seconds, _REFIT_SHARE * left)

    @staticmethod
    def _has_time_left(run: Run) -> bool:
        """Tell whether the steps were ended for the refit's sake, before the time was up."""
        return run.status == "time_limit" and not run.share_is_over(1.0)

    def _refit(self, run: Run, fitted: sp.csc_array, mask: sp.csc_array | None) -> None:
        """End with one lasso on the best order, warm from the fit; columns without time stay."""
        before, best = run.best_objective, run.best_weights
        fit = lasso.solve(
            run.gram, run.lambda1, order=run.best_order, start=fitted, limits=run.limits,
            mask=mask, tol=self.tol, stop=run.out_of_time,
        )  # fmt: skip
        solved = np.isfinite(fit.gap).astype(np.float64)
        W = sp.csc_array(fit.weights @ sp.diags_array(solved) + best @ sp.diags_array(1 - solved))
        W.eliminate_zeros()
        value = objective.value(run.gram, W, run.lambda1)
        run.offer(W, run.best_order, value)
        status = run.status
        stopped = run.step("refit", value, W.nnz, lambda: W)
        if stopped and status != "converged" and run.status != "interrupted":
            run.status = status
        self.refit_gain_ = before - run.best_objective


@contextmanager
def _projected_if_interrupted(run: Run, weights: Callable[[], sp.csc_array]) -> Iterator[None]:
    """Offer the acyclic part of the weights if the fit without acyclicity is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        W = weights()
        order = greedy_order(W, run.precedence)
        run.offer(project(W, order), order)
        raise


def _uses_data(run: Run) -> bool:
    return run.data.X is not None and run.data.n_samples < run.gram.d


# ------------------------------------------------------------------ weights, all or on a support


class _Dense:
    """All weights as one (d, d) tensor; ``equation_1``, also with a pull, is over the unit."""

    def __init__(self, learner: OptiMAS, run: Run, torch: Any, W: sp.csc_array) -> None:
        device = pick_device(torch, learner.device)
        dtype = learner._dtype(run, torch, _uses_data(run))
        self._torch, self._penalties = torch, penalties(torch)
        self.unit = learner._unit(run, dtype)
        self._lambda1 = run.lambda1 / self.unit
        self._residuals = Residuals(run, torch, device, dtype, self.unit)
        self.tensor = torch.as_tensor(W.toarray(order="C"), dtype=dtype, device=device)
        self._precedence = run.precedence
        self.possible = possible_arcs(torch, run, dtype, device)

    def equation_1(self, W: Any, centre: Any = None, pull: float = 0.0) -> Any:
        return 0.5 * self._residuals(W).sum() + self._penalties(W, centre, self._lambda1, pull)

    def order(self, W: Any) -> NDArray[np.int64]:
        # All forms of algorithm 2 give the same order; the compiled ones need the CPU.
        if self._precedence is not None or W.device.type == "cpu":
            return greedy_order(W.cpu().numpy(), self._precedence)
        return np.asarray(greedy_order_dense(W).cpu().numpy())

    def project(self, W: Any, order: NDArray[np.int64]) -> Any:
        rank = self._torch.as_tensor(rank_of(order), device=W.device)
        return W * (rank[:, None] < rank)

    def n_arcs(self, W: Any) -> int:
        return int(self._torch.count_nonzero(W))

    def sparse(self, W: Any) -> sp.csc_array:
        return to_sparse(W)


class _Support:
    """Only the weights on the arcs of a sparse matrix, as one (m,) tensor; the rest stays zero.

    ``equation_1``, also with a pull, is over the unit.
    """

    def __init__(
        self, learner: OptiMAS, run: Run, torch: Any, W: sp.csc_array, support: sp.csc_array
    ) -> None:
        self._torch, self._penalties = torch, penalties(torch)
        self._precedence = run.precedence
        self.possible = None  # the support holds no other arcs
        device = pick_device(torch, learner.device)
        dtype = learner._dtype(run, torch, from_data=True)
        self.unit = learner._unit(run, dtype)
        self._lambda1 = run.lambda1 / self.unit
        support.sort_indices()
        self._indptr, self._rows = (a.astype(np.int64) for a in (support.indptr, support.indices))
        self._columns = np.repeat(np.arange(run.gram.d), np.diff(self._indptr))
        values, W, d = np.zeros(len(self._rows)), W.tocoo(), run.gram.d
        place = np.searchsorted(self._columns * d + self._rows, W.col.astype(np.int64) * d + W.row)
        values[place] = W.data
        self.tensor = torch.as_tensor(values, dtype=dtype, device=device)
        X, root = run.data.X, math.sqrt(self.unit)
        X = _stand_in(run, self.unit) if X is None else X / root
        X_T = torch.as_tensor(np.array(X.T, order="C"), dtype=dtype, device=device)  # (d, n)
        pattern = [torch.as_tensor(a, device=device) for a in (self._indptr, self._rows)]
        self._function = _on_support(torch, X_T, *pattern)

    def equation_1(self, w: Any, centre: Any = None, pull: float = 0.0) -> Any:
        return 0.5 * self._function.apply(w) + self._penalties(w, centre, self._lambda1, pull)

    def order(self, w: Any) -> NDArray[np.int64]:
        return greedy_order(self.sparse(w), self._precedence)

    def project(self, w: Any, order: NDArray[np.int64]) -> Any:
        rank = rank_of(order)
        forward = rank[self._rows] < rank[self._columns]
        return w * self._torch.as_tensor(forward, device=w.device)

    def n_arcs(self, w: Any) -> int:
        return int(self._torch.count_nonzero(w))

    def sparse(self, w: Any) -> sp.csc_array:
        data, d = w.detach().cpu().numpy().astype(np.float64), len(self._indptr) - 1
        W = sp.csc_array((data, self._rows, self._indptr), shape=(d, d), copy=True)
        W.eliminate_zeros()
        return W


def _stand_in(run: Run, unit: float) -> NDArray[np.float64]:
    """Return data (d, d) that have the known covariance over the unit, up to the factor n."""
    assert run.data.covariance is not None
    values, vectors = np.linalg.eigh(run.data.covariance / unit)
    return (vectors * np.sqrt(np.maximum(values, 0) * len(values))).T


def _on_support(torch: Any, X_T: Any, indptr: Any, indices: Any) -> Any:
    """Return the function ``‖X − XW‖²/n`` of the weights on a support, differentiable by torch."""
    d, n = X_T.shape
    X = X_T.T

    def matrix(values: Any) -> Any:  # Wᵀ by rows is W by columns
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch calls this layout a beta
            return torch.sparse_csr_tensor(indptr, indices, values, size=(d, d))

    class OnSupport(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, w: Any) -> Any:
            R = X_T - matrix(w) @ X_T  # the residuals (d, n)
            ctx.save_for_backward(R, w)
            return R.square().sum() / n

        @staticmethod
        def backward(ctx: Any, slope: Any) -> Any:
            R, w = ctx.saved_tensors
            inner = torch.sparse.sampled_addmm(matrix(torch.zeros_like(w)), R, X, beta=0.0)
            return inner.values() * (slope * (-2 / n))

    return OnSupport
