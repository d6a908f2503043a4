# SPDX-License-Identifier: MIT
"""The page, of a fleet that is made up: how large it is, what is in it, and that nothing else is needed."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from datetime import datetime, timedelta
from importlib import resources

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kbus.pipeline import report
from kbus.pipeline.report import charts, verdicts, words
from kbus.pipeline.report.findings import Findings, _hours
from kbus.pipeline.report.page import page
from kbus.pipeline.report.summary import judged
from tests.pipeline.findings import BEGIN, fleet, healthy, latency
from tests.pipeline.html import Page


def text_of(findings: Findings) -> str:
    return page(findings, judged(findings))


@pytest.fixture(scope="module")
def thousand() -> str:
    return text_of(fleet(devices=1000, hours=1440))


def test_a_thousand_devices_take_less_than_2_mb(thousand: str) -> None:
    assert len(thousand.encode()) < 2_000_000
    assert thousand.count(" of 20 are shown.") > 800, "most devices have their names"


def test_names_are_left_out_where_there_is_no_room() -> None:
    findings = fleet(devices=250, hours=2)
    for rows in findings.device_names.values():
        rows[0]["name"] = "$." + 999 * "x"
        rows *= 10
    text = text_of(findings)
    assert len(text.encode()) < 1_500_000
    assert "Its names are left out here; --scope device=NAME tells of them." in text


def test_each_device_has_a_page_and_a_link(thousand: str) -> None:
    found = Page(thousand)
    assert not found.open
    assert len(found.ids) == len(set(found.ids))
    assert all(each.removeprefix("#") in found.ids for each in found.addresses), "a link leads nowhere"
    devices = [f"device-device-{number:04d}.plant.example" for number in range(1000)]
    assert [name for name in found.sections if name.startswith("device-")] == devices
    assert {f"#{device}" for device in devices} <= set(found.addresses)


def test_names_are_no_html(thousand: str) -> None:
    assert "<script>alert" not in thousand
    assert thousand.count("$.&lt;script&gt;alert(1)&lt;/script&gt;") > 800


def test_scripts_and_styles_of_others_are_refused(thousand: str) -> None:
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', thousand)
    scripts = re.findall(r"<script>(.*?)</script>", thousand, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}"
    assert len(scripts) == 2


@pytest.mark.parametrize(
    ("name", "sha256"),
    [
        ("uPlot.iife.min.js", "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"),
        ("uPlot.min.css", "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"),
    ],
)
def test_the_chart_library_is_as_it_was_published(name: str, sha256: str) -> None:
    assets = resources.files(report) / "assets"
    assert hashlib.sha256((assets / name).read_bytes()).hexdigest() == sha256
    assert (assets / "uPlot.LICENSE").read_text() in text_of(healthy()), "each copy must have the licence"


def test_tables_say_what_they_are() -> None:
    text = text_of(fleet(devices=2, hours=2))
    tables = re.findall(r"<table>(.*?)</table>", text, re.DOTALL)
    assert len(tables) == 14
    for each in tables:
        assert re.match(
            r"<caption>[A-Z][^<]+</caption><thead><tr>(<th scope=col>[^<]+</th>)+</tr></thead>", each
        )
        rows = re.findall(r"<tr>(.*?)</tr>", each.partition("<tbody>")[2], re.DOTALL)
        assert rows and all(row.startswith("<th scope=row>") and row.count("<th") == 1 for row in rows)


def plot(text: str, label: str) -> list[str]:
    """The words on a plot."""
    (found,) = re.findall(rf'<svg [^>]*aria-label="{label}[^>]*>(.*?)</svg>', text, re.DOTALL)
    return [re.sub("\N{NO-BREAK SPACE}", " ", each) for each in re.findall(r"<text[^>]*>(.*?)</text>", found)]


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({9: 10, 23: 5}, ["256 B", "1 KiB", "4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB", "4 MiB"]),
        ({0: 1, 1: 1, 3: 2}, ["0", "1 B", "2 B", "4 B"]),
        ({23: 1}, ["4 MiB"]),
    ],
)
def test_sizes_have_an_axis_with_room(sizes: dict[int, int], says: list[str]) -> None:
    rows = [{"size": size, "messages": count} for size, count in sizes.items()]
    words = plot(text_of(healthy(sizes=rows)), "Messages by size")
    assert words[: len(says)] == says


def test_rare_sizes_are_seen_beside_frequent_ones() -> None:
    rows = [{"size": 9, "messages": 1_000_000}, {"size": 10, "messages": 3}]
    words = plot(text_of(healthy(sizes=rows)), "Messages by size")
    assert "messages (logarithmic)" in words and "1,000" in words


@pytest.mark.parametrize(("fast", "slow"), [(2e-6, 2e5), (1, 2), (0.3, 40)])
def test_times_have_an_axis_with_room(fast: float, slow: float) -> None:
    words = plot(
        text_of(healthy(latency=[latency("$.A", 1000, slow), latency("$.B", 1000, fast)])), "Latency by"
    )
    labels = [word for word in words if word not in ("$.A", "$.B")]
    assert 2 <= len(labels) <= 12 and len(labels) == len(set(labels))


def numbers(text: str) -> dict[str, dict[str, list[float | None]]]:
    (found,) = re.findall(r'<script type="application/json" id="chart-data">(.*?)</script>', text)
    said = json.loads(found)["charts"]
    return {name: {line["label"]: line["values"] for line in chart["lines"]} for name, chart in said.items()}


def test_charts_have_their_numbers_and_a_picture() -> None:
    findings = fleet(devices=1, hours=300)
    text = text_of(findings)
    found = numbers(text)
    assert list(found) == list(charts.CHARTS)
    by_hour = {row["period"]: row for row in findings.hours}
    for name, chart in charts.CHARTS.items():
        assert f'<figure class="chart" data-chart="{name}">' in text
        assert plot(text, chart.title)
        for line in chart.lines:
            # The first of 300 hours is not there, and so is another one, of which nothing is known.
            for number, value in enumerate(found[name][line.label], 1):
                row = by_hour.get(BEGIN + timedelta(hours=number))
                assert value == (row and pytest.approx(row[line.key], rel=1e-3))
            assert len(found[name][line.label]) == 299 and found[name][line.label].count(None) == 3


@pytest.mark.parametrize(
    ("hours", "dates"),
    [
        (5, ["2026-03-01 13:00", "14:00", "15:00", "16:00"]),
        (96, ["2026-03-02", "12:00", "2026-03-03", "12:00", "2026-03-04", "12:00", "2026-03-05"]),
    ],
)
def test_charts_have_few_dates_that_are_round(hours: int, dates: list[str]) -> None:
    words = plot(text_of(fleet(devices=1, hours=hours)), charts.CHARTS["messages"].title)
    assert words[-len(dates) :] == dates and len(words) <= len(dates) + 7


def test_what_never_happened_has_no_chart() -> None:
    findings = fleet(devices=1, hours=3)
    for row in findings.hours:
        row.update(lost=0, unseen=0)
    text = text_of(findings)
    assert "losses" not in numbers(text) and 'data-chart="losses"' not in text
    assert list(numbers(text_of(healthy()))) == []


def test_names_with_few_replies_are_marked() -> None:
    text = text_of(fleet(devices=1, hours=2))
    assert "<th scope=row>$.Rare *</th>" in text and "<th scope=row>$.Pump.Speed</th>" in text
    assert "Names with * have fewer than 100 replies, and come last." in text


def test_times_are_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark gives local times."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert words.moment(datetime.fromtimestamp(BEGIN.timestamp())) == "2026-03-01 12:00"
    time.tzset()


def test_a_replier_that_left_requests_was_not_there_all_the_time() -> None:
    for number, text in ((1, "1 replier left 9 requests unanswered when it went."),
                         (2, "2 repliers left 9 requests unanswered when they went.")):  # fmt: skip
        findings = healthy(crashes=[{}], totals={"crashes": number})
        findings.of_all["crashes"] = {"requests": 9}
        assert verdicts.availability(findings).text == text


def test_one_hole_is_one() -> None:
    for number, text in ((1, "There is 1 hole"), (2, "There are 2 holes")):
        findings = healthy(losses={"recorder_lost": 0, "recording_gaps": number})
        assert verdicts.losses(findings).text == f"{text} between recordings."


@pytest.mark.parametrize("zone", ["America/St_Johns", "Europe/Berlin", "UTC"])
@pytest.mark.parametrize("day", ["2025-10-26", "2025-11-02"])
def test_hours_are_those_of_utc(
    zone: str, day: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The field's case P1: where clocks are set back, a local time is two."""
    hours = [datetime.fromisoformat(f"{day}T{hour:02}:00:00+00:00") for hour in range(6)]
    texts = [
        f"SELECT TIMESTAMP '{each.isoformat()}' AS period, 1L AS messages, 9L AS bytes" for each in hours
    ]
    frame = spark.sql(" UNION ALL ".join(texts))
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        for count in range(1, 7):
            _, rows = _hours(frame.where(F.col("period") <= F.lit(hours[count - 1])))
            assert [row["period"] for row in rows] == hours[:count]
    time.tzset()


def test_rounding_gives_no_powers() -> None:
    assert (words.duration(999_600), words.size(999_600), words.rate(999.7)) == ("1,000 µs", "1 MB", "1,000")
    assert (words.duration(999_400), words.size(0), words.rate(0.25)) == ("999 µs", "0 B", "0.25")
