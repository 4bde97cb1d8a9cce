"""OptiMAS against a literal dense transcription of algorithms 1 and 2 with Adam."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from bigdag import OptiMAS, metrics, simulate
from bigdag.data.dataset import Dataset, as_dataset
from bigdag.engine import lasso
from bigdag.engine.gram import Gram
from bigdag.errors import MemoryLimitError, MissingExtraError, ParameterError
from bigdag.learners import optimas
from bigdag.learners.run import Run
from bigdag.learners.torch_loss import penalties
from learner_contract import LearnerContract, equation_1, interrupted, table


class TestOptiMAS(LearnerContract):
    make = staticmethod(lambda: OptiMAS(max_iter=20))


class TestOptiMASFromZeros(LearnerContract):
    make = staticmethod(lambda: OptiMAS(max_iter=20, start="zeros", refit=False))


class TestOptiMASOnASupport(LearnerContract):
    make = staticmethod(lambda: OptiMAS(max_iter=20, engine="sparse"))


# ------------------------------------------------------------------ the literal algorithm


def greedy_mas(W):
    """Algorithm 2 as printed."""
    d = len(W)
    squares = W * W
    scores = squares.sum(axis=0)
    order = np.zeros(d, dtype=int)
    ub = (d + 1) * scores.max()
    for i in range(d):
        node = scores.argmin()
        order[-(i + 1)] = node
        scores[node] = ub
        scores = scores - squares[node, :]
    inverse = np.argsort(order)
    return np.tril(W[np.ix_(order, order)], -1)[np.ix_(inverse, inverse)]


def literal_optimas(X, W, lambda1, lambda2, rate, n_fit, n_mas):
    """Algorithm 1 with Adam, the fit without acyclicity first; return the W̃_k and the W_k."""
    X = X - X.mean(axis=0)
    m, v = np.zeros_like(W), np.zeros_like(W)
    cyclic, acyclic = [], []
    centre = None
    for k in range(1, n_fit + n_mas + 1):
        if k == n_fit + 1:
            centre = greedy_mas(W)
        gradient = X.T @ (X @ W - X) / len(X) + lambda1 * np.sign(W)
        if centre is not None:
            gradient += lambda2 * (W - centre)
        np.fill_diagonal(gradient, 0)
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        W = W - rate * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8)
        cyclic.append(W)
        if centre is not None:
            centre = greedy_mas(W)
            acyclic.append(centre)
    return cyclic, acyclic


# From a given W, from zeros, where the support of the sparse engine is that of the lasso.
@pytest.mark.parametrize(("engine", "fit"), [("dense", 0), ("dense", 30), ("sparse", 0)])
@pytest.mark.parametrize("n", [8, 100])  # from X, from S
def test_iterates_are_those_of_the_paper(engine, n, fit):
    d, steps = 12, 60
    X = table(n=n, d=d)
    W = np.zeros((d, d))
    if not fit:
        W = 0.2 * np.random.default_rng(0).normal(size=(d, d))
        np.fill_diagonal(W, 0)
    seen, best = [], []
    model = OptiMAS(
        lambda1=0.1, lambda2=20.0, learning_rate=0.01, engine=engine, dtype="float64", refit=False,
        start="zeros", warm_start_dag=None if fit else W, acyclic_from=0.5, max_iter=steps,
        patience=1000, callback=lambda s: seen.append(s.weights()) or best.append(s.objective),
    ).fit(X)  # fmt: skip
    cyclic, acyclic = literal_optimas(X, W, 0.1, 20.0, 0.01, fit, steps - fit)
    assert len(seen) == len(cyclic)
    for ours, theirs in zip(seen, cyclic):
        assert np.abs(ours.toarray() - theirs).max() < 1e-7
    values = [equation_1(X, W_k, 0.1) for W_k in acyclic]
    assert np.allclose(best[fit:], values)
    winner = acyclic[int(np.argmin(values))]
    assert model.objective_ == pytest.approx(min(values))
    assert np.abs(model.weights_.toarray() - winner).max() < 1e-7


# ------------------------------------------------------------------ start, refit, support


def test_fit_from_the_lasso_needs_no_steps():
    X = table(d=10)
    model = OptiMAS(max_iter=5).fit(X)
    fit = model.history_[model.history_.phase == "fit"]
    optimum = lasso.solve(Gram(as_dataset(X)), 0.1, tol=1e-9).objective.sum()
    assert len(fit) == 1
    assert fit.objective.item() == pytest.approx(optimum, rel=1e-3)


def test_fit_from_zeros_ends_when_it_has_converged():
    model = OptiMAS(start="zeros", learning_rate=0.02, max_iter=20_000, tol=1e-3, patience=20)
    phases = model.fit(table()).history_.phase
    assert 20 < (phases == "fit").sum() < 5000
    assert model.status_ == "converged"


def test_refit_only_lowers_the_objective():
    X = table(d=20)
    paper = OptiMAS(max_iter=50, refit=False).fit(X)
    refitted = OptiMAS(max_iter=50).fit(X)
    assert np.array_equal(paper.order_, refitted.order_)
    assert refitted.refit_gain_ == pytest.approx(paper.objective_ - refitted.objective_, rel=1e-3)
    assert refitted.refit_gain_ > 0
    optimum = lasso.solve(Gram(as_dataset(X)), 0.1, order=paper.order_, tol=1e-9).objective.sum()
    assert refitted.objective_ == pytest.approx(optimum, rel=1e-3)


def test_of_a_time_limit_some_is_left_for_the_refit(monkeypatch):
    clock, solve = [0.0], lasso.solve
    monkeypatch.setattr(Run, "seconds", property(lambda run: clock[0]))

    def slow_lasso(*args, **given):
        clock[0] += 5.0
        return solve(*args, **given)

    def slow_step(state):
        clock[0] += 1.0

    monkeypatch.setattr(lasso, "solve", slow_lasso)
    X = table(d=20)
    model = OptiMAS(time_limit=60, max_iter=None, tol=0, callback=slow_step).fit(X)
    assert model.status_ == "time_limit"
    assert model.history_.phase.iloc[-1] == "refit"
    assert 45 < model.history_.seconds.iloc[-2] < model.history_.seconds.iloc[-1] <= 60
    optimum = solve(Gram(as_dataset(X)), 0.1, order=model.order_, tol=1e-9).objective.sum()
    assert model.objective_ == pytest.approx(optimum, rel=1e-3)
    clock[0] = 0.0
    paper = OptiMAS(time_limit=60, max_iter=None, tol=0, callback=slow_step, refit=False).fit(X)
    assert "refit" not in set(paper.history_.phase)
    assert len(paper.history_) > len(model.history_)  # steps in place of it
    clock[0] = 0.0
    short = OptiMAS(time_limit=8, callback=slow_step).fit(X)  # the lasso alone took most of it
    assert (short.history_.phase == "mas").any()


def test_learns_the_graph():
    truth = simulate.random_dag(40, 1, rng=0)
    X = simulate.sample(truth, 1000, rng=1)
    for engine in ("dense", "sparse"):
        model = OptiMAS(engine=engine).fit(X)
        assert metrics.average_precision(model.dag_, truth) > 0.85


def test_support_is_that_of_the_lasso():
    X = table(d=15)
    support = lasso.solve(Gram(as_dataset(X)), 0.1).weights
    model = OptiMAS(engine="sparse", max_iter=30, refit=False).fit(X)
    assert model.weights_.nnz > 0
    outside = abs(model.weights_) - abs(model.weights_).multiply(support != 0)
    assert abs(outside).sum() == 0


def test_little_memory_means_a_support(monkeypatch):
    def refuse(*args):
        raise AssertionError("a dense matrix was made")

    X = table(n=20, d=1000)
    monkeypatch.setattr(optimas, "_Dense", refuse)

    def left(megabytes):
        return lambda limit: megabytes * 2**20

    monkeypatch.setattr(optimas, "memory_left", left(500))
    with pytest.raises(AssertionError):
        OptiMAS(lambda1=1.0, max_iter=2).fit(X)
    monkeypatch.setattr(optimas, "memory_left", left(50))
    OptiMAS(lambda1=1.0, max_iter=3).fit(X)
    monkeypatch.setattr("bigdag.learners.dense.memory_left", left(35))
    with pytest.raises(MemoryLimitError, match=r"38\.1 MB"):
        OptiMAS(lambda1=1.0, max_iter=2, engine="dense").fit(X)


def test_covariance_and_data_agree():
    X = table()
    S = np.cov(X.T, bias=True)
    for engine in ("dense", "sparse"):
        settings = {"engine": engine, "max_iter": 40, "dtype": "float64", "refit": False}
        # At the solution of the lasso Adam would make whole steps of the signs of rounding errors.
        settings |= {"optimizer": "SGD", "learning_rate": 0.01}
        one = OptiMAS(**settings).fit(X)
        other = OptiMAS(**settings).fit(Dataset.from_covariance(S, len(X)))
        assert np.abs((one.weights_ - other.weights_).toarray()).max() < 1e-6


def test_scales_far_apart_are_computed_in_float64():
    near = table()
    far = near * np.logspace(0, 4, 6)
    seen = []
    for X in (near, far):
        model = OptiMAS(
            max_iter=3, optimizer=lambda p: seen.append(p[0].dtype) or torch.optim.SGD(p, 1e-9)
        )
        model.fit(X)
    assert seen == [torch.float32, torch.float64]


# ------------------------------------------------------------------ optimisers and devices


@pytest.mark.parametrize("engine", ["dense", "sparse"])
@pytest.mark.parametrize(
    "optimizer", ["AdamW", "RMSprop", "Adagrad", lambda p: torch.optim.LBFGS(p, lr=0.1)]
)
def test_any_optimiser(optimizer, engine):
    X = table()
    model = OptiMAS(optimizer=optimizer, engine=engine, start="zeros", max_iter=60, refit=False)
    model.fit(X)
    assert model.objective_ < equation_1(X, np.zeros((6, 6)), 0.1)
    assert model.status_ in {"max_iter", "converged"}


@pytest.mark.parametrize("optimizer", ["adam", "Optimizer", "SparseAdam", "lr_scheduler", 3])
def test_unknown_optimisers_are_refused(optimizer):
    with pytest.raises(ParameterError, match=r"optimizer must be .*torch\.optim.* Got"):
        OptiMAS(optimizer=optimizer).fit(table())


def test_callables_that_make_no_optimiser_are_refused():
    with pytest.raises(ParameterError, match="NoneType"):
        OptiMAS(optimizer=lambda p: None).fit(table())
    with pytest.raises(ParameterError, match="optimizer"):
        OptiMAS(optimizer=lambda: None).fit(table())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_an_error():
    with pytest.raises(ParameterError, match="device must be one that is there: cpu"):
        OptiMAS(device="cuda").fit(table())


def test_without_torch_there_is_one_clear_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match="pip install 'torch"):
        OptiMAS().fit(table())


def test_diverging_keeps_the_best_graph():
    model = OptiMAS(optimizer="SGD", learning_rate=1e30, max_iter=30).fit(table())
    assert model.status_ == "diverged"
    assert np.isfinite(model.objective_)


@pytest.mark.parametrize(("start", "at"), [("lasso", 1), ("zeros", 30)])
def test_interrupted_before_acyclicity_gives_a_graph_all_the_same(start, at):
    def interrupt(state):
        assert state.phase == "fit"
        if state.iteration == at:
            raise KeyboardInterrupt

    model = interrupted(OptiMAS(start=start, learning_rate=0.01, callback=interrupt), table())
    assert model.status_ == "interrupted"
    assert model.weights_.nnz > 0


def test_threads_of_torch_are_given_back():
    before = torch.get_num_threads()
    OptiMAS(max_iter=2, n_jobs=1).fit(table(d=4))
    assert torch.get_num_threads() == before


def test_state_shows_the_best_graph():
    X, values = table(), []

    def look(state):
        if state.phase == "mas":
            values.append((equation_1(X, state.best(), 0.1), state.best_objective))
            assert sp.issparse(state.weights())

    OptiMAS(max_iter=10, callback=look).fit(X)
    assert len(values) == 9
    assert np.allclose(*zip(*values), rtol=1e-5)


@pytest.mark.parametrize("with_centre", [False, True])
@pytest.mark.parametrize("size", [3, 700])  # one strip, and several
def test_penalties_are_those_of_plain_torch(size, with_centre):
    rng = torch.Generator().manual_seed(size)
    W = torch.randn(size, size, generator=rng, dtype=torch.float64).requires_grad_()
    centre = torch.randn(size, size, generator=rng, dtype=torch.float64) if with_centre else None
    plain = 0.3 * W.abs().sum() + 0.7 * (W if centre is None else W - centre).square().sum()
    ours = penalties(torch)(W, centre, 0.3, 1.4)
    (wanted,), (found,) = (torch.autograd.grad(loss, W) for loss in (plain, ours))
    assert torch.allclose(ours, plain, rtol=1e-12)
    assert torch.allclose(found, wanted, rtol=1e-12, atol=1e-15)
