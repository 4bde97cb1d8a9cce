"""Files of DAGs that were cut, damaged or written by hand: refused, or the same DAG."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from bigdag import resources
from bigdag.cli import app
from bigdag.errors import BigdagError, DataError, MemoryLimitError, ParameterError
from bigdag.graph.arcs import digest_of
from bigdag.graph.dag import DAG

SUFFIXES = [".npz", ".parquet", ".csv", ".graphml", ".json"]


def diamond(names=("sky", "rain", "wind", "sea", "stone"), order=None, reversible=None):
    W = np.zeros((5, 5))
    W[0, 1], W[0, 2], W[1, 3], W[2, 3] = 1.0, -3.0, 0.5, 2.0
    return DAG(W, names, order, reversible)


FLAGS = np.zeros((5, 5), dtype=bool)
FLAGS[0, 1] = True
DAGS = {
    "plain": diamond(),
    "default names": diamond(None),
    "awkward": diamond(['a"\n\nb', "", '"\n', "=1+2", "ü,\r\n\n"], [0, 1, 2, 4, 3], FLAGS),
    "without arcs": DAG(np.zeros((3, 3)), ["a", "b", "c"], [2, 0, 1]),
    "empty": DAG(np.zeros((0, 0))),
    "with more": diamond().annotated(
        arc_data={"p": [0.5, np.nan, np.inf, 1.0], "known": [True, False, True, False]},
        node_data={"mean": np.arange(5) / 3, "noise_variance": np.ones(5)},
        about={"method": "by hand", "checks": ["a", None, 2.5]},
    ),
}


def same(found, dag):
    """Tell whether a DAG is what was saved, with all that is known of its arcs and nodes."""
    return found.about in ({}, dag.about) and (
        digest_of(found._graph()._replace(about={})) == digest_of(dag._graph()._replace(about={}))
    )


def outcome(path, content):
    path.write_bytes(content)
    try:
        return DAG.load(path)
    except BigdagError:
        return None


def places(whole):
    """Return the places before, in and after each end of a line, and every seventh."""
    near = {k for e, byte in enumerate(whole) if byte == 10 for k in (e - 1, e, e + 1)}
    return sorted(near.union(range(0, len(whole), 7)) & set(range(len(whole))))


@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", DAGS)
def test_every_cut_is_refused_or_gives_the_same_dag(tmp_path, kind, suffix, safe):
    binary = suffix in (".npz", ".parquet")
    if (safe and suffix != ".csv") or (kind == "default names" and binary):
        return
    dag, path = DAGS[kind], tmp_path / f"dag{suffix}"
    dag.save(path, safe_csv=safe)
    whole = path.read_bytes()
    assert same(outcome(path, whole), dag)
    # At every byte of one; of the others, whose parts are the same, around lines and at some.
    for k in range(len(whole)) if kind == "awkward" else places(whole):
        found = outcome(path, whole[:k])
        assert found is None or same(found, dag), (k, whole[:k][-30:])
    if suffix == ".csv":  # nor may the file of the nodes be cut
        path.write_bytes(whole)
        nodes = path.with_name("dag.nodes.csv")
        whole = nodes.read_bytes()
        for k in range(len(whole)) if kind == "awkward" else places(whole):
            nodes.write_bytes(whole[:k])
            try:
                found = DAG.load(path)
            except DataError:
                continue
            assert same(found, dag), (k, whole[:k][-30:])


@pytest.mark.parametrize("kind", ["awkward", "with more"])
@pytest.mark.parametrize("suffix", [*SUFFIXES, ".nodes.csv"])
def test_every_flipped_byte_is_refused_or_gives_the_same_dag(tmp_path, suffix, kind):
    if kind == "with more" and suffix in (".npz", ".parquet"):
        return  # the same checks, on a longer file
    dag, path = DAGS[kind], tmp_path / f"dag{suffix[-4:] if suffix == '.nodes.csv' else suffix}"
    dag.save(path)
    arcs, path = path, tmp_path / f"dag{suffix}"
    whole = path.read_bytes()
    # Another bit or all bits each time, of every byte of a text: a sample of all that can happen.
    step = 3 if suffix in (".npz", ".parquet") else 1
    for k in range(0, len(whole), 7 if kind == "with more" and "csv" not in suffix else step):
        mask = (1, 4, 32, 128, 255)[k % 5]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path.write_bytes(whole[:k] + bytes([whole[k] ^ mask]) + whole[k + 1 :])
            found = outcome(arcs, arcs.read_bytes())
        assert found is None or same(found, dag), (k, mask, whole[max(k - 20, 0) : k + 20])


def test_a_lost_header_of_a_parquet_file_is_told(tmp_path):
    # Read as an edge list of one's own, it would lack the node without arcs and the order.
    path = tmp_path / "dag.parquet"
    diamond().save(path)
    table = pq.read_table(path).replace_schema_metadata(None)
    pq.write_table(table, path)
    with pytest.raises(DataError, match="header that bigdag wrote is missing"):
        DAG.load(path)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_file_that_pandas_wrote_again_is_an_edge_list(tmp_path, suffix):
    path = tmp_path / f"dag{suffix}"
    diamond().save(path)
    if suffix == ".csv":
        frame = pd.read_csv(path)
        frame.to_csv(path, index=False)
        assert DAG.load(path) == diamond()  # it is still what its nodes are of
        frame.iloc[::-1].to_csv(path, index=False)
        assert DAG.load(path) == diamond()
        frame[1:].to_csv(path, index=False)
        with pytest.raises(DataError, match=r"must be 4 arcs, and there are 3.*remove dag\.nodes"):
            DAG.load(path)
        frame.to_csv(path, index=False)
        (tmp_path / "dag.nodes.csv").unlink()
    else:
        frame = pd.read_parquet(path)
        frame.to_parquet(path)
    pd.testing.assert_frame_equal(
        frame.reset_index(drop=True), diamond().edges(), check_dtype=False
    )
    assert set(DAG.load(path).names) == {"sky", "rain", "wind", "sea"}


def test_a_flip_far_into_a_large_array_is_detected(tmp_path):
    path = tmp_path / "dag.npz"
    DAG(np.triu(np.ones((60, 60)), 1)).save(path)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    with pytest.raises(DataError, match=r"checksum of \w+\.npy is wrong"):
        DAG.load(path)


@pytest.mark.parametrize("kind", [pa.int64(), pa.large_string(), pa.binary()])
def test_ends_of_any_type_in_a_parquet_file(tmp_path, kind):
    ends = [pa.array(["1", "2"]), pa.array(["2", None])]
    table = pa.table({"source": ends[0].cast(kind), "target": ends[1].cast(kind), "more": [1, 2]})
    pq.write_table(table, tmp_path / "mine.parquet")
    dag = DAG.load(tmp_path / "mine.parquet")
    assert (dag.names, dag.n_arcs) == (("1", "2"), 1)


def test_files_of_an_earlier_bigdag_are_read(tmp_path):
    dag = DAG([[0, 2.0], [0, 0]], ["a", "b"], [0, 1])
    (tmp_path / "a.csv").write_text("source,target,weight\na,b,2.0\na,,\nb,,\na,,\nb,,\n")
    check = int(digest_of(dag._graph())[:13], 16)
    rows = f"weight\na,b,2.0\na,,{check}\nb,,\na,,\nb,,\n\n"
    (tmp_path / "b.csv").write_text(f'"source",target,{rows}')
    (tmp_path / "c.csv").write_text(f'source,"target",{rows}')
    (tmp_path / "a.json").write_text(json.dumps(JSON))
    np.savez(
        tmp_path / "a.npz", bigdag=np.int64(1), names=np.frombuffer(b'["a", "b"]', dtype=np.uint8),
        order=np.array([0, 1]), source=np.array([0], np.int32), target=np.array([1], np.int32),
        weight=np.array([2.0]),
    )  # fmt: skip
    for name in ("a.csv", "b.csv", "c.csv", "a.json", "a.npz"):
        assert DAG.load(tmp_path / name) == dag


# ------------------------------------------------------------------ written by hand

JSON = {
    "format": "bigdag", "version": 1, "nodes": ["a", "b"], "order": [0, 1], "arcs": [[0, 1, 2.0]],
}  # fmt: skip


def graphml(body, keys='<key id="w" for="edge" attr.name="weight" attr.type="double"/>', kind=""):
    kind = kind or 'edgedefault="directed"'
    return f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{keys}<graph {kind}>{body}' + (
        "</graph></graphml>"
    )


NODES = '<node id="a"/><node id="b"/>'
EDGE = '<edge source="a" target="b"><data key="w">2</data></edge>'
BY_HAND = [
    ("a.json", {"arcs": [[0.7, 1, 2.0]]}, "whole number. Got 0.7"),
    ("a.json", {"arcs": [[False, True, 2.0]]}, "whole number. Got False"),
    ("a.json", {"arcs": [[0, 1, True]]}, "must be a number. Got True"),
    ("a.json", {"arcs": [[0, 1, "2"]]}, "must be a number. Got '2'"),
    ("a.json", {"arcs": [[0, 1, float("nan")]]}, "finite. Got NaN"),
    ("a.json", {"arcs": [[0, 1]]}, "[source, target, weight]"),
    ("a.json", {"arcs": [0, 1, 2.0]}, "[source, target, weight]"),
    ("a.json", {"reversible": ["false"]}, "true or false. Got 'false'"),
    ("a.json", {"reversible": [0]}, "true or false. Got 0"),
    ("a.json", {"reversible": [True, False]}, "must have 1 entries. It has 2"),
    ("a.json", {"order": [0.0, 1.0]}, "whole number. Got 0.0"),
    ("a.json", {"order": [False, True]}, "whole number. Got False"),
    ("a.json", {"order": [0]}, "must have 2 entries. It has 1"),
    ("a.json", {"nodes": [1, 2]}, "list of strings"),
    ("a.json", {"nodes": "ab"}, "list of strings"),
    ("a.json", {"version": 1.5}, "version must be a whole number"),
    ("a.json", {"digest": "0" * 64}, "does not agree with its digest"),
    ("a.json", '{"format": "bigdag", "arcs": [], "arcs": []}', "more than once"),
    ("a.graphml", graphml(NODES + EDGE.replace("<edge", '<edge directed="false"')), "undirected"),
    ("a.graphml", graphml(NODES + EDGE, kind='edgedefault="undirected"'), "undirected"),
    ("a.graphml", graphml(NODES + EDGE, kind='id="G"'), "undirected"),
    ("a.graphml", graphml(NODES + '<node id="a"/>'), "node 'a' appears more than once"),
    ("a.graphml", graphml(NODES + EDGE.replace('"b"', '"c"')), "node 'c', which does not exist"),
    ("a.graphml", graphml(f'<node id="g"><graph edgedefault="directed">{NODES}</graph></node>'),
     "more than one graph"),
    ("a.graphml", graphml('<node id="a"><node id="b"/></node>'), "nested graphs"),
    ("a.graphml", graphml(NODES + "<hyperedge/>"), "more than two nodes"),
    ("a.graphml", graphml(NODES + EDGE.replace("</edge>", '<data key="w">3</data></edge>')),
     "more than one 'weight'"),
    ("a.graphml", graphml(NODES + EDGE.replace(">2<", ">heavy<")), "heavy"),
    ("a.graphml", '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"/>', "no graph"),
    ("a.csv", '"source",target,weight\na,b,2.0\n', "cut off"),
    ("a.csv", '"source",target,weight\na,b,2.0\n\n', "does not agree with its digest"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "words"), BY_HAND)
def test_what_would_be_misread_is_refused_in_one_sentence(tmp_path, name, content, words):
    path = tmp_path / name
    text = json.dumps(JSON | content) if isinstance(content, dict) else content
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        DAG.load(path)
    assert words in str(caught.value)
    (tmp_path / "truth.csv").write_text("source,target\na,b\n")
    for command in (["show", path], ["evaluate", path, "--truth", tmp_path / "truth.csv"]):
        result = CliRunner().invoke(app, [str(word) for word in command])
        assert result.exit_code == 1
        assert words in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_defaults_of_graphml_are_honoured(tmp_path):
    keys = (
        '<key id="w" for="edge" attr.name="weight" attr.type="double"><default>0.25</default></key>'
        '<key id="r" for="edge" attr.name="reversible"><default>true</default></key>'
    )
    body = NODES + '<node id="c"/><edge source="a" target="b"/>'
    body += '<edge source="b" target="c"><data key="w">3</data><data key="r">false</data></edge>'
    (tmp_path / "a.graphml").write_text(graphml(body, keys))
    dag = DAG.load(tmp_path / "a.graphml")
    assert dag.weights.toarray().tolist() == [[0, 0.25, 0], [0, 0, 3], [0, 0, 0]]
    assert dag.reversible.toarray().tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    "wrong", ["length", "float index", "2-D", "foreign member", "long order", "no names"]
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, wrong):
    arrays = {
        "bigdag": np.int64(1), "names": np.frombuffer(b'["a", "b"]', dtype=np.uint8),
        "order": np.array([0, 1]), "source": np.array([0]), "target": np.array([1]),
        "weight": np.array([2.0]),
    }  # fmt: skip
    arrays |= {
        "length": {"source": np.array([0, 0])}, "float index": {"source": np.array([0.7])},
        "2-D": {"weight": np.array([[2.0]])}, "foreign member": {"more": np.array([1])},
        "long order": {"order": np.arange(1000)}, "no names": {},
    }[wrong]  # fmt: skip
    if wrong == "no names":
        del arrays["names"]
    np.savez(tmp_path / "a.npz", **arrays)
    words = {
        "length": "one entry for each arc", "float index": "source must be a list of whole",
        "2-D": "one entry for each arc", "foreign member": "not part of a DAG: 'more'",
        "long order": "1000 entries, more than", "no names": "lacks what every DAG has: 'names'",
    }[wrong]  # fmt: skip
    with pytest.raises(DataError, match=words):
        DAG.load(tmp_path / "a.npz")


def test_a_graphml_file_cannot_grow_by_entities(tmp_path):
    path = tmp_path / "a.graphml"
    path.write_text('<!DOCTYPE g [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + graphml(NODES + EDGE))
    with pytest.raises(DataError, match="entity 'a'"):
        DAG.load(path)


# ------------------------------------------------------------------ memory


def _bomb(path, d=3, m=10_000_000):
    """Write a small file that says, or holds, far more than it takes on the disk."""
    names = [f"v{j}" for j in range(d)]
    if path.suffix == ".npz":
        zeros = np.zeros(m, np.int32)
        arrays = {"source": zeros, "target": zeros, "weight": zeros.astype(float)}
        header = np.frombuffer(json.dumps(names).encode(), np.uint8)
        np.savez_compressed(path, bigdag=1, names=header, order=np.arange(d), **arrays)
    elif path.suffix == ".parquet":
        ends = pa.DictionaryArray.from_arrays(pa.array(np.zeros(m // 10, np.int32)), ["v" * 10_000])
        pq.write_table(pa.table({"source": ends, "target": ends}), path)
    else:
        path.write_text("source,target\n" + "a,b\n" * (m // 10))


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".csv"])
def test_a_dag_beyond_the_limit_is_refused_before_it_is_made(tmp_path, suffix):
    path = tmp_path / f"dag{suffix}"
    _bomb(path)
    held = resources.memory_held()
    with pytest.raises(MemoryLimitError, match=r"its DAG needs .*\(memory_limit\)") as caught:
        DAG.load(path, memory_limit=held + 70 * 2**20)
    assert str(path) in str(caught.value)
    assert resources.memory_held() - held < 60 * 2**20


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_limit_holds_for_every_format(tmp_path, suffix):
    diamond().save(tmp_path / f"dag{suffix}")
    with pytest.raises(MemoryLimitError):
        DAG.load(tmp_path / f"dag{suffix}", memory_limit="1KB")


def test_memory_that_is_used_up_is_called_so(tmp_path, monkeypatch):
    def fail(*_):
        raise MemoryError

    diamond().save(tmp_path / "dag.json")
    monkeypatch.setattr("bigdag.graph.dag._assemble", fail)
    with pytest.raises(MemoryLimitError, match="memory is used up"):
        DAG.load(tmp_path / "dag.json")


# ------------------------------------------------------------------ spreadsheets


def test_names_that_are_formulas_are_guarded_on_demand(tmp_path):
    names = ["=1+2", "+a", "-b", "@c", "'=d"]
    dag, path = diamond(names), tmp_path / "dag.csv"
    dag.save(path)
    assert "\n=1+2," in path.read_text()
    dag.save(path, force=True, safe_csv=True)
    assert DAG.load(path) == dag
    frame = pd.read_csv(path)
    cells = [*frame["source"].dropna(), *frame["target"].dropna()]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
    with pytest.raises(ParameterError, match="safe_csv"):
        dag.save(tmp_path / "dag.npz", safe_csv=True)
    assert not (tmp_path / "dag.npz").exists()
