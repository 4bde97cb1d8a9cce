"""The command ``bigdag``: words to calls, nothing else; one file a word.

The words are loaded by the first use of ``app``, so that an interrupt that comes while they are
loaded, most of half a second, ends the command as it should.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from bigdag.interrupts import exits_at_once

if TYPE_CHECKING:
    from typer import Typer

    app: Typer

__all__ = ["app", "main"]


@cache
def _load() -> Typer:
    """Return the group of all words, each of which adds itself to it."""
    from bigdag.cli import (  # noqa: F401
        check,
        check_dag,
        compare,
        effect,
        evaluate,
        experiment,
        explore,
        fit,
        knowing,
        methods,
        plan,
        show,
        simulate,
    )
    from bigdag.cli.group import app

    app.add_typer(experiment.app)
    app.add_typer(knowing.app)
    return app


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _load()


def main() -> None:
    """Run the command."""
    with exits_at_once():
        words = _load()
    words()
