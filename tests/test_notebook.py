"""What notebooks show of graphs, of learners and of a fit under way."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from queue import Empty
from xml.etree import ElementTree

import numpy as np
import pytest
import sklearn

from bigdag import DAG, BootstrapDAG, OrderSearch, simulate
from bigdag.notebook import NotebookBar, in_notebook


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found, self.open, self.attributes = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        self.open.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.found.append(tag)


def test_a_dag_shows_counts_strongest_arcs_and_a_picture():
    dag = simulate.random_dag(200, 2, rng=0)
    shown = dag._repr_html_()
    assert "200 variables, 400 arcs" in shown
    assert shown.count("<tr>") == 11
    for name in dag.edges(top=10)["source"]:
        assert f"<td>{name}</td>" in shown
    svg = ElementTree.fromstring(re.search(r"<svg.*</svg>", shown, re.S)[0])
    lines = svg.findall("{http://www.w3.org/2000/svg}path")
    names = {text.text for text in svg.findall("{http://www.w3.org/2000/svg}text")}
    assert 3 <= len(lines) <= 40
    assert 4 <= len(names) <= 24
    top = dag.edges(top=len(lines))
    assert names == set(top["source"]) | set(top["target"])
    assert f"The {len(lines)} strongest arcs of 400" in shown
    tags = Tags(shown)
    assert tags.open == []
    assert "script" not in tags.found


def test_undirected_arcs_have_no_head_and_columns_are_shown():
    dag = DAG(
        [[0, 1.0, -2.0], [0, 0, 0], [0, 0, 0]],
        reversible=[[0, 1, 0], [0, 0, 0], [0, 0, 0]],
        arc_data={"probability": [0.5, np.nan], "required": [True, False]},
    )
    shown = dag._repr_html_()
    assert "3 variables, 2 arcs, 1 undirected" in shown
    assert (shown.count("<path"), shown.count("<polygon")) == (2, 1)
    assert shown.count("stroke-dasharray") == 1
    assert "<td>x0</td><td>–</td><td>x1</td><td>1</td><td>0.5</td><td>yes</td>" in shown
    assert "<td>x0</td><td>→</td><td>x2</td><td>-2</td><td></td><td></td>" in shown


@pytest.mark.parametrize("d", [0, 1, 5])
def test_a_dag_without_arcs_has_no_picture(d):
    shown = DAG(np.zeros((d, d)))._repr_html_()
    assert f"{d} variable" in shown
    assert "svg" not in shown


def test_hostile_names_are_text():
    names = [
        "</div><script>alert(1)</script>",
        '"><img src=x onerror=alert(2)>',
        "\u202eabc",
        "x" * 999,
    ]
    shown = DAG(np.triu(np.ones((4, 4)), 1), names=names)._repr_html_()
    tags = Tags(shown)
    assert not {"script", "img"} & set(tags.found)
    assert not any(name.startswith("on") for name in tags.attributes)
    assert "\u202e" not in shown
    assert "x" * 100 not in shown


def test_a_learner_shows_its_dag_once_it_is_fitted():
    X = simulate.sample(simulate.random_dag(8, 1, rng=0), 200, rng=1)
    learner = OrderSearch()
    assert "DAG" not in learner._repr_html_()
    assert "<svg" not in learner._repr_mimebundle_()["text/html"].split("OrderSearch")[-1]
    learner.fit(X)
    for shown in (learner._repr_html_(), learner._repr_mimebundle_()["text/html"]):
        assert "Fit: converged" in shown
        assert shown.count('<div class="bigdag">') == 1
        assert "sk-" in shown  # scikit-learn's own diagram
    with sklearn.config_context(display="text"):
        assert set(learner._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(learner, "_repr_html_")
    sure = BootstrapDAG(n_resamples=3, random_state=0).fit(X)
    assert "<td>1</td>" in sure._repr_html_()


def test_outside_of_a_notebook_nothing_is_shown(capsys, monkeypatch):
    assert not in_notebook()
    X = simulate.sample(simulate.random_dag(5, 1, rng=0), 100, rng=1)
    OrderSearch(verbose=True).fit(X)
    assert capsys.readouterr() == ("", "")
    # A terminal's IPython is no notebook.
    fake = type("IPython", (), {"get_ipython": staticmethod(lambda: object())})
    monkeypatch.setitem(sys.modules, "IPython", fake)
    assert not in_notebook()
    NotebookBar().close("converged")  # nothing was shown, nothing is to be ended


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A notebook's kernel, in a process of its own; called with code, it returns its messages."""
    pytest.importorskip("ipykernel")
    from jupyter_client.manager import start_new_kernel

    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        manager, client = start_new_kernel(kernel_name="python3")

    def run(code):
        client.execute(code)
        messages = []
        while True:
            try:
                message = client.get_iopub_msg(timeout=120)
            except Empty:
                raise AssertionError(f"no answer: {messages}") from None
            messages.append((message["msg_type"], message["content"]))
            if message["msg_type"] == "error":
                raise AssertionError("\n".join(message["content"]["traceback"]))
            if messages[-1] == ("status", {"execution_state": "idle"}):
                return messages

    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_notebook_shows_graphs_and_the_progress_of_a_fit(kernel):
    made = (
        "from bigdag import *\nX = simulate.sample(simulate.random_dag(30, 1, rng=0), 200, rng=1)"
    )
    kernel(made)
    fitted = kernel("model = OrderSearch(max_iter=50, verbose=True).fit(X)\nmodel")
    shown = [content for kind, content in fitted if kind == "display_data"]
    assert len(shown) == 1
    assert "<progress" in shown[0]["data"]["text/html"]
    (again,) = {
        content["transient"]["display_id"]
        for kind, content in fitted
        if kind == "update_display_data"
    }
    assert again == shown[0]["transient"]["display_id"]
    last = [content for kind, content in fitted if kind == "update_display_data"][-1]
    assert "converged: " in last["data"]["text/html"]
    result = next(content for kind, content in fitted if kind == "execute_result")
    assert "Fit: converged" in result["data"]["text/html"]
    assert '<div class="bigdag">' in result["data"]["text/html"]
    dag = next(c for kind, c in kernel("model.dag_") if kind == "execute_result")
    assert "30 variables" in dag["data"]["text/html"]
    assert dag["data"]["text/plain"].startswith("DAG(30 nodes")
    sure = kernel("BootstrapDAG(n_resamples=4, random_state=0, verbose=True).fit(X);")
    texts = [c["data"]["text/html"] for kind, c in sure if "display_data" in kind]
    assert "of 4 resamples" in texts[0]
    assert "converged: 4 of 4 resamples" in texts[-1]
    quiet = kernel("OrderSearch().fit(X);")
    assert not any("display_data" in kind for kind, _ in quiet)
