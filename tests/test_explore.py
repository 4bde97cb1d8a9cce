"""The page to explore a graph, as far as it can be tested without a browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from typer.testing import CliRunner

from bigdag import DAG, simulate
from bigdag.cli import app
from bigdag.errors import DataWarning, OutputExistsError, ParameterError
from bigdag.graph.overview import overview
from bigdag.page.document import document, packed


class Parts(HTMLParser):
    """What a browser would take for elements."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs


def data_of(page):
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1]
    return json.loads(text)


def test_the_same_graph_gives_the_same_page_and_nothing_comes_from_outside():
    dag = simulate.random_dag(30, 1, rng=0)
    page = dag.to_html()
    assert page == dag.to_html()
    parts = Parts(page)
    assert parts.tags.count("script") == 2
    links = [value for name, value in parts.attributes if name in ("src", "href", "action")]
    assert links == ["data:,", "#main"]
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page


HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "<!--<script>",
    "a\u2028b\u2029c",
    "\u202eright to left\u200f",
    "{{data}}{{script}}",
    "\\u003c/script>",
    "&lt;b&gt;",
    "x" * 5000,
    " ",
    "",
]


def test_hostile_texts_are_data_in_every_field():
    about = {text: [text, {text: text}] for text in HOSTILE}
    dag = DAG(np.triu(np.ones((len(HOSTILE),) * 2), 1), names=HOSTILE, about=about)
    calm = Parts(DAG([[0, 1.0], [0, 0]]).to_html(title="x"))
    for title in HOSTILE:
        page = dag.to_html(title=title)
        parts = Parts(page)
        assert parts.tags == calm.tags
        assert [name for name, _ in parts.attributes] == [name for name, _ in calm.attributes]
        told = data_of(page)
        assert told["names"] == HOSTILE
        assert told["about"] == json.loads(json.dumps(about))


@given(st.text(min_size=1, max_size=40))
def test_any_title_is_text(title):
    try:
        title.encode()
    except UnicodeEncodeError:
        return
    page = document("explore", [], {"title": title, "generator": ""}, {})
    assert Parts(page).tags.count("script") == 2


def test_arrays_are_packed_by_their_kind():
    assert packed(np.array([True, False]))["bytes"] == "AQA="
    assert packed(np.array([1.5]))["kind"] == "float64"
    assert packed(np.array([], dtype=np.int64)) == {"kind": "int32", "bytes": ""}


@given(st.integers(0, 60), st.floats(0, 0.3), st.integers(0, 99))
def test_an_overview_has_a_place_for_each_variable(d, share, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(d)
    dag = DAG(np.triu(rng.random((d, d)) < share, 1)[order][:, order].astype(float))
    at = overview(dag)
    assert at.shape == (d, 2)
    assert np.isfinite(at).all()
    assert (at >= 0).all()
    assert len(np.unique(at.round(3), axis=0)) == d


def test_causes_stand_left_of_their_effects():
    dag = simulate.random_dag(2000, 2, rng=0)
    at, arcs = overview(dag), dag.weights.tocoo()
    assert (at[arcs.row, 0] < at[arcs.col, 0]).all()
    wide, tall = np.ptp(at, axis=0)
    assert 0.8 < wide / tall < 3


@pytest.mark.parametrize("kind", ["chain", "star", "pairs", "nothing"])
def test_an_overview_is_no_strip(kind):
    d = 3000
    at = {
        "chain": (np.arange(d - 1), np.arange(1, d)),
        "star": (np.zeros(d - 1, dtype=int), np.arange(1, d)),
        "pairs": (np.arange(0, d, 2), np.arange(1, d, 2)),
        "nothing": ([], []),
    }[kind]
    dag = DAG(sparse.coo_array((np.ones(len(at[0])), at), shape=(d, d)))
    wide, tall = np.ptp(overview(dag), axis=0)
    assert 0.2 < wide / tall < 5


def test_a_page_is_written_whole_and_only_by_force_again(tmp_path):
    dag, path = DAG([[0, 1.0], [0, 0]]), tmp_path / "dag.html"
    assert dag.to_html(path, title="One") is None
    assert path.read_text("utf-8") == dag.to_html(title="One")
    with pytest.raises(OutputExistsError, match="exists already"):
        dag.to_html(path)
    dag.to_html(path, force=True)
    assert path.read_text("utf-8") == dag.to_html()
    with pytest.raises(ParameterError, match=r"must end in \.html or \.htm\. Got 'dag\.txt'"):
        dag.to_html("dag.txt")
    assert list(tmp_path.iterdir()) == [path]


def test_a_page_that_is_very_large_is_announced(monkeypatch):
    monkeypatch.setattr("bigdag.graph.explore._LARGE", 1000)
    with pytest.warns(DataWarning, match="The page of 1 arcs has 0 MB.*Leave weak arcs out"):
        DAG([[0, 1.0], [0, 0]]).to_html()


# ---------------------------------------------------------------- the command


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def dag_file(tmp_path):
    path = tmp_path / "mine.dag.parquet"
    dag = DAG([[0, 2.0, 0.1], [0, 0, 0], [0, 0, 0]], arc_data={"probability": [0.9, 0.6]})
    dag.save(path)
    return path


def test_explore_writes_a_page(dag_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("explore", dag_file)
    assert result.exit_code == 0, result.output
    assert "Written to mine.dag.html" in result.output
    assert len(data_of((tmp_path / "mine.dag.html").read_text("utf-8"))["names"]) == 3
    out = tmp_path / "page.htm"
    result = call("explore", dag_file, "--out", out, "--min-prob", "0.8", "--title", "T", "--json")
    report = json.loads(result.output)
    assert (report["n_arcs"], report["bytes"]) == (1, out.stat().st_size)
    assert "<title>T</title>" in out.read_text("utf-8")
    assert json.loads(
        call("explore", dag_file, "--out", out, "--force", "--threshold", "3", "--json").output
    )["n_arcs"] == 0  # fmt: skip


def test_explore_refuses_what_it_cannot_do(dag_file, tmp_path):
    out = tmp_path / "page.html"
    cyclic = tmp_path / "cyclic.csv"
    cyclic.write_text("source,target\na,b\nb,a\n")
    table = tmp_path / "table.parquet"
    table.write_bytes(b"no graph")
    out.write_text("mine")
    new = tmp_path / "new.html"
    for words, code, said in [
        ((tmp_path / "none.parquet",), 2, "does not exist"),
        ((cyclic, "--out", new), 1, "The graph has a cycle: a -> b -> a"),
        ((table, "--out", new), 1, "holds no DAG that can be read"),
        ((dag_file, "--out", out), 2, "exists already and was left alone"),
        ((dag_file, "--out", tmp_path / "no" / "page.html"), 2, "does not exist"),
        ((dag_file, "--out", tmp_path / "page.txt"), 2, "must end in .html or .htm"),
        ((dag_file, "--out", tmp_path), 2, "must end in .html"),
        ((dag_file, "--out", new, "--min-prob", "2"), 2, "--min-prob must be from 0 to 1"),
        ((dag_file, "--out", new, "--threshold", "-1"), 2, "at least 0"),
    ]:
        result = call("explore", *words)
        assert result.exit_code == code, result.output
        assert said in " ".join(re.sub(r"[│╭╮╰╯─\s]+", " ", result.output).split()), words
    assert out.read_text() == "mine"
    assert not new.exists()


def test_fit_writes_a_page_that_says_how_it_was_learnt(tmp_path):
    table = tmp_path / "rain.csv"
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60, 3)) @ [[1, 2, 0], [0, 1, 1], [0, 0, 1]]
    table.write_text("a,b,c\n" + "\n".join(",".join(map(str, row)) for row in values))
    page, out = tmp_path / "rain.html", tmp_path / "rain.parquet"
    given = ("fit", table, "--method", "order-search", "--out", out, "--page")
    bad = call(*given, tmp_path / "rain.pdf")
    assert (bad.exit_code, out.exists()) == (2, False)
    assert "must end in .html" in bad.output
    result = call(*given, page)
    assert result.exit_code == 0, result.output
    assert f"Page to explore it: {page}" in result.output.replace("\n", "")
    text = page.read_text("utf-8")
    assert "<title>rain</title>" in text
    about = data_of(text)["about"]
    assert about == DAG.load(out).about
    assert about["method"] == "order-search"
    assert about["criterion"] == "least squares, equation (1)"
    assert about["n_samples"] == 60
    assert set(about["versions"]) >= {"python", "numpy", "scipy", "numba"}
    history = about["history"]
    assert len({len(values) for values in history.values()}) == 1
    assert history["objective"][-1] == pytest.approx(about["objective"])
    assert history["objective"][0] > history["objective"][-1]
    again = call(*given, page)
    assert again.exit_code == 2
    assert json.loads(call(*given, page, "--force", "--json").output)["page"] == str(page)
