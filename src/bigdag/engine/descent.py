"""A small lasso problem solved whole: minimise ``1/2 bᵀQb − cᵀb + Σ p|b|``, Q with unit diagonal.

Cyclic coordinate descent, with the gradient kept up to date by rows of Q, and where that is slow
Newton steps on the support with an exact line search over the kinks where a coefficient crosses
zero. It ends by its own duality gap. This is the inside of :mod:`bigdag.engine.column_problem`, on
a working set.
"""

from __future__ import annotations

import numpy as np

from bigdag.compiled import kernel
from bigdag.engine.objective import dual_bound

__all__ = ["descend", "subtract", "weigh"]

_NEWTONS = 4  # in one turn of descent
_BEYOND = 2.0  # of the way: behind the goal, where no kink matters
_SWEEPS = 5  # over the support, between two sweeps over the whole working set


@kernel(inside=True)
def descend(Q, c, p, b, tol):  # type: ignore[no-untyped-def]
    """Minimise 1/2 bᵀQb - cᵀb + Σ p|b| to a relative gap, in place in b; Q has a unit diagonal."""
    m = len(c)
    g = np.empty(m)
    subtract(Q, c, b, g)
    support = np.empty(m, dtype=np.int64)
    last = np.inf
    for _ in range(100):
        for s in range(m):
            _update(Q, p, b, g, s)
        objective, bound = weigh(c, p, b, g)
        gap = 1.0 - bound / objective
        if gap <= tol:
            return
        size = _nonzero(b, support)
        for _ in range(_SWEEPS):
            for e in range(size):
                _update(Q, p, b, g, support[e])
        size = _nonzero(b, support)  # a coefficient at zero has no sign for a Newton step to keep
        # A Newton step costs as much as many sweeps: it pays where as many are still to come.
        pace = np.log(last / gap)
        if size > 0 and pace * (size / 18 + 0.5) < np.log(gap / tol):
            L, goal, kinks = np.empty((size, size)), np.empty(size), np.empty(size)
            _newton(Q, c, p, b, g, support, size, L, goal, kinks)
        last = gap


@kernel(inside=True, _nrt=False)
def _nonzero(b, support):  # type: ignore[no-untyped-def]
    """Write the places of the coefficients that are not zero into support; return their number."""
    size = 0
    for s in range(len(b)):
        if b[s] != 0.0:
            support[size] = s
            size += 1
    return size


@kernel(inside=True, _nrt=False)
def _update(Q, p, b, g, s):  # type: ignore[no-untyped-def]
    """Minimise over coordinate s, in place in b and g."""
    old = b[s]
    at = g[s] + old
    new = 0.0
    if at > p[s]:
        new = at - p[s]
    elif at < -p[s]:
        new = at + p[s]
    if new != old:
        step = new - old
        row = Q[s]
        for t in range(len(g)):
            g[t] -= step * row[t]
        b[s] = new


@kernel(inside=True, _nrt=False)
def subtract(Q, c, b, g):  # type: ignore[no-untyped-def]
    """Write the gradient c - Q b into g."""
    for t in range(len(c)):
        g[t] = c[t]
    for s in range(len(c)):
        if b[s] != 0.0:
            for t in range(len(c)):
                g[t] -= b[s] * Q[s, t]


@kernel(inside=True, _nrt=False)
def weigh(c, p, b, g):  # type: ignore[no-untyped-def]
    """Return the objective and the dual bound, inside the working set; g is the gradient."""
    explained, fitted, penalty, limit = 0.0, 0.0, 0.0, np.inf
    for s in range(len(c)):
        explained += c[s] * b[s]
        fitted += g[s] * b[s]
        penalty += p[s] * abs(b[s])
        if abs(g[s]) * limit > p[s]:
            limit = p[s] / abs(g[s])
    square = max(1.0 - explained - fitted, 0.0)
    return 0.5 * square + penalty, dual_bound(1.0 - explained, square, limit)


@kernel(inside=True, fastmath=True, _nrt=False)
def _newton(Q, c, p, b, g, support, size, L, goal, kinks):  # type: ignore[no-untyped-def]
    """Go towards the minimum for the present signs, as far as it pays, in place in b and g.

    The first ``size`` places in ``support`` are where b is not zero; L, goal and kinks are room.
    """
    for _ in range(_NEWTONS):
        if not _cholesky(Q, support, size, L):
            return  # collinear: leave it to coordinate descent
        for i in range(size):
            s = support[i]
            goal[i] = c[s] - p[s] if b[s] > 0.0 else c[s] + p[s]
        _back_solve(L, goal, size)
        share = _line_search(Q, p, b, g, support, goal, kinks, size)
        size = _go(Q, c, b, g, support, goal, size, share)
        if share >= 1.0 or size == 0:
            break


@kernel(inside=True, fastmath=True, _nrt=False)
def _go(Q, c, b, g, support, goal, size, share):  # type: ignore[no-untyped-def]
    """Go a share of the way to the goal, in place in b, g and support; return the new size."""
    kept = 0
    for i in range(size):
        s = support[i]
        step = goal[i] - b[s]
        at = b[s] + share * step
        if step != 0.0 and abs(at) <= 1e-14 * abs(step):
            at = 0.0
        b[s] = at
        if at != 0.0:
            support[kept] = s
            kept += 1
    for t in range(len(g)):
        g[t] = c[t]
    for i in range(kept):
        s = support[i]
        for t in range(len(g)):
            g[t] -= b[s] * Q[s, t]
    return kept


@kernel(inside=True, fastmath=True, _nrt=False)
def _cholesky(Q, support, size, L):  # type: ignore[no-untyped-def]
    """Write the lower factor of Q on the support into L; False where it is not definite."""
    for i in range(size):
        row, of_i = Q[support[i]], L[i]
        for j in range(i + 1):
            of_j = L[j]
            total = row[support[j]]
            for k in range(j):
                total -= of_i[k] * of_j[k]
            if i > j:
                of_i[j] = total / of_j[j]
            elif total > 1e-11:
                of_i[i] = np.sqrt(total)
            else:
                return False
    return True


@kernel(inside=True, fastmath=True, _nrt=False)
def _back_solve(L, x, size):  # type: ignore[no-untyped-def]
    """Solve L Lᵀ y = x, in place in x."""
    for i in range(size):
        total = x[i]
        for k in range(i):
            total -= L[i, k] * x[k]
        x[i] = total / L[i, i]
    for i in range(size - 1, -1, -1):
        x[i] /= L[i, i]
        for k in range(i):
            x[k] -= L[i, k] * x[i]


@kernel(inside=True, fastmath=True, _nrt=False)
def _line_search(Q, p, b, g, support, goal, kinks, size):  # type: ignore[no-untyped-def]
    """Return the share of the way from b to goal, on the support, where the objective is least.

    Along the way it is a convex parabola with kinks where a coefficient crosses zero; few are
    crossed before the least is reached, so that they are looked for one after the other.
    """
    slope, curve = 0.0, 0.0
    for i in range(size):
        s = support[i]
        step = goal[i] - b[s]
        kinks[i] = -b[s] / step if step * b[s] < 0.0 else _BEYOND
        slope += ((p[s] if b[s] > 0.0 else -p[s]) - g[s]) * step
        for k in range(size):
            curve += step * Q[s, support[k]] * (goal[k] - b[support[k]])
    i = _least(kinks, size)
    if kinks[i] >= 1.0:
        return 1.0  # no kink: the goal is the minimum
    if slope >= 0.0 or curve <= 0.0:
        return 0.0
    while True:
        share = min(kinks[i], 1.0)
        if slope + share * curve >= 0.0:
            return -slope / curve
        if share >= 1.0:
            return 1.0
        slope += 2.0 * p[support[i]] * abs(goal[i] - b[support[i]])
        if slope + share * curve >= 0.0:
            return share
        kinks[i] = _BEYOND
        i = _least(kinks, size)


@kernel(inside=True, _nrt=False)
def _least(values, size):  # type: ignore[no-untyped-def]
    """Return the place of the least of the first values."""
    least = 0
    for i in range(1, size):
        if values[i] < values[least]:
            least = i
    return least
