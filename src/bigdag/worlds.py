"""A simulated world in a folder: a training and a validation table, the true DAG and a card.

The card says how the world was made and how far simple scores give its order away. All tables come
from one model. The same card gives the same files.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bigdag import __version__, metrics, simulate
from bigdag.dag import DAG
from bigdag.errors import BigdagError, OutputExistsError, ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["World", "check_folder", "write_world"]


@dataclass(frozen=True)
class World:
    """How a world is made.

    Attributes
    ----------
    d, k, graph : int, float, {"ER", "SF"}
        The DAG, as in `simulate.random_dag`.
    noise, scale : str
        The noise, as in `simulate.sample`; scales of "NV" noise are drawn once for all tables.
    n, validation : int
        Rows of the training and of the validation table.
    seed : int
        Of everything random.
    units : {"raw", "standardised", "internal"}
        The data as they come; with the mean and the standard deviation of the training table taken
        out of both tables; or of the internally standardised model (iSCM).

    Examples
    --------
    >>> dag, train, validation = World(d=20, k=1, n=100, validation=50).draw()
    >>> dag.n_arcs, train.shape, validation.shape
    (20, (100, 20), (50, 20))
    """

    d: int
    k: float = 1.0
    graph: str = "ER"
    noise: str = "gaussian"
    scale: str = "EV"
    n: int = 1000
    validation: int = 1000
    seed: int = 0
    units: str = "raw"

    def draw(self) -> tuple[DAG, NDArray[np.float64], NDArray[np.float64]]:
        """Return the true DAG, its weights in the units of the data, and the two tables."""
        if self.units not in ("raw", "standardised", "internal"):
            raise ParameterError(
                f"units must be 'raw', 'standardised' or 'internal'. Got {self.units!r} instead."
            )
        for name, least in (("n", 2), ("validation", 2), ("seed", 0)):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, int) or given < least:
                raise ParameterError(
                    f"{name} must be an integer >= {least}. Got {given!r} instead."
                )
        rng = np.random.default_rng(self.seed)
        dag = simulate.random_dag(self.d, self.k, self.graph, rng)
        scales = simulate.noise_scales(self.d, self.scale, rng)
        if self.units == "internal":
            dag, scales = simulate.internally_standardised(dag, self.noise, scales, rng)
        train, validation = (
            simulate.sample(dag, rows, self.noise, scales, rng)
            for rows in (self.n, self.validation)
        )
        if self.units == "standardised":
            mean, sd = train.mean(axis=0), train.std(axis=0)
            weights = dag.weights.tocoo()
            weights.data = weights.data * sd[weights.row] / sd[weights.col]
            dag = DAG(weights, order=dag.order)
            train, validation = (train - mean) / sd, (validation - mean) / sd
        return dag, train, validation


def check_folder(folder: str | os.PathLike[str], force: bool = False) -> None:
    """Refuse a folder that a world cannot be written to.

    Raises
    ------
    OutputExistsError
        If there is something in it, unless `force` is given.
    ParameterError
        If it is a file, or the folder above it does not exist.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_folder(f"{folder}/world")
    """
    target = Path(os.path.realpath(folder))
    if target.exists() and not target.is_dir():
        raise ParameterError(f"{folder} is a file. Give the name of a folder to write to.")
    if not target.parent.is_dir():
        raise ParameterError(f"Cannot write {folder}: the folder {target.parent} does not exist.")
    if target.is_dir() and any(target.iterdir()) and not force:
        raise OutputExistsError(
            f"The folder {folder} is not empty and was left alone. Choose another name, or "
            "overwrite the files of an earlier simulation in it with force=True (--force on the "
            "command line)."
        )


def write_world(
    world: World, folder: str | os.PathLike[str], force: bool = False
) -> dict[str, Any]:
    """Draw a world and write it to a folder, whole or not at all.

    Parameters
    ----------
    world : World
        How it is made.
    folder : path-like
        Gets train.parquet, validation.parquet, truth.parquet and card.json; made if missing.
    force : bool, default=False
        Overwrite these files where they exist; other files in the folder are left alone.

    Returns
    -------
    dict
        The card: the attributes of the world, the version of bigdag, the number of arcs, and
        ``var_sortability`` and ``r2_sortability`` of the training table.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     card = write_world(World(d=20, k=1, n=100), folder)
    ...     sorted(os.listdir(folder))
    ['card.json', 'train.parquet', 'truth.parquet', 'validation.parquet']
    """
    check_folder(folder, force)
    dag, train, validation = world.draw()
    card = {
        "bigdag": __version__,
        **asdict(world),
        "arcs": dag.n_arcs,
        "var_sortability": _finite(metrics.var_sortability(train, dag)),
        "r2_sortability": _finite(metrics.r2_sortability(train, dag)),
    }
    target = Path(os.path.realpath(folder))
    temporary = target.with_name(f".bigdag-{secrets.token_hex(8)}.tmp")
    try:
        temporary.mkdir()
        _write_table(train, dag.names, temporary / "train.parquet")
        _write_table(validation, dag.names, temporary / "validation.parquet")
        dag.save(temporary / "truth.parquet")
        (temporary / "card.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
        if target.is_dir() and any(target.iterdir()):
            for file in temporary.iterdir():
                os.replace(file, target / file.name)
        else:
            os.replace(temporary, target)
    except OSError as error:
        if isinstance(error, BigdagError):
            raise
        raise BigdagError(f"Could not write {folder}: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            shutil.rmtree(temporary)
    return card


def _write_table(X: NDArray[np.float64], names: tuple[str, ...], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = np.asfortranarray(X)
    table = pa.table([columns[:, j] for j in range(columns.shape[1])], names=list(names))
    # Random numbers do not compress, and a dictionary of them is only in the way.
    pq.write_table(table, path, compression="none", use_dictionary=False)


def _finite(value: float) -> float | None:
    """The value, or None where JSON has no word for it."""
    return value if math.isfinite(value) else None
