"""The charts of a report, drawn with matplotlib: dots by method, curves, and stacked bars.

Every method has one colour, marker and line style in all pictures. No two methods of the first
sixteen share a marker, so that the pictures stay readable in grey print. Sizes are inches. Each
chart is drawn as wide as a page of text, and again as narrow as a telephone, with its panels below
each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bigdag.experiments.report.picture import (
    GRID,
    PALE,
    WIDTH,
    Picture,
    heading,
    lines_of,
    picture,
    share,
)  # fmt: skip

__all__ = ["Level", "Style", "bars", "curves", "dots", "styles"]

_HIGHEST = 10.4  # of one picture; more rows of panels go on in the next
# Okabe and Ito's colours, told apart by colour-blind readers, with wine for their yellow, which is
# too pale on white.
_COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#1a1a1a", "#882255",
)  # fmt: skip
_HOURGLASS = ((-1, 1), (1, 1), (-1, -1), (1, -1), (-1, 1))
_BOW_TIE = ((-1, 1), (1, -1), (1, 1), (-1, -1), (-1, 1))
_BAR = ((-0.5, 1), (0.5, 1), (0.5, -1), (-0.5, -1), (-0.5, 1))
_MARKERS: tuple[Any, ...] = (
    "o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "d", (4, 1, 0), _HOURGLASS, _BOW_TIE, _BAR,
    "p",
)  # fmt: skip
_LARGER = {
    "*": 1.6, "P": 1.15, "X": 1.15, (4, 1, 0): 1.5, "d": 1.15, "D": 0.9, _HOURGLASS: 1.25,
    _BOW_TIE: 1.25, _BAR: 1.35, "p": 1.1,
}  # fmt: skip
_DASHES: tuple[Any, ...] = (
    "-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (9, 2)), (0, (3, 1, 1, 1, 1, 1)),
    (0, (2, 2)), (0, (7, 1.5, 2, 1.5)),
)  # fmt: skip
# Of the bars: statuses with an answer are pale and plain, failures are dark and hatched.
_STATUS = {
    "converged": ("#cfe3f1", ""), "max_iter": ("#a9cbe3", ""), "time_limit": ("#dddddd", ""),
    "diverged": ("#f3d9a4", ".."), "interrupted": ("#c9c9c9", "xx"), "error": ("#D55E00", "//"),
    "crashed": ("#882255", "\\\\"), "out_of_memory": ("#0072B2", "xxx"),
    "timeout": ("#555555", "--"),
}  # fmt: skip
# An axis that shows differences near 1: its places are those of -log(1 + _NEAR - y).
_NEAR = 0.004
_NEAR_TICKS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0)


class Style(NamedTuple):
    """How a method looks in every picture."""

    colour: str
    marker: Any
    dashes: Any

    def size(self, points: float) -> float:
        """Return the size that makes this marker look as large as a circle."""
        return points * _LARGER.get(self.marker, 1.0)


class Level(NamedTuple):
    """One of several values of a method in a panel: its name in the frame, its words, its fill."""

    name: str
    label: str
    fill: str  # full, open or half


def styles(methods: Sequence[str]) -> dict[str, Style]:
    """Return the style of each method.

    Examples
    --------
    >>> look = styles([f"m{i}" for i in range(16)])
    >>> len({style.marker for style in look.values()})
    16
    """
    return {
        name: Style(
            _COLOURS[i % len(_COLOURS)],
            _MARKERS[i % len(_MARKERS)],
            _DASHES[(i + i // len(_DASHES)) % len(_DASHES)],
        )
        for i, name in enumerate(methods)
    }


def dots(
    name: str,
    frame: pd.DataFrame,
    look: Mapping[str, Style],
    *,
    levels: Sequence[Level] = (),
    xlabel: str = "average precision",
    title: str = "",
    chance: float | None = None,
    joined: bool = True,
) -> list[Picture]:
    """Draw a point with its standard deviation for each category, in a grid of panels.

    Parameters
    ----------
    name : str
        Of the files.
    frame : DataFrame
        `row` and `column` (the titles of the panel), `category`, `mean`, `sd`, and where there are
        levels `level`; where there are `runs` and `total`, a panel says what is missing, and the
        `cause` where nothing is left. Panels, categories and levels keep the order of the frame.
    look : mapping
        The style of each category.
    levels : sequence of Level, optional
        Values that share a line.
    joined : bool, default=True
        Whether a line joins the levels.
    chance : float, optional
        A value to mark in all panels.

    Returns
    -------
    list of Picture
        One, several where the panels do not fit on a page, none of an empty frame.

    Examples
    --------
    >>> row = {"row": "d = 9", "column": "ER1", "category": "GD", "mean": 0.5, "sd": 0.1}
    >>> [picture.name for picture in dots("figure1", pd.DataFrame([row]), styles(["GD"]))]
    ['figure1']
    """
    if not len(frame):
        return []
    categories = [c for c in look if c in set(frame["category"])]
    columns, rows = list(dict.fromkeys(frame["column"])), list(dict.fromkeys(frame["row"]))
    row_height = 0.155 * len(categories) + 0.1
    gap = 0.15 if not any(rows) and not any(columns) else 0.34
    gap += 0.12 * max(column.count("\n") for column in columns)
    fit = max(1, int((_HIGHEST - 0.9) / (row_height + gap)))
    left = min(2.5, 0.25 + 0.064 * max(len(_short(c)) for c in categories))
    wide = max(1, min(6, int((WIDTH - left) / 0.85)))
    sheets = [
        (columns[i : i + wide], rows[j : j + fit])
        for i in range(0, len(columns), wide)
        for j in range(0, len(rows), fit)
    ]
    places = {title: i for i, title in enumerate([*rows, *columns])}
    pictures = []
    for number, (across, down) in enumerate(sheets, 1):
        part = frame[frame["column"].isin(across) & frame["row"].isin(down)]
        part = part.sort_values(["row", "column"], kind="stable", key=lambda s: s.map(places))
        words = _parted(title, number, len(sheets))

        def paint(
            new: Any,
            width: float,
            part: pd.DataFrame = part,
            across: list[str] = across,
            down: list[str] = down,
            words: str = words,
        ) -> Any:
            narrow = width < WIDTH
            # Panels side by side. On a telephone those of a row go on below, each with its axis,
            # and no place is left for what is not there.
            beside = max(1, int((width - left) / 0.95)) if narrow else len(across)
            below = gap + (0.14 if narrow else 0.0)
            there = set(zip(part["row"], part["column"]))
            place = {
                (row, column): divmod(i, beside)
                for row in down
                for i, column in enumerate(c for c in across if not narrow or (row, c) in there)
            }  # line of panels within the row, and panel within the line
            lines = {row: 1 + max(place[at][0] for at in place if at[0] == row) for row in down}
            starts = dict(zip(down, np.cumsum([0, *lines.values()])))
            legend = _legend_lines(levels, width)
            head = 0.04 + _head(words, width) + 0.2 * len(legend)
            height = head + sum(lines.values()) * (row_height + below) + 0.45
            figure = new((width, height))
            top = height - 0.04 - heading(figure, words, width)
            for i, some in enumerate(legend):
                _level_legend(figure, some, top - 0.2 * i)
            each = (width - left - 0.15) / max(min(beside, len(across)), 1 if narrow else 2)

            def low(row: str, line: int = 0) -> float:
                return height - head - (starts[row] + line + 1) * (row_height + below)

            named: set[float] = set()  # lines of which a panel has the categories' names
            lowest = {c: r for r, c in zip(part["row"], part["column"])}  # the last of each column
            for (row, column), panel in part.groupby(["row", "column"], sort=False):
                row, column = str(row), str(column)
                line, panel_at = place[row, column]
                at = left + panel_at * each, low(row, line)
                axes = figure.add_axes(share((*at, each - 0.3, row_height), width, height))
                _dot_panel(axes, panel, categories, look, levels, joined, at[1] not in named)
                named.add(at[1])
                if chance is not None:
                    axes.axvline(chance, color=PALE, linewidth=0.8, linestyle=(0, (3, 2)))
                axes.tick_params(labelbottom=narrow or row == lowest[column])
                axes.set_title(column, fontsize=7.5, pad=3)
            for row in down:
                corner = 0.05 / width, (low(row) + row_height + 0.06) / height
                figure.text(*corner, row, fontweight="bold", fontsize=7.5, va="bottom")
            middle = left + (min(beside, len(across)) * each - 0.3) / 2
            figure.text(middle / width, 0.08 / height, xlabel, ha="center", va="bottom")
            return figure

        pictures.append(picture(_numbered(name, number, len(sheets)), paint))
    return pictures


def _dot_panel(
    axes: Any,
    panel: pd.DataFrame,
    categories: list[str],
    look: Mapping[str, Style],
    levels: Sequence[Level],
    joined: bool,
    is_first: bool,
) -> None:
    """Draw one panel; the first of a row names the categories."""
    axes.set(xlim=(-0.03, 1.03), ylim=(len(categories) - 0.4, -0.6))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
    axes.set_yticks(range(len(categories)) if is_first else [])
    if is_first:
        axes.set_yticklabels([_short(c) for c in categories])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    lines = {"color": GRID, "linewidth": 0.5, "zorder": 0, "clip_on": False}
    axes.hlines(range(len(categories)), -0.03, 1.03, **lines)
    fills = {level.name: level.fill for level in levels}
    place = {category: i for i, category in enumerate(categories)}
    panel = panel.assign(at=panel["category"].map(place))
    known = panel.dropna(subset=["mean"])
    several = known.dropna(subset=["sd"])
    colours = [look[c].colour for c in several["category"]]
    low, high = several["mean"] - several["sd"], several["mean"] + several["sd"]
    axes.hlines(several["at"], low.clip(0, 1), high.clip(0, 1), colours, linewidth=2.6, alpha=0.45)
    if levels and joined:
        ends = known.groupby("at")["mean"].agg(["min", "max"])
        colours = [look[categories[at]].colour for at in ends.index]
        axes.hlines(ends.index, ends["min"], ends["max"], colours, linewidth=0.9)
    for record in panel.to_dict("records"):
        at, style = record["at"], look[record["category"]]
        if not np.isfinite(record["mean"]):
            words = str(record.get("cause") or "").replace("_", " ")
            axes.text(0.0, at, words, fontsize=5.8, color=PALE, va="center", style="italic")
            continue
        fill = fills.get(record.get("level", ""), "full")
        axes.plot(
            [record["mean"]], [at], marker=style.marker, markersize=style.size(4.4),
            color=style.colour, zorder=3, clip_on=False, markeredgewidth=0.9,
            markerfacecolor=_filled(fill, style.colour),
        )  # fmt: skip
        if not levels and record.get("runs", 0) < record.get("total", 0):
            share = f"{record['runs']:.0f}/{record['total']:.0f}"
            axes.text(1.06, at, share, fontsize=5.2, color=PALE, va="center")


def _filled(fill: str, colour: str) -> str:
    """Return the face of a marker; an open one is white, so that no line shows through."""
    from matplotlib.colors import to_hex, to_rgb

    share = {"full": 1.0, "half": 0.35, "open": 0.0}[fill]
    red, green, blue = (share * c + 1 - share for c in to_rgb(colour))
    return to_hex((red, green, blue))


def _legend_lines(levels: Sequence[Level], width: float) -> list[Sequence[Level]]:
    """Return the levels by the lines of their legend: one, or a line each where that is long."""
    if not levels:
        return []
    fits = 0.064 * sum(len(level.label) + 5 for level in levels) < width
    return [levels] if fits else [[level] for level in levels]


def _level_legend(figure: Any, levels: Sequence[Level], top: float) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [], [], color=PALE, marker="o", linestyle="", markersize=5, label=level.label,
            markerfacecolor=_filled(level.fill, PALE),
        )
        for level in levels
    ]  # fmt: skip
    height = figure.get_size_inches()[1]
    figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0.0, top / height),
        ncols=len(handles), handletextpad=0.2, columnspacing=1.4, borderaxespad=0.0,
    )  # fmt: skip


def curves(
    name: str,
    frame: pd.DataFrame,
    look: Mapping[str, Style],
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
    log_x: bool = False,
    log_y: bool = False,
    ylim: tuple[float, float] | None = None,
    ticks: Sequence[float] | None = None,
    near_one: bool = False,
) -> list[Picture]:
    """Draw a curve with its standard deviation for each method, in a grid of panels.

    Parameters
    ----------
    name : str
        Of the files.
    frame : DataFrame
        `panel` (its title), `method`, `x`, `mean` and `sd`, in the order to draw. Panels that have
        a `ylabel` of their own may have axes of their own. Rows with a true `end` are marks of
        their own, which no line joins.
    ticks : sequence of float, optional
        The places of x to name, where these are few values.
    near_one : bool, default=False
        Whether the axis of values up to 1 gives the more room, the nearer they are to 1.

    Returns
    -------
    list of Picture
        One, several where the panels do not fit on a page, none of an empty frame.

    Examples
    --------
    >>> row = {"panel": "n = 9", "method": "GD", "x": 1.0, "mean": 0.5, "sd": 0.1}
    >>> drawn = curves("a", pd.DataFrame([row]), styles(["GD"]), xlabel="d", ylabel="precision")
    >>> drawn[0].png[1:4], drawn[0].svg[:5]
    (b'PNG', b'<?xml')
    """
    if not len(frame):
        return []
    methods = [m for m in look if m in set(frame["method"])]
    panels = list(dict.fromkeys(frame["panel"]))
    has_ends = "end" in frame and bool(frame["end"].any())
    entry = 0.55 + 0.057 * max(len(_short(m)) for m in methods)
    most = min(len(panels), 3 if len(panels) != 4 else 2)
    tall = {1: 2.6, 2: 2.1}.get(-(-len(panels) // most), 1.7)  # of a panel
    pitch = tall + 0.58

    def legend_of(width: float) -> tuple[int, float]:
        """Return the columns and the height of the legend."""
        columns = max(1, min(len(methods), int((width - 0.2) / entry)))
        return columns, 0.1 + 0.16 * -(-(len(methods) + has_ends) // columns)

    fit = most * max(1, int((_HIGHEST - legend_of(WIDTH)[1] - 0.4) / pitch))
    sheets = [panels[i : i + fit] for i in range(0, len(panels), fit)]
    pictures = []
    for number, shown in enumerate(sheets, 1):
        words = _parted(title, number, len(sheets))

        def paint(new: Any, width: float, shown: list[str] = shown, words: str = words) -> Any:
            across = most if width == WIDTH else 1
            columns, legend = legend_of(width)
            lines = -(-len(shown) // across)
            height = 0.04 + _head(words, width) + lines * pitch + legend
            figure = new((width, height))
            heading(figure, words, width)
            each = width / across
            for i, panel in enumerate(shown):
                row, column = divmod(i, across)
                box = (
                    column * each + 0.58, legend + 0.38 + (lines - 1 - row) * pitch,
                    each - 0.74, tall,
                )  # fmt: skip
                axes = figure.add_axes(share(box, width, height))
                part = frame[frame["panel"] == panel]
                own = str(part["ylabel"].iloc[0]) if "ylabel" in part else ylabel
                _curve_panel(axes, part, look, log_x, log_y, ylim, ticks, near_one)
                axes.set_title(panel, fontsize=7.5, pad=4)
                axes.set_ylabel(own if column == 0 or "ylabel" in part else "")
                axes.set_xlabel(xlabel if i + across >= len(shown) else "")
            _method_legend(figure, methods, look, columns, has_ends)
            return figure

        pictures.append(picture(_numbered(name, number, len(sheets)), paint))
    return pictures


def _curve_panel(
    axes: Any,
    part: pd.DataFrame,
    look: Mapping[str, Style],
    log_x: bool,
    log_y: bool,
    ylim: tuple[float, float] | None,
    ticks: Sequence[float] | None,
    near_one: bool,
) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    shown = [m for m in look if m in set(part["method"])]
    for place, method in enumerate(shown):
        mine, style = part[part["method"] == method], look[method]
        if "end" in mine:
            ends = mine["end"].to_numpy(dtype=bool)
            axes.plot(
                mine["x"][ends], mine["mean"][ends], linestyle="", marker=style.marker,
                markersize=style.size(6.4), markerfacecolor="white", markeredgecolor=style.colour,
                markeredgewidth=1.2, zorder=5 + place / 100,
            )  # fmt: skip
            mine = mine[~ends]
        x, mean, sd = (mine[c].to_numpy(dtype=float) for c in ("x", "mean", "sd"))
        # Few markers a line, begun at different places, so that those of equal curves all show.
        # Numbers are shares of the panel's diagonal.
        every = None if len(x) <= 10 else (0.025 * (place % 8), 0.2)
        if np.isfinite(sd).any() and len(x) > 1:
            low = np.maximum(mean - sd, mean * 0.01) if log_y else mean - sd
            axes.fill_between(x, low, mean + sd, color=style.colour, alpha=0.12, linewidth=0)
        elif np.isfinite(sd).any():
            axes.errorbar(x, mean, sd, color=style.colour, linewidth=0.9)
        axes.plot(
            x, mean, color=style.colour, linestyle=style.dashes, linewidth=1.2,
            marker=style.marker, markersize=style.size(4.8), markeredgecolor="white",
            markeredgewidth=0.4, markevery=every, zorder=3 + place / 100,
            clip_on=log_y or not (ylim or near_one),
        )  # fmt: skip
    if near_one:
        back = lambda place: 1 + _NEAR - 10.0**-place  # noqa: E731
        axes.set_yscale("function", functions=(near_one_place, back))
        axes.set_yticks(_NEAR_TICKS, [_number(tick) for tick in _NEAR_TICKS])
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylim(-0.02, 1.0)
    elif ylim:
        axes.set_ylim(*ylim)
    spread = part["x"].min(), part["x"].max()
    if ticks is not None:
        axes.set_xticks(list(ticks), [_number(t) for t in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
        if log_x:
            axes.set_xlim(spread[0] / 1.12, spread[1] * 1.12)
    elif log_x:
        if spread[1] / spread[0] < 2000:
            axes.xaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: _number(v)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    if log_y:
        low, high = axes.get_ylim()
        if ylim is None and high / low < 3:  # small differences should look small
            low, high = low / 1.75, high * 1.75
            axes.set_ylim(low, high)
        if high / low < 300:
            subs = (1, 1.5, 2, 3, 5, 7) if high / low < 30 else (1, 2, 5)
            axes.yaxis.set_major_locator(LogLocator(10, subs=subs))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: _number(v)))
        axes.yaxis.set_minor_formatter(NullFormatter())


def near_one_place(value: Any) -> Any:
    """Return the place of a value up to 1 on an axis that shows differences near 1."""
    return -np.log10(1 + _NEAR - np.minimum(value, 1.0))


def _method_legend(
    figure: Any, methods: Sequence[str], look: Mapping[str, Style], columns: int, has_ends: bool
) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [], [], color=look[m].colour, linestyle=look[m].dashes, linewidth=1.2,
            marker=look[m].marker, markersize=look[m].size(4.8), markeredgecolor="white",
            markeredgewidth=0.4, label=_short(m),
        )
        for m in methods
    ]  # fmt: skip
    if has_ends:
        handles.append(
            Line2D(
                [], [], color=PALE, linestyle="", marker="o", markersize=6.4,
                markerfacecolor="white", markeredgewidth=1.2, label="open: the DAG",
            )
        )  # fmt: skip
    figure.legend(
        handles=handles, loc="lower center", ncols=columns, handlelength=3.2, columnspacing=1.2,
        borderaxespad=0.2, labelspacing=0.35, handletextpad=0.5,
    )  # fmt: skip


def bars(name: str, frame: pd.DataFrame, *, title: str = "") -> list[Picture]:
    """Draw how many runs of each method ended how: `method`, `status` and `runs`, stacked.

    Examples
    --------
    >>> row = {"method": "GD", "status": "timeout", "runs": 3}
    >>> [picture.name for picture in bars("ends", pd.DataFrame([row]))]
    ['ends']
    """
    from matplotlib.patches import Patch

    known = [s for s in _STATUS if s in set(frame["status"])]
    other = sorted(set(frame["status"]) - set(known))
    methods = list(dict.fromkeys(frame["method"]))
    counts = frame.pivot_table(
        index="method", columns="status", values="runs", aggfunc="sum", fill_value=0
    ).reindex(methods)
    look = {s: _STATUS.get(s, ("#ffffff", "oo")) for s in [*known, *other]}
    left = min(2.3, 0.25 + 0.064 * max(len(_short(m)) for m in methods))

    def paint(new: Any, width: float) -> Any:
        beside = 5 if width == WIDTH else 3
        legend = 0.1 + 0.17 * -(-len(look) // beside)
        height = 0.1 + _head(title, width) + 0.21 * len(methods) + 0.45 + legend
        figure = new((width, height))
        heading(figure, title, width)
        box = (left, legend + 0.4, width - left - 0.2, 0.21 * len(methods))
        axes = figure.add_axes(share(box, width, height))
        start = np.zeros(len(methods))
        label = {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
        widest = counts.sum(axis=1).max()
        for status, (colour, hatch) in look.items():
            runs = counts[status].to_numpy(dtype=float)
            axes.barh(
                range(len(methods)), runs, 0.74, left=start, color=colour, hatch=hatch,
                edgecolor="white" if hatch else "#808080", linewidth=0.4,
            )  # fmt: skip
            for at in np.flatnonzero(runs > widest * 0.025):
                axes.text(
                    start[at] + runs[at] / 2, at, f"{runs[at]:.0f}", fontsize=6, ha="center",
                    va="center_baseline", bbox=label if hatch else None,
                )  # fmt: skip
            start += runs
        axes.set_yticks(range(len(methods)), [_short(m) for m in methods])
        axes.set(ylim=(len(methods) - 0.4, -0.6), xlim=(0, widest * 1.01), xlabel="runs")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        handles = [
            Patch(
                facecolor=c, hatch=h, edgecolor="white" if h else "#808080", linewidth=0.4,
                label=_short(s.replace("_", " "), 60 if beside == 5 else 18),
            )
            for s, (c, h) in look.items()
        ]  # fmt: skip
        figure.legend(
            handles=handles, loc="lower center", ncols=beside, columnspacing=1.4, borderaxespad=0.2
        )
        return figure

    return [picture(name, paint)]


def _head(title: str, width: float) -> float:
    """Return the height of a title, as `heading` writes it."""
    return 0.15 * len(lines_of(title, width)) + (0.07 if title else 0.0)


def _parted(title: str, number: int, of: int) -> str:
    return f"{title} ({number} of {of})" if title and of > 1 else title


def _numbered(name: str, number: int, of: int) -> str:
    return f"{name}_{number}" if of > 1 else name


def _short(text: str, most: int = 36) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"
