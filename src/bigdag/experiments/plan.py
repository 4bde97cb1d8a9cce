"""Plans as data: a TOML file is checked, and expanded to its runs.

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
import itertools
import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from bigdag.errors import BigdagError, ParameterError
from bigdag.methods import METHODS, find_method

__all__ = ["EXPERIMENTS", "PRESETS", "Estimate", "Limits", "MethodRow", "Plan", "load_plan"]

EXPERIMENTS = ("exp1", "exp2", "exp3")
PRESETS = ("paper", "laptop", "smoke")
_PLANS = Path(__file__).parent / "plans"
# What the limits and the seed of a plan decide for all its methods.
_RESERVED = (
    "callback", "memory_limit", "n_jobs", "random_state", "time_limit", "verbose", "warm_start_dag",
)  # fmt: skip
_HELD_OUT = 5  # a user's table: one row in so many is kept for validation


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


@dataclass(frozen=True)
class Estimate:
    """What a plan asks for.

    Attributes
    ----------
    instances, runs : int
        Data sets, and methods on them.
    core_hours : float
        At the most: all runs up to their time limits, on all their threads.
    memory : int
        Bytes of the run that needs the most.
    disk : int
        Bytes of the data sets.
    too_big : list of (str, int, int, int)
        Methods that are expected to need more than the memory limit: name, d, n, bytes.
    missing : list of (str, str)
        Methods whose packages are not installed: name, extra of bigdag.
    """

    instances: int
    runs: int
    core_hours: float
    memory: int
    disk: int
    too_big: list[tuple[str, int, int, int]]
    missing: list[tuple[str, str]]


@dataclass(frozen=True)
class Plan:
    """A checked plan.

    Attributes
    ----------
    experiment, preset, title : str
        Its names.
    limits : Limits
        Of each run.
    thresholds : tuple of float
        Where graphs are cut for the metrics.
    seed : int
        Of the first repetition; the next ones follow on.
    methods : tuple of MethodRow
        In the order of the figures.
    data : tuple of dict
        The tables ``[[data]]``, checked and with their defaults.

    Examples
    --------
    >>> plan = load_plan("exp2", "paper")
    >>> plan.limits.time_limit, len(plan.datasets)
    (86400.0, 4)
    >>> job = plan.jobs()[0]
    >>> job["dataset"]["name"], job["method"]["name"]
    ('ER1 gaussian-EV d=5000 n=1000', 'OptiMAS')
    """

    experiment: str
    preset: str
    title: str
    limits: Limits
    thresholds: tuple[float, ...]
    seed: int
    methods: tuple[MethodRow, ...]
    data: tuple[dict[str, Any], ...]

    @cached_property
    def _pairs(self) -> list[tuple[dict[str, Any], list[MethodRow]]]:
        """Each data set once, with all methods that any of the tables runs on it."""
        found: dict[str, tuple[dict[str, Any], set[str]]] = {}
        for block in self.data:
            names = set(block["methods"] or (row.name for row in self.methods))
            for dataset in _expand(block, self.seed):
                found.setdefault(dataset["key"], (dataset, set()))[1].update(names)
        pairs = [
            (dataset, [row for row in self.methods if row.name in names])
            for dataset, names in found.values()
        ]
        return sorted(pairs, key=lambda pair: (pair[0]["d"], pair[0]["n"]))

    @property
    def datasets(self) -> list[dict[str, Any]]:
        """The data sets, small ones first."""
        return [dataset for dataset, _ in self._pairs]

    def jobs(self) -> list[dict[str, Any]]:
        """Return all runs, those of a data set together and small data sets first.

        Returns
        -------
        list of dict
            Ready for JSON. ``run`` is a hash of what decides the result: the data, the method, its
            parameters, the time limit, the snapshots and the thresholds. Labels, threads and the
            memory limit do not, so that a plan goes on where it stopped on another machine.
        """
        return [
            self._job(dataset, row) for dataset, rows in self._pairs for row in rows
        ]  # fmt: skip

    def _job(self, dataset: dict[str, Any], row: MethodRow) -> dict[str, Any]:
        deciding = {
            "experiment": self.experiment,
            "preset": self.preset,
            "thresholds": list(self.thresholds),
            "time_limit": self.limits.time_limit,
            "snapshot_every": self.limits.snapshot_every,
            "seed": dataset["seed"],
        }
        method = {"word": row.word, "parameters": dict(row.parameters)}
        return {
            "run": _digest({**deciding, "data": dataset["key"], "method": method}),
            **deciding,
            "dataset": dict(dataset),
            "method": {"name": row.name, **method},
            "threads": self.limits.threads,
            "memory_limit": self.limits.memory_limit,
        }

    def estimate(self) -> Estimate:
        """Say what the plan asks for, before anything runs.

        Returns
        -------
        Estimate
            The memory of a method is that of `bigdag.methods`.

        Examples
        --------
        >>> load_plan("exp3", "paper").estimate().instances
        8
        """
        needs: dict[tuple[str, int, int], int] = {}
        runs = 0
        for dataset, rows in self._pairs:
            n, d = dataset["n"], dataset["d"]
            runs += len(rows)
            needs |= {(row.name, d, n): METHODS[row.word].memory(n, d) for row in rows}
        limits = self.limits
        used = {name for name, _, _ in needs}
        return Estimate(
            instances=len(self._pairs),
            runs=runs,
            core_hours=runs * limits.time_limit * limits.threads / 3600,
            memory=max(needs.values()),
            # float64 tables for training and validation
            disk=sum(16 * dataset["n"] * dataset["d"] for dataset in self.datasets),
            too_big=[(*at, need) for at, need in needs.items() if need > limits.memory_limit],
            missing=[
                (row.name, extra)
                for row in self.methods
                if row.name in used
                and (extra := METHODS[row.word].extra)
                and not METHODS[row.word].installed
            ],
        )


def load_plan(plan: str | os.PathLike[str], preset: str = "laptop") -> Plan:
    """Read and check a plan.

    Parameters
    ----------
    plan : str or path-like
        "exp1", "exp2" or "exp3", or the path of a TOML file.
    preset : {"paper", "laptop", "smoke"}
        Which one of a shipped experiment; not used for a file.

    Returns
    -------
    Plan

    Raises
    ------
    ParameterError
        If there is no such plan, or it holds an unknown key, a value that is not allowed, or a
        method that bigdag does not have. The message says where, and names the nearest known word.

    Examples
    --------
    >>> load_plan("exp1", "smoke").experiment
    'exp1'
    >>> load_plan("exp1", "labtop")
    Traceback (most recent call last):
        ...
    bigdag.errors.ParameterError: There is no preset 'labtop'. Did you mean 'laptop'? ...
    """
    path = Path(plan)
    if path.suffix == ".toml" or path.name != str(plan):
        return _Reader(path).plan()
    name = str(plan)
    if name not in EXPERIMENTS:
        raise ParameterError(
            f"There is no experiment {_unknown(name, EXPERIMENTS, 'Experiments are')} "
            "A plan of your own is a file that ends in .toml."
        )
    if preset not in PRESETS:
        raise ParameterError(f"There is no preset {_unknown(preset, PRESETS, 'Presets are')}")
    return _Reader(_PLANS / f"{name}.{preset}.toml").plan()


# ------------------------------------------------------------------ from TOML to a plan


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
    from bigdag.gram import bytes_of

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


def _unknown(given: str, known: Any, introduction: str) -> str:
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
                raise self.refuse(where, "unknown key " + _unknown(key, keys, "Known keys are"))
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

    def plan(self) -> Plan:
        top = self.read(self.given, _PLAN, "top level")
        rows = {row.name: row for row in self._included(top["methods_from"])}
        rows |= {row.name: row for row in self.methods(top["method"])}
        if not rows:
            raise self.refuse("top level", "there is no method. Add a table [[method]].")
        self._check_rows(rows.values())
        blocks = [self._block(block, i, rows) for i, block in enumerate(top["data"], 1)]
        limits = Limits(**self.read(top["limits"], _LIMITS, "[limits]"))
        experiment = top["experiment"] or self.path.stem
        return Plan(
            experiment=experiment,
            preset=top["preset"] or "own",
            title=top["title"] or experiment,
            limits=limits,
            thresholds=tuple(sorted(top["thresholds"])),
            seed=top["seed"],
            methods=tuple(rows.values()),
            data=tuple(blocks),
        )

    def _included(self, name: str | None) -> list[MethodRow]:
        if name is None:
            return []
        beside = self.path.parent / name
        # A plan of the user's own can take the rows that are shipped.
        other = _Reader(beside if beside.exists() else _PLANS / name)
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
            # Refused here, before the long work, and not by each run.
            find_method(row.word).build(**row.parameters)._check_parameters()
        except BigdagError as error:
            raise self.refuse(where, str(error)) from error

    def _check_rows(self, rows: Any) -> None:
        seen: dict[str, str] = {}
        for row in rows:
            same = seen.setdefault(_digest([row.word, dict(row.parameters)]), row.name)
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
                raise self.refuse(where, "unknown key " + _unknown(key, known, "Known keys are"))
            if key not in (_OWN if own else _SIMULATED):
                kind = "a table of your own" if own else "simulated data (without 'table')"
                raise self.refuse(where, f"{key!r} is not a key of {kind}.")
        values = self.read(given, _OWN if own else _SIMULATED, where)
        for name in values["methods"] or ():
            if name not in rows:
                text = "there is no method of the name " + _unknown(name, rows, "Names are")
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


# ------------------------------------------------------------------ from a plan to data sets


def _expand(block: dict[str, Any], first_seed: int) -> Iterator[dict[str, Any]]:
    """Yield the data sets of a table ``[[data]]``."""
    seeds = range(first_seed, first_seed + block["repetitions"])
    if "table" in block:
        about = _own_table(block)
        for units, seed in itertools.product(block["units"], seeds):
            slug = re.sub(r"[^A-Za-z0-9]+", "-", block["name"]).strip("-")
            key = f"{slug}-{units}-{about['digest']}-s{seed}"
            yield {
                "name": block["name"], "table": block["table"], "truth": block["truth"],
                "d": about["d"], "n": about["n"], "units": units, "seed": seed, "key": key,
            }  # fmt: skip
        return
    names = ("d", "n", "graph", "k", "noise", "scale", "units")
    for values in itertools.product(*(block[name] for name in names), seeds):
        d, n, graph, k, noise, scale, units, seed = values
        k = int(k) if float(k).is_integer() else k
        yield {
            "name": f"{graph}{k} {noise}-{scale} d={d} n={n}",
            "graph": graph, "k": k, "d": d, "n": n, "noise": noise, "scale": scale,
            "units": units, "seed": seed,
            "key": f"{graph}{k}-{noise}-{scale}-d{d}-n{n}-{units}-s{seed}",
        }  # fmt: skip


def _own_table(block: dict[str, Any]) -> dict[str, Any]:
    """Return the size of a user's table, n being its rows for training, and a hash of its files."""
    from bigdag.tables import read_table

    data = read_table(block["table"])
    held_out = data.n_samples // _HELD_OUT
    if held_out < 2:
        raise ParameterError(
            f"{block['table']} must have at least {2 * _HELD_OUT} rows, as one in {_HELD_OUT} is "
            f"kept for validation. Got {data.n_samples} instead."
        )
    hashed = hashlib.sha256()
    for path in (block["table"], block["truth"]):
        if path is not None:
            with open(path, "rb") as file:
                hashed.update(hashlib.file_digest(file, "sha256").digest())
    return {
        "d": data.n_features,
        "n": data.n_samples - held_out,
        "digest": hashed.hexdigest()[:12],
    }


def _digest(value: Any) -> str:
    """Return 16 hex digits that stand for a value of plain JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
