"""Stores with made-up runs, of the shape that the runner writes, for the tests of the report."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from bigdag.experiments.store import Store

METHODS = [
    ("ProxiMAS", "proximas", {"lambda1": 0.1, "refit": False}, 0.93),
    ("OptiMAS", "optimas", {"lambda1": 0.1}, 0.9),
    ("NOTEARS", "notears", {"lambda1": 0.1}, 0.6),
    ("GOLEM-EV", "golem-ev", {"lambda1": 0.02}, 0.5),
    ("GOLEM-NV", "golem-nv", {"lambda1": 0.002}, 0.4),
    ("GD", "gd", {"lambda1": 0.1}, 0.85),
    ("sort by variance", "sort-variance", {}, 0.91),
    ("sort by R²", "sort-r2", {}, 0.55),
    ("random order", "sort-random", {}, 0.3),
    ("least variance", "least-variance", {}, 0.99),
    ("lasso, one projection", "lasso-mas", {}, 0.8),
    ("no arcs", "empty", {}, 0.001),
    ("ProxiMAS, our defaults", "proximas", {}, 0.97),
    ("OptiMAS, LBFGS", "optimas", {"optimiser": "LBFGS"}, 0.88),
    ("GD, no swaps", "gd", {"swaps": False}, 0.75),
    ("sort by variance, λ1 0.2", "sort-variance", {"lambda1": 0.2}, 0.87),
]


def job(method=METHODS[0], experiment="exp1", preset="smoke", seed=0, **dataset):
    name, word, parameters, _ = method
    about = {
        "graph": "ER", "k": 1, "d": 100, "n": 200, "noise": "gaussian", "variance": "EV",
        "units": "raw", "seed": seed,
    } | dataset  # fmt: skip
    about.setdefault("name", "{graph}{k} {noise}-{variance} d={d} n={n}".format(**about))
    body = {
        "experiment": experiment, "preset": preset, "dataset": about,
        "method": {"name": name, "word": word, "parameters": parameters},
        "thresholds": [0.1, 0.3, 0.5], "threads": 2, "memory_limit": 4 * 2**30,
        "time_limit": 60.0, "snapshot_every": 10.0 if experiment == "exp2" else None, "seed": seed,
    }  # fmt: skip
    key = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return {"run": key[:16], **body}


def record(job, precision=0.9, status="converged", message="", truth=True):
    rng = np.random.default_rng(int(job["run"], 16))
    about, word = job["dataset"], job["method"]["word"]
    if status in ("error", "crashed", "out_of_memory", "timeout"):
        return {"run": job["run"], "status": status, "message": message, "seconds": None}
    hard = about.get("k") or 1
    standard = 0.5 if about["units"] != "raw" and not word.startswith("sort-r") else 1.0
    size = (about.get("d") or 100) / 100
    ap = precision * standard - 0.05 * (hard - 1) - 0.02 * np.log2(size) + rng.normal(0, 0.02)
    ap = float(np.clip(ap, 0.0005, 0.999))
    seconds = float(rng.uniform(1, 60))
    raw = word in ("notears", "golem-ev", "golem-nv")
    times = np.geomspace(0.02, seconds, 80)
    floor = 50 * size * (1.3 - 0.3 * precision)
    curve = floor * (1 + 4 * np.exp(-6 * times / seconds))
    scores = []

    def score(metric, value, **other):
        common = {"snapshot": None, "weights": "dag", "directed": True, "threshold": None}
        scores.append(common | other | {"metric": metric, "value": float(value)})

    for weights in ("dag", "raw") if raw else ("dag",):
        if not truth:
            break
        worse = 0.03 if weights == "dag" and raw else 0.0
        for directed in (True, False):
            shift = (0.0 if directed else 0.4 * (1 - ap)) - worse
            score("average_precision", ap + shift, weights=weights, directed=directed)
            for threshold in job["thresholds"]:
                for metric in ("shd", "shd_per_node", "fnr", "fpr", "precision", "recall", "f1"):
                    value = (1 - ap) * 100 if metric == "shd" else ap + shift
                    score(metric, value, weights=weights, directed=directed, threshold=threshold)
        if job["snapshot_every"]:
            for share in np.linspace(0.1, 1, 10):
                value = ap * (1 - np.exp(-5 * share)) - worse
                score("average_precision", value, weights=weights, snapshot=share * seconds)
    score("nll_ev", 10 * size)
    score("nll_nv", 11 * size)
    phases = {"fit": 0.01 * size, "mas": 0.02 * size} if "mas" in word else {"fit": 0.03 * size**2}
    sortability = {"var": 0.97 if standard == 1 else 0.5, "r2": 0.7, "var_found": precision}
    return {
        "run": job["run"], "status": status, "message": message, "seconds": seconds,
        "iterations": 100, "phase_seconds": phases, "phase_steps": dict.fromkeys(phases, 50),
        "peak_bytes": int(2e8 * size**1.5 * (1 + rng.uniform())), "threads": 2,
        "versions": {"bigdag": "0.1.0", "python": "3.11.2", "numpy": "2.4.6"},
        "machine": {"processor": "a processor", "cores": 2, "memory": "24 GB"},
        "objective": float(curve[-1]), "n_arcs": int(100 * size),
        "curve": np.column_stack([times, curve]).tolist(),
        "sortability": sortability if truth else None, "scores": scores,
    }  # fmt: skip


def fill(path, pairs):
    """Write pairs of a job and its record into a new store; return its path."""
    with Store(path) as store:
        for one, result in pairs:
            assert store.claim(one["run"])
            store.finish(one, result)
    return path


def everything(n_methods=16, seeds=2):
    """The three experiments in small, with failures, as pairs of a job and its record."""
    pairs = []

    def add(i, **about):
        method = METHODS[i]
        one = job(method, **about)
        status, message = "converged", ""
        if method[0] == "NOTEARS" and one["dataset"]["d"] > 200:
            status, message = "out_of_memory", "More than its limit of 4.0 GB was in use."
        elif method[0] == "GD" and one["dataset"]["n"] > 200:
            status, message = "timeout", "It did not return within 132 s."
            if about.get("seed"):
                status = "time_limit"
        elif method[0] == "GOLEM-NV" and about.get("seed"):
            status, message = "error", "ValueError: <b>no</b> & such"
        pairs.append((one, record(one, method[3], status, message)))

    for i in range(n_methods):
        for seed in range(seeds):
            add(i, seed=seed, noise="gumbel", variance="NV")
            for graph, k in (("ER", 1), ("SF", 4)):
                for d, n in ((100, 200), (400, 1000)):
                    add(i, seed=seed, graph=graph, k=k, d=d, n=n)
            add(i, seed=seed, units="standardised")
        for n in (200, 1000):
            add(i, experiment="exp2", n=n, d=500)
            for d in (500, 1000, 1500, 2000):
                add(i, experiment="exp3", n=n, d=d)
    return pairs
