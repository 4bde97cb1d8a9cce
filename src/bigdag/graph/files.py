"""DAGs in files: each format is a writer and a reader of a `Graph`, chosen by the suffix.

Nothing is checked here but the file itself; what reads a graph says what to build of it. A file
that `write_graph` wrote and that was cut off or damaged, at whatever byte, is refused or gives the
same graph: each format keeps a digest of the graph, and has an end that can be checked; that of a
CSV file is in the file of its nodes beside it. What a file says of its size is compared with the
memory before it is read. A file without a digest, of an earlier bigdag or of another program, is
read as it is.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from bigdag.errors import BigdagError, DataError, MemoryLimitError, ParameterError
from bigdag.graph.arcs import Arcs, Graph
from bigdag.graph.edge_lists import (
    csv_lines,
    csv_node_lines,
    nodes_file,
    read_csv,
    read_parquet,
    write_parquet,
)
from bigdag.graph.formats import dot_lines, json_lines, read_json, read_npz, write_npz
from bigdag.graph.graphml import graphml_lines, read_graphml
from bigdag.writing import Output, whole_files

__all__ = [
    "Arcs",
    "Graph",
    "check_output",
    "graph_writer",
    "nodes_file",
    "read_graph",
    "write_graph",
]

_T = TypeVar("_T")


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
    beside = nodes_file if _format(path).write_nodes else None
    return Output(path, force, beside=beside).reserve()


def graph_writer(
    path: str | os.PathLike[str], graph: Graph, safe_csv: bool = False
) -> Callable[..., None]:
    """Return what writes a graph to an open file, in the format that the path's suffix names.

    For a ``.csv`` it takes a second file, for the nodes.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> file = io.BytesIO()
    >>> graph_writer("a.dot", Graph(["a"], np.array([0]), Arcs.of([], [], [])))(file)
    >>> file.getvalue()[:16]
    b'digraph bigdag {'
    """
    write, write_nodes = _format(path).write, _format(path).write_nodes
    if write_nodes is None:
        if safe_csv:
            raise ParameterError(
                f"Only a .csv file can be made safe for spreadsheets (safe_csv). Got {path}."
            )
        return lambda file: write(graph, file)

    def write_both(file: BinaryIO, nodes: BinaryIO) -> None:
        _text(partial(csv_lines, safe=safe_csv))(graph, file)
        _text(partial(csv_node_lines, safe=safe_csv))(graph, nodes)

    return write_both


def write_graph(
    path: str | os.PathLike[str], graph: Graph, force: bool = False, safe_csv: bool = False
) -> None:
    """Write a graph to a file, whole or not at all; the order must be known.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> graph = Graph(["a", "b"], np.array([1, 0]), Arcs.of([1], [0], [2.0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_graph(f"{folder}/a.csv", graph)
    ...     print(Path(folder, "a.csv").read_text().splitlines()[:2])
    ['source,target,weight', 'b,a,2.0']
    """
    write = graph_writer(path, graph, safe_csv)
    paths = [path, nodes_file(path)] if _format(path).write_nodes else [path]
    with whole_files(paths, force) as files:
        write(*files)


def read_graph(
    path: str | os.PathLike[str],
    build: Callable[[Graph], _T],
    memory_limit: float | str | None = None,
) -> _T:
    """Return what `build` makes of the graph in a file; its errors too then name the file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> graph = Graph(["a", "b"], np.array([1, 0]), Arcs.of([1], [0], [2.0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_graph(f"{folder}/a.npz", graph)
    ...     read_graph(f"{folder}/a.npz", lambda graph: graph.names)
    ['a', 'b']
    """
    kind, path = _format(path), Path(path)
    if kind.read is None:
        readable = ", ".join(suffix for suffix, kind in _FORMATS.items() if kind.read)
        raise ParameterError(
            f"{path} cannot be read: {path.suffix} files are only written, {kind.expected}. "
            f"A DAG can be read from {readable}. Save it in one of these formats too."
        )
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise DataError(f"Could not read {path}: {error.strerror or error}.") from error
    with file:
        try:
            return build(kind.read(file, memory_limit))
        except BigdagError as error:
            raise type(error)(f"{path}: {error}") from error
        except MemoryError as error:
            raise MemoryLimitError(
                f"{path}: the memory is used up while the file is read. "
                "Use a machine with more memory."
            ) from error
        except Exception as error:  # a broken file breaks each parser in ways of its own
            raise DataError(
                f"{path} holds no DAG that can be read: {error!s:.300}. Expected {kind.expected}."
            ) from error


# ------------------------------------------------------------------ the table of formats


def _text(lines: Callable[[Graph], Iterator[str]]) -> Callable[[Graph, BinaryIO], None]:
    def write(graph: Graph, file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        text.writelines(lines(graph))
        text.detach()

    return write


class _Format(NamedTuple):
    write: Callable[[Graph, BinaryIO], None]
    read: Callable[[BinaryIO, float | str | None], Graph] | None  # None: only written
    expected: str
    write_nodes: Callable[[Graph, BinaryIO], None] | None = None  # to a second file


_TABLE = "the columns source, target and, unless all weights are 1, weight"
_FORMATS = {
    ".npz": _Format(write_npz, read_npz, "an .npz file written by DAG.save"),
    ".parquet": _Format(write_parquet, read_parquet, f"a Parquet file with {_TABLE}"),
    ".csv": _Format(
        _text(csv_lines), read_csv, f"comma-separated text with {_TABLE}", _text(csv_node_lines)
    ),
    ".graphml": _Format(_text(graphml_lines), read_graphml, "a directed graph in GraphML"),
    ".dot": _Format(_text(dot_lines), None, "for Graphviz"),
    ".json": _Format(_text(json_lines), read_json, "a .json file written by DAG.save"),
}


def _format(path: str | os.PathLike[str]) -> _Format:
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise ParameterError(
            f"The suffix of a DAG's file must be one of {', '.join(_FORMATS)}. Got {str(path)!r}."
        )
    return _FORMATS[suffix]
