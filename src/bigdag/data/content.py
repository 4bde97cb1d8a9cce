"""What a file holds before it is checked, and what its readers share: blocks, memory, errors."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bigdag.data.cells import refuse_columns
from bigdag.data.convert import Rows, require_table
from bigdag.data.names import checked_names, default_names
from bigdag.errors import DataError

__all__ = [
    "BLOCK",
    "COLUMN",
    "POOL",
    "Choice",
    "Content",
    "TextColumn",
    "changed",
    "new_matrix",
    "require_table",
]

Choice = bool | Literal["auto"]

BLOCK = 2**24  # bytes of a file that are worked on at a time
COLUMN = 2**12  # bytes that a reader of Arrow takes for each column
POOL = pa.system_memory_pool()  # others keep for themselves what was given back


class Content(NamedTuple):
    """What a file holds, not checked yet."""

    X: npt.NDArray[np.float64]  # (n, d), Fortran order, own memory; columns of text are not filled
    names: list[str]  # as in the file; "" where it has none
    places: list[int]  # of the columns in the file
    named: bool  # False where the file has no names at all
    text: dict[int, TextColumn]  # the columns that hold text or other things that are no numbers
    notes: list[str]  # what the user should know of
    lines: bool = False  # whether it is a text file
    labels: list[str] | None = None  # of the rows, as text, where a covariance matrix may have them
    labels_inside: bool = True  # whether they are the first column; else an index beside the table
    decoded: int = 0  # cells that were words for missing values, by wish
    rows: Rows | None = None  # what does not fit into the memory; X then has no rows

    def without(self, columns: list[int]) -> Content:
        """Leave columns out; X changes."""
        kept = [j for j in range(len(self.names)) if j not in columns]
        X = self.X
        for new, old in enumerate(kept):
            if new != old:  # in place: a copy would take the memory twice
                X[:, new] = X[:, old]
        return self._replace(
            X=X[:, : len(kept)],
            names=[self.names[j] for j in kept],
            places=[self.places[j] for j in kept],
            text={new: self.text[old] for new, old in enumerate(kept) if old in self.text},
            rows=None if self.rows is None else self.rows.without(columns),
        )

    def matrix(self) -> npt.NDArray[np.float64]:
        """Return X, or refuse it where a column holds text."""
        if self.text:
            names, _ = self.final_names(check=False)
            refuse_columns(
                sorted(self.text), names, lambda j: self.text[j].example,
                counts=lambda j: (self.text[j].texts, self.text[j].cells),
            )  # fmt: skip
        return self.X

    def final_names(self, check: bool = True) -> tuple[tuple[str, ...], bool]:
        """Return the names that the Dataset gets, and whether they are the file's own."""
        if not self.named:
            return default_names(len(self.names)), False
        names = tuple(name or f"x{j}" for name, j in zip(self.names, self.places))
        return checked_names(names, len(names)) if check else names, True


class TextColumn:
    """What is known of a column that does not hold numbers."""

    def __init__(
        self,
        example: tuple[int, Any],
        texts: int = 1,
        cells: int = 1,
        values: npt.NDArray[np.object_] | None = None,
    ) -> None:
        self.example = example  # a row, from 1, and its value
        self.values = values  # all of them, where they were asked for
        self.texts, self.cells = texts, cells  # cells that are no numbers, and that are not missing


def new_matrix(n: int, d: int) -> npt.NDArray[np.float64]:
    """Return an empty matrix (n, d) in Fortran order."""
    try:
        return np.empty((n, d), order="F")
    except ValueError:  # NumPy's word for more bytes than there are addresses
        raise DataError(
            f"a table of {n:,} rows and {d:,} columns cannot fit into any memory; "
            "the file is damaged."
        ) from None


def changed() -> DataError:
    """Return the error for a file that has another size than it had a moment ago."""
    return DataError("the file has changed while it was read. Read it again when it is complete.")
