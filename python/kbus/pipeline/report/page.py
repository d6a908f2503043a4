# SPDX-License-Identifier: MIT
"""The page: what is around its sections. It fetches nothing, and runs no script but its own two."""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from html import escape
from importlib import resources

from ..derive import sketch
from . import answers, charts, device_pages, sections, words
from .findings import Findings
from .verdicts import Verdict


def page(findings: Findings, judged: dict[str, Verdict]) -> str:
    """Return the report. ``judged`` are the verdicts by title."""
    scripts = [_asset("uPlot.iife.min.js"), _asset("report.js")]
    style = _asset("uPlot.min.css") + _asset("report.css")
    found = [section for section in (make(findings) for make in sections.ALL) if section]
    found.append(device_pages.table(findings))
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">',
        f"<title>KBUS: {escape(str(findings.scope))}</title><style>{style}</style></head><body>",
        f"<header><h1>How is the bus?</h1><p class='scope'>{_headline(findings)}</p></header>",
        f"<main>{_contents(findings)}",
        _glance(judged),
        *found,
        device_pages.pages(findings),
        "</main>",
        _notes(),
        f'<script type="application/json" id="chart-data">{charts.data(findings.hours)}</script>',
        f"<!-- uPlot:\n{_asset('uPlot.LICENSE')}-->",
        *(f"<script>{script}</script>" for script in scripts),
        "</body></html>",
    ]
    return "\n".join(parts)


@lru_cache
def _asset(name: str) -> str:
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _policy(scripts: list[str]) -> str:
    """Return what a browser may do with the page, whatever names in it look like."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}"


def _headline(findings: Findings) -> str:
    files, hours, scope = findings.files, findings.of_all["hours"], findings.scope
    span = ""
    if hours["first"]:
        first, last = words.utc(hours["first"]), words.utc(hours["last"]) + charts.HOUR
        first, last = max(first, scope.since or first), min(last, scope.until or last)
        span = f", {words.moment(first)} to {words.moment(last)} UTC"
    return (
        f"{escape(str(findings.scope))}: {words.count(hours['messages'], 'message', 'messages')} of"
        f" {words.count(findings.of_all['devices']['recorded'], 'device', 'devices')}, from"
        f" {words.count(files['files'], 'file', 'files')} of {words.size(files['size'])}{span}."
    )


def _contents(findings: Findings) -> str:
    places = ["rates", "latency", "silence", "losses", "repliers", "anomalies", "devices"]
    if findings.compare:
        places.insert(-1, "comparison")
    links = "\n".join(f'<a href="#{place}">{place.capitalize()}</a>' for place in places)
    return f'<nav aria-label="Sections">{links}</nav>'


def _glance(judged: dict[str, Verdict]) -> str:
    items = "".join(
        f'<li class="{level}"><b>{title}</b> <i>{level}</i> <span>{escape(text)}</span></li>'
        for title, (level, text, _) in judged.items()
    )
    return f'<section id="health"><h2>Health at a glance</h2><ul class="glance">{items}</ul></section>'


def _notes() -> str:
    return (
        "<footer><p>Times are UTC as the devices' clocks had it; latencies are from their monotonic"
        " clocks, seen by the recorder."
        f" Quantiles are within {sketch.ERROR:.0%} of the exact ones. Failed are requests"
        " that got an error, a status or no answer, of those of which the recording tells. An hour is odd"
        f" if it is more than {answers.ODD:g} deviations from the median of the same hour"
        f" of at least {answers.EARLIER_DAYS} earlier days.</p></footer>"
    )
