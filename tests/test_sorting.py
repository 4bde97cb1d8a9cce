"""Orders and one lasso."""

from __future__ import annotations

import numpy as np
import pytest

from bigdag import SortRegress, metrics, simulate
from bigdag.data.dataset import as_dataset
from bigdag.engine.gram import Gram
from bigdag.engine.lasso import solve
from bigdag.engine.order import rank_of
from bigdag.graph.acyclic import is_acyclic
from bigdag.graph.feedback_arc_set import greedy_order
from learner_contract import LearnerContract, equation_1, table

ORDERS = ["least_variance", "variance", "r2", "random", "lasso_mas", "empty"]


class TestLeastVariance(LearnerContract):
    make = staticmethod(lambda: SortRegress())
    not_held = 0.2  # the order by least variance left then is that of a sparse support
    keeps_best = False


class TestLassoMas(LearnerContract):
    make = staticmethod(lambda: SortRegress(order="lasso_mas"))
    keeps_best = False


@pytest.mark.parametrize("order", ORDERS)
def test_answer_solves_the_lasso_on_its_order(order):
    X = table(n=200, d=12)
    model = SortRegress(order=order, tol=1e-8, random_state=1).fit(X)
    assert model.status_ == "converged"
    if order == "empty":
        assert model.weights_.nnz == 0
        return
    # Subgradient conditions of every column, densely.
    Xc = X - X.mean(axis=0)
    W = model.weights_.toarray()
    slope = Xc.T @ (Xc @ W - Xc) / len(X)
    rank = rank_of(model.order_)
    allowed = rank[:, None] < rank
    scale = np.outer(Xc.std(axis=0), Xc.std(axis=0))
    assert np.all(np.abs(slope[allowed]) <= 0.1 + 1e-3 * scale[allowed])
    used = W != 0
    assert np.all(np.abs(slope + 0.1 * np.sign(W))[used] <= 1e-3 * scale[used])


def test_lasso_mas_is_what_it_says():
    X = table(n=200, d=12)
    gram = Gram(as_dataset(X))
    order = greedy_order(solve(gram, 0.1).weights)
    model = SortRegress(order="lasso_mas").fit(X)
    assert np.array_equal(model.order_, order)
    assert model.history_.phase.tolist() == ["start", "fit", "lasso"]


def test_random_orders_come_from_the_seed():
    X = table()
    first, second, other = (SortRegress(order="random", random_state=s).fit(X) for s in (1, 1, 2))
    assert np.array_equal(first.order_, second.order_)
    assert not np.array_equal(first.order_, other.order_)


def test_answer_is_on_the_order_even_if_the_start_is_better():
    dag = simulate.random_dag(20, 1, rng=0)
    X = simulate.sample(dag, 500, rng=1)
    best = SortRegress().fit(X)
    model = SortRegress(order="random", random_state=0, warm_start_dag=best.dag_).fit(X)
    assert model.objective_ > best.objective_
    cold = SortRegress(order="random", random_state=0).fit(X)
    assert model.objective_ == pytest.approx(cold.objective_, rel=1e-3)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("start", [None, np.full((60, 60), 0.1)])
def test_a_deadline_leaves_a_dag(order, start):
    X = table(n=50, d=60)
    model = SortRegress(order=order, time_limit=1e-9, warm_start_dag=start).fit(X)
    assert model.status_ == "time_limit"
    assert is_acyclic(model.weights_)
    assert model.objective_ == pytest.approx(equation_1(X, model.weights_, 0.1))


def test_the_baselines_rank_as_they_should():
    dag = simulate.random_dag(150, 1, rng=0)
    X = simulate.sample(dag, 600, rng=1)
    score = {
        order: metrics.average_precision(SortRegress(order=order, random_state=7).fit(X).dag_, dag)
        for order in ORDERS
    }
    assert score["least_variance"] > 0.98
    assert score["least_variance"] > score["variance"] > score["random"] > score["empty"]
    assert score["lasso_mas"] > score["random"]


def test_a_random_order_is_not_the_one_that_the_data_came_from():
    truth = simulate.random_dag(60, 1, rng=3)
    model = SortRegress(order="random", random_state=3).fit(simulate.sample(truth, 50, rng=4))
    assert metrics.order_errors(model.order_, truth) > 0.2
