"""OrderSearch: both criteria against enumeration, equivalence, units and the contract."""

from __future__ import annotations

import itertools
import warnings
from functools import cache

import flopsearch
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Lasso

from bigdag import OrderSearch, ProxiMAS, metrics, simulate
from bigdag.data.dataset import Dataset, as_dataset
from bigdag.engine.gram import Gram
from bigdag.engine.objective import losses
from bigdag.errors import DataWarning, GraphError, ParameterError
from bigdag.graph.acyclic import is_acyclic
from bigdag.graph.dag import DAG
from bigdag.learners.run import Run
from bigdag.search import bic as bic_search
from bigdag.search import least_squares, penalty_path
from bigdag.search.ebic import arc_cost
from bigdag.search.start_orders import r2_order

from .learner_contract import LearnerContract, equation_1, interrupted
from .literal import bic_cost, insertion_change

CRITERIA = ["least_squares", "bic"]
SEEDS = st.integers(0, 2**31 - 1)


class TestLeastSquares(LearnerContract):
    make = staticmethod(lambda: OrderSearch())
    not_held = 0.2  # the order by least variance left then is that of a sparse support


class TestBIC(LearnerContract):
    make = staticmethod(lambda: OrderSearch(criterion="bic"))

    def worth(self, run):
        if run.gram.Z is not None or run.gram.C is not None:  # they are released at the end
            everyone = np.arange(run.gram.d)
            S = run.gram.block(everyone, everyone) * np.outer(run.gram.sd, run.gram.sd)
            self.data = Dataset.from_covariance(S, run.gram.n_samples)
        gram = Gram(self.data)
        share = 2 * losses(gram, run.best_weights) * gram.inverse_sd**2
        cost = arc_cost(gram.n_samples, gram.d) * run.best_weights.nnz
        return float(gram.n_samples * np.log(np.maximum(share, 1e-12)).sum() + cost)


def world(d, k, n, seed=0):
    """Return a random model and raw samples of it."""
    truth = simulate.random_dag(d, k, rng=seed)
    return truth, simulate.sample(truth, n, rng=seed + 1)


def arcs(weights):
    return set(zip(*(index.tolist() for index in weights.tocoo().coords)))


def lasso_cost(X, v, parents):
    """Return a column's part of equation (1) at lambda1 = 0.1, by scikit-learn."""
    X, parents = X - X.mean(axis=0), list(parents)
    if not parents:
        return float(X[:, v] @ X[:, v]) / (2 * len(X))
    model = Lasso(alpha=0.1, fit_intercept=False, tol=1e-10, max_iter=10**5)
    w = model.fit(X[:, parents], X[:, v]).coef_
    return float(np.sum((X[:, v] - X[:, parents] @ w) ** 2) / (2 * len(X)) + 0.1 * np.abs(w).sum())


def bic(X, W):
    """Return the extended BIC of a graph's arcs, by lstsq."""
    W = W.toarray() if sp.issparse(W) else np.asarray(W)
    penalty = arc_cost(*X.shape)
    return sum(bic_cost(X, v, np.flatnonzero(W[:, v]).tolist(), penalty) for v in range(len(W)))


def value_of(criterion, X, weights):
    return bic(X, weights) if criterion == "bic" else equation_1(X, weights, 0.1)


# ------------------------------------------------------------------ the optimum


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("d", "seed"), [(2, 0), (4, 1), (5, 2), (6, 3)])
def test_equation_1_is_the_least_of_all_orders(d, seed):
    X = world(d, min(2, (d - 1) / 2), 40, seed)[1]
    cost = cache(lambda v, ahead: lasso_cost(X, v, sorted(ahead)))
    least = min(
        sum(cost(v, frozenset(order[:i])) for i, v in enumerate(order))
        for order in itertools.permutations(range(d))
    )
    model = OrderSearch(tol=1e-8).fit(X)
    assert model.status_ == "converged"
    assert model.criterion_ == model.objective_ == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize(("d", "seed"), [(2, 0), (4, 1), (5, 2), (6, 3), (6, 4)])
def test_bic_is_the_least_of_all_orders_and_parents(d, seed):
    X = world(d, min(2, (d - 1) / 2), 40, seed)[1]
    penalty = arc_cost(40, d)

    @cache
    def cost(v, ahead):
        subsets = itertools.chain.from_iterable(
            itertools.combinations(sorted(ahead), size) for size in range(len(ahead) + 1)
        )
        return min(bic_cost(X, v, parents, penalty) for parents in subsets)

    least = min(
        sum(cost(v, frozenset(order[:i])) for i, v in enumerate(order))
        for order in itertools.permutations(range(d))
    )
    model = OrderSearch(criterion="bic").fit(X)
    assert model.status_ == "converged"
    assert model.criterion_ == pytest.approx(least, abs=1e-6)
    assert bic(X, model.weights_) == pytest.approx(least, abs=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("candidates", ["all", "correlated"])
@pytest.mark.parametrize("seed", range(6))
def test_no_swap_of_neighbours_lowers_equation_1(seed, candidates, monkeypatch):
    monkeypatch.setattr(least_squares, "_EXACT", 0)
    X = world(8, 2, 50, seed)[1]
    rng = np.random.default_rng(seed)
    start = DAG(np.zeros((8, 8)), order=rng.permutation(8))
    model = OrderSearch(start=start, tol=1e-9, candidates=candidates, n_jobs=1)
    run = Run(model, as_dataset(X))
    search = least_squares.LeastSquaresSearch(model, run)
    search.work()
    mask = np.ones((8, 8)) if search.mask is None else search.mask.toarray()

    def total(order):
        return sum(
            lasso_cost(X, v, [u for u in order[:i] if mask[u, v]]) for i, v in enumerate(order)
        )

    order = run.best_order.tolist()
    least = total(order)
    assert run.status == "converged"
    assert run.best_objective == pytest.approx(least, rel=1e-6)
    for i in range(7):
        swapped = [*order[:i], order[i + 1], order[i], *order[i + 2 :]]
        assert total(swapped) >= least * (1 - 1e-6)


@settings(max_examples=20)
@given(seed=SEEDS, k=st.sampled_from([1, 2, 3]), gamma=st.sampled_from([0.0, 0.5, 1.0]))
@example(seed=34, k=2, gamma=1.0)  # an insertion that only a whole round finds
@example(seed=14, k=2, gamma=0.5)
@example(seed=3, k=3, gamma=0.0)
@example(seed=3000, k=3, gamma=0.0)  # a parent from outside the candidates
def test_no_insertion_lowers_the_bic(seed, k, gamma):
    X = world(8, k, 100, seed)[1]
    model = OrderSearch(criterion="bic", gamma=gamma, n_jobs=1)
    run = Run(model, as_dataset(X))
    cost = arc_cost(*X.shape, gamma)
    search = bic_search.InsertionSearch(run, run.gram, cost, model._orders(run, ["r2"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bic_search, "_EXACT", 0)
        search.work()
    problem, state = search.problem, search.state
    near = [set(a.tolist()) for a in np.split(problem.indices, problem.indptr[1:-1])]
    parents = [state.parents_of(v).tolist() for v in range(8)]
    assert run.status == "converged"
    for v in range(8):
        for place in range(8):
            change = insertion_change(
                X, state.order, parents, near, v, place, problem.arc_cost, search.most
            )
            assert change > -1e-6
        # Nor does any one parent more or less.
        now = bic_cost(X, v, parents[v], problem.arc_cost)
        ahead = state.order[: state.rank[v]].tolist()
        others = [[*parents[v], u] for u in ahead if u not in parents[v]]
        others += [[p for p in parents[v] if p != u] for u in parents[v]]
        assert all(bic_cost(X, v, one, problem.arc_cost) > now - 1e-6 for one in others)


@pytest.mark.parametrize("seed", range(3))
def test_local_searches_never_beat_the_exact_one(seed, monkeypatch):
    X = world(8, 2, 60, seed)[1]
    for criterion in CRITERIA:
        exact = OrderSearch(criterion=criterion, tol=1e-8).fit(X).criterion_
        with monkeypatch.context() as patch:
            patch.setattr(bic_search, "_EXACT", 0)
            patch.setattr(least_squares, "_EXACT", 0)
            local = (
                OrderSearch(criterion=criterion, tol=1e-8, restarts=20, random_state=0)
                .fit(X)
                .criterion_
            )
        assert local >= exact - 1e-6 * abs(exact)
        assert local <= exact + 0.02 * abs(exact)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_steps_never_raise_the_score(criterion):
    X = world(40, 2, 100)[1]
    seen = []

    def note(state):
        seen.append((state.phase, value_of(criterion, X, state.best())))

    model = OrderSearch(criterion=criterion, callback=note, restarts=8, random_state=0).fit(X)
    values = [value for _, value in seen]
    assert all(b <= a + 1e-6 for a, b in itertools.pairwise(values))
    assert model.criterion_ == pytest.approx(values[-1], rel=1e-9)
    assert model.criterion_ < values[0]
    assert {"start", "insertion"} <= {phase for phase, _ in seen}


# ------------------------------------------------------------------ equivalence


def orientations(skeleton):
    """Yield all DAGs with these connected pairs, as 0/1 matrices."""
    pairs = np.argwhere(np.triu(skeleton))
    for flips in itertools.product([False, True], repeat=len(pairs)):
        W = np.zeros(skeleton.shape)
        for (i, j), flip in zip(pairs, flips):
            W[(j, i) if flip else (i, j)] = 1
        if is_acyclic(sp.csc_array(W)):
            yield W


@pytest.mark.parametrize("seed", range(4))
def test_equivalent_dags_have_the_same_bic(seed):
    """And those with the same skeleton that are not equivalent do not."""
    X = world(5, 1.2, 60, seed)[1]
    model = OrderSearch(criterion="bic", gamma=0.0, penalty=0.5).fit(X)
    own = model.weights_.toarray() != 0
    penalty = 0.5 * arc_cost(60, 5, 0.0)
    same = 0
    for W in orientations(own | own.T):
        criterion = sum(bic_cost(X, v, np.flatnonzero(W[:, v]).tolist(), penalty) for v in range(5))
        if np.array_equal(metrics.cpdag(W).toarray(), model.cpdag_.toarray()):
            same += 1
            assert criterion == pytest.approx(model.criterion_, abs=1e-6)
        else:
            assert abs(criterion - model.criterion_) > 1e-6
    undirected = model.cpdag_.multiply(model.cpdag_.T).nnz // 2
    assert same > 0
    assert (same > 1) == (undirected > 0)


@pytest.mark.parametrize("threshold", [None, "auto", 0.5])
def test_arcs_that_data_cannot_direct_are_marked(threshold):
    X = world(30, 1, 200)[1]
    model = OrderSearch(criterion="bic", threshold=threshold).fit(X)
    if threshold is None:  # a cut may take a collider away, but turns no arc
        assert np.array_equal(model.cpdag_.toarray(), metrics.cpdag(model.dag_).toarray())
    assert model.cpdag_.dtype == np.int8
    both = model.cpdag_.toarray() * model.cpdag_.toarray().T
    table = model.dag_.edges()
    place = {name: i for i, name in enumerate(model.dag_.names)}
    ends = zip(table["source"], table["target"], table["direction"])
    marks = {(place[a], place[b]): mark for a, b, mark in ends}
    assert set(marks) == arcs(model.weights_)
    assert set(marks.values()) == {"--", "->"}
    for (i, j), mark in marks.items():
        assert model.cpdag_[i, j] == 1
        assert (mark == "--") == bool(both[i, j])
    assert arcs(model.dag_.reversible) == {pair for pair, mark in marks.items() if mark == "--"}
    assert "direction" not in OrderSearch().fit(X).dag_.edges()


# ------------------------------------------------------------------ units, labels, threads


@settings(max_examples=12)
@given(seed=SEEDS, d=st.sampled_from([6, 12, 30]), n=st.sampled_from([25, 100]))
@example(seed=1, d=6, n=100)  # equivalent orders, told apart by rounding
@example(seed=0, d=12, n=25)
def test_units_do_not_change_the_bic_answer(seed, d, n):
    X = world(d, 1.5, n, seed)[1]
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-6, 6, size=d)
    one, other = (
        OrderSearch(criterion="bic", restarts=4, random_state=0).fit(Y) for Y in (X, X * scale)
    )
    assert np.array_equal(one.order_, other.order_)
    assert arcs(one.weights_) == arcs(other.weights_)
    assert arcs(one.cpdag_) == arcs(other.cpdag_)
    assert other.criterion_ == pytest.approx(one.criterion_, abs=1e-5)
    back = other.weights_.toarray() * scale[:, None] / scale
    assert back == pytest.approx(one.weights_.toarray(), rel=1e-6, abs=1e-9)


@settings(max_examples=10)
@given(seed=SEEDS, d=st.sampled_from([7, 12, 30]), criterion=st.sampled_from(CRITERIA))
def test_the_order_of_the_columns_does_not_matter(seed, d, criterion):
    X = world(d, 1.5, 100, seed)[1]
    shuffle = np.random.default_rng(seed).permutation(d)
    one, other = (OrderSearch(criterion=criterion, tol=1e-8).fit(Y) for Y in (X, X[:, shuffle]))
    assert other.criterion_ == pytest.approx(one.criterion_, rel=1e-6)
    back = np.empty((d, d))
    back[np.ix_(shuffle, shuffle)] = other.weights_.toarray()
    if criterion == "bic":
        pattern = np.empty((d, d))
        pattern[np.ix_(shuffle, shuffle)] = other.cpdag_.toarray()
        assert np.array_equal(pattern, one.cpdag_.toarray())
    if criterion == "least_squares" or d > 8:  # of equivalent DAGs enumeration takes the first
        assert back == pytest.approx(one.weights_.toarray(), abs=1e-3)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize(("d", "n"), [(60, 300), (80, 30)])
def test_the_number_of_threads_does_not_matter(criterion, d, n):
    X = world(d, 1.5, n)[1]
    one, other = (
        OrderSearch(criterion=criterion, restarts=6, random_state=3, n_jobs=jobs).fit(X)
        for jobs in (1, 2)
    )
    assert np.array_equal(one.order_, other.order_)
    assert arcs(one.weights_) == arcs(other.weights_)
    assert other.criterion_ == pytest.approx(one.criterion_, rel=1e-9)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_correlations_not_held_give_the_same_answer(criterion, monkeypatch):
    X = world(40, 2, 100)[1]
    held = OrderSearch(criterion=criterion, start="variance", tol=1e-8).fit(X)
    monkeypatch.setattr(OrderSearch, "_hold", lambda self, d, only_moments: False)
    other = OrderSearch(criterion=criterion, start="variance", tol=1e-8).fit(X)
    assert arcs(held.weights_) == arcs(other.weights_)
    assert other.criterion_ == pytest.approx(held.criterion_, rel=1e-6)


# ------------------------------------------------------------------ odd data


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("n", [3, 15, 200])
@pytest.mark.parametrize("d", [6, 40])
def test_constant_copied_and_collinear_columns(criterion, n, d):
    X = world(d, 1, n)[1]
    X[:, 1], X[:, 3], X[:, 5] = 4.0, -1e3 * X[:, 0], X[:, 2] + X[:, 4]
    with pytest.warns(DataWarning):
        model = OrderSearch(criterion=criterion, restarts=2, random_state=0).fit(X)
    W = model.weights_.toarray()
    assert model.status_ == "converged"
    assert np.isfinite(W).all()
    assert not W[1].any()
    assert not W[:, 1].any()
    assert np.isfinite(model.criterion_)
    assert model.criterion_ <= value_of(criterion, X, np.zeros((d, d))) + 1e-9
    if criterion == "bic":
        assert not (W[0].astype(bool) & W[3].astype(bool)).any()  # one of the two is enough
        assert (W != 0).sum(axis=0).max() <= max(1, n // 3)
    else:
        assert model.objective_ == pytest.approx(equation_1(X, W, 0.1), rel=1e-9)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize(("n", "d"), [(3, 20), (20, 60), (2, 12)])
def test_fewer_samples_than_variables(criterion, n, d):
    X = world(d, 1, n)[1]
    model = OrderSearch(criterion=criterion).fit(X)
    assert model.status_ == "converged"
    assert model.criterion_ == pytest.approx(value_of(criterion, X, model.weights_), rel=1e-6)


def test_independent_noise_has_no_arcs():
    X = np.random.default_rng(0).normal(size=(500, 30)) * np.logspace(-3, 3, 30)
    assert OrderSearch(criterion="bic").fit(X).weights_.nnz == 0
    unit = X / X.std(axis=0)
    assert OrderSearch(lambda1="bic").fit(unit).weights_.nnz == 0
    assert OrderSearch(lambda1=0.01, threshold="auto").fit(unit).weights_.nnz <= 1


# ------------------------------------------------------------------ when it ends early


def interrupt(state):
    raise KeyboardInterrupt


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("how", ["stop", "interrupt", "max_iter"])
def test_an_early_end_is_no_worse_than_the_start(criterion, steps, how):
    truth, X = world(40, 2, 100)
    begun = []

    def end(state):
        begun.append(value_of(criterion, X, state.best()))
        if state.iteration >= steps and how == "interrupt":
            raise KeyboardInterrupt
        return how == "stop" and state.iteration >= steps

    model = OrderSearch(
        criterion=criterion, start=truth, callback=end, restarts=None, time_limit=1e6
    )
    model.set_params(max_iter=steps if how == "max_iter" else None)
    model = interrupted(model, X) if how == "interrupt" else model.fit(X)
    assert model.status_ == ("max_iter" if how == "max_iter" else "interrupted")
    assert model.n_iter_ == steps
    assert is_acyclic(model.weights_)
    assert model.criterion_ <= begun[0] + 1e-6
    assert model.criterion_ == pytest.approx(value_of(criterion, X, model.weights_), rel=1e-9)
    if criterion == "bic":
        assert np.array_equal(model.cpdag_.toarray(), metrics.cpdag(model.dag_).toarray())


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("checks", [0, 1, 2, 3, 5, 8, 13, 21])
def test_a_deadline_anywhere_gives_a_valid_dag(criterion, checks, monkeypatch):
    """The clock is one that runs out at the so-manieth look at it, in the middle of anything."""
    X = world(40, 2, 100)[1]
    looks = [0]

    def out_of_time(self):
        looks[0] += 1
        if looks[0] > checks:
            self.status = "time_limit"
            return True
        return False

    warm = ProxiMAS().fit(X).dag_
    monkeypatch.setattr(Run, "out_of_time", out_of_time)
    model = OrderSearch(
        criterion=criterion, warm_start_dag=warm, restarts=None, time_limit=1e6
    ).fit(X)
    assert model.status_ == "time_limit"
    assert is_acyclic(model.weights_)
    assert model.criterion_ == pytest.approx(value_of(criterion, X, model.weights_), rel=1e-9)
    assert model.criterion_ <= value_of(criterion, X, np.zeros((40, 40)))
    if criterion == "least_squares":
        assert model.criterion_ <= equation_1(X, warm.weights, 0.1) * (1 + 1e-9)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_an_interrupted_answer_is_cut_too(criterion):
    X = world(40, 2, 100)[1]
    model = interrupted(OrderSearch(criterion=criterion, threshold=0.7, callback=interrupt), X)
    assert model.status_ == "interrupted"
    assert np.abs(model.weights_.data).min() > 0.7


def test_restarts_without_an_end_are_refused_before_the_work():
    with pytest.raises(ParameterError, match="time_limit=None"):
        OrderSearch(criterion="bic", restarts=None).fit(world(6, 1, 50)[1])
    model = OrderSearch(criterion="bic", restarts=None, time_limit=0.3).fit(world(20, 1, 50)[1])
    assert model.status_ == "time_limit"


# ------------------------------------------------------------------ where it begins


@pytest.mark.parametrize("criterion", CRITERIA)
def test_starts(criterion):
    truth, X = world(30, 2, 200)
    words = ["least_variance", "variance", "r2", "proximas"]
    for start in [*words, truth, truth.weights, [truth, "r2"], ("variance", "auto")]:
        model = OrderSearch(criterion=criterion, start=start).fit(X)
        assert model.status_ == "converged"
        many = len(start) if isinstance(start, list | tuple) else 1
        begun = (model.history_.phase == "start").sum() - 1  # the first row is the empty graph
        assert begun == (many if criterion == "least_squares" else 1)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_of_several_starts_the_best_is_taken(criterion):
    X = world(30, 2, 200)[1]
    words = ["variance", "r2", "least_variance"]
    each = [
        OrderSearch(criterion=criterion, start=one, max_iter=1).fit(X).criterion_ for one in words
    ]
    both = OrderSearch(
        criterion=criterion, start=words, max_iter=3 if criterion == "least_squares" else 1
    )
    assert both.fit(X).criterion_ == pytest.approx(min(each), rel=1e-4)


def test_search_from_the_answer_of_another_learner():
    X = world(60, 2, 300)[1]
    first = ProxiMAS().fit(X)
    model = OrderSearch(start=first.dag_).fit(X)
    assert model.objective_ <= first.objective_ * (1 + 1e-6)


def test_starts_that_are_refused():
    X = world(12, 1, 50)[1]
    for bad in ("nonsense", [], ["variance", 3], None, 7):
        with pytest.raises(ParameterError, match="start must be"):
            OrderSearch(start=bad).fit(X)
    with pytest.raises(GraphError, match="shape"):
        OrderSearch(start=simulate.random_dag(5, 1, rng=0)).fit(X)


# ------------------------------------------------------------------ what the data choose


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("options", [{"lambda1": "bic"}, {"threshold": "auto"}, {"threshold": 0.4}])
@pytest.mark.parametrize("jobs", [1, 2])
def test_choices_repeat(criterion, options, jobs):
    X = world(30, 2, 150)[1]
    one, other = (
        OrderSearch(criterion=criterion, restarts=5, random_state=7, n_jobs=jobs, **options).fit(X)
        for _ in range(2)
    )
    assert one.weights_.data.tobytes() == other.weights_.data.tobytes()
    assert np.array_equal(one.order_, other.order_)
    assert one.lambda1_ == other.lambda1_
    assert one.criterion_ == other.criterion_


def test_auto_threshold_keeps_the_arcs_that_are_worth_it():
    truth, X = world(50, 2, 500)
    whole, cut = (OrderSearch(threshold=t).fit(X) for t in (None, "auto"))
    assert arcs(cut.weights_) < arcs(whole.weights_)
    assert bic(X, cut.weights_) < bic(X, whole.weights_)
    penalty = arc_cost(500, 50)
    for v, column in enumerate(cut.weights_.toarray().T):
        parents = np.flatnonzero(column).tolist()
        now = bic_cost(X, v, parents, penalty)
        for u in parents:
            assert bic_cost(X, v, [p for p in parents if p != u], penalty) > now - 1e-6
    f1 = [metrics.arc_metrics(m.dag_, truth).f1 for m in (whole, cut)]
    assert f1[1] > max(f1[0], 0.9)


def test_lambda1_from_the_data():
    truth, X = world(50, 2, 500)
    model = OrderSearch(lambda1="bic").fit(X)
    assert 0 < model.lambda1_ < 1e3
    expected = equation_1(X, model.weights_, model.lambda1_)
    assert model.objective_ == pytest.approx(expected, rel=1e-9)
    assert metrics.average_precision(model.dag_, truth) > 0.95
    thousand = OrderSearch(lambda1="bic").fit(1e3 * X)
    assert thousand.lambda1_ == pytest.approx(1e6 * model.lambda1_, rel=1e-6)
    assert arcs(thousand.weights_) == arcs(model.weights_)


def test_restarts_only_help():
    X = simulate.standardise(world(40, 3, 150)[1])
    scores = [
        OrderSearch(criterion="bic", restarts=count, random_state=0).fit(X).criterion_
        for count in (0, 4, 40)
    ]
    assert scores[2] <= scores[1] <= scores[0]
    assert scores[2] < scores[0]
    other = OrderSearch(criterion="bic", restarts=4, random_state=1).fit(X)
    assert other.criterion_ <= scores[0]


@pytest.mark.parametrize(("graph", "seed"), [("ER", 1), ("ER", 3), ("SF", 2), ("SF", 3)])
def test_causes_that_are_not_correlated_with_their_effects_are_found(graph, seed):
    """In dense graphs effects cancel: on correlated candidates alone, 60 pairs and more differ."""
    truth = simulate.random_dag(60, 4, graph=graph, rng=seed)
    X = simulate.standardise(simulate.sample(truth, 1000, rng=seed + 10))
    model = OrderSearch(criterion="bic").fit(X)
    assert metrics.shd_cpdag(model.dag_, truth) <= 10


def test_a_dearer_arc_is_rarer():
    X = world(40, 2, 200)[1]
    counts = [
        OrderSearch(criterion="bic", gamma=gamma, penalty=penalty).fit(X).weights_.nnz
        for gamma, penalty in [(0.0, 0.5), (0.0, 1.0), (1.0, 1.0), (1.0, 4.0), (1.0, 1e6)]
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[3] > counts[4] == 0


# ------------------------------------------------------------------ the penalty from the data


def test_the_chosen_penalty_is_the_likeliest_of_its_path():
    X = simulate.standardise(world(30, 2, 200, 3)[1])
    model = OrderSearch(criterion="bic", penalty="auto").fit(X)
    held = np.random.default_rng(0).permutation(200)[:40]
    kept = np.setdiff1d(np.arange(200), held)
    path = 8 * 2 ** (-np.arange(12) / 2)
    likelihoods = [
        OrderSearch(criterion="bic", penalty=p, start=start_of(X)).fit(X[kept]).score(X[held])
        for p in path
    ]
    assert model.penalty_ == pytest.approx(path[np.argmax(likelihoods)])
    # What it then finds is what that penalty finds.
    plain = OrderSearch(criterion="bic", penalty=model.penalty_).fit(X)
    assert arcs(plain.weights_) == arcs(model.weights_)
    assert plain.criterion_ == model.criterion_
    assert "penalty" in set(model.history_["phase"])
    again = OrderSearch(criterion="bic", penalty="auto", random_state=7).fit(X)
    assert again.penalty_ == model.penalty_
    assert arcs(again.weights_) == arcs(model.weights_)


def start_of(X):
    """Return the start of "auto" on all of the data, as a path that has no other order."""
    order = r2_order(Gram(as_dataset(X)))
    path = np.zeros((len(order),) * 2)
    path[order[:-1], order[1:]] = 1.0
    return DAG(path)


def test_a_chosen_penalty_leaves_noise_without_arcs_and_weak_arcs_in():
    noise = np.random.default_rng(0).normal(size=(150, 20))
    model = OrderSearch(criterion="bic", penalty="auto").fit(noise)
    assert model.weights_.nnz <= 2
    weak = noise.copy()
    for j in range(1, 20):
        weak[:, j] += 0.25 * weak[:, j - 1]
    counts = [OrderSearch(criterion="bic", penalty=p).fit(weak).weights_.nnz for p in (1.0, "auto")]
    assert counts[1] >= counts[0]


@pytest.mark.parametrize(("n", "d"), [(3, 4), (9, 12), (10, 12), (30, 60), (40, 1), (40, 6)])
def test_a_penalty_is_chosen_on_any_shape(n, d):
    X = np.random.default_rng(1).normal(size=(n, d))
    X[:, 0] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        model = OrderSearch(criterion="bic", penalty="auto").fit(X)
    assert is_acyclic(model.weights_)
    assert model.penalty_ == 1.0 if n < 10 else model.penalty_ > 0


def test_time_up_while_the_penalty_is_chosen_leaves_a_dag(monkeypatch):
    X = world(30, 2, 200)[1]
    monkeypatch.setattr(
        penalty_path, "log_likelihood", lambda *_: pytest.fail("time was up before")
    )
    model = OrderSearch(criterion="bic", penalty="auto", max_iter=1).fit(X)
    assert model.status_ == "max_iter"
    assert model.penalty_ == 1.0
    assert is_acyclic(model.weights_)
    assert model.cpdag_.shape == (30, 30)


def test_a_penalty_is_chosen_only_where_it_can_be():
    X = world(6, 1, 50)[1]
    with pytest.raises(ParameterError, match="penalty='auto' goes with criterion='bic'"):
        OrderSearch(penalty="auto").fit(X)
    with pytest.raises(ParameterError, match="penalty must be a number"):
        OrderSearch(criterion="bic", penalty="much").fit(X)
    given = Dataset.from_covariance(np.cov(X.T), 50)
    with pytest.raises(ParameterError, match="a covariance matrix has none"):
        OrderSearch(criterion="bic", penalty="auto").fit(given)


# ------------------------------------------------------------------ how well it finds the truth


def directed_f1(found, truth):
    """Return F1 of the directed arcs of two CPDAGs, as 0/1 matrices with edges both ways."""
    found, truth = (G.astype(bool) & ~G.astype(bool).T for G in (found, truth))
    return 2 * (found & truth).sum() / max(1, found.sum() + truth.sum())


def test_directed_arcs_against_flop():
    ours, theirs = [], []
    for seed in range(3):
        truth, X = world(100, 2, 1000, seed)
        X = simulate.standardise(X)
        pattern = metrics.cpdag(truth).toarray()
        ours.append(directed_f1(OrderSearch(criterion="bic").fit(X).cpdag_.toarray(), pattern))
        # flopsearch begins from a random order and takes no seed: one run of it may differ by 0.1.
        runs = [flopsearch.flop(X, 2.0, restarts=0) > 0 for _ in range(8)]
        theirs.append(np.mean([directed_f1(run, pattern) for run in runs]))
    assert np.mean(ours) >= np.mean(theirs) - 0.02
    assert np.mean(ours) > 0.8


@pytest.mark.parametrize(("k", "reach"), [(1, 0.99), (2, 0.98)])
def test_average_precision_on_raw_data(k, reach):
    found = []
    for seed in range(3):
        truth, X = world(100, k, 1000, seed)
        model = OrderSearch().fit(X)
        found.append(metrics.average_precision(model.dag_, truth))
        on_truth = OrderSearch(start=truth, max_iter=1).fit(X)
        assert model.objective_ <= 1.005 * on_truth.objective_
    assert np.mean(found) >= reach


# ------------------------------------------------------------------ what once went wrong


@pytest.mark.parametrize("X", [np.ones((30, 12)), np.random.default_rng(0).normal(size=(1000, 12))])
def test_candidates_that_nobody_has(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert is_acyclic(OrderSearch(candidates="correlated").fit(X).weights_)


def test_a_start_is_the_answer_when_time_is_up_at_once():
    truth = simulate.random_dag(20, 1, rng=0)
    X = simulate.sample(truth, 300, rng=1)
    model = OrderSearch(start=truth, time_limit=1e-9).fit(X)
    assert model.objective_ <= OrderSearch(warm_start_dag=truth, time_limit=1e-9).fit(X).objective_
    assert model.weights_.nnz == truth.n_arcs


def test_an_interrupt_in_the_first_method_ends_the_search(monkeypatch):
    def learn(self, run):
        raise KeyboardInterrupt

    monkeypatch.setattr("bigdag.learners.proximas.ProxiMAS._learn", learn)
    X = simulate.sample(simulate.random_dag(20, 1, rng=0), 300, rng=1)
    assert interrupted(OrderSearch(start="proximas"), X).status_ == "interrupted"


def test_a_threshold_turns_no_arc():
    X = simulate.sample(simulate.random_dag(30, 2, rng=0), 500, rng=1)
    whole = OrderSearch(criterion="bic").fit(X).dag_.threshold(0.8)
    cut = OrderSearch(criterion="bic", threshold=0.8).fit(X)
    assert cut.dag_ == whole
    assert (cut.cpdag_ != (abs(cut.weights_) > 0) + cut.dag_.reversible.T).nnz == 0


def test_a_bad_start_is_named():
    with pytest.raises(GraphError, match=r"start must be a finite matrix of shape \(6, 6\)"):
        OrderSearch(start=sp.csc_array((3, 3))).fit(
            simulate.sample(simulate.random_dag(6, 1, rng=0), 50, rng=1)
        )


def test_evidence_is_what_the_bic_loses_without_an_arc():
    _, X = world(12, 2, 150)
    X = simulate.standardise(X)
    found = OrderSearch(criterion="bic").fit(X)
    whole, arcs = bic(X, found.weights_), found.dag_._arcs()
    for i, j, value in zip(arcs.source, arcs.target, arcs.columns["evidence"]):
        less = found.weights_.toarray()
        less[i, j] = 0
        assert value == pytest.approx(bic(X, less) - whole, abs=1e-6)
        assert value > 0


@pytest.mark.parametrize("way", [{}, {"criterion": "bic"}, {"criterion": "bic", "penalty": "auto"}])
def test_a_table_that_is_held_once_gives_the_same_and_is_not_changed(way):
    X = simulate.sample(simulate.random_dag(60, 1, rng=0), 200, rng=1)
    before = X.copy()
    once, twice = OrderSearch(**way).fit(X), OrderSearch(**way).fit(as_dataset(X))
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(once.weights_.toarray(), twice.weights_.toarray())
    np.testing.assert_array_equal(once.means_, twice.means_)
    data = as_dataset(X)
    held = data.X.copy()
    OrderSearch(**way).fit(data)
    np.testing.assert_array_equal(data.X, held)  # a Dataset is somebody else's
