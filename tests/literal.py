"""The paper's two algorithms, transcribed densely and literally in NumPy, to test against."""

from __future__ import annotations

import numpy as np


def greedy_mas(W):
    """Algorithm 2, line by line; returns the projection and the order as the paper fills it."""
    d = len(W)
    W_hat = W * W
    scores = W_hat.sum(axis=0)
    order = np.zeros(d, dtype=int)
    ub = (d + 1) * scores.max()
    for i in range(d):
        node = int(np.argmin(scores))
        order[-(i + 1)] = node
        scores[node] = ub
        scores = scores - W_hat[node, :]
    inverse = np.argsort(order)
    projected = np.tril(W[np.ix_(order, order)], -1)
    return projected[np.ix_(inverse, inverse)], order


def equation_1(S, W, lambda1):
    residual = W - np.eye(len(W))
    return 0.5 * np.trace(residual.T @ S @ residual) + lambda1 * np.abs(W).sum()


def proximas(S, W, lambda1, lambda2, K):
    """Algorithm 1 with FISTA steps from a cyclic W; returns all cyclic and acyclic iterates."""
    L = np.linalg.norm(S, 2) + lambda2
    Y, t = W, 1.0
    acyclic = [greedy_mas(W)[0]]
    cyclic = [W]
    for _ in range(K):
        gradient = S @ (Y - np.eye(len(S))) + lambda2 * (Y - acyclic[-1])
        step = Y - gradient / L
        W_new = np.sign(step) * np.maximum(np.abs(step) - lambda1 / L, 0)
        np.fill_diagonal(W_new, 0)
        t_new = (1 + np.sqrt(1 + 4 * t**2)) / 2
        Y = W_new + (t - 1) / t_new * (W_new - W)
        W, t = W_new, t_new
        cyclic.append(W)
        acyclic.append(greedy_mas(W)[0])
    return cyclic, acyclic


# ------------------------------------------------------------------ the extended BIC


def bic_cost(X, v, parents, penalty):
    """What v costs with these parents: n log of the share of its variance left, by lstsq."""
    X = X - X.mean(axis=0)
    total = X[:, v] @ X[:, v]
    if total == 0:
        return 0.0
    P = X[:, list(parents)] / np.maximum(np.linalg.norm(X[:, list(parents)], axis=0), 1e-300)
    residual = X[:, v] - P @ np.linalg.lstsq(P, X[:, v], rcond=None)[0]
    return len(X) * np.log(max(residual @ residual / total, 1e-12)) + penalty * len(parents)


def grow_shrink(X, v, allowed, start, penalty, most):
    """Add the best of the allowed, else drop the worst of the parents, while the cost falls."""
    parents = list(start)
    while True:
        now = bic_cost(X, v, parents, penalty)
        more = [[*parents, u] for u in allowed if u not in parents and len(parents) < most]
        less = [[p for p in parents if p != u] for u in parents]
        for several in (more, less):
            tried = [(bic_cost(X, v, one, penalty), one) for one in several]
            best = min(tried, default=(now, parents))
            if best[0] < now - 1e-7:
                parents = best[1]
                break
        else:
            return parents


def walk(X, v, order, parents, near, place, penalty, most):
    """The parents of v once it has gone from its place to another, past one variable at a time."""
    rest, here = [u for u in order if u != v], list(order).index(v)
    ahead = rest[:here]
    parents = grow_shrink(X, v, [u for u in ahead if u in near], parents, penalty, most)
    while len(ahead) != place:
        if len(ahead) > place:
            passed = ahead.pop()
            if passed not in parents:
                continue
            parents = [u for u in parents if u != passed]
        else:
            passed = rest[len(ahead)]
            ahead.append(passed)
            better = (
                bic_cost(X, v, [*parents, passed], penalty)
                < bic_cost(X, v, parents, penalty) - 1e-7
            )
            if passed not in near or len(parents) >= most or not better:
                continue
        parents = grow_shrink(X, v, [u for u in ahead if u in near], parents, penalty, most)
    return parents


def insertion_change(X, order, parents, near, v, place, penalty, most):
    """How the BIC changes when v goes to a place of the order; ``near``: each one's candidates."""
    rest = [u for u in order if u != v]
    here = list(order).index(v)
    cost = {w: bic_cost(X, w, parents[w], penalty) for w in order}
    own = walk(X, v, order, parents[v], near[v], place, penalty, most)
    change = bic_cost(X, v, own, penalty) - cost[v]
    for w in rest[min(here, place) : max(here, place)]:
        if w not in near[v]:
            continue
        allowed = [u for u in rest[: rest.index(w)] if u in near[w]]
        start = [u for u in parents[w] if u != v]
        if place < here:
            if len(start) >= most or bic_cost(X, w, [*start, v], penalty) >= cost[w] - 1e-7:
                continue
            allowed, start = [*allowed, v], [*start, v]
        elif v not in parents[w]:
            continue
        change += bic_cost(X, w, grow_shrink(X, w, allowed, start, penalty, most), penalty)
        change -= cost[w]
    return change
