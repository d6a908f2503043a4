# SPDX-License-Identifier: MIT
"""The report: what it says, and that a browser shows it without a network, on a phone and in print."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kbus.pipeline import derive
from kbus.pipeline.ingest import ingest
from kbus.pipeline.report import write_report
from kbus.pipeline.scope import Scope
from kbus.pipeline.warehouse import Warehouse
from tests.pipeline import fleet
from tests.pipeline.chromium import Chromium

SECTIONS = (
    "health",
    "rates",
    "latency",
    "silence",
    "losses",
    "repliers",
    "anomalies",
    "comparison",
    "devices",
)


@pytest.fixture(scope="module")
def report(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("report")
    captures = where / "captures"
    captures.mkdir()
    fleet.make(captures, seconds=120)
    warehouse = Warehouse.create(str(where / "tables"), buckets=2)
    ingest(spark, warehouse, [str(captures)])
    derive.make_conversations(spark, warehouse)
    derive.make_aggregates(spark, warehouse)
    output = where / "report.html"
    sides = Scope.parse("device=device000"), Scope.parse("device=device001")
    assert write_report(spark, warehouse, output, Scope(), sides) == output.stat().st_size
    return output


class Page(HTMLParser):
    """Sections, sentences and addresses of a page, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sections: list[str] = []
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)
        for name, value in attrs:
            if tag == "section" and name == "id":
                self.sections.append(str(value))
            if name in ("src", "href", "action") or (name == "xlink:href"):
                self.addresses.append(str(value))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_sections_and_no_network(report: Path) -> None:
    page = Page(report.read_text())
    assert page.sections == list(SECTIONS)
    assert not page.open
    assert all(each.startswith("#") for each in page.addresses), "something would be fetched"
    assert "<script" not in report.read_text() and "@import" not in report.read_text()


def test_each_section_has_a_sentence(report: Path) -> None:
    text = report.read_text()
    for name in SECTIONS[1:]:
        section = text[text.index(f'<section id="{name}">') :].partition("</section>")[0]
        (says, *_) = re.findall(r'<p class="says">(.*?)</p>', section)
        assert says.endswith("."), (name, says)
    glance = re.findall(r'<li class="(\w+)"><b>(\w+)</b> <span>(.*?)</span>', text)
    assert [title for _, title, _ in glance] == [
        "Recordings", "Answers", "Speed", "Silence", "Losses", "Repliers", "Changes",
    ]  # fmt: skip
    levels = {title: level for level, title, _ in glance}
    assert levels["Recordings"] == "watch" and levels["Repliers"] == "bad"


def test_it_is_the_same_each_time(report: Path, spark: SparkSession) -> None:
    again = report.with_name("again.html")
    warehouse = Warehouse.open(str(report.parent / "tables"))
    sides = Scope.parse("device=device000"), Scope.parse("device=device001")
    write_report(spark, warehouse, again, Scope(), sides)
    assert again.read_text() == report.read_text()


def test_nothing_in_the_scope_is_a_report_too(report: Path, spark: SparkSession) -> None:
    empty = report.with_name("empty.html")
    warehouse = Warehouse.open(str(report.parent / "tables"))
    write_report(spark, warehouse, empty, Scope(device="nobody"))
    page = Page(empty.read_text())
    assert page.sections == [name for name in SECTIONS if name != "comparison"]
    assert "There are no recordings in this scope." in empty.read_text()


@pytest.mark.parametrize("width", [1200, 390])
def test_in_a_browser(report: Path, tmp_path: Path, width: int) -> None:
    browser = Chromium(tmp_path)
    text = browser.text(report, width)
    for heading in ("How is the bus?", "Health at a glance", "Latency", "Device by device"):
        assert heading in text
    picture = browser.picture(report, width, 2400)
    assert picture.colours > 10, "the page is empty"
    assert browser.scroll_width(report, width) <= width, "the page is wider than the screen"


def test_in_print(report: Path, tmp_path: Path) -> None:
    paper = Chromium(tmp_path).pdf(report)
    text = subprocess.run(["pdftotext", paper, "-"], capture_output=True, text=True, check=True).stdout
    for heading in ("How is the bus?", "Losses", "Device by device"):
        assert heading in text
