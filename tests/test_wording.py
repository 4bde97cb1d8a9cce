"""Errors of the command: options in place of parameters, names that are near, one and several."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bigdag import DAG, OrderSearch
from bigdag.cli.wording import in_words_of_the_command
from bigdag.errors import ParameterError, close_names, counted, near_or_some, nearest
from test_cli import bigdag_, one_line

NAMES = ("amb", "motor", "power", "hum", "vib")
BIC = ["--method", "order-search-bic", "--quiet"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def motors(name: str = "t.csv", columns: tuple[str, ...] = NAMES, n: int = 60) -> str:
    """Write a table of a motor's sensors."""
    X = np.random.default_rng(0).normal(size=(n, len(NAMES)))
    X[:, 1] += X[:, 0]
    X[:, 2] += X[:, 1]
    pd.DataFrame(X, columns=list(NAMES))[list(columns)].to_csv(name, index=False)
    return name


# ------------------------------------------------------------------ options, not parameters


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("n_jobs must be None, -1 or at least 1. Got 0 instead.",
         "--n-jobs must be -1 or at least 1, or be left out. Got 0 instead."),
        ("n_jobs must be a number >= 0, 'auto' or None. Got -1 instead.",
         "--n-jobs must be a number >= 0 or 'auto', or be left out. Got -1 instead."),
        ("`top` must be a whole number of at least 0. Got -3.",
         "--top must be a whole number of at least 0. Got -3."),
        ("k, the number of arcs, must be above 0. Got -1.",
         "--k, the number of arcs, must be above 0. Got -1."),
        ("The top of the list, at the top, n_jobs='x' and 'n_jobs' stay.",
         "The top of the list, at the top, n_jobs='x' and 'n_jobs' stay."),
        ("It exists. Overwrite it with force=True (--force on the command line).",
         "It exists. Overwrite it with --force."),
        ("time_limit must be a number > 0, or None. Got 0.",
         "time_limit must be a number > 0, or None. Got 0."),
    ],
)  # fmt: skip
def test_only_options_that_were_typed_are_named(text, said):
    typed = {"n_jobs": ("--n-jobs", "0"), "top": ("--top", "-3"), "k": ("--k", "-1")}
    assert in_words_of_the_command(text, typed) == said


def test_the_library_keeps_its_own_words():
    with pytest.raises(ParameterError, match=r"^random_state must be None, an integer >= 0 or a n"):
        OrderSearch(random_state=-1).fit(np.eye(3))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["show", "d.npz", "--top", -3], "--top must be a whole number of at least 0. Got -3."),
        (["show", "d.npz", "--threshold", -1], "Error: --threshold must be a finite number"),
        (["plan", "t.csv", "--n-jobs", 0], "Error: --n-jobs must be -1 or an integer >= 1"),
        (["simulate", "--out", "w", "--seed", -1], "Error: --seed must be an integer >= 0"),
        (["fit", "t.csv", "--target", "amb", "--radius", 0], "Error: --radius must be an integer"),
    ],
)
def test_words_but_fit_name_options_too(words, sentence):
    motors()
    DAG(np.diag(np.ones(4), 1), NAMES).save("d.npz")
    assert sentence in one_line(bigdag_(*words, code=2)[1])


def test_a_limit_without_a_unit_is_explained():
    _, stderr = bigdag_("fit", motors(), "--memory-limit", 4, code=1)
    assert "it may hold 4 bytes in all (--memory-limit)" in stderr
    assert "--memory-limit 4 means 4 bytes: for gigabytes, write 4GB." in stderr
    _, stderr = bigdag_("fit", "t.csv", "--memory-limit", "4KB", code=1)
    assert "means" not in stderr


# ------------------------------------------------------------------ tables


def test_a_column_of_lists_is_refused_in_plain_words():
    frame = pd.read_csv(motors())
    frame.assign(lst=[[1.0, 2.0]] * len(frame)).to_parquet("nested.parquet")
    _, stderr = bigdag_("fit", "nested.parquet", code=1)
    assert "1 of 6 columns holds text or other values that are not numbers: 'lst'" in stderr
    assert "float()" not in stderr
    assert "--drop" in stderr


def test_one_row_is_refused_in_plain_words():
    for word in ("fit", "plan"):
        _, stderr = bigdag_(word, motors(n=1), code=1)
        assert stderr == (
            "Error: t.csv: The table has only one row. A fit needs at least two rows, and "
            "relations between columns many more.\n"
        )
    assert "1 sample of 5 columns" in bigdag_("check", "t.csv")[0]


def test_a_table_without_columns_of_the_dag():
    DAG(np.diag(np.ones(4), 1), NAMES).save("d.npz")
    words = ["evaluate", "d.npz", "--truth", "d.npz", "--data"]
    _, stderr = bigdag_(*words, motors("two.csv", ("amb", "motor")), code=1)
    assert "two.csv lacks the columns 'power', 'hum', 'vib' of the DAG." in stderr
    frame = pd.read_csv(motors())
    frame.assign(id=range(len(frame))).to_csv("more.csv", index=False)
    _, stderr = bigdag_(*words, "more.csv", code=1)
    assert "more.csv has the column 'id', which the DAG does not have." in stderr


def test_a_column_that_lacks_too_many_values():
    frame = pd.read_csv(motors(n=100))
    frame.loc[:39, "vib"] = np.nan
    frame.to_csv("t.csv", index=False)
    _, stderr = bigdag_("fit", "t.csv", code=1)
    assert "Column 'vib' lacks 40 % of its values; the limit is 20 %. Leave it out" in stderr
    assert "--missing pairwise or --missing em" in stderr
    frame.loc[:29, "hum"] = np.nan
    frame.to_csv("t.csv", index=False)
    _, stderr = bigdag_("fit", "t.csv", code=1)
    assert "2 of 5 columns lack more than 20 % of their values" in stderr
    assert "'hum' (30 %), 'vib' (40 %)" in stderr


# ------------------------------------------------------------------ names that are near


def test_only_names_that_are_near_are_offered():
    assert close_names("foo", NAMES) == []
    assert close_names("name", NAMES) == []
    assert close_names("mtoor", NAMES) == ["motor"]
    assert close_names("--methd", ["--method", "--seed", "--set"]) == ["--method"]
    assert (
        near_or_some("foo", NAMES, "There are") == "There are 'amb', 'motor', 'power' and 2 more."
    )
    assert nearest("exp9", ["exp1", "exp2"], "There are") == "'exp9'. There are: exp1, exp2."


@pytest.mark.parametrize("option", ["--regulators", "--target"])
def test_a_name_that_is_near_to_none(option):
    _, stderr = bigdag_("fit", motors(), option, "foo", code=2)
    assert f"Error: {option}" in stderr
    assert "The table has 'amb', 'motor', 'power' and 2 more." in stderr
    _, stderr = bigdag_("fit", "t.csv", option, "moter", code=2)
    assert "Did you mean 'motor'?" in stderr


def test_an_experiment_that_is_not_there_is_not_guessed():
    _, stderr = bigdag_("experiment", "plan", "exp9", code=2)
    assert "There is no experiment 'exp9'. Experiments are: exp1, exp2, exp3." in one_line(stderr)
    assert "all means all of them" in one_line(stderr)


def test_a_file_of_tiers_in_place_of_arcs():
    Path("tiers.csv").write_text("name,tier\namb,0\nmotor,1\n")
    _, stderr = bigdag_("fit", motors(), "--forbid", "tiers.csv", code=2)
    assert "Error: --forbid names 'name', which matches no variable of the table." in stderr
    assert "a file of arcs has the columns source and target" in stderr
    Path("arcs.csv").write_text("source,target\namb,moter\n")
    _, stderr = bigdag_("fit", "t.csv", "--forbid", "arcs.csv", code=2)
    assert "Did you mean 'motor'?" in stderr
    assert "a file of arcs" not in stderr


# ------------------------------------------------------------------ ends, and small things


def test_an_interrupt_says_whether_the_dag_was_written(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("bigdag.cli.fit.print_json", interrupted)
        _, stderr = bigdag_("fit", motors(), *BIC, "--json", "--page", "p.html", code=1)
    assert stderr == (
        "Error: Interrupted. t.dag.parquet was written before that, and is complete. p.html was "
        "written before that, and is complete.\n"
    )
    assert DAG.load("t.dag.parquet").names == NAMES
    monkeypatch.setattr("bigdag.learners.recipe.Recipe.follow", interrupted)
    _, stderr = bigdag_("fit", "t.csv", *BIC, "--out", "b.npz", code=1)
    assert stderr == "Error: Interrupted. b.npz was not written.\n"
    assert not Path("b.npz").exists()


def test_a_quiet_fit_still_prints_the_json_that_it_was_asked_for():
    stdout, stderr = bigdag_("fit", motors(), *BIC, "--json")
    assert json.loads(stdout)["n_variables"] == 5
    assert stderr == ""


def test_one_is_singular():
    assert (counted(1, "row"), counted(2, "row")) == ("1 row", "2 rows")
    DAG([[0, 1.0], [0, 0]], ["rain", "river"]).save("d.npz")
    stdout, _ = bigdag_("show", "d.npz", "--variable", "rain")
    assert "1 variable with effects and without causes" in stdout
    assert "2 variables, 1 arc\n" in "\n".join(line.rstrip() for line in stdout.split("\n")) + "\n"


@pytest.mark.parametrize("t", ["x", None, [0.1, 0.2], float("nan"), -1])
def test_a_threshold_that_is_none(t):
    with pytest.raises(ParameterError, match="The threshold must be a finite number"):
        DAG([[0, 1.0], [0, 0]]).threshold(t)
