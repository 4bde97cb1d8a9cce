"""The word ``methods``: what fit can do, and what it takes."""

from __future__ import annotations

from typing import Annotated

import typer

from bigdag.cli.group import app
from bigdag.cli.options import Json
from bigdag.cli.reports import print_json
from bigdag.errors import ParameterError

_MOST = 10**15  # variables or samples in a question about memory


@app.command()
def methods(
    d: Annotated[int, typer.Option("--d", help="Variables.")] = 5000,
    n: Annotated[int, typer.Option("--n", help="Samples.")] = 1000,
    as_json: Json = False,
) -> None:
    """List the methods of fit: what they are and what they need."""
    from bigdag.cli import display
    from bigdag.learners.methods import METHODS

    for name, value in (("--d", d), ("--n", n)):
        if value < 1:
            raise ParameterError(f"{name} must be at least 1. Got {value} instead.")
        if value > _MOST:
            raise ParameterError(f"{name} must be at most {_MOST:,}. Got a larger number instead.")
    rows = [
        {
            "method": row.word,
            "summary": row.summary,
            "class": row.estimator,
            "extra": row.extra,
            "installed": row.installed,
            "memory_bytes": row.memory(n, d),
            "depends_on_units": row.depends_on_units,
        }
        for row in METHODS.values()
    ]
    report = {"d": d, "n": n, "methods": rows}
    if as_json:
        print_json(report)
    else:
        display.show_methods(report)
