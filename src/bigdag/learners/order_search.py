"""OrderSearch: past the paper, a search over orders for either of two criteria.

What limits the accuracy of ProxiMAS is the order it ends with. ``criterion="least_squares"`` begins
from the best of several orders, among them the one by least variance left, and lowers equation (1)
by moves in the order (:mod:`bigdag.search.arrangement`). ``criterion="bic"`` reads no variances: it
lowers the extended BIC by best insertions (:mod:`bigdag.search.insertion`), and says of each arc
whether data of this kind can direct it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from bigdag.data.dataset import as_dataset
from bigdag.engine.executor import current, executing
from bigdag.engine.gram import blocks_memory
from bigdag.engine.screening import ALL_PREDECESSORS
from bigdag.errors import ParameterError
from bigdag.graph import equivalence
from bigdag.graph.acyclic import topological_order
from bigdag.graph.dag import DAG
from bigdag.graph.feedback_arc_set import greedy_order
from bigdag.knowledge.known import as_knowledge, limits_of
from bigdag.learners.around import surroundings
from bigdag.learners.base import Learner
from bigdag.learners.checkpoint import opened_journal
from bigdag.learners.journal import Journalled
from bigdag.learners.parameters import Checked, Number, OneOf
from bigdag.learners.run import Run, State, stream
from bigdag.search import start_orders as orders
from bigdag.search.bic import InsertionSearch, holds_correlations, insertion_memory
from bigdag.search.ebic import arc_cost, evidence, significant
from bigdag.search.least_squares import LeastSquaresSearch
from bigdag.search.penalty_path import PenaltyPath

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.data.dataset import Dataset
    from bigdag.interrupts import Interrupt

__all__ = ["OrderSearch", "note_class", "order_of"]

_STARTS = ("auto", "least_variance", "variance", "r2", "proximas")


def _is_start(value: Any) -> bool:
    several = value if isinstance(value, list | tuple) else [value]
    return bool(several) and all(
        isinstance(one, DAG) or (isinstance(one, str) and one in _STARTS) or sp.issparse(one)
        for one in several
    )


class OrderSearch(Learner):
    """Search over orders, by equation (1) or by a likelihood that no change of units changes.

    Parameters
    ----------
    lambda1 : float or "bic", default=0.1
        Weight of the L1 norm in equation (1). "bic" chooses it from the data: of a path of values,
        the one whose arcs have the least extended BIC. The criterion "bic" does not read it.
    criterion : {"least_squares", "bic"}, default="least_squares"
        What is lowered: equation (1), which supposes noises of equal variance in the units of the
        data; or the extended BIC, with a noise variance for each variable, whatever the units.
    start : str, DAG, sparse matrix, or a list of these, default="auto"
        Orders to begin from, of which the best is taken: "least_variance", "variance", "r2",
        "proximas" or a graph. "auto" is by least variance left, for "bic" by R², which no change of
        units changes. Where a criterion cannot tell two orders apart, the start decides. Up to 8
        variables every order is weighed, and no start is needed.
    gamma : float or "auto", default="auto"
        Of the extended BIC: an arc costs ``penalty * (log n + 2 gamma log d)``. "auto" is the
        square of log d / log n, at most 1.
    penalty : float or "auto", default=1.0
        Factor of that cost. For "bic", "auto" chooses it from the data: of a path of factors, the
        one that a fifth of the rows, held out of the search, likes best.
    restarts : int or None, default=0
        For "bic": random changes of the best order from which the search goes on. None goes on
        until the time limit.
    candidates : {"auto", "all", "correlated"}, default="auto"
        For "least_squares": whether any predecessor may be a parent, or only those correlated
        with the variable. "auto" takes all up to 5000 variables.
    threshold : float, "auto" or None, default=None
        Arcs that the answer leaves out: those with a weight up to a number, or with "auto" those
        that are not worth their cost in the extended BIC once refitted.
    tol : float, default=1e-4
        Relative duality gap of each lasso.
    max_iter : int or None, default=None
        Steps at the most.
    time_limit : float or None, default=None
        Seconds.
    random_state : int, Generator or None, default=None
        Seed of the restarts.
    callback : callable or None, default=None
        Called with the state after each step; True stops.
    warm_start_dag : DAG, matrix or None, default=None
        One more graph whose order is a start.
    knowledge : Knowledge, optional
        What is known beforehand, see :class:`~bigdag.Knowledge`; kept exactly.
    checkpoint : path or None, default=None
        A file that keeps what is done, so that the same fit goes on from it after whatever ended
        it, with the same answer; it is left at the end. It belongs to this table and these
        parameters.
    n_jobs : int or None, default=None
        Threads; all cores by default.
    memory_limit : float, str or None, default=None
        Bytes, or text such as "4GB".
    verbose : bool, default=False
        Whether to log the steps; a notebook also shows a bar.

    Attributes
    ----------
    dag_ : DAG
        The answer. For "bic" its `reversible` arcs are those that an equivalent DAG, with the same
        likelihood, has the other way round, and each arc has its "evidence": what the BIC loses
        without it. `DAG.edges` and average precision rank by direction and evidence.
    cpdag_ : csc_array of int8, shape (d, d)
        For "bic": what all these DAGs have in common; an undirected edge is stored both ways. A
        threshold cuts arcs from it and turns none.
    lambda1_ : float
        The lambda1 used.
    penalty_ : float
        The penalty used.
    criterion_ : float
        The criterion's value: equation (1), or the extended BIC (n log variance left + the cost
        of the arcs).
    weights_ : csc_array of shape (d, d)
        Its weights, ``W[i, j]`` for the arc i → j: those of the lasso, or for "bic" of plain least
        squares on the parents.
    order_ : ndarray of shape (d,)
        The variables, causes first.
    objective_ : float
        Equation (1) of the answer.
    history_ : DataFrame
        One row a step: phase, iteration, seconds, objective, arcs.
    status_ : str
        One of converged, max_iter, time_limit, interrupted, diverged. Converged means: no swap of
        two neighbours in the order lowers equation (1), or no insertion lowers the BIC.
    n_iter_ : int
        The number of steps.
    noise_variances_ : ndarray of shape (d,)
        What is left of each variance.

    Examples
    --------
    >>> from bigdag import OrderSearch, metrics, simulate
    >>> truth = simulate.random_dag(50, 2, rng=0)
    >>> X = simulate.sample(truth, 1000, rng=1)
    >>> model = OrderSearch().fit(X)
    >>> metrics.average_precision(model.dag_, truth) > 0.95
    True

    Standardised data has lost the variances; what is left is what the BIC reads.

    >>> model = OrderSearch(criterion="bic").fit(simulate.standardise(X))
    >>> metrics.shd_cpdag(model.dag_, truth) < 10
    True
    """

    _parameters: ClassVar[dict[str, Any]] = {
        **Learner._parameters,
        "lambda1": Checked(
            "a number >= 0, or 'bic'",
            lambda v: (isinstance(v, str) and v == "bic") or Number(0, 1e300).allows(v),
        ),
        "criterion": OneOf("least_squares", "bic"),
        "start": Checked(
            f"one of {', '.join(map(repr, _STARTS))}, a DAG, a sparse matrix, or a list of these",
            _is_start,
        ),
        "gamma": Checked(
            "a number between 0 and 100, or 'auto'",
            lambda v: (isinstance(v, str) and v == "auto") or Number(0, 100).allows(v),
        ),
        "penalty": Checked(
            "a number >= 0 and <= 1e+06, or 'auto'",
            lambda v: (isinstance(v, str) and v == "auto") or Number(0, 1e6).allows(v),
        ),
        "restarts": Number(0, whole=True, none=True),
        "candidates": OneOf("auto", "all", "correlated"),
        "threshold": Checked(
            "a number >= 0, 'auto' or None",
            lambda v: (isinstance(v, str) and v == "auto") or Number(0, none=True).allows(v),
        ),
        "tol": Number(0, 1, above=True),
        "checkpoint": Checked(
            "the name of a file, or None",
            lambda c: c is None or isinstance(c, str | os.PathLike),
        ),
    }

    def __init__(
        self,
        lambda1: float | str = 0.1,
        *,
        criterion: str = "least_squares",
        start: Any = "auto",
        gamma: float | str = "auto",
        penalty: float | str = 1.0,
        restarts: int | None = 0,
        candidates: str = "auto",
        threshold: float | str | None = None,
        tol: float = 1e-4,
        max_iter: int | None = None,
        time_limit: float | None = None,
        random_state: Any = None,
        callback: Callable[[State], Any] | None = None,
        warm_start_dag: Any = None,
        knowledge: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        memory_limit: float | str | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.lambda1 = lambda1
        self.criterion = criterion
        self.start = start
        self.gamma = gamma
        self.penalty = penalty
        self.restarts = restarts
        self.candidates = candidates
        self.threshold = threshold
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.callback = callback
        self.warm_start_dag = warm_start_dag
        self.knowledge = knowledge
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.verbose = verbose

    def fit_around(self, X: Any, target: str | int, radius: int = 2) -> Self:
        """Learn the neighbourhood of one variable of a table that may be huge.

        Only columns that are correlated with the variable, or with such columns, are looked at.
        Near the variable the arcs are mostly those of a fit of the whole table, at a small part
        of its work.

        Parameters
        ----------
        X : array, data frame or Dataset of shape (n_samples, n_features)
            The table.
        target : str or int
            The variable, by name or place.
        radius : int, default=2
            How many arcs away from it the answer reaches.

        Returns
        -------
        self
            The fitted estimator; `dag_` has the variables within the radius, and `around_` says
            which columns were looked at. The other attributes are those of the fit of these.

        Examples
        --------
        >>> from bigdag import OrderSearch, simulate
        >>> truth = simulate.random_dag(300, 1, rng=0)
        >>> X = simulate.sample(truth, 1000, rng=1)
        >>> model = OrderSearch(criterion="bic").fit_around(X, "x7")
        >>> "x7" in model.dag_.names, model.dag_.n_nodes < 300
        (True, True)
        """
        self._check_parameters()
        data = self._dataset(X)
        around = surroundings(
            data, target, radius, gamma=self.gamma, limits=limits_of(self.knowledge, data)
        )
        part = around.part(data)
        inside = clone(self).set_params(gamma=around.gamma)
        if self.knowledge is not None:  # of the whole table it was refused above
            inside.set_params(knowledge=as_knowledge(self.knowledge).of_part(data, part))
        inside.fit(part)
        own = self.get_params(deep=False)
        self.__dict__.update(inside.__dict__)
        self.__dict__.update(own)
        self.around_ = around
        said: dict[str, Any] = {"around": around.sentence()}
        if self.knowledge is not None:  # all of it, also what is of other columns
            said["knowledge"] = as_knowledge(self.knowledge).to_dict()
        self.dag_ = inside.dag_.neighbourhood(around.target, around.radius).annotated(about=said)
        return self

    def _dataset(self, X: Any) -> Dataset:
        copies = 1 if self._reads_rows_once() else 2
        return as_dataset(X, memory_limit=self.memory_limit, copies=copies, n_jobs=self.n_jobs)

    def _reads_rows_once(self) -> bool:
        starts = self.start if isinstance(self.start, list | tuple) else [self.start]
        again = any(isinstance(one, str) and one == "proximas" for one in starts)
        return not again and not isinstance(self.penalty, str)

    def _own_lambda1(self) -> float:
        return 0.1 if isinstance(self.lambda1, str) else float(self.lambda1)

    def _confined(self, d: int) -> bool:
        """Tell whether only correlated variables may be parents in the lasso."""
        if self.candidates == "auto":
            return d > ALL_PREDECESSORS
        return self.candidates == "correlated"

    def _hold(self, d: int, only_moments: bool) -> bool | None:
        if self.criterion == "least_squares" and self._confined(d):
            return only_moments  # each column reads few correlations
        if self.criterion == "bic" and not holds_correlations(d):
            return only_moments
        return None

    def _workspace(self, n: int, d: int, hold: bool) -> int:
        # What works on blocks of rows, which the moments count, ends before the search begins.
        blocks = blocks_memory(d)
        if self.criterion == "bic":
            return max(0, insertion_memory(n, d) - blocks)
        start = orders.least_variance_memory(n, d, hold)
        if self._confined(d):
            return max(0, start - blocks)
        moves = 0 if hold and n >= d else 8 * n * d  # their residuals
        return super()._workspace(n, d, hold) + max(start, moves)

    # -------------------------------------------------------------- the two searches

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.criterion != "bic" and isinstance(self.penalty, str):
            raise ParameterError(
                "penalty='auto' goes with criterion='bic'. Got criterion='least_squares': give a "
                "number."
            )
        endless = self.restarts is None and self.time_limit is None and self.max_iter is None
        if self.criterion == "bic" and endless:
            raise ParameterError(
                "restarts=None goes on until the time limit. Got time_limit=None: set one, or "
                "give a number of restarts."
            )

    def _learn_from(self, data: Dataset, interrupt: Interrupt) -> bool:
        if self.checkpoint is None:
            return super()._learn_from(data, interrupt)
        with opened_journal(self.checkpoint, self, data) as journal:
            self._seed = int(journal.about["seed"])
            with executing(Journalled(current(), journal)):
                return super()._learn_from(data, interrupt)

    def _learn(self, run: Run) -> None:
        if isinstance(run.gram.executor, Journalled):
            run.gram.executor.run = run
            run.rng = stream(self._seed)
        self.penalty_ = 1.0 if isinstance(self.penalty, str) else float(self.penalty)
        search: InsertionSearch | LeastSquaresSearch | None = None
        try:
            if self.criterion == "least_squares":
                search = LeastSquaresSearch(self, run)
                search.work()
                return
            starts = self._orders(run, ["r2"])
            if isinstance(self.penalty, str):
                path = PenaltyPath(run, self.gamma, starts)
                try:
                    if not path.work():
                        return
                finally:
                    self.penalty_ = path.best
            cost = arc_cost(run.gram.n_samples, run.gram.d, self.gamma, self.penalty_)
            search = InsertionSearch(run, run.gram, cost, starts, self.restarts)
            search.work()
        finally:  # an interrupt too ends with the best so far, above the threshold
            if search is not None:
                search.hand_over()
                search = None  # what it holds is not needed any more
            # What the data directed stays directed, also where the threshold cuts an arc.
            self._loose = equivalence.reversible(run.best_weights, run.best_order, run.limits)
            self._cut(run)

    def _cut(self, run: Run) -> None:
        """Leave out of the answer the arcs below the threshold."""
        if self.threshold is None:
            return
        weights = run.best_weights
        if isinstance(self.threshold, str):
            needed = None if run.limits is None else run.limits.required
            kept = significant(
                run.gram, weights, gamma=self.gamma, factor=self.penalty_, required=needed
            )
        else:
            kept = weights.copy()
            below = np.abs(kept.data) <= self.threshold
            if run.limits is not None:
                columns = np.repeat(np.arange(run.gram.d), np.diff(kept.indptr))
                below &= ~run.limits.requires(kept.indices, columns)
            kept.data[below] = 0.0
            kept.eliminate_zeros()
        run.answer_with(kept, run.best_order)

    def _finish(self, run: Run) -> None:
        super()._finish(run)
        self.lambda1_ = run.lambda1
        if self.criterion == "bic":
            cost = arc_cost(run.gram.n_samples, run.gram.d, self.gamma, self.penalty_)
            note_class(self, run, self._loose, cost)
        else:
            self.criterion_ = self.objective_

    def _orders(
        self, run: Run, words: Sequence[str], support: Any = None
    ) -> list[NDArray[np.int64]]:
        """Return the orders to begin from; ``words`` are what "auto" stands for."""
        given = self.start if isinstance(self.start, list | tuple) else [self.start]
        found = []
        for one in given:
            for word in words if isinstance(one, str) and one == "auto" else [one]:
                found.append(self._order(run, word, support))
        if run.warm_start is not None:
            found.append(order_of(run.warm_start))
        return found

    def _order(self, run: Run, start: Any, support: Any) -> NDArray[np.int64]:
        if not isinstance(start, str):
            weights = self._start_weights(run.data, start, "start")
            assert weights is not None
            order = order_of(weights)
            if self.criterion == "least_squares" and topological_order(weights) is not None:
                run.offer(weights, order)  # the answer, should time be up at once
            return order
        if start == "least_variance":
            return orders.least_variance_order(run.gram, support)
        if start == "variance":
            return orders.variance_order(run.gram)
        if start == "r2":
            return orders.r2_order(run.gram)
        from bigdag.learners.proximas import ProxiMAS

        left = None if run.time_limit is None else max(run.time_limit - run.seconds, 0.01) / 2
        first = ProxiMAS(
            run.lambda1, time_limit=left, n_jobs=self.n_jobs, memory_limit=self.memory_limit
        )
        return np.asarray(first.fit(run.data).order_)


def note_class(
    learner: Learner, run: Run, loose: sp.csc_array, cost: float, weigh: bool = True
) -> None:
    """Say of a fitted learner's arcs which are directed, and what its extended BIC is.

    Parameters
    ----------
    learner : Learner
        Gets `cpdag_`, `criterion_` and a `dag_` that knows which arcs may run either way.
    run : Run
        The fit.
    loose : csc_array of shape (d, d)
        The arcs that the data do not direct, some of which may not be in the answer.
    cost : float
        Of an arc.
    weigh : bool, default=True
        Whether to say of each arc what the extended BIC loses without it, its evidence.
    """
    arcs = sp.csc_array(learner.weights_ != 0)
    loose = sp.csc_array(loose.multiply(arcs))
    learner.cpdag_ = sp.csc_array(arcs.astype(np.int8) + loose.T.astype(np.int8))
    known = {"evidence": evidence(run.gram, learner.weights_, cost)} if weigh else None
    learner.dag_ = learner.dag_.annotated(reversible=loose, arc_data=known)
    share = learner.noise_variances_ * run.gram.inverse_sd**2
    live = run.gram.sd > 0
    learner.criterion_ = float(
        run.gram.n_samples * np.log(share[live]).sum() + cost * learner.weights_.nnz
    )


def order_of(weights: sp.csc_array) -> NDArray[np.int64]:
    """Return an order of a graph: one that agrees with its arcs, or with most of their weight."""
    order = topological_order(weights)
    return greedy_order(weights) if order is None else order
