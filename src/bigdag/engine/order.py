"""What an order of the variables allows, and numbers put in order inside of compiled code.

Numpy selects and sorts too, but takes seconds to compile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from bigdag.compiled import kernel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["nth_least", "project", "rank_of", "sort_with"]


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


@kernel(inside=True, _nrt=False)
def nth_least(values, count, n):  # type: ignore[no-untyped-def]
    """Return the n-th least of the first ``count`` values, from zero; they are rearranged.

    Examples
    --------
    >>> float(nth_least(np.array([3.0, 1.0, 2.0]), 3, 1))
    2.0
    """
    low, high = np.int64(0), np.int64(count - 1)
    while low < high:
        # The middle one of three, so that values in order are not the worst case.
        first, middle, last = values[low], values[(low + high) // 2], values[high]
        pivot = max(min(first, middle), min(max(first, middle), last))
        left, right = low, high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if n <= right:
            high = right
        elif n >= left:
            low = left
        else:
            break
    return values[n]


@kernel(inside=True, _nrt=False)
def sort_with(keys, names, count):  # type: ignore[no-untyped-def]
    """Sort the first ``count`` keys, and their names with them, in place; a shell sort.

    Examples
    --------
    >>> keys, names = np.array([3.0, 1.0, 2.0]), np.arange(3)
    >>> sort_with(keys, names, 3)
    >>> names
    array([1, 2, 0])
    """
    gap = np.int64(1)
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            key, name, at = keys[i], names[i], i
            while at >= gap and keys[at - gap] > key:
                keys[at], names[at] = keys[at - gap], names[at - gap]
                at -= gap  # type: ignore[assignment]
            keys[at], names[at] = key, name
        gap //= 3
