"""The parts of a DAG out of what a user or a file gives: checked, copied, or refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from bigdag.data.names import checked_names, default_names
from bigdag.engine.order import rank_of
from bigdag.errors import GraphError
from bigdag.graph.acyclic import topological_order
from bigdag.graph.arcs import as_column, is_column_name

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "as_about",
    "as_arc_data",
    "as_names",
    "as_node_data",
    "as_order",
    "as_reversible",
    "as_weights",
    "at_arcs",
    "targets",
]


def _as_matrix(given: Any, dtype: type) -> sparse.csc_array:
    """Return an own copy with sorted indices, repeats summed and no stored zeros."""
    matrix = sparse.csc_array(given, dtype=dtype, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def as_weights(weights: Any) -> sparse.csc_array:
    """Return finite weights (d, d) without stored zeros, in a copy of their own."""
    if not sparse.issparse(weights):
        weights = np.asarray(weights)
    shape = weights.shape
    if len(shape) != 2 or shape[0] != shape[1]:
        raise GraphError(f"The weights must be a square matrix. Got the shape {shape}.")
    if weights.dtype.kind not in "biuf":
        raise GraphError(f"The weights must be real numbers. Got {weights.dtype}.")
    matrix = _as_matrix(weights, np.float64)
    if not np.isfinite(matrix.data).all():
        bad = int((~np.isfinite(matrix.data)).sum())
        raise GraphError(f"The weights must be finite. Got {bad} that are NaN or infinite.")
    return matrix


def as_names(names: Iterable[str] | None, d: int) -> tuple[str, ...]:
    """Return d different names; x0, x1, ... where none are given."""
    if names is None:
        return default_names(d)
    texts = names if isinstance(names, str) else map(str, names)
    return checked_names(texts, d, "node", GraphError)


def as_order(
    order: ArrayLike | None, W: sparse.csc_array, names: Sequence[str]
) -> NDArray[np.int64]:
    """Return an order that lists causes first, the given one or any; refuse cycles, by name."""
    d = len(names)
    loops = np.flatnonzero(W.diagonal())
    if len(loops):
        raise GraphError(
            f"The diagonal of the weights must be zero: {names[loops[0]]!r} is its own cause."
        )
    if order is not None:
        given = np.array(order)
        if d and (given.dtype.kind not in "iu" or not np.array_equal(np.sort(given), range(d))):
            raise GraphError(f"The order must hold each of the indices 0 to {d - 1} once.")
        given = given.astype(np.int64)
        rank = rank_of(given)
        target = targets(W)
        backward = np.flatnonzero(rank[W.indices] > rank[target])
        if not len(backward):
            return given
    found = topological_order(W)
    if found is None:
        raise GraphError(f"The graph has a cycle: {_cycle(W, names)}.")
    if order is not None:
        i, j = W.indices[backward[0]], target[backward[0]]
        raise GraphError(
            f"The order must list causes first, but {names[j]!r} stands before its cause "
            f"{names[i]!r} ({len(backward)} such arcs)."
        )
    return found.astype(np.int64)


def targets(W: sparse.csc_array) -> NDArray[np.int64]:
    """Return the column of each stored value, shape (m,)."""
    return np.repeat(np.arange(W.shape[1]), np.diff(W.indptr))


def _cycle(W: sparse.csc_array, names: Sequence[str]) -> str:
    """Return one cycle as text: in a strong component every node has a parent inside it."""
    _, part = connected_components(W, directed=True, connection="strong")
    v = int(np.argmax(np.bincount(part)[part] > 1))
    step: dict[int, int] = {}
    while v not in step:
        parents = W.indices[W.indptr[v] : W.indptr[v + 1]]
        step[v] = v = int(parents[part[parents] == part[v]][0])
    walk = [v]
    while (v := step[v]) != walk[0]:
        walk.append(v)
    loop = [names[u] for u in [walk[0], *walk[::-1]]]
    if len(loop) > 9:
        loop = [*loop[:4], f"... {len(loop) - 8} more ...", *loop[-4:]]
    return " -> ".join(loop)


def as_reversible(reversible: Any, W: sparse.csc_array) -> sparse.csc_array:
    """Return which of the arcs may run either way (d, d)."""
    if not sparse.issparse(reversible):
        reversible = np.asarray(reversible)
    if reversible.shape != W.shape:
        raise GraphError(
            f"`reversible` must have the shape of the weights, {W.shape}. Got {reversible.shape}."
        )
    flags = _as_matrix(reversible, bool)
    if (flags > W.astype(bool)).nnz:
        raise GraphError("`reversible` must be False where there is no arc.")
    return flags


def as_arc_data(given: Mapping[str, Any], W: sparse.csc_array) -> dict[str, NDArray[Any]]:
    """Return columns with an entry for each arc, from such or from matrices (d, d)."""
    columns = {}
    for name, values in given.items():
        if sparse.issparse(values) or np.ndim(values) == 2:
            values = at_arcs(values, W, f"{name!r} of the arcs")
        columns[name] = _as_column(name, values, W.nnz, "arc")
    return columns


def at_arcs(matrix: Any, W: sparse.csc_array, what: str) -> NDArray[Any]:
    """Return what a dense or sparse matrix (d, d) holds at each of the arcs (m,)."""
    if not sparse.issparse(matrix):
        matrix = np.asarray(matrix)
    if matrix.shape != W.shape:
        raise GraphError(f"{what} must have the shape {W.shape}. Got {matrix.shape}.")
    if not sparse.issparse(matrix):
        return np.asarray(matrix[W.indices, targets(W)])
    found = sparse.csc_array(matrix)
    found.sum_duplicates()  # its indices are now sorted, as those of the weights are
    d, values = W.shape[0], np.zeros(W.nnz, dtype=found.dtype)
    places, wanted = (targets(M) * d + M.indices for M in (found, W))
    slot = np.searchsorted(places, wanted)
    there = slot < len(places)
    there[there] = places[slot[there]] == wanted[there]
    values[there] = found.data[slot[there]]
    return values


def as_node_data(given: Mapping[str, Any], d: int) -> dict[str, NDArray[Any]]:
    """Return columns with an entry for each variable."""
    return {name: _as_column(name, values, d, "node") for name, values in given.items()}


def _as_column(name: Any, values: Any, length: int, owner: str) -> NDArray[Any]:
    """Return an own, read-only column of arcs or nodes, or refuse it."""
    if not isinstance(name, str) or not is_column_name(name):
        raise GraphError(
            f"The data of {owner}s must have names of letters, digits and underscores that begin "
            "with a letter, other than those in use, such as 'weight' and 'order'. Got "
            f"{name!r:.60}."
        )
    array = np.array(values)
    if array.dtype.kind not in "biuf" and array.size:
        raise GraphError(
            f"{name!r} of the {owner}s must hold numbers or truth values. Got {array.dtype}."
        )
    if array.shape != (length,):
        raise GraphError(
            f"{name!r} must have one entry for each of the {length} {owner}s. Got the shape "
            f"{array.shape}."
        )
    column = as_column(array)
    column.flags.writeable = False
    return column


def as_about(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what JSON gives back of it; numbers that are not finite are null there."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray | np.generic):
            value = value.tolist()
        if isinstance(value, Mapping):
            return {key: plain(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [plain(part) for part in value]
        if isinstance(value, float) and not np.isfinite(value):
            return None
        return str(value) if isinstance(value, os.PathLike) else value

    if not isinstance(about, Mapping):
        raise GraphError(f"`about` must be a dictionary. Got {type(about).__name__}.")
    try:
        return dict(json.loads(json.dumps(plain(about))))
    except (TypeError, ValueError) as error:
        raise GraphError(f"`about` must be what JSON can hold: {error!s:.200}.") from error
