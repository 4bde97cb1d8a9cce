"""What every learner shares: a scikit-learn estimator that ends with the best graph of a run.

``fit`` checks the parameters and the data, makes a :class:`~bigdag.learners.run.Run` and hands it
to the method's own ``_learn(run)``. Whatever happens in there, an interrupt included, the run holds
the best acyclic graph offered to it so far, and that is what the estimator ends with.
"""

from __future__ import annotations

import logging
import numbers
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from bigdag.data.dataset import Dataset, as_dataset
from bigdag.engine import lasso, objective
from bigdag.errors import ParameterError
from bigdag.graph.align import weights_on_columns
from bigdag.graph.dag import DAG
from bigdag.interrupts import Interrupt, interruptible
from bigdag.learners.parameters import Checked, Number
from bigdag.learners.run import Run, State
from bigdag.resources import bytes_of

__all__ = ["Learner"]

_log = logging.getLogger("bigdag")
_BYTES_OF_AN_ARC = 80  # in the lists, copies and sparse arrays of a fit


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
        data = as_dataset(X, memory_limit=self.memory_limit)
        before = self.__dict__.copy()
        try:
            validate_data(self, _as_seen_by_sklearn(data), skip_check_array=True)
            self._prepare()
            with interruptible() as interrupt:
                torn = self._learn_from(data, interrupt)
                if interrupt.asked:
                    self.status_ = "interrupted"
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
            run.gram.release()
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

    def _own_lambda1(self) -> float:
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
        self.noise_variances_ = objective.noise_variances(run.gram, column_losses)
        self.history_ = run.history()
        self.status_ = run.status
        self.n_iter_ = run.iteration
        self._mean = run.data.mean
