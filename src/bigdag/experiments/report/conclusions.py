"""What a report comes to, in sentences: they are made from the numbers, and stand before them.

Data in different units are never averaged together, and means compare only methods that have an
answer in the same settings.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bigdag.experiments.report import words
from bigdag.experiments.report.results import SETTING, Results

__all__ = ["conclusions"]

_SAME = 0.01  # average precisions that are no further apart count as the same
_RISING = 0.02  # what a method gains in the last third of its time if it has not settled


def conclusions(results: Results) -> list[str]:
    """Return the report's conclusions, a sentence or a few each.

    Examples
    --------
    >>> conclusions(Results.of(pd.DataFrame(), pd.DataFrame()))
    ['Nothing has been run yet.']
    """
    if not len(results.runs):
        return ["Nothing has been run yet."]
    said = [
        *_best(results), *_units(results), *_time(results), *_size(results), *_memory(results),
        _failures(results),
    ]  # fmt: skip
    if not results.runs["ap"].notna().any():
        said.insert(0, "No run has an average precision, so there is nothing to compare.")
    return said


def _complete(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return settings by methods, of methods with all settings; and the names of the others."""
    setting = [name for name in SETTING if name in frame]
    table = frame.pivot_table(
        index=setting, columns="method", values="mean", dropna=False, sort=False, aggfunc="mean",
        observed=True,
    )  # fmt: skip
    table = table.dropna(how="all")
    whole = table.notna().all()
    return table.loc[:, whole], list(table.columns[~whole])


def _named(means: pd.Series) -> str:
    """Return methods with their means in words."""
    return _listed([f"{method} ({mean:.2f})" for method, mean in means.items()])


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""


def _best(results: Results) -> Iterator[str]:
    frame = results.precision(results.figure_runs(1))
    for plan, part in words.plans(frame):
        for units, one in part.groupby("units", sort=False):
            table, others = _complete(one)
            means = table.mean().sort_values(ascending=False, kind="stable")
            if len(means) < 2:
                continue
            kind = words.unit_words(str(units)) or "these data"
            count = f"{len(table)} setting{'s' * (len(table) != 1)}"
            text = (
                f"On {kind} ({', '.join(filter(None, (words.plan_name(plan), count)))}) the "
                f"highest average precision has {_named(means.iloc[:1])}, before "
                f"{_named(means.iloc[1:3])}; the lowest {_named(means.iloc[-1:])}."
            )
            yield text + _trivial(results, means) + _left_out(others)


def _trivial(results: Results, means: pd.Series) -> str:
    """Return a sentence on how many methods do no better than sorting columns."""
    word_of = results.runs.drop_duplicates("method").set_index("method")["word"]
    sorting = [m for m in means.index if word_of[m] == "sort-variance"]
    if not sorting:
        return ""
    rivals = [
        m for m in means.index if not word_of[m].startswith("sort-") and word_of[m] != "empty"
    ]
    level = means[sorting[0]]
    beaten = sum(means[m] <= level + _SAME for m in rivals)
    return (
        f" {sorting[0]}, which learns nothing but an order of columns, comes to {level:.2f}: "
        f"{beaten} of the {len(rivals)} methods that do not sort are no better."
    )


def _left_out(others: list[str]) -> str:
    return f" Without an answer in some setting: {_listed(others)}." if others else ""


def _units(results: Results) -> Iterator[str]:
    frame = results.units()
    for plan, part in words.plans(frame):
        keys = [name for name in SETTING if name != "units"]
        table = part.pivot_table(index=[*keys, "method"], columns="units", values="mean")
        if not {"raw", "standardised"} <= set(table):
            continue
        both = table[["raw", "standardised"]].dropna().groupby("method", sort=False).mean()
        both = both[both["raw"] > 0.1]
        if len(both) < 2:
            continue
        kept = (both["standardised"] / both["raw"]).sort_values(kind="stable")
        worst, best = kept.index[0], kept.index[-1]
        yield (
            f"On the same models, raw and then standardised ({words.plan_name(plan)}), {worst} "
            f"falls most, from {both['raw'][worst]:.2f} to {both['standardised'][worst]:.2f}, and "
            f"{best} keeps most, {both['standardised'][best]:.2f} of {both['raw'][best]:.2f}; "
            f"{int((kept < 0.5).sum())} of {len(kept)} methods lose more than half. What they "
            "lose they read off the units."
        )


def _time(results: Results) -> Iterator[str]:
    frame = results.over_time(results.figure_runs(2))
    for plan, part in words.plans(frame):
        settled: dict[str, float] = {}
        rising: dict[str, float] = {}
        for method, mine in part.groupby("method", sort=False):
            times, gains = [], []
            for _, curve in mine.groupby(SETTING, dropna=False, sort=False):
                seconds, mean = curve["seconds"].to_numpy(), curve["mean"].to_numpy()
                times.append(float(seconds[np.argmax(mean >= mean[-1] - _SAME)]))
                late = np.flatnonzero(seconds <= seconds[-1] * 2 / 3)
                gains.append(float(mean[-1] - mean[late[-1]]) if len(late) else 0.0)
            settled[str(method)], rising[str(method)] = max(times), float(np.mean(gains))
        climbing = [m for m, gain in rising.items() if gain > _RISING]
        early = sorted((s, m) for m, s in settled.items() if m not in climbing)
        parts = []
        if early:
            last = early[-1]
            parts.append(
                f"{len(early)} of {len(settled)} methods are within {_SAME} of their last average "
                f"precision after {last[0]:.2g} s at the most"
            )
        if climbing:
            parts.append(
                "still rising at the end "
                + ("is " if len(climbing) == 1 else "are ")
                + _listed([f"{m} (by {rising[m]:.2f} in the last third)" for m in climbing])
            )
        if parts:
            yield f"Over time ({words.plan_name(plan)}), {'; '.join(parts)}."


def _size(results: Results) -> Iterator[str]:
    frame = results.precision(results.figure_runs(3))
    for plan, part in words.plans(frame):
        for units, one in part.groupby("units", sort=False):
            same = ["noise", "family", "n"]
            several = one.groupby(same, dropna=False)["d"].transform("nunique") > 1
            table, _ = _complete(one[several])
            if table.shape[1] < 2 or not len(table):
                continue
            sizes = table.index.get_level_values("d")
            first, last = table[sizes == sizes.min()].mean(), table[sizes == sizes.max()].mean()
            lost = (first - last).sort_values(kind="stable")
            lost = lost[first[lost.index] > 0.1]
            if len(lost) < 2:
                continue
            best, worst = lost.index[0], lost.index[-1]
            kind = ", ".join(filter(None, (words.plan_name(plan), words.unit_words(str(units)))))
            yield (
                f"From {sizes.min():,.0f} to {sizes.max():,.0f} variables ({kind}) {worst} loses "
                f"most, from {first[worst]:.2f} to {last[worst]:.2f}; {best} least, from "
                f"{first[best]:.2f} to {last[best]:.2f}."
            )


def _memory(results: Results) -> Iterator[str]:
    runs = results.figure_runs(3)
    table = results.resources(runs if len(runs) else results.runs)
    for plan, part in words.plans(table):
        largest = part[part["d"] == part["d"].max()].groupby("method")["peak_gb"].max().dropna()
        if len(largest) < 2:
            continue
        ranked = largest.sort_values(kind="stable")
        yield (
            f"At {part['d'].max():,.0f} variables ({words.plan_name(plan)}) the runs took from "
            f"{ranked.iloc[0]:.2f} GB ({ranked.index[0]}) to {ranked.iloc[-1]:.2f} GB "
            f"({ranked.index[-1]})."
        )


def _failures(results: Results) -> str:
    runs = results.runs
    failed = runs[runs["failed"]]
    if not len(failed):
        return f"No run failed, of {len(runs):,}."
    counts = failed.groupby(["method", "status"], sort=False).size()
    method, status = counts.index.to_list()[int(counts.to_numpy().argmax())]
    most = int(counts.max())
    times = f"{most:,} time{'s' * (most != 1)}"
    return (
        f"{len(failed):,} of {len(runs):,} runs failed, most often {method} "
        f"({status.replace('_', ' ')}, {times})."
    )
