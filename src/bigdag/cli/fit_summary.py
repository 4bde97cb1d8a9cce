"""What the command prints of a fit: what the method did, to which table, and what it found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.text import Text

from bigdag.cli.console import (
    above_words,
    duration,
    facts_table,
    finding,
    new_console,
    of_printable_parts,
    open_arcs_words,
    show_strongest,
)
from bigdag.errors import counted, few_names

__all__ = ["show_fit"]

_FINDINGS = 4  # of a check that are told
_FEW_RESAMPLES = 10  # below which a share of them is no probability
_ROUGH_RESAMPLES = 25  # below which it is a rough one
_TELLING = ("few rows",)  # notes of a check that say how far an answer can be trusted

_STATUS = {
    "converged": "converged",
    "max_iter": "stopped at the limit of iterations (--max-iter)",
    "time_limit": "stopped at the limit of time (--time-limit)",
    "interrupted": "interrupted; this is the best DAG so far",
    "diverged": "diverged; this is the best DAG before that",
}

_SCORES = {"least_squares": "least squares", "bic": "extended BIC"}


@of_printable_parts
def show_fit(report: Mapping[str, Any]) -> None:
    """Print the summary of a fit."""
    console = new_console()
    facts = [*_how(report), *_table(report), *_what(report), *_units(report)]
    console.print(facts_table(facts))
    show_strongest(console, report)
    console.print()
    nodes = f", and all variables to {report['nodes_out']}" if report["nodes_out"] else ""
    console.print(Text(f"Written to {report['out']}{nodes}"), soft_wrap=True)
    if report["page"] is not None:
        words = f"Page to explore it: {report['page']}"
        console.print(Text(words), soft_wrap=True)


def _absent(names: list[str]) -> str:
    if not names:
        return ""
    them = "is not a variable of the table, and was" if len(names) == 1 else (
        "are no variables of the table, and were"
    )  # fmt: skip
    return f"; {few_names(names)} {them} passed over"


def _rows(report: Mapping[str, Any]) -> str:
    """Say how many rows there are, and as how many they count where values are missing."""
    rows, samples = report["n_rows"], report["n_samples"]
    if rows == samples:
        return counted(samples, "sample")
    if report["missing"] == "drop":
        return f"{samples:,} samples ({rows:,} rows, those with missing values left out)"
    return f"{rows:,} samples (with missing values, they count as {samples:,} whole ones)"


def _how(report: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what the method did."""
    yield "table", f"{_rows(report)} of {counted(report['n_variables'], 'variable')}"
    yield "method", f"{report['method']}, {duration(report['seconds'])}"
    if report.get("around"):
        yield "around", report["around"]
    if report.get("knowledge"):
        said = report["knowledge"]
        parts = [
            f"{name.replace('_', ' ')} ({len(value):,})" if isinstance(value, list) else name
            for name, value in said.items()
            if name not in ("within_tier", "unmatched")
        ]
        yield "known", ", ".join(parts) + _absent(report["knowledge_absent"])
    if report["explanation"] is not None:
        yield "choice", report["explanation"]
    before = report["before_search"]
    if before is not None:
        yield (
            "search",
            f"over orders by {_SCORES[report['search']]}, from {before['n_arcs']:,} arcs with the "
            f"loss {before['objective']:.6g}, which took {duration(before['seconds'])}",
        )
    bootstrap = report["bootstrap"]
    if bootstrap is not None:
        yield "bootstrap", _resamples(bootstrap)
    elif report["no_bootstrap"] is not None:
        yield "bootstrap", f"none, so no arc has a probability: {report['no_bootstrap']}"
    done = counted(report["n_iter"], "iteration" if bootstrap is None else "resample")
    yield "status", f"{_STATUS[report['status']]}, {done}"
    refit = report["refit_gain"]
    gain = f" (the refit on the order lowered it by {refit:.3g})" if refit else ""
    yield "loss", f"{report['objective']:.6g}{gain}; least squares and lambda1·‖W‖₁, equation (1)"
    if report["extended_bic"] is not None:
        yield "extended BIC", f"{report['extended_bic']:.6g}"
    if report["parameters"].get("lambda1") == "bic":
        yield "lambda1", f"{report['lambda1']:.4g}, chosen by the extended BIC"
    if report["parameters"].get("penalty") == "auto":
        yield "penalty", f"{report['penalty']:.3g}, chosen by the rows held out"


def _resamples(bootstrap: Mapping[str, Any]) -> str:
    """Say how many resamples there are, and which arcs they leave."""
    done, wanted = bootstrap["n_resamples"], bootstrap["wanted"]
    number = f"{done:,} of {wanted:,} resamples"
    if done > wanted:
        number = (
            f"all {done:,} resamples that the checkpoint held already, more than the {wanted:,} "
            "asked for"
        )
    least = f"{bootstrap['min_prob']:.0%}"
    text = f"{number}; arcs are those of pairs joined with a probability of {least} or more"
    if done >= _FEW_RESAMPLES and not bootstrap["weighs_chance"]:
        text = (
            f"{number}; arcs are those of pairs that {least} or more of them join. What is called "
            "a probability is that share here: it ranks arcs, and is often higher than the truth"
        )
    elif done >= _FEW_RESAMPLES and done < _ROUGH_RESAMPLES:
        text += ". So few resamples make rough probabilities; --bootstrap 100 makes better ones"
    if done < _FEW_RESAMPLES:
        tells = "One resample tells only whether an arc is found" if done == 1 else (
            f"So few resamples tell how often an arc is found only in steps of 1/{done}"
        )  # fmt: skip
        text += f". {tells}, which is no probability: 100 or so make it one (--bootstrap 100)"
    return text


def _table(report: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what was done to the table, and what is odd in it."""
    for place, note in enumerate(report["prepared"]):
        yield "prepared" if not place else "", note
    harmful = [f for f in report["findings"] if f["severity"] != "note" or f["finding"] in _TELLING]
    for place, found in enumerate(harmful[:_FINDINGS]):
        yield "check" if not place else "", f"{finding(found)}. {found['remedy']}"
    if len(harmful) > _FINDINGS:
        yield "", f"and {len(harmful) - _FINDINGS} more findings; bigdag check tells all of them"


def _what(report: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what was found."""
    arcs, threshold = f"{report['n_arcs']:,}", report["threshold"]
    if threshold is not None:
        kept = "worth their extended BIC" if threshold == "auto" else above_words(threshold)
        arcs += f" {kept}, of {report['n_arcs_found']:,}"
    yield "arcs", arcs + open_arcs_words(report["n_undirected"])


def _units(report: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield how far variances and units may have made the answer."""
    share = report["var_sortability"]
    yield (
        "variances",
        "nothing to compare without arcs"
        if share is None
        else f"{share:.0%} of its paths run to the larger variance (var-sortability; 50% would be "
        "chance)",
    )
    check = report["check_units"]
    if not report["depends_on_units"]:
        words = "the order found does not depend on the units of the columns"
    else:
        words = "the order found depends on the units of the columns"
        if check is None and report["assumption"] is None:  # the automatic method has said it
            words += "; --check-units shows how far"
    if report["standardised"]:
        words = f"standard deviations: every column was scaled to variance 1; {words}"
    yield "units", words
    if check is not None:
        parts = {
            "same": "in both", "reversed": "reversed", "only_raw": "only raw",
            "only_standardised": "only standardised",
        }  # fmt: skip
        shares = check["shares"]
        if shares is not None:
            counts = [f"{check[k]:,} {words} ({shares[k]:.0%})" for k, words in parts.items()]
            yield "raw, standardised", f"{', '.join(counts)}; F1 {check['f1']:.3g}"
        yield "", check["meaning"]
