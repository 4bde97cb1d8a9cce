import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from sklearn.linear_model import Lasso

from bigdag.data.dataset import Dataset, as_dataset
from bigdag.engine import lasso, objective
from bigdag.engine.descent import descend
from bigdag.engine.gram import Gram
from bigdag.engine.order import rank_of
from bigdag.simulate import random_dag, sample

from .strategies import tables


def make(d=30, k=2, n=200, seed=0, **options):
    rng = np.random.default_rng(seed)
    dag = random_dag(d, k, rng=rng)
    X = sample(dag, n, rng=rng)
    return X, Gram(as_dataset(X), **options), dag


def sklearn_column(X, j, allowed, lambda1):
    """Solve one column by scikit-learn, on scaled columns where variances are far apart."""
    X = X - X.mean(axis=0)
    w = np.zeros(X.shape[1])
    if allowed.any():
        model = Lasso(alpha=lambda1, fit_intercept=False, tol=1e-14, max_iter=10**6)
        w[allowed] = model.fit(X[:, allowed], X[:, j]).coef_
    return w


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("hold", [True, False])
@pytest.mark.parametrize("constraint", ["all", "order", "mask", "both"])
def test_columns_equal_sklearn(constraint, hold):
    X, gram, dag = make(hold=hold, d=20)
    rng = np.random.default_rng(1)
    allowed = ~np.eye(20, dtype=bool)
    order = mask = None
    if constraint in ("order", "both"):
        order = dag.order
        rank = rank_of(order)
        allowed &= rank[:, None] < rank
    if constraint in ("mask", "both"):
        inside = rng.random((20, 20)) < 0.4
        mask = sp.csc_array(inside.astype(float))
        allowed &= inside
    fit = lasso.solve(gram, 0.1, order=order, mask=mask, tol=1e-12)
    for j in range(20):
        expected = sklearn_column(X, j, allowed[:, j], 0.1)
        assert fit.weights.toarray()[:, j] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float32_data_are_solved_in_float64(dtype):
    X, _, _ = make(d=10)
    X = X.astype(dtype)
    fit = lasso.solve(Gram(as_dataset(X)), 0.1, tol=1e-12)
    for j in range(10):
        expected = sklearn_column(X.astype(np.float64), j, np.arange(10) != j, 0.1)
        assert fit.weights.toarray()[:, j] == pytest.approx(expected, abs=1e-6)


def dense_gap(X, W, j, allowed, lambda1):
    """Return objective and duality gap of one column in the original units, from the definition."""
    X = X - X.mean(axis=0)
    n = len(X)
    r = X[:, j] - X @ W[:, j]
    primal = r @ r / (2 * n) + lambda1 * np.abs(W[:, j]).sum()
    correlation = np.abs(X[:, allowed].T @ r).max(initial=0) / n
    s = min(1.0, lambda1 / correlation) if correlation else 1.0
    return primal, primal - (s * (X[:, j] @ r) - s * s / 2 * (r @ r)) / n


def test_reported_objective_and_gap_hold():
    X, gram, _ = make(d=25, n=100)
    fit = lasso.solve(gram, 0.1, tol=1e-6)
    W = fit.weights.toarray()
    assert fit.complete
    assert fit.objective.sum() == pytest.approx(objective.value(gram, fit.weights, 0.1))
    for j in range(25):
        primal, gap = dense_gap(X, W, j, np.arange(25) != j, 0.1)
        assert fit.objective[j] == pytest.approx(primal)
        assert fit.gap[j] <= 1e-6 * fit.objective[j]
        # The reported gap takes the best point along the residual, so it is the smaller one.
        assert fit.gap[j] <= gap + 1e-12
        assert gap <= 1e-3 * primal


@pytest.mark.parametrize("ordered", [False, True])
def test_er4_with_its_spread_of_variances(ordered):
    X, gram, dag = make(d=120, k=4, n=1000, seed=1)
    assert gram.sd.max() / gram.sd.min() > 50
    fit = lasso.solve(gram, 0.1, order=dag.order if ordered else None, tol=1e-6)
    assert fit.complete
    centred = X - X.mean(axis=0)
    correlation = centred.T @ (centred - centred @ fit.weights.toarray()) / len(X)
    active = fit.weights.toarray() != 0
    assert np.abs(np.abs(correlation[active]) - 0.1).max() < 2e-3
    rank = rank_of(dag.order)
    allowed = (rank[:, None] < rank) if ordered else ~np.eye(120, dtype=bool)
    assert np.abs(correlation[allowed]).max() < 0.1 + 2e-3


@settings(max_examples=25)
@given(tables())
def test_units_do_not_matter(X):
    """W scales with the columns when each penalty does; here through lambda1 of a single scale."""
    gram = Gram(as_dataset(X))
    factor = 1e3
    fit = lasso.solve(gram, 0.1, tol=1e-9)
    scaled = lasso.solve(Gram(as_dataset(X * factor)), 0.1 * factor**2, tol=1e-9)
    assert scaled.objective == pytest.approx(fit.objective * factor**2, rel=1e-6)


def test_start_is_certified_without_work():
    _, gram, _ = make()
    fit = lasso.solve(gram, 0.1, tol=1e-6)
    again = lasso.solve(gram, 0.1, start=fit.weights, tol=1e-5)
    assert np.array_equal(fit.weights.indices, again.weights.indices)
    assert again.weights.data == pytest.approx(fit.weights.data, rel=1e-12)


def test_start_outside_of_the_order_is_dropped():
    _, gram, dag = make()
    free = lasso.solve(gram, 0.1)
    fit = lasso.solve(gram, 0.1, order=dag.order, start=free.weights, tol=1e-8)
    cold = lasso.solve(gram, 0.1, order=dag.order, tol=1e-8)
    assert fit.objective == pytest.approx(cold.objective, rel=1e-7)


def test_only_some_columns():
    _, gram, _ = make()
    whole = lasso.solve(gram, 0.1, tol=1e-8).weights.toarray()
    fit = lasso.solve(gram, 0.1, columns=np.array([3, 7]), tol=1e-8)
    assert fit.weights.toarray()[:, [3, 7]] == pytest.approx(whole[:, [3, 7]], abs=1e-4)
    assert np.isinf(np.delete(fit.gap, [3, 7])).all()
    assert np.abs(fit.weights.toarray()).sum(axis=0)[0] == 0


def test_stop_leaves_the_rest_at_its_start():
    _, gram, _ = make()
    fit = lasso.solve(gram, 0.1, stop=lambda: True)
    assert fit.weights.nnz == 0
    assert not fit.complete


def test_penalty_above_all_correlations_gives_nothing():
    _, gram, _ = make()
    assert lasso.solve(gram, 1e6).weights.nnz == 0


def test_no_penalty_is_least_squares():
    X, gram, _ = make(d=6, n=100)
    W = lasso.solve(gram, 0.0, tol=1e-10).weights.toarray()
    X = X - X.mean(axis=0)
    others = [1, 2, 3, 4, 5]
    expected = np.linalg.lstsq(X[:, others], X[:, 0], rcond=None)[0]
    assert W[others, 0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.filterwarnings("ignore::bigdag.errors.DataWarning")
def test_constant_column():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    X[:, 2] = X[:, 0] + 0.1 * X[:, 2]
    X[:, 1] = 3.0
    W = lasso.solve(Gram(as_dataset(X)), 0.1).weights.toarray()
    assert np.count_nonzero(W[1]) == np.count_nonzero(W[:, 1]) == 0
    assert W[0, 2] != 0


def test_duplicate_columns():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 1))
    X = np.hstack([x, x, x, x + rng.normal(size=(60, 1))])
    fit = lasso.solve(Gram(as_dataset(X)), 0.1, tol=1e-6)
    assert fit.complete
    assert np.abs(fit.weights.toarray()[:3, 3]).sum() > 0.5


def test_fewer_samples_than_variables():
    X, gram, _ = make(d=60, k=1, n=20)
    fit = lasso.solve(gram, 0.1, tol=1e-5)
    assert fit.complete
    assert (np.diff(fit.weights.indptr) <= 20).all()
    assert len(X) == 20


def test_covariance_instead_of_data():
    X, gram, _ = make(d=10)
    S = np.cov(X, rowvar=False, bias=True)
    other = Gram(Dataset.from_covariance(S, 200))
    expected = lasso.solve(gram, 0.1, tol=1e-10).weights.toarray()
    assert lasso.solve(other, 0.1, tol=1e-10).weights.toarray() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_repeat_to_the_bit(n_jobs):
    first, second = (lasso.solve(make(n_jobs=n_jobs)[1], 0.1).weights for _ in range(2))
    assert first.data.tobytes() == second.data.tobytes()


# ------------------------------------------------------------------ masks with few parents


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("hold", [True, False])
@pytest.mark.parametrize("ordered", [True, False])
def test_masked_columns_equal_sklearn_on_either_path(ordered, hold, few, monkeypatch):
    if not few:
        monkeypatch.setattr(lasso, "FEW", -1)
    X, gram, dag = make(hold=hold, d=20)
    allowed = np.random.default_rng(1).random((20, 20)) < 0.4
    allowed[:, 3] = False  # a column without any
    mask = sp.csc_array(allowed.astype(np.int8))
    np.fill_diagonal(allowed, False)
    if ordered:
        rank = rank_of(dag.order)
        allowed &= rank[:, None] < rank
    fit = lasso.solve(
        gram, 0.1, order=dag.order if ordered else None, mask=mask, start=dag.weights, tol=1e-12
    )
    assert fit.complete
    W = fit.weights.toarray()
    for j in range(20):
        expected = sklearn_column(X, j, allowed[:, j], 0.1)
        assert W[:, j] == pytest.approx(expected, abs=1e-6)
        primal = dense_gap(X, W, j, allowed[:, j], 0.1)[0]
        assert fit.objective[j] == pytest.approx(primal)
        assert fit.gap[j] <= 1e-12 * primal


@pytest.mark.parametrize("hold", [True, False])
@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_few_parents_are_certified_like_many(hold, tol, monkeypatch):
    """Both paths bound the same optimum from both sides, whatever they end with."""
    _, gram, _ = make(d=60, k=4, n=300, seed=2, hold=hold)
    mask = sp.csc_array((np.random.default_rng(0).random((60, 60)) < 0.7).astype(float))
    few = lasso.solve(gram, 0.1, mask=mask, tol=tol)
    monkeypatch.setattr(lasso, "FEW", -1)
    many = lasso.solve(gram, 0.1, mask=mask, tol=tol)
    for fit in (few, many):
        assert fit.complete
        assert fit.objective.sum() == pytest.approx(objective.value(gram, fit.weights, 0.1))
    slack = 1e-9 * few.objective
    assert (few.objective - few.gap <= many.objective + slack).all()
    assert (many.objective - many.gap <= few.objective + slack).all()


@pytest.mark.filterwarnings("ignore::bigdag.errors.DataWarning")
@pytest.mark.parametrize("hold", [True, False])
def test_few_parents_with_constants_and_copies(hold):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 5))
    X[:, 2], X[:, 1], X[:, 4] = X[:, 0] + 0.1 * X[:, 2], 3.0, X[:, 0]
    mask = sp.csc_array(np.ones((5, 5)))
    gram = Gram(as_dataset(X), hold=hold)
    fit = lasso.solve(gram, 0.1, mask=mask, tol=1e-8)
    W = fit.weights.toarray()
    assert fit.complete
    assert np.count_nonzero(W[1]) == np.count_nonzero(W[:, 1]) == np.trace(np.abs(W)) == 0
    assert fit.objective[1] == 0
    free = lasso.solve(gram, 0.1, tol=1e-8)
    assert fit.objective == pytest.approx(free.objective, rel=1e-6)


def test_few_parents_stop_and_columns():
    _, gram, _ = make()
    mask = sp.csc_array(np.ones((30, 30)))
    stopped = lasso.solve(gram, 0.1, mask=mask, stop=lambda: True)
    assert stopped.weights.nnz == 0
    assert np.isinf(stopped.gap).all()
    some = lasso.solve(gram, 0.1, mask=mask, columns=np.array([3, 7]), tol=1e-8)
    assert np.isfinite(some.gap).sum() == 2
    assert some.weights.toarray()[:, [3, 7]].any(axis=0).all()
    assert not np.delete(some.weights.toarray(), [3, 7], axis=1).any()


def test_entries_of_a_mask_that_are_zero_rule_an_arc_out():
    _, gram, dag = make()
    mask = sp.csc_array(dag.weights)
    mask.data[:] = 1.0
    mask.data[::2] = 0.0  # stored all the same
    W = lasso.solve(gram, 0.1, mask=mask).weights.toarray()
    assert not W[mask.toarray() == 0].any()
    assert W.any()


@pytest.mark.parametrize(("seed", "m"), [(72, 10), (86, 10), (212, 20), (254, 20), (347, 10)])
def test_a_working_set_is_solved_to_its_gap(seed, m):
    """Parents in three groups; on these a coefficient becomes zero just before a Newton step."""
    rng = np.random.default_rng(seed)
    groups = rng.normal(size=(m, 3))
    X = rng.normal(size=(3 * m, 3)) @ groups.T + 0.3 * rng.normal(size=(3 * m, m))
    X /= np.linalg.norm(X, axis=0)
    z = X @ (rng.normal(size=m) * (rng.random(m) < 0.7)) + 0.02 * rng.normal(size=3 * m)
    z /= np.linalg.norm(z)
    Q, c, p = X.T @ X, X.T @ z, 10 ** rng.uniform(-4, -1.5) * rng.uniform(0.5, 1.5, size=m)
    np.fill_diagonal(Q, 1.0)
    b = np.zeros(m)
    descend(Q, c, p, b, 1e-7)
    # The objective, and the lower bound that a feasible multiple of the residual gives.
    left = c - Q @ b
    objective = 0.5 * (1 - b @ (c + left)) + p @ np.abs(b)
    factor = min(1.0, (p / np.abs(left)).min())
    r = z - X @ b
    assert objective - (factor * z @ r - 0.5 * factor**2 * r @ r) <= 1e-7 * objective * (1 + 1e-3)
