"""The words ``effect`` and ``compare``, and CSV files of arcs: what they say, what they refuse."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bigdag import DAG, AutoDAG, LinearModel, OrderSearch, metrics, prepare, simulate
from bigdag.cli import app
from bigdag.data import as_dataset
from bigdag.errors import DataError


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
    return result


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Work in a folder with some DAGs."""
    monkeypatch.chdir(tmp_path)
    names = ["rain", "river", "flood", "[red]wind[/red]"]
    W = np.zeros((4, 4))
    W[0, 1], W[1, 2] = 2.0, -3.0
    plain = DAG(W, names)
    plain.save("plain.json")
    LinearModel(
        plain.annotated(reversible=W == 2.0), [1, 2, 3, 4], noise_variances=np.ones(4)
    ).save("open.parquet")
    plain.annotated(reversible=W == 2.0).save("bare.npz")
    DAG(W.T, names).save("turned.json")
    DAG(np.zeros((2, 2)), ["a", "b"]).save("other.json")
    Path("cycle.csv").write_text("source,target\na,b\nb,a\n")
    Path("table.csv").write_text("a,b\n1,2\n3,5\n")
    return tmp_path


def test_effect_of_one_variable_on_another():
    report = json.loads(run("effect", "plain.json", "rain", "flood", "--json").stdout)
    assert report["total_effect"] == -6
    assert report["possible_effects"] == [-6]
    text = run("effect", "plain.json", "rain", "flood").stdout
    assert "-6; so much does flood change when rain is raised by 1" in text
    assert "no directed path" in run("effect", "plain.json", "flood", "rain").stdout
    model = LinearModel.load("open.parquet")
    report = json.loads(run("effect", "open.parquet", "rain", "flood", "--json").stdout)
    assert report["possible_effects"] == model.possible_effects("rain", "flood").tolist() == [-6, 0]
    assert "from -6 to 0" in run("effect", "open.parquet", "rain", "flood").stdout


def test_effect_of_one_variable_on_all():
    report = json.loads(run("effect", "plain.json", "rain", "--json").stdout)
    assert report["effects"] == [
        {"effect": "flood", "total_effect": -6.0}, {"effect": "river", "total_effect": 2.0},
    ]  # fmt: skip
    assert "on 2 variables; the 1 largest" in run("effect", "plain.json", "rain", "--top", 1).stdout
    assert "[red]wind[/red] affects no" in run("effect", "plain.json", "[red]wind[/red]").stdout
    text = run("effect", "open.parquet", "river").stdout
    assert "lowest" in text
    assert "leave 2 sets" in text


def test_effects_on_standardised_columns_say_so():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    X[:, 1] += X[:, 0]
    pd.DataFrame(X * [1, 100], columns=["a", "b"]).to_csv("t.csv", index=False)
    words = ["--method", "sort-variance", "--lambda1", 0, "--quiet"]
    for name, more in (("raw", []), ("scaled", ["--standardise"])):
        run("fit", "t.csv", *words, *more, "--out", f"{name}.npz")
    dag = DAG.load("scaled.npz")
    ends = (dag.names[v] for v in dag.order)
    assert "in standard deviations" in run("effect", "scaled.npz", *ends).stdout
    assert "deviations" not in run("effect", "raw.npz", "a", "b").stdout


def lognormal(seed=0, n=150):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] += X[:, 0]
    return pd.DataFrame(np.exp(X), columns=["a", "b", "c"])


@pytest.mark.parametrize("suffix", ["parquet", "csv", "json", "npz", "graphml"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--transform", "rank"], "normal scores of ranks"),
        (["--transform", "log1p"], "logarithms"),
        (["--transform", "none"], "in the units of the table"),
        (["--transform", "none", "--adjust", "c"], "the effect of 'c' was taken out first"),
        (["--transform", "rank", "--standardise"], "standard deviations of normal scores of ranks"),
    ],
)
def test_a_file_says_in_which_units_effects_are(words, said, suffix):
    lognormal().to_csv("t.csv", index=False)
    run("fit", "t.csv", *words, "--bootstrap", 10, "--out", f"f.{suffix}", "--quiet")
    assert said in run("effect", f"f.{suffix}", "a").stdout
    assert said in json.loads(run("effect", f"f.{suffix}", "a", "b", "--json").stdout)["units"]
    assert json.loads(run("effect", "plain.json", "rain", "--json").stdout)["units"] is None
    model, frame = (
        LinearModel.load(f"f.{suffix}"),
        lognormal(1)[list(DAG.load(f"f.{suffix}").names)],
    )
    asked = [model.predict, model.score, model.impute]
    if said == "in the units of the table":
        assert all(ask(frame) is not None for ask in asked)
        return
    for ask in asked:
        with pytest.raises(DataError, match="The model is of"):
            ask(frame)
        ask(frame, transformed=True)


def test_groups_of_copies_go_with_the_file_of_any_learner():
    frame = lognormal().assign(d=lambda f: 2 * f["a"])
    found = prepare(frame, transform="rank", duplicates="group", drop="c")
    for learner in (OrderSearch(), AutoDAG()):
        learner.fit(found.data).save("groups.csv", force=True)
        about = DAG.load("groups.csv").about
        assert about["groups"] == {"a": ["d"]}
        assert about["transform"] == "rank"
        with pytest.raises(DataError, match="ranks"):
            learner.score(frame[["a", "b"]])
        learner.score(found.data)
        learner.predict(found.data)
    AutoDAG(duplicates="group").fit(frame).save("own.json")
    assert DAG.load("own.json").about["groups"] == {"a": ["d"]}


def test_a_model_fitted_to_other_data_is_on_their_scale():
    frame = lognormal()
    dag = AutoDAG(transformation="rank").fit(frame).dag_
    with pytest.raises(DataError, match="ranks"):
        LinearModel.from_data(dag, frame, refit=False)
    model = LinearModel.from_data(dag, frame)
    np.testing.assert_allclose(model.predict(frame).mean(), frame.mean())
    ranked = prepare(frame, transform="rank").data
    assert LinearModel.from_data(dag, ranked).dag.about["transform"] == "rank"


def test_wishes_for_a_checked_table_are_heard():
    data = as_dataset(lognormal())
    assert AutoDAG(transformation="rank").fit(data).prepared_.transform == "rank"
    assert AutoDAG(adjust=["c"]).fit(data).dag_.names == ("a", "b")
    assert AutoDAG().fit(data).prepared_.transform == "none"
    twice = prepare(prepare(lognormal(), transform="log1p").data, adjust=["c"]).data
    assert twice.about["transform"] == "log1p"
    assert twice.about["adjusted"] == ["c"]


def test_standardised_columns_with_gaps_have_no_mean_of_the_table():
    frame = np.log(lognormal()) + 100
    frame.iloc[::7, 0] = np.nan
    frame.to_csv("t.csv", index=False)
    run("fit", "t.csv", "--missing", "pairwise", "--standardise", "--out", "f.json", "--quiet")
    model = LinearModel.load("f.json")
    assert not model.means.any()


def test_compare_says_what_both_have():
    report = json.loads(run("compare", "plain.json", "turned.json", "--json").stdout)
    assert (report["reversed"], report["same"], report["shd"]) == (2, 0, 2)
    assert report["differences"][0]["weight_a"] == -3
    report = json.loads(run("compare", "plain.json", "open.parquet", "--json").stdout)
    assert (report["undirected_b"], report["same"]) == (1, 1)
    words = ["--threshold", 2.5, "--out", "both.csv"]
    text = run("compare", "plain.json", "turned.json", *words).stdout
    assert "Written to both.csv" in text
    expected = metrics.compare(
        *(DAG.load(name).threshold(2.5) for name in ("plain.json", "turned.json"))
    )
    pd.testing.assert_frame_equal(pd.read_csv("both.csv"), expected.table, check_dtype=False)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["effect", "plain.json", "rian", "flood"], 2, "CAUSE: There is no node 'rian'"),
        (["effect", "plain.json", "rian"], 2, "Did you mean 'rain'"),
        (["effect", "plain.json", "rain", "flod"], 2, "Did you mean 'flood'"),
        (["effect", "none.json", "rain", "flood"], 2, "does not exist"),
        (["effect", "table.csv", "a", "b"], 1, "no column 'source'"),
        (["effect", "cycle.csv", "a", "b"], 1, "cycle: a -> b -> a"),
        (["effect", "bare.npz", "rain", "flood"], 1, "noise variances are needed"),
        (["effect", "plain.json"], 2, "CAUSE"),
        (["compare", "plain.json", "other.json"], 1, "no variable in common"),
        (["compare", "plain.json", "table.csv"], 1, "no column 'source'"),
        (["compare", "plain.json", "none.json"], 2, "does not exist"),
        (["compare", "plain.json", "turned.json", "--out", "c.parquet"], 2, "end in .csv"),
        (["compare", "plain.json", "turned.json", "--out", "table.csv"], 2, "exists already"),
        (["compare", "plain.json", "turned.json", "--threshold", "-1"], 2, "at least 0"),
        (["fit", "t.nodes.csv", "--out", "t.csv", "--force"], 2, "is the table itself"),
        (["fit", "table.csv", "--out", "plain.csv"], 2, "plain.nodes.csv exists already"),
    ],
)  # fmt: skip
def test_bad_words_and_files_end_in_one_sentence(words, code, said):
    Path("t.nodes.csv").write_text("a,b\n1,2\n3,5\n")
    Path("plain.nodes.csv").write_text("mine")
    before = {name: Path(name).read_bytes() for name in os.listdir()}
    result = run(*words, code=code)
    assert said in " ".join(result.stderr.replace("│", " ").split())
    assert "Traceback" not in result.stderr
    assert {name: Path(name).read_bytes() for name in os.listdir()} == before


def test_a_fit_to_a_csv_writes_both_files_and_carries_the_model(monkeypatch):
    truth = simulate.random_dag(6, 1, rng=0)
    X = simulate.sample(truth, 200, rng=1) + 3
    pd.DataFrame(X, columns=list("abcdef")).to_csv("t.csv", index=False)
    words = ["--method", "sort-variance", "--threshold", 0.3]
    text = run("fit", "t.csv", "--out", "dag.csv", *words).stdout
    assert "Written to dag.csv, and all variables to dag.nodes.csv" in text
    run("fit", "t.csv", "--out", "dag.parquet", *words, "--quiet")
    dag = DAG.load("dag.parquet")
    assert DAG.load("dag.csv") == dag
    assert dag.about["method"] == "sort-variance"
    assert dag.about["threshold"] == 0.3
    model = LinearModel.load("dag.parquet")
    np.testing.assert_allclose(model.means, X.mean(axis=0))
    residuals = pd.DataFrame(X, columns=list("abcdef")) - model.predict(X)
    np.testing.assert_allclose((residuals**2).mean(), model.noise_variances)  # after the threshold
    run("fit", "t.csv", "--out", "dag.csv", *words, "--force", "--quiet")
    assert DAG.load("dag.csv") == dag


def test_show_prints_what_is_known_of_arcs():
    DAG.load("plain.json").annotated(
        arc_data={"probability": [0.875, np.nan], "required": [True, False]}
    ).save("more.graphml")
    text = run("show", "more.graphml").stdout
    assert "probability" in text
    assert "0.875" in text
    assert "yes" in text
    strongest = json.loads(run("show", "more.graphml", "--json").stdout)["strongest"]
    assert [arc["probability"] for arc in strongest] == [0.875, None]
