"""The penalty of OrderSearch, chosen by rows that the search does not see.

A fifth of the rows is held out. On the others the extended BIC is lowered with one factor of its
penalty after the other, from few arcs to many. The factor whose graph gives the rows held out the
largest likelihood is the answer.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from bigdag.data.dataset import as_dataset
from bigdag.engine.gram import Gram
from bigdag.engine.objective import log_likelihood, losses, noise_variances
from bigdag.errors import DataWarning, ParameterError
from bigdag.search.bic import InsertionSearch
from bigdag.search.ebic import arc_cost

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.data.dataset import Dataset
    from bigdag.learners.run import Run

__all__ = ["PenaltyPath", "require_rows"]

_FACTORS = 8.0 * 2.0 ** (-0.5 * np.arange(12))  # 8, 5.7, 4, ... 0.18
_FALLS = 3  # steps without a larger likelihood that end the path
_SAMPLES = 10  # below, no row can be spared


def require_rows(data: Dataset) -> None:
    """Refuse data of which no rows can be held out."""
    if data.X is None:
        raise ParameterError(
            "penalty='auto' holds rows out, and a covariance matrix has none. Give the samples, "
            "or a number for the penalty, such as 1."
        )


class PenaltyPath:
    """The choice of the penalty of a run.

    Parameters
    ----------
    run : Run
        Its steps are called "penalty"; each one's graph is its answer so far.
    gamma : float or "auto"
        As of OrderSearch.
    starts : list of ndarray
        Orders to begin from.

    Attributes
    ----------
    best : float
        The factor chosen so far; 1 at first, and where there are fewer than ten rows.
    """

    def __init__(self, run: Run, gamma: float | str, starts: list[NDArray[np.int64]]) -> None:
        require_rows(run.data)
        self.run, self.gamma, self.starts = run, gamma, starts
        self.best = 1.0

    def work(self) -> bool:
        """Go along the path; tell whether there is time to go on with what was chosen."""
        run, X = self.run, self.run.data.X
        assert X is not None
        n, d = X.shape
        if n < _SAMPLES:
            return True
        shuffled = np.random.default_rng(0).permutation(n)  # the same rows for every seed
        held, kept = shuffled[: n // 5], np.sort(shuffled[n // 5 :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # the fit has told of constant columns
            part = as_dataset(X[kept])
        unseen = X[held] - part.mean
        twice = run.gram.C is not None and 8 * d * d <= 0.8 * run.gram.left()
        gram = Gram(part, memory_limit=run.gram.limit, n_jobs=run.gram.n_jobs, hold=twice)
        try:
            return self._descend(gram, unseen)
        finally:
            gram.close()

    def _descend(self, gram: Gram, unseen: NDArray[np.float64]) -> bool:
        run = self.run
        most, arcs, falls = -np.inf, -1, 0
        answer = None
        for factor in _FACTORS:
            cost = arc_cost(gram.n_samples, gram.d, self.gamma, float(factor))
            search = InsertionSearch(run, gram, cost, self.starts, phase="penalty")
            search.work()
            search.hand_over()
            if run.status != "converged":
                if answer is not None:  # rather than what the last factor had come to
                    run.answer_with(*answer)
                return False
            weights = run.best_weights
            likelihood = log_likelihood(
                unseen, weights, noise_variances(gram, losses(gram, weights))
            )
            if likelihood > most:
                most, falls, self.best = likelihood, 0, float(factor)
                answer = weights, run.best_order
            elif weights.nnz != arcs:  # else nothing has changed
                falls += 1
            arcs = weights.nnz
            if falls == _FALLS:
                break
        return True
