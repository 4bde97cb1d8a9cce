"""Runs in processes of their own: however one ends it is a row, and nothing outlives the runner."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from bigdag.errors import BigdagError, MissingExtraError
from bigdag.experiments.run import child
from bigdag.experiments.run.child import hard_limit
from bigdag.experiments.run.runner import installed, run_jobs
from bigdag.experiments.store import Store
from bigdag.interrupts import terminable
from bigdag.learners.methods import METHODS
from fake_runs import WORKER, diary, gone, make_job, started, wait_until


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


def run(path, jobs, **options):
    """Run fake jobs; return the rows by run number."""
    with Store(path) as store:
        run_jobs(jobs, store, worker=WORKER, **options)
        frame = store.runs()
    return {int(row["run"], 16): row for _, row in frame.iterrows()}


# ------------------------------------------------------------------ one run


def test_every_end_is_a_row_and_the_others_go_on(path):
    ways = {
        "well": ("converged", ""),
        "error": ("error", "the learner said no"),
        "kill": ("crashed", "died of signal SIGKILL"),
        "segfault": ("crashed", "died of signal SIGSEGV; its last words: about to fall"),
        "raise": ("crashed", "exit code 1 and without a result; its last words: ValueError: "
                             "nobody caught this"),
        "nothing": ("crashed", "ended with exit code 0 and without a result"),
        "half": ("crashed", "exit code 0 and without a result"),
    }  # fmt: skip
    rows = run(path, [make_job(i, do) for i, do in enumerate(ways)], cores=2)
    assert len(rows) == len(ways)
    for i, (status, message) in enumerate(ways.values()):
        assert rows[i]["status"] == status
        assert message in (rows[i]["message"] if message else "")
    assert not path.with_name("runs.work").exists()


def test_the_hard_limit_ends_what_never_returns(path):
    jobs = [make_job(1, "hang") | {"hard_limit": 0.7}, make_job(2)]
    rows = run(path, jobs, cores=2)
    assert rows[1]["status"] == "timeout"
    assert "killed after 1 s" in rows[1]["message"]
    assert rows[2]["status"] == "converged"


def test_the_hard_limit_is_the_time_limit_and_room_around_it():
    assert hard_limit(make_job(0, time_limit=100)) == 240


def test_a_result_counts_also_when_its_process_does_not_end(path, monkeypatch):
    def once_there_is_a_result(job):
        return 0.0 if any(path.parent.glob("runs.work/*/result.json")) else 1e9

    monkeypatch.setattr(child, "hard_limit", once_there_is_a_result)
    rows = run(path, [make_job(1, "hang after the result")])
    assert rows[1]["status"] == "converged"


def test_the_memory_limit_ends_what_takes_more(path):
    rows = run(path, [make_job(1, "eat", memory=150 * 2**20, megabytes=400),
                      make_job(2, "eat", memory=600 * 2**20, megabytes=100, sleep=0.4)],
               cores=2)  # fmt: skip
    assert rows[1]["status"] == "out_of_memory"
    assert "above its limit of 150 MB" in rows[1]["message"]
    assert rows[1]["peak_bytes"] > 150 * 2**20
    assert rows[2]["status"] == "converged"
    assert 100 * 2**20 < rows[2]["peak_bytes"] < 200 * 2**20


def test_memory_counts_over_all_processes_of_a_run_and_all_are_ended(path, tmp_path, monkeypatch):
    monkeypatch.setattr(child, "_SEARCH", 0.2)
    job = make_job(
        1, "eat in a child", memory=250 * 2**20, megabytes=200, diary=str(tmp_path / "d")
    )
    rows = run(path, [job])
    assert rows[1]["status"] == "out_of_memory"
    children = [int(word.split("-")[1]) for word, *_ in diary(tmp_path / "d") if "child" in word]
    assert len(children) == 2
    wait_until(lambda: all(gone(pid) for pid in children))


def test_the_systems_own_killing_for_memory_is_told_from_other_killing(path, monkeypatch):
    counts = iter([3, 4])
    monkeypatch.setattr(child, "_kills_for_memory", lambda: next(counts))
    rows = run(path, [make_job(1, "kill")])
    assert rows[1]["status"] == "out_of_memory"
    assert "killed by the system" in rows[1]["message"]


def test_what_a_run_leaves_behind_is_ended(path, tmp_path):
    run(path, [make_job(1, "leave a child", diary=str(tmp_path / "d"))])
    in_group = int(diary(tmp_path / "d")[1][0].split("-")[1])
    wait_until(lambda: gone(in_group))
    for word, *_ in diary(tmp_path / "d"):  # the one that left the group outlives a good end
        if "child" in word and not gone(int(word.split("-")[1])):
            os.kill(int(word.split("-")[1]), signal.SIGKILL)


def test_threads_are_set_by_the_environment(path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "17")
    rows = run(path, [make_job(1, "environment", threads=2)])
    found = json.loads(rows[1]["message"])
    for library in ("OMP", "MKL", "OPENBLAS", "NUMBA"):
        assert found[f"{library}_NUM_THREADS"] == "2"


def test_a_module_beside_the_user_is_not_imported(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "select.py").write_text("raise SystemExit(3)")
    (tmp_path / "runpy.py").write_text("raise SystemExit(3)")
    assert run(path, [make_job(1)])[1]["status"] == "converged"


def test_what_the_runner_costs_is_told(path):
    """From the first thought of a run until it is cleared away, without the life of its worker."""
    rows = run(path, [make_job(i, sleep=0.3) for i in range(2)], cores=1)
    for row in rows.values():
        assert row["overhead_seconds"] > 0


# ------------------------------------------------------------------ many runs


def most_at_once(path):
    """Return how many fake runs were under way at once, from the store's times."""
    with Store(path, read_only=True) as store:
        frame = store.runs()
    marks = [(t, 1) for t in frame["started"]] + [(t, -1) for t in frame["finished"]]
    level = most = 0
    for _, step in sorted(marks):
        level += step
        most = max(most, level)
    return most


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({"threads": 1}, 4),
        ({"threads": 2}, 2),
        ({"threads": 8}, 1),
        ({"memory": 2**60}, 1),
    ],
)
def test_as_many_runs_at_once_as_cores_and_memory_hold(path, tmp_path, options, most):
    options |= {"meet": most, "diary": str(tmp_path / "d")}
    run(path, [make_job(i, "meet", **options) for i in range(5)], cores=4)
    assert most_at_once(path) == most


def test_the_runs_of_a_data_set_wait_for_the_first_one_to_make_it(path, tmp_path):
    options = {"key": "shared", "diary": str(tmp_path / "d")}
    jobs = [make_job(i, "meet", meet=1 if i < 2 else 4, **options) for i in range(4)]
    run(path, jobs[:2], cores=4)
    assert most_at_once(path) == 1
    (tmp_path / "runs.datasets" / "shared").mkdir(parents=True)
    run(path, jobs, cores=4)
    assert most_at_once(path) == 2


def test_the_same_command_again_does_only_what_is_missing(path, tmp_path):
    jobs = [make_job(i, "look", store=str(path), diary=str(tmp_path / "d")) for i in range(6)]
    run(path, jobs[:3], cores=3)
    first = run(path, jobs[:3], cores=3)
    assert len(diary(tmp_path / "d")) == 6  # begin and end of three
    rows = run(path, jobs, cores=3)
    assert len(rows) == 6
    assert Counter(run for word, run, _ in diary(tmp_path / "d") if word == "begin") == {
        job["run"]: 1 for job in jobs
    }
    assert all(rows[i]["finished"] == first[i]["finished"] for i in first)


def test_failed_runs_are_done_again_only_when_asked(path, tmp_path):
    bad, good = make_job(1, "raise", diary=str(tmp_path / "d")), make_job(2)
    run(path, [bad, good])
    run(path, [bad, good])
    assert len(diary(tmp_path / "d")) == 1
    rows = run(path, [bad, good], retry_failed=True)  # fails again: once, not for ever
    assert len(diary(tmp_path / "d")) == 2
    assert rows[1]["status"] == "crashed"
    bad["method"]["parameters"]["do"] = "well"
    rows = run(path, [bad, good], retry_failed=True)
    assert rows[1]["status"] == "converged"


def test_show_hears_of_every_run(path):
    heard, left = [], []

    def show(progress):
        heard.extend(job["run"] for job, _ in progress.finished)
        assert len(progress.running) <= 2
        left.append(progress.seconds_left)

    jobs = [make_job(i, "error" if i == 3 else "well", sleep=0.1, time_limit=50) for i in range(6)]
    with Store(path) as store:
        progress = run_jobs(jobs, store, cores=2, show=show, worker=WORKER)
    assert sorted(heard) == [job["run"] for job in jobs]
    assert (progress.total, progress.done, progress.failed, progress.new) == (6, 6, 1, 6)
    assert left[0] > 50
    assert left[-1] == 0
    with Store(path) as store:
        progress = run_jobs(jobs, store, worker=WORKER)
    assert (progress.total, progress.done, progress.failed, progress.new) == (6, 6, 1, 0)


def test_a_missing_extra_is_said_before_anything_runs(monkeypatch):
    jobs = [make_job(0), make_job(1)]
    for job, word in zip(jobs, ("optimas", "gd")):
        job["method"]["word"] = word
    assert installed(jobs) == jobs
    absent = replace(METHODS["optimas"], extra="surely_not_installed")
    monkeypatch.setattr("bigdag.learners.methods.METHODS", {**METHODS, "optimas": absent})
    with pytest.raises(MissingExtraError, match=r"methods, optimas needs the package 'surely_not"):
        installed(jobs)
    assert installed(jobs, skip_missing=True) == jobs[1:]


def test_a_full_disk_ends_the_runner_with_a_sentence_and_its_runs_with_it(path, tmp_path):
    jobs = [make_job(1), make_job(2, "hang", diary=str(tmp_path / "d"))]
    with Store(path) as store:
        finish = store.finish

        def full(job, record):
            wait_until(lambda: diary(tmp_path / "d"))
            raise BigdagError("The disk that holds runs.db is full.")

        store.finish = full
        with pytest.raises(BigdagError, match="is full"):
            run_jobs(jobs, store, cores=2, worker=WORKER)
        ((_, _, pid),) = diary(tmp_path / "d")
        wait_until(lambda: gone(int(pid)))
        assert store.claims() == []
        store.finish = finish
    jobs[1] = make_job(2)
    assert len(run(path, jobs)) == 2


def test_a_work_folder_that_cannot_be_made_is_a_sentence(path):
    path.with_name("runs.work").write_text("a file in its place")
    with pytest.raises(BigdagError, match="Cannot start a run in"):
        run(path, [make_job(1)])


# ------------------------------------------------------------------ the runner itself is ended

PARENT = """
import json, sys
from bigdag.experiments.run.runner import run_jobs
from bigdag.experiments.store import Store
jobs = json.load(open(sys.argv[2]))
print("ready", flush=True)
try:
    with Store(sys.argv[1]) as store:
        run_jobs(jobs, store, cores=int(sys.argv[4]), worker=sys.argv[3])
except KeyboardInterrupt:
    sys.exit(5)
"""


def start_parent(path, jobs, cores=2, **options):
    listed = path.with_name("jobs.json")
    listed.write_text(json.dumps(jobs))
    words = [sys.executable, "-c", PARENT, str(path), str(listed), WORKER, str(cores)]
    return started(words, stdout=subprocess.PIPE, **options)


IGNORED = {"sigint": signal.SIG_IGN}


@pytest.mark.parametrize(
    ("number", "options"),
    [
        (signal.SIGINT, {}), (signal.SIGINT, IGNORED), (signal.SIGTERM, {}),
        (signal.SIGHUP, {}), (signal.SIGKILL, {}),
    ],
    ids=["SIGINT", "SIGINT ignored at first", "SIGTERM", "SIGHUP", "SIGKILL"],
)  # fmt: skip
def test_however_the_runner_ends_its_runs_end_with_it(path, tmp_path, number, options):
    jobs = [make_job(0), make_job(1, "hang", diary=str(tmp_path / "d")),
            make_job(2, "eat in a child", megabytes=1, diary=str(tmp_path / "d"))]  # fmt: skip
    with start_parent(path, jobs, cores=3, **options) as parent:
        wait_until(lambda: len(diary(tmp_path / "d")) == 4)
        with Store(path, read_only=True) as store:
            wait_until(lambda: store.statuses())
            assert len(store.claims()) == 2
        parent.send_signal(number)
        assert parent.wait(100) == (-9 if number == signal.SIGKILL else 5)
    pids = {int(pid) for _, _, pid in diary(tmp_path / "d")}
    pids |= {int(word.split("-")[1]) for word, *_ in diary(tmp_path / "d") if "child" in word}
    assert len(pids) == 4
    wait_until(lambda: all(gone(pid) for pid in pids))
    with Store(path, read_only=True) as store:
        assert store.claims() == []
        assert list(store.statuses()) == [jobs[0]["run"]]
    if number != signal.SIGKILL:
        assert not path.with_name("runs.work").exists()


def test_under_nohup_a_hangup_does_not_end_the_runner(path, tmp_path):
    jobs = [make_job(i, sleep=0.2, diary=str(tmp_path / "d")) for i in range(2)]
    with start_parent(path, jobs, cores=1, sighup=signal.SIG_IGN) as parent:
        wait_until(lambda: diary(tmp_path / "d"))
        parent.send_signal(signal.SIGHUP)
        assert parent.wait(100) == 0
    with Store(path, read_only=True) as store:
        assert len(store.statuses()) == 2


def test_several_signals_at_once_are_one(path, tmp_path):
    """A batch system, or timeout(1), sends one to the process and one to its group."""
    jobs = [make_job(i, "hang", diary=str(tmp_path / "d")) for i in range(2)]
    with start_parent(path, jobs) as parent:
        wait_until(lambda: len(diary(tmp_path / "d")) == 2)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            parent.send_signal(number)
        assert parent.wait(100) == 5
    assert not path.with_name("runs.work").exists()
    with Store(path, read_only=True) as store:
        assert store.claims() == []


def test_a_screen_that_goes_away_does_not_end_the_runs(path):
    def show(progress):
        raise OSError(5, "Input/output error")

    assert len(run(path, [make_job(i) for i in range(2)], show=show)) == 2


def test_the_handlers_are_put_back_and_a_program_s_own_are_kept(path):
    def own(*_):
        pass

    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    try:
        signal.signal(signal.SIGINT, own)
        with terminable():
            assert signal.getsignal(signal.SIGINT) is own
            assert signal.getsignal(signal.SIGTERM) is not before[1]
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with terminable(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before[0])
    after = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert after == before


def test_a_runner_killed_many_times_ends_with_the_rows_of_an_undisturbed_one(tmp_path):
    def jobs_for(path):
        return [
            make_job(i, ("look", "look", "error")[i % 3], store=str(path), sleep=0.03 * (i % 4),
                     diary=str(path.with_name(f"{path.stem}.diary")))
            for i in range(30)
        ]  # fmt: skip

    calm, path = tmp_path / "calm.db", tmp_path / "killed.db"
    run(calm, jobs_for(calm), cores=4)
    rng = random.Random(4)
    jobs = jobs_for(path)
    finished = [0]
    lines = path.with_name("killed.diary")
    for _ in range(8):
        seen = len(diary(lines))
        with start_parent(path, jobs) as parent:
            # At any moment from its very start on.
            more = rng.choice([0, 2, 4, 6])
            wait_until(lambda: len(diary(lines)) >= seen + more or parent.poll() is not None)  # noqa: B023
        with Store(path) as store:
            finished.append(len(store.statuses()))
    # They came forward in spite of it.
    assert finished == sorted(finished)
    assert finished[-1] > 0
    with start_parent(path, jobs) as parent:
        assert parent.wait(200) == 0

    def rows(place):
        with Store(place, read_only=True) as store:
            columns = ["run", "method", "status", "seconds"]
            kept = store.runs()[columns].sort_values("run").values.tolist()
            scores = store.scores().sort_values("run").fillna(-1).values.tolist()
        return kept, scores

    kept, scores = rows(path)
    assert (kept, scores) == rows(calm)
    assert len(kept) == 30
    written = diary(path.with_name("killed.diary"))
    assert not [word for word, *_ in written if word == "TWICE"]
    assert len([word for word, *_ in written if word == "begin"]) > 30  # some were cut off
    assert not path.with_name("killed.work").exists()


def test_two_runners_on_one_store_share_the_work(path, tmp_path):
    jobs = [
        make_job(i, "look", store=str(path), sleep=0.05, diary=str(tmp_path / "d"))
        for i in range(12)
    ]
    Store(path).close()
    with start_parent(path, jobs, cores=1) as one, start_parent(path, jobs, cores=1) as other:
        assert [one.wait(200), other.wait(200)] == [0, 0]
    with Store(path, read_only=True) as store:
        assert len(store.runs()) == 12
    begun = [run for word, run, _ in diary(tmp_path / "d") if word == "begin"]
    assert sorted(begun) == [job["run"] for job in jobs]


def test_what_another_runner_holds_is_left_to_it(path, tmp_path):
    jobs = [make_job(1, "hang", diary=str(tmp_path / "d")), make_job(2)]
    with start_parent(path, jobs[:1]):
        wait_until(lambda: diary(tmp_path / "d"))
        with Store(path) as store:
            progress = run_jobs(jobs, store, worker=WORKER)
    assert (progress.done, progress.elsewhere) == (1, 1)
