"""A simulated world in a folder: a training and a validation table, the true DAG and a card.

The card says how the world was made and how far simple scores give its order away. All tables come
from one model. The same card gives the same files.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bigdag import __version__, metrics
from bigdag.errors import ParameterError
from bigdag.graph.dag import DAG
from bigdag.resources import require_memory
from bigdag.simulate import models
from bigdag.writing import Output, whole_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["World", "write_world"]

_UNITS = ("raw", "standardised", "internal", "mixed")
_FAR = 10  # times as far from zero as it was: an outlier
_ARC_BYTES = 200  # of an arc while the graph is drawn
_COLUMN_BYTES = 5000  # of a column while a table is written, beside its numbers
_PILOT_ROWS = 2000  # of the sample that internally standardised models are measured on


@dataclass(frozen=True)
class World:
    """How a world is made.

    Attributes
    ----------
    d, k, graph : int, float, {"ER", "SF"}
        The DAG, as in `simulate.random_dag`.
    noise, variance : str
        The noise, as in `simulate.sample`; scales of "NV" noise are drawn once for all tables.
    n, validation : int
        Rows of the training and of the validation table.
    seed : int
        Of everything random.
    units : {"raw", "standardised", "internal", "mixed"}
        The data as they come; with the mean and the standard deviation of the training table taken
        out of both tables; of the internally standardised model (iSCM); or each column in a unit of
        its own, from a hundredth to a hundred times the first one.
    outliers, missing : float
        The share of the values of the training table that `damage` makes ten times as large, or
        takes out.

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
    variance: str = "EV"
    n: int = 1000
    validation: int = 1000
    seed: int = 0
    units: str = "raw"
    outliers: float = 0.0
    missing: float = 0.0

    def check(self) -> None:
        """Refuse attributes that no world can have, before any work."""
        models._check_word(self.units, _UNITS, "units")
        for name in ("outliers", "missing"):
            share = getattr(self, name)
            if not 0 <= share < 1:
                raise ParameterError(
                    f"{name} must be a share of the values, at least 0 and below 1. Got {share!r} "
                    "instead."
                )
        models._check_count(self.d, "d", 2)
        for name, least in (("n", 2), ("validation", 2), ("seed", 0)):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, int) or given < least:
                raise ParameterError(
                    f"{name} must be an integer >= {least}. Got {given!r} instead."
                )
        for name, words in (
            ("graph", models.GRAPHS), ("noise", models.NOISES), ("variance", models.VARIANCES)
        ):  # fmt: skip
            models._check_word(getattr(self, name), words, name)
        models._count_arcs(self.d, self.k, self.graph)

    def memory(self) -> int:
        """Return about the bytes that drawing and writing it take at the peak.

        Examples
        --------
        >>> World(d=1000).memory() > 2 * 8 * 1000 * 1000  # the two tables
        True
        """
        d, n = self.d, self.n
        table, tables = 8 * d * n, 8 * d * (n + self.validation)
        arcs, pairs = round(self.k * d), d * (d - 1) // 2
        graph = _ARC_BYTES * arcs + (8 * pairs if self.graph == "ER" and 20 * arcs > pairs else 0)
        pilot = 8 * d * _PILOT_ROWS if self.units == "internal" else 0
        scaled = 0
        if self.units in ("standardised", "mixed"):  # both copies, and what one is made from
            scaled = tables + 8 * d * max(n, self.validation)
        if n > d:  # R² by way of the correlations, else by way of the inner products of samples
            scores = max(3 * table, 2 * table + 5 * 8 * d * d)
        else:
            scores = 4 * table + 2 * 8 * n * n
        return graph + max(pilot, tables + max(scaled, scores, _COLUMN_BYTES * d))

    def draw(self) -> tuple[DAG, NDArray[np.float64], NDArray[np.float64]]:
        """Return the true DAG, its weights in the units of the data, and the two tables."""
        self.check()
        rng = np.random.default_rng(self.seed)
        dag = models.random_dag(self.d, self.k, self.graph, rng)
        scales = models.noise_scales(self.d, self.variance, rng)
        if self.units == "internal":
            dag, scales = models.internally_standardised(dag, self.noise, scales, rng, _PILOT_ROWS)
        train, validation = (
            models.sample(dag, rows, self.noise, scales, rng) for rows in (self.n, self.validation)
        )
        if self.units in ("standardised", "mixed"):
            mean, sd = train.mean(axis=0), train.std(axis=0)
            if self.units == "mixed":
                mean, sd = np.zeros(self.d), 10.0 ** rng.uniform(-2, 2, self.d)
            weights = dag.weights.tocoo()
            weights.data = weights.data * sd[weights.row] / sd[weights.col]
            dag = DAG(weights, order=dag.order)
            train, validation = (train - mean) / sd, (validation - mean) / sd
        return dag, train, validation

    def damage(self, table: NDArray[np.float64]) -> None:
        """Put outliers into a table and take values out of it, in place, by the seed.

        Examples
        --------
        >>> world = World(d=20, n=100, missing=0.1)
        >>> _, train, _ = world.draw()
        >>> world.damage(train)
        >>> bool(0.07 < np.isnan(train).mean() < 0.13)
        True
        """
        rng = np.random.default_rng([self.seed, 1])  # the tables stay those of an undamaged world
        for column in table.T:
            chance = rng.random(len(column))
            column[chance < self.outliers] *= _FAR
            column[chance >= 1 - self.missing] = np.nan


def write_world(
    world: World,
    folder: str | os.PathLike[str] | Output,
    force: bool = False,
    memory_limit: float | str | None = None,
) -> dict[str, Any]:
    """Draw a world and write it to a folder, whole or not at all.

    Parameters
    ----------
    world : World
        How it is made.
    folder : path-like or Output
        Gets train.parquet, which is damaged where the world says so, validation.parquet,
        truth.parquet and card.json; made if missing. An `Output` says afterwards where they are,
        should they not be there.
    force : bool, default=False
        Overwrite these files where they exist; other files in the folder are left alone.
    memory_limit : float or str, optional
        The most memory that the process may hold, such as "4GB"; by default what the machine can
        spare.

    Returns
    -------
    dict
        The card: the attributes of the world, the version of bigdag, the number of arcs, and
        ``var_sortability`` and ``r2_sortability`` of the training table before any damage.

    Raises
    ------
    OutputExistsError
        If there is something in the folder, unless `force` is given.
    ParameterError
        If the folder cannot be written, or the world cannot be.
    MemoryLimitError
        If the world does not fit.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     card = write_world(World(d=20, k=1, n=100), folder)
    ...     sorted(os.listdir(folder))
    ['card.json', 'train.parquet', 'truth.parquet', 'validation.parquet']
    """
    output = folder if isinstance(folder, Output) else Output(folder, force, folder=True)
    world.check()
    output.reserve()
    require_memory(
        world.memory(),
        f"A world of {world.d:,} variables with {world.n:,} and {world.validation:,} samples",
        "Use fewer variables (d) or samples (n, validation).",
        memory_limit,
    )
    dag, train, validation = world.draw()
    card = {
        "bigdag": __version__,
        **asdict(world),
        "arcs": dag.n_arcs,
        "var_sortability": _finite(metrics.var_sortability(train, dag)),
        "r2_sortability": _finite(metrics.r2_sortability(train, dag)),
    }
    world.damage(train)

    def fill(new: Path) -> None:
        _write_table(train, dag.names, new / "train.parquet")
        _write_table(validation, dag.names, new / "validation.parquet")
        dag.save(new / "truth.parquet")
        (new / "card.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")

    if isinstance(folder, Output):
        folder.write(fill)
    else:
        with whole_folder(folder, force) as new:
            fill(new)
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
