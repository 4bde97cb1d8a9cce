"""The word ``check``: what is odd in a table, and what helps."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from bigdag.cli.group import app
from bigdag.cli.options import Header, Json, Layer, MemoryLimit, RowLabels, Table
from bigdag.cli.postponed import postpone_unneeded
from bigdag.cli.preparing import finding_records
from bigdag.cli.reading import choices
from bigdag.cli.reports import print_json

if TYPE_CHECKING:
    from collections.abc import Collection

    from bigdag.data.checks import Finding
    from bigdag.data.raw import Raw

# Of so many columns of text it is looked whether one tells apart what seem to be batches: the file
# is read once more for them, as text takes much memory.
_FEW_TEXTS = 50


@app.command(epilog="Example:  bigdag check genes.csv")
def check(
    table: Table,
    header: Header = None,
    row_labels: RowLabels = None,
    layer: Layer = None,
    memory_limit: MemoryLimit = None,
    as_json: Json = False,
) -> None:
    """Look at a table: what is odd in it, what that does to an answer, and which option helps."""
    postpone_unneeded()
    from bigdag.cli import display
    from bigdag.data.checks import findings
    from bigdag.data.tables import read_raw

    def look(wanted: Collection[str]) -> tuple[Raw, list[Finding]]:
        raw = read_raw(
            table, *choices(header, row_labels), memory_limit, layer=layer, wanted=wanted
        )
        return raw, findings(raw)

    raw, found = look(())
    if any(f.finding == "batches" for f in found) and 0 < len(raw.text) <= _FEW_TEXTS:
        texts = tuple(raw.text)
        del raw
        with warnings.catch_warnings():  # they were shown
            warnings.simplefilter("ignore")
            raw, found = look(texts)
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
