"""Which variables may become parents of which: lists that hold each pair both ways.

A list is what correlates (`correlated`), or every variable (`every_pair`); what limits rule
out is in none (`possible`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.special import erfc, ndtri

from bigdag.engine import screening

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram
    from bigdag.engine.limits import Limits

__all__ = [
    "EVERY_PAIR",
    "EVERY_PAIR_DENSE",
    "MOST_CANDIDATES",
    "asks_for_many",
    "correlated",
    "every_pair",
    "is_rare",
    "joined",
    "needs_every_pair",
    "possible",
    "takes_every_pair",
]

MOST_CANDIDATES = 512  # of a variable, at the most
EVERY_PAIR = 2000  # variables up to which every pair becomes candidates
EVERY_PAIR_DENSE = 5000  # the same where many pairs are correlated
_STRONGEST = 4  # of a variable: candidates even where they are worth no arc on their own
_MANY = 0.02  # of all pairs: so many
_BYTES_OF_A_FIND = 100  # of a pair outside of the lists, while it is weighed
_DENSE = 0.2  # of all pairs: with more that are correlated, every pair is from the beginning
_ONE_BY_ONE = 8  # times the work of one in a product of all is that of a correlation alone


def possible(
    limits: Limits | None,
    varies: NDArray[np.bool_],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    pairs: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return lists that hold each pair both ways, of the possible arcs, with more pairs added.

    What always comes last is in no list, and what always comes first has none: neither takes part
    in the search. Arcs that are required are in the lists, unless one of the two never changes.
    """
    if limits is None:
        return joined(indptr, indices, pairs)
    needed = limits.required.tocoo()
    more = np.column_stack([needed.row, needed.col]).astype(np.int64)
    live = varies[more].all(axis=1)
    more = more[live] if pairs is None else np.concatenate([more[live], pairs])
    indptr, indices = joined(indptr, indices, more)
    own = np.repeat(np.arange(len(varies)), np.diff(indptr))
    other = indices.astype(np.int64)
    keep = limits.pairs(other, own) | limits.pairs(own, other)
    # An arc to what comes last is for that alone to look at, and one to what comes first none.
    keep &= limits.moves[other] | limits.pairs(other, own)
    keep &= limits.moves[own] | limits.pairs(other, own)
    indptr = np.concatenate([[0], np.cumsum(keep)])[indptr]
    return indptr, indices[keep]


def correlated(
    gram: Gram, cost: float, limits: Limits | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return each variable's correlated ones.

    They are those whose correlation is worth an arc on its own, and of the others the strongest:
    those that are among a variable's four strongest, and stronger than the fourth strongest of as
    many variables would be by chance.
    """
    among = None if limits is None else limits.causes
    chance = ndtri(1 - min(0.25, _STRONGEST / 2 / max(1, gram.d))) ** 2

    def above(gain: float, most: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        limit = float(np.sqrt(-np.expm1(-gain / gram.n_samples)))
        return screening.correlated(gram, limit, most, among)

    worth, more = above(cost, MOST_CANDIDATES), None
    if chance < cost:
        indptr, others = above(chance, _STRONGEST)
        own = np.repeat(np.arange(gram.d), np.diff(indptr))
        more = np.column_stack([own, others]).astype(np.int64)
    return possible(limits, gram.sd > 0, *worth, more)


def is_rare(gram: Gram, limit: float) -> bool:
    """Tell whether correlations that exceed a limit by chance fit into a quarter of the memory."""
    chance = float(erfc(limit * np.sqrt(gram.n_samples / 2)))
    return _BYTES_OF_A_FIND * chance * gram.d**2 / 2 <= gram.left() / 4


def asks_for_many(indptr: NDArray[np.int64]) -> bool:
    """Tell whether lists ask for so many correlations that all of them are no more work.

    A variable asks for those of all pairs in its list, one at a time.
    """
    sizes = np.diff(indptr).astype(np.float64)
    return bool(_ONE_BY_ONE * float(sizes @ sizes) > len(sizes) ** 2)


def takes_every_pair(d: int, n_candidates: float) -> bool:
    """Tell whether a search makes every pair candidates at last, from so many correlated ones."""
    return d <= EVERY_PAIR or (d <= EVERY_PAIR_DENSE and n_candidates > _MANY * d**2)


def needs_every_pair(d: int, n_candidates: int) -> bool:
    """Tell whether so many pairs are correlated that all of them should be candidates."""
    return d <= EVERY_PAIR and n_candidates > _DENSE * d**2


def every_pair(
    varies: NDArray[np.bool_], limits: Limits | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return lists of all pairs of the variables that vary, or of the possible ones."""
    live = np.flatnonzero(varies).astype(np.int32)
    if limits is not None:
        sources = live[limits.cause[live]]
        indptr = np.concatenate([[0], np.cumsum(np.where(varies, len(sources), 0))])
        return possible(limits, varies, indptr.astype(np.int64), np.tile(sources, len(live)))
    others = max(0, len(live) - 1)
    indices = np.empty((len(live), others), dtype=np.int32)
    for a in range(len(live)):
        indices[a, :a], indices[a, a:] = live[:a], live[a + 1 :]
    indptr = np.concatenate([[0], np.cumsum(varies * others)])
    return indptr.astype(np.int64), indices.ravel()


def joined(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    pairs: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return lists that hold each pair both ways, with more pairs added."""
    d = len(indptr) - 1
    row, col = np.repeat(np.arange(d), np.diff(indptr)), indices.astype(np.int64)
    if pairs is not None:
        row, col = np.concatenate([row, pairs[:, 0]]), np.concatenate([col, pairs[:, 1]])
    both = sp.coo_array((np.ones(2 * len(row), dtype=np.int8),
                         (np.concatenate([row, col]), np.concatenate([col, row]))),
                        shape=(d, d)).tocsr()  # fmt: skip
    both.sort_indices()
    return both.indptr.astype(np.int64), both.indices.astype(np.int32)
