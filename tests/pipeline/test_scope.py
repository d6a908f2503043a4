# SPDX-License-Identifier: MIT
"""Scopes that begin and end inside recordings, and clocks that are set while they are recorded."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kbus import Announcement, Message, MessageId
from kbus.pipeline.derive.derived import make_aggregates, make_conversations
from kbus.pipeline.derive.stale import behind
from kbus.pipeline.ingest.batch import ingest
from kbus.pipeline.report import answers, write_report
from kbus.pipeline.report.scope import Scope, Tables
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.captures import NOON, bind_event, capture, info
from tests.pipeline.warehouses import asked, take_in

MINUTE = 60 * 10**9
HOUR = 60 * MINUTE
DAY = 24 * HOUR
#: From the time of the recordings to 2100
TO_2100 = 4_102_444_800 * 10**9 - NOON


def beats(count: int, first: int = 1) -> list[Message]:
    return [Announcement("$.Beat", id=MessageId(0, first + number)) for number in range(count)]


def scope(begin: int, end: int) -> Scope:
    """Minutes after noon."""
    since, until = (
        datetime.fromtimestamp((NOON + each * MINUTE) // 10**9, timezone.utc) for each in (begin, end)
    )
    return Scope(since=since, until=until)


def minutes(device: str, begin: int, count: int, first: int = 1) -> bytes:
    """A message a minute, whose sequence numbers and serials begin with ``first``."""
    at = begin * MINUTE
    return capture(
        beats(count, first), info(device), begin_ns=NOON + at, step_ns=MINUTE, first=first, mono_ns=10**9 + at
    )


@pytest.fixture(scope="module")
def hours(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Recordings of which a scope of an hour, from 60 to 120 minutes after noon, cuts some."""
    where = tmp_path_factory.mktemp("hours")
    raws = {
        "through": minutes("through", 0, 200),
        "until": minutes("until", 0, 61),
        "since": minutes("since", 120, 10),
        "before": minutes("before", 0, 10),
        # Nothing from 30 to 80 minutes, for which 10 sequence numbers are missing.
        "hole-1": minutes("hole", 0, 30),
        "hole-2": minutes("hole", 80, 30, first=41),
        # Of the devices in a file, files has the first one.
        "two": minutes("before", 10, 10) + minutes("second", 70, 10),
    }
    # Bound for half of the scope.
    events = [bind_event(1, True), *beats(89, 2), bind_event(91, False), *beats(109, 92)]
    raws["bound"] = capture(events, info("bound"), begin_ns=NOON, step_ns=MINUTE)
    raws["asks"] = capture(asked(range(1, 101)), info("asks"), begin_ns=NOON, step_ns=MINUTE)
    take_in(spark, made := Warehouse.create(str(where / "tables"), buckets=1), *written(where, raws))
    return made


def written(where: Path, raws: dict[str, bytes]) -> list[Path]:
    for name, raw in raws.items():
        (where / f"{name}.pcapng").write_bytes(raw)
    return [where / f"{name}.pcapng" for name in raws]


def test_an_hour_inside_recordings(spark: SparkSession, hours: Warehouse, tmp_path: Path) -> None:
    """The field's case P4, beside recordings that end where the scope begins, or begin where it ends."""
    output = tmp_path / "report.html"
    write_report(spark, hours, output, scope(60, 120))
    said = output.read_text()
    told = json.loads(output.with_suffix(".json").read_text())
    messages = 60 + 1 + 30 + 10 + 60 + 60
    (headline,) = re.findall(r"<p class='scope'>.*?: (.*?)</p>", said)
    assert headline.startswith(f"{messages} messages of 6 devices, from 6 files of ")
    assert headline.endswith(", 2026-03-01 13:00 to 2026-03-01 14:00 UTC.")
    assert f"{messages} messages of 3 names in 1 hour;" in said
    assert told["totals"]["messages"] == messages and told["totals"]["files"] == 6
    levels = {each["name"]: each["level"] for each in told["verdicts"]}
    assert "All 6 recordings are whole." in said and levels["recordings"] == "green"
    assert "1 device was last heard more than 1 h before the latest recording; before " in said
    assert "There is 1 hole between recordings." in said
    assert "Of 30 requests, 100 % got a reply" in said


def test_what_lasts_is_cut_where_the_scope_ends(spark: SparkSession, hours: Warehouse) -> None:
    tables = Tables(spark, hours, scope(60, 120))
    seconds = {row.device: row.seconds for row in answers.observed(tables).collect()}
    assert seconds == {
        "through": 3600, "asks": 3600, "bound": 3600, "until": 0, "hole": 29 * 60, "second": 9 * 60,
    }  # fmt: skip
    assert [(row.device, row.bound) for row in answers.repliers(tables).collect()] == [("bound", 0.5)]


@pytest.mark.parametrize(("begin", "end"), [(75, 105), (70, 71)])
def test_a_scope_need_not_be_of_whole_hours(
    spark: SparkSession, hours: Warehouse, begin: int, end: int
) -> None:
    tables = Tables(spark, hours, scope(begin, end))
    counted = dict.fromkeys(("hours", "messages", "answers"), 0)
    counted["messages"] = tables["messages"].count()
    counted["hours"] = sum(row.messages for row in answers.hours(tables).collect())
    counted["answers"] = sum(row.answers for row in answers.latency(tables).collect())
    assert counted["hours"] == counted["messages"] > 0
    assert counted["answers"] == sum(each % 2 == 0 for each in range(begin, end))


def test_files_of_a_device_are_those_that_have_it(spark: SparkSession, hours: Warehouse) -> None:
    for device, count in (("second", 1), ("before", 2), ("hole", 2)):
        assert Tables(spark, hours, Scope(device=device))["files"].count() == count


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("since=2026-03-01T12:00:30", "is no whole minute"),
        ("until=2026-03-01T12:00:00.5", "is no whole minute"),
        ("device=a,device=b", "device is given twice"),
        ("until=9999-12-31T23:59-05:00", "is not in the years from 1970 to 2262"),
        ("device=", "'device=' says nothing"),
        ("since=2026-03-02,until=2026-03-02", "ends before it begins"),
    ],
)
def test_what_is_no_scope(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Scope.parse(text)


def test_a_scope_is_called_as_it_was_asked_for() -> None:
    text = "since=2026-03-01T12:00:00Z,device=Hall 2 +00:00*"
    assert str(Scope.parse(text)) == text


def test_steps_that_have_something_to_do(spark: SparkSession, tmp_path: Path) -> None:
    """A report without them says so."""
    made = Warehouse.create(str(tmp_path / "tables"), buckets=1)
    assert behind(made, made.snapshot()) == []
    ingest(spark, made, [str(each) for each in written(tmp_path, {"a": minutes("a", 0, 3)})])
    assert behind(made, made.snapshot()) == ["conversations", "aggregate"]
    make_conversations(spark, made)
    assert behind(made, made.snapshot()) == ["aggregate"]
    make_aggregates(spark, made)
    assert behind(made, made.snapshot()) == []
    ingest(spark, made, [str(each) for each in written(tmp_path, {"b": minutes("b", 0, 3)})])
    assert behind(made, made.snapshot()) == ["conversations", "aggregate"]


@pytest.fixture(scope="module")
def clocks(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Three hours of recordings; clocks that are wrong for a while, and one that is wrong since."""
    where = tmp_path_factory.mktemp("clocks")
    off = {
        "right": [0] * 180,
        "jumped": [0] * 60 + [TO_2100] * 60 + [0] * 60,
        "tomorrow": [0] * 60 + [5 * DAY] * 60 + [0] * 60,
        "unset": [-NOON] * 60 + [0] * 120,
        "lost": [0] * 60 + [TO_2100] * 120,
    }
    raws = {
        device: capture(beats(180), info(device), begin_ns=NOON, step_ns=MINUTE, off_ns=offsets)
        for device, offsets in off.items()
    }
    take_in(spark, made := Warehouse.create(str(where / "tables"), buckets=1), *written(where, raws))
    return Tables(spark, made, Scope())


def test_a_clock_is_wrong_while_it_is(clocks: Tables) -> None:
    found = {row.device: (row.is_clock_right, row.behind_s) for row in answers.silent(clocks).collect()}
    assert found == {
        "right": (True, 0), "jumped": (True, 0), "tomorrow": (True, 0), "unset": (True, 0),
        "lost": (False, None),
    }  # fmt: skip


def test_what_was_recorded_while_a_clock_was_wrong_is_in_no_other_scope(clocks: Tables) -> None:
    for begin, count in ((0, 4), (60, 2)):
        found = answers.observed(clocks.within(scope(begin, begin + 60))).collect()
        seconds = {row.device: row.seconds for row in found}
        assert len(seconds) == count and "right" in seconds
        assert seconds.get("jumped") == (59 * 60 if begin == 0 else None), seconds


def test_what_was_sent_while_a_clock_was_wrong_is_not_unseen(clocks: Tables) -> None:
    found = answers.full_queues(clocks).groupBy("device").agg(F.sum("unseen").alias("unseen")).collect()
    assert not found
