"""The command ``bigdag``: words to calls, nothing else; one file a word.

The words are loaded by the first use of ``app``, so that an interrupt that comes while they are
loaded, most of half a second, ends the command as it should.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bigdag.interrupts import exits_at_once

if TYPE_CHECKING:
    from typer import Typer

    app: Typer

__all__ = ["app", "main"]

_MODULES = {  # by word
    "check": "check", "check-dag": "check_dag", "compare": "compare", "effect": "effect",
    "evaluate": "evaluate", "experiment": "experiment", "explore": "explore", "fit": "fit",
    "knowledge": "knowing", "methods": "methods", "plan": "plan", "show": "show",
    "simulate": "simulate",
}  # fmt: skip
_WITH_WORDS_OF_THEIR_OWN = ("experiment", "knowledge")


@cache
def _load(only: str | None = None) -> Typer:
    """Return the group of all words, each of which adds itself to it; of one word it is quicker."""
    from bigdag.cli.group import app

    for word in _MODULES if only is None else (only,):
        module = import_module(f"bigdag.cli.{_MODULES[word]}")
        if word in _WITH_WORDS_OF_THEIR_OWN:
            app.add_typer(module.app)
    return app


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _load()


def main() -> None:
    """Run the command."""
    with exits_at_once():
        asked = sys.argv[1] if len(sys.argv) > 1 else ""
        words = _load(asked if asked in _MODULES else None)  # all of them, to help or to suggest
    words()
