"""Settings in words: for titles, captions, alternative texts and the names of files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from bigdag.experiments.report.results import OWN_TABLE

__all__ = [
    "common", "in_words", "lettered", "letters", "plan_name", "plans", "said", "sheets", "slug",
    "timed", "title", "unanswered", "unit_words",
]  # fmt: skip


def plans(frame: pd.DataFrame) -> Iterator[tuple[tuple[str, str], pd.DataFrame]]:
    """Iterate over experiments with their presets, and their rows."""
    for key, part in frame.groupby(["experiment", "preset"], sort=False):
        yield (str(key[0]), str(key[1])), part


def lettered(frame: pd.DataFrame) -> Iterator[tuple[str, tuple[str, str], pd.DataFrame]]:
    """Iterate over experiments as `plans` does, with the letter of each one's figure."""
    parts = list(plans(frame))
    for letter, (plan, part) in zip(letters(len(parts)), parts):
        yield letter, plan, part


def _field(name: str, value: Any) -> str:
    if name in ("d", "n"):
        return f"{name} = {value:,.0f}" if pd.notna(value) else ""
    if name == "lambda1":
        return f"λ1 = {value:g}" if pd.notna(value) else "own λ1"
    if name == "units":
        return unit_words(str(value))
    return "" if value == OWN_TABLE else str(value)


def said(frame: pd.DataFrame, fields: Sequence[str]) -> pd.Series:
    """Return the words for some fields of each row."""
    if not fields:  # some versions of pandas give no rows where there are no columns
        return pd.Series("", index=frame.index, dtype=object)
    words = [
        ", ".join(filter(None, (_field(name, value) for name, value in zip(fields, row))))
        for row in frame[list(fields)].itertuples(index=False)
    ]
    return pd.Series(words, index=frame.index, dtype=object)


def common(frame: pd.DataFrame, fields: Sequence[str]) -> tuple[pd.Series, str]:
    """Return the words for what differs between rows, and for what all rows have in common."""
    differ = [name for name in fields if frame[name].nunique(dropna=False) > 1]
    same = [name for name in fields if name not in differ]
    return said(frame, differ), next(iter(said(frame, same)), "")


def timed(part: pd.DataFrame, fields: Sequence[str]) -> tuple[pd.DataFrame, str, str, bool]:
    """Return a frame of curves with panels and x, the words in common, and the axis of time."""
    panel, shared = common(part, fields)
    longest = part["seconds"].max()
    unit, seconds = next(
        (u for u in (("hours", 3600.0), ("minutes", 60.0)) if longest > 3 * u[1]), ("seconds", 1.0)
    )
    x = part["seconds"] / seconds
    shown = part.assign(panel=panel, x=x)[x > 0]
    log = bool(len(shown) and shown["x"].max() > 50 * shown["x"].min())
    return shown, shared, f"time, {unit}", log


def plan_name(plan: tuple[str, str]) -> str:
    """Return the name of an experiment with its preset."""
    return " ".join(filter(None, plan))


def title(shared: str, plan: tuple[str, str]) -> str:
    """Return the title of what a plan's rows have in common."""
    return " · ".join(filter(None, (shared, plan_name(plan))))


def unanswered(frame: pd.DataFrame) -> str:
    """Return a sentence on methods that have no answer in a frame of `Results.precision`.

    Examples
    --------
    >>> unanswered(pd.DataFrame({"method": ["GD"], "mean": [None], "cause": ["out_of_memory"]}))
    ' No run gave an answer: GD (out of memory).'
    """
    answered = set(frame.loc[frame["mean"].notna(), "method"])
    lost = frame[~frame["method"].isin(answered) & (frame["cause"] != "")]
    causes = lost.groupby("method", sort=False)["cause"].first()
    names = [f"{method} ({cause.replace('_', ' ')})" for method, cause in causes.items()]
    return f" No run gave an answer: {', '.join(names)}." if names else ""


def unit_words(units: str) -> str:
    """Return the words for the units of data."""
    return {"": "", "iscm": "iSCM data"}.get(units, f"{units} data")


def in_words(frame: pd.DataFrame) -> str:
    """Return which methods are best and worst in a frame of average precisions, units apart."""
    if not len(frame) or frame["method"].nunique() < 2:
        return ""
    parts = list(frame.groupby("units", sort=False)) if "units" in frame else [("", frame)]
    said = []
    for units, part in parts:
        means = part.dropna(subset=["mean"]).groupby("method")["mean"].mean().sort_values()
        if len(means) < 2:
            continue
        where = f" on {unit_words(str(units))}" if len(parts) > 1 else ""
        said.append(
            f"Highest on average{where}: {means.index[-1]} ({means.iloc[-1]:.2f}); lowest: "
            f"{means.index[0]} ({means.iloc[0]:.2f})."
        )
    return " ".join(said)


def sheets(frame: pd.DataFrame, most: int = 6) -> Iterator[pd.DataFrame]:
    """Split average precisions by noise; noises of the same sizes share what fits across a page.

    Noises of which no run has an average precision are left out.
    """
    shared: list[pd.DataFrame] = []

    def sizes(part: pd.DataFrame) -> set[tuple[float, float]]:
        return set(zip(part["d"], part["n"]))

    for _, part in frame.groupby("noise", sort=False):
        if not part["mean"].notna().any():
            continue
        across = sum(one["family"].nunique() for one in [*shared, part])
        if shared and (sizes(shared[0]) != sizes(part) or across > most):
            yield pd.concat(shared)
            shared = []
        shared.append(part)
    if shared:
        yield pd.concat(shared)


def letters(n: int) -> list[str]:
    """Return what tells the pictures of one figure apart."""
    if n == 1:
        return [""]
    return [chr(ord("a") + i) if i < 26 else f".{i + 1}" for i in range(n)]


def slug(*parts: str) -> str:
    """Return a name for files of some words.

    Examples
    --------
    >>> slug("figure1", "my plan", "", "Gaussian-EV")
    'figure1_my-plan_Gaussian-EV'
    """
    words = [re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-.") for part in parts]
    return "_".join(word[:40] for word in words if word)
