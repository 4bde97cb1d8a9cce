"""The steps of ProxiMAS on sparse columns: one proximal step in each column on its working set.

Column j minimises ``1/2 |z_j - Z b|² + Σ pull_i/2 (b_i - centre_i)² + Σ p_i |b_i|`` on the
correlation scale, with ``pull_i = lambda2 / sd_i²`` and ``p_i = lambda1 / (sd_i sd_j)``.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bigdag.compiled import kernel
from bigdag.engine import objective
from bigdag.engine.column_problem import Coefficients, new_workspace, violators
from bigdag.engine.gram import Gram
from bigdag.engine.lasso import chance_parents
from bigdag.engine.limits import Limits
from bigdag.engine.order import rank_of

__all__ = ["ProximalColumns"]

_EXACT_STORE = 2**23  # correlations among members that are kept as they are: 64 MB
_STORE = 9 * 2**24  # and that are kept at all, then in three bytes each: 450 MB. A loss is then
# right to 1e-7 of a variance, which ranks iterates; the answer's own is computed anew.
_TYPICAL_CANDIDATES = 40  # of a variable, where only those that correlate with it are
_BYTES_OF_A_MEMBER = 330  # in the lists, copies and sparse arrays of a fit
_UNIT = 2.0**-23  # of correlations in three bytes
_AT_REST = 1e-7  # a column whose coefficients move less, on the correlation scale, rests


class _Store(NamedTuple):
    """Correlations that steps read again and again, laid side by side.

    ``own`` has each member's with its column. The lower triangle of those among the members of
    column j begins at ``place[j]``, negative where there was no room; it is in ``exact``, or else
    in three bytes each: the upper two and the third.
    """

    own: NDArray[np.float64]
    place: NDArray[np.int64]
    exact: NDArray[np.float64]
    upper: NDArray[np.int16]
    lower: NDArray[np.uint8]


class _Members(NamedTuple):
    """Where each variable is a member: of ``columns``, as these ``entries`` of the pattern.

    Those of variable i are at ``starts[i]:starts[i + 1]``.
    """

    starts: NDArray[np.int64]
    columns: NDArray[np.int64]
    entries: NDArray[np.int64]


class _Iterate(NamedTuple):
    """The working sets and what is on them; b and y change in place."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    b: NDArray[np.float64]
    y: NDArray[np.float64]
    centre: NDArray[np.float64]


class _Terms(NamedTuple):
    """What each variable weighs as a parent, and what is known of it as a column.

    The former are root, pull, and the paper's step or nothing; the latter, which change in place,
    curvature, loss, and whether the column rests.
    """

    root: NDArray[np.float64]
    pull: NDArray[np.float64]
    global_step: NDArray[np.float64]
    curvature: NDArray[np.float64]
    loss: NDArray[np.float64]
    resting: NDArray[np.bool_]


def columns_memory(n: int, d: int, hold: bool) -> int:
    """Return about the bytes of the working sets, and of the correlations among their members.

    The latter are kept only where there is room, and not at all where ``hold`` is False.

    Examples
    --------
    >>> columns_memory(1000, 500, True)
    6117120
    """
    parents = chance_parents(n, d)
    pairs = int(0.57 * d * parents**2) if hold else 0
    store = 8 * pairs if pairs <= _EXACT_STORE else 3 * min(pairs, _STORE)
    return _BYTES_OF_A_MEMBER * d * parents + store


def confined_memory(d: int) -> int:
    """Return about the bytes of the working sets where only correlated variables are in them.

    Examples
    --------
    >>> confined_memory(10000)
    132000000
    """
    return _BYTES_OF_A_MEMBER * d * _TYPICAL_CANDIDATES


class ProximalColumns:
    """The cyclic iterate W̃ on the correlation scale, by columns, each on its working set.

    The arrays are those of a ``csc_array`` whose pattern is the working sets: ``b`` is W̃, ``y`` the
    point that momentum looks ahead to, and ``forward`` tells which arcs the last order keeps, so
    that ``b`` where forward is the centre of the pull.
    """

    def __init__(
        self,
        gram: Gram,
        lambda1: float,
        lambda2: float,
        W: sp.csc_array,
        literal: bool,
        eager: bool = False,
        mask: sp.csc_array | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits
        self.gram, self.lambda1, self.literal = gram, lambda1, literal
        self.confined = mask is not None
        # Whether many arcs are missing: the sets then grow faster, and are looked at more often.
        self.eager = eager
        self.root = np.sqrt(lambda1) * gram.inverse_sd  # the penalty of i in column j, factored
        self.pull = lambda2 * gram.inverse_sd**2
        self.t = 1.0
        self.age, self.check_at, self.wait = 0, 1, 1
        self.checked = False  # whether the last full check found nothing
        self.global_step = np.empty(0)
        if literal:
            self.global_step = gram.diag() / (_largest_eigenvalue(gram) + lambda2)
        B = objective.on_correlation_scale(gram, W)
        if mask is not None:  # all that may be a parent is in its set from the beginning
            B = _with_candidates(B, mask)
        B.sort_indices()
        self._lay(B.indptr.astype(np.int64), B.indices.astype(np.int64), B.data.copy())

    def _lay(
        self, indptr: NDArray[np.int64], indices: NDArray[np.int64], b: NDArray[np.float64]
    ) -> None:
        """Take over a pattern and its coefficients; momentum and rest begin anew."""
        self.indptr, self.indices, self.b, self.y = indptr, indices, b, b.copy()
        self.columns = np.repeat(np.arange(self.gram.d), np.diff(indptr))
        self.raw = self.gram.sd[self.columns] * self.gram.inverse_sd[indices]
        self.forward = np.zeros(len(b), dtype=np.bool_)
        self.resting = np.zeros(self.gram.d, dtype=np.bool_)
        self.loss = np.zeros(self.gram.d)
        self.curvature = np.zeros(self.gram.d)
        # Steps read the same correlations again and again, spread over the whole matrix. They are
        # laid side by side: each member's with its column, and the lower triangle of the members.
        sizes = np.diff(indptr)
        ends = np.cumsum(sizes * (sizes - 1) // 2)
        held = self.gram.C is not None
        room = min(_STORE, self.gram.left() // 12)  # a quarter of the memory left
        total = int(ends[ends <= room].max(initial=0)) if held else 0
        exact = total <= _EXACT_STORE
        self.store = _Store(
            np.empty(len(b) if held else 0),
            np.where(ends <= total, ends - sizes * (sizes - 1) // 2, -1),
            np.empty(total if exact else 0),
            np.empty(0 if exact else total, dtype=np.int16),
            np.empty(0 if exact else total, dtype=np.uint8),
        )
        if held:
            shape = (self.gram.d, self.gram.d)
            by_row = sp.csc_array((np.arange(len(b)), indices, indptr), shape=shape).tocsr()
            members = _Members(
                by_row.indptr.astype(np.int64), by_row.indices.astype(np.int64), by_row.data
            )
            work = partial(_fill, self.gram.C, members, indptr, indices, self.store)
            self.gram.each(work, self.gram.d, chunk=64)

    def step(self, order: NDArray[np.int64]) -> float:
        """Take one step towards φ with the projection on ``order`` as its centre.

        Returns
        -------
        float
            Equation (1) of that projection, which is the graph before the step.
        """
        forward = self._forward(order)
        changed = self.columns[forward != self.forward]
        self.resting[changed] = False
        self.forward = forward
        self.centre = np.where(forward, self.b, 0.0)
        self.n_acyclic = int(np.count_nonzero(self.centre))
        penalty = self.lambda1 * float(np.abs(self.centre * self.raw).sum())
        self.age += 1
        t_next = (1 + np.sqrt(1 + 4 * self.t * self.t)) / 2
        momentum, self.t = (self.t - 1) / t_next, t_next
        gram = self.gram
        todo = np.flatnonzero(~self.resting & (gram.sd > 0))
        iterate = _Iterate(self.indptr, self.indices, self.b, self.y, self.centre)
        terms = _Terms(
            self.root, self.pull, self.global_step, self.curvature, self.loss, self.resting
        )

        def work(first: int, last: int) -> None:
            some = todo[first:last]
            if gram.C is not None:
                most = int((self.indptr[some + 1] - self.indptr[some]).max())
                rows = _Rows(np.empty(most), np.empty(most), np.empty(most))
                _step_held(gram.C, some, iterate, terms, self.store, rows, momentum)
            else:
                _step_on_data(gram.Z, some, iterate, terms, momentum)

        gram.each(work, len(todo), chunk=32)
        if self.literal:
            self.resting[:] = False
        return float(self.loss @ gram.diag()) + penalty

    def _forward(self, order: NDArray[np.int64]) -> NDArray[np.bool_]:
        rank = rank_of(order)
        return rank[self.indices] < rank[self.columns]

    def weights(self) -> sp.csc_array:
        """Return W̃ in the units of the data."""
        shape = (self.gram.d, self.gram.d)
        return sp.csc_array((self.b * self.raw, self.indices, self.indptr), shape=shape)

    def acyclic(self) -> sp.csc_array:
        """Return the last centre in the units of the data."""
        keep = self.centre != 0
        indptr = np.concatenate([[0], np.cumsum(keep)])[self.indptr]
        data, shape = (self.centre * self.raw)[keep], (self.gram.d, self.gram.d)
        return sp.csc_array((data, self.indices[keep], indptr), shape=shape)

    def at_rest(self, order: NDArray[np.int64]) -> bool:
        """Tell whether nothing moves any more, the order included."""
        live = self.gram.sd > 0
        return bool(self.resting[live].all()) and bool(
            (self._forward(order) == self.forward)[self.b != 0].all()
        )

    def due(self, k: int, still: bool) -> bool:
        """Tell whether to look at all parents after step k: ever more rarely, and at rest."""
        return self.literal or k >= self.check_at or (still and not self.checked)

    def grow(self) -> None:
        """Look at all parents of all columns and take the worst violators into the sets.

        An arc outside of its set has no weight and no pull; a step would move it if and only if
        its correlation with the column's residual exceeds the penalty.
        """
        if self.confined:  # all that may come in is in
            self.checked, self.check_at = True, self.age + self.wait
            return
        gram = self.gram
        at = self.y if self.literal else self.b
        sizes = np.diff(self.indptr)
        most = 8 + sizes // 4 if self.eager else 4 + sizes // 20
        if self.literal:
            most = np.full(gram.d, gram.d)
        found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        keep = (self.b != 0) | (self.y != 0)  # and those that want in; the others leave their set
        for block in gram.blocks(np.arange(gram.d)):
            piece = slice(self.indptr[block[0]], self.indptr[block[-1] + 1])
            indptr = self.indptr[block[0] : block[-1] + 2] - self.indptr[block[0]]
            sets = Coefficients(indptr, self.indices[piece], at[piece])
            left = gram.residual_rows(block, *sets)
            if self.limits is not None:
                left[~self.limits.parents(block)] = 0.0
            look = partial(
                _look_around, left, block, gram.sd > 0, self.root, sets, most[block], keep[piece]
            )
            found += gram.each(look, len(block))
        counts = np.concatenate([np.zeros(0, dtype=np.int64), *(each[0] for each in found)])
        self.checked = not counts.any()
        if not self.eager or counts.sum() <= 0.02 * len(self.b):
            self.wait *= 2
        self.check_at = self.age + self.wait
        if self.checked:
            return
        columns = np.concatenate([self.columns[keep], np.repeat(np.arange(gram.d), counts)])
        rows = np.concatenate([self.indices[keep], *(each[1] for each in found)])
        fresh = np.zeros(int(counts.sum()))
        by = np.lexsort((rows, columns))
        y = np.concatenate([self.y[keep], fresh])[by]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=gram.d))])
        self._lay(indptr, rows[by], np.concatenate([self.b[keep], fresh])[by])
        self.y = y


def _with_candidates(B: sp.csc_array, mask: sp.csc_array) -> sp.csc_array:
    """Return weights with zeros stored at the candidates, and nothing outside of them."""
    kept = sp.csc_array(B.multiply(mask))
    rows = np.concatenate([mask.indices, kept.indices])
    counts = [np.diff(part.indptr) for part in (mask, kept)]
    columns = np.concatenate([np.repeat(np.arange(B.shape[1]), count) for count in counts])
    data = np.concatenate([np.zeros(mask.nnz), kept.data])
    both = sp.coo_array((data, (rows, columns)), shape=B.shape)
    both.sum_duplicates()  # keeps zeros
    return sp.csc_array(both)


def _largest_eigenvalue(gram: Gram) -> float:
    """Return ‖S‖₂, for the paper's step."""
    S = gram.rows(slice(None)) * gram.sd[:, None] * gram.sd
    return float(np.linalg.norm(S, 2)) if gram.d else 0.0


# ------------------------------------------------------------------ compiled kernels


class _Rows(NamedTuple):
    """Room for what a step in one column computes; one entry a member."""

    at_y: NDArray[np.float64]  # z_iᵀ(z_j - Z y)
    size: NDArray[np.float64]  # the sums of the members' absolute correlations
    q: NDArray[np.float64]  # a row of the members' correlations


@kernel(fastmath=True, _nrt=False)
def _step_held(C, todo, iterate, terms, store, rows, momentum):  # type: ignore[no-untyped-def]
    """Take one step in each column of todo, in place; note the loss of the centre and rest.

    On correlations that are held, from the store where they are in it.
    """
    exact = len(store.exact) > 0
    for i in range(len(todo)):
        j = todo[i]
        span = slice(iterate.indptr[j], iterate.indptr[j + 1])
        members, y, centre = iterate.indices[span], iterate.y[span], iterate.centre[span]
        own, at = store.own[span], store.place[j]
        m = len(members)
        at_y, size, q = rows.at_y[:m], rows.size, rows.q
        for s in range(m):
            at_y[s], size[s] = 0.0, 1.0
        bound = terms.curvature[j]
        square = 1.0  # what the centre leaves of the variance
        for s in range(m):
            y_s, centre_s, kept = y[s], centre[s], 0.0
            if at < 0:
                row = C[members[s]]
                for t in range(s):
                    q[t] = row[members[t]]
                triangle = q[:s]
            else:
                if exact:
                    triangle = store.exact[at : at + s]
                else:
                    triangle = q[:s]
                    _unpack(store.upper[at : at + s], store.lower[at : at + s], triangle)
                at += s
            total = _along(triangle, y, y_s, at_y)
            if centre_s != 0.0:
                kept = _inner(triangle, centre)
            if bound == 0.0:
                _add_sizes(triangle, size, s)
            at_y[s] = own[s] - total - y_s
            square += centre_s * (2.0 * (kept - own[s]) + centre_s)
        if bound == 0.0:
            terms.curvature[j] = _largest(size[:m])
        _step_column(j, iterate, terms, at_y, square, momentum)


@kernel(fastmath=True)
def _step_on_data(Z, todo, iterate, terms, momentum):  # type: ignore[no-untyped-def]
    """Take one step in each column of todo, as `_step_held` does, on the data."""
    for j in todo:
        span = slice(iterate.indptr[j], iterate.indptr[j + 1])
        members, y, centre = iterate.indices[span], iterate.y[span], iterate.centre[span]
        m = len(members)
        at_y = np.zeros(m)
        r, r_centre = Z[j].copy(), Z[j].copy()
        for s in range(m):
            row = Z[members[s]]
            for i in range(len(r)):
                r[i] -= y[s] * row[i]
                r_centre[i] -= centre[s] * row[i]
        for s in range(m):
            at_y[s] = np.dot(Z[members[s]], r)
        if terms.curvature[j] == 0.0:
            terms.curvature[j] = _curvature_from_data(Z, members)
        _step_column(j, iterate, terms, at_y, np.dot(r_centre, r_centre), momentum)


@kernel(fastmath=True, inline="always")
def _step_column(j, iterate, terms, at_y, square, momentum):  # type: ignore[no-untyped-def]
    """Take the step of one column from z_iᵀ(z_j - Z y) and what the centre leaves."""
    b, y, centre = iterate.b, iterate.y, iterate.centre
    curvature, own, literal = terms.curvature[j], terms.root[j], len(terms.global_step) > 0
    terms.loss[j] = 0.5 * max(square, 0.0)
    moved = 0.0
    begin = iterate.indptr[j]
    for s in range(len(at_y)):
        e = begin + s
        i = iterate.indices[e]
        pull, at = terms.pull[i], y[e]
        step = terms.global_step[i] if literal else 1.0 / (curvature + pull)
        towards = at + step * (at_y[s] - pull * (at - centre[e]))
        threshold = step * terms.root[i] * own
        new = 0.0
        if towards > threshold:
            new = towards - threshold
        elif towards < -threshold:
            new = towards + threshold
        change = new - b[e]
        moved = max(moved, abs(change), abs(at - b[e]))
        if centre[e] != 0.0:
            moved = max(moved, abs(new - centre[e]))
        b[e] = new
        y[e] = new + momentum * change
    terms.resting[j] = moved <= _AT_REST


@kernel
def _fill(C, members, indptr, indices, store, first, last):  # type: ignore[no-untyped-def]
    """Lay the correlations of variables first..last where they are members; a row of C at a time.

    The pattern of the working sets is in ``indptr`` and ``indices``.
    """
    place, exact = store.place, len(store.exact) > 0
    for i in range(first, last):
        row = C[i]
        for e in range(members.starts[i], members.starts[i + 1]):
            j, entry = members.columns[e], members.entries[e]
            store.own[entry] = row[j]
            begin = indptr[j]
            s = entry - begin
            if place[j] >= 0:
                at = place[j] + s * (s - 1) // 2
                if exact:
                    for t in range(s):
                        store.exact[at + t] = row[indices[begin + t]]
                else:
                    for t in range(s):
                        near = np.floor(row[indices[begin + t]] / _UNIT + 0.5)
                        whole = np.int32(min(max(near, 1.0 - 2**23), 2**23 - 1.0))
                        store.upper[at + t] = whole >> 8
                        store.lower[at + t] = whole & 255


@kernel
def _look_around(left, block, live, root, sets, most, keep, first, last):  # type: ignore[no-untyped-def]
    """Find what columns first..last of a block lack: how many each, and which, one after the other.

    ``left`` (k, d) holds the correlations with the residuals, ``sets`` the working sets of the
    block. Marks in ``keep`` the members that are above their penalty.
    """
    workspace = new_workspace(len(root))
    counts = np.zeros(last - first, dtype=np.int64)
    total = 0
    flat = np.empty(256, dtype=np.int64)
    for a in range(first, last):
        j = block[a]
        members = sets.indices[sets.indptr[a] : sets.indptr[a + 1]]
        for s in range(len(members)):
            i = members[s]
            if abs(left[a, i]) > root[i] * root[j]:
                keep[sets.indptr[a] + s] = True
        if live[j]:
            left[a, j] = 0.0
            count = violators(left[a], live, root, j, members, most[a], workspace)
            if total + count > len(flat):
                wider = np.empty(2 * len(flat) + count, dtype=np.int64)
                for s in range(total):
                    wider[s] = flat[s]
                flat = wider
            for s in range(count):
                flat[total + s] = workspace.new[s]
            total += count
            counts[a - first] = count
    return counts, flat[:total]


@kernel(inline="always")
def _unpack(upper, lower, out):  # type: ignore[no-untyped-def]
    """Write correlations kept in three bytes."""
    for t in range(len(out)):
        out[t] = (np.int32(upper[t]) * np.int32(256) + np.int32(lower[t])) * _UNIT


@kernel(fastmath=True, inline="always")
def _add_sizes(triangle, size, s):  # type: ignore[no-untyped-def]
    """Add the absolute correlations of member s with those before it to the sums of both."""
    for t in range(s):
        value = abs(triangle[t])
        size[s] += value
        size[t] += value


@kernel(fastmath=True, inline="always")
def _inner(row, values):  # type: ignore[no-untyped-def]
    """Return the inner product of a row of a triangle with values."""
    total = 0.0
    for t in range(len(row)):
        total += row[t] * values[t]
    return total


@kernel(inside=True, fastmath=True, _nrt=False)
def _along(row, values, own, out):  # type: ignore[no-untyped-def]
    """Return the inner product of a row of a triangle with values; subtract its mirror from out."""
    total = 0.0
    for t in range(len(row)):
        total += row[t] * values[t]
    if own != 0.0:
        for t in range(len(row)):
            out[t] -= own * row[t]
    return total


@kernel(inside=True, fastmath=True)
def _curvature_from_data(Z, members):  # type: ignore[no-untyped-def]
    """Return a bound on the largest eigenvalue of Z_A Z_Aᵀ: its largest row of absolute sums."""
    m = len(members)
    size = np.ones(m)
    for s in range(m):
        for t in range(s):
            q = abs(np.dot(Z[members[s]], Z[members[t]]))
            size[s] += q
            size[t] += q
    return _largest(size)


@kernel(inside=True, _nrt=False)
def _largest(size):  # type: ignore[no-untyped-def]
    """Return the largest, and one where there are none."""
    largest = 1.0
    for s in range(len(size)):
        largest = max(largest, size[s])
    return largest
