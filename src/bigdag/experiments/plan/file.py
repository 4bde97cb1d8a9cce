"""The file of a plan: what it may hold, and how it is checked.

A plan crosses data sets with methods under one set of limits::

    experiment = "mine"
    thresholds = [0.1, 0.3]
    methods_from = "methods.toml"           # rows of another file, one here has precedence

    [limits]
    time_limit = 60                         # seconds of the learner
    threads = 1
    memory_limit = "4 GB"                   # of the process
    snapshot_every = 10                     # seconds; left out: no snapshots

    [[data]]                                # every combination of the lists
    graph = ["ER", "SF"]
    k = [1, 2]
    d = 100
    n = 1000
    units = ["raw", "standardised"]
    repetitions = 3

    [[data]]                                # a table of one's own; paths are relative to the plan
    table = "genes.csv"
    truth = "genes-truth.csv"               # may be left out

    [[method]]
    name = "ProxiMAS, strong pull"
    method = "proximas"                     # a word of `bigdag methods`
    parameters = { lambda2 = 100.0 }
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bigdag.errors import BigdagError, DataError, ParameterError
from bigdag.learners import methods
from bigdag.learners.methods import find_method

__all__ = [
    "PLANS", "Limits", "MethodRow", "absent_extra", "digest_of", "nearest", "read_plan",
    "unchanged",
]  # fmt: skip

PLANS = Path(__file__).parent / "plans"
# What the limits and the seed of a plan decide for all its methods.
_RESERVED = (
    "callback", "memory_limit", "n_jobs", "random_state", "time_limit", "verbose", "warm_start_dag",
)  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """What each run may use.

    Attributes
    ----------
    time_limit : float
        Seconds of the learner.
    threads : int
        Threads of the process.
    memory_limit : int
        Bytes of the process.
    snapshot_every : float or None
        Seconds between snapshots of the weights.
    """

    time_limit: float
    threads: int
    memory_limit: int
    snapshot_every: float | None


@dataclass(frozen=True)
class MethodRow:
    """A method of a plan: its label, its word of the command line and its parameters."""

    name: str
    word: str
    parameters: Mapping[str, Any]


def absent_extra(word: str, parameters: Mapping[str, Any]) -> str | None:
    """Return the extra of bigdag that a method needs and that is not installed, if there is one.

    Examples
    --------
    >>> absent_extra("empty", {}) is None
    True
    """
    method = methods.METHODS[word]
    if not method.installed:
        return method.extra
    # One method needs a package with one value of a parameter only.
    dense = parameters.get("engine") == "dense"
    return "torch" if dense and find_spec("torch") is None else None


def read_plan(path: Path) -> dict[str, Any]:
    """Read and check the file of a plan.

    Parameters
    ----------
    path : Path
        A TOML file.

    Returns
    -------
    dict
        The attributes of a `Plan`.

    Raises
    ------
    ParameterError
        If it is not as above; the message says in which table, and names the nearest known key.

    Examples
    --------
    >>> read_plan(PLANS / "exp3.paper.toml")["limits"].threads
    32
    """
    return _Reader(path).plan()


# ------------------------------------------------------------------ the keys


@dataclass(frozen=True)
class _Key:
    """A key of a table: what it takes in words, what reads it, and its value when left out."""

    words: str
    read: Callable[[Any], Any]
    default: Any = None
    required: bool = False


class _Refusal(Exception):
    """A value is not what its key takes."""


def _number(low: float, above: bool = False) -> Callable[[Any], Any]:
    def read(value: Any) -> float:
        fine = isinstance(value, int | float) and not isinstance(value, bool)
        if not fine or not low <= value < math.inf or (above and value == low):
            raise _Refusal
        return float(value)

    return read


def _whole(low: int) -> Callable[[Any], Any]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise _Refusal
        return value

    return read


def _word(*options: str) -> Callable[[Any], Any]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not value or (options and value not in options):
            raise _Refusal
        return value

    return read


def _several(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One value or a list of different ones, kept as a list."""

    def read_all(value: Any) -> list[Any]:
        values = [read(v) for v in (value if isinstance(value, list) else [value])]
        if not values or len(set(values)) < len(values):
            raise _Refusal
        return values

    return read_all


def _bytes(value: Any) -> int:
    from bigdag.resources import bytes_of

    if not isinstance(value, int | float | str) or isinstance(value, bool):
        raise _Refusal
    try:
        return bytes_of(value)
    except ParameterError:
        raise _Refusal from None


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Refusal
    return value


def _tables(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not value:
        raise _Refusal
    return [_table(v) for v in value]


def _either(words: tuple[str, ...], default: list[Any] | None = None) -> _Key:
    text = "one or more of " + ", ".join(map(repr, words))
    return _Key(text, _several(_word(*words)), default, default is None)


_TEXT = _Key("a text that is not empty", _word())
_COUNTS = "a whole number >= 2, or a list of different ones"

_PLAN = {
    "experiment": _TEXT,
    "preset": _TEXT,
    "title": _TEXT,
    "seed": _Key("a whole number >= 0", _whole(0), 0),
    "thresholds": _Key(
        "a number >= 0, or a list of different ones", _several(_number(0)), [0.1, 0.3]
    ),
    "methods_from": _TEXT,
    "limits": _Key("a table [limits]", _table, required=True),
    "data": _Key("one or more tables [[data]]", _tables, required=True),
    "method": _Key("one or more tables [[method]]", _tables, []),
}
_LIMITS = {
    "time_limit": _Key("a number of seconds > 0", _number(0, above=True), required=True),
    "threads": _Key("a whole number >= 1", _whole(1), 1),
    "memory_limit": _Key("a text such as '4 GB'", _bytes, required=True),
    "snapshot_every": _Key("a number of seconds > 0", _number(0, above=True)),
}
_ANY_DATA = {
    "repetitions": _Key("a whole number >= 1", _whole(1), 1),
    "methods": _Key("a list of names of methods", _several(_word())),
}
_SIMULATED = {
    "graph": _either(("ER", "SF"), ["ER"]),
    "k": _Key("a number > 0, or a list of different ones", _several(_number(0, True)), [1.0]),
    "d": _Key(_COUNTS, _several(_whole(2)), required=True),
    "n": _Key(_COUNTS, _several(_whole(2)), required=True),
    "noise": _either(("gaussian", "exponential", "gumbel"), ["gaussian"]),
    "scale": _either(("EV", "NV"), ["EV"]),
    "units": _either(("raw", "standardised", "iscm"), ["raw"]),
    **_ANY_DATA,
}
_OWN = {
    "table": _Key("the path of a table", _word(), required=True),
    "truth": _Key("the path of a DAG", _word()),
    "name": _TEXT,
    "units": _either(("raw", "standardised"), ["raw"]),
    **_ANY_DATA,
}
_METHOD = {
    "name": _TEXT,
    "method": _Key("a word of `bigdag methods`", _word(), required=True),
    "parameters": _Key("a table of parameters", _table, {}),
}
_ONLY_METHODS = {"method": _PLAN["method"]}


def nearest(given: str, known: Iterable[str], introduction: str) -> str:
    """Return the end of a sentence on an unknown word.

    Examples
    --------
    >>> nearest("exq1", ["exp1", "exp2"], "There are")
    "'exq1'. Did you mean 'exp1'? There are: exp1, exp2."
    """
    near = get_close_matches(given, list(known), 1, 0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{given!r}.{hint} {introduction}: {', '.join(known)}."


class _Reader:
    """One TOML file; every refusal names it and the table."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                self.given = tomllib.load(file)
        except OSError as error:
            reason = error.strerror or error
            raise ParameterError(f"Could not read the plan {path}: {reason}.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ParameterError(f"{path} is not a TOML file: {error}.") from error

    def refuse(self, where: str, text: str) -> ParameterError:
        return ParameterError(f"{self.path.name}, {where}: {text}")

    def read(self, given: dict[str, Any], keys: Mapping[str, _Key], where: str) -> dict[str, Any]:
        """Return the values of a table, with defaults; refuse what is unknown, wrong or missing."""
        for key in given:
            if key not in keys:
                raise self.refuse(where, "unknown key " + nearest(key, keys, "Known keys are"))
        values = {}
        for key, about in keys.items():
            if key not in given:
                if about.required:
                    raise self.refuse(where, f"{key!r} is missing. It is {about.words}.")
                values[key] = about.default
                continue
            try:
                values[key] = about.read(given[key])
            except _Refusal:
                text = f"{key!r} must be {about.words}. Got {given[key]!r} instead."
                raise self.refuse(where, text) from None
        return values

    def plan(self) -> dict[str, Any]:
        top = self.read(self.given, _PLAN, "top level")
        rows = {row.name: row for row in self._included(top["methods_from"])}
        rows |= {row.name: row for row in self.methods(top["method"])}
        if not rows:
            raise self.refuse("top level", "there is no method. Add a table [[method]].")
        self._check_rows(rows.values())
        blocks = [self._block(block, i, rows) for i, block in enumerate(top["data"], 1)]
        limits = Limits(**self.read(top["limits"], _LIMITS, "[limits]"))
        experiment = top["experiment"] or self.path.stem
        return {
            "experiment": experiment,
            "preset": top["preset"] or "own",
            "title": top["title"] or experiment,
            "limits": limits,
            "thresholds": tuple(sorted(top["thresholds"])),
            "seed": top["seed"],
            "methods": tuple(rows.values()),
            "data": tuple(blocks),
        }

    def _included(self, name: str | None) -> list[MethodRow]:
        if name is None:
            return []
        beside = self.path.parent / name
        # A plan of the user's own can take the rows that are shipped.
        other = _Reader(beside if beside.exists() else PLANS / name)
        top = other.read(other.given, _ONLY_METHODS, "top level")
        return other.methods(top["method"])

    def methods(self, tables: list[dict[str, Any]]) -> list[MethodRow]:
        rows: dict[str, MethodRow] = {}
        for i, given in enumerate(tables, 1):
            where = f"[[method]] number {i}"
            values = self.read(given, _METHOD, where)
            row = MethodRow(
                values["name"] or values["method"], values["method"].lower(), values["parameters"]
            )
            where += f" ({row.name!r})"
            if row.name in rows:
                raise self.refuse(where, "there is a method of this name already.")
            self._check_parameters(row, where)
            rows[row.name] = row
        return list(rows.values())

    def _check_parameters(self, row: MethodRow, where: str) -> None:
        for name in row.parameters:
            if name in _RESERVED:
                raise self.refuse(
                    where, f"{name!r} is not a parameter here: [limits] and the seed decide on it."
                )
        try:
            method = find_method(row.word)
            # Without its package, what a method takes is not known; none of its runs will begin.
            if method.installed:
                # Refused here, before the long work, and not by each run.
                method.build(**row.parameters)._check_parameters()
        except BigdagError as error:
            raise self.refuse(where, str(error)) from error

    def _check_rows(self, rows: Any) -> None:
        seen: dict[str, str] = {}
        for row in rows:
            same = seen.setdefault(digest_of([row.word, dict(row.parameters)]), row.name)
            if same != row.name:
                raise self.refuse("[[method]]", f"{same!r} and {row.name!r} are the same method.")

    def _block(
        self, given: dict[str, Any], i: int, rows: Mapping[str, MethodRow]
    ) -> dict[str, Any]:
        where = f"[[data]] number {i}"
        own = "table" in given
        for key in given:
            if key not in _SIMULATED and key not in _OWN:
                known = {**_SIMULATED, **_OWN}
                raise self.refuse(where, "unknown key " + nearest(key, known, "Known keys are"))
            if key not in (_OWN if own else _SIMULATED):
                kind = "a table of your own" if own else "simulated data (without 'table')"
                raise self.refuse(where, f"{key!r} is not a key of {kind}.")
        values = self.read(given, _OWN if own else _SIMULATED, where)
        for name in values["methods"] or ():
            if name not in rows:
                text = "there is no method of the name " + nearest(name, rows, "Names are")
                raise self.refuse(where, text)
        if not own:
            self._check_graphs(values, where)
            return values
        for key in ("table", "truth"):
            if values[key] is not None:
                path = self.path.parent / values[key]
                if not path.is_file():
                    raise self.refuse(where, f"there is no file {path} for {key!r}.")
                values[key] = str(path.absolute())
        values["name"] = values["name"] or Path(values["table"]).stem
        return values

    def _check_graphs(self, values: dict[str, Any], where: str) -> None:
        k, d = max(values["k"]), min(values["d"])
        if k > (d - 1) / 2:
            raise self.refuse(where, f"k = {k:g} is above (d - 1) / 2, the most for d = {d}.")
        if "SF" in values["graph"] and any(k % 1 for k in values["k"]):
            raise self.refuse(where, "'k' must be whole for scale-free graphs ('SF').")


def digest_of(value: Any) -> str:
    """Return 16 hex digits that stand for a value of plain JSON.

    Examples
    --------
    >>> digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextmanager
def unchanged(paths: Iterable[str | None]) -> Iterator[str]:
    """Give the digest of some files, and refuse what was read in the block if they change in it.

    Parameters
    ----------
    paths : iterable of str or None
        The files; None is left out.

    Raises
    ------
    DataError
        If a file cannot be read, or is another one at the end of the block.

    Examples
    --------
    >>> with unchanged([str(PLANS / "methods.toml"), None]) as digest:
    ...     len(digest)
    64
    """
    named = [path for path in paths if path is not None]
    before = _digest_of_files(named)
    yield before
    if _digest_of_files(named) != before:
        raise DataError(
            f"{' or '.join(named)} was changed while it was read. Give the same command again "
            "when nothing writes to it."
        )


def _digest_of_files(paths: Iterable[str]) -> str:
    hashed = hashlib.sha256()
    for path in paths:
        try:
            with open(path, "rb") as file:
                hashed.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise DataError(f"Could not read {path}: {error.strerror or error}.") from error
    return hashed.hexdigest()
