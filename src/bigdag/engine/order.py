"""What an order of the variables allows: each may have earlier ones as its parents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["project", "rank_of"]


def rank_of(order: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the place of each variable in an order.

    Examples
    --------
    >>> rank_of(np.array([2, 0, 1]))
    array([1, 2, 0])
    """
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


def project(W: ArrayLike | sp.sparray, order: NDArray[np.integer]) -> sp.csc_array:
    """Return W with only the arcs that go forward in the order.

    Examples
    --------
    >>> project(np.array([[0, 2.0], [3.0, 0]]), np.array([1, 0])).toarray()
    array([[0., 0.],
           [3., 0.]])
    """
    W = sp.csc_array(W)
    rank = rank_of(order)
    columns = np.repeat(np.arange(W.shape[1]), np.diff(W.indptr))
    keep = (rank[W.indices] < rank[columns]) & (W.data != 0)
    count = np.zeros(W.shape[1] + 1, dtype=W.indptr.dtype)
    np.cumsum(np.bincount(columns[keep], minlength=W.shape[1]), out=count[1:])
    return sp.csc_array((W.data[keep], W.indices[keep], count), shape=W.shape)
