"""What a fit will take: the formula, the command, and the line before a long fit."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from bigdag.cli import app
from bigdag.data.dataset import Dataset, as_dataset
from bigdag.learners import forecast as planning
from bigdag.learners.methods import METHODS
from bigdag.simulate import random_dag, sample

FIXED = planning.Speed(2e-8, 1.5e-7, 1.5e-7)


def fixed(n, n_jobs):
    return FIXED


def said(d, word="order-search-bic", k=1, n=50, **given):
    X = sample(random_dag(d, k, rng=0), n, rng=1)
    return planning.forecast(METHODS[word], as_dataset(X), given, fixed)


@pytest.mark.parametrize("word", ["order-search", "order-search-bic", "auto"])
def test_time_and_memory_grow_with_the_table(word):
    seconds = [said(d, word).seconds for d in (100, 400, 1600)]
    assert seconds == sorted(seconds)
    memory = [said(d, word).memory for d in (100, 1600)]
    assert memory[0] < memory[1]


def test_beyond_five_thousand_variables_time_grows_as_the_pairs_do():
    at = [planning._search_seconds("bic", 1000, d, 10.0, FIXED) for d in (20_000, 100_000)]
    exponent = np.log(at[1] / at[0]) / np.log(5)
    assert 1.5 < exponent < 2.1


def test_least_squares_looks_more_often_the_more_variables_there_are():
    at = [planning._search_seconds("least_squares", 1000, d, 10.0, FIXED) / d**2
          for d in (20_000, 100_000)]  # fmt: skip
    assert at[1] > at[0]


def test_every_pair_takes_memory_only_where_it_becomes_candidates():
    sparse = said(2500, n=400).memory
    assert 12 * 2500**2 > METHODS["order-search-bic"].memory(400, 2500) - sparse > 10**7


def test_dense_tables_take_longer():
    sparse, dense = (
        planning._search_seconds("bic", 1000, 4000, mean, FIXED) for mean in (10.0, 400.0)
    )
    assert dense > 5 * sparse


def test_the_sample_counts_what_is_correlated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 30))
    X[:, :10] += 3 * rng.normal(size=(2000, 1))  # ten that are all correlated
    X[:, 29] = 0.0
    assert planning._mean_correlated(X - X.mean(axis=0), 0.5) == pytest.approx(90 / 30, abs=1e-9)


def test_a_method_without_a_formula_has_no_time():
    assert said(30, "proximas").seconds is None
    covariance = Dataset.from_covariance(np.eye(4), 100)
    assert planning.forecast(METHODS["order-search"], covariance, None, fixed).seconds is None


def test_the_plan_of_a_table(tmp_path):
    np.save(tmp_path / "t.npy", np.random.default_rng(0).normal(size=(40, 6)))
    asked = ["plan", str(tmp_path / "t.npy"), "--method", "order-search-bic"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert "40 samples of 6 variables" in result.output
    assert "Time: about" in result.output
    report = json.loads(CliRunner().invoke(app, [*asked, "--json"]).output)
    assert report["n_variables"] == 6
    assert report["seconds"] > 0  # how many depends on the machine; with a given speed see above
    assert report["memory_bytes"] > 10**8


def test_a_plan_refuses_what_a_fit_would(tmp_path):
    np.save(tmp_path / "t.npy", np.zeros((40, 6)))
    result = CliRunner().invoke(app, ["plan", str(tmp_path / "t.npy"), "--set", "gamma=-1",
                                      "--method", "order-search-bic"])  # fmt: skip
    assert result.exit_code != 0
    assert "gamma must be" in result.output + str(result.exception)


def test_a_long_fit_says_so_first(tmp_path, monkeypatch):
    # Another test may have loaded the modules anew: these are the ones that the command reads.
    words = {c.callback.__name__: c.callback.__globals__ for c in app.registered_commands}
    monkeypatch.setitem(words["fit"], "_QUICK", 0)
    used = sys.modules["bigdag.learners.forecast"]
    slow = used.Speed(1.0, 1.0, 1.0)
    monkeypatch.setattr(used.forecast, "__defaults__", (None, lambda n, n_jobs: slow))
    np.save(tmp_path / "t.npy", np.random.default_rng(0).normal(size=(40, 6)))
    asked = ["fit", str(tmp_path / "t.npy"), "--method", "order-search", "--out"]
    result = CliRunner().invoke(app, [*asked, str(tmp_path / "a.npz")])
    assert "This fit of 40 samples of 6 variables takes about" in result.stderr
    quiet = CliRunner().invoke(app, [*asked, str(tmp_path / "b.npz"), "--quiet"])
    assert "This fit" not in quiet.stderr
