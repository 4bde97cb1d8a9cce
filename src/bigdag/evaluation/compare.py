"""Two DAGs side by side: which arcs both have, which are turned round, which only one has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bigdag.errors import GraphError, few_names
from bigdag.graph.align import Graph, as_dag

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from bigdag.graph.dag import DAG

__all__ = ["Comparison", "compare"]

# How two graphs may differ on a pair of variables, in the sequence in which they are listed.
STATUSES = ("same", "reversed", "undirected_a", "undirected_b", "only_a", "only_b")


@dataclass(frozen=True)
class Comparison:
    """What two graphs, a and b, have in common.

    Attributes
    ----------
    table : DataFrame
        One row for each pair of variables that a or b joins by an arc: source and target as in a,
        or as in b where only b has it; status; the weight and the direction in each (``->``,
        ``<-`` or ``--``), and the data of arcs, each with ``_a`` or ``_b`` behind its name. The
        statuses come in the sequence of `counts`, and in each the most probable pairs first where
        both graphs know probabilities, else the largest weights.
    counts : dict of str to int
        How many pairs are the same (undirected in both counts as the same), reversed, directed in
        one and undirected in the other (``undirected_a``, ``undirected_b``), and joined in one
        only (``only_a``, ``only_b``).
    only_in_a, only_in_b : tuple of str
        Variables that the other graph does not have. Arcs at them are in one graph only.
    """

    table: pd.DataFrame
    counts: dict[str, int]
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]

    @property
    def shd(self) -> int:
        """On how many pairs the two differ: the structural Hamming distance."""
        return sum(self.counts.values()) - self.counts["same"]

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={count}" for name, count in self.counts.items())
        return f"Comparison({counts})"


def compare(a: Graph, b: Graph) -> Comparison:
    """Compare two DAGs arc by arc.

    Parameters
    ----------
    a, b : DAG, sparse or dense matrix of weights
        Variables are matched by name, and either graph may have some that the other lacks. They
        are matched by place where one side has no names of its own.

    Returns
    -------
    Comparison

    Raises
    ------
    GraphError
        If no variable is in both, or a graph has a cycle.

    Examples
    --------
    >>> from bigdag import DAG
    >>> a = DAG([[0, 2.0, 1.0], [0, 0, 0], [0, 0, 0]], ["rain", "river", "flood"])
    >>> b = DAG([[0, 0, 0], [0.5, 0, 3.0], [0, 0, 0]], ["rain", "river", "flood"])
    >>> found = compare(a, b)
    >>> found
    Comparison(same=0, reversed=1, undirected_a=0, undirected_b=0, only_a=1, only_b=1)
    >>> found.table[["source", "target", "status", "weight_a", "weight_b"]]
      source target    status  weight_a  weight_b
    0   rain  river  reversed       2.0       0.5
    1   rain  flood    only_a       1.0       NaN
    2  river  flood    only_b       NaN       3.0
    """
    import pandas as pd

    one, other = as_dag(a), as_dag(b)
    names, places = _matched(one, other)
    sides = [_Side(dag, place, len(names)) for dag, place in zip((one, other), places)]
    pairs = np.union1d(sides[0].pairs, sides[1].pairs)
    both = [side.at(pairs) for side in sides]
    present = [found["present"] for found in both]
    # Which way the arc of a pair is drawn: as in a, or as in b where only b has it.
    forward = np.where(present[0], both[0]["forward"], both[1]["forward"])
    low, high = np.divmod(pairs, max(len(names), 1))
    labels = np.array(names, dtype=object)
    table: dict[str, Any] = {
        "source": labels[np.where(forward, low, high)],
        "target": labels[np.where(forward, high, low)],
    }
    table["status"] = np.array(STATUSES, dtype=object)[_statuses(*both)]
    for column in ("weight", "direction"):
        for mark, found in zip("ab", both):
            if column == "direction":
                along = np.where(found["forward"] == forward, "->", "<-")
                along = np.where(found["open"], "--", along)
                values = np.where(found["present"], along, "").astype(object)
            else:
                values = found["weight"]
            table[f"{column}_{mark}"] = values
    for name in dict.fromkeys([*one.arc_data, *other.arc_data]):
        for mark, side, found in zip("ab", sides, both):
            if name in side.dag.arc_data:
                table[f"{name}_{mark}"] = side.column(name, found)
    frame = pd.DataFrame(table)
    rank = frame["status"].map({status: k for k, status in enumerate(STATUSES)}).to_numpy()
    strength = np.fmax(np.abs(both[0]["weight"]), np.abs(both[1]["weight"]))
    if {"probability_a", "probability_b"} <= set(frame.columns):
        sure = np.nan_to_num(np.fmax(frame["probability_a"], frame["probability_b"]), nan=-1.0)
        frame = frame.iloc[np.lexsort((pairs, -strength, -sure, rank))]
    else:
        frame = frame.iloc[np.lexsort((pairs, -strength, rank))]
    frame = frame.reset_index(drop=True)
    counts = {status: int((frame["status"] == status).sum()) for status in STATUSES}
    mine, theirs = set(places[0].tolist()), set(places[1].tolist())
    return Comparison(
        frame,
        counts,
        tuple(names[v] for v in places[0].tolist() if v not in theirs),
        tuple(names[v] for v in places[1].tolist() if v not in mine),
    )


def _matched(a: DAG, b: DAG) -> tuple[tuple[str, ...], list[NDArray[np.int64]]]:
    """Return the names of all variables, and the place among them of each of a's and of b's."""
    shared = set(a.names) & set(b.names)
    if not (a.named and b.named) and a.n_nodes == b.n_nodes and len(shared) < a.n_nodes:
        places = np.arange(a.n_nodes)  # one side has made-up names only
        return (a.names if a.named else b.names), [places, places]
    if not shared and a.n_nodes and b.n_nodes:
        raise GraphError(
            "The two graphs have no variable in common, and variables are matched by name: "
            f"{few_names(a.names)} against {few_names(b.names)}."
        )
    names = tuple(dict.fromkeys([*a.names, *b.names]))
    place = {name: k for k, name in enumerate(names)}
    return names, [np.array([place[n] for n in g.names], dtype=np.int64) for g in (a, b)]


class _Side:
    """The arcs of one graph by pairs of variables, each pair as one number."""

    def __init__(self, dag: DAG, place: NDArray[np.int64], d: int) -> None:
        arcs = dag._arcs()
        source, target = place[arcs.source], place[arcs.target]
        keys = np.minimum(source, target) * d + np.maximum(source, target)
        self._sorted = np.argsort(keys)
        self.dag, self.pairs = dag, keys[self._sorted]
        self._forward = (source < target)[self._sorted]
        self._weight = arcs.weight[self._sorted]
        flags = np.zeros(len(keys), dtype=bool) if arcs.reversible is None else arcs.reversible
        self._open = flags[self._sorted]

    def at(self, pairs: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return what this graph has at each of the pairs."""
        if not len(self.pairs):
            none = np.zeros(len(pairs), dtype=bool)
            nothing = np.full(len(pairs), np.nan)
            return {"present": none, "forward": none, "open": none, "weight": nothing,
                    "slot": np.zeros(len(pairs), dtype=np.int64)}  # fmt: skip
        slot = np.minimum(np.searchsorted(self.pairs, pairs), len(self.pairs) - 1)
        present = self.pairs[slot] == pairs
        return {
            "present": present,
            "forward": self._forward[slot],
            "open": self._open[slot] & present,
            "weight": np.where(present, self._weight[slot], np.nan),
            "slot": slot,
        }

    def column(self, name: str, found: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """Return a column of the arcs at each of the pairs; missing where there is no arc."""
        values = self.dag.arc_data[name].astype(np.float64)[self._sorted]
        if not len(values):
            return np.full(len(found["slot"]), np.nan)
        return np.where(found["present"], values[found["slot"]], np.nan)


def _statuses(a: dict[str, NDArray[Any]], b: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    """Return the place of each pair's status in the list of them."""
    return np.select(
        [
            ~b["present"],
            ~a["present"],
            a["open"] & b["open"],
            a["open"],
            b["open"],
            a["forward"] != b["forward"],
        ],
        [STATUSES.index(s) for s in
         ("only_a", "only_b", "same", "undirected_a", "undirected_b", "reversed")],
        STATUSES.index("same"),
    )  # fmt: skip
