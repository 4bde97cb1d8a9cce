"""What files hold of a graph: names, an order, arcs and what is known of them, and a digest of it.

Beside its weight an arc may have columns of numbers or truth values, such as a probability, and so
may a node, such as its mean. What else there is to say about a graph is a dictionary that JSON can
hold. All of it is optional, and a file without it is the same as that of an earlier bigdag.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np

from bigdag.errors import DataError, ParameterError
from bigdag.resources import require_memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "VERSION",
    "Arcs",
    "Columns",
    "Graph",
    "as_column",
    "check_digest",
    "check_version",
    "digest_of",
    "flat_array",
    "is_column_name",
    "listed_names",
    "number_of_json",
    "number_to_json",
    "order_of_places",
    "require_for_text",
    "text_of_float",
    "version_of",
]

VERSION = 2  # of the file formats; a reader refuses what is newer

Columns: TypeAlias = "Mapping[str, NDArray[Any]]"  # by name, each of float64 or bool
_NONE: Any = MappingProxyType({})


class Arcs(NamedTuple):
    """Arcs as aligned arrays (m,); `reversible` is None where nothing is known of directions.

    `columns` holds what else is known of each arc, by name.

    Examples
    --------
    >>> Arcs.of([0, 1], [2, 2], [0.5, -3]).strongest_first().source
    array([1, 0])
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    weight: NDArray[np.float64]
    reversible: NDArray[np.bool_] | None
    columns: Columns = _NONE

    @classmethod
    def of(
        cls,
        source: Any,
        target: Any,
        weight: Any,
        reversible: Any = None,
        columns: Mapping[str, Any] = _NONE,
    ) -> Arcs:
        """Return the arcs of anything that makes arrays."""
        return cls(
            np.asarray(source, dtype=np.int64),
            np.asarray(target, dtype=np.int64),
            np.asarray(weight, dtype=np.float64),
            None if reversible is None else np.asarray(reversible, dtype=bool),
            {name: as_column(values) for name, values in columns.items()},
        )

    def pick(self, which: Any) -> Arcs:
        """Return some of the arcs, by mask, slice or places."""
        flags = None if self.reversible is None else self.reversible[which]
        columns = {name: values[which] for name, values in self.columns.items()}
        ends = self.source[which], self.target[which]
        return Arcs.of(*ends, self.weight[which], flags, columns)

    def ranking(self, by: str = "auto", directed: bool = True) -> NDArray[np.float64]:
        """Return a score above zero for each arc, as `DAG.ranking` says."""
        known = self.columns
        if by == "auto":
            names = ["probability"] if directed else ["adjacency", "probability"]
            by = next((name for name in [*names, "evidence"] if name in known), "weight")
            if by == "evidence" and directed and self.reversible is not None:
                return _dense_ranks(known[by]) + len(self.weight) * ~self.reversible
        if by == "weight":
            return np.abs(self.weight)
        if by not in known:
            columns = ", ".join(map(repr, ["auto", "weight", *known]))
            raise ParameterError(f"`by` must be one of {columns}. Got {by!r}.")
        return _dense_ranks(known[by])

    def strongest_first(self, by: str = "auto") -> Arcs:
        """Return the arcs by falling rank, with ties by weight and the indices of their ends."""
        ties = self.target, self.source, -np.abs(self.weight)
        return self.pick(np.lexsort((*ties, -self.ranking(by))))

    def rows(self, reversible: str, directed: str) -> Iterator[tuple[int, int, float, str]]:
        """Iterate over source, target, weight and a mark, empty where no direction is known."""
        flags = self.reversible
        marks = repeat("") if flags is None else np.where(flags, reversible, directed).tolist()
        return zip(self.source.tolist(), self.target.tolist(), self.weight.tolist(), marks)


def _dense_ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return 1, 2, ... by rising values; equal ones have the same, and NaN the lowest."""
    known = np.where(np.isnan(values), -np.inf, values)
    places = np.unique(known, return_inverse=True)[1].reshape(-1)
    return (places + 1).astype(np.float64)


class Graph(NamedTuple):
    """What a file holds: names by index, a causal order of the indices or None, and the arcs.

    `nodes` holds columns with an entry for each node, `about` what else there is to say.

    Examples
    --------
    >>> Graph(["rain", "river"], None, Arcs.of([0], [1], [2.0])).names
    ['rain', 'river']
    """

    names: Sequence[str]
    order: Any
    arcs: Arcs
    nodes: Columns = _NONE
    about: Mapping[str, Any] = _NONE


def as_column(values: Any) -> NDArray[Any]:
    """Return truth values as such, and any other numbers as float64; nothing is float64, too."""
    array = np.asarray(values)
    return array if array.dtype == bool and array.size else array.astype(np.float64)


# What files and tables already call by these names.
_TAKEN = {"source", "target", "weight", "direction", "reversible", "name", "exact_name", "order"}
_TAKEN |= {"place", "check", "about", "id"}


def is_column_name(name: str) -> bool:
    """Tell whether a column may have a name: letters, digits and underscores, and not taken.

    It begins with a letter; pandas calls an index that it writes ``__index_level_0__``.

    Examples
    --------
    >>> is_column_name("probability"), is_column_name("a b"), is_column_name("weight")
    (True, False, False)
    """
    plain = name.isidentifier() and name.isascii() and not name.startswith("_")
    return plain and name not in _TAKEN


def version_of(graph: Graph) -> int:
    """Return the version of the format that a graph needs: what is plain, all versions read."""
    return VERSION if graph.arcs.columns or graph.nodes or graph.about else 1


def check_version(found: Any) -> None:
    """Refuse a format that this bigdag does not know."""
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise DataError(f"the format's version must be a whole number. Got {found!r}.")
    if found > VERSION:
        raise DataError(
            f"the file has format {found}, and this bigdag reads formats up to {VERSION}. "
            "Install a newer bigdag."
        )


def digest_of(graph: Graph) -> str:
    """Return a SHA-256 of all of a graph, in whatever sequence the arcs are."""
    arcs = graph.arcs.pick(np.lexsort((graph.arcs.target, graph.arcs.source)))
    digest = hashlib.sha256(json.dumps(list(graph.names)).encode())
    for part in (graph.order, arcs.source, arcs.target):
        digest.update(np.ascontiguousarray(part, dtype="<i8").tobytes() + b";")
    digest.update(arcs.weight.astype("<f8").tobytes() + b";")
    if arcs.reversible is not None:
        digest.update(arcs.reversible.tobytes())
    for kind, columns in (("arcs", arcs.columns), ("nodes", graph.nodes)):
        for name in sorted(columns):
            values = columns[name]
            digest.update(f";{kind}.{name}.{values.dtype.kind};".encode())
            # There are many NaNs, and not all formats keep which one it was.
            plain = values if values.dtype == bool else np.where(np.isnan(values), np.nan, values)
            digest.update(plain.astype(values.dtype.newbyteorder("<")).tobytes())
    if graph.about:
        digest.update(b";about;" + json.dumps(dict(graph.about), sort_keys=True).encode())
    return digest.hexdigest()


def check_digest(graph: Graph, found: Any) -> Graph:
    """Return the graph if it is what the digest is of; a file of an earlier bigdag has none."""
    if found is not None and found != digest_of(graph):
        raise DataError(
            "the file is damaged or was changed: what it holds does not agree with its digest. "
            "Write it again."
        )
    return graph


def flat_array(values: Any, kinds: str, what: str, length: int | None = None) -> NDArray[Any]:
    """Return a flat array whose numbers are of one of the kinds (of numpy), or refuse it."""
    array = np.asarray(values)
    words = {
        "iu": "whole numbers", "iuf": "numbers", "b": "true and false",
        "bf": "numbers, or of true and false",
    }[kinds]  # fmt: skip
    if array.ndim != 1 or (len(array) and array.dtype.kind not in kinds):
        raise DataError(f"{what} must be a list of {words}.")
    if length is not None and len(array) != length:
        raise DataError(f"{what} must have {length} entries. It has {len(array)}.")
    return array


def text_of_float(value: float) -> str:
    """Return a number as most programs read it back to the bit: also ``NaN`` and ``Infinity``.

    Examples
    --------
    >>> text_of_float(0.1), text_of_float(float("-inf"))
    ('0.1', '-Infinity')
    """
    return json.dumps(value)


def number_to_json(value: float | bool) -> Any:
    """Return a number as strict JSON holds it: NaN is null, and infinity a word."""
    if isinstance(value, bool) or value - value == 0:
        return value
    return None if value != value else text_of_float(value)


def number_of_json(value: Any, what: str) -> float:
    """Return the number that `number_to_json` made this of, or refuse it."""
    if value is None:
        return float("nan")
    if value in ("Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"{what} must be numbers, or true and false. Got {value!r:.60}.")
    return float(value)


def listed_names(names: Any) -> list[str]:
    """Return the names of the nodes, if they are a list of strings."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError("the names of the nodes must be a list of strings.")
    return names


def order_of_places(places: Sequence[int]) -> NDArray[np.int64]:
    """Return the nodes in the order that their places in it say."""
    if sorted(places) != list(range(len(places))):
        raise DataError(f"the places in the order must be 0 to {len(places) - 1}, each once.")
    return np.argsort(np.array(places, dtype=np.int64))


def require_for_text(file: BinaryIO, times: int, memory_limit: float | str | None) -> None:
    """Refuse a text file whose graph, so many times its size, would not fit into the memory."""
    size = os.fstat(file.fileno()).st_size
    require_memory(times * size, "its DAG", "Use a machine with more memory.", memory_limit)
