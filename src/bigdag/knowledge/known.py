"""What is known of a table's causes before anything is learnt from it.

A :class:`Knowledge` names variables; matched to the names of a table it becomes
:class:`~bigdag.engine.limits.Limits`, which every learner keeps exactly. What contradicts itself is
refused when it is made, as far as names alone can tell, and otherwise when the table is known.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from bigdag.data.names import default_names
from bigdag.engine.limits import Limits
from bigdag.errors import DataError, GraphError, ParameterError, few_names
from bigdag.graph.acyclic import arcs_by_source, topological_order
from bigdag.knowledge.names import (
    Finder,
    arcs_given,
    is_pattern,
    is_unclear,
    names_given,
    text_of,
    tiers_given,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.data.dataset import Dataset

__all__ = [
    "FIELDS",
    "SETS",
    "Knowledge",
    "as_knowledge",
    "from_mapping",
    "limits_of",
    "refuse_constant_regulators",
]

SETS = ("root_nodes", "sink_nodes", "regulators", "targets")
_ARCS = ("forbidden_edges", "required_edges")
FIELDS = (*_ARCS, "temporal_order", *SETS, "within_tier", "unmatched")


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
        self.forbidden_edges = arcs_given("forbidden_edges", forbidden_edges)
        self.required_edges = arcs_given("required_edges", required_edges)
        self.temporal_order = tiers_given(temporal_order)
        self.root_nodes = names_given("root_nodes", root_nodes) or ()
        self.sink_nodes = names_given("sink_nodes", sink_nodes) or ()
        self.regulators = names_given("regulators", regulators)
        self.targets = names_given("targets", targets)
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
        """Return what is known as lists, text and integers, which JSON and TOML can hold.

        Examples
        --------
        >>> Knowledge(root_nodes=["age"]).to_dict()
        {'root_nodes': ['age']}
        """
        said: dict[str, Any] = {}
        for name in _ARCS:
            if getattr(self, name):
                said[name] = [[_written(i), _written(j)] for i, j in getattr(self, name)]
        if self.temporal_order:
            said["temporal_order"] = [[_written(v) for v in tier] for tier in self.temporal_order]
        for name in SETS:
            if getattr(self, name):
                said[name] = [_written(v) for v in getattr(self, name)]
        if not self.within_tier:
            said["within_tier"] = False
        if self.unmatched != "error":
            said["unmatched"] = self.unmatched
        return said

    def match(self, names: Iterable[str], *, named: bool = True) -> Limits:
        """Return what it means for a table with these columns.

        Parameters
        ----------
        names : iterable of str
            The names of the variables, in the sequence of the columns.
        named : bool, default=True
            Whether the table has names of its own; otherwise integers are places.

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
        return self._limits(found, Finder(found, strict=self.unmatched == "error", named=named))

    def given(self) -> dict[str, Any]:
        """Return the parameters from which it was made, those that say something."""
        every = {name: getattr(self, name) for name in FIELDS}
        usual: dict[str, Any] = {"within_tier": True, "unmatched": "error"}
        return {k: v for k, v in every.items() if v not in (None, ()) and v != usual.get(k)}

    def absent(self, names: Iterable[str], *, named: bool = True) -> list[str]:
        """Return what is spoken of and matches none of the names: passed over, or refused.

        Examples
        --------
        >>> Knowledge(regulators=["TP53", "MYC"], unmatched="ignore").absent(["TP53", "MDM2"])
        ['MYC']
        """
        find = Finder(tuple(names), strict=False, named=named)
        return [text_of(v) for v in dict.fromkeys(self._spoken_of()) if not len(find.one("", v))]

    def check_columns(
        self, names: Sequence[str], named: bool = True, left_out: Sequence[str] = ()
    ) -> None:
        """Refuse what does not fit the columns of a table, before anything is done to them.

        Parameters
        ----------
        names : sequence of str
            The columns that become variables.
        named : bool, default=True
            Whether the table has names of its own; otherwise integers are places.
        left_out : sequence of str, default=()
            Its other columns.

        Examples
        --------
        >>> Knowledge(root_nodes=["age"]).check_columns(["dose", "pain"], left_out=["age"])
        Traceback (most recent call last):
            ...
        bigdag.errors.ParameterError: root_nodes names 'age', but 'age' was left out of ...
        """
        strict = self.unmatched == "error"
        found = tuple(names)
        self._limits(found, Finder(found, strict=strict, named=named, gone=left_out))

    def of_part(self, data: Dataset, part: Dataset) -> Knowledge:
        """Return what is known of some columns of a data set, which have names of their own.

        What is said of the others is left out.
        """

        def named(given: Any) -> Any:
            if isinstance(given, tuple):
                return tuple(named(item) for item in given)
            is_place = isinstance(given, int) and not data.named
            return data.names[given] if is_place else given

        said = {name: named(getattr(self, name)) for name in (*_ARCS, "temporal_order", *SETS)}
        find = Finder(part.names, strict=False, aliases=_aliases(data))
        for field, instead in (("regulators", "sink_nodes"), ("targets", "root_nodes")):
            if said[field] is not None and not len(find.all(field, said[field])):
                said[field], said[instead] = None, part.names  # none of them may
        return Knowledge(**said, within_tier=self.within_tier, unmatched="ignore")

    # -------------------------------------------------------------- inside

    def _spoken_of(self) -> list[Any]:
        """Return all names, places and patterns that are given, in their sequence."""
        every = [v for arc in (*self.forbidden_edges, *self.required_edges) for v in arc]
        every += [v for tier in self.temporal_order for v in tier]
        return every + [v for name in SETS for v in getattr(self, name) or ()]

    def _check_by_name(self) -> None:
        """Refuse what contradicts itself among the names that are written out."""
        literal = dict.fromkeys(str(v) for v in self._spoken_of() if not is_pattern(v))
        if self.required_edges or self.temporal_order:
            self._limits(tuple(literal), Finder(tuple(literal), strict=False, early=True))

    def _may_hold_more(self, which: tuple[Any, ...]) -> bool:
        """Tell whether regulators or targets may stand for more than names alone can tell.

        In a table without names, an integer and a text may be the same variable.
        """
        ends = [v for arc in self.required_edges for v in arc]
        are_places = {isinstance(v, int) for v in (*which, *ends)}
        return len(are_places) > 1 or any(map(is_unclear, which))

    def _limits(self, names: tuple[str, ...], find: Finder) -> Limits:
        d = len(names)
        cause, effect = np.ones(d, dtype=bool), np.ones(d, dtype=bool)
        for which, mask in ((self.regulators, cause), (self.targets, effect)):
            if which is not None and not (find.early and self._may_hold_more(which)):
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
            _matrix(d, _apart(find.arcs("forbidden_edges", self.forbidden_edges))),
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
        return from_mapping(given, "knowledge")
    if isinstance(given, str) or not any(hasattr(given, name) for name in FIELDS):
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
    said = {name: getattr(given, name, None) for name in FIELDS}
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
        If it contradicts itself, or names columns that are not there.
    DataError
        If none of the regulators varies.
    """
    if knowledge is None:
        return None
    known = as_knowledge(knowledge)
    if not known:
        return None
    names = data.names if data.named else default_names(data.n_features)
    finder = Finder(
        names, strict=known.unmatched == "error", named=data.named, aliases=_aliases(data),
        gone=data.about.get("adjusted", ()),
    )  # fmt: skip
    try:
        limits = known._limits(names, finder)
    except ParameterError as error:
        told = [
            f" {name!r} stands for {few_names(list(same))}, too (duplicates='group')."
            for name, same in data.about.get("groups", {}).items()
            if repr(name) in str(error)
        ]
        raise ParameterError(f"{error}{''.join(told[:2])}") from None
    refuse_constant_regulators(known, limits, names, data.constant)
    return limits


def refuse_constant_regulators(
    knowledge: Knowledge, limits: Limits, names: Sequence[str], constant: NDArray[np.bool_]
) -> None:
    """Refuse regulators of which none varies, where something else does."""
    stuck = limits.cause.any() and not constant.all() and constant[limits.cause].all()
    if knowledge.regulators is not None and stuck:
        few = few_names([names[v] for v in limits.causes])
        many = int(limits.cause.sum())
        whole = f"All {many:,} regulators of the table are constant columns ({few})"
        raise DataError(
            f"{whole if many > 1 else f'The only regulator of the table, {few}, is constant'}, so "
            "that nothing could have a cause. Give others, or leave regulators out."
        )


def _aliases(data: Dataset) -> dict[str, str]:
    """Return the columns for which others stand, and these: what is said of one is of both."""
    groups = data.about.get("groups", {})
    return {other: name for name, same in groups.items() for other in same}


def from_mapping(given: Mapping[str, Any], where: str) -> Knowledge:
    """Return knowledge from its parameters; `where` says in messages where they stood."""
    for key in given:
        if key not in FIELDS:
            near = difflib.get_close_matches(str(key), FIELDS, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ParameterError(
                f"{where} has the key {key!r}, which means nothing.{hint} Allowed are: "
                f"{', '.join(FIELDS)}."
            )
    try:
        return Knowledge(**given)
    except ParameterError as error:
        raise ParameterError(str(error) if where == "knowledge" else f"{where}: {error}") from None


def _written(variable: Any) -> str | int:
    """Return a variable as a file holds it: an integer, which may be a place, stays one."""
    return variable if isinstance(variable, int) else text_of(variable)


def _apart(
    arcs: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return arcs without those from a variable to itself, which are never there."""
    keep = arcs[0] != arcs[1]
    return arcs[0][keep], arcs[1][keep]


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
