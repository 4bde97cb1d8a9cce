"""Every metric against scikit-learn, SciPy, enumeration, or a literal dense transcription."""

from __future__ import annotations

import sys
import warnings
from dataclasses import asdict
from itertools import product

import gadjid
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import coo_array, csc_array, csr_array
from scipy.stats import multivariate_normal, norm
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.linear_model import LinearRegression
from sklearn.metrics import average_precision_score

from bigdag import metrics, simulate
from bigdag.data.dataset import Dataset, as_dataset
from bigdag.errors import (
    DataError,
    DataWarning,
    GraphError,
    MissingExtraError,
    ParameterError,
)
from bigdag.evaluation import sortability
from bigdag.graph.align import on_columns
from bigdag.graph.dag import DAG

# Few different weights, so that ties, absent arcs and both directions are common.
WEIGHTS = st.sampled_from([0.0, 0.0, 0.0, 0.1, -0.1, 0.3, -0.3, 0.5, 1.0, -2.0])


@st.composite
def estimate_and_truth(draw):
    """A matrix with cycles and ties, and the weights of a DAG in a random order."""
    d = draw(st.integers(1, 7))
    estimate = draw(arrays(np.float64, (d, d), elements=WEIGHTS))
    truth = np.triu(draw(arrays(np.float64, (d, d), elements=WEIGHTS)), 1)
    place = np.array(draw(st.permutations(range(d))))
    return estimate, truth[np.ix_(place, place)]


@st.composite
def small_dags(draw, largest=7):
    d = draw(st.integers(1, largest))
    arcs = np.triu(draw(arrays(np.int8, (d, d), elements=st.integers(0, 1))), 1)
    place = np.array(draw(st.permutations(range(d))))
    return arcs[np.ix_(place, place)]


def off_diagonal(matrix):
    return np.where(np.eye(len(matrix), dtype=bool), 0.0, matrix)


# ----------------------------------------------------------------- average precision


@given(estimate_and_truth())
@settings(max_examples=300, deadline=None)
def test_average_precision_equals_scikit_learn(pair):
    estimate, truth = pair
    scores, labels = np.abs(off_diagonal(estimate)), truth != 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no positive label: 0.0
        directed = average_precision_score(labels.ravel(), scores.ravel())
        undirected = average_precision_score(
            (labels | labels.T).ravel(), np.maximum(scores, scores.T).ravel()
        )
    assert metrics.average_precision(estimate, truth) == pytest.approx(directed, abs=1e-12)
    found = metrics.average_precision(estimate, truth, directed=False)
    assert found == pytest.approx(undirected, abs=1e-12)


def test_average_precision_equals_scikit_learn_on_a_larger_graph():
    rng = np.random.default_rng(0)
    truth = simulate.random_dag(150, 2, rng=rng)
    estimate = truth.weights.toarray() + rng.normal(size=(150, 150)) * (
        rng.random((150, 150)) < 0.1
    )
    estimate[rng.random((150, 150)) < 0.01] = 0
    expected = average_precision_score(
        (truth.weights != 0).toarray().ravel(), np.abs(off_diagonal(estimate)).ravel()
    )
    assert metrics.average_precision(estimate, truth) == pytest.approx(expected, abs=1e-12)


def test_average_precision_of_the_truth_and_of_nothing():
    truth = simulate.random_dag(30, 2, rng=0)
    empty = np.zeros((30, 30))
    assert metrics.average_precision(truth, truth) == 1.0
    assert metrics.average_precision(empty, truth) == pytest.approx(60 / 900, abs=1e-15)
    assert metrics.average_precision(truth, empty) == 0.0
    assert metrics.average_precision(empty, empty) == 0.0


# ------------------------------------------------------------------ counts and rates


def dense_metrics(estimate, truth, threshold, directed):
    """The definitions, pair by pair."""
    d = len(truth)
    found, true = np.abs(off_diagonal(estimate)) > threshold, truth != 0
    pairs = [(i, j) for i in range(d) for j in range(d) if i < j]
    shd = turned = 0
    for i, j in pairs:
        if directed:
            shd += (found[i, j], found[j, i]) != (true[i, j], true[j, i])
            turned += true[i, j] and not found[i, j] and found[j, i]
            turned += true[j, i] and not found[j, i] and found[i, j]
        else:
            shd += (found[i, j] or found[j, i]) != (true[i, j] or true[j, i])
    if directed:
        cells = [(i, j) for i in range(d) for j in range(d) if i != j]
    else:
        cells, found, true = pairs, found | found.T, true | true.T
    tp = sum(found[c] and true[c] for c in cells)
    fp = sum(found[c] and not true[c] for c in cells)
    fn = sum(true[c] and not found[c] for c in cells)
    negatives = sum(not true[c] for c in cells)
    precision = tp / (tp + fp) if tp + fp else 1.0
    recall = tp / (tp + fn) if tp + fn else 1.0
    return {
        "threshold": threshold,
        "tp": tp,
        "fp": fp,
        "fn": fn,
        "reversed": turned,
        "shd": shd,
        "shd_normalised": shd / d,
        "fnr": 1 - recall,
        "fpr": fp / negatives if negatives else 0.0,
        "precision": precision,
        "recall": recall,
        "f1": 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 1.0,
    }


@given(estimate_and_truth(), st.sampled_from([0.0, 0.05, 0.1, 0.3, 0.7, 5.0]), st.booleans())
@settings(max_examples=300, deadline=None)
def test_arc_metrics_equal_the_dense_definitions(pair, threshold, directed):
    found = asdict(metrics.arc_metrics(*pair, threshold, directed))
    assert found == pytest.approx(dense_metrics(*pair, threshold, directed))


@given(estimate_and_truth(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_threshold_curve_equals_single_thresholds(pair, directed):
    grid = [0.3, 0.0, 0.1, 2.0, 0.3, 9.0]
    curve = metrics.threshold_curve(*pair, grid, directed)
    single = [asdict(metrics.arc_metrics(*pair, t, directed)) for t in grid]
    pd.testing.assert_frame_equal(curve, pd.DataFrame(single))


def test_a_reversed_arc_counts_once():
    found = metrics.arc_metrics([[0, 0], [1, 0]], [[0, 1], [0, 0]])
    assert (found.shd, found.reversed, found.fp, found.fn) == (1, 1, 1, 1)
    assert metrics.arc_metrics([[0, 0], [1, 0]], [[0, 1], [0, 0]], directed=False).shd == 0


def test_empty_graphs_have_defined_values():
    empty, one = np.zeros((2, 2)), [[0, 1], [0, 0]]
    found = metrics.arc_metrics(empty, empty)
    assert (found.fnr, found.fpr, found.precision, found.recall, found.f1) == (0, 0, 1, 1, 1)
    found = metrics.arc_metrics(one, empty)
    assert (found.fnr, found.fpr, found.precision, found.recall, found.f1) == (0, 0.5, 0, 1, 0)
    found = metrics.arc_metrics(empty, one)
    assert (found.fnr, found.fpr, found.precision, found.recall, found.f1) == (1, 0, 1, 0, 0)


@pytest.mark.parametrize(
    "form", [np.asarray, csc_array, csr_array, coo_array, DAG, np.ndarray.tolist]
)
def test_every_form_of_a_graph_gives_the_same(form):
    truth = simulate.random_dag(15, 2, rng=0).weights.toarray()
    estimate = simulate.random_dag(15, 2, rng=1).weights.toarray()
    expected = metrics.evaluate(estimate, truth)
    found = metrics.evaluate(form(estimate), form(truth))
    assert {name: found[name] for name in expected} == expected


def test_stored_zeros_and_doubles_are_no_arcs():
    estimate = coo_array(([0.0, 2.0, -2.0, 0.2, 0.2], ([0, 0, 0, 1, 1], [1, 2, 2, 2, 2])), (3, 3))
    found = metrics.arc_metrics(estimate, np.zeros((3, 3)), threshold=0.3)
    assert found.fp == 1


# ------------------------------------------------------------------------ likelihood


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    dag = simulate.random_dag(8, 1.5, rng=rng)
    scales = simulate.noise_scales(8, "NV", rng)
    train, validation = (simulate.sample(dag, 60, "exponential", scales, rng) for _ in range(2))
    return dag, train, validation


@pytest.mark.parametrize("variance", ["EV", "NV"])
def test_nll_equals_scipy(tables, variance):
    dag, train, validation = tables
    W = simulate.random_dag(8, 1, rng=9).weights.toarray() / 3
    R, mean = (train - train.mean(axis=0)) @ (np.eye(8) - W), train.mean(axis=0)
    noise = (R**2).mean(axis=0) if variance == "NV" else np.full(8, (R**2).mean())
    mixing = np.linalg.inv(np.eye(8) - W)
    joint = multivariate_normal(mean, mixing.T @ np.diag(noise) @ mixing)
    residuals = (validation - mean) @ (np.eye(8) - W)
    found = metrics.gaussian_nll(W, train, validation, variance)
    assert found == pytest.approx(-joint.logpdf(validation).mean(), rel=1e-10)
    by_column = norm(0, np.sqrt(noise)).logpdf(residuals)
    assert found == pytest.approx(-by_column.sum(axis=1).mean(), rel=1e-12)
    assert metrics.gaussian_nll(dag, train, validation, variance) < found


def test_nll_in_blocks_is_the_same(tables, monkeypatch):
    whole = metrics.gaussian_nll(*tables)
    monkeypatch.setattr("bigdag.evaluation.metrics._BLOCK", 130)
    assert metrics.gaussian_nll(*tables) == pytest.approx(whole, rel=1e-14)


def test_nll_matches_columns_by_name(tables):
    dag, train, validation = tables
    names = list("abcdefgh")
    expected = metrics.gaussian_nll(dag, train, validation, "NV")
    named = DAG(dag.weights, names=names)
    first, second = (pd.DataFrame(X, columns=names) for X in (train, validation))
    mixed = metrics.gaussian_nll(named, first[names[::-1]], second[names[3:] + names[:3]], "NV")
    assert mixed == pytest.approx(expected, rel=1e-12)
    for table in (second, second[names[::-1]]):
        found = metrics.gaussian_nll(named, train, table, "NV")
        assert found == pytest.approx(expected, rel=1e-12)
    with pytest.raises(GraphError, match="'z'"):
        metrics.gaussian_nll(named, first.rename(columns={"h": "z"}), second)
    with pytest.raises(GraphError, match="validation data must have 8 variables"):
        metrics.gaussian_nll(dag, train, validation[:, :5])


def test_nll_without_residual_is_nan_and_says_so(tables):
    dag, train, validation = tables
    train = train.copy()
    child = int(dag.weights.tocoo().col[0])
    train[:, child] = train @ dag.weights.toarray()[:, child]
    with pytest.warns(DataWarning, match=f"no residual for variable 'x{child}'"):
        assert np.isnan(metrics.gaussian_nll(dag, train, validation, "NV"))
    assert np.isfinite(metrics.gaussian_nll(dag, train, validation, "EV"))


# ------------------------------------------------------------------- orders and CPDAGs


@given(estimate_and_truth(), st.randoms())
@settings(max_examples=60, deadline=None)
def test_order_errors(pair, random):
    _, truth = pair
    order = list(range(len(truth)))
    random.shuffle(order)
    wrong = [order.index(i) > order.index(j) for i, j in np.argwhere(truth)]
    assert metrics.order_errors(order, truth) == pytest.approx(np.mean(wrong) if wrong else 0.0)
    assert metrics.order_errors(DAG(truth).order, truth) == 0.0


@pytest.mark.parametrize(
    "order", [[0, 1], [0, 1, 1], [0, 1, 3], [0.5, 1, 2], [[0, 1, 2]], ["a"] * 3]
)
def test_order_that_is_none(order):
    with pytest.raises(ParameterError, match="each of the indices 0 to 2 once"):
        metrics.order_errors(order, np.zeros((3, 3)))


def acyclic(arcs):
    power = arcs.astype(int)
    for _ in range(len(arcs)):
        if np.trace(power):
            return False
        power = np.minimum(power @ arcs, 1)
    return True


def colliders(arcs):
    """The unshielded i → k ← j (Verma and Pearl: with the skeleton, they are the class)."""
    joined = arcs | arcs.T
    d = len(arcs)
    return {
        (i, j, k)
        for i, j, k in product(range(d), repeat=3)
        if i < j and arcs[i, k] and arcs[j, k] and not joined[i, j]
    }


def cpdag_by_enumeration(arcs):
    """The union of all acyclic orientations with the same skeleton and the same colliders."""
    pairs, union, wanted = np.argwhere(arcs), np.zeros_like(arcs), colliders(arcs)
    for flips in product([False, True], repeat=len(pairs)):
        other = np.zeros_like(arcs)
        for (i, j), flip in zip(pairs, flips):
            other[(j, i) if flip else (i, j)] = 1
        if acyclic(other) and colliders(other) == wanted:
            union |= other
    return union


@given(small_dags(largest=5))
@settings(max_examples=80, deadline=None)
def test_cpdag_equals_enumeration(arcs):
    assume(arcs.sum() <= 8)
    np.testing.assert_array_equal(metrics.cpdag(arcs).toarray(), cpdag_by_enumeration(arcs))


def cpdag_by_rules(arcs):
    """Colliders, then Meek's rules 1 to 3 until nothing changes."""
    d = len(arcs)
    graph = arcs | arcs.T
    for i, j, k in colliders(arcs):
        graph[k, i] = graph[k, j] = 0
    joined, before = arcs | arcs.T, None
    while before is None or (before != graph).any():
        before = graph.copy()
        into = (graph == 1) & (graph.T == 0)
        for a, b in np.argwhere((graph == 1) & (graph.T == 1)):
            rule1 = any(into[c, a] and not joined[c, b] for c in range(d))
            rule2 = any(into[a, c] and into[c, b] for c in range(d))
            loose = [c for c in range(d) if graph[a, c] and graph[c, a] and into[c, b]]
            rule3 = any(not joined[c, e] for c in loose for e in loose if c != e)
            if graph[a, b] and graph[b, a] and (rule1 or rule2 or rule3):
                graph[b, a] = 0
                into[a, b] = True
    return graph


@pytest.mark.parametrize(
    ("d", "k", "graph"), [(30, 1, "ER"), (30, 3, "ER"), (25, 6, "ER"), (40, 2, "SF")]
)
@pytest.mark.parametrize("seed", range(3))
def test_cpdag_equals_meek_rules(d, k, graph, seed):
    dag = simulate.random_dag(d, k, graph, rng=seed)
    expected = cpdag_by_rules((dag.weights.toarray() != 0).astype(np.int8))
    np.testing.assert_array_equal(metrics.cpdag(dag).toarray(), expected)


@given(small_dags(), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_shd_cpdag_counts_pairs(arcs, seed):
    d = len(arcs)
    other = np.random.default_rng(seed).permutation(d)
    other = arcs[np.ix_(other, other)]
    a, b = (metrics.cpdag(graph).toarray() for graph in (arcs, other))
    expected = sum((a[i, j], a[j, i]) != (b[i, j], b[j, i]) for i in range(d) for j in range(i))
    assert metrics.shd_cpdag(arcs, other) == metrics.shd_cpdag(other, arcs) == expected
    assert metrics.shd_cpdag(arcs, arcs) == 0


def test_shd_cpdag_equals_gadjid():
    graphs = [simulate.random_dag(40, 2, rng=seed) for seed in range(2)]
    coded = []
    for graph in graphs:
        both = metrics.cpdag(graph).toarray()
        coded.append(np.where(both & both.T, 2, both).astype(np.int8))
        coded[-1][np.tril(both & both.T, -1) == 1] = 0  # an undirected edge is written once
    assert metrics.shd_cpdag(*graphs) == gadjid.shd(*coded)[1]


# ------------------------------------------------------------------------ sortability


def published_alignment(truth, scores, tolerance):
    """Reisach et al. (2021), section 3: powers of the adjacency matrix, dense."""
    E = truth != 0
    paths, total, right = E.copy(), 0, 0.0
    for _ in range(len(E) - 1):
        for i, j in np.argwhere(paths):
            total += 1
            right += 1.0 if scores[j] > scores[i] + tolerance else 0.0
            right += 0.5 if abs(scores[j] - scores[i]) <= tolerance else 0.0
        paths = paths @ E
    return right / total


@pytest.mark.parametrize("d", [5, 63, 64, 65, 150])
@pytest.mark.parametrize("seed", range(3))
def test_var_sortability_equals_the_published_definition(d, seed):
    rng = np.random.default_rng(seed)
    dag = simulate.random_dag(d, 1.5, rng=rng)
    X = np.round(simulate.standardise(simulate.sample(dag, 30, rng=rng)) * rng.integers(1, 9, d))
    X[:, d // 2] = X[::-1, 0]  # equal variances, in another sequence of rows
    expected = published_alignment(dag.weights.toarray(), X.var(axis=0), 1e-12)
    assert metrics.var_sortability(X, dag) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_r2_sortability_equals_regressions(seed):
    rng = np.random.default_rng(seed)
    dag = simulate.random_dag(25, 2, rng=rng)
    X = simulate.sample(dag, 200, variance="NV", rng=rng)
    r2 = np.empty(25)
    for j in range(25):
        others = np.delete(X, j, axis=1)
        r2[j] = LinearRegression().fit(others, X[:, j]).score(others, X[:, j])
    np.testing.assert_allclose(sortability.r_squared(X), r2, atol=1e-8)
    expected = published_alignment(dag.weights.toarray(), r2, 1e-9)
    assert metrics.r2_sortability(X, dag) == pytest.approx(expected, rel=1e-9)
    assert metrics.r2_sortability(X * rng.uniform(0.1, 9, 25), dag) == pytest.approx(expected)


def test_r_squared_with_fewer_samples_is_that_of_the_shrunk_correlations():
    X = simulate.sample(simulate.random_dag(60, 2, rng=0), 25, rng=1)
    Z = simulate.standardise(X)
    shrinkage = ledoit_wolf_shrinkage(Z, assume_centered=True)
    inverse = np.linalg.inv((1 - shrinkage) * Z.T @ Z / 25 + shrinkage * np.eye(60))
    np.testing.assert_allclose(sortability.r_squared(X), 1 - 1 / np.diag(inverse), atol=1e-10)


@pytest.mark.filterwarnings("ignore::bigdag.errors.DataWarning")
@pytest.mark.parametrize("n", [4, 50])
def test_r_squared_of_constant_and_copied_columns(n):
    X = np.random.default_rng(0).normal(size=(n, 6))
    X[:, 1] = 3.0
    X[:, 2] = -2 * X[:, 0]
    r2 = sortability.r_squared(X)
    assert np.isfinite(r2).all()
    assert r2[1] == 0
    assert ((r2 >= 0) & (r2 <= 1)).all()
    if n == 50:
        np.testing.assert_allclose(r2[[0, 2]], 1, atol=1e-6)


@pytest.mark.filterwarnings("ignore::bigdag.errors.DataWarning")
def test_sortability_of_equal_scores_is_one_half():
    dag = simulate.random_dag(40, 2, rng=0)
    X = simulate.sample(dag, 500, rng=0)
    assert metrics.var_sortability(X, dag) > 0.8
    assert metrics.var_sortability(simulate.standardise(X), dag) == 0.5
    constant = X.copy()
    constant[:] = 1.0
    assert metrics.var_sortability(constant, dag) == 0.5
    assert metrics.r2_sortability(constant, dag) == 0.5
    assert np.isnan(metrics.var_sortability(X, np.zeros((40, 40))))


def test_internal_standardisation_hides_the_order():
    rng = np.random.default_rng(0)
    dag = simulate.random_dag(100, 4, rng=rng)
    inner, scales = simulate.internally_standardised(dag, rng=rng, n=5000)
    raw, X = (
        simulate.sample(dag, 1000, rng=rng),
        simulate.sample(inner, 1000, variance=scales, rng=rng),
    )
    assert metrics.var_sortability(raw, dag) > 0.9
    assert abs(metrics.var_sortability(X, dag) - 0.5) < 0.15
    assert abs(metrics.r2_sortability(X, dag) - 0.5) < metrics.r2_sortability(raw, dag) - 0.5


# ------------------------------------------------------------------- names and errors


def shuffled_names(dag, rng):
    """The same graph, its variables in another sequence."""
    place = rng.permutation(dag.n_nodes)
    weights = dag.weights.toarray()[np.ix_(place, place)]
    return DAG(weights, names=[dag.names[i] for i in place])


def test_dags_with_names_are_matched_by_name():
    rng = np.random.default_rng(0)
    names = [f"gene {i}" for i in range(12)]
    truth = DAG(simulate.random_dag(12, 2, rng=1).weights, names=names)
    estimate = DAG(simulate.random_dag(12, 2, rng=2).weights, names=names)
    X = pd.DataFrame(simulate.sample(truth, 40, rng=rng), columns=names)
    expected = metrics.evaluate(estimate, truth, train=X, validation=X)
    other = shuffled_names(estimate, rng)
    found = metrics.evaluate(other, truth, train=X[names[::-1]], validation=X)
    expected.pop("order_errors"), found.pop("order_errors")  # several orders fit one DAG
    assert found == pytest.approx(expected, rel=1e-10)
    assert metrics.evaluate(shuffled_names(truth, rng), truth)["order_errors"] == 0
    for metric in (metrics.average_precision, metrics.shd_cpdag, metrics.parent_aid):
        assert metric(other, truth) == metric(estimate, truth)
        assert metric(other.weights, truth) == metric(DAG(other.weights), truth)  # by place
        with pytest.raises(GraphError, match="has no 'gene 3'"):
            metric(DAG(other.weights, names=[n.replace(" 3", " x") for n in other.names]), truth)
    assert metrics.var_sortability(X, truth) == metrics.var_sortability(X[names[::-1]], truth)


TWO_ARGUMENTS = [
    metrics.arc_metrics,
    metrics.average_precision,
    metrics.shd_cpdag,
    metrics.parent_aid,
    metrics.evaluate,
    lambda estimate, truth: metrics.threshold_curve(estimate, truth, [0.1]),
]


@pytest.mark.parametrize("metric", TWO_ARGUMENTS)
def test_bad_truth_or_estimate(metric):
    good = np.triu(np.ones((3, 3)), 1)
    cycle = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    with pytest.raises(GraphError):
        metric(good, cycle)
    with pytest.raises(GraphError):
        metric(good, np.eye(3))
    with pytest.raises(GraphError, match=r"must have 3 variables\. Got 2"):
        metric(np.zeros((2, 2)), good)
    with pytest.raises(GraphError, match=r"must have 3 variables\. Got 2"):
        metric(DAG(np.zeros((2, 2))), DAG(good))
    for bad in (good * np.nan, np.where(good, np.inf, 0), good[:2], good[0], good * 1j, [["a"]]):
        with pytest.raises(GraphError):
            metric(bad, good)


@pytest.mark.parametrize(
    "metric", [metrics.cpdag, lambda g: metrics.shd_cpdag(g, np.zeros((2, 2)))]
)
def test_cycles_are_refused_where_a_dag_is_needed(metric):
    with pytest.raises(GraphError):
        metric(np.array([[0, 1], [1, 0]]))


@pytest.mark.parametrize("threshold", [-0.1, np.nan, np.inf])
def test_threshold_below_zero(threshold):
    good = np.triu(np.ones((3, 3)), 1)
    for call in (
        lambda: metrics.arc_metrics(good, good, threshold),
        lambda: metrics.threshold_curve(good, good, [0.1, threshold]),
        lambda: metrics.evaluate(good, good, threshold=threshold),
    ):
        with pytest.raises(ParameterError, match="at least 0"):
            call()


def test_bad_data():
    dag = DAG([[0, 1.0], [0, 0]])
    X = np.random.default_rng(0).normal(size=(9, 2))
    with pytest.raises(ParameterError, match="'EV' or 'NV'"):
        metrics.gaussian_nll(dag, X, X, "ev")
    with pytest.raises(GraphError):
        metrics.gaussian_nll([[0, 1], [1, 0]], X, X)
    with pytest.raises(DataError):
        metrics.gaussian_nll(dag, X * np.nan, X)
    with pytest.raises(GraphError, match="must have 3 variables"):
        metrics.var_sortability(np.c_[X, X[:, 0]], dag)
    with pytest.raises(DataError, match="needs samples"):
        metrics.var_sortability(Dataset.from_covariance(np.eye(2), 9), dag)


# ------------------------------------------------------------------- parent AID, all, size


def test_parent_aid_equals_gadjid_on_dense_matrices():
    a, b = (simulate.random_dag(20, 2, rng=seed) for seed in range(2))
    dense = [(dag.weights.toarray() != 0).astype(np.int8) for dag in (b, a)]
    expected = gadjid.parent_aid(*dense, edge_direction="from row to column")[0]
    assert metrics.parent_aid(a, b) == expected
    assert expected > 0
    assert metrics.parent_aid(np.zeros((1, 1)), np.zeros((1, 1))) == 0


def test_without_gadjid(monkeypatch):
    monkeypatch.setitem(sys.modules, "gadjid", None)
    with pytest.raises(MissingExtraError, match="pip install 'gadjid"):
        metrics.parent_aid(np.zeros((2, 2)), np.zeros((2, 2)))


def test_evaluate_is_the_single_metrics(tables):
    truth, train, validation = tables
    estimate = DAG(truth.weights * np.linspace(0.1, 1, 8)[:, None])
    found = metrics.evaluate(estimate, truth, train=train, validation=validation, threshold=0.4)
    kept = estimate.threshold(0.4)
    assert kept.n_arcs < estimate.n_arcs
    assert found["average_precision"] == metrics.average_precision(estimate, truth)
    assert found["shd"] == metrics.arc_metrics(estimate, truth, 0.4).shd
    assert found["undirected_f1"] == metrics.arc_metrics(kept, truth, directed=False).f1
    assert found["nll_nv"] == metrics.gaussian_nll(kept, train, validation, "NV")
    assert found["shd_cpdag"] == metrics.shd_cpdag(kept, truth)
    assert found["parent_aid"] == metrics.parent_aid(kept, truth)
    assert found["order_errors"] == 0
    assert all(type(value) in (int, float) for value in found.values())
    alone = metrics.evaluate(estimate, truth, validation=validation)
    assert alone["nll_ev"] == metrics.gaussian_nll(estimate.threshold(0.3), validation, validation)


def test_evaluate_with_cycles_leaves_out_what_needs_a_dag():
    truth = np.triu(np.ones((3, 3)), 1)
    weights = truth + 0.5 * truth.T
    cyclic, cut = (metrics.evaluate(weights, truth, threshold=t) for t in (0.4, 0.6))
    assert cyclic["shd"] == 3
    assert "shd_cpdag" not in cyclic
    assert cut["shd"] == cut["shd_cpdag"] == 0


def test_a_million_arcs():
    rng = np.random.default_rng(0)
    d, m = 20_000, 1_000_000
    truth = simulate.random_dag(d, 4, rng=rng)
    noise = csc_array((rng.normal(size=m), rng.integers(d, size=(2, m))), shape=(d, d))
    estimate = noise + truth.weights
    curve = metrics.threshold_curve(estimate, truth, np.linspace(0, 2, 50))
    assert 0.05 < metrics.average_precision(estimate, truth) < 1
    assert metrics.cpdag(truth).nnz >= truth.n_arcs
    assert curve["tp"].is_monotonic_decreasing


@pytest.mark.parametrize("label", ["x{}", "{}", "gene {}"])
def test_the_sequence_of_the_variables_changes_no_score_whatever_their_names(label):
    # x0, x1, ... are names as any other: they were once matched by place.
    rng = np.random.default_rng(3)
    names = [label.format(i) for i in range(12)]
    truth = DAG(simulate.random_dag(12, 2, rng=1).weights, names=names)
    estimate = DAG(simulate.random_dag(12, 2, rng=2).weights, names=names)
    X = pd.DataFrame(simulate.sample(truth, 40, rng=rng), columns=names)
    expected = metrics.evaluate(estimate, truth, train=X, validation=X)
    for _ in range(3):
        mixed = X[[names[i] for i in rng.permutation(12)]]
        found = metrics.evaluate(
            shuffled_names(estimate, rng), shuffled_names(truth, rng), train=mixed, validation=X
        )
        for name in expected.keys() - {"order_errors"}:  # several orders fit one DAG
            assert found[name] == pytest.approx(expected[name], rel=1e-10), name
        assert metrics.var_sortability(mixed, truth) == metrics.var_sortability(X, truth)
        assert metrics.evaluate(truth, shuffled_names(truth, rng))["order_errors"] == 0


def test_a_matrix_is_matched_by_place_in_every_score():
    weights = simulate.random_dag(8, 1, rng=1).weights
    names = [f"x{i}" for i in (3, 1, 0, 2, 7, 6, 5, 4)]
    for estimate, truth in ((weights, DAG(weights, names)), (DAG(weights, names), weights)):
        scores = metrics.evaluate(estimate, truth)
        assert scores["f1"] == 1
        assert scores["shd_cpdag"] == scores.get("parent_aid", 0) == 0


def test_reversible_arcs_survive_the_matching():
    flags = [[0, 1], [0, 0]]
    dag = DAG([[0, 2.0], [0, 0]], ["a", "b"], reversible=flags)
    turned = on_columns(dag, as_dataset([[1.0, 2.0], [3.0, 5.0]], names=["b", "a"]))
    assert turned.names == ("b", "a")
    assert turned.reversible.toarray().tolist() == [[False, False], [True, False]]


def test_average_precision_ranks_a_dag_by_what_is_known_of_its_arcs():
    truth = DAG([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    found = DAG([[0, 1.0, 9.0], [0, 0, 2.0], [0, 0, 0]])
    assert metrics.average_precision(found, truth) < 1
    sure = found.annotated(arc_data={"probability": [0.9, 0.1, 0.8]})
    assert metrics.average_precision(sure, truth) == 1
    assert metrics.average_precision(sure, truth, by="weight") < 1
    assert metrics.average_precision(sure, truth, by="probability", directed=False) == 1


def test_calibration_counts_what_is_true():
    truth = DAG([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    P = np.array([[0, 0.3, 0.3], [0.25, 0, 0.55], [0, 0.0, 0]])
    directed = metrics.calibration(P, truth, bins=5)
    assert directed["count"].tolist() == [3, 1]
    assert directed["true"].tolist() == pytest.approx([1 / 3, 1])
    pairs = metrics.calibration(P, truth, directed=False)
    assert pairs["low"].tolist() == pytest.approx([0.3, 0.5])
    assert pairs["probability"].tolist() == pytest.approx([0.3, 0.55])
    assert pairs["true"].tolist() == [0, 1]
    dag = DAG(truth.weights, arc_data={"probability": [0.5, 0.9], "adjacency": [1.0, 0.9]})
    assert metrics.calibration(dag, truth, directed=False)["count"].tolist() == [2]
    with pytest.raises(ParameterError, match="arcs have a probability"):
        metrics.calibration(truth, truth)
    with pytest.raises(ParameterError, match="from 0 to 1"):
        metrics.calibration(3 * P, truth)
    with pytest.raises(ParameterError, match="bins must be"):
        metrics.calibration(P, truth, bins=0)
