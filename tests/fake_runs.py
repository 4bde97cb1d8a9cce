"""Jobs for the stand-in `fake_worker.py`, and what to ask of the processes they were."""

from __future__ import annotations

import time
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


def wait_until(what, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
