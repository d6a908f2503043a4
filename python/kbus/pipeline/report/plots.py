# SPDX-License-Identifier: MIT
"""The plots, as SVG that stands within the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Optional

import matplotlib
import numpy as np
from matplotlib import dates as matplotlib_dates
from matplotlib import ticker
from matplotlib.figure import Figure

from . import words

if TYPE_CHECKING:
    from .charts import Chart

#: matplotlib says no types of it
dates: Any = matplotlib_dates

#: Stand in the plots for colours of the page's style, which are others in the dark.
COLOURS = {"blue": "#010101", "orange": "#020202", "violet": "#030303", "soft": "#040404", "ink": "#050505"}
BLUE, ORANGE, SOFT, INK = (COLOURS[name] for name in ("blue", "orange", "soft", "ink"))
#: Labels for which there is room below a plot of sizes, and how many times as much as another a bar may be on
#: a linear axis
_SIZE_LABELS, _WIDE = 12, 200
#: Text stays text, and the same numbers give the same file.
_STYLE: Any = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": SOFT,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}


def _svg(figure: Figure, says: str) -> str:
    out = io.StringIO()
    # What has an id, has one of its own in the page.
    with matplotlib.rc_context({"svg.hashsalt": says}):
        figure.savefig(out, format="svg", metadata={"Date": None}, bbox_inches="tight")
    text = out.getvalue()
    text = text[text.index("<svg") :]
    # As wide as the page has room for.
    text = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', f'role="img" aria-label="{says}"', text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    text = re.sub(r' d="([^"]*)"', lambda found: f' d="{_short(found[1])}"', text)
    for name, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{name})")
    return f'<div class="plot" tabindex="0" role="group" aria-label="{says}">{text}</div>'


def _short(path: str) -> str:
    """Return a path of an SVG with coordinates to a tenth of a point, of which steps name one."""
    found, x, y = [], "", ""
    for command, numbers in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        places = [f"{float(each):.1f}".removesuffix(".0") for each in numbers.split()]
        if command == "L" and places[0] == x:
            found.append("" if places[1] == y else f"V{places[1]}")
        elif command == "L" and places[1] == y:
            found.append(f"H{places[0]}")
        else:
            found.append(command + " ".join(places))
        if places:
            x, y = places[-2:]
    return "".join(found)


def _figure(width: float, height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height))
    return figure, figure.subplots()


def steps(times: Sequence[datetime], columns: Sequence[Sequence[Optional[float]]], chart: Chart) -> str:
    """Return a plot with a step for each hour, for each line of the chart; None leaves a gap."""
    with matplotlib.rc_context(_STYLE):
        figure, axes = _figure(7.5, 2.2)
        edges = dates.date2num([*times, times[-1] + timedelta(hours=1)])
        for line, column in zip(chart.lines, columns):
            values = np.array(column, dtype=float)
            axes.stairs(values, edges, baseline=None, color=COLOURS[line.colour], label=line.label)
        axes.set_xlim(edges[0], edges[-1])
        if chart.unit == "ns":
            _log(axes, axes.yaxis, words.duration)
        else:
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_locator(ticker.MaxNLocator(5, integer=True))
            axes.yaxis.set_major_formatter(lambda value, _: words.number(value))
        if len(chart.lines) > 1:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, borderpad=0)
        axes.xaxis.set_major_formatter(_dates(axes))
        return _svg(figure, chart.title)


def _log(axes: Any, axis: Any, say: Callable[[float], str]) -> None:
    """Make an axis logarithmic, with as many labels as there is room for."""
    name = "x" if axis is axes.xaxis else "y"
    getattr(axes, f"set_{name}scale")("log")
    low, high = getattr(axes, f"get_{name}lim")()
    decades = np.log10(high / low)
    room = 8 if name == "x" else 4
    subs = (1, 2, 5) if decades * 3 <= room + 1 else (1,)
    axis.set_major_locator(ticker.LogLocator(subs=subs, numticks=room + 1))
    axis.set_major_formatter(lambda value, _: say(value))
    axis.set_minor_locator(ticker.NullLocator())


def _dates(axes: Any) -> Any:
    # With five ticks at least, which are its own, it has no interval for four hours, nor for four days.
    locator = dates.AutoDateLocator(minticks=3, maxticks=8)
    axes.xaxis.set_major_locator(locator)
    return dates.ConciseDateFormatter(locator)


def spark_line(values: Sequence[float], name: str) -> str:
    """Return a very small plot; ``name`` is the id of its line. It says nothing that the table does not."""
    top = max(values, default=0) or 1
    heights = [25 - round(24 * value / top) for value in values]
    # Each is a step, and equal ones are one.
    steps = [
        f"H{place}V{height}"
        for place, (before, height) in enumerate(zip(heights, heights[1:]), 1)
        if height != before
    ]
    path = f"M0 {heights[0]}{''.join(steps)}H{len(heights)}" if heights else ""
    return (
        f'<svg class="spark" viewBox="0 0 {len(heights)} 26" preserveAspectRatio="none" aria-hidden="true">'
        f'<path id="{name}" d="{path}"/></svg>'
    )


def spans(labels: Sequence[str], rows: Sequence[tuple[float, float, float]], says: str) -> str:
    """Return a plot of times on a logarithmic axis: for each label p50, p90, p99 in ns."""
    with matplotlib.rc_context(_STYLE):
        figure, axes = _figure(7.5, 0.7 + 0.28 * len(labels))
        places = range(len(labels), 0, -1)
        for place, (low, middle, high) in zip(places, rows):
            axes.plot([low, high], [place, place], color=BLUE, linewidth=5, alpha=0.3, solid_capstyle="butt")
            axes.plot([low], [place], "o", color=BLUE, markersize=5)
            axes.plot([middle], [place], "|", color=BLUE, markersize=9)
            axes.plot([high], [place], "D", color=ORANGE, markersize=4)
        axes.set_ylim(0.4, len(labels) + 0.6)
        axes.set_yticks(list(places), list(labels))
        _log(axes, axes.xaxis, words.duration)
        axes.grid(axis="x", color=SOFT, alpha=0.3)
        return _svg(figure, says)


def bars(first: int, values: Sequence[float], says: str) -> str:
    """Return a plot with a bar for each class of size, of which ``first`` is the first."""
    with matplotlib.rc_context(_STYLE):
        figure, axes = _figure(7.5, 2.2)
        classes = range(first, first + len(values))
        axes.bar(classes, values, color=BLUE)
        each = -(-len(values) // _SIZE_LABELS)
        axes.set_xticks(classes[::each], [_size_class(size) for size in classes[::each]])
        axes.set_xlabel("bytes of data, from this on")
        axes.set_ylabel("messages")
        if max(values) > _WIDE * min(filter(None, values)):
            axes.set_yscale("log")
            axes.set_ylabel("messages (logarithmic)")
            axes.yaxis.set_major_locator(ticker.LogLocator(numticks=6))
            axes.yaxis.set_minor_locator(ticker.NullLocator())
        axes.yaxis.set_major_formatter(lambda value, _: words.number(value))
        return _svg(figure, says)


def _size_class(size: int) -> str:
    """Return the least size of a class."""
    return "0" if size == 0 else words.power(size - 1)
