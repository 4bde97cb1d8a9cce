"""The store of runs: whole rows or none, one taker for each run, and a sentence for every fault."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from multiprocessing import get_context

import pandas as pd
import pytest

from bigdag.errors import BigdagError, DataError, ParameterError
from bigdag.experiments import store as store_module
from bigdag.experiments.store import Store, now
from fake_runs import wait_until

COLUMNS = (
    "run experiment preset dataset graph k d n noise variance units repetition method word status "
    "message seconds iterations objective n_arcs peak_bytes threads memory_limit time_limit "
    "var_sortability r2_sortability var_sortability_found started finished overhead_seconds job "
    "phase_seconds curve versions machine"
)


def job(number=0, **more):
    return {
        "run": f"{number:016x}", "experiment": "exp1", "preset": "smoke",
        "dataset": {"name": "ER1 d=50", "graph": "ER", "k": 1, "d": 50, "n": 100, "noise":
                    "gaussian", "variance": "EV", "units": "raw", "seed": 3, "key": "er1"},
        "method": {"name": "ProxiMAS", "word": "proximas", "parameters": {"lambda1": 0.1}},
        "thresholds": [0.3], "threads": 1, "memory_limit": 2**30, "time_limit": 2.0, "seed": 7,
        **more,
    }  # fmt: skip


def record(n_scores=4, **more):
    scores = [
        {"snapshot": None, "weights": "dag", "directed": bool(i % 2), "threshold": 0.1 * i or None,
         "metric": "f1", "value": i / 10}
        for i in range(n_scores)
    ]  # fmt: skip
    return {
        "status": "converged", "message": "", "seconds": 1.5, "iterations": 12, "objective": 25.5,
        "n_arcs": 49, "peak_bytes": 2**28, "threads": 1, "versions": {"bigdag": "0"},
        "machine": {"cpu": "x"}, "phase_seconds": {"mas": 0.1}, "phase_steps": {"mas": 12},
        "curve": [[0.1, 30.0], [1.0, 25.5]], "sortability": {"var": 0.9, "r2": 0.6}, "scores":
        scores, **more,
    }  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


def test_a_run_comes_back_as_it_went_in(path):
    with Store(path) as store:
        assert store.claim(job()["run"])
        assert store.finish(job(), record(started=now(), overhead_seconds=0.1))
    with Store(path, read_only=True) as store:
        runs, scores = store.runs(), store.scores()
    assert set(COLUMNS.split()) <= set(runs.columns)
    row = runs.iloc[0]
    assert (row["graph"], row["d"], row["repetition"], row["seed"]) == ("ER", 50, 3, 7)
    assert (row["method"], row["word"], row["dataset"]) == ("ProxiMAS", "proximas", "ER1 d=50")
    assert (row["var_sortability"], row["r2_sortability"]) == (0.9, 0.6)
    assert pd.isna(row["var_sortability_found"])
    assert json.loads(row["job"]) == job()
    assert json.loads(row["curve"]) == record()["curve"]
    assert json.loads(row["phase_steps"]) == {"mas": 12}
    assert scores["value"].tolist() == [0.0, 0.1, 0.2, 0.3]
    assert scores["directed"].tolist() == [False, True, False, True]
    assert scores["snapshot"].isna().all()
    assert scores.dtypes["threshold"] == "float64"


def test_plain_sql_reads_it(path):
    with Store(path) as store:
        store.finish(job(), record())
        sql = sqlite3.connect(path)
        found = sql.execute(
            "SELECT r.method, avg(s.value) FROM runs r JOIN scores s USING (run) GROUP BY 1"
        ).fetchall()
        sql.close()
    assert found == [("ProxiMAS", pytest.approx(0.15))]


def test_closed_it_is_one_file(path):
    with Store(path) as store:
        store.finish(job(), record())
    assert [entry.name for entry in path.parent.iterdir()] == ["runs.db"]


def test_a_users_table_has_gaps_where_nothing_is_known(path):
    mine = job(dataset={"name": "mine", "table": "t.csv", "truth": None, "units": "raw",
                        "seed": 0, "key": "k"})  # fmt: skip
    with Store(path) as store:
        store.finish(mine, {"status": "timeout", "message": "too long"})
        runs = store.runs()
        assert store.scores().empty
    assert runs.loc[0, ["graph", "k", "d", "seconds"]].isna().all()


def test_a_run_enters_once_and_a_failed_one_is_replaced(path):
    with Store(path) as store:
        assert store.finish(job(), record(n_scores=0, status="crashed"))
        assert store.finish(job(), record(n_scores=4))
        assert not store.finish(job(), record(n_scores=2, status="max_iter"))
        assert store.statuses() == {job()["run"]: "converged"}
        assert len(store.scores()) == 4


def test_retry_takes_what_failed_before_and_only_that(path):
    good, bad = job(1), job(2)
    with Store(path) as store:
        store.finish(good, record())
        store.finish(bad, record(status="out_of_memory", finished="2026-01-01T00:00:00.000+00:00"))
        began = now()
        assert not store.claim(bad["run"])
        assert not store.claim(good["run"], retry_before=began)
        assert store.claim(bad["run"], retry_before=began)
        time.sleep(0.002)
        store.finish(bad, record(status="crashed"))
        assert not store.claim(bad["run"], retry_before=began)  # once for each command


def test_the_export_holds_every_score_and_every_run(path, tmp_path):
    with Store(path) as store:
        store.finish(job(1), record(n_scores=5))
        store.finish(job(2), {"status": "crashed", "message": "signal 11"})
        frame = store.export()
    assert len(frame) == 6
    alone = frame[frame["run"] == job(2)["run"]].iloc[0]
    assert alone["status"] == "crashed"
    assert pd.isna(alone["metric"])
    frame.to_parquet(tmp_path / "out.parquet")
    back = pd.read_parquet(tmp_path / "out.parquet")
    assert back["value"].tolist()[:5] == frame["value"].tolist()[:5]
    assert "job" not in frame.columns


def test_counts_tell_planned_from_done(path):
    jobs = [job(i) for i in range(5)]
    with Store(path) as store:
        store.plan(jobs)
        store.plan(jobs[:2])  # again, as a second command does
        store.finish(jobs[0], record())
        store.finish(jobs[1], record(status="timeout"))
        store.finish(job(9, experiment="old"), record())
        store.claim(jobs[2]["run"])
        (claim,) = store.claims()
        assert store.counts() == [
            {"experiment": "exp1", "preset": "smoke", "planned": 5,
             "statuses": {"converged": 1, "timeout": 1}},
            {"experiment": "old", "preset": "smoke", "planned": 1, "statuses": {"converged": 1}},
        ]  # fmt: skip
        assert (claim["run"], claim["method"]) == (jobs[2]["run"], "ProxiMAS")
        store.release()
        assert store.claims() == []


# ------------------------------------------------------------------ two at once


def _claim_all(path, n, queue, done):
    with Store(path) as store:
        mine = [i for i in range(n) if store.claim(job(i)["run"])]
        queue.put(mine)
        done.wait(100)  # alive, so that its claims hold


def test_two_processes_never_take_the_same_run(path):
    Store(path).close()
    context = get_context("spawn")
    queue, done = context.Queue(), context.Event()
    both = [context.Process(target=_claim_all, args=(path, 60, queue, done)) for _ in range(2)]
    for process in both:
        process.start()
    taken = queue.get(timeout=100) + queue.get(timeout=100)
    done.set()
    for process in both:
        process.join()
    assert sorted(taken) == list(range(60))


CLAIMER = """
import sys, time
from bigdag.experiments.store import Store
store = Store(sys.argv[1])
print(store.claim("aa"), flush=True)
time.sleep(60)
"""


def test_a_dead_runners_claim_is_taken_over_and_a_living_ones_is_not(path):
    child = subprocess.Popen(
        [sys.executable, "-c", CLAIMER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "True\n"
    with Store(path) as store:
        assert not store.claim("aa")
        assert [claim["run"] for claim in store.claims()] == ["aa"]
        child.kill()
        wait_until(lambda: store.claim("aa"))  # not yet reaped: a zombie does not count as alive
        child.wait()


def test_a_runner_elsewhere_lives_by_its_heartbeat(path, monkeypatch):
    with Store(path) as store:
        store._sql.execute(
            "INSERT INTO claims VALUES ('aa', 'elsewhere:1:1.00', ?, ?)", (time.time(),) * 2
        )
        assert not store.claim("aa")
        store._sql.execute("UPDATE claims SET heartbeat = heartbeat - 61")
        assert store.claims() == []
        assert store.claim("aa")


def test_a_number_that_another_process_has_now_is_no_sign_of_life(path):
    with Store(path) as store:
        host = store._owner.rsplit(":", 2)[0]
        store._sql.execute(
            "INSERT INTO claims VALUES ('aa', ?, ?, ?)",
            (f"{host}:{os.getpid()}:12345.00", time.time(), time.time()),
        )
        assert store.claim("aa")


# ------------------------------------------------------------------ faults


def test_a_newer_store_is_refused_and_left_alone(path):
    Store(path).close()
    sql = sqlite3.connect(path)
    sql.execute("UPDATE meta SET value = '3' WHERE key = 'version'")
    sql.commit()
    sql.close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(DataError, match="newer bigdag: version 3 of the store"):
            Store(path, read_only)
    assert path.read_bytes() == before


def test_a_store_of_the_first_version_is_read_and_brought_to_this_one(path):
    with Store(path) as store:
        store.claim(job()["run"])
        store.finish(job(), record())
        whole = store.runs()
    sql = sqlite3.connect(path)
    sql.execute("ALTER TABLE runs RENAME COLUMN variance TO scale")
    sql.execute("""UPDATE runs SET job = replace(job, '"variance":', '"scale":')""")
    sql.execute("UPDATE meta SET value = '1' WHERE key = 'version'")
    sql.commit()
    sql.close()
    before = path.read_bytes()
    with Store(path, read_only=True) as store:
        pd.testing.assert_frame_equal(store.runs(), whole)
    assert path.read_bytes() == before
    for _ in range(2):
        with Store(path) as store:
            pd.testing.assert_frame_equal(store.runs(), whole)
            assert store.meta()["version"] == "2"
            assert not store.claim(job()["run"])  # it is done


def test_a_damaged_store_of_the_first_version_is_refused_and_left_alone(path):
    Store(path).close()
    sql = sqlite3.connect(path)
    sql.execute("ALTER TABLE runs RENAME COLUMN variance TO scale")
    sql.execute("ALTER TABLE runs DROP COLUMN seconds")
    sql.execute("UPDATE meta SET value = '1' WHERE key = 'version'")
    sql.commit()
    sql.close()
    before = path.read_bytes()
    with pytest.raises(DataError, match="'runs' lacks seconds"):
        Store(path)
    assert path.read_bytes() == before


def test_what_is_no_store_is_refused_and_left_alone(path, tmp_path):
    path.write_text("a,b\n1,2\n" * 300)
    with pytest.raises(BigdagError, match="is not an SQLite file"):
        Store(path)
    assert path.read_text().startswith("a,b")
    other = tmp_path / "other.db"
    sql = sqlite3.connect(other)
    sql.execute("CREATE TABLE mine (a)")
    sql.commit()
    sql.close()
    with pytest.raises(DataError, match="no store of experiments"):
        Store(other)
    with pytest.raises(ParameterError, match="is a folder"):
        Store(tmp_path)
    with pytest.raises(ParameterError, match="There is no store"):
        Store(tmp_path / "none.db", read_only=True)
    (tmp_path / "empty.db").touch()
    with pytest.raises(DataError, match="is empty"):
        Store(tmp_path / "empty.db", read_only=True)


def test_a_folder_that_cannot_be_written_is_a_sentence():
    with pytest.raises(BigdagError, match=r"Cannot write the store .*nowhere"):
        Store("/proc/nowhere/runs.db")
    with pytest.raises(BigdagError, match="Cannot write the store"):
        Store("/proc/runs.db")


@pytest.fixture
def mounted(tmp_path):
    """Return a function that mounts a small file system, where this user may."""
    places = []

    def mount(options):
        place = tmp_path / f"mounted{len(places)}"
        place.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if subprocess.run(words, capture_output=True, check=False).returncode:
            pytest.skip("only root may mount a file system")
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_store_in_a_read_only_folder_can_be_looked_at(mounted):
    place = mounted("size=4m")
    with Store(place / "runs.db") as store:
        store.finish(job(), record())
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    with Store(place / "runs.db", read_only=True) as store:
        assert len(store.runs()) == 1
    with pytest.raises(BigdagError, match="Cannot write the store"):
        Store(place / "runs.db").claim("aa")


def test_a_full_disk_is_a_sentence_and_loses_nothing(mounted):
    place = mounted("size=600k")
    with Store(place / "runs.db") as store:
        finished = 0

        def fill():
            nonlocal finished
            while True:
                store.finish(job(finished), record(n_scores=50))
                finished += 1

        with pytest.raises(BigdagError, match=r"is full\. Every finished run is kept"):
            fill()
        assert finished
        assert len(store.statuses()) == finished
    with Store(place / "runs.db", read_only=True) as store:
        assert len(store.runs()) == finished
        assert len(store.scores()) == 50 * finished  # no half of a run


class Full:
    """A connection whose disk is full from a certain statement on."""

    def __init__(self, sql, word):
        self._real, self._word = sql, word

    def __getattr__(self, name):
        return getattr(self._real, name)

    def execute(self, statement, *more):
        if statement.startswith(self._word):
            raise sqlite3.OperationalError("database or disk is full")
        return self._real.execute(statement, *more)


@pytest.mark.parametrize("word", ["BEGIN", "INSERT", "COMMIT"])
def test_a_disk_that_fills_up_within_a_transaction_leaves_no_half(path, word):
    with Store(path) as store:
        store.finish(job(1), record())
        real = store._sql
        store._sql = Full(real, word)
        with pytest.raises(BigdagError, match=r"disk that holds .* is full"):
            store.finish(job(2), record())
        store._sql = real
        assert list(store.statuses()) == [job(1)["run"]]
        assert len(store.scores()) == 4
        assert store.finish(job(2), record())


def test_a_locked_store_is_a_sentence(path, monkeypatch):
    monkeypatch.setattr(store_module, "_BUSY", 0.1)
    Store(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with Store(path) as store, pytest.raises(BigdagError, match="locked by another program"):
        store.claim("aa")
    other.close()


def test_without_psutil_one_can_look_but_not_run(path, monkeypatch):
    Store(path).close()
    monkeypatch.setitem(sys.modules, "psutil", None)
    store_module.load_psutil.cache_clear()
    try:
        Store(path, read_only=True).close()
        with pytest.raises(BigdagError, match=r"pip install .*psutil"):
            Store(path)
    finally:
        store_module.load_psutil.cache_clear()
