"""The word ``plan``: what a fit of a table will take, before it begins."""

from __future__ import annotations

from bigdag.cli.group import app
from bigdag.cli.options import (
    AdjustFor,
    Batch,
    Drop,
    Header,
    Json,
    Keep,
    Layer,
    MemoryLimit,
    Method,
    Missing,
    MissingCode,
    NJobs,
    RowLabels,
    Settings,
    Table,
)
from bigdag.cli.postponed import postpone_unneeded
from bigdag.cli.preparing import prepared_table, wishes_of
from bigdag.cli.reports import print_json


@app.command(epilog="Example:  bigdag plan genes.parquet --method order-search-bic")
def plan(
    table: Table,
    method: Method = "auto",
    n_jobs: NJobs = None,
    memory_limit: MemoryLimit = None,
    settings: Settings = None,
    header: Header = None,
    row_labels: RowLabels = None,
    layer: Layer = None,
    missing: Missing = None,
    missing_code: MissingCode = None,
    drop: Drop = None,
    keep: Keep = None,
    batch: Batch = None,
    adjust: AdjustFor = None,
    as_json: Json = False,
) -> None:
    """Estimate the memory and time of a fit by measuring for a second.

    For tables with missing values, only the memory is estimated.
    """
    postpone_unneeded()
    from bigdag.cli import display
    from bigdag.cli.fit_options import parameters_of, present
    from bigdag.learners.forecast import forecast
    from bigdag.learners.methods import find_method
    from bigdag.resources import memory_budget

    chosen = find_method(method)
    given = parameters_of(settings or [])
    given |= present(n_jobs=n_jobs, memory_limit=memory_limit)
    chosen.build(**given)._check_parameters()
    wishes = wishes_of(
        transform=None, missing=missing or ("auto" if chosen.word == "auto" else None), drop=drop,
        keep=keep, adjust=adjust, batch=batch, duplicates=None, missing_code=missing_code,
    )  # fmt: skip
    data = prepared_table(
        table, wishes, header, row_labels, memory_limit, False, None, layer=layer, n_jobs=n_jobs
    ).data
    said = forecast(chosen, data, given)
    report = {
        "table": table, "method": chosen.word, "n_samples": said.n, "n_variables": said.d,
        "memory_bytes": said.memory, "memory_limit_bytes": memory_budget(memory_limit),
        "seconds": said.seconds, "mean_correlated": said.correlated,
    }  # fmt: skip
    if as_json:
        print_json(report)
    else:
        display.show_plan(report)
