"""Fits side by side: what belongs to the whole process is as it was when the last one ends."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

from bigdag import OrderSearch, ProxiMAS, SortRegress
from bigdag.data.dataset import as_dataset
from bigdag.engine.gram import Gram
from bigdag.engine.objective import losses
from bigdag.resources import SharedLimit
from bigdag.search.start_orders import least_variance_order, r2_order


def blas() -> list[int]:
    return [row["num_threads"] for row in threadpool_info() if row["user_api"] == "blas"]


def table() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(200, 60))


def test_two_fits_at_once_leave_blas_as_it_was():
    with threadpool_limits(3, user_api="blas"):
        before = blas()
        with ThreadPoolExecutor(4) as pool:
            fits = [pool.submit(OrderSearch(n_jobs=2).fit, table()) for _ in range(8)]
            assert all(fit.result().status_ == "converged" for fit in fits)
        assert blas() == before


def test_limits_that_overlap():
    number = [7]

    def put(n: int) -> None:
        number[0] = n

    limit = SharedLimit(lambda: number[0], put, put)
    first, second = limit(1), limit(2)
    first.__enter__()
    second.__enter__()
    assert number == [1]
    first.__exit__(None, None, None)
    assert number == [2]
    second.__exit__(None, None, None)
    assert number == [7]


def test_a_closed_gram_starts_no_threads():
    gram = Gram(as_dataset(table()), n_jobs=2)
    gram.each(lambda a, b: None, 60)
    assert any(t.name.startswith("bigdag") for t in threading.enumerate())
    gram.close()
    assert gram.each(lambda a, b: b - a, 60) == [16, 16, 16, 12]
    assert not any(t.name.startswith("bigdag") for t in threading.enumerate())


def test_a_fit_leaves_no_threads_behind():
    for learner in (SortRegress(n_jobs=2), OrderSearch(criterion="bic", n_jobs=2)):
        learner.fit(table())
        assert not any(t.name.startswith("bigdag") for t in threading.enumerate())


def test_the_number_of_threads_changes_no_bit():
    """BLAS itself rounds differently with one thread and with two."""
    X = np.random.default_rng(1).normal(size=(700, 520))
    X[:, 1:] += 0.3 * X[:, :-1]
    data, full = as_dataset(X), sp.csc_array(np.triu(np.full((520, 520), 1e-3), 1))
    for hold in (True, False):
        grams = [Gram(data, n_jobs=jobs, hold=hold) for jobs in (1, 2)]
        one, two = ([gram.rows(np.arange(520)), losses(gram, full)] for gram in grams)
        for first, second in zip(one, two):
            assert first.tobytes() == second.tobytes()
        for order in (least_variance_order, r2_order):
            assert np.array_equal(*(order(gram) for gram in grams))
    for learner in (SortRegress(1e-3, order="variance"), OrderSearch(), ProxiMAS()):
        one, two = (clone(learner).set_params(n_jobs=jobs).fit(X) for jobs in (1, 2))
        assert one.dag_ == two.dag_
        assert one.noise_variances_.tobytes() == two.noise_variances_.tobytes()
