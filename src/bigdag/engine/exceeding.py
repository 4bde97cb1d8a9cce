"""Which inner products of rows exceed a limit, without an array of all of them.

Tiles of the products are computed in float32, at the speed of a matrix product, and looked through
while they are in the processor's cache. What may exceed its limit, given the error that float32
can make, is computed again in float64 and decided there: the answer is that of float64. Each row
is compared with a first part of the columns only, so that half of a matrix takes half of its time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bigdag.compiled import kernel
from bigdag.engine.executor import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram

__all__ = [
    "Pairs",
    "Residuals",
    "exceeding",
    "exceeding_memory",
    "inner_products",
    "single_precision_error",
]

_ROWS = 512  # of a tile
_COLUMNS = 1024  # of a tile: 2 MB of products
_COPIED = 2**16  # columns up to which a copy of all of them is made in the tiles' precision
_TILES = 4  # one below the other, that share the columns where there is no such copy
_STRIPS = 32  # of rows there should be, at least
_NOTHING = 1e-12  # share of a variance left that counts as nothing left
_DOUBLE = 0.25  # of a limit: where float32 may err by more, the tiles are float64


class Pairs(NamedTuple):
    """Pairs of a row and a column, and their inner product.

    Attributes
    ----------
    row : ndarray of int64
        Places in the list of rows, ascending.
    column : ndarray of int64
        Variables.
    value : ndarray of float64
        Their inner products.
    """

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    value: NDArray[np.float64]


@dataclass(frozen=True)
class Residuals:
    """What regressions leave of some variables, as rows of unit length, made when asked for.

    Attributes
    ----------
    begins, ends, indices, values : ndarray
        The coefficients of variable v are ``values[begins[v]:ends[v]]``, on the rows in
        ``indices``.
    variables : ndarray of shape (k,)
        The variables.

    Examples
    --------
    >>> Z = np.array([[0.6, 0.8], [1.0, 0.0]])
    >>> coefficients = np.array([1]), np.array([0.6])
    >>> Residuals(np.array([0, 1]), np.array([1, 1]), *coefficients, np.array([0]))(Z, 0, 1)
    array([[0., 1.]])
    """

    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    indices: NDArray[np.integer]
    values: NDArray[np.float64]
    variables: NDArray[np.int64]

    def __call__(self, Z: NDArray[np.float64], first: int, last: int) -> NDArray[np.float64]:
        """Return the residuals of variables first to last; zero where only rounding is left."""
        return _unit_residuals(
            Z, self.begins, self.ends, self.indices, self.values, self.variables[first:last]
        )


def single_precision_error(n: int) -> float:
    """Return a bound on the error of an inner product of two rows of unit length in float32.

    It holds for any sequence of the sums: (n + 3) units of rounding, one for each of the factors.

    Examples
    --------
    >>> round(single_precision_error(1000), 6)
    6e-05
    """
    return (n + 3) * 2.0**-24 * (1 + 1e-3)


def exceeding(
    gram: Gram,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    limits: NDArray[np.float64],
    ends: NDArray[np.int64],
    left: Callable[[NDArray[np.float64], int, int], NDArray[np.float64]] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Pairs | None:
    """Return the pairs whose inner product exceeds the row's limit in size.

    Parameters
    ----------
    gram : Gram
        The second moments; it has the variables as rows of unit length.
    rows : ndarray of shape (k,)
        Variables.
    columns : ndarray of shape (m,)
        Variables.
    limits : ndarray of shape (k,)
        Of each row; above zero.
    ends : ndarray of shape (k,)
        How many of the columns each row is compared with, from the first one on; ascending.
    left : callable, optional
        ``left(Z, a, b)`` returns rows a to b in place of those of the variables (b - a, n), none of
        them longer than 1, such as `Residuals`.
    stop : callable, optional
        True ends the work.

    Returns
    -------
    Pairs or None
        By row, and by column in their given sequence; None where a stop came first.

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> x = np.arange(6.0)
    >>> gram = Gram(as_dataset(np.column_stack([x, -x, [0, 1, 0, 0, 1, 0]])), hold=False)
    >>> everyone = np.arange(3)
    >>> found = exceeding(gram, everyone, everyone, np.full(3, 0.5), everyone)
    >>> found.row, found.column, found.value.round(3)
    (array([1]), array([0]), array([-1.]))
    """
    assert gram.Z is not None
    error = single_precision_error(gram.n_samples)
    single = bool(error <= _DOUBLE * limits.min(initial=np.inf))
    loose = np.maximum(limits - (error if single else 1e-9), 0.0)
    strips = _Strips(rows, columns, limits, loose, ends, left, single)
    tiles = 1 if _is_copied(gram.d) else max(1, min(_TILES, len(rows) // (_STRIPS * _ROWS)))
    found = gram.spread(strips, len(rows), tiles * _ROWS, stop)[::-1]  # the longest strips first
    if any(piece is None for piece in found):
        return None
    return Pairs(*(np.concatenate([empty, *part]) for empty, part in zip(
        (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0)),
        zip(*found) if found else ((), (), ()),
    )))  # fmt: skip


def exceeding_memory(n: int, d: int, threads: int = 2) -> int:
    """Return about the bytes that `exceeding` takes beside the moments and what it finds.

    Examples
    --------
    >>> exceeding_memory(1000, 20_000)
    96482304
    >>> exceeding_memory(1000, 1_000_000)
    61538304
    """
    if _is_copied(d):
        return 4 * n * d + threads * _ROWS * (4 * _COLUMNS + 12 * n)
    return threads * (_ROWS * (4 * _COLUMNS + _TILES * 12 * n) + 4 * _COLUMNS * n)


def _is_copied(d: int) -> bool:
    """Tell whether columns are copied in the precision of the tiles, where there are d variables.

    A copy of more would take much memory. They are converted for each strip of rows instead; strips
    of several tiles make that a small part of the work.
    """
    return d <= _COPIED


def _in(kind: type, Z: NDArray[np.float64], columns: NDArray[np.int64]) -> NDArray[np.floating]:
    """Return some rows of Z in another precision, without a copy of them in float64."""
    out: NDArray[np.floating] = np.empty((len(columns), Z.shape[1]), dtype=kind)
    _convert(Z, columns, out)
    return out


@dataclass(frozen=True)
class _Strips(Task):
    """The pairs of strips of rows, counted from the last one."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    limits: NDArray[np.float64]
    loose: NDArray[np.float64]
    ends: NDArray[np.int64]
    left: Callable[[NDArray[np.float64], int, int], NDArray[np.float64]] | None
    single: bool

    @property
    def precision(self) -> type:
        """That of the tiles."""
        return np.float32 if self.single else np.float64

    def prepare(self, gram: Gram) -> NDArray[np.floating] | None:
        """Return the columns in the precision of the tiles, where they are copied."""
        assert gram.Z is not None
        return _in(self.precision, gram.Z, self.columns) if _is_copied(gram.d) else None

    def piece(
        self,
        gram: Gram,
        prepared: NDArray[np.floating] | None,
        first: int,
        last: int,
        stop: Callable[[], bool] | None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]] | None:
        """Return the pairs of some rows; None where a stop came first."""
        Z, ends = gram.Z, self.ends
        assert Z is not None
        first, last = len(self.rows) - last, len(self.rows) - first
        exact = Z[self.rows[first:last]] if self.left is None else self.left(Z, first, last)
        own: NDArray[np.floating] = exact.astype(self.precision)
        tile: NDArray[np.floating] = np.empty(min(_ROWS, last - first) * _COLUMNS, self.precision)
        hits = []
        most = int(ends[last - 1])
        for begin in range(0, most, _COLUMNS):
            if stop is not None and stop():
                return None
            end = min(begin + _COLUMNS, most)
            some = self.columns[begin:end]
            right = _in(self.precision, Z, some) if prepared is None else prepared[begin:end]
            for a in range(0, last - first, _ROWS):
                b = min(a + _ROWS, last - first)
                if ends[first + b - 1] <= begin:
                    continue
                out = tile[: (b - a) * (end - begin)].reshape(b - a, end - begin)
                np.matmul(own[a:b], right.T, out=out)
                row, column = _above(
                    out, self.loose[first + a : first + b], ends[first + a : first + b], begin
                )
                hits.append((a + row, column))
        at, to = (
            np.concatenate([np.empty(0, dtype=np.int64), *(h[i] for h in hits)]) for i in (0, 1)
        )
        sequence = np.lexsort((to, at))
        at, to = at[sequence], self.columns[to[sequence]]
        value = inner_products(exact, Z, at, to)
        keep = np.abs(value) > self.limits[first + at]
        return first + at[keep], to[keep], value[keep]


@kernel
def _convert(Z, rows, out):  # type: ignore[no-untyped-def]
    """Write some rows of Z to out."""
    for a in range(len(rows)):
        own, row = Z[rows[a]], out[a]
        for s in range(len(own)):
            row[s] = own[s]


@kernel(fastmath=True)
def _unit_residuals(Z, begins, ends, indices, values, variables):  # type: ignore[no-untyped-def]
    n = Z.shape[1]
    out = np.empty((len(variables), n))
    for a in range(len(variables)):
        v, row = variables[a], out[a]
        own = Z[v]
        for s in range(n):
            row[s] = own[s]
        for e in range(begins[v], ends[v]):
            other, value = Z[indices[e]], values[e]
            for s in range(n):
                row[s] -= value * other[s]
        square = 0.0
        for s in range(n):
            square += row[s] * row[s]
        factor = 1.0 / np.sqrt(square) if square > _NOTHING else 0.0
        for s in range(n):
            row[s] *= factor
    return out


@kernel
def _above(tile, limits, ends, begin):  # type: ignore[no-untyped-def]
    """Return rows and columns of the entries above their row's limit, before the row's end."""
    total = 0
    row, column = np.empty(64, dtype=np.int64), np.empty(64, dtype=np.int64)
    for a in range(len(tile)):
        entries = tile[a, : max(0, min(tile.shape[1], ends[a] - begin))]
        limit = tile.dtype.type(limits[a])
        count = 0
        for i in range(len(entries)):
            count += abs(entries[i]) >= limit
        if count == 0:
            continue
        while total + count > len(row):
            row, column = _wider(row), _wider(column)
        for i in range(len(entries)):
            if abs(entries[i]) >= limit:
                row[total], column[total] = a, begin + i
                total += 1
    return row[:total].copy(), column[:total].copy()


@kernel(inside=True)
def _wider(entries):  # type: ignore[no-untyped-def]
    out = np.empty(2 * len(entries), dtype=entries.dtype)
    for i in range(len(entries)):
        out[i] = entries[i]
    return out


@kernel(fastmath=True)
def inner_products(left, Z, at, to):  # type: ignore[no-untyped-def]
    """Return the inner products of rows ``at`` of left with rows ``to`` of Z.

    Examples
    --------
    >>> inner_products(np.eye(2), np.array([[3.0, 4.0]]), np.array([1]), np.array([0]))
    array([4.])
    """
    out = np.empty(len(at))
    for e in range(len(at)):
        one, two = left[at[e]], Z[to[e]]
        total = 0.0
        for s in range(len(one)):
            total += one[s] * two[s]
        out[e] = total
    return out
