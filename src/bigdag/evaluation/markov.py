"""Whether a DAG suits data, without a truth: the independences it implies, and unseen rows.

A DAG says that each variable, given its parents, is independent of what else comes before it. Data
that reject more of these than chance would, or to which a graph with shuffled variables is as
likely, do not come from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from bigdag.engine.order import rank_of
from bigdag.errors import DataError, ParameterError
from bigdag.graph.align import Graph, on_columns, places, samples
from bigdag.graph.dag import DAG
from bigdag.model.linear import LinearModel, least_squares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.data.dataset import Dataset

__all__ = ["MarkovCheck", "markov_check"]

_DRAWS = 50  # times as many pairs are drawn as are wanted, before it is given up


@dataclass(frozen=True)
class MarkovCheck:
    """How a DAG suits data.

    Attributes
    ----------
    alpha : float
        The level of each test: so many would be rejected by chance.
    n_tests, n_near : int
        Implied independences that were tested: pairs drawn from all, and pairs that share a
        neighbour in the DAG, where errors show first.
    rejected, rejected_near : float
        The shares of these that the data reject; NaN where there is none to test.
    log_likelihood : float
        Of the rows held out, the mean over them, with the weights refitted on the other rows.
    n_arcs : int
        Of the DAG.
    permuted : ndarray of shape (k,)
        The same for the DAG with its variables shuffled: as many arcs, in another order.
    fewer, more : float
        The same with a tenth of the arcs left out, those whose removal costs least, and with a
        tenth added, those that explain most of what is left. A graph of the right size is better
        than both. NaN where there are too few arcs.
    """

    alpha: float
    n_tests: int
    rejected: float
    n_near: int
    rejected_near: float
    log_likelihood: float
    n_arcs: int
    permuted: NDArray[np.float64]
    fewer: float
    more: float


def markov_check(
    dag: Graph,
    X: Any,
    *,
    held_out: Any = None,
    alpha: float = 0.05,
    n_tests: int = 1000,
    n_permutations: int = 20,
    rng: int | np.random.Generator | None = None,
) -> MarkovCheck:
    """Check a DAG against data, without knowing the true one.

    Parameters
    ----------
    dag : DAG, sparse or dense matrix
        Acyclic.
    X : table of shape (n, d)
        Best rows that the DAG was not learnt from: in its own rows the search has looked for
        what agrees.
    held_out : table, optional
        Rows for the likelihoods; by default a random third of X, and the rest refits the weights.
    alpha : float, default=0.05
        The level of each test.
    n_tests : int, default=1000
        Implied independences to test, at the most, drawn at random; as many again among near
        pairs.
    n_permutations : int, default=20
        Shuffled graphs to compare with.
    rng : int, Generator or None
        The seed.

    Returns
    -------
    MarkovCheck

    Examples
    --------
    >>> from bigdag import metrics, simulate
    >>> truth = simulate.random_dag(20, 1, rng=0)
    >>> X = simulate.sample(truth, 500, rng=1)
    >>> found = metrics.markov_check(truth, X, rng=0)
    >>> found.rejected < 0.1, bool(found.log_likelihood > found.permuted.max())
    (True, True)
    """
    if not 0 < alpha < 1:
        raise ParameterError(f"alpha must be between 0 and 1. Got {alpha!r} instead.")
    for name, value in (("n_tests", n_tests), ("n_permutations", n_permutations)):
        if not (isinstance(value, int | np.integer) and value >= 0):
            raise ParameterError(f"{name} must be an integer of at least 0. Got {value!r}.")
    random = np.random.default_rng(rng)
    data, values = samples(X)
    graph = on_columns(dag, data)
    known, unseen = _split(data, values, held_out, random)
    drawn = _any_pairs(graph, int(n_tests), random)
    near = _near_pairs(graph, int(n_tests), random)
    (n_any, any_), (n_near, near_) = (
        _rejected(values, graph, pairs, alpha) for pairs in (drawn, near)
    )
    parents = _parents_of(graph.weights)
    permuted = []
    for _ in range(n_permutations):
        shuffle = random.permutation(graph.n_nodes)
        permuted.append(
            _likelihood({int(shuffle[v]): shuffle[P] for v, P in parents.items()}, known, unseen)
        )
    return MarkovCheck(
        alpha,
        n_any,
        any_,
        n_near,
        near_,
        _likelihood(parents, known, unseen),
        graph.n_arcs,
        np.array(permuted),
        *(
            float("nan") if other is None else _likelihood(other, known, unseen)
            for other in (_fewer(graph, known), _more(graph, known))
        ),
    )


def _split(
    data: Dataset, values: NDArray[np.float64], held_out: Any, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rows that refit the weights and those held out, both about the first's means."""
    if held_out is not None:
        other, rest = samples(held_out)
        place = places(other.names, other.named, data.names, data.named, "held-out data")
        return values, rest[:, place] + (other.mean[place] - data.mean)
    if data.n_samples < 6:
        raise DataError(f"A check needs 6 rows, to hold some out. Got {data.n_samples}.")
    rows = rng.permutation(data.n_samples)
    cut = max(2, data.n_samples // 3)
    known, unseen = values[rows[cut:]], values[rows[:cut]]
    mean = known.mean(axis=0)
    return known - mean, unseen - mean


# ------------------------------------------------------------------ independences


def _any_pairs(dag: DAG, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return pairs (u, v) without an arc, u before v in the order, drawn without repeats."""
    d = dag.n_nodes
    possible = d * (d - 1) // 2 - dag.n_arcs
    rank = rank_of(dag.order)
    arcs = _codes(dag)
    if possible <= most:
        u, v = np.triu_indices(d, 1)
        pairs = np.column_stack([dag.order[u], dag.order[v]])
        return pairs[~np.isin(pairs[:, 0] * d + pairs[:, 1], arcs)]
    found = np.empty(0, dtype=np.int64)
    for _ in range(_DRAWS):
        ends = rng.integers(d, size=(2 * most, 2))
        ends = ends[ends[:, 0] != ends[:, 1]]
        turned = rank[ends[:, 0]] > rank[ends[:, 1]]
        ends[turned] = ends[turned, ::-1]
        codes = ends[:, 0] * d + ends[:, 1]
        found = np.unique(np.concatenate([found, codes[~np.isin(codes, arcs)]]))
        if len(found) >= most:
            break
    some = rng.permutation(found)[:most]
    return np.column_stack(np.divmod(some, max(d, 1)))


def _near_pairs(dag: DAG, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return pairs (u, v) without an arc that have a neighbour in common, u before v."""
    d, rank = dag.n_nodes, rank_of(dag.order)
    joined = dag.weights.astype(bool).astype(np.int32)
    joined = sp.csr_array(joined + joined.T)
    two = sp.coo_array(joined @ joined)
    ahead = rank[two.row] < rank[two.col]
    codes = two.row[ahead].astype(np.int64) * d + two.col[ahead]
    codes = np.setdiff1d(codes, _codes(dag))
    some = rng.permutation(codes)[:most]
    return np.column_stack(np.divmod(some, max(d, 1)))


def _codes(dag: DAG) -> NDArray[np.int64]:
    arcs = dag.weights.tocoo()
    return arcs.row.astype(np.int64) * dag.n_nodes + arcs.col


def _rejected(
    X: NDArray[np.float64], dag: DAG, pairs: NDArray[np.int64], alpha: float
) -> tuple[int, float]:
    """Return how many pairs (u, v) could be tested, and the share that is rejected.

    A pair is rejected that is dependent given the parents of v, by Fisher's z; one of which nothing
    is left beside these is not tested.
    """
    from scipy.special import ndtri

    n, rejected, tested = len(X), 0, 0
    limit = ndtri(1 - alpha / 2)
    for v in np.unique(pairs[:, 1]):
        others = pairs[pairs[:, 1] == v, 0]
        parents = dag._parents(int(v))
        left = n - len(parents) - 3
        if left < 1:
            continue
        Y = X[:, [v, *others]]
        whole = np.linalg.norm(Y, axis=0)
        if len(parents):
            Q = np.linalg.qr(X[:, parents])[0]
            Y = Y - Q @ (Q.T @ Y)
        norms = np.linalg.norm(Y, axis=0)
        left_over = norms > 1e-10 * whole
        live = left_over[1:] & left_over[0]
        r = np.clip((Y[:, 0] @ Y[:, 1:])[live] / (norms[0] * norms[1:][live]), -1, 1)
        rejected += int(np.sum(np.abs(np.arctanh(r * (1 - 1e-15))) * np.sqrt(left) > limit))
        tested += int(live.sum())
    return tested, rejected / tested if tested else float("nan")


# ------------------------------------------------------------------ unseen rows


def _parents_of(weights: sp.csc_array) -> dict[int, NDArray[np.int64]]:
    """Return the parents of each variable that has some."""
    ptr = weights.indptr
    return {
        int(v): weights.indices[ptr[v] : ptr[v + 1]].astype(np.int64)
        for v in np.flatnonzero(np.diff(ptr))
    }


def _likelihood(
    parents: dict[int, NDArray[np.int64]], known: NDArray[np.float64], unseen: NDArray[np.float64]
) -> float:
    """Return the mean log-likelihood of unseen rows, with all that is fitted from known ones."""
    total = 0.0
    for v in range(known.shape[1]):
        old, new = known[:, v], unseen[:, v]
        if not old.any():
            continue
        if (P := parents.get(v)) is not None:
            b = least_squares(known[:, P], old)
            new = new - unseen[:, P] @ b
            noise = max(float(np.mean((old - known[:, P] @ b) ** 2)), 1e-12 * float(old @ old))
        else:
            noise = float(old @ old) / len(old)
        total += float(np.log(2 * np.pi * noise) + np.mean(new**2) / noise)
    return -0.5 * total


def _fewer(dag: DAG, known: NDArray[np.float64]) -> dict[int, NDArray[np.int64]] | None:
    """Return the parents without a tenth of the arcs: those that explain least."""
    drop = round(dag.n_arcs / 10)
    if not drop:
        return None
    model = LinearModel.from_data(DAG(dag.weights), known)
    weights = model.dag.weights
    target = np.repeat(np.arange(dag.n_nodes), np.diff(weights.indptr))
    spread = known.std(axis=0)
    assert model.noise_variances is not None
    noise = np.sqrt(np.maximum(model.noise_variances, 1e-300))
    strength = np.abs(weights.data) * spread[weights.indices] / noise[target]
    kept = weights.copy()
    kept.data[np.argsort(strength, kind="stable")[:drop]] = 0.0
    kept.eliminate_zeros()
    return _parents_of(kept)


def _more(dag: DAG, known: NDArray[np.float64]) -> dict[int, NDArray[np.int64]] | None:
    """Return the parents with a tenth more arcs: those that explain most of what is left."""
    extra, d, n = round(dag.n_arcs / 10), dag.n_nodes, len(known)
    if not extra or d * (d - 1) // 2 - dag.n_arcs < extra:
        return None
    model = LinearModel.from_data(DAG(dag.weights), known)
    left = known - known @ model.dag.weights
    norms = np.linalg.norm(left, axis=0)
    left = left / np.where(norms > 0, norms, 1.0)
    spread = np.linalg.norm(known, axis=0)
    scaled = known / np.where(spread > 0, spread, 1.0)
    rank, present = rank_of(dag.order), _codes(dag)
    best = np.empty(0), np.empty(0, dtype=np.int64)
    step = max(1, 2**22 // max(d, n))
    for first in range(0, d, step):
        some = np.arange(first, min(first + step, d))
        size = np.abs(scaled.T @ left[:, some])  # (d, k): of u with what is left of v
        size[rank[:, None] >= rank[some]] = 0.0
        u, k = np.nonzero(size > 2 / np.sqrt(n))
        codes = u * d + some[k]
        new = ~np.isin(codes, present)
        values = np.concatenate([best[0], size[u, k][new]])
        codes = np.concatenate([best[1], codes[new]])
        top = np.argsort(-values, kind="stable")[:extra]
        best = values[top], codes[top]
    u, v = np.divmod(best[1], d)
    added = sp.csc_array((np.ones(len(u)), (u, v)), shape=(d, d))
    return _parents_of(sp.csc_array(dag.weights.astype(bool).astype(float) + added))
