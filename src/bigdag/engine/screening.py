"""Which variables are correlated: lists instead of a d × d array."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bigdag.compiled import kernel
from bigdag.engine.order import nth_least

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram

__all__ = ["correlated"]

_NEIGHBOURS = 4096  # of one variable at the most, the strongest


def correlated(
    gram: Gram, threshold: float, most: int = _NEIGHBOURS
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return each variable's correlated ones, compressed.

    Parameters
    ----------
    gram : Gram
        The second moments.
    threshold : float
        The least absolute correlation that counts.
    most : int, optional
        Of each variable at the most so many, the strongest.

    Returns
    -------
    indptr : ndarray of int64, shape (d + 1,)
        Where each variable's list begins and ends.
    indices : ndarray of int32
        The lists.

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> x = np.arange(6.0)
    >>> gram = Gram(as_dataset(np.column_stack([x, -x, [0, 1, 0, 0, 1, 0]])))
    >>> correlated(gram, 0.5)
    (array([0, 1, 2, 2]), array([1, 0], dtype=int32))
    """
    sizes, found = [np.zeros(1, dtype=np.int64)], [np.empty(0, dtype=np.int32)]
    for block in gram.blocks(np.arange(gram.d)):
        rows = gram.rows(block)
        for counts, hits in gram.each(partial(_above, rows, block, threshold, most), len(block)):
            sizes.append(counts)
            found.append(hits)
    return np.cumsum(np.concatenate(sizes)), np.concatenate(found)


@kernel
def _above(rows, block, threshold, most, first, last):  # type: ignore[no-untyped-def]
    """Return how many entries of rows first..last are above a threshold, and their columns."""
    d = rows.shape[1]
    counts = np.zeros(last - first, dtype=np.int64)
    size = np.empty(d)
    hits = np.empty(1024, dtype=np.int32)
    total = 0
    for a in range(first, last):
        row, limit = rows[a], threshold
        count = np.int64(0)
        for i in range(d):
            count += abs(row[i]) > limit and i != block[a]
        if count > most:
            for i in range(d):
                size[i] = abs(row[i])
            size[block[a]] = 0.0
            limit = nth_least(size, d, d - most)
        room = min(count, most)
        for i in range(d):
            room -= abs(row[i]) > limit and i != block[a]
        while total + min(count, d) > len(hits):
            wider = np.empty(2 * len(hits), dtype=np.int32)
            for i in range(total):
                wider[i] = hits[i]
            hits = wider
        begin = total
        for i in range(d):
            tied = limit > threshold and abs(row[i]) == limit and room > 0
            if (abs(row[i]) > limit or tied) and i != block[a]:
                hits[total] = i
                total += 1
                room -= tied
        counts[a - first] = total - begin
    return counts, hits[:total].copy()
