"""A picture of a DAG: layers from causes to effects, drawn with matplotlib.

The axes cover the figure at one unit a point (1/72 inch), so that boxes, arrow heads and text keep
their sizes to each other. Where things stand is decided in `bigdag.graph.layout`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from bigdag.errors import ParameterError, missing_extra
from bigdag.graph.dag import DAG
from bigdag.graph.layout import Layout, arrange, extent
from bigdag.writing import Output, whole_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["draw"]

# Colours of Okabe and Ito, told apart by colour-blind readers; the dashes serve grey print.
_POSITIVE, _NEGATIVE, _INK, _MARK = "#0072B2", "#D55E00", "#222222", "#F0E442"
_SUFFIXES = (".png", ".svg", ".pdf")
_MAX_INCHES = 30.0
_FONT_SIZES = ((10.0, 30), (8.0, 80), (6.5, 160))  # points, for up to so many nodes


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
    negative weights; the width grows with the absolute weight. Reversible arcs have no head, and
    where arcs have probabilities, the less probable are paler. Nodes without arcs are left out and
    counted below the title.

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
    arcs = dag._arcs().strongest_first()
    ends = np.column_stack([arcs.source, arcs.target]).ravel()
    nodes, first = np.unique(ends, return_index=True)
    if not len(nodes):
        shown = min(dag.n_nodes, max_nodes)
        left = [f"{dag.n_nodes - shown} nodes not shown"] if shown < dag.n_nodes else []
        return dag._part(np.arange(shown)), left
    notes = []
    if len(nodes) > max_nodes:
        # The arc that brings in the first node too many ends the list.
        n_arcs = int(np.sort(first)[max_nodes]) // 2
        nodes = np.unique(ends[: 2 * n_arcs])
        notes.append(
            f"Shown: the {n_arcs} strongest of {dag.n_arcs} arcs, on {len(nodes)} of the nodes"
        )
        part = dag._part(nodes)
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
    return dag._part(nodes), notes


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
    layout = arrange(dag, width, em)
    low, high = extent(layout) if dag.n_nodes else np.zeros((2, 2))
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


def _paint_arcs(axes: Any, dag: DAG, layout: Layout, em: float, scale: float) -> None:
    """Draw the arcs, the strongest on top; a line's width grows with the absolute weight.

    Where arcs have probabilities, a line is the paler the less probable its pair is.
    """
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
    opacity = _opacity(arcs.columns, dag.n_arcs)
    axes.add_collection(
        PathCollection(
            [curves[k] for k in weak_first],
            facecolors="none",
            edgecolors=colours[weak_first],
            linewidths=lines[weak_first],
            alpha=opacity[weak_first],
            zorder=1,
            capstyle="butt",
            linestyles=["-" if arcs.weight[k] > 0 else (0, (4, 1.6)) for k in weak_first],
        )
    )
    shown = [k for k in weak_first if not open_ends[k]]
    axes.add_collection(
        PolyCollection(
            [heads[k] for k in shown],
            facecolors=colours[shown],
            edgecolors="none",
            zorder=2,
            alpha=None if not shown else np.minimum(1.0, opacity[shown] + 0.15),
        )
    )


def _opacity(columns: Mapping[str, NDArray[Any]], m: int) -> NDArray[np.float64]:
    """Return how opaque each arc is drawn: 0.85, or from 0.15 up by its pair's probability."""
    column = next((name for name in ("adjacency", "probability") if name in columns), None)
    if column is None:
        return np.full(m, 0.85)
    return 0.15 + 0.7 * np.clip(np.nan_to_num(columns[column].astype(np.float64)), 0, 1)


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
    if {"adjacency", "probability"} & set(arcs.columns):
        handles.append(Line2D([], [], color="#777777", alpha=0.3, label="pale: less probable"))
    if arcs.reversible is not None and arcs.reversible.any():
        handles.append(Line2D([], [], color="#777777", label="no head: direction open"))
    return handles
