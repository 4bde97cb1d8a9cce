"""Compiled functions: each is compiled once, so that a first answer takes seconds."""

import ast
import inspect
import sys

import numpy as np
import pytest

from bigdag import GD, OrderSearch, ProxiMAS, SortRegress, simulate
from bigdag.compiled import KERNELS, kernel
from bigdag.data.dataset import as_dataset
from bigdag.engine import lasso
from bigdag.engine.gram import Gram
from bigdag.engine.order import nth_least, sort_with
from bigdag.search.arrangement import Arrangement

# What is compiled more than once, and why.
SEVERAL = {
    "bigdag.engine.heap.sift",  # keys are whole numbers in one place and variances in another
    "bigdag.engine.heap.pop",
}


def kernels():
    """Return all compiled functions of the package by name."""
    return {f"{one.py_func.__module__}.{one.py_func.__qualname__}": one for one in KERNELS}


def test_every_kernel_is_compiled_once():
    """Whatever is fitted, held or not, a kernel sees arguments of the same types."""
    before = {name: set(one.signatures) for name, one in kernels().items()}
    for d, n, k in ((12, 100, 1), (40, 30, 3)):
        truth = simulate.random_dag(d, k, rng=d)
        X = simulate.sample(truth, n, rng=d)
        for learner in (
            ProxiMAS(max_iter=30), ProxiMAS(start="lasso", max_iter=5), OrderSearch(),
            OrderSearch(criterion="bic", restarts=2, random_state=0),
            OrderSearch(candidates="correlated"), SortRegress(), GD(max_iter=5),
        ):  # fmt: skip
            learner.fit(X)
        for hold in (True, False):
            gram = Gram(as_dataset(X), hold=hold)
            fit = lasso.solve(gram, 0.1)
            lasso.solve(gram, 0.05, order=np.arange(d), start=fit.weights, mask=fit.weights)
            found = Arrangement(gram, 0.1, np.arange(d))
            found.attempt(found.insertions())
    for name, one in kernels().items():
        fresh = [s for s in one.signatures if s not in before.get(name, set())]
        if name not in SEVERAL:
            assert len(fresh) <= 1, (name, fresh)


def test_no_kernel_gives_a_constant_to_another():
    """Numba compiles a function once more for each constant that it is called with.

    The test above does not see it where the caller was compiled before and is on the disk.
    """
    functions = {one.py_func.__name__: one for one in KERNELS}
    calls = [
        (function.name, ast.unparse(call))
        for module in {one.py_func.__module__ for one in KERNELS}
        for function in ast.parse(inspect.getsource(sys.modules[module])).body
        if isinstance(function, ast.FunctionDef) and function.name in functions
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        if call.func.id in functions and functions[call.func.id].targetoptions.get("inline") is None
        if any(isinstance(one, ast.Constant) for one in call.args)
    ]
    assert calls == []


def test_a_kernel_inside_of_others_also_answers_python():
    """Without an entrance of its own a call from Python would end the process."""

    @kernel(inside=True)
    def twice(x):
        return 2 * x

    @kernel
    def four_times(x):
        return twice(twice(x))

    assert four_times(3) == 12
    assert twice(1.5) == 3.0
    assert twice(np.arange(3)).tolist() == [0, 2, 4]


@pytest.mark.parametrize("seed", range(20))
def test_nth_least_is_numpys(seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(5 if seed % 2 else 10**6, size=rng.integers(1, 200)).astype(float)
    count = int(rng.integers(1, len(values) + 1))
    n = int(rng.integers(count))
    expected = np.sort(values[:count])[n]
    rest = values[count:].copy()
    assert nth_least(values, count, n) == expected
    assert np.array_equal(values[count:], rest)


@pytest.mark.parametrize("seed", range(20))
def test_names_are_sorted_with_their_keys(seed):
    rng = np.random.default_rng(seed)
    keys = rng.integers(5 if seed % 2 else 10**6, size=rng.integers(0, 200)).astype(float)
    names, before = np.arange(len(keys)), keys.copy()
    sort_with(keys, names, len(keys))
    assert np.array_equal(keys, np.sort(before))
    assert np.array_equal(before[names], keys)
    assert sorted(names) == list(range(len(keys)))


def test_an_error_inside_of_another_kernel_reaches_python():
    """What is only linked into its callers has no environment of its own."""

    @kernel(inside=True)
    def share(whole, parts):
        if parts < 0:
            raise ValueError("fewer than no parts")
        return whole // parts

    @kernel
    def outer(whole, parts):
        return share(whole, parts)

    assert outer(7, 2) == 3
    with pytest.raises(ZeroDivisionError):
        outer(7, 0)
    with pytest.raises(ValueError, match="fewer than no parts"):
        outer(7, -1)
