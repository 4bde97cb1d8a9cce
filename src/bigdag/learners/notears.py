"""NOTEARS: least squares under a smooth constraint that holds for acyclic weights only.

Minimised is equation (1), ``1/(2n)·‖XW − X‖² + λ1‖W‖₁``, subject to ``h(W) = tr e^{W∘W} − d = 0``:
h is zero for an acyclic W and positive else. There are two ways:

- as published, by an augmented Lagrangian: ``equation (1) + α·h + ρ/2·h²`` is minimised by L-BFGS,
  on W as a difference of two parts that are not negative, which makes the L1 norm a sum; then α
  grows by ρh, and ρ tenfold for as long as h does not fall to a quarter;
- as the paper re-implements it: ``equation (1) + λ2·h`` is minimised by an optimiser of torch.

The first ends where h is below 1e-8, the second never quite gets to zero. Either way the answer is
the last iterate without the arcs up to the smallest magnitude that leaves no cycle.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import expm

from bigdag.errors import ParameterError
from bigdag.learners.base import Learner
from bigdag.learners.convergence import Settled
from bigdag.learners.dense import (
    LeastSquares,
    Over,
    Pace,
    answer_with_acyclic_part,
    arcs_of,
    check_dense,
    few_threads,
    unit_of_variances,
)
from bigdag.learners.parameters import Number, OneOf
from bigdag.learners.run import Run, State
from bigdag.learners.torch_loss import Residuals
from bigdag.learners.torch_support import (
    Convergence,
    TorchLearner,
    pick_device,
    possible_arcs,
    to_sparse,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NOTEARS", "PenalisedLearner", "acyclicity"]

_MATRICES = 15  # W, the best W, gradient, optimiser's state, the moments, for an exponential
_LAGRANGIAN_MATRICES = 130  # in float64, measured: what L-BFGS-B holds of two parts, mostly
_ENOUGH = 1e-8  # of h: less is rounding, and acyclic
_TIGHTER, _PROGRESS = 10.0, 0.25  # rho grows by the first unless h falls to the second of itself
_TIGHTEST = 1e16  # of rho
_ROUNDS = 100  # of the multiplier
_LAMBDA2 = 5.0


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
        unit = self._unit(run, dtype)
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
        way, the answer of the run is then the last iterate with a finite loss, or the one with the
        least loss where that is clearly lower, made acyclic; that iterate is returned.
        """
        at: list[Any] = []

        def total(W: Any) -> Any:
            value, equation_1 = loss(W)
            at[:] = [equation_1]
            return value

        possible = possible_arcs(torch, run, W.dtype, W.device)
        descent = self._descent(torch, W, total, possible)
        convergence = Convergence(
            descent, self.tol, self.patience, self.decays, floor=self._floor(run), goes_back=True
        )
        kept, pace = W.detach().clone(), Pace(run)
        try:
            if not pace.is_over():  # an evaluation lasts about as long as a step
                convergence.reached(descent.evaluate())
            while not over() and not pace.is_over():
                descent.step()
                value = descent.evaluate()
                kept.copy_(W.detach())
                arcs = int(torch.count_nonzero(kept))
                converged = convergence.reached(value)  # which may take W elsewhere
                if run.step(phase, float(at[0]), arcs, lambda: to_sparse(kept)) or converged:
                    break
        finally:
            lower = convergence.clearly_lower()
            if lower is not None:  # the last steps led away from it
                kept.copy_(lower)
            self.raw_weights_ = to_sparse(kept)
            answer_with_acyclic_part(run, self.raw_weights_)
        return kept

    def _floor(self, run: Run) -> float:  # noqa: ARG002
        """Return the least size of the loss that its gains are relative to."""
        return 0.0


class NOTEARS(PenalisedLearner):
    """Learn a DAG by least squares under a smooth constraint of acyclicity.

    Dense: it needs some 130 (d, d) matrices in float64 with the augmented Lagrangian, some
    fourteen with the soft penalty, and O(d³) time a step.

    Parameters
    ----------
    lambda1 : float, default=0.1
        The weight of the L1 norm.
    solver : {"augmented_lagrangian", "soft_penalty"}, default="augmented_lagrangian"
        The method as published, with L-BFGS on the CPU; or one loss with a fixed penalty on cycles
        and an optimiser of torch, as the paper re-implements it, which needs the extra "torch".
    lambda2 : float, optional
        The weight of the soft penalty on cycles; 5.0 by default.
    optimizer : str or callable, default="Adam"
        An optimiser of ``torch.optim`` by name, or a function from parameters to an optimiser; for
        the soft penalty.
    learning_rate : float, default=0.01
        Of an optimiser by name.
    decays : int, default=2
        How often the optimiser's learning rate is divided by ten: whenever the loss has settled.
        The fit has converged when it has settled after the last time. 0 keeps the rate constant.
    tol : float, default=1e-5
        A loss has settled when it has fallen by this share of itself, or less, over the last third
        of all steps, and over ``patience`` of them at the least. For the augmented Lagrangian that
        ends one minimisation, and only its steps count.
    patience : int, default=100
        See ``tol``.
    device : str, optional
        The torch device of the soft penalty; the CPU by default.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Of the soft penalty: float32 unless the variances are too far apart for it. The augmented
        Lagrangian is computed in float64.
    max_iter : int, default=100000
        Steps at the most; those of L-BFGS, or of the optimiser.
    time_limit : float, optional
        Seconds at the most.
    random_state : int or Generator, optional
        Unused, as the method is deterministic; for the common interface.
    callback : callable, optional
        Called with a :class:`~bigdag.learners.run.State` after each step; True ends the fit.
    warm_start_dag : DAG or matrix of shape (d, d), optional
        The weights to begin from; zeros by default.
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

    Notes
    -----
    A warm start is where the first minimisation begins. The Lagrangian's first penalty is weak, so
    that it may leave a DAG that it began from.

    References
    ----------
    Zheng, Aragam, Ravikumar & Xing, DAGs with NO TEARS, 2018.

    Examples
    --------
    >>> from bigdag import NOTEARS, simulate
    >>> truth = simulate.random_dag(5, 1, rng=0)
    >>> X = simulate.sample(truth, 500, rng=1)
    >>> model = NOTEARS(n_jobs=1).fit(X)
    >>> sorted(model.dag_.threshold(0.3).edges()["source"]) == sorted(truth.edges()["source"])
    True
    """

    _parameters: ClassVar[dict[str, Any]] = {
        **TorchLearner._parameters,
        "solver": OneOf("augmented_lagrangian", "soft_penalty"),
        "lambda2": Number(0, 1e300, none=True),
    }
    _of_soft_penalty = ("lambda2", "optimizer", "learning_rate", "decays", "device", "dtype")

    def __init__(
        self,
        lambda1: float = 0.1,
        *,
        solver: str = "augmented_lagrangian",
        lambda2: float | None = None,
        optimizer: str | Callable[[Any], Any] = "Adam",
        learning_rate: float = 0.01,
        decays: int = 2,
        tol: float = 1e-5,
        patience: int = 100,
        device: str | None = None,
        dtype: str = "auto",
        max_iter: int | None = 100_000,
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
        self.solver = solver
        self.lambda2 = lambda2
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.decays = decays
        self.tol = tol
        self.patience = patience
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

    # -------------------------------------------------------------- what the solvers need

    @property
    def _soft(self) -> bool:
        return self.solver == "soft_penalty"

    def _check_parameters(self) -> None:
        if self._soft:
            super()._check_parameters()
            return
        Learner._check_parameters(self)
        defaults = inspect.signature(type(self)).parameters
        for name in self._of_soft_penalty:
            given = getattr(self, name)
            if given is not defaults[name].default and given != defaults[name].default:
                raise ParameterError(
                    f"{name} must be left out with solver='augmented_lagrangian', which has no use "
                    f"for it; solver='soft_penalty' has. Got {given!r} instead."
                )

    def _prepare(self) -> None:
        if self._soft:
            super()._prepare()

    def _workspace(self, n: int, d: int, hold: bool) -> int:
        if self._soft:
            return super()._workspace(n, d, hold)
        return 8 * _LAGRANGIAN_MATRICES * d * d

    def _learn(self, run: Run) -> None:
        if self._soft:
            with self._torch(run) as torch:
                residuals, W = self._begin(run, torch)
                self._minimise(run, torch, "fit", W, self._loss(run, residuals))
        else:
            with few_threads(run):
                self._augmented_lagrangian(run)

    # -------------------------------------------------------------- the soft penalty

    def _loss(self, run: Run, residuals: Residuals) -> Callable[[Any], tuple[Any, Any]]:
        unit = residuals.unit
        lambda2 = (_LAMBDA2 if self.lambda2 is None else self.lambda2) / unit
        lambda1 = run.lambda1 / unit

        def loss(W: Any) -> tuple[Any, Any]:
            equation_1 = 0.5 * residuals(W).sum() + lambda1 * W.abs().sum()
            return equation_1 + lambda2 * acyclicity(W), unit * float(equation_1.detach())

        return loss

    # -------------------------------------------------------------- the augmented Lagrangian

    def _augmented_lagrangian(self, run: Run) -> None:
        """Minimise, and strengthen the constraint, until h is as good as zero."""
        d = run.gram.d
        check_dense(d, _LAGRANGIAN_MATRICES, 8, self.memory_limit)
        self.raw_weights_ = sp.csc_array((d, d)) if run.warm_start is None else run.warm_start
        lagrangian = _Lagrangian(self, run)
        try:
            h, rounds = np.inf, 0
            while rounds < _ROUNDS and h > _ENOUGH and lagrangian.rho < _TIGHTEST:
                before, h = h, lagrangian.minimise()
                while h > _PROGRESS * before and h > _ENOUGH and lagrangian.rho < _TIGHTEST:
                    lagrangian.rho *= _TIGHTER
                    h = lagrangian.minimise()
                lagrangian.alpha += lagrangian.rho * h
                rounds += 1
        except Over:
            pass
        finally:
            self.raw_weights_ = arcs_of(lagrangian.kept)
            answer_with_acyclic_part(run, self.raw_weights_)


class _Minimum(Exception):  # no error, but the way out of L-BFGS-B
    """Raised where the loss has settled."""


class _Lagrangian:
    """The augmented Lagrangian over a unit, minimised by L-BFGS-B from where it last arrived."""

    def __init__(self, learner: NOTEARS, run: Run) -> None:
        self.alpha, self.rho = 0.0, 1.0
        self.kept = learner.raw_weights_.toarray(order="C")  # the last iterate
        self._run, self._pace = run, Pace(run)
        self._unit = unit_of_variances(run, "float64", run.lambda1, run.lambda1)
        self._lambda1 = run.lambda1 / self._unit
        self._squares = LeastSquares(run, self._unit)
        self._tol, self._patience = learner.tol, learner.patience
        self._settled = Settled(self._tol, self._patience)
        self._at = (np.inf, np.inf)  # equation (1) and the loss over the unit, where last evaluated
        most = np.full(self.kept.shape, np.inf)
        np.fill_diagonal(most, 0.0)
        if run.limits is not None:
            most[~run.limits.all_pairs()] = 0.0
        self._most = np.concatenate([most.ravel(), most.ravel()])

    def minimise(self) -> float:
        """Descend with the present alpha and rho; return h of where it ends.

        Raises
        ------
        Over
            If the run is to stop.
        FloatingPointError
            If the loss is beyond the numbers that there are.
        """
        from scipy.optimize import Bounds, minimize

        W = self.kept
        parts = np.concatenate([np.maximum(W, 0).ravel(), np.maximum(-W, 0).ravel()])
        self._settled = Settled(self._tol, self._patience)
        # A single step of L-BFGS may gain next to nothing long before the end: no ftol.
        with suppress(_Minimum):
            minimize(
                self._loss, parts, jac=True, method="L-BFGS-B", callback=self._note,
                bounds=Bounds(0.0, self._most),  # type: ignore[arg-type, unused-ignore]
                options={"ftol": 0.0, "gtol": 0.0, "maxiter": 10**9, "maxfun": 10**9},
            )  # fmt: skip
        return self._constraint(self.kept)[0]

    def _weights(self, parts: NDArray[np.float64]) -> NDArray[np.float64]:
        positive, negative = parts.reshape(2, *self.kept.shape)
        return positive - negative

    def _constraint(self, W: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return h and its gradient."""
        with np.errstate(over="ignore", invalid="ignore"):
            squares = W * W
            if not np.isfinite(squares.sum()):
                raise FloatingPointError("the squares of the weights are beyond float64")
            E = expm(squares)
            h = float(np.trace(E)) - len(W)
            gradient = E.T * W * 2
        return h, gradient  # dh/dW = (e^{W∘W})ᵀ ∘ 2W

    def _loss(self, parts: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        if self._pace.is_over():
            raise Over
        W = self._weights(parts)
        squares, slope = self._squares(W)
        h, towards = self._constraint(W)
        equation_1 = squares + self._lambda1 * float(np.abs(W).sum())
        # Both parts of a weight may be positive on the way, which costs more than their difference.
        with np.errstate(over="ignore", invalid="ignore"):
            total = squares + self._lambda1 * float(parts.sum())
            total += self.alpha * h + 0.5 * self.rho * h * h
            slope = slope + (self.alpha + self.rho * h) * towards
        if not (np.isfinite(total) and np.isfinite(slope).all()):
            raise FloatingPointError(f"the augmented Lagrangian is {total}")
        self._at = (equation_1, total)
        both = np.concatenate([slope.ravel(), -slope.ravel()])
        return total, both + self._lambda1

    def _note(self, parts: NDArray[np.float64]) -> None:
        """Keep an iterate; the last one that was evaluated is the one that L-BFGS-B accepts."""
        self.kept = self._weights(parts)
        arcs, value = int(np.count_nonzero(self.kept)), self._unit * self._at[0]
        if self._run.step("fit", value, arcs, lambda: arcs_of(self.kept)):
            raise Over
        if self._settled.reached(self._at[1]):
            raise _Minimum
