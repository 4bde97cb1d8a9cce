"""What every learner shares: a scikit-learn estimator that ends with the best graph of a run.

``fit`` checks the parameters and the data, makes a :class:`~bigdag.learners.run.Run` and hands it
to the method's own ``_learn(run)``. Whatever happens in there, an interrupt included, the run holds
the best acyclic graph offered to it so far, and that is what the estimator ends with.
"""

from __future__ import annotations

import logging
import numbers
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from bigdag.data.dataset import Dataset, as_dataset
from bigdag.engine import lasso, objective
from bigdag.errors import ParameterError
from bigdag.graph.align import weights_on_columns
from bigdag.graph.dag import DAG
from bigdag.interrupts import Interrupt, interruptible
from bigdag.knowledge.known import as_knowledge
from bigdag.learners.fitted import FittedModel, as_seen_by_sklearn
from bigdag.learners.journal import without_journal
from bigdag.learners.parameters import Checked, Number
from bigdag.learners.run import Run, State
from bigdag.model.scale import require_scale
from bigdag.resources import bytes_of

if TYPE_CHECKING:
    from bigdag.engine.limits import Limits

__all__ = ["Learner", "marked"]

_log = logging.getLogger("bigdag")
_BYTES_OF_AN_ARC = 80  # in the lists, copies and sparse arrays of a fit


# ------------------------------------------------------------------ the estimator


class Learner(FittedModel, BaseEstimator):
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
        "knowledge": Checked(
            "a Knowledge, an object with its attributes, or None",
            lambda k: k is None or as_knowledge(k) is not None,
        ),
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
    knowledge: Any = None
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
            The table, which is not changed: anything that `bigdag.data.as_dataset` takes, such as
            sparse matrices, polars and Arrow tables, AnnData, and arrays of Dask and Zarr. A file
            goes in as ``read_table(path)`` of `bigdag.data.tables`, a covariance matrix as
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
        before = self.__dict__.copy()
        try:
            data = self._dataset(X)
            self._note_columns(data.names if data.named else None, data.n_features)
            self._prepare()
            if not isinstance(X, Dataset) and self._reads_rows_once():
                data = replace(data, temporary=True)  # no copy of the table is needed beside it
            with interruptible() as interrupt, without_journal():  # of a fit that this is part of
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
            run.close()
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
        require_scale(self.dag_.about, X)
        data = as_dataset(X)
        validate_data(
            self,
            as_seen_by_sklearn(data.names if data.named else None, data.n_features),
            reset=False,
            skip_check_array=True,
        )
        if data.X is None:
            raise ParameterError("score needs samples. Got a covariance matrix instead.")
        centred = data.X + (data.mean - self.means_)
        return objective.log_likelihood(centred, self.weights_, self.noise_variances_)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that sparse matrices are taken; inside they are dense."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -------------------------------------------------------------- inside

    def _check_parameters(self) -> None:
        """Refuse parameters outside of the table, before any work."""
        for name, allowed in self._parameters.items():
            given = getattr(self, name)
            if name == "knowledge" and given is not None:
                as_knowledge(given)  # which says what is wrong with it
            if not allowed.allows(given):
                raise ParameterError(f"{name} must be {allowed}. Got {given!r} instead.")

    def _dataset(self, X: Any) -> Dataset:
        """Return the checked data to learn from."""
        return as_dataset(X, memory_limit=self.memory_limit, copies=2, n_jobs=self.n_jobs)

    def _reads_rows_once(self) -> bool:
        """Tell whether the method reads nothing but the second moments of the table."""
        return False

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
        dag = DAG(run.best_weights, names=run.data.names if run.data.named else None,
                  order=run.best_order)  # fmt: skip
        self.weights_ = dag.weights
        self.order_ = dag.order
        column_losses = objective.losses(run.gram, self.weights_)
        self.objective_ = float(
            column_losses.sum() + run.lambda1 * np.abs(self.weights_.data).sum()
        )
        self.noise_variances_ = objective.noise_variances(run.gram, column_losses)
        self.means_ = run.data.mean
        known = {"mean": self.means_, "noise_variance": self.noise_variances_}
        if (
            run.data.covariance is not None and not self.means_.any()
        ):  # of a covariance matrix: not known
            del known["mean"]
        dag = dag.annotated(node_data=known, about=run.data.about)
        self.dag_ = marked(dag, run.limits, self.knowledge)
        self.history_ = run.history()
        self.status_ = run.status
        self.n_iter_ = run.iteration


def marked(dag: DAG, limits: Limits | None, knowledge: Any) -> DAG:
    """Return the answer with what was known of it: which arcs were required, and all of it."""
    if limits is None:
        return dag
    known = {"knowledge": as_knowledge(knowledge).to_dict()}
    if not limits.required.nnz:
        return dag.annotated(about=known)
    return dag.annotated(about=known, arc_data={"required": limits.required})
