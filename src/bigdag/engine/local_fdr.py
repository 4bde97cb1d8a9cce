"""How probable a find is, from how often resamples find it and how often chance would.

A pair of variables is joined where its statistic exceeds a threshold c; in the extended BIC it is
the root of what an arc gains, and c the root of what an arc costs. On all rows the statistic of a
pair that has no arc is a standard normal number t, in absolute value, and of one with an arc it is
normal around what the arc is worth, m. A bootstrap resample adds noise of the same size, so it
finds the pair with probability Φ(t - c), and B resamples find it k times with that of a binomial
number. So it is known how many of the pairs without an arc are found k times, whatever k:

    chance[k] = pairs · 2 ∫ φ(t) Binomial(k; B, Φ(t - c)) dt  over t > 0

The pairs that are there follow the same with φ(t - m), and how many there are of each m is the
mixture that makes the counts seen most likely. The probability of a pair is the share of what is
seen that chance does not explain: one minus the local false discovery rate (Efron 2010).

A search tries each pair in two directions and beside several other parents, and so finds more by
chance. By how much is read off the pairs that are found rarely, which are hardly ever true.

Of pairs that are joined, the share of the resamples with one direction is a timid measure of how
probable that direction is: where a resample leaves the direction open, it counts as half of each,
and each starts from an order of its own. Of the arcs in 70 to 80 % of the resamples nine tenths
were true. The odds squared are near to the truth in all data tried (benchmarks/RESULTS.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, log_ndtr

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FEWEST_RESAMPLES", "probability_by_count", "probability_of_direction"]

FEWEST_RESAMPLES = 10  # that tell chance from what is there

_SHARPER = 2.0  # the odds of a direction to this power
_STEP = 0.025  # of the statistic, in integrals
_WORTH = 0.25  # between two values of m
_WEAKEST, _STRONGEST = 1.0, 6.0  # m: so far below the threshold, and above it
_RARE = 0.05, 0.1  # shares of the resamples that hardly any pair with an arc is found in
_ROUNDS = 300  # of expectation and maximisation
_LEAST = 1e-12  # a probability, times the count: the order of the counts is kept


def probability_by_count(
    found: NDArray[np.integer],
    threshold: float,
    pairs: float,
    fraction: float = 1.0,
    deviation: float = 1.0,
) -> NDArray[np.float64]:
    """Return the probability of a pair to be joined in truth, by how many resamples join it.

    Parameters
    ----------
    found : ndarray of shape (B + 1,)
        How many pairs are joined in k of B resamples; the first number is not read.
    threshold : float
        That the statistic of a pair must exceed.
    pairs : float
        How many pairs could be joined.
    fraction : float, default=1.0
        The share of the pairs that each resample may join.
    deviation : float, default=1.0
        The standard deviation of the statistic of a pair without an arc.

    Returns
    -------
    ndarray of shape (B + 1,)
        Rising, and zero for no resample.

    Examples
    --------
    Of 45,000 pairs chance lets about one be found in 11 or 12 of 20 resamples, and none in all.

    >>> found = np.zeros(21, dtype=int)
    >>> found[20], found[11] = 50, 1
    >>> probability_by_count(found, 3.8, 45_000)[[11, 20]].round(2)
    array([0., 1.])
    """
    total = len(found) - 1
    count = np.arange(total + 1)
    t = np.arange(0.0, threshold + _STRONGEST + 5.0, _STEP)
    log_hit = log_ndtr(t - threshold) + np.log(fraction)
    log_miss = np.log1p(-np.minimum(np.exp(log_hit), 1 - 1e-16))
    ways = gammaln(total + 1) - gammaln(count + 1) - gammaln(total - count + 1)
    binomial = np.exp(
        ways[:, None] + count[:, None] * log_hit + (total - count)[:, None] * log_miss
    )
    binomial *= _STEP / np.sqrt(2 * np.pi)
    by_chance = 2 * pairs / deviation * (binomial @ np.exp(-((t / deviation) ** 2) / 2))
    rare = (count >= 1) & (count >= _RARE[0] * total) & (count <= _RARE[1] * total)
    if rare.any() and pairs > 0:
        expected_rare = max(float(by_chance[rare].sum()), 1e-300)
        by_chance *= min(max(1.0, float(found[rare].sum()) / expected_rare), 1e300)
    worth = np.arange(threshold - _WEAKEST, threshold + _STRONGEST, _WORTH)
    by_worth = binomial @ np.exp(-((t[:, None] - worth) ** 2) / 2)
    often = (count >= 1) & (count > _RARE[1] * total)
    seen, chance, shape = found[often].astype(np.float64), by_chance[often], by_worth[often]
    whole = shape.sum(axis=0)
    amount = np.full(len(worth), max(1.0, seen.sum()) / len(worth))
    for _ in range(_ROUNDS):
        expected = np.maximum(chance + shape @ amount, 1e-300)
        amount *= (seen / expected) @ shape / whole
    there = by_worth @ amount
    probability = there / np.maximum(by_chance + there, 1e-300)
    probability[0] = 0.0
    rising = np.maximum.accumulate(np.maximum(probability, _LEAST * count))
    return np.asarray(np.minimum(rising, 1.0))


def probability_of_direction(
    count: NDArray[np.float64], joined: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how probable one direction of pairs is, where they are joined.

    Parameters
    ----------
    count : ndarray of shape (m,)
        How many resamples have the direction; one that leaves it open counts half.
    joined : ndarray of shape (m,)
        How many join the pair.

    Examples
    --------
    What a single resample has is not sure, and what most of a hundred have is surer than that.

    >>> probability_of_direction(np.array([1.0, 50, 75]), np.array([1.0, 100, 100])).round(2)
    array([0.8, 0.5, 0.9])
    """
    there = (count + 1.0) ** _SHARPER  # one more of each: the rule of succession
    return np.asarray(there / (there + (joined - count + 1.0) ** _SHARPER))
