"""What all that the command prints shares: safe texts, tables, and the words for times and arcs.

Names, paths and cells come from files that anybody may have written: what a terminal would obey is
shown as an escape (see `bigdag.terminal`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import PurePath
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bigdag.terminal import printable

__all__ = [
    "above_words",
    "arcs_table",
    "duration",
    "facts_table",
    "finding",
    "is_open",
    "listing",
    "new_console",
    "of_printable_parts",
    "open_arcs_words",
    "said_duration",
    "show_strongest",
    "titled_table",
]

_SHOWN = 12  # names in a list before "and k more"
_NAMES = 3  # columns of a finding that are named


def _printable_parts(value: Any) -> Any:
    """Return a report with all its texts printable."""
    if isinstance(value, str | PurePath):
        return printable(str(value))
    if isinstance(value, Mapping):
        return {key: _printable_parts(part) for key, part in value.items()}
    return [_printable_parts(part) for part in value] if isinstance(value, list) else value


def of_printable_parts(show: Callable[..., None]) -> Callable[..., None]:
    """Give a function its arguments printable."""

    @wraps(show)
    def shown(*given: Any) -> None:
        show(*map(_printable_parts, given))

    return shown


def new_console() -> Console:
    """Return a console for results."""
    console = Console(highlight=False)
    # A file or a pipe has no width; rows shall not be folded for it.
    return console if console.is_terminal else Console(highlight=False, width=120)


def facts_table(rows: Iterable[tuple[str, str]]) -> Table:
    """Return names and what there is to say of each, in two columns."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, Text(value))
    return grid


def titled_table(title: str) -> Table:
    """Return a table without lines under a title."""
    return Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)


def arcs_table(title: str, arcs: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of arcs, with what else is known of each."""
    table = titled_table(title)
    table.add_column("cause", overflow="fold")
    table.add_column("")
    table.add_column("effect", overflow="fold")
    table.add_column("weight", justify="right", no_wrap=True)
    usual = ("source", "target", "weight", "direction")
    more = [name for name in (arcs[0] if arcs else ()) if name not in usual]
    for name in more:
        table.add_column(name, justify="right", no_wrap=True)
    for arc in arcs:
        mark = "–" if is_open(arc) else "→"
        cells = [f"{arc['weight']:.4g}", *(_cell(arc[name]) for name in more)]
        table.add_row(Text(arc["source"]), mark, Text(arc["target"]), *cells)
    return table


def _cell(value: float | bool) -> str:
    """Return what else is known of an arc as text; nothing for False and for NaN."""
    if isinstance(value, bool):
        return "yes" if value else ""
    return "" if value != value else f"{value:.3g}"


def is_open(arc: Mapping[str, Any]) -> bool:
    """Tell whether data cannot direct an arc."""
    return bool(arc.get("direction") == "--")


def show_strongest(console: Console, report: Mapping[str, Any]) -> None:
    """Print the strongest arcs, where there are any."""
    if report["strongest"]:
        console.print()
        console.print(arcs_table("Strongest arcs", report["strongest"]))


def listing(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _SHOWN
    return (", ".join(names[:_SHOWN]) or "none") + (f" and {more:,} more" if more > 0 else "")


def finding(found: Mapping[str, Any]) -> str:
    """Return what was found, and where."""
    names, count = found["columns"], found["n_columns"]
    if not count:
        return f"{found['finding']}: {found['detail']}"
    shown = ", ".join(names[:_NAMES]) + (f" and {count - _NAMES:,} more" if count > _NAMES else "")
    return f"{found['finding']} ({shown}): {found['detail']}"


def above_words(threshold: float) -> str:
    """Return which arcs a threshold leaves."""
    return f"with a weight above {threshold:g}"


def open_arcs_words(count: int | None) -> str:
    """Return how many of some arcs data cannot direct."""
    return f", {count:,} of them undirected (–): data cannot tell which way" if count else ""


def duration(seconds: float) -> str:
    """Return a time as text.

    Examples
    --------
    >>> duration(0.26), duration(75), duration(7300)
    ('0.3 s', '1:15', '2:01:40')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


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
