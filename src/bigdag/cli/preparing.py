"""Options on the table: what is to be done to it before learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bigdag.cli.reading import choices, read
from bigdag.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from bigdag.data.checks import Finding
    from bigdag.data.prepare import Accept, Prepared
    from bigdag.data.wishes import Wishes

__all__ = ["finding_records", "prepared_table", "wishes_of"]

_MOST_NAMES = 100  # of the columns of a finding, in a report


def wishes_of(
    *,
    transform: str | None,
    missing: str | None,
    drop: list[str] | None,
    keep: list[str] | None,
    adjust: list[str] | None,
    batch: str | None,
    duplicates: str | None,
    missing_code: list[str] | None = None,
) -> Wishes:
    """Return what the options ask for, or refuse them, before the table is read."""
    from bigdag.data.wishes import Wishes

    given: dict[str, Any] = {
        "transform": transform, "missing": missing, "batch": batch, "duplicates": duplicates,
        "drop": _names(drop), "keep": _names(keep), "adjust": _names(adjust),
        "missing_code": missing_code,
    }  # fmt: skip
    try:
        return Wishes(**{name: value for name, value in given.items() if value is not None})
    except ParameterError as error:
        text = str(error)
        word = text.split(" ", 1)[0]
        if word in given:
            text = f"--{text.replace(word, word.replace('_', '-'), 1)}"
        raise ParameterError(text) from None


def _names(texts: list[str] | None) -> tuple[str, ...] | None:
    """Return names that are given apart or with commas between.

    Examples
    --------
    >>> _names(["a, b", "c*"])
    ('a', 'b', 'c*')
    """
    if texts is None:
        return None
    return tuple(part.strip() for text in texts for part in text.split(","))


def prepared_table(
    table: Path,
    wishes: Wishes,
    header: bool | None,
    row_labels: bool | None,
    memory_limit: float | str | None,
    covariance: bool,
    n_samples: int | None,
    layer: str | None = None,
    n_jobs: int | None = None,
    accept: Accept | None = None,
    look: bool = True,
) -> Prepared:
    """Read the table that the words name, look at it, and do to it what is asked for.

    `accept` may refuse its columns before any work on them; `look` says whether what is odd in
    them is wanted.
    """
    from bigdag.data import tables
    from bigdag.data.prepare import prepare_dataset

    if covariance or n_samples is not None:
        data = read(table, header, row_labels, memory_limit, covariance, n_samples, layer)
        return prepare_dataset(data, wishes, memory_limit)
    # A learner works on a copy beside the table, so that it has to fit twice.
    return tables.read_prepared(
        table, wishes, *choices(header, row_labels), memory_limit, look=look,
        layer=layer, copies=2, n_jobs=n_jobs, accept=accept,
    )  # fmt: skip


def finding_records(found: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return findings for a report; of many columns only the first are named."""
    return [
        {
            "finding": f.finding,
            "severity": f.severity,
            "n_columns": len(f.columns),
            "columns": list(f.columns[:_MOST_NAMES]),
            "detail": f.detail,
            "effect": f.effect,
            "remedy": f.remedy,
        }
        for f in found
    ]
