"""The word ``fit``: from a table to a DAG in a file."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bigdag.cli.fit_options import (
    check_checkpoint,
    parameters_of,
    present,
    refuse_contradictions,
    refuse_same,
    resamples_of,
)
from bigdag.cli.fit_record import Answer, how_it_was_learnt
from bigdag.cli.group import app, will_write
from bigdag.cli.knowing import (
    Forbid,
    IgnoreUnmatched,
    KnowledgeFile,
    Radius,
    Regulators,
    Require,
    Roots,
    Sinks,
    Target,
    Tiers,
    knowledge_of,
)
from bigdag.cli.options import (
    AdjustFor,
    Batch,
    Bootstrap,
    Checkpoint,
    CheckUnits,
    ConsensusProb,
    Covariance,
    Cut,
    Dask,
    DaskFolder,
    Device,
    Drop,
    Duplicates,
    FeatureFraction,
    Force,
    Gamma,
    Header,
    Json,
    Keep,
    Lambda1,
    Lambda2,
    Layer,
    MaxIter,
    MemoryLimit,
    Method,
    Missing,
    MissingCode,
    NJobs,
    NoBootstrap,
    NoRefit,
    NSamples,
    Out,
    Page,
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
    Transform,
    WarmStart,
)
from bigdag.cli.postponed import postpone_unneeded
from bigdag.cli.preparing import prepared_table, wishes_of
from bigdag.cli.reports import fail_if, print_json
from bigdag.errors import BigdagError
from bigdag.interrupts import interruptible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bigdag.data.checks import Finding
    from bigdag.data.dataset import Dataset
    from bigdag.data.prepare import Accept
    from bigdag.graph.dag import DAG
    from bigdag.knowledge.known import Knowledge
    from bigdag.learners.around import Surroundings
    from bigdag.learners.recipe import Outcome, Recipe


@app.command(
    epilog="Ctrl-C, SIGTERM and SIGHUP end a fit as its time limit would: the best DAG so far is "
    "written, and the exit code is 1. A second Ctrl-C ends it at once, perhaps "
    "before the DAG is written."
)
def fit(
    table: Table,
    method: Method = "auto",
    out: Out = None,
    page: Page = None,
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
    bootstrap: Bootstrap = None,
    no_bootstrap: NoBootstrap = False,
    min_prob: ConsensusProb = None,
    feature_fraction: FeatureFraction = None,
    checkpoint: Checkpoint = None,
    dask: Dask = None,
    dask_folder: DaskFolder = None,
    transform: Transform = None,
    missing: Missing = None,
    missing_code: MissingCode = None,
    drop: Drop = None,
    keep: Keep = None,
    batch: Batch = None,
    adjust: AdjustFor = None,
    duplicates: Duplicates = None,
    standardise: Standardise = False,
    knowledge: KnowledgeFile = None,
    regulators: Regulators = None,
    tiers: Tiers = None,
    forbid: Forbid = None,
    require: Require = None,
    roots: Roots = None,
    sinks: Sinks = None,
    ignore_unmatched: IgnoreUnmatched = False,
    target: Target = None,
    radius: Radius = None,
    check_units: CheckUnits = False,
    covariance: Covariance = False,
    n_samples: NSamples = None,
    header: Header = None,
    row_labels: RowLabels = None,
    layer: Layer = None,
    threshold: Cut = None,
    safe_csv: SafeCsv = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a DAG from a table and write it to a file."""
    postpone_unneeded()
    from bigdag.cli import messages
    from bigdag.cli.fit_summary import show_fit
    from bigdag.data.standardising import standardised
    from bigdag.evaluation.units import check_units as compare_units
    from bigdag.graph.dag import DAG
    from bigdag.graph.files import check_output, graph_writer, nodes_file
    from bigdag.learners.methods import find_method
    from bigdag.learners.recipe import Recipe

    chosen = find_method(method)
    by_search, automatic = chosen.estimator == "OrderSearch", chosen.word == "auto"
    out = Path(f"{Path(table.name.removesuffix('.gz')).stem}.dag.parquet") if out is None else out
    nodes = nodes_file(out) if out.suffix.lower() == ".csv" else None
    refuse_same(table, {"--out": out, "the list of variables beside --out": nodes,
                        "--page": page, "--checkpoint": checkpoint})  # fmt: skip
    refuse_contradictions(
        (safe_csv and out.suffix.lower() != ".csv",
         f"--safe-csv goes with an --out that ends in .csv. Got {out}."),
        (search_criterion is not None and not search, "--search-criterion goes with --search."),
        (bootstrap is not None and no_bootstrap,
         "--bootstrap and --no-bootstrap cannot go together. Give one of them."),
        (dask is not None and not (by_search or search or bootstrap or automatic),
         "--dask goes with --bootstrap, or with a search over orders: --method auto, "
         "order-search or order-search-bic, or --search."),
        (dask_folder is not None and dask is None, "--dask-folder goes with --dask ADDRESS."),
        (radius is not None and target is None, "--radius goes with --target."),
        (check_units and bootstrap is not None,
         "--check-units fits a second time in other units, and goes without --bootstrap."),
        (check_units and checkpoint is not None,
         "--check-units fits a second time in other units, and goes without --checkpoint."),
        (check_units and target is not None,
         "--check-units goes with a fit of the whole table, not --target."),
        (check_units and automatic,
         "--check-units goes with a method that is named. The automatic method says by itself "
         "whether its answer depends on the units."),
    )  # fmt: skip
    if dask_folder is not None:
        from bigdag.engine.rows_file import checked_folder

        checked_folder(dask_folder)
    output = check_output(out, force)
    page_output = None
    if page is not None:
        from bigdag.graph.explore import check_page, explore_page

        page_output = check_page(page, force)
    will_write(output, page_output)
    given = present(
        lambda1=lambda1, lambda2=lambda2, max_iter=max_iter, time_limit=time_limit,
        refit=False if no_refit else None, random_state=seed, n_jobs=n_jobs,
        memory_limit=memory_limit, device=device,
        warm_start_dag=None if warm_start is None else DAG.load(warm_start),
        knowledge=knowledge_of(
            knowledge, regulators, tiers, forbid, require, roots, sinks, ignore_unmatched
        ),
    )  # fmt: skip
    given |= parameters_of(settings or [])
    if check_units or bootstrap is not None:  # the same command gives the same answer
        given.setdefault("random_state", 0)
    bic = present(gamma=gamma, penalty=penalty, restarts=restarts)
    criterion = (search_criterion or "least_squares") if search else None
    one_fit = by_search and bootstrap is None
    resamples = resamples_of(
        bootstrap, automatic, no_bootstrap, threshold=min_prob,
        feature_fraction=feature_fraction, checkpoint=None if one_fit else checkpoint,
    )  # fmt: skip
    if checkpoint is not None:  # what cannot be one is refused before the work begins
        check_checkpoint(checkpoint, one_fit)
        given |= {"checkpoint": checkpoint} if one_fit else {}
    recipe = Recipe(chosen, given, bic, criterion, threshold, resamples)
    usual = "auto" if automatic else None  # a method that is named takes the table as it is
    wishes = wishes_of(
        transform=transform or usual, missing=missing or usual, drop=drop, keep=keep, adjust=adjust,
        batch=batch, duplicates=duplicates, missing_code=missing_code,
    )  # fmt: skip
    asked, agreement, known = recipe, None, given.get("knowledge")
    with messages.FitProgress(shown=not quiet) as progress:
        progress.phase("reading")
        limit = given.get("memory_limit")
        prepared = prepared_table(
            table, wishes, header, row_labels, limit, covariance, n_samples,
            layer=layer, n_jobs=given.get("n_jobs"), accept=_accept(known, target),
            look=target is None,
        )  # fmt: skip
        raw = prepared.data
        joined = [name for same in prepared.groups.values() for name in same]
        absent = [] if known is None else known.absent([*raw.names, *joined], named=raw.named)
        data = standardised(raw, limit) if standardise else raw
        around = None
        if target is not None:
            recipe, data, around = _around(recipe, data, target, 2 if radius is None else radius)
            raw = data
            prepared = replace(prepared, findings=_odd_in(data))
        prepared = replace(prepared, data=data)
        if not check_units:
            del raw  # the table is held once
        progress.phase("preparing")
        if not quiet:
            _announce(recipe, data)
        with interruptible():  # from here on a signal ends the fit, and what it has is written
            with _on_cluster(dask, dask_folder):
                found = recipe.follow(data, progress.callback)
            dag, uncut = _cut(recipe, found, data)
            if around is not None:
                dag = dag.neighbourhood(around.target, around.radius)
                dag = dag.annotated(about={"around": around.sentence()} | _all_known(known))
            _refuse_nothing(found, dag, out)
            dag = dag.annotated(about=how_it_was_learnt(recipe, found, prepared, standardise))
            out = output.write(graph_writer(out, dag._graph(), safe_csv))
            if page_output is not None:
                html = explore_page(dag, _title(table)).encode()
                page_output.write(lambda file: file.write(html))
            if check_units and not (found.failed or found.trouble or uncut):
                agreement = compare_units(recipe, raw, dag, standardise, progress.callback)
    answer = Answer(
        table, out, None if page_output is None else page_output.saved, dag, found, prepared,
        standardise, warm_start, absent, None if around is None else around.sentence(), agreement,
    )  # fmt: skip
    report = answer.report(asked)
    if as_json:
        print_json(report)
    elif not quiet:
        show_fit(report)
    page_trouble = None if page_output is None else page_output.trouble
    fail_if(
        output.trouble,
        page_trouble,
        found.trouble,
        uncut,
        _ended_early(found.failed, agreement, out),
    )


def _title(table: Path) -> str:
    """Return the heading of a page: the table's name without its suffixes."""
    return Path(table.name.removesuffix(".gz")).stem


def _accept(known: Knowledge | None, target: str | None) -> Accept:
    """Return what refuses columns that do not fit what is known or asked for."""

    def accept(names: Sequence[str], named: bool, left_out: Sequence[str]) -> None:
        from bigdag.learners.around import place_of

        if known is not None:
            known.check_columns(names, named, left_out)
        if target is not None:
            place_of(target, names, named, left_out=left_out)

    return accept


def _around(
    recipe: Recipe, data: Dataset, target: str, radius: int
) -> tuple[Recipe, Dataset, Surroundings]:
    """Return a recipe and the columns for what is around one variable."""
    from bigdag.knowledge.known import as_knowledge, limits_of
    from bigdag.learners.around import surroundings

    known, given = recipe.parameters.get("knowledge"), dict(recipe.parameters)
    gamma = (recipe.bic | given).get("gamma", "auto")
    around = surroundings(data, target, radius, gamma=gamma, limits=limits_of(known, data))
    part = around.part(data)
    if known is not None:
        given["knowledge"] = as_knowledge(known).of_part(data, part)
    bic = dict(recipe.bic)
    if recipe.searches_by_bic() and "gamma" not in given:
        bic["gamma"] = around.gamma  # an arc costs as much as in the whole table
    return replace(recipe, parameters=given, bic=bic), part, around


def _odd_in(data: Dataset) -> tuple[Finding, ...]:
    """Return what is odd in the columns around one variable, once they are prepared."""
    from bigdag.data.checks import findings
    from bigdag.data.raw import raw_table

    if data.X is None or data.n_features < 2:  # one column alone is found odd for that
        return ()
    return tuple(findings(raw_table(data)))


def _all_known(known: Knowledge | None) -> dict[str, Any]:
    """Return all that is known, for the file of a DAG that is learnt from a part of the table."""
    return {} if known is None else {"knowledge": known.to_dict()}


def _announce(recipe: Recipe, data: Dataset) -> None:
    """Say what a fit will take, where that is more than a minute."""
    from bigdag.cli.messages import announce
    from bigdag.learners.forecast import forecast

    if data.n_features < _QUICK or recipe.search is not None:
        return
    said = forecast(recipe.method, data, recipe.parameters)
    if said.seconds is not None and said.seconds > 60:
        announce(said)


_QUICK = 1000  # variables that take less than a minute


def _on_cluster(address: str | None, folder: Path | None) -> AbstractContextManager[Any]:
    """Return a context in which fits work on a Dask cluster, or as usual without one."""
    if address is None:
        return nullcontext()
    from bigdag.experiments.run.cluster import fits_on_cluster

    return fits_on_cluster(address, folder)


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
