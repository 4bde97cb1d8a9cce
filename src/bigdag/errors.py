"""The errors and warnings a user of bigdag can catch.

Every message says what was given, what is allowed and what to do about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches
from importlib.metadata import PackageNotFoundError, requires

__all__ = [
    "BigdagError",
    "ClusterWarning",
    "DataError",
    "DataWarning",
    "GraphError",
    "MemoryLimitError",
    "MissingExtraError",
    "OutputExistsError",
    "ParameterError",
    "close_names",
    "counted",
    "few_names",
    "installing",
    "missing_extra",
    "near_or_some",
    "nearest",
]


class BigdagError(Exception):
    """Base class of every error that bigdag raises on purpose."""


class DataError(BigdagError, ValueError):
    """A table, a covariance matrix or a file that cannot be learnt from."""


class ParameterError(BigdagError, ValueError):
    """A parameter, option or method name outside of what is allowed."""


class GraphError(BigdagError, ValueError):
    """A graph that has a cycle, the wrong size, or names that do not match."""


class MemoryLimitError(BigdagError, MemoryError):
    """The work would need more memory than the limit; raised before it starts."""


class MissingExtraError(BigdagError, ImportError):
    """An optional dependency that the call needs is not installed."""


class OutputExistsError(BigdagError, FileExistsError):
    """A file that would be overwritten; nothing was written."""


class DataWarning(UserWarning):
    """The data can be learnt from, but hold something the user should know of."""


class ClusterWarning(UserWarning):
    """The work goes on, but not on the cluster as it was asked for."""


def missing_extra(package: str, extra: str, purpose: str) -> MissingExtraError:
    """Return the error for an optional package that is not installed.

    Parameters
    ----------
    package : str
        The import that failed.
    extra : str
        The extra of bigdag that installs it.
    purpose : str
        What needs it, as the subject of the sentence.

    Returns
    -------
    MissingExtraError
        Ready to be raised.

    Examples
    --------
    >>> print(missing_extra("torch", "torch", "OptiMAS"))
    OptiMAS needs the package 'torch', which is not installed. \
Install it with: pip install 'torch>=2.2'
    """
    return MissingExtraError(
        f"{purpose} needs the package {package!r}, which is not installed. "
        f"Install it with: {installing(extra)}"
    )


def installing(extra: str) -> str:
    """Return the command that installs the packages of an extra of bigdag, by their own names.

    bigdag itself may come from a clone or a wheel, and need not be on any index.

    Examples
    --------
    >>> installing("torch")
    "pip install 'torch>=2.2'"
    """
    return f"pip install {' '.join(_packages_of(extra)) or extra}"


def _packages_of(extra: str) -> list[str]:
    """Return the requirements of an extra, quoted for a shell, with those of extras it names."""
    try:
        lines = requires("bigdag") or []
    except PackageNotFoundError:
        return []
    found = []
    for line in lines:
        requirement, _, condition = line.partition(";")
        if not re.search(rf"extra == [\"']{re.escape(extra)}[\"']", condition):
            continue
        nested = re.fullmatch(r"bigdag\[([\w,-]+)\]", requirement.strip())
        if nested is None:
            found.append(f"'{requirement.strip()}'")
        else:
            found += [one for name in nested[1].split(",") for one in _packages_of(name)]
    return found


def few_names(names: Sequence[object], shown: int = 3) -> str:
    """Return some names for a message, and how many more there are.

    Examples
    --------
    >>> few_names(["a", "b", "c", "d", "e"])
    "'a', 'b', 'c' and 2 more"
    """
    more = len(names) - shown
    text = ", ".join(repr(name) for name in names[:shown])
    return f"{text} and {more:,} more" if more > 0 else text


def counted(count: int, thing: str, things: str | None = None) -> str:
    """Return a number and what is counted, in the singular where there is one.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row"), counted(0, "entry", "entries")
    ('1 row', '2,000 rows', '0 entries')
    """
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


# ------------------------------------------------------------------ names that may be meant

_NEAR = 0.7  # of the letters, that two names must share in sequence to be near
_BEGINNING = 3  # letters that are enough to mean a name which begins with them


def close_names(given: str, names: Iterable[str], count: int = 3) -> list[str]:
    """Return names that may have been meant, and none that are not near.

    First those that differ in capitals only, then those that nearly are what was given or begin
    with it. Dashes in front, as of options, do not count.

    Examples
    --------
    >>> close_names("tp53", ["TP63", "TP53", "MDM2"])
    ['TP53', 'TP63']
    >>> close_names("foo", ["motor", "power"])
    []
    """

    def bare(name: str) -> str:
        return name.casefold().lstrip("-")

    folded = bare(given)
    by_bare: dict[str, str] = {}
    for name in names:
        by_bare.setdefault(bare(name), name)
    near = [folded] if folded in by_bare else []
    near += get_close_matches(folded, by_bare, count, _NEAR)
    if len(folded) >= _BEGINNING:
        near += [name for name in by_bare if name.startswith(folded)]
    return [by_bare[name] for name in dict.fromkeys(near)][:count]


def near_or_some(given: str, names: Sequence[str], introduction: str) -> str:
    """Return a sentence with the names that are near to an unknown one, or else with some names.

    Examples
    --------
    >>> near_or_some("moter", ["motor", "power"], "The table has")
    "Did you mean 'motor'?"
    >>> near_or_some("foo", ["motor", "power"], "The table has")
    "The table has 'motor', 'power'."
    """
    near = close_names(given, names)
    if near:
        return f"Did you mean {' or '.join(map(repr, near))}?"
    return f"{introduction} {few_names(names)}." if names else ""


def nearest(given: str, known: Iterable[str], introduction: str) -> str:
    """Return the end of a sentence on an unknown word: the one that may be meant, and all.

    Words that differ from it in one and the same place, as exp1 and exp2 from exp9, are none that
    may be meant.

    Examples
    --------
    >>> nearest("exq1", ["exp1", "exp2"], "There are")
    "'exq1'. Did you mean 'exp1'? There are: exp1, exp2."
    >>> nearest("exp9", ["exp1", "exp2"], "There are")
    "'exp9'. There are: exp1, exp2."
    """
    words = list(known)
    near = close_names(given, words, 2)
    hint = f" Did you mean {near[0]!r}?" if near and not _tied(given, near) else ""
    return f"{given!r}.{hint} {introduction}: {', '.join(words)}."


def _tied(given: str, near: Sequence[str]) -> bool:
    """Tell whether two names are as near as each other, in likeness."""
    likeness = [SequenceMatcher(None, name.casefold(), given.casefold()).ratio() for name in near]
    return len(likeness) > 1 and likeness[0] <= likeness[1]
