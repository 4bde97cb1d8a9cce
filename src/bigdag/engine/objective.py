"""Equation (1): ``1/(2n)·‖XW − X‖² + lambda1·‖W‖₁`` with a zero diagonal, on a sparse W.

The loss falls apart into one term a column, so everything here is by column; sums are the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from bigdag.compiled import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram

__all__ = [
    "dual_bound",
    "gradient",
    "log_likelihood",
    "losses",
    "noise_variances",
    "on_correlation_scale",
    "value",
]

# A column with more parents than both, as a share of all variables (or of the geometric mean of
# variables and samples) and as a number, is so full that one matrix product is quicker than a loop
# over its parents.
_FULL_SHARE, _FULL_LEAST = 0.2, 64


def on_correlation_scale(gram: Gram, W: sp.sparray) -> sp.csc_array:
    """Return W for variables of unit variance: ``W[i, j] * sd[i] / sd[j]``.

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> gram = Gram(as_dataset([[-1.0, 20.0], [0.0, -10.0], [1.0, -10.0]]))
    >>> on_correlation_scale(gram, sp.csc_array([[0, 3.0], [0, 0]])).toarray().round(3)
    array([[0.   , 0.173],
           [0.   , 0.   ]])
    """
    W = sp.csc_array(W)
    columns = np.repeat(np.arange(gram.d), np.diff(W.indptr))
    scaled = W.data * gram.sd[W.indices] * gram.inverse_sd[columns]
    return sp.csc_array((scaled, W.indices, W.indptr), shape=W.shape)


def losses(gram: Gram, W: sp.sparray) -> NDArray[np.float64]:
    """Return each column's loss ``1/(2n)·‖X w_j − x_j‖²``, (d,).

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> gram = Gram(as_dataset([[-1.0, 2.0], [0.0, 0.0], [1.0, -2.0]]))
    >>> losses(gram, sp.csc_array([[0, -1.0], [0, 0]])).round(3)
    array([0.333, 0.333])
    """
    B = on_correlation_scale(gram, W)
    indptr, indices = B.indptr.astype(np.int64), B.indices.astype(np.int64)
    count = np.diff(indptr)
    width = gram.n_samples if _by_rows(gram) else gram.d
    full = (count > _FULL_SHARE * np.sqrt(gram.d * width)) & (count > _FULL_LEAST)
    if full.any():  # those by a matrix product, and the others as if these had no arcs
        by_product = _losses_by_product(gram, B, np.flatnonzero(full))
        keep = np.repeat(~full, count)
        indices, values = indices[keep], B.data[keep]
        indptr = np.concatenate([[0], np.cumsum(np.where(full, 0, count))])
    else:
        values = B.data
    source = gram.C if gram.C is not None else gram.Z
    kernel = _losses_from_gram if gram.C is not None else _losses_from_data
    pieces = gram.each(lambda a, b: kernel(source, indptr, indices, values, a, b), gram.d, 64)
    total = np.concatenate([np.empty(0), *pieces])
    if full.any():
        total[full] = by_product
    return total * gram.diag()


def _by_rows(gram: Gram) -> bool:
    """Tell whether a product with the rows is shorter than one with the correlations."""
    return gram.C is None or (gram.Z is not None and gram.n_samples < gram.d)


def _losses_by_product(
    gram: Gram, B: sp.csc_array, columns: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return half the squared residuals of columns with many parents, on the correlation scale."""
    out = []
    for block in gram.blocks(columns):
        dense = B[:, block].T.toarray()  # (k, d), a column's coefficients by row
        if _by_rows(gram):
            assert gram.Z is not None
            residual = gram.Z[block] - gram.product(dense, gram.Z)
            square = np.einsum("ij,ij->i", residual, residual)
        else:
            assert gram.C is not None
            left = gram.product(dense, gram.C)
            left -= 2 * gram.C[block]
            square = 1.0 + np.einsum("ij,ij->i", dense, left)
        out.append(0.5 * np.maximum(square, 0.0))
    return np.concatenate(out)


def value(gram: Gram, W: sp.sparray, lambda1: float) -> float:
    """Return equation (1).

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> gram = Gram(as_dataset([[-1.0, 2.0], [0.0, 0.0], [1.0, -2.0]]))
    >>> round(value(gram, sp.csc_array([[0, -1.0], [0, 0]]), 0.1), 3)
    0.767
    """
    return float(losses(gram, W).sum() + lambda1 * np.abs(sp.csc_array(W).data).sum())


def gradient(gram: Gram, W: sp.sparray, columns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the gradient of the loss, ``S(W − I)``, for some columns of W: row a is column a's.

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> gram = Gram(as_dataset([[-1.0, 2.0], [0.0, 0.0], [1.0, -2.0]]))
    >>> gradient(gram, sp.csc_array((2, 2)), np.array([1])).round(3)
    array([[ 1.333, -2.667]])
    """
    B = sp.csc_array(on_correlation_scale(gram, W)[:, columns])
    left = gram.residual_rows(
        columns, B.indptr.astype(np.int64), B.indices.astype(np.int64), B.data
    )
    return -left * gram.sd * gram.sd[columns][:, None]


def log_likelihood(X: NDArray[np.float64], W: sp.sparray, noise: NDArray[np.float64]) -> float:
    """Return the mean Gaussian log-likelihood of centred samples (n, d) with noise variances (d,).

    Variables without noise are left out.

    Examples
    --------
    >>> one = log_likelihood(np.array([[2.0, 2.0]]), sp.csc_array([[0, 1.0], [0, 0]]), np.ones(2))
    >>> round(float(one + np.log(2 * np.pi)), 3)
    -2.0
    """
    live = noise > 0
    square = np.mean((X - (W.T @ X.T).T)[:, live] ** 2, axis=0)
    return float(-0.5 * np.sum(np.log(2 * np.pi * noise[live]) + square / noise[live]))


def noise_variances(gram: Gram, losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what the columns' losses leave of their variances (d,)."""
    # A perfect fit leaves rounding; without a floor unseen data would have no likelihood.
    return np.maximum(2 * losses, 1e-12 * gram.diag())


# ------------------------------------------------------------------ compiled kernels


@kernel(inside=True, _nrt=False)
def dual_bound(inner, square, limit):  # type: ignore[no-untyped-def]
    """Return the best lower bound of a lasso problem along its residual r.

    That is s·zᵀr − s²/2·|r|² over |s| <= limit, where the limit keeps s·r feasible:
    ``inner`` is zᵀr and ``square`` is |r|².

    Examples
    --------
    >>> dual_bound(1.0, 0.5, 1.0)
    0.75
    """
    factor = inner / square if square > 0.0 else 1.0
    factor = max(-limit, min(limit, factor))
    return factor * inner - 0.5 * factor * factor * square


@kernel
def _losses_from_gram(C, indptr, indices, values, first, last):  # type: ignore[no-untyped-def]
    """Return half the squared residual of columns first..last, from the correlations."""
    out = np.empty(last - first)
    for j in range(first, last):
        total = 1.0
        for e in range(indptr[j], indptr[j + 1]):
            row = C[indices[e]]
            inner = 0.0
            for f in range(indptr[j], indptr[j + 1]):
                inner += row[indices[f]] * values[f]
            total += values[e] * (inner - 2.0 * row[j])
        out[j - first] = 0.5 * max(total, 0.0)
    return out


@kernel(fastmath=True)
def _losses_from_data(Z, indptr, indices, values, first, last):  # type: ignore[no-untyped-def]
    """Return half the squared residual of columns first..last, from the unit-length rows of Z."""
    out = np.empty(last - first)
    for j in range(first, last):
        r = Z[j].copy()
        for e in range(indptr[j], indptr[j + 1]):
            row, value = Z[indices[e]], values[e]
            for i in range(len(r)):
                r[i] -= value * row[i]
        out[j - first] = 0.5 * np.dot(r, r)
    return out
