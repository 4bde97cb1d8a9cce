"""What a parameter of a learner may be: one table that checks them and makes tests of bad ones."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bigdag.errors import ParameterError

__all__ = ["Checked", "Number", "OneOf"]


@dataclass(frozen=True)
class Number:
    """A number in an interval.

    Parameters
    ----------
    low, high : float
        The ends; ``low`` is allowed unless ``above`` is set, ``high`` always is.
    whole : bool, default=False
        Whether it must be an integer.
    above : bool, default=False
        Whether ``low`` itself is refused.
    none : bool, default=False
        Whether None is allowed.

    Examples
    --------
    >>> Number(0, above=True).allows(0.0)
    False
    >>> print(Number(1, whole=True, none=True))
    an integer >= 1, or None
    """

    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    above: bool = False
    none: bool = False

    def allows(self, value: Any) -> bool:
        """Tell whether a value is allowed."""
        if value is None:
            return self.none
        kind = numbers.Integral if self.whole else numbers.Real
        if isinstance(value, bool | np.bool_) or not isinstance(value, kind):
            return False
        number = float(value)
        inside = number > self.low if self.above else number >= self.low
        return inside and number <= self.high and not math.isnan(number)

    def __str__(self) -> str:
        text = "an integer" if self.whole else "a number"
        if self.low > -math.inf:
            text += f" {'>' if self.above else '>='} {self.low:g}"
        if self.high < math.inf:
            text += f"{' and' if self.low > -math.inf else ''} <= {self.high:g}"
        return text + (", or None" if self.none else "")


@dataclass(frozen=True)
class OneOf:
    """One of a few values.

    Examples
    --------
    >>> print(OneOf("EV", "NV"))
    one of 'EV', 'NV'
    """

    options: tuple[Any, ...]

    def __init__(self, *options: Any) -> None:
        object.__setattr__(self, "options", options)

    def allows(self, value: Any) -> bool:
        """Tell whether a value is allowed."""
        if isinstance(value, str):
            return str(value) in self.options
        return any(type(value) is type(o) and value == o for o in self.options)

    def __str__(self) -> str:
        return "one of " + ", ".join(map(repr, self.options))


@dataclass(frozen=True)
class Checked:
    """What a function accepts without raising, said in words."""

    words: str
    check: Callable[[Any], Any]

    def allows(self, value: Any) -> bool:
        """Tell whether a value is allowed."""
        try:
            return self.check(value) is not False
        except ParameterError:
            return False

    def __str__(self) -> str:
        return self.words
