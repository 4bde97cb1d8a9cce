"""Bring two graphs, or a graph and a table, to one sequence of variables before they are compared.

Names are names: where both sides have the same set of them, variables are matched by name, in
whatever sequence and however plain the names are. A matrix has no names and is matched by place; so
is a side whose names were made up (``x0, x1, ...``), where the other has other names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csc_array, issparse, sparray

from bigdag.data.dataset import Dataset, as_dataset
from bigdag.errors import DataError, GraphError, ParameterError, close_names, few_names
from bigdag.graph.dag import DAG

__all__ = [
    "Graph",
    "as_dag",
    "matched",
    "matched_dags",
    "on_columns",
    "places",
    "require_columns",
    "samples",
    "weights_of",
    "weights_on_columns",
    "with_variables",
]

_SHOWN = 5  # names that are not known, in a message

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


def places(
    names: tuple[str, ...], named: bool, wanted: tuple[str, ...], wanted_named: bool, what: str
) -> NDArray[np.int64]:
    """Place in `names` of each of the `wanted` names.

    By name where both are the same set; by place where they are not and one of the two has no
    names of its own.

    Examples
    --------
    >>> places(("x2", "x0", "x1"), True, ("x0", "x1", "x2"), False, "estimate")
    array([1, 2, 0])
    >>> places(("x0", "x1"), False, ("rain", "river"), True, "estimate")
    array([0, 1])
    """
    more = _difference(names, wanted) if named and wanted_named else ""
    _check_size(len(names), len(wanted), what, more)
    if names == wanted:
        return np.arange(len(names))
    place = {name: i for i, name in enumerate(names)}
    missing = [name for name in wanted if name not in place]
    if not missing:
        return np.array([place[name] for name in wanted], dtype=np.int64)
    if not (named and wanted_named):
        return np.arange(len(names))
    raise GraphError(
        f"Variables are matched by name, and the {what} has no {few_names(missing)} "
        f"({len(missing)} of {len(wanted)} names are missing). Rename the variables, or give "
        "matrices without names to match them by place."
    )


def as_dag(graph: Graph) -> DAG:
    """The graph itself, or the DAG of a matrix of weights; a cycle is a GraphError."""
    return graph if isinstance(graph, DAG) else DAG(graph)


def matched(estimate: Graph, truth: Graph) -> tuple[DAG | csc_array, DAG]:
    """The estimate, its variables in the sequence of the truth's, and the truth as a DAG."""
    true = as_dag(truth)
    if isinstance(estimate, DAG):
        if isinstance(truth, DAG):
            return _reordered(estimate, true.names, true.named, "estimate"), true
        _check_size(estimate.n_nodes, true.n_nodes, "estimate")  # a matrix: by place
        return estimate, true
    weights = weights_of(estimate)
    _check_size(weights.shape[0], true.n_nodes, "estimate")
    return weights, true


def matched_dags(estimate: Graph, truth: Graph) -> tuple[DAG, DAG]:
    """As `matched`, for an estimate that must be acyclic too."""
    found, true = matched(estimate, truth)
    return as_dag(found), true


def with_variables(dag: DAG, names: Sequence[str], what: str) -> DAG:
    """Return a DAG that names only variables with arcs, with all variables that there are.

    Raises
    ------
    GraphError
        If it has a variable that is not among the names; the message has the nearest ones.

    Examples
    --------
    >>> arcs = DAG([[0, 3.0], [0, 0]], ["rain", "river"])
    >>> whole = with_variables(arcs, ["river", "sea", "rain"], "truth")
    >>> whole.names, whole.parents("river")
    (('river', 'sea', 'rain'), ['rain'])
    """
    place = {name: v for v, name in enumerate(names)}
    unknown = [name for name in dag.names if name not in place]
    if unknown:
        near = {name: close_names(name, names, 1) for name in unknown[:_SHOWN]}
        hints = [f"{name!r} (did you mean {found[0]!r}?)" for name, found in near.items() if found]
        told = hints + [repr(name) for name, found in near.items() if not found]
        more = f" and {len(unknown) - _SHOWN:,} more" if len(unknown) > _SHOWN else ""
        raise GraphError(
            f"{len(unknown):,} of the {dag.n_nodes:,} variables of the {what} "
            f"{'are' if len(unknown) > 1 else 'is'} not in the DAG: {', '.join(told)}{more}. "
            "Correct these names. To compare DAGs of different variables: bigdag compare, "
            "metrics.compare."
        )
    at = np.array([place[name] for name in dag.names], dtype=np.int64)
    arcs, d = dag.weights.tocoo(), len(names)
    weights = csc_array((arcs.data, (at[arcs.row], at[arcs.col])), shape=(d, d))
    return DAG(weights, names)


def samples(table: Any) -> tuple[Dataset, NDArray[np.float64]]:
    """The table as a Dataset, and its centred samples X, (n, d)."""
    data = as_dataset(table)
    if data.X is None:
        raise DataError("This metric needs samples. Got a covariance matrix alone.")
    return data, data.X


def on_columns(graph: Graph, table: Dataset) -> DAG:
    """An acyclic graph with its variables in the sequence of the columns."""
    if isinstance(graph, DAG):
        require_columns(graph, table)
        return _reordered(graph, table.names, table.named, "graph")
    dag = DAG(weights_of(graph))
    _check_size(dag.n_nodes, table.n_features, "graph")
    return dag


def require_columns(dag: DAG, table: Dataset, what: str = "The table") -> None:
    """Refuse a table whose columns are not the variables of a DAG, where both have names.

    Parameters
    ----------
    dag : DAG
        The graph.
    table : Dataset
        The columns.
    what : str, default="The table"
        The table, as the subject of the sentence.

    Raises
    ------
    GraphError
        If it lacks columns, or has others.

    Examples
    --------
    >>> table = as_dataset([[1.0], [2.0]], names=["rain"])
    >>> require_columns(DAG([[0, 3.0], [0, 0]], ["rain", "river"]), table)
    Traceback (most recent call last):
        ...
    bigdag.errors.GraphError: The table lacks the column 'river' of the DAG. ...
    """
    if not (dag.named and table.named):
        return
    here, wanted = set(table.names), set(dag.names)
    lacking = [name for name in dag.names if name not in here]
    more = [name for name in table.names if name not in wanted]
    if lacking:
        plural = "s" if len(lacking) > 1 else ""
        others = f" Columns that the DAG does not have: {few_names(more)}." if more else ""
        raise GraphError(
            f"{what} lacks the column{plural} {few_names(lacking)} of the DAG. Give a table with "
            f"a column for each variable of the DAG, of the same name.{others}"
        )
    if more:
        plural = "s" if len(more) > 1 else ""
        raise GraphError(
            f"{what} has the column{plural} {few_names(more)}, which the DAG does not have. Leave "
            f"{'them' if plural else 'it'} out of the table."
        )


def weights_on_columns(graph: Any, table: Dataset, what: str) -> csc_array:
    """The weights of a graph, cycles allowed, in the sequence of the columns; a new matrix.

    Parameters
    ----------
    graph : DAG, sparse or dense matrix
        A DAG's variables are matched as everywhere, those of a matrix by place.
    table : Dataset
        The columns.
    what : str
        The parameter that the graph was given as, for messages.

    Raises
    ------
    ParameterError
        If it is no graph.
    GraphError
        If it has other variables than the table, or weights that are not finite.

    Examples
    --------
    >>> table = as_dataset([[1.0, 2.0], [2.0, 5.0]], names=["river", "rain"])
    >>> weights_on_columns(DAG([[0, 3.0], [0, 0]], ["rain", "river"]), table, "start").toarray()
    array([[0., 0.],
           [3., 0.]])
    """
    try:
        weights = csc_array(
            graph.weights if isinstance(graph, DAG) else graph, dtype=np.float64, copy=True
        )
    except (TypeError, ValueError):
        raise ParameterError(
            f"{what} must be a DAG or a square matrix of weights. "
            f"Got {type(graph).__name__} instead."
        ) from None
    d = table.n_features
    if weights.shape != (d, d) or not np.isfinite(weights.data).all():
        raise GraphError(
            f"{what} must be a finite matrix of shape ({d}, {d}). "
            f"Got shape {weights.shape} instead."
        )
    if isinstance(graph, DAG):
        place = places(graph.names, graph.named, table.names, table.named, what)
        if np.any(np.diff(place) < 0):
            weights = csc_array(weights[:, place][place])
    return weights


def _reordered(dag: DAG, names: tuple[str, ...], named: bool, what: str) -> DAG:
    """The DAG with its variables in the sequence of `names`."""
    place = places(dag.names, dag.named, names, named, what)
    return dag._part(place) if np.any(np.diff(place) < 0) else dag


def _difference(names: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    """Say which names one side lacks, where there are not as many."""
    if len(names) == len(wanted):
        return ""
    here, there = set(names), set(wanted)
    lacking = [name for name in wanted if name not in here]
    more = [name for name in names if name not in there]
    said = f" It has no {few_names(lacking)}." if lacking else ""
    said += f" It alone has {few_names(more)}." if more else ""
    return f"{said} To compare DAGs of different variables: bigdag compare, metrics.compare."


def _check_size(found: int, wanted: int, what: str, difference: str = "") -> None:
    if found != wanted:
        raise GraphError(
            f"The {what} must have {wanted} variables. Got {found} instead.{difference}"
        )
