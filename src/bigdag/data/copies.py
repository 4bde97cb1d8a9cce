"""Columns that are copies of each other, which no data can tell apart."""

from __future__ import annotations

import numpy as np

from bigdag.data.convert import FloatArray

__all__ = ["copies"]

# Two columns of length 1 that are no further apart than this are copies of each other.
_COPIES = 1e-9


def copies(X: FloatArray, mean: FloatArray, norm: FloatArray) -> list[list[int]]:
    """Find the groups of columns that are equal up to a factor and a shift; norm is theirs (d,).

    One product with a random direction tells columns apart, up to a sign; what falls together is
    compared in full. So this takes n·d operations and a sort, not a correlation of every pair.
    """
    live = np.flatnonzero(norm)
    n = len(X)
    if n == 2:  # two samples lie on a line always; only equal columns mean something
        key = X[0]
    else:
        direction = np.random.default_rng(0).standard_normal(n)
        scale = np.where(norm > 0, norm, 1.0)
        key = np.abs(direction @ X) / scale
    live = live[np.argsort(key[live], kind="stable")]
    runs = np.split(live, np.flatnonzero(np.diff(key[live]) > (n > 2) * 10 * _COPIES) + 1)
    groups: list[list[int]] = []
    for run in runs:
        if len(run) < 2:
            continue
        found: list[list[int]] = []
        for j in sorted(run.tolist()):
            column = X[:, j] / norm[j]
            for group in found:
                other = X[:, group[0]] / norm[group[0]]
                if n == 2:
                    same = bool((X[:, group[0]] == X[:, j]).all())
                    same = same and mean[group[0]] == mean[j]
                else:
                    sign = np.sign(column @ other)
                    same = float(np.linalg.norm(column - sign * other)) <= _COPIES
                if same:
                    group.append(j)
                    break
            else:
                found.append([j])
        groups += [group for group in found if len(group) > 1]
    return sorted(groups)
