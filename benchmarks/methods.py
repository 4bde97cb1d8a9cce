"""Every learner and baseline of the package on the same data.

    python benchmarks/methods.py [--parts steps table] [--time-limit 20] [--seeds 3]

``steps``: the time of a step of NOTEARS and GOLEM over that of the bare torch operations it needs,
on the same weights. ``table``: all methods on ER1, ER2, ER4 and SF4 with d = 1000, n = 1000, raw
and standardised; each fit in a process of its own, forked after everything is imported and
compiled, so that neither counts. Writes JSON beside the tables.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from bigdag import GOLEM, NOTEARS, metrics, simulate
from bigdag.data.dataset import as_dataset
from bigdag.learners.methods import METHODS

N = 1000
WORLDS = {"ER1": (1, "ER"), "ER2": (2, "ER"), "ER4": (4, "ER"), "SF4": (4, "SF")}


def world(d: int, k: int, graph: str, seed: int) -> tuple[Any, np.ndarray]:
    """Return a true DAG and a table of its samples, Gaussian with equal variances."""
    rng = np.random.default_rng([seed, 2024])
    truth = simulate.random_dag(d, k, graph=graph, rng=rng)
    return truth, simulate.sample(truth, N, rng=rng)


# ------------------------------------------------------------------ steps of NOTEARS and GOLEM


def bare_step(kind: str, X: torch.Tensor, W: torch.Tensor) -> None:
    """The torch operations that one step cannot do without, with their backward pass."""
    W = W.detach().requires_grad_()
    n, d = X.shape
    residual = X - X @ W
    if kind == "NOTEARS":
        loss = residual.square().sum() / (2 * n)
    else:
        eye = torch.eye(d)
        loss = d / 2 * residual.square().sum().log() - torch.linalg.slogdet(eye - W)[1]
    h = torch.matrix_exp(W * W).diagonal().sum() - d
    (loss + 0.1 * W.abs().sum() + 5 * h).backward()


def step_ratios(d: int, steps: int = 8) -> list[dict[str, Any]]:
    """Return the time of a step over the bare operations, both in this process, interleaved."""
    _, table = world(d, 1, "ER", 0)
    X = torch.as_tensor(table - table.mean(axis=0), dtype=torch.float32)
    rows = []
    soft = partial(NOTEARS, solver="soft_penalty")
    for kind, learner in (("NOTEARS", soft), ("GOLEM", GOLEM)):
        last: list[Any] = []
        model = learner(max_iter=steps + 2, callback=lambda s, last=last: last.append(s.weights()))
        history = model.fit(table).history_
        times = np.diff(history.seconds[history.phase != "start"])[1:]
        W = torch.as_tensor(last[-1].toarray(), dtype=torch.float32)
        bare = []
        for _ in range(steps):
            began = time.perf_counter()
            bare_step(kind, X, W)
            bare.append(time.perf_counter() - began)
        rows.append(
            {"method": kind, "d": d, "step_s": float(np.median(times)),
             "bare_s": float(np.median(bare[1:])),
             "ratio": float(np.median(times) / np.median(bare[1:]))}
        )  # fmt: skip
    return rows


# ------------------------------------------------------------------ the table


def one_fit(word: str, X: np.ndarray, truth: Any, limit: float, pipe: Any) -> None:
    """Fit in this process and send back what the table needs."""
    warnings.simplefilter("ignore")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    model = METHODS[word].build(time_limit=limit, random_state=7).fit(X)
    spent = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    raw = getattr(model, "raw_weights_", None)
    arcs = metrics.arc_metrics(model.dag_, truth, threshold=0.3)
    pipe.send(
        {"ap": metrics.average_precision(model.dag_, truth),
         "ap_undirected": metrics.average_precision(model.dag_, truth, directed=False),
         "ap_raw": None if raw is None else metrics.average_precision(raw, truth),
         "shd_per_node": arcs.shd_normalised, "objective": model.objective_, "seconds": spent,
         "peak_gb": 1024 * peak / 1e9, "status": model.status_}
    )  # fmt: skip


def table_rows(seeds: int, limit: float, d: int, words: list[str]) -> list[dict[str, Any]]:
    """Return one row a fit."""
    for word in METHODS:  # compiled before the clock; torch only ever runs in the children
        if METHODS[word].extra is None:
            METHODS[word].build(n_jobs=1, max_iter=20).fit(world(40, 2, "ER", 0)[1])
    fork = multiprocessing.get_context("fork")
    rows = []
    for name, (k, graph) in WORLDS.items():
        for seed in range(seeds):
            truth, X = world(d, k, graph, seed)
            for scale in ("raw", "standardised"):
                table = as_dataset(X if scale == "raw" else simulate.standardise(X))
                for word in words:
                    here, there = fork.Pipe(duplex=False)
                    child = fork.Process(target=one_fit, args=(word, table, truth, limit, there))
                    child.start()
                    there.close()
                    try:
                        result = here.recv()
                    except EOFError:
                        result = {"status": "crashed"}
                    child.join()
                    rows.append({"world": name, "scale": scale, "seed": seed, "method": word,
                                 **result})  # fmt: skip
    return rows


def main() -> None:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", default=["steps", "table"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), help="rows of the table")
    parser.add_argument("--d", type=int, default=1000)
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "methods.json")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    work = {  # the table first: its processes are forked from one that has not used torch yet
        "table": lambda: table_rows(options.seeds, options.time_limit, options.d, options.methods),
        "steps": lambda: step_ratios(1000) + step_ratios(2000),
    }
    pd.set_option("display.width", 200, "display.max_rows", 500)
    for part in work:
        if part in options.parts:
            results[part] = work[part]()
            options.out.write_text(json.dumps(results, indent=1))
            frame = pd.DataFrame(results[part])
            if part == "table":
                keys = ["world", "scale", "method"]
                frame = frame.drop(columns=["seed", "status"]).groupby(keys, sort=False).mean()
            print(frame.round(3).to_string())


if __name__ == "__main__":
    main()
