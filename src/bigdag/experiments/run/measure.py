"""What a run leaves as numbers: scores of its graphs, its pace, and where it was measured.

Average precision and the order are of all arcs (``threshold`` None); the rates, the distances and
the likelihoods are of the arcs above each threshold. Likelihoods are of the DAG only, as a graph
with cycles has none without a determinant of its own. Values that are not finite are left out, and
so are the likelihood and the CPDAG of a whole graph with so many arcs that they would take minutes:
some methods leave a weight on every arc that an order allows.
"""

from __future__ import annotations

import math
import os
import platform
import warnings
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from bigdag import DAG, __version__, metrics
from bigdag.errors import DataWarning
from bigdag.resources import n_threads

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csc_array

    from bigdag.experiments.run.datasets import Prepared

__all__ = ["arc_scores", "dag_scores", "machine", "objective_curve", "pace", "versions"]

_RATES = {
    "shd": "shd", "shd_per_node": "shd_normalised", "fnr": "fnr", "fpr": "fpr",
    "precision": "precision", "recall": "recall", "f1": "f1",
}  # fmt: skip
_POINTS = 200  # of a curve
_PRODUCTS = 2 * 10**8  # arcs times samples, up to which a likelihood is a matter of seconds
_ARCS = 200_000  # up to which a CPDAG is
_PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "pandas", "torch")


def arc_scores(
    graph: DAG | csc_array, truth: DAG, thresholds: list[float], **labels: Any
) -> list[dict[str, Any]]:
    """Return the scores that also a graph with cycles has.

    Parameters
    ----------
    graph, truth : DAG or csc_array, DAG
        What was found, and what is true.
    thresholds : list of float
        Where the graph is cut.
    **labels
        Added to each score: ``snapshot`` and ``weights``.

    Returns
    -------
    list of dict
        Average precision, and at each threshold shd, shd_per_node, fnr, fpr, precision, recall and
        f1; all of these of arcs (``directed``), and of pairs.

    Examples
    --------
    >>> truth = DAG([[0, 1.0], [0, 0]])
    >>> arc_scores(truth, truth, [], snapshot=None, weights="dag")[0]["value"]
    1.0
    """
    scores = []
    weights = graph.weights if isinstance(graph, DAG) else graph
    # The same at all thresholds, and quick also where no weight is exactly zero.
    strong = weights.multiply(abs(weights) > min(thresholds, default=0.0)).tocsc()
    strong.eliminate_zeros()
    for directed in (True, False):
        common = {**labels, "directed": directed}
        value = metrics.average_precision(graph, truth, directed)
        scores.append({**common, "threshold": None, "metric": "average_precision", "value": value})
        curve = metrics.threshold_curve(strong, truth, thresholds, directed)
        for row in curve.to_dict("records"):
            scores += [
                {**common, "threshold": row["threshold"], "metric": name, "value": float(row[key])}
                for name, key in _RATES.items()
            ]
    return _finite(scores)


def dag_scores(
    dag: DAG, data: Prepared, thresholds: list[float], **labels: Any
) -> list[dict[str, Any]]:
    """Return the scores that only a DAG has.

    Parameters
    ----------
    dag : DAG
        What was found.
    data : Prepared
        The likelihoods are of its validation rows, with means and variances of its training rows.
    thresholds : list of float
        Where the graph is cut.
    **labels
        Added to each score: ``snapshot`` and ``weights``.

    Returns
    -------
    list of dict
        The errors of the order where a truth is known, and, of all arcs and at each threshold,
        nll_ev, nll_nv and with a truth shd_cpdag.
    """
    common = {**labels, "directed": True}
    scores = []
    if data.truth is not None:
        wrong = metrics.order_errors(dag.order, data.truth)
        scores.append({**common, "threshold": None, "metric": "order_errors", "value": wrong})
    for threshold in (None, *thresholds):
        cut = dag if threshold is None else dag.threshold(threshold)
        at: dict[str, float] = {}
        if cut.n_arcs * data.train.n_samples <= _PRODUCTS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)  # NaN says it
                for variance in ("EV", "NV"):
                    at[f"nll_{variance.lower()}"] = metrics.gaussian_nll(
                        cut, data.train, data.validation, variance
                    )
        if data.truth is not None and cut.n_arcs <= _ARCS:
            at["shd_cpdag"] = float(metrics.shd_cpdag(cut, data.truth))
        scores += [
            {**common, "threshold": threshold, "metric": name, "value": value}
            for name, value in at.items()
        ]
    return _finite(scores)


def pace(history: pd.DataFrame) -> tuple[dict[str, float], dict[str, int]]:
    """Return the median seconds of a step, and the steps, of each phase of a fit.

    Examples
    --------
    >>> import pandas as pd
    >>> pace(pd.DataFrame({"phase": ["start", "fit", "mas", "mas"], "iteration": [0, 1, 2, 3],
    ...                    "seconds": [0.0, 1.0, 1.5, 2.0]}))
    ({'fit': 1.0, 'mas': 0.5}, {'fit': 1, 'mas': 2})
    """
    steps = history.assign(took=history["seconds"].diff())
    steps = steps[steps["iteration"] > 0]
    took = steps.groupby("phase", sort=False)["took"]
    return (
        {str(phase): float(value) for phase, value in took.median().items()},
        {str(phase): int(value) for phase, value in took.size().items()},
    )


def objective_curve(history: pd.DataFrame) -> list[list[float]]:
    """Return at most 200 points (seconds, objective) of a fit, its first and last among them.

    Examples
    --------
    >>> import pandas as pd
    >>> objective_curve(pd.DataFrame({"seconds": [0.0, 1.0], "objective": [9.0, 3.0]}))
    [[0.0, 9.0], [1.0, 3.0]]
    """
    points = history[["seconds", "objective"]].to_numpy(dtype=float)
    points = points[np.isfinite(points).all(axis=1)]
    kept = np.unique(np.linspace(0, len(points) - 1, min(len(points), _POINTS)).round().astype(int))
    found: list[list[float]] = points[kept].tolist()
    return found


def versions() -> dict[str, str]:
    """Return the versions of what decides the numbers.

    Examples
    --------
    >>> sorted(versions())[:3]
    ['bigdag', 'numba', 'numpy']
    """
    found = {"bigdag": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Return what the machine is; not its name.

    Examples
    --------
    >>> sorted(machine())
    ['cores', 'memory_bytes', 'processor', 'system']
    """
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        memory = None
    return {
        "processor": _processor(),
        "cores": n_threads(None),
        "memory_bytes": memory,
        "system": f"{platform.system()} {platform.machine()}",
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _finite(scores: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [score for score in scores if math.isfinite(score["value"])]
