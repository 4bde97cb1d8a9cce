"""The word ``evaluate``: a DAG against the true one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bigdag.cli.group import app
from bigdag.cli.options import Dag, Header, Json, RowLabels, option
from bigdag.cli.reading import read
from bigdag.cli.reports import print_json
from bigdag.errors import ParameterError


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
    table says how many of the arcs with a probability are true.
    """
    from bigdag import metrics
    from bigdag.cli import display
    from bigdag.graph.dag import DAG

    if train is not None and data is None:
        raise ParameterError("--train goes with --data, the validation table that is scored.")
    dag, true = DAG.load(dag_file), DAG.load(truth)
    scores = metrics.evaluate(
        dag,
        true,
        train=None if train is None else read(train, header, row_labels),
        validation=None if data is None else read(data, header, row_labels),
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
