# SPDX-License-Identifier: MIT
"""The plot: for each case a panel, with a bar for each transport that shows its ratio to SEQPACKET."""

from __future__ import annotations

import math
from typing import Optional
from xml.sax.saxutils import escape

from .cases import ALL, FANS, ROUND_TRIP, SIZES, TITLES, one_to_many, one_to_one
from .goals import Results, Which, case_figure, ratio

PANELS = (*map(one_to_one, SIZES), *map(one_to_many, FANS), ROUND_TRIP)
_SHOWN = {name: title for name, title in TITLES.items() if name in ALL}
COLUMNS = 2
LABEL, PANEL, NUMBER, ROW, TITLE, GAP = 300, 190, 60, 17, 30, 18
"""Pixels: widths of a name, of the bars, of a number; heights of a bar, of a title; a margin."""
LEAST, MOST = 1 / 32, 32
"""What is at both ends of a panel."""
COLOURS = {
    "kbus": "#c05020",
    "transfer": "#c05020",
    "transfer32": "#c05020",
    "seqpacket": "#205080",
    "mmsg": "#205080",
}
OTHER_COLOUR = "#888888"


def svg(results: Results) -> str:
    """An SVG image. A bar to the right of the line is faster than SEQPACKET; each length is a logarithm."""
    width = COLUMNS * (LABEL + PANEL + NUMBER + GAP)
    rows = math.ceil(len(PANELS) / COLUMNS)
    each = TITLE + len(_SHOWN) * ROW + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{rows * each}" '
        'font-family="sans-serif" font-size="12">',
        "<!-- SPDX-License-Identifier: MIT -->",
        "<!-- Made by `make bench`. -->",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, case in enumerate(PANELS):
        x = number % COLUMNS * (width // COLUMNS)
        parts += _panel(results, case, x, number // COLUMNS * each)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(results: Results, case: str, x: int, y: int) -> list[str]:
    middle = x + LABEL + PANEL // 2
    bottom = y + TITLE + len(_SHOWN) * ROW
    parts = [f'<text x="{x + LABEL}" y="{y + TITLE - 8}" font-weight="bold">{escape(case)}</text>']
    for number, (name, title) in enumerate(_SHOWN.items()):
        top = y + TITLE + number * ROW
        speed = _speed(results, case, name)
        shown = "-" if speed is None else f"{speed:.2g}" if speed < 10 else f"{speed:.0f}"
        parts.append(f'<text x="{x + LABEL - 8}" y="{top + 12}" text-anchor="end">{escape(title)}</text>')
        parts.append(f'<text x="{x + LABEL + PANEL + 8}" y="{top + 12}">{shown}</text>')
        if speed is not None:
            end = _position(speed)
            left, length = middle + min(0, end), max(1, abs(end))
            colour = COLOURS.get(name, OTHER_COLOUR)
            parts.append(
                f'<rect x="{left}" y="{top + 2}" width="{length}" height="{ROW - 4}" fill="{colour}"/>'
            )
    parts.append(f'<path d="M{middle} {y + TITLE}V{bottom}" stroke="black"/>')
    return parts


def _position(speed: float) -> int:
    """Pixels to the right of the line."""
    return round(math.log(min(max(speed, LEAST), MOST)) / math.log(MOST) * PANEL / 2)


def _speed(results: Results, case: str, name: str) -> Optional[float]:
    """How many times as fast as SEQPACKET; None if that was not measured."""
    figure = case_figure(case)
    share = ratio(results, Which(case, name, figure), Which(case, "seqpacket", figure))
    return share if share is None or case != ROUND_TRIP else 1 / share
