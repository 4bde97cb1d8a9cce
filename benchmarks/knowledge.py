"""What knowledge brings: exactness, speed with regulators, accuracy with tiers; all in one run.

    python benchmarks/knowledge.py [--parts kept regulators wide tiers target cost] [--seeds 1]

``kept``: random graphs × random consistent knowledge × every learner, some cut short by a deadline;
counts violations. ``regulators``: 4,218 variables, 266 samples, 239 regulators; the time of one fit
and of 100 bootstrap resamples, and the average precision over regulator → variable pairs against
absolute correlation, CLR, one lasso a variable and random forests (GENIE3, on 300 of the
variables). ``wide``: 100,000 variables, 500 samples, 1,500 regulators; time and peak memory.
``tiers``: samples of arth150 with its true tiers in five groups. ``target``: the neighbourhood of
one column, against the whole fit at d = 5,000, and its time in 100,000 columns. ``cost``: fits
without knowledge, for a comparison with another version on the same machine. Writes JSON beside the
table.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
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


def one_lasso(X: NDArray[np.float64], r: int) -> NDArray[np.float64]:
    """Return the absolute weights of one cross-validated lasso a variable on the regulators."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LassoCV

    Z, scores = simulate.standardise(X), np.zeros((r, X.shape[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for v in range(X.shape[1]):
            others = np.flatnonzero(np.arange(r) != v)
            fit = LassoCV(cv=3, alphas=20, n_jobs=1).fit(Z[:, others], Z[:, v])
            scores[others, v] = np.abs(fit.coef_)
    return scores


def forests(
    X: NDArray[np.float64], r: int, variables: NDArray[np.int64]
) -> tuple[NDArray[np.float64], float]:
    """Return GENIE3's importances for some variables (Huynh-Thu et al. 2010), and the seconds."""
    from sklearn.ensemble import RandomForestRegressor

    Z, scores = simulate.standardise(X), np.zeros((r, len(variables)))
    began = time.perf_counter()
    for a, v in enumerate(variables):
        others = np.flatnonzero(np.arange(r) != v)
        forest = RandomForestRegressor(
            1000, max_features="sqrt", n_jobs=-1, random_state=int(v)
        ).fit(Z[:, others], Z[:, v])
        scores[others, a] = forest.feature_importances_
    return scores, time.perf_counter() - began


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
    from tests.test_knowledge import LEARNERS, check_kept, deadline_at_look

    fits, violations = 0, 0

    @with_seed(seed)
    @settings(max_examples=150, deadline=None, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(case=known_cases())
    def every_learner(case: Any) -> None:
        nonlocal fits, violations
        for i, make in enumerate(LEARNERS.values()):
            learner = make().set_params(knowledge=Knowledge(**case.known))
            with deadline_at_look([None, None, 3][(fits + i) % 3]):
                try:
                    learner.fit(case.X)
                except DataError:  # the only regulators are constant columns
                    continue
            fits += 1
            try:
                check_kept(learner, case)
            except AssertionError:
                violations += 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every_learner()
    return {"fits": fits, "learners": len(LEARNERS), "violations": violations}


def part_regulators(seed: int, d: int = 4218, n: int = 266, r: int = 239) -> dict[str, Any]:
    """Time one fit and 100 resamples, and compare rankings of pairs."""
    X, arcs = regulated(d, n, r, seed)
    truth = np.asarray((arcs[:r] != 0).toarray())
    known = Knowledge(regulators=names_of(r))
    OrderSearch(criterion="bic", knowledge=Knowledge(regulators=["x0"])).fit(X[:, :12])  # compiles
    began = time.perf_counter()
    one = OrderSearch(criterion="bic", knowledge=known).fit(X)
    row: dict[str, Any] = {"seconds, one fit": time.perf_counter() - began}
    hits = int((one.weights_ != 0).multiply(arcs != 0).nnz)
    row |= {"recall, one fit": hits / arcs.nnz, "precision, one fit": hits / one.weights_.nnz}
    row["AP, one fit by size"] = precision(np.abs(one.weights_[:r].toarray()), truth)
    for penalty in (1.0, 0.5):
        began = time.perf_counter()
        scores = resampled(X, r, RESAMPLES, penalty)
        row[f"seconds, {RESAMPLES} resamples, penalty {penalty}"] = time.perf_counter() - began
        row[f"AP, {RESAMPLES} resamples, penalty {penalty}"] = precision(scores, truth)
        if penalty == 0.5:
            ours = scores
    row["AP, absolute correlation"] = precision(correlation(X, r), truth)
    row["AP, CLR"] = precision(clr(X, r), truth)
    began = time.perf_counter()
    row["AP, one lasso a variable"] = precision(one_lasso(X, r), truth)
    row["seconds, one lasso a variable"] = time.perf_counter() - began
    some = np.random.default_rng(0).choice(np.arange(r, d), size=300, replace=False)
    importances, seconds = forests(X, r, some)
    from sklearn.metrics import average_precision_score

    row["AP on 300, forests"] = float(
        average_precision_score(truth[:, some].ravel(), importances.ravel())
    )
    row["AP on 300, resamples"] = float(
        average_precision_score(truth[:, some].ravel(), ours[:, some].ravel())
    )
    row["seconds, forests on 300"] = seconds
    row["seconds, forests on all (scaled up)"] = seconds * d / 300
    return row


def part_wide(seed: int, d: int = 100_000, n: int = 500, r: int = 1500) -> dict[str, Any]:
    """Fit 100,000 variables with 1,500 regulators, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_wide, (seed, d, n, r))


def _wide(seed: int, d: int, n: int, r: int) -> dict[str, Any]:
    X, arcs = regulated(d, n, r, seed)
    OrderSearch(criterion="bic", knowledge=Knowledge(regulators=["x0"])).fit(X[:, :12])
    began = time.perf_counter()
    model = OrderSearch(criterion="bic", knowledge=Knowledge(regulators=names_of(r))).fit(X)
    seconds = time.perf_counter() - began
    hits = int((model.weights_ != 0).multiply(arcs != 0).nnz)
    return {
        "seconds": seconds, "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "recall": hits / arcs.nnz, "precision": hits / model.weights_.nnz,
    }  # fmt: skip


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
    return row


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
    data = as_dataset(X)
    times = []
    for v in rng.choice(wide, size=5, replace=False):
        began = time.perf_counter()
        OrderSearch(criterion="bic").fit_around(data, int(v), 2)
        times.append(time.perf_counter() - began)
    return row | {f"seconds, d = {wide:,}, the longest of 5": max(times)}


def part_cost(seed: int) -> dict[str, Any]:
    """Time fits without knowledge: the least of five, to be compared with another version's."""
    from bigdag import GD, ProxiMAS

    row = {}
    for word, d, make in (
        ("BIC", 400, lambda: OrderSearch(criterion="bic")),
        ("least squares", 600, OrderSearch),
        ("ProxiMAS", 400, ProxiMAS),
        ("GD", 100, lambda: GD(n_restarts=2, random_state=0)),
    ):
        X = simulate.sample(simulate.random_dag(d, 2, rng=seed), 500, rng=seed)
        make().fit(X[:, :20])
        times = []
        for _ in range(5):
            began = time.perf_counter()
            make().fit(X)
            times.append(time.perf_counter() - began)
        row[f"seconds, {word}"] = min(times)
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
    parser.add_argument("--out", type=Path, default=Path("knowledge.json"))
    given = parser.parse_args()
    results: dict[str, list[dict[str, Any]]] = {}
    for part in given.parts:
        results[part] = [PARTS[part](seed) for seed in range(given.seeds)]
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
