"""What is known of a table's causes before anything is learnt from it.

A :class:`Knowledge` speaks of variables by name; matched to the names of a table it becomes
:class:`~bigdag.engine.limits.Limits`, which every learner keeps exactly. What contradicts itself is
refused when it is made, as far as names alone can tell, and otherwise when the table is known.
"""

from __future__ import annotations

import csv
import difflib
import os
import re
import reprlib
import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import translate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from bigdag.data.names import default_names
from bigdag.engine.limits import Limits
from bigdag.errors import DataError, GraphError, ParameterError, close_names, few_names
from bigdag.graph.acyclic import arcs_by_source, topological_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.data.dataset import Dataset

__all__ = ["Knowledge", "as_knowledge", "limits_of", "read_knowledge", "read_part"]

_MOST_PAIRS = 20_000_000  # that patterns may stand for
_SETS = ("root_nodes", "sink_nodes", "regulators", "targets")
_ARCS = ("forbidden_edges", "required_edges")
_FIELDS = (*_ARCS, "temporal_order", *_SETS, "within_tier", "unmatched")
_REGEX = "re:"
_Name = str | int


class Knowledge:
    """What is known beforehand: possible causes and effects, tiers, forbidden and required arcs.

    A variable is given by its name, by a glob such as ``"gene_*"``, by a regular expression as text
    that begins with ``re:`` or as a compiled pattern, which has to match the whole name, or by an
    integer: its name, or its place in a table without names. A name that is there as it is written
    is never read as a pattern.

    Parameters
    ----------
    forbidden_edges : iterable of pairs, optional
        Arcs (cause, effect) that are not there. A pattern stands for all that it matches.
    required_edges : iterable of pairs, optional
        Arcs that are there, whatever their weight.
    temporal_order : sequence of collections, or mapping, optional
        Tiers, the earliest first, or a mapping from variables to numbers: nothing has an effect in
        an earlier tier, nor by way of variables without a tier. A variable without one is free.
    root_nodes : collection, optional
        Variables that have no causes.
    sink_nodes : collection, optional
        Variables that have no effects.
    regulators : collection, optional
        The only variables that may have effects.
    targets : collection, optional
        The only variables that may have causes.
    within_tier : bool, default=True
        Whether there may be arcs between variables of the same tier.
    unmatched : {"error", "ignore"}, default="error"
        What is done about names and patterns that match no variable of the table. A list of
        all transcription factors holds some that were not measured.

    Examples
    --------
    >>> known = Knowledge(regulators=["tf*"], required_edges=[("tf1", "gene1")])
    >>> limits = known.match(["tf1", "tf2", "gene1"])
    >>> limits.count()
    4
    >>> Knowledge(root_nodes=["age"], required_edges=[("dose", "age")])
    Traceback (most recent call last):
        ...
    bigdag.errors.ParameterError: The arc 'dose' -> 'age' is required, but 'age' is among the \
root_nodes, which have no causes. Take one of the two away.
    """

    def __init__(
        self,
        *,
        forbidden_edges: Iterable[Any] | None = None,
        required_edges: Iterable[Any] | None = None,
        temporal_order: Any = None,
        root_nodes: Iterable[Any] | None = None,
        sink_nodes: Iterable[Any] | None = None,
        regulators: Iterable[Any] | None = None,
        targets: Iterable[Any] | None = None,
        within_tier: bool = True,
        unmatched: str = "error",
    ) -> None:
        self.forbidden_edges = _arcs("forbidden_edges", forbidden_edges)
        self.required_edges = _arcs("required_edges", required_edges)
        self.temporal_order = _tiers(temporal_order)
        self.root_nodes = _names("root_nodes", root_nodes) or ()
        self.sink_nodes = _names("sink_nodes", sink_nodes) or ()
        self.regulators = _names("regulators", regulators)
        self.targets = _names("targets", targets)
        if not isinstance(within_tier, bool):
            raise ParameterError(f"within_tier must be True or False. Got {within_tier!r} instead.")
        self.within_tier = within_tier
        if unmatched not in ("error", "ignore"):
            raise ParameterError(
                f"unmatched must be 'error' or 'ignore'. Got {unmatched!r} instead."
            )
        self.unmatched = unmatched
        for name in ("regulators", "targets"):
            if getattr(self, name) == ():
                what = "effects" if name == "regulators" else "causes"
                raise ParameterError(
                    f"{name} must name at least one variable, or no variable could have {what}. "
                    f"Leave it out where all may."
                )
        self._check_by_name()

    def __repr__(self) -> str:
        said = self.to_dict()
        return f"Knowledge({', '.join(f'{k}={reprlib.repr(v)}' for k, v in said.items())})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Knowledge):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        """Whether anything is known."""
        return bool(self.to_dict().keys() - {"within_tier", "unmatched"})

    def to_dict(self) -> dict[str, Any]:
        """Return what is known as lists and text, which JSON and TOML can hold.

        Examples
        --------
        >>> Knowledge(root_nodes=["age"]).to_dict()
        {'root_nodes': ['age']}
        """
        said: dict[str, Any] = {}
        for name in _ARCS:
            if getattr(self, name):
                said[name] = [[_text(i), _text(j)] for i, j in getattr(self, name)]
        if self.temporal_order:
            said["temporal_order"] = [[_text(v) for v in tier] for tier in self.temporal_order]
        for name in _SETS:
            if getattr(self, name):
                said[name] = [_text(v) for v in getattr(self, name)]
        if not self.within_tier:
            said["within_tier"] = False
        if self.unmatched != "error":
            said["unmatched"] = self.unmatched
        return said

    def match(self, names: Iterable[str]) -> Limits:
        """Return what it means for a table with these columns.

        Parameters
        ----------
        names : iterable of str
            The names of the variables, in the sequence of the columns.

        Returns
        -------
        Limits
            Masks, tiers and sparse pairs.

        Raises
        ------
        ParameterError
            If a name or a pattern matches nothing, or if what is known contradicts itself.
        """
        found = tuple(names)
        return self._limits(found, _Finder(found, strict=self.unmatched == "error"))

    def absent(self, names: Iterable[str]) -> list[str]:
        """Return what is spoken of and matches none of the names: passed over, or refused.

        Examples
        --------
        >>> Knowledge(regulators=["TP53", "MYC"], unmatched="ignore").absent(["TP53", "MDM2"])
        ['MYC']
        """
        find = _Finder(tuple(names), strict=False)
        return [_text(v) for v in dict.fromkeys(self._spoken_of()) if not len(find.one("", v))]

    def of_part(self, data: Dataset, part: Dataset) -> Knowledge:
        """Return what is known of some columns of a data set, which have names of their own.

        What is said of the others is left out.
        """

        def named(given: Any) -> Any:
            if isinstance(given, tuple):
                return tuple(named(item) for item in given)
            is_place = isinstance(given, int) and not data.named
            return data.names[given] if is_place else given

        said = {name: named(getattr(self, name)) for name in (*_ARCS, "temporal_order", *_SETS)}
        find = _Finder(part.names, strict=False)
        for field, instead in (("regulators", "sink_nodes"), ("targets", "root_nodes")):
            if said[field] is not None and not len(find.all(field, said[field])):
                said[field], said[instead] = None, part.names  # none of them may
        return Knowledge(**said, within_tier=self.within_tier, unmatched="ignore")

    # -------------------------------------------------------------- inside

    def _spoken_of(self) -> list[Any]:
        """Return all names, places and patterns that are given, in their sequence."""
        every = [v for arc in (*self.forbidden_edges, *self.required_edges) for v in arc]
        every += [v for tier in self.temporal_order for v in tier]
        return every + [v for name in _SETS for v in getattr(self, name) or ()]

    def _check_by_name(self) -> None:
        """Refuse what contradicts itself among the names that are written out."""
        literal = dict.fromkeys(str(v) for v in self._spoken_of() if not _is_pattern(v))
        if self.required_edges or self.temporal_order:
            self._limits(tuple(literal), _Finder(tuple(literal), strict=False, early=True))

    def _limits(self, names: tuple[str, ...], find: _Finder) -> Limits:
        d = len(names)
        cause, effect = np.ones(d, dtype=bool), np.ones(d, dtype=bool)
        for which, mask in ((self.regulators, cause), (self.targets, effect)):
            if which is not None and not (find.early and any(map(_is_unclear, which))):
                field = "regulators" if mask is cause else "targets"
                mask[:] = False
                mask[find.all(field, which)] = True
                if not mask.any() and not find.early:
                    raise ParameterError(
                        f"{field} must match at least one variable of the table. Got "
                        f"{few_names(list(which))}, none of which is there."
                    )
        roots = find.all("root_nodes", self.root_nodes)
        sinks = find.all("sink_nodes", self.sink_nodes)
        no_regulator, no_target = ~cause, ~effect
        cause[sinks], effect[roots] = False, False
        tier = np.full(d, -1, dtype=np.int64)
        for k, members in enumerate(self.temporal_order):
            at = find.all("temporal_order", members)
            twice = at[(tier[at] >= 0) & (tier[at] != k)]
            if len(twice):
                v = int(twice[0])
                raise ParameterError(
                    f"A variable can be in one tier only. {names[v]!r} is in tier {tier[v]} and in "
                    f"tier {k} of temporal_order."
                )
            tier[at] = k
        limits = Limits(
            tier, self.within_tier, cause, effect,
            _matrix(d, find.arcs("forbidden_edges", self.forbidden_edges)),
            _matrix(d, find.arcs("required_edges", self.required_edges)),
        )  # fmt: skip
        _check(limits, names, no_regulator, no_target)
        return limits


def as_knowledge(given: Any) -> Knowledge:
    """Return knowledge as it is, or from any object with the attributes that pgmpy's has.

    Parameters
    ----------
    given : Knowledge, mapping or object
        Keys or attributes are parameters of `Knowledge`; those of an object that are not there
        count as not known.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> as_knowledge(SimpleNamespace(forbidden_edges={("a", "b")}, temporal_order=[["a"], ["b"]]))
    Knowledge(forbidden_edges=[['a', 'b']], temporal_order=[['a'], ['b']])
    """
    if isinstance(given, Knowledge):
        return given
    if isinstance(given, Mapping):
        return _from_mapping(given, "knowledge")
    if isinstance(given, str) or not any(hasattr(given, name) for name in _FIELDS):
        raise ParameterError(
            "knowledge must be a bigdag.Knowledge, or an object with attributes such as "
            f"forbidden_edges, required_edges and temporal_order. Got {reprlib.repr(given)} "
            "instead."
        )
    space = getattr(given, "search_space", None)
    if space is not None and len(space):
        raise ParameterError(
            "knowledge must say by regulators, targets or forbidden_edges which arcs are possible. "
            "Got a search_space, a list of all possible arcs, instead."
        )
    said = {name: getattr(given, name, None) for name in _FIELDS}
    if not said["temporal_order"]:  # of pgmpy's, after it was used
        said["temporal_order"] = getattr(given, "temporal_ordering", None) or None
    empty = {name: value for name, value in said.items() if value is not None}
    for name in ("regulators", "targets"):
        if name in empty and not len(empty[name]):
            del empty[name]
    return Knowledge(**empty)


def limits_of(knowledge: Any, data: Dataset) -> Limits | None:
    """Return what is known of the columns of a data set, or None where nothing is.

    Raises
    ------
    ParameterError
        If it contradicts itself, or speaks of columns that are not there.
    DataError
        If none of the regulators varies.
    """
    if knowledge is None:
        return None
    known = as_knowledge(knowledge)
    if not known:
        return None
    names = data.names if data.named else default_names(data.n_features)
    finder = _Finder(names, strict=known.unmatched == "error", named=data.named)
    limits = known._limits(names, finder)
    live = ~data.constant
    stuck = limits.cause.any() and live.any() and not (limits.cause & live).any()
    if known.regulators is not None and stuck:
        raise DataError(
            f"All {int(limits.cause.sum()):,} regulators of the table are constant columns "
            f"({few_names([names[v] for v in limits.causes])}), so that nothing could have a "
            "cause. Give others, or leave regulators out."
        )
    return limits


# ------------------------------------------------------------------ files


def read_knowledge(path: str | os.PathLike[str]) -> Knowledge:
    """Read knowledge from a TOML file, whose keys are the parameters of `Knowledge`.

    Text in place of a list is the name of a file beside it, as :func:`read_part` reads it.

    Raises
    ------
    ParameterError
        If a key or a file is wrong, or if what is known contradicts itself.
    """
    try:
        with open(path, "rb") as file:
            given: dict[str, Any] = tomllib.load(file)
    except OSError as error:
        raise ParameterError(f"{path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParameterError(f"{path} is no TOML file: {error}.") from None
    for key, value in given.items():
        if isinstance(value, str) and key in _FIELDS and key != "unmatched":
            given[key] = read_part(key, Path(path).parent / value)
    return _from_mapping(given, str(path))


def read_part(field: str, path: str | os.PathLike[str]) -> Any:
    """Read one part of what is known from a file.

    Parameters
    ----------
    field : str
        A parameter of `Knowledge`. A list of variables is a text file with a name a line, tiers are
        a CSV file with the columns name and tier, and arcs one with the columns source and target;
        a first line with these words is no data.
    path : path
        The file.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ParameterError(f"{field}: {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ParameterError(f"{field}: {path} is no text in UTF-8.") from None
    if field in _SETS:
        lines = [line.strip() for line in text.splitlines()]
        found = [line for line in lines if line and not line.startswith("#")]
        if not found:
            raise ParameterError(f"{field}: {path} names no variable. Write one name a line.")
        return found
    words = ("name", "tier") if field == "temporal_order" else ("source", "target")
    tabs = str(path).lower().endswith((".tsv", ".txt")) and "," not in text
    rows = list(csv.reader(text.splitlines(), delimiter="\t" if tabs else ","))
    pairs: list[tuple[str, str]] = []
    for number, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) != 2 or not all(cells):
            raise ParameterError(
                f"{field}: {path} must have two columns, {words[0]} and {words[1]}. Line {number} "
                f"has {len(cells)}: {reprlib.repr(','.join(row))}."
            )
        pairs.append((cells[0], cells[1]))
    heads = ({"name", "variable", "tier"}, {"source", "target", "cause", "effect", "from", "to"})
    if pairs and {cell.lower() for cell in pairs[0]} <= heads[field != "temporal_order"]:
        del pairs[0]
    if not pairs:
        raise ParameterError(f"{field}: {path} holds no row of {words[0]} and {words[1]}.")
    return pairs if field != "temporal_order" else _tiers_of_rows(pairs, path)


def _tiers_of_rows(rows: list[tuple[str, str]], path: Any) -> dict[str, float]:
    tiers: dict[str, float] = {}
    for name, text in rows:
        if name in tiers:
            raise ParameterError(
                f"temporal_order: {path} names {name!r} twice. A variable can be in one tier only."
            )
        try:
            tiers[name] = float(text)
        except ValueError:
            raise ParameterError(
                f"temporal_order: {path} must give each variable a number as its tier. {name!r} "
                f"has {text!r}."
            ) from None
    return tiers


def _from_mapping(given: Mapping[str, Any], where: str) -> Knowledge:
    for key in given:
        if key not in _FIELDS:
            near = difflib.get_close_matches(str(key), _FIELDS, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ParameterError(
                f"{where} has the key {key!r}, which means nothing.{hint} Allowed are: "
                f"{', '.join(_FIELDS)}."
            )
    try:
        return Knowledge(**given)
    except ParameterError as error:
        raise ParameterError(str(error) if where == "knowledge" else f"{where}: {error}") from None


# ------------------------------------------------------------------ what a user gives


def _text(variable: _Name | re.Pattern[str]) -> str:
    return _REGEX + variable.pattern if isinstance(variable, re.Pattern) else str(variable)


def _is_pattern(variable: Any) -> bool:
    if isinstance(variable, re.Pattern):
        return True
    return isinstance(variable, str) and (
        variable.startswith(_REGEX) or any(sign in variable for sign in "*?[")
    )


def _is_unclear(variable: Any) -> bool:
    """Tell whether only the table can say if it is a name or a pattern."""
    return isinstance(variable, str) and _is_pattern(variable) and "[" in variable


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


def _names(field: str, given: Any) -> tuple[Any, ...] | None:
    if given is None:
        return None
    if isinstance(given, str | int | re.Pattern):
        given = [given]
    try:
        items = list(given)
    except TypeError:
        raise ParameterError(
            f"{field} must be names of variables. Got {reprlib.repr(given)} instead."
        ) from None
    if isinstance(given, set | frozenset):
        items.sort(key=_text)
    return tuple(_variable(field, item) for item in items)


def _arcs(field: str, given: Any) -> tuple[tuple[Any, Any], ...]:
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


def _tiers(given: Any) -> tuple[tuple[Any, ...], ...]:
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
    return tuple(_names("temporal_order", tier) or () for tier in given)


# ------------------------------------------------------------------ names to places


class _Finder:
    """Finds variables by name or pattern; strict where each must be there."""

    def __init__(
        self, names: tuple[str, ...], *, strict: bool, early: bool = False, named: bool = True
    ) -> None:
        self.names, self.strict, self.early, self.named = names, strict, early, named
        self.place = {name: i for i, name in enumerate(names)}
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
            keep = (source != target) if _is_pattern(i) or _is_pattern(j) else slice(None)
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
        found: list[int] = []
        if _is_pattern(variable) and not (self.early and _is_unclear(variable)):
            pattern = variable
            if isinstance(variable, str) and variable.startswith(_REGEX):
                pattern = re.compile(variable.removeprefix(_REGEX))
            elif isinstance(variable, str):
                pattern = re.compile(translate(variable))
            found = [i for i, name in enumerate(self.names) if pattern.fullmatch(name)]
        if not found and self.strict:
            raise ParameterError(self._missing(field, variable))
        return np.array(found, dtype=np.int64)

    def _missing(self, field: str, variable: Any) -> str:
        near = close_names(_text(variable), self.names, 3, 0.5)
        hint = f"The nearest are {few_names(near)}." if near else (
            f"The table has {few_names(self.names)}."
        )  # fmt: skip
        return (
            f"{field} speaks of {_text(variable)!r}, which matches no variable of the table. "
            f"{hint} Mend the name, or pass unmatched='ignore' (--ignore-unmatched)."
        )


def _matrix(d: int, arcs: tuple[NDArray[np.int64], NDArray[np.int64]]) -> sp.csc_array:
    counts = sp.coo_array((np.ones(len(arcs[0]), dtype=np.int32), arcs), shape=(d, d))
    matrix = sp.csc_array(counts)
    matrix.sort_indices()
    return sp.csc_array(
        (np.ones(matrix.nnz, dtype=bool), matrix.indices, matrix.indptr), shape=(d, d)
    )


# ------------------------------------------------------------------ contradictions


def _check(
    limits: Limits,
    names: tuple[str, ...],
    no_regulator: NDArray[np.bool_],
    no_target: NDArray[np.bool_],
) -> None:
    """Refuse required arcs that something else rules out."""
    i, j = limits._required_arcs
    if not len(i):
        return

    def refuse(wrong: NDArray[np.bool_], why: str) -> None:
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            cause, effect = names[i[at]], names[j[at]]
            why = why.format(cause=repr(cause), effect=repr(effect))
            raise ParameterError(
                f"The arc {cause!r} -> {effect!r} is required, but {why}. Take one of the two away."
            )

    refuse(i == j, "no variable can be a cause of itself")
    refuse(no_regulator[i], "{cause} is not among the regulators")
    refuse(no_target[j], "{effect} is not among the targets")
    refuse(~limits.cause[i], "{cause} is among the sink_nodes, which have no effects")
    refuse(~limits.effect[j], "{effect} is among the root_nodes, which have no causes")
    both = (limits.tier[i] >= 0) & (limits.tier[j] >= 0)
    refuse(both & (limits.tier[i] > limits.tier[j]), "{cause} is in a later tier than {effect}")
    same = both & (limits.tier[i] == limits.tier[j]) & (not limits.within_tier)
    refuse(same, "both are in the same tier, and within_tier is False")
    refuse(~limits.pairs(i, j), "it is among the forbidden_edges")
    after = limits.precedence
    size = len(after.after_ptr) - 1
    graph = sp.csr_array(
        (np.ones(len(after.after)), after.after, after.after_ptr), shape=(size, size)
    )
    if topological_order(graph) is None:
        cycle = [v for v in _cycle(graph) if v < limits.d]
        path = " -> ".join(repr(names[v]) for v in [*cycle, cycle[0]])
        tiers = ""
        if len({int(limits.tier[v]) for v in cycle if limits.tier[v] >= 0}) > 1:
            tiers = ", where the tiers say which comes first"
        raise ParameterError(f"The required arcs form a cycle: {path}{tiers}. Take one away.")


def _cycle(graph: sp.csr_array) -> list[int]:
    """Return the nodes of some cycle, in its direction."""
    arcs = arcs_by_source(graph)
    _, part = sp.csgraph.connected_components(arcs, connection="strong")
    inside = np.flatnonzero(np.bincount(part)[part] > 1)
    if not len(inside):
        raise GraphError("There is no cycle.")
    seen: dict[int, int] = {}
    v = int(inside[0])
    path: list[int] = []
    while v not in seen:
        seen[v] = len(path)
        path.append(v)
        out = arcs.indices[arcs.indptr[v] : arcs.indptr[v + 1]]
        v = int(out[part[out] == part[v]][0])
    return path[seen[v] :]
