"""The d column problems of equation (1), each with the parents it may use.

Column j minimises ``1/2 |z_j - Z b|² + Σ p_i |b_i|`` over the allowed parents, on the correlation
scale: ``b_i = w_i sd_i / sd_j`` and ``p_i = lambda1 / (sd_i sd_j)``. What proves it is the duality
gap: with the residual r and ``s`` the largest factor for which ``|z_iᵀ s r| <= p_i`` for every
allowed i, ``s z_jᵀr - s²/2 |r|²`` is a lower bound of the optimum.

The way there: coordinate descent on a small working set, with a Newton step on the support where
descent is slow; then the correlations of the residual with all allowed parents, which give the gap
and the worst violators to add; until the gap is small. On correlations that are held each column
goes this way alone; on data the columns of a block take turns together, so that the full check is
one matrix product. Where a mask leaves a column few parents, they are its working set, and nothing
else is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from bigdag.compiled import kernel
from bigdag.engine.descent import descend, subtract, weigh
from bigdag.engine.executor import Task
from bigdag.engine.objective import dual_bound, on_correlation_scale
from bigdag.engine.order import nth_least, project, rank_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram
    from bigdag.engine.limits import Limits

__all__ = [
    "Coefficients",
    "LassoFit",
    "chance_parents",
    "new_workspace",
    "solve",
    "solve_sets",
    "typical_parents",
    "violators",
]

_FIRST = 24  # parents a working set begins with
_MAX_ROUNDS = 60
_LEAST_PENALTY = 1e-10  # on the correlation scale
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


class Coefficients(NamedTuple):
    """The coefficients of some columns on the correlation scale, compressed.

    Those of column a are ``values[indptr[a]:indptr[a + 1]]``, on the variables in ``indices``.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    values: NDArray[np.float64]


class _Columns(NamedTuple):
    """Some column problems.

    Attributes
    ----------
    names : ndarray of shape (k,)
        Which columns.
    allowed : ndarray of bool, shape (k, d)
        The parents that each may use.
    root : ndarray of shape (d,)
        The roots of the penalties: p[i, j] = root[i] * root[j].
    """

    names: NDArray[np.int64]
    allowed: NDArray[np.bool_]
    root: NDArray[np.float64]


class Workspace(NamedTuple):
    """Room to look for violators among d variables.

    ``inside`` is False throughout, before and after; the first entries of ``new`` are what was
    found, and ``excess`` by how much they are above their penalty.
    """

    inside: NDArray[np.bool_]
    new: NDArray[np.int64]
    excess: NDArray[np.float64]


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
            columns = _Columns(block[todo], may, self.root)
            pieces = gram.each(partial(_solve_held, gram.C, columns, flat, self.tol), len(todo))
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
        for _ in range(_MAX_ROUNDS):
            flat = _flat(support, values, todo)
            columns = _Columns(block[todo], allowed[todo], self.root)
            certified = self.gram.each(partial(_certify, columns, left, C_rows, flat), len(todo))
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
        work = partial(_solve_few, *gram.source, self.root, block, flat, self.tol)
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
        work = partial(_descend_columns, gram.Z, C_rows, self.root, block[todo], flat, goal)
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


# ------------------------------------------------------------------ compiled kernels


@kernel
def new_workspace(d):  # type: ignore[no-untyped-def]
    """Return room to look for violators among d variables."""
    return Workspace(np.zeros(d, dtype=np.bool_), np.empty(d, dtype=np.int64), np.empty(d))


@kernel(inline="always")
def _l1_penalty(root, i, j):  # type: ignore[no-untyped-def]
    """Return p[i, j]; never zero, as without a penalty there is no dual bound."""
    return max(root[i] * root[j], _LEAST_PENALTY)


@kernel(fastmath=True, _nrt=False)
def _worst(left, allowed, root, own):  # type: ignore[no-untyped-def]
    """Return the largest correlation with the residual in units of its penalty."""
    worst = 0.0
    for i in range(len(left)):
        ratio = abs(left[i]) / max(root[i] * own, _LEAST_PENALTY)
        ratio = ratio if allowed[i] else 0.0
        worst = max(worst, ratio)
    return worst


@kernel(_nrt=False)
def _certify_column(left, C_row, allowed, root, j, members, b):  # type: ignore[no-untyped-def]
    """Return objective and duality gap of a column.

    ``left`` (d,) holds the correlations of all variables with the residual, ``C_row`` those with
    the column itself.
    """
    explained, fitted, penalty = 0.0, 0.0, 0.0
    for s in range(len(members)):
        i = members[s]
        explained += C_row[i] * b[s]
        fitted += left[i] * b[s]
        penalty += _l1_penalty(root, i, j) * abs(b[s])
    square = max(1.0 - explained - fitted, 0.0)  # |r|²
    worst = _worst(left, allowed, root, root[j])
    limit = 1.0 / worst if worst > 0.0 else np.inf
    objective = 0.5 * square + penalty
    gap = max(objective - dual_bound(1.0 - explained, square, limit), 0.0)
    return objective, gap


@kernel
def violators(left, allowed, root, j, members, most, workspace):  # type: ignore[no-untyped-def]
    """Find the variables to add to the members of column j: those furthest above their penalty.

    ``left`` (d,) holds the correlations of all variables with the residual, ``root`` (d,) the roots
    of the penalties. At most ``most`` are found, in the order of the variables. Writes them into
    ``workspace.new`` and returns their number.

    Examples
    --------
    >>> left, all_of_them, root = np.array([0.0, 0.9, 0.5, 0.1]), np.ones(4, dtype=bool), np.ones(4)
    >>> workspace = new_workspace(4)
    >>> violators(left, all_of_them, 0.5 * root, 0, np.array([1]), 5, workspace)
    1
    >>> workspace.new[:1]
    array([2])
    """
    inside, new, excess = workspace
    for s in range(len(members)):
        inside[members[s]] = True
    count = np.int64(0)
    for i in range(len(left)):
        over = abs(left[i]) - _l1_penalty(root, i, j)
        if over > 0.0 and allowed[i] and not inside[i]:
            new[count], excess[count] = i, over
            count += 1
    for s in range(len(members)):
        inside[members[s]] = False
    if count <= most:
        return count
    by_size = np.empty(count)
    for e in range(count):
        by_size[e] = excess[e]
    least = nth_least(by_size, count, count - most)
    size, ties = 0, most
    for e in range(count):
        if excess[e] > least:
            ties -= 1
    for e in range(count):
        if excess[e] > least or (excess[e] == least and ties > 0):
            ties -= excess[e] == least
            new[size] = new[e]
            size += 1
    return size


@kernel
def _certify(columns, left, C_rows, start, first, last):  # type: ignore[no-untyped-def]
    """Return objectives, gaps and the violators to add, for rows first..last.

    ``start`` are the coefficients of all rows; the violators are one compressed list.
    """
    k = last - first
    objective, gap = np.empty(k), np.empty(k)
    found = np.zeros(k + 1, dtype=np.int64)
    room = 0
    for a in range(first, last):
        room += max(_FIRST, start.indptr[a + 1] - start.indptr[a])
    flat = np.empty(room, dtype=np.int64)
    workspace = new_workspace(len(columns.root))
    for at in range(k):
        a = first + at
        members = start.indices[start.indptr[a] : start.indptr[a + 1]]
        b = start.values[start.indptr[a] : start.indptr[a + 1]]
        j, allowed = columns.names[a], columns.allowed[a]
        objective[at], gap[at] = _certify_column(
            left[a], C_rows[a], allowed, columns.root, j, members, b
        )
        most = max(_FIRST, len(members))
        new = violators(left[a], allowed, columns.root, j, members, most, workspace)
        for s in range(new):
            flat[found[at] + s] = workspace.new[s]
        found[at + 1] = found[at] + new
    return objective, gap, found, flat


@kernel
def _solve_held(C, columns, start, tol, first, last):  # type: ignore[no-untyped-def]
    """Solve columns first..last, one after the other, on correlations that are held.

    Returns objectives, gaps and the coefficients as one compressed list. The correlations with the
    residual are kept up to date by rows of C.
    """
    k = last - first
    d = len(columns.root)
    objective, gap = np.empty(k), np.empty(k)
    found = np.zeros(k + 1, dtype=np.int64)
    flat, flat_b = np.empty(_FIRST * k, dtype=np.int64), np.empty(_FIRST * k)
    members, b = np.empty(d, dtype=np.int64), np.empty(d)
    changed, change = np.empty(d, dtype=np.int64), np.empty(d)
    left = np.empty(d)
    workspace = new_workspace(d)
    for at in range(k):
        a = first + at
        j, allowed = columns.names[a], columns.allowed[a]
        begin = start.indptr[a]
        size = start.indptr[a + 1] - begin
        for s in range(size):
            members[s], b[s] = start.indices[begin + s], start.values[begin + s]
        for i in range(d):
            left[i] = C[j, i]
        _subtract_rows(left, C, members, b, size)
        for _ in range(_MAX_ROUNDS):
            objective[at], gap[at] = _certify_column(
                left, C[j], allowed, columns.root, j, members[:size], b[:size]
            )
            if gap[at] <= tol * objective[at]:
                break
            most = max(_FIRST, size)
            new = violators(left, allowed, columns.root, j, members[:size], most, workspace)
            for s in range(new):
                members[size + s], b[size + s] = workspace.new[s], 0.0
            size += new
            for s in range(size):
                change[s] = b[s]
            goal = max(0.3 * tol, 0.1 * gap[at] / objective[at])
            _descend_held(C, columns.root, j, members[:size], b[:size], goal)
            count, kept = np.int64(0), np.int64(0)
            for s in range(size):
                if b[s] != change[s]:
                    changed[count], change[count] = members[s], b[s] - change[s]
                    count += 1
                if b[s] != 0.0:
                    members[kept], b[kept] = members[s], b[s]
                    kept += 1
            _subtract_rows(left, C, changed, change, count)
            size = kept
        if found[at] + size > len(flat):
            room = 2 * len(flat) + size
            wider, wider_b = np.empty(room, dtype=np.int64), np.empty(room)
            for s in range(found[at]):
                wider[s], wider_b[s] = flat[s], flat_b[s]
            flat, flat_b = wider, wider_b
        for s in range(size):
            flat[found[at] + s], flat_b[found[at] + s] = members[s], b[s]
        found[at + 1] = found[at] + size
    return objective, gap, found, flat[: found[k]].copy(), flat_b[: found[k]].copy()


@kernel(fastmath=True, _nrt=False)
def _subtract_rows(left, C, members, values, m):  # type: ignore[no-untyped-def]
    """Subtract the first m values times rows of C, in place; several rows in one pass over left."""
    d = len(left)
    s = 0
    while s + 4 <= m:
        r0, r1, r2, r3 = C[members[s]], C[members[s + 1]], C[members[s + 2]], C[members[s + 3]]
        v0, v1, v2, v3 = values[s], values[s + 1], values[s + 2], values[s + 3]
        for i in range(d):
            left[i] -= v0 * r0[i] + v1 * r1[i] + v2 * r2[i] + v3 * r3[i]
        s += 4
    while s < m:
        row, value = C[members[s]], values[s]
        for i in range(d):
            left[i] -= value * row[i]
        s += 1


@kernel(inline="always")
def _descend_held(C, root, j, members, b, goal):  # type: ignore[no-untyped-def]
    """Solve one working set to a relative gap on correlations that are held, in place in b."""
    m = len(members)
    Q, c, p = np.empty((m, m)), np.empty(m), np.empty(m)
    for s in range(m):
        row = C[members[s]]
        for t in range(s + 1):
            Q[s, t] = row[members[t]]
        c[s] = C[j, members[s]]
        p[s] = _l1_penalty(root, members[s], j)
    for s in range(m):
        for t in range(s):
            Q[t, s] = Q[s, t]
    descend(Q, c, p, b, goal)


@kernel
def _descend_columns(Z, C_rows, root, names, start, goal, first, last):  # type: ignore[no-untyped-def]
    """Solve the working sets of named columns first..last on the data, in start.values."""
    for a in range(first, last):
        span = slice(start.indptr[a], start.indptr[a + 1])
        members = start.indices[span]
        m = len(members)
        c, p = np.empty(m), np.empty(m)
        for s in range(m):
            c[s] = C_rows[a, members[s]]
            p[s] = _l1_penalty(root, members[s], names[a])
        descend(_products(Z, members), c, p, start.values[span], goal[a])


@kernel
def _solve_few(source, held, root, names, start, tol, first, last):  # type: ignore[no-untyped-def]
    """Solve the named columns first..last on all the parents they are given, in start.values.

    Returns objectives and gaps. The correlations are in ``source`` where they are held; else that
    is the data, as rows of unit length.
    """
    objective, gap = np.zeros(last - first), np.zeros(last - first)
    for a in range(first, last):
        j = names[a]
        span = slice(start.indptr[a], start.indptr[a + 1])
        members, b = start.indices[span], start.values[span]
        m = len(members)
        Q, c, p, g = np.empty((m, m)), np.empty(m), np.empty(m), np.empty(m)
        if held:
            for s in range(m):
                row = source[members[s]]
                for t in range(m):
                    Q[s, t] = row[members[t]]
                c[s] = source[j, members[s]]
        else:
            everyone = np.empty(m + 1, dtype=np.int64)
            for s in range(m):
                everyone[s] = members[s]
            everyone[m] = j
            both = _products(source, everyone)
            for s in range(m):
                for t in range(m):
                    Q[s, t] = both[s, t]
                c[s] = both[m, s]
        for s in range(m):
            p[s] = _l1_penalty(root, members[s], j)
            Q[s, s] = 1.0
        for _ in range(_MAX_ROUNDS):
            subtract(Q, c, b, g)
            total, bound = weigh(c, p, b, g)
            objective[a - first] = total
            gap[a - first] = max(total - bound, 0.0) if m > 0 else 0.0
            if gap[a - first] <= tol * total:
                break
            descend(Q, c, p, b, 0.5 * tol)
    return objective, gap


@kernel
def _products(Z, members):  # type: ignore[no-untyped-def]
    """Return the inner products of the members' rows."""
    rows = np.empty((len(members), Z.shape[1]))
    for s in range(len(members)):
        row, own = Z[members[s]], rows[s]
        for i in range(len(row)):
            own[i] = row[i]
    return np.dot(rows, rows.T)
