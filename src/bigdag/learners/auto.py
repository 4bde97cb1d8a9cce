"""AutoDAG: the table is prepared, and the data choose which of two assumptions they bear.

Least squares finds the causal order exactly where all noises have the same variance in the units of
the table, and is misled by units where they have not. The extended BIC gives each variable a
variance of its own and reads no units, but it cannot direct every arc. Which of the two a table
bears can be read off the regressions on one order: the one by least variance left, which is right
if the variances are equal. There one variance for all must then be as good as one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp

from bigdag.data.dataset import Dataset
from bigdag.data.prepare import prepare
from bigdag.data.wishes import DUPLICATES, MISSING, TRANSFORMS, Wishes
from bigdag.engine import objective
from bigdag.errors import ParameterError
from bigdag.graph import equivalence
from bigdag.learners.base import Learner
from bigdag.learners.order_search import OrderSearch, note_class, order_of
from bigdag.learners.parameters import Checked, Number, OneOf
from bigdag.learners.run import Run, State
from bigdag.search import start_orders
from bigdag.search.bic import InsertionSearch
from bigdag.search.ebic import arc_cost, refitted, significant
from bigdag.search.least_squares import LeastSquaresSearch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.graph.dag import DAG

__all__ = ["AutoDAG"]

_LAMBDA1 = 0.1  # of equation (1), for a noise variance of 1
# One variance for all may cost this many times log n a variable more than one for each, which is
# what the further variances may cost by the BIC, twice for arcs that were missed. On the first
# order, before the search, errors are more.
_LIMIT, _FIRST_LIMIT = 2.0, 4.0
# The largest variance by the least, without this share at both ends, of columns that were scaled to
# the same: ties make those of ranks differ a little.
_SAME, _ENDS = 1.1, 0.01
_MOST_TAILED = 4.0  # how much heavy tails may raise it: exponential noise needs as much


class AutoDAG(Learner):
    """Learn a DAG from a table as it is: prepared, with the assumption that the data bear.

    The table is looked at and prepared (see `prepare`). If the noises of the variables seem to
    have one variance in the table's own units, `OrderSearch` lowers equation (1), and the arcs that
    are worth their extended BIC stay. Otherwise it lowers the extended BIC, which gives each
    variable a variance of its own.

    Parameters
    ----------
    criterion : {"auto", "least_squares", "bic"}, default="auto"
        Which of the two is lowered; by default the data choose.
    transformation : {"auto", "none", "rank", "log1p"}, default="auto"
        What is done to the values first; "auto" is what `check` recommends.
    missing : {"auto", "error", "pairwise", "em", "drop"}, default="auto"
        What is done about missing values; "auto" takes correlations from pairs of present values
        while no column lacks more than a fifth, EM where these contradict each other, and otherwise
        refuses them.
    adjust : sequence of str, default=()
        Columns whose linear effect is taken out of all others first.
    batch : str, optional
        A column whose values are groups of rows; their effect is taken out first.
    duplicates : {"keep", "group", "error"}, default="keep"
        What is done about columns that are nearly the same.
    gamma : float or "auto", default="auto"
        Of the extended BIC, as in `OrderSearch`.
    penalty : float, default=1.0
        Factor of an arc's cost in the extended BIC.
    restarts : int, default=0
        Random restarts of the search by BIC.
    max_iter : int, optional
        Steps at the most.
    time_limit : float, optional
        Seconds at the most.
    random_state : int or Generator, optional
        The seed of the restarts.
    callback : callable, optional
        Called with a :class:`~bigdag.learners.run.State` after each step; True ends the fit.
    warm_start_dag : DAG or matrix of shape (d, d), optional
        A graph whose order is one more to begin from.
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
    dag_ : DAG
        The answer. Its weights are those of plain least squares on the arcs.
    assumption_ : {"equal variances", "own variances"}
        What the data bear, and the answer supposes.
    explanation_ : str
        What was chosen and why, and what would change the answer, in a few sentences.
    variance_excess_ : float or None
        What one noise variance for all costs more than one for each, on the least squares'
        answer, in units of log n a variable; None where it was not looked at.
    prepared_ : Prepared
        What was done to the table; its `data` are left out.
    weights_ : csc_array of shape (d, d)
        Its weights, ``W[i, j]`` for the arc i → j.
    order_ : ndarray of shape (d,)
        The variables, causes first.
    cpdag_ : csc_array of shape (d, d)
        1 for an arc that the data direct, 1 both ways for one that they do not.
    objective_ : float
        Equation (1) of the answer, with `lambda1_`.
    lambda1_ : float
        A tenth of the noise variance, as far as that is known.
    history_ : DataFrame
        One row a step: phase, iteration, seconds, objective, arcs.
    status_ : str
        One of converged, max_iter, time_limit, interrupted, diverged.
    n_iter_ : int
        The number of steps.
    noise_variances_ : ndarray of shape (d,)
        What is left of each variance.

    Examples
    --------
    >>> from bigdag import AutoDAG, simulate
    >>> truth = simulate.random_dag(30, 1, rng=0)
    >>> X = simulate.sample(truth, 500, rng=1)
    >>> AutoDAG().fit(X).assumption_
    'equal variances'
    >>> AutoDAG().fit(simulate.standardise(X)).assumption_
    'own variances'
    """

    _parameters: ClassVar[dict[str, Any]] = {
        **{name: row for name, row in Learner._parameters.items() if name != "lambda1"},
        "criterion": OneOf("auto", "least_squares", "bic"),
        "transformation": OneOf(*TRANSFORMS),
        "missing": OneOf(*MISSING),
        "adjust": Checked("names of columns", lambda names: Wishes(adjust=_names(names)) and True),
        "batch": Checked("the name of a column, or None", lambda name: Wishes(batch=name) and True),
        "duplicates": OneOf(*DUPLICATES),
        "gamma": OrderSearch._parameters["gamma"],
        "penalty": Number(0, above=True),
        "restarts": Number(0, whole=True),
    }

    def __init__(
        self,
        criterion: str = "auto",
        *,
        transformation: str = "auto",
        missing: str = "auto",
        adjust: Sequence[str] = (),
        batch: str | None = None,
        duplicates: str = "keep",
        gamma: float | str = "auto",
        penalty: float = 1.0,
        restarts: int = 0,
        max_iter: int | None = None,
        time_limit: float | None = None,
        random_state: Any = None,
        callback: Callable[[State], Any] | None = None,
        warm_start_dag: Any = None,
        knowledge: Any = None,
        n_jobs: int | None = None,
        memory_limit: float | str | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.criterion = criterion
        self.transformation = transformation
        self.missing = missing
        self.adjust = adjust
        self.batch = batch
        self.duplicates = duplicates
        self.gamma = gamma
        self.penalty = penalty
        self.restarts = restarts
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.callback = callback
        self.warm_start_dag = warm_start_dag
        self.knowledge = knowledge
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def _dataset(self, X: Any) -> Dataset:
        """Prepare the table; of one that was checked already only as far as that is asked for."""
        transform, missing = self.transformation, self.missing
        if isinstance(X, Dataset):
            transform = "none" if transform == "auto" else transform
            missing = "error" if missing == "auto" else missing
        self.prepared_ = prepare(
            X, transform=transform, missing=missing, adjust=_names(self.adjust),
            batch=self.batch, duplicates=self.duplicates, memory_limit=self.memory_limit,
        )  # fmt: skip
        return self.prepared_.data

    def _own_lambda1(self) -> float:
        return _LAMBDA1

    def _searches(self) -> list[OrderSearch]:
        shared: dict[str, Any] = {"gamma": self.gamma, "penalty": self.penalty}
        words = ("least_squares", "bic") if self.criterion == "auto" else (self.criterion,)
        return [OrderSearch(criterion=word, **shared) for word in words]

    def _hold(self, d: int, only_moments: bool) -> bool | None:
        held = [search._hold(d, only_moments) for search in self._searches()]
        return None if None in held else held[0]

    def _workspace(self, n: int, d: int, hold: bool) -> int:
        return max(search._workspace(n, d, hold) for search in self._searches())

    # -------------------------------------------------------------- the choice, and the search

    def _learn(self, run: Run) -> None:
        gram = run.gram
        self.penalty_ = float(self.penalty)
        self.variance_excess_: float | None = None
        self._excess_limit, self._columns_excess = _LIMIT, 0.0
        self._n_varying = int((gram.sd > 0).sum())
        self._limits = run.limits
        self.assumption_ = "own variances"
        self._cost = arc_cost(gram.n_samples, gram.d, self.gamma, self.penalty_)
        self._last_kept: tuple[sp.csc_array | None, Any] = (None, None)
        chosen: InsertionSearch | LeastSquaresSearch | None = None
        try:
            starts = [] if run.warm_start is None else [order_of(run.warm_start)]
            by_bic = None
            if self.criterion != "least_squares":
                by_bic = chosen = InsertionSearch(run, gram, self._cost, starts, self.restarts)
            if by_bic is None or (self.criterion == "auto" and self._may_be_equal(run)):
                self.assumption_ = "equal variances"
                chosen = self._least_squares(run)
                if not chosen.begin():
                    return
                if by_bic is None or self._is_equal(run, _FIRST_LIMIT):
                    chosen.improve()
                    if by_bic is None or run.status != "converged":
                        return
                    if self._is_equal(run, _LIMIT):
                        return
                self.assumption_, chosen = "own variances", by_bic
            assert by_bic is not None
            by_bic.starts.append(start_orders.r2_order(gram))
            by_bic.work()
        finally:  # an interrupt too ends with the best so far
            if chosen is not None:
                chosen.hand_over()
            if self.assumption_ == "equal variances":
                kept = self._worth_it(run, run.best_weights, required=True)
                run.answer_with(refitted(gram, kept), run.best_order)
                self._loose = sp.csc_array(run.best_weights.shape, dtype=bool)
            else:
                self._loose = equivalence.reversible(run.best_weights, run.best_order, run.limits)
            del self._last_kept

    def _may_be_equal(self, run: Run) -> bool:
        """Tell whether the columns' own variances differ, as arcs make them do."""
        variances = run.gram.diag()[run.gram.sd > 0]
        if len(variances) < 2:
            return False
        low, high = np.quantile(variances, [_ENDS, 1 - _ENDS])
        return bool(high > _SAME * low)

    def _is_equal(self, run: Run, limit: float) -> bool:
        """Tell whether one variance is as good as one for each on the answer so far."""
        self.variance_excess_, tails = self._excess(run, run.best_weights)
        variances = run.gram.diag()[run.gram.sd > 0]
        # What the arcs explain must make the variances more equal, and not less.
        self._columns_excess = _unequal(run.gram.n_samples, variances)
        self._excess_limit = limit * tails
        return self.variance_excess_ <= min(self._excess_limit, self._columns_excess)

    def _least_squares(self, run: Run) -> LeastSquaresSearch:
        """Return the search for the least equation (1), with lambda1 by the noise's variance."""
        gram = run.gram
        order = run.possible(start_orders.least_variance_order(gram))
        search = InsertionSearch(run, gram, self._cost, [])
        weights = search.weights_on(order)
        variances = objective.noise_variances(gram, objective.losses(gram, weights))[gram.sd > 0]
        if len(variances):  # the median, as some arcs may be missing yet
            run.lambda1 = _LAMBDA1 * float(np.median(variances))
        run.answer_with(weights, order)
        learner = OrderSearch(run.lambda1, gamma=self.gamma, penalty=self.penalty_)
        learner.penalty_ = self.penalty_
        return LeastSquaresSearch(learner, run)

    def _excess(self, run: Run, weights: sp.csc_array) -> tuple[float, float]:
        """Return what one variance costs more than one for each, and how much tails may add.

        The first is in units of log n a variable: refitted on the arcs, ``n log`` of the mean
        variance against the mean of ``n log`` variance. Where the variances are the same, it is
        about (k − 1) / 2 / log n, k being the kurtosis of the residuals: 3 if they are Gaussian.
        """
        gram, n = run.gram, run.gram.n_samples
        kept = refitted(gram, self._worth_it(run, weights))
        live = gram.sd > 0
        if not live.any():
            return 0.0, 1.0
        parents = np.minimum(np.diff(kept.indptr), n - 1)
        variances = objective.noise_variances(gram, objective.losses(gram, kept))
        variances = (variances * n / (n - parents))[live]
        if not variances.min() > 0:  # a variable is a function of others
            return np.inf, 1.0
        tails = (_kurtosis(run.data.X, kept, live) - 1) / 2
        return _unequal(n, variances), float(np.clip(tails, 1.0, _MOST_TAILED))

    def _worth_it(self, run: Run, weights: sp.csc_array, required: bool = False) -> sp.csc_array:
        """Return the arcs that are worth their cost; those asked for last are not sought again."""
        needed = run.limits.required if required and run.limits is not None else None
        before, kept = self._last_kept
        if needed is None and before is not None and _same(before, weights):
            return kept
        kept = significant(
            run.gram, weights, gamma=self.gamma, factor=self.penalty_, required=needed
        )
        if needed is None:
            self._last_kept = weights.copy(), kept
        return kept

    # -------------------------------------------------------------- the answer

    def _finish(self, run: Run) -> None:
        super()._finish(run)
        self.lambda1_ = run.lambda1
        by_bic = self.assumption_ == "own variances"
        note_class(self, run, self._loose, self._cost, weigh=by_bic)
        self.explanation_ = self.explained(self.dag_)
        self.prepared_ = self.prepared_.without_data()

    def _known_directions(self, dag: DAG) -> int:
        """Return how many arcs cannot run the other way, by what is known alone."""
        limits = self._limits
        if limits is None or limits.d != dag.n_nodes:
            return 0
        arcs = dag.weights.tocoo()
        known = ~limits.pairs(arcs.col, arcs.row) | limits.requires(arcs.row, arcs.col)
        return int(np.count_nonzero(known))

    def explained(self, dag: DAG) -> str:
        """Say what was chosen and why, and what would change the answer.

        Parameters
        ----------
        dag : DAG
            The answer whose arcs are counted: `dag_`, or what resamples agree on.

        Returns
        -------
        str
            A few sentences.
        """
        arcs = dag.n_arcs
        loose = 0 if dag.reversible is None else dag.reversible.nnz
        known = self._known_directions(dag)
        excess = self.variance_excess_
        if self.assumption_ == "equal variances":
            why = (
                "as asked for" if excess is None and self.criterion != "auto" else
                "time was up before the data could tell" if excess is None else
                "the noises seem to have the same variance in the units of the table (one variance "
                f"for all costs {excess:.2g} log n a variable; up to {self._excess_limit:.2g} is "
                "chance)"
            )  # fmt: skip
            chosen = f"Least squares with one noise variance was chosen: {why}."
            if not arcs:
                return f"{chosen} No arc was found."
            return (
                f"{chosen} {_directions(arcs, loose, 'the variances', known)}: in other units, or "
                f"if the noises differ, {_turned(arcs, known)}. AutoDAG(criterion='bic') (--method "
                "order-search-bic) supposes less."
            )
        why = (
            "as asked for" if self.criterion != "auto" else
            "there are no two columns that vary" if self._n_varying < 2 else
            "the columns have the same variance, as ranks and scaled columns do" if excess is None
            else "the noises have different variances in the units of the table (one variance for "
            f"all costs {excess:.2g} log n a variable; up to {self._excess_limit:.2g} would be "
            "chance)" if excess > self._excess_limit else
            "the arcs of least squares make the variances less equal, where causes of one noise "
            f"variance would make them more so (one for all costs {excess:.2g} log n a variable of "
            f"the noises, and {self._columns_excess:.2g} of the columns)"
        )  # fmt: skip
        chosen = f"A noise variance for each variable was chosen, with the extended BIC: {why}."
        more = self.knowledge is not None and not known
        by = "the data and what is known" if more else "the data"
        if not arcs:
            return f"{chosen} No arc was found that is worth its cost."
        return f"{chosen} {_directions(arcs, loose, by, known)}; other units change nothing" + (
            ", more rows or knowledge of causes would direct more." if loose else "."
        )


def _directions(arcs: int, loose: int, by: str, known: int = 0) -> str:
    """Say how many arcs are directed, and by what: `known` of them by knowledge alone.

    Examples
    --------
    >>> _directions(5, 2, "the data")
    'Of 5 arcs 3 are directed by the data, and 2 may run either way'
    >>> _directions(1, 0, "the data")
    'The one arc is directed by the data'
    >>> _directions(5, 0, "the variances", known=4)
    'Of 5 arcs 4 are directed by what is known, and 1 by the variances'
    >>> _directions(5, 0, "the variances", known=5)
    'All 5 arcs are directed by what is known'
    """
    every = "The one arc" if arcs == 1 else f"All {arcs:,} arcs"
    fixed = arcs - loose - known
    counts = [(known, "what is known"), (fixed, by)]
    parts = [(count, f"directed by {what}") for count, what in counts if count]
    if loose == arcs:
        return f"{every} may run either way"
    if len(parts) == 1 and not loose:
        return f"{every} {'is' if arcs == 1 else 'are'} {parts[0][1]}"
    first, text = parts[0]
    said = [f"{first:,} {'is' if first == 1 else 'are'} {text}"]
    said += [f"{count:,} {text.removeprefix('directed ')}" for count, text in parts[1:]]
    said += [f"{loose:,} may run either way"] if loose else []
    return f"Of {arcs:,} arcs {', '.join(said[:-1])}, and {said[-1]}"


def _turned(arcs: int, known: int) -> str:
    """Say which arcs may turn where the variances are no guide."""
    if not known:
        return "arcs may turn"
    return "others may be found, but none turns" if known == arcs else "those may turn"


def _unequal(n: int, variances: NDArray[np.float64]) -> float:
    """Return what one variance costs more than one for each, in units of log n a variable."""
    return float(n * (np.log(variances.mean()) - np.log(variances).mean()) / np.log(n))


def _names(given: Any) -> tuple[str, ...]:
    if isinstance(given, str):
        return (given,)
    try:
        return tuple(given)
    except TypeError:
        raise ParameterError(f"adjust must be names of columns. Got {given!r} instead.") from None


def _same(one: sp.csc_array, other: sp.csc_array) -> bool:
    """Tell whether two matrices have the same entries, stored alike."""
    parts = (one.indptr, other.indptr), (one.indices, other.indices), (one.data, other.data)
    return all(np.array_equal(a, b) for a, b in parts)


def _kurtosis(
    X: NDArray[np.float64] | None, weights: sp.csc_array, live: NDArray[np.bool_]
) -> float:
    """Return the mean kurtosis of the residuals: 3 if they are Gaussian, or not known."""
    if X is None:
        return 3.0
    columns = np.flatnonzero(live)
    columns = columns[:: max(1, len(columns) // 1000)]
    residual = X[:, columns] - X @ weights[:, columns]
    squares = residual**2
    second = squares.mean(axis=0)
    some = second > 0
    return (
        float(np.mean(((squares[:, some] / second[some]) ** 2).mean(axis=0))) if some.any() else 3.0
    )
