"""A method, a search over orders after it, and a threshold, as one thing to follow on any table.

A :class:`Recipe` is made, and refused, before any data are read; then it can be followed on more
than one table, which is what a check of the units needs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp

from bigdag.compiled import Stopwatch
from bigdag.engine.executor import Threads, current
from bigdag.engine.gram import Gram
from bigdag.errors import BigdagError, ParameterError, missing_extra
from bigdag.graph.dag import DAG
from bigdag.learners import methods
from bigdag.learners.auto import AutoDAG
from bigdag.learners.bootstrap import BootstrapDAG
from bigdag.learners.order_search import OrderSearch
from bigdag.model.linear import residual_variances
from bigdag.search.ebic import significant
from bigdag.search.penalty_path import require_rows

if TYPE_CHECKING:
    import pandas as pd

    from bigdag.data.dataset import Dataset
    from bigdag.learners.base import Learner
    from bigdag.learners.methods import Method
    from bigdag.learners.run import State

__all__ = ["Outcome", "Recipe"]

_BY_BIC = "--method order-search-bic or --search-criterion bic"
_L = TypeVar("_L", bound="Learner | BootstrapDAG")
_OF_THE_BIC = ("gamma", "penalty", "knowledge")
# The time of a resample, as a share of that of the fit before, on two cores; and the seconds that
# all of them may take where nobody asked for them.
_log = logging.getLogger("bigdag")
_OF_A_FIT = {"own variances": 0.35, "equal variances": 0.6}
_MOST_POINTS = 200  # of a history that a DAG keeps
_MINUTE = 60.0  # seconds that resamples may take unasked
_FEWEST_ROWS = 10  # that resamples are drawn from unasked
_RESAMPLES = (
    100,
    50,
    25,
    10,
)  # done unasked: in few steps, to depend on the clock less
# What a search takes over from the method.
_SHARED = ("random_state", "n_jobs", "memory_limit", "knowledge")


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
        Its value, where the last stage lowers it.
    refit_gain : float or None
        What the refit of a last stage with one lowered.
    assumption, explanation : str or None
        What the automatic method chose, and why.
    first : dict or None
        How the method ended that a search came after.
    trouble : str or None
        Why the search after the method could not be made; the answer is then the method's.
    n_resamples : int or None
        The resamples done, where there was a bootstrap.
    n_wanted : int or None
        Those that were wanted.
    weighs_chance : bool
        Whether their probabilities account for chance, or are the shares of the resamples.
    no_resamples : str or None
        Why the automatic method made none, where it might have.
    history : dict or None
        Phase, iteration, equation (1) and arcs along the last fit on all rows, some 200 points
        of it; without times, so that the same run gives the same.
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
    assumption: str | None = None
    explanation: str | None = None
    first: dict[str, Any] | None = None
    trouble: str | None = None
    n_resamples: int | None = None
    n_wanted: int | None = None
    weighs_chance: bool = False
    no_resamples: str | None = None
    history: dict[str, list[Any]] | None = None

    @property
    def depends_on_units(self) -> bool | None:
        """Whether other units could change the order found; None where the method tells that."""
        return None if self.assumption is None else self.assumption == "equal variances"

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
        The criterion of the search over orders after the method.
    threshold : float, "auto" or None
        What :meth:`cut` leaves out.
    bootstrap : dict, "auto" or None
        Parameters of the :class:`~bigdag.BootstrapDAG` around the method, beside its estimator.
        Of the automatic method they need not say how many resamples: it makes as many as take
        about a minute, 100 at the most, and none where these are fewer than ten. "auto" is the
        same with no other parameter.

    Examples
    --------
    >>> from bigdag.data import as_dataset
    >>> from bigdag.learners.methods import find_method
    >>> recipe = Recipe(find_method("sort-variance"), {"lambda1": 0.2}, search="least_squares")
    >>> recipe.follow(as_dataset([[0.0, 1.0], [2.0, 5.0], [4.0, 9.0]])).dag.n_arcs
    1
    """

    method: Method
    parameters: dict[str, Any]
    bic: dict[str, Any] = field(default_factory=dict)
    search: str | None = None
    threshold: float | str | None = None
    bootstrap: dict[str, Any] | str | None = None

    def __post_init__(self) -> None:
        if self.search is not None and self._is_automatic:
            raise ParameterError(
                "--search goes with a method that is named, such as --method proximas. The "
                "automatic method searches over orders itself."
            )
        self._check_bic()
        learner = self.method.build(**self._of_the_method())  # refuses parameters it has not
        if self._lambda1_is_left_to_the_search() is None:
            able = [row.word for row in methods.METHODS.values() if _chooses_lambda1(row)]
            raise ParameterError(
                f"The method {self.method.word!r} cannot choose lambda1 from the data. Methods "
                f"that can: {', '.join(able)}. So does --search with --search-criterion "
                "least_squares."
            )
        if isinstance(self.threshold, float):
            DAG([[0.0]]).threshold(self.threshold)
        learner._check_parameters()
        OrderSearch(**self._of_the_search())._check_parameters()
        if not self.method.installed:
            assert self.method.extra is not None
            extra = self.method.extra
            raise missing_extra(extra, extra, f"The method {self.method.word!r}")
        if isinstance(self.bootstrap, dict):
            if self.search is not None:
                raise ParameterError(
                    "--bootstrap learns many times by one method, and --search goes after it. "
                    "Leave one of them out; --method order-search-bic is a search of its own."
                )
            estimator = self.method.build(**self._without_limits()[0])
            self._around(estimator, self.bootstrap)._check_parameters()

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
        if self._is_automatic:
            return self._follow_the_choice(data, callback)
        if isinstance(self.bootstrap, dict):
            estimator = self.method.build(**self._without_limits()[0])
            return self._follow_on_resamples(data, estimator, self.bootstrap, callback)
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
        try:
            search = _fitted(OrderSearch(**self._of_the_search() | more), data)
        except (BigdagError, MemoryError) as error:  # the method's answer is not lost for that
            return replace(first, first=ended, trouble=f"The search after it failed: {error}")
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

    def _follow_the_choice(self, data: Dataset, callback: Callable[[Any], Any] | None) -> Outcome:
        """Fit the automatic method once, and then what it has chosen on resamples."""
        watch, began = Stopwatch(), time.process_time()
        learner = _fitted(self.method.build(**self._of_the_method(), callback=callback), data)
        first = _outcome(learner, watch.seconds)
        if self.bootstrap is None or first.failed:
            return first
        asked = self.bootstrap if isinstance(self.bootstrap, dict) else {}
        if first.status == "time_limit":
            why = "the fit on all rows took all of the time (--time-limit)"
            return replace(first, no_resamples=why)
        wanted = asked
        if "n_resamples" not in asked:
            # Where others keep the processor busy, a fit takes longer than its own work does.
            took = first.seconds
            if isinstance(current(), Threads):
                took = min(took, time.process_time() - began)
            each = _OF_A_FIT[first.assumption or ""] * took
            if data.incomplete is not None:
                each += data.incomplete.seconds
            count = next((n for n in _RESAMPLES if n * each <= _MINUTE), 0)
            why_none = _why_none(data, first, None if count else _RESAMPLES[-1] * each)
            if why_none is not None:
                no_effect = _without_effect(asked, why_none) if first.dag.n_arcs else None
                return replace(first, trouble=no_effect, no_resamples=why_none)
            # Nobody asked for chance: without a seed the same table gives the same answer.
            wanted = {"n_resamples": count, "random_state": self.parameters.get("random_state", 0),
                      "time_limit": 2 * _MINUTE, **asked}  # fmt: skip
        own = {name: v for name, v in self._without_limits()[0].items() if name in _OF_THE_BIC}
        estimator: Learner = OrderSearch(criterion="bic", **own)
        if first.assumption == "equal variances":
            estimator = AutoDAG("least_squares", **own)
        limit = self.parameters.get("time_limit")
        left = {} if limit is None else {"time_limit": max(limit - watch.seconds, 1e-3)}
        if left and "time_limit" in wanted:
            left["time_limit"] = min(left["time_limit"], wanted["time_limit"])
        try:
            last = self._follow_on_resamples(data, estimator, wanted | left, callback)
        except (BigdagError, MemoryError) as error:
            if asked:
                return replace(first, trouble=f"The bootstrap after it failed: {error}")
            _log.warning("there are no resamples, for they failed: %s", error)
            return first
        few = (last.n_resamples or 0) < min(_RESAMPLES[-1], wanted["n_resamples"])
        if few:  # interrupted: one fit on all rows says more
            why = f"only {last.n_resamples or 0} were done, which say less than one fit on all rows"
            return replace(first, status=last.status, seconds=watch.seconds, no_resamples=why)
        if limit is None and last.status == "time_limit":  # nobody asked for one
            last = replace(last, status=first.status, n_wanted=last.n_resamples)
        return replace(
            last, dag=last.dag.annotated(about=first.dag.about),
            seconds=watch.seconds, lambda1=first.lambda1, assumption=first.assumption,
            explanation=learner.explained(last.dag), history=first.history,
        )  # fmt: skip

    def _without_limits(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the parameters of the method, and apart those that a bootstrap has for itself."""
        own = self._of_the_method()
        names = ("time_limit", "random_state", "n_jobs", "memory_limit")
        return own, {name: own.pop(name) for name in names if name in own}

    def _around(self, estimator: Learner, wanted: dict[str, Any]) -> BootstrapDAG:
        """Return the bootstrap; limits and the seed are its own, not of each resample."""
        return BootstrapDAG(estimator, **self._without_limits()[1] | wanted)

    def _follow_on_resamples(
        self,
        data: Dataset,
        estimator: Learner,
        wanted: dict[str, Any],
        callback: Callable[[Any], Any] | None,
    ) -> Outcome:
        watch = Stopwatch()
        learner = _fitted(self._around(estimator, wanted).set_params(callback=callback), data)
        lambda1 = getattr(learner.estimator, "lambda1", None)
        lambda1 = float(lambda1) if isinstance(lambda1, int | float) else 0.0
        size = lambda1 * float(np.abs(learner.weights_.data).sum())
        return Outcome(
            learner.dag_, learner.status_, learner.n_resamples_, watch.seconds,
            0.5 * float(learner.noise_variances_.sum()) + size, lambda1,
            n_resamples=learner.n_resamples_, n_wanted=wanted["n_resamples"],
            weighs_chance=learner._weighs_chance,
        )  # fmt: skip

    def cut(self, found: Outcome, data: Dataset) -> DAG:
        """Return the DAG that was found without the arcs that the threshold leaves out.

        Its noise variances are those with the arcs that are left.
        """
        dag = found.dag
        if self.threshold is None:
            return dag
        if isinstance(self.threshold, str):
            cut = self._significant(found, data)
        else:
            cut = _above(dag, self.threshold)
        noise = {"noise_variance": residual_variances(data, cut.weights)}
        return cut.annotated(node_data=noise if "noise_variance" in dag.node_data else None)

    def _significant(self, found: Outcome, data: Dataset) -> DAG:
        """Return the DAG of the arcs that are worth their cost in the extended BIC."""
        dag = found.dag
        limits: Any = {name: self.parameters.get(name) for name in ("memory_limit", "n_jobs")}
        gram = Gram(data, hold=data.X is None, **limits)  # few correlations are read
        try:
            given = self.parameters | self.bic  # --set names them too
            known = {name: given[name] for name in ("gamma", "penalty") if name in given}
            search = OrderSearch(**known)  # for its defaults
            factor = float(search.penalty if found.penalty is None else found.penalty)
            kept = significant(
                gram, dag.weights, gamma=search.gamma, factor=factor, required=_required(dag)
            )
        finally:
            gram.close()
        return dag.with_arcs(kept != 0)

    # -------------------------------------------------------------- inside

    @property
    def _is_automatic(self) -> bool:
        return self.method.word == "auto"

    def searches_by_bic(self) -> bool:
        """Tell whether the answer is that of a search by the extended BIC, or may be."""
        if self._is_automatic:
            return self.parameters.get("criterion") != "least_squares"
        return "bic" in (self.search, self.method.fixed.get("criterion"))

    def _check_bic(self) -> None:
        """Refuse options of the extended BIC where nothing reads them."""
        by_bic = self.searches_by_bic()
        if "restarts" in self.bic and not by_bic:
            raise ParameterError(f"--restarts goes with a search by BIC: --method auto, {_BY_BIC}.")
        if self.bic.get("penalty") == "auto" and (not by_bic or self._is_automatic):
            own = " The automatic method takes a number." if self._is_automatic else ""
            raise ParameterError(f"--penalty auto goes with {_BY_BIC}.{own}")
        read = self.parameters.get("lambda1") == "bic" or self.threshold == "auto"
        if self.bic.keys() & {"gamma", "penalty"} and not (read or by_bic or self._is_automatic):
            raise ParameterError(
                "--gamma and --penalty are of the extended BIC. They go with --method auto, "
                "--method order-search-bic, --search-criterion bic, --lambda1 bic or "
                "--threshold auto."
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
            return self.bic | {"criterion": "bic"}  # a threshold may read it
        names = ("lambda1", *_SHARED)
        shared = {name: self.parameters[name] for name in names if name in self.parameters}
        return shared | self.bic | {"criterion": self.search}


def _why_none(data: Dataset, first: Outcome, seconds: float | None) -> str | None:
    """Say why there are no resamples, unasked; None where there may be.

    `seconds` is what the fewest would take, where that is too long.
    """
    if data.X is None and data.incomplete is None:
        return "these data have no rows to draw resamples from"
    if not first.dag.n_arcs:
        return "without arcs there is nothing to be sure of"
    if data.n_samples < _FEWEST_ROWS:
        return (
            f"{data.n_samples} rows are too few to tell how sure an arc is; {_FEWEST_ROWS} are the "
            "least"
        )
    if seconds is not None:
        return (
            f"{_RESAMPLES[-1]} would take about {seconds / 60:.0f} minutes here, and up to one is "
            "taken unasked. --bootstrap 100 makes them all the same"
        )
    return None


def _without_effect(asked: dict[str, Any], why_none: str) -> str | None:
    """Say that options of resamples had no effect, for there are none; None where none were."""
    words = {"threshold": "--min-prob", "checkpoint": "--checkpoint"}
    given = [words[name] for name in asked if name in words]
    return f"{' and '.join(given)} had no effect: {why_none}." if given else None


def _required(dag: DAG) -> sp.csc_array | None:
    """Return the arcs of a DAG that were known to be there, or None where none were."""
    if "required" not in dag.arc_data:
        return None
    W = dag.weights
    return sp.csc_array((dag.arc_data["required"], W.indices, W.indptr), shape=W.shape)


def _above(dag: DAG, threshold: float) -> DAG:
    """Return the arcs with an absolute weight above a threshold, and those that are required."""
    required = _required(dag)
    if required is None:
        return dag.threshold(threshold)
    W = dag.weights
    kept = (np.abs(W.data) > threshold) | required.data
    return dag.with_arcs(sp.csc_array((kept, W.indices, W.indptr), shape=W.shape))


def _chooses_lambda1(method: Method) -> bool:
    """Tell whether a method reads lambda1 and can choose it; the extended BIC has none."""
    return method.allows("lambda1", "bic") and method.fixed.get("criterion") != "bic"


def _fitted(learner: _L, data: Dataset) -> _L:
    """Fit; a fit that was interrupted, but holds a graph, is an answer with that status."""
    try:
        learner.fit(data)
    except KeyboardInterrupt:
        if not hasattr(learner, "dag_"):
            raise
    return learner


def _outcome(learner: Learner, seconds: float) -> Outcome:
    assumption = getattr(learner, "assumption_", None)
    by_bic = getattr(learner, "criterion", None) == "bic" or assumption == "own variances"
    return Outcome(
        learner.dag_, learner.status_, learner.n_iter_, seconds, learner.objective_,
        getattr(learner, "lambda1_", None) or learner._own_lambda1(),
        getattr(learner, "criterion_", None) if by_bic else None,
        getattr(learner, "penalty_", None) if by_bic else None,
        getattr(learner, "refit_gain_", None), assumption, getattr(learner, "explanation_", None),
        history=_points(learner.history_),
    )  # fmt: skip


def _points(history: pd.DataFrame) -> dict[str, list[Any]]:
    """Return some points of a history, evenly, with the first and the last of each phase."""
    places = np.linspace(0, len(history) - 1, min(len(history), _MOST_POINTS)).astype(int)
    turns = np.flatnonzero(np.diff(history["phase"].factorize()[0]))[:_MOST_POINTS]
    kept = history.iloc[np.unique(np.concatenate([places, turns, turns + 1]))]
    return {name: kept[name].tolist() for name in ("phase", "iteration", "objective", "arcs")}
