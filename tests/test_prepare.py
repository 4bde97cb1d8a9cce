"""Tables made ready: scales, effects taken out, near copies, missing values."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats
from scipy.optimize import minimize
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import bigdag
from bigdag import AutoDAG, OrderSearch, simulate
from bigdag.data import missing
from bigdag.data.copies import near_copies
from bigdag.data.prepare import follow
from bigdag.data.raw import Raw, chosen_names, raw_table
from bigdag.data.scales import best_scale, column_facts
from bigdag.data.tables import read_prepared
from bigdag.data.transforms import effects
from bigdag.data.wishes import Wishes
from bigdag.errors import DataError, DataWarning, ParameterError
from bigdag.transforms import Adjust, Log1p, NormalScores


def names(d):
    return [f"v{j}" for j in range(d)]


def related(n=200, d=5, seed=0, offset=3.0):
    """Return columns that are related to each other."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + offset


def holed(X, share, seed=0):
    X = np.array(X, dtype=float, order="F")
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


# ------------------------------------------------------------------ the transformers


NEGATIVE = dict.fromkeys(
    ("check_transformer_data_not_an_array", "check_transformer_general",
     "check_transformer_preserve_dtypes"),
    "its table has values of -1 and less",
)  # fmt: skip


@parametrize_with_checks(
    [NormalScores(), Log1p(), Adjust()],
    expected_failed_checks=lambda estimator: NEGATIVE if isinstance(estimator, Log1p) else {},
)
def test_they_are_transformers_of_scikit_learn(estimator, check):
    check(estimator)


def test_normal_scores_are_those_of_mean_ranks():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=40), rng.integers(4, size=40), np.ones(40)])
    X[3, 0] = np.nan
    scores = NormalScores().fit_transform(X)
    for j, column in enumerate(X.T):
        there = ~np.isnan(column)
        wanted = stats.norm.ppf(stats.rankdata(column[there]) / (there.sum() + 1))
        np.testing.assert_allclose(scores[there, j], wanted, atol=1e-12)
    assert np.isnan(scores[3, 0])
    assert (scores[:, 2] == 0).all()


def test_new_values_get_scores_between_those_of_their_neighbours():
    known = NormalScores().fit([[1.0], [2.0], [4.0]])
    low, middle, high, old = known.transform([[-9.0], [3.0], [9.0], [2.0]]).ravel()
    assert low < middle < high
    assert old == 0.0 < middle < high
    assert np.isfinite([low, high]).all()


def test_log1p_refuses_what_has_no_logarithm_by_name():
    frame = pd.DataFrame({"a": [0.0, 1.0], "b": [2.0, -1.0]})
    np.testing.assert_allclose(Log1p().fit_transform(frame[["a"]])["a"], np.log1p(frame["a"]))
    with pytest.raises(DataError, match=r"above -1.*'b'.*--transform rank"):
        Log1p().fit_transform(frame)


def adjustable(n=60, seed=1):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(related(n, 3, seed), columns=["a", "b", "c"])
    frame.insert(1, "site", rng.choice(["north", "south", "west"], n))
    frame["age"] = rng.uniform(20, 70, n)
    frame["plate"] = rng.integers(1, 4, n)
    frame["a"] += 4.0 * (frame["site"] == "north") + 0.1 * frame["age"]
    return frame


def regressed(frame, column, terms):
    there = frame[column].notna()
    X, y = terms[there], frame.loc[there, column]
    return y - LinearRegression().fit(X, y).predict(X) + y.mean()


def test_adjusting_leaves_the_residuals_of_a_regression():
    frame = adjustable()
    terms = pd.get_dummies(frame["site"]).assign(age=frame["age"]).astype(float)
    found = Adjust(["site", "a?e"]).fit_transform(frame)
    assert list(found.columns) == ["a", "b", "c", "plate"]
    for column in ("a", "b", "c"):
        np.testing.assert_allclose(found[column], regressed(frame, column, terms), atol=1e-9)


def test_adjusting_regresses_on_the_rows_that_are_there():
    frame = adjustable()
    frame.loc[[1, 7, 20], "a"] = np.nan
    groups = pd.get_dummies(frame["plate"]).astype(float)
    found = Adjust(batch="plate").fit_transform(frame.drop(columns=["site"]))
    assert found["a"].isna().sum() == 3
    middle = groups.mean() - groups[frame["a"].notna()].mean()
    there = frame["a"].notna()
    fit = LinearRegression().fit(groups[there], frame.loc[there, "a"])
    # Its mean is that of all rows, also of those that miss the value.
    wanted = regressed(frame, "a", groups) + float(middle @ fit.coef_)
    np.testing.assert_allclose(found.loc[there, "a"], wanted, atol=1e-9)
    np.testing.assert_allclose(found["b"], regressed(frame, "b", groups), atol=1e-9)


def test_adjusting_new_rows_takes_the_effects_of_fit():
    frame = adjustable()
    adjust = Adjust(["site"], batch="plate").fit(frame)
    np.testing.assert_allclose(
        adjust.transform(frame.iloc[:9]), adjust.fit_transform(frame).iloc[:9], atol=1e-12
    )
    with pytest.raises(DataError, match="not there in fit: 'east'"):
        adjust.transform(frame.assign(site="east"))


@pytest.mark.parametrize("steps", [[NormalScores()], [Adjust(["site"]), NormalScores()]])
def test_names_go_through_a_pipeline_to_the_dag(steps):
    frame = adjustable(200)
    frame = frame if isinstance(steps[0], Adjust) else frame.drop(columns=["site"])
    dag = make_pipeline(*steps, OrderSearch(criterion="bic")).fit(frame)[-1].dag_
    assert list(dag.names) == ["a", "b", "c", "age", "plate"]


def test_set_output_and_feature_names():
    frame = adjustable().drop(columns=["site"])
    adjust = Adjust(["age"]).set_output(transform="pandas").fit(frame)
    assert list(adjust.get_feature_names_out()) == ["a", "b", "c", "plate"]
    assert list(adjust.transform(frame).columns) == ["a", "b", "c", "plate"]
    assert isinstance(NormalScores().fit_transform(frame.to_numpy()), np.ndarray)


# ------------------------------------------------------------------ missing values


def test_pairwise_correlations_are_those_of_pandas():
    X = holed(related(300, 6), 0.15)
    X += np.random.default_rng(1).normal(size=X.shape)
    frame = pd.DataFrame(X.copy())
    found = missing.pairwise(X, names(6))
    sd = frame.std(ddof=0).to_numpy()
    np.testing.assert_allclose(found.covariance / np.outer(sd, sd), frame.corr(), atol=1e-9)
    np.testing.assert_allclose(found.mean, frame.mean(), atol=1e-9)
    there = frame.notna().to_numpy().astype(float)
    common = (there.T @ there)[np.triu_indices(6, 1)]
    assert found.n_samples == round(np.sqrt(300 * stats.hmean(common)))


def test_pairwise_without_gaps_is_the_covariance():
    X = related(100, 4)
    found = missing.pairwise(X.copy(order="F"), names(4))
    np.testing.assert_allclose(found.covariance, np.cov(X.T, bias=True), atol=1e-9)
    assert found.n_samples == 100


@pytest.mark.parametrize("lanczos", [False, True])
def test_pairwise_moments_have_no_negative_eigenvalue(monkeypatch, lanczos):
    X = holed(related(80, 60), 0.25)
    frame = pd.DataFrame(X.copy())
    assert np.linalg.eigvalsh(frame.corr())[0] < -0.01
    if lanczos:
        monkeypatch.setattr(missing, "_LARGEST_EIGEN", 10)
    found = missing.pairwise(X, names(60))
    sd = frame.std(ddof=0).to_numpy()
    C = found.covariance / np.outer(sd, sd)
    assert np.linalg.eigvalsh(C)[0] > -1e-6
    np.testing.assert_allclose(np.diag(C), 1.0, atol=1e-12)
    # As little of the filled columns is mixed in as is needed.
    filled = (frame - frame.mean()).fillna(0.0).corr().to_numpy()
    off = ~np.eye(60, dtype=bool)
    pairs = frame.corr().to_numpy()
    share = np.polyfit((filled - pairs)[off], (C - pairs)[off], 1)[0]
    assert 0 < share < 1
    less = (1 - 0.9 * share) * pairs + 0.9 * share * filled
    assert np.linalg.eigvalsh(less)[0] < -1e-4


def log_likelihood(X, mean, S):
    total = 0.0
    for row in X:
        o = ~np.isnan(row)
        total += (
            stats.multivariate_normal(mean[o], S[np.ix_(o, o)]).logpdf(row[o]) if o.any() else 0
        )
    return total


def test_em_finds_the_maximum_of_the_likelihood():
    X = holed(related(30, 2, seed=5), 0.2, seed=6)
    X[4] = np.nan  # a row without values tells nothing
    found = missing.em(X.copy(order="F"), names(2), pseudo_rows=0, tol=1e-10)

    def loss(parameters):
        L = np.zeros((2, 2))
        L[np.tril_indices(2)] = parameters[2:]
        return -log_likelihood(X, parameters[:2], L @ L.T)

    start = np.concatenate(
        [np.nanmean(X, axis=0), np.diag(np.nanstd(X, axis=0))[np.tril_indices(2)]]
    )
    best = minimize(loss, start, method="BFGS")
    L = np.zeros((2, 2))
    L[np.tril_indices(2)] = best.x[2:]
    np.testing.assert_allclose(found.covariance, L @ L.T, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(found.mean, best.x[:2], rtol=1e-3)
    assert log_likelihood(X, found.mean, found.covariance) >= -best.fun - 1e-6


def test_em_without_gaps_is_the_covariance():
    X = related(60, 4)
    found = missing.em(X.copy(order="F"), names(4))
    np.testing.assert_allclose(found.covariance, np.cov(X.T, bias=True), atol=1e-9)
    np.testing.assert_allclose(found.mean, X.mean(axis=0), atol=1e-9)


def test_em_works_with_more_columns_than_rows():
    X = holed(related(30, 50), 0.1)
    found = missing.em(X, names(50))
    assert np.linalg.eigvalsh(found.covariance)[0] > -1e-9 * np.trace(found.covariance)
    with pytest.raises(DataError, match="--missing pairwise"):
        missing.em(np.zeros((5, missing.LARGEST_EM + 1)), names(missing.LARGEST_EM + 1))


def test_filling_keeps_means_and_variances():
    X = holed(related(20, 30), 0.2)
    frame = pd.DataFrame(X.copy())
    missing.fill(X, names(30))
    np.testing.assert_allclose(X.mean(axis=0), frame.mean(), atol=1e-9)
    np.testing.assert_allclose(X.std(axis=0), frame.std(ddof=0), atol=1e-9)


def chain(n=400, d=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    for j in range(1, d):
        X[:, j] += 0.9 * X[:, j - 1]
    return pd.DataFrame(X, columns=names(d))


def skeleton(dag):
    return {frozenset(pair) for pair in dag.edges()[["source", "target"]].itertuples(index=False)}


@pytest.mark.parametrize("how", ["pairwise", "em", "drop", "auto"])
def test_a_learner_takes_a_table_with_gaps(how):
    frame = chain()
    wanted = skeleton(OrderSearch(criterion="bic").fit(frame).dag_)
    holes = pd.DataFrame(holed(frame, 0.04), columns=frame.columns)
    found = bigdag.prepare(holes, missing=how)
    assert skeleton(OrderSearch(criterion="bic").fit(found.data).dag_) == wanted
    assert found.missing == ("pairwise" if how == "auto" else how)
    assert "missing" in found.notes[-1]
    assert found.data.n_samples < 400
    assert found.n_rows == 400
    if how != "drop":
        np.testing.assert_allclose(found.data.mean, holes.mean(), atol=0.05)


@pytest.mark.parametrize(
    "make",
    [
        lambda f: f.convert_dtypes(),
        lambda f: f.astype(object).where(f.notna(), None),
        lambda f: f.astype("Float64"),
        lambda f: pa.Table.from_pandas(f),
        lambda f: np.ma.masked_invalid(f.to_numpy()),
        lambda f: f.to_numpy(),
        lambda f: f.astype(np.float32).astype("float32[pyarrow]"),
    ],
)
def test_missing_values_in_every_dress(make):
    frame = pd.DataFrame(holed(chain().round(2), 0.1), columns=names(8))
    frame = frame.astype(np.float32).astype(float)
    wanted = bigdag.prepare(frame, missing="pairwise").data
    found = bigdag.prepare(make(frame), missing="pairwise").data
    np.testing.assert_allclose(found.covariance, wanted.covariance, atol=1e-12)


def test_more_columns_than_rows_give_samples():
    found = bigdag.prepare(holed(related(20, 30), 0.1), missing="pairwise")
    assert found.data.X is not None
    assert found.data.n_samples == 20
    assert "mean of their column" in found.notes[0]


# ------------------------------------------------------------------ scales


def sampled(n, noise="gaussian", k=2, d=100, seed=1):
    return np.asfortranarray(
        simulate.sample(simulate.random_dag(d, k, rng=seed), n, noise=noise, rng=seed)
    )


@pytest.mark.parametrize("noise", ["gaussian", "exponential", "gumbel"])
@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("n", [100, 500])
def test_linear_relations_stay_as_they_are(noise, k, n):
    assert best_scale(sampled(n, noise, k)).transform == "none"


def damaged(how, seed=0):
    X = sampled(300, seed=seed)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    rng = np.random.default_rng(seed)
    if how == "lognormal":
        return np.exp(Z)
    if how == "outliers":
        return np.where(rng.random(X.shape) < 0.01, 10 * X, X)
    if how == "rows far away":
        return np.where(rng.random(len(X))[:, None] < 0.02, 10 * X, X)
    assert how == "counts"
    return rng.poisson(np.exp(Z + 1)).astype(float)


@pytest.mark.parametrize(
    ("how", "wanted"),
    [("lognormal", "rank"), ("outliers", "rank"), ("rows far away", "rank"), ("counts", "log1p")],
)
@pytest.mark.parametrize("gaps", [0.0, 0.05])
def test_what_hides_relations_is_transformed(how, wanted, gaps):
    X = np.asfortranarray(holed(damaged(how), gaps, seed=9))
    assert best_scale(X).transform == wanted
    found = bigdag.prepare(X, transform="auto", missing="auto")
    assert found.transform == wanted
    assert any("took the place" in note for note in found.notes)


def test_auto_looks_at_what_is_left_once_effects_are_taken_out():
    X = sampled(300)
    batch = np.arange(300) % 2
    shifted = X + np.outer(batch, np.random.default_rng(0).normal(size=100) * 2 * X.std(axis=0))
    frame = pd.DataFrame(shifted, columns=names(100)).assign(batch=batch)
    assert bigdag.prepare(frame, transform="auto", batch="batch").transform == "none"


def test_facts_of_columns_leave_missing_values_out():
    X = holed(related(100, 4), 0.2)
    facts = column_facts(X)
    frame = pd.DataFrame(X)
    assert facts.there.tolist() == frame.count().tolist()
    np.testing.assert_allclose(facts.deviation, frame.std(ddof=0))
    np.testing.assert_allclose(facts.skewness, stats.skew(X, nan_policy="omit"), atol=1e-9)
    assert facts.distinct.tolist() == frame.nunique().tolist()


# ------------------------------------------------------------------ near copies, columns, wishes


def test_near_copies_are_found_and_causes_are_not():
    X = sampled(300, k=4)
    assert near_copies(X) == []
    X = np.column_stack([X, -3 * X[:, 5] + 7, X[:, 5] + 1e-4 * X[:, 5].std(), X[:, 9] * 2])
    X[:, 101] += 1e-3 * X[:, 5].std() * np.random.default_rng(0).normal(size=300)
    assert near_copies(np.asfortranarray(X)) == [[5, 100, 101], [9, 102]]


def test_columns_that_are_constant_together_are_no_copies():
    x, y = np.random.default_rng(0).normal(size=(2, 40))
    x[:20], y[:20] = 1.0, 5.0
    x[20:30] = y[30:] = np.nan
    assert near_copies(np.column_stack([x, y])) == []


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e200, 1e306])
def test_near_copies_in_any_unit(scale):
    x, y = np.random.default_rng(0).normal(size=(2, 40))
    assert near_copies(scale * np.column_stack([x, y, x])) == [[0, 2]]


def test_effects_of_many_groups_take_no_square_of_them():
    rng = np.random.default_rng(0)
    groups = rng.integers(300, size=3000)
    Z = (groups[:, None] == np.arange(300)).astype(float)
    X = rng.normal(size=(3000, 4)) + groups[:, None]
    X[:500, 1] = np.nan
    tracemalloc.start()
    found = effects(X, Z)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * Z.nbytes  # a table of all products of two groups is 300 of them
    for j in range(4):
        means = pd.Series(X[:, j]).groupby(groups).mean()
        np.testing.assert_allclose(found[:, j], means, atol=1e-8)


def test_the_column_that_misses_least_stands_for_a_group():
    x = np.random.default_rng(0).normal(size=50)
    X = np.column_stack([x, x, x])
    X[:2, 0] = X[:1, 1] = np.nan
    # Zeros for missing values set columns apart, a little; these are still near enough.
    assert near_copies(X)[0][0] in (1, 2)


def test_many_copies_take_no_quadratic_time():
    x = np.random.default_rng(0).normal(size=20)
    X = np.outer(x, np.arange(1.0, 2001.0))
    assert len(near_copies(np.asfortranarray(X))[0]) == 2000


def test_near_copies_become_one_variable():
    frame = chain().assign(inches=lambda f: 2.54 * f["v3"])
    found = bigdag.prepare(frame, duplicates="group")
    assert found.groups == {"v3": ("inches",)}
    assert found.data.names == tuple(names(8))
    assert "'inches'" in found.notes[0]
    with pytest.raises(DataError, match=r"'v3', 'inches'.*--duplicates group"):
        bigdag.prepare(frame, duplicates="error")


def test_columns_are_chosen_by_names_and_globs():
    frame = chain().assign(**{"x[1]": 1.0, "who": "me"})
    found = bigdag.prepare(frame, keep=["v*"], drop=["v[67]", "v0"])
    assert found.data.names == ("v1", "v2", "v3", "v4", "v5")
    assert set(found.left_out) == {"v0", "v6", "v7", "x[1]", "who"}
    assert chosen_names(["x[1]", "x1"], ["x[1]"], "keep") == ["x[1]"]


def test_names_of_columns_without_names_stay_when_others_are_left_out():
    X, names = related(), ("x1", "x2", "x4")
    X[:, 3] = 2 * X[:, 1]
    learner = OrderSearch(criterion="bic")
    chosen = {"drop": ["x0"], "duplicates": "group"}
    assert learner.fit(bigdag.prepare(X, **chosen).data).dag_.names == names
    S = bigdag.data.Dataset.from_covariance(np.cov(X.T), 200)
    assert learner.fit(bigdag.prepare(S, drop=["x0", "x3"]).data).dag_.names == names
    frame = pd.DataFrame(X.astype(object))
    frame[0] = "text"
    assert bigdag.prepare(frame, **chosen).data.named
    assert AutoDAG(adjust="x0", duplicates="group").fit(X).dag_.names == names
    assert not bigdag.prepare(X, drop=["x4"]).data.named  # these are the names by place


def test_nothing_wished_is_the_table_as_it_is():
    frame = chain()
    found = bigdag.prepare(frame)
    np.testing.assert_array_equal(found.data.X, bigdag.data.as_dataset(frame).X)
    assert found.notes == ()
    assert bigdag.prepare(found.data).data is found.data
    before = frame.copy()
    bigdag.prepare(frame, transform="rank", missing="pairwise", drop="v1")
    pd.testing.assert_frame_equal(frame, before)


def test_a_dataset_is_prepared_from_its_own_values():
    frame = chain() + 10
    data = bigdag.data.as_dataset(frame)
    found = bigdag.prepare(data, transform="log1p").data
    np.testing.assert_allclose(found.mean, np.log1p(frame).mean())
    S = bigdag.Dataset.from_covariance(frame.cov(), 400)
    assert bigdag.prepare(S, drop=["v1"], missing="auto", transform="auto").data.n_features == 7
    with pytest.raises(ParameterError, match="keep and drop only"):
        bigdag.prepare(S, transform="rank")


def test_the_order_of_work_is_logarithms_effects_ranks():
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1], 50)
    counts = rng.poisson(np.exp(1 + groups[:, None] + rng.normal(size=(100, 3)))).astype(float)
    frame = pd.DataFrame(counts, columns=names(3)).assign(plate=groups)
    found = bigdag.prepare(frame, transform="log1p", batch="plate").data
    logs = np.log1p(counts)
    wanted = logs - pd.DataFrame(logs).groupby(groups).transform("mean").to_numpy()
    np.testing.assert_allclose(found.X, wanted, atol=1e-9)
    found = bigdag.prepare(frame, transform="rank", batch="plate").data
    left = counts - pd.DataFrame(counts).groupby(groups).transform("mean").to_numpy()
    scores = NormalScores().fit_transform(left)
    np.testing.assert_allclose(found.X, scores - scores.mean(axis=0), atol=1e-9)


def test_constant_columns_stay_constant_under_every_transform():
    frame = chain().assign(one=1.0)
    for transform in ("rank", "log1p", "auto"):
        table = frame.abs()
        with pytest.warns(DataWarning, match="'one'"):
            data = bigdag.prepare(table, transform=transform).data
        assert data.constant.tolist() == [False] * 8 + [True]


def test_raw_tables_set_text_apart():
    frame = pd.DataFrame({"a": [1.0, None], "t": ["x", "y"], "o": [1, None]}).astype({"o": object})
    for table in (frame, pa.Table.from_pandas(frame[["a", "t"]])):
        raw = raw_table(table)
        assert list(raw.text) == ["t"]
        assert raw.text["t"].values.tolist() == ["x", "y"]
        assert np.isnan(raw.X[1, 0])


def test_no_warning_where_nothing_is_odd():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bigdag.prepare(chain(), transform="auto", missing="auto", duplicates="group")


def test_pairs_that_contradict_each_other_leave_it_to_em():
    """Closely related columns: the matrix of the pairs is none of correlations."""
    truth = simulate.random_dag(40, 2, rng=0)
    X = simulate.standardise(simulate.sample(truth, 400, rng=1))
    X[np.random.default_rng(2).random(X.shape) < 0.1] = np.nan
    found = bigdag.prepare(X, missing="auto")
    assert found.missing == "em"
    assert any("contradict each other" in note for note in found.notes)
    expected = missing.em(X.copy(order="F"), found.data.names)
    np.testing.assert_allclose(found.data.covariance, expected.covariance, atol=1e-12)
    asked = bigdag.prepare(X, missing="pairwise")
    assert asked.missing == "pairwise"
    assert any("--missing em" in note for note in asked.notes)
    loose = np.random.default_rng(3).normal(size=(400, 6))
    loose[0, 0] = np.nan
    assert bigdag.prepare(loose, missing="auto").missing == "pairwise"


def test_em_that_begins_near_ends_where_it_always_does():
    X = holed(related(200, 8), 0.1)
    whole = missing.em(X.copy(order="F"), names(8), tol=1e-9)
    sd = np.sqrt(np.diag(whole.covariance))
    start = whole.covariance / np.outer(sd, sd)
    again = missing.em(X.copy(order="F"), names(8), tol=1e-9, start=start)
    np.testing.assert_allclose(again.covariance, whole.covariance, atol=1e-6)


def test_em_says_which_columns_are_never_there_together():
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[:50, 0] = X[50:, 2] = np.nan
    notes = bigdag.prepare(pd.DataFrame(X, columns=["a", "b", "c"]), missing="em").notes
    assert any("'a' and 'c' are both there in no row" in note for note in notes)
    X[:60, 0] = 0.0
    assert len(bigdag.prepare(X, missing="em").notes) == 1


def test_answers_on_a_scale_are_not_taken_for_counts():
    rng = np.random.default_rng(0)
    answers = np.clip(np.round(3 + rng.normal(size=(400, 1)) + rng.normal(size=(400, 8)) / 2), 1, 5)
    table = pd.DataFrame(answers).add_prefix("q")
    table["income"] = np.exp(table["q0"] / 4 + rng.normal(size=400)).round(2)  # one skewed column
    ready = bigdag.prepare(table, transform="auto")
    assert ready.transform != "log1p"
    assert not any("counts" in note for note in ready.notes)


def test_a_quantity_as_batch_is_sent_to_adjust():
    X = np.random.default_rng(0).normal(size=(30, 3))
    with pytest.raises(DataError, match=r"give it as numbers in adjust= \(--adjust\)"):
        bigdag.prepare(pd.DataFrame(X, columns=["a", "b", "age"]), batch="age")


def coded_table():
    """A table whose missing values are words, and the same one with missing values."""
    rng = np.random.default_rng(0)
    whole = pd.DataFrame(rng.normal(size=(60, 4)).round(3), columns=list("abcd"))
    coded = whole.astype({"a": str, "b": str, "c": str})
    for row, column, word in ((0, 0, "n.d."), (3, 1, "?"), (5, 2, " ? ")):
        coded.iloc[row, column] = word
        whole.iloc[row, column] = np.nan
    return coded, whole


@pytest.mark.parametrize(
    "write",
    [
        lambda table, path: table.to_csv(path / "t.csv", index=False),
        lambda table, path: table.to_csv(path / "t.csv", index=False, header=False),
        lambda table, path: table.to_csv(path / "t.tsv", index=False, sep="\t"),
        lambda table, path: table.to_parquet(path / "t.parquet"),
        lambda table, path: table.to_feather(path / "t.feather"),
    ],
    ids=["csv", "no header", "tsv", "parquet", "feather"],
)
def test_words_for_missing_values_in_files(write, tmp_path):
    coded, whole = coded_table()
    write(coded, tmp_path)
    (path,) = tmp_path.iterdir()
    wishes = Wishes(missing="pairwise", missing_code=["?", "n.d."])
    found = read_prepared(path, wishes)
    assert "3 values of '?' or 'n.d.' count as missing." in found.notes
    expected = bigdag.prepare(whole, missing="pairwise")
    np.testing.assert_allclose(found.data.covariance, expected.data.covariance)
    with pytest.raises(DataError, match=r"--missing-code"):
        read_prepared(path, Wishes(missing="pairwise"))


@pytest.mark.parametrize(
    "as_given",
    [lambda t: t, lambda t: t.astype(dict.fromkeys("abc", object)), pa.Table.from_pandas],
    ids=["pandas", "objects", "arrow"],
)
def test_words_for_missing_values_in_memory(as_given):
    coded, whole = coded_table()
    before = coded.copy()
    found = bigdag.prepare(as_given(coded), missing="pairwise", missing_code=["?", "n.d.", -999])
    assert "3 values of -999 or '?' or 'n.d.' count as missing." in found.notes
    expected = bigdag.prepare(whole, missing="pairwise")
    assert found.data.names == expected.data.names
    np.testing.assert_allclose(found.data.covariance, expected.data.covariance)
    assert found.data.about["missing_code"] == ["?", "n.d.", -999]
    pd.testing.assert_frame_equal(coded, before)


def test_words_for_missing_values_make_no_numbers_of_names():
    """Categories stay names, and so does text that is not all numbers without the words."""
    coded, _ = coded_table()
    coded = coded.assign(plate=pd.Categorical(["1", "2", "?"] * 20), site=["x", "?", "y"] * 20)
    with pytest.raises(DataError, match="'plate'") as caught:
        bigdag.prepare(coded, missing="drop", missing_code=["?", "n.d."])
    assert "'site'" in str(caught.value)


def test_a_code_for_missing_values_is_a_number_or_a_word():
    for given in (None, np.nan, "", "nan", [1, None]):
        with pytest.raises(ParameterError, match="missing_code must be a number or a word"):
            bigdag.prepare(np.ones((5, 2)), missing_code=given)
    table = np.random.default_rng(0).normal(size=(5, 2))
    notes = bigdag.prepare(table, missing_code=np.int64(-999)).notes
    assert notes == ("No value is -999, which was to count as missing (missing_code).",)


class Counted(str):
    """Text that counts how often it is looked up."""

    __slots__ = ()
    looked_up = 0

    def __hash__(self):
        Counted.looked_up += 1
        return super().__hash__()


def test_each_name_is_looked_up_a_few_times_only():
    d = 500
    names = tuple(Counted(f"gene{j}") for j in range(d))
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(20, d)))
    Counted.looked_up = 0
    follow(Raw(X, names, True, {}), Wishes(drop=["gene7"], adjust=["gene9"], transform="rank"))
    assert Counted.looked_up < 40 * d  # d for each name would be hours with 100,000


def test_nothing_is_left_of_a_constant_column_when_effects_are_taken_out():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    table = table.assign(one=0.1, two=1e6 / 3, plate=rng.integers(0, 3, 60))
    prepared = bigdag.prepare(table, batch="plate", transform="rank")
    assert [n for n, c in zip(prepared.data.names, prepared.data.constant) if c] == ["one", "two"]
