"""What is known beforehand, in the command: options, files, and what they are refused with."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bigdag import DAG
from bigdag.cli import app


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    X[:, 3] += X[:, 0]
    X[:, 4] += X[:, 1]
    names = ["tf1", "tf2", "g1", "g2", "g3", "age"]
    pd.DataFrame(X, columns=names).to_csv(tmp_path / "t.csv", index=False)
    for name, text in {
        "tfs.txt": "tf1\ntf2\n",
        "more.txt": "tf1\ntf2\ntf3\n",
        "req.csv": "source,target\ntf1,g1\n",
        "back.csv": "g1,tf1\n",
        "tiers.csv": "name,tier\ntf1,0\ng1,1\n",
        "twice.csv": "name,tier\ntf1,0\ntf1,1\n",
        "three.csv": "tf1,g1,0.5\n",
        "k.toml": 'regulators = "tfs.txt"\nrequired_edges = "req.csv"\n',
        "typo.toml": 'regulatrs = ["tf1"]\n',
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_options_and_one_file_say_the_same(folder):
    method = ["--method", "order-search-bic", "--quiet"]
    assert run("fit", "t.csv", "--knowledge", "k.toml", "--out", "a.npz", *method).exit_code == 0
    words = ["--regulators", "tfs.txt", "--require", "req.csv"]
    assert run("fit", "t.csv", *words, "--out", "b.npz", *method).exit_code == 0
    a, b = DAG.load("a.npz"), DAG.load("b.npz")
    assert a == b
    assert a.about["knowledge"] == b.about["knowledge"]
    assert set(a.edges()["source"]) <= {"tf1", "tf2"}
    assert a.edges().query("required")[["source", "target"]].to_numpy().tolist() == [["tf1", "g1"]]
    assert "required" in run("show", "a.npz").stdout


def test_tiers_roots_sinks_and_names_with_commas(folder):
    words = ["--tiers", "tiers.csv", "--roots", "age,tf*", "--sinks", "g2", "--json"]
    report = json.loads(run("fit", "t.csv", *words, "--out", "a.npz").stdout)
    assert report["knowledge"]["root_nodes"] == ["age", "tf*"]
    dag = DAG.load("a.npz")
    assert not any(dag.parents(v) for v in ("age", "tf1", "tf2"))
    assert dag.children("g2") == []


@pytest.mark.parametrize("threshold", [5.0, "auto"])
def test_a_threshold_and_a_search_spare_what_is_required(folder, threshold):
    words = ["--require", "req.csv", "--method", "sort-variance", "--search", "--quiet"]
    assert run("fit", "t.csv", *words, "--threshold", threshold, "--out", "a.npz").exit_code == 0
    assert DAG.load("a.npz").parents("g1")[0] == "tf1"


def test_names_that_were_not_measured(folder):
    words = ["fit", "t.csv", "--regulators", "more.txt", "--quiet", "--out", "a.npz"]
    assert run(*words).exit_code == 2
    assert run(*words, "--ignore-unmatched").exit_code == 0


def test_check_says_what_it_means(folder):
    stdout = run("knowledge", "check", "k.toml", "--table", "t.csv").stdout
    assert "10 of 30" in stdout
    found = json.loads(run("knowledge", "check", "k.toml", "--table", "t.csv", "--json").stdout)
    assert (found["n_possible"], found["n_in_search"], found["n_required"]) == (10, 2, 1)
    assert "Nothing contradicts" in run("knowledge", "check", "k.toml").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--knowledge", "typo.toml"], "Did you mean 'regulators'"),
        (["--tiers", "twice.csv"], "'tf1' twice"),
        (["--forbid", "three.csv"], "two columns"),
        (["--regulators", "nope.txt"], "no file nope.txt"),
        (["--regulators", "tf9"], "matches no variable"),
        (["--require", "req.csv", "--forbid", "req.csv"], "'tf1' -> 'g1' is required, but"),
        (["--tiers", "tiers.csv", "--require", "back.csv"], "later tier"),
        (["--knowledge", "k.toml", "--regulators", "tf1"], "says regulators already"),
        (["--ignore-unmatched"], "goes with --knowledge"),
        (["--sinks", "g1,"], "empty name"),
        (["--regulators", "tf1", "--drop", "tf1"], "'tf1' was left out of the variables"),
        (["--roots", "tf*", "--drop", "tf1,tf2"], "'tf1', 'tf2' were left out"),
        (["--roots", "age,g1", "--adjust", "age"], "'age' was left out of the variables"),
        (["--set", 'knowledge={"regulators": ["tf1"]}'], "give it by --knowledge"),
        (["--target", "g1", "--drop", "g1"], "'g1', which was left out of the variables"),
        (["--target", "g9"], "target must be a column of the table. Got 'g9'"),
    ],
)
def test_bad_knowledge_is_one_sentence_and_no_file(folder, words, said):
    result = run("fit", "t.csv", *words, "--out", "a.npz")
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert not (folder / "a.npz").exists()


def test_names_are_refused_before_the_table_is_prepared(folder, monkeypatch):
    def never(*_):
        raise AssertionError("The table was transformed first.")

    monkeypatch.setattr("bigdag.data.prepare._transformed", never)
    result = run("fit", "t.csv", "--regulators", "tf9", "--out", "a.npz")
    assert result.exit_code == 2
    assert "--regulators names 'tf9'" in result.stderr


def test_a_name_in_a_group_is_not_passed_over(folder):
    table = pd.read_csv("t.csv").assign(tf3=lambda t: t["g1"])  # g1 stands for it
    table.to_csv("copies.csv", index=False)
    words = ["--regulators", "tf3,tf1", "--duplicates", "group", "--ignore-unmatched", "--json"]
    report = json.loads(run("fit", "copies.csv", *words, "--out", "a.npz").stdout)
    assert report["groups"] == {"g1": ["tf3"]}
    assert report["knowledge_absent"] == []


def test_places_in_a_table_without_names(folder):
    np.save("plain.npy", pd.read_csv("t.csv").to_numpy())
    (folder / "places.toml").write_text("regulators = [0, 1]\nrequired_edges = [[0, 2]]")
    for words in ([], ["--target", "x2"]):
        words = ["--knowledge", "places.toml", *words, "--force", "--quiet", "--out", "a.npz"]
        assert run("fit", "plain.npy", *words).exit_code == 0
        assert "x0" in DAG.load("a.npz").parents("x2")
        assert set(DAG.load("a.npz").edges()["source"]) <= {"x0", "x1"}
    assert "10 of 30" in run("knowledge", "check", "places.toml", "--table", "plain.npy").stdout


def test_check_of_a_table_with_an_empty_and_a_constant_column(folder, recwarn):
    table = pd.read_csv("t.csv").assign(none=np.nan, same=1.0)
    table.to_csv("odd.csv", index=False)
    (folder / "odd.toml").write_text('regulators = ["none", "same", "tf1"]')
    found = json.loads(run("knowledge", "check", "odd.toml", "--table", "odd.csv", "--json").stdout)
    assert found["constant_causes"] == ["none", "same"]
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]
    (folder / "odd.toml").write_text('regulators = ["same"]')
    result = run("knowledge", "check", "odd.toml", "--table", "odd.csv")
    assert result.exit_code == 1
    assert "The only regulator of the table, 'same', is constant" in " ".join(result.stderr.split())


def test_one_variable_of_a_table(folder):
    words = ["--method", "order-search-bic", "--out", "a.npz", "--target", "g2"]
    report = json.loads(run("fit", "t.csv", *words, "--radius", 1, "--json").stdout)
    assert "columns" in report["around"]
    dag = DAG.load("a.npz")
    assert set(dag.names) == {"g2", "tf1"}
    assert "looked at" in dag.about["around"]
    result = run("fit", "t.csv", "--target", "g9", "--out", "b.npz")
    assert result.exit_code == 2
    assert "Got 'g9' instead. The table has" in " ".join(result.stderr.split())
    assert run("fit", "t.csv", "--radius", 1, "--out", "b.npz").exit_code == 2
    words += ["--regulators", "tf1", "--force", "--quiet"]
    assert run("fit", "t.csv", *words).exit_code == 0
    assert set(DAG.load("a.npz").edges()["source"]) == {"tf1"}
    assert DAG.load("a.npz").about["knowledge"] == {"regulators": ["tf1"]}


def chain(path, n_columns):
    """Write a table in which each column causes the next one."""
    X = np.random.default_rng(1).normal(size=(300, n_columns))
    for j in range(1, n_columns):
        X[:, j] += X[:, j - 1]
    pd.DataFrame(X, columns=[f"v{j}" for j in range(n_columns)]).to_csv(path, index=False)


@pytest.mark.parametrize(
    "words", [[], ["--method", "order-search-bic", "--bootstrap", 20, "--seed", 0]]
)
def test_one_variable_whose_surroundings_hold_more_columns_than_the_answer(folder, words):
    chain("chain.csv", 5)
    words = ["--target", "v0", "--radius", 1, "--out", "a.npz", "--json", *words]
    result = run("fit", "chain.csv", *words)
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert "Of 5 columns 5 were looked at" in report["around"]
    assert set(DAG.load("a.npz").names) == {"v0", "v1"}
    assert report["n_variables"] == 2
    assert report["var_sortability"] in (0.0, 1.0)


def test_one_variable_is_told_what_is_odd_around_it_only(folder):
    chain("chain.csv", 8)
    table = pd.read_csv("chain.csv")
    rng = np.random.default_rng(2)
    table["far"] = np.exp(4 * rng.normal(size=300))  # is not looked at
    table["v1"] = np.exp(4 * table["v1"])
    table.to_csv("skewed.csv", index=False)
    words = ["--method", "order-search-bic", "--target", "v2", "--json", "--out", "a.npz"]
    report = json.loads(run("fit", "skewed.csv", *words).stdout)
    columns = {name for finding in report["findings"] for name in finding["columns"]}
    assert "far" not in columns
    assert {"outliers", "skewed"} & {finding["finding"] for finding in report["findings"]}
    words = [*words, "--transform", "rank", "--force"]
    report = json.loads(run("fit", "skewed.csv", *words).stdout)
    assert not {"outliers", "skewed"} & {finding["finding"] for finding in report["findings"]}


def test_one_variable_of_a_table_with_holes(folder):
    chain("chain.csv", 8)
    table = pd.read_csv("chain.csv")
    table["far"] = np.random.default_rng(2).normal(size=300)  # is not looked at
    table[::7] = table[::7].mask(np.random.default_rng(3).random(table[::7].shape) < 0.2)
    table.to_csv("holes.csv", index=False)
    words = ["--target", "v0", "--radius", 1, "--missing", "pairwise", "--out", "a.npz"]
    result = run("fit", "holes.csv", *words, "--bootstrap", 20, "--seed", 0, "--quiet")
    assert result.exit_code == 0, result.stderr
    assert set(DAG.load("a.npz").names) == {"v0", "v1"}


def test_names_that_are_passed_over_are_told(folder):
    words = ["--regulators", "more.txt", "--ignore-unmatched", "--out", "a.npz", "--no-bootstrap"]
    told = " ".join(run("fit", "t.csv", *words).stdout.split())
    assert "regulators (3); 'tf3' is not a variable of the table, and was passed over" in told
    (folder / "more.toml").write_text('regulators = "more.txt"')
    words = ["knowledge", "check", "more.toml", "--table", "t.csv"]
    assert run(*words).exit_code == 2
    result = run(*words, "--ignore-unmatched")
    assert result.exit_code == 0
    assert "'tf3': not in the table" in " ".join(result.stdout.split())
