"""What a fit will take, before it begins: memory, and for the searches over orders the time.

The time is a formula of what the work consists of: products of rows in float32, which the
processor does by the billion, and single inner products, which wait for the memory. How long one of
each takes is measured on this machine, for about a second, on rows of that length; how many pairs
of variables are correlated is counted on a sample of them. The numbers in the formula come from
the phases of fits of random graphs with 500 to 100,000 variables and 1000 samples, by their
processor time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bigdag.engine.exceeding import inner_products
from bigdag.engine.gram import blocks_memory
from bigdag.resources import blas_threads, n_threads
from bigdag.search.bic import holds_correlations, insertion_memory
from bigdag.search.candidates import takes_every_pair
from bigdag.search.ebic import arc_cost

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.data.dataset import Dataset
    from bigdag.learners.methods import Method

__all__ = ["Forecast", "Speed", "forecast", "measure"]

_MEASURING = 0.3  # seconds for each of the three measurements
_TILE = 512  # rows of a product that is measured
_SAMPLE = 64  # variables whose correlations are counted
_CORRELATED = 4.0  # over √n: what least squares takes for correlated
_ALL_PREDECESSORS = 5000  # variables up to which its lasso may use any of them

# Products of half of the matrix in float32 that a fit consists of. Least squares looks again at
# columns that something entered by chance, of which there are more the more variables there are.
_LOOKS_OF_BIC, _LOOKS_OF_LEAST_SQUARES = 2.2, 2.0
_LOOKS_OF_A_CHANCE = 0.45
# Inner products of a variable, and of one that it is correlated with.
_OF_A_VARIABLE, _OF_A_CANDIDATE = 270.0, 58.0
_TIMES_OF_LEAST_SQUARES = 1.15  # as many
# Of every pair of variables, where all of them become candidates: some, and more where more are
# correlated.
_OF_A_PAIR, _OF_A_CORRELATED_PAIR = 0.9, 120.0
# Where the lasso may use all variables: of every pair, and of every pair and a thousand variables,
# because each has more parents the more there are, and a change of one goes through all. It works
# on correlations that are held, so that the number of samples does not matter.
_LASSO_OF_A_PAIR, _LASSO_OF_A_THOUSAND = 1.0, 0.2


@dataclass(frozen=True)
class Speed:
    """How fast this machine is now, with the rows that were measured.

    Attributes
    ----------
    product : float
        Seconds of one inner product of two rows inside of a product of matrices in float32, on all
        threads.
    single : float
        Seconds of one inner product alone, in float64.
    thousand : float
        The same of a thousand numbers, whatever the number of samples.
    """

    product: float
    single: float
    thousand: float


@dataclass(frozen=True)
class Forecast:
    """What a fit will take.

    Attributes
    ----------
    n, d : int
        Samples and variables.
    memory : int
        Bytes that the process holds at its peak, all included.
    seconds : float or None
        Of the fit, without reading the table and without compiling; None where there is no formula
        for the method.
    correlated : float or None
        The mean number of variables that one is correlated with, where it was counted.
    """

    n: int
    d: int
    memory: int
    seconds: float | None
    correlated: float | None


def measure(n: int, n_jobs: int | None = None) -> Speed:
    """Measure both kinds of inner products of n numbers, for about a second.

    Means are taken, so that other work that takes a part of the processors counts, as it will for
    the fit.

    Examples
    --------
    >>> speed = measure(100)
    >>> 0 < speed.product < speed.single < 1e-3
    True
    """
    rng = np.random.default_rng(0)
    threads = n_threads(n_jobs)
    rows = rng.standard_normal((_TILE, n), dtype=np.float32)

    def tiles(_: int) -> list[float]:
        out = np.empty((_TILE, _TILE), dtype=np.float32)
        return _times(lambda: np.matmul(rows, rows.T, out=out))

    with blas_threads(1), ThreadPoolExecutor(threads) as pool:
        each = [one for times in pool.map(tiles, range(threads)) for one in times]
    at, to = (rng.integers(4 * _TILE, size=2000) for _ in range(2))

    def alone(length: int) -> float:
        exact = rng.standard_normal((4 * _TILE, length))
        inner_products(exact, exact, at[:10], to[:10])
        return float(np.mean(_times(lambda: inner_products(exact, exact, at, to)))) / len(at)

    return Speed(float(np.mean(each)) / (threads * _TILE**2), alone(n), alone(1000))


def _times(work: Callable[[], Any]) -> list[float]:
    """Return how long each of many repetitions took."""
    times: list[float] = []
    while sum(times) < _MEASURING or not times:
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return times


def forecast(
    method: Method,
    data: Dataset,
    parameters: Mapping[str, Any] | None = None,
    speed: Callable[[int, int | None], Speed] = measure,
) -> Forecast:
    """Say what a fit of a table will take.

    Parameters
    ----------
    method : Method
        The row of the table of methods.
    data : Dataset
        The table.
    parameters : mapping, optional
        Of the estimator.
    speed : callable
        Measures the machine; called with the number of samples and of threads.

    Returns
    -------
    Forecast

    Examples
    --------
    >>> from bigdag.data.dataset import as_dataset
    >>> from bigdag.learners.methods import METHODS
    >>> X = np.random.default_rng(0).normal(size=(50, 6))
    >>> said = forecast(METHODS["order-search"], as_dataset(X))
    >>> said.d, said.seconds < 5, said.memory > 10**8
    (6, True, True)
    """
    given = dict(parameters or {})
    n, d = data.n_samples, data.n_features
    memory = method.memory(n, d, given)
    criteria = {
        "order-search": ("least_squares",),
        "order-search-bic": ("bic",),
        "auto": ("least_squares", "bic"),
    }.get(method.word)
    if criteria is None or data.X is None:
        return Forecast(n, d, memory, None, None)
    at = speed(n, given.get("n_jobs"))
    seconds, mean = 0.0, 0.0
    for criterion in criteria:
        limit = _CORRELATED / np.sqrt(n)
        if criterion == "bic":
            limit = np.sqrt(-np.expm1(-arc_cost(n, d, given.get("gamma", "auto")) / n))
        mean = _mean_correlated(data.X, float(limit))
        seconds += _search_seconds(criterion, n, d, mean, at)
    if criteria == ("bic",):  # whether every pair becomes a candidate is known now
        blocks = blocks_memory(d)
        memory += max(blocks, insertion_memory(n, d, mean)) - max(blocks, insertion_memory(n, d))
    return Forecast(n, d, memory, seconds, mean)


def _search_seconds(criterion: str, n: int, d: int, mean: float, at: Speed) -> float:
    """Return the seconds of one search over orders."""
    half = 0.5 * d * d * at.product
    own = d * (_OF_A_VARIABLE + _OF_A_CANDIDATE * min(mean, 200.0)) * at.single
    if criterion == "least_squares":
        own *= _TIMES_OF_LEAST_SQUARES
        if d <= _ALL_PREDECESSORS:
            pairs = _LASSO_OF_A_PAIR + _LASSO_OF_A_THOUSAND * d / 1000
            return 2 * half + own + d * d * pairs * at.thousand
        chance = d * math.erfc(_CORRELATED / math.sqrt(2))
        looks = _LOOKS_OF_LEAST_SQUARES + _LOOKS_OF_A_CHANCE * chance
        return looks * half + own
    start = 4.0 * d * min(n, d) * at.product  # R² of each variable on all others
    if takes_every_pair(d, mean * d):
        pairs = _OF_A_PAIR + _OF_A_CORRELATED_PAIR * mean / d
        return 2 * half + start + d * d * pairs * min(at.single, at.thousand)
    held = 2 * half if holds_correlations(d) or 8 * mean**2 > d else 0.0
    return _LOOKS_OF_BIC * half + held + start + own


def _mean_correlated(X: NDArray[np.float64], limit: float) -> float:
    """Return how many variables one is correlated with, in the mean of a sample."""
    d = X.shape[1]
    norm = np.sqrt(np.einsum("ij,ij->j", X, X))
    scale = np.divide(1.0, norm, out=np.zeros(d), where=norm > 0)
    sample = np.linspace(0, d - 1, min(_SAMPLE, d)).astype(np.int64)
    products = (X[:, sample] * scale[sample]).T @ X
    own = float((norm[sample] > 0).mean())  # each is correlated with itself
    return float((np.abs(products * scale) > limit).sum() / len(sample)) - own
