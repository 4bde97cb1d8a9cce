"""The word check-dag: whether a table suits a DAG, and in which words it is said."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bigdag import DAG, AutoDAG, metrics, simulate
from bigdag.cli import app


def bigdag_(*words, code=0):
    result = CliRunner().invoke(app, ["check-dag", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return " ".join((result.stdout if not code else result.stderr).split())


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    truth = simulate.random_dag(15, 1, rng=0)
    for name, seed in (("learnt", 1), ("other", 2)):
        frame = pd.DataFrame(simulate.sample(truth, 400, rng=seed)).add_prefix("x")
        frame.to_parquet(f"{name}.parquet")
    truth.save("truth.npz")
    return truth


def test_the_truth_suits_and_a_wrong_graph_does_not(world):
    said = bigdag_("truth.npz", "other.parquet")
    assert "400 samples of 15 variables" in said
    assert "as many as chance would" in said
    assert "likelier under the DAG than under any of 20 graphs" in said
    DAG(world.weights.T * 0, world.names).save("empty.npz")
    assert "more than chance would: arcs are missing" in bigdag_("empty.npz", "other.parquet")


def test_the_figures_are_those_of_the_library(world):
    found = metrics.markov_check(world, pd.read_parquet("other.parquet"), rng=0, n_tests=300)
    words = ("truth.npz", "other.parquet", "--tests", 300, "--json")
    report = json.loads(CliRunner().invoke(app, ["check-dag", *map(str, words)]).stdout)
    assert report["rejected"] == found.rejected
    assert report["n_near"] == found.n_near
    assert report["log_likelihood"] == pytest.approx(found.log_likelihood)
    assert report["log_likelihood_permuted"] == pytest.approx(found.permuted.tolist())


def test_the_table_goes_on_the_scale_of_the_dag(world):
    table = pd.read_parquet("learnt.parquet")
    group = np.arange(400) % 2
    for name in ("learnt", "other"):
        frame = np.exp(pd.read_parquet(f"{name}.parquet") / 2 + group[:, None])
        frame.iloc[3, 2] = np.nan
        frame.assign(plate=group, note="as written").to_csv(f"{name}.csv", index=False)
    table = pd.read_csv("learnt.csv").drop(columns="note")
    AutoDAG(transformation="rank", batch="plate").fit(table).dag_.save("dag.npz")
    said = bigdag_("dag.npz", "other.csv")
    assert "399 samples of 15 variables" in said
    assert "The effect of 'plate'" in said
    assert "Normal scores of ranks took the place" in said
    assert "1 of 400 rows was left out" in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["truth.npz", "narrow.csv"], "The DAG names no column of the table. Got 'x14'"),
        (["truth.npz", "other.parquet", "--alpha", "2"], "alpha must be between 0 and 1"),
        (["truth.npz", "other.parquet", "--batch", "plate"], "plate"),
    ],
)
def test_bad_input_is_one_sentence(world, words, sentence):
    pd.read_parquet("other.parquet").iloc[:, :14].to_csv("narrow.csv", index=False)
    assert sentence in bigdag_(*words, code=2)


def test_groups_that_are_numbers_stay_groups(world):
    rng = np.random.default_rng(5)
    plate = rng.integers(1, 7, size=400)
    shift = rng.normal(size=(7, 15)) * 5
    frame = pd.read_parquet("other.parquet") + shift[plate]
    frame.assign(plate=plate).to_csv("plates.csv", index=False)
    table = pd.read_csv("plates.csv")
    AutoDAG(transformation="none", batch="plate").fit(table).dag_.save("dag.npz")
    assert "likelier under the DAG than under any of 20" in bigdag_("dag.npz", "plates.csv")


def test_nothing_to_test_is_said(world):
    DAG(np.zeros((2, 2)), ["x0", "x1"]).save("empty.npz")
    frame = pd.read_parquet("other.parquet").iloc[:, :2].assign(x1=3.0)
    frame.to_csv("constant.csv", index=False)
    said = bigdag_("empty.npz", "constant.csv")
    assert "no independence that could be tested" in said
    assert "shuffled:" not in said
    assert "nan" not in said
