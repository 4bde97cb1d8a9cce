"""GD, against literal dense steps, all orders, and insertions fitted one by one."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from bigdag import GD, OrderSearch, ProxiMAS, SortRegress, metrics, simulate
from bigdag.data.dataset import as_dataset
from bigdag.engine.gram import Gram
from bigdag.engine.lasso import solve
from bigdag.engine.order import project, rank_of
from bigdag.graph.feedback_arc_set import greedy_order
from bigdag.learners.gd import _Point
from bigdag.learners.run import Run
from bigdag.search.best_insertion import OrderedLasso
from learner_contract import LearnerContract, deadline_at_look, equation_1, table


class TestGD(LearnerContract):
    make = staticmethod(lambda: GD(n_restarts=2, max_iter=30, random_state=0))


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


# ------------------------------------------------------------------ insertions


def value_of(gram: Gram, order: np.ndarray, lambda1: float = 0.1) -> float:
    """Return equation (1) of the lasso on an order, solved from nothing."""
    return float(solve(gram, lambda1, order=order, tol=1e-9).objective.sum())


def inserted(order: np.ndarray, v: int, place: int) -> np.ndarray:
    return np.insert(order[order != v], place, v)


@pytest.mark.parametrize("hold", [True, False])
@pytest.mark.parametrize(("d", "k", "n"), [(9, 1, 200), (8, 3, 30), (10, 2, 6)])
def test_best_insertion_is_the_best_of_all_places(d, k, n, hold):
    X = simulate.sample(simulate.random_dag(d, k, rng=d), n, rng=1)
    gram = Gram(as_dataset(X), hold=hold)
    free = solve(gram, 0.1, tol=1e-9)
    order = np.random.default_rng(2).permutation(d)
    ordered = OrderedLasso(gram, 0.1, order, free.objective - free.gap, tol=1e-9)
    begun, found = ordered.value, 0
    for v in range(d):
        values = [value_of(gram, inserted(order, v, place)) for place in range(d)]
        better = ordered.best_insertion(v, least=1e-6 * begun)
        if better is None:
            assert min(values) > begun * (1 - 2e-6)
            continue
        found += 1
        after = ordered.copy()
        after.apply(better)
        assert after.value == pytest.approx(min(values), rel=1e-6)
        assert np.array_equal(after.order, inserted(order, v, better.place))
        assert equation_1(X, after.weights, 0.1) == pytest.approx(after.value, rel=1e-9)
        assert (after.weights != project(after.weights, after.order)).nnz == 0
        assert ordered.value == begun  # a copy changes on its own
    assert found


def test_an_insertion_anywhere_is_the_lasso_on_that_order():
    X = simulate.sample(simulate.random_dag(9, 2, rng=0), 100, rng=1)
    gram = Gram(as_dataset(X))
    order = np.random.default_rng(0).permutation(9)
    ordered = OrderedLasso(gram, 0.1, order, np.zeros(9), tol=1e-9)
    for v, place in np.random.default_rng(1).integers(9, size=(40, 2)):
        order = inserted(order, int(v), int(place))
        ordered.apply(ordered.insertion(int(v), int(place)))
        assert np.array_equal(ordered.order, order)
        assert ordered.value == pytest.approx(value_of(gram, order), rel=1e-6)


# ------------------------------------------------------------------ where it ends


@pytest.mark.parametrize("standardised", [False, True])
@pytest.mark.parametrize(("d", "k", "n", "seed"), [(5, 2, 300, 0), (5, 1, 4, 1), (6, 2, 50, 2)])
def test_finds_the_least_of_all_orders(d, k, n, seed, standardised):
    X = simulate.sample(simulate.random_dag(d, k, rng=seed), n, rng=seed)
    X = simulate.standardise(X) if standardised else X
    gram = Gram(as_dataset(X))
    known: dict[tuple[int, frozenset[int]], float] = {}
    for v in range(d):  # what v costs after each set of others
        for s in range(2**d):
            before = [u for u in range(d) if s >> u & 1 and u != v]
            rest = [u for u in range(d) if u not in before and u != v]
            fit = solve(gram, 0.1, order=np.array([*before, v, *rest]), columns=[v], tol=1e-9)
            known[v, frozenset(before)] = float(fit.objective[v])
    least = min(
        sum(known[v, frozenset(order[:i])] for i, v in enumerate(order))
        for order in permutations(range(d))
    )
    model = GD(random_state=0).fit(X)
    assert model.status_ == "converged"
    assert model.objective_ == pytest.approx(least, rel=2e-6)


@pytest.mark.parametrize(("d", "k", "standardised"), [(14, 2, False), (14, 2, True)])
def test_no_insertion_is_left_where_it_has_converged(d, k, standardised):
    X = simulate.sample(simulate.random_dag(d, k, rng=1), 200, rng=2)
    X = simulate.standardise(X) if standardised else X
    gram = Gram(as_dataset(X))
    for n_restarts in (0, 3):
        model = GD(n_restarts=n_restarts, random_state=0).fit(X)
        assert model.status_ == "converged"
        assert "proof" in set(model.history_.phase)
        for v in range(d):
            for place in range(d):
                value = value_of(gram, inserted(model.order_, v, place))
                assert value > model.objective_ * (1 - 3e-6)


def test_restarts_never_worsen_and_end_by_themselves():
    X = simulate.standardise(simulate.sample(simulate.random_dag(20, 3, rng=0), 100, rng=1))
    ends = [GD(n_restarts=n, random_state=4).fit(X) for n in (0, 4, 30)]
    for model in ends:
        assert model.status_ == "converged"
        acyclic = model.history_[~model.history_.phase.isin(["start", "fit"])]
        assert acyclic.objective.is_monotonic_decreasing
    values = [model.objective_ for model in ends]
    assert values == sorted(values, reverse=True)
    assert values[2] < values[0]
    assert not (ends[0].history_.phase == "restart").any()
    assert (ends[2].history_.phase == "restart").sum() >= 30


def test_a_time_limit_is_used_for_restarts():
    X = simulate.standardise(simulate.sample(simulate.random_dag(8, 2, rng=0), 100, rng=1))
    with deadline_at_look(2000):  # stands for a limit: far more than convergence needs
        model = GD(time_limit=1e9, random_state=0).fit(X)
    assert model.status_ == "time_limit"
    assert (model.history_.phase == "restart").sum() > 10
    few = GD(time_limit=1e9, n_restarts=1, random_state=0).fit(X)
    assert few.status_ == "converged"
    assert (few.history_.phase == "restart").sum() < 10


def test_ends_before_its_limit_where_no_graph_can_be_better():
    X = table(n=200, d=6)
    model = GD(1e3, time_limit=1e9).fit(X)  # a penalty that leaves no arc
    assert model.status_ == "converged"
    assert model.weights_.nnz == 0


def test_the_seed_and_not_the_threads_decide():
    X = simulate.sample(simulate.random_dag(30, 2, rng=0), 100, rng=1)
    one, other = (GD(random_state=5, n_jobs=n_jobs).fit(X) for n_jobs in (1, 3))
    assert np.array_equal(one.weights_.toarray(), other.weights_.toarray())
    assert one.history_.objective.equals(other.history_.objective)


def test_warm_start_from_other_learners_arrives_where_they_were_or_lower():
    X = simulate.sample(simulate.random_dag(30, 2, rng=0), 300, rng=1)
    for learner in (ProxiMAS(), OrderSearch(), SortRegress()):
        start = learner.fit(X)
        warm = GD(warm_start_dag=start.dag_, n_restarts=0).fit(X)
        assert warm.objective_ <= start.objective_ * (1 + 1e-9)
        assert warm.status_ == "converged"
        assert warm.history_.objective.iloc[1] == pytest.approx(start.objective_, rel=1e-9)


@pytest.mark.parametrize(("d", "k", "n"), [(60, 1, 400), (40, 3, 400), (60, 1, 40)])
def test_history_falls_and_ends_at_a_lasso_on_the_order(d, k, n):
    X = simulate.sample(simulate.random_dag(d, k, rng=0), n, rng=1)
    model = GD(n_restarts=1, random_state=0).fit(X)
    assert model.status_ == "converged"
    acyclic = model.history_[~model.history_.phase.isin(["start", "fit"])]
    assert acyclic.objective.is_monotonic_decreasing
    whole = solve(Gram(as_dataset(X)), 0.1, order=model.order_)
    assert model.objective_ <= whole.objective.sum() * (1 + 2e-4)


def test_never_worse_than_its_start_or_lasso_and_mas():
    X = simulate.sample(simulate.random_dag(60, 2, rng=0), 300, rng=1)
    gram = Gram(as_dataset(X))
    plain = solve(gram, 0.1, order=greedy_order(solve(gram, 0.1).weights)).objective.sum()
    assert GD(n_restarts=0).fit(X).objective_ <= plain * (1 + 1e-9)
    for start in (ProxiMAS().fit(X).dag_, SortRegress().fit(X).dag_, simulate.random_dag(60, 2)):
        warm = GD(warm_start_dag=start, n_restarts=0).fit(X)
        assert warm.objective_ <= equation_1(X, start.weights, 0.1) * (1 + 1e-9)


@pytest.mark.parametrize("seed", [0, 1])
def test_close_to_the_lasso_on_the_true_order(seed):
    truth = simulate.random_dag(150, 1, rng=seed)
    X = simulate.sample(truth, 600, rng=10 + seed)
    model = GD(n_restarts=0).fit(X)
    true_order = solve(Gram(as_dataset(X)), 0.1, order=truth.order).objective.sum()
    assert model.objective_ <= true_order
    assert metrics.average_precision(model.dag_, truth) > 0.97


def test_units_do_not_stall_it():
    truth = simulate.random_dag(40, 1, rng=0)
    X = simulate.sample(truth, 400, rng=1)
    plain = GD(lambda1=1e-9, random_state=0).fit(X)
    scaled = GD(lambda1=1e-3, random_state=0).fit(
        1e3 * X
    )  # λ1 goes with the variance: 1e6 times as large
    assert scaled.status_ == "converged"
    assert scaled.objective_ / 1e6 == pytest.approx(plain.objective_, rel=1e-6)
