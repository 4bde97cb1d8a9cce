"""Where the nodes and arcs of a picture stand: layers from causes to effects.

All lengths are points (1/72 inch). Each weakly connected component is laid out on its own (layers
by longest path, long arcs through invisible way-points, barycentre sweeps against crossings,
positions by isotonic regression), then the components are packed into rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.graph.dag import DAG

__all__ = ["Layout", "arrange", "extent", "levels"]

_MAX_WAYPOINTS = 4000  # beyond, long arcs are drawn straight
_FLAT, _UPRIGHT, _STAGGERED = 0, 1, 2  # how the boxes of a layer stand


class Layout(NamedTuple):
    """A drawn component or picture; y grows downwards."""

    at: NDArray[np.float64]  # (k, 2) centres of the boxes
    half: NDArray[np.float64]  # (k, 2) half widths and heights
    upright: NDArray[np.bool_]  # (k,) whether the name runs upwards
    routes: list[NDArray[np.float64]]  # one an arc: (points, 2) from centre to centre


def arrange(dag: DAG, width: NDArray[np.float64], em: float) -> Layout:
    """Lay out each component and pack them into rows; `width` (k,) is that of each name's box."""
    arcs = dag._arcs()
    _, part = connected_components(dag.weights, directed=False)
    rank = np.argsort(dag.order)
    layouts, members, owned = [], [], []
    for c in range(part.max() + 1 if len(part) else 0):
        nodes = np.flatnonzero(part == c)
        nodes = nodes[np.argsort(rank[nodes])]  # causes first
        own = np.flatnonzero(part[arcs.source] == c)
        local = np.empty(dag.n_nodes, dtype=int)
        local[nodes] = np.arange(len(nodes))
        pairs = list(zip(local[arcs.source[own]].tolist(), local[arcs.target[own]].tolist()))
        layouts.append(_component(pairs, width[nodes], em))
        members.append(nodes)
        owned.append(own)
    at, half = np.zeros((dag.n_nodes, 2)), np.zeros((dag.n_nodes, 2))
    upright = np.zeros(dag.n_nodes, dtype=bool)
    routes: list[NDArray[np.float64]] = [np.empty(0)] * dag.n_arcs
    for c, shift in _pack([extent(layout) for layout in layouts], 2.5 * em):
        at[members[c]] = layouts[c].at + shift
        half[members[c]], upright[members[c]] = layouts[c].half, layouts[c].upright
        for k, route in zip(owned[c], layouts[c].routes):
            routes[k] = route + shift
    return Layout(at, half, upright, routes)


def extent(layout: Layout) -> NDArray[np.float64]:
    """Return the corners (2, 2) of the rectangle that holds boxes and arcs."""
    points = np.vstack([layout.at - layout.half, layout.at + layout.half, *layout.routes])
    return np.array([points.min(axis=0), points.max(axis=0)])


def _pack(extents: Sequence[NDArray[np.float64]], gap: float) -> list[tuple[int, Any]]:
    """Return (component, shift) pairs that set rectangles in rows, the tallest first."""
    if not extents:
        return []
    sizes = np.array([high - low + gap for low, high in extents])
    row_width = max(sizes[:, 0].max(), np.sqrt(1.6 * sizes.prod(axis=1).sum()))
    x = y = row_height = 0.0
    shifts = []
    for c in np.lexsort(-(sizes // gap).T):
        if x > 0 and x + sizes[c, 0] > row_width * 1.001:
            x, y, row_height = 0.0, y + row_height, 0.0
        shifts.append((int(c), np.array([x, y]) - extents[c][0]))
        x, row_height = x + sizes[c, 0], max(row_height, sizes[c, 1])
    return shifts


def _component(pairs: list[tuple[int, int]], width: NDArray[np.float64], em: float) -> Layout:
    """Lay out one connected component whose nodes 0..k-1 list causes first."""
    k = len(width)
    level = levels(k, pairs)
    chains, level = _waypoints(pairs, level)
    segments = [pair for chain in chains for pair in pairwise(chain)]
    above: list[list[int]] = [[] for _ in level]
    below: list[list[int]] = [[] for _ in level]
    for u, v in segments:
        below[u].append(v)
        above[v].append(u)
    layers = _uncross(level, above, below)

    box = np.full((len(level), 2), 0.4 * em)  # way-points are thin
    box[:k] = np.column_stack([width, np.full(k, 1.7 * em)])
    modes = _modes(layers, box, k, em)
    upright = np.zeros(len(level), dtype=bool)
    for layer, mode in zip(layers, modes):
        if mode != _FLAT:
            upright[[v for v in layer if v < k]] = True
    box[upright] = box[upright][:, ::-1]
    x = _columns(layers, modes, box, above, below, k, em)

    y, shift, span = np.zeros(len(level)), 0.0, np.zeros((len(layers), 2))
    for depth, (layer, mode) in enumerate(zip(layers, modes)):
        if depth:
            reach = max((abs(x[u] - x[v]) for v in layer for u in above[v]), default=0.0)
            # A wide fan needs room above it, or its arcs lie flat on the boxes.
            shift += float(np.clip(0.2 * reach, 2.2 * em, 7 * em if mode == _FLAT else 18 * em))
        tall = box[layer, 1].max()
        rows = np.zeros(len(layer), dtype=int)
        if mode == _STAGGERED:
            rows = np.arange(len(layer)) % 2
        y[layer] = shift + rows * (tall + 1.2 * em)
        y[layer] += tall / 2 if mode == _FLAT else box[layer, 1] / 2
        span[depth] = shift, shift + tall + rows.max() * (tall + 1.2 * em)
        shift = span[depth, 1]
    points = np.column_stack([x, y])
    routes = [_route(chain, points, level, modes, span, em) for chain in chains]
    layout = Layout(points[:k], box[:k] / 2, upright[:k], routes)
    return _fold(layout, span, em)


def levels(k: int, pairs: list[tuple[int, int]]) -> list[int]:
    """Return each node's layer: the longest path from a root, roots moved down to their effects."""
    children: list[list[int]] = [[] for _ in range(k)]
    parents = [0] * k
    for u, v in pairs:
        children[u].append(v)
        parents[v] += 1
    level = [0] * k
    for u in range(k):
        for v in children[u]:
            level[v] = max(level[v], level[u] + 1)
    for u in reversed(range(k)):
        if len(children[u]) > parents[u]:
            level[u] = min(level[v] for v in children[u]) - 1
    return level


def _waypoints(pairs: list[tuple[int, int]], level: list[int]) -> tuple[list[list[int]], list[int]]:
    """Return each arc as a chain through one way-point a layer, and the levels with way-points."""
    if sum(level[v] - level[u] - 1 for u, v in pairs) > _MAX_WAYPOINTS:
        return [[u, v] for u, v in pairs], level
    chains, level = [], list(level)
    for u, v in pairs:
        new = range(len(level), len(level) + level[v] - level[u] - 1)
        level.extend(range(level[u] + 1, level[v]))
        chains.append([u, *new, v])
    return chains, level


def _uncross(level: list[int], above: list[list[int]], below: list[list[int]]) -> list[list[int]]:
    """Return the layers, each from left to right, with few crossings: barycentre sweeps."""
    layers: list[list[int]] = [[] for _ in range(max(level) + 1)]
    seen = [False] * len(level)
    for root in range(len(level)):  # depth first, so that branches begin next to each other
        stack = [root]
        while stack:
            v = stack.pop()
            if not seen[v]:
                seen[v] = True
                layers[level[v]].append(v)
                stack.extend(u for u in [*below[v], *above[v]] if not seen[u])
    place = np.zeros(len(level))
    for layer in layers:
        place[layer] = np.arange(len(layer))
    best, fewest = [list(layer) for layer in layers], _crossings(layers, below, place)
    for sweep in range(24):
        down = sweep % 2 == 0
        near = above if down else below
        for layer in layers if down else reversed(layers):
            wish = {v: place[near[v]].mean() if near[v] else place[v] for v in layer}
            layer.sort(key=wish.__getitem__)
            place[layer] = np.arange(len(layer))
        count = _crossings(layers, below, place)
        if count < fewest:
            best, fewest = [list(layer) for layer in layers], count
    return best


def _crossings(layers: list[list[int]], below: list[list[int]], place: NDArray[np.float64]) -> int:
    total = 0
    for layer in layers:
        ends = np.array([(place[u], place[v]) for u in layer for v in below[u]]).reshape(-1, 2)
        if 1 < len(ends) <= 2000:
            left = np.sign(np.subtract.outer(ends[:, 0], ends[:, 0]))
            total += int((left * np.sign(np.subtract.outer(ends[:, 1], ends[:, 1])) < 0).sum())
    return total // 2


def _modes(layers: list[list[int]], box: NDArray[np.float64], k: int, em: float) -> list[int]:
    """Choose how the boxes of each layer stand, so that no layer makes the picture a strip."""
    area = ((box[:k, 0] + em) * (box[:k, 1] + 3 * em)).sum()
    wanted = max(70 * em, 2.4 * np.sqrt(area))
    modes = []
    for layer in layers:
        real = [v for v in layer if v < k]
        flat, upright = (box[real, 0] + em).sum(), (box[real, 1] + 0.4 * em).sum()
        if flat <= wanted or upright > 0.8 * flat:
            modes.append(_FLAT)
        else:
            modes.append(_UPRIGHT if upright <= wanted else _STAGGERED)
    return modes


def _columns(
    layers: list[list[int]],
    modes: list[int],
    box: NDArray[np.float64],
    above: list[list[int]],
    below: list[list[int]],
    k: int,
    em: float,
) -> NDArray[np.float64]:
    """Return x: near the neighbours, in the layers' sequence, without overlaps.

    For given wishes that is an isotonic regression of the wishes minus the least distances.
    """
    from scipy.optimize import isotonic_regression

    offsets, pull = [], []
    for layer, mode in zip(layers, modes):
        w = box[layer, 0]
        gap = em if mode == _FLAT else 0.4 * em
        thin = np.array([v >= k for v in layer])
        apart = (w[:-1] + w[1:]) / 2 + np.where(thin[:-1] & thin[1:], 0.3 * em, gap)
        if mode == _STAGGERED:
            apart = apart / 2
        offsets.append(np.concatenate([[0.0], np.cumsum(apart)]))
        # Way-points pull harder: a long arc shall be straight.
        pull.append(np.array([1.0 if v < k else 4.0 for v in layer]))
    x = np.zeros(len(above))
    for layer, offset in zip(layers, offsets):
        x[layer] = offset - offset.mean()
    both = [[*a, *b] for a, b in zip(above, below)]
    for sweep in range(40):
        near = both if sweep >= 20 else (above if sweep % 2 == 0 else below)
        sequence = range(len(layers)) if sweep % 2 == 0 else reversed(range(len(layers)))
        for depth in sequence:
            layer, offset = layers[depth], offsets[depth]
            wish = np.array([x[near[v]].mean() if near[v] else x[v] for v in layer])
            x[layer] = isotonic_regression(wish - offset, weights=pull[depth]).x + offset
    return x


def _route(
    chain: list[int],
    points: NDArray[np.float64],
    level: list[int],
    modes: list[int],
    span: NDArray[np.float64],
    em: float,
) -> NDArray[np.float64]:
    """Return the points an arc runs through: upright where it passes between a layer's boxes."""
    u, v = chain[0], chain[-1]
    route = [tuple(points[u])]
    if modes[level[u]] == _STAGGERED:
        route += [(points[u, 0], span[level[u], 1] + rise) for rise in (0.0, em)]
    for before, w, after in zip(chain, chain[1:], chain[2:]):
        # A little slant keeps a long sloping arc from climbing stairs.
        run, fall = points[after] - points[before]
        slant = np.clip(run / fall, -1, 1) * (0.5 if modes[level[w]] == _FLAT else 0.2) * em
        top, bottom = span[level[w]]
        route += [(points[w, 0] - slant, top), (points[w, 0] + slant, bottom)]
    if modes[level[v]] == _STAGGERED:
        route += [(points[v, 0], span[level[v], 0] - rise) for rise in (em, 0.0)]
    return np.array([*route, tuple(points[v])])


def _fold(layout: Layout, span: NDArray[np.float64], em: float) -> Layout:
    """Fold a tall and narrow component into columns that run down and up in turn."""
    low, high = extent(layout)
    wide, tall = high - low + 2 * em
    columns = int(np.sqrt(1.4 * tall / wide))
    if columns < 2 or tall < 60 * em:
        return layout
    column = np.arange(len(span)) // -(-len(span) // columns)
    columns = column[-1] + 1
    top = np.array([span[column == c, 0].min() for c in range(columns)])
    end = np.array([span[column == c, 1].max() for c in range(columns)])
    bounds = (end[:-1] + top[1:]) / 2

    def move(points: NDArray[np.float64]) -> NDArray[np.float64]:
        c = np.searchsorted(bounds, points[:, 1])
        down = points[:, 1] - top[c]
        y = np.where(c % 2 == 0, down, (end - top).max() - down)
        return np.column_stack([points[:, 0] + c * (wide + em), y])

    return layout._replace(at=move(layout.at), routes=[move(route) for route in layout.routes])
