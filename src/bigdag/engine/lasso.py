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

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from bigdag.compiled import kernel
from bigdag.engine.descent import descend
from bigdag.engine.objective import dual_bound, on_correlation_scale
from bigdag.engine.order import project, rank_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.gram import Gram

__all__ = ["LassoFit", "solve", "typical_parents", "violators"]

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


def solve(
    gram: Gram,
    lambda1: float,
    *,
    order: NDArray[np.integer] | None = None,
    mask: sp.sparray | None = None,
    start: sp.sparray | None = None,
    columns: NDArray[np.integer] | None = None,
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
    problem = _Problem(gram, lambda1, order, mask, tol)
    support, values = _start_coefficients(gram, problem.inside(start))
    objective = np.zeros(gram.d)
    gap = np.full(gram.d, np.inf)
    wanted = np.arange(gram.d) if columns is None else np.asarray(columns, dtype=np.int64)
    blocks: Iterable[Any] = gram.blocks(wanted)
    if stop is not None and gram.C is not None:  # each column alone, so small blocks cost nothing
        size = _POLLED * gram.n_jobs
        blocks = (wanted[a : a + size] for a in range(0, len(wanted), size))
    for block in blocks:
        if stop is not None and stop():
            break
        fitted = problem.solve_block(
            block, [support[j] for j in block], [values[j] for j in block], stop
        )
        for a, j in enumerate(block):
            support[j], values[j] = fitted[0][a], fitted[1][a]
        scale = gram.sd[block] ** 2
        objective[block] = fitted[2] * scale
        gap[block] = fitted[3] * scale
    weights = _assemble(gram, support, values)
    complete = bool(np.all(gap[wanted] <= tol * objective[wanted] * (1 + 1e-9)))
    return LassoFit(weights, objective, gap, complete)


def typical_parents(n: int, d: int) -> int:
    """Return about how many parents the lasso leaves a variable, with the default lambda1.

    Measured on random graphs with one arc a variable and noise of variance 1: most of them are
    chance, and there are the more the more variables and the fewer samples there are.

    Examples
    --------
    >>> typical_parents(1000, 2000)
    89
    """
    return int(min(0.14 * d**0.85 * (1000 / n) ** 0.4, 0.6 * n, d))


def _start_coefficients(gram: Gram, start: sp.sparray | None) -> tuple[list[Any], list[Any]]:
    """Return each column's support and coefficients on the correlation scale."""
    if start is None:
        empty = np.empty(0, dtype=np.int64), np.empty(0)
        return [empty[0]] * gram.d, [empty[1]] * gram.d
    B = on_correlation_scale(gram, start)
    indices = B.indices.astype(np.int64)
    pieces = [slice(a, b) for a, b in zip(B.indptr[:-1], B.indptr[1:])]
    return [indices[piece] for piece in pieces], [B.data[piece] for piece in pieces]


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
    ) -> None:
        self.gram, self.tol = gram, tol
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
        allowed[np.arange(len(block)), block] = False
        allowed[~self.live[block]] = False
        return allowed

    def solve_block(
        self,
        block: NDArray[np.int64],
        support: list[Any],
        values: list[Any],
        stop: Callable[[], bool] | None,
    ) -> tuple[list[Any], list[Any], NDArray[np.float64], NDArray[np.float64]]:
        """Return supports, coefficients, objectives and gaps of a block of columns."""
        if self.few:
            return self._solve_few(block, support, values)
        objective, gap = np.zeros(len(block)), np.zeros(len(block))
        allowed = self.allowed(block)
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
            pieces = gram.each(
                partial(_solve_held, gram.C, may, self.root, block[todo], *flat, self.tol),
                len(todo),
            )
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
            certified = self.gram.each(
                partial(_certify, left, C_rows, allowed[todo], self.root, block[todo], *flat),
                len(todo),
            )
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
            start[support[a]] = values[a]
            known, support[a] = support[a], inside[keep]
            values[a] = start[support[a]]
            start[known] = 0.0
        flat = _flat(support, values, np.arange(len(block)))
        source = gram.Z if gram.C is None else gram.C
        work = partial(
            _solve_few, source, gram.C is not None, self.root, block, *flat, self.tol, self.live
        )
        results = gram.each(work, len(block))
        for a in range(len(block)):
            span = slice(flat[0][a], flat[0][a + 1])
            keep = flat[2][span] != 0
            support[a], values[a] = flat[1][span][keep], flat[2][span][keep]
        objective, gap = (np.concatenate([r[i] for r in results]) for i in (0, 1))
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
        indptr, indices, flat = _flat(support, values, todo)
        columns = block[todo]
        gram = self.gram

        def work(first: int, last: int) -> None:
            _descend_columns(
                gram.C if gram.C is not None else gram.Z, gram.C is not None, C_rows, self.root,
                columns, indptr, indices, flat, first, last, goal,
            )  # fmt: skip

        gram.each(work, len(todo), chunk=4)
        for i, a in enumerate(todo):
            piece = slice(indptr[i], indptr[i + 1])
            keep = flat[piece] != 0
            support[a], values[a] = indices[piece][keep], flat[piece][keep]


def _flat(
    support: list[Any], values: list[Any], todo: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the chosen columns' coefficients as one compressed list: indptr, indices, values."""
    sizes = [len(support[a]) for a in todo]
    indptr = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
    indices = np.concatenate([np.empty(0, dtype=np.int64), *(support[a] for a in todo)])
    return indptr, indices, np.concatenate([np.empty(0), *(values[a] for a in todo)])


def _split(certified: list[Any]) -> list[NDArray[np.int64]]:
    """Return each column's violators from the pieces that the threads returned."""
    return [
        piece[3][piece[2][i] : piece[2][i + 1]] for piece in certified for i in range(len(piece[0]))
    ]


# ------------------------------------------------------------------ compiled kernels


@kernel(inline="always")
def _penalty(root, i, j):  # type: ignore[no-untyped-def]
    """Return p[i, j]; never zero, as without a penalty there is no dual bound."""
    return max(root[i] * root[j], _LEAST_PENALTY)


@kernel(fastmath=True)
def _worst(left, allowed, root, own):  # type: ignore[no-untyped-def]
    """Return the largest correlation with the residual in units of its penalty."""
    worst = 0.0
    for i in range(len(left)):
        ratio = abs(left[i]) / max(root[i] * own, _LEAST_PENALTY)
        ratio = ratio if allowed[i] else 0.0
        worst = max(worst, ratio)
    return worst


@kernel
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
        penalty += _penalty(root, i, j) * abs(b[s])
    square = max(1.0 - explained - fitted, 0.0)  # |r|²
    worst = _worst(left, allowed, root, root[j])
    limit = 1.0 / worst if worst > 0.0 else np.inf
    objective = 0.5 * square + penalty
    gap = max(objective - dual_bound(1.0 - explained, square, limit), 0.0)
    return objective, gap


@kernel
def violators(left, allowed, root, j, members, most, inside, new, excess):  # type: ignore[no-untyped-def]
    """Return the variables to add to the members of column j: those furthest above their penalty.

    ``left`` (d,) holds the correlations of all variables with the residual, ``root`` (d,) the roots
    of the penalties. At most ``most`` are returned, in the order of the variables. ``inside`` (d,)
    is False for all members, before and after; ``new`` and ``excess`` are room (d,).

    Examples
    --------
    >>> left, all_of_them, root = np.array([0.0, 0.9, 0.5, 0.1]), np.ones(4, dtype=bool), np.ones(4)
    >>> room = np.zeros(4, dtype=bool), np.empty(4, dtype=np.int64), np.empty(4)
    >>> violators(left, all_of_them, 0.5 * root, 0, np.array([1]), 5, *room)
    array([2])
    """
    for i in members:
        inside[i] = True
    count = 0
    for i in range(len(left)):
        over = abs(left[i]) - _penalty(root, i, j)
        if over > 0.0 and allowed[i] and not inside[i]:
            new[count], excess[count] = i, over
            count += 1
    for i in members:
        inside[i] = False
    if count <= most:
        return new[:count].copy()
    least = np.partition(excess[:count], count - most)[count - most]
    kept = np.empty(most, dtype=np.int64)
    size, ties = 0, most
    for e in range(count):
        if excess[e] > least:
            ties -= 1
    for e in range(count):
        if excess[e] > least or (excess[e] == least and ties > 0):
            ties -= excess[e] == least
            kept[size] = new[e]
            size += 1
    return kept


@kernel
def _certify(left, C_rows, allowed, root, columns, indptr, indices, values, first, last):  # type: ignore[no-untyped-def]
    """Return objectives, gaps and the violators to add, for rows first..last."""
    k = last - first
    objective, gap = np.empty(k), np.empty(k)
    found = np.zeros(k + 1, dtype=np.int64)
    added = [np.empty(0, dtype=np.int64)]
    d = len(root)
    room = np.zeros(d, dtype=np.bool_), np.empty(d, dtype=np.int64), np.empty(d)
    for at in range(k):
        a = first + at
        span = slice(indptr[a], indptr[a + 1])
        objective[at], gap[at] = _certify_column(
            left[a], C_rows[a], allowed[a], root, columns[a], indices[span], values[span]
        )
        members = indices[span]
        most = max(_FIRST, len(members))
        new = violators(left[a], allowed[a], root, columns[a], members, most, *room)
        added.append(new)
        found[at + 1] = found[at] + len(new)
    flat = np.empty(found[k], dtype=np.int64)
    for at in range(k):
        flat[found[at] : found[at + 1]] = added[at + 1]
    return objective, gap, found, flat


@kernel
def _solve_held(C, allowed, root, columns, indptr, indices, values, tol, first, last):  # type: ignore[no-untyped-def]
    """Solve columns first..last, one after the other, on correlations that are held.

    Returns objectives, gaps and the coefficients as one compressed list. The correlations with the
    residual are kept up to date by rows of C.
    """
    k = last - first
    objective, gap = np.empty(k), np.empty(k)
    found = np.zeros(k + 1, dtype=np.int64)
    all_members, all_b = [np.empty(0, dtype=np.int64)], [np.empty(0)]
    d = len(root)
    room = np.zeros(d, dtype=np.bool_), np.empty(d, dtype=np.int64), np.empty(d)
    for at in range(k):
        a = first + at
        j = columns[a]
        members, b = indices[indptr[a] : indptr[a + 1]], values[indptr[a] : indptr[a + 1]]
        left = C[j].copy()
        _subtract_rows(left, C, members, b)
        for _ in range(_MAX_ROUNDS):
            objective[at], gap[at] = _certify_column(left, C[j], allowed[a], root, j, members, b)
            if gap[at] <= tol * objective[at]:
                break
            most = max(_FIRST, len(members))
            new = violators(left, allowed[a], root, j, members, most, *room)
            members = np.concatenate((members, new))
            b = np.concatenate((b, np.zeros(len(new))))
            before = b.copy()
            goal = max(0.3 * tol, 0.1 * gap[at] / objective[at])
            _descend_column(C, True, C[j], root, j, members, b, goal)
            changed = b != before
            _subtract_rows(left, C, members[changed], (b - before)[changed])
            keep = b != 0.0
            members, b = members[keep], b[keep]
        all_members.append(members)
        all_b.append(b)
        found[at + 1] = found[at] + len(members)
    flat_members, flat_b = np.empty(found[k], dtype=np.int64), np.empty(found[k])
    for at in range(k):
        flat_members[found[at] : found[at + 1]] = all_members[at + 1]
        flat_b[found[at] : found[at + 1]] = all_b[at + 1]
    return objective, gap, found, flat_members, flat_b


@kernel(fastmath=True)
def _subtract_rows(left, C, members, values):  # type: ignore[no-untyped-def]
    """Subtract values times rows of C, in place; several rows in one pass over left."""
    m, d = len(members), len(left)
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


@kernel
def _descend_columns(  # type: ignore[no-untyped-def]
    source, is_gram, C_rows, root, columns, indptr, indices, values, first, last, goal
):
    """Solve the working sets of columns first..last, in place in values."""
    for a in range(first, last):
        span = slice(indptr[a], indptr[a + 1])
        _descend_column(
            source, is_gram, C_rows[a], root, columns[a], indices[span], values[span], goal[a]
        )


@kernel
def _descend_column(source, is_gram, C_row, root, j, members, b, goal):  # type: ignore[no-untyped-def]
    """Solve one working set to a relative gap, in place in b."""
    m = len(members)
    Q = np.empty((m, m))
    if is_gram:
        for s in range(m):
            row = source[members[s]]
            for t in range(s + 1):
                Q[s, t] = row[members[t]]
        for s in range(m):
            for t in range(s):
                Q[t, s] = Q[s, t]
    else:
        Zw = np.empty((m, source.shape[1]))
        for s in range(m):
            Zw[s] = source[members[s]]
        Q[:] = np.dot(Zw, Zw.T)
    c, p = np.empty(m), np.empty(m)
    for s in range(m):
        c[s] = C_row[members[s]]
        p[s] = _penalty(root, members[s], j)
    descend(Q, c, p, b, goal)


@kernel
def _solve_few(source, is_gram, root, columns, indptr, indices, values, tol, live, first, last):  # type: ignore[no-untyped-def]
    """Solve columns first..last on all the parents they are given; objectives and gaps."""
    objective, gap = np.zeros(last - first), np.zeros(last - first)
    for a in range(first, last):
        j = columns[a]
        members, b = indices[indptr[a] : indptr[a + 1]], values[indptr[a] : indptr[a + 1]]
        m = len(members)
        # The correlations of the parents and, last, of the column itself.
        Q = np.empty((m + 1, m + 1))
        everyone = np.append(members, j)
        if is_gram:
            for s in range(m + 1):
                for t in range(m + 1):
                    Q[s, t] = source[everyone[s], everyone[t]]
        else:
            rows = np.empty((m + 1, source.shape[1]))
            for s in range(m + 1):
                rows[s] = source[everyone[s]]
            Q[:] = np.dot(rows, rows.T)
        c, p = Q[m, :m].copy(), np.empty(m)
        for s in range(m):
            p[s] = _penalty(root, members[s], j)
            Q[s, s] = 1.0
        P = Q[:m, :m].copy()
        for _ in range(_MAX_ROUNDS):
            left = c - np.dot(P, b)
            square = max(1.0 - np.dot(c, b) - np.dot(left, b), 0.0)
            limit = np.inf
            for s in range(m):
                size = abs(left[s])
                if size > p[s] or (limit > 1.0 and size * limit > p[s]):
                    limit = min(limit, p[s] / size)
            total = 0.5 * square + np.dot(p, np.abs(b))
            objective[a - first] = total if live[j] else 0.0
            if m == 0:
                break
            bound = dual_bound(1.0 - np.dot(c, b), square, limit)
            gap[a - first] = max(total - bound, 0.0)
            if gap[a - first] <= tol * total:
                break
            descend(P, c, p, b, 0.5 * tol)
    return objective, gap
