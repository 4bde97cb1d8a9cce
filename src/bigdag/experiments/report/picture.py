"""A picture of a report: drawn twice, as wide as a page and as narrow as a telephone, and saved.

Sizes are inches. What is common to all pictures is here: the settings of matplotlib, headings, and
how a drawing becomes bytes.
"""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bigdag.errors import missing_extra

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["GRID", "NARROW", "PALE", "WIDTH", "Picture", "heading", "lines_of", "picture", "share"]

WIDTH = 7.2
NARROW = 3.9  # 374 pixels
INK, PALE, GRID = "#1a1a1a", "#5a5a5a", "#d9d9d9"
_LETTER = 0.074  # of a title
_LINE = 0.15
_RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans", "font.size": 7.5, "axes.labelsize": 7.5, "xtick.labelsize": 7,
    "ytick.labelsize": 7, "axes.edgecolor": "#808080", "axes.linewidth": 0.6, "text.color": INK,
    "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "xtick.major.width": 0.6,
    "ytick.major.width": 0.6, "xtick.major.size": 2.5, "ytick.major.size": 2.5,
    "xtick.minor.size": 0, "ytick.minor.size": 0, "axes.grid": True, "grid.color": GRID,
    "grid.linewidth": 0.5, "axes.axisbelow": True, "svg.fonttype": "path",
    "svg.hashsalt": "bigdag", "legend.frameon": False, "legend.fontsize": 7.5,
    "hatch.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False,
    "text.usetex": False, "text.parse_math": False,
}  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """A drawn picture: its name in files, its bytes in both formats, and a narrow one."""

    name: str
    png: bytes
    svg: bytes
    narrow: bytes  # SVG
    width: int  # CSS pixels
    height: int
    narrow_height: int


def picture(name: str, paint: Callable[[Any, float], Any]) -> Picture:
    """Return the picture that a function paints at two widths.

    Parameters
    ----------
    name : str
        Of the files.
    paint : callable
        Called with matplotlib's class of figures and the width; returns the figure.

    Examples
    --------
    >>> drawn = picture("a", lambda new, width: new(figsize=(width, 1.0)))
    >>> drawn.width, drawn.height, drawn.png[1:4], drawn.narrow[:5]
    (691, 96, b'PNG', b'<?xml')
    """
    with _settings() as new:
        wide, narrow = paint(new, WIDTH), paint(new, NARROW)
        png = _saved(wide, "png", {"Software": None})
        svg, small = (
            _compact(_saved(one, "svg", {"Date": None, "Creator": None})) for one in (wide, narrow)
        )
    heights = [round(one.get_size_inches()[1] * 96) for one in (wide, narrow)]
    return Picture(name, png, svg, small, round(WIDTH * 96), *heights)


@contextmanager
def _settings() -> Iterator[Any]:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("matplotlib", "plot", "A report") from None
    with matplotlib.rc_context(_RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # names in scripts the font lacks
        yield lambda figsize: Figure(figsize=figsize, facecolor="white")


def _saved(figure: Any, kind: str, metadata: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, dpi=160, metadata=metadata)
    return file.getvalue()


def _compact(svg: bytes) -> bytes:
    """Return an SVG document without what nobody sees, which is a third of matplotlib's.

    Examples
    --------
    >>> _compact(b'<svg> <!-- a --> <g id="axes_1"> <path d="M 0.1234 1"/> </g> </svg>')
    b'<svg><g><path d="M 0.12 1"/></g></svg>'
    """
    svg = re.sub(rb"<!DOCTYPE[^>]*>|<!--.*?-->|<metadata>.*?</metadata>", b"", svg, flags=re.S)
    svg = re.sub(rb'<g id="[^"]*_\d+"', b"<g", svg)  # nothing refers to groups
    # Two decimals are a hundredth of a point. Scales need all of theirs.
    svg = re.sub(rb"scale\([^)]*\)|(\d\.\d\d)\d+", lambda m: m[1] or m[0], svg)
    return re.sub(rb"\s+", b" ", re.sub(rb">\s+<", b"><", svg)).replace(b' "', b'"')


def lines_of(title: str, width: float) -> list[str]:
    """Return the lines that a title takes in a picture of this width."""
    return textwrap.wrap(title, max(20, int((width - 0.1) / _LETTER)))


def heading(figure: Any, title: str, width: float) -> float:
    """Write a title at the top of a figure; return the height that it takes."""
    lines = lines_of(title, width)
    height = figure.get_size_inches()[1]
    figure.text(
        0.05 / width, 1 - 0.06 / height, "\n".join(lines), va="top", fontsize=8.5,
        fontweight="bold",
    )  # fmt: skip
    return _LINE * len(lines) + (0.07 if lines else 0.0)


def share(box: tuple[float, ...], width: float, height: float) -> tuple[float, ...]:
    """Return a box (left, bottom, width, height) in inches as shares of the figure."""
    return box[0] / width, box[1] / height, box[2] / width, box[3] / height
