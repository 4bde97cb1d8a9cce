"""Moves that lower equation (1), against scikit-learn's lasso on whole orders."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Lasso

from bigdag.data.dataset import Dataset, as_dataset
from bigdag.engine.gram import Gram
from bigdag.engine.order import rank_of
from bigdag.errors import DataWarning
from bigdag.search.arrangement import Arrangement
from bigdag.simulate import random_dag, sample

from .learner_contract import equation_1

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SEEDS = st.integers(0, 2**31 - 1)
LAMBDA1 = 0.1


def cost(X, v, parents):
    """Return a column's part of equation (1), by scikit-learn."""
    X, parents = X - X.mean(axis=0), list(parents)
    if not parents:
        return float(X[:, v] @ X[:, v]) / (2 * len(X))
    model = Lasso(alpha=LAMBDA1, fit_intercept=False, tol=1e-12, max_iter=10**5)
    w = model.fit(X[:, parents], X[:, v]).coef_
    r = X[:, v] - X[:, parents] @ w
    return float(r @ r) / (2 * len(X)) + LAMBDA1 * np.abs(w).sum()


def order_costs(X, order, mask=None):
    """Return each column's least part of equation (1) on an order."""
    costs = np.empty(len(order))
    for place, v in enumerate(order):
        costs[v] = cost(X, v, [u for u in order[:place] if mask is None or mask[u, v]])
    return costs


def moved(order, old, new):
    rest = np.delete(order, old)
    return np.insert(rest, new, order[old])


def make(seed, d=8, n=60, k=2, masked=False, hold=None, tol=1e-9, **options):
    """Return samples, a mask (or None) and an arrangement on a random order."""
    rng = np.random.default_rng(seed)
    X = sample(random_dag(d, k, rng=rng), n, rng=rng)
    mask = rng.random((d, d)) < 0.6 if masked else None
    gram = Gram(as_dataset(X), n_jobs=1, hold=hold)
    sparse = None if mask is None else sp.csc_array(mask.astype(np.int8))
    order = rng.permutation(d)
    return X, mask, Arrangement(gram, LAMBDA1, order, mask=sparse, tol=tol, **options)


def disjoint(rng, d):
    """Return random moves on disjoint stretches of an order."""
    ends = np.sort(rng.choice(d, size=2 * rng.integers(1, d // 2 + 1), replace=False))
    pairs = ends.reshape(-1, 2)
    back = rng.random(len(pairs)) < 0.5
    pairs[back] = pairs[back][:, ::-1]
    return pairs


def check(X, mask, arrangement):
    """Check that value, weights and costs are those of the order; return the value."""
    costs = order_costs(X, arrangement.order, mask)
    assert arrangement.costs == pytest.approx(costs, rel=1e-6)
    value = equation_1(X, arrangement.weights, LAMBDA1)
    assert arrangement.value == pytest.approx(value, rel=1e-9)
    rank, arcs = rank_of(arrangement.order), arrangement.weights.tocoo()
    assert (rank[arcs.row] < rank[arcs.col]).all()
    assert mask is None or mask[arcs.row, arcs.col].all()
    return value


@settings(max_examples=15)
@given(seed=SEEDS, masked=st.booleans(), hold=st.booleans())
def test_moves_never_raise_equation_1(seed, masked, hold):
    """Any moves at all: kept exactly where the whole lasso, solved anew, is lower."""
    X, mask, arrangement = make(seed, masked=masked, hold=hold)
    rng = np.random.default_rng(seed)
    value = check(X, mask, arrangement)
    for _ in range(4):
        before, costs = arrangement.order.copy(), order_costs(X, arrangement.order, mask)
        moves = disjoint(rng, len(before))
        kept = arrangement.attempt(moves)
        for (old, new), taken in zip(moves, kept):
            gain = costs.sum() - order_costs(X, moved(before, old, new), mask).sum()
            assert taken == (gain > 0) or abs(gain) < 1e-6 * value
        expected = before
        for old, new in moves[kept]:
            expected = moved(expected, old, new)
        assert np.array_equal(arrangement.order, expected)
        after = check(X, mask, arrangement)
        assert after < value if kept.any() else after == pytest.approx(value, rel=1e-12)
        value = after


@settings(max_examples=15)
@given(seed=SEEDS, masked=st.booleans(), hold=st.booleans())
def test_insertions_gain_what_they_promise(seed, masked, hold):
    X, mask, arrangement = make(seed, masked=masked, hold=hold)
    costs = order_costs(X, arrangement.order, mask)
    gains, places = arrangement._best_places()
    rank = rank_of(arrangement.order)
    for v in range(len(costs)):
        order = moved(arrangement.order, rank[v], places[v])
        real = costs.sum() - order_costs(X, order, mask).sum()
        assert real >= gains[v] - 1e-6 * costs.sum()
    moves = arrangement.insertions()
    promised = [gains[arrangement.order[old]] for old, _ in moves]
    assert promised == sorted(promised, reverse=True)
    assert all(gain > 1e-5 * arrangement.value for gain in promised)
    spans = [set(range(min(move), max(move) + 1)) for move in moves.tolist()]
    assert sum(map(len, spans)) == len(set().union(*spans))
    assert arrangement.attempt(moves).all()


@pytest.mark.parametrize("seed", range(5))
def test_insertions_leave_out_what_they_are_told_to(seed):
    _, _, arrangement = make(seed)
    moves = arrangement.insertions()
    assert len(moves)
    skip = np.zeros(8, dtype=bool)
    skip[arrangement.order[moves[:, 0]]] = True
    again = arrangement.insertions(skip)
    assert not skip[arrangement.order[again[:, 0]]].any()


@settings(max_examples=15)
@given(seed=SEEDS, masked=st.booleans(), hold=st.booleans())
def test_swaps_that_are_left_out_change_nothing(seed, masked, hold):
    X, mask, arrangement = make(seed, masked=masked, hold=hold)
    costs = order_costs(X, arrangement.order, mask)
    listed = {tuple(move) for parity in (0, 1) for move in arrangement.swaps(parity)}
    for parity in (0, 1):
        assert all(new % 2 == parity for _, new in arrangement.swaps(parity))
    for new in range(len(costs) - 1):
        if (new + 1, new) not in listed:
            swapped = order_costs(X, moved(arrangement.order, new + 1, new), mask)
            assert swapped == pytest.approx(costs, rel=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_no_swap_that_gains_is_left_out(seed):
    """Refused swaps are not tried again while nothing near them changes, and that misses none."""
    X, _, arrangement = make(seed, d=8, k=3)
    rng = np.random.default_rng(seed)
    for turn in range(12):
        moves = arrangement.swaps(turn % 2) if turn % 3 else disjoint(rng, 8)
        if len(moves):
            arrangement.attempt(moves)
        value = order_costs(X, arrangement.order).sum()
        listed = {new for parity in (0, 1) for _, new in arrangement.swaps(parity)}
        for new in set(range(7)) - listed:
            swapped = order_costs(X, moved(arrangement.order, new + 1, new)).sum()
            assert swapped >= value * (1 - 1e-6)


def test_a_full_mask_is_no_mask():
    X, _, free = make(3, d=20, n=100)
    full = sp.csc_array(np.ones((20, 20), dtype=np.int8))
    masked = Arrangement(free.gram, LAMBDA1, free.order, mask=full, tol=1e-9)
    while len(moves := free.insertions()):
        assert masked._best_places()[0] == pytest.approx(free._best_places()[0], abs=1e-5)
        assert np.array_equal(masked.attempt(moves), free.attempt(moves))
        assert masked.value == pytest.approx(free.value, rel=1e-7)
    assert free.value == pytest.approx(equation_1(X, free.weights, LAMBDA1), rel=1e-9)


def test_covariance_and_correlations_not_held_give_the_same_moves():
    X, _, held = make(4, d=20, n=100, hold=True)
    S = np.cov(X, rowvar=False, bias=True)
    for other in (Gram(as_dataset(X), hold=False), Gram(Dataset.from_covariance(S, len(X)))):
        again = Arrangement(other, LAMBDA1, held.order, tol=1e-9)
        assert again._best_places()[0] == pytest.approx(held._best_places()[0], abs=1e-5)
        for parity in (0, 1):
            assert np.array_equal(again.swaps(parity), held.swaps(parity))


def test_a_stop_in_the_middle_of_a_move_takes_it_back():
    now = [False]
    X, mask, arrangement = make(5, stop=lambda: now[0])
    value, order = arrangement.value, arrangement.order.copy()
    moves = arrangement.insertions()
    now[0] = True
    assert not arrangement.attempt(moves).any()
    assert np.array_equal(arrangement.order, order)
    assert arrangement.value == value
    check(X, mask, arrangement)
    now[0] = False
    assert arrangement.attempt(moves).all()
    check(X, mask, arrangement)


def test_a_stop_at_the_start_leaves_a_dag():
    X = sample(random_dag(30, 2, rng=0), 50, rng=1)
    cyclic = sp.csc_array(np.random.default_rng(0).normal(size=(30, 30)))
    cyclic.setdiag(0)
    gram = Gram(as_dataset(X))
    stopped = Arrangement(gram, LAMBDA1, np.arange(30), start=cyclic, stop=lambda: True)
    assert not stopped.complete
    arcs = stopped.weights.tocoo()
    assert (arcs.row < arcs.col).all()


def test_constants_and_copies():
    X = sample(random_dag(8, 1, rng=0), 40, rng=1)
    X[:, 2], X[:, 5] = 7.0, X[:, 4]
    with pytest.warns(DataWarning):
        gram = Gram(as_dataset(X))
    arrangement = Arrangement(gram, LAMBDA1, np.arange(8)[::-1], tol=1e-9)
    value = arrangement.value
    while len(moves := arrangement.insertions()):
        assert arrangement.attempt(moves).any()
        assert arrangement.value < value
        value = arrangement.value
    W = arrangement.weights.toarray()
    assert not W[2].any()
    assert not W[:, 2].any()
    assert value == pytest.approx(equation_1(X, W, LAMBDA1), rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_turning_arcs_never_raises_equation_1_and_helps_where_insertions_do_not(seed):
    truth = random_dag(30, 2, rng=seed)
    X = sample(truth, 300, rng=seed + 100)
    arrangement = Arrangement(Gram(as_dataset(X)), 0.1, np.arange(30))
    stuck = np.zeros(30, dtype=bool)
    while len(moves := arrangement.insertions(stuck)):
        variables = arrangement.order[moves[:, 0]]
        stuck[variables[~arrangement.attempt(moves)]] = True
    values = [arrangement.value]
    while arrangement.reverse():
        values.append(arrangement.value)
        rank = np.argsort(arrangement.order)
        rows, columns = arrangement.weights.nonzero()
        assert (rank[rows] < rank[columns]).all()
        assert sorted(arrangement.order) == list(range(30))
        W = arrangement.weights.toarray()
        centred = X - X.mean(axis=0)
        direct = np.sum((centred @ W - centred) ** 2) / 600 + 0.1 * np.abs(W).sum()
        assert arrangement.value == pytest.approx(direct, rel=1e-9)
    assert all(b < a for a, b in itertools.pairwise(values))


def test_some_arc_is_turned_that_no_insertion_turns():
    turned = 0
    for seed in range(12):
        truth = random_dag(40, 2, rng=seed)
        gram = Gram(as_dataset(sample(truth, 300, rng=seed + 100)))
        arrangement = Arrangement(gram, 0.1, np.arange(40))
        stuck = np.zeros(40, dtype=bool)
        while len(moves := arrangement.insertions(stuck)):
            variables = arrangement.order[moves[:, 0]]
            stuck[variables[~arrangement.attempt(moves)]] = True
        turned += arrangement.reverse()
    assert turned > 0
