"""What the command prints of names and paths that others chose, on any terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from bigdag.cli import app
from bigdag.graph.dag import DAG
from bigdag.terminal import printable

EVIL = "a\x1b[31m\x07\x9b2J\u202eb\r\nc\x7f"
SHOWN = r"a\x1b[31m\x07\x9b2J\u202eb\r\nc\x7f"
FORBIDDEN = ("\x1b", "\x07", "\x9b", "\u202e", "\r", "\x7f")
COMMAND = [sys.executable, "-m", "bigdag.cli"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    DAG([[0, 1.0], [0, 0]], [EVIL, "λ → b"]).save("evil.npz")
    DAG([[0, 1.0], [0, 0]], ["a", "b"]).save("good.npz")
    X = np.random.default_rng(0).normal(size=(9, 2))
    name = EVIL.replace('"', "")
    rows = "\n".join(f"{a},{b}" for a, b in X)
    (tmp_path / "evil.csv").write_text(f'"{name}",b\n{rows}\n', newline="")
    (tmp_path / "cell.csv").write_text("a,b\n1,2\n3,\x1b[31mx\n")
    (tmp_path / "constant.csv").write_text(f'"{name}",b\n1,2\n1,3\n1,5\n', newline="")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize(
    "words",
    [
        ["show", "evil.npz"],
        ["show", "evil.npz", "--variable", EVIL],
        ["show", "evil.npz", "--json"],
        ["show", "evil.npz", "--variable", "x\x1b[2J"],
        ["show", "x\x1b[2J.npz"],
        ["show", "good.npz", "--x\x1b[2J"],
        ["evaluate", "evil.npz", "--truth", "good.npz"],
        ["fit", "evil.csv", "--method", "sort-variance", "--out", "o.npz"],
        ["fit", "evil.csv", "--method", "sort-variance", "--out", "o\x1b[31m.npz"],
        ["fit", "evil.csv", "--method", "sort-variance", "--out", "o\x1b[31m.xyz"],
        ["fit", "constant.csv", "--method", "sort-variance", "--out", "o.npz"],
        ["fit", "cell.csv", "--out", "o.npz"],
        ["fit", "evil.csv", "--warm-start", "good.npz", "--out", "o.npz"],
        ["fit", "evil.csv", "--method", "\x1b[31m", "--out", "o.npz"],
        ["fit", "evil.csv", "--set", "\x1b[31m", "--out", "o.npz"],
        ["simulate", "--out", "none\x1b[31m/world"],
    ],
)
def test_nothing_is_printed_that_a_terminal_obeys(words):
    result = run(*words)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    text = result.stdout + result.stderr
    assert text
    assert not [c for c in FORBIDDEN if c in text], repr(text)


def test_names_are_shown_escaped_and_json_gives_them_back():
    assert printable(EVIL) == SHOWN
    assert SHOWN in run("show", "evil.npz").stdout
    report = json.loads(run("show", "evil.npz", "--json").stdout)
    assert report["strongest"][0]["source"] == EVIL


def command(*words, check=None, **more):
    environment = os.environ | more.pop("env", {})
    done = subprocess.run(
        [*COMMAND, *words], capture_output=True, env=environment, check=False, **more
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    if check is not None:
        assert done.returncode == check, done
    return done


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "cp1252"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""},
    ],
)
def test_an_encoding_that_lacks_characters(env):
    stdout = command("show", "evil.npz", check=0, env=env).stdout
    assert b"->" in stdout
    stdout = command("show", "evil.npz", "--json", check=0, env=env).stdout
    assert json.loads(stdout)["strongest"][0]["target"] == "λ → b"
    command("show", "λ→.npz", check=2, env=env)


def test_a_closed_pipe_and_a_full_disk_end_in_silence_or_one_sentence():
    for words in (["show", "good.npz"], ["show", "good.npz", "--json"]):
        shell = f"{sys.executable} -m bigdag.cli {' '.join(words)} | true"
        done = subprocess.run(["bash", "-c", shell], capture_output=True, check=False)
        assert done.stderr == b""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "show", "good.npz"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        "Error: The result could not be printed: No space left on device."
    ]


@pytest.mark.parametrize("d", [10**12, 10**15, 10**16, 10**400])
def test_memory_of_methods_at_absurd_sizes(d):
    result = run("methods", "--d", d)
    assert result.exit_code == (0 if d <= 10**15 else 2)
    assert result.exception is None or isinstance(result.exception, SystemExit)
