"""Runs on this machine: each in a process of its own, held to its limits from outside.

A learner may crash, hang in a matrix exponential, or take all memory. So a run is a process with
its own process group, its number of threads, a limit of memory that the parent watches and a hard
limit of time; however it ends, it becomes a row of the store and the others go on. A run never
outlives its runner: whatever ends the runner, its runs end with it and are done again by the same
command.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bigdag.errors import BigdagError, missing_extra
from bigdag.experiments.store import FAILED, Store, now

if TYPE_CHECKING:
    from bigdag.experiments.plan import Plan

__all__ = [
    "Agenda",
    "Child",
    "Progress",
    "Running",
    "hard_limit",
    "run_jobs",
    "run_plan",
    "terminable",
]

WORKER = "bigdag.experiments.worker"

_LOOK = 0.02  # seconds between looks whether a run has ended
_WEIGH = 0.1  # ... between looks at its memory
_SEARCH = 2.0  # ... between searches for processes it has started
_BEAT = 10.0  # ... between signs of life to the store
_SHOW = 0.25  # ... between calls of `show`
_ASK_AGAIN = 5.0  # ... until asking again for runs that another runner has

_THREADS = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
)  # fmt: skip

# What a run's process does first: it forks, and while the child works the parent guards it. Its
# standard input is a pipe that ends when the runner does, in whatever way; the whole group then
# dies. A guard of its own, as a thread in the worker could wait for the interpreter's lock forever.
_GUARD = """
import os, select, signal, sys, time
worker, sys.argv = sys.argv[1], sys.argv[1:]
if hasattr(os, "fork"):
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ready, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    began = time.monotonic()
    child = os.fork()
    while child:
        for end in select.select([0, ready], [], [])[0]:
            if not os.read(end, 64):
                os.killpg(0, signal.SIGKILL)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            try:
                with open(sys.argv[-1] + ".lived", "w") as file:
                    file.write(repr(time.monotonic() - began))
            except OSError:
                pass
            os._exit(code if code >= 0 else 128 - code)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.close(ready), os.close(wake)
else:
    import threading
    threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
import runpy
(runpy.run_path if worker.endswith(".py") else runpy.run_module)(worker, run_name="__main__")
"""


def hard_limit(job: Mapping[str, Any]) -> float:
    """Return the seconds after which a run is killed: its learner's limit, and time around it.

    Examples
    --------
    >>> hard_limit({"time_limit": 3600})
    4380.0
    """
    return float(job.get("hard_limit") or job["time_limit"] * 1.2 + 60.0)


# ------------------------------------------------------------------ one run


class Child:
    """A run under way in its own process.

    Parameters
    ----------
    job : mapping
        What is to be done.
    folder : path
        An empty folder for what passes between the processes; it is removed at the end.
    worker : str
        The module, or the file ending in .py, that does it: called with the file of the job and
        the file of the result to write.
    """

    def __init__(self, job: Mapping[str, Any], folder: Path, worker: str = WORKER) -> None:
        import psutil

        self.job = job
        self.peak_bytes = 0
        self._folder = folder
        self._result = folder / "result.json"
        self._started, self._began = now(), time.monotonic()
        self._killed_by_kernel = _kills_for_memory()
        environment = os.environ | dict.fromkeys(_THREADS, str(job.get("threads") or 1))
        try:
            folder.mkdir(parents=True)
            (folder / "job.json").write_text(json.dumps(job))
            with open(folder / "log.txt", "wb") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _GUARD, worker, str(folder / "job.json"),
                     str(self._result)],
                    stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment,
                    start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            raise BigdagError(
                f"Cannot start a run in {folder}: {error.strerror or error}. Every finished run "
                "is kept; the same command again does what is missing."
            ) from error
        self._guard = psutil.Process(self._process.pid)
        self._family: list[Any] = []
        self._next_weighing = self._next_search = 0.0

    @property
    def seconds(self) -> float:
        """How long it has been under way."""
        return time.monotonic() - self._began

    def poll(self) -> dict[str, Any] | None:
        """Return the record of the run once it has ended or broken a limit, else None."""
        code = self._process.poll()
        record: dict[str, Any] | None = None
        if code is not None:
            record = self._read_result() or self._failure(code)
        elif self.seconds > hard_limit(self.job):
            # One that has written its result and then does not end has done its work.
            record = self._read_result() or {
                "status": "timeout",
                "message": f"killed after {hard_limit(self.job):.0f} s: it did not end by itself "
                f"at its limit of {self.job['time_limit']:g} s",
            }
        elif time.monotonic() >= self._next_weighing:
            self._next_weighing = time.monotonic() + _WEIGH
            used, limit = self._weigh(), self.job.get("memory_limit")
            self.peak_bytes = max(self.peak_bytes, used)
            if limit and used > limit:
                record = {
                    "status": "out_of_memory",
                    "message": f"killed at {_gigabytes(used)}, above its limit of "
                    f"{_gigabytes(limit)}",
                }
        if record is None:
            return None
        lived = self._lifetime()
        self.kill()
        wall = self.seconds
        return {
            "peak_bytes": self.peak_bytes or None, **record, "run": self.job["run"],
            "started": self._started, "finished": now(), "wall_seconds": wall,
            "overhead_seconds": None if lived is None else max(wall - lived, 0.0),
        }  # fmt: skip

    def kill(self) -> None:
        """End it with everything it has started, and remove its folder."""
        import psutil

        with suppress(psutil.NoSuchProcess):
            for process in self._guard.children(recursive=True):  # also who left the group
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _weigh(self) -> int:
        """Return the bytes its processes hold in memory, without its guard."""
        import psutil

        if time.monotonic() >= self._next_search:
            with suppress(psutil.NoSuchProcess):
                self._family = self._guard.children(recursive=True)
            # A worker is there within milliseconds; until then every look is a search.
            self._next_search = time.monotonic() + (_SEARCH if self._family else 0.0)
        used = 0
        for process in self._family:
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                used += process.memory_info().rss
        return used

    def _lifetime(self) -> float | None:
        """Return the seconds from the fork of the worker to its end, if it has ended by itself."""
        with suppress(OSError, ValueError):
            return float((self._folder / f"{self._result.name}.lived").read_text())
        return None

    def _read_result(self) -> dict[str, Any] | None:
        try:
            record = json.loads(self._result.read_text())
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) and record.get("status") else None

    def _failure(self, code: int) -> dict[str, Any]:
        """Return the record of a process that ended without a result."""
        number = -code if code < 0 else code - 128
        if number not in {int(name) for name in signal.Signals}:
            return {
                "status": "crashed",
                "message": f"ended with exit code {code} and without a result{self._last_words()}",
            }
        name = signal.Signals(number).name
        if name == "SIGKILL" and _kills_for_memory() > self._killed_by_kernel:
            return {
                "status": "out_of_memory",
                "message": "killed by the system, which had no memory left, at "
                f"{_gigabytes(self.peak_bytes)} of its limit of "
                f"{_gigabytes(self.job.get('memory_limit') or 0)}",
            }
        return {"status": "crashed", "message": f"died of signal {name}{self._last_words()}"}

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = (self._folder / "log.txt").read_text(errors="replace").split("\n")
            said = [line.strip() for line in lines if line.strip()]
            if said:
                return f"; its last words: {said[-1][:300]}"
        return ""


def _kills_for_memory() -> int:
    """Return how many processes Linux has killed for want of memory; 0 where it does not tell."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def _gigabytes(amount: float) -> str:
    return f"{amount / 2**30:.2f} GB"


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
    plan: Plan,
    store: Store | str | os.PathLike[str],
    *,
    dask: str | None = None,
    cores: int | None = None,
    retry_failed: bool = False,
    show: Callable[[Progress], None] | None = None,
) -> Progress:
    """Do the runs of a plan that a store does not hold yet.

    Parameters
    ----------
    plan : Plan
        From `load_plan`.
    store : Store, str or path
        The store, or its file.
    dask : str or None
        The address of a Dask scheduler; None runs on this machine.
    cores : int or None
        How many cores of this machine to use; None is all.
    retry_failed : bool, default=False
        Whether to do runs again that failed before.
    show : callable or None
        Called with the `Progress` a few times a second.

    Returns
    -------
    Progress
        How it ended.
    """
    if not isinstance(store, Store):
        with Store(store) as opened:
            return run_plan(
                plan, opened, dask=dask, cores=cores, retry_failed=retry_failed, show=show
            )
    jobs = plan.jobs()
    check_extras(jobs)
    if dask is not None:
        from bigdag.experiments.cluster import run_on_cluster

        return run_on_cluster(jobs, store, dask, retry_failed=retry_failed, show=show)
    return run_jobs(jobs, store, cores=cores, retry_failed=retry_failed, show=show)


def check_extras(jobs: Sequence[Mapping[str, Any]]) -> None:
    """Refuse jobs whose methods need packages that are not installed, before anything runs."""
    from bigdag.methods import METHODS

    missing: dict[str, set[str]] = {}
    for word in {job["method"]["word"] for job in jobs}:
        method = METHODS.get(word)
        if method is not None and not method.installed:
            missing.setdefault(str(method.extra), set()).add(word)
    for extra, words in missing.items():
        names = ", ".join(sorted(words))
        raise missing_extra(
            extra, extra, f"Of the plan's methods, {names}" if len(words) > 1 else names
        )


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
