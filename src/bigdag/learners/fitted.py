"""What a fitted learner can be asked as a model; the answers are those of a `LinearModel`."""

from __future__ import annotations

import html
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted, validate_data

from bigdag.errors import counted
from bigdag.model.linear import LinearModel, as_matrix
from bigdag.terminal import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.graph.dag import DAG

__all__ = ["FittedModel", "as_seen_by_sklearn"]


def as_seen_by_sklearn(names: tuple[str, ...] | None, d: int) -> Any:
    """Return an empty table with these columns, for scikit-learn's look at their names."""
    if names is not None:
        return pd.DataFrame(columns=pd.Index(names, dtype=object))
    return np.empty((0, d))


class FittedModel:
    """The methods of a model, for an estimator whose fit sets ``dag_``."""

    dag_: DAG
    n_features_in_: int

    def _note_columns(self, names: tuple[str, ...] | None, d: int) -> None:
        """Set what scikit-learn's `validate_data` sets in a fit: the columns' number and names."""
        self.n_features_in_ = d
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    @property
    def model_(self) -> LinearModel:
        """The fitted linear model; it does not need the learner any more.

        Hold it where many effects are asked for: each access makes a new one.
        """
        check_is_fitted(self)
        return LinearModel(self.dag_)

    def predict(self, X: Any) -> Any:
        """Predict each variable from its parents.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Values of all variables.

        Returns
        -------
        array or data frame of shape (n_samples, n_features)
            For each variable its mean, and what the parents' values add to it. A data frame for a
            data frame.
        """
        return self._checked_model(X).predict(X)

    def impute(self, X: Any) -> Any:
        """Fill in missing values (NaN) by their means given what is known in the same row.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Values of all variables.

        Returns
        -------
        array or data frame of shape (n_samples, n_features)
            The same with every missing value replaced.
        """
        return self._checked_model(X).impute(X)

    def sample(self, n: int = 1, rng: int | np.random.Generator | None = None) -> Any:
        """Draw n samples of the fitted model, with Gaussian noise; see `LinearModel.sample`."""
        return self.model_.sample(n, rng)

    def total_effect(self, cause: str | int, effect: str | int) -> float:
        """Return how much one variable changes when another is raised by one.

        See :meth:`LinearModel.total_effect`.
        """
        return self.model_.total_effect(cause, effect)

    def possible_effects(self, cause: str | int, effect: str | int) -> NDArray[np.float64]:
        """Return the total effects that undirected arcs at the cause leave possible.

        See :meth:`LinearModel.possible_effects`.
        """
        return self.model_.possible_effects(cause, effect)

    def effects(self, cause: str | int) -> pd.DataFrame:
        """Return the total effects of a variable on all that it may affect.

        See :meth:`LinearModel.effects`.
        """
        return self.model_.effects(cause)

    def save(self, path: str | os.PathLike[str], force: bool = False) -> None:
        """Write the fitted model to a file that `LinearModel.load` and `DAG.load` read."""
        self.model_.save(path, force)

    def _repr_html_inner(self) -> str:
        """Return what a notebook shows: scikit-learn's diagram, and the DAG if there is one."""
        above: Any = super()
        return f"{above._repr_html_inner()}{self._learnt_html()}"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return the same for notebooks that ask for all kinds at once."""
        above: Any = super()
        output: dict[str, str] = above._repr_mimebundle_(**kwargs)
        if "text/html" in output:
            output["text/html"] += self._learnt_html()
        return output

    def _learnt_html(self) -> str:
        """Return how a fit has ended, and its DAG in short; nothing before a fit."""
        if not hasattr(self, "dag_"):
            return ""
        known: Any = self
        status = html.escape(str(known.status_).replace("_", " "))
        said = f"<p>Fit: {status}, {counted(known.n_iter_, 'iteration')}.</p>"
        if (explanation := getattr(self, "explanation_", None)) is not None:
            said += f"<p>{html.escape(printable(str(explanation)))}</p>"
        return f"{said}{self.dag_._repr_html_()}"

    def _checked_model(self, X: Any) -> LinearModel:
        """Return the model, if the columns are those of the fit."""
        model = self.model_
        values, names = as_matrix(X)
        seen = as_seen_by_sklearn(names, values.shape[1])
        validate_data(self, seen, reset=False, skip_check_array=True)
        return model
