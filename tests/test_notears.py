"""NOTEARS: its gradient against finite differences, its answers against gcastle."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import expm

from bigdag import NOTEARS, metrics, simulate
from bigdag.data.dataset import as_dataset
from bigdag.graph.acyclic import acyclic_threshold, is_acyclic
from bigdag.learners.notears import acyclicity
from bigdag.learners.run import Run
from bigdag.learners.torch_support import Residuals
from learner_contract import LearnerContract, equation_1, gcastle, interrupted, table


class TestNOTEARS(LearnerContract):
    make = staticmethod(lambda: NOTEARS(max_iter=20))
    keeps_best = False


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
    learner = NOTEARS(lambda1=0.3, lambda2=2.0)
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
        learner = NOTEARS(lambda1=0.3)
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
    model = NOTEARS(max_iter=5, dtype="float64", learning_rate=0.1,
                    callback=lambda s: seen.append(equation_1(X, s.weights(), 0.1)))  # fmt: skip
    model.fit(X)
    assert np.allclose(model.history_.objective[1:], seen)


def test_answer_is_the_raw_weights_above_the_smallest_threshold():
    model = NOTEARS(max_iter=200, learning_rate=0.01).fit(table())
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
    truth = simulate.random_dag(15, 1, rng=2)
    X = simulate.sample(truth, 1000, rng=3)
    with gcastle() as castle:
        theirs = castle.Notears(lambda1=0.1)
        theirs.learn(X - X.mean(axis=0))
    ours = NOTEARS(learning_rate=0.01, max_iter=3000).fit(X).dag_.threshold(0.3)
    other = np.asarray(theirs.causal_matrix)

    def shd(estimate, truth):
        return metrics.arc_metrics(estimate, truth).shd

    assert shd(ours, other) <= 2
    assert shd(ours, truth) <= shd(other, truth) + 1


def test_diverging_ends_with_the_last_finite_iterate():
    model = NOTEARS(optimizer="SGD", learning_rate=1e6, max_iter=50).fit(table())
    assert model.status_ == "diverged"
    assert np.isfinite(model.raw_weights_.data).all()
    assert is_acyclic(model.weights_)


def test_continues_from_a_warm_start():
    X = table()
    first = NOTEARS(max_iter=1500, learning_rate=0.01).fit(X)
    second = NOTEARS(max_iter=1, warm_start_dag=first.raw_weights_).fit(X)
    change = np.abs((second.raw_weights_ - first.raw_weights_).toarray()).max()
    assert change <= 0.00101  # one step of Adam


def test_interrupted_gives_the_thresholded_iterate():
    def stop(state):
        if state.iteration == 300:
            raise KeyboardInterrupt

    model = interrupted(NOTEARS(learning_rate=0.01, callback=stop), table())
    assert model.status_ == "interrupted"
    assert model.n_iter_ == 300
    assert model.weights_.nnz
