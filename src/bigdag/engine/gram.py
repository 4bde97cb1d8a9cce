"""Second moments S = XᵀX/n as an operator, on the correlation scale.

Variances may span fourteen orders of magnitude, so everything inside the engine works with the
correlations ``C = S[i, j] / (sd[i] * sd[j])`` and with ``sd`` apart: :class:`Gram` is that pair.
``C`` is held while it fits the memory budget, and else computed from the data when asked for; a
solver cannot tell the difference. A constant column has no correlation with anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bigdag.compiled import kernel
from bigdag.engine.executor import Arrays, Step, Task, Threads, current
from bigdag.errors import MemoryLimitError
from bigdag.resources import blas_threads, format_bytes, memory_budget, memory_held, n_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.data.dataset import Dataset

__all__ = ["Gram", "blocks_memory", "correlation", "moments_memory"]

_BLOCK = 2**23  # entries of a block of rows computed at once: 64 MB
_STRIP = 128  # rows of a product that one thread computes at a time
_ROWS = 512  # of a block, at the most
_PLANNED = 0.94  # of a limit: the rest is for what no plan knows of
_HELD_SHARE = 0.4  # of the memory left, that the correlations may take
_FEW = 4  # pieces of a task: fewer are done here, whoever does the others


# ------------------------------------------------------------------ the operator


class Gram:
    """The correlations of a data set, held or computed on demand, and its standard deviations.

    Parameters
    ----------
    dataset : Dataset
        Centred data, or a covariance matrix. The values of one that is temporary are overwritten.
    memory_limit : float or str, optional
        Bytes that the whole process may hold; by default what it holds and four fifths of the
        free memory.
    n_jobs : int, optional
        Threads; all cores by default.
    hold : bool, optional
        Whether to hold the correlations; by default if they fit, in 40 % of the memory left.
    workspace : callable, optional
        Returns the bytes that the work on them will take beside, given whether they are held.

    Attributes
    ----------
    budget : int
        The bytes that may be used beside those that the process held before.
    sd : ndarray of shape (d,)
        Standard deviations (with 1/n); zero for a constant column.
    C : ndarray of shape (d, d), or None
        The correlations where they are held.
    Z : ndarray of shape (d, n), or None
        The variables as rows of unit length; None where only a covariance is known.

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> gram = Gram(as_dataset([[0.0, 1.0], [2.0, 5.0], [4.0, 3.0]]))
    >>> gram.block([0], [1]).round(3)
    array([[0.5]])
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        memory_limit: float | str | None = None,
        n_jobs: int | None = None,
        hold: bool | None = None,
        workspace: Callable[[bool], int] = lambda held: 0,  # noqa: ARG005
    ) -> None:
        self.n_samples = dataset.n_samples
        self.d = d = dataset.n_features
        self.n_jobs = n_threads(n_jobs)
        limit, held = memory_budget(memory_limit), memory_held()
        self.limit = int(_PLANNED * limit)
        self.budget = max(0, self.limit - held)
        n = self.n_samples if dataset.X is not None else 0
        if dataset.X is None:
            hold = True
        elif hold is None:
            fits = moments_memory(n, d, True) + workspace(True) <= self.budget
            hold = fits and 8 * d * d <= _HELD_SHARE * self.budget
        there = 8 * n * d if dataset.temporary else 0  # the rows take the place of the values
        _check_memory(n, d, hold, workspace(hold), held - there, limit)
        self.Z: NDArray[np.float64] | None = None
        self.C: NDArray[np.float64] | None = None
        self._closed = False
        self.executor = current()
        if not hold:
            self.executor.admit(self)
        if dataset.X is not None:
            X = dataset.X.T
            in_place = dataset.temporary and dataset.X.flags.owndata and X.flags.c_contiguous
            if in_place:
                dataset.X.flags.writeable = True
                X = dataset.X.T
            self.sd = np.sqrt(np.einsum("ij,ij->i", X, X) / self.n_samples)
            scale = self._inverse_sd / np.sqrt(self.n_samples)
            if in_place:
                self.Z = np.multiply(X, scale[:, None], out=X)
            else:
                self.Z = np.multiply(X, scale[:, None], order="C")
            if hold:
                self.C = self._all_correlations()
        else:
            S = dataset.covariance
            assert S is not None
            self.sd = np.sqrt(np.diag(S))
            self.C = np.ascontiguousarray(S * self._inverse_sd[:, None] * self._inverse_sd)
        if self.C is not None:
            np.fill_diagonal(self.C, self.sd > 0)

    @classmethod
    def of_rows(cls, Z: NDArray[np.float64], sd: NDArray[np.float64], n_jobs: int = 1) -> Gram:
        """Take the rows of another Gram and its standard deviations, as they are.

        Examples
        --------
        >>> Gram.of_rows(np.eye(2), np.ones(2)).block([0], [1])
        array([[0.]])
        """
        gram = cls.__new__(cls)
        gram.d, gram.n_samples = Z.shape
        gram.n_jobs, gram._closed, gram.executor = n_jobs, False, Threads()
        gram.limit = int(_PLANNED * memory_budget(None))
        gram.budget = max(0, gram.limit - memory_held())
        gram.Z, gram.C, gram.sd = Z, None, sd
        return gram

    @cached_property
    def _inverse_sd(self) -> NDArray[np.float64]:
        return np.divide(1.0, self.sd, out=np.zeros_like(self.sd), where=self.sd > 0)

    @property
    def inverse_sd(self) -> NDArray[np.float64]:
        """1/sd, and zero for a constant column."""
        return self._inverse_sd

    @property
    def source(self) -> tuple[NDArray[np.float64], bool]:
        """What compiled code reads correlations from: C and True, or else Z and False."""
        if self.C is not None:
            return self.C, True
        assert self.Z is not None
        return self.Z, False

    def hold(self) -> None:
        """Compute all correlations and hold them, where they fit in 40 % of the memory left."""
        if self.C is None and 8 * self.d**2 <= _HELD_SHARE * self.left():
            self.C = self._all_correlations()
            np.fill_diagonal(self.C, self.sd > 0)

    def left(self) -> int:
        """Return the bytes that may still be taken."""
        return max(0, self.limit - memory_held())

    def diag(self) -> NDArray[np.float64]:
        """Return the variances (d,)."""
        return self.sd**2

    def rows(self, index: Any) -> NDArray[np.float64]:
        """Return rows of the correlations (k, d)."""
        if self.C is not None:
            return self.C[index]
        assert self.Z is not None
        return self.product(self.Z[index], self.Z.T)

    def block(self, i: Any, j: Any) -> NDArray[np.float64]:
        """Return the correlations between two lists of variables (len(i), len(j))."""
        if self.C is not None:
            return self.C[np.ix_(i, j)]
        assert self.Z is not None
        return self.Z[i] @ self.Z[j].T

    def residual_rows(
        self,
        columns: NDArray[np.int64],
        indptr: NDArray[np.int64],
        indices: NDArray[np.int64],
        values: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return what is left of the rows of C after regressions (k, d).

        Row a is the correlation of every variable with the residual of ``columns[a]`` on
        ``indices[indptr[a]:indptr[a + 1]]`` with the coefficients in ``values``.
        """
        mean_size = len(indices) / max(1, len(columns))
        # One product with Z costs 2 n d a column at the speed of a matrix product, the sum of
        # rows of C some ten times as much for each flop.
        if self.C is None or (self.Z is not None and self.n_samples < 10 * mean_size):
            assert self.Z is not None
            residual = self.Z[columns]
            self.each(
                lambda a, b: _subtract_rows(residual, self.Z, indptr, indices, values, a, b),
                len(columns),
            )
            return self.product(residual, self.Z.T)
        left = self.C[columns]
        self.each(
            lambda a, b: _subtract_rows(left, self.C, indptr, indices, values, a, b), len(columns)
        )
        return left

    def product(self, A: NDArray[np.float64], B: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return A B (k, m), the same to the bit for any number of threads.

        BLAS itself rounds differently with another number of threads; so each thread has strips of
        a fixed number of rows.
        """
        out = np.empty((len(A), B.shape[1]))
        with blas_threads(1):
            self.each(lambda a, b: np.matmul(A[a:b], B, out=out[a:b]), len(A), _STRIP)
        return out

    def _all_correlations(self) -> NDArray[np.float64]:
        """Return Z Zᵀ (d, d), by strips of its lower half, the longest first."""
        Z, d = self.Z, self.d
        assert Z is not None
        C = np.empty((d, d))

        def work(first: int, last: int) -> None:
            a, b = max(0, d - last), d - first
            np.matmul(Z[a:b], Z[:b].T, out=C[a:b, :b])
            C[:a, a:b] = C[a:b, :a].T

        with blas_threads(1):
            self.each(work, d, _STRIP)
        return C

    # -------------------------------------------------------------- blocks and threads

    def blocks(self, columns: NDArray[np.int64]) -> Iterable[NDArray[np.int64]]:
        """Split columns so that one block's rows of C stay within 64 MB."""
        size = self.block_size
        return (columns[a : a + size] for a in range(0, len(columns), size))

    @property
    def block_size(self) -> int:
        """The rows of C that are a block."""
        return max(8, min(_ROWS, _BLOCK // max(1, self.d)))

    def each(self, work: Callable[[int, int], Any], count: int, chunk: int = 16) -> list[Any]:
        """Call ``work(first, last)`` on pieces of range(count), in threads; results in order."""
        pieces = _cut(count, chunk)
        if self._works_alone(len(pieces)):
            return [work(a, b) for a, b in pieces]
        with blas_threads(1):
            return list(self.in_threads(lambda piece: work(*piece), pieces))

    def in_threads(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """Call ``work`` on each of some items, in threads; the results in their sequence."""
        if self._works_alone(len(items)):
            return map(work, items)
        return self._pool.map(work, items)

    def _works_alone(self, count: int) -> bool:
        """Tell whether so many pieces are done by the caller's own thread."""
        return self.n_jobs == 1 or count < 2 or self._closed

    def spread(
        self, task: Task, count: int, chunk: int, stop: Callable[[], bool] | None = None
    ) -> list[Arrays | None]:
        """Have a task done on pieces of range(count), by whoever does the pieces of this Gram.

        Parameters
        ----------
        task : Task
            What to do.
        count, chunk : int
            How many there are of what it is about, and how many of them are a piece.
        stop : callable, optional
            True ends the work.

        Returns
        -------
        list
            The results in the sequence of the pieces; None for those that a stop came before.
        """
        pieces = _cut(count, chunk)
        executor = Threads() if len(pieces) < _FEW else self.executor
        found: list[Arrays | None] = [None] * len(pieces)
        for number, result in executor.results(self, task, pieces, stop):
            found[number] = result
        return found

    def step(self, name: str, *inputs: Any) -> Step:
        """Return a step of a search that is a function of its inputs and of these moments."""
        return self.executor.step(self, name, *inputs)

    def blas(self) -> Any:
        """Return a context in which matrix products use ``n_jobs`` threads."""
        return blas_threads(self.n_jobs)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.n_jobs, thread_name_prefix="bigdag")

    def release(self) -> None:
        """Let go of the correlations and the samples, also where something still holds the Gram."""
        self.C = self.Z = None

    def close(self) -> None:
        """End the threads for good; what is asked for later is computed by the caller's own."""
        self._closed = True
        self.executor.forget(self)
        if "_pool" in self.__dict__:
            self.__dict__.pop("_pool").shutdown()


def _cut(count: int, chunk: int) -> list[tuple[int, int]]:
    """Return where pieces of range(count) begin and end."""
    return [(a, min(a + chunk, count)) for a in range(0, count, chunk)]


def moments_memory(n: int, d: int, hold: bool) -> int:
    """Return the bytes of a Gram: Z, C where it is held, and blocks of rows to work on.

    Examples
    --------
    >>> moments_memory(1000, 100, True)
    1120000
    """
    return 8 * (n * d + d * d * hold) + blocks_memory(d)


def blocks_memory(d: int) -> int:
    """Return the bytes of blocks of rows to work on.

    Examples
    --------
    >>> blocks_memory(100)
    240000
    """
    return 3 * 8 * min(d * d, _ROWS * d, _BLOCK + 8 * d)


def _check_memory(n: int, d: int, hold: bool, workspace: int, held: int, limit: int) -> None:
    """Refuse before any work what cannot fit."""
    need, planned = moments_memory(n, d, hold) + workspace, _PLANNED * limit
    if held + need <= planned:
        return

    def fits(width: int) -> bool:
        # What the work takes beside grows about as the blocks and correlations do.
        share = moments_memory(n, width, hold) / moments_memory(n, d, hold)
        return held + share * need <= planned

    low, high = 0, d
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    raise MemoryLimitError(
        f"Learning from {d} variables and {n} samples needs {format_bytes(need)} of memory beside "
        f"the {format_bytes(held)} that the process holds already, and it may hold "
        f"{format_bytes(limit)} in all: at most {low} variables fit. Use fewer variables, raise "
        "memory_limit, or run it where there is more memory."
    )


@kernel(inside=True, fastmath=True, _nrt=False)
def correlation(source, held, i, j):  # type: ignore[no-untyped-def]
    """Return one correlation from the source of a Gram."""
    if held:
        return source[i, j]
    total = 0.0
    for s in range(source.shape[1]):
        total += source[i, s] * source[j, s]
    return total


@kernel(fastmath=True)
def _subtract_rows(out, source, indptr, indices, values, first, last):  # type: ignore[no-untyped-def]
    """Subtract from rows first..last of out, in place, their combinations of rows of source."""
    for a in range(first, last):
        row = out[a]
        for e in range(indptr[a], indptr[a + 1]):
            other = source[indices[e]]
            value = values[e]
            for i in range(len(row)):
                row[i] -= value * other[i]
