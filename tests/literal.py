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
