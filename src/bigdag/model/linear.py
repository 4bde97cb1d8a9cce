"""The linear Gaussian model on a DAG: ``x - mean = (x - mean) W + noise``, each noise on its own.

It is what a learner has fitted, and what a file of its DAG holds, so that it can be used without
the learner. Nothing here makes a dense matrix of all pairs of variables: everything comes from
sparse systems in ``I - W``, which is triangular in the causal order.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from bigdag.data.convert import matrix_of
from bigdag.data.dataset import Dataset, as_dataset
from bigdag.errors import DataError, GraphError, ParameterError, few_names
from bigdag.graph.align import on_columns, places
from bigdag.graph.dag import DAG
from bigdag.model.effects import effects_of, possible_effects_of
from bigdag.model.missing import filled_in
from bigdag.model.scale import SCALE, require_scale

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "LinearModel",
    "as_matrix",
    "least_squares",
    "refitted_weights",
    "residual_variances",
]

_LEAST_NOISE = 1e-12  # of a variable's variance, where a perfect fit leaves rounding
_BLOCK = 1 << 22  # numbers worked on at a time


class LinearModel:
    """A linear Gaussian model: a DAG, the mean and the noise variance of each variable.

    Learners have one in ``model_``, and pass its methods on.

    Parameters
    ----------
    dag : DAG
        The arcs and their weights.
    means : array of shape (d,), optional
        By default those in the `node_data` of the DAG ("mean"), or zeros.
    noise_variances : array of shape (d,), optional
        What the parents leave of each variable. By default those in the `node_data` of the DAG
        ("noise_variance"). Where they are not known, total effects along directed arcs and
        predictions can be had without them.

    Attributes
    ----------
    dag : DAG
        With the means and the noise variances in its `node_data`.
    means : ndarray of shape (d,)
        The means.
    noise_variances : ndarray of shape (d,) or None
        The noise variances.

    Examples
    --------
    >>> dag = DAG([[0, 2.0, 0], [0, 0, 3.0], [0, 0, 0]], names=["rain", "river", "flood"])
    >>> model = LinearModel(dag, means=[1.0, 2.0, 6.0], noise_variances=[1.0, 0.5, 0.5])
    >>> model.total_effect("rain", "flood")
    6.0
    >>> model.predict(pd.DataFrame({"rain": [2.0], "river": [4.0], "flood": [9.0]}))
       rain  river  flood
    0   1.0    4.0   12.0
    >>> model.impute(pd.DataFrame({"rain": [2.0], "river": [np.nan], "flood": [np.nan]}))
       rain  river  flood
    0   2.0    4.0   12.0
    """

    def __init__(self, dag: DAG, means: Any = None, noise_variances: Any = None) -> None:
        if not isinstance(dag, DAG):
            raise ParameterError(f"A model needs a DAG. Got {type(dag).__name__} instead.")
        given = {"mean": means, "noise_variance": noise_variances}
        given = {name: values for name, values in given.items() if values is not None}
        self.dag = dag.annotated(node_data=given) if given else dag
        known = self.dag.node_data
        self.means = known.get("mean", np.zeros(dag.n_nodes))
        self.noise_variances: NDArray[np.float64] | None = known.get("noise_variance")
        if not np.isfinite(self.means).all():
            raise GraphError("The means must be finite. Some are NaN or infinite.")
        noise = self.noise_variances
        if noise is not None and not (np.isfinite(noise) & (noise >= 0)).all():
            raise GraphError("The noise variances must be finite and not negative.")

    def __repr__(self) -> str:
        noise = "" if self.noise_variances is not None else ", without noise variances"
        return f"LinearModel({self.dag.n_nodes} variables, {self.dag.n_arcs} arcs{noise})"

    @classmethod
    def from_data(cls, dag: DAG, X: Any, refit: bool = True) -> LinearModel:
        """Fit the model of a DAG to a table: each variable by least squares on its parents.

        Parameters
        ----------
        dag : DAG
            The arcs; variables and columns are matched by name.
        X : array, data frame or Dataset of shape (n, d)
            Samples. The model is on their scale, whatever the DAG was learnt from.
        refit : bool, default=True
            False keeps the weights of the DAG, and takes means and noise variances alone.

        Examples
        --------
        >>> from bigdag import simulate
        >>> truth = DAG([[0, 2.0], [0, 0]])
        >>> X = simulate.sample(truth, 2000, rng=0)
        >>> LinearModel.from_data(DAG([[0, 1.0], [0, 0]]), X).dag.weights.data.round(1)
        array([2.])
        """
        data = as_dataset(X)
        if data.X is None:
            raise DataError("A model is fitted to samples. Got a covariance matrix alone.")
        dag = on_columns(dag, data)
        if not refit:
            require_scale(dag.about, data)
        else:
            weights = refitted_weights(data, dag.weights)
            about = {key: value for key, value in dag.about.items() if key not in SCALE}
            dag = DAG(
                weights, dag.names, dag.order, dag.reversible,
                arc_data=dag.arc_data, node_data=dag.node_data, about={**about, **data.about},
            )  # fmt: skip
        return cls(dag, data.mean, residual_variances(data, dag.weights))

    def save(self, path: str | os.PathLike[str], force: bool = False) -> None:
        """Write the model to a file: the DAG, with means and noise variances.

        Parameters
        ----------
        path : path-like
            As for :meth:`DAG.save`; the suffix names the format.
        force : bool, default=False
            Overwrite a file that exists.

        Examples
        --------
        >>> import tempfile
        >>> model = LinearModel(DAG([[0, 2.0], [0, 0]]), [1.0, 2.0], [1.0, 0.5])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.parquet")
        ...     LinearModel.load(f"{folder}/model.parquet").means
        array([1., 2.])
        """
        known = {"mean": self.means}
        if os.fspath(path).lower().endswith(".dot"):
            raise ParameterError(f"A .dot file cannot be read back. Got {path}; use .parquet.")
        self.dag.annotated(node_data=known).save(path, force)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], memory_limit: float | str | None = None
    ) -> LinearModel:
        """Read a model from a file that `save`, or ``bigdag fit``, wrote.

        Parameters
        ----------
        path : path-like
            The file.
        memory_limit : float or str, optional
            As for :meth:`DAG.load`.

        Raises
        ------
        DataError
            If the file holds no DAG, or one without noise variances.
        """
        dag = DAG.load(path, memory_limit)
        if "noise_variance" not in dag.node_data:
            raise DataError(
                f"{path} holds a DAG without noise variances, and so no model. Write it with "
                "LinearModel.save or `bigdag fit`, or fit one to data: "
                "LinearModel.from_data(DAG.load(path), X)."
            )
        return cls(dag)

    # -------------------------------------------------------------- samples

    def predict(self, X: Any, transformed: bool = False) -> Any:
        """Predict each variable from its parents.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Values of all variables, matched by name, or by place where there are no names.
        transformed : bool, default=False
            A model of ranks, logarithms, standardised or adjusted columns refuses other values.
            True says that X is on the scale of the model already. A prepared Dataset says it.

        Returns
        -------
        array or data frame of shape (n, d)
            For each variable its mean, and what the parents' values add to it; a variable without
            parents has its mean in every row. A data frame for a data frame.
        """
        table = _Table(self.dag, X, transformed)
        table.require_values("predict", "Fill in missing values with impute first.")
        found = self.means + (table.values - self.means) @ self.dag.weights
        return table.like_given(found)

    def sample(self, n: int = 1, rng: int | np.random.Generator | None = None) -> Any:
        """Draw samples of the model, with Gaussian noise.

        Parameters
        ----------
        n : int, default=1
            How many.
        rng : int, Generator or None
            The seed.

        Returns
        -------
        array of shape (n, d), or data frame where the variables have names
            On the scale of the model, as of ranks or logarithms. The same seed gives the same.

        Examples
        --------
        >>> model = LinearModel(DAG([[0, 2.0], [0, 0]]), [1.0, 2.0], [1.0, 0.5])
        >>> model.sample(3, rng=0).shape
        (3, 2)
        """
        if not isinstance(n, int | np.integer) or n < 1:
            raise ParameterError(f"n must be a whole number of at least 1. Got {n!r} instead.")
        deviations = np.sqrt(self._noise("To sample"))
        noise = np.random.default_rng(rng).standard_normal((int(n), len(deviations))) * deviations
        X = self.means + self._solve(noise.T, transposed=True).T
        if not np.isfinite(X).all():
            raise GraphError(
                "The samples overflow: the weights multiply to infinity along the paths of this "
                "DAG."
            )
        return pd.DataFrame(X, columns=list(self.dag.names)) if self.dag.named else X

    def score(self, X: Any, transformed: bool = False) -> float:
        """Return the mean Gaussian log-likelihood of samples (n, d).

        Variables without noise, as constant columns have none, are left out. `transformed` is as
        for :meth:`predict`.
        """
        from bigdag.engine.objective import log_likelihood

        noise = self._noise("To score samples")
        table = _Table(self.dag, X, transformed)
        table.require_values("score", "Fill in missing values with impute first.")
        if not len(table.values):
            raise DataError("score needs samples. The table has no rows.")
        return log_likelihood(table.values - self.means, self.dag.weights, noise)

    def impute(self, X: Any, transformed: bool = False) -> Any:
        """Fill in missing values (NaN) by their means given what is known in the same row.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Values of all variables; a column may be missing altogether, but must be there.
        transformed : bool, default=False
            As for :meth:`predict`.

        Returns
        -------
        array or data frame of shape (n, d)
            The same with every missing value replaced.
        """
        noise = self._noise("To fill in missing values")
        table = _Table(self.dag, X, transformed)
        table.require_values("impute", "Only NaN is filled in.", missing=True)
        return table.like_given(filled_in(table.values, self.dag, self.means, noise))

    # -------------------------------------------------------------- effects

    def total_effect(self, cause: str | int, effect: str | int) -> float:
        """Return how much one variable changes, on average, when another is raised by one.

        That is the sum over all directed paths of the products of their weights, with every arc as
        the DAG has it. Where arcs are undirected, see :meth:`possible_effects`.

        Parameters
        ----------
        cause, effect : str or int
            Names or indices.
        """
        source, target = self.dag._index(cause), self.dag._index(effect)
        return float(self._totals(source)[target])

    def possible_effects(self, cause: str | int, effect: str | int) -> NDArray[np.float64]:
        """Return the total effects that the undirected arcs at the cause leave possible.

        The effect is estimated once for each set of direct causes that the cause may have: those
        that the arcs say, and any of its undirected neighbours that make no new collider with
        them (Maathuis, Kalisch & Bühlmann 2009, in its local form). Each time it is a regression
        on the cause and that set, with the covariances of the model.

        Parameters
        ----------
        cause, effect : str or int
            Names or indices.

        Returns
        -------
        ndarray of shape (k,)
            One value for each such set, in rising order; a single one where every arc at the cause
            is directed. They are all that are possible if the undirected arcs are those of a CPDAG.

        Examples
        --------
        >>> dag = DAG([[0, 2.0], [0, 0]], reversible=[[0, 1], [0, 0]])
        >>> LinearModel(dag, noise_variances=[1.0, 1.0]).possible_effects(0, 1)
        array([0., 2.])
        """
        source, target = self.dag._index(cause), self.dag._index(effect)
        return np.sort(possible_effects_of(self, source)[:, target])

    def effects(self, cause: str | int) -> pd.DataFrame:
        """Return the total effects of a variable on all that it may affect.

        Parameters
        ----------
        cause : str or int
            Name or index.

        Returns
        -------
        DataFrame
            effect and total_effect, the largest first; where arcs at the cause are undirected, also
            the lowest and the highest of the possible effects, and how many sets of direct causes
            they are of (see :meth:`possible_effects`).

        Examples
        --------
        >>> dag = DAG([[0, 2.0, 0], [0, 0, -3.0], [0, 0, 0]])
        >>> LinearModel(dag).effects("x0")
          effect  total_effect
        0     x2          -6.0
        1     x1           2.0
        """
        return effects_of(self, self.dag._index(cause))

    # -------------------------------------------------------------- inside

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in self.__dict__.items() if name != "_factor"}

    def _noise(self, purpose: str) -> NDArray[np.float64]:
        if self.noise_variances is None:
            raise GraphError(
                f"{purpose}, the noise variances are needed, and this DAG has none. Learn it "
                "with this version of bigdag, or fit its model to data: "
                "LinearModel.from_data(dag, X)."
            )
        return self.noise_variances

    @cached_property
    def _factor(self) -> Any:
        """Return the factors of I - W in causal order, where it is triangular and has no fill."""
        order = self.dag.order
        W = self.dag.weights[:, order][order]
        system = sp.csc_array(sp.eye_array(len(order), format="csc") - W)
        system.sort_indices()
        system.indices, system.indptr = system.indices.astype("i4"), system.indptr.astype("i4")
        return splu(system, permc_spec="NATURAL", diag_pivot_thresh=0.0)

    def _solve(self, right: NDArray[np.float64], transposed: bool = False) -> NDArray[np.float64]:
        """Return (I - W)^-1 times a matrix (d, k), or its transpose's inverse times it."""
        order = self.dag.order
        found = np.empty_like(right)
        if len(order):
            found[order] = self._factor.solve(right[order], trans="T" if transposed else "N")
        return found

    def _totals(self, cause: int) -> NDArray[np.float64]:
        """Return the total effects of one variable on all (d,)."""
        start = np.zeros((self.dag.n_nodes, 1))
        start[cause] = 1.0
        return self._solve(start, transposed=True)[:, 0]

    def _covariances(self, variables: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the covariances that the model implies of all with some variables (d, k)."""
        noise = self._noise("Where directions are open, to tell possible effects")
        ends = np.zeros((self.dag.n_nodes, len(variables)))
        ends[variables, np.arange(len(variables))] = 1.0
        return self._solve(self._solve(ends) * noise[:, None], transposed=True)


def least_squares(X: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coefficients of y (n,) on the columns of X (n, k), in whatever units these are.

    Of columns that depend on each other, the shortest coefficients on the scale of their largest
    values; a column of zeros has 0.

    Examples
    --------
    >>> units = np.array([1e9, 1e-9])
    >>> X = np.array([[1.0, 1.0], [1.0, -1.0]]) * units
    >>> (least_squares(X, np.array([3.0, 1.0])) * units).round(6)
    array([2., 1.])
    """
    largest = np.abs(X).max(axis=0, initial=0.0)
    scale = np.where(largest > 0, largest, 1.0)
    # Raw columns that differ much in size would pass for columns that depend on each other.
    return np.asarray(np.linalg.lstsq(X / scale, y, rcond=None)[0] / scale)


def refitted_weights(data: Dataset, weights: sp.csc_array) -> sp.csc_array:
    """Return the weights of least squares on the arcs of a DAG (d, d); all of them stay arcs.

    Examples
    --------
    >>> data = as_dataset([[-1.0, 2.0], [0.0, 0.0], [1.0, -2.0]])
    >>> refitted_weights(data, sp.csc_array([[0, -0.1], [0, 0]])).toarray().round(3) + 0.0
    array([[ 0., -2.],
           [ 0.,  0.]])
    """
    fitted = sp.csc_array(weights, dtype=np.float64, copy=True)
    S = data.covariance
    for j in np.flatnonzero(np.diff(fitted.indptr)):
        column = slice(fitted.indptr[j], fitted.indptr[j + 1])
        parents = fitted.indices[column]
        if S is None:
            assert data.X is not None
            found = least_squares(data.X[:, parents], data.X[:, j])
        else:  # the normal equations, each in units of its own variable
            sd = np.sqrt(np.maximum(np.diagonal(S)[parents], 0.0))
            scale = np.where(sd > 0, sd, 1.0)
            C = S[np.ix_(parents, parents)] / scale / scale[:, None]
            found = np.linalg.lstsq(C, S[parents, j] / scale, rcond=None)[0] / scale
        fitted.data[column] = found
    fitted.data[fitted.data == 0] = np.finfo(float).tiny
    return fitted


def residual_variances(data: Dataset, weights: sp.csc_array) -> NDArray[np.float64]:
    """Return the mean square of what the parents leave of each column (d,), block by block.

    Examples
    --------
    >>> data = as_dataset([[-1.0, 2.0], [0.0, 0.0], [1.0, -2.0]])
    >>> residual_variances(data, sp.csc_array([[0, -1.0], [0, 0]])).round(3)
    array([0.667, 0.667])
    """
    d = data.n_features
    out, variance = np.empty(d), np.empty(d)
    step = max(1, _BLOCK // max(data.n_samples if data.covariance is None else d, 1))
    for first in range(0, d, step):
        block = slice(first, min(first + step, d))
        W = weights[:, block]
        if data.covariance is None:
            assert data.X is not None
            left = data.X[:, block] - data.X @ W
            out[block] = np.einsum("ij,ij->j", left, left) / data.n_samples
            variance[block] = np.einsum("ij,ij->j", data.X[:, block], data.X[:, block])
            variance[block] /= data.n_samples
        else:
            apart = sp.csc_array(sp.eye_array(d, format="csc")[:, block] - W)
            out[block] = (apart.multiply(data.covariance @ apart)).sum(axis=0)
            variance[block] = np.diagonal(data.covariance)[block]
    return np.maximum(out, _LEAST_NOISE * variance)


def as_matrix(table: Any) -> tuple[NDArray[np.float64], tuple[str, ...] | None]:
    """Return the values (n, d) of any table, NaN and infinity included, and its names if any."""
    if not isinstance(table, Dataset):
        return matrix_of(table)
    if table.X is None:
        raise ParameterError("Samples are needed. Got a covariance matrix instead.")
    return table.X + table.mean, table.names if table.named else None


class _Table:
    """A table as given, and its values (n, d) in the sequence of a model's variables."""

    def __init__(self, dag: DAG, given: Any, transformed: bool) -> None:
        if not transformed:
            require_scale(dag.about, given)
        values, names = as_matrix(given)
        if values.shape[1] != dag.n_nodes:
            raise GraphError(
                f"The table must have the {dag.n_nodes} variables of the model. It has "
                f"{values.shape[1]} columns."
            )
        place = np.arange(dag.n_nodes)
        if names is not None:
            place = places(names, True, dag.names, dag.named, "table")
        self._given, self._place, self._dag = given, place, dag
        self.values: NDArray[np.float64] = values[:, place]

    def require_values(self, word: str, remedy: str, missing: bool = False) -> None:
        """Refuse values that are not finite; NaN may be allowed."""
        bad = np.isinf(self.values) if missing else ~np.isfinite(self.values)
        columns = np.flatnonzero(bad.any(axis=0))
        if len(columns):
            row = int(np.argmax(bad[:, columns[0]]))
            value = self.values[row, columns[0]]
            kind = "infinite" if missing else "NaN or infinite"
            raise DataError(
                f"{word} cannot take {int(bad.sum()):,} values that are {kind}, in the columns "
                f"{few_names([self._dag.names[c] for c in columns])}; the first is {value} in row "
                f"{row + 1}. {remedy}"
            )

    def like_given(self, values: NDArray[np.float64]) -> Any:
        """Return values in the sequence, and as the kind of table, that was given."""
        back = np.empty_like(values)
        back[:, self._place] = values
        if isinstance(self._given, pd.DataFrame):
            return pd.DataFrame(back, index=self._given.index, columns=self._given.columns)
        return back
