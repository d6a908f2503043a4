# SPDX-License-Identifier: MIT
"""The report in a browser: what a person sees, on a desk, on a phone, in the dark and on paper."""

from __future__ import annotations

import re
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from kbus.pipeline.report.page import page
from kbus.pipeline.report.summary import judged
from kbus.pipeline.report.thresholds import LEVELS
from tests.pipeline.chromium import DARK, Chromium
from tests.pipeline.findings import fleet, outcomes

DESK, PHONE = 1200, 390


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("browser") / "report.html"
    findings = fleet(devices=6, hours=200)
    findings.all_outcomes = outcomes()
    found = judged(findings)
    assert {each.level for each in found.values()} == set(LEVELS)
    path.write_text(page(findings, found))
    return path


#: Accessibility of the page, and then of a device's; how wide it is; whether a script of another is run.
_LOOK = """(async () => {
    %s;
    const check = async () => (await axe.run()).violations.map(
        (found) => `${found.id}: ${found.help}: ${found.nodes.map((node) => node.html.slice(0, 200))}`);
    const width = () => document.documentElement.scrollWidth;
    const wide = width(), found = await check();
    location.hash = "#device-device-0003.plant.example";
    await new Promise((done) => setTimeout(done, 100));
    const shown = [...document.querySelectorAll("h1, h2")].filter((each) => each.checkVisibility());
    const paper = getComputedStyle(document.body).backgroundColor;
    const titles = shown.map((each) => each.textContent);
    return {wide: Math.max(wide, width()), found, device: await check(), shown: titles, paper};
})()"""


@pytest.mark.parametrize(
    ("width", "options"),
    [(DESK, ()), pytest.param(PHONE, (DARK,), marks=pytest.mark.long("starts Chromium"))],
)
def test_accessibility(report: Path, tmp_path: Path, width: int, options: tuple[str, ...]) -> None:
    axe = (resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    found = Chromium(tmp_path).result(report, _LOOK % axe, width, *options)
    assert found["found"] == [] and found["device"] == []
    assert found["wide"] <= width, "the page is wider than the screen"
    assert found["shown"] == ["How is the bus?", "device-0003.plant.example"]
    assert found["paper"] == ("rgb(20, 23, 27)" if options else "rgb(255, 255, 255)")


#: Sorts the table of devices by p99, twice; points at a chart, and zooms into it.
_USE = """(async () => {
    const settle = () => new Promise((done) => setTimeout(done, 100));
    const devices = document.querySelector("#devices table"), head = devices.tHead.rows[0].cells;
    const rows = () => [...devices.tBodies[0].rows];
    const p99 = [...head].find((each) => each.textContent === "p99");
    const column = () => rows().map((row) => Number(row.cells[p99.cellIndex].dataset.v));
    const sorted = [];
    for (let time = 0; time < 2; time++) {
        p99.querySelector("button").click();
        sorted.push([p99.getAttribute("aria-sort"), column()]);
    }
    head[0].querySelector("button").click();
    const names = rows().map((row) => row.cells[0].textContent);

    const figure = document.querySelector("figure[data-chart=latency]");
    const other = document.querySelector("figure[data-chart=losses]");
    const mouse = (type, share, over = figure.querySelector(".u-over")) => {
        const {left, top, width, height} = over.getBoundingClientRect();
        const [x, y] = [left + share * width, top + height / 2];
        over.dispatchEvent(new MouseEvent(type, {clientX: x, clientY: y, bubbles: true, movementX: 5}));
    };
    const says = () => [...figure.querySelectorAll(".u-value")].map((each) => each.textContent);
    const point = async () => { mouse("mousemove", 0.5); await settle(); return says(); };
    figure.scrollIntoView();
    mouse("mouseenter", 0.5);
    const pointed = await point();
    mouse("mousemove", 0.8);
    mouse("mousedown", 0.8);
    mouse("mousemove", 0.9);
    mouse("mouseup", 0.9);
    await settle();
    const zoomed = await point();
    mouse("mouseenter", 0.5, other.querySelector(".u-over"));
    mouse("mousemove", 0.5, other.querySelector(".u-over"));
    await settle();
    const with_it = other.querySelector(".u-value").textContent;
    figure.querySelector(".live button").click();
    await settle();
    return {sorted, names, pointed, zoomed, with_it, again: await point()};
})()"""


def test_sorting_and_zooming(report: Path, tmp_path: Path) -> None:
    found: dict[str, Any] = Chromium(tmp_path).result(report, _USE, DESK)
    (down, most_first), (up, least_first) = found["sorted"]
    assert (down, up) == ("descending", "ascending")
    assert most_first == sorted(most_first, reverse=True) and len(set(most_first)) == 6
    assert least_first == sorted(most_first)
    assert found["names"] == sorted(found["names"], reverse=True)
    # 200 hours from 2026-03-01 12:00 on, of which the middle is pointed at, and then that of the ninth tenth.
    time, p50, p99 = found["pointed"]
    assert re.fullmatch(r"2026-03-05 \d\d:00", time)
    assert re.fullmatch(r"[\d.]+ ms", p50) and re.fullmatch(r"[\d.]+ m?s", p99)
    assert found["again"] == found["pointed"]
    assert re.fullmatch(r"2026-03-08 \d\d:00", found["zoomed"][0])
    assert re.fullmatch(r"2026-03-08 \d\d:00", found["with_it"]), "the other charts show other hours"


#: Pixels of the chart of messages that are blue
_BLUE = """(() => {
    const canvas = document.querySelector("figure[data-chart=messages] canvas");
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let found = 0;
    for (let at = 0; at < data.length; at += 4)
        found += data[at] < 80 && data[at + 2] > 140 && data[at + 3] > 200;
    return found;
})()"""


@pytest.mark.long("starts Chromium")
def test_an_hour_alone_is_seen(tmp_path: Path) -> None:
    findings = fleet(devices=1, hours=12)
    findings.hours = [findings.hours[0], findings.hours[5], findings.hours[10]]
    report = tmp_path / "hours.html"
    report.write_text(page(findings, judged(findings)))
    assert Chromium(tmp_path).result(report, _BLUE, DESK) > 150


@pytest.mark.long("starts Chromium")
def test_pictures(report: Path, tmp_path: Path) -> None:
    browser = Chromium(tmp_path)
    desk = browser.picture(report, DESK, 2000)
    phone = browser.picture(report, PHONE, 2000, DARK)
    assert desk.colours > 10 and phone.colours > 10, "the page is empty"


@pytest.mark.long("starts Chromium")
def test_without_scripts(report: Path, tmp_path: Path) -> None:
    browser = Chromium(tmp_path)
    desk = browser.picture(report, DESK, 1000).path.read_bytes()
    picture = browser.picture(report, DESK, 1000, scripts=False)
    assert picture.path.read_bytes() != desk, "scripts were run"
    assert picture.colours > 10, "the page is empty"


@pytest.mark.long("starts Chromium")
def test_in_print(report: Path, tmp_path: Path) -> None:
    paper = Chromium(tmp_path).pdf(report)
    text = subprocess.run(["pdftotext", paper, "-"], capture_output=True, text=True, check=True).stdout
    for words in ("How is the bus?", "Losses", "Device by device", "p99: 99 in 100", "256 KiB"):
        assert words in text
    assert "All hours" not in text, "what only a mouse can use is in print"
