"""A DAG as a notebook shows it: counts, a small picture, the strongest arcs. No scripts.

It takes the colours of the page that it is in, light or dark.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from bigdag.graph.layout import Layout, arrange, extent
from bigdag.terminal import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bigdag.graph.arcs import Arcs
    from bigdag.graph.dag import DAG

__all__ = ["summary_html"]

_NODES, _ROWS = 24, 10  # in the picture, in the table
_EM, _LONGEST = 12.0, 18  # points, letters of a name in the picture
_POSITIVE, _NEGATIVE = "#2a8fd0", "#d9662b"  # seen on white and on black


def summary_html(dag: DAG) -> str:
    """Return a piece of HTML that shows a DAG in short.

    Examples
    --------
    >>> from bigdag import DAG
    >>> text = summary_html(DAG([[0, 2.0], [0, 0]], names=["rain", "<b>"]))
    >>> "2 variables, 1 arc" in text, "&lt;b&gt;" in text, "<b>" in text
    (True, True, False)
    """
    arcs = dag._arcs().strongest_first()
    counts = [_count(dag.n_nodes, "variable"), _count(dag.n_arcs, "arc")]
    if dag.reversible is not None:
        counts.append(f"{dag.reversible.nnz:,} undirected")
    lines = [f'<div class="bigdag"><p><strong>DAG</strong>: {", ".join(counts)}</p>']
    if dag.n_arcs:
        shown = _few(arcs)
        lines.append(_picture(dag, shown))
        if len(shown) < dag.n_arcs:
            lines.append(
                f"<p><small>The {_count(len(shown), 'strongest arc')} of {dag.n_arcs:,}; "
                "to_html() makes a page to explore all of them.</small></p>"
            )
        lines.append(_table(dag, arcs))
    return "\n".join([*lines, "</div>"])


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _text(name: str, longest: int) -> str:
    """Return a name as text of HTML, with nothing in it that turns text around."""
    text, tail = printable(name), longest // 3
    if len(text) > longest:
        text = f"{text[: longest - tail - 1]}…{text[-tail:]}"
    return html.escape(text)


def _few(arcs: Arcs) -> range:
    """Return the places of the strongest arcs that touch no more than some nodes."""
    seen: set[int] = set()
    for place, pair in enumerate(zip(arcs.source.tolist(), arcs.target.tolist())):
        seen |= set(pair)
        if len(seen) > _NODES:
            return range(place)
    return range(len(arcs.weight))


def _picture(dag: DAG, shown: range) -> str:
    """Return a drawing of some of the strongest arcs as SVG."""
    strongest = dag._arcs().strongest_first().pick(np.s_[: len(shown)])
    nodes = np.unique(np.concatenate([strongest.source, strongest.target]))
    part = dag._part(nodes)
    place = {v: k for k, v in enumerate(nodes.tolist())}
    kept = np.zeros((len(nodes), len(nodes)))
    for i, j in zip(strongest.source.tolist(), strongest.target.tolist()):
        kept[place[i], place[j]] = 1
    part = part.with_arcs(kept)
    labels = [_text(name, _LONGEST) for name in part.names]
    width = np.array([0.62 * _EM * min(len(name), _LONGEST) + _EM for name in part.names])
    layout = arrange(part, np.maximum(width, 2.5 * _EM), _EM)
    low, high = extent(layout)
    wide, tall = (high - low + 16).tolist()
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{tall:.0f}" '
        f'viewBox="{low[0] - 8:.0f} {low[1] - 8:.0f} {wide:.0f} {tall:.0f}" role="img" '
        f'aria-label="{_count(part.n_arcs, "strong arc")} of the DAG, causes above their effects" '
        'style="max-width:100%;height:auto">'
    ]
    arcs = part._arcs()
    largest = np.abs(arcs.weight).max()
    for k, route in enumerate(layout.routes):
        is_open = arcs.reversible is not None and bool(arcs.reversible[k])
        ends = layout.half[[arcs.source[k], arcs.target[k]]]
        parts.append(_arc(route, ends, float(arcs.weight[k]), float(largest), is_open))
    parts += [_box(layout, v, label) for v, label in enumerate(labels)]
    return "".join([*parts, "</svg>"])


def _arc(
    route: NDArray[np.float64],
    half: NDArray[np.float64],
    weight: float,
    largest: float,
    is_open: bool,
) -> str:
    """Return a line from box to box, with a head unless its direction is open."""

    def border(centre: Any, box: Any, towards: Any) -> Any:
        step = towards - centre
        with np.errstate(divide="ignore", invalid="ignore"):
            return centre + step * min(1.0, float(np.nanmin(box / np.abs(step))))

    start, tip = border(route[0], half[0], route[1]), border(route[-1], half[1], route[-2])
    along = (route[-1] - route[-2]) / max(float(np.hypot(*(route[-1] - route[-2]))), 1e-9)
    across = np.array([-along[1], along[0]])
    head = 0.0 if is_open else 8.0
    base = tip - head * along
    inner, path = route[1:-1], f"M{start[0]:.1f} {start[1]:.1f}"
    for i, bend in enumerate(inner):  # corners are rounded between the legs' midpoints
        after = base if i == len(inner) - 1 else (bend + inner[i + 1]) / 2
        path += f"Q{bend[0]:.1f} {bend[1]:.1f} {after[0]:.1f} {after[1]:.1f}"
    if not len(inner):
        path += f"L{base[0]:.1f} {base[1]:.1f}"
    colour = _POSITIVE if weight > 0 else _NEGATIVE
    dashes = "" if weight > 0 else ' stroke-dasharray="6 3"'
    thick = 1 + 2 * abs(weight) / largest
    line = f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{thick:.1f}"{dashes}/>'
    if is_open:
        return line
    corners = (tip, base + 3.5 * across, base - 3.5 * across)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return f'{line}<polygon points="{points}" fill="{colour}"/>'


def _box(layout: Layout, v: int, label: str) -> str:
    (x, y), (w, h) = layout.at[v], layout.half[v]
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if layout.upright[v] else ""
    return (
        f'<rect x="{x - w:.1f}" y="{y - h:.1f}" width="{2 * w:.1f}" height="{2 * h:.1f}" rx="5" '
        'fill="none" stroke="currentColor" stroke-opacity="0.5"/>'
        f'<text x="{x:.1f}" y="{y + 0.35 * _EM:.1f}" text-anchor="middle" font-size="{_EM:g}" '
        f'font-family="sans-serif" fill="currentColor"{turn}>{label}</text>'
    )


def _table(dag: DAG, arcs: Arcs) -> str:
    """Return the strongest arcs as a table."""
    names = [*("cause", "", "effect", "weight"), *(n.replace("_", " ") for n in arcs.columns)]
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in names)
    rows = []
    for k in range(min(_ROWS, len(arcs.weight))):
        is_open = arcs.reversible is not None and bool(arcs.reversible[k])
        cells = [
            _text(dag.names[arcs.source[k]], 40), "–" if is_open else "→",
            _text(dag.names[arcs.target[k]], 40), f"{arcs.weight[k]:.4g}",
            *(_value(values[k]) for values in arcs.columns.values()),
        ]  # fmt: skip
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    title = "Strongest arcs" if len(rows) < len(arcs.weight) else "Arcs"
    return (
        f"<table><caption>{title}</caption><thead><tr>{head}</tr></thead><tbody>"
        f"{''.join(rows)}</tbody></table>"
    )


def _value(value: Any) -> str:
    if isinstance(value, np.bool_):
        return "yes" if value else ""
    return "" if np.isnan(value) else f"{value:.3g}"
