"""From twenty thousand variables on: the cost of a fit in products, and dense graphs.

    python benchmarks/scale.py screening least-squares bic --d 20000
    python benchmarks/scale.py least-squares bic --d 100000 --no-double
    python benchmarks/scale.py er2 er4 sf4 cliff plan [--repeat 2]
    python benchmarks/scale.py dask kill --d 20000

Each word is one line of docs/scale.md; all have 1000 samples. Times are given over that of products
in the same run, because the machine may be shared: one product of all correlations in float64, and
one bare product of half of them in float32. The fits run in a forked process each, so that their
peak memory is their own. Prints one JSON object a line.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from bigdag import DAG, OrderSearch, metrics, simulate
from bigdag.data.dataset import as_dataset
from bigdag.engine import screening
from bigdag.engine.gram import Gram
from bigdag.learners.forecast import forecast
from bigdag.learners.methods import METHODS
from bigdag.resources import blas_threads

N = 1000
TILE = 1024


def world(d: int, k: int, graph: str = "ER", seed: int = 0) -> tuple[DAG, Any]:
    """Return a true DAG and a table of its samples."""
    rng = np.random.default_rng([seed, 2025])
    truth = simulate.random_dag(d, k, graph=graph, rng=rng)
    return truth, simulate.sample(truth, N, rng=rng)


# ------------------------------------------------------------------ products


def half_product(gram: Gram) -> float:
    """Return the seconds of one half of all correlations in float32, thrown away tile by tile."""
    assert gram.Z is not None
    single, d = gram.Z.astype(np.float32), gram.d
    tiles = [(a, c) for a in range(0, d, TILE) for c in range(0, a + 1, TILE)]

    def work(first: int, last: int) -> None:
        for a, c in tiles[first:last]:
            single[a : a + TILE] @ single[c : c + TILE].T

    began = time.perf_counter()
    with blas_threads(1):
        gram.each(work, len(tiles), 1)
    return time.perf_counter() - began


def whole_product(gram: Gram) -> float:
    """Return the seconds of all correlations in float64, thrown away strip by strip."""
    assert gram.Z is not None
    began = time.perf_counter()
    with blas_threads(gram.n_jobs):
        for a in range(0, gram.d, 2048):
            gram.Z[a : a + 2048] @ gram.Z.T
    return time.perf_counter() - began


# ------------------------------------------------------------------ one fit


def adjacency(found: Any, truth: DAG) -> tuple[float, float]:
    """Return precision and recall of pairs that are joined, whatever the direction."""
    true, ours = truth.weights != 0, found != 0
    true, ours = (true + true.T) != 0, (ours + ours.T) != 0
    hits = true.multiply(ours).nnz
    return hits / max(1, ours.nnz), hits / max(1, true.nnz)


def arrowheads(model: OrderSearch, truth: DAG) -> tuple[float, float]:
    """Return precision and recall of the arcs that the data direct, against the true ones."""
    directed = model.cpdag_ - model.cpdag_.multiply(model.cpdag_.T)
    true = truth.weights != 0
    hits = (directed != 0).multiply(true).nnz
    return hits / max(1, (directed != 0).nnz), hits / max(1, true.nnz)


def apart(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run something in a forked process; adds the peak memory of that process."""

    def run(pipe: Any) -> None:
        warnings.simplefilter("ignore")
        row = work()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        pipe.send({**row, "peak_gb": round(1024 * peak / 2**30, 2)})

    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    child = fork.Process(target=run, args=(there,))
    child.start()
    there.close()
    row: dict[str, Any] = here.recv()
    child.join()
    return row


def compile_first(criterion: str) -> None:
    """Compile what a fit needs, on small tables that take the same ways."""
    X = simulate.sample(simulate.random_dag(5100, 1, rng=0), 60, rng=1)
    OrderSearch(criterion=criterion).fit(X)
    OrderSearch(criterion=criterion).fit(X[:, :40])


def fitted(
    name: str, criterion: str, truth: DAG, X: Any, limit: float | None = None, **more: Any
) -> dict[str, Any]:
    """Fit in a process of its own, and score the answer."""

    def work() -> dict[str, Any]:
        compile_first(criterion)
        began, cpu = time.perf_counter(), time.process_time()
        model = OrderSearch(criterion=criterion, time_limit=limit).fit(X)
        row = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
        precision, recall = adjacency(model.weights_, truth)
        row |= {"status": model.status_, "adjacency": [precision, recall]}
        if criterion == "bic":
            row["arrowheads"] = arrowheads(model, truth)
            row["shd_cpdag"] = metrics.shd_cpdag(model.dag_, truth)
        else:
            row["ap"] = metrics.average_precision(model.dag_, truth)
        return row

    return {"part": name, "d": X.shape[1], **apart(work), **more}


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """Print a row."""
    short = lambda v: round(v, 4) if isinstance(v, float) else v  # noqa: E731
    print(json.dumps({
        key: [short(v) for v in value] if isinstance(value, list | tuple) else short(value)
        for key, value in row.items()
    }), flush=True)  # fmt: skip
    return row


# ------------------------------------------------------------------ the lines


def screen(d: int, double: bool) -> None:  # noqa: ARG001
    """Time the screening pass over one bare product of half of the matrix."""
    gram = Gram(as_dataset(simulate.standardise(world(d, 1)[1])), hold=False)
    small = Gram(as_dataset(world(400, 1)[1]), hold=False)
    screening.correlated(small, 4 / np.sqrt(N), 200)
    bare = half_product(gram)
    began = time.perf_counter()
    indptr, _ = screening.correlated(gram, 4 / np.sqrt(N), 200)
    seconds = time.perf_counter() - began
    again = half_product(gram)
    shown({"part": "screening", "d": d, "seconds": seconds, "bare": [bare, again],
           "ratio": 2 * seconds / (bare + again), "mean": float(indptr[-1] / d)})  # fmt: skip


def whole_fit(criterion: str, d: int, double: bool) -> None:
    """Time a whole fit over one product in float64."""
    truth, X = world(d, 1)
    if criterion == "bic":
        X = simulate.standardise(X)
    gram = Gram(as_dataset(X), hold=False)
    before = whole_product(gram) if double else half_product(gram)
    del gram
    row = fitted(criterion, criterion, truth, X)
    gram = Gram(as_dataset(X), hold=False)
    after = whole_product(gram) if double else half_product(gram)
    unit = "products" if double else "half_products"
    shown({**row, unit: 2 * row["seconds"] / (before + after), "product": [before, after]})


def standardised(name: str, d: int, k: int, graph: str, limit: float) -> None:
    """Search by the BIC on standardised data."""
    truth, X = world(d, k, graph)
    shown(fitted(name, "bic", truth, simulate.standardise(X), limit))


def announced(sizes: tuple[int, ...]) -> None:
    """Compare what a plan says with what a fit takes."""
    for d in sizes:
        for word in ("order-search", "order-search-bic"):
            _, X = world(d, 1)
            X = simulate.standardise(X) if word.endswith("bic") else X
            data = as_dataset(X)
            said = forecast(METHODS[word], data)
            criterion = "bic" if word.endswith("bic") else "least_squares"
            row = fitted("plan", criterion, world(d, 1)[0], X)
            shown({"part": "plan", "method": word, "d": d, "said_seconds": said.seconds,
                   "seconds": row["seconds"], "said_gb": said.memory / 2**30,
                   "peak_gb": row["peak_gb"]})  # fmt: skip


def on_cluster(d: int) -> None:
    """Fit in threads and on two workers of one thread each, in turns, and compare.

    On the workers once with the rows sent to them, and once with the rows in a folder. The share of
    the work that is theirs is also given of processor time, which other work on the machine does
    not change.
    """
    import tempfile

    from distributed import Client, LocalCluster

    import bigdag

    for criterion in ("bic", "least_squares"):
        _, X = world(d, 1)
        X = simulate.standardise(X) if criterion == "bic" else X
        compile_first(criterion)
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            with bigdag.on_dask(client):  # compiles on the workers
                OrderSearch(criterion=criterion).fit(X[:60, : min(d, 8000)])
            began = time.perf_counter()
            here = OrderSearch(criterion=criterion).fit(X)
            threads = time.perf_counter() - began
            for folder in (None, tempfile.TemporaryDirectory()):
                cpu = -time.process_time(), -sum(client.run(time.process_time).values())
                began = time.perf_counter()
                where = None if folder is None else folder.name
                with bigdag.on_dask(client, folder=where) as executor:
                    there = OrderSearch(criterion=criterion).fit(X)
                seconds = time.perf_counter() - began
                own = cpu[0] + time.process_time()
                theirs = cpu[1] + sum(client.run(time.process_time).values())
                same = bool((here.weights_ != there.weights_).nnz == 0)
                shown({"part": "dask", "criterion": criterion, "d": d, "threads": threads,
                       "dask": seconds, "ratio": seconds / threads, "same": same,
                       "share_distributed": executor.seconds / seconds,
                       "share_of_processor_time": theirs / (own + theirs),
                       "pieces": executor.n_pieces, "read": executor.n_read,
                       "sent": executor.n_sent})  # fmt: skip
                if folder is not None:
                    folder.cleanup()


def killed(d: int) -> None:
    """Fit with and without a checkpoint; then kill a fit half-way, and let it go on."""
    import tempfile
    from pathlib import Path

    fork = multiprocessing.get_context("fork")
    for criterion in ("bic", "least_squares"):
        _, X = world(d, 1)
        X = simulate.standardise(X) if criterion == "bic" else X
        compile_first(criterion)
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            plain = OrderSearch(criterion=criterion).fit(X)
            seconds = [time.perf_counter() - began]
            for name in ("whole", "cut"):
                learner = OrderSearch(criterion=criterion, checkpoint=f"{folder}/{name}")
                if name == "cut":
                    child = fork.Process(target=learner.fit, args=(X,))
                    child.start()
                    time.sleep(0.5 * seconds[0])
                    child.kill()
                    child.join()
                began = time.perf_counter()
                learner.fit(X)
                seconds.append(time.perf_counter() - began)
            size = Path(f"{folder}/whole").stat().st_size
        same = bool((plain.weights_ != learner.weights_).nnz == 0)
        shown({"part": "kill", "criterion": criterion, "d": d, "plain": seconds[0],
               "with_checkpoint": seconds[1] / seconds[0], "after_a_kill": seconds[2] / seconds[0],
               "file_mb": size / 2**20, "same": same})  # fmt: skip


PARTS = ("screening", "least-squares", "bic", "er2", "er4", "sf4", "cliff", "plan", "dask", "kill")


def main() -> None:
    """Run the lines that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--d", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--no-double", action="store_true", help="Compare with float32 only.")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    lines: dict[str, list[Callable[[], None]]] = {
        "screening": [lambda: screen(given.d, not given.no_double)],
        "least-squares": [lambda: whole_fit("least_squares", given.d, not given.no_double)],
        "bic": [lambda: whole_fit("bic", given.d, not given.no_double)],
        "er2": [lambda: standardised("er2", 10_000, 2, "ER", 300.0)],
        "er4": [lambda: standardised("er4", 4000, 4, "ER", 600.0)],
        "sf4": [lambda d=d: standardised("sf4", d, 4, "SF", 600.0) for d in (500, 2000)],
        "cliff": [lambda d=d: standardised("cliff", d, 2, "ER", 300.0) for d in (1900, 2100)],
        "plan": [
            lambda: announced((500, 1000, 2000, 3000, 5000, 7000, 10_000, 14_000, 20_000, 28_000))
        ],
    }
    lines["dask"] = [lambda: on_cluster(given.d)]
    lines["kill"] = [lambda: killed(given.d)]
    for part in given.parts:
        for _ in range(given.repeat):
            for line in lines[part]:
                line()


if __name__ == "__main__":
    main()
