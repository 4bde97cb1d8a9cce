"""A picture of a DAG: layers from causes to effects, drawn with matplotlib.

All lengths are points (1/72 inch): the axes cover the figure at one unit a point, so that boxes,
arrow heads and text keep their sizes to each other. Each weakly connected component is laid out on
its own (layers by longest path, long arcs through invisible way-points, barycentre sweeps against
crossings, positions by isotonic regression), then the components are packed into rows.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from bigdag.errors import ParameterError, missing_extra
from bigdag.graph.dag import DAG
from bigdag.writing import Output, whole_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["draw"]

# Colours of Okabe and Ito, told apart by colour-blind readers; the dashes serve grey print.
_POSITIVE, _NEGATIVE, _INK, _MARK = "#0072B2", "#D55E00", "#222222", "#F0E442"
_SUFFIXES = (".png", ".svg", ".pdf")
_MAX_INCHES = 30.0
_FONT_SIZES = ((10.0, 30), (8.0, 80), (6.5, 160))  # points, for up to so many nodes
_MAX_WAYPOINTS = 4000  # beyond, long arcs are drawn straight
_FLAT, _UPRIGHT, _STAGGERED = 0, 1, 2  # how the boxes of a layer stand


class _Layout(NamedTuple):
    """A drawn component or picture; y grows downwards."""

    at: NDArray[np.float64]  # (k, 2) centres of the boxes
    half: NDArray[np.float64]  # (k, 2) half widths and heights
    upright: NDArray[np.bool_]  # (k,) whether the name runs upwards
    routes: list[NDArray[np.float64]]  # one an arc: (points, 2) from centre to centre


def draw(
    dag: DAG,
    path: str | os.PathLike[str] | Output,
    *,
    highlight: str | int | Iterable[str | int] | None = None,
    max_nodes: int = 300,
    title: str | None = None,
    force: bool = False,
) -> None:
    """Draw a DAG into a PNG, SVG or PDF file, written whole or not at all.

    Causes stand above their effects. Blue solid arcs have positive weights, vermillion dashed ones
    negative weights; the width grows with the absolute weight. Reversible arcs have no head. Nodes
    without arcs are left out and counted below the title.

    Parameters
    ----------
    dag : DAG
        What to draw.
    path : path-like or Output
        The file, ending in .png, .svg or .pdf. An `Output` is reserved before the picture is drawn
        and says where it is, should it not be there.
    highlight : node or list of nodes, optional
        Names or indices of the nodes to mark.
    max_nodes : int, default=300
        A graph with more nodes is cut to its strongest arcs that touch no more than this, and the
        picture says so.
    title : str, optional
        The first line of the title; the counts by default.
    force : bool, default=False
        Overwrite the file.

    Examples
    --------
    >>> import tempfile
    >>> dag = DAG([[0, 2.0], [0, 0]], names=["rain", "river"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw(dag, f"{folder}/dag.png")
    ...     os.listdir(folder)
    ['dag.png']
    """
    output = path if isinstance(path, Output) else Output(path, force)
    suffix = output.path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise ParameterError(
            f"The suffix of a picture must be one of {', '.join(_SUFFIXES)}. "
            f"Got {str(output.path)!r}."
        )
    if max_nodes < 2:
        raise ParameterError(f"`max_nodes` must be at least 2. Got {max_nodes!r}.")
    if highlight is None or isinstance(highlight, str | int | np.integer):
        highlight = [] if highlight is None else [highlight]
    marked = {dag.names[dag._index(v)] for v in highlight}
    part, notes = _select(dag, max_nodes)
    try:
        import matplotlib.figure
    except ImportError as error:
        raise missing_extra("matplotlib", "plot", "Drawing a DAG") from error
    output.reserve()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # names in scripts the font lacks
        figure = matplotlib.figure.Figure()
        if title is None:
            title = f"{_count(dag.n_nodes, 'node')}, {_count(dag.n_arcs, 'arc')}"
        _paint(figure, part, marked, title, notes)
        metadata: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
        dpi = 150 if part.n_nodes <= 80 else 200

        def write(file: BinaryIO) -> None:
            figure.savefig(file, format=suffix[1:], dpi=dpi, metadata=metadata.get(suffix))

        if isinstance(path, Output):
            path.write(write)
            return
        with whole_file(path, force) as file:
            write(file)


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _select(dag: DAG, max_nodes: int) -> tuple[DAG, list[str]]:
    """Return what is drawn, and a note on each thing that is left out."""
    arcs = dag._arcs(strongest_first=True)
    ends = np.column_stack([arcs.source, arcs.target]).ravel()
    nodes, first = np.unique(ends, return_index=True)
    if not len(nodes):
        shown = min(dag.n_nodes, max_nodes)
        left = [f"{dag.n_nodes - shown} nodes not shown"] if shown < dag.n_nodes else []
        return dag.subgraph(range(shown)), left
    notes = []
    if len(nodes) > max_nodes:
        # The arc that brings in the first node too many ends the list.
        n_arcs = int(np.sort(first)[max_nodes]) // 2
        nodes = np.unique(ends[: 2 * n_arcs])
        notes.append(
            f"Shown: the {n_arcs} strongest of {dag.n_arcs} arcs, on {len(nodes)} of the nodes"
        )
        part = dag.subgraph(nodes.tolist())
        keep = np.zeros((len(nodes), len(nodes)), dtype=bool)
        keep[
            np.searchsorted(nodes, arcs.source[:n_arcs]),
            np.searchsorted(nodes, arcs.target[:n_arcs]),
        ] = True
        flags = None if part.reversible is None else part.reversible.toarray() & keep
        return DAG(part.weights.toarray() * keep, part.names, part.order, flags), notes
    isolated = dag.n_nodes - len(nodes)
    if isolated:
        notes.append(f"{_count(isolated, 'isolated node')} not shown")
    return dag.subgraph(nodes.tolist()), notes


# -------------------------------------------------------------------- where things stand


def _arrange(dag: DAG, width: NDArray[np.float64], em: float) -> _Layout:
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
    for c, shift in _pack([_extent(layout) for layout in layouts], 2.5 * em):
        at[members[c]] = layouts[c].at + shift
        half[members[c]], upright[members[c]] = layouts[c].half, layouts[c].upright
        for k, route in zip(owned[c], layouts[c].routes):
            routes[k] = route + shift
    return _Layout(at, half, upright, routes)


def _extent(layout: _Layout) -> NDArray[np.float64]:
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


def _component(pairs: list[tuple[int, int]], width: NDArray[np.float64], em: float) -> _Layout:
    """Lay out one connected component whose nodes 0..k-1 list causes first."""
    k = len(width)
    level = _levels(k, pairs)
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
    layout = _Layout(points[:k], box[:k] / 2, upright[:k], routes)
    return _fold(layout, span, em)


def _levels(k: int, pairs: list[tuple[int, int]]) -> list[int]:
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


def _fold(layout: _Layout, span: NDArray[np.float64], em: float) -> _Layout:
    """Fold a tall and narrow component into columns that run down and up in turn."""
    low, high = _extent(layout)
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


# -------------------------------------------------------------------- how things look


def _label(name: str, longest: int) -> str:
    text = "".join(c if c.isprintable() else " " for c in name)
    tail = longest // 3  # numbered names differ at their ends
    return text if len(text) <= longest else f"{text[: longest - tail - 1]}…{text[-tail:]}"


def _text_width(text: str, size: float) -> float:
    from matplotlib.textpath import TextPath

    if not text.strip():
        return size * len(text) / 3
    # Characters the font lacks come out as empty boxes of this width too.
    return float(TextPath((0, 0), text.replace("$", "S"), size=size, usetex=False).get_extents().x1)


def _leave_box(
    centre: NDArray[np.float64], half: NDArray[np.float64], towards: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return where the line from a box's centre towards a point crosses its border."""
    step = towards - centre
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nanmin(half / np.abs(step))
    return centre + step * min(1.0, float(share))


def _curve(
    route: NDArray[np.float64], half: NDArray[np.float64], head: float
) -> tuple[Any, NDArray[np.float64]]:
    """Return the path of an arc from border to border, and its head as a triangle (3, 2)."""
    from matplotlib.path import Path as Curve

    start = _leave_box(route[0], half[0], route[1])
    tip = _leave_box(route[-1], half[1], route[-2])
    along = route[-1] - route[-2]
    along = along / max(float(np.hypot(*along)), 1e-9)
    across = np.array([-along[1], along[0]])
    base = tip - along * head
    triangle = np.array([tip, base + across * head * 0.42, base - across * head * 0.42])
    inner = route[1:-1]
    points, codes = [start], [Curve.MOVETO]
    for i, control in enumerate(inner):  # corners are rounded between the legs' midpoints
        after = base if i == len(inner) - 1 else (control + inner[i + 1]) / 2
        points += [control, after]
        codes += [Curve.CURVE3, Curve.CURVE3]
    if not len(inner):
        points.append(base)
        codes.append(Curve.LINETO)
    return Curve(points, codes), triangle


def _paint(figure: Any, dag: DAG, marked: set[str], heading: str, notes: list[str]) -> None:
    """Draw the DAG into an empty figure and give it its size."""
    from matplotlib.patches import FancyBboxPatch

    em = next((size for size, most in _FONT_SIZES if dag.n_nodes <= most), 5.5)
    longest = 20 if dag.n_nodes <= 80 else 14
    labels = [_label(name, longest) for name in dag.names]
    width = np.array([max(_text_width(label, em) + 1.2 * em, 2.2 * em) for label in labels])
    layout = _arrange(dag, width, em)
    low, high = _extent(layout) if dag.n_nodes else np.zeros((2, 2))
    heading, legend = _label(heading, 120), _legend(dag)
    margin, header, footer = 14.0, 26.0 + 13.0 * len(notes), 24.0
    words = [_text_width(heading, 13.5), *(_text_width(note, 9) for note in notes)]
    words.append(sum(_text_width(handle.get_label(), 8) + 45 for handle in legend))
    low = low - np.array([margin, margin + header])
    high = high + np.array([margin, margin + footer])
    spare = max(max(words) + 2 * margin - (high - low)[0], 0.0)
    low[0], high[0] = low[0] - spare / 2, high[0] + spare / 2
    inches = (high - low) / 72
    scale = float(min(1.0, _MAX_INCHES / inches.max()))
    figure.set_size_inches(*(inches * scale))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(low[0], high[0]), ylim=(high[1], low[1]))  # y grows downwards
    axes.axis("off")
    _paint_arcs(axes, dag, layout, em, scale)
    for v, label in enumerate(labels):
        corner, size = layout.at[v] - layout.half[v], 2 * layout.half[v]
        is_marked = dag.names[v] in marked
        axes.add_patch(
            FancyBboxPatch(
                corner,
                size[0],
                size[1],
                boxstyle=f"round,pad=0,rounding_size={0.45 * em}",
                facecolor=_MARK if is_marked else "white",
                edgecolor=_INK,
                linewidth=(1.8 if is_marked else 0.7) * scale,
                zorder=3,
            )
        )
        axes.text(
            *layout.at[v],
            label,
            fontsize=em * scale,
            color=_INK,
            ha="center",
            va="center_baseline" if not layout.upright[v] else "center",
            rotation=90 if layout.upright[v] else 0,
            parse_math=False,
            usetex=False,
            zorder=4,
        )
    left, top = low[0] + margin, low[1] + margin
    axes.text(
        left,
        top,
        heading,
        fontsize=12 * scale,
        color=_INK,
        va="top",
        fontweight="bold",
        parse_math=False,
        usetex=False,
    )
    for row, note in enumerate(notes):
        axes.text(left, top + 17 + 13 * row, note, fontsize=9 * scale, color="#555555", va="top")
    for handle in legend:
        handle.set_linewidth(2 * scale)
    look = {"frameon": False, "fontsize": 8 * scale, "borderaxespad": 1.0, "columnspacing": 1.5}
    axes.legend(handles=legend, loc="lower left", ncols=max(len(legend), 1), **look)


def _paint_arcs(axes: Any, dag: DAG, layout: _Layout, em: float, scale: float) -> None:
    """Draw the arcs, the strongest on top; a line's width grows with the absolute weight."""
    from matplotlib.collections import PathCollection, PolyCollection

    arcs = dag._arcs()
    if not dag.n_arcs:
        return
    strength = np.abs(arcs.weight) / np.abs(arcs.weight).max()
    lines = (0.6 + 2.4 * strength) * em / 10 * scale
    colours = np.where(arcs.weight > 0, _POSITIVE, _NEGATIVE)
    open_ends = np.zeros(dag.n_arcs, dtype=bool) if arcs.reversible is None else arcs.reversible
    curves, heads = [], []
    for k, route in enumerate(layout.routes):
        size = 0.0 if open_ends[k] else 0.55 * em + 2.2 * lines[k] / scale
        half = layout.half[[arcs.source[k], arcs.target[k]]]
        curve, triangle = _curve(route, half, size)
        curves.append(curve)
        heads.append(triangle)
    weak_first = np.argsort(strength, kind="stable")
    axes.add_collection(
        PathCollection(
            [curves[k] for k in weak_first],
            facecolors="none",
            edgecolors=colours[weak_first],
            linewidths=lines[weak_first],
            alpha=0.85,
            zorder=1,
            capstyle="butt",
            linestyles=["-" if arcs.weight[k] > 0 else (0, (4, 1.6)) for k in weak_first],
        )
    )
    shown = [k for k in weak_first if not open_ends[k]]
    axes.add_collection(
        PolyCollection(
            [heads[k] for k in shown], facecolors=colours[shown], edgecolors="none", zorder=2
        )
    )


def _legend(dag: DAG) -> list[Any]:
    from matplotlib.lines import Line2D

    arcs = dag._arcs()
    handles = []
    for is_positive in (True, False):
        sizes = np.abs(arcs.weight[(arcs.weight > 0) == is_positive])
        if len(sizes):
            spread = f"{sizes.min():.2g}" + (f" to {sizes.max():.2g}" if len(sizes) > 1 else "")
            label = f"{'positive' if is_positive else 'negative'} weight, size {spread}"
            colour = _POSITIVE if is_positive else _NEGATIVE
            handles.append(
                Line2D([], [], color=colour, linestyle="-" if is_positive else "--", label=label)
            )
    if arcs.reversible is not None and arcs.reversible.any():
        handles.append(Line2D([], [], color="#777777", label="no head: direction open"))
    return handles
