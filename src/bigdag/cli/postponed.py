"""Modules that others import without need, loaded when something in them is asked for.

scikit-learn's base class imports ``scipy.stats``, most of a second, for a function that no fit
calls, and narwhals, for data frames that it is never given here. Only the command does this, in its
own process; the library leaves imports as they are.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["postpone", "postpone_unneeded"]

_UNNEEDED = ("scipy.stats", "narwhals", "narwhals.stable", "narwhals.stable.v2")


def postpone_unneeded() -> None:
    """Postpone what scikit-learn imports and a fit does not use.

    Examples
    --------
    >>> postpone_unneeded()
    """
    for name in _UNNEEDED:
        postpone(name)


def postpone(name: str) -> None:
    """Have a module loaded on its first use instead of on its import.

    Nothing happens if it is loaded, or if its package is not installed.

    Examples
    --------
    >>> postpone("json")
    >>> import json
    >>> json.dumps([1])
    '[1]'
    """
    package = name.partition(".")[0]
    if name in sys.modules or (package not in sys.modules and find_spec(package) is None):
        return
    sys.modules[name] = module = _Postponed(name)
    module.__spec__ = ModuleSpec(name, None)  # for who asks whether it is installed
    parent, _, last = name.rpartition(".")
    if isinstance(sys.modules.get(parent), _Postponed):
        setattr(sys.modules[parent], last, module)


class _Postponed(ModuleType):
    """Stands for a module until something in it is asked for."""

    def __getattr__(self, attribute: str) -> Any:
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
        module = importlib.import_module(name)
        self.__dict__.update(module.__dict__)
        return getattr(module, attribute)
