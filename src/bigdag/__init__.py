"""Learn directed acyclic graphs from tables with thousands of columns.

The public names are loaded when they are first used, so that ``import bigdag`` costs nothing.

Examples
--------
>>> from bigdag import ProxiMAS, simulate
>>> truth = simulate.random_dag(50, 1, rng=0)
>>> model = ProxiMAS().fit(simulate.sample(truth, 500, rng=1))
>>> model.dag_.n_nodes
50
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "DAG": "bigdag.graph.dag",
    "Dataset": "bigdag.data.dataset",
    "GD": "bigdag.learners.gd",
    "GOLEM": "bigdag.learners.golem",
    "NOTEARS": "bigdag.learners.notears",
    "OptiMAS": "bigdag.learners.optimas",
    "OrderSearch": "bigdag.learners.order_search",
    "ProxiMAS": "bigdag.learners.proximas",
    "SortRegress": "bigdag.learners.sort_regress",
}
_MODULES = ("errors", "metrics", "simulate")

__all__ = [
    "DAG",
    "GD",
    "GOLEM",
    "NOTEARS",
    "Dataset",
    "OptiMAS",
    "OrderSearch",
    "ProxiMAS",
    "SortRegress",
    "__version__",
    "errors",
    "metrics",
    "simulate",
]

if TYPE_CHECKING:
    from bigdag import errors, metrics, simulate
    from bigdag.data.dataset import Dataset
    from bigdag.graph.dag import DAG
    from bigdag.learners.gd import GD
    from bigdag.learners.golem import GOLEM
    from bigdag.learners.notears import NOTEARS
    from bigdag.learners.optimas import OptiMAS
    from bigdag.learners.order_search import OrderSearch
    from bigdag.learners.proximas import ProxiMAS
    from bigdag.learners.sort_regress import SortRegress


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in _MODULES:
        value = import_module(f"bigdag.{name}")
    else:
        raise AttributeError(f"module 'bigdag' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
