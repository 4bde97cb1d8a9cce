"""The report: its numbers are those of the store, its folder is whole, odd stores have a page."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from html.parser import HTMLParser
from io import BytesIO
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bigdag.errors import BigdagError, MissingExtraError, OutputExistsError, ParameterError
from bigdag.experiments.report import figures, words
from bigdag.experiments.report import write as report
from bigdag.experiments.report.conclusions import conclusions
from bigdag.experiments.report.results import Results
from bigdag.experiments.report.tables import _list
from bigdag.experiments.report.write import write_report
from report_stores import METHODS, everything, fill, job, record

VOID = {"source", "meta", "link", "img", "input", "br"}


class Page(HTMLParser):
    """What a page holds; it must be well-formed."""

    def __init__(self, path):
        super().__init__()
        self.open, self.ids, self.alts, self.headings, self.words = [], [], [], [], []
        self.captions, self.sections, self.links, self.policy = [], {}, [], ""
        self.feed(path.read_text("utf-8"))
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        about = dict(attributes)
        if "id" in about:
            self.ids.append(about["id"])
        if about.get("http-equiv") == "Content-Security-Policy":
            self.policy = about["content"]
        if tag == "section":
            self.sections[about["id"]] = ""
        if tag == "img":
            kind, picture = about["src"].split(",", 1)
            assert kind == "data:image/svg+xml"
            ElementTree.fromstring(unquote(picture))
            self.alts.append(about["alt"])
        if tag == "source":  # the same, narrow, in a list whose entries end at a space
            assert " " not in about["srcset"]
            narrow = ElementTree.fromstring(unquote(about["srcset"].split(",", 1)[1]))
            assert float(narrow.attrib["width"].removesuffix("pt")) < 300
        if tag == "a":
            self.links.append(about["href"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.sections and "section" in self.open:
            self.sections[list(self.sections)[-1]] += data
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings.append(data)
        if "caption" in self.open:
            self.captions.append(data)
        if "script" not in self.open and "style" not in self.open:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


@pytest.fixture(scope="module")
def big(big_report):
    return big_report


def sql(folder, query):
    with sqlite3.connect(folder / "runs.db") as connection:
        return pd.read_sql_query(query, connection)


# ------------------------------------------------------------------ the numbers


def test_figure_1_has_the_means_and_deviations_of_the_store(big):
    drawn = pd.read_csv(big / "report" / "data" / "figure1_average_precision.csv")
    values = sql(
        big,
        "SELECT * FROM runs JOIN scores USING (run) WHERE metric = 'average_precision' "
        "AND snapshot IS NULL AND directed AND experiment = 'exp1'",
    )
    assert set(drawn["experiment"]) == {"exp1"}
    answered = drawn.dropna(subset=["mean"])
    for row in answered.sample(40, random_state=0).itertuples():
        noise, variance = row.noise.lower().split("-")
        mine = values[
            (values["method"] == row.method) & (values["d"] == row.d) & (values["n"] == row.n)
            & (values["noise"] == noise) & (values["variance"].str.lower() == variance)
            & (values["graph"] + values["k"].map("{:g}".format) == row.family)
            & (values["units"] == row.units)
        ]  # fmt: skip
        # As in the paper: raw weights of the learners that have them, else the DAG.
        kind = "raw" if row.method in ("NOTEARS", "GOLEM-EV", "GOLEM-NV") else "dag"
        scored = mine.loc[mine["weights"] == kind, "value"].to_numpy()
        assert row.runs == len(scored) <= row.total == 2
        assert row.mean == pytest.approx(scored.mean())
        if len(scored) > 1:
            assert row.sd == pytest.approx(np.std(scored, ddof=1))
        else:
            assert np.isnan(row.sd)
    lost = drawn[drawn["mean"].isna()]
    assert set(lost["method"]) == {"NOTEARS"}
    assert set(lost["cause"]) == {"out_of_memory"}


def test_figure_2_follows_the_snapshots(big):
    drawn = pd.read_csv(big / "report" / "data" / "figure2_over_time.csv")
    values = sql(
        big,
        "SELECT * FROM runs JOIN scores USING (run) WHERE metric = 'average_precision' AND "
        "directed AND experiment = 'exp2' AND method = 'ProxiMAS' AND n = 200 ORDER BY snapshot",
    )
    mine = drawn[(drawn["method"] == "ProxiMAS") & (drawn["n"] == 200)]
    snapshots = values.dropna(subset=["snapshot"])
    for seconds, value in zip(snapshots["snapshot"][:-1], snapshots["value"][:-1]):
        at = mine.loc[np.isclose(mine["seconds"], seconds), "mean"]
        assert at.to_numpy() == pytest.approx(value)
    assert mine["mean"].iloc[-1] == pytest.approx(
        values.loc[values["snapshot"].isna(), "value"].item()
    )


def test_figure_3_and_table_3_have_every_size(big):
    drawn = pd.read_csv(big / "report" / "data" / "figure3_over_d.csv")
    assert set(drawn["experiment"]) == {"exp3"}
    assert drawn.groupby(["method", "n"])["d"].nunique().min() == 4
    table = pd.read_csv(big / "report" / "data" / "table3_memory_and_time.csv")
    runs = sql(big, "SELECT * FROM runs WHERE experiment = 'exp3' AND method = 'OptiMAS'")
    mine = table[table["method"] == "OptiMAS"].merge(runs, on=["d", "n"])
    assert np.allclose(mine["peak_gb"], mine["peak_bytes"] / 2**30)
    phases = mine["phase_seconds"].map(json.loads)
    assert np.allclose(mine["step, mas"], [p["mas"] for p in phases])
    assert np.allclose(mine["step"], mine["step, mas"])  # with acyclicity, as in the paper


def test_the_objective_is_compared_at_one_lambda1_only(big):
    drawn = pd.read_csv(big / "report" / "data" / "objective_over_time.csv")
    ends = drawn.groupby(["n", "lambda1", "method"])["mean"].last().reset_index()
    assert set(ends["lambda1"]) == {0.002, 0.02, 0.1, 0.2}
    assert ends.groupby(["n", "lambda1"])["mean"].min().to_numpy() == pytest.approx(1.0)


def test_the_objective_ends_with_that_of_the_dag():
    """The last iterate of some learners has cycles, and less of an objective than the DAG."""
    runs = pd.DataFrame(
        [
            {"run": name, "experiment": "exp2", "graph": "ER", "k": 1, "noise": "gaussian",
             "variance": "EV", "units": "raw", "d": 9, "n": 9, "method": name, "word": "gd",
             "status": "converged", "seconds": 2.0, "repetition": 0, "objective": objective,
             "curve": json.dumps([[0.1, 8.0], [1.0, 2.0]])}
            for name, objective in (("A", 4.0), ("B", 5.0))
        ]
    )  # fmt: skip
    results = Results.of(runs, pd.DataFrame())
    frame = results.objective(results.runs)
    assert frame.loc[frame["end"], ["seconds", "mean"]].to_numpy().tolist() == [[2, 1], [2, 1.25]]
    # The line of the iterates goes no further, so that none leads from a cyclic graph to the DAG.
    lines = frame[~frame["end"]]
    assert lines["seconds"].tolist() == [0.1, 1.0] * 2
    assert lines.groupby("method")["mean"].min().tolist() == [0.5, 0.5]


def test_units_are_never_averaged_together(big):
    """Wherever a mean of average precisions stands, it is of one kind of units."""
    data = big / "report" / "data"
    runs = pd.read_csv(data / "runs.csv")
    by = ["experiment", "units", "method"]
    wanted = runs.groupby(by)["ap"].mean()
    found = pd.read_csv(data / "methods.csv").set_index(by)["average precision"]
    assert found.dropna().to_dict() == pytest.approx(wanted.dropna().to_dict(), abs=1e-6)
    page = Page(big / "report" / "index.html")
    table = page_table(big, "methods")
    assert len(table) == table["method"].nunique() == len(METHODS)  # one row a method
    shown = table.set_index("method")
    for units in ("raw", "standardised"):
        column = shown[f"exp1 smoke, {units} data"]
        for method, value in column[column != ""].items():
            assert float(value) == pytest.approx(wanted["exp1", units, method], abs=6e-4)
    assert "On raw data" in page.sections["overview"]
    assert "On standardised data" in page.sections["overview"]


def page_table(big, name):
    """Return a table of the page as texts."""
    text = (big / "report" / "index.html").read_text("utf-8")
    found = re.search(rf'id="{name}".*?(<table>.*?</table>)', text, re.DOTALL)[1]
    root = ElementTree.fromstring(found)
    rows = [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]
    return pd.DataFrame(rows[1:], columns=rows[0])


def test_the_metrics_have_one_row_a_method_and_setting(big):
    table = page_table(big, "metrics")
    setting = ["experiment", "noise", "graph", "d", "n", "units", "method"]
    assert not table.duplicated(setting).any()
    assert {"average precision", "F1", "SHD"} <= set(table)


def test_conclusions_follow_from_the_numbers():
    def runs(method, word, raw, standardised):
        common = {"experiment": "exp1", "preset": "", "graph": "ER", "k": 1, "noise": "gaussian",
                  "variance": "EV", "d": 9, "n": 9, "method": method, "word": word,
                  "status": "converged", "repetition": 0, "seconds": 1.0}  # fmt: skip
        return [
            (common | {"units": units, "run": f"{method} {units}"}, value)
            for units, value in (("raw", raw), ("standardised", standardised))
        ]

    pairs = [
        *runs("best", "order-search-bic", 0.95, 0.9), *runs("sorted", "sort-variance", 0.9, 0.1),
        *runs("poor", "gd", 0.5, 0.2), *runs("even", "optimas", 0.9, 0.3),
    ]  # fmt: skip
    scores = [
        {"run": run["run"], "snapshot": None, "weights": "dag", "directed": True,
         "threshold": None, "metric": "average_precision", "value": value}
        for run, value in pairs
    ]  # fmt: skip
    said = conclusions(Results.of(pd.DataFrame([run for run, _ in pairs]), pd.DataFrame(scores)))
    begins = "On raw data (exp1, 1 setting) the highest average precision has best (0.95)"
    assert said[0].startswith(begins)
    assert "comes to 0.90: 2 of the 3 methods that do not sort are no better." in said[0]
    assert "On standardised data" in said[1]
    assert "sorted falls most, from 0.90 to 0.10, and best keeps most, 0.90 of 0.95" in said[2]
    assert "3 of 4 methods lose more than half" in said[2]
    assert said[-1] == "No run failed, of 8."


def test_figures_have_numbers_and_letters(big):
    text = (big / "report" / "index.html").read_text("utf-8")
    labels = re.findall(r"<figcaption><b>(.+?)\.</b>", text)
    assert labels
    for label in labels:
        assert re.fullmatch(r"Figure S?\d[a-z]?( \(part \d+ of \d+\))?", label), label
    assert len(labels) == len(set(labels))
    order = [label.split()[1].rstrip("abcdefgh") for label in labels]
    for kind in ("", "S"):
        mine = [int(n.lstrip("S")) for n in order if n.startswith("S") == bool(kind)]
        assert mine == sorted(mine)


def test_an_axis_shows_differences_near_one():
    frame = pd.DataFrame(
        [{"panel": "p", "method": m, "x": x, "mean": v, "sd": np.nan}
         for m, v in (("A", 0.98), ("B", 0.99), ("C", 0.3), ("D", 0.31)) for x in (1, 2)]
    )  # fmt: skip
    look = figures.styles(["A", "B", "C", "D"])
    plain, near = (
        figures.curves("a", frame, look, xlabel="", ylabel="", near_one=near, ylim=(0, 1))[0]
        for near in (False, True)
    )
    assert plain.png != near.png
    forward = figures.near_one_place
    assert forward(0.99) - forward(0.98) > 10 * (forward(0.31) - forward(0.3))
    assert np.isfinite(forward(1.0))


def test_noises_of_the_same_sizes_share_a_sheet():
    def block(noise, families, d, mean=0.5):
        return [{"noise": noise, "family": f, "d": d, "n": 100, "mean": mean} for f in families]

    frame = pd.DataFrame(
        block("a", ["ER1"], 10) + block("b", ["ER1", "ER2"], 10) + block("c", ["ER1"], 20)
        + block("d", ["ER1"], 20, None) + block("e", [f"ER{i}" for i in range(6)], 20)
    )  # fmt: skip
    sheets = [list(dict.fromkeys(sheet["noise"])) for sheet in words.sheets(frame)]
    assert sheets == [["a", "b"], ["c"], ["e"]]


def test_curves_of_repetitions_are_averaged_as_steps():
    pairs = []
    for seed in range(2):
        one = job(experiment="exp2", seed=seed)
        result = record(one)
        result["seconds"] = 4.0
        result["scores"] = [
            {"snapshot": t, "weights": "dag", "directed": True, "threshold": None,
             "metric": "average_precision", "value": v}
            for t, v in ([(1, 0.2), (3, 0.6)] if seed else [(2, 0.4), (None, 0.8)])
        ]  # fmt: skip
        pairs.append((one, result))
    runs = pd.DataFrame(
        [
            {**p[0]["dataset"], "run": p[0]["run"], "experiment": "exp2", "method": "A",
             "word": "gd", "status": "converged", "seconds": 4.0, "repetition": i}
            for i, p in enumerate(pairs)
        ]
    )  # fmt: skip
    scores = pd.DataFrame([s | {"run": p[0]["run"]} for p in pairs for s in p[1]["scores"]])
    results = Results.of(runs, scores)
    frame = results.over_time(results.runs)
    # At 2 the first stands at 0.2 still; before that, one of the two has no value yet.
    assert frame["seconds"].tolist() == [2, 3, 4]
    assert frame["mean"].to_numpy() == pytest.approx([0.3, 0.5, 0.7])


def test_failed_runs_are_listed_with_their_causes(big):
    failed = pd.read_csv(big / "report" / "data" / "failures.csv")
    stored = sql(big, "SELECT run FROM runs WHERE status IN ('error', 'timeout', 'out_of_memory')")
    assert set(failed["run"]) == set(stored["run"])
    counts = pd.read_csv(big / "report" / "data" / "statuses.csv")
    assert counts["runs"].sum() == len(everything())


# ------------------------------------------------------------------ pictures and page


def test_each_picture_is_there_twice_and_in_the_page(big):
    page = Page(big / "report" / "index.html")
    pngs = sorted((big / "report" / "figures").glob("*.png"))
    assert len(pngs) == len(page.alts) >= 12
    for path in pngs:
        with Image.open(path) as image:
            assert min(image.size) > 200
            assert max(image.size) < 2000
            assert len(image.convert("RGB").getcolors(1 << 24)) > 20
        root = ElementTree.parse(path.with_suffix(".svg")).getroot()
        assert root.tag.endswith("svg")
        assert f"figure-{path.stem}" in page.ids
    assert all(len(alt) > 40 for alt in page.alts)
    for link in page.links:
        assert link.startswith("#") or (big / "report" / link).is_file(), link


def test_the_page_is_whole_moderate_and_loads_nothing(big):
    path = big / "report" / "index.html"
    assert path.stat().st_size < 5e6
    page = Page(path)
    assert len(page.ids) == len(set(page.ids))
    assert page.headings[0] == "bigdag experiments"
    assert all(link.startswith(("#", "figures/", "data/")) for link in page.links)
    text = path.read_text("utf-8")
    for part in ("default-src 'none'", "script-src 'sha256-", "style-src 'sha256-"):
        assert part in page.policy
    assert "unsafe" not in page.policy
    names = {"http://www.w3.org/1999/xlink", "http://www.w3.org/2000/svg"}  # of XML, not loaded
    assert set(re.findall(r"https?://[^\s'\"]*", text)) <= names


def test_the_page_says_how_to_repeat_it(big):
    said = Page(big / "report" / "index.html").sections["repeat"]
    for line in (
        "bigdag experiment run exp1 --preset smoke --store",
        "bigdag experiment report",
        "numpy 2.4.6",
        "a processor",
        '"LBFGS"',
        "0, 1",  # seeds of the data sets
        "0.1, 0.3, 0.5",
        "memory limit, GB",
    ):
        assert line in said, line
    jobs = (big / "report" / "data" / "jobs.jsonl").read_text().splitlines()
    assert {json.loads(line)["run"] for line in jobs} == {one["run"] for one, _ in everything()}


def test_both_kinds_of_weights_are_in_the_tables(big):
    page = Page(big / "report" / "index.html")
    assert "raw weights" in page.sections["precision"]
    assert "Which weights are scored" in page.sections["overview"]
    metrics = pd.read_csv(big / "report" / "data" / "metrics.csv")
    assert set(metrics["weights"]) == {"dag", "raw"}
    assert set(metrics["threshold"].dropna()) == {0.1, 0.3, 0.5}
    assert {"shd", "fnr", "fpr", "f1", "nll_ev", "average_precision"} <= set(metrics)


def test_methods_differ_without_colour_and_keep_their_style(big):
    names = [name for name, *_ in METHODS]
    look = figures.styles(names)
    assert len({style.marker for style in look.values()}) == 16
    assert len({(style.colour, style.dashes) for style in look.values()}) == 16
    results = Results.of(*_frames(big / "runs.db"))
    assert sorted(results.methods) == sorted(names)
    assert results.methods.index("ProxiMAS") == 0  # the order of the command's methods


def _frames(path):
    from bigdag.experiments.store import Store

    with Store(path, read_only=True) as store:
        return store.runs(), store.scores()


# ------------------------------------------------------------------ odd stores


def written(tmp_path, pairs):
    return Page(write_report(fill(tmp_path / "runs.db", pairs), tmp_path / "report"))


def test_an_empty_store(tmp_path):
    page = written(tmp_path, [])
    assert "holds no finished run yet" in page.text
    assert not page.alts
    assert "bigdag experiment report" in page.sections["repeat"]


def test_only_failures(tmp_path):
    one = job()
    page = written(
        tmp_path, [(one, record(one, status="crashed", message="It died of signal 11."))]
    )
    assert "It died of signal 11." in page.sections["failures"]
    assert "runs that did not fail" in page.sections["precision"]
    assert len(page.alts) == 1  # how the runs ended


def test_one_method_on_one_data_set(tmp_path):
    one = job()
    page = written(tmp_path, [(one, record(one))])
    assert "No run failed." in page.sections["failures"]
    assert len(page.alts) >= 3
    assert "in several sizes" in page.sections["size"]


@pytest.mark.parametrize("truth", [True, False])
def test_a_table_of_the_user(tmp_path, truth):
    pairs = []
    for method in METHODS[:3]:
        one = job(
            method, experiment="mine", preset="", name="genes & <proteins>", graph=None, k=None,
            noise=None, variance=None, d=40, n=90, table="genes.csv",
        )  # fmt: skip
        pairs.append((one, record(one, method[3], truth=truth)))
    page = written(tmp_path, pairs)
    assert "genes & <proteins>" in page.text
    assert "genes.csv" in page.sections["repeat"]
    assert "PLAN.toml" in page.sections["repeat"]
    if not truth:
        assert "known truth" in page.sections["precision"]
        assert "known truth" in page.sections["sortability"]
        assert "NLL" in page.sections["numbers"]
    else:
        assert "Figure 1" in page.sections["precision"]


def test_text_of_a_run_is_never_markup(tmp_path):
    evil = ("<script>alert(1)</script> & $x_1$", "gd", {"note": "</script><img src=x>"}, 0.5)
    one = job(evil, experiment="<b>", preset="../../etc")
    other = job(evil, experiment="<i>", preset="../../etc", seed=1)
    failed = record(one, status="error", message="</td></table><img src=x onerror=alert(1)>")
    page = written(tmp_path, [(one, failed), (other, record(other))])
    assert "<script>alert(1)</script>" in page.text
    assert "onerror=alert(1)" in page.text
    assert {p.parent for p in tmp_path.rglob("*.png")} == {tmp_path / "report" / "figures"}


def test_names_in_other_scripts_keep_their_own_files(tmp_path):
    pairs = []
    for experiment in ("实验一", "实验二"):
        one = job(experiment=experiment, preset="")
        pairs.append((one, {"status": "converged", "scores": []}))  # few pictures, which is quick
    page = written(tmp_path, pairs)
    assert len(page.ids) == len(set(page.ids))
    assert len(list((tmp_path / "report" / "figures").glob("statuses*.png"))) == 2


def test_the_same_store_gives_the_same_files(tmp_path):
    one = job()
    store = fill(tmp_path / "runs.db", [(one, record(one))])
    files = []
    for _ in range(2):
        folder = write_report(store, tmp_path / "report").parent
        files.append({p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()})
    assert len(files[0]) > 8
    assert files[0] == files[1]


def test_missing_values_in_every_column_are_no_fault(tmp_path):
    one = job(d=None, n=None)
    page = written(tmp_path, [(one, {"status": "converged", "scores": []})])
    assert "converged" in page.text


# ------------------------------------------------------------------ the folder


@pytest.fixture
def store(tmp_path):
    # A run of which little is known makes a report with few pictures, which is quick.
    return fill(tmp_path / "runs.db", [(job(), {"status": "converged", "scores": []})])


def listing(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_a_folder_with_other_things_is_left_alone(tmp_path, store):
    out = tmp_path / "home"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputExistsError, match="left alone"):
        write_report(store, out)
    assert listing(out) == ["thesis.txt"]
    write_report(store, out, force=True)
    assert (out / "thesis.txt").read_text() == "years of work"
    assert (out / "index.html").is_file()


def test_an_earlier_report_is_replaced_and_nothing_else(tmp_path, store):
    out = tmp_path / "report"
    write_report(store, out)
    before = listing(out)
    (out / "README.md").write_text("my words")
    two = job(seed=1)
    fill(store, [(two, record(two, status="error", message="no"))])
    write_report(store, out)
    after = listing(out)
    assert set(after) == {*before, "README.md", "data/failures.csv"}
    store.unlink()
    fill(store, [])
    write_report(store, out)
    assert listing(out) == ["README.md", "index.html", "report.json"]


def test_an_empty_folder_is_used(tmp_path, store):
    (tmp_path / "report").mkdir()
    assert write_report(store, tmp_path / "report").is_file()


@pytest.mark.parametrize("names", [["../runs.db"], ["/etc/passwd", 3], "text", None])
def test_a_list_of_files_that_was_tampered_with_harms_nothing(tmp_path, store, names):
    out = tmp_path / "report"
    write_report(store, out)
    (out / "report.json").write_text(json.dumps({"bigdag_report": 1, "files": names}))
    write_report(store, out, force=True)
    assert store.is_file()


def test_a_fault_on_the_way_changes_nothing(tmp_path, store, monkeypatch):
    out = tmp_path / "report"
    write_report(store, out)
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}

    def broken(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(report, "page", broken)
    with pytest.raises(RuntimeError):
        write_report(store, out)
    with pytest.raises(RuntimeError):
        write_report(store, tmp_path / "new")
    assert before == {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    names = {p.name for p in tmp_path.iterdir() if not p.name.startswith("runs.db")}
    assert names == {"report"}


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path, store):
    with pytest.raises(ParameterError, match="is a file"):
        write_report(store, store)
    with pytest.raises(BigdagError, match="Could not write the report"):
        write_report(store, store / "below")
    with pytest.raises(ParameterError, match="no store"):
        write_report(tmp_path / "none.db", tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_without_matplotlib_it_says_what_to_install(tmp_path, store, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="pip install 'matplotlib"):
        write_report(store, tmp_path / "report")
    assert not (tmp_path / "report").exists()


# ------------------------------------------------------------------ pictures at their limits


@pytest.mark.parametrize("n", [1, 24])
def test_pictures_of_many_methods_keep_to_a_page(n):
    names = [f"method number {i}" for i in range(n)]
    look = figures.styles(names)
    frame = pd.DataFrame(
        [
            {"row": f"d = {d}", "column": f"ER{k}", "category": m, "mean": 0.5, "sd": 0.1,
             "runs": 1, "total": 2, "cause": ""}
            for d in (10, 20) for k in range(7) for m in names
        ]
    )  # fmt: skip
    drawn = figures.dots("dots", frame, look)
    assert len({p.name for p in drawn}) == len(drawn) >= 2  # seven columns do not fit on one
    curves = pd.DataFrame(
        [
            {"panel": "one", "method": m, "x": x, "mean": 0.1 * x, "sd": np.nan}
            for m in names for x in (1, 2, 3)
        ]
    )  # fmt: skip
    drawn += figures.curves("curves", curves, look, xlabel="x", ylabel="y")
    for picture in drawn:
        with Image.open(BytesIO(picture.png)) as image:
            width, height = image.size
        assert width == round(figures.WIDTH * 160)
        assert height <= 11 * 160


def test_numbers_are_listed_in_short():
    assert _list(range(10)) == "0–9"
    assert _list([1000, 5000]) == "1000, 5000"
    assert _list([float("nan"), None, 2]) == "2"
