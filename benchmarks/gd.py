"""GD with its time used, beside ProxiMAS, OrderSearch and sorting by variance.

    python benchmarks/gd.py [--d 40 100] [--time-limit 30] [--seeds 5] [--processes 2]

ER1 and ER2, n = 1000, Gaussian noise of equal variance, raw and standardised. What counts is
equation (1) and average precision at the end, not time: the fits have one thread each, and several
run at once. Prints means over the data sets, and writes each fit as JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from bigdag import metrics, simulate
from bigdag.learners.methods import METHODS
from methods import WORLDS, world


def one_fit(job: dict[str, Any]) -> dict[str, Any]:
    """Return what a fit has reached."""
    warnings.simplefilter("ignore")
    k, graph = WORLDS[job["world"]]
    truth, X = world(job["d"], k, graph, job["seed"])
    X = simulate.standardise(X) if job["scale"] == "standardised" else X
    learner = METHODS[job["method"]].build(n_jobs=1, random_state=7)
    learner.fit(X[:50, :20])  # compiled or loaded before the clock starts
    model = learner.set_params(time_limit=job["limit"]).fit(X)
    phases = model.history_.phase
    proven = phases.eq("proof").any()
    return {
        **job, "objective": model.objective_, "seconds": model.history_.seconds.iloc[-1],
        "ap": metrics.average_precision(model.dag_, truth), "status": model.status_,
        "restarts": int(phases.eq("restart").sum()), "proven": float(proven),
    }  # fmt: skip


def main() -> None:
    """Measure, print the table, write JSON."""
    words = ["gd", "proximas", "order-search", "sort-variance"]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--d", type=int, nargs="+", default=[40, 100])
    parser.add_argument("--worlds", nargs="+", default=["ER1", "ER2"])
    parser.add_argument("--scales", nargs="+", default=["raw", "standardised"])
    parser.add_argument("--methods", nargs="+", default=words)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--time-limit", type=float, default=30.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "gd.json")
    options = parser.parse_args()
    jobs = [
        {"d": d, "world": name, "scale": scale, "method": word, "seed": seed,
         "limit": options.time_limit}
        for d in options.d
        for name in options.worlds
        for scale in options.scales
        for word in options.methods
        for seed in range(options.seeds)
    ]  # fmt: skip
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        rows = pool.map(one_fit, jobs, chunksize=1)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=1))
    keys = ["d", "world", "scale", "method"]
    frame = pd.DataFrame(rows).drop(columns=["seed", "limit", "status"])
    print(frame.groupby(keys, sort=False).mean().round(3).to_string())


if __name__ == "__main__":
    main()
