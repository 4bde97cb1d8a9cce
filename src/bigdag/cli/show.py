"""The word ``show``: what is in a DAG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bigdag.cli.group import app
from bigdag.cli.options import Dag, Force, Json, MinProb, Threshold, option
from bigdag.cli.reports import at_least, fail_if, print_json, records, undirected
from bigdag.errors import GraphError, ParameterError

if TYPE_CHECKING:
    from bigdag.graph.dag import DAG

_Variable = Annotated[str | None, option(help="Show the neighbourhood of this variable.")]
_Radius = Annotated[int | None, option(help="Arcs around --variable; 1 by default.")]
_Top = Annotated[int, typer.Option(help="How many of the strongest arcs to list.")]
_Plot = Annotated[Path | None, option(help="Draw to a .png, .svg or .pdf file.")]
_MaxNodes = Annotated[int, typer.Option(help="Draw the strongest arcs on so many nodes.")]


@app.command(epilog="Example:  bigdag show genes.dag.parquet --variable TP53 --plot tp53.png")
def show(
    dag_file: Dag,
    variable: _Variable = None,
    radius: _Radius = None,
    top: _Top = 10,
    threshold: Threshold = None,
    min_prob: MinProb = None,
    plot: _Plot = None,
    max_nodes: _MaxNodes = 300,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show what is in a DAG: counts, strongest arcs, one variable, a picture."""
    import numpy as np

    from bigdag.cli import display
    from bigdag.graph.dag import DAG

    if radius is not None and variable is None:
        raise ParameterError("--radius goes with --variable.")
    radius = 1 if radius is None else radius
    dag = DAG.load(dag_file)
    if threshold is not None:
        dag = dag.threshold(threshold)
    if min_prob is not None:
        dag = at_least(dag, min_prob)
    parents = np.diff(dag.weights.indptr)
    children = np.diff(dag.weights.tocsr().indptr)

    def most(counts: Any) -> dict[str, Any] | None:
        if not dag.n_arcs:
            return None
        place = int(np.argmax(counts))
        return {"variable": dag.names[place], "count": int(counts[place])}

    report: dict[str, Any] = {
        "dag": dag_file,
        "n_variables": dag.n_nodes,
        "n_arcs": dag.n_arcs,
        "n_undirected": undirected(dag),
        "threshold": threshold,
        "min_prob": min_prob,
        "isolated": int(np.sum((parents == 0) & (children == 0))),
        "roots": int(np.sum((parents == 0) & (children > 0))),
        "sinks": int(np.sum((parents > 0) & (children == 0))),
        "most_parents": most(parents),
        "most_children": most(children),
        "strongest": records(dag, top),
    }
    part = dag
    if variable is not None:
        try:
            part = dag.neighbourhood(variable, radius)
        except GraphError as error:
            raise ParameterError(f"--variable: {error}") from None
        report["variable"] = _around(dag, part, variable, radius)
    trouble = None
    if plot is not None:
        from bigdag.graph.draw import draw
        from bigdag.writing import Output

        title = None if variable is None else f"{variable} and what is near it (--radius {radius})"
        picture = Output(plot, force)
        draw(part, picture, highlight=variable, max_nodes=max_nodes, title=title)
        report["plot"] = picture.saved
        trouble = picture.trouble
    if as_json:
        print_json(report)
    else:
        display.show_dag(report)
    fail_if(trouble)


def _around(dag: DAG, part: DAG, name: str, radius: int) -> dict[str, Any]:
    """Return one variable's causes, effects and Markov blanket."""
    arcs = records(part)
    return {
        "name": name,
        "parents": [arc for arc in arcs if arc["target"] == name],
        "children": [arc for arc in arcs if arc["source"] == name],
        "markov_blanket": dag.markov_blanket(name),
        "radius": radius,
        "n_variables": part.n_nodes,
        "n_arcs": part.n_arcs,
    }
