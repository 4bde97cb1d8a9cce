"""A quasi-Newton descent for a smooth loss of a matrix with an L1 penalty.

The loss is convex or not and may be undefined beyond some border; the penalty has a corner at zero.
Within one orthant, where no weight changes its sign, the sum of both is smooth: a step of L-BFGS is
taken there, cut where it would leave the orthant, and halved until the sum falls enough (Andrew &
Gao, Scalable Training of L1-Regularized Log-Linear Models, 2007). Weights arrive at zero exactly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["MEMORY", "descend"]

Matrix = NDArray[np.float64]

MEMORY = 7  # pairs of a step and the change of the gradient along it
_HALVINGS = 50  # of a step before the direction is given up
_FALL = 1e-4  # of what the slope promises: the least that a step must bring
_FLAT = 1e-10  # below this share of the gradient's change, a pair says nothing of the curvature


def descend(
    loss: Callable[[Matrix], tuple[float, Matrix]],
    W: Matrix,
    penalty: float,
) -> Iterator[tuple[Matrix, float]]:
    """Yield iterates and their penalised loss; end where no step lowers it.

    Parameters
    ----------
    loss : callable
        Returns the loss and its gradient (d, d); raises ``FloatingPointError`` where it is not
        defined, which it must be at the start.
    W : ndarray of shape (d, d)
        Where to begin; the diagonal keeps its value.
    penalty : float
        The weight of the L1 norm.

    Examples
    --------
    >>> target = np.array([[0.0, 3.0], [0.4, 0.0]])
    >>> squares = lambda W: (0.5 * np.sum((W - target) ** 2), W - target)
    >>> list(descend(squares, np.zeros((2, 2)), 1.0))[-1][0]
    array([[0., 2.],
           [0., 0.]])
    """
    pairs: deque[tuple[Matrix, Matrix, float]] = deque(maxlen=MEMORY)
    value, gradient = loss(W)
    total = value + penalty * float(np.abs(W).sum())
    while True:
        slope = _slope(W, gradient, penalty)
        if not slope.any():
            return
        direction = _direction(pairs, slope)
        orthant = np.where(W != 0, np.sign(W), -np.sign(slope))
        length = 1.0 if pairs else min(1.0, 1.0 / float(np.abs(direction).max()))
        for _ in range(_HALVINGS):
            new = W + length * direction
            new[new * orthant < 0] = 0.0
            length *= 0.5
            try:
                value, new_gradient = loss(new)
            except FloatingPointError:
                continue
            new_total = value + penalty * float(np.abs(new).sum())
            if new_total <= total + _FALL * float(np.vdot(new - W, slope)):
                break
        else:
            if not pairs:
                return
            pairs.clear()  # and try the steepest way
            continue
        if new_total == total and np.array_equal(new, W):
            return
        step, change = new - W, new_gradient - gradient
        along = float(np.vdot(step, change))
        if along > _FLAT * float(np.vdot(change, change)):
            pairs.append((step, change, along))
        W, gradient, total = new, new_gradient, new_total
        yield W, total


def _slope(W: Matrix, gradient: Matrix, penalty: float) -> Matrix:
    """Return the least subgradient of the penalised loss; zero on the diagonal."""
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - penalty, 0.0)
    slope = np.where(W != 0, gradient + penalty * np.sign(W), at_zero)
    np.fill_diagonal(slope, 0.0)
    return slope


def _direction(pairs: deque[tuple[Matrix, Matrix, float]], slope: Matrix) -> Matrix:
    """Return the direction of L-BFGS, without what leads uphill."""
    direction, shares = -slope, []
    for step, change, along in reversed(pairs):
        shares.append(float(np.vdot(step, direction)) / along)
        direction -= shares[-1] * change
    if pairs:
        _, change, along = pairs[-1]
        direction *= along / float(np.vdot(change, change))
    for (step, change, along), share in zip(pairs, reversed(shares)):
        direction += (share - float(np.vdot(change, direction)) / along) * step
    direction[direction * slope >= 0] = 0.0
    return direction
