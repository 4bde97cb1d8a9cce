"""What is found outside of the candidates by tiles, against regressions on everything."""

from __future__ import annotations

import numpy as np
import pytest

from bigdag import OrderSearch, metrics
from bigdag.data.dataset import as_dataset
from bigdag.engine import screening
from bigdag.engine.gram import Gram
from bigdag.learners.run import Run
from bigdag.search import bic, candidates, insertion, outside
from bigdag.search.ebic import arc_cost
from bigdag.search.outside import outsiders
from bigdag.simulate import random_dag, sample, standardise


def never():
    return False


class Case:
    """A search on lists that miss a part of what is correlated."""

    def __init__(self, seed, d=250, n=90, k=2, n_jobs=1, most=6, cost=None):
        rng = np.random.default_rng(seed)
        X = standardise(sample(random_dag(d, k, rng=rng), n, rng=rng))
        X[:, 7] = 1.0
        with pytest.warns(match="constant"):
            self.gram = Gram(as_dataset(X), n_jobs=n_jobs, hold=False)
        self.d, self.rng = d, rng
        cost = arc_cost(n, d, 0.3) if cost is None else cost
        self.limit = np.sqrt(-np.expm1(-cost / n))
        self.lists = candidates.joined(*screening.correlated(self.gram, self.limit))
        few = screening.correlated(self.gram, self.limit, 3)  # the search begins with less
        lists = candidates.joined(*few)
        self.problem = insertion.Problem(*self.gram.source, float(n), cost, *lists)
        self.state = insertion.begin(rng.permutation(d), most)
        insertion.fit(self.problem, self.state, np.arange(d))
        self.outside = outside.Outside(self.gram, *self.lists, self.limit, np.zeros(d, dtype=bool))

    def expected(self):
        everyone = np.arange(self.d)
        return outsiders(self.problem, self.state, everyone, everyone, 10, 0, self.d)

    def add(self, pairs):
        lists = candidates.joined(self.problem.indptr, self.problem.indices, pairs)
        self.problem = self.problem._replace(indptr=lists[0], indices=lists[1])
        insertion.fit(self.problem, self.state, np.unique(pairs[:, 1]))
        self.state.dirty[pairs.ravel()] = True
        self.state.queue[:], self.state.cursor[0] = self.state.order, 0


def same(found, expected):
    assert found is not None
    assert [tuple(p) for p in found.tolist()] == [
        tuple(p) for p in expected[np.argsort(expected[:, 1], kind="stable")].tolist()
    ]


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("explained", [0.75, 0.0])
def test_a_first_look_finds_all_that_would_help(explained, n_jobs, monkeypatch):
    """With bounds on R², and with all products of every variable that has parents."""
    monkeypatch.setattr(outside, "_EXPLAINED", explained)
    case = Case(0, n_jobs=n_jobs)
    expected = case.expected()
    assert len(expected) > 300
    same(case.outside.look(case.problem, case.state, never), expected)


def test_bounds_hold_for_what_no_parent_lists():
    case = Case(6)
    Z = case.gram.Z
    bound, _ = case.outside._bounds(case.problem, case.state)
    indptr, indices = case.lists
    seen = 0
    for v in range(case.d):
        parents = case.state.parents_of(v)
        near = {v, *parents, *(u for p in parents for u in indices[indptr[p] : indptr[p + 1]])}
        far = [u for u in range(case.d) if u not in near]
        basis = np.linalg.qr(Z[parents].T)[0]
        explained = ((Z[far] @ basis) ** 2).sum(axis=1)
        assert (explained <= bound[v] + 1e-12).all()
        seen += bound[v] < outside._EXPLAINED and len(parents) > 0
    assert seen > 50


@pytest.mark.parametrize("seed", range(4))
def test_later_looks_find_what_has_changed_and_forget_nothing(seed):
    """Each look is that of a fresh one, though it computes only what has changed."""
    case = Case(seed, k=[1, 2, 3, 4][seed])
    sizes = []
    for _ in range(6):
        expected = case.expected()
        found = case.outside.look(case.problem, case.state, never)
        # What an earlier look found and the caller let go is not said again: nothing is let go.
        same(found, expected)
        sizes.append(len(expected))
        if not len(expected):
            break
        case.add(found)
        insertion.descend(case.problem, case.state, 40, False)
    assert len(sizes) > 2


def test_later_looks_compute_little(monkeypatch):
    case = Case(1)
    work = []
    real = outside.exceeding

    def counted(gram, rows, columns, limits, ends, *rest):
        work.append(int(ends.sum()))
        return real(gram, rows, columns, limits, ends, *rest)

    monkeypatch.setattr(outside, "exceeding", counted)
    while len(found := case.outside.look(case.problem, case.state, never)):
        case.add(found)
        done = False
        while not done:
            done, _ = insertion.descend(case.problem, case.state, 1000, False)
    first, work[:] = work[0], []
    state = case.state
    v = int(state.order[-1])  # from the end of the order to its beginning
    state.order[1:], state.order[0] = state.order[:-1].copy(), v
    state.rank[state.order] = np.arange(case.d)
    state.counts[v] = 0
    same(case.outside.look(case.problem, state, never), case.expected())
    assert 0 < sum(work) < 0.05 * first


def test_lists_that_were_cut_bound_nothing():
    """A parent with more correlated ones than its list holds may explain any variable."""
    case = Case(5, k=3)
    few = screening.correlated(case.gram, case.limit, 3)
    cut = np.diff(few[0]) >= 3
    assert cut.any()
    look = outside.Outside(case.gram, *few, case.limit, cut)
    same(look.look(case.problem, case.state, never), case.expected())


def test_a_stop_ends_the_look():
    case = Case(2)
    assert case.outside.look(case.problem, case.state, lambda: True) is None
    same(case.outside.look(case.problem, case.state, never), case.expected())


@pytest.mark.parametrize("seed", range(5))
def test_fewest_variables_that_moved(seed):
    rng = np.random.default_rng(seed)
    before = rng.permutation(60)
    after = before.tolist()
    for _ in range(seed * 3):
        after.insert(int(rng.integers(60)), after.pop(int(rng.integers(60))))
    moved = outside.moved_between(before, np.array(after))
    assert moved.sum() <= seed * 3
    stay = [v for v in before if not moved[v]]
    assert stay == [v for v in after if not moved[v]]
    assert moved.sum() == 0 or seed > 0


@pytest.mark.parametrize("k", [1, 3])
def test_a_search_on_tiles_is_that_on_held_correlations(k, monkeypatch):
    """Held or not, with correlations kept from before or not, on one thread or two."""
    for name in ("EVERY_PAIR", "EVERY_PAIR_DENSE"):
        monkeypatch.setattr(candidates, name, 100)
    monkeypatch.setattr(bic, "_HELD", 100)
    rng = np.random.default_rng(3)
    X = standardise(sample(random_dag(160, k, rng=rng), 400, rng=rng))
    answers = []
    for threads, one_by_one, known in ((1, 0, 64), (2, 0, 64), (2, 0, 1), (2, 1e9, 64)):
        monkeypatch.setattr(candidates, "_ONE_BY_ONE", one_by_one)
        monkeypatch.setattr(bic, "_KNOWN", known)
        answers.append(OrderSearch(criterion="bic", n_jobs=threads).fit(X))
    for other in answers[1:3]:
        assert np.array_equal(other.order_, answers[0].order_)
        assert (other.weights_ != answers[0].weights_).nnz == 0
    assert answers[3].criterion_ == pytest.approx(answers[0].criterion_, rel=1e-9)
    assert (answers[3].cpdag_ != answers[0].cpdag_).nnz == 0


def test_ends_of_paths_of_two_arcs_become_candidates(monkeypatch):
    """On correlated candidates alone, or with a look outside of them, more pairs differ."""
    monkeypatch.setattr(candidates, "EVERY_PAIR", 100)
    monkeypatch.setattr(candidates, "EVERY_PAIR_DENSE", 100)
    truth = random_dag(300, 2, rng=8)
    X = standardise(sample(truth, 1000, rng=9))
    scores = {}
    for rounds in (1, 8):
        monkeypatch.setattr(bic, "_ROUNDS", rounds)
        model = OrderSearch(criterion="bic").fit(X)
        scores[rounds] = model.criterion_, metrics.shd_cpdag(model.dag_, truth)
    assert scores[8][0] < scores[1][0]
    assert scores[8][1] < scores[1][1]
    run = Run(model, as_dataset(X))
    search = bic.InsertionSearch(run, run.gram, 20.0, [])
    arcs = model.weights_ != 0
    near = (arcs + arcs.T).toarray()
    search.state = insertion.begin(model.order_, search.most)
    search.state.counts[:] = np.diff(model.weights_.indptr)
    for v in range(300):
        search.state.parents_of(v)[:] = model.weights_.indices[
            model.weights_.indptr[v] : model.weights_.indptr[v + 1]
        ]
    expected = np.argwhere(np.triu((near.astype(int) @ near.astype(int)) > 0, 1))
    assert np.array_equal(np.unique(search._two_steps(), axis=0), np.unique(expected, axis=0))


def test_arcs_that_cost_nothing_are_not_listed_all_at_once(monkeypatch):
    """Chance alone exceeds such a limit for most pairs: they are looked at one by one."""
    monkeypatch.setattr(candidates, "EVERY_PAIR", 10)
    X = standardise(sample(random_dag(40, 1, rng=1), 100, rng=2))
    run = Run(OrderSearch(criterion="bic"), as_dataset(X))
    assert bic.InsertionSearch(run, run.gram, 20.0, [])._outside is not None
    monkeypatch.setattr(run.gram, "left", lambda: 4 * 100 * 40**2 // 4)
    assert bic.InsertionSearch(run, run.gram, 20.0, [])._outside is not None
    assert bic.InsertionSearch(run, run.gram, 0.0, [])._outside is None


@pytest.mark.parametrize("knowledge", [
    {"regulators": [f"x{i}" for i in range(0, 250, 3)]},
    {"root_nodes": ["x3"], "sink_nodes": ["x8", "x9"], "forbidden_edges": [("x1", "x2")]},
])  # fmt: skip
def test_what_is_known_beforehand_is_kept_outside_of_the_candidates(knowledge, monkeypatch):
    """Only possible arcs are found, and all of them that would help."""
    monkeypatch.setattr(candidates, "EVERY_PAIR", 100)
    X = standardise(sample(random_dag(250, 2, rng=3), 90, rng=4))
    model = OrderSearch(criterion="bic", knowledge=knowledge, n_jobs=1)
    run = Run(model, as_dataset(X))
    search = bic.InsertionSearch(run, run.gram, 8.0, [])
    assert search._outside is not None
    search.state = search._fitted(np.random.default_rng(5).permutation(250))
    problem, state = search.problem, search.state
    expected = outsiders(problem, state, np.arange(250), run.limits.causes, 10, 0, 250)
    assert len(expected) > 50
    same(search._outside.look(problem, state, never), expected)
