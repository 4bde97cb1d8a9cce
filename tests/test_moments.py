"""Tables that do not fit into the memory: the same answer from one pass over their rows."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from bigdag import OrderSearch, ProxiMAS
from bigdag.data.convert import block_rows, rows_of
from bigdag.data.dataset import as_dataset, moments_dataset
from bigdag.data.moments import is_one_pass, pass_over
from bigdag.data.tables import read_table
from bigdag.errors import DataError, DataWarning, MemoryLimitError, ParameterError
from bigdag.resources import memory_held
from h5ad import write_h5ad
from test_cli import bigdag_

D = 12
N = 12 * 682 + 345  # some blocks, as they are here, and a part of one
NAMES = tuple(f"v{j}" for j in range(D))


def chain(n=N, d=D, seed=0):
    """Return a table of a chain of causes, in unlike units, far from zero, with a drift."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    for j in range(1, d):
        X[:, j] += 0.8 * X[:, j - 1]
    X[:, 2] += 1e6
    X[:, 3] = 1e-8 * X[:, 3] - 1e-3
    X[:, 4] = 1e9 * X[:, 4]
    X[:, 5] += np.linspace(0, 30, n)
    return X


X = chain()


def told(make):
    """Return a data set, and the warnings but for that of the pass."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        data = make()
    messages = [str(w.message) for w in found]
    return data, [m for m in messages if "in one pass" not in m], len(messages)


def check_same(data, table, names=NAMES):
    expected = as_dataset(table, names)
    S = expected.X.T @ expected.X / len(table)
    sd = np.sqrt(np.diag(S))
    sd[sd == 0] = 1.0
    assert data.X is None
    assert data.n_samples == len(table)
    assert (data.names, data.named) == (expected.names, expected.named)
    assert np.abs((data.covariance - S) / np.outer(sd, sd)).max() < 1e-12
    assert np.abs((data.mean - expected.mean) / np.maximum(sd, abs(expected.mean))).max() < 1e-14
    assert np.array_equal(data.covariance, data.covariance.T)
    assert not data.covariance.flags.writeable
    assert np.array_equal(data.constant, expected.constant)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Have small tables read in several blocks."""
    monkeypatch.setattr("bigdag.data.convert._BLOCK", 2**14)
    assert 3 * block_rows(D) < N


@pytest.fixture
def scarce(monkeypatch):
    """Leave too little memory for the table, and enough for its moments."""
    monkeypatch.setattr("bigdag.data.moments.memory_left", lambda limit: X.nbytes - 1)
    monkeypatch.setattr("bigdag.data.columns._PAGE", 100)  # those of small files are small
    monkeypatch.setattr("bigdag.data.columns._BUFFER", 100)
    monkeypatch.setattr("bigdag.data.columns._THREADS", 100)
    monkeypatch.setattr("bigdag.data.content.COLUMN", 100)


# ------------------------------------------------------------------ the same answer


def test_moments_are_those_of_the_table_in_memory():
    check_same(moments_dataset(rows_of(X), NAMES, True), X)


@pytest.mark.parametrize("shift", [0.0, 1e6, -1e9])
@pytest.mark.parametrize("d", [1, 3, 130, 300])
def test_moments_of_any_width_and_far_from_zero(d, shift):
    table = np.random.default_rng(d).normal(size=(2 * block_rows(d) + 7, d)) + shift
    found = pass_over(rows_of(table), [str(j) for j in range(d)], 1e150)
    centred = table - table.mean(axis=0)
    centred -= centred.mean(axis=0)
    # The reference loses some digits far from zero itself.
    assert np.allclose(found.covariance, centred.T @ centred / len(table), rtol=1e-10, atol=1e-12)


def test_the_number_of_threads_changes_no_bit():
    wide = np.random.default_rng(0).normal(size=(3000, 300))
    one, four = (pass_over(rows_of(wide), ["x"] * 300, 1e150, n) for n in (1, 4))
    assert np.array_equal(one.covariance, four.covariance)
    assert np.array_equal(one.projections, four.projections)


def _parquet(path, groups=10_000):
    table = pa.table({name: X[:, j] for j, name in enumerate(NAMES)})
    pq.write_table(table, path, row_group_size=groups)


WRITERS = {
    "t.npy": lambda path: np.save(path, X),
    "f.npy": lambda path: np.save(path, np.asfortranarray(X)),
    "t.parquet": _parquet,
    "one.parquet": lambda path: _parquet(path, N),
    "t.feather": lambda path: pyarrow.feather.write_feather(
        pd.DataFrame(X, columns=NAMES), path, chunksize=701
    ),
    "t.h5ad": lambda path: write_h5ad(path, X, NAMES),
    "s.h5ad": lambda path: write_h5ad(path, sparse.csr_matrix(X), NAMES),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.usefixtures("scarce")
def test_a_file_larger_than_the_memory_is_read_in_one_pass(name, tmp_path):
    WRITERS[name](tmp_path / name)
    expected = moments_dataset(rows_of(X), NAMES, True)
    with pytest.warns(DataWarning, match="in one pass") as caught:
        data = read_table(tmp_path / name, memory_limit="8GB")
    assert caught[0].filename == __file__
    if name.endswith(".npy"):
        assert not data.named
    else:
        assert data.names == NAMES
    # To the bit: blocks do not depend on how the file is made.
    assert np.array_equal(data.covariance, expected.covariance)
    assert np.array_equal(data.mean, expected.mean)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.usefixtures("scarce")
def test_a_mapped_array_is_read_in_one_pass(order, mode, tmp_path):
    np.save(tmp_path / "t.npy", np.asarray(X, order=order))
    mapped = np.load(tmp_path / "t.npy", mmap_mode=mode)
    for table in (mapped, np.asarray(mapped)):
        with pytest.warns(DataWarning, match="in one pass"):
            data = as_dataset(table, NAMES, "8GB")
        check_same(data, X)
    mapped[:, 1]  # is still there


@pytest.mark.usefixtures("scarce")
def test_a_sparse_matrix_too_large_when_dense_is_read_in_one_pass():
    table = X * (np.random.default_rng(1).random(X.shape) < 0.1)
    for form in ("csr", "csc", "coo"):
        matrix = sparse.csr_array(table).asformat(form)
        with pytest.warns(DataWarning, match="in one pass"):
            data = as_dataset(matrix, NAMES, "8GB")
        check_same(data, table)


def test_the_same_graph():
    """The graph of the learner that reads moments alone, and of one that reads the order too."""
    for learner in (ProxiMAS(lambda1=0.1), OrderSearch(criterion="bic", penalty=1.0)):
        table = X / X.std(axis=0)
        inside = learner.fit(table).weights_
        outside = learner.fit(moments_dataset(rows_of(table), NAMES, True)).weights_
        assert np.allclose(inside.toarray(), outside.toarray(), atol=1e-8)
        assert np.array_equal(inside.toarray() != 0, outside.toarray() != 0)


def test_a_learner_takes_a_table_that_fits_once_but_not_twice(monkeypatch):
    monkeypatch.setattr(
        "bigdag.data.moments.memory_left", lambda limit: int(4.5 * X.nbytes)
    )  # checking takes thrice
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert as_dataset(X, memory_limit="8GB").X is not None
    with pytest.warns(DataWarning, match="in one pass"):
        ProxiMAS(memory_limit="8GB", max_iter=2).fit(X)


# ------------------------------------------------------------------ the same checks

ODD = {
    "constant": (lambda T: T.__setitem__((slice(None), 1), 0.1), 1),
    "constant but for rounding": (lambda T: T.__setitem__((slice(None), 1), 2.0**60), 1),
    "copies": (lambda T: T.__setitem__((slice(None), 7), 3 - 2 * T[:, 2]), 1),
    "copies in single precision": (
        lambda T: (
            T.__setitem__((slice(None), 6), T[:, 6].astype(np.float32)),
            T.__setitem__((slice(None), 7), (3 * T[:, 6]).astype(np.float32)),
        ),
        1,
    ),
    "near copies": (
        lambda T: T.__setitem__((slice(None), 7), T[:, 6] + 1e-5 * T[:, 0]),
        0,
    ),
    "a count": (lambda T: T.__setitem__((slice(None), 0), np.arange(len(T)) + 1), 1),
    "a count with a gap": (
        lambda T: T.__setitem__((slice(None), 0), np.r_[np.arange(len(T) - 1), 5]),
        0,
    ),
}


@pytest.mark.parametrize(("edit", "count"), ODD.values(), ids=ODD)
def test_the_warnings_are_those_of_a_table_in_memory(edit, count):
    table = X.copy()
    edit(table)
    data, messages, in_all = told(lambda: moments_dataset(rows_of(table), NAMES, True))
    expected, same, _ = told(lambda: as_dataset(table, NAMES))
    assert messages == same
    assert (len(messages), in_all) == (count, count + 1)
    assert np.array_equal(data.constant, expected.constant)


@pytest.mark.parametrize(
    "places",
    [
        {(5, 3): np.nan},
        {(N - 1, 8): np.inf, (70, 9): np.nan, (N - 2, 8): np.nan},
        {(N // 2, 0): -np.inf, (3, 2): 1e200},
        {(N // 2, 2): -1e200, (N // 3, 2): 1e151},
    ],
)
def test_bad_values_are_refused_with_their_places(places):
    table = X.copy()
    for place, value in places.items():
        table[place] = value
    with pytest.raises(DataError) as inside:
        as_dataset(table, NAMES)
    with pytest.raises(DataError) as outside:
        moments_dataset(rows_of(table), NAMES, True)
    said = [str(error.value).partition("Leave these")[0] for error in (inside, outside)]
    assert said[0] == said[1]


@pytest.mark.usefixtures("scarce")
def test_text_and_labels_of_rows_are_refused_before_the_pass(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES)
    path = tmp_path / "t.parquet"
    frame.assign(who="x").to_parquet(path)
    with pytest.raises(DataError, match=r"'who' \(row 1: 'x'\)"):
        read_table(path, memory_limit="8GB")
    frame.rename(columns={"v0": "Unnamed: 0"}).to_parquet(path)
    with pytest.raises(DataError, match=r"column 1 has no name.*--row-labels"):
        read_table(path, memory_limit="8GB")
    frame.assign(v0="s").to_parquet(path)
    with pytest.warns(DataWarning, match="in one pass"):
        data = read_table(path, row_labels=True, memory_limit="8GB")
    assert data.names == NAMES[1:]
    check_same(data, X[:, 1:], NAMES[1:])
    frame.set_index("v3").to_parquet(path)
    with pytest.warns(DataWarning, match="index that pandas noted"):
        assert read_table(path, memory_limit="8GB").n_features == D - 1


@pytest.mark.usefixtures("scarce")
def test_a_file_that_changes_meanwhile_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "t.npy"
    np.save(path, X)

    def shorter(*_):
        np.save(path, X[:-1])
        return np.empty((0, D))

    monkeypatch.setattr("bigdag.data.content.Content.matrix", shorter)
    with pytest.raises(DataError, match="has changed while it was read"):
        read_table(path, memory_limit="8GB")


# ------------------------------------------------------------------ when


def test_when_a_table_is_read_in_one_pass():
    assert not is_one_pass(10**4, 10**4, "100GB")  # it fits
    assert not is_one_pass(10**4, 10**6, "100GB")  # its moments are larger
    assert is_one_pass(10**9, 10**3, "100GB")
    assert not is_one_pass(10**9, 10**3, "100GB", overhead=10**12)
    assert not is_one_pass(9 * 10**6, 10**3, "100GB")
    assert is_one_pass(9 * 10**6, 10**3, "100GB", copies=2)


def test_what_needs_rows_says_so():
    data = moments_dataset(rows_of(X), NAMES, True)
    with pytest.raises(ParameterError, match="holds rows out"):
        OrderSearch(criterion="bic", penalty="auto").fit(data)


def test_a_text_file_beyond_the_limit_is_still_refused(tmp_path):
    pd.DataFrame(X).to_csv(tmp_path / "t.csv")
    with pytest.raises(MemoryLimitError, match="Parquet"):
        read_table(tmp_path / "t.csv", memory_limit=memory_held() + 2**20)


# ------------------------------------------------------------------ the peak

PEAK = """
    import json, sys, warnings
    import numpy as np
    warnings.simplefilter("ignore")
    from bigdag.data.dataset import as_dataset
    from bigdag.data.tables import read_table
    from bigdag.resources import memory_held, blas_threads
    with blas_threads(1):
        np.ones((300, 300)) @ np.ones((300, 300))
    before = memory_held()
    limit = before + 100 * 2**20
    path = sys.argv[1]
    table = np.load(path, mmap_mode="r") if sys.argv[2] == "mapped" else path
    door = as_dataset if sys.argv[2] == "mapped" else read_table
    data = door(table, memory_limit=limit)
    lines = open("/proc/self/status").read().splitlines()
    peak = next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    print(json.dumps([data.X is None, data.n_samples, limit - peak]))
"""


@pytest.mark.parametrize("kind", ["npy", "mapped", "parquet"])
def test_the_peak_stays_below_the_limit(kind, tmp_path):
    """A table of 128 MB, where the process may take 100 MB more than it holds."""
    n, d = 2**19, 32
    block = np.random.default_rng(0).normal(size=(2**13, d))
    if kind == "parquet":
        path = tmp_path / "t.parquet"
        table = pa.table({f"v{j}": block[:, j] for j in range(d)})
        with pq.ParquetWriter(path, table.schema, use_dictionary=False) as writer:
            for _ in range(n // len(block)):
                writer.write_table(table)
    else:
        path = tmp_path / "t.npy"
        table = np.lib.format.open_memmap(path, "w+", np.float64, (n, d))
        for start in range(0, n, len(block)):
            table[start : start + len(block)] = block
        del table
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PEAK), path, kind],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    one_pass, rows, room = json.loads(done.stdout)
    assert (one_pass, rows) == (True, n)
    assert room > 0


@pytest.mark.usefixtures("scarce")
def test_the_command_says_that_it_read_in_one_pass(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("t.npy", X)
    _, err = bigdag_("fit", "t.npy", "--method", "sort-r2", "--memory-limit", "8GB", "--quiet")
    assert "in one pass" in " ".join(err.split())
