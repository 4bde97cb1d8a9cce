"""One run in a process: ``python -m bigdag.experiments.run.worker JOB.json RESULT.json``.

The job is a run of a plan (`Plan.jobs`) with two entries more: ``data``, the folder of the data
sets, where this one is made if it is missing, and ``snapshots``, the folder that gets the snapshots
as NPZ named by run; it may be left out where none are asked for. The result is written whole.

The clock counts the learner only: importing, compiling, reading the data and scoring do not count.
An exception becomes a record with the status "error", or "out_of_memory" where the learner refused
to start or could not get memory. A process that dies leaves no result; its parent says why.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Nothing here imports numpy before the number of threads is set.
if TYPE_CHECKING:
    from scipy.sparse import csc_array

    from bigdag import DAG
    from bigdag.experiments.run.datasets import Prepared
    from bigdag.learners.base import Learner
    from bigdag.learners.run import State

__all__ = ["THREAD_VARIABLES", "main", "run_job"]

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
)  # fmt: skip
_STRONG = 0.3  # arcs above it count for the sortability of what was found


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    """Do a run in this process.

    Parameters
    ----------
    job : dict
        A run of a plan, with ``data`` and, for snapshots, ``snapshots``.

    Returns
    -------
    dict
        The record, ready for JSON.

    Examples
    --------
    >>> import tempfile
    >>> from bigdag.experiments import load_plan
    >>> job = load_plan("exp1", "smoke").jobs()[0]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     record = run_job({**job, "data": folder})
    >>> record["status"], record["run"] == job["run"]
    ('converged', True)
    """
    record: dict[str, Any] = {
        "run": job["run"], "status": "error", "message": "", "seconds": None, "iterations": None,
        "phase_seconds": {}, "phase_steps": {}, "peak_bytes": None, "threads": job["threads"],
        "versions": {}, "machine": {}, "objective": None, "n_arcs": None, "curve": [],
        "sortability": {}, "scores": [],
    }  # fmt: skip
    try:
        _run(job, record)
    except Exception as error:
        record["status"] = "out_of_memory" if isinstance(error, MemoryError) else "error"
        first_line = str(error).partition("\n")[0]
        record["message"] = f"{type(error).__name__}: {first_line}"[:500]
    return record


def _run(job: dict[str, Any], record: dict[str, Any]) -> None:
    """Fill the record, in steps: what is measured stands also where the scoring fails."""
    from bigdag.experiments.run import datasets, measure
    from bigdag.learners.methods import find_method

    record["versions"], record["machine"] = measure.versions(), measure.machine()
    data = datasets.load(datasets.prepare(job["dataset"], job["data"]))
    method = find_method(job["method"]["word"])
    parameters = {
        **job["method"]["parameters"], "random_state": job["seed"], "n_jobs": job["threads"],
    }  # fmt: skip
    _compile(method.build(**parameters), data, dense=method.needs(parameters) == "torch")
    snapshots = _Snapshots(job)
    learner = method.build(
        **parameters,
        time_limit=job["time_limit"],
        callback=snapshots.note if job["snapshot_every"] else None,
        memory_limit=job["memory_limit"],
    )
    _forget_peak()
    began = time.perf_counter()
    learner.fit(data.train)
    record["seconds"] = time.perf_counter() - began
    peak, record["machine"]["peak_is"] = _peak()
    record["phase_seconds"], record["phase_steps"] = measure.pace(learner.history_)
    record |= {
        "peak_bytes": peak,
        "iterations": learner.n_iter_,
        "objective": learner.objective_,
        "n_arcs": learner.dag_.n_arcs,
        "curve": measure.objective_curve(learner.history_),
    }
    record["sortability"] = _sortability(learner.dag_, data)
    record["scores"] = _scores(job, learner, data, snapshots)
    record["status"] = learner.status_


def _compile(learner: Learner, data: Prepared, dense: bool) -> None:
    """Fit a table so small that only importing and compiling take time."""
    import numpy as np

    n, d = (8, 12) if data.train.n_samples < data.train.n_features else (30, 12)
    learner.set_params(max_iter=3 if dense else 50)
    if "candidates" in learner.get_params() and data.train.n_features > 5000:
        learner.set_params(candidates="correlated")  # what "auto" becomes with so many variables
    X = np.random.default_rng(0).normal(size=(n, d))
    X[:, 1:] += X[:, :-1]
    learner.fit(X)


# ------------------------------------------------------------------ snapshots


class _Snapshots:
    """Keeps the weights on disk at the first step after each mark of the clock."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.every, self.limit = job["snapshot_every"], job["time_limit"]
        self.run, self.folder = job["run"], Path(job.get("snapshots") or ".")
        self.marks: list[float] = []
        if self.every:
            self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, mark: float) -> Path:
        return self.folder / f"{self.run}-{mark:g}.npz"

    def note(self, state: State) -> None:
        """Write the present weights, and the best acyclic ones, if a mark has passed."""
        import numpy as np

        from bigdag.writing import whole_file

        mark = state.seconds // self.every * self.every
        if mark <= 0 or mark >= self.limit or (self.marks and mark <= self.marks[-1]):
            return
        parts = {}
        for name, weights in (("raw", state.weights()), ("best", state.best())):
            for part in ("data", "indices", "indptr"):
                parts[f"{name}_{part}"] = getattr(weights, part)
        with whole_file(self.path(mark), force=True) as file:
            np.savez(file, seconds=state.seconds, **parts)
        self.marks.append(mark)

    def load(self, mark: float) -> tuple[csc_array, csc_array]:
        """Return the weights of a mark and the best acyclic ones."""
        import numpy as np
        from scipy.sparse import csc_array

        with np.load(self.path(mark)) as file:
            d = len(file["raw_indptr"]) - 1
            raw, best = (
                csc_array(
                    tuple(file[f"{name}_{part}"] for part in ("data", "indices", "indptr")),
                    shape=(d, d),
                )
                for name in ("raw", "best")
            )
        return raw, best

    def left(self) -> list[float]:
        """Return the marks after the last snapshot: the answer stands there."""
        last = self.marks[-1] if self.marks else 0.0
        count = int(self.limit // self.every)
        return [i * self.every for i in range(1, count + 1) if i * self.every > last]


# ------------------------------------------------------------------ scores


def _scores(
    job: dict[str, Any], learner: Learner, data: Prepared, snapshots: _Snapshots
) -> list[dict[str, Any]]:
    """Score the answer, then the snapshots.

    A fit that ends early has its answer from then on: the average precision of the marks after the
    last snapshot is that of the answer.
    """
    from bigdag import DAG
    from bigdag.experiments.run.measure import arc_scores, dag_scores
    from bigdag.graph.acyclic import acyclic_threshold

    thresholds = job["thresholds"]
    at_end: dict[str, Any] = {"snapshot": None, "weights": "dag"}
    scores = dag_scores(learner.dag_, data, thresholds, **at_end)
    if data.truth is None:
        return scores
    answer = arc_scores(learner.dag_, data.truth, thresholds, **at_end)
    has_raw = hasattr(learner, "raw_weights_")
    if has_raw:
        raw = learner.raw_weights_
        answer += arc_scores(raw, data.truth, thresholds, snapshot=None, weights="raw")
    scores += answer
    if not job["snapshot_every"]:
        return scores
    named = data.train.names if data.train.named else None
    for mark in snapshots.marks:
        present, best = snapshots.load(mark)
        if has_raw:
            scores += arc_scores(present, data.truth, thresholds, snapshot=mark, weights="raw")
            # These methods make their answer acyclic only when they end, in this way.
            best = acyclic_threshold(present)[1]
        dag = DAG(best, names=named)
        scores += arc_scores(dag, data.truth, thresholds, snapshot=mark, weights="dag")
    standing = [score for score in answer if score["metric"] == "average_precision"]
    scores += [{**score, "snapshot": mark} for mark in snapshots.left() for score in standing]
    return scores


def _sortability(dag: DAG, data: Prepared) -> dict[str, float | None]:
    """Return how far variances and R² give the order away, and variances the order found."""
    import math

    from bigdag import metrics

    found = metrics.var_sortability(data.train, dag.threshold(_STRONG))
    return {
        "var": data.card["var_sortability"],
        "r2": data.card["r2_sortability"],
        "var_found": found if math.isfinite(found) else None,
    }


# ------------------------------------------------------------------ memory


def _peak() -> tuple[int, str]:
    """Return the most resident memory of this process, in bytes, and what it was read from.

    ``ru_maxrss`` counts a parent that was larger when it started this process; Linux has a better
    number, and one that can be reset.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("VmHWM"):
                    return int(line.split()[1]) * 1024, "VmHWM: resident memory, the fit's peak"
    except (OSError, ValueError):
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return peak, "ru_maxrss: resident memory, the process' peak"


def _forget_peak() -> None:
    """Let the peak begin anew, where the system can."""
    with suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


# ------------------------------------------------------------------ the process


def main(arguments: list[str] | None = None) -> int:
    """Read a job, do it and write its record.

    Parameters
    ----------
    arguments : list of str, optional
        The paths of the job and of the result; by default those of the command line.

    Returns
    -------
    int
        0, also where the record says "error".

    Examples
    --------
    >>> main([])
    2
    """
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 2:
        sys.stderr.write("Usage: python -m bigdag.experiments.run.worker JOB.json RESULT.json\n")
        return 2
    job = json.loads(Path(given[0]).read_text(encoding="utf-8"))
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, str(job["threads"]))
    record = run_job(job)
    from bigdag.writing import whole_file

    with whole_file(given[1], force=True) as file:
        file.write(json.dumps(record, allow_nan=False).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
