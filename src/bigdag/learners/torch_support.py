"""What the learners on torch share: finding torch, a device, and room for dense matrices."""

from __future__ import annotations

from typing import Any

from bigdag.errors import MemoryLimitError, ParameterError, missing_extra
from bigdag.gram import format_bytes, memory_budget

__all__ = ["check_dense", "load_torch", "pick_device"]


def load_torch(purpose: str) -> Any:
    """Return the module torch, or raise one clear sentence where it is not installed.

    Examples
    --------
    >>> load_torch("This example").__name__
    'torch'
    """
    try:
        import torch
    except ImportError:
        raise missing_extra("torch", "torch", purpose) from None
    return torch


def pick_device(torch: Any, device: str | None) -> Any:
    """Return the torch device of that name; one that is not there is an error, never the CPU.

    Examples
    --------
    >>> import torch
    >>> pick_device(torch, None)
    device(type='cpu')
    """
    name = "cpu" if device is None else device
    try:
        chosen = torch.device(name)
        torch.zeros(1, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        here = ["cpu"]
        if torch.cuda.is_available():
            here += [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        if getattr(torch.backends, "mps", None) and torch.backends.mps.is_available():
            here.append("mps")
        raise ParameterError(
            f"device must be one that is there: {', '.join(here)}. Got {device!r} instead "
            f"({str(error).splitlines()[0]})."
        ) from None
    return chosen


def check_dense(d: int, matrices: float, itemsize: int, memory_limit: float | str | None) -> None:
    """Refuse before any work what needs more dense (d, d) matrices than fit.

    Examples
    --------
    >>> check_dense(1000, 6, 4, "1GB")
    """
    need, budget = matrices * d * d * itemsize, memory_budget(memory_limit)
    if need > budget:
        raise MemoryLimitError(
            f"Dense matrices for {d} variables need {format_bytes(need)} of memory, and "
            f"{format_bytes(budget)} may be used: at most "
            f"{int((budget / matrices / itemsize) ** 0.5)} variables fit. Use a sparse method such "
            "as ProxiMAS, raise memory_limit, or run it where there is more memory."
        )
