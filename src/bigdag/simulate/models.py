"""Random DAGs and samples of them (section 4.1 of the paper).

A model is a ``DAG``, the name of a noise and one noise scale for each variable. Draw the scales
once, then every sample that uses them comes from the same model::

    rng = np.random.default_rng(0)
    dag = random_dag(1000, 2, rng=rng)
    scales = noise_scales(dag.n_nodes, "NV", rng)
    train, validation = (sample(dag, 1000, variance=scales, rng=rng) for _ in range(2))

``internally_standardised`` turns such a model into one whose variables all have variance one
(iSCM), which is sampled in the same way. One sample is X = E (I - W)^-1, computed along the causal
order, one variable after the other: the memory is that of X and of the arcs.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array, diags_array

from bigdag.compiled import kernel
from bigdag.data.standardising import standardise
from bigdag.errors import GraphError, ParameterError, close_names
from bigdag.graph.dag import DAG

__all__ = ["internally_standardised", "noise_scales", "random_dag", "sample", "standardise"]

Seed: TypeAlias = int | np.random.Generator | None

GRAPHS = ("ER", "SF")
NOISES = ("gaussian", "exponential", "gumbel")
VARIANCES = ("EV", "NV")


def random_dag(
    d: int,
    k: float,
    graph: str = "ER",
    rng: Seed = None,
    weights: tuple[float, float] = (0.5, 2.0),
) -> DAG:
    """Draw a random DAG with some k arcs for each of its d variables.

    Parameters
    ----------
    d : int
        Number of variables, at least 2.
    k : float
        Arcs for each variable. Above 0, and k d at most d (d - 1) / 2.
    graph : {"ER", "SF"}
        "ER" (Erdős-Rényi): exactly ``round(k * d)`` arcs, every set of pairs equally likely. "SF"
        (scale-free, preferential attachment): variables arrive one by one; each new one gets an
        arc to k of the earlier ones (to all, while there are fewer than k), chosen with a chance
        that grows with the arcs they already received, plus one. That makes k d - k (k + 1) / 2
        arcs, and a few variables with very many parents, as in the experiments of NOTEARS and
        GOLEM. Here k is a whole number.
    rng : int, Generator or None
        The seed.
    weights : (float, float)
        The least and the largest absolute weight. Absolute weights are uniform between the two,
        signs are + or - with equal chance.

    Returns
    -------
    DAG
        Its causal order is a uniformly random permutation of the columns.

    Raises
    ------
    ParameterError
        If an argument is not as above.

    Examples
    --------
    >>> dag = random_dag(100, 2, rng=0)
    >>> dag.n_nodes, dag.n_arcs
    (100, 200)
    """
    _check_word(graph, GRAPHS, "graph")
    d = _check_count(d, "d", 2)
    low, high = weights
    if not 0 < low <= high < np.inf:
        raise ParameterError(
            f"weights must be two numbers with 0 < low <= high. Got {weights!r} instead."
        )
    n_arcs = _count_arcs(d, k, graph)
    generator = np.random.default_rng(rng)
    order = generator.permutation(d)
    if graph == "ER":
        first, second = _pairs(generator.choice(d * (d - 1) // 2, n_arcs, False, shuffle=False))
    else:
        first, second = _attach(d, int(k), generator)
    size = generator.uniform(low, high, len(first))
    signed = np.where(generator.random(len(first)) < 0.5, -size, size)
    matrix = csc_array((signed, (order[first], order[second])), shape=(d, d))
    return DAG(matrix, order=order)


def noise_scales(d: int, variance: str | ArrayLike = "EV", rng: Seed = None) -> NDArray[np.float64]:
    """Draw the scales of the noise: one for each variable, part of the model.

    Parameters
    ----------
    d : int
        Number of variables.
    variance : {"EV", "NV"} or array of shape (d,)
        "EV": 1.0 for all. "NV": uniform in [0.5, 1.5], drawn for each variable. An array of d
        numbers above 0 is checked and returned.
    rng : int, Generator or None
        The seed; used by "NV" only.

    Returns
    -------
    array of shape (d,)

    Examples
    --------
    >>> noise_scales(3, "EV")
    array([1., 1., 1.])
    >>> scales = noise_scales(1000, "NV", rng=0)
    >>> bool(0.5 <= scales.min() <= scales.max() <= 1.5)
    True
    """
    if isinstance(variance, str):
        _check_word(variance, VARIANCES, "variance")
        return np.random.default_rng(rng).uniform(0.5, 1.5, d) if variance == "NV" else np.ones(d)
    scales = np.array(variance, dtype=np.float64)
    if scales.shape != (d,) or not np.all((scales > 0) & (scales < np.inf)):
        raise ParameterError(
            f"variance must be 'EV', 'NV' or an array of {d} finite numbers above 0, one for each "
            f"variable. Got an array of shape {scales.shape} instead."
            if scales.shape != (d,)
            else "variance must hold finite numbers above 0 only."
        )
    return scales


def sample(
    dag: DAG,
    n: int,
    noise: str = "gaussian",
    variance: str | ArrayLike = "EV",
    rng: Seed = None,
) -> NDArray[np.float64]:
    """Draw n samples X = E (I - W)^-1 of the linear model on a DAG.

    Parameters
    ----------
    dag : DAG
        The arcs and their weights W.
    n : int
        Number of samples, at least 1.
    noise : {"gaussian", "exponential", "gumbel"}
        Distribution of E, with location 0 and the given scale. As in the paper and before it, the
        noise is not centred: exponential noise of scale s has mean s and standard deviation s,
        Gumbel noise has mean 0.577 s and standard deviation 1.283 s. All learners centre X.
    variance : {"EV", "NV"} or array of shape (d,)
        See `noise_scales`. "NV" draws new scales at each call: for a training and a validation set
        of one model, draw them once and give both calls the array.
    rng : int, Generator or None
        The seed. Give a Generator to draw several different samples.

    Returns
    -------
    array of shape (n, d)
        In Fortran order (each variable is contiguous). The same seed gives the same bytes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> dag = random_dag(20, 1, rng=rng)
    >>> scales = noise_scales(20, "NV", rng)
    >>> train, validation = (sample(dag, 50, "gumbel", scales, rng) for _ in range(2))
    >>> train.shape
    (50, 20)
    """
    n = _check_count(n, "n", 1)
    generator = np.random.default_rng(rng)
    scales = noise_scales(dag.n_nodes, variance, generator)
    return _simulate(dag, n, noise, scales, generator, np.empty(0)).T


def internally_standardised(
    dag: DAG,
    noise: str = "gaussian",
    variance: str | ArrayLike = "EV",
    rng: Seed = None,
    n: int = 2000,
) -> tuple[DAG, NDArray[np.float64]]:
    """Rescale a model so that each variable has variance one as it is generated (iSCM).

    The internally standardised model of Ormaniec et al. (2024) divides each variable by its
    standard deviation before its children see it, so that neither the variances nor their growth
    along the order give the order away. That is again a linear model, with arcs w_ij / sd_j and
    noise scales s_j / sd_j. It is returned as such, so that the training and the validation set
    are drawn from one and the same model with `sample`.

    Parameters
    ----------
    dag : DAG
        The arcs and their weights before the rescaling.
    noise : {"gaussian", "exponential", "gumbel"}
        The noise that the model will be sampled with.
    variance : {"EV", "NV"} or array of shape (d,)
        The noise scales before the rescaling.
    rng : int, Generator or None
        The seed.
    n : int
        Size of the pilot sample on which the standard deviations are measured, at least 2. The
        variances come out as 1 with a relative error of about sqrt(2 / n).

    Returns
    -------
    dag : DAG
        The same arcs, rescaled weights.
    scales : array of shape (d,)
        The rescaled noise scales, to be given to `sample`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> dag, scales = internally_standardised(random_dag(20, 2, rng=rng), rng=rng)
    >>> X = sample(dag, 1000, variance=scales, rng=rng)
    >>> bool(abs(X.var(axis=0) - 1).max() < 0.25)
    True
    """
    n = _check_count(n, "n", 2)
    generator = np.random.default_rng(rng)
    scales = noise_scales(dag.n_nodes, variance, generator)
    sds = np.empty(dag.n_nodes)
    _simulate(dag, n, noise, scales, generator, sds)
    weights = csc_array(dag.weights @ diags_array(1.0 / sds))
    return DAG(weights, names=dag.names if dag.named else None, order=dag.order), scales / sds


def _count_arcs(d: int, k: Any, graph: str) -> int:
    """Number of arcs of ER; refuse a k that no DAG with d variables can have."""
    per_node = float(k) if isinstance(k, Real) else np.nan
    if not 0 < per_node < np.inf:
        raise ParameterError(
            f"k, the number of arcs for each variable, must be above 0. Got {k!r} instead."
        )
    if graph == "SF" and not per_node.is_integer():
        raise ParameterError(f"k must be a whole number for graph='SF'. Got {k!r} instead.")
    n_arcs, n_pairs = round(per_node * d), d * (d - 1) // 2
    if not 1 <= n_arcs <= n_pairs:
        raise ParameterError(
            f"k * d must be between 1 and d * (d - 1) / 2 = {n_pairs} arcs for d = {d}. "
            f"Got k = {k!r}, which makes {n_arcs}: choose k from {1 / d:.3g} to {(d - 1) / 2:g}."
        )
    return n_arcs


def _pairs(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Turn code j (j - 1) / 2 + i into the pair of places i < j."""
    second = ((1 + np.sqrt(1 + 8 * codes.astype(np.float64))) / 2).astype(np.int64)
    # The square root may round across a whole number when codes are large.
    second -= second * (second - 1) // 2 > codes
    second += second * (second + 1) // 2 <= codes
    return codes - second * (second - 1) // 2, second


def _attach(
    d: int, k: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw the arcs of a preferential attachment graph, as places in a causal order.

    `pool` holds each arrived node once, and once more for every arc it received, so that a uniform
    draw from it is a draw by preference; a node already chosen is drawn again.
    """
    newest: list[int] = []
    chosen: list[int] = []
    pool = [0]
    for node in range(1, d):
        targets: dict[int, None] = dict.fromkeys(range(node)) if node <= k else {}
        while len(targets) < min(k, node):
            for place in rng.integers(len(pool), size=k):
                if len(targets) < k:
                    targets[pool[place]] = None
        newest.extend([node] * len(targets))
        chosen.extend(targets)
        pool.extend(targets)
        pool.append(node)
    # Arcs go from the new node to the earlier ones: the last to arrive comes first in the order.
    return d - 1 - np.array(newest), d - 1 - np.array(chosen)


def _simulate(
    dag: DAG,
    n: int,
    noise: str,
    scales: NDArray[np.float64],
    rng: np.random.Generator,
    sds: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return X transposed, (d, n); `sds`, if not empty, is filled and X internally standardised."""
    _check_word(noise, NOISES, "noise")
    shape = (dag.n_nodes, n)
    if noise == "gaussian":
        columns = rng.standard_normal(shape)
    elif noise == "exponential":
        columns = rng.standard_exponential(shape)
    else:
        columns = rng.gumbel(size=shape)
    columns *= scales[:, None]
    weights = dag.weights
    indptr, indices = weights.indptr.astype(np.int64), weights.indices.astype(np.int64)
    _propagate(columns, indptr, indices, weights.data, np.asarray(dag.order, np.int64), sds)
    if not (np.isfinite(columns.min()) and np.isfinite(columns.max())):
        raise GraphError(
            "The samples overflow: the weights multiply to infinity along the paths of this DAG. "
            "Use smaller weights, fewer arcs, or internally_standardised."
        )
    return columns


@kernel
def _propagate(
    columns: NDArray[np.float64],  # (d, n), noise in, X out
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    data: NDArray[np.float64],
    order: NDArray[np.int64],
    sds: NDArray[np.float64],  # (d,) or empty
) -> None:
    """Add the parents to each variable along the order, in place."""
    n = columns.shape[1]
    for node in order:
        column = columns[node]
        for slot in range(indptr[node], indptr[node + 1]):
            weight, parent = data[slot], columns[indices[slot]]
            for t in range(n):
                column[t] += weight * parent[t]
        if sds.size:
            mean = 0.0
            for t in range(n):
                mean += column[t] / n
            variance = 0.0
            for t in range(n):
                column[t] -= mean
                variance += column[t] * column[t] / n
            sds[node] = np.sqrt(variance)
            for t in range(n):
                column[t] /= sds[node]


def _check_count(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ParameterError(
            f"{name} must be a whole number, at least {least}. Got {value!r} instead."
        )
    return int(value)


def _check_word(value: str, allowed: Iterable[str], name: str) -> None:
    words = list(allowed)
    if value in words:
        return
    near = close_names(str(value), words, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(map(repr, words))
    raise ParameterError(f"{name} must be one of {listed}. Got {value!r} instead.{hint}")
