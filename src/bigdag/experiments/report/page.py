"""One HTML page that needs nothing but itself: text, pictures and tables in, a string out.

The page is a template of Jinja, which escapes every text that it is given. The style sheet and the
script lie beside this module and are written into the page. The page's own policy names these two
by their hashes, and forbids every other script and style, and to load anything. Without scripts it
is whole, only not sortable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar
from urllib.parse import quote

import numpy as np
import pandas as pd

from bigdag.errors import missing_extra
from bigdag.experiments.report.picture import NARROW, Picture
from bigdag.page.document import content_policy

__all__ = ["Figure", "Listing", "Section", "Table", "page"]

GENERATOR = "bigdag experiment report"
_NUMBER = re.compile(r"-?[\d.,]+(e[-+]?\d+)?( ± -?[\d.,]+(e[-+]?\d+)?)?")
_LONG = 48  # letters from which on the cells of a column are wrapped


@dataclass(frozen=True)
class Figure:
    """A picture in the page: what it is called, what it shows, and the same in words alone."""

    kind: ClassVar[str] = "figure"
    label: str
    caption: str
    alt: str
    picture: Picture
    csv: str  # the file with its numbers

    @property
    def source(self) -> str:
        """The picture as the address of an image."""
        return _data(self.picture.svg)

    @property
    def narrow_source(self) -> str:
        """The narrow picture as an address in a list of sources, where a space would end it."""
        return _data(self.picture.narrow, space="%20")

    @property
    def narrow_width(self) -> int:
        """The width of the narrow picture in CSS pixels."""
        return round(NARROW * 96)

    @property
    def links(self) -> list[tuple[str, str]]:
        """The picture's files beside the page, by kind."""
        name = self.picture.name
        return [
            ("PNG", f"figures/{name}.png"), ("SVG", f"figures/{name}.svg"), ("CSV", self.csv)
        ]  # fmt: skip


@dataclass(frozen=True)
class _Column:
    """A column of a table as text, and the classes of its heading and of its cells."""

    name: str
    heading_kind: str
    cell_kind: str
    texts: list[str]


@dataclass(frozen=True)
class Table:
    """A table in the page; `csv` is the file with all of its rows and columns."""

    kind: ClassVar[str] = "table"
    name: str
    caption: str
    frame: pd.DataFrame
    csv: str | None = None

    def columns(self) -> list[_Column]:
        """Return the columns as text."""
        width = self.frame.shape[1]
        return [_column(str(self.frame.columns[i]), self.frame.iloc[:, i]) for i in range(width)]

    @staticmethod
    def rows(columns: Sequence[_Column]) -> Iterator[list[tuple[str, str]]]:
        """Iterate over rows of the class and the text of each cell."""
        kinds = [column.cell_kind for column in columns]
        for texts in zip(*(column.texts for column in columns)):
            yield list(zip(kinds, texts))


@dataclass(frozen=True)
class Listing:
    """Lines to type, as they are."""

    kind: ClassVar[str] = "listing"
    caption: str
    text: str


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading; paragraphs and points are plain text."""

    name: str
    title: str
    paragraphs: Sequence[str] = ()
    items: Sequence[Figure | Table | Listing] = field(default_factory=tuple)
    short: str = ""  # its name in the list of contents; the title by default
    points: Sequence[str] = ()  # a list, before the paragraphs


def page(
    title: str, lead: str, facts: Sequence[tuple[str, str]], sections: Sequence[Section]
) -> str:
    """Return the page.

    Parameters
    ----------
    title, lead : str
        The heading and the paragraph below it.
    facts : sequence of (str, str)
        Figures in short: a value and what it counts.
    sections : sequence of Section
        The parts, in order.

    Returns
    -------
    str
        An HTML document.

    Raises
    ------
    MissingExtraError
        If Jinja is not installed.

    Examples
    --------
    >>> text = page("Runs", "Of a < b.", [("3", "runs")], [Section("all", "All runs")])
    >>> "Of a &lt; b." in text, '<a href="#all">All runs</a>' in text
    (True, True)
    """
    environment = _environment()
    here = files("bigdag.experiments.report")
    style, script = (here.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    text: str = environment.get_template("page.html.j2").render(
        title=title, lead=lead, facts=facts, sections=sections,
        policy=content_policy(style, script), generator=GENERATOR,
        # These two are files of the package, and nothing else is written as it is.
        style=_as_it_is(style), script=_as_it_is(script),
    )  # fmt: skip
    return text


@cache
def _environment() -> Any:
    try:
        import jinja2
    except ImportError:
        raise missing_extra("jinja2", "experiments", "A report") from None
    return jinja2.Environment(
        loader=jinja2.PackageLoader("bigdag.experiments.report"),
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip


def _as_it_is(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)


def _data(svg: bytes, space: str = " ") -> Any:
    """Return an SVG document as a data URI, which is shorter than with base64.

    No sign is left in it that means something in an attribute between double quotes.

    Examples
    --------
    >>> print(_data(b'<g fill="#fff"/>'))
    data:image/svg+xml,%3Cg fill='%23fff'/%3E
    """
    if b"'" not in svg:
        svg = svg.replace(b'"', b"'")
    address = "data:image/svg+xml," + quote(svg, safe=" !$'()*+,-./:;=?@[]_~")
    return _as_it_is(address.replace(" ", space))


def _column(name: str, values: pd.Series) -> _Column:
    texts = _texts(values)
    filled = [text for text in texts if text]
    if filled and all(_NUMBER.fullmatch(text) for text in filled):
        return _Column(name, "n", "n", texts)
    return _Column(name, "", "w" if max(map(len, texts), default=0) > _LONG else "", texts)


def _texts(values: pd.Series) -> list[str]:
    """Return cells as text: whole numbers plain, shares with three decimals, else three digits."""
    if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        return ["" if pd.isna(v) else str(v) for v in values]
    numbers = values.to_numpy(dtype=float)
    sizes = np.abs(numbers[np.isfinite(numbers)])
    if (sizes % 1 == 0).all():
        form = ",.0f"
    elif sizes.max() <= 1 and sizes.max() > 0.01:
        form = ".3f"
    else:
        form = ""
    return ["" if np.isnan(v) else format(v, form) if form else _digits(v) for v in numbers]


def _digits(value: float) -> str:
    """Return a number with three digits that mean something, without exponents where it can.

    Examples
    --------
    >>> _digits(12345.6), _digits(3.14159), _digits(0.000123)
    ('12,346', '3.14', '0.000123')
    """
    return f"{value:,.0f}" if 100 <= abs(value) < 1e9 else f"{value:.3g}"
