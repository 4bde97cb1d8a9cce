"""Formats of bigdag's own, NPZ and JSON, and DOT, which is only written."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np

from bigdag.data.npy import array_header
from bigdag.engine.order import rank_of
from bigdag.errors import DataError, few_names
from bigdag.graph.arcs import (
    Arcs,
    Columns,
    Graph,
    check_digest,
    check_version,
    digest_of,
    flat_array,
    listed_names,
    number_of_json,
    number_to_json,
    require_for_text,
    version_of,
)
from bigdag.resources import require_memory

__all__ = ["dot_lines", "json_lines", "read_json", "read_npz", "write_npz"]

# ------------------------------------------------------------------ .npz


def write_npz(graph: Graph, file: BinaryIO) -> None:
    """Write the graph as numpy arrays."""
    arcs = graph.arcs
    arrays: dict[str, Any] = {
        # The digest comes first: a damaged list of members loses the last ones.
        "digest": np.frombuffer(bytes.fromhex(digest_of(graph)), dtype=np.uint8),
        "bigdag": np.int64(version_of(graph)),
        # JSON as bytes: numpy's own text arrays drop trailing NULs and pad to the longest name.
        "names": np.frombuffer(json.dumps(graph.names).encode(), dtype=np.uint8),
        "order": graph.order,
        "source": arcs.source.astype(np.int32),
        "target": arcs.target.astype(np.int32),
        "weight": arcs.weight,
    }
    if arcs.reversible is not None:
        arrays["reversible"] = arcs.reversible
    arrays |= {f"{_ARC}{name}": values for name, values in arcs.columns.items()}
    arrays |= {f"{_NODE}{name}": values for name, values in graph.nodes.items()}
    if graph.about:
        text = json.dumps(dict(graph.about))
        arrays["about"] = np.frombuffer(text.encode(), dtype=np.uint8)
    np.savez(file, **arrays)


# The members of a file, and which have one entry an arc. Columns of arcs and of nodes stand under
# their names behind a word that says which.
_ARC, _NODE = "arc.", "node."
_OF_ARCS = {"source", "target", "weight", "reversible"}
_NPZ_MEMBERS = {"digest", "bigdag", "names", "order", "about"} | _OF_ARCS


def read_npz(file: BinaryIO, memory_limit: float | str | None) -> Graph:
    """Read what `write_npz` wrote."""
    with np.load(file, allow_pickle=False) as arrays:
        foreign = [
            name
            for name in arrays.files
            if name not in _NPZ_MEMBERS and not name.startswith((_ARC, _NODE))
        ]
        if foreign:
            raise DataError(
                f"the file has members that are not part of a DAG: {few_names(foreign)}."
            )
        _check_members(arrays.zip, memory_limit)
        # Numpy reads no further than an array seems to go, and so not to the checksum after it.
        damaged = arrays.zip.testzip()
        if damaged is not None:
            raise DataError(f"the file is damaged: the checksum of {damaged} is wrong.")
        check_version(int(flat_array(arrays["bigdag"].ravel(), "iu", "bigdag", 1)[0]))
        names = listed_names(json.loads(arrays["names"].tobytes()))
        weight = flat_array(arrays["weight"], "iuf", "weight")
        m, flags = len(weight), None
        if "reversible" in arrays:
            flags = flat_array(arrays["reversible"], "b", "reversible", m)
        source, target = (flat_array(arrays[end], "iu", end, m) for end in ("source", "target"))
        order = flat_array(arrays["order"], "iu", "order", len(names))
        of_arcs, of_nodes = (
            {
                name.removeprefix(kind): flat_array(arrays[name], "bf", name, length)
                for name in arrays.files
                if name.startswith(kind)
            }
            for kind, length in ((_ARC, m), (_NODE, len(names)))
        )
        about = json.loads(arrays["about"].tobytes()) if "about" in arrays else {}
        digest = arrays["digest"].tobytes().hex() if "digest" in arrays else None
        arcs = Arcs.of(source, target, weight, flags, of_arcs)
        return check_digest(Graph(names, order, arcs, of_nodes, about), digest)


def _check_members(archive: zipfile.ZipFile, memory_limit: float | str | None) -> None:
    """Refuse members that do not fit each other or the memory, before one of them is inflated."""
    headers = {}
    for info in archive.infolist():
        with archive.open(info) as stream:
            name = info.filename.removesuffix(".npy")
            headers[name] = array_header(stream, info.file_size, ".npz")
    missing = sorted(_NPZ_MEMBERS - {"digest", "reversible", "about"} - headers.keys())
    if missing:
        raise DataError(f"the file lacks what every DAG has: {few_names(missing)}.")
    counts = {
        name: header.shape
        for name, header in sorted(headers.items())
        if name in _OF_ARCS or name.startswith(_ARC)
    }
    if len(set(counts.values())) > 1:
        raise DataError(f"its arrays must have one entry for each arc. Their shapes are {counts}.")
    names = headers["names"].size
    nodes = int(np.prod(headers["order"].shape))
    if 3 * nodes > names + 3:  # a name takes two quotes and a comma at least
        raise DataError(f"the order has {nodes} entries, more than there are names.")
    # Python's texts take much more than their letters; arcs are sorted and copied.
    rest = sum(header.size for header in headers.values())
    require_memory(
        20 * names + 8 * rest, "its DAG", "Use a machine with more memory.", memory_limit
    )


# ------------------------------------------------------------------ .json


def json_lines(graph: Graph) -> Iterator[str]:
    """Return the text of a JSON file."""
    arcs = graph.arcs
    content: dict[str, Any] = {
        "format": "bigdag",
        "version": version_of(graph),
        "nodes": graph.names,
        "order": graph.order.tolist(),
        "arcs": list(zip(arcs.source.tolist(), arcs.target.tolist(), arcs.weight.tolist())),
    }
    if arcs.reversible is not None:
        content["reversible"] = arcs.reversible.tolist()
    for entry, columns in (("arc_data", arcs.columns), ("node_data", graph.nodes)):
        if columns:
            content[entry] = columns_to_json(columns)
    if graph.about:
        content["about"] = dict(graph.about)
    yield json.dumps(content | {"digest": digest_of(graph)})


def read_json(file: BinaryIO, memory_limit: float | str | None) -> Graph:
    """Read what `json_lines` wrote."""
    require_for_text(file, 10, memory_limit)

    def constant(word: str) -> None:
        raise DataError(f"numbers must be finite. Got {word}.")

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise DataError("an entry appears more than once.")
        return found

    content = json.load(file, parse_constant=constant, object_pairs_hook=members)
    if not isinstance(content, dict) or content.get("format") != "bigdag":
        raise DataError('the file is JSON, but without "format": "bigdag".')
    check_version(content["version"])
    names, rows = listed_names(content["nodes"]), content["arcs"]
    if not isinstance(rows, list) or not all(isinstance(r, list) and len(r) == 3 for r in rows):
        raise DataError('"arcs" must be a list of arcs [source, target, weight].')
    source, target, weight = zip(*rows) if rows else ((), (), ())
    flags = content.get("reversible")
    arcs = Arcs.of(
        _typed(source, (int,), "the source of an arc"),
        _typed(target, (int,), "the target of an arc"),
        _typed(weight, (int, float), "the weight of an arc"),
        None
        if flags is None
        else flat_array(_typed(flags, (bool,), "reversible"), "b", "reversible"),
    )
    if flags is not None and len(flags) != len(rows):
        raise DataError(f"reversible must have {len(rows)} entries. It has {len(flags)}.")
    arcs = arcs._replace(columns=columns_of_json(content.get("arc_data", {}), len(rows)))
    nodes = columns_of_json(content.get("node_data", {}), len(names))
    order = flat_array(_typed(content["order"], (int,), "the order"), "iu", "order", len(names))
    graph = Graph(names, order, arcs, nodes, content.get("about", {}))
    return check_digest(graph, content.get("digest"))


def columns_to_json(columns: Columns) -> dict[str, list[Any]]:
    """Return columns as strict JSON holds them.

    Examples
    --------
    >>> columns_to_json({"p": np.array([0.5, np.nan]), "known": np.array([True, False])})
    {'p': [0.5, None], 'known': [True, False]}
    """
    return {
        name: [number_to_json(value) for value in values.tolist()]
        for name, values in columns.items()
    }


def columns_of_json(content: Any, length: int) -> Columns:
    """Return the columns that `columns_to_json` made this of, or refuse it."""
    if not isinstance(content, dict):
        raise DataError("the columns of numbers must stand under their names.")
    columns = {}
    for name, values in content.items():
        what = f"the values of {name!r:.60}"
        if not isinstance(values, list) or len(values) != length:
            raise DataError(f"{what} must be a list of {length} entries.")
        if values and all(type(value) is bool for value in values):
            columns[name] = np.array(values, dtype=bool)
        else:
            columns[name] = np.array([number_of_json(v, what) for v in values], dtype=np.float64)
    return columns


def _typed(values: Any, kinds: tuple[type, ...], what: str) -> Sequence[Any]:
    """Return a sequence if its values are of these types and no other: True is no number."""
    if not isinstance(values, list | tuple):
        raise DataError(f"{what} must be a list.")
    words = {int: "a whole number", float: "a number", bool: "true or false"}[kinds[-1]]
    for value in values:
        if type(value) not in kinds:
            raise DataError(f"{what} must be {words}. Got {value!r:.60}.")
    return values


# ------------------------------------------------------------------ .dot

_DOT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\0": "\\0", "&": "&amp;"}


def dot_lines(graph: Graph) -> Iterator[str]:
    """Return the lines of a DOT file."""
    arcs, escapes = graph.arcs, str.maketrans(_DOT_ESCAPES)
    known = "" if arcs.reversible is None else ", reversible=true"
    digest = f', digest="{digest_of(graph)}"'
    yield f"digraph bigdag {{\n  graph [bigdag={version_of(graph)}{known}{digest}];\n"
    for v, (name, place) in enumerate(zip(graph.names, rank_of(graph.order).tolist())):
        yield f'  n{v} [label="{name.translate(escapes)}", order={place}];\n'
    for i, j, w, head in arcs.rows(", dir=none", ""):
        yield f'  n{i} -> n{j} [value={w!r}, label="{w:.3g}"{head}];\n'
    yield "}\n"
