"""Plans: the shipped ones are those of the paper, and every fault of a user's own is named."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bigdag import simulate
from bigdag.errors import BigdagError, MissingExtraError, ParameterError
from bigdag.experiments import load_plan
from bigdag.experiments.plan.expand import EXPERIMENTS, PRESETS, Limits
from bigdag.learners.methods import METHODS

GB = 2**30
SHIPPED = [*itertools.product(EXPERIMENTS, PRESETS), ("exp3", "paper-sizes")]

SMALL = """
experiment = "mine"
thresholds = [0.3, 0.1]

[limits]
time_limit = 5
memory_limit = "2 GB"

[[data]]
d = 20
n = 50

[[method]]
method = "sort-variance"
"""


def plan_of(folder: Path, text: str, name: str = "mine.toml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load_plan(path)


# ------------------------------------------------------------------ what is shipped


@pytest.mark.parametrize(("experiment", "preset"), SHIPPED)
def test_every_shipped_plan_loads_and_says_what_it_is(experiment, preset):
    plan = load_plan(experiment, preset)
    assert (plan.experiment, plan.preset) == (experiment, preset)
    jobs = plan.jobs()
    assert len({job["run"] for job in jobs}) == len(jobs) == plan.estimate().runs
    assert len({job["dataset"]["key"] for job in jobs}) == plan.estimate().instances
    assert json.loads(json.dumps(jobs)) == jobs
    assert plan.estimate().too_big == []


TABLE_2 = {
    "exp1": (
        {"d": [1000, 5000], "k": [1, 2, 4], "n": [1000, 10000], "graph": ["ER", "SF"],
         "noise": ["gaussian", "exponential", "gumbel"], "variance": ["EV", "NV"],
         "seed": list(range(10))},
        1440, Limits(3600, 4, 16 * GB, None),
    ),
    "exp2": (
        {"d": [5000], "k": [1], "n": [1000, 10000], "graph": ["ER"], "noise": ["gaussian"],
         "variance": ["EV", "NV"], "seed": [0]},
        4, Limits(24 * 3600, 4, 16 * GB, 3600),
    ),
    "exp3": (
        {"d": [5000, 10000, 15000, 20000], "k": [1], "n": [1000, 10000], "graph": ["ER"],
         "noise": ["gaussian"], "variance": ["EV"], "seed": [0]},
        8, Limits(3600, 32, 128 * GB, None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_paper_s_plan_is_table_2(experiment):
    values, instances, limits = TABLE_2[experiment]
    plan = load_plan(experiment, "paper")
    found = {tuple(data[name] for name in values) for data in plan.datasets}
    assert found == set(itertools.product(*values.values()))
    assert plan.estimate().instances == instances == len(found)
    assert plan.limits == limits
    assert {data["units"] for data in plan.datasets} == {"raw"}


@pytest.mark.parametrize(("experiment", "preset"), [s for s in SHIPPED if s[1] != "smoke"])
def test_the_methods_of_table_1_have_its_hyperparameters(experiment, preset):
    table_1 = {  # word: lambda1, lambda2
        "optimas": (0.1, 20.0), "proximas": (0.1, 20.0), "notears": (0.1, 5.0),
        "golem-ev": (0.02, 5.0), "golem-nv": (0.002, 5.0), "gd": (0.1, None),
    }  # fmt: skip
    plan = load_plan(experiment, preset)
    rows = plan.methods[:6]
    assert {
        row.word: (row.parameters["lambda1"], row.parameters.get("lambda2")) for row in rows
    } == table_1
    # Acyclicity after 50 minutes, of an hour or of 24.
    share = 50 / (24 * 60) if experiment == "exp2" else 50 / 60
    for row in rows[:2]:
        assert row.parameters["acyclic_from"] == share
        assert row.parameters["refit"] is False
    # The soft penalty was compared with; the method as published stands beside it.
    assert rows[2].parameters["solver"] == "soft_penalty"
    others = {row.word for row in plan.methods[6:] if "solver" not in row.parameters}
    assert {"notears", "dagma"} <= others
    # Rows of our own: the defaults, and every other learner.
    assert any(row.word == "proximas" and not row.parameters for row in plan.methods[6:])
    if preset == "paper" or (experiment == "exp1" and preset != "smoke"):
        used = {job["method"]["word"] for job in plan.jobs()}
        assert used == set(METHODS), "add the new method to plans/methods.toml"


def descending(plan):
    """Return the rows of a plan whose methods take an optimiser's steps."""
    words = ("optimas", "notears", "golem-ev", "golem-nv")
    used = {job["method"]["name"] for job in plan.jobs()}
    return [row for row in plan.methods[:6] if row.word in words and row.name in used]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_in_the_paper_s_plans_only_the_time_limit_ends_a_descent(experiment):
    for row in descending(load_plan(experiment, "paper")):
        given = row.parameters
        assert (given["learning_rate"], given["decays"]) == (0.001, 0)
        assert given["max_iter"] >= 10**9
        # Not tol = 0: a loss that rises does not fall either, and would count as settled.
        assert given["patience"] >= 10**9


@pytest.mark.parametrize("preset", ["laptop", "overnight"])
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_in_the_small_plans_the_rivals_end_by_their_own_rule(experiment, preset):
    plan = load_plan(experiment, preset)
    rows = descending(plan)
    assert len(rows) == 4
    for row in rows:
        assert not {"learning_rate", "decays", "tol", "patience", "max_iter"} & set(row.parameters)
    # A minute at the least with 100 variables, where the slowest takes some 40 s of one core; with
    # 1000 three hours, where a night is for them.
    for job in plan.jobs():
        assert job["time_limit"] >= 60
        if preset == "overnight" and job["dataset"]["d"] == 1000:
            assert job["time_limit"] == 10800
    if preset == "overnight":
        assert 1000 in {data["d"] for data in plan.datasets}


def test_the_laptop_s_plans_have_the_paper_s_shape_and_are_bounded():
    seconds = 0.0
    for experiment in EXPERIMENTS:
        plan, paper = load_plan(experiment, "laptop"), load_plan(experiment, "paper")
        for name in ("k", "graph", "noise", "variance"):
            assert {data[name] for data in plan.datasets} == {data[name] for data in paper.datasets}
        assert (plan.limits.snapshot_every is None) == (paper.limits.snapshot_every is None)
        assert plan.limits.threads == 1
        # 2 s to start a run; two of them at a time.
        for job in plan.jobs():
            seconds += min(job["time_limit"], expected(job)) + 2.0
    assert seconds / 2 < 3600
    units = {data["units"] for data in load_plan("exp1", "laptop").datasets}
    assert units == {"raw", "standardised", "iscm"}


def expected(job):
    """Return about the seconds of a run on one core, by what benchmarks/RESULTS.md has of ER1."""
    d, name = job["dataset"]["d"], job["method"]["name"]
    at_100 = {
        "NOTEARS": 17, "NOTEARS (as published)": 39, "GOLEM-EV": 11, "GOLEM-NV": 13, "GD": 10,
        "OptiMAS": 3, "DAGMA": 2, "ProxiMAS": 0.5,
    }  # fmt: skip
    denser = 1 if job["dataset"]["k"] == 1 and job["dataset"]["graph"] == "ER" else 2
    return at_100.get(name, 0.1) * denser * (d / 100) ** 2


def test_the_paper_s_sizes_are_there_to_run_in_parts():
    plan = load_plan("exp3", "paper-sizes")
    assert {data["d"] for data in plan.datasets} == {5000, 10000, 15000, 20000}
    assert {data["n"] for data in plan.datasets} == {1000}
    limits = {
        (job["method"]["name"], job["dataset"]["d"]): job["time_limit"] for job in plan.jobs()
    }
    for name in ("ProxiMAS", "OptiMAS"):
        for row in (name, f"{name} (defaults)"):
            assert [limits[row, d] for d in (5000, 10000, 15000, 20000)] == [900, 900, 900, 3600]
    whole = {job["run"] for job in plan.jobs()}
    parts = [plan.part(sizes=[d]).jobs() for d in (5000, 10000, 15000, 20000)]
    assert sorted(whole) == sorted(job["run"] for part in parts for job in part)


# ------------------------------------------------------------------ from a plan to its runs


def test_a_plan_is_the_product_of_its_lists(tmp_path):
    text = SMALL.replace(
        "d = 20", "d = [30, 20]\nk = [1, 1.5]\nunits = ['raw', 'iscm']\nrepetitions = 3"
    )
    plan = plan_of(tmp_path, text + '[[method]]\nname = "strict"\nmethod = "proximas"\n')
    jobs = plan.jobs()
    assert len(jobs) == 2 * 2 * 2 * 3 * 2
    assert plan.preset == "own"
    assert plan.thresholds == (0.1, 0.3)
    sizes = [job["dataset"]["d"] for job in jobs]
    assert sizes == sorted(sizes)
    keys = [job["dataset"]["key"] for job in jobs]
    assert len(list(itertools.groupby(keys))) == len(set(keys))
    assert {job["seed"] for job in jobs} == {0, 1, 2}
    first = jobs[0]
    assert first["method"] == {"name": "sort-variance", "word": "sort-variance", "parameters": {}}
    assert first["dataset"]["name"] == "ER1 gaussian-EV d=20 n=50"
    assert jobs[1]["method"]["name"] == "strict"


def test_a_part_of_a_plan_has_the_same_runs(tmp_path):
    text = SMALL.replace("d = 20", "d = [20, 30]")
    plan = plan_of(tmp_path, text + '[[method]]\nname = "strict"\nmethod = "proximas"\n')
    part = plan.part(["strict"], [30])
    (job,) = part.jobs()
    assert job in plan.jobs()
    assert (job["method"]["name"], job["dataset"]["d"]) == ("strict", 30)
    assert part.estimate().runs == 1
    assert [job["dataset"]["d"] for job in plan.part(sizes=[20]).jobs()] == [20, 20]
    assert plan.part().jobs() == plan.jobs()
    with pytest.raises(ParameterError, match=r"mine has no method 'strit'\. Did you mean 'strict'"):
        plan.part(["strit"])
    with pytest.raises(ParameterError, match=r"with 40 variables\. Its data sets have 20, 30\."):
        plan.part(sizes=[40])
    less = plan_of(tmp_path, text.replace("n = 50", 'n = 50\nmethods = ["strict"]')
                   + '[[method]]\nname = "strict"\nmethod = "proximas"\n')  # fmt: skip
    with pytest.raises(ParameterError, match="has no run of sort-variance with 20 variables"):
        less.part(["sort-variance"], [20])


def test_a_table_of_data_may_have_its_own_time_limit_and_leave_methods_out(tmp_path):
    more = '[[data]]\nd = 30\nn = 50\ntime_limit = 7\nwithout = ["strict"]\n'
    strict = '[[method]]\nname = "strict"\nmethod = "proximas"\n'
    plan = plan_of(tmp_path, SMALL + more + strict)
    found = [(job["dataset"]["d"], job["method"]["name"], job["time_limit"]) for job in plan.jobs()]
    assert found == [(20, "sort-variance", 5), (20, "strict", 5), (30, "sort-variance", 7)]
    assert plan.estimate().core_hours == pytest.approx(17 / 3600)
    assert plan.estimate().time_limit == 7
    twice = plan_of(tmp_path, SMALL + more.replace("d = 30", "d = 20") + strict)
    with pytest.raises(ParameterError, match="time limits of 5 and 7 seconds"):
        twice.jobs()
    none = more.replace('["strict"]', '["strict", "sort-variance"]')
    with pytest.raises(ParameterError, match=r"\[\[data\]\] number 2: no method is left"):
        plan_of(tmp_path, SMALL + none + strict)
    with pytest.raises(ParameterError, match=r"no method of the name 'strit'\. Did you mean"):
        plan_of(tmp_path, SMALL + more.replace("strict", "strit") + strict)
    with pytest.raises(ParameterError, match="'time_limit' must be a number of seconds > 0"):
        plan_of(tmp_path, SMALL + more.replace("= 7", "= 0") + strict)


def test_of_several_files_of_methods_the_last_row_of_a_name_holds(tmp_path):
    (tmp_path / "one.toml").write_text(
        '[[method]]\nname = "a"\nmethod = "empty"\n[[method]]\nname = "b"\nmethod = "sort-r2"\n'
    )
    (tmp_path / "two.toml").write_text('[[method]]\nname = "a"\nmethod = "lasso-mas"\n')
    plan = plan_of(tmp_path, 'methods_from = ["one.toml", "two.toml"]\n' + SMALL)
    assert [(row.name, row.word) for row in plan.methods] == [
        ("a", "lasso-mas"), ("b", "sort-r2"), ("sort-variance", "sort-variance"),
    ]  # fmt: skip


def test_overlapping_tables_make_a_data_set_once(tmp_path):
    more = '[[data]]\nd = [20, 30]\nn = 50\nmethods = ["strict"]\n'
    plan = plan_of(tmp_path, SMALL + more + '[[method]]\nname = "strict"\nmethod = "proximas"\n')
    made = [(job["dataset"]["d"], job["method"]["name"]) for job in plan.jobs()]
    assert made == [(20, "sort-variance"), (20, "strict"), (30, "strict")]


def test_ids_are_of_what_decides_the_result(tmp_path):
    def ids(text: str, **limits):
        plan = plan_of(tmp_path, text)
        return [job["run"] for job in replace(plan, limits=replace(plan.limits, **limits)).jobs()]

    before = ids(SMALL)
    assert ids(SMALL, threads=7, memory_limit=1) == before
    assert ids(SMALL.replace("[[method]]", '[[method]]\nname = "another label"')) == before
    changes = [
        ids(SMALL, time_limit=6.0),
        ids(SMALL, snapshot_every=1.0),
        ids(SMALL.replace("0.3, ", "")),
        ids(SMALL.replace("[limits]", "seed = 1\n[limits]").replace("thresholds", "thresholds")),
        ids(SMALL.replace("n = 50", "n = 51")),
        ids(SMALL.replace("n = 50", "n = 50\nunits = 'iscm'")),
        ids(SMALL + "parameters = { lambda1 = 0.2 }"),
        ids(SMALL.replace("mine", "other")),
    ]
    assert len({tuple(found) for found in [before, *changes]}) == len(changes) + 1


def test_a_row_takes_the_place_of_an_included_one(tmp_path):
    (tmp_path / "rows.toml").write_text(
        '[[method]]\nname = "A"\nmethod = "gd"\n[[method]]\nname = "B"\nmethod = "empty"\n'
    )
    text = SMALL.replace("[limits]", 'methods_from = "rows.toml"\n[limits]', 1)
    plan = plan_of(tmp_path, text.replace("[[method]]", '[[method]]\nname = "A"'))
    assert [(row.name, row.word) for row in plan.methods] == [
        ("A", "sort-variance"),
        ("B", "empty"),
    ]
    text = text.replace("rows.toml", "methods.toml") + "parameters = { lambda1 = 0.7 }"
    shipped = plan_of(tmp_path, text)
    assert len(shipped.methods) == 1 + len(load_plan("exp1", "paper").methods)


def test_a_user_s_table_is_a_data_set(tmp_path):
    dag = simulate.random_dag(6, 1, rng=0)
    np.save(tmp_path / "cells.npy", simulate.sample(dag, 43, rng=1))
    dag.save(tmp_path / "truth.csv")
    data = '[[data]]\ntable = "cells.npy"\ntruth = "truth.csv"\nrepetitions = 2\n'
    text = SMALL.replace("[[data]]\nd = 20\nn = 50\n", data)
    first, second = (job["dataset"] for job in plan_of(tmp_path, text).jobs())
    assert first["name"] == "cells"
    assert (first["d"], first["n"]) == (6, 35)  # one row in five is kept for validation
    assert Path(first["table"]) == tmp_path / "cells.npy"
    assert first["key"] != second["key"]
    before = first["key"]
    np.save(tmp_path / "cells.npy", simulate.sample(dag, 43, rng=2))
    assert plan_of(tmp_path, text).datasets[0]["key"] != before


def test_an_estimate_counts_the_worst_case(tmp_path, monkeypatch):
    text = SMALL.replace("d = 20", "d = [20, 3000]").replace("time_limit = 5", "time_limit = 360")
    text = text.replace('"2 GB"', '"350 MB"\nthreads = 3')
    plan = plan_of(tmp_path, text + '[[method]]\nname = "deep"\nmethod = "golem-ev"\n')
    monkeypatch.setattr("bigdag.learners.methods.find_spec", lambda package: None)
    estimate = plan.estimate()
    assert (estimate.instances, estimate.runs) == (2, 4)
    assert estimate.core_hours == pytest.approx(4 * 0.1 * 3)
    assert estimate.memory == METHODS["golem-ev"].memory(50, 3000)
    assert estimate.disk == 2 * 8 * 50 * 3020
    assert {(name, d) for name, d, _, _ in estimate.too_big} == {
        ("deep", 20), ("deep", 3000), ("sort-variance", 3000),
    }  # fmt: skip
    assert estimate.missing == [("deep", "torch")]


# ------------------------------------------------------------------ faults

FAULTS = {
    "unknown key at the top": (
        SMALL.replace("thresholds", "treshold"), ["'treshold'", "'thresholds'", "top level"],
    ),
    "unknown key of the limits": (
        SMALL.replace("time_limit", "time_limits"), ["'time_limits'", "'time_limit'", "[limits]"],
    ),
    "unknown key of data": (
        SMALL.replace("n = 50", "n = 50\nrepititions = 2"),
        ["'repititions'", "'repetitions'", "[[data]] number 1"],
    ),
    "the key of data that was renamed": (
        SMALL.replace("n = 50", "n = 50\nscale = 'NV'"),
        ["unknown key 'scale'. It is called 'variance' now.", "[[data]] number 1"],
    ),
    "unknown key of a table": (
        SMALL.replace("n = 50", "n = 50\n[[data]]\ntabel = 'a.csv'"),
        ["'tabel'", "'table'", "[[data]] number 2"],
    ),
    "truth without a table": (SMALL.replace("n = 50", "n = 50\ntruth = 'a'"), ["'truth'"]),
    "size of a table": (SMALL + "[[data]]\ntable = 'a'\nd = 4", ["'d'", "table of your own"]),
    "unknown key of a method": (
        SMALL + "parameter = {}", ["'parameter'", "'parameters'", "[[method]] number 1"],
    ),
    "unknown method": (SMALL.replace("sort-var", "sort-wari"), ["Did you mean 'sort-variance'"]),
    "unknown parameter": (
        SMALL + "parameters = { lamda1 = 1 }", ["'lamda1'", "'lambda1'", "[[method]] number 1"],
    ),
    "parameter out of range": (
        SMALL + "parameters = { lambda1 = -1 }", ["lambda1 must be", "[[method]] number 1"],
    ),
    "a limit as a parameter": (SMALL + "parameters = { n_jobs = 1 }", ["'n_jobs'", "[limits]"]),
    "missing key": (SMALL.replace("n = 50", ""), ["'n' is missing", "[[data]] number 1"]),
    "missing limits": (SMALL.replace("time_limit = 5", ""), ["'time_limit' is missing"]),
    "no data": (SMALL.replace("[[data]]\nd = 20\nn = 50", ""), ["'data' is missing"]),
    "no method": (SMALL[: SMALL.index("[[method]]")], ["there is no method"]),
    "word": (SMALL.replace("n = 50", "n = 50\nunits = 'metric'"), ["'units'", "'standardised'"]),
    "number": (SMALL.replace("n = 50", "n = 5.5"), ["'n'", "whole number", "5.5"]),
    "truth value": (SMALL.replace("n = 50", "n = true"), ["'n'", "whole number"]),
    "twice": (SMALL.replace("n = 50", "n = [50, 50]"), ["'n'", "different"]),
    "bytes": (SMALL.replace("2 GB", "2 apples"), ["'memory_limit'", "2 apples"]),
    "too dense": (SMALL.replace("n = 50", "n = 50\nk = 10"), ["k = 10", "d = 20"]),
    "half an arc": (SMALL.replace("n = 50", "n = 50\nk = 1.5\ngraph = 'SF'"), ["'k'", "whole"]),
    "same method": (SMALL + "[[method]]\nname = 'b'\nmethod = 'sort-variance'", ["same method"]),
    "same name": (SMALL + "[[method]]\nmethod = 'sort-variance'", ["of this name"]),
    "name of no method": (
        SMALL.replace("n = 50", "n = 50\nmethods = ['sort-varianse']"),
        ["'sort-varianse'", "'sort-variance'"],
    ),
    "no file": (SMALL + "[[data]]\ntable = 'nowhere.csv'", ["nowhere.csv", "[[data]] number 2"]),
    "iscm of a table": (SMALL + "[[data]]\ntable = 'a'\nunits = 'iscm'", ["'units'", "iscm"]),
    "not TOML": ("a = ", ["not a TOML file"]),
    "a time that is no number": (
        SMALL.replace("time_limit = 5", "time_limit = nan"), ["'time_limit'", "seconds > 0", "nan"],
    ),
    "no end of time": (SMALL.replace("limit = 5", "limit = inf"), ["'time_limit'", "Got inf"]),
    "a time beyond all numbers": (
        SMALL.replace("time_limit = 5", f"time_limit = 1{'0' * 400}"), ["'time_limit'", "seconds"],
    ),
    "a truth value for a time": (
        SMALL.replace("time_limit = 5", "time_limit = true"), ["'time_limit'", "seconds", "True"],
    ),
    "a text for a number": (SMALL.replace("n = 50", "n = '50'"), ["'n'", "whole number", "'50'"]),
    "a number with a point": (SMALL.replace("d = 20", "d = [20.0]"), ["'d'", "whole", "[20.0]"]),
    "a date": (SMALL.replace("n = 50", "n = 1979-05-27"), ["'n'", "whole number", "1979"]),
    "a list in a list": (SMALL.replace("n = 50", "n = [[50]]"), ["'n'", "whole", "[[50]]"]),
    "an empty list": (SMALL.replace("n = 50", "n = []"), ["'n'", "whole number", "[]"]),
    "an empty text": (SMALL.replace('"mine"', '""'), ["'experiment'", "not empty"]),
    "a truth value for bytes": (SMALL.replace('"2 GB"', "true"), ["'memory_limit'", "True"]),
    "parameters that are no table": (SMALL + "parameters = [1]", ["'parameters'", "table", "[1]"]),
    "a table for a list of tables": (
        SMALL.replace("[[data]]", "[data]"), ["'data'", "[[data]]", "top level"],
    ),
    "numbers for tables": (
        "data = [1]\n" + SMALL.replace("[[data]]\nd = 20\nn = 50", ""),
        ["'data'", "[[data]]", "Got [1]", "top level"],
    ),
    "a table in a method": (
        SMALL.replace('method = "sort-variance"', "method = {a = 1}"),
        ["'method'", "bigdag methods", "[[method]] number 1"],
    ),
    "a negative seed": ("seed = -1" + SMALL, ["'seed'", ">= 0", "-1", "top level"]),
    "a list for a table": (SMALL.replace("[limits]", "[[limits]]"), ["'limits'", "table"]),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_plan_is_named(tmp_path, fault):
    text, expected = FAULTS[fault]
    with pytest.raises(ParameterError) as caught:
        plan_of(tmp_path, text)
    for part in [*expected, "mine.toml"]:
        assert part in str(caught.value)


def test_a_table_that_is_too_short_or_broken_is_refused(tmp_path):
    text = SMALL.replace("d = 20\nn = 50", 'table = "t.csv"')
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n2,1\n")
    with pytest.raises(BigdagError, match="at least 10 rows"):
        plan_of(tmp_path, text).jobs()
    (tmp_path / "t.csv").write_text("a,b\n1,x\n3,4\n2,1\n")
    with pytest.raises(BigdagError, match=r"t\.csv"):
        plan_of(tmp_path, text).jobs()


def test_a_plan_that_is_not_there(tmp_path):
    with pytest.raises(ParameterError, match="Could not read"):
        load_plan(tmp_path / "no.toml")
    with pytest.raises(ParameterError, match=r"no experiment 'exp4'.*exp1"):
        load_plan("exp4")
    with pytest.raises(ParameterError, match=r"no preset 'papr'\. Did you mean 'paper'"):
        load_plan("exp1", "papr")


def test_a_plan_without_pydantic_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic", None)
    monkeypatch.delitem(sys.modules, "bigdag.experiments.plan.schema", raising=False)
    monkeypatch.delattr("bigdag.experiments.plan.schema", raising=False)
    with pytest.raises(MissingExtraError, match=r"Reading a plan needs .*pip install .*pydantic"):
        plan_of(tmp_path, SMALL)


def test_only_who_reads_a_plan_imports_pydantic():
    code = "import sys, bigdag.experiments.run.worker; print('pydantic' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"
