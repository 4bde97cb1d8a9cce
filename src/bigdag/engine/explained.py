"""R² of each variable on all others, with one d × d array at the most.

``R²_j = 1 - 1 / (C⁻¹)_jj`` with the correlation matrix C. With as many variables as samples or
more every R² would be 1; then C is shrunk towards the identity as Ledoit and Wolf (2004) do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack, solve_triangular

from bigdag.engine.executor import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram

__all__ = ["r_squared_memory", "r_squared_of_correlations", "r_squared_of_rows"]

_RIDGE = 1e-12  # keeps exact copies of a variable from breaking the factorisation
_LEAST_SHRINKAGE = 1e-6
_BLOCK = 2**20  # values of the rows that are worked on at a time
_STRIP = 128  # rows of the samples' inner products that are a piece


def r_squared_memory(n: int, d: int, threads: int = 2) -> int:
    """Return about the bytes that R² of n samples and d variables takes beside the rows.

    Examples
    --------
    >>> r_squared_memory(1000, 500)
    2000000
    """
    if n > d:
        return 8 * d * d
    return 12 * n * n + 4 * 8 * min(n * d, threads * _BLOCK)  # blocks, and what is made of them


def r_squared_of_rows(Z: NDArray[np.float64], gram: Gram | None = None) -> NDArray[np.float64]:
    """Return the R² of each row, (d,).

    Parameters
    ----------
    Z : ndarray of shape (d, n)
        The variables as rows of mean zero and unit length; a row of zeros has R² 0.
    gram : Gram, optional
        Of these rows; whoever does the pieces of its work does those of this one.

    Examples
    --------
    >>> Z = np.array([[1.0, -1.0, 0.0, 0.0], [1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
    >>> r_squared_of_rows(Z / np.sqrt(2)).round(6)
    array([1., 1., 0.])
    """
    d, n = Z.shape
    varies = Z.any(axis=1)
    d_live = int(varies.sum())
    if n > d_live:
        return r_squared_of_correlations(Z @ Z.T, n, overwrite=True)
    inner = Z.T @ Z if gram is None else _inner(gram)  # (n, n), with the sum of squares of C
    size, diagonal = float(np.vdot(inner, inner)), np.diag(inner)
    noise = float(np.sum(np.square(diagonal))) - size / n
    ridge = _shrinkage(noise, size, d_live)
    inner *= 1 - ridge
    inner.flat[:: n + 1] += ridge
    factor = _cholesky(inner)
    # Woodbury: the inverse of ridge I + (1 - ridge) C by way of n x n.
    step = max(1, _BLOCK // n)
    if gram is None:
        found = [_squares(factor, Z[a : a + step]) for a in range(0, d, step)]
    else:
        found = [part[0] for part in gram.spread(_Squares(factor), d, step) if part is not None]
    inverse = (1 - (1 - ridge) * np.concatenate(found)) / ridge
    return np.where(varies, np.maximum(1 - 1 / inverse, 0.0), 0.0)


def r_squared_of_correlations(
    C: NDArray[np.float64], n: int, overwrite: bool = False
) -> NDArray[np.float64]:
    """Return R² from correlations of n samples, (d,).

    With no more samples than variables the noise of normal samples is taken for Ledoit and Wolf's
    weight, as the samples themselves are not known.

    Parameters
    ----------
    C : ndarray of shape (d, d)
        The correlations; zero rows and columns for constant variables.
    n : int
        The number of samples.
    overwrite : bool, default=False
        Whether C may be changed in place.

    Examples
    --------
    >>> r_squared_of_correlations(np.array([[1.0, 0.6], [0.6, 1.0]]), 100).round(2)
    array([0.36, 0.36])
    """
    A = C if overwrite else C.copy()
    d = len(A)
    varies = np.diag(A) > 0
    d_live = int(varies.sum())
    if n > d_live:
        ridge = _RIDGE
    else:
        size = float(np.vdot(A, A))
        ridge = _shrinkage((d_live**2 + size) / n, size, d_live)
        A *= 1 - ridge
    A.flat[:: d + 1] += ridge
    A.flat[:: d + 1] += ~varies  # alone and of unit variance
    factor = _cholesky(A)
    inverse, failed = lapack.dtrtri(factor, lower=1, overwrite_c=1)
    assert not failed
    squares = np.empty(d)
    step = max(1, _BLOCK // max(d, 1))
    for a in range(0, d, step):  # below the diagonal: what is above it is not the inverse's
        part = np.tril(inverse[:, a : a + step], -a)
        squares[a : a + step] = np.einsum("ij,ij->j", part, part)
    return np.where(varies, np.maximum(1 - 1 / squares, 0.0), 0.0)


def _inner(gram: Gram) -> NDArray[np.float64]:
    """Return ZᵀZ (n, n), by strips of its lower half, the longest first."""
    n = gram.n_samples
    inner = np.empty((n, n))
    for number, part in enumerate(gram.spread(_Inner(), n, _STRIP)):
        assert part is not None
        b = n - number * _STRIP
        a = max(0, b - _STRIP)
        inner[a:b, :b] = part[0]
        inner[:a, a:b] = part[0][:, :a].T
    return inner


@dataclass(frozen=True)
class _Inner(Task):
    """The inner products of samples, in strips counted from the last one."""

    def piece(
        self,
        gram: Gram,
        prepared: None,  # noqa: ARG002
        first: int,
        last: int,
        stop: Callable[[], bool] | None,  # noqa: ARG002
    ) -> tuple[NDArray[np.float64]]:
        """Return those of some samples with all up to the last of them."""
        assert gram.Z is not None
        a, b = gram.n_samples - last, gram.n_samples - first
        return (gram.Z[:, a:b].T @ gram.Z[:, :b],)


@dataclass(frozen=True)
class _Squares(Task):
    """The squared lengths of rows after a triangular factor of (n, n) is divided out."""

    factor: NDArray[np.float64]

    def piece(
        self,
        gram: Gram,
        prepared: None,  # noqa: ARG002
        first: int,
        last: int,
        stop: Callable[[], bool] | None,  # noqa: ARG002
    ) -> tuple[NDArray[np.float64]]:
        """Return those of some rows."""
        assert gram.Z is not None
        return (_squares(self.factor, gram.Z[first:last]),)


def _squares(factor: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    half = solve_triangular(factor, rows.T, lower=True, check_finite=False)
    return np.asarray(np.sum(np.square(half), axis=0))


def _shrinkage(noise: float, size: float, d: int) -> float:
    """Return Ledoit and Wolf's weight of the identity for correlations with a sum of squares."""
    weight = min(1.0, noise / (size - d)) if size > d else 1.0
    return max(weight, _LEAST_SHRINKAGE)


def _cholesky(A: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the lower factor of a symmetric matrix, which is overwritten."""
    factor, failed = lapack.dpotrf(A.T, lower=1, overwrite_a=1, clean=0)  # A.T: Fortran order
    if failed:
        raise np.linalg.LinAlgError("the correlations are not positive definite")
    return factor
