"""The word ``check-dag``: whether data suit a DAG, without knowing the true one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from bigdag.cli.group import app
from bigdag.cli.options import AdjustFor, Batch, Dag, Header, Json, MemoryLimit, RowLabels, Table
from bigdag.cli.preparing import prepared_table, wishes_of
from bigdag.cli.reports import print_json
from bigdag.errors import ParameterError

if TYPE_CHECKING:
    from bigdag.metrics import MarkovCheck


@app.command(name="check-dag", epilog="Example:  bigdag check-dag dag.parquet other_rows.csv")
def check_dag(
    dag_file: Dag,
    table: Table,
    tests: Annotated[
        int, typer.Option(min=0, help="Implied independences to test, at the most.")
    ] = 1000,
    alpha: Annotated[float, typer.Option(help="The level of each test.")] = 0.05,
    batch: Batch = None,
    adjust: AdjustFor = None,
    seed: Annotated[int, typer.Option(help="Seed of the pairs and rows that are drawn.")] = 0,
    header: Header = None,
    row_labels: RowLabels = None,
    memory_limit: MemoryLimit = None,
    as_json: Json = False,
) -> None:
    """Ask a table whether it suits a DAG, without knowing the true one.

    Best are rows that the DAG was not learnt from. The table is put on the scale that the DAG was
    learnt on, and rows with missing values are left out. Then two questions: how many of the
    independences that the DAG implies do the data reject, and are rows held out likelier under it
    than under the same graph with its variables shuffled, with fewer arcs, and with more?
    """
    from bigdag.cli import display
    from bigdag.data.standardising import standardised
    from bigdag.graph.dag import DAG
    from bigdag.metrics import markov_check

    dag = DAG.load(dag_file)
    about = dag.about
    given = wishes_of(
        transform=None, missing=None, drop=None, keep=None, adjust=adjust, batch=batch,
        duplicates=None,
    )  # fmt: skip
    wishes = replace(
        given,
        transform=about.get("transform") or "none",
        missing="drop",
        keep=dag.names,
        missing_code=tuple(about.get("missing_code") or ()),
    )
    if adjust is None and batch is None:
        group = about.get("batch")
        effects = [name for name in about.get("adjusted") or () if name != group]
        wishes = replace(wishes, adjust=tuple(effects), batch=group)
    try:
        prepared = prepared_table(table, wishes, header, row_labels, memory_limit, False, None)
    except ParameterError as error:
        raise ParameterError(str(error).replace("keep (--keep)", "The DAG")) from None
    data = standardised(prepared.data) if about.get("standardised") else prepared.data
    found = markov_check(dag, data, alpha=alpha, n_tests=tests, rng=seed)
    report = {
        "dag": dag_file, "table": table, "n_samples": data.n_samples,
        "n_variables": dag.n_nodes, "n_arcs": dag.n_arcs,
        "prepared": [note for note in prepared.notes if "left out: " not in note],
        "alpha": alpha, "n_tests": found.n_tests, "rejected": found.rejected,
        "n_near": found.n_near, "rejected_near": found.rejected_near,
        "log_likelihood": found.log_likelihood,
        "log_likelihood_permuted": found.permuted.tolist(),
        "log_likelihood_fewer_arcs": found.fewer, "log_likelihood_more_arcs": found.more,
        "conclusions": _conclusions(found),
    }  # fmt: skip
    if as_json:
        print_json(report)
    else:
        display.show_dag_check(report)


_BY_CHANCE = 0.05  # of shuffled graphs, that may be as good: of few variables some are equivalent


def _conclusions(found: MarkovCheck) -> list[str]:
    """Say in sentences what a check tells."""
    said = []
    for count, share, what in (
        (found.n_tests, found.rejected, "drawn from all"),
        (found.n_near, found.rejected_near, "of pairs with a common neighbour"),
    ):
        if not count or math.isnan(share):
            continue
        error = math.sqrt(found.alpha * (1 - found.alpha) / count)
        verdict = (
            "as many as chance would" if share <= found.alpha + 3 * error
            else "more than chance would: arcs are missing, or relations are not linear"
        )  # fmt: skip
        said.append(
            f"The data reject {share:.1%} of {count:,} implied independences {what} at the level "
            f"{found.alpha:g}, {verdict}."
        )
    if not said:
        said.append("The DAG implies no independence that could be tested.")
    if len(found.permuted) and found.n_arcs:
        worse, tried = int((found.permuted >= found.log_likelihood).sum()), len(found.permuted)
        if worse <= _BY_CHANCE * tried:
            which = "any" if not worse else f"all but {worse}"
            also = "" if not worse else ", and that may be as good a graph by another name"
            said.append(
                f"Rows held out are likelier under the DAG than under {which} of {tried} graphs "
                f"with its variables shuffled{also}."
            )
        else:
            said.append(
                f"Rows held out are no likelier under the DAG than under {worse} of {tried} graphs "
                "with its variables shuffled: it does not suit them."
            )
    for other, what, advice in (
        (found.fewer, "a tenth of its arcs left out", "some of its arcs are chance"),
        (found.more, "a tenth more arcs", "some arcs are missing"),
    ):
        if not math.isnan(other) and other > found.log_likelihood:
            said.append(f"They are likelier still with {what}: {advice}.")
    return said
