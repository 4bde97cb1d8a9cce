"""Tables of arcs, one a row: Parquet and CSV files, of bigdag or of anybody."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from bigdag.errors import DataError, few_names
from bigdag.graph.arcs import (
    VERSION,
    Arcs,
    Graph,
    check_digest,
    check_version,
    digest_of,
    flat_array,
    listed_names,
    require_for_text,
)
from bigdag.resources import require_memory

__all__ = ["csv_lines", "read_csv", "read_parquet", "write_parquet"]

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
    # A row holds an arc, so the nodes without one and the order go into the file's own header.
    about = {"version": VERSION, "names": graph.names, "order": graph.order.tolist()}
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

    columns = pq.read_schema(file).names
    _check_columns(columns)
    # The ends stay numbers into a list of names until it is known what they take as text.
    parquet = pq.ParquetFile(
        file, page_checksum_verification=True, read_dictionary=["source", "target"]
    )
    found = parquet.metadata
    size = sum(found.row_group(k).total_byte_size for k in range(found.num_row_groups))
    remedy = "Use a machine with more memory."
    require_memory(3 * size + 60 * found.num_rows, "its DAG", remedy, memory_limit)
    table = parquet.read([name for name in _COLUMNS if name in columns])
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
    return Graph(names.to_pylist(), order, Arcs.of(source, target, weight, flags))


# ------------------------------------------------------------------ .csv

# The header of a file that bigdag wrote differs from that of anybody's edge list by two quotes,
# which no reader of CSV sees. Such a file ends with an empty line, which readers skip: one that
# does not was cut off. The first node's row below the arcs holds part of the digest, as a number in
# the place of a weight. Where the quotes are about "target", names are written for spreadsheets.
_OURS, _OURS_SAFE = b'"source",target', b'source,"target'
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # how a cell begins that spreadsheets compute


def csv_lines(graph: Graph, safe: bool = False) -> Iterator[str]:
    """Return the lines of a CSV file; `safe` guards names that spreadsheets would compute."""
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
    return int(digest_of(graph)[:13], 16)


def read_csv(file: BinaryIO, memory_limit: float | str | None) -> Graph:
    """Read what `csv_lines` wrote, or anybody's table of arcs."""
    import pyarrow as pa
    from pyarrow import csv

    require_for_text(file, 20, memory_limit)
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
