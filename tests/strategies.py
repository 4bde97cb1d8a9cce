"""All hypothesis strategies of the tests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st


@st.composite
def weight_matrices(draw, max_d=9, dtype=np.float64):
    """Square matrices with any finite weights, from 1e-300 to 1e300, many of them zero."""
    d = draw(st.integers(1, max_d))
    weight = st.one_of(
        st.just(0.0),
        st.floats(-3, 3, allow_subnormal=False),
        st.sampled_from([1e-300, -1e-30, 1e-9, 1.0, -1.0, 0.5, 1e9, -1e30, 1e300]),
    )
    values = draw(st.lists(weight, min_size=d * d, max_size=d * d))
    return np.array(values, dtype=dtype).reshape(d, d)


@st.composite
def clustered_weights(draw, max_d=14):
    """Sparse square matrices with several strongly connected components, and arcs between them."""
    d = draw(st.integers(2, max_d))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    part = rng.integers(0, draw(st.integers(1, 5)), d)
    inside = (part[:, None] == part) * draw(st.floats(0.2, 0.9))
    onward = (part[:, None] < part) * draw(st.floats(0, 0.5))
    weight = draw(st.sampled_from(["normal", "ties", "wide"]))
    values = {
        "normal": rng.normal(size=(d, d)),
        "ties": rng.integers(1, 4, size=(d, d)).astype(float),
        "wide": 10.0 ** rng.uniform(-30, 30, size=(d, d)),
    }[weight]
    W = values * (inside + onward > rng.random((d, d)))
    np.fill_diagonal(W, 0)
    return W


@st.composite
def tables(draw, max_d=7, max_n=40):
    """Small Gaussian tables with dependent columns and scales from 1e-3 to 1e3."""
    d, n = draw(st.integers(1, max_d)), draw(st.integers(5, max_n))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mix = np.triu(rng.normal(size=(d, d)), 1) * (rng.random((d, d)) < 0.5) + np.eye(d)
    return (rng.normal(size=(n, d)) @ mix) * 10 ** rng.uniform(-3, 3, size=d)


class KnownCase(NamedTuple):
    """A table, what is known of it, and what that means, literally and densely."""

    X: np.ndarray
    known: dict  # parameters of Knowledge
    possible: np.ndarray  # (d, d)
    required: np.ndarray  # (d, d)
    tier: np.ndarray  # (d,), negative where there is none


@st.composite
def known_cases(draw, max_d=9):
    """Small tables with knowledge that some DAG keeps: all parts of it, in any combination."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d, n = int(rng.integers(2, max_d + 1)), int(rng.integers(5, 60))
    mix = np.triu(rng.normal(size=(d, d)), 1) * (rng.random((d, d)) < 0.4) + np.eye(d)
    X = (rng.normal(size=(n, d)) @ mix)[:, rng.permutation(d)]
    if rng.random() < 0.15:
        X[:, -1] = X[:, 0]
    if rng.random() < 0.15:
        X[:, d // 2] = 1.0
    order, names = rng.permutation(d), [f"x{j}" for j in range(d)]
    rank = np.argsort(order)
    known: dict = {}
    tier, within = np.full(d, -1), True
    if rng.random() < 0.6:
        cuts = np.sort(rng.integers(0, d + 1, size=2))
        tier = np.searchsorted(cuts, rank, side="right")
        tier[rng.random(d) < 0.3] = -1
        within = bool(rng.random() < 0.6)
        known["temporal_order"] = [[names[v] for v in np.flatnonzero(tier == t)] for t in range(3)]
        known["within_tier"] = within
    cause, effect = np.ones(d, dtype=bool), np.ones(d, dtype=bool)
    for mask, chance, only, none in (
        (cause, 0.4, "regulators", "sink_nodes"), (effect, 0.3, "targets", "root_nodes"),
    ):  # fmt: skip
        if rng.random() < chance:
            mask[:] = rng.random(d) < 0.5
            mask[rng.integers(d)] = True
            known[only] = [names[v] for v in np.flatnonzero(mask)]
        if rng.random() < chance:
            out = rng.random(d) < 0.3
            known[none] = [names[v] for v in np.flatnonzero(out)]
            mask &= ~out
    both = (tier[:, None] >= 0) & (tier >= 0)
    possible = cause[:, None] & effect & ~(both & (tier[:, None] > tier))
    if not within:
        possible &= ~(both & (tier[:, None] == tier))
    np.fill_diagonal(possible, False)
    required = possible & (rank[:, None] < rank) & (rng.random((d, d)) < 0.2)
    required &= rng.random() < 0.6
    forbidden = ~required & (rng.random((d, d)) < 0.2) & (rng.random() < 0.6)
    for name, arcs in (("required_edges", required), ("forbidden_edges", forbidden)):
        known[name] = [(names[i], names[j]) for i, j in np.argwhere(arcs)]
    return KnownCase(X, known, possible & ~forbidden, required, tier)
