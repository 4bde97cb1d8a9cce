"""A page to explore a graph, learnt when the site is built, in a frame of the page on exploring."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

_PAGE = "explore_example.html"
_FRAME = f"""
## One to try

300 simulated variables in mixed units, 500 rows, with outliers; learnt from 100 resamples when
these pages were built.

<iframe src="{_PAGE}" class="explore" loading="lazy"
title="A page to explore a graph of 300 variables"></iframe>

<a href="{_PAGE}">Open it in a window of its own</a>
"""


def _show(app: Sphinx, name: str, source: list[str]) -> None:
    del app
    if name == "explore":
        head, _, rest = source[0].partition("\n## ")
        source[0] = f"{head}{_FRAME}\n## {rest}"


def _write(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    with tempfile.TemporaryDirectory() as folder:
        words = [
            ["simulate", "--d", "300", "--k", "1", "--n", "500", "--variance", "NV",
             "--mixed-units", "--outliers", "0.005", "--seed", "1", "--out", "world"],
            ["fit", "world/train.parquet", "--out", "dag.parquet", "--bootstrap", "100",
             "--seed", "0", "--quiet"],
            ["explore", "dag.parquet", "--title", "A table of 300 variables", "--force",
             "--out", str(Path(app.outdir).resolve() / _PAGE)],
        ]  # fmt: skip
        for line in words:
            subprocess.run(
                [sys.executable, "-m", "bigdag.cli", *line], cwd=folder, check=True,
                stdout=subprocess.DEVNULL,
            )  # fmt: skip


def setup(app: Sphinx) -> dict[str, Any]:
    """Put the frame into the page when it is read, and learn the graph at the end."""
    app.connect("source-read", _show, priority=400)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True}
