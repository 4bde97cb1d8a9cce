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
    "DAG": "bigdag.dag",
    "Dataset": "bigdag.data",
    "ProxiMAS": "bigdag.learners.proximas",
    "OptiMAS": "bigdag.learners.optimas",
}
_MODULES = ("errors", "metrics", "simulate")

__all__ = [*_HOME, *_MODULES, "__version__"]  # noqa: PLE0604

if TYPE_CHECKING:
    from bigdag import errors, metrics, simulate
    from bigdag.dag import DAG
    from bigdag.data import Dataset
    from bigdag.learners.optimas import OptiMAS
    from bigdag.learners.proximas import ProxiMAS


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
