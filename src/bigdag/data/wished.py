"""A table as it is wished, but not refused: what is odd in it stays, to be looked at."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from bigdag.data.content import TextColumn
from bigdag.data.convert import FloatArray
from bigdag.data.copies import near_copies
from bigdag.data.missing import codes_to_missing, complete_rows
from bigdag.data.raw import Raw, chosen_names
from bigdag.data.scales import best_scale, column_facts
from bigdag.data.transforms import (
    Terms,
    adjusting_columns,
    adjusting_names,
    log1p,
    normal_scores,
    refuse_full,
    refuse_infinite,
    residuals,
)
from bigdag.data.wishes import Wishes
from bigdag.errors import DataWarning, ParameterError, few_names

__all__ = ["as_wished"]


def as_wished(raw: Raw, wishes: Wishes) -> Raw:
    """Do to a table what `prepare` does, in the same order; its values change.

    Text and other values that a fit refuses stay where no wish takes them out. Missing values stay,
    too, but for ``missing="drop"``. The values of text are needed where words stand for missing
    ones, and of the columns to adjust for.

    Parameters
    ----------
    raw : Raw
        The table as it came.
    wishes : Wishes
        What is wanted of it.

    Returns
    -------
    Raw
        The columns that are left.

    Examples
    --------
    >>> from bigdag.data.raw import raw_table
    >>> table = pd.DataFrame({"a": [1.0, -9.0, 2.0], "b": ["3", "?", "5"], "site": list("xyz")})
    >>> left = as_wished(raw_table(table), Wishes(drop="site", missing_code=[-9, "?"]))
    >>> left.names, left.X.tolist(), list(left.text)
    (('a', 'b'), [[1.0, 3.0], [nan, nan], [2.0, 5.0]], [])
    """
    if wishes.nothing:
        return raw
    if wishes.missing_code:
        raw = _without_codes(raw, wishes)
    effects = adjusting_names(
        raw, wishes.adjust, wishes.batch, "adjust (--adjust)", "batch (--batch)"
    )
    terms = adjusting_columns(raw, effects, wishes.batch)
    raw = _chosen(raw, wishes, effects)
    if raw.X.size and (terms or wishes.transform != "none"):
        refuse_infinite(raw.X, raw.names)
        _on_a_scale(raw, wishes.transform, Terms(terms).matrix(terms) if terms else None)
    if wishes.duplicates == "group" and raw.X.size:
        more = {raw.names[j] for group in near_copies(raw.X) for j in group[1:]}
        raw = raw.only([name for name in raw.names if name not in more])
    if wishes.missing == "drop" and raw.X.size:
        raw = _of_rows(raw, complete_rows(raw.X))
    return raw


def _without_codes(raw: Raw, wishes: Wishes) -> Raw:
    """Make codes missing values; text that becomes numbers by it comes last."""
    text, numbers = dict(raw.text), {}
    count = codes_to_missing(raw.X, wishes.numbers) if wishes.numbers else 0
    for name, column in raw.text.items() if wishes.words else ():
        if column.values is None:
            continue
        here = np.array([isinstance(v, str) and v.strip() in wishes.words for v in column.values])
        if not here.any():
            continue
        count += int(here.sum())
        left = column.values.copy()
        left[here] = None
        try:
            numbers[name] = np.array(pd.to_numeric(pd.Series(left)), dtype=np.float64)
        except (TypeError, ValueError):
            text[name] = _still_text(left)
        else:
            count += codes_to_missing(numbers[name][:, None], wishes.numbers)
            del text[name]
    if not count:
        shown = " or ".join([*(f"{x:g}" for x in wishes.numbers), *map(repr, wishes.words)])
        warnings.warn(
            f"no value is {shown}, which was to count as missing (--missing-code).",
            DataWarning,
            stacklevel=3,
        )
    if not numbers:
        return raw._replace(text=text)
    X = np.column_stack([raw.X, *numbers.values()])
    return raw._replace(X=np.asfortranarray(X), names=(*raw.names, *numbers), text=text)


def _still_text(values: npt.NDArray[np.object_]) -> TextColumn:
    """Return what is known of a column that holds other text than words for missing values."""
    there = np.flatnonzero(~np.asarray(pd.isna(values), dtype=bool))
    cells = pd.Series([str(v).strip() for v in values[there]])
    texts = np.flatnonzero(pd.to_numeric(cells, errors="coerce").isna())
    row = int(there[texts[0]]) if len(texts) else 0
    return TextColumn((row + 1, values[row]), max(len(texts), 1), max(len(there), 1), values)


def _chosen(raw: Raw, wishes: Wishes, effects: Sequence[str]) -> Raw:
    """Leave out the columns that are not to be kept, and those whose effect is taken out."""
    names = raw.all_names
    kept = chosen_names(names, wishes.keep, "keep (--keep)") if wishes.keep else list(names)
    dropped = set(chosen_names(names, wishes.drop, "drop (--drop)"))
    both = sorted(dropped & set(effects))
    if both:
        raise ParameterError(
            f"{few_names(both)} cannot be in drop and in batch or adjust: a column whose effect is "
            "taken out is left out afterwards."
        )
    gone = {*dropped, *effects}
    left = [name for name in kept if name not in gone]
    if not left and names:
        raise ParameterError(
            f"None of the {len(names):,} columns ({few_names(names)}) is left to look at: keep, "
            "drop, batch and adjust (--keep, --drop, --batch, --adjust) leave all of them out."
        )
    some = set(left)
    text = {name: column for name, column in raw.text.items() if name in some}
    return raw.only([name for name in left if name not in text])._replace(text=text)


def _on_a_scale(raw: Raw, transform: str, terms: FloatArray | None) -> None:
    """Take logarithms, effects out, and ranks, in this order, in place."""
    if transform == "auto":
        facts = column_facts(raw.X)
        if terms is None or 2 * np.count_nonzero(facts.counts) > len(raw.names):
            transform = best_scale(raw.X, facts).transform
            transform = "auto" if transform == "none" and terms is not None else transform
    if transform == "log1p":
        log1p(raw.X, raw.names)
    if terms is not None:
        refuse_full(terms, len(raw.X))
        residuals(raw.X, terms)
        if transform == "auto":
            transform = "none" if best_scale(raw.X).transform == "none" else "rank"
    if transform == "rank":
        normal_scores(raw.X)


def _of_rows(raw: Raw, rows: npt.NDArray[np.bool_]) -> Raw:
    """Keep some of the rows."""
    text = {
        name: TextColumn(
            column.example, column.texts, column.cells,
            None if column.values is None else column.values[rows],
        )
        for name, column in raw.text.items()
    }  # fmt: skip
    return raw._replace(X=np.asfortranarray(raw.X[rows]), text=text)
