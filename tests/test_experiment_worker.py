"""One run in a process of its own, and the data sets it reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bigdag import DAG, metrics, simulate
from bigdag.errors import BigdagError, GraphError
from bigdag.experiments import load_plan
from bigdag.experiments.run import datasets, measure
from bigdag.experiments.run.measure import objective_curve, pace
from bigdag.experiments.run.worker import run_job
from bigdag.simulate.worlds import World

METRICS = {
    "average_precision", "shd", "shd_per_node", "fnr", "fpr", "precision", "recall", "f1",
    "nll_ev", "nll_nv", "order_errors", "shd_cpdag",
}  # fmt: skip
STATUSES = {"converged", "max_iter", "time_limit", "interrupted", "diverged"}

PLAN = """
thresholds = [0.1, 0.3]
[limits]
time_limit = {time}
memory_limit = "4 GB"
{limits}
[[data]]
{data}
[[method]]
name = "the method"
method = "{method}"
parameters = {{ {parameters} }}
"""


def job_of(
    folder: Path, method: str = "sort-variance", data: str = "d = 20\nn = 60", parameters: str = "",
    time: float = 5, limits: str = "",
):  # fmt: skip
    path = folder / "plan.toml"
    text = PLAN.format(method=method, data=data, parameters=parameters, time=time, limits=limits)
    path.write_text(text)
    job = load_plan(path).jobs()[0]
    return {**job, "data": str(folder / "data"), "snapshots": str(folder / "snapshots")}


def values(record, metric, **labels):
    wanted = {"metric": metric, **labels}
    return [s["value"] for s in record["scores"] if wanted.items() <= s.items()]


# ------------------------------------------------------------------ data sets


@pytest.mark.parametrize(
    ("units", "known"), [("raw", "raw"), ("standardised", "standardised"), ("iscm", "internal")]
)
def test_a_data_set_is_the_world_of_its_seed(tmp_path, units, known):
    dataset = job_of(tmp_path, data=f"d = 20\nn = 60\nk = 2\nvariance = 'NV'\nunits = '{units}'")[
        "dataset"
    ]
    data = datasets.load(datasets.prepare(dataset, tmp_path / "data"))
    truth, train, validation = World(
        d=20, k=2, variance="NV", n=60, validation=60, seed=0, units=known
    ).draw()
    assert data.truth == truth
    for found, drawn in ((data.train, train), (data.validation, validation)):
        np.testing.assert_allclose(found.X + found.mean, drawn, rtol=1e-12, atol=1e-12)
        assert found.X.flags.f_contiguous
        assert not found.X.flags.writeable
        assert isinstance(found.X.base, np.memmap)
    assert data.card["var_sortability"] == metrics.var_sortability(train, truth)


def test_a_data_set_is_made_once_and_whole(tmp_path, monkeypatch):
    dataset = job_of(tmp_path)["dataset"]
    with ThreadPoolExecutor(4) as pool:
        made = set(pool.map(lambda _: datasets.prepare(dataset, tmp_path / "data"), range(8)))
    (path,) = made
    assert os.listdir(tmp_path / "data") == [path.name]
    monkeypatch.setattr(datasets, "_write", None)
    assert datasets.prepare(dataset, tmp_path / "data") == path


def test_a_data_set_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    dataset = job_of(tmp_path)["dataset"]

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(BigdagError, match="No space left"):
        datasets.prepare(dataset, tmp_path / "data")
    assert os.listdir(tmp_path / "data") == []


def test_a_user_s_table_is_split_by_the_seed(tmp_path):
    X = np.random.default_rng(0).normal([3.0, -1.0, 0.0], [1.0, 5.0, 2.0], size=(50, 3))
    pd.DataFrame(X, columns=["a", "b", "c"]).to_csv(tmp_path / "t.csv", index=False)
    # The truth lists its variables in another sequence.
    DAG([[0, 1.0, 0], [0, 0, 0], [0, 0, 0]], names=["c", "a", "b"]).save(tmp_path / "truth.csv")
    text = "table = 't.csv'\ntruth = 'truth.csv'\nunits = 'standardised'"
    dataset = job_of(tmp_path, data=text)["dataset"]
    data = datasets.load(datasets.prepare(dataset, tmp_path / "data"))
    assert (data.train.n_samples, data.validation.n_samples) == (40, 10)
    assert data.train.names == ("a", "b", "c")
    np.testing.assert_allclose(data.train.X.std(axis=0), 1.0)
    # Both parts have one mean and one unit taken out, and hold all rows between them.
    whole = np.vstack([data.train.X + data.train.mean, data.validation.X + data.validation.mean])
    scale = (whole.max(axis=0) - whole.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    np.testing.assert_allclose(
        np.sort(whole, axis=0) - whole.min(axis=0), (np.sort(X, axis=0) - X.min(axis=0)) * scale
    )
    np.testing.assert_array_equal(data.truth.weights.toarray(), [[0, 0, 0], [0, 0, 0], [1.0, 0, 0]])
    other = datasets.load(datasets.prepare({**dataset, "seed": 1, "key": "b"}, tmp_path / "data"))
    assert not np.allclose(other.train.X, data.train.X)


def test_a_truth_of_other_variables_is_refused(tmp_path):
    np.save(tmp_path / "t.npy", np.random.default_rng(0).normal(size=(50, 3)))
    simulate.random_dag(4, 1, rng=0).save(tmp_path / "truth.csv")
    job = job_of(tmp_path, data="table = 't.npy'\ntruth = 'truth.csv'")
    with pytest.raises(GraphError, match="3"):
        datasets.prepare(job["dataset"], tmp_path / "data")
    record = run_job(job)
    assert record["status"] == "error"
    assert record["message"].startswith("GraphError: ")


# ------------------------------------------------------------------ a run


def test_a_run_from_end_to_end(tmp_path):
    job = job_of(tmp_path)
    (tmp_path / "job.json").write_text(json.dumps(job))
    command = [sys.executable, "-m", "bigdag.experiments.run.worker"]
    subprocess.run([*command, tmp_path / "job.json", tmp_path / "result.json"], check=True)
    record = json.loads((tmp_path / "result.json").read_text())
    assert record["run"] == job["run"]
    assert record["status"] == "converged"
    assert record["iterations"] == sum(record["phase_steps"].values()) == 1
    assert record["seconds"] > 0
    assert 50e6 < record["peak_bytes"] < 2e9
    assert {"bigdag", "numpy"} <= record["versions"].keys()
    assert record["threads"] == 1
    assert {score["metric"] for score in record["scores"]} == METRICS
    assert len(list(tmp_path.glob("*.tmp"))) == 0

    # The scores are those of the same fit here, computed by the public functions.
    from bigdag import SortRegress

    data = datasets.load(tmp_path / "data" / job["dataset"]["key"])
    dag = SortRegress(order="variance").fit(data.train).dag_
    assert record["n_arcs"] == dag.n_arcs
    assert record["curve"][-1][1] == pytest.approx(record["objective"])
    expected = metrics.evaluate(
        dag, data.truth, train=data.train, validation=data.validation, threshold=0.3
    )
    for name in METRICS - {"average_precision", "order_errors"}:
        (found,) = values(record, name, threshold=0.3, directed=True)
        known = {"shd_per_node": "shd_normalised"}.get(name, name)
        assert found == pytest.approx(expected[known])
    (undirected,) = values(record, "average_precision", directed=False)
    assert undirected == pytest.approx(expected["undirected_average_precision"])
    (wrong,) = values(record, "order_errors")
    assert wrong == pytest.approx(expected["order_errors"])
    assert record["sortability"]["var"] == data.card["var_sortability"]


def test_the_threads_are_set_before_numpy_is_there(tmp_path):
    job = {**job_of(tmp_path), "threads": 3}
    (tmp_path / "job.json").write_text(json.dumps(job))
    code = (
        "import os, sys; from bigdag.experiments.run import worker;"
        "worker.run_job = lambda job: {'numpy': 'numpy' in sys.modules,"
        " 'threads': os.environ['OMP_NUM_THREADS']};"
        "worker.main(sys.argv[1:])"
    )
    clean = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    out = tmp_path / "result.json"
    subprocess.run([sys.executable, "-c", code, tmp_path / "job.json", out], check=True, env=clean)
    assert json.loads(out.read_text()) == {"numpy": False, "threads": "3"}


def test_a_table_without_a_truth_has_its_likelihood_only(tmp_path):
    X = simulate.sample(simulate.random_dag(5, 1, rng=0), 100, rng=1)
    pd.DataFrame(X, columns=list("abcde")).to_parquet(tmp_path / "t.parquet")
    record = run_job(
        job_of(tmp_path, data="table = 't.parquet'", limits="snapshot_every = 1", method="proximas")
    )
    assert record["status"] == "converged"
    assert {score["metric"] for score in record["scores"]} == {"nll_ev", "nll_nv"}
    assert {score["threshold"] for score in record["scores"]} == {None, 0.1, 0.3}
    assert record["sortability"]["var"] is None


def test_a_learner_with_raw_weights_is_scored_on_both(tmp_path):
    record = run_job(
        job_of(tmp_path, "notears", parameters='solver = "soft_penalty", max_iter = 400', time=20)
    )
    assert record["status"] == "max_iter"
    on_dag, raw = (
        values(record, "average_precision", weights=w, directed=True)[0] for w in ("dag", "raw")
    )
    assert on_dag != raw
    assert values(record, "nll_ev", weights="raw") == []
    assert record["phase_steps"] == {"fit": 400}


def test_snapshots_are_kept_and_scored_and_the_answer_stands(tmp_path):
    job = job_of(
        tmp_path, "golem-ev", parameters="tol = 0.0, max_iter = 1000000", time=1.2,
        limits="snapshot_every = 0.25",
    )  # fmt: skip
    record = run_job(job)
    assert record["status"] == "time_limit"
    marks = sorted({s["snapshot"] for s in record["scores"] if s["snapshot"]})
    assert marks == [0.25, 0.5, 0.75, 1.0]
    kept = sorted(path.name for path in (tmp_path / "snapshots").iterdir())
    assert kept == sorted(f"{job['run']}-{mark:g}.npz" for mark in marks)
    truth = datasets.load(tmp_path / "data" / job["dataset"]["key"]).truth
    with np.load(tmp_path / "snapshots" / f"{job['run']}-0.5.npz") as file:
        from scipy.sparse import csc_array

        parts = (file["raw_data"], file["raw_indices"], file["raw_indptr"])
        raw = csc_array(parts, shape=(20, 20))
        assert file["seconds"] >= 0.5
    found = values(record, "average_precision", snapshot=0.5, weights="raw", directed=True)
    assert found == [pytest.approx(metrics.average_precision(raw, truth))]
    assert len(values(record, "f1", snapshot=0.5, weights="dag", directed=True)) == 2

    early = run_job(job_of(tmp_path, "proximas", time=9, limits="snapshot_every = 3"))
    (answer,) = values(early, "average_precision", snapshot=None, directed=True)
    standing = [
        values(early, "average_precision", snapshot=mark, directed=True) for mark in (3.0, 6.0, 9.0)
    ]
    assert standing == [[answer]] * 3


def test_a_time_limit_ends_a_run_with_a_status_of_the_list(tmp_path):
    record = run_job(job_of(tmp_path, "gd", data="d = 60\nk = 4\nn = 60", time=0.05))
    assert record["status"] in STATUSES


def test_an_exception_becomes_a_record(tmp_path, monkeypatch):
    from bigdag import SortRegress

    def fails(self, X, y=None):
        raise RuntimeError("the cable\nis loose")

    monkeypatch.setattr(SortRegress, "fit", fails)
    record = run_job(job_of(tmp_path))
    assert (record["status"], record["message"]) == ("error", "RuntimeError: the cable")
    assert record["scores"] == []
    json.dumps(record, allow_nan=False)


def test_too_little_memory_for_a_method_is_said_as_such(tmp_path):
    record = run_job({**job_of(tmp_path, "notears"), "memory_limit": 1})
    assert record["status"] == "out_of_memory"
    assert "memory" in record["message"].lower()


def test_a_history_becomes_few_points_and_a_pace():
    rng = np.random.default_rng(0)
    history = pd.DataFrame({
        "phase": ["start"] + ["fit"] * 500 + ["mas"] * 499,
        "iteration": range(1000),
        "seconds": np.concatenate([np.arange(501) * 0.1, 50 + np.arange(1, 500) * 0.2]),
        "objective": rng.normal(size=1000),
    })  # fmt: skip
    history.loc[999, "objective"] = np.inf  # it has diverged
    curve = objective_curve(history)
    assert len(curve) <= 200
    assert curve[0][0] == 0.0
    assert curve[-1][0] == history.seconds[998]
    seconds, steps = pace(history)
    assert seconds == pytest.approx({"fit": 0.1, "mas": 0.2})
    assert steps == {"fit": 500, "mas": 499}


def test_a_graph_with_very_many_arcs_is_scored_where_it_is_cut(tmp_path, monkeypatch):
    job = job_of(tmp_path)
    data = datasets.load(datasets.prepare(job["dataset"], tmp_path / "data"))
    rng = np.random.default_rng(0)
    full = DAG(np.triu(np.where(rng.random((20, 20)) < 0.1, 1.0, 0.01), 1))
    all_arcs = measure.arc_scores(full, data.truth, [0.0, 0.3])
    scored = measure.dag_scores(full, data, [0.3])
    monkeypatch.setattr(measure, "_ARCS", full.n_arcs - 1)
    monkeypatch.setattr(measure, "_PRODUCTS", 60 * full.n_arcs - 1)
    left = measure.dag_scores(full, data, [0.3])
    assert [s for s in scored if s["threshold"] or s["metric"] == "order_errors"] == left
    # Cutting first changes nothing above.
    cut = [s for s in measure.arc_scores(full, data.truth, [0.3]) if s["threshold"]]
    assert cut == [s for s in all_arcs if s["threshold"]]
