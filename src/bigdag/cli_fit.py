"""What ``bigdag fit`` does with its words: the method, a search after it, a threshold, both units.

A :class:`Recipe` is made, and refused, before any data are read; then it can be followed on more
than one table, which is what a check of the units needs.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from bigdag import OrderSearch, methods, tables
from bigdag.compiled import Stopwatch
from bigdag.dag import DAG
from bigdag.data import Dataset, as_dataset
from bigdag.errors import DataWarning, ParameterError, missing_extra
from bigdag.gram import Gram
from bigdag.learners.penalty_path import require_rows
from bigdag.matching import on_columns
from bigdag.metrics import var_sortability
from bigdag.selection import significant
from bigdag.simulate import standardise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.learners.base import Learner, State
    from bigdag.methods import Method

__all__ = [
    "Outcome",
    "Recipe",
    "check_units",
    "order_of_variances",
    "parse_settings",
    "read",
    "standardised",
]

_SORTABILITY_ARCS = 100_000  # beyond, var-sortability is that of the strongest arcs: it takes long
_SHARED = ("random_state", "n_jobs", "memory_limit")  # what a search takes over from the method
_AGREE, _PARTLY = 0.95, 0.7  # F1 from which the answers in both units count as such


# ------------------------------------------------------------------ from words to learners


def parse_settings(settings: list[str]) -> dict[str, Any]:
    """Turn NAME=VALUE into parameters: a value is what JSON makes of it, else text.

    Examples
    --------
    >>> parse_settings(["tol=1e-3", "engine=dense"])
    {'tol': 0.001, 'engine': 'dense'}
    """
    parameters = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise ParameterError(f"--set needs NAME=VALUE. Got {setting!r} instead.")
        if name == "callback":
            raise ParameterError("--set callback needs Python; the command has its own.")
        try:
            parameters[name] = json.loads(text)
        except json.JSONDecodeError:
            parameters[name] = {"True": True, "False": False, "None": None}.get(text, text)
    return parameters


@dataclass(frozen=True)
class Outcome:
    """What following a recipe gave.

    Attributes
    ----------
    dag : DAG
        The answer before any threshold.
    status, n_iter, seconds, objective, lambda1
        Of the last stage, but the iterations and the seconds of all.
    extended_bic : float or None
        The score of a last stage that lowers it.
    refit_gain : float or None
        What the refit of a last stage with one lowered.
    first : dict or None
        How the method ended that a search came after.
    """

    dag: DAG
    status: str
    n_iter: int
    seconds: float
    objective: float
    lambda1: float
    extended_bic: float | None = None
    penalty: float | None = None
    refit_gain: float | None = None
    first: dict[str, Any] | None = None

    @property
    def failed(self) -> str | None:
        """Say what went wrong, if anything did."""
        return {"interrupted": "was interrupted", "diverged": "has diverged"}.get(self.status)


@dataclass(frozen=True)
class Recipe:
    """A method with its parameters, a search after it, and a threshold; all of it checked.

    Parameters
    ----------
    method : Method
        The row of the table of methods.
    parameters : dict
        Of its estimator.
    bic : dict
        ``gamma``, ``penalty`` and ``restarts`` of the extended BIC, where they were given.
    search : {"least_squares", "bic"} or None
        The score of the search over orders after the method.
    threshold : float, "auto" or None
        What :meth:`cut` leaves out.

    Examples
    --------
    >>> from bigdag.methods import find_method
    >>> recipe = Recipe(find_method("sort-variance"), {"lambda1": 0.2}, search="least_squares")
    >>> recipe.follow(as_dataset([[0.0, 1.0], [2.0, 5.0], [4.0, 9.0]])).dag.n_arcs
    1
    """

    method: Method
    parameters: dict[str, Any]
    bic: dict[str, Any] = field(default_factory=dict)
    search: str | None = None
    threshold: float | str | None = None

    def __post_init__(self) -> None:
        self._check_bic()
        if self._lambda1_is_left_to_the_search() is None:
            able = [row.word for row in methods.METHODS.values() if _chooses_lambda1(row)]
            raise ParameterError(
                f"The method {self.method.word!r} cannot choose lambda1 from the data. Methods "
                f"that can: {', '.join(able)}. So does --search with --search-score least_squares."
            )
        if isinstance(self.threshold, float):
            DAG([[0.0]]).threshold(self.threshold)
        self.method.build(**self._of_the_method())._check_parameters()
        OrderSearch(**self._of_the_search())._check_parameters()
        if not self.method.installed:
            assert self.method.extra is not None
            extra = self.method.extra
            raise missing_extra(extra, extra, f"The method {self.method.word!r}")

    @property
    def depends_on_units(self) -> bool:
        """Whether rescaling a column can change the order found; a search keeps some of a start."""
        return self.method.depends_on_units or self.search == "least_squares"

    def follow(self, data: Dataset, callback: Callable[[State], Any] | None = None) -> Outcome:
        """Learn from data; the method and the search after it share the time limit.

        The method may use half of it, the search what is left.
        """
        watch = Stopwatch()
        if self.bic.get("penalty") == "auto":
            require_rows(data)  # before the method's work
        limit = self.parameters.get("time_limit")
        own = self._of_the_method() | {"callback": callback}
        if self.search is not None and limit is not None:
            own["time_limit"] = limit / 2
        first = _outcome(_fitted(self.method.build(**own), data), watch.seconds)
        if self.search is None or first.failed:
            return first
        left = None if limit is None else limit - watch.seconds
        ended = {
            "status": first.status, "n_iter": first.n_iter, "seconds": first.seconds,
            "objective": first.objective, "n_arcs": first.dag.n_arcs,
        }  # fmt: skip
        if left is not None and left <= 0:
            return replace(first, status="time_limit", first=ended)
        more = {"start": first.dag, "time_limit": left, "callback": callback}
        if isinstance(self.parameters.get("lambda1"), str):
            more["lambda1"] = "bic" if self._lambda1_is_left_to_the_search() else first.lambda1
        search = _fitted(OrderSearch(**self._of_the_search() | more), data)
        last = _outcome(search, watch.seconds)
        last = replace(last, n_iter=first.n_iter + last.n_iter, first=ended)
        # Equation (1) of the method's answer with the lambda1 of the search: a search that ends
        # early may hold something worse, or nothing yet.
        before = first.objective
        before += (last.lambda1 - first.lambda1) * float(np.abs(first.dag.weights.data).sum())
        worse = self.search == "least_squares" and before < last.objective
        if worse or search.n_iter_ == 0:
            return replace(last, dag=first.dag, objective=before, extended_bic=None)
        return last

    def cut(self, found: Outcome, data: Dataset) -> DAG:
        """Return the DAG that was found without the arcs that the threshold leaves out."""
        dag = found.dag
        if self.threshold is None:
            return dag
        if not isinstance(self.threshold, str):
            return dag.threshold(self.threshold)
        limits: Any = {name: self.parameters.get(name) for name in ("memory_limit", "n_jobs")}
        gram = Gram(data, hold=data.X is None, **limits)  # few correlations are read
        try:
            given = self.parameters | self.bic  # --set names them too
            known = {name: given[name] for name in ("gamma", "penalty") if name in given}
            search = OrderSearch(**known)  # for its defaults
            factor = float(search.penalty if found.penalty is None else found.penalty)
            kept = significant(gram, dag.weights, gamma=search.gamma, factor=factor)
        finally:
            gram.close()
        flags = dag.reversible
        if flags is not None:
            flags = sp.csc_array(flags.multiply(kept != 0))
        return DAG(kept, dag.names, dag.order, flags)

    # -------------------------------------------------------------- inside

    def _scored_by_bic(self) -> bool:
        return "bic" in (self.search, self.method.fixed.get("score"))

    def _check_bic(self) -> None:
        """Refuse options of the extended BIC where nothing reads them."""
        if "restarts" in self.bic and not self._scored_by_bic():
            raise ParameterError(
                "--restarts goes with --method order-search-bic or --search-score bic."
            )
        if self.bic.get("penalty") == "auto" and not self._scored_by_bic():
            raise ParameterError(
                "--penalty auto goes with --method order-search-bic or --search-score bic."
            )
        read = self.parameters.get("lambda1") == "bic" or self.threshold == "auto"
        if self.bic.keys() & {"gamma", "penalty"} and not (read or self._scored_by_bic()):
            raise ParameterError(
                "--gamma and --penalty are of the extended BIC. They go with --method "
                "order-search-bic, --search-score bic, --lambda1 bic or --threshold auto."
            )

    def _lambda1_is_left_to_the_search(self) -> bool | None:
        """Tell whether only the search chooses lambda1; None where it should be and none can."""
        if self.parameters.get("lambda1") != "bic" or _chooses_lambda1(self.method):
            return False
        return True if self.search == "least_squares" else None

    def _of_the_method(self) -> dict[str, Any]:
        own = dict(self.parameters)
        if self._lambda1_is_left_to_the_search():
            del own["lambda1"]
        mine = self.method.parameters()
        return own | {name: value for name, value in self.bic.items() if name in mine}

    def _of_the_search(self) -> dict[str, Any]:
        if self.search is None:
            return self.bic | {"score": "bic"}  # a threshold may read it
        names = ("lambda1", *_SHARED)
        shared = {name: self.parameters[name] for name in names if name in self.parameters}
        return shared | self.bic | {"score": self.search}


def _chooses_lambda1(method: Method) -> bool:
    """Tell whether a method reads lambda1 and can choose it; the extended BIC has none."""
    return method.allows("lambda1", "bic") and method.fixed.get("score") != "bic"


def _fitted(learner: Learner, data: Dataset) -> Learner:
    """Fit; a fit that was interrupted, but holds a graph, is an answer with that status."""
    try:
        learner.fit(data)
    except KeyboardInterrupt:
        if not hasattr(learner, "dag_"):
            raise
    return learner


def _outcome(learner: Learner, seconds: float) -> Outcome:
    by_bic = getattr(learner, "score", None) == "bic"
    return Outcome(
        learner.dag_, learner.status_, learner.n_iter_, seconds, learner.objective_,
        getattr(learner, "lambda1_", None) or learner._penalty(),
        getattr(learner, "score_", None) if by_bic else None,
        getattr(learner, "penalty_", None) if by_bic else None,
        getattr(learner, "refit_gain_", None),
    )  # fmt: skip


# ------------------------------------------------------------------ tables and units


def read(
    table: Path,
    header: bool | None,
    covariance: bool,
    n_samples: int | None,
    row_labels: bool | None = None,
    memory_limit: float | str | None = None,
) -> Dataset:
    """Read the table, or the covariance matrix, that the words name."""
    first_line: tables.Choice = "auto" if header is None else header
    if covariance != (n_samples is not None):
        raise ParameterError(
            "--covariance needs --n-samples, the number of samples the matrix was computed from."
            if covariance
            else "--n-samples goes with --covariance; the rows of a table are counted."
        )
    if n_samples is not None and n_samples < 2:
        raise ParameterError(f"--n-samples must be at least 2. Got {n_samples} instead.")
    if n_samples is not None:
        if row_labels is not None:
            raise ParameterError(
                "--row-labels and --no-row-labels go with a table of samples; a covariance matrix "
                "has a row for each column, which tells."
            )
        return tables.read_covariance(table, n_samples, first_line, memory_limit)
    labels: tables.Choice = "auto" if row_labels is None else row_labels
    return tables.read_table(table, first_line, labels, memory_limit)


def _deviations(data: Dataset) -> NDArray[np.float64]:
    """Return the standard deviation of each column (d,)."""
    if data.X is None:
        assert data.covariance is not None
        return np.sqrt(np.diag(data.covariance))
    return np.sqrt(np.einsum("ij,ij->j", data.X, data.X) / data.n_samples)


def standardised(data: Dataset) -> Dataset:
    """Return the data with each column scaled to variance 1; a constant one stays as it is.

    Examples
    --------
    >>> standardised(as_dataset([[0.0, 10.0], [2.0, 30.0]])).X
    array([[-1., -1.],
           [ 1.,  1.]])
    """
    names = data.names if data.named else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of constant columns: said already
        if data.X is not None:
            return as_dataset(standardise(data.X), names)
        sd = _deviations(data)
        inverse = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0)
        assert data.covariance is not None
        S = data.covariance * inverse[:, None] * inverse
        np.fill_diagonal(S, sd > 0)
        return Dataset.from_covariance(S, data.n_samples, names)


def order_of_variances(data: Dataset, dag: DAG) -> float | None:
    """Return how far the order found is that of the variances; None without arcs.

    Examples
    --------
    >>> order_of_variances(as_dataset([[1.0, 9.0], [2.0, 5.0]]), DAG([[0, 1], [0, 0]]))
    1.0
    """
    if not dag.n_arcs:
        return None
    if dag.n_arcs > _SORTABILITY_ARCS:
        dag = dag.threshold(abs(dag.edges(top=_SORTABILITY_ARCS)["weight"].iloc[-1]))
    if data.X is None:  # two samples with the same variances will do
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            data = as_dataset(np.outer([1.0, -1.0], _deviations(data)), data.names)
    share = var_sortability(data, dag.weights)
    return share if math.isfinite(share) else None


def check_units(
    recipe: Recipe,
    raw: Dataset,
    answer: DAG,
    in_deviations: bool,
    callback: Callable[[State], Any] | None = None,
) -> dict[str, Any]:
    """Follow a recipe in the other units, and say how far both answers agree.

    Parameters
    ----------
    recipe : Recipe
        What the answer was found by.
    raw : Dataset
        The data in their own units.
    answer : DAG
        After the threshold.
    in_deviations : bool
        Whether it was found on standardised columns; then the check is on raw ones.
    callback : callable, optional
        As for learners.

    Returns
    -------
    dict
        The arcs of each answer above the same threshold, in the same units: found in both, in
        both but reversed, in one alone; their F1; and what it means in a sentence.
    """
    sd = _deviations(raw)
    sd = np.where(sd > 0, sd, 1.0)
    scaled = standardised(raw)
    here, there = (scaled, raw) if in_deviations else (raw, scaled)
    factor = sd if in_deviations else 1 / sd  # a value here becomes one there
    warm = recipe.parameters.get("warm_start_dag")
    if warm is not None and warm.n_nodes == len(sd):
        warm = on_columns(warm, raw)
        parameters = recipe.parameters | {"warm_start_dag": _in_units(warm, factor)}
        recipe = replace(recipe, parameters=parameters)
    other = recipe.follow(there, callback)
    found = recipe.cut(replace(other, dag=_in_units(other.dag, 1 / factor)), here)
    counts = _agreement(*((found, answer) if in_deviations else (answer, found)))
    same = bool(np.allclose(sd[~raw.constant], 1.0, rtol=0.01))
    return {
        "status": other.status, "seconds": other.seconds, **counts,
        "meaning": _meaning(counts["f1"], recipe, same),
    }  # fmt: skip


def _in_units(dag: DAG, factor: NDArray[np.float64]) -> DAG:
    """Return the DAG of the variables multiplied by factors (d,)."""
    weights = sp.diags_array(1 / factor) @ dag.weights @ sp.diags_array(factor)
    return DAG(weights, dag.names, dag.order, dag.reversible)


def _agreement(raw: DAG, scaled: DAG) -> dict[str, Any]:
    """Count the arcs that two DAGs on the same nodes share; an edge open in both is the same."""
    A, B = (sp.csc_array(dag.weights != 0) for dag in (raw, scaled))
    same, against = int(A.multiply(B).nnz), int(A.multiply(B.T).nnz)
    if raw.reversible is not None and scaled.reversible is not None:
        open_ = int(raw.reversible.multiply(scaled.reversible.T).nnz)
        same, against = same + open_, against - open_
    counts = {
        "same": same, "reversed": against, "only_raw": raw.n_arcs - same - against,
        "only_standardised": scaled.n_arcs - same - against,
    }  # fmt: skip
    pairs, total = sum(counts.values()), raw.n_arcs + scaled.n_arcs
    return {
        "n_arcs_raw": raw.n_arcs, "n_arcs_standardised": scaled.n_arcs, **counts,
        "shares": {name: count / pairs for name, count in counts.items()} if pairs else None,
        "f1": 2 * same / total if total else None,
    }  # fmt: skip


def _meaning(f1: float | None, recipe: Recipe, already: bool) -> str:
    if f1 is None:
        return "Neither fit found an arc, so there is nothing to compare."
    if already:
        return "The columns have variance 1 as they are, so the check tells nothing."
    if f1 >= _AGREE:
        return "The units of the columns hardly matter for this answer."
    if not recipe.depends_on_units and recipe._scored_by_bic():
        return (
            "The score does not depend on the units of the columns; what differs is where the two "
            "searches ended, as by a time limit or a rounding."
        )
    if not recipe.depends_on_units:
        return (
            "The order found does not depend on the units of the columns; what differs is how "
            "strongly lambda1 weighs the arcs in them."
        )
    much = "Part" if f1 >= _PARTLY else "Much"
    return (
        f"{much} of this answer rests on the units of the columns. If these are arbitrary, trust "
        "only what both fits found, or use order-search-bic, which does not depend on units."
    )
