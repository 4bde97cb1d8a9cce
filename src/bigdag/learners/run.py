"""One fit under way: its data, its clock, its history, and the best acyclic graph so far.

What is offered to a run comes with its order, and only arcs that agree with the order are taken: no
method can answer with a cycle. Nor can it answer against what is known beforehand: arcs that are
not possible are left out here, and required ones are put in.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import scipy.sparse as sp

from bigdag.compiled import Stopwatch
from bigdag.engine import objective
from bigdag.engine.gram import Gram
from bigdag.engine.order import project
from bigdag.graph.acyclic import topological_order
from bigdag.interrupts import Interrupt
from bigdag.knowledge.known import limits_of
from bigdag.learners.journal import without_journal
from bigdag.notebook import NotebookBar, in_notebook

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.data.dataset import Dataset
    from bigdag.engine.limits import Precedence
    from bigdag.learners.base import Learner

__all__ = ["Run", "State", "Status", "stream"]

Status = Literal["converged", "max_iter", "time_limit", "interrupted", "diverged"]

_log = logging.getLogger("bigdag")


@dataclass(frozen=True)
class State:
    """What a callback sees after each iteration.

    Attributes
    ----------
    phase : str
        The part of the method that is under way.
    iteration : int
        Counted from 1 within the whole fit.
    seconds : float
        Time since the fit began, without that of compiling.
    objective : float
        Equation (1) of the present weights.
    arcs : int
        Their number.
    best_objective : float
        Equation (1) of the best acyclic graph so far.
    time_limit : float or None
        The limit of the fit in seconds.
    max_iter : int or None
        The limit of the fit in iterations.
    weights : callable
        Returns the present weights, as a ``csc_array``; they may hold cycles.
    best : callable
        Returns the best acyclic weights so far, as a ``csc_array``.
    """

    phase: str
    iteration: int
    seconds: float
    objective: float
    arcs: int
    best_objective: float
    time_limit: float | None
    max_iter: int | None
    weights: Callable[[], sp.csc_array]
    best: Callable[[], sp.csc_array]


class Run:
    """One fit under way: its data, its clock, its history and the best graph so far.

    Parameters
    ----------
    learner : Learner
        Whose parameters hold.
    data : Dataset
        The checked data.
    interrupt : Interrupt, optional
        What tells whether the fit has been asked to end.
    """

    def __init__(self, learner: Learner, data: Dataset, interrupt: Interrupt | None = None) -> None:
        self._watch = Stopwatch()
        self._interrupt = Interrupt() if interrupt is None else interrupt
        self.data = data
        self.lambda1 = learner._own_lambda1()
        self.max_iter: int | None = learner.max_iter
        self.time_limit: float | None = learner.time_limit
        self.status: Status = "converged"
        self.iteration = 0
        self.rng = stream(learner.random_state)
        self._callback = learner.callback
        self._verbose = bool(learner.verbose)
        self._bar = NotebookBar() if self._verbose and in_notebook() else None
        self._rows: list[tuple[str, int, float, float, int]] = []
        self._before = 0.0  # seconds of the same fit before it was ended and begun again
        self._last_log = -math.inf
        self.warm_start = learner._start_weights(data, learner.warm_start_dag)  # refused early
        self.limits = limits_of(learner.knowledge, data)
        if self.limits is not None and self.warm_start is not None:
            self.warm_start = self.limits.confined(self.warm_start)
        self.gram = Gram(
            data,
            memory_limit=learner.memory_limit,
            n_jobs=learner.n_jobs,
            hold=learner._hold(data.n_features, data.X is None),
            workspace=partial(learner._least_workspace, data.n_samples, data.n_features),
        )
        if data.temporary:  # its values are the rows of the Gram now
            self.data = replace(data, X=None)
            self.data.__dict__["constant"] = self.gram.sd == 0
        self._best: sp.csc_array | Callable[[], sp.csc_array]
        self._best = sp.csc_array((self.gram.d, self.gram.d))
        self.best_order = np.arange(self.gram.d)
        self.best_objective = 0.5 * float(self.gram.diag().sum())
        if self.limits is not None:
            self.answer_with(self._best, self.best_order)
        self._record("start", self.best_objective, self._best.nnz)
        if (
            self.warm_start is not None
            and (order := topological_order(self.warm_start)) is not None
        ):
            self.offer(self.warm_start, order)
            self._record("start", self.best_objective, self.warm_start.nnz)

    @property
    def seconds(self) -> float:
        """Time since the fit began, without that of compiling."""
        return self._watch.seconds

    def out_of_time(self) -> bool:
        """Tell whether the deadline has passed, or an end was asked for; if so set the status."""
        if self._interrupt.asked:
            self.status = "interrupted"
            return True
        if self.time_limit is not None and self.seconds >= self.time_limit:
            self.status = "time_limit"
            return True
        return False

    def share_is_over(self, share: float) -> bool:
        """Tell whether a share of the time limit is used up, or an end was asked for."""
        if self._interrupt.asked:
            return True
        return self.time_limit is not None and self.seconds >= share * self.time_limit

    @property
    def best_weights(self) -> sp.csc_array:
        """The best acyclic graph so far."""
        if callable(self._best):
            self._best = project(self._best(), self.best_order)
        return self._best

    @property
    def precedence(self) -> Precedence | None:
        """Who has to come before whom, where anything is known of it."""
        return None if self.limits is None else self.limits.precedence

    def possible(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return an order for a search to begin from: as it is, or as what is known has it."""
        return order if self.limits is None else self.limits.extended(order)

    def _known(
        self, weights: sp.csc_array | Callable[[], sp.csc_array], order: NDArray[np.int64]
    ) -> tuple[sp.csc_array, NDArray[np.int64]]:
        """Return the graph nearest to another that keeps what is known, and its order."""
        assert self.limits is not None
        order = self.limits.agreeing(order)
        possible = self.limits.kept(weights() if callable(weights) else weights, order)
        return self.limits.completed(self.gram, possible), order

    def offer(
        self,
        weights: sp.csc_array | Callable[[], sp.csc_array],
        order: NDArray[np.int64],
        value: float | None = None,
    ) -> bool:
        """Keep an acyclic graph if it is the best so far by equation (1); tell whether it is.

        Parameters
        ----------
        weights : csc_array or callable
            The graph; arcs against the order are left out. A function that returns it is only
            called when the weights are asked for; its arcs must agree with the order.
        order : ndarray of shape (d,)
            The variables, causes first.
        value : float, optional
            Equation (1) of the weights, where it is known.
        """
        if self.limits is not None:
            if value is not None and not value < self.best_objective:
                return False
            weights, order = self._known(weights, order)
            value = None
        elif not callable(weights):
            forward = project(weights, order)
            if forward.nnz < weights.nnz:
                value = None  # it was that of another graph
            weights = forward
        if value is None:
            weights = project(weights(), order) if callable(weights) else weights
            value = objective.value(self.gram, weights, self.lambda1)
        if not value < self.best_objective:
            return False
        self._best, self.best_order, self.best_objective = weights, order, value
        return True

    def answer_with(self, weights: sp.csc_array, order: NDArray[np.int64]) -> None:
        """Take the arcs that agree with an order as the answer, whatever their equation (1)."""
        if self.limits is None:
            self._best, self.best_order = project(weights, order), order
        else:
            self._best, self.best_order = self._known(weights, order)
        self.best_objective = objective.value(self.gram, self._best, self.lambda1)

    def step(
        self, phase: str, value: float, arcs: int, weights: Callable[[], sp.csc_array]
    ) -> bool:
        """Note the end of an iteration; return True when the fit has to stop, with the status set.

        Raises
        ------
        FloatingPointError
            If the value is no number: the fit has diverged.
        """
        self.iteration += 1
        self._record(phase, value, arcs)
        if not math.isfinite(value):
            raise FloatingPointError(f"equation (1) is {value} in phase {phase}")
        if self._callback is not None or self._bar is not None:
            state = State(
                phase, self.iteration, self.seconds, value, arcs, self.best_objective,
                self.time_limit, self.max_iter, weights, lambda: self.best_weights.copy(),
            )  # fmt: skip
            if self._bar is not None:
                self._bar(state)
            if self._callback is not None:
                with without_journal():  # a callback's own work is none of the fit
                    ended = self._callback(state)
                if ended:
                    self.status = "interrupted"
                    return True
        if self.out_of_time():
            return True
        if self.max_iter is not None and self.iteration >= self.max_iter:
            self.status = "max_iter"
            return True
        return False

    def story(self) -> bytes:
        """Return the history so far as text, for `restore`."""
        return json.dumps(self._rows).encode()

    def restore(self, story: bytes) -> None:
        """Go on from the history of a fit that was ended."""
        self._rows = [tuple(row) for row in json.loads(story)]
        _, self.iteration, before, *_ = self._rows[-1]
        self._before = before - self.seconds

    def close(self) -> None:
        """End what was shown of it, and let go of the table's second moments."""
        if self._bar is not None:
            self._bar.close(self.status)
        self.gram.close()
        self.gram.release()

    def _record(self, phase: str, value: float, arcs: int) -> None:
        self._rows.append((phase, self.iteration, self._before + self.seconds, value, arcs))
        if self._verbose and self.seconds - self._last_log >= 1.0:
            self._last_log = self.seconds
            _log.info(
                "%s, iteration %d: objective %.6g, %d arcs, %.1f s",
                phase, self.iteration, value, arcs, self.seconds,
            )  # fmt: skip

    def history(self) -> pd.DataFrame:
        """Return the table of iterations."""
        columns = ["phase", "iteration", "seconds", "objective", "arcs"]
        return pd.DataFrame(self._rows, columns=columns)


def stream(random_state: Any) -> np.random.Generator:
    """Return a learner's random numbers: never those that simulated data drew from the seed."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    return np.random.default_rng([int(random_state), 0x6C6561726E])  # "learn"
