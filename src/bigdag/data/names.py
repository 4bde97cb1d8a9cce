"""The names of variables: what a name may be, and the names of those that have none."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase

from bigdag.errors import BigdagError, DataError, few_names

__all__ = ["checked_names", "default_names", "matches"]


def default_names(d: int) -> tuple[str, ...]:
    """Return the names of d variables that have none: x0, x1, ...

    Examples
    --------
    >>> default_names(2)
    ('x0', 'x1')
    """
    return tuple(f"x{j}" for j in range(d))


def checked_names(
    names: Iterable[str], d: int, owner: str = "column", error: type[BigdagError] = DataError
) -> tuple[str, ...]:
    """Return the names of d variables, or refuse them: one each, all different, valid text.

    Parameters
    ----------
    names : iterable of str
        What was given.
    d : int
        The number of variables.
    owner : str, default="column"
        What has the names, for messages.
    error : type, default=DataError
        What is raised.

    Examples
    --------
    >>> checked_names(["dose", "dose"], 2)
    Traceback (most recent call last):
        ...
    bigdag.errors.DataError: The names must be unique. More than one column is called 'dose'. ...
    """
    found = (names,) if isinstance(names, str) else tuple(names)
    if isinstance(names, str) or not all(isinstance(name, str) for name in found):
        raise error(f"The names must be a sequence of strings. Got {reprlib.repr(names)} instead.")
    if len(found) != d:
        raise error(f"There must be one name for each {owner}. Got {len(found)} for {d} {owner}s.")
    if len(set(found)) < d:
        twice = [name for name, count in Counter(found).items() if count > 1]
        raise error(
            f"The names must be unique. More than one {owner} is called {few_names(twice)}. "
            "Rename them."
        )
    try:
        "".join(found).encode()
    except UnicodeEncodeError:
        bad = [name for name in found if any("\ud800" <= sign <= "\udfff" for sign in name)]
        raise error(
            f"The names must be valid Unicode text, or they cannot be written to a file. "
            f"Got {few_names(bad)}. Rename them."
        ) from None
    return tuple(str(name) for name in found)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name is one of the patterns, literally or as a glob.

    Examples
    --------
    >>> matches("gene12", ["age", "gene*"]), matches("x[1]", ["x[1]"])
    (True, True)
    """
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)
