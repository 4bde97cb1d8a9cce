"""Which variables are correlated: lists instead of a d × d array."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from bigdag.compiled import kernel
from bigdag.engine.exceeding import exceeding, single_precision_error
from bigdag.engine.order import nth_least

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram
    from bigdag.engine.limits import Limits

__all__ = ["ALL_PREDECESSORS", "candidates", "correlated", "mask_of_candidates"]

ALL_PREDECESSORS = 5000  # variables up to which learners let any other be a parent

_NEIGHBOURS = 4096  # of one variable at the most, the strongest
_CORRELATED = 4.0  # over √n: correlations that make a candidate parent
_FEW = 200  # candidates of a variable at the most
_SAMPLE = 64  # variables whose correlations tell how many there are
_SPARSE = 1 / 32  # of all pairs: with more that are correlated, lists of them are no gain
_BYTES_OF_A_PAIR = 64  # while the lists are put together


def correlated(
    gram: Gram,
    threshold: float,
    most: int = _NEIGHBOURS,
    among: NDArray[np.int64] | None = None,
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
    among : ndarray of int64, optional
        Only these are looked for, and only their correlations are computed.

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
    if among is None and _is_sparse(gram, threshold, most):
        return _of_half(gram, threshold, most)
    step = gram.step("correlated", threshold, most, among)
    if step.found is not None:
        return step.found[0], step.found[1]
    sizes, found = [np.zeros(1, dtype=np.int64)], [np.empty(0, dtype=np.int32)]
    place = None
    if among is not None:
        place = np.full(gram.d, -1, dtype=np.int64)
        place[among] = np.arange(len(among))
        others = None if gram.C is not None or gram.Z is None else gram.Z[among].T
    for block in gram.blocks(np.arange(gram.d)):
        own = block
        if among is None or place is None:
            rows = gram.rows(block)
        else:
            rows = (
                np.ascontiguousarray(gram.rows(block)[:, among])
                if others is None or gram.Z is None
                else gram.product(gram.Z[block], others)
            )
            own = place[block]
        for counts, hits in gram.each(partial(_above, rows, own, threshold, most), len(block)):
            sizes.append(counts)
            found.append(hits if among is None else among[hits].astype(np.int32))
    lists = np.cumsum(np.concatenate(sizes)), np.concatenate(found)
    step.keep(lambda: lists)
    return lists


def candidates(
    gram: Gram, whatever: bool = False, among: NDArray[np.int64] | None = None
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int32]], sp.csc_array | None]:
    """Return which variables may be parents of which, where only correlated ones may be.

    Parameters
    ----------
    gram : Gram
        The second moments.
    whatever : bool, default=False
        Whether to confine the parents also where most variables are correlated with many others,
        so that the strongest correlations need not hold the parents.
    among : ndarray, optional
        The variables that may be parents at all; all of them by default.

    Returns
    -------
    support : pair of ndarray
        Each variable's correlated ones, as `correlated` gives them: 200 of each at the most.
    mask : csc_array of int8, shape (d, d), or None
        The same as a matrix; None where the parents are not to be confined.

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(100, 3))
    >>> x[:, 1] += x[:, 0]
    >>> candidates(Gram(as_dataset(x)), whatever=True)[1].toarray()
    array([[0, 1, 0],
           [1, 0, 0],
           [0, 0, 0]], dtype=int8)
    """
    indptr, indices = correlated(gram, _CORRELATED / np.sqrt(gram.n_samples), _FEW, among)
    if not whatever and len(indices) > _FEW / 2 * gram.d:
        return (indptr, indices), None
    data = np.ones(len(indices), dtype=np.int8)
    mask = sp.csc_array((data, indices.astype(np.int64), indptr), shape=(gram.d, gram.d))
    return (indptr, indices), mask


def mask_of_candidates(gram: Gram, whatever: bool, limits: Limits | None) -> sp.csc_array | None:
    """Return the mask of `candidates`, without the arcs that are not possible.

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> gram = Gram(as_dataset([[-1.0, 2.0], [0.0, 0.0], [1.0, -2.0]]))
    >>> mask_of_candidates(gram, True, None).nnz
    0
    """
    mask = candidates(gram, whatever, None if limits is None else limits.causes)[1]
    return mask if mask is None or limits is None else limits.mask(mask)


# ------------------------------------------------------------------ half of the matrix


def _is_sparse(gram: Gram, threshold: float, most: int) -> bool:
    """Tell whether so few pairs are correlated that half of the matrix is enough to list them."""
    if gram.C is not None or single_precision_error(gram.n_samples) > threshold / 2:
        return False
    sample = np.linspace(0, gram.d - 1, min(_SAMPLE, gram.d)).astype(np.int64)
    mean = (np.abs(gram.rows(sample)) > threshold).sum() / len(sample) - 1
    memory = _BYTES_OF_A_PAIR * mean * gram.d
    return bool(mean <= min(_SPARSE * gram.d, most / 2) and memory <= gram.left() / 4)


def _of_half(
    gram: Gram, threshold: float, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return what `correlated` does, each pair computed once."""
    d, everyone = gram.d, np.arange(gram.d)
    pairs = exceeding(gram, everyone, everyone, np.full(d, threshold), everyone)
    assert pairs is not None
    sizes = np.bincount(pairs.row, minlength=d) + np.bincount(pairs.column, minlength=d)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    indices, values = _both_ways(indptr, pairs.row, pairs.column, np.abs(pairs.value))
    if sizes.max(initial=0) <= most:
        return indptr, indices
    keep = _strongest(indptr, values, most)
    return np.concatenate([[0], np.cumsum(keep)])[indptr], indices[keep]


@kernel
def _both_ways(indptr, row, column, value):  # type: ignore[no-untyped-def]
    """Return the lists of pairs whose columns precede their rows, and whose rows ascend."""
    indices, values = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])
    at = indptr[:-1].copy()
    for e in range(len(row)):  # the earlier ones of each, in sequence
        indices[at[row[e]]], values[at[row[e]]] = column[e], value[e]
        at[row[e]] += 1
    for e in range(len(row)):  # and the later ones
        indices[at[column[e]]], values[at[column[e]]] = row[e], value[e]
        at[column[e]] += 1
    return indices, values


@kernel
def _strongest(indptr, values, most):  # type: ignore[no-untyped-def]
    """Return which entries are among the ``most`` largest of their list, the first of equals."""
    keep = np.ones(len(values), dtype=np.bool_)
    for v in range(len(indptr) - 1):
        first, last = indptr[v], indptr[v + 1]
        count = last - first
        if count <= most:
            continue
        size = values[first:last].copy()
        limit = nth_least(size, count, count - most)
        room = most
        for e in range(first, last):
            room -= values[e] > limit
        for e in range(first, last):
            tied = values[e] == limit and room > 0
            keep[e] = values[e] > limit or tied
            room -= tied
    return keep


# ------------------------------------------------------------------ whole rows


@kernel
def _above(rows, block, threshold, most, first, last):  # type: ignore[no-untyped-def]
    """Return how many entries of rows first..last are above a threshold, and their columns.

    The column in ``block`` of each row, which may be none (-1), is its own.
    """
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
            if block[a] >= 0:
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
