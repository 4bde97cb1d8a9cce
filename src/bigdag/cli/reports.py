"""What several words of the command report, and how they end."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from bigdag.graph.dag import DAG

__all__ = ["at_least", "fail_if", "print_json", "records", "undirected"]


def fail_if(*troubles: str | None) -> None:
    """Show what went wrong, if anything did, and end with exit code 1."""
    from bigdag.cli import messages

    for trouble in troubles:
        if trouble is not None:
            messages.show_error(trouble)
    if any(trouble is not None for trouble in troubles):
        raise typer.Exit(1)


def undirected(dag: DAG) -> int | None:
    """Return how many arcs have an open direction; None where nothing is known of that."""
    return None if dag.reversible is None else int(dag.reversible.nnz)


def at_least(dag: DAG, probability: float) -> DAG:
    """Return the DAG of the pairs that are joined with a probability, as --min-prob asks."""
    from bigdag.errors import ParameterError

    if not 0 <= probability <= 1:
        raise ParameterError(f"--min-prob must be from 0 to 1. Got {probability:g}.")
    column = next((name for name in ("adjacency", "probability") if name in dag.arc_data), None)
    if column is None:
        raise ParameterError(
            "--min-prob needs a DAG whose arcs have probabilities, as from bigdag fit --bootstrap "
            "100. This one has none."
        )
    kept = dag.weights.copy()
    kept.data = (dag.arc_data[column] >= probability - 1e-12).astype(float)
    return dag.with_arcs(kept)


def records(dag: DAG, top: int | None = None) -> list[dict[str, Any]]:
    """Return the strongest arcs, each as source, target and weight."""
    return [{str(k): v for k, v in row.items()} for row in dag.edges(top).to_dict("records")]


def print_json(report: dict[str, Any]) -> None:
    """Print a report as one JSON object."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items()}
        if isinstance(value, list):
            return [plain(part) for part in value]
        if isinstance(value, float) and not math.isfinite(value):
            return None  # JSON has no word for it
        return str(value) if isinstance(value, Path) else value

    from bigdag.terminal import json_text

    typer.echo(json_text(plain(report)))
