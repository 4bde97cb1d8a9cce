"""Columns that are copies of each other, exactly or up to a factor and a shift."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bigdag.data.convert import FloatArray, column_blocks

__all__ = ["Copies", "find_copies"]

# Two columns of length 1 that are no further apart than this are copies of each other ...
_ROUNDING = 1e-9
# ... or than this, where the values came in single precision.
_SINGLE = 1e-6
_DIRECTIONS = 3  # random ones that columns are projected on
_MARGIN = 10.0  # projections of copies are apart by this many tolerances at most: 10 deviations


class Copies(NamedTuple):
    """How many columns are copies, in how many groups, and the first groups, by their columns."""

    n_columns: int
    n_groups: int
    first: list[list[int]]


def find_copies(X: FloatArray, mean: FloatArray, norm: FloatArray, shown: int) -> Copies:
    """Find the columns of X (n, d), centred, that are copies; `norm` (d,) is their length.

    Projections on random directions tell columns apart, up to a sign, and each of those that fall
    together in all of them is compared in full with two others at most. So this takes n·d
    operations and some sorts, however many copies there are, not a comparison of every pair.

    Examples
    --------
    >>> X = np.array([[-1.0, 2.0, -3.0], [0.0, -1.0, 0.0], [1.0, -1.0, 3.0]])
    >>> find_copies(X, np.zeros(3), np.linalg.norm(X, axis=0), shown=3).first
    [[0, 2]]
    """
    live = np.flatnonzero(norm)
    if len(live) < 2:
        return Copies(0, 0, [])
    if len(X) == 2:  # two samples lie on a line always; only equal columns mean something
        columns = live[np.lexsort((X[0, live], mean[live]))]
        same = np.diff(X[0, columns]) == 0
        same &= np.diff(mean[columns]) == 0
        return _gathered(columns, same, shown)
    # Uniform numbers of variance 1, which a long table has sooner than normal ones.
    directions = np.sqrt(12) * (np.random.default_rng(0).random((_DIRECTIONS, len(X))) - 0.5)
    keys = (directions @ X)[:, live] / norm[live]  # (_DIRECTIONS, live columns)
    sign = np.where(keys[0] < 0, -1.0, 1.0)
    keys *= sign
    at = np.arange(len(live))  # places among the live columns
    run = np.zeros(len(live), dtype=np.int64)
    for key in keys:
        order = np.lexsort((key[at], run))
        at, run = at[order], run[order]
        ends = (np.diff(run) != 0) | (np.diff(key[at]) > _MARGIN * _SINGLE)
        run = np.concatenate([[0], np.cumsum(ends)])
        several = np.bincount(run)[run] > 1
        at, run = at[several], run[several]
        if not len(at):
            return Copies(0, 0, [])
    columns = live[at]
    same = _Comparison(X, mean, columns, norm[columns] * sign[at])
    sizes = np.bincount(run)
    middle = np.cumsum(sizes) - sizes + sizes // 2
    # Most are copies of the one in the middle of their run; of the others, each of the next.
    joined = same(np.arange(len(at)), middle[run])
    rest = np.flatnonzero(~joined)
    chained = same(rest[:-1], rest[1:]) & (np.diff(run[rest]) == 0)
    parts = [np.diff(run[joined]) == 0, [False] * min(1, len(rest)), chained]
    order = np.concatenate([columns[joined], columns[rest]])
    return _gathered(order, np.concatenate(parts).astype(bool), shown)


class _Comparison(NamedTuple):
    """Tells whether columns of X (n, d) are copies when divided by their lengths, with a sign."""

    X: FloatArray
    mean: FloatArray
    columns: npt.NDArray[np.int64]
    length: FloatArray  # of these columns

    def __call__(
        self, some: npt.NDArray[np.int64], others: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Compare each of some columns, by place, with each of as many others."""
        n = len(self.X)
        same = np.empty(len(some), dtype=bool)
        for part in column_blocks(n, len(some)):
            pair = some[part], others[part]
            one, other = (self.X.T[self.columns[at]] / self.length[at, None] for at in pair)
            apart = np.linalg.norm(one - other, axis=1)
            same[part] = apart <= _ROUNDING
            # With three samples, columns come this near to each other by chance.
            near = np.flatnonzero((apart > _ROUNDING) & (apart <= _SINGLE) & (n > 3))
            if len(near):
                single = [self._in_single_precision(at[near]) for at in pair]
                same[part.start + near] = single[0] & single[1]
        return same

    def _in_single_precision(self, at: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether the numbers were of single precision, but for the rounding of the mean."""
        columns = self.columns[at]
        values = self.X.T[columns] + self.mean[columns, None]
        with np.errstate(over="ignore"):  # what overflows did not come in single precision
            apart = np.abs(values.astype(np.float32) - values).max(axis=1)
        return np.asarray(apart <= 1e-14 * np.abs(values).max(axis=1))


def _gathered(columns: npt.NDArray[np.int64], same: npt.NDArray[np.bool_], shown: int) -> Copies:
    """Gather columns of which some are the same as the next ones; same (columns - 1,)."""
    if not same.any():
        return Copies(0, 0, [])
    group = np.concatenate([[0], np.cumsum(~same)])
    sizes = np.bincount(group)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    first = np.minimum.reduceat(columns, starts)
    several = np.flatnonzero(sizes > 1)
    chosen = several[np.argsort(first[several], kind="stable")[:shown]]
    groups = [sorted(columns[starts[g] : starts[g] + sizes[g]].tolist()) for g in chosen]
    return Copies(int(sizes[several].sum()), len(several), groups)
