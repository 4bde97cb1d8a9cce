"""Orders read off the data, against literal loops of regressions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigdag import metrics, simulate
from bigdag.data.dataset import Dataset, as_dataset
from bigdag.engine.gram import Gram
from bigdag.errors import DataWarning
from bigdag.evaluation.sortability import r_squared
from bigdag.search import start_orders as orders


def world(d: int, k: float, n: int, seed: int = 0) -> tuple:
    """Return a random model and samples of it."""
    dag = simulate.random_dag(d, k, rng=seed)
    return dag, simulate.sample(dag, n, rng=seed + 100)


def gram_of(X: np.ndarray, **options: object) -> Gram:
    return Gram(as_dataset(X), n_jobs=1, **options)


def literal_least_variance(X: np.ndarray) -> list[int]:
    """Regress every variable on those taken, by least squares, and take the least residual."""
    X = X - X.mean(axis=0)
    taken: list[int] = []
    while len(taken) < X.shape[1]:
        left = {}
        for v in set(range(X.shape[1])) - set(taken):
            fitted = X[:, taken] @ np.linalg.lstsq(X[:, taken], X[:, v])[0]
            left[v] = np.mean((X[:, v] - fitted) ** 2)
        taken.append(min(left, key=lambda v: (left[v], v)))
    return taken


def literal_sparse(X: np.ndarray) -> list[int]:
    """Project out, from the variables in the support, what the one just taken leaves."""
    n, d = X.shape
    Z = X - X.mean(axis=0)
    variance = Z.var(axis=0)
    Z = Z / np.linalg.norm(Z, axis=0)
    support = np.abs(Z.T @ Z) > 4 / np.sqrt(n)
    taken: list[int] = []
    for _ in range(d):
        rest = [v for v in range(d) if v not in taken]
        v = min(rest, key=lambda u: Z[:, u] @ Z[:, u] * variance[u])
        taken.append(v)
        for u in rest:
            inner = Z[:, u] @ Z[:, v]
            share = inner / np.linalg.norm(Z[:, u]) / np.linalg.norm(Z[:, v])
            if u != v and support[u, v] and abs(share) > 4.5 / np.sqrt(n):
                Z[:, u] -= inner / (Z[:, v] @ Z[:, v]) * Z[:, v]
    return taken


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(2, 8), k=st.sampled_from([0.5, 1, 1.5]))
def test_least_variance_equals_a_loop_of_regressions(seed, d, k):
    if round(k * d) > d * (d - 1) // 2:
        return
    X = world(d, k, 60, seed % 2**31)[1]
    assert orders.least_variance_order(gram_of(X)).tolist() == literal_least_variance(X)


def test_least_variance_across_two_panels():
    X = world(80, 2, 200)[1]
    assert orders.least_variance_order(gram_of(X)).tolist() == literal_least_variance(X)


@pytest.mark.parametrize("hold", [True, False])
def test_sparse_rule_equals_its_literal_loop(hold):
    X = world(60, 1, 29)[1]
    assert orders.least_variance_order(gram_of(X, hold=hold)).tolist() == literal_sparse(X)


def test_exact_rule_begins_where_n_is_not_far_below_d():
    X = world(50, 2, 40)[1]
    found = orders.least_variance_order(gram_of(X))
    assert sorted(found) == list(range(50))
    assert found[:32].tolist() == literal_least_variance(X)[:32]


def test_covariance_alone_gives_the_same_orders():
    X = world(12, 1, 200)[1]
    S = np.cov(X.T, bias=True)
    alone, whole = Gram(Dataset.from_covariance(S, 200)), gram_of(X)
    for rule in (orders.least_variance_order, orders.variance_order, orders.r2_order):
        assert np.array_equal(rule(alone), rule(whole))
    few = Gram(Dataset.from_covariance(S, 5))
    for rule in (orders.least_variance_order, orders.r2_order):
        assert sorted(rule(few)) == list(range(12))


@pytest.mark.parametrize("n", [400, 30, 10])
def test_relabelling_relabels(n):
    X = world(40, 1, n)[1]
    shuffle = np.random.default_rng(0).permutation(40)
    for rule in (orders.least_variance_order, orders.variance_order, orders.r2_order):
        assert np.array_equal(shuffle[rule(gram_of(X[:, shuffle]))], rule(gram_of(X)))


@pytest.mark.parametrize("n", [300, 20])
def test_constants_and_copies_come_as_they_are(n):
    X = world(30, 1, n)[1]
    X[:, 7] = 3.0
    X[:, 5] = X[:, 4]
    with pytest.warns(DataWarning):
        gram = gram_of(X)
    for rule in (orders.least_variance_order, orders.variance_order, orders.r2_order):
        order = rule(gram)
        assert sorted(order) == list(range(30))
        assert order.dtype == np.int64
        assert order[0] == 7
    place = np.argsort(orders.least_variance_order(gram))
    assert abs(place[4] - place[5]) == 1  # nothing is left of the copy


def test_scores_sort():
    X = world(20, 1, 100)[1]
    assert np.all(np.diff(X.var(axis=0)[orders.variance_order(gram_of(X))]) >= 0)
    for n in (100, 15):
        assert np.all(np.diff(r_squared(X[:n])[orders.r2_order(gram_of(X[:n]))]) >= 0)


def test_ties_fall_to_the_smaller_index():
    with pytest.warns(DataWarning):
        gram = gram_of(np.ones((5, 4)))
    assert orders.variance_order(gram).tolist() == [0, 1, 2, 3]
    assert orders.least_variance_order(gram).tolist() == [0, 1, 2, 3]


def test_random_order_repeats():
    first, second = (orders.random_order(100, np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(first, second)
    assert sorted(first) == list(range(100))


@pytest.mark.parametrize(
    ("d", "k", "n", "at_most"),
    [(200, 4, 1000, 0.001), (300, 1, 300, 0.01), (600, 1, 200, 0.02), (300, 4, 300, 0.02)],
)
def test_least_variance_finds_the_order_of_equal_noises(d, k, n, at_most):
    truth, X = world(d, k, n)
    wrong = metrics.order_errors(orders.least_variance_order(gram_of(X)), truth)
    assert wrong <= at_most
    assert wrong < 0.5 * metrics.order_errors(orders.variance_order(gram_of(X)), truth)


# ------------------------------------------------------------------ lists and exact orders


@pytest.mark.parametrize("hold", [True, False])
@pytest.mark.parametrize("most", [1, 3, 100])
def test_correlated_are_the_strongest_above_the_threshold(hold, most):
    X = world(30, 2, 80)[1]
    R = np.abs(np.corrcoef(X, rowvar=False)) - np.eye(30)
    indptr, indices = orders.correlated(gram_of(X, hold=hold), 0.3, most)
    assert indptr.dtype == np.int64
    assert indices.dtype == np.int32
    assert len(indptr) == 31
    for v in range(30):
        strongest = np.argsort(-R[v])[:most]
        expected = sorted(u for u in strongest if R[v, u] > 0.3)
        assert indices[indptr[v] : indptr[v + 1]].tolist() == expected


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_correlated_grow_past_their_first_room(n_jobs):
    X = np.random.default_rng(0).normal(size=(40, 200))
    indptr, indices = orders.correlated(Gram(as_dataset(X), n_jobs=n_jobs), 0.0)
    assert np.array_equal(np.diff(indptr), np.full(200, 199))
    assert indices[:199].tolist() == list(range(1, 200))


def test_correlated_of_copies_keep_the_cap():
    X = np.random.default_rng(0).normal(size=(40, 8))
    X[:, 1:6] = X[:, :1]
    indptr, indices = orders.correlated(gram_of(X), 0.5, 3)
    assert (np.diff(indptr)[:6] == 3).all()
    assert (np.diff(indptr)[6:] == 0).all()
    for v in range(6):
        assert v not in indices[indptr[v] : indptr[v + 1]]


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 5))
def test_optimal_order_beats_every_permutation(seed, d):
    costs = np.random.default_rng(seed).normal(size=(d, 2**d))

    def total(order):
        return sum(costs[v, sum(1 << u for u in order[:i])] for i, v in enumerate(order))

    found = orders.optimal_order(costs).tolist()
    assert total(found) == pytest.approx(min(map(total, itertools.permutations(range(d)))))
