"""The door in: what it lets through unchanged, and the sentence for each thing it refuses."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import validate_data

from bigdag import OrderSearch, SortRegress, resources
from bigdag.data.copies import find_copies
from bigdag.data.dataset import Dataset, as_dataset
from bigdag.errors import DataError, DataWarning, MemoryLimitError

pytestmark = pytest.mark.filterwarnings("error::bigdag.errors.DataWarning")

TABLE = np.array([[1.0, 5.0, -2.0], [2.0, 3.0, 0.5], [4.0, 1.0, 7.0], [0.0, 2.0, 1.0]])


def check_holds(data: Dataset, values: np.ndarray) -> None:
    """The properties of every Dataset made from values, against plain NumPy."""
    values = np.asarray(values, dtype=np.float64)
    n, d = values.shape
    assert data.X is not None
    assert data.X.shape == (n, d)
    assert data.X.dtype == np.float64
    assert data.X.flags.f_contiguous
    assert not data.X.flags.writeable
    assert not data.mean.flags.writeable
    assert (data.n_samples, data.n_features, len(data.names)) == (n, d, d)
    scale = np.abs(values).max(axis=0)
    assert (np.abs(data.X.mean(axis=0)) <= 1e-15 * scale).all()
    # A column that varies by less than 1e-150 has no variance in float64, and counts as constant.
    assert (np.abs(data.X + data.mean - values) <= 1e-12 * scale + 1e-149).all()


# What is let in.


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8", "i1", "u2", "i8", "longdouble"])
@pytest.mark.parametrize("order", ["C", "F", "strided", "reversed", "readonly"])
def test_arrays_of_any_dtype_and_layout(dtype, order):
    values = np.round(np.abs(TABLE)).astype(dtype)
    array = {
        "C": np.ascontiguousarray(values),
        "F": np.asfortranarray(values),
        "strided": np.repeat(np.repeat(values, 2, axis=0), 3, axis=1)[::2, ::3],
        "reversed": values[::-1, ::-1].copy()[::-1, ::-1],
        "readonly": values.copy(),
    }[order]
    array.flags.writeable = order != "readonly"
    before = array.copy()
    data = as_dataset(array)
    check_holds(data, values)
    assert data.names == ("x0", "x1", "x2")
    assert not data.named
    assert not np.shares_memory(data.X, array)
    np.testing.assert_array_equal(array, before)


def test_bool_object_list_and_masked():
    flags = np.array([[True, False], [False, False], [True, True]])
    check_holds(as_dataset(flags), flags)
    check_holds(as_dataset(TABLE.astype(object)), TABLE)
    check_holds(as_dataset(TABLE.tolist()), TABLE)
    check_holds(as_dataset(tuple(map(tuple, TABLE))), TABLE)
    check_holds(as_dataset([list(row) for row in TABLE.astype(int)]), TABLE.astype(int))
    check_holds(as_dataset(np.ma.masked_array(TABLE)), TABLE)
    with pytest.raises(DataError, match=r"1 value is NaN.*row 2"):
        as_dataset(np.ma.masked_array(TABLE, mask=TABLE == 3.0))


class _Protocol:
    """Only the data frame protocol of the table within."""

    def __init__(self, table):
        self.table = table

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return self.table.__dataframe__(nan_as_null, allow_copy)


class _Stream:
    """Only the Arrow stream protocol of the table within."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class _Array:
    """Only the array protocol of the table within."""

    def __init__(self, table):
        self.table = table

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.table, dtype=dtype)


@pytest.mark.parametrize("wrap", [_Protocol, _Stream, lambda table: table, pa.Table.to_pandas])
def test_data_frames_of_any_make_keep_their_names(wrap):
    columns = {
        "a b": pa.array(TABLE[:, 0]),
        "β": pa.array([1, 2, 3, 5], pa.int16()),
        "": pa.array([0.5, 0.25, 4.0, 1.0], pa.float32()),
        "flag": pa.array([True, False, False, True]),
    }
    table = pa.table(columns)
    data = as_dataset(wrap(table))
    check_holds(data, table.to_pandas().to_numpy(dtype=np.float64))
    assert data.names == tuple(columns)
    assert data.named


def test_array_protocol_and_torch():
    check_holds(as_dataset(_Array(TABLE)), TABLE)
    tensor = torch.tensor(TABLE, dtype=torch.float32)
    data = as_dataset(tensor)
    check_holds(data, TABLE)
    assert torch.equal(tensor, torch.tensor(TABLE, dtype=torch.float32))
    with pytest.raises(DataError, match="cannot be read as a table"):
        as_dataset(tensor.requires_grad_())


def test_pandas_dtypes_and_many_columns():
    frame = pd.DataFrame(
        {
            "nullable": pd.array([1, 2, 5, 3], dtype="Int64"),
            "flag": pd.array([True, False, True, True], dtype="boolean"),
            "object": np.array([1, 2.5, True, np.float32(3)], dtype=object),
            "arrow": pd.array([1.5, 2.5, 1.0, 0.0], dtype="float64[pyarrow]"),
            "sparse": pd.arrays.SparseArray([0.0, 0.0, 3.0, 1.0]),
        }
    )
    before = frame.copy(deep=True)
    data = as_dataset(frame)
    expected = np.column_stack([np.array(list(frame[c]), dtype=float) for c in frame])
    check_holds(data, expected)
    pd.testing.assert_frame_equal(frame, before)
    frame.loc[2, "nullable"] = pd.NA
    with pytest.raises(DataError, match=r"column 'nullable', row 3"):
        as_dataset(frame)
    # More values than one block holds, in frames of one dtype and of two.
    wide = np.random.default_rng(0).normal(size=(700, 2000))
    check_holds(as_dataset(pd.DataFrame(wide)), wide)
    two = pd.DataFrame(wide).astype(dict.fromkeys(range(0, 2000, 3), np.float32))
    check_holds(as_dataset(two), two.to_numpy(dtype=np.float64))


def test_names_rules():
    frame = pd.DataFrame(TABLE)
    assert not as_dataset(frame).named
    assert as_dataset(frame).names == ("x0", "x1", "x2")
    assert as_dataset(frame.set_axis(["u", "v", "w"], axis=1)).names == ("u", "v", "w")
    assert as_dataset(frame, names=["u", "v", "w"]).named
    with pytest.raises(TypeError, match="Feature names are only supported if all"):
        as_dataset(frame.set_axis(["u", 1, 2], axis=1))
    with pytest.raises(DataError, match=r"unique.*'u'"):
        as_dataset(frame.set_axis(["u", "v", "u"], axis=1))
    with pytest.raises(DataError, match="unique"):
        as_dataset(TABLE, names=["u", "u", "v"])
    with pytest.raises(DataError, match="Got 2 for 3 columns"):
        as_dataset(TABLE, names=["u", "v"])
    for bad in ("uvw", [1, 2, 3]):
        with pytest.raises(DataError, match="sequence of strings"):
            as_dataset(TABLE, names=bad)


def test_names_that_cannot_be_written_are_refused_before_the_learning():
    names = ["u", "a\ud800", "w"]
    for table in (TABLE, as_dataset(TABLE)):
        with pytest.raises(DataError, match=r"valid Unicode text.*'a\\ud800'"):
            as_dataset(table, names=names)
    with pytest.raises(DataError, match="valid Unicode"):
        Dataset.from_covariance(_covariance(3), 9, names=names)
    with pytest.raises(DataError, match="valid Unicode"):
        SortRegress().fit(pd.DataFrame(TABLE, columns=pd.Index(names, dtype=object)))


def _masked(values):
    return np.ma.masked_array(values)


@pytest.mark.parametrize(
    "make", [np.asarray, np.float32, pd.DataFrame, _masked, lambda X: pa.table(pd.DataFrame(X))]
)
def test_a_copy_beyond_the_limit_is_refused_before_it_is_made(make):
    table = make(np.zeros((2000, 3000)))
    held = resources.memory_held()
    with pytest.raises(MemoryLimitError, match=r"needs .* of memory"):
        as_dataset(table, None, held + 30 * 2**20)
    assert resources.memory_held() - held < 20 * 2**20


def test_labels_that_are_not_text_become_names():
    frame = pd.DataFrame(TABLE)

    def names(labels):
        data = as_dataset(frame.set_axis(labels, axis=1))
        assert data.named == (data.names != ("x0", "x1", "x2"))
        return data.names

    assert names([0, 1, 2]) == ("x0", "x1", "x2")
    assert names(np.array([0, 1, 2], dtype=np.int32)) == ("x0", "x1", "x2")
    assert names([2019, 2020, 2021]) == ("2019", "2020", "2021")
    assert names([1, 2, 3]) == ("1", "2", "3")
    assert names([0, 2, 1]) == ("0", "2", "1")  # in another order they do not count
    assert names([0.5, 1.0, 2.0]) == ("0.5", "1.0", "2.0")
    dates = pd.date_range("2020-12-30", periods=3)
    assert names(dates) == ("2020-12-30", "2020-12-31", "2021-01-01")
    assert names(list(dates.date)) == ("2020-12-30", "2020-12-31", "2021-01-01")
    assert names(dates + pd.Timedelta("6h"))[0] == "2020-12-30T06:00:00"
    assert names(dates.to_period("D"))[0] == "2020-12-30"
    levels = pd.MultiIndex.from_tuples([("mean", "height"), ("sd", "height"), ("id", "")])
    assert names(levels) == ("mean_height", "sd_height", "id")
    assert names(pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])) == ("a_1", "a_2", "b_1")
    with pytest.raises(DataError, match=r"unique.*'a_b_c'"):
        names(pd.MultiIndex.from_tuples([("a_b", "c"), ("a", "b_c"), ("d", "e")]))
    with pytest.raises(DataError, match=r"unique.*'5'"):
        names([5, 5, 6])


def test_a_learner_takes_numbered_names_without_a_word():
    frame = pd.DataFrame(TABLE, columns=[2019, 2020, 2021])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner = SortRegress().fit(frame)
        assert np.isfinite(learner.score(frame))
    assert learner.dag_.names == ("2019", "2020", "2021")


def test_numbered_names_of_a_covariance():
    S = pd.DataFrame(_covariance(3), columns=[10, 20, 30], index=[10, 20, 30])
    assert Dataset.from_covariance(S, 9).names == ("10", "20", "30")
    with pytest.raises(DataError, match="same names in the same order"):
        Dataset.from_covariance(S.set_axis([10, 30, 20], axis=0), 9)


def test_a_dataset_is_returned_as_it_is():
    data = as_dataset(TABLE)
    assert as_dataset(data) is data
    renamed = as_dataset(data, names=["u", "v", "w"])
    assert renamed.names == ("u", "v", "w")
    assert renamed.X is data.X


@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=8),
        elements=st.floats(-1e3, 1e3),
    ),
    st.integers(-12, 12),
)
def test_centring_at_every_scale(values, exponent):
    values = values * 10.0**exponent
    before = values.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        check_holds(as_dataset(values), values)
    np.testing.assert_array_equal(values, before)


def test_scales_far_apart_and_a_far_mean():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(200, 25)) * 10.0 ** np.arange(-12, 13)
    data = as_dataset(values)
    assert not data.constant.any()
    np.testing.assert_allclose(data.X.std(axis=0), values.std(axis=0), rtol=1e-12)
    far = 1e9 + rng.normal(size=(500, 2))
    np.testing.assert_allclose(as_dataset(far).X, far - far.mean(axis=0), atol=1e-6)
    assert (np.abs(as_dataset(far).X.sum(axis=0)) < 1e-9).all()


# Constant columns.


@pytest.mark.parametrize("value", [0.0, 0.1, -1 / 3, 1e12, 1e149, 1e-300])
def test_a_constant_column_is_exactly_zero_and_warned_of(value):
    values = np.column_stack([np.full(1001, value), np.arange(1001.0)])
    with pytest.warns(DataWarning, match=r"1 of 2 columns is constant.*'x0'") as caught:
        data = as_dataset(values)
    assert caught[0].filename == __file__
    assert len(caught) == 1
    assert (data.X[:, 0] == 0).all()
    np.testing.assert_array_equal(data.constant, [True, False])
    np.testing.assert_allclose(data.mean[0], value, rtol=1e-15)


def test_constant_up_to_rounding():
    noise = np.random.default_rng(2).normal(size=(300, 4))
    values = np.array([0.1, 1e12, 1e12, 0.0]) + noise * [1e-16, 1e-3, 10.0, 1e-12]
    with pytest.warns(DataWarning, match="2 of 4"):
        data = as_dataset(values)
    np.testing.assert_array_equal(data.constant, [True, True, False, False])
    np.testing.assert_array_equal(data.constant, ~data.X.any(axis=0))


def test_many_constant_columns_are_counted_not_listed():
    with pytest.warns(DataWarning, match=r"9 of 9 .*'x0', 'x1', 'x2' and 6 more"):
        as_dataset(np.ones((3, 9)))


# Copies.


def test_copies_are_warned_of_by_group():
    values = np.random.default_rng(4).normal(size=(40, 8))
    values[:, 3] = values[:, 1]
    values[:, 6] = values[:, 1]
    values[:, 7] = 32 + 1.8 * values[:, 0]
    with pytest.warns(DataWarning, match="only chance decides") as caught:
        as_dataset(values)
    assert [one.filename for one in caught] == [__file__]
    assert "5 of 8 columns are copies" in str(caught[0].message)
    assert "('x0', 'x7'), ('x1', 'x3', 'x6')." in str(caught[0].message)
    values[:, 7] *= -1
    values[:, 3] += 1e-6 * values[:, 4]
    with pytest.warns(DataWarning, match=r"4 of 8 .*\('x0', 'x7'\), \('x1', 'x6'\)\."):
        as_dataset(values)


@pytest.mark.parametrize("scale", [1e-140, 1.0, 1e140])
def test_copies_at_every_scale_and_many_of_them(scale):
    values = np.random.default_rng(5).normal(size=(30, 5)) * scale
    with pytest.warns(DataWarning, match=r"10 of 10 .* and 2 more groups"):
        as_dataset(np.hstack([values, values]))


def test_no_copies():
    rng = np.random.default_rng(6)
    as_dataset(rng.normal(size=(5, 3000)))
    as_dataset([[1.0, 5.0], [2.0, 3.0]])  # two samples always lie on a line
    with pytest.warns(DataWarning, match="copies"):
        as_dataset([[1.0, 1.0], [2.0, 2.0]])
    with pytest.warns(DataWarning, match="constant") as caught:
        as_dataset(np.column_stack([np.ones(4), np.ones(4), rng.normal(size=4)]))
    assert len(caught) == 1


def test_many_copies_in_single_precision_are_told():
    # Each column is rounded on its own, so that they differ by some 6e-8.
    column = np.random.default_rng(7).normal(20, 5, size=60).astype(np.float32)
    factor = np.linspace(2, 5, 20_000, dtype=np.float32)
    values = np.outer(column, factor) - factor[::-1]
    values[:, ::3] *= -1
    assert values.dtype == np.float32
    with pytest.warns(DataWarning, match=r"20000 of 20000 .*'x2' and 19,997 more\)\."):
        as_dataset(values)
    with pytest.warns(DataWarning, match=r"20000 of 20001 columns"):
        as_dataset(np.column_stack([values, 1.8 * column.astype(float) + 1e-7 * column**2]))
    # In double precision a difference of that size is one.
    noise = np.random.default_rng(8).normal(size=(60, 2))
    as_dataset(np.column_stack([noise[:, 0], noise[:, 0] + 1e-7 * noise[:, 1]]))


def test_copies_that_are_no_copies():
    t = np.random.default_rng(9).normal(size=3000)
    as_dataset(np.vstack([t, t + 1]))  # two samples, one difference
    as_dataset(np.random.default_rng(10).normal(size=(3, 2000)).astype(np.float32))
    zero = np.array([[1.0, -1.0], [-1.0, 1.0], [0.0, 0.0]])
    with pytest.warns(DataWarning, match="copies"):
        as_dataset(zero)


@pytest.mark.filterwarnings("ignore")
@given(
    hnp.arrays(np.float64, (5, 12), elements=st.sampled_from([0.0, 1.0, 2.0, -1.0])),
    st.integers(-3, 3),
)
def test_copies_are_those_of_a_comparison_of_all_pairs(values, exponent):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = as_dataset(values * 10.0**exponent).X
    norm = np.linalg.norm(X, axis=0)
    scaled = X / np.where(norm, norm, 1)
    same = (np.abs(scaled.T @ scaled) > 1 - 1e-12) & (norm > 0)
    expected = sorted({tuple(np.flatnonzero(row)) for row in same if row.sum() > 1})
    found = find_copies(X, np.zeros(12), norm, 12)
    assert found == (sum(map(len, expected)), len(expected), [list(group) for group in expected])


# What is refused.


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.arange(3.0), "Reshape your data"),
        (np.zeros((2, 2, 2)), r"3-D array of shape \(2, 2, 2\)"),
        (np.float64(3.0), "Expected a 2-D table"),
        (None, "Expected a 2-D table, got None"),
        ({"a": [1, 2]}, "Expected a 2-D table.*'dict'"),
        ([], r"0 sample\(s\)"),
        (pd.Series([1.0, 2.0]), "Reshape your data"),
        (pa.chunked_array([[1.0, 2.0]]), "Reshape your data"),
        (np.empty((0, 3)), r"0 sample\(s\).*no rows"),
        (np.ones((1, 3)), r"1 sample\(s\).*one row"),
        (
            np.empty((12, 0)),
            r"0 feature\(s\) \(shape=\(12, 0\)\) while a minimum of 1 is required.",
        ),
        (pd.DataFrame(index=range(3)), "no columns"),
        (pd.DataFrame(columns=["a"], dtype=float), "no rows"),
        (TABLE + 1j, "Complex data not supported"),
        (pd.DataFrame(TABLE + 1j), "Complex data not supported"),
        ([[1, 2], [3]], "Row 2 has 1 cells, but row 1 has 2"),
        ("table.csv", "read_table"),
        (np.array([["1", "2"], ["3", "4"]]), r"2 of 2 columns hold text.*'x0' \(row 1: '1'\)"),
        ([[1, "u"], [2, 3]], r"1 of 2 columns holds text.*'x1' \(row 1: 'u'\)"),
        ([[1, 10**400], [2, 3]], "infinite.*'x1', row 1"),
        (np.array([[1.0, 1e151], [2.0, 3.0]]), r"'x1' holds 1e\+151 in row 1.*1e\+150.*Rescale"),
        (pd.DataFrame({"t": pd.to_datetime(["2020-01-01", "2021-01-01"])}), "'t'"),
        (
            pd.DataFrame({"c": pd.Categorical([1, 2])}),
            r"'c' \(the categories 1, 2\).*Categories are names.*astype\(float\)",
        ),
        (
            pa.table({"c": pa.array([1.5, 2.5]).dictionary_encode()}),
            r"'c' \(the categories 1\.5, 2\.5\).*Categories are names",
        ),
        (pd.DataFrame({"c": pd.Categorical(["u", "v"])}), r"'c' \(the categories 'u', 'v'\)"),
    ],
)
def test_refused(table, message):
    with pytest.raises(DataError, match=message):
        as_dataset(table)


def test_nan_and_infinity_are_placed_and_counted():
    values = np.random.default_rng(3).normal(size=(1500, 1500))  # several blocks
    values[[3, 9], 1400] = np.nan, np.inf
    values[7, 1200] = -np.inf
    with pytest.raises(DataError, match="NaN or infinite") as caught:
        as_dataset(values)
    assert "3 values are" in str(caught.value)
    assert "2 of 1500 columns ('x1200', 'x1400')" in str(caught.value)
    assert "-inf in column 'x1200', row 8" in str(caught.value)
    assert "Leave these rows or columns out" in str(caught.value)
    with pytest.raises(DataError, match=r"--missing pairwise.*bigdag.prepare"):
        as_dataset([[1.0, np.nan], [2.0, 3.0]])


def test_text_columns_are_named_with_an_example():
    frame = pd.DataFrame({"ok": [1.0, 2.0], "city": ["Oslo", "Bergen"]})
    with pytest.raises(DataError, match=r"1 of 2 columns.*'city' \(row 1: 'Oslo'\)"):
        as_dataset(frame)
    with pytest.raises(DataError, match=r"'city' \(row 1: 'Oslo'\)"):
        as_dataset(pa.Table.from_pandas(frame))
    mixed = pd.DataFrame({"m": np.array([1, None, "x7"], dtype=object)})
    with pytest.raises(DataError, match=r"'m' \(row 3: 'x7'\)"):
        as_dataset(mixed)
    many = pd.DataFrame({f"c{j}": ["u", "v"] for j in range(7)})
    with pytest.raises(DataError, match=r"'c2' \(row 1: 'u'\) and 4 more") as caught:
        as_dataset(many)
    assert "c3" not in str(caught.value)


class _Door(BaseEstimator):
    """The least estimator that takes its data through the door."""

    def fit(self, X, y=None):
        data = as_dataset(X)
        validate_data(self, X, skip_check_array=True)
        self.mean_ = data.mean.copy()
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@pytest.mark.filterwarnings("ignore")
def test_an_estimator_behind_the_door_passes_scikit_learns_checks():
    check_estimator(_Door())


# Covariance matrices.


def _covariance(d: int = 5, seed: int = 0) -> np.ndarray:
    X = np.random.default_rng(seed).normal(size=(50, d)) * 10.0 ** np.linspace(-6, 6, d)
    return np.cov(X, rowvar=False)


@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, np.float32, pd.DataFrame, list])
def test_covariance_is_taken_over(make):
    S = _covariance()
    given_ = make(S)
    data = Dataset.from_covariance(given_, n_samples=np.int64(50))
    assert data.X is None
    assert (data.n_samples, data.n_features, data.named) == (50, 5, False)
    assert not data.covariance.flags.writeable
    np.testing.assert_allclose(data.covariance, S, rtol=1e-6)
    np.testing.assert_array_equal(data.covariance, data.covariance.T)
    np.testing.assert_array_equal(data.mean, np.zeros(5))
    assert not np.shares_memory(data.covariance, S)
    np.testing.assert_array_equal(S, _covariance())


def test_covariance_names_and_constant():
    S = _covariance(3)
    S[1, :] = S[:, 1] = 0.0
    frame = pd.DataFrame(S, columns=list("abc"), index=list("abc"))
    with pytest.warns(DataWarning, match=r"1 of 3 .*'b'") as caught:
        data = Dataset.from_covariance(frame, 10)
    assert caught[0].filename == __file__
    assert data.names == ("a", "b", "c")
    np.testing.assert_array_equal(data.constant, [False, True, False])
    with pytest.raises(DataError, match="same names in the same order"):
        Dataset.from_covariance(frame.set_axis(list("acb"), axis=0), 10)
    assert Dataset.from_covariance(_covariance(2), 9, names=["u", "v"]).names == ("u", "v")


def test_variances_beyond_single_precision_are_taken_without_a_word():
    S = _covariance(3) * 1e80
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(Dataset.from_covariance(S, 9).covariance, S)


def test_covariance_of_one_variable_duplicates_and_fewer_samples_than_variables():
    assert Dataset.from_covariance([[4.0]], 2).n_features == 1
    X = np.random.default_rng(4).normal(size=(6, 30))
    X[:, 7] = X[:, 3]
    Dataset.from_covariance(np.cov(X, rowvar=False), 6)
    Dataset.from_covariance(np.cov(X, rowvar=False).astype(np.float32), 6)


@pytest.mark.parametrize(
    ("S", "message"),
    [
        (np.ones((2, 3)), "square. Got 2 rows and 3 columns"),
        ([[1.0, np.nan], [np.nan, 1.0]], "2 covariances are NaN"),
        (
            [[1.0, 0.5], [0.4, 1.0]],
            "symmetric. The largest asymmetry is 0.1, between 'x0' and 'x1'",
        ),
        ([[1e-12, 5e-13], [4e-13, 1e-12]], "symmetric. The largest asymmetry is 1e-13"),
        ([[1.0, 0.0], [0.0, -2.0]], "negative. Got -2 for 'x1'"),
        ([[1.0, 1.1], [1.1, 1.0]], "covariance 1.1 of 'x0' and 'x1'|covariance 1.1 of 'x1' and"),
        ([[0.0, 0.1], [0.1, 1.0]], "larger than their variances"),
        ([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]], "semi-definite.*eigenvalue.*-0.8"),
        (np.empty((0, 0)), r"0 feature\(s\)"),
        (np.ones(3), "Reshape"),
        ([["a"]], "not numbers"),
    ],
)
def test_covariance_refused(S, message):
    with pytest.raises(DataError, match=message):
        Dataset.from_covariance(S, 10)


@pytest.mark.parametrize("n_samples", [1, 0, -3, 2.0, "9", None, True, np.nan])
def test_covariance_needs_its_sample_size(n_samples):
    with pytest.raises(DataError, match="n_samples must be an integer of at least 2"):
        Dataset.from_covariance(np.eye(2), n_samples)


def test_every_message_is_one_sentence_or_more():
    """Each refusal ends in a full stop and says nothing of the inside."""
    for table in ([], None, np.ones(2), np.ones((1, 2)), [[1, "u"], [2, 3]], [[np.nan], [1]]):
        with pytest.raises(DataError) as caught:
            as_dataset(table)
        assert re.search(r"\.$", str(caught.value))
        assert "Traceback" not in str(caught.value)


def test_columns_whose_squares_vanish_are_told_to_vary():
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[:, 1] *= 1e-200
    with pytest.warns(DataWarning, match="1 of 3 columns varies by less than 1e-150.*'x1'.*Resc"):
        data = as_dataset(X)
    assert data.constant.tolist() == [False, True, False]


@pytest.mark.parametrize("unit", [1e-140, 1e-30, 1e30, 1e140])
def test_units_do_not_change_what_a_method_without_units_finds(unit):
    rng = np.random.default_rng(0)
    a = rng.normal(size=300)
    b = a + rng.normal(size=300)
    X = np.column_stack([a, b, b - a + rng.normal(size=300), rng.normal(size=300)])
    plain = OrderSearch(criterion="bic", random_state=0).fit(X).weights_ != 0
    X[:, ::2] *= unit
    scaled = OrderSearch(criterion="bic", random_state=0).fit(X).weights_ != 0
    assert (plain != scaled).nnz == 0
