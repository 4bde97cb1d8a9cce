"""The word ``simulate``: a random DAG and samples of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bigdag.cli.group import app
from bigdag.cli.options import Force, Json, option
from bigdag.cli.reports import fail_if, print_json
from bigdag.errors import ParameterError


@app.command(epilog="Example:  bigdag simulate --d 2000 --k 1 --out world")
def simulate(
    out: Annotated[Path, option(help="The folder to write.")],
    d: Annotated[int, typer.Option("--d", help="Variables.")] = 1000,
    k: Annotated[float, typer.Option("--k", help="Arcs for each variable.")] = 1.0,
    graph: Annotated[str, typer.Option(help="ER or SF (scale-free).")] = "ER",
    noise: Annotated[str, typer.Option(help="gaussian, exponential or gumbel.")] = "gaussian",
    variance: Annotated[str, typer.Option(help="EV (equal noise) or NV (unequal).")] = "EV",
    scale: Annotated[str | None, option("--scale", hidden=True)] = None,
    n: Annotated[int, typer.Option("--n", help="Training samples.")] = 1000,
    validation: Annotated[
        int | None, option(help="Validation samples; as many as --n by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    standardise: Annotated[
        bool, option("--standardise", help="Scale columns to variance 1.")
    ] = False,
    iscm: Annotated[bool, option("--iscm", help="Scale variables as they are generated.")] = False,
    mixed_units: Annotated[
        bool, option("--mixed-units", help="Give each column a unit of its own.")
    ] = False,
    outliers: Annotated[
        float, option(help="Share of the training values that are made ten times as large.")
    ] = 0.0,
    missing: Annotated[float, option(help="Share of the training values to take out.")] = 0.0,
    memory_limit: Annotated[
        str | None, option(help="Memory of the whole process, such as 4GB.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Make a random DAG and samples of it: two tables, the truth and a card."""
    from bigdag.cli import display
    from bigdag.simulate.worlds import World, write_world
    from bigdag.writing import Output

    wanted = {"standardised": standardise, "internal": iscm, "mixed": mixed_units}
    units = [word for word, given in wanted.items() if given]
    if len(units) > 1:
        raise ParameterError(
            "--standardise, --iscm and --mixed-units exclude each other. Give one of them."
        )
    rows = n if validation is None else validation
    form = units[0] if units else "raw"
    world = World(
        d,
        k,
        graph,
        noise,
        variance if scale is None else scale,
        n,
        rows,
        seed,
        form,
        outliers,
        missing,
    )
    output = Output(out, force, folder=True)
    card = write_world(world, output, memory_limit=memory_limit)
    if as_json:
        print_json({"out": output.saved, **card})
    else:
        display.show_card(card, str(output.saved))
    fail_if(output.trouble)
