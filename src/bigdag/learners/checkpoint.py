"""The resamples of a bootstrap in a file, so that the same work goes on after whatever ended it.

The file of one fit is a journal (:mod:`bigdag.learners.journal`); what it is of is said here, too.
A file belongs to one table, one learner with its parameters and one seed; how many resamples are
wanted, and in how many threads, may change.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import joblib
import numpy as np
import scipy.sparse as sp

from bigdag.errors import BigdagError, ParameterError
from bigdag.graph.consensus import Answer
from bigdag.graph.dag import DAG
from bigdag.knowledge.known import Knowledge, as_knowledge
from bigdag.learners.journal import Journal, digest_of_parts, locked
from bigdag.writing import whole_file

if TYPE_CHECKING:
    from bigdag.data.dataset import Dataset
    from bigdag.learners.base import Learner

__all__ = [
    "Held",
    "deciding",
    "digest_of",
    "explain_difference",
    "opened_journal",
    "plain",
    "read_resamples",
    "seed_of",
    "write_resamples",
]

_FORMAT = "bigdag bootstrap 1"


def digest_of(data: Dataset) -> str:
    """Return a digest of a table: its names and its values."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([list(data.names), data.n_samples]).encode())
    values = data.X if data.X is not None else data.covariance
    assert values is not None
    rows = () if data.incomplete is None else (data.incomplete.X.T,)
    for part in (values.T, data.mean, *rows):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def deciding(learner: Learner) -> dict[str, Any]:
    """Return the parameters that change what a learner finds."""
    beside = {"n_jobs", "memory_limit", "callback", "verbose", "random_state", "checkpoint"}
    found = {k: v for k, v in learner.get_params(deep=False).items() if k not in beside}
    if found.get("knowledge") is not None:
        found["knowledge"] = as_knowledge(found["knowledge"])
    return found


def plain(value: Any) -> Any:
    """Return a parameter as JSON would give it back; of what is long, a digest of all of it.

    Examples
    --------
    >>> plain(0.1), plain(np.float64(0.1))
    (0.1, 0.1)
    >>> plain(np.zeros(3)) == plain(np.zeros(3)), plain(np.zeros(3)) == plain(np.ones(3))
    (True, False)
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | int | float | bool | None):
        return value
    said = type(value).__name__
    parts = value if isinstance(value, list | tuple) else [value]
    if isinstance(value, Knowledge):
        said = f"{_sorted_knowledge(value)!r:.100}"
    elif all(isinstance(one, DAG | str | int | float) for one in parts):
        said = f"{value!r:.100}"  # that of others may tell an address
    return f"{said} ({digest_of_parts(_content(value)).hex()[:16]})"


def _content(value: Any) -> Any:
    """Return what a parameter is, of arrays, numbers and text, whatever was asked of it before."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufcSU":
        return value
    if isinstance(value, str | bytes | int | float | bool | np.generic | None):
        return value
    kind = type(value).__qualname__
    if isinstance(value, Knowledge):
        return kind, json.dumps(_sorted_knowledge(value), sort_keys=True)
    if isinstance(value, DAG):
        return kind, list(value.names), _content(value.weights), value.order
    if sp.issparse(value):
        whole = sp.csc_array(value)
        whole.sum_duplicates()
        return kind, whole.shape, whole.indptr, whole.indices, whole.data
    if isinstance(value, list | tuple):
        return kind, [_content(one) for one in value]
    if isinstance(value, Mapping):
        return kind, [(repr(k), _content(value[k])) for k in sorted(value, key=repr)]
    if isinstance(value, set | frozenset):
        return kind, sorted(repr(one) for one in value)
    if hasattr(value, "get_params"):
        return kind, _content(value.get_params(deep=False))
    return kind, joblib.hash(value)


def _sorted_knowledge(known: Knowledge) -> dict[str, Any]:
    """Return what is known, without the sequence in which it was said where that means nothing."""
    said = known.to_dict()
    for name, value in said.items():
        if name == "temporal_order":
            said[name] = [sorted(tier, key=repr) for tier in value]
        elif isinstance(value, list):
            said[name] = sorted(value, key=repr)
    return said


def seed_of(random_state: Any) -> int:
    """Return the seed that a parameter stands for, drawn where it is none."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if random_state is None:
        return int(np.random.SeedSequence().entropy) % 2**63  # type: ignore[arg-type]
    return int(random_state)


def opened_journal(path: str | os.PathLike[str], learner: Learner, data: Dataset) -> Journal:
    """Open the file of one fit, or begin it; its ``about`` has the seed to go on with.

    Raises
    ------
    ParameterError
        If the file is of another table, of other parameters or of another version.
    """
    from bigdag import __version__

    limits = {"time_limit", "max_iter"}  # a fit that such a limit has ended may go on
    given = {f"learner.{k}": plain(v) for k, v in sorted(deciding(learner).items())}
    about = {
        "version": __version__,
        "table": digest_of(data),
        "n_variables": data.n_features,
        "learner": type(learner).__name__,
        **{name: v for name, v in given.items() if name.removeprefix("learner.") not in limits},
        "seed": seed_of(learner.random_state),
    }
    drawn = isinstance(learner.random_state, np.random.Generator | None)

    def explain(then: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
        return explain_difference(then, {**now, "seed": then.get("seed")} if drawn else now)

    return Journal(path, about, explain)


def explain_difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Say in which entries two descriptions of a work differ; None where in none.

    Examples
    --------
    >>> explain_difference({"seed": 1, "penalty": 1.0}, {"seed": 2, "penalty": 1.0})
    'seed was 1 and is now 2'
    """
    told = []
    for name in dict.fromkeys([*then, *now]):
        if then.get(name) == now.get(name):
            continue
        if name == "table":
            told.append("the table was another one")
        else:
            told.append(f"{name} was {then.get(name)!r:.60} and is now {now.get(name)!r:.60}")
    return "; ".join(told) or None


class Held:
    """The file of a bootstrap under way, which is nobody else's until the context ends.

    It is locked as the journal of one fit is. Each writing replaces it by a new file, which is
    locked before it takes the name.

    Parameters
    ----------
    path : path-like or None
        The file; nothing is written without one.

    Raises
    ------
    ParameterError
        If it cannot be written, or another bootstrap under way has it.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._made = False  # by this one, and without any resample yet
        if path is not None and os.path.exists(path):
            self._file = locked(Path(path))

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is None:
            return
        if self._made and self.path is not None:
            with suppress(OSError):
                os.unlink(self.path)
        self._file.close()
        self._file = None

    def begin(self, about: Mapping[str, Any]) -> None:
        """Make the file where there is none, so that a second bootstrap is refused at once."""
        if self.path is None or self._file is not None:
            return
        try:
            self.write(about, {})
            self._made = True
        except ParameterError:
            raise
        except (OSError, BigdagError):
            pass  # it is tried again with the first resamples

    def write(self, about: Mapping[str, Any], answers: Mapping[int, Answer]) -> None:
        """Write resamples in place of what the file held."""
        assert self.path is not None
        if self._file is None and os.path.exists(self.path):
            self._file = locked(Path(self.path))  # refused where another one has made it
        before, self._file = self._file, write_resamples(self.path, about, answers)
        self._made = False
        if before is not None:
            before.close()


def write_resamples(
    path: str | os.PathLike[str], about: Mapping[str, Any], answers: Mapping[int, Answer]
) -> BinaryIO:
    """Write resamples by number, and what they are of; the file appears whole or not at all.

    It is returned open, and locked.
    """
    numbers = sorted(answers)
    parts = [answers[k] for k in numbers]
    with whole_file(path, force=True) as file:
        np.savez_compressed(
            file,
            format=np.array(_FORMAT),
            about=np.array(json.dumps(dict(about))),
            numbers=np.array(numbers, dtype=np.int64),
            sizes=np.array([a.weights.nnz for a in parts], dtype=np.int64),
            indptr=np.array([a.weights.indptr for a in parts], dtype=np.int64),
            rows=_joined([a.weights.indices for a in parts], np.int64),
            weights=_joined([a.weights.data for a in parts], np.float64),
            loose=_joined([a.loose for a in parts], np.bool_),
        )
        file.flush()
        return locked(Path(file.name))  # before it takes the name of the other


def read_resamples(
    path: str | os.PathLike[str], d: int
) -> tuple[dict[str, Any], dict[int, Answer]]:
    """Return what the resamples in a file are of, and these by number.

    Raises
    ------
    ParameterError
        If the file is none that `write_resamples` wrote.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            if str(stored["format"]) != _FORMAT:
                raise ValueError("of another version")
            about = json.loads(str(stored["about"]))
            if about.get("n_variables") != d:
                return about, {}  # of another table, which the caller says
            ends = np.concatenate([[0], np.cumsum(stored["sizes"])])
            rows, weights, loose = stored["rows"], stored["weights"], stored["loose"]
            indptr, answers = stored["indptr"], {}
            for a, k in enumerate(stored["numbers"].tolist()):
                part = slice(ends[a], ends[a + 1])
                matrix = sp.csc_array((weights[part], rows[part], indptr[a]), shape=(d, d))
                answers[k] = Answer(matrix, loose[part])
            return about, answers
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ParameterError(
            f"{path} is no checkpoint that a bootstrap of this version wrote, or it is damaged. "
            "Give another name, or remove the file to begin anew."
        ) from error


def _joined(parts: list[Any], dtype: Any) -> Any:
    return np.concatenate([np.empty(0, dtype=dtype), *parts]).astype(dtype)
