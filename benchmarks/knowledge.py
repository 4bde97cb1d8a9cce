"""What knowledge brings: exactness, speed with regulators, accuracy with tiers; all in one run.

    python benchmarks/knowledge.py [--parts kept regulators wide tiers target cost] [--seeds 1]
        [--some 300] [--before FOLDER]

``kept``: random graphs × random consistent knowledge × every learner, a third of them cut short by
a deadline; counts violations. ``regulators``: 4,218 variables, 266 samples, 239 regulators; the
time of one fit and of 100 bootstrap resamples, and the average precision over regulator → variable
pairs against absolute correlation, CLR, one lasso a variable and random forests (GENIE3), the last
two on 300 of the variables. ``wide``: 100,000 variables, 500 samples, 1,500 regulators; time and
peak memory. ``tiers``: samples of arth150 with its true tiers in five groups. ``target``: the
neighbourhood of one column, against the whole fit at d = 5,000, and its time in 100,000 columns.
``cost``: fits without knowledge, in turns with those of another version, whose sources --before
names. Times are given in seconds and in seconds of processor time, which other work on the machine
changes less; the load is beside them. Writes JSON beside the table.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bigdag import BootstrapDAG, Knowledge, OrderSearch, simulate
from bigdag.data.dataset import as_dataset
from bigdag.errors import DataError

RESAMPLES = 100


class Clock:
    """Seconds, and seconds of processor time of all threads, since it was made."""

    def __init__(self) -> None:
        self.began = time.perf_counter(), time.process_time()

    def read(self, what: str) -> dict[str, float]:
        """Return both under names that say of what."""
        return {
            f"seconds, {what}": time.perf_counter() - self.began[0],
            f"CPU seconds, {what}": time.process_time() - self.began[1],
        }


# ------------------------------------------------------------------ data


def regulated(
    d: int, n: int, regulators: int, seed: int, factors: int = 5
) -> tuple[NDArray[np.float64], sp.csc_array]:
    """Return samples and the true arcs.

    The regulators come first; among themselves they are a random graph with one arc each. Each
    other variable has one to three of them as parents. The noise of all is correlated by a few
    hidden factors.
    """
    rng = np.random.default_rng([seed, 15])
    inner = simulate.random_dag(regulators, 1, rng=rng)
    X = np.empty((n, d))
    X[:, :regulators] = simulate.standardise(simulate.sample(inner, n, rng=rng))
    hidden = rng.normal(size=(n, factors))
    arcs = inner.weights.tocoo()
    rows, columns = [arcs.row], [arcs.col]
    for v in range(regulators, d):
        parents = rng.choice(regulators, size=rng.integers(1, 4), replace=False)
        weights = rng.uniform(0.3, 1.0, len(parents)) * rng.choice([-1, 1], len(parents))
        noise = rng.normal(size=n) + hidden @ (0.5 * rng.normal(size=factors))
        X[:, v] = X[:, parents] @ weights + noise
        rows.append(parents)
        columns.append(np.full(len(parents), v))
    ends = np.concatenate(rows), np.concatenate(columns)
    return X, sp.csc_array((np.ones(len(ends[0])), ends), shape=(d, d))


def names_of(count: int) -> list[str]:
    """Return the names of the first variables of a table without names."""
    return [f"x{j}" for j in range(count)]


# ------------------------------------------------------------------ rankings of pairs


def precision(scores: NDArray[np.float64], truth: NDArray[np.bool_]) -> float:
    """Return the average precision of scores (regulators, variables), a variable's own left out."""
    from sklearn.metrics import average_precision_score

    apart = ~np.eye(*scores.shape, dtype=bool)
    return float(average_precision_score(truth[apart], scores[apart]))


def correlation(X: NDArray[np.float64], r: int) -> NDArray[np.float64]:
    """Return absolute correlations of the regulators with all variables."""
    Z = simulate.standardise(X) / np.sqrt(len(X))
    return np.abs(Z[:, :r].T @ Z)


def clr(X: NDArray[np.float64], r: int) -> NDArray[np.float64]:
    """Return the context likelihood of relatedness (Faith et al. 2007), of Gaussian information."""
    size = correlation(X, r)
    np.fill_diagonal(size, 0.0)
    information = -0.5 * np.log1p(-(np.minimum(size, 1 - 1e-12) ** 2))
    by_row = (information - information.mean(1)[:, None]) / information.std(1)[:, None]
    by_column = (information - information.mean(0)) / information.std(0)
    return np.hypot(np.maximum(by_row, 0), np.maximum(by_column, 0))


def one_lasso(X: NDArray[np.float64], r: int, variables: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the absolute weights of one cross-validated lasso on the regulators, for some."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LassoCV

    Z, scores = simulate.standardise(X), np.zeros((r, len(variables)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for a, v in enumerate(variables):
            others = np.flatnonzero(np.arange(r) != v)
            fit = LassoCV(cv=3, alphas=20, n_jobs=1).fit(Z[:, others], Z[:, v])
            scores[others, a] = np.abs(fit.coef_)
    return scores


def forests(X: NDArray[np.float64], r: int, variables: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return GENIE3's importances for some variables (Huynh-Thu et al. 2010)."""
    from sklearn.ensemble import RandomForestRegressor

    Z, scores = simulate.standardise(X), np.zeros((r, len(variables)))
    for a, v in enumerate(variables):
        others = np.flatnonzero(np.arange(r) != v)
        forest = RandomForestRegressor(
            1000, max_features="sqrt", n_jobs=-1, random_state=int(v)
        ).fit(Z[:, others], Z[:, v])
        scores[others, a] = forest.feature_importances_
    return scores


def resampled(
    X: NDArray[np.float64], r: int, resamples: int, penalty: float, seed: int = 0
) -> NDArray[np.float64]:
    """Return the share of bootstrap resamples that have each arc, by its size where equal."""
    learner = OrderSearch(
        criterion="bic", penalty=penalty, knowledge=Knowledge(regulators=names_of(r))
    )
    model = BootstrapDAG(learner, n_resamples=resamples, random_state=seed).fit(X)
    sd = sp.diags_array(X.std(axis=0))
    size = abs(sd @ sum(model.resamples_) @ sp.diags_array(1 / X.std(axis=0)))
    return np.asarray((model.edge_freq_ + 0.01 / resamples * size)[:r].toarray())


# ------------------------------------------------------------------ parts


def part_kept(seed: int) -> dict[str, Any]:
    """Count violations over random graphs, random knowledge and every learner."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from hypothesis import HealthCheck, given, settings
    from hypothesis import seed as with_seed
    from tests.strategies import known_cases
    from tests.test_knowledge import BOOTSTRAPS, LEARNERS, check_kept, deadline_at_look

    makers = {word: lambda known, make=make: make().set_params(knowledge=known)
              for word, make in LEARNERS.items()}  # fmt: skip
    makers |= {f"bootstrap of {word}": make for word, make in BOOTSTRAPS.items()}
    rng = np.random.default_rng(seed)
    count = {"fits": 0, "cut short": 0, "refused: constant regulators": 0, "violations": 0}

    @with_seed(seed)
    @settings(max_examples=150, deadline=None, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(case=known_cases())
    def every_learner(case: Any) -> None:
        varies = case.X.std(axis=0) > 0
        stuck = not (case.possible.any(axis=1) & varies).any()
        for make in makers.values():
            learner = make(Knowledge(**case.known))
            look = rng.choice([1, 2, 4, 9]) if rng.random() < 1 / 3 else None
            with deadline_at_look(look) as passed:
                try:
                    learner.fit(case.X)
                except DataError as error:
                    if not (stuck and "constant" in str(error)):
                        raise
                    count["refused: constant regulators"] += 1
                    continue
            count["fits"] += 1
            count["cut short"] += bool(passed)
            try:
                check_kept(learner, case)
            except AssertionError:
                count["violations"] += 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every_learner()
    return {"learners and settings": len(makers), **count}


def part_regulators(
    seed: int, some: int = 300, d: int = 4218, n: int = 266, r: int = 239
) -> dict[str, Any]:
    """Time one fit and 100 resamples, and compare rankings of pairs.

    One lasso a variable and forests take long, and are computed for some of the variables that are
    no regulators; all others are compared on the same ones, too.
    """
    X, arcs = regulated(d, n, r, seed)
    truth = np.asarray((arcs[:r] != 0).toarray())
    known = Knowledge(regulators=names_of(r))
    OrderSearch(criterion="bic", knowledge=Knowledge(regulators=["x0"])).fit(X[:, :12])  # compiles
    clock = Clock()
    one = OrderSearch(criterion="bic", knowledge=known).fit(X)
    row: dict[str, Any] = clock.read("one fit")
    hits = int((one.weights_ != 0).multiply(arcs != 0).nnz)
    row |= {"recall, one fit": hits / arcs.nnz, "precision, one fit": hits / one.weights_.nnz}
    print(row, flush=True)
    scores = {"one fit by size": np.abs(one.weights_[:r].toarray())}
    for penalty in (1.0, 0.5):
        word = f"{RESAMPLES} resamples, penalty {penalty}"
        clock = Clock()
        scores[word] = resampled(X, r, RESAMPLES, penalty)
        row |= clock.read(word)
        print(word, precision(scores[word], truth), clock.read(word), flush=True)
    scores |= {"absolute correlation": correlation(X, r), "CLR": clr(X, r)}
    row |= {f"AP, {word}": precision(size, truth) for word, size in scores.items()}
    chosen = np.random.default_rng(0).choice(np.arange(r, d), size=some, replace=False)
    on_some = {word: size[:, chosen] for word, size in scores.items()}
    for word, rank in {"one lasso a variable": one_lasso, "forests": forests}.items():
        clock = Clock()
        on_some[word] = rank(X, r, chosen)
        row |= clock.read(f"{word}, on {some}")
        print(word, clock.read(word), flush=True)
    from sklearn.metrics import average_precision_score

    for word, size in on_some.items():
        found = average_precision_score(truth[:, chosen].ravel(), size.ravel())
        row[f"AP on {some}, {word}"] = float(found)
    ours = row[f"CPU seconds, {RESAMPLES} resamples, penalty 0.5"]
    theirs = row[f"CPU seconds, forests, on {some}"] * d / some
    row["CPU seconds of the resamples over those of forests on all (scaled up)"] = ours / theirs
    return row


def part_wide(seed: int, d: int = 100_000, n: int = 500, r: int = 1500) -> dict[str, Any]:
    """Fit 100,000 variables with 1,500 regulators, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_wide, (seed, d, n, r))


def _wide(seed: int, d: int, n: int, r: int) -> dict[str, Any]:
    X, arcs = regulated(d, n, r, seed)
    OrderSearch(criterion="bic", knowledge=Knowledge(regulators=["x0"])).fit(X[:, :12])
    before, clock = peak_gb(), Clock()
    model = OrderSearch(criterion="bic", knowledge=Knowledge(regulators=names_of(r))).fit(X)
    took = clock.read("one fit")
    hits = int((model.weights_ != 0).multiply(arcs != 0).nnz)
    return took | {
        "peak GB": peak_gb(), "peak GB before the fit (making the table)": before,
        "GB of the table": X.nbytes / 2**30, "recall": hits / arcs.nnz,
        "precision": hits / model.weights_.nnz,
    }  # fmt: skip


def peak_gb() -> float:
    """Return the most memory that this process has taken so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def part_tiers(seed: int, n: int = 500) -> dict[str, Any]:
    """Compare directed F1 on arth150 with and without its true tiers in five groups."""
    from order import _network

    truth, scales = _network("arth150")
    rng = np.random.default_rng([seed, 150])
    X = simulate.sample(truth, n, variance=scales, rng=rng)
    d = truth.n_nodes
    orders = {"true tiers": truth.order, "tiers drawn at random": rng.permutation(d)}
    row: dict[str, Any] = {}
    for word, order in {"no knowledge": None, **orders}.items():
        known = None
        if order is not None:
            parts = np.array_split(order, 5)
            known = Knowledge(temporal_order=[[f"x{v}" for v in part] for part in parts])
        found = OrderSearch(criterion="bic", knowledge=known).fit(X)
        arcs = found.cpdag_
        directed = sp.csc_array((arcs - arcs.T) > 0)
        hits = int(directed.multiply(truth.weights != 0).nnz)
        row[f"F1 of the DAG, {word}"] = _f1(found.weights_, truth.weights)
        row[f"F1 of its directed arcs, {word}"] = 2 * hits / (found.weights_.nnz + truth.n_arcs)
    for word, parts in {"random directions": 1, "the true tiers": 5}.items():
        tier = np.empty(d)
        for k, part in enumerate(np.array_split(truth.order, parts)):
            tier[part] = k
        row[f"F1 of the strongest correlations, {word}"] = _f1(
            _strongest(X, truth.n_arcs, tier, rng), truth.weights
        )
    return row


def _strongest(
    X: NDArray[np.float64], count: int, tier: NDArray[np.float64], rng: np.random.Generator
) -> sp.csc_array:
    """Return as many pairs as there are arcs, directed by tiers and within one at random."""
    d = X.shape[1]
    size = correlation(X, d)[np.triu_indices(d, 1)]
    i, j = (end[np.argsort(-size)[:count]] for end in np.triu_indices(d, 1))
    turn = np.where(tier[i] == tier[j], rng.random(count) < 0.5, tier[i] > tier[j])
    ends = np.where(turn, j, i), np.where(turn, i, j)
    return sp.csc_array((np.ones(count), ends), shape=(d, d))


def _f1(found: sp.csc_array, truth: sp.csc_array) -> float:
    hits = int((found != 0).multiply(truth != 0).nnz)
    return 2 * hits / max(1, found.nnz + truth.nnz)


def part_target(seed: int, d: int = 5000, n: int = 1000, wide: int = 100_000) -> dict[str, Any]:
    """Compare neighbourhoods with those of the whole fit, and time one in a huge table."""
    rng = np.random.default_rng([seed, 7])
    X = simulate.standardise(simulate.sample(simulate.random_dag(d, 1, rng=rng), n, rng=rng))
    data = as_dataset(X)
    whole = OrderSearch(criterion="bic").fit(data).dag_
    wanted, found, both, seconds, alone = 0, 0, 0, [], 0
    for v in rng.choice(d, size=30, replace=False):
        near = whole.neighbourhood(int(v), 2)
        began = time.perf_counter()
        model = OrderSearch(criterion="bic").fit_around(data, int(v), 2)
        seconds.append(time.perf_counter() - began)
        one, other = ({frozenset(e) for e in dag.edges()[["source", "target"]].to_numpy().tolist()}
                      for dag in (near, model.dag_))  # fmt: skip
        wanted, found, both = wanted + len(one), found + len(other), both + len(one & other)
        alone += len(one) == 0
    row = {"arcs of the whole fit that are found": both / wanted,
           "arcs found that the whole fit has": both / found,
           "seconds, d = 5,000": float(np.median(seconds)), "isolated": alone}  # fmt: skip
    X = simulate.sample(simulate.random_dag(wide, 1, rng=rng), n, rng=rng)
    clock = Clock()
    data = as_dataset(X)
    row |= clock.read(f"d = {wide:,}, checking the table")
    times: dict[str, list[float]] = {}
    for v in rng.choice(wide, size=5, replace=False):
        clock = Clock()
        OrderSearch(criterion="bic").fit_around(data, int(v), 2)
        for what, took in clock.read(f"d = {wide:,}, the longest of 5").items():
            times.setdefault(what, []).append(took)
    return row | {what: max(took) for what, took in times.items()}


# Answers each line on its standard input by the processor time of that fit; runs in both versions.
_WORKER = """
import sys, time
from bigdag import ProxiMAS, SortRegress, OrderSearch, simulate
from bigdag.data.dataset import as_dataset
from bigdag.engine import lasso
from bigdag.engine.gram import Gram
def one_lasso(X):
    lasso.solve(Gram(as_dataset(X)), 0.1)
MAKE = {
    "lasso": (500, one_lasso),
    "SortRegress": (500, lambda X: SortRegress().fit(X)),
    "ProxiMAS": (300, lambda X: ProxiMAS(max_iter=50).fit(X)),
    "least squares": (500, lambda X: OrderSearch().fit(X)),
    "BIC": (300, lambda X: OrderSearch(criterion="bic").fit(X)),
}
data = {}
for word in sys.stdin:
    d, fit = MAKE[word.strip()]
    if d not in data:
        data[d] = simulate.sample(simulate.random_dag(d, 2, rng=0), 500, rng=0)
    began = time.process_time()
    fit(data[d])
    print(time.process_time() - began, flush=True)
"""
_CASES = ("lasso", "SortRegress", "ProxiMAS", "least squares", "BIC")


def part_cost(seed: int, before: Path | None = None, repeats: int = 9) -> dict[str, Any]:  # noqa: ARG001
    """Time fits without knowledge in this and in another version, in turns; ratios of medians."""
    here = Path(__file__).parents[1] / "src"
    sides = {"now": here} if before is None else {"now": here, "before": before}
    workers = {
        side: subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _WORKER], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(folder)},
        )
        for side, folder in sides.items()
    }  # fmt: skip

    def fit(side: str, word: str) -> float:
        worker = workers[side]
        assert worker.stdin is not None and worker.stdout is not None  # noqa: PT018
        worker.stdin.write(f"{word}\n")
        worker.stdin.flush()
        return float(worker.stdout.readline())

    row: dict[str, Any] = {}
    for word in _CASES:
        took: dict[str, list[float]] = {side: [] for side in sides}
        for turn in range(repeats + 1):
            for side in list(sides)[:: -1 if turn % 2 else 1]:
                took[side].append(fit(side, word))
        middle = {side: float(np.median(times[1:])) for side, times in took.items()}  # compiled
        row |= {f"CPU seconds, {word}, {side}": value for side, value in middle.items()}
        if before is not None:
            row[f"ratio, {word}"] = middle["now"] / middle["before"]
            print(word, middle, flush=True)
    for worker in workers.values():
        worker.communicate()
    return row


PARTS = {
    "kept": part_kept, "regulators": part_regulators, "wide": part_wide, "tiers": part_tiers,
    "target": part_target, "cost": part_cost,
}  # fmt: skip


def main() -> None:
    """Run the parts that are asked for, and print a table of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--some", type=int, default=300, help="variables of the lasso and forests")
    parser.add_argument("--before", type=Path, help="the folder src of another version, for cost")
    parser.add_argument("--out", type=Path, default=Path("knowledge.json"))
    given = parser.parse_args()
    results: dict[str, list[dict[str, Any]]] = {}
    for part in given.parts:
        more = {"cost": {"before": given.before}, "regulators": {"some": given.some}}.get(part, {})
        results[part] = []
        for seed in range(given.seeds):
            row = PARTS[part](seed, **more)
            results[part].append(row | {"load at the end": os.getloadavg()[0]})
        print(f"\n{part}\n")
        print("| what | " + " | ".join(f"seed {s}" for s in range(given.seeds)) + " |")
        print("|---|" + "---|" * given.seeds)
        for name in results[part][0]:
            cells = [row[name] for row in results[part]]
            shown = (f"{c:.3g}" if isinstance(c, float) else f"{c}" for c in cells)
            print(f"| {name} | {' | '.join(shown)} |", flush=True)
        given.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
