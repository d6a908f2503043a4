# SPDX-License-Identifier: MIT
"""Charts over time: a picture that is always there, and numbers of which a script makes one to zoom into."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from html import escape
from typing import Any, NamedTuple, Optional

from . import plots
from .findings import Row

HOUR = timedelta(hours=1)


class Line(NamedTuple):
    """A value over time: its label, the key of hours that has it, and its colour."""

    label: str
    key: str
    colour: str


class Chart(NamedTuple):
    """A chart: what is on it, and in which unit: ``count``, or ``ns`` for times on a logarithmic axis."""

    title: str
    unit: str
    lines: tuple[Line, ...]


CHARTS = {
    "messages": Chart("Messages an hour", "count", (Line("messages", "messages", "blue"),)),
    "latency": Chart(
        "Latency of replies, by hour",
        "ns",
        (Line("p50: half come within", "p50_ns", "blue"), Line("p99: 99 in 100", "p99_ns", "orange")),
    ),
    "failures": Chart(
        "Requests that failed, an hour",
        "count",
        (
            Line("failed: an error as answer", "errors", "orange"),
            Line("a status as answer", "status", "blue"),
            Line("no answer", "unanswered", "violet"),
        ),
    ),
    "losses": Chart(
        "Messages lost or refused, an hour",
        "count",
        (Line("missed by the recorder", "lost", "orange"), Line("refused or unseen", "unseen", "blue")),
    ),
}


def chart(name: str, hours: Sequence[Row]) -> str:
    """Return the figure of a chart; nothing if it would have nothing but zeros."""
    found = CHARTS[name]
    if not _is_told(found, hours):
        return ""
    times, columns = _grid(found, hours)
    picture = plots.steps(times, columns, found)
    return (
        f'<figure class="chart" data-chart="{name}"><figcaption>{escape(found.title)}</figcaption>'
        f"{picture}</figure>"
    )


def data(hours: Sequence[Row]) -> str:
    """Return the numbers of all charts as JSON that may stand in a ``script`` element."""
    charts = {}
    for name, found in CHARTS.items():
        if _is_told(found, hours):
            _, columns = _grid(found, hours)
            lines = [
                {
                    "label": line.label,
                    "colour": line.colour,
                    "values": [_short(each, found.unit) for each in column],
                }
                for line, column in zip(found.lines, columns)
            ]
            charts[name] = {"title": found.title, "unit": found.unit, "lines": lines}
    begin = int(hours[0]["period"].timestamp()) if hours else 0
    return json.dumps({"begin": begin, "charts": charts}, separators=(",", ":")).replace("<", "\\u003c")


def _is_told(found: Chart, hours: Sequence[Row]) -> bool:
    return any(row[line.key] for row in hours for line in found.lines)


def _grid(found: Chart, hours: Sequence[Row]) -> tuple[list[Any], list[list[Optional[float]]]]:
    """Return all hours from first to last, and the values of each line; None where nothing is known."""
    by_period = {row["period"]: row for row in hours}
    first, last = hours[0]["period"], hours[-1]["period"]
    times = [first + number * HOUR for number in range(int((last - first) / HOUR) + 1)]
    columns = [
        [by_period[time][line.key] if time in by_period else None for time in times] for line in found.lines
    ]
    return times, columns


def _short(value: Optional[float], unit: str) -> Optional[int]:
    """Return a whole number, of a time with no more digits than can be seen."""
    return None if value is None else int(float(f"{value:.4g}")) if unit == "ns" else int(value)
