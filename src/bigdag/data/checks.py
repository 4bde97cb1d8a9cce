"""What is odd in a table, what it does to the answer, and what helps."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import betaincinv

from bigdag.data.cells import Categories, cell_advice, is_slip, refuse_columns
from bigdag.data.content import TextColumn
from bigdag.data.convert import FloatArray, column_blocks
from bigdag.data.copies import near_copies
from bigdag.data.dataset import LARGEST
from bigdag.data.missing import MOST_MISSING, apart, likely_codes, missing_counts, seen_in
from bigdag.data.raw import Raw, raw_table
from bigdag.data.row_groups import RowGroups, row_groups
from bigdag.data.row_order import RowOrder, in_runs, is_sorted, rows_in_sequence
from bigdag.data.scales import Facts, Scale, best_scale, column_facts
from bigdag.data.sums import linear_relations
from bigdag.errors import DataError, few_names

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
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}([T ].*)?"
    r"|\d{8}T\d{4,6}\S*|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[ap]m)?"
    rf"|([a-z]{{3,9}},? )?(\d{{1,2}}[ -])?({_MONTHS})[a-z]*[ .,-]+\d{{1,4}}.*",
    re.I,
)
_SIGN = re.compile(
    r"[+-]?\s*([$€£¥₹]\s*[+-]?[\d.,]*\d[\d.,]*|[\d.,]*\d[\d.,]*\s*[$€£¥₹%‰°])\s*[CFK]?"
)
_NESTED = re.compile(r"\s*[\[{(].*[\])}]\s*", re.S)
_LARGEST_WHOLE = 2.0**53  # from which on float64 does not tell whole numbers apart
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
            "table too small" if n and raw.all_names else "empty", "error", (),
            f"{n:,} row{'s' * (n != 1)} and {d or 'no'} column{'s' * (d != 1)} of numbers"
            + _as_long_as_text(raw),
            "a fit refuses the table", "Relations need two columns and many rows.",
        )  # fmt: skip
        return
    infinite, large = np.zeros(d, dtype=np.int64), np.zeros(d, dtype=bool)
    signs = [0, 0]  # how many values are inf and -inf
    for part in column_blocks(n, d):
        block = X[:, part]
        endless = np.isinf(block)
        infinite[part] = endless.sum(axis=0)
        if infinite[part].any():
            below = int(np.count_nonzero(block[endless] < 0))
            signs = [signs[0] + int(endless.sum()) - below, signs[1] + below]
        large[part] = ((np.abs(block) > LARGEST) & ~endless).any(axis=0)
    if infinite.any():
        yield _infinite(X, names, infinite, signs)
    if large.any():
        yield Finding(
            "too large", "error", _named(names, large),
            f"values are beyond {LARGEST:.0e}, whose squares overflow", "a fit refuses the table",
            "Rescale the columns, or --transform rank.",
        )  # fmt: skip
    unit = np.finfo(float).max / LARGEST  # of what is too large
    if infinite.any() or large.any():  # the rest is looked at without them
        X = X.copy(order="F")
        endless = np.flatnonzero(infinite)
        X[:, endless] = np.where(np.isinf(X[:, endless]), np.nan, X[:, endless])
        X[:, large] /= unit
    facts = column_facts(X)
    yield from _missing(raw.X, names)
    yield from _codes(X, names)
    empty = facts.there == 0
    constant = ~empty & (facts.deviation <= 1e-13 * np.abs(facts.centre))
    if constant.any():
        size = np.abs(facts.centre) * np.where(large, unit, 1.0)
        yield _constant(names, constant, constant & (size >= _LARGEST_WHOLE))
    small = ~(empty | constant) & (facts.deviation <= 1 / LARGEST)
    if small.any():
        yield Finding(
            "too small", "warning", _named(names, small),
            f"values vary by less than {1 / LARGEST:.0e}, whose squares vanish",
            "they get no arcs", "Rescale the columns, or --transform rank.",
        )  # fmt: skip
    live = ~(empty | constant)
    numbering = _row_numbers(X, names, facts) & live if raw.named else np.zeros(d, dtype=bool)
    ordinary = live & ~numbering
    order = rows_in_sequence(X, np.flatnonzero(ordinary), facts)
    if numbering.any():
        yield Finding(
            "row number", "warning", _named(names, numbering),
            "whole numbers that only rise or fall, count the rows, or are called so",
            "an ID becomes cause or effect of whatever drifts along the table",
            "Leave them out: --drop." if order is None else
            "Leave an ID out: --drop. Of a time take the effect out: --adjust.",
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
    yield from _relations(X, names, live, groups)
    yield from _repeats(X, np.flatnonzero(ordinary & ~facts.whole))
    yield from _scales(X, names, facts, ordinary)
    yield from _rows_together(X, raw, facts, ordinary, numbering, order)
    if d < 2:
        yield Finding(
            "one column", "warning", _named(names, live),
            f"there is no other to relate it with{_as_long_as_text(raw)}",
            "the graph has no arcs" if not raw.text else "the graph of it alone has no arcs",
            "Relations need two columns and many rows.",
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
    yield from _units(names, facts.deviation * np.where(large, unit, 1.0), ordinary)


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


def _as_long_as_text(raw: Raw) -> str:
    """Say that there may be more columns of numbers, where columns hold text."""
    if not raw.text:
        return ""
    return f", as long as {few_names(list(raw.text))} hold{'s' * (len(raw.text) == 1)} text"


def _infinite(
    X: FloatArray, names: Sequence[str], counts: npt.NDArray[np.int64], signs: Sequence[int]
) -> Finding:
    total, j = int(counts.sum()), int(np.argmax(counts > 0))
    row = int(np.argmax(np.isinf(X[:, j])))
    codes = [f"--missing-code={code}" for code, n in zip(("inf", "-inf"), signs) if n]
    return Finding(
        "infinite", "error", _named(names, counts > 0),
        f"{total:,} value{'s are' if total > 1 else ' is'} infinite, the first in row {row + 1:,} "
        f"of {names[j]!r}",
        "a fit refuses the table",
        f"To count {'them' if total > 1 else 'it'} as missing: {' '.join(codes)}. --drop leaves "
        "the columns out.",
    )  # fmt: skip


def _constant(
    names: Sequence[str], constant: npt.NDArray[np.bool_], vague: npt.NDArray[np.bool_]
) -> Finding:
    """Return the finding of constant columns, some of which may only be so in float64."""
    if not vague.any():
        return Finding(
            "constant", "note", _named(names, constant), "all values are the same",
            "they get no arcs", "--drop leaves them out.",
        )  # fmt: skip
    which = "" if (vague == constant).all() else f"; those in {few_names(_named(names, vague))}"
    return Finding(
        "constant", "warning", _named(names, constant),
        f"all values are the same in float64{which or ', but'} are so large that they may differ "
        "in the table by less than float64 can tell",
        "they get no arcs",
        "Subtract what the large numbers have in common before they become float64, as in the "
        "file; --drop leaves columns out.",
    )  # fmt: skip


# ------------------------------------------------------------------ text


def _text(raw: Raw) -> Iterator[Finding]:
    slips = [x for x, column in raw.text.items() if is_slip(column.texts, column.cells)]
    line = _in_one_line(raw, slips)
    if line:
        yield _line_of_text(raw, line)
    slips = [x for x in slips if x not in line]
    if slips:
        (row, value), texts = raw.text[slips[0]].example, sum(raw.text[x].texts for x in slips)
        words = list(dict.fromkeys(str(raw.text[x].example[1]).strip() for x in slips))
        others = (
            f" Other such cells are {few_names(words[1:])}; --missing-code may be given several "
            "times."
            if len(words) > 1 else ""
        )  # fmt: skip
        yield Finding(
            "text among numbers", "error", tuple(slips),
            f"{texts:,} cell{'s are no numbers' if texts > 1 else ' is no number'}, "
            f"such as {str(value)[:40]!r} in row {row} of {slips[0]!r}",
            "a fit refuses the table",
            f"{cell_advice(value)}{others} --drop leaves the columns out.",
        )  # fmt: skip
    kinds: dict[str, list[str]] = {word: [] for word in _TEXT_REMEDIES}
    for name, column in raw.text.items():
        if not is_slip(column.texts, column.cells):
            kinds[_kind_of_text(name, column)].append(name)
    separator = "" if kinds["date"] else _other_separator(raw)
    if separator:
        kinds = {"text": list(raw.text)}
    for word, columns in kinds.items():
        if columns:
            row, value = raw.text[columns[0]].example
            yield Finding(
                word, "error", tuple(columns),
                f"no numbers, but categories such as {value[0]!r} in {columns[0]!r}"
                if isinstance(value, Categories) and value else
                f"no numbers, such as {str(value)[:40]!r} in row {row} of {columns[0]!r}",
                "a fit refuses the table", separator or _TEXT_REMEDIES[word],
            )  # fmt: skip


_TEXT_REMEDIES = {
    "date": "Make numbers of them first, as the days since the first one; --drop leaves them out.",
    "ID": "Nearly every row has a value of its own, which is nothing to learn from: --drop.",
    "sign beside numbers": "Take the signs out of the file, so that numbers are left; --drop "
    "leaves the columns out.",
    "nested values": "Give each entry a column of its own; --drop leaves the columns out.",
    "text": "--drop leaves them out; --batch and --adjust take the effect of groups out.",
}


def _kind_of_text(name: str, column: TextColumn) -> str:
    """Return what a column of text holds, by its values, or by its example where that is all."""
    value = column.example[1]
    if _is_date(value):
        return "date"
    if isinstance(value, list | tuple | dict | set | np.ndarray) and not isinstance(
        value, Categories
    ):
        return "nested values"
    if isinstance(value, str) and _SIGN.fullmatch(value.strip()):
        return "sign beside numbers"
    if isinstance(value, str) and _NESTED.fullmatch(value):
        return "nested values"
    if column.values is None:
        return "ID" if _ID_NAME.search(name) else "text"
    there = column.values[~np.asarray(pd.isna(column.values), dtype=bool)]
    groups = Counter(str(value) for value in there.tolist())
    alone = sum(count == 1 for count in groups.values())
    return "ID" if len(there) >= _FEWEST_ROWS and 2 * alone > len(there) else "text"


def _in_one_line(raw: Raw, slips: Sequence[str]) -> list[str]:
    """Return the columns of numbers whose text is in one line, as that of units is.

    That is a line that holds all there is of text among numbers, or a first line that holds text in
    most of the columns that have any.
    """
    rows = Counter(raw.text[x].example[0] for x in slips)
    if not rows:
        return []
    row, count = rows.most_common(1)[0]
    whole = count == len(slips) and all(raw.text[x].texts == 1 for x in slips)
    if count < 2 or not (whole or (row == 1 and 2 * count > len(slips))):
        return []
    return [x for x in slips if raw.text[x].example[0] == row]


def _line_of_text(raw: Raw, columns: Sequence[str]) -> Finding:
    """Return the finding of text in one line, in the words of the error that a fit ends with."""
    said = ""
    try:
        refuse_columns(
            range(len(columns)), columns, lambda j: raw.text[columns[j]].example,
            len(raw.all_names), lambda j: (1, raw.text[columns[j]].cells),
        )  # fmt: skip
    except DataError as error:
        said = str(error)
    detail, _, remedy = said.rpartition(". ")
    return Finding(
        "text among numbers", "error", tuple(columns), detail, "a fit refuses the table", remedy
    )


def _other_separator(raw: Raw) -> str:
    """Return the advice of a fit on a table that was read as one column, or nothing."""
    if len(raw.all_names) != 1:
        return ""
    try:
        raw.refuse_text(raw.all_names)
    except DataError as error:
        found = re.search(
            r"If [^ ]+(?: tab)? separates its cells, .*? above the names\.", str(error)
        )
        return found[0] if found else ""
    return ""


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
    names: Sequence[str], deviation: FloatArray, ordinary: npt.NDArray[np.bool_]
) -> Iterator[Finding]:
    sd = deviation[ordinary]
    if len(sd) < 2:
        return
    low, high = np.quantile(sd, [0.05, 0.95])
    if sd.max() / _MOST_UNITS > sd.min() or high / _UNITS > low:  # products overflow
        at = np.flatnonzero(ordinary)
        least, largest = names[at[int(np.argmin(sd))]], names[at[int(np.argmax(sd))]]
        yield Finding(
            "units", "note", (largest, least),
            f"standard deviations run from {sd.min():.2g} ({least!r}) to {sd.max():.2g} "
            f"({largest!r})",
            "methods of least squares take the column with the smaller unit as the cause",
            "--method order-search-bic does not depend on units; --standardise makes them equal.",
        )  # fmt: skip


# ------------------------------------------------------------------ rows that belong together


def _rows_together(
    X: FloatArray,
    raw: Raw,
    facts: Facts,
    ordinary: npt.NDArray[np.bool_],
    numbering: npt.NDArray[np.bool_],
    order: RowOrder | None,
) -> Iterator[Finding]:
    """Find groups of rows that differ, and rows that follow on from each other.

    Where a sequence is there, its parts differ in mean, too: groups are then told only if a column
    tells them apart. Where that column is the reason for the sequence, they are all that is told.
    """
    names = raw.names
    few = facts.distinct <= 20  # these may be what tells the groups apart
    several = ordinary & (facts.distinct > 2)
    groups = row_groups(X, np.flatnonzero(several), facts.skewed)
    known = None
    if groups is not None:
        known = _telling_column(X, names, np.flatnonzero(ordinary & few), raw, groups)
        if known is not None or order is None:
            sizes = np.bincount(groups.labels)
            shares = ", ".join(f"{size / len(groups.labels):.0%}" for size in sizes)
            yield Finding(
                "batches", "warning", _named(names, groups.shifted),
                f"{len(sizes)} groups of rows ({shares}) differ in the mean of "
                f"{np.count_nonzero(groups.shifted):,} columns"
                + (f"; column {known!r} tells them apart" if known else ""),
                "what differs between groups looks like relations between all these columns",
                f"--batch {known}." if known else
                "--batch NAME, with a column that tells the groups.",
            )  # fmt: skip
    if order is None:
        return
    by_groups = _run_of_groups(X, raw, facts, order)
    if by_groups is not None and known is not None:
        return
    yield _sequence(X, names, numbering, order, by_groups)


def _run_of_groups(X: FloatArray, raw: Raw, facts: Facts, order: RowOrder) -> str | None:
    """Return a column of groups, by which the rows are sorted, that is behind a sequence."""
    few = np.flatnonzero((facts.distinct >= 2) & (facts.distinct <= 20))
    candidates: list[tuple[str, Any]] = [
        (raw.names[j], X[:, j]) for j in few.tolist() if is_sorted(X[:, j])
    ]
    candidates += [
        (name, np.array([None if pd.isna(v) else str(v) for v in column.values], dtype=object))
        for name, column in raw.text.items()
        if column.values is not None and _kind_of_text(name, column) == "text"
    ]
    for name, values in candidates:
        groups = in_runs(values)
        if groups is not None and order.follow_groups(groups):
            return name
    return None


def _sequence(
    X: FloatArray,
    names: Sequence[str],
    numbering: npt.NDArray[np.bool_],
    order: RowOrder,
    by_groups: str | None,
) -> Finding:
    """Return the finding of rows that follow on from each other, with its reason where known."""
    strongest = int(np.argmax(order.correlations))
    columns = tuple(names[j] for j in order.columns.tolist())
    detail = (
        f"in {len(columns):,} columns the value of the next row is correlated with that of this "
        f"one, by up to {order.correlations[strongest]:.2f} in {columns[strongest]!r}"
    )
    if by_groups is not None:
        return Finding(
            "sequence", "warning", columns,
            f"{detail}; the rows are sorted by {by_groups!r}, and are in no sequence within its "
            "groups",
            "what differs between groups looks like relations between all these columns",
            f"--batch {by_groups}.",
        )  # fmt: skip
    likely = np.concatenate([np.flatnonzero(numbering), order.columns[order.correlations > 0.5]])
    for j in likely.tolist():
        if is_sorted(X[:, j]) and order.follow_numbers(X[:, j]):
            name = names[j]
            return Finding(
                "sequence", "warning" if numbering[j] else "note", columns,
                f"{detail}; the rows are sorted by {name!r}, and that is the reason",
                f"without {name!r}, whatever changes along it looks like arcs between the others",
                f"If {name!r} is a time, or the place in a run, take its effect out: --adjust "
                f"{name}. If it is a variable as others are, keep it: to sort the rows by it does "
                "no harm.",
            )  # fmt: skip
    step = order.step()
    every = "" if step is None else f", or from every {_ordinal(step)} row"
    return Finding(
        "sequence", "warning", columns, detail,
        "rows that follow on from each other count as far fewer than there are, and chance looks "
        "like arcs",
        f"Learn from the differences of successive rows{every}. If columns only drift with time, "
        "write the time into a column, as a number, and take its effect out: --adjust NAME. If the "
        "rows are only sorted by groups, write these into a column: --batch NAME.",
    )  # fmt: skip


def _ordinal(number: int) -> str:
    """Return a whole number above one as an ordinal.

    Examples
    --------
    >>> _ordinal(2), _ordinal(3), _ordinal(30)
    ('2nd', '3rd', '30th')
    """
    return f"{number}{ {2: 'nd', 3: 'rd'}.get(number, 'th') }"


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
