"""What the command shows to people on stdout: results, except that of a fit (`fit_summary`).

Every function takes the report that ``--json`` would print, so that both say the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bigdag.cli.console import (
    above_words,
    arcs_table,
    facts_table,
    finding,
    is_open,
    listing,
    new_console,
    of_printable_parts,
    open_arcs_words,
    said_duration,
    show_strongest,
    titled_table,
)
from bigdag.errors import counted, few_names, installing

__all__ = [
    "show_card",
    "show_check",
    "show_comparison",
    "show_dag",
    "show_dag_check",
    "show_effect",
    "show_evaluation",
    "show_knowledge",
    "show_methods",
    "show_page",
    "show_plan",
]


def _shape(n_samples: int, n_columns: int, thing: str = "variable") -> str:
    """Return how large a table is."""
    return f"{counted(n_samples, 'sample')} of {counted(n_columns, thing)}"


@of_printable_parts
def show_check(report: Mapping[str, Any]) -> None:
    """Print what is odd in a table."""
    console = new_console()
    rows = [("table", _shape(report["n_samples"], report["n_columns"], "column"))]
    for found in report["findings"]:
        rows.append((found["severity"], f"{finding(found)}."))
        rows.append(("", f"Effect: {found['effect']}."))
        rows.append(("", f"Help: {found['remedy']}"))
    if not report["findings"]:
        rows.append(("findings", "nothing odd was found"))
    console.print(facts_table(rows))


def _take_part(count: int) -> str:
    return "1 variable takes" if count == 1 else f"{count:,} variables take"


@of_printable_parts
def show_knowledge(report: Mapping[str, Any]) -> None:
    """Print what `bigdag knowledge check` found."""
    console = new_console()
    if report["table"] is None:
        said = [name for name in report if name not in ("knowledge", "table")]
        rows = [
            (
                name,
                f"{len(report[name]):,}" if isinstance(report[name], list) else str(report[name]),
            )
            for name in said
        ]
        console.print(facts_table(rows or [("knowledge", "nothing is known")]))
        console.print()
        console.print("Nothing contradicts. --table tells what it means for a table.")
        return
    share = report["n_possible"] / max(1, report["n_pairs"])
    causes, effects = report["n_causes"], report["n_effects"]
    rows = [
        ("variables", f"{report['n_variables']:,}"),
        (
            "possible arcs",
            f"{report['n_possible']:,} of {report['n_pairs']:,} ({100 * share:.3g} %)",
        ),
        ("causes", f"{causes:,} may have effects, {effects:,} may have causes"),
    ]
    if report["tiers"]:
        sizes = ", ".join(f"{size:,}" for size in report["tiers"])
        rows.append(("tiers", f"{sizes} variables; {report['n_without_tier']:,} without one"))
    rows += [
        ("arcs", f"{report['n_required']:,} required, {report['n_forbidden']:,} forbidden"),
        ("search", f"{_take_part(report['n_in_search'])} part in a search over orders"),
    ]
    if report["absent"]:
        rows.append(("passed over", f"{few_names(report['absent'])}: not in the table"))
    if report["constant_causes"]:
        rows.append(("constant", f"{listing(report['constant_causes'])}: causes of nothing"))
    console.print(facts_table(rows))
    console.print()
    console.print("Nothing contradicts.")


def _which_arcs(report: Mapping[str, Any]) -> str:
    """Return what the arcs of a report were chosen by; nothing where they are all."""
    words = f" {above_words(report['threshold'])}" if report["threshold"] else ""
    if report["min_prob"] is not None:
        words += f" of pairs with a probability of at least {report['min_prob']:g}"
    return words


@of_printable_parts
def show_dag(report: Mapping[str, Any]) -> None:
    """Print what `bigdag show` found in a DAG."""
    console = new_console()
    above = _which_arcs(report)
    rows = [
        ("variables", f"{report['n_variables']:,}, {report['isolated']:,} of them isolated"),
        ("arcs", f"{report['n_arcs']:,}{above}{open_arcs_words(report['n_undirected'])}"),
        ("roots", f"{counted(report['roots'], 'variable')} with effects and without causes"),
        ("sinks", f"{counted(report['sinks'], 'variable')} with causes and without effects"),
    ]
    for key, words in (("most_parents", "causes"), ("most_children", "effects")):
        top = report[key]
        if top is not None:
            rows.append((f"most {words}", f"{top['count']:,}, of {top['variable']}"))
    console.print(facts_table(rows))
    around = report.get("variable")
    if around is None:
        show_strongest(console, report)
    else:
        console.print()
        blanket = around["markov_blanket"]
        rows = [
            ("variable", around["name"]),
            ("Markov blanket", f"{len(blanket):,}: {listing(blanket)}"),
            (
                f"within {around['radius']} arc{'s' * (around['radius'] > 1)}",
                f"{counted(around['n_variables'], 'variable')}, {counted(around['n_arcs'], 'arc')}",
            ),
        ]
        console.print(facts_table(rows))
        open_arcs = [arc for arc in around["parents"] + around["children"] if is_open(arc)]
        for title, arcs in (
            ("Its causes", [arc for arc in around["parents"] if not is_open(arc)]),
            ("Its effects", [arc for arc in around["children"] if not is_open(arc)]),
            ("Undirected", open_arcs),
        ):
            if arcs:
                console.print()
                console.print(arcs_table(title, arcs))
    if report.get("plot"):
        console.print()
        console.print(Text(f"Drawn to {report['plot']}"), soft_wrap=True)


@of_printable_parts
def show_page(report: Mapping[str, Any]) -> None:
    """Print where `bigdag explore` has written a page."""
    console = new_console()
    rows = [
        ("variables", f"{report['n_variables']:,}"),
        ("arcs", f"{report['n_arcs']:,}{_which_arcs(report)}"),
        ("page", f"{report['bytes'] / 1e6:.1f} MB; open it in a browser"),
    ]
    console.print(facts_table(rows))
    console.print()
    console.print(Text(f"Written to {report['out']}"), soft_wrap=True)


@of_printable_parts
def show_effect(report: Mapping[str, Any]) -> None:
    """Print the total effects of a variable."""
    console, cause = new_console(), report["cause"]
    _show_effects(console, cause, report)
    if report["units"] is not None:
        console.print()
        console.print(Text(report["units"]), soft_wrap=True)


def _show_effects(console: Console, cause: str, report: Mapping[str, Any]) -> None:
    if "effect" in report:
        possible = report["possible_effects"]
        console.print(facts_table([("total effect", _sentence(cause, report))]))
        if len(possible) > 1:
            words = (
                f"from {possible[0]:.4g} to {possible[-1]:.4g}: the undirected arcs at {cause} "
                f"leave {len(possible):,} sets of direct causes open"
            )
            console.print(facts_table([("possible", words)]))
        return
    count = report["n_effects"]
    if not count:
        console.print(Text(f"{cause} affects no other variable."))
        return
    rows = report["effects"]
    more = f"; the {len(rows):,} largest" if len(rows) < count else ""
    title = f"Total effects of {cause} on {count:,} variable{'s' * (count > 1)}{more}"
    console.print(Text(title, style="bold"), soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    table.add_column("effect", overflow="fold")
    columns = [name for name in ("total_effect", "lowest", "highest") if rows and name in rows[0]]
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(Text(row["effect"]), *(f"{row[name]:.4g}" for name in columns))
    console.print(table)
    if "lowest" in columns:
        sets = rows[0]["n_possible"]
        console.print()
        console.print(
            Text(
                f"The undirected arcs at {cause} leave {sets:,} sets of direct causes open; lowest "
                "and highest are over these, total effect is that of the DAG as it is."
            ),
            soft_wrap=True,
        )


def _sentence(cause: str, report: Mapping[str, Any]) -> str:
    value = report["total_effect"]
    if cause == report["effect"]:
        return "1; a variable moves with itself"
    if not value:
        return f"0; no directed path of the DAG leads from {cause} to {report['effect']}"
    return f"{value:.4g}; so much does {report['effect']} change when {cause} is raised by 1"


_COMPARED = {
    "same": "in both, the same way",
    "reversed": "in both, reversed",
    "undirected_a": "directed in B, undirected in A",
    "undirected_b": "directed in A, undirected in B",
    "only_a": "in A only",
    "only_b": "in B only",
}


@of_printable_parts
def show_comparison(report: Mapping[str, Any]) -> None:
    """Print what two DAGs have in common."""
    console = new_console()
    above = f" {above_words(report['threshold'])}" if report["threshold"] else ""
    rows = [
        (mark.upper(), f"{report[mark]}: {report[f'n_variables_{mark}']:,} variables, "
                       f"{report[f'n_arcs_{mark}']:,} arcs{above}")
        for mark in "ab"
    ]  # fmt: skip
    rows += [(f"{report[key]:,}", words) for key, words in _COMPARED.items()]
    rows.append((f"{report['shd']:,}", "pairs differ (structural Hamming distance)"))
    for mark in "ab":
        names = report[f"variables_only_in_{mark}"]
        if names:
            rows.append((f"{len(names):,}", f"variables in {mark.upper()} only: {listing(names)}"))
    console.print(facts_table(rows))
    if report["differences"]:
        table = titled_table("What differs")
        for name in ("cause", "effect", "", "weight in A", "weight in B"):
            table.add_column(name, overflow="fold", justify="right" if "weight" in name else "left")
        for row in report["differences"]:
            weights = ("" if w != w else f"{w:.4g}" for w in (row["weight_a"], row["weight_b"]))
            ends = Text(row["source"]), Text(row["target"])
            table.add_row(*ends, _COMPARED[row["status"]], *weights)
        console.print()
        console.print(table)
    if report.get("out"):
        console.print()
        console.print(Text(f"Written to {report['out']}"), soft_wrap=True)


@of_printable_parts
def show_card(card: Mapping[str, Any], folder: str) -> None:
    """Print what `bigdag simulate` made."""
    units = {
        "raw": "raw", "standardised": "standardised", "internal": "internally standardised",
        "mixed": "mixed: one for each column",
    }  # fmt: skip
    rows = [
        (
            "graph",
            f"{card['graph']}, {counted(card['d'], 'variable')}, {counted(card['arcs'], 'arc')}",
        ),
        ("noise", f"{card['noise']}, {card['variance']}, units {units[card['units']]}"),
        ("tables", f"{card['n']:,} training and {card['validation']:,} validation samples"),
        ("seed", str(card["seed"])),
    ]
    if card["outliers"] or card["missing"]:
        damage = f"{card['outliers']:.3g} of the training values are outliers, "
        rows.append(("damage", f"{damage}{card['missing']:.3g} are missing"))
    for key, words in (("var_sortability", "variances"), ("r2_sortability", "R²")):
        if card[key] is not None:
            rows.append(
                (words, f"sort {card[key]:.0%} of the true paths right (50% would be chance)")
            )
    console = new_console()
    console.print(facts_table(rows))
    console.print(
        Text(f"Written to {folder}: train.parquet, validation.parquet, truth.parquet, card.json"),
        soft_wrap=True,
    )


_PAIRED = {
    "average_precision": "average precision, over all thresholds",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "fnr": "false negative rate",
    "fpr": "false positive rate",
    "tp": "true arcs found",
    "fp": "false arcs",
    "fn": "true arcs missed",
    "shd": "structural Hamming distance",
    "shd_normalised": "... per variable",
}
_SINGLE = {
    "reversed": "true arcs found the wrong way round",
    "order_errors": "share of true arcs against the order found",
    "shd_cpdag": "structural Hamming distance of the CPDAGs",
    "parent_aid": "parent adjustment distance",
    "nll_ev": "negative log-likelihood per sample, equal variances",
    "nll_nv": "negative log-likelihood per sample, free variances",
}


@of_printable_parts
def show_dag_check(report: Mapping[str, Any]) -> None:
    """Print what a table says of a DAG."""
    held = f"{report['log_likelihood']:.4g} a row"
    if report["log_likelihood_permuted"]:
        best = max(report["log_likelihood_permuted"])
        held += f"; the best of the shuffled graphs {best:.4g}"
    for key, words in (("fewer", "with fewer arcs"), ("more", "with more arcs")):
        value = report[f"log_likelihood_{key}_arcs"]
        if not math.isnan(value):
            held += f"; {words} {value:.4g}"
    facts = [
        ("table", _shape(report["n_samples"], report["n_variables"])),
        ("arcs", f"{report['n_arcs']:,}"),
        *(("prepared" if not i else "", note) for i, note in enumerate(report["prepared"])),
        ("likelihood", f"log-likelihood of the rows held out {held}"),
    ]
    console = new_console()
    console.print(facts_table(facts))
    console.print()
    for sentence in report["conclusions"]:
        console.print(Text(sentence), soft_wrap=True)


def show_evaluation(report: Mapping[str, Any]) -> None:
    """Print the scores of a DAG against the truth."""
    scores = report["metrics"]
    table = titled_table(f"Arcs {above_words(report['threshold'])} against the truth")
    table.add_column("")
    table.add_column("directed", justify="right")
    table.add_column("undirected", justify="right")
    for key, words in _PAIRED.items():
        table.add_row(words, _score(scores[key]), _score(scores[f"undirected_{key}"]))
    for key, words in _SINGLE.items():
        if key in scores:
            table.add_row(words, _score(scores[key]), "")
    console = new_console()
    console.print(table)
    for word, rows in report.get("calibration", {}).items():
        if rows:
            what = "Calibration of arcs" if word == "directed" else "... of pairs"
            console.print()
            console.print(_calibration(what, rows))


def _calibration(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    table = titled_table(title)
    for name in ("probability", "arcs", "mean", "true"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        span = f"{row['low']:g} to {row['high']:g}"
        table.add_row(span, f"{row['count']:,}", f"{row['probability']:.2f}", f"{row['true']:.0%}")
    return table


def _score(value: float | None) -> str:
    if value is None:
        return "not defined"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


@of_printable_parts
def show_plan(report: Mapping[str, Any]) -> None:
    """Print what a fit will take."""
    from bigdag.resources import format_bytes

    console = new_console()
    need, limit = report["memory_bytes"], report["memory_limit_bytes"]
    console.print(
        f"{report['method']} on {_shape(report['n_samples'], report['n_variables'])} "
        f"takes about {format_bytes(need)} of memory; {format_bytes(limit)} may be used.",
        markup=False,
    )
    if need > limit:
        console.print(
            "Where the correlations do not fit, most methods compute them on demand; a fit that "
            "cannot fit says so before it begins.",
            markup=False,
        )
    if report["seconds"] is None:
        console.print(
            "There is no formula for the time of this method; --time-limit bounds it.", markup=False
        )
        return
    console.print(
        f"Time: about {said_duration(report['seconds'])}, beside reading and preparing the table"
        f"{' and without resamples' if report['method'] == 'auto' else ''}. On average a "
        f"variable is correlated with {report['mean_correlated']:,.3g} others.",
        markup=False,
    )


def show_methods(report: Mapping[str, Any]) -> None:
    """Print the table of methods."""
    from bigdag.resources import format_bytes

    table = Table(box=None, pad_edge=False)
    for name in ("method", "what it is", "needs", f"memory at d = {report['d']:,}", "units"):
        table.add_column(name, no_wrap=name == "method", overflow="fold")
    for row in report["methods"]:
        needs = row["extra"] or "-"
        if not row["installed"]:
            needs += " (not installed)"
        memory = format_bytes(row["memory_bytes"])
        table.add_row(
            row["method"], row["summary"], needs, memory, "yes" if row["depends_on_units"] else "no"
        )
    console = new_console()
    console.print(table)
    console.print()
    console.print(
        f"Memory: at {report['n']:,} samples, the table included. needs: what else has to be "
        f"installed, as with {installing('torch')}. units: whether the order found depends on the "
        "units of the columns.",
        markup=False,
    )
