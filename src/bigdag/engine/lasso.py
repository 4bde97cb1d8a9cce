"""The d column problems of equation (1), each with the parents it may use.

Column j minimises ``1/2 |z_j - Z b|² + Σ p_i |b_i|`` over the allowed parents, on the correlation
scale: ``b_i = w_i sd_i / sd_j`` and ``p_i = lambda1 / (sd_i sd_j)``. What proves it is the duality
gap: with the residual r and ``s`` the largest factor for which ``|z_iᵀ s r| <= p_i`` for every
allowed i, ``s z_jᵀr - s²/2 |r|²`` is a lower bound of the optimum.

The way there is compiled in :mod:`bigdag.engine.column_problem`: coordinate descent on a small
working set, with a Newton step on the support where descent is slow; then the correlations of the
residual with all allowed parents, which give the gap and the worst violators to add; until the gap
is small. On correlations that are held each column goes this way alone; on data the columns of a
block take turns together, so that the full check is one matrix product. Where a mask leaves a
column few parents, they are its working set, and nothing else is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp

from bigdag.engine.column_problem import (
    MAX_ROUNDS,
    Coefficients,
    Columns,
    certify,
    descend_columns,
    solve_few,
    solve_held,
)
from bigdag.engine.executor import Task
from bigdag.engine.objective import on_correlation_scale
from bigdag.engine.order import project, rank_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram
    from bigdag.engine.limits import Limits

__all__ = [
    "LassoFit",
    "chance_parents",
    "solve",
    "solve_sets",
    "typical_parents",
]

_POLLED = 32  # columns a thread solves between two looks at the clock
FEW = 256  # parents in a mask that are a working set as they are


@dataclass(frozen=True)
class LassoFit:
    """The solution of all column problems, with its certificate.

    Attributes
    ----------
    weights : csc_array of shape (d, d)
        W in the units of the data.
    objective : ndarray of shape (d,)
        Each column's part of equation (1).
    gap : ndarray of shape (d,)
        Each column's duality gap, in the same units; infinite where a stop came before the
        column was solved.
    complete : bool
        Whether every column met the tolerance.
    """

    weights: sp.csc_array
    objective: NDArray[np.float64]
    gap: NDArray[np.float64]
    complete: bool


def solve(
    gram: Gram,
    lambda1: float,
    *,
    order: NDArray[np.integer] | None = None,
    mask: sp.sparray | None = None,
    start: sp.sparray | None = None,
    columns: NDArray[np.integer] | None = None,
    limits: Limits | None = None,
    tol: float = 1e-4,
    stop: Callable[[], bool] | None = None,
) -> LassoFit:
    """Solve equation (1) column by column, without acyclicity or inside an order or a mask.

    Parameters
    ----------
    gram : Gram
        The second moments.
    lambda1 : float
        The weight of the L1 norm, in the units of equation (1).
    order : ndarray of shape (d,), optional
        Causes first; only the predecessors of a variable may be its parents.
    mask : sparse array of shape (d, d), optional
        Only its non-zero entries may be arcs. Together with an order both must allow an arc.
    start : sparse array of shape (d, d), optional
        Weights to begin from; entries that are not allowed are dropped, in all columns.
    columns : ndarray, optional
        The columns to solve; the others keep what is allowed of their start, with an infinite
        gap.
    limits : Limits, optional
        Which arcs are possible.
    tol : float, default=1e-4
        The gap of a column is at most ``tol`` times its objective.
    stop : callable, optional
        Asked after some columns, or after each full check where correlations are not held; True
        ends the work and leaves the rest where it is.

    Returns
    -------
    LassoFit

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(100, 1))
    >>> gram = Gram(as_dataset(np.hstack([x, 2 * x + rng.normal(size=(100, 1))])))
    >>> fit = solve(gram, 0.1, order=np.array([0, 1]), tol=1e-8)
    >>> fit.weights.toarray().round(2)
    array([[0.  , 1.95],
           [0.  , 0.  ]])
    """
    problem = _Problem(gram, lambda1, order, mask, tol, limits)
    begin = problem.inside(start)
    B = sp.csc_array((gram.d, gram.d)) if begin is None else on_correlation_scale(gram, begin)
    indices = B.indices.astype(np.int64)
    cuts = [slice(a, b) for a, b in zip(B.indptr[:-1], B.indptr[1:])]
    support, values = [indices[cut] for cut in cuts], [B.data[cut] for cut in cuts]
    objective = np.zeros(gram.d)
    gap = np.full(gram.d, np.inf)
    wanted = np.arange(gram.d) if columns is None else np.asarray(columns, dtype=np.int64)
    size = gram.block_size
    if stop is not None and gram.C is not None:  # each column alone, so small blocks cost nothing
        size = _POLLED * gram.n_jobs
    task = _Blocks(
        wanted, lambda1, problem.order, problem.mask, tol, limits,
        Coefficients(B.indptr.astype(np.int64), indices, B.data),
    )  # fmt: skip
    for number, fitted in enumerate(gram.spread(task, len(wanted), size, stop)):
        if fitted is None:
            continue
        block = wanted[number * size : (number + 1) * size]
        ends = np.cumsum(fitted[0])
        for j, a, b in zip(block, ends - fitted[0], ends):
            support[j], values[j] = fitted[1][a:b], fitted[2][a:b]
        scale = gram.sd[block] ** 2
        objective[block] = fitted[3] * scale
        gap[block] = fitted[4] * scale
    weights = _assemble(gram, support, values)
    complete = bool(np.all(gap[wanted] <= tol * objective[wanted] * (1 + 1e-9)))
    return LassoFit(weights, objective, gap, complete)


def solve_sets(
    gram: Gram,
    lambda1: float,
    columns: NDArray[np.int64],
    sets: NDArray[np.bool_],
    start: tuple[list[Any], list[Any]],
    *,
    tol: float = 1e-4,
    stop: Callable[[], bool] | None = None,
) -> tuple[list[Any], list[Any], NDArray[np.float64]]:
    """Solve some columns of equation (1), each with a set of parents of its own.

    Parameters
    ----------
    gram : Gram
        The second moments.
    lambda1 : float
        The weight of the L1 norm, in the units of equation (1).
    columns : ndarray of shape (k,)
        Which columns; one may come several times, with different sets.
    sets : ndarray of bool, shape (k, d)
        The parents that each may use.
    start : two lists of k ndarrays
        Parents and coefficients to begin from, on the correlation scale; they are not changed.
    tol : float, default=1e-4
        The gap of a column is at most ``tol`` times its objective.
    stop : callable, optional
        Asked after each full check where correlations are not held; True leaves the rest where
        it is.

    Returns
    -------
    support, values : lists of k ndarrays
        The parents and their coefficients, on the correlation scale.
    objective : ndarray of shape (k,)
        Each column's part of equation (1).

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.engine.gram import Gram
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(100, 1))
    >>> gram = Gram(as_dataset(np.hstack([x, 2 * x + rng.normal(size=(100, 1))])))
    >>> nothing = [np.empty(0, dtype=np.int64)] * 2, [np.empty(0)] * 2
    >>> sets = np.array([[False, False], [True, False]])
    >>> solve_sets(gram, 0.1, np.array([1, 1]), sets, nothing)[2].round(2)
    array([2.41, 0.66])
    """
    problem = _Problem(gram, lambda1, None, None, tol)
    support, values, objective, _ = problem.solve_block(
        columns, list(start[0]), list(start[1]), stop, sets
    )
    return support, values, objective * gram.sd[columns] ** 2


def typical_parents(n: int, d: int) -> int:
    """Return about how many parents the lasso leaves a variable, with the default lambda1.

    Measured on random graphs with one arc a variable and noise of variance 1: most of them are
    chance, and there are the more the more variables and the fewer samples there are.

    Examples
    --------
    >>> typical_parents(1000, 2000)
    89
    """
    return int(min(chance_parents(n, d), 0.9 * n))


def chance_parents(n: int, d: int) -> int:
    """Return about how many variables correlate enough to be tried as parents of one.

    No more than about n of them can be parents of one variable at a time (`typical_parents`), but
    with few samples the working set of a method that moves between orders grows past that.

    Examples
    --------
    >>> chance_parents(1000, 2000), chance_parents(60, 2000), typical_parents(60, 2000)
    (89, 275, 54)
    """
    return int(min(0.14 * d**0.85 * (1000 / n) ** 0.4, d))


def _assemble(gram: Gram, support: list[Any], values: list[Any]) -> sp.csc_array:
    """Return W in the units of the data from coefficients on the correlation scale."""
    sizes = np.array([len(s) for s in support], dtype=np.int64)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.concatenate([*support, np.empty(0, dtype=np.int64)]).astype(np.int64)
    columns = np.repeat(np.arange(gram.d), sizes)
    data = np.concatenate([*values, np.empty(0)]) * gram.sd[columns] * gram.inverse_sd[rows]
    weights = sp.csc_array((data, rows, indptr), shape=(gram.d, gram.d))
    weights.eliminate_zeros()
    weights.sort_indices()
    return weights


class _Problem:
    """What all blocks of columns share."""

    def __init__(
        self,
        gram: Gram,
        lambda1: float,
        order: NDArray[np.integer] | None,
        mask: sp.sparray | None,
        tol: float,
        limits: Limits | None = None,
    ) -> None:
        self.gram, self.tol, self.limits = gram, tol, limits
        self.live = gram.sd > 0
        self.root = np.sqrt(lambda1) * gram.inverse_sd  # p[i, j] = root[i] * root[j]
        self.order = None if order is None else np.asarray(order)
        self.rank = None if self.order is None else rank_of(self.order)
        self.mask = None if mask is None else sp.csc_array(mask)
        if self.mask is not None and not self.mask.data.all():
            self.mask = self.mask.copy()
            self.mask.eliminate_zeros()
        self.few = self.mask is not None and np.diff(self.mask.indptr).max(initial=0) <= FEW

    def inside(self, start: sp.sparray | None) -> sp.sparray | None:
        """Return the weights that an order and a mask allow."""
        if start is None:
            return None
        if self.order is not None:
            start = project(start, self.order)
        if self.mask is not None:
            start = sp.csc_array(sp.csc_array(start).multiply(self.mask != 0))
        if self.limits is not None:
            start = self.limits.confined(sp.csc_array(start))
        return start

    def allowed(self, block: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which parents each column of the block may use (k, d)."""
        allowed = np.tile(self.live, (len(block), 1))
        if self.rank is not None:
            allowed &= self.rank < self.rank[block][:, None]
        if self.mask is not None:
            inside = np.zeros_like(allowed)
            for a, j in enumerate(block):
                inside[a, self.mask.indices[self.mask.indptr[j] : self.mask.indptr[j + 1]]] = True
            allowed &= inside
        if self.limits is not None:
            allowed &= self.limits.parents(block)
        allowed[np.arange(len(block)), block] = False
        allowed[~self.live[block]] = False
        return allowed

    def solve_block(
        self,
        block: NDArray[np.int64],
        support: list[Any],
        values: list[Any],
        stop: Callable[[], bool] | None,
        sets: NDArray[np.bool_] | None = None,
    ) -> tuple[list[Any], list[Any], NDArray[np.float64], NDArray[np.float64]]:
        """Return supports, coefficients, objectives and gaps of a block of columns.

        ``sets`` (k, d) are the parents that each may use, where not the order and the mask say so.
        """
        if self.few:
            return self._solve_few(block, support, values)
        objective, gap = np.zeros(len(block)), np.zeros(len(block))
        allowed = self.allowed(block)
        if sets is not None:
            allowed &= sets
        todo = np.flatnonzero(allowed.any(axis=1))
        for a in np.setdiff1d(np.arange(len(block)), todo):
            support[a], values[a] = support[a][:0], values[a][:0]
            objective[a] = 0.5 * self.live[block[a]]
        for a in todo:
            if len(support[a]):
                keep = allowed[a, support[a]] & (values[a] != 0)
                support[a], values[a] = support[a][keep], values[a][keep]
        gram = self.gram
        if gram.C is not None:
            flat = _flat(support, values, todo)
            may = allowed if len(todo) == len(block) else allowed[todo]
            columns = Columns(block[todo], may, self.root)
            pieces = gram.each(partial(solve_held, gram.C, columns, flat, self.tol), len(todo))
            at = 0
            for piece in pieces:
                for i in range(len(piece[0])):
                    span, a = slice(piece[2][i], piece[2][i + 1]), todo[at + i]
                    support[a], values[a] = piece[3][span], piece[4][span]
                    objective[a], gap[a] = piece[0][i], piece[1][i]
                at += len(piece[0])
            return support, values, objective, gap
        C_rows = self.gram.rows(block[todo]) if len(todo) else np.empty((0, self.gram.d))
        left = C_rows
        if any(len(support[a]) for a in todo):
            left = self.gram.residual_rows(block[todo], *_flat(support, values, todo))
        for _ in range(MAX_ROUNDS):
            flat = _flat(support, values, todo)
            columns = Columns(block[todo], allowed[todo], self.root)
            certified = self.gram.each(partial(certify, columns, left, C_rows, flat), len(todo))
            if certified:
                objective[todo] = np.concatenate([c[0] for c in certified])
                gap[todo] = np.concatenate([c[1] for c in certified])
            short = gap[todo] > self.tol * objective[todo]
            if not short.any() or (stop is not None and stop()):
                break
            grown = _split(certified)
            for a, new in zip(todo, grown):
                if gap[a] > self.tol * objective[a] and len(new):
                    support[a] = np.concatenate([support[a], new])
                    values[a] = np.concatenate([values[a], np.zeros(len(new))])
            todo, C_rows = todo[short], C_rows[short]
            # While parents are still missing, an exact solution of the working set is no use.
            goal = np.maximum(0.3 * self.tol, 0.1 * gap[todo] / objective[todo])
            self._descend(block, todo, C_rows, support, values, goal)
            left = self.gram.residual_rows(block[todo], *_flat(support, values, todo))
        return support, values, objective, gap

    def _solve_few(
        self, block: NDArray[np.int64], support: list[Any], values: list[Any]
    ) -> tuple[list[Any], list[Any], NDArray[np.float64], NDArray[np.float64]]:
        """Solve columns whose mask is their working set; returns what solve_block does."""
        assert self.mask is not None
        gram, indptr = self.gram, self.mask.indptr
        start = np.zeros(gram.d)
        for a, j in enumerate(block):
            inside = self.mask.indices[indptr[j] : indptr[j + 1]].astype(np.int64)
            keep = self.live[inside] & (inside != j) & self.live[j]
            if self.rank is not None:
                keep &= self.rank[inside] < self.rank[j]
            if self.limits is not None:
                keep &= self.limits.pairs(inside, np.full(len(inside), j))
            start[support[a]] = values[a]
            known, support[a] = support[a], inside[keep]
            values[a] = start[support[a]]
            start[known] = 0.0
        flat = _flat(support, values, np.arange(len(block)))
        work = partial(solve_few, *gram.source, self.root, block, flat, self.tol)
        results = gram.each(work, len(block))
        for a in range(len(block)):
            span = slice(flat.indptr[a], flat.indptr[a + 1])
            keep = flat.values[span] != 0
            support[a], values[a] = flat.indices[span][keep], flat.values[span][keep]
        objective, gap = (np.concatenate([r[i] for r in results]) for i in (0, 1))
        objective[~self.live[block]] = 0.0
        return support, values, objective, gap

    def _descend(
        self,
        block: NDArray[np.int64],
        todo: NDArray[np.int64],
        C_rows: NDArray[np.float64],
        support: list[Any],
        values: list[Any],
        goal: NDArray[np.float64],
    ) -> None:
        """Solve the working sets to a relative gap, in place; what is zero is left out."""
        flat, gram = _flat(support, values, todo), self.gram
        work = partial(descend_columns, gram.Z, C_rows, self.root, block[todo], flat, goal)
        gram.each(work, len(todo), chunk=4)
        for i, a in enumerate(todo):
            piece = slice(flat.indptr[i], flat.indptr[i + 1])
            keep = flat.values[piece] != 0
            support[a], values[a] = flat.indices[piece][keep], flat.values[piece][keep]


@dataclass(frozen=True)
class _Blocks(Task):
    """The problems of some columns, in blocks, from the coefficients of all of them."""

    threaded: ClassVar[bool] = True

    columns: NDArray[np.int64]
    lambda1: float
    order: NDArray[np.integer] | None
    mask: sp.csc_array | None
    tol: float
    limits: Limits | None
    start: Coefficients

    def prepare(self, gram: Gram) -> _Problem:
        """Return what all blocks share."""
        return _Problem(gram, self.lambda1, self.order, self.mask, self.tol, self.limits)

    def piece(
        self,
        gram: Gram,  # noqa: ARG002
        prepared: _Problem,
        first: int,
        last: int,
        stop: Callable[[], bool] | None,
    ) -> tuple[NDArray[Any], ...]:
        """Return how many parents each column has, these, their coefficients, objectives, gaps."""
        block, start = self.columns[first:last], self.start
        cuts = [slice(start.indptr[j], start.indptr[j + 1]) for j in block]
        support, values, objective, gap = prepared.solve_block(
            block, [start.indices[cut] for cut in cuts], [start.values[cut] for cut in cuts], stop
        )
        flat = _flat(support, values, np.arange(len(block)))
        return np.diff(flat.indptr), flat.indices, flat.values, objective, gap


def _flat(support: list[Any], values: list[Any], todo: NDArray[np.int64]) -> Coefficients:
    """Return the chosen columns' coefficients as one compressed list."""
    sizes = [len(support[a]) for a in todo]
    indptr = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
    indices = np.concatenate([np.empty(0, dtype=np.int64), *(support[a] for a in todo)])
    return Coefficients(indptr, indices, np.concatenate([np.empty(0), *(values[a] for a in todo)]))


def _split(certified: list[Any]) -> list[NDArray[np.int64]]:
    """Return each column's violators from the pieces that the threads returned."""
    return [
        piece[3][piece[2][i] : piece[2][i + 1]] for piece in certified for i in range(len(piece[0]))
    ]
