"""The command ``bigdag``: words to calls, nothing else.

Exit codes: 0; 1 for what the data or the run did; 2 for what the words did. A mistake of the user
ends in one sentence on stderr; only a fault of bigdag itself shows a traceback. What is heavy to
import is imported by the word that needs it.
"""

from __future__ import annotations

import errno
import math
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from secrets import randbelow
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from bigdag import __version__
from bigdag.errors import (
    BigdagError,
    DataWarning,
    GraphError,
    OutputExistsError,
    ParameterError,
)
from bigdag.experiments import command as experiment
from bigdag.interrupts import ends_like_ctrl_c, interruptible

if TYPE_CHECKING:
    from bigdag.cli_fit import Outcome
    from bigdag.dag import DAG

__all__ = ["app", "main"]


# The base of what typer raises on a wrong word; it comes from click or from a copy of it.
_REFUSED_WORDS: type[Exception] = typer.BadParameter.__mro__[2]
_CANNOT_PRINT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # a full disk behind stdout


class _Words(TyperGroup):
    """The group of all words: where errors become sentences and exit codes."""

    def main(self, *given: Any, **more: Any) -> Any:
        from bigdag.terminal import sober_streams

        with sober_streams():
            return super().main(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        from bigdag import cli_display as display
        from bigdag.terminal import printable

        with ends_like_ctrl_c(), warnings.catch_warnings():
            warnings.simplefilter("always", DataWarning)
            warnings.showwarning = display.warning_printer()
            try:
                return super().invoke(ctx)
            except BigdagError as error:
                display.show_error(str(error))
                words = isinstance(error, ParameterError | OutputExistsError)
                raise typer.Exit(2 if words else 1) from None
            except MemoryError as error:
                display.show_error(f"The memory is used up: {error}. Use fewer variables.")
                raise typer.Exit(1) from None
            except _REFUSED_WORDS as error:
                error.message = printable(error.message)  # type: ignore[attr-defined]
                raise
            except OSError as error:
                if error.errno not in _CANNOT_PRINT:
                    raise
                with suppress(OSError):
                    sys.stdout.close()  # or it would be tried again at the end
                display.show_error(f"The result could not be printed: {error.strerror}.")
                raise typer.Exit(1) from None
            except KeyboardInterrupt:
                display.show_error("Interrupted.")
                raise typer.Exit(1) from None


app = typer.Typer(
    name="bigdag",
    cls=_Words,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bigdag {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Examples:\n\nbigdag fit genes.csv --out genes.dag.parquet\n\n"
    "bigdag show genes.dag.parquet --variable TP53 --plot tp53.png\n\n"
    "bigdag experiment run exp1 --preset smoke --store runs.db\n\n"
    "bigdag fit --help"
)
def _bigdag(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Learn directed acyclic graphs from tables with thousands of columns."""


# ------------------------------------------------------------------ options


def _option(*words: str, panel: str | None = None, **more: Any) -> Any:
    return typer.Option(*words, rich_help_panel=panel, show_default=False, **more)


def _number_or(word: str, help: str, panel: str | None = None) -> Any:
    """Return an option that takes a number or one word."""

    def parse(text: str) -> float | str:
        if text == word:
            return text
        try:
            return float(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is neither a number nor {word!r}.") from None

    return _option(parser=parse, metavar=f"NUMBER|{word}", help=help, panel=panel)


def _file(metavar: str, help: str) -> Any:
    return typer.Argument(
        exists=True, dir_okay=False, show_default=False, metavar=metavar, help=help
    )


_METHOD, _SEARCH, _TABLE = "The method", "The search over orders", "The table"
_FORMATS = ".parquet, .npz, .csv, .graphml, .dot or .json"

_Json = Annotated[bool, _option("--json", help="Print one JSON object instead.")]
_Force = Annotated[bool, _option("--force", help="Overwrite what exists.")]
_Dag = Annotated[Path, _file("DAG", f"A file that ends in {_FORMATS}.")]

_Table = Annotated[
    Path,
    _file(
        "TABLE", "CSV, TSV, TXT (each also .gz), Parquet, Feather, NPY or NPZ; a column a variable."
    ),
]
_Method = Annotated[
    str, typer.Option(help="One of those in: bigdag methods.", rich_help_panel=_METHOD)
]
_Lambda1 = Annotated[
    Any, _number_or("bic", "Weight of the L1 penalty; bic chooses it from the data.", _METHOD)
]
_Lambda2 = Annotated[float | None, _option(help="Weight of the pull to a DAG.", panel=_METHOD)]
_MaxIter = Annotated[
    int | None, _option(help="Iterations of the method at the most.", panel=_METHOD)
]
_TimeLimit = Annotated[float | None, _option(help="Seconds at the most.", panel=_METHOD)]
_NoRefit = Annotated[bool, _option("--no-refit", help="No lasso at the end.", panel=_METHOD)]
_WarmStart = Annotated[
    Path | None, _option(exists=True, dir_okay=False, help="A DAG to begin from.", panel=_METHOD)
]
_Seed = Annotated[int | None, _option(help="Of the random numbers.", panel=_METHOD)]
_NJobs = Annotated[int | None, _option(help="Threads; all cores by default.", panel=_METHOD)]
_MemoryLimit = Annotated[str | None, _option(help="Such as 4GB.", panel=_METHOD)]
_Device = Annotated[str | None, _option(help="Of torch, such as cuda.", panel=_METHOD)]
_Search = Annotated[
    bool, _option("--search", help="After the method, search on from its DAG.", panel=_SEARCH)
]
_SearchScore = Annotated[
    str | None,
    _option(help="What --search lowers: least_squares (the default) or bic.", panel=_SEARCH),
]
_Gamma = Annotated[
    Any, _number_or("auto", "Of the extended BIC: how much d counts; 0: not.", _SEARCH)
]
_Penalty = Annotated[
    Any, _number_or("auto", "Factor of an arc's cost in it; auto: by rows held out.", _SEARCH)
]
_Restarts = Annotated[int | None, _option(help="Of a search by BIC; 0 by default.", panel=_SEARCH)]
_Settings = Annotated[
    list[str] | None,
    _option("--set", metavar="NAME=VALUE", help="Any other parameter.", panel=_METHOD),
]
_Standardise = Annotated[
    bool, _option("--standardise", help="Scale columns to variance 1 first.", panel=_TABLE)
]
_CheckUnits = Annotated[
    bool,
    _option("--check-units", help="Also fit in the other units, and compare.", panel=_TABLE),
]
_Covariance = Annotated[
    bool, _option("--covariance", help="TABLE holds a covariance matrix.", panel=_TABLE)
]
_NSamples = Annotated[
    int | None, _option(help="How many samples --covariance is of.", panel=_TABLE)
]
_Header = Annotated[
    bool | None,
    _option("--header/--no-header", help="First line has names; else found out.", panel=_TABLE),
]
_RowLabels = Annotated[
    bool | None,
    _option(
        "--row-labels/--no-row-labels",
        help="First column labels the rows; else found out.",
        panel=_TABLE,
    ),
]
_Out = Annotated[
    Path | None,
    _option(help=f"{_FORMATS}. Default: TABLE's name and .dag.parquet, in this folder."),
]
_Threshold = Annotated[float | None, _option(help="Keep only arcs with |weight| above it.")]
_Cut = Annotated[
    Any, _number_or("auto", "Keep arcs with |weight| above it; auto: those worth their cost.")
]
_SafeCsv = Annotated[
    bool, _option("--safe-csv", help="Guard names in a .csv that spreadsheets take for formulas.")
]
_Quiet = Annotated[bool, _option("--quiet", help="No progress, no summary.")]


# ------------------------------------------------------------------ fit


@app.command(
    epilog="Ctrl-C, SIGTERM and SIGHUP end a fit as its time limit would: the best DAG so far is "
    "written, and the exit code is 1. A second Ctrl-C ends it at once."
)
def fit(
    table: _Table,
    method: _Method = "proximas",
    out: _Out = None,
    lambda1: _Lambda1 = None,
    lambda2: _Lambda2 = None,
    max_iter: _MaxIter = None,
    time_limit: _TimeLimit = None,
    no_refit: _NoRefit = False,
    warm_start: _WarmStart = None,
    seed: _Seed = None,
    n_jobs: _NJobs = None,
    memory_limit: _MemoryLimit = None,
    device: _Device = None,
    settings: _Settings = None,
    search: _Search = False,
    search_score: _SearchScore = None,
    gamma: _Gamma = None,
    penalty: _Penalty = None,
    restarts: _Restarts = None,
    standardise: _Standardise = False,
    check_units: _CheckUnits = False,
    covariance: _Covariance = False,
    n_samples: _NSamples = None,
    header: _Header = None,
    row_labels: _RowLabels = None,
    threshold: _Cut = None,
    safe_csv: _SafeCsv = False,
    force: _Force = False,
    quiet: _Quiet = False,
    as_json: _Json = False,
) -> None:
    """Learn a DAG from a table and write it to a file."""
    from bigdag import cli_display as display
    from bigdag import cli_fit
    from bigdag.dag import DAG
    from bigdag.graph_files import check_output, graph_writer
    from bigdag.methods import find_method

    chosen = find_method(method)
    out = Path(f"{Path(table.name.removesuffix('.gz')).stem}.dag.parquet") if out is None else out
    with suppress(OSError):
        if out.samefile(table):
            raise ParameterError(f"{out} is the table itself. Give another name to write to.")
    if safe_csv and out.suffix.lower() != ".csv":
        raise ParameterError(f"--safe-csv goes with an --out that ends in .csv. Got {out}.")
    output = check_output(out, force)
    if search_score is not None and not search:
        raise ParameterError("--search-score goes with --search.")
    given = _present(
        lambda1=lambda1, lambda2=lambda2, max_iter=max_iter, time_limit=time_limit,
        refit=False if no_refit else None, random_state=seed, n_jobs=n_jobs,
        memory_limit=memory_limit, device=device,
        warm_start_dag=None if warm_start is None else DAG.load(warm_start),
    )  # fmt: skip
    given |= cli_fit.parse_settings(settings or [])
    if check_units:
        given.setdefault("random_state", randbelow(2**32))  # both fits draw the same numbers
    bic = _present(gamma=gamma, penalty=penalty, restarts=restarts)
    score = (search_score or "least_squares") if search else None
    recipe = cli_fit.Recipe(chosen, given, bic, score, threshold)
    agreement = None
    with display.FitProgress(shown=not quiet) as progress:
        progress.phase("reading")
        limit = given.get("memory_limit")
        raw = cli_fit.read(table, header, covariance, n_samples, row_labels, limit)
        data = cli_fit.standardised(raw) if standardise else raw
        progress.phase("preparing")
        with interruptible():  # from here on a signal ends the fit, and what it has is written
            found = recipe.follow(data, progress.callback)
            dag = recipe.cut(found, data)
            _refuse_nothing(found, dag, out)
            out = output.write(graph_writer(out, dag._graph(), safe_csv))
            if check_units and not found.failed:
                agreement = cli_fit.check_units(recipe, raw, dag, standardise, progress.callback)
    report = {
        "table": table, "out": out, "method": chosen.word,
        "parameters": given | bic | ({"warm_start_dag": warm_start} if warm_start else {}),
        "n_samples": data.n_samples, "n_variables": dag.n_nodes, "standardised": standardise,
        "search": score, "before_search": found.first,
        "status": found.status, "n_iter": found.n_iter, "seconds": found.seconds,
        "objective": found.objective, "lambda1": found.lambda1,
        "extended_bic": found.extended_bic, "penalty": found.penalty,
        "refit_gain": found.refit_gain,
        "n_arcs_found": found.dag.n_arcs, "threshold": threshold, "n_arcs": dag.n_arcs,
        "n_undirected": _undirected(dag), "var_sortability": cli_fit.order_of_variances(data, dag),
        "depends_on_units": recipe.depends_on_units, "check_units": agreement,
        "strongest": _records(dag, 10),
    }  # fmt: skip
    if as_json:
        _print_json(report)
    elif not quiet:
        display.show_fit(report)
    _fail_if(output.trouble, _ended_early(found.failed, agreement, out))


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


def _fail_if(*troubles: str | None) -> None:
    """Show what went wrong, if anything did, and end with exit code 1."""
    from bigdag import cli_display as display

    for trouble in troubles:
        if trouble is not None:
            display.show_error(trouble)
    if any(trouble is not None for trouble in troubles):
        raise typer.Exit(1)


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _undirected(dag: DAG) -> int | None:
    """Return how many arcs have an open direction; None where nothing is known of that."""
    return None if dag.reversible is None else int(dag.reversible.nnz)


def _records(dag: DAG, top: int | None = None) -> list[dict[str, Any]]:
    """Return the strongest arcs, each as source, target and weight."""
    return [{str(k): v for k, v in row.items()} for row in dag.edges(top).to_dict("records")]


def _print_json(report: dict[str, Any]) -> None:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items()}
        if isinstance(value, list):
            return [plain(part) for part in value]
        if isinstance(value, float) and not math.isfinite(value):
            return None  # JSON has no word for it
        return str(value) if isinstance(value, Path) else value

    from bigdag.terminal import json_text

    typer.echo(json_text(plain(report)))


# ------------------------------------------------------------------ show

_Variable = Annotated[str | None, _option(help="Show the neighbourhood of this variable.")]
_Radius = Annotated[int, typer.Option(help="Arcs around --variable.")]
_Top = Annotated[int, typer.Option(help="How many of the strongest arcs to list.")]
_Plot = Annotated[Path | None, _option(help="Draw to a .png, .svg or .pdf file.")]
_MaxNodes = Annotated[int, typer.Option(help="Draw the strongest arcs on so many nodes.")]


@app.command(epilog="Example:  bigdag show genes.dag.parquet --variable TP53 --plot tp53.png")
def show(
    dag_file: _Dag,
    variable: _Variable = None,
    radius: _Radius = 1,
    top: _Top = 10,
    threshold: _Threshold = None,
    plot: _Plot = None,
    max_nodes: _MaxNodes = 300,
    force: _Force = False,
    as_json: _Json = False,
) -> None:
    """Show what is in a DAG: counts, strongest arcs, one variable, a picture."""
    import numpy as np

    from bigdag import cli_display as display
    from bigdag.dag import DAG

    dag = DAG.load(dag_file)
    if threshold is not None:
        dag = dag.threshold(threshold)
    parents = np.diff(dag.weights.indptr)
    children = np.diff(dag.weights.tocsr().indptr)

    def most(counts: Any) -> dict[str, Any] | None:
        if not dag.n_arcs:
            return None
        place = int(np.argmax(counts))
        return {"variable": dag.names[place], "count": int(counts[place])}

    report: dict[str, Any] = {
        "dag": dag_file,
        "n_variables": dag.n_nodes,
        "n_arcs": dag.n_arcs,
        "n_undirected": _undirected(dag),
        "threshold": threshold,
        "isolated": int(np.sum((parents == 0) & (children == 0))),
        "roots": int(np.sum((parents == 0) & (children > 0))),
        "sinks": int(np.sum((parents > 0) & (children == 0))),
        "most_parents": most(parents),
        "most_children": most(children),
        "strongest": _records(dag, top),
    }
    part = dag
    if variable is not None:
        try:
            part = dag.neighbourhood(variable, radius)
        except GraphError as error:
            raise ParameterError(f"--variable: {error}") from None
        report["variable"] = _around(dag, part, variable, radius)
    trouble = None
    if plot is not None:
        from bigdag.plot import draw
        from bigdag.writing import Output

        title = None if variable is None else f"{variable} and what is near it (--radius {radius})"
        picture = Output(plot, force)
        draw(part, picture, highlight=variable, max_nodes=max_nodes, title=title)
        report["plot"] = picture.saved
        trouble = picture.trouble
    if as_json:
        _print_json(report)
    else:
        display.show_dag(report)
    _fail_if(trouble)


def _around(dag: DAG, part: DAG, name: str, radius: int) -> dict[str, Any]:
    """Return one variable's causes, effects and Markov blanket."""
    arcs = _records(part)
    return {
        "name": name,
        "parents": [arc for arc in arcs if arc["target"] == name],
        "children": [arc for arc in arcs if arc["source"] == name],
        "markov_blanket": dag.markov_blanket(name),
        "radius": radius,
        "n_variables": part.n_nodes,
        "n_arcs": part.n_arcs,
    }


# ------------------------------------------------------------------ simulate


@app.command(epilog="Example:  bigdag simulate --d 2000 --k 1 --out world")
def simulate(
    out: Annotated[Path, _option(help="The folder to write.")],
    d: Annotated[int, typer.Option("--d", help="Variables.")] = 1000,
    k: Annotated[float, typer.Option("--k", help="Arcs for each variable.")] = 1.0,
    graph: Annotated[str, typer.Option(help="ER or SF (scale-free).")] = "ER",
    noise: Annotated[str, typer.Option(help="gaussian, exponential or gumbel.")] = "gaussian",
    scale: Annotated[str, typer.Option(help="EV (equal noise) or NV (unequal).")] = "EV",
    n: Annotated[int, typer.Option("--n", help="Training samples.")] = 1000,
    validation: Annotated[
        int | None, _option(help="Validation samples; as many as --n by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 0,
    standardise: Annotated[
        bool, _option("--standardise", help="Scale columns to variance 1.")
    ] = False,
    iscm: Annotated[bool, _option("--iscm", help="Scale variables as they are generated.")] = False,
    memory_limit: Annotated[str | None, _option(help="Such as 4GB.")] = None,
    force: _Force = False,
    as_json: _Json = False,
) -> None:
    """Make a random DAG and samples of it: two tables, the truth and a card."""
    from bigdag import cli_display as display
    from bigdag.worlds import World, write_world
    from bigdag.writing import Output

    if standardise and iscm:
        raise ParameterError("--standardise and --iscm exclude each other. Give one of them.")
    units = "standardised" if standardise else "internal" if iscm else "raw"
    rows = n if validation is None else validation
    world = World(d, k, graph, noise, scale, n, rows, seed, units)
    output = Output(out, force, folder=True)
    card = write_world(world, output, memory_limit=memory_limit)
    if as_json:
        _print_json({"out": output.saved, **card})
    else:
        display.show_card(card, str(output.saved))
    _fail_if(output.trouble)


# ------------------------------------------------------------------ evaluate


@app.command(epilog="Example:  bigdag evaluate dag.parquet --truth world/truth.parquet")
def evaluate(
    dag_file: _Dag,
    truth: Annotated[Path, _option(exists=True, dir_okay=False, help="The true DAG.")],
    data: Annotated[
        Path | None,
        _option(exists=True, dir_okay=False, help="Validation table, for the likelihood."),
    ] = None,
    train: Annotated[
        Path | None,
        _option(exists=True, dir_okay=False, help="Training table, for the noise variances."),
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="Arcs with |weight| above it count as found.")
    ] = 0.3,
    header: _Header = None,
    row_labels: _RowLabels = None,
    as_json: _Json = False,
) -> None:
    """Score a DAG against the true one, and on data it has not seen."""
    from bigdag import cli_display as display
    from bigdag import cli_fit, metrics
    from bigdag.dag import DAG

    if train is not None and data is None:
        raise ParameterError("--train goes with --data, the validation table that is scored.")
    scores = metrics.evaluate(
        DAG.load(dag_file),
        DAG.load(truth),
        train=None if train is None else cli_fit.read(train, header, False, None, row_labels),
        validation=None if data is None else cli_fit.read(data, header, False, None, row_labels),
        threshold=threshold,
    )
    report = {"dag": dag_file, "truth": truth, "threshold": threshold, "metrics": scores}
    if as_json:
        _print_json(report)
    else:
        display.show_evaluation(report)


# ------------------------------------------------------------------ methods


_MOST = 10**15  # variables or samples in a question about memory


@app.command()
def methods(
    d: Annotated[int, typer.Option("--d", help="Variables.")] = 5000,
    n: Annotated[int, typer.Option("--n", help="Samples.")] = 1000,
    as_json: _Json = False,
) -> None:
    """List the methods of fit: what they are and what they need."""
    from bigdag import cli_display as display
    from bigdag.methods import METHODS

    for name, value in (("--d", d), ("--n", n)):
        if value < 1:
            raise ParameterError(f"{name} must be at least 1. Got {value} instead.")
        if value > _MOST:
            raise ParameterError(f"{name} must be at most {_MOST:,}. Got a larger number instead.")
    rows = [
        {
            "method": row.word,
            "summary": row.summary,
            "class": row.estimator,
            "extra": row.extra,
            "installed": row.installed,
            "memory_bytes": row.memory(n, d),
            "depends_on_units": row.depends_on_units,
        }
        for row in METHODS.values()
    ]
    report = {"d": d, "n": n, "methods": rows}
    if as_json:
        _print_json(report)
    else:
        display.show_methods(report)


# ------------------------------------------------------------------ experiment

app.add_typer(experiment.app)


def main() -> None:
    """Run the command."""
    app()


if __name__ == "__main__":
    main()
