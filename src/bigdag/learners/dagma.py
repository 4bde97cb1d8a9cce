"""DAGMA: least squares with a log-determinant that is zero for acyclic weights only.

For s > 0, ``h_s(W) = −log det(sI − W∘W) + d·log s`` is defined where sI − W∘W is an M-matrix, that
is where the spectral radius of W∘W is below s; there it is zero for an acyclic W and positive else,
and grows without bound towards the border. Along a path of falling μ and s,
``μ·(1/(2n)·‖XW − X‖² + λ1‖W‖₁) + h_s(W)`` is minimised from where the last minimum was: the
smaller μ, the less a cycle is worth. Published with Adam; here each minimum is found by a
quasi-Newton descent, whose steps are halved at the border.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dgetrf, dgetri

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
from bigdag.learners.parameters import Number
from bigdag.learners.quasi_newton import MEMORY, descend
from bigdag.learners.run import Run, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DAGMA", "log_determinant"]

_MATRICES = 2 * MEMORY + 18  # in float64: pairs of steps, the moments, and what is passing
_FALL_OF_MU = 0.1  # from one minimum to the next
_S = (1.0, 0.9, 0.8, 0.7, 0.6)  # then the last one
_ROOM = 1.1  # s over the spectral radius, where a start lies beyond the border
_ROUNDING = 1e-12  # of the largest entry of an inverse: less below zero is no sign


def log_determinant(W: NDArray[np.float64], s: float = 1.0) -> tuple[float, NDArray[np.float64]]:
    """Return ``h_s(W)`` and its gradient, from one factorisation.

    Raises
    ------
    FloatingPointError
        If sI − W∘W is no M-matrix, where h is not defined.

    Examples
    --------
    >>> h, gradient = log_determinant(np.array([[0.0, 0.5], [0.5, 0.0]]))
    >>> round(h, 4)
    0.0645
    >>> log_determinant(np.array([[0.0, 2.0], [2.0, 0.0]]))
    Traceback (most recent call last):
        ...
    FloatingPointError: the weights are beyond the border of h
    """
    with np.errstate(over="ignore"):
        M = -W * W
    M.flat[:: len(W) + 1] += s
    if not np.isfinite(M).all():
        raise FloatingPointError("the squares of the weights are beyond float64")
    LU, pivots, singular = dgetrf(M, overwrite_a=True)
    if not singular:
        size = np.abs(LU.diagonal())
        inverse, singular = dgetri(LU, pivots, overwrite_lu=True)
    # A matrix with no positive entry beside its diagonal is an M-matrix where its inverse has no
    # negative one.
    if singular or inverse.min() < -_ROUNDING * inverse.max():
        raise FloatingPointError("the weights are beyond the border of h")
    return float(len(W) * np.log(s) - np.log(size).sum()), 2 * W * inverse.T


class DAGMA(Learner):
    """Learn a DAG by least squares and a log-determinant, along a path of penalties.

    Dense: it needs some thirty (d, d) matrices in float64, and O(d³) time a step.

    Parameters
    ----------
    lambda1 : float, default=0.03
        The weight of the L1 norm.
    path : int, default=5
        How many minima: the weight μ of equation (1) against acyclicity is 1 at the first, and a
        tenth of the last at each further one; s is 1, 0.9, 0.8, 0.7, and then 0.6.
    tol : float, default=1e-5
        A loss has settled when it has fallen by this share of itself, or less, over the last third
        of all steps, and over ``patience`` of them at the least; that ends one minimisation.
    patience : int, default=100
        See ``tol``.
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
        The last iterate, which may hold cycles.
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
        which may have cycles), arcs.
    status_ : str
        One of converged, max_iter, time_limit, interrupted, diverged.
    n_iter_ : int
        The number of iterations.
    noise_variances_ : ndarray of shape (d,)
        What is left of each variance.

    References
    ----------
    Bello, Aragam & Ravikumar, DAGMA: Learning DAGs via M-matrices and a Log-Determinant Acyclicity
    Characterization, 2022.

    Examples
    --------
    >>> from bigdag import DAGMA, simulate
    >>> truth = simulate.random_dag(5, 1, rng=0)
    >>> X = simulate.sample(truth, 500, rng=1)
    >>> model = DAGMA(n_jobs=1).fit(X)
    >>> sorted(model.dag_.threshold(0.3).edges()["source"]) == sorted(truth.edges()["source"])
    True
    """

    raw_weights_: sp.csc_array

    _parameters: ClassVar[dict[str, Any]] = {
        **Learner._parameters,
        "path": Number(1, 100, whole=True),
        "tol": Number(0, 1),
        "patience": Number(1, whole=True),
    }

    def __init__(
        self,
        lambda1: float = 0.03,
        *,
        path: int = 5,
        tol: float = 1e-5,
        patience: int = 100,
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
        self.lambda1 = lambda1
        self.path = path
        self.tol = tol
        self.patience = patience
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.callback = callback
        self.warm_start_dag = warm_start_dag
        self.knowledge = knowledge
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.verbose = verbose

    def _workspace(self, n: int, d: int, hold: bool) -> int:  # noqa: ARG002
        return 8 * _MATRICES * d * d

    def _learn(self, run: Run) -> None:
        d = run.gram.d
        check_dense(d, _MATRICES, 8, self.memory_limit)
        self.raw_weights_ = sp.csc_array((d, d)) if run.warm_start is None else run.warm_start
        kept = self.raw_weights_.toarray(order="C")
        barred = None if run.limits is None else ~run.limits.all_pairs()
        unit = unit_of_variances(run, "float64", run.lambda1, run.lambda1)
        try:
            with few_threads(run):
                squares, pace = LeastSquares(run, unit), Pace(run)
                for k in range(self.path):
                    loss = _Loss(squares, pace, _FALL_OF_MU**k, _S[min(k, len(_S) - 1)], barred)
                    loss.widen(kept)
                    settled = Settled(self.tol, self.patience)
                    lambda1 = run.lambda1 / unit
                    for kept, value in descend(loss, kept, loss.mu * lambda1):  # noqa: B020
                        equation_1 = unit * (loss.squares + lambda1 * float(np.abs(kept).sum()))
                        arcs = int(np.count_nonzero(kept))
                        if run.step("path", equation_1, arcs, partial(arcs_of, kept)):
                            return
                        if settled.reached(value):
                            break
        except Over:
            pass
        finally:
            self.raw_weights_ = arcs_of(kept)
            answer_with_acyclic_part(run, self.raw_weights_)


class _Loss:
    """The smooth part of the loss at one point of the path, over the unit of the variances."""

    def __init__(
        self,
        squares: LeastSquares,
        pace: Pace,
        mu: float,
        s: float,
        barred: NDArray[np.bool_] | None = None,
    ) -> None:
        self._least_squares, self._pace, self._barred = squares, pace, barred
        self.mu, self.s = mu, s
        self.squares = np.inf  # the loss of least squares, where last evaluated

    def widen(self, W: NDArray[np.float64]) -> None:
        """Raise s where the weights to begin from lie beyond its border."""
        try:
            log_determinant(W, self.s)
        except FloatingPointError:
            with np.errstate(over="ignore"):
                squares = W * W
            if not np.isfinite(squares).all():
                raise
            self.s = _ROOM * float(np.abs(np.linalg.eigvals(squares)).max())

    def __call__(self, W: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        if self._pace.is_over():
            raise Over
        h, towards = log_determinant(W, self.s)
        squares, slope = self._least_squares(W)
        value = self.mu * squares + h
        if not np.isfinite(value):
            raise FloatingPointError(f"the loss is {value}")
        self.squares = squares
        slope = self.mu * slope + towards
        if self._barred is not None:
            slope[self._barred] = 0.0  # arcs that are not possible stay zero
        return value, slope
