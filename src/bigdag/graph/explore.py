"""The page to explore a graph: what it is told of a DAG.

The page is in `bigdag.page`; its scripts work on arrays. Here a DAG becomes such arrays: arcs with
the strongest first, so that an arc's number is its rank; places of all variables for an overview;
and how it was learnt, as its `about` says.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from bigdag import __version__
from bigdag.errors import DataWarning, ParameterError
from bigdag.graph.overview import overview
from bigdag.page.document import document, packed
from bigdag.writing import Output, whole_file

if TYPE_CHECKING:
    from bigdag.graph.dag import DAG

__all__ = ["check_page", "explore_page", "write_page"]

_LARGE = 100_000_000  # letters from which on there is a warning
_SCRIPTS = (
    "graph.js",
    "elements.js",
    "picture.js",
    "overview.js",
    "table.js",
    "learnt.js",
    "variable.js",
    "explore.js",
)


def explore_page(dag: DAG, title: str | None = None) -> str:
    """Return a page on which a DAG can be explored; see :meth:`bigdag.DAG.to_html`.

    Examples
    --------
    >>> from bigdag import DAG
    >>> page = explore_page(DAG([[0, 2.0], [0, 0]], names=["rain", "river"]))
    >>> page.startswith("<!doctype html>"), "rain" in page
    (True, True)
    """
    arcs = dag._arcs().strongest_first()
    at = overview(dag)
    strength = next((n for n in ("probability", "evidence") if n in arcs.columns), "weight")
    data: dict[str, Any] = {
        "names": list(dag.names),
        "order": packed(dag.order),
        "source": packed(arcs.source),
        "target": packed(arcs.target),
        "weight": packed(arcs.weight),
        "undirected": None if arcs.reversible is None else packed(arcs.reversible),
        "arc_data": {name: packed(values) for name, values in arcs.columns.items()},
        "node_data": {name: packed(values) for name, values in dag.node_data.items()},
        "at": packed(np.round(at * 16).astype(np.int32).ravel()),  # in sixteenths of a unit
        "ranked_by": strength,
        "about": dag.about,
        "bigdag": __version__,
    }
    if title is None:
        title = f"A graph of {dag.n_nodes:,} variable{'' if dag.n_nodes == 1 else 's'}"
    texts = {"title": title, "generator": f"bigdag {__version__}"}
    page = document("explore", _SCRIPTS, texts, data)
    if len(page) > _LARGE:
        warnings.warn(
            f"The page of {dag.n_arcs:,} arcs has {len(page) / 1e6:,.0f} MB, which a browser may "
            "take long to open. Leave weak arcs out first: --threshold, or DAG.threshold.",
            DataWarning,
            stacklevel=3,
        )
    return page


def check_page(path: str | os.PathLike[str], force: bool = False) -> Output:
    """Refuse a path now that no page could be written to later.

    Examples
    --------
    >>> check_page("dag.txt")
    Traceback (most recent call last):
        ...
    bigdag.errors.ParameterError: The name of a page must end in .html or .htm. Got 'dag.txt'.
    """
    output = Output(path, force)
    _check_suffix(output)
    return output.reserve()


def write_page(dag: DAG, path: str | os.PathLike[str], title: str | None, force: bool) -> None:
    """Write the page of a DAG to a file, whole or not at all."""
    _check_suffix(Output(path))
    with whole_file(path, force) as file:
        file.write(explore_page(dag, title).encode())


def _check_suffix(output: Output) -> None:
    if output.path.suffix.lower() not in (".html", ".htm"):
        raise ParameterError(
            f"The name of a page must end in .html or .htm. Got {str(output.path)!r}."
        )
