"""The search by best insertion, against fresh regressions and a literal transcription in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigdag.data.dataset import as_dataset
from bigdag.engine import regression
from bigdag.engine.gram import Gram
from bigdag.errors import DataWarning
from bigdag.search import insertion
from bigdag.search.ebic import arc_cost
from bigdag.search.outside import outsiders
from bigdag.simulate import random_dag, sample, standardise

from .literal import bic_cost, grow_shrink, insertion_change

SEEDS = st.integers(0, 2**31 - 1)


class Case:
    """Samples of a random model, a problem on them, and a state with a random order."""

    def __init__(self, seed, d=8, n=60, k=2, most=3, held=True, sparse=False):
        rng = np.random.default_rng(seed)
        self.X = standardise(sample(random_dag(d, k, rng=rng), n, rng=rng))
        self.d, self.n, self.most = d, n, most
        self.arc_cost = arc_cost(n, d, 0.5)
        source, held = Gram(as_dataset(self.X), n_jobs=1, hold=held).source
        near = ~np.eye(d, dtype=bool)
        if sparse:
            near &= np.triu(rng.random((d, d)) < 0.5, 1)
            near |= near.T
        self.near = [np.flatnonzero(row).tolist() for row in near]
        indptr = np.concatenate([[0], np.cumsum(near.sum(axis=1))])
        indices = np.concatenate([*map(np.flatnonzero, near), []]).astype(np.int32)
        self.problem = insertion.Problem(source, held, float(n), self.arc_cost, indptr, indices)
        self.order = rng.permutation(d)
        self.state = insertion.begin(self.order, most)
        insertion.fit(self.problem, self.state, np.arange(d))

    def parents(self):
        return [self.state.parents_of(v).tolist() for v in range(self.d)]

    def check(self):
        """Check that the state holds together; return its score by fresh regressions."""
        state = self.state
        assert sorted(state.order) == list(range(self.d))
        assert np.array_equal(state.order[state.rank], np.arange(self.d))
        total = 0.0
        for v, parents in enumerate(self.parents()):
            assert len(set(parents)) == len(parents) <= self.most
            assert all(state.rank[u] < state.rank[v] for u in parents)
            assert set(parents) <= set(self.near[v])
            expected = bic_cost(self.X, v, parents, self.arc_cost)
            assert state.costs[v] == pytest.approx(expected, abs=1e-6)
            total += expected
        return total


# ------------------------------------------------------------------ one regression


@settings(max_examples=40)
@given(seed=SEEDS, held=st.booleans(), data=st.data())
def test_factor_updates_equal_fresh_regressions(seed, held, data):
    """Whatever is added and taken out, all that is kept up is that of the present parents."""
    case = Case(seed, d=9, most=6, held=held)
    Z = (case.X - case.X.mean(axis=0)) / np.linalg.norm(case.X - case.X.mean(axis=0), axis=0)
    desk = regression.new_desk(8, 6)
    desk.names[:] = np.arange(8)  # the regressed variable is the last
    regression.clear(case.problem, desk, 8, 8)
    parents, share = [], 1.0
    for _ in range(12):
        out = [i for i in range(8) if i not in parents] if len(parents) < 6 else []
        actions = [("add", i) for i in out] + [("cut", p) for p in parents]
        action = data.draw(st.sampled_from(actions))
        if action[0] == "add":
            share -= regression.add(case.problem, desk, 8, len(parents), action[1])
            parents.append(action[1])
        else:
            share += regression.remove(desk, 8, len(parents), parents.index(action[1]))
            parents.remove(action[1])
        size = len(parents)
        assert desk.chosen[:size].tolist() == parents
        assert sorted(np.flatnonzero(desk.member)) == sorted(parents)
        b = np.linalg.lstsq(Z[:, parents], Z[:, 8], rcond=None)[0]
        r = Z[:, 8] - Z[:, parents] @ b
        assert desk.b[:size] == pytest.approx(b, abs=1e-8)
        assert share == pytest.approx(r @ r, abs=1e-9)
        inverse = np.linalg.inv(Z[:, parents].T @ Z[:, parents]) if size else np.empty((0, 0))
        assert desk.inverse[:size] == pytest.approx(np.diag(inverse), rel=1e-6)
        rest = Z[:, :8] - Z[:, parents] @ np.linalg.lstsq(Z[:, parents], Z[:, :8], rcond=None)[0]
        assert desk.num == pytest.approx(Z[:, :8].T @ r, abs=1e-9)
        assert desk.den == pytest.approx((rest**2).sum(axis=0), abs=1e-9)


@settings(max_examples=25)
@given(seed=SEEDS, held=st.booleans(), sparse=st.booleans())
def test_parents_are_grown_and_shrunk(seed, held, sparse):
    case = Case(seed, held=held, sparse=sparse)
    case.check()
    rank = case.state.rank
    for v, parents in enumerate(case.parents()):
        allowed = [u for u in case.near[v] if rank[u] < rank[v]]
        expected = grow_shrink(case.X, v, allowed, [], case.arc_cost, case.most)
        assert sorted(parents) == sorted(expected)


@settings(max_examples=25)
@given(seed=SEEDS, sparse=st.booleans())
def test_gain_of_one_more_parent(seed, sparse):
    case = Case(seed, sparse=sparse)
    desk = regression.new_desk(case.d, case.most)
    least = regression.least_gain(case.problem)
    for w, parents in enumerate(case.parents()):
        for v in set(range(case.d)) - {w, *parents}:
            now, then = (bic_cost(case.X, w, p, case.arc_cost) for p in (parents, [*parents, v]))
            gain = insertion._gain_through(case.problem, desk, case.state, w, v, 0.0)
            assert gain == pytest.approx(now - then, abs=1e-6)
            quick = insertion._gain_through(case.problem, desk, case.state, w, v, least)
            assert quick == gain or (quick == -np.inf and gain <= regression.GAIN)


# ------------------------------------------------------------------ moves


@settings(max_examples=15)
@given(seed=SEEDS, held=st.booleans(), sparse=st.booleans())
def test_every_place_of_every_variable(seed, held, sparse):
    """The table of a move equals the literal sums, at each place among the candidates."""
    case = Case(seed, d=7, held=held, sparse=sparse)
    state = case.state
    insertion.descend(case.problem, state, 4, True)  # some moves from a random order
    desk, move = regression.new_desk(7, case.most), insertion._move(7, case.most, 7)
    for v in range(7):
        m, _, _, here = insertion._look(case.problem, desk, state, move, v, True)
        assert sorted(move.names[:m]) == sorted(case.near[v])
        rest = [u for u in state.order if u != v]
        for i in range(m + 1):
            low, high = min(i, here), max(i, here)
            found = move.own[i] - state.costs[v] + move.change[low:high].sum()
            place = state.rank[v]  # where v stands, when it passes no candidate
            if i < here:
                place = rest.index(move.names[i])
            elif i > here:
                place = rest.index(move.names[i - 1]) + 1
            expected = insertion_change(
                case.X, state.order, case.parents(), case.near, v, place, case.arc_cost, case.most
            )
            assert found == pytest.approx(expected, abs=1e-6)


@settings(max_examples=25)
@given(seed=SEEDS, held=st.booleans(), sparse=st.booleans(), k=st.sampled_from([1, 2, 3]))
def test_moves_never_raise_the_score(seed, held, sparse, k):
    case = Case(seed, d=10, held=held, sparse=sparse, k=k)
    before, done = case.check(), False
    while not done:
        done, moved = insertion.descend(case.problem, case.state, 1, True)
        after = case.check()
        assert after < before if moved else after == pytest.approx(before, abs=1e-6)
        before = after
    assert case.state.total() == pytest.approx(before, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_descent_does_not_depend_on_how_it_is_cut(seed):
    whole, cut = Case(seed, d=20), Case(seed, d=20)
    assert insertion.descend(whole.problem, whole.state, 10**9, True)[0]
    while not insertion.descend(cut.problem, cut.state, 3, True)[0]:
        pass
    for one, other in zip(whole.state[:9], cut.state[:9]):  # without the factors kept
        assert np.array_equal(one, other)


@settings(max_examples=25)
@given(seed=SEEDS, sparse=st.booleans())
def test_shaking_keeps_the_state_together(seed, sparse):
    case = Case(seed, d=10, sparse=sparse)
    insertion.descend(case.problem, case.state, 10**9, True)
    best = case.state.copy()
    rng = np.random.default_rng(seed)
    insertion.shake(case.problem, case.state, rng.integers(10, size=4), rng.random(4))
    case.check()
    moved = best.rank != case.state.rank
    assert not moved.any() or case.state.dirty.any()
    assert insertion.descend(case.problem, case.state, 10**9, True)[0]
    case.check()


def test_a_copy_shares_nothing():
    state = Case(0).state
    assert not any(np.shares_memory(a, b) for a, b in zip(state, state.copy()))


# ------------------------------------------------------------------ outside of the candidates


@settings(max_examples=25)
@given(seed=SEEDS, held=st.booleans(), keep=st.sampled_from([1, 2, 10]))
def test_outsiders_are_all_that_would_help(seed, held, keep):
    case = Case(seed, d=10, k=3, held=held, sparse=True)
    rank, expected = case.state.rank, set()
    for v, parents in enumerate(case.parents()):
        now = bic_cost(case.X, v, parents, case.arc_cost)
        gains = {
            u: now - bic_cost(case.X, v, [*parents, u], case.arc_cost)
            for u in range(10)
            if rank[u] < rank[v] and u not in case.near[v] and len(parents) < case.most
        }
        best = sorted((u for u in gains if gains[u] > 1e-7), key=gains.get, reverse=True)
        expected |= {(u, v) for u in best[:keep]}
    found = outsiders(case.problem, case.state, np.arange(10), np.arange(10), keep, 0, 10)
    assert {(u, v) for u, v in found.tolist()} == expected


# ------------------------------------------------------------------ from parents to weights


@settings(max_examples=15)
@given(seed=SEEDS, held=st.booleans())
def test_coefficients_are_those_of_least_squares(seed, held):
    case = Case(seed, held=held)
    values = np.full(len(case.state.parents), np.nan)
    insertion.coefficients(case.problem, case.state, values, 0, case.d)
    values = values.reshape(case.d, case.most)
    Z = (case.X - case.X.mean(axis=0)) / case.X.std(axis=0)
    for v, parents in enumerate(case.parents()):
        expected = np.linalg.lstsq(Z[:, parents], Z[:, v], rcond=None)[0]
        assert values[v, : len(parents)] == pytest.approx(expected, abs=1e-8)


@settings(max_examples=15)
@given(seed=SEEDS, sparse=st.booleans())
def test_pruning_only_shrinks(seed, sparse):
    case = Case(seed, sparse=sparse)
    rng = np.random.default_rng(seed)
    for v in range(case.d):  # any predecessors
        ahead = case.state.order[: case.state.rank[v]]
        some = rng.permutation(ahead)[: case.most]
        case.state.counts[v] = len(some)
        case.state.parents_of(v)[:] = some
    before = case.parents()
    insertion.prune(case.problem, case.state, 0, case.d)
    for v, parents in enumerate(case.parents()):
        expected = grow_shrink(case.X, v, [], before[v], case.arc_cost, case.most)
        assert sorted(parents) == sorted(expected)
        cost = bic_cost(case.X, v, parents, case.arc_cost)
        assert case.state.costs[v] == pytest.approx(cost, abs=1e-6)


def test_copies_and_constants_are_never_parents_together():
    X = Case(0, d=6, n=40).X.copy()
    X[:, 3] = -5 * X[:, 0]
    X[:, 4] = X[:, 1] + X[:, 2]
    X[:, 5] = 1.0
    with pytest.warns(DataWarning):
        source = Gram(as_dataset(X), n_jobs=1).source
    indices = np.array([u for v in range(6) for u in range(6) if u != v], dtype=np.int32)
    problem = insertion.Problem(*source, 40.0, 1.0, np.arange(0, 31, 5), indices)
    for seed in range(20):
        state = insertion.begin(np.random.default_rng(seed).permutation(6), 5)
        insertion.fit(problem, state, np.arange(6))
        assert insertion.descend(problem, state, 10**9, True)[0]
        assert np.isfinite(state.costs).all()
        parents = [set(state.parents_of(v).tolist()) for v in range(6)]
        assert not any({0, 3} <= p or {1, 2, 4} <= p or 5 in p for p in parents)
        assert not parents[5]
