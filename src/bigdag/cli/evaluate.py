"""The word ``evaluate``: a DAG against the true one."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bigdag.cli.group import app
from bigdag.cli.options import Dag, Header, Json, RowLabels, option
from bigdag.cli.preparing import prepared_table, wishes_of
from bigdag.cli.reading import read
from bigdag.cli.reports import print_json
from bigdag.errors import DataWarning, ParameterError

if TYPE_CHECKING:
    from bigdag.data.dataset import Dataset
    from bigdag.graph.dag import DAG


@app.command(epilog="Example:  bigdag evaluate dag.parquet --truth world/truth.parquet")
def evaluate(
    dag_file: Dag,
    truth: Annotated[Path, option(exists=True, dir_okay=False, help="The true DAG.")],
    data: Annotated[
        Path | None,
        option(exists=True, dir_okay=False, help="Validation table, for the likelihood."),
    ] = None,
    train: Annotated[
        Path | None,
        option(exists=True, dir_okay=False, help="Training table, for the noise variances."),
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="Arcs with |weight| above it count as found.")
    ] = 0.3,
    header: Header = None,
    row_labels: RowLabels = None,
    as_json: Json = False,
) -> None:
    """Score a DAG against the true one, and on data it has not seen.

    Where its arcs come from a bootstrap, average precision ranks by their probability, and a second
    table says how many of the arcs with a probability are true. A truth that is a list of arcs
    (.csv) need not name variables without arcs. Codes for missing values that the DAG was learnt
    with count in --data and --train, too: rows with them are left out.
    """
    from bigdag import metrics
    from bigdag.cli import display
    from bigdag.graph.dag import DAG

    if train is not None and data is None:
        raise ParameterError("--train goes with --data, the validation table that is scored.")
    dag = DAG.load(dag_file)
    true = _true_dag(truth, dag)
    scores = metrics.evaluate(
        dag,
        true,
        train=None if train is None else _rows(train, dag, header, row_labels),
        validation=None if data is None else _rows(data, dag, header, row_labels),
        threshold=threshold,
    )
    report = {"dag": dag_file, "truth": truth, "threshold": threshold, "metrics": scores}
    if "probability" in dag.arc_data:
        report["calibration"] = {
            word: metrics.calibration(dag, true, directed=directed).to_dict("records")
            for word, directed in (("directed", True), ("undirected", False))
        }
    if as_json:
        print_json(report)
    else:
        display.show_evaluation(report)


def _true_dag(file: Path, dag: DAG) -> DAG:
    """Read the true DAG; a mere list of arcs has the variables of the other."""
    from bigdag.graph.align import with_variables
    from bigdag.graph.dag import DAG
    from bigdag.graph.files import nodes_file

    if file.suffix.lower() != ".csv" or nodes_file(file).exists() or not dag.named:
        return DAG.load(file)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        arcs = DAG.load(file)
    whole = with_variables(arcs, dag.names, "truth")
    for warning in told:
        if "is read as a list of arcs" not in str(warning.message):
            warnings.warn(warning.message, stacklevel=2)
    without = dag.n_nodes - arcs.n_nodes
    warnings.warn(
        f"{file} is read as a list of arcs: there is no {nodes_file(file).name} beside it. "
        f"Its variables are those of the DAG, {without:,} of which have no arcs in it.",
        DataWarning,
        stacklevel=2,
    )
    return whole


def _rows(table: Path, dag: DAG, header: bool | None, row_labels: bool | None) -> Dataset:
    """Read a table, without the rows that hold a code for missing values of the DAG's."""
    from bigdag.graph.align import require_columns

    codes = tuple(dag.about.get("missing_code") or ())
    if not codes:
        data = read(table, header, row_labels)
        require_columns(dag, data, str(table))
        return data
    wishes = replace(
        wishes_of(transform=None, missing="drop", drop=None, keep=None, adjust=None, batch=None,
                  duplicates=None), missing_code=codes,
    )  # fmt: skip
    prepared = prepared_table(table, wishes, header, row_labels, None, False, None, look=False)
    require_columns(dag, prepared.data, str(table))
    for note in prepared.notes:
        warnings.warn(f"{table}: {note}", DataWarning, stacklevel=2)
    return prepared.data
