"""The table of methods: every row builds, and says truly what it needs."""

from __future__ import annotations

import sys
from importlib import import_module

import numpy as np
import pytest

import bigdag
from bigdag import simulate
from bigdag.data.dataset import as_dataset
from bigdag.engine.gram import Gram, moments_memory
from bigdag.errors import MissingExtraError, ParameterError
from bigdag.learners.base import Learner
from bigdag.learners.methods import METHODS, find_method
from bigdag.resources import memory_budget

WORDS = {
    "auto", "proximas", "optimas", "notears", "dagma", "golem-ev", "golem-nv", "gd", "order-search",
    "order-search-bic", "sort-variance", "sort-r2", "sort-random", "least-variance", "lasso-mas",
    "empty",
}  # fmt: skip
COMMON = {
    "lambda1", "max_iter", "time_limit", "random_state", "callback", "warm_start_dag", "n_jobs",
    "memory_limit", "verbose",
}  # fmt: skip


def test_all_words_are_there():
    assert set(METHODS) >= WORDS
    assert all(word == row.word for word, row in METHODS.items())


@pytest.mark.parametrize("word", METHODS)
def test_every_row_builds_a_learner_with_the_common_parameters(word):
    row = METHODS[word]
    learner = row.build(max_iter=3)
    assert isinstance(learner, Learner)
    learner._check_parameters()
    assert learner.max_iter == 3
    assert set(row.parameters()) >= (COMMON - {"lambda1"} if word == "auto" else COMMON)
    for name, value in row.fixed.items():
        assert getattr(learner, name) == value
        assert name not in row.parameters()
    assert row.summary.strip()
    assert "\n" not in row.summary
    assert len(row.summary) < 80


@pytest.mark.parametrize("word", METHODS)
def test_without_torch_only_the_rows_that_say_so_fail(word, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it now fails
    X = np.random.default_rng(0).normal(size=(30, 4))
    learner = METHODS[word].build(max_iter=2)
    if METHODS[word].extra == "torch":
        with pytest.raises(MissingExtraError, match="pip install 'torch"):
            learner.fit(X)
    else:
        assert learner.fit(X).dag_.n_nodes == 4


@pytest.mark.parametrize("word", METHODS)
def test_memory_grows_and_covers_the_table_and_the_correlations(word):
    memory = METHODS[word].memory
    assert memory(1000, 2000) < memory(1000, 4000)
    if word != "proximas":  # whose lasso finds fewer arcs in more samples
        assert memory(1000, 4000) < memory(5000, 4000)
    data = as_dataset(np.random.default_rng(0).normal(size=(50, 20)))
    gram = Gram(data)
    assert memory(50, 20) >= data.X.nbytes + gram.Z.nbytes + gram.C.nbytes
    assert memory(1000, 1000) < memory_budget("4GB")


@pytest.mark.parametrize(
    ("word", "name", "itemsize"),
    [("optimas", "_MATRICES", 4), ("golem-ev", "_MATRICES", 4), ("dagma", "_MATRICES", 8),
     ("notears", "_LAGRANGIAN_MATRICES", 8)],
)  # fmt: skip
def test_memory_counts_the_dense_matrices_that_the_learner_checks_for(word, name, itemsize):
    home = "NOTEARS" if word == "golem-ev" else METHODS[word].estimator
    matrices = getattr(import_module(bigdag._HOME[home]), name)
    memory = METHODS[word].memory
    grown = memory(9, 2000) - memory(9, 1000) - moments_memory(9, 2000, True)
    grown += moments_memory(9, 1000, True) - 8 * 9 * 1000
    assert grown == itemsize * matrices * (2000**2 - 1000**2)


@pytest.mark.parametrize("word", [word for word in METHODS if not METHODS[word].depends_on_units])
def test_the_order_depends_on_units_only_where_the_row_says_so(word):
    row = METHODS[word]
    X = simulate.sample(simulate.random_dag(12, 1, rng=0), 400, rng=1)
    scales = 10.0 ** np.random.default_rng(2).uniform(-3, 3, 12)
    # Without a penalty the lasso is a regression, which has no units either.
    orders = [row.build(random_state=0, lambda1=0.0).fit(table).order_ for table in (X, X * scales)]
    np.testing.assert_array_equal(*orders)


def test_a_parameter_the_method_has_not_names_the_methods_that_do():
    with pytest.raises(ParameterError, match=r"'empty' has no parameter 'lambda2'.*proximas"):
        METHODS["empty"].build(lambda2=1.0)


def test_a_row_says_which_values_it_allows():
    able = {word for word, row in METHODS.items() if row.allows("lambda1", "bic")}
    assert able == {"order-search", "order-search-bic"}
    assert {w for w, row in METHODS.items() if not row.allows("lambda1", 0.3)} == {"auto"}
    assert not METHODS["proximas"].allows("lambda1", -1.0)
    assert not METHODS["golem-ev"].allows("variance", "EV")  # the row sets it


def test_a_misspelt_parameter_names_the_nearest():
    with pytest.raises(ParameterError, match="Did you mean 'lambda1'"):
        METHODS["proximas"].build(lamda1=1.0)


def test_a_fixed_parameter_cannot_be_set():
    with pytest.raises(ParameterError, match="'golem-ev' has no parameter 'variance'"):
        METHODS["golem-ev"].build(variance="NV")


def test_words_are_found_in_any_case_and_unknown_ones_get_a_hint():
    assert find_method("ProxiMAS") is METHODS["proximas"]
    with pytest.raises(ParameterError, match=r"no method 'notear'\. Did you mean 'notears'"):
        find_method("notear")
    with pytest.raises(ParameterError, match="Methods are: auto, proximas, "):
        find_method("pc")
