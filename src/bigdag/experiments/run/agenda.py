"""What one command has to do: runs are taken from the store, and brought back finished.

Both runners, of this machine and of a cluster, keep their books here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bigdag.errors import BigdagError
from bigdag.experiments.store import FAILED, Store, now

__all__ = ["Agenda", "Progress", "Running"]

_BEAT = 10.0  # seconds between signs of life to the store
_SHOW = 0.25  # seconds between calls of `show`
_ASK_AGAIN = 5.0  # seconds until asking again for runs that another runner has


@dataclass(frozen=True)
class Running:
    """A run under way: its job, and since how many seconds."""

    job: Mapping[str, Any]
    seconds: float


@dataclass
class Progress:
    """How far the runs of one command are.

    Attributes
    ----------
    total, done, failed, elsewhere : int
        Runs asked for; finished, now or before; failed among those; held by another runner.
    running : list of Running
        What is under way here.
    seconds_left : float or None
        A guess, from how much of their time limit the runs of each method took so far.
    finished : list of (job, record)
        What has finished since the last look.
    new : int
        How many were finished by this command.
    """

    total: int
    done: int = 0
    failed: int = 0
    elsewhere: int = 0
    running: list[Running] = field(default_factory=list)
    seconds_left: float | None = None
    finished: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=list)
    new: int = 0


class Agenda:
    """What one command has to do: it takes runs from the store and brings them back finished.

    Parameters
    ----------
    jobs : sequence of mapping
        All runs asked for, in the order to do them.
    store : Store
        Where they go.
    retry_failed : bool
        Whether runs that failed before this command are done again, once.
    show : callable or None
        Called with the `Progress` a few times a second.

    Attributes
    ----------
    places : dict
        Where data sets and snapshots lie on this machine: a run is told, but it is no part of the
        job.
    progress : Progress
        How far it is.
    """

    def __init__(
        self,
        jobs: Sequence[Mapping[str, Any]],
        store: Store,
        retry_failed: bool = False,
        show: Callable[[Progress], None] | None = None,
    ) -> None:
        self._store, self._show = store, show
        self.places = {
            "data": str(store.beside("datasets")), "snapshots": str(store.beside("snapshots")),
        }  # fmt: skip
        self._retry_before = now() if retry_failed else None
        by_run = {job["run"]: job for job in jobs}
        store.plan(by_run.values())
        done = store.statuses()
        self._pending = [
            job
            for run, job in by_run.items()
            if run not in done or (retry_failed and done[run] in FAILED)
        ]
        waiting = {job["run"] for job in self._pending}
        ended = [done[run] for run in by_run if run not in waiting]
        self._elsewhere: list[Mapping[str, Any]] = []
        self._shares: dict[str, tuple[float, int]] = {}  # of time limits, by method: sum, count
        self._work: dict[str, float] | None = None  # core-seconds pending, by method
        self._next_ask = self._next_beat = self._next_show = 0.0
        self.progress = Progress(len(by_run), len(ended), sum(status in FAILED for status in ended))

    def take(self, fits: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any] | None:
        """Return the first job that fits and is now ours, or None."""
        if self._elsewhere and time.monotonic() >= self._next_ask:
            self._next_ask = time.monotonic() + _ASK_AGAIN
            self._pending, self._elsewhere = self._elsewhere + self._pending, []
            self._work = None
        place = 0
        while place < len(self._pending):
            if not fits(self._pending[place]):
                place += 1
                continue
            job, self._work = self._pending.pop(place), None
            if self._store.claim(job["run"], self._retry_before):
                return job
            self._not_ours(job)
        return None

    def _not_ours(self, job: Mapping[str, Any]) -> None:
        status = self._store.status(job["run"])
        if status is None:
            self._next_ask = self._next_ask or time.monotonic() + _ASK_AGAIN
            self._elsewhere.append(job)
        else:
            self.progress.done += 1
            self.progress.failed += status in FAILED

    @property
    def empty(self) -> bool:
        """Whether nothing is left that is not under way, here or elsewhere."""
        return not self._pending

    def finish(self, job: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        """Bring back a finished run."""
        job = {name: value for name, value in job.items() if name not in self.places}
        self._store.finish(job, record)
        self.progress.done += 1
        self.progress.new += 1
        self.progress.failed += record["status"] in FAILED
        self.progress.finished.append((job, record))
        if record.get("wall_seconds") and job.get("time_limit"):
            total, count = self._shares.get(job["method"]["name"], (0.0, 0))
            share = record["wall_seconds"] / job["time_limit"]
            self._shares[job["method"]["name"]] = (total + share, count + 1)

    def tick(self, running: Sequence[Running], cores: float) -> None:
        """Say to the store that we live, and to the user how far it is."""
        moment = time.monotonic()
        if moment >= self._next_beat:
            self._next_beat = moment + _BEAT
            self._store.heartbeat()
        if self._show is not None and moment >= self._next_show:
            self._next_show = moment + _SHOW
            self._report(running, cores)

    def _report(self, running: Sequence[Running], cores: float) -> None:
        if self._work is None:
            self._work = {}
            for job in self._pending:
                name = job["method"]["name"]
                self._work[name] = self._work.get(name, 0.0) + _core_seconds(job)
        left = sum(self._share(name) * work for name, work in self._work.items())
        for run in running:
            expected = self._share(run.job["method"]["name"]) * _core_seconds(run.job)
            left += max(expected - run.seconds * (run.job.get("threads") or 1), 0.0)
        self.progress.seconds_left = left / max(cores, 1)
        self.progress.running = list(running)
        self.progress.elsewhere = len(self._elsewhere)
        if self._show is not None:
            try:
                self._show(self.progress)
            except OSError:  # its terminal is gone; the runs go on
                self._show = None
        self.progress.finished = []

    def _share(self, method: str) -> float:
        """Return how much of their time limit the runs of a method take; all, until known."""
        total, count = self._shares.get(method, (1.0, 1))
        return total / count

    def close(self) -> None:
        """Give back what was not finished, and show the end."""
        with suppress(BigdagError):  # where the disk is full, the claims die with this process
            self._store.release()
        self._report([], 1.0)


def _core_seconds(job: Mapping[str, Any]) -> float:
    return float(job.get("time_limit") or 0.0) * (job.get("threads") or 1)
