"""The order search against everything else, all sides on the same data in one run.

    python benchmarks/order.py [--parts raw small nv standardised iscm wide real big] [--seeds 5]
    python benchmarks/order.py --parts huge --d 20000
    python benchmarks/order.py --parts real --sides flopsearch correlation

``raw``, ``nv``: average precision and equation (1) on the paper's data. ``small``: d = 100, where
DAGMA ends. ``standardised``, ``iscm``, ``wide`` (n = 300): directed F1 and SHD of CPDAGs, against
flopsearch where it can run. ``real``: samples of two networks fitted to real data. ``big``: both
scores at d = 5000. ``huge``: once, by hand, with the time over that of one Gram product. Writes
JSON beside the tables; with ``--sides``, into what is there already.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from bigdag import DAG, OrderSearch, ProxiMAS, metrics, simulate
from bigdag.data.dataset import as_dataset
from bigdag.engine import lasso
from bigdag.engine.gram import Gram
from bigdag.errors import GraphError
from bigdag.learners.methods import METHODS

N = 1000
ONLY: tuple[str, ...] = ("",)  # how the names of the sides to run begin
RIVALS = ("proximas", "optimas", "gd")
BASELINES = ("least-variance", "sort-variance", "sort-r2", "sort-random", "lasso-mas")


def world(d: int, k: int, graph: str, seed: int, n: int = N, **noise: Any) -> tuple[DAG, Any]:
    """Return a true DAG and a table of its samples."""
    rng = np.random.default_rng([seed, 2025])
    truth = simulate.random_dag(d, k, graph=graph, rng=rng)
    return truth, simulate.sample(truth, n, rng=rng, **noise)


def internal_world(d: int, k: int, seed: int) -> tuple[DAG, Any]:
    """Return a DAG and samples of its internally standardised model."""
    rng = np.random.default_rng([seed, 2025])
    truth, scales = simulate.internally_standardised(
        simulate.random_dag(d, k, graph="ER", rng=rng), rng=rng
    )
    return truth, simulate.sample(truth, N, variance=scales, rng=rng)


# ------------------------------------------------------------------ sides


def learner(word: str, **parameters: Any) -> Callable[[Any], dict[str, Any]]:
    """Return a side: fit a method of the package, give its graph and the time it took."""

    def side(X: Any) -> dict[str, Any]:
        model = METHODS[word].build(random_state=7, **parameters)
        began = time.perf_counter()
        model.fit(X)
        return {"seconds": time.perf_counter() - began, "dag": model.dag_,
                "objective": model.objective_, "status": model.status_}  # fmt: skip

    return side


def flop(X: Any, restarts: int = 0) -> dict[str, Any]:
    """Run flopsearch; its CPDAG has 1 for arcs and 2 for undirected edges."""
    import flopsearch

    began = time.perf_counter()
    found = np.asarray(flopsearch.flop(np.ascontiguousarray(X), 2.0, restarts=restarts))
    return {"seconds": time.perf_counter() - began, "cpdag": sp.csc_array(found != 0)}


def flop_in_our_time(X: Any) -> dict[str, Any]:
    """Run flopsearch with as many restarts as take it at least as long as ours takes.

    The timeout of flopsearch 0.3 has no effect: it does not return.
    """
    ours = learner("order-search-bic")(X)["seconds"]
    result, restarts = flop(X), 0
    while result["seconds"] < ours:
        restarts = max(10, 2 * restarts)
        result = flop(X, restarts)
    return result


def by_likelihood() -> dict[str, Callable[[Any], dict[str, Any]]]:
    """Return the sides that read no units."""
    return {
        "order-search-bic": learner("order-search-bic"), "flopsearch": flop,
        "flopsearch, our time": flop_in_our_time,
        "order-search-bic, penalty auto": learner("order-search-bic", penalty="auto"),
    }  # fmt: skip


def dagma(X: Any) -> dict[str, Any]:
    """Run DAGMA's linear model with its defaults; the ranking keeps what its threshold cuts."""
    from dagma.linear import DagmaLinear

    began = time.perf_counter()
    W = DagmaLinear(loss_type="l2").fit(np.array(X, order="C"), w_threshold=0.0)
    result = {"seconds": time.perf_counter() - began, "weights": sp.csc_array(W)}
    cut = sp.csc_array(np.where(np.abs(W) > 0.3, W, 0.0))
    with contextlib.suppress(GraphError):
        result["dag"] = DAG(cut)
    return result


def correlations(X: Any) -> dict[str, Any]:
    """Score each pair by its absolute correlation, both ways."""
    C = np.abs(np.corrcoef(X.T))
    np.fill_diagonal(C, 0.0)
    return {"seconds": 0.0, "weights": sp.csc_array(C)}


def f1(found: Any, truth: Any) -> float:
    """Return F1 of arcs."""
    hits = sp.csc_array(abs(found) > 0).multiply(sp.csc_array(abs(truth) > 0)).sum()
    return float(2 * hits / max(1, found.nnz + truth.nnz))


def scored(result: dict[str, Any], truth: DAG) -> dict[str, Any]:
    """Return one row of a table from what a side returned."""
    row = {key: result[key] for key in ("seconds", "objective", "status") if key in result}
    if "weights" in result:
        row["ap"] = metrics.average_precision(result["weights"], truth)
    if "dag" in result:
        dag = result["dag"]
        row.setdefault("ap", metrics.average_precision(dag, truth))
        if dag.n_arcs > 50 * dag.n_nodes:
            return row
        half = abs(dag.weights)
        if dag.reversible is not None:
            loose = half.multiply(dag.reversible.astype(float))
            half = half - 0.5 * loose + 0.5 * loose.T
        row["f1_dag"] = f1(dag.weights, truth.weights)
        graph = metrics.cpdag(dag)
    elif "cpdag" not in result:
        return row
    else:
        graph = result["cpdag"].astype(np.int8)
        half = graph.astype(float)
        half = half - 0.5 * half.multiply(half.T)
    row["ap_half"] = metrics.average_precision(sp.csc_array(half), truth)
    directed = sp.csc_array(graph - graph.multiply(graph.T))
    directed.eliminate_zeros()
    row["f1"] = f1(directed, truth.weights)
    row["shd_cpdag"] = _pattern_distance(graph, metrics.cpdag(truth))
    return row


def _pattern_distance(A: Any, B: Any) -> int:
    """Return in how many pairs of variables two CPDAGs differ."""
    differ = sp.coo_array(abs(sp.csc_array(A).astype(int) - sp.csc_array(B).astype(int)))
    differ.eliminate_zeros()
    low, high = np.minimum(differ.row, differ.col), np.maximum(differ.row, differ.col)
    return len(np.unique(low.astype(np.int64) * A.shape[0] + high))


def apart(
    side: Callable[[Any], dict[str, Any]], X: Any, truth: DAG, limit: float = 240.0
) -> dict[str, Any]:
    """Run a side in a forked process, so that its peak memory is its own; not for ever."""

    def work(pipe: Any) -> None:
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = side(X)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        pipe.send({**scored(result, truth), "peak_gb": 1024 * peak / 1e9,
                   "more_gb": 1024 * (peak - before) / 1e9})  # fmt: skip

    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    child = fork.Process(target=work, args=(there,))
    child.start()
    there.close()
    try:
        row = here.recv() if here.poll(limit) else {"status": f"no answer in {limit:.0f} s"}
    except EOFError:
        row = {"status": "failed"}
    child.kill()
    child.join()
    return row


# ------------------------------------------------------------------ parts


def rows_of(
    name: str,
    sides: dict[str, Any],
    worlds: list[tuple[DAG, Any]],
    ceiling: bool = False,
    limit: float = 240.0,
) -> list[dict[str, Any]]:
    """Run all sides on all worlds; with ``ceiling``, equation (1) over that of the true order."""
    rows: list[dict[str, Any]] = []
    for seed, (truth, X) in enumerate(worlds):
        best = None
        if ceiling:
            gram = Gram(as_dataset(X))
            fit = lasso.solve(gram, 0.1, order=truth.order)
            best = float(fit.objective.sum())
            rows.append({"data": name, "seed": seed, "side": "true order + lasso", "ratio": 1.0,
                         "ap": metrics.average_precision(fit.weights, truth)})  # fmt: skip
        for word, side in sides.items():
            if not word.startswith(ONLY):
                continue
            row = {"data": name, "seed": seed, "side": word, **apart(side, X, truth, limit)}
            if best is not None and "objective" in row:
                row["ratio"] = row["objective"] / best
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def raw(seeds: int) -> list[dict[str, Any]]:
    """Equal noises, in the units of the data."""
    sides = {word: learner(word) for word in ("order-search", "order-search-bic")}
    sides |= {word: learner(word, time_limit=20.0) for word in (*RIVALS, *BASELINES)}
    rows = []
    for d, k, graph in ((1000, 1, "ER"), (1000, 2, "ER"), (500, 4, "ER"), (500, 4, "SF")):
        worlds = [world(d, k, graph, seed) for seed in range(seeds)]
        rows += rows_of(f"{graph}{k} EV raw d={d}", sides, worlds, True, 120.0)
    return rows


def small(seeds: int) -> list[dict[str, Any]]:
    """A size at which every rival comes to its own end, DAGMA too."""
    sides = {word: learner(word) for word in ("order-search", "order-search-bic")}
    sides |= {"flopsearch": flop, "dagma": dagma}
    sides |= {word: learner(word, time_limit=20.0) for word in (*RIVALS, *BASELINES)}
    rows = []
    for k, graph in ((2, "ER"), (4, "ER"), (4, "SF")):
        worlds = [world(100, k, graph, seed) for seed in range(seeds)]
        rows += rows_of(f"{graph}{k} EV raw d=100", sides, worlds, True)
        worlds = [(truth, simulate.standardise(X)) for truth, X in worlds]
        rows += rows_of(f"{graph}{k} standardised d=100", sides, worlds)
    return rows


def nv(seeds: int) -> list[dict[str, Any]]:
    """Unequal noises, in the units of the data."""
    sides = {
        "order-search": learner("order-search"),
        "order-search-bic from least variance": learner("order-search-bic", start="least_variance"),
        **{word: learner(word, time_limit=20.0) for word in (*RIVALS, *BASELINES)},
    }
    worlds = [world(1000, 1, "ER", seed, variance="NV") for seed in range(seeds)]
    return rows_of("ER1 NV raw d=1000", sides, worlds, ceiling=True)


def standardised(seeds: int) -> list[dict[str, Any]]:
    """The variances taken away."""
    rows = []
    for d, k in ((500, 1), (500, 2), (1000, 1), (1000, 2)):
        worlds = [world(d, k, "ER", seed) for seed in range(seeds)]
        worlds = [(truth, simulate.standardise(X)) for truth, X in worlds]
        sides = by_likelihood()
        if d == 500:
            sides |= {"order-search-bic, 20 restarts": learner("order-search-bic", restarts=20)}
            sides |= {w: learner(w, time_limit=30.0) for w in ("proximas", "sort-r2", "lasso-mas")}
        rows += rows_of(f"ER{k} standardised d={d}", sides, worlds)
    return rows


def iscm(seeds: int) -> list[dict[str, Any]]:
    """Internally standardised models."""
    sides = by_likelihood()
    return [
        row
        for k in (1, 2)
        for row in rows_of(
            f"ER{k} iSCM d=500", sides, [internal_world(500, k, seed) for seed in range(seeds)]
        )
    ]


def wide(seeds: int) -> list[dict[str, Any]]:
    """Fewer samples than variables."""
    worlds = [world(1000, 1, "ER", seed, n=300) for seed in range(seeds)]
    worlds = [(truth, simulate.standardise(X)) for truth, X in worlds]
    sides = {"order-search-bic": learner("order-search-bic")}
    sides |= {f"{w}, threshold 0.1": _cut(w) for w in BASELINES}
    return rows_of("ER1 standardised d=1000 n=300", sides, worlds)


def _cut(word: str) -> Callable[[Any], dict[str, Any]]:
    """A baseline, its weak arcs left out: with them all, its F1 would be near zero."""
    fit = learner(word)

    def side(X: Any) -> dict[str, Any]:
        result = fit(X)
        return {**result, "dag": result["dag"].threshold(0.1)}

    return side


def real(seeds: int) -> list[dict[str, Any]]:
    """Networks fitted to real data."""
    rows = []
    for name in ("arth150", "magic-niab"):
        truth, scales = _network(name)
        for n in (200, 1000, 5000):
            tables = [simulate.sample(truth, n, variance=scales, rng=seed) for seed in range(seeds)]
            for units in ("raw", "standardised"):
                worlds = [
                    (truth, simulate.standardise(X) if units == "standardised" else X)
                    for X in tables
                ]
                sides = {
                    **by_likelihood(),
                    "order-search-bic, 100 restarts": learner("order-search-bic", restarts=100),
                    "order-search": learner("order-search"),
                    "correlation": correlations, "proximas": learner("proximas"),
                    **{w: learner(w) for w in BASELINES},
                }  # fmt: skip
                rows += rows_of(f"{name} {units} n={n}", sides, worlds)
    return rows


def _network(name: str) -> tuple[DAG, np.ndarray]:
    """Return a linear Gaussian network of pgmpy as a DAG, and its noise scales."""
    from pgmpy.utils import get_example_model

    model = get_example_model(name)
    nodes = sorted(model.nodes())
    place = {node: i for i, node in enumerate(nodes)}
    W, scales = np.zeros((len(nodes), len(nodes))), np.zeros(len(nodes))
    for table in model.cpds:
        v = place[table.variable]
        scales[v] = float(table.std)
        for parent, weight in zip(table.evidence, np.asarray(table.beta, dtype=float)[1:]):
            W[place[parent], v] = weight
    return DAG(sp.csc_array(W), names=nodes), scales


def big(seeds: int) -> list[dict[str, Any]]:
    """Run both scores at d = 5000."""
    worlds = [world(5000, 1, "ER", seed) for seed in range(seeds)]
    sides = {word: learner(word) for word in ("order-search", "least-variance")}
    rows = rows_of("ER1 EV raw d=5000", sides, worlds, ceiling=True)
    worlds = [(truth, simulate.standardise(X)) for truth, X in worlds]
    sides = {"order-search-bic": learner("order-search-bic")}
    return rows + rows_of("ER1 standardised d=5000", sides, worlds)


def huge(d: int) -> list[dict[str, Any]]:
    """Once, by hand: least squares at a d whose lasso has to be confined."""
    truth, X = world(d, 1, "ER", 0)

    def side(X: Any) -> dict[str, Any]:
        product = None
        if d <= 20_000:
            Z = np.ascontiguousarray(X.T)
            began = time.perf_counter()
            for a in range(0, d, 2048):
                Z[a : a + 2048] @ Z.T
            product = time.perf_counter() - began
        result = learner("order-search")(X)
        print(f"one Gram product: {product} s")
        return result

    return rows_of(f"ER1 EV raw d={d}", {"order-search": side}, [(truth, X)], limit=7200.0)


def _place(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["data"], row["side"], row["seed"]


def main() -> None:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = {"raw": raw, "small": small, "nv": nv, "standardised": standardised, "iscm": iscm,
             "wide": wide, "real": real, "big": big}  # fmt: skip
    parser.add_argument("--parts", nargs="+", default=list(parts), choices=[*parts, "huge"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--d", type=int, default=20_000, help="for huge")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "order.json")
    parser.add_argument("--sides", nargs="+", default=[""], help="only those that begin so")
    options = parser.parse_args()
    global ONLY
    ONLY = tuple(options.sides)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    tiny = world(40, 2, "ER", 0)[1]
    for word in METHODS:  # compiled before the clock; torch only ever runs in the children
        if METHODS[word].extra is None:
            METHODS[word].build(n_jobs=1, max_iter=20).fit(tiny)
    OrderSearch(criterion="bic", restarts=4, start="least_variance").fit(tiny)
    OrderSearch(candidates="correlated").fit(tiny)
    ProxiMAS().fit(tiny)
    pd.set_option("display.width", 220, "display.max_rows", 500)
    for part in options.parts:
        rows = huge(options.d) if part == "huge" else parts[part](options.seeds)
        known = {_place(row): row for row in results.get(part, [])} if options.sides != [""] else {}
        results[part] = list((known | {_place(row): row for row in rows}).values())
        options.out.write_text(json.dumps(results, indent=1))
        frame = pd.DataFrame(results[part])
        keys = ["data", "side"]
        columns = [c for c in frame if c not in {*keys, "seed", "status"}]
        print(frame.groupby(keys, sort=False)[columns].mean().round(3).to_string(), flush=True)


if __name__ == "__main__":
    main()
