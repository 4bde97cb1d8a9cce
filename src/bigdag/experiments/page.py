"""One HTML page that needs nothing but itself: text, pictures and tables in, a string out.

The style sheet and the script lie beside this module and are written into the page. The page's own
policy forbids it to load anything. Without scripts it is whole, only not sortable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files

import numpy as np
import pandas as pd

from bigdag.experiments.figures import Picture

__all__ = ["Figure", "Listing", "Section", "Table", "page"]

GENERATOR = "bigdag experiment report"
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_NUMBER = re.compile(r"-?[\d.,]+(e[-+]?\d+)?( ± .*)?")


@dataclass(frozen=True)
class Figure:
    """A picture in the page: what it is called, what it shows, and the same in words alone."""

    label: str
    caption: str
    alt: str
    picture: Picture
    csv: str  # the file with its numbers


@dataclass(frozen=True)
class Table:
    """A table in the page; `csv` is the file with all of its rows and columns."""

    name: str
    caption: str
    frame: pd.DataFrame
    csv: str | None = None


@dataclass(frozen=True)
class Listing:
    """Lines to type, as they are."""

    caption: str
    text: str


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading; paragraphs are plain text."""

    name: str
    title: str
    paragraphs: Sequence[str] = ()
    items: Sequence[Figure | Table | Listing] = field(default_factory=tuple)


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

    Examples
    --------
    >>> text = page("Runs", "Of a < b.", [("3", "runs")], [Section("all", "All runs")])
    >>> "Of a &lt; b." in text, '<a href="#all">All runs</a>' in text
    (True, True)
    """
    tiles = "".join(
        f"<div><dd>{escape(value)}</dd><dt>{escape(what)}</dt></div>" for value, what in facts
    )
    links = "".join(f'<li><a href="#{s.name}">{escape(s.title)}</a></li>' for s in sections)
    body = "".join(map(_section, sections))
    here = files("bigdag.experiments")
    style, script = (here.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="{GENERATOR}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the results</a>
<header>
<h1>{escape(title)}</h1>
<p>{escape(lead)}</p>
<dl class="facts">{tiles}</dl>
<nav aria-label="Contents"><ol>{links}</ol></nav>
</header>
<main id="main">
{body}</main>
<script>
{script}</script>
</body>
</html>
"""


def _section(section: Section) -> str:
    words = "".join(f"<p>{escape(text)}</p>\n" for text in section.paragraphs)
    parts = []
    for item in section.items:
        if isinstance(item, Figure):
            parts.append(_figure(item))
        elif isinstance(item, Table):
            parts.append(_table(item))
        else:
            parts.append(
                f"<p>{escape(item.caption)}</p>\n"
                f'<pre tabindex="0"><code>{escape(item.text)}</code></pre>\n'
            )
    return (
        f'<section id="{section.name}" aria-labelledby="{section.name}-title">\n'
        f'<h2 id="{section.name}-title">{escape(section.title)}</h2>\n'
        f"{words}{''.join(parts)}</section>\n"
    )


def _figure(figure: Figure) -> str:
    picture = figure.picture
    data = _data(picture.svg)
    links = " ".join(
        f'<a href="{path}">{kind}</a>'
        for kind, path in (
            ("PNG", f"figures/{picture.name}.png"),
            ("SVG", f"figures/{picture.name}.svg"),
            ("CSV", figure.csv),
        )
    )
    return (
        f'<figure id="figure-{picture.name}">\n'
        f'<div class="plot" tabindex="0" role="group" aria-label="{escape(figure.label)}">'
        f'<img src="data:image/svg+xml,{data}" alt="{escape(figure.alt)}" '
        f'width="{picture.width}" height="{picture.height}"></div>\n'
        f"<figcaption><b>{escape(figure.label)}.</b> {escape(figure.caption)} "
        f'<span class="files">{links}</span></figcaption>\n</figure>\n'
    )


def _data(svg: bytes) -> str:
    """Return an SVG document as the text of a data URI, which is shorter than base64.

    Examples
    --------
    >>> _data(b'<g fill="#fff"/>')
    "%3Cg fill='%23fff'/%3E"
    """
    text = svg.decode().replace('"', "'")
    for sign in "%#<>&":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def _table(table: Table) -> str:
    columns = [_column(table.frame.iloc[:, i]) for i in range(table.frame.shape[1])]
    head = "".join(
        f'<th scope="col"{kind}>{escape(str(name))}</th>'
        for name, (kind, _) in zip(table.frame.columns, columns)
    )
    rows = "".join(
        f"<tr>{''.join(cells)}</tr>\n" for cells in zip(*(cells for _, cells in columns))
    )
    link = f' <span class="files"><a href="{table.csv}">CSV</a></span>' if table.csv else ""
    return (
        f'<div class="table" id="{table.name}"><div class="scroll" tabindex="0" role="group" '
        f'aria-label="{escape(table.caption.split(".")[0])}"><table>\n'
        f"<caption><span>{escape(table.caption)}{link}</span></caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div></div>\n"
    )


def _column(values: pd.Series) -> tuple[str, list[str]]:
    """Return the attribute of a column's heading and its cells."""
    texts = _texts(values)
    filled = [text for text in texts if text]
    if filled and all(_NUMBER.fullmatch(text) for text in filled):
        return ' class="n"', [f'<td class="n">{text}</td>' for text in texts]
    wrap = ' class="w"' if max(map(len, texts), default=0) > 48 else ""
    return "", [f"<td{wrap}>{escape(text)}</td>" for text in texts]


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
