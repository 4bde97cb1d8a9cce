"""What is chosen from the data, against loops of regressions in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Lasso

from bigdag import simulate
from bigdag.data.dataset import as_dataset
from bigdag.engine import lasso
from bigdag.engine.gram import Gram
from bigdag.engine.order import project
from bigdag.errors import DataWarning
from bigdag.search import ebic as selection
from bigdag.search import insertion

from .literal import bic_cost, grow_shrink


def make(seed, d=8, n=80, k=2, **options):
    truth = simulate.random_dag(d, k, rng=seed)
    X = simulate.sample(truth, n, rng=seed + 1)
    return X, Gram(as_dataset(X), n_jobs=1, **options), truth


def test_penalty_is_that_of_the_extended_bic():
    assert selection.arc_cost(100, 50, 0.0) == pytest.approx(np.log(100))
    assert selection.arc_cost(100, 50, 0.5) == pytest.approx(np.log(100) + np.log(50))
    assert selection.arc_cost(100, 50, 1.0, 3.0) == pytest.approx(3 * np.log(100 * 50**2))
    assert np.isfinite(selection.arc_cost(1, 1))


@settings(max_examples=15)
@given(st.integers(0, 2**31 - 2), st.booleans(), st.sampled_from([0.2, 1.0, 5.0]))
def test_significant_arcs_are_those_of_backward_elimination(seed, hold, factor):
    X, gram, truth = make(seed, hold=hold)
    rng = np.random.default_rng(seed)
    full = sp.csc_array(rng.normal(size=(8, 8)) * (rng.random((8, 8)) < 0.7))
    W = project(full, truth.order)
    kept = selection.significant(gram, W, gamma=0.5, factor=factor)
    penalty = selection.arc_cost(80, 8, 0.5, factor)
    for v in range(8):
        before = np.flatnonzero(W.toarray()[:, v]).tolist()
        expected = grow_shrink(X, v, [], before, penalty, 8)
        assert np.flatnonzero(kept.toarray()[:, v]).tolist() == sorted(expected)
    stay = kept.toarray() != 0
    assert np.array_equal(kept.toarray()[stay], W.toarray()[stay])


def test_significance_does_not_depend_on_units():
    X, gram, truth = make(3, d=30, n=200)
    scale = 10.0 ** np.random.default_rng(0).integers(-6, 7, size=30)
    W = project(sp.csc_array(np.ones((30, 30))), truth.order)
    scaled = sp.csc_array(W.toarray() / scale[:, None] * scale)
    one = selection.significant(gram, W).toarray() != 0
    other = selection.significant(Gram(as_dataset(X * scale)), scaled).toarray() != 0
    assert np.array_equal(one, other)
    assert 0 < one.sum() < W.nnz


def test_more_arcs_than_samples():
    _, gram, truth = make(0, d=40, n=9)
    W = project(sp.csc_array(np.ones((40, 40))), truth.order)
    kept = selection.significant(gram, W)
    assert np.diff(kept.indptr).max() <= 3


@pytest.mark.parametrize("hold", [True, False])
def test_weights_of_least_squares(hold):
    X, gram, truth = make(1, d=12, n=100, hold=hold)
    X = X - X.mean(axis=0)
    problem, state = selection._on_arcs(gram, truth.weights, 0.0)
    W = selection.least_squares(gram, problem, state)
    expected = np.zeros((12, 12))
    for v in range(12):
        P = np.flatnonzero(truth.weights.toarray()[:, v])
        expected[P, v] = np.linalg.lstsq(X[:, P], X[:, v], rcond=None)[0]
    assert W.toarray() == pytest.approx(expected, abs=1e-9)


# ------------------------------------------------------------------ lambda1


def path_score(X, order, lambda1, penalty):
    """Return the extended BIC of the lasso's arcs on an order, by scikit-learn and lstsq."""
    centred, total = X - X.mean(axis=0), 0.0
    for place, v in enumerate(order):
        ahead = np.asarray(order[:place])
        if place:
            model = Lasso(alpha=lambda1, fit_intercept=False, tol=1e-10, max_iter=10**5)
            ahead = ahead[model.fit(centred[:, ahead], centred[:, v]).coef_ != 0]
        total += bic_cost(X, v, ahead.tolist(), penalty)
    return total


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_lambda1_has_the_least_bic_of_its_path(seed, gamma):
    X, gram, truth = make(seed, d=10, n=100)
    chosen = selection.choose_lambda1(gram, truth.order, gamma=gamma)
    penalty = selection.arc_cost(100, 10, gamma)
    S = np.cov(X, rowvar=False, bias=True)
    steps = np.abs(S - np.diag(np.diag(S))).max() * 10 ** (-np.arange(31) / 6)
    assert np.abs(np.log(steps / chosen)).min() < 1e-9  # it is one of the path
    scores = [path_score(X, truth.order, step, penalty) for step in steps]
    # The path ends when three steps bring nothing, and its lassos are solved to 1e-3.
    assert path_score(X, truth.order, chosen, penalty) <= min(scores) + penalty


def test_lambda1_scales_with_the_square_of_the_units():
    X, gram, truth = make(5, d=15, n=200)
    one = selection.choose_lambda1(gram, truth.order)
    other = selection.choose_lambda1(Gram(as_dataset(1e3 * X)), truth.order)
    assert other == pytest.approx(1e6 * one, rel=1e-9)


def test_lambda1_of_noise_leaves_no_arc():
    X = np.random.default_rng(0).normal(size=(200, 20))
    gram = Gram(as_dataset(X))
    largest = selection._largest(gram)
    covariance = np.cov(X, rowvar=False, bias=True)
    assert largest == pytest.approx(np.abs(covariance - np.diag(np.diag(covariance))).max())
    chosen = selection.choose_lambda1(gram, np.arange(20))
    assert chosen == pytest.approx(largest)


def test_lambda1_of_constants_and_after_a_stop():
    with pytest.warns(DataWarning):
        gram = Gram(as_dataset(np.ones((5, 4))))
    assert np.isfinite(selection.choose_lambda1(gram, np.arange(4)))
    _, gram, truth = make(0)
    stopped = selection.choose_lambda1(gram, truth.order, stop=lambda: True)
    assert stopped == pytest.approx(selection._largest(gram))


def test_the_mask_confines_the_path():
    _, gram, truth = make(7, d=12)
    nothing = sp.csc_array((12, 12), dtype=np.int8)
    chosen = selection.choose_lambda1(gram, truth.order, mask=nothing)
    assert chosen == pytest.approx(selection._largest(gram))


def test_states_on_arcs_have_these_arcs():
    _, gram, truth = make(2)
    problem, state = selection._on_arcs(gram, truth.weights, 1.0)
    assert isinstance(problem, insertion.Problem)
    for v in range(8):
        parents = sorted(state.parents_of(v).tolist())
        assert parents == np.flatnonzero(truth.weights.toarray()[:, v]).tolist()


def test_the_path_goes_on_over_a_plateau():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    X[:, 1] += 3 * X[:, 0]
    X[:, 3] += 0.5 * X[:, 2]
    gram = Gram(as_dataset(X))
    lambda1 = selection.choose_lambda1(gram, np.arange(4))
    assert lasso.solve(gram, lambda1, order=np.arange(4)).weights.nnz == 2
