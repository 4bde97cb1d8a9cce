"""How good an estimate is: against a true DAG, or on data it has not seen (section 4.2).

An estimate or a truth is a `DAG`, a sparse or a dense matrix of weights. A truth must be acyclic.
Two DAGs with the same set of names are matched by name; matrices, and a DAG without names of its
own against one with other names, by place. The diagonal of an estimate is ignored. All counts come
from the arcs; no d x d array is made.

Shares of nothing are defined so that an estimate without fault scores without fault: with no true
arcs ``fnr`` is 0 and ``recall`` 1, with no predicted arcs ``precision`` is 1, with neither ``f1``
is 1. Average precision with no true arcs is 0, as in scikit-learn.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csc_array

from bigdag.engine.order import rank_of
from bigdag.errors import DataWarning, ParameterError, missing_extra
from bigdag.evaluation.sortability import r2_sortability, var_sortability
from bigdag.graph import equivalence
from bigdag.graph.acyclic import is_acyclic
from bigdag.graph.align import (
    Graph,
    as_dag,
    matched,
    matched_dags,
    on_columns,
    places,
    samples,
    weights_of,
)
from bigdag.graph.dag import DAG

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ArcMetrics",
    "arc_metrics",
    "average_precision",
    "calibration",
    "cpdag",
    "evaluate",
    "gaussian_nll",
    "order_errors",
    "parent_aid",
    "r2_sortability",
    "shd_cpdag",
    "threshold_curve",
    "var_sortability",
]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_AID_LIMIT = 2000  # variables up to which `evaluate` asks for parent_aid: its time grows as d² m
_BLOCK = 1 << 22  # numbers in a block of residuals (32 MB)


@dataclass(frozen=True)
class ArcMetrics:
    """Counts and rates of the arcs above a threshold.

    Attributes
    ----------
    threshold : float
        Arcs with an absolute weight above it are predicted.
    tp, fp, fn : int
        Predicted and true, predicted and not true, true and not predicted arcs (undirected: pairs).
    reversed : int
        True arcs predicted the other way round only; each is also one `fp` and one `fn`.
    shd : int
        Structural Hamming distance: pairs of variables on which the two graphs differ, so that a
        reversed arc counts once.
    shd_normalised : float
        `shd` divided by the number of variables.
    fnr, fpr : float
        fn / true arcs, and fp / possible arcs that are not true: of d (d - 1), undirected half.
    precision, recall, f1 : float
        tp / predicted arcs, tp / true arcs, and their harmonic mean.
    """

    threshold: float
    tp: int
    fp: int
    fn: int
    reversed: int
    shd: int
    shd_normalised: float
    fnr: float
    fpr: float
    precision: float
    recall: float
    f1: float


def arc_metrics(
    estimate: Graph, truth: Graph, threshold: float = 0.0, directed: bool = True
) -> ArcMetrics:
    """Compare the arcs of an estimate above a threshold with the true ones.

    Parameters
    ----------
    estimate, truth : DAG, sparse or dense matrix
        The estimate may have cycles.
    threshold : float
        Arcs with an absolute weight above it are predicted. At least 0.
    directed : bool
        False compares which pairs are connected, whatever the direction.

    Returns
    -------
    ArcMetrics

    Examples
    --------
    >>> truth = [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    >>> found = arc_metrics([[0, 0.9, 0], [0, 0, 0], [0, 0.8, 0]], truth, threshold=0.3)
    >>> found.tp, found.fp, found.reversed, found.shd
    (1, 1, 1, 1)
    """
    columns = _count(_Scores(estimate, truth, directed), [threshold])
    return ArcMetrics(**{name: values[0].item() for name, values in columns.items()})


def threshold_curve(
    estimate: Graph, truth: Graph, thresholds: ArrayLike, directed: bool = True
) -> pd.DataFrame:
    """Compute `arc_metrics` at many thresholds in one pass over the arcs.

    Parameters
    ----------
    estimate, truth : DAG, sparse or dense matrix
        The estimate may have cycles.
    thresholds : array of shape (t,)
        Each at least 0.
    directed : bool
        False compares which pairs are connected, whatever the direction.

    Returns
    -------
    DataFrame
        One row for each threshold, in the order given; the columns are those of `ArcMetrics`.

    Examples
    --------
    >>> truth = [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    >>> curve = threshold_curve([[0, 0.9, 0.2], [0, 0, 0.4], [0, 0, 0]], truth, [0, 0.3, 0.6])
    >>> curve[["threshold", "tp", "fp", "shd"]].values.tolist()
    [[0.0, 2.0, 1.0, 1.0], [0.3, 2.0, 0.0, 0.0], [0.6, 1.0, 0.0, 1.0]]
    """
    import pandas as pd

    return pd.DataFrame(_count(_Scores(estimate, truth, directed), thresholds))


def average_precision(
    estimate: Graph, truth: Graph, directed: bool = True, by: str = "auto"
) -> float:
    """Area under the precision-recall curve over all thresholds, computed from the arcs.

    Parameters
    ----------
    estimate, truth : DAG, sparse or dense matrix
        The estimate may have cycles. The score of an arc is the absolute value in a matrix; for a
        DAG it is what `by` says.
    directed : bool
        False scores a pair of variables by the larger score of its two directions.
    by : str
        What ranks the arcs of a DAG, as for `DAG.ranking`: "auto" takes their probability where a
        bootstrap has found one, direction and evidence for the answer of a search by the BIC, else
        the absolute weight; "weight" takes the weight in any case.

    Returns
    -------
    float
        What ``sklearn.metrics.average_precision_score`` returns for the d x d entries of the two
        adjacency matrices (undirected: of the symmetric ones), the diagonal and all absent arcs
        at score 0. It is 0 when there are no true arcs.

    Examples
    --------
    >>> truth = [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    >>> average_precision([[0, 0.9, 0.5], [0, 0, 0.4], [0, 0, 0]], truth)
    0.8333333333333333
    """
    scores = _Scores(estimate, truth, directed, by)
    if scores.n_true == 0:
        return 0.0
    descending = np.argsort(-scores.predicted, kind="stable")
    hits = np.cumsum(scores.is_true[descending])
    # Equal scores enter together: only the last of each run is a point of the curve.
    last = np.flatnonzero(np.diff(scores.predicted[descending], append=-1.0))
    precision, recall = hits[last] / (last + 1.0), hits[last] / scores.n_true
    area = np.sum(np.diff(recall, prepend=0.0) * precision)
    # All that is left ties at score 0: the final point has recall 1, precision = share of true.
    missed = 1.0 - (hits[-1] / scores.n_true if hits.size else 0.0)
    entries = scores.d**2 if directed else scores.d**2 / 2
    return float(area + missed * scores.n_true / entries)


def calibration(
    estimate: Graph, truth: Graph, bins: int = 10, directed: bool = True
) -> pd.DataFrame:
    """Tell how many of the arcs with a probability are true, by that probability.

    Parameters
    ----------
    estimate : DAG, sparse or dense matrix
        Probabilities from 0 to 1: a matrix, such as `edge_prob_` of a `BootstrapDAG`, or a DAG
        whose arcs have a "probability" (undirected: an "adjacency").
    truth : DAG, sparse or dense matrix
        Acyclic.
    bins : int
        Equal parts of 0 to 1. A value between two of them belongs to the upper one.
    directed : bool
        False takes pairs of variables; the probabilities of both directions of a matrix add up.

    Returns
    -------
    DataFrame
        One row for each part with arcs in it: low and high, the count of the arcs, the mean of
        their probability, and the share that is true. Arcs of probability 0 are left out.

    Examples
    --------
    >>> calibration([[0, 0.9, 0.2], [0, 0, 0.8], [0, 0, 0]], [[0, 1, 0], [0, 0, 1], [0, 0, 0]])
       low  high  count  probability  true
    0  0.2   0.3      1          0.2   0.0
    1  0.8   0.9      1          0.8   1.0
    2  0.9   1.0      1          0.9   1.0
    """
    import pandas as pd

    if not (isinstance(bins, int) and bins >= 1):
        raise ParameterError(f"bins must be a whole number of at least 1. Got {bins!r} instead.")
    found, dag = matched(estimate, truth)
    if isinstance(found, DAG):
        column = next(
            (c for c in (["probability"] if directed else ["adjacency", "probability"])
             if c in found.arc_data), None,
        )  # fmt: skip
        if column is None:
            raise ParameterError(
                "Calibration needs a DAG whose arcs have a probability, as from BootstrapDAG or "
                "`bigdag fit --bootstrap`. Got one without."
            )
        arcs, values = found.weights.tocoo(), found.arc_data[column]
    else:
        arcs = found.tocoo()
        values = arcs.data
    codes, place = np.unique(_codes(arcs, directed), return_inverse=True)
    values = np.bincount(place.reshape(-1), values, minlength=len(codes))
    if np.any((values < 0) | (values > 1 + 1e-9)):
        raise ParameterError(
            f"Probabilities must be from 0 to 1. Got values from {values.min():g} to "
            f"{values.max():g}."
        )
    is_true = np.isin(codes, _codes(dag.weights.tocoo(), directed))[values > 0]
    values = values[values > 0]
    # A share such as 0.3 that missed its bin's edge by rounding belongs to it.
    part = np.minimum(np.floor(values * bins + 1e-9).astype(np.int64), bins - 1)
    counts = np.bincount(part, minlength=bins)
    some = np.flatnonzero(counts)
    return pd.DataFrame({
        "low": some / bins,
        "high": (some + 1) / bins,
        "count": counts[some],
        "probability": np.bincount(part, values, minlength=bins)[some] / counts[some],
        "true": np.bincount(part, is_true, minlength=bins)[some] / counts[some],
    })  # fmt: skip


def gaussian_nll(estimate: Graph, train: Any, validation: Any, variance: str = "EV") -> float:
    """Gaussian negative log-likelihood of validation data, per sample.

    Parameters
    ----------
    estimate : DAG, sparse or dense matrix
        Acyclic. The variables of a DAG are matched to columns of the same names by name.
    train, validation : table
        An array, a data frame or a `Dataset`, (n, d). The means and the noise variances come from
        `train`, the likelihood from `validation`.
    variance : {"EV", "NV"}
        One noise variance for all variables, or one for each: mean squares of the residuals of
        the training data.

    Returns
    -------
    float
        Natural logarithm, with the constant d / 2 log(2 pi), mean over the validation samples.
        NaN, with a `DataWarning`, where the training data leave a variable no residual.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> X[:, 1] += X[:, 0]
    >>> round(gaussian_nll([[0, 1.0], [0, 0]], X[:1000], X[1000:]), 1)  # log(2 pi e) in theory
    2.8
    """
    if variance not in ("EV", "NV"):
        raise ParameterError(f"variance must be 'EV' or 'NV'. Got {variance!r} instead.")
    (known, X_known), (unseen, X_unseen) = samples(train), samples(validation)
    dag = on_columns(estimate, known)
    # Columns without names have those of the DAG.
    wanted = dag if dag.named else known
    place = places(unseen.names, unseen.named, wanted.names, wanted.named, "validation data")
    weights, noise = dag.weights, _mean_squares(X_known, dag.weights)
    # Below this, a residual is rounding error: the column is constant or fitted exactly.
    least = 1e-28 * (np.einsum("ij,ij->j", X_known, X_known) / known.n_samples + known.mean**2)
    if variance == "EV":
        noise, least = np.full_like(noise, noise.mean()), np.full_like(least, least.mean())
    if np.any(noise <= least):
        warnings.warn(
            "The likelihood is not defined (NaN): the training data leave no residual for "
            f"variable {known.names[int(np.argmax(noise <= least))]!r}. Leave it out, or use "
            "fewer arcs or more samples.",
            DataWarning,
            stacklevel=2,
        )
        return float("nan")
    # Centring removed the means of the validation data; their offset is added back.
    offset = unseen.mean[place] - known.mean
    if np.any(np.diff(place) < 0):
        X_unseen = X_unseen[:, place]
    squares = _mean_squares(X_unseen, weights)
    squares += np.square(offset - offset @ weights)
    return float(0.5 * np.sum(np.log(2 * np.pi * noise) + squares / noise))


def order_errors(order: ArrayLike, truth: Graph) -> float:
    """Share of the true arcs that an order puts the wrong way round.

    Parameters
    ----------
    order : array of shape (d,)
        Indices of all variables, causes first.
    truth : DAG, sparse or dense matrix
        Acyclic.

    Returns
    -------
    float
        0 for an order of the truth, about 0.5 for a random one; 0 when there are no true arcs.

    Examples
    --------
    >>> order_errors([2, 0, 1], [[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    0.5
    """
    arcs = as_dag(truth).weights.tocoo()
    nodes = np.asarray(order)
    if nodes.ndim != 1 or not np.array_equal(np.sort(nodes), np.arange(arcs.shape[0])):
        raise ParameterError(
            f"order must hold each of the indices 0 to {arcs.shape[0] - 1} once. "
            f"Got an array of shape {nodes.shape} that does not."
        )
    rank = rank_of(nodes.astype(np.int64))
    return float(np.mean(rank[arcs.row] > rank[arcs.col])) if arcs.nnz else 0.0


def cpdag(dag: Graph) -> csc_array:
    """Completed partially directed graph: what all Markov equivalent DAGs have in common.

    Parameters
    ----------
    dag : DAG, sparse or dense matrix
        Acyclic.

    Returns
    -------
    csc_array of shape (d, d)
        1 at (i, j) alone where every equivalent DAG has i → j; 1 at (i, j) and (j, i) where
        some have the one and some the other.

    Examples
    --------
    >>> cpdag([[0, 1, 0], [0, 0, 1], [0, 0, 0]]).toarray()
    array([[0, 1, 0],
           [1, 0, 1],
           [0, 1, 0]], dtype=int8)
    """
    graph = as_dag(dag)
    return equivalence.cpdag(graph.weights, graph.order)


def shd_cpdag(estimate: Graph, truth: Graph) -> int:
    """Structural Hamming distance between the CPDAGs of two DAGs.

    Parameters
    ----------
    estimate, truth : DAG, sparse or dense matrix
        Both acyclic.

    Returns
    -------
    int
        Pairs of variables on which the two CPDAGs differ; 0 for Markov equivalent DAGs.

    Examples
    --------
    >>> shd_cpdag([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    0
    """
    dag, true = matched_dags(estimate, truth)
    found, wanted = (_codes(cpdag(graph).tocoo(), True) for graph in (dag, true))
    lower, upper = np.divmod(np.setxor1d(found, wanted), true.n_nodes)
    pairs = np.minimum(lower, upper) * true.n_nodes + np.maximum(lower, upper)
    return len(np.unique(pairs))


def parent_aid(estimate: Graph, truth: Graph) -> float:
    """Parent adjustment identification distance (Henckel et al. 2024), by the package gadjid.

    Parameters
    ----------
    estimate, truth : DAG, sparse or dense matrix
        Both acyclic.

    Returns
    -------
    float
        Share of the ordered pairs of variables whose causal effect comes out wrong when it is
        adjusted for the parents in the estimate.

    Raises
    ------
    MissingExtraError
        If gadjid is not installed.

    Examples
    --------
    >>> parent_aid([[0, 1], [0, 0]], [[0, 1], [0, 0]])
    0.0
    """
    try:
        import gadjid
    except ImportError:
        raise missing_extra("gadjid", "distances", "parent_aid") from None
    dag, true = matched_dags(estimate, truth)
    if true.n_nodes < 2:
        return 0.0
    parts = (
        (np.ones(w.nnz, np.int8), w.indices.astype(np.int32), w.indptr.astype(np.int32))
        for w in (true.weights, dag.weights)  # gadjid reads 32-bit indices only
    )
    matrices = [csc_array(part, shape=true.weights.shape) for part in parts]
    return float(gadjid.parent_aid(*matrices, edge_direction="from row to column")[0])


def evaluate(
    estimate: Graph,
    truth: Graph,
    *,
    train: Any = None,
    validation: Any = None,
    threshold: float = 0.3,
) -> dict[str, float]:
    """Compute every metric that the given arguments allow.

    Parameters
    ----------
    estimate, truth : DAG, sparse or dense matrix
        The estimate may have cycles.
    train, validation : table, optional
        For the likelihoods. Without `train`, means and noise variances are those of `validation`.
    threshold : float
        Everything but average precision and `order_errors` is of the arcs with an absolute weight
        above it.

    Returns
    -------
    dict of str to float
        ``average_precision`` (by `DAG.ranking`), the fields of `ArcMetrics`, all these once more
        with the prefix ``undirected_``; ``order_errors`` (for a `DAG`), ``shd_cpdag``,
        ``parent_aid`` (where gadjid is installed, up to 2000 variables), ``nll_ev`` and ``nll_nv``
        (with data). The last four need a DAG: they are left out while arcs above the threshold
        form cycles.

    Examples
    --------
    >>> from bigdag import simulate
    >>> truth = simulate.random_dag(20, 1, rng=0)
    >>> result = evaluate(truth, truth)
    >>> result["average_precision"], result["shd"], result["order_errors"]
    (1.0, 0, 0.0)
    """
    result: dict[str, float] = {}
    for prefix, directed in (("", True), ("undirected_", False)):
        result[f"{prefix}average_precision"] = average_precision(estimate, truth, directed)
        rates = asdict(arc_metrics(estimate, truth, threshold, directed))
        result |= {f"{prefix}{name}": value for name, value in rates.items()}
    del result["undirected_threshold"], result["undirected_reversed"]
    if isinstance(estimate, DAG):
        result["order_errors"] = order_errors(matched(estimate, truth)[0].order, truth)
    kept = estimate.weights if isinstance(estimate, DAG) else weights_of(estimate)
    kept = csc_array(kept.multiply(abs(kept) > threshold))
    if not is_acyclic(kept):
        return result
    # A DAG again, because its names say which variable is which; a matrix is matched by place.
    dag = DAG(kept, estimate.names) if isinstance(estimate, DAG) else kept
    result["shd_cpdag"] = shd_cpdag(dag, truth)
    if kept.shape[0] <= _AID_LIMIT and find_spec("gadjid") is not None:
        result["parent_aid"] = parent_aid(dag, truth)
    if validation is not None:
        seen = validation if train is None else train
        result["nll_ev"] = gaussian_nll(dag, seen, validation, "EV")
        result["nll_nv"] = gaussian_nll(dag, seen, validation, "NV")
    return result


class _Scores:
    """The scores of all predicted arcs (undirected: pairs), sorted into what they are.

    Attributes are `d`, the number of true arcs `n_true`, the scores of the `predicted` arcs and
    which of them `is_true`; then, for pairs of arcs, the scores of predicted arcs `against` a true
    one, and the lesser score of pairs predicted both ways, `both_true` and `both_false`, by whether
    a true arc joins them.
    """

    def __init__(self, estimate: Graph, truth: Graph, directed: bool, by: str = "weight") -> None:
        weights, dag = matched(estimate, truth)
        arcs = (weights.weights if isinstance(weights, DAG) else weights).tocoo()
        self.d, self.n_true = dag.n_nodes, dag.n_arcs
        score = weights.ranking(by, directed) if isinstance(weights, DAG) else np.abs(arcs.data)
        codes = _codes(arcs, directed)
        if not directed:
            # The larger score of a pair comes first, and is the one kept.
            first = np.lexsort((-score, codes))
            first = first[np.diff(codes[first], prepend=-1) > 0]
            codes, score = codes[first], score[first]
        true = _codes(dag.weights.tocoo(), directed)
        self.predicted, self.is_true = score, np.isin(codes, true)
        self.against = self.both_true = self.both_false = np.empty(0)
        if directed:
            turned = codes % self.d * self.d + codes // self.d
            is_against = np.isin(turned, true)
            self.against = score[is_against]
            place = np.argsort(codes)
            found = place[np.searchsorted(codes, turned, sorter=place) % max(len(codes), 1)]
            twice = (codes[found] == turned) & (codes < turned)
            least = np.minimum(score, score[found])
            joined = self.is_true | is_against
            self.both_true, self.both_false = least[twice & joined], least[twice & ~joined]
        self.n_possible = self.d * (self.d - 1) // (1 if directed else 2)


def _count(scores: _Scores, thresholds: ArrayLike) -> dict[str, NDArray[Any]]:
    """Return the columns of `ArcMetrics`, one row for each threshold."""
    t = np.atleast_1d(np.asarray(thresholds, dtype=np.float64))
    if t.ndim != 1 or not np.all((t >= 0) & np.isfinite(t)):
        raise ParameterError(
            f"A threshold must be a finite number, at least 0. Got {thresholds!r} instead."
        )

    def above(values: Floats) -> Ints:
        return values.size - np.searchsorted(np.sort(values), t, side="right")

    def share(part: NDArray[Any], whole: Any, of_nothing: float) -> Floats:
        whole = np.broadcast_to(whole, part.shape)
        return np.divide(part, whole, out=np.full(t.shape, of_nothing), where=whole > 0)

    n_predicted, tp = above(scores.predicted), above(scores.predicted[scores.is_true])
    fp, fn = n_predicted - tp, scores.n_true - tp
    turned = above(scores.against) - above(scores.both_true)
    # A pair wrong in both directions, turned or predicted both ways for nothing, counts once.
    shd = fp + fn - turned - above(scores.both_false)
    return {
        "threshold": t,
        "tp": tp,
        "fp": fp,
        "fn": fn,
        "reversed": turned,
        "shd": shd,
        "shd_normalised": shd / max(scores.d, 1),
        "fnr": share(fn, scores.n_true, 0.0),
        "fpr": share(fp, scores.n_possible - scores.n_true, 0.0),
        "precision": share(tp, n_predicted, 1.0),
        "recall": share(tp, scores.n_true, 1.0),
        "f1": share(2 * tp, n_predicted + scores.n_true, 1.0),
    }


def _codes(arcs: coo_array, directed: bool) -> Ints:
    """One number for each arc, the same for both directions if not `directed`."""
    row, col = arcs.row.astype(np.int64), arcs.col.astype(np.int64)
    if not directed:
        row, col = np.minimum(row, col), np.maximum(row, col)
    return row * arcs.shape[0] + col


def _mean_squares(X: Floats, weights: csc_array) -> Floats:
    """Mean square of each column of X - X W, some columns at a time."""
    n, d = X.shape
    columns, step = X.T, max(1, _BLOCK // n)  # (d, n), contiguous
    squares = np.empty(d)
    for start in range(0, d, step):
        part = slice(start, min(start + step, d))
        residuals = columns[part] - weights[:, part].T @ columns
        squares[part] = np.einsum("ij,ij->i", residuals, residuals) / n
    return squares
