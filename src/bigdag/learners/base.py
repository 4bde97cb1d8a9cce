"""The loop that every learner shares: parameters, clock, deadline, history, best so far, status.

A learner is a scikit-learn estimator. Its ``fit`` checks the parameters and the data, makes a
:class:`Run` and hands it to the method's own ``_learn(run)``. Whatever happens in there, an
interrupt included, the run holds the best acyclic graph offered to it so far, and that is what the
estimator ends with. What is offered comes with its order, and only arcs that agree with the order
are taken: no method can answer with a cycle.
"""

from __future__ import annotations

import logging
import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from bigdag import lasso, objective
from bigdag.acyclic import project, topological_order
from bigdag.compiled import Stopwatch
from bigdag.dag import DAG
from bigdag.data import Dataset, as_dataset
from bigdag.errors import ParameterError
from bigdag.gram import Gram
from bigdag.interrupts import Interrupt, interruptible
from bigdag.matching import weights_on_columns
from bigdag.resources import bytes_of

__all__ = ["Learner", "Number", "OneOf", "Run", "State", "Status"]

Status = Literal["converged", "max_iter", "time_limit", "interrupted", "diverged"]

_log = logging.getLogger("bigdag")
_BYTES_OF_AN_ARC = 80  # in the lists, copies and sparse arrays of a fit


# ------------------------------------------------------------------ what a parameter may be


@dataclass(frozen=True)
class Number:
    """A number in an interval.

    Parameters
    ----------
    low, high : float
        The ends; ``low`` is allowed unless ``above`` is set, ``high`` always is.
    whole : bool, default=False
        Whether it must be an integer.
    above : bool, default=False
        Whether ``low`` itself is refused.
    none : bool, default=False
        Whether None is allowed.

    Examples
    --------
    >>> Number(0, above=True).allows(0.0)
    False
    >>> print(Number(1, whole=True, none=True))
    an integer >= 1, or None
    """

    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    above: bool = False
    none: bool = False

    def allows(self, value: Any) -> bool:
        """Tell whether a value is allowed."""
        if value is None:
            return self.none
        kind = numbers.Integral if self.whole else numbers.Real
        if isinstance(value, bool | np.bool_) or not isinstance(value, kind):
            return False
        number = float(value)
        inside = number > self.low if self.above else number >= self.low
        return inside and number <= self.high and not math.isnan(number)

    def __str__(self) -> str:
        text = "an integer" if self.whole else "a number"
        if self.low > -math.inf:
            text += f" {'>' if self.above else '>='} {self.low:g}"
        if self.high < math.inf:
            text += f"{' and' if self.low > -math.inf else ''} <= {self.high:g}"
        return text + (", or None" if self.none else "")


@dataclass(frozen=True)
class OneOf:
    """One of a few values.

    Examples
    --------
    >>> print(OneOf("EV", "NV"))
    one of 'EV', 'NV'
    """

    options: tuple[Any, ...]

    def __init__(self, *options: Any) -> None:
        object.__setattr__(self, "options", options)

    def allows(self, value: Any) -> bool:
        """Tell whether a value is allowed."""
        if isinstance(value, str):
            return str(value) in self.options
        return any(type(value) is type(o) and value == o for o in self.options)

    def __str__(self) -> str:
        return "one of " + ", ".join(map(repr, self.options))


@dataclass(frozen=True)
class Checked:
    """What a function accepts without raising, said in words."""

    words: str
    check: Callable[[Any], Any]

    def allows(self, value: Any) -> bool:
        """Tell whether a value is allowed."""
        try:
            return self.check(value) is not False
        except ParameterError:
            return False

    def __str__(self) -> str:
        return self.words


# ------------------------------------------------------------------ one fit


@dataclass(frozen=True)
class State:
    """What a callback sees after each iteration.

    Attributes
    ----------
    phase : str
        The part of the method that is under way.
    iteration : int
        Counted from 1 within the whole fit.
    seconds : float
        Time since the fit began, without that of compiling.
    objective : float
        Equation (1) of the present weights.
    arcs : int
        Their number.
    best_objective : float
        Equation (1) of the best acyclic graph so far.
    time_limit : float or None
        The limit of the fit in seconds.
    max_iter : int or None
        The limit of the fit in iterations.
    weights : callable
        Returns the present weights, as a ``csc_array``; they may hold cycles.
    best : callable
        Returns the best acyclic weights so far, as a ``csc_array``.
    """

    phase: str
    iteration: int
    seconds: float
    objective: float
    arcs: int
    best_objective: float
    time_limit: float | None
    max_iter: int | None
    weights: Callable[[], sp.csc_array]
    best: Callable[[], sp.csc_array]


class Run:
    """One fit under way: its data, its clock, its history and the best graph so far.

    Parameters
    ----------
    learner : Learner
        Whose parameters hold.
    data : Dataset
        The checked data.
    interrupt : Interrupt, optional
        What tells whether the fit has been asked to end.
    """

    def __init__(self, learner: Learner, data: Dataset, interrupt: Interrupt | None = None) -> None:
        self._watch = Stopwatch()
        self._interrupt = Interrupt() if interrupt is None else interrupt
        self.data = data
        self.lambda1 = learner._penalty()
        self.max_iter: int | None = learner.max_iter
        self.time_limit: float | None = learner.time_limit
        self.status: Status = "converged"
        self.iteration = 0
        self.rng = _stream(learner.random_state)
        self._callback = learner.callback
        self._verbose = bool(learner.verbose)
        self._rows: list[tuple[str, int, float, float, int]] = []
        self._last_log = -math.inf
        self.start = learner._start_weights(data, learner.warm_start_dag)  # refused early
        self.gram = Gram(
            data,
            memory_limit=learner.memory_limit,
            n_jobs=learner.n_jobs,
            hold=learner._hold(data.n_features, data.X is None),
            workspace=partial(learner._least_workspace, data.n_samples, data.n_features),
        )
        self._best: sp.csc_array | Callable[[], sp.csc_array]
        self._best = sp.csc_array((self.gram.d, self.gram.d))
        self.best_order = np.arange(self.gram.d)
        self.best_objective = 0.5 * float(self.gram.diag().sum())
        self._record("start", self.best_objective, 0)
        if self.start is not None and (order := topological_order(self.start)) is not None:
            self.offer(self.start, order)
            self._record("start", self.best_objective, self.start.nnz)

    @property
    def seconds(self) -> float:
        """Time since the fit began, without that of compiling."""
        return self._watch.seconds

    def out_of_time(self) -> bool:
        """Tell whether the deadline has passed, or an end was asked for; if so set the status."""
        if self._interrupt.asked:
            self.status = "interrupted"
            return True
        if self.time_limit is not None and self.seconds >= self.time_limit:
            self.status = "time_limit"
            return True
        return False

    def share_is_over(self, share: float) -> bool:
        """Tell whether a share of the time limit is used up, or an end was asked for."""
        if self._interrupt.asked:
            return True
        return self.time_limit is not None and self.seconds >= share * self.time_limit

    @property
    def best_weights(self) -> sp.csc_array:
        """The best acyclic graph so far."""
        if callable(self._best):
            self._best = project(self._best(), self.best_order)
        return self._best

    def offer(
        self,
        weights: sp.csc_array | Callable[[], sp.csc_array],
        order: NDArray[np.int64],
        value: float | None = None,
    ) -> bool:
        """Keep an acyclic graph if it is the best so far by equation (1); tell whether it is.

        Parameters
        ----------
        weights : csc_array or callable
            The graph; arcs against the order are left out. A function that returns it is only
            called when the weights are asked for; its arcs must agree with the order.
        order : ndarray of shape (d,)
            The variables, causes first.
        value : float, optional
            Equation (1) of the weights, where it is known.
        """
        if not callable(weights):
            forward = project(weights, order)
            if forward.nnz < weights.nnz:
                value = None  # it was that of another graph
            weights = forward
        if value is None:
            weights = project(weights(), order) if callable(weights) else weights
            value = objective.value(self.gram, weights, self.lambda1)
        if not value < self.best_objective:
            return False
        self._best, self.best_order, self.best_objective = weights, order, value
        return True

    def settle(self, weights: sp.csc_array, order: NDArray[np.int64]) -> None:
        """Take the arcs that agree with an order as the answer, whatever their equation (1)."""
        self._best, self.best_order = project(weights, order), order
        self.best_objective = objective.value(self.gram, self._best, self.lambda1)

    def step(
        self, phase: str, value: float, arcs: int, weights: Callable[[], sp.csc_array]
    ) -> bool:
        """Note the end of an iteration; return True when the fit has to stop, with the status set.

        Raises
        ------
        FloatingPointError
            If the value is no number: the fit has diverged.
        """
        self.iteration += 1
        self._record(phase, value, arcs)
        if not math.isfinite(value):
            raise FloatingPointError(f"equation (1) is {value} in phase {phase}")
        if self._callback is not None:
            state = State(
                phase, self.iteration, self.seconds, value, arcs, self.best_objective,
                self.time_limit, self.max_iter, weights, lambda: self.best_weights.copy(),
            )  # fmt: skip
            if self._callback(state):
                self.status = "interrupted"
                return True
        if self.out_of_time():
            return True
        if self.max_iter is not None and self.iteration >= self.max_iter:
            self.status = "max_iter"
            return True
        return False

    def _record(self, phase: str, value: float, arcs: int) -> None:
        self._rows.append((phase, self.iteration, self.seconds, value, arcs))
        if self._verbose and self.seconds - self._last_log >= 1.0:
            self._last_log = self.seconds
            _log.info(
                "%s, iteration %d: objective %.6g, %d arcs, %.1f s",
                phase, self.iteration, value, arcs, self.seconds,
            )  # fmt: skip

    def history(self) -> pd.DataFrame:
        """Return the table of iterations."""
        columns = ["phase", "iteration", "seconds", "objective", "arcs"]
        return pd.DataFrame(self._rows, columns=columns)


def _stream(random_state: Any) -> np.random.Generator:
    """Return a learner's random numbers: never those that simulated data drew from the seed."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    return np.random.default_rng([int(random_state), 0x6C6561726E])  # "learn"


def noise_variances(gram: Gram, losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what the columns' losses leave of their variances (d,)."""
    # A perfect fit leaves rounding; without a floor unseen data would have no likelihood.
    return np.maximum(2 * losses, 1e-12 * gram.diag())


def _as_seen_by_sklearn(data: Dataset) -> Any:
    """Return an empty table with the columns of the data, for scikit-learn's look at names."""
    if data.named:
        return pd.DataFrame(columns=pd.Index(data.names, dtype=object))
    return np.empty((0, data.n_features))


# ------------------------------------------------------------------ the estimator


class Learner(BaseEstimator):
    """Base of all learners; a method adds its parameters and ``_learn(run)``."""

    _parameters: ClassVar[dict[str, Any]] = {
        "lambda1": Number(0, 1e300),
        "max_iter": Number(1, whole=True, none=True),
        "time_limit": Number(0, above=True, none=True),
        "n_jobs": Checked(
            "None, -1 or an integer >= 1",
            lambda n: n == -1 or Number(1, whole=True, none=True).allows(n),
        ),
        "memory_limit": Checked(
            "a number of bytes or a text such as '4GB', or None",
            lambda m: m is None or (isinstance(m, str | numbers.Real) and bytes_of(m)),  # type: ignore[arg-type]
        ),
        "callback": Checked("a callable, or None", lambda c: c is None or callable(c)),
        "random_state": Checked(
            "None, an integer >= 0 or a numpy Generator",
            lambda r: (
                isinstance(r, np.random.Generator) or Number(0, whole=True, none=True).allows(r)
            ),
        ),
    }

    # What every learner has; set in the subclasses' __init__.
    lambda1: Any
    max_iter: int | None
    time_limit: float | None
    random_state: Any
    callback: Callable[[State], Any] | None
    warm_start_dag: Any
    n_jobs: int | None
    memory_limit: float | str | None
    verbose: bool | int

    def _learn(self, run: Run) -> None:  # noqa: ARG002
        """Offer acyclic graphs to the run until it is done; set ``run.status`` if not converged."""
        raise AssertionError("a learner defines _learn")

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn a DAG from data.

        Parameters
        ----------
        X : array, data frame or Dataset of shape (n_samples, n_features)
            The table; it is not changed. A covariance matrix goes in as
            ``Dataset.from_covariance(S, n_samples)``.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C, once the best DAG so far is in the fitted attributes, with the status
            "interrupted". The first Ctrl-C ends the fit as its time limit would; a second one
            ends it at once.
        """
        self._check_parameters()
        data = as_dataset(X)
        before = self.__dict__.copy()
        try:
            validate_data(self, _as_seen_by_sklearn(data), skip_check_array=True)
            self._prepare()
            with interruptible() as interrupt:
                torn = self._learn_from(data, interrupt)
        except BaseException:  # the fit succeeds whole, or leaves the estimator as it was
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        if torn or interrupt.asked:
            raise KeyboardInterrupt
        return self

    def _learn_from(self, data: Dataset, interrupt: Interrupt) -> bool:
        """Learn and set the learnt attributes; tell whether an interrupt cut the work short."""
        run, torn = Run(self, data, interrupt), False
        try:
            try:
                self._learn(run)
            except KeyboardInterrupt:
                run.status, torn = "interrupted", True
            except FloatingPointError as error:
                _log.warning("%s has diverged: %s", type(self).__name__, error)
                run.status = "diverged"
            self._finish(run)
        finally:
            run.gram.close()
        return torn

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return the mean Gaussian log-likelihood of samples, with a noise variance per variable.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Samples, best unseen in the fit.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        float
            The mean over samples; constant columns of the training data are left out.
        """
        check_is_fitted(self)
        data = as_dataset(X)
        validate_data(self, _as_seen_by_sklearn(data), reset=False, skip_check_array=True)
        if data.X is None:
            raise ParameterError("score needs samples. Got a covariance matrix instead.")
        centred = data.X + (data.mean - self._mean)
        return objective.log_likelihood(centred, self.weights_, self.noise_variances_)

    # -------------------------------------------------------------- inside

    def _check_parameters(self) -> None:
        """Refuse parameters outside of the table, before any work."""
        for name, allowed in self._parameters.items():
            given = getattr(self, name)
            if not allowed.allows(given):
                raise ParameterError(f"{name} must be {allowed}. Got {given!r} instead.")

    def _penalty(self) -> float:
        """Return the lambda1 of equation (1)."""
        return float(self.lambda1)

    def _hold(self, d: int, only_moments: bool) -> bool | None:  # noqa: ARG002
        """Tell whether to hold the correlations; None leaves it to the memory there is."""
        return None

    def _workspace(self, n: int, d: int, hold: bool) -> int:  # noqa: ARG002
        """Return about the bytes that the method takes beside the table and its moments."""
        return _BYTES_OF_AN_ARC * d * lasso.typical_parents(n, d)

    def _least_workspace(self, n: int, d: int, hold: bool) -> int:
        """Return the same for the way that takes least memory, where a method has several."""
        return self._workspace(n, d, hold)

    def _prepare(self) -> None:
        """Load what the method needs, before its clock starts."""

    def _start_weights(
        self, data: Dataset, given: Any, name: str = "warm_start_dag"
    ) -> sp.csc_array | None:
        """Return a graph given as the parameter ``name`` as weights in the columns' order."""
        if given is None:
            return None
        weights = weights_on_columns(given, data, name)
        weights.setdiag(0)
        weights.eliminate_zeros()
        weights.sort_indices()  # so that the same start gives the same bits
        dead = np.flatnonzero(data.constant)
        if len(dead):
            keep = sp.diags_array((~data.constant).astype(float))
            weights = sp.csc_array(keep @ weights @ keep)
            weights.eliminate_zeros()
        return weights

    def _finish(self, run: Run) -> None:
        """Set the learnt attributes from the best graph of the run."""
        self.dag_ = DAG(run.best_weights, names=run.data.names if run.data.named else None,
                        order=run.best_order)  # fmt: skip
        self.weights_ = self.dag_.weights
        self.order_ = self.dag_.order
        column_losses = objective.losses(run.gram, self.weights_)
        self.objective_ = float(
            column_losses.sum() + run.lambda1 * np.abs(self.weights_.data).sum()
        )
        self.noise_variances_ = noise_variances(run.gram, column_losses)
        self.history_ = run.history()
        self.status_ = run.status
        self.n_iter_ = run.iteration
        self._mean = run.data.mean
