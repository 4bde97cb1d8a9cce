"""The word ``explore``: a page on which a DAG can be looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from bigdag.cli.group import app
from bigdag.cli.options import Dag, Force, Json, MinProb, Threshold, option
from bigdag.cli.reports import at_least, fail_if, print_json

_Page = Annotated[
    Path | None,
    option(
        "--out",
        help="The page, ending in .html or .htm. Default: DAG's name and .html, in this folder.",
    ),
]
_Title = Annotated[str | None, option(help="The heading; the number of variables by default.")]


@app.command(epilog="Example:  bigdag explore genes.dag.parquet --out genes.html")
def explore(
    dag_file: Dag,
    out: _Page = None,
    title: _Title = None,
    threshold: Threshold = None,
    min_prob: MinProb = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write one page to explore a DAG in a browser.

    It is a single file that needs nothing else, also without a network: open it by a double click.
    Search for a variable, see its causes and effects, follow paths, read off total effects, filter
    by weight and probability, and see how the DAG was learnt.
    """
    from bigdag.cli import display
    from bigdag.graph.dag import DAG
    from bigdag.graph.explore import check_page, explore_page

    out = Path(f"{dag_file.stem}.html") if out is None else out
    output = check_page(out, force)
    dag = DAG.load(dag_file)
    if threshold is not None:
        dag = dag.threshold(threshold)
    if min_prob is not None:
        dag = at_least(dag, min_prob)
    page = explore_page(dag, title).encode()
    saved = output.write(lambda file: file.write(page))
    report: dict[str, Any] = {
        "dag": dag_file, "out": saved, "bytes": len(page), "n_variables": dag.n_nodes,
        "n_arcs": dag.n_arcs, "threshold": threshold, "min_prob": min_prob,
    }  # fmt: skip
    if as_json:
        print_json(report)
    else:
        display.show_page(report)
    fail_if(output.trouble)
