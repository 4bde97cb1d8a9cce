"""Tables as people have them: the plain command against named methods and trivial baselines.

    python benchmarks/tables.py [--parts networks damaged missing batch equal time] [--seeds 5]
                                [--networks arth150 magic-niab]
    python benchmarks/tables.py --parts real --table TABLE.npy

``networks``: SHD on samples of networks fitted to real data, raw and in mixed units.
``damaged``, ``missing``, ``batch``: directed F1 after damage, over that on the clean table.
``equal``: simulated data with equal noise variances, where least squares is right, and their
standardised copies. ``time``: of one automatic fit over the two searches it chooses between.
``real``: one real table, by the command, with its memory and what the check says.
n = 500 throughout. Every cell is a mean over the data sets.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from bigdag import DAG, AutoDAG, OrderSearch, SortRegress, metrics, simulate
from bigdag.cli import app
from order import _network, correlations, world

N = 500
NETWORKS = ["arth150", "magic-niab"]  # those of pgmpy that --networks names


def auto(X: Any, **parameters: Any) -> DAG:
    """Return the answer of one automatic fit, ``bigdag fit --no-bootstrap``."""
    return AutoDAG(**parameters).fit(X).dag_


def plain(X: Any, **options: str) -> DAG:
    """Return the answer of ``bigdag fit``, which learns from resamples where that is quick."""
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder, "table.parquet"), Path(folder, "dag.npz")
        frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X).add_prefix("x")
        frame.to_parquet(table)
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        ran = CliRunner().invoke(app, ["fit", str(table), "--out", str(out), *words])
        if ran.exit_code:
            raise SystemExit(ran.output)
        return DAG.load(out)


def bic(X: Any) -> DAG:
    """Return that of ``--method order-search-bic``."""
    return OrderSearch(criterion="bic").fit(X).dag_


def least_squares(X: Any) -> DAG:
    """Return that of ``--method order-search``."""
    return OrderSearch().fit(X).dag_


def by_variance(X: Any) -> DAG:
    """Return the trivial baseline: sort by variance, and one lasso."""
    return SortRegress(order="variance", lambda1=0.1 * float(np.var(X, axis=0).min())).fit(X).dag_


def f1(dag: Any, truth: DAG) -> float:
    """Return the directed F1 of all arcs."""
    return float(metrics.arc_metrics(dag, truth).f1)


def shd(dag: Any, truth: DAG) -> float:
    """Return the structural Hamming distance."""
    return float(metrics.arc_metrics(dag, truth).shd)


def samples(name: str, seeds: int) -> Iterator[tuple[DAG, Any, np.random.Generator]]:
    """Yield a network and its samples, and random numbers for damage to them."""
    truth, scales = _network(name)
    for seed in range(seeds):
        yield (
            truth,
            simulate.sample(truth, N, "gaussian", scales, seed),
            np.random.default_rng([seed, 13]),
        )


def mixed_units(X: Any, rng: np.random.Generator) -> Any:
    """Return columns in units that differ by up to six orders of magnitude."""
    return X * 10.0 ** rng.uniform(-3, 3, X.shape[1])


DAMAGE: dict[str, Callable[[Any, np.random.Generator], Any]] = {
    "log-normal": lambda X, rng: np.exp(simulate.standardise(X)),  # noqa: ARG005
    "1 % outliers, ten times as large": lambda X, rng: np.where(
        rng.random(X.shape) < 0.01, 10 * X, X
    ),
    "counts": lambda X, rng: rng.poisson(np.exp(simulate.standardise(X) + 3)).astype(float),
    "mixed units": mixed_units,
}


def networks(seeds: int) -> None:
    """Print SHD on the networks."""
    rows = []
    for name in NETWORKS:
        for units in ("raw", "mixed units"):
            found: dict[str, list[float]] = {}
            for truth, X, rng in samples(name, seeds):
                table = X if units == "raw" else mixed_units(X, rng)
                sides = {
                    "plain": plain,
                    "auto": auto,
                    "order-search-bic": bic,
                    "sort-variance": by_variance,
                }
                for side, fit in sides.items():
                    found.setdefault(side, []).append(shd(fit(table), truth))
                near = correlations(simulate.standardise(table))["weights"]
                strongest = np.sort(np.abs(near.data))[-2 * truth.n_arcs]
                near.data[np.abs(near.data) < strongest] = 0.0
                near.eliminate_zeros()
                order = np.argsort(np.var(table, axis=0))
                rank = np.empty_like(order)
                rank[order] = np.arange(len(order))
                arcs = near.tocoo()
                arcs.data[rank[arcs.row] > rank[arcs.col]] = 0.0
                found.setdefault("correlation", []).append(shd(arcs.tocsc(), truth))
            means = {side: np.mean(values) for side, values in found.items()}
            limit = means["order-search-bic"] + 3
            rows.append({"table": f"{name} {units}", "empty": truth.n_arcs, **means,
                         "reached": "yes" if means["plain"] <= limit else "no"})  # fmt: skip
    show("SHD; to reach: plain <= order-search-bic + 3", rows)


def over_the_clean_table(
    title: str, cases: dict[str, tuple[Callable[..., Any], float]], seeds: int
) -> None:
    """Print F1 of each case over that of the plain command on the clean table."""
    rows = []
    for name in NETWORKS:
        clean, found = [], {case: [] for case in cases}
        for truth, X, rng in samples(name, seeds):
            clean.append(f1(plain(X), truth))
            for case, (fit, _) in cases.items():
                found[case].append(f1(fit(X, rng), truth))
        for case, (_, goal) in cases.items():
            share = np.mean(found[case]) / np.mean(clean)
            rows.append({"table": name, "case": case, "F1, clean": np.mean(clean),
                         "F1": np.mean(found[case]), "ratio": share, "to reach": goal,
                         "reached": "yes" if share >= goal else "no"})  # fmt: skip
    show(title, rows)


def damaged(seeds: int) -> None:
    """Print F1 on damaged tables, by the plain command, and without a transform."""
    cases: dict[str, Any] = {}
    for word, damage in DAMAGE.items():
        cases[word] = (lambda X, rng, d=damage: plain(d(X, rng)), 0.85)
        cases[f"{word}, order-search-bic as it is"] = (lambda X, rng, d=damage: bic(d(X, rng)), 0)
    over_the_clean_table("Damaged tables, F1 over that of the clean one", cases, seeds)


def missing(seeds: int) -> None:
    """Print F1 with values missing at random."""
    cases: dict[str, Any] = {}
    for share, goal in ((0.03, 0.9), (0.2, 0.75)):
        for how in ("pairwise", "em"):

            def fit(X: Any, rng: Any, share: float = share, how: str = how) -> DAG:
                return plain(np.where(rng.random(X.shape) < share, np.nan, X), missing=how)

            cases[f"{share:.0%} missing, {how}"] = (fit, goal)

        def filled(X: Any, rng: Any, share: float = share) -> DAG:
            gone = rng.random(X.shape) < share
            return plain(np.where(gone, X.mean(axis=0), X))

        cases[f"{share:.0%} missing, filled by means"] = (filled, 0)
    over_the_clean_table("Missing values, F1 over that of the complete table", cases, seeds)


def batch(seeds: int) -> None:
    """Print F1 with a batch effect, adjusted for and not."""

    def shifted(X: Any, rng: Any) -> pd.DataFrame:
        group = rng.permutation(np.arange(len(X)) % 2)
        shift = rng.normal(size=X.shape[1]) * 2 * X.std(axis=0)
        return pd.DataFrame(X + group[:, None] * shift).add_prefix("v").assign(plate=group)

    def adjusted(X: Any, rng: Any) -> DAG:
        return DAG(plain(shifted(X, rng), batch="plate").weights)

    def ignored(X: Any, rng: Any) -> DAG:
        return DAG(plain(shifted(X, rng).drop(columns="plate")).weights)

    cases: dict[str, Any] = {"batch": (adjusted, 0.9), "not adjusted": (ignored, 0)}
    over_the_clean_table("A batch effect, F1 over that without it", cases, seeds)


def equal(seeds: int) -> None:
    """Print what the automatic method gives where least squares is right, and where it is not."""
    rows = []
    for k in (1, 2, 4):
        raw, scaled, trivial, chosen = [], [], [], []
        for seed in range(seeds):
            truth, X = world(300, k, "ER", seed, N)
            model = AutoDAG().fit(X)
            chosen.append(model.assumption_ == "equal variances")
            pair = (plain(X), model.dag_, least_squares(X), by_variance(X))
            raw.append([metrics.average_precision(dag, truth) for dag in pair])
            Z = simulate.standardise(X)
            model = AutoDAG().fit(Z)
            chosen.append(model.assumption_ == "own variances")
            scaled.append(
                [f1(dag, truth) for dag in (plain(Z), model.dag_, bic(Z), by_variance(Z))]
            )
            trivial.append(truth.n_arcs)
        for word, values in (("raw, AP", raw), ("standardised, F1", scaled)):
            mine, once, named, sorting = np.mean(values, axis=0)
            rows.append({"table": f"ER{k} d=300 {word}", "plain": mine, "auto, one fit": once,
                         "named search": named,
                         "sort-variance": sorting, "ratio": mine / named,
                         "chosen rightly": f"{sum(chosen)} of {len(chosen)}",
                         "reached": "yes" if mine / named >= 0.99 else "no"})  # fmt: skip
    show("Equal noise variances; to reach: ratio >= 0.99", rows)


def times(seeds: int) -> None:
    """Print the time of the automatic method over that of the two searches."""
    rows = []
    for units in ("raw", "standardised"):
        ratios = []
        for seed in range(min(seeds, 3)):
            _, X = world(1000, 2, "ER", seed, 1000)
            X = X if units == "raw" else simulate.standardise(X)
            seconds = []
            for fit in (auto, bic, least_squares):
                began = time.perf_counter()
                fit(X)
                seconds.append(time.perf_counter() - began)
            ratios.append(seconds[0] / sum(seconds[1:]))
        rows.append({"table": f"ER2 d=1000 {units}", "auto / (both searches)": np.mean(ratios),
                     "reached": "yes" if np.mean(ratios) <= 1.2 else "no"})  # fmt: skip
    show("Time; to reach: <= 1.2", rows)


def real(table: str) -> None:
    """Print what the command says of a real table, its time and memory."""
    command = [sys.executable, "-m", "bigdag.cli"]
    subprocess.run([*command, "check", table], check=True)
    began = time.perf_counter()
    subprocess.run([*command, "fit", table, "--out", "/tmp/real.parquet", "--force"], check=True)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(f"\n{seconds:.0f} s, peak {peak / 2**30:.2f} GB (to reach: 300 s, 4 GB)")


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows as a Markdown table."""
    frame = pd.DataFrame(rows)
    print(f"\n### {title}\n")
    print(frame.to_markdown(index=False, floatfmt=".3g") if _tabulate() else frame.to_string())
    print(json.dumps({title: rows}, default=float), file=sys.stderr)


def _tabulate() -> bool:
    try:
        import tabulate  # noqa: F401
    except ImportError:
        return False
    return True


PARTS: dict[str, Callable[[int], None]] = {
    "networks": networks, "damaged": damaged, "missing": missing, "batch": batch, "equal": equal,
    "time": times,
}  # fmt: skip


def main() -> None:
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=[*PARTS, "real"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--table", help="for the part real")
    options = parser.parse_args()
    NETWORKS[:] = options.networks
    warnings.simplefilter("ignore")
    for part in options.parts:
        if part == "real":
            real(options.table)
        else:
            PARTS[part](options.seeds)


if __name__ == "__main__":
    main()
