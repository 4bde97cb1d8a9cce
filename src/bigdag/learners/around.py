"""One variable of a huge table: which columns to look at to learn its surroundings.

Beginning from the variable, those that are correlated with it come in, then those correlated with
these, one step further than the arcs that are asked for: a Markov blanket holds the other parents
of children, and what stands behind a parent decides which arcs into it are there. Correlations
are computed for variables that came in, never for all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bigdag.errors import ParameterError, near_or_some
from bigdag.search.ebic import arc_cost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from bigdag.data.dataset import Dataset
    from bigdag.engine.limits import Limits

__all__ = ["Surroundings", "place_of", "surroundings"]

_STRONGEST = 40  # correlated variables of one that come in, at the most
_WEAKER = 0.7  # of what an arc must explain by itself: beside others it may be more
_ROWS = 300  # variables whose correlations with all others are computed, at the most
_COLUMNS = 1500  # that are looked at, at the most


@dataclass(frozen=True)
class Surroundings:
    """The columns that are looked at for one variable's neighbourhood.

    Attributes
    ----------
    target : str
        The variable.
    radius : int
        The arcs around it that are asked for.
    columns : ndarray of int64
        Which columns are looked at, in the sequence of the table.
    n_columns : int
        How many the table has.
    left_out : int
        How many of the others are correlated, but more weakly, and were passed over to keep the
        work small.
    gamma : float
        The gamma with which an arc costs as much among these columns as in the whole table.
    """

    target: str
    radius: int
    columns: NDArray[np.int64]
    n_columns: int
    left_out: int
    gamma: float

    def sentence(self) -> str:
        """Say what was looked at, and what was not."""
        text = (
            f"Of {self.n_columns:,} columns {len(self.columns):,} were looked at: those correlated "
            f"with {self.target!r}, or with such, in {self.radius + 1} steps"
        )
        if self.left_out:
            return f"{text}; {self.left_out:,} with weaker correlations were passed over."
        return f"{text}; no correlated one was passed over."

    def part(self, data: Dataset) -> Dataset:
        """Return the columns that are looked at as a data set of their own."""
        at, rows = self.columns, data.incomplete
        return replace(
            data,
            X=None if data.X is None else np.asfortranarray(data.X[:, at]),
            names=tuple(data.names[v] for v in at),
            named=True,
            mean=data.mean[at],
            covariance=None if data.covariance is None else data.covariance[np.ix_(at, at)],
            incomplete=None if rows is None else rows._replace(X=np.asfortranarray(rows.X[:, at])),
        )


def surroundings(
    data: Dataset,
    target: str | int,
    radius: int = 2,
    *,
    gamma: float | str = "auto",
    limits: Limits | None = None,
) -> Surroundings:
    """Choose the columns from which to learn what is around one variable.

    Parameters
    ----------
    data : Dataset
        The whole table.
    target : str or int
        The variable, by name or place.
    radius : int, default=2
        How many arcs away from it the answer is to reach.
    gamma : float or "auto", default="auto"
        Of the extended BIC.
    limits : Limits, optional
        Which arcs are possible; pairs without any do not count.

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> x = np.random.default_rng(0).normal(size=(100, 3))
    >>> x[:, 2] += x[:, 0]
    >>> surroundings(as_dataset(x, names=["a", "b", "c"]), "a").columns
    array([0, 2])
    """
    if isinstance(radius, bool) or not isinstance(radius, int | np.integer) or radius < 1:
        raise ParameterError(f"radius must be an integer >= 1. Got {radius!r} instead.")
    groups = data.about.get("groups", {})
    place = place_of(target, data.names, data.named, groups=groups)
    n, d = data.n_samples, data.n_features
    cost = arc_cost(n, d, gamma)
    limit = math.sqrt(-_WEAKER * math.expm1(-cost / n))
    correlations = _Correlations(data)
    inside = np.zeros(d, dtype=np.bool_)
    inside[place] = True
    strength = np.zeros(d)  # the largest correlation by which a variable came in
    passed = np.zeros(d, dtype=np.bool_)  # correlated, but with stronger ones before them
    frontier, rows = np.array([place]), 0
    for _ in range(radius + 1):
        frontier = frontier[: max(0, _ROWS - rows)]
        rows += len(frontier)
        found = np.zeros(d, dtype=np.bool_)
        for v, size in correlations.rows(frontier):
            size[v] = 0.0
            if limits is not None:
                one = np.array([v])
                size[~(limits.parents(one)[0] | limits.children(one)[0])] = 0.0
            near = np.flatnonzero(size > limit)
            best = near[np.argsort(-size[near], kind="stable")]
            passed[best[_STRONGEST:]] = True
            best = best[:_STRONGEST]
            found[best] = True
            strength[best] = np.maximum(strength[best], size[best])
            if limits is not None:
                needed = limits.required_with(v)
                found[needed], strength[needed] = True, 1.0
        fresh = np.flatnonzero(found & ~inside)
        fresh = fresh[np.argsort(-strength[fresh], kind="stable")]
        room = max(0, _COLUMNS - int(inside.sum()))
        passed[fresh[room:]] = True
        frontier = fresh[:room]
        inside[frontier] = True
        if not len(frontier):
            break
    columns, left_out = np.flatnonzero(inside), int((passed & ~inside).sum())
    own = (cost - math.log(max(n, 2))) / (2 * math.log(max(len(columns), 2)))
    return Surroundings(data.names[place], int(radius), columns, d, left_out, min(own, 100.0))


def place_of(
    target: Any,
    names: Sequence[str],
    named: bool = True,
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
    left_out: Sequence[str] = (),
) -> int:
    """Return the place of the variable that is asked for, or refuse it.

    Parameters
    ----------
    target : str or int
        Its name, its place, or the name of a column that it stands for.
    names : sequence of str
        The variables.
    named : bool, default=True
        Whether the table has names of its own.
    groups : mapping of str to sequence of str, optional
        Variables that stand for other columns, and these.
    left_out : sequence of str, default=()
        Columns of the table that are no variables.

    Examples
    --------
    >>> place_of("b2", ["a", "b1"], groups={"b1": ["b2"]})
    1
    """
    standing = {other: name for name, same in (groups or {}).items() for other in same}
    target = standing.get(target, target)
    if isinstance(target, str) and target in names:
        return names.index(target)
    if isinstance(target, int | np.integer):
        if named and str(target) in names:  # as what is known takes it
            return names.index(str(target))
        if 0 <= target < len(names):
            return int(target)
    if target in left_out:
        raise ParameterError(
            f"target must be a variable. Got {target!r}, which was left out of the variables "
            "(drop, keep, adjust, batch)."
        )
    hint = near_or_some(str(target), names, "The table has")
    raise ParameterError(f"target must be a column of the table. Got {target!r} instead. {hint}")


class _Correlations:
    """Absolute correlations of single columns with all, computed when they are asked for."""

    def __init__(self, data: Dataset) -> None:
        self.data = data
        if data.X is None:
            assert data.covariance is not None
            variance = np.diagonal(data.covariance).copy()
        else:
            variance = np.einsum("ij,ij->j", data.X, data.X)
        self.inverse = np.zeros(len(variance))
        np.divide(1.0, np.sqrt(variance), out=self.inverse, where=variance > 0)

    def rows(self, variables: NDArray[np.int64]) -> Any:
        """Yield each variable and its absolute correlations (d,)."""
        X, step = self.data.X, 32
        for a in range(0, len(variables), step):
            some = variables[a : a + step]
            if X is None:
                assert self.data.covariance is not None
                products = self.data.covariance[some]
            else:
                products = X[:, some].T @ X
            sizes = np.abs(products * self.inverse[some][:, None] * self.inverse)
            yield from zip(some.tolist(), sizes)
