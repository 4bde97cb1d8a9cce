"""How far an answer rests on the units of the columns."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from bigdag.data.dataset import Dataset, as_dataset
from bigdag.data.standardising import deviations, standardised
from bigdag.errors import DataWarning
from bigdag.evaluation.sortability import var_sortability
from bigdag.graph.align import on_columns
from bigdag.graph.dag import DAG

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.learners.recipe import Recipe
    from bigdag.learners.run import State

__all__ = ["check_units", "order_of_variances"]

_SORTABILITY_ARCS = 100_000  # beyond, var-sortability is that of the strongest arcs: it takes long
_AGREE, _PARTLY = 0.95, 0.7  # F1 from which the answers in both units count as such


def order_of_variances(data: Dataset, dag: DAG) -> float | None:
    """Return how far the order found is that of the variances; None without arcs.

    The DAG may be of some of the columns, as the neighbourhood of one variable is; these are found
    by their names.

    Examples
    --------
    >>> order_of_variances(as_dataset([[1.0, 9.0], [2.0, 5.0]]), DAG([[0, 1], [0, 0]]))
    1.0
    """
    if not dag.n_arcs:
        return None
    if dag.n_arcs > _SORTABILITY_ARCS:
        dag = dag.threshold(abs(dag.edges(top=_SORTABILITY_ARCS, by="weight")["weight"].iloc[-1]))
    if data.X is None or dag.n_nodes != data.n_features:
        size = deviations(data)
        if dag.n_nodes != data.n_features:
            place = {name: column for column, name in enumerate(data.names)}
            size = size[[place[name] for name in dag.names]]
        with warnings.catch_warnings():  # two samples with the same variances will do
            warnings.simplefilter("ignore", DataWarning)
            data = as_dataset(np.outer([1.0, -1.0], size))
    share = var_sortability(data, dag.weights)
    return share if math.isfinite(share) else None


def check_units(
    recipe: Recipe,
    raw: Dataset,
    answer: DAG,
    in_deviations: bool,
    callback: Callable[[State], Any] | None = None,
) -> dict[str, Any]:
    """Follow a recipe in the other units, and say how far both answers agree.

    Parameters
    ----------
    recipe : Recipe
        What the answer was found by.
    raw : Dataset
        The data in their own units.
    answer : DAG
        After the threshold.
    in_deviations : bool
        Whether it was found on standardised columns; then the check is on raw ones.
    callback : callable, optional
        As for learners.

    Returns
    -------
    dict
        The arcs of each answer above the same threshold, in the same units: found in both, in
        both but reversed, in one alone; their F1; and what it means in a sentence.
    """
    sd = deviations(raw)
    sd = np.where(sd > 0, sd, 1.0)
    scaled = standardised(raw)
    here, there = (scaled, raw) if in_deviations else (raw, scaled)
    factor = sd if in_deviations else 1 / sd  # a value here becomes one there
    warm = recipe.parameters.get("warm_start_dag")
    if warm is not None and warm.n_nodes == len(sd):
        warm = on_columns(warm, raw)
        parameters = recipe.parameters | {"warm_start_dag": _in_units(warm, factor)}
        recipe = replace(recipe, parameters=parameters)
    other = recipe.follow(there, callback)
    found = recipe.cut(replace(other, dag=_in_units(other.dag, 1 / factor)), here)
    counts = _agreement(*((found, answer) if in_deviations else (answer, found)))
    same = bool(np.allclose(sd[~raw.constant], 1.0, rtol=0.01))
    return {
        "status": other.status, "seconds": other.seconds, **counts,
        "meaning": _meaning(counts["f1"], recipe, same),
    }  # fmt: skip


def _in_units(dag: DAG, factor: NDArray[np.float64]) -> DAG:
    """Return the DAG of the variables multiplied by factors (d,)."""
    weights = sp.diags_array(1 / factor) @ dag.weights @ sp.diags_array(factor)
    return DAG(weights, dag.names, dag.order, dag.reversible)


def _agreement(raw: DAG, scaled: DAG) -> dict[str, Any]:
    """Count the arcs that two DAGs on the same nodes share; an edge open in both is the same."""
    A, B = (sp.csc_array(dag.weights != 0) for dag in (raw, scaled))
    same, against = int(A.multiply(B).nnz), int(A.multiply(B.T).nnz)
    if raw.reversible is not None and scaled.reversible is not None:
        open_ = int(raw.reversible.multiply(scaled.reversible.T).nnz)
        same, against = same + open_, against - open_
    counts = {
        "same": same, "reversed": against, "only_raw": raw.n_arcs - same - against,
        "only_standardised": scaled.n_arcs - same - against,
    }  # fmt: skip
    pairs, total = sum(counts.values()), raw.n_arcs + scaled.n_arcs
    return {
        "n_arcs_raw": raw.n_arcs, "n_arcs_standardised": scaled.n_arcs, **counts,
        "shares": {name: count / pairs for name, count in counts.items()} if pairs else None,
        "f1": 2 * same / total if total else None,
    }  # fmt: skip


def _meaning(f1: float | None, recipe: Recipe, already: bool) -> str:
    if f1 is None:
        return "Neither fit found an arc, so there is nothing to compare."
    if already:
        return "The columns have variance 1 as they are, so the check tells nothing."
    if f1 >= _AGREE:
        return "The units of the columns hardly matter for this answer."
    if not recipe.depends_on_units and recipe.searches_by_bic():
        return (
            "The criterion does not depend on the units of the columns; what differs is where the "
            "two searches ended, as by a time limit or a rounding."
        )
    if not recipe.depends_on_units:
        return (
            "The order found does not depend on the units of the columns; what differs is how "
            "strongly lambda1 weighs the arcs in them."
        )
    much = "Part" if f1 >= _PARTLY else "Much"
    return (
        f"{much} of this answer rests on the units of the columns. If these are arbitrary, trust "
        "only what both fits found, or use order-search-bic, which does not depend on units."
    )
