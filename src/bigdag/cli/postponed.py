"""Modules that others import without need, loaded when something in them is asked for.

scikit-learn's base class imports ``scipy.stats``, most of a second, for a function that no fit
calls. Only the command does this, in its own process; the library leaves imports as they are.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

__all__ = ["postpone"]


def postpone(name: str) -> None:
    """Have a module loaded on its first use instead of on its import; harmless if it is loaded.

    Examples
    --------
    >>> postpone("json")
    >>> import json
    >>> json.dumps([1])
    '[1]'
    """
    if name not in sys.modules:
        sys.modules[name] = _Postponed(name)


class _Postponed(ModuleType):
    """Stands for a module until something in it is asked for."""

    def __getattr__(self, attribute: str) -> Any:
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
        module = importlib.import_module(name)
        self.__dict__.update(module.__dict__)
        return getattr(module, attribute)
