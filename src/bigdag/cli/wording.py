"""The library's errors in the words of the command: its options in place of Python's parameters.

The library names parameters, as ``random_state``, and allows None. Who typed ``--seed`` knows
neither. Only parameters that stand for an option which was typed are renamed: one that came by
--set, or from a file, keeps the name that it has there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["in_words_of_the_command", "options_typed"]

# Parameters of the library whose options have another name.
_BY_ANOTHER_NAME = {
    "random_state": "seed", "n_resamples": "bootstrap", "criterion": "search_criterion",
    "warm_start_dag": "warm_start", "temporal_order": "tiers", "forbidden_edges": "forbid",
    "required_edges": "require", "root_nodes": "roots", "sink_nodes": "sinks", "n_tests": "tests",
}  # fmt: skip
_FOR_SKLEARN = re.compile(  # what its checks of estimators look for in an error
    r"Found array with [^.]*? while a minimum of \d+ is required\. "
    r"| \(\w+\(\) argument must be a string or a real number, not '[^']*'\)"
)
_FOR_PYTHON = re.compile(  # beside the option that says the same
    r"\b\w+=(?:'[^']*'|True|False)?(?: of \w+)? \((?P<option>--[\w-]+(?:[ =][^)]*)?)\)"
)
_ALLOWED = re.compile(r"(?P<option>--[\w-]+ must be )(?P<allowed>.+?)(?P<rest>\. Got )", re.DOTALL)
_NONE = (  # how None is among what is allowed, and what is left without it
    (re.compile(r"^None(?:,| or) "), ""),
    (re.compile(r", ('\w+') or None$"), r" or \1"),
    (re.compile(r",? or None$"), ""),
)


def options_typed(command: Any, words: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the options that were typed: by their parameter, the option and its value.

    Parameters
    ----------
    command : command or group of typer
        The word that was typed.
    words : sequence of str
        What was typed after it.
    """
    rest = list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command, rest = command.commands[rest[0]], rest[1:]
    by_option = {
        option: str(parameter.name)
        for parameter in getattr(command, "params", ())
        for option in parameter.opts
        if option.startswith("--")
    }
    found: dict[str, tuple[str, str]] = {}
    for place, word in enumerate(rest):
        option, equals, value = word.partition("=")
        if option in by_option:
            after = rest[place + 1] if place + 1 < len(rest) else ""
            found[by_option[option]] = (option, value if equals else after)
    return found


def in_words_of_the_command(text: str, typed: Mapping[str, tuple[str, str]]) -> str:
    """Return an error's sentences with the options that were typed in place of parameters.

    Examples
    --------
    >>> typed = {"seed": ("--seed", "-1")}
    >>> sentence = "random_state must be None, an integer >= 0 or a numpy Generator. Got -1."
    >>> in_words_of_the_command(sentence, typed)
    '--seed must be an integer >= 0, or be left out. Got -1.'
    """
    text = _FOR_PYTHON.sub(_option_alone, _FOR_SKLEARN.sub("", text))
    for name, option in _names_of(typed):
        if "_" in name:  # no word of a sentence
            text = re.sub(rf"`{name}`|(?<![\w'\"`-]){name}(?![\w'\"`=])", option, text)
        else:
            start = rf"(?:^|(?<=[.:] ))(?:The |A )?{name}(?= must |, the | names |: )"
            text = re.sub(rf"`{name}`|{start}", option, text)
    text = _ALLOWED.sub(_without_none, text)
    option, limit = typed.get("memory_limit", ("", ""))
    if f"({option})" in text and re.fullmatch(r"[\d.]+", limit):
        text += f" {option} {limit} means {limit} bytes: for gigabytes, write {limit}GB."
    return text


def _names_of(typed: Mapping[str, tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the names that the library may give to options that were typed, and these."""
    for name, (option, _) in typed.items():
        yield name, option
    for name, other in _BY_ANOTHER_NAME.items():
        if other in typed:
            yield name, typed[other][0]


def _option_alone(found: re.Match[str]) -> str:
    return found["option"].removesuffix(" on the command line")


def _without_none(found: re.Match[str]) -> str:
    allowed = found["allowed"].replace(" or a numpy Generator", "")
    for pattern, left in _NONE:
        shorter = pattern.sub(left, allowed)
        if shorter != allowed:
            allowed = f"{shorter}, or be left out"
            break
    return f"{found['option']}{allowed}{found['rest']}"
