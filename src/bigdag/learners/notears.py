"""NOTEARS as the paper re-implements it: one penalised loss, an optimiser of torch, no Lagrangian.

Minimised is ``1/(2n)·‖XW − X‖² + λ1‖W‖₁ + λ2·h(W)`` with ``h(W) = tr e^{W∘W} − d``, which is zero
for an acyclic W and positive else. Acyclicity is thus asked for from the first step on but never
quite reached: the answer is the last iterate without the arcs up to the smallest magnitude that
leaves no cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import scipy.sparse as sp

from bigdag.graph.acyclic import acyclic_threshold, topological_order
from bigdag.learners.run import Run, State
from bigdag.learners.torch_support import (
    Pace,
    Plateau,
    Residuals,
    TorchLearner,
    check_dense,
    pick_device,
    to_sparse,
)

__all__ = ["NOTEARS", "PenalisedLearner", "acyclicity"]

_MATRICES = 14  # W, gradient, optimiser's state, the moments, and what an exponential needs


def acyclicity(W: Any) -> Any:
    """Return ``h(W) = tr e^{W∘W} − d``, differentiable; one exponential serves both passes.

    Examples
    --------
    >>> import torch
    >>> round(float(acyclicity(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))), 4)
    1.0862
    """
    return _exponential_trace().apply(W)


@cache
def _exponential_trace() -> Any:
    import torch

    class ExponentialTrace(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, W: Any) -> Any:
            E = torch.linalg.matrix_exp(W * W)
            ctx.save_for_backward(W, E)
            return E.trace() - len(W)

        @staticmethod
        def backward(ctx: Any, slope: Any) -> Any:
            W, E = ctx.saved_tensors
            return E.T * W * (2 * slope)  # dh/dW = (e^{W∘W})ᵀ ∘ 2W

    return ExponentialTrace


class PenalisedLearner(TorchLearner):
    """A learner whose loss includes acyclicity, and whose answer is its last iterate's DAG.

    It has ``raw_weights_`` besides the attributes of every learner.
    """

    _matrices = _MATRICES
    raw_weights_: sp.csc_array

    def _begin(self, run: Run, torch: Any) -> tuple[Residuals, Any]:
        """Return the loss' residuals and the matrix to begin from, on the device."""
        d, device = run.gram.d, pick_device(torch, self.device)
        from_data = run.data.X is not None and run.data.n_samples < d
        dtype = self._dtype(run, torch, from_data)
        check_dense(d, _MATRICES, dtype.itemsize, self.memory_limit)
        self.raw_weights_ = sp.csc_array((d, d)) if run.warm_start is None else run.warm_start
        unit = self._unit(run, torch, dtype)
        W = torch.as_tensor(self.raw_weights_.toarray(order="C"), dtype=dtype, device=device)
        if not bool(W.isfinite().all()):
            raise FloatingPointError(f"the weights to begin from are beyond {dtype}")
        return Residuals(run, torch, device, dtype, unit), W

    def _minimise(
        self, run: Run, torch: Any, phase: str, W: Any, loss: Callable[[Any], tuple[Any, Any]],
        over: Callable[[], bool] = lambda: False,
    ) -> Any:  # fmt: skip
        """Descend until the loss stays level, or the run or the phase is over.

        The loss gives its total, in the residuals' unit, and equation (1). Whatever happens on the
        way, the answer of the run is then the last iterate with a finite loss, made acyclic; that
        iterate is returned.
        """
        at: list[Any] = []

        def total(W: Any) -> Any:
            value, equation_1 = loss(W)
            at[:] = [equation_1]
            return value

        descent = self._descent(torch, W, total)
        plateau = Plateau(self.tol, self.patience, floor=self._floor(run))
        kept, pace = W.detach().clone(), Pace(run)
        try:
            if not pace.is_over():  # an evaluation lasts about as long as a step
                plateau.reached(descent.evaluate())
            while not over() and not pace.is_over():
                descent.step()
                value = descent.evaluate()
                kept.copy_(W.detach())
                arcs = int(torch.count_nonzero(kept))
                if run.step(phase, float(at[0]), arcs, lambda: to_sparse(kept)):
                    break
                if plateau.reached(value):
                    break
        finally:
            self.raw_weights_ = to_sparse(kept)
            answer = acyclic_threshold(self.raw_weights_)[1]
            order = topological_order(answer)
            assert order is not None
            run.answer_with(answer, order)
        return kept

    def _floor(self, run: Run) -> float:  # noqa: ARG002
        """Return the least size of the loss that its gains are relative to."""
        return 0.0


class NOTEARS(PenalisedLearner):
    """Learn a DAG with a smooth penalty on cycles, as the paper re-implements NOTEARS.

    Dense: it needs some fourteen (d, d) matrices, and O(d³) time a step.

    Parameters
    ----------
    lambda1 : float, default=0.1
        The weight of the L1 norm.
    lambda2 : float, default=5.0
        The weight of the penalty on cycles.
    optimizer : str or callable, default="Adam"
        An optimiser of ``torch.optim`` by name, or a function from parameters to an optimiser.
    learning_rate : float, default=0.001
        Of an optimiser by name.
    tol : float, default=1e-4
        The fit has converged when the loss has not fallen by this share ...
    patience : int, default=100
        ... within so many steps.
    device : str, optional
        The torch device; the CPU by default.
    dtype : {"auto", "float32", "float64"}, default="auto"
        float32 unless the variances are too far apart for it.
    max_iter : int, default=10000
        Steps at the most.
    time_limit : float, optional
        Seconds at the most.
    random_state : int or Generator, optional
        Unused, as the method is deterministic; for the common interface.
    callback : callable, optional
        Called with a :class:`~bigdag.learners.base.State` after each step; True ends the fit.
    warm_start_dag : DAG or matrix of shape (d, d), optional
        The weights to begin from; zeros by default.
    n_jobs : int, optional
        Threads; all cores by default.
    memory_limit : float or str, optional
        Bytes, or text such as "4GB"; by default four fifths of the free memory.
    verbose : bool, default=False
        Whether to log progress.

    Attributes
    ----------
    raw_weights_ : csc_array of shape (d, d)
        The last iterate, which may hold cycles; what the paper's average precision is computed on.
    dag_ : DAG
        The answer: those weights above the smallest threshold that leaves no cycle.
    weights_ : csc_array of shape (d, d)
        The weights of the answer.
    order_ : ndarray of shape (d,)
        The variables, causes first.
    objective_ : float
        Equation (1) of the answer.
    history_ : DataFrame
        One row an iteration: phase, iteration, seconds, objective (equation (1) of the iterate,
        which has cycles), arcs.
    status_ : str
        One of converged, max_iter, time_limit, interrupted, diverged.
    n_iter_ : int
        The number of iterations.
    noise_variances_ : ndarray of shape (d,)
        What is left of each variance.

    References
    ----------
    Zheng, Aragam, Ravikumar & Xing, DAGs with NO TEARS, 2018.

    Examples
    --------
    >>> from bigdag import NOTEARS, simulate
    >>> truth = simulate.random_dag(5, 1, rng=0)
    >>> X = simulate.sample(truth, 500, rng=1)
    >>> model = NOTEARS(learning_rate=0.01, n_jobs=1).fit(X)
    >>> sorted(model.dag_.threshold(0.3).edges()["source"]) == sorted(truth.edges()["source"])
    True
    """

    _parameters: ClassVar[dict[str, Any]] = TorchLearner._parameters

    def __init__(
        self,
        lambda1: float = 0.1,
        lambda2: float = 5.0,
        *,
        optimizer: str | Callable[[Any], Any] = "Adam",
        learning_rate: float = 0.001,
        tol: float = 1e-4,
        patience: int = 100,
        device: str | None = None,
        dtype: str = "auto",
        max_iter: int | None = 10_000,
        time_limit: float | None = None,
        random_state: Any = None,
        callback: Callable[[State], Any] | None = None,
        warm_start_dag: Any = None,
        n_jobs: int | None = None,
        memory_limit: float | str | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.tol = tol
        self.patience = patience
        self.device = device
        self.dtype = dtype
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.callback = callback
        self.warm_start_dag = warm_start_dag
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.verbose = verbose

    def _learn(self, run: Run) -> None:
        with self._torch(run) as torch:
            residuals, W = self._begin(run, torch)
            self._minimise(run, torch, "fit", W, self._loss(run, residuals))

    def _loss(self, run: Run, residuals: Residuals) -> Callable[[Any], tuple[Any, Any]]:
        unit = residuals.unit
        lambda1, lambda2 = run.lambda1 / unit, self.lambda2 / unit

        def loss(W: Any) -> tuple[Any, Any]:
            equation_1 = 0.5 * residuals(W).sum() + lambda1 * W.abs().sum()
            return equation_1 + lambda2 * acyclicity(W), unit * float(equation_1.detach())

        return loss
