"""GraphML, which most programs for graphs read and write."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, BinaryIO
from xml.parsers.expat import ParserCreate
from xml.sax.saxutils import escape

import numpy as np

from bigdag.engine.order import rank_of
from bigdag.errors import DataError
from bigdag.graph.arcs import (
    Arcs,
    Columns,
    Graph,
    as_column,
    check_digest,
    check_version,
    digest_of,
    is_column_name,
    listed_names,
    order_of_places,
    require_for_text,
    text_of_float,
    version_of,
)

__all__ = ["graphml_lines", "read_graphml"]

# What XML cannot hold even escaped, and what it would change on reading.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GRAPHML_KEYS = {
    "graph": {"bigdag": "int", "about": "string"},
    "node": {"name": "string", "exact_name": "string", "order": "int"},
    "edge": {"weight": "double", "reversible": "boolean"},
}
_NUMBERS = ("boolean", "int", "long", "float", "double")
_MARK = {"node": "node.", "edge": "edge."}  # before the key of a column, which may have any name
# What an attribute's value would lose on reading.
_ATTRIBUTE = {'"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}


def graphml_lines(graph: Graph) -> Iterator[str]:
    """Return the lines of a GraphML file."""
    arcs = graph.arcs
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    # As a comment, for other programs leave it out when they write what was changed in them.
    yield f"<!-- bigdag sha256 {digest_of(graph)} -->\n"
    present = {"reversible": arcs.reversible is not None, "about": bool(graph.about)}
    for owner, keys in _GRAPHML_KEYS.items():
        for key, kind in keys.items():
            if present.get(key, True):
                yield f'<key id="{key}" for="{owner}" attr.name="{key}" attr.type="{kind}"/>\n'
    for owner, columns in (("node", graph.nodes), ("edge", arcs.columns)):
        for name, values in columns.items():
            kind = "boolean" if values.dtype == bool else "double"
            yield (
                f'<key id="{_MARK[owner]}{name}" for="{owner}" attr.name="{name}" '
                f'attr.type="{kind}"/>\n'
            )
    yield f'<graph id="G" edgedefault="directed"><data key="bigdag">{version_of(graph)}</data>\n'
    if graph.about:
        yield f'<data key="about">{escape(json.dumps(dict(graph.about)))}</data>\n'
    shown = [_NOT_XML.sub("\ufffd", name) for name in graph.names]
    ids = [escape(key, _ATTRIBUTE) for key in _distinct(shown)]
    more = _data_elements(graph.nodes, _MARK["node"], len(shown))
    places = rank_of(graph.order).tolist()
    for name, key, text, place, data in zip(graph.names, ids, shown, places, more):
        text = escape(text, {"\r": "&#13;"})
        yield f'<node id="{key}"><data key="name">{text}</data><data key="order">{place}</data>'
        if _NOT_XML.search(name):
            yield f'<data key="exact_name">{escape(json.dumps(name))}</data>'
        yield f"{data}</node>\n"
    marks = [f'<data key="reversible">{known}</data>' for known in ("true", "false")]
    more = _data_elements(arcs.columns, _MARK["edge"], len(arcs.source))
    for (i, j, w, mark), data in zip(arcs.rows(*marks), more):
        yield (
            f'<edge source="{ids[i]}" target="{ids[j]}"><data key="weight">{w!r}</data>{mark}'
            f"{data}</edge>\n"
        )
    yield "</graph>\n</graphml>\n"


def _distinct(names: list[str]) -> list[str]:
    """Return the names, those that are empty or met before with a number behind them.

    Examples
    --------
    >>> _distinct(["a", "", "a", "a 2"])
    ['a', ' 1', 'a 1', 'a 2']
    """
    taken, ids = set(names), []
    seen = {""}
    for name in names:
        key, count = name, 0
        while key in seen or (count and key in taken):
            count += 1
            key = f"{name} {count}"
        seen.add(key)
        ids.append(key)
    return ids


def _data_elements(columns: Columns, mark: str, count: int) -> Iterator[str]:
    """Yield what stands in each of so many nodes or edges of its columns."""
    if not columns:
        yield from [""] * count
        return
    heads = [f'<data key="{mark}{name}">' for name in columns]
    texts = [
        np.where(values, "true", "false").tolist()
        if values.dtype == bool
        else map(text_of_float, values.tolist())
        for values in columns.values()
    ]
    for row in zip(*texts):
        yield "".join(f"{head}{text}</data>" for head, text in zip(heads, row))


class _GraphML:
    """What a GraphML file holds, gathered by expat's callbacks (a tree would take gigabytes)."""

    def __init__(self, file: BinaryIO) -> None:
        self.ours = False
        self.keys: dict[str, tuple[str, str]] = {}  # key id -> what it is for, attribute name
        self.defaults: dict[tuple[str, str], str] = {}  # what for, attribute name -> value
        self.nodes: dict[str, tuple[str, int]] = {}  # node id -> name and place in the order
        self.arcs: tuple[list[str], list[str], list[float], list[bool]] = ([], [], [], [])
        # What else nodes and edges have.
        self.kinds: dict[str, dict[str, str]] = {"node": {}, "edge": {}}  # attribute name -> type
        self.columns: dict[str, dict[str, list[float]]] = {"node": {}, "edge": {}}
        self.about: dict[str, Any] = {}
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
        parser.EntityDeclHandler = _refuse_entities
        parser.ParseFile(file)
        if not self._graphs:
            raise DataError("the file holds no graph.")

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
                raise DataError(f"a {tag} is nested in a {around}; nested graphs cannot be read.")
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
                raise DataError(f"the key {attributes['id']!r} appears more than once.")
            self._key = attributes["id"]
            self.keys[self._key] = owner, name
            kind = attributes.get("attr.type", "")
            if owner in _MARK and kind in _NUMBERS and is_column_name(name):
                self.kinds[owner][name] = kind
                self.columns[owner][name] = []
        elif tag == "graph":
            self._graphs += 1
            if self._graphs > 1:
                raise DataError("the file holds more than one graph.")
            if attributes.get("edgedefault") == "undirected":
                raise DataError("the graph is undirected.")
            self._directed = "true" if attributes.get("edgedefault") == "directed" else ""
        elif tag == "hyperedge":
            raise DataError("the file has edges between more than two nodes.")

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
            check_version(int("".join(self._text)))
            self.ours = True
        elif around == "graph" and name == "about" and self.ours:
            self.about = json.loads("".join(self._text))
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
        self._end_columns("edge")

    def _end_columns(self, owner: str) -> None:
        """Take what the node or edge that ends has of each column."""
        for name, kind in self.kinds[owner].items():
            text = (self._value(owner, name) or "").strip()
            if kind == "boolean" and text:
                if text.lower() not in _XML_BOOLEANS:
                    raise DataError(f"{name!r} must be true or false. Got {text!r:.60}.")
                self.columns[owner][name].append(_XML_BOOLEANS[text.lower()])
            else:
                self.columns[owner][name].append(float(text) if text else math.nan)

    def columns_of(self, owner: str) -> Columns:
        """Return the columns of the nodes or the edges as arrays."""
        return {name: as_column(values) for name, values in self.columns[owner].items()}

    def _end_node(self) -> None:
        key = self._about["id"]
        if key in self.nodes:
            raise DataError(f"the node {key!r} appears more than once.")
        given, exact = self._value("node", "name"), self._value("node", "exact_name")
        name = key if given is None else given
        if self.ours and exact is not None:
            name = listed_names([json.loads(exact)])[0]
        self.nodes[key] = name, int(self._value("node", "order") or -1) if self.ours else 0
        self._end_columns("node")


def _refuse_entities(name: str, *_: object) -> None:
    """Refuse shorthands for text, with which a small file can stand for a huge one."""
    raise DataError(f"the file declares the entity {name!r:.60}. Write out what it stands for.")


_XML_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def read_graphml(file: BinaryIO, memory_limit: float | str | None) -> Graph:
    """Read any directed graph without cycles in GraphML."""
    require_for_text(file, 4, memory_limit)
    found = _GraphML(file)
    index = {key: v for v, key in enumerate(found.nodes)}
    source, target, weight, flags = found.arcs
    for key in {*source, *target} - index.keys():
        raise DataError(f"an edge names the node {key!r}, which does not exist.")
    ends = [index[v] for v in source], [index[v] for v in target]
    known = flags if found.knows("reversible") else None
    arcs = Arcs.of(*ends, weight, known, found.columns_of("edge"))
    places = [place for _, place in found.nodes.values()]
    if found.digest is not None and not found.ours:
        raise DataError("the file is damaged: the version of bigdag's format is missing.")
    order = order_of_places(places) if found.ours else None
    names = [name for name, _ in found.nodes.values()]
    graph = Graph(names, order, arcs, found.columns_of("node"), found.about)
    return check_digest(graph, found.digest)
