"""Draw the report of this folder again from the numbers that are kept, without running anything.

    python docs/results/rebuild.py

``runs.parquet`` has every score of every run, and ``report/data/jobs.jsonl`` every job. The store
they came from is not kept, and with it went two things of which only means over the repetitions are
left, in ``report/data``: the objective over time, and the seconds a step in each phase.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bigdag.experiments.report.folder import PAGE, earlier_files, put
from bigdag.experiments.report.results import Results
from bigdag.experiments.report.write import Report

HERE = Path(__file__).parent
DATA = HERE / "report" / "data"
SCORE = ["snapshot", "weights", "directed", "threshold", "metric", "value"]


@dataclass(frozen=True)
class KeptResults(Results):
    """Results whose curves of the objective were averaged before."""

    kept: pd.DataFrame

    def objective(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return the curves that are kept."""
        del runs
        return self.kept


def _phases(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs with the mean seconds a step of their method and size."""
    table = pd.read_csv(DATA / "table3_memory_and_time.csv")
    phases = [name for name in table if name.startswith("step, ")]
    means = table.set_index(["experiment", "n", "d", "method"])
    seconds, steps = [], []
    for run in runs.itertuples():
        key = (run.experiment, run.n, run.d, run.method)
        row = means.loc[key] if key in means.index else None
        mine = {} if row is None else {
            name.removeprefix("step, "): float(row[name]) for name in phases if row[name] >= 0
        }  # fmt: skip
        # The phase that Table 3 reports is the one with the most steps.
        main = {name: int(np.isclose(value, row["step"])) + 1 for name, value in mine.items()}
        seconds.append(json.dumps(mine) if mine else None)
        steps.append(json.dumps(main) if mine else None)
    return runs.assign(phase_seconds=seconds, phase_steps=steps)


def main() -> None:
    """Write the report."""
    table = pd.read_parquet(HERE / "runs.parquet").rename(columns={"scale": "variance"})
    jobs = {}
    for line in (DATA / "jobs.jsonl").read_text().splitlines():
        jobs[json.loads(line)["run"]] = line
    runs = table.drop(columns=SCORE).drop_duplicates("run").reset_index(drop=True)
    runs = runs.astype({"versions": str, "machine": str})
    runs = _phases(runs.assign(job=runs["run"].map(jobs)))
    results = Results.of(runs, table[["run", *SCORE]])
    curves = pd.read_csv(DATA / "objective_over_time.csv", dtype={"preset": str})
    if "end" not in curves:  # the last point of a curve is the DAG
        by = ["n", "d", "units", "method"]
        last = curves.groupby(by, sort=False)["seconds"].transform("max")
        curves["end"] = curves["seconds"] == last
    kept = KeptResults(results.runs, results.scores, results.methods, results._sorted(curves))
    out = HERE / "report"
    report = Report(kept, Path("runs.db"), out)
    print(put(report.files | {PAGE: report.text().encode()}, out, earlier_files(out, False)))


if __name__ == "__main__":
    main()
