"""What a worker of a Dask cluster does for a fit: it holds rows and tasks, and does their pieces.

:mod:`bigdag.engine.on_dask` is the other side, which sends them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from bigdag.engine.rows_file import Unseen, mapped_rows
from bigdag.errors import BigdagError
from bigdag.resources import blas_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.engine.executor import Arrays, Task
    from bigdag.engine.rows_file import RowsFile

__all__ = ["Lost", "Unseen", "do", "fill", "hold_rows", "hold_task", "holds"]


class Lost(Exception):
    """The rows or the task are not on this worker, or not whole."""


class _Held:
    """What a worker keeps under a key while the caller holds the future of it."""

    def __init__(self, key: str) -> None:
        self.lock = threading.Lock()
        _here[key] = self

    def __reduce__(self) -> Any:
        raise TypeError("what a worker holds stays there")


class _HeldRows(_Held):
    def __init__(
        self, key: str, Z: NDArray[np.float64], sd: NDArray[np.float64], filled: int
    ) -> None:
        from bigdag.engine.gram import Gram

        super().__init__(key)
        self.gram = Gram.of_rows(Z, sd)
        self.filled = filled


class _HeldTask(_Held):
    def __init__(self, key: str, rows: _HeldRows, task: Task) -> None:
        super().__init__(key)
        self.rows, self.task = rows, task
        self.prepared: Any = None
        self.is_prepared = False


_here: WeakValueDictionary[str, Any] = WeakValueDictionary()


def _found(key: str) -> Any:
    held = _here.get(key)
    if held is None:
        raise Lost(key)
    return held


def hold_rows(
    key: str,
    version: str,
    shape: tuple[int, int],
    sd: NDArray[np.float64],
    file: RowsFile | None = None,
) -> _HeldRows:
    """Map rows from a file, or make room for those that `fill` writes.

    Raises
    ------
    BigdagError
        If this is another version of bigdag.
    Unseen
        If the file is not here, or is another one.
    """
    from bigdag import __version__

    if version != __version__:
        raise BigdagError(
            f"It has bigdag {__version__}, and the caller has {version}. Install the same version "
            "everywhere."
        )
    if file is None:
        return _HeldRows(key, np.empty(shape), sd, 0)
    return _HeldRows(key, mapped_rows(file, shape), sd, shape[0])


def holds(key: str) -> bool:
    """Tell whether some rows are still here, as they are while a piece of work uses them."""
    return key in _here


def fill(key: str, first: int, block: NDArray[np.float64]) -> None:
    """Write the next block of rows."""
    held = _found(key)
    with held.lock:
        if held.filled != first:  # it began anew in another process
            raise Lost(key)
        held.gram.Z[first : first + len(block)] = block
        held.filled += len(block)


def hold_task(key: str, rows: str, task: Task) -> _HeldTask:
    """Keep a task on rows that are whole."""
    held = _found(rows)
    if held.filled < held.gram.d:
        raise Lost(rows)
    return _HeldTask(key, held, task)


def do(key: str, first: int, last: int) -> Arrays:
    """Do the piece first..last of a task, on one thread."""
    held = _found(key)
    gram = held.rows.gram
    with blas_threads(1):
        with held.lock:
            if not held.is_prepared:
                held.prepared, held.is_prepared = held.task.prepare(gram), True
        done: Arrays | None = held.task.piece(gram, held.prepared, first, last, None)
        assert done is not None  # nothing stops it here
    return done
