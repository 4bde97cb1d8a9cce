"""The page to explore a graph: its size, how long it takes to write and to open, and its frames.

Needs Chromium or Chrome, which is run without a window and without a graphics card, so that a
machine with one is quicker. A frame is measured while the overview is moved and zoomed all the
time: the interval between frames as the browser gives them, and the work of the page in each.

    python benchmarks/explore.py --d 20000 100000
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bigdag import DAG, simulate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import Browser

FRAMES = """
new Promise(done => {
  const map = globalThis.bigdag.overview();
  const gaps = [], began = performance.now();
  let last = began, k = 0;
  const step = now => {
    gaps.push(now - last);
    last = now;
    if (k++ >= SECONDS * 60) {
      gaps.shift();
      gaps.sort((a, b) => a - b);
      done({ frames: gaps.length, seconds: (performance.now() - began) / 1000,
             middle: gaps[gaps.length >> 1], slow: gaps[Math.floor(gaps.length * 0.95)] });
      return;
    }
    if (k % 90 < 45) map.zoom(k % 45 < 30 ? 1.03 : 1 / 1.05);
    else map.pan(6 * Math.sin(k / 20), 4 * Math.cos(k / 20));
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})
"""
OPENED = """
Math.max(...["first-contentful-paint", "bigdag-shown"].map(
  name => performance.getEntriesByName(name)[0].startTime))
"""
SHARP = """
new Promise(done => {
  const began = performance.now();
  const look = () => globalThis.bigdag.overview().isSharp()
    ? done((performance.now() - began) / 1000) : setTimeout(look, 10);
  look();
})
"""


def graph(d: int) -> DAG:
    """Return a graph of d variables and 2 d arcs, each with a probability."""
    dag = simulate.random_dag(d, 2, rng=0)
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.5, 1, dag.n_arcs).round(2)
    names = [f"ENSG{v:011d}" for v in range(d)]
    columns = {"probability": sure, "adjacency": sure}
    return DAG(dag.weights, names, dag.order, arc_data=columns)


def measure(d: int, seconds: float) -> None:
    """Print one row a size."""
    dag = graph(d)
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        path = Path(folder, "page.html")
        began = time.perf_counter()
        dag.to_html(path)
        written = time.perf_counter() - began
        browser.open(path)  # once, so that the file is in the memory
        browser.open(path)
        browser.wait("performance.getEntriesByName('first-contentful-paint').length")
        opened = browser.run(OPENED) / 1000
        browser.run("document.getElementById('tab-overview').click()")
        browser.run("new Promise(done => setTimeout(done, 50))")
        first = browser.run(SHARP)
        frames = browser.run(FRAMES.replace("SECONDS", str(seconds)))
        work = browser.run("globalThis.bigdag.overview().frames.worst")
        again = browser.run(SHARP)
        table = browser.run(
            """(async () => { const began = performance.now();
            document.getElementById('tab-arcs').click();
            await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            return performance.now() - began; })()"""
        )
        assert browser.complaints() == []
        print(
            f"| {d:,} | {dag.n_arcs:,} | {written:.2f} | {path.stat().st_size / 1e6:.1f} | "
            f"{opened:.2f} | {frames['middle']:.1f} | {frames['slow']:.1f} | {work:.1f} | "
            f"{first:.1f} | {again:.1f} | {table:.0f} |",
            flush=True,
        )


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--d", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    print("| d | arcs | written, s | MB | open, s | frame, ms | 95 % of frames, ms | "
          "most work in one, ms | first overview, s | sharp again, s | table, ms |")  # fmt: skip
    print("|---" * 11 + "|")
    for d in given.d:
        measure(d, given.seconds)


if __name__ == "__main__":
    main()
