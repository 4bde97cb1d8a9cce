"""What the tables of a plan's file may hold, as pydantic's models, and what is said of a fault.

Each key's description is what it takes, as the end of a sentence. What needs other files, or the
methods, is checked in `bigdag.experiments.plan.file`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    PlainValidator,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from bigdag.errors import ParameterError, nearest
from bigdag.resources import bytes_of

__all__ = ["MethodsFile", "Own", "PlanFile", "Simulated", "checked"]

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _different(values: list[T]) -> list[T]:
    if len(set(values)) < len(values):
        raise ValueError("twice")
    return values


def _bytes(value: Any) -> int:
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        raise ValueError("no size")
    try:
        return bytes_of(value)
    except ParameterError as error:
        raise ValueError("no size") from error


# One value, or a list of different ones; kept as a list.
Several = Annotated[
    list[T], Field(min_length=1), AfterValidator(_different), BeforeValidator(_as_list)
]
Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[FiniteFloat, Field(gt=0)]
AtLeast2 = Annotated[int, Field(ge=2)]

_TEXT = "a text that is not empty"
_SECONDS = "a number of seconds > 0"
_COUNTS = "a whole number >= 2, or a list of different ones"


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Limits(_Table):
    """The table ``[limits]``."""

    time_limit: Positive = Field(description=_SECONDS)
    threads: int = Field(1, ge=1, description="a whole number >= 1")
    memory_limit: Annotated[int, PlainValidator(_bytes)] = Field(
        description="a text such as '4 GB'"
    )
    snapshot_every: Positive | None = Field(None, description=_SECONDS)


class _Data(_Table):
    repetitions: int = Field(1, ge=1, description="a whole number >= 1")
    time_limit: Positive | None = Field(None, description=_SECONDS)
    methods: Several[Text] | None = Field(None, description="a list of names of methods")
    without: Several[Text] = Field([], description="a list of names of methods")


class Simulated(_Data):
    """A table ``[[data]]`` of data to draw."""

    graph: Several[Literal["ER", "SF"]] = Field(["ER"], description="one or more of 'ER', 'SF'")
    k: Several[Positive] = Field([1.0], description="a number > 0, or a list of different ones")
    d: Several[AtLeast2] = Field(description=_COUNTS)
    n: Several[AtLeast2] = Field(description=_COUNTS)
    noise: Several[Literal["gaussian", "exponential", "gumbel"]] = Field(
        ["gaussian"], description="one or more of 'gaussian', 'exponential', 'gumbel'"
    )
    variance: Several[Literal["EV", "NV"]] = Field(["EV"], description="one or more of 'EV', 'NV'")
    units: Several[Literal["raw", "standardised", "iscm"]] = Field(
        ["raw"], description="one or more of 'raw', 'standardised', 'iscm'"
    )

    @model_validator(mode="after")
    def _graphs_exist(self) -> Simulated:
        k, d = max(self.k), min(self.d)
        if k > (d - 1) / 2:
            raise _sentence(f"k = {k:g} is above (d - 1) / 2, the most for d = {d}.")
        if "SF" in self.graph and any(k % 1 for k in self.k):
            raise _sentence("'k' must be whole for scale-free graphs ('SF').")
        return self


class Own(_Data):
    """A table ``[[data]]`` of a table of one's own."""

    table: Text = Field(description="the path of a table")
    truth: Text | None = Field(None, description="the path of a DAG")
    name: Text | None = Field(None, description=_TEXT)
    units: Several[Literal["raw", "standardised"]] = Field(
        ["raw"], description="one or more of 'raw', 'standardised'"
    )


class Method(_Table):
    """A table ``[[method]]``."""

    name: Text | None = Field(None, description=_TEXT)
    method: Text = Field(description="a word of `bigdag methods`")
    parameters: dict[str, Any] = Field({}, description="a table of parameters")


class MethodsFile(_Table):
    """A file that holds methods only."""

    method: list[Method] = Field([], min_length=1, description="one or more tables [[method]]")


def _kind(given: Any) -> str:
    return "own" if isinstance(given, dict) and "table" in given else "simulated"


class PlanFile(MethodsFile):
    """The file of a plan."""

    experiment: Text | None = Field(None, description=_TEXT)
    preset: Text | None = Field(None, description=_TEXT)
    title: Text | None = Field(None, description=_TEXT)
    seed: int = Field(0, ge=0, description="a whole number >= 0")
    thresholds: Several[Annotated[FiniteFloat, Field(ge=0)]] = Field(
        [0.1, 0.3], description="a number >= 0, or a list of different ones"
    )
    methods_from: Several[Text] = Field(
        [], description="a text that is not empty, or a list of different ones"
    )
    limits: Limits = Field(description="a table [limits]")
    data: list[
        Annotated[
            Annotated[Simulated, Tag("simulated")] | Annotated[Own, Tag("own")],
            Discriminator(_kind),
        ]
    ] = Field(min_length=1, description="one or more tables [[data]]")


# ------------------------------------------------------------------ what is said of a fault


def _sentence(text: str) -> PydanticCustomError:
    """Return the error of several keys together, which says all by itself."""
    return PydanticCustomError("sentence", "{text}", {"text": text})


def checked(
    model: type[Model], given: Mapping[str, Any], refuse: Callable[[str, str], ParameterError]
) -> Model:
    """Return what a file holds, with defaults.

    Parameters
    ----------
    model : type
        What it may hold.
    given : mapping
        What tomllib read.
    refuse : callable
        Makes an error of the place in the file and a sentence.

    Raises
    ------
    ParameterError
        On what is unknown, wrong or missing.

    Examples
    --------
    >>> def refuse(where, text):
    ...     return ParameterError(f"{where}: {text}")
    >>> checked(MethodsFile, {"methods": []}, refuse)
    Traceback (most recent call last):
        ...
    bigdag.errors.ParameterError: top level: unknown key 'methods'. Did you mean 'method'? ...
    """
    try:
        return model.model_validate(given)
    except ValidationError as error:
        # A key that is misspelt is often the one that is missing, and says more.
        faults = error.errors(include_url=False)
        faults.sort(key=lambda fault: fault["type"] != "extra_forbidden")
        raise refuse(*_told(model, given, faults[0])) from None


def _told(model: type[BaseModel], given: Mapping[str, Any], fault: Any) -> tuple[str, str]:
    """Return where in the file a fault is, and a sentence on it."""
    where = "top level"
    other: type[BaseModel] | None = None
    place: tuple[int | str, ...] = fault["loc"]
    value: Any = given
    if place[0] == "limits" and len(place) > 1:
        where, model, value, place = "[limits]", Limits, value["limits"], place[1:]
    elif place[0] in ("data", "method") and len(place) > 1 and isinstance(place[1], int):
        table, number = place[0], place[1]
        value = given[table][number]
        if not isinstance(value, dict):  # a list of something else
            place, value = place[:1], given
        else:
            where, place = f"[[{table}]] number {number + 1}", place[2:]
            model = Method
            if table == "data":
                model, other = (Own, Simulated) if place[0] == "own" else (Simulated, Own)
                place = place[1:]
    if fault["type"] == "sentence":
        return where, fault["msg"]
    key = str(place[0])
    if fault["type"] == "extra_forbidden":
        return where, _unknown(key, model, other)
    words = model.model_fields[key].description
    if fault["type"] == "missing":
        return where, f"{key!r} is missing. It is {words}."
    return where, f"{key!r} must be {words}. Got {value[key]!r} instead."


def _unknown(key: str, model: type[BaseModel], other: type[BaseModel] | None) -> str:
    known = list(model.model_fields)
    if key == "scale" and "variance" in known:
        return "unknown key 'scale'. It is called 'variance' now."
    if other is not None:
        if key in other.model_fields:
            kind = "a table of your own" if model is Own else "simulated data (without 'table')"
            return f"{key!r} is not a key of {kind}."
        known += [name for name in other.model_fields if name not in known]
    return "unknown key " + nearest(key, known, "Known keys are")
