"""Nothing of a table is left out without a word, and a command can be ended while it loads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bigdag.data.dataset import as_dataset
from bigdag.data.tables import read_table
from bigdag.errors import DataWarning

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(12, 3)), columns=list("abc"))


# ------------------------------------------------------------------ row labels and no header

LABELLED = {
    "no header": ("s1,1.0,2.0\ns2,1.5,3.0\ns3,2.5,3.5\n", 3, False, "taken as a row of data"),
    "quoted": ('"s1",1.0,2.0\n"s2",1.5,3.0\n"s3",2.5,3.5\n', 3, False, "taken as a row of data"),
    "names": ("id,a,b\ns1,1.0,2.0\ns2,1.5,3.0\ns3,2.5,3.5\n", 3, True, None),
    "years": ("id,2019,2020\ns1,1.1,2.2\ns2,1.5,3.1\ns3,2.5,3.5\n", 3, True, "as the header"),
    "labels of numbers": ("id,1.5,2.5\n1,1.1,2.2\n2,1.5,3.1\n3,2.5,3.5\n", 3, True, None),
}


@pytest.mark.parametrize(("text", "n", "named", "word"), LABELLED.values(), ids=LABELLED)
def test_no_line_is_lost_beside_row_labels(text, n, named, word, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        data = read_table(path, row_labels=True)
    assert (data.n_samples, data.n_features, data.named) == (n, 2, named)
    messages = [str(warning.message) for warning in told]
    assert len(messages) == (word is not None)
    assert all(word in message for message in messages)


# ------------------------------------------------------------------ the index of pandas

INDEXES = {
    "text": (FRAME.set_index(pd.Index([f"s{i}" for i in range(12)])), "without a name"),
    "what a filter leaves": (FRAME[FRAME["a"] > 0], "without a name"),
    "dates": (FRAME.set_index(pd.date_range("2020", periods=12)), "without a name"),
    "two levels": (
        FRAME.set_index(pd.MultiIndex.from_arrays([[*"abcdef"] * 2, np.arange(12) % 5])),
        "2 levels without names",
    ),
    "a name": (FRAME.set_index("a"), "'a'"),
    "a range": (FRAME, None),
}


@pytest.mark.parametrize("stored", [None, True])
@pytest.mark.parametrize("door", ["file", "table"])
@pytest.mark.parametrize(("frame", "word"), INDEXES.values(), ids=INDEXES)
def test_an_index_is_not_left_out_without_a_word(frame, word, door, stored, tmp_path):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if door == "file":
            frame.to_parquet(tmp_path / "t.parquet", index=stored)
            data = read_table(tmp_path / "t.parquet")
        else:
            data = as_dataset(pa.Table.from_pandas(frame, preserve_index=stored))
    assert data.names == tuple(frame.columns)
    assert [w.category for w in told] == ([DataWarning] if word else [])
    assert all(word in str(w.message) and w.filename == __file__ for w in told)


# ------------------------------------------------------------------ Ctrl-C while words are loaded


@pytest.mark.parametrize("start", ["-m bigdag.cli", "-c from bigdag.cli import main; main()"])
def test_an_interrupt_while_the_command_is_loaded_is_one_line(start, tmp_path):
    (tmp_path / "typer.py").write_text("open('ready', 'w').close()\nimport time; time.sleep(60)\n")
    command = subprocess.Popen(
        [sys.executable, *start.split(" ", 1), "methods"],
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not (tmp_path / "ready").exists() and command.poll() is None:
        time.sleep(0.01)
    command.send_signal(signal.SIGINT)
    out, err = command.communicate(timeout=60)
    assert (command.returncode, out, err) == (130, "", "Interrupted.\n")
