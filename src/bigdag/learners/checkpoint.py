"""The resamples of a bootstrap in a file, so that the same work goes on after whatever ended it.

A file belongs to one table, one learner with its parameters and one seed; how many resamples are
wanted, and in how many threads, may change.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from bigdag.errors import ParameterError
from bigdag.graph.consensus import Answer
from bigdag.writing import whole_file

if TYPE_CHECKING:
    from bigdag.data.dataset import Dataset

__all__ = ["digest_of", "explain_difference", "read_resamples", "write_resamples"]

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


def explain_difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Say in which entries two descriptions of a bootstrap differ; None where in none.

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


def write_resamples(
    path: str | os.PathLike[str], about: Mapping[str, Any], answers: Mapping[int, Answer]
) -> None:
    """Write resamples by number, and what they are of; the file appears whole or not at all."""
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
