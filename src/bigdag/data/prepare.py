"""What a table needs before it is learnt from, in one call: columns, effects, scale, gaps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bigdag.data import missing as gaps
from bigdag.data.checks import Finding, findings
from bigdag.data.copies import near_copies
from bigdag.data.dataset import (
    Dataset,
    Incomplete,
    as_dataset,
    centred_dataset,
    covariance_dataset,
)
from bigdag.data.names import default_names
from bigdag.data.raw import Raw, chosen_names, raw_table
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
from bigdag.data.wishes import Wishes, missing_codes
from bigdag.errors import DataError, MemoryLimitError, ParameterError, few_names
from bigdag.resources import memory_left

__all__ = ["Prepared", "prepare"]

# Takes the columns that become variables, whether they have names of their own, and the others.
Accept = Callable[[Sequence[str], bool, Sequence[str]], None]

_MENDED_BY_A_SCALE = ("skewed", "outliers", "counts", "many zeros", "units")
_LOOK_MEMORY = 128 * 2**20  # bytes that a look at a table takes at the most
_AUTOMATIC_EM = 30.0  # seconds, up to which EM is quick enough to be taken unasked


@dataclass(frozen=True)
class Prepared:
    """A table that can be learnt from, and what was done to it.

    Attributes
    ----------
    data : Dataset
        What learners take: samples, or a covariance matrix where values were missing. Its `about`
        holds what is below, so that a DAG and its file say what they were learnt from.
    notes : tuple of str
        What was done, a sentence each.
    groups : dict of str to tuple of str
        Columns that stand for others, which are nearly the same, and these.
    transform : str
        What was done to the values: "none", "rank" or "log1p".
    missing : str
        What was done about missing values; "error" where there were none.
    n_rows : int
        The rows of the table, before any was left out.
    left_out : tuple of str
        The columns of the table that are no variables, those in groups not among them.
    adjusted : tuple of str
        Those of them whose effect was taken out of the variables.
    findings : tuple
        What is odd in the table and was not mended, where that was asked for; see `check`.
    """

    data: Dataset
    notes: tuple[str, ...] = ()
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    transform: str = "none"
    missing: str = "error"
    n_rows: int = 0
    left_out: tuple[str, ...] = ()
    adjusted: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    def without_data(self) -> Prepared:
        """Return what was done, without the values."""
        return replace(self, data=replace(self.data, X=None, covariance=None))


def prepare(
    table: Any,
    *,
    transform: str = "none",
    missing: str = "error",
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    adjust: Sequence[str] = (),
    batch: str | None = None,
    duplicates: str = "keep",
    missing_code: float | str | Sequence[float | str] = (),
    memory_limit: float | str | None = None,
) -> Prepared:
    r"""Make of a table what learners take, and say what was done.

    Columns are chosen first. Then logarithms are taken, effects of other columns taken out, ranks
    taken, near copies joined, and last missing values dealt with.

    Parameters
    ----------
    table : array, data frame or Dataset, of shape (n_samples, n_features)
        Anything that a learner takes, also with missing values, and with columns of text that are
        left out or adjusted for.
    transform : {"none", "rank", "log1p", "auto"}, default="none"
        "rank": normal scores of ranks, for skewed columns and outliers. "log1p": log(1 + x), for
        counts. "auto": what the table needs, as `check` tells.
    missing : {"error", "pairwise", "em", "drop", "auto"}, default="error"
        "error": missing values are refused. "pairwise": correlations of the pairs that are there;
        with no more rows than columns, means take the place of missing values. "em": the Gaussian
        model of the highest likelihood, for up to 2,000 columns. "drop": rows with missing values
        are left out. "auto": "pairwise" while no column lacks more than a fifth, else they are
        refused; "em" in its place where the correlations of the pairs contradict each other, as
        happens with closely related columns, and EM takes less than about half a minute. These
        assume that values are missing at random.
    drop, keep : sequence of str
        Names, or globs such as "gene_*", of columns to leave out, and of the only ones to keep.
    adjust : sequence of str
        Names or globs of columns whose linear effect is taken out of all others: batches, age, sex.
        Text and categories have an effect for each group. They are left out afterwards.
    batch : str, optional
        The same for one column whose values are groups, also where they are numbers.
    duplicates : {"keep", "group", "error"}, default="keep"
        "group": of columns that are nearly the same (a correlation of 0.9999 or more, in size)
        one is kept, which stands for all. "error": they are refused.
    missing_code : float, str or sequence of these
        Numbers and words that stand for missing values wherever they are, such as -999 or "?".
        Empty cells, NA, NaN, null, None and the like are missing in any case.
    memory_limit : float or str, optional
        What the whole process may hold, in bytes or as in "4GB".

    Returns
    -------
    Prepared
        Its `data` go to a learner, its `notes` to whoever reads the answer.

    Raises
    ------
    DataError
        If the table cannot be learnt from, or not be prepared so; the message names the columns.
    ParameterError
        If a name is of no column, or wishes contradict each other.
    MemoryLimitError
        If it would need more memory than the limit.

    Warns
    -----
    DataWarning
        As from `as_dataset`.

    Examples
    --------
    >>> import pandas as pd
    >>> import bigdag
    >>> table = pd.DataFrame({
    ...     "plate": ["a", "a", "a", "b", "b", "b"],
    ...     "dose": [1.0, 2.0, 3.0, 11.0, 12.0, 13.0],
    ...     "pain": [5.0, None, 4.0, 7.0, 9.0, 8.0],
    ... })
    >>> found = bigdag.prepare(table, batch="plate", missing="drop")
    >>> found.data
    Dataset(n_samples=5, n_features=2, named=True)
    >>> print(*found.notes, sep="\n")
    The effect of 'plate' (2 groups) was taken out of the other 2 columns.
    1 of 6 rows was left out, for values are missing in it.
    """
    codes = missing_codes(missing_code)
    wishes = Wishes(transform, missing, drop, keep, adjust, batch, duplicates, codes)
    if isinstance(table, Dataset):
        return prepare_dataset(table, wishes, memory_limit)
    try:
        raw = raw_table(table, memory_limit, wishes.words)
    except MemoryLimitError:  # its moments may fit
        return prepare_dataset(as_dataset(table, memory_limit=memory_limit), wishes, memory_limit)
    return follow(raw, wishes, memory_limit)


def prepare_dataset(
    data: Dataset, wishes: Wishes, memory_limit: float | str | None = None
) -> Prepared:
    """Prepare a table that was checked already, or a covariance matrix."""
    if wishes.nothing:
        return Prepared(data, n_rows=data.n_samples)
    if data.X is None:
        return _of_covariance(data, wishes)
    found = follow(raw_table(data, memory_limit), wishes, memory_limit)
    return replace(found, data=replace(found.data, about=_after(data.about, found.data.about)))


def _after(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was done to a table in two goes."""
    both = {**before, **now}
    for name, nothing in (("transform", "none"), ("missing", "error")):
        both[name] = before.get(name, nothing) if now[name] == nothing else now[name]
    for name in ("prepared", "adjusted"):
        both[name] = [*before.get(name, ()), *now[name]]
    both["groups"] = {**before.get("groups", {}), **now["groups"]}
    both["batch"] = now.get("batch") or before.get("batch")
    both["missing_code"] = [*before.get("missing_code", ()), *now.get("missing_code", ())]
    return both


def follow(
    raw: Raw,
    wishes: Wishes,
    memory_limit: float | str | None = None,
    *,
    look: bool = False,
    accept: Accept | None = None,
) -> Prepared:
    """Prepare the columns of a table as it is wished; their values change.

    `look` says that what is odd in the table, and not mended by it, is wanted, too. `accept` may
    refuse the columns before any work on them.
    """
    notes: list[str] = []
    n_rows, columns = len(raw.X), raw.all_names
    if wishes.missing_code:
        notes.append(_decoded(raw, wishes))
    effects = adjusting_names(
        raw, wishes.adjust, wishes.batch, "adjust (--adjust)", "batch (--batch)"
    )
    chosen = _chosen(raw, wishes, effects)
    raw.refuse_text(chosen)
    terms = adjusting_columns(raw, effects, wishes.batch)
    used = {*chosen, *effects}
    left_out = [name for name in columns if name not in used]
    if left_out:
        notes.append(_left_out(left_out))
    if accept is not None:
        accept(chosen, raw.named, [*left_out, *effects])
    raw = raw.only(chosen)._replace(text={})
    if not raw.X.size:
        return Prepared(centred_dataset(raw.X, raw.names, raw.named))  # which refuses it
    if wishes.missing != "error" or wishes.transform != "none" or effects:
        refuse_infinite(raw.X, raw.names)
    refuse = _missing_refused(raw, wishes)
    if refuse is not None:  # before long work
        raise refuse
    odd = _looked_at(raw, memory_limit, notes) if look else []
    transform = _transformed(raw, wishes.transform, terms, notes)
    raw, groups = _joined(raw, wishes.duplicates, notes)
    data, how = _without_gaps(raw, wishes, notes, memory_limit)
    gone = {
        *(_MENDED_BY_A_SCALE if transform != "none" else ()),
        *(["batches", "sequence"] if terms else []),
        *(["near copies"] if wishes.duplicates == "group" else []),
        *(["missing values"] if wishes.missing != "error" else []),
    }
    about = {
        "transform": transform, "missing": how, "prepared": notes, "groups": groups,
        "adjusted": effects, "batch": wishes.batch, "missing_code": list(wishes.missing_code),
    }  # fmt: skip
    return Prepared(
        replace(data, about=about), tuple(notes), groups, transform, how, n_rows,
        (*left_out, *effects), tuple(effects),
        tuple(finding for finding in odd if finding.finding not in gone),
    )  # fmt: skip


def _decoded(raw: Raw, wishes: Wishes) -> str:
    """Make codes missing values, in place, and say how many there were; words are gone already."""
    count = raw.decoded + (gaps.codes_to_missing(raw.X, wishes.numbers) if wishes.numbers else 0)
    shown = " or ".join([*(f"{code:g}" for code in wishes.numbers), *map(repr, wishes.words)])
    if not count:
        return f"No value is {shown}, which was to count as missing (missing_code)."
    return f"{count:,} value{'s' * (count > 1)} of {shown} count{'s' * (count == 1)} as missing."


def _looked_at(raw: Raw, memory_limit: float | str | None, notes: list[str]) -> list[Finding]:
    """Return what is odd in a table, unless there is no memory to look."""
    if memory_left(memory_limit) < _LOOK_MEMORY:
        notes.append("The table was not checked for oddities, for lack of memory.")
        return []
    return findings(raw)


def _of_covariance(data: Dataset, wishes: Wishes) -> Prepared:
    """Choose columns of a covariance matrix; nothing else can be done to it."""
    possible = replace(wishes, missing="error")  # a covariance matrix misses nothing
    if wishes.transform == "auto":
        possible = replace(possible, transform="none")
    if possible != Wishes(drop=wishes.drop, keep=wishes.keep):
        raise ParameterError(
            "A covariance matrix can be prepared by keep and drop only. The rest needs samples."
        )
    raw = Raw(np.empty((0, data.n_features)), data.names, data.named, {})
    chosen = set(_chosen(raw, wishes, []))
    kept = [j for j, name in enumerate(data.names) if name in chosen]
    left_out = tuple(name for name in data.names if name not in chosen)
    notes = []
    if wishes.transform == "auto":
        notes.append("The values stay on their scale: to look for a better one takes the rows.")
    found = data
    if left_out:  # else there is no need of a second matrix
        notes.insert(0, _left_out(left_out))
        assert data.covariance is not None
        S = np.asfortranarray(data.covariance[np.ix_(kept, kept)])
        names = tuple(data.names[j] for j in kept)
        named = data.named or names != default_names(len(names))
        found = covariance_dataset(S, data.n_samples, names, named)
        rows = data.incomplete
        if rows is not None:
            rows = rows._replace(
                X=np.asfortranarray(rows.X[:, kept]),
                correlations=rows.correlations[np.ix_(kept, kept)],
            )
        found = replace(found, mean=data.mean[kept], incomplete=rows)
    now = {"transform": "none", "missing": "error", "prepared": notes, "groups": {}, "adjusted": []}
    about = _after(data.about, now)
    return Prepared(
        replace(found, about=about), tuple(notes), n_rows=data.n_samples, left_out=left_out
    )


def _left_out(names: Sequence[str]) -> str:
    return (
        f"{len(names):,} column{'s were' if len(names) > 1 else ' was'} left out: "
        f"{few_names(names)}."
    )


def _chosen(raw: Raw, wishes: Wishes, effects: Sequence[str]) -> list[str]:
    """Return the names of the columns that become variables."""
    names = raw.all_names
    chosen = chosen_names(names, wishes.keep, "keep (--keep)") if wishes.keep else list(names)
    dropped = set(chosen_names(names, wishes.drop, "drop (--drop)"))
    both = set(effects) & dropped
    if both:
        raise ParameterError(
            f"{few_names(sorted(both))} cannot be in drop and in batch or adjust: a column whose "
            "effect is taken out is left out afterwards."
        )
    dropped |= set(effects)
    chosen = [name for name in chosen if name not in dropped]
    if not chosen and names:
        raise ParameterError(
            f"None of the {len(names):,} columns ({few_names(names)}) is left to learn from: keep, "
            "drop, batch and adjust (--keep, --drop, --batch, --adjust) leave all of them out."
        )
    return chosen


def _transformed(raw: Raw, wanted: str, terms: dict[str, Any], notes: list[str]) -> str:
    """Take logarithms, effects out, and ranks, in this order, in place; return the transform.

    What is left of counts once effects are taken out has no logarithm; ranks before would bend
    what the effects add to.
    """
    transform, why = wanted, ""
    if wanted == "auto":
        facts = column_facts(raw.X)
        if not terms or 2 * np.count_nonzero(facts.counts) > len(raw.names):
            transform, why = best_scale(raw.X, facts)
    if transform == "log1p":
        log1p(raw.X, raw.names)
    if terms:
        found = Terms(terms)
        Z = found.matrix(terms)
        refuse_full(Z, len(raw.X))
        residuals(raw.X, Z)
        notes.append(_taken_out(found, len(raw.names)))
    if wanted == "auto" and transform in ("auto", "none") and terms:
        transform, why = best_scale(raw.X)
        transform = "rank" if transform == "log1p" else transform
    if transform == "rank":
        normal_scores(raw.X)
    words = {
        "rank": "Normal scores of ranks took the place of the values",
        "log1p": "Logarithms, log(1 + x), took the place of the values",
        "none": "The values stay on their scale",
    }
    if transform != "none" or wanted == "auto":
        notes.append(words[transform] + (f": {why}." if why else "."))
    return transform


def _taken_out(terms: Terms, d: int) -> str:
    parts = [repr(name) for name in terms.centre]
    parts += [f"{name!r} ({len(groups)} groups)" for name, groups in terms.categories.items()]
    shown = ", ".join(parts[:5]) + (f" and {len(parts) - 5} more" if len(parts) > 5 else "")
    return f"The effect of {shown} was taken out of the other {d:,} column{'s' * (d > 1)}."


def _joined(raw: Raw, wanted: str, notes: list[str]) -> tuple[Raw, dict[str, tuple[str, ...]]]:
    """Keep one of each group of columns that are nearly the same, or refuse them."""
    if wanted == "keep":
        return raw, {}
    found = near_copies(raw.X)
    if not found:
        return raw, {}
    groups = {raw.names[g[0]]: tuple(raw.names[j] for j in g[1:]) for g in found}
    shown = [f"({few_names([first, *rest])})" for first, rest in list(groups.items())[:3]]
    more = f" and {len(groups) - 3:,} more groups" if len(groups) > 3 else ""
    if wanted == "error":
        raise DataError(
            f"Columns are nearly the same as others: {', '.join(shown)}{more}. No data can tell "
            "which of them has the arcs. Keep one of each group: duplicates='group' "
            "(--duplicates group)."
        )
    gone = {name for rest in groups.values() for name in rest}
    notes.append(
        f"{len(gone):,} column{'s are' if len(gone) > 1 else ' is'} nearly the same as others, "
        f"which stand for the whole group: {', '.join(shown)}{more}."
    )
    return raw.only([name for name in raw.names if name not in gone]), groups


def _missing_refused(raw: Raw, wishes: Wishes) -> Exception | None:
    """Return why missing values cannot be dealt with as it is wished, or None."""
    if wishes.missing == "error":
        return None  # with all other values, when the table is checked
    counts = gaps.missing_counts(raw.X)
    n, d = raw.X.shape
    if not counts.any() or not n:
        return None
    worst = int(np.argmax(counts))
    if wishes.missing == "drop":
        left = int(gaps.complete_rows(raw.X).sum())
        if left < 2:
            return DataError(
                f"Every row but {left} of {n} misses a value, so that dropping rows leaves nothing "
                f"to learn from. Column {raw.names[worst]!r} misses most ({counts[worst]}). Leave "
                "such columns out (--drop), or use missing='pairwise' (--missing pairwise)."
            )
        return None
    try:
        gaps.refuse_empty(raw.X, raw.names)
    except DataError as error:
        return error
    if wishes.missing == "em" and d > gaps.LARGEST_EM:
        return gaps.too_many_for_em(d)
    if wishes.missing == "auto" and counts[worst] > gaps.MOST_MISSING * n:
        bad = np.flatnonzero(counts > gaps.MOST_MISSING * n)
        shown = ", ".join(f"{raw.names[j]!r} ({_percent(counts[j], n)})" for j in bad[:3])
        limit = _percent(gaps.MOST_MISSING, 1)
        said = (
            f"Column {raw.names[worst]!r} lacks {_percent(counts[worst], n)} of its values; the "
            f"limit is {limit}. Leave it out"
            if len(bad) == 1
            else f"{len(bad):,} of {d:,} columns lack more than {limit} of their values, the "
            f"limit: {shown}{f' and {len(bad) - 3:,} more' if len(bad) > 3 else ''}. Leave them out"
        )
        return DataError(
            f"{said} (--drop), or say what to do about missing values: missing='pairwise' "
            "(--missing pairwise) or missing='em' (--missing em)."
        )
    return None


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %"


def _without_gaps(
    raw: Raw, wishes: Wishes, notes: list[str], memory_limit: float | str | None
) -> tuple[Dataset, str]:
    """Make a Dataset of columns with missing values; also return how."""
    X, names, named = raw.X, raw.names, raw.named

    def samples(values: Any) -> Dataset:
        return centred_dataset(values, names, named, raw.tell_counts, raw.first_in_file)

    n, d = X.shape
    gone = int(gaps.missing_counts(X).sum()) if wishes.missing != "error" else 0
    if not gone:
        return samples(X), "error"
    what = f"{gone:,} of {n * d:,} values ({gone / (n * d):.1%}) are missing"
    if wishes.missing == "drop":
        whole = gaps.complete_rows(X)
        lost = n - int(whole.sum())
        notes.append(
            f"{lost:,} of {n:,} rows {'were' if lost > 1 else 'was'} left out, for values are "
            f"missing in {'them' if lost > 1 else 'it'}."
        )
        return samples(np.asfortranarray(X[whole])), "drop"
    if wishes.missing == "em":
        unknown = gaps.apart(X)
        data, _ = _around_gaps(X, names, named, "em", memory_limit)
        notes.append(
            f"{what}; the moments are those of the Gaussian model that makes the others most "
            f"likely (EM), and count as {data.n_samples:,} of {n:,} rows."
        )
        if unknown is not None:
            one, other, rows = unknown
            notes.append(
                f"{names[one]!r} and {names[other]!r} are both there {gaps.seen_in(rows)}: how "
                "they are related is taken from the other columns alone, and an arc between them "
                "cannot be seen. Leave one of them out to be sure: drop= (--drop)."
            )
        return data, "em"
    if n <= d:
        gaps.fill(X, names)
        notes.append(
            f"{what}, and count as the mean of their column, for the table has no more rows than "
            "columns; correlations become smaller by about the share of missing values."
        )
        return samples(X), "pairwise"
    quick = d <= gaps.LARGEST_EM and gaps.em_seconds(X) <= _AUTOMATIC_EM
    way = "pairwise or em" if wishes.missing == "auto" and quick else "pairwise"
    data, shaky = _around_gaps(X, names, named, way, memory_limit)
    if data.incomplete is not None and data.incomplete.missing == "em":
        notes.append(
            f"{what}. Correlations from pairs of present values contradict each other, as happens "
            "with closely related columns. So a Gaussian model was fitted to the present values "
            f"instead (EM); its moments count as {data.n_samples:,} of {n:,} rows. "
            "missing='pairwise' (--missing pairwise) is quicker."
        )
        return data, "em"
    notes.append(
        f"{what}; correlations are those of the pairs that are there, and count as "
        f"{data.n_samples:,} of {n:,} rows."
    )
    if shaky and d <= gaps.LARGEST_EM:
        notes.append(
            "Correlations from pairs of present values contradict each other: missing='em' "
            "(--missing em) is slower, and more accurate for closely related columns."
        )
    return data, "pairwise"


def _around_gaps(
    X: Any, names: tuple[str, ...], named: bool, missing: str, memory_limit: float | str | None
) -> tuple[Dataset, bool]:
    """Return the moments of X (n, d), which changes, with its rows where there is room for them.

    By "pairwise or em" they are EM's where those of the pairs contradict each other. Also tells
    whether they do not.
    """
    n, d = X.shape
    rows = X.copy(order="F") if memory_left(memory_limit) > 8 * (6 * n * d + 8 * d * d) else None
    began = time.perf_counter()
    way = missing.split()[0]
    found = gaps.moments_around(X, names, way, memory_limit)
    shaky = found.shaky
    if shaky and way != missing and rows is not None:
        way, began = "em", time.perf_counter()
        found = gaps.moments_around(rows.copy(order="F"), names, way, memory_limit)
    seconds = time.perf_counter() - began
    data = covariance_dataset(np.asfortranarray(found.covariance), found.n_samples, names, named)
    if rows is not None:
        rows.flags.writeable = False
    if rows is None:
        return replace(data, mean=found.mean), shaky
    kept = Incomplete(rows, way, seconds, _correlations(found.covariance))
    return replace(data, mean=found.mean, incomplete=kept), shaky


def _correlations(S: Any) -> Any:
    sd = np.sqrt(np.diagonal(S))
    inverse = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0)
    return S * np.outer(inverse, inverse)
