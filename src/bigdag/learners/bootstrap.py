"""BootstrapDAG: how sure each arc is, by learning again from resampled rows.

Each resample draws as many rows as there are, with replacement, and learns from them; a search by
the extended BIC also begins from an order of its own, drawn at random. How often an arc is found is
its probability, and the answer is what the resamples agree on (:mod:`bigdag.graph.consensus`).

Resample k draws its random numbers from the k-th child of the seed. So the answer does not depend
on how many run at once, and more of them can be added.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import joblib
import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from bigdag.compiled import Stopwatch
from bigdag.data.dataset import Dataset, Incomplete, as_dataset
from bigdag.data.missing import memory_around
from bigdag.engine.gram import Gram
from bigdag.errors import BigdagError, DataError, ParameterError
from bigdag.graph.consensus import Answer, Tally, agreement, entries_at, tally
from bigdag.graph.dag import DAG
from bigdag.interrupts import Interrupt, interruptible
from bigdag.knowledge.known import Knowledge, limits_of
from bigdag.learners import checkpoint as files
from bigdag.learners.base import Learner, marked
from bigdag.learners.fitted import FittedModel, as_seen_by_sklearn
from bigdag.learners.order_search import OrderSearch
from bigdag.learners.parameters import Checked, Number
from bigdag.model.linear import LinearModel, residual_variances
from bigdag.notebook import NotebookBar, in_notebook
from bigdag.resources import blas_threads, n_threads, require_memory
from bigdag.search import resampling
from bigdag.search.ebic import arc_cost

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["BootstrapDAG", "BootstrapState", "EffectInterval"]

_log = logging.getLogger("bigdag")
_TOGETHER = 0.25  # of the memory left, that resamples side by side may take
_ALONE = 0.9  # ... that one alone may take
_BEFORE = 0.2  # of the time limit, for a fit on all rows, and again for trials of random orders
_TRIES = 3  # after which resamples that a cluster loses are given up
_FILES = 20  # checkpoints in the course of a bootstrap, at least
_FILE_SECONDS = 10.0  # between two of them, at the most


@dataclass(frozen=True)
class BootstrapState:
    """What a callback sees after each resample.

    Attributes
    ----------
    phase : str
        "resample".
    iteration : int
        The resamples done.
    max_iter : int
        The resamples wanted.
    arcs : int
        Of the last one.
    seconds : float
        Time since the fit began, without that of compiling.
    seconds_left : float or None
        About the time until all are done.
    time_limit : float or None
        The limit of the fit in seconds.
    """

    phase: str
    iteration: int
    max_iter: int
    arcs: int
    seconds: float
    seconds_left: float | None
    time_limit: float | None


class EffectInterval(NamedTuple):
    """A total effect over the resamples.

    Attributes
    ----------
    mean : float
        Over all resamples, those without an effect included.
    low, high : float
        The quantiles between which the given share of the resamples lies.
    probability : float
        The share of the resamples with an effect.
    """

    mean: float
    low: float
    high: float
    probability: float


class BootstrapDAG(FittedModel, BaseEstimator):
    """Learn from many resamples of the rows, and say of each arc how sure it is.

    Parameters
    ----------
    estimator : learner or None, default=None
        What learns from each resample: any learner of the package, with one thread;
        ``OrderSearch(criterion="bic")`` by default, which is also the quickest here.
    n_resamples : int, default=100
        How many.
    threshold : float, default=0.5
        The least probability of a pair to be in the consensus, both directions together.
    direction_threshold : float, default=0.6
        The least share of a pair's probability that one direction must have; below it the arc is
        undirected.
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
    edge_prob_ : csc_array of shape (d, d)
        The share of the resamples with i → j at (i, j); where a resample leaves the direction
        open, half in each.
    adjacency_prob_ : csc_array of shape (d, d)
        The share that joins i and j; symmetric.
    direction_prob_ : csc_array of shape (d, d)
        The share of these with i → j: ``edge_prob_ / adjacency_prob_``.
    dag_ : DAG
        The consensus. Its arcs have a "probability" (of this direction), an "adjacency" (of the
        pair) and a "weight_se", its weights are the means over the resamples with the arc, and
        undirected arcs are `reversible`.
    cpdag_ : csc_array of int8, shape (d, d)
        The same with undirected arcs stored both ways.
    weights_, order_, means_, noise_variances_
        As of other learners, of the consensus.
    weight_se_ : csc_array of shape (d, d)
        The standard deviations of the weights over the resamples, which are the standard errors of
        the weights; zero, but stored, where a single resample has the arc.
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
            validate_data(
                self,
                as_seen_by_sklearn(data.names if data.named else None, data.n_features),
                skip_check_array=True,
            )
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
        return learner

    def _starts_at_random(self, learner: Learner) -> bool:
        if isinstance(self.random_starts, str):
            return _may_start_at_random(learner)
        return self.random_starts

    def _resample(self, data: Dataset, interrupt: Interrupt) -> bool:
        """Do the resamples that are missing and set the learnt attributes; tell whether torn."""
        watch = Stopwatch()
        learner = self._learner()
        answers, seed, about = self._known(data, learner)
        stop = _Stop(interrupt, self.time_limit, watch)
        found = _Collector(self, about, answers, watch, stop)
        torn = False
        if found.missing():
            work = self._work(data, learner, seed, stop)
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
        self._finish(data)
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
            **{f"learner.{k}": _plain(v) for k, v in sorted(_deciding(learner).items())},
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
            seed = _seed_of(self.random_state)
        about["seed"] = seed
        return answers, seed, about

    def _work(self, data: Dataset, learner: Learner, seed: int, stop: _Stop) -> _Work:
        """Return what all resamples need."""
        n, d = data.n_samples, data.n_features
        jobs = min(n_threads(self.n_jobs), self.n_resamples)
        if isinstance(getattr(learner, "penalty", None), str):
            # Rows that were drawn twice must not be held out of themselves: chosen once, on all.
            chosen = clone(learner).set_params(n_jobs=self.n_jobs, memory_limit=self.memory_limit)
            learner.set_params(penalty=chosen.fit(data).penalty_)
        if not self._starts_at_random(learner):
            return _Work(seed, jobs, data=data, learner=learner)
        hold, workspace = True, resampling.resample_memory(n, d, True)
        if data.incomplete is not None:
            workspace += memory_around(*data.incomplete.X.shape)
        gram = Gram(data, memory_limit=self.memory_limit, n_jobs=self.n_jobs, hold=False)
        try:
            left = gram.left()
            if workspace > _ALONE * left:
                if data.incomplete is None:  # else there is a matrix of correlations in any case
                    hold, workspace = False, resampling.resample_memory(n, d, False)
                require_memory(workspace, "One resample", "Use fewer variables", self.memory_limit)
            jobs = max(1, min(jobs, int(_TOGETHER * left / workspace)))
            cost = arc_cost(n, d, learner.gamma, learner.penalty)
            search = partial(self._of_all_rows, learner, data)
            plan = resampling.plan(
                gram, cost, self.feature_fraction, hold, search, limits_of(learner.knowledge, data)
            )
        finally:
            gram.close()
        table = data.incomplete if gram.Z is None else gram.Z
        assert table is not None
        with blas_threads(1):
            plan = resampling.without_needless_start(table, plan, seed, stop.early)
        return _Work(seed, jobs, Z=table, plan=plan)

    def _of_all_rows(
        self, learner: Learner, data: Dataset
    ) -> tuple[sp.csc_array, NDArray[np.int64]]:
        """Return the arcs that the learner finds in all rows, and their order."""
        whole = clone(learner).set_params(
            n_jobs=self.n_jobs, memory_limit=self.memory_limit,
            time_limit=None if self.time_limit is None else _BEFORE * self.time_limit,
        )  # fmt: skip
        try:
            whole.fit(data)
        except KeyboardInterrupt:  # one resample is still done, so that there is an answer
            if not hasattr(whole, "weights_"):
                raise
        return whole.weights_, np.array(whole.order_, dtype=np.int64)

    # -------------------------------------------------------------- the consensus

    def _finish(self, data: Dataset) -> None:
        """Set the learnt attributes from the resamples."""
        numbers = sorted(self._answers)
        answers = [self._answers[k] for k in numbers]
        self.resamples_ = [answer.weights for answer in answers]
        self.n_resamples_ = self.n_iter_ = len(answers)
        self.seed_ = self._seed
        self._tally = tally(answers, data.n_features)
        self.edge_prob_ = self._tally.probability
        self.adjacency_prob_ = sp.csc_array(self.edge_prob_ + self.edge_prob_.T)
        self.direction_prob_ = self.edge_prob_.copy()
        self.direction_prob_.data = self.edge_prob_.data / _entries(
            self.adjacency_prob_, self.edge_prob_
        )
        self.weight_se_ = self._tally.deviation
        self.means_ = data.mean
        self._variances = _variances(data)
        self._names = data.names if data.named else None
        knowledge = self._learner().knowledge
        self._limits = limits_of(knowledge, data)
        dag = self._consensus(self.threshold, self.direction_threshold)
        self.noise_variances_ = residual_variances(data, dag.weights)
        dag = dag.annotated(
            node_data={"mean": self.means_, "noise_variance": self.noise_variances_},
            about=data.about,
        )
        self.dag_ = marked(dag, self._limits, knowledge)
        self.weights_, self.order_ = self.dag_.weights, self.dag_.order
        loose = self.dag_.reversible
        assert loose is not None
        arcs = self.weights_.astype(bool).astype(np.int8)
        self.cpdag_ = sp.csc_array(arcs + loose.T.astype(np.int8))

    def _consensus(self, threshold: float, direction_threshold: float) -> DAG:
        found = agreement(
            self.edge_prob_, threshold, direction_threshold, self._tally.count, self._limits
        )
        d = self.edge_prob_.shape[0]
        ends = found.source, found.target

        def matrix(values: NDArray[Any]) -> sp.csc_array:
            return sp.csc_array((values, ends), shape=(d, d))

        weight, error = self._weights_of(self._tally, *ends)
        return DAG(
            matrix(weight),
            self._names,
            found.order,
            matrix(found.undirected),
            arc_data={
                "probability": entries_at(self.edge_prob_, *ends),
                "adjacency": entries_at(self.adjacency_prob_, *ends),
                "weight_se": error,
            },
        )

    def _weights_of(
        self, counted: Tally, source: NDArray[np.int64], target: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean weights of arcs and their standard errors (m,).

        Where no resample has an arc this way round, its weight is that of the other way with the
        same covariance.
        """
        weight, error = (
            entries_at(part, source, target) for part in (counted.mean, counted.deviation)
        )
        unseen = entries_at(counted.count, source, target) == 0
        if unseen.any():
            i, j = source[unseen], target[unseen]
            varies = self._variances[i] > 0
            factor = np.divide(
                self._variances[j], self._variances[i], out=np.zeros(len(i)), where=varies
            )
            weight[unseen] = entries_at(counted.mean, j, i) * factor
            error[unseen] = entries_at(counted.deviation, j, i) * factor
        weight[weight == 0] = np.finfo(float).tiny  # an arc whose weights cancel stays one
        return weight, error

    # -------------------------------------------------------------- what a user asks

    def get_consensus_graph(
        self, threshold: float = 0.5, direction_threshold: float | None = None
    ) -> DAG:
        """Return what the resamples agree on, for another threshold than that of the fit.

        Parameters
        ----------
        threshold : float, default=0.5
            The least probability of a pair, both directions together.
        direction_threshold : float, optional
            As of the class; its own by default.

        Returns
        -------
        DAG
            With the data of arcs that `dag_` has. Its noise variances are not known:
            ``LinearModel.from_data(dag, X)`` finds them.
        """
        check_is_fitted(self)
        direction = self.direction_threshold if direction_threshold is None else direction_threshold
        for name, value in (("threshold", threshold), ("direction_threshold", direction)):
            if not self._parameters[name].allows(value):
                raise ParameterError(
                    f"{name} must be {self._parameters[name]}. Got {value!r} instead."
                )
        return self._consensus(threshold, direction).annotated(node_data={"mean": self.means_})

    def to_frame(self, min_prob: float = 0.0) -> pd.DataFrame:
        """Return every arc that some resample has, the most probable first.

        Parameters
        ----------
        min_prob : float, default=0.0
            The least probability of the pair, both directions together.

        Returns
        -------
        DataFrame
            source, target, probability (of this direction), adjacency (of the pair),
            direction_prob, count (of the resamples' DAGs with the arc), and the mean of its
            weights and their standard deviation over these; NaN where there are too few.
        """
        import pandas as pd

        check_is_fitted(self)
        arcs = self.edge_prob_.tocoo()
        ends = arcs.row.astype(np.int64), arcs.col.astype(np.int64)
        counts = entries_at(self._tally.count, *ends)
        names = np.array(self.dag_.names, dtype=object)
        table = pd.DataFrame({
            "source": names[ends[0]],
            "target": names[ends[1]],
            "probability": arcs.data,
            "adjacency": entries_at(self.adjacency_prob_, *ends),
            "direction_prob": entries_at(self.direction_prob_, *ends),
            "count": counts.astype(np.int64),
            "weight": np.where(counts > 0, entries_at(self._tally.mean, *ends), np.nan),
            "weight_se": np.where(counts > 1, entries_at(self._tally.deviation, *ends), np.nan),
        })  # fmt: skip
        sequence = np.lexsort((ends[1], ends[0], -table["adjacency"], -table["probability"]))
        table = table.iloc[sequence]
        kept = table[table["adjacency"] >= min_prob - 1e-12]
        return kept.reset_index(drop=True)

    def get_causal_direction_counts(
        self,
        n_directions: int | None = None,
        min_causal_effect: float | None = None,
        split_by_causal_effect_sign: bool = False,
    ) -> dict[str, list[int]]:
        """Return how many of the resamples' DAGs have each arc, as lingam's bootstrap does.

        Parameters
        ----------
        n_directions : int, optional
            Only so many, the most frequent ones.
        min_causal_effect : float, optional
            Only weights that are larger, in absolute value, are counted.
        split_by_causal_effect_sign : bool, default=False
            Whether to count positive and negative weights apart.

        Returns
        -------
        dict
            Lists "from", "to" (indices of variables) and "count", and "sign" where split; the most
            frequent first.

        Examples
        --------
        >>> from bigdag import BootstrapDAG
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> X[:, 1] += 2 * X[:, 0]
        >>> model = BootstrapDAG(n_resamples=8, random_state=0).fit(X)
        >>> sum(model.get_causal_direction_counts()["count"])
        8
        """
        check_is_fitted(self)
        if not Number(1, whole=True, none=True).allows(n_directions):
            raise ParameterError(
                f"n_directions must be an integer >= 1, or None. Got {n_directions!r} instead."
            )
        if not Number(0, none=True).allows(min_causal_effect):
            raise ParameterError(
                f"min_causal_effect must be a number >= 0, or None. Got {min_causal_effect!r}."
            )
        least = 0.0 if min_causal_effect is None else min_causal_effect
        d = self.edge_prob_.shape[0]
        codes = []
        for weights in self.resamples_:
            arcs = weights.tocoo()
            large = np.abs(arcs.data) > least
            sign = (arcs.data > 0).astype(np.int64) if split_by_causal_effect_sign else 0
            codes.append((2 * (arcs.row.astype(np.int64) * d + arcs.col) + sign)[large])
        found, counts = np.unique(np.concatenate(codes), return_counts=True)
        sequence = np.argsort(-counts, kind="stable")[:n_directions]
        places, signs = np.divmod(found[sequence], 2)
        result = {
            "from": (places // d).tolist(),
            "to": (places % d).tolist(),
            "count": counts[sequence].tolist(),
        }
        if split_by_causal_effect_sign:
            result["sign"] = np.where(signs > 0, 1, -1).tolist()
        return result

    def total_effect_interval(
        self, cause: str | int, effect: str | int, level: float = 0.9
    ) -> EffectInterval:
        """Return the total effect of one variable on another over the resamples.

        Where a resample leaves a direction open, its DAG has one of the two, as its random start
        happened to find it; the interval is that wide, too.

        Parameters
        ----------
        cause, effect : str or int
            Names or indices.
        level : float, default=0.9
            The share of the resamples between the two ends.

        Examples
        --------
        >>> from bigdag import BootstrapDAG, OrderSearch
        >>> X = np.random.default_rng(0).normal(size=(500, 2))
        >>> X[:, 1] += 2 * X[:, 0]
        >>> model = BootstrapDAG(OrderSearch(), n_resamples=20, random_state=0).fit(X)
        >>> found = model.total_effect_interval(0, 1)
        >>> 1.7 < found.low < found.mean < found.high < 2.1
        True
        """
        target = self.dag_._index(effect)
        values = self._totals(cause)[:, target]
        low, high = np.quantile(values, _ends(level))
        return EffectInterval(
            float(values.mean()), float(low), float(high), float(np.mean(values != 0))
        )

    def effect_intervals(self, cause: str | int, level: float = 0.9) -> pd.DataFrame:
        """Return the total effects of one variable on all that it affects in some resample.

        Parameters
        ----------
        cause : str or int
            Name or index.
        level : float, default=0.9
            As for :meth:`total_effect_interval`.

        Returns
        -------
        DataFrame
            effect, mean, low, high and probability, the most probable first.
        """
        import pandas as pd

        values = self._totals(cause)
        values[:, self.dag_._index(cause)] = 0.0
        some = np.flatnonzero(values.any(axis=0))
        values = values[:, some]
        low, high = np.quantile(values, _ends(level), axis=0)
        table = pd.DataFrame({
            "effect": np.array(self.dag_.names, dtype=object)[some],
            "mean": values.mean(axis=0), "low": low, "high": high,
            "probability": (values != 0).mean(axis=0),
        })  # fmt: skip
        sequence = np.lexsort((-table["mean"].abs(), -table["probability"]))
        return table.iloc[sequence].reset_index(drop=True)

    def _totals(self, cause: str | int) -> NDArray[np.float64]:
        """Return the total effects of a variable on all, by resample (n_resamples_, d)."""
        check_is_fitted(self)
        source = self.dag_._index(cause)
        return np.array([LinearModel(DAG(W))._totals(source) for W in self.resamples_])

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return the mean Gaussian log-likelihood of samples under the consensus."""
        return self._checked_model(X).score(X)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that sparse matrices are taken; inside they are dense."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


# ------------------------------------------------------------------ resamples, wherever they run


class _Stop:
    """Whether resamples under way should end; elsewhere, only the time limit is known."""

    def __init__(self, interrupt: Interrupt, limit: float | None, watch: Stopwatch) -> None:
        self._interrupt, self._limit, self._watch = interrupt, limit, watch
        self.asked = False  # by a callback, or because the work is given up
        self.late = False

    @property
    def status(self) -> str:
        return "time_limit" if self.late and not self.asked else "interrupted"

    def __call__(self) -> bool:
        if self.asked or self._interrupt.asked:
            return True
        self.late = self._limit is not None and self._watch.seconds >= self._limit
        return self.late

    def early(self) -> bool:
        """Tell whether what comes before the resamples should end: a part of the time is theirs."""
        late = self._limit is not None and self._watch.seconds >= 2 * _BEFORE * self._limit
        return late or self()

    def __getstate__(self) -> dict[str, Any]:
        left = None if self._limit is None else max(0.0, self._limit - self._watch.seconds)
        return {"left": left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(Interrupt(), state["left"], Stopwatch())  # type: ignore[misc]


class _Work:
    """What every resample needs; sent once to each process that does some.

    Either `Z` and `plan` of a search by the extended BIC, or the data and a learner.
    """

    def __init__(
        self,
        seed: int,
        n_jobs: int,
        *,
        Z: NDArray[np.float64] | Incomplete | None = None,
        plan: resampling.Plan | None = None,
        data: Dataset | None = None,
        learner: Learner | None = None,
    ) -> None:
        self.seed, self.n_jobs = seed, n_jobs
        self._Z, self._plan, self._data, self._learner = Z, plan, data, learner

    def __sizeof__(self) -> int:
        """Return the bytes of the table: Dask sends what is large once, and not with each task."""
        table: Any = self._Z
        if self._data is not None:
            table = self._data.incomplete if self._data.X is None else self._data.X
        table = table.X if isinstance(table, Incomplete) else table
        return int(table.nbytes) + object.__sizeof__(self)

    def close(self) -> None:
        """Let go of the table."""
        self._Z = self._data = None

    def do(self, k: int, stop: _Stop, first: bool) -> tuple[int, Answer | None]:
        """Learn from resample k; the first one is not stopped by the time limit."""
        seed = np.random.SeedSequence(self.seed, spawn_key=(k,))
        rng = np.random.default_rng(seed)
        asked = (lambda: stop.asked) if first else stop
        with blas_threads(1):
            if self._plan is not None:
                assert self._Z is not None
                return k, resampling.search_resample(self._Z, self._plan, rng, asked)
            return k, self._learn(rng, asked)

    def _learn(self, rng: np.random.Generator, stop: Callable[[], bool]) -> Answer | None:
        data, learner = self._data, clone(self._learner)
        assert data is not None
        assert learner is not None
        n = data.n_samples if data.incomplete is None else len(data.incomplete.X)
        counts = resampling.bootstrap_counts(rng, n)
        own, stopped = getattr(learner, "callback", None), []

        def callback(state: Any) -> Any:
            if stop():
                stopped.append(True)
                return True
            return own is not None and own(state)

        given = {"n_jobs": 1, "callback": callback, "random_state": int(rng.integers(2**31))}
        learner.set_params(**{k: v for k, v in given.items() if k in learner.get_params()})
        drawn = _drawn(data, counts)
        limits = limits_of(learner.knowledge, data)
        if limits is not None and drawn.constant[limits.cause].all():
            nothing = sp.csc_array((data.n_features, data.n_features))
            return Answer(nothing, np.zeros(0, dtype=bool))  # no possible cause changes in it
        learner.fit(drawn)
        if stopped:
            return None
        dag = learner.dag_
        flags = dag._arcs().reversible
        return Answer(dag.weights, np.zeros(dag.n_arcs, dtype=bool) if flags is None else flags)


def _do(work: _Work, k: int, stop: _Stop, first: bool) -> tuple[int, Answer | None]:
    return work.do(k, stop, first)


class _Collector:
    """Sends resamples out and brings their answers back."""

    def __init__(
        self,
        owner: BootstrapDAG,
        about: dict[str, Any],
        answers: dict[int, Answer],
        watch: Stopwatch,
        stop: _Stop,
    ) -> None:
        self._owner, self._about, self._answers = owner, about, answers
        self.bar = NotebookBar() if owner.verbose and in_notebook() else None
        self._watch, self._stop = watch, stop
        self._done_before = len(answers)
        self._written, self._next_file = len(answers), time.monotonic() + _FILE_SECONDS

    def missing(self) -> list[int]:
        """Return the numbers of the resamples that are not done."""
        return [k for k in range(self._owner.n_resamples) if k not in self._answers]

    def collect(self, work: _Work) -> None:
        """Do what is missing, until it is done or to be stopped."""
        trouble: Exception | None = None
        try:
            for _ in range(_TRIES):
                if not self.missing() or (self._answers and self._stop()):
                    break
                try:
                    self._send(work)
                    trouble = None
                except (KeyboardInterrupt, BigdagError, MemoryError):
                    raise
                except Exception as error:  # a worker, and with it the table, was lost
                    if _runs_here():
                        raise
                    _log.warning("resamples were lost, and are done again: %s", error)
                    trouble, self._stop.asked = error, False
        finally:
            self._stop.asked |= bool(self.missing()) and not self._stop.late
            self._keep()
        if trouble is not None:
            raise BigdagError(
                f"The cluster lost resamples {_TRIES} times: {trouble!s:.200}. Those that were "
                "done are kept where there is a checkpoint."
            ) from trouble

    def _send(self, work: _Work) -> None:
        wanted = self.missing()
        jobs = work.n_jobs if _runs_here() else -1
        if jobs == 1 or len(wanted) == 1:
            results: Iterator[tuple[int, Answer | None]] = (
                _do(work, k, self._stop, not self._answers) for k in self._until_stopped(wanted)
            )
        else:
            parallel = joblib.Parallel(
                n_jobs=jobs, prefer="threads", return_as="generator_unordered", batch_size=1,
                pre_dispatch="2*n_jobs",
            )  # fmt: skip
            none = not self._answers
            results = parallel(
                joblib.delayed(_do)(work, k, self._stop, none and k == wanted[0])
                for k in self._until_stopped(wanted)
            )
        try:
            for k, answer in results:
                if answer is not None:
                    self._answers[k] = answer
                    self._tell(answer)
        except BaseException:
            self._stop.asked = True  # those under way need not be finished
            raise

    def _until_stopped(self, wanted: list[int]) -> Iterator[int]:
        for place, k in enumerate(wanted):
            if (place or self._answers) and self._stop():
                return
            yield k

    def _tell(self, answer: Answer) -> None:
        done, wanted = len(self._answers), self._owner.n_resamples
        seconds, new = self._watch.seconds, done - self._done_before
        left = seconds / new * (wanted - done) if new else None
        if self._owner.verbose:
            _log.info("resample %d of %d, about %.0f s left", done, wanted, left or math.nan)
        each = max(1, wanted // _FILES)
        if done - self._written >= each or time.monotonic() >= self._next_file:
            self._keep()
        state = BootstrapState(
            "resample", done, wanted, answer.weights.nnz, seconds, left, self._owner.time_limit
        )
        if self.bar is not None:
            self.bar(state)
        if self._owner.callback is not None and self._owner.callback(state):
            self._stop.asked = True

    def _keep(self) -> None:
        """Write the checkpoint, if one is wanted and there is something new."""
        path = self._owner.checkpoint
        if path is None or len(self._answers) == self._written:
            return
        files.write_resamples(path, self._about, self._answers)
        self._written, self._next_file = len(self._answers), time.monotonic() + _FILE_SECONDS


def _runs_here() -> bool:
    """Tell whether joblib would run resamples in threads of this process."""
    backend, _ = joblib.parallel.get_active_backend(prefer="threads")
    return bool(getattr(backend, "supports_sharedmem", False))


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


def _deciding(learner: Learner) -> dict[str, Any]:
    """Return the parameters that change what a learner finds."""
    beside = {"n_jobs", "memory_limit", "callback", "verbose", "random_state"}
    return {k: v for k, v in learner.get_params(deep=False).items() if k not in beside}


def _plain(value: Any) -> Any:
    """Return a parameter as JSON would give it back; of what is long, a digest of all of it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | int | float | bool | None):
        return value
    whole = value.to_dict() if isinstance(value, Knowledge) else value
    return f"{value!r:.100} ({joblib.hash(whole)[:16]})"


def _seed_of(random_state: Any) -> int:
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if random_state is None:
        return int(np.random.SeedSequence().entropy) % 2**63  # type: ignore[arg-type]
    return int(random_state)


def _variances(data: Dataset) -> NDArray[np.float64]:
    """Return the variance of each variable (d,)."""
    if data.X is not None:
        return np.asarray(np.einsum("ij,ij->j", data.X, data.X) / data.n_samples)
    assert data.covariance is not None
    return np.diagonal(data.covariance)


def _drawn(data: Dataset, counts: NDArray[np.int64]) -> Dataset:
    """Return the table of the rows drawn, centred; a column that does not change in it is zero."""
    if data.X is None:
        assert data.incomplete is not None
        found = resampling.drawn_moments(data.incomplete, counts)
        S = found.covariance
        S.flags.writeable = False
        return Dataset(None, data.names, data.named, found.mean, data.n_samples, S)
    X = np.asfortranarray(data.X[np.repeat(np.arange(len(counts)), counts)])
    constant = X.max(axis=0) == X.min(axis=0)
    mean = X.mean(axis=0)
    X -= mean
    X[:, constant] = 0.0
    X.flags.writeable = False
    return Dataset(X, data.names, data.named, data.mean + mean, data.n_samples)


def _ends(level: float) -> list[float]:
    if not Number(0, 1, above=True).allows(level):
        raise ParameterError(f"level must be a number > 0 and <= 1. Got {level!r} instead.")
    return [(1 - level) / 2, (1 + level) / 2]


def _entries(matrix: sp.csc_array, like: sp.csc_array) -> NDArray[np.float64]:
    """Return the entries of a matrix where another one has them."""
    arcs = like.tocoo()
    return entries_at(matrix, arcs.row, arcs.col)
