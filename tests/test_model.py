"""The linear model on a DAG, against dense algebra, paths and enumeration at small sizes."""

from __future__ import annotations

import itertools
import pickle
import re
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigdag import DAG, LinearModel, OrderSearch, SortRegress, simulate
from bigdag.data.dataset import Dataset, as_dataset
from bigdag.errors import BigdagError, DataError, GraphError, MissingExtraError
from bigdag.graph.equivalence import cpdag, reversible
from bigdag.model.effects import parent_sets
from bigdag.model.linear import least_squares, residual_variances

QUICK = settings(max_examples=40, deadline=None)


def random_model(d, share, rng, open_arcs=True):
    """Any model: a random order, weights, means and noise; its open arcs are those of its CPDAG."""
    order = rng.permutation(d)
    W = np.zeros((d, d))
    for a, b in itertools.combinations(range(d), 2):
        if rng.random() < share:
            W[order[a], order[b]] = rng.choice([-1, 1]) * rng.uniform(0.3, 2)
    dag = DAG(W, [f"v{j}" for j in range(d)], order)
    if open_arcs:
        dag = dag.annotated(reversible=reversible(dag.weights, dag.order))
    return LinearModel(dag, rng.normal(size=d), rng.uniform(0.2, 3, size=d))


@st.composite
def models(draw, max_d=6):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return random_model(draw(st.integers(1, max_d)), draw(st.floats(0.1, 1)), rng)


def covariance(model):
    """Return the covariance that the model implies, (d, d), by dense algebra."""
    inverse = np.linalg.inv(np.eye(model.dag.n_nodes) - model.dag.weights.toarray())
    return inverse.T @ np.diag(model.noise_variances) @ inverse


# ------------------------------------------------------------------ effects


@given(models())
@QUICK
def test_total_effects_are_the_inverse_and_the_sum_over_paths(model):
    W = model.dag.weights.toarray()
    d = len(W)
    inverse = np.linalg.inv(np.eye(d) - W)
    for i, j in itertools.product(range(d), repeat=2):
        paths = 0.0
        for size in range(d):
            for inner in itertools.permutations(set(range(d)) - {i, j}, size) if i != j else ():
                walk = (i, *inner, j)
                paths += np.prod([W[a, b] for a, b in itertools.pairwise(walk)])
        expected = 1.0 if i == j else paths
        assert model.total_effect(i, j) == pytest.approx(expected, abs=1e-9)
        assert model.total_effect(i, j) == pytest.approx(inverse[i, j], abs=1e-9)


def members(dag):
    """Yield the parents of every node in each DAG of the equivalence class, by trying all."""
    marks = cpdag(dag.weights, dag.order).toarray()
    pairs = [tuple(p) for p in np.argwhere(np.triu(marks & marks.T))]
    for turn in itertools.product([False, True], repeat=len(pairs)):
        A = marks.copy()
        for (i, j), back in zip(pairs, turn):
            A[(i, j) if back else (j, i)] = 0
        try:
            one = DAG(A)
        except GraphError:
            continue
        if (cpdag(one.weights, one.order).toarray() == marks).all():
            yield one


@given(models(max_d=5))
@QUICK
def test_possible_effects_are_those_of_all_equivalent_dags(model):
    dag, S = model.dag, covariance(model)
    d = dag.n_nodes
    others = list(members(dag))
    assert any((m.weights.toarray() != 0).astype(int).tolist()
               == (dag.weights.toarray() != 0).astype(int).tolist() for m in others)  # fmt: skip
    refitted = []
    for other in others:
        W = np.zeros((d, d))  # the member's weights for the same covariance
        for j in range(d):
            pa = other._parents(j)
            if len(pa):
                W[pa, j] = np.linalg.solve(S[np.ix_(pa, pa)], S[pa, j])
        refitted.append(np.linalg.inv(np.eye(d) - W))
    for i in range(d):
        sets = {tuple(sorted(m._parents(i).tolist())) for m in others}
        assert sets == {tuple(s.tolist()) for s in parent_sets(dag, i)}
        assert len(parent_sets(dag, i)) == len(sets)
        table = model.effects(i)
        for j in set(range(d)) - {i}:
            expected = np.unique([r[i, j].round(8) for r in refitted])
            found = model.possible_effects(i, dag.names[j])
            np.testing.assert_allclose(np.unique(found.round(8)), expected, atol=1e-6)
            assert np.abs(found - model.total_effect(i, j)).min() == 0
            row = table[table["effect"] == dag.names[j]]
            assert len(row) or not found.any()
            if len(row) and "lowest" in table:
                assert row["lowest"].item() == found.min()
                assert row["highest"].item() == found.max()
                assert row["n_possible"].item() == len(sets)


def test_effects_are_sorted_and_only_of_the_descendants():
    dag = DAG([[0, 2.0, 0, 0], [0, 0, -3.0, 0], [0, 0, 0, 0], [0, 1.0, 0, 0]], list("abcd"))
    table = LinearModel(dag).effects("a")
    assert table.to_dict("list") == {"effect": ["c", "b"], "total_effect": [-6.0, 2.0]}
    assert LinearModel(dag).effects("c").empty
    assert LinearModel(dag).possible_effects("d", "c").tolist() == [-3.0]


def test_what_cannot_be_reached_has_no_effect_at_all():
    # Rounding would leave some 1e-17 of a regression on the cause and its direct causes.
    rng = np.random.default_rng(0)
    model = random_model(30, 0.08, rng)
    for cause in range(30):
        for effect in model.dag._parents(cause):
            if not model.dag.reversible[effect, cause]:
                assert model.possible_effects(cause, int(effect)).tolist() == [0.0] * len(
                    parent_sets(model.dag, cause)
                )


def test_too_many_sets_of_causes_are_refused():
    d = 14
    W = np.triu(np.ones((d, d)), 1)
    dag = DAG(W, reversible=W != 0)
    with pytest.raises(GraphError, match=r"'x0' has 13 undirected neighbours.*more than 4,096"):
        LinearModel(dag, noise_variances=np.ones(d)).effects(0)


def test_open_arcs_of_no_cpdag_keep_the_effect_of_the_dag_itself():
    collider = DAG(
        [[0, 0, 1.0], [0, 0, 1.0], [0, 0, 0]], reversible=[[0, 0, 1], [0, 0, 1], [0] * 3]
    )
    model = LinearModel(collider, noise_variances=np.ones(3))
    assert [s.tolist() for s in parent_sets(collider, 2)] == [[0, 1], [], [0], [1]]
    assert model.possible_effects(2, 0).max() > 0
    assert model.possible_effects(2, 0).min() == model.total_effect(2, 0) == 0


# ------------------------------------------------------------------ samples


@given(models(), st.integers(0, 2**32 - 1))
@QUICK
def test_predictions_are_dense_algebra(model, seed):
    X = np.random.default_rng(seed).normal(size=(7, model.dag.n_nodes))
    W = model.dag.weights.toarray()
    expected = model.means + (X - model.means) @ W
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-12)
    frame = pd.DataFrame(X, columns=model.dag.names, index=list("abcdefg"))
    turned = frame[frame.columns[::-1]]
    found = model.predict(turned)
    assert found.columns.equals(turned.columns)
    assert found.index.equals(turned.index)
    np.testing.assert_allclose(found[list(model.dag.names)], expected, atol=1e-12)


@given(models(max_d=7), st.integers(0, 2**32 - 1))
@QUICK
def test_missing_values_are_the_dense_conditional_means(model, seed):
    rng = np.random.default_rng(seed)
    d, S = model.dag.n_nodes, covariance(model)
    X = rng.normal(size=(12, d)) * 3
    X[rng.random(X.shape) < rng.random()] = np.nan
    before = X.copy()
    found = model.impute(X)
    np.testing.assert_array_equal(X, before)
    for row, full in zip(X, found):
        M = np.isnan(row)
        np.testing.assert_array_equal(full[~M], row[~M])
        known = np.linalg.solve(S[np.ix_(~M, ~M)], (row - model.means)[~M])
        expected = model.means[M] + S[np.ix_(M, ~M)] @ known
        np.testing.assert_allclose(full[M], expected, atol=1e-7)


def test_known_values_stay_to_the_bit_beside_large_means():
    model = LinearModel(DAG([[0, 2.0], [0, 0]]), [1e6, 0.0], [1.0, 1.0])
    assert model.impute([[0.1, np.nan]])[0, 0] == 0.1


def test_samples_have_the_moments_of_the_model():
    model = random_model(6, 0.6, np.random.default_rng(1))
    X = model.sample(200_000, rng=0)
    assert list(X.columns) == list(model.dag.names)
    S = covariance(model)
    sd = np.sqrt(np.diag(S))
    assert np.abs((X.mean() - model.means) / sd).max() < 0.01
    assert np.abs((np.cov(X.T) - S) / np.outer(sd, sd)).max() < 0.02
    assert model.sample(5, rng=3).equals(model.sample(5, rng=3))
    assert isinstance(LinearModel(DAG([[0.0]]), noise_variances=[1]).sample(2, rng=0), np.ndarray)


def test_the_score_is_that_of_the_density():
    from scipy.stats import multivariate_normal

    model = random_model(5, 0.5, np.random.default_rng(2))
    X = model.sample(50, rng=0)
    expected = multivariate_normal(model.means, covariance(model)).logpdf(X).mean()
    assert model.score(X) == pytest.approx(expected)
    assert model.score(as_dataset(X)) == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["Float64", "float32", object])
def test_missing_values_of_any_kind_are_filled_in(kind):
    frame = pd.DataFrame({"a": [2.0, None], "b": [None, 6.0]}, dtype=kind)
    model = LinearModel(DAG([[0, 2.0], [0, 0]], ["a", "b"]), [0, 0], [1.0, 1e-9])
    np.testing.assert_allclose(model.impute(frame), [[2, 4], [3, 6]], atol=1e-6)


def test_constant_columns_are_filled_in_with_their_value():
    model = LinearModel(DAG(np.zeros((2, 2))), [7.0, 1.0], [0.0, 2.0])
    assert model.impute([[np.nan, np.nan], [7.0, 3.0]]).tolist() == [[7, 1], [7, 3]]
    tied = LinearModel(DAG([[0, 1.0], [0, 0]]), [0, 0], [1.0, 0.0])
    with pytest.raises(GraphError, match="'x1' has causes and no noise"):
        tied.impute([[np.nan, 1.0]])


def test_a_model_of_any_dag_is_fitted_by_least_squares():
    truth = random_model(6, 0.6, np.random.default_rng(3))
    X = truth.sample(500, rng=0)
    other = truth.dag.subgraph(truth.dag.names[::-1])
    model = LinearModel.from_data(other, X)
    assert model.dag.names == truth.dag.names
    for j, name in enumerate(model.dag.names):
        parents = model.dag.parents(name)
        A = np.column_stack([X[parents], np.ones(len(X))])
        found, *_ = np.linalg.lstsq(A, X[name], rcond=None)
        np.testing.assert_allclose(model.dag.weights[:, [j]].data, found[:-1], rtol=1e-8)
        assert model.noise_variances[j] == pytest.approx(np.mean((X[name] - A @ found) ** 2))
    kept = LinearModel.from_data(other, X, refit=False)
    assert kept.dag.weights.toarray().tolist() == truth.dag.weights.toarray().tolist()
    S = np.cov(X.T, bias=True)
    of_moments = residual_variances(Dataset.from_covariance(S, 500), kept.dag.weights)
    np.testing.assert_allclose(kept.noise_variances, of_moments)
    flat = X.assign(v0=1.0)
    with pytest.warns(UserWarning, match="constant"):
        assert LinearModel.from_data(truth.dag, flat).dag.n_arcs == truth.dag.n_arcs


def test_a_model_does_not_depend_on_the_units_of_the_parents():
    truth = DAG([[0, 0, 1.0], [0, 0, 1.0], [0, 0, 0]])
    X = LinearModel(truth, noise_variances=[1.0, 1.0, 0.01]).sample(500, rng=0)
    units = np.array([1e8, 1e-8, 1.0])
    found = LinearModel.from_data(truth, X * units).dag.weights.toarray()
    wanted = LinearModel.from_data(truth, X).dag.weights.toarray()
    np.testing.assert_allclose(found[:2, 2] * units[:2], wanted[:2, 2], rtol=1e-9)
    assert least_squares(X * units, np.ones(500)).shape == (3,)
    assert least_squares(np.zeros((4, 2)), np.ones(4)).tolist() == [0, 0]


# ------------------------------------------------------------------ learners and files


@pytest.fixture(scope="module")
def learnt():
    truth = simulate.random_dag(12, 1, rng=0)
    X = pd.DataFrame(simulate.sample(truth, 300, rng=1) + 5).add_prefix("g")
    return OrderSearch(criterion="bic").fit(X), X


def test_a_fitted_learner_is_a_model(learnt):
    learner, X = learnt
    model = learner.model_
    np.testing.assert_allclose(learner.means_, X.mean())
    assert learner.score(X) == pytest.approx(model.score(X))
    expected = model.predict(X)
    pd.testing.assert_frame_equal(learner.predict(X), expected)
    assert ((X - expected) ** 2).mean().to_numpy() == pytest.approx(learner.noise_variances_)
    holed = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
    filled = learner.impute(holed)
    assert not filled.isna().any().any()
    error = ((filled - X) ** 2).to_numpy()[holed.isna()].mean()
    of_means = ((X.mean() - X) ** 2).to_numpy()[holed.isna()].mean()
    assert error < 0.5 * of_means
    cause = learner.dag_.names[learner.order_[0]]
    pd.testing.assert_frame_equal(learner.effects(cause), model.effects(cause))
    assert learner.total_effect(cause, "g3") in learner.possible_effects(cause, "g3")
    assert learner.sample(3, rng=0).equals(model.sample(3, rng=0))


@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".json", ".graphml", ".csv"])
def test_a_model_comes_back_from_one_file(tmp_path, learnt, suffix):
    learner, X = learnt
    learner.save(tmp_path / f"model{suffix}")
    model = LinearModel.load(tmp_path / f"model{suffix}")
    assert model.dag == learner.dag_ == DAG.load(tmp_path / f"model{suffix}")
    assert model.means.tolist() == learner.means_.tolist()
    assert model.noise_variances.tolist() == learner.noise_variances_.tolist()
    assert model.score(X) == pytest.approx(learner.score(X), rel=1e-12)
    pd.testing.assert_frame_equal(model.predict(X), learner.predict(X))
    again = pickle.loads(pickle.dumps(model))
    assert again.total_effect(0, 1) == model.total_effect(0, 1)


def test_a_learner_on_moments_alone_has_no_means():
    X = simulate.sample(simulate.random_dag(5, 1, rng=0), 100, rng=1)
    learner = SortRegress().fit(Dataset.from_covariance(np.cov(X.T, bias=True), 100))
    assert learner.dag_.node_data.keys() == {"noise_variance"}
    assert learner.means_.tolist() == [0] * 5
    assert learner.predict(X).shape == X.shape


# ------------------------------------------------------------------ what is refused

DAG3 = DAG([[0, 1.0, 0], [0, 0, 1.0], [0, 0, 0]], ["alpha", "beta", "gamma"])
FULL = LinearModel(DAG3, np.zeros(3), np.ones(3))
ROW = pd.DataFrame([[1.0, 2.0, 3.0]], columns=DAG3.names)
REFUSED = [
    (lambda: FULL.total_effect("alhpa", "beta"), "no node 'alhpa'.*Did you mean 'alpha'"),
    (lambda: FULL.effects("nothing"), "no node 'nothing' among the 3 nodes"),
    (lambda: FULL.total_effect(0, 3), "from 0 to 2. Got 3"),
    (lambda: FULL.predict(ROW.rename(columns={"beta": "delta"})), "table has no 'beta'"),
    (lambda: FULL.predict(ROW[["alpha", "beta"]]), "3 variables of the model. It has 2 columns"),
    (lambda: FULL.predict(ROW.assign(beta=np.nan)), "columns 'beta'.*row 1. Fill in missing"),
    (lambda: FULL.predict([1.0, 2.0, 3.0]), "2D|one row|1-D"),
    (lambda: FULL.score(ROW.assign(gamma=np.inf)), "NaN or infinite, in the columns 'gamma'"),
    (lambda: FULL.impute(ROW.assign(gamma=-np.inf)), "Only NaN is filled in"),
    (lambda: FULL.impute(Dataset.from_covariance(np.eye(3), 9)), "Got a covariance matrix"),
    (lambda: FULL.sample(0), "n must be a whole number of at least 1. Got 0"),
    (lambda: FULL.sample(2.5), "Got 2.5"),
    (lambda: LinearModel(DAG3).sample(2), "noise variances are needed, and this DAG has none"),
    (lambda: LinearModel(DAG3).impute(ROW), "LinearModel.from_data"),
    (lambda: LinearModel(DAG3.weights), "needs a DAG. Got csc_array"),
    (lambda: LinearModel(DAG3, [1, 2]), "'mean' must have one entry for each of the 3 nodes"),
    (lambda: LinearModel(DAG3, [1, 2, np.nan]), "means must be finite"),
    (lambda: LinearModel(DAG3, noise_variances=[1, 2, -1]), "not negative"),
    (lambda: FULL.save("model.dot"), "cannot be read back"),
    (lambda: FULL.save("model.pkl"), "suffix of a DAG's file"),
    (lambda: LinearModel.from_data(DAG3, ROW), "minimum of 2"),
    (lambda: LinearModel.from_data(DAG3, Dataset.from_covariance(np.eye(3), 9)), "covariance"),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(REFUSED)))
def test_what_a_model_refuses(k, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, words = REFUSED[k]
    with pytest.raises(BigdagError, match=words):
        call()
    assert not list(tmp_path.iterdir())


def test_a_file_without_noise_is_no_model(tmp_path):
    DAG3.save(tmp_path / "dag.parquet")
    with pytest.raises(DataError, match=r"dag\.parquet holds a DAG without noise variances"):
        LinearModel.load(tmp_path / "dag.parquet")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="no column 'source'"):
        LinearModel.load(tmp_path / "table.csv")


def test_what_does_not_vary_has_no_possible_effects():
    dag = DAG([[0, 2.0, 0], [0, 0, 1.0], [0, 0, 0]], reversible=[[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    with pytest.raises(GraphError, match="'x1' does not vary"):
        LinearModel(dag, noise_variances=[0.0, 0.0, 1.0]).possible_effects(1, 2)
    still = LinearModel(dag, noise_variances=[0.0, 1.0, 1.0]).possible_effects(1, 2)
    np.testing.assert_allclose(still, [0, 1, 1])


def test_possible_effects_need_noise_only_where_arcs_are_open():
    dag = DAG3.annotated(reversible=np.diag([1, 0], 1))
    assert LinearModel(dag).total_effect("alpha", "gamma") == 1
    assert LinearModel(dag).effects("gamma").empty
    with pytest.raises(GraphError, match=r"Where directions are open.*noise variances are needed"):
        LinearModel(dag).effects("alpha")


# ------------------------------------------------------------------ other packages


def test_pgmpy_has_the_same_joint_distribution(learnt):
    pytest.importorskip("pgmpy")
    learner, _ = learnt
    network = learner.dag_.to_pgmpy()
    assert network.check_model()
    mean, S = network.to_joint_gaussian()
    place = {name: k for k, name in enumerate(nx.topological_sort(network))}
    order = [place[name] for name in learner.dag_.names]
    rounding = 6e-4  # pgmpy's own
    np.testing.assert_allclose(np.asarray(mean)[order], learner.means_, atol=rounding)
    np.testing.assert_allclose(
        np.asarray(S)[np.ix_(order, order)], covariance(learner.model_), atol=rounding
    )
    bare = DAG3.to_pgmpy()
    assert set(bare.edges()) == {("alpha", "beta"), ("beta", "gamma")}
    assert not bare.get_cpds()


def test_pywhy_graphs_has_the_same_edges():
    pytest.importorskip("pywhy_graphs")
    graph = DAG3.annotated(reversible=np.diag([1, 0], 1)).to_pywhy()
    assert set(graph.nodes) == set(DAG3.names)
    assert set(graph.directed_edges) == {("beta", "gamma")}
    assert {frozenset(edge) for edge in graph.undirected_edges} == {frozenset(["alpha", "beta"])}


@pytest.mark.parametrize(
    ("package", "method"), [("pgmpy.models", "to_pgmpy"), ("pywhy_graphs", "to_pywhy")]
)
def test_a_package_that_is_not_installed_is_named(monkeypatch, package, method):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install .*pgmpy"):
        getattr(DAG3, method)()


# ------------------------------------------------------------------ the page on handing over

PAGE = Path(__file__).parent.parent / "docs" / "interop.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S)


@pytest.mark.parametrize("k", range(1, len(BLOCKS)))
def test_the_examples_of_the_page_run(k):
    for package in re.findall(r"^(?:import|from) (\w+)", BLOCKS[k], flags=re.M):
        pytest.importorskip(package)
    names: dict = {}
    for block in (BLOCKS[0], BLOCKS[k]):
        exec(compile(block, str(PAGE), "exec"), names)
