"""When a descent has converged: not on a plateau, and with the answer that a longer run gives."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from bigdag import DAGMA, GOLEM, NOTEARS, OptiMAS, OrderSearch, metrics, simulate
from bigdag.learners.convergence import Settled
from bigdag.learners.torch_support import Convergence, Descent


def steps_until(settled, losses):
    """Return how many losses it takes."""
    return next(t for t, loss in enumerate(losses, 1) if settled.reached(loss))


@pytest.mark.parametrize("pace", [1, 3, 10])  # a learning rate as many times smaller
def test_a_plateau_in_the_middle_of_a_descent_is_no_end(pace):
    """However slow the optimiser is: 300 steps down, a rest of 120, 200 down, and then no more."""
    corners = np.cumsum([0, 300, 120, 200, 2000]) * pace
    losses = np.interp(np.arange(corners[-1]), corners, [10.0, 5.0, 5.0, 1.0, 1.0])
    ended = steps_until(Settled(1e-5, 100), losses)
    assert corners[3] < ended <= 1.6 * corners[3] + 100


def test_a_fixed_window_would_have_ended_there():
    losses = np.interp(np.arange(3000), [0, 1000, 1300, 2000], [10.0, 5.0, 5.0, 1.0])
    level = [a - b <= 1e-5 * b for a, b in zip(losses, losses[100:])]
    assert 1000 < level.index(True) + 100 < 1300
    assert steps_until(Settled(1e-5, 100), itertools.chain(losses, itertools.repeat(1.0))) > 2000


def test_what_tol_and_patience_mean():
    level = itertools.repeat(3.0)
    assert steps_until(Settled(0.0, 50), level) == 51
    assert steps_until(Settled(1.0, 50), iter(np.linspace(9, 8, 99))) == 51
    falling = 1.0 + 0.5 ** np.arange(200.0)
    assert steps_until(Settled(1e-2, 5), falling) < steps_until(Settled(1e-8, 5), falling)
    # Around zero a share of the loss would be nothing.
    noise = 1e-6 * np.random.default_rng(0).normal(size=5000)
    assert steps_until(Settled(1e-4, 20, floor=1.0), noise) == 21
    # A loss that goes up and down is judged by its least value.
    assert steps_until(Settled(1e-5, 20), itertools.cycle([2.0, 1.0])) <= 23


def test_few_marks_are_held():
    settled = Settled(0.0, 100)
    for loss in -np.arange(30_000.0):
        assert not settled.reached(loss)
    assert len(settled._marks) < 200


def test_learning_rates_fall_before_the_end_and_come_back():
    x = torch.tensor([3.0])
    descent = Descent(torch, x, lambda x: x.abs().sum(), "Adam", 0.5)
    convergence = Convergence(descent, 1e-6, 10, decays=3)
    rates = set()
    while not convergence.reached(descent.evaluate()):
        rates.add(round(descent.optimizer.param_groups[0]["lr"], 9))
        descent.step()
    assert rates == {0.5, 0.05, 0.005, 0.0005}
    assert abs(float(x.detach())) < 0.1
    convergence.undo_decays()
    assert descent.optimizer.param_groups[0]["lr"] == pytest.approx(0.5)


def world(d):
    rng = np.random.default_rng([0, 2024])
    truth = simulate.random_dag(d, 1, rng=rng)
    return truth, simulate.sample(truth, 1000, rng=rng)


@pytest.mark.parametrize(
    "make",
    [
        lambda **given: GOLEM("EV", learning_rate=0.05, **given),
        lambda **given: GOLEM("NV", learning_rate=0.05, **given),
        lambda **given: NOTEARS(solver="soft_penalty", learning_rate=0.05, **given),
        lambda **given: OptiMAS(refit=False, **given),
    ],
    ids=["GOLEM-EV", "GOLEM-NV", "NOTEARS, soft penalty", "OptiMAS"],
)
def test_converged_is_as_good_as_run_on(make):
    """Within 0.02 of a run that ends only where the loss no longer falls at all."""
    truth, X = world(12)
    ended, on = make(n_jobs=1).fit(X), make(n_jobs=1, tol=0.0, max_iter=2500).fit(X)
    assert ended.status_ == "converged"
    for weights in (lambda m: m.dag_, lambda m: getattr(m, "raw_weights_", m.weights_)):
        long = metrics.average_precision(weights(on), truth)
        assert metrics.average_precision(weights(ended), truth) >= long - 0.02


@pytest.mark.parametrize(
    "make",
    [
        lambda **given: GOLEM("EV", **given),
        lambda **given: GOLEM("NV", **given),
        lambda **given: NOTEARS(solver="soft_penalty", **given),
        NOTEARS,
        DAGMA,
    ],
    ids=["GOLEM-EV", "GOLEM-NV", "NOTEARS, soft penalty", "NOTEARS", "DAGMA"],
)
def test_begins_from_the_dag_of_another_learner(make):
    _, X = world(12)
    start = OrderSearch().fit(X).dag_
    model = make(warm_start_dag=start, max_iter=1).fit(X)
    first, begun = model.raw_weights_.toarray(), start.weights.toarray()
    assert np.linalg.norm(first - begun) < 0.2 * np.linalg.norm(begun)
    assert not np.array_equal(first, begun)


def test_a_descent_that_steps_too_far_goes_back_and_takes_smaller_steps():
    """Adam with a rate of 0.01 jumps about where variances are large, far above its best."""
    truth = simulate.random_dag(40, 4, rng=np.random.default_rng(5))
    X = simulate.sample(truth, 500, rng=np.random.default_rng(6))
    model = GOLEM("EV", n_jobs=1, max_iter=1500).fit(X)
    assert model.history_["objective"].iloc[-1] <= 1.1 * model.history_["objective"][1:].min()
    careful = GOLEM("EV", n_jobs=1, max_iter=1500, learning_rate=0.001).fit(X)
    assert model.history_["objective"].iloc[-1] <= 2 * careful.history_["objective"][1:].min()


def test_the_place_of_the_least_loss_is_the_answer_after_steps_too_far():
    x = torch.tensor([1.0])
    descent = Descent(torch, x, lambda x: (x * x).sum(), "SGD", 0.4)
    convergence = Convergence(descent, 1e-6, 5, decays=0, goes_back=True)
    for rate in (1.0, 1.0, 4.0, 4.0, 4.0):  # the last ones lead away, further and further
        convergence.reached(descent.evaluate())
        descent.scale_rates(rate)
        descent.step()
    convergence.reached(descent.evaluate())
    assert descent.evaluate() > 2 * convergence.best
    descent.go_to(convergence.clearly_lower())
    assert descent.evaluate() == convergence.best
    assert not convergence.reached(convergence.best)
    assert convergence.clearly_lower() is None
