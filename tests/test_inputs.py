"""Tables of other libraries: sparse matrices, polars, Arrow, AnnData and its files."""

from __future__ import annotations

import sys

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

from bigdag import SortRegress
from bigdag.data.dataset import as_dataset
from bigdag.data.tables import read_table
from bigdag.errors import DataError, MemoryLimitError, MissingExtraError, ParameterError
from bigdag.resources import memory_held
from h5ad import write_h5ad
from test_cli import bigdag_

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(40, 5)) * (RNG.random((40, 5)) < 0.6)
NAMES = ("a", "b", "c", "d", "e")
FORMATS = ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"]


def check_holds(data, values, names=None):
    expected = as_dataset(np.asarray(values, dtype=np.float64), names)
    assert np.array_equal(data.X, expected.X)
    assert np.array_equal(data.mean, expected.mean)
    assert (data.names, data.named) == (expected.names, expected.named)


# ------------------------------------------------------------------ sparse matrices


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, bool])
def test_a_sparse_matrix_is_read_as_if_it_were_dense(form, make, dtype):
    dense = (3 * TABLE).astype(dtype)
    check_holds(as_dataset(make(dense).asformat(form)), dense)


def test_entries_of_a_sparse_matrix_that_stand_twice_are_added():
    rows, columns = [0, 0, 1, 2, 2], [0, 0, 1, 0, 2]
    values = np.array([100, 100, 1, 5, 7], dtype=np.int8)
    expected = [[200, 0, 0], [0, 1, 0], [5, 0, 7]]
    check_holds(as_dataset(sparse.coo_array((values, (rows, columns)), shape=(3, 3))), expected)
    pointers = ([0, 0, 1, 0, 2], [0, 2, 3, 5])
    check_holds(as_dataset(sparse.csr_array((values, *pointers), shape=(3, 3))), expected)


def test_a_learner_takes_a_sparse_matrix():
    dense = SortRegress().fit(TABLE)
    model = SortRegress().fit(sparse.csr_array(TABLE))
    assert (model.weights_ != dense.weights_).nnz == 0
    assert model.score(sparse.csc_matrix(TABLE)) == dense.score(TABLE)


DAMAGED = sparse.csr_array(np.eye(3))
DAMAGED.indices[1] = 10**6  # a place that toarray would write to
BAD_SPARSE = {
    "missing": (sparse.csr_array([[1.0, np.nan], [2.0, 0.0]]), "NaN"),
    "complex": (sparse.csr_array([[1j, 0], [0, 1]]), "Complex data not supported"),
    "damaged": (DAMAGED, "damaged"),
    "one row": (sparse.csr_array([[1.0, 2.0]]), "only one row"),
    "one axis": (sparse.coo_array(np.arange(4)), "1-D sparse array"),
}


@pytest.mark.parametrize(("matrix", "words"), BAD_SPARSE.values(), ids=BAD_SPARSE)
def test_bad_sparse_matrices_are_refused(matrix, words):
    with pytest.raises(DataError, match=words):
        as_dataset(matrix)


def test_a_sparse_matrix_too_large_when_dense_is_refused_before():
    held = memory_held()
    wide = sparse.random_array((2000, 20_000), density=1e-4, format="csr", rng=RNG)
    with pytest.raises(MemoryLimitError, match="2,000 rows and 20,000 columns needs"):
        as_dataset(wide, memory_limit=held + 100 * 2**20)
    assert memory_held() - held < 30 * 2**20


# ------------------------------------------------------------------ data frames


class Stream:
    """A table that speaks Arrow's protocol and nothing else, as those of polars and DuckDB."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_tables_that_speak_arrow():
    table = pa.table({name: TABLE[:, j] for j, name in enumerate(NAMES)})
    for form in (table, table.combine_chunks().to_batches()[0], table.to_reader(), Stream(table)):
        check_holds(as_dataset(form), TABLE, NAMES)
    text = pa.table({"a": [1.0, 2.0], "city": pa.array(["Oslo", "Bergen"], pa.string_view())})
    with pytest.raises(DataError, match=r"'city' .row 1: 'Oslo'"):
        as_dataset(Stream(text))


def test_polars():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(TABLE, schema=list(NAMES)).with_columns(pl.col("a").cast(pl.Float32))
    values = TABLE.copy()
    values[:, 0] = values[:, 0].astype(np.float32)
    check_holds(as_dataset(frame), values, NAMES)
    assert SortRegress().fit(frame).feature_names_in_.tolist() == list(NAMES)
    with pytest.raises(DataError, match="'t'"):
        as_dataset(pl.DataFrame({"a": [1.0, 2.0], "t": ["x", "y"]}))
    with pytest.raises(DataError, match="collect"):
        as_dataset(frame.lazy())


# ------------------------------------------------------------------ AnnData


def annotated(X, names=NAMES, **more):
    var = pd.DataFrame(index=pd.Index(names, dtype=object)) if names else None
    return anndata.AnnData(X, var=var, **more)


@pytest.mark.parametrize("make", [np.asarray, np.float32, sparse.csr_matrix, sparse.csc_matrix])
def test_annotated_data(make):
    X = make(TABLE)
    dense = X.toarray() if sparse.issparse(X) else X
    data = annotated(X, layers={"twice": 2 * X})
    check_holds(as_dataset(data), dense, NAMES)
    check_holds(as_dataset(data, layer="twice"), 2 * dense, NAMES)
    check_holds(as_dataset(data[3:, ["d", "b"]]), dense[3:, [3, 1]], ("d", "b"))
    check_holds(as_dataset(data, names=list("vwxyz")), dense, tuple("vwxyz"))
    assert SortRegress().fit(data).feature_names_in_.tolist() == list(NAMES)


def test_names_that_anndata_makes_up_are_no_names():
    assert not as_dataset(annotated(TABLE, names=None)).named


def test_bad_annotated_data_are_refused():
    with pytest.raises(ParameterError, match=r"no layer 'twcie'. Did you mean 'twice'"):
        as_dataset(annotated(TABLE, layers={"twice": TABLE}), layer="twcie")
    with pytest.raises(ParameterError, match="the table has no layers"):
        as_dataset(annotated(TABLE), layer="twice")
    with pytest.raises(ParameterError, match=r"layer goes with an AnnData. Got 'ndarray'"):
        as_dataset(TABLE, layer="twice")
    with pytest.raises(DataError, match="no X"):
        as_dataset(anndata.AnnData(shape=(4, 2)))
    with pytest.warns(UserWarning, match="names"), pytest.raises(DataError, match="unique"):
        as_dataset(annotated(TABLE, names=[*"aabcd"]))


@pytest.mark.parametrize("make", [np.asarray, np.float32, sparse.csr_matrix, sparse.csc_matrix])
def test_files_of_anndata(make, tmp_path):
    X = make(TABLE)
    dense = X.toarray() if sparse.issparse(X) else X
    write_h5ad(tmp_path / "t.h5ad", X, NAMES, {"twice": 2 * X})
    check_holds(read_table(tmp_path / "t.h5ad"), dense, NAMES)
    check_holds(read_table(tmp_path / "t.h5ad", layer="twice"), 2 * dense, NAMES)
    check_holds(as_dataset(anndata.read_h5ad(tmp_path / "t.h5ad")), dense, NAMES)
    if not sparse.issparse(X):
        check_holds(as_dataset(anndata.read_h5ad(tmp_path / "t.h5ad", backed="r")), dense, NAMES)


def test_the_command_reads_files_of_anndata(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_h5ad(tmp_path / "t.h5ad", sparse.csr_matrix(TABLE), NAMES, {"twice": 2 * TABLE})
    pd.DataFrame(2 * TABLE, columns=list(NAMES)).to_csv("t.csv", index=False)
    found = [
        bigdag_("fit", *words, "--out", f"{words[0]}.dag.csv", "--method", "sort-variance")
        for words in (["t.h5ad", "--layer", "twice"], ["t.csv"])
    ]
    assert len(found) == 2
    texts = [(tmp_path / f"t.{kind}.dag.csv").read_text() for kind in ("h5ad", "csv")]
    assert texts[0] == texts[1]


def test_a_file_of_anndata_without_the_package_is_one_sentence(tmp_path, monkeypatch):
    write_h5ad(tmp_path / "t.h5ad", TABLE, NAMES)
    for name in ("anndata", "anndata.io", "anndata.experimental"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match="pip install 'anndata"):
        read_table(tmp_path / "t.h5ad")


def _no_x(path):
    write_h5ad(path, None, NAMES, {"raw": TABLE})


def _other_width(path):
    write_h5ad(path, TABLE, NAMES[:3])


def _cut(path):
    write_h5ad(path, TABLE, NAMES)
    path.write_bytes(path.read_bytes()[:3000])


def _outside(path):
    write_h5ad(path, DAMAGED, NAMES[:3])


def _not_of_anndata(path):
    with h5py.File(path, "w") as file:
        file["X"] = TABLE


def _frame_for_x(path):
    write_h5ad(path, TABLE, NAMES)
    with h5py.File(path, "a") as file:
        del file["X"]
        file["X"] = file["obs"]


def _text(path):
    write_h5ad(path, np.array([[b"x", b"y"], [b"u", b"v"]]), NAMES[:2])


BAD_FILES = {
    "no X": (_no_x, "the file holds no X. Name one of its layers: raw"),
    "another number of names": (_other_width, "3 variables, but 5 columns"),
    "cut": (_cut, "It may be damaged"),
    "places outside": (_outside, "damaged"),
    "not of anndata": (_not_of_anndata, "holds no variables"),
    "a frame in place of X": (_frame_for_x, "no matrix but 'DataFrame'"),
    "text": (_text, "not numbers"),
}


@pytest.mark.parametrize(("write", "words"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files_of_anndata_are_refused(write, words, tmp_path):
    path = tmp_path / "t.h5ad"
    write(path)
    with pytest.raises(DataError, match=words) as caught:
        read_table(path)
    assert str(caught.value).startswith(str(path))


def test_a_layer_that_is_not_there_is_refused(tmp_path):
    np.save(tmp_path / "t.npy", TABLE)
    with pytest.raises(ParameterError, match=r"t.npy: layer .*goes with an .h5ad file"):
        read_table(tmp_path / "t.npy", layer="raw")
    write_h5ad(tmp_path / "t.h5ad", TABLE, NAMES, {"counts": TABLE})
    words = bigdag_("fit", tmp_path / "t.h5ad", "--layer", "raw", code=2)
    assert "no layer 'raw'" in " ".join("".join(words).split())
