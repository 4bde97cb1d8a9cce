"""A small lasso problem solved whole: minimise ``1/2 bᵀQb − cᵀb + Σ p|b|``, Q with unit diagonal.

Cyclic coordinate descent, with the gradient kept up to date by rows of Q, and where that is slow
Newton steps on the support with an exact line search over the kinks where a coefficient crosses
zero. It ends by its own duality gap. This is the inside of :mod:`bigdag.engine.lasso`, on a
working set.
"""

from __future__ import annotations

import numpy as np

from bigdag.compiled import kernel
from bigdag.engine.objective import dual_bound

__all__ = ["descend"]

_NEWTONS = 4  # in one turn of descent
_SWEEPS = 5  # over the support, between two sweeps over the whole working set


@kernel
def descend(Q, c, p, b, tol):  # type: ignore[no-untyped-def]
    """Minimise 1/2 bᵀQb - cᵀb + Σ p|b| to a relative gap, in place in b; Q has a unit diagonal."""
    m = len(c)
    g = c.copy()  # c - Q b
    for s in range(m):
        if b[s] != 0.0:
            for t in range(m):
                g[t] -= b[s] * Q[s, t]
    support = np.empty(m, dtype=np.int64)
    last = np.inf
    for _ in range(100):
        for s in range(m):
            _update(Q, p, b, g, s)
        gap = _relative_gap(c, p, b, g)
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
            _newton(Q, c, p, b, g, support[:size])
        last = gap


@kernel
def _nonzero(b, support):  # type: ignore[no-untyped-def]
    """Write the places of the coefficients that are not zero into support; return their number."""
    size = 0
    for s in range(len(b)):
        if b[s] != 0.0:
            support[size] = s
            size += 1
    return size


@kernel(fastmath=True, inline="always")
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


@kernel
def _relative_gap(c, p, b, g):  # type: ignore[no-untyped-def]
    """Return the duality gap over the objective, inside the working set."""
    explained, fitted, penalty, limit = 0.0, 0.0, 0.0, np.inf
    for s in range(len(c)):
        explained += c[s] * b[s]
        fitted += g[s] * b[s]
        penalty += p[s] * abs(b[s])
        if abs(g[s]) * limit > p[s]:
            limit = p[s] / abs(g[s])
    square = max(1.0 - explained - fitted, 0.0)
    inner = 1.0 - explained
    objective = 0.5 * square + penalty
    return 1.0 - dual_bound(inner, square, limit) / objective


@kernel(fastmath=True)
def _newton(Q, c, p, b, g, support):  # type: ignore[no-untyped-def]
    """Go towards the minimum for the present signs, as far as it pays, in place in b and g."""
    m, size = len(c), len(support)
    L = np.empty((size, size))
    goal = np.empty(size)
    for _ in range(_NEWTONS):
        if not _cholesky(Q, support[:size], L):
            return  # collinear: leave it to coordinate descent
        for i in range(size):
            s = support[i]
            goal[i] = c[s] - p[s] * np.sign(b[s])
        _back_solve(L, goal[:size])
        share = _line_search(Q, p, b, g, support[:size], goal[:size])
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
        g[:] = c
        for i in range(kept):
            s = support[i]
            for t in range(m):
                g[t] -= b[s] * Q[s, t]
        size = kept
        if share >= 1.0 or size == 0:
            break


@kernel(fastmath=True)
def _cholesky(Q, support, L):  # type: ignore[no-untyped-def]
    """Write the lower factor of Q on the support into L; False where it is not definite."""
    for i in range(len(support)):
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


@kernel(fastmath=True)
def _back_solve(L, x):  # type: ignore[no-untyped-def]
    """Solve L Lᵀ y = x, in place in x."""
    size = len(x)
    for i in range(size):
        total = x[i]
        for k in range(i):
            total -= L[i, k] * x[k]
        x[i] = total / L[i, i]
    for i in range(size - 1, -1, -1):
        x[i] /= L[i, i]
        for k in range(i):
            x[k] -= L[i, k] * x[i]


@kernel
def _line_search(Q, p, b, g, support, goal):  # type: ignore[no-untyped-def]
    """Return the share of the way from b to goal, on the support, where the objective is least.

    Along the way it is a convex parabola with kinks where a coefficient crosses zero.
    """
    size = len(support)
    slope, curve = 0.0, 0.0
    at = np.empty(size)
    for i in range(size):
        s = support[i]
        step = goal[i] - b[s]
        at[i] = -b[s] / step if step * b[s] < 0.0 else np.inf
        slope += (p[s] * np.sign(b[s]) - g[s]) * step
        for k in range(size):
            curve += step * Q[s, support[k]] * (goal[k] - b[support[k]])
    if at.min() >= 1.0:
        return 1.0  # no kink: the goal is the minimum
    if slope >= 0.0 or curve <= 0.0:
        return 0.0
    for i in np.argsort(at):
        s = support[i]
        share = min(at[i], 1.0)
        if slope + share * curve >= 0.0:
            return -slope / curve
        if share >= 1.0:
            return 1.0
        slope += 2.0 * p[s] * abs(goal[i] - b[s])
        if slope + share * curve >= 0.0:
            return share
    return min(1.0, -slope / curve)
