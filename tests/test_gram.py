import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

from bigdag.data.dataset import Dataset, as_dataset
from bigdag.engine import objective
from bigdag.engine.gram import Gram
from bigdag.errors import MemoryLimitError, ParameterError
from bigdag.resources import bytes_of, memory_budget

from .literal import equation_1
from .strategies import tables


class GramContract:
    """Each way to know the second moments, against dense NumPy."""

    def make(self, X):
        raise AssertionError

    @settings(max_examples=25)
    @given(tables())
    def test_against_dense(self, X):
        gram = self.make(X)
        centred = X - X.mean(axis=0)
        S = centred.T @ centred / len(X)
        sd = np.sqrt(np.diag(S))
        C = S / np.outer(sd, sd)
        d = len(S)
        i, j = np.arange(0, d, 2), np.arange(d)[::-1]
        assert gram.diag() == pytest.approx(np.diag(S))
        assert gram.rows(i) == pytest.approx(C[i], abs=1e-10)
        assert gram.block(i, j) == pytest.approx(C[np.ix_(i, j)], abs=1e-10)
        rng = np.random.default_rng(0)
        W = rng.normal(size=(d, d)) * (1 - np.eye(d)) * (rng.random((d, d)) < 0.5)
        W *= sd / sd[:, None]
        assert objective.value(gram, sp.csc_array(W), 0.1) == pytest.approx(equation_1(S, W, 0.1))
        gradient = objective.gradient(gram, sp.csc_array(W), np.arange(d)).T
        scale = np.outer(sd, sd)
        assert gradient / scale == pytest.approx((S @ (W - np.eye(d))) / scale, abs=1e-9)


class TestHeld(GramContract):
    def make(self, X):
        return Gram(as_dataset(X), hold=True)


class TestOnDemand(GramContract):
    def make(self, X):
        return Gram(as_dataset(X), hold=False)


class TestCovariance(GramContract):
    def make(self, X):
        return Gram(Dataset.from_covariance(np.cov(X, rowvar=False, bias=True).reshape(
            X.shape[1], X.shape[1]), len(X)))  # fmt: skip


def test_gradient_against_finite_differences():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4))
    gram = Gram(as_dataset(X))
    W = rng.normal(size=(4, 4)) * (1 - np.eye(4))
    gradient = objective.gradient(gram, sp.csc_array(W), np.arange(4)).T
    for i in range(4):
        for j in range(4):
            if i != j:
                step = np.zeros((4, 4))
                step[i, j] = 1e-5
                up, down = (objective.value(gram, sp.csc_array(W + s * step), 0) for s in (1, -1))
                assert gradient[i, j] == pytest.approx((up - down) / 2e-5, rel=1e-6)


def test_residual_rows_agree_on_both_ways():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 40))
    indptr = np.array([0, 20, 38])
    indices = np.concatenate([np.arange(2, 22), np.arange(2, 20)])
    values = rng.normal(size=38)
    results = [
        Gram(as_dataset(X), hold=hold).residual_rows(np.array([0, 1]), indptr, indices, values)
        for hold in (True, False)
    ]
    assert results[0] == pytest.approx(results[1], abs=1e-12)
    few = Gram(as_dataset(rng.normal(size=(3000, 5))))
    args = np.array([0]), np.array([0, 2]), np.array([1, 2]), np.array([0.5, -0.5])
    assert few.residual_rows(*args)[0] == pytest.approx(few.C[0] - 0.5 * few.C[1] + 0.5 * few.C[2])


def test_memory_limit_says_need_limit_and_largest():
    data = as_dataset(np.random.default_rng(0).normal(size=(10, 300)))
    with pytest.raises(MemoryLimitError, match=r"300 variables.*KB.*at most \d+ variables fit"):
        Gram(data, memory_limit="50KB")


@pytest.mark.parametrize("bad", [0, -1, "lots", "4 XB", float("nan")])
def test_bad_memory_limit(bad):
    with pytest.raises(ParameterError, match="memory_limit must be"):
        bytes_of(bad)


def test_budget_without_a_limit_is_positive():
    assert memory_budget() > 0


@pytest.mark.parametrize("hold", [True, False])
@pytest.mark.parametrize("n", [60, 300, 700])
def test_losses_of_full_and_of_few_parents(n, hold):
    """Columns with very many parents take another way than those with few, by rows or not."""
    d = 520
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d)) * rng.uniform(0.1, 10, size=d)
    W = rng.normal(size=(d, d)) * np.triu(np.ones((d, d)), 1)
    W[:, ::7] *= rng.random((d, len(W[0, ::7]))) < 0.02
    gram = Gram(as_dataset(X), hold=hold)
    assert (gram.C is not None) == hold
    centred = X - X.mean(axis=0)
    expected = 0.5 * ((centred @ W - centred) ** 2).mean(axis=0)
    assert objective.losses(gram, sp.csc_array(W)) == pytest.approx(expected, rel=1e-9)
