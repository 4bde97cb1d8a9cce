"""Runs on a real Dask cluster of separate processes, workers of which are killed on the way."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter

import dask
import psutil
import pytest
from distributed import Client, LocalCluster

from bigdag.engine import on_dask
from bigdag.errors import BigdagError, MissingExtraError, ParameterError
from bigdag.experiments.run import cluster as cluster_module
from bigdag.experiments.run.cluster import run_on_cluster
from bigdag.experiments.store import Store
from fake_runs import WORKER, diary, gone, make_job, started, wait_until

RESOURCES = {"cores": 1, "memory": 2 * 2**30}


def start(**options):
    return LocalCluster(
        **{"n_workers": 2, "threads_per_worker": 2, "resources": RESOURCES, "processes": True,
           "dashboard_address": ":0", **options},
    )  # fmt: skip


@pytest.fixture(scope="module")
def cluster():
    with start() as made:
        yield made


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


def run(path, jobs, address, **options):
    with Store(path) as store:
        progress = run_on_cluster(jobs, store, address, worker=WORKER, **options)
        frame = store.runs()
    return progress, {int(row["run"], 16): row for _, row in frame.iterrows()}


def test_every_end_is_a_row_here_too(path, cluster):
    jobs = [
        make_job(0), make_job(1, "error"), make_job(2, "segfault"),
        make_job(3, "hang") | {"hard_limit": 0.8},
        make_job(4, "eat", megabytes=300, memory=100 * 2**20), make_job(5),
    ]  # fmt: skip
    progress, rows = run(path, jobs, cluster.scheduler_address)
    assert [rows[i]["status"] for i in range(6)] == [
        "converged", "error", "crashed", "timeout", "out_of_memory", "converged"
    ]  # fmt: skip
    assert (progress.total, progress.done, progress.failed) == (6, 6, 4)
    assert rows[0]["overhead_seconds"] > 0
    assert "data" not in json.loads(rows[0]["job"])
    with Store(path, read_only=True) as store:
        assert store.claims() == []
    again, _ = run(path, jobs, cluster.scheduler_address)
    assert again.new == 0


def test_the_resources_hold_the_runs_apart(path, cluster):
    jobs = [make_job(i, sleep=0.4) for i in range(4)]
    run(path, jobs, cluster.scheduler_address)
    with Store(path, read_only=True) as store:
        frame = store.runs()
    # Two workers of one core each, though each has two threads of Dask.
    for moment in frame["started"]:
        assert sum((frame["started"] <= moment) & (moment < frame["finished"])) <= 2


def test_the_runs_of_a_lost_worker_are_sent_again(path, tmp_path):
    jobs = [
        make_job(i, "look", store=str(path), sleep=0.6, diary=str(tmp_path / "d")) for i in range(8)
    ]
    with start() as own:
        results = []
        thread = threading.Thread(
            target=lambda: results.append(run(path, jobs, own.scheduler_address))
        )
        thread.start()

        def under_way():
            written = diary(tmp_path / "d")
            ended = {run for word, run, _ in written if word == "end"}
            return [int(pid) for _, run, pid in written if run not in ended and len(written) >= 5]

        wait_until(under_way)
        worker = psutil.Process(under_way()[-1]).parents()[1]  # above the run and its guard
        worker.kill()
        thread.join(60)
        assert not thread.is_alive()
    ((progress, rows),) = results
    assert progress.done == 8
    assert {row["status"] for row in rows.values()} == {"converged"}
    written = diary(tmp_path / "d")
    begun = Counter(run for word, run, _ in written if word == "begin")
    ended = Counter(run for word, run, _ in written if word == "end")
    assert sum(begun.values()) > 8  # one was under way on the lost worker
    assert set(ended.values()) == {1}  # its process died with it: no run was done twice
    assert "TWICE" not in {word for word, *_ in written}


def test_a_run_that_takes_every_worker_with_it_is_a_row_and_its_neighbours_are_done(path):
    jobs = [make_job(0, "kill the worker"), *(make_job(i) for i in range(1, 4))]
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        start(n_workers=1) as own,
    ):
        _, rows = run(path, jobs, own.scheduler_address)
    assert rows[0]["status"] == "crashed"
    assert "worker was lost" in rows[0]["message"]
    assert {rows[i]["status"] for i in range(1, 4)} == {"converged"}


CLIENT = """
import json, sys
from bigdag.experiments.run.cluster import run_on_cluster
from bigdag.experiments.store import Store
jobs = json.load(open(sys.argv[2]))
try:
    with Store(sys.argv[1]) as store:
        run_on_cluster(jobs, store, sys.argv[4], worker=sys.argv[3])
except KeyboardInterrupt:
    sys.exit(5)
"""


@pytest.mark.parametrize(
    ("number", "sigint"),
    [(signal.SIGINT, signal.SIG_DFL), (signal.SIGINT, signal.SIG_IGN),
     (signal.SIGKILL, signal.SIG_DFL)],
    ids=["SIGINT", "SIGINT ignored at first", "SIGKILL"],
)  # fmt: skip
def test_when_the_client_ends_its_runs_end_too(path, tmp_path, cluster, number, sigint):
    jobs = [make_job(0), *(make_job(i, "hang", diary=str(tmp_path / "d")) for i in (1, 2))]
    listed = tmp_path / "jobs.json"
    listed.write_text(json.dumps(jobs))
    words = [sys.executable, "-c", CLIENT, str(path), str(listed), WORKER]
    with started([*words, cluster.scheduler_address], sigint) as client:
        wait_until(lambda: len(diary(tmp_path / "d")) == 2)
        client.send_signal(number)
        assert client.wait(100) == (-9 if number == signal.SIGKILL else 5)
    pids = [int(pid) for _, _, pid in diary(tmp_path / "d")]
    wait_until(lambda: all(gone(pid) for pid in pids))
    _, rows = run(path, [make_job(i) for i in range(3)], cluster.scheduler_address)
    assert {row["status"] for row in rows.values()} == {"converged"}


# ------------------------------------------------------------------ clusters that cannot serve


def test_an_address_with_nobody_there_is_a_sentence(path, monkeypatch):
    monkeypatch.setattr(on_dask, "_CONNECT", 1.0)
    with pytest.raises(BigdagError, match="No Dask scheduler answers at tcp://127"):
        run(path, [make_job(0)], "tcp://127.0.0.1:1")
    with Store(path, read_only=True) as store:
        assert store.claims() == []


@pytest.mark.parametrize("address", ["nonsense://x", "tcp://", ""])
def test_what_is_no_address_is_a_sentence(path, monkeypatch, address):
    monkeypatch.setattr(on_dask, "_CONNECT", 1.0)
    with pytest.raises((ParameterError, BigdagError), match="scheduler"):
        run(path, [make_job(0)], address)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://x"])
def test_no_client_is_left_to_close_itself_at_a_bad_moment(path, monkeypatch, address):
    monkeypatch.setattr(on_dask, "_CONNECT", 1.0)
    gc.collect()
    gc.disable()  # else it may happen to be collected
    try:
        before = clients()
        with pytest.raises(BigdagError):
            run(path, [make_job(0)], address)
        assert clients() == before
    finally:
        gc.enable()


def clients():
    return sum(type(each) is Client for each in gc.get_objects())


def test_workers_that_do_not_say_what_they_have_are_refused(path):
    with (
        start(resources={}, n_workers=1) as own,
        pytest.raises(BigdagError, match="do not say what they have"),
    ):
        run(path, [make_job(0)], own.scheduler_address)


def test_runs_larger_than_every_worker_are_refused_after_the_others(path, cluster):
    with pytest.raises(BigdagError, match=r"No worker at .* is large enough"):
        run(path, [make_job(0, threads=4), make_job(1)], cluster.scheduler_address)
    with Store(path, read_only=True) as store:
        assert list(store.statuses()) == [make_job(1)["run"]]


def test_a_scheduler_that_goes_away_is_a_sentence_and_nothing_is_lost(path, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "_LOST", 0.3)
    monkeypatch.setattr(cluster_module, "_ASK", 0.1)
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard",
         "--scheduler-file", str(tmp_path / "s.json")],
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    processes = [scheduler]
    try:
        about = tmp_path / "s.json"  # which is there before its text is
        wait_until(lambda: about.exists() and about.read_text().endswith("}"))
        address = json.loads(about.read_text())["address"]
        processes.append(subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-dashboard",
             "--nthreads", "2", "--resources", "cores=2,memory=4e9", "--no-nanny"],
            stderr=subprocess.DEVNULL, start_new_session=True,
        ))  # fmt: skip
        jobs = [make_job(0), make_job(1, "hang", diary=str(tmp_path / "d"))]

        def end():
            try:
                wait_until(lambda: diary(tmp_path / "d"))
                with Store(path, read_only=True) as store:
                    wait_until(store.statuses)
            finally:  # or the runs would go on for ever
                scheduler.kill()

        threading.Thread(target=end).start()
        with pytest.raises(BigdagError, match="is gone"):
            run(path, jobs, address)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    with Store(path, read_only=True) as store:
        assert list(store.statuses()) == [jobs[0]["run"]]
        assert store.claims() == []
    ((_, _, pid),) = diary(tmp_path / "d")
    wait_until(lambda: gone(int(pid)))


def test_without_dask_it_is_one_sentence(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"--dask\) needs the package 'dask'.*pip install"):
        run(path, [make_job(0)], "tcp://127.0.0.1:1")


def test_nothing_is_left_running(cluster):
    wait_until(
        lambda: not any(WORKER in " ".join(p.cmdline()) for p in psutil.process_iter() if _ours(p))
    )


def _ours(process):
    try:
        return process.cmdline() and os.getpid() in [p.pid for p in process.parents()]
    except psutil.Error:
        return False
