"""The store: one SQLite file that always holds every finished run.

A finished run enters with all its scores in one transaction, so that whatever is killed at whatever
moment, the file holds whole runs only. What is under way stands in the table `claims`: a runner
takes a run by writing its name there, which is how two runners on one store never do the same work
twice. A claim whose runner has died may be taken over. Everything is readable with plain SQL.

Beside the store ``runs.db`` lie the folders ``runs.datasets``, ``runs.snapshots`` (NPZ, named by
run) and, while it runs, ``runs.work``.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from bigdag import __version__
from bigdag.errors import BigdagError, DataError, ParameterError, missing_extra

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CHANGED", "FAILED", "Store", "load_psutil", "now", "shortened", "storable"]

VERSION = 2

# What --retry-failed does again. A learner that diverged has answered: it would do so again.
FAILED = ("error", "crashed", "out_of_memory", "timeout", "interrupted")

_STALE = 60.0  # seconds without a heartbeat after which a runner on another machine counts as dead
_DAMAGED = "its pages do not agree with each other"
_BUSY = 60.0  # seconds to wait for another process that writes

_TEXT, _INTEGER, _REAL = "TEXT", "INTEGER", "REAL"
_COLUMNS = {
    "run": "TEXT PRIMARY KEY", "experiment": _TEXT, "preset": _TEXT, "dataset": _TEXT,
    "graph": _TEXT, "k": _REAL, "d": _INTEGER, "n": _INTEGER, "noise": _TEXT, "variance": _TEXT,
    "units": _TEXT, "repetition": _INTEGER, "method": _TEXT, "word": _TEXT,
    "status": "TEXT NOT NULL", "message": _TEXT, "seconds": _REAL, "iterations": _INTEGER,
    "objective": _REAL, "n_arcs": _INTEGER, "peak_bytes": _INTEGER, "threads": _INTEGER,
    "memory_limit": _INTEGER, "time_limit": _REAL, "seed": _INTEGER, "var_sortability": _REAL,
    "r2_sortability": _REAL, "var_sortability_found": _REAL, "started": _TEXT, "finished": _TEXT,
    "overhead_seconds": _REAL, "job": _TEXT, "phase_seconds": _TEXT, "phase_steps": _TEXT,
    "curve": _TEXT, "versions": _TEXT, "machine": _TEXT,
}  # fmt: skip
_NOT_EXPORTED = ("job", "phase_seconds", "phase_steps", "curve")
_TABLES = {
    "meta": {"key": "TEXT PRIMARY KEY", "value": _TEXT},
    "runs": _COLUMNS,
    "scores": {
        "run": "TEXT NOT NULL", "snapshot": _REAL, "weights": _TEXT, "directed": _INTEGER,
        "threshold": _REAL, "metric": "TEXT NOT NULL", "value": _REAL,
    },
    "planned": {
        "run": "TEXT PRIMARY KEY", "experiment": _TEXT, "preset": _TEXT, "method": _TEXT,
        "dataset": _TEXT, "threads": _INTEGER, "time_limit": _REAL,
    },
    "claims": {
        "run": "TEXT PRIMARY KEY", "owner": "TEXT NOT NULL", "begun": "REAL NOT NULL",
        "heartbeat": "REAL NOT NULL",
    },
}  # fmt: skip
_SCORES = tuple(_TABLES["scores"])
_INDEX = "CREATE INDEX IF NOT EXISTS scores_by_run ON scores (run)"


def now() -> str:
    """Return the time as the store writes it: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# ------------------------------------------------------------------ who runs


@cache
def load_psutil() -> Any:
    """Return psutil, or say how to install it."""
    try:
        import psutil
    except ImportError:
        raise missing_extra("psutil", "experiments", "Running experiments") from None
    return psutil


def _this_process() -> str:
    """Return host:pid:start, which no other process ever has."""
    return f"{socket.gethostname()}:{os.getpid()}:{load_psutil().Process().create_time():.2f}"


def _alive(owner: str, heartbeat: float) -> bool:
    """Tell whether the process that made a claim can still finish it."""
    try:
        host, pid, start = owner.rsplit(":", 2)
        if host != socket.gethostname():
            return time.time() - heartbeat < _STALE
        number, began = int(pid), float(start)
    except (ValueError, TypeError, AttributeError):
        return False  # no runner has written this
    psutil = load_psutil()
    try:
        process = psutil.Process(number)
        # The start tells a process from a later one with its number; a zombie does no work.
        same = abs(process.create_time() - began) < 2.0
        return bool(same and process.status() != psutil.STATUS_ZOMBIE)
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        return False


# ------------------------------------------------------------------ the store


class Store:
    """Every finished run of some experiments, in one SQLite file.

    Parameters
    ----------
    path : str or path
        The file. It is made where there is none, with the folders it lies in.
    read_only : bool, default=False
        Whether only to look; the file must exist then, and its folder may be read-only.

    Examples
    --------
    >>> import tempfile
    >>> job = {"run": "00ff", "experiment": "mine", "method": {"name": "A", "word": "gd"},
    ...        "dataset": {"name": "ER1", "d": 10}}
    >>> with tempfile.TemporaryDirectory() as folder, Store(f"{folder}/runs.db") as store:
    ...     store.claim(job["run"])
    ...     score = {"metric": "f1", "value": 0.5, "weights": "dag", "directed": True}
    ...     store.finish(job, {"status": "converged", "scores": [score]})
    ...     store.runs()[["run", "method", "d", "status"]].values.tolist()
    True
    True
    [['00ff', 'A', 10, 'converged']]
    """

    def __init__(self, path: str | os.PathLike[str], read_only: bool = False) -> None:
        self.path = Path(path)
        self.read_only = read_only
        if self.path.is_dir():
            raise ParameterError(f"{path} is a folder. Give the name of a file as the store.")
        if read_only and not self.path.is_file():
            raise ParameterError(f"There is no store {path}. Make one with: bigdag experiment run")
        with self._sentences():
            if not read_only:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._sql = self._open()
        try:
            with self._sentences():
                self._check_and_create()
        except BaseException:
            self._sql.close()
            raise
        self._owner = None if read_only else _this_process()

    def _open(self) -> sqlite3.Connection:
        place = self.path.absolute()
        if not self.read_only:
            sql = sqlite3.connect(place, timeout=_BUSY, isolation_level=None)
            sql.execute("PRAGMA synchronous = FULL")
            return sql
        # A WAL store needs a shared-memory file even to be read. Where the folder does not allow
        # one and nothing is left in a WAL, the file alone is all there is.
        for how in ("mode=ro", "mode=ro&immutable=1"):
            sql = sqlite3.connect(
                f"{place.as_uri()}?{how}", uri=True, timeout=_BUSY, isolation_level=None
            )
            try:
                sql.execute("SELECT count(*) FROM sqlite_master")
                return sql
            except sqlite3.OperationalError:
                sql.close()
                wal = Path(f"{place}-wal")
                if "immutable" in how or (wal.exists() and wal.stat().st_size):
                    raise
        raise AssertionError

    def _check_and_create(self) -> None:
        tables = {row[0] for row in self._sql.execute("SELECT name FROM sqlite_master")}
        if not tables:
            if self.read_only:
                raise DataError(f"{self.path} is empty. Fill it with: bigdag experiment run")
            self._create()
        elif "meta" not in tables:
            raise DataError(
                f"{self.path} is a database, but no store of experiments. Give another name."
            )
        self._check_version()
        found = self._sql.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise sqlite3.DatabaseError(f"{_DAMAGED} ({found})")
        is_first = int(self.meta()["version"]) == 1
        for table, columns in _TABLES.items():
            if is_first:
                columns = {"scale" if k == "variance" else k: v for k, v in columns.items()}
            # The order counts as well: rows are written by it.
            found = [row[1] for row in self._sql.execute(f"PRAGMA table_info({table})")]
            if found != list(columns):
                missing = ", ".join(name for name in columns if name not in found)
                what = f"lacks {missing}" if missing else "has other columns"
                raise DataError(
                    f"{self.path} is a database, but no store of experiments as bigdag writes it: "
                    f"its table {table!r} {what if found else 'is missing'}. Give another name, or "
                    "a copy of the store from before it was changed."
                )
        if is_first:
            self._upgrade()

    def _create(self) -> None:
        self._sql.execute("PRAGMA journal_mode = WAL")
        with self._write():  # two runners may be here at once
            for table, columns in _TABLES.items():
                kinds = ", ".join(f"{name} {kind}" for name, kind in columns.items())
                self._sql.execute(f"CREATE TABLE IF NOT EXISTS {table} ({kinds})")
            self._sql.execute(_INDEX)
            self._sql.executemany(
                "INSERT OR IGNORE INTO meta VALUES (?, ?)",
                [("version", str(VERSION)), ("bigdag", __version__), ("created", now())],
            )

    def _upgrade(self) -> None:
        """Bring a store of version 1, which said scale for variance, to this version.

        One that is only looked at stays as it is: a copy in memory takes its place.
        """
        if self.read_only:
            file, self._sql = self._sql, sqlite3.connect(":memory:", isolation_level=None)
            file.backup(self._sql)
            file.close()
        with self._write():
            if self.meta()["version"] == "1":  # or another runner has just done it
                self._sql.execute("ALTER TABLE runs RENAME COLUMN scale TO variance")
                self._sql.execute(
                    """UPDATE runs SET job = replace(job, '"scale":', '"variance":')"""
                )
                self._sql.execute("UPDATE meta SET value = '2' WHERE key = 'version'")

    def _check_version(self) -> None:
        found = str(self.meta().get("version", "none"))
        if not (found.isascii() and found.isdigit() and int(found) > 0):
            raise DataError(
                f"{self.path} does not say which version of the store it is: {found[:40]!r} stands "
                "in the place of a number. It is no store of experiments, or it was changed by "
                "another program. Give another name, or a copy from before."
            )
        if int(found) > VERSION:
            raise DataError(
                f"{self.path} was written by a newer bigdag: version {found} of the store, and "
                f"this bigdag ({__version__}) knows {VERSION}. Update bigdag, or name another "
                "store. Nothing was changed."
            )

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """Turn what SQLite and the file system say into sentences."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, BigdagError):
                raise
            raise BigdagError(self._sentence(error)) from error

    def _sentence(self, error: Exception) -> str:
        code = getattr(error, "sqlite_errorcode", None)
        text = getattr(error, "strerror", None) or str(error)
        code = None if code is None else code & 0xFF  # without the extension
        if code == sqlite3.SQLITE_FULL or "disk is full" in text or "No space left" in text:
            return (
                f"The disk that holds {self.path} is full. Every finished run is kept. Make room "
                "and give the same command again; it does what is missing."
            )
        if code == sqlite3.SQLITE_NOTADB:
            return f"{self.path} is not an SQLite file, so it is no store. Give another name."
        if code == sqlite3.SQLITE_CORRUPT or "decode to UTF-8" in text or _DAMAGED in text:
            return (
                f"The store {self.path} is damaged: {text}. Take a copy from before, or save what "
                f"can be read with: sqlite3 {self.path} .recover | sqlite3 saved.db"
            )
        if code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH):
            return (
                f"{self.path} is not laid out as a store of experiments: {text}. It was changed by "
                "another program. Give another name, or a copy from before."
            )
        if code == sqlite3.SQLITE_BUSY:
            return (
                f"{self.path} was locked by another program for {_BUSY:.0f} s. Every finished run "
                "is kept. End that program and give the same command again."
            )
        what = "read" if self.read_only else "write"
        return (
            f"Cannot {what} the store {self.path}: {text}. Give a file in a folder that can be "
            f"{'read' if self.read_only else 'written'}. What was finished is unchanged."
        )

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the right to write from its beginning."""
        with self._sentences():
            self._sql.execute("BEGIN IMMEDIATE")
            try:
                yield self._sql
                self._sql.execute("COMMIT")
            except BaseException:
                if self._sql.in_transaction:
                    self._sql.execute("ROLLBACK")
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._sql.close()

    def beside(self, what: str) -> Path:
        """Return the folder of this store for datasets, snapshots or work; it may not exist.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Store(f"{folder}/runs.db") as store:
        ...     store.beside("snapshots").name
        'runs.snapshots'
        """
        return self.path.absolute().with_name(f"{self.path.stem}.{what}")

    # -------------------------------------------------------------- to run

    def plan(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Note what is to be run, so that `status` can say what is missing."""
        rows = [
            [*map(storable, (
                job["run"], job.get("experiment"), job.get("preset"), job["method"]["name"],
                job["dataset"]["name"], job.get("threads"), job.get("time_limit"),
            ))]
            for job in jobs
        ]  # fmt: skip
        with self._write() as sql:
            sql.executemany("INSERT OR IGNORE INTO planned VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def statuses(self) -> dict[str, str]:
        """Return the status of each finished run, by run."""
        with self._sentences():
            return dict(self._sql.execute("SELECT run, status FROM runs").fetchall())

    def status(self, run: str) -> str | None:
        """Return the status of a run, or None if it has not finished."""
        with self._sentences():
            row = self._sql.execute("SELECT status FROM runs WHERE run = ?", (run,)).fetchone()
        return None if row is None else str(row[0])

    def claim(self, run: str, retry_before: str | None = None) -> bool:
        """Take a run, unless it is finished or a living runner has it.

        Parameters
        ----------
        run : str
            Its id.
        retry_before : str or None
            A time: a run that failed before it may be taken again.

        Returns
        -------
        bool
            Whether it is ours to do.
        """
        with self._write() as sql:
            done = sql.execute("SELECT status, finished FROM runs WHERE run = ?", (run,)).fetchone()
            if done is not None and not (
                retry_before is not None and done[0] in FAILED and str(done[1] or "") < retry_before
            ):
                return False
            held = sql.execute(
                "SELECT owner, heartbeat FROM claims WHERE run = ?", (run,)
            ).fetchone()
            if held is not None and held[0] != self._owner and _alive(*held):
                return False
            moment = time.time()
            sql.execute(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?)",
                (run, self._owner, moment, moment),
            )
            return True

    def heartbeat(self) -> None:
        """Say that this process still works on what it has claimed."""
        with self._write() as sql:
            sql.execute(
                "UPDATE claims SET heartbeat = ? WHERE owner = ?", (time.time(), self._owner)
            )

    def release(self) -> None:
        """Give back what this process has claimed and not finished."""
        with self._write() as sql:
            sql.execute("DELETE FROM claims WHERE owner = ?", (self._owner,))

    def finish(self, job: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
        """Write a finished run and its scores, in one transaction.

        Parameters
        ----------
        job : mapping
            What was to be done.
        record : mapping
            What came out; only its status is a must.

        Returns
        -------
        bool
            False if the run was there already; nothing is changed then. A run that failed is
            replaced.
        """
        row = _row(job, record)
        scores = [[row["run"], *(storable(score.get(name)) for name in _SCORES[1:])]
                  for score in record.get("scores") or ()]  # fmt: skip
        with self._write() as sql:
            sql.execute("DELETE FROM claims WHERE run = ? AND owner = ?", (row["run"], self._owner))
            done = sql.execute("SELECT status FROM runs WHERE run = ?", (row["run"],)).fetchone()
            if done is not None and done[0] not in FAILED:
                return False
            sql.execute("DELETE FROM scores WHERE run = ?", (row["run"],))
            marks = ", ".join("?" * len(_COLUMNS))
            sql.execute(f"INSERT OR REPLACE INTO runs VALUES ({marks})", list(row.values()))
            sql.executemany("INSERT INTO scores VALUES (?, ?, ?, ?, ?, ?, ?)", scores)
        return True

    # -------------------------------------------------------------- to look

    def meta(self) -> dict[str, str]:
        """Return what the store says about itself."""
        with self._sentences():
            return dict(self._sql.execute("SELECT key, value FROM meta").fetchall())

    def claims(self) -> list[dict[str, Any]]:
        """Return the runs that a living runner has under way, the oldest first.

        Returns
        -------
        list of dict
            run, experiment, preset, method, dataset, owner, seconds (since it began), time_limit.
        """
        with self._sentences():
            rows = self._sql.execute(
                "SELECT c.run, p.experiment, p.preset, p.method, p.dataset, c.owner, c.begun, "
                "c.heartbeat, p.time_limit FROM claims c LEFT JOIN planned p ON p.run = c.run "
                "ORDER BY c.begun"
            ).fetchall()
        moment = time.time()
        names = ("run", "experiment", "preset", "method", "dataset", "owner")
        return [
            dict(zip(names, row[:6]), seconds=max(moment - row[6], 0.0), time_limit=row[8])
            for row in rows
            if isinstance(row[6], float) and _alive(row[5], row[7])
        ]  # fmt: skip

    def counts(self) -> list[dict[str, Any]]:
        """Return for each experiment and preset what is planned and what became of it.

        Returns
        -------
        list of dict
            experiment, preset, planned, and statuses: how many runs ended with each.
        """
        with self._sentences():
            rows = self._sql.execute(
                "SELECT experiment, preset, status, count(*) FROM ("
                "  SELECT p.experiment, p.preset, r.status FROM planned p"
                "  LEFT JOIN runs r ON r.run = p.run UNION ALL"
                "  SELECT experiment, preset, status FROM runs"
                "  WHERE run NOT IN (SELECT run FROM planned)"
                ") GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
            ).fetchall()
        found: dict[tuple[Any, Any], dict[str, Any]] = {}
        for experiment, preset, status, count in rows:
            part = found.setdefault(
                (experiment, preset),
                {"experiment": experiment, "preset": preset, "planned": 0, "statuses": {}},
            )
            part["planned"] += count
            if status is not None:
                part["statuses"][status] = count
        return list(found.values())

    def failures(self) -> list[dict[str, Any]]:
        """Return the runs that failed, the latest first: run, method, dataset, status, message."""
        names = ("run", "experiment", "preset", "method", "dataset", "status", "message")
        marks = ", ".join("?" * len(FAILED))
        with self._sentences():
            rows = self._sql.execute(
                f"SELECT {', '.join(names)} FROM runs WHERE status IN ({marks}) "
                "ORDER BY finished DESC",
                FAILED,
            ).fetchall()
        return [dict(zip(names, row)) for row in rows]

    def runs(self) -> pd.DataFrame:
        """Return the finished runs, a row each, in the order they finished.

        The columns job, phase_seconds, phase_steps, curve, versions and machine are JSON.
        """
        return self._frame("runs", "finished, run")

    def scores(self) -> pd.DataFrame:
        """Return all scores: run, snapshot, weights, directed, threshold, metric, value."""
        return self._frame("scores", "rowid")

    def export(self) -> pd.DataFrame:
        """Return one long table: each score beside its run; a run without scores stands alone."""
        runs = self.runs().drop(columns=list(_NOT_EXPORTED))
        for name in ("versions", "machine"):  # long texts, the same in most rows
            runs[name] = runs[name].astype("category")
        return runs.merge(self.scores(), on="run", how="left")

    def _frame(self, table: str, order: str) -> pd.DataFrame:
        import pandas as pd

        columns = _TABLES[table]
        with self._sentences():
            rows = self._sql.execute(
                f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}"
            ).fetchall()
        frame = pd.DataFrame(rows, columns=list(columns), dtype=object)
        words: Any = "object" if pd.__version__.startswith("2.") else "str"
        for name, kind in columns.items():
            self._check_values(frame, table, name, kind)
            # A column that holds nothing has its type all the same; whole numbers with gaps are
            # floats.
            whole = kind == _INTEGER and all(type(value) is int for value in frame[name])
            text = kind.split()[0] == _TEXT
            frame[name] = frame[name].astype(words if text else "int64" if whole else "float64")
        if "directed" in columns:
            frame["directed"] = frame["directed"] == 1
        return frame

    def _check_values(self, frame: pd.DataFrame, table: str, name: str, kind: str) -> None:
        """Refuse what this program would not have written: SQLite lets any value into any column.

        Texts may be missing, but for the id of a run.
        """
        import numpy as np

        is_text = kind.split()[0] == _TEXT
        right = {str} if is_text else {int, float}
        gaps = set() if name == "run" else {type(None)}
        # Quick, as there may be a million scores.
        kinds = set(map(type, frame[name]))
        if kinds <= right | gaps and (
            is_text or not np.isinf(frame[name].to_numpy(dtype=np.float64)).any()
        ):
            return
        for run, value in zip(frame["run"], frame[name]):
            if type(value) in gaps or (type(value) in right and (is_text or math.isfinite(value))):
                continue
            raise DataError(
                f"The store {self.path} holds {shortened(value)} in the column {name!r} of the "
                f"table {table!r}, for run {shortened(run)}, where a "
                f"{'text' if is_text else 'finite number'} belongs. {CHANGED}"
            )


CHANGED = (
    "It was changed by another program: take a copy from before, or delete that run from the "
    "tables 'runs' and 'scores', and give the command that made it again."
)


def shortened(value: Any) -> str:
    """Return a value as it is written in Python, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _row(job: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of `runs` for a finished run, in the order of its columns."""
    data, method = job["dataset"], job["method"]
    sortability = record.get("sortability") or {}
    known = {
        "run": job["run"],
        "dataset": data["name"],
        "repetition": data.get("seed"),
        "method": method["name"],
        "word": method.get("word"),
        "threads": record.get("threads") or job.get("threads"),
        "var_sortability": sortability.get("var"),
        "r2_sortability": sortability.get("r2"),
        "var_sortability_found": sortability.get("var_found"),
        "finished": record.get("finished") or now(),
        "job": dict(job),
    }
    row = {}
    for name in _COLUMNS:
        value = known.get(name)
        for source in (record, job, data):  # the first that has it
            if value is None and name not in known:
                value = source.get(name)
        row[name] = json.dumps(value) if isinstance(value, dict | list) else storable(value)
    return row


def storable(value: Any) -> Any:
    r"""Return a value without halves of characters, which stand for bytes of odd file names.

    Examples
    --------
    >>> storable("a\udcff"), storable(3)
    ('a\\udcff', 3)
    """
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {storable(name): storable(part) for name, part in value.items()}
    return [*map(storable, value)] if isinstance(value, list) else value
