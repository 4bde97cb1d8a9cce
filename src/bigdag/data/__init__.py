"""The door in: tables and data frames become a checked, centred `Dataset`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bigdag.data.dataset import Dataset, as_dataset

__all__ = ["Dataset", "as_dataset"]


def __getattr__(name: str) -> Any:
    """Load what is asked for: the rule of names alone needs neither pandas nor Arrow."""
    if name in __all__:
        from bigdag.data import dataset

        return getattr(dataset, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
