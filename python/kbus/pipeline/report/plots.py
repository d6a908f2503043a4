# SPDX-License-Identifier: MIT
"""The plots, as SVG that stands within the page, which has the colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from html import escape
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Optional

from . import words

if TYPE_CHECKING:
    from .charts import Chart

#: Sizes in units of the picture, of which the page makes as much as it has room for. Letters are 12 high.
_WIDTH, _HEIGHT, _LETTER, _LINE, _GAP = 720, 150, 6.5, 16, 6
#: Labels for which there is room on an axis, and letters of one beside it
_ROOM, _LONG = 8, 50
#: Labels for which there is room below a plot of sizes, and how many times as much as another a bar may be on
#: a linear axis
_SIZE_LABELS, _WIDE = 12, 200
#: Letters of a date without an hour, and hours between dates of an axis
_LONG_DATE, _HOURS = len("2026-03-01"), (1, 2, 3, 6, 12, 24, 48, 96, 192)


class _Axis(NamedTuple):
    """An axis from the first to the last of its ``ticks``, at ``begin`` to ``end`` in the picture."""

    ticks: Sequence[float]
    begin: float
    end: float
    is_log: bool

    def at(self, value: float) -> float:
        """Return where a value is."""
        low, high, value = (
            math.log(each) if self.is_log else each for each in (self.ticks[0], self.ticks[-1], value)
        )
        return round(self.begin + (value - low) / (high - low) * (self.end - self.begin), 1)


def _counts(high: float) -> list[float]:
    """Return whole numbers for a linear axis from 0 to ``high`` or more."""
    step = next(
        each for power in count() for each in (10**power, 2 * 10**power, 5 * 10**power) if each * 5 >= high
    )
    return [step * number for number in range(max(math.ceil(high / step), 1) + 1)]


def _decades(low: float, high: float) -> list[float]:
    """Return numbers for a logarithmic axis that has these two."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    last = max(last, first + 1)
    fine = [step * 10.0**power for power in range(first, last) for step in (1, 2, 5)] + [10.0**last]
    while len(fine) > 2 and fine[1] <= low:
        del fine[0]
    while len(fine) > 2 and fine[-2] >= high:
        del fine[-1]
    every = -(-(last - first) // (_ROOM - 1))
    return fine if len(fine) <= _ROOM else [10.0**power for power in range(first, last + every, every)]


def _svg(height: float, parts: Sequence[str], says: str) -> str:
    says = escape(says)
    return (
        f'<div class="plot" tabindex="0" role="group" aria-label="{says}">'
        f'<svg viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{says}">{"".join(parts)}</svg></div>'
    )


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _frame(left: float, top: float, bottom: float) -> str:
    return f'<path class="axis" d="M{left:g} {top:g}V{bottom:g}H{_WIDTH - _GAP}"/>'


def _beside(axis: _Axis, left: float, labels: Sequence[str]) -> str:
    """Return the labels of an axis on the left."""
    return "".join(
        _text(left - _GAP, axis.at(tick) + 4, label, "end") for tick, label in zip(axis.ticks, labels)
    )


def _left(labels: Sequence[str]) -> float:
    """Return the room that labels on the left take."""
    return 2 * _GAP + _LETTER * max(map(len, labels))


def steps(times: Sequence[datetime], columns: Sequence[Sequence[Optional[float]]], chart: Chart) -> str:
    """Return a plot with a step for each hour, for each line of the chart; None leaves a gap."""
    known = [value for column in columns for value in column if value]
    is_log = chart.unit == "ns"
    ticks = _decades(min(known), max(known)) if is_log else _counts(max(known))
    labels = [words.duration(tick) if is_log else words.number(tick) for tick in ticks]
    top = _LINE + _GAP if len(chart.lines) > 1 else _GAP
    bottom, left = top + _HEIGHT, _left(labels)
    upward = _Axis(ticks, bottom, top, is_log)
    along = _Axis((0, len(times)), left, _WIDTH - _GAP, False)
    parts = [_frame(left, top, bottom), _beside(upward, left, labels)]
    for hour, label in _dates(times[0], len(times)).items():
        # A long one would begin before the picture.
        anchor = "start" if len(label) > _LONG_DATE else "middle"
        parts.append(_text(along.at(hour), bottom + _LINE, label, anchor))
    place = left
    for line, column in zip(chart.lines, columns):
        if len(chart.lines) > 1:
            parts.append(f'<path stroke="var(--{line.colour})" d="M{place:g} 8h16"/>')
            parts.append(_text(place + 20, 12, line.label, "start"))
            place += 40 + _LETTER * len(line.label)
        heights = [None if value is None or (is_log and not value) else upward.at(value) for value in column]
        parts.append(f'<path stroke="var(--{line.colour})" d="{_stairs(heights, along)}"/>')
    return _svg(bottom + _LINE + _GAP, parts, chart.title)


def _stairs(heights: Sequence[Optional[float]], along: _Axis) -> str:
    """Return a path that is at each of these heights for one step."""
    path = []
    before: Optional[float] = None
    for number, height in enumerate(heights):
        if height is not None and height != before:
            # Equal ones are one step.
            place = f"{along.at(number):g}"
            path.append(f"M{place} {height:g}" if before is None else f"H{place}V{height:g}")
        if height is not None and (number + 1 == len(heights) or heights[number + 1] is None):
            path.append(f"H{along.at(number + 1):g}")
        before = height
    return "".join(path)


def _dates(begin: datetime, hours: int) -> dict[int, str]:
    """Return labels for some of so many hours."""
    every = next((each for each in _HOURS if each * _ROOM >= hours), _HOURS[-1])
    first = -int(begin.timestamp()) // 3600 % every
    found: dict[int, str] = {}
    for hour in range(first, hours, every):
        time = begin + timedelta(hours=hour)
        form = "%Y-%m-%d" if not time.hour else "%H:%M" if found else "%Y-%m-%d %H:%M"
        found[hour] = f"{time:{form}}"
    return found


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
    labels = [label if len(label) <= _LONG else f"{label[: _LONG - 1]}…" for label in labels]
    left, bottom = _left(labels), _GAP + 20 * len(labels)
    ticks = _decades(min(row[0] for row in rows), max(row[2] for row in rows))
    along = _Axis(ticks, left + _GAP, _WIDTH - 5 * _GAP, is_log=True)
    parts = [_frame(left, _GAP, bottom)]
    for tick in ticks:
        parts.append(f'<path class="grid" d="M{along.at(tick):g} {_GAP}V{bottom}"/>')
        parts.append(_text(along.at(tick), bottom + _LINE, words.duration(tick)))
    for y, label, row in zip(count(_GAP + 10, 20), labels, rows):
        low, middle, high = (along.at(value) for value in row)
        parts.append(_text(left - _GAP, y + 4, label, "end"))
        parts.append(
            f'<path class="span" d="M{low:g} {y}H{high:g}"/><path class="middle" d="M{middle:g} {y - 5}v10"/>'
        )
        parts.append(
            f'<circle cx="{low:g}" cy="{y}" r="4"/><path class="high" d="M{high - 4:g} {y}l4-4 4 4-4 4z"/>'
        )
    return _svg(bottom + _LINE + _GAP, parts, says)


def bars(first: int, values: Sequence[float], says: str) -> str:
    """Return a plot with a bar for each class of size, of which ``first`` is the first."""
    least, most = min(filter(None, values)), max(values)
    is_log = most > _WIDE * least
    ticks = _decades(least, most) if is_log else _counts(most)
    labels = [words.number(tick) for tick in ticks]
    left, top = _left(labels), _LINE + _GAP
    bottom = top + _HEIGHT
    # The least one of a logarithmic axis has a height.
    upward = _Axis(ticks, bottom - 4 * is_log, top, is_log)
    along = _Axis((0, len(values)), left, _WIDTH - _GAP, is_log=False)
    width = (along.end - along.begin) / len(values)
    parts = []
    every = -(-len(values) // _SIZE_LABELS)
    for number, value in enumerate(values):
        x = along.at(number) + width / 2
        if value:
            y = upward.at(value)
            parts.append(
                f'<path class="bar" d="M{x - 0.4 * width:.1f} {bottom}V{y:g}h{0.8 * width:.1f}V{bottom}z"/>'
            )
        if number % every == 0:
            parts.append(_text(round(x, 1), bottom + _LINE, _size_class(first + number)))
    parts += [
        _text((left + _WIDTH) / 2, bottom + 2 * _LINE, "bytes of data, from this on"),
        _beside(upward, left, labels),
        _text(_GAP, 12, "messages (logarithmic)" if is_log else "messages", "start"),
        _frame(left, top, bottom),
    ]
    return _svg(bottom + 2 * _LINE + _GAP, parts, says)


def _size_class(size: int) -> str:
    """Return the least size of a class."""
    return "0" if size == 0 else words.power(size - 1)
