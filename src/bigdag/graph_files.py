"""DAGs in files: each format is one writer and one reader of a `Graph`, chosen by the suffix.

Nothing is checked here but the file itself; what reads a graph says what to build of it.
"""

from __future__ import annotations

import io
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar
from xml.parsers.expat import ParserCreate
from xml.sax.saxutils import escape

import numpy as np

from bigdag.acyclic import rank_of
from bigdag.errors import BigdagError, DataError, OutputExistsError, ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Arcs", "Graph", "check_output", "read_graph", "whole_file", "write_graph"]

_VERSION = 1  # of the file formats; a reader refuses what is newer
_T = TypeVar("_T")


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


def check_output(path: str | os.PathLike[str], force: bool = False) -> None:
    """Refuse a path now that `write_graph` would refuse after the long work of making the graph.

    Examples
    --------
    >>> check_output("dag.txt")
    Traceback (most recent call last):
        ...
    bigdag.errors.ParameterError: The suffix of a DAG's file must be one of .npz, ...
    """
    _format(path)
    _checked_target(path, force)


def write_graph(path: str | os.PathLike[str], graph: Graph, force: bool = False) -> None:
    """Write a graph to a file, whole or not at all; the order must be known.

    Examples
    --------
    >>> import tempfile
    >>> graph = Graph(["a", "b"], np.array([1, 0]), Arcs.of([1], [0], [2.0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_graph(f"{folder}/a.csv", graph)
    ...     print(Path(folder, "a.csv").read_text().splitlines()[:2])
    ['source,target,weight', 'b,a,2.0']
    """
    write = _format(path).write
    with whole_file(path, force) as file:
        write(graph, file)


def read_graph(path: str | os.PathLike[str], build: Callable[[Graph], _T]) -> _T:
    """Return what `build` makes of the graph in a file; its errors too then name the file.

    Examples
    --------
    >>> import tempfile
    >>> graph = Graph(["a", "b"], np.array([1, 0]), Arcs.of([1], [0], [2.0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_graph(f"{folder}/a.npz", graph)
    ...     read_graph(f"{folder}/a.npz", lambda graph: graph.names)
    ['a', 'b']
    """
    kind, path = _format(path), Path(path)
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise DataError(f"Could not read {path}: {error.strerror or error}.") from error
    with file:
        try:
            return build(kind.read(file))
        except BigdagError as error:
            raise type(error)(f"{path}: {error}") from error
        except Exception as error:  # a broken file breaks each parser in ways of its own
            raise DataError(
                f"{path} holds no DAG that can be read: {error!s:.300}. Expected {kind.expected}."
            ) from error


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
    target = _checked_target(path, force)
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


def _checked_target(path: str | os.PathLike[str], force: bool) -> Path:
    """Return the file to write for `path`, through a link if it is one, or say why not."""
    target = Path(os.path.realpath(path) if os.path.islink(path) else path)
    if target.is_dir():
        raise ParameterError(
            f"{path} is a folder. Give the name of a file to write. Nothing was written."
        )
    if target.exists() and not force:
        raise OutputExistsError(
            f"{path} exists already and was left alone. Choose another name, or overwrite it "
            "with force=True (--force on the command line)."
        )
    if not target.parent.is_dir():
        raise ParameterError(f"Cannot write {path}: the folder {target.parent} does not exist.")
    return target


def _check_version(found: Any) -> None:
    if int(found) > _VERSION:
        raise DataError(
            f"the file has format {found}, and this bigdag reads formats up to {_VERSION}. "
            "Install a newer bigdag."
        )


def _write_npz(graph: Graph, file: BinaryIO) -> None:
    arcs = graph.arcs
    arrays: dict[str, Any] = {
        "bigdag": np.int64(_VERSION),
        # JSON as bytes: numpy's own text arrays drop trailing NULs and pad to the longest name.
        "names": np.frombuffer(json.dumps(graph.names).encode(), dtype=np.uint8),
        "order": graph.order,
        "source": arcs.source.astype(np.int32),
        "target": arcs.target.astype(np.int32),
        "weight": arcs.weight,
    }
    if arcs.reversible is not None:
        arrays["reversible"] = arcs.reversible
    np.savez(file, **arrays)


def _read_npz(file: BinaryIO) -> Graph:
    with np.load(file, allow_pickle=False) as arrays:
        _check_version(arrays["bigdag"])
        names = json.loads(arrays["names"].tobytes())
        arcs = Arcs.of(
            arrays["source"], arrays["target"], arrays["weight"], arrays.get("reversible")
        )
        return Graph(names, arrays["order"], arcs)


def _write_parquet(graph: Graph, file: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arcs = graph.arcs.strongest_first()
    names = pa.array(graph.names, type=pa.string())
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
    about = {"version": _VERSION, "names": graph.names, "order": graph.order.tolist()}
    table = pa.table(columns).replace_schema_metadata({"bigdag": json.dumps(about)})
    pq.write_table(table, file)


def _read_parquet(file: BinaryIO) -> Graph:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(file).read()
    metadata = table.schema.metadata or {}
    if b"bigdag" not in metadata:
        return _from_table(table)
    about = json.loads(metadata[b"bigdag"])
    _check_version(about["version"])
    return _from_table(table, pa.array(about["names"], type=pa.string()), about["order"])


def _from_table(table: Any, names: Any = None, order: Any = None) -> Graph:
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
    return Graph(names.to_pylist(), order, Arcs.of(source, target, weight, flags))


def _csv_lines(graph: Graph) -> Iterator[str]:
    arcs = graph.arcs.strongest_first()
    # The empty name is quoted: unquoted, it is a missing one.
    plain = re.compile(r"[^\s\",](?:[^\r\n\",]*[^\s\",])?")
    quoted = (n.replace('"', '""') for n in graph.names)
    names = [n if plain.fullmatch(n) else f'"{q}"' for n, q in zip(graph.names, quoted)]
    extra = "" if arcs.reversible is None else ","
    yield f"source,target,weight{extra and ',direction'}\n"
    for i, j, w, mark in arcs.rows(",--", ",->"):
        yield f"{names[i]},{names[j]},{w!r}{mark}\n"
    for v in [*range(len(names)), *graph.order.tolist()]:
        yield f"{names[v]},,{extra}\n"


def _read_csv(file: BinaryIO) -> Graph:
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


def _json_text(graph: Graph) -> Iterator[str]:
    arcs = graph.arcs
    content = {
        "format": "bigdag",
        "version": _VERSION,
        "nodes": graph.names,
        "order": graph.order.tolist(),
        "arcs": list(zip(arcs.source.tolist(), arcs.target.tolist(), arcs.weight.tolist())),
    }
    if arcs.reversible is not None:
        content["reversible"] = arcs.reversible.tolist()
    yield json.dumps(content)


def _read_json(file: BinaryIO) -> Graph:
    content = json.load(file)
    if not isinstance(content, dict) or content.get("format") != "bigdag":
        raise DataError('the file is JSON, but without "format": "bigdag".')
    _check_version(content["version"])
    table = np.array(content["arcs"], dtype=np.float64).reshape(-1, 3)
    arcs = Arcs.of(table[:, 0], table[:, 1], table[:, 2], content.get("reversible"))
    return Graph(content["nodes"], content["order"], arcs)


# What XML cannot hold even escaped, and what it would change on reading.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GRAPHML_KEYS = {
    "graph": {"bigdag": "int"},
    "node": {"name": "string", "exact_name": "string", "order": "int"},
    "edge": {"weight": "double", "reversible": "boolean"},
}


def _graphml_lines(graph: Graph) -> Iterator[str]:
    arcs = graph.arcs
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    for owner, keys in _GRAPHML_KEYS.items():
        for key, kind in keys.items():
            if key != "reversible" or arcs.reversible is not None:
                yield f'<key id="{key}" for="{owner}" attr.name="{key}" attr.type="{kind}"/>\n'
    yield f'<graph id="G" edgedefault="directed"><data key="bigdag">{_VERSION}</data>\n'
    for v, (name, place) in enumerate(zip(graph.names, rank_of(graph.order).tolist())):
        shown = escape(_NOT_XML.sub("\ufffd", name), {"\r": "&#13;"})
        yield f'<node id="n{v}"><data key="name">{shown}</data><data key="order">{place}</data>'
        if _NOT_XML.search(name):
            yield f'<data key="exact_name">{escape(json.dumps(name))}</data>'
        yield "</node>\n"
    marks = [f'<data key="reversible">{known}</data>' for known in ("true", "false")]
    for i, j, w, mark in arcs.rows(*marks):
        yield f'<edge source="n{i}" target="n{j}"><data key="weight">{w!r}</data>{mark}</edge>\n'
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


def _read_graphml(file: BinaryIO) -> Graph:
    found = _GraphML(file)
    index = {key: v for v, key in enumerate(found.nodes)}
    source, target, weight, flags = found.arcs
    known = "reversible" in found.keys.values()
    ends = [index[v] for v in source], [index[v] for v in target]
    arcs = Arcs.of(*ends, weight, flags if known else None)
    order = np.argsort([place for _, place in found.nodes.values()]) if found.ours else None
    return Graph([name for name, _ in found.nodes.values()], order, arcs)


_DOT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\0": "\\0", "&": "&amp;"}
_DOT_NODE = re.compile(r'  n(\d+) \[label="((?:[^"\\\n]|\\.)*)", order=(\d+)\];\n')
_DOT_ARC = re.compile(r"  n(\d+) -> n(\d+) \[value=([^\s,]+), label=[^\s,]+(, dir=none)?\];\n")


def _dot_lines(graph: Graph) -> Iterator[str]:
    arcs, escapes = graph.arcs, str.maketrans(_DOT_ESCAPES)
    known = "" if arcs.reversible is None else ", reversible=true"
    yield f"digraph bigdag {{\n  graph [bigdag={_VERSION}{known}];\n"
    for v, (name, place) in enumerate(zip(graph.names, rank_of(graph.order).tolist())):
        yield f'  n{v} [label="{name.translate(escapes)}", order={place}];\n'
    for i, j, w, head in arcs.rows(", dir=none", ""):
        yield f'  n{i} -> n{j} [value={w!r}, label="{w:.3g}"{head}];\n'
    yield "}\n"


def _read_dot(file: BinaryIO) -> Graph:
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
    arcs = Arcs.of(*ends, list(map(float, weight)), flags)
    return Graph(names, np.argsort([int(node[2]) for node in nodes]), arcs)


def _text(lines: Callable[[Graph], Iterator[str]]) -> Callable[[Graph, BinaryIO], None]:
    def write(graph: Graph, file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        text.writelines(lines(graph))
        text.detach()

    return write


class _Format(NamedTuple):
    write: Callable[[Graph, BinaryIO], None]
    read: Callable[[BinaryIO], Graph]
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
