"""Experiments on what is damaged, changed or missing: a sentence each, and no wrong result."""

from __future__ import annotations

import functools
import io
import json
import os
import sqlite3
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from bigdag.cli import app
from bigdag.cli.experiment import _table
from bigdag.errors import BigdagError, DataError
from bigdag.experiments import load_plan
from bigdag.experiments.plan import file as plan_file_module
from bigdag.experiments.plan.file import unchanged
from bigdag.experiments.report.results import Results
from bigdag.experiments.run import datasets, runner
from bigdag.experiments.run.agenda import Progress, Running
from bigdag.experiments.run.worker import run_job
from bigdag.experiments.store import Store
from fake_runs import WORKER
from report_stores import fill, job, record

PLAN = """
experiment = "mine"
limits = {time_limit = 20, memory_limit = "4 GB"}
data = [%s]
method = [{method = "empty"}, {method = "sort-variance"}]
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def experiment(*words):
    """Run the command in this process; return its exit code, stdout, and stderr in one line."""
    result = CliRunner().invoke(app, ["experiment", *map(str, words)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


# ------------------------------------------------------------------ stores


def not_a_database(path):
    path.write_bytes(b"run,status\n1,converged\n" * 50)


def cut(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def overwritten(path):
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)


def statements(*lines):
    def change(path):
        sql = sqlite3.connect(path)
        for line in lines:
            sql.execute(line)
        sql.commit()
        sql.close()

    return change


def someone_elses(path):
    path.unlink()
    statements("CREATE TABLE birds (name)", "INSERT INTO birds VALUES ('wren')")(path)


def set_to(column, value, table="runs"):
    return statements(f"UPDATE {table} SET {column} = {value}")


# What is done to a good store, the words of `report` that say so, and whether `status`, which looks
# at neither numbers nor scores, says it too.
STORES = {
    "no database": (not_a_database, "is not an SQLite file", True),
    "cut": (cut, "is damaged", True),
    "overwritten": (overwritten, "is damaged", True),
    "of another program": (someone_elses, "no store of experiments", True),
    "a table less": (statements("DROP TABLE scores"), "its table 'scores' is missing", True),
    "no claims": (statements("DROP TABLE claims"), "its table 'claims' is missing", True),
    "a column less": (
        statements("ALTER TABLE runs DROP COLUMN seconds"), "'runs' lacks seconds", True,
    ),
    "other columns": (
        statements("DROP TABLE scores", "CREATE TABLE scores (a, b)"), "'scores' lacks run", True,
    ),
    "a column more": (
        statements("ALTER TABLE runs ADD COLUMN mood"), "'runs' has other columns", True,
    ),
    "newer": (set_to("value", "99", "meta"), "was written by a newer bigdag", True),
    "no version": (statements("DELETE FROM meta"), "does not say which version", True),
    "an odd version": (set_to("value", "'two'", "meta"), "does not say which version", True),
    "text for d": (set_to("d", "'wide'"), "holds 'wide' in the column 'd'", False),
    "text for seconds": (set_to("seconds", "'long'"), "'long' in the column 'seconds'", False),
    "no text for seconds": (set_to("seconds", "''"), "a finite number belongs", False),
    "bytes for seconds": (set_to("seconds", "x'ff'"), "holds b'\\xff'", False),
    "infinite": (set_to("objective", "9e999"), "holds inf in the column 'objective'", False),
    "text for a score": (
        set_to("value", "'good'", "scores"), "column 'value' of the table 'scores'", False,
    ),
    "bytes for a name": (set_to("method", "x'ff00'"), "where a text belongs", False),
    "no run": (set_to("run", "NULL"), "holds None in the column 'run'", False),
    "no JSON": (set_to("machine", "'{'"), "in the column 'machine'", False),
    "other JSON": (set_to("curve", "'[[1, \"a\"]]'"), "a list of pairs of numbers", False),
    "text for phases": (set_to("phase_seconds", "'{\"mas\": \"x\"}'"), "each phase", False),
    "a job that is none": (set_to("job", "'[1]'"), "a run as a plan describes it", False),
    "a job of text": (set_to("job", "'{\"method\": \"gd\"}'"), "as a plan describes it", False),
    "not UTF-8": (set_to("message", "CAST(x'ff41' AS TEXT)"), "is damaged", False),
}  # fmt: skip


@pytest.fixture(scope="module")
def good_store(tmp_path_factory):
    one = job(experiment="exp2")
    return fill(tmp_path_factory.mktemp("good") / "runs.db", [(one, record(one))]).read_bytes()


@pytest.mark.parametrize("kind", STORES)
def test_a_store_says_what_is_wrong_with_it(kind, good_store):
    change, told, by_status = STORES[kind]
    path = Path("runs.db")
    path.write_bytes(good_store)
    change(path)
    before = path.read_bytes()
    for words in (["report", path, "--out", "report"], ["export", path, "--out", "a.parquet"]):
        if "JSON" in kind or "job" in kind or "phases" in kind:
            words = words if words[0] == "report" else ["status", path]
        code, _, stderr = experiment(*words)
        if words[0] != "status":
            assert (code, told in stderr) == (1, True), (words, code, stderr)
            assert stderr.startswith("Error: ")
            assert "folder that can be" not in stderr
    code, _, stderr = experiment("status", path)
    assert (code, told in stderr if by_status else stderr) == ((1, True) if by_status else (0, ""))
    assert path.read_bytes() == before
    assert not Path("report").exists()
    assert not Path("a.parquet").exists()


def test_claims_that_nobody_can_have_written_are_nobodys():
    Store("runs.db").close()
    statements(
        "INSERT INTO claims VALUES ('a', 'me', 1.0, 1.0)",
        "INSERT INTO claims VALUES ('b', 'host:x:y', 'now', 'then')",
        "INSERT INTO claims VALUES ('c', 'elsewhere:1:2', 1.0, 'then')",
    )(Path("runs.db"))
    assert experiment("status", "runs.db")[0] == 0
    with Store("runs.db") as store:
        assert store.claims() == []
        assert all(store.claim(run) for run in "abc")


def test_a_message_with_bytes_that_are_no_text_is_kept():
    one = job()
    with Store("runs.db") as store:
        assert store.finish(one, {"status": "error", "message": "no file a\udcff.csv"})
        assert store.runs()["message"].tolist() == ["no file a\\udcff.csv"]


def test_halves_of_characters_in_json_do_not_stop_the_report():
    one = job()
    fill("runs.db", [(one, {"status": "error", "machine": {"name": "\ud800"}})])
    assert experiment("report", "runs.db")[0] == 0


# ------------------------------------------------------------------ data sets


def own_table(rows=60, shift=0.0):
    values = np.random.default_rng(0).normal(size=(rows, 3)) + shift
    pd.DataFrame(values, columns=list("abc")).to_csv("t.csv", index=False)
    Path("truth.csv").write_text("source,target,weight\na,b,1.0\na,c,0.5\n")
    Path("mine.toml").write_text(PLAN % '{table = "t.csv", truth = "truth.csv"}')
    return load_plan("mine.toml").jobs()


@pytest.mark.parametrize("what", ["table", "truth", "gone"])
def test_a_table_that_was_edited_after_planning_is_not_stored_under_its_old_id(what):
    jobs = own_table()
    if what == "table":
        own_table(shift=1.0)
    elif what == "truth":
        Path("truth.csv").write_text("source,target,weight\nb,a,1.0\n")
    else:
        Path("t.csv").unlink()
    result = run_job({**jobs[0], "data": "data"})
    assert result["status"] == "error"
    assert result["scores"] == []
    assert not Path("data").exists()
    told = "Could not read" if what == "gone" else "Plan again"
    assert told in result["message"]
    if what != "gone":
        fresh = load_plan("mine.toml").jobs()
        assert not {one["run"] for one in fresh} & {one["run"] for one in jobs}


def test_a_file_that_changes_while_it_is_read_is_refused():
    Path("t.csv").write_text("a,b\n1,2\n")

    def read():
        with unchanged(["t.csv"]):
            Path("t.csv").write_text("a,b\n1,3\n")

    with pytest.raises(DataError, match="was changed while it was read"):
        read()


def damaged_size(path):
    path.write_bytes(path.read_bytes()[:-100])


def damaged_byte(path):
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "name", ["train.npy", "validation.npy", "means.npy", "truth.npz", "card.json"]
)
@pytest.mark.parametrize(
    "damage", [Path.unlink, damaged_size, damaged_byte], ids=["gone", "cut", "flipped"]
)
def test_what_is_damaged_in_a_data_set_is_made_again(name, damage):
    Path("mine.toml").write_text(PLAN % "{d = 10, n = 60}")
    one = load_plan("mine.toml").datasets[0]
    folder = datasets.prepare(one, "data")
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    damage(folder / name)
    again = datasets.load(datasets.prepare(one, "data"))
    assert again.truth is not None
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole
    assert os.listdir("data") == [folder.name]


def test_a_run_after_its_truth_was_deleted_is_scored():
    Path("mine.toml").write_text(PLAN % "{d = 10, n = 60}")
    one = load_plan("mine.toml").jobs()[0] | {"data": "data"}
    (datasets.prepare(one["dataset"], "data") / "truth.npz").unlink()
    result = run_job(one)
    assert result["status"] == "converged"
    assert "average_precision" in {score["metric"] for score in result["scores"]}


def test_a_damaged_data_set_of_a_table_that_has_changed_is_refused():
    jobs = own_table()
    (datasets.prepare(jobs[0]["dataset"], "data") / "truth.npz").unlink()
    own_table(shift=1.0)
    with pytest.raises(DataError, match="Plan again"):
        datasets.prepare(jobs[0]["dataset"], "data")


def test_a_data_set_with_a_very_long_name_has_a_folder():
    own_table()
    Path("mine.toml").write_text(PLAN % f'{{table = "t.csv", name = "{"x" * 400}"}}')
    assert datasets.prepare(load_plan("mine.toml").datasets[0], "data").is_dir()


# ------------------------------------------------------------------ what is missing, what fails

# As if torch were not installed: no finder knows of it. Each line of input is a command.
WITHOUT_TORCH = """
import functools, importlib.machinery as machinery, json, sys
find = machinery.PathFinder.find_spec
machinery.PathFinder.find_spec = classmethod(
    lambda cls, name, path=None, target=None:
        None if name.split(".")[0] == "torch" else find(name, path, target))
from typer.testing import CliRunner
from bigdag.cli import app
from bigdag.cli.experiment import _table
from bigdag.experiments.run import runner
runner.run_jobs = functools.partial(runner.run_jobs, worker=sys.argv[1])
for line in sys.stdin:
    result = CliRunner().invoke(app, line.split())
    print(json.dumps([result.exit_code, result.stdout, " ".join(result.stderr.split())]))
"""


def test_without_torch_what_needs_it_is_skipped_and_said():
    Path("torch.toml").write_text("""
        limits = {time_limit = 20, memory_limit = "2 GB"}
        data = [{d = 10, n = 60}]
        method = [{method = "notears", parameters = {solver = "soft_penalty"}},
                  {method = "optimas"},
                  {name = "dense", method = "proximas", parameters = {engine = "dense"}},
                  {method = "golem-ev"}, {method = "empty"}]""")
    Path("only.toml").write_text("""
        limits = {time_limit = 20, memory_limit = "2 GB"}
        data = [{d = 10, n = 60}]
        method = [{method = "golem-nv"}]""")
    lines = [
        "experiment plan torch.toml",
        "experiment run torch.toml",
        "experiment run torch.toml --skip-missing --json --quiet",
        "experiment run only.toml --skip-missing --store only.db",
    ]
    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, WORKER], input="\n".join(lines),
        capture_output=True, text=True, timeout=200, check=True,
    )  # fmt: skip
    plan, refused, skipped, only = map(json.loads, answer.stdout.splitlines())
    assert plan[0] == 0, plan
    for method in ("notears", "optimas", "dense", "golem-ev"):
        assert f"{method}: pip install 'torch>=2.2'" in plan[1]
    assert refused[0] == 1
    assert "golem-ev, notears, optimas, proximas needs the package 'torch'" in refused[2]
    assert skipped[0] == 0, skipped
    assert json.loads(skipped[1])["done"] == 1
    assert only[0] == 1
    assert "Nothing of the plan can be run" in only[2]


def test_a_report_on_methods_that_are_not_installed_is_written(monkeypatch):
    monkeypatch.setattr(
        plan_file_module.methods.Method, "installed", property(lambda m: not m.extra)
    )
    one = job(("GOLEM", "golem-ev", {}, 0.5))
    runs = pd.DataFrame([{"run": one["run"], "word": "golem-ev", "job": json.dumps(one)}])
    assert np.isnan(Results.of(runs, pd.DataFrame()).runs["lambda1"].iloc[0])


@pytest.mark.parametrize(("failing", "code"), [(1, 0), (2, 1)], ids=["one of two", "all"])
def test_the_exit_code_says_whether_every_run_failed(failing, code, monkeypatch, tmp_path):
    Path("mine.toml").write_text(PLAN % "{d = 10, n = 60}")
    bad = ["empty", "sort-variance"][:failing]
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import json, sys\n"
        "job = json.load(open(sys.argv[1]))\n"
        f"bad = job['method']['word'] in {bad!r}\n"
        "result = {'status': 'error' if bad else 'converged', 'message': 'No luck.' * bad}\n"
        "json.dump(result, open(sys.argv[2], 'w'))\n"
    )
    monkeypatch.setattr(runner, "run_jobs", functools.partial(runner.run_jobs, worker=str(worker)))
    found, stdout, stderr = experiment("run", "mine.toml")
    assert found == code
    assert f"{failing} × error: No luck" in " ".join(stdout.split())
    assert ("All 2 runs of mine failed. 2 × error: No luck" in stderr) == (code == 1)


# ------------------------------------------------------------------ hostile plans


class _Elements(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)


def test_a_hostile_plan_is_text_from_the_plan_to_the_page(monkeypatch):
    evil = "1 ± <script>alert(1)</script><img src=x onerror='alert(2)'>[red]{{ 7 * 7 }}"
    own_table()
    Path("mine.toml").write_text(
        f"""
        experiment = {json.dumps(evil)}
        preset = {json.dumps(evil)}
        title = {json.dumps(evil)}
        limits = {{time_limit = 20, memory_limit = "2 GB"}}
        data = [{{table = "t.csv", name = {json.dumps(evil)}}}]
        method = [{{method = "empty", name = {json.dumps(evil)}}}]"""
    )
    monkeypatch.setattr(runner, "run_jobs", functools.partial(runner.run_jobs, worker=WORKER))
    for words in (["plan", "mine.toml"], ["run", "mine.toml"], ["status", "runs.db"]):
        code, stdout, stderr = experiment(*words)
        assert code == 0, stderr
        assert "[red]" in stdout + stderr
    assert experiment("report", "runs.db")[0] == 0
    page = _Elements(Path("report/index.html").read_text("utf-8"))
    assert [tag for tag, _ in page.found].count("script") == 1
    assert all(about["src"].startswith("data:") for tag, about in page.found if tag == "img")
    assert not [about for _, about in page.found for name in about if name.startswith("on")]
    assert evil in page.texts


# ------------------------------------------------------------------ names that a terminal obeys

EVIL = r"a\u001b[31m\u0007\u009b2J\u202eb"  # as TOML writes it
OBEYED = ("\x1b", "\x07", "\x9b", "\u202e")


def test_names_are_escaped_in_all_that_is_printed(monkeypatch):
    Path("mine.toml").write_text(f"""
        experiment = "exp {EVIL}"
        preset = "pre {EVIL}"
        title = "title {EVIL}"
        limits = {{time_limit = 20, memory_limit = "4 GB"}}
        data = [{{d = 10, n = 60}}]
        method = [{{name = "met {EVIL}", method = "empty"}}]
    """)
    monkeypatch.setattr(runner, "run_jobs", functools.partial(runner.run_jobs, worker=WORKER))
    printed = {}
    for words in (["plan", "mine.toml"], ["run", "mine.toml"], ["status", "runs.db"]):
        code, stdout, stderr = experiment(*words)
        assert code == 0
        printed[words[0]] = stdout + stderr
    (one,) = load_plan("mine.toml").jobs()
    with io.StringIO() as screen:  # the table of a terminal, without styles
        Console(file=screen, width=200, color_system=None, force_terminal=True).print(
            _table(Progress(1, running=[Running(one, 1.0)]))
        )
        printed["live"] = screen.getvalue()
    for name, text in printed.items():
        assert r"a\x1b[31m\x07\x9b2J\u202eb" in text.replace("\n", ""), name
        assert not [character for character in OBEYED if character in text], name


def test_a_store_with_a_damaged_index_is_refused(tmp_path):
    """What is damaged may be a page that no query of a word reads."""
    path = tmp_path / "runs.db"
    job = {"run": "00ff", "experiment": "mine", "method": {"name": "A", "word": "gd"},
           "dataset": {"name": "ER1", "d": 10}}  # fmt: skip
    score = {"metric": "f1", "value": 0.5, "weights": "dag", "directed": True}
    with Store(path) as store:
        store.claim(job["run"])
        store.finish(job, {"status": "converged", "scores": [score] * 300})
        root = store._sql.execute(
            "SELECT rootpage FROM sqlite_master WHERE name LIKE 'scores_by_run%'"
        ).fetchone()[0]
        size = store._sql.execute("PRAGMA page_size").fetchone()[0]
        store._sql.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    content[(root - 1) * size + 200 : root * size - 100] = bytes(size - 300)
    path.write_bytes(content)
    for read_only in (True, False):
        with pytest.raises(BigdagError, match="is damaged"):
            Store(path, read_only=read_only)
