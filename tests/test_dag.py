"""The DAG: its checks, its questions, and that no file loses anything."""

from __future__ import annotations

import builtins
import itertools
import json
import subprocess
import sys

import igraph
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from bigdag.errors import (
    BigdagError,
    DataError,
    DataWarning,
    GraphError,
    MissingExtraError,
    OutputExistsError,
    ParameterError,
)
from bigdag.graph.arcs import digest_of
from bigdag.graph.dag import DAG
from bigdag.graph.files import check_output
from bigdag.writing import whole_file

QUICK = settings(max_examples=50, deadline=None)
SUFFIXES = (".npz", ".parquet", ".csv", ".graphml", ".json")
WRITTEN = (*SUFFIXES, ".dot")
AWKWARD = [
    "",
    " ",
    "a,b",
    'say "hi"',
    "two\nlines",
    "cr\rlf\r\n",
    "\x00",
    "a\x00",
    "\\",
    "\\n",
    "NA",
]
AWKWARD += [
    "&amp;",
    "<b>",
    "ünïcödé",
    "雨",
    "\ufffe",
    "\u2028",
    "]];",
    "n0 -> n1",
    "'",
    "x\\",
    "#",
    "\x85",
]


@st.composite
def dags(draw, max_nodes=7):
    """Any DAG: any names, weights and order that fits, with or without reversible arcs."""
    d = draw(st.integers(0, max_nodes))
    order = np.array(draw(st.permutations(range(d))), dtype=np.int64)
    forward = np.triu(np.ones((d, d), dtype=bool), 1)
    nonzero = st.floats(allow_nan=False, allow_infinity=False)
    W = np.zeros((d, d))
    for i, j in zip(*np.nonzero(forward)):
        if draw(st.booleans()):
            W[order[i], order[j]] = draw(nonzero)
    names = None
    if draw(st.booleans()):
        text = st.text() | st.sampled_from(AWKWARD)
        names = draw(st.lists(text, min_size=d, max_size=d, unique=True))
    reversible = None
    if draw(st.booleans()):
        rows = draw(st.lists(st.booleans(), min_size=d, max_size=d))
        reversible = (W != 0) & np.array(rows, dtype=bool)[:, None]
    m = int(np.count_nonzero(W))
    columns = st.dictionaries(st.sampled_from(["probability", "required", "a_1"]), st.booleans())
    arc_data, node_data = (
        {
            name: draw(st.lists(st.booleans() if flags else st.floats(), min_size=k, max_size=k))
            for name, flags in draw(columns).items()
        }
        for k in (m, d)
    )
    about = draw(st.dictionaries(st.text(), st.text() | st.floats() | st.none(), max_size=2))
    return DAG(W, names, order, reversible, arc_data=arc_data, node_data=node_data, about=about)


def identical(one, other):
    """Tell whether two DAGs have the same arcs and the same data of arcs and nodes."""
    return digest_of(one._graph()._replace(about={})) == digest_of(
        other._graph()._replace(about={})
    )


def diamond():
    W = np.zeros((5, 5))
    W[0, 1], W[0, 2], W[1, 3], W[2, 3] = 1.0, -3.0, 0.5, 2.0
    return DAG(W, ["sky", "rain", "wind", "sea", "stone"])


# ---------------------------------------------------------------- construction


@pytest.mark.parametrize(
    "make", [np.asarray, sparse.csr_matrix, sparse.csc_array, sparse.coo_array, sparse.lil_array]
)
def test_weights_in_any_form_become_csc_without_zeros_and_are_copied(make):
    W = np.array([[0, 0, 2.0], [1.0, 0, 0], [0, 0, 0]])
    given_ = make(W)
    dag = DAG(given_)
    assert isinstance(dag.weights, sparse.csc_array)
    assert dag.weights.dtype == np.float64
    assert dag.weights.has_sorted_indices
    np.testing.assert_array_equal(dag.weights.toarray(), W)
    dag.weights.data[:] = 7
    np.testing.assert_array_equal(given_.toarray() if sparse.issparse(given_) else given_, W)


def test_explicit_zeros_and_duplicate_entries_are_settled():
    W = sparse.coo_array(([1.0, 2.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    dag = DAG(W)
    assert dag.n_arcs == 1
    assert dag.weights[0, 1] == 3.0


@given(dags())
@QUICK
def test_the_order_found_lists_causes_first(dag):
    order = DAG(dag.weights, dag.names).order
    rank = np.argsort(order)
    assert sorted(order) == list(range(dag.n_nodes))
    source, target = dag.weights.nonzero()
    assert (rank[source] < rank[target]).all()


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"weights": np.zeros((2, 3))}, "square"),
        ({"weights": np.zeros(4)}, "square"),
        ({"weights": [[0, np.nan], [0, 0]]}, "finite"),
        ({"weights": [[0, 1j], [0, 0]]}, "real"),
        ({"weights": [[0, "a"], [0, 0]]}, "real"),
        ({"weights": [[0, 0], [0, 1]]}, "its own cause"),
        ({"weights": np.zeros((2, 2)), "names": ["a"]}, "one name"),
        (
            {"weights": np.zeros((2, 2)), "names": ["a", "a"]},
            "unique. More than one node is called 'a'",
        ),
        ({"weights": np.zeros((2, 2)), "names": "ab"}, "sequence of strings"),
        ({"weights": np.zeros((2, 2)), "names": ["a", "\ud800"]}, "Unicode"),
        ({"weights": np.zeros((2, 2)), "order": [0, 0]}, "once"),
        ({"weights": np.zeros((2, 2)), "order": [0]}, "once"),
        ({"weights": np.zeros((2, 2)), "order": [0.0, 1.0]}, "once"),
        ({"weights": [[0, 1], [0, 0]], "order": [1, 0]}, "'x1' stands before its cause 'x0'"),
        ({"weights": [[0, 1], [0, 0]], "reversible": [[0, 0], [1, 0]]}, "no arc"),
        ({"weights": [[0, 1], [0, 0]], "reversible": [0, 1]}, "shape"),
    ],
)
def test_bad_parts_get_a_clear_sentence(kwargs, text):
    with pytest.raises(GraphError, match=text):
        DAG(**kwargs)


@given(st.integers(0, 10**6))
@QUICK
def test_the_cycle_that_is_named_is_there(seed):
    rng = np.random.default_rng(seed)
    W = np.triu(rng.random((8, 8)) < 0.3, 1).astype(float)
    W[7, 0] = W[0, 3] = W[3, 7] = 1.0
    order = range(8) if seed % 2 else None
    with pytest.raises(GraphError, match="has a cycle") as caught:
        DAG(W, order=order)
    walk = [int(n[1:]) for n in str(caught.value).split(": ")[1].rstrip(".").split(" -> ")]
    assert walk[0] == walk[-1]
    assert len(walk) > 2
    assert all(W[i, j] for i, j in itertools.pairwise(walk))


def test_a_long_cycle_is_shortened_and_needs_no_recursion():
    d = 50_000
    W = sparse.coo_array((np.ones(d), (np.arange(d), np.roll(np.arange(d), -1))), shape=(d, d))
    with pytest.raises(GraphError, match=r"49993 more \.\.\.") as caught:
        DAG(W)
    assert len(str(caught.value)) < 300


# ---------------------------------------------------------------- questions


def test_edges_are_strongest_first_with_ties_by_index():
    dag = DAG([[0, 1, -2, 1], [0, 0, 1, 2], [0, 0, 0, -1], [0, 0, 0, 0]])
    rows = list(dag.edges().itertuples(index=False, name=None))
    assert rows == [
        ("x0", "x2", -2), ("x1", "x3", 2), ("x0", "x1", 1), ("x0", "x3", 1), ("x1", "x2", 1),
        ("x2", "x3", -1),
    ]  # fmt: skip
    assert dag.edges(top=2).equals(dag.edges().head(2))
    assert len(dag.edges(top=0)) == 0
    assert len(dag.edges(top=99)) == 6
    for bad in (-1, 1.5, "3"):
        with pytest.raises(ParameterError, match="top"):
            dag.edges(top=bad)


def test_direction_is_a_column_only_where_known():
    W = np.array([[0, 1, -2.0], [0, 0, 0], [0, 0, 0]])
    assert list(DAG(W).edges().columns) == ["source", "target", "weight"]
    known = DAG(W, reversible=[[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    assert known.edges()["direction"].tolist() == ["->", "--"]
    assert known.threshold(1.5).edges()["direction"].tolist() == ["->"]
    assert known.subgraph(["x1", "x0"]).edges()["direction"].tolist() == ["--"]
    assert DAG(W, reversible=np.zeros((3, 3))).edges()["direction"].tolist() == ["->", "->"]


@given(dags(), st.floats(0, 1e300))
@QUICK
def test_threshold_keeps_exactly_the_arcs_above(dag, t):
    kept = dag.threshold(t)
    dense = dag.weights.toarray()
    np.testing.assert_array_equal(kept.weights.toarray(), np.where(np.abs(dense) > t, dense, 0))
    np.testing.assert_array_equal(kept.order, dag.order)
    assert kept.names == dag.names
    assert (kept.reversible is None) == (dag.reversible is None)


@pytest.mark.parametrize("t", [-1, np.nan, np.inf])
def test_threshold_refuses(t):
    with pytest.raises(ParameterError, match="threshold"):
        diamond().threshold(t)


@given(dags())
@QUICK
def test_family_and_neighbourhood_agree_with_networkx(dag):
    graph = dag.to_networkx()
    assert list(graph) == list(dag.names)
    for v, name in enumerate(dag.names):
        parents, children = set(graph.pred[name]), set(graph.succ[name])
        spouses = {p for c in children for p in graph.pred[c]} - {name}
        for key in (v, name):
            assert set(dag.parents(key)) == parents
            assert set(dag.children(key)) == children
            assert set(dag.markov_blanket(key)) == parents | children | spouses
            assert len(dag.markov_blanket(key)) == len(parents | children | spouses)
        for radius in (0, 1, 2):
            ball = nx.ego_graph(graph, name, radius, undirected=True)
            assert set(dag.neighbourhood(name, radius).names) == set(ball)
            assert dag.neighbourhood(name, radius).n_arcs == ball.number_of_edges()


@given(dags(), st.data())
@QUICK
def test_subgraph_keeps_arcs_names_and_order(dag, data):
    nodes = data.draw(st.permutations(range(dag.n_nodes)))[: dag.n_nodes // 2 + 1]
    part = dag.subgraph([dag.names[v] for v in nodes])  # a number may be the name of another
    at = np.array(nodes, dtype=int)
    np.testing.assert_array_equal(part.weights.toarray(), dag.weights.toarray()[np.ix_(at, at)])
    assert part.names == tuple(dag.names[v] for v in nodes)
    assert [nodes[v] for v in part.order] == [v for v in dag.order if v in nodes]


def test_unknown_nodes_are_refused_with_the_nearest_names():
    dag = diamond()
    with pytest.raises(GraphError, match=r"'rian'.*Did you mean 'rain'"):
        dag.parents("rian")
    for bad in (5, -1):
        with pytest.raises(GraphError, match="from 0 to 4"):
            dag.children(bad)
    with pytest.raises(GraphError, match="'sky' is given twice"):
        dag.subgraph(["sea", "sky", "sky"])
    with pytest.raises(ParameterError, match="list of names"):
        dag.subgraph("sky")
    with pytest.raises(ParameterError, match="radius"):
        dag.neighbourhood("sky", -1)


def test_named_and_repr_and_equality():
    dag = diamond()
    assert dag.named
    assert not DAG(dag.weights).named
    assert repr(dag) == "DAG(5 nodes, 4 arcs)"
    assert (
        repr(DAG([[0, 1], [0, 0]], reversible=[[0, 1], [0, 0]]))
        == "DAG(2 nodes, 1 arcs, 1 reversible)"
    )
    assert dag == DAG(dag.weights, dag.names, dag.order)
    assert dag != DAG(dag.weights)
    assert dag != DAG(dag.weights * 2, dag.names)
    assert dag != DAG(dag.weights, dag.names, reversible=np.zeros((5, 5)))
    assert dag != dag.threshold(0.7)
    assert dag != "dag"
    free = np.zeros((2, 2))
    assert DAG(free, order=[0, 1]) != DAG(free, order=[1, 0])


@given(dags())
@QUICK
def test_graph_objects_hold_the_same_arcs(dag):
    graph = dag.to_igraph()
    assert graph.is_directed()
    assert graph.vs["name"] == list(dag.names)
    dense = np.zeros((dag.n_nodes, dag.n_nodes))
    for edge in graph.es:
        dense[edge.tuple] = edge["weight"]
    np.testing.assert_array_equal(dense, dag.weights.toarray())
    flagged = dag.to_networkx()
    if dag.n_nodes:
        np.testing.assert_array_equal(nx.to_numpy_array(flagged, nodelist=dag.names), dense)
    if dag.reversible is not None:
        expected = {(dag.names[i], dag.names[j]) for i, j in zip(*dag.reversible.nonzero())}
        assert {(i, j) for i, j, r in flagged.edges(data="reversible") if r} == expected
        assert {
            tuple(dag.names[v] for v in e.tuple) for e in graph.es if e["reversible"]
        } == expected


@pytest.mark.parametrize(
    ("package", "method"), [("networkx", "to_networkx"), ("igraph", "to_igraph")]
)
def test_a_missing_package_is_one_clear_sentence(monkeypatch, package, method):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install .*networkx"):
        getattr(diamond(), method)()


def test_import_is_light():
    code = (
        "import sys, bigdag.graph.dag;"
        "heavy = {'networkx', 'igraph', 'matplotlib', 'torch', 'pandas', 'pyarrow'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(dag=dags())
@settings(QUICK, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_gives_back_the_same_dag(tmp_path, suffix, dag):
    path = tmp_path / f"dag{suffix}"
    dag.save(path, force=True)
    back = DAG.load(path)
    assert identical(back, dag)
    assert back.named == dag.named
    lost = suffix == ".csv" and not dag.n_nodes  # a file of nodes without a row
    assert back.about == ({} if lost else dag.about)
    beside = {"dag.nodes.csv"} if suffix == ".csv" else set()
    assert {p.name for p in tmp_path.iterdir()} == {path.name} | beside


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_awkward_names_survive(tmp_path, suffix):
    d = len(AWKWARD)
    W = np.diag(np.arange(1.0, d), 1)
    W[-2, -1] = 0  # the last one is isolated
    dag = DAG(W / 3, AWKWARD, np.r_[d - 1, : d - 1])
    dag.save(tmp_path / f"dag{suffix}")
    assert DAG.load(str(tmp_path / f"dag{suffix}")) == dag


def test_arcs_are_ranked_by_the_best_that_is_known_of_them():
    W = sparse.csc_array([[0, 5.0, 4.0, 3.0], [0] * 4, [0] * 4, [0] * 4])
    dag = DAG(W)
    assert dag.edges()["weight"].tolist() == [5.0, 4.0, 3.0]
    dag = dag.annotated(arc_data={"evidence": [1.0, 7.0, -2.0]})
    assert dag.edges()["weight"].tolist() == [4.0, 5.0, 3.0]
    dag = dag.annotated(reversible=W == 4.0)  # directed arcs come first
    assert dag.edges()["weight"].tolist() == [5.0, 3.0, 4.0]
    assert dag.ranking(directed=False).argmax() == 1
    assert (dag.ranking() > 0).all()
    dag = dag.annotated(arc_data={"probability": [0.2, np.nan, 0.9], "adjacency": [1, 0.5, 0.9]})
    assert dag.edges()["weight"].tolist() == [3.0, 5.0, 4.0]
    assert dag.edges(by="evidence")["weight"].tolist() == [4.0, 5.0, 3.0]
    assert dag.ranking(directed=False).argmax() == 0
    assert dag.edges(by="weight")["weight"].tolist() == [5.0, 4.0, 3.0]
    with pytest.raises(ParameterError, match="`by` must be one of 'auto', 'weight', 'evidence'"):
        dag.edges(by="size")


def test_a_csv_holds_arcs_and_nothing_else(tmp_path):
    dag = diamond().annotated(
        arc_data={"probability": [1, 0.5, 0.25, 0.1], "required": [True, False, True, False]},
        node_data={"mean": np.arange(5)},
    )
    dag.save(tmp_path / "dag.csv")
    lines = (tmp_path / "dag.csv").read_text().splitlines()
    assert lines[0] == "source,target,weight,probability,required"
    assert "sky,wind,-3.0,0.5,false" in lines
    assert [line.split(",")[3] for line in lines[1:]] == ["1.0", "0.5", "0.25", "0.1"]
    assert len(lines) == 1 + dag.n_arcs
    table = pd.read_csv(tmp_path / "dag.csv")
    pd.testing.assert_frame_equal(table, dag.edges(), check_dtype=False)
    nodes = pd.read_csv(tmp_path / "dag.nodes.csv")
    assert nodes["name"].tolist() == list(dag.names)
    assert np.argsort(nodes["place"]).tolist() == dag.order.tolist()
    assert nodes["mean"].tolist() == [0, 1, 2, 3, 4]


def test_a_csv_without_its_nodes_is_a_list_of_arcs(tmp_path):
    diamond().save(tmp_path / "dag.csv")
    (tmp_path / "dag.nodes.csv").unlink()
    with pytest.warns(DataWarning, match=r"no dag\.nodes\.csv beside it, so variables without"):
        dag = DAG.load(tmp_path / "dag.csv")
    pd.testing.assert_frame_equal(dag.edges(), diamond().edges())
    assert set(dag.names) == {"sky", "rain", "wind", "sea"}


def test_data_of_arcs_and_nodes_stay_with_them():
    dag = diamond().annotated(
        reversible=diamond().weights > 1.5,
        arc_data={"p": [1.0, 0.5, 0.25, 0.1]},
        node_data={"mean": np.arange(5), "noise_variance": np.ones(5)},
        about={"method": "by hand"},
    )
    part = dag.subgraph(["stone", "sea", "wind", "sky"])
    assert part.edges()["p"].tolist() == [0.5, 0.1]
    assert part.node_data.keys() == {"mean"}
    assert part.node_data["mean"].tolist() == [4, 3, 2, 0]
    turned = dag.subgraph(dag.names[::-1])
    assert turned.node_data.keys() == {"mean", "noise_variance"}
    assert identical(turned.subgraph(dag.names), dag)
    strong = dag.threshold(0.9)
    assert strong.edges()[["weight", "p"]].to_numpy().tolist() == [[-3, 0.5], [2, 0.1], [1, 1]]
    assert strong.node_data.keys() == {"mean"}
    assert identical(dag.threshold(0.1), dag)
    assert strong.about == part.about == {"method": "by hand"}
    matrix = sparse.csr_array(dag.weights * 2)
    assert np.array_equal(dag.annotated(arc_data={"p": matrix}).arc_data["p"], dag.weights.data * 2)
    assert not identical(dag, dag.annotated(arc_data={"p": np.ones(4)}))
    assert dag == dag.annotated(arc_data={"p": np.ones(4)})
    said = dag.annotated(about={"more": np.float64(2), "nan": np.nan, "list": np.arange(2)}).about
    assert said == {"method": "by hand", "more": 2.0, "nan": None, "list": [0, 1]}
    kept = dag.with_arcs(sparse.csr_array(np.eye(5)[[1, 4, 4, 4, 4]]))
    assert kept.edges()[["source", "target", "p"]].to_numpy().tolist() == [["sky", "rain", 1.0]]
    assert dag.with_arcs(sparse.csc_array((5, 5))).n_arcs == 0
    assert DAG(np.zeros((5, 5))).with_arcs(sparse.csc_array((5, 5))).n_arcs == 0
    with pytest.raises(GraphError, match=r"`kept` must have the shape \(5, 5\)"):
        dag.with_arcs(np.eye(4))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"arc_data": {"p": [1, 2]}}, "'p' must have one entry for each of the 4 arcs"),
        ({"arc_data": {"weight": np.ones(4)}}, "such as 'weight' and 'order'. Got 'weight'"),
        ({"arc_data": {"a b": np.ones(4)}}, "letters, digits and underscores.* Got 'a b'"),
        ({"arc_data": {3: np.ones(4)}}, "Got 3"),
        ({"arc_data": {"p": ["a"] * 4}}, "numbers or truth values"),
        ({"arc_data": {"p": np.ones((4, 4))}}, r"shape \(5, 5\). Got \(4, 4\)"),
        ({"node_data": {"mean": np.ones(4)}}, "each of the 5 nodes"),
        ({"about": {"a": {1, 2}}}, "what JSON can hold"),
        ({"about": ["a"]}, "must be a dictionary"),
    ],
)
def test_bad_data_of_arcs_and_nodes_are_refused(more, words):
    with pytest.raises(GraphError, match=words):
        DAG(diamond().weights, **more)


def test_parquet_is_plain_for_pandas(tmp_path):
    dag = diamond()
    dag.save(tmp_path / "dag.PARQUET")
    table = pd.read_parquet(tmp_path / "dag.PARQUET")
    pd.testing.assert_frame_equal(table, dag.edges(), check_dtype=False)
    table.to_parquet(tmp_path / "mine.parquet")  # pandas drops the header of bigdag
    assert DAG.load(tmp_path / "mine.parquet").names == ("sky", "wind", "sea", "rain")
    mine = table.assign(probability=[1, 0.5, None, 0.1], note="text", count=[1, 2, 3, 4])
    mine.iloc[::-1].to_parquet(tmp_path / "mine.parquet")  # with an index
    data = DAG.load(tmp_path / "mine.parquet").edges(by="weight")
    pd.testing.assert_frame_equal(data, mine.drop(columns="note"), check_dtype=False)


@pytest.mark.parametrize(
    ("text", "names", "weights"),
    [
        ("source,target\nb,a\na,c\n", ("b", "a", "c"), [1, 1]),
        ("source,target,weight\nb,a,2\nlone,,\na,c,-1e-3\n", ("b", "a", "lone", "c"), [2, -1e-3]),
        ("id,weight,target,source\n7,2,NA,1\n8,3,2,1", ("1", "NA", "2"), [2, 3]),
        ('\ufeffsource,target,weight\r\n"a,b",c,1\r\n', ("a,b", "c"), [1]),
        ("source,target,weight\na,b,0\n", ("a", "b"), []),
        ("source,target,weight\n", (), []),
    ],
)
def test_an_edge_list_of_ones_own(tmp_path, text, names, weights):
    path = tmp_path / "mine.csv"
    path.write_bytes(text.encode())
    dag = DAG.load(path)
    assert dag.names == names
    assert sorted(dag.weights.data) == sorted(weights)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expected comma-separated"),
        ("from,to\na,b\n", "no column 'source'.*'from', 'to'"),
        ("source,target,weight\na,b,heavy\n", "heavy"),
        ("source,target,weight\na,b,1\nb,c,\n", "row 2 has no finite weight"),
        ("source,target,weight\na,b,1\nb,c,inf\n", "row 2 has no finite weight"),
        ("source,target,weight\n,b,1\n", "row 1 has no source"),
        ("source,target,weight\na,b,1\na,b\n", "Expected 3 columns, got 2"),
        ("source,target,weight\na,b,1\na,b,2\n", "'a' -> 'b' appears more than once"),
        ("source,target,weight,direction\na,b,1,<-\n", "direction"),
    ],
)
def test_a_bad_edge_list_is_refused(tmp_path, text, message):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        DAG.load(path)
    assert "mine.csv" in str(caught.value)


def test_graphml_is_read_by_networkx_and_igraph(tmp_path):
    names = ["<a & b>", "ü", "sea", "x\x00y", "lone"]
    flags = np.zeros((5, 5), dtype=bool)
    flags[0, 2] = True
    dag = DAG(diamond().weights, names, reversible=flags)
    dag.save(tmp_path / "dag.graphml")
    graph = nx.read_graphml(tmp_path / "dag.graphml")
    assert list(graph) == ["<a & b>", "ü", "sea", "x\ufffdy", "lone"]
    assert [graph.nodes[v]["name"] for v in graph] == list(graph)
    np.testing.assert_array_equal(nx.to_numpy_array(graph), dag.weights.toarray())
    assert graph.edges["<a & b>", "sea"]["reversible"]
    assert not graph.edges["<a & b>", "ü"]["reversible"]
    other = igraph.Graph.Read_GraphML(str(tmp_path / "dag.graphml"))
    assert other.is_directed()
    assert other.vs["name"][0] == "<a & b>"
    assert {e.tuple: e["weight"] for e in other.es} == {
        (i, j): dag.weights[i, j] for i, j in zip(*map(np.ndarray.tolist, dag.weights.nonzero()))
    }


def test_ids_in_graphml_are_the_names_where_xml_can_hold_them(tmp_path):
    names = ["\x00", "\x01", "", "\ufffd", "a\tb\n c "]
    dag = DAG(diamond().weights, names)
    dag.save(tmp_path / "dag.graphml")
    assert list(nx.read_graphml(tmp_path / "dag.graphml")) == [
        "\ufffd", "\ufffd 1", " 1", "\ufffd 2", "a\tb\n c ",
    ]  # fmt: skip
    assert DAG.load(tmp_path / "dag.graphml") == dag


def test_graphml_of_networkx_is_read(tmp_path):
    dag = diamond().annotated(
        arc_data={"p": [0.5, np.nan, 1, 2], "known": [True, False, True, True]},
        node_data={"mean": np.arange(5)},
    )
    nx.write_graphml(dag.to_networkx(), tmp_path / "theirs.graphml")
    back = DAG.load(tmp_path / "theirs.graphml")
    assert identical(DAG(back.weights, back.names, dag.order, arc_data=back.arc_data,
                         node_data=back.node_data), dag)  # fmt: skip
    nx.write_graphml(dag.to_networkx().to_undirected(), tmp_path / "flat.graphml")
    with pytest.raises(DataError, match="undirected"):
        DAG.load(tmp_path / "flat.graphml")


def test_a_dot_file_is_only_written(tmp_path):
    diamond().save(tmp_path / "dag.DOT")
    with pytest.raises(ParameterError) as caught:
        DAG.load(tmp_path / "dag.DOT")
    words = (
        "only written, for Graphviz. A DAG can be read from .npz, .parquet, .csv, .graphml, .json."
    )
    assert words in str(caught.value)


def test_dot_quotes_names_and_leaves_heads_off(tmp_path):
    dag = DAG([[0, 1.0], [0, 0]], ['a"\\', "b\n&lt;"], reversible=[[0, 1], [0, 0]])
    dag.save(tmp_path / "dag.dot")
    text = (tmp_path / "dag.dot").read_text()
    assert r'n0 [label="a\"\\", ' in text
    assert r'n1 [label="b\n&amp;lt;", ' in text
    assert 'n0 -> n1 [value=1.0, label="1", dir=none];' in text


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_broken_file_is_a_data_error(tmp_path, suffix):
    path = tmp_path / f"dag{suffix}"
    diamond().save(path)
    whole = path.read_bytes()
    broken = [b"", b"\x00\xff" * 50, whole[: len(whole) // 3], whole[:-3]]
    if suffix in (".npz", ".parquet"):
        broken.append(whole[: len(whole) // 2] + b"\x55" * 20 + whole[len(whole) // 2 + 20 :])
    for k, content in enumerate(broken):
        path.write_bytes(content)
        if suffix == ".csv" and k == 3:
            continue  # the last row without its end
        with pytest.raises(DataError, match="dag"):
            DAG.load(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_with_a_cycle_is_a_graph_error(tmp_path, suffix, monkeypatch):
    dag, path = diamond(), tmp_path / f"dag{suffix}"
    dag.weights = sparse.csc_array(
        dag.weights + sparse.csc_array(([1.0], ([3], [0])), shape=(5, 5))
    )
    dag.save(path)
    with pytest.raises(GraphError, match=r"cycle: .*sea -> sky"):
        DAG.load(path)


@pytest.mark.parametrize("suffix", [s for s in SUFFIXES if s != ".csv"])
def test_a_newer_format_is_refused(tmp_path, suffix, monkeypatch):
    for module in ("edge_lists", "formats", "graphml"):
        monkeypatch.setattr(f"bigdag.graph.{module}.version_of", lambda graph: 3)
    diamond().save(tmp_path / f"dag{suffix}")
    monkeypatch.undo()
    with pytest.raises(DataError, match=r"format 3.*newer bigdag"):
        DAG.load(tmp_path / f"dag{suffix}")


def test_arcs_to_nodes_that_are_not_there_are_refused(tmp_path):
    path = tmp_path / "dag.json"
    for arc in ([0, 2, 1.0], [-1, 0, 1.0]):
        path.write_text(json.dumps(
            {"format": "bigdag", "version": 1, "nodes": ["a", "b"], "order": [0, 1], "arcs": [arc]}
        ))  # fmt: skip
        with pytest.raises(DataError, match="does not exist; there are 2 nodes"):
            DAG.load(path)


def test_load_refuses_missing_files_and_unknown_suffixes(tmp_path):
    with pytest.raises(DataError, match="No such file"):
        DAG.load(tmp_path / "none.npz")
    for path in ("dag.xlsx", "dag", ""):
        with pytest.raises(ParameterError, match=r"\.npz, \.parquet, \.csv"):
            DAG.load(path)
        with pytest.raises(ParameterError, match=r"\.npz, \.parquet, \.csv"):
            diamond().save(path)


def test_save_overwrites_only_by_force(tmp_path):
    path = tmp_path / "dag.json"
    path.write_text("precious")
    with pytest.raises(OutputExistsError, match="force=True"):
        diamond().save(path)
    assert path.read_text() == "precious"
    diamond().save(path, force=True)
    assert DAG.load(path) == diamond()


def test_save_into_a_missing_folder_or_over_a_folder(tmp_path):
    with pytest.raises(ParameterError, match=r"folder .*none does not exist"):
        diamond().save(tmp_path / "none" / "dag.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(BigdagError, match="Nothing was written"):
        diamond().save(tmp_path / "folder.csv", force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["folder.csv"]


@pytest.mark.parametrize("suffix", WRITTEN)
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"dag{suffix}"
    path.write_text("precious")
    real_open = builtins.open

    def full_disk(name, mode="r", *args, **kwargs):
        file = real_open(name, mode, *args, **kwargs)
        if "x" in mode:
            file.write(b"half of it")
            file.close()
            file = real_open("/dev/full", "wb")
        return file

    monkeypatch.setattr(builtins, "open", full_disk)
    with pytest.raises(BigdagError, match="Nothing was written"):
        diamond().save(path, force=True)
    monkeypatch.undo()
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_write_leaves_nothing(tmp_path, error):
    def write():
        with whole_file(tmp_path / "a.txt") as file:
            file.write(b"half of it")
            raise error

    with pytest.raises(error):
        write()
    assert list(tmp_path.iterdir()) == []


def test_an_output_is_refused_early_as_it_would_be_late(tmp_path):
    (tmp_path / "old.npz").write_text("precious")
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "link.npz").symlink_to(tmp_path / "none" / "dag.npz")
    for name in ("dag.txt", "old.npz", "folder.npz", "none/dag.npz", "link.npz"):
        with pytest.raises(BigdagError) as early:
            check_output(tmp_path / name)
        with pytest.raises(type(early.value)) as late:
            diamond().save(tmp_path / name)
        assert str(early.value) == str(late.value)
    check_output(tmp_path / "old.npz", force=True)
    check_output(tmp_path / "new.npz")
    assert (tmp_path / "old.npz").read_text() == "precious"
    assert not (tmp_path / "new.npz").exists()


def test_a_symlink_is_written_through(tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    diamond().save(tmp_path / "link.json", force=True)
    assert (tmp_path / "link.json").is_symlink()
    assert DAG.load(tmp_path / "real.json") == diamond()


def test_a_number_that_is_the_name_of_another_node_is_refused_and_not_guessed():
    dag = DAG([[0, 1, 0], [0, 0, 1], [0, 0, 0]], names=["1", "2", "x"])
    assert dag.parents("2") == ["1"]
    for number, other in [(1, ", and '2' for"), (2, ", and 'x' for")]:
        with pytest.raises(GraphError, match=f"'{number}' for that one{other}"):
            dag.parents(number)
        with pytest.raises(GraphError, match="Give names as text"):
            dag.subgraph([number])
    assert dag.parents(0) == []
    assert dag.neighbourhood("1").names == ("1", "2")
    counted = DAG(dag.weights, names=["0", "1", "2"])  # a table of pandas without names
    assert counted.parents(1) == counted.parents("1") == ["0"]


def test_a_name_in_other_capitals_is_offered():
    with pytest.raises(GraphError, match=r"Did you mean 'TP53'\?"):
        DAG([[0, 1], [0, 0]], names=["TP53", "MDM2"]).parents("tp53")


def test_a_column_of_a_group_leads_to_the_one_that_stands_for_it():
    dag = DAG([[0, 1], [0, 0]], names=["income", "age"])
    dag = dag.annotated(about={"groups": {"income": ["income_eur"]}})
    with pytest.raises(GraphError, match="the same as 'income', which stands for the group"):
        dag.children("income_eur")
