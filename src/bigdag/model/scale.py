"""On which scale the variables of a model are, and what other samples it therefore refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bigdag.data.dataset import Dataset
from bigdag.errors import DataError, few_names

__all__ = ["SCALE", "require_scale", "scale_words", "units_words"]

# What `about` says of the scale, and what it is where nothing was done.
SCALE: dict[str, Any] = {"transform": "none", "adjusted": [], "standardised": False}
_TRANSFORMS = {"rank": "normal scores of ranks", "log1p": "logarithms, log(1 + x)"}


def _scale(about: Mapping[str, Any]) -> tuple[Any, ...]:
    transform, adjusted, standardised = (about.get(key) or SCALE[key] for key in SCALE)
    return transform, tuple(adjusted), bool(standardised)


def scale_words(about: Mapping[str, Any]) -> str | None:
    """Say on which scale variables are; None where it is that of the table.

    Examples
    --------
    >>> scale_words({"transform": "rank", "adjusted": ["age"]})
    "normal scores of ranks, without the effect of 'age'"
    """
    transform, adjusted, standardised = _scale(about)
    parts = []
    if transform != "none":
        parts.append(_TRANSFORMS.get(transform, str(transform)))
    if adjusted:
        parts.append(f"without the effect of {few_names(adjusted)}")
    if standardised:
        parts.append("in standard deviations")
    if parts and transform == "none":
        parts.insert(0, "values")
    return ", ".join(parts).replace("values, ", "values ") or None


def units_words(about: Mapping[str, Any]) -> str | None:
    """Say in which units the effects of a DAG are; None where nothing is known of how it was made.

    Examples
    --------
    >>> units_words({"transform": "none"})
    'Effects are in the units of the table.'
    """
    if not about:
        return None
    transform, adjusted, standardised = _scale(about)
    if transform == "rank":
        text = (
            "The variables are normal scores of ranks, so that effects are in standard deviations "
            "of these and not in the units of the table"
        )
    elif transform == "log1p":
        text = "The variables are logarithms, log(1 + x), and effects are in their units"
    else:
        text = "Effects are in the units of the table"
    if standardised:
        text = "The columns were standardised, so all effects are in standard deviations"
        text += f" of {_TRANSFORMS[transform]}" if transform in _TRANSFORMS else ""
    if adjusted:
        text += f"; the effect of {few_names(adjusted)} was taken out first"
    return f"{text}."


def require_scale(about: Mapping[str, Any], given: Any) -> None:
    """Refuse samples that are on another scale than the model of a DAG with this `about`.

    A prepared Dataset says what was done to it; any other table is taken to be as it came.
    """
    words = scale_words(about)
    same = _scale(about) == _scale(given.about if isinstance(given, Dataset) else {})
    if words is not None and not same:
        raise DataError(
            f"The model is of {words}, and these samples are on the scale of the table. Put "
            "NormalScores, Log1p or Adjust of bigdag.transforms, or StandardScaler of "
            "scikit-learn, before a learner that transforms nothing in a pipeline of scikit-learn: "
            "it treats new samples in the same way. If these are on the scale of the model "
            "already, pass transformed=True to the method of the LinearModel."
        )
