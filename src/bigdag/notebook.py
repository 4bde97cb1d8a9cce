"""A line of progress in a Jupyter notebook, where logs are not shown."""

from __future__ import annotations

import html
import sys
import time
from typing import Any

__all__ = ["NotebookBar", "in_notebook"]

_LEAST_SECONDS = 0.1  # between two changes of what is shown


def in_notebook() -> bool:
    """Tell whether the output goes to a Jupyter notebook; nothing is imported for it.

    Examples
    --------
    >>> in_notebook()
    False
    """
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    return getattr(shell.get_ipython(), "kernel", None) is not None


class NotebookBar:
    """What a fit shows below the cell that runs it: a bar, or a pulse where no end is known.

    Call it with the state that a learner's callback gets, and close it at the end.
    """

    def __init__(self) -> None:
        self._handle: Any = None
        self._next = 0.0
        self._last = ""

    def __call__(self, state: Any) -> None:
        """Show a state, unless the last one was shown just before."""
        share = _share(state)
        self._last = _words(state)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LEAST_SECONDS
            self._show(share, self._last)

    def close(self, word: str) -> None:
        """Show how it ended, one of the statuses."""
        if self._handle is not None:
            self._show(1.0, f"{word.replace('_', ' ')}: {self._last}")

    def _show(self, share: float | None, text: str) -> None:
        from IPython.display import HTML, display

        value = "" if share is None else f' value="{share:.3f}"'
        shown = HTML(  # type: ignore[no-untyped-call]
            f'<div style="font-family:monospace"><progress max="1"{value} '
            'style="width:12em;vertical-align:middle" aria-label="Progress of the fit">'
            "</progress> "
            f"{html.escape(text)}</div>"
        )
        if self._handle is None:
            self._handle = display(shown, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(shown)


def _share(state: Any) -> float | None:
    """Return the share of the nearest limit that is used up; None where there is none."""
    shares = []
    if state.time_limit is not None:
        shares.append(state.seconds / state.time_limit)
    if state.max_iter is not None:
        shares.append(state.iteration / state.max_iter)
    return min(1.0, max(shares)) if shares else None


def _words(state: Any) -> str:
    if not hasattr(state, "objective"):  # a resample has no loss
        left = "" if state.seconds_left is None else f", about {state.seconds_left:.0f} s left"
        return f"{state.iteration:,} of {state.max_iter:,} resamples{left}"
    return (
        f"{state.phase}, iteration {state.iteration:,}, loss {state.objective:.6g}, "
        f"{state.arcs:,} arcs, {state.seconds:.1f} s"
    )
