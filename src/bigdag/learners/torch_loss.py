"""The loss of the learners on torch, differentiable: residual variances, and penalties."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from bigdag.learners.run import Run

__all__ = ["Residuals", "penalties"]

_STRIP = 2**17  # entries of a matrix that are worked on at a time


# ------------------------------------------------------------------ residual variances


class Residuals:
    """The residual variances ``‖X w_j − x_j‖²/n`` of a dense W, over a unit, differentiable.

    From X (n, d) when n < d, and from S = XᵀX/n otherwise or where X is not known. Either way
    what the forward pass computes is all that the backward pass needs but one product.

    Parameters
    ----------
    run : Run
        Whose data are meant.
    torch : module
        The package.
    device, dtype : torch.device, torch.dtype
        Where and how precisely.
    unit : float, default=1.0
        What the variances are divided by, a power of four.

    Examples
    --------
    >>> import torch
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.learners.run import Run
    >>> from bigdag.learners.notears import NOTEARS
    >>> run = Run(NOTEARS(), as_dataset([[-1.0, 2.0], [0.0, 0.0], [1.0, -2.0]]))
    >>> residuals = Residuals(run, torch, "cpu", torch.float64)
    >>> residuals(torch.zeros(2, 2).double()).round(decimals=3).tolist()
    [0.667, 2.667]
    """

    def __init__(self, run: Run, torch: Any, device: Any, dtype: Any, unit: float = 1.0) -> None:
        self.n_samples, self.unit = run.data.n_samples, unit
        X, root = run.data.X, math.sqrt(unit)  # a power of two, which rounds nothing
        self.from_data = X is not None and self.n_samples < run.gram.d
        if self.from_data:
            self.source = torch.as_tensor(
                np.array(X, order="C") / root, dtype=dtype, device=device
            )  # (n, d)
            self._apply = _from_data(torch).apply
        else:
            sd = run.gram.sd / root
            S = run.gram.rows(slice(None)) * sd[:, None] * sd
            self.source = torch.as_tensor(S, dtype=dtype, device=device).contiguous()  # (d, d)
            self._apply = _from_moments(torch).apply

    def __call__(self, W: Any) -> Any:
        """Return the residual variances (d,)."""
        return self._apply(W, self.source)


def _from_data(torch: Any) -> Any:
    class FromData(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, W: Any, X: Any) -> Any:
            R = torch.addmm(X, X, W, alpha=-1)
            ctx.save_for_backward(X, R)
            return R.square().sum(dim=0) / len(X)

        @staticmethod
        def backward(ctx: Any, slope: Any) -> tuple[Any, None]:
            X, R = ctx.saved_tensors
            return X.T @ (R * (slope * (-2 / len(X)))), None

    return FromData


def _from_moments(torch: Any) -> Any:
    class FromMoments(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, W: Any, S: Any) -> Any:
            G = torch.addmm(S, S, W, beta=-1)  # S(W − I)
            ctx.save_for_backward(G)
            squares = torch.linalg.vecdot(W, G, dim=0) - G.diagonal()
            return squares.clamp_(min=0)

        @staticmethod
        def backward(ctx: Any, slope: Any) -> tuple[Any, None]:
            (G,) = ctx.saved_tensors
            return G * (2 * slope), None

    return FromMoments


# ------------------------------------------------------------------ penalties


def penalties(torch: Any) -> Callable[..., Any]:
    """Return the function ``λ1‖W‖₁ + λ2/2·‖W − C‖²`` of (W, C, λ1, λ2), differentiable in W.

    C may be None, for zeros. It works strip by strip, as passing matrices that large cost more than
    the arithmetic.

    Examples
    --------
    >>> import torch
    >>> W = torch.tensor([[0.0, -2.0], [1.0, 0.0]], requires_grad=True)
    >>> value = penalties(torch)(W, torch.ones(2, 2), 0.5, 2.0)
    >>> value.backward()
    >>> float(value.detach()), W.grad.tolist()
    (12.5, [[-2.0, -6.5], [0.5, -2.0]])
    """

    class Penalties(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, W: Any, centre: Any, lambda1: float, lambda2: float) -> Any:
            ctx.save_for_backward(W, centre)
            ctx.lambda1, ctx.lambda2 = lambda1, lambda2
            total = W.new_zeros(())
            for w, c in zip(_strips(W), _strips(centre)):
                total += lambda1 * w.abs().sum()
                if lambda2:
                    total += 0.5 * lambda2 * (w if c is None else w - c).square().sum()
            return total

        @staticmethod
        def backward(ctx: Any, slope: Any) -> tuple[Any, None, None, None]:
            W, centre = ctx.saved_tensors
            gradient = torch.empty_like(W, memory_format=torch.contiguous_format)
            for w, c, g in zip(_strips(W), _strips(centre), _strips(gradient)):
                torch.sign(w, out=g).mul_(ctx.lambda1)
                if ctx.lambda2:
                    g.add_(w if c is None else w - c, alpha=ctx.lambda2)
                g.mul_(slope)
            return gradient, None, None, None

    return Penalties.apply


def _strips(values: Any) -> Iterable[Any]:
    """Return the entries of a tensor in pieces that stay in a processor's cache; None as Nones.

    On other devices in one piece.
    """
    if values is None:
        return itertools.repeat(None)
    entries = values.reshape(-1)
    return entries.split(_STRIP) if values.device.type == "cpu" else (entries,)
