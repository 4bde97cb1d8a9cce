"""The tables of a report's page: frames of results in, frames with words for headings out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bigdag.experiments.report.results import SETTING
from bigdag.experiments.report.words import unit_words

__all__ = [
    "by_method", "commands", "cut", "cut_words", "datasets", "failures", "machines", "metrics",
    "named", "parameters", "plans", "precision", "resources", "runs", "sortability", "units",
]  # fmt: skip

_MOST_ROWS = 1500  # of a table in the page; the CSV has all
_SHIPPED = {"exp1", "exp2", "exp3"}
_PRESETS = {"paper", "overnight", "laptop", "smoke", "paper-sizes"}
_WORDS = {
    "family": "graph", "peak_gb": "peak memory, GB", "step": "s/step, acyclic",
    "n_arcs": "arcs", "ap": "average precision", "ap_dag": "average precision, DAG",
    "ap_raw": "average precision, raw weights", "skeleton": "skeleton AP", "run": "run id",
    "time_limit": "time limit, s", "memory_limit": "memory limit, GB", "dataset": "data set",
    "average_precision": "average precision", "shd": "SHD", "shd_per_node": "SHD / d",
    "shd_cpdag": "SHD of CPDAGs", "nll_ev": "NLL, equal variances", "nll_nv": "NLL, free variances",
    "order_errors": "order errors", "fnr": "FNR", "fpr": "FPR", "f1": "F1",
}  # fmt: skip


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with words for headings, without columns that hold nothing.

    An experiment and its preset become one column.

    Examples
    --------
    >>> named(pd.DataFrame({"family": ["ER1"], "word": [""], "shd": [3]})).columns.tolist()
    ['graph', 'SHD']
    """
    if {"experiment", "preset"} <= set(frame):
        plan = (frame["experiment"] + " " + frame["preset"]).str.strip()
        frame = frame.assign(experiment=plan).drop(columns="preset")
    empty = [c for c in frame if (frame[c].isna() | (frame[c].astype(object) == "")).all()]
    return frame.drop(columns=empty).rename(columns=_WORDS)


def cut(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that a page can hold, and `cut_words` what it says of the others."""
    return named(frame.head(_MOST_ROWS))


def cut_words(frame: pd.DataFrame) -> str:
    """Return a sentence on rows that are left out, or nothing."""
    return f" Shown: the first {_MOST_ROWS:,}; the CSV has all." if len(frame) > _MOST_ROWS else ""


def by_method(frame: pd.DataFrame) -> pd.DataFrame:
    """Return `Results.overview` with one row a method, and a column for each kind of data.

    Examples
    --------
    >>> row = {"experiment": "a", "preset": "", "method": "GD", "runs": 2, "failed": 0,
    ...        "seconds, median": 1.0, "peak memory, GB": 0.5}
    >>> both = [{"units": "raw", "average precision": 0.9}, {"units": "iscm"}]
    >>> by_method(pd.DataFrame([row | one for one in both])).columns.tolist()
    ['method', 'raw data', 'iSCM data', 'runs', 'failed', 'seconds, median', 'peak memory, GB']
    """
    plan = (frame["experiment"] + " " + frame["preset"]).str.strip()
    plan = plan if plan.nunique() > 1 else plan.str[:0]
    kind = (plan + ", " + frame["units"].map(unit_words)).str.strip(", ")
    kinds = kind.where(kind != "", "average precision")
    table = frame[["method"]].drop_duplicates().set_index("method")
    for name in dict.fromkeys(kinds):
        mine = frame[kinds == name].set_index("method")["average precision"]
        table[name] = mine[~mine.index.duplicated()]
    groups = frame.groupby("method", sort=False)
    table["runs"], table["failed"] = groups["runs"].sum(), groups["failed"].sum()
    table["seconds, median"] = groups["seconds, median"].median()
    table["peak memory, GB"] = groups["peak memory, GB"].max()
    return table.reset_index()


def precision(frame: pd.DataFrame, both: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return average precisions by setting and method, on the scored and on either weights."""
    keys = [*SETTING, "method"]
    table = frame[keys].copy()
    table["average precision"] = _plus_minus(frame)
    for what, other in both.items():
        aligned = frame[keys].merge(other, on=keys, how="left")
        table[what] = _plus_minus(aligned).to_numpy()
    table["answers"] = frame["runs"]
    table["runs"] = frame["total"]
    table["main failure"] = frame["cause"].str.replace("_", " ")
    return named(table.head(_MOST_ROWS))


def sortability(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the sortabilities of the settings, one row a setting."""
    texts = frame.assign(text=_plus_minus(frame))
    table = texts.pivot(index=SETTING, columns="score", values="text").reset_index()
    table = frame[SETTING].drop_duplicates().merge(table, on=SETTING)
    return named(table.rename(columns={"var": "by variance", "r2": "by R²"}).head(_MOST_ROWS))


def units(frame: pd.DataFrame) -> pd.DataFrame:
    """Return average precisions with one column for each kind of units."""
    keys = [*(c for c in SETTING if c != "units"), "method"]
    order = list(dict.fromkeys(frame["units"]))
    texts = frame.assign(text=_plus_minus(frame))
    table = frame[keys].drop_duplicates()
    for kind in order:
        part = texts.loc[texts["units"] == kind, [*keys, "text"]]
        table = table.merge(part.rename(columns={"text": kind}), on=keys, how="left")
    values = frame.pivot_table(index=keys, columns="units", values="mean", dropna=True)
    if {"raw", "standardised"} <= set(values):
        lost = (values["raw"] - values["standardised"]).rename("lost").reset_index()
        table = table.merge(lost, on=keys, how="left")
    return named(table.fillna(dict.fromkeys(order, "")).head(_MOST_ROWS))


def resources(frame: pd.DataFrame) -> pd.DataFrame:
    """Return Table 3: `Results.resources` with words."""
    steps = {c: f"s/{c}" for c in map(str, frame) if c.startswith("step, ")}
    return named(frame.rename(columns=steps).head(_MOST_ROWS))


def failures(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the failed runs with their causes."""
    columns = ["experiment", "preset", "dataset", "units", "repetition", "method", "status"]
    return frame.loc[frame["failed"], [*columns, "message", "seconds", "peak_bytes", "run"]].pipe(
        _gigabytes
    )


def runs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return all runs, with what one may want to sort them by."""
    columns = [
        "experiment", "preset", "dataset", "units", "repetition", "method", "status", "ap",
        "ap_dag", "ap_raw", "skeleton", "seconds", "iterations", "objective", "n_arcs",
        "peak_bytes", "threads", "seed", "run",
    ]  # fmt: skip
    return _gigabytes(frame[columns])


def metrics(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the metrics with one row a method and setting, and which these are.

    What needs a threshold is that of the DAG's arcs at the threshold nearest to 0.3.
    """
    keys = [*SETTING, "method"]
    values = [name for name in frame if name not in {*keys, "weights", "directed", "threshold"}]
    arcs = frame[frame["directed"] & (frame["weights"] == "dag")]
    if not len(arcs):
        arcs = frame[frame["directed"]]
    known = arcs["threshold"].dropna()
    said = "One row a method and setting, averaged over its data sets: arcs of the DAG"
    if len(known):
        nearest = known.iloc[int(np.argmin(np.abs(known - 0.3)))]
        arcs = arcs[arcs["threshold"].isna() | (arcs["threshold"] == nearest)]
        said += f", at a threshold of {nearest:g} where one is needed"
    rows = arcs.groupby(keys, dropna=False, sort=False)[values].first().reset_index()
    said += ". The CSV has all thresholds, raw weights and skeletons too." + cut_words(rows)
    return named(rows.head(_MOST_ROWS)), said


def commands(frame: pd.DataFrame, store: str, out: str) -> list[str]:
    """Return the command lines that made the runs and the report.

    Examples
    --------
    >>> frame = pd.DataFrame({"experiment": ["exp1"], "preset": ["smoke"]})
    >>> commands(frame, "runs.db", "report")[0]
    'bigdag experiment run exp1 --preset smoke --store runs.db'
    """
    lines = []
    for experiment, preset in dict.fromkeys(zip(frame["experiment"], frame["preset"])):
        known = experiment in _SHIPPED and preset in _PRESETS
        plan = f"{experiment} --preset {preset}" if known else "PLAN.toml"
        note = "" if known else f"  # {experiment} {preset}".rstrip()
        lines.append(f"bigdag experiment run {plan} --store {shlex.quote(store)}{note}")
    report = f"bigdag experiment report {shlex.quote(store)} --out {shlex.quote(out)}"
    return [*lines, report, f"bigdag experiment export {shlex.quote(store)} --out runs.parquet"]


def plans(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the budgets of each experiment."""
    rows = []
    for (experiment, preset), part in frame.groupby(["experiment", "preset"], sort=False):
        jobs = [job or {} for job in part["job"]]
        rows.append(
            {
                "experiment": experiment,
                "preset": preset,
                "runs": len(part),
                "data sets": len(part[[*SETTING, "repetition"]].drop_duplicates()),
                "threads": _list(part["threads"]),
                "time limit, s": _list(part["time_limit"]),
                "memory limit, GB": _list(part["memory_limit"] / 2**30),
                "snapshot every, s": _list(job.get("snapshot_every") for job in jobs),
                "thresholds": _list(t for job in jobs for t in job.get("thresholds") or ()),
                "seeds of methods": _list(job.get("seed") for job in jobs),
            }
        )
    return named(pd.DataFrame(rows))


def parameters(frame: pd.DataFrame) -> pd.DataFrame:
    """Return each method's word and the parameters a plan gives it."""
    rows: dict[tuple[str, ...], list[str]] = {}
    columns = (frame[name] for name in ("method", "word", "job", "experiment"))
    for method, word, job, experiment in zip(*columns):
        given = ((job or {}).get("method") or {}).get("parameters") or {}
        words = ", ".join(f"{name} = {json.dumps(value)}" for name, value in given.items())
        rows.setdefault((method, word, words or "defaults"), []).append(experiment)
    table = [
        (*key, ", ".join(dict.fromkeys(experiments))) for key, experiments in sorted(rows.items())
    ]
    return pd.DataFrame(table, columns=["method", "word", "parameters", "in"])


def datasets(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the settings with the seeds of their data sets, and the tables of the user."""
    groups = frame.groupby(SETTING, dropna=False, sort=False)
    table = groups["repetition"].agg(_list).rename("seeds").reset_index()
    described = [(part["job"].iloc[0] or {}).get("dataset") or {} for _, part in groups]
    for name in ("table", "truth"):  # a user's files, without the folders they lie in
        table[name] = [Path(about.get(name) or "").name for about in described]
    return named(table.head(_MOST_ROWS))


def machines(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the distinct machines and versions, and how many runs each made."""
    counts: dict[tuple[str, str], int] = {}
    for machine, versions in zip(frame["machine"], frame["versions"]):
        key = _pairs(machine), _pairs(versions)
        counts[key] = counts.get(key, 0) + 1
    table = [(*key, n) for key, n in sorted(counts.items(), key=lambda item: -item[1])]
    return pd.DataFrame(table, columns=["machine", "versions", "runs"])


def _gigabytes(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(peak_bytes=frame["peak_bytes"] / 2**30).rename(
        columns={"peak_bytes": "peak_gb"}
    )


def _plus_minus(frame: pd.DataFrame) -> pd.Series:
    """Return mean and standard deviation as text, "" where there is no mean."""
    texts = [
        "" if pd.isna(mean) else f"{mean:.3f}" if pd.isna(sd) else f"{mean:.3f} ± {sd:.3f}"
        for mean, sd in zip(frame["mean"], frame["sd"])
    ]
    return pd.Series(texts, index=frame.index, dtype=object)


def _list(values: Iterable[Any]) -> str:
    """Return distinct numbers as text, runs of whole numbers as a range.

    Examples
    --------
    >>> _list([3, 0, 1, 2, 7]), _list([0.5, 0.1]), _list([None])
    ('0–3, 7', '0.1, 0.5', '')
    """
    numbers = sorted({float(v) for v in values if v is not None and pd.notna(v)})
    parts: list[list[float]] = []
    for number in numbers:
        if parts and number % 1 == 0 and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    texts = []
    for part in parts:
        ends = [f"{v:.0f}" if v % 1 == 0 else f"{v:.4g}" for v in (part[0], part[-1])]
        texts.append("–".join(ends) if len(part) > 2 else ", ".join(ends[: len(part)]))
    return ", ".join(texts)


def _pairs(about: Any) -> str:
    """Return the pairs of a (nested) mapping as one line of text."""
    if not isinstance(about, Mapping):
        return "" if about is None else str(about)
    return ", ".join(
        f"{key} ({_pairs(value)})" if isinstance(value, Mapping) else f"{key} {value}"
        for key, value in about.items()
    )
