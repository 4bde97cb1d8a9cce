"""Bad tables: each ends in one sentence and exit code 1, and nothing is written."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from bigdag import resources
from bigdag.cli import app
from bigdag.data import content, text
from bigdag.data.prepare import Wishes
from bigdag.data.tables import read_covariance, read_prepared, read_table
from bigdag.errors import DataError, DataWarning, MemoryLimitError

VALUES = np.random.default_rng(0).normal(size=(9, 3)).round(3)
FRAME = pd.DataFrame(VALUES, columns=list("abc"))
CSV = FRAME.to_csv(index=False)


def _npy(array: np.ndarray, **header: tuple[bytes, bytes]) -> bytes:
    """Return an NPY file, with words of its header replaced."""
    stream = io.BytesIO()
    np.save(stream, array)
    raw = stream.getvalue()
    for old, new in header.values():
        assert old in raw
        raw = raw.replace(old, new + b" " * (len(old) - len(new)), 1)
    return raw


def _npz(*foreign: tuple[str, bytes], encrypted: bool = False, **arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    with zipfile.ZipFile(stream, "a") as archive:
        for name, content in foreign:
            archive.writestr(name, content)
    raw = bytearray(stream.getvalue())
    if encrypted:
        for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            raw[raw.index(mark) + flags] |= 1
    return bytes(raw)


def _parquet(pandas: bytes | None = None, frame: pd.DataFrame = FRAME) -> bytes:
    table = pa.Table.from_pandas(frame)
    if pandas is not None:
        table = table.replace_schema_metadata({b"pandas": pandas})
    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()


def _feather(frame: pd.DataFrame = FRAME) -> bytes:
    stream = io.BytesIO()
    pyarrow.feather.write_feather(frame, stream)
    return stream.getvalue()


def _flip(raw: bytes, place: int) -> bytes:
    out = bytearray(raw)
    out[place] ^= 0x55
    return bytes(out)


NUMBERED = "10,20,30\n" + "4,0,7\n9,1,3\n5,2,8\n0,6,3\n"
CATEGORIES = FRAME.assign(c=pd.Categorical([1, 2, 1, 2, 1, 2, 1, 2, 1]))

UNITS = "a,b\n{}\n" + "\n".join(f"{k}.5,{k * k % 7}" for k in range(30))
BAD = {
    # Headers and row labels that cannot be told from data.
    "counted header": ("t.csv", NUMBERED, "--header or --no-header"),
    "years": ("t.csv", NUMBERED.replace("10,20,30", "2019,2020,2022"), "--header or --no-header"),
    "wavelengths": ("t.csv", CSV.replace("a,b,c", "400.5,401.0,401.5"), "--header or --no-header"),
    "below zero": ("t.csv", CSV.replace("a,b,c", "-1,0,1"), "--header or --no-header"),
    "a number twice": ("t.csv", CSV.replace("a,b,c", "1,2,2"), "--header or --no-header"),
    "far from the rows": ("t.csv", "9,3,5\n" + "99,101,98\n102,97,103\n" * 6, "--no-header"),
    "no name, measured": ("t.csv", CSV.replace("a,", ",", 1), "--no-row-labels"),
    "no name, in the middle": ("t.csv", CSV.replace("b", "Unnamed: 7", 1), "--no-row-labels"),
    "made-up name in Parquet": (
        "t.parquet", _parquet(frame=FRAME.rename(columns={"b": "Unnamed: 0"})), "--no-row-labels",
    ),
    # Text.
    "UTF-16": ("t.csv", CSV.encode("utf-16"), "not UTF-8"),
    "UTF-16 without a mark": ("t.csv", CSV.encode("utf-16-le"), "not UTF-8"),
    "Latin-1": ("t.csv", CSV.replace("a", "é", 1).encode("latin-1"), "not UTF-8"),
    "NUL in the names": ("t.csv", CSV.replace("a", "a\0", 1), "not UTF-8"),
    "a control character": ("t.csv", CSV.replace("\n0", "\n\x1e0", 1).replace(
        "\n-0", "\n\x1e-0", 1), "holds text"),
    "empty": ("t.csv", "", "the file is empty"),
    "empty, compressed": ("t.csv.gz", b"", "the file is empty"),
    "blank": ("t.csv", " \n\r\n\n", "the file is empty"),
    "one row": ("t.csv", "a,b\n1.5,2.5\n", "only one row"),
    "names twice": ("t.csv", CSV.replace("b", "a", 1), "must be unique"),
    "names twice in Parquet": ("t.parquet", None, "must be unique"),
    "a line of units": ("t.csv", UNITS.format("mg,g/l"), "take this line out"),
    "a line of totals": ("t.csv", UNITS.format("1,2") + "\nall,of it", "a line of totals"),
    "a title": ("t.csv", "My study\na,b\n1,2\n3,4\n", "a title or remarks"),
    "bars": ("t.csv", "a|b\n1|2\n3|4\n", "write the line sep=| above"),
    "commas in a .tsv": ("t.tsv", "a,b,c\n1,2,0\n3,4,0\n", "write the line sep=, above"),
    "millions": ("t.csv", 'a,b\n"1,234,567",2\n"2,345,678",4\n', "as 1234567"),
    "decimal commas": ("t.csv", "a;b\n1,5;2,5\n2,5;7,5\n", "decimal points"),
    "mixed separators": ("t.csv", CSV.replace(",", ";", 7), "line"),
    "a mark that is not closed": ("t.csv", '"a,b\n' + "1,2\n3,5\n" * 20, "cells, expected 1"),
    "a mark in the numbers": ("t.csv", 'a,b\n1,2\n1,"2\n3,4\n5,7\n', "holds text"),
    "a cut compressed file": ("t.csv.gz", gzip.compress(CSV.encode())[:-9], "cannot be read"),
    "a flip in a compressed file": (
        "t.csv.gz", _flip(gzip.compress(CSV.encode()), -6), "cannot be read",
    ),
    # NumPy's files.
    "negative shape": ("t.npy", _npy(VALUES, shape=(b"(9, 3), }", b"(-9,3), }")), "damaged"),
    "absurd shape": ("t.npy", _npy(VALUES, shape=(b"(9, 3), }       ", b"(9, 3000000), }")),
                     "damaged"),
    "shape beyond addresses": (
        "t.npy", _npy(VALUES, shape=(b"(9, 3), }" + b" " * 20, b"(9, 9999999999999999999), }")),
        "damaged",
    ),
    "no Python in the header": ("t.npy", _npy(VALUES, shape=(b"{", b"y")), "damaged"),
    "cut array": ("t.npy", _npy(VALUES)[:-8], "damaged"),
    "a foreign member": ("t.npz", _npz(("readme.txt", b"hello"), x=VALUES), "readme.txt"),
    "a member that is no array": ("t.npz", _npz(("y.npy", b"hello"), x=VALUES), "damaged"),
    "encrypted": ("t.npz", _npz(x=VALUES, encrypted=True), "encrypted"),
    "a member with a lying header": (
        "t.npz", _npz(("x.npy", _npy(VALUES, shape=(b"(9, 3), }  ", b"(9, 999), }")))), "damaged",
    ),
    "more in a member than it says": (
        "t.npz", _npz(("x.npy", _npy(VALUES) + b"12345678")), "damaged",
    ),
    # Arrow's files.
    "pandas metadata, no JSON": ("t.parquet", _parquet(b"{nonsense"), "'pandas'"),
    "pandas metadata, a list": ("t.parquet", _parquet(b"[1, 2]"), "'pandas'"),
    "pandas metadata, no index": ("t.parquet", _parquet(b'{"index_columns": 7}'), "'pandas'"),
    "categories in Parquet": ("t.parquet", _parquet(frame=CATEGORIES), "the categories 1, 2"),
    "categories in Feather": ("t.feather", _feather(CATEGORIES), "the categories 1, 2"),
    "cut Parquet": ("t.parquet", _parquet()[:-30], "damaged"),
    "cut Feather": ("t.feather", _feather()[:-30], "damaged"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_table_gives_a_sentence(tmp_path, monkeypatch, case):
    name, content, words = BAD[case]
    monkeypatch.chdir(tmp_path)
    if content is None:
        pq.write_table(pa.Table.from_arrays([pa.array([1.0, 2.0])] * 2, ["a", "a"]), name)
    else:
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    result = CliRunner().invoke(app, ["fit", name, "--out", "out.dag.parquet"])
    assert result.exit_code == 1, (result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    told = " ".join(result.stderr.split())
    assert words in told
    assert told.endswith(".")
    assert name in told
    assert not Path("out.dag.parquet").exists()
    assert read_errors(tmp_path / name) is DataError


def read_errors(path: Path) -> type:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        for read in (read_table, lambda p: read_covariance(p, 9)):
            try:
                read(path)
            except DataError:
                continue
            return object  # it was read
    return DataError


GOOD = {
    "index names that are not there": ("t.parquet", _parquet(b'{"index_columns": ["who"]}')),
    "a range as index": ("t.parquet", _parquet(b'{"index_columns": [{"kind": "range"}, null]}')),
    "carriage returns alone": ("t.csv", CSV.replace("\n", "\r")),
    "a stray quotation mark": ("t.csv", CSV.replace("a", '5"', 1)),
    "several compressed members": (
        "t.csv.gz", gzip.compress(CSV[:40].encode()) + gzip.compress(CSV[40:].encode()),
    ),
    "names with dots": ("t.parquet", _parquet(frame=FRAME.set_axis(["a", "a.b", "c"], axis=1))),
    "NA as a name": ("t.csv", CSV.replace("a", "NA", 1)),
}  # fmt: skip


@pytest.mark.parametrize("case", GOOD)
def test_an_odd_table_is_read(tmp_path, case):
    name, content = GOOD[case]
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = read_table(path)
    np.testing.assert_allclose(data.X + data.mean, VALUES, atol=1e-12)


def test_options_for_labels_and_headers_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("t.csv")
    words = ["fit", "t.csv", "--method", "sort-variance", "--json", "--force"]
    for option, d in [([], 3), (["--no-row-labels"], 4), (["--row-labels"], 3)]:
        result = CliRunner().invoke(app, [*words, *option])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["n_variables"] == d
        assert ("--no-row-labels" in result.stderr) == (not option)
    Path("u.csv").write_text(NUMBERED)
    words = ["fit", "u.csv", "--method", "sort-variance", "--json", "--force"]
    for option, n in [("--header", 4), ("--no-header", 5)]:
        result = CliRunner().invoke(app, [*words, option])
        assert json.loads(result.stdout)["n_samples"] == n
    result = CliRunner().invoke(
        app, ["fit", "t.csv", "--covariance", "--n-samples", "9", "--row-labels", "--force"]
    )
    assert result.exit_code == 2
    assert "--row-labels" in result.stderr
    evaluate = ["evaluate", "t.dag.parquet", "--truth", "t.dag.parquet", "--data", "t.csv"]
    CliRunner().invoke(app, ["fit", "t.csv", "--method", "sort-variance", "--force"])
    result = CliRunner().invoke(app, evaluate)
    assert result.exit_code == 0, result.output
    assert "row labels" in result.stderr
    result = CliRunner().invoke(app, [*evaluate, "--row-labels"])
    assert result.exit_code == 0, result.output
    assert "row labels" not in result.stderr


# Memory.


def _large(path: Path) -> None:
    """Write a table of 96 MB of numbers, small in the file where that can be."""
    n, d = 4_000, 3_000
    names = [f"v{j}" for j in range(d)]
    if path.name.endswith(".csv.gz"):
        line = ",".join(["0"] * d) + "\n"
        path.write_bytes(gzip.compress((",".join(names) + "\n" + line * n).encode(), 1))
    elif path.suffix == ".npz":
        np.savez_compressed(path, np.zeros((n, d)))
    elif path.suffix == ".npy":
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(
                file, {"shape": (n, d), "fortran_order": False, "descr": "<f8"}
            )
            file.truncate(file.tell() + 8 * n * d)
    else:
        table = pa.table([np.zeros(n)] * d, names=names)
        write = pq.write_table if path.suffix == ".parquet" else pyarrow.feather.write_feather
        write(table, path)


@pytest.mark.parametrize("name", ["t.csv.gz", "t.npz", "t.npy", "t.parquet", "t.feather"])
def test_a_table_beyond_the_limit_is_refused_before_it_is_made(tmp_path, name):
    path = tmp_path / name
    _large(path)
    held = resources.memory_held()
    with pytest.raises(MemoryLimitError, match=r"columns needs .* of memory") as caught:
        read_table(path, memory_limit=held + 90 * 2**20)
    assert str(path) in str(caught.value)
    assert resources.memory_held() - held < 60 * 2**20
    with pytest.raises(MemoryLimitError):
        read_covariance(path, 9, memory_limit="1MB")


def test_one_endless_line_is_refused_within_the_limit(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"1," * 40_000_000, 1))
    with pytest.raises(MemoryLimitError, match="its first line needs"):
        read_table(path, memory_limit=resources.memory_held() + 50 * 2**20)


def test_the_limit_of_the_command_covers_reading(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _large(Path("t.npz"))
    result = CliRunner().invoke(app, ["fit", "t.npz", "--memory-limit", "20MB"])
    assert result.exit_code == 1
    assert "4,000 rows and 3,000 columns needs" in " ".join(result.stderr.split())
    assert not Path("t.dag.parquet").exists()


MEASURED = """
import sys, warnings
from pathlib import Path
from bigdag import resources
from bigdag.data import arrays, convert, tables, text
announced = []
def require(need, *rest):
    announced.append(resources.memory_held() + need)
arrays.require_memory = convert.require_memory = text.require_memory = require
warnings.simplefilter("ignore")
tables.read_table(sys.argv[1])
# Not that of getrusage, which begins with the size of the parent.
lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
print(max(announced), 1024 * int(lines["VmHWM"].split()[0]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("name", ["t.csv.gz", "t.npz", "t.parquet", "t.feather"])
def test_what_is_announced_is_what_is_taken(tmp_path, name):
    path = tmp_path / name
    _large(path)
    run = [sys.executable, "-c", MEASURED, str(path)]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120)
    announced, peak = map(int, done.stdout.split())
    assert 0.75 * peak <= announced <= 1.3 * peak


@pytest.mark.parametrize("error", [pa.ArrowMemoryError("malloc of size 7 failed"), MemoryError()])
def test_memory_that_is_used_up_is_called_so(tmp_path, monkeypatch, error):
    def fail(*_, **__):
        raise error

    (tmp_path / "t.csv").write_text(CSV)
    monkeypatch.setattr(text.pacsv, "read_csv", fail)
    with pytest.raises(MemoryLimitError, match="memory is used up") as caught:
        read_table(tmp_path / "t.csv")
    assert "damaged" not in str(caught.value)


# Files that change, and what Arrow holds.


@pytest.mark.parametrize("name", ["t.csv", "t.npy", "t.parquet", "t.feather"])
@pytest.mark.parametrize("keep", [0, 0.5])
def test_a_file_that_is_cut_while_it_is_read(tmp_path, monkeypatch, name, keep):
    path = tmp_path / name
    frame = pd.DataFrame(np.random.default_rng(1).normal(size=(2000, 20))).add_prefix("v")
    if name == "t.npy":
        np.save(path, frame)
    else:
        {".csv": frame.to_csv, ".parquet": frame.to_parquet, ".feather": frame.to_feather}[
            path.suffix
        ](path)
    matrix = content.new_matrix

    def cut(n, d):
        with path.open("r+b") as file:
            file.truncate(int(keep * path.stat().st_size))
        return matrix(n, d)

    monkeypatch.setattr(content, "new_matrix", cut)
    with pytest.raises(DataError):
        read_table(path)


def test_a_pipe_is_no_table(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(DataError, match="a pipe or a device"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("name", ["t.csv", "t.txt"])
def test_arrow_gets_only_memory_that_it_owns(tmp_path, monkeypatch, name):
    """A thread of Arrow that frees a buffer of Python while the interpreter ends aborts it."""
    owned, given = [], []
    allocate, read = pa.allocate_buffer, text.pacsv.read_csv

    def allocated(*args, **kwargs):
        buffer = allocate(*args, **kwargs)
        owned.append(range(buffer.address, buffer.address + buffer.size))
        return buffer

    def reading(source, **kwargs):
        given.append(source.read_buffer().address)
        source.seek(0)
        return read(source, **kwargs)

    monkeypatch.setattr(text.pa, "allocate_buffer", allocated)
    monkeypatch.setattr(text.pacsv, "read_csv", reading)
    table = CSV.replace("\n", ",oops\n", 3)
    (tmp_path / name).write_text(table.replace(",", "  ") if name == "t.txt" else table)
    with pytest.raises(DataError):
        read_table(tmp_path / name)
    assert given
    assert all(any(address in block for block in owned) for address in given)


def test_a_failing_read_ends_the_interpreter_in_order(tmp_path):
    (tmp_path / "t.csv").write_text(CSV * 500)
    code = (
        "import sys; from bigdag.data.tables import read_table\n"
        "try:\n    read_table(sys.argv[1])\nexcept ValueError:\n    print('refused')"
    )
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "t.csv")], capture_output=True, timeout=120
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"refused\n", b"")


def test_a_sheet_of_a_spreadsheet_is_to_be_saved_as_csv(tmp_path):
    path = tmp_path / "t.xlsx"
    path.write_bytes(b"PK")
    with pytest.raises(DataError, match=r"suffix '\.xlsx' is not known.* Save the sheet as CSV"):
        read_table(path)


def test_signs_that_may_mean_missing_values_are_told_what_to_become(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n-,3\n4,5\n")
    with pytest.raises(DataError, match="If '-' means a missing value, write NA or nothing"):
        read_table(path)


def _with_cells(tmp_path, *cells, rows=40):
    """Write a table of two columns of numbers, with some cells in the second."""
    lines = [["0.5", f"{k}.25"] for k in range(rows)]
    for row, cell in cells:
        lines[row - 1][1] = cell
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f'{a},"{b}"\n' for a, b in lines))
    return path


@pytest.mark.parametrize("cell", ["abc", "?", "-", ".", "missing", "12 mg", "1,5"])
def test_one_cell_of_text_among_numbers_is_told_with_its_place_and_what_to_do(tmp_path, cell):
    path = _with_cells(tmp_path, (38, cell))
    with pytest.raises(DataError) as error:
        read_table(path)
    text = str(error.value)
    assert "a cell that is no number" in text
    assert f"'b' (row 38: {cell!r})" in text
    assert ("decimal point" if cell == "1,5" else "write NA or nothing") in text
    assert "--drop" in text


def test_several_cells_of_text_among_numbers_are_counted(tmp_path):
    path = _with_cells(tmp_path, (3, "?"), (7, "?"), (9, "bad"))
    with pytest.raises(
        DataError, match=r"3 cells that are no numbers.*row 3: '\?', and 2 more of its 40"
    ):
        read_table(path)


def test_numbers_with_decimal_commas_throughout_are_told_as_such(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n1,5;2\n2,5;3\n")
    with pytest.raises(DataError, match="written with commas"):
        read_table(path)


@pytest.mark.parametrize("word", ["NA", "na", "n/a", "null", "Null", "#N/A", "nan", "None", "<NA>"])
def test_words_for_missing_values_are_no_text(tmp_path, word):
    found = read_prepared(_with_cells(tmp_path, (4, word)), Wishes(missing="pairwise"))
    assert found.missing == "pairwise"
