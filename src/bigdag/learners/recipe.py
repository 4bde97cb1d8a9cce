"""A method, a search over orders after it, and a threshold, as one thing to follow on any table.

A :class:`Recipe` is made, and refused, before any data are read; then it can be followed on more
than one table, which is what a check of the units needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from bigdag.compiled import Stopwatch
from bigdag.engine.gram import Gram
from bigdag.errors import BigdagError, ParameterError, missing_extra
from bigdag.graph.dag import DAG
from bigdag.learners import methods
from bigdag.learners.order_search import OrderSearch
from bigdag.search.ebic import significant
from bigdag.search.penalty_path import require_rows

if TYPE_CHECKING:
    from bigdag.data.dataset import Dataset
    from bigdag.learners.base import Learner
    from bigdag.learners.methods import Method
    from bigdag.learners.run import State

__all__ = ["Outcome", "Recipe"]

_SHARED = ("random_state", "n_jobs", "memory_limit")  # what a search takes over from the method


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
    first : dict or None
        How the method ended that a search came after.
    trouble : str or None
        Why the search after the method could not be made; the answer is then the method's.
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
    trouble: str | None = None

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

    def __post_init__(self) -> None:
        self._check_bic()
        if self._lambda1_is_left_to_the_search() is None:
            able = [row.word for row in methods.METHODS.values() if _chooses_lambda1(row)]
            raise ParameterError(
                f"The method {self.method.word!r} cannot choose lambda1 from the data. Methods "
                f"that can: {', '.join(able)}. So does --search with --search-criterion "
                "least_squares."
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

    def searches_by_bic(self) -> bool:
        """Tell whether the answer is that of a search by the extended BIC."""
        return "bic" in (self.search, self.method.fixed.get("criterion"))

    def _check_bic(self) -> None:
        """Refuse options of the extended BIC where nothing reads them."""
        if "restarts" in self.bic and not self.searches_by_bic():
            raise ParameterError(
                "--restarts goes with --method order-search-bic or --search-criterion bic."
            )
        if self.bic.get("penalty") == "auto" and not self.searches_by_bic():
            raise ParameterError(
                "--penalty auto goes with --method order-search-bic or --search-criterion bic."
            )
        read = self.parameters.get("lambda1") == "bic" or self.threshold == "auto"
        if self.bic.keys() & {"gamma", "penalty"} and not (read or self.searches_by_bic()):
            raise ParameterError(
                "--gamma and --penalty are of the extended BIC. They go with --method "
                "order-search-bic, --search-criterion bic, --lambda1 bic or --threshold auto."
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


def _chooses_lambda1(method: Method) -> bool:
    """Tell whether a method reads lambda1 and can choose it; the extended BIC has none."""
    return method.allows("lambda1", "bic") and method.fixed.get("criterion") != "bic"


def _fitted(learner: Learner, data: Dataset) -> Learner:
    """Fit; a fit that was interrupted, but holds a graph, is an answer with that status."""
    try:
        learner.fit(data)
    except KeyboardInterrupt:
        if not hasattr(learner, "dag_"):
            raise
    return learner


def _outcome(learner: Learner, seconds: float) -> Outcome:
    by_bic = getattr(learner, "criterion", None) == "bic"
    return Outcome(
        learner.dag_, learner.status_, learner.n_iter_, seconds, learner.objective_,
        getattr(learner, "lambda1_", None) or learner._own_lambda1(),
        getattr(learner, "criterion_", None) if by_bic else None,
        getattr(learner, "penalty_", None) if by_bic else None,
        getattr(learner, "refit_gain_", None),
    )  # fmt: skip
