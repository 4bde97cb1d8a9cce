"""What is known beforehand: how it is said, what it refuses, and that every learner keeps it."""

from __future__ import annotations

import copy
import json
import pickle
import re
import warnings
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import bigdag
from bigdag import (
    DAG,
    DAGMA,
    GD,
    GOLEM,
    NOTEARS,
    AutoDAG,
    BootstrapDAG,
    Knowledge,
    OptiMAS,
    OrderSearch,
    ProxiMAS,
    SortRegress,
)
from bigdag.data.dataset import as_dataset
from bigdag.data.names import default_names
from bigdag.engine.gram import Gram
from bigdag.engine.limits import bounds, may, required
from bigdag.engine.order import rank_of
from bigdag.engine.screening import correlated
from bigdag.errors import DataError, DataWarning, ParameterError
from bigdag.graph.acyclic import is_acyclic
from bigdag.graph.equivalence import reversible
from bigdag.graph.feedback_arc_set import greedy_order, improve_order, kept_weight
from bigdag.knowledge.files import read_knowledge, read_part
from bigdag.knowledge.known import as_knowledge
from bigdag.search.ebic import arc_cost
from bigdag.simulate import random_dag, sample
from tests.learner_contract import deadline_at_look
from tests.strategies import known_cases

NAMES = ("tf1", "tf2", "gene1", "gene2", "age")


# ------------------------------------------------------------------ how it is said


def test_masks_tiers_and_pairs():
    known = Knowledge(
        regulators=["tf*"],
        root_nodes=["age"],
        sink_nodes=["tf2"],
        forbidden_edges=[("tf1", "gene2")],
        required_edges=[("tf1", "gene1")],
        temporal_order=[["age"], ["tf1", "tf2"]],
    )
    limits = known.match(NAMES)
    assert limits.cause.tolist() == [True, False, False, False, False]
    assert limits.effect.tolist() == [True, True, True, True, False]
    assert limits.tier.tolist() == [1, 1, -1, -1, 0]
    arcs = np.argwhere(limits.all_pairs()).tolist()
    assert arcs == [[0, 1], [0, 2]]
    assert limits.count() == 2
    assert np.argwhere(limits.required.toarray()).tolist() == [[0, 2]]


@pytest.mark.parametrize(
    "how",
    ["gene[12]", "gene?", "re:gene\\d", re.compile("gene."), "re:(?i)GENE[0-9]"],
)
def test_globs_and_regular_expressions(how):
    assert np.flatnonzero(~Knowledge(sink_nodes=[how]).match(NAMES).cause).tolist() == [2, 3]


def test_a_name_that_is_there_is_no_pattern():
    limits = Knowledge(sink_nodes=["x[1]"]).match(["x1", "x[1]"])
    assert limits.cause.tolist() == [True, False]
    known = Knowledge(
        temporal_order=[["smoke?"], ["smoker"]], root_nodes=["p?"], required_edges=[("pH", "pX")]
    )
    limits = known.match(["smoke?", "smoker", "p?", "pH", "pX"])
    assert limits.tier.tolist() == [0, 1, -1, -1, -1]
    assert limits.effect.tolist() == [True, True, False, True, True]


@pytest.mark.parametrize("which", [["x0"], ["x?"], ["re:x."], [0]])
@pytest.mark.parametrize("arc", [(0, 1), ("x0", "x1"), (0, "x1")])
def test_a_place_and_a_made_up_name_may_be_the_same_variable(which, arc):
    limits = Knowledge(regulators=which, required_edges=[arc]).match(default_names(3), named=False)
    assert limits.cause[0]
    assert limits.requires([0], [1]).all()
    with pytest.raises(ParameterError, match="not among the targets"):
        Knowledge(targets=[0], required_edges=[arc]).match(default_names(3), named=False)


def test_places_are_written_as_places(tmp_path):
    known = Knowledge(root_nodes=[0], temporal_order=[[1, "x2"], [3]], forbidden_edges=[(4, 2)])
    again = Knowledge(**json.loads(json.dumps(known.to_dict())))
    assert again == known
    names = default_names(5)
    here, there = (k.match(names, named=False).all_pairs() for k in (known, again))
    assert (here == there).all()
    X = np.random.default_rng(0).normal(size=(40, 5))
    model = OrderSearch(knowledge=again, checkpoint=tmp_path / "c").fit(X)
    assert model.dag_.about["knowledge"]["root_nodes"] == [0]


def test_names_in_a_tsv_file_may_hold_commas(tmp_path):
    file = tmp_path / "a.tsv"
    file.write_text("source\ttarget\n1,2-diol\tb\n\n1,3-diol\tc\n")
    assert read_part("forbidden_edges", file) == [("1,2-diol", "b"), ("1,3-diol", "c")]
    file.write_text("a, b\nc, d\n")
    assert read_part("forbidden_edges", file) == [("a", "b"), ("c", "d")]


def test_a_pattern_of_arcs_stands_for_all_but_loops():
    limits = Knowledge(forbidden_edges=[("tf*", "tf*"), ("tf1", "gene*")]).match(NAMES)
    found = np.argwhere(limits.forbidden.toarray()).tolist()
    assert found == [[0, 1], [0, 2], [0, 3], [1, 0]]


def test_tiers_by_numbers_and_integers_as_places():
    limits = Knowledge(temporal_order={"a": 2.5, "b": -1, "c": 2.5}).match(["a", "b", "c", "d"])
    assert limits.tier.tolist() == [1, 0, 1, -1]
    X = np.random.default_rng(0).normal(size=(30, 3))
    assert SortRegress(knowledge={"root_nodes": [2]}).fit(X).dag_.parents("x2") == []
    table = pd.DataFrame(X, columns=["2", "1", "0"])
    assert SortRegress(knowledge={"root_nodes": [2]}).fit(table).dag_.parents("2") == []


def test_any_object_with_the_names_of_pgmpy():
    theirs = SimpleNamespace(
        forbidden_edges={("a", "b")}, required_edges=set(), temporal_order=[["a", "b"], ["c"]],
        search_space=set(),
    )  # fmt: skip
    ours = as_knowledge(theirs)
    assert ours == Knowledge(forbidden_edges=[("a", "b")], temporal_order=[["a", "b"], ["c"]])
    theirs.search_space = {("a", "c")}
    with pytest.raises(ParameterError, match="search_space"):
        as_knowledge(theirs)
    with pytest.raises(ParameterError, match=r"a bigdag\.Knowledge"):
        as_knowledge("tfs.txt")


def test_it_is_copied_and_written():
    known = Knowledge(regulators=["a", re.compile("b.")], within_tier=False, unmatched="ignore")
    assert pickle.loads(pickle.dumps(known)) == copy.deepcopy(known) == known
    assert Knowledge(**known.to_dict()) == known
    assert "regulators" in repr(known)
    for pattern, text in [
        (re.compile("B.", re.I), "re:(?i)B."),
        (re.compile("(?i)B.", re.I), "re:(?i)B."),
    ]:
        loud = Knowledge(sink_nodes=[pattern])
        assert loud.to_dict() == {"sink_nodes": [text]}
        assert Knowledge(**loud.to_dict()).match(["a", "b1"]).cause.tolist() == [True, False]
    assert not Knowledge(unmatched="ignore")
    assert known != "regulators"


def test_regulators_of_a_wide_table_take_bytes_a_variable():
    names = [f"x{j}" for j in range(100_000)]
    limits = Knowledge(regulators=names[:1500], temporal_order=[names[:9], names[9:20]]).match(
        names
    )
    held = [*limits.rules, *limits.precedence[1:], limits.moves]
    assert sum(np.asarray(part).nbytes for part in held) < 100 * len(names)
    assert limits.moves.sum() == 1500 - 0
    assert limits.count() == 1500 * 99_999 - 11 * 9


# ------------------------------------------------------------------ what it refuses

ARC = ("dose", "pain")
BAD = [
    (
        {"required_edges": [ARC], "forbidden_edges": [ARC]},
        "'dose' -> 'pain' is required.*forbidden",
    ),
    (
        {"required_edges": [ARC], "temporal_order": [["pain"], ["dose"]]},
        "'dose'.*later tier.*'pain'",
    ),
    (
        {"required_edges": [ARC], "temporal_order": [["pain", "dose"]], "within_tier": False},
        "same tier",
    ),
    ({"required_edges": [ARC], "root_nodes": ["pain"]}, "'pain' is among the root_nodes"),
    ({"required_edges": [ARC], "sink_nodes": ["dose"]}, "'dose' is among the sink_nodes"),
    ({"required_edges": [ARC], "regulators": ["pain"]}, "'dose' is not among the regulators"),
    ({"required_edges": [ARC], "targets": ["dose"]}, "'pain' is not among the targets"),
    ({"required_edges": [ARC, ("pain", "dose")]}, "form a cycle: 'dose' -> 'pain' -> 'dose'"),
    ({"required_edges": [("a", "a")]}, "cause of itself"),
    (
        {
            "required_edges": [("late", "x"), ("x", "early")],
            "temporal_order": [["early"], ["late"]],
        },
        "cycle: .*tiers",
    ),
    ({"temporal_order": [["a"], ["b", "a"]]}, "'a' is in tier 0 and in tier 1"),
    ({"temporal_order": "ab"}, "list of tiers"),
    ({"temporal_order": {"a": "first"}}, "a number"),
    ({"root_nodes": [""]}, "empty name"),
    ({"root_nodes": ["re:"]}, "empty name"),
    ({"root_nodes": [re.compile("")]}, "empty regular"),
    ({"root_nodes": ["re:("]}, "no regular expression"),
    ({"root_nodes": [re.compile(b"x")]}, "expression for bytes"),
    ({"root_nodes": [1.5]}, "by text, integers"),
    ({"root_nodes": 1.5}, "names of variables"),
    ({"regulators": {"a": 1}}, "names of variables"),
    ({"regulators": []}, "at least one variable"),
    ({"targets": []}, "at least one variable"),
    ({"forbidden_edges": ["ab"]}, "pairs of a cause and an effect"),
    ({"forbidden_edges": 5}, "pairs of a cause and an effect"),
    ({"required_edges": [("a", "b", "c")]}, "pairs of a cause and an effect"),
    ({"within_tier": 1}, "True or False"),
    ({"unmatched": "drop"}, "'error' or 'ignore'"),
]


@pytest.mark.parametrize(("given_", "words"), BAD)
def test_what_contradicts_itself_is_refused_when_it_is_made(given_, words):
    with pytest.raises(ParameterError, match=words):
        Knowledge(**given_)


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"root_nodes": ["gene3"]}, "'gene3', which matches no variable.*Did you mean.*'gene"),
        ({"regulators": ["mirna*"]}, "'mirna\\*', which matches no"),
        ({"regulators": ["mirna"], "unmatched": "ignore"}, "at least one variable of the table"),
        ({"required_edges": [("tf*", "gene*")], "sink_nodes": ["re:tf[12]"]}, "'tf1' -> 'gene1'"),
        ({"required_edges": [("tf[12]", "age"), ("age", "tf2")]}, "cycle"),
    ],
)
def test_what_only_the_table_can_tell_is_refused_then(given_, words):
    known = Knowledge(**given_)
    with pytest.raises(ParameterError, match=words):
        known.match(NAMES)


def test_an_arc_to_itself_is_never_there_and_needs_not_be_forbidden():
    assert Knowledge(forbidden_edges=[("a", "a"), ("a", "b")]).match(["a", "b"]).count() == 1


def test_too_many_pairs_are_refused():
    names = [f"x{j}" for j in range(6000)]
    with pytest.raises(ParameterError, match="more than 20,000,000 arcs"):
        Knowledge(forbidden_edges=[("*", "*")]).match(names)


def test_a_learner_refuses_before_any_work():
    X = np.random.default_rng(0).normal(size=(20, 3))
    X[:, 0] = 1.0
    warnings.simplefilter("ignore", DataWarning)
    for known, error, words in [
        ({"regulators": ["x0"]}, DataError, "The only regulator of the table, 'x0', is constant"),
        ({"regulators": ["x9"]}, ParameterError, "matches no variable"),
        ({"regulator": ["x1"]}, ParameterError, "Did you mean 'regulators'"),
        ("x0", ParameterError, "must be a bigdag.Knowledge"),
    ]:
        learner, data = OrderSearch(knowledge=known), as_dataset(X)
        with pytest.raises(error, match=words):
            learner.fit(data)
        assert not hasattr(learner, "dag_")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("regulaters = ['a']", "'regulaters'.*Did you mean 'regulators'"),
        ("root_nodes = [", "no TOML"),
        ("regulators = 'none.txt'", "k.toml: regulators = 'none.txt' is text.*no file"),
        ("regulators = 'a'", r"no file .*as a list: regulators = \[\"a\"\]"),
        ("temporal_order = 'a'", r"temporal_order = \[\[\"a\"\], "),
        ("required_edges = 'a'", r"required_edges = \[\[\"a\", "),
        ("regulators = '.'", "cannot be read"),
        ("[regulators]\na = 1", "must be names of variables"),
        ("within_tier = 'no'", "True or False"),
        ("forbidden_edges = 'semicolons.csv'", "a comma between. Line 1 has 1"),
        ("forbidden_edges = 'long.csv'", "no CSV file.*line 1"),
        ("regulators = 'empty.txt'", "names no variable"),
        ("temporal_order = 'twice.csv'", "names 'a' twice"),
        ("temporal_order = 'words.csv'", "a number as its tier"),
        ("forbidden_edges = 'three.csv'", "two columns.*Line 2 has 3"),
        ("required_edges = [['a', 'b'], ['b', 'a']]", "k.toml: The required arcs form a cycle"),
    ],
)
def test_bad_files(tmp_path, text, words):
    (tmp_path / "k.toml").write_text(text)
    (tmp_path / "empty.txt").write_text("# none\n")
    (tmp_path / "twice.csv").write_text("name,tier\na,1\na,2\n")
    (tmp_path / "words.csv").write_text("a,first\n")
    (tmp_path / "three.csv").write_text("source,target\na,b,0.5\n")
    (tmp_path / "semicolons.csv").write_text("source;target\na;b\n")
    (tmp_path / "long.csv").write_text('a,"' + 200_000 * "b")
    with pytest.raises(ParameterError, match=words):
        read_knowledge(tmp_path / "k.toml")


def test_a_file_with_everything(tmp_path):
    (tmp_path / "tfs.txt").write_text("# known ones\ntf1\ntf2\n\n")
    (tmp_path / "tiers.csv").write_text("name,tier\ntf1,0\ngene1,1\n")
    (tmp_path / "bad.tsv").write_text("tf1\ttf2\n")
    (tmp_path / "k.toml").write_text(
        'regulators = "tfs.txt"\ntemporal_order = "tiers.csv"\nforbidden_edges = "bad.tsv"\n'
        'required_edges = [["tf1", "gene1"]]\nwithin_tier = false\n'
    )
    assert read_knowledge(tmp_path / "k.toml") == Knowledge(
        regulators=["tf1", "tf2"],
        temporal_order=[["tf1"], ["gene1"]],
        forbidden_edges=[("tf1", "tf2")],
        required_edges=[("tf1", "gene1")],
        within_tier=False,
    )


@pytest.mark.parametrize(
    ("text", "arcs"),
    [
        ("source,target\na,b\n", [("a", "b")]),
        ("target,source\nb,a\n", [("a", "b")]),
        ("Effect,Cause\nb,a\n", [("a", "b")]),
        ("source,source\n", [("source", "source")]),  # names no columns
        ('from,to\n"a, 1","b ""x"""\n', [("a, 1", 'b "x"')]),
        ("\ufeffcause,effect\r\na b,ü\r\n", [("a b", "ü")]),
    ],
)
def test_the_first_line_says_which_column_is_which(tmp_path, text, arcs):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8", newline="")
    assert read_part("forbidden_edges", tmp_path / "a.csv") == arcs


def test_tiers_whose_number_comes_first_and_a_file_that_begins_with_a_mark(tmp_path):
    (tmp_path / "t.csv").write_text("tier,name\n1,a\n0,b\n")
    (tmp_path / "k.toml").write_text("\ufefftemporal_order = 't.csv'", encoding="utf-8")
    assert read_knowledge(tmp_path / "k.toml").temporal_order == (("b",), ("a",))


# ------------------------------------------------------------------ tables that were prepared


def grouped():
    """Return a table in which b stands for c, too, and the effect of e was taken out."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 5))
    X[:, 3] += X[:, 1]
    X[:, 2] = X[:, 1]
    table = pd.DataFrame(X, columns=list("abcde"))
    return bigdag.prepare(table, duplicates="group", adjust=["e"]).data


@pytest.mark.parametrize(
    ("known", "arcs"),
    [
        ({"regulators": ["c"]}, [("b", "d")]),
        ({"regulators": ["[cz]"]}, [("b", "d")]),
        ({"required_edges": [("c", "a")], "sink_nodes": ["d"]}, [("b", "a"), ("b", "d")]),
        ({"forbidden_edges": [("b", "c"), ("c", "d"), ("d", "c")]}, []),
    ],
)
def test_what_is_said_of_a_column_in_a_group_is_said_of_the_group(known, arcs):
    data = grouped()
    assert data.names == ("a", "b", "d")
    for model in (
        OrderSearch(criterion="bic", knowledge=known).fit(data),
        OrderSearch(criterion="bic", knowledge=known).fit_around(data, "b"),
    ):
        found = model.dag_.edges()[["source", "target"]].to_numpy().tolist()
        assert sorted(map(tuple, found)) == arcs
        assert model.dag_.about["knowledge"] == Knowledge(**known).to_dict()


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"required_edges": [("b", "c")]}, "cause of itself.*'b' stands for 'c', too"),
        ({"temporal_order": [["b"], ["c"]]}, "'b' is in tier 0 and in tier 1.*stands for 'c'"),
        ({"root_nodes": ["e"]}, "names 'e', but 'e' was left out of the variables"),
        ({"root_nodes": ["[ez]"]}, "'e' was left out of the variables"),
        ({"root_nodes": ["f"]}, "matches no variable"),
    ],
)
def test_what_does_not_fit_a_table_that_was_prepared(known, words):
    learner, data = OrderSearch(knowledge=known), grouped()
    with pytest.raises(ParameterError, match=words):
        learner.fit(data)


# ------------------------------------------------------------------ what orders allow


def limits_of(case):
    return Knowledge(**case.known).match([f"x{j}" for j in range(len(case.tier))])


def literal_agreement(case, order):
    rank = rank_of(np.asarray(order))
    tiers = case.tier[order]
    tiers = tiers[tiers >= 0]
    i, j = np.nonzero(case.required)
    return bool((np.diff(tiers) >= 0).all() and (rank[i] < rank[j]).all())


@settings(max_examples=300, deadline=None)
@given(case=known_cases(), seed=st.integers(0, 2**32 - 1))
def test_limits_mean_what_is_said(case, seed):
    limits, d = limits_of(case), len(case.tier)
    i, j = np.indices((d, d)).reshape(2, -1)
    assert np.array_equal(limits.all_pairs(), case.possible)
    assert np.array_equal(limits.pairs(i, j).reshape(d, d), case.possible)
    assert np.array_equal(limits.children(np.arange(d)), case.possible)
    assert limits.count() == case.possible.sum()
    rules = limits.rules
    assert [may(rules, a, b) for a, b in zip(i, j) if a != b] == [
        case.possible[a, b] for a, b in zip(i, j) if a != b
    ]
    assert [required(rules, a, b) for a, b in zip(i, j)] == case.required.ravel().tolist()
    rng = np.random.default_rng(seed)
    order = rng.permutation(d)
    assert limits.agrees(order) == literal_agreement(case, order)
    near = limits.extended(order)
    assert sorted(near) == list(range(d))
    assert literal_agreement(case, near)
    # A variable may move exactly to the places where the order still agrees.
    low, high = limits.interval(near)
    rank = rank_of(near)
    for v in np.flatnonzero(limits.moves):
        places = [p for p in range(d) if literal_agreement(case, np.insert(near[near != v], p, v))]
        assert [p for p in range(d) if low[v] < p < high[v]] == places
        inside = bounds(rules, near, rank, v)
        assert max(low[v], inside[0]) == inside[0]
        assert min(high[v], inside[1]) == inside[1]
        assert inside[0] < rank[v] < inside[1]


@settings(max_examples=300, deadline=None)
@given(case=known_cases(), seed=st.integers(0, 2**32 - 1))
def test_algorithm_2_under_precedence(case, seed):
    limits, d = limits_of(case), len(case.tier)
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.6)
    order = greedy_order(W, limits.precedence)
    assert literal_agreement(case, order)
    # The literal rule: of those that may come next, the one with the least weight coming in.
    left = list(range(d))
    np.fill_diagonal(W, 0)
    for taken in order:
        free = [v for v in left if not _waits(case, left, v)]
        scores = {v: float((W[left, v] ** 2).sum()) for v in free}
        assert taken in free
        assert scores[taken] <= min(scores.values()) + 1e-9
        left.remove(taken)
    better = improve_order(W, order, precedence=limits.precedence)
    assert sorted(better) == list(range(d))
    assert literal_agreement(case, better)
    assert kept_weight(W, better) >= kept_weight(W, order) - 1e-9
    assert np.array_equal(improve_order(W * 0, order, precedence=limits.precedence), order)


def _waits(case, left, v):
    """Tell whether something that is left has to come before v."""
    return any(case.required[u, v] or 0 <= case.tier[u] < case.tier[v] for u in left)


def test_without_precedence_algorithm_2_is_as_it_was():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(30, 30)) * (rng.random((30, 30)) < 0.3)
    nothing = Knowledge(root_nodes=["x0"]).match([f"x{j}" for j in range(30)]).precedence
    assert np.array_equal(greedy_order(W), greedy_order(W, nothing))


def test_correlated_among_a_few():
    X = sample(random_dag(40, 2, rng=0), 100, rng=1)
    few = np.array([3, 7, 30])
    for hold in (True, False):
        gram = Gram(as_dataset(X), hold=hold)
        whole = sp.csr_array((np.ones(len(correlated(gram, 0.3)[1])), *correlated(gram, 0.3)[::-1]))
        indptr, indices = correlated(gram, 0.3, among=few)
        for v in range(40):
            found = set(indices[indptr[v] : indptr[v + 1]].tolist())
            every = set(whole.indices[whole.indptr[v] : whole.indptr[v + 1]].tolist())
            assert found == every & set(few.tolist())


# ------------------------------------------------------------------ that learners keep it

QUICK = {"n_jobs": 1, "random_state": 0}
LEARNERS = {
    "sort": lambda: SortRegress(**QUICK),
    "random order": lambda: SortRegress(order="random", **QUICK),
    "lasso, MAS": lambda: SortRegress(order="lasso_mas", **QUICK),
    "no arcs": lambda: SortRegress(order="empty", **QUICK),
    "least squares": lambda: OrderSearch(**QUICK),
    "least squares, cut": lambda: OrderSearch(candidates="correlated", threshold=0.3, **QUICK),
    "BIC": lambda: OrderSearch(criterion="bic", restarts=2, **QUICK),
    "BIC, cut": lambda: OrderSearch(criterion="bic", penalty="auto", threshold="auto", **QUICK),
    "automatic": lambda: AutoDAG(missing="error", transformation="none", **QUICK),
    "ProxiMAS": lambda: ProxiMAS(max_iter=12, **QUICK),
    "ProxiMAS, improved": lambda: ProxiMAS(improve=True, start="zeros", max_iter=8, **QUICK),
    "ProxiMAS, dense": lambda: ProxiMAS(engine="dense", max_iter=6, **QUICK),
    "GD": lambda: GD(n_restarts=1, max_iter=8, **QUICK),
    "OptiMAS": lambda: OptiMAS(max_iter=4, **QUICK),
    "OptiMAS, sparse": lambda: OptiMAS(engine="sparse", max_iter=4, **QUICK),
    "NOTEARS": lambda: NOTEARS(max_iter=10, **QUICK),
    "NOTEARS, soft": lambda: NOTEARS(solver="soft_penalty", max_iter=4, **QUICK),
    "GOLEM": lambda: GOLEM(max_iter=4, **QUICK),
    "DAGMA": lambda: DAGMA(max_iter=10, **QUICK),
}


BOOTSTRAPS = {
    "BIC": lambda known: BootstrapDAG(
        OrderSearch(criterion="bic", knowledge=known), n_resamples=4, random_state=0, n_jobs=1
    ),
    "sort": lambda known: BootstrapDAG(
        SortRegress(lambda1=0.02, knowledge=known), n_resamples=4, random_state=0, n_jobs=1
    ),
}


def check_kept(model, case):
    W = model.weights_.toarray() != 0
    assert not (W & ~case.possible).any()
    assert W[case.required].all()
    assert is_acyclic(model.weights_)
    assert literal_agreement(case, model.order_)
    rank, (i, j) = rank_of(model.order_), np.nonzero(W)
    assert (rank[i] < rank[j]).all()
    raw = getattr(model, "raw_weights_", None)
    assert raw is None or not (raw.toarray()[~case.possible]).any()
    if case.required.any():
        arcs = model.weights_.tocoo()
        assert np.array_equal(model.dag_.arc_data["required"], case.required[arcs.row, arcs.col])


@pytest.mark.parametrize("word", LEARNERS)
@settings(max_examples=60, deadline=None)
@given(case=known_cases(), look=st.sampled_from([None, None, 1, 2, 4, 9]))
def test_every_learner_keeps_what_is_known(word, case, look):
    varies = case.X.std(axis=0) > 0
    sinks = case.known.get("sink_nodes", [])
    regulators = [int(v[1:]) for v in case.known.get("regulators", []) if v not in sinks]
    learner = LEARNERS[word]().set_params(knowledge=Knowledge(**case.known))
    with warnings.catch_warnings(), deadline_at_look(look):
        warnings.simplefilter("ignore")
        if regulators and varies.any() and not varies[regulators].any():
            with pytest.raises(DataError, match="constant"):
                learner.fit(case.X)
            return
        learner.fit(case.X)
    check_kept(learner, case)


@pytest.mark.parametrize("word", BOOTSTRAPS)
@settings(max_examples=60, deadline=None)
@given(case=known_cases(), threshold=st.sampled_from([0.1, 0.5]))
def test_a_consensus_of_resamples_keeps_what_is_known(word, case, threshold):
    model = BOOTSTRAPS[word](Knowledge(**case.known)).set_params(threshold=threshold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(case.X)
        except DataError:  # the only regulators are constant columns
            assert not case.X[:, case.possible.any(axis=1)].std(axis=0).any()
            return
    check_kept(model, case)
    loose = model.dag_.reversible.toarray()
    assert not (loose & ~case.possible.T).any()  # possible one way only, so directed
    assert not (loose & case.required).any()


def test_resamples_with_regulators_are_searched_as_one_fit_is():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 40))
    X[:, 8:] += X[:, :8] @ (rng.normal(size=(8, 32)) * (rng.random((8, 32)) < 0.3))
    known = Knowledge(regulators=[f"x{j}" for j in range(8)])
    learner = OrderSearch(criterion="bic", knowledge=known)
    quick = BootstrapDAG(learner, n_resamples=20, random_state=0).fit(X)
    slow = BootstrapDAG(learner, n_resamples=20, random_state=0, random_starts=False).fit(X)
    gap = np.abs((quick.adjacency_prob_ - slow.adjacency_prob_).toarray())
    assert gap.max() <= 0.3  # the same rows, from another start
    assert gap[:8, 8:].mean() < 0.01


def test_every_public_learner_is_among_them():
    made = {type(make()).__name__ for make in LEARNERS.values()}
    classes = {n for n in bigdag.__all__ if hasattr(getattr(bigdag, n), "fit")}
    assert classes - {"BootstrapDAG"} == made


def test_a_required_arc_between_independent_or_constant_columns_stays():
    X = np.random.default_rng(0).normal(size=(200, 4))
    X[:, 3] = 5.0
    known = Knowledge(required_edges=[("x0", "x1"), ("x3", "x2"), ("x2", "x0")])
    with pytest.warns(DataWarning):
        model = OrderSearch(lambda1=5.0, knowledge=known).fit(X)
    assert sorted(map(tuple, np.argwhere(model.weights_.toarray()))) == [(0, 1), (2, 0), (3, 2)]
    expected = np.linalg.lstsq(X[:, [0]] - X[:, [0]].mean(), X[:, 1] - X[:, 1].mean(), rcond=None)
    assert model.weights_[0, 1] == pytest.approx(expected[0][0])


def test_a_wrong_required_arc_changes_its_surroundings_only():
    truth = random_dag(30, 1, rng=3)
    X = sample(truth, 500, rng=4)
    free = OrderSearch(criterion="bic").fit(X)
    i, j = (int(v) for v in truth.order[[0, -1]])
    known = Knowledge(required_edges=[(f"x{i}", f"x{j}")])
    bound = OrderSearch(criterion="bic", knowledge=known).fit(X)
    assert bound.weights_[i, j] != 0
    assert ((free.weights_ != 0) != (bound.weights_ != 0)).nnz <= 4


def test_true_tiers_direct_what_the_data_cannot():
    truth = random_dag(40, 1, rng=0)
    X = sample(truth, 300, rng=1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    tiers = [[f"x{v}" for v in part] for part in np.array_split(truth.order, 5)]
    hits = []
    for known in (None, Knowledge(temporal_order=tiers)):
        model = OrderSearch(criterion="bic", knowledge=known).fit(X)
        hits.append(((model.weights_ != 0).multiply(truth.weights != 0)).nnz)
    assert hits[1] > hits[0]


def test_only_regulators_take_part_in_the_search():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 60))
    X[:, 6:] += X[:, :6] @ (rng.normal(size=(6, 54)) * (rng.random((6, 54)) < 0.3))
    known = Knowledge(regulators=[f"x{j}" for j in range(6)])
    for criterion in ("bic", "least_squares"):
        model = OrderSearch(criterion=criterion, knowledge=known).fit(X)
        assert set(model.order_[:6]) == set(range(6))
        assert set(model.weights_.tocoo().row) <= set(range(6))
    # Each other variable is one regression, whatever the order of the regulators.
    one = OrderSearch(criterion="bic", knowledge=known).fit(X).weights_
    alone = OrderSearch(
        criterion="bic", knowledge=Knowledge(regulators=[f"x{j}" for j in range(5, -1, -1)])
    ).fit(X)
    assert np.array_equal((one != 0).toarray(), (alone.weights_ != 0).toarray())


def test_no_regulator_is_missed_whose_arc_is_worth_its_cost():
    """Also one that is not correlated by itself, as the effect of another regulator hides it."""
    rng = np.random.default_rng(0)
    n, d, few = 150, 200, 20
    W = np.zeros((d, d))
    for v in range(few, d):
        W[rng.choice(few, 2, replace=False), v] = rng.choice([-1, 1], 2) * rng.uniform(0.4, 1, 2)
    X = sample(DAG(W), n, variance="NV", rng=rng)
    known = Knowledge(regulators=range(few))
    found = OrderSearch(criterion="bic", knowledge=known).fit(X).weights_.toarray() != 0
    X = X - X.mean(axis=0)

    def left(parents, v):
        return (
            np.linalg.lstsq(X[:, parents], X[:, v], rcond=None)[1].sum()
            if parents
            else X[:, v] @ X[:, v]
        )

    cost = arc_cost(n, d)
    for v in range(few, d):
        parents = list(np.flatnonzero(found[:, v]))
        for u in set(range(few)) - set(parents):
            assert n * np.log(left(parents, v) / left([*parents, u], v)) < cost + 1e-6


def test_a_threshold_spares_required_arcs():
    X = np.random.default_rng(0).normal(size=(100, 3))
    known = Knowledge(required_edges=[("x2", "x0")])
    for threshold in (10.0, "auto"):
        model = OrderSearch(lambda1=0.0, threshold=threshold, knowledge=known).fit(X)
        assert np.argwhere(model.weights_.toarray()).tolist() == [[2, 0]]


def test_the_answer_keeps_what_was_known(tmp_path):
    X = sample(random_dag(6, 1, rng=0), 100, rng=0)
    known = Knowledge(required_edges=[("x5", "x0")], root_nodes=["x5"])
    dag = SortRegress(knowledge=known).fit(X).dag_
    for suffix in (".npz", ".parquet", ".json", ".graphml"):
        dag.save(tmp_path / f"a{suffix}")
        again = DAG.load(tmp_path / f"a{suffix}")
        assert again.about["knowledge"] == known.to_dict()
        assert again.arc_data["required"].sum() == 1
    assert SortRegress().fit(X).dag_.about == {}


# ------------------------------------------------------------------ CPDAGs


@settings(max_examples=60, deadline=None)
@given(case=known_cases(max_d=5), seed=st.integers(0, 2**32 - 1))
def test_directed_arcs_are_those_of_all_dags_that_keep_it(case, seed):
    """By listing every DAG on the skeleton: Meek's rules direct all that follows, and no more."""
    case = case._replace(tier=case.tier)
    if any(name in case.known for name in ("temporal_order",)) and (case.tier < 0).any():
        return  # what free variables must not carry back in time is no matter of single arcs
    limits, d = limits_of(case), len(case.tier)
    rng = np.random.default_rng(seed)
    order = limits.extended(rng.permutation(d))
    rank = rank_of(order)
    arcs = case.possible & (rank[:, None] < rank) & (rng.random((d, d)) < 0.6) | case.required
    weights = sp.csc_array(arcs.astype(float))
    found = reversible(weights, order, limits).toarray()
    classes = _equivalent(arcs)
    keep = [W for W in classes if not (W & ~case.possible).any() and W[case.required].all()]
    assert any(np.array_equal(W, arcs) for W in keep)
    turned = np.any([W.T for W in keep], axis=0) & arcs
    assert np.array_equal(found, turned)


def test_two_causes_of_two_effects_do_not_direct_the_arc_between_the_effects():
    """Meek's third rule asks for undirected arcs from the tail: here they run into it."""
    arcs = np.zeros((6, 6))
    arcs[:2, 2:4] = arcs[2, 3] = arcs[4, 5] = 1.0
    known = Knowledge(required_edges=[("x4", "x5")])  # so that the rules are asked at all
    limits = known.match([f"x{j}" for j in range(6)])
    found = reversible(sp.csc_array(arcs), np.arange(6), limits).toarray()
    assert np.argwhere(found).tolist() == [[2, 3]]


def _equivalent(arcs):
    """Return every DAG with the same skeleton and the same colliders."""
    d, skeleton = len(arcs), arcs | arcs.T

    def colliders(W):
        return {
            (a, c, b)
            for c in range(d)
            for a, b in permutations(np.flatnonzero(W[:, c]).tolist(), 2)
            if not skeleton[a, b]
        }

    wanted, found = colliders(arcs), {}
    for order in permutations(range(d)):
        rank = np.argsort(order)
        W = skeleton & (rank[:, None] < rank)
        if colliders(W) == wanted:
            found[W.tobytes()] = W
    return list(found.values())


# ------------------------------------------------------------------ one variable


def test_around_one_variable_the_arcs_are_those_of_the_whole():
    X = sample(random_dag(400, 1, rng=0), 500, rng=1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    whole = OrderSearch(criterion="bic").fit(X).dag_
    wanted = both = 0
    for v in range(0, 400, 40):
        model = OrderSearch(criterion="bic").fit_around(X, v)
        near = whole.neighbourhood(v, 2)
        assert f"x{v}" in model.dag_.names
        ends = [
            {frozenset(arc) for arc in dag.edges()[["source", "target"]].to_numpy().tolist()}
            for dag in (near, model.dag_)
        ]
        wanted, both = wanted + len(ends[0]), both + len(ends[0] & ends[1])
        assert len(model.around_.columns) < 400
    assert both >= 0.9 * wanted


def test_around_one_variable_no_column_is_both_looked_at_and_passed_over():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 60)) + rng.normal(size=(200, 1))  # all are correlated with all
    around = OrderSearch(criterion="bic").fit_around(X, "x0", radius=1).around_
    assert len(around.columns) + around.left_out <= around.n_columns == 60


def test_around_one_variable_knowledge_is_kept():
    X = sample(random_dag(60, 1, rng=0), 300, rng=1)
    known = Knowledge(regulators=list(range(20)), required_edges=[(3, 4)])
    for v in (4, 30):
        model = OrderSearch(criterion="bic", knowledge=known).fit_around(X, v)
        assert set(model.dag_.edges()["source"]) <= {f"x{j}" for j in range(20)}
        assert v != 4 or "x3" in model.dag_.parents("x4")
    X = np.random.default_rng(0).normal(size=(100, 4))
    model = OrderSearch(criterion="bic", knowledge={"regulators": [0]}).fit_around(X, "x3")
    assert model.dag_.names == ("x3",)
    assert "passed over" in model.around_.sentence()
    learner = OrderSearch(criterion="bic")
    with pytest.raises(ParameterError, match="column of the table"):
        learner.fit_around(X, "x9")
    with pytest.raises(ParameterError, match="radius"):
        learner.fit_around(X, "x0", 0)
    assert learner.fit_around(grouped(), "c").dag_.names == ("b", "d")
