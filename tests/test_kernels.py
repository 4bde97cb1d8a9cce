"""Compiled functions: each is compiled once, so that a first answer takes seconds."""

import ast
import inspect
import sys
from typing import NamedTuple

import numpy as np
import pytest

from bigdag import GD, OrderSearch, ProxiMAS, SortRegress, simulate
from bigdag.compiled import KERNELS, _KernelFlags, kernel
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


def test_what_numba_changes_for_arrays_does_not_reach_other_kernels():
    """Numba computes expressions of arrays with other flags: there a division by zero is NaN."""

    @kernel
    def shares(wholes, parts):
        return wholes / parts

    @kernel
    def share(whole, parts):
        return whole / parts

    with np.errstate(all="ignore"):
        assert np.isinf(shares(np.array([1.0, 2.0]), np.array([0.0, 1.0]))[0])
    with pytest.raises(ZeroDivisionError):
        share(1.0, 0.0)
    with pytest.raises(ZeroDivisionError):
        share(1, 0)
    for values, flags in _KernelFlags._shared.items():
        assert flags.summary().partition("(")[2] == values.partition("(")[2]


def test_a_generator_is_a_kernel_too():
    @kernel(_nrt=False)
    def upto(n, step):
        for i in range(n):
            yield i * step

    assert list(upto(4, 3)) == [0, 3, 6, 9]


class Pair(NamedTuple):
    first: np.ndarray
    second: np.ndarray


@kernel(inside=True, _nrt=False)
def swap_until(pair, times):
    while times > 0:
        for i in range(len(pair.first)):
            pair.first[i], pair.second[i] = pair.second[i], pair.first[i] + times
        times -= 1
    return times


@kernel(_nrt=False)
def on_tuples(pair, other, times):
    """Arguments that are used in every branch, set anew in one, and handed on."""
    total = times
    if times > 2:
        pair = other
        total += swap_until(pair, times)
    for i in range(len(pair.first)):
        if pair.second[i] > pair.first[i]:
            total += swap_until(other, np.int64(1))
            break
        total += pair.second[i]
    return total + other.first[0]


@pytest.mark.parametrize("times", range(5))
def test_arguments_are_known_in_every_block(times):
    """What a kernel is given is no variable in memory, but stays what Python would have."""
    rng = np.random.default_rng(times)
    pairs = [Pair(*rng.integers(9, size=(2, 6))) for _ in range(2)]
    same = [Pair(pair.first.copy(), pair.second.copy()) for pair in pairs]

    def swapped(pair, count):
        for c in range(count, 0, -1):
            pair.first[:], pair.second[:] = pair.second.copy(), pair.first + c
        return 0

    pair, other = same
    expected = times
    if times > 2:
        pair = other
        expected += swapped(pair, times)
    for i in range(6):
        if pair.second[i] > pair.first[i]:
            expected += swapped(other, 1)
            break
        expected += pair.second[i]
    expected += other.first[0]
    assert on_tuples(*pairs, times) == expected
    for one, two in zip(pairs, same):
        assert np.array_equal(one.first, two.first)
        assert np.array_equal(one.second, two.second)
