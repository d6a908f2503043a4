# SPDX-License-Identifier: MIT
"""The report: what it says, and that a browser shows it without a network, on a phone and in print."""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime
from html import unescape
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kbus.pipeline.report import write_report
from kbus.pipeline.report.scope import Scope
from tests.pipeline.conftest import Fleet
from tests.pipeline.html import Page

SECTIONS = (
    "health",
    "rates",
    "latency",
    "silence",
    "losses",
    "repliers",
    "anomalies",
    "devices",
)


@pytest.fixture
def report(whole_fleet: Fleet) -> Path:
    return whole_fleet.report


def test_sections_and_no_network(report: Path) -> None:
    page = Page(report.read_text())
    devices = [f"device-device{number:03d}" for number in range(6)]
    assert page.sections[: len(SECTIONS)] == list(SECTIONS)
    assert sorted(page.sections[len(SECTIONS) :]) == devices
    assert not page.open
    assert all(each.startswith("#") for each in page.addresses), "something would be fetched"
    assert "@import" not in report.read_text()


def test_each_section_has_a_sentence(report: Path) -> None:
    text = report.read_text()
    for name in SECTIONS[1:]:
        section = text[text.index(f'<section id="{name}">') :].partition("</section>")[0]
        (says, *_) = re.findall(r'<p class="says">(.*?)</p>', section)
        assert says.endswith("."), (name, says)
    glance = re.findall(r'<li class="(\w+)"><b>(\w+)</b> <i>\w+</i> <span>(.*?)</span>', text)
    assert [title for _, title, _ in glance] == [
        "Recordings", "Answers", "Speed", "Silence", "Losses", "Repliers", "Changes",
    ]  # fmt: skip
    levels = {title: level for level, title, _ in glance}
    assert levels["Recordings"] == "yellow" and levels["Repliers"] == "red"
    told = json.loads(report.with_suffix(".json").read_text())
    assert {each["name"].title(): each["level"] for each in told["verdicts"]} == levels
    assert [each["text"] for each in told["verdicts"]] == [unescape(text) for _, _, text in glance]
    assert told["level"] == "red" and told["totals"]["devices"] == 6


def test_hours_are_what_the_tables_say(report: Path, whole_fleet: Fleet) -> None:
    """Latencies, failures and losses of each hour, from each conversation and event."""
    latencies: dict[datetime, list[int]] = defaultdict(list)
    counts: Counter[tuple[str, datetime]] = Counter()
    for row in whole_fleet.tables["conversations"].collect():
        hour = row.ts.replace(minute=0, second=0, microsecond=0)
        counts[row.outcome, hour] += 1
        if row.outcome == "reply":
            latencies[hour].append(row.latency_ns)
    for row in whole_fleet.tables["events"].where("kind = 'recorder_lost'").collect():
        counts["lost", row.ts.replace(minute=0, second=0, microsecond=0)] += row["count"]
    (found,) = re.findall(
        r'<script type="application/json" id="chart-data">(.*?)</script>', report.read_text()
    )
    said = json.loads(found)
    lines = {line["label"]: line["values"] for chart in said["charts"].values() for line in chart["lines"]}
    seen: Counter[str] = Counter()
    for number in range(len(lines["messages"])):
        hour = datetime.fromtimestamp(said["begin"] + 3600 * number)
        for label, kind in (
            ("failed: an error as answer", "failed"), ("a status as answer", "status"),
            ("no answer", "unanswered"), ("missed by the recorder", "lost"),
        ):  # fmt: skip
            assert (lines[label][number] or 0) == counts[kind, hour], (label, hour)
            seen[kind] += counts[kind, hour]
        values = sorted(latencies[hour])
        for label, share in (("p50: half come within", 0.5), ("p99: 99 in 100", 0.99)):
            exact = values[max(math.ceil(share * len(values)), 1) - 1] if values else None
            assert lines[label][number] == (exact and pytest.approx(exact, rel=0.0105)), (label, hour)
    assert all(seen[kind] == sum(n for (each, _), n in counts.items() if each == kind) > 0 for kind in seen)
    assert len(seen) == 4 and len(latencies) > 2


def test_devices_have_pages_with_what_they_send(report: Path) -> None:
    text = report.read_text()
    (device,) = re.findall(r'<section class="device" id="device-device002">(.*?)</section>', text, re.DOTALL)
    assert "$.Pump.Level</th>" in device and "$.Sensor.Door</th>" in device
    assert re.search(r"[\d,]+ messages, [\d.]+ a second; half of the replies within .* went and left", device)
    (place,) = re.findall(r'<use href="#(l\d)"/>', device)
    (line,) = re.findall(rf'<path id="{place}" d="([^"]*)"/>', text)
    assert line.startswith("M0 ") and "V1" in line, "somewhere it is the most"


@pytest.mark.long("makes the report again")
def test_it_is_the_same_each_time(report: Path, whole_fleet: Fleet, pipeline: Callable[..., int]) -> None:
    again = report.with_name("again.html")
    words = ["report", "--quiet", "--tables", str(whole_fleet.warehouse.root), "--output", str(again)]
    assert pipeline(*words, "--fail-on", "red") == 3
    assert again.read_text() == report.read_text()
    assert again.with_suffix(".json").read_text() == report.with_suffix(".json").read_text()


@pytest.mark.long("makes another report")
def test_nothing_in_the_scope_is_a_report_too(
    spark: SparkSession, whole_fleet: Fleet, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.html"
    write_report(spark, whole_fleet.warehouse, empty, Scope(device="nobody"))
    page = Page(empty.read_text())
    assert page.sections == list(SECTIONS)
    assert not [each for each in page.addresses if each.removeprefix("#") not in page.ids]
    text = empty.read_text()
    assert "There are no recordings in this scope." in text
    assert text.count(">Nothing was recorded.</span>") == 6
    assert text.count(">Nothing was recorded.</p>") == 5
