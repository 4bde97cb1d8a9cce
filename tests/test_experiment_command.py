"""The words of ``bigdag experiment``, end to end in a temporary folder."""

from __future__ import annotations

import functools
import json
import os
import pty
import re
import select
import shlex
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas as pd
import psutil
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from bigdag.cli import app
from bigdag.engine import on_dask
from bigdag.errors import BigdagError
from bigdag.experiments.run import runner
from bigdag.experiments.store import Store
from bigdag.learners.methods import METHODS
from fake_runs import WORKER, gone, started, wait_until

ROOT = Path(__file__).parents[1]

PLAN = """
experiment = "mine"
limits = {time_limit = 20, memory_limit = "2 GB"}
data = [{d = 10, n = 60, repetitions = 2}]
method = [{method = "empty"}, {method = "sort-variance"}]
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("mine.toml").write_text(PLAN)


@pytest.fixture
def fake(monkeypatch):
    """Let a stand-in do the runs: their own work is not the point here."""
    monkeypatch.setattr(runner, "run_jobs", functools.partial(runner.run_jobs, worker=WORKER))


def experiment(*words, code=0):
    """Run the command in this process; return stdout and stderr."""
    words = ["experiment", *map(str, words)]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
    return result.stdout, result.stderr


def as_json(*words):
    return json.loads(experiment(*words, "--json")[0])


def test_the_whole_way_with_real_runs():
    Path("mine.toml").write_text(PLAN.replace("repetitions = 2", "repetitions = 1"))
    done = as_json("run", "mine.toml", "--quiet", "--store", "a/runs.db")
    assert (done["total"], done["done"], done["failed"], done["new"]) == (2, 2, 0, 2)
    assert sum(done["statuses"].values()) == 2
    again = as_json("run", "mine.toml", "--store", "a/runs.db")
    assert again["new"] == 0
    status = as_json("status", "a/runs.db")
    (part,) = status["experiments"]
    assert (part["planned"], part["done"], part["missing"], part["running"]) == (2, 2, 0, 0)
    exported = as_json("export", "a/runs.db", "--out", "all.parquet")
    frame = pd.read_parquet("all.parquet")
    assert (len(frame), frame["run"].nunique()) == (exported["rows"], 2)
    assert {"average_precision", "shd"} <= set(frame["metric"])
    page = as_json("report", "a/runs.db", "--out", "report")["page"]
    assert "mine" in Path(page).read_text()


# ------------------------------------------------------------------ plan


def test_plan_says_what_is_asked_for_before_anything_starts(tmp_path):
    before = set(tmp_path.iterdir())
    (part,) = as_json("plan", "mine.toml")["plans"]
    assert (part["instances"], part["runs"], part["methods"]) == (2, 4, 2)
    assert part["core_hours"] == pytest.approx(4 * 20 / 3600)
    stdout, stderr = experiment("plan", "mine.toml")
    assert stderr == ""
    assert "4: up to 2 methods on 2 data sets" in stdout
    assert "2 GB" in stdout
    assert set(tmp_path.iterdir()) == before


def test_a_part_of_a_plan_can_be_asked_for_and_run(fake):
    (part,) = as_json("plan", "mine.toml", "--method", "empty", "--variables", "10")["plans"]
    assert (part["runs"], part["methods"]) == (part["instances"], 1)
    done = as_json("run", "mine.toml", "--method", "empty")
    whole = as_json("run", "mine.toml")
    assert 0 < done["total"] < whole["total"]
    assert whole["new"] == whole["total"] - done["total"]
    _, stderr = experiment("plan", "mine.toml", "--method", "emty", code=2)
    assert "Did you mean 'empty'?" in stderr
    _, stderr = experiment("run", "mine.toml", "--variables", "11", code=2)
    assert "has no data set with 11 variables" in stderr
    _, stderr = experiment("plan", "exp1", "--preset", "paper-sizes", code=2)
    assert "There is no preset 'paper-sizes'" in stderr


def test_plan_takes_all_experiments_at_once_and_says_what_is_too_large():
    parts = as_json("plan", "all", "--preset", "paper")["plans"]
    assert [part["experiment"] for part in parts] == ["exp1", "exp2", "exp3"]
    assert parts[0]["instances"] == 1440
    text = (
        PLAN.replace('"2 GB"', '"1 MB"')
        .replace("d = 10", "d = 3000")
        .replace('"empty"', '"notears"')
    )
    Path("large.toml").write_text(text)
    (part,) = as_json("plan", "large.toml")["plans"]
    assert {row["method"] for row in part["too_big"]} == {"notears", "sort-variance"}
    assert "will not fit" in experiment("plan", "large.toml")[0]


def test_a_method_that_is_not_installed_is_said_before_anything_runs(monkeypatch, fake):
    Path("torch.toml").write_text(PLAN.replace('"empty"', '"golem-ev"'))
    monkeypatch.setattr(type(METHODS["golem-ev"]), "installed", property(lambda m: not m.extra))
    stdout, _ = experiment("plan", "torch.toml")
    assert "not installed  golem-ev: pip install 'torch>=2.2'" in stdout
    _, stderr = experiment("run", "torch.toml", code=1)
    assert "golem-ev needs the package 'torch'" in stderr
    with Store("runs.db", read_only=True) as store:
        assert store.counts() == []
    done = as_json("run", "torch.toml", "--skip-missing")
    assert done["total"] == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["plan", "exp4"], "There is no experiment 'exp4'"),
        (["run", "exp1", "--preset", "labtop"], "Did you mean 'laptop'?"),
        (["run", "none.toml"], "none.toml"),
        (["run", "typo.toml"], "Did you mean 'limits'?"),
        (["run", "mine.toml", "--cores", "0"], "--cores"),
        (["run", "mine.toml", "--cores", "2", "--dask", "tcp://x:1"], "--cores is of this machine"),
        (["run", "mine.toml", "--store", "."], "is a folder"),
        (["status", "none.db"], "none.db"),
        (["export", "empty.db", "--out", "a.csv"], "must end in .parquet"),
        (["export", "empty.db", "--out", "taken.parquet"], "exists already"),
        (["report", "none.db"], "none.db"),
    ],
)
def test_mistakes_in_the_words_are_sentences_and_exit_with_2(words, told):
    Path("typo.toml").write_text(PLAN.replace("limits", "limit"))
    Path("taken.parquet").write_text("mine")
    Store("empty.db").close()
    _, stderr = experiment(*words, code=2)
    assert told in " ".join(stderr.replace("│", " ").split())
    assert Path("taken.parquet").read_text() == "mine"
    assert not Path("runs.db").exists()


def test_a_newer_store_and_one_that_is_none_exit_with_1(fake):
    Store("newer.db").close()
    sql = sqlite3.connect("newer.db")
    sql.execute("UPDATE meta SET value = 99 WHERE key = 'version'")
    sql.commit()
    sql.close()
    for words in (["run", "mine.toml", "--store", "newer.db"], ["status", "newer.db"],
                  ["export", "newer.db"], ["report", "newer.db"]):  # fmt: skip
        _, stderr = experiment(*words, code=1)
        assert "newer.db was written by a newer bigdag" in stderr
    _, stderr = experiment("status", "mine.toml", code=1)
    assert "is not an SQLite file" in stderr
    _, stderr = experiment("run", "mine.toml", "--store", "/proc/runs.db", code=1)
    assert "Cannot write the store /proc/runs.db" in stderr


def test_an_address_with_nobody_there_exits_with_1(monkeypatch):
    monkeypatch.setattr(on_dask, "_CONNECT", 0.5)
    _, stderr = experiment("run", "mine.toml", "--dask", "tcp://127.0.0.1:1", code=1)
    assert "No Dask scheduler answers at tcp://127.0.0.1:1" in stderr


# ------------------------------------------------------------------ run


def test_without_a_terminal_each_run_is_a_line(fake):
    stdout, stderr = experiment("run", "mine.toml")
    lines = stderr.splitlines()
    assert len(lines) == 4
    assert sorted(line.split()[0] for line in lines) == ["1/4", "2/4", "3/4", "4/4"]
    assert "mine  sort-variance on ER1 gaussian-EV d=10 n=60, seed 1: converged" in stderr
    assert "4 of 4 runs" in stdout
    assert "bigdag experiment report runs.db" in stdout
    assert experiment("run", "mine.toml", "--quiet") == ("", "")


def test_failed_runs_are_rows_and_told_and_retried(monkeypatch, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("raise ValueError('out of luck')")
    real = runner.run_jobs
    monkeypatch.setattr(runner, "run_jobs", functools.partial(real, worker=str(broken)))
    stdout, stderr = experiment("run", "mine.toml", code=1)
    assert "--retry-failed does them again" in stdout
    last = " ".join(stderr.split())[-400:]
    assert "All 4 runs of mine failed. 4 × crashed: ended with exit code 1" in last
    assert "ValueError: out of luck" in last
    assert "crashed: empty on ER1" in experiment("status", "runs.db")[0]
    status = as_json("status", "runs.db")
    assert status["experiments"][0]["failed"] == 4
    assert "out of luck" in status["failures"][0]["message"]
    monkeypatch.setattr(runner, "run_jobs", functools.partial(real, worker=WORKER))
    stdout, stderr = experiment("run", "mine.toml", "--json", code=1)
    assert json.loads(stdout)["new"] == 0
    assert "out of luck" in stderr
    assert "out of luck" in experiment("run", "mine.toml", "--quiet", code=1)[1]
    done = as_json("run", "mine.toml", "--retry-failed")
    assert (done["new"], done["failed"]) == (4, 0)


SLOW = """
import functools, sys
from bigdag.experiments.run import runner
runner.run_jobs = functools.partial(runner.run_jobs, worker=sys.argv.pop(1))
from bigdag.cli import app
app()
"""


def start(tmp_path, **options):
    """Start `run` as a process, with runs of which the second does not end."""
    (tmp_path / "slow.py").write_text(
        "import json, os, sys, time\n"
        "job = json.load(open(sys.argv[1]))\n"
        "if job['method']['word'] != 'empty' or job['seed']: time.sleep(600)\n"
        "json.dump({'status': 'converged'}, open(sys.argv[2], 'w'))\n"
    )
    words = ["experiment", "run", "mine.toml", "--cores", "2"]
    return started([sys.executable, "-c", SLOW, str(tmp_path / "slow.py"), *words], **options)


def finished():
    if not Path("runs.db").exists():
        return 0
    try:
        with Store("runs.db", read_only=True) as store:
            return len(store.statuses())
    except BigdagError:  # it is being made
        return 0


def running():
    if not Path("runs.db").exists():
        return 0
    try:
        with Store("runs.db", read_only=True) as store:
            return len(store.claims())
    except BigdagError:  # it is being made
        return 0


@pytest.mark.parametrize(
    ("numbers", "options"),
    [
        ([signal.SIGINT], {"sigint": signal.SIG_IGN}),
        ([signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGHUP], {}),
        ([signal.SIGHUP, signal.SIGINT], {}),
    ],
    ids=["SIGINT ignored at first", "several at once", "of a terminal that is closed"],
)  # fmt: skip
def test_signals_stop_it_cleanly_and_status_works_meanwhile(tmp_path, numbers, options):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with start(tmp_path, **pipes, **options) as process:
        wait_until(lambda: finished() == 1)
        wait_until(lambda: running() == 2)
        stdout, _ = experiment("status", "runs.db")
        assert re.search(r"mine +own +4 +1 +2 +0 +3", stdout)
        assert "Under way" in stdout
        workers = psutil.Process(process.pid).children(recursive=True)
        assert len(workers) >= 2
        for number in numbers:
            process.send_signal(number)
        stdout, stderr = process.communicate(timeout=100)
        assert process.returncode == 1
    assert "Traceback" not in stderr
    assert stderr.endswith(
        "Error: Stopped. runs.db holds 1 run that finished; what was under way was ended. The "
        "same command again does what is missing.\n"
    )
    wait_until(lambda: all(gone(worker.pid) for worker in workers))
    assert (running(), finished()) == (0, 1)
    assert not Path("runs.work").exists()


def test_on_a_terminal_the_table_is_live(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    ours, its = pty.openpty()
    seen = b""
    try:
        with start(tmp_path, stdin=its, stdout=its, stderr=its) as process:
            os.close(its)

            def shown():
                nonlocal seen
                if select.select([ours], [], [], 0.1)[0]:
                    seen += os.read(ours, 4096)
                return b"1 of 4" in seen and b"seed 1" in seen

            wait_until(shown)
            process.send_signal(signal.SIGINT)
            process.wait(100)
    finally:
        os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode(errors="replace"))
    for word in ("done", "running", "failed", "time left", "1 of 4", "mine  empty on ER1"):
        assert word in text


def test_a_terminal_that_is_closed_ends_it_cleanly(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    ours, its = pty.openpty()
    with start(tmp_path, stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        wait_until(lambda: running() == 2)
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        assert process.wait(100) != 0
    assert running() == 0
    assert not Path("runs.work").exists()


# ------------------------------------------------------------------ what the texts promise


def commands_in(text):
    code = (ROOT / text).read_text().replace("\\\n", " ")
    if text.endswith(".md"):
        code = "".join(re.findall(r"```sh\n(.*?)```", code, re.DOTALL))
    return [line for line in code.splitlines() if re.search(r"\bbigdag experiment ", line)]


@pytest.mark.parametrize("text", ["docs/experiments.md", "Makefile"])
def test_every_command_in_the_texts_is_one(text):
    words = get_command(app).commands["experiment"].commands
    lines = commands_in(text)
    assert lines
    for line in lines:
        _, word, *rest = shlex.split(line[line.index("bigdag experiment ") + 7 :], comments=True)
        known = {name for option in words[word].params for name in option.opts}
        assert {part for part in rest if part.startswith("--")} <= known, line


def test_the_plans_in_the_text_are_plans(tmp_path):
    plans = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/experiments.md").read_text(), re.DOTALL)
    assert plans
    for number, text in enumerate(plans):
        Path("genes.csv").write_text("a,b\n" + "1,2\n3,5\n" * 20)
        Path("genes-truth.csv").write_text("source,target,weight\na,b,1.0\n")
        Path(f"{number}.toml").write_text(text)
        assert as_json("plan", f"{number}.toml")["plans"][0]["runs"] > 0


def test_the_help_is_quick_and_names_all_words():
    code = "import sys; from bigdag.cli import app; app(standalone_mode=False); print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code, "experiment", "--help"], capture_output=True, text=True,
        check=True, timeout=200,
    )  # fmt: skip
    # What takes long to import is not imported for it.
    loaded = set(result.stdout.splitlines()[-1].split())
    assert not {"torch", "matplotlib", "dask", "distributed", "jinja2"} & loaded
    for word in ("plan", "run", "status", "report", "export"):
        assert word in result.stdout
