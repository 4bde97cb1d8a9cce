"""What many resamples say together: probabilities, the consensus, and effects with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from bigdag.engine.local_fdr import (
    FEWEST_RESAMPLES,
    probability_by_count,
    probability_of_direction,
)
from bigdag.errors import ParameterError
from bigdag.graph.consensus import Answer, Tally, agreement, entries_at, tally
from bigdag.graph.dag import DAG
from bigdag.knowledge import Knowledge, limits_of
from bigdag.learners.base import marked
from bigdag.learners.fitted import FittedModel
from bigdag.learners.parameters import Number
from bigdag.model.linear import LinearModel, refitted_weights, residual_variances

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from bigdag.data.dataset import Dataset

__all__ = ["EffectInterval", "ResampledModel"]

# Of the statistic of a pair without an arc. With few samples it has longer tails than a normal
# number, and what is there is estimated from few counts, which takes some of chance for it.
_DEVIATION = 1.03


class EffectInterval(NamedTuple):
    """A total effect over the resamples.

    Attributes
    ----------
    mean : float
        Over all resamples, those without an effect included.
    low, high : float
        The quantiles between which the given share of the resamples lies.
    probability : float
        The share of the resamples with an effect.
    """

    mean: float
    low: float
    high: float
    probability: float


class ResampledModel(FittedModel):
    """What a fitted bootstrap can be asked; its fit sets the resamples and calls ``_finish``."""

    _parameters: ClassVar[dict[str, Any]]
    threshold: float
    direction_threshold: float
    feature_fraction: float
    _answers: dict[int, Answer]
    _seed: int

    # -------------------------------------------------------------- the consensus

    def _finish(self, data: Dataset, knowledge: Knowledge | None, arc_cost: float | None) -> None:
        """Set the learnt attributes from the resamples.

        `arc_cost` is what an arc cost in the extended BIC, where that was the criterion.
        """
        numbers = sorted(self._answers)
        answers = [self._answers[k] for k in numbers]
        self.resamples_ = [answer.weights for answer in answers]
        self.n_resamples_ = self.n_iter_ = len(answers)
        self.seed_ = self._seed
        self._tally = tally(answers, data.n_features)
        self.edge_freq_ = self._tally.probability
        self.adjacency_freq_ = sp.csc_array(self.edge_freq_ + self.edge_freq_.T)
        self._limits = limits_of(knowledge, data)
        self.adjacency_prob_ = self.adjacency_freq_.copy()
        # Whether probabilities are more than the shares of the resamples.
        self._weighs_chance = arc_cost is not None and self.n_resamples_ >= FEWEST_RESAMPLES
        if self._weighs_chance:
            assert arc_cost is not None
            self.adjacency_prob_.data = self._probabilities(arc_cost)
        self.direction_prob_ = self._directions(self._weighs_chance)
        self.edge_prob_ = self.direction_prob_.copy()
        self.edge_prob_.data *= _entries(self.adjacency_prob_, self.direction_prob_)
        self.weight_se_ = self._tally.deviation
        self.means_ = data.mean
        self._variances = _variances(data)
        self._names = data.names if data.named else None
        dag = self._consensus(self.threshold, self.direction_threshold, data)
        self.noise_variances_ = residual_variances(data, dag.weights)
        dag = dag.annotated(
            node_data={"mean": self.means_, "noise_variance": self.noise_variances_},
            about=data.about,
        )
        self.dag_ = marked(dag, self._limits, knowledge)
        self.weights_, self.order_ = self.dag_.weights, self.dag_.order
        loose = self.dag_.reversible
        assert loose is not None
        arcs = self.weights_.astype(bool).astype(np.int8)
        self.cpdag_ = sp.csc_array(arcs + loose.T.astype(np.int8))

    def _probabilities(self, arc_cost: float) -> NDArray[np.float64]:
        """Return the probability of each pair, where `adjacency_freq_` has how often it is joined.

        See :mod:`bigdag.engine.local_fdr`.
        """
        d, total = self.adjacency_freq_.shape[0], self.n_resamples_
        counts = np.rint(self.adjacency_freq_.data * total).astype(np.int64)
        pairs, required = d * (d - 1) // 2, np.zeros(len(counts), dtype=bool)
        if self._limits is not None:
            pairs = min(pairs, self._limits.count())
            known = self._limits.required.astype(np.float64)
            required = _entries(sp.csc_array(known + known.T), self.adjacency_freq_) > 0
        # Each pair is stored both ways; of those that are required nothing is to be found.
        found = np.bincount(counts[~required], minlength=total + 1) // 2
        chances = probability_by_count(
            found, float(np.sqrt(arc_cost)), pairs, self.feature_fraction, _DEVIATION
        )
        return np.where(required, 1.0, chances[counts])

    def _directions(self, telling: bool) -> sp.csc_array:
        """Return how probable i → j is where i and j are joined (d, d).

        See :func:`bigdag.engine.local_fdr.probability_of_direction`; where the resamples do not
        tell it is the share of those that join i and j.
        """
        found = self.adjacency_freq_.copy()
        share = _entries(self.edge_freq_, found)
        if not telling:
            found.data = share / found.data
            found.eliminate_zeros()
            return found
        total = self.n_resamples_
        found.data = probability_of_direction(total * share, total * found.data)
        if self._limits is not None:
            arcs = found.tocoo()
            i, j = arcs.row.astype(np.int64), arcs.col.astype(np.int64)
            found.data[~self._limits.pairs(j, i) | self._limits.requires(i, j)] = 1.0
            found.data[~self._limits.pairs(i, j) | self._limits.requires(j, i)] = 0.0
            found.eliminate_zeros()
        return found

    def _consensus(
        self, threshold: float, direction_threshold: float, data: Dataset | None = None
    ) -> DAG:
        """Return what the resamples agree on, with the weights of least squares on the data.

        Without the data, with the means over the resamples: where these have other parents beside
        an arc's, that is not its weight in this graph.
        """
        found = agreement(
            self.edge_prob_, threshold, direction_threshold, self._tally.count, self._limits
        )
        d = self.edge_prob_.shape[0]
        ends = found.source, found.target

        def matrix(values: NDArray[Any]) -> sp.csc_array:
            return sp.csc_array((values, ends), shape=(d, d))

        mean, error = self._weights_of(self._tally, *ends)
        weights = matrix(mean)
        if data is not None:
            weights = refitted_weights(data, weights)
        return DAG(
            weights,
            self._names,
            found.order,
            matrix(found.undirected),
            arc_data={
                "probability": entries_at(self.edge_prob_, *ends),
                "adjacency": entries_at(self.adjacency_prob_, *ends),
                "frequency": entries_at(self.edge_freq_, *ends),
                "weight_mean": mean,
                "weight_se": error,
            },
        )

    def _weights_of(
        self, counted: Tally, source: NDArray[np.int64], target: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean weights of arcs and their standard errors (m,).

        Where no resample has an arc this way round, its weight is that of the other way with the
        same covariance.
        """
        weight, error = (
            entries_at(part, source, target) for part in (counted.mean, counted.deviation)
        )
        unseen = entries_at(counted.count, source, target) == 0
        if unseen.any():
            i, j = source[unseen], target[unseen]
            varies = self._variances[i] > 0
            factor = np.divide(
                self._variances[j], self._variances[i], out=np.zeros(len(i)), where=varies
            )
            weight[unseen] = entries_at(counted.mean, j, i) * factor
            error[unseen] = entries_at(counted.deviation, j, i) * factor
        weight[weight == 0] = np.finfo(float).tiny  # an arc whose weights cancel stays one
        return weight, error

    # -------------------------------------------------------------- what a user asks

    def get_consensus_graph(
        self, threshold: float = 0.5, direction_threshold: float | None = None
    ) -> DAG:
        """Return what the resamples agree on, for another threshold than that of the fit.

        Parameters
        ----------
        threshold : float, default=0.5
            The least probability of a pair, both directions together.
        direction_threshold : float, optional
            As of the class; its own by default.

        Returns
        -------
        DAG
            With the data of arcs that `dag_` has. Its weights are means over the resamples, and its
            noise variances are not known: ``LinearModel.from_data(dag, X)`` finds both.
        """
        check_is_fitted(self)
        direction = self.direction_threshold if direction_threshold is None else direction_threshold
        for name, value in (("threshold", threshold), ("direction_threshold", direction)):
            if not self._parameters[name].allows(value):
                raise ParameterError(
                    f"{name} must be {self._parameters[name]}. Got {value!r} instead."
                )
        return self._consensus(threshold, direction).annotated(node_data={"mean": self.means_})

    def to_frame(self, min_prob: float = 0.0) -> pd.DataFrame:
        """Return every arc that some resample has, the most probable first.

        Parameters
        ----------
        min_prob : float, default=0.0
            The least probability of the pair, both directions together.

        Returns
        -------
        DataFrame
            source, target, probability (of this direction), adjacency (of the pair),
            direction_prob, frequency (in which share of the resamples the arc is), count (of
            the resamples' DAGs with the arc), and the mean of its weights and their standard
            deviation over these; NaN where there are too few.
        """
        import pandas as pd

        check_is_fitted(self)
        arcs = self.edge_freq_.tocoo()
        ends = arcs.row.astype(np.int64), arcs.col.astype(np.int64)
        counts = entries_at(self._tally.count, *ends)
        names = np.array(self.dag_.names, dtype=object)
        table = pd.DataFrame({
            "source": names[ends[0]],
            "target": names[ends[1]],
            "probability": entries_at(self.edge_prob_, *ends),
            "adjacency": entries_at(self.adjacency_prob_, *ends),
            "direction_prob": entries_at(self.direction_prob_, *ends),
            "frequency": arcs.data,
            "count": counts.astype(np.int64),
            "weight": np.where(counts > 0, entries_at(self._tally.mean, *ends), np.nan),
            "weight_se": np.where(counts > 1, entries_at(self._tally.deviation, *ends), np.nan),
        })  # fmt: skip
        sequence = np.lexsort((ends[1], ends[0], -table["frequency"], -table["probability"]))
        table = table.iloc[sequence]
        kept = table[table["adjacency"] >= min_prob - 1e-12]
        return kept.reset_index(drop=True)

    def get_causal_direction_counts(
        self,
        n_directions: int | None = None,
        min_causal_effect: float | None = None,
        split_by_causal_effect_sign: bool = False,
    ) -> dict[str, list[int]]:
        """Return how many of the resamples' DAGs have each arc, as lingam's bootstrap does.

        Parameters
        ----------
        n_directions : int, optional
            Only so many, the most frequent ones.
        min_causal_effect : float, optional
            Only weights that are larger, in absolute value, are counted.
        split_by_causal_effect_sign : bool, default=False
            Whether to count positive and negative weights apart.

        Returns
        -------
        dict
            Lists "from", "to" (indices of variables) and "count", and "sign" where split; the most
            frequent first.

        Examples
        --------
        >>> from bigdag import BootstrapDAG
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> X[:, 1] += 2 * X[:, 0]
        >>> model = BootstrapDAG(n_resamples=8, random_state=0).fit(X)
        >>> sum(model.get_causal_direction_counts()["count"])
        8
        """
        check_is_fitted(self)
        if not Number(1, whole=True, none=True).allows(n_directions):
            raise ParameterError(
                f"n_directions must be an integer >= 1, or None. Got {n_directions!r} instead."
            )
        if not Number(0, none=True).allows(min_causal_effect):
            raise ParameterError(
                f"min_causal_effect must be a number >= 0, or None. Got {min_causal_effect!r}."
            )
        least = 0.0 if min_causal_effect is None else min_causal_effect
        d = self.edge_prob_.shape[0]
        codes = []
        for weights in self.resamples_:
            arcs = weights.tocoo()
            large = np.abs(arcs.data) > least
            sign = (arcs.data > 0).astype(np.int64) if split_by_causal_effect_sign else 0
            codes.append((2 * (arcs.row.astype(np.int64) * d + arcs.col) + sign)[large])
        found, counts = np.unique(np.concatenate(codes), return_counts=True)
        sequence = np.argsort(-counts, kind="stable")[:n_directions]
        places, signs = np.divmod(found[sequence], 2)
        result = {
            "from": (places // d).tolist(),
            "to": (places % d).tolist(),
            "count": counts[sequence].tolist(),
        }
        if split_by_causal_effect_sign:
            result["sign"] = np.where(signs > 0, 1, -1).tolist()
        return result

    def total_effect_interval(
        self, cause: str | int, effect: str | int, level: float = 0.9
    ) -> EffectInterval:
        """Return the total effect of one variable on another over the resamples.

        Where a resample leaves a direction open, its DAG has one of the two, as its random start
        happened to find it; the interval is that wide, too.

        Parameters
        ----------
        cause, effect : str or int
            Names or indices.
        level : float, default=0.9
            The share of the resamples between the two ends.

        Examples
        --------
        >>> from bigdag import BootstrapDAG, OrderSearch
        >>> X = np.random.default_rng(0).normal(size=(500, 2))
        >>> X[:, 1] += 2 * X[:, 0]
        >>> model = BootstrapDAG(OrderSearch(), n_resamples=20, random_state=0).fit(X)
        >>> found = model.total_effect_interval(0, 1)
        >>> 1.7 < found.low < found.mean < found.high < 2.1
        True
        """
        target = self.dag_._index(effect)
        values = self._totals(cause)[:, target]
        low, high = np.quantile(values, _ends(level))
        return EffectInterval(
            float(values.mean()), float(low), float(high), float(np.mean(values != 0))
        )

    def effect_intervals(self, cause: str | int, level: float = 0.9) -> pd.DataFrame:
        """Return the total effects of one variable on all that it affects in some resample.

        Parameters
        ----------
        cause : str or int
            Name or index.
        level : float, default=0.9
            As for :meth:`total_effect_interval`.

        Returns
        -------
        DataFrame
            effect, mean, low, high and probability, the most probable first.
        """
        import pandas as pd

        values = self._totals(cause)
        values[:, self.dag_._index(cause)] = 0.0
        some = np.flatnonzero(values.any(axis=0))
        values = values[:, some]
        low, high = np.quantile(values, _ends(level), axis=0)
        table = pd.DataFrame({
            "effect": np.array(self.dag_.names, dtype=object)[some],
            "mean": values.mean(axis=0), "low": low, "high": high,
            "probability": (values != 0).mean(axis=0),
        })  # fmt: skip
        sequence = np.lexsort((-table["mean"].abs(), -table["probability"]))
        return table.iloc[sequence].reset_index(drop=True)

    def _totals(self, cause: str | int) -> NDArray[np.float64]:
        """Return the total effects of a variable on all, by resample (n_resamples_, d)."""
        check_is_fitted(self)
        source = self.dag_._index(cause)
        return np.array([LinearModel(DAG(W))._totals(source) for W in self.resamples_])

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return the mean Gaussian log-likelihood of samples under the consensus."""
        return self._checked_model(X).score(X)


def _variances(data: Dataset) -> NDArray[np.float64]:
    """Return the variance of each variable (d,)."""
    if data.X is not None:
        return np.asarray(np.einsum("ij,ij->j", data.X, data.X) / data.n_samples)
    assert data.covariance is not None
    return np.diagonal(data.covariance)


def _ends(level: float) -> list[float]:
    if not Number(0, 1, above=True).allows(level):
        raise ParameterError(f"level must be a number > 0 and <= 1. Got {level!r} instead.")
    return [(1 - level) / 2, (1 + level) / 2]


def _entries(matrix: sp.csc_array, like: sp.csc_array) -> NDArray[np.float64]:
    """Return the entries of a matrix where another one has them."""
    arcs = like.tocoo()
    return entries_at(matrix, arcs.row, arcs.col)
