"""The file of a plan: what it may hold, and how it is checked.

A plan crosses data sets with methods under one set of limits::

    experiment = "mine"
    thresholds = [0.1, 0.3]
    methods_from = "methods.toml"           # rows of another file, or of a list of them; of those
                                            # with the same name the last one holds, or one here

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
    time_limit = 120                        # of these only; left out: that of [limits]
    without = ["No arcs"]                   # all methods but these; or methods = [...], only these

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
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bigdag.errors import BigdagError, DataError, ParameterError, missing_extra, nearest
from bigdag.learners import methods
from bigdag.learners.methods import find_method

if TYPE_CHECKING:
    from bigdag.experiments.plan import schema

__all__ = [
    "PLANS", "Limits", "MethodRow", "absent_extra", "digest_of", "read_plan",
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
    # Some methods need a package with one value of a parameter only.
    extra = method.needs(parameters)
    return extra if extra is not None and find_spec(extra) is None else None


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

    def plan(self) -> dict[str, Any]:
        schema = _schema()
        top = schema.checked(schema.PlanFile, self.given, self.refuse)
        rows = {row.name: row for name in top.methods_from for row in self._included(name)}
        rows |= {row.name: row for row in self.methods(top.method)}
        if not rows:
            raise self.refuse("top level", "there is no method. Add a table [[method]].")
        self._check_rows(rows.values())
        blocks = [
            self._block(block, f"[[data]] number {i}", rows) for i, block in enumerate(top.data, 1)
        ]
        experiment = top.experiment or self.path.stem
        return {
            "experiment": experiment,
            "preset": top.preset or "own",
            "title": top.title or experiment,
            "limits": Limits(**top.limits.model_dump()),
            "thresholds": tuple(sorted(top.thresholds)),
            "seed": top.seed,
            "methods": tuple(rows.values()),
            "data": tuple(blocks),
        }

    def _included(self, name: str) -> list[MethodRow]:
        beside = self.path.parent / name
        # A plan of the user's own can take the rows that are shipped.
        other = _Reader(beside if beside.exists() else PLANS / name)
        schema = _schema()
        return other.methods(schema.checked(schema.MethodsFile, other.given, other.refuse).method)

    def methods(self, tables: Iterable[schema.Method]) -> list[MethodRow]:
        rows: dict[str, MethodRow] = {}
        for i, given in enumerate(tables, 1):
            row = MethodRow(given.name or given.method, given.method.lower(), given.parameters)
            where = f"[[method]] number {i} ({row.name!r})"
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
            if absent_extra(method.word, row.parameters) is None:
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
        self, given: schema.Simulated | schema.Own, where: str, rows: Mapping[str, MethodRow]
    ) -> dict[str, Any]:
        for name in (*(given.methods or ()), *given.without):
            if name not in rows:
                text = "there is no method of the name " + nearest(name, rows, "Names are")
                raise self.refuse(where, text)
        values = given.model_dump()
        values["methods"] = [n for n in values["methods"] or rows if n not in given.without]
        if not values["methods"]:
            raise self.refuse(where, "no method is left. Shorten 'without'.")
        if "table" not in values:
            return values
        for key in ("table", "truth"):
            if values[key] is not None:
                path = self.path.parent / values[key]
                if not path.is_file():
                    raise self.refuse(where, f"there is no file {path} for {key!r}.")
                values[key] = str(path.absolute())
        values["name"] = values["name"] or Path(values["table"]).stem
        return values


def _schema() -> ModuleType:
    """Return the checks of a plan's file; what only reads data sets does without their package."""
    try:
        from bigdag.experiments.plan import schema
    except ImportError:
        raise missing_extra("pydantic", "experiments", "Reading a plan") from None
    return schema


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
