"""An order read off the data, and one lasso on it: the baselines that keep the others honest.

None of them searches. Where such a method does as well as one that does, the data gave the order
away (:mod:`bigdag.evaluation.sortability`), or the search has found nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bigdag.engine import lasso, objective
from bigdag.graph.feedback_arc_set import greedy_order
from bigdag.learners.base import Learner
from bigdag.learners.parameters import Number, OneOf
from bigdag.learners.run import Run, State
from bigdag.search import start_orders as orders

__all__ = ["SortRegress"]


class SortRegress(Learner):
    """Sort the variables, then fit one lasso in which each may only have earlier ones as parents.

    Parameters
    ----------
    lambda1 : float, default=0.1
        The weight of the L1 norm in equation (1).
    order : str, default="least_variance"
        Where the order comes from. "least_variance": take next the variable with the least
        variance left given those taken (Chen, Drton & Wang 2019); "variance": by variance; "r2":
        by the share of the variance that all others explain; "random"; "lasso_mas": the lasso
        without acyclicity and one greedy maximum acyclic subgraph of it; "empty": no arcs at all.
        Causes come first, with the least variance or share. All but "r2", "random" and "empty"
        depend on the units.
    tol : float, default=1e-4
        The relative duality gap of the lasso.
    max_iter : int, optional
        Steps at the most; there is one, and for "lasso_mas" there are two.
    time_limit : float, optional
        Seconds at the most; columns that are not fitted by then keep their start.
    random_state : int or Generator, optional
        The seed of the random order.
    callback : callable, optional
        Called with a :class:`~bigdag.learners.run.State` after each step; True ends the fit.
    warm_start_dag : DAG or matrix of shape (d, d), optional
        Where the lasso begins; its order is not used.
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
        The answer.
    weights_ : csc_array of shape (d, d)
        Its weights, ``W[i, j]`` for the arc i → j.
    order_ : ndarray of shape (d,)
        The variables, causes first.
    objective_ : float
        Equation (1) of the answer.
    history_ : DataFrame
        One row a step: phase ("fit", "lasso" or "empty"), iteration, seconds, objective, arcs.
    status_ : str
        One of converged, max_iter, time_limit, interrupted, diverged.
    n_iter_ : int
        The number of steps.
    noise_variances_ : ndarray of shape (d,)
        What is left of each variance.

    Examples
    --------
    >>> from bigdag import SortRegress, metrics, simulate
    >>> truth = simulate.random_dag(30, 1, rng=0)
    >>> model = SortRegress(order="least_variance").fit(simulate.sample(truth, 1000, rng=1))
    >>> metrics.average_precision(model.dag_, truth) > 0.9
    True
    """

    _parameters: ClassVar[dict[str, Any]] = {
        **Learner._parameters,
        "order": OneOf("least_variance", "variance", "r2", "random", "lasso_mas", "empty"),
        "tol": Number(0, 1, above=True),
    }

    def __init__(
        self,
        lambda1: float = 0.1,
        *,
        order: str = "least_variance",
        tol: float = 1e-4,
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
        self.lambda1 = lambda1
        self.order = order
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.callback = callback
        self.warm_start_dag = warm_start_dag
        self.knowledge = knowledge
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.verbose = verbose

    def _workspace(self, n: int, d: int, hold: bool) -> int:
        if self.order == "empty":
            return 0
        least = self.order == "least_variance"
        beside = orders.least_variance_memory(n, d, hold) if least else 0
        return super()._workspace(n, d, hold) + beside

    def _learn(self, run: Run) -> None:
        gram = run.gram
        empty = sp.csc_array((gram.d, gram.d))
        if self.order == "empty":
            run.answer_with(empty, np.arange(gram.d))
            run.step("empty", run.best_objective, 0, lambda: empty)
            return
        start = empty if run.warm_start is None else run.warm_start
        start.sort_indices()  # so that the order of the variables in a file changes no rounding
        if self.order == "lasso_mas":
            free = lasso.solve(gram, run.lambda1, start=start, limits=run.limits,
                               tol=self.tol, stop=run.out_of_time)  # fmt: skip
            start = free.weights
            value = objective.value(gram, start, run.lambda1)
        order = run.possible(self._sorted(run, start))
        # From here on the answer is on this order, also where a given graph was better.
        run.answer_with(start, order)
        if self.order == "lasso_mas" and run.step("fit", value, start.nnz, lambda: free.weights):
            return
        fit = lasso.solve(
            gram,
            run.lambda1,
            order=order,
            start=start,
            limits=run.limits,
            tol=self.tol,
            stop=run.out_of_time,
        )
        run.answer_with(fit.weights, order)
        run.step("lasso", run.best_objective, fit.weights.nnz, lambda: fit.weights)

    def _sorted(self, run: Run, weights: sp.csc_array) -> NDArray[np.int64]:
        """Return the order, from the data or for "lasso_mas" from the weights."""
        if self.order == "least_variance":
            return orders.least_variance_order(run.gram)
        if self.order == "variance":
            return orders.variance_order(run.gram)
        if self.order == "r2":
            return orders.r2_order(run.gram)
        if self.order == "random":
            return orders.random_order(run.gram.d, run.rng)
        return greedy_order(weights, run.precedence)
