"""One regression that parents enter and leave: a triangular factor kept up to date.

The factor is extended when a parent is added and rotated when one is taken out, so that at any
moment every candidate's gain is known. A variable with a share ``s`` of its variance left costs
``n log s``, and each parent a penalty: this is the inside of :mod:`bigdag.search.insertion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bigdag.compiled import kernel
from bigdag.engine.gram import correlation
from bigdag.engine.limits import Rules, no_rules

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "COLLINEAR",
    "GAIN",
    "Desk",
    "Known",
    "Problem",
    "add",
    "between",
    "clear",
    "cost",
    "gain_of",
    "grow_and_shrink",
    "least_gain",
    "new_desk",
    "nothing_known",
    "remove",
]

GAIN = 1e-7  # in the units of the score; less is rounding
COLLINEAR = 1e-9  # share of a variance left, below which a variable is a copy of the parents
_MIX = -7046029254386353131  # odd, its bits well mixed
_NOTHING = 1e-12  # share of a variance left that counts as nothing left


class Known(NamedTuple):
    """Correlations that were computed before, found again by their pair; changed in place.

    Each pair has one place, which the next pair that falls on it takes over. Only one thread at a
    time may use it.

    Attributes
    ----------
    pairs : ndarray of int64
        The pair ``low * d + high`` at each place, or -1; their number is a power of two, or zero
        where nothing is kept.
    values : ndarray of float64
        Their correlations.
    """

    pairs: NDArray[np.int64]
    values: NDArray[np.float64]


def nothing_known(places: int = 0) -> Known:
    """Return room for correlations, at least so many, or none at all.

    Examples
    --------
    >>> len(nothing_known(100).pairs)
    128
    """
    size = places_known(places)
    return Known(np.full(size, -1, dtype=np.int64), np.empty(size))


def places_known(wanted: int) -> int:
    """Return for how many correlations that are kept there is room: a power of two, or none.

    Examples
    --------
    >>> places_known(100), places_known(0)
    (128, 0)
    """
    return 1 << (wanted - 1).bit_length() if wanted else 0


class Problem(NamedTuple):
    """What a search is about; nothing in it changes but what is ``known``.

    Attributes
    ----------
    source : ndarray
        The correlations (d, d), or the data as rows of unit length (d, n).
    held : bool
        Which of the two.
    n : float
        Samples.
    arc_cost : float
        What a parent costs.
    indptr, indices : ndarray
        Each variable's candidates, compressed. If u is a candidate of v, then v is one of u,
        unless one of them takes no part in a search over orders.
    rules : Rules
        Which arcs are possible, and which there have to be.
    known : Known
        What was computed before, where correlations are not held.
    """

    source: NDArray[np.float64]
    held: bool
    n: float
    arc_cost: float
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    rules: Rules = no_rules()
    known: Known = nothing_known()


class Desk(NamedTuple):
    """Room for one regression on up to ``width`` candidates.

    ``num`` and ``den`` hold each candidate's covariance with the residual and its own variance
    given the parents; R is the triangular factor of the parents' correlations, G its inverse; Y
    and y are the candidates and the variable in terms of the factor; b the coefficients and
    ``inverse`` the diagonal of (RᵀR)⁻¹. Candidates that are ``needed`` stay once they are in.
    """

    names: Any
    allowed: Any
    member: Any
    num: Any
    den: Any
    R: Any
    G: Any
    Y: Any
    y: Any
    b: Any
    inverse: Any
    chosen: Any
    needed: Any


def new_desk(width: int, most: int) -> Desk:
    """Return a desk for up to ``width`` candidates and ``most`` parents.

    Made by Python: a kernel that allocates nothing compiles sooner.

    Examples
    --------
    >>> new_desk(5, 2).Y.shape
    (3, 5)
    """
    side = most + 1
    return Desk(
        np.empty(width, dtype=np.int64), np.zeros(width, dtype=np.bool_),
        np.zeros(width, dtype=np.bool_), np.empty(width), np.empty(width),
        np.zeros((side, side)), np.zeros((side, side)), np.empty((side, width)),
        np.empty(side), np.empty(side), np.empty(side), np.empty(side, dtype=np.int64),
        np.zeros(width, dtype=np.bool_),
    )  # fmt: skip


@kernel(inside=True, _nrt=False)
def between(problem, i, j):  # type: ignore[no-untyped-def]
    """Return the correlation of two variables."""
    if problem.held:
        return problem.source[i, j]
    pairs = problem.known.pairs
    if len(pairs) == 0:
        return correlation(problem.source, np.bool_(False), i, j)
    pair = min(i, j) * np.int64(len(problem.source)) + max(i, j)
    place = ((pair * _MIX) >> 17) & (len(pairs) - 1)
    if pairs[place] != pair:
        pairs[place] = pair
        problem.known.values[place] = correlation(problem.source, np.bool_(False), i, j)
    return problem.known.values[place]


@kernel(inside=True, _nrt=False)
def cost(problem, share):  # type: ignore[no-untyped-def]
    """Return what a residual costs."""
    return problem.n * np.log(max(share, _NOTHING))


@kernel(inside=True, _nrt=False)
def gain_of(problem, share, num, den):  # type: ignore[no-untyped-def]
    """Return what v gains by one more parent."""
    if den <= COLLINEAR:
        return -np.inf
    left = share - num * num / den
    return cost(problem, share) - cost(problem, left) - problem.arc_cost


@kernel(inside=True, _nrt=False)
def least_gain(problem):  # type: ignore[no-untyped-def]
    """Return which share of a residual a parent has to explain to be worth its cost."""
    return -np.expm1(-(problem.arc_cost + GAIN) / problem.n)


@kernel(inside=True, _nrt=False)
def clear(problem, desk, v, m):  # type: ignore[no-untyped-def]
    """Set up the regression of v on nothing, with the first m names to choose from."""
    for i in range(m):
        desk.num[i] = between(problem, v, desk.names[i])
        desk.den[i] = 1.0
        desk.member[i] = False


@kernel(inside=True, _nrt=False)
def _extend_inverse(desk, c):  # type: ignore[no-untyped-def]
    """Add column c to G = R⁻¹, and its part to the coefficients and to diag((RᵀR)⁻¹)."""
    R, G, b, inverse = desk.R, desk.G, desk.b, desk.inverse
    root, top = R[c, c], desk.y[c]
    for t in range(c):
        total = 0.0
        for a in range(t, c):
            total -= G[t, a] * R[a, c]
        x = total / root
        G[t, c] = x
        b[t] += x * top
        inverse[t] += x * x
    G[c, c] = 1.0 / root
    b[c] = top / root
    inverse[c] = 1.0 / (root * root)


@kernel(inside=True, _nrt=False)
def add(problem, desk, m, size, at):  # type: ignore[no-untyped-def]
    """Make candidate ``at`` a parent; return the variance it explains."""
    Y, num, den = desk.Y, desk.num, desk.den
    u = desk.names[at]
    root = np.sqrt(den[at])
    for a in range(size):
        desk.R[a, size] = Y[a, at]
    desk.R[size, size] = root
    top = num[at] / root
    desk.y[size] = top
    desk.chosen[size] = at
    desk.member[at] = True
    row = Y[size]
    for j in range(m):
        row[j] = between(problem, u, desk.names[j])
    for a in range(size):
        factor = Y[a, at]
        other = Y[a]
        for j in range(m):
            row[j] -= factor * other[j]
    for j in range(m):
        x = row[j] / root
        row[j] = x
        den[j] -= x * x
        num[j] -= x * top
    _extend_inverse(desk, size)
    return top * top


@kernel(inside=True, _nrt=False)
def remove(desk, m, size, t):  # type: ignore[no-untyped-def]
    """Take the t-th parent out by rotations; return the variance that comes back."""
    R, Y, y = desk.R, desk.Y, desk.y
    desk.member[desk.chosen[t]] = False
    last = size - 1
    for c in range(t, last):
        desk.chosen[c] = desk.chosen[c + 1]
        for a in range(c + 2):
            R[a, c] = R[a, c + 1]
    for a in range(t, last):
        length = np.hypot(R[a, a], R[a + 1, a])
        cos, sin = R[a, a] / length, R[a + 1, a] / length
        for c in range(a, last):
            p, q = R[a, c], R[a + 1, c]
            R[a, c], R[a + 1, c] = cos * p + sin * q, cos * q - sin * p
        R[a + 1, a] = 0.0
        p, q = y[a], y[a + 1]
        y[a], y[a + 1] = cos * p + sin * q, cos * q - sin * p
        one, two = Y[a], Y[a + 1]
        for j in range(m):
            p, q = one[j], two[j]
            one[j] = cos * p + sin * q
            two[j] = cos * q - sin * p
    for j in range(m):
        x = Y[last, j]
        desk.den[j] += x * x
        desk.num[j] += x * y[last]
    for c in range(last):
        _extend_inverse(desk, c)
    return y[last] * y[last]


@kernel(inside=True, _nrt=False)
def grow_and_shrink(problem, desk, m, size, share):  # type: ignore[no-untyped-def]
    """Grow and shrink the parents until neither lowers the cost; return their number and share."""
    most = len(desk.y) - 1
    while True:
        which = np.int64(-1)
        if size < most:  # the one that explains most: num²/den, compared without a division
            top, under = 0.0, 1.0
            for i in range(m):
                den, square = desk.den[i], desk.num[i] * desk.num[i]
                more = square * under > top * den and den > COLLINEAR
                if more and desk.allowed[i] and not desk.member[i]:
                    top, under, which = square, den, i  # type: ignore[assignment]
            if which >= 0:
                gain = gain_of(problem, share, desk.num[which], desk.den[which])
                if gain <= GAIN:
                    which = np.int64(-1)
        if which >= 0:
            share -= add(problem, desk, m, size, which)
            size += 1
            continue
        least = np.inf
        for t in range(size):
            if desk.needed[desk.chosen[t]]:
                continue
            loss = desk.b[t] * desk.b[t] / desk.inverse[t]
            if loss < least:
                least, which = loss, t  # type: ignore[assignment]
        change = cost(problem, share + least) - cost(problem, share) - problem.arc_cost
        if least == np.inf or change >= -GAIN:
            return size, share
        share += remove(desk, m, size, which)
        size -= 1
