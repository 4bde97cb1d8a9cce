"""The word ``effect``: how much one variable changes when another is raised."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bigdag.cli.group import app
from bigdag.cli.options import Dag, Json
from bigdag.cli.reports import print_json
from bigdag.errors import GraphError, ParameterError

_Cause = Annotated[str, typer.Argument(show_default=False, metavar="CAUSE", help="A variable.")]
_Effect = Annotated[
    str | None,
    typer.Argument(
        show_default=False, metavar="EFFECT", help="Another one; without it, all that it affects."
    ),
]
_Top = Annotated[int, typer.Option(min=0, help="How many of the largest effects to list.")]


@app.command(epilog="Example:  bigdag effect genes.dag.parquet TP53 MDM2")
def effect(
    dag_file: Dag,
    cause: _Cause,
    effect: _Effect = None,
    top: _Top = 20,
    as_json: Json = False,
) -> None:
    """Show the total effect of one variable on another, or on all.

    That is how much the effect changes, on average, when the cause is raised by one from outside,
    along all directed paths. Where arcs at the cause are undirected, more than one effect is
    possible: the lowest and the highest are shown.
    """
    from bigdag.cli import display
    from bigdag.graph.dag import DAG
    from bigdag.model.linear import LinearModel
    from bigdag.model.scale import units_words

    model = LinearModel(DAG.load(dag_file))
    for what, name in (("CAUSE", cause), ("EFFECT", effect)):
        if name is not None:
            try:
                model.dag._index(name)
            except GraphError as error:
                raise ParameterError(f"{what}: {error}") from None
    scaled = bool(model.dag.about.get("standardised"))
    report: dict[str, Any] = {
        "dag": dag_file, "cause": cause, "standardised": scaled,
        "transform": model.dag.about.get("transform"), "units": units_words(model.dag.about),
    }  # fmt: skip
    if effect is not None:
        report |= {
            "effect": effect,
            "total_effect": model.total_effect(cause, effect),
            "possible_effects": model.possible_effects(cause, effect).tolist(),
        }
    else:
        table = model.effects(cause)
        report |= {"n_effects": len(table), "effects": table.head(top).to_dict("records")}
    if as_json:
        print_json(report)
    else:
        display.show_effect(report)
