import itertools

import networkx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bigdag.engine.order import project, rank_of
from bigdag.errors import ParameterError
from bigdag.graph.acyclic import acyclic_threshold, is_acyclic, topological_order
from bigdag.graph.feedback_arc_set import (
    _arc_keys,
    greedy_order,
    greedy_order_dense,
    improve_order,
    kept_weight,
)

from .literal import greedy_mas
from .strategies import clustered_weights, weight_matrices


def random_weights(rng, d, density=0.5):
    W = rng.normal(size=(d, d)) * (rng.random((d, d)) < density)
    np.fill_diagonal(W, 0)
    return W


def dyadic_weights(rng, d, density=0.5):
    """Weights whose squares add up without rounding, so that the literal sums are exact too."""
    W = rng.integers(-16, 17, size=(d, d)) / 16 * (rng.random((d, d)) < density)
    np.fill_diagonal(W, 0)
    return W


@pytest.mark.parametrize("seed", range(30))
def test_same_order_as_the_literal_algorithm(seed):
    rng = np.random.default_rng(seed)
    W = dyadic_weights(rng, d=int(rng.integers(2, 30)), density=rng.uniform(0.1, 1))
    W[0, 1] = 1.0  # with W = 0 the printed algorithm returns node 0 every time
    projected, order = greedy_mas(W)
    assert greedy_order(W).tolist() == order[::-1].tolist()
    assert greedy_order(sp.csc_array(W)).tolist() == order[::-1].tolist()
    assert np.array_equal(project(W, greedy_order(W)).toarray(), projected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(10))
def test_full_torch_and_heap_give_the_same_order(seed, dtype):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 80))
    W = torch.tensor(random_weights(rng, d, 0.3) * 10.0 ** rng.uniform(-8, 8, size=(d, d)))
    W = W.to(dtype)
    heap = greedy_order(sp.csc_array(W.numpy())).tolist()
    assert greedy_order_dense(W).tolist() == heap
    assert greedy_order(W.numpy()).tolist() == heap


@given(weight_matrices())
def test_any_weights_give_a_permutation_and_an_acyclic_subgraph(W):
    order = greedy_order(W)
    assert sorted(order) == list(range(len(W)))
    kept = project(W, order).toarray()
    assert is_acyclic(kept)
    assert np.array_equal(kept[kept != 0], W[kept != 0])
    assert np.all(np.diag(kept) == 0)
    assert greedy_order_dense(torch.tensor(W)).tolist() == order.tolist()
    assert greedy_order(sp.csc_array(W)).tolist() == order.tolist()


@given(weight_matrices())
def test_projecting_twice_changes_nothing(W):
    once = project(W, greedy_order(W))
    twice = project(once, greedy_order(once))
    assert (once != twice).nnz == 0


@pytest.mark.parametrize("seed", range(20))
def test_relabelling_random_weights_relabels_the_kept_arcs(seed):
    rng = np.random.default_rng(seed)
    # With weights drawn at random no scores but those of zero are tied, and a variable that has
    # no arc left may go at any time: the kept arcs do not depend on it.
    W = random_weights(rng, 8, density=rng.uniform(0.2, 1))
    label = rng.permutation(8)
    relabelled = np.zeros_like(W)
    relabelled[np.ix_(label, label)] = W
    kept = np.zeros_like(W)
    kept[np.ix_(label, label)] = project(W, greedy_order(W)).toarray()
    assert np.array_equal(kept, project(relabelled, greedy_order(relabelled)).toarray())


@given(weight_matrices())
def test_improvement_never_keeps_less(W):
    scale = np.abs(W).max() or 1.0
    order = greedy_order(W)
    better = improve_order(W, order)
    assert sorted(better) == list(range(len(W)))
    before, after = (kept_weight(W / scale, o) for o in (order, better))
    assert after >= before * (1 - 1e-12)


@settings(max_examples=30)
@given(weight_matrices(max_d=5))
def test_improvement_is_bounded_by_the_best_order(W):
    scale = np.abs(W).max() or 1.0
    best = max(kept_weight(W / scale, np.array(o)) for o in itertools.permutations(range(len(W))))
    assert kept_weight(W / scale, improve_order(W, greedy_order(W))) <= best * (1 + 1e-12)


def test_improvement_ends_where_no_single_move_gains():
    rng = np.random.default_rng(0)
    W = random_weights(rng, 12)
    order = improve_order(W, greedy_order(W))
    kept = kept_weight(W, order)
    for v in range(12):
        rest = [u for u in order if u != v]
        for place in range(12):
            moved = np.array([*rest[:place], v, *rest[place:]])
            assert kept_weight(W, moved) <= kept * (1 + 1e-9)


def test_improvement_keeps_all_arcs_between_components():
    W = np.zeros((4, 4))
    W[0, 1], W[1, 0], W[2, 3], W[3, 2], W[2, 0] = 1, 2, 3, 1, 0.01
    order = improve_order(W, np.array([0, 1, 2, 3]))
    assert project(W, order).toarray()[2, 0] == 0.01
    assert kept_weight(W, order) == pytest.approx(4 + 9 + 0.0001)


def kept_keys(W, order):
    """The kept weight as an exact whole number."""
    keys, rank = _arc_keys(W, both_ends=True).tocoo(), rank_of(order)
    return sum(int(k) for k in keys.data[rank[keys.row] < rank[keys.col]])


def single_moves(order):
    """All orders that differ by the place of one variable."""
    for v in order:
        rest = [u for u in order if u != v]
        yield from (np.array([*rest[:place], v, *rest[place:]]) for place in range(len(order)))


@settings(max_examples=300)
@given(clustered_weights(), st.randoms(use_true_random=False))
def test_improvement_of_several_components(W, random):
    shuffled = list(range(len(W)))
    random.shuffle(shuffled)
    _, component = sp.csgraph.connected_components(W != 0, connection="strong")
    between = (W != 0) & (component[:, None] != component)
    for start in (greedy_order(W), np.array(shuffled)):
        better = improve_order(W, start)
        assert sorted(better) == list(range(len(W)))
        assert kept_keys(W, better) >= kept_keys(W, start)
        rank = rank_of(better)
        assert not (between & (rank[:, None] > rank)).any()


@settings(max_examples=60)
@given(clustered_weights(max_d=7), st.randoms(use_true_random=False))
def test_no_single_move_gains_after_an_improvement(W, random):
    shuffled = list(range(len(W)))
    random.shuffle(shuffled)
    better = improve_order(W, np.array(shuffled))
    kept = kept_keys(W, better)
    assert all(kept_keys(W, moved) <= kept for moved in single_moves(better.tolist()))


@pytest.mark.parametrize("seed", range(5))
def test_improvement_of_many_large_components(seed):
    rng = np.random.default_rng(seed)
    d = 300
    part = rng.integers(0, 12, d)
    inside, onward = part[:, None] == part, part[:, None] < part
    W = rng.normal(size=(d, d)) * (inside * 0.2 + onward * 0.01 > rng.random((d, d)))
    np.fill_diagonal(W, 0)
    start = rng.permutation(d)
    better = improve_order(W, start)
    rank = rank_of(better)
    assert kept_keys(W, better) > kept_keys(W, start)
    assert not (onward & (W != 0) & (rank[:, None] > rank)).any()


@pytest.mark.parametrize("spokes", [9, 40])
def test_improvement_moves_a_hub_whose_arcs_add_up_to_more_than_a_column(spokes):
    W = np.zeros((spokes + 1, spokes + 1))
    W[0, 1:], W[1:, 0] = 1.0, 0.25
    order = improve_order(W, np.arange(spokes + 1)[::-1])
    assert order[0] == 0
    assert kept_weight(W, order) == spokes


@settings(max_examples=100)
@given(weight_matrices(max_d=7))
@example(np.ones((6, 6)) - np.eye(6))
@example(np.triu(np.ones((7, 7)), 1))
def test_the_threshold_is_the_smallest_that_leaves_no_cycle(W):
    np.fill_diagonal(W, 0)
    threshold, kept = acyclic_threshold(W)
    assert np.array_equal(kept.toarray(), np.where(np.abs(W) > threshold, W, 0))
    levels = [0.0, *np.unique(np.abs(W[W != 0]))]
    assert threshold == min(t for t in levels if is_acyclic(np.where(np.abs(W) > t, W, 0)))


def test_the_threshold_of_a_full_matrix():
    rng = np.random.default_rng(0)
    for d, heavy in ((40, 0), (40, 500), (60, 1500)):  # heavy arcs without a cycle among them
        W = rng.normal(size=(d, d))
        upper = np.argwhere(np.triu(np.ones((d, d)), 1))
        i, j = upper[rng.permutation(len(upper))[:heavy]].T
        W[i, j] += 10 * np.sign(W[i, j])
        np.fill_diagonal(W, 0)
        threshold, kept = acyclic_threshold(W)
        assert is_acyclic(kept)
        assert kept.nnz >= heavy
        assert not is_acyclic(np.where(np.abs(W) >= threshold, W, 0))


@pytest.mark.parametrize("value", [1e-200, 1e200, 0.0])
def test_squares_that_vanish_or_overflow(value):
    W = np.full((5, 5), value) * (1 - np.eye(5))
    W[0, 1] = 2 * value
    assert sorted(greedy_order(W)) == [0, 1, 2, 3, 4]
    assert is_acyclic(project(W, greedy_order(W)))


def test_light_arcs_beside_heavy_ones_still_count():
    W = np.zeros((3, 3))
    W[0, 1], W[2, 0] = 1e12, 1e-12
    assert project(W, greedy_order(W)).nnz == 2


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers(value):
    W = np.array([[0, value], [0, 0]])
    with pytest.raises(ParameterError, match="finite"):
        greedy_order(W)
    with pytest.raises(ParameterError, match="finite"):
        greedy_order_dense(torch.tensor(W))


def test_not_square():
    with pytest.raises(ParameterError, match="square"):
        greedy_order(np.ones((2, 3)))


def test_topological_order_against_networkx():
    rng = np.random.default_rng(0)
    for _ in range(50):
        W = random_weights(rng, 7, 0.2)
        order = topological_order(W)
        graph = networkx.from_numpy_array(W, create_using=networkx.DiGraph)
        assert networkx.is_directed_acyclic_graph(graph) == (order is not None)
        if order is not None:
            rank = rank_of(order)
            i, j = np.nonzero(W)
            assert (rank[i] < rank[j]).all()


def test_explicit_zeros_are_no_arcs():
    W = sp.csc_array((np.array([1.0, 0.0]), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, 2))
    W = sp.csc_array(([1.0, 0.0], ([0, 1], [1, 0])), shape=(2, 2))
    assert is_acyclic(W)
    assert project(W, np.array([1, 0])).nnz == 0


def test_a_diagonal_far_above_the_arcs_changes_nothing():
    W = np.array([[1e9, 0.0], [1e-300, 0.0]])
    assert greedy_order_dense(torch.tensor(W)).tolist() == greedy_order(W).tolist() == [1, 0]
