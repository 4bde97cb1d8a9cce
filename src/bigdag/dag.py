"""The answer of a learner: sparse weights, names and a causal order, with their files.

The class comes first. Below it stand what makes its parts out of what a user gives, and the file
formats: each is one writer and one reader, and every reader ends in `_assemble`, so that a file is
checked exactly as an array is.
"""

from __future__ import annotations

import difflib
import io
import json
import operator
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from xml.parsers.expat import ParserCreate
from xml.sax.saxutils import escape

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from bigdag.acyclic import rank_of, topological_order
from bigdag.errors import (
    BigdagError,
    DataError,
    GraphError,
    OutputExistsError,
    ParameterError,
    missing_extra,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

__all__ = ["DAG", "whole_file"]

_VERSION = 1  # of the file formats; a reader refuses what is newer


class _Arcs(NamedTuple):
    """Arcs as aligned arrays (m,); `reversible` is None where nothing is known of directions."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    weight: NDArray[np.float64]
    reversible: NDArray[np.bool_] | None


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
        return self.names != _default_names(self.n_nodes)

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
            arcs = _pick(arcs, np.s_[: _whole_number("top", top)])
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
        return _assemble(self.names, _pick(arcs, np.abs(arcs.weight) > t), self.order)

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
            raise ParameterError(f"A subgraph needs a list of names. Got the text {names!r}.")
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

    def save(self, path: str | os.PathLike[str], force: bool = False) -> None:
        """Write the DAG to a file, whole or not at all; the suffix names the format.

        Every format keeps the weights to the bit, the names, the order and what is reversible.

        - ``.npz``: numpy arrays; the smallest and quickest.
        - ``.parquet``: one row an arc (source, target, weight), the strongest first.
        - ``.csv``: the same rows as text, and below them every node twice, with empty target and
          weight: first by index, then in causal order. ``pandas.read_csv(path).dropna()`` holds
          the arcs alone.
        - ``.graphml``: for networkx, igraph, Cytoscape, Gephi.
        - ``.dot``: for Graphviz. The weight stands in `value`, as Graphviz takes `weight` for a
          wish about lengths.
        - ``.json``: ``{"nodes": [name, ...], "arcs": [[i, j, weight], ...], "order": [...]}``.

        Parameters
        ----------
        path : path-like
            The file. It must not exist, unless `force` is given.
        force : bool, default=False
            Overwrite the file.

        Examples
        --------
        >>> import tempfile
        >>> dag = DAG([[0, 2.0], [0, 0]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dag.save(f"{folder}/dag.parquet")
        ...     DAG.load(f"{folder}/dag.parquet") == dag
        True
        """
        write = _format(path).write
        with whole_file(path, force) as file:
            write(self, file)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DAG:
        r"""Read a DAG from a file that `save` wrote; the suffix names the format.

        ``.csv`` and ``.parquet`` may also be tables of one's own with the columns source, target
        and, unless all weights are 1, weight; ``.graphml`` may be any directed graph. Their nodes
        then are numbered as they appear.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "mine.csv")
        ...     _ = file.write_text("source,target\nrain,river\n")
        ...     DAG.load(file).names
        ('rain', 'river')
        """
        kind, path = _format(path), Path(path)
        try:
            file = open(path, "rb")  # noqa: SIM115
        except OSError as error:
            raise DataError(f"Could not read {path}: {error.strerror or error}.") from error
        with file:
            try:
                return kind.read(file)
            except BigdagError as error:
                raise type(error)(f"{path}: {error}") from error
            except Exception as error:  # a broken file breaks each parser in ways of its own
                raise DataError(
                    f"{path} holds no DAG that can be read: {error!s:.300}. "
                    f"Expected {kind.expected}."
                ) from error

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

    def _arcs(self, strongest_first: bool = False) -> _Arcs:
        """Return the arcs column by column, or the strongest first with ties by index."""
        target = np.repeat(np.arange(self.n_nodes), np.diff(self.weights.indptr))
        flags = None
        if self.reversible is not None:  # 2 where the patterns meet, in the order of the weights
            pattern = self.weights.astype(bool).astype(np.int8)
            flags = (pattern + self.reversible.astype(np.int8)).data == 2
        arcs = _Arcs(self.weights.indices.astype(np.int64), target, self.weights.data, flags)
        if not strongest_first:
            return arcs
        return _pick(arcs, np.lexsort((arcs.target, arcs.source, -np.abs(arcs.weight))))


# -------------------------------------------------------------------- what a user gives, checked


def _as_weights(weights: ArrayLike | sparse.sparray) -> sparse.csc_array:
    if not sparse.issparse(weights):
        weights = np.asarray(weights)
    shape = weights.shape  # type: ignore[union-attr]
    if len(shape) != 2 or shape[0] != shape[1]:
        raise GraphError(f"The weights must be a square matrix. Got the shape {shape}.")
    if weights.dtype.kind not in "biuf":  # type: ignore[union-attr]
        raise GraphError(f"The weights must be real numbers. Got {weights.dtype}.")  # type: ignore[union-attr]
    matrix = sparse.csc_array(weights, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not np.isfinite(matrix.data).all():
        bad = int((~np.isfinite(matrix.data)).sum())
        raise GraphError(f"The weights must be finite. Got {bad} that are NaN or infinite.")
    return matrix


def _default_names(d: int) -> tuple[str, ...]:
    return tuple(f"x{v}" for v in range(d))


def _as_names(names: Iterable[str] | None, d: int) -> tuple[str, ...]:
    if names is None:
        return _default_names(d)
    if isinstance(names, str):
        raise GraphError(f"The names must be a list of texts. Got the text {names!r}.")
    names = tuple(map(str, names))
    if len(names) != d:
        raise GraphError(f"There must be one name for each of the {d} nodes. Got {len(names)}.")
    if len(set(names)) < d:
        seen: set[str] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise GraphError(f"The names must be different. {twice!r} is there more than once.")
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        raise GraphError(f"The names must be valid Unicode text: {error.reason}.") from None
    return names


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
        target = np.repeat(np.arange(d), np.diff(W.indptr))
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


def _as_reversible(reversible: ArrayLike | sparse.sparray, W: sparse.csc_array) -> sparse.csc_array:
    if not sparse.issparse(reversible):
        reversible = np.asarray(reversible)
    if reversible.shape != W.shape:  # type: ignore[union-attr]
        raise GraphError(
            f"`reversible` must have the shape of the weights, {W.shape}. Got {reversible.shape}."  # type: ignore[union-attr]
        )
    flags = sparse.csc_array(reversible, dtype=bool, copy=True)
    flags.sum_duplicates()
    flags.eliminate_zeros()
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


def _as_arcs(source: Any, target: Any, weight: Any, reversible: Any = None) -> _Arcs:
    return _Arcs(
        np.asarray(source, dtype=np.int64),
        np.asarray(target, dtype=np.int64),
        np.asarray(weight, dtype=np.float64),
        None if reversible is None else np.asarray(reversible, dtype=bool),
    )


def _pick(arcs: _Arcs, which: Any) -> _Arcs:
    return _as_arcs(*(part if part is None else part[which] for part in arcs))


def _assemble(names: Iterable[str], arcs: _Arcs, order: ArrayLike | None) -> DAG:
    """Return the DAG of arcs that may come from a file: indices and repeats are checked here."""
    names = tuple(names)
    d = len(names)
    ends = np.concatenate(arcs[:2])
    if len(ends) and (ends.min() < 0 or ends.max() >= d):
        raise DataError(f"An arc names a node outside of the {d} nodes.")
    at = (arcs.source, arcs.target)
    count = sparse.coo_array((np.ones(len(ends) // 2), at), shape=(d, d)).tocsc()
    if count.nnz < len(arcs.weight):
        i, j = (int(k[0]) for k in (count > 1).nonzero())
        raise DataError(f"The arc {names[i]!r} -> {names[j]!r} is there more than once.")
    weights = sparse.coo_array((arcs.weight, at), shape=(d, d))
    reversible = None
    if arcs.reversible is not None:
        reversible = sparse.coo_array((arcs.reversible, at), shape=(d, d))
    return DAG(weights, names, order, reversible)


# -------------------------------------------------------------------- files


@contextmanager
def whole_file(path: str | os.PathLike[str], force: bool = False) -> Iterator[BinaryIO]:
    """Open a binary file that appears at `path` whole when the block ends well, or not at all.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(f"{folder}/a.txt") as file:
    ...         _ = file.write(b"all of it")
    ...     os.listdir(folder)
    ['a.txt']
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not force:
        raise OutputExistsError(
            f"{path} exists already and was left alone. Choose another name, or overwrite it "
            "with force=True (--force on the command line)."
        )
    if not target.parent.is_dir():
        raise ParameterError(f"Cannot write {path}: the folder {target.parent} does not exist.")
    temporary = target.with_name(f".bigdag-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        if isinstance(error, BigdagError):
            raise
        raise BigdagError(
            f"Could not write {path}: {error.strerror or error}. Nothing was written."
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def _check_version(found: Any) -> None:
    if int(found) > _VERSION:
        raise DataError(
            f"the file has format {found}, and this bigdag reads formats up to {_VERSION}. "
            "Install a newer bigdag."
        )


def _write_npz(dag: DAG, file: BinaryIO) -> None:
    arcs = dag._arcs()
    arrays: dict[str, Any] = {
        "bigdag": np.int64(_VERSION),
        # JSON as bytes: numpy's own text arrays drop trailing NULs and pad to the longest name.
        "names": np.frombuffer(json.dumps(dag.names).encode(), dtype=np.uint8),
        "order": dag.order,
        "source": arcs.source.astype(np.int32),
        "target": arcs.target.astype(np.int32),
        "weight": arcs.weight,
    }
    if arcs.reversible is not None:
        arrays["reversible"] = arcs.reversible
    np.savez(file, **arrays)


def _read_npz(file: BinaryIO) -> DAG:
    with np.load(file, allow_pickle=False) as arrays:
        _check_version(arrays["bigdag"])
        names = json.loads(arrays["names"].tobytes())
        parts = [arrays[part] for part in _Arcs._fields if part in arrays]
        return _assemble(names, _as_arcs(*parts), arrays["order"])


def _write_parquet(dag: DAG, file: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arcs = dag._arcs(strongest_first=True)
    names = pa.array(dag.names, type=pa.string())
    columns = {
        "source": names.take(pa.array(arcs.source)),
        "target": names.take(pa.array(arcs.target)),
        "weight": pa.array(arcs.weight),
    }
    if arcs.reversible is not None:
        columns["direction"] = pa.array(["->", "--"]).take(
            pa.array(arcs.reversible.astype(np.int64))
        )
    # A row holds an arc, so the nodes without one and the order go into the file's own header.
    about = {"version": _VERSION, "names": dag.names, "order": dag.order.tolist()}
    table = pa.table(columns).replace_schema_metadata({"bigdag": json.dumps(about)})
    pq.write_table(table, file)


def _read_parquet(file: BinaryIO) -> DAG:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(file).read()
    metadata = table.schema.metadata or {}
    if b"bigdag" not in metadata:
        return _from_table(table)
    about = json.loads(metadata[b"bigdag"])
    _check_version(about["version"])
    return _from_table(table, pa.array(about["names"], type=pa.string()), about["order"])


def _from_table(table: Any, names: Any = None, order: Any = None) -> DAG:
    """Return the DAG of a pyarrow table of arcs; a row without a target only lists a node."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for column in ("source", "target"):
        if column not in table.column_names:
            raise DataError(
                f"the table has no column {column!r}. It needs source, target and, unless all "
                f"weights are 1, weight; it has {', '.join(map(repr, table.column_names))}."
            )
    ends = [table[end].cast(pa.string()).combine_chunks() for end in ("source", "target")]
    if ends[0].null_count:
        row = ends[0].is_null().index(True).as_py() + 1
        raise DataError(f"row {row} has no source.")
    is_arc = ends[1].is_valid()
    listed = ends[0].filter(pc.invert(is_arc))
    if names is None:
        n = len(table)
        appearance = np.arange(2 * n).reshape(2, n).T.ravel()  # source and target, row by row
        names = pa.concat_arrays(ends).take(pa.array(appearance)).drop_null().unique()
        half = listed[: len(names)], listed[len(names) :]
        if all(len(part.unique()) == len(part) == len(names) for part in half):
            names, order = half[0], pc.index_in(half[1], half[0]).to_numpy(zero_copy_only=False)
    arcs = table.filter(is_arc)
    weight = np.ones(len(arcs))
    if "weight" in table.column_names:
        weight = arcs["weight"].cast(pa.float64()).to_numpy()
        if not np.isfinite(weight).all():
            row = np.flatnonzero(is_arc)[np.argmin(np.isfinite(weight))] + 1
            raise DataError(f"row {row} has no finite weight.")
    flags = None
    if "direction" in table.column_names:
        direction = arcs["direction"].to_numpy()
        flags = direction == "--"
        if not (flags | (direction == "->")).all():
            raise DataError("the column 'direction' must hold '->' and '--' only.")
    source, target = (pc.fill_null(pc.index_in(end.filter(is_arc), names), -1) for end in ends)
    return _assemble(names.to_pylist(), _as_arcs(source, target, weight, flags), order)


def _csv_lines(dag: DAG) -> Iterator[str]:
    arcs = dag._arcs(strongest_first=True)
    # The empty name is quoted: unquoted, it is a missing one.
    plain = re.compile(r"[^\s\",](?:[^\r\n\",]*[^\s\",])?")
    quoted = (n.replace('"', '""') for n in dag.names)
    names = [n if plain.fullmatch(n) else f'"{q}"' for n, q in zip(dag.names, quoted)]
    flags = arcs.reversible
    marks = iter(()) if flags is None else iter(np.where(flags, ",--", ",->").tolist())
    yield "source,target,weight\n" if flags is None else "source,target,weight,direction\n"
    for i, j, w in zip(arcs.source.tolist(), arcs.target.tolist(), arcs.weight.tolist()):
        yield f"{names[i]},{names[j]},{w!r}{next(marks, '')}\n"
    for v in [*range(dag.n_nodes), *dag.order.tolist()]:
        yield f"{names[v]},,\n" if flags is None else f"{names[v]},,,\n"


def _read_csv(file: BinaryIO) -> DAG:
    import pyarrow as pa
    from pyarrow import csv

    types = dict.fromkeys(("source", "target", "direction"), pa.string())
    return _from_table(
        csv.read_csv(
            file,
            csv.ReadOptions(block_size=1 << 24),
            csv.ParseOptions(newlines_in_values=True),
            csv.ConvertOptions(
                column_types=types | {"weight": pa.float64()},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    )


def _json_text(dag: DAG) -> Iterator[str]:
    arcs = dag._arcs()
    rows = list(zip(arcs.source.tolist(), arcs.target.tolist(), arcs.weight.tolist()))
    graph = {"format": "bigdag", "version": _VERSION, "nodes": dag.names}
    graph |= {"order": dag.order.tolist(), "arcs": rows}
    if arcs.reversible is not None:
        graph["reversible"] = arcs.reversible.tolist()
    yield json.dumps(graph)


def _read_json(file: BinaryIO) -> DAG:
    graph = json.load(file)
    if not isinstance(graph, dict) or graph.get("format") != "bigdag":
        raise DataError('the file is JSON, but without "format": "bigdag".')
    _check_version(graph["version"])
    table = np.array(graph["arcs"], dtype=np.float64).reshape(-1, 3)
    arcs = _as_arcs(table[:, 0], table[:, 1], table[:, 2], graph.get("reversible"))
    return _assemble(graph["nodes"], arcs, graph["order"])


# What XML cannot hold even escaped, and what it would change on reading.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GRAPHML_KEYS = {
    "graph": {"bigdag": "int"},
    "node": {"name": "string", "exact_name": "string", "order": "int"},
    "edge": {"weight": "double", "reversible": "boolean"},
}


def _graphml_lines(dag: DAG) -> Iterator[str]:
    arcs = dag._arcs()
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    for owner, keys in _GRAPHML_KEYS.items():
        for key, kind in keys.items():
            if key != "reversible" or arcs.reversible is not None:
                yield f'<key id="{key}" for="{owner}" attr.name="{key}" attr.type="{kind}"/>\n'
    yield f'<graph id="G" edgedefault="directed"><data key="bigdag">{_VERSION}</data>\n'
    for v, (name, place) in enumerate(zip(dag.names, rank_of(dag.order).tolist())):
        shown = escape(_NOT_XML.sub("\ufffd", name), {"\r": "&#13;"})
        yield f'<node id="n{v}"><data key="name">{shown}</data><data key="order">{place}</data>'
        if _NOT_XML.search(name):
            yield f'<data key="exact_name">{escape(json.dumps(name))}</data>'
        yield "</node>\n"
    flags = arcs.reversible
    marks = iter(()) if flags is None else iter(np.where(flags, "true", "false").tolist())
    for i, j, w in zip(arcs.source.tolist(), arcs.target.tolist(), arcs.weight.tolist()):
        yield f'<edge source="n{i}" target="n{j}"><data key="weight">{w!r}</data>'
        yield (
            "</edge>\n"
            if flags is None
            else f'<data key="reversible">{next(marks)}</data></edge>\n'
        )
    yield "</graph>\n</graphml>\n"


class _GraphML:
    """What a GraphML file holds, gathered by expat's callbacks (a tree would take gigabytes)."""

    def __init__(self, file: BinaryIO) -> None:
        self.ours = False
        self.keys: dict[str, str] = {}  # key id -> attribute name
        self.nodes: dict[str, tuple[str, int]] = {}  # node id -> name and place in the order
        self.arcs: tuple[list[str], list[str], list[float], list[bool]] = ([], [], [], [])
        self._data: dict[str, str] = {}  # of the node or edge being read
        self._text: list[str] = []
        self._about: dict[str, str] = {}
        self._key = ""
        parser = ParserCreate(namespace_separator="}")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append
        parser.ParseFile(file)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition("}")[2]
        if tag == "data":
            self._key = self.keys.get(attributes["key"], "")
            self._text.clear()
        elif tag in ("node", "edge"):
            self._about = attributes
            self._data.clear()
        elif tag == "key":
            self.keys[attributes["id"]] = attributes.get("attr.name", "")
        elif tag == "graph" and attributes.get("edgedefault") == "undirected":
            raise DataError("the graph is undirected.")

    def _end(self, tag: str) -> None:
        tag, about, data = tag.rpartition("}")[2], self._about, self._data
        if tag == "data":
            data[self._key] = "".join(self._text)
            if self._key == "bigdag":
                _check_version(data["bigdag"])
                self.ours = True
        elif tag == "edge":
            source, target, weight, reversible = self.arcs
            source.append(about["source"])
            target.append(about["target"])
            weight.append(float(data.get("weight", 1.0)))
            reversible.append(data.get("reversible") in ("true", "True", "1"))
        elif tag == "node":
            name = data.get("name", about["id"])
            if self.ours and "exact_name" in data:
                name = json.loads(data["exact_name"])
            self.nodes[about["id"]] = name, int(data["order"]) if self.ours else 0


def _read_graphml(file: BinaryIO) -> DAG:
    graph = _GraphML(file)
    index = {key: v for v, key in enumerate(graph.nodes)}
    source, target, weight, flags = graph.arcs
    known = "reversible" in graph.keys.values()
    ends = [index[v] for v in source], [index[v] for v in target]
    arcs = _as_arcs(*ends, weight, flags if known else None)
    order = np.argsort([place for _, place in graph.nodes.values()]) if graph.ours else None
    return _assemble([name for name, _ in graph.nodes.values()], arcs, order)


_DOT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\0": "\\0", "&": "&amp;"}
_DOT_NODE = re.compile(r'  n(\d+) \[label="((?:[^"\\\n]|\\.)*)", order=(\d+)\];\n')
_DOT_ARC = re.compile(r"  n(\d+) -> n(\d+) \[value=([^\s,]+), label=[^\s,]+(, dir=none)?\];\n")


def _dot_lines(dag: DAG) -> Iterator[str]:
    arcs, escapes = dag._arcs(), str.maketrans(_DOT_ESCAPES)
    flags = arcs.reversible
    known = "" if flags is None else ", reversible=true"
    yield f"digraph bigdag {{\n  graph [bigdag={_VERSION}{known}];\n"
    for v, (name, place) in enumerate(zip(dag.names, rank_of(dag.order).tolist())):
        yield f'  n{v} [label="{name.translate(escapes)}", order={place}];\n'
    heads = iter(()) if flags is None else iter(np.where(flags, ", dir=none", "").tolist())
    for i, j, w in zip(arcs.source.tolist(), arcs.target.tolist(), arcs.weight.tolist()):
        yield f'  n{i} -> n{j} [value={w!r}, label="{w:.3g}"{next(heads, "")}];\n'
    yield "}\n"


def _read_dot(file: BinaryIO) -> DAG:
    text = file.read().decode()
    head = re.match(r"digraph bigdag \{\n  graph \[bigdag=(\d+)(, reversible=true)?\];\n", text)
    if head is None:
        raise DataError(
            "only DOT files that bigdag wrote can be read. Give other graphs as .graphml or .csv."
        )
    _check_version(head[1])
    # No label holds a newline, so the first line that looks like an arc is one.
    first = re.search(r"^(  n\d+ -> |\}$)", text, re.M)
    cut = first.start() if first else 0
    nodes, edges = _DOT_NODE.findall(text, head.end(), cut), _DOT_ARC.findall(text, cut)
    if not text.endswith("\n}\n") or len(nodes) + len(edges) + 3 != text.count("\n"):
        raise DataError("the file is cut off, or was changed in a way that cannot be read.")
    back = {written: plain for plain, written in _DOT_ESCAPES.items()}
    names = [re.sub(r"\\.|&amp;", lambda found: back[found[0]], node[1]) for node in nodes]
    source, target, weight, heads = zip(*edges) if edges else ((), (), (), ())
    ends = list(map(int, source)), list(map(int, target))
    flags = list(map(bool, heads)) if head[2] else None
    arcs = _as_arcs(*ends, list(map(float, weight)), flags)
    return _assemble(names, arcs, np.argsort([int(node[2]) for node in nodes]))


def _text(lines: Callable[[DAG], Iterator[str]]) -> Callable[[DAG, BinaryIO], None]:
    def write(dag: DAG, file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        text.writelines(lines(dag))
        text.detach()

    return write


class _Format(NamedTuple):
    write: Callable[[DAG, BinaryIO], None]
    read: Callable[[BinaryIO], DAG]
    expected: str


_TABLE = "the columns source, target and, unless all weights are 1, weight"
_FORMATS = {
    ".npz": _Format(_write_npz, _read_npz, "an .npz file written by DAG.save"),
    ".parquet": _Format(_write_parquet, _read_parquet, f"a Parquet file with {_TABLE}"),
    ".csv": _Format(_text(_csv_lines), _read_csv, f"comma-separated text with {_TABLE}"),
    ".graphml": _Format(_text(_graphml_lines), _read_graphml, "a directed graph in GraphML"),
    ".dot": _Format(_text(_dot_lines), _read_dot, "a .dot file written by DAG.save"),
    ".json": _Format(_text(_json_text), _read_json, "a .json file written by DAG.save"),
}


def _format(path: str | os.PathLike[str]) -> _Format:
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise ParameterError(
            f"The suffix of a DAG's file must be one of {', '.join(_FORMATS)}. Got {str(path)!r}."
        )
    return _FORMATS[suffix]
