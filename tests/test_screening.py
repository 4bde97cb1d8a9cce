"""Pairs above a limit by tiles in float32, against all products in float64."""

from __future__ import annotations

import numpy as np
import pytest

from bigdag import OrderSearch
from bigdag.data.dataset import as_dataset
from bigdag.engine import exceeding as tiles
from bigdag.engine import screening
from bigdag.engine.gram import Gram
from bigdag.errors import DataWarning
from bigdag.learners.run import Run
from bigdag.search import least_squares
from bigdag.simulate import random_dag, sample


def table(d=700, n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = sample(random_dag(d, 1, rng=rng), n, rng=rng)
    X[:, 5] = 3.0  # constant
    X[:, 9] = -2.0 * X[:, 8]  # a copy
    return X


def gram_of(X, **options):
    with pytest.warns(DataWarning):
        data = as_dataset(X)
    return Gram(data, **{"hold": False, "n_jobs": 2, **options})


def lists(C, threshold, most):
    """Return each row's strongest entries above a threshold, the first of equals."""
    found = []
    for v, row in enumerate(np.abs(C)):
        near = [u for u in np.flatnonzero(row > threshold) if u != v]
        near = sorted(near, key=lambda u: (-row[u], u))[:most]
        found.append(sorted(int(u) for u in near))
    return found


@pytest.mark.parametrize("most", [4096, 12])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_half_of_the_matrix_lists_what_all_of_it_does(most, n_jobs, monkeypatch):
    monkeypatch.setattr(screening, "_SPARSE", 1.0)
    monkeypatch.setattr(screening, "_above", None)  # rows of the whole matrix are not asked for
    gram = gram_of(table(), n_jobs=n_jobs)
    assert gram.Z is not None
    indptr, indices = screening._of_half(gram, 0.4, most)
    C = gram.Z @ gram.Z.T
    expected = lists(C, 0.4, most)
    assert max(map(len, lists(C, 0.4, 4096))) > 12
    assert [a.tolist() for a in np.split(indices, indptr[1:-1])] == expected


def test_few_correlated_pairs_take_half_of_the_matrix_and_many_whole_rows(monkeypatch):
    calls = []
    real = screening._of_half
    monkeypatch.setattr(screening, "_of_half", lambda *a: calls.append(a) or real(*a))
    gram = gram_of(table())
    sparse, dense = 0.8, 0.05
    for threshold in (sparse, dense):
        indptr, indices = screening.correlated(gram, threshold)
        assert gram.Z is not None
        expected = lists(gram.Z @ gram.Z.T, threshold, 4096)
        assert [a.tolist() for a in np.split(indices, indptr[1:-1])] == expected
    assert [c[1] for c in calls] == [sparse]


def test_what_float32_cannot_tell_is_decided_in_float64():
    """Correlations a few 1e-9 around the threshold: float32 knows seven digits."""
    rng = np.random.default_rng(1)
    n, d, threshold = 50, 400, 0.5
    base = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, n - 1))]))[0][:, 1:]
    target = threshold + np.linspace(-4e-9, 4e-9, d - 1)
    X = np.column_stack([base[:, 0]] + [
        t * base[:, 0] + np.sqrt(1 - t * t) * base[:, 1 + i % (n - 2)]
        for i, t in enumerate(target)
    ])  # fmt: skip
    gram = Gram(as_dataset(X), hold=False)
    everyone = np.arange(d)
    found = tiles.exceeding(
        gram, everyone, everyone, np.full(d, threshold), np.minimum(1, everyone)
    )
    assert found is not None
    assert found.row.tolist() == (1 + np.flatnonzero(target > threshold)).tolist()
    assert set(found.column) == {0}
    assert np.abs(found.value - target[found.row - 1]).max() < 1e-14


def test_what_is_copied_depends_on_all_variables_as_the_plan_says(monkeypatch):
    """Also where few of them are compared, so that the announced memory holds."""
    monkeypatch.setattr(tiles, "_COPIED", 500)
    gram = gram_of(table(d=700, n=60))
    few, zeros = np.arange(10), np.zeros(10)
    task = tiles._Strips(few, few, zeros, zeros, few, None, True)
    assert task.prepare(gram) is None


@pytest.mark.parametrize("copied", [2000, 0])
@pytest.mark.parametrize("double", [False, True])
def test_residuals_against_a_first_part_of_the_columns(double, copied, monkeypatch):
    """Rows of one's own, limits and ends of each row, in the sequence of an order."""
    if double:
        monkeypatch.setattr(tiles, "_DOUBLE", 0.0)
    monkeypatch.setattr(tiles, "_COPIED", copied)
    monkeypatch.setattr(tiles, "_ROWS", 128)  # strips of one tile, and of four
    monkeypatch.setattr(tiles, "_STRIPS", 1)
    rng = np.random.default_rng(2)
    gram = gram_of(table(d=1100, n=60))
    Z = gram.Z
    assert Z is not None
    order = rng.permutation(1100)
    places = np.sort(rng.choice(1100, 900, replace=False))
    rows = order[places]
    left = Z[rows] - 0.3 * Z[(rows + 1) % 1100]
    left /= np.maximum(1.0, np.linalg.norm(left, axis=1))[:, None]
    limits = rng.uniform(0.2, 0.6, size=900)
    found = tiles.exceeding(gram, rows, order, limits, places, lambda Z, a, b: left[a:b])
    assert found is not None
    products = left @ Z[order].T
    inside = (np.abs(products) > limits[:, None]) & (np.arange(1100) < places[:, None])
    expected = np.argwhere(inside)
    assert len(expected) > 1000
    assert np.array_equal(found.row, expected[:, 0])
    assert np.array_equal(found.column, order[expected[:, 1]])
    assert np.abs(found.value - products[inside]).max() < 1e-14


def test_the_error_of_float32_stays_within_its_bound():
    rng = np.random.default_rng(3)
    for n in (3, 100, 5000):
        A = np.abs(rng.normal(size=(40, n)))  # all of one sign: the errors do not cancel
        A /= np.linalg.norm(A, axis=1)[:, None]
        single = A.astype(np.float32)
        error = np.abs(single @ single.T - A @ A.T).max()
        assert 0 < error <= tiles.single_precision_error(n)


def test_a_stop_ends_the_tiles(monkeypatch):
    gram, everyone = gram_of(table()), np.arange(700)
    stopped = tiles.exceeding(
        gram, everyone, everyone, np.full(700, 0.5), everyone, stop=lambda: True
    )
    assert stopped is None
    asked = iter([False, False, True])  # in the middle of the first strip
    monkeypatch.setattr(tiles, "_COLUMNS", 64)
    stopped = tiles.exceeding(
        gram, everyone, everyone, np.full(700, 0.5), everyone, stop=lambda: next(asked, True)
    )
    assert stopped is None
    assert next(asked, None) is None
    nobody = everyone[:0]
    nothing = tiles.exceeding(gram, nobody, everyone, np.empty(0), nobody)
    assert nothing is not None
    assert len(nothing.row) == len(nothing.value) == 0


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("knowledge", [None, {"root_nodes": [3, 4]}])
def test_what_least_squares_lets_in_is_what_whole_rows_say(n_jobs, knowledge, monkeypatch):
    """Half of the matrix in float32, in the sequence of the order, against all rows of it."""
    monkeypatch.setattr(least_squares, "_CORRELATED", 2.0)
    X = sample(random_dag(300, 2, rng=4), 60, rng=5)
    model = OrderSearch(candidates="correlated", n_jobs=n_jobs, knowledge=knowledge)
    run = Run(model, as_dataset(X))
    search = least_squares.LeastSquaresSearch(model, run)
    _, mask = screening.candidates(run.gram, True)
    search.mask = mask if run.limits is None else run.limits.mask(mask)
    order = run.possible(np.random.default_rng(6).permutation(300))
    arranged = search._arranged(order, None)
    some = np.sort(np.random.default_rng(7).choice(300, 250, replace=False))
    pairs, expected = (
        look(arranged, some) for look in (search._outside_of_tiles, search._outside_of_rows)
    )
    assert len(pairs) > 300
    assert np.bincount(pairs[:, 1]).max() == least_squares._LET_IN
    assert set(map(tuple, pairs.tolist())) == set(map(tuple, expected.tolist()))
