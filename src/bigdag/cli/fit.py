"""The word ``fit``: from a table to a DAG in a file."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from secrets import randbelow
from typing import TYPE_CHECKING, Any

from bigdag.cli.group import app
from bigdag.cli.options import (
    CheckUnits,
    Covariance,
    Cut,
    Device,
    Force,
    Gamma,
    Header,
    Json,
    Lambda1,
    Lambda2,
    MaxIter,
    MemoryLimit,
    Method,
    NJobs,
    NoRefit,
    NSamples,
    Out,
    Penalty,
    Quiet,
    Restarts,
    RowLabels,
    SafeCsv,
    Search,
    SearchCriterion,
    Seed,
    Settings,
    Standardise,
    Table,
    TimeLimit,
    WarmStart,
)
from bigdag.cli.postponed import postpone
from bigdag.cli.reading import read
from bigdag.cli.reports import fail_if, print_json, records, undirected
from bigdag.errors import BigdagError, ParameterError
from bigdag.interrupts import interruptible

if TYPE_CHECKING:
    from bigdag.data.dataset import Dataset
    from bigdag.graph.dag import DAG
    from bigdag.learners.recipe import Outcome, Recipe


@app.command(
    epilog="Ctrl-C, SIGTERM and SIGHUP end a fit as its time limit would: the best DAG so far is "
    "written, and the exit code is 1. A second Ctrl-C ends it at once."
)
def fit(
    table: Table,
    method: Method = "proximas",
    out: Out = None,
    lambda1: Lambda1 = None,
    lambda2: Lambda2 = None,
    max_iter: MaxIter = None,
    time_limit: TimeLimit = None,
    no_refit: NoRefit = False,
    warm_start: WarmStart = None,
    seed: Seed = None,
    n_jobs: NJobs = None,
    memory_limit: MemoryLimit = None,
    device: Device = None,
    settings: Settings = None,
    search: Search = False,
    search_criterion: SearchCriterion = None,
    gamma: Gamma = None,
    penalty: Penalty = None,
    restarts: Restarts = None,
    standardise: Standardise = False,
    check_units: CheckUnits = False,
    covariance: Covariance = False,
    n_samples: NSamples = None,
    header: Header = None,
    row_labels: RowLabels = None,
    threshold: Cut = None,
    safe_csv: SafeCsv = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a DAG from a table and write it to a file."""
    postpone("scipy.stats")
    from bigdag.cli import display
    from bigdag.data.transforms import standardised
    from bigdag.evaluation.units import check_units as compare_units
    from bigdag.evaluation.units import order_of_variances
    from bigdag.graph.dag import DAG
    from bigdag.graph.files import check_output, graph_writer
    from bigdag.learners.methods import find_method
    from bigdag.learners.recipe import Recipe

    chosen = find_method(method)
    out = Path(f"{Path(table.name.removesuffix('.gz')).stem}.dag.parquet") if out is None else out
    with suppress(OSError):
        if out.samefile(table):
            raise ParameterError(f"{out} is the table itself. Give another name to write to.")
    if safe_csv and out.suffix.lower() != ".csv":
        raise ParameterError(f"--safe-csv goes with an --out that ends in .csv. Got {out}.")
    output = check_output(out, force)
    if search_criterion is not None and not search:
        raise ParameterError("--search-criterion goes with --search.")
    given = _present(
        lambda1=lambda1, lambda2=lambda2, max_iter=max_iter, time_limit=time_limit,
        refit=False if no_refit else None, random_state=seed, n_jobs=n_jobs,
        memory_limit=memory_limit, device=device,
        warm_start_dag=None if warm_start is None else DAG.load(warm_start),
    )  # fmt: skip
    given |= _settings(settings or [])
    if check_units:
        given.setdefault("random_state", randbelow(2**32))  # both fits draw the same numbers
    bic = _present(gamma=gamma, penalty=penalty, restarts=restarts)
    criterion = (search_criterion or "least_squares") if search else None
    recipe = Recipe(chosen, given, bic, criterion, threshold)
    agreement = None
    with display.FitProgress(shown=not quiet) as progress:
        progress.phase("reading")
        limit = given.get("memory_limit")
        raw = read(table, header, row_labels, limit, covariance, n_samples)
        data = standardised(raw, limit) if standardise else raw
        if not check_units:
            del raw  # the table is held once
        progress.phase("preparing")
        with interruptible():  # from here on a signal ends the fit, and what it has is written
            found = recipe.follow(data, progress.callback)
            dag, uncut = _cut(recipe, found, data)
            _refuse_nothing(found, dag, out)
            out = output.write(graph_writer(out, dag._graph(), safe_csv))
            if check_units and not (found.failed or found.trouble or uncut):
                agreement = compare_units(recipe, raw, dag, standardise, progress.callback)
    report = {
        "table": table, "out": out, "method": chosen.word,
        "parameters": given | bic | ({"warm_start_dag": warm_start} if warm_start else {}),
        "n_samples": data.n_samples, "n_variables": dag.n_nodes, "standardised": standardise,
        "search": criterion, "before_search": found.first,
        "status": found.status, "n_iter": found.n_iter, "seconds": found.seconds,
        "objective": found.objective, "lambda1": found.lambda1,
        "extended_bic": found.extended_bic, "penalty": found.penalty,
        "refit_gain": found.refit_gain,
        "n_arcs_found": found.dag.n_arcs, "threshold": threshold, "n_arcs": dag.n_arcs,
        "n_undirected": undirected(dag), "var_sortability": order_of_variances(data, dag),
        "depends_on_units": recipe.depends_on_units, "check_units": agreement,
        "strongest": records(dag, 10),
    }  # fmt: skip
    if as_json:
        print_json(report)
    elif not quiet:
        display.show_fit(report)
    fail_if(output.trouble, found.trouble, uncut, _ended_early(found.failed, agreement, out))


def _cut(recipe: Recipe, found: Outcome, data: Dataset) -> tuple[DAG, str | None]:
    """Return the DAG above the threshold; where that cannot be told, all of it and why."""
    try:
        return recipe.cut(found, data), None
    except (BigdagError, MemoryError) as error:
        return found.dag, f"The threshold could not be applied, and all arcs are kept: {error}"


def _refuse_nothing(found: Outcome, dag: DAG, out: Path) -> None:
    """Let no graph without arcs, from a fit that was interrupted, replace a file."""
    if found.status == "interrupted" and not dag.n_arcs and out.exists():
        raise BigdagError(
            f"The fit was interrupted before it had found an arc. {out} was left as it is."
        )


def _ended_early(failed: str | None, agreement: dict[str, Any] | None, out: Path) -> str | None:
    """Say that a fit was interrupted or has diverged; its DAG is written."""
    if failed:
        return f"The fit {failed}. The best DAG so far was written to {out}."
    if agreement is not None and agreement["status"] in ("interrupted", "diverged"):
        return (
            f"The second fit of --check-units ended early ({agreement['status']}). The DAG of the "
            f"first one was written to {out}."
        )
    return None


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _settings(settings: list[str]) -> dict[str, Any]:
    """Turn NAME=VALUE into parameters: a value is what JSON makes of it, else text.

    Examples
    --------
    >>> _settings(["tol=1e-3", "engine=dense"])
    {'tol': 0.001, 'engine': 'dense'}
    """
    parameters = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise ParameterError(f"--set needs NAME=VALUE. Got {setting!r} instead.")
        if name == "callback":
            raise ParameterError("--set callback needs Python; the command has its own.")
        try:
            parameters[name] = json.loads(text)
        except json.JSONDecodeError:
            parameters[name] = {"True": True, "False": False, "None": None}.get(text, text)
    return parameters
