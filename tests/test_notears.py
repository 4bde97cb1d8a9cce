"""NOTEARS: its gradient against finite differences, its answers against gcastle."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.linalg import expm
from scipy.optimize import check_grad

from bigdag import NOTEARS, metrics, simulate
from bigdag.data.dataset import as_dataset
from bigdag.errors import MissingExtraError, ParameterError
from bigdag.graph.acyclic import acyclic_threshold, is_acyclic
from bigdag.learners import notears
from bigdag.learners.notears import acyclicity
from bigdag.learners.run import Run
from bigdag.learners.torch_loss import Residuals
from learner_contract import LearnerContract, equation_1, gcastle, interrupted, table


class TestNOTEARS(LearnerContract):
    make = staticmethod(lambda: NOTEARS(max_iter=20))
    keeps_best = False


class TestNOTEARSWithASoftPenalty(LearnerContract):
    make = staticmethod(lambda: NOTEARS(solver="soft_penalty", max_iter=20))
    keeps_best = False


def soft(**given):
    return NOTEARS(solver="soft_penalty", **given)


def random_weights(d, seed=0):
    W = torch.as_tensor(0.3 * np.random.default_rng(seed).normal(size=(d, d)))
    return W.fill_diagonal_(0).requires_grad_()


def test_acyclicity_is_the_trace_of_scipys_exponential():
    for d in (1, 2, 7):
        W = random_weights(d).detach()
        expected = np.trace(expm(W.numpy() ** 2)) - d
        assert float(acyclicity(W)) == pytest.approx(expected, rel=1e-12, abs=1e-14)
    triangle = torch.triu(torch.full((5, 5), 3.0, dtype=torch.float64), 1)
    assert float(acyclicity(triangle)) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("n", [4, 50])  # from X, from S
def test_gradient_against_finite_differences(n):
    learner = soft(lambda1=0.3, lambda2=2.0)
    run = Run(learner, as_dataset(table(n=n)))
    residuals = Residuals(run, torch, "cpu", torch.float64)
    assert residuals.from_data == (n == 4)
    W = random_weights(6)
    loss = learner._loss(run, residuals)
    assert torch.autograd.gradcheck(lambda W: loss(W)[0], W)
    assert torch.autograd.gradcheck(acyclicity, W)


def test_residual_variances_and_equation_1():
    for n in (4, 50):
        X, W = table(n=n), random_weights(6).detach()
        learner = soft(lambda1=0.3)
        run = Run(learner, as_dataset(X))
        residuals = Residuals(run, torch, "cpu", torch.float64)
        C = X - X.mean(axis=0)
        expected = ((C - C @ W.numpy()) ** 2).mean(axis=0)
        assert np.allclose(residuals(W).numpy(), expected)
        assert float(learner._loss(run, residuals)(W)[1]) == pytest.approx(
            equation_1(X, W.numpy(), 0.3)
        )


def test_history_is_equation_1_of_the_iterates():
    X, seen = table(), []
    model = soft(max_iter=5, dtype="float64", learning_rate=0.1,
                    callback=lambda s: seen.append(equation_1(X, s.weights(), 0.1)))  # fmt: skip
    model.fit(X)
    assert np.allclose(model.history_.objective[1:], seen)


def test_answer_is_the_raw_weights_above_the_smallest_threshold():
    model = soft(max_iter=200, learning_rate=0.01).fit(table())
    raw = model.raw_weights_
    assert not is_acyclic(raw)
    threshold, kept = acyclic_threshold(raw)
    assert (kept != model.weights_).nnz == 0
    assert (abs(kept).tocoo().data > threshold).all()
    one_more = raw.multiply(abs(raw) >= threshold)
    assert not is_acyclic(one_more)


def test_threshold_of_an_acyclic_and_of_an_empty_graph():
    W = np.triu(np.ones((4, 4)), 1)
    assert acyclic_threshold(W)[0] == 0
    assert acyclic_threshold(W)[1].nnz == 6
    assert acyclic_threshold(np.zeros((3, 3)))[1].nnz == 0
    both = np.ones((3, 3)) - np.eye(3)  # equal magnitudes go together
    assert acyclic_threshold(both)[0] == 1
    assert acyclic_threshold(both)[1].nnz == 0


def test_finds_what_gcastle_finds():
    """The augmented Lagrangian to the weights, the soft penalty to an arc or two."""
    truth = simulate.random_dag(15, 1, rng=2)
    X = simulate.sample(truth, 1000, rng=3)
    with gcastle() as castle:
        theirs = castle.Notears(lambda1=0.1, w_threshold=0.0)
        theirs.learn(X - X.mean(axis=0))
    other = np.asarray(theirs.weight_causal_matrix)
    published = NOTEARS(tol=1e-7, n_jobs=1).fit(X)
    assert published.status_ == "converged"
    assert np.abs(published.raw_weights_.toarray() - other).max() < 0.02
    other = np.abs(other) > 0.3

    def shd(estimate, truth):
        return metrics.arc_metrics(estimate, truth).shd

    for model in (published, soft().fit(X)):
        ours = model.dag_.threshold(0.3)
        assert shd(ours, other) <= 2
        assert shd(ours, truth) <= shd(other, truth) + 1


def test_the_lagrangian_and_its_gradient():
    X, W = table(), random_weights(6).detach().numpy()
    learner = NOTEARS(lambda1=0.3)
    run = Run(learner, as_dataset(X))
    learner.raw_weights_ = sp.csc_array((6, 6))
    lagrangian = notears._Lagrangian(learner, run)
    lagrangian.alpha, lagrangian.rho = 2.0, 30.0
    h = np.trace(expm(W * W)) - 6
    parts = np.concatenate([np.maximum(W, 0).ravel(), np.maximum(-W, 0).ravel()])
    assert lagrangian._loss(parts)[0] == pytest.approx(
        equation_1(X, W, 0.3) + 2.0 * h + 15.0 * h * h
    )
    off = check_grad(lambda w: lagrangian._loss(w)[0], lambda w: lagrangian._loss(w)[1], parts)
    assert off < 1e-4


def test_the_lagrangian_ends_without_cycles_worth_the_name():
    model = NOTEARS(n_jobs=1).fit(table(d=12, n=300))
    W = model.raw_weights_.toarray()
    assert np.trace(expm(W * W)) - 12 < 1e-7
    left_out = np.abs((model.raw_weights_ - model.weights_).toarray())
    assert left_out.max() < 0.05


@pytest.mark.parametrize(
    "given",
    [{"lambda2": 5.0}, {"learning_rate": 0.1}, {"optimizer": "SGD"}, {"decays": 0},
     {"device": "cpu"}, {"dtype": "float64"}],
    ids=str,
)  # fmt: skip
def test_what_only_the_soft_penalty_uses_is_refused_without_it(given):
    with pytest.raises(ParameterError, match=r"must be left out with .* solver='soft_penalty' has"):
        NOTEARS(**given).fit(table())
    soft(max_iter=2, **given).fit(table())


def test_the_lagrangian_needs_no_torch_and_the_soft_penalty_says_that_it_does(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert NOTEARS(max_iter=5).fit(table()).n_iter_ == 5
    with pytest.raises(MissingExtraError, match="torch"):
        soft(max_iter=5).fit(table())


@pytest.mark.parametrize("scale", [1e-140, 1e-20, 1e100, 1e140])
@pytest.mark.parametrize("n", [4, 200])
def test_the_lagrangian_at_any_scale(n, scale):
    model = NOTEARS(lambda1=0.1 * scale**2, n_jobs=1, max_iter=300).fit(table(n=n) * scale)
    assert model.status_ != "diverged"
    assert model.weights_.nnz > 0
    assert np.isfinite(model.history_.objective).all()


@pytest.mark.parametrize(
    "given",
    [{"lambda1": 0.0}, {"lambda1": 1e300}, {"tol": 0.0}, {"tol": 1.0}, {"patience": 10**12},
     {"warm_start_dag": np.triu(np.full((6, 6), 1e200), 1)},
     {"warm_start_dag": np.full((6, 6), 1e30)}],
    ids=str,
)  # fmt: skip
def test_any_number_the_lagrangian_allows_ends_with_a_dag(given, caplog):
    model = NOTEARS(n_jobs=1, max_iter=200, **given).fit(table())
    assert is_acyclic(model.weights_)
    assert np.isfinite(model.weights_.data).all()
    if model.status_ == "diverged":
        assert "has diverged: " in caplog.text


def test_diverging_ends_with_the_last_finite_iterate():
    model = soft(optimizer="SGD", learning_rate=1e6, max_iter=50).fit(table())
    assert model.status_ == "diverged"
    assert np.isfinite(model.raw_weights_.data).all()
    assert is_acyclic(model.weights_)


def test_continues_from_a_warm_start():
    X = table()
    first = soft(max_iter=1500, learning_rate=0.01).fit(X)
    second = soft(max_iter=1, warm_start_dag=first.raw_weights_).fit(X)
    change = np.abs((second.raw_weights_ - first.raw_weights_).toarray()).max()
    assert change <= 0.0101  # one step of Adam


def test_interrupted_gives_the_thresholded_iterate():
    def stop(state):
        if state.iteration == 300:
            raise KeyboardInterrupt

    model = interrupted(soft(learning_rate=0.01, callback=stop), table())
    assert model.status_ == "interrupted"
    assert model.n_iter_ == 300
    assert model.weights_.nnz
