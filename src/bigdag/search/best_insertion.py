"""The best place of a variable in an order by equation (1), all others staying where they are.

With the order fixed, equation (1) is d lasso problems, and taking one variable v to another place
changes few of them: of the variables it comes to precede those that would use it, of those it comes
to follow those that use it now, and its own. The first two kinds are solved once, with v and
without; their sum is then known at every place. Its own costs least at the last place between two
of them, and never less than with all others as parents, so that only places where the others leave
room for a gain are looked at. What is left out can gain nothing: when no variable has a better
place, no insertion lowers equation (1), up to the tolerance of the lasso; nor does a swap of two
neighbours, which is one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bigdag.engine import lasso
from bigdag.engine.objective import on_correlation_scale
from bigdag.engine.order import rank_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram
    from bigdag.engine.limits import Limits

__all__ = ["Insertion", "OrderedLasso"]

_POLLED = 64  # lassos between two looks at the clock


class Insertion(NamedTuple):
    """A variable, its new place, and the lasso of the columns that differ there.

    Attributes
    ----------
    variable : int
        Which variable is moved.
    place : int
        Where it goes: the number of variables before it.
    columns : ndarray of shape (k,)
        The columns that differ, its own among them.
    support, values : lists of k ndarrays
        Their parents and coefficients, on the correlation scale.
    costs : ndarray of shape (k,)
        Their parts of equation (1).
    """

    variable: int
    place: int
    columns: NDArray[np.int64]
    support: list[Any]
    values: list[Any]
    costs: NDArray[np.float64]


class OrderedLasso:
    """An order and the lasso on it, to which insertions can be made.

    Parameters
    ----------
    gram : Gram
        The second moments.
    lambda1 : float
        The weight of the L1 norm.
    order : ndarray of shape (d,)
        Causes first.
    floor : ndarray of shape (d,)
        A lower bound of each column's part of equation (1) with any parents.
    start : csc_array of shape (d, d), optional
        Weights to begin from.
    limits : Limits, optional
        Which arcs are possible, and who has to come before whom.
    tol : float, default=1e-6
        Of each lasso.
    stop : callable, optional
        True ends the work under way; what it was to find is then None.

    Attributes
    ----------
    order : ndarray of shape (d,)
        The present order.
    costs : ndarray of shape (d,)
        Each column's part of equation (1).

    Examples
    --------
    >>> from bigdag import simulate
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> truth = simulate.random_dag(20, 1, rng=0)
    >>> gram = Gram(as_dataset(simulate.sample(truth, 500, rng=1)))
    >>> ordered = OrderedLasso(gram, 0.1, truth.order[::-1], np.zeros(20))
    >>> before, last = ordered.value, int(truth.order[0])
    >>> better = ordered.best_insertion(last, least=1e-6)
    >>> better.place < 19
    True
    >>> ordered.apply(better)
    >>> ordered.value < before
    True
    """

    def __init__(
        self,
        gram: Gram,
        lambda1: float,
        order: NDArray[np.int64],
        floor: NDArray[np.float64],
        *,
        start: sp.csc_array | None = None,
        limits: Limits | None = None,
        tol: float = 1e-6,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        self.gram, self.lambda1, self.floor, self.tol = gram, lambda1, floor, tol
        self.limits = limits
        self.stop = stop or (lambda: False)
        fit = lasso.solve(
            gram, lambda1, order=order, start=start, limits=limits, tol=tol, stop=stop
        )
        self.complete = bool(np.isfinite(fit.gap).all())  # False: the costs are not known
        B = on_correlation_scale(gram, fit.weights)
        pieces = [slice(a, b) for a, b in pairwise(B.indptr)]
        self.order, self.costs = order, fit.objective
        self._support = [B.indices[piece].astype(np.int64) for piece in pieces]
        self._values = [B.data[piece] for piece in pieces]
        self._root = np.sqrt(lambda1) * gram.inverse_sd
        self._regressions: sp.csr_array | None = None  # row j holds the parents of j

    @property
    def value(self) -> float:
        """Equation (1)."""
        return float(self.costs.sum())

    @property
    def weights(self) -> sp.csc_array:
        """The weights in the units of the data, (d, d)."""
        rows = self._rows()
        targets = np.repeat(np.arange(self.gram.d), np.diff(rows.indptr))
        data = rows.data * self.gram.sd[targets] * self.gram.inverse_sd[rows.indices]
        weights = sp.csc_array((data, rows.indices, rows.indptr), shape=rows.shape)
        weights.eliminate_zeros()
        weights.sort_indices()
        return weights

    def copy(self) -> OrderedLasso:
        """Return one that changes on its own."""
        other = object.__new__(OrderedLasso)
        other.__dict__.update(self.__dict__)
        other.costs = self.costs.copy()
        other._support, other._values = list(self._support), list(self._values)
        return other

    def apply(self, insertion: Insertion) -> None:
        """Make an insertion, in place."""
        v = insertion.variable
        self.order = np.insert(self.order[self.order != v], insertion.place, v)
        for a, j in enumerate(insertion.columns):
            self._support[j], self._values[j] = insertion.support[a], insertion.values[a]
        self.costs[insertion.columns] = insertion.costs
        self._regressions = None

    def best_insertion(self, v: int, least: float) -> Insertion | None:
        """Return the insertion of a variable that lowers equation (1) most.

        Parameters
        ----------
        v : int
            The variable.
        least : float
            What it has to gain.

        Returns
        -------
        Insertion or None
            None where no place gains more, or where the work was ended.
        """
        rank = rank_of(self.order)
        low, high = self._between(v)
        passed = self._touched(v, rank)
        passed = passed[(rank[passed] > low) & (rank[passed] < high)]
        fitted = self._solve(v, passed, rank[passed], rank[passed] < rank[v])
        if fitted is None:
            return None
        change = fitted[2] - self.costs[passed]
        earlier = np.flatnonzero(rank[passed] < rank[v])[::-1]  # from near to far
        later = np.flatnonzero(rank[passed] > rank[v])
        room = self.costs[v] - self.floor[v]
        # Before each that would use v: nearer to the effects v itself could only cost less.
        first = -np.cumsum(change[earlier])
        # Before each that uses v now, with those nearer passed, and at the end.
        last = -np.concatenate([[0.0], np.cumsum(change[later])])
        places = np.concatenate([rank[passed[earlier]], rank[passed[later]] - 1, [high - 1]])
        others = np.concatenate([first, last])
        limit = np.concatenate([first, last + room])
        keep = (limit > least) & (places != rank[v])
        places, others = places[keep], others[keep]
        if not len(places):
            return None
        own = self._own(v, rank, places)
        if own is None:
            return None
        gain = others + (self.costs[v] - own[2])
        best = int(np.argmax(gain))
        if not gain[best] > least:
            return None
        return self._insertion(v, int(places[best]), passed, fitted, own, best, rank)

    def insertion(self, v: int, place: int) -> Insertion | None:
        """Return the insertion of a variable at a place, whatever it gains.

        None where the work was ended.
        """
        rank = rank_of(self.order)
        least, most = self._between(v)
        place = min(max(place, least + 1), most - 1)
        passed = self._touched(v, rank)
        low, high = min(place, rank[v]), max(place, rank[v])
        passed = passed[(rank[passed] >= low) & (rank[passed] <= high)]
        fitted = self._solve(v, passed, rank[passed], rank[passed] < rank[v])
        own = self._own(v, rank, np.array([place]))
        if fitted is None or own is None:
            return None
        return self._insertion(v, place, passed, fitted, own, 0, rank)

    # -------------------------------------------------------------- inside

    def _between(self, v: int) -> tuple[int, int]:
        """Return between which ranks a variable may move, both excluded."""
        if self.limits is None:
            return -1, self.gram.d
        low, high = self.limits.interval(self.order)
        return int(low[v]), int(high[v])

    def _insertion(
        self,
        v: int,
        place: int,
        passed: NDArray[np.int64],
        fitted: tuple[list[Any], list[Any], NDArray[np.float64]],
        own: tuple[list[Any], list[Any], NDArray[np.float64]],
        at: int,
        rank: NDArray[np.int64],
    ) -> Insertion:
        """Return an insertion from what was solved: others that were passed, and v at places."""
        low, high = min(place, rank[v]), max(place, rank[v])
        turned = np.flatnonzero((rank[passed] >= low) & (rank[passed] <= high))
        return Insertion(
            v,
            place,
            np.append(passed[turned], v),
            [*(fitted[0][a] for a in turned), own[0][at]],
            [*(fitted[1][a] for a in turned), own[1][at]],
            np.append(fitted[2][turned], own[2][at]),
        )

    def _rows(self) -> sp.csr_array:
        """Return the regressions on the correlation scale, (d, d), a row each."""
        if self._regressions is None:
            indptr = np.concatenate([[0], np.cumsum([len(s) for s in self._support])])
            indices, data = np.concatenate(self._support), np.concatenate(self._values)
            shape = (self.gram.d, self.gram.d)
            self._regressions = sp.csr_array((data, indices, indptr), shape=shape)
        return self._regressions

    def _touched(self, v: int, rank: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the columns that differ when v passes them, by rank.

        Those before v that would use it, and those after v that use it now.
        """
        rows = self._rows()
        correlations = self.gram.rows(np.array([v]))[0]
        left = np.abs(correlations - rows @ correlations)  # with each residual
        touched = (rank < rank[v]) & (left > self._root * self._root[v])
        if self.limits is not None:
            touched &= self.limits.children(np.array([v]))[0]
        ends = np.flatnonzero(rows.indices == v)
        touched[np.searchsorted(rows.indptr, ends, side="right") - 1] = True
        columns = np.flatnonzero(touched)
        return columns[np.argsort(rank[columns])]

    def _own(
        self, v: int, rank: NDArray[np.int64], places: NDArray[np.int64]
    ) -> tuple[list[Any], list[Any], NDArray[np.float64]] | None:
        """Solve the column of v at some places."""
        columns = np.full(len(places), v)
        limits = places + (places > rank[v])  # its own rank is among those it passes
        return self._solve(v, columns, limits, np.zeros(len(places), dtype=np.bool_))

    def _solve(
        self,
        v: int,
        columns: NDArray[np.int64],
        limits: NDArray[np.int64],
        with_v: NDArray[np.bool_],
    ) -> tuple[list[Any], list[Any], NDArray[np.float64]] | None:
        """Solve columns on the variables with a rank below a limit, with v or without.

        Returns supports, coefficients and parts of equation (1), or None where the work was ended.
        """
        rank = rank_of(self.order)
        support: list[Any] = []
        values: list[Any] = []
        costs = [np.empty(0)]
        for a in range(0, len(columns), _POLLED):
            if self.stop():
                return None
            some = columns[a : a + _POLLED]
            sets = rank < limits[a : a + _POLLED, None]
            sets[:, v] = with_v[a : a + _POLLED]
            if self.limits is not None:
                sets &= self.limits.parents(some)
            start = [self._support[j] for j in some], [self._values[j] for j in some]
            found = lasso.solve_sets(
                self.gram, self.lambda1, some, sets, start, tol=self.tol, stop=self.stop
            )
            support += found[0]
            values += found[1]
            costs.append(found[2])
        return support, values, np.concatenate(costs)
