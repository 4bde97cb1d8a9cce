"""All hypothesis strategies of the tests."""

from __future__ import annotations

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
