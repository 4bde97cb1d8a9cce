"""Data sets of a plan: each made once from its seed, then shared as memory-mapped files.

A folder holds ``train.npy`` and ``validation.npy``, centred and in Fortran order, ``means.npy``
with what was subtracted, ``truth.npz`` where a truth is known, and ``card.json``, written last,
which has the sizes and digests of the others and of itself. What is damaged is made again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bigdag import DAG, Dataset, __version__, metrics, simulate
from bigdag.data.dataset import as_dataset
from bigdag.errors import BigdagError, DataError, DataWarning
from bigdag.experiments.plan.file import digest_of, unchanged
from bigdag.graph.align import on_columns
from bigdag.simulate.worlds import World
from bigdag.writing import whole_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Prepared", "load", "prepare"]

_CARD = "card.json"
_UNITS = {"raw": "raw", "standardised": "standardised", "iscm": "internal"}


@dataclass(frozen=True)
class Prepared:
    """A data set as a run reads it.

    Attributes
    ----------
    train, validation : Dataset
        Memory-mapped, so that runs on one machine share them.
    truth : DAG or None
        The true graph.
    card : dict
        How it was made, and its sortabilities where a truth is known.
    """

    train: Dataset
    validation: Dataset
    truth: DAG | None
    card: dict[str, Any]


def prepare(dataset: dict[str, Any], folder: str | os.PathLike[str]) -> Path:
    """Make a data set, unless it is there already and whole.

    Parameters
    ----------
    dataset : dict
        The entry ``dataset`` of a job.
    folder : path-like
        Where the data sets of all plans lie; made if missing.

    Returns
    -------
    Path
        The folder of this data set. It appears whole, also when several processes make it at once.

    Raises
    ------
    DataError
        If the user's table or its truth are not those of the plan any more.

    Examples
    --------
    >>> import tempfile
    >>> from bigdag.experiments import load_plan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = prepare(load_plan("exp1", "smoke").datasets[0], folder)
    ...     sorted(os.listdir(path))
    ['card.json', 'means.npy', 'train.npy', 'truth.npz', 'validation.npy']
    """
    target = Path(folder) / dataset["key"]
    if _is_whole(target):
        return target
    made = (_own if "table" in dataset else _simulated)(dataset)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # What is damaged is replaced file by file. Files are the same whoever makes them, so that
        # several processes may do so at once.
        with whole_folder(target, force=True) as temporary:
            _write(dataset, made, temporary)
    except (OSError, BigdagError) as error:
        if not _is_whole(target):  # or another process was first
            reason = f"{getattr(error, 'strerror', None) or error}".rstrip(".")
            raise BigdagError(
                f"Could not write the data set {target}: {reason}. Remove it if it is there, and "
                "see to it that its folder can be written and has room."
            ) from error
    return target


def _is_whole(folder: Path) -> bool:
    """Tell whether a data set is there as it was written."""
    try:
        card = json.loads((folder / _CARD).read_text(encoding="utf-8"))
        known = {name: about for name, about in card.items() if name != "card_digest"}
        return card["card_digest"] == digest_of(known) and all(
            # The size first, as it is known at once.
            (folder / name).stat().st_size == about["bytes"]
            and _digest(folder / name) == about["sha256"]
            for name, about in card["files"].items()
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load(path: str | os.PathLike[str]) -> Prepared:
    """Open a data set that `prepare` has made; its tables stay on disk until they are used.

    Parameters
    ----------
    path : path-like
        What `prepare` returned.

    Returns
    -------
    Prepared

    Examples
    --------
    >>> import tempfile
    >>> from bigdag.experiments import load_plan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load(prepare(load_plan("exp1", "smoke").datasets[0], folder)).train
    Dataset(n_samples=100, n_features=20, named=False)
    """
    folder = Path(path)
    card = json.loads((folder / _CARD).read_text(encoding="utf-8"))
    means = np.load(folder / "means.npy")
    names = tuple(card["names"] or (f"x{j}" for j in range(means.shape[1])))
    train, validation = (
        _mapped(folder / f"{part}.npy", names, bool(card["names"]), mean)
        for part, mean in zip(("train", "validation"), means)
    )
    truth = DAG.load(folder / "truth.npz") if "truth.npz" in card["files"] else None
    return Prepared(train, validation, truth, card)


def _mapped(path: Path, names: tuple[str, ...], named: bool, mean: NDArray[Any]) -> Dataset:
    # Checked and centred when it was written; `as_dataset` would copy it.
    X = np.asarray(np.load(path, mmap_mode="r"))
    return Dataset(X=X, names=names, named=named, mean=mean, n_samples=len(X))


def _write(
    dataset: dict[str, Any], made: tuple[DAG | None, Dataset, Dataset], folder: Path
) -> None:
    truth, train, validation = made
    for part, data in (("train", train), ("validation", validation)):
        assert data.X is not None
        np.save(folder / f"{part}.npy", data.X)
    np.save(folder / "means.npy", np.array([train.mean, validation.mean]))
    card = {
        "bigdag": __version__,
        **{key: value for key, value in dataset.items() if key not in ("table", "truth")},
        "names": list(train.names) if train.named else None,
        "arcs": None,
        "var_sortability": None,
        "r2_sortability": None,
    }
    if truth is not None:
        truth.save(folder / "truth.npz")
        card["arcs"] = truth.n_arcs
        for name in ("var_sortability", "r2_sortability"):
            value = getattr(metrics, name)(train, truth)
            card[name] = value if math.isfinite(value) else None
    card["files"] = {
        path.name: {"bytes": path.stat().st_size, "sha256": _digest(path)}
        for path in sorted(folder.iterdir())
    }
    card["card_digest"] = digest_of(card)
    (folder / _CARD).write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")


def _simulated(dataset: dict[str, Any]) -> tuple[DAG, Dataset, Dataset]:
    """Draw as many rows for validation as for training (section 4.1)."""
    n = dataset["n"]
    names = ("d", "k", "graph", "noise", "variance", "seed")
    world = World(
        **{name: dataset[name] for name in names},
        n=n, validation=n, units=_UNITS[dataset["units"]],
    )  # fmt: skip
    truth, train, validation = world.draw()
    return truth, as_dataset(train), as_dataset(validation)


def _own(dataset: dict[str, Any]) -> tuple[DAG | None, Dataset, Dataset]:
    """Split a user's table by the seed; its truth, if any, on the columns of the table."""
    from bigdag.data.tables import read_table

    with unchanged((dataset["table"], dataset["truth"])) as digest:
        if digest != dataset["digest"]:
            raise DataError(
                f"{' or '.join(filter(None, (dataset['table'], dataset['truth'])))} is not what it "
                "was when the plan was made, so this run was not done. Plan again: the same "
                "command, given again, takes the files as they are now, as another data set."
            )
        table = read_table(dataset["table"])
        truth = None if dataset["truth"] is None else DAG.load(dataset["truth"])
    assert table.X is not None
    rows = np.random.default_rng(dataset["seed"]).permutation(table.n_samples)
    kept, held_out = table.X[rows[: dataset["n"]]], table.X[rows[dataset["n"] :]]
    if dataset["units"] == "standardised":
        mean, sd = kept.mean(axis=0), kept.std(axis=0)
        held_out = (held_out - mean) / np.where(sd > 0, sd, 1.0)
        kept = simulate.standardise(kept)
    names = table.names if table.named else None
    with warnings.catch_warnings():
        # Of columns that happen to be constant in a few rows.
        warnings.simplefilter("ignore", DataWarning)
        train, validation = as_dataset(kept, names), as_dataset(held_out, names)
    return None if truth is None else on_columns(truth, train), train, validation
