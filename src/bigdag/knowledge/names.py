"""Names, globs and regular expressions of variables: as a user gives them, as a table has them."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from typing import TYPE_CHECKING, Any

import numpy as np

from bigdag.errors import ParameterError, few_names, near_or_some

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Finder",
    "arcs_given",
    "is_pattern",
    "is_unclear",
    "names_given",
    "text_of",
    "tiers_given",
]

_MOST_PAIRS = 20_000_000  # that patterns may stand for
_REGEX = "re:"
_FLAGS = {"a": re.ASCII, "i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
_Name = str | int
_ARCS = ("forbidden_edges", "required_edges")
_HEADINGS = {  # of files, which are no variables where the table has none of that name
    "name", "variable", "tier", "source", "target", "cause", "effect", "from", "to", "parent",
    "child",
}  # fmt: skip


def text_of(variable: _Name | re.Pattern[str]) -> str:
    """Return a name, a place or a pattern as text."""
    if not isinstance(variable, re.Pattern):
        return str(variable)
    own = re.compile(variable.pattern).flags
    flags = "".join(sign for sign, flag in _FLAGS.items() if variable.flags & flag & ~own)
    return f"{_REGEX}(?{flags}){variable.pattern}" if flags else _REGEX + variable.pattern


def is_pattern(variable: Any) -> bool:
    """Tell whether it may stand for several variables."""
    if isinstance(variable, re.Pattern):
        return True
    return isinstance(variable, str) and (
        variable.startswith(_REGEX) or any(sign in variable for sign in "*?[")
    )


def is_unclear(variable: Any) -> bool:
    """Tell whether only the table can say if it is a name or a pattern.

    Names of columns do end in question marks and hold brackets, but hardly stars.
    """
    if not isinstance(variable, str) or not is_pattern(variable):
        return False
    return "[" in variable or ("?" in variable and not variable.startswith(_REGEX))


def _variable(field: str, given: Any) -> Any:
    if isinstance(given, bool | np.bool_) or not isinstance(
        given, str | int | np.integer | re.Pattern
    ):
        raise ParameterError(
            f"{field} must name variables by text, integers or compiled regular expressions. Got "
            f"{reprlib.repr(given)} instead."
        )
    if isinstance(given, np.integer):
        return int(given)
    if isinstance(given, str) and given in ("", _REGEX):
        raise ParameterError(f"{field} holds an empty name or pattern. Take it away.")
    if isinstance(given, re.Pattern) and not isinstance(given.pattern, str):
        raise ParameterError(
            f"{field} holds a regular expression for bytes, {given.pattern!r}. Names are text: "
            "compile it from text."
        )
    if isinstance(given, re.Pattern) and not given.pattern:
        raise ParameterError(f"{field} holds an empty regular expression. Take it away.")
    if isinstance(given, str) and given.startswith(_REGEX):
        try:
            re.compile(given.removeprefix(_REGEX))
        except re.error as error:
            raise ParameterError(
                f"{field} holds {given!r}, which is no regular expression: {error}."
            ) from None
    return given


def names_given(field: str, given: Any) -> tuple[Any, ...] | None:
    """Return variables that a user gave, or refuse them; None where nothing was given."""
    if given is None:
        return None
    if isinstance(given, str | int | re.Pattern):
        given = [given]
    try:
        if isinstance(given, Mapping):
            raise TypeError
        items = list(given)
    except TypeError:
        raise ParameterError(
            f"{field} must be names of variables. Got {reprlib.repr(given)} instead."
        ) from None
    if isinstance(given, set | frozenset):
        items.sort(key=text_of)
    return tuple(_variable(field, item) for item in items)


def arcs_given(field: str, given: Any) -> tuple[tuple[Any, Any], ...]:
    """Return pairs of a cause and an effect that a user gave, or refuse them."""
    if given is None:
        return ()
    arcs = []
    try:
        items = sorted(given, key=str) if isinstance(given, set | frozenset) else list(given)
    except TypeError:
        items = [given]
    for item in items:
        pair = () if isinstance(item, str) or not hasattr(item, "__len__") else tuple(item)
        if len(pair) != 2:
            raise ParameterError(
                f"{field} must be pairs of a cause and an effect. Got {reprlib.repr(item)} instead."
            )
        arcs.append((_variable(field, pair[0]), _variable(field, pair[1])))
    return tuple(arcs)


def tiers_given(given: Any) -> tuple[tuple[Any, ...], ...]:
    """Return tiers that a user gave as lists or numbers, the earliest first, or refuse them."""
    if given is None:
        return ()
    if isinstance(given, Mapping):
        numbers: dict[float, list[Any]] = {}
        for name, number in given.items():
            number = float(number) if isinstance(number, int | float | np.number) else np.nan
            if not np.isfinite(number):
                raise ParameterError(
                    f"temporal_order must give each variable a number. Got {name!r}: "
                    f"{given[name]!r} instead."
                )
            numbers.setdefault(number, []).append(name)
        given = [numbers[number] for number in sorted(numbers)]
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise ParameterError(
            "temporal_order must be a list of tiers, each a list of variables. Got "
            f"{reprlib.repr(given)} instead."
        )
    return tuple(names_given("temporal_order", tier) or () for tier in given)


class Finder:
    """Finds variables by name or pattern.

    Parameters
    ----------
    names : tuple of str
        The variables of the table.
    strict : bool
        Whether each that is sought must be there.
    early : bool, default=False
        Whether the names are those that are written out, before there is a table.
    named : bool, default=True
        Whether the table has names of its own; otherwise integers are places.
    aliases : mapping of str to str, optional
        Further names of variables: columns for which another one stands.
    gone : sequence of str, default=()
        Columns of the table that are no variables.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        *,
        strict: bool,
        early: bool = False,
        named: bool = True,
        aliases: Mapping[str, str] | None = None,
        gone: Sequence[str] = (),
    ) -> None:
        self.names, self.strict, self.early, self.named = names, strict, early, named
        self.gone = gone
        self.place = {name: i for i, name in enumerate(names)}
        for other, name in (aliases or {}).items():
            if name in self.place:
                self.place.setdefault(other, self.place[name])
        self.known: dict[Any, NDArray[np.int64]] = {}

    def one(self, field: str, variable: Any) -> NDArray[np.int64]:
        """Return the places of what one name or pattern stands for."""
        if variable not in self.known:
            self.known[variable] = self._search(field, variable)
        return self.known[variable]

    def all(self, field: str, variables: Iterable[Any]) -> NDArray[np.int64]:
        """Return the places of what any of them stands for."""
        parts = [self.one(field, variable) for variable in variables]
        return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *parts]))

    def arcs(
        self, field: str, arcs: Iterable[tuple[Any, Any]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return causes and effects; a pattern on either side stands for each of its variables."""
        sources, targets = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        total = 0
        for i, j in arcs:
            causes, effects = self.one(field, i), self.one(field, j)
            total += len(causes) * len(effects)
            if total > _MOST_PAIRS:
                raise ParameterError(
                    f"{field} stands for more than {_MOST_PAIRS:,} arcs, such as all from {i!r} to "
                    f"{j!r}. Say it by regulators, targets, sink_nodes, root_nodes or "
                    "temporal_order, which take no room for pairs."
                )
            source, target = np.repeat(causes, len(effects)), np.tile(effects, len(causes))
            # Of a pattern, a variable's arc to itself is not meant.
            keep = (source != target) if is_pattern(i) or is_pattern(j) else slice(None)
            sources.append(source[keep])
            targets.append(target[keep])
        return np.concatenate(sources), np.concatenate(targets)

    def _search(self, field: str, variable: Any) -> NDArray[np.int64]:
        if isinstance(variable, int):
            if self.named or self.early:
                variable = str(variable)
            elif 0 <= variable < len(self.names):
                return np.array([variable])
        if isinstance(variable, str) and variable in self.place:
            return np.array([self.place[variable]])
        found: set[int] = set()
        if is_pattern(variable) and not (self.early and is_unclear(variable)):
            pattern = _compiled(variable)
            found = {i for name, i in self.place.items() if pattern.fullmatch(name)}
        if not found and self.strict:
            raise ParameterError(self._missing(field, variable))
        return np.array(sorted(found), dtype=np.int64)

    def _missing(self, field: str, variable: Any) -> str:
        gone = [name for name in self.gone if name == variable]
        if is_pattern(variable):
            gone = gone or list(filter(_compiled(variable).fullmatch, self.gone))
        if gone:
            was = "was" if len(gone) == 1 else "were"
            return (
                f"{field} names {text_of(variable)!r}, but {few_names(gone)} {was} left out of "
                "the variables (drop, keep, adjust, batch). Take it out of what is known, or pass "
                "unmatched='ignore' (--ignore-unmatched)."
            )
        name = text_of(variable)
        hint = near_or_some(name, self.names, "The table has")
        if field in _ARCS and name.lower() in _HEADINGS:
            hint = (
                f"If {name!r} is a heading: a file of arcs has the columns source and target, one "
                f"of tiers has name and tier. {hint}"
            )
        return (
            f"{field} names {name!r}, which matches no variable of the table. {hint} Correct the "
            "name, or pass unmatched='ignore' (--ignore-unmatched)."
        )


def _compiled(variable: str | re.Pattern[str]) -> re.Pattern[str]:
    """Return a glob, or a regular expression, as a compiled one."""
    if isinstance(variable, re.Pattern):
        return variable
    if variable.startswith(_REGEX):
        return re.compile(variable.removeprefix(_REGEX))
    return re.compile(translate(variable))
