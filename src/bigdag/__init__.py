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
    "AutoDAG": "bigdag.learners.auto",
    "BootstrapDAG": "bigdag.learners.bootstrap",
    "DAG": "bigdag.graph.dag",
    "DAGMA": "bigdag.learners.dagma",
    "Dataset": "bigdag.data.dataset",
    "GD": "bigdag.learners.gd",
    "GOLEM": "bigdag.learners.golem",
    "Knowledge": "bigdag.knowledge.known",
    "LinearModel": "bigdag.model.linear",
    "NOTEARS": "bigdag.learners.notears",
    "OptiMAS": "bigdag.learners.optimas",
    "OrderSearch": "bigdag.learners.order_search",
    "ProxiMAS": "bigdag.learners.proximas",
    "SortRegress": "bigdag.learners.sort_regress",
    "check": "bigdag.data.checks",
    "on_dask": "bigdag.engine.on_dask",
    "prepare": "bigdag.data.prepare",
}
_MODULES = ("errors", "metrics", "simulate", "transforms")

__all__ = [
    "DAG",
    "DAGMA",
    "GD",
    "GOLEM",
    "NOTEARS",
    "AutoDAG",
    "BootstrapDAG",
    "Dataset",
    "Knowledge",
    "LinearModel",
    "OptiMAS",
    "OrderSearch",
    "ProxiMAS",
    "SortRegress",
    "__version__",
    "check",
    "errors",
    "metrics",
    "on_dask",
    "prepare",
    "simulate",
    "transforms",
]

if TYPE_CHECKING:
    from bigdag import errors, metrics, simulate, transforms
    from bigdag.data.checks import check
    from bigdag.data.dataset import Dataset
    from bigdag.data.prepare import prepare
    from bigdag.engine.on_dask import on_dask
    from bigdag.graph.dag import DAG
    from bigdag.knowledge.known import Knowledge
    from bigdag.learners.auto import AutoDAG
    from bigdag.learners.bootstrap import BootstrapDAG
    from bigdag.learners.dagma import DAGMA
    from bigdag.learners.gd import GD
    from bigdag.learners.golem import GOLEM
    from bigdag.learners.notears import NOTEARS
    from bigdag.learners.optimas import OptiMAS
    from bigdag.learners.order_search import OrderSearch
    from bigdag.learners.proximas import ProxiMAS
    from bigdag.learners.sort_regress import SortRegress
    from bigdag.model.linear import LinearModel


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
