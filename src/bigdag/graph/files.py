"""DAGs in files: each format is one writer and one reader of a `Graph`, chosen by the suffix.

Nothing is checked here but the file itself; what reads a graph says what to build of it. A file
that `write_graph` wrote and that was cut off or damaged, at whatever byte, is refused or gives the
same graph: each format keeps a digest of the graph, and has an end that can be told. A file without
a digest, of an earlier bigdag or of another program, is read as it is.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar
from xml.parsers.expat import ParserCreate
from xml.sax.saxutils import escape

import numpy as np

from bigdag.engine.order import rank_of
from bigdag.errors import BigdagError, DataError, ParameterError, few_names
from bigdag.writing import Output, whole_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Arcs", "Graph", "check_output", "graph_writer", "read_graph", "write_graph"]

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


def check_output(path: str | os.PathLike[str], force: bool = False) -> Output:
    """Refuse a path now that could not be written after the long work of making the graph.

    Returns
    -------
    Output
        Give its `write` what `graph_writer` returns: then the graph is not lost.

    Examples
    --------
    >>> check_output("dag.txt")
    Traceback (most recent call last):
        ...
    bigdag.errors.ParameterError: The suffix of a DAG's file must be one of .npz, ...
    """
    _format(path)
    return Output(path, force).reserve()


def graph_writer(
    path: str | os.PathLike[str], graph: Graph, safe_csv: bool = False
) -> Callable[[BinaryIO], None]:
    """Return what writes a graph to an open file, in the format that the path's suffix names.

    Examples
    --------
    >>> file = io.BytesIO()
    >>> graph_writer("a.dot", Graph(["a"], np.array([0]), Arcs.of([], [], [])))(file)
    >>> file.getvalue()[:16]
    b'digraph bigdag {'
    """
    write = _format(path).write
    if safe_csv:
        if write is not _write_csv:
            raise ParameterError(
                f"Only a .csv file can be made safe for spreadsheets (safe_csv). Got {path}."
            )
        write = _write_safe_csv
    return lambda file: write(graph, file)


def write_graph(
    path: str | os.PathLike[str], graph: Graph, force: bool = False, safe_csv: bool = False
) -> None:
    """Write a graph to a file, whole or not at all; the order must be known.

    Examples
    --------
    >>> import tempfile
    >>> graph = Graph(["a", "b"], np.array([1, 0]), Arcs.of([1], [0], [2.0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_graph(f"{folder}/a.csv", graph)
    ...     print(Path(folder, "a.csv").read_text().splitlines()[:2])
    ['"source",target,weight', 'b,a,2.0']
    """
    write = graph_writer(path, graph, safe_csv)
    with whole_file(path, force) as file:
        write(file)


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


# ------------------------------------------------------------------ what files hold, checked


def _check_version(found: Any) -> None:
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise DataError(f"the format's version must be a whole number. Got {found!r}.")
    if found > _VERSION:
        raise DataError(
            f"the file has format {found}, and this bigdag reads formats up to {_VERSION}. "
            "Install a newer bigdag."
        )


def _digest(graph: Graph) -> str:
    """Return a SHA-256 of names, order and arcs, in whatever sequence the arcs are."""
    arcs = graph.arcs.pick(np.lexsort((graph.arcs.target, graph.arcs.source)))
    digest = hashlib.sha256(json.dumps(list(graph.names)).encode())
    for part in (graph.order, arcs.source, arcs.target):
        digest.update(np.ascontiguousarray(part, dtype="<i8").tobytes() + b";")
    digest.update(arcs.weight.astype("<f8").tobytes() + b";")
    if arcs.reversible is not None:
        digest.update(arcs.reversible.tobytes())
    return digest.hexdigest()


def _check_digest(graph: Graph, found: Any) -> Graph:
    """Return the graph if it is what the digest is of; a file of an earlier bigdag has none."""
    if found is not None and found != _digest(graph):
        raise DataError(
            "the file is damaged or was changed: what it holds does not agree with its digest. "
            "Write it again."
        )
    return graph


def _array(values: Any, kinds: str, what: str, length: int | None = None) -> NDArray[Any]:
    """Return a flat array whose numbers are of one of the kinds (of numpy), or refuse it."""
    array = np.asarray(values)
    words = {"iu": "whole numbers", "iuf": "numbers", "b": "true and false"}[kinds]
    if array.ndim != 1 or (len(array) and array.dtype.kind not in kinds):
        raise DataError(f"{what} must be a list of {words}.")
    if length is not None and len(array) != length:
        raise DataError(f"{what} must have {length} entries. It has {len(array)}.")
    return array


def _checked_names(names: Any) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError("the names of the nodes must be a list of texts.")
    return names


def _order_of_places(places: Sequence[int]) -> NDArray[np.int64]:
    """Return the nodes in the order that their places in it say."""
    if sorted(places) != list(range(len(places))):
        raise DataError(f"the places in the order must be 0 to {len(places) - 1}, each once.")
    return np.argsort(np.array(places, dtype=np.int64))


# ------------------------------------------------------------------ .npz


def _write_npz(graph: Graph, file: BinaryIO) -> None:
    arcs = graph.arcs
    arrays: dict[str, Any] = {
        # The digest comes first: a damaged list of members loses the last ones.
        "digest": np.frombuffer(bytes.fromhex(_digest(graph)), dtype=np.uint8),
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


_NPZ_MEMBERS = {"digest", "bigdag", "names", "order", "source", "target", "weight", "reversible"}


def _read_npz(file: BinaryIO) -> Graph:
    with np.load(file, allow_pickle=False) as arrays:
        foreign = [name for name in arrays.files if name not in _NPZ_MEMBERS]
        if foreign:
            raise DataError(f"the file has members that no DAG has: {few_names(foreign)}.")
        # Numpy reads no further than an array seems to go, and so not to the checksum after it.
        damaged = arrays.zip.testzip()
        if damaged is not None:
            raise DataError(f"the file is damaged: the checksum of {damaged} is wrong.")
        _check_version(int(_array(arrays["bigdag"].ravel(), "iu", "bigdag", 1)[0]))
        names = _checked_names(json.loads(arrays["names"].tobytes()))
        weight = _array(arrays["weight"], "iuf", "weight")
        m, flags = len(weight), None
        if "reversible" in arrays:
            flags = _array(arrays["reversible"], "b", "reversible", m)
        source, target = (_array(arrays[end], "iu", end, m) for end in ("source", "target"))
        order = _array(arrays["order"], "iu", "order", len(names))
        digest = arrays["digest"].tobytes().hex() if "digest" in arrays else None
        return _check_digest(Graph(names, order, Arcs.of(source, target, weight, flags)), digest)


# ------------------------------------------------------------------ .parquet


# The columns' ids in a file of ours: they show that its header was lost. No other writer sets them.
_FIELD_ID = 716_000


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
    # The digest has an entry of its own: each shows that the other was lost.
    check = {"arcs": len(arcs.source), "digest": _digest(graph)}
    metadata = {"bigdag": json.dumps(about), "bigdag_check": json.dumps(check)}
    schema = pa.schema(
        [
            pa.field(name, column.type, metadata={b"PARQUET:field_id": str(_FIELD_ID + k)})
            for k, (name, column) in enumerate(columns.items())
        ],
        metadata,
    )
    pq.write_table(pa.table(columns, schema), file, write_page_checksum=True)


def _read_parquet(file: BinaryIO) -> Graph:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(file, page_checksum_verification=True).read()
    metadata = table.schema.metadata or {}
    ids = [int((field.metadata or {}).get(b"PARQUET:field_id", -1)) for field in table.schema]
    checked = any(k // 1000 == _FIELD_ID // 1000 for k in ids) or b"bigdag_check" in metadata
    if checked and not (b"bigdag" in metadata and b"bigdag_check" in metadata):
        raise DataError("the file is damaged: the header that bigdag wrote is not there.")
    if b"bigdag" not in metadata:
        return _from_table(table)
    about = json.loads(metadata[b"bigdag"])
    _check_version(about["version"])
    names = pa.array(_checked_names(about["names"]), type=pa.string())
    graph = _from_table(table, names, _array(about["order"], "iu", "order", len(names)))
    check = json.loads(metadata.get(b"bigdag_check", b"{}"))
    if check.get("arcs", len(table)) != len(table):
        raise DataError(f"the file must hold {check['arcs']} arcs, and holds {len(table)}.")
    return _check_digest(graph, check.get("digest"))


def _from_table(table: Any, names: Any = None, order: Any = None) -> Graph:
    """Return the DAG of a pyarrow table of arcs; a row without a target only lists a node."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for column in ("source", "target"):
        if column not in table.column_names:
            raise DataError(
                f"the table has no column {column!r}. It needs source, target and, unless all "
                f"weights are 1, weight; it has {few_names(table.column_names)}."
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
        if pa.types.is_boolean(table["weight"].type):
            raise DataError("the column 'weight' must hold numbers, not true and false.")
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


# ------------------------------------------------------------------ .csv

# The header of a file that bigdag wrote differs from that of anybody's edge list by two quotes,
# which no reader of CSV sees. Such a file ends with an empty line, which readers skip: one that
# does not was cut off. The first node's row below the arcs holds part of the digest, as a number in
# the place of a weight. Where the quotes are about "target", names are written for spreadsheets.
_OURS, _OURS_SAFE = b'"source",target', b'source,"target'
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # how a cell begins that spreadsheets compute


def _csv_lines(graph: Graph, safe: bool = False) -> Iterator[str]:
    arcs = graph.arcs.strongest_first()
    # The empty name is quoted: unquoted, it is a missing one.
    plain = re.compile(r"[^\s\",](?:[^\r\n\",]*[^\s\",])?")
    shown = [f"'{n}" if safe and n.startswith(("'", *_FORMULA)) else n for n in graph.names]
    quoted = (n.replace('"', '""') for n in shown)
    names = [n if plain.fullmatch(n) else f'"{q}"' for n, q in zip(shown, quoted)]
    extra = "" if arcs.reversible is None else ","
    head = (_OURS_SAFE + b'"' if safe else _OURS).decode()
    yield f"{head},weight{extra and ',direction'}\n"
    for i, j, w, mark in arcs.rows(",--", ",->"):
        yield f"{names[i]},{names[j]},{w!r}{mark}\n"
    check = str(_csv_check(graph))
    for v in [*range(len(names)), *graph.order.tolist()]:
        yield f"{names[v]},,{check}{extra}\n"
        check = ""
    yield "\n"


def _csv_check(graph: Graph) -> int:
    """Return as much of the digest as a double can hold."""
    return int(_digest(graph)[:13], 16)


def _read_csv(file: BinaryIO) -> Graph:
    import pyarrow as pa
    from pyarrow import csv

    head = file.read(32).removeprefix(b"\xef\xbb\xbf")
    safe = head.startswith(_OURS_SAFE)
    ours = safe or head.startswith(_OURS)
    file.seek(0)
    if ours:
        _check_csv_end(file)
    types = dict.fromkeys(("source", "target", "direction"), pa.string())
    table = csv.read_csv(
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
    graph = _from_table(table)
    if not ours:
        return graph
    if safe:
        graph = graph._replace(names=[name.removeprefix("'") for name in graph.names])
    if not graph.names:
        return graph
    nodes = table.filter(table["target"].is_null())
    if graph.order is None or nodes["weight"][0].as_py() != _csv_check(graph):
        raise DataError(
            "the file is damaged or was changed: what it holds does not agree with its digest. "
            f"{_CSV_OF_ONES_OWN}"
        )
    return graph


_CSV_OF_ONES_OWN = (
    "If you changed it on purpose, begin it with source,target,weight without quotes: then it is "
    "read as an edge list of your own."
)


def _check_csv_end(file: BinaryIO) -> None:
    """Refuse a file of ours that does not end with an empty line outside of quotes."""
    quotes, tail = 0, b""
    while chunk := file.read(1 << 20):
        quotes += chunk.count(b'"')
        tail = (tail + chunk)[-4:]
    file.seek(0)
    if quotes % 2 or not tail.replace(b"\r\n", b"\n").endswith(b"\n\n"):
        raise DataError(f"the file is cut off: it must end with an empty line. {_CSV_OF_ONES_OWN}")


# ------------------------------------------------------------------ .json


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
    yield json.dumps(content | {"digest": _digest(graph)})


def _read_json(file: BinaryIO) -> Graph:
    def constant(word: str) -> None:
        raise DataError(f"numbers must be finite. Got {word}.")

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise DataError("an entry is there more than once.")
        return found

    content = json.load(file, parse_constant=constant, object_pairs_hook=members)
    if not isinstance(content, dict) or content.get("format") != "bigdag":
        raise DataError('the file is JSON, but without "format": "bigdag".')
    _check_version(content["version"])
    names, rows = _checked_names(content["nodes"]), content["arcs"]
    if not isinstance(rows, list) or not all(isinstance(r, list) and len(r) == 3 for r in rows):
        raise DataError('"arcs" must be a list of arcs [source, target, weight].')
    source, target, weight = zip(*rows) if rows else ((), (), ())
    flags = content.get("reversible")
    arcs = Arcs.of(
        _typed(source, (int,), "the source of an arc"),
        _typed(target, (int,), "the target of an arc"),
        _typed(weight, (int, float), "the weight of an arc"),
        None if flags is None else _array(_typed(flags, (bool,), "reversible"), "b", "reversible"),
    )
    if flags is not None and len(flags) != len(rows):
        raise DataError(f"reversible must have {len(rows)} entries. It has {len(flags)}.")
    order = _array(_typed(content["order"], (int,), "the order"), "iu", "order", len(names))
    return _check_digest(Graph(names, order, arcs), content.get("digest"))


def _typed(values: Any, kinds: tuple[type, ...], what: str) -> Sequence[Any]:
    """Return a sequence if its values are of these types and no other: True is no number."""
    if not isinstance(values, list | tuple):
        raise DataError(f"{what} must be a list.")
    words = {int: "a whole number", float: "a number", bool: "true or false"}[kinds[-1]]
    for value in values:
        if type(value) not in kinds:
            raise DataError(f"{what} must be {words}. Got {value!r:.60}.")
    return values


# ------------------------------------------------------------------ .graphml

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
    # As a comment, for other programs leave it out when they write what was changed in them.
    yield f"<!-- bigdag sha256 {_digest(graph)} -->\n"
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
        self.keys: dict[str, tuple[str, str]] = {}  # key id -> what it is for, attribute name
        self.defaults: dict[tuple[str, str], str] = {}  # what for, attribute name -> value
        self.nodes: dict[str, tuple[str, int]] = {}  # node id -> name and place in the order
        self.arcs: tuple[list[str], list[str], list[float], list[bool]] = ([], [], [], [])
        self._directed = ""  # what edges are unless they say so themselves
        self.digest: str | None = None
        self._graphs = 0
        self._open: list[str] = []  # the tags around what is being read
        self._data: dict[str, str] = {}  # of the node, edge or graph being read
        self._text: list[str] = []
        self._about: dict[str, str] = {}
        self._key = ""
        parser = ParserCreate(namespace_separator="}")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append
        parser.CommentHandler = self._comment
        parser.ParseFile(file)
        if not self._graphs:
            raise DataError("there is no graph in it.")

    def knows(self, attribute: str) -> bool:
        """Tell whether edges have an attribute."""
        return any(name == attribute for owner, name in self.keys.values() if owner != "node")

    def _comment(self, text: str) -> None:
        if text.startswith(" bigdag sha256 "):
            self.digest = text.split()[-1]

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition("}")[2]
        around = self._open[-1] if self._open else ""
        self._open.append(tag)
        if tag in ("data", "default"):
            self._text.clear()
            if tag == "data":
                self._key = attributes["key"]
        elif tag in ("node", "edge"):
            if around != "graph":
                raise DataError(f"a {tag} stands inside of a {around}; only flat graphs are read.")
            self._about = attributes
            self._data.clear()
            if tag == "edge" and attributes.get("directed", self._directed) != "true":
                raise DataError(
                    f"the edge from {attributes['source']!r} to {attributes['target']!r} is "
                    "undirected."
                )
        elif tag == "key":
            owner, name = attributes.get("for", "all"), attributes.get("attr.name", "")
            if attributes["id"] in self.keys or (name and (owner, name) in self.keys.values()):
                raise DataError(f"the key {attributes['id']!r} is there more than once.")
            self._key = attributes["id"]
            self.keys[self._key] = owner, name
        elif tag == "graph":
            self._graphs += 1
            if self._graphs > 1:
                raise DataError("there is more than one graph in it.")
            if attributes.get("edgedefault") == "undirected":
                raise DataError("the graph is undirected.")
            self._directed = "true" if attributes.get("edgedefault") == "directed" else ""
        elif tag == "hyperedge":
            raise DataError("it has edges between more than two nodes.")

    def _end(self, tag: str) -> None:
        tag = tag.rpartition("}")[2]
        self._open.pop()
        if tag == "default":
            if self._open[-1] == "key":
                self.defaults[self.keys[self._key]] = "".join(self._text)
        elif tag == "data":
            self._end_data(self._open[-1])
        elif tag == "edge":
            self._end_edge()
        elif tag == "node":
            self._end_node()

    def _end_data(self, around: str) -> None:
        name = self.keys.get(self._key, ("", ""))[1]
        if around == "graph" and name == "bigdag":
            _check_version(int("".join(self._text)))
            self.ours = True
        elif name and around in ("node", "edge"):
            if name in self._data:
                raise DataError(f"a {around} has more than one {name!r}.")
            self._data[name] = "".join(self._text)

    def _value(self, owner: str, name: str) -> str | None:
        """Return an attribute of the node or edge that ends, or its default if there is one."""
        default = self.defaults.get((owner, name), self.defaults.get(("all", name)))
        return self._data.get(name, default)

    def _end_edge(self) -> None:
        source, target, weight, reversible = self.arcs
        source.append(self._about["source"])
        target.append(self._about["target"])
        weight.append(float(self._value("edge", "weight") or 1.0))
        flag = (self._value("edge", "reversible") or "false").strip().lower()
        if flag not in _XML_BOOLEANS:
            raise DataError(f"'reversible' must be true or false. Got {flag!r:.60}.")
        reversible.append(_XML_BOOLEANS[flag])

    def _end_node(self) -> None:
        key = self._about["id"]
        if key in self.nodes:
            raise DataError(f"the node {key!r} is there more than once.")
        given, exact = self._value("node", "name"), self._value("node", "exact_name")
        name = key if given is None else given
        if self.ours and exact is not None:
            name = _checked_names([json.loads(exact)])[0]
        self.nodes[key] = name, int(self._value("node", "order") or -1) if self.ours else 0


_XML_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def _read_graphml(file: BinaryIO) -> Graph:
    found = _GraphML(file)
    index = {key: v for v, key in enumerate(found.nodes)}
    source, target, weight, flags = found.arcs
    for key in {*source, *target} - index.keys():
        raise DataError(f"an edge names the node {key!r}, which is not there.")
    ends = [index[v] for v in source], [index[v] for v in target]
    arcs = Arcs.of(*ends, weight, flags if found.knows("reversible") else None)
    places = [place for _, place in found.nodes.values()]
    if found.digest is not None and not found.ours:
        raise DataError("the file is damaged: the graph has no version of bigdag's format.")
    order = _order_of_places(places) if found.ours else None
    graph = Graph([name for name, _ in found.nodes.values()], order, arcs)
    return _check_digest(graph, found.digest)


# ------------------------------------------------------------------ .dot

_DOT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\0": "\\0", "&": "&amp;"}
_DOT_NODE = re.compile(r'  n(\d+) \[label="((?:[^"\\\n]|\\.)*)", order=(\d+)\];\n')
_DOT_ARC = re.compile(r"  n(\d+) -> n(\d+) \[value=([^\s,]+), label=[^\s,]+(, dir=none)?\];\n")


def _dot_lines(graph: Graph) -> Iterator[str]:
    arcs, escapes = graph.arcs, str.maketrans(_DOT_ESCAPES)
    known = "" if arcs.reversible is None else ", reversible=true"
    digest = f', digest="{_digest(graph)}"'
    yield f"digraph bigdag {{\n  graph [bigdag={_VERSION}{known}{digest}];\n"
    for v, (name, place) in enumerate(zip(graph.names, rank_of(graph.order).tolist())):
        yield f'  n{v} [label="{name.translate(escapes)}", order={place}];\n'
    for i, j, w, head in arcs.rows(", dir=none", ""):
        yield f'  n{i} -> n{j} [value={w!r}, label="{w:.3g}"{head}];\n'
    yield "}\n"


def _read_dot(file: BinaryIO) -> Graph:
    text = file.read().decode()
    head = re.match(
        r"digraph bigdag \{\n  graph "
        r'\[bigdag=(\d+)(, reversible=true)?(?:, digest="(\w+)")?\];\n',
        text,
    )
    if head is None:
        raise DataError(
            "only DOT files that bigdag wrote can be read. Give other graphs as .graphml or .csv."
        )
    _check_version(int(head[1]))
    # No label holds a newline, so the first line that looks like an arc is one.
    first = re.search(r"^(  n\d+ -> |\}$)", text, re.M)
    cut = first.start() if first else 0
    nodes, edges = _DOT_NODE.findall(text, head.end(), cut), _DOT_ARC.findall(text, cut)
    if not text.endswith("\n}\n") or len(nodes) + len(edges) + 3 != text.count("\n"):
        raise DataError("the file is cut off, or was changed in a way that cannot be read.")
    if [int(node[0]) for node in nodes] != list(range(len(nodes))):
        raise DataError("the nodes must be n0, n1, ... in this sequence.")
    back = {written: plain for plain, written in _DOT_ESCAPES.items()}
    names = [re.sub(r"\\.|&amp;", lambda found: back[found[0]], node[1]) for node in nodes]
    source, target, weight, heads = zip(*edges) if edges else ((), (), (), ())
    ends = list(map(int, source)), list(map(int, target))
    flags = list(map(bool, heads)) if head[2] else None
    arcs = Arcs.of(*ends, list(map(float, weight)), flags)
    order = _order_of_places([int(node[2]) for node in nodes])
    return _check_digest(Graph(names, order, arcs), head[3])


# ------------------------------------------------------------------ the table of formats


def _text(lines: Callable[[Graph], Iterator[str]]) -> Callable[[Graph, BinaryIO], None]:
    def write(graph: Graph, file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        text.writelines(lines(graph))
        text.detach()

    return write


_write_csv = _text(_csv_lines)
_write_safe_csv = _text(lambda graph: _csv_lines(graph, safe=True))


class _Format(NamedTuple):
    write: Callable[[Graph, BinaryIO], None]
    read: Callable[[BinaryIO], Graph]
    expected: str


_TABLE = "the columns source, target and, unless all weights are 1, weight"
_FORMATS = {
    ".npz": _Format(_write_npz, _read_npz, "an .npz file written by DAG.save"),
    ".parquet": _Format(_write_parquet, _read_parquet, f"a Parquet file with {_TABLE}"),
    ".csv": _Format(_write_csv, _read_csv, f"comma-separated text with {_TABLE}"),
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
