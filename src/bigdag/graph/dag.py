"""The answer of a learner: sparse weights, names and a causal order.

The class comes first. Below it stands what makes its parts out of what a user or a file gives: both
end in the same checks. The file formats are in `bigdag.graph.files`.
"""

from __future__ import annotations

import difflib
import operator
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from bigdag.data.names import checked_names, default_names
from bigdag.engine.order import rank_of
from bigdag.errors import DataError, GraphError, ParameterError, missing_extra
from bigdag.graph.acyclic import topological_order
from bigdag.graph.files import Arcs, Graph, read_graph, write_graph

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

__all__ = ["DAG"]


class DAG:
    """A weighted directed acyclic graph over named variables.

    Parameters
    ----------
    weights : array or sparse array of shape (d, d)
        ``weights[i, j] != 0`` means i → j. Finite, with a zero diagonal and without cycles. It is
        copied.
    names : sequence of str, optional
        One name for each node, all different; ``x0, x1, ...`` by default.
    order : sequence of int, optional
        All nodes with causes first, in agreement with the arcs; found from the arcs by default.
    reversible : boolean array or sparse array of shape (d, d), optional
        True at the arcs whose direction the data cannot tell; only where there is an arc.

    Attributes
    ----------
    weights : csc_array of float64, shape (d, d)
        Sorted indices, no stored zeros.
    names : tuple of str
        The nodes' names, by index.
    order : ndarray of int64, shape (d,)
        The nodes, causes first.
    reversible : csc_array of bool, shape (d, d), or None
        The arcs whose direction is open.

    Examples
    --------
    >>> dag = DAG([[0, 2.0, 0], [0, 0, -0.5], [0, 0, 0]], names=["rain", "river", "harvest"])
    >>> dag
    DAG(3 nodes, 2 arcs)
    >>> dag.edges()
      source   target  weight
    0   rain    river     2.0
    1  river  harvest    -0.5
    """

    def __init__(
        self,
        weights: ArrayLike | sparse.sparray,
        names: Iterable[str] | None = None,
        order: ArrayLike | None = None,
        reversible: ArrayLike | sparse.sparray | None = None,
    ) -> None:
        self.weights = _as_weights(weights)
        self.names = _as_names(names, self.weights.shape[0])
        self.order = _as_order(order, self.weights, self.names)
        self.reversible = None if reversible is None else _as_reversible(reversible, self.weights)

    @property
    def n_nodes(self) -> int:
        """The number of nodes d."""
        return len(self.names)

    @property
    def n_arcs(self) -> int:
        """The number of arcs m."""
        return int(self.weights.nnz)

    @property
    def named(self) -> bool:
        """Whether the names say more than the nodes' indices: False for ``x0, x1, ...``."""
        return self.names != default_names(self.n_nodes)

    def __repr__(self) -> str:
        open_arcs = "" if self.reversible is None else f", {self.reversible.nnz} reversible"
        return f"DAG({self.n_nodes} nodes, {self.n_arcs} arcs{open_arcs})"

    def __eq__(self, other: object) -> bool:
        """Same names, order, weights to the bit, and reversible arcs."""
        if not isinstance(other, DAG):
            return NotImplemented
        mine, theirs = self._arcs(), other._arcs()
        return (
            self.names == other.names
            and np.array_equal(self.order, other.order)
            and all(np.array_equal(a, b) for a, b in zip(mine[:3], theirs[:3]))
            and (self.reversible is None) == (other.reversible is None)
            and (self.reversible is None or (self.reversible != other.reversible).nnz == 0)
        )

    __hash__ = None  # type: ignore[assignment]

    def edges(self, top: int | None = None) -> pd.DataFrame:
        """Return the arcs as a table, the strongest first.

        Parameters
        ----------
        top : int, optional
            How many of the strongest arcs; all by default.

        Returns
        -------
        DataFrame
            Columns source, target and weight; by falling absolute weight, then by the indices of
            source and target. Where `reversible` is known, also direction: ``->`` or ``--``.

        Examples
        --------
        >>> DAG([[0, 1.0, -3.0], [0, 0, 0], [0, 0, 0]]).edges(top=1)
          source target  weight
        0     x0     x2    -3.0
        """
        import pandas as pd

        arcs = self._arcs(strongest_first=True)
        if top is not None:
            arcs = arcs.pick(np.s_[: _whole_number("top", top)])
        names = np.array(self.names, dtype=object)
        table = {"source": names[arcs.source], "target": names[arcs.target], "weight": arcs.weight}
        if arcs.reversible is not None:
            table["direction"] = np.where(arcs.reversible, "--", "->").astype(object)
        return pd.DataFrame(table)

    def threshold(self, t: float) -> DAG:
        """Return the DAG of the arcs with an absolute weight above `t`, on the same nodes.

        Examples
        --------
        >>> DAG([[0, 1.0, -3.0], [0, 0, 0], [0, 0, 0]]).threshold(1.0).n_arcs
        1
        """
        if not (np.isfinite(t) and t >= 0):
            raise ParameterError(f"The threshold must be a finite number of at least 0. Got {t!r}.")
        arcs = self._arcs()
        return _assemble(Graph(self.names, self.order, arcs.pick(np.abs(arcs.weight) > t)))

    def parents(self, v: str | int) -> list[str]:
        """Return the names of the direct causes of a node, given by name or index.

        Examples
        --------
        >>> DAG([[0, 0, 1], [0, 0, 1], [0, 0, 0]]).parents("x2")
        ['x0', 'x1']
        """
        return self._named(self._parents(self._index(v)))

    def children(self, v: str | int) -> list[str]:
        """Return the names of the direct effects of a node, given by name or index.

        Examples
        --------
        >>> DAG([[0, 0, 1], [0, 0, 1], [0, 0, 0]]).children(0)
        ['x2']
        """
        return self._named(self._children(self._index(v)))

    def markov_blanket(self, v: str | int) -> list[str]:
        """Return the parents, the children and the children's other parents of a node.

        Examples
        --------
        >>> DAG([[0, 0, 1], [0, 0, 1], [0, 0, 0]]).markov_blanket("x0")
        ['x1', 'x2']
        """
        node = self._index(v)
        children = self._children(node)
        blanket = np.concatenate([self._parents(node), children, self._parents(children)])
        return self._named(np.setdiff1d(blanket, [node]))

    def subgraph(self, names: Iterable[str | int]) -> DAG:
        """Return the DAG on some of the nodes, in the sequence given.

        Examples
        --------
        >>> DAG([[0, 1, 0], [0, 0, 1], [0, 0, 0]]).subgraph(["x2", "x1"]).edges()
          source target  weight
        0     x1     x2     1.0
        """
        if isinstance(names, str):
            raise ParameterError(f"A subgraph needs a list of names. Got the string {names!r}.")
        nodes = np.array([self._index(v) for v in names], dtype=np.int64)
        if len(np.unique(nodes)) < len(nodes):
            twice = self.names[np.bincount(nodes).argmax()]
            raise GraphError(
                f"The nodes of a subgraph must be different. {twice!r} is given twice."
            )
        return DAG(
            self.weights[:, nodes][nodes],
            [self.names[v] for v in nodes],
            np.argsort(rank_of(self.order)[nodes], kind="stable"),
            None if self.reversible is None else self.reversible[:, nodes][nodes],
        )

    def neighbourhood(self, v: str | int, radius: int = 1) -> DAG:
        """Return the DAG on the nodes within `radius` arcs of a node, whatever their direction.

        Examples
        --------
        >>> chain = DAG([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
        >>> chain.neighbourhood("x1").names
        ('x0', 'x1', 'x2')
        """
        near = frontier = np.array([self._index(v)])
        for _ in range(_whole_number("radius", radius)):
            around = np.concatenate([self._parents(frontier), self._children(frontier)])
            frontier = np.setdiff1d(around, near)
            if not len(frontier):
                break
            near = np.union1d(near, frontier)
        return self.subgraph(near.tolist())

    def to_networkx(self) -> Any:
        """Return a ``networkx.DiGraph`` of the names, with `weight` (and `reversible`) on arcs.

        Examples
        --------
        >>> DAG([[0, 2.0], [0, 0]]).to_networkx().edges["x0", "x1"]
        {'weight': 2.0}
        """
        try:
            import networkx as nx
        except ImportError as error:
            raise missing_extra("networkx", "graphs", "DAG.to_networkx") from error
        graph = nx.DiGraph()
        graph.add_nodes_from(self.names)
        arcs, names = self._arcs(), np.array(self.names, dtype=object)
        ends = names[arcs.source].tolist(), names[arcs.target].tolist()
        graph.add_weighted_edges_from(zip(*ends, arcs.weight.tolist()))
        if arcs.reversible is not None:
            flags = dict(zip(zip(*ends), arcs.reversible.tolist()))
            nx.set_edge_attributes(graph, flags, "reversible")
        return graph

    def to_igraph(self) -> Any:
        """Return a directed ``igraph.Graph`` with `name` on nodes, `weight` (and `reversible`).

        Examples
        --------
        >>> DAG([[0, 2.0], [0, 0]]).to_igraph().es["weight"]
        [2.0]
        """
        try:
            import igraph
        except ImportError as error:
            raise missing_extra("igraph", "graphs", "DAG.to_igraph") from error
        arcs = self._arcs()
        graph = igraph.Graph(
            n=self.n_nodes, edges=np.column_stack(arcs[:2]).tolist(), directed=True
        )
        graph.vs["name"] = list(self.names)
        graph.es["weight"] = arcs.weight.tolist()
        if arcs.reversible is not None:
            graph.es["reversible"] = arcs.reversible.tolist()
        return graph

    def save(
        self, path: str | os.PathLike[str], force: bool = False, *, safe_csv: bool = False
    ) -> None:
        """Write the DAG to a file, whole or not at all; the suffix names the format.

        Every format keeps the weights to the bit, the names, the order and what is reversible.

        - ``.npz``: numpy arrays; the smallest and quickest.
        - ``.parquet``: one row an arc (source, target, weight), the strongest first.
        - ``.csv``: the same rows as text, and below them every node twice, with empty target and
          weight: first by index, then in causal order. ``pandas.read_csv(path).dropna()`` holds
          the arcs alone. The file ends with an empty line, so that a cut is detected.
        - ``.graphml``: for networkx, igraph, Cytoscape, Gephi.
        - ``.dot``: for Graphviz; it is only written, `load` does not read it. The weight stands in
          `value`, as Graphviz takes `weight` for a wish about lengths.
        - ``.json``: ``{"nodes": [name, ...], "arcs": [[i, j, weight], ...], "order": [...]}``.

        Parameters
        ----------
        path : path-like
            The file. It must not exist, unless `force` is given.
        force : bool, default=False
            Overwrite the file, if it is a regular one and not read-only; its mode stays.
        safe_csv : bool, default=False
            Write names that a spreadsheet would compute as formulas, those that begin with ``=``,
            ``+``, ``-`` or ``@``, with an apostrophe before them. `load` takes it away again.
            Only for ``.csv``.

        Examples
        --------
        >>> import tempfile
        >>> dag = DAG([[0, 2.0], [0, 0]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dag.save(f"{folder}/dag.parquet")
        ...     DAG.load(f"{folder}/dag.parquet") == dag
        True
        """
        write_graph(path, self._graph(), force, safe_csv)

    def _graph(self) -> Graph:
        """Return what files hold of it."""
        return Graph(self.names, self.order, self._arcs())

    @classmethod
    def load(cls, path: str | os.PathLike[str], memory_limit: float | str | None = None) -> DAG:
        r"""Read a DAG from a file that `save` wrote; the suffix names the format.

        ``.csv`` and ``.parquet`` may also be tables of one's own with the columns source, target
        and, unless all weights are 1, weight; ``.graphml`` may be any directed graph. Their nodes
        then are numbered as they appear. ``.dot`` files are only written.

        Parameters
        ----------
        path : path-like
            The file.
        memory_limit : float or str, optional
            What the whole process may hold, in bytes or as in "4GB"; by default what the machine
            can spare.

        Raises
        ------
        DataError
            If the file cannot be read or holds no DAG; the message says why.
        MemoryLimitError
            If the DAG would need more than the limit; raised before it is made.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "mine.csv")
        ...     _ = file.write_text("source,target\nrain,river\n")
        ...     DAG.load(file).names
        ('rain', 'river')
        """
        return read_graph(path, _assemble, memory_limit)

    # ---------------------------------------------------------------- indices and arrays

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: v for v, name in enumerate(self.names)}

    def _index(self, v: str | int) -> int:
        """Return the index of a node given by name or index."""
        if isinstance(v, str):
            if v in self._places:
                return self._places[v]
            near = " or ".join(map(repr, difflib.get_close_matches(v, self.names, n=3)))
            hint = f" Did you mean {near}?" if near else ""
            raise GraphError(f"There is no node {v!r} among the {self.n_nodes} nodes.{hint}")
        if not 0 <= (index := operator.index(v)) < self.n_nodes:
            raise GraphError(f"A node's index must be from 0 to {self.n_nodes - 1}. Got {v}.")
        return index

    def _parents(self, nodes: int | NDArray[Any]) -> NDArray[Any]:
        return self.weights[:, np.atleast_1d(nodes)].indices

    def _children(self, nodes: int | NDArray[Any]) -> NDArray[Any]:
        wanted = np.zeros(self.n_nodes, dtype=bool)
        wanted[nodes] = True
        arcs = self._arcs()
        return np.unique(arcs.target[wanted[arcs.source]])

    def _named(self, nodes: NDArray[Any]) -> list[str]:
        return [self.names[v] for v in nodes]

    def _arcs(self, strongest_first: bool = False) -> Arcs:
        """Return the arcs column by column, or the strongest first with ties by index."""
        flags = None
        if self.reversible is not None:  # 2 where the patterns meet, in the order of the weights
            pattern = self.weights.astype(bool).astype(np.int8)
            flags = (pattern + self.reversible.astype(np.int8)).data == 2
        W = self.weights
        arcs = Arcs(W.indices.astype(np.int64), _targets(W), W.data, flags)
        return arcs.strongest_first() if strongest_first else arcs


# -------------------------------------------------------------------- what a user gives, checked


def _as_matrix(given: Any, dtype: type) -> sparse.csc_array:
    """Return an own copy with sorted indices, repeats summed and no stored zeros."""
    matrix = sparse.csc_array(given, dtype=dtype, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _as_weights(weights: Any) -> sparse.csc_array:
    if not sparse.issparse(weights):
        weights = np.asarray(weights)
    shape = weights.shape
    if len(shape) != 2 or shape[0] != shape[1]:
        raise GraphError(f"The weights must be a square matrix. Got the shape {shape}.")
    if weights.dtype.kind not in "biuf":
        raise GraphError(f"The weights must be real numbers. Got {weights.dtype}.")
    matrix = _as_matrix(weights, np.float64)
    if not np.isfinite(matrix.data).all():
        bad = int((~np.isfinite(matrix.data)).sum())
        raise GraphError(f"The weights must be finite. Got {bad} that are NaN or infinite.")
    return matrix


def _as_names(names: Iterable[str] | None, d: int) -> tuple[str, ...]:
    if names is None:
        return default_names(d)
    texts = names if isinstance(names, str) else map(str, names)
    return checked_names(texts, d, "node", GraphError)


def _as_order(
    order: ArrayLike | None, W: sparse.csc_array, names: Sequence[str]
) -> NDArray[np.int64]:
    d = len(names)
    loops = np.flatnonzero(W.diagonal())
    if len(loops):
        raise GraphError(
            f"The diagonal of the weights must be zero: {names[loops[0]]!r} is its own cause."
        )
    if order is not None:
        given = np.array(order)
        if d and (given.dtype.kind not in "iu" or not np.array_equal(np.sort(given), range(d))):
            raise GraphError(f"The order must hold each of the indices 0 to {d - 1} once.")
        given = given.astype(np.int64)
        rank = rank_of(given)
        target = _targets(W)
        backward = np.flatnonzero(rank[W.indices] > rank[target])
        if not len(backward):
            return given
    found = topological_order(W)
    if found is None:
        raise GraphError(f"The graph has a cycle: {_cycle(W, names)}.")
    if order is not None:
        i, j = W.indices[backward[0]], target[backward[0]]
        raise GraphError(
            f"The order must list causes first, but {names[j]!r} stands before its cause "
            f"{names[i]!r} ({len(backward)} such arcs)."
        )
    return found.astype(np.int64)


def _targets(W: sparse.csc_array) -> NDArray[np.int64]:
    """Return the column of each stored value, shape (m,)."""
    return np.repeat(np.arange(W.shape[1]), np.diff(W.indptr))


def _cycle(W: sparse.csc_array, names: Sequence[str]) -> str:
    """Return one cycle as text: in a strong component every node has a parent inside it."""
    _, part = connected_components(W, directed=True, connection="strong")
    v = int(np.argmax(np.bincount(part)[part] > 1))
    step: dict[int, int] = {}
    while v not in step:
        parents = W.indices[W.indptr[v] : W.indptr[v + 1]]
        step[v] = v = int(parents[part[parents] == part[v]][0])
    walk = [v]
    while (v := step[v]) != walk[0]:
        walk.append(v)
    loop = [names[u] for u in [walk[0], *walk[::-1]]]
    if len(loop) > 9:
        loop = [*loop[:4], f"... {len(loop) - 8} more ...", *loop[-4:]]
    return " -> ".join(loop)


def _as_reversible(reversible: Any, W: sparse.csc_array) -> sparse.csc_array:
    if not sparse.issparse(reversible):
        reversible = np.asarray(reversible)
    if reversible.shape != W.shape:
        raise GraphError(
            f"`reversible` must have the shape of the weights, {W.shape}. Got {reversible.shape}."
        )
    flags = _as_matrix(reversible, bool)
    if (flags > W.astype(bool)).nnz:
        raise GraphError("`reversible` must be False where there is no arc.")
    return flags


def _whole_number(what: str, value: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise ParameterError(f"`{what}` must be a whole number of at least 0. Got {value!r}.")
    return number


def _assemble(graph: Graph) -> DAG:
    """Return the DAG of arcs that may come from a file: indices and repeats are checked here."""
    names, arcs = tuple(graph.names), graph.arcs
    d, at = len(names), (arcs.source, arcs.target)
    ends = np.concatenate(at)
    if len(ends) and (ends.min() < 0 or ends.max() >= d):
        raise DataError(f"An arc ends at a node that does not exist; there are {d} nodes.")

    def matrix(values: NDArray[Any]) -> sparse.coo_array:
        return sparse.coo_array((values, at), shape=(d, d))

    count = matrix(np.ones(len(arcs.source))).tocsc()
    if count.nnz < len(arcs.weight):
        i, j = (int(k[0]) for k in (count > 1).nonzero())
        raise DataError(f"The arc {names[i]!r} -> {names[j]!r} appears more than once.")
    reversible = None if arcs.reversible is None else matrix(arcs.reversible)
    return DAG(matrix(arcs.weight), names, graph.order, reversible)
