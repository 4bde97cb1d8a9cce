"""Random DAGs and samples: exact counts, ranges, a dense reference, distributions, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigdag.errors import DataError, GraphError, ParameterError
from bigdag.graph.dag import DAG
from bigdag.simulate import (
    internally_standardised,
    models,
    noise_scales,
    random_dag,
    sample,
    standardise,
)


@given(d=st.integers(2, 40), share=st.floats(0.01, 1), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_er_has_exactly_k_times_d_arcs_forward_in_its_order(d, share, seed):
    n_arcs = max(1, round(share * d * (d - 1) / 2))
    dag = random_dag(d, n_arcs / d, rng=seed)
    rank = np.argsort(dag.order)
    arcs = dag.weights.tocoo()
    assert dag.n_arcs == n_arcs
    assert (rank[arcs.row] < rank[arcs.col]).all()


def test_er_pairs_are_uniform():
    counts = sum((random_dag(6, 1, rng=seed).weights != 0).toarray() for seed in range(3000))
    # 6 arcs on 30 ordered pairs: each is there with chance 0.2, sd sqrt(.16 / 3000) = 0.0073.
    assert np.abs(counts[~np.eye(6, dtype=bool)] / 3000 - 0.2).max() < 0.03


@pytest.mark.parametrize("code", [0, 1, 2, 3, 5, 10**6, 4_999_949_999, 4_999_850_000, 2**52])
def test_codes_of_pairs_are_exact(code):
    first, second = (int(v[0]) for v in models._pairs(np.array([code])))
    assert 0 <= first < second
    assert second * (second - 1) // 2 + first == code


@pytest.mark.parametrize(("d", "k"), [(2, 0.5), (3, 1), (50, 1), (200, 4), (9, 4)])
def test_sf_arcs_and_hubs(d, k):
    if k < 1:
        with pytest.raises(ParameterError, match="whole number"):
            random_dag(d, k, "SF", rng=0)
        return
    dag = random_dag(d, k, "SF", rng=0)
    children = np.bincount(dag.weights.indices, minlength=d)  # arcs that leave each node
    assert dag.n_arcs == k * d - k * (k + 1) // 2
    assert sorted(children) == [*range(k), *[k] * (d - k)]


def test_sf_is_scale_free_and_er_is_not():
    most = {
        graph: np.diff(random_dag(3000, 2, graph, rng=1).weights.indptr).max()
        for graph in ("ER", "SF")
    }
    assert most["SF"] > 5 * most["ER"]


def test_weights_fill_both_intervals():
    weights = random_dag(5000, 4, rng=0).weights.data
    size = np.abs(weights)
    assert size.min() >= 0.5
    assert size.max() <= 2.0
    assert abs(size.mean() - 1.25) < 0.02
    assert abs((weights > 0).mean() - 0.5) < 0.02
    size = np.abs(random_dag(100, 1, rng=0, weights=(0.1, 0.2)).weights.data)
    assert 0.1 <= size.min() <= size.max() <= 0.2


@pytest.mark.parametrize("graph", ["ER", "SF"])
def test_order_is_not_that_of_the_columns(graph):
    dag = random_dag(300, 1, graph, rng=3)
    arcs = dag.weights.tocoo()
    assert 0.35 < np.mean(arcs.row < arcs.col) < 0.65


@pytest.mark.parametrize("noise", models.NOISES)
@pytest.mark.parametrize("variance", models.VARIANCES)
def test_sample_equals_the_dense_inverse(noise, variance):
    dag = random_dag(12, 2, rng=5)
    X = sample(dag, 7, noise, variance, rng=6)
    rng = np.random.default_rng(6)
    scales = np.ones(12) if variance == "EV" else rng.uniform(0.5, 1.5, 12)
    draw = {"gaussian": rng.normal, "exponential": rng.exponential, "gumbel": rng.gumbel}[noise]
    E = draw(size=(12, 7)).T * scales
    np.testing.assert_allclose(X, E @ np.linalg.inv(np.eye(12) - dag.weights.toarray()), rtol=1e-10)
    assert X.flags.f_contiguous


@pytest.mark.parametrize(
    ("noise", "mean", "variance"),
    [("gaussian", 0, 1), ("exponential", 1, 1), ("gumbel", 0.5772157, np.pi**2 / 6)],
)
def test_mean_and_covariance_are_those_of_the_model(noise, mean, variance):
    dag = random_dag(6, 1, rng=0)
    scales = noise_scales(6, "NV", rng=1)
    X = sample(dag, 200_000, noise, scales, rng=2)
    mixing = np.linalg.inv(np.eye(6) - dag.weights.toarray())
    expected = mixing.T @ np.diag(variance * scales**2) @ mixing
    np.testing.assert_allclose(X.mean(axis=0), mean * scales @ mixing, atol=0.04)
    sds = np.outer(np.sqrt(np.diag(expected)), np.sqrt(np.diag(expected)))
    np.testing.assert_allclose(np.cov(X.T) / sds, expected / sds, atol=0.03)


def test_train_and_validation_share_the_scales():
    dag = DAG(np.zeros((5, 5)))
    rng = np.random.default_rng(0)
    scales = noise_scales(5, "NV", rng)
    train, validation = (sample(dag, 50_000, variance=scales, rng=rng) for _ in range(2))
    np.testing.assert_allclose(train.std(axis=0), scales, rtol=0.02)
    np.testing.assert_allclose(validation.std(axis=0), scales, rtol=0.02)
    assert not np.array_equal(train, validation)


@pytest.mark.parametrize("noise", models.NOISES)
def test_internally_standardised_model_has_unit_variances(noise):
    rng = np.random.default_rng(0)
    dag = random_dag(300, 4, rng=rng)
    inner, scales = internally_standardised(dag, noise, "NV", rng, n=5000)
    X = sample(inner, 5000, noise, scales, rng)
    assert sample(dag, 500, noise, rng=0).std(axis=0).max() > 20
    assert np.abs(X.var(axis=0) - 1).max() < 0.25
    assert (np.sign(inner.weights.toarray()) == np.sign(dag.weights.toarray())).all()
    np.testing.assert_array_equal(inner.order, dag.order)


def test_internal_standardisation_is_that_of_the_recursion():
    """Each pilot variable, standardised before its children see it, by a literal loop."""
    dag = random_dag(8, 2, rng=0)
    inner, scales = internally_standardised(dag, rng=1, n=100)
    W, E = dag.weights.toarray(), np.random.default_rng(1).normal(size=(8, 100)).T
    Z, sds = E.copy(), np.empty(8)
    for j in dag.order:
        column = Z @ np.where(np.arange(8) == j, 1.0, W[:, j])
        sds[j] = column.std()
        Z[:, j] = (column - column.mean()) / sds[j]
    np.testing.assert_allclose(scales, 1 / sds, rtol=1e-10)
    np.testing.assert_allclose(inner.weights.toarray(), W / sds, rtol=1e-10)


def test_internally_standardised_keeps_names():
    dag = DAG([[0, 2.0], [0, 0]], names=["a", "b"])
    assert internally_standardised(dag, rng=0)[0].names == ("a", "b")


@given(st.lists(st.lists(st.floats(-1e300, 1e300), min_size=3, max_size=3), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_standardise(rows):
    X = np.array(rows)
    Z = standardise(X)
    constant = (X[0] == X).all(axis=0)
    assert (Z[:, constant] == 0).all()
    spread = X.max(axis=0) / 2 - X.min(axis=0) / 2
    # Where all digits differ only in the last places, rounding leaves no exact unit variance.
    clear = spread > 1e-6 * np.abs(X).max(axis=0)
    clear &= spread > 1e-290
    np.testing.assert_allclose(Z[:, clear].mean(axis=0), 0, atol=1e-8)
    np.testing.assert_allclose(Z[:, clear].var(axis=0), 1, atol=1e-8)
    np.testing.assert_array_equal(X, np.array(rows))


@pytest.mark.parametrize("graph", ["ER", "SF"])
@pytest.mark.parametrize("noise", models.NOISES)
def test_same_seed_same_bytes(graph, noise):
    def run(seed):
        rng = np.random.default_rng(seed)
        dag = random_dag(80, 3, graph, rng)
        inner, scales = internally_standardised(dag, noise, "NV", rng, n=50)
        tables = (sample(dag, 30, noise, "NV", rng), sample(inner, 30, noise, scales, rng))
        return dag.weights.toarray().tobytes() + b"".join(X.tobytes() for X in tables)

    assert run(1) == run(1) != run(2)
    assert random_dag(9, 1, rng=3) == random_dag(9, 1, rng=np.random.default_rng(3))


def test_large_graphs_are_drawn_without_dense_matrices():
    # Loops over all pairs, or 3 GB of zeros, would be noticed here.
    dag = random_dag(20_000, 4, rng=0)
    X = sample(dag, 50, rng=0)
    assert random_dag(100_000, 1, rng=0).n_arcs == 100_000
    assert dag.n_arcs == 80_000
    assert np.isfinite(X).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"d": 1}, "d must be .* at least 2.*Got 1"),
        ({"d": 10.5}, "d must be a whole number"),
        ({"d": True}, "d must be a whole number"),
        ({"k": 0}, "above 0.*Got 0"),
        ({"k": -1}, "above 0"),
        ({"k": float("nan")}, "above 0"),
        ({"k": float("inf")}, "above 0"),
        ({"k": "2"}, "above 0"),
        ({"k": 5}, "= 45 arcs for d = 10.*makes 50"),
        ({"k": 5, "graph": "SF"}, "= 45 arcs for d = 10"),
        ({"k": 0.01}, "makes 0"),
        ({"graph": "er"}, "Did you mean 'ER'"),
        ({"graph": "tree"}, "must be one of 'ER', 'SF'"),
        ({"weights": (0, 1)}, "0 < low <= high"),
        ({"weights": (2, 1)}, "0 < low <= high"),
    ],
)
def test_random_dag_refuses(arguments, words):
    with pytest.raises(ParameterError, match=words):
        random_dag(**{"d": 10, "k": 1, "rng": 0} | arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n": 0}, "n must be .* at least 1"),
        ({"n": 2.0}, "n must be a whole number"),
        ({"noise": "gausian"}, "Did you mean 'gaussian'"),
        ({"noise": "Gumbel"}, "Did you mean 'gumbel'"),
        ({"noise": 3}, "noise must be one of"),
        ({"variance": "ev"}, "Did you mean 'EV'"),
        ({"variance": [1.0, 2.0]}, "array of 3 finite numbers.*shape \\(2,\\)"),
        ({"variance": [1.0, 0.0, 1.0]}, "above 0"),
        ({"variance": [1.0, np.nan, 1.0]}, "above 0"),
    ],
)
def test_sample_refuses(arguments, words):
    with pytest.raises(ParameterError, match=words):
        sample(**{"dag": DAG(np.zeros((3, 3))), "n": 5, "rng": 0} | arguments)


def test_sample_that_overflows_is_an_error():
    dag = DAG(np.diag([1e200, 1e200], k=1))
    with pytest.raises(GraphError, match="overflow"):
        sample(dag, 5, rng=0)


@pytest.mark.parametrize("X", [[1.0, 2.0], np.empty((0, 3)), [[np.nan, 1.0]], [[np.inf], [1.0]]])
def test_standardise_refuses(X):
    with pytest.raises(DataError):
        standardise(X)
