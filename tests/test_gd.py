"""GD, against literal dense steps."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from bigdag import GD, ProxiMAS, SortRegress, metrics, simulate
from bigdag.data.dataset import as_dataset
from bigdag.engine.gram import Gram
from bigdag.engine.lasso import solve
from bigdag.engine.order import project, rank_of
from bigdag.graph.feedback_arc_set import greedy_order
from bigdag.learners.gd import _best_places, _Point
from bigdag.learners.run import Run
from learner_contract import LearnerContract, equation_1, table


class TestGD(LearnerContract):
    make = staticmethod(lambda: GD(max_iter=30))


def point_of(X: np.ndarray, order: np.ndarray, lambda1: float = 0.1) -> _Point:
    run = Run(GD(lambda1), as_dataset(X))
    point = _Point(run, order, np.zeros((X.shape[1],) * 2))
    point.measure()
    return point


@pytest.mark.parametrize("t", [1.0, 0.25])
def test_step_is_the_scaled_proximal_gradient_step(t):
    X = table(n=300, d=10)
    point = point_of(X, np.random.default_rng(0).permutation(10))
    Xc = X - X.mean(axis=0)
    S = Xc.T @ Xc / len(X)
    D = np.diag(S)[:, None]
    W = point.weights.toarray()
    stepped = W - t * (S @ (W - np.eye(10))) / D
    stepped = np.sign(stepped) * np.maximum(np.abs(stepped) - t * 0.1 / D, 0)
    np.fill_diagonal(stepped, 0)
    found = np.abs(point.step(t).toarray())
    scale = np.sqrt(D * D.T)
    # The lasso is solved to a relative gap of 1e-4, so forward arcs stay up to its root.
    assert np.all(np.abs(np.abs(stepped) * np.sqrt(D) - found) <= 0.03 * np.sqrt(scale))
    rank = rank_of(point.order)
    backward = rank[:, None] > rank
    exact = np.abs(stepped) * np.sqrt(D)
    assert np.allclose(found[backward], exact[backward], rtol=1e-9, atol=1e-12)


def test_gains_are_those_of_regressions_fitted_anew():
    X = table(n=300, d=8)
    point = point_of(X, np.random.default_rng(1).permutation(8), lambda1=1e-9)
    Xc = X - X.mean(axis=0)
    rank = rank_of(point.order)

    def loss(j, parents):
        fitted = Xc[:, parents] @ np.linalg.lstsq(Xc[:, parents], Xc[:, j])[0]
        return np.sum((Xc[:, j] - fitted) ** 2) / (2 * len(X))

    gains = point.gains.tocoo()
    assert gains.nnz > 8
    for i, j, gain in zip(gains.row, gains.col, gains.data):
        parents = [k for k in range(8) if point.weights[k, j] != 0]
        if rank[i] < rank[j]:
            expected = loss(j, [k for k in parents if k != i]) - loss(j, parents)
        else:
            expected = loss(j, parents) - loss(j, [*parents, i])
        assert gain == pytest.approx(expected, rel=1e-2, abs=1e-5 * Xc[:, j].var())


def test_columns_not_affected_keep_their_lasso():
    X = table(n=300, d=30)
    rng = np.random.default_rng(0)
    point = point_of(X, rng.permutation(30))
    for _ in range(5):
        order = point.order.copy()
        a, b = rng.choice(30, 2, replace=False)
        order[[a, b]] = order[[b, a]]
        trial = point.solve(order, point.affected(order), point.weights)
        whole = solve(point.gram, 0.1, order=order)
        assert point.value - trial.total == pytest.approx(whole.objective.sum(), rel=2e-4)
        assert (trial.weights != project(trial.weights, order)).nnz == 0


def test_best_place_is_the_best_of_all_places():
    rng = np.random.default_rng(0)
    d = 9
    gains = rng.exponential(size=(d, d)) * (rng.random((d, d)) < 0.4)
    np.fill_diagonal(gains, 0)
    order = rng.permutation(d)
    rank = rank_of(order)
    out, into = sp.csr_array(gains), sp.csc_array(gains)
    best, place = _best_places(
        rank, out.indptr, out.indices, out.data, into.indptr, into.indices, into.data
    )

    def promised(v, at):
        total = 0.0
        for x in range(d):
            if x != v and min(rank[v], at) < rank[x] < max(rank[v], at):
                for i, j in ((v, x), (x, v)):
                    total += gains[i, j] * (-0.8 if rank[i] < rank[j] else 1.0)
        return total

    for v in range(d):
        scores = [promised(v, at) for at in np.arange(-0.5, d)]
        assert best[v] == pytest.approx(max(0.0, *scores))
        if best[v] > 0:
            assert promised(v, place[v]) == pytest.approx(best[v])


@pytest.mark.parametrize(("d", "k", "n"), [(60, 1, 400), (40, 3, 400), (60, 1, 40)])
def test_history_falls_and_ends_at_a_lasso_on_the_order(d, k, n):
    X = simulate.sample(simulate.random_dag(d, k, rng=0), n, rng=1)
    model = GD().fit(X)
    assert model.status_ == "converged"
    acyclic = model.history_[model.history_.phase.isin(["order", "gradient", "swap"])]
    assert acyclic.objective.is_monotonic_decreasing
    whole = solve(Gram(as_dataset(X)), 0.1, order=model.order_)
    assert model.objective_ <= whole.objective.sum() * (1 + 2e-4)


def test_never_worse_than_its_start_or_lasso_and_mas():
    X = simulate.sample(simulate.random_dag(60, 2, rng=0), 300, rng=1)
    gram = Gram(as_dataset(X))
    plain = solve(gram, 0.1, order=greedy_order(solve(gram, 0.1).weights)).objective.sum()
    assert GD().fit(X).objective_ <= plain * (1 + 1e-9)
    for start in (ProxiMAS().fit(X).dag_, SortRegress().fit(X).dag_, simulate.random_dag(60, 2)):
        warm = GD(warm_start_dag=start).fit(X)
        assert warm.objective_ <= equation_1(X, start.weights, 0.1) * (1 + 1e-9)


@pytest.mark.parametrize("seed", [0, 1])
def test_close_to_the_lasso_on_the_true_order(seed):
    truth = simulate.random_dag(150, 1, rng=seed)
    X = simulate.sample(truth, 600, rng=10 + seed)
    model = GD().fit(X)
    true_order = solve(Gram(as_dataset(X)), 0.1, order=truth.order).objective.sum()
    assert model.objective_ <= 1.02 * true_order
    assert metrics.average_precision(model.dag_, truth) > 0.9


def test_units_do_not_stall_it():
    truth = simulate.random_dag(40, 1, rng=0)
    X = simulate.sample(truth, 400, rng=1)
    plain = GD(lambda1=1e-9).fit(X)
    scaled = GD(lambda1=1e-3).fit(1e3 * X)  # λ1 goes with the variance: 1e6 times as large
    assert scaled.status_ == "converged"
    assert scaled.objective_ / 1e6 == pytest.approx(plain.objective_, rel=1e-6)
