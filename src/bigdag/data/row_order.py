"""Whether the order of the rows tells: values that follow on from those of the row before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtri

from bigdag.data.convert import FloatArray, column_blocks
from bigdag.data.scales import Facts

__all__ = ["RowOrder", "in_runs", "is_sorted", "rows_in_sequence"]

_FEWEST_ROWS = 20  # and pairs of successive values of a column
_LEAST = 0.1  # the least correlation of successive rows that counts
_CHANCE = 1e-3  # the probability that chance makes a sequence of one of all columns
_REACH = 3.0  # deviations, beyond which values are as far as that
_SOME_COLUMNS = 300  # that are looked at for what is behind the sequence
_STEPS = (2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100)  # rows apart
_LEFT = 20  # rows at least that are left where every k-th row is taken
_FADED = 0.1  # the mean correlation of rows that hardly follow on from each other; one has 2× of it
_STILL = 0.05  # the share of columns that may be in sequence once the reason is taken out


class RowOrder(NamedTuple):
    """The columns whose values follow on from those of the row before."""

    columns: npt.NDArray[np.int64]  # in their order in the table
    correlations: FloatArray  # of each, between a row and the next
    values: FloatArray  # (n, k): some of the columns, standardised; NaN where a value is missing
    n_looked_at: int  # columns of the table, which the bound takes into account

    def follow_numbers(self, numbers: FloatArray) -> bool:
        """Tell whether nothing is left of the sequence once a linear effect is taken out.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> time = np.arange(200.0)
        >>> values = 0.02 * time[:, None] + rng.normal(size=(200, 3))
        >>> order = RowOrder(np.arange(3), np.full(3, 0.6), values, 3)
        >>> order.follow_numbers(time), order.follow_numbers(rng.normal(size=200))
        (True, False)
        """
        span = float(np.ptp(numbers))
        if not span > 0:  # NaN too
            return False
        line = (numbers - numbers.min()) / span
        line -= line.mean()
        here = ~np.isnan(self.values)
        Z = np.where(here, self.values, 0.0)
        lines = np.where(here, line[:, None], 0.0)
        lines = np.where(here, lines - lines.sum(axis=0) / np.maximum(here.sum(axis=0), 1), 0.0)
        length = (lines * lines).sum(axis=0)
        slopes = np.divide((lines * Z).sum(axis=0), length, out=np.zeros_like(length),
                           where=length > 0)  # fmt: skip
        return self._is_gone(self.values - slopes * lines)

    def follow_groups(self, groups: npt.NDArray[np.int64]) -> bool:
        """Tell whether nothing is left of the sequence within groups of rows, from 0 on.

        Examples
        --------
        >>> groups = np.repeat([0, 1, 2], 50)
        >>> values = 2.0 * groups[:, None] + np.random.default_rng(0).normal(size=(150, 3))
        >>> order = RowOrder(np.arange(3), np.full(3, 0.6), values, 3)
        >>> order.follow_groups(groups), order.follow_groups(np.arange(150) % 3)
        (True, False)
        """
        member = np.zeros((len(groups), int(groups.max()) + 1))
        member[np.arange(len(groups)), groups] = 1.0
        here = ~np.isnan(self.values)
        sums = member.T @ np.where(here, self.values, 0.0)
        means = sums / np.maximum(member.T @ here, 1)
        return self._is_gone(self.values - member @ means)

    def step(self) -> int | None:
        """Return how far apart rows are that do not follow on from each other any more, or None.

        Examples
        --------
        >>> noise = np.random.default_rng(0).normal(size=(401, 3))
        >>> pairs = noise[1:] + noise[:-1]  # of which only successive ones share a value
        >>> RowOrder(np.arange(3), np.full(3, 0.5), pairs, 3).step()
        2
        """
        n, at_first = len(self.values), float(self.correlations.mean())
        for step in _STEPS:
            if step * _LEFT > n:
                break
            left, _ = _correlated(self.values, step)
            # That of a drift stays, also where it is small.
            if left.max() < 2 * _FADED and left.mean() < min(_FADED, at_first / 2):
                return step
        return None

    def _is_gone(self, values: FloatArray) -> bool:
        correlations, pairs = _correlated(values, 1)
        left = np.count_nonzero(correlations > _limits(pairs, self.n_looked_at))
        return bool(left <= max(1, _STILL * values.shape[1]))


def rows_in_sequence(
    X: FloatArray, columns: npt.NDArray[np.int64], facts: Facts
) -> RowOrder | None:
    """Find columns whose next value is correlated with this one, far beyond chance.

    Rows that are samples of their own may come in any order, so that this correlation is about
    zero, with a deviation of 1/√n. One column alone does no harm: it is related with another by
    chance no more than if its rows were in any order. So two at least are needed. Columns of which
    half of the values are the same are not looked at, as two rare values may meet by chance.

    Examples
    --------
    >>> from bigdag.data.scales import column_facts
    >>> walks = np.cumsum(np.random.default_rng(0).normal(size=(200, 3)), axis=0)
    >>> order = rows_in_sequence(walks, np.arange(3), column_facts(walks))
    >>> order.columns.tolist(), bool(order.correlations.min() > 0.9)
    ([0, 1, 2], True)
    """
    n = len(X)
    columns = columns[facts.spread[columns] > 0]
    d = len(columns)
    if n < _FEWEST_ROWS or d < 2:
        return None
    correlations, limits = np.empty(d), np.empty(d)
    for part in column_blocks(4 * n, d):  # of a block there are several copies
        correlations[part], pairs = _correlated(_standard(X, columns[part], facts), 1)
        limits[part] = _limits(pairs, d)
    found = np.flatnonzero(correlations > limits)
    if len(found) < 2:
        return None
    strongest = found[np.argsort(-correlations[found], kind="stable")[:_SOME_COLUMNS]]
    values = _standard(X, columns[strongest], facts)
    return RowOrder(columns[found], correlations[found], values, d)


def in_runs(values: npt.NDArray[np.object_] | FloatArray) -> npt.NDArray[np.int64] | None:
    """Return the groups of rows of which each is together, from 0 on; None where that is not so.

    Each group has two rows at least, so that its effect can be taken out.

    Examples
    --------
    >>> in_runs(np.array(["b", "b", "a", "a", "a"], dtype=object)).tolist()
    [0, 0, 1, 1, 1]
    >>> in_runs(np.array([1.0, 2.0, 1.0, 2.0])) is None
    True
    """
    codes, found = pd.factorize(values)
    if len(found) < 2 or len(found) > len(codes) // 2 or (codes < 0).any():
        return None
    if np.count_nonzero(np.diff(codes)) != len(found) - 1 or np.bincount(codes).min() < 2:
        return None
    return np.asarray(codes, dtype=np.int64)


def is_sorted(column: FloatArray) -> bool:
    """Tell whether a column, of which nothing is missing, only rises or only falls.

    Examples
    --------
    >>> is_sorted(np.array([3.0, 2.0, 2.0])), is_sorted(np.array([1.0, 3.0, 2.0]))
    (True, False)
    """
    steps = np.diff(column)  # NaN is neither
    return bool((steps >= 0).all() or (steps <= 0).all())


def _standard(X: FloatArray, columns: npt.NDArray[np.int64], facts: Facts) -> FloatArray:
    Z = (X[:, columns] - facts.centre[columns]) / facts.spread[columns]
    return np.clip(Z, -_REACH, _REACH, out=Z)


def _correlated(Z: FloatArray, step: int) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Return the correlations (d,) of values of Z (n, d) so many rows apart, and of how many."""
    here = ~np.isnan(Z)
    there = np.maximum(here.sum(axis=0), 1)
    Z = np.where(here, Z, 0.0)
    Z = np.where(here, Z - Z.sum(axis=0) / there, 0.0)
    pairs = np.count_nonzero(here[step:] & here[:-step], axis=0)
    variance = np.einsum("ij,ij->j", Z, Z) / there
    together = np.einsum("ij,ij->j", Z[step:], Z[:-step]) / np.maximum(pairs, 1)
    found = np.divide(together, variance, out=np.zeros_like(together), where=variance > 0)
    return np.minimum(found, 1.0), pairs


def _limits(pairs: npt.NDArray[np.int64], d: int) -> FloatArray:
    """Return the correlations that are far beyond chance in one of d columns."""
    errors = -ndtri(_CHANCE / d) / np.sqrt(np.maximum(pairs, 1))
    return np.where(pairs < _FEWEST_ROWS - 1, np.inf, np.maximum(_LEAST, errors))
