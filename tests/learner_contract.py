"""What every learner keeps to: one class of tests, inherited once for each learner.

A test file of a learner holds some eight lines::

    class TestGD(LearnerContract):
        make = staticmethod(lambda: GD(max_iter=20))

``make`` returns a quick learner; the tests set further parameters with ``set_params``.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from bigdag.data.dataset import Dataset, as_dataset
from bigdag.engine.gram import Gram
from bigdag.engine.order import rank_of
from bigdag.errors import DataError, DataWarning, GraphError, MemoryLimitError, ParameterError
from bigdag.graph.acyclic import is_acyclic
from bigdag.graph.dag import DAG
from bigdag.interrupts import ask_to_end
from bigdag.learners.parameters import Number, OneOf
from bigdag.learners.run import Run
from bigdag.model.linear import LinearModel
from bigdag.simulate import random_dag, sample

STATUSES = {"converged", "max_iter", "time_limit", "interrupted", "diverged"}


def table(n: int = 100, d: int = 6, seed: int = 0) -> np.ndarray:
    """Return samples (n, d) of a random linear model."""
    rng = np.random.default_rng(seed)
    return sample(random_dag(d, 1, rng=rng), n, rng=rng)


def equation_1(X: np.ndarray, W: Any, lambda1: float) -> float:
    """Return equation (1), densely and literally."""
    X = X - X.mean(axis=0)
    W = W.toarray() if sp.issparse(W) else np.asarray(W)
    return float(np.sum((X @ W - X) ** 2) / (2 * len(X)) + lambda1 * np.abs(W).sum())


@contextmanager
def gcastle() -> Iterator[Any]:
    """Give ``castle.algorithms``, and take back what it changes in numpy and torch."""
    import torch

    printing, dtype = np.get_printoptions(), torch.get_default_dtype()
    try:
        import castle.algorithms as algorithms

        torch.set_default_dtype(torch.float64)
        yield algorithms
    finally:
        np.set_printoptions(**printing)
        torch.set_default_dtype(dtype)


def bad_values(allowed: Any) -> list[Any]:
    """Return values that a row of a learner's table of parameters has to refuse."""
    bad: list[Any] = [object(), [1.0]]
    if isinstance(allowed, OneOf):
        bad += ["nonsense", *([] if None in allowed.options else [None])]
    if isinstance(allowed, Number):
        bad += ["1", float("nan"), True]
        bad += [] if allowed.none else [None]
        bad += [1.5] if allowed.whole else []
        if np.isfinite(allowed.low):
            bad += [allowed.low - 1, -np.inf]
            bad += [allowed.low] if allowed.above else []
        if np.isfinite(allowed.high):
            bad += [allowed.high * 2 + 1, np.inf]
    return bad


def interrupted(learner: Any, X: Any) -> Any:
    """Fit a learner whose callback interrupts it; the interrupt goes on, the best graph is kept."""
    with pytest.raises(KeyboardInterrupt):
        learner.fit(X)
    return learner


@contextmanager
def deadline_at_look(
    look: int | None, after_step: int = 0, worth: Callable[[Run], float] = lambda run: 0.0
) -> Iterator[list[Any]]:
    """Let the deadline pass at some look at the clock; give the run and what it held was worth.

    Looks are counted once the run has made some steps; None lets it never pass.
    """
    seen: list[Any] = []
    usual, share = Run.out_of_time, Run.share_is_over
    looks = 0

    def over(run: Run) -> bool:
        nonlocal looks
        looks += run.iteration >= after_step
        if look is None or looks < look:
            return False
        if not seen:
            seen.append((run, worth(run)))
        return True

    def out_of_time(run: Run) -> bool:
        if over(run):
            run.status = "time_limit"
            return True
        return usual(run)

    def share_is_over(run: Run, part: float) -> bool:
        return over(run) or share(run, part)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "out_of_time", out_of_time)
        patch.setattr(Run, "share_is_over", share_is_over)
        yield seen


def hold_correlations(monkeypatch: Any, hold: bool) -> list[bool]:
    """Have every Gram of samples hold its correlations, or not; return which the last one did."""
    monkeypatch.undo()  # of an earlier call
    usual, done = Gram.__init__, []

    def init(self: Gram, dataset: Dataset, **options: Any) -> None:
        usual(self, dataset, **options | ({} if dataset.X is None else {"hold": hold}))
        done[:] = [self.C is not None]

    monkeypatch.setattr(Gram, "__init__", init)
    return done


class LearnerContract:
    """Inherit, and set ``make``; the other attributes only where the default does not hold."""

    make: ClassVar[Callable[[], Any]]
    keeps_best: ClassVar[bool] = (
        True  # whether the answer is the best acyclic graph by equation (1)
    )
    takes_missing: ClassVar[bool] = False  # whether missing values are no error
    chooses_lambda1: ClassVar[bool] = False  # whether it has no lambda1 to set
    not_held: ClassVar[float] = 1e-4  # how far equation (1) may lie off without correlations held
    cyclic_phases: ClassVar[tuple[str, ...]] = ("fit",)  # of the history; the others are acyclic

    def learner(self, **parameters: Any) -> Any:
        if self.chooses_lambda1:
            parameters.pop("lambda1", None)
        return clone(self.make()).set_params(**parameters)

    def lambda1(self, model: Any, given: float) -> float:
        """Return the lambda1 of a fitted learner."""
        return float(model.lambda1_) if self.chooses_lambda1 else given

    def fit(self, X: Any, **parameters: Any) -> Any:
        """Fit, and check what holds of every fit whatever happened in it."""
        model = self.learner(**parameters)
        assert model.fit(X) is model
        return self.check(model)

    def check(self, model: Any) -> Any:
        """Check what holds of every fitted learner."""
        W, d = model.weights_, model.n_features_in_
        assert isinstance(W, sp.csc_array)
        assert W.shape == (d, d)
        assert np.isfinite(W.data).all()
        assert W.data.all()
        assert is_acyclic(W)
        assert isinstance(model.dag_, DAG)
        assert (model.dag_.weights != W).nnz == 0
        assert sorted(model.order_) == list(range(d))
        arcs, rank = W.tocoo(), rank_of(model.order_)
        assert (rank[arcs.row] < rank[arcs.col]).all()
        assert np.isfinite(model.objective_)
        assert model.status_ in STATUSES
        history = model.history_
        assert list(history.columns) == ["phase", "iteration", "seconds", "objective", "arcs"]
        assert history.iteration.iloc[-1] == model.n_iter_
        assert history.iteration.is_monotonic_increasing
        assert history.seconds.is_monotonic_increasing
        return model

    # -------------------------------------------------------------- what it computes

    @pytest.mark.parametrize("lambda1", [0.0, 0.1, 1e3])
    def test_objective_is_equation_1(self, lambda1):
        X = table()
        model = self.fit(X, lambda1=lambda1)
        expected = equation_1(X, model.weights_, self.lambda1(model, lambda1))
        assert model.objective_ == pytest.approx(expected, rel=1e-9)

    def test_best_is_the_best_of_the_history(self):
        model = self.fit(table())
        acyclic = model.history_[~model.history_.phase.isin(self.cyclic_phases)]
        if self.keeps_best:
            assert model.objective_ == pytest.approx(acyclic.objective.min(), rel=1e-5)
        else:  # it answers with its last iterate, cut until it is acyclic
            assert acyclic.objective.notna().all()

    def test_repeats_to_the_bit(self):
        X = table()
        for n_jobs in (1, 2):
            first, second = (self.fit(X, random_state=3, n_jobs=n_jobs) for _ in range(2))
            for name in ("data", "indices", "indptr"):
                one, other = getattr(first.weights_, name), getattr(second.weights_, name)
                assert one.tobytes() == other.tobytes()
            assert np.array_equal(first.order_, second.order_)
            assert first.objective_ == second.objective_
            assert first.history_.objective.equals(second.history_.objective)

    def test_score_is_finite(self):
        model = self.fit(table())
        assert np.isfinite(model.score(table(seed=1)))
        with pytest.raises(ValueError, match="7 features"):
            model.score(table(d=7))

    def test_it_is_a_model(self, tmp_path):
        X = table()
        model = self.fit(X)
        assert np.allclose(model.means_, X.mean(axis=0))
        residuals = X - model.predict(X)
        assert np.allclose((residuals**2).mean(axis=0), model.noise_variances_, rtol=1e-6)
        assert model.sample(3, rng=0).shape == (3, 6)
        cause, effect = model.order_[[0, -1]].tolist()
        expected = np.linalg.inv(np.eye(6) - model.weights_.toarray())[cause, effect]
        assert model.total_effect(cause, effect) == pytest.approx(expected, abs=1e-12)
        model.save(tmp_path / "model.npz")
        assert LinearModel.load(tmp_path / "model.npz").dag == model.dag_
        for call in (model.predict, model.impute):
            with pytest.raises(ValueError, match="7 features"):
                call(table(d=7))
        with pytest.raises(NotFittedError):
            self.make().sample()

    def test_pickle(self):
        model = self.fit(table())
        again = pickle.loads(pickle.dumps(model))
        assert again.dag_ == model.dag_
        assert again.score(table()) == model.score(table())

    def test_sklearn_checks(self):
        # These want a prediction of one target; a model predicts every variable.
        many = ["check_estimator_sparse_matrix", "check_estimator_sparse_array"]
        if self.takes_missing:  # and one predicts from missing values
            many.append("check_estimators_pickle")
        check_estimator(self.make(), expected_failed_checks=dict.fromkeys(many, "all variables"))

    # -------------------------------------------------------------- what it takes

    def test_dtypes_and_layouts_do_not_matter(self):
        X = np.rint(8 * table())
        expected = self.fit(X, n_jobs=1).weights_.toarray()
        frozen = X.copy()
        frozen.flags.writeable = False
        strided = np.repeat(X, 2, axis=1)[:, ::2]
        same = [X.astype(t) for t in (np.float32, np.int64, np.int16)]
        for other in [*same, np.asfortranarray(X), frozen, strided, pd.DataFrame(X), X.tolist()]:
            assert np.array_equal(self.fit(other, n_jobs=1).weights_.toarray(), expected)

    def test_data_are_not_changed(self):
        X = table()
        before = X.copy()
        self.fit(X)
        assert np.array_equal(X, before)

    def test_names_are_kept(self):
        names = ["rain", "wet", "slip", "fall", "pain", "rest"]
        model = self.fit(pd.DataFrame(table(), columns=names))
        assert model.dag_.names == tuple(names)
        assert list(model.feature_names_in_) == names

    def test_covariance_instead_of_data(self):
        X = table()
        S = np.cov(X.T, bias=True)
        model = self.fit(Dataset.from_covariance(S, len(X)), lambda1=0.1)
        expected = equation_1(X, model.weights_, self.lambda1(model, 0.1))
        assert model.objective_ == pytest.approx(expected, rel=1e-6)

    def test_constant_columns_are_isolated(self):
        X = table()
        X[:, [1, 4]] = 7.0
        with pytest.warns(DataWarning):
            model = self.fit(X)
        W = model.weights_.toarray()
        assert not W[[1, 4]].any()
        assert not W[:, [1, 4]].any()
        assert np.isfinite(model.score(X))

    def test_only_constant_columns(self):
        with pytest.warns(DataWarning):
            model = self.fit(np.ones((5, 3)))
        assert model.weights_.nnz == 0

    def test_duplicate_columns(self):
        X = table()
        X[:, 3] = X[:, 0]
        model = self.fit(X, lambda1=0.1)
        expected = equation_1(X, model.weights_, self.lambda1(model, 0.1))
        assert model.objective_ == pytest.approx(expected, rel=1e-9)

    def test_fewer_samples_than_variables(self):
        X = table(n=6, d=15)
        model = self.fit(X, lambda1=0.1)
        expected = equation_1(X, model.weights_, self.lambda1(model, 0.1))
        assert model.objective_ == pytest.approx(expected, rel=1e-9)

    def test_one_column(self):
        X = table()[:, :1]
        model = self.fit(X)
        assert model.weights_.nnz == 0
        assert model.objective_ == pytest.approx(X.var() / 2)

    def test_two_rows(self):
        self.fit(table(n=2))

    def test_scales_from_1e_minus_12_to_1e12(self):
        X = table() * np.logspace(-12, 12, 6)
        model = self.fit(X, lambda1=0.1)
        at_most = equation_1(X, np.zeros((6, 6)), 0.1)
        expected = equation_1(X, model.weights_, self.lambda1(model, 0.1))
        assert model.objective_ == pytest.approx(expected, rel=1e-6, abs=1e-9 * at_most)
        for scale in (1e-12, 1e12):
            self.fit(table() * scale)

    # -------------------------------------------------------------- what it refuses

    def test_bad_parameters(self):
        X = table()
        for name, allowed in self.make()._parameters.items():
            for bad in bad_values(allowed):
                with pytest.raises(ParameterError, match=rf"^{name} must be .* Got "):
                    self.learner().set_params(**{name: bad}).fit(X)

    def test_bad_tables(self):
        X = table()
        nan, inf = X.copy(), X.copy()
        nan[3, 2], inf[5, 1] = np.nan, np.inf
        text = pd.DataFrame(X).assign(kind="a")
        flat, deep = X[0], X[None]
        gaps = () if self.takes_missing else (nan, sp.csr_array(nan))
        for bad in (*gaps, inf, text, flat, deep, X[:0], X[:1], X[:, :0], X + 1j):
            with pytest.raises((DataError, TypeError)):
                self.learner().fit(bad)

    def test_bad_warm_starts(self):
        X = pd.DataFrame(table(), columns=list("abcdef"))
        empty = np.zeros((6, 6))
        other = DAG(empty, names=list("ghijkl"))
        for bad in (np.zeros((5, 5)), np.zeros((6, 5)), np.full((6, 6), np.nan), other):
            with pytest.raises(GraphError, match="warm_start_dag"):
                self.learner(warm_start_dag=bad).fit(X)
        with pytest.raises(ParameterError, match="warm_start_dag"):
            self.learner(warm_start_dag="dag.npz").fit(X)

    def test_too_little_memory(self):
        with pytest.raises(MemoryLimitError, match="1 KB"):
            self.learner(memory_limit="1KB").fit(table())

    # -------------------------------------------------------------- when it ends

    def test_limit_shorter_than_a_step(self):
        model = self.fit(table(), time_limit=1e-9)
        assert model.status_ == "time_limit"
        assert model.n_iter_ <= 1

    def test_limit_is_overrun_by_one_step_at_most(self, monkeypatch):
        clock, seen = [0.0], []
        monkeypatch.setattr(Run, "seconds", property(lambda run: clock[0]))

        def slow(state: Any) -> None:
            seen.append(state.seconds)
            clock[0] += 0.1  # only the callback takes time

        model = self.fit(table(), time_limit=0.15, callback=slow)
        assert seen == [0.0, 0.1][: len(seen)]  # the second step ends at 0.2
        assert model.status_ == "time_limit" or len(seen) < 2

    def test_max_iter(self):
        model = self.fit(table(), max_iter=1)
        assert (model.history_.phase != "refit").mul(model.history_.iteration).max() <= 1
        assert model.status_ in {"max_iter", "converged"}

    def test_callback_sees_the_state_and_can_stop(self):
        states: list[Any] = []

        def stop(state: Any) -> bool:
            states.append(state)
            assert state.weights().shape == state.best().shape == (6, 6)
            assert is_acyclic(state.best())
            return True

        model = self.fit(table(), callback=stop)
        assert model.status_ == "interrupted"
        assert len(states) == model.n_iter_ == 1
        assert states[0].iteration == 1
        assert np.isfinite(states[0].objective)
        assert isinstance(states[0].phase, str)

    def test_ctrl_c_gives_the_best_so_far(self):
        def interrupt(state: Any) -> None:
            raise KeyboardInterrupt

        model = self.check(interrupted(self.learner(callback=interrupt), table()))
        assert model.status_ == "interrupted"

    def test_being_asked_to_end_is_a_deadline(self):
        """A fit that is asked to end answers as one whose time is up at that moment."""
        X, answers = table(d=12), []
        for end in (ask_to_end, None):

            def at_the_second_step(state: Any, end: Any = end) -> None:
                if state.iteration == 2 and end is not None:
                    end()

            with deadline_at_look(None if end else 1, after_step=2):
                model = self.learner(callback=at_the_second_step, random_state=0)
                torn = False
                try:
                    model.fit(X)
                except KeyboardInterrupt:
                    torn = True
            answers.append(self.check(model))
            assert torn == (end is not None and model.n_iter_ >= 2)
        if answers[0].n_iter_ >= 2:
            assert answers[0].status_ == "interrupted"
        assert answers[0].dag_ == answers[1].dag_

    def test_a_deadline_at_any_look_at_the_clock(self, monkeypatch):
        """Whenever time is up, the answer is a DAG no worse than the last one held."""
        X = table(d=12, n=60)
        for hold in (True, False):
            hold_correlations(monkeypatch, hold)
            looks = 1
            while True:
                with deadline_at_look(looks, worth=self.worth) as seen:
                    model = self.fit(X, random_state=0)
                if not seen:  # it ended before that many looks
                    break
                assert model.status_ in {"time_limit", "max_iter"}
                run, held = seen[0]
                assert self.worth(run) <= held + 1e-9 * abs(held)
                looks = max(looks + 1, int(looks * 1.3))

    def worth(self, run: Run) -> float:
        """Return what the method lowers, of the graph that a run holds."""
        return run.best_objective if self.keeps_best else 0.0

    @pytest.mark.parametrize("hold", [True, False])
    def test_correlations_may_be_held_or_not(self, hold, monkeypatch):
        X = table(d=12, n=60)
        hold_correlations(monkeypatch, True)
        expected = self.fit(X, random_state=0)
        held = hold_correlations(monkeypatch, hold)
        model = self.fit(X, random_state=0)
        assert held == [hold]
        assert model.objective_ == pytest.approx(expected.objective_, rel=self.not_held)

    def test_a_fit_that_fails_leaves_the_estimator_as_it_was(self):
        names = list("abcdef")
        model = self.fit(pd.DataFrame(table(), columns=names))
        before = dict(model.__dict__)

        def fail(state: Any) -> None:
            raise LookupError("mine")

        model.set_params(callback=fail)
        with pytest.raises(LookupError):
            model.fit(table(d=7))
        model.set_params(callback=None)
        assert set(model.__dict__) == set(before)
        assert all(model.__dict__[name] is before[name] for name in before)
        assert np.isfinite(model.score(pd.DataFrame(table(), columns=names)))

    def test_a_refit_keeps_no_names(self):
        model = self.fit(pd.DataFrame(table(), columns=list("abcdef")))
        for unnamed in (table(), as_dataset(table())):
            model.fit(pd.DataFrame(table(), columns=list("abcdef")))
            model.fit(unnamed)
            assert not hasattr(model, "feature_names_in_")
            assert not model.dag_.named

    def test_errors_of_a_callback_are_not_swallowed(self):
        def fail(state: Any) -> None:
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            self.learner(callback=fail).fit(table())

    # -------------------------------------------------------------- where it begins

    def test_warm_start_from_a_dag_or_a_matrix(self):
        X = table()
        start = random_dag(6, 1, rng=5)
        models = [
            self.fit(X, warm_start_dag=given, random_state=0, n_jobs=1)
            for given in (start, start.weights, start.weights.toarray())
        ]
        for model in models[1:]:
            assert np.array_equal(model.weights_.toarray(), models[0].weights_.toarray())
        if self.keeps_best:
            begun = equation_1(X, start.weights, models[0].lambda1)
            assert models[0].objective_ <= begun * (1 + 1e-9)

    def test_warm_start_with_a_cycle_and_a_diagonal(self):
        self.fit(table(), warm_start_dag=np.full((6, 6), 0.5))

    def test_warm_start_is_matched_by_name(self):
        X = pd.DataFrame(table(), columns=list("abcdef"))
        start = self.fit(X, random_state=0, n_jobs=1).dag_
        shuffled = start.subgraph(list("fbdeca"))
        one, other = (
            self.fit(X, warm_start_dag=given, random_state=0, n_jobs=1)
            for given in (start, shuffled)
        )
        assert np.array_equal(one.weights_.toarray(), other.weights_.toarray())

    def test_nothing_is_printed(self, capsys):
        self.fit(table(), verbose=True)
        assert capsys.readouterr().out == ""
