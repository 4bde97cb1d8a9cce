"""The word ``check``: what is odd in a table, and what helps."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from bigdag.cli.group import app
from bigdag.cli.options import (
    AdjustFor,
    Batch,
    Drop,
    Duplicates,
    Header,
    Json,
    Keep,
    Layer,
    MemoryLimit,
    Missing,
    MissingCode,
    RowLabels,
    Table,
    Transform,
)
from bigdag.cli.postponed import postpone_unneeded
from bigdag.cli.preparing import finding_records, wishes_of
from bigdag.cli.reading import choices
from bigdag.cli.reports import print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from bigdag.data.checks import Finding
    from bigdag.data.raw import Raw

# Text takes much memory, so that of a large table it is read only if the answer hangs on it: of so
# many columns it is looked whether one tells apart what seem to be batches, and of a table with so
# few cells of text what these are.
_FEW_TEXTS, _FEW_CELLS = 50, 10**6


@app.command(epilog="Example:  bigdag check genes.csv --drop sample_id")
def check(
    table: Table,
    header: Header = None,
    row_labels: RowLabels = None,
    layer: Layer = None,
    transform: Transform = None,
    missing: Missing = None,
    missing_code: MissingCode = None,
    drop: Drop = None,
    keep: Keep = None,
    batch: Batch = None,
    adjust: AdjustFor = None,
    duplicates: Duplicates = None,
    memory_limit: MemoryLimit = None,
    as_json: Json = False,
) -> None:
    """Look at a table: what is odd in it, what that does to an answer, and which option helps.

    Options that prepare a table for a fit are followed first, and the check is of what they leave.
    """
    postpone_unneeded()
    from bigdag.cli import display
    from bigdag.data.checks import findings
    from bigdag.data.tables import read_raw
    from bigdag.data.wished import as_wished

    wishes = wishes_of(
        transform=transform, missing=missing, drop=drop, keep=keep, adjust=adjust, batch=batch,
        duplicates=duplicates, missing_code=missing_code,
    )  # fmt: skip

    def read(wanted: Collection[str]) -> Raw:
        return read_raw(
            table, *choices(header, row_labels), memory_limit, layer=layer, wanted=wanted
        )

    def look(raw: Raw) -> tuple[Raw, list[Finding]]:
        raw = as_wished(raw, wishes)
        dealt_with = wishes.missing != "error"
        return raw, [f for f in findings(raw) if not (dealt_with and f.finding == "missing values")]

    raw = read(wishes.of_text)
    texts = tuple(raw.text)
    few = len(texts) <= _FEW_TEXTS
    known = bool(wishes.words) or (few and len(texts) * len(raw.X) <= _FEW_CELLS)
    if texts and known:
        raw = _again(read, texts)
    raw, found = look(raw)
    rows_together = any(f.finding in ("batches", "sequence") for f in found)
    if texts and not known and few and rows_together:
        raw, found = look(_again(read, texts))
    report = {
        "table": table,
        "n_samples": len(raw.X),
        "n_columns": len(raw.all_names),
        "findings": finding_records(found),
    }
    if as_json:
        print_json(report)
    else:
        display.show_check(report)


def _again(read: Callable[[Collection[str]], Raw], texts: Collection[str]) -> Raw:
    """Read the table once more, with the values of these columns."""
    with warnings.catch_warnings():  # they were shown
        warnings.simplefilter("ignore")
        return read(texts)
