"""The words of ``bigdag experiment``: plan, run, status, report, export.

Results go to stdout, progress and messages to stderr, as with the other words of the command. What
is heavy to import is imported by the word that needs it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bigdag.cli.reports import print_json
from bigdag.errors import BigdagError, ParameterError, installing

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from bigdag.experiments.plan.expand import Plan
    from bigdag.experiments.run.agenda import Progress

__all__ = ["app"]

app = typer.Typer(
    name="experiment",
    no_args_is_help=True,
    help="Repeat the paper's experiments, or run your own plan; see what came out.",
)

_SHOWN = 10  # failures, and runs under way, in a listing


def _option(*words: str, **more: Any) -> Any:
    return typer.Option(*words, show_default=False, **more)


_Plans = Annotated[
    list[str],
    typer.Argument(
        metavar="EXPERIMENT",
        show_default=False,
        help="exp1, exp2, exp3, all, or the TOML file of a plan of your own.",
    ),
]
_Preset = Annotated[
    str,
    typer.Option(
        help="Of exp1 to exp3: paper, overnight, laptop or smoke; of exp3 also paper-sizes."
    ),
]
_Methods = Annotated[
    list[str] | None,
    _option("--method", metavar="NAME", help="Only this method of the plan; may be repeated."),
]
_Sizes = Annotated[
    list[int] | None,
    _option("--variables", metavar="D", help="Only data sets with D variables; may be repeated."),
]
_Store = Annotated[
    Path,
    typer.Argument(
        exists=True, dir_okay=False, show_default=False, metavar="STORE", help="As from run."
    ),
]
_Json = Annotated[bool, _option("--json", help="Print one JSON object instead.")]
_Force = Annotated[bool, _option("--force", help="Overwrite what exists.")]


# ------------------------------------------------------------------ plan


@app.command(epilog="Example:  bigdag experiment plan exp1 --preset paper")
def plan(
    experiments: _Plans,
    preset: _Preset = "laptop",
    method: _Methods = None,
    variables: _Sizes = None,
    as_json: _Json = False,
) -> None:
    """Say what a plan asks for: runs, core-hours, memory, and what will not fit."""
    plans = _load(experiments, preset, method, variables)
    report = {"plans": [_estimate(each) for each in plans]}
    if as_json:
        print_json(report)
        return
    for part in report["plans"]:
        _show_estimate(part)


def _load(
    experiments: Sequence[str], preset: str, methods: list[str] | None, sizes: list[int] | None
) -> list[Plan]:
    from bigdag.experiments.plan.expand import EXPERIMENTS, load_plan

    words = [word for given in experiments for word in (EXPERIMENTS if given == "all" else [given])]
    plans = [load_plan(word, preset) for word in dict.fromkeys(words)]
    return [each.part(methods or (), sizes or ()) for each in plans] if methods or sizes else plans


def _estimate(plan: Plan) -> dict[str, Any]:
    found = plan.estimate()
    limits = plan.limits
    return {
        "experiment": plan.experiment, "preset": plan.preset, "title": plan.title,
        "instances": found.instances, "methods": len(plan.only_methods or plan.methods),
        "runs": found.runs,
        "core_hours": found.core_hours, "memory_bytes": found.memory, "disk_bytes": found.disk,
        "time_limit": found.time_limit, "threads": limits.threads,
        "memory_limit": limits.memory_limit,
        "too_big": [
            {"method": name, "d": d, "n": n, "memory_bytes": memory}
            for name, d, n, memory in found.too_big
        ],
        "missing": [{"method": name, "extra": extra} for name, extra in found.missing],
    }  # fmt: skip


def _show_estimate(part: Mapping[str, Any]) -> None:
    from bigdag.experiments.run.runner import memory_here
    from bigdag.resources import format_bytes, n_threads

    console, cores = _console(), n_threads(None)
    console.print(_text(f"{part['experiment']}, {part['preset']}: {part['title']}", "bold"))
    rows = [
        ("runs", f"{part['runs']:,}: up to {part['methods']} methods on {part['instances']:,} "
                 f"data sets ({format_bytes(part['disk_bytes'])} on disk)"),
        ("each run", f"at most {_duration(part['time_limit'])}, {part['threads']} "
                     f"thread{'s' * (part['threads'] > 1)}, {format_bytes(part['memory_limit'])}"),
        ("time", f"at most {_hours(part['core_hours'])} core-hours, which on the {cores} cores "
                 f"here are {_duration(3600 * part['core_hours'] / cores)}; starting and scoring "
                 "come on top"),
        ("memory", f"at most {format_bytes(part['memory_bytes'])} in one run, as far as is known"),
    ]  # fmt: skip
    if part["memory_bytes"] > memory_here():
        rows.append(("will not fit", f"all of it here: there are {format_bytes(memory_here())}"))
    if part["threads"] > cores:
        rows.append(("cores", f"a run wants {part['threads']}, there are {cores}: runs go one by "
                              "one, and slower"))  # fmt: skip
    for row in part["too_big"]:
        rows.append(("will not fit", f"{row['method']} at d = {row['d']:,}, n = {row['n']:,}: "
                                     f"about {format_bytes(row['memory_bytes'])}"))  # fmt: skip
    for row in part["missing"]:
        rows.append(("not installed", f"{row['method']}: {installing(row['extra'])}"))
    _facts(console, rows)
    console.print()


# ------------------------------------------------------------------ run


@app.command(
    epilog="Ctrl-C, SIGTERM and SIGHUP end it; the same command again does what is missing. "
    "Example:  bigdag experiment run exp1 --preset laptop --store runs.db"
)
def run(
    experiments: _Plans,
    preset: _Preset = "laptop",
    method: _Methods = None,
    variables: _Sizes = None,
    store: Annotated[Path, typer.Option(help="The file of the finished runs.")] = Path("runs.db"),
    retry_failed: Annotated[
        bool, _option("--retry-failed", help="Do runs again that failed.")
    ] = False,
    cores: Annotated[int | None, _option(help="Cores to use; all by default.", min=1)] = None,
    dask: Annotated[
        str | None,
        _option(metavar="ADDRESS", help="Run on a Dask cluster, such as tcp://10.0.0.1:8786."),
    ] = None,
    skip_missing: Annotated[
        bool, _option("--skip-missing", help="Leave out methods that are not installed.")
    ] = False,
    quiet: Annotated[bool, _option("--quiet", help="No progress, no summary.")] = False,
    as_json: _Json = False,
) -> None:
    """Do the runs that the store does not hold yet.

    The exit code is 1 if every run of an experiment failed, or if it was ended.
    """
    from bigdag.interrupts import terminable

    with terminable():
        plans = _load(experiments, preset, method, variables)
        _run(plans, store, retry_failed, cores, dask, skip_missing, quiet, as_json)


def _run(
    plans: list[Plan], store: Path, retry_failed: bool, cores: int | None, dask: str | None,
    skip_missing: bool, quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    from bigdag.experiments.run.runner import run_plan
    from bigdag.experiments.store import Store

    if dask is not None and cores is not None:
        raise ParameterError("--cores is of this machine; with --dask the workers have theirs.")
    if dask is not None:
        # What goes wrong there becomes a row or a sentence; its log would run into the live table.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with Store(store) as opened:
        try:
            with _progress(quiet) as show:
                progress = run_plan(
                    plans, opened, dask=dask, cores=cores, retry_failed=retry_failed,
                    skip_missing=skip_missing, show=show,
                )  # fmt: skip
        except KeyboardInterrupt:
            raise BigdagError(
                f"Stopped. {store} holds {_runs(len(opened.statuses()))} that finished; what was "
                "under way was ended. The same command again does what is missing."
            ) from None
        wanted = {job["run"]: job["experiment"] for each in plans for job in each.jobs()}
        statuses = {run: s for run, s in opened.statuses().items() if run in wanted}
        failures = [each for each in opened.failures() if each["run"] in wanted]
    ended = Counter(statuses.values())
    report = {
        "store": store, "experiments": [each.experiment for each in plans],
        "total": progress.total, "done": progress.done, "failed": progress.failed,
        "new": progress.new, "elsewhere": progress.elsewhere, "statuses": dict(ended),
    }  # fmt: skip
    if as_json:
        print_json(report)
    elif not quiet:
        _show_end(report, failures)
    done = Counter(wanted[run] for run in statuses)
    failed = Counter(wanted[each["run"]] for each in failures)
    hopeless = [name for name in done if failed[name] == done[name]]
    if hopeless:
        of_these = [each for each in failures if wanted[each["run"]] in hopeless]
        raise BigdagError(
            f"All {_runs(len(of_these))} of {' and '.join(hopeless)} failed. "
            f"{_causes(of_these)}. Correct that, and do them again with --retry-failed; "
            f"bigdag experiment status {store} lists them."
        )


def _causes(failures: Sequence[Mapping[str, Any]]) -> str:
    """Return the most frequent causes of failures, each with how often it was."""
    counts = Counter((each["status"], each["message"] or "no message") for each in failures)
    most = [
        f"{count:,} × {status}: {message}" for (status, message), count in counts.most_common(3)
    ]
    rest = len(counts) - len(most)
    return "; ".join(most).rstrip(".") + (f"; and {rest:,} other causes" if rest > 0 else "")


def _show_end(report: Mapping[str, Any], failures: Sequence[Mapping[str, Any]]) -> None:
    console = _console()
    rows = [
        ("finished", f"{report['done']:,} of {_runs(report['total'])}, {report['new']:,} of them "
                     "now"),
        ("ended", _statuses(report["statuses"])),
    ]  # fmt: skip
    if report["failed"]:
        words = f"bigdag experiment status {report['store']} lists them"
        rows.append(("failed", f"{report['failed']:,}: {_causes(failures)}; {words}, "
                               "--retry-failed does them again"))  # fmt: skip
    if report["elsewhere"]:
        rows.append(("elsewhere", f"{_runs(report['elsewhere'])} under way by another runner"))
    rows.append(("store", str(report["store"])))
    rows.append(("next", f"bigdag experiment report {report['store']} --out report"))
    _facts(console, rows)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Give what shows the progress: a live table on a terminal, else a line for each run."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False)
    if quiet:
        yield None
    elif console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield lambda progress: live.update(_table(progress), refresh=True)
    else:

        def line(progress: Progress) -> None:
            before = progress.done - len(progress.finished)
            for place, (job, record) in enumerate(progress.finished, before + 1):
                words = f"{place}/{progress.total}  {_name(job)}: {record['status']}"
                if record.get("seconds") is not None:
                    words += f", {_duration(record['seconds'])}"
                if record.get("message"):
                    words += f"; {record['message']}"
                console.print(_text(words), soft_wrap=True)

        yield line


def _table(progress: Progress) -> RenderableType:
    """Return the live table: done, running, failed, time left, and what is under way."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    counts = Table.grid(padding=(0, 3))
    left = progress.seconds_left
    cells = [
        ("done", f"{progress.done:,} of {progress.total:,}"),
        ("running", f"{len(progress.running):,}"),
        ("failed", f"{progress.failed:,}"),
        ("time left", "-" if left is None else f"about {_duration(left)}"),
    ]
    if progress.elsewhere:
        cells.insert(2, ("elsewhere", f"{progress.elsewhere:,}"))
    counts.add_row(*(_text(name, "bold") for name, _ in cells))
    counts.add_row(*(value for _, value in cells))
    runs = Table.grid(padding=(0, 2))
    for each in progress.running[:_SHOWN]:
        limit = each.job.get("time_limit") or 0.0
        runs.add_row(
            _text(_name(each.job)), f"{_duration(each.seconds)} of {_duration(limit)}", style="dim"
        )
    more = len(progress.running) - _SHOWN
    if more > 0:
        runs.add_row(f"and {more:,} more", "")
    bar = ProgressBar(total=max(progress.total, 1), completed=progress.done, width=60)
    return Group(counts, bar, runs)


def _name(job: Mapping[str, Any]) -> str:
    """Return a run in words."""
    data = job["dataset"]
    units = "" if data.get("units") in (None, "raw") else f", {data['units']}"
    return (
        f"{job.get('experiment')}  {job['method']['name']} on {data['name']}{units}, "
        f"seed {data.get('seed')}"
    )


# ------------------------------------------------------------------ status


@app.command(epilog="It may be asked while runs are under way, from another shell.")
def status(store: _Store, as_json: _Json = False) -> None:
    """Say what a store holds: done, running, failed, missing."""
    from bigdag.experiments.store import FAILED, Store

    with Store(store, read_only=True) as opened:
        parts, running = opened.counts(), opened.claims()
        failures = opened.failures()
    for part in parts:
        held = [claim for claim in running if claim["experiment"] == part["experiment"]]
        part["done"] = sum(part["statuses"].values())
        part["failed"] = sum(part["statuses"].get(word, 0) for word in FAILED)
        part["missing"] = part["planned"] - part["done"]
        part["running"] = sum(claim["preset"] == part["preset"] for claim in held)
    report = {"store": store, "experiments": parts, "running": running, "failures": failures}
    if as_json:
        print_json(report)
    else:
        _show_status(report)


def _show_status(report: Mapping[str, Any]) -> None:
    from rich.table import Table

    console = _console()
    table = Table(box=None, pad_edge=False)
    names = ("experiment", "preset", "planned", "done", "running", "failed", "missing")
    for name in names:
        text = name in ("experiment", "preset")
        table.add_column(name, justify="left" if text else "right", overflow="fold")
    for part in report["experiments"]:
        table.add_row(*(_text(str(part[name])) for name in names))
    console.print(table)
    if report["running"]:
        console.print()
        lines = [
            (f"{each['method']} on {each['dataset']}",
             f"{_duration(each['seconds'])}, by {each['owner'].rsplit(':', 1)[0]}")
            for each in report["running"]
        ]  # fmt: skip
        _listing(console, "Under way", lines)
    if report["failures"]:
        console.print()
        lines = [
            (f"{each['status']}: {each['method']} on {each['dataset']}", each["message"] or "")
            for each in report["failures"]
        ]
        _listing(console, "Failed", lines)


def _listing(console: Console, title: str, lines: Sequence[tuple[str, str]]) -> None:
    console.print(_text(title, "bold"))
    for first, second in lines[:_SHOWN]:
        words = f"{first}; {second}" if second else first
        console.print(_text(words), soft_wrap=True)
    if len(lines) > _SHOWN:
        console.print(f"and {len(lines) - _SHOWN:,} more; --json lists all")


# ------------------------------------------------------------------ report and export


@app.command(epilog="Example:  bigdag experiment report runs.db --out report")
def report(
    store: _Store,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("report"),
    force: _Force = False,
    as_json: _Json = False,
) -> None:
    """Draw the figures and tables of a store, and one page that holds them all."""
    from bigdag.experiments.report.write import write_report

    page = write_report(store, out, force)
    if as_json:
        print_json({"store": store, "out": out, "page": page})
    else:
        _written(page)


@app.command(epilog="Example:  bigdag experiment export runs.db --out runs.parquet")
def export(
    store: _Store,
    out: Annotated[
        Path | None, _option(help="A .parquet file. Default: STORE's name and .parquet.")
    ] = None,
    force: _Force = False,
    as_json: _Json = False,
) -> None:
    """Write all runs and their scores as one long Parquet table."""
    from bigdag.experiments.store import Store
    from bigdag.writing import whole_file

    out = Path(f"{store.stem}.parquet") if out is None else out
    if out.suffix.lower() != ".parquet":
        raise ParameterError(f"The table must end in .parquet. Got {out} instead.")
    with Store(store, read_only=True) as opened, whole_file(out, force) as file:
        frame = opened.export()
        frame.to_parquet(file, index=False)
    if as_json:
        print_json({"store": store, "out": out, "rows": len(frame), "runs": frame["run"].nunique()})
    else:
        _written(out)


# ------------------------------------------------------------------ words and numbers


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    # A file or a pipe has no width; rows shall not be folded for it.
    return console if console.is_terminal else Console(highlight=False, width=120)


def _text(words: str, style: str = "") -> Text:
    """Return words to print as they are: nothing in them is a style, or obeyed by a terminal."""
    from rich.text import Text

    from bigdag.terminal import printable

    return Text(printable(words), style=style)


def _facts(console: Console, rows: Sequence[tuple[str, str]]) -> None:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, _text(value))
    console.print(grid)


def _written(path: Path) -> None:
    _console().print(_text(f"Written to {path}"), soft_wrap=True)


def _statuses(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items())) or "none"


def _runs(count: int) -> str:
    return f"{count:,} run{'s' * (count != 1)}"


def _hours(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.2g}"


def _duration(seconds: float) -> str:
    """Return a time as text.

    Examples
    --------
    >>> _duration(0.26), _duration(75), _duration(7300), _duration(1e6)
    ('0.3 s', '1:15', '2:01:40', '12 days')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 72:
        return f"{hours / 24:,.0f} days"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
