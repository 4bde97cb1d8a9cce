"""Two DAGs side by side, against a loop over all pairs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bigdag import DAG, metrics
from bigdag.errors import GraphError


def random_dag(d, rng, names=None, marks=True):
    order = rng.permutation(d)
    W = np.zeros((d, d))
    for a, b in itertools.combinations(range(d), 2):
        if rng.random() < 0.4:
            W[order[a], order[b]] = rng.normal()
    flags = (W != 0) & (rng.random((d, d)) < 0.4) if marks else None
    return DAG(W, names, order, flags)


def edge(dag, u, v):
    """Return the weight between two names and ``->``, ``<-``, ``--`` or nothing."""
    if not {u, v} <= set(dag.names):
        return np.nan, ""
    i, j = dag.names.index(u), dag.names.index(v)
    W = dag.weights.toarray()
    weight = W[i, j] or W[j, i]
    if not weight:
        return np.nan, ""
    flags = np.zeros(W.shape) if dag.reversible is None else dag.reversible.toarray()
    return weight, "--" if flags[i, j] or flags[j, i] else "->" if W[i, j] else "<-"


@pytest.mark.parametrize("seed", range(12))
def test_every_pair_has_the_status_that_its_two_arcs_have(seed):
    rng = np.random.default_rng(seed)
    names = np.array(list("abcdefgh"))
    a = random_dag(6, rng, rng.permutation(names)[:6], marks=seed % 3 != 0)
    b = random_dag(6, rng, rng.permutation(names)[:6], marks=seed % 2 == 0)
    a = a.annotated(arc_data={"p": np.arange(a.n_arcs)})
    found = metrics.compare(a, b)
    table, seen = found.table, 0
    for u, v in itertools.combinations(names, 2):
        (wa, da), (wb, db) = edge(a, u, v), edge(b, u, v)
        rows = table[table["source"].isin([u, v]) & table["target"].isin([u, v])]
        if not (da or db):
            assert rows.empty
            continue
        seen += 1
        row = rows.iloc[0]
        expected = (
            "only_a" if not db else "only_b" if not da else "same" if da == db
            else "undirected_a" if da == "--" else "undirected_b" if db == "--" else "reversed"
        )  # fmt: skip
        assert (len(rows), row["status"]) == (1, expected)
        np.testing.assert_array_equal([row["weight_a"], row["weight_b"]], [wa, wb])
        ends = row["source"], row["target"]
        # It is drawn as the DAG that has it holds it, and directions are told along that.
        shown = [edge(dag, *ends)[1] for dag in (a, b)]
        assert [row["direction_a"], row["direction_b"]] == shown
        assert "->" in shown or "--" in shown
        if da:
            edges = a.edges()
            at = edges[(edges["source"] == ends[0]) & (edges["target"] == ends[1])]
            assert row["p_a"] == at["p"].item()
    assert len(table) == seen == sum(found.counts.values())
    assert found.counts == {k: int((table["status"] == k).sum()) for k in found.counts}
    assert set(found.only_in_a) == set(a.names) - set(b.names)
    assert set(found.only_in_b) == set(b.names) - set(a.names)
    turned = metrics.compare(b, a).counts
    swap = {"only_a": "only_b", "only_b": "only_a"}
    swap |= {"undirected_a": "undirected_b", "undirected_b": "undirected_a"}
    assert found.counts == {k: turned[swap.get(k, k)] for k in found.counts}


def test_it_agrees_with_the_structural_hamming_distance():
    rng = np.random.default_rng(1)
    for _ in range(5):
        a, b = (random_dag(8, rng, marks=False) for _ in range(2))
        scores = metrics.arc_metrics(a, b)
        found = metrics.compare(a, b)
        assert (found.shd, found.counts["same"], found.counts["reversed"]) == (
            scores.shd, scores.tp, scores.reversed,
        )  # fmt: skip
    assert metrics.compare(a, a).shd == 0


def test_graphs_without_names_are_matched_by_place():
    W = np.array([[0, 2.0], [0, 0]])
    named = DAG(W, ["rain", "river"])
    for found in (metrics.compare(named, W), metrics.compare(DAG(W), named)):
        assert found.counts["same"] == 1
        assert found.table["source"].tolist() == ["rain"]
    assert metrics.compare(DAG(W), DAG(np.zeros((3, 3)))).only_in_b == ("x2",)
    empty = DAG(np.zeros((0, 0)))
    assert metrics.compare(empty, empty).shd == 0
    assert metrics.compare(empty, DAG(W)).counts["only_b"] == 1


def test_graphs_of_other_variables_are_refused():
    with pytest.raises(GraphError, match=r"no variable in common.*'a', 'b' against 'c', 'd'"):
        metrics.compare(DAG(np.zeros((2, 2)), ["a", "b"]), DAG(np.zeros((2, 2)), ["c", "d"]))
