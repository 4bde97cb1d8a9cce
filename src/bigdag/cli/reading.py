"""Tables that the words of the command name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bigdag.errors import ParameterError

if TYPE_CHECKING:
    from pathlib import Path

    from bigdag.data import tables
    from bigdag.data.dataset import Dataset

__all__ = ["choices", "read"]


def choices(header: bool | None, row_labels: bool | None) -> tuple[tables.Choice, tables.Choice]:
    """Return what the words say of the first line and the first column."""
    return "auto" if header is None else header, "auto" if row_labels is None else row_labels


def read(
    table: Path,
    header: bool | None,
    row_labels: bool | None = None,
    memory_limit: float | str | None = None,
    covariance: bool = False,
    n_samples: int | None = None,
    layer: str | None = None,
    copies: int = 1,
    n_jobs: int | None = None,
) -> Dataset:
    """Read the table, or the covariance matrix, that the words name."""
    from bigdag.data import tables

    first_line, labels = choices(header, row_labels)
    if covariance != (n_samples is not None):
        raise ParameterError(
            "--covariance needs --n-samples, the number of samples the matrix was computed from."
            if covariance
            else "--n-samples goes with --covariance; the rows of a table are counted."
        )
    if n_samples is not None and n_samples < 2:
        raise ParameterError(f"--n-samples must be at least 2. Got {n_samples} instead.")
    if n_samples is not None:
        if row_labels is not None:
            raise ParameterError(
                "--row-labels and --no-row-labels go with a table of samples; a covariance matrix "
                "has a row for each column, which tells."
            )
        if layer is not None:
            raise ParameterError("--layer goes with a table of samples, not with --covariance.")
        return tables.read_covariance(table, n_samples, first_line, memory_limit)
    return tables.read_table(
        table, first_line, labels, memory_limit, layer=layer, copies=copies, n_jobs=n_jobs
    )
