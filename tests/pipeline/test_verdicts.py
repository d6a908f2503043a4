# SPDX-License-Identifier: MIT
"""Sentences of the report are about everything, not only about what its lists show; and wrong clocks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from kbus import Message, MessageId
from kbus import _abi as abi
from kbus.pipeline.report import answers, findings, sections, verdicts, write_report
from kbus.pipeline.report.scope import Scope, Tables
from kbus.pipeline.report.thresholds import Thresholds
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline import slow, warehouses
from tests.pipeline.captures import NOON, bind_event, capture, info
from tests.pipeline.findings import healthy, outcomes

SECOND = 10**9
HOURS = 150
#: Of how many days the report shows the hours here
DAYS = 4
END = NOON + HOURS * slow.HOUR
#: CLOCK_REALTIME of devices whose clock is wrong
LONG_AGO, FAR_AHEAD = 3600 * SECOND, 4_102_444_800 * SECOND
#: Devices whose repliers go, and devices that are silent
GONE, SILENT = 50, 10
NAMES = [f"$.Name.N{number:02d}" for number in range(30)]
RARE, RAREST = "$.Rare", "$.Rarest"


def announced(serial: int) -> Message:
    return Message("$.Beat", b"1", from_=3, id=MessageId(0, serial))


def asked(names: Sequence[str]) -> list[Message]:
    """A request and its reply for each name."""
    found = []
    for number, name in enumerate(names):
        serial = 2 * number + 1
        found.append(Message(name, from_=20, flags=Message.WANT_A_REPLY, id=MessageId(0, serial)))
        reply_to = MessageId(0, serial)
        found.append(Message(name, from_=10, to=20, in_reply_to=reply_to, id=MessageId(0, serial + 1)))
    return found


class Page(NamedTuple):
    """A report: levels and sentences at a glance, sections by name, the first paragraph."""

    levels: dict[str, str]
    says: dict[str, str]
    sections: dict[str, str]
    scope: str


def page(spark: SparkSession, warehouse: Warehouse, where: Path, *sides: Scope) -> Page:
    output = where / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        for module in (findings, sections):
            patch.setattr(module, "DAYS", DAYS)
        few = Thresholds({("speed", "few_replies"): 2})
        write_report(spark, warehouse, output, Scope(), (sides[0], sides[1]) if sides else None, few)
    text = output.read_text()
    glance = re.findall(r'<li class="(\w+)"><b>(\w+)</b> <i>\w+</i> <span>(.*?)</span>', text)
    found = dict(re.findall(r'<section id="(\w+)">(.*?)</section>', text, re.DOTALL))
    (scope,) = re.findall(r"<p class='scope'>(.*?)</p>", text)
    return Page(
        {title: level for level, title, _ in glance},
        {title: says for _, title, says in glance},
        found,
        scope,
    )


def take_in(spark: SparkSession, warehouse: Warehouse, where: Path, raws: dict[str, bytes]) -> None:
    where.mkdir()
    for name, raw in raws.items():
        (where / f"{name}.pcapng").write_bytes(raw)
    warehouses.take_in(spark, warehouse, where)


@pytest.fixture(scope="module")
def fleet(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Warehouse, Path]:
    where = tmp_path_factory.mktemp("verdicts")
    raws = {}
    beats = [announced(serial + 1) for serial in range(HOURS)]
    raws["steady"] = capture(beats, info("steady"), begin_ns=END - HOURS * slow.HOUR, step_ns=slow.HOUR)
    left = Message(
        abi.NAME_REPLIER_GONEAWAY, flags=Message.SYNTHETIC, from_=7, to=20,
        in_reply_to=MessageId(0, 9), id=MessageId(0, 4),
    )  # fmt: skip
    for number in range(GONE):
        messages = [announced(1), bind_event(2, True), bind_event(3, False), left, announced(5)]
        device = f"gone{number:02d}"
        raws[device] = capture(messages, info(device), begin_ns=END - slow.HOUR, step_ns=SECOND)
    for number in range(SILENT):
        device = f"silent{number}"
        raws[device] = capture([announced(1)], info(device), begin_ns=END - 6 * slow.HOUR)
    for device, begin in (("ahead", FAR_AHEAD), ("unset", LONG_AGO)):
        raws[device] = capture([announced(1), announced(2)], info(device), begin_ns=begin)
    # Of a single message there is no share of the time.
    raws["brief"] = capture([bind_event(1, True)], info("brief"), begin_ns=END - slow.HOUR)
    # What is asked most does not change, and the rare ones do; one of them is too rare to tell.
    for version, names, step in (
        ("1.0", [*NAMES, *NAMES], 10**6), ("1.1", [*NAMES, *NAMES], 10**6),
        ("1.0", [RARE, RARE], 10**6), ("1.1", [RARE, RARE], 10**9),
        ("1.0", [RAREST], 10**6), ("1.1", [RAREST], 10**10),
    ):  # fmt: skip
        device = f"asked{len(raws)}"
        section = info(device, recorder=version)
        raws[device] = capture(asked(names), section, begin_ns=END - slow.HOUR, step_ns=step)
    warehouse = Warehouse.create(str(where / "tables"), buckets=1)
    take_in(spark, warehouse, where / "captures", raws)
    return warehouse, where


@pytest.fixture(scope="module")
def told(spark: SparkSession, fleet: tuple[Warehouse, Path]) -> Page:
    return page(spark, *fleet, Scope(recorder="1.0"), Scope(recorder="1.1"))


DEVICES = GONE + SILENT + 10
MESSAGES = 5 + HOURS + 5 * GONE + SILENT + 4 * (2 * len(NAMES) + 3)


def test_who_is_silent_is_counted_among_all(told: Page) -> None:
    assert told.levels["Silence"] == "yellow"
    assert told.says["Silence"].startswith(
        f"{SILENT} devices were last heard more than 1 h before the latest recording; silent"
    )
    assert f"{DEVICES} devices; those with most trouble first." in told.sections["devices"]
    assert told.sections["devices"].count(">silent") == SILENT


def test_repliers_that_were_away_are_counted_among_all(told: Page) -> None:
    assert told.says["Repliers"].startswith(f"{GONE} repliers were not there all the time; $.Pump on gone")
    assert told.says["Repliers"].endswith(f"{GONE} repliers left {GONE} requests unanswered when they went.")
    assert f"12 of {GONE + 1} are shown" in told.sections["repliers"]


def test_traffic_is_that_of_all_hours(told: Page) -> None:
    beats = HOURS + 2 * GONE + SILENT + 4
    share = f"{100 * beats / MESSAGES:.3g} % of them are $.Beat"
    assert (
        f"{MESSAGES:,} messages of {len(NAMES) + 5} names in {HOURS + 2} hours; {share}"
        in told.sections["rates"]
    )
    assert told.scope.endswith("2026-03-01 12:00 to 2026-03-07 18:00 UTC.")
    assert "100 % of the messages of its bus in this scope." in told.sections["rates"]
    assert (
        f"{24 * DAYS} of {HOURS + 2} hours are shown, the {DAYS} days up to the latest"
        in told.sections["rates"]
    )


def test_what_changed_most_is_looked_for_among_all(told: Page) -> None:
    assert f"Latency changed most for {RARE}: p99 is" in told.sections["comparison"]


def test_wrong_clocks_make_nobody_silent(told: Page) -> None:
    says = told.says["Silence"]
    assert says.startswith(f"{SILENT} devices were last heard more than 1 h before the latest recording;")
    assert says.endswith("The clocks of 2 devices are wrong: when these were heard is not known.")
    assert told.levels["Silence"] == "yellow"


def test_where_no_clock_is_right_they_are_compared(
    spark: SparkSession, fleet: tuple[Warehouse, Path]
) -> None:
    (row,) = answers.silent(Tables(spark, fleet[0], Scope(device="unset"))).collect()
    assert (row.device, row.behind_s, row.is_clock_right) == ("unset", 0, True)


def test_wrong_clocks_do_not_stretch_the_axis(told: Page) -> None:
    rates = told.sections["rates"]
    assert "2026" in rates and "1970" not in rates and "2100" not in rates
    assert told.scope.endswith("2026-03-01 12:00 to 2026-03-07 18:00 UTC.")
    assert f"{24 * DAYS} of {HOURS + 2} hours are shown" in rates
    assert "(its clock is wrong)" in told.sections["devices"]


def test_figures_that_lack_what_is_new_are_not_good() -> None:
    assert verdicts.recordings(healthy()).level == "green"
    verdict = verdicts.recordings(healthy(behind=["aggregate"]))
    assert verdict.level == "yellow" and "kbus-pipeline aggregate has not run since" in verdict.text


def test_errors_of_repliers_are_told_apart() -> None:
    verdict = verdicts.answering(healthy(all_outcomes=outcomes(reply=95, errors=3, status=2)))
    assert verdict.text == (
        "Of 100 requests, 95 % got a reply, 3 an error, 2 a status in its place and 0 no answer at all."
    )
    assert verdict.level == "yellow"
