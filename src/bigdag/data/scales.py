"""On which scale the columns of a table are best related: as they are, logarithms, or ranks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bigdag.data.convert import FloatArray, column_blocks
from bigdag.data.transforms import normal_scores
from bigdag.resources import n_threads

__all__ = ["Facts", "Scale", "best_scale", "column_facts"]

_SKEWED = 1.0  # skewness from which a column counts as skewed ...
_SKEW_ERRORS = 5.5  # ... and so many of its standard errors, √(6/n)
_SOME_COLUMNS, _SOME_ROWS = 400, 1000  # that scales are compared on
_RELATED = 4.0  # pairs are related whose correlation is above this, times 1/√n
_FEWEST_ROWS, _FEWEST_PAIRS = 10, 2  # that tell scales apart
_AS_STRONG = 0.8  # the share of the ranks' information that logarithms of counts must have
# Of the pairs unrelated by rank, so many are related by value only where rows are far away: a third
# where one row in fifty is ten times as large, one in ten thousand with exponential noise.
_MADE_UP = 0.01


class Facts(NamedTuple):
    """What is known of each column, (d,) each, from the values that are there."""

    there: npt.NDArray[np.int64]  # how many values
    deviation: FloatArray
    centre: FloatArray  # the median
    spread: FloatArray  # the interquartile range, as the deviation of a Gaussian column
    skewness: FloatArray  # without far values
    far: npt.NDArray[np.int64]  # values further from the median than a Gaussian column has them
    whole: npt.NDArray[np.bool_]  # whether all values are whole numbers
    distinct: npt.NDArray[np.int64]
    lowest: FloatArray
    zeros: FloatArray  # the share of values that are exactly zero

    @property
    def skewed(self) -> npt.NDArray[np.bool_]:
        """Which columns are strongly skewed."""
        error = np.sqrt(6 / np.maximum(self.there, 1))
        return np.abs(self.skewness) > np.maximum(_SKEWED, _SKEW_ERRORS * error)

    @property
    def counts(self) -> npt.NDArray[np.bool_]:
        """Which columns hold counts: whole numbers from zero on, more than two different ones."""
        return self.whole & (self.lowest >= 0) & (self.distinct > 2)


def column_facts(X: FloatArray) -> Facts:
    """Look at each column of X (n, d), of which NaN are missing values."""
    n, d = X.shape
    kinds = {"there": int, "far": int, "distinct": int, "whole": bool}
    out: dict[str, Any] = {
        name: np.zeros(d, dtype=kinds.get(name, float)) for name in Facts._fields
    }
    # So far from the median, in deviations, no value of n·d Gaussian ones is; the quartiles of few
    # rows are inexact.
    limit = np.sqrt(2 * np.log(2 * max(n * d, 2))) * (1 + 4.7 / np.sqrt(max(n, 1)))

    def look(part: slice) -> None:
        for name, values in _facts_of(X[:, part], limit).items():
            out[name][part] = values

    threads = n_threads(None)
    parts = list(column_blocks(4 * threads * n, d))  # of a block there are many copies
    if len(parts) <= 1:
        threads = 1
    with ThreadPoolExecutor(threads, "bigdag") as pool:
        list(pool.map(look, parts))
    return Facts(**out)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # of values that a fit refuses
def _facts_of(X: FloatArray, limit: float) -> dict[str, npt.NDArray[Any]]:
    """Return what is known of each column of a part of a table, by the names of `Facts`."""
    n = len(X)
    block = np.sort(X, axis=0)  # NaN come last
    m = np.count_nonzero(~np.isnan(block), axis=0)
    missing = None if (m == n).all() else np.arange(n)[:, None] >= m
    last, at = np.maximum(m - 1, 0), np.arange(block.shape[1])
    low, middle, high = (
        block[np.rint(share * last).astype(int), at] for share in (0.25, 0.5, 0.75)
    )
    count = np.maximum(m, 1)

    def there(values: FloatArray) -> FloatArray:
        if missing is not None:
            values[missing] = 0.0
        return values

    mean = np.nansum(block, axis=0) / count if missing is not None else block.sum(axis=0) / count
    lowest, zeros = block[0], np.count_nonzero(block == 0, axis=0) / count
    deviations = there(block - mean)
    if missing is not None:
        block = np.where(missing, middle, block)
    spread = (high - low) / 1.349
    reach = np.where(spread > 0, limit * spread, np.inf)
    apart = block - middle
    size = np.abs(apart)
    unit = size.max(axis=0, initial=0.0)
    unit = np.where((unit > 0) & np.isfinite(unit), unit, 1.0)  # no square vanishes
    deviations /= unit
    near = there(np.clip(apart, -reach, reach) / unit)
    near -= near.sum(axis=0) / count
    near = there(near)
    squares = near * near
    second = squares.sum(axis=0) / count
    third = np.einsum("ij,ij->j", squares, near) / count
    return {
        "there": m, "centre": middle, "spread": spread, "lowest": lowest, "zeros": zeros,
        "far": np.count_nonzero(size > reach, axis=0),
        "deviation": unit * np.sqrt(np.einsum("ij,ij->j", deviations, deviations) / count),
        "skewness": np.where(second > 0, third / second**1.5, 0.0),
        "whole": (block == np.rint(block)).all(axis=0),
        "distinct": np.minimum(m, 1) + np.count_nonzero(block[1:] > block[:-1], axis=0),
    }  # fmt: skip


class Scale(NamedTuple):
    """A transform, and why."""

    transform: str  # "none", "rank" or "log1p"
    reason: str


def best_scale(
    X: FloatArray, facts: Facts | None = None, among: npt.NDArray[np.bool_] | None = None
) -> Scale:
    """Return the transform that a table X (n, d) needs, if any; `among` are the columns that count.

    Columns that are skewed or have far values are not harmful as such: linear relations with
    skewed noise are linear, and ranks would bend them. What is harmful shows in the relations of
    these columns with others. On the wrong scale, or with far values in single cells, a pair is
    less related than its ranks are; where whole rows are far away, pairs seem related that are not.
    So the values stay as they are where most pairs that are related by rank are more so by value,
    and no others seem to be. Else the ranks of all columns are taken, so that a monotone relation
    between any two stays simple. Counts take logarithms, where those relate them as ranks do.
    """
    facts = column_facts(X) if facts is None else facts
    n = len(X)
    among = np.ones(X.shape[1], dtype=bool) if among is None else among
    d = np.count_nonzero(among)
    odd = (facts.skewed | (facts.far > 0)) & (facts.distinct > 2) & among
    if not odd.any() or n < _FEWEST_ROWS:
        return Scale("none", "no column is strongly skewed or has far values")
    counts = facts.counts & among
    counted = 2 * np.count_nonzero(counts) > d
    counted &= 2 * np.count_nonzero(counts & odd) > np.count_nonzero(counts)
    counted &= bool((facts.lowest[among] > -1).all())
    found = _compared(X, odd, among, bool(counted))
    if counted and found.log >= _AS_STRONG * found.rank:
        return Scale("log1p", "most columns are counts, and skewed")
    several = np.count_nonzero(odd) > 1
    what = (
        f"{np.count_nonzero(odd):,} of {d:,} columns "
        f"{'are skewed or have' if several else 'is skewed or has'} far values"
    )
    linear = found.pairs >= _FEWEST_PAIRS and 2 * found.stronger > found.pairs
    if linear and found.made_up < _MADE_UP:
        whose = "their" if several else "its"
        return Scale("none", f"{what}, but {whose} relations with others are linear")
    return Scale("rank", what)


class _Compared(NamedTuple):
    """How strongly odd columns are related to others on each scale."""

    pairs: int  # that are related by rank
    stronger: int  # of these, by value more than by rank
    made_up: float  # the share of pairs unrelated by rank that are related by value
    rank: float  # the information in pairs that are related by rank, in nats
    log: float  # the same of logarithms


def _compared(
    X: FloatArray, odd: npt.NDArray[np.bool_], among: npt.NDArray[np.bool_], logs: bool
) -> _Compared:
    """Compare the scales on some of the columns (d,) that are odd, and some of the others."""
    rng = np.random.default_rng(0)
    n = len(X)
    rows = np.sort(rng.choice(n, _SOME_ROWS, replace=False)) if n > _SOME_ROWS else np.arange(n)
    columns = _some(np.flatnonzero(odd), _SOME_COLUMNS // 2, rng)
    rest = _some(np.setdiff1d(np.flatnonzero(among), columns), _SOME_COLUMNS - len(columns), rng)
    k, both = len(columns), np.concatenate([columns, rest])
    values = np.asfortranarray(X[np.ix_(rows, both)])
    ranks = values.copy(order="F")
    normal_scores(ranks)
    once = np.arange(len(both)) > np.arange(k)[:, None]  # each pair

    def squares(table: FloatArray) -> FloatArray:
        Z = _unit(table)
        return np.minimum((Z[:, :k].T @ Z)[once] ** 2, 0.9999)

    value, rank = squares(values), squares(ranks)
    log = squares(np.log1p(values)) if logs else np.zeros_like(rank)
    limit = _RELATED**2 / len(rows)
    by_rank, unrelated = rank > limit, rank < limit / 4
    made_up = float((value[unrelated] > limit).mean()) if unrelated.any() else 0.0
    stronger = int(np.count_nonzero(value[by_rank] > rank[by_rank]))
    information = [float(-np.log1p(-r[by_rank]).sum()) for r in (rank, log)]
    return _Compared(int(by_rank.sum()), stronger, made_up, *information)


def _some(
    columns: npt.NDArray[np.int64], most: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    return columns if len(columns) <= most else np.sort(rng.choice(columns, most, replace=False))


def _unit(values: FloatArray) -> FloatArray:
    """Return columns centred and of length 1; missing values and constant columns are zero."""
    there = ~np.isnan(values)
    filled = np.where(there, values, 0.0)
    filled -= filled.sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    filled[~there] = 0.0
    largest = np.abs(filled).max(axis=0)
    filled /= np.where(largest > 0, largest, 1.0)  # no square overflows
    length = np.linalg.norm(filled, axis=0)
    return filled / np.where(length > 0, length, 1.0)
