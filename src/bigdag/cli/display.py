"""What the command shows to people: progress and messages on stderr, results on stdout.

Every function takes the report that ``--json`` would print, so that both say the same. Names, paths
and cells come from files that anybody may have written: what a terminal would obey is shown as an
escape, in all of them (see `bigdag.terminal`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from bigdag.errors import DataWarning, few_names, installing
from bigdag.terminal import printable

if TYPE_CHECKING:
    from bigdag.learners.run import State

__all__ = [
    "FitProgress",
    "show_card",
    "show_check",
    "show_comparison",
    "show_dag",
    "show_effect",
    "show_error",
    "show_evaluation",
    "show_fit",
    "show_methods",
    "show_page",
    "warning_printer",
]

_COMPILING = "compiling, only this first time"
_SHOWN = 12  # names in a list before "and k more"
_FEW_RESAMPLES = 10  # below which a share of them is no probability
_TELLING = ("few rows",)  # notes of a check that say how far an answer can be trusted
_FINDINGS, _NAMES = 4, 3  # of a check in the summary of a fit, and columns of each

_STATUS = {
    "converged": "converged",
    "max_iter": "stopped at the limit of iterations (--max-iter)",
    "time_limit": "stopped at the limit of time (--time-limit)",
    "interrupted": "interrupted; this is the best DAG so far",
    "diverged": "diverged; this is the best DAG before that",
}


# ------------------------------------------------------------------ messages and progress


def _printable_parts(value: Any) -> Any:
    """Return a report with all its texts printable."""
    if isinstance(value, str | PurePath):
        return printable(str(value))
    if isinstance(value, Mapping):
        return {key: _printable_parts(part) for key, part in value.items()}
    return [_printable_parts(part) for part in value] if isinstance(value, list) else value


def _of_printable_parts(show: Callable[..., None]) -> Callable[..., None]:
    """Give a function its arguments printable."""

    @wraps(show)
    def shown(*given: Any) -> None:
        show(*map(_printable_parts, given))

    return shown


def _message(kind: str, style: str, text: str) -> None:
    # Not wrapped: a sentence stays one line for whoever searches or copies it.
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble((f"{kind}: ", style), printable(text)))


def show_error(text: str) -> None:
    """Print an error on stderr."""
    _message("Error", "bold red", text)


def warning_printer() -> Callable[..., None]:
    """Return a replacement of ``warnings.showwarning``: a `DataWarning` becomes a clean line."""
    usual = warnings.showwarning

    def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, DataWarning):
            _message("Warning", "bold yellow", str(message))
        else:
            usual(message, category, *where, **more)

    return show


class FitProgress:
    """A line on stderr that says how far a fit is; nothing at all unless `shown` on a terminal.

    That the functions of a first fit are being compiled is said without a terminal, too, once.

    Parameters
    ----------
    shown : bool
        Whether it is wanted.
    """

    def __init__(self, shown: bool) -> None:
        self._shown, self._console = shown, Console(stderr=True, soft_wrap=True, highlight=False)
        console = self._console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[numbers]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
            disable=not (shown and console.is_terminal),
        )
        self._task = self._progress.add_task("", total=None, numbers="", left="")

    def __enter__(self) -> Self:
        from bigdag import compiled  # not above: what compiles nothing need not load the compiler

        if self._shown:
            compiled.on_compiling(self._compiling)
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        from bigdag import compiled

        compiled.on_compiling(None)
        self._progress.stop()

    def _compiling(self) -> None:
        if self._progress.disable:
            self._console.print(_COMPILING)
        else:
            self.phase(_COMPILING)

    @property
    def callback(self) -> Callable[[State], None] | None:
        """What to give a learner."""
        return None if self._progress.disable else self._step

    def phase(self, text: str) -> None:
        """Say what is under way before the first iteration."""
        self._progress.update(self._task, description=escape(printable(text)))

    def _step(self, state: State) -> None:
        share, left = _share_and_left(
            state.seconds, state.time_limit, state.iteration, state.max_iter
        )
        self._progress.update(
            self._task,
            description=escape(printable(state.phase)),
            total=None if share is None else 1.0,
            completed=share or 0.0,
            numbers=_numbers(state),
            left="" if left is None else f"at most {_duration(left)} left",
        )


def _numbers(state: Any) -> str:
    """Return what a callback's state says of the work so far; a resample has no loss."""
    if not hasattr(state, "objective"):
        return f"{state.iteration:,} of {state.max_iter:,}  {state.arcs:,} arcs"
    return f"iteration {state.iteration:,}  loss {state.objective:.6g}  {state.arcs:,} arcs"


def _share_and_left(
    seconds: float, time_limit: float | None, iteration: int, max_iter: int | None
) -> tuple[float | None, float | None]:
    """Return the share of the nearest limit that is used up, and the seconds to it.

    Examples
    --------
    >>> _share_and_left(10.0, 40.0, 50, 100)
    (0.5, 10.0)
    >>> _share_and_left(10.0, None, 50, None)
    (None, None)
    """
    limits = []
    if time_limit is not None:
        limits.append((seconds / time_limit, time_limit - seconds))
    if max_iter is not None:
        limits.append((iteration / max_iter, seconds / iteration * (max_iter - iteration)))
    if not limits:
        return None, None
    share, left = max(limits)
    return min(share, 1.0), max(left, 0.0)


def _duration(seconds: float) -> str:
    """Return a time as text.

    Examples
    --------
    >>> _duration(0.26), _duration(75), _duration(7300)
    ('0.3 s', '1:15', '2:01:40')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# ------------------------------------------------------------------ results


def _console() -> Console:
    console = Console(highlight=False)
    # A file or a pipe has no width; rows shall not be folded for it.
    return console if console.is_terminal else Console(highlight=False, width=120)


def _facts(rows: Iterable[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, Text(value))
    return grid


def _arcs_table(title: str, arcs: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("cause", overflow="fold")
    table.add_column("")
    table.add_column("effect", overflow="fold")
    table.add_column("weight", justify="right", no_wrap=True)
    usual = ("source", "target", "weight", "direction")
    more = [name for name in (arcs[0] if arcs else ()) if name not in usual]
    for name in more:
        table.add_column(name, justify="right", no_wrap=True)
    for arc in arcs:
        mark = "–" if _is_open(arc) else "→"
        cells = [f"{arc['weight']:.4g}", *(_cell(arc[name]) for name in more)]
        table.add_row(Text(arc["source"]), mark, Text(arc["target"]), *cells)
    return table


def _cell(value: float | bool) -> str:
    """Return what else is known of an arc as text; nothing for False and for NaN."""
    if isinstance(value, bool):
        return "yes" if value else ""
    return "" if value != value else f"{value:.3g}"


def _is_open(arc: Mapping[str, Any]) -> bool:
    """Tell whether data cannot direct an arc."""
    return bool(arc.get("direction") == "--")


def _strongest(console: Console, report: Mapping[str, Any]) -> None:
    if report["strongest"]:
        console.print()
        console.print(_arcs_table("Strongest arcs", report["strongest"]))


def _listing(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return (", ".join(names[:_SHOWN]) or "none") + (f" and {more:,} more" if more > 0 else "")


_SCORES = {"least_squares": "least squares", "bic": "extended BIC"}


@_of_printable_parts
def show_fit(report: Mapping[str, Any]) -> None:
    """Print the summary of a fit."""
    console = _console()
    facts = [*_how(report), *_table(report), *_what(report), *_units(report)]
    console.print(_facts(facts))
    _strongest(console, report)
    console.print()
    nodes = f", and all variables to {report['nodes_out']}" if report["nodes_out"] else ""
    console.print(Text(f"Written to {report['out']}{nodes}"), soft_wrap=True)
    if report["page"] is not None:
        words = f"Page to explore it: {report['page']}"
        console.print(Text(words), soft_wrap=True)


def _absent(names: list[str]) -> str:
    if not names:
        return ""
    them = "is not a variable of the table, and was" if len(names) == 1 else (
        "are no variables of the table, and were"
    )  # fmt: skip
    return f"; {few_names(names)} {them} passed over"


def _rows(report: Mapping[str, Any]) -> str:
    """Say how many rows there are, and as how many they count where values are missing."""
    rows, samples = report["n_rows"], report["n_samples"]
    if rows == samples:
        return f"{samples:,} samples"
    if report["missing"] == "drop":
        return f"{samples:,} samples ({rows:,} rows, those with missing values left out)"
    return f"{rows:,} samples (with missing values, they count as {samples:,} whole ones)"


def _how(report: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what the method did."""
    yield "table", f"{_rows(report)} of {report['n_variables']:,} variables"
    yield "method", f"{report['method']}, {_duration(report['seconds'])}"
    if report.get("around"):
        yield "around", report["around"]
    if report.get("knowledge"):
        said = report["knowledge"]
        parts = [
            f"{name.replace('_', ' ')} ({len(value):,})" if isinstance(value, list) else name
            for name, value in said.items()
            if name not in ("within_tier", "unmatched")
        ]
        yield "known", ", ".join(parts) + _absent(report["knowledge_absent"])
    if report["explanation"] is not None:
        yield "choice", report["explanation"]
    before = report["before_search"]
    if before is not None:
        yield (
            "search",
            f"over orders by {_SCORES[report['search']]}, from {before['n_arcs']:,} arcs with the "
            f"loss {before['objective']:.6g}, which took {_duration(before['seconds'])}",
        )
    bootstrap = report["bootstrap"]
    if bootstrap is not None:
        yield "bootstrap", _resamples(bootstrap)
    yield "status", f"{_STATUS[report['status']]}, {report['n_iter']:,} iterations"
    refit = report["refit_gain"]
    gain = f" (the refit on the order lowered it by {refit:.3g})" if refit else ""
    yield "loss", f"{report['objective']:.6g}{gain}; least squares and lambda1·‖W‖₁, equation (1)"
    if report["extended_bic"] is not None:
        yield "extended BIC", f"{report['extended_bic']:.6g}"
    if report["parameters"].get("lambda1") == "bic":
        yield "lambda1", f"{report['lambda1']:.4g}, chosen by the extended BIC"
    if report["parameters"].get("penalty") == "auto":
        yield "penalty", f"{report['penalty']:.3g}, chosen by the rows held out"


def _resamples(bootstrap: Mapping[str, Any]) -> str:
    """Say how many resamples there are, and which arcs they leave."""
    done, wanted = bootstrap["n_resamples"], bootstrap["wanted"]
    number = f"{done:,} of {wanted:,} resamples"
    if done > wanted:
        number = (
            f"all {done:,} resamples that the checkpoint held already, more than the {wanted:,} "
            "asked for"
        )
    text = (
        f"{number}; arcs are those of pairs joined with a probability of "
        f"{bootstrap['min_prob']:.0%} or more"
    )
    if done < _FEW_RESAMPLES:
        tells = "One resample tells only whether an arc is found" if done == 1 else (
            f"So few resamples tell how often an arc is found only in steps of 1/{done}"
        )  # fmt: skip
        text += f". {tells}, which is no probability: 100 or so make it one (--bootstrap 100)"
    return text


def _table(report: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what was done to the table, and what is odd in it."""
    for place, note in enumerate(report["prepared"]):
        yield "prepared" if not place else "", note
    harmful = [f for f in report["findings"] if f["severity"] != "note" or f["finding"] in _TELLING]
    for place, found in enumerate(harmful[:_FINDINGS]):
        yield "check" if not place else "", f"{_finding(found)}. {found['remedy']}"
    if len(harmful) > _FINDINGS:
        yield "", f"and {len(harmful) - _FINDINGS} more findings; bigdag check tells all of them"


def _finding(found: Mapping[str, Any]) -> str:
    """Return what was found, and where."""
    names, count = found["columns"], found["n_columns"]
    if not count:
        return f"{found['finding']}: {found['detail']}"
    shown = ", ".join(names[:_NAMES]) + (f" and {count - _NAMES:,} more" if count > _NAMES else "")
    return f"{found['finding']} ({shown}): {found['detail']}"


@_of_printable_parts
def show_check(report: Mapping[str, Any]) -> None:
    """Print what is odd in a table."""
    console = _console()
    rows = [("table", f"{report['n_samples']:,} samples of {report['n_columns']:,} columns")]
    for found in report["findings"]:
        rows.append((found["severity"], f"{_finding(found)}."))
        rows.append(("", f"Effect: {found['effect']}."))
        rows.append(("", f"Help: {found['remedy']}"))
    if not report["findings"]:
        rows.append(("findings", "nothing odd was found"))
    console.print(_facts(rows))


def _what(report: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what was found."""
    arcs, threshold = f"{report['n_arcs']:,}", report["threshold"]
    if threshold is not None:
        kept = "worth their extended BIC" if threshold == "auto" else _above(threshold)
        arcs += f" {kept}, of {report['n_arcs_found']:,}"
    yield "arcs", arcs + _open_arcs(report["n_undirected"])


def _units(report: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield how far variances and units may have made the answer."""
    share = report["var_sortability"]
    yield (
        "variances",
        "nothing to compare without arcs"
        if share is None
        else f"{share:.0%} of its paths run to the larger variance (var-sortability; 50% would be "
        "chance)",
    )
    check = report["check_units"]
    if not report["depends_on_units"]:
        words = "the order found does not depend on the units of the columns"
    else:
        words = "the order found depends on the units of the columns"
        if check is None and report["assumption"] is None:  # the automatic method has said it
            words += "; --check-units shows how far"
    if report["standardised"]:
        words = f"standard deviations: every column was scaled to variance 1; {words}"
    yield "units", words
    if check is not None:
        parts = {
            "same": "in both", "reversed": "reversed", "only_raw": "only raw",
            "only_standardised": "only standardised",
        }  # fmt: skip
        shares = check["shares"]
        if shares is not None:
            counts = [f"{check[k]:,} {words} ({shares[k]:.0%})" for k, words in parts.items()]
            yield "raw, standardised", f"{', '.join(counts)}; F1 {check['f1']:.3g}"
        yield "", check["meaning"]


def _above(threshold: float) -> str:
    return f"with a weight above {threshold:g}"


def _open_arcs(count: int | None) -> str:
    return f", {count:,} of them undirected (–): data cannot tell which way" if count else ""


def _take_part(count: int) -> str:
    return "1 variable takes" if count == 1 else f"{count:,} variables take"


@_of_printable_parts
def show_knowledge(report: Mapping[str, Any]) -> None:
    """Print what `bigdag knowledge check` found."""
    console = _console()
    if report["table"] is None:
        said = [name for name in report if name not in ("knowledge", "table")]
        rows = [
            (
                name,
                f"{len(report[name]):,}" if isinstance(report[name], list) else str(report[name]),
            )
            for name in said
        ]
        console.print(_facts(rows or [("knowledge", "nothing is known")]))
        console.print()
        console.print("Nothing contradicts. --table tells what it means for a table.")
        return
    share = report["n_possible"] / max(1, report["n_pairs"])
    causes, effects = report["n_causes"], report["n_effects"]
    rows = [
        ("variables", f"{report['n_variables']:,}"),
        (
            "possible arcs",
            f"{report['n_possible']:,} of {report['n_pairs']:,} ({100 * share:.3g} %)",
        ),
        ("causes", f"{causes:,} may have effects, {effects:,} may have causes"),
    ]
    if report["tiers"]:
        sizes = ", ".join(f"{size:,}" for size in report["tiers"])
        rows.append(("tiers", f"{sizes} variables; {report['n_without_tier']:,} without one"))
    rows += [
        ("arcs", f"{report['n_required']:,} required, {report['n_forbidden']:,} forbidden"),
        ("search", f"{_take_part(report['n_in_search'])} part in a search over orders"),
    ]
    if report["absent"]:
        rows.append(("passed over", f"{few_names(report['absent'])}: not in the table"))
    if report["constant_causes"]:
        rows.append(("constant", f"{_listing(report['constant_causes'])}: causes of nothing"))
    console.print(_facts(rows))
    console.print()
    console.print("Nothing contradicts.")


@_of_printable_parts
def show_dag(report: Mapping[str, Any]) -> None:
    """Print what `bigdag show` found in a DAG."""
    console = _console()
    above = f" {_above(report['threshold'])}" if report["threshold"] else ""
    if report["min_prob"] is not None:
        above += f" of pairs with a probability of at least {report['min_prob']:g}"
    rows = [
        ("variables", f"{report['n_variables']:,}, {report['isolated']:,} of them isolated"),
        ("arcs", f"{report['n_arcs']:,}{above}{_open_arcs(report['n_undirected'])}"),
        ("roots", f"{report['roots']:,} variables with effects and without causes"),
        ("sinks", f"{report['sinks']:,} variables with causes and without effects"),
    ]
    for key, words in (("most_parents", "causes"), ("most_children", "effects")):
        top = report[key]
        if top is not None:
            rows.append((f"most {words}", f"{top['count']:,}, of {top['variable']}"))
    console.print(_facts(rows))
    around = report.get("variable")
    if around is None:
        _strongest(console, report)
    else:
        console.print()
        blanket = around["markov_blanket"]
        rows = [
            ("variable", around["name"]),
            ("Markov blanket", f"{len(blanket):,}: {_listing(blanket)}"),
            (
                f"within {around['radius']} arc{'s' * (around['radius'] > 1)}",
                f"{around['n_variables']:,} variables, {around['n_arcs']:,} arcs",
            ),
        ]
        console.print(_facts(rows))
        open_arcs = [arc for arc in around["parents"] + around["children"] if _is_open(arc)]
        for title, arcs in (
            ("Its causes", [arc for arc in around["parents"] if not _is_open(arc)]),
            ("Its effects", [arc for arc in around["children"] if not _is_open(arc)]),
            ("Undirected", open_arcs),
        ):
            if arcs:
                console.print()
                console.print(_arcs_table(title, arcs))
    if report.get("plot"):
        console.print()
        console.print(Text(f"Drawn to {report['plot']}"), soft_wrap=True)


@_of_printable_parts
def show_page(report: Mapping[str, Any]) -> None:
    """Print where `bigdag explore` has written a page."""
    console = _console()
    above = f" {_above(report['threshold'])}" if report["threshold"] else ""
    if report["min_prob"] is not None:
        above += f" of pairs with a probability of at least {report['min_prob']:g}"
    rows = [
        ("variables", f"{report['n_variables']:,}"),
        ("arcs", f"{report['n_arcs']:,}{above}"),
        ("page", f"{report['bytes'] / 1e6:.1f} MB; open it in a browser"),
    ]
    console.print(_facts(rows))
    console.print()
    console.print(Text(f"Written to {report['out']}"), soft_wrap=True)


@_of_printable_parts
def show_effect(report: Mapping[str, Any]) -> None:
    """Print the total effects of a variable."""
    console, cause = _console(), report["cause"]
    _show_effects(console, cause, report)
    if report["units"] is not None:
        console.print()
        console.print(Text(report["units"]), soft_wrap=True)


def _show_effects(console: Console, cause: str, report: Mapping[str, Any]) -> None:
    if "effect" in report:
        possible = report["possible_effects"]
        console.print(_facts([("total effect", _sentence(cause, report))]))
        if len(possible) > 1:
            words = (
                f"from {possible[0]:.4g} to {possible[-1]:.4g}: the undirected arcs at {cause} "
                f"leave {len(possible):,} sets of direct causes open"
            )
            console.print(_facts([("possible", words)]))
        return
    count = report["n_effects"]
    if not count:
        console.print(Text(f"{cause} affects no other variable."))
        return
    rows = report["effects"]
    more = f"; the {len(rows):,} largest" if len(rows) < count else ""
    title = f"Total effects of {cause} on {count:,} variable{'s' * (count > 1)}{more}"
    console.print(Text(title, style="bold"), soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    table.add_column("effect", overflow="fold")
    columns = [name for name in ("total_effect", "lowest", "highest") if rows and name in rows[0]]
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(Text(row["effect"]), *(f"{row[name]:.4g}" for name in columns))
    console.print(table)
    if "lowest" in columns:
        sets = rows[0]["n_possible"]
        console.print()
        console.print(
            Text(
                f"The undirected arcs at {cause} leave {sets:,} sets of direct causes open; lowest "
                "and highest are over these, total effect is that of the DAG as it is."
            ),
            soft_wrap=True,
        )


def _sentence(cause: str, report: Mapping[str, Any]) -> str:
    value = report["total_effect"]
    if cause == report["effect"]:
        return "1; a variable moves with itself"
    if not value:
        return f"0; no directed path of the DAG leads from {cause} to {report['effect']}"
    return f"{value:.4g}; so much does {report['effect']} change when {cause} is raised by 1"


_COMPARED = {
    "same": "in both, the same way",
    "reversed": "in both, reversed",
    "undirected_a": "directed in B, undirected in A",
    "undirected_b": "directed in A, undirected in B",
    "only_a": "in A only",
    "only_b": "in B only",
}


@_of_printable_parts
def show_comparison(report: Mapping[str, Any]) -> None:
    """Print what two DAGs have in common."""
    console = _console()
    above = f" {_above(report['threshold'])}" if report["threshold"] else ""
    rows = [
        (mark.upper(), f"{report[mark]}: {report[f'n_variables_{mark}']:,} variables, "
                       f"{report[f'n_arcs_{mark}']:,} arcs{above}")
        for mark in "ab"
    ]  # fmt: skip
    rows += [(f"{report[key]:,}", words) for key, words in _COMPARED.items()]
    rows.append((f"{report['shd']:,}", "pairs differ (structural Hamming distance)"))
    for mark in "ab":
        names = report[f"variables_only_in_{mark}"]
        if names:
            rows.append((f"{len(names):,}", f"variables in {mark.upper()} only: {_listing(names)}"))
    console.print(_facts(rows))
    if report["differences"]:
        table = Table(
            title="What differs", title_justify="left", title_style="bold", box=None, pad_edge=False
        )
        for name in ("cause", "effect", "", "weight in A", "weight in B"):
            table.add_column(name, overflow="fold", justify="right" if "weight" in name else "left")
        for row in report["differences"]:
            weights = ("" if w != w else f"{w:.4g}" for w in (row["weight_a"], row["weight_b"]))
            ends = Text(row["source"]), Text(row["target"])
            table.add_row(*ends, _COMPARED[row["status"]], *weights)
        console.print()
        console.print(table)
    if report.get("out"):
        console.print()
        console.print(Text(f"Written to {report['out']}"), soft_wrap=True)


@_of_printable_parts
def show_card(card: Mapping[str, Any], folder: str) -> None:
    """Print what `bigdag simulate` made."""
    units = {
        "raw": "raw", "standardised": "standardised", "internal": "internally standardised",
        "mixed": "mixed: one for each column",
    }  # fmt: skip
    rows = [
        ("graph", f"{card['graph']}, {card['d']:,} variables, {card['arcs']:,} arcs"),
        ("noise", f"{card['noise']}, {card['variance']}, units {units[card['units']]}"),
        ("tables", f"{card['n']:,} training and {card['validation']:,} validation samples"),
        ("seed", str(card["seed"])),
    ]
    if card["outliers"] or card["missing"]:
        damage = f"{card['outliers']:.3g} of the training values are outliers, "
        rows.append(("damage", f"{damage}{card['missing']:.3g} are missing"))
    for key, words in (("var_sortability", "variances"), ("r2_sortability", "R²")):
        if card[key] is not None:
            rows.append(
                (words, f"sort {card[key]:.0%} of the true paths right (50% would be chance)")
            )
    console = _console()
    console.print(_facts(rows))
    console.print(
        Text(f"Written to {folder}: train.parquet, validation.parquet, truth.parquet, card.json"),
        soft_wrap=True,
    )


_PAIRED = {
    "average_precision": "average precision, over all thresholds",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "fnr": "false negative rate",
    "fpr": "false positive rate",
    "tp": "true arcs found",
    "fp": "false arcs",
    "fn": "true arcs missed",
    "shd": "structural Hamming distance",
    "shd_normalised": "... per variable",
}
_SINGLE = {
    "reversed": "true arcs found the wrong way round",
    "order_errors": "share of true arcs against the order found",
    "shd_cpdag": "structural Hamming distance of the CPDAGs",
    "parent_aid": "parent adjustment distance",
    "nll_ev": "negative log-likelihood per sample, equal variances",
    "nll_nv": "negative log-likelihood per sample, free variances",
}


@_of_printable_parts
def show_dag_check(report: Mapping[str, Any]) -> None:
    """Print what a table says of a DAG."""
    held = f"{report['log_likelihood']:.4g} a row"
    if report["log_likelihood_permuted"]:
        best = max(report["log_likelihood_permuted"])
        held += f"; the best of the shuffled graphs {best:.4g}"
    for key, words in (("fewer", "with fewer arcs"), ("more", "with more arcs")):
        value = report[f"log_likelihood_{key}_arcs"]
        if not math.isnan(value):
            held += f"; {words} {value:.4g}"
    facts = [
        ("table", f"{report['n_samples']:,} samples of {report['n_variables']:,} variables"),
        ("arcs", f"{report['n_arcs']:,}"),
        *(("prepared" if not i else "", note) for i, note in enumerate(report["prepared"])),
        ("likelihood", f"log-likelihood of the rows held out {held}"),
    ]
    console = _console()
    console.print(_facts(facts))
    console.print()
    for sentence in report["conclusions"]:
        console.print(Text(sentence), soft_wrap=True)


def show_evaluation(report: Mapping[str, Any]) -> None:
    """Print the scores of a DAG against the truth."""
    scores = report["metrics"]
    table = Table(
        title=f"Arcs with a weight above {report['threshold']:g} against the truth",
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
    )
    table.add_column("")
    table.add_column("directed", justify="right")
    table.add_column("undirected", justify="right")
    for key, words in _PAIRED.items():
        table.add_row(words, _score(scores[key]), _score(scores[f"undirected_{key}"]))
    for key, words in _SINGLE.items():
        if key in scores:
            table.add_row(words, _score(scores[key]), "")
    console = _console()
    console.print(table)
    for word, rows in report.get("calibration", {}).items():
        if rows:
            what = "Calibration of arcs" if word == "directed" else "... of pairs"
            console.print()
            console.print(_calibration(what, rows))


def _calibration(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in ("probability", "arcs", "mean", "true"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        span = f"{row['low']:g} to {row['high']:g}"
        table.add_row(span, f"{row['count']:,}", f"{row['probability']:.2f}", f"{row['true']:.0%}")
    return table


def _score(value: float | None) -> str:
    if value is None:
        return "not defined"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


@_of_printable_parts
def show_plan(report: Mapping[str, Any]) -> None:
    """Print what a fit will take."""
    from bigdag.resources import format_bytes

    console = _console()
    need, limit = report["memory_bytes"], report["memory_limit_bytes"]
    console.print(
        f"{report['method']} on {report['n_samples']:,} samples of {report['n_variables']:,} "
        f"variables takes about {format_bytes(need)} of memory; {format_bytes(limit)} may be used.",
        markup=False,
    )
    if need > limit:
        console.print(
            "Where the correlations do not fit, most methods compute them on demand; a fit that "
            "cannot fit says so before it begins.",
            markup=False,
        )
    if report["seconds"] is None:
        console.print(
            "There is no formula for the time of this method; --time-limit bounds it.", markup=False
        )
        return
    console.print(
        f"Time: about {said_duration(report['seconds'])}, beside reading and preparing the table"
        f"{' and without resamples' if report['method'] == 'auto' else ''}. A variable is "
        f"correlated with {report['mean_correlated']:,.3g} others in the mean.",
        markup=False,
    )


def said_duration(seconds: float) -> str:
    """Return a time as words, rounded as a forecast is.

    Examples
    --------
    >>> said_duration(0.2), said_duration(75.0), said_duration(7300.0)
    ('1 second', '1.2 minutes', '2 hours')
    """
    if seconds < 60:
        whole = max(1, round(seconds))
        return f"{whole} second{'s' if whole > 1 else ''}"
    amount, unit = (seconds / 60, "minutes") if seconds < 5400 else (seconds / 3600, "hours")
    return f"{amount:.2g} {unit}"


def announce(said: Any) -> None:
    """Say on stderr what a fit that takes more than a minute will take."""
    from bigdag.resources import format_bytes

    Console(stderr=True, soft_wrap=True, highlight=False).print(
        f"This fit of {said.n:,} samples of {said.d:,} variables takes about "
        f"{said_duration(said.seconds)} and {format_bytes(said.memory)} of memory.",
        markup=False,
    )


def show_methods(report: Mapping[str, Any]) -> None:
    """Print the table of methods."""
    from bigdag.resources import format_bytes

    table = Table(box=None, pad_edge=False)
    for name in ("method", "what it is", "needs", f"memory at d = {report['d']:,}", "units"):
        table.add_column(name, no_wrap=name == "method", overflow="fold")
    for row in report["methods"]:
        needs = row["extra"] or "-"
        if not row["installed"]:
            needs += " (not installed)"
        memory = format_bytes(row["memory_bytes"])
        table.add_row(
            row["method"], row["summary"], needs, memory, "yes" if row["depends_on_units"] else "no"
        )
    console = _console()
    console.print(table)
    console.print()
    console.print(
        f"Memory: at {report['n']:,} samples, the table included. needs: what else has to be "
        f"installed, as with {installing('torch')}. units: whether the order found depends on the "
        "units of the columns.",
        markup=False,
    )
