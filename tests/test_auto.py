"""The automatic method: what it chooses, and that it keeps to the contract of learners."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from bigdag import AutoDAG, OrderSearch, metrics
from bigdag.data.dataset import Dataset, as_dataset
from bigdag.errors import DataError
from bigdag.simulate import noise_scales, random_dag, sample, standardise

from .learner_contract import LearnerContract


class TestAutoDAG(LearnerContract):
    make = staticmethod(lambda: AutoDAG())
    chooses_lambda1, takes_missing, keeps_best = True, True, False
    not_held = 0.02  # the first order is another one then, and with it lambda1


class TestAutoDAGByLeastSquares(LearnerContract):
    make = staticmethod(lambda: AutoDAG("least_squares"))
    chooses_lambda1, takes_missing, keeps_best = True, True, False
    not_held = 0.02  # the first order is another one then, and with it lambda1


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("noise", ["gaussian", "exponential", "gumbel"])
def test_equal_variances_are_told_in_any_unit_of_the_table(k, noise):
    truth = random_dag(60, k, rng=k)
    X = sample(truth, 400, noise, rng=5)
    for scale in (1.0, 1e-3, 1e3):
        model = AutoDAG().fit(scale * X)
        assert model.assumption_ == "equal variances"
        assert model.prepared_.transform == "none"
        assert metrics.average_precision(model.dag_, truth) > 0.95
        assert model.dag_.reversible.nnz == 0


@pytest.mark.parametrize("k", [1, 2, 4])
def test_columns_that_were_scaled_or_have_noises_of_their_own_go_to_the_bic(k):
    truth = random_dag(60, k, rng=k)
    X = sample(truth, 400, rng=5)
    units = X * 10.0 ** np.random.default_rng(0).uniform(-3, 3, 60)
    own = sample(truth, 400, "gaussian", noise_scales(60, "NV", 3), rng=5)
    for table in (standardise(X), units, own):
        model = AutoDAG().fit(table)
        assert model.assumption_ == "own variances"
        assert model.dag_ == OrderSearch(criterion="bic").fit(table).dag_


def test_weak_relations_of_scaled_columns_are_not_taken_for_equal_variances():
    # With so little explained, what is left of variances of 1 is nearly the same for all.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 40))
    X[:, 1::2] += 0.3 * X[:, ::2]
    X *= rng.uniform(0.999, 1.001, 40) / X.std(axis=0)
    model = AutoDAG().fit(X)
    assert model.dag_.n_arcs > 10
    assert model.assumption_ == "own variances"


@pytest.mark.parametrize("criterion", ["least_squares", "bic"])
def test_what_is_asked_for_is_done(criterion):
    X = sample(random_dag(20, 1, rng=0), 300, rng=1)
    model = AutoDAG(criterion).fit(X)
    wanted = "equal variances" if criterion == "least_squares" else "own variances"
    assert model.assumption_ == wanted
    assert "as asked for" in model.explanation_
    assert model.variance_excess_ is None


def counts(n, d):
    """Logarithms of counts that have a few causes in common, in fewer rows than columns."""
    rng = np.random.default_rng(0)
    L = rng.normal(size=(n, d))
    for j in range(5, d):
        L[:, j] = 0.8 * L[:, rng.choice(5, 2, replace=False)].sum(axis=1) + L[:, j] / 2
    return np.log1p(rng.poisson(np.exp(3 + 0.7 * L)))


def test_the_reason_that_is_given_is_the_one_that_decided():
    model = AutoDAG().fit(counts(60, 80))
    assert model.assumption_ == "own variances"
    assert model.variance_excess_ < 2  # by itself that would speak for one variance
    assert "make the variances less equal" in model.explanation_
    assert "would be chance" not in model.explanation_


def test_arcs_that_are_counted_are_there_and_directed_by_what_directs_them():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(200, 1))
    X = np.hstack([a, 3 * a + rng.normal(size=(200, 1))])
    told = AutoDAG("bic", knowledge={"regulators": [0]}).fit(X).explanation_
    assert "The one arc is directed by what is known" in told
    assert "more rows" not in told
    told = AutoDAG().fit(a).explanation_
    assert "no two columns that vary" in told
    assert "No arc was found" in told
    assert "may run either way" not in told


@pytest.mark.parametrize(
    ("tiers", "told"),
    [
        ([[0], [1], [2]], "All 2 arcs are directed by what is known: in other units, or if the "
         "noises differ, others may be found, but none turns"),
        ([[0], [1, 2]], "Of 2 arcs 1 is directed by what is known, and 1 by the variances"),
        (None, "All 2 arcs are directed by the variances"),
    ],
)  # fmt: skip
def test_the_explanation_says_which_arcs_knowledge_directs(tiers, told):
    rng = np.random.default_rng(1)
    a = rng.normal(size=500)
    b = 1.5 * a + rng.normal(size=500)
    X = np.column_stack([a, b, 1.5 * b + rng.normal(size=500)])
    known = None if tiers is None else {"temporal_order": tiers}
    model = AutoDAG("least_squares", knowledge=known).fit(X)
    assert told in model.explanation_


def test_the_weights_are_those_of_least_squares_on_the_arcs():
    X = sample(random_dag(20, 2, rng=0), 300, rng=1)
    model = AutoDAG().fit(X)
    Z = X - X.mean(axis=0)
    W = model.weights_.toarray()
    for j in range(20):
        parents = np.flatnonzero(W[:, j])
        expected = np.linalg.lstsq(Z[:, parents], Z[:, j], rcond=None)[0]
        np.testing.assert_allclose(W[parents, j], expected, rtol=1e-6)


def test_a_table_as_it_comes_is_prepared():
    rng = np.random.default_rng(0)
    truth = random_dag(30, 1, rng=0)
    frame = pd.DataFrame(np.exp(standardise(sample(truth, 400, rng=1))), columns=list(truth.names))
    frame = frame.mask(rng.random(frame.shape) < 0.03)
    frame["site"] = np.repeat(["north", "south"], 200)
    with pytest.raises(DataError, match="site"):
        AutoDAG().fit(frame)
    model = AutoDAG(adjust=["site"]).fit(frame)
    assert model.prepared_.transform == "rank"
    assert model.prepared_.missing == "em"  # the pairs hardly fit together
    assert metrics.arc_metrics(model.dag_, truth, directed=False).f1 > 0.8
    assert model.prepared_.data.X is None  # the values are not kept
    for ask in (model.score, model.predict, model.impute):
        with pytest.raises(DataError, match="The model is of normal scores of ranks"):
            ask(frame.drop(columns="site").fillna(1.0))


def test_a_covariance_matrix_is_chosen_for_too():
    X = sample(random_dag(30, 1, rng=0), 400, rng=1)
    S = Dataset.from_covariance(np.cov(X.T, bias=True), 400)
    assert AutoDAG().fit(S).assumption_ == "equal variances"
    assert AutoDAG().fit(S).dag_.n_arcs == AutoDAG().fit(as_dataset(X)).dag_.n_arcs


def test_columns_in_very_large_units_give_no_warnings_of_numpy():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4)) * np.array([1e-60, 1.0, 1e100, 1e144])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model = AutoDAG().fit(X)
    assert model.dag_.n_nodes == 4
    assert np.isfinite(model.dag_.weights.data).all()
