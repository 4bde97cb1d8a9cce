"""What the command says on stderr: errors, warnings, how far a fit is, what it will take."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from bigdag.cli.console import duration, said_duration
from bigdag.errors import ClusterWarning, DataWarning, counted
from bigdag.terminal import printable

if TYPE_CHECKING:
    from bigdag.learners.run import State

__all__ = ["FitProgress", "announce", "show_error", "warning_printer"]

_COMPILING = "compiling, only this first time"


def _message(kind: str, style: str, text: str) -> None:
    # Not wrapped: a sentence stays one line for whoever searches or copies it.
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble((f"{kind}: ", style), printable(text)))


def show_error(text: str) -> None:
    """Print an error on stderr."""
    _message("Error", "bold red", text)


def warning_printer() -> Callable[..., None]:
    """Return a replacement of ``warnings.showwarning``: ours become a clean line."""
    usual = warnings.showwarning

    def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, DataWarning | ClusterWarning):
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
            left="" if left is None else f"at most {duration(left)} left",
        )


def _numbers(state: Any) -> str:
    """Return what a callback's state says of the work so far; a resample has no loss."""
    arcs = counted(state.arcs, "arc")
    if not hasattr(state, "objective"):
        return f"{state.iteration:,} of {state.max_iter:,}  {arcs}"
    return f"iteration {state.iteration:,}  loss {state.objective:.6g}  {arcs}"


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


def announce(said: Any) -> None:
    """Say on stderr what a fit that takes more than a minute will take."""
    from bigdag.resources import format_bytes

    Console(stderr=True, soft_wrap=True, highlight=False).print(
        f"This fit of {counted(said.n, 'sample')} of {counted(said.d, 'variable')} takes about "
        f"{said_duration(said.seconds)} and {format_bytes(said.memory)} of memory.",
        markup=False,
    )
