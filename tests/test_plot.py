"""Pictures: written whole, of sane sizes, with boxes and arcs where they should be."""

from __future__ import annotations

import subprocess
import sys
import warnings
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from bigdag.errors import GraphError, MissingExtraError, OutputExistsError, ParameterError
from bigdag.graph import draw as plot
from bigdag.graph import layout as layouts
from bigdag.graph.dag import DAG


def random_dag(d, n_arcs, seed, names=None):
    rng = np.random.default_rng(seed)
    W = np.zeros((d, d))
    upper = np.transpose(np.triu_indices(d, 1))
    for i, j in rng.choice(upper, size=min(n_arcs, len(upper)), replace=False):
        W[i, j] = rng.uniform(0.2, 2) * rng.choice([-1, 1])
    shuffle = rng.permutation(d)
    return DAG(W[np.ix_(shuffle, shuffle)], names)


def hub(k):
    W = np.zeros((k + 1, k + 1))
    W[0, 1:] = 1.0
    return DAG(W, ["hub", *(f"gene_{i}" for i in range(k))])


def arrange(dag, em=8.0):
    return layouts.arrange(dag, np.full(dag.n_nodes, 4 * em), em)


def texts(path):
    """The comments of an SVG file name every text that matplotlib drew as outlines."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    root = ElementTree.parse(path, parser).getroot()
    return [e.text.strip() for e in root.iter(ElementTree.Comment)]


@pytest.mark.parametrize(
    "dag",
    [
        random_dag(8, 11, 0),
        random_dag(60, 75, 1),
        random_dag(200, 200, 2),
        hub(100),
        DAG(np.diag(np.ones(49), 1)),
        random_dag(
            12, 15, 3, [f"a very long name of the variable with number {i}" for i in range(12)]
        ),
        DAG([[0, 1.0], [0, 0]]),
    ],
    ids=["8", "60", "200", "hub", "path", "long names", "one arc"],
)
def test_pictures_are_neither_strips_nor_giants(tmp_path, dag):
    plot.draw(dag, tmp_path / "dag.png")
    with Image.open(tmp_path / "dag.png") as image:
        width, height = image.size
        colours = {c for _, c in image.convert("RGB").getcolors(1 << 24)}
    assert min(width, height) >= 200
    assert max(width, height) <= 6000
    assert 0.3 <= width / height <= 4
    assert len(colours) > 20
    assert [p.name for p in tmp_path.iterdir()] == ["dag.png"]


@pytest.mark.parametrize(
    ("suffix", "magic"), [(".png", b"\x89PNG"), (".PDF", b"%PDF"), (".svg", b"<?xml")]
)
def test_the_suffix_names_the_format(tmp_path, suffix, magic):
    path = tmp_path / f"dag{suffix}"
    plot.draw(random_dag(8, 11, 0), str(path))
    assert path.read_bytes().startswith(magic)


def test_bad_calls_get_a_clear_sentence_and_write_nothing(tmp_path):
    dag = random_dag(5, 5, 0)
    with pytest.raises(ParameterError, match=r"\.png, \.svg, \.pdf"):
        plot.draw(dag, tmp_path / "dag.gif")
    with pytest.raises(ParameterError, match="max_nodes"):
        plot.draw(dag, tmp_path / "dag.png", max_nodes=1)
    with pytest.raises(GraphError, match="no node 'y'"):
        plot.draw(dag, tmp_path / "dag.png", highlight=["x1", "y"])
    assert list(tmp_path.iterdir()) == []


def test_an_existing_picture_is_overwritten_only_by_force(tmp_path):
    path = tmp_path / "dag.png"
    path.write_text("precious")
    with pytest.raises(OutputExistsError):
        plot.draw(hub(2), path)
    assert path.read_text() == "precious"
    plot.draw(hub(2), path, force=True)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_drawing_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def half(self, file, **kwargs):
        file.write(b"half of it")
        raise RuntimeError("broken")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", half)
    with pytest.raises(RuntimeError, match="broken"):
        plot.draw(hub(2), tmp_path / "dag.png")
    assert list(tmp_path.iterdir()) == []


def test_matplotlib_missing_is_one_clear_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match="pip install 'matplotlib"):
        plot.draw(hub(2), tmp_path / "dag.png")


def test_no_state_of_matplotlib_is_touched(tmp_path):
    before, had_pyplot = dict(matplotlib.rcParams), "matplotlib.pyplot" in sys.modules
    filters = list(warnings.filters)
    plot.draw(random_dag(8, 11, 0), tmp_path / "dag.png")
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot
    assert warnings.filters == filters


def test_matplotlib_is_loaded_only_to_draw():
    code = "import sys, bigdag.graph.draw; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_title_and_notes_say_what_is_left_out(tmp_path):
    W = np.zeros((6, 6))
    W[0, 1], W[1, 2], W[2, 3] = 3.0, 2.0, -1.0
    plot.draw(DAG(W), tmp_path / "all.svg")
    found = texts(tmp_path / "all.svg")
    assert {"6 nodes, 3 arcs", "2 isolated nodes not shown"} <= set(found)
    assert {"x0", "x1", "x2", "x3"} <= set(found)
    assert not {"x4", "x5"} & set(found)
    plot.draw(DAG(W), tmp_path / "cut.svg", max_nodes=3, title="Cut $to$ three")
    found = texts(tmp_path / "cut.svg")
    assert {"Cut $to$ three", "Shown: the 2 strongest of 3 arcs, on 3 of the nodes"} <= set(found)
    assert "x3" not in found


@given(st.integers(2, 30), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_the_cut_keeps_the_longest_list_of_strongest_arcs_that_fits(max_nodes, seed):
    dag = random_dag(40, 60, seed)
    part, _ = plot._select(dag, max_nodes)
    expected = []
    for row in dag.edges().itertuples(index=False, name=None):
        if len({v for arc in [*expected, row] for v in arc[:2]}) > max_nodes:
            break
        expected.append(row)
    assert list(part.edges().itertuples(index=False, name=None)) == expected


def test_without_arcs_the_nodes_are_drawn(tmp_path):
    plot.draw(DAG(np.zeros((5, 5))), tmp_path / "dag.svg", max_nodes=3)
    found = texts(tmp_path / "dag.svg")
    assert {"5 nodes, 0 arcs", "x0", "x1", "x2", "2 nodes not shown"} <= set(found)
    plot.draw(DAG(np.zeros((0, 0))), tmp_path / "none.png")


def test_awkward_names_are_drawn(tmp_path):
    names = ["", "$x^$", "two\nlines", "雨", "\x00", "<&>", "_" * 99, " "]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot.draw(random_dag(8, 12, 0, names), tmp_path / "dag.svg")
    assert {"$x^$", "two lines"} <= set(texts(tmp_path / "dag.svg"))


def test_long_names_keep_both_ends():
    label = plot._label("expression of the gene number 17", 20)
    assert len(label) == 20
    assert label.startswith("expression")
    assert label.endswith("17")
    assert "…" in label


@given(st.integers(2, 40), st.floats(0.3, 3), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_boxes_do_not_overlap_and_arcs_join_their_nodes(d, density, seed):
    dag = random_dag(d, int(d * density), seed)
    layout = arrange(dag)
    apart = np.abs(layout.at[:, None] - layout.at[None]) - (
        layout.half[:, None] + layout.half[None]
    )
    overlap = (apart < -1e-6).all(axis=2)
    assert not overlap[~np.eye(d, dtype=bool)].any()
    arcs = dag._arcs()
    for route, i, j in zip(layout.routes, arcs.source, arcs.target):
        np.testing.assert_allclose(route[[0, -1]], layout.at[[i, j]])


def test_causes_stand_above_their_effects():
    dag = random_dag(30, 40, 5)
    y = arrange(dag).at[:, 1]
    source, target = dag.weights.nonzero()
    assert (y[source] < y[target]).all()


@pytest.mark.parametrize("dag", [hub(100), hub(300)])
def test_the_boxes_of_a_hub_do_not_overlap(dag):
    layout = arrange(dag, em=5.5)
    apart = np.abs(layout.at[:, None] - layout.at[None]) - (
        layout.half[:, None] + layout.half[None]
    )
    assert ((apart < -1e-6).all(axis=2).sum()) == dag.n_nodes  # each only with itself


def test_a_planar_tree_is_drawn_without_crossings():
    d = 31
    W = np.zeros((d, d))
    for v in range(1, d):
        W[(v - 1) // 2, v] = 1.0
    shuffle = np.random.default_rng(0).permutation(d)
    dag = DAG(W[np.ix_(shuffle, shuffle)])
    at, arcs = arrange(dag).at, dag._arcs()
    for a in range(dag.n_arcs):
        for b in range(a):
            s, t = at[arcs.source[[a, b]]], at[arcs.target[[a, b]]]
            same_layers = s[0, 1] == s[1, 1]
            assert not same_layers or (s[0, 0] - s[1, 0]) * (t[0, 0] - t[1, 0]) >= 0


def test_arcs_end_at_the_border_of_boxes():
    half = np.array([[10.0, 5.0], [10.0, 5.0]])
    for target in ([0.0, 50.0], [80.0, 0.0], [70.0, 60.0]):
        route = np.array([[0.0, 0.0], target])
        path, head = plot._curve(route, half, 4.0)
        for point, centre in ((path.vertices[0], route[0]), (head[0], route[1])):
            assert np.max(np.abs(point - centre) / half[0]) == pytest.approx(1.0)
        assert np.hypot(*(path.vertices[-1] - head[0])) == pytest.approx(4.0)


def test_signs_differ_by_dashes_and_reversible_arcs_have_no_head():
    import matplotlib.figure

    W = np.array([[0, 1.0, 2.0], [0, 0, -3.0], [0, 0, 0]])
    dag = DAG(W, reversible=[[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    figure = matplotlib.figure.Figure()
    plot._paint(figure, dag, set(), "title", [])
    lines, heads = figure.axes[0].collections
    assert len(lines.get_paths()) == 3
    assert len(heads.get_paths()) == 2
    assert list(np.diff(lines.get_linewidths()) > 0) == [True, True]  # the strongest last
    dashed = [pattern is not None for _, pattern in lines.get_linestyles()]
    assert dashed == [False, False, True]
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == [
        "positive weight, size 1 to 2",
        "negative weight, size 3",
        "no head: direction open",
    ]
