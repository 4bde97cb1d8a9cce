"""What a report shows, as data frames: finished runs in, one tidy frame for each figure and table.

A `setting` is what data sets that differ in their seed alone have in common. Averages and standard
deviations are over the runs of a method in a setting that gave an answer. Runs of different
experiments or presets are never averaged together: their budgets differ.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import bigdag
from bigdag.errors import DataError
from bigdag.experiments.store import CHANGED, FAILED, shortened, storable
from bigdag.learners.methods import METHODS

__all__ = ["SETTING", "Results", "summarise"]

OWN_TABLE = "own table"  # in the place of the noise, where a data set is a user's table
SETTING = ["experiment", "preset", "noise", "family", "d", "n", "units"]
_PLAN = ["experiment", "preset"]
_NUMBERS = [
    "k",
    "d",
    "n",
    "repetition",
    "seconds",
    "iterations",
    "objective",
    "n_arcs",
    "peak_bytes",
    "threads",
    "seed",
    "memory_limit",
    "time_limit",
    "var_sortability",
    "r2_sortability",
    "var_sortability_found",
    "overhead_seconds",
]
_TEXTS = [
    "experiment",
    "preset",
    "dataset",
    "graph",
    "noise",
    "variance",
    "units",
    "method",
    "word",
    "status",
    "message",
]
_RAW = "average precision, raw weights"
_DAG = "average precision, DAG"
_NOISES = {"Gaussian": 0, "Exponential": 1, "Gumbel": 2}
_UNIT_ORDER = {"raw": 0, "standardised": 1, "iscm": 2}


@dataclass(frozen=True)
class Results:
    """The frames of a report.

    Attributes
    ----------
    runs : DataFrame
        One row a run: the columns of the store, `family` (the graph and k, or the table's name),
        `failed`, `lambda1`, and the average precisions: `ap` and `skeleton` of the scored weights
        (raw where the learner has them, as in the paper), and of either kind of weights.
    scores : DataFrame
        The store's scores.
    methods : list of str
        The methods in the order of all figures.

    Examples
    --------
    >>> Results.of(pd.DataFrame(), pd.DataFrame()).methods
    []
    """

    runs: pd.DataFrame
    scores: pd.DataFrame
    methods: list[str]

    @classmethod
    def of(cls, runs: pd.DataFrame, scores: pd.DataFrame) -> Results:
        """Return the results of a store's two tables."""
        runs, scores = _typed_runs(runs), _typed_scores(scores)
        found = scores[(scores["metric"] == "average_precision") & scores["snapshot"].isna()]
        values = found.set_index(["run", "directed", "weights"])["value"]
        values = values[~values.index.duplicated()]
        for directed, name in ((True, "ap"), (False, "skeleton")):
            for weights in ("raw", "dag"):
                key = pd.MultiIndex.from_product([runs["run"], [directed], [weights]])
                column = values.reindex(key).to_numpy() if len(values) else np.nan
                runs[f"{name}_{weights}"] = column
            answer = runs[f"{name}_raw"].fillna(runs[f"{name}_dag"])
            runs[name] = answer.where(~runs["failed"])
        place = {word: i for i, word in enumerate(METHODS)}
        pairs = runs[["word", "method"]].drop_duplicates().itertuples(index=False)
        ranked = sorted((place.get(word, len(place)), len(name), name) for word, name in pairs)
        results = cls(runs, scores, list(dict.fromkeys(name for *_, name in ranked)))
        return replace(results, runs=results._sorted(runs))

    def figure_runs(self, figure: int) -> pd.DataFrame:
        """Return the runs of the paper's Figure 1, 2 or 3; other plans' runs serve all three."""
        paper = ["exp1", "exp2", "exp3"]
        keep = (self.runs["experiment"] == paper[figure - 1]) | ~self.runs["experiment"].isin(paper)
        return self.runs[keep]

    def precision(self, runs: pd.DataFrame, value: str = "ap") -> pd.DataFrame:
        """Return mean and standard deviation of a column of `runs` by setting and method."""
        return self._sorted(summarise(runs, [*SETTING, "method"], value))

    def over_time(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return the average precision of the snapshots over seconds, by setting and method."""
        scores = self.scores
        scores = scores[(scores["metric"] == "average_precision") & scores["directed"]]
        scores = scores[scores["run"].isin(runs["run"])].copy()
        seconds = scores["run"].map(runs.set_index("run")["seconds"])
        has_snapshots = scores.loc[scores["snapshot"].notna(), "run"].unique()
        scores["final"] = scores["snapshot"].isna()  # comes after a snapshot of the same moment
        scores["seconds"] = scores["snapshot"].fillna(seconds)
        raw = set(scores.loc[scores["weights"] == "raw", "run"])
        scores = scores[(scores["weights"] == "raw") | ~scores["run"].isin(raw)]
        series = {
            run: part.sort_values(["seconds", "final"])[["seconds", "value"]].to_numpy()
            for run, part in scores[scores["run"].isin(has_snapshots)].groupby("run")
        }
        return self._curves(runs, series, [*SETTING, "method"])

    def objective(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return the objective over seconds, divided by the best one found on the same data set.

        Only runs at the same lambda1 minimise the same thing, so `lambda1` is part of the setting.
        A row with a true `end` is the DAG's: the iterates before it may have cycles, and then a
        lower objective than any DAG, so that no line leads from them to it.
        """
        by = [*SETTING, "lambda1", "repetition"]
        best = runs.groupby(by, dropna=False)["objective"].transform("min")
        series, ends = {}, []
        for run, curve, last, floor in zip(
            runs["run"], runs["curve"], zip(runs["seconds"], runs["objective"]), best
        ):
            points = np.array(curve or [], dtype=np.float64).reshape(-1, 2)
            points = points[np.isfinite(points).all(axis=1)]
            if len(points) and floor > 0:
                series[run] = np.column_stack([points[:, 0], points[:, 1] / floor])
                ends.append((run, last[0], last[1] / floor))
        group = [*SETTING, "lambda1", "method"]
        lines = self._curves(runs, series, group, most=60).assign(end=False)
        table = pd.DataFrame(ends, columns=["run", "end_seconds", "value"])
        known = runs[["run", *group]].merge(table.dropna(), on="run")
        if not len(known):
            return lines
        last_rows = known.groupby(group, dropna=False, sort=False).agg(
            seconds=("end_seconds", "mean"), mean=("value", "mean"), sd=("value", "std"),
            runs=("value", "count"),
        )  # fmt: skip
        return self._sorted(pd.concat([lines, last_rows.reset_index().assign(end=True)]))

    def resources(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return peak memory, seconds, and seconds a step in each phase, by size and method."""
        by = [*_PLAN, "family", "n", "d", "threads", "method"]
        rows = []
        for key, part in runs[~runs["failed"]].groupby(by, dropna=False):
            row = dict(zip(by, key)) | {
                "runs": len(part),
                "peak_gb": part["peak_bytes"].mean() / 2**30,
                "step": np.mean([*map(_main_step, part["phase_seconds"], part["phase_steps"])]),
                "seconds": part["seconds"].mean(),
                "iterations": part["iterations"].mean(),
            }
            steps = pd.DataFrame([phases or {} for phases in part["phase_seconds"]])
            row |= {f"step, {phase}": steps[phase].mean() for phase in steps.columns}
            rows.append(row)
        return self._sorted(pd.DataFrame(rows, columns=None if rows else [*by, "peak_gb", "step"]))

    def sortability(self) -> pd.DataFrame:
        """Return how far variances and R² give the order away: of each setting's data sets."""
        known = self.runs.dropna(subset=["var_sortability"])
        known = known.drop_duplicates([*SETTING, "repetition"])
        frames = [
            summarise(known, SETTING, f"{score}_sortability").assign(score=score)
            for score in ("var", "r2")
        ]
        return self._sorted(pd.concat(frames, ignore_index=True).dropna(subset=["mean"]))

    def units(self) -> pd.DataFrame:
        """Return the average precision by units, of the settings that were run in several."""
        frame = self.precision(self.runs)
        same = [column for column in SETTING if column != "units"]
        several = frame.groupby(same, dropna=False)["units"].transform("nunique") > 1
        return frame[several & frame["mean"].notna()]

    def statuses(self) -> pd.DataFrame:
        """Return how many runs of each method in each experiment ended with each status."""
        by = [*_PLAN, "method", "status"]
        frame = self.runs.groupby(by, dropna=False).size().rename("runs").reset_index()
        return self._sorted(frame)

    def metrics(self) -> pd.DataFrame:
        """Return all metrics of the final weights, averaged by setting, method and threshold."""
        by = [*SETTING, "method", "weights", "directed", "threshold"]
        final = self.scores[self.scores["snapshot"].isna()]
        final = final.merge(self.runs[["run", *SETTING, "method"]], on="run")
        if not len(final):
            return pd.DataFrame(columns=by)
        # A metric that needs no threshold has rows of its own. NaN is no key to unstack by.
        final["threshold"] = final["threshold"].fillna(-1.0)
        wide = final.groupby([*by, "metric"], dropna=False)["value"].mean().unstack("metric")
        wide = wide.reset_index().rename_axis(columns=None)
        wide["threshold"] = wide["threshold"].where(wide["threshold"] >= 0)
        return self._sorted(wide)

    def overview(self) -> pd.DataFrame:
        """Return how each method did in each experiment and kind of units, and what it took."""
        by = [*_PLAN, "units", "method"]
        rows = []
        for key, part in self.runs.groupby(by, dropna=False):
            answers = part[~part["failed"]]
            row = dict(zip(by, key)) | {
                "runs": len(part),
                "failed": int(part["failed"].sum()),
                "average precision": answers["ap"].mean(),
                _DAG: answers["ap_dag"].mean(),
                _RAW: answers["ap_raw"].mean(),
                "skeleton": answers["skeleton"].mean(),
                "seconds, median": answers["seconds"].median(),
                "peak memory, GB": answers["peak_bytes"].max() / 2**30,
            }
            rows.append(row)
        return self._sorted(pd.DataFrame(rows))

    def _curves(
        self, runs: pd.DataFrame, series: dict[Any, Any], by: list[str], most: int = 400
    ) -> pd.DataFrame:
        """Average step curves (points, 2) of runs by group, on the times of all their points."""
        frames, columns = [], [*by, "seconds", "mean", "sd", "runs"]
        for key, part in runs[runs["run"].isin(list(series))].groupby(by, dropna=False):
            curves = [series[run] for run in part["run"]]
            times = np.unique(np.concatenate([curve[:, 0] for curve in curves]))
            times = times[times >= max(curve[0, 0] for curve in curves)]  # all have begun
            if len(times) > most:
                # Half of the points early, where most happens, and half all along.
                ends = 1, len(times), most // 2
                kept = np.concatenate([np.geomspace(*ends), np.linspace(*ends)])
                times = times[np.unique(np.round(kept).astype(int) - 1)]
            at = [np.searchsorted(curve[:, 0], times, side="right") - 1 for curve in curves]
            values = np.array([curve[i, 1] for curve, i in zip(curves, at)])  # (runs, times)
            frame = pd.DataFrame({"seconds": times, "mean": values.mean(axis=0)})
            frame["sd"] = values.std(axis=0, ddof=1) if len(curves) > 1 else np.nan
            frame["runs"] = len(curves)
            names: dict[str, Any] = dict(zip(by, key))
            frames.append(frame.assign(**names)[columns])
        return self._sorted(pd.concat(frames) if frames else pd.DataFrame(columns=columns))

    def _sorted(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Sort by setting, with noises, units and methods in their own orders."""
        rank = {name: i for i, name in enumerate(self.methods)}
        keys = [
            c
            for c in [*SETTING, "lambda1", "threads", "method", "repetition", "seconds"]
            if c in frame
        ]
        if not len(frame) or not keys:
            return frame.reset_index(drop=True)

        def order(column: pd.Series) -> Any:
            if column.name == "noise":  # in the paper's order
                return column.map(lambda v: f"{_NOISES.get(v.split('-')[0], 3)} {v}")
            known = {"method": rank, "units": _UNIT_ORDER}.get(str(column.name))
            return column if known is None else column.map(lambda v: known.get(v, len(known)))

        return frame.sort_values(keys, key=order, kind="stable").reset_index(drop=True)


def summarise(runs: pd.DataFrame, by: list[str], value: str) -> pd.DataFrame:
    """Return mean and standard deviation of a column, and why there is none, by group.

    Returns
    -------
    DataFrame
        `by`, then `mean`, `sd` (NaN for one run), `runs` that have a value, `total` runs, and
        `cause`: the most frequent status of the group's failures, "" where none failed.

    Examples
    --------
    >>> runs = pd.DataFrame({"method": "GD", "ap": [0.5, 0.7, None], "failed": [False, False, True],
    ...                      "status": ["converged", "converged", "timeout"]})
    >>> print(summarise(runs, ["method"], "ap").round(3).to_string(index=False))
    method  mean    sd  runs  total   cause
        GD   0.6 0.141     2      3 timeout
    """
    if not len(runs):
        return pd.DataFrame(columns=[*by, "mean", "sd", "runs", "total", "cause"])
    groups = runs.groupby(by, dropna=False)
    frame = groups[value].agg(mean="mean", sd="std", runs="count")
    frame["total"] = groups.size()
    failures = runs[runs["failed"]]
    causes = failures.groupby(by, dropna=False)["status"].agg(lambda s: s.mode().iloc[0])
    frame["cause"] = causes.reindex(frame.index) if len(failures) else ""
    frame["cause"] = frame["cause"].fillna("")
    return frame.reset_index()


@cache
def _default_lambda1(word: str) -> float:
    """Return the lambda1 of a method that sets none, or NaN where it is not known."""
    if word not in METHODS or not METHODS[word].installed:
        return float("nan")
    signature = inspect.signature(getattr(bigdag, METHODS[word].estimator))
    default = METHODS[word].fixed.get("lambda1")
    if default is None and "lambda1" in signature.parameters:
        default = signature.parameters["lambda1"].default
    return float(default) if isinstance(default, int | float) else float("nan")


def _lambda1(word: str, job: Any) -> float:
    given = ((job or {}).get("method") or {}).get("parameters") or {}
    value = given.get("lambda1")
    return float(value) if isinstance(value, int | float) else _default_lambda1(word)


def _main_step(seconds: dict[str, float] | None, steps: dict[str, int] | None) -> float:
    """Return the seconds a step with acyclicity enforced, as in the paper's Table 3.

    That is the phase "mas" where a method has it, and else the one with the most steps.
    """
    if not seconds:
        return float("nan")
    counts = {phase: (steps or {}).get(phase, 0) for phase in seconds}
    return float(seconds["mas" if "mas" in seconds else max(counts, key=lambda p: counts[p])])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


def _is_phases(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _is_curve(value: Any) -> bool:
    return isinstance(value, list) and all(
        _is_numbers(point) and len(point) == 2 for point in value
    )


def _is_job(value: Any) -> bool:
    """Tell whether a job has what the report reads of it, or nothing in its place."""
    if not isinstance(value, dict):
        return False
    data, method = value.get("dataset") or {}, value.get("method") or {}
    return (
        isinstance(data, dict)
        and isinstance(method, dict)
        and isinstance(method.get("parameters") or {}, dict)
        and all(isinstance(data.get(name) or "", str) for name in ("table", "truth"))
        and _is_numbers(value.get("thresholds") or [])
        and all(_is_number(value.get(name) or 0) for name in ("snapshot_every", "seed"))
    )


_PARSED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "job": ("a run as a plan describes it", _is_job),
    "phase_seconds": ("a number for each phase", _is_phases),
    "phase_steps": ("a number for each phase", _is_phases),
    "curve": ("a list of pairs of numbers", _is_curve),
    "versions": ("a table of names and values", lambda value: isinstance(value, dict)),
    "machine": ("a table of names and values", lambda value: isinstance(value, dict)),
}


def _parsed(column: str, run: Any, value: Any) -> Any:
    """Return what a JSON column holds; None where it holds nothing."""
    if value is None or value == "" or (isinstance(value, float) and np.isnan(value)):
        return None
    found = value
    words, is_right = _PARSED[column]
    if isinstance(value, str | bytes):
        try:
            found = json.loads(value)
            # JSON can hold halves of characters, which no file can; curves are long and have none.
            found = found if column == "curve" else storable(found)
        except (ValueError, RecursionError):
            found = ...
    if found is None or (found is not ... and is_right(found)):
        return found
    raise DataError(
        f"The store holds {shortened(value)} in the column {column!r} of the table 'runs', for "
        f"run {shortened(run)}, where {words} belongs, as JSON. {CHANGED}"
    )


def _typed_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs with all columns there, numbers as floats, texts as text, JSON parsed."""
    frame = pd.DataFrame({"run": runs.get("run", pd.Series(dtype=object)).astype(object)})
    for column in _TEXTS:
        texts = runs.get(column, pd.Series("", index=runs.index)).astype(object)
        frame[column] = texts.where(texts.notna(), "").astype(str)
    for column in _NUMBERS:
        numbers = pd.to_numeric(runs[column], errors="coerce") if column in runs else np.nan
        frame[column] = pd.Series(numbers, index=frame.index, dtype=float)
    for column in ("started", "finished"):
        frame[column] = runs.get(column)
    for column in _PARSED:
        values = runs[column] if column in runs else [None] * len(runs)
        parsed = [_parsed(column, run, value) for run, value in zip(frame["run"], values)]
        frame[column] = pd.Series(parsed, index=frame.index, dtype=object)
    own = frame["graph"] == ""
    made = frame["graph"] + frame["k"].map("{:g}".format).astype(str)
    frame["family"] = made.where(~own, frame["dataset"])
    noise = frame["noise"].map({"gumbel": "Gumbel"}).fillna(frame["noise"].str.capitalize())
    frame["noise"] = (noise + "-" + frame["variance"]).where(~own, OWN_TABLE)
    frame["failed"] = frame["status"].isin(FAILED)
    frame["lambda1"] = [_lambda1(word, job) for word, job in zip(frame["word"], frame["job"])]
    return frame.reset_index(drop=True)


def _typed_scores(scores: pd.DataFrame) -> pd.DataFrame:
    columns = ["run", "snapshot", "weights", "directed", "threshold", "metric", "value"]
    frame = scores.reindex(columns=columns)
    for column in ("snapshot", "threshold", "value"):
        frame[column] = pd.to_numeric(frame[column], errors="coerce").astype(float)
    frame["directed"] = frame["directed"].fillna(1).astype(bool)
    return frame
