"""Jobs for the stand-in `fake_worker.py`, and what to ask of the processes they were."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

WORKER = str(Path(__file__).parent / "fake_worker.py")


def make_job(number, do="well", threads=1, memory=2**30, time_limit=5.0, key=None, **parameters):
    return {
        "run": f"{number:016x}", "experiment": "fake", "preset": "smoke",
        "dataset": {"name": "none", "d": 10, "n": 10, "units": "raw", "seed": 0, "key": key},
        "method": {"name": do, "word": "fake", "parameters": {"do": do, **parameters}},
        "thresholds": [], "threads": threads, "memory_limit": memory, "time_limit": time_limit,
        "snapshot_every": None, "seed": number,
    }  # fmt: skip


def diary(path):
    """Return (word, run, pid) of each line the fake runs wrote."""
    if not Path(path).exists():
        return []
    return [tuple(line.split()) for line in Path(path).read_text().splitlines()]


def gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until(what, seconds=100.0):
    """Wait for a condition; how long it takes is no matter of a test, but it must not hang."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@contextmanager
def started(words, sigint=signal.SIG_DFL, sighup=signal.SIG_DFL, **options):
    """Start a program in a session of its own; when the block ends, all of its group is ended.

    Whether it ignores SIGINT at first is up to the test, and not to how the tests were started: a
    shell lets what it starts in the background ignore it.
    """

    def dispositions():
        signal.signal(signal.SIGINT, sigint)
        signal.signal(signal.SIGHUP, sighup)

    process = subprocess.Popen(words, start_new_session=True, preexec_fn=dispositions, **options)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
