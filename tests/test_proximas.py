import numpy as np
import pytest
import scipy.sparse as sp
import torch

from bigdag import ProxiMAS, metrics, simulate
from bigdag.data.dataset import as_dataset
from bigdag.engine import lasso, objective
from bigdag.engine.gram import Gram
from bigdag.engine.order import rank_of
from bigdag.errors import MemoryLimitError, ParameterError
from bigdag.graph.acyclic import is_acyclic
from bigdag.graph.feedback_arc_set import greedy_order
from bigdag.learners import proximal_columns
from bigdag.learners.proximal_columns import ProximalColumns

from .learner_contract import LearnerContract
from .literal import equation_1, proximas


class TestProxiMAS(LearnerContract):
    make = staticmethod(lambda: ProxiMAS(max_iter=40))


class TestProxiMASWithoutRefit(LearnerContract):
    make = staticmethod(lambda: ProxiMAS(max_iter=40, refit=False, improve=True, start="lasso"))


class TestProxiMASDense(LearnerContract):
    make = staticmethod(lambda: ProxiMAS(max_iter=40, engine="dense"))


class TestProxiMASOnCandidates(LearnerContract):
    make = staticmethod(lambda: ProxiMAS(max_iter=40, candidates="correlated"))


def world(d, k, n=1000, seed=0):
    rng = np.random.default_rng(seed)
    truth = simulate.random_dag(d, k, rng=rng)
    return truth, simulate.sample(truth, n, rng=rng)


def second_moments(X):
    X = X - X.mean(axis=0)
    return X.T @ X / len(X)


def iterates(X, **parameters):
    """Fit and return the cyclic weights of the steps, and the model."""
    seen = []

    def note(state):
        if state.phase == "mas":
            seen.append(state.weights().toarray())

    return seen, ProxiMAS(callback=note, **parameters).fit(X)


@pytest.mark.parametrize("seed", range(3))
def test_sparse_steps_are_the_literal_ones(seed):
    _, X = world(9, 2, n=60, seed=seed)
    fit = lasso.solve(Gram(as_dataset(X)), 0.1, tol=1e-12).weights.toarray()
    cyclic, acyclic = proximas(second_moments(X), fit, 0.1, 20.0, K=60)
    seen, model = iterates(X, steps="global", start="lasso", refit=False, tol=1e-12, max_iter=51)
    assert len(seen) == 50
    for k, W in enumerate(seen, 1):
        assert pytest.approx(cyclic[k], abs=1e-8) == W
    values = [equation_1(second_moments(X), W, 0.1) for W in acyclic[:50]]
    assert model.objective_ == pytest.approx(min(values), rel=1e-9)
    best = acyclic[int(np.argmin(values))]
    assert model.weights_.toarray() == pytest.approx(best, abs=1e-8)


def test_dense_steps_are_the_literal_ones():
    _, X = world(9, 2, n=60)
    S = second_moments(X)
    W = np.random.default_rng(0).normal(size=(9, 9)) * (1 - np.eye(9))
    cyclic, acyclic = proximas(S, W, 0.1, 20.0, K=60)
    seen, model = iterates(
        X, engine="dense", warm_start_dag=W, start="zeros", refit=False, max_iter=50
    )
    for k, seen_W in enumerate(seen):
        assert seen_W == pytest.approx(cyclic[k], abs=1e-9)
    values = [equation_1(S, W, 0.1) for W in acyclic[:50]]
    empty = 0.5 * np.trace(S)
    assert model.objective_ == pytest.approx(min([*values, empty]), rel=1e-9)


def test_the_two_engines_agree():
    _, X = world(12, 1, n=200)
    common = {"start": "lasso", "tol": 1e-10, "max_iter": 4000, "acyclic_from": 0.99}
    dense = ProxiMAS(engine="dense", **common).fit(X)
    sparse = ProxiMAS(steps="global", **common).fit(X)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-6)
    assert sparse.weights_.toarray() == pytest.approx(dense.weights_.toarray(), abs=1e-3)


@pytest.mark.parametrize(
    ("exact", "room", "precision"),
    [(0, 2**27, 1e-6), (0, 700, 1e-6), (2**23, 700, 1e-12), (2**23, 0, 1e-12)],
    ids=["three bytes", "three bytes, some not", "some not", "none"],
)
def test_steps_do_not_depend_on_how_correlations_are_kept(exact, room, precision, monkeypatch):
    X = world(40, 2, n=300)[1]
    X[:, 7] = 2.0 * X[:, 3]  # a correlation of 1, the largest there is
    X[:, 8] = -X[:, 3]
    gram = Gram(as_dataset(X))
    W = lasso.solve(gram, 0.1).weights

    def walk():
        columns, order, values = ProximalColumns(gram, 0.1, 20.0, W, False), greedy_order(W), []
        for _ in range(12):
            values.append(columns.step(order))
            order = greedy_order(columns.weights())
            columns.grow()
        return values, columns.weights().toarray(), columns

    values, weights, columns = walk()
    assert len(columns.store.exact) > 0
    monkeypatch.setattr(proximal_columns, "_EXACT_STORE", exact)
    monkeypatch.setattr(proximal_columns, "_STORE", room)
    again, others, columns = walk()
    store = columns.store
    assert len(store.exact) + len(store.upper) <= room
    assert (store.place < 0).any() == (room < 2**27)
    assert len(store.lower) == (0 if exact else len(store.upper))
    assert again == pytest.approx(values, rel=precision)
    assert others == pytest.approx(weights, abs=10 * precision)


def test_refit_lowers_equation_1_and_says_by_how_much():
    _, X = world(40, 2, n=300)
    literal = ProxiMAS(refit=False, start="lasso").fit(X)
    refitted = ProxiMAS(start="lasso").fit(X)
    assert refitted.objective_ < literal.objective_
    assert refitted.refit_gain_ > 0
    assert literal.refit_gain_ == 0


def test_columns_at_rest_are_optimal_over_all_parents():
    """Without its mirror image an arc may be needed that the fit without acyclicity leaves out."""
    _, X = world(40, 1, n=500)
    gram = Gram(as_dataset(X))
    fit = lasso.solve(gram, 0.1).weights
    columns = ProximalColumns(gram, 0.1, 20.0, fit, literal=False)
    order = greedy_order(fit)  # held: only the columns move
    for k in range(1, 100_000):
        columns.step(order)
        still = columns.at_rest(order)
        if columns.due(k, still):
            columns.grow()
        elif still:
            break
    W = columns.weights().toarray()
    assert ((W != 0) & (fit.toarray() == 0)).any()
    rank = rank_of(order)
    backward = np.where(rank[:, None] < rank, 0.0, W)
    # The gradient of the loss and of the pull, which at rest acts on the backward arcs alone.
    gradient = second_moments(X) @ (W - np.eye(40)) + 20.0 * backward
    np.fill_diagonal(gradient, 0)
    assert np.abs(gradient[W == 0]).max() < 0.1 * (1 + 1e-3)
    assert -gradient[W != 0] == pytest.approx(0.1 * np.sign(W[W != 0]), abs=1e-3)


def test_warm_start_is_never_made_worse():
    truth, X = world(30, 2)
    model = ProxiMAS(warm_start_dag=truth).fit(X)
    gram = Gram(as_dataset(X))
    assert model.objective_ <= objective.value(gram, truth.weights, 0.1)


def test_phases_and_history():
    _, X = world(20, 1)
    model = ProxiMAS().fit(X)
    assert set(model.history_.phase) == {"start", "fit", "mas", "refit"}
    acyclic = model.history_[model.history_.phase != "fit"]
    assert model.objective_ == pytest.approx(acyclic.objective.min(), rel=1e-9)


def test_deadline_in_the_fit_still_gives_a_graph():
    _, X = world(200, 2)
    model = ProxiMAS(time_limit=1e-3).fit(X)
    assert model.status_ == "time_limit"
    assert is_acyclic(model.weights_)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there():
    _, X = world(5, 1, n=20)
    with pytest.raises(ParameterError, match="device must be one that is there: cpu"):
        ProxiMAS(engine="dense", device="cuda").fit(X)


def test_a_device_for_the_sparse_engine():
    with pytest.raises(ParameterError, match="engine='dense'"):
        ProxiMAS(device="cuda").fit(world(5, 1, n=20)[1])


def test_dense_matrices_that_do_not_fit():
    _, X = world(400, 1, n=20)
    with pytest.raises(MemoryLimitError, match="it may hold 3 MB in all"):
        ProxiMAS(engine="dense", memory_limit="3MB").fit(X)


def accuracies(k, seeds, d=300):
    """Return average precision of ProxiMAS and of variance order + one lasso, mean over seeds."""
    pairs = []
    for seed in range(seeds):
        truth, X = world(d, k, seed=seed)
        order = np.argsort(X.var(axis=0))
        baseline = lasso.solve(Gram(as_dataset(X)), 0.1, order=order).weights
        model = ProxiMAS().fit(X)
        pairs.append([metrics.average_precision(W, truth) for W in (model.weights_, baseline)])
    return np.mean(pairs, axis=0)


def test_er1_beats_sorting_by_variance():
    ours, baseline = accuracies(1, seeds=5)
    assert ours > baseline
    assert ours > 0.93


@pytest.mark.parametrize("k", [2, 4])
def test_denser_graphs_are_not_far_below_sorting_by_variance(k):
    ours, baseline = accuracies(k, seeds=3, d=150)
    assert ours > baseline - 0.01


def test_weights_are_in_the_units_of_the_data():
    truth, X = world(10, 1, n=2000)
    model = ProxiMAS(lambda1=0.01).fit(X)
    W, T = model.weights_.toarray(), truth.weights.toarray()
    both = (W != 0) & (T != 0)
    assert both.sum() >= 5
    assert W[both] == pytest.approx(T[both], abs=0.15)
    assert sp.issparse(model.weights_)


def test_only_correlated_variables_are_parents_where_that_is_asked_for():
    truth, X = world(60, 1, n=400)
    gram = Gram(as_dataset(X))
    mask = np.abs(gram.C) > 4 / np.sqrt(400)
    models = {word: ProxiMAS(candidates=word).fit(X) for word in ("all", "correlated")}
    assert not (models["correlated"].weights_.toarray()[~mask]).any()
    assert (models["all"].weights_.toarray()[~mask]).any()
    scores = [metrics.average_precision(model.dag_, truth) for model in models.values()]
    assert min(scores) > 0.9
    assert ProxiMAS()._confined(5001)
    assert not ProxiMAS()._confined(5000)
    assert not ProxiMAS(candidates="correlated", steps="global")._confined(10**5)


def test_candidates_are_not_confined_where_most_variables_have_many(monkeypatch):
    from bigdag.engine import screening

    monkeypatch.setattr(screening, "_FEW", 6)
    gram = Gram(as_dataset(np.random.default_rng(0).normal(size=(50, 1)) + np.eye(50)[:, :20]))
    assert screening.candidates(gram)[1] is None
    assert screening.candidates(gram, whatever=True)[1].nnz == 6 * 20
