"""The pieces of a fit on the workers of a Dask cluster.

The rows go to each worker once, block by block, and stay there as long as the caller holds the
futures that stand for them: where the caller is gone, Dask lets go of them. In a folder that the
workers see they are one file instead (:mod:`bigdag.engine.rows_file`); who does not see it is sent
them. Then each task goes to every worker, and after it only the numbers of its pieces. A worker has
at most one piece more than it has threads, so that one which comes later finds work. The pieces of
a worker that is lost are done by others.
"""

from __future__ import annotations

import gc
import os
import queue
import secrets
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, finalize, ref

from bigdag.engine.exceeding import exceeding_memory
from bigdag.engine.executor import Arrays, Piece, Step, Task, Threads, executing
from bigdag.engine.on_worker import Lost, Unseen, do, fill, hold_rows, hold_task, holds
from bigdag.engine.rows_file import RowsFile, checked_folder, require_room, written_rows
from bigdag.errors import (
    BigdagError,
    ClusterWarning,
    MemoryLimitError,
    ParameterError,
    missing_extra,
)
from bigdag.resources import format_bytes

if TYPE_CHECKING:
    from bigdag.engine.gram import Gram

__all__ = ["OnDask", "connected", "on_dask", "workers_of"]

_CONNECT = 10.0  # seconds to wait for a scheduler to answer
_ASK = 1.0  # ... between questions to it for its workers
_FETCH = 1.0  # ... to wait for a result before looking whether its worker is still there
_WAIT = 0.1  # ... at the most between two looks of ours
_LOST = 30.0  # ... without a worker that can do the work, after which the cluster is given up
_LOSSES = 5  # of one piece with its worker, after which it is given up
_BEHIND = 5.0  # seconds that workers wait for another one to take the block they share
_BLOCK = 2**26  # bytes of rows that are sent at a time
_LET_GO = 10.0  # seconds that a file of rows stays for pieces of work that were given up
_USABLE = 0.7  # of a worker's memory limit: beyond, Dask moves data to the disk


def connected(address: str) -> Any:
    """Return a client of the scheduler at an address, or say in a sentence why there is none."""
    try:
        import distributed
    except ImportError:
        raise missing_extra("dask", "experiments", "Running on a cluster (--dask)") from None
    connect: Any = distributed.Client
    refusal: BigdagError
    try:
        return connect(address, timeout=_CONNECT, set_as_default=False)
    except (OSError, TimeoutError):
        refusal = BigdagError(
            f"No Dask scheduler answers at {address} within {_CONNECT:.0f} s. Start one with "
            "`dask scheduler`, and give the address that it prints. Nothing was run."
        )
    except (ValueError, TypeError) as error:
        refusal = ParameterError(
            f"{address!r} is no address of a Dask scheduler: {error}. It looks like "
            "tcp://10.0.0.1:8786."
        )
    # The client that could not connect is garbage, and closes itself when it is collected. That
    # takes a lock of Dask's: collected while another client or cluster starts, it would wait for
    # ever, so it is collected now.
    gc.collect()
    raise refusal


def workers_of(client: Any) -> dict[str, Any] | None:
    """Return what a scheduler knows of its workers, by address; None where it does not answer."""
    # Between versions of Dask, the default went from all workers to five and back.
    known = signature(client.scheduler_info).parameters
    try:
        told = client.scheduler_info(**({"n_workers": -1} if "n_workers" in known else {}))
    except (OSError, TimeoutError):
        return None
    found: dict[str, Any] | None = told.get("workers")
    return found


@contextmanager
def on_dask(cluster: Any, *, folder: str | os.PathLike[str] | None = None) -> Iterator[OnDask]:
    """Give a context in which fits have their large parts done by a Dask cluster.

    These are the passes over all pairs of variables, the lassos and the regressions of many
    variables, and the R² of the start: most of the work of :class:`~bigdag.OrderSearch` from 5,000
    variables on. The search itself stays with the caller. The answer is the same as without, to
    the last bit on processors of one kind.

    Parameters
    ----------
    cluster : distributed.Client or str
        A client, or the address of a scheduler, such as "tcp://10.0.0.1:8786". Every worker needs
        bigdag in the same version, and memory for the table in float64, and up to 65,536 variables
        in float32, too.
    folder : str or Path, optional
        A folder that this process and the workers see under the same path, as on a network file
        system. The rows of a fit, as they are after all that was done to the table, are written
        there once, and workers map that file into their memory; those on one machine then share it.
        Without a folder, the rows are sent to every worker. The file is deleted at the end.

    Yields
    ------
    OnDask
        How much was sent, in its attributes ``n_pieces``, ``n_lost``, ``n_read``, ``n_sent`` and
        ``seconds``.

    Raises
    ------
    ParameterError
        If `cluster` is neither a client nor an address, or if the folder cannot be written to.

    Warns
    -----
    ClusterWarning
        If a worker does not see the folder, or finds another file there: it is sent the rows.

    Examples
    --------
    >>> import bigdag
    >>> from distributed import Client, LocalCluster  # doctest: +SKIP
    >>> with Client(LocalCluster(n_workers=2)) as client:  # doctest: +SKIP
    ...     with bigdag.on_dask(client):
    ...         model = OrderSearch(criterion="bic").fit(X)
    ...     with bigdag.on_dask(client, folder="/shared/scratch"):
    ...         model = OrderSearch(criterion="bic").fit(zarr.open_array("/shared/genes.zarr"))
    >>> with bigdag.on_dask("tcp://10.0.0.1:8786", folder="/no/such/folder"):
    ...     pass
    Traceback (most recent call last):
        ...
    bigdag.errors.ParameterError: There is no folder /no/such/folder for the rows. ...
    """
    place = None if folder is None else checked_folder(folder)
    client = connected(cluster) if isinstance(cluster, str) else cluster
    if not hasattr(client, "scheduler_info") or getattr(client, "asynchronous", False):
        raise ParameterError(
            "on_dask needs a distributed.Client that is not asynchronous, or the address of a "
            f"scheduler. Got {type(cluster).__name__!r} instead."
        )
    executor = OnDask(client, place)
    try:
        with executing(executor):
            yield executor
    finally:
        executor.close()
        if client is not cluster:
            with suppress(Exception):  # a cluster that is gone cannot be left in good order
                client.close(timeout=2)


class OnDask:
    """Does the pieces of tasks on the workers of a cluster, where correlations are not held.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    folder : Path, optional
        Where the rows are written, for workers to map them.

    Attributes
    ----------
    n_pieces, n_lost : int
        Pieces that workers have done, and those that went with a worker and were done again.
    n_read, n_sent : int
        Copies of the rows that workers mapped from the folder, and those that were sent whole.
    seconds : float
        Time that passed while workers did pieces, with that of sending.
    """

    def __init__(self, client: Any, folder: Path | None = None) -> None:
        self._client, self._folder, self._threads = client, folder, Threads()
        self._address = str(client.scheduler.address)  # a client that is closed has none
        self._sent: WeakKeyDictionary[Gram, _Rows] = WeakKeyDictionary()
        self._told = False  # of a worker that does not see the folder
        self.n_pieces, self.n_lost, self.seconds = 0, 0, 0.0
        self.n_read, self.n_sent = 0, 0

    def admit(self, gram: Gram) -> None:
        """Refuse a cluster whose workers have no memory for the rows, or a folder without room."""
        until = time.monotonic() + _LOST
        while not (workers := workers_of(self._client)):
            if time.monotonic() > until:
                raise BigdagError(
                    f"The cluster at {self._address} has no workers. Start some with `dask worker "
                    "ADDRESS`. Nothing was run."
                )
            time.sleep(_WAIT)
        if not any(_fits(about, gram) for about in workers.values()):
            raise _too_small(gram, workers, self._address)
        if self._folder is not None:
            require_room(self._folder, gram.n_samples, gram.d)

    def arrived(self, read: bool) -> None:
        """Count a copy of the rows that is whole on its worker."""
        self.n_read, self.n_sent = self.n_read + read, self.n_sent + (not read)

    def unseen(self, worker: str, why: str) -> None:
        """Say once that a worker cannot map the rows."""
        if not self._told:
            self._told = True
            warnings.warn(
                f"The worker {worker} cannot read the rows in {self._folder} ({why}), so they are "
                "sent to it, and to others like it. Name a folder that all workers see under the "
                "same path.",
                ClusterWarning,
                stacklevel=2,
            )

    def results(
        self,
        gram: Gram,
        task: Task,
        pieces: Sequence[Piece],
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[tuple[int, Arrays]]:
        """Yield the number and the result of each piece as it is done; fewer at a stop."""
        if gram.C is not None or gram.Z is None:
            yield from self._threads.results(gram, task, pieces, stop)
            return
        began = time.monotonic()
        if gram not in self._sent:
            self._sent[gram] = _Rows(self._client, gram, self)
        sending = _Sending(self, self._sent[gram], task, pieces)
        try:
            for done in sending.run(stop):
                self.n_pieces += 1
                self.seconds += time.monotonic() - began
                yield done
                began = time.monotonic()
        finally:
            sending.close()
            self.seconds += time.monotonic() - began

    def step(self, gram: Gram, name: str, *inputs: Any) -> Step:
        """Return a step that was never done before; it stays with the caller."""
        return self._threads.step(gram, name, *inputs)

    def forget(self, gram: Gram) -> None:
        """Let the workers drop the rows."""
        if (rows := self._sent.pop(gram, None)) is not None:
            rows.close()

    def close(self) -> None:
        """Let the workers drop all rows."""
        for gram in list(self._sent):
            self.forget(gram)


class _Copy:
    """The rows on one worker, as far as they have come."""

    def __init__(self, key: str, held: Any, group: str, coming: int) -> None:
        self.key, self.held = key, held  # held: the future of all
        self.group = group  # of workers that take the same blocks together
        self.there, self.coming = 0, coming  # rows
        self.read = coming > 0  # from a file
        self.under_way, self.since = held, time.monotonic()


class _Rows:
    """The rows of one Gram, on some workers."""

    def __init__(self, client: Any, gram: Gram, owner: OnDask) -> None:
        self.client, self._owner = client, owner
        self._gram = ref(gram)  # so that the rows go with it
        self._blind: set[str] = set()  # workers that do not see the file
        self._file: RowsFile | None = None
        if owner._folder is not None:
            assert gram.Z is not None
            self._file = written_rows(owner._folder, gram.Z)
            self._delete = finalize(self, _delete, self._file.path)  # also where nobody closes it
        self.copies: dict[str, _Copy] = {}  # by worker
        self._failing: float | None = None  # since when no block could be sent

    @property
    def gram(self) -> Gram:
        """The Gram, which whoever works on its rows holds."""
        gram = self._gram()
        assert gram is not None
        return gram

    def whole(self) -> list[str]:
        """Return the workers that have all rows."""
        return [w for w, copy in self.copies.items() if copy.there == self.gram.d]

    def begin(self, workers: list[str]) -> None:
        """Let workers make room for the rows."""
        from bigdag import __version__

        assert self.gram.Z is not None
        group = secrets.token_hex(8)
        for worker in workers:
            key = f"bigdag-rows-{secrets.token_hex(8)}"
            file = None if worker in self._blind else self._file
            held = self.client.submit(
                hold_rows, key, __version__, self.gram.Z.shape, self.gram.sd, file, key=key,
                workers=[worker], pure=False,
            )  # fmt: skip
            self.copies[worker] = (
                _Copy(key, held, group, 0) if file is None else _Copy(key, held, key, self.gram.d)
            )

    def go_on(self, able: set[str], ended: Callable[[Any], None]) -> None:
        """Send at most one block, to workers that have taken the one before; wait for nothing.

        Parameters
        ----------
        able : set of str
            The workers that can take one.
        ended : callable
            Called with a future when its worker has taken a block.
        """
        moment = time.monotonic()
        groups: dict[str, list[str]] = {}
        for worker, copy in list(self.copies.items()):
            if (why := _unseen(copy.under_way)) is not None:
                self._owner.unseen(worker, why)
                self._blind.add(worker)
                self.begin([worker])
                copy = self.copies[worker]
            worked = copy.under_way is None or _worked(worker, copy.under_way)
            if worked is False:
                del self.copies[worker]  # all of them once more
                continue
            if worked:
                if 0 < copy.coming == self.gram.d - copy.there:
                    self._owner.arrived(copy.read)
                copy.there, copy.coming, copy.under_way = copy.there + copy.coming, 0, None
            elif moment - copy.since > _BEHIND:
                copy.group = copy.key  # the others go on without it
            if copy.there < self.gram.d and worker in able:
                groups.setdefault(copy.group, []).append(worker)
        for group in groups.values():
            if all(self.copies[w].under_way is None for w in group):
                self._send(group, moment, ended)
                return

    def _send(self, group: list[str], moment: float, ended: Callable[[Any], None]) -> None:
        gram, first = self.gram, self.copies[group[0]].there
        assert gram.Z is not None
        data = gram.Z[first : first + max(1, _BLOCK // (8 * gram.n_samples))]
        block = _scattered(self.client, data, group)
        if block is None:
            self._failing = moment if self._failing is None else self._failing
            if moment - self._failing > _LOST:
                raise BigdagError(
                    f"The rows could not be sent to any of {len(group)} workers for {_LOST:.0f} s. "
                    "See what they and the scheduler say."
                )
            return
        self._failing = None
        for worker in group:
            copy = self.copies[worker]
            copy.under_way = self.client.submit(
                fill, copy.key, first, block, workers=[worker], pure=False
            )
            copy.coming, copy.since = len(data), moment
            copy.under_way.add_done_callback(ended)

    def drop(self, worker: str) -> None:
        """Forget a worker that is gone."""
        self.copies.pop(worker, None)

    def close(self) -> None:
        """Let all workers drop them; then no file of them is left."""
        held = {worker: copy.key for worker, copy in self.copies.items()}
        self.copies.clear()
        if self._file is not None:
            with suppress(Exception):  # a cluster that is gone holds nothing
                self._await_let_go(held)
            self._delete()

    def _await_let_go(self, held: dict[str, str]) -> None:
        """Wait for pieces of work under way that read the file: on some file systems they crash.

        Not for long, as most file systems keep it for those who have it open.
        """
        until = time.monotonic() + _LET_GO
        while held and (left := until - time.monotonic()) > 0:
            there = workers_of(self.client)
            if there is not None:  # else the scheduler did not answer
                asked = {
                    worker: self.client.submit(
                        holds, key, workers=[worker], pure=False, priority=1
                    )
                    for worker, key in held.items() if worker in there
                }  # fmt: skip
                held = {w: held[w] for w, future in asked.items() if future.result(timeout=left)}
            if held:
                time.sleep(_WAIT)


class _Sending:
    """The pieces of one task, on their way to workers and back."""

    def __init__(self, owner: OnDask, rows: _Rows, task: Task, pieces: Sequence[Piece]) -> None:
        self._owner, self._rows, self._task, self._pieces = owner, rows, task, pieces
        self._client = rows.client
        self._waiting = deque(range(len(pieces)))
        self._losses = [0] * len(pieces)
        self._under_way: dict[str, tuple[int, str, Any]] = {}  # by key: piece, worker, future
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._ready: dict[str, tuple[str, Any]] = {}  # by worker: the task's key, and its future
        self._coming: dict[str, tuple[str, Any]] = {}  # the same, of a task on its way
        self._room: dict[str, int] = {}  # by worker: pieces that it may have at a time
        self._able: set[str] = set()  # workers that run, and have memory for the rows
        self._last_able: dict[str, float] = {}  # by worker: when it was last among them
        self._next_ask, self._last_seen = 0.0, time.monotonic()

    def run(self, stop: Callable[[], bool] | None) -> Iterator[tuple[int, Arrays]]:
        """Yield the number and the result of each piece as it is done; fewer at a stop."""
        while self._waiting or self._under_way:
            if stop is not None and stop():
                return
            self._ask()
            self._rows.go_on(self._able, self._tell)
            self._make_ready()
            self._submit()
            with suppress(queue.Empty):
                key = self._ended.get(timeout=_WAIT)
                while True:
                    # Else it was taken back before, or was no piece.
                    if key in self._under_way and (done := self._receive(key)) is not None:
                        yield done
                    self._submit()
                    key = self._ended.get_nowait()

    def close(self) -> None:
        """Cancel what is under way, and let the workers drop the task."""
        with suppress(Exception):
            self._client.cancel([future for _, _, future in self._under_way.values()])
        self._under_way.clear()
        self._ready.clear()
        self._coming.clear()

    # -------------------------------------------------------------- the workers

    def _ask(self) -> None:
        """Learn which workers there are, and begin to send the rows to those that are new."""
        moment = time.monotonic()
        if moment < self._next_ask:
            return
        self._next_ask = moment + _ASK
        found = workers_of(self._client)
        if found is not None:
            self._look_at(found, moment)
        if found and self._able:
            self._last_seen = moment
        elif moment - self._last_seen > _LOST or self._client.status == "closed":
            raise self._given_up(found)
        if new := [w for w in self._able if w not in self._rows.copies]:
            self._rows.begin(new)

    def _look_at(self, found: dict[str, Any], moment: float) -> None:
        """Learn which workers can do the work, and lose those that cannot any more."""
        held = self._rows.copies
        self._able = {
            w for w, about in found.items()
            if _runs(about) and (w in held or _fits(about, self._rows.gram))
        }  # fmt: skip
        self._room.update({w: found[w]["nthreads"] + 1 for w in self._able})
        self._last_able.update(dict.fromkeys(self._able, moment))
        for worker in held.keys() - self._able:
            # One that Dask has paused may go on soon.
            if worker not in found or moment - self._last_able.get(worker, moment) > _LOST:
                self._lose(worker)

    def _given_up(self, found: dict[str, Any] | None) -> BigdagError:
        """Return the sentence on workers of which none can do the work."""
        gram, address = self._rows.gram, self._owner._address
        if not found:
            return BigdagError(
                f"The Dask cluster at {address} has no workers any more, or is gone. "
                "The same command again does the fit anew, or what is missing from its checkpoint."
            )
        if all(_runs(about) for about in found.values()):
            return _too_small(gram, found, address)
        return MemoryLimitError(
            f"No worker of the {len(found)} at {address} could work for {_LOST:.0f} s: Dask has "
            f"paused {sum(not _runs(about) for about in found.values())}, as it does where memory "
            f"is nearly full, and any others are too small for {gram.d:,} variables and "
            f"{gram.n_samples:,} samples. Start larger ones, or use fewer variables."
        )

    def _make_ready(self) -> None:
        """Send the task to workers that have the rows; see who has taken it."""
        for worker, (key, future) in list(self._coming.items()):
            if (worked := _worked(worker, future)) is not None:
                del self._coming[worker]
                if worked:
                    self._ready[worker] = key, future
                else:
                    self._lose(worker)
        new = [
            w for w in self._rows.whole()
            if w in self._able and w not in self._ready and w not in self._coming
        ]  # fmt: skip
        if not new or (task := _scattered(self._client, self._task, new)) is None:
            return
        for worker in new:
            key = f"bigdag-task-{secrets.token_hex(8)}"
            future = self._client.submit(
                hold_task, key, self._rows.copies[worker].key, task, key=key, workers=[worker],
                pure=False,
            )  # fmt: skip
            self._coming[worker] = key, future
            future.add_done_callback(self._tell)

    def _lose(self, worker: str) -> None:
        """Take back the pieces of a worker that is gone, or has lost its rows."""
        self._ready.pop(worker, None)
        self._coming.pop(worker, None)
        self._rows.drop(worker)
        for key, (number, where, future) in list(self._under_way.items()):
            if where == worker:
                del self._under_way[key]
                with suppress(Exception):
                    future.cancel()
                self._again(number)

    # -------------------------------------------------------------- the pieces

    def _submit(self) -> None:
        count = dict.fromkeys((w for w in self._ready if w in self._able), 0)
        for _, worker, _ in self._under_way.values():
            if worker in count:
                count[worker] += 1
        while self._waiting and count:
            worker = min(count, key=lambda w: count[w] / self._room[w])
            if count[worker] >= self._room[worker]:
                return
            number = self._waiting.popleft()
            future = self._client.submit(
                do, self._ready[worker][0], *self._pieces[number],
                key=f"bigdag-piece-{secrets.token_hex(8)}", workers=[worker], pure=False,
            )  # fmt: skip
            self._under_way[future.key] = number, worker, future
            count[worker] += 1
            future.add_done_callback(self._tell)

    def _tell(self, future: Any) -> None:
        """Wake the loop: something has ended."""
        self._ended.put(future.key)

    def _receive(self, key: str) -> tuple[int, Arrays] | None:
        """Return a piece that has ended; where it was lost, let it be done again."""
        number, worker, future = self._under_way.pop(key)
        if future.status == "finished":
            if (result := self._fetched(future, worker)) is not None:
                return number, result
            self._again(number)
            return None
        error = future.exception() if future.status == "error" else None
        if error is not None and not _is_loss(error):
            if isinstance(error, BigdagError | MemoryError):
                raise BigdagError(f"The worker {worker} says: {error}") from error
            raise error
        self._again(number)
        if isinstance(error, Lost):
            self._lose(worker)
            self._next_ask = 0.0
        return None

    def _fetched(self, future: Any, worker: str) -> Arrays | None:
        """Return the result of a piece; None where its worker went with it."""
        patience = _FETCH
        while True:
            try:
                result: Arrays = future.result(timeout=patience)
                return result
            except TimeoutError:
                found = workers_of(self._client)
                if found is not None and worker not in found:
                    return None
                patience *= 2  # it may be large
            except Exception as error:
                if _is_loss(error) or isinstance(error, OSError | CancelledError):
                    return None
                raise

    def _again(self, number: int) -> None:
        self._owner.n_lost += 1
        self._losses[number] += 1
        if self._losses[number] >= _LOSSES:
            raise BigdagError(
                f"A part of the work was lost with its worker {_LOSSES} times, as when a machine "
                "lacks memory. Start workers with more memory, or fewer threads each."
            )
        self._waiting.appendleft(number)


def _need(gram: Gram, threads: int) -> int:
    """Return about the bytes that a worker takes for the rows and one task on them."""
    n, d = gram.n_samples, gram.d
    return 8 * n * d + exceeding_memory(n, d, threads)


def _fits(about: Any, gram: Gram) -> bool:
    """Tell whether a worker has memory; one without a limit is taken at its word."""
    limit = about.get("memory_limit") or 0
    held = about.get("metrics", {}).get("memory", 0)
    return not limit or held + _need(gram, about["nthreads"]) <= _USABLE * limit


def _runs(about: Any) -> bool:
    """Tell whether Dask gives work to a worker; it pauses one whose memory is nearly full."""
    return bool(about.get("status", "running") == "running")


def _too_small(gram: Gram, workers: dict[str, Any], address: str) -> MemoryLimitError:
    """Return the sentence on workers of which none has memory for the rows."""
    largest = max(workers.values(), key=lambda about: about["memory_limit"])
    most, threads = largest["memory_limit"], largest["nthreads"]
    need = format_bytes(_need(gram, threads))
    return MemoryLimitError(
        f"A worker needs {need} of memory for its {threads} threads and its part of {gram.d:,} "
        f"variables and {gram.n_samples:,} samples, beside what it holds already, and none of the "
        f"{len(workers)} at {address} has so much: the largest has a limit of "
        f"{format_bytes(most)}, of which {_USABLE:.0%} can be used. Start larger ones, or ones "
        "with fewer threads, or use fewer variables."
    )


def _is_loss(error: BaseException) -> bool:
    from distributed import KilledWorker

    return isinstance(error, KilledWorker | Lost)


def _scattered(client: Any, data: Any, workers: list[str]) -> Any | None:
    """Return the future of data on workers; None where one of them has gone meanwhile."""
    try:
        return client.scatter(
            data, workers=workers, broadcast=len(workers) > 1, hash=False, timeout=_BEHIND
        )
    except (OSError, TimeoutError, ValueError, KeyError):
        return None  # tried again soon, without those that are gone


def _delete(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _unseen(future: Any) -> str | None:
    """Return why a worker could not map the rows; None where it could, or has not ended."""
    if future is None or future.status != "error":
        return None
    error = future.exception()
    return str(error) if isinstance(error, Unseen) else None


def _worked(worker: str, future: Any) -> bool | None:
    """Tell whether a worker has done something; None while it has not ended."""
    if future.status == "pending":
        return None
    if future.status == "error" and not _is_loss(error := future.exception()):
        if isinstance(error, ModuleNotFoundError | AttributeError):
            raise BigdagError(
                f"The worker {worker} cannot do a fit: {error}. Install the same version of "
                "bigdag where the workers run."
            ) from error
        raise BigdagError(f"The worker {worker} says: {error}") from error
    return bool(future.status == "finished")
