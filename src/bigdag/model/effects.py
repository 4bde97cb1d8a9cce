"""Total effects of a cause, and those that undirected arcs leave possible (IDA, local).

The possible effects are those of Maathuis, Kalisch & Bühlmann (2009): for each set of direct causes
that the cause may have, the coefficient of the cause in a regression on it and that set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bigdag.errors import GraphError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.graph.dag import DAG
    from bigdag.model.linear import LinearModel

__all__ = ["effects_of", "parent_sets", "possible_effects_of"]

_MOST_SETS = 4096  # of direct causes that one variable may have


def effects_of(model: LinearModel, cause: int) -> pd.DataFrame:
    """Return the table of effects of a cause; see :meth:`LinearModel.effects`."""
    names = np.array(model.dag.names, dtype=object)
    own = model._totals(cause)
    possible = possible_effects_of(model, cause) if _open_at(model.dag, cause) else own[None]
    reached = np.flatnonzero((possible != 0).any(axis=0) | (own != 0))
    reached = reached[reached != cause]
    largest = np.abs(possible[:, reached]).max(axis=0)
    reached = reached[np.argsort(-largest, kind="stable")]
    table = {"effect": names[reached], "total_effect": own[reached]}
    if len(possible) > 1:
        table["lowest"] = possible[:, reached].min(axis=0)
        table["highest"] = possible[:, reached].max(axis=0)
        table["n_possible"] = np.full(len(reached), len(possible))
    return pd.DataFrame(table)


def possible_effects_of(model: LinearModel, cause: int) -> NDArray[np.float64]:
    """Return the possible total effects of a cause on all variables (k, d).

    The first row is that of the DAG itself, with every arc as it has it.
    """
    dag = model.dag
    own = model._totals(cause)
    if not _open_at(dag, cause):
        return own[None]
    sets = parent_sets(dag, cause)
    known = np.unique(np.concatenate([[cause], *sets]).astype(np.int64))
    covariances = model._covariances(known)  # (d, k)
    deviations = np.sqrt(covariances[known, np.arange(len(known))])
    place = {int(v): k for k, v in enumerate(known)}
    if not deviations[place[cause]] > 0:
        raise GraphError(
            f"{dag.names[cause]!r} does not vary in this model, so that its possible effects along "
            "undirected arcs cannot be told. Give it a noise variance above 0."
        )
    deviations[deviations == 0] = 1.0
    rows = [own]
    for parents in sets[1:]:
        chosen = np.array([place[v] for v in (cause, *parents.tolist())])
        scale = deviations[chosen]
        inner = covariances[known[chosen]][:, chosen] / np.outer(scale, scale)
        # On the correlation scale, where sets of nearly equal causes are told apart best.
        unit = np.zeros(len(chosen))
        unit[0] = 1.0
        row = np.linalg.lstsq(inner, unit, rcond=None)[0] / scale
        found = covariances[:, chosen] @ row / scale[0]
        found[~_reachable(dag, cause, parents)] = 0.0
        found[cause] = 1.0
        rows.append(found)
    return np.array(rows)


def parent_sets(dag: DAG, cause: int) -> list[NDArray[np.int64]]:
    """Return the sets of direct causes that a variable may have, the DAG's own set first.

    Its undirected neighbours may be causes where these make no new collider: any two of them, and
    each of them and a cause along a directed arc, must be joined by an arc themselves.

    Examples
    --------
    >>> from bigdag import DAG
    >>> chain = DAG([[0, 1, 0], [0, 0, 1], [0, 0, 0]], reversible=[[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    >>> [found.tolist() for found in parent_sets(chain, 1)]
    [[0], [], [2]]
    """
    fixed, either = _split(dag, cause)
    own = np.sort(dag._parents(cause)).astype(np.int64)
    joined = {
        int(v): set(dag._parents(v).tolist()) | set(dag._children(v).tolist())
        for v in [*fixed, *either]
    }
    able = [v for v in sorted(either) if all(p in joined[v] for p in fixed)]
    found: list[NDArray[np.int64]] = []

    def grow(chosen: list[int], candidates: list[int]) -> None:
        if len(found) > _MOST_SETS:
            raise GraphError(
                f"{dag.names[cause]!r} has {len(either)} undirected neighbours, which may be its "
                f"causes in more than {_MOST_SETS:,} ways. Its possible effects are not counted."
            )
        found.append(np.array(sorted([*fixed, *chosen]), dtype=np.int64))
        for k, v in enumerate(candidates):
            grow([*chosen, v], [u for u in candidates[k + 1 :] if u in joined[v]])

    grow([], able)
    return [own, *(one for one in found if not np.array_equal(one, own))]


def _split(dag: DAG, v: int) -> tuple[list[int], list[int]]:
    """Return the direct causes along directed arcs, and the neighbours along undirected ones."""
    parents = dag._parents(v)
    if dag.reversible is None:
        return parents.tolist(), []
    into = dag.reversible[:, [v]].indices
    out_of = dag.reversible[[v]].tocoo().col
    return np.setdiff1d(parents, into).tolist(), [*into.tolist(), *out_of.tolist()]


def _open_at(dag: DAG, v: int) -> bool:
    return bool(_split(dag, v)[1])


def _reachable(dag: DAG, cause: int, parents: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which variables some path from the cause may reach, if it has these direct causes (d,).

    All others have an effect of exactly zero, whatever rounding leaves of it.
    """
    onward = dag.weights.astype(bool)
    if dag.reversible is not None:
        onward = onward + dag.reversible.T
    onward = onward.tocsr()
    seen = np.zeros(dag.n_nodes, dtype=bool)
    seen[cause] = True
    seen[parents] = True  # a cause of it is no effect
    frontier = np.array([cause])
    while len(frontier):
        around = onward[frontier].indices
        frontier = np.unique(around[~seen[around]])
        seen[frontier] = True
    seen[parents] = False
    return seen
