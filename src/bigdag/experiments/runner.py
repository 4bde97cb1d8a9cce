"""Runs on this machine: as many at once as it holds, each finished one a row of the store.

Whatever ends the runner, the runs under way end with it and are done again by the same command.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bigdag.errors import BigdagError, missing_extra
from bigdag.experiments.child import WORKER, Child
from bigdag.experiments.store import FAILED, Store, now

if TYPE_CHECKING:
    from bigdag.experiments.plan import Plan

__all__ = [
    "Agenda",
    "Progress",
    "Running",
    "installed",
    "run_jobs",
    "run_plan",
    "terminable",
]

_LOOK = 0.02  # seconds between looks whether a run has ended
_BEAT = 10.0  # ... between signs of life to the store
_SHOW = 0.25  # ... between calls of `show`
_ASK_AGAIN = 5.0  # ... until asking again for runs that another runner has

# ------------------------------------------------------------------ what is to be done


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
    """

    def __init__(
        self,
        jobs: Sequence[Mapping[str, Any]],
        store: Store,
        retry_failed: bool = False,
        show: Callable[[Progress], None] | None = None,
    ) -> None:
        self._store, self._show = store, show
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
        self._shares: dict[str, list[float]] = {}  # of the time limit, by method
        self._next_ask = self._next_beat = self._next_show = 0.0
        self.progress = Progress(len(by_run), len(ended), sum(status in FAILED for status in ended))

    def take(self, fits: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any] | None:
        """Return the first job that fits and is now ours, or None."""
        if self._elsewhere and time.monotonic() >= self._next_ask:
            self._next_ask = time.monotonic() + _ASK_AGAIN
            self._pending, self._elsewhere = self._elsewhere + self._pending, []
        place = 0
        while place < len(self._pending):
            if not fits(self._pending[place]):
                place += 1
                continue
            job = self._pending.pop(place)
            if self._store.claim(job["run"], self._retry_before):
                return job
            self._not_ours(job)
        return None

    def _not_ours(self, job: Mapping[str, Any]) -> None:
        status = self._store.statuses().get(job["run"])
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
        self._store.finish(job, record)
        self.progress.done += 1
        self.progress.new += 1
        self.progress.failed += record["status"] in FAILED
        self.progress.finished.append((job, record))
        if record.get("wall_seconds") and job.get("time_limit"):
            share = record["wall_seconds"] / job["time_limit"]
            self._shares.setdefault(job["method"]["name"], []).append(share)

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
        left = sum(self._core_seconds(job) for job in self._pending)
        left += sum(self._core_seconds(run.job, run.seconds) for run in running)
        self.progress.seconds_left = left / max(cores, 1)
        self.progress.running = list(running)
        self.progress.elsewhere = len(self._elsewhere)
        if self._show is not None:
            self._show(self.progress)
        self.progress.finished = []

    def _core_seconds(self, job: Mapping[str, Any], used: float = 0.0) -> float:
        shares = self._shares.get(job["method"]["name"], [1.0])
        share = sum(shares) / len(shares)
        return max(share * job.get("time_limit", 0.0) - used, 0.0) * (job.get("threads") or 1)

    def close(self) -> None:
        """Show the end, and give back what was not finished."""
        self._report([], 1.0)
        with suppress(BigdagError):  # where the disk is full, the claims die with this process
            self._store.release()


# ------------------------------------------------------------------ all runs, on this machine


def run_plan(
    plan: Plan | Sequence[Plan],
    store: Store | str | os.PathLike[str],
    *,
    dask: str | None = None,
    cores: int | None = None,
    retry_failed: bool = False,
    skip_missing: bool = False,
    show: Callable[[Progress], None] | None = None,
) -> Progress:
    """Do the runs of a plan that a store does not hold yet.

    Parameters
    ----------
    plan : Plan or sequence of Plan
        From `load_plan`.
    store : Store, str or path
        The store, or its file.
    dask : str or None
        The address of a Dask scheduler; None runs on this machine.
    cores : int or None
        How many cores of this machine to use; None is all.
    retry_failed : bool, default=False
        Whether to do runs again that failed before.
    skip_missing : bool, default=False
        Whether to leave out methods whose packages are not installed, instead of refusing.
    show : callable or None
        Called with the `Progress` a few times a second.

    Returns
    -------
    Progress
        How it ended. An interrupt ends what is under way and is raised again.

    Examples
    --------
    >>> import tempfile
    >>> from bigdag.experiments import load_plan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan = Path(folder, "mine.toml")
    ...     _ = plan.write_text('''
    ...         limits = {time_limit = 5, memory_limit = "2 GB"}
    ...         data = [{d = 10, n = 50}]
    ...         method = [{method = "empty"}]''')
    ...     progress = run_plan(load_plan(plan), f"{folder}/runs.db")
    >>> progress.done, progress.failed
    (1, 0)
    """
    if not isinstance(store, Store):
        with Store(store) as opened:
            return run_plan(
                plan, opened, dask=dask, cores=cores, retry_failed=retry_failed,
                skip_missing=skip_missing, show=show,
            )  # fmt: skip
    plans = plan if isinstance(plan, Sequence) else [plan]
    jobs = installed([job for each in plans for job in each.jobs()], skip_missing)
    if dask is not None:
        from bigdag.experiments.cluster import run_on_cluster

        return run_on_cluster(jobs, store, dask, retry_failed=retry_failed, show=show)
    return run_jobs(jobs, store, cores=cores, retry_failed=retry_failed, show=show)


def installed(
    jobs: Sequence[Mapping[str, Any]], skip_missing: bool = False
) -> list[Mapping[str, Any]]:
    """Return the jobs whose methods are installed; unless asked to skip, refuse the others."""
    from bigdag.methods import METHODS

    rows = {word: METHODS[word] for word in {job["method"]["word"] for job in jobs}}
    missing = sorted(word for word, method in rows.items() if not method.installed)
    if missing and not skip_missing:
        extra = str(rows[missing[0]].extra)
        names = ", ".join(word for word in missing if rows[word].extra == extra)
        raise missing_extra(extra, extra, f"Of the plan's methods, {names}")
    return [job for job in jobs if job["method"]["word"] not in missing]


def run_jobs(
    jobs: Sequence[Mapping[str, Any]],
    store: Store,
    *,
    cores: int | None = None,
    retry_failed: bool = False,
    show: Callable[[Progress], None] | None = None,
    worker: str = WORKER,
) -> Progress:
    """Do jobs on this machine, as many at once as its cores and its memory hold.

    Parameters
    ----------
    jobs : sequence of mapping
        As from ``Plan.jobs()``.
    store : Store
        Where the finished runs go.
    cores, retry_failed, show
        As in `run_plan`.
    worker : str
        What does a run; see `Child`.

    Returns
    -------
    Progress
        How it ended. An interrupt ends what is under way and is raised again.
    """
    cores = cores or _cores()
    memory = _memory()
    agenda = Agenda(jobs, store, retry_failed, show)
    work, data = store.beside("work"), store.beside("datasets")
    places = {"data": str(data), "snapshots": str(store.beside("snapshots"))}
    children: list[Child] = []

    def fits(job: Mapping[str, Any]) -> bool:
        """Tell whether there is room; what needs more than there is runs alone."""
        if not children:
            return True
        under_way = [child.job for child in children]
        key = job["dataset"].get("key")
        if key and not (data / key).exists():  # its first run makes it, the others wait
            making = {other["dataset"].get("key") for other in under_way}
            if key in making:
                return False
        threads = sum(other.get("threads") or 1 for other in [*under_way, job])
        bytes_ = sum(other.get("memory_limit") or 0 for other in [*under_way, job])
        return threads <= cores and bytes_ <= memory

    with terminable():
        try:
            while True:
                while (job := agenda.take(fits)) is not None:
                    for left in work.glob(f"{job['run']}-*"):  # by a runner that was killed
                        shutil.rmtree(left, ignore_errors=True)
                    folder = work / f"{job['run']}-{secrets.token_hex(4)}"
                    children.append(Child({**job, **places}, folder, worker))
                if not children and agenda.empty:
                    return agenda.progress
                time.sleep(_LOOK)
                for child in list(children):
                    record = child.poll()
                    if record is not None:
                        children.remove(child)
                        agenda.finish(_plain(child.job, places), record)
                agenda.tick([Running(child.job, child.seconds) for child in children], cores)
        finally:
            for child in children:
                child.kill()
            agenda.close()
            with suppress(OSError):
                work.rmdir()


def _plain(job: Mapping[str, Any], places: Mapping[str, str]) -> dict[str, Any]:
    """Return the job as planned: where its files lie on this machine is no part of it."""
    return {name: value for name, value in job.items() if name not in places}


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> int:
    """Return the bytes of memory of this machine, or of the container."""
    import psutil

    total = int(psutil.virtual_memory().total)
    with suppress(OSError, ValueError):
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return total


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end the runs as cleanly as Ctrl-C does."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
