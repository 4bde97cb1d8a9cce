"""BootstrapDAG: the moments of a resample, seeds, the consensus, and what ends a fit early."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import bigdag
from bigdag import (
    DAG,
    BootstrapDAG,
    Knowledge,
    LinearModel,
    OrderSearch,
    ProxiMAS,
    SortRegress,
    metrics,
    simulate,
)
from bigdag.data.dataset import Dataset, as_dataset
from bigdag.engine.gram import Gram
from bigdag.engine.local_fdr import probability_by_count, probability_of_direction
from bigdag.errors import DataError, DataWarning, MemoryLimitError, ParameterError
from bigdag.graph.acyclic import is_acyclic
from bigdag.graph.consensus import Answer, agreement, tally
from bigdag.resources import memory_held
from bigdag.search import resampling

from .literal import bic_cost


def table(d=12, n=200, k=1, seed=0):
    truth = simulate.random_dag(d, k, rng=seed)
    return truth, simulate.standardise(simulate.sample(truth, n, rng=seed + 1))


@pytest.fixture(scope="module")
def fitted():
    truth, X = table()
    return truth, X, BootstrapDAG(n_resamples=20, random_state=3).fit(X)


def test_moments_of_counts_are_those_of_the_rows_drawn():
    _, X = table()
    gram = Gram(as_dataset(X), hold=False)
    counts = resampling.bootstrap_counts(np.random.default_rng(0), len(X))
    C, norm = resampling._moments(gram.Z, counts, True)
    drawn = np.repeat(X, counts, axis=0)
    np.testing.assert_allclose(C, np.corrcoef(drawn.T), atol=1e-12)
    np.testing.assert_allclose(norm * gram.sd, drawn.std(axis=0), rtol=1e-10)


# ------------------------------------------------------------------ missing values


def with_gaps(share, d=12, n=300, seed=0):
    truth, X = table(d, n, seed=seed)
    X[np.random.default_rng(seed + 2).random(X.shape) < share] = np.nan
    return truth, X


@pytest.mark.parametrize("missing", ["pairwise", "em"])
def test_moments_around_missing_values_are_those_of_the_rows_drawn(missing):
    _, X = with_gaps(0.1)
    data = bigdag.prepare(X, missing=missing).data
    counts = resampling.bootstrap_counts(np.random.default_rng(0), len(X))
    drawn = bigdag.prepare(np.repeat(X, counts, axis=0), missing=missing).data
    C, norm = resampling._moments_around(data.incomplete, counts, Gram(data).sd)
    rough = 1e-9 if missing == "pairwise" else 0.01  # EM ends sooner on rows that were drawn
    np.testing.assert_allclose(C, Gram(drawn).C, atol=rough)
    np.testing.assert_allclose(norm * Gram(data).sd, Gram(drawn).sd, rtol=rough)


@pytest.mark.parametrize("learner", [None, OrderSearch(), SortRegress()])
def test_a_few_missing_values_change_little(learner):
    truth, X = with_gaps(0.05, n=500)
    whole = simulate.standardise(simulate.sample(truth, 500, rng=1))
    precision = []
    for data in (whole, bigdag.prepare(X, missing="pairwise").data):
        model = BootstrapDAG(learner, n_resamples=20, random_state=0).fit(data)
        precision.append(metrics.average_precision(model.adjacency_prob_, truth, directed=False))
        assert model.n_resamples_ == 20
        assert is_acyclic(model.weights_)
    assert precision[1] >= precision[0] - 0.1


def test_pairs_that_no_drawn_row_has_are_unrelated_in_it():
    X = np.random.default_rng(0).normal(size=(60, 4))
    X[3:57, 0] = np.nan  # six values, most of which a resample may lack
    X[:, 1] += np.nan_to_num(X[:, 0])
    data = bigdag.prepare(X, missing="pairwise").data
    counts = np.ones(60, dtype=np.int64)
    counts[[0, 1, 2, 57]] = 0
    C, _ = resampling._moments_around(data.incomplete, counts, Gram(data).sd)
    assert np.isfinite(C).all()
    assert not C[0, 1:].any()
    counts[57:] = 0
    C, norm = resampling._moments_around(data.incomplete, counts, Gram(data).sd)
    assert (C[0, 0], norm[0]) == (0.0, 0.0)
    assert BootstrapDAG(n_resamples=30, random_state=0).fit(data).n_resamples_ == 30


def test_a_resample_is_an_optimum_of_the_bic_of_its_rows():
    _, X = table(d=10)
    gram = Gram(as_dataset(X), hold=False)
    cost = 8.0
    plan = resampling.plan(gram, cost)
    found = resampling.search_resample(gram.Z, plan, np.random.default_rng(5))
    drawn = np.repeat(X, resampling.bootstrap_counts(np.random.default_rng(5), len(X)), axis=0)
    W = found.weights.toarray()
    for v in range(10):  # no parent can be taken out, and the weights are those of lstsq
        parents = np.flatnonzero(W[:, v]).tolist()
        here = bic_cost(drawn, v, parents, cost)
        for u in parents:
            assert here <= bic_cost(drawn, v, [p for p in parents if p != u], cost) + 1e-6
        Y = drawn - drawn.mean(axis=0)
        np.testing.assert_allclose(
            W[parents, v], np.linalg.lstsq(Y[:, parents], Y[:, v], rcond=None)[0], atol=1e-9
        )


def test_a_column_that_is_constant_in_a_resample_has_no_arcs():
    _, X = table()
    X[:, 0] = 0.0
    X[7, 0] = 1.0
    model = BootstrapDAG(n_resamples=30, random_state=0).fit(X)
    assert np.isfinite(model.weights_.data).all()
    SortRegress().fit(X)
    BootstrapDAG(SortRegress(), n_resamples=5, random_state=0).fit(X)


@pytest.mark.parametrize("learner", [None, SortRegress(), ProxiMAS(max_iter=20)])
def test_a_seed_gives_the_same_answer_for_any_number_of_threads(learner):
    _, X = table()
    one, two = (
        BootstrapDAG(learner, n_resamples=6, random_state=1, n_jobs=jobs).fit(X) for jobs in (1, 2)
    )
    assert (one.edge_prob_ != two.edge_prob_).nnz == 0
    assert one.dag_ == two.dag_
    other = BootstrapDAG(learner, n_resamples=6, random_state=2).fit(X)
    assert (one.edge_prob_ != other.edge_prob_).nnz


def test_more_resamples_are_those_of_one_longer_fit(fitted):
    _, X, model = fitted
    short = BootstrapDAG(n_resamples=8, random_state=3, warm_start=True).fit(X)
    done = []
    short.set_params(n_resamples=20, callback=lambda state: done.append(state.iteration)).fit(X)
    assert done == list(range(9, 21))
    assert short.dag_ == model.dag_
    with pytest.raises(ParameterError, match="table was another one"):
        short.fit(X[:100])
    with pytest.raises(ParameterError, match=r"feature_fraction was 1\.0 and is now 0\.5"):
        short.set_params(feature_fraction=0.5).fit(X)
    assert short.dag_ == model.dag_


def test_frequencies_are_shares_of_the_cpdags(fitted):
    _, _, model = fitted
    expected = np.zeros((12, 12))
    for W in model.resamples_:
        found = metrics.cpdag(DAG(W)).toarray()
        expected += np.where(found & found.T, 0.5, found) / 20
    np.testing.assert_allclose(model.edge_freq_.toarray(), expected, atol=1e-12)
    np.testing.assert_allclose(model.adjacency_freq_.toarray(), expected + expected.T, atol=1e-12)
    share = model.direction_prob_.toarray()
    np.testing.assert_allclose(
        model.edge_prob_.toarray(), share * model.adjacency_prob_.toarray(), atol=1e-12
    )
    np.testing.assert_allclose((share + share.T)[expected + expected.T > 0], 1.0)
    seen = np.array([W.toarray() for W in model.resamples_])
    arcs = model.dag_.edges()
    place = {name: k for k, name in enumerate(model.dag_.names)}
    mean = {(place[arc.source], place[arc.target]): arc.weight_mean for arc in arcs.itertuples()}
    for a, b in mean:
        values = seen[:, a, b][seen[:, a, b] != 0]
        if len(values):
            assert mean[a, b] == pytest.approx(values.mean())
        if len(values) > 1:
            assert model.weight_se_[a, b] == pytest.approx(values.std(ddof=1))


def test_weights_are_those_of_the_consensus(fitted):
    """A mean over resamples with other parents is no weight of this graph."""
    _, X, model = fitted
    centred = X - X.mean(axis=0)
    for j in range(X.shape[1]):
        parents = np.flatnonzero(model.weights_[:, [j]].toarray())
        found, *_ = np.linalg.lstsq(centred[:, parents], centred[:, j])
        assert model.weights_[:, [j]].toarray()[parents, 0] == pytest.approx(found)
    assert model.weights_.nnz > 0
    refitted = LinearModel.from_data(model.dag_, X)
    assert model.score(X) == pytest.approx(refitted.score(X))


def test_what_the_consensus_says(fitted):
    _, X, model = fitted
    arcs = model.dag_.edges()
    assert {"probability", "adjacency", "weight_se", "direction"} <= set(arcs.columns)
    assert (arcs["adjacency"] >= 0.5).all()
    directed = arcs["direction"] == "->"
    assert (arcs["probability"] / arcs["adjacency"] >= 0.6 - 1e-9)[directed].all()
    assert (arcs["probability"] / arcs["adjacency"] < 0.6)[~directed].all()
    assert model.cpdag_.sum() == len(arcs) + (~directed).sum()
    assert (
        model.get_consensus_graph(0.0).n_arcs
        == np.triu(model.adjacency_prob_.toarray()).astype(bool).sum()
    )
    assert model.get_consensus_graph(1.0).n_arcs <= model.dag_.n_arcs
    assert np.isfinite(model.score(X))
    assert model.predict(X).shape == X.shape
    frame = model.to_frame()
    assert frame["probability"].is_monotonic_decreasing
    by_pair = frame.groupby("adjacency")["frequency"]
    assert len(frame) == model.edge_freq_.nnz
    assert by_pair.ngroups == len(np.unique(model.adjacency_freq_.data.round(9)))  # one to one
    assert (model.to_frame(0.8)["adjacency"] >= 0.8 - 1e-9).all()


def test_the_consensus_is_a_maximum_acyclic_subgraph():
    rng = np.random.default_rng(0)
    for _ in range(20):
        P = sp.csc_array(np.where(rng.random((5, 5)) < 0.6, rng.random((5, 5)) / 2, 0.0))
        P.setdiag(0)
        P.eliminate_zeros()
        found = agreement(P, 0.0, 0.5)
        W = sp.csc_array((np.ones(len(found.source)), (found.source, found.target)), shape=(5, 5))
        assert is_acyclic(W)
        dense = P.toarray()
        best = max(
            np.triu(dense[np.ix_(order, order)], 1).sum()
            for order in itertools.permutations(range(5))
        )
        kept = np.triu(dense[np.ix_(found.order, found.order)], 1).sum()
        assert kept >= 0.9 * best
        assert len(found.source) == np.count_nonzero(np.triu(dense + dense.T))


def test_nothing_to_agree_on():
    none = tally([Answer(sp.csc_array((3, 3)), np.zeros(0, dtype=bool))], 3)
    assert none.probability.nnz == 0
    assert len(agreement(none.probability, 0.5, 0.6, none.count).source) == 0
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert BootstrapDAG(n_resamples=3, random_state=0).fit(X).dag_.n_nodes == 3
    assert BootstrapDAG(n_resamples=3, random_state=0).fit(X[:, :1]).dag_.n_arcs == 0


def test_counts_as_lingam_gives_them(fitted):
    _, _, model = fitted
    counts = model.get_causal_direction_counts()
    seen = sum((W.toarray() != 0).astype(int) for W in model.resamples_)
    assert sum(counts["count"]) == seen.sum()
    assert counts["count"] == sorted(counts["count"], reverse=True)
    assert all(seen[i, j] == c for i, j, c in zip(counts["from"], counts["to"], counts["count"]))
    assert len(model.get_causal_direction_counts(n_directions=2)["to"]) == 2
    split = model.get_causal_direction_counts(split_by_causal_effect_sign=True)
    assert sum(split["count"]) == seen.sum()
    assert set(split["sign"]) <= {-1, 1}
    few = model.get_causal_direction_counts(min_causal_effect=0.5)
    assert sum(few["count"]) == sum((abs(W.toarray()) > 0.5).sum() for W in model.resamples_)


def test_effects_over_the_resamples(fitted):
    _, _, model = fitted
    table = model.effect_intervals(0, level=0.8)
    for name, mean, low, high, probability in table.itertuples(index=False):
        found = model.total_effect_interval(0, name, level=0.8)
        assert found == pytest.approx((mean, low, high, probability))
        assert low <= high
    with pytest.raises(ParameterError, match="level must be"):
        model.total_effect_interval(0, 1, level=2)


def test_a_time_limit_gives_at_least_one_resample():
    _, X = table(d=40, k=2)
    model = BootstrapDAG(n_resamples=10**6, time_limit=1e-9, random_state=0).fit(X)
    assert model.status_ == "time_limit"
    assert 1 <= model.n_resamples_ < 10
    assert model.dag_.n_arcs


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_callback_can_end_it(jobs):
    _, X = table()
    states = []

    def callback(state):
        states.append(state)
        return state.iteration >= 3

    model = BootstrapDAG(n_resamples=100, callback=callback, random_state=0, n_jobs=jobs).fit(X)
    assert model.status_ == "interrupted"
    assert 3 <= model.n_resamples_ < 20
    assert states[0].max_iter == 100
    assert states[1].seconds_left > 0


def test_ctrl_c_gives_what_is_done():
    from bigdag.interrupts import ask_to_end

    _, X = table()
    model = BootstrapDAG(
        n_resamples=1000, random_state=0, callback=lambda s: ask_to_end() if s.iteration == 2 else 0
    )
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert model.status_ == "interrupted"
    assert 2 <= model.n_resamples_ < 20


def test_a_checkpoint_that_cannot_be_written_loses_no_resample(tmp_path, monkeypatch, caplog):
    from bigdag.errors import BigdagError
    from bigdag.learners import checkpoint

    X = simulate.sample(simulate.random_dag(12, 1, rng=0), 200, rng=1)
    given = {"n_resamples": 40, "random_state": 0, "n_jobs": 1}
    real, calls = checkpoint.write_resamples, []

    def full(*arguments):
        calls.append(arguments)
        if 2 < len(calls) < 6:
            raise BigdagError("Could not write c.npz: No space left on device.")
        return real(*arguments)

    monkeypatch.setattr(checkpoint, "write_resamples", full)
    file = tmp_path / "c.npz"
    found = BootstrapDAG(**given, checkpoint=file).fit(X)
    monkeypatch.undo()
    assert found.n_resamples_ == 40
    assert caplog.text.count("c.npz cannot be written, and the work goes on") == 1
    assert len(checkpoint.read_resamples(file, 12)[1]) == 40  # there was room again
    done = []
    file.chmod(0o444)
    with pytest.raises(ParameterError, match="is read-only"):
        BootstrapDAG(**given, checkpoint=file, callback=done.append, warm_start=True).fit(X)
    with pytest.raises(ParameterError, match=r"the folder .* does not exist"):
        BootstrapDAG(**given, checkpoint=tmp_path / "no/c", callback=done.append).fit(X)
    assert not done


def test_two_bootstraps_at_a_time_do_not_share_a_file(tmp_path, fitted):
    pytest.importorskip("fcntl")
    _, X, _ = fitted
    file = tmp_path / "boot.npz"
    refused = []

    def other(state):
        with pytest.raises(ParameterError, match="is in use by another fit") as error:
            BootstrapDAG(n_resamples=5, checkpoint=file, random_state=1).fit(X)
        refused.append(error)

    for n in (4, 8):  # of a file that is new, and of one that is there
        given = {"n_resamples": n, "checkpoint": file, "random_state": 3, "n_jobs": 1}
        BootstrapDAG(**given, callback=other).fit(X)
        assert BootstrapDAG(**given).fit(X).n_resamples_ == n  # free again
    assert len(refused) == 8


def test_a_bootstrap_that_fails_leaves_no_empty_file(tmp_path, fitted, monkeypatch):
    _, X, _ = fitted

    def fail(*given):
        raise RuntimeError

    monkeypatch.setattr(BootstrapDAG, "_work", fail)
    with pytest.raises(RuntimeError):
        BootstrapDAG(n_resamples=4, checkpoint=tmp_path / "boot.npz").fit(X)
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_goes_on_where_it_ended(tmp_path, fitted):
    _, X, model = fitted
    file = tmp_path / "boot.npz"
    first = BootstrapDAG(
        n_resamples=20,
        random_state=3,
        n_jobs=1,
        checkpoint=file,
        callback=lambda s: s.iteration >= 7,
    ).fit(X)
    assert first.n_resamples_ < 20
    done = []
    second = BootstrapDAG(
        n_resamples=20, checkpoint=file, callback=lambda s: done.append(s.iteration)
    ).fit(X)  # whose seed is that of the file
    assert len(done) == 20 - first.n_resamples_
    assert second.dag_ == model.dag_
    assert (second.edge_prob_ != model.edge_prob_).nnz == 0
    for given, told in [
        ({"random_state": 4}, "seed was 3 and is now 4"),
        ({"estimator": OrderSearch(criterion="bic", gamma=0.0)}, r"learner\.gamma was 'auto'"),
        ({"estimator": SortRegress()}, "learner was 'OrderSearch' and is now 'SortRegress'"),
    ]:
        with pytest.raises(ParameterError, match=told):
            BootstrapDAG(checkpoint=file, **given).fit(X)
    with pytest.raises(ParameterError, match="the table was another one"):
        BootstrapDAG(checkpoint=file).fit(X[:, :5])
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(ParameterError, match="is no checkpoint that a bootstrap"):
        BootstrapDAG(checkpoint=file).fit(X)


def test_a_part_of_the_pairs():
    _, X = table(d=30, n=300)
    half = BootstrapDAG(n_resamples=4, random_state=0, feature_fraction=0.5).fit(X)
    for k, W in enumerate(half.resamples_):
        rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(k,)))
        resampling.bootstrap_counts(rng, 300)
        rng.permutation(30)
        key = rng.integers(2**63, dtype=np.uint64)
        assert W.nnz
        assert resampling._is_allowed(*W.nonzero(), 30, key, 0.5).all()
    u, v = np.triu_indices(200, 1)
    key = np.uint64(12345)
    share = resampling._is_allowed(u, v, 200, key, 0.3).mean()
    assert share == pytest.approx(0.3, abs=0.02)
    np.testing.assert_array_equal(
        resampling._is_allowed(u, v, 200, key, 0.3), resampling._is_allowed(v, u, 200, key, 0.3)
    )


def test_correlations_need_not_be_held():
    _, X = table(d=30, n=100)
    gram = Gram(as_dataset(X), hold=False)
    held, computed = (
        resampling.search_resample(
            gram.Z, resampling.plan(gram, 9.0, hold=hold), np.random.default_rng(1)
        )
        for hold in (True, False)
    )
    np.testing.assert_allclose(held.weights.toarray(), computed.weights.toarray(), atol=1e-8)


def test_the_penalty_is_chosen_once():
    _, X = table(d=10, n=100)
    model = BootstrapDAG(
        OrderSearch(criterion="bic", penalty="auto"), n_resamples=3, random_state=0
    )
    assert model.fit(X).n_resamples_ == 3
    assert model.estimator.penalty == "auto"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"n_resamples": 0}, "n_resamples must be an integer >= 1"),
        ({"estimator": "bic"}, "estimator must be a learner of bigdag"),
        ({"threshold": 2}, "threshold must be"),
        ({"direction_threshold": 0.3}, "direction_threshold must be"),
        ({"feature_fraction": 0}, "feature_fraction must be"),
        ({"feature_fraction": 0.5, "estimator": SortRegress()}, "needs random starts"),
        ({"random_starts": True, "estimator": SortRegress()}, "random_starts=True goes with"),
        ({"estimator": SortRegress(lambda1=-1)}, "lambda1 must be"),
        ({"checkpoint": 3}, "checkpoint must be a path"),
    ],
)
def test_what_is_refused(given, told):
    with pytest.raises(ParameterError, match=told):
        BootstrapDAG(**given).fit(np.eye(4))


def test_a_covariance_has_no_rows():
    with pytest.raises(DataError, match="draws rows"):
        BootstrapDAG().fit(Dataset.from_covariance(np.eye(3), 100))


def test_it_beats_one_fit_on_standardised_data():
    truth, X = table(d=60, n=300, k=2, seed=4)
    one = OrderSearch(criterion="bic").fit(X)
    many = BootstrapDAG(n_resamples=30, random_state=0).fit(X)
    assert metrics.average_precision(many.edge_prob_, truth) > metrics.average_precision(
        one.dag_, truth
    )


# ------------------------------------------------------------------ how probable a pair is


def found_in(rng, worths, pairs, threshold, total, fraction=1.0):
    """Draw how many resamples find each pair: the model of the statistic, taken literally."""
    mean = np.concatenate([worths, np.zeros(pairs - len(worths))])
    t = np.abs(mean + rng.normal(size=pairs))
    again = t + rng.normal(size=(total, pairs)) > threshold
    return (again & (rng.random(again.shape) < fraction)).sum(axis=0)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_of_pairs_with_a_probability_that_share_is_true(fraction):
    rng = np.random.default_rng(0)
    told, true = [], []
    for _ in range(20):
        worths = rng.uniform(1.0, 9.0, size=150)
        counts = found_in(rng, worths, 6000, 3.3, 50, fraction)
        found = np.bincount(counts, minlength=51)
        told.append(probability_by_count(found, 3.3, 6000, fraction)[counts])
        true.append(np.arange(6000) < 150)
    told, true = np.concatenate(told), np.concatenate(true)
    for low in np.arange(0.2, 1.0, 0.2):
        inside = (told >= low) & (told <= low + 0.2)
        assert inside.sum() > 20
        assert abs(true[inside].mean() - told[inside].mean()) < 0.1


def test_what_chance_explains_is_not_probable():
    often, believed = 0, 0
    for seed in range(10):
        counts = found_in(np.random.default_rng(seed), np.empty(0), 20_000, 3.6, 100)
        p = probability_by_count(np.bincount(counts, minlength=101), 3.6, 20_000)
        often += (counts >= 50).sum()
        believed += (p[counts] >= 0.5).sum()
    assert often > 30
    assert believed < often / 5


@pytest.mark.parametrize("total", [1, 2, 10, 500])
def test_a_pair_found_more_often_is_more_probable(total):
    for found in (np.zeros(total + 1, dtype=int), np.arange(total + 1)[::-1]):
        for pairs in (0, 3, 10**9):
            p = probability_by_count(found, 4.0, pairs)
            assert p[0] == 0.0
            assert (np.diff(p) >= 0).all()
            assert (p[1:] > 0).all()
            assert (p <= 1).all()


def test_few_resamples_or_another_learner_have_frequencies_for_probabilities():
    _, X = table()
    for learner, total in ((None, 9), (SortRegress(), 12)):
        model = BootstrapDAG(learner, n_resamples=total, random_state=0).fit(X)
        assert (model.adjacency_prob_ != model.adjacency_freq_).nnz == 0


# ------------------------------------------------------------------ where random orders fail


def test_dense_graphs_are_searched_from_the_answer_of_all_rows_too():
    truth, X = table(d=20, n=1000, k=4, seed=0)
    one = OrderSearch(criterion="bic").fit(X)
    model = BootstrapDAG(n_resamples=20, random_state=0).fit(X)
    found, alone = (metrics.arc_metrics(dag, truth).f1 for dag in (model.dag_, one.dag_))
    assert found >= alone - 0.03
    gram = Gram(as_dataset(X), hold=False)
    plan = resampling.plan(gram, 9.0, search=lambda: (one.weights_, np.array(one.order_)))
    random = plan._replace(start=None)
    after, first = resampling.first_resamples(gram.Z, plan, np.random.default_rng)
    assert after is plan
    again = resampling.search_resample(gram.Z, plan, np.random.default_rng(0))
    assert (first[0].weights != again.weights).nnz == 0
    answers = [
        resampling.search_resample(gram.Z, shared, np.random.default_rng(k))
        for k in range(6) for shared in (plan, random)
    ]  # fmt: skip
    sizes = np.array([answer.weights.nnz for answer in answers]).reshape(6, 2)
    assert sizes[:, 0].mean() < sizes[:, 1].mean()  # poor optima have arcs too many


def test_where_random_orders_do_nothing_else_is_searched():
    _, X = table(d=12, n=1000)
    one = OrderSearch(criterion="bic").fit(X)
    gram = Gram(as_dataset(X), hold=False)
    plan = resampling.plan(gram, 9.0, search=lambda: (one.weights_, np.array(one.order_)))
    after, first = resampling.first_resamples(gram.Z, plan, np.random.default_rng, n_jobs=2)
    assert after.start is None
    again = resampling.search_resample(gram.Z, after, np.random.default_rng(3))
    assert (first[3].weights != again.weights).nnz == 0


# ------------------------------------------------------------------ what belongs together


def test_other_knowledge_is_another_bootstrap(tmp_path):
    _, X = table()
    base = [(f"x{i}", f"x{j}") for i in range(3) for j in range(3, 6)]
    known, other = Knowledge(forbidden_edges=base), Knowledge(forbidden_edges=[*base, ("x8", "x9")])
    model = BootstrapDAG(
        OrderSearch(criterion="bic", knowledge=known), n_resamples=3, warm_start=True,
        checkpoint=tmp_path / "boot.npz", random_state=0,
    ).fit(X)  # fmt: skip
    model.set_params(estimator__knowledge=other, n_resamples=5)
    with pytest.raises(ParameterError, match="knowledge was"):
        model.fit(X)
    with pytest.raises(ParameterError, match="knowledge was"):
        model.set_params(warm_start=False).fit(X)


def test_little_memory_does_not_change_the_answer_with_missing_values():
    _, X = with_gaps(0.1)
    data = bigdag.prepare(X, missing="pairwise").data
    model = BootstrapDAG(n_resamples=2, random_state=0, memory_limit=memory_held() + 2**20)
    with pytest.raises(MemoryLimitError):
        model.fit(data)


def test_the_time_limit_is_also_that_of_the_trials(monkeypatch):
    _, X = table(d=20, n=300, k=4)
    asked = []
    whole = resampling.first_resamples

    def watched(sample, shared, generator, stop, n_jobs):
        asked.append(stop())
        return whole(sample, shared, generator, lambda: True, n_jobs)

    monkeypatch.setattr(resampling, "first_resamples", watched)
    model = BootstrapDAG(n_resamples=500, time_limit=1e-6, random_state=0).fit(X)
    assert asked == [True]
    assert model.status_ == "time_limit"
    assert model.n_resamples_ >= 1


def test_a_required_arc_of_a_constant_column_is_an_arc():
    _, X = table()
    X[:, 2] = 5.0
    known = Knowledge(required_edges=[("x2", "x1"), ("x3", "x2")])
    model = BootstrapDAG(OrderSearch(criterion="bic", knowledge=known), n_resamples=4)
    with pytest.warns(DataWarning):
        model.fit(X)
    assert model.weights_[2, 1] != 0
    assert model.weights_[3, 2] != 0


@pytest.mark.parametrize("penalty", [0, 1e5])
def test_arcs_that_cost_nothing_or_everything(penalty):
    X = simulate.sample(simulate.random_dag(8, 1, rng=0), 100, rng=1)
    learner = OrderSearch(criterion="bic", penalty=penalty)
    model = BootstrapDAG(learner, n_resamples=12, random_state=0, n_jobs=1).fit(X)
    assert np.isfinite(model.adjacency_prob_.data).all()
    assert (model.adjacency_prob_.nnz == 0) == (penalty > 0)


def test_the_two_directions_of_a_pair_share_its_probability():
    rng = np.random.default_rng(0)
    joined = rng.integers(1, 100, size=500).astype(float)
    count = np.floor(2 * rng.random(500) * joined) / 2
    found = probability_of_direction(count, joined)
    np.testing.assert_allclose(found + probability_of_direction(joined - count, joined), 1.0)
    assert ((found > 0) & (found < 1)).all()
    timid = (count + 1) / (joined + 2)  # what it makes of a share is on the same side, and surer
    assert (np.abs(found - 0.5) >= np.abs(timid - 0.5) - 1e-12).all()
    assert (((found - 0.5) * (timid - 0.5)) >= 0).all()


def test_what_is_required_is_certain():
    X = np.random.default_rng(0).normal(size=(200, 6))
    known = Knowledge(required_edges=[("x0", "x1")])
    learner = OrderSearch(criterion="bic", knowledge=known)
    model = BootstrapDAG(learner, n_resamples=20, random_state=0, n_jobs=1).fit(X)
    assert model.adjacency_prob_[0, 1] == model.edge_prob_[0, 1] == 1
