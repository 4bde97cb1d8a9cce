"""The sparse engine against the paper's dense way, both sides in one run.

    python benchmarks/engine.py [--d 1000 5000] [--out benchmarks/out/engine.json]

Data: ER1, Gaussian noise of equal variance, n = 1000, lambda1 = 0.1. Everything is compiled before
the clock starts. The dense side is torch in float32 on all cores, as in the paper. Its number of
steps to a relative 1e-4 of the optimum is counted on 64 columns drawn at random: with one global
step size the columns of FISTA do not depend on each other, so that they stand for all of them. The
sparse side has the loosest tolerance of a duality gap that takes it as near to the optimum; the row
"fit, default" has the default, which proves that it is as near without knowing the optimum.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from bigdag import ProxiMAS, simulate
from bigdag.data.dataset import as_dataset
from bigdag.engine import lasso
from bigdag.engine.gram import Gram
from bigdag.graph.feedback_arc_set import greedy_order, greedy_order_dense
from bigdag.learners.proximas import fista_step

LAMBDA1, LAMBDA2, N, NEAR = 0.1, 20.0, 1000, 1e-4
GOALS = {  # (measure, d) -> the ratio or the bytes to reach
    ("fit", 1000): 50,
    ("fit", 5000): 100,
    ("mas step", 1000): 5,
    ("mas step", 5000): 20,
    ("greedy mas", 1000): 3,
    ("greedy mas", 5000): 10,
    ("memory", 5000): 1e9,
}


def data(d: int, seed: int = 0) -> np.ndarray:
    """Return a table from the paper's generator."""
    rng = np.random.default_rng(seed)
    return simulate.sample(simulate.random_dag(d, 1, rng=rng), N, rng=rng)


def seconds(work, repeat: int = 3) -> float:
    """Return the least time of a few runs."""
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def loosest(gram: Gram, optimum: float) -> float:
    """Return the loosest tolerance that ends within a relative 1e-4 of the optimum."""
    for tol in (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4):
        if lasso.solve(gram, LAMBDA1, tol=tol).objective.sum() <= optimum * (1 + NEAR):
            return tol
    return NEAR


def dense_moments(gram: Gram) -> torch.Tensor:
    """Return S in single precision."""
    S = gram.rows(slice(None)) * gram.sd[:, None] * gram.sd
    return torch.as_tensor(S, dtype=torch.float32)


def fista_steps_needed(gram: Gram, fit: lasso.LassoFit, curvature: float, columns: int) -> int:
    """Count FISTA steps to a relative 1e-4 of the optimum, on some columns."""
    d = gram.d
    chosen = np.random.default_rng(0).choice(d, min(columns, d), replace=False)
    S = torch.as_tensor(gram.rows(slice(None)) * gram.sd[:, None] * gram.sd)
    target = S[:, chosen]
    optimum = float((fit.objective - fit.gap)[chosen].sum())
    W = torch.zeros_like(target)
    Y, t = W, 1.0
    for step in range(1, 100_000):
        new = Y - (S @ Y - target) / curvature
        new = new.sign() * (new.abs() - LAMBDA1 / curvature).clamp(min=0)
        new[chosen, np.arange(len(chosen))] = 0
        t_next = (1 + (1 + 4 * t * t) ** 0.5) / 2
        Y, W, t = new + (t - 1) / t_next * (new - W), new, t_next
        if step % 10 == 0:
            loss = 0.5 * (S.diagonal()[chosen].sum() - (W * (2 * target - S @ W)).sum())
            if float(loss + LAMBDA1 * W.abs().sum()) <= optimum * (1 + NEAR):
                return step
    return 100_000


def dense_mas_step(S: torch.Tensor, W: torch.Tensor, curvature: float):
    """Return one step of algorithm 1's loop: step, order, projection, equation (1)."""

    def step() -> float:
        order = greedy_order_dense(W)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order))
        acyclic = torch.where(rank[:, None] < rank, W, 0.0)
        loss = 0.5 * (S.diagonal().sum() - (acyclic * (2 * S - S @ acyclic)).sum())
        fista_step(S, W, W, 1.0, acyclic, curvature + LAMBDA2, LAMBDA1, LAMBDA2)
        return float(loss)

    return step


def measure(d: int) -> list[dict[str, object]]:
    """Return one row a measure, both sides timed in this process."""
    X = data(d)
    gram = Gram(as_dataset(X))
    rows: list[dict[str, object]] = []

    def row(name: str, dense: float, sparse: float, **more: object) -> None:
        rows.append(
            {"measure": name, "d": d, "dense_s": dense, "sparse_s": sparse,
             "ratio": dense / sparse, "goal": GOALS.get((name, d)), **more}
        )  # fmt: skip

    exact = lasso.solve(gram, LAMBDA1, tol=1e-6)
    tol = loosest(gram, float((exact.objective - exact.gap).sum()))

    def fit_seconds(tol: float) -> float:
        return seconds(lambda: lasso.solve(gram, LAMBDA1, tol=tol), 5 if d <= 1000 else 1)

    S = dense_moments(gram)
    curvature = float(np.linalg.eigvalsh(S.numpy()[: min(d, 5000), : min(d, 5000)])[-1])
    W = torch.zeros_like(S)
    step_time = seconds(
        lambda: fista_step(S, W, W, 1.0, None, curvature, LAMBDA1, 0.0), 5 if d <= 1000 else 2
    )
    steps = fista_steps_needed(gram, exact, curvature, 64)
    gap = float(exact.gap.sum() / exact.objective.sum())
    row("fit", steps * step_time, fit_seconds(tol), dense_steps=steps, dense_step_s=step_time,
        gap=gap, arcs=int(exact.weights.nnz), tol=tol)  # fmt: skip
    row("fit, default", steps * step_time, fit_seconds(NEAR))

    W = torch.as_tensor(exact.weights.toarray(), dtype=torch.float32)
    dense_step = seconds(dense_mas_step(S, W, curvature), 3 if d <= 1000 else 1)
    history = ProxiMAS(start="lasso", refit=False, max_iter=61).fit(X).history_
    mas = history.seconds[history.phase == "mas"]
    row("mas step", dense_step, (mas.iloc[-1] - mas.iloc[0]) / (len(mas) - 1), steps=len(mas) - 1)

    dense_order = seconds(lambda: greedy_order_dense(W), 3 if d <= 1000 else 1)
    row("greedy mas", dense_order, seconds(lambda: greedy_order(exact.weights), 5))
    return rows


def peak_memory(d: int) -> None:
    """Print the growth of the peak resident memory over a ProxiMAS fit, in bytes; run apart."""
    ProxiMAS(max_iter=3).fit(data(50))  # compiled code and libraries are not the fit's
    X = data(d)
    status = Path("/proc/self/status")  # ru_maxrss would begin at the parent's peak
    Path("/proc/self/clear_refs").write_text("5")  # begin a new peak

    def resident(kind: str) -> int:
        return next(1024 * int(s.split()[1]) for s in status.read_text().splitlines() if kind in s)

    before = resident("VmRSS")
    ProxiMAS().fit(X)
    print(resident("VmHWM") - before)


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--d", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "engine.json")
    parser.add_argument("--peak-memory", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak_memory:
        peak_memory(options.peak_memory)
        return
    lasso.solve(Gram(as_dataset(data(60))), LAMBDA1)
    ProxiMAS().fit(data(60))
    ProxiMAS(engine="dense", max_iter=3).fit(data(60))
    rows = [row for d in options.d for row in measure(d)]
    for d in options.d:
        call = [sys.executable, __file__, "--peak-memory", str(d)]
        peak = float(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
        rows.append({"measure": "memory", "d": d, "bytes": peak, "goal": GOALS.get(("memory", d))})
    table = Table("what", "d", "dense", "sparse", "ratio", "to reach")
    for r in rows:
        if r["measure"] == "memory":
            goal = f"<= {r['goal'] / 1e9:g} GB" if r["goal"] else "-"
            table.add_row(
                "memory of the fit", str(r["d"]), "-", f"{r['bytes'] / 1e9:.2f} GB", "-", goal
            )
        else:
            goal = f">= {r['goal']}" if r["goal"] else "-"
            table.add_row(str(r["measure"]), str(r["d"]), f"{r['dense_s']:.3f} s",
                          f"{r['sparse_s']:.4f} s", f"{r['ratio']:.0f}", goal)  # fmt: skip
    Console().print(table)
    report = {
        "rows": rows, "n": N, "lambda1": LAMBDA1, "machine": platform.machine(),
        "python": platform.python_version(), "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }  # fmt: skip
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
