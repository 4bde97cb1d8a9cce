"""Runs on this machine: as many at once as it holds, each finished one a row of the store.

Whatever ends the runner, the runs under way end with it and are done again by the same command.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from bigdag.errors import missing_extra
from bigdag.experiments.run.agenda import Agenda, Progress, Running
from bigdag.experiments.run.child import WORKER, Child
from bigdag.experiments.store import Store, load_psutil
from bigdag.interrupts import terminable, undisturbed
from bigdag.resources import container_limit, n_threads

if TYPE_CHECKING:
    from pathlib import Path

    from bigdag.experiments.plan.expand import Plan

__all__ = ["installed", "memory_here", "run_jobs", "run_plan"]

_LOOK = 0.02  # seconds between looks whether a run has ended
_SCAN = 0.5  # ... between looks for a job that fits while no run ends; plans are long


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
    >>> from pathlib import Path
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
        from bigdag.experiments.run.cluster import run_on_cluster

        return run_on_cluster(jobs, store, dask, retry_failed=retry_failed, show=show)
    return run_jobs(jobs, store, cores=cores, retry_failed=retry_failed, show=show)


def installed(
    jobs: Sequence[Mapping[str, Any]], skip_missing: bool = False
) -> list[Mapping[str, Any]]:
    """Return the jobs whose methods are installed; unless asked to skip, refuse the others."""
    from bigdag.experiments.plan.file import absent_extra

    known: dict[Any, str | None] = {}  # plans are long, and have few methods

    def needed(job: Mapping[str, Any]) -> str | None:
        word, parameters = job["method"]["word"], job["method"].get("parameters") or {}
        key = word, parameters.get("engine")
        if key not in known:
            known[key] = absent_extra(word, parameters)
        return known[key]

    left = [job for job in jobs if not needed(job)]
    missing = {job["method"]["word"]: needed(job) for job in jobs if needed(job)}
    if missing and not (skip_missing and left):
        extra = str(missing[min(missing)])
        names = ", ".join(sorted(word for word in missing if missing[word] == extra))
        which = "Of the plan's methods," if left else "Nothing of the plan can be run:"
        raise missing_extra(extra, extra, f"{which} {names}")
    return left


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
    cores = cores or n_threads(None)
    memory = memory_here()
    agenda = Agenda(jobs, store, retry_failed, show)
    work, data = store.beside("work"), store.beside("datasets")
    children: list[Child] = []
    made: set[Path] = set()  # a signal may come while a child is started, which is then not listed

    def fits(job: Mapping[str, Any]) -> bool:
        """Tell whether there is room; what needs more than there is runs alone."""
        key = job["dataset"].get("key")
        return not children or (
            used[0] + (job.get("threads") or 1) <= cores
            and used[1] + (job.get("memory_limit") or 0) <= memory
            # The first run of a data set makes it, the others wait.
            and not (key in being_read and not (data / key).exists())
        )

    with terminable():
        try:
            next_scan = 0.0
            while True:
                while time.monotonic() >= next_scan:
                    under_way = [child.job for child in children]
                    used = (sum(job.get("threads") or 1 for job in under_way),
                            sum(job.get("memory_limit") or 0 for job in under_way))  # fmt: skip
                    being_read = {job["dataset"].get("key") for job in under_way} - {None}
                    job = agenda.take(fits) if used[0] < cores else None
                    if job is None:
                        next_scan = time.monotonic() + _SCAN
                        break
                    for left in work.glob(f"{job['run']}-*"):  # by a runner that was killed
                        shutil.rmtree(left, ignore_errors=True)
                    folder = work / f"{job['run']}-{secrets.token_hex(4)}"
                    made.add(folder)
                    children.append(Child({**job, **agenda.places}, folder, worker))
                if not children and agenda.empty:
                    return agenda.progress
                time.sleep(_LOOK)
                for child in list(children):
                    record = child.poll()
                    if record is not None:
                        children.remove(child)
                        made.discard(child.folder)
                        agenda.finish(child.job, record)
                        next_scan = 0.0
                agenda.tick([Running(child.job, child.seconds) for child in children], cores)
        finally:
            with undisturbed():
                for child in children:
                    child.kill()
                for folder in made:
                    shutil.rmtree(folder, ignore_errors=True)
                agenda.close()
                with suppress(OSError):
                    work.rmdir()


def memory_here() -> int:
    """Return the bytes of memory of this machine, or of the container."""
    total = int(load_psutil().virtual_memory().total)
    return min(total, container_limit() or total)
