# SPDX-License-Identifier: MIT
"""Each answer equals what the slow, obvious calculation gives for the same recordings."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kbus import Announcement, MessageId
from kbus.pipeline.derive import sketch
from kbus.pipeline.report import answers
from kbus.pipeline.report.scope import Scope, Tables
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline import slow
from tests.pipeline.captures import NOON, capture, info
from tests.pipeline.conftest import Fleet
from tests.pipeline.warehouses import take_in


class Made(NamedTuple):
    tables: Tables
    slow: slow.Recordings
    boots: dict[int, str]


def made_of(spark: SparkSession, where: Path, captures: Path) -> Made:
    warehouse = Warehouse.create(str(where / "tables"), buckets=2)
    take_in(spark, warehouse, captures)
    return beside(Tables(spark, warehouse, Scope()), captures)


def beside(tables: Tables, captures: Path) -> Made:
    """The tables, and what the slow calculation is made of."""
    boots = {
        row.session: row.boot for row in tables["stretches"].select("session", "boot").distinct().collect()
    }
    return Made(tables, slow.Recordings.read(sorted(captures.iterdir())), boots)


@pytest.fixture(scope="module")
def made(whole_fleet: Fleet) -> Made:
    return beside(whole_fleet.tables, whole_fleet.captures)


def table(frame: DataFrame, keys: int) -> dict[Any, Any]:
    """The rows, by their first columns."""
    rows = [tuple(row) for row in frame.collect()]
    found = {row[:keys]: row[keys:] for row in rows}
    assert len(found) == len(rows)
    return found


def test_rates_and_bytes(made: Made) -> None:
    expected: dict[Any, list[float]] = defaultdict(lambda: [0, 0])
    for each in made.slow.all():
        row = expected[each.session[0], 0, each.message.name]
        row[0] += 1
        row[1] += each.length
    seconds = made.slow.seconds()
    found = table(answers.rates(made.tables).select("device", "bus", "name", "messages", "bytes", "rate"), 3)
    assert found.keys() == expected.keys()
    for key, (messages, length) in expected.items():
        assert found[key] == pytest.approx((messages, length, messages / seconds[key[0]]))


def test_messages_by_hour(made: Made) -> None:
    expected = Counter((each.session[0], each.time_ns // slow.HOUR) for each in made.slow.all())
    hours = answers.hours(made.tables).select("device", F.unix_seconds("period") / 3600, "messages")
    assert table(hours, 2) == {key: (count,) for key, count in expected.items()}


def test_top_talkers(made: Made) -> None:
    expected = Counter((*each.session, each.message.from_) for each in made.slow.all())
    total = Counter(each.session for each in made.slow.all())
    rows = answers.talkers(made.tables).collect()
    found = {(row.device, made.boots[row.session], row["from"]): (row.messages, row.share) for row in rows}
    assert found.keys() == expected.keys()
    for key, count in expected.items():
        assert found[key] == pytest.approx((count, count / total[key[:2]]))


def test_sizes(made: Made) -> None:
    expected = Counter((each.session[0], slow.size_class(each.length)) for each in made.slow.all())
    found = table(answers.sizes(made.tables).select("device", "size", "messages"), 2)
    assert found == {key: (count,) for key, count in expected.items()}


def test_latency_by_name_and_replier(made: Made) -> None:
    expected: dict[Any, list[int]] = defaultdict(list)
    for each in made.slow.conversations():
        if each.outcome == "reply":
            assert each.latency_ns is not None
            expected[each.session[0], 0, each.name, each.replier].append(each.latency_ns)
    columns = ("answers", "mean_ns", "longest_ns", *answers.QUANTILES)
    found = table(answers.latency(made.tables).select("device", "bus", "name", "replier", *columns), 4)
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        count, mean, longest, *quantiles = found[key]
        assert (count, longest) == (len(values), max(values))
        assert mean == pytest.approx(sum(values) / len(values))
        for q, value in zip(answers.QUANTILES.values(), quantiles):
            assert value == pytest.approx(slow.quantile(values, q), rel=sketch.ERROR + 1e-9)


def test_outcomes(made: Made) -> None:
    expected: dict[Any, Counter[str]] = defaultdict(Counter)
    for each in made.slow.conversations():
        expected[each.session[0], 0, each.name][each.outcome] += 1
    kinds = ("reply", "failed", "status", "unanswered", "incomplete", "orphan")
    columns = ("reply", "errors", "status", "unanswered", "incomplete", "orphan")
    found = table(answers.outcomes(made.tables).select("device", "bus", "name", *columns, "failed"), 3)
    assert all(sum(counts[kind] for counts in expected.values()) for kind in kinds)
    assert found.keys() == expected.keys()
    for key, counts in expected.items():
        assert found[key][:-1] == tuple(counts[kind] for kind in kinds)
        failed = counts["failed"] + counts["status"] + counts["unanswered"]
        known = failed + counts["reply"]
        assert found[key][-1] == (pytest.approx(failed / known) if known else None)


def test_crashes_of_repliers(made: Made) -> None:
    expected = Counter(
        (*each.session, each.message.from_) for each in made.slow.all() if each.message.name in slow.LEFT
    )
    rows = answers.crashes(made.tables).collect()
    found = {(row.device, made.boots[row.session], row.ksock): row.requests for row in rows}
    assert found == expected and found


def test_slow_listeners(made: Made) -> None:
    expected = {}
    for session, heard in made.slow.heard.items():
        counts = [each.lost for each in heard]
        lost = [after - before for before, after in zip(counts, counts[1:]) if after > before]
        if lost:
            expected[session] = (len(lost), sum(lost))
    rows = answers.slow_listeners(made.tables).collect()
    found = {(row.device, made.boots[row.session]): (row.episodes, row.messages) for row in rows}
    assert found == expected and found


def test_how_many_requests_waited_for_a_replier(made: Made) -> None:
    spans: dict[tuple[str, str, int | None], list[tuple[int, int]]] = defaultdict(list)
    for each in made.slow.conversations():
        if each.latency_ns is not None:
            key = (*each.session, each.replier)
            spans[key].append((each.mono_ns, each.mono_ns + each.latency_ns))
    expected = {
        key: max(sum(begin <= asked <= end for begin, end in waits) for asked, _ in waits)
        for key, waits in spans.items()
    }
    rows = answers.backlogs(made.tables).collect()
    found = {(row.device, made.boots[row.session], row.replier): row.waiting for row in rows}
    assert found == expected and max(found.values()) > 1


def test_full_queues(made: Made) -> None:
    expected = {
        (*session, minute): count
        for session, heard in made.slow.heard.items()
        for minute, count in slow.unseen(heard).items()
    }
    rows = answers.full_queues(made.tables).withColumn("minute", F.unix_seconds("period") / 60).collect()
    found = {(row.device, made.boots[row.session], int(row.minute)): row.unseen for row in rows}
    assert found == expected and found


def test_serials_that_wrap_are_not_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A message a second, of which one device's KBUS has refused some. Serials wrap in various minutes."""
    captures = tmp_path / "captures"
    captures.mkdir()
    wraps = {"first": 30, "third": 150, "refused": 150, "between": 120, "never": 10_000}
    for device, wrap in wraps.items():
        chance = random.Random(1)
        # The highest one is 2**32 - 1, after which comes 1.
        serials = [*range(2**32 - wrap, 2**32), *range(1, 600)]
        if device == "refused":
            serials = [each for each in serials if chance.random() < 0.8]
        messages = [Announcement("$.A", id=MessageId(0, serial)) for serial in serials[:300]]
        (captures / f"{device}.pcapng").write_bytes(capture(messages, info(device), step_ns=10**9))
    made = made_of(spark, tmp_path, captures)
    expected = {
        device: count
        for (device, _), heard in made.slow.heard.items()
        if (count := sum(slow.unseen(heard).values()))
    }
    found = answers.full_queues(made.tables).groupBy("device").agg(F.sum("unseen").alias("unseen")).collect()
    assert {row.device: row.unseen for row in found} == expected
    assert expected.keys() == {"refused"}


def test_who_is_silent(made: Made) -> None:
    last: dict[str, int] = {}
    for (device, _), heard in made.slow.heard.items():
        last[device] = max(last.get(device, 0), heard[-1].time_ns // 1000)
    found = table(answers.silent(made.tables).select("device", "behind_s"), 1)
    assert found == {(device,): ((max(last.values()) - time) / 1e6,) for device, time in last.items()}


@pytest.fixture(scope="module")
def month(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """Some days of two devices, with hours that are unlike those before."""
    where = tmp_path_factory.mktemp("month")
    captures = where / "captures"
    captures.mkdir()
    chance = random.Random(5)
    for device in ("pump", "valve"):
        for day in range(6):
            for hour in range(2):
                count = chance.randrange(60, 70)
                if (device, day, hour) in (("pump", 4, 1), ("valve", 5, 0)):
                    count = 200
                names = ["$.Beat", *(["$.Sometimes"] if (device, day) != ("valve", 4) else [])]
                messages = [Announcement(names[k % len(names)]) for k in range(count)]
                begin = NOON + (day * 24 + hour) * slow.HOUR
                boot = f"{device}-{day}-{hour}"
                version = "1.0" if day < 3 else "1.1"
                section = info(device, boot, recorder=version)
                raw = capture(messages, section, begin_ns=begin, step_ns=10**9 * (2 if day < 3 else 1))
                (captures / f"{boot}.pcapng").write_bytes(raw)
    yield made_of(spark, where, captures)


def test_anomalies(month: Made) -> None:
    counts = Counter(
        (each.session[0], each.message.name, each.time_ns // slow.HOUR) for each in month.slow.all()
    )
    frame = answers.odd_hours(month.tables).withColumn(
        "hour", (F.unix_seconds("period") / 3600).cast("bigint")
    )
    found = table(frame.select("device", "name", "hour", "messages", "usual", "deviations"), 3)
    expected = slow.odd_hours(counts)
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        assert found[key] == pytest.approx(row)
    assert {deviations > 0 for _, _, deviations in expected.values()} == {True, False}


def test_since_belongs_to_a_scope_and_until_does_not(month: Made) -> None:
    begin = NOON + 24 * slow.HOUR
    for length in (10 * 10**9, slow.HOUR):
        since, until = (datetime.fromtimestamp(time / 1e9, timezone.utc) for time in (begin, begin + length))
        tables = month.tables.within(Scope(since=since, until=until))
        times = Counter(each.time_ns for each in month.slow.all() if begin <= each.time_ns < begin + length)
        rows = tables["messages"].select("ts_ns").collect()
        assert Counter(row.ts_ns for row in rows) == times and times[begin] == 2
        assert any(each.time_ns == begin + length for each in month.slow.all()), "none at its end"
        hours = answers.hours(tables).select(F.unix_seconds("period")).collect()
        assert {row[0] * 10**9 for row in hours} == {begin}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            f"until={datetime.fromtimestamp(NOON / 1e9 + 3 * 86400 - 3600, timezone.utc):%Y-%m-%dT%H:%M}",
            f"since={datetime.fromtimestamp(NOON / 1e9 + 3 * 86400 - 3600, timezone.utc):%Y-%m-%dT%H:%M}",
            marks=pytest.mark.long("another way to tell sides"),
        ),
        ("recorder=1.0", "recorder=1.1"),
    ],
)  # fmt: skip
def test_two_periods_and_two_versions(month: Made, before: str, after: str) -> None:
    split = NOON + 3 * 24 * slow.HOUR - slow.HOUR
    expected: dict[str, list[float | None]] = defaultdict(lambda: [None, None])
    for side in (0, 1):
        heard = [each for each in month.slow.all() if (each.time_ns >= split) == bool(side)]
        sessions = defaultdict(list)
        for each in heard:
            sessions[each.session].append(each.mono_ns)
        seconds = sum((max(times) - min(times)) / 1e9 for times in sessions.values())
        for name, count in Counter(each.message.name for each in heard).items():
            expected[name][side] = count / seconds
    sides = [month.tables.within(Scope.parse(text)) for text in (before, after)]
    found = table(answers.compared(*sides).select("name", "rate_before", "rate_after"), 1)
    assert {name: pytest.approx(rates) for (name,), rates in found.items()} == {
        name: tuple(rates) for name, rates in expected.items()
    }


def test_sketches_merge_and_keep_their_error(spark: SparkSession) -> None:
    chance = random.Random(3)
    values = [int(chance.lognormvariate(14, 3)) + 1 for _ in range(3000)] + [1, 2, 3]
    frame = spark.createDataFrame(
        [(k % 7, value) for k, value in enumerate(values)], "part int, value bigint"
    )
    parts = (
        frame.withColumn("step", sketch.step(F.col("value")))
        .groupBy("part", "step")
        .agg(F.count("*").alias("answers"))
    )
    wanted = {f"q{k}": k / 100 for k in range(0, 101, 5)}
    (row,) = sketch.quantiles(parts.withColumn("all", F.lit(1)), ["all"], wanted).collect()
    assert row.answers == len(values)
    for name, q in wanted.items():
        assert row[name] == pytest.approx(slow.quantile(values, q), rel=sketch.ERROR + 1e-9)
