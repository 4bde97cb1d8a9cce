"""Columns that are copies of each other, exactly or nearly, up to a factor and a shift."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from bigdag.data.convert import FloatArray, column_blocks

__all__ = ["NEARLY", "Copies", "copies_by_projections", "find_copies", "near_copies"]

# Two columns of length 1 that are no further apart than this are copies of each other ...
_ROUNDING = 1e-9
# ... or than this, where the values came in single precision.
_SINGLE = 1e-6
_DIRECTIONS = 3  # random ones that columns are projected on
_MARGIN = 10.0  # projections of copies are apart by this many tolerances at most: 10 deviations


# Two columns whose correlation is larger in size are nearly the same: the rest is a seventieth of
# a standard deviation.
NEARLY = 0.9999
# Causes and effects that are so near have other relatives near to both; copies, unless they are
# exact, are nearer to each other than to any other column by this factor of the variance left.
_ALONE = 50.0
_EXACT = 1e-6  # the share of variance that exact copies may differ by, as by rounding
_SKETCH = 12  # random directions that near copies are looked for in
_FEW_POINTS = 1000  # up to here all distances are computed
_FEWEST = 10  # rows, below which near copies are mere chance
# Copies with missing values are looked for in few rows at a time, where both may be whole: in so
# many rows, so often at the most, and so that one in a hundred pairs is missed.
_GAP_ROWS, _GAP_DRAWS, _GAP_MISSED = 6, 64, 0.01
_GAP_RADIUS = 0.04  # of near copies, centred and of length 1, in these rows
_GAP_CROWD = 100  # columns around one that tell nothing any more
_GAP_LOOKS = 100  # columns with missing values that are compared with all others, at the most


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
    at, run = _runs(keys)
    if not len(at):
        return Copies(0, 0, [])
    columns = live[at]
    compare = _Comparison(X, mean, columns, norm[columns] * sign[at])
    return _joined(columns, run, compare.__call__, shown)


def copies_by_projections(
    projections: FloatArray, norm: FloatArray, single: npt.NDArray[np.bool_], shown: int
) -> Copies:
    """Find copies among columns of which only projections are known, and those that are constant.

    Parameters
    ----------
    projections : ndarray of shape (k, d)
        Of the centred columns, on random directions of variance 1: eight or so, by which columns
        that are no copies fall together hardly ever.
    norm : ndarray of shape (d,)
        The length of the centred columns; zero for a constant one.
    single : ndarray of shape (d,)
        Whether all values of a column are numbers of single precision.
    shown : int
        The number of groups that are named.

    Examples
    --------
    >>> X = np.array([[-1.0, 2.0, -3.0], [0.0, -1.0, 0.0], [1.0, -1.0, 3.0]])
    >>> projections = np.random.default_rng(0).normal(size=(8, 3)) @ X
    >>> norm = np.linalg.norm(X, axis=0)
    >>> copies_by_projections(projections, norm, np.zeros(3, dtype=bool), shown=3).first
    [[0, 2]]
    """
    live = np.flatnonzero(norm)
    keys = projections[:, live] / norm[live]
    keys *= np.where(keys[0] < 0, -1.0, 1.0)
    at, run = _runs(keys)
    if not len(at):
        return Copies(0, 0, [])

    def same(some: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        one, other = at[some], at[others]
        apart = np.abs(keys[:, one] - keys[:, other]).max(axis=0, initial=0.0)
        near = single[live[one]] & single[live[other]] & (apart <= _MARGIN * _SINGLE)
        return np.asarray((apart <= _MARGIN * _ROUNDING) | near)

    return _joined(live[at], run, same, shown)


def _runs(keys: FloatArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the columns that fall together with others in all keys (k, d), and their runs."""
    at = np.arange(keys.shape[1])
    run = np.zeros(len(at), dtype=np.int64)
    for key in keys:
        if not len(at):
            break
        order = np.lexsort((key[at], run))
        at, run = at[order], run[order]
        ends = (np.diff(run) != 0) | (np.diff(key[at]) > _MARGIN * _SINGLE)
        run = np.concatenate([[0], np.cumsum(ends)])
        several = np.bincount(run)[run] > 1
        at, run = at[several], run[several]
    return at, run


def _joined(
    columns: npt.NDArray[np.int64],
    run: npt.NDArray[np.int64],
    same: Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], npt.NDArray[np.bool_]],
    shown: int,
) -> Copies:
    """Gather the columns in each run that are the same, by their places."""
    sizes = np.bincount(run)
    middle = np.cumsum(sizes) - sizes + sizes // 2
    # Most are copies of the one in the middle of their run; of the others, each of the next.
    joined = same(np.arange(len(run)), middle[run])
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


# ------------------------------------------------------------------ near copies


def near_copies(X: FloatArray) -> list[list[int]]:
    """Return groups of columns of X (n, d) that are nearly the same, up to a factor and a shift.

    Each column of a group has a correlation of 0.9999 or more, in size, with the one that stands
    first, which misses the fewest values. If it is no exact copy, no column outside of the group
    is nearly as near: in graphs with many arcs, whole families are. Copies are looked for among
    columns whose projections on random directions are near to each other, so that no more pairs
    are compared than needed; those with missing values also among columns that are near to each
    other in a few rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(2, 50))
    >>> near_copies(np.column_stack([x, y, 3 - 2 * x + 1e-4 * y]))
    [[0, 2]]
    """
    n, d = X.shape
    if n < _FEWEST or d < 2:
        return []
    directions = np.random.default_rng(0).normal(size=(_SKETCH, n))
    sketch, live = np.zeros((d, _SKETCH)), np.zeros(d, dtype=bool)
    gone = np.zeros(d, dtype=np.int64)
    for part in column_blocks(n, d):
        Z, length = _unit_columns(X[:, part])
        live[part] = length > 0
        gone[part] = np.isnan(X[:, part]).sum(axis=0)
        sketch[part] = (directions @ Z).T
    columns = np.flatnonzero(live)
    if len(columns) < 2:
        return []
    points = sketch[columns]
    points_near = _near_points(points)
    # The projections of a vector of length a are a vector of length a·(√12 + 3) at the most.
    radius = float(np.sqrt(2 * (1 - NEARLY)) * (np.sqrt(_SKETCH) + 3))
    near = points_near.count(points, radius) - 1
    near += points_near.count(-points, radius)
    gaps = _around_gaps(X, columns) if gone[columns].any() else {}
    near[list(gaps)] += 1
    suspects = np.flatnonzero(near > 0)
    suspects = suspects[np.lexsort((suspects, gone[columns[suspects]]))]
    taken = np.zeros(len(columns), dtype=bool)
    groups, looks = [], 0
    for at in suspects.tolist():
        if taken[at]:
            continue
        around = points_near.around(points[at], radius)
        around |= points_near.around(-points[at], radius) | gaps.get(at, set())
        others = np.array(sorted(k for k in around if k != at and not taken[k]), dtype=np.int64)
        first = columns[at]
        left = {k: _left(X[:, first], X[:, columns[k]]) for k in others.tolist()}
        same = [k for k, share in left.items() if share <= 1 - NEARLY**2]
        vague = max((left[k] for k in same), default=0.0)
        if vague > _EXACT:
            wider = float(radius * np.sqrt(_ALONE))
            around = points_near.around(points[at], wider)
            around |= points_near.around(-points[at], wider)
            rest = (_left(X[:, first], X[:, columns[k]]) for k in around - {at, *same})
            nearest = min(rest, default=1.0)
            if at in gaps:  # projections do not tell what is near to it
                looks += 1
                nearest = 0.0
                if looks <= _GAP_LOOKS:
                    left_by = _left_by_all(X, first)
                    left_by[columns[[at, *same]]] = 1.0
                    nearest = float(left_by.min())
            same = [k for k in same if left[k] <= max(_EXACT, nearest / _ALONE)]
        if same:
            taken[[at, *same]] = True
            groups.append([int(first), *columns[same].tolist()])
    return sorted(groups)


class _Points(Protocol):
    """Points that tell which of them are near to others."""

    def count(self, others: FloatArray, radius: float) -> npt.NDArray[np.int64]:
        """Return how many points are within the radius of each of others (m, dimensions)."""

    def around(self, other: FloatArray, radius: float) -> set[int]:
        """Return which points are within the radius of another one."""


def _near_points(points: FloatArray) -> _Points:
    """Return a way to look for near ones among points (m, dimensions): a tree where it pays."""
    return _FewPoints(points) if len(points) <= _FEW_POINTS else _Tree(points)


class _FewPoints:
    """All distances: quicker than to load a library that makes a tree."""

    def __init__(self, points: FloatArray) -> None:
        self._points = points

    def _squares(self, other: FloatArray) -> FloatArray:
        return ((self._points - other) ** 2).sum(axis=1)

    def count(self, others: FloatArray, radius: float) -> npt.NDArray[np.int64]:
        within = (np.count_nonzero(self._squares(other) <= radius**2) for other in others)
        return np.fromiter(within, np.int64, len(others))

    def around(self, other: FloatArray, radius: float) -> set[int]:
        return {*np.flatnonzero(self._squares(other) <= radius**2).tolist()}


class _Tree:
    """A k-d tree of SciPy."""

    def __init__(self, points: FloatArray) -> None:
        from scipy.spatial import KDTree

        self._tree = KDTree(points)

    def count(self, others: FloatArray, radius: float) -> npt.NDArray[np.int64]:
        return np.asarray(self._tree.query_ball_point(others, radius, return_length=True))

    def around(self, other: FloatArray, radius: float) -> set[int]:
        return {*self._tree.query_ball_point(other, radius)}


def _around_gaps(X: FloatArray, columns: npt.NDArray[np.int64]) -> dict[int, set[int]]:
    """Return the columns, by place, that are near to each other in few rows that both have.

    Columns with equal values in these rows are passed over: many are alike there by chance.
    """
    n = len(X)
    share = np.array([np.count_nonzero(~np.isnan(X[:, j])) / n for j in columns.tolist()])
    whole = float(np.quantile(share, 0.1)) ** (2 * _GAP_ROWS)  # of two columns with many gaps
    draws = int(np.log(_GAP_MISSED) / np.log1p(-min(whole, 1 - _GAP_MISSED))) + 1 if whole else 0
    rng = np.random.default_rng(0)
    found: dict[int, set[int]] = {}
    for _ in range(min(max(draws, 1), _GAP_DRAWS)):
        rows = rng.choice(n, _GAP_ROWS, replace=False)
        values = X[np.ix_(rows, columns)]
        ordered = np.sort(values, axis=0)
        live = np.flatnonzero((np.diff(ordered, axis=0) > 0).all(axis=0))  # no NaN, none twice
        Z, length = _unit_columns(values[:, live])
        live, Z = live[length > 0], Z[:, length > 0]
        if len(live) < 2:
            continue
        Z *= np.sign(Z[np.abs(Z).argmax(axis=0), np.arange(len(live))])
        points = np.ascontiguousarray(Z.T)
        crowd = _near_points(points).count(points, _GAP_RADIUS)
        some = np.flatnonzero((crowd > 1) & (crowd <= _GAP_CROWD))
        close = _near_points(points[some])
        for one, a in enumerate(live[some].tolist()):
            for b in live[some[list(close.around(points[some[one]], _GAP_RADIUS))]].tolist():
                if a != b and (share[a] < 1 or share[b] < 1):
                    found.setdefault(a, set()).add(b)
    return found


def _left_by_all(X: FloatArray, j: int) -> FloatArray:
    """Return what each column (d,) leaves of the variance of one, in the rows that both have."""
    n, d = X.shape
    left = np.ones(d)
    for part in column_blocks(n, d):
        block = X[:, part]
        both = ~np.isnan(block) & ~np.isnan(X[:, j])[:, None]
        Z, length = _unit_columns(np.where(both, block, np.nan))
        mine, own = _unit_columns(np.where(both, X[:, [j]], np.nan))
        telling = (both.sum(axis=0) >= _FEWEST) & (length > 0) & (own > 0)
        left[part] = np.where(telling, 2 * (1 - np.abs((Z * mine).sum(axis=0))), 1.0)
    return np.clip(left, 0.0, 1.0)


def _unit_columns(block: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return columns centred and of length 1, zero where a value is missing, and what that was.

    The length is that of the column divided by its largest value, zero for a constant one.
    """
    known = ~np.isnan(block)
    count = np.maximum(known.sum(axis=0), 1)
    filled = np.where(known, block, 0.0)
    largest = np.abs(filled).max(axis=0)
    filled /= np.where(largest > 0, largest, 1.0)  # no square overflows or vanishes
    filled -= filled.sum(axis=0) / count
    filled[~known] = 0.0
    length = np.linalg.norm(filled, axis=0)
    length[length <= 1e-13 * np.sqrt(count)] = 0.0
    filled /= np.where(length > 0, length, 1.0)
    return filled, length


def _left(one: FloatArray, other: FloatArray) -> float:
    """Return the share of variance of one column that another leaves."""
    both = ~(np.isnan(one) | np.isnan(other))
    if np.count_nonzero(both) < _FEWEST:
        return 1.0
    Z, length = _unit_columns(np.column_stack([one[both], other[both]]))
    if not length.all():  # constant where both are there, which tells nothing
        return 1.0
    apart = [float(np.sum((Z[:, 0] + sign * Z[:, 1]) ** 2)) for sign in (-1.0, 1.0)]
    return min(1.0, *apart)
