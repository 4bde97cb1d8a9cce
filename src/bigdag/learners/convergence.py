"""When a descent has converged: one rule, and one meaning of ``tol``, for all gradient methods.

A slow optimiser rests on plateaus: near a saddle its loss hardly falls for hundreds of steps, and
then falls again. How long such a rest is grows with the time it took to get there, so a fixed
number of steps without progress proves little. The window that is looked at therefore grows with
the number of steps: the loss has settled when it has fallen by less than ``tol`` of itself over the
last third of all steps, and over ``patience`` of them at the least.
"""

from __future__ import annotations

import math
from collections import deque

__all__ = ["Settled"]

_SHARE = 1 / 3  # of all steps: the window that the loss has to be level over
_MARKS = 64  # of a window: so finely it is cut


class Settled:
    """Tell when a loss has settled, by its least value so far over a window that grows.

    Parameters
    ----------
    tol : float
        It has settled when it has fallen by this share of itself, or less, over the window. Zero
        asks that it has not fallen at all.
    patience : int
        The steps of a window, at the least.
    floor : float, default=0.0
        The least size of a loss that the share is of, for losses around zero.

    Examples
    --------
    >>> settled = Settled(tol=0.01, patience=2)
    >>> [settled.reached(loss) for loss in (5.0, 4.0, 3.99, 3.98)]
    [False, False, False, True]
    """

    def __init__(self, tol: float, patience: int, floor: float = 0.0) -> None:
        self._tol, self._patience, self._floor = tol, patience, floor
        self.best, self.steps = math.inf, 0
        self._marks: deque[tuple[int, float]] = deque()  # a step, and the least loss by then

    def reached(self, loss: float) -> bool:
        """Take the loss after the next step."""
        self.steps += 1
        self.best = min(self.best, loss)
        window = max(self._patience, int(_SHARE * self.steps))
        if not self._marks or self.steps - self._marks[-1][0] >= max(1, window // _MARKS):
            self._marks.append((self.steps, self.best))
        while len(self._marks) > 1 and self._marks[1][0] <= self.steps - window:
            self._marks.popleft()
        since, before = self._marks[0]
        if since > self.steps - window:
            return False
        return before - self.best <= self._tol * max(abs(self.best), self._floor)

    def begin_window(self) -> None:
        """Look only at what comes from here on, as the way of the steps has changed."""
        self._marks.clear()
        self._marks.append((self.steps, self.best))
