"""Bring two graphs, or a graph and a table, to one sequence of variables before they are compared.

Where both sides have names of their own, variables are matched by name; else by place.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csc_array, issparse, sparray

from bigdag.acyclic import rank_of
from bigdag.dag import DAG
from bigdag.data import Dataset, as_dataset
from bigdag.errors import DataError, GraphError

__all__ = [
    "Graph",
    "as_dag",
    "matched",
    "matched_dags",
    "on_columns",
    "samples",
    "seats",
    "weights_of",
]

Graph: TypeAlias = DAG | sparray | ArrayLike


def weights_of(graph: Any) -> csc_array:
    """A matrix of weights as a new csc_array without diagonal, stored zeros and doubles."""
    matrix = graph if issparse(graph) else np.asarray(graph)
    if (
        len(matrix.shape) != 2
        or matrix.shape[0] != matrix.shape[1]
        or matrix.dtype.kind not in "biuf"
    ):
        raise GraphError(
            "The weights must be a square matrix of real numbers. "
            f"Got {matrix.dtype} of shape {matrix.shape}."
        )
    arcs = coo_array(matrix)
    off = arcs.row != arcs.col
    data = arcs.data[off].astype(np.float64)
    if not np.isfinite(data).all():
        raise GraphError("Weights must be finite. The estimate holds NaN or infinity.")
    weights = csc_array((data, (arcs.row[off], arcs.col[off])), shape=arcs.shape)
    weights.eliminate_zeros()
    return weights


def seats(
    names: tuple[str, ...], named: bool, wanted: tuple[str, ...], wanted_named: bool, what: str
) -> NDArray[np.int64]:
    """Place in `names` of each of the `wanted` names; by place where not both have names."""
    _check_size(len(names), len(wanted), what)
    if not (named and wanted_named) or names == wanted:
        return np.arange(len(names))
    seat = {name: place for place, name in enumerate(names)}
    missing = [name for name in wanted if name not in seat]
    if missing:
        raise GraphError(
            f"Variables are matched by name, and the {what} has no {missing[0]!r} "
            f"({len(missing)} of {len(wanted)} names are missing). Rename the variables, or give "
            "matrices without names to match them by place."
        )
    return np.array([seat[name] for name in wanted])


def as_dag(graph: Graph) -> DAG:
    """The graph itself, or the DAG of a matrix of weights; a cycle is a GraphError."""
    return graph if isinstance(graph, DAG) else DAG(graph)


def matched(estimate: Graph, truth: Graph) -> tuple[DAG | csc_array, DAG]:
    """The estimate, its variables in the sequence of the truth's, and the truth as a DAG."""
    true = as_dag(truth)
    if isinstance(estimate, DAG):
        return _reordered(estimate, true.names, true.named, "estimate"), true
    weights = weights_of(estimate)
    _check_size(weights.shape[0], true.n_nodes, "estimate")
    return weights, true


def matched_dags(estimate: Graph, truth: Graph) -> tuple[DAG, DAG]:
    """As `matched`, for an estimate that must be acyclic too."""
    found, true = matched(estimate, truth)
    return as_dag(found), true


def samples(table: Any) -> tuple[Dataset, NDArray[np.float64]]:
    """The table as a Dataset, and its centred samples X, (n, d)."""
    data = as_dataset(table)
    if data.X is None:
        raise DataError("This metric needs samples. Got a covariance matrix alone.")
    return data, data.X


def on_columns(graph: Graph, table: Dataset) -> DAG:
    """An acyclic graph with its variables in the sequence of the columns."""
    dag = graph if isinstance(graph, DAG) else DAG(weights_of(graph))
    return _reordered(dag, table.names, table.named, "graph")


def _reordered(dag: DAG, names: tuple[str, ...], named: bool, what: str) -> DAG:
    """The DAG with its variables in the sequence of `names`."""
    seat = seats(dag.names, dag.named, names, named, what)
    if not np.any(np.diff(seat) < 0):
        return dag
    weights = csc_array(dag.weights[:, seat][seat])
    return DAG(weights, names=names, order=rank_of(seat)[dag.order])


def _check_size(found: int, wanted: int, what: str) -> None:
    if found != wanted:
        raise GraphError(f"The {what} must have {wanted} variables. Got {found} instead.")
