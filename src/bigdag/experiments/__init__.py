"""The experiments of the paper, and a user's own: a plan, isolated runs, one store, a report.

A plan is a TOML file, shipped with the package or a user's own. Each of its runs is one method on
one data set in a process of its own, and every finished run is a row of one SQLite file, from which
the report is drawn.

Examples
--------
>>> from bigdag.experiments import load_plan
>>> load_plan("exp1", "paper").estimate().instances
1440
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "Plan": "bigdag.experiments.plan.expand",
    "Store": "bigdag.experiments.store",
    "load_plan": "bigdag.experiments.plan.expand",
    "run_plan": "bigdag.experiments.run.runner",
    "write_report": "bigdag.experiments.report.write",
}

__all__ = ["Plan", "Store", "load_plan", "run_plan", "write_report"]

if TYPE_CHECKING:
    from bigdag.experiments.plan.expand import Plan, load_plan
    from bigdag.experiments.report.write import write_report
    from bigdag.experiments.run.runner import run_plan
    from bigdag.experiments.store import Store


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bigdag.experiments' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
