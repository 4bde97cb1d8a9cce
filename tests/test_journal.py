"""One fit that is killed and goes on to the same answer, and which files are refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from bigdag import DAG, BootstrapDAG, Knowledge, OrderSearch, simulate
from bigdag.cli import app
from bigdag.data.dataset import as_dataset
from bigdag.engine import exceeding as tiles
from bigdag.engine import gram as moments
from bigdag.engine.executor import Threads, executing
from bigdag.errors import BigdagError, ParameterError
from bigdag.learners import checkpoint
from bigdag.learners import journal as module
from bigdag.learners.journal import Journal, Journalled
from bigdag.search.start_orders import r2_order

WAYS = [
    {"criterion": "bic"},
    {"criterion": "bic", "restarts": 6, "random_state": 3},
    {"criterion": "bic", "penalty": "auto"},
    {"criterion": "bic", "knowledge": Knowledge(regulators=[f"x{i}" for i in range(40)])},
    {"criterion": "least_squares", "candidates": "correlated"},
    {"criterion": "least_squares", "candidates": "all"},
    {"criterion": "least_squares", "lambda1": "bic"},
]


class Killed(BaseException):
    """Ends a fit as abruptly as this process can."""


@pytest.fixture
def small(monkeypatch):
    """Fits of a hundred variables in pieces, and with looks outside, as large ones have them."""
    from bigdag.search import candidates

    monkeypatch.setattr(tiles, "_ROWS", 32)
    monkeypatch.setattr(moments, "_ROWS", 32)
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    monkeypatch.setattr(candidates, "EVERY_PAIR", 50)
    monkeypatch.setattr(OrderSearch, "_hold", lambda self, d, only_moments: only_moments)


def table(d=130, n=120, seed=0):
    rng = np.random.default_rng(seed)
    return simulate.sample(simulate.random_dag(d, 1, rng=rng), n, rng=rng)


def same(one, other):
    np.testing.assert_array_equal(one.order_, other.order_)
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(one.weights_, part), getattr(other.weights_, part))
    assert one.n_iter_ == other.n_iter_
    columns = ["phase", "iteration", "objective", "arcs"]
    pd.testing.assert_frame_equal(one.history_[columns], other.history_[columns])


@pytest.mark.parametrize("way", WAYS)
def test_a_fit_killed_after_any_write_goes_on_to_the_same_answer(way, small, tmp_path, monkeypatch):
    X = table(60 if "penalty" in way else 130)
    plain = OrderSearch(**way).fit(X)
    real = Journal.write
    writes, last = [], [0]

    def counted(self):
        real(self)
        writes.append(len(writes))
        if len(writes) == last[0]:
            raise Killed

    monkeypatch.setattr(Journal, "write", counted)
    same(OrderSearch(**way, checkpoint=tmp_path / "whole").fit(X), plain)
    total = len(writes)
    assert total > 8
    for share in (0.2, 0.5, 0.8):  # the same file is killed three times, ever further on
        writes.clear()
        last[0] = max(2, int(share * total / 2))
        with pytest.raises(Killed):
            OrderSearch(**way, checkpoint=tmp_path / "c").fit(X)
    writes.clear()
    last[0] = 0
    same(OrderSearch(**way, checkpoint=tmp_path / "c").fit(X), plain)
    assert len(writes) < total
    writes.clear()
    same(OrderSearch(**way, checkpoint=tmp_path / "c").fit(X), plain)
    assert len(writes) <= 1  # nothing was left to do


# The command, which takes some hundred variables as it takes thousands, and writes all it keeps.
PIECEWISE = """
from bigdag import OrderSearch
from bigdag.cli import main
from bigdag.engine import exceeding, gram
from bigdag.learners import journal
from bigdag.search import candidates

exceeding._ROWS = gram._ROWS = 32
journal._SECONDS = 0.0
candidates.EVERY_PAIR = 50
OrderSearch._hold = lambda self, d, only_moments: only_moments
main()
"""


@pytest.mark.parametrize("method", ["order-search", "order-search-bic"])
def test_kill_9_at_any_moment(method, small, tmp_path):
    rng = np.random.default_rng(5)
    X = simulate.sample(simulate.random_dag(400, 1, rng=rng), 60, rng=rng)
    np.save(tmp_path / "t.npy", X.astype(np.float32))
    words = [sys.executable, "-c", PIECEWISE, "fit", "t.npy", "--method", method, "--quiet"]

    def run(*more):
        return subprocess.Popen([*words, *more], cwd=tmp_path, stderr=subprocess.DEVNULL)

    sizes = []
    for _ in range(2):
        process = run("--checkpoint", "c", "--out", "x.parquet")
        until = time.monotonic() + 100
        file = tmp_path / "c"
        before = sizes[-1] if sizes else 0
        while process.poll() is None and time.monotonic() < until:
            if file.exists() and file.stat().st_size > before + 2000:
                time.sleep(rng.random() * 0.2)
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        sizes.append(file.stat().st_size)
        if (tmp_path / "x.parquet").exists():
            break
    if not (tmp_path / "x.parquet").exists():
        assert run("--checkpoint", "c", "--out", "x.parquet").wait() == 0
    criterion = "bic" if method.endswith("bic") else "least_squares"
    plain = OrderSearch(criterion=criterion).fit(np.load(tmp_path / "t.npy"))
    found = DAG.load(tmp_path / "x.parquet").weights
    assert (found != plain.weights_).nnz == 0
    np.testing.assert_array_equal(found.data, plain.weights_.data)


def test_a_file_that_was_cut_or_damaged_loses_only_that(small, tmp_path):
    X = table()
    plain = OrderSearch(criterion="bic").fit(X)
    file = tmp_path / "c"
    OrderSearch(criterion="bic", checkpoint=file).fit(X)
    whole = file.read_bytes()
    for size in (len(whole) - 1, len(whole) // 2, len(whole) // 5):
        file.write_bytes(whole[:size])
        same(OrderSearch(criterion="bic", checkpoint=file).fit(X), plain)
    rng = np.random.default_rng(0)
    for _ in range(5):
        broken = bytearray(whole)
        for at in rng.integers(1000, len(whole), size=20):
            broken[at] ^= 0xFF
        file.write_bytes(bytes(broken))
        same(OrderSearch(criterion="bic", checkpoint=file).fit(X), plain)


def test_damage_of_one_record_is_of_that_record_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    monkeypatch.setattr(module, "_CHUNK", 100)
    file, keys = tmp_path / "c", [bytes([k]) * 16 for k in range(6)]

    def opened():
        return Journal(file, {}, lambda then, now: None)

    with opened() as journal:
        start = [file.stat().st_size]
        for i, key in enumerate(keys):
            journal.keep(key, (np.arange(50) + i,))
            start.append(file.stat().st_size)
    whole = file.read_bytes()
    for at in range(start[2], start[3]):  # every byte of the third record, its head included
        broken = bytearray(whole)
        broken[at] ^= 1
        file.write_bytes(broken)
        with opened() as journal:
            assert [journal.find(key) is not None for key in keys] == [k != 2 for k in range(6)]
        assert file.read_bytes() == bytes(broken)  # nothing is cut off
    for size in range(start[5], start[6]):  # the last one was cut short, and another one follows
        file.write_bytes(whole[:size])
        with opened() as journal:
            journal.keep(b"new".ljust(16), (np.zeros(3),))
        with opened() as journal:
            assert [journal.find(key) is not None for key in keys] == [k != 5 for k in range(6)]
            assert journal.find(b"new".ljust(16)) is not None


def test_a_newest_record_that_never_reached_the_disk_leaves_the_older_one(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    file, key = tmp_path / "c", b"1" * 16
    with Journal(file, {}, lambda then, now: None) as journal:
        journal.keep(key, (np.zeros(100),))
        journal.keep(key, (np.ones(100),))
    content = file.read_bytes()
    file.write_bytes(content[:-100] + bytes(100))
    with Journal(file, {}, lambda then, now: None) as journal:
        np.testing.assert_array_equal(journal.find(key)[0], np.zeros(100))


def test_a_file_of_something_else_is_refused_by_name(small, tmp_path, monkeypatch):
    X, file = table(60), tmp_path / "c"
    learner = OrderSearch(criterion="bic", random_state=1, checkpoint=file)
    learner.fit(X)
    before = file.read_bytes()
    for other, data, told in [
        ({}, table(60, seed=1), "the table was another one"),
        ({"gamma": 0.5}, X, "learner.gamma was 'auto' and is now 0.5"),
        ({"criterion": "least_squares"}, X, "learner.criterion was 'bic'"),
        ({"random_state": 2}, X, "seed was 1 and is now 2"),
    ]:
        changed = OrderSearch(**{**learner.get_params(), **other})
        with pytest.raises(ParameterError, match=f"is of another fit: .*{told}"):
            changed.fit(data)
    monkeypatch.setattr("bigdag.__version__", "9.9")
    with pytest.raises(ParameterError, match=r"version was .* and is now '9.9'"):
        learner.fit(X)
    monkeypatch.undo()
    for limit in ({"n_jobs": 1}, {"time_limit": 100.0}, {"max_iter": 100}, {"memory_limit": "9GB"}):
        OrderSearch(**{**learner.get_params(), **limit}).fit(X)  # may change
    assert file.read_bytes()[:200] == before[:200]
    for content in (b"", b"a,b\n1,2\n", b"bigdag fit 1\n", before[:40]):
        file.write_bytes(content)
        with pytest.raises(ParameterError, match="is no checkpoint that one fit of this version"):
            learner.fit(X)
        assert file.read_bytes() == content
    with pytest.raises(ParameterError, match="checkpoint must be the name of a file"):
        OrderSearch(checkpoint=7).fit(X)


class Known:
    """Knowledge as another package has it; its repr is an address."""

    def __init__(self, names):
        self.forbidden_edges = {(name, "x0") for name in names}


def test_the_same_parameters_are_the_same_whatever_was_asked_of_them(tmp_path):
    X, start = table(20), simulate.random_dag(20, 2, rng=0)
    names = [f"x{i}" for i in range(1, 9)]

    def fit(given, known):
        OrderSearch(start=[given, "r2"], knowledge=known, checkpoint=tmp_path / "c").fit(X)

    fit(start, Known(names))
    start.neighbourhood(0, 1)  # which finds places by name from now on
    fit(start, Known(names))
    fit(DAG(start.weights.copy(), start.names, start.order), Known(names[::-1]))
    with pytest.raises(ParameterError, match="knowledge was"):
        fit(start, Known(names[1:]))
    with pytest.raises(ParameterError, match="start was"):
        fit(DAG(2 * start.weights, start.names, start.order), Known(names))
    one = sp.csc_array(np.eye(3))
    assert checkpoint.plain(one) == checkpoint.plain(one.copy()) != checkpoint.plain(2 * one)


def test_tables_of_ranks_are_not_taken_for_each_other(tmp_path):
    rng = np.random.default_rng(0)
    one, cause = rng.permuted(np.tile(np.arange(201.0), (30, 1)), axis=1).T, rng.normal(size=201)
    noise = 0.3 * np.arange(1, 31) * rng.normal(size=(201, 30))
    other = np.argsort(np.argsort(cause[:, None] + noise, axis=0), axis=0).astype(float)
    grams = [moments.Gram(as_dataset(X)) for X in (one, other)]
    np.testing.assert_array_equal(grams[0].sd, grams[1].sd)
    with (
        Journal(tmp_path / "c", {}, lambda then, now: None) as journal,
        executing(Journalled(Threads(), journal)),
    ):
        r2_order(moments.Gram(as_dataset(one)))
        found = r2_order(moments.Gram(as_dataset(other)))
        np.testing.assert_array_equal(r2_order(moments.Gram(as_dataset(other))), found)
    np.testing.assert_array_equal(found, r2_order(grams[1]))


def test_fits_inside_of_a_fit_have_nothing_to_do_with_its_file(small, tmp_path):
    X = table(100)

    def inside(state):
        OrderSearch(criterion="bic", n_jobs=1).fit(X[:60])
        assert isinstance(moments.Gram(as_dataset(X)).executor, Threads)

    way = {"criterion": "bic", "max_iter": 3}
    plain = OrderSearch(**way, checkpoint=tmp_path / "a").fit(X)
    same(OrderSearch(**way, checkpoint=tmp_path / "b", callback=inside).fit(X), plain)
    records = [file.read_bytes().count(module._MARK) for file in sorted(tmp_path.iterdir())]
    assert records[0] == records[1]
    own = OrderSearch(checkpoint=tmp_path / "d").fit(X)  # a fit may have a file of its own inside
    nested = OrderSearch(
        **way, checkpoint=tmp_path / "e",
        callback=lambda state: same(OrderSearch(checkpoint=tmp_path / "d").fit(X), own),
    )  # fmt: skip
    same(nested.fit(X), plain)


def test_restarts_have_one_record_however_many(small, tmp_path, monkeypatch):
    X, keys = table(100), {}
    real = Journalled.step

    def step(self, gram, name, *inputs):
        made = real(self, gram, name, *inputs)
        keys[name] = keys.get(name, 0) + 1
        return made

    monkeypatch.setattr(Journalled, "step", step)
    way = {"criterion": "bic", "restarts": 80, "random_state": 0}
    found = OrderSearch(**way, checkpoint=tmp_path / "c").fit(X)
    assert (found.history_.phase == "restart").sum() == 20  # rounds of four
    assert keys["restarts"] == 1
    monkeypatch.undo()
    same(found, OrderSearch(**way).fit(X))


def test_a_fit_without_a_seed_goes_on_with_the_same_chance(small, tmp_path):
    X = table(100)
    way = {"criterion": "bic", "restarts": 4, "checkpoint": tmp_path / "c"}
    same(OrderSearch(**way).fit(X), OrderSearch(**way).fit(X))


def test_a_time_limit_ends_a_fit_that_goes_on_later(small, tmp_path):
    X = table()
    plain = OrderSearch(criterion="bic").fit(X)
    file = tmp_path / "c"
    ended = OrderSearch(criterion="bic", max_iter=2, checkpoint=file).fit(X)
    assert ended.status_ == "max_iter"
    same(OrderSearch(criterion="bic", checkpoint=file).fit(X), plain)


def test_records_that_newer_ones_replace_do_not_fill_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SLACK", 10_000)
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    keys = [bytes([k]) * 16 for k in range(3)]
    with Journal(tmp_path / "c", {}, lambda then, now: None) as journal:
        for i in range(200):
            journal.keep(keys[i % 3], (np.full(100, i),))
        assert (tmp_path / "c").stat().st_size < 30_000
        assert [journal.find(key)[0][0] for key in keys] == [198, 199, 197]
    with Journal(tmp_path / "c", {}, lambda then, now: None) as journal:
        assert [journal.find(key)[0][0] for key in keys] == [198, 199, 197]


def test_a_full_disk_does_not_end_the_fit(small, tmp_path, monkeypatch, caplog):
    real, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > 2:
            raise OSError(28, "No space left on device")
        real(descriptor)

    X = table(100)
    monkeypatch.setattr(os, "fsync", full)
    found = OrderSearch(criterion="bic", checkpoint=tmp_path / "c").fit(X)
    monkeypatch.undo()
    assert "cannot be written any more: [Errno 28]" in caplog.text
    assert (found.weights_ != OrderSearch(criterion="bic").fit(X).weights_).nnz == 0


FULL = """
import resource, sys
import bigdag.learners.journal as module
from bigdag import OrderSearch, simulate

module._SECONDS = 0.0
X = simulate.sample(simulate.random_dag(60, 2, rng=0), 300, rng=1)
plain = OrderSearch(criterion="bic", n_jobs=1, restarts=40, random_state=0).fit(X)
for limit in (6000, 10000, 20000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    for _ in range(2):  # the second goes on from the file that the first left
        learner = OrderSearch(
            criterion="bic", n_jobs=1, restarts=40, random_state=0, checkpoint=f"c{limit}"
        )
        assert (learner.fit(X).weights_ != plain.weights_).nnz == 0
"""


def test_a_disk_that_is_really_full_does_not_end_the_fit(tmp_path):
    pytest.importorskip("resource")
    done = subprocess.run(
        [sys.executable, "-c", FULL], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("c10000 cannot be written any more: [Errno 27]") == 2  # once a fit


def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    X, file, states = table(20), tmp_path / "c", []
    OrderSearch(checkpoint=file).fit(X)
    file.chmod(0o444)
    with pytest.raises(ParameterError, match=r"cannot be opened for writing: .* or give another"):
        OrderSearch(checkpoint=file, callback=states.append).fit(X)
    assert not states


def test_what_is_kept_last_is_written_without_another_call(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 0.05)
    file = tmp_path / "c"
    journal = Journal(file, {}, lambda then, now: None)
    journal.keep(b"1" * 16, (np.zeros(100),))
    journal.keep(b"2" * 16, (np.ones(100),))  # too early to be written at once
    until = time.monotonic() + 60
    while (b"2" * 16) not in file.read_bytes() and time.monotonic() < until:
        time.sleep(0.02)
    copy = tmp_path / "copy"  # what a kill would leave now
    copy.write_bytes(file.read_bytes())
    journal.close()
    with Journal(copy, {}, lambda then, now: None) as left:
        assert left.find(b"2" * 16) is not None


def test_two_fits_at_a_time_do_not_share_a_file(tmp_path, monkeypatch):
    pytest.importorskip("fcntl")
    monkeypatch.setattr(module, "_SLACK", 1000)
    monkeypatch.setattr(module, "_SECONDS", 0.0)

    def open_elsewhere():
        words = "import sys; from bigdag.learners.journal import Journal; "
        words += "Journal(sys.argv[1], {}, lambda then, now: None)"
        return subprocess.run(
            [sys.executable, "-c", words, tmp_path / "c"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    with Journal(tmp_path / "c", {}, lambda then, now: None) as journal:
        with pytest.raises(ParameterError, match="is in use by another fit"):
            Journal(tmp_path / "c", {}, lambda then, now: None)
        for i in range(50):
            journal.keep(b"1" * 16, (np.full(100, i),))
        assert (tmp_path / "c").stat().st_size < 10_000  # a shorter one, which is locked as well
        assert "is in use by another fit" in open_elsewhere().stderr
    assert open_elsewhere().returncode == 0


def test_a_file_that_cannot_be_made_shorter_stays_as_it_is(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(module, "_SLACK", 1000)
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    tried = []

    def full(path, force=False):
        tried.append(path)
        raise BigdagError(f"Could not write {path}: No space left on device.")

    with Journal(tmp_path / "c", {}, lambda then, now: None) as journal:
        monkeypatch.setattr(module, "whole_file", full)
        for i in range(50):
            journal.keep(b"1" * 16, (np.full(100, i),))
        assert journal.find(b"1" * 16)[0][0] == 49
    assert len(tried) == 1
    assert caplog.text.count("cannot be made shorter") == 1
    with Journal(tmp_path / "c", {}, lambda then, now: None) as journal:
        assert journal.find(b"1" * 16)[0][0] == 49


def test_the_command_and_the_bootstrap(tmp_path):
    pd.DataFrame(table(20)).to_csv(tmp_path / "t.csv", index=False)

    def invoke(*words):
        return CliRunner().invoke(app, ["fit", str(tmp_path / "t.csv"), *map(str, words)])

    once = ("--method", "order-search", "--checkpoint", tmp_path / "c")
    first = invoke(*once, "--out", tmp_path / "a.json")
    again = invoke(*once, "--out", tmp_path / "b.json")
    assert (first.exit_code, again.exit_code) == (0, 0), first.output
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    refused = invoke(*once, "--lambda1", 0.2, "--out", tmp_path / "x.json")
    assert refused.exit_code == 2
    assert "learner.lambda1 was 0.1 and is now 0.2" in refused.output.replace("\n", " ")
    refused = invoke(*once, "--check-units", "--out", tmp_path / "x.json")
    assert "goes without --checkpoint" in refused.output.replace("\n", " ")
    refused = invoke("--checkpoint", tmp_path / "c", "--out", tmp_path / "x.json", "--method", "gd")
    assert "--checkpoint goes with --bootstrap" in refused.output.replace("\n", " ")
    inner = OrderSearch(checkpoint=tmp_path / "c")
    assert BootstrapDAG(inner, n_resamples=2).fit(table(20)).n_resamples_ == 2
