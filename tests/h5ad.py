"""Files of anndata, written by the description of their format: its own writer wants pandas 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy import sparse


def write_h5ad(
    path: Path, X: Any, names: Sequence[str], layers: Mapping[str, Any] | None = None
) -> None:
    """Write a table, dense or sparse or None, and layers of it."""
    with h5py.File(path, "w") as file:
        _say(file, "anndata", "0.1.0")
        if X is not None:
            _matrix(file, "X", X)
        group = file.create_group("layers")
        _say(group, "dict", "0.1.0")
        for name, layer in (layers or {}).items():
            _matrix(group, name, layer)
        _frame(file, "var", list(names))
        n = next(iter((layers or {}).values())).shape[0] if X is None else X.shape[0]
        _frame(file, "obs", [f"cell{i}" for i in range(n)])


def _say(item: Any, kind: str, version: str) -> None:
    item.attrs["encoding-type"], item.attrs["encoding-version"] = kind, version


def _frame(file: h5py.File, name: str, index: list[str]) -> None:
    frame = file.create_group(name)
    _say(frame, "dataframe", "0.2.0")
    frame.attrs["_index"], frame.attrs["column-order"] = "_index", np.empty(0, h5py.string_dtype())
    labels = frame.create_dataset("_index", data=index, dtype=h5py.string_dtype())
    _say(labels, "string-array", "0.2.0")


def _matrix(group: h5py.Group, name: str, X: Any) -> None:
    if not sparse.issparse(X):
        _say(group.create_dataset(name, data=X), "array", "0.2.0")
        return
    matrix = group.create_group(name)
    _say(matrix, f"{X.format}_matrix", "0.1.0")
    matrix.attrs["shape"] = X.shape
    for part in ("data", "indices", "indptr"):
        _say(matrix.create_dataset(part, data=getattr(X, part)), "array", "0.2.0")
