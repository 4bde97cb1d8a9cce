"""The word ``compare``: two DAGs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from bigdag.cli.group import app
from bigdag.cli.options import READABLE, Force, Json, MinProb, Threshold, file_argument, option
from bigdag.cli.reports import at_least, fail_if, print_json
from bigdag.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

_A = Annotated[Path, file_argument("A", f"A file that ends in {READABLE}.")]
_B = Annotated[Path, file_argument("B", "Another one.")]
_Out = Annotated[Path | None, option(help="Write the whole table, one row an arc, to a .csv file.")]
_Top = Annotated[int, typer.Option(min=0, help="How many arcs to list that differ.")]


@app.command(epilog="Example:  bigdag compare before.dag.parquet after.dag.parquet --out both.csv")
def compare(
    a: _A,
    b: _B,
    threshold: Threshold = None,
    min_prob: MinProb = None,
    top: _Top = 20,
    out: _Out = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare two DAGs: arcs in both, reversed, undirected in one, in one only.

    Variables are matched by name.
    """
    from bigdag import metrics
    from bigdag.cli import display
    from bigdag.graph.dag import DAG
    from bigdag.writing import Output

    if out is not None and out.suffix.lower() != ".csv":
        raise ParameterError(f"--out must end in .csv. Got {out}.")
    output = None if out is None else Output(out, force).reserve()
    dags = [DAG.load(path) for path in (a, b)]
    if threshold is not None:
        dags = [dag.threshold(threshold) for dag in dags]
    if min_prob is not None:
        dags = [at_least(dag, min_prob) for dag in dags]
    found = metrics.compare(*dags)
    report: dict[str, Any] = {
        "a": a, "b": b, "threshold": threshold, "min_prob": min_prob,
        "n_variables_a": dags[0].n_nodes, "n_variables_b": dags[1].n_nodes,
        "n_arcs_a": dags[0].n_arcs, "n_arcs_b": dags[1].n_arcs,
        **found.counts, "shd": found.shd,
        "variables_only_in_a": list(found.only_in_a),
        "variables_only_in_b": list(found.only_in_b),
        "differences": _differences(found.table, top),
    }  # fmt: skip
    if output is not None:

        def write(file: BinaryIO) -> None:
            file.write(found.table.to_csv(index=False, lineterminator="\n").encode())

        report["out"] = output.write(write)
    if as_json:
        print_json(report)
    else:
        display.show_comparison(report)
    fail_if(None if output is None else output.trouble)


def _differences(table: pd.DataFrame, top: int) -> list[dict[str, Any]]:
    """Return the first rows of a comparison on which the two graphs differ."""
    rows = table[table["status"] != "same"].head(top)
    return [{str(k): v for k, v in row.items()} for row in rows.to_dict("records")]
