"""Variables in another sequence: the same scores, the same starts."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bigdag import OrderSearch, metrics, simulate
from bigdag.cli import app
from bigdag.data.dataset import as_dataset
from bigdag.errors import GraphError
from bigdag.graph.align import weights_on_columns
from bigdag.graph.dag import DAG


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
    return result


def test_shuffled_columns_have_the_same_scores(tmp_path):
    world = tmp_path / "world"
    run("simulate", "--d", 20, "--n", 400, "--out", world)
    table = pd.read_parquet(world / "train.parquet")
    scores = []
    for name, columns in {
        "as they were": table.columns,
        "backwards": table.columns[::-1],
        "shuffled": np.random.default_rng(0).permutation(table.columns),
    }.items():
        train, dag = tmp_path / f"{name}.parquet", tmp_path / f"{name}.dag.parquet"
        table[list(columns)].to_parquet(train)
        run("fit", train, "--method", "sort-variance", "--out", dag, "--quiet")
        words = ["--truth", world / "truth.parquet", "--train", train]
        words += ["--data", world / "validation.parquet", "--json"]
        scores.append(json.loads(run("evaluate", dag, *words).stdout)["metrics"])
    assert scores[0]["recall"] > 0.9
    for other in scores[1:]:
        assert other == pytest.approx(scores[0], rel=1e-4)  # the lasso is solved to a tolerance


def test_a_start_is_matched_by_name():
    dag = simulate.random_dag(8, 1, rng=0)
    X = pd.DataFrame(simulate.sample(dag, 300, rng=0), columns=dag.names)
    mixed = X[[dag.names[i] for i in np.random.default_rng(1).permutation(8)]]
    for table in (X, mixed):
        found = weights_on_columns(dag, as_dataset(table), "start")
        arcs = {(table.columns[i], table.columns[j]) for i, j in zip(*found.nonzero())}
        assert arcs == {(a, b) for a, b in dag.edges()[["source", "target"]].to_numpy()}
        search = OrderSearch(start=dag, max_iter=1, time_limit=1e-9).fit(table)
        assert set(map(tuple, search.dag_.edges()[["source", "target"]].to_numpy())) == arcs


def test_an_array_against_a_dag_with_names_is_matched_by_place():
    dag = DAG([[0, 2.0], [0, 0]], ["a", "b"])
    table = as_dataset([[1.0, 2.0], [3.0, 5.0]])
    assert weights_on_columns(dag, table, "start").toarray().tolist() == [[0, 2], [0, 0]]


def test_other_names_are_refused_in_a_few_words():
    table = as_dataset(np.random.default_rng(0).normal(size=(9, 50)), [f"a{i}" for i in range(50)])
    other = DAG(np.zeros((50, 50)), [f"b{i}" for i in range(50)])
    with pytest.raises(GraphError, match=r"start.*'a0', 'a1', 'a2' and 47 more") as caught:
        weights_on_columns(other, table, "start")
    assert len(str(caught.value)) < 300


def test_a_table_for_a_warm_start_is_refused_in_a_few_words(tmp_path):
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(9, 500)))
    table.columns = [f"gene{i}" for i in range(500)]
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        words = ["--warm-start", tmp_path / name, "--out", tmp_path / "o.npz"]
        text = run("fit", tmp_path / "t.csv", *words, code=1).stderr
        assert "no column 'source'" in text
        assert "'gene2' and 497 more" in text
        assert len(text) < 500


def test_other_numbers_of_variables_are_told_by_their_names():
    one = DAG([[0, 1], [0, 0]], ["rain", "river"])
    other = DAG(np.zeros((3, 3)), ["rain", "flood", "snow"])
    with pytest.raises(GraphError, match=r"no 'flood', 'snow'\. It alone has 'river'.*compare"):
        metrics.evaluate(one, other)
    with pytest.raises(GraphError, match=r"Got 3 instead\.$"):  # without names of their own
        metrics.evaluate(DAG(np.zeros((3, 3))), one)
