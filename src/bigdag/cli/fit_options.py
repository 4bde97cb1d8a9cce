"""Whether the options of ``bigdag fit`` go together, told before any work."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bigdag.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "check_checkpoint", "parameters_of", "present", "refuse_contradictions", "refuse_same",
    "resamples_of",
]  # fmt: skip


def refuse_contradictions(*rules: tuple[bool, str]) -> None:
    """Raise the sentence of the first rule that is broken; each is whether it is, and a sentence.

    Examples
    --------
    >>> refuse_contradictions((1 > 2, "One is more than two."))
    """
    for broken, sentence in rules:
        if broken:
            raise ParameterError(sentence)


def resamples_of(
    count: int | None, automatic: bool, no_bootstrap: bool, **more: Any
) -> dict[str, Any] | str | None:
    """Return the parameters of the bootstrap; refuse its options where there is none."""
    given = present(**more)
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


def refuse_same(table: Path, written: Mapping[str, Path | None]) -> None:
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


def check_checkpoint(path: Path, one_fit: bool) -> None:
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


def present(**values: Any) -> dict[str, Any]:
    """Return those options that were given."""
    return {name: value for name, value in values.items() if value is not None}


def parameters_of(settings: list[str]) -> dict[str, Any]:
    """Turn NAME=VALUE into parameters: a value is what JSON makes of it, else text.

    Examples
    --------
    >>> parameters_of(["tol=1e-3", "engine=dense"])
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
