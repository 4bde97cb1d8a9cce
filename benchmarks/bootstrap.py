"""The bootstrap against one fit and against what is trivial, all sides on the same data in one run.

    python benchmarks/bootstrap.py [--parts accuracy elsewhere others time big] [--seeds 5]
                                   [--first-seed 0] [--resamples 100]
    python benchmarks/bootstrap.py --parts huge

``accuracy``: samples of two networks fitted to real data and of random DAGs, standardised: average
precision of the arcs by probability and by frequency, of one fit by weight and by direction and
evidence, and of plain correlations; F1 and SHD of the consensus and of one fit; and how well
probabilities are calibrated, with 95 % intervals. ``elsewhere``: the same on data that no goal
names. ``others``: the bootstrap of other learners, on raw and standardised data. ``time``: the
bootstrap over one fit. ``big``, ``huge``: d = 5000 and 20,000, with the peak memory of a process of
its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import beta

from bigdag import BootstrapDAG, OrderSearch, ProxiMAS, SortRegress, metrics, simulate
from order import _network, world

NETWORKS = (("arth150", (100, 200, 1000)), ("magic-niab", (100, 1000)))


def tables(seeds: Sequence[int], raw: bool = False) -> Any:
    """Yield names and lists of (truth, table)."""
    for name, sizes in NETWORKS:
        truth, scales = _network(name)
        for n in sizes:
            yield (
                f"{name} n={n}",
                [
                    (truth, _units(simulate.sample(truth, n, variance=scales, rng=seed), raw))
                    for seed in seeds
                ],
            )
    for k in (1, 2):
        worlds = [world(300, k, "ER", seed) for seed in seeds]
        yield f"ER{k} d=300 n=1000", [(truth, _units(X, raw)) for truth, X in worlds]


def _units(X: Any, raw: bool) -> Any:
    return X if raw else simulate.standardise(X)


def correlations(X: Any) -> Any:
    """Return the correlations, which know no direction."""
    C = np.corrcoef(X.T)
    np.fill_diagonal(C, 0.0)
    return C


def accuracy(worlds_of: Any, resamples: int) -> None:
    """Print the table of accuracy, and that of calibration."""
    print("| data | correlation | one fit, by weight | one fit, by evidence | bootstrap | "
          "by frequency | F1 one fit | F1 consensus | SHD one fit | SHD consensus |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    pooled: dict[tuple[bool, str], list[Any]] = {}
    for name, worlds in worlds_of:
        rows = []
        for seed, (truth, X) in enumerate(worlds):
            one = OrderSearch(criterion="bic").fit(X).dag_
            many = BootstrapDAG(n_resamples=resamples, random_state=seed).fit(X)
            first, second = (metrics.arc_metrics(dag, truth) for dag in (one, many.dag_))
            rows.append([
                metrics.average_precision(correlations(X), truth),
                metrics.average_precision(one, truth, by="weight"),
                metrics.average_precision(one, truth),
                metrics.average_precision(many.edge_prob_, truth),
                metrics.average_precision(many.edge_freq_, truth),
                first.f1, second.f1, first.shd, second.shd,
            ])  # fmt: skip
            for directed in (False, True):
                found = metrics.calibration(many.edge_prob_, truth, directed=directed)
                for data in (name, "all of these"):
                    pooled.setdefault((directed, data), []).append(found)
        means = np.mean(rows, axis=0)
        cells = [f"{v:.3f}" for v in means[:7]] + [f"{v:.1f}" for v in means[7:]]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    for directed, what in ((False, "Pairs by their probability (adjacency)"), (True, "Arcs")):
        print(f"\n{what}: number, mean probability, share that is true with its 95 % interval; "
              "✓ within 0.1 of each other, ? undecided, ✗ not\n")  # fmt: skip
        heads = [f"{a / 10:.1f}–{a / 10 + 0.1:.1f}" for a in range(5, 10)]
        print("| data | " + " | ".join(heads) + " |")
        print("|---|---|---|---|---|---|")
        names = [n for d, n in pooled if d == directed and n != "all of these"]
        for name in [*names, "all of these"]:
            cells = [_calibrated(pooled[directed, name], a) for a in range(5, 10)]
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def _calibrated(found: list[Any], tenth: int) -> str:
    """Return what tables of calibration say of one bin together."""
    parts = [t[np.isclose(t["low"], tenth / 10)] for t in found]
    n = sum(int(p["count"].sum()) for p in parts)
    if not n:
        return "–"
    p, hits = (
        sum(float((part[c] * part["count"]).sum()) for part in parts if len(part))
        for c in ("probability", "true")
    )
    p, hits = p / n, round(hits)
    low = float(beta.ppf(0.025, hits, n - hits + 1)) if hits else 0.0
    high = float(beta.ppf(0.975, hits + 1, n - hits)) if hits < n else 1.0
    mark = "✓" if abs(hits / n - p) <= 0.1 else "?" if low - 0.1 <= p <= high + 0.1 else "✗"
    return f"{n}: {p:.2f}, {hits / n:.2f} ({low:.2f}–{high:.2f}) {mark}"


def elsewhere(seeds: Sequence[int]) -> Any:
    """Yield names and lists of (truth, table) that no goal names."""
    for name, n in (("ecoli70", 200), ("ecoli70", 1000), ("magic-irri", 300), ("arth150", 500)):
        truth, scales = _network(name)
        samples = [simulate.sample(truth, n, variance=scales, rng=seed) for seed in seeds]
        yield f"{name} n={n}", [(truth, _units(X, False)) for X in samples]
    for d, k, graph, n in ((100, 1, "ER", 300), (100, 2, "ER", 300), (100, 2, "SF", 300),
                           (60, 4, "ER", 300), (100, 1, "ER", 500)):  # fmt: skip
        worlds = [world(d, k, graph, seed, n=n) for seed in seeds]
        yield f"{graph}{k} d={d} n={n}", [(truth, _units(X, False)) for truth, X in worlds]


def others(seeds: Sequence[int], resamples: int) -> None:
    """Print the same for other learners, in both units."""
    print("\n| data | units | learner | correlation | one fit | bootstrap |")
    print("|---|---|---|---|---|---|")
    learners = {
        "order-search": OrderSearch(), "proximas": ProxiMAS(),
        "sort-variance": SortRegress(order="variance"), "sort-r2": SortRegress(order="r2"),
    }  # fmt: skip
    for raw in (True, False):
        for name, worlds in tables(seeds, raw):
            if name not in ("arth150 n=1000", "magic-niab n=1000", "ER2 d=300 n=1000"):
                continue
            for word, learner in learners.items():
                rows = []
                for seed, (truth, X) in enumerate(worlds):
                    one = learner.fit(X).dag_
                    many = BootstrapDAG(learner, resamples, random_state=seed).fit(X)
                    rows.append([
                        metrics.average_precision(correlations(X), truth),
                        metrics.average_precision(one, truth),
                        metrics.average_precision(many.edge_freq_, truth),
                    ])  # fmt: skip
                cells = " | ".join(f"{v:.3f}" for v in np.mean(rows, axis=0))
                units = "raw" if raw else "standardised"
                print(f"| {name} | {units} | {word} | {cells} |", flush=True)


def times(resamples: int) -> None:
    """Print the time of the bootstrap over that of one fit (the median of 5), both warm."""
    print("\n| data | one fit, s | bootstrap, s | ratio |")
    print("|---|---|---|---|")
    truth, scales = _network("arth150")
    first = simulate.standardise(simulate.sample(truth, 1000, variance=scales, rng=0))
    second = simulate.standardise(world(1000, 2, "ER", 0)[1])
    for name, X in (("arth150, d=107", first), ("ER2, d=1000", second)):
        OrderSearch(criterion="bic").fit(X)
        BootstrapDAG(n_resamples=2, random_state=0).fit(X)
        ones = []
        for _ in range(5):
            began = time.perf_counter()
            OrderSearch(criterion="bic").fit(X)
            ones.append(time.perf_counter() - began)
        began = time.perf_counter()
        BootstrapDAG(n_resamples=resamples, random_state=0).fit(X)
        took, one = time.perf_counter() - began, float(np.median(ones))
        print(f"| {name} | {one:.3f} | {took:.2f} | {took / one:.1f} |", flush=True)


def large(d: int, resamples: int) -> None:
    """Print time, memory and accuracy at a large d, each side in a process of its own."""
    print(f"\nER1, d = {d}, n = 1000, standardised: seconds, peak memory, average precision\n")
    for count in (0, resamples):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.apply(_large, (d, count)), flush=True)


def _large(d: int, resamples: int) -> str:
    truth, X = world(d, 1, "ER", 0)
    X = simulate.standardise(X)
    began = time.perf_counter()
    if resamples:
        model = BootstrapDAG(n_resamples=resamples, random_state=0).fit(X)
        graph: Any = model.edge_prob_
    else:
        graph = OrderSearch(criterion="bic").fit(X).dag_
    took = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    score = metrics.average_precision(graph, truth)
    side = f"{resamples} resamples" if resamples else "one fit"
    return f"{side}: {took:.0f} s, {peak:.2f} GB, {score:.4f}"


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("accuracy", "elsewhere", "others", "time", "big", "huge")
    parser.add_argument("--parts", nargs="+", default=parts[:-1], choices=parts)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--resamples", type=int, default=100)
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    warnings.simplefilter("ignore")
    if "accuracy" in given.parts:
        accuracy(tables(seeds), given.resamples)
    if "elsewhere" in given.parts:
        accuracy(elsewhere(seeds), given.resamples)
    if "others" in given.parts:
        others(seeds, min(given.resamples, 50))
    if "time" in given.parts:
        times(given.resamples)
    if "big" in given.parts:
        large(5000, 50)
    if "huge" in given.parts:
        large(20_000, 10)


if __name__ == "__main__":
    main()
