"""Column problems of equation (1), compiled: what proves a solution, and the way to it.

A column's objective and duality gap, the variables furthest above their penalty, which a working
set grows by, and descent on that set: on correlations that are held, on data, or on the few parents
that a mask leaves. :mod:`bigdag.engine.lasso` has the equations, and hands the columns over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bigdag.compiled import kernel
from bigdag.engine.descent import descend, subtract, weigh
from bigdag.engine.objective import dual_bound
from bigdag.engine.order import nth_least

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "MAX_ROUNDS",
    "Coefficients",
    "Columns",
    "Workspace",
    "certify",
    "descend_columns",
    "new_workspace",
    "solve_few",
    "solve_held",
    "violators",
]

_FIRST = 24  # parents a working set begins with
MAX_ROUNDS = 60  # of growing a working set
_LEAST_PENALTY = 1e-10  # on the correlation scale


class Coefficients(NamedTuple):
    """The coefficients of some columns on the correlation scale, compressed.

    Those of column a are ``values[indptr[a]:indptr[a + 1]]``, on the variables in ``indices``.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    values: NDArray[np.float64]


class Columns(NamedTuple):
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


# ------------------------------------------------------------------ the certificate


@kernel(inside=True)
def new_workspace(d):  # type: ignore[no-untyped-def]
    """Return room to look for violators among d variables."""
    return Workspace(np.zeros(d, dtype=np.bool_), np.empty(d, dtype=np.int64), np.empty(d))


@kernel(inline="always")
def _l1_penalty(root, i, j):  # type: ignore[no-untyped-def]
    """Return p[i, j]; never zero, as without a penalty there is no dual bound."""
    return max(root[i] * root[j], _LEAST_PENALTY)


@kernel(inside=True, fastmath=True, _nrt=False)
def _worst(left, allowed, root, own):  # type: ignore[no-untyped-def]
    """Return the largest correlation with the residual in units of its penalty."""
    worst = 0.0
    for i in range(len(left)):
        ratio = abs(left[i]) / max(root[i] * own, _LEAST_PENALTY)
        ratio = ratio if allowed[i] else 0.0
        worst = max(worst, ratio)
    return worst


@kernel(inside=True, _nrt=False)
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


@kernel(inside=True)
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
def certify(columns, left, C_rows, start, first, last):  # type: ignore[no-untyped-def]
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


# ------------------------------------------------------------------ solving


@kernel
def solve_held(C, columns, start, tol, first, last):  # type: ignore[no-untyped-def]
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
        for _ in range(MAX_ROUNDS):
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


@kernel(inside=True, fastmath=True, _nrt=False)
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
def descend_columns(Z, C_rows, root, names, start, goal, first, last):  # type: ignore[no-untyped-def]
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
def solve_few(source, held, root, names, start, tol, first, last):  # type: ignore[no-untyped-def]
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
        for _ in range(MAX_ROUNDS):
            subtract(Q, c, b, g)
            total, bound = weigh(c, p, b, g)
            objective[a - first] = total
            gap[a - first] = max(total - bound, 0.0) if m > 0 else 0.0
            if gap[a - first] <= tol * total:
                break
            descend(Q, c, p, b, 0.5 * tol)
    return objective, gap


@kernel(inside=True)
def _products(Z, members):  # type: ignore[no-untyped-def]
    """Return the inner products of the members' rows."""
    rows = np.empty((len(members), Z.shape[1]))
    for s in range(len(members)):
        row, own = Z[members[s]], rows[s]
        for i in range(len(row)):
            own[i] = row[i]
    return np.dot(rows, rows.T)
