"""What the learners on a full matrix of weights share, with and without torch.

Room for the matrices, a unit for the variances, time for another step, the loss in float64, and the
answer: the last iterate, made acyclic.
"""

from __future__ import annotations

import math
from collections import deque
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from bigdag.errors import MemoryLimitError
from bigdag.graph.acyclic import acyclic_threshold, topological_order
from bigdag.learners.run import Run
from bigdag.resources import blas_threads, format_bytes, memory_left

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.limits import Precedence

__all__ = [
    "SMALL",
    "LeastSquares",
    "Over",
    "Pace",
    "answer_with_acyclic_part",
    "arcs_of",
    "check_dense",
    "few_threads",
    "unit_of_variances",
]

SMALL = 256  # variables: up to here threads cost more than they give
_TINY = 1e-8  # weights below this share of the largest are rounding, and not arcs
_FAINT = 1e-4  # gradients far below this vanish beside the 1e-8 that Adam and its kind add to them
_STRIP = 64  # rows that are transposed at a time
_GRACE = 0.1  # seconds after the deadline in which a step may still end


# ------------------------------------------------------------------ room and units


def check_dense(d: int, matrices: float, itemsize: int, memory_limit: float | str | None) -> None:
    """Refuse before any work what needs more dense (d, d) matrices than fit.

    Examples
    --------
    >>> check_dense(100, 6, 4, None)
    """
    need, left = matrices * d * d * itemsize, memory_left(memory_limit)
    if need > left:
        raise MemoryLimitError(
            f"Dense matrices for {d} variables need {format_bytes(need)} of memory, and "
            f"{format_bytes(left)} may still be used: at most "
            f"{int((left / matrices / itemsize) ** 0.5)} variables fit. Use a sparse method such "
            "as ProxiMAS, raise memory_limit, or run it where there is more memory."
        )


def arcs_of(W: NDArray[Any]) -> sp.csc_array:
    """Return a dense matrix of weights as a ``csc_array``, without what is only rounding.

    Examples
    --------
    >>> arcs_of(np.array([[0.0, 2.0], [1e-12, 0.0]])).toarray()
    array([[0., 2.],
           [0., 0.]])
    """
    columns = np.empty_like(W, order="C")  # of W, one after the other: quicker to go through
    for first in range(0, len(W), _STRIP):
        columns[:, first : first + _STRIP] = W[first : first + _STRIP].T
    largest = max(columns.max(initial=0.0), -columns.min(initial=0.0))
    keep = np.abs(columns) > _TINY * largest
    count = np.count_nonzero(keep, axis=1)
    place = np.flatnonzero(keep)
    values = columns.ravel()[place].astype(np.float64)
    del columns, keep
    place -= np.repeat(np.arange(len(W)) * len(W), count)
    indptr = np.concatenate([[0], np.cumsum(count)])
    return sp.csc_array((values, place, indptr), shape=W.shape)


def answer_with_acyclic_part(run: Run, raw: sp.csc_array) -> None:
    """Answer with the weights above the smallest threshold that leaves no cycle.

    Nor any with what has to come before what, where that is known.
    """
    d = run.gram.d
    wide = raw if run.limits is None else _with_precedence(raw, run.limits.precedence)
    answer = acyclic_threshold(wide)[1]
    order = topological_order(answer)
    assert order is not None
    if run.limits is not None:  # without the barriers between tiers, and with the weights' own
        answer = sp.csc_array(raw.multiply(answer[:d, :d] != 0))
        order = order[order < d]
    run.answer_with(answer, order)


def _with_precedence(raw: sp.csc_array, precedence: Precedence) -> sp.csc_array:
    """Return the arcs, and heavier ones than all of them from what has to come before what."""
    size = len(precedence.after_ptr) - 1
    heavy = 4.0 * float(np.abs(raw.data).max(initial=1.0))
    arcs = raw.tocoo()
    wide = sp.csc_array((arcs.data, (arcs.row, arcs.col)), shape=(size, size))
    known = sp.csr_array(
        (np.full(len(precedence.after), heavy), precedence.after, precedence.after_ptr),
        shape=(size, size),
    )
    return sp.csc_array(wide + known)


def unit_of_variances(run: Run, precision: str, penalty: float, idle: float) -> float:
    """Return what to divide variances by, a power of four, so that squares of gradients exist.

    That is one unless the largest of the variances and the loss' L1 penalty, which gradients are as
    large as, is so large or small that their squares would overflow or vanish. A column whose
    covariances are all below ``idle`` has no arcs, and its scale does not matter.

    Raises
    ------
    FloatingPointError
        If there is no such unit, as the variances are too far apart.

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.learners.notears import NOTEARS
    >>> run = Run(NOTEARS(), as_dataset([[-1e99, 2e99], [0.0, 0.0], [1e99, -2e99]]))
    >>> f"{unit_of_variances(run, 'float64', 0.1, 0.1):.1e}"
    '4.8e+198'
    """
    sd = run.gram.sd
    largest = float(sd.max(initial=0.0))
    busy = sd[(sd > 0) & (sd * largest > idle)]
    info = np.finfo(precision)
    if len(busy) and largest / float(busy.min()) > float(info.tiny) ** -0.25:
        raise FloatingPointError(
            f"the columns' standard deviations run from {busy.min():.1g} to {largest:.1g}, and "
            f"squares of gradients that far apart vanish in {precision}. Divide each column by its "
            "standard deviation" + (", or use dtype='float64'" if precision == "float32" else "")
        )
    size = max(largest**2, penalty)
    if size == 0 or _FAINT <= size <= float(info.max) ** (1 / 3):
        return 1.0
    return math.ldexp(1.0, 2 * (math.frexp(size)[1] // 2))


# ------------------------------------------------------------------ the loss


class LeastSquares:
    """The loss ``1/(2n)·‖XW − X‖²`` of a dense W over a unit, with its gradient, in float64.

    From X (n, d) when n < d, and from S = XᵀX/n otherwise or where X is not known.

    Parameters
    ----------
    run : Run
        Whose data are meant.
    unit : float, default=1.0
        What the variances are divided by, a power of four.

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.learners.notears import NOTEARS
    >>> run = Run(NOTEARS(), as_dataset([[-1.0, 2.0], [0.0, 0.0], [1.0, -2.0]]))
    >>> round(LeastSquares(run)(np.zeros((2, 2)))[0], 3)
    1.667
    """

    def __init__(self, run: Run, unit: float = 1.0) -> None:
        X, root = run.data.X, math.sqrt(unit)  # a power of two, which rounds nothing
        self.from_data = X is not None and run.data.n_samples < run.gram.d
        if self.from_data:
            self._X = np.array(X, order="C") / root  # (n, d)
        else:
            sd = run.gram.sd / root
            self._S = run.gram.rows(slice(None)) * sd[:, None] * sd  # (d, d)
            self._trace = float(np.trace(self._S))

    def __call__(self, W: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the loss and its gradient (d, d)."""
        if self.from_data:
            R = self._X @ W - self._X
            return 0.5 * float(np.vdot(R, R)) / len(R), self._X.T @ R / len(R)
        G = self._S @ W - self._S
        return 0.5 * max(0.0, self._trace + float(np.vdot(W, G - self._S))), G


# ------------------------------------------------------------------ the time, and threads


def few_threads(run: Run) -> AbstractContextManager[None]:
    """Give a context in which matrix products use the run's threads, or one on small matrices."""
    return blas_threads(run.gram.n_jobs if run.gram.d > SMALL else 1)


class Over(Exception):  # no error, but the way out of a solver
    """Raised inside of a solver that is to stop where it is."""


class Pace:
    """Tells whether there is time for another step and for what comes after the last one.

    The next step is taken to last as long as the shortest of the last few: on a busy machine one
    of them may have waited for others.

    Parameters
    ----------
    run : Run
        Whose deadline is meant.
    ending : float, default=0.5
        How long making an answer out of the last iterate takes, in steps.
    reserve : float, default=0.0
        Seconds to leave besides.

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.learners.notears import NOTEARS
    >>> run = Run(NOTEARS(time_limit=60), as_dataset([[-1.0, 2.0], [0.0, 0.0], [1.0, -2.0]]))
    >>> Pace(run).is_over()
    False
    """

    def __init__(self, run: Run, ending: float = 0.5, reserve: float = 0.0) -> None:
        self._run, self._ending, self._reserve = run, ending, reserve
        self._last: float | None = None
        self._lasted: deque[float] = deque(maxlen=5)

    def is_over(self) -> bool:
        """Tell it, and if so set the run's status; to be asked before each step."""
        run, now = self._run, self._run.seconds
        if run.time_limit is None:
            return run.out_of_time()
        if self._last is not None:
            self._lasted.append(now - self._last)
        self._last = now
        step = min(self._lasted, default=0.0)
        end = now + (1 + self._ending) * step + self._reserve
        late = end > run.time_limit + _GRACE
        if late:
            run.status = "time_limit"
        return run.out_of_time() or late
