"""GOLEM: its gradients against finite differences, its iterates against gcastle's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bigdag import GOLEM, metrics, simulate
from bigdag.data.dataset import as_dataset
from bigdag.errors import DataWarning
from bigdag.learners.run import Run
from bigdag.learners.torch_loss import Residuals
from learner_contract import LearnerContract, gcastle, table
from test_notears import random_weights


class TestGOLEM(LearnerContract):
    make = staticmethod(lambda: GOLEM(max_iter=20))
    keeps_best = False


class TestGOLEMNV(LearnerContract):
    make = staticmethod(lambda: GOLEM("NV", max_iter=20))
    keeps_best = False


def loss_of(learner, X, variance):
    run = Run(learner, as_dataset(X))
    residuals = Residuals(run, torch, "cpu", torch.float64)
    loss = learner._loss(run, torch, residuals, variance)
    return lambda W: loss(W)[0]


@pytest.mark.parametrize("variance", ["EV", "NV"])
@pytest.mark.parametrize("n", [4, 50])  # from X, from S
def test_gradient_against_finite_differences(n, variance):
    loss = loss_of(GOLEM(variance), table(n=n), variance)
    assert torch.autograd.gradcheck(loss, random_weights(6))


def test_loss_is_the_papers():
    X, W = table(), random_weights(6).detach()
    C = X - X.mean(axis=0)
    R = torch.as_tensor(C - C @ W.numpy())
    rest = (
        -torch.linalg.slogdet(torch.eye(6) - W)[1]
        + 0.3 * W.abs().sum()
        + 4 * (torch.trace(torch.matrix_exp(W * W)) - 6)
    )
    learner = GOLEM(lambda1=0.3, lambda2=4.0)
    ev = 3 * torch.log(R.square().sum()) + rest
    nv = 0.5 * torch.log(R.square().sum(dim=0)).sum() + rest
    assert float(loss_of(learner, X, "EV")(W)) == pytest.approx(float(ev))
    assert float(loss_of(learner, X, "NV")(W)) == pytest.approx(float(nv))


@pytest.mark.parametrize("variance", ["EV", "NV"])
def test_iterates_are_those_of_gcastle(variance):
    truth = simulate.random_dag(20, 1, rng=4)
    X = simulate.sample(truth, 500, rng=5)
    start = None if variance == "EV" else 0.9 * truth.weights.toarray()
    with gcastle() as castle:
        theirs = castle.GOLEM(
            B_init=start, equal_variances=variance == "EV",
            lambda_1={"EV": 0.02, "NV": 0.002}[variance],
            lambda_2=5.0, learning_rate=0.01, num_iter=301,  # it returns the last but one iterate
        )  # fmt: skip
        theirs.learn(X - X.mean(axis=0))
    ours = GOLEM(
        variance, learning_rate=0.01, max_iter=300, patience=1000, warm_start_dag=start,
        dtype="float64",
    ).fit(X)  # fmt: skip
    difference = ours.raw_weights_.toarray() - np.asarray(theirs.weight_causal_matrix)
    assert np.abs(difference).max() < 1e-5


def test_finds_the_graph():
    truth = simulate.random_dag(15, 1, rng=2)
    X = simulate.sample(truth, 1000, rng=3)
    for variance in ("EV", "NV"):
        model = GOLEM(variance, learning_rate=0.01, max_iter=3000).fit(X)
        assert metrics.average_precision(model.raw_weights_, truth) > 0.9
        assert metrics.average_precision(model.dag_, truth) > 0.9


def test_defaults_and_phases_follow_the_variance():
    X = table()
    assert GOLEM("EV")._own_lambda1() == 0.02
    assert GOLEM("NV")._own_lambda1() == 0.002
    assert GOLEM("NV", lambda1=0.5)._own_lambda1() == 0.5
    assert set(GOLEM(max_iter=10).fit(X).history_.phase) == {"start", "ev"}
    phases = GOLEM("NV", max_iter=10).fit(X).history_.phase
    assert (phases == "ev").sum() == (phases == "nv").sum() == 5
    begun = GOLEM("NV", max_iter=10, warm_start_dag=np.zeros((6, 6))).fit(X).history_.phase
    assert (begun == "nv").sum() == 10


@pytest.mark.parametrize("variance", ["EV", "NV"])
def test_perfect_fits_and_constant_columns_do_not_diverge(variance):
    X = table(n=5, d=12)
    X[:, 3] = X[:, 4]
    X[:, 7] = 1.0
    with pytest.warns(DataWarning):
        model = GOLEM(variance, learning_rate=0.05, max_iter=300).fit(X)
    assert model.status_ != "diverged"
    with pytest.warns(DataWarning):
        assert GOLEM(variance, max_iter=3).fit(np.ones((4, 3))).status_ != "diverged"
