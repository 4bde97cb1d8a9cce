"""Groups of rows that differ in many columns, as batches of a measurement do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bigdag.data.convert import FloatArray, column_blocks
from bigdag.data.transforms import normal_scores

__all__ = ["Intervals", "RowGroups", "row_groups"]

_COLUMNS, _ROWS = 1000, 500  # that are looked at
_COMPONENTS, _PURSUED = 5, 10  # leading components that are looked at, and in mixtures of
_STARTS, _STEPS = 6, 50  # of the search for a mixture
_SMALLEST = 0.05  # the share of rows of a group
# What is left of the variance of a Gaussian variable in the best 2, 3 and 4 intervals (Max 1960).
_GAUSSIAN_REST = {2: 0.3634, 3: 0.1902, 4: 0.1175}
_CLEAR = 0.5  # groups leave less than this share of that
_SHIFTED = 0.1  # the share of columns that groups must differ in


class RowGroups(NamedTuple):
    """Groups of rows that differ in the mean of many columns."""

    rows: npt.NDArray[np.int64]  # those that were looked at
    labels: npt.NDArray[np.int64]  # their groups
    shifted: npt.NDArray[np.bool_]  # which columns differ


def row_groups(
    X: FloatArray, columns: npt.NDArray[np.int64], skewed: npt.NDArray[np.bool_]
) -> RowGroups | None:
    """Find groups of rows along the leading components of the standardised columns.

    Relations between columns may have larger components than groups do. So mixtures of components
    are looked at, too, whose scores are as unlike a Gaussian's as groups make them. So are those of
    skewed columns: of these (d,) the ranks are taken.
    """
    n, d = X.shape
    if n < 20 or len(columns) < 3:
        return None
    rng = np.random.default_rng(0)
    rows = np.arange(n)
    if n > _ROWS:
        rows = np.sort(rng.choice(n, _ROWS, replace=False))
    some = columns
    if len(columns) > _COLUMNS:
        some = np.sort(rng.choice(columns, _COLUMNS, replace=False))
    Z = _standard(X[np.ix_(rows, some)], skewed[some])
    components = _components(Z)
    scores = np.hstack([components[:, -_COMPONENTS:], _pursued(components, rng)])
    best, labels = _CLEAR, None
    least = max(3, int(_SMALLEST * len(rows)))
    intervals = Intervals(len(rows), max(_GAUSSIAN_REST), least)
    tried = [intervals.of(score) for score in scores.T]
    for k, rest in _GAUSSIAN_REST.items():
        left, found = min((cuts[k - 2] for cuts in tried), key=lambda cut: cut[0])
        if left / rest < best:
            best, labels = left / rest / 2, found  # more groups must be clearer by far
    if labels is None:
        return None
    shifted = np.zeros(d, dtype=bool)
    for part in column_blocks(len(rows), len(columns)):
        at = columns[part]
        shifted[at] = _differ(_standard(X[np.ix_(rows, at)], skewed[at]), labels)
    if np.count_nonzero(shifted) < max(3, _SHIFTED * len(columns)):
        return None
    return RowGroups(rows, labels, shifted)


def _standard(values: FloatArray, skewed: npt.NDArray[np.bool_]) -> FloatArray:
    """Return columns of median 0 and spread 1, without far values; missing ones are 0.

    In place of skewed columns their normal scores are taken; the values change.
    """
    if skewed.any():
        scores = np.asfortranarray(values[:, skewed])
        normal_scores(scores)
        values[:, skewed] = scores
    low, middle, high = np.nanquantile(values, [0.25, 0.5, 0.75], axis=0)
    spread = (high - low) / 1.349
    Z = (values - middle) / np.where(spread > 0, spread, np.inf)
    Z = np.clip(np.where(np.isnan(Z), 0.0, Z), -3.0, 3.0)
    return Z - Z.mean(axis=0)


def _components(Z: FloatArray) -> FloatArray:
    """Return the scores (n, k) of the leading principal components."""
    k = min(_PURSUED, *Z.shape)
    if Z.shape[1] < len(Z):
        _, vectors = np.linalg.eigh(Z.T @ Z)
        return Z @ vectors[:, -k:]
    values, vectors = np.linalg.eigh(Z @ Z.T)
    return vectors[:, -k:] * np.sqrt(np.maximum(values[-k:], 0.0))


def _pursued(components: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return mixtures (n, m) of components (n, k) with the least kurtosis or the largest skewness.

    Two groups of like size have a kurtosis of 1 when they are far apart; one in five makes a
    column skewed. Each step is that of a fixed point, from random starts.
    """
    n = len(components)
    k = min(components.shape[1], n // 20)
    found = []
    if k > 1:
        W = components[:, -k:]
        spread = W.std(axis=0)
        W = W / np.where(spread > 0, spread, np.inf)
        for least_kurtosis in (True, False):
            for _ in range(_STARTS):
                w = rng.normal(size=k)
                for _ in range(_STEPS):
                    w /= np.linalg.norm(w)
                    y = W @ w
                    new = 3 * w - W.T @ y**3 / n if least_kurtosis else W.T @ y**2 / n
                    length = float(np.linalg.norm(new))
                    if length == 0 or abs(new @ w) > (1 - 1e-6) * length:
                        break
                    w = new
                found.append(W @ w)
    return np.column_stack(found) if found else np.empty((n, 0))


class Intervals:
    """The best cuts of n numbers into 2, 3, ... `most` intervals of `least` numbers or more.

    What does not depend on the numbers, and room for what does, is made once: (n + 1, n + 1), an
    interval by its end and its begin.

    Examples
    --------
    >>> (left, which), = Intervals(5, 2, 2).of(np.array([1.0, 8.0, 0.0, 9.0, 8.0]))
    >>> which.tolist(), round(left, 3)
    ([0, 1, 0, 1, 1], 0.016)
    """

    def __init__(self, n: int, most: int, least: int) -> None:
        self._most = most
        size = np.arange(n + 1)[:, None] - np.arange(n + 1)
        self._short = size < least
        self._per_number = 1.0 / np.maximum(size, 1)
        self._cost, self._sums = np.empty(size.shape), np.empty(size.shape)

    def of(self, score: FloatArray) -> list[tuple[float, npt.NDArray[np.int64]]]:
        """Return for each number of intervals the share of the variance left in the best ones.

        And the interval of each number.
        """
        order = np.argsort(score)
        x = score[order] - score.mean()
        n = len(x)
        first, second = np.concatenate([[0], np.cumsum(x)]), np.concatenate([[0], np.cumsum(x**2)])
        cost, sums = self._cost, self._sums
        np.subtract(first[:, None], first, out=cost)
        cost *= cost
        cost *= self._per_number
        np.subtract(second[:, None], second, out=sums)
        np.subtract(sums, cost, out=cost)
        cost[self._short] = np.inf
        whole = float(second[-1])
        total, cuts, found = cost[:, 0], [], []
        for k in range(2, self._most + 1):
            np.add(total, cost, out=sums)
            cuts.append(np.argmin(sums, axis=1))
            total = sums[np.arange(n + 1), cuts[-1]]
            labels, stop = np.zeros(n, dtype=np.int64), n
            for interval in range(k - 1, 0, -1):
                start = int(cuts[interval - 1][stop])
                labels[order[start:stop]] = interval
                stop = start
            found.append((float(total[n]) / whole if whole > 0 else np.inf, labels))
        return found


def _differ(Z: FloatArray, labels: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Tell which columns (n, d) differ in mean between groups, far beyond chance."""
    n, k = len(Z), int(labels.max()) + 1
    between = np.zeros(Z.shape[1])
    for group in range(k):
        rows = labels == group
        between += rows.sum() * (Z[rows].mean(axis=0) - Z.mean(axis=0)) ** 2
    whole = ((Z - Z.mean(axis=0)) ** 2).sum(axis=0)
    share = np.divide(between, whole, out=np.zeros_like(between), where=whole > 0)
    return share > (k - 1) * 16 / n
