"""The command, end to end in a temporary folder."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from typer.main import get_command
from typer.testing import CliRunner

import bigdag
from bigdag import AutoDAG, OrderSearch, metrics
from bigdag.cli import app
from bigdag.cli.postponed import postpone
from bigdag.data.tables import read_table
from bigdag.graph.dag import DAG
from bigdag.learners.base import Learner
from bigdag.learners.methods import METHODS, Method
from bigdag.search.ebic import arc_cost
from bigdag.simulate import noise_scales, random_dag, sample, standardise
from fake_runs import started, wait_until

COMMAND = [sys.executable, "-m", "bigdag.cli"]
PROXIMAS = ["--method", "proximas"]
NAMED = [word for word in METHODS if word != "auto"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")  # typer's own messages are not folded


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulated") / "world"
    words = ["simulate", "--d", "30", "--k", "1", "--n", "300", "--seed", "3", "--out", str(folder)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return folder


def bigdag_(*words, code=0):
    """Run the command in this process; return stdout and stderr."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
    assert "Traceback" not in result.stderr
    return result.stdout, result.stderr


def bigdag_json(*words, code=0):
    stdout, _ = bigdag_(*words, "--json", code=code)
    return json.loads(stdout)


def one_line(text):
    return " ".join(text.replace("│", " ").split())


def table(name="t.csv", n=60, d=4, seed=0, edit=None):
    """Write a table of a chain of causes, changed by `edit`, and return its path."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    for j in range(1, d):
        X[:, j] += 1.5 * X[:, j - 1]
    frame = pd.DataFrame(X, columns=[f"v{j}" for j in range(d)])
    frame = frame if edit is None else edit(frame)
    frame.to_csv(name, index=False)
    return name


class Scripted(Learner):
    """A learner that offers one arc a step, and does in step 3 what its class says."""

    end = "converged"

    def __init__(
        self, lambda1=0.1, *, max_iter=None, time_limit=None, random_state=None, callback=None,
        warm_start_dag=None, n_jobs=None, memory_limit=None, verbose=False,
    ):  # fmt: skip
        for name, value in list(locals().items()):
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    def _learn(self, run):
        d = run.gram.d
        for k in range(1, min(d, 4)):
            weights = sp.csc_array((np.full(k, 0.5), (np.arange(k), np.arange(1, k + 1))), (d, d))
            run.offer(weights, np.arange(d), run.best_objective - 1.0)
            if k == 3 and self.end == "interrupted":
                raise KeyboardInterrupt
            if k == 3 and self.end == "diverged":
                raise FloatingPointError("it is infinite")
            if run.step("scripted", run.best_objective, k, weights.copy):
                return


@pytest.fixture
def scripted(monkeypatch):
    """Add the method `scripted`, which ends as the test says."""

    def ends(how):
        kind = type("Scripted", (Scripted,), {"end": how, "__init__": Scripted.__init__})
        row = Method("scripted", "Scripted", "for tests", False)
        monkeypatch.setattr(bigdag, "Scripted", kind, raising=False)
        monkeypatch.setattr(
            "bigdag.learners.methods.METHODS", {"scripted": row, "proximas": METHODS["proximas"]}
        )

    return ends


# ------------------------------------------------------------------ the whole way


def test_simulate_fit_evaluate_show(world):
    words = [*PROXIMAS, "--out", "dag.parquet", "--seed", 1]
    fitted = bigdag_json("fit", world / "train.parquet", *words)
    assert fitted["status"] == "converged"
    assert (fitted["n_samples"], fitted["n_variables"]) == (300, 30)
    dag, truth = DAG.load("dag.parquet"), DAG.load(world / "truth.parquet")
    assert dag.n_arcs == fitted["n_arcs"] == fitted["n_arcs_found"]
    assert fitted["strongest"] == dag.edges(10).to_dict("records")
    X = read_table(world / "train.parquet").X
    W = dag.weights.toarray()
    loss = 0.5 * np.sum((X @ W - X) ** 2) / len(X) + 0.1 * np.abs(W).sum()
    assert fitted["objective"] == pytest.approx(loss, rel=1e-9)
    assert fitted["var_sortability"] == pytest.approx(metrics.var_sortability(X, dag))

    words = ["evaluate", "dag.parquet", "--truth", world / "truth.parquet"]
    words += ["--data", world / "validation.parquet", "--train", world / "train.parquet"]
    found = bigdag_json(*words)["metrics"]
    assert found["average_precision"] == metrics.average_precision(dag, truth) > 0.7
    train, validation = (read_table(world / f"{name}.parquet") for name in ("train", "validation"))
    assert found["nll_ev"] == pytest.approx(
        metrics.gaussian_nll(dag.threshold(0.3), train, validation)
    )
    stdout, _ = bigdag_(*words)
    assert "average precision" in stdout
    assert "negative log-likelihood" in stdout

    name = dag.edges(1)["target"][0]
    shown = bigdag_json("show", "dag.parquet", "--variable", name, "--radius", 2)
    assert [arc["source"] for arc in shown["variable"]["parents"]] != []
    assert sorted(a["source"] for a in shown["variable"]["parents"]) == sorted(dag.parents(name))
    assert sorted(a["target"] for a in shown["variable"]["children"]) == sorted(dag.children(name))
    assert shown["variable"]["markov_blanket"] == dag.markov_blanket(name)
    stdout, _ = bigdag_("show", "dag.parquet", "--top", 3, "--threshold", 0.3)
    assert "Strongest arcs" in stdout
    assert f"{dag.threshold(0.3).n_arcs} with a weight above 0.3" in stdout


def test_simulate_writes_one_model_and_repeats_to_the_bit(world):
    words = ["simulate", "--d", 30, "--k", 1, "--n", 300, "--seed", 3]
    bigdag_(*words, "--out", "again")
    files = sorted(os.listdir("again"))
    assert files == ["card.json", "train.parquet", "truth.parquet", "validation.parquet"]
    for file in files:
        assert Path("again", file).read_bytes() == (world / file).read_bytes()
    card = json.loads(Path("again/card.json").read_text())
    truth = DAG.load("again/truth.parquet")
    train = read_table("again/train.parquet")
    assert card["arcs"] == truth.n_arcs == 30
    assert card["var_sortability"] == pytest.approx(metrics.var_sortability(train, truth))
    assert train.names == tuple(f"x{j}" for j in range(30))


@pytest.mark.parametrize("units", ["--standardise", "--iscm"])
def test_a_world_in_other_units_keeps_truth_and_tables_together(units):
    words = ["--d", 20, "--k", 2, "--n", 4000, "--validation", 3000, "--variance", "NV", units]
    card = bigdag_json("simulate", *words, "--out", "w")
    truth = DAG.load("w/truth.parquet").weights.toarray()
    for name, rows in (("train", 4000), ("validation", 3000)):
        data = read_table(f"w/{name}.parquet")
        assert data.X.shape == (rows, 20)
        np.testing.assert_allclose(data.X.var(axis=0), 1.0, atol=0.2)
        # The noise of a model is no function of the parents: regressions give the truth back.
        for j in range(20):
            parents = np.flatnonzero(truth[:, j])
            fit = np.linalg.lstsq(data.X[:, parents], data.X[:, j], rcond=None)[0]
            np.testing.assert_allclose(fit, truth[parents, j], atol=0.12)
    assert abs(card["var_sortability"] - 0.5) < 0.3


def test_scale_is_another_word_for_variance_and_in_no_help():
    words = ["simulate", "--d", 9, "--k", 1, "--n", 20]
    cards = [
        bigdag_json(*words, option, "NV", "--out", option[2:])
        for option in ("--variance", "--scale")
    ]
    assert cards[0]["variance"] == "NV"
    assert Path("variance/train.parquet").read_bytes() == Path("scale/train.parquet").read_bytes()
    stdout, _ = bigdag_("simulate", "--help")
    assert "--variance" in stdout
    assert "--scale" not in stdout


def test_a_world_as_real_tables_are(world):
    words = ["simulate", "--d", 30, "--k", 1, "--n", 300, "--seed", 3, "--mixed-units"]
    bigdag_(*words, "--out", "units")
    plain, mixed = (read_table(f"{name}/train.parquet").X for name in (world, "units"))
    sizes = (mixed / plain)[0]
    np.testing.assert_allclose(mixed, plain * sizes, rtol=1e-9)
    assert 0.01 <= sizes.min() < 0.1 < 10 < sizes.max() <= 100
    before, after = (DAG.load(f"{name}/truth.parquet").weights for name in (world, "units"))
    i, j = before.nonzero()
    np.testing.assert_allclose(after[i, j], before[i, j] * sizes[j] / sizes[i])

    stdout, _ = bigdag_(*words, "--outliers", 0.02, "--missing", 0.05, "--out", "damaged")
    assert "0.02 of the training values are outliers, 0.05 are missing" in stdout
    assert "mixed" in stdout
    frame = pd.read_parquet("damaged/train.parquet")
    raw = pd.read_parquet("units/train.parquet")
    far = frame / raw
    assert frame.isna().mean().mean() == pytest.approx(0.05, abs=0.01)
    assert (far > 5).mean().mean() == pytest.approx(0.02, abs=0.01)
    assert ((far - 1).abs() < 1e-9).mean().mean() == pytest.approx(0.93, abs=0.015)
    for file in ("truth", "validation"):
        same = (Path(name, f"{file}.parquet").read_bytes() for name in ("units", "damaged"))
        assert len(set(same)) == 1
    cards = [json.loads(Path(name, "card.json").read_text()) for name in ("units", "damaged")]
    assert cards[0]["var_sortability"] == cards[1]["var_sortability"]


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".graphml", ".json", ".parquet"])
def test_every_format_of_a_dag(suffix):
    bigdag_("fit", table(), "--out", f"dag{suffix}", "--quiet")
    assert bigdag_json("show", f"dag{suffix}")["n_variables"] == 4


def test_a_dot_file_is_written_and_not_read():
    bigdag_("fit", table(), "--out", "dag.dot", "--quiet")
    assert Path("dag.dot").read_text().startswith("digraph")
    assert ".graphml" in bigdag_("show", "dag.dot", code=2)[1]


def test_names_and_tables_without_a_header():
    assert bigdag_json("fit", table("named.v2.csv"))["out"] == "named.v2.dag.parquet"
    assert DAG.load("named.v2.dag.parquet").names == ("v0", "v1", "v2", "v3")
    frame = pd.read_csv(table("t.csv"))
    with gzip.open("bare.csv.gz", "wt") as file:
        frame.to_csv(file, index=False, header=False)
    assert bigdag_json("fit", "bare.csv.gz")["n_samples"] == 60
    assert bigdag_json("fit", "bare.csv.gz", "--no-header", "--force")["n_samples"] == 60
    assert bigdag_json("fit", "bare.csv.gz", "--header", "--force")["n_samples"] == 59


def test_threshold_and_set_and_no_refit_reach_the_learner():
    fit = ["fit", table(), *PROXIMAS, "--lambda1", 0.01]
    plain = bigdag_json(*fit, "--out", "a.npz")
    cut = bigdag_json(*fit, "--threshold", 0.5, "--out", "b.npz")
    assert cut["n_arcs_found"] == plain["n_arcs"]
    assert DAG.load("b.npz") == DAG.load("a.npz").threshold(0.5)
    words = ["--no-refit", "--set", "improve=true", "--set", "tol=1e-3"]
    other = bigdag_json(*fit, *words, "--out", "c.npz")
    assert other["parameters"] == {"lambda1": 0.01, "refit": False, "improve": True, "tol": 1e-3}
    assert not other["refit_gain"]


def test_a_covariance_matrix_gives_what_its_table_gives():
    frame = pd.read_csv(table(n=200, d=6))
    frame.cov(ddof=0).to_csv("cov.csv")
    bigdag_("fit", "t.csv", "--quiet", "--no-bootstrap", "--out", "a.npz")
    _, stderr = bigdag_("fit", "cov.csv", "--covariance", "--n-samples", 200, "--out", "b.npz")
    assert "row labels" in stderr
    a, b = DAG.load("a.npz"), DAG.load("b.npz")
    assert a.names == b.names
    np.testing.assert_allclose(a.weights.toarray(), b.weights.toarray(), atol=1e-6)


def test_standardise_makes_the_answer_free_of_units():
    frame = pd.read_csv(table())
    (frame * [1, 1e3, 1e-3, 50]).to_csv("scaled.csv", index=False)
    for name in ("t", "scaled"):
        words = ["--standardise", "--no-bootstrap", "--out", f"{name}.npz"]
        report = bigdag_json("fit", f"{name}.csv", *words)
        assert report["standardised"]
    same = (DAG.load(f"{name}.npz").weights.toarray() for name in ("t", "scaled"))
    np.testing.assert_allclose(*same, atol=1e-8)


@pytest.mark.parametrize("method", ["auto", "proximas"])
def test_a_warm_start_from_a_file(method):
    words = ["fit", table(), "--method", method, "--no-bootstrap", "--out"]
    plain = bigdag_json(*words, "a.npz")
    report = bigdag_json(*words, "b.npz", "--warm-start", "a.npz")
    assert report["parameters"]["warm_start_dag"] == "a.npz"
    assert report["objective"] <= plain["objective"] + 1e-9


def test_quiet_says_nothing_and_the_summary_says_what_matters():
    assert bigdag_("fit", table(), "--quiet") == ("", "")
    stdout, stderr = bigdag_("fit", "t.csv", *PROXIMAS, "--force")
    assert stderr == ""
    for words in (
        "60 samples of 4 variables", "converged", "loss", "Strongest arcs", "larger variance",
        "depends on the units of the columns; --check-units shows how far",
        "Written to t.dag.parquet",
    ):  # fmt: skip
        assert words in stdout
    strongest = DAG.load("t.dag.parquet").edges(1).iloc[0]
    assert f"{strongest.weight:.4g}" in stdout


def test_plots(world):
    bigdag_("show", world / "truth.parquet", "--plot", "all.png", "--max-nodes", 10)
    bigdag_("show", world / "truth.parquet", "--variable", "x3", "--plot", "near.svg")
    assert Path("all.png").read_bytes().startswith(b"\x89PNG")
    _, stderr = bigdag_("show", world / "truth.parquet", "--plot", "all.png", code=2)
    assert "all.png exists already" in stderr
    bigdag_("show", world / "truth.parquet", "--plot", "all.png", "--force")


def test_methods_lists_all_and_knows_what_is_there(monkeypatch):
    report = bigdag_json("methods", "--d", 100, "--n", 50)
    assert [row["method"] for row in report["methods"]] == list(METHODS)
    assert all(
        row["memory_bytes"] == METHODS[row["method"]].memory(50, 100) for row in report["methods"]
    )
    stdout, _ = bigdag_("methods")
    assert "pip install 'torch>=2.2'" in stdout
    monkeypatch.setattr("bigdag.learners.methods.find_spec", lambda name: None)
    stdout, _ = bigdag_("methods")
    assert "torch (not installed)" in stdout
    _, stderr = bigdag_("fit", table(), "--method", "golem-ev", code=1)
    assert "needs the package 'torch'" in stderr


# ------------------------------------------------------------------ the automatic method


def real_looking(name="real.csv", **edits):
    """Write a table in mixed units whose noises differ, and return its path and the truth."""
    rng = np.random.default_rng(5)
    truth = random_dag(25, 1, rng=rng)
    X = sample(truth, 400, "gaussian", noise_scales(25, "NV", rng), rng)
    frame = pd.DataFrame(X * 10.0 ** rng.uniform(-2, 2, 25), columns=truth.names)
    if "outliers" in edits:
        far = rng.random(frame.shape) < edits["outliers"]
        frame = frame.where(~far, 30 * frame)
    if "missing" in edits:
        frame = frame.mask(rng.random(frame.shape) < edits["missing"])
    frame.to_csv(name, index=False)
    return name, truth


def links(dag):
    return {frozenset(arc) for arc in arcs_of(dag)}


def test_the_default_says_what_it_chose_and_why(world):
    train = world / "train.parquet"
    report = bigdag_json("fit", train, "--no-bootstrap", "--out", "a.npz")
    model = AutoDAG().fit(read_table(train))
    assert (report["method"], report["assumption"]) == ("auto", "equal variances")
    assert report["explanation"] == model.explanation_
    assert DAG.load("a.npz") == model.dag_
    assert report["n_undirected"] == 0
    assert report["depends_on_units"]
    stdout = one_line(bigdag_("fit", train, "--no-bootstrap", "--out", "b.npz")[0])
    assert report["explanation"] in stdout
    assert f"All {report['n_arcs']} arcs are directed" in stdout
    assert "--method order-search-bic" in stdout  # what would change the answer
    assert "--check-units" not in stdout  # which is refused
    assert DAG.load("b.npz").about["assumption"] == "equal variances"


def test_units_and_noises_that_differ_go_to_the_bic():
    file, truth = real_looking()
    report = bigdag_json("fit", file, "--no-bootstrap", "--out", "a.npz")
    dag = DAG.load("a.npz")
    assert report["assumption"] == "own variances"
    assert not report["depends_on_units"]
    assert report["n_undirected"] == dag.reversible.nnz > 0
    assert (
        f"Of {dag.n_arcs} arcs {dag.n_arcs - dag.reversible.nnz} are directed by the data, and "
        f"{dag.reversible.nnz} may run either way" in report["explanation"]
    )
    assert report["explanation"] in one_line(
        bigdag_("fit", file, "--no-bootstrap", "--out", "b.npz")[0]
    )
    named = ["--method", "order-search-bic", "--out", "c.npz"]
    assert bigdag_json("fit", file, *named)["explanation"] is None
    assert dag == DAG.load("c.npz")
    assert len(links(dag) ^ links(truth)) <= 4


def test_the_default_learns_from_resamples_where_that_is_quick():
    file, truth = real_looking()
    report = bigdag_json("fit", file, "--out", "a.npz")
    about = {"n_resamples": 100, "wanted": 100, "min_prob": 0.5, "weighs_chance": True}
    assert report["bootstrap"] == about
    dag = DAG.load("a.npz")
    assert dag.arc_data["probability"].min() > 0
    assert f"Of {dag.n_arcs} arcs" in report["explanation"]
    assert len(links(dag) ^ links(truth)) <= 4
    bigdag_("fit", file, "--out", "b.npz", "--n-jobs", 1)  # the same again, without a seed
    assert DAG.load("b.npz") == dag
    assert bigdag_json("fit", file, "--no-bootstrap", "--out", "c.npz")["bootstrap"] is None
    bigdag_("fit", file, "--bootstrap", 5, "--no-bootstrap", code=2)


def test_outliers_and_missing_values_are_mended_and_said():
    file, truth = real_looking(outliers=0.01, missing=0.03)
    report = bigdag_json("fit", file, "--out", "a.npz")
    assert (report["transform"], report["missing"]) == ("rank", "pairwise")
    assert report["bootstrap"]["n_resamples"] == 100
    assert report["assumption"] == "own variances"
    wrong = len(links(DAG.load("a.npz")) ^ links(truth))
    assert 2 * wrong < truth.n_arcs  # which is how many the empty graph has wrong
    stdout = one_line(bigdag_("fit", file, "--out", "b.npz")[0])
    for note in report["prepared"]:
        assert one_line(note) in stdout
    assert "ranks" in stdout
    assert "are missing" in stdout
    kept = bigdag_json("fit", file, "--transform", "none", "--out", "c.npz")
    assert kept["transform"] == "none"
    assert "outliers" in {found["finding"] for found in kept["findings"]}
    assert len(links(DAG.load("c.npz")) ^ links(truth)) > 2 * wrong
    gone = bigdag_json("fit", file, "--missing", "drop", "--out", "d.npz")
    assert (gone["missing"], gone["transform"]) == ("drop", "rank")
    assert gone["n_samples"] < 400
    _, stderr = bigdag_("fit", file, "--missing", "error", "--out", "e.npz", code=1)
    assert "--missing pairwise" in stderr
    _, stderr = bigdag_("fit", file, *PROXIMAS, "--out", "e.npz", code=1)
    assert "--missing pairwise" in stderr
    assert not Path("e.npz").exists()


def test_many_missing_values_are_refused_unless_asked_for():
    file = table(n=200, edit=lambda f: f.assign(v2=f["v2"].where(np.arange(200) % 3 > 0)))
    _, stderr = bigdag_("fit", file, code=1)
    assert "'v2'" in stderr
    assert "--missing" in stderr
    assert bigdag_json("fit", file, "--missing", "pairwise")["missing"] == "pairwise"


def test_a_named_method_takes_the_table_as_it_is_and_tells():
    file, _ = real_looking(outliers=0.01)
    report = bigdag_json("fit", file, "--method", "order-search-bic")
    assert report["transform"] == "none"
    assert report["prepared"] == []
    assert report["assumption"] is None
    assert "outliers" in {found["finding"] for found in report["findings"]}
    stdout = one_line(bigdag_("fit", file, "--method", "order-search-bic", "--force")[0])
    assert "--transform rank" in stdout
    report = bigdag_json("fit", file, *PROXIMAS, "--transform", "auto", "--force")
    assert report["transform"] == "rank"


@pytest.mark.parametrize(
    ("words", "assumption", "reason"),
    [
        (["--set", "criterion=bic"], "own variances", "as asked for"),
        (["--set", "criterion=least_squares"], "equal variances", "as asked for"),
        (["--standardise"], "own variances", "as ranks and scaled columns do"),
        (["--transform", "rank"], "own variances", "as ranks and scaled columns do"),
        (["--restarts", "2", "--gamma", "0", "--penalty", "2"], "equal variances", "is chance"),
    ],
)
def test_options_of_the_default(words, assumption, reason, world):
    report = bigdag_json("fit", world / "train.parquet", *words, "--seed", 0)
    assert report["assumption"] == assumption
    assert reason in report["explanation"]


# ------------------------------------------------------------------ a search after the method


def test_a_search_goes_on_from_the_dag_of_the_method(world):
    train = world / "train.parquet"
    fit = ["fit", train, *PROXIMAS, "--lambda1", 0.05]
    plain = bigdag_json(*fit, "--out", "a.npz")
    report = bigdag_json(*fit, "--search", "--out", "b.npz")
    assert (report["search"], plain["search"], plain["before_search"]) == (
        "least_squares", None, None,
    )  # fmt: skip
    assert report["before_search"]["objective"] == plain["objective"]
    assert report["before_search"]["n_arcs"] == plain["n_arcs"]
    assert report["objective"] <= plain["objective"]
    X = read_table(train)
    model = OrderSearch(0.05, start=DAG.load("a.npz")).fit(X)
    assert DAG.load("b.npz") == model.dag_
    assert report["n_iter"] == plain["n_iter"] + model.n_iter_
    stdout, _ = bigdag_(*fit, "--search", "--out", "c.npz")
    assert "over orders by least squares, from " in stdout


def test_a_search_by_bic_marks_what_data_cannot_direct(world):
    train = world / "train.parquet"
    bigdag_("fit", train, "--method", "sort-r2", "--quiet", "--out", "a.npz")
    words = ["--method", "sort-r2", "--search", "--search-criterion", "bic", "--restarts", 2]
    words += ["--gamma", 0.5, "--penalty", 2, "--seed", 4]
    report = bigdag_json("fit", train, *words, "--out", "b.npz")
    model = OrderSearch(
        criterion="bic", start=DAG.load("a.npz"), restarts=2, gamma=0.5, penalty=2.0, random_state=4
    ).fit(read_table(train))
    dag = DAG.load("b.npz")
    assert dag == model.dag_
    assert report["extended_bic"] == model.criterion_
    assert report["n_undirected"] == dag.reversible.nnz > 0
    assert not report["depends_on_units"]
    assert report["parameters"] == {
        "random_state": 4, "restarts": 2, "gamma": 0.5, "penalty": 2.0
    }  # fmt: skip
    stdout, _ = bigdag_("fit", train, *words, "--out", "c.npz")
    assert f"{report['n_undirected']} of them undirected (–)" in stdout
    assert "extended BIC" in stdout
    other = ["--method", "sort-variance", *words[2:]]  # the start decides some of the order
    assert bigdag_json("fit", train, *other, "--out", "d.npz")["depends_on_units"]


def test_a_search_and_its_method_share_the_time_limit(scripted, monkeypatch):
    scripted("converged")
    limits = []
    fit = Learner.fit
    monkeypatch.setattr(
        Learner, "fit", lambda self, X: (limits.append(self.time_limit), fit(self, X))[1]
    )
    words = ["fit", table(d=10), "--method", "scripted", "--search", "--force"]
    assert bigdag_json(*words, "--time-limit", 100)["status"] == "converged"
    assert limits[0] == 50
    assert 50 < limits[1] < 100
    report = bigdag_json(*words, "--time-limit", 1e-9)
    assert len(limits) == 3  # no time was left for a search
    assert report["status"] == "time_limit"
    assert DAG.load("t.dag.parquet").n_arcs == report["before_search"]["n_arcs"] > 0


def test_no_search_follows_an_interrupted_method(scripted):
    scripted("interrupted")
    words = ["fit", table(), "--method", "scripted", "--search", "--check-units"]
    report = bigdag_json(*words, code=1)
    assert report["before_search"] is report["check_units"] is None
    assert DAG.load("t.dag.parquet").n_arcs == 3


@pytest.mark.parametrize("score", ["least_squares", "bic"])
def test_an_interrupted_search_keeps_the_dag_of_the_method(score, monkeypatch):
    bigdag_("fit", table(d=10), *PROXIMAS, "--quiet", "--out", "a.npz")

    def interrupted(self):
        raise KeyboardInterrupt

    for name in ("bic.InsertionSearch", "least_squares.LeastSquaresSearch"):
        monkeypatch.setattr(f"bigdag.search.{name}.work", interrupted)
    words = [*PROXIMAS, "--search", "--search-criterion", score, "--out", "b.npz", "--json"]
    stdout, stderr = bigdag_("fit", "t.csv", *words, code=1)
    assert json.loads(stdout)["status"] == "interrupted"
    assert "The fit was interrupted. The best DAG so far was written to b.npz" in stderr
    assert DAG.load("b.npz") == DAG.load("a.npz")


# ------------------------------------------------------------------ choices from the data


def test_lambda1_is_chosen_from_the_data(world):
    train = world / "train.parquet"
    words = ["--lambda1", "bic", "--gamma", 0.5]
    report = bigdag_json("fit", train, "--method", "order-search", *words, "--out", "a.npz")
    model = OrderSearch("bic", gamma=0.5).fit(read_table(train))
    assert report["lambda1"] == model.lambda1_
    assert DAG.load("a.npz") == model.dag_
    bigdag_("fit", train, *PROXIMAS, "--quiet", "--out", "start.npz")
    words = [*PROXIMAS, "--search", *words]
    report = bigdag_json("fit", train, *words, "--out", "b.npz")
    model = OrderSearch("bic", gamma=0.5, start=DAG.load("start.npz")).fit(read_table(train))
    assert report["lambda1"] == model.lambda1_
    assert DAG.load("b.npz") == model.dag_
    stdout, _ = bigdag_("fit", train, *words, "--out", "c.npz")
    assert f"{model.lambda1_:.4g}, chosen by the extended BIC" in stdout


def test_a_penalty_is_chosen_by_rows_held_out(world):
    train = world / "train.parquet"
    words = ["--method", "order-search-bic", "--penalty", "auto", "--threshold", "auto"]
    report = bigdag_json("fit", train, *words, "--out", "a.npz")
    data = read_table(train)
    model = OrderSearch(criterion="bic", penalty="auto", threshold="auto").fit(data)
    assert report["penalty"] == model.penalty_
    assert report["parameters"]["penalty"] == "auto"
    assert DAG.load("a.npz") == model.dag_
    stdout, _ = bigdag_("fit", train, *words, "--out", "b.npz")
    assert f"{model.penalty_:.3g}, chosen by the rows held out" in stdout
    words = [*PROXIMAS, "--search", "--search-criterion", "bic", "--penalty", "auto"]
    report = bigdag_json("fit", train, *words, "--out", "c.npz")
    assert report["penalty"] in 8 * 2 ** (-np.arange(12) / 2)
    Path("s.csv").write_text("2,1\n1,3\n")
    _, stderr = bigdag_("fit", "s.csv", *words, "--covariance", "--n-samples", 9, code=2)
    assert "a covariance matrix has none" in one_line(stderr)


def worth_it(X, weights, penalty):
    """Tell whether each arc, refitted, lowers n log of the squares left by more than its cost."""
    n = len(X)

    def cost(j, parents):
        beta = np.linalg.lstsq(X[:, parents], X[:, j], rcond=None)[0]
        return n * np.log(np.sum((X[:, j] - X[:, parents] @ beta) ** 2))

    for j in range(X.shape[1]):
        parents = np.flatnonzero(weights[:, j])
        for p in parents:
            if cost(j, parents[parents != p]) - cost(j, parents) <= penalty:
                return False
    return True


@pytest.mark.parametrize("word", METHODS)
def test_threshold_auto_keeps_what_is_worth_its_cost(word, world):
    X = read_table(world / "train.parquet").X[:, :12]
    np.save("t.npy", X)
    words = ["fit", "t.npy", "--method", word, "--max-iter", 20, "--seed", 0]
    words += ["--lambda1", 0.01] if word in NAMED else []
    full = bigdag_json(*words, "--out", "a.npz")
    cut = bigdag_json(*words, "--threshold", "auto", "--out", "b.npz")
    assert cut["threshold"] == "auto"
    assert cut["n_arcs_found"] == full["n_arcs"]
    a, b = (DAG.load(f"{name}.npz").weights.toarray() for name in "ab")
    np.testing.assert_array_equal(b[b != 0], a[b != 0])
    assert cut["n_arcs"] == np.count_nonzero(b) <= np.count_nonzero(a)
    assert worth_it(X, b, arc_cost(300, 12))
    if np.count_nonzero(a) > np.count_nonzero(b):
        assert not worth_it(X, a, arc_cost(300, 12))
    few = bigdag_json(*words, "--threshold", "auto", "--penalty", 1e5, "--out", "c.npz")
    assert few["n_arcs"] == 0
    assert few["var_sortability"] is None
    stdout, _ = bigdag_(*words, "--threshold", "auto", "--out", "d.npz")
    assert f"{cut['n_arcs']} worth their extended BIC, of {full['n_arcs']}" in stdout


# ------------------------------------------------------------------ variances and units


def arcs_of(dag):
    return {(dag.names[i], dag.names[j]) for i, j in zip(*dag.weights.nonzero())}


@pytest.mark.parametrize("word", NAMED)
def test_check_units_compares_both_fits_of_every_method(word, world):
    row = METHODS[word]
    X = read_table(world / "train.parquet").X[:, :10]
    np.save("t.npy", X)
    words = ["--method", word, "--max-iter", 20, "--seed", 3, "--threshold", 0.2]
    report = bigdag_json("fit", "t.npy", *words, "--check-units", "--out", "a.npz")
    found = report["check_units"]
    data = read_table("t.npy")
    X, sd = data.X, data.X.std(axis=0)
    raw = row.build(max_iter=20, random_state=3).fit(data).dag_
    scaled = row.build(max_iter=20, random_state=3).fit(standardise(X)).dag_
    scaled = DAG(scaled.weights.toarray() * sd / sd[:, None], order=scaled.order)
    assert DAG.load("a.npz") == raw.threshold(0.2)
    A, B = arcs_of(raw.threshold(0.2)), arcs_of(scaled.threshold(0.2))
    turned = {(j, i) for i, j in B}
    assert (found["n_arcs_raw"], found["n_arcs_standardised"]) == (len(A), len(B))
    assert (found["same"], found["reversed"]) == (len(A & B), len(A & turned))
    assert found["only_raw"] == len(A - B - turned)
    assert found["only_standardised"] == len(B) - len(A & B) - len(A & turned)
    assert found["f1"] == (2 * len(A & B) / (len(A) + len(B)) if A | B else None)
    assert report["depends_on_units"] == row.depends_on_units
    again = bigdag_json("fit", "t.npy", *words, "--check-units", "--standardise", "--out", "b.npz")
    # The weights are now compared in standard deviations, at the same threshold.
    back = raw.weights.toarray() / sd * sd[:, None]
    assert again["check_units"]["n_arcs_raw"] == np.sum(np.abs(back) > 0.2)
    stdout, _ = bigdag_("fit", "t.npy", *words, "--check-units", "--out", "c.npz")
    pairs = A | {arc for arc in B if arc[::-1] not in A}
    if pairs:
        assert found["shares"]["same"] == len(A & B) / len(pairs)
        assert sum(found["shares"].values()) == pytest.approx(1)
        assert f"{len(A & B)} in both ({len(A & B) / len(pairs):.0%})" in stdout
    assert found["meaning"] in one_line(stdout)


def test_check_units_says_what_it_means():
    frame = pd.read_csv(table(n=400, d=9))
    (frame * np.logspace(0, -8, 9)).to_csv("odd.csv", index=False)  # variances fall from the causes
    words = ["--threshold", "auto", "--check-units"]
    free = bigdag_json("fit", "odd.csv", "--method", "order-search-bic", *words, "--out", "a.npz")
    assert free["check_units"]["f1"] == 1
    assert "hardly matter" in free["check_units"]["meaning"]
    bad = bigdag_json(
        "fit", "odd.csv", "--method", "sort-variance", "--lambda1", 0, *words, "--out", "b.npz"
    )
    assert bad["check_units"]["f1"] < 0.7
    assert bad["check_units"]["meaning"].startswith("Much of this answer rests on the units")
    (frame / frame.std(ddof=0)).to_csv("same.csv", index=False)
    same = bigdag_json("fit", "same.csv", *PROXIMAS, *words, "--out", "c.npz")["check_units"]
    assert same["f1"] == 1
    assert "variance 1 as they are" in same["meaning"]
    none = bigdag_json("fit", "odd.csv", "--method", "empty", *words, "--out", "d.npz")
    assert none["check_units"]["f1"] is None
    assert "nothing to compare" in none["check_units"]["meaning"]
    weighed = bigdag_json("fit", "odd.csv", "--method", "sort-r2", *words, "--out", "e.npz")
    assert "how strongly lambda1 weighs" in weighed["check_units"]["meaning"]


def test_check_units_draws_the_same_numbers_and_takes_a_start_along():
    frame = pd.read_csv(table(n=300, d=12))
    (frame * np.logspace(3, -3, 12)).to_csv("odd.csv", index=False)
    words = ["--method", "sort-random", "--lambda1", 0, "--threshold", "auto", "--check-units"]
    report = bigdag_json("fit", "odd.csv", *words, "--out", "a.npz")
    assert report["check_units"]["f1"] == 1
    assert report["parameters"]["random_state"] >= 0
    # Columns in another sequence: the start goes by names.
    start = DAG.load("a.npz").subgraph(frame.columns[::-1])
    start.save("start.npz")
    words = ["--search", "--search-criterion", "bic", "--warm-start", "start.npz", *words]
    assert bigdag_json("fit", "odd.csv", *words, "--out", "b.npz")["check_units"]["f1"] == 1


def test_a_check_of_the_units_that_is_interrupted_keeps_the_dag(monkeypatch):
    calls = []

    def learn(self, run):
        calls.append(run)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("bigdag.learners.sort_regress.SortRegress._learn", learn)
    words = ["--method", "sort-r2", "--check-units", "--json"]
    stdout, stderr = bigdag_("fit", table(), *words, code=1)
    assert json.loads(stdout)["status"] == "converged"
    assert json.loads(stdout)["check_units"]["status"] == "interrupted"
    assert "--check-units ended early (interrupted)" in stderr
    assert DAG.load("t.dag.parquet").n_nodes == 4


def test_a_covariance_matrix_has_variances_and_units_too():
    frame = pd.read_csv(table(n=200, d=10)) * np.logspace(1, -1, 10)
    frame.to_csv("t.csv", index=False)
    np.save("cov.npy", frame.cov(ddof=0).to_numpy())
    words = [*PROXIMAS, "--lambda1", 0.01, "--threshold", "auto", "--check-units"]
    of_table = bigdag_json("fit", "t.csv", *words, "--out", "a.npz")
    matrix = ["fit", "cov.npy", "--covariance", "--n-samples", 200]
    of_matrix = bigdag_json(*matrix, *words, "--out", "b.npz")
    assert of_matrix["var_sortability"] == of_table["var_sortability"]
    for key in ("same", "reversed", "only_raw", "only_standardised", "f1", "meaning"):
        assert of_matrix["check_units"][key] == of_table["check_units"][key]
    for method in ("auto", "proximas"):
        words = [
            "--method",
            method,
            "--standardise",
            "--quiet",
            "--no-bootstrap",
            "--force",
            "--out",
        ]
        bigdag_("fit", "t.csv", *words, "c.npz")
        bigdag_(*matrix, *words, "d.npz")
        both = (DAG.load(f"{name}.npz").weights.toarray() for name in "cd")
        np.testing.assert_allclose(*both, atol=1e-6)


def test_a_constant_column_is_told_of_once():
    file = table(edit=lambda f: f.assign(v1=7.0))
    for words in ([], [*PROXIMAS, "--check-units"]):
        _, stderr = bigdag_("fit", file, "--standardise", *words, "--force")
        assert stderr == "Warning: 1 of 4 columns is constant and becomes an isolated node: 'v1'.\n"
    frame = pd.read_csv(file)
    np.save("cov.npy", frame.cov(ddof=0).to_numpy())
    words = ["fit", "cov.npy", "--covariance", "--n-samples", 60, *PROXIMAS, "--check-units"]
    _, stderr = bigdag_(*words, "--threshold", "auto", "--search")
    assert stderr == "Warning: 1 of 4 columns is constant and becomes an isolated node: 'x1'.\n"


# ------------------------------------------------------------------ undirected edges


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".graphml", ".json", ".parquet"])
def test_undirected_edges_are_kept_and_shown(suffix):
    # A chain has no direction, a collider has one.
    weights = np.zeros((6, 6))
    weights[0, 1] = weights[1, 2] = 2.0
    weights[3, 5] = weights[4, 5] = 1.0
    X = np.random.default_rng(0).normal(size=(500, 6)) @ np.linalg.inv(np.eye(6) - weights)
    pd.DataFrame(X, columns=list("abcdef")).to_csv("t.csv", index=False)
    words = ["fit", "t.csv", "--method", "order-search-bic", "--out", f"dag{suffix}"]
    assert bigdag_json(*words)["n_undirected"] == 2
    dag = DAG.load(f"dag{suffix}")
    marks = {frozenset((row.source, row.target)): row.direction for row in dag.edges().itertuples()}
    expected = {"ab": "--", "bc": "--", "df": "->", "ef": "->"}
    assert marks == {frozenset(pair): mark for pair, mark in expected.items()}
    shown = bigdag_json("show", f"dag{suffix}")
    assert shown["n_undirected"] == 2
    assert shown["strongest"] == dag.edges().to_dict("records")
    stdout, _ = bigdag_("show", f"dag{suffix}")
    assert "4, 2 of them undirected (–)" in stdout
    assert (stdout.count(" –  "), stdout.count(" →  ")) == (2, 2)
    stdout, _ = bigdag_("show", f"dag{suffix}", "--variable", "b", "--plot", "b.svg")
    assert "Undirected" in stdout
    assert "Its causes" not in stdout
    assert "no head: direction open" in re.sub(r"<!--|-->", "", Path("b.svg").read_text())
    stdout, _ = bigdag_("show", f"dag{suffix}", "--variable", "f")
    assert "Its causes" in stdout
    assert "Undirected" not in stdout


def test_a_dag_of_known_directions_has_no_marks(world):
    shown = bigdag_json("show", world / "truth.parquet")
    assert shown["n_undirected"] is None
    assert "direction" not in shown["strongest"][0]
    stdout, _ = bigdag_("show", world / "truth.parquet")
    assert "undirected" not in stdout


# ------------------------------------------------------------------ how a fit may end


def test_an_interrupted_fit_keeps_the_best_dag(scripted):
    scripted("interrupted")
    stdout, stderr = bigdag_("fit", table(), "--method", "scripted", "--json", code=1)
    assert json.loads(stdout)["status"] == "interrupted"
    assert "was interrupted. The best DAG so far was written to t.dag.parquet" in stderr
    assert DAG.load("t.dag.parquet").n_arcs == 3


def test_a_diverged_fit_keeps_the_best_dag(scripted):
    scripted("diverged")
    _, stderr = bigdag_("fit", table(), "--method", "scripted", code=1)
    assert "has diverged. The best DAG so far" in stderr
    assert DAG.load("t.dag.parquet").n_arcs == 3


def test_limits_are_no_error(scripted):
    scripted("converged")
    report = bigdag_json("fit", table(), "--method", "scripted", "--max-iter", 1)
    assert report["status"] == "max_iter"
    words = [*PROXIMAS, "--time-limit", 1e-9, "--force"]
    assert bigdag_json("fit", "t.csv", *words)["status"] == "time_limit"


def test_an_interrupt_outside_of_the_fit_writes_nothing(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("bigdag.data.tables.read_prepared", interrupted)
    _, stderr = bigdag_("fit", table(), code=1)
    assert stderr == "Error: Interrupted. t.dag.parquet was not written.\n"
    assert os.listdir() == ["t.csv"]


def test_a_fault_of_bigdag_itself_shows_its_traceback(monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("bigdag.data.tables.read_prepared", broken)
    with pytest.raises(ZeroDivisionError):
        bigdag_("fit", table())


SLOW = """
import sys, time
import numpy as np, scipy.sparse as sp
import bigdag, bigdag.learners.methods
from bigdag.cli import app
from bigdag.learners.base import Learner

class Slow(Learner):
    def __init__(self, lambda1=0.1, *, max_iter=None, time_limit=None, random_state=None,
                 callback=None, warm_start_dag=None, n_jobs=None, memory_limit=None, verbose=False):
        for name, value in list(locals().items()):
            if name != "self":
                setattr(self, name, value)
    def _learn(self, run):
        weights = sp.csc_array(([0.5], ([0], [1])), (run.gram.d, run.gram.d))
        run.offer(weights, np.arange(run.gram.d), 0.0)
        open("ready", "w").close()
        while not run.step("slowly", 1.0, 1, lambda: weights):
            time.sleep(0.01)

bigdag.Slow = Slow
row = bigdag.learners.methods.Method("slow", "Slow", "for tests", False)
bigdag.learners.methods.METHODS = {"slow": row}
app()
"""


def test_ctrl_c_on_a_terminal(tmp_path):
    """A real interrupt of a real process, with the progress on a terminal."""
    Path("slow.py").write_text(textwrap.dedent(SLOW))
    ours, theirs = pty.openpty()
    words = ["fit", table(), "--method", "slow", "--time-limit", "100", "--json"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150"}
    streams = {"stdout": subprocess.PIPE, "stderr": theirs}
    with started([sys.executable, "slow.py", *words], **streams, env=environment) as process:
        os.close(theirs)
        wait_until(Path("ready").exists)
        seen = b""

        def shown():  # a few frames of the progress
            nonlocal seen
            if select.select([ours], [], [], 0.1)[0]:
                seen += os.read(ours, 65536)
            return b"1 arc" in seen and b"left" in seen

        wait_until(shown)
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=100)
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert process.returncode == 1
    assert json.loads(stdout)["status"] == "interrupted"
    assert DAG.load("t.dag.parquet").n_arcs == 1
    for words in (b"slowly", b"iteration", b"loss 1", b"1 arc", b"left", b"was interrupted"):
        assert words in seen


# ------------------------------------------------------------------ bad tables: exit code 1


def with_value(value, row=2, column=1):
    def edit(frame):
        frame = frame.astype(object)
        frame.iloc[row, column] = value
        return frame

    return edit


BAD_TABLES = {
    "a NaN": (
        with_value(np.nan),
        "1 value is NaN or infinite, in 1 of 4 columns ('v1'); the first is NaN in column 'v1', "
        "row 3",
    ),
    "infinity": (with_value("inf"), "is inf in column 'v1', row 3"),
    "text": (
        with_value("tall"),
        "A column of numbers holds a cell that is no number: 'v1' (row 3: 'tall')",
    ),
    "no rows": (lambda frame: frame[:0], "no rows"),
    "one row": (lambda frame: frame[:1], "only one row"),
    "equal names": (
        lambda frame: frame.set_axis(["a", "b", "a", "c"], axis=1),
        "More than one column is called 'a'",
    ),
}


@pytest.mark.parametrize("method", ["auto", "proximas"])
@pytest.mark.parametrize("fault", BAD_TABLES)
def test_bad_tables(fault, method):
    edit, words = BAD_TABLES[fault]
    if (fault, method) == ("a NaN", "auto"):  # is no fault: see the automatic method
        assert bigdag_json("fit", table(edit=edit))["missing"] == "pairwise"
        return
    stdout, stderr = bigdag_("fit", table(edit=edit), "--method", method, code=1)
    assert words in stderr
    assert stderr.startswith("Error: t.csv: ")
    assert stderr.count("\n") == 1
    assert stdout == ""
    assert os.listdir() == ["t.csv"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("ragged.csv", "a,b\n1,2\n3,4\n5\n6,7\n", "line 4 has 1 cell, expected 2"),
        ("empty.csv", "", "the file is empty"),
        ("damaged.parquet", "no parquet", "cannot be read as .parquet"),
        ("table.xlsx", "a,b", "the suffix '.xlsx' is not known"),
    ],
)
def test_bad_files(name, content, words):
    Path(name).write_text(content)
    _, stderr = bigdag_("fit", name, code=1)
    assert words in stderr


def test_no_columns():
    np.save("none.npy", np.empty((5, 0)))
    _, stderr = bigdag_("fit", "none.npy", code=1)
    assert "The table has no columns" in stderr


def test_a_covariance_that_is_none():
    np.save("s.npy", [[1.0, 0.5], [0.2, 1.0]])
    _, stderr = bigdag_("fit", "s.npy", "--covariance", "--n-samples", 9, code=1)
    assert "must be symmetric. The largest asymmetry is 0.3" in stderr
    np.save("s.npy", [[1.0, 0.5, 0.1], [0.2, 1.0, 0.1]])
    _, stderr = bigdag_("fit", "s.npy", "--covariance", "--n-samples", 9, code=1)
    assert "must be square" in stderr


def test_memory_above_the_limit():
    _, stderr = bigdag_("fit", table(d=40), "--memory-limit", "20KB", code=1)
    assert "needs" in stderr
    assert "it may hold 20 KB in all" in stderr
    assert os.listdir() == ["t.csv"]


def test_odd_tables_that_work():
    _, stderr = bigdag_("fit", table(edit=lambda f: f.assign(v1=7.0)), "--out", "constant.npz")
    assert stderr == ("Warning: 1 of 4 columns is constant and becomes an isolated node: 'v1'.\n")
    dag = DAG.load("constant.npz")
    assert dag.parents("v1") == dag.children("v1") == []
    for name, edit in {
        "twins": lambda f: f.assign(v4=f["v0"]),
        "wide": lambda f: f[:3],
        "one": lambda f: f[["v0"]],
        "scales": lambda f: f * [1e-12, 1e12, 1.0, 1e6],
    }.items():
        report = bigdag_json("fit", table(f"{name}.csv", edit=edit))
        assert DAG.load(f"{name}.dag.parquet").n_arcs == report["n_arcs"]


# ------------------------------------------------------------------ bad words: exit code 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--method", "proximass"], "There is no method 'proximass'. Did you mean 'proximas'?"),
        ([*PROXIMAS, "--lambda1", "-1"], "--lambda1 must be a number >= 0"),
        ([*PROXIMAS, "--lambda2", "-1"], "--lambda2 must be a number >= 0"),
        ([*PROXIMAS, "--lambda1", "nan"], "--lambda1 must be a number >= 0"),
        (["--max-iter", "0"], "--max-iter must be an integer >= 1, or be left out. Got 0 instead."),
        (["--time-limit", "0"], "--time-limit must be a number > 0, or be left out. Got 0.0"),
        (["--seed", "-4"], "--seed must be an integer >= 0, or be left out. Got -4 instead."),
        (["--seed=-4"], "--seed must be an integer >= 0, or be left out. Got -4 instead."),
        (["--set", "random_state=-4"], "random_state must be None, an integer >= 0 or a numpy"),
        (["--n-jobs", "0"], "--n-jobs must be -1 or an integer >= 1, or be left out. Got 0"),
        (["--memory-limit", "much"], "--memory-limit must be a number of bytes or a text such as "
         "'4GB', or be left out. Got 'much' instead."),
        (["--threshold", "-0.1"], "Error: --threshold must be a finite number of at least 0"),
        (["--threshold", "nan"], "threshold must be a finite number of at least 0"),
        (["--out", "dag.txt"], "suffix of a DAG's file must be one of .npz, .parquet"),
        (["--out", "no/dag.npz"], "the folder no does not exist"),
        (["--out", "t.csv", "--force"], "t.csv is the table itself"),
        (["--out", "."], "suffix of a DAG's file"),
        (["--set", "improve"], "--set needs NAME=VALUE. Got 'improve'"),
        ([*PROXIMAS, "--set", "improve=maybe"], "improve must be one of True, False"),
        (["--set", "callback=1"], "--set callback needs Python"),
        (["--covariance"], "--covariance needs --n-samples"),
        (["--n-samples", "5"], "--n-samples goes with --covariance"),
        (["--covariance", "--n-samples", "1"], "--n-samples must be at least 2. Got 1 instead."),
        (["--lambda1", "much"], "for '--lambda1': 'much' is neither a number nor 'bic'"),
        (["--threshold", "much"], "for '--threshold': 'much' is neither a number nor 'auto'"),
        ([*PROXIMAS, "--lambda1", "bic"], "'proximas' cannot choose lambda1 from the data. "
         "Methods that can: order-search. So does --search with --search-criterion least_squares."),
        ([*PROXIMAS, "--lambda1", "bic", "--search", "--search-criterion", "bic"],
         "cannot choose lambda1"),
        (["--method", "order-search-bic", "--lambda1", "bic"], "cannot choose lambda1"),
        (["--search-criterion", "bic"], "--search-criterion goes with --search."),
        ([*PROXIMAS, "--search", "--search-criterion", "aic"],
         "--search-criterion must be one of 'least_squares'"),
        ([*PROXIMAS, "--gamma", "0.5"], "--gamma and --penalty are of the extended BIC. "
         "They go with --method auto, --method order-search-bic, --search-criterion bic, "
         "--lambda1 bic or --threshold auto."),
        (["--method", "order-search", "--penalty", "2"], "are of the extended BIC"),
        ([*PROXIMAS, "--threshold", "auto", "--penalty", "auto"], "--penalty auto goes with "
         "--method order-search-bic or --search-criterion bic."),
        (["--penalty", "much"], "for '--penalty': 'much' is neither a number nor 'auto'"),
        ([*PROXIMAS, "--search", "--restarts", "3"], "--restarts goes with a search by BIC: "
         "--method auto, --method order-search-bic or --search-criterion bic."),
        (["--method", "order-search-bic", "--gamma", "-1"], "--gamma must be a number "),
        ([*PROXIMAS, "--threshold", "auto", "--penalty", "-1"], "--penalty must be a number >= 0"),
        (["--method", "order-search-bic", "--restarts", "-1"], "--restarts must be an integer"),
        (["--lambda1", "0.1"], "The method 'auto' has no parameter 'lambda1'. Methods that have "
         "it: proximas, optimas, "),
        (["--lambda1", "bic"], "'auto' has no parameter 'lambda1'. Methods that have it: proximas"),
        (["--lambda2", "1"], "'auto' has no parameter 'lambda2'. Methods that have it: proximas"),
        (["--search"], "--search goes with a method that is named, such as --method proximas"),
        (["--check-units"], "--check-units goes with a method that is named"),
        (["--penalty", "auto"], "--penalty auto goes with --method order-search-bic or "
         "--search-criterion bic. The automatic method takes a number."),
        (["--penalty", "0"], "--penalty must be a number > 0. Got 0.0 instead."),
        (["--gamma", "-1"], "--gamma must be a number "),
        (["--restarts", "-1"], "--restarts must be an integer >= 0"),
        (["--set", "criterion=least_squares", "--restarts", "3"], "goes with a search by BIC"),
        (["--set", "criterion=aic"], "criterion must be one of 'auto', 'least_squares', 'bic'"),
        (["--set", "transformation=rank"], "In bigdag fit, --transform says it."),
        (["--transform", "ranks"], "--transform must be one of 'none', 'rank', 'log1p', 'auto'"),
        (["--warm-start", "none.npz"], "'none.npz' does not exist"),
        (["--lamda1", "1"], "No such option: --lamda1 (Possible options: --lambda1, --lambda2)"),
        (["--methd", "auto"], "No such option: --methd (Possible options: --method)"),
    ],
)  # fmt: skip
def test_bad_words_of_fit(words, sentence):
    stdout, stderr = bigdag_("fit", table(), *words, code=2)
    assert sentence in one_line(stderr)
    assert stdout == ""
    assert os.listdir() == ["t.csv"]


def test_bad_words_are_refused_before_the_table_is_read(monkeypatch):
    def unread(*_, **__):
        raise AssertionError("the table was read")

    for name in ("read_table", "read_prepared"):
        monkeypatch.setattr(f"bigdag.data.tables.{name}", unread)
    bigdag_("fit", table(), *PROXIMAS, "--lambda1", -1, code=2)
    bigdag_("fit", "t.csv", "--check-units", code=2)
    Path("t.dag.parquet").touch()
    _, stderr = bigdag_("fit", "t.csv", code=2)
    assert "t.dag.parquet exists already and was left alone" in stderr
    assert "--force" in stderr
    assert Path("t.dag.parquet").read_bytes() == b""


def test_an_option_the_method_has_not_names_those_that_have_it(scripted):
    scripted("converged")
    _, stderr = bigdag_("fit", table(), "--method", "scripted", "--lambda2", 3, code=2)
    assert (
        "The method 'scripted' has no parameter 'lambda2'. Methods that have it: proximas."
        in stderr
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there():
    words = [*PROXIMAS, "--set", "engine=dense", "--device", "cuda"]
    _, stderr = bigdag_("fit", table(), *words, code=2)
    assert "device must be one that is there" in stderr


def test_a_table_that_is_not_there():
    _, stderr = bigdag_("fit", "none.csv", code=2)
    assert "'none.csv' does not exist" in one_line(stderr)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("fits", "Did you mean 'fit'?"),
        ("show", "Missing argument 'DAG'"),
        ("simulate", "Missing option '--out'"),
        ("--versions", "No such option: --versions"),
    ],
)
def test_unknown_and_missing_words(word, sentence):
    _, stderr = bigdag_(word, code=2)
    assert sentence in one_line(stderr)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--d", "10", "--k", "5"], "k * d must be between 1 and d * (d - 1) / 2 = 45"),
        (["--k", "0"], "k, the number of arcs for each variable, must be above 0"),
        (["--k", "nan"], "must be above 0"),
        (["--d", "1"], "d must be a whole number, at least 2"),
        (["--noise", "gausian"], "Got 'gausian' instead. Did you mean 'gaussian'?"),
        (["--graph", "BA"], "graph must be one of 'ER', 'SF'"),
        (["--variance", "ev"], "Did you mean 'EV'?"),
        (["--graph", "SF", "--k", "1.5"], "k must be a whole number for graph='SF'"),
        (["--n", "1"], "n must be an integer >= 2. Got 1 instead."),
        (["--seed", "-1"], "seed must be an integer >= 0. Got -1 instead."),
        (["--standardise", "--iscm"], "exclude each other"),
        (["--mixed-units", "--iscm"], "exclude each other"),
        (["--missing", "1"], "missing must be a share of the values, at least 0 and below 1"),
        (["--outliers", "-0.1"], "outliers must be a share of the values"),
        (["--outliers", "nan"], "outliers must be a share of the values"),
    ],
)  # fmt: skip
def test_bad_words_of_simulate(words, sentence):
    _, stderr = bigdag_("simulate", "--out", "w", *words, code=2)
    assert sentence in one_line(stderr)
    assert os.listdir() == []


def test_simulate_leaves_what_is_there_alone():
    Path("w").mkdir()
    bigdag_("simulate", "--d", 5, "--n", 9, "--out", "w")
    Path("w/notes.txt").write_text("mine")
    before = Path("w/train.parquet").read_bytes()
    _, stderr = bigdag_("simulate", "--d", 6, "--n", 9, "--out", "w", code=2)
    assert "The folder w is not empty and was left alone" in stderr
    assert Path("w/train.parquet").read_bytes() == before
    bigdag_("simulate", "--d", 6, "--n", 9, "--out", "w", "--force")
    assert DAG.load("w/truth.parquet").n_nodes == 6
    assert Path("w/notes.txt").read_text() == "mine"
    _, stderr = bigdag_("simulate", "--d", 6, "--out", "w/notes.txt", code=2)
    assert "is a file" in stderr
    _, stderr = bigdag_("simulate", "--d", 6, "--out", "no/w", code=2)
    assert "does not exist" in stderr
    assert os.listdir() == ["w"]


def test_simulate_leaves_nothing_half_written(monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    _, stderr = bigdag_("simulate", "--d", 5, "--n", 9, "--out", "w", code=1)
    assert "Could not write w: No space left on device" in stderr
    assert os.listdir() == []


# ------------------------------------------------------------------ bad graphs


def dag(name, weights, names=None):
    DAG(weights, names=names).save(name)
    return name


def test_graphs_that_cannot_be_compared():
    est = dag("est.csv", [[0, 1.0], [0, 0]], ["a", "b"])
    Path("cycle.csv").write_text("source,target\na,b\nb,a\n")
    _, stderr = bigdag_("evaluate", est, "--truth", "cycle.csv", code=1)
    assert "cycle.csv: The graph has a cycle: a -> b -> a" in stderr
    three = dag("three.csv", np.triu(np.ones((3, 3)), 1), ["a", "b", "c"])
    _, stderr = bigdag_("evaluate", est, "--truth", three, code=1)
    assert "The estimate must have 3 variables. Got 2 instead." in stderr
    other = dag("other.csv", [[0, 1.0], [0, 0]], ["a", "z"])
    _, stderr = bigdag_("evaluate", est, "--truth", other, code=1)
    assert "the estimate has no 'z'" in stderr
    _, stderr = bigdag_("evaluate", est, "--truth", est, "--threshold", -1, code=2)
    assert "Error: --threshold must be a finite number, at least 0" in stderr
    _, stderr = bigdag_("evaluate", est, "--truth", est, "--train", table(), code=2)
    assert "--train goes with --data" in stderr
    _, stderr = bigdag_("evaluate", est, "--truth", est, "--data", table(), code=1)
    assert "t.csv lacks the columns 'a', 'b' of the DAG" in stderr
    _, stderr = bigdag_("evaluate", est, "--truth", "none.csv", code=2)
    assert "does not exist" in one_line(stderr)


def test_names_match_whatever_their_sequence():
    est = dag("est.csv", [[0, 1.0], [0, 0]], ["a", "b"])
    truth = dag("truth.csv", [[0, 0], [1.0, 0]], ["b", "a"])
    assert bigdag_json("evaluate", est, "--truth", truth)["metrics"]["shd"] == 0


def test_an_empty_truth_has_defined_scores():
    est = dag("est.npz", [[0, 1.0], [0, 0]])
    truth = dag("truth.npz", np.zeros((2, 2)))
    scores = bigdag_json("evaluate", est, "--truth", truth)["metrics"]
    assert (scores["average_precision"], scores["recall"], scores["fnr"]) == (0.0, 1.0, 0.0)
    assert scores["shd"] == scores["fp"] == 1


def test_bad_words_of_show():
    file = dag("dag.npz", [[0, 1.0], [0, 0]], ["rain", "river"])
    _, stderr = bigdag_("show", file, "--variable", "rivr", code=2)
    assert "There is no node 'rivr' among the 2 nodes. Did you mean 'river'?" in stderr
    _, stderr = bigdag_("show", file, "--plot", "dag.gif", code=2)
    assert "suffix of a picture must be one of .png, .svg, .pdf" in stderr
    for option, value in (("--radius", -1), ("--top", -3), ("--max-nodes", 1)):
        words = ["--variable", "rain", "--plot", "dag.png", option, value]
        _, stderr = bigdag_("show", file, *words, code=2)
        assert f"Got {value}" in stderr
    _, stderr = bigdag_("methods", "--d", 0, code=2)
    assert "--d must be at least 1. Got 0 instead." in stderr
    _, stderr = bigdag_("show", file, "--threshold", -1, code=2)
    assert "threshold must be" in stderr
    Path("broken.npz").write_bytes(b"no zip")
    _, stderr = bigdag_("show", "broken.npz", code=1)
    assert "broken.npz holds no DAG that can be read" in stderr
    _, stderr = bigdag_("show", table(), code=1)
    assert "the table has no column 'source'" in stderr


def test_an_empty_dag_can_be_shown():
    stdout, _ = bigdag_("show", dag("dag.npz", np.zeros((3, 3))))
    assert "3, 3 of them isolated" in stdout


def test_names_that_look_like_markup_are_shown_as_they_are():
    stdout, _ = bigdag_("show", dag("dag.npz", [[0, 1.0], [0, 0]], ["[red]a[/red]", "[/b]"]))
    assert "[red]a[/red]" in stdout
    assert "[/b]" in stdout


# ------------------------------------------------------------------ what the texts promise

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "text",
    [
        "README.md",
        "Makefile",
        "docs/guide.md",
        "docs/bootstrap.md",
        "docs/experiments.md",
        "docs/tutorial.md",
        "docs/files.md",
        "docs/explore.md",
        "docs/index.md",
    ],
)
def test_every_command_in_the_texts_is_one(text):
    code = (ROOT / text).read_text().replace("\\\n", " ")
    if text.endswith(".md"):
        code = "".join(re.findall(r"```sh\n(.*?)```", code, re.DOTALL))
    lines = [line.strip().removeprefix("$(VENV)/bin/") for line in code.splitlines()]
    found = [line for line in lines if line.startswith("bigdag ")]
    assert found
    for line in found:
        _, *rest = shlex.split(line, comments=True)
        command = get_command(app)
        while hasattr(command, "commands"):
            command = command.commands[rest.pop(0)]
        known = {name for option in command.params for name in option.opts}
        assert {part for part in rest if part.startswith("--")} <= known, line
        if "--method" in rest and "experiment" not in line:  # where it is the name in a plan
            assert rest[rest.index("--method") + 1] in METHODS, line


# ------------------------------------------------------------------ as a process


def run(*words, **more):
    return subprocess.run([*COMMAND, *map(str, words)], capture_output=True, text=True, **more)


def test_the_process_keeps_streams_and_codes_apart():
    good = run("fit", table(), "--method", "sort-r2", "--json")
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads(good.stdout)["out"] == "t.dag.parquet"
    again = run("fit", "t.csv", "--json")
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr.startswith("Error: t.dag.parquet exists already")
    bad = run("fit", table("bad.csv", edit=with_value("tall")))
    assert (bad.returncode, bad.stdout) == (1, "")
    assert "Traceback" not in bad.stderr


def test_version_and_help():
    assert run("--version").stdout == f"bigdag {bigdag.__version__}\n"
    text = run("--help").stdout
    for word in ("fit", "show", "simulate", "evaluate", "methods", "experiment"):
        assert f"│ {word} " in text
    assert "bigdag fit genes.csv" in text
    assert run("fit", "--help").returncode == 0


# ------------------------------------------------------------------ compiling


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_fit_says_once_that_it_compiles(monkeypatch, words):
    """One plain line on stderr where no terminal is, and nothing of it on stdout."""

    def compile_at_once(tell):
        if tell is not None:
            tell()

    monkeypatch.setattr("bigdag.compiled.on_compiling", compile_at_once)
    stdout, stderr = bigdag_("fit", table(), "--method", "sort-r2", *words)
    assert stderr.count("compiling, only this first time\n") == 1
    assert "compiling" not in stdout


def test_a_quiet_fit_and_one_that_compiles_nothing_say_nothing_of_it(monkeypatch):
    asked = []
    monkeypatch.setattr("bigdag.compiled.on_compiling", asked.append)
    _, stderr = bigdag_("fit", table(), "--method", "sort-r2")
    assert asked[0] is not None
    assert asked[-1] is None
    assert "compiling" not in stderr
    asked.clear()
    bigdag_("fit", table(), "--method", "sort-r2", "--quiet", "--force")
    assert not any(asked)


def test_a_terminal_shows_in_the_progress_line_that_it_compiles(monkeypatch):
    from bigdag.cli import messages

    monkeypatch.setenv("FORCE_COLOR", "1")
    with messages.FitProgress(shown=True) as progress:
        progress._compiling()
        assert progress._progress.tasks[0].description == "compiling, only this first time"


def test_a_postponed_module_is_loaded_when_it_is_used():
    code = (
        "import sys; from bigdag.cli.postponed import postpone; postpone('scipy.stats');"
        "import scipy.stats, sklearn.base; assert 'scipy.stats._stats_py' not in sys.modules;"
        "from scipy.stats import norm; import scipy.stats.distributions;"
        "assert scipy.stats.norm is norm is sys.modules['scipy.stats'].norm; print('right')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "right\n", done.stderr


def test_what_is_not_installed_is_not_postponed():
    postpone("no_such_package.part")
    assert "no_such_package.part" not in sys.modules


def test_a_postponed_part_of_a_package_is_loaded_when_it_is_used():
    pytest.importorskip("narwhals")  # scikit-learn uses it from 1.8 on
    code = (
        "import sys; from bigdag.cli.postponed import postpone_unneeded; postpone_unneeded();"
        "import sklearn.base; assert 'narwhals.translate' not in sys.modules;"
        "import narwhals.stable.v2 as nw, pandas as pd;"
        "frame = nw.from_native(pd.DataFrame({'a': [1]}));"
        "import narwhals; from narwhals import col;"
        "assert frame.columns == ['a'] and narwhals.col is col; print('right')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "right\n", done.stderr


def test_the_help_of_a_word_imports_nothing_heavy():
    code = "import sys; from bigdag.cli import app; app(standalone_mode=False); print(*sys.modules)"
    words = [sys.executable, "-c", code, "fit", "--help"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    heavy = {"numpy", "scipy", "numba", "pandas", "sklearn", "pyarrow", "torch", "matplotlib"}
    assert not heavy & set(told.splitlines()[-1].split())


def test_show_takes_a_radius_around_a_variable_only(tmp_path):
    path = tmp_path / "dag.npz"
    DAG([[0, 1], [0, 0]]).save(path)
    result = CliRunner().invoke(app, ["show", str(path), "--radius", "2"])
    assert result.exit_code == 2
    assert "--radius goes with --variable" in result.stderr


def test_the_rows_are_told_and_as_how_many_they_count_where_values_are_missing(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 5)), columns=list("abcde"))
    frame["b"] += frame["a"]
    frame.mask(np.random.default_rng(1).random((200, 5)) < 0.03).to_csv(tmp_path / "t.csv")
    words = ["fit", str(tmp_path / "t.csv"), "--out", str(tmp_path / "o.json"), "--force"]
    words += ["--method", "order-search-bic", "--row-labels", "--missing"]
    report = json.loads(CliRunner().invoke(app, [*words, "pairwise", "--json"]).stdout)
    assert report["n_rows"] == 200
    assert report["n_samples"] < 200
    text = " ".join(CliRunner().invoke(app, [*words, "pairwise"]).stdout.split())
    counted = f"they count as {report['n_samples']} whole ones"
    assert f"200 samples (with missing values, {counted}) of 5 variables" in text
    text = " ".join(CliRunner().invoke(app, [*words, "drop"]).stdout.split())
    assert "samples (200 rows, those with missing values left out) of 5 variables" in text


def test_a_fit_tells_that_there_are_far_more_columns_than_rows(tmp_path):
    np.save(tmp_path / "t.npy", np.random.default_rng(0).normal(size=(20, 60)))
    words = ["fit", str(tmp_path / "t.npy"), "--out", str(tmp_path / "o.json")]
    text = " ".join(CliRunner().invoke(app, words).stdout.split())
    assert "few rows: 60 columns, but 20 rows" in text


@pytest.fixture
def coded(tmp_path, monkeypatch):
    """Return a folder with a table, a code in some of its cells, and a DAG learnt from it."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 4)), columns=["rain", "river", "sea", "sun"])
    frame["river"] += 2 * frame["rain"]
    frame.to_csv(tmp_path / "whole.csv", index=False)
    frame.iloc[:20, 1] = -999.0
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", "t.csv", "--missing-code=-999", "--missing", "drop", "--out", "o.parquet"]
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [*words, "--method", "order-search-bic"])
    assert result.exit_code == 0, result.output
    return tmp_path


def test_evaluate_takes_the_variables_of_a_list_of_arcs_from_the_dag(coded):
    (coded / "truth.csv").write_text("source,target\nrain,river\n")
    words = ["evaluate", "o.parquet", "--truth", "truth.csv"]
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 0, result.output
    assert "2 of which have no arcs in it" in result.stderr
    assert json.loads(result.stdout)["metrics"]["undirected_recall"] == 1
    (coded / "truth.csv").write_text("source,target\nrain,rivver\nsnow,sea\n")
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    told = result.output.replace("\n", " ")
    assert "2 of the 4 variables of the truth are not in the DAG" in told
    assert "'rivver' (did you mean 'river'?), 'snow'" in told


def test_evaluate_knows_the_codes_for_missing_values_of_the_dag(coded):
    (coded / "truth.csv").write_text("source,target\nrain,river\n")
    words = ["evaluate", "o.parquet", "--truth", "truth.csv", "--json", "--data"]
    result = CliRunner().invoke(app, [*words, "t.csv"])
    assert result.exit_code == 0, result.output
    assert "20 of 200 rows were left out" in result.stderr
    pd.read_csv("t.csv")[20:].to_csv("rest.csv", index=False)
    rest = CliRunner().invoke(app, [*words, "rest.csv"])
    scores = [json.loads(run.stdout)["metrics"]["nll_nv"] for run in (result, rest)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-12)


def test_a_word_is_loaded_without_the_others():
    """The table of words names them all, and a command imports its own only."""
    import typer

    from bigdag import cli

    group = typer.main.get_command(cli.app)
    assert set(group.commands) == set(cli._MODULES)
    folder = Path(cli.__file__).parent
    files = {file.stem for file in folder.glob("*.py")}
    with_words = {one for one in files if "@app.command" in (folder / f"{one}.py").read_text()}
    assert with_words == set(cli._MODULES.values())
    code = (
        "import sys; sys.argv = ['bigdag', 'methods', '--help']\n"
        "from bigdag.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n"
        "    print([m for m in ('methods', 'fit', 'explore') if 'bigdag.cli.' + m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['methods']"
    assert "List the methods of fit" in done.stdout
