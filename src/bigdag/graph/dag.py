"""The answer of a learner: sparse weights, names, a causal order, and what is known beside them.

What makes its parts out of what a user or a file gives is in `bigdag.graph.parts`: both end in the
same checks. The file formats are in `bigdag.graph.files`.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from scipy import sparse

from bigdag.data.names import default_names
from bigdag.engine.order import rank_of
from bigdag.errors import DataError, GraphError, ParameterError, missing_extra, near_or_some
from bigdag.graph.files import Arcs, Graph, read_graph, write_graph
from bigdag.graph.parts import (
    as_about,
    as_arc_data,
    as_names,
    as_node_data,
    as_order,
    as_reversible,
    as_weights,
    at_arcs,
    targets,
)

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
    arc_data : mapping of str to array, optional
        What else is known of each arc, numbers or truth values under a name such as
        "probability": an array (m,) with an entry for each arc, column by column as
        ``weights.tocoo()`` of a csc_array lists them, or a dense or sparse matrix (d, d).
    node_data : mapping of str to array of shape (d,), optional
        What is known of each node. A fitted model keeps its "mean" and "noise_variance" there.
    about : dict, optional
        What else there is to say, such as how it was learnt. JSON must be able to hold it.

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
    arc_data : mapping of str to ndarray of shape (m,)
        float64 or bool, an entry for each stored weight; empty where nothing is known.
    node_data : mapping of str to ndarray of shape (d,)
        The same for the nodes.
    about : dict
        As JSON would give it back. Two DAGs are equal if they are the same graph; neither this
        nor the data of arcs and nodes count.

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
        *,
        arc_data: Mapping[str, Any] | None = None,
        node_data: Mapping[str, Any] | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.weights = as_weights(weights)
        self.names = as_names(names, self.weights.shape[0])
        self.order = as_order(order, self.weights, self.names)
        self.reversible = None if reversible is None else as_reversible(reversible, self.weights)
        self.arc_data = as_arc_data(arc_data or {}, self.weights)
        self.node_data = as_node_data(node_data or {}, len(self.names))
        self.about = as_about(about or {})

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

    def _repr_html_(self) -> str:
        """Return what a notebook shows: counts, a small picture, the strongest arcs."""
        from bigdag.graph.summary import summary_html

        return summary_html(self)

    def __eq__(self, other: object) -> bool:
        """Same names, order, weights to the bit, and reversible arcs; no data beside them."""
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

    def edges(self, top: int | None = None, by: str = "auto") -> pd.DataFrame:
        """Return the arcs as a table, the strongest first.

        Parameters
        ----------
        top : int, optional
            How many of the strongest arcs; all by default.
        by : str, default="auto"
            What makes an arc strong, as for :meth:`ranking`.

        Returns
        -------
        DataFrame
            Columns source, target and weight; by falling rank, then by falling absolute weight,
            then by the indices of source and target. Where `reversible` is known, also direction:
            ``->`` or ``--``. Then those of `arc_data`.

        Examples
        --------
        >>> DAG([[0, 1.0, -3.0], [0, 0, 0], [0, 0, 0]]).edges(top=1)
          source target  weight
        0     x0     x2    -3.0
        """
        import pandas as pd

        arcs = self._arcs().strongest_first(by)
        if top is not None:
            arcs = arcs.pick(np.s_[: _whole_number("top", top)])
        names = np.array(self.names, dtype=object)
        table = {"source": names[arcs.source], "target": names[arcs.target], "weight": arcs.weight}
        if arcs.reversible is not None:
            table["direction"] = np.where(arcs.reversible, "--", "->").astype(object)
        return pd.DataFrame(table | dict(arcs.columns))

    def ranking(self, by: str = "auto", directed: bool = True) -> NDArray[np.float64]:
        """Return a score above zero for each arc: the more is known for it, the higher.

        Parameters
        ----------
        by : str, default="auto"
            "weight", for the absolute weight, or the name of a column of `arc_data`. "auto" takes
            the best that is there: of a bootstrap, the "probability"; else, for
            what a search by the BIC has found, direction and evidence, directed arcs before
            undirected ones and both by their "evidence"; else the weight.
        directed : bool, default=True
            False ranks the pairs, whatever their direction: "auto" then takes the "adjacency", or
            the "evidence" alone.

        Returns
        -------
        ndarray of shape (m,)
            In the sequence of ``weights.data``. Only which of two is larger has a meaning.

        Examples
        --------
        >>> dag = DAG([[0, 2.0, 1.0], [0, 0, 0], [0, 0, 0]], arc_data={"probability": [0.6, 0.9]})
        >>> dag.ranking(), dag.ranking("weight")
        (array([1., 2.]), array([2., 1.]))
        """
        return self._arcs().ranking(by, directed)

    def annotated(
        self,
        *,
        reversible: ArrayLike | sparse.sparray | None = None,
        arc_data: Mapping[str, Any] | None = None,
        node_data: Mapping[str, Any] | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> DAG:
        """Return the same graph with more known of it; what is given replaces what was there.

        Parameters
        ----------
        reversible, arc_data, node_data, about
            As for the class. Entries of the same name are replaced, the others stay.

        Examples
        --------
        >>> dag = DAG([[0, 2.0], [0, 0]]).annotated(arc_data={"probability": [0.9]})
        >>> dag.edges()
          source target  weight  probability
        0     x0     x1     2.0          0.9
        """
        return DAG(
            self.weights,
            self.names,
            self.order,
            self.reversible if reversible is None else reversible,
            arc_data={**self.arc_data, **(arc_data or {})},
            node_data={**self.node_data, **(node_data or {})},
            about={**self.about, **(about or {})},
        )

    def threshold(self, t: float) -> DAG:
        """Return the DAG of the arcs with an absolute weight above `t`, on the same nodes.

        A "noise_variance" of the nodes is left out where arcs are: it was that of all of them.

        Examples
        --------
        >>> DAG([[0, 1.0, -3.0], [0, 0, 0], [0, 0, 0]]).threshold(1.0).n_arcs
        1
        """
        try:
            allowed = bool(np.isfinite(t) and t >= 0)
        except (TypeError, ValueError):  # text, or several numbers
            allowed = False
        if not allowed:
            raise ParameterError(f"The threshold must be a finite number of at least 0. Got {t!r}.")
        return self._with_arcs(np.abs(self.weights.data) > t)

    def with_arcs(self, kept: ArrayLike | sparse.sparray) -> DAG:
        """Return the DAG of some of the arcs, with all that is known of them.

        Parameters
        ----------
        kept : array or sparse array of shape (d, d)
            Not zero at the arcs that stay; what it has elsewhere does not count.

        Examples
        --------
        >>> DAG([[0, 1.0, -3.0], [0, 0, 0], [0, 0, 0]]).with_arcs([[0, 1, 0]] * 3).n_arcs
        1
        """
        return self._with_arcs(at_arcs(kept, self.weights, "`kept`") != 0)

    def _with_arcs(self, kept: NDArray[np.bool_]) -> DAG:
        """Return the DAG of the arcs where `kept` (m,) is True."""
        nodes = self._node_data_of(int(kept.sum()))
        return _assemble(Graph(self.names, self.order, self._arcs().pick(kept), nodes, self.about))

    def parents(self, v: str | int) -> list[str]:
        """Return the names of the direct causes of a node, given by name or index.

        A number that is also the name of another node is refused, wherever nodes are given.

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
        return self._part(nodes)

    def _part(self, nodes: NDArray[np.int64]) -> DAG:
        """Return the DAG on the nodes at these places, which are different."""
        place = np.full(self.n_nodes, -1)
        place[nodes] = np.arange(len(nodes))
        arcs = self._arcs()
        arcs = arcs.pick((place[arcs.source] >= 0) & (place[arcs.target] >= 0))
        arcs = arcs._replace(source=place[arcs.source], target=place[arcs.target])
        columns = self._node_data_of(len(arcs.weight))
        return _assemble(
            Graph(
                [self.names[v] for v in nodes],
                np.argsort(rank_of(self.order)[nodes], kind="stable"),
                arcs,
                {name: values[nodes] for name, values in columns.items()},
                self.about,
            )
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
        return self._part(near)

    def to_networkx(self) -> Any:
        """Return a ``networkx.DiGraph`` of the names, as dowhy takes it.

        Arcs have `weight`, `reversible` where it is known, and what is in `arc_data`; nodes have
        what is in `node_data`. An undirected arc is there as the DAG has it.

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
        for name, values in self._arc_attributes(arcs).items():
            nx.set_edge_attributes(graph, dict(zip(zip(*ends), values.tolist())), name)
        for name, values in self.node_data.items():
            nx.set_node_attributes(graph, dict(zip(self.names, values.tolist())), name)
        return graph

    def to_pgmpy(self) -> Any:
        """Return a pgmpy ``LinearGaussianBayesianNetwork``, with parameters where they are known.

        A learnt DAG has means and noise variances in its `node_data`, and its network can predict
        and be sampled from; without these it has the arcs alone.

        Examples
        --------
        >>> from bigdag import OrderSearch, simulate
        >>> X = simulate.sample(DAG([[0, 2.0], [0, 0]]), 100, rng=0)
        >>> network = OrderSearch(lambda1=0.0).fit(X).dag_.to_pgmpy()  # doctest: +SKIP
        >>> network.check_model()  # doctest: +SKIP
        True
        """
        from bigdag.graph.handover import to_pgmpy

        return to_pgmpy(self)

    def to_pywhy(self) -> Any:
        """Return a pywhy-graphs ``CPDAG``: undirected edges where the direction is open.

        Where `reversible` is not known, every arc is directed.

        Examples
        --------
        >>> dag = DAG([[0, 2.0], [0, 0]], reversible=[[0, 1], [0, 0]])
        >>> list(dag.to_pywhy().undirected_edges)  # doctest: +SKIP
        [('x0', 'x1')]
        """
        from bigdag.graph.handover import to_pywhy

        return to_pywhy(self)

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
        for name, values in self._arc_attributes(arcs).items():
            graph.es[name] = values.tolist()
        for name, values in self.node_data.items():
            graph.vs[name] = values.tolist()
        return graph

    def save(
        self, path: str | os.PathLike[str], force: bool = False, *, safe_csv: bool = False
    ) -> None:
        """Write the DAG to a file, whole or not at all; the suffix names the format.

        Every format keeps the weights to the bit, the names, the order and what is reversible;
        every one that `load` reads also the data of arcs and nodes, and all but ``.csv`` what
        there is in `about`.

        - ``.npz``: numpy arrays; the smallest and quickest.
        - ``.parquet``: one row an arc (source, target, weight, ...), the strongest first.
        - ``.csv``: the same rows as text, and nothing else. All nodes, with their places in the
          order, stand in a second file beside it: ``dag.nodes.csv`` for ``dag.csv``. It holds a
          digest of both, so that a cut is detected.
        - ``.graphml``: for networkx, igraph, Cytoscape, Gephi; names are the ids of nodes.
        - ``.dot``: for Graphviz; it is only written, `load` does not read it. The weight stands in
          `value`, as Graphviz takes `weight` for a wish about lengths.
        - ``.json``: ``{"nodes": [name, ...], "arcs": [[i, j, weight], ...], "order": [...]}``, and
          ``"arc_data": {name: [...]}``, ``"node_data"`` and ``"about"`` where there are any.

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

    @overload
    def to_html(
        self, path: None = None, *, title: str | None = None, force: bool = False
    ) -> str: ...

    @overload
    def to_html(
        self, path: str | os.PathLike[str], *, title: str | None = None, force: bool = False
    ) -> None: ...

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str | None = None,
        force: bool = False,
    ) -> str | None:
        """Return or write one HTML page to explore the graph: it needs a browser and nothing else.

        The page has a search for variables, the neighbourhood of each, paths and total effects
        between two, sliders for weight and probability, an overview of the whole graph, a table of
        all arcs, and how the graph was learnt. See docs/explore.md.

        Parameters
        ----------
        path : path-like, optional
            The file, ending in .html, written whole or not at all. Without it, the page is
            returned as text.
        title : str, optional
            The heading; the number of variables by default.
        force : bool, default=False
            Overwrite the file.

        Returns
        -------
        str or None
            The page where no path is given. The same graph gives the same page.

        Examples
        --------
        >>> page = DAG([[0, 2.0], [0, 0]], names=["rain", "river"]).to_html(title="Rain")
        >>> "<title>Rain</title>" in page
        True
        """
        from bigdag.graph.explore import explore_page, write_page

        if path is None:
            return explore_page(self, title)
        write_page(self, path, title, force)
        return None

    def _graph(self) -> Graph:
        """Return what files hold of it."""
        return Graph(self.names, self.order, self._arcs(), self.node_data, self.about)

    @classmethod
    def load(cls, path: str | os.PathLike[str], memory_limit: float | str | None = None) -> DAG:
        r"""Read a DAG from a file that `save` wrote; the suffix names the format.

        ``.csv`` and ``.parquet`` may also be tables of one's own with the columns source, target
        and, unless all weights are 1, weight; ``.graphml`` may be any directed graph. Their nodes
        then are numbered as they appear, and other columns of numbers are their `arc_data`. A
        ``.csv`` without the file of its nodes beside it is read so, with a warning. ``.dot`` files
        are only written.

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
            hint = f" {near_or_some(v, self.names, 'There are')}".rstrip()
            for name, same in (self.about.get("groups") or {}).items():
                if v in same:
                    hint = f" It is nearly the same as {name!r}, which stands for the group."
            raise GraphError(f"There is no node {v!r} among the {self.n_nodes} nodes.{hint}")
        index = operator.index(v)
        if self._places.get(str(index), index) != index:
            there = 0 <= index < self.n_nodes
            other = f", and {self.names[index]!r} for the one at that place" if there else ""
            raise GraphError(
                f"A number is the place of a node, and {index} is here the name of another. "
                f"Give names as text: {str(index)!r} for that one{other}."
            )
        if not 0 <= index < self.n_nodes:
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

    def _arcs(self) -> Arcs:
        """Return the arcs column by column."""
        flags = None
        if self.reversible is not None:  # 2 where the patterns meet, in the order of the weights
            pattern = self.weights.astype(bool).astype(np.int8)
            flags = (pattern + self.reversible.astype(np.int8)).data == 2
        W = self.weights
        return Arcs(W.indices.astype(np.int64), targets(W), W.data, flags, self.arc_data)

    @staticmethod
    def _arc_attributes(arcs: Arcs) -> dict[str, NDArray[Any]]:
        """Return what graph objects show of the arcs beside their weights."""
        flags = {} if arcs.reversible is None else {"reversible": arcs.reversible}
        return {**flags, **arcs.columns}

    def _node_data_of(self, n_arcs: int) -> dict[str, NDArray[Any]]:
        """Return the data of the nodes that hold with so many of the arcs."""
        lost = n_arcs < self.n_arcs
        return {k: v for k, v in self.node_data.items() if not (lost and k == "noise_variance")}


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

    arcs = arcs.pick(np.lexsort(at))  # column by column, as in the weights
    twice = np.flatnonzero((np.diff(arcs.source) == 0) & (np.diff(arcs.target) == 0))
    if len(twice):
        i, j = arcs.source[twice[0]], arcs.target[twice[0]]
        raise DataError(f"The arc {names[i]!r} -> {names[j]!r} appears more than once.")
    arcs = arcs.pick(arcs.weight != 0)

    def matrix(values: NDArray[Any]) -> sparse.coo_array:
        return sparse.coo_array((values, (arcs.source, arcs.target)), shape=(d, d))

    return DAG(
        matrix(arcs.weight),
        names,
        graph.order,
        None if arcs.reversible is None else matrix(arcs.reversible),
        arc_data=arcs.columns,
        node_data=graph.nodes,
        about=graph.about,
    )
