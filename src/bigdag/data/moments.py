"""Means and covariances of a table that does not fit into the memory, in one pass over its rows.

Rows come in blocks of a number that only depends on the number of columns. Each block is shifted by
the mean of the first one and centred by its own, and what the means of blocks are apart is added as
one more row (Chan, Golub & LeVeque 1983), so that a large mean or a drift costs no accuracy. Every
strip of the result is one product of one thread: the answer is the same to the bit for any number
of threads and any format of the file. What is checked of a table in memory is checked on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bigdag.data.convert import FloatArray, Rows, block_rows, table_memory
from bigdag.errors import DataError, few_names
from bigdag.resources import blas_threads, memory_left, n_threads

__all__ = ["Moments", "is_one_pass", "pass_over"]

_STRIP = 128  # columns whose products one thread computes at a time
_PROJECTIONS = 8  # random ones, by which copies of columns are told apart
_COPIES_OF_MOMENTS = 3  # that a learner holds at once: covariances, correlations, one between them
_SMALL = 2**20  # values of a table of which nobody asks whether it fits


class Moments(NamedTuple):
    """What one pass over a table tells of its columns."""

    mean: FloatArray  # (d,)
    covariance: FloatArray  # (d, d), divided by n; constant columns are not exactly zero
    low: FloatArray  # (d,), the least value
    high: FloatArray  # (d,), the largest value
    counting: list[int]  # columns that are 0 to n - 1 or 1 to n
    projections: FloatArray  # (_PROJECTIONS, d), of the centred columns on random directions
    single: npt.NDArray[np.bool_]  # (d,), whether all values are numbers of single precision


def is_one_pass(
    n: int, d: int, memory_limit: float | str | None, overhead: int = 0, copies: int = 1
) -> bool:
    """Tell whether a table does not fit into the memory, and its moments do.

    Parameters
    ----------
    n, d : int
        Rows and columns.
    memory_limit : float or str, optional
        What the whole process may hold; by default what the machine can spare.
    overhead : int, default=0
        The bytes that reading it in blocks takes.
    copies : int, default=1
        How many times the table must fit.

    Examples
    --------
    >>> is_one_pass(10**9, 100, "2GB"), is_one_pass(1000, 10**6, "2GB"), is_one_pass(9, 9, None)
    (True, False, False)
    """
    if n < 2 or d < 1 or (memory_limit is None and n * d <= _SMALL):
        return False
    left = memory_left(memory_limit)
    if table_memory(n, d) + (copies - 1) * 8 * n * d <= left:
        return False
    block = 8 * block_rows(d) * d
    strips = 8 * _STRIP * d * n_threads(None)
    return _COPIES_OF_MOMENTS * 8 * d * d + 3 * block + strips + overhead <= left


def pass_over(
    rows: Rows, names: Sequence[str], largest: float, n_jobs: int | None = None
) -> Moments:
    """Take the moments of a table; refuse values that are not finite, or larger than `largest`.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0], [3.0, 6.0]])
    >>> def fill(start, stop, out):
    ...     out[...] = X[start:stop]
    >>> found = pass_over(Rows(2, 2, fill), ["a", "b"], 1e150)
    >>> found.mean, found.covariance
    (array([2., 4.]), array([[1., 2.], [2., 4.]]))
    """
    n, d = rows.n, rows.d
    step = min(n, block_rows(d))
    buffer = np.empty((step + 1, d))  # with a row for what the means are apart
    sums = _Sums(d)
    columns = _Columns(n, d, largest)
    with blas_threads(1), ThreadPoolExecutor(n_threads(n_jobs), "bigdag") as pool:
        for start in range(0, n, step):
            stop = min(start + step, n)
            block = buffer[: stop - start]
            rows.fill(start, stop, block)
            columns.look(block, start)
            if not columns.bad:
                sums.add(buffer[: stop - start + 1], pool)
    columns.refuse(names)
    return Moments(
        *sums.moments(),
        columns.low,
        columns.high,
        columns.counting.tolist(),
        sums.projections(),
        columns.single,
    )


class _Sums:
    """Means, products and projections of the rows so far."""

    def __init__(self, d: int) -> None:
        self.n = 0
        self.shift = np.zeros(d)  # the mean of the first block
        self.mean = np.zeros(d)  # of all rows, less the shift
        self.products = np.zeros((d, d))  # of centred columns; the upper half is not kept
        self.projected = np.zeros((_PROJECTIONS, d))
        self.directions = np.zeros(_PROJECTIONS)  # their sums
        self.rng = np.random.default_rng(0)

    def add(self, block: FloatArray, pool: ThreadPoolExecutor) -> None:
        """Take a block of rows, which changes; its last one is free to be used."""
        m, d = len(block) - 1, block.shape[1]
        values, more = block[:m], block[m]
        if self.n == 0:
            self.shift = values.mean(axis=0)
        values -= self.shift
        mean = np.zeros(d)
        for _ in range(2):  # the second takes away what rounding left of the mean
            part = values.mean(axis=0)
            values -= part
            mean += part
        apart = mean - self.mean
        np.multiply(apart, np.sqrt(self.n * m / (self.n + m)), out=more)
        # Uniform numbers of variance 1, which are made sooner than normal ones.
        directions = np.sqrt(12) * (self.rng.random((_PROJECTIONS, m)) - 0.5)
        total = directions.sum(axis=1)
        self.projected += directions @ values + np.outer(total, mean)
        self.directions += total

        def work(a: int) -> None:
            b = min(a + _STRIP, d)
            self.products[a:b, :b] += block[:, a:b].T @ block[:, :b]

        for _ in pool.map(work, range(0, d, _STRIP)):
            pass
        self.n += m
        self.mean += apart * (m / self.n)

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean (d,) and the covariance (d, d), made in place."""
        S = self.products
        S /= self.n
        for a in range(0, len(S), _STRIP):
            S[:a, a : a + _STRIP] = S[a : a + _STRIP, :a].T
        return self.shift + self.mean, S

    def projections(self) -> FloatArray:
        """Return the projections of the centred columns (_PROJECTIONS, d)."""
        return self.projected - np.outer(self.directions, self.mean)


class _Columns:
    """What is checked of columns, but for their moments."""

    def __init__(self, n: int, d: int, largest: float) -> None:
        self.n, self.largest = n, largest
        self.low, self.high = np.full(d, np.inf), np.full(d, -np.inf)
        self.single = np.ones(d, dtype=bool)
        self.counting = np.empty(0, dtype=np.int64)
        self.counted_from = np.empty(0)
        self.unusable = np.zeros(d, dtype=np.int64)  # values that are not finite
        self.bad: dict[int, tuple[int, float]] = {}  # the first bad value of columns, and its row

    def look(self, block: FloatArray, start: int) -> None:
        """Look at the rows from `start` on."""
        with np.errstate(invalid="ignore"):
            low, high = block.min(axis=0), block.max(axis=0)
        fine = (low >= -self.largest) & (high <= self.largest)  # not so for NaN
        for j in np.flatnonzero(~fine).tolist():
            self._note(block[:, j], j, start)
        if self.bad:
            return
        self.low, self.high = np.minimum(self.low, low), np.maximum(self.high, high)
        self._follow_counts(block, start)
        candidates = np.flatnonzero(self.single)
        if len(candidates):
            values = block if len(candidates) == len(self.single) else block[:, candidates]
            with np.errstate(over="ignore"):  # what overflows did not come in single precision
                self.single[candidates] = (values.astype(np.float32) == values).all(axis=0)

    def _follow_counts(self, block: FloatArray, start: int) -> None:
        if start == 0 and self.n >= 10:
            first = block[0]
            counts = ((first == 0.0) | (first == 1.0)) & (block[1] - first == 1.0)
            self.counting = np.flatnonzero(counts)
            self.counted_from = first[self.counting].copy()
        if len(self.counting):
            places = np.arange(start, start + len(block))[:, None]
            same = (block[:, self.counting] - self.counted_from == places).all(axis=0)
            self.counting, self.counted_from = self.counting[same], self.counted_from[same]

    def _note(self, values: FloatArray, j: int, start: int) -> None:
        infinite = ~np.isfinite(values)
        count = int(np.count_nonzero(infinite))
        if count and not self.unusable[j]:  # also in place of one that is merely large
            i = int(np.argmax(infinite))
            self.bad[j] = (start + i, float(values[i]))
        elif j not in self.bad:
            i = int(np.argmax(np.abs(values) > self.largest))
            self.bad[j] = (start + i, float(values[i]))
        self.unusable[j] += count

    def refuse(self, names: Sequence[str]) -> None:
        """Refuse the table if there was a value that cannot be used."""
        unusable = np.flatnonzero(self.unusable).tolist()
        if unusable:
            total, (row, value) = self.unusable.sum(), self.bad[unusable[0]]
            raise DataError(
                f"{total} value{'s are' if total > 1 else ' is'} NaN or infinite, in "
                f"{len(unusable)} of {len(names)} columns "
                f"({few_names([names[c] for c in unusable])}); the first is "
                f"{'NaN' if np.isnan(value) else value} in column {names[unusable[0]]!r}, row "
                f"{row + 1} (counted from 1). Leave these rows or columns out, or fill in missing "
                "values; the table does not fit into the memory, so that this is to be done in the "
                "file."
            )
        if self.bad:
            j = min(self.bad)
            row, value = self.bad[j]
            raise DataError(
                f"Column {names[j]!r} holds {value:.3g} in row {row + 1} (counted from 1). A value "
                f"must be at most {self.largest:.0e} in size, or squares overflow. Rescale the "
                "column."
            )
