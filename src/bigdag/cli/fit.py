"""The word ``fit``: from a table to a DAG in a file."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bigdag.cli.group import app
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
from bigdag.cli.postponed import postpone
from bigdag.cli.preparing import finding_records, prepared_table, wishes_of
from bigdag.cli.reports import fail_if, print_json, records, undirected
from bigdag.errors import BigdagError, ParameterError
from bigdag.interrupts import interruptible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bigdag.data.checks import Finding
    from bigdag.data.dataset import Dataset
    from bigdag.data.prepare import Accept, Prepared
    from bigdag.graph.dag import DAG
    from bigdag.knowledge.known import Knowledge
    from bigdag.learners.around import Surroundings
    from bigdag.learners.recipe import Outcome, Recipe


@app.command(
    epilog="Ctrl-C, SIGTERM and SIGHUP end a fit as its time limit would: the best DAG so far is "
    "written, and the exit code is 1. A second Ctrl-C ends it at once."
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
    postpone("scipy.stats")
    from bigdag.cli import messages
    from bigdag.cli.fit_summary import show_fit
    from bigdag.data.standardising import standardised
    from bigdag.evaluation.units import check_units as compare_units
    from bigdag.evaluation.units import order_of_variances
    from bigdag.graph.dag import DAG
    from bigdag.graph.explore import check_page, explore_page
    from bigdag.graph.files import check_output, graph_writer, nodes_file
    from bigdag.learners.methods import find_method
    from bigdag.learners.recipe import Recipe

    chosen = find_method(method)
    out = Path(f"{Path(table.name.removesuffix('.gz')).stem}.dag.parquet") if out is None else out
    nodes = nodes_file(out) if out.suffix.lower() == ".csv" else None
    _refuse_same(table, {"--out": out, "the list of variables beside --out": nodes,
                         "--page": page, "--checkpoint": checkpoint})  # fmt: skip
    if safe_csv and out.suffix.lower() != ".csv":
        raise ParameterError(f"--safe-csv goes with an --out that ends in .csv. Got {out}.")
    output = check_output(out, force)
    page_output = None if page is None else check_page(page, force)
    if search_criterion is not None and not search:
        raise ParameterError("--search-criterion goes with --search.")
    given = _present(
        lambda1=lambda1, lambda2=lambda2, max_iter=max_iter, time_limit=time_limit,
        refit=False if no_refit else None, random_state=seed, n_jobs=n_jobs,
        memory_limit=memory_limit, device=device,
        warm_start_dag=None if warm_start is None else DAG.load(warm_start),
        knowledge=knowledge_of(
            knowledge, regulators, tiers, forbid, require, roots, sinks, ignore_unmatched
        ),
    )  # fmt: skip
    given |= _settings(settings or [])
    if check_units or bootstrap is not None:  # the same command gives the same answer
        given.setdefault("random_state", 0)
    bic = _present(gamma=gamma, penalty=penalty, restarts=restarts)
    criterion = (search_criterion or "least_squares") if search else None
    if bootstrap is not None and no_bootstrap:
        raise ParameterError("--bootstrap and --no-bootstrap cannot go together. Give one of them.")
    by_search = chosen.estimator == "OrderSearch"
    one_fit = by_search and bootstrap is None
    automatic = chosen.word == "auto"
    resamples = _resamples(
        bootstrap, check_units, automatic, no_bootstrap, threshold=min_prob,
        feature_fraction=feature_fraction, checkpoint=None if one_fit else checkpoint,
    )  # fmt: skip
    if dask is not None and not (by_search or search or bootstrap or chosen.word == "auto"):
        raise ParameterError(
            "--dask goes with --bootstrap, or with a search over orders: --method auto, "
            "order-search or order-search-bic, or --search."
        )
    if checkpoint is not None:  # what cannot be one is refused before the work begins
        _check_checkpoint(checkpoint, one_fit)
        if check_units:
            raise ParameterError(
                "--check-units fits a second time in other units, and goes without --checkpoint."
            )
        given |= {"checkpoint": checkpoint} if one_fit else {}
    recipe = Recipe(chosen, given, bic, criterion, threshold, resamples)
    if radius is not None and target is None:
        raise ParameterError("--radius goes with --target.")
    if target is not None and check_units:
        raise ParameterError("--check-units goes with a fit of the whole table, not --target.")
    if automatic and check_units:
        raise ParameterError(
            "--check-units goes with a method that is named. The automatic method says by itself "
            "whether its answer depends on the units."
        )
    usual = "auto" if automatic else None  # a method that is named takes the table as it is
    wishes = wishes_of(
        transform=transform or usual, missing=missing or usual, drop=drop, keep=keep, adjust=adjust,
        batch=batch, duplicates=duplicates, missing_code=missing_code,
    )  # fmt: skip
    agreement, known = None, given.get("knowledge")
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
            with _on_cluster(dask):
                found = recipe.follow(data, progress.callback)
            dag, uncut = _cut(recipe, found, data)
            if around is not None:
                dag = dag.neighbourhood(around.target, around.radius)
                dag = dag.annotated(about={"around": around.sentence()} | _all_known(known))
            _refuse_nothing(found, dag, out)
            dag = dag.annotated(about=_about(recipe, found, prepared, standardise))
            out = output.write(graph_writer(out, dag._graph(), safe_csv))
            if page_output is not None:
                html = explore_page(dag, _title(table)).encode()
                page_output.write(lambda file: file.write(html))
            if check_units and not (found.failed or found.trouble or uncut):
                agreement = compare_units(recipe, raw, dag, standardise, progress.callback)
    report = {
        "table": table, "out": out, "page": None if page_output is None else page_output.saved,
        "nodes_out": nodes_file(out) if out.suffix.lower() == ".csv" else None,
        "method": chosen.word,
        "parameters": {name: v for name, v in (given | bic).items() if name != "knowledge"}
        | ({"warm_start_dag": warm_start} if warm_start else {}),
        "knowledge": dag.about.get("knowledge"),
        "knowledge_absent": absent,
        "around": None if around is None else around.sentence(),
        "n_rows": prepared.n_rows or data.n_samples,
        "n_samples": data.n_samples, "n_variables": dag.n_nodes, "standardised": standardise,
        "prepared": list(prepared.notes), "transform": prepared.transform,
        "missing": prepared.missing, "left_out": list(prepared.left_out),
        "groups": {name: list(rest) for name, rest in prepared.groups.items()},
        "findings": finding_records(prepared.findings),
        "search": criterion, "before_search": found.first,
        "status": found.status, "n_iter": found.n_iter, "seconds": found.seconds,
        "objective": found.objective, "lambda1": found.lambda1,
        "extended_bic": found.extended_bic, "penalty": found.penalty,
        "refit_gain": found.refit_gain,
        "bootstrap": _about_resamples(recipe, found),
        "n_arcs_found": found.dag.n_arcs, "threshold": threshold, "n_arcs": dag.n_arcs,
        "n_undirected": undirected(dag), "var_sortability": order_of_variances(data, dag),
        "assumption": found.assumption, "explanation": found.explanation,
        "depends_on_units": (
            recipe.depends_on_units if found.depends_on_units is None else found.depends_on_units
        ),
        "check_units": agreement,
        "strongest": records(dag, 10),
    }  # fmt: skip
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
_CRITERIA = {
    "bic": "extended BIC",
    "own variances": "extended BIC",
    "least_squares": "least squares, equation (1)",
    "equal variances": "least squares, equation (1)",
}
_NOT_SAID = ("warm_start_dag", "knowledge", "checkpoint")  # a graph, what is said apart, a file


def _about(recipe: Recipe, found: Outcome, prepared: Prepared, standardise: bool) -> dict[str, Any]:
    """Return how a DAG was learnt, for its file; the same run gives the same."""
    import platform
    from importlib.metadata import version

    from bigdag import __version__

    given = recipe.parameters | recipe.bic
    lowered = found.assumption or recipe.search or recipe.method.fixed.get("criterion")
    used = ("numpy", "scipy", "numba", "scikit-learn")
    versions = {"python": platform.python_version()} | {name: version(name) for name in used}
    return {
        "bigdag": __version__, "versions": versions, "method": recipe.method.word,
        "criterion": _CRITERIA.get(str(lowered), recipe.method.summary),
        "parameters": {name: v for name, v in given.items() if name not in _NOT_SAID},
        "search": recipe.search, "threshold": recipe.threshold, "standardised": standardise,
        "transform": prepared.transform, "missing": prepared.missing,
        "prepared": list(prepared.notes),
        "groups": {name: list(rest) for name, rest in prepared.groups.items()},
        "findings": [finding.sentence() for finding in prepared.findings],
        "n_rows": prepared.n_rows or prepared.data.n_samples,
        "n_samples": prepared.data.n_samples, "status": found.status, "n_iter": found.n_iter,
        "objective": found.objective, "lambda1": found.lambda1,
        "extended_bic": found.extended_bic, "penalty": found.penalty,
        "assumption": found.assumption, "explanation": found.explanation,
        **({} if found.history is None else {"history": found.history}),
        **({} if found.n_resamples is None else {"bootstrap": _about_resamples(recipe, found)}),
    }  # fmt: skip


def _on_cluster(address: str | None) -> AbstractContextManager[Any]:
    """Return a context in which fits work on a Dask cluster, or as usual without one."""
    if address is None:
        return nullcontext()
    from bigdag.experiments.run.cluster import fits_on_cluster

    return fits_on_cluster(address)


def _resamples(
    count: int | None, check_units: bool, automatic: bool, no_bootstrap: bool, **more: Any
) -> dict[str, Any] | str | None:
    """Return the parameters of the bootstrap; refuse its options where there is none."""
    given = _present(**more)
    words = {"threshold": "--min-prob", "checkpoint": "--checkpoint"}
    words |= {"feature_fraction": "--feature-fraction"}
    if count is not None and count < 1:
        raise ParameterError(f"--bootstrap must be at least 1, as in 100. Got {count}.")
    for name in ("threshold", "feature_fraction"):
        if not 0 <= given.get(name, 1) <= 1:
            raise ParameterError(f"{words[name]} must be from 0 to 1. Got {given[name]:g}.")
    if automatic and given.get("feature_fraction", 1) < 1:
        raise ParameterError(
            "--feature-fraction goes with resamples of a search by the extended BIC: add --method "
            "order-search-bic --bootstrap 100."
        )
    if count is not None:
        if check_units:
            raise ParameterError(
                "--check-units fits a second time in other units, and goes without --bootstrap."
            )
        return {"n_resamples": count, **given}
    if automatic and not no_bootstrap:
        return given or "auto"
    for name in given:
        if no_bootstrap:
            raise ParameterError(
                f"{words[name]} is about resamples, which --no-bootstrap leaves out. Leave out one "
                "of the two."
            )
        also = ""
        if name == "checkpoint":
            also = ", or with one fit by --method order-search or order-search-bic"
        raise ParameterError(f"{words[name]} goes with --bootstrap, as in --bootstrap 100{also}.")
    return None


def _refuse_same(table: Path, written: Mapping[str, Path | None]) -> None:
    """Refuse files to write that are one and the same, or the table, by whatever name."""
    seen: dict[str, str] = {}
    for word, path in written.items():
        if path is None:
            continue
        if _one_file(path, table):
            raise ParameterError(f"{path} is the table itself. Give another name to write to.")
        for other, before in seen.items():
            if _one_file(path, Path(before)):
                raise ParameterError(
                    f"{other} and {word} are one and the same file, {path}. Give each a name of "
                    "its own."
                )
        seen[word] = str(path)


def _one_file(one: Path, other: Path) -> bool:
    """Tell whether two paths lead to the same file, whether it is there yet or not."""
    with suppress(OSError):
        if one.samefile(other):
            return True
    return os.path.realpath(one) == os.path.realpath(other)


def _check_checkpoint(path: Path, one_fit: bool) -> None:
    """Refuse a file of another kind, and one that cannot be written."""
    from bigdag.learners.checkpoint import read_resamples
    from bigdag.learners.journal import read_about
    from bigdag.writing import Output

    Output(path, force=True).reserve()
    if path.exists():  # of which table it is, is compared when that is read
        if one_fit:
            read_about(path)
        else:
            read_resamples(path, 0)


def _about_resamples(recipe: Recipe, found: Outcome) -> dict[str, Any] | None:
    """Return how many resamples were done, and the least probability of a pair."""
    if found.n_resamples is None:
        return None
    given = recipe.bootstrap if isinstance(recipe.bootstrap, dict) else {}
    return {
        "n_resamples": found.n_resamples,
        "wanted": found.n_wanted,
        "min_prob": given.get("threshold", 0.5),
    }


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
        if name == "knowledge":
            raise ParameterError("--set knowledge means nothing; write it into a file, and give it "
                                 "by --knowledge.")  # fmt: skip
        try:
            parameters[name] = json.loads(text)
        except json.JSONDecodeError:
            parameters[name] = {"True": True, "False": False, "None": None}.get(text, text)
    return parameters
