"""What is wanted of a table, checked before it is read: the words that `prepare` takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bigdag.errors import ParameterError, few_names

__all__ = ["DUPLICATES", "MISSING", "TRANSFORMS", "Wishes", "missing_codes"]

TRANSFORMS = ("none", "rank", "log1p", "auto")
MISSING = ("error", "pairwise", "em", "drop", "auto")
DUPLICATES = ("keep", "group", "error")


@dataclass(frozen=True)
class Wishes:
    """What is wanted of a table, checked before it is read; see `prepare`.

    Examples
    --------
    >>> Wishes(transform="ranks")
    Traceback (most recent call last):
        ...
    bigdag.errors.ParameterError: transform must be one of 'none', 'rank', 'log1p', 'auto'. ...
    """

    transform: str = "none"
    missing: str = "error"
    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    adjust: Sequence[str] = ()
    batch: str | None = None
    duplicates: str = "keep"
    missing_code: Sequence[float | str] = ()

    def __post_init__(self) -> None:
        for name, allowed in (
            ("transform", TRANSFORMS), ("missing", MISSING), ("duplicates", DUPLICATES),
        ):  # fmt: skip
            given = getattr(self, name)
            if given not in allowed:
                words = ", ".join(repr(word) for word in allowed)
                raise ParameterError(f"{name} must be one of {words}. Got {given!r} instead.")
        for name in ("drop", "keep", "adjust"):
            given = getattr(self, name)
            patterns = (given,) if isinstance(given, str) else tuple(given)
            if not all(isinstance(pattern, str) and pattern for pattern in patterns):
                raise ParameterError(f"{name} must be names of columns. Got {given!r} instead.")
            object.__setattr__(self, name, patterns)
        if self.batch is not None and not (isinstance(self.batch, str) and self.batch):
            raise ParameterError(f"batch must be the name of a column. Got {self.batch!r} instead.")
        object.__setattr__(self, "missing_code", missing_codes(self.missing_code))
        effects = {*self.adjust, *([self.batch] if self.batch else [])}
        for one, other, both in (
            ("drop", "keep", {*self.drop} & {*self.keep}),
            ("drop", "batch or adjust", {*self.drop} & effects),
            ("keep", "batch or adjust", {*self.keep} & effects),
        ):
            if both:
                raise ParameterError(
                    f"{few_names(sorted(both))} cannot be in {one} and in {other}: a column whose "
                    "effect is taken out is left out afterwards."
                    if "batch" in other
                    else f"{few_names(sorted(both))} cannot be in {one} and in {other}."
                )

    @property
    def nothing(self) -> bool:
        """Whether the table stays as it is."""
        return self == Wishes()

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers that stand for missing values."""
        return tuple(code for code in self.missing_code if not isinstance(code, str))

    @property
    def words(self) -> tuple[str, ...]:
        """The words that stand for missing values."""
        return tuple(code for code in self.missing_code if isinstance(code, str))

    @property
    def of_text(self) -> tuple[str, ...]:
        """The patterns of columns whose text is needed."""
        return (*self.adjust, *([self.batch] if self.batch else []))


def missing_codes(given: Any) -> tuple[float | str, ...]:
    """Return the numbers and words that stand for missing values, or refuse what is neither.

    Examples
    --------
    >>> missing_codes(["-999", "?"])
    (-999.0, '?')
    """
    listed: Any = (
        [given] if isinstance(given, str) or np.isscalar(given) or given is None else given
    )
    codes: list[float | str] = []
    for code in listed:
        try:
            codes.append(float(code))
        except (TypeError, ValueError):
            codes.append(code.strip() if isinstance(code, str) else "")
    if any(not code if isinstance(code, str) else np.isnan(code) for code in codes):
        raise ParameterError(
            "missing_code must be a number or a word, or several, such as -999 or '?'. "
            f"Got {given!r} instead."
        )
    return tuple(codes)
