"""GOLEM: the Gaussian likelihood with soft penalties on arcs and cycles.

Minimised is ``ℓ(W) − log|det(I − W)| + λ1‖W‖₁ + λ2·h(W)``, where with equal noise variances (EV)
``ℓ = d/2·log‖X − XW‖²`` and with one variance a variable (NV) ``ℓ = 1/2·Σ_j log‖x_j − X w_j‖²``,
and h is the penalty of NOTEARS. NV has many bad optima, so it begins from the EV solution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from bigdag.learners.dense import unit_of_variances
from bigdag.learners.notears import PenalisedLearner, acyclicity
from bigdag.learners.parameters import Number, OneOf
from bigdag.learners.run import Run, State
from bigdag.learners.torch_loss import Residuals
from bigdag.learners.torch_support import TorchLearner, precision_of

__all__ = ["GOLEM", "likelihood"]

_LAMBDA1 = {"EV": 0.02, "NV": 0.002}
_PERFECT = 1e-7  # of a variance: less left of it is rounding, whose logarithm would mislead
_EV_SHARE = 0.5  # of the budget, at the most, before NV begins


def likelihood(
    torch: Any, variance: str, variances: Any, W: Any, n_samples: int, floor: Any
) -> Any:
    """Return the negative log-likelihood of W, up to a constant, differentiable.

    Parameters
    ----------
    torch : module
        The package.
    variance : {"EV", "NV"}
        One noise variance for all variables, or one for each.
    variances : torch.Tensor of shape (d,)
        What W leaves of each variance.
    W : torch.Tensor of shape (d, d)
        The weights.
    n_samples : int
        The sample size.
    floor : torch.Tensor of shape (d,)
        The least variances to count with; zero for a constant column, which is left out.

    Examples
    --------
    >>> import torch
    >>> one = torch.ones(2)
    >>> float(likelihood(torch, "EV", one, torch.zeros(2, 2), 1, 1e-7 * one).exp())
    2.0
    """
    live = floor > 0
    left = variances[live]
    if variance == "EV":
        total = torch.maximum(left.sum(), floor.sum()).clamp(min=torch.finfo(W.dtype).tiny)
        fit = 0.5 * len(left) * torch.log(n_samples * total)
    else:
        fit = 0.5 * torch.log(n_samples * torch.maximum(left, floor[live])).sum()
    identity = torch.eye(len(W), dtype=W.dtype, device=W.device)
    return fit - torch.linalg.slogdet(identity - W)[1]


class GOLEM(PenalisedLearner):
    """Learn a DAG by penalised maximum likelihood.

    Dense: it needs some fourteen (d, d) matrices, and O(d³) time a step.

    Parameters
    ----------
    variance : {"EV", "NV"}, default="EV"
        Equal noise variances, or one for each variable; NV begins with a fit of EV, which takes
        half of the budget at the most, or from ``warm_start_dag``.
    lambda1 : float, optional
        The weight of the L1 norm; by default 0.02 for EV and 0.002 for NV.
    lambda2 : float, default=5.0
        The weight of the penalty on cycles.
    optimizer : str or callable, default="Adam"
        An optimiser of ``torch.optim`` by name, or a function from parameters to an optimiser.
    learning_rate : float, default=0.01
        Of an optimiser by name.
    decays : int, default=2
        How often the optimiser's learning rate is divided by ten: whenever the loss has settled. A
        phase has converged when it has settled after the last time. 0 keeps the rate constant.
    tol : float, default=1e-5
        A loss has settled when it has fallen by this share of itself, or less, over the last third
        of all steps, and over ``patience`` of them at the least.
    patience : int, default=100
        See ``tol``.
    device : str, optional
        The torch device; the CPU by default.
    dtype : {"auto", "float32", "float64"}, default="auto"
        float32 unless the variances are too far apart for it.
    max_iter : int, default=30000
        Steps at the most.
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
        Equation (1) of the answer, at the lambda1 in use.
    history_ : DataFrame
        One row an iteration: phase ("ev" or "nv"), iteration, seconds, objective (equation (1) of
        the iterate, which has cycles), arcs.
    status_ : str
        One of converged, max_iter, time_limit, interrupted, diverged.
    n_iter_ : int
        The number of iterations.
    noise_variances_ : ndarray of shape (d,)
        What is left of each variance.

    References
    ----------
    Ng, Ghassami & Zhang, On the Role of Sparsity and DAG Constraints for Learning Linear DAGs,
    2020.

    Examples
    --------
    >>> from bigdag import GOLEM, simulate
    >>> truth = simulate.random_dag(5, 1, rng=0)
    >>> X = simulate.sample(truth, 500, rng=1)
    >>> model = GOLEM(n_jobs=1).fit(X)
    >>> sorted(model.dag_.threshold(0.3).edges()["source"]) == sorted(truth.edges()["source"])
    True
    """

    _parameters: ClassVar[dict[str, Any]] = {
        **TorchLearner._parameters,
        "variance": OneOf("EV", "NV"),
        "lambda1": Number(0, 1e300, none=True),
    }

    def __init__(
        self,
        variance: str = "EV",
        lambda1: float | None = None,
        lambda2: float = 5.0,
        *,
        optimizer: str | Callable[[Any], Any] = "Adam",
        learning_rate: float = 0.01,
        decays: int = 2,
        tol: float = 1e-5,
        patience: int = 100,
        device: str | None = None,
        dtype: str = "auto",
        max_iter: int | None = 30_000,
        time_limit: float | None = None,
        random_state: Any = None,
        callback: Callable[[State], Any] | None = None,
        warm_start_dag: Any = None,
        knowledge: Any = None,
        n_jobs: int | None = None,
        memory_limit: float | str | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.variance = variance
        self.lambda1 = lambda1
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

    def _own_lambda1(self, variance: str | None = None) -> float:
        """Return lambda1: as given, or the default of the noise model."""
        return float(_LAMBDA1[variance or self.variance] if self.lambda1 is None else self.lambda1)

    def _floor(self, run: Run) -> float:
        return float(run.gram.d)  # a logarithm has no scale of its own

    def _unit(self, run: Run, dtype: Any) -> float:
        # Equal variances share one penalty in the data's units; else each column has its own.
        idle = self._own_lambda1() * float(run.gram.diag().mean()) if self.variance == "EV" else 0.0
        return unit_of_variances(run, precision_of(dtype), 0.0, idle)

    def _learn(self, run: Run) -> None:
        with self._torch(run) as torch:
            residuals, W = self._begin(run, torch)
            if self.variance == "NV" and run.warm_start is None:
                W = self._minimise(
                    run, torch, "ev", W, self._loss(run, torch, residuals, "EV"),
                    lambda: self._share_is_over(run),
                )  # fmt: skip
            if run.status == "converged":
                loss = self._loss(run, torch, residuals, self.variance)
                self._minimise(run, torch, self.variance.lower(), W, loss)

    def _loss(
        self, run: Run, torch: Any, residuals: Residuals, variance: str
    ) -> Callable[[Any], tuple[Any, Any]]:
        source = residuals.source
        unit, sd = residuals.unit, run.gram.sd / math.sqrt(residuals.unit)
        floor = _PERFECT * torch.as_tensor(sd**2, dtype=source.dtype, device=source.device)
        constant = 0.5 * int((floor > 0).sum()) * math.log(unit)
        lambda1 = self._own_lambda1(variance)

        def loss(W: Any) -> tuple[Any, Any]:
            variances, norm = residuals(W), W.abs().sum()
            fit = likelihood(torch, variance, variances, W, residuals.n_samples, floor)
            loss_1, norm_1 = float(variances.detach().sum()), float(norm.detach())
            equation_1 = 0.5 * unit * loss_1 + run.lambda1 * norm_1
            return fit + constant + lambda1 * norm + self.lambda2 * acyclicity(W), equation_1

        return loss

    def _share_is_over(self, run: Run) -> bool:
        """Tell whether the share of the budget that EV may take before NV is used up."""
        late = run.share_is_over(_EV_SHARE)
        return late or (run.max_iter is not None and run.iteration >= _EV_SHARE * run.max_iter)
