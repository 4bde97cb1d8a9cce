"""What files hold of a graph: its names, an order and its arcs, with a digest of all of them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from bigdag.errors import DataError
from bigdag.resources import require_memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "VERSION",
    "Arcs",
    "Graph",
    "check_digest",
    "check_version",
    "digest_of",
    "flat_array",
    "listed_names",
    "order_of_places",
    "require_for_text",
]

VERSION = 1  # of the file formats; a reader refuses what is newer


class Arcs(NamedTuple):
    """Arcs as aligned arrays (m,); `reversible` is None where nothing is known of directions.

    Examples
    --------
    >>> Arcs.of([0, 1], [2, 2], [0.5, -3]).strongest_first().source
    array([1, 0])
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    weight: NDArray[np.float64]
    reversible: NDArray[np.bool_] | None

    @classmethod
    def of(cls, source: Any, target: Any, weight: Any, reversible: Any = None) -> Arcs:
        """Return the arcs of anything that makes arrays."""
        return cls(
            np.asarray(source, dtype=np.int64),
            np.asarray(target, dtype=np.int64),
            np.asarray(weight, dtype=np.float64),
            None if reversible is None else np.asarray(reversible, dtype=bool),
        )

    def pick(self, which: Any) -> Arcs:
        """Return some of the arcs, by mask, slice or places."""
        return Arcs.of(*(part if part is None else part[which] for part in self))

    def strongest_first(self) -> Arcs:
        """Return the arcs by falling absolute weight, with ties by the indices of their ends."""
        return self.pick(np.lexsort((self.target, self.source, -np.abs(self.weight))))

    def rows(self, reversible: str, directed: str) -> Iterator[tuple[int, int, float, str]]:
        """Iterate over source, target, weight and a mark, empty where no direction is known."""
        flags = self.reversible
        marks = repeat("") if flags is None else np.where(flags, reversible, directed).tolist()
        return zip(self.source.tolist(), self.target.tolist(), self.weight.tolist(), marks)


class Graph(NamedTuple):
    """What a file holds: names by index, a causal order of the indices or None, and the arcs.

    Examples
    --------
    >>> Graph(["rain", "river"], None, Arcs.of([0], [1], [2.0])).names
    ['rain', 'river']
    """

    names: Sequence[str]
    order: Any
    arcs: Arcs


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
    """Return a SHA-256 of names, order and arcs, in whatever sequence the arcs are."""
    arcs = graph.arcs.pick(np.lexsort((graph.arcs.target, graph.arcs.source)))
    digest = hashlib.sha256(json.dumps(list(graph.names)).encode())
    for part in (graph.order, arcs.source, arcs.target):
        digest.update(np.ascontiguousarray(part, dtype="<i8").tobytes() + b";")
    digest.update(arcs.weight.astype("<f8").tobytes() + b";")
    if arcs.reversible is not None:
        digest.update(arcs.reversible.tobytes())
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
    words = {"iu": "whole numbers", "iuf": "numbers", "b": "true and false"}[kinds]
    if array.ndim != 1 or (len(array) and array.dtype.kind not in kinds):
        raise DataError(f"{what} must be a list of {words}.")
    if length is not None and len(array) != length:
        raise DataError(f"{what} must have {length} entries. It has {len(array)}.")
    return array


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
