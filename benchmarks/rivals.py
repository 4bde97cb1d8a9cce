"""The gradient methods at their best: our defaults, the same run long, and other packages.

    python benchmarks/rivals.py [--sizes 40 100] [--seeds 5] [--units raw] [--methods ...]

One row a method and size: the average precision of the raw weights and of the DAG, mean and least
of the data sets, beside sorting by variance as the trivial baseline. "Long" is the paper's constant
learning rate of 0.001 with ``tol=0``, which ends only where the loss no longer falls at all. Other
packages (gcastle, dagma) get the same penalties; their weights are taken before any threshold, and
made acyclic as ours are. All in one process with one thread. Writes JSON as it goes.

    python benchmarks/rivals.py --parts warm [--sizes 40 100] [--seeds 5]

Steps and CPU seconds to convergence from zeros, from ProxiMAS' DAG and from OrderSearch's, with the
time of the warm start itself added, for the gradient methods and GD with their defaults.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bigdag import (
    DAGMA,
    GD,
    GOLEM,
    NOTEARS,
    OptiMAS,
    OrderSearch,
    ProxiMAS,
    SortRegress,
    metrics,
    simulate,
)
from bigdag.graph.acyclic import acyclic_threshold

N = 1000
WORLDS = {"ER1": (1, "ER"), "ER2": (2, "ER"), "SF4": (4, "SF")}
LONG = {"learning_rate": 0.001, "decays": 0, "tol": 0.0, "max_iter": 40_000}
SOFT = {"solver": "soft_penalty"}


def world(d: int, name: str, seed: int, variance: str) -> tuple[Any, np.ndarray]:
    """Return a true DAG and a table of its samples, Gaussian."""
    k, graph = WORLDS[name]
    rng = np.random.default_rng([seed, 2024])
    truth = simulate.random_dag(d, k, graph=graph, rng=rng)
    return truth, simulate.sample(truth, N, variance=variance, rng=rng)


# ------------------------------------------------------------------ the rivals


def ours(make: Callable[[], Any]) -> Callable[[np.ndarray], tuple[Any, Any, str]]:
    """Return a function from a table to raw weights, DAG and how the fit ended."""

    def fit(X: np.ndarray) -> tuple[Any, Any, str]:
        model = make().fit(X)
        raw = getattr(model, "raw_weights_", model.weights_)
        return raw, model.dag_, f"{model.status_}, {model.n_iter_}"

    return fit


def castle_golem(noise: str, lambda1: float) -> Callable[[np.ndarray], tuple[Any, Any, str]]:
    """Return gcastle's GOLEM: 20,000 steps; with free variances from its own EV solution."""

    def fit(X: np.ndarray) -> tuple[Any, Any, str]:
        from castle.algorithms import GOLEM as Castle

        start = None
        if noise == "NV":
            first = Castle(lambda_1=0.02, lambda_2=5.0, equal_variances=True, num_iter=20_000)
            first.learn(X)
            start = np.asarray(first.weight_causal_matrix)
        model = Castle(
            B_init=start, lambda_1=lambda1, lambda_2=5.0, equal_variances=noise == "EV",
            num_iter=20_000, graph_thres=0.0,
        )  # fmt: skip
        model.learn(X)
        raw = np.asarray(model.weight_causal_matrix)
        return raw, acyclic_threshold(raw)[1], "20,000 steps"

    return fit


def castle_notears(X: np.ndarray) -> tuple[Any, Any, str]:
    """Fit gcastle's NOTEARS, an augmented Lagrangian."""
    from castle.algorithms import Notears

    model = Notears(lambda1=0.1, w_threshold=0.0)
    model.learn(X)
    raw = np.asarray(model.weight_causal_matrix)
    return raw, acyclic_threshold(raw)[1], "ended"


def dagma_package(X: np.ndarray) -> tuple[Any, Any, str]:
    """Fit the package dagma with its defaults, without a threshold."""
    from dagma.linear import DagmaLinear

    raw = DagmaLinear("l2").fit(X.copy(), lambda1=0.03, w_threshold=0.0)
    return raw, acyclic_threshold(raw)[1], "ended"


def rivals() -> dict[str, Callable[[np.ndarray], tuple[Any, Any, str]]]:
    """Return all rows of the table."""
    return {
        "Sort by variance": ours(lambda: SortRegress(order="variance", n_jobs=1)),
        "GOLEM-EV": ours(lambda: GOLEM("EV", n_jobs=1)),
        "GOLEM-EV, long": ours(lambda: GOLEM("EV", n_jobs=1, **LONG)),
        "GOLEM-EV, gcastle": castle_golem("EV", 0.02),
        "GOLEM-NV": ours(lambda: GOLEM("NV", n_jobs=1)),
        "GOLEM-NV, long": ours(lambda: GOLEM("NV", n_jobs=1, **LONG)),
        "GOLEM-NV, gcastle": castle_golem("NV", 0.002),
        "NOTEARS": ours(lambda: NOTEARS(n_jobs=1)),
        "NOTEARS, tol=0": ours(lambda: NOTEARS(n_jobs=1, tol=0.0)),
        "NOTEARS, gcastle": castle_notears,
        "NOTEARS, soft penalty": ours(lambda: NOTEARS(n_jobs=1, **SOFT)),
        "NOTEARS, soft penalty, long": ours(lambda: NOTEARS(n_jobs=1, **SOFT, **LONG)),
        "OptiMAS": ours(lambda: OptiMAS(n_jobs=1)),
        "OptiMAS, long": ours(lambda: OptiMAS(n_jobs=1, **LONG)),
        "DAGMA": ours(lambda: DAGMA(n_jobs=1)),
        "DAGMA, tol=0": ours(lambda: DAGMA(n_jobs=1, tol=0.0)),
        "DAGMA, package dagma": dagma_package,
    }


# ------------------------------------------------------------------ the table


def measure(
    name: str, fit: Callable[[np.ndarray], tuple[Any, Any, str]], X: np.ndarray, truth: Any
) -> dict[str, Any]:
    """Return a row of the long table."""
    import torch

    dtype, began = torch.get_default_dtype(), time.process_time()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            raw, dag, ended = fit(X - X.mean(axis=0))
    finally:
        torch.set_default_dtype(dtype)
    return {
        "method": name, "ap_raw": metrics.average_precision(raw, truth),
        "ap_dag": metrics.average_precision(dag, truth),
        "cpu_s": time.process_time() - began, "ended": ended,
    }  # fmt: skip


def table_rows(options: argparse.Namespace, rows: list[dict[str, Any]]) -> Iterator[None]:
    """Add a row for each method and data set to the long table."""
    for name, d, seed in cells(options):
        truth, X = world(d, name, seed, options.variance)
        for units in options.units:
            table = X if units == "raw" else simulate.standardise(X)
            for method in options.methods:
                row = measure(method, rivals()[method], table, truth)
                rows.append({"world": name, "d": d, "units": units, "seed": seed} | row)
                yield


def cells(options: argparse.Namespace) -> Iterator[tuple[str, int, int]]:
    """Yield the data sets that are asked for: name of the world, size and seed."""
    return product(options.worlds, options.sizes, range(options.seeds))


def summary(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the means and the least values of the long table."""
    keys = ["world", "units", "d", "method"]
    return pd.DataFrame(rows).groupby(keys, sort=False).agg(
        raw_mean=("ap_raw", "mean"), raw_least=("ap_raw", "min"),
        dag_mean=("ap_dag", "mean"), dag_least=("ap_dag", "min"), cpu_s=("cpu_s", "mean"),
    )  # fmt: skip


# ------------------------------------------------------------------ warm starts


def followers() -> dict[str, Callable[[Any], Any]]:
    """Return what is started: functions from a DAG, or None, to a learner."""
    return {
        "GOLEM-EV": lambda dag: GOLEM("EV", n_jobs=1, warm_start_dag=dag),
        "NOTEARS": lambda dag: NOTEARS(n_jobs=1, warm_start_dag=dag),
        "NOTEARS, soft penalty": lambda dag: NOTEARS(n_jobs=1, warm_start_dag=dag, **SOFT),
        "DAGMA": lambda dag: DAGMA(n_jobs=1, warm_start_dag=dag),
        "GD": lambda dag: GD(n_jobs=1, random_state=0, warm_start_dag=dag),
    }


STARTS: dict[str, Callable[[], Any] | None] = {
    "zeros": None,
    "ProxiMAS": lambda: ProxiMAS(n_jobs=1),
    "OrderSearch": lambda: OrderSearch(n_jobs=1),
}


def timed(learner: Any, X: np.ndarray) -> tuple[Any, float]:
    """Return the fitted learner, and the CPU seconds of its fit."""
    began = time.process_time()
    learner.fit(X)
    return learner, time.process_time() - began


def warm_rows(options: argparse.Namespace, rows: list[dict[str, Any]]) -> Iterator[None]:
    """Add a row for each method, start and data set to the long table."""
    small = simulate.sample(simulate.random_dag(12, 1, rng=0), 100, rng=1)
    for start in filter(None, STARTS.values()):  # compiling is not part of any time
        start().fit(small)
    for make in followers().values():
        make(None).fit(small)
    for name, d, seed in cells(options):
        truth, X = world(d, name, seed, options.variance)
        X = X - X.mean(axis=0)
        for begin, start in STARTS.items():
            first, before = (None, 0.0) if start is None else timed(start(), X)
            for method, make in followers().items():
                model, took = timed(make(None if first is None else first.dag_), X)
                raw = getattr(model, "raw_weights_", model.weights_)
                rows.append({
                    "world": name, "d": d, "seed": seed, "method": method, "start": begin,
                    "steps": model.n_iter_, "cpu_s": took, "start_s": before,
                    "total_s": before + took, "ended": model.status_,
                    "ap_start": None if first is None else metrics.average_precision(
                        first.dag_, truth
                    ),
                    "ap_raw": metrics.average_precision(raw, truth),
                    "ap_dag": metrics.average_precision(model.dag_, truth),
                })  # fmt: skip
                yield


def warm_summary(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the means of the long table of warm starts."""
    keys = ["world", "d", "method", "start"]
    return pd.DataFrame(rows).groupby(keys, sort=False).agg(
        sets=("seed", "size"), steps=("steps", "mean"), most_steps=("steps", "max"),
        cpu_s=("cpu_s", "mean"), start_s=("start_s", "mean"), total_s=("total_s", "mean"),
        ap_raw=("ap_raw", "mean"), ap_dag=("ap_dag", "mean"), ap_least=("ap_dag", "min"),
        converged=("ended", lambda ended: (ended == "converged").mean()),
    )  # fmt: skip


# ------------------------------------------------------------------ both


PARTS = {"table": (table_rows, summary), "warm": (warm_rows, warm_summary)}


def main() -> None:
    """Measure, print the tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", default=["table"], choices=list(PARTS))
    parser.add_argument("--sizes", type=int, nargs="+", default=[40, 100])
    parser.add_argument("--units", nargs="+", default=["raw"], choices=["raw", "standardised"])
    parser.add_argument("--worlds", nargs="+", default=["ER1"], choices=list(WORLDS))
    parser.add_argument("--variance", default="EV", choices=["EV", "NV"], help="noise variances")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=list(rivals()), choices=list(rivals()))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "rivals.json")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)
    import torch

    torch.set_num_threads(1)
    pd.set_option("display.width", 200, "display.max_rows", 500, "display.max_columns", 20)
    found: dict[str, list[dict[str, Any]]] = {part: [] for part in options.parts}
    for part in options.parts:
        fill, sum_up = PARTS[part]
        for _ in fill(options, found[part]):
            options.out.write_text(json.dumps(found, indent=1))
        print(sum_up(found[part]).round(3).to_string())


if __name__ == "__main__":
    main()
