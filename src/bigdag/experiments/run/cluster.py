"""The same runs on the workers of a Dask cluster.

A task is one run: on its worker it starts the process that a run always has, with the same limits,
and brings back the record; only this side writes to the store. Workers say what they have with the
resources ``cores`` and ``memory``, and Dask gives them no more runs than that holds. The runs of a
worker that is lost are sent again. A task that nobody waits for any more ends its process.

Data sets and snapshots lie in the folders beside the store. Where workers do not share the file
system, each machine makes its own data sets there.
"""

from __future__ import annotations

import queue
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bigdag.engine.on_dask import connected, on_dask, workers_of
from bigdag.errors import BigdagError
from bigdag.experiments.run.agenda import Agenda, Progress, Running
from bigdag.experiments.run.child import WORKER, Child
from bigdag.experiments.store import Store
from bigdag.interrupts import terminable, undisturbed
from bigdag.resources import format_bytes

__all__ = ["fits_on_cluster", "run_on_cluster"]

_POLL = 0.1  # seconds between looks on a worker whether its run has ended
_WAIT = 0.25  # ... at the most between two looks of ours
_AHEAD = 8  # runs sent beyond what the workers hold, so that a cluster that grows sees work
_ASK = 2.0  # seconds between questions to the scheduler for its workers
_LOST = 30.0  # ... without an answer after which the cluster is given up


# ------------------------------------------------------------------ on a worker


class _Abandoned(Exception):
    """Nobody waits for this run any more."""


def _perform(job: Mapping[str, Any], worker: str, key: str) -> dict[str, Any]:
    """Do a run in a process of its own on this machine."""
    from distributed import get_worker

    tasks = get_worker().state.tasks

    def wanted() -> bool:
        # Dask cannot stop a task; it forgets it, when the client has cancelled it or was killed.
        task = tasks.get(key)
        return task is not None and task.state in ("executing", "long-running")

    with tempfile.TemporaryDirectory(prefix="bigdag-") as folder:
        child = Child(job, Path(folder) / "run", worker)
        try:
            while (record := child.poll()) is None:
                if not wanted():
                    raise _Abandoned(job["run"])
                time.sleep(_POLL)
        finally:
            child.kill()
    return record


# ------------------------------------------------------------------ on this side


def run_on_cluster(
    jobs: Sequence[Mapping[str, Any]],
    store: Store,
    address: str,
    *,
    retry_failed: bool = False,
    show: Callable[[Progress], None] | None = None,
    worker: str = WORKER,
) -> Progress:
    """Do jobs on a Dask cluster.

    Parameters
    ----------
    jobs : sequence of mapping
        As from ``Plan.jobs()``.
    store : Store
        Where the finished runs go.
    address : str
        Of the scheduler, such as "tcp://10.0.0.1:8786".
    retry_failed, show, worker
        As in `run_jobs`.

    Returns
    -------
    Progress
        How it ended. An interrupt ends what is under way and is raised again.
    """
    with terminable():
        client = connected(address)
        try:
            agenda = Agenda(jobs, store, retry_failed, show)
            return _Sender(client, address, agenda, worker).run()
        finally:
            with suppress(Exception):  # a cluster that is gone cannot be left in good order
                client.close(timeout=2)


@contextmanager
def fits_on_cluster(address: str, folder: Path | None = None) -> Iterator[None]:
    """Give a context in which a fit, and joblib with its resamples, works on a Dask cluster.

    Parameters
    ----------
    address : str
        Of the scheduler, such as "tcp://10.0.0.1:8786".
    folder : Path, optional
        Where the rows of a fit are written for the workers, as in `on_dask`.
    """
    import joblib

    client = connected(address)
    try:
        with on_dask(client, folder=folder), joblib.parallel_config("dask", client=client):
            yield
    finally:
        with suppress(Exception):
            client.close(timeout=2)


class _Sender:
    """Sends jobs as the workers have room, and brings back records."""

    def __init__(self, client: Any, address: str, agenda: Agenda, worker: str) -> None:
        self._client, self._address, self._agenda = client, address, agenda
        self._worker = worker
        self._sent: dict[str, _Sent] = {}
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._name, self._count = secrets.token_hex(4), 0
        self._resources: list[Mapping[str, float]] = []  # of each worker
        self._suspects: list[Mapping[str, Any]] = []
        self._next_ask, self._last_answer = 0.0, time.monotonic()

    @property
    def _cores(self) -> float:
        return sum(each["cores"] for each in self._resources)

    def run(self) -> Progress:
        try:
            while True:
                self._ask()
                # As many as there are cores for, and a few.
                while self._threads() < self._cores + _AHEAD:
                    job = self._agenda.take(self._fits)
                    if job is None:
                        break
                    self._send(job)
                if not self._sent:
                    if self._suspects:
                        self._send(self._suspects.pop(), alone=True)
                    elif self._agenda.empty:
                        return self._agenda.progress
                    elif self._resources:
                        raise self._too_small()
                self._receive()
                self._agenda.tick(self._running(), self._cores)
        finally:
            try:  # which may take long, and may be torn: a client that is gone cancels all it has
                with suppress(Exception):
                    self._client.cancel([sent.future for sent in self._sent.values()])
            finally:
                with undisturbed():
                    self._agenda.close()

    # -------------------------------------------------------------- the workers

    def _ask(self) -> None:
        """Learn what the workers have now, or say what is wrong with the cluster."""
        if time.monotonic() < self._next_ask:
            return
        self._next_ask = time.monotonic() + _ASK
        told = workers_of(self._client)
        moment = time.monotonic()
        if told is None:  # it is not connected, and tries to be again
            if moment - self._last_answer > _LOST or self._client.status == "closed":
                raise BigdagError(
                    f"The Dask scheduler at {self._address} is gone. Every finished run is kept; "
                    "the same command again, with an address that answers, does what is missing."
                )
            return
        self._last_answer, found = moment, told.values()
        self._resources = [
            each["resources"] for each in found if {"cores", "memory"} <= each["resources"].keys()
        ]
        if found and not self._resources:
            raise BigdagError(
                f"The workers at {self._address} do not say what they have. Start them with their "
                "cores and bytes of memory, as in: dask worker ADDRESS --resources "
                "'cores=4,memory=17179869184'"
            )

    def _threads(self) -> float:
        return sum(_wanted_by(sent.job)["cores"] for sent in self._sent.values())

    def _fits(self, job: Mapping[str, Any]) -> bool:
        """Tell whether a worker is large enough; as long as there is none, one may come."""
        wanted = _wanted_by(job)
        return not self._resources or any(
            all(each[name] >= amount for name, amount in wanted.items()) for each in self._resources
        )

    def _too_small(self) -> BigdagError:
        most = {
            name: max(each.get(name, 0) for each in self._resources) for name in ("cores", "memory")
        }
        return BigdagError(
            f"No worker at {self._address} is large enough for the runs that are left: the largest "
            f"have {most['cores']:g} cores and {format_bytes(most['memory'])}. Start larger ones, "
            "or lower the limits in the plan. Every finished run is kept."
        )

    # -------------------------------------------------------------- the runs

    def _send(self, job: Mapping[str, Any], alone: bool = False) -> None:
        self._count += 1
        key = f"bigdag-{job['run']}-{self._name}-{self._count}"
        future = self._client.submit(
            _perform,
            {**job, **self._agenda.places},
            self._worker,
            key,
            key=key,
            pure=False,
            resources=_wanted_by(job),
        )
        self._sent[key] = _Sent(job, future, alone, time.monotonic())
        future.add_done_callback(lambda done: self._ended.put(done.key))

    def _receive(self) -> None:
        """Bring back what has ended, after waiting a moment for it."""
        refusal: BigdagError | None = None  # said once all that has finished is kept
        with suppress(queue.Empty):
            key = self._ended.get(timeout=_WAIT)
            while True:
                sent = self._sent.get(key)
                if sent is not None:
                    del self._sent[key]
                    try:
                        self._bring_back(sent)
                    except BigdagError as error:
                        refusal = refusal or error
                key = self._ended.get_nowait()
        if refusal is not None:
            raise refusal

    def _bring_back(self, sent: _Sent) -> None:
        from distributed import KilledWorker

        future = sent.future
        error = future.exception() if future.status == "error" else None
        if future.status == "finished":
            self._agenda.finish(sent.job, future.result())
        elif error is None or isinstance(error, _Abandoned):  # the scheduler has forgotten it
            self._send(sent.job)
        elif isinstance(error, KilledWorker) and not sent.alone:
            # Dask suspects every run that was near when workers were lost. Tried again at the end,
            # one at a time, the guilty are told from the innocent.
            self._suspects.append(sent.job)
        elif isinstance(error, KilledWorker):
            message = "its worker was lost each time, as when a machine lacks memory"
            self._agenda.finish(sent.job, {"status": "crashed", "message": message})
        elif isinstance(error, BigdagError):
            raise BigdagError(f"A worker at {self._address} says: {error}")
        else:
            message = f"{type(error).__name__}: {error}"[:500]
            self._agenda.finish(sent.job, {"status": "error", "message": message})

    def _running(self) -> list[Running]:
        """Return what the workers have room for, the oldest first; the rest still waits."""
        moment, room, running = time.monotonic(), self._cores, []
        for sent in self._sent.values():
            room -= _wanted_by(sent.job)["cores"]
            if room < 0:
                sent.began = moment
            else:
                running.append(Running(sent.job, moment - sent.began))
        return running


@dataclass
class _Sent:
    job: Mapping[str, Any]
    future: Any
    alone: bool
    began: float


def _wanted_by(job: Mapping[str, Any]) -> dict[str, float]:
    """Return the resources that a run takes of its worker."""
    return {"cores": job.get("threads") or 1, "memory": job.get("memory_limit") or 0}
