"""The command, end to end in a temporary folder."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from typer.main import get_command
from typer.testing import CliRunner

import bigdag
from bigdag import metrics
from bigdag.cli import app
from bigdag.dag import DAG
from bigdag.learners.base import Learner
from bigdag.methods import METHODS, Method
from bigdag.tables import read_table

COMMAND = [sys.executable, "-m", "bigdag.cli"]


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
        row = Method("scripted", "Scripted", "for tests", False, lambda n, d: n * d)
        monkeypatch.setattr(bigdag, "Scripted", kind, raising=False)
        monkeypatch.setattr(
            "bigdag.methods.METHODS", {"scripted": row, "proximas": METHODS["proximas"]}
        )

    return ends


# ------------------------------------------------------------------ the whole way


def test_simulate_fit_evaluate_show(world):
    fitted = bigdag_json("fit", world / "train.parquet", "--out", "dag.parquet", "--seed", 1)
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
    words = ["--d", 20, "--k", 2, "--n", 4000, "--validation", 3000, "--scale", "NV", units]
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


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".graphml", ".dot", ".json", ".parquet"])
def test_every_format_of_a_dag(suffix):
    bigdag_("fit", table(), "--out", f"dag{suffix}", "--quiet")
    assert bigdag_json("show", f"dag{suffix}")["n_variables"] == 4


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
    plain = bigdag_json("fit", table(), "--lambda1", 0.01, "--out", "a.npz")
    cut = bigdag_json("fit", "t.csv", "--lambda1", 0.01, "--threshold", 0.5, "--out", "b.npz")
    assert cut["n_arcs_found"] == plain["n_arcs"]
    assert DAG.load("b.npz") == DAG.load("a.npz").threshold(0.5)
    words = ["--lambda1", 0.01, "--no-refit", "--set", "improve=true", "--set", "tol=1e-3"]
    other = bigdag_json("fit", "t.csv", *words, "--out", "c.npz")
    assert other["parameters"] == {"lambda1": 0.01, "refit": False, "improve": True, "tol": 1e-3}
    assert not other["refit_gain"]


def test_a_covariance_matrix_gives_what_its_table_gives():
    frame = pd.read_csv(table(n=200, d=6))
    frame.cov(ddof=0).to_csv("cov.csv")
    bigdag_("fit", "t.csv", "--quiet", "--out", "a.npz")
    _, stderr = bigdag_("fit", "cov.csv", "--covariance", "--n-samples", 200, "--out", "b.npz")
    assert "row labels" in stderr
    a, b = DAG.load("a.npz"), DAG.load("b.npz")
    assert a.names == b.names
    np.testing.assert_allclose(a.weights.toarray(), b.weights.toarray(), atol=1e-6)


def test_standardise_makes_the_answer_free_of_units():
    frame = pd.read_csv(table())
    (frame * [1, 1e3, 1e-3, 50]).to_csv("scaled.csv", index=False)
    for name in ("t", "scaled"):
        report = bigdag_json("fit", f"{name}.csv", "--standardise", "--out", f"{name}.npz")
        assert report["standardised"]
    same = (DAG.load(f"{name}.npz").weights.toarray() for name in ("t", "scaled"))
    np.testing.assert_allclose(*same, atol=1e-8)


def test_a_warm_start_from_a_file():
    bigdag_("fit", table(), "--quiet", "--out", "a.npz")
    report = bigdag_json("fit", "t.csv", "--warm-start", "a.npz", "--out", "b.npz")
    assert report["parameters"]["warm_start_dag"] == "a.npz"
    assert report["objective"] <= bigdag_json("fit", "t.csv", "--out", "c.npz")["objective"] + 1e-9


def test_quiet_says_nothing_and_the_summary_says_what_matters():
    assert bigdag_("fit", table(), "--quiet") == ("", "")
    stdout, stderr = bigdag_("fit", "t.csv", "--force")
    assert stderr == ""
    for words in (
        "60 samples of 4 variables", "converged", "objective", "Strongest arcs", "larger variance",
        "depends on the units", "Written to t.dag.parquet",
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
    assert "pip install 'bigdag[torch]'" in stdout
    monkeypatch.setattr("bigdag.methods.find_spec", lambda name: None)
    stdout, _ = bigdag_("methods")
    assert "torch (not installed)" in stdout
    _, stderr = bigdag_("fit", table(), "--method", "notears", code=1)
    assert "needs the package 'torch'" in stderr


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
    assert bigdag_json("fit", "t.csv", "--time-limit", 1e-9, "--force")["status"] == "time_limit"


def test_an_interrupt_outside_of_the_fit_writes_nothing(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("bigdag.tables.read_table", interrupted)
    _, stderr = bigdag_("fit", table(), code=1)
    assert stderr == "Error: Interrupted.\n"
    assert os.listdir() == ["t.csv"]


def test_a_fault_of_bigdag_itself_shows_its_traceback(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("bigdag.tables.read_table", broken)
    with pytest.raises(ZeroDivisionError):
        bigdag_("fit", table())


SLOW = """
import sys, time
import numpy as np, scipy.sparse as sp
import bigdag, bigdag.methods
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
row = bigdag.methods.Method("slow", "Slow", "for tests", False, lambda n, d: n * d)
bigdag.methods.METHODS = {"slow": row}
app()
"""


def test_ctrl_c_on_a_terminal(tmp_path):
    """A real interrupt of a real process, with the progress on a terminal."""
    pty = pytest.importorskip("pty")
    Path("slow.py").write_text(textwrap.dedent(SLOW))
    ours, theirs = pty.openpty()
    words = ["fit", table(), "--method", "slow", "--time-limit", "100", "--json"]
    process = subprocess.Popen(
        [sys.executable, "slow.py", *words],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "150"},
    )
    os.close(theirs)
    deadline = time.monotonic() + 60
    while not Path("ready").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.4)
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=60)
    seen = b""
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
    for words in (b"slowly", b"iteration", b"objective 1", b"1 arcs", b"left", b"was interrupted"):
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
        "1 of 4 columns hold text or other values that are not numbers: 'v1' (row 3: 'tall')",
    ),
    "no rows": (lambda frame: frame[:0], "no rows"),
    "one row": (lambda frame: frame[:1], "only one row"),
    "equal names": (
        lambda frame: frame.set_axis(["a", "b", "a", "c"], axis=1),
        "More than one column is called 'a'",
    ),
}


@pytest.mark.parametrize("fault", BAD_TABLES)
def test_bad_tables(fault):
    edit, words = BAD_TABLES[fault]
    stdout, stderr = bigdag_("fit", table(edit=edit), code=1)
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
    assert "20 KB may be used: at most" in stderr
    assert os.listdir() == ["t.csv"]


def test_odd_tables_that_work():
    _, stderr = bigdag_("fit", table(edit=lambda f: f.assign(v1=7.0)), "--out", "constant.npz")
    assert stderr == ("Warning: 1 of 4 columns are constant and become isolated nodes: 'v1'.\n")
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
        (["--lambda1", "-1"], "lambda1 must be a number >= 0"),
        (["--lambda2", "-1"], "lambda2 must be a number >= 0"),
        (["--lambda1", "nan"], "lambda1 must be a number >= 0"),
        (["--max-iter", "0"], "max_iter must be an integer >= 1"),
        (["--time-limit", "0"], "time_limit must be a number > 0"),
        (["--seed", "-4"], "random_state must be"),
        (["--n-jobs", "0"], "n_jobs must be"),
        (["--memory-limit", "much"], "memory_limit must be"),
        (["--threshold", "-0.1"], "threshold must be a finite number of at least 0"),
        (["--threshold", "nan"], "threshold must be a finite number of at least 0"),
        (["--out", "dag.txt"], "suffix of a DAG's file must be one of .npz, .parquet"),
        (["--out", "no/dag.npz"], "the folder no does not exist"),
        (["--out", "t.csv", "--force"], "t.csv is the table itself"),
        (["--out", "."], "suffix of a DAG's file"),
        (["--set", "improve"], "--set needs NAME=VALUE. Got 'improve'"),
        (["--set", "improve=maybe"], "improve must be one of True, False"),
        (["--set", "callback=1"], "--set callback needs Python"),
        (["--covariance"], "--covariance needs --n-samples"),
        (["--n-samples", "5"], "--n-samples goes with --covariance"),
        (["--covariance", "--n-samples", "5", "--standardise"], "--standardise needs samples"),
        (["--covariance", "--n-samples", "1"], "--n-samples must be at least 2. Got 1 instead."),
        (["--lambda1", "much"], "for '--lambda1'"),
        (["--warm-start", "none.npz"], "'none.npz' does not exist"),
        (["--lamda1", "1"], "No such option"),
    ],
)  # fmt: skip
def test_bad_words_of_fit(words, sentence):
    stdout, stderr = bigdag_("fit", table(), *words, code=2)
    assert sentence in one_line(stderr)
    assert stdout == ""
    assert os.listdir() == ["t.csv"]


def test_bad_words_are_refused_before_the_table_is_read(monkeypatch):
    def unread(*_):
        raise AssertionError("the table was read")

    monkeypatch.setattr("bigdag.tables.read_table", unread)
    bigdag_("fit", table(), "--lambda1", -1, code=2)
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


def test_a_gpu_that_is_not_there():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is one")
    words = ["--set", "engine=dense", "--device", "cuda"]
    _, stderr = bigdag_("fit", table(), *words, code=2)
    assert "device must be one that is there" in stderr


def test_a_table_that_is_not_there():
    _, stderr = bigdag_("fit", "none.csv", code=2)
    assert "'none.csv' does not exist" in one_line(stderr)


def test_unknown_words():
    for words in (["fits"], ["show"], ["simulate"], ["--versions"]):
        bigdag_(*words, code=2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--d", "10", "--k", "5"], "k * d must be between 1 and d * (d - 1) / 2 = 45"),
        (["--k", "0"], "k, the number of arcs for each variable, must be above 0"),
        (["--k", "nan"], "must be above 0"),
        (["--d", "1"], "d must be a whole number, at least 2"),
        (["--noise", "gausian"], "Got 'gausian' instead. Did you mean 'gaussian'?"),
        (["--graph", "BA"], "graph must be one of 'ER', 'SF'"),
        (["--scale", "ev"], "Did you mean 'EV'?"),
        (["--graph", "SF", "--k", "1.5"], "k must be a whole number for graph='SF'"),
        (["--n", "1"], "n must be an integer >= 2. Got 1 instead."),
        (["--seed", "-1"], "seed must be an integer >= 0. Got -1 instead."),
        (["--standardise", "--iscm"], "exclude each other"),
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
    assert "threshold must be a finite number, at least 0" in stderr
    _, stderr = bigdag_("evaluate", est, "--truth", est, "--train", table(), code=2)
    assert "--train goes with --data" in stderr
    _, stderr = bigdag_("evaluate", est, "--truth", est, "--data", table(), code=1)
    assert "must have 4 variables" in stderr
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


@pytest.mark.parametrize("text", ["README.md", "Makefile", "docs/guide.md"])
def test_every_command_in_the_texts_is_one(text):
    words = get_command(app).commands
    code = (ROOT / text).read_text().replace("\\\n", " ")
    if text.endswith(".md"):
        code = "".join(re.findall(r"```sh\n(.*?)```", code, re.DOTALL))
    found = [line.strip() for line in code.splitlines() if line.strip().startswith("bigdag ")]
    assert found
    for line in found:
        _, word, *rest = shlex.split(line, comments=True)
        known = {name for option in words[word].params for name in option.opts}
        assert {part for part in rest if part.startswith("--")} <= known, line


# ------------------------------------------------------------------ as a process


def run(*words, **more):
    return subprocess.run([*COMMAND, *map(str, words)], capture_output=True, text=True, **more)


def test_the_process_keeps_streams_and_codes_apart():
    good = run("fit", table(), "--json")
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
    for word in ("fit", "show", "simulate", "evaluate", "methods", "bigdag fit genes.csv"):
        assert word in text
    began = time.perf_counter()
    assert run("fit", "--help").returncode == 0
    assert time.perf_counter() - began < 5  # some 0.4 s on an idle machine
