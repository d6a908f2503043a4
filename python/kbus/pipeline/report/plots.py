# SPDX-License-Identifier: MIT
"""The plots, as SVG that stands within the page."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import matplotlib
from matplotlib import dates as matplotlib_dates
from matplotlib import ticker
from matplotlib.figure import Figure

from . import words

#: matplotlib says no types of it
dates: Any = matplotlib_dates

BLUE, ORANGE, GREY = "#2f6f9f", "#c8641e", "#8a8f98"
#: Text stays text, and the same numbers give the same file.
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "kbus",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
}


def _svg(figure: Figure, says: str) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None}, bbox_inches="tight")
    text = out.getvalue()
    text = text[text.index("<svg") :]
    # As wide as the page has room for.
    text = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'role="img"', text, count=1)
    return f'<div class="plot">{text.replace(">", f"><title>{says}</title>", 1)}</div>'


def _figure(width: float, height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height))
    return figure, figure.subplots()


def over_time(times: Sequence[datetime], values: Sequence[float], unit: str, says: str) -> str:
    """Return a plot with a bar for each hour; an hour that is not in ``times`` has none."""
    with matplotlib.rc_context(_STYLE):
        figure, axes = _figure(7.5, 2.2)
        axes.bar(times, values, width=timedelta(hours=1), align="edge", color=BLUE)
        axes.set_ylabel(unit)
        figure.autofmt_xdate(rotation=0, ha="center")
        axes.xaxis.set_major_formatter(_dates(axes))
        return _svg(figure, says)


def _dates(axes: Any) -> Any:
    locator = dates.AutoDateLocator(maxticks=8)
    axes.xaxis.set_major_locator(locator)
    return dates.ConciseDateFormatter(locator)


def spark_line(values: Sequence[float], says: str) -> str:
    """Return a very small plot."""
    top = max(values, default=0) or 1
    step = 120 / max(len(values), 1)
    points = " ".join(
        f"{k * step:.1f},{24 - 22 * v / top:.1f} {(k + 1) * step:.1f},{24 - 22 * v / top:.1f}"
        for k, v in enumerate(values)
    )
    return (
        f'<svg class="spark" viewBox="0 0 120 26" role="img"><title>{says}</title>'
        f'<polyline points="{points}" fill="none" stroke="{BLUE}" stroke-width="1.5"/></svg>'
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
        axes.set_xscale("log")
        axes.set_ylim(0.4, len(labels) + 0.6)
        axes.set_yticks(list(places), list(labels))
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(lambda value, _: words.duration(value))
        axes.xaxis.set_minor_locator(ticker.NullLocator())
        axes.grid(axis="x", color=GREY, alpha=0.3)
        return _svg(figure, says)


def bars(labels: Sequence[str], values: Sequence[float], unit: str, says: str) -> str:
    """Return a plot with a bar for each label."""
    with matplotlib.rc_context(_STYLE):
        figure, axes = _figure(7.5, 2.0)
        axes.bar(range(len(labels)), values, color=BLUE)
        axes.set_xticks(range(len(labels)), list(labels))
        axes.set_ylabel(unit)
        return _svg(figure, says)
