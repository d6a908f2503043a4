# SPDX-License-Identifier: MIT
"""The table of all devices, and for each a page of its own within the page."""

from __future__ import annotations

from html import escape
from typing import Any
from urllib.parse import quote

from . import html, plots, words
from .findings import Findings, Row
from .html import Field

_NAMES = [
    html.text("name", "name"),
    html.number("messages", "messages"),
    # Not sorted: each byte is there a thousand times.
    html.time("p50", "p50_ns")._replace(sort_by=None),
    html.time("p99", "p99_ns")._replace(sort_by=None),
    html.share("failed", "failed"),
]
#: Bytes that the pages of devices may have. When they are used up, pages lack the names: a file of 1,000
#: devices stays below 2 MB.
_ROOM = 1_000_000


def table(findings: Findings) -> str:
    """Return the section with the table of devices, which leads to their pages."""
    places = {row["device"]: place for place, row in enumerate(findings.devices)}

    def line(row: Row) -> str:
        values = findings.device_lines.get(row["device"], [])
        return plots.spark_line(values, f"l{places[row['device']]}")

    fields = [
        Field("device", lambda row: f'<a href="#{_anchor(row)}">{escape(row["device"]) or words.DASH}</a>'),
        Field("over time", line),
        html.number("messages", "messages"),
        Field("a second", lambda row: words.rate(_rate(row))),
        html.time("p50", "p50_ns"),
        html.time("p99", "p99_ns"),
        html.share("failed", "failed"),
        html.number("lost", "lost"),
        html.number("crashes", "crashes"),
        Field("last heard", _heard),
    ]
    total, recorded = findings.totals["devices"], findings.of_all["devices"]["recorded"]
    says = words.count(recorded, "device", "devices")
    if total > recorded:
        says += f", and {total - recorded:,} of which nothing was recorded in this scope"
    says += "; those with most trouble first."
    if total > len(findings.devices):
        says += f" Here are {len(findings.devices):,}; --scope device=NAME tells of others."
    found = html.table("Devices; each leads to more of it", findings.devices, fields, total)
    return html.section("devices", "Device by device", says, found)


def pages(findings: Findings) -> str:
    """Return the pages of all devices in that table."""
    found, room = [], _ROOM
    for place, row in enumerate(findings.devices):
        found.append(_page(findings, row, place, with_names=room > 0))
        room -= len(found[-1].encode())
    return "\n".join(found)


def _page(findings: Findings, row: Row, place: int, with_names: bool) -> str:
    rows = findings.device_names.get(row["device"], [])
    name = escape(row["device"])
    names = ""
    if not with_names:
        names = "<p class='more'>Its names are left out here; --scope device=NAME tells of them.</p>"
    elif rows:
        names = html.bare_table("Names, the most trouble first", rows, _NAMES)
        if rows[0]["names"] > len(rows):
            names += f"<p class='more'>{len(rows)} of {rows[0]['names']:,} are shown.</p>"
    points = len(findings.device_lines.get(row["device"], []))
    line = (
        f'<svg class="line" viewBox="0 0 {points} 26" preserveAspectRatio="none" role="img"'
        f' aria-label="Messages over time"><use href="#l{place}"/></svg>'
        if points
        else ""
    )
    return (
        f'<section class="device" id="{_anchor(row)}"><h2>{name}</h2><p class="says">{_says(row)}</p>'
        f'{line}{names}<p class="back"><a href="#devices">All devices</a></p></section>'
    )


def _anchor(row: Row) -> str:
    return f"device-{quote(row['device'], safe='')}"


def _rate(row: Row) -> Any:
    return row["messages"] / row["seconds"] if row["seconds"] else None


def _heard(row: Row) -> str:
    return words.moment(row["last_ts"]) + _clock(row)


def _clock(row: Row) -> str:
    return " (its clock is wrong)" * (row["is_clock_right"] is False)


def _says(row: Row) -> str:
    parts = [f"{words.count(row['messages'], 'message', 'messages')}, {words.rate(_rate(row))} a second"]
    if row["p50_ns"] is not None:
        parts.append(
            f"half of the replies within {words.duration(row['p50_ns'])}, 99 in a hundred within"
            f" {words.duration(row['p99_ns'])}"
        )
    if row["failed"]:
        parts.append(f"{words.share(row['failed'])} of the requests failed")
    if row["lost"]:
        parts.append(f"the recorder missed {words.count(row['lost'], 'message', 'messages')}")
    if row["crashes"]:
        parts.append(
            f"{words.count(row['crashes'], 'replier', 'repliers')} went and left requests unanswered"
        )
    return f"{'; '.join(parts)}. Last heard {words.moment(row['last_ts'])} UTC{_clock(row)}."
