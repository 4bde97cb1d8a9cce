"""Tables of arcs, one a row: Parquet and CSV files, of bigdag or of anybody."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bigdag.engine.order import rank_of
from bigdag.errors import DataError, DataWarning, few_names
from bigdag.graph.arcs import (
    Arcs,
    Columns,
    Graph,
    as_column,
    check_digest,
    check_version,
    digest_of,
    flat_array,
    is_column_name,
    listed_names,
    order_of_places,
    require_for_text,
    text_of_float,
    version_of,
)
from bigdag.graph.formats import columns_of_json, columns_to_json
from bigdag.resources import require_memory

__all__ = [
    "csv_lines",
    "csv_node_lines",
    "nodes_file",
    "read_csv",
    "read_parquet",
    "write_parquet",
]

# The columns' ids in a file of ours: they show that its header was lost. No other writer sets them.
_FIELD_ID = 716_000
_COLUMNS = ("source", "target", "weight", "direction")


def write_parquet(graph: Graph, file: BinaryIO) -> None:
    """Write one row an arc, the strongest first, and the rest into the header."""
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
    columns |= {name: pa.array(values) for name, values in arcs.columns.items()}
    # A row holds an arc, so the nodes without one and the order go into the file's own header.
    about = {"version": version_of(graph), "names": graph.names, "order": graph.order.tolist()}
    if graph.nodes:
        about["node_data"] = columns_to_json(graph.nodes)
    if graph.about:
        about["about"] = dict(graph.about)
    # The digest has an entry of its own: each shows that the other was lost.
    check = {"arcs": len(arcs.source), "digest": digest_of(graph)}
    metadata = {"bigdag": json.dumps(about), "bigdag_check": json.dumps(check)}
    schema = pa.schema(
        [
            pa.field(name, column.type, metadata={b"PARQUET:field_id": str(_FIELD_ID + k)})
            for k, (name, column) in enumerate(columns.items())
        ],
        metadata,
    )
    pq.write_table(pa.table(columns, schema), file, write_page_checksum=True)


def read_parquet(file: BinaryIO, memory_limit: float | str | None) -> Graph:
    """Read what `write_parquet` wrote, or anybody's table of arcs."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(file)
    _check_columns(schema.names)
    columns = [*_COLUMNS, *_number_columns(schema)]
    # The ends stay numbers into a list of names until it is known what they take as text.
    parquet = pq.ParquetFile(
        file, page_checksum_verification=True, read_dictionary=["source", "target"]
    )
    found = parquet.metadata
    size = sum(found.row_group(k).total_byte_size for k in range(found.num_row_groups))
    remedy = "Use a machine with more memory."
    require_memory(3 * size + 60 * found.num_rows, "its DAG", remedy, memory_limit)
    table = parquet.read([name for name in columns if name in schema.names])
    text = sum(_text_size(table[end]) for end in ("source", "target"))
    require_memory(2**25 + 4 * text + 100 * len(table), "its DAG", remedy, memory_limit)
    metadata = table.schema.metadata or {}
    ids = [int((field.metadata or {}).get(b"PARQUET:field_id", -1)) for field in table.schema]
    checked = any(k // 1000 == _FIELD_ID // 1000 for k in ids) or b"bigdag_check" in metadata
    if checked and not (b"bigdag" in metadata and b"bigdag_check" in metadata):
        raise DataError(
            "the file is damaged: the header that bigdag wrote is missing. Write it again."
        )
    if b"bigdag" not in metadata:
        return _from_table(table)
    about = json.loads(metadata[b"bigdag"])
    check_version(about["version"])
    names = pa.array(listed_names(about["names"]), type=pa.string())
    graph = _from_table(table, names, flat_array(about["order"], "iu", "order", len(names)))
    graph = graph._replace(
        nodes=columns_of_json(about.get("node_data", {}), len(names)), about=about.get("about", {})
    )
    check = json.loads(metadata.get(b"bigdag_check", b"{}"))
    if check.get("arcs", len(table)) != len(table):
        raise DataError(
            f"the file must hold {check['arcs']} arcs, and holds {len(table)}; it is damaged."
        )
    return check_digest(graph, check.get("digest"))


def _check_columns(found: list[str]) -> None:
    for column in ("source", "target"):
        if column not in found:
            raise DataError(
                f"the table has no column {column!r}. It needs source, target and, unless all "
                f"weights are 1, weight; it has {few_names(found)}."
            )


def _number_columns(schema: Any) -> list[str]:
    """Return the columns of numbers or truth values beside those that every table of arcs has.

    In a text file without rows, a column has the type null.
    """
    import pyarrow as pa

    kinds = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_null)
    return [
        field.name
        for field in schema
        if is_column_name(field.name) and any(is_kind(field.type) for is_kind in kinds)
    ]


def _column(values: Any) -> Any:
    """Return a column of pyarrow as an array; an entry that is missing is NaN."""
    import pyarrow as pa

    if values.null_count or not pa.types.is_boolean(values.type):
        values = values.cast(pa.float64())
    return as_column(values.to_numpy())


def _text_size(column: Any) -> int:
    """Return the bytes of a column of names when each is written out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    total = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary)
        total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return total


def _from_table(table: Any, names: Any = None, order: Any = None) -> Graph:
    """Return the DAG of a pyarrow table of arcs; a row without a target only lists a node."""
    import pyarrow as pa
    import pyarrow.compute as pc

    _check_columns(table.column_names)
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
    columns = {name: _column(arcs[name]) for name in _number_columns(table.schema)}
    return Graph(names.to_pylist(), order, Arcs.of(source, target, weight, flags, columns))


# ------------------------------------------------------------------ .csv

# A CSV file holds one row an arc and nothing else. What a row of an arc cannot hold stands in a
# second file beside it: the nodes by index, each with its place in the order and what else is known
# of it, and in the first row the number of arcs and the digest, and how the graph was learnt. In a
# file whose names are written for spreadsheets the last of the usual columns is quoted, which no
# reader of CSV sees.
_SAFE, _SAFE_NODES = b'source,target,"weight"', b'name,"place"'
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # how a cell begins that spreadsheets compute
# The empty name is quoted: unquoted, it is a missing one.
_PLAIN = re.compile(r"[^\s\",](?:[^\r\n\",]*[^\s\",])?")


def nodes_file(path: str | os.PathLike[str]) -> Path:
    """Return where the nodes of a CSV file of arcs stand.

    Examples
    --------
    >>> nodes_file("out/dag.csv").name
    'dag.nodes.csv'
    """
    return Path(path).with_suffix(f".nodes{Path(path).suffix}")


def csv_lines(graph: Graph, safe: bool = False) -> Iterator[str]:
    """Return the lines of a CSV file; `safe` guards names that spreadsheets would compute."""
    arcs, names = graph.arcs.strongest_first(), _cells(graph.names, safe)
    direction = "" if arcs.reversible is None else ",direction"
    head = _SAFE.decode() if safe else "source,target,weight"
    yield ",".join([f"{head}{direction}", *arcs.columns]) + "\n"
    for (i, j, w, mark), more in zip(
        arcs.rows(",--", ",->"), _rows(arcs.columns, len(arcs.source))
    ):
        yield f"{names[i]},{names[j]},{w!r}{mark}{more}\n"


def csv_node_lines(graph: Graph, safe: bool = False) -> Iterator[str]:
    """Return the lines of the file of nodes beside a CSV file."""
    names, places = _cells(graph.names, safe), rank_of(graph.order).tolist()
    head = _SAFE_NODES.decode() if safe else "name,place"
    check, empty = f",{len(graph.arcs.source)}:{digest_of(graph)}", ","
    # Without nodes there is no row for the check; a header that lacks it then says so.
    last = ["check"] if names else []
    if graph.about and names:
        last.append("about")
        check, empty = f"{check},{_cells([json.dumps(dict(graph.about))], False)[0]}", ",,"
    yield ",".join([head, *graph.nodes, *last]) + "\n"
    for name, place, more in zip(names, places, _rows(graph.nodes, len(names))):
        yield f"{name},{place}{more}{check}\n"
        check = empty


def _cells(names: Sequence[str], safe: bool) -> list[str]:
    """Return names as cells of a CSV file."""
    shown = [f"'{n}" if safe and n.startswith(("'", *_FORMULA)) else n for n in names]
    quoted = (n.replace('"', '""') for n in shown)
    return [n if _PLAIN.fullmatch(n) else f'"{q}"' for n, q in zip(shown, quoted)]


def _rows(columns: Columns, count: int) -> Iterator[str]:
    """Yield the cells of each row behind the usual ones."""
    if not columns:
        yield from [""] * count
        return

    def texts(values: Any) -> list[str]:
        if values.dtype == bool:
            return np.where(values, "true", "false").tolist()
        return [text_of_float(value) for value in values.tolist()]

    for row in zip(*map(texts, columns.values())):
        yield "".join(f",{text}" for text in row)


def read_csv(file: BinaryIO, memory_limit: float | str | None) -> Graph:
    """Read what `csv_lines` wrote, with the nodes beside it, or anybody's table of arcs."""
    require_for_text(file, 20, memory_limit)
    head = file.read(32).removeprefix(b"\xef\xbb\xbf")
    file.seek(0)
    if head.startswith((_FORMER, _FORMER_SAFE)):
        return _read_former_csv(file, head.startswith(_FORMER_SAFE))
    beside = nodes_file(file.name)
    try:
        nodes = open(beside, "rb")  # noqa: SIM115
    except FileNotFoundError:
        graph = _from_table(_csv_table(file, _ARC_TYPES))
        if graph.order is None:
            warnings.warn(
                f"{file.name} is read as a list of arcs: there is no {beside.name} beside it, so "
                "variables without arcs are not known, nor whether arcs are missing.",
                DataWarning,
                stacklevel=4,  # the caller of DAG.load
            )
        if head.startswith(_SAFE):
            graph = graph._replace(names=[name.removeprefix("'") for name in graph.names])
        return graph
    with nodes:
        require_for_text(nodes, 20, memory_limit)
        try:
            return _with_nodes(file, nodes)
        except MemoryError:
            raise
        except Exception as error:  # a broken file breaks the parser in ways of its own
            raise DataError(
                f"it does not agree with {beside.name} beside it ({str(error).rstrip('.'):.200}): "
                "one of the two files was cut off, damaged or changed. If the arcs are as they "
                f"should be, remove {beside.name}: then they are read as an edge list of your own."
            ) from error


def _with_nodes(file: BinaryIO, nodes: BinaryIO) -> Graph:
    """Return the graph of a file of arcs and of the file of nodes beside it."""
    import pyarrow as pa

    content = nodes.read()
    table = _csv_table(pa.BufferReader(content), _NODE_TYPES)
    for column in ("name", "place"):
        if column not in table.column_names:
            raise DataError(f"the table of nodes has no column {column!r}")
    if ("check" in table.column_names) != bool(len(table)) or not content.endswith(b"\n"):
        raise DataError("the table of nodes is cut off")
    names = table["name"].combine_chunks()
    order = order_of_places(table["place"].to_pylist())
    graph = _from_table(_csv_table(file, _ARC_TYPES), names, order)
    columns = {name: _column(table[name]) for name in _number_columns(table.schema)}
    if content.startswith(_SAFE_NODES):
        graph = graph._replace(names=[name.removeprefix("'") for name in graph.names])
    about = {}
    if len(table) and "about" in table.column_names:
        about = json.loads(table["about"][0].as_py() or "{}")
    graph = graph._replace(names=listed_names(graph.names), nodes=columns, about=about)
    if len(table):
        count, _, digest = (table["check"][0].as_py() or "").partition(":")
        if count != str(len(graph.arcs.source)):
            raise DataError(f"there must be {count} arcs, and there are {len(graph.arcs.source)}")
        if digest != digest_of(graph):
            raise DataError("the digest is of other content")
    return graph


_ARC_TYPES = {"source": str, "target": str, "direction": str, "weight": float}
_NODE_TYPES = {"name": str, "place": int, "check": str, "about": str}


def _csv_table(file: Any, types: dict[str, type]) -> Any:
    """Return the pyarrow table in a CSV file, with columns of these names of these types."""
    import pyarrow as pa
    from pyarrow import csv

    known = {str: pa.string(), float: pa.float64(), int: pa.int64()}
    return csv.read_csv(
        file,
        csv.ReadOptions(block_size=1 << 24),
        csv.ParseOptions(newlines_in_values=True),
        csv.ConvertOptions(
            column_types={name: known[kind] for name, kind in types.items()},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


# ------------------------------------------------------------------ .csv of an earlier bigdag

# Its header differs from that of anybody's edge list by two quotes. Below the arcs every node
# stands twice, by index and in causal order, without a target. The first of these rows holds part
# of the digest, as a number in the place of a weight, and an empty line ends the file. Where the
# quotes are about "target", names are written for spreadsheets.
_FORMER, _FORMER_SAFE = b'"source",target', b'source,"target'
_CSV_OF_ONES_OWN = (
    "If you changed it on purpose, begin it with source,target,weight without quotes: then it is "
    "read as an edge list of your own."
)


def _read_former_csv(file: BinaryIO, safe: bool) -> Graph:
    """Read a file in which nodes stand below the arcs."""
    _check_csv_end(file)
    table = _csv_table(file, _ARC_TYPES)
    graph = _from_table(table)
    if safe:
        graph = graph._replace(names=[name.removeprefix("'") for name in graph.names])
    if not graph.names:
        return graph
    nodes = table.filter(table["target"].is_null())
    digest = int(digest_of(graph)[:13], 16) if graph.order is not None else None
    if digest is None or nodes["weight"][0].as_py() != digest:
        raise DataError(
            "the file is damaged or was changed: what it holds does not agree with its digest. "
            f"{_CSV_OF_ONES_OWN}"
        )
    return graph


def _check_csv_end(file: BinaryIO) -> None:
    """Refuse a file of ours that does not end with an empty line outside of quotes."""
    quotes, tail = 0, b""
    while chunk := file.read(1 << 20):
        quotes += chunk.count(b'"')
        tail = (tail + chunk)[-4:]
    file.seek(0)
    if quotes % 2 or not tail.replace(b"\r\n", b"\n").endswith(b"\n\n"):
        raise DataError(f"the file is cut off: it must end with an empty line. {_CSV_OF_ONES_OWN}")
