"""Tables changed before they are learnt from: normal scores, logarithms, adjusting.

The functions on arrays work in place, some columns at a time, and leave missing values (NaN) where
they are. The classes are scikit-learn's transformers of the same, and keep the names of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtri
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bigdag.data.convert import FloatArray, column_blocks, names_of
from bigdag.data.raw import Raw, chosen_names, raw_table
from bigdag.errors import DataError, ParameterError, counted, few_names

if TYPE_CHECKING:
    pass

__all__ = [
    "Adjust",
    "Log1p",
    "NormalScores",
    "Terms",
    "log1p",
    "normal_scores",
    "refuse_infinite",
    "residuals",
]

_ROUNDING = 1e-12  # of the largest value: what is left below it is rounding


# ------------------------------------------------------------------ on arrays, in place


def refuse_infinite(X: FloatArray, names: Sequence[str]) -> None:
    """Refuse infinite values; NaN are missing values."""
    for part in column_blocks(*X.shape):
        found = np.isinf(X[:, part]).any(axis=0)
        if found.any():
            bad: list[int] = (part.start + np.flatnonzero(found)).tolist()
            row = int(np.argmax(np.isinf(X[:, bad[0]])))
            raise DataError(
                f"Values are infinite in {few_names([names[j] for j in bad])}; the first is "
                f"{X[row, bad[0]]:g} in column {names[bad[0]]!r}, row {row + 1} (counted from 1). "
                "Leave these rows or columns out, or mark the values as missing (NaN)."
            )


def normal_scores(X: FloatArray) -> None:
    """Put the normal scores of their ranks in place of the values of each column of X (n, d).

    A value of rank r among the n that are there becomes the quantile r/(n + 1) of the standard
    normal distribution. Equal values share their mean rank, so that a constant column becomes zero.

    Examples
    --------
    >>> X = np.array([[1.0, 7.0], [100.0, 7.0], [2.0, 7.0]])
    >>> normal_scores(X)
    >>> X.round(3)
    array([[-0.674,  0.   ],
           [ 0.674,  0.   ],
           [ 0.   ,  0.   ]])
    """
    scores = np.empty(0)
    for j in range(X.shape[1]):
        column = X[:, j]
        order = np.argsort(column)[: len(column) - np.count_nonzero(np.isnan(column))]  # NaN last
        m = len(order)
        if len(scores) != 2 * m + 1:  # by twice the mean rank, the same for columns of one length
            scores = np.asarray(ndtri(np.arange(2 * m + 1) / 2 / (m + 1)))
        known = column[order]
        starts = np.flatnonzero(np.concatenate([[True], known[1:] != known[:-1]])[:m])
        ends = np.append(starts[1:], m)
        column[order] = np.repeat(scores[starts + ends + 1], ends - starts)


def _scores(column: FloatArray, known: FloatArray) -> FloatArray:
    """Return the normal scores of a column (n,) among sorted values; NaN stay NaN."""
    rank = np.searchsorted(known, column, "left") + np.searchsorted(known, column, "right")
    scores = np.asarray(ndtri((rank + 1) / 2 / (len(known) + 1)))
    scores[np.isnan(column)] = np.nan
    return scores


def log1p(X: FloatArray, names: Sequence[str]) -> None:
    """Put log(1 + x) in place of every value of X (n, d); refuse values of -1 and less."""
    low = np.array([np.fmin.reduce(X[:, j], initial=np.inf) for j in range(X.shape[1])])
    bad: list[int] = np.flatnonzero(low <= -1).tolist()
    if bad:
        raise DataError(
            f"log1p needs values above -1. {len(bad)} of {counted(len(low), 'column')} "
            f"{'hold' if len(bad) > 1 else 'holds'} smaller ones: "
            f"{few_names([names[j] for j in bad])} (down to {low[bad].min():.6g}). It is for "
            "counts; ranks (transform='rank', --transform rank) take any numbers."
        )
    for part in column_blocks(*X.shape):
        np.log1p(X[:, part], out=X[:, part])


class Terms:
    """The terms that are taken out of other columns: numbers, and categories as indicators.

    Parameters
    ----------
    columns : dict of str to array
        Values by name: float64 for a linear effect, objects for categories.

    Attributes
    ----------
    centre, scale : dict of str to float
        Of the columns of numbers.
    categories : dict of str to list
        Of the others.
    """

    def __init__(self, columns: dict[str, npt.NDArray[Any]]) -> None:
        self.centre: dict[str, float] = {}
        self.scale: dict[str, float] = {}
        self.categories: dict[str, list[str]] = {}
        for name, values in columns.items():
            gone = int(np.count_nonzero(pd.isna(values)))
            if gone:
                raise DataError(
                    f"Column {name!r}, whose effect is to be taken out, misses {gone} of "
                    f"{len(values)} values. Fill them in, or leave these rows out."
                )
            if values.dtype != object:
                self.centre[name] = float(values.mean())
                self.scale[name] = float(values.std()) or 1.0
                continue
            text = _categories(values)
            found, counts = np.unique(text, return_counts=True)
            alone = [str(c) for c in found[counts == 1]]
            if alone:
                what = "a group" if len(alone) == 1 else "groups"
                measured = 2 * len(alone) > len(found)
                raise DataError(
                    f"Column {name!r} has {what} of one row: {few_names(alone)}. Nothing is left "
                    "of such a row once the effect of its group is taken out. Leave these rows "
                    "out, or join the groups with others."
                    + measured
                    * " If it is a quantity, give it as numbers in adjust= (--adjust)."
                )
            self.categories[name] = found.tolist()

    def matrix(self, columns: dict[str, npt.NDArray[Any]]) -> FloatArray:
        """Return the terms (n, q) of columns; the first is the constant 1."""
        n = len(next(iter(columns.values())))
        parts = [np.ones((n, 1))]
        for name, values in columns.items():
            if name in self.centre:
                parts.append((values[:, None] - self.centre[name]) / self.scale[name])
                continue
            text, known = _categories(values), self.categories[name]
            new = sorted(set(text) - set(known))
            if new:
                raise DataError(
                    f"Column {name!r} has groups that were not there in fit: {few_names(new)}."
                )
            parts.append((text[:, None] == np.array(known[1:], dtype=object)).astype(np.float64))
        return np.hstack(parts)


def _categories(values: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
    out = np.empty(len(values), dtype=object)
    out[:] = [
        str(int(v)) if isinstance(v, float | np.floating) and float(v).is_integer() else str(v)
        for v in values
    ]
    return out


def effects(X: FloatArray, Z: FloatArray) -> FloatArray:
    """Return the least-squares effects (q, d) of the terms Z (n, q) on each column of X (n, d).

    Each column is regressed on the rows in which it is there. Terms that say the same as others
    get no effect of their own.
    """
    coefficients = np.zeros((Z.shape[1], X.shape[1]))
    inverse = np.linalg.pinv(Z, rcond=1e-10)  # once for all columns, (q, n)
    for part in column_blocks(*X.shape):
        block = X[:, part]
        there = ~np.isnan(block)
        coefficients[:, part] = inverse @ block
        for j in np.flatnonzero(~there.all(axis=0)).tolist():
            rows = there[:, j]
            some = Z[rows]
            # Normal equations: what rows that are missing take away is different in every column.
            G, b = some.T @ some, some.T @ block[rows, j]
            coefficients[:, part.start + j] = np.linalg.pinv(G, rcond=1e-10, hermitian=True) @ b
    return coefficients


def residuals(X: FloatArray, Z: FloatArray, coefficients: FloatArray | None = None) -> None:
    """Take the effects of the terms Z (n, q) out of X (n, d), in place; the means stay.

    Where nothing but rounding is left of a column, as of a constant one, it becomes constant.

    Examples
    --------
    >>> X = np.array([[1.0], [2.0], [11.0], [12.0]])
    >>> residuals(X, np.array([[1.0, 0], [1, 0], [1, 1], [1, 1]]))
    >>> X.ravel().round(6)
    array([6., 7., 6., 7.])
    """
    found = effects(X, Z) if coefficients is None else coefficients
    middle = Z - Z.mean(axis=0) if coefficients is None else Z
    for part in column_blocks(*X.shape):
        block = X[:, part]
        size = np.fmax.reduce(np.abs(block))
        block -= middle @ found[:, part]
        low = np.fmin.reduce(block)
        for j in np.flatnonzero(np.fmax.reduce(block) - low <= _ROUNDING * size):
            block[~np.isnan(block[:, j]), j] = low[j]


# ------------------------------------------------------------------ scikit-learn's transformers


class _Transformer(TransformerMixin, BaseEstimator):
    """What the transformers share: a look at names, and a frame for a frame."""

    def _checked(self, X: Any, reset: bool) -> Raw:
        """Copy a table; compare its names with those in fit, or note them."""
        raw = raw_table(X)
        labels = list(raw.all_names)
        seen = pd.DataFrame(columns=pd.Index(labels, dtype=object)) if raw.named else None
        if isinstance(X, pd.DataFrame) and raw.named:  # in its own order
            seen = pd.DataFrame(columns=pd.Index(names_of(X.columns) or labels, dtype=object))
        validate_data(
            self,
            np.empty((0, len(labels))) if seen is None else seen,
            reset=reset,
            skip_check_array=True,
        )
        n, d = len(raw.X), len(raw.all_names)
        if not n or not d:
            raise DataError(
                f"Found array with {'0 feature(s)' if n else '0 sample(s)'} (shape=({n}, {d})) "
                "while a minimum of 1 is required."
            )
        refuse_infinite(raw.X, raw.names)
        return raw

    @staticmethod
    def _like(X: Any, values: FloatArray, names: Sequence[str], named: bool) -> Any:
        """Return a frame where one came in, so that names go on without a setting."""
        if not named:
            return values
        index = X.index if isinstance(X, pd.DataFrame) else None
        return pd.DataFrame(values, columns=list(names), index=index)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True  # taken; what comes out is dense
        return tags


class NormalScores(OneToOneFeatureMixin, _Transformer):
    """Put the normal scores of ranks in place of the values of each column.

    The relations that are left are those of ranks: skewed columns, outliers and units of any kind
    do no harm. This is the nonparanormal: a Gaussian model of each column on some monotone scale.
    Missing values stay missing, constant columns constant, and equal values equal.

    Attributes
    ----------
    values_ : list of arrays
        The sorted values of each column in fit; new values get the scores between theirs.

    Examples
    --------
    >>> import pandas as pd
    >>> from bigdag.transforms import NormalScores
    >>> table = pd.DataFrame({"dose": [1.0, 1000.0, 10.0]})
    >>> NormalScores().fit_transform(table)["dose"].round(3).tolist()
    [-0.674, 0.674, 0.0]
    """

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Sort the values of each column.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Anything that a learner takes, also with missing values.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        self
            The fitted transformer.
        """
        raw = self._checked(X, reset=True)
        raw.refuse_text(raw.all_names)
        self.values_ = [np.sort(column[~np.isnan(column)]) for column in raw.X.T]
        return self

    def transform(self, X: Any) -> Any:
        """Return the scores, as a data frame where `X` has names.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            The columns that were there in fit.

        Returns
        -------
        array or data frame of shape (n_samples, n_features)
            The scores.
        """
        check_is_fitted(self)
        raw = self._checked(X, reset=False)
        raw.refuse_text(raw.all_names)
        for column, known in zip(raw.X.T, self.values_):
            column[...] = _scores(column, known)
        return self._like(X, raw.X, raw.names, raw.named)


class Log1p(OneToOneFeatureMixin, _Transformer):
    """Put log(1 + x) in place of every value, for counts; missing values stay missing.

    Examples
    --------
    >>> from bigdag.transforms import Log1p
    >>> Log1p().fit_transform([[0.0, 1.0], [3.0, 0.0]]).round(3)
    array([[0.   , 0.693],
           [1.386, 0.   ]])
    """

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Check the table; there is nothing to learn.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Values above -1, also with missing ones.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        self
            The fitted transformer.
        """
        raw = self._checked(X, reset=True)
        raw.refuse_text(raw.all_names)
        return self

    def transform(self, X: Any) -> Any:
        """Return the logarithms, as a data frame where `X` has names.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Values above -1.

        Returns
        -------
        array or data frame of shape (n_samples, n_features)
            The logarithms.
        """
        check_is_fitted(self)
        raw = self._checked(X, reset=False)
        raw.refuse_text(raw.all_names)
        log1p(raw.X, raw.names)
        return self._like(X, raw.X, raw.names, raw.named)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")


class Adjust(_Transformer):
    """Take the linear effect of some columns out of all others, and leave these columns out.

    Each of the other columns is regressed on them, and the residuals, with the column's mean, take
    its place. So batches, age or sex do not become the common cause of everything.

    Parameters
    ----------
    columns : sequence of str
        Names, or globs such as "PC*", of the columns to take out. Columns of text and categories
        have an effect for each group, columns of numbers a linear one. The columns of an array
        are called "x0", "x1", ...
    batch : str, optional
        A column whose different values are groups, also where they are numbers.

    Attributes
    ----------
    adjusted_ : list of str
        The columns that were taken out.
    effects_ : array of shape (n_terms, n_columns_left)
        The effect of each term on each column that is left.

    Examples
    --------
    >>> import pandas as pd
    >>> from bigdag.transforms import Adjust
    >>> table = pd.DataFrame({"plate": list("aabb"), "dose": [1.0, 2.0, 11.0, 12.0]})
    >>> Adjust(["plate"]).fit_transform(table)["dose"].round(6).tolist()
    [6.0, 7.0, 6.0, 7.0]
    """

    def __init__(self, columns: Sequence[str] = (), *, batch: str | None = None) -> None:
        self.columns = columns
        self.batch = batch

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Regress every other column on those that are to be taken out.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Anything that a learner takes, also with missing values in the other columns.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        self
            The fitted transformer.
        """
        raw = self._checked(X, reset=True)
        self._named, self._all_names = raw.named, raw.all_names
        wanted = adjusting_names(raw, self.columns, self.batch, "columns", "batch")
        columns = adjusting_columns(raw, wanted, self.batch)
        left = self._left(raw, wanted)
        self.adjusted_, self._names_left = wanted, left
        if not columns:
            self.effects_ = np.zeros((1, len(left)))
            return self
        self._terms = Terms(columns)
        Z = self._terms.matrix(columns)
        refuse_full(Z, len(raw.X))
        self.effects_ = effects(raw.only(left).X, Z)
        self._middle = Z.mean(axis=0)
        return self

    def transform(self, X: Any) -> Any:
        """Return the other columns without the effects, as a data frame where `X` has names.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            The columns that were there in fit.

        Returns
        -------
        array or data frame of shape (n_samples, n_columns_left)
            The residuals, with the means that the columns had in fit.
        """
        check_is_fitted(self)
        raw = self._checked(X, reset=False)
        columns = adjusting_columns(raw, self.adjusted_, self.batch)
        left = raw.only(self._left(raw, self.adjusted_))
        if columns:
            residuals(left.X, self._terms.matrix(columns) - self._middle, self.effects_)
        return self._like(X, left.X, left.names, raw.named)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the names of the columns that are left.

        Parameters
        ----------
        input_features : sequence of str, optional
            Other names of the columns in fit, where they had none.

        Returns
        -------
        array of str
            The names.
        """
        check_is_fitted(self)
        if input_features is None or self._named:
            return np.array(self._names_left, dtype=object)
        left = set(self._names_left)
        kept = [new for new, own in zip(input_features, self._all_names) if own in left]
        return np.array(kept, dtype=object)

    @staticmethod
    def _left(raw: Raw, wanted: Sequence[str]) -> list[str]:
        taken_out = set(wanted)
        left = [name for name in raw.all_names if name not in taken_out]
        raw.refuse_text(left)
        if not left:
            raise ParameterError(
                f"No column is left once {few_names(wanted)} are taken out. Name fewer."
            )
        return left


def adjusting_names(
    raw: Raw, patterns: Sequence[str], batch: str | None, option: str, batch_option: str
) -> list[str]:
    """Return the columns to adjust for, or refuse names that there are not."""
    given = [patterns] if isinstance(patterns, str) else list(patterns)
    wanted = chosen_names(raw.all_names, given, option)
    if batch is None:
        return wanted
    if batch not in raw.all_names:
        chosen_names(raw.all_names, [batch], batch_option)  # refuses what is no pattern either
        raise ParameterError(f"{batch_option} takes the name of one column. Got {batch!r} instead.")
    return [*wanted, *([batch] if batch not in wanted else [])]


def adjusting_columns(
    raw: Raw, wanted: Sequence[str], batch: str | None
) -> dict[str, npt.NDArray[Any]]:
    """Return the values of the columns to adjust for: floats, and objects for categories."""
    columns: dict[str, npt.NDArray[Any]] = {}
    for name in wanted:
        if name in raw.text:
            text = raw.text[name].values
            assert text is not None, "the reader was not asked for the values"
            columns[name] = text
        else:
            numbers = raw.X[:, raw.names.index(name)].copy()
            refuse_infinite(numbers[:, None], [name])
            columns[name] = numbers.astype(object) if name == batch else numbers
    return columns


def refuse_full(Z: FloatArray, n: int) -> None:
    """Refuse terms (n, q) that explain every row."""
    rank = int(np.linalg.matrix_rank(Z))
    if rank > n - 2:
        raise DataError(
            f"The columns to adjust for have {rank} effects, which explain nearly all of {n} rows. "
            "Adjust for fewer columns or groups."
        )
