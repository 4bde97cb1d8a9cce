"""DAGMA: its gradient against finite differences, its answers against the package dagma."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad

from bigdag import DAGMA, SortRegress, metrics, simulate
from bigdag.data.dataset import as_dataset
from bigdag.graph.acyclic import acyclic_threshold, is_acyclic
from bigdag.learners.dagma import log_determinant
from bigdag.learners.dense import LeastSquares
from bigdag.learners.quasi_newton import descend
from bigdag.learners.run import Run
from learner_contract import LearnerContract, equation_1, interrupted, table


class TestDAGMA(LearnerContract):
    make = staticmethod(lambda: DAGMA(max_iter=20))
    keeps_best = False


def small_weights(d, seed=0):
    W = 0.2 * np.random.default_rng(seed).normal(size=(d, d))
    np.fill_diagonal(W, 0)
    return W


@pytest.mark.parametrize("s", [1.0, 0.6])
def test_log_determinant_and_its_gradient(s):
    W = small_weights(6)
    value = -np.linalg.slogdet(s * np.eye(6) - W * W)[1] + 6 * np.log(s)
    assert log_determinant(W, s)[0] == pytest.approx(value)
    off = check_grad(
        lambda w: log_determinant(w.reshape(6, 6), s)[0],
        lambda w: log_determinant(w.reshape(6, 6), s)[1].ravel(),
        W.ravel(),
    )
    assert off < 1e-6


def test_log_determinant_is_zero_for_a_dag_of_any_size_and_grows_at_the_border():
    assert log_determinant(np.triu(np.full((5, 5), 30.0), 1))[0] == pytest.approx(0, abs=1e-9)
    pair = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert log_determinant(0.999 * pair)[0] > log_determinant(0.9 * pair)[0] > 0
    for beyond in (1.0, 1.001, 3.0, 1e200):
        with pytest.raises(FloatingPointError):
            log_determinant(beyond * pair)


@pytest.mark.parametrize("n", [4, 50])  # from X, from S
def test_least_squares_and_their_gradient(n):
    X, W = table(n=n), small_weights(6)
    squares = LeastSquares(Run(DAGMA(), as_dataset(X)))
    assert squares.from_data == (n == 4)
    assert squares(W)[0] == pytest.approx(equation_1(X, W, 0.0))
    off = check_grad(
        lambda w: squares(w.reshape(6, 6))[0],
        lambda w: squares(w.reshape(6, 6))[1].ravel(),
        W.ravel(),
    )
    assert off < 1e-5


def test_the_descent_finds_the_lasso():
    """Of a convex loss: the same as scikit-learn's coordinate descent, zeros included."""
    from sklearn.linear_model import Lasso

    X = table(n=200, d=8)
    X = X - X.mean(axis=0)
    squares = LeastSquares(Run(DAGMA(), as_dataset(X)))
    *_, (W, value) = descend(squares, np.zeros((8, 8)), 0.2)
    for j in range(8):
        others = np.arange(8) != j
        w = Lasso(0.2, fit_intercept=False, tol=1e-12, max_iter=10**6).fit(X[:, others], X[:, j])
        assert np.allclose(W[others, j], w.coef_, atol=1e-5)
        assert np.array_equal(W[others, j] == 0, w.coef_ == 0)
    assert value == pytest.approx(equation_1(X, W, 0.2))


def test_finds_what_the_package_finds():
    from dagma.linear import DagmaLinear

    truth = simulate.random_dag(20, 2, rng=2)
    X = simulate.sample(truth, 1000, rng=3)
    theirs = DagmaLinear("l2").fit(
        X.copy(), lambda1=0.03, w_threshold=0.0, warm_iter=3000, max_iter=6000, lr=0.003
    )
    ours = DAGMA(lambda1=0.03, n_jobs=1).fit(X)
    assert np.abs(ours.raw_weights_.toarray() - theirs).max() < 0.05
    other = metrics.average_precision(acyclic_threshold(theirs)[1], truth)
    assert metrics.average_precision(ours.dag_, truth) >= other - 0.02
    sorted_ = SortRegress(order="variance").fit(X).dag_  # the trivial baseline does not do as well
    assert metrics.average_precision(sorted_, truth) < other


def test_a_start_beyond_the_border_widens_it():
    model = DAGMA(warm_start_dag=np.full((6, 6), 2.0), n_jobs=1).fit(table())
    assert model.status_ == "converged"
    assert is_acyclic(model.weights_)


def test_continues_from_a_warm_start():
    X = table(d=12, n=300)
    first = DAGMA().fit(X)
    again = DAGMA(warm_start_dag=first.dag_).fit(X)
    assert np.abs((again.dag_.weights - first.dag_.weights).toarray()).max() < 0.1


@pytest.mark.parametrize("scale", [1e-140, 1e-20, 1e100, 1e140])
def test_the_unit_of_the_data_changes_only_the_balance_of_the_path(scale):
    model = DAGMA(lambda1=0.03 * scale**2).fit(table() * scale)
    assert model.status_ == "converged"
    assert model.weights_.nnz > 0
    assert np.isfinite(model.history_.objective).all()


@pytest.mark.parametrize(
    "given",
    [
        {"lambda1": 0.0}, {"lambda1": 1e300}, {"tol": 0.0, "max_iter": 300}, {"tol": 1.0},
        {"patience": 1}, {"path": 1}, {"path": 100, "max_iter": 500},
        {"warm_start_dag": np.triu(np.full((6, 6), 1e200), 1)},
        {"warm_start_dag": np.full((6, 6), 1e30)},
    ],
    ids=str,
)  # fmt: skip
def test_any_number_a_parameter_allows_ends_with_a_dag(given, caplog):
    model = DAGMA(n_jobs=1, **given).fit(table())
    assert is_acyclic(model.weights_)
    assert np.isfinite(model.weights_.data).all()
    if model.status_ == "diverged":
        assert "has diverged: " in caplog.text


def test_interrupted_gives_the_thresholded_iterate():
    def stop(state):
        if state.iteration == 50:
            raise KeyboardInterrupt

    model = interrupted(DAGMA(callback=stop), table())
    assert model.n_iter_ == 50
    assert model.weights_.nnz
