"""Tables in files: what is read, what is left out with a warning, and what is refused."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bigdag.data.dataset import Dataset, as_dataset
from bigdag.data.tables import read_covariance, read_table
from bigdag.errors import DataError, DataWarning, MemoryLimitError, ParameterError

pytestmark = pytest.mark.filterwarnings("error::bigdag.errors.DataWarning")

TABLE = np.array([[1.0, 5.0, -2.0], [2.0, 3.0, 0.5], [4.0, 1.0, 7.0], [0.0, 2.0, 1.0]])


def check_holds(data: Dataset, values: np.ndarray) -> None:
    """The file gives to the bit what its values give as an array."""
    direct = as_dataset(np.asarray(values, dtype=np.float64))
    np.testing.assert_array_equal(data.X, direct.X)
    np.testing.assert_array_equal(data.mean, direct.mean)
    assert data.X.flags.f_contiguous
    assert not data.X.flags.writeable


# Text files.


def write(folder: Path, name: str, text: str | bytes) -> Path:
    raw = text.encode() if isinstance(text, str) else text
    path = folder / name
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("t.csv", "a,b\n1,2\n3,5\n", ("a", "b")),
        ("t.CSV", "a;b\n1;2\n3;5\n", ("a", "b")),
        ("t.csv", "a\tb\n1\t2\n3\t5\n", ("a", "b")),
        ("t.csv.gz", "a,b\n1,2\n3,5", ("a", "b")),
        ("t.tsv", "a, b\tc;d\n1\t2\n3\t5\n", ("a, b", "c;d")),
        ("t.tsv.gz", "a\tb\r\n1\t2\r\n3\t5\r\n", ("a", "b")),
        ("t.txt", "a b\n1 2\n3 5\n", ("a", "b")),
        ("t.txt", "  1   2 \n  3  5\n", None),
        ("t.txt.gz", "1,2\n3,5\n", None),
        ("t.csv", "1,2\r\n3,5\r\n", None),
        ("t.csv", "\n\na,b\n\n1,2\n\n3,5\n\n", ("a", "b")),
        ("t.csv", " a , b\n +1 , 2.\n3e0, 50E-1\n", ("a", "b")),
        ("t.csv", '"a,1","b ""x"""\n"1",2\n3,"5"\n', ("a,1", 'b "x"')),
        ("t.csv", '"a\nz",b\n1,2\n3,5\n', ("a\nz", "b")),
        ("t.csv", "\ufeffa,β\n1,2\n3,5\n", ("a", "β")),
        ("t.csv", "k__A;p__B,k__C;p__D\n1,2\n3,5\n", ("k__A;p__B", "k__C;p__D")),
        ("t.csv", "a,2\n1,2\n3,5\n", ("a", "2")),
        ("t.csv", "a,NA\n1,2\n3,5\n", ("a", "NA")),
    ],
)
def test_text_files(tmp_path, name, text, names):
    data = read_table(write(tmp_path, name, text))
    check_holds(data, [[1, 2], [3, 5]])
    assert data.named == (names is not None)
    assert data.names == (names or ("x0", "x1"))


def test_header_can_be_forced(tmp_path):
    path = write(tmp_path, "t.csv", "7,8\n1,2\n3,5\n")
    assert read_table(path).n_samples == 3
    assert read_table(path, header=True).names == ("7", "8")
    assert read_table(str(path), header=False).n_samples == 3
    with pytest.raises(DataError, match=r"2 of 2 columns hold text.*\(row 1: 'a'\)"):
        read_table(write(tmp_path, "u.csv", "a,b\n1,2\n3,5\n"), header=False)
    with pytest.raises(ParameterError, match="header must be"):
        read_table(path, header="first")


ROWS = "0.5,1.25,7.5\n0.25,2.5,1\n1.75,0.5,3.5\n"
COUNTS = "4,0,7\n9,1,3\n5,2,8\n0,6,3\n"


@pytest.mark.parametrize(
    ("first", "rows", "names"),
    [
        ("2019,2020,2021\n", ROWS, ("2019", "2020", "2021")),
        ("1,2,3\n", ROWS, ("1", "2", "3")),
        ("7157,1956,672\n", ROWS, ("7157", "1956", "672")),
        ("7157.0,672.0,1956.0\n", ROWS, ("7157.0", "672.0", "1956.0")),
        ('"1","2","3"\n', ROWS, ("1", "2", "3")),
        ('"7","2","3"\n', '"0.5","1.25","7.5"\n"0.25","2.5","1.5"\n', ("7", "2", "3")),
        ('"9","4","6"\n', COUNTS, ("9", "4", "6")),
    ],
)
def test_a_header_of_numbers_is_told_with_a_warning(tmp_path, first, rows, names):
    path = write(tmp_path, "t.csv", first + rows)
    with pytest.warns(DataWarning, match=r"taken as the header.*--no-header") as caught:
        data = read_table(path)
    assert [one.filename for one in caught] == [__file__]
    assert data.names == names
    assert data.n_samples == rows.count("\n")
    assert read_table(path, header=False).n_samples == rows.count("\n") + 1


@pytest.mark.parametrize(
    "first",
    ["0,1,2", "1,2,3", "10,20,30", "2019,2020,2022", "0.0,1.0,2.0", "7157,1956,672"],
)
def test_a_first_line_that_may_be_either_is_refused(tmp_path, first):
    path = write(tmp_path, "t.csv", f"{first}\n{COUNTS}{COUNTS}")
    with pytest.raises(DataError, match=r"not clear.*--header or --no-header"):
        read_table(path)
    assert read_table(path, header=True).names == tuple(first.split(","))
    assert read_table(path, header=False).n_samples == 9


def rows_of(values: np.ndarray) -> str:
    return pd.DataFrame(values).to_csv(header=False, index=False)


MEASURED = np.random.default_rng(2).normal(size=(12, 8)).round(2)
HUNDREDS = np.random.default_rng(2).poisson(100, size=(12, 8))


@pytest.mark.parametrize(
    ("first", "values"),
    [
        ("400.5,401.2,402.7,403.9,404.1,407.7", MEASURED),
        ("9.25,7.5,7.1,0.3,-2.25,-3", MEASURED),
        ("0.5,1.0,1.5", MEASURED),
        ("0.1,0.2,0.30000000000000004,0.4", MEASURED),
        ("0.01,0.1,1,10", MEASURED),
        ("0.5,1.0,1.5", HUNDREDS),
        ("400.5,401.2,402.7,403.9", MEASURED),
        ("-1,0,1,2", MEASURED),
        ("-1.0,0.0,1.0,2.0", MEASURED),
        ("1,2,2,3", MEASURED),
        ("10,30,20,5", HUNDREDS),
        ("1,7,19,41,60,99", HUNDREDS - 80),
    ],
)
def test_a_first_line_unlike_the_rows_below_is_refused(tmp_path, first, values):
    d = first.count(",") + 1
    path = write(tmp_path, "t.csv", f"{first}\n{rows_of(values[:, :d])}")
    with pytest.raises(DataError, match=r"not clear.*--header or --no-header"):
        read_table(path)
    assert read_table(path, header=False).n_samples == 13
    quoted = '"' + path.read_text().strip().replace(",", '","').replace("\n", '"\n"') + '"\n'
    with pytest.raises(DataError, match=r"not clear.*--header or --no-header"):
        read_table(write(tmp_path, "t.csv", quoted))


@pytest.mark.parametrize(
    ("first", "values"),
    [
        ("1.2,0.3,0.7,-0.1", MEASURED),
        ("0,0,0,0", MEASURED),  # equal numbers are a control, not names
        ("1.0", MEASURED),
        ("1.0,-1.0", MEASURED.round(1)),
        ("95,108,101,89", HUNDREDS),
        ("1.2,3.4,5.5", np.cumsum(np.abs(MEASURED), axis=1)),
        ("0.5,1.5,2.5,5.5,6.5,7.5", np.cumsum(np.abs(MEASURED), axis=1)),
        ("0.5,1.5,2.5", np.outer(MEASURED[:, 0], [1, 2, 3])),
    ],
)
def test_a_first_line_like_the_rows_below_is_data(tmp_path, first, values):
    d = first.count(",") + 1
    path = write(tmp_path, "t.csv", f"{first}\n{rows_of(values[:, :d])}")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*copies of others")
        data = read_table(path)
    assert (data.n_samples, data.named) == (13, False)


@pytest.mark.parametrize("seed", range(40))
def test_ordinary_tables_are_read_without_a_word(tmp_path, seed):
    rng = np.random.default_rng(seed)
    n, d = rng.integers(5, 200), rng.integers(1, 50)
    values = [
        rng.normal(size=(n, d)),
        rng.normal(size=(n, d)).round(1),
        rng.uniform(0, 100, size=(n, d)).round(2),
        rng.poisson(20, size=(n, d)),
        rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 5, d),
    ][seed % 5]
    names = [f"v{j}" for j in range(d)] if seed % 2 else None
    frame = pd.DataFrame(values, columns=names)
    frame.to_csv(tmp_path / "t.csv", index=False, header=seed % 2 == 1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(copies of others|are constant)")
        data = read_table(tmp_path / "t.csv")
    assert (data.n_samples, data.n_features, data.named) == (n, d, seed % 2 == 1)


@pytest.mark.parametrize("first", ["0.5,1.5,2.25", "3,0,3", "4.25,1,9", "-1,0,1", "3,1,6"])
def test_a_first_line_of_ordinary_numbers_is_data_without_a_word(tmp_path, first):
    rows = ROWS if "." in first else COUNTS
    assert read_table(write(tmp_path, "t.csv", f"{first}\n{rows}")).named is False


@pytest.mark.parametrize(
    "labels",
    [
        range(4), range(1, 5), ["s1", "s2", "s3", "4"], [0, 3, 4, 9], [7, 2, 9, 0],
        [0.0, 1.0, 2.0, 3.0], [1.0, 4.0, 2.0, 11.0], pd.date_range("2020-01-01", periods=4),
    ],
)  # fmt: skip
@pytest.mark.parametrize("columns", [["a", "b", "c"], range(3)])
def test_row_labels_are_left_out_with_a_warning(tmp_path, labels, columns):
    frame = pd.DataFrame(TABLE, index=list(labels), columns=columns)
    frame.to_csv(tmp_path / "t.csv")
    with pytest.warns(DataWarning, match="row labels.*--no-row-labels") as caught:
        data = read_table(tmp_path / "t.csv")
    assert caught[0].filename == __file__
    check_holds(data, TABLE)
    assert data.names == tuple(str(c) for c in columns)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
@pytest.mark.parametrize("name", ["Unnamed: 0", "Unnamed: 0.1", "__index_level_0__", ""])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_row_labels_under_a_made_up_name_anywhere(tmp_path, suffix, name, place):
    frame = pd.DataFrame(TABLE, columns=list("abc"))
    frame.insert(place, name, [5, 3, 8, 13])
    path = tmp_path / f"t{suffix}"
    _save(path, frame, list(frame.columns))
    with pytest.warns(DataWarning, match="row labels") as caught:
        data = read_table(path)
    assert f"column {place + 1}" in str(caught[0].message) or place == 0
    check_holds(data, TABLE)
    kept = read_table(path, row_labels=False)
    assert kept.n_features == 4
    assert kept.names[place] == (name or f"x{place}")


def test_two_columns_of_row_labels(tmp_path):
    frame = pd.DataFrame(TABLE, columns=list("abc"), index=[4, 2, 8, 0])
    frame.to_csv(tmp_path / "t.csv")
    pd.read_csv(tmp_path / "t.csv").to_csv(tmp_path / "t.csv")  # as happens
    with pytest.warns(DataWarning, match="the columns 1, 2 have no names.*they were left out"):
        check_holds(read_table(tmp_path / "t.csv"), TABLE)


def test_row_numbers_in_a_file_without_a_header(tmp_path):
    frame = pd.DataFrame(TABLE)
    frame.to_csv(tmp_path / "t.csv", header=False)
    with pytest.warns(DataWarning, match="first column counts the rows.*--no-row-labels"):
        check_holds(read_table(tmp_path / "t.csv"), TABLE)
    assert read_table(tmp_path / "t.csv", row_labels=False).n_features == 4


@pytest.mark.parametrize("shuffled", [False, True])
def test_row_labels_with_gaps_in_a_file_without_a_header(tmp_path, shuffled):
    frame = pd.DataFrame(MEASURED).drop([3, 7, 8])
    if shuffled:
        frame = frame.sample(frac=1, random_state=0)
    frame.to_csv(tmp_path / "t.csv", header=False)
    with pytest.warns(DataWarning, match="taken as row labels.*--no-row-labels"):
        check_holds(read_table(tmp_path / "t.csv"), frame)
    assert read_table(tmp_path / "t.csv", row_labels=False).n_features == 9
    # Whole numbers beside whole numbers, or not different ones, are a variable.
    for values in (HUNDREDS, np.column_stack([HUNDREDS[:, 0] // 20, MEASURED])):
        path = write(tmp_path, "t.csv", rows_of(values))
        assert read_table(path).n_features == values.shape[1]


@pytest.mark.parametrize(
    "text", [",a\n0.5,1\n7,2\n3,3\n", ",a\n7,1\n7,2\n3,3\n", "a,\n1,-2\n2,5\n", "a,\n1,2.5\n2,4\n"]
)
def test_a_column_without_a_name_that_may_hold_data_is_refused(tmp_path, text):
    path = write(tmp_path, "t.csv", text)
    with pytest.raises(DataError, match=r"column [12] has no name.*--no-row-labels"):
        read_table(path)
    data = read_table(path, row_labels=False)
    assert data.n_features == 2
    assert data.names in (("x0", "a"), ("a", "x1"))


def test_row_labels_can_be_said(tmp_path):
    path = write(tmp_path, "t.csv", "id,a,b\n7,1,2\n9,3,5\n")
    assert read_table(path).names == ("id", "a", "b")
    data = read_table(path, row_labels=True)
    check_holds(data, [[1, 2], [3, 5]])
    assert data.names == ("a", "b")
    path = write(tmp_path, "t.csv", ",a,b\nu,1,2\nv,3,5\n")
    check_holds(read_table(path, row_labels=True), [[1, 2], [3, 5]])
    with pytest.raises(DataError, match=r"1 of 3 columns holds text.*'x0' \(row 1: 'u'\)"):
        read_table(path, row_labels=False)
    np.save(tmp_path / "t.npy", TABLE)
    check_holds(read_table(tmp_path / "t.npy", row_labels=True), TABLE[:, 1:])
    with pytest.raises(ParameterError, match="row_labels must be"):
        read_table(path, row_labels="first")
    with pytest.raises(DataError, match="only one column"):
        read_table(write(tmp_path, "t.csv", "a\n1\n2\n"), row_labels=True)


def test_a_stray_word_in_a_column_without_a_name_does_not_make_it_labels(tmp_path):
    path = write(tmp_path, "t.csv", ",a\n0.5,1\n?,2\n3,3\n2.5,7\n")
    with pytest.raises(DataError, match=r"'x0' \(row 2: '\?'\)"):
        read_table(path)


def test_files_of_more_than_one_block(tmp_path, monkeypatch):
    monkeypatch.setattr("bigdag.data.content.BLOCK", 200)
    values = np.random.default_rng(8).normal(size=(300, 3)).round(3)
    rows = [[str(v) for v in row] for row in values.tolist()]
    rows[120][1] = "+" + rows[120][1].lstrip("-")
    values[120, 1] = abs(values[120, 1])
    rows[200][2] = f'"{rows[200][2]}"'
    for name, separator in [("t.csv", ","), ("t.txt", "  "), ("t.csv.gz", ";"), ("t.tsv", "\t")]:
        text = "\r\n".join(separator.join(row) for row in [list("abc"), *rows, ["", ""][:0]])
        check_holds(read_table(write(tmp_path, name, text)), values)
    for frame in (pd.DataFrame(values, columns=list("abc")),):
        frame.to_parquet(tmp_path / "t.parquet", row_group_size=17)
        pyarrow.feather.write_feather(frame, tmp_path / "t.feather", chunksize=23)
        np.save(tmp_path / "c.npy", values)
        np.save(tmp_path / "f.npy", np.asfortranarray(values))
        np.savez_compressed(tmp_path / "t.npz", values)
    for name in ("t.parquet", "t.feather", "c.npy", "f.npy", "t.npz"):
        check_holds(read_table(tmp_path / name), values)
    rows[250][0] = "oops"
    write(tmp_path, "t.csv", "\n".join(",".join(row) for row in [list("abc"), *rows]))
    with pytest.raises(DataError, match=r"'a' \(row 251: 'oops'\)"):
        read_table(tmp_path / "t.csv")
    rows[280].append("1")
    write(tmp_path, "t.csv", "\n".join(",".join(row) for row in [list("abc"), *rows]))
    with pytest.raises(DataError, match="line 282 has 4 cells, expected 3"):
        read_table(tmp_path / "t.csv")


def test_truth_values_and_numbers_in_one_column_are_text(tmp_path, monkeypatch):
    monkeypatch.setattr("bigdag.data.content.BLOCK", 16)
    rows = ["1,2"] * 50 + ["2,true"] * 50
    with pytest.raises(DataError, match=r"'b' \(row 51: 'true'\)"):
        read_table(write(tmp_path, "t.csv", "\n".join(["a,b", *rows])))


def test_truth_values_in_text(tmp_path):
    data = read_table(write(tmp_path, "t.csv", "a,b\n1,True\n2,False\n3,True\n"))
    check_holds(data, [[1, 1], [2, 0], [3, 1]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        (" \n\r\n", "the file is empty"),
        ("a,b\n", "header of 2 names, but no rows"),
        ("a,b\n1,2\n", "1 sample"),
        ("a,b\n1,2\n3\n4,5\n", "line 3 has 1 cell, expected 2"),
        ("a,b\n1,2\n\n3,4,5\n", "line 4 has 3 cells, expected 2"),
        ("1,2\n3,4\n5,6,\n", "line 3 has 3 cells, expected 2"),
        ("a,b\n1,\n3,2\n", "1 value is NaN.*column 'b', row 1"),
        ("a,b\n1,2\n3,NA\n4,nan\n", "2 values are NaN.*column 'b', row 2"),
        ("a,b\n1,2\n-inf,3\n", "-inf in column 'a', row 2"),
        ("1,,3\n3,2,1\n", "column 'x1', row 1"),
        ("a,b\n1,2\n3,1e400\n", "inf in column 'b', row 2"),
        ("a,b,c\n1,2,u\n3,?,v\n", r"2 of 3 columns.*'b' \(row 2: '\?'\), 'c' \(row 1: 'u'\)"),
        ("a,b,a\n1,2,3\n3,4,5\n", "unique.*'a'"),
        ("a,b\n1,2\n3,5\n".encode("utf-16"), "not UTF-8"),
        (b"\x00\xff\x12" * 50, "not UTF-8"),
        (b"a,b\n" + b"1,2\n3,5\n" * 40 + b"3,\xff,4\n", "not UTF-8"),  # also ragged
        (b"a,b\n" + b"1,2\n3,5\n" * 40 + b"3,\xff\n", "not UTF-8"),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_text_files_refused(tmp_path, name, text, message):
    path = write(tmp_path, name, text)
    with pytest.raises(DataError, match=message) as caught:
        read_table(path)
    assert str(caught.value).startswith(str(path))


def test_a_ragged_line_far_down_and_a_late_text_cell(tmp_path):
    lines = ["a,b,c"] + ["1.5,2.5,3.5", "2.5,1.5,0.5"] * 20_000
    lines[30_000] = "1,2"
    with pytest.raises(DataError, match="line 30001 has 2 cells, expected 3"):
        read_table(write(tmp_path, "t.csv", "\n".join(lines)))
    lines[30_000] = "1,oops,2"
    with pytest.raises(DataError, match=r"'b' \(row 30000: 'oops'\)"):
        read_table(write(tmp_path, "t.csv", "\n".join(lines)))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('a,b\n"1\n\n",2\n3,4\n5\n', 6),  # line breaks within quotes
        ('a,b\n1,2\n"3\n3"\n5,7\n', 3),  # the ragged row itself has one
        ("a,b\r\n\r\n1,2\r\n\r\n3\r\n", 5),
        ("a,b\r1,2\r\r3\r", 4),
        ('a,b\n1,5"\n2,3\n7\n', 4),  # a mark within a cell
        ('a,b\n1,5"\n\n2,6"\n7\n', 5),
        ("a,b\n1,ü\n7,8,9", 3),
        ("1,2\n3,4,5", 2),
    ],
)
@pytest.mark.parametrize("block", [8, 2**24])
def test_the_line_of_a_ragged_row(tmp_path, monkeypatch, text, line, block):
    monkeypatch.setattr("bigdag.data.content.BLOCK", block)
    with pytest.raises(DataError, match=rf"line {line} has \d cells?, expected 2 as in the first"):
        read_table(write(tmp_path, "t.csv", text))


def test_the_line_of_a_ragged_row_in_aligned_columns(tmp_path):
    with pytest.raises(DataError, match="line 5 has 3 cells, expected 2"):
        read_table(write(tmp_path, "t.txt", " a   b\n\n  1   2\n 3  4 \n\t5 6  7\n"))


def test_the_example_of_a_long_column_of_text(tmp_path):
    rows = ["1,true", "2,false"] * 800 + ["3,", "4,TRUE", "5,oops"]
    with pytest.raises(DataError, match=r"A column.*'b' \(row 1603: 'oops'\)"):
        read_table(write(tmp_path, "t.csv", "\n".join(["a,b", *rows])))
    with pytest.raises(DataError, match=r"'b' \(row 1: '7'\)"):
        as_dataset(pd.DataFrame({"a": range(2000), "b": ["7"] * 1999 + ["oops"]}))
    late = np.array([[7]] * 1999 + [["oops"]], dtype=object)
    with pytest.raises(DataError, match=r"'x0' \(row 2000: 'oops'\)"):
        as_dataset(late)


def test_truth_values_and_missing_ones_over_many_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("bigdag.data.content.BLOCK", 32)
    rows = [",1"] * 20 + ["True,2", "false,3", "true,7"] * 20
    with pytest.raises(DataError, match=r"20 values are NaN.*column 'a', row 1 "):
        read_table(write(tmp_path, "t.csv", "\n".join(["a,b", *rows])))
    data = read_table(write(tmp_path, "t.csv", "\n".join(["a,b", *rows[20:]])))
    check_holds(data, [[1, 2], [0, 3], [1, 7]] * 20)


def test_a_wide_csv_is_read(tmp_path):
    values = np.random.default_rng(5).normal(size=(200, 5000))
    path = tmp_path / "wide.csv"
    pa.csv.write_csv(pa.table(list(values.T), names=[f"g{j}" for j in range(5000)]), path)
    check_holds(read_table(path), values)


def test_a_line_longer_than_the_usual_block_of_the_reader(tmp_path):
    values = np.random.default_rng(6).normal(size=(3, 60_000))
    np.savetxt(tmp_path / "t.txt", values)
    check_holds(read_table(tmp_path / "t.txt"), values)


# Other files, and every file.


def _save(path: Path, values: np.ndarray | pd.DataFrame, names: list[str]) -> None:
    frame = pd.DataFrame(values, columns=names)
    match path.suffix:
        case ".csv" | ".gz":
            frame.to_csv(path, index=False)
        case ".tsv":
            frame.to_csv(path, index=False, sep="\t")
        case ".parquet":
            frame.to_parquet(path)
        case ".feather" | ".arrow":
            pyarrow.feather.write_feather(frame, path)
        case ".npy":
            np.save(path, values)
        case ".npz":
            np.savez(path, table=values, names=np.array(names))


@pytest.mark.parametrize(
    "suffix", [".csv", ".csv.gz", ".tsv", ".parquet", ".feather", ".arrow", ".npy", ".npz"]
)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    values=hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=6),
        elements=st.floats(-1e150, 1e150),
    ),
    data=st.data(),
)
def test_round_trip_gives_the_same_numbers(tmp_path, suffix, values, data):
    label = st.text("abcXYZ019_ ,;\"'é", min_size=1, max_size=6).map(lambda s: f"v{s}z")
    d = values.shape[1]
    names = data.draw(st.lists(label, min_size=d, max_size=d, unique=True))
    path = tmp_path / f"t{suffix}"
    _save(path, values, names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        direct, read = as_dataset(values, names=names), read_table(path)
    np.testing.assert_array_equal(read.X, direct.X)
    np.testing.assert_array_equal(read.mean, direct.mean)
    assert read.names == (direct.names if suffix != ".npy" else tuple(f"x{j}" for j in range(d)))


def test_the_index_of_a_pandas_file_is_no_column(tmp_path):
    frame = pd.DataFrame(TABLE, columns=list("abc"), index=pd.Index(list("wxyz"), name="who"))
    folder = tmp_path / "year=2020"
    folder.mkdir()
    frame.to_parquet(folder / "t.parquet")
    with pytest.warns(DataWarning, match=r"index.*\('who'\) was left out.*--no-row-labels"):
        data = read_table(folder / "t.parquet")
    check_holds(data, TABLE)
    assert data.names == ("a", "b", "c")
    with pytest.warns(DataWarning, match="'who'.*it holds no numbers"):
        read_table(folder / "t.parquet", row_labels=False)
    frame.rename_axis(None).to_parquet(folder / "t.parquet")
    with pytest.warns(DataWarning, match=r"index.*\(without a name\) was left out"):
        check_holds(read_table(folder / "t.parquet"), TABLE)


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_a_named_index_is_left_out_with_a_warning(tmp_path, suffix):
    frame = pd.DataFrame(TABLE, columns=list("abc")).assign(k=[3, 1, 2, 5])
    path = tmp_path / f"t{suffix}"
    for levels in (["k"], ["a", "k"]):
        rest = frame.set_index(levels)
        table = pa.Table.from_pandas(rest)
        if suffix == ".parquet":
            rest.to_parquet(path)
        else:
            pyarrow.feather.write_feather(table, path)
        words = ", ".join(map(repr, levels))
        with pytest.warns(DataWarning, match=rf"index.*\({words}\) was left out.*--no-row-labels"):
            data = read_table(path)
        check_holds(data, rest)
        kept = read_table(path, row_labels=False)
        assert set(kept.names) == set("abck")


@pytest.mark.parametrize("start", [0, 1])
def test_a_named_column_that_counts_the_rows_is_told(tmp_path, start):
    frame = pd.DataFrame(MEASURED[:, :3], columns=list("abc"))
    count = np.arange(12) + start
    for place, option in [(0, True), (2, False)]:
        table = frame.copy()
        table.insert(place, "id", count)
        _save(tmp_path / "t.csv", table, list(table.columns))
        with pytest.warns(DataWarning, match="'id' counts the rows.*drop it") as caught:
            data = read_table(tmp_path / "t.csv")
        check_holds(data, table)
        assert [one.filename for one in caught] == [__file__]
        assert ("--row-labels" in str(caught[0].message)) == option
        read_table(tmp_path / "t.csv", row_labels=False)
        with pytest.warns(DataWarning, match="'id' counts the rows") as caught:
            as_dataset(table)
        assert "--row-labels" not in str(caught[0].message)
        as_dataset(table[:9])
        as_dataset(table.to_numpy())


def test_the_header_of_write_table_in_r(tmp_path):
    for name, text in [
        ("t.txt", '"a" "b"\n"1" 1 2\n"4" 3 5\n'),
        ("t.tsv", "a\tb\ns1\t1\t2\ns2\t3\t5\n"),
        ("t.csv", "a,b\n1,1,2\n2,3,5\n"),
    ]:
        path = write(tmp_path, name, text)
        with pytest.warns(DataWarning) as caught:
            data = read_table(path)
        told = " ".join(str(one.message) for one in caught)
        assert "one cell fewer than the rows" in told
        assert "row labels; it was left out" in told
        check_holds(data, [[1, 2], [3, 5]])
        assert data.names == ("a", "b")
    with pytest.raises(DataError, match="line 2 has 3 cells, expected 2"):
        read_table(write(tmp_path, "t.csv", "a,b\n1,2,\n3,5,\n"))  # a comma at each end
    with pytest.raises(DataError, match="column 1 has no name"):
        read_table(write(tmp_path, "t.csv", "a,b\n1.5,2,3\n3,5,7\n"))


def test_a_line_that_tells_the_separator(tmp_path):
    for mark in ",;\t|":
        for first, names in [("a{}b\n", ("a", "b")), ("", ("x0", "x1"))]:
            rows = (first + "1{}2\n3{}5\n").replace("{}", mark)
            data = read_table(write(tmp_path, "t.csv", f"\ufeffsep={mark}\r\n{rows}"))
            check_holds(data, [[1, 2], [3, 5]])
            assert data.names == names
    path = write(tmp_path, "t.csv", "sep=;\n7;8\n1;0.5\n0.5;1\n")
    with pytest.warns(DataWarning, match="square without it"):
        assert read_covariance(path, 9).names == ("7", "8")


@pytest.mark.parametrize(
    "text",
    ["1,5;2,7\n3,5;1\n2;2,25\n", "a;b\n1;2\n3,5;-1,5\n", 'a,b\n"1,5","2,7"\n"3,5","1,2"\n',
     "a\tb\n1,5e-3\t2\n1\t2\n"],
)  # fmt: skip
def test_decimal_commas_are_refused_with_the_remedy(tmp_path, text):
    with pytest.raises(DataError, match=r"commas.*such as '-?\d,\d.*decimal points"):
        read_table(write(tmp_path, "t.csv", text))


def test_dates_are_called_so(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "when": pd.date_range("2020-01-01", periods=3)})
    frame.to_parquet(tmp_path / "t.parquet")
    for read in (lambda: read_table(tmp_path / "t.parquet"), lambda: as_dataset(frame)):
        with pytest.raises(DataError, match="Column 'when' holds dates or times") as caught:
            read()
        assert "float()" not in str(caught.value)


def test_large_numbers_that_float64_cannot_tell_apart(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "id": [2**60 + 1, 2**60 + 2, 2**60 + 3]})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    near = frame.assign(id=[10**15, 10**15 + 1, 10**15 + 2])
    match = "constant.*'id' are so large.*less than float64 can tell"
    for read in (
        lambda: read_table(tmp_path / "t.parquet"), lambda: read_table(tmp_path / "t.csv"),
        lambda: as_dataset(frame), lambda: as_dataset(near),
    ):  # fmt: skip
        with pytest.warns(DataWarning, match=match):
            read()
    with pytest.warns(DataWarning, match="constant") as caught:
        as_dataset(frame.assign(id=0.1))
    assert "float64" not in str(caught[0].message)


def test_arrow_files_with_text_or_missing_values(tmp_path):
    table = pa.table({"a": [1.0, None, 3.0], "b": [1, 2, 3]})
    pyarrow.feather.write_feather(table, tmp_path / "t.feather")
    with pytest.raises(DataError, match="column 'a', row 2"):
        read_table(tmp_path / "t.feather")
    pd.DataFrame({"a": [1.0, 2.0], "b": ["u", "v"]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"'b' \(row 1: 'u'\)"):
        read_table(tmp_path / "t.parquet")


def test_npz_contents(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, TABLE)
    check_holds(read_table(path), TABLE)
    for arrays, message in [
        ({"a": TABLE, "b": TABLE}, r"one 2-D array.*'a' \(4, 3\), 'b' \(4, 3\)"),
        ({"a": TABLE[0]}, "one 2-D array"),
        ({}, "no array"),
        ({"a": TABLE, "names": np.array(["u"])}, "must hold 3 strings"),
        ({"a": TABLE, "names": np.arange(3)}, "must hold 3 strings"),
        ({"a": TABLE.astype(object)}, "pickles.*never loaded"),
    ]:
        np.savez(path, **arrays)
        with pytest.raises(DataError, match=message):
            read_table(path)


def test_npy_contents(tmp_path):
    path = tmp_path / "t.npy"
    np.save(path, TABLE.astype(object))
    with pytest.raises(DataError, match=r"pickles.*never loaded"):
        read_table(path)
    np.save(path, TABLE[0])
    with pytest.raises(DataError, match="Reshape your data"):
        read_table(path)
    np.save(path, TABLE)
    read_table(path)
    np.testing.assert_array_equal(np.load(path), TABLE)


@pytest.mark.parametrize("content", [b"", b"not what it says", b"PK\x03\x04", b"\x93NUMPY\x01"])
@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrow", ".npy", ".npz"])
def test_damaged_files(tmp_path, suffix, content):
    path = tmp_path / f"t{suffix}"
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged") as caught:
        read_table(path)
    assert str(path) in str(caught.value)


def test_truncated_files(tmp_path):
    rows = np.random.default_rng(7).normal(size=(50, 4))
    for suffix in (".parquet", ".feather", ".npy", ".npz"):
        path = tmp_path / f"t{suffix}"
        _save(path, rows, list("abcd"))
        path.write_bytes(path.read_bytes()[:-40])
        with pytest.raises(DataError):
            read_table(path)
    path = write(tmp_path, "t.csv.gz", "a,b\n" + "1,2\n3,5\n" * 50)
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(DataError, match="cannot be read"):
        read_table(path)
    (tmp_path / "u.csv.gz").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="cannot be read"):
        read_table(tmp_path / "u.csv.gz")


def test_paths(tmp_path):
    with pytest.raises(DataError, match=r"no file .*nowhere\.csv"):
        read_table(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match="is a directory"):
        read_table(tmp_path)
    for name in ("t.xlsx", "t", "t.gz", "t.parquet.gz"):
        with pytest.raises(DataError, match=r"not known. Known suffixes are \.csv.*\.npz"):
            read_table(write(tmp_path, name, "1,2\n3,4\n"))


def test_reading_leaves_the_file_alone(tmp_path):
    path = write(tmp_path, "t.csv", "a,b\n1,2\n3,5\n")
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_table(path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


# Covariance matrices.


def covariance(d: int = 6, spread: float = 5.0) -> np.ndarray:
    """Correlations of any size between variables with standard deviations 10**±spread."""
    rng = np.random.default_rng(11)
    deviation = rng.permutation(np.logspace(-spread, spread, d))
    S = np.corrcoef(rng.normal(size=(50, d)) @ rng.normal(size=(d, d)), rowvar=False)
    S = np.triu(S * deviation * deviation[:, None])
    return S + np.triu(S, 1).T


@pytest.mark.parametrize(
    "suffix", [".csv", ".csv.gz", ".tsv", ".parquet", ".feather", ".arrow", ".npy", ".npz"]
)
def test_a_covariance_is_read_as_it_stands(tmp_path, suffix):
    S, names = covariance(), list("abcdef")
    path = tmp_path / f"s{suffix}"
    _save(path, S, names)
    data = read_covariance(path, 40)
    assert data.X is None
    assert data.n_samples == 40
    np.testing.assert_array_equal(data.covariance, S)  # to the bit, at every scale
    assert data.named == (suffix != ".npy")
    assert data.names == (tuple(names) if data.named else tuple(f"x{j}" for j in range(6)))


def test_a_covariance_without_a_header(tmp_path):
    path = tmp_path / "s.txt"
    np.savetxt(path, covariance())
    data = read_covariance(str(path), 9)
    assert (data.named, data.names[:2]) == (False, ("x0", "x1"))
    assert read_covariance(write(tmp_path, "one.csv", "a\n4\n"), 9).names == ("a",)
    path = write(tmp_path, "t.csv", "7,8\n1,0.5\n0.5,1\n")
    assert read_covariance(path, 9, header=True).names == ("7", "8")
    with pytest.warns(DataWarning, match="square without it"):
        assert read_covariance(path, 9).names == ("7", "8")
    with pytest.raises(DataError, match=r"must be square\. Got 3 rows and 2 columns"):
        read_covariance(path, 9, header=False)
    path = write(tmp_path, "u.csv", "3,2,1\n2,3,2\n1,2,3\n")  # counted, but square as it is
    assert not read_covariance(path, 9).named
    with pytest.raises(ParameterError, match="header must be"):
        read_covariance(path, 9, header="first")


@pytest.mark.parametrize(
    ("names", "corner"),
    [
        (list("abcdef"), None),
        (list("abcdef"), "gene"),
        (["NA", "b, c", "None", 'd"', "true", "1"], None),
        (["NA", "b, c", "None", 'd"', "true", "1"], "gene"),
        (list(range(6)), None),  # with a name above them, numbers are data
    ],
)
def test_row_names_of_a_covariance_are_left_out_with_a_warning(tmp_path, names, corner):
    S = covariance()
    frame = pd.DataFrame(S, index=names, columns=names)
    frame.to_csv(tmp_path / "s.csv", index_label=corner)
    with pytest.warns(DataWarning, match="row labels") as caught:
        data = read_covariance(tmp_path / "s.csv", 9)
    assert [one.filename for one in caught] == [__file__]
    np.testing.assert_array_equal(data.covariance, S)
    assert data.names == tuple(map(str, names))


def test_rows_that_are_only_numbered(tmp_path):
    frame = pd.DataFrame(covariance(), columns=list("abcdef"))
    frame.to_csv(tmp_path / "s.csv")
    with pytest.warns(DataWarning, match="row labels"):
        data = read_covariance(tmp_path / "s.csv", 9)
    np.testing.assert_array_equal(data.covariance, covariance())
    assert data.names == tuple("abcdef")


@pytest.mark.parametrize("names", [list("abcdef"), ["10", "20", "30", "40", "50", "60"]])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_row_names_of_a_covariance_in_another_order(tmp_path, suffix, names):
    frame = pd.DataFrame(covariance(), index=names, columns=names)
    for path, table in [(tmp_path / f"s{suffix}", frame), (tmp_path / f"t{suffix}", frame[::-1])]:
        table.to_csv(path) if suffix == ".csv" else table.to_parquet(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        assert read_covariance(tmp_path / f"s{suffix}", 9, True).names == tuple(names)
        with pytest.raises(DataError, match="same names in the same order") as caught:
            read_covariance(tmp_path / f"t{suffix}", 9, True)
    assert str(caught.value).startswith(str(tmp_path / f"t{suffix}"))


def test_a_first_variable_without_a_name_is_no_row_label(tmp_path):
    data = read_covariance(write(tmp_path, "s.csv", ",a\n1,0.5\n0.5,2\n"), 9)
    np.testing.assert_array_equal(data.covariance, [[1, 0.5], [0.5, 2]])
    assert data.names == ("x0", "a")


def test_only_a_zero_variance_makes_a_variable_constant(tmp_path):
    read_covariance(write(tmp_path, "s.csv", "a,b\n1,1\n1,1\n"), 9)
    with pytest.warns(DataWarning, match="1 of 2 columns is constant.*'b'") as caught:
        read_covariance(write(tmp_path, "s.csv", "a,b\n1,0\n0,0\n"), 9)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",a,b\na,1,0\nb,0,1\nc,0,0\n", "must be square. Got 3 rows and 2 columns"),
        ("a,b\n1,0.5\n0.2,1\n", "must be symmetric"),
        ("a,b\n1,?\n0.2,1\n", r"'b' \(row 1: '\?'\)"),
        ("a,b\n?,1\n1,1\n", r"'a' \(row 1: '\?'\)"),
        ("a,b\n1,\n0.2,1\n", "1 covariance is NaN"),
        ("a,b\n1,0\n0\n", "line 3 has 1 cell, expected 2"),
    ],
)
def test_covariances_refused(tmp_path, text, message):
    path = write(tmp_path, "s.csv", text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        with pytest.raises(DataError, match=message) as caught:
            read_covariance(path, 9)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("separator", [",", ";"])
def test_commas_between_thousands_are_not_called_decimal_commas(tmp_path, separator):
    # A point in their place would make 12.345 of 12,345, beside 950 that stays as it is.
    path = tmp_path / "table.csv"
    rows = [("a", "b"), ("1.5", '"12,345"'), ("2.5", "950"), ("0.5", '"10,100"')]
    path.write_text("".join(separator.join(row) + "\n" for row in rows))
    with pytest.raises(
        DataError, match="separate thousands, write the numbers without them, as 12"
    ):
        read_table(path)


def test_a_limit_below_what_python_holds_is_not_blamed_on_the_table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "1.5,2.5\n" * 20)
    with pytest.raises(MemoryLimitError, match="Nothing fits beside what it holds") as caught:
        read_table(path, memory_limit="1KB")
    assert "Parquet" not in str(caught.value)  # which would not help
