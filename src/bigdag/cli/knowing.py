"""Options on what is known beforehand, and the word ``knowledge check``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bigdag.cli.options import Header, Json, Layer, MemoryLimit, RowLabels, file_argument, option
from bigdag.cli.postponed import postpone_unneeded
from bigdag.cli.reading import choices
from bigdag.cli.reports import print_json
from bigdag.errors import ParameterError

if TYPE_CHECKING:
    from bigdag.knowledge.known import Knowledge

__all__ = [
    "Forbid",
    "IgnoreUnmatched",
    "KnowledgeFile",
    "Radius",
    "Regulators",
    "Require",
    "Roots",
    "Sinks",
    "Target",
    "Tiers",
    "app",
    "knowledge_of",
]

_KNOWN = "What is known beforehand"
_LIST = "NAME,...|FILE"

KnowledgeFile = Annotated[
    Path | None,
    option(
        "--knowledge",
        exists=True,
        dir_okay=False,
        metavar="TOML",
        help="All that is known in one file; its keys are the parameters of bigdag.Knowledge.",
        panel=_KNOWN,
    ),
]
Regulators = Annotated[
    str | None,
    option(metavar=_LIST, help="The only variables that may have effects; globs.", panel=_KNOWN),
]
Tiers = Annotated[
    Path | None,
    option(
        exists=True,
        dir_okay=False,
        metavar="CSV",
        help="Columns name and tier: nothing causes what is in an earlier tier.",
        panel=_KNOWN,
    ),
]
Forbid = Annotated[
    Path | None,
    option(
        exists=True,
        dir_okay=False,
        metavar="CSV",
        help="Columns source and target: arcs that are not there.",
        panel=_KNOWN,
    ),
]
Require = Annotated[
    Path | None,
    option(
        exists=True,
        dir_okay=False,
        metavar="CSV",
        help="Columns source and target: arcs that are there.",
        panel=_KNOWN,
    ),
]
Roots = Annotated[
    str | None, option(metavar=_LIST, help="Variables that have no causes; globs.", panel=_KNOWN)
]
Sinks = Annotated[
    str | None, option(metavar=_LIST, help="Variables that have no effects; globs.", panel=_KNOWN)
]
Target = Annotated[
    str | None,
    option(
        metavar="NAME",
        help="Learn only what is around this variable: for one of very many columns.",
        panel=_KNOWN,
    ),
]
Radius = Annotated[int | None, option(help="Arcs around --target; 2 by default.", panel=_KNOWN)]
IgnoreUnmatched = Annotated[
    bool,
    option("--ignore-unmatched", help="Pass over known names that are not in TABLE.", panel=_KNOWN),
]


def knowledge_of(
    file: Path | None,
    regulators: str | None,
    tiers: Path | None,
    forbid: Path | None,
    require: Path | None,
    roots: str | None,
    sinks: str | None,
    ignore_unmatched: bool,
) -> Knowledge | None:
    """Return what the options say is known, or refuse it, before the table is read."""
    options: dict[str, str | Path | None] = {
        "regulators": regulators, "temporal_order": tiers, "forbidden_edges": forbid,
        "required_edges": require, "root_nodes": roots, "sink_nodes": sinks,
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value is not None}
    if file is None and not given:
        if ignore_unmatched:
            raise ParameterError("--ignore-unmatched goes with --knowledge, --regulators and such.")
        return None
    from bigdag.knowledge.files import read_knowledge, read_part
    from bigdag.knowledge.known import Knowledge

    known: dict[str, Any] = {} if file is None else read_knowledge(file).given()
    for name, value in given.items():
        if name in known:
            raise ParameterError(f"{file} says {name} already. Give it there or as an option.")
        is_list = isinstance(value, str) and not Path(value).is_file()
        known[name] = _names(name, str(value)) if is_list else read_part(name, value)
    if ignore_unmatched:
        known["unmatched"] = "ignore"
    return Knowledge(**known)


def _names(field: str, text: str) -> list[str]:
    """Return names with commas between; what looks like a file that is not there is refused."""
    if "," not in text and Path(text).suffix in (".txt", ".csv", ".tsv"):
        raise ParameterError(f"{field}: there is no file {text}. Give its path, or names.")
    return [part.strip() for part in text.split(",")]


# ------------------------------------------------------------------ bigdag knowledge

app = typer.Typer(
    name="knowledge", no_args_is_help=True, help="What is known beforehand: see what it means."
)


@app.callback()
def _knowledge() -> None:
    """See what is known beforehand."""


@app.command(epilog="Example:  bigdag knowledge check k.toml --table genes.csv")
def check(
    file: Annotated[Path, file_argument("TOML", "Keys are the parameters of bigdag.Knowledge.")],
    table: Annotated[
        Path | None, option(exists=True, dir_okay=False, help="The table it is about.")
    ] = None,
    header: Header = None,
    row_labels: RowLabels = None,
    layer: Layer = None,
    memory_limit: MemoryLimit = None,
    ignore_unmatched: IgnoreUnmatched = False,
    as_json: Json = False,
) -> None:
    """Say what knowledge means for a table: how many arcs stay possible, what contradicts."""
    postpone_unneeded()
    from bigdag.cli import display
    from bigdag.knowledge.files import read_knowledge
    from bigdag.knowledge.known import Knowledge

    known = read_knowledge(file)
    if ignore_unmatched:
        known = Knowledge(**known.given() | {"unmatched": "ignore"})
    report: dict[str, Any] = {"knowledge": file, "table": table, **known.to_dict()}
    if table is not None:
        report = {"knowledge": file, "table": table}
        report |= _meaning(known, table, header, row_labels, layer, memory_limit)
    if as_json:
        print_json(report)
    else:
        display.show_knowledge(report)


def _meaning(
    known: Knowledge,
    table: Path,
    header: bool | None,
    row_labels: bool | None,
    layer: str | None,
    memory_limit: str | None,
) -> dict[str, Any]:
    import numpy as np

    from bigdag.data.tables import read_raw
    from bigdag.knowledge.known import refuse_constant_regulators

    raw = read_raw(table, *choices(header, row_labels), memory_limit, layer=layer)
    limits = known.match(raw.names, named=raw.named)
    d, tiers = limits.d, limits.tier[limits.tier >= 0]
    # Missing values are left out of both; where all are missing, nothing varies.
    varies = np.fmax.reduce(raw.X, axis=0) > np.fmin.reduce(raw.X, axis=0)
    refuse_constant_regulators(known, limits, raw.names, ~varies)
    return {
        "n_variables": d,
        "n_pairs": d * (d - 1),
        "n_possible": limits.count(),
        "n_causes": int(limits.cause.sum()),
        "n_effects": int(limits.effect.sum()),
        "tiers": np.bincount(tiers).tolist(),
        "n_without_tier": d - len(tiers),
        "n_required": int(limits.required.nnz),
        "n_forbidden": int(limits.forbidden.nnz),
        "n_in_search": int(limits.moves.sum()),
        "absent": known.absent(raw.names, named=raw.named),
        "constant_causes": [raw.names[v] for v in limits.causes if not varies[v]],
    }
