"""Fits side by side: what belongs to the whole process is as it was when the last one ends."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from bigdag import OrderSearch, SortRegress
from bigdag.data.dataset import as_dataset
from bigdag.engine.gram import Gram
from bigdag.resources import SharedLimit


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
