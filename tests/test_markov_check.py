"""metrics.markov_check: partial correlations, what chance rejects, and what wrong graphs show."""

from __future__ import annotations

import numpy as np
import pytest

from bigdag import DAG, metrics, simulate
from bigdag.errors import DataError, DataWarning, ParameterError
from bigdag.evaluation import markov


@pytest.fixture(scope="module")
def world():
    truth = simulate.random_dag(40, 2, rng=0)
    return truth, simulate.sample(truth, 800, rng=1)


def test_a_true_graph_is_rejected_as_often_as_chance_does(world):
    truth, X = world
    found = metrics.markov_check(truth, X, rng=0)
    assert found.n_tests == 40 * 39 // 2 - truth.n_arcs
    assert found.rejected < 0.08
    assert found.rejected_near < 0.1
    assert found.log_likelihood > found.permuted.max()
    assert found.log_likelihood > found.fewer
    assert found.log_likelihood > found.more


def test_a_wrong_graph_shows(world):
    truth, X = world
    none = metrics.markov_check(DAG(np.zeros((40, 40))), X, rng=0)
    assert none.rejected > 0.2
    assert np.isnan(none.rejected_near)
    assert np.isnan(none.fewer)
    part = truth.threshold(np.quantile(np.abs(truth.weights.data), 0.5))
    half = metrics.markov_check(part, X, rng=0)
    assert half.rejected > 2 * metrics.markov_check(truth, X, rng=0).rejected
    assert half.more > half.log_likelihood


def test_a_sample_of_the_independences_and_rows_of_ones_own(world):
    truth, X = world
    found = metrics.markov_check(truth, X[:500], held_out=X[500:], n_tests=30, n_permutations=2)
    assert (found.n_tests, found.n_near, len(found.permuted)) == (30, 30, 2)
    pairs = markov._any_pairs(truth, 30, np.random.default_rng(0))
    assert len(np.unique(pairs, axis=0)) == 30
    dense = truth.weights.toarray()
    rank = np.argsort(truth.order)
    assert all(rank[u] < rank[v] and dense[u, v] == 0 for u, v in pairs)


def test_partial_correlations_are_those_of_the_inverse():
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[:, 2] += X[:, 0] + 0.3 * X[:, 1]
    dag = DAG([[0, 0, 1.0], [0, 0, 0], [0, 0, 0]], order=[0, 1, 2])
    X -= X.mean(axis=0)
    P = np.linalg.inv(np.cov(X.T))
    r = -P[1, 2] / np.sqrt(P[1, 1] * P[2, 2])
    z = abs(np.arctanh(r)) * np.sqrt(100 - 1 - 3)
    from scipy.stats import norm

    p = 2 * norm.sf(z)
    pair = np.array([[1, 2]])
    assert markov._rejected(X, dag, pair, min(2 * p, 0.999)) == (1, 1.0)
    assert markov._rejected(X, dag, pair, p / 2) == (1, 0.0)


def test_units_do_not_change_what_is_tested():
    X = np.random.default_rng(0).normal(size=(200, 3))
    X[:, 2] += X[:, 1]
    dag = DAG(np.zeros((3, 3)))
    plain, scaled = (metrics.markov_check(dag, X * [s, 1, 1], rng=0) for s in (1, 1e7))
    assert (plain.n_tests, plain.rejected) == (scaled.n_tests, scaled.rejected)
    assert plain.rejected > 0
    X[:, 0] = 5.0  # nothing can be asked of it
    with pytest.warns(DataWarning):
        assert metrics.markov_check(dag, X, rng=0).n_tests == 1


def test_what_is_refused(world):
    truth, X = world
    for given in ({"alpha": 0}, {"n_tests": -1}, {"n_permutations": 1.5}):
        with pytest.raises(ParameterError, match=next(iter(given))):
            metrics.markov_check(truth, X, **given)
    with pytest.raises(DataError, match="needs 6 rows"):
        metrics.markov_check(truth, X[:4])


def test_likelihoods_do_not_depend_on_the_units_of_the_parents():
    dag = DAG([[0, 0, 1.0], [0, 0, 1.0], [0, 0, 0]])
    X, units = simulate.sample(dag, 300, rng=0), np.array([1e8, 1e-8, 1.0])
    ours, theirs = (metrics.markov_check(dag, data, rng=0) for data in (X, X * units))
    assert theirs.log_likelihood == pytest.approx(ours.log_likelihood)  # the units multiply to 1
