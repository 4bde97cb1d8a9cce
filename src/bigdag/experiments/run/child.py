"""One run in a process of its own, held to its limits from outside.

A learner may crash, hang in a matrix exponential, or take all memory. So a run is a process with
its own process group, its number of threads, a limit of memory that the parent watches and a hard
limit of time. However it ends, there is a record of it. It never outlives its parent.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bigdag.errors import BigdagError
from bigdag.experiments.store import now
from bigdag.resources import format_bytes

__all__ = ["WORKER", "Child", "hard_limit"]

WORKER = "bigdag.experiments.run.worker"

_WEIGH = 0.1  # seconds between looks at its memory
_SEARCH = 2.0  # seconds between searches for processes it has started

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
    4440.0
    """
    # Two minutes, as the very first run compiles the engine: half a minute on a busy laptop.
    return float(job.get("hard_limit") or job["time_limit"] * 1.2 + 120.0)


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
        self.folder = folder
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
                    "message": f"killed at {format_bytes(used)}, above its limit of "
                    f"{format_bytes(limit)}",
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
        shutil.rmtree(self.folder, ignore_errors=True)

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
            return float((self.folder / f"{self._result.name}.lived").read_text())
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
                f"{format_bytes(self.peak_bytes)} of its limit of "
                f"{format_bytes(self.job.get('memory_limit') or 0)}",
            }
        return {"status": "crashed", "message": f"died of signal {name}{self._last_words()}"}

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = (self.folder / "log.txt").read_text(errors="replace").split("\n")
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
