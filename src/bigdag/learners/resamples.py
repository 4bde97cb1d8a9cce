"""Resamples wherever they run: in threads of this process, or on a cluster through joblib.

Resample k draws its random numbers from the k-th child of the seed, so that its answer depends
neither on where it is learnt nor on what runs beside it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from bigdag.compiled import Stopwatch
from bigdag.data.dataset import Dataset, Incomplete
from bigdag.errors import BigdagError
from bigdag.graph.consensus import Answer
from bigdag.interrupts import Interrupt
from bigdag.knowledge import limits_of
from bigdag.learners import checkpoint as files
from bigdag.learners.base import Learner
from bigdag.notebook import NotebookBar, in_notebook
from bigdag.resources import blas_threads
from bigdag.search import resampling

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.learners.bootstrap import BootstrapDAG

__all__ = ["BEFORE", "BootstrapState", "Collector", "Stop", "Work"]

_log = logging.getLogger("bigdag")
BEFORE = 0.2  # of the time limit, for a fit on all rows, and again for trials of random orders
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


class Stop:
    """Whether resamples under way should end; elsewhere, only the time limit is known."""

    def __init__(self, interrupt: Interrupt, limit: float | None, watch: Stopwatch) -> None:
        self._interrupt, self._limit, self._watch = interrupt, limit, watch
        self.asked = False  # by a callback, or because the work is given up
        self.late = False

    @property
    def status(self) -> str:
        """What ended the fit, where not all was done."""
        return "time_limit" if self.late and not self.asked else "interrupted"

    def __call__(self) -> bool:
        """Tell whether to end."""
        if self.asked or self._interrupt.asked:
            return True
        self.late = self._limit is not None and self._watch.seconds >= self._limit
        return self.late

    def early(self) -> bool:
        """Tell whether what comes before the resamples should end: a part of the time is theirs."""
        late = self._limit is not None and self._watch.seconds >= 2 * BEFORE * self._limit
        return late or self()

    def __getstate__(self) -> dict[str, Any]:
        left = None if self._limit is None else max(0.0, self._limit - self._watch.seconds)
        return {"left": left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(Interrupt(), state["left"], Stopwatch())  # type: ignore[misc]


class Work:
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

    def do(self, k: int, stop: Stop, first: bool) -> tuple[int, Answer | None]:
        """Learn from resample k; the first one is not stopped by the time limit."""
        rng = self._generator(k)
        asked = (lambda: stop.asked) if first else stop
        with blas_threads(1):
            if self._plan is not None:
                assert self._Z is not None
                return k, resampling.search_resample(self._Z, self._plan, rng, asked)
            return k, self._learn(rng, asked)

    def first(self, stop: Callable[[], bool]) -> dict[int, Answer]:
        """Search on the first few resamples; they tell how the others are searched."""
        if self._plan is None:
            return {}
        assert self._Z is not None
        with blas_threads(1):
            self._plan, answers = resampling.first_resamples(
                self._Z, self._plan, self._generator, stop, self.n_jobs
            )
        return {k: answer for k, answer in enumerate(answers) if answer is not None}

    def _generator(self, k: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(k,)))

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


def _do(work: Work, k: int, stop: Stop, first: bool) -> tuple[int, Answer | None]:
    return work.do(k, stop, first)


class Collector:
    """Sends resamples out and brings their answers back."""

    def __init__(
        self,
        owner: BootstrapDAG,
        about: dict[str, Any],
        answers: dict[int, Answer],
        watch: Stopwatch,
        stop: Stop,
        held: files.Held,
    ) -> None:
        self._held = held
        self._owner, self._about, self._answers = owner, about, answers
        self.bar = NotebookBar() if owner.verbose and in_notebook() else None
        self._watch, self._stop = watch, stop
        self._done_before = len(answers)
        self._written, self._next_file = len(answers), time.monotonic() + _FILE_SECONDS
        self._told = False  # that the checkpoint could not be written

    def missing(self) -> list[int]:
        """Return the numbers of the resamples that are not done."""
        return [k for k in range(self._owner.n_resamples) if k not in self._answers]

    def collect(self, work: Work) -> None:
        """Do what is missing, until it is done or to be stopped."""
        missing = set(self.missing())
        for k, answer in work.first(self._stop.early).items():
            if k in missing and not self._stop.asked:
                self._answers[k] = answer
                self._tell(answer)
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

    def _send(self, work: Work) -> None:
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
        """Write the checkpoint, if one is wanted and there is something new.

        Where that fails, no resample is lost: it is tried again with the next ones.
        """
        path = self._held.path
        if path is None or len(self._answers) == self._written:
            return
        try:
            self._held.write(self._about, self._answers)
        except (OSError, BigdagError) as error:
            if not self._told:
                _log.warning(
                    "the checkpoint %s cannot be written, and the work goes on: %s", path, error
                )
            self._told = True
        self._written, self._next_file = len(self._answers), time.monotonic() + _FILE_SECONDS


def _runs_here() -> bool:
    """Tell whether joblib would run resamples in threads of this process."""
    backend, _ = joblib.parallel.get_active_backend(prefer="threads")
    return bool(getattr(backend, "supports_sharedmem", False))


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
