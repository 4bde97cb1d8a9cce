"""BootstrapDAG: how sure each arc is, by learning again from resampled rows.

Each resample draws as many rows as there are, with replacement, and learns from them; a search by
the extended BIC also begins from an order of its own, drawn at random. How often an arc is found is
its frequency, from which its probability follows, and the answer is what the resamples agree on
(:mod:`bigdag.graph.consensus`).

Resample k draws its random numbers from the k-th child of the seed. So the answer does not depend
on how many run at once, and more of them can be added.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone

from bigdag.compiled import Stopwatch
from bigdag.data.dataset import Dataset, as_dataset
from bigdag.data.missing import memory_around
from bigdag.engine.gram import Gram
from bigdag.errors import DataError, ParameterError
from bigdag.graph.consensus import Answer
from bigdag.interrupts import Interrupt, interruptible
from bigdag.knowledge.known import limits_of
from bigdag.learners import checkpoint as files
from bigdag.learners.base import Learner
from bigdag.learners.order_search import OrderSearch
from bigdag.learners.parameters import Checked, Number
from bigdag.learners.resampled import EffectInterval, ResampledModel
from bigdag.learners.resamples import BEFORE, BootstrapState, Collector, Stop, Work
from bigdag.resources import blas_threads, n_threads, require_memory
from bigdag.search import resampling
from bigdag.search.ebic import arc_cost
from bigdag.writing import Output

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BootstrapDAG", "BootstrapState", "EffectInterval"]

_TOGETHER = 0.25  # of the memory left, that resamples side by side may take
_ALONE = 0.9  # ... that one alone may take
_HELD = 10_000  # variables whose correlations a resample holds; looks outside of the candidates
# read all of them, which beyond takes longer than the search, and what they find is little


class BootstrapDAG(ResampledModel, BaseEstimator):
    """Learn from many resamples of the rows, and say of each arc how sure it is.

    Parameters
    ----------
    estimator : learner or None, default=None
        What learns from each resample: any learner of the package, with one thread;
        ``OrderSearch(criterion="bic")`` by default, which is also the quickest here.
    n_resamples : int, default=100
        How many.
    threshold : float, default=0.5
        The least probability of a pair to be in the consensus, of `adjacency_prob_`.
    direction_threshold : float, default=0.6
        The least `direction_prob_` that one direction must have; below it the arc is undirected.
    random_starts : bool or "auto", default="auto"
        Whether each resample begins from a random order; only a search by the extended BIC can.
        "auto" does where the estimator's own start is "auto", it has no restarts and no threshold.
    feature_fraction : float, default=1.0
        The share of the pairs of variables, drawn at random, that each resample may join; needs
        random starts. Less than 1 may help where many variables nearly say the same.
    time_limit : float or None, default=None
        Seconds; what is done by then, at least one resample, is the answer.
    warm_start : bool, default=False
        Whether another `fit` on the same data keeps the resamples there are, and only adds what
        is missing to `n_resamples`.
    checkpoint : path or None, default=None
        A file that the resamples are written to under way; a fit that finds it goes on from it.
    random_state : int, Generator or None, default=None
        The seed. The same seed gives the same answer for any number of threads.
    callback : callable or None, default=None
        Called with a `BootstrapState` after each resample; True stops.
    n_jobs : int or None, default=None
        Resamples side by side; all cores by default. They run through joblib: within
        ``joblib.parallel_config("dask")`` on a cluster.
    memory_limit : float, str or None, default=None
        Bytes of the whole process, or text such as "4GB".
    verbose : bool, default=False
        Whether to log the progress; a notebook also shows a bar.

    Attributes
    ----------
    edge_freq_ : csc_array of shape (d, d)
        The share of the resamples with i → j at (i, j); where a resample leaves the direction
        open, half in each.
    adjacency_freq_ : csc_array of shape (d, d)
        The share that joins i and j; symmetric.
    adjacency_prob_ : csc_array of shape (d, d)
        How probable it is that i and j are joined in truth. Of a search by the extended BIC with
        at least 10 resamples it comes from `adjacency_freq_`, the more often the more probable:
        what is found as often by chance is accounted for (``bigdag.engine.local_fdr``). Of
        other learners it is the share itself.
    direction_prob_ : csc_array of shape (d, d)
        How probable i → j is where the two are joined, under the same conditions as
        `adjacency_prob_`: 1 where what is known leaves no other. Else, of the resamples that join
        them, the share with i → j.
    edge_prob_ : csc_array of shape (d, d)
        ``adjacency_prob_ * direction_prob_``: how probable i → j is, and what ranks arcs.
    dag_ : DAG
        The consensus. Its arcs have a "probability" (of this direction), an "adjacency" (of the
        pair), a "frequency" (of this direction), and "weight_mean" and "weight_se" over the
        resamples with the arc. Its weights are those of least squares on its arcs and all rows;
        undirected arcs are `reversible`.
    cpdag_ : csc_array of int8, shape (d, d)
        The same with undirected arcs stored both ways.
    weights_, order_, means_, noise_variances_
        As of other learners, of the consensus.
    weight_se_ : csc_array of shape (d, d)
        The standard deviations of the weights over the resamples, which are the standard errors of
        their means; zero, but stored, where a single resample has the arc.
    n_resamples_ : int
        The resamples done.
    resamples_ : list of csc_array
        Their weights.
    status_ : str
        One of converged (all are done), time_limit, interrupted.
    n_iter_ : int
        The resamples done, under the name that all learners have.
    seed_ : int
        From which the resamples draw.

    Examples
    --------
    >>> from bigdag import BootstrapDAG, metrics, simulate
    >>> truth = simulate.random_dag(30, 1, rng=0)
    >>> X = simulate.standardise(simulate.sample(truth, 500, rng=1))
    >>> model = BootstrapDAG(n_resamples=40, random_state=0).fit(X)
    >>> metrics.average_precision(model.edge_prob_, truth) > 0.9
    True
    >>> list(model.to_frame().columns)[:5]
    ['source', 'target', 'probability', 'adjacency', 'direction_prob']
    """

    _parameters: ClassVar[dict[str, Any]] = {
        "estimator": Checked("a learner of bigdag, or None", lambda e: _is_learner(e)),
        "n_resamples": Number(1, whole=True),
        "threshold": Number(0, 1),
        "direction_threshold": Number(0.5, 1),
        "random_starts": Checked(
            "True, False or 'auto'", lambda v: isinstance(v, bool) or (v == "auto")
        ),
        "feature_fraction": Number(0, 1, above=True),
        "warm_start": Checked("True or False", lambda v: isinstance(v, bool)),
        "checkpoint": Checked(
            "a path, or None", lambda v: v is None or isinstance(v, str | os.PathLike)
        ),
        **{
            name: Learner._parameters[name]
            for name in ("time_limit", "n_jobs", "memory_limit", "callback", "random_state")
        },
    }

    def __init__(
        self,
        estimator: Any = None,
        n_resamples: int = 100,
        *,
        threshold: float = 0.5,
        direction_threshold: float = 0.6,
        random_starts: bool | str = "auto",
        feature_fraction: float = 1.0,
        time_limit: float | None = None,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        callback: Callable[[BootstrapState], Any] | None = None,
        n_jobs: int | None = None,
        memory_limit: float | str | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.estimator = estimator
        self.n_resamples = n_resamples
        self.threshold = threshold
        self.direction_threshold = direction_threshold
        self.random_starts = random_starts
        self.feature_fraction = feature_fraction
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.callback = callback
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.verbose = verbose

    # -------------------------------------------------------------- the fit

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn from resamples of a table.

        Parameters
        ----------
        X : array, data frame or Dataset of shape (n_samples, n_features)
            As for any learner; a covariance matrix has no rows to draw, and is refused.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C, once the resamples done so far are in the fitted attributes, with the status
            "interrupted".
        """
        self._check_parameters()
        data = as_dataset(X, memory_limit=self.memory_limit, copies=2, n_jobs=self.n_jobs)
        if data.X is None and data.incomplete is None:
            raise DataError(
                "A bootstrap draws rows, and these data have none: they are a covariance matrix, "
                "or a table that was too large to be held. Fit the learner itself, or give it "
                "more memory."
            )
        before = self.__dict__.copy()
        try:
            self._note_columns(data.names if data.named else None, data.n_features)
            with interruptible() as interrupt:
                torn = self._resample(data, interrupt)
                if torn or interrupt.asked:
                    self.status_ = "interrupted"
        except BaseException:  # the fit succeeds whole, or leaves the estimator as it was
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        if torn or interrupt.asked:
            raise KeyboardInterrupt
        return self

    def _check_parameters(self) -> None:
        for name, allowed in self._parameters.items():
            given = getattr(self, name)
            if not allowed.allows(given):
                raise ParameterError(f"{name} must be {allowed}. Got {given!r:.200} instead.")
        learner = self._learner()
        learner._check_parameters()
        if self.random_starts is True and not _may_start_at_random(learner):
            raise ParameterError(
                "random_starts=True goes with OrderSearch(criterion='bic') with start='auto', and "
                "without restarts, threshold, max_iter, time_limit and warm_start_dag. Got "
                f"{learner!r:.200}."
            )
        if self.feature_fraction < 1 and not self._starts_at_random(learner):
            raise ParameterError(
                f"feature_fraction={self.feature_fraction} needs random starts, as of "
                "OrderSearch(criterion='bic'). Got another learner; leave it at 1."
            )

    def _learner(self) -> Learner:
        given = OrderSearch(criterion="bic") if self.estimator is None else self.estimator
        learner: Learner = clone(given)
        if isinstance(learner, OrderSearch):
            learner.set_params(checkpoint=None)  # resamples have a file of their own
        return learner

    def _starts_at_random(self, learner: Learner) -> bool:
        if isinstance(self.random_starts, str):
            return _may_start_at_random(learner)
        return self.random_starts

    def _resample(self, data: Dataset, interrupt: Interrupt) -> bool:
        """Do the resamples that are missing and set the learnt attributes; tell whether torn."""
        if self.checkpoint is not None:  # refused before the work, and not after it
            Output(self.checkpoint, force=True).reserve()
        with files.Held(self.checkpoint) as held:
            return self._resample_with(data, interrupt, held)

    def _resample_with(self, data: Dataset, interrupt: Interrupt, held: files.Held) -> bool:
        watch = Stopwatch()
        learner = self._learner()
        answers, seed, about = self._known(data, learner)
        held.begin(about)
        stop = Stop(interrupt, self.time_limit, watch)
        found = Collector(self, about, answers, watch, stop, held)
        torn = False
        if found.missing():
            work = self._work(data, learner, seed)
            try:
                with blas_threads(1):  # set once: to change it under way costs and waits
                    found.collect(work)
            except KeyboardInterrupt:
                if not answers:
                    raise
                torn = True
            finally:
                work.close()
        self._seed, self._about, self._answers = seed, about, answers
        self._finish(data, learner.knowledge, self._arc_cost(data, learner))
        self.status_ = "converged" if not found.missing() else stop.status
        if found.bar is not None:
            found.bar.close(self.status_)
        return torn

    def _known(
        self, data: Dataset, learner: Learner
    ) -> tuple[dict[int, Answer], int, dict[str, Any]]:
        """Return the resamples that there are already, the seed, and what all are of."""
        about: dict[str, Any] = {
            "table": files.digest_of(data),
            "n_variables": data.n_features,
            "learner": type(learner).__name__,
            **{f"learner.{k}": files.plain(v) for k, v in sorted(files.deciding(learner).items())},
            "random_starts": self._starts_at_random(learner),
            "feature_fraction": float(self.feature_fraction),
        }
        answers: dict[int, Answer] = {}
        seed = None
        if self.warm_start and hasattr(self, "_answers"):
            about["seed"] = seed = self._seed
            if not isinstance(self.random_state, np.random.Generator | None):
                about["seed"] = int(self.random_state)
            if (told := files.explain_difference(self._about, about)) is not None:
                raise ParameterError(
                    f"warm_start=True adds resamples to those of the fit before, and {told}. Fit a "
                    "new BootstrapDAG, or set warm_start=False."
                )
            answers.update(self._answers)
        if self.checkpoint is not None and os.path.exists(self.checkpoint):
            then, stored = files.read_resamples(self.checkpoint, data.n_features)
            if seed is None and not isinstance(self.random_state, np.random.Generator | None):
                seed = int(self.random_state)
            seed = int(then.get("seed", 0)) if seed is None else seed
            if (told := files.explain_difference(then, about | {"seed": seed})) is not None:
                raise ParameterError(
                    f"The checkpoint {os.fspath(self.checkpoint)} is of another bootstrap: {told}. "
                    "Give another name, or remove the file to begin anew."
                )
            answers.update(stored)
        if seed is None:
            seed = files.seed_of(self.random_state)
        about["seed"] = seed
        return answers, seed, about

    def _work(self, data: Dataset, learner: Learner, seed: int) -> Work:
        """Return what all resamples need."""
        n, d = data.n_samples, data.n_features
        jobs = min(n_threads(self.n_jobs), self.n_resamples)
        self._choose_penalty(data, learner)
        if not self._starts_at_random(learner):
            return Work(seed, jobs, data=data, learner=learner)
        hold, workspace = True, resampling.resample_memory(n, d, True)
        if data.incomplete is not None:
            workspace += memory_around(*data.incomplete.X.shape)
        gram = Gram(data, memory_limit=self.memory_limit, n_jobs=self.n_jobs, hold=False)
        try:
            left = gram.left()
            if workspace > _ALONE * left or d > _HELD:
                if data.incomplete is None:  # else there is a matrix of correlations in any case
                    hold, workspace = False, resampling.resample_memory(n, d, False)
                require_memory(workspace, "One resample", "Use fewer variables", self.memory_limit)
            jobs = max(1, min(jobs, int(_TOGETHER * left / workspace)))
            cost = self._arc_cost(data, learner)
            assert cost is not None
            search = partial(self._of_all_rows, learner, data)
            plan = resampling.plan(
                gram, cost, self.feature_fraction, hold, search, limits_of(learner.knowledge, data)
            )
        finally:
            gram.close()
        table = data.incomplete if gram.Z is None else gram.Z
        assert table is not None
        return Work(seed, jobs, Z=table, plan=plan)

    def _choose_penalty(self, data: Dataset, learner: Learner) -> None:
        """Give the learner the penalty that it chooses on all rows, where it is to choose one.

        Rows that were drawn twice must not be held out of themselves.
        """
        if isinstance(getattr(learner, "penalty", None), str):
            chosen = clone(learner).set_params(n_jobs=self.n_jobs, memory_limit=self.memory_limit)
            learner.set_params(penalty=chosen.fit(data).penalty_)

    def _arc_cost(self, data: Dataset, learner: Learner) -> float | None:
        """Return what an arc costs in the extended BIC, or None where that is not the criterion."""
        if not (isinstance(learner, OrderSearch) and learner.criterion == "bic"):
            return None
        self._choose_penalty(data, learner)
        return arc_cost(data.n_samples, data.n_features, learner.gamma, float(learner.penalty))

    def _of_all_rows(
        self, learner: Learner, data: Dataset
    ) -> tuple[sp.csc_array, NDArray[np.int64]]:
        """Return the arcs that the learner finds in all rows, and their order."""
        whole = clone(learner).set_params(
            n_jobs=self.n_jobs, memory_limit=self.memory_limit,
            time_limit=None if self.time_limit is None else BEFORE * self.time_limit,
        )  # fmt: skip
        try:
            whole.fit(data)
        except KeyboardInterrupt:  # one resample is still done, so that there is an answer
            if not hasattr(whole, "weights_"):
                raise
        return whole.weights_, np.array(whole.order_, dtype=np.int64)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that sparse matrices are taken; inside they are dense."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


# ------------------------------------------------------------------ small parts


def _is_learner(value: Any) -> bool:
    return value is None or isinstance(value, Learner)


def _may_start_at_random(learner: Learner) -> bool:
    """Tell whether a resample may be searched from a random order, and is what was asked for."""
    return (
        type(learner) is OrderSearch
        and learner.criterion == "bic"
        and isinstance(learner.start, str)
        and learner.start == "auto"
        and learner.restarts == 0
        and all(
            getattr(learner, name) is None
            for name in (
                "threshold",
                "max_iter",
                "time_limit",
                "warm_start_dag",
                "callback",
            )
        )
    )
