"""What the learners on torch do with data, parameters and devices that numbers cannot follow."""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from bigdag import GD, GOLEM, NOTEARS, OptiMAS
from bigdag.cli import app
from bigdag.data.dataset import Dataset
from bigdag.errors import BigdagError, ParameterError
from bigdag.graph.acyclic import is_acyclic
from bigdag.learners.dense import Pace
from bigdag.simulate import random_dag, sample

QUICK = {"max_iter": 40, "learning_rate": 0.01}
SOFT = {"solver": "soft_penalty", "lambda2": 5.0}
METHODS = {
    "NOTEARS": lambda **given: NOTEARS(
        **({"solver": "soft_penalty", "lambda2": 5.0} | QUICK | given)
    ),
    "GOLEM-EV": lambda **given: GOLEM("EV", **(QUICK | given)),
    "GOLEM-NV": lambda **given: GOLEM("NV", **(QUICK | given)),
    "OptiMAS": lambda **given: OptiMAS(**(QUICK | given)),
    "OptiMAS from zeros": lambda **given: OptiMAS(start="zeros", **(QUICK | given)),
    "OptiMAS on a support": lambda **given: OptiMAS(engine="sparse", **(QUICK | given)),
}
LIKELIHOODS = ("GOLEM-EV", "GOLEM-NV")


def table(n=200, d=6):
    return sample(random_dag(d, 1, rng=0), n, rng=1)


def fit(make, X, **given):
    model = make(**given).fit(X)
    assert np.isfinite(model.weights_.data).all()
    assert is_acyclic(model.weights_)
    assert not np.isnan(model.objective_)
    return model


# ------------------------------------------------------------------ scales


@pytest.mark.parametrize("scale", [1e-140, 1e-20, 1e100, 1e140])
@pytest.mark.parametrize("n", [4, 200])  # from the data, from the moments
@pytest.mark.parametrize("name", METHODS)
def test_the_unit_of_the_data_changes_nothing_but_the_unit(name, n, scale):
    """Equation (1) of data times s, at lambda1 times s², is s² times that of the data."""
    X = table(n)
    given = {"dtype": "float64"}
    expected = fit(METHODS[name], X, **given)
    if name not in LIKELIHOODS:
        given |= {"lambda1": 0.1 * scale**2, "lambda2": METHODS[name]().lambda2 * scale**2}
    model = fit(METHODS[name], X * scale, **given)
    assert model.status_ != "diverged"
    assert model.weights_.nnz > 0
    assert np.allclose(model.weights_.toarray(), expected.weights_.toarray(), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("scale", [1e100, 1e140])
@pytest.mark.parametrize("name", METHODS)
def test_large_data_are_fitted_as_with_hardly_a_penalty(name, scale):
    model = fit(METHODS[name], table() * scale, max_iter=100, learning_rate=0.03)
    empty = 0.5 * np.sum((table() * scale).var(axis=0))
    assert model.objective_ < 0.6 * empty
    assert np.isfinite(model.history_.objective).all()


@pytest.mark.parametrize("scale", [1e-100, 1e-140])
@pytest.mark.parametrize("name", sorted(set(METHODS) - set(LIKELIHOODS)))
def test_small_data_have_no_arc_worth_its_penalty(name, scale):
    assert fit(METHODS[name], table() * scale, max_iter=200).weights_.nnz == 0


@pytest.mark.parametrize("name", METHODS)
def test_columns_too_far_apart_for_gradients_are_told(name, caplog):
    X = table() * np.where(np.arange(6) % 2, 1e100, 1.0)
    model = fit(METHODS[name], X)
    if name == "GOLEM-EV":  # to one noise variance for all, the small columns are as good as none
        return
    assert model.status_ == "diverged"
    assert "standard deviations run from" in caplog.text
    assert "Divide each column by its standard deviation" in caplog.text


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"GOLEM-NV"}))
def test_a_column_too_small_for_any_arc_changes_nothing(name):
    X = table()
    X[:, 3] *= 1e-100
    model = fit(METHODS[name], X)
    assert model.status_ != "diverged"
    assert model.weights_[[3]].nnz == model.weights_[:, [3]].nnz == 0
    assert model.weights_.nnz > 0


@pytest.mark.parametrize("scale", [1e-100, 1e-30, 1e30, 1e100])
@pytest.mark.parametrize("name", METHODS)
def test_float32_on_request_never_converges_on_what_overflowed(name, scale):
    for X in (table() * scale, table() * np.logspace(0, np.log10(scale), 6)):
        empty = 0.5 * np.sum(X.var(axis=0))
        model = fit(METHODS[name], X, dtype="float32")
        if scale > 1 and name not in LIKELIHOODS:
            assert model.status_ == "diverged" or model.objective_ < empty


def test_a_covariance_of_any_scale():
    S = np.cov(table().T, bias=True)
    for engine in ("dense", "sparse"):
        one = OptiMAS(engine=engine, **QUICK).fit(Dataset.from_covariance(S * 1e200, 200))
        assert one.objective_ < 0.6e200 * 0.5 * np.trace(S)


def test_gd_at_any_scale():
    X = table()
    expected = GD(lambda1=0.1, random_state=0).fit(X)
    for scale in (1e-140, 1e-100, 1e100, 1e140):
        model = GD(lambda1=0.1 * scale**2, random_state=0).fit(X * scale)
        assert model.status_ == "converged"
        assert np.allclose(model.weights_.toarray(), expected.weights_.toarray(), rtol=1e-6)
    mixed = X * np.where(np.arange(6) % 2, 1e100, 1.0)
    model = GD().fit(mixed)
    assert is_acyclic(model.weights_)
    assert model.objective_ < 0.9 * 0.5 * np.sum(mixed.var(axis=0))


# ------------------------------------------------------------------ parameters


@pytest.mark.parametrize(
    "given",
    [
        {"learning_rate": 1e300},
        {"learning_rate": 1e30},
        {"learning_rate": 1e300, "optimizer": "SGD"},
        {"learning_rate": 1e300, "dtype": "float64"},
        {"learning_rate": 1e300, "optimizer": "LBFGS"},
        {"learning_rate": 1e-300},
        {"lambda1": 1e300},
        {"lambda1": 1e300, "dtype": "float64"},
        {"lambda2": 1e300},
        {"lambda2": 1e300, "dtype": "float64"},
        {"lambda1": 0.0, "lambda2": 0.0},
        {"tol": 0.0},
        {"tol": 1.0},
        {"patience": 1},
        {"patience": 10**12},
        {"warm_start_dag": np.triu(np.full((6, 6), 1e200), 1)},
        {"warm_start_dag": np.full((6, 6), 1e30)},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", METHODS)
def test_any_number_a_parameter_allows_ends_with_a_dag(name, given, caplog):
    model = fit(METHODS[name], table(), **given)
    if model.status_ == "diverged":
        assert "has diverged: " in caplog.text


def optimizers():
    base = torch.optim.Optimizer
    found = vars(torch.optim).items()
    return sorted(k for k, v in found if isinstance(v, type) and issubclass(v, base))


@pytest.mark.parametrize("optimizer", optimizers())
@pytest.mark.parametrize("name", ["NOTEARS", "OptiMAS on a support"])
def test_every_optimiser_of_torch_fits_or_is_refused_in_a_sentence(name, optimizer):
    try:
        said, model = "", fit(METHODS[name], table(), optimizer=optimizer, max_iter=10)
    except ParameterError as error:
        said, model = str(error), None
    if model is None:
        assert said.startswith("optimizer must ")
        assert "Got " in said
    else:
        assert model.status_ in {"converged", "max_iter", "diverged"}


class Failing(torch.optim.SGD):
    says = "no kernel image is available"

    def step(self, closure=None):
        raise RuntimeError(self.says)


@pytest.mark.parametrize(
    ("says", "error", "words"),
    [
        ("no kernel image is available", ParameterError, "optimizer must .* no kernel image"),
        ("DefaultCPUAllocator: can't allocate memory", BigdagError, "no memory left"),
        ("", ParameterError, "RuntimeError"),
    ],
)
def test_an_optimiser_that_fails_says_why(says, error, words, monkeypatch):
    monkeypatch.setattr(Failing, "says", says)
    with pytest.raises(error, match=words):
        NOTEARS(solver="soft_penalty", optimizer=lambda w: Failing(w, lr=0.1)).fit(table())


@pytest.mark.parametrize("device", ["meta", "xla", "vulkan", "hpu", "cuda:99", "", " ", "gpu0"])
def test_a_device_that_cannot_hold_numbers(device):
    with pytest.raises(ParameterError, match=r"^device must be one that is there: cpu.* Got "):
        NOTEARS(solver="soft_penalty", device=device).fit(table())


def test_a_device_that_cannot_hold_numbers_at_the_command(tmp_path):
    np.save(tmp_path / "table.npy", table())
    out = tmp_path / "dag.csv"
    command = ["fit", str(tmp_path / "table.npy"), "--method", "golem-ev", "--device", "meta"]
    result = CliRunner().invoke(app, [*command, "--out", str(out)])
    assert result.exit_code == 2, result.output
    assert "device must be one that is there" in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert not out.exists()


# ------------------------------------------------------------------ threads


def numbers_of_threads():
    """Return torch's number in this thread, and in one that begins now."""
    new = []
    thread = threading.Thread(target=lambda: new.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return torch.get_num_threads(), *new


@pytest.mark.parametrize("first_out", [0, 1])
def test_overlapping_fits_leave_the_number_of_threads(first_out):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    inside, leave = [threading.Event() for _ in range(2)], [threading.Event() for _ in range(2)]
    after = [None, None]

    def work(k):
        def wait(state):
            inside[k].set()
            assert leave[k].wait(60)
            return True

        NOTEARS(solver="soft_penalty", callback=wait, n_jobs=1).fit(table())
        after[k] = numbers_of_threads()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    try:
        for k, thread in enumerate(threads):
            thread.start()
            assert inside[k].wait(60)
        for k in (first_out, 1 - first_out):
            leave[k].set()
            threads[k].join(60)
        assert [own for own, _ in after] == [3, 3]
        assert after[1 - first_out][1] == 3
        assert numbers_of_threads() == (3, 3)
    finally:
        torch.set_num_threads(before)


def test_a_fit_that_fails_leaves_the_number_of_threads():
    before = numbers_of_threads()
    with pytest.raises(LookupError):
        NOTEARS(solver="soft_penalty", n_jobs=1, callback=lambda state: {}["missing"]).fit(table())
    assert numbers_of_threads() == before


# ------------------------------------------------------------------ the deadline


class Clock:
    """Seconds that pass by one at every look."""

    def __init__(self):
        self.seconds, self.time_limit, self.status = -1.0, 10.0, "converged"

    def out_of_time(self):
        return self.seconds >= self.time_limit


@pytest.mark.parametrize(("lasts", "ending", "steps"), [(1, 0, 10), (3, 0, 3), (3, 1, 2)])
def test_no_step_is_begun_that_would_end_after_the_deadline(lasts, ending, steps):
    clock, taken = Clock(), 0
    clock.seconds = 0.0
    pace = Pace(clock, ending)
    while not pace.is_over():
        taken += 1
        clock.seconds += lasts
    assert taken == steps
    assert clock.status == "time_limit"
    assert clock.seconds + ending * lasts <= clock.time_limit


@pytest.mark.parametrize("name", METHODS)
def test_time_that_is_up_at_any_look_leaves_what_was_held(name, monkeypatch):
    """The k-th look at the clock finds the time over; the answer never gets worse for that."""
    from bigdag.learners.run import Run

    X = table()
    values = []
    for k in (0, 1, 2, 3, 5, 8, 13, 21):
        looks = 0

        def seconds(run, k=k):
            nonlocal looks
            looks += 1
            return 0.0 if looks <= k else 1e9

        with monkeypatch.context() as patch:
            patch.setattr(Run, "seconds", property(seconds))
            model = fit(METHODS[name], X, time_limit=1e6)
        assert model.status_ == "time_limit"
        values.append(model.objective_)
    if name.startswith("OptiMAS"):
        assert values == sorted(values, reverse=True)


def test_a_diverging_fit_says_so_once(caplog):
    caplog.set_level(logging.WARNING)
    NOTEARS(solver="soft_penalty", learning_rate=1e300).fit(table())
    assert caplog.text.count("has diverged") == 1
