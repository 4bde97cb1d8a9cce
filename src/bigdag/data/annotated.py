"""AnnData: objects, and the files .h5ad, whose X or one of whose layers is the table.

Only the table and the names of its variables are read from a file, by the package `anndata`, which
is imported where it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from bigdag.data import content
from bigdag.data.content import Content
from bigdag.data.convert import FloatArray, Rows, matrix_of, rows_of
from bigdag.data.moments import is_one_pass
from bigdag.data.names import default_names
from bigdag.errors import DataError, ParameterError, missing_extra, nearest
from bigdag.resources import require_memory

__all__ = ["annotated_values", "is_annotated", "read_h5ad"]


def is_annotated(table: Any) -> bool:
    """Whether an object is an AnnData, or its ``raw``.

    Examples
    --------
    >>> is_annotated([[1.0, 2.0]])
    False
    """
    # Without an import: who has such an object has imported anndata.
    packages = {cls.__module__.partition(".")[0] for cls in type(table).__mro__}
    return "anndata" in packages and hasattr(table, "var_names") and hasattr(table, "X")


def annotated_values(table: Any, layer: str | None) -> tuple[Any, tuple[str, ...] | None]:
    """Return the array of an AnnData, dense or sparse, and the names of its columns."""
    values = table.X if layer is None else _chosen(getattr(table, "layers", {}), layer)
    if values is None:
        raise DataError(
            "this AnnData has no X. Name one of its layers with layer=..."
            if getattr(table, "layers", None)
            else "this AnnData has no X, and no layers either."
        )
    if hasattr(values, "to_memory"):  # a sparse array in the file of a backed AnnData
        values = values.to_memory()
    return values, _names([str(name) for name in table.var_names])


def _names(found: list[str]) -> tuple[str, ...] | None:
    """Return names of variables; None where anndata has only counted them."""
    return None if found == [str(j) for j in range(len(found))] else tuple(found)


def _chosen(layers: Mapping[str, Any], layer: str) -> Any:
    known = list(layers)
    if layer not in known:
        raise ParameterError(
            f"There is no layer {nearest(layer, known, 'There are')}"
            if known
            else f"There is no layer {layer!r}: the table has no layers, only X."
        )
    return layers[layer]


def read_h5ad(
    path: Path, memory_limit: float | str | None, layer: str | None = None, copies: int = 0
) -> Content:
    """Read X, or a layer, of a file of anndata; or its rows where it does not fit so many times."""
    try:
        import h5py

        try:
            from anndata.io import read_elem
        except ImportError:  # before version 0.11
            from anndata.experimental import read_elem
    except ImportError:
        raise missing_extra("anndata", "anndata", "A .h5ad file") from None
    with h5py.File(path, "r") as file:
        if "var" not in file:
            raise DataError("the file holds no variables (var); it is not one of anndata.")
        if layer is None and "X" not in file:
            known = ", ".join(file.get("layers", ()))
            raise DataError(
                "the file holds no X." + (f" Name one of its layers: {known}." if known else "")
            )
        item = file["X"] if layer is None else _chosen(file.get("layers", {}), layer)
        variables = getattr(_element(read_elem, file["var"]), "index", None)
        if variables is None:
            raise DataError("its variables (var) are no table. Write it again with anndata 0.7 on.")
        names = [str(name) for name in variables]
        if not isinstance(item, h5py.Dataset):
            size = sum(part.nbytes for part in item.values() if isinstance(part, h5py.Dataset))
            remedy = "Leave out rows or columns, or allow more memory."
            require_memory(2 * size, "its sparse table", remedy, memory_limit)
            values = _element(read_elem, item)
            if not sparse.issparse(values):
                raise DataError(f"what it holds is no matrix but {type(values).__name__!r}.")
            rows = rows_of(values)
        else:
            values, rows = item, _rows_in_file(path, item)
        if rows is not None and len(names) != rows.d:
            raise DataError(
                f"the file has {len(names)} variables, but {rows.d} columns; it is damaged."
            )
        if (
            copies
            and rows is not None
            and is_one_pass(rows.n, rows.d, memory_limit, rows.overhead, copies)
        ):
            return _content(np.empty((0, rows.d)), names, rows)
        if isinstance(values, h5py.Dataset):
            X = _dense(values, rows, memory_limit)
        else:
            X, _ = matrix_of(values, memory_limit)
    return _content(X, names)


def _element(read_elem: Callable[[Any], Any], item: Any) -> Any:
    """Read a part of a file of anndata."""
    try:
        return read_elem(item)
    except (MemoryError, OSError):
        raise
    except Exception as err:  # readers of many kinds raise many kinds
        reason = " ".join(str(err).split())[:300].rstrip(".")
        raise DataError(f"its part {item.name!r} cannot be read by anndata: {reason}.") from err


def _content(X: FloatArray, names: list[str], rows: Rows | None = None) -> Content:
    d = len(names)
    given = _names(names)
    return Content(
        X, list(given or default_names(d)), list(range(d)), given is not None, {}, [], rows=rows
    )


def _dense(item: Any, rows: Rows | None, memory_limit: float | str | None) -> FloatArray:
    if rows is None:
        return matrix_of(item[()], memory_limit)[0]  # refused there: no numbers, or no two axes
    step = max(1, content.BLOCK // (8 * max(1, rows.d)))
    content.require_table(rows.n, rows.d, 3 * 8 * step * rows.d, memory_limit)
    X = content.new_matrix(rows.n, rows.d)
    for start in range(0, rows.n, step):
        stop = min(start + step, rows.n)
        X[start:stop] = item[start:stop]
    return X


def _rows_in_file(path: Path, item: Any) -> Rows | None:
    """Return the rows of an array in a file; None if it is no table of numbers."""
    if item.ndim != 2 or item.dtype.kind not in "biuf":
        return None
    name, shape = item.name, item.shape
    file: list[Any] = []  # opened by the first block, so that no table in memory holds a file open

    def fill(start: int, stop: int, out: FloatArray) -> None:
        import h5py

        if not file:
            file.append(h5py.File(path, "r"))
        again = file[0][name]
        if again.shape != shape:
            raise content.changed()
        out[...] = again[start:stop]
        if stop == shape[0]:
            file.pop().close()

    chunk = item.chunks[0] if item.chunks else 1
    return Rows(shape[0], shape[1], fill, overhead=3 * 8 * chunk * shape[1])
