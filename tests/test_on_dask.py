"""One fit on a real Dask cluster of two processes, one of which is killed on the way."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import dask.array
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from typer.testing import CliRunner

import bigdag
from bigdag import DAG, Knowledge, OrderSearch, simulate
from bigdag.cli import app
from bigdag.data import convert
from bigdag.data.dataset import as_dataset
from bigdag.engine import exceeding as tiles
from bigdag.engine import gram as moments
from bigdag.engine import on_dask as module
from bigdag.engine import on_worker, rows_file
from bigdag.engine.executor import Task, executing
from bigdag.engine.gram import Gram
from bigdag.errors import (
    BigdagError,
    ClusterWarning,
    DataError,
    MemoryLimitError,
    ParameterError,
)
from bigdag.resources import memory_held


@dataclass(frozen=True)
class Sleeping(Task):
    seconds: float

    def piece(self, gram, prepared, first, last, stop):
        time.sleep(self.seconds)
        return (gram.Z[first:last].sum(axis=1),)


WAYS = [
    {"criterion": "bic"},
    {"criterion": "least_squares"},
    {"criterion": "least_squares", "candidates": "all"},
]


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as made,
    ):
        yield made


@pytest.fixture
def small(monkeypatch):
    """Fits of some hundred variables in pieces as those of a hundred thousand are."""
    monkeypatch.setattr(tiles, "_ROWS", 32)
    monkeypatch.setattr(moments, "_ROWS", 32)
    monkeypatch.setattr(OrderSearch, "_hold", lambda self, d, only_moments: only_moments)


def table(d=260, n=120, seed=0):
    rng = np.random.default_rng(seed)
    return simulate.sample(simulate.random_dag(d, 1, rng=rng), n, rng=rng)


def same(one, other):
    np.testing.assert_array_equal(one.order_, other.order_)
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(one.weights_, part), getattr(other.weights_, part))


@pytest.mark.parametrize("way", WAYS)
def test_the_answer_is_the_same_to_the_last_bit(client, small, way):
    X = table()
    here = OrderSearch(**way).fit(X)
    with bigdag.on_dask(client) as cluster:
        there = OrderSearch(**way).fit(X)
        assert cluster.n_pieces > 8
    same(here, there)
    assert cluster.n_lost == 0


def test_with_what_is_known_beforehand(client, small):
    X = table(seed=3)
    known = Knowledge(regulators=[f"x{i}" for i in range(60)], forbidden_edges=[("x0", "x1")])
    for criterion in ("bic", "least_squares"):
        learner = OrderSearch(criterion=criterion, knowledge=known, candidates="correlated")
        here = learner.fit(X).weights_.copy()
        with bigdag.on_dask(client) as cluster:
            learner.fit(X)
        assert cluster.n_pieces
        assert (learner.weights_ != here).nnz == 0


def held(client):
    return sum(client.run(lambda: len(on_worker._here)).values())


def test_the_rows_are_sent_once_and_dropped_at_the_end(client, small, monkeypatch):
    sent = []
    scatter = client.scatter
    monkeypatch.setattr(
        client, "scatter",
        lambda data, **more: (sent.append(getattr(data, "shape", None)), scatter(data, **more))[1],
    )  # fmt: skip
    X = table()
    with bigdag.on_dask(client):
        OrderSearch(criterion="bic").fit(X)
    assert sent.count((260, 120)) == 1
    assert dropped(client)


def dropped(client):
    until = time.monotonic() + 20
    while held(client) and time.monotonic() < until:
        time.sleep(0.05)
    return held(client) == 0


def test_the_rows_are_dropped_with_a_gram_that_nobody_holds_and_after_a_fit_that_failed(
    client, small
):
    with bigdag.on_dask(client) as executor:
        gram = Gram(as_dataset(table()), hold=False, n_jobs=1)
        gram.spread(Sleeping(0), 260, 20)
        assert held(client)
        del gram
        gc.collect()
        assert dropped(client)

        def failing(state):
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            OrderSearch(criterion="bic", callback=failing).fit(table())
        assert executor.n_pieces > 13
        assert dropped(client)


def test_a_piece_is_given_up_after_as_many_losses_as_are_told(client, small, monkeypatch):
    lost = []

    def lose(self, future, worker):
        lost.append(worker)

    monkeypatch.setattr(module._Sending, "_fetched", lose)
    monkeypatch.setattr(module._Sending, "_submit", one_piece(module._Sending._submit))
    with (
        bigdag.on_dask(client),
        pytest.raises(BigdagError, match=f"{module._LOSSES} times"),
    ):
        OrderSearch(criterion="bic").fit(table())
    assert len(lost) == module._LOSSES


def one_piece(submit):
    def submitting(self):
        """Have only the first piece done."""
        self._room = dict.fromkeys(sorted(self._room)[:1], 1)
        self._able &= self._room.keys()
        submit(self)

    return submitting


def test_the_pieces_of_a_killed_worker_are_done_again(small, monkeypatch):
    X = table()
    here = OrderSearch(criterion="bic").fit(X)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        workers = list(client.run(os.getpid).values())
        receive = module._Sending._receive

        def kill_one(self, key):
            if len(workers) == 2:
                os.kill(workers.pop(), signal.SIGKILL)
            return receive(self, key)

        monkeypatch.setattr(module._Sending, "_receive", kill_one)
        with bigdag.on_dask(client) as executor:
            there = OrderSearch(criterion="bic").fit(X)
        assert len(workers) == 1
        assert executor.n_lost > 0
    same(here, there)


def test_all_workers_may_be_lost_at_once(small, monkeypatch):
    """The nanny of each starts it again, and the rows are sent anew."""
    X = table()
    here = OrderSearch().fit(X)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        workers = list(client.run(os.getpid).values())
        receive = module._Sending._receive

        def kill_it(self, key):
            if workers:
                os.kill(workers.pop(), signal.SIGKILL)
            return receive(self, key)

        monkeypatch.setattr(module._Sending, "_receive", kill_it)
        with bigdag.on_dask(client):
            there = OrderSearch().fit(X)
    same(here, there)


def test_a_cluster_with_too_little_memory_is_refused_before_the_work(client, small, monkeypatch):
    monkeypatch.setattr(module, "_USABLE", 1e-6)
    with (
        bigdag.on_dask(client),
        pytest.raises(MemoryLimitError, match=r"A worker needs .* 260 variables .* limit of"),
    ):
        OrderSearch(criterion="bic").fit(table())


def test_what_a_worker_needs_grows_with_its_threads():
    gram = Gram(as_dataset(table()), hold=False, n_jobs=1)
    about = {"memory_limit": 60e6, "metrics": {"memory": 0}}
    assert module._fits(about | {"nthreads": 2}, gram)
    assert not module._fits(about | {"nthreads": 32}, gram)
    assert module._fits({"memory_limit": 0, "nthreads": 32}, gram)
    told = str(module._too_small(gram, {"w": about | {"nthreads": 32}}, "tcp://a:1"))
    assert "32 threads" in told


def test_a_cluster_that_is_gone_is_one_sentence(small, monkeypatch):
    monkeypatch.setattr(module, "_LOST", 1.0)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        receive = module._Sending._receive

        def close_all(self, key):
            threading.Thread(target=cluster.scale, args=(0,)).start()
            return receive(self, key)

        monkeypatch.setattr(module._Sending, "_receive", close_all)
        learner = OrderSearch(criterion="bic")
        told = rf"{client.scheduler.address} has no workers"
        with bigdag.on_dask(client), pytest.raises(BigdagError, match=told):
            learner.fit(table(900, 60))
        assert not hasattr(learner, "dag_")


@pytest.mark.parametrize(("change", "told"), [
    ({"memory_limit": 2**20}, r"A worker needs .* limit of"),
    ({"status": "paused"}, r"Dask has paused 2"),
])  # fmt: skip
def test_workers_that_cannot_do_the_work_are_not_waited_for(
    client, small, monkeypatch, change, told
):
    """The one that could was killed on the way, or Dask has paused those there are."""
    monkeypatch.setattr(module, "_LOST", 1.0)
    monkeypatch.setattr(module, "_ASK", 0.1)
    receive, workers_of = module._Sending._receive, module.workers_of

    def lose_all(self, key):
        monkeypatch.setattr(module, "workers_of", lambda client: {
            w: about | change for w, about in workers_of(client).items()
        })  # fmt: skip
        done = receive(self, key)
        for worker in list(self._ready):
            self._lose(worker)
        return done

    monkeypatch.setattr(module._Sending, "_receive", lose_all)
    learner = OrderSearch(criterion="bic", time_limit=20)
    with bigdag.on_dask(client), pytest.raises(MemoryLimitError, match=told):
        learner.fit(table())


def test_the_pieces_of_a_worker_that_dask_has_paused_are_done_by_others(client, small, monkeypatch):
    monkeypatch.setattr(module, "_LOST", 0.5)
    monkeypatch.setattr(module, "_ASK", 0.1)
    paused, workers_of = sorted(module.workers_of(client))[0], module.workers_of
    submit = client.submit

    def held_back(function, *args, **more):
        if function is on_worker.do and more["workers"] == [paused]:  # it never comes to it
            monkeypatch.setattr(module, "workers_of", lambda client: {
                w: about | ({"status": "paused"} if w == paused else {})
                for w, about in workers_of(client).items()
            })  # fmt: skip
            return submit(time.sleep, 3, **more)
        return submit(function, *args, **more)

    monkeypatch.setattr(client, "submit", held_back)
    X = table()
    with bigdag.on_dask(client) as executor:
        there = OrderSearch(criterion="bic").fit(X)
    assert executor.n_lost > 0
    same(OrderSearch(criterion="bic").fit(X), there)


@pytest.fixture
def blocks(client, monkeypatch):
    """The places of the rows that are sent, in many blocks."""
    sent, submit = [], client.submit
    monkeypatch.setattr(module, "_BLOCK", 20 * 8 * 120)

    def noting(function, *args, **more):
        if function is on_worker.fill:
            sent.append((more["workers"][0], args[1]))
        return submit(function, *args, **more)

    monkeypatch.setattr(client, "submit", noting)
    return sent


def test_a_stop_is_seen_between_two_blocks_of_rows(client, small, blocks):
    with executing(module.OnDask(client)):
        gram = Gram(as_dataset(table()), hold=False, n_jobs=1)
    found = gram.spread(Sleeping(0), 260, 20, lambda: len(blocks) >= 6)
    gram.close()
    assert 6 <= len(blocks) <= 8  # of 26
    assert found == [None] * 13


def test_the_address_of_a_scheduler_that_is_gone_is_told(small):
    with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
        client = Client(cluster, set_as_default=False)
        address = client.scheduler.address
        with executing(module.OnDask(client)):
            gram = Gram(as_dataset(table()), hold=False, n_jobs=1)
        client.close()
        with pytest.raises(BigdagError, match=f"{address} has no workers any more, or is gone"):
            gram.spread(Sleeping(0), 260, 20)


def test_workers_go_on_while_a_late_one_is_sent_the_rows(client, small, blocks, monkeypatch):
    late, workers_of = sorted(module.workers_of(client))[0], module.workers_of
    monkeypatch.setattr(module, "_ASK", 0.01)
    order, receive = [], module._Sending._receive

    def note(self, key):
        if (done := receive(self, key)) is not None:
            order.append(len(blocks))
        return done

    monkeypatch.setattr(module._Sending, "_receive", note)
    monkeypatch.setattr(module, "workers_of", lambda client: {
        w: about for w, about in workers_of(client).items() if w != late or order
    })  # fmt: skip
    with executing(module.OnDask(client)):
        gram = Gram(as_dataset(table()), hold=False, n_jobs=1)
    found = gram.spread(Sleeping(0.02), 260, 4)
    gram.close()
    assert all(result is not None for result in found)
    assert [first for worker, first in blocks if worker == late][:3] == [0, 20, 40]
    assert any(13 < count < 26 for count in order)


def test_a_block_that_could_not_be_sent_is_sent_again_and_no_other(
    client, small, blocks, monkeypatch
):
    scatter, calls = client.scatter, []

    def failing(data, **more):
        calls.append(1)
        if len(calls) == 5:
            raise OSError("one has gone")
        return scatter(data, **more)

    monkeypatch.setattr(client, "scatter", failing)
    X = table()
    with bigdag.on_dask(client):
        there = OrderSearch(criterion="bic").fit(X)
    assert len(blocks) == len(set(blocks)) == 26
    same(OrderSearch(criterion="bic").fit(X), there)


def test_an_error_on_a_worker_is_told_and_a_time_limit_ends_the_work(client, small):
    X = table()
    with bigdag.on_dask(client):
        stopped = OrderSearch(criterion="bic", time_limit=1e-6).fit(X)
    assert stopped.status_ == "time_limit"
    with pytest.raises(ParameterError, match=r"needs a distributed\.Client"), bigdag.on_dask(7):
        pass


def test_the_command(client, tmp_path):
    X = table(60)
    pd.DataFrame(X, columns=[f"g{i}" for i in range(60)]).to_parquet(tmp_path / "t.parquet")
    address = client.scheduler.address
    for more in ([], ["--dask", address]):
        done = CliRunner().invoke(app, [
            "fit", str(tmp_path / "t.parquet"), "--method", "order-search-bic", *more,
            "--out", str(tmp_path / f"{len(more)}.parquet"),
        ])  # fmt: skip
        assert done.exit_code == 0, done.output
    assert DAG.load(tmp_path / "0.parquet") == DAG.load(tmp_path / "2.parquet")


@pytest.mark.parametrize(("more", "told"), [
    (["--dask", "tcp://127.0.0.1:1"], "No Dask scheduler answers at tcp://127.0.0.1:1"),
    (["--dask", "nonsense"], "is no address of a Dask scheduler"),
    (["--method", "proximas", "--dask", "tcp://127.0.0.1:1"], "--dask goes with --bootstrap"),
])  # fmt: skip
def test_the_command_without_a_cluster_says_so_and_writes_nothing(
    tmp_path, monkeypatch, more, told
):
    monkeypatch.setattr(module, "_CONNECT", 0.5)
    pd.DataFrame(table(8), columns=list("abcdefgh")).to_parquet(tmp_path / "t.parquet")
    out = tmp_path / "out.parquet"
    done = CliRunner().invoke(app, ["fit", str(tmp_path / "t.parquet"), "--out", str(out), *more])
    assert done.exit_code
    assert told in done.output
    assert "Traceback" not in done.output
    assert [file.name for file in tmp_path.iterdir()] == ["t.parquet"]


@pytest.mark.parametrize("chunks", [(50, 7), (120, 20), (13, 20)])
def test_a_dask_array_is_gathered_by_blocks(chunks):
    X = table(20).astype(np.float32)
    blocks = dask.array.from_array(X, chunks=chunks)
    np.testing.assert_array_equal(as_dataset(blocks).X, as_dataset(X).X)


def test_a_dask_array_that_does_not_fit_is_read_in_one_pass():
    X = np.random.default_rng(0).normal(size=(200_000, 5))
    blocks = dask.array.from_array(X, chunks=(10_000, 5))
    limit = memory_held() + 28 * 2**20
    with pytest.warns(match="one pass"):
        data = as_dataset(blocks, memory_limit=limit)
    np.testing.assert_allclose(data.covariance, np.cov(X.T, bias=True), atol=1e-12)


@pytest.mark.parametrize("chunks", [(50, 7), (120, 20), (13, 200)])
def test_a_zarr_array_is_read_by_chunks(tmp_path, monkeypatch, chunks):
    zarr = pytest.importorskip("zarr")
    X = table(20).astype(np.float32)
    stored = zarr.create_array(tmp_path / "t.zarr", shape=X.shape, chunks=chunks, dtype="f4")
    stored[:] = X
    parts, read = [], type(stored).__getitem__

    def reading(self, part):
        parts.append(part)
        return read(self, part)

    monkeypatch.setattr(type(stored), "__getitem__", reading)
    monkeypatch.setattr(convert, "_BLOCK", 400)
    stored = zarr.open_array(tmp_path / "t.zarr", mode="r")
    np.testing.assert_array_equal(as_dataset(stored).X, as_dataset(X).X)
    assert len(parts) == -(-120 // min(120, chunks[0])) * (1 if chunks[1] > 7 else 3)
    here = OrderSearch(criterion="bic").fit(X)
    same(here, OrderSearch(criterion="bic").fit(stored))
    same(here, OrderSearch(criterion="bic").fit(dask.array.from_zarr(stored)))


def test_a_stored_array_that_does_not_fit_is_read_in_one_pass(tmp_path):
    h5py = pytest.importorskip("h5py")
    X = np.random.default_rng(0).normal(size=(200_000, 5))
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["whole"] = X
        file.create_dataset("chunks", data=X, chunks=(1000, 5))
        for name in ("whole", "chunks"):
            file[name][:]  # what h5py itself keeps is there before
            limit = memory_held() + 28 * 2**20
            with pytest.warns(match="one pass"):
                data = as_dataset(file[name], memory_limit=limit)
            np.testing.assert_allclose(data.covariance, np.cov(X.T, bias=True), atol=1e-12)
            np.testing.assert_array_equal(as_dataset(file[name][:99]).X, as_dataset(X[:99]).X)


@pytest.mark.parametrize("chunks", [(3000, 2), (100, 5), (700, 5)])
def test_one_pass_reads_each_chunk_of_a_stored_array_once(chunks):
    class Stored:
        """An array that counts the rows that are read of it."""

        def __init__(self, X):
            self.X, self.chunks, self.shape, self.dtype, self.read = X, chunks, X.shape, X.dtype, 0

        def __getitem__(self, part):
            first, last, _ = part.indices(len(self.X))
            assert first % chunks[0] == 0
            self.read += last - first
            return self.X[part]

    X = np.random.default_rng(0).normal(size=(3000, 5))
    stored = Stored(X)
    rows = convert.rows_of(stored)
    out, step = np.empty_like(X), 640
    for first in range(0, 3000, step):
        rows.fill(first, min(first + step, 3000), out[first : first + step])
    np.testing.assert_array_equal(out, X)
    assert stored.read == 3000


def test_a_dask_array_of_unknown_size_is_refused():
    X = dask.array.from_array(np.eye(4), chunks=2)
    with pytest.raises(DataError, match="compute_chunk_sizes"):
        as_dataset(X[X[:, 0] > 0])


# ------------------------------------------------------------------ rows in a folder


def test_workers_map_the_rows_from_a_folder_and_the_file_goes_at_the_end(client, small, tmp_path):
    X, seen = table(), []
    here = OrderSearch(criterion="bic").fit(X)

    def look(state):
        seen.append([(p.name[:12], p.suffix) for p in tmp_path.iterdir()])

    with bigdag.on_dask(client, folder=tmp_path) as cluster:
        there = OrderSearch(criterion="bic", callback=look).fit(X)
        assert cluster.n_read >= 1
        assert cluster.n_sent == 0
        assert not list(tmp_path.iterdir())
    same(here, there)
    assert seen[0] == [("bigdag-rows-", ".npy")]
    assert dropped(client)


def test_no_file_is_left_of_a_fit_that_failed_or_of_a_gram_that_nobody_holds(
    client, small, tmp_path
):
    def failing(state):
        raise ZeroDivisionError

    with bigdag.on_dask(client, folder=tmp_path) as executor:
        with pytest.raises(ZeroDivisionError):
            OrderSearch(criterion="bic", callback=failing).fit(table())
        assert executor.n_read >= 1
        assert not list(tmp_path.iterdir())
        gram = Gram(as_dataset(table()), hold=False, n_jobs=1)
        gram.spread(Sleeping(0), 260, 20)
        assert len(list(tmp_path.iterdir())) == 1
        del gram
        gc.collect()
        assert not list(tmp_path.iterdir())


def _hold(keys):
    """Tell whether a worker still holds some of these rows; called there."""
    from bigdag.engine.on_worker import holds

    return any(holds(key) for key in keys)


def test_the_file_stays_until_pieces_that_were_given_up_have_ended(client, small, tmp_path):
    with executing(module.OnDask(client, tmp_path)):
        gram = Gram(as_dataset(table()), hold=False, n_jobs=1)
    until = time.monotonic() + 1.5
    found = gram.spread(Sleeping(4), 260, 65, lambda: time.monotonic() > until)
    assert found == [None] * 4
    keys = [copy.key for copy in gram.executor._sent[gram].copies.values()]
    assert any(client.run(_hold, keys).values())  # still under way
    gram.close()
    assert not any(client.run(_hold, keys).values())
    assert not list(tmp_path.iterdir())


def test_a_worker_that_does_not_see_the_folder_is_sent_the_rows(
    client, small, tmp_path, monkeypatch
):
    blind, submit = sorted(module.workers_of(client))[0], client.submit

    def elsewhere(function, *args, **more):
        if function is on_worker.hold_rows and more["workers"] == [blind] and args[-1]:
            args = (*args[:-1], args[-1]._replace(path="/no/such/folder/rows.npy"))
        return submit(function, *args, **more)

    monkeypatch.setattr(client, "submit", elsewhere)
    told = rf"{blind} cannot read the rows in {tmp_path} \(No such file or directory\)"
    with pytest.warns(ClusterWarning, match=told) as all_told:
        assert read_and_sent(client, tmp_path) == (1, 1)
    assert len(all_told) == 1


def read_and_sent(client, folder):
    """Have work done that lasts until both workers have the rows; count how they came to them."""
    executor = module.OnDask(client, folder)
    with executing(executor):
        gram = Gram(as_dataset(table()), hold=False, n_jobs=1)
    sums = gram.Z.sum(axis=1)
    found = gram.spread(Sleeping(0.02), 260, 2)
    np.testing.assert_array_equal(np.concatenate([part for (part,) in found]), sums)
    gram.close()
    return executor.n_read, executor.n_sent


@pytest.mark.parametrize(("other", "why"), [
    (lambda Z: Z[::-1], "it holds other rows"),
    (lambda Z: Z[:-1], "it holds another table"),
    (lambda Z: Z.astype(np.float32), "it holds another table"),
    (None, r"\w+"),
])  # fmt: skip
def test_another_file_of_the_same_name_is_not_taken_for_the_rows(
    client, small, tmp_path, monkeypatch, other, why
):
    """As where two machines have a folder of that name each."""
    write = rows_file.written_rows

    def replaced(folder, Z):
        file = write(folder, Z)
        if other is None:
            Path(file.path).write_bytes(b"something else")
        else:
            np.save(file.path, other(Z))
        return file

    monkeypatch.setattr(module, "written_rows", replaced)
    with pytest.warns(ClusterWarning, match=rf"cannot read the rows in .* \({why}"):
        assert read_and_sent(client, tmp_path) == (0, 2)
    assert not list(tmp_path.iterdir())


def test_a_worker_is_killed_while_it_reads_the_rows(small, tmp_path, monkeypatch):
    X = table()
    here = OrderSearch(criterion="bic").fit(X)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        submit, killed = client.submit, []

        def die(*args):
            os.kill(os.getpid(), signal.SIGKILL)

        def one_dies(function, *args, **more):
            if function is on_worker.hold_rows and not killed:
                killed.append(more["workers"][0])
                return submit(die, *args, **more)
            return submit(function, *args, **more)

        monkeypatch.setattr(client, "submit", one_dies)
        with bigdag.on_dask(client, folder=tmp_path) as executor:
            there = OrderSearch(criterion="bic").fit(X)
        assert killed
        assert executor.n_read >= 1
        assert executor.n_sent == 0
    same(here, there)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for folder, told in [
        (tmp_path / "none", "There is no folder"),
        (tmp_path / "file", "is no folder"),
        (7, "folder must be the path"),
    ]:
        with pytest.raises(ParameterError, match=told), bigdag.on_dask("tcp://a:1", folder=folder):
            pass

    def refuse(**more):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(rows_file.tempfile, "TemporaryFile", refuse)
    told = f"cannot be written to the folder {tmp_path}: Permission denied"
    with pytest.raises(ParameterError, match=told), bigdag.on_dask("tcp://a:1", folder=tmp_path):
        pass


def test_a_folder_without_room_is_told_before_the_work_and_leaves_nothing(
    client, small, tmp_path, monkeypatch
):
    with bigdag.on_dask(client, folder=tmp_path):
        with monkeypatch.context() as patch:
            patch.setattr(rows_file.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
            with pytest.raises(BigdagError, match=r"take .* and the folder .* has .* left"):
                OrderSearch(criterion="bic").fit(table())
        with monkeypatch.context() as patch:
            patch.setattr(rows_file, "_BLOCK", 8 * 120 * 100)
            full, calls = np.ascontiguousarray, []

            def running_out(*args, **more):
                calls.append(1)
                if len(calls) > 1:
                    raise OSError(28, "No space left on device")
                return full(*args, **more)

            patch.setattr(rows_file, "np", SimpleNamespace(
                ascontiguousarray=running_out, lib=np.lib, float64=np.float64
            ))  # fmt: skip
            with pytest.raises(BigdagError, match=r"No space left on device\. Make room"):
                OrderSearch(criterion="bic").fit(table())
        assert not list(tmp_path.iterdir())


def test_the_command_with_a_folder(client, tmp_path, monkeypatch):
    monkeypatch.setattr(tiles, "_ROWS", 32)
    monkeypatch.setattr(OrderSearch, "_hold", lambda self, d, only_moments: only_moments)
    frame = pd.DataFrame(table(), columns=[f"g{i}" for i in range(260)])
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "shared").mkdir()
    read, arrived = [], module.OnDask.arrived
    monkeypatch.setattr(
        module.OnDask, "arrived", lambda self, mapped: (read.append(mapped), arrived(self, mapped))
    )
    command = ["fit", str(tmp_path / "t.parquet"), "--method", "order-search-bic", "--force",
               "--out", str(tmp_path / "out.parquet")]  # fmt: skip
    assert CliRunner().invoke(app, command).exit_code == 0
    here = DAG.load(tmp_path / "out.parquet")
    command += ["--dask-folder", str(tmp_path / "shared")]
    done = CliRunner().invoke(app, [*command, "--dask", client.scheduler.address])
    assert done.exit_code == 0, done.output
    assert read
    assert all(read)
    assert DAG.load(tmp_path / "out.parquet") == here
    assert not list((tmp_path / "shared").iterdir())
    done = CliRunner().invoke(app, command)
    assert (done.exit_code, "--dask-folder goes with --dask" in done.output) == (2, True)
    command[-1] = str(tmp_path / "none")
    done = CliRunner().invoke(app, [*command, "--dask", "tcp://127.0.0.1:1"])
    assert (done.exit_code, "There is no folder" in done.output) == (2, True)
