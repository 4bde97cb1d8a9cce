"""The bootstrap in the command, in files, on a cluster, and after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import joblib
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from typer.testing import CliRunner

from bigdag import DAG, BootstrapDAG, metrics, simulate
from bigdag.cli import app
from bigdag.learners.checkpoint import read_resamples


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bootstrap")
    truth = simulate.random_dag(12, 1, rng=0)
    X = simulate.standardise(simulate.sample(truth, 200, rng=1))
    names = [f"g{i}" for i in range(12)]
    DAG(truth.weights, names, truth.order).save(folder / "truth.parquet")
    pd.DataFrame(X, columns=names).to_csv(folder / "t.csv", index=False)
    done = invoke(
        "fit", folder / "t.csv", "--method", "order-search-bic", "--bootstrap", 20, "--seed", 3,
        "--out", folder / "b.parquet", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["bootstrap"] == {
        "n_resamples": 20,
        "wanted": 20,
        "min_prob": 0.5,
        "weighs_chance": True,
    }
    return folder


def test_fit_writes_what_the_library_finds(folder):
    model = BootstrapDAG(n_resamples=20, random_state=3).fit(
        pd.read_csv(folder / "t.csv", float_precision="round_trip")
    )
    written = DAG.load(folder / "b.parquet")
    assert written == model.dag_
    np.testing.assert_array_equal(
        written.arc_data["probability"], model.dag_.arc_data["probability"]
    )
    assert written.about["bootstrap"]["n_resamples"] == 20


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".graphml", ".json"])
def test_all_formats_keep_probabilities(folder, tmp_path, suffix):
    dag = DAG.load(folder / "b.parquet")
    dag.save(tmp_path / f"dag{suffix}")
    back = DAG.load(tmp_path / f"dag{suffix}")
    for name in ("probability", "adjacency", "weight_se"):
        np.testing.assert_array_equal(back.arc_data[name], dag.arc_data[name])


def test_show_prints_sorts_and_cuts(folder, tmp_path):
    report = json.loads(invoke("show", folder / "b.parquet", "--top", 50, "--json").stdout)
    values = [arc["probability"] for arc in report["strongest"]]
    assert values == sorted(values, reverse=True)
    cut = json.loads(
        invoke("show", folder / "b.parquet", "--min-prob", 0.95, "--top", 50, "--json").stdout
    )
    assert cut["n_arcs"] == sum(arc["adjacency"] >= 0.95 for arc in report["strongest"])
    text = invoke("show", folder / "b.parquet", "--plot", tmp_path / "p.svg").stdout
    assert "probability" in text
    assert "pale: less probable" in (tmp_path / "p.svg").read_text()


def test_evaluate_prints_how_well_probabilities_are_calibrated(folder):
    words = ("evaluate", folder / "b.parquet", "--truth", folder / "truth.parquet")
    assert "Calibration of arcs" in invoke(*words).stdout
    report = json.loads(invoke(*words, "--json").stdout)
    dag, truth = DAG.load(folder / "b.parquet"), DAG.load(folder / "truth.parquet")
    assert sum(row["count"] for row in report["calibration"]["directed"]) == dag.n_arcs
    assert report["metrics"]["average_precision"] == metrics.average_precision(
        dag, truth, by="probability"
    )


def test_compare_cuts_by_probability(folder):
    words = ("compare", folder / "b.parquet", folder / "b.parquet", "--min-prob", 0.95, "--json")
    report = json.loads(invoke(*words).stdout)
    assert report["same"] == report["n_arcs_a"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--method", "gd", "--checkpoint", "c.npz"], "--checkpoint goes with --bootstrap"),
        (["--no-bootstrap", "--checkpoint", "c.npz"], "which --no-bootstrap leaves out"),
        (["--bootstrap", "5", "--checkpoint", "none/c.npz"], "the folder none does not exist"),
        (["--method", "gd", "--dask", "tcp://127.0.0.1:1"], "--dask goes with --bootstrap, or"),
        (["--method", "gd", "--min-prob", "0.5"], "--min-prob goes with --bootstrap"),
        (["--min-prob", "2"], "--min-prob must be from 0 to 1. Got 2."),
        (["--bootstrap", "0"], "--bootstrap must be"),
        (["--bootstrap", "5", "--min-prob", "2"], "--min-prob must be from 0 to 1. Got 2."),
        (["--bootstrap", "5", "--feature-fraction", "2"], "--feature-fraction must be from 0 to 1"),
        (["--bootstrap", "5", "--search", "--method", "proximas"], "--search goes after it"),
        (["--bootstrap", "5", "--check-units"], "goes without --bootstrap"),
        (["--bootstrap", "5", "--feature-fraction", "0.5"], "add --method order-search-bic"),
        (["--feature-fraction", "0.5"], "add --method order-search-bic --bootstrap 100"),
    ],
)
def test_what_is_refused(folder, tmp_path, words, told):
    done = invoke("fit", folder / "t.csv", "--out", tmp_path / "x.parquet", *words)
    assert done.exit_code == 2
    assert told in done.output.replace("\n", " ")
    assert not list(tmp_path.iterdir())


def test_the_resamples_of_the_automatic_method_take_a_probability_and_a_file(folder, tmp_path):
    words = ("fit", folder / "t.csv", "--checkpoint", tmp_path / "c.npz", "--json", "--force")
    strict = invoke(*words, "--min-prob", 0.97, "--out", tmp_path / "a.parquet")
    assert strict.exit_code == 0, strict.output
    report = json.loads(strict.stdout)
    assert report["bootstrap"]["min_prob"] == 0.97
    done = report["bootstrap"]["n_resamples"]
    assert done >= 10
    assert len(read_resamples(tmp_path / "c.npz", 12)[1]) == done
    assert (DAG.load(tmp_path / "a.parquet").arc_data["adjacency"] >= 0.97).all()


def test_options_of_resamples_that_take_too_long_are_told_to_have_no_effect(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr("bigdag.learners.recipe._MINUTE", 0.0)
    out = tmp_path / "a.parquet"
    done = invoke("fit", folder / "t.csv", "--min-prob", 0.9, "--out", out)
    assert done.exit_code == 1
    assert "--min-prob had no effect" in done.output
    assert "--bootstrap 100 makes them" in done.output
    assert out.exists()
    plain = invoke("fit", folder / "t.csv", "--out", tmp_path / "b.parquet")
    assert plain.exit_code == 0
    assert "bootstrap none, so no arc has a probability: 10 would take" in one_line(plain.output)


def one_line(text):
    return " ".join(text.split())


def test_too_few_rows_give_no_probabilities_unasked(tmp_path):
    rng = np.random.default_rng(0)
    cause = rng.normal(size=8)
    frame = pd.DataFrame({"a": cause, "b": 2 * cause + 0.01 * rng.normal(size=8)})
    frame = frame.assign(c=rng.normal(size=8))
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = invoke("fit", tmp_path / "t.csv", "--out", tmp_path / "a.parquet")
    assert done.exit_code == 0, done.output
    assert "8 rows are too few to tell how sure an arc is" in one_line(done.output)
    assert "probability" not in DAG.load(tmp_path / "a.parquet").arc_data


def test_shares_of_resamples_are_not_called_more_than_that(folder, tmp_path):
    words = ("fit", folder / "t.csv", "--bootstrap", 12, "--out", tmp_path / "a.parquet", "--force")
    by_bic = invoke(*words, "--method", "order-search-bic")
    assert "rough probabilities" in one_line(by_bic.output)
    by_lasso = invoke(*words, "--method", "order-search")
    assert "it ranks arcs, and is often higher than the truth" in one_line(by_lasso.output)


def test_a_checkpoint_with_more_resamples_than_asked_for_is_used_whole_and_told(folder, tmp_path):
    words = ("fit", folder / "t.csv", "--method", "order-search-bic", "--force")
    words = (*words, "--checkpoint", tmp_path / "c.npz", "--out", tmp_path / "a.parquet")
    assert invoke(*words, "--bootstrap", 15).exit_code == 0
    text = " ".join(invoke(*words, "--bootstrap", 12).stdout.split())
    assert "all 15 resamples that the checkpoint held already, more than the 12 asked for" in text
    assert "15 of 12" not in text


@pytest.mark.parametrize(("count", "told"), [(1, "One resample tells only"), (4, "steps of 1/4")])
def test_few_resamples_are_told_to_give_no_probabilities(folder, tmp_path, count, told):
    words = ("fit", folder / "t.csv", "--method", "order-search-bic", "--force")
    words = (*words, "--out", tmp_path / "a.parquet", "--bootstrap")
    text = " ".join(invoke(*words, count).stdout.split())
    assert told in text
    assert "which is no probability" in text
    assert "which is no probability" not in " ".join(invoke(*words, 10).stdout.split())


@pytest.mark.parametrize("kind", ["same", "dot", "symlink", "hard link", "not there yet"])
def test_a_file_is_written_to_by_one_option_only(folder, tmp_path, kind):
    one, other = tmp_path / "a.npz", tmp_path / "b.npz"
    if kind != "not there yet":
        one.write_bytes(b"x")
    if kind in ("same", "not there yet"):
        other = one
    elif kind == "dot":
        other = f"{tmp_path}/./a.npz"
    elif kind == "symlink":
        other.symlink_to(one)
    else:
        other.hardlink_to(one)
    words = ("fit", folder / "t.csv", "--force", "--out", one, "--bootstrap", 3)
    done = invoke(*words, "--checkpoint", other)
    assert done.exit_code == 2
    assert "--out and --checkpoint are one and the same file" in done.output.replace("\n", " ")
    assert one.exists() == (kind != "not there yet")
    done = invoke("fit", folder / "t.csv", "--checkpoint", folder / "t.csv", "--out", one)
    assert "is the table itself" in done.output


def test_min_prob_needs_probabilities(folder):
    done = invoke("show", folder / "truth.parquet", "--min-prob", 0.8)
    assert done.exit_code == 2
    assert "bigdag fit --bootstrap" in done.output


def test_the_same_command_goes_on_after_a_kill(folder, tmp_path):
    words = [
        sys.executable, "-m", "bigdag.cli", "fit", str(folder / "t.csv"), "--method",
        "order-search-bic", "--bootstrap", "20000", "--seed", "3", "--checkpoint", "c.npz",
        "--out", "x.parquet",
    ]  # fmt: skip
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        file = tmp_path / "c.npz"  # without resamples at first
        while not (file.exists() and len(read_resamples(file, 12)[1]) >= 20):
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not (tmp_path / "x.parquet").exists()
    done = []
    model = BootstrapDAG(
        n_resamples=20, random_state=3, checkpoint=tmp_path / "c.npz", callback=done.append
    ).fit(pd.read_csv(folder / "t.csv", float_precision="round_trip"))
    assert not done  # the first are all there
    assert model.n_resamples_ >= 20
    refused = invoke(
        "fit", folder / "t.csv", "--method", "order-search-bic", "--bootstrap", 5, "--seed", 4,
        "--checkpoint", tmp_path / "c.npz", "--out", tmp_path / "y.parquet",
    )  # fmt: skip
    assert refused.exit_code == 2
    assert "seed was 3 and is now 4" in refused.output.replace("\n", " ")


def test_resamples_on_a_cluster_whose_worker_is_killed(folder, tmp_path):
    X = pd.read_csv(folder / "t.csv", float_precision="round_trip")
    here = DAG.load(folder / "b.parquet")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        workers = list(client.run(os.getpid).values())

        def kill(state):
            if workers and state.iteration > 5:  # the first five are done here
                os.kill(workers.pop(), signal.SIGKILL)

        with joblib.parallel_config("dask", client=client):
            model = BootstrapDAG(n_resamples=20, random_state=3, callback=kill).fit(X)
        assert model.n_resamples_ == 20
        assert model.dag_ == here
        done = invoke(
            "fit", folder / "t.csv", "--method", "order-search-bic", "--bootstrap", 20, "--seed", 3,
            "--dask", cluster.scheduler_address, "--out", tmp_path / "d.parquet",
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        assert DAG.load(tmp_path / "d.parquet") == here
    done = invoke(
        "fit", folder / "t.csv", "--bootstrap", 5, "--dask", "nonsense",
        "--out", tmp_path / "e.parquet",
    )  # fmt: skip
    assert done.exit_code == 2
    assert "no address of a Dask scheduler" in done.output.replace("\n", " ")


def test_a_file_that_is_no_checkpoint_is_told_without_the_words_of_other_packages(folder, tmp_path):
    other = tmp_path / "c.npz"
    other.write_text("a,b\n1,2\n")
    words = ["--bootstrap", "5", "--checkpoint", other, "--out", tmp_path / "x.parquet"]
    done = invoke("fit", folder / "t.csv", *words)
    assert done.exit_code == 2  # before the work begins
    assert not (tmp_path / "x.parquet").exists()
    assert "is no checkpoint that a bootstrap of this version wrote" in done.output
    assert "pickle" not in done.output
    assert other.read_text() == "a,b\n1,2\n"
