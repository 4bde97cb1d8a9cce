"""What is odd in a table, what it does to the answer, and what helps."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import betaincinv

from bigdag.data.cells import Categories, cell_advice, is_slip
from bigdag.data.convert import FloatArray, column_blocks
from bigdag.data.copies import near_copies
from bigdag.data.dataset import LARGEST
from bigdag.data.missing import MOST_MISSING, apart, likely_codes, missing_counts, seen_in
from bigdag.data.raw import Raw, raw_table
from bigdag.data.row_groups import RowGroups, row_groups
from bigdag.data.scales import Facts, Scale, best_scale, column_facts
from bigdag.data.sums import linear_relations
from bigdag.errors import few_names

__all__ = ["COLUMNS", "Finding", "as_frame", "check", "findings"]

_MANY_ZEROS = 0.3  # the share of values of a column that are exactly zero
_WIDE = 2  # times as many columns as rows are far more
_STRONG = 0.7  # a correlation
_UNITS, _MOST_UNITS = 1e3, 1e4  # ratios of deviations: of 5 and 95 %, of the least and largest
_ROW_COLUMNS = 64  # that tell whether two rows are the same
_MANY_REPEATS = 0.01  # of all rows
_FEWEST_ROWS = 10  # that tell a row number from chance
_TIMES = (
    datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64, pd.Period,
)  # fmt: skip
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}")
_ID_NAME = re.compile(
    r"(?i:(^|[_\W])(ids?|index|idx|row|key|uuid|barcode|no|nr|num|number|unnamed)([_\W]|$))"
    r"|[a-z](ID|Id|Index|Key|No)$|(?i:^(row|sample|patient|subject)(id|no|nr|number)$)"
)


class Finding(NamedTuple):
    """One oddity of a table."""

    finding: str  # one of a closed list of words
    severity: str  # "error": a fit refuses it; "warning": it harms the answer; "note"
    columns: tuple[str, ...]  # the columns it is found in; none where it is the table as a whole
    detail: str  # what was seen
    effect: str  # what it does to the answer
    remedy: str  # which option helps

    def sentence(self) -> str:
        """Return the finding in one line."""
        where = f" in {few_names(self.columns)}" if self.columns else ""
        return f"{self.finding}{where}: {self.detail}. {self.remedy}"


COLUMNS = ["finding", "severity", "n_columns", "columns", "detail", "effect", "remedy"]


def check(table: Any, memory_limit: float | str | None = None) -> pd.DataFrame:
    """Look at a table before learning from it.

    Parameters
    ----------
    table : array, data frame or Dataset, of shape (n_samples, n_features)
        Anything that a learner takes, also with text and missing values.
    memory_limit : float or str, optional
        What the whole process may hold, in bytes or as in "4GB".

    Returns
    -------
    DataFrame
        A row for each finding: what was found ("finding"), how bad it is ("severity": "error",
        "warning" or "note"), in how many columns and in which, what was seen ("detail"), what it
        does to the answer ("effect") and which option of `bigdag fit` and `bigdag.prepare` helps
        ("remedy"). The worst come first; there are no rows where nothing is odd.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import bigdag
    >>> x = np.random.default_rng(0).normal(size=(100, 2))
    >>> table = pd.DataFrame(x, columns=["a", "b"]).assign(one=1, site="north", row=range(100))
    >>> bigdag.check(table)[["finding", "severity", "columns"]]
        finding severity   columns
    0      text    error   (site,)
    1  row number  warning    (row,)
    2  constant     note    (one,)
    """
    return as_frame(findings(raw_table(table, memory_limit)))


def as_frame(found: Sequence[Finding]) -> pd.DataFrame:
    """Return findings as a data frame."""
    rows = [{**f._asdict(), "n_columns": len(f.columns)} for f in found]
    return pd.DataFrame(rows, columns=COLUMNS)


def findings(raw: Raw) -> list[Finding]:
    """Return what is odd in the columns of a table, the worst first; X is not changed."""
    found = list(_all(raw))
    return sorted(found, key=lambda f: ("error", "warning", "note").index(f.severity))


def _all(raw: Raw) -> Iterator[Finding]:
    yield from _text(raw)
    X, names = raw.X, raw.names
    n, d = X.shape
    if n < 2 or not d:
        yield Finding(
            "empty", "error", (), f"{n:,} row{'s' * (n != 1)} and {d:,} column{'s' * (d != 1)} of "
            "numbers", "a fit refuses the table", "Relations need two columns and many rows.",
        )  # fmt: skip
        return
    infinite, large = np.zeros(d, dtype=bool), np.zeros(d, dtype=bool)
    for part in column_blocks(n, d):
        size = np.abs(X[:, part])
        infinite[part] = np.isinf(size).any(axis=0)
        large[part] = ((size > LARGEST) & ~np.isinf(size)).any(axis=0)
    for word, chosen, seen, remedy in (
        ("infinite", infinite, "values are infinite", "Leave the columns out: --drop."),
        ("too large", large, f"values are beyond {LARGEST:.0e}, whose squares overflow",
         "Rescale the columns, or --transform rank."),
    ):  # fmt: skip
        if chosen.any():
            yield Finding(
                word, "error", _named(names, chosen), seen, "a fit refuses the table", remedy
            )
    if infinite.any() or large.any():  # the rest is looked at without them
        X = X.copy(order="F")
        X[:, infinite] = np.where(np.isinf(X[:, infinite]), np.nan, X[:, infinite])
        X[:, large] /= np.finfo(float).max / LARGEST
    facts = column_facts(X)
    yield from _missing(raw.X, names)
    yield from _codes(X, names)
    empty = facts.there == 0
    constant = ~empty & (facts.deviation <= 1e-13 * np.abs(facts.centre))
    if constant.any():
        yield Finding(
            "constant", "note", _named(names, constant), "all values are the same",
            "they get no arcs", "--drop leaves them out.",
        )  # fmt: skip
    small = ~(empty | constant) & (facts.deviation <= 1 / LARGEST)
    if small.any():
        yield Finding(
            "too small", "warning", _named(names, small),
            f"values vary by less than {1 / LARGEST:.0e}, whose squares vanish",
            "they get no arcs", "Rescale the columns, or --transform rank.",
        )  # fmt: skip
    live = ~(empty | constant)
    numbering = _row_numbers(X, names, facts) & live if raw.named else np.zeros(d, dtype=bool)
    if numbering.any():
        yield Finding(
            "row number", "warning", _named(names, numbering),
            "whole numbers that only rise or fall, count the rows, or are called so",
            "an ID becomes cause or effect of whatever drifts along the table",
            "Leave them out: --drop.",
        )  # fmt: skip
    groups = near_copies(X)
    if groups:
        columns = tuple(names[j] for group in groups for j in group)
        shown = "; ".join(few_names([names[j] for j in group]) for group in groups[:3])
        yield Finding(
            "near copies", "warning", columns,
            f"{len(groups):,} group{'s' * (len(groups) > 1)} of columns that are nearly the same: "
            f"{shown}",
            "no data can tell which of them has the arcs; chance decides",
            "--duplicates group makes one variable of each group.",
        )  # fmt: skip
    ordinary = live & ~numbering
    yield from _relations(X, names, live, groups)
    yield from _repeats(X, np.flatnonzero(ordinary & ~facts.whole))
    yield from _scales(X, names, facts, ordinary)
    yield from _batches(X, names, facts, ordinary, raw)
    if d < 2:
        yield Finding(
            "one column", "warning", _named(names, live), "there is no other to relate it with",
            "the graph has no arcs", "Relations need two columns and many rows.",
        )  # fmt: skip
    elif n < _FEWEST_ROWS:
        yield Finding(
            "few rows", "warning", (), f"{n:,} rows only",
            "whatever is found may be chance, and comes back in resamples for that reason",
            "Find more rows; ten for each column tell much more.",
        )  # fmt: skip
    elif d > _WIDE * n:
        by_chance = _largest_by_chance(n, int(live.sum()))
        yield Finding(
            "few rows", "warning" if by_chance > _STRONG else "note", (),
            f"{d:,} columns, but {n:,} rows, of which chance alone makes correlations of up to "
            f"{by_chance:.2f}",
            "only stronger relations can be told from chance, and weak arcs are missed",
            "Keep columns that matter: --keep; trust only the strongest arcs.",
        )  # fmt: skip
    yield from _units(names, facts, ordinary)


def _largest_by_chance(n: int, d: int) -> float:
    """Return the correlation that one pair of d unrelated Gaussian columns is expected to exceed.

    Of n samples, the square of a correlation has a beta distribution.

    Examples
    --------
    >>> round(_largest_by_chance(20, 300), 2), round(_largest_by_chance(1000, 300), 2)
    (0.8, 0.13)
    """
    pairs = max(d * (d - 1) / 2, 1)
    return float(np.sqrt(1 - betaincinv((n - 2) / 2, 0.5, 1 / pairs)))


def _relations(
    X: FloatArray, names: Sequence[str], live: npt.NDArray[np.bool_], copies: Sequence[Any]
) -> Iterator[Finding]:
    """Find totals and shares; of copies, which are told elsewhere, one is looked at."""
    looked_at = live.copy()
    for group in copies:
        looked_at[list(group)[1:]] = False
    groups = linear_relations(X, np.flatnonzero(looked_at))
    if groups:
        shown = "; ".join(few_names([names[j] for j in group], 12) for group in groups[:3])
        yield Finding(
            "sums", "warning", tuple(names[j] for group in groups for j in group),
            f"{len(groups):,} group{'s' * (len(groups) > 1)} of columns of which one follows "
            f"exactly from the others, as a total or the last of some shares does: {shown}",
            "no data can tell which of them follows from the others; arcs among them look sure and "
            "are arbitrary",
            "Leave out what is computed from others: --drop.",
        )  # fmt: skip


def _named(names: Sequence[str], chosen: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(names[int(j)] for j in np.flatnonzero(chosen))


def _text(raw: Raw) -> Iterator[Finding]:
    slips = tuple(x for x, column in raw.text.items() if is_slip(column.texts, column.cells))
    if slips:
        (row, value), texts = raw.text[slips[0]].example, sum(raw.text[x].texts for x in slips)
        yield Finding(
            "text among numbers", "error", slips,
            f"{texts:,} cell{'s are no numbers' if texts > 1 else ' is no number'}, "
            f"such as {str(value)[:40]!r} in row {row} of {slips[0]!r}",
            "a fit refuses the table", f"{cell_advice(value)} --drop leaves the columns out.",
        )  # fmt: skip
    rest = [x for x in raw.text if x not in slips]
    dates = tuple(name for name in rest if _is_date(raw.text[name].example[1]))
    for kind, columns in (("date", dates), ("text", tuple(x for x in rest if x not in dates))):
        if columns:
            row, value = raw.text[columns[0]].example
            yield Finding(
                kind, "error", columns,
                f"no numbers, but categories such as {value[0]!r} in {columns[0]!r}"
                if isinstance(value, Categories) and value else
                f"no numbers, such as {str(value)[:40]!r} in row {row} of {columns[0]!r}",
                "a fit refuses the table",
                "--drop leaves them out; --batch and --adjust take the effect of groups out."
                if kind == "text" else "--drop leaves them out; or make them numbers.",
            )  # fmt: skip


def _is_date(value: Any) -> bool:
    if isinstance(value, _TIMES):
        return True
    return isinstance(value, str) and _DATE.fullmatch(value.strip()) is not None


def _missing(X: FloatArray, names: Sequence[str]) -> Iterator[Finding]:
    n, there = len(X), len(X) - missing_counts(X)
    empty = there == 0
    if empty.any():
        yield Finding(
            "no values", "error", _named(names, empty), "every value is missing",
            "a fit refuses the table", "Leave them out: --drop.",
        )  # fmt: skip
    some = (there < n) & ~empty
    if some.any():
        worst = int(np.argmax(np.where(some, n - there, 0)))
        total = int((n - there[some]).sum())
        share = (n - there[worst]) / n
        seen = (
            f"{total:,} values ({total / X.size:.1%}) are missing, most of them in "
            f"{names[worst]!r} ({share:.0%})"
        )
        pair = apart(X[:, ~empty] if empty.any() else X)
        if pair is not None:
            one, other = (_named(names, ~empty)[j] for j in pair[:2])
            seen += f"; {one!r} and {other!r} are both there {seen_in(pair[2])}"
        yield Finding(
            "missing values", "warning", _named(names, some), seen,
            "named methods refuse the table" if share <= MOST_MISSING else
            "every method refuses the table, unless --missing says what to do",
            "--missing pairwise or em uses what is there; --missing drop leaves rows out."
            + ("" if pair is None else " Leave one of the two out: --drop."),
        )  # fmt: skip


def _codes(X: FloatArray, names: Sequence[str]) -> Iterator[Finding]:
    for code, columns, count in likely_codes(X):
        yield Finding(
            "missing code", "warning", tuple(names[j] for j in columns.tolist()),
            f"{code:g} is there {count:,} times, far from all other values",
            "it counts as measured, and decides on scales and arcs",
            f"If it stands for missing values, say so: --missing-code={code:g}.",
        )  # fmt: skip


def _row_numbers(X: FloatArray, names: Sequence[str], facts: Facts) -> npt.NDArray[np.bool_]:
    """Tell which columns look like an ID or the number of the row."""
    n, d = X.shape
    found = np.zeros(d, dtype=bool)
    if n < _FEWEST_ROWS:
        return found
    different = (facts.distinct == n) & (facts.there == n)
    for j in np.flatnonzero(different).tolist():
        column = X[:, j]
        steps = np.diff(column)
        monotone = bool((steps > 0).all() or (steps < 0).all())
        counting = bool(facts.whole[j] and column.max() - column.min() == n - 1)
        called = bool(facts.whole[j] and _ID_NAME.search(names[j]))
        found[j] = monotone or counting or called
    return found


def _repeats(X: FloatArray, measured: npt.NDArray[np.int64]) -> Iterator[Finding]:
    """Look for rows that are there more than once, in columns that are not whole numbers."""
    if len(measured) < 2:
        return
    some = measured[np.linspace(0, len(measured) - 1, min(_ROW_COLUMNS, len(measured))).astype(int)]
    rows = np.ascontiguousarray(X[:, some]) + 0.0  # without negative zeros
    rows = rows[~np.isnan(rows).all(axis=1)]
    different = len(np.unique(rows.view(np.dtype((np.void, rows.strides[0]))).ravel()))
    again = len(rows) - different
    if again >= max(2, _MANY_REPEATS * len(X)):
        yield Finding(
            "repeated rows", "warning", (),
            f"{again:,} of {len(X):,} rows are the same as an earlier one",
            "each counts as a sample of its own, so that chance looks like certainty",
            "Keep one row of each, or the mean of replicates.",
        )  # fmt: skip


# ------------------------------------------------------------------ scales and units


def _scales(
    X: FloatArray, names: Sequence[str], facts: Facts, ordinary: npt.NDArray[np.bool_]
) -> Iterator[Finding]:
    counts = facts.counts & ordinary
    skewed, far = facts.skewed & ordinary, (facts.far > 0) & ordinary
    several = facts.distinct > 2
    scale = best_scale(X, facts, ordinary) if ordinary.any() else None
    linear = scale is None or scale.transform == "none"
    help_ = _scale_words(scale)
    if counts.any() and 2 * np.count_nonzero(counts & skewed) > np.count_nonzero(counts):
        yield Finding(
            "counts", "note" if linear else "warning", _named(names, counts),
            "whole numbers from zero on, most of them skewed",
            "the noise of a count grows with it, which looks like arcs",
            "--transform log1p, or auto." if not linear else help_,
        )  # fmt: skip
    zeros = (facts.zeros > _MANY_ZEROS) & several & ordinary
    if zeros.any():
        yield Finding(
            "many zeros", "warning", _named(names, zeros),
            f"up to {facts.zeros[zeros].max():.0%} of the values are zero",
            "what zeros have in common, as a low depth of measurement, looks like a relation",
            "--transform rank or log1p, and leave out columns of zeros nearly only: --drop.",
        )  # fmt: skip
    for word, chosen, detail, effect in (
        ("skewed", skewed & several & ~counts, "values pile up on one side",
         "relations are bent, and look weaker than they are, or like several arcs"),
        ("outliers", far & several & ~counts, "",
         "a few values decide on arcs, and hide others"),
    ):  # fmt: skip
        if chosen.any():
            if word == "outliers":
                most = int(np.argmax(np.where(chosen, facts.far, 0)))
                detail = (
                    f"{int(facts.far[chosen].sum()):,} values are further out than those of a "
                    f"Gaussian column, most in {names[most]!r}"
                )
            severity = "note" if linear else "warning"
            yield Finding(word, severity, _named(names, chosen), detail, effect, help_)


def _scale_words(scale: Scale | None) -> str:
    if scale is None or scale.transform == "none":
        return "Relations with others are linear as they are; --transform rank if it is noise."
    return f"--transform {scale.transform}, or auto, which takes it."


def _units(
    names: Sequence[str], facts: Facts, ordinary: npt.NDArray[np.bool_]
) -> Iterator[Finding]:
    sd = facts.deviation[ordinary]
    if len(sd) < 2:
        return
    low, high = np.quantile(sd, [0.05, 0.95])
    if sd.max() > _MOST_UNITS * sd.min() or high > _UNITS * low:
        at = np.flatnonzero(ordinary)
        least, largest = names[at[int(np.argmin(sd))]], names[at[int(np.argmax(sd))]]
        yield Finding(
            "units", "note", (largest, least),
            f"standard deviations run from {sd.min():.2g} ({least!r}) to {sd.max():.2g} "
            f"({largest!r})",
            "methods of least squares take the column with the smaller unit as the cause",
            "--method order-search-bic does not depend on units; --standardise makes them equal.",
        )  # fmt: skip


# ------------------------------------------------------------------ batches


def _batches(
    X: FloatArray, names: Sequence[str], facts: Facts, ordinary: npt.NDArray[np.bool_], raw: Raw
) -> Iterator[Finding]:
    few = facts.distinct <= 20  # these may be what tells the groups apart
    several = ordinary & (facts.distinct > 2)
    groups = row_groups(X, np.flatnonzero(several), facts.skewed)
    if groups is None:
        return
    sizes = np.bincount(groups.labels)
    shares = ", ".join(f"{size / len(groups.labels):.0%}" for size in sizes)
    known = _telling_column(X, names, np.flatnonzero(ordinary & few), raw, groups)
    yield Finding(
        "batches", "warning", _named(names, groups.shifted),
        f"{len(sizes)} groups of rows ({shares}) differ in the mean of "
        f"{np.count_nonzero(groups.shifted):,} columns"
        + (f"; column {known!r} tells them apart" if known else ""),
        "what differs between groups looks like relations between all these columns",
        f"--batch {known}." if known else "--batch NAME, with a column that tells the groups.",
    )  # fmt: skip


def _telling_column(
    X: FloatArray,
    names: Sequence[str],
    few: npt.NDArray[np.int64],
    raw: Raw,
    groups: RowGroups,
) -> str | None:
    """Return a column with few values, of numbers or text, that tells the groups apart."""
    candidates = [(names[j], X[groups.rows, j]) for j in few.tolist()]
    candidates += [
        (name, column.values[groups.rows].astype(str))
        for name, column in raw.text.items()
        if column.values is not None
    ]
    best, chosen = 0.3, None
    for name, values in candidates:
        codes, found = pd.factorize(values)
        if not 2 <= len(found) <= 20:
            continue
        table = np.zeros((len(found) + 1, int(groups.labels.max()) + 1))
        np.add.at(table, (codes, groups.labels), 1)
        # Of the rows that do not have the commonest value, how many are in groups of another?
        mixed = table.sum() - table.max(axis=0).sum()
        mixed /= max(1.0, table.sum() - table.sum(axis=1).max())
        if mixed < best:
            best, chosen = mixed, name
    return chosen
