"""The names of variables: what a name may be, and the names of those that have none."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Sequence

from bigdag.errors import DataError, few_names

__all__ = ["checked_names", "default_names"]


def default_names(d: int) -> tuple[str, ...]:
    """Return the names of d variables that have none: x0, x1, ..."""
    return tuple(f"x{j}" for j in range(d))


def checked_names(
    given: Sequence[str] | None, found: tuple[str, ...] | None, d: int
) -> tuple[tuple[str, ...], bool]:
    """Return the names to use, and whether they are more than x0, x1, ..."""
    if given is not None:
        if isinstance(given, str) or not all(isinstance(name, str) for name in given):
            raise DataError(
                f"names must be a sequence of strings. Got {reprlib.repr(given)} instead."
            )
        if len(given) != d:
            raise DataError(f"names must hold one name a column. Got {len(given)} for {d} columns.")
        found = tuple(str(name) for name in given)
    if found is None:
        return default_names(d), False
    if len(set(found)) < len(found):
        twice = [name for name, count in Counter(found).items() if count > 1]
        raise DataError(
            f"Column names must be unique. More than one column is called {few_names(twice)}. "
            "Rename them."
        )
    return found, True
