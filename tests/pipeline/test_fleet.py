# SPDX-License-Identifier: MIT
"""The pipeline on a fleet equals the truth about that fleet."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from kbus import Message, MessageId
from kbus import _abi as abi
from kbus.pipeline.derive import derived
from kbus.pipeline.ingest.batch import ingest
from kbus.pipeline.report.answers import repliers
from kbus.pipeline.report.scope import Scope, Tables
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline import fleet
from tests.pipeline.captures import NOON, capture
from tests.pipeline.conftest import Fleet
from tests.pipeline.warehouses import take_in


def rows(frame: DataFrame, *columns: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.select(*columns).collect()), key=str)


def in_order(truth: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in truth), key=str)


def test_every_message_that_is_in_a_file(whole_fleet: Fleet) -> None:
    found = rows(whole_fleet.tables["messages"], "device", "boot", "load", "name", "serial", "rec_seq")
    assert found == in_order(list(whole_fleet.truth.messages))


def test_every_conversation_and_what_became_of_it(whole_fleet: Fleet) -> None:
    columns = ("device", "boot", "serial", "name", "outcome", "status", "latency_ns")
    assert rows(whole_fleet.tables["conversations"], *columns) == in_order(
        list(whole_fleet.truth.conversations)
    )
    assert {row[4] for row in whole_fleet.truth.conversations} == {
        "reply",
        "failed",
        "status",
        "unanswered",
        "incomplete",
        "orphan",
    }


def test_every_event(whole_fleet: Fleet) -> None:
    columns = ("device", "boot", "kind", "ksock", "name", "count")
    assert rows(whole_fleet.tables["events"], *columns) == in_order(list(whole_fleet.truth.events))


def test_how_long_repliers_were_there(whole_fleet: Fleet) -> None:
    spans: dict[tuple[str, str], list[int]] = defaultdict(list)
    boots = {}
    for row in whole_fleet.tables["stretches"].collect():
        spans[row.device, row.boot] += [row.first_mono_ns, row.last_mono_ns]
        boots[row.session] = row.boot
    found = {
        (row.device, boots[row.session], row.name): row.bound
        for row in repliers(whole_fleet.tables).collect()
    }
    expected = {
        (device, boot, name): bound / (max(spans[device, boot]) - min(spans[device, boot]))
        for (device, boot, name), bound in whole_fleet.truth.bound.items()
    }
    assert found == pytest.approx(expected)
    assert any(share < 0.95 for share in found.values())


def test_piece_by_piece_and_late_files_give_the_same(
    whole_fleet: Fleet, spark: SparkSession, tmp_path: Path
) -> None:
    """Files that come late, in any order, in several runs: nothing is different in the end."""
    warehouse = Warehouse.create(str(tmp_path / "tables"), buckets=2)
    files = sorted(whole_fleet.captures.iterdir(), reverse=True)
    for some in (files[::2], files[1::2]):
        take_in(spark, warehouse, *some)
    again = Tables(spark, warehouse, Scope())
    for table in (
        "messages",
        "conversations",
        "events",
        "traffic_hour",
        "latency_minute",
        "outcomes_hour",
        "incidents_minute",
    ):
        columns = [name for name in again[table].columns if name not in ("capture", "offset")]
        assert rows(again[table], *columns) == rows(whole_fleet.tables[table], *columns), table


def test_what_is_read_only_for_its_neighbours_is_not_made_again(spark: SparkSession, tmp_path: Path) -> None:
    """The day before comes late: that and this one are made again, for which the day after is read."""
    midnight, begin_mono = NOON + 43_200 * fleet.SECOND, 10**15
    pieces = (("before", -30, 1), ("this", 1, 86_397), ("after", 86_401, 1))
    for number, (name, begin, step) in enumerate(pieces):
        asked = [
            Message("$.A", flags=abi.BIT_WANT_A_REPLY, from_=3, id=MessageId(0, 1 + 2 * number + each))
            for each in range(2)
        ]
        since = begin * fleet.SECOND
        raw = capture(
            asked,
            begin_ns=midnight + since,
            step_ns=step * fleet.SECOND,
            first=1 + 2 * number,
            mono_ns=begin_mono + since,
        )
        (tmp_path / f"{name}.pcapng").write_bytes(raw)
    warehouse = Warehouse.create(str(tmp_path / "tables"), buckets=1)
    for some in (("this", "after"), ("before",)):
        ingest(spark, warehouse, [str(tmp_path / f"{name}.pcapng") for name in some])
        done = derived.make_conversations(spark, warehouse)
        assert done.partitions == 2
    found = rows(Tables(spark, warehouse, Scope())["conversations"], "serial")
    assert found == [(serial,) for serial in range(1, 7)]


def test_nothing_new_is_nothing_to_do(whole_fleet: Fleet, spark: SparkSession) -> None:
    version = whole_fleet.warehouse.snapshot().version
    assert ingest(spark, whole_fleet.warehouse, [str(whole_fleet.captures)]).files == 0
    assert derived.make_conversations(spark, whole_fleet.warehouse).partitions == 0
    assert derived.make_aggregates(spark, whole_fleet.warehouse).partitions == 0
    assert whole_fleet.warehouse.snapshot().version == version


def test_a_run_touches_only_what_is_new(whole_fleet: Fleet, spark: SparkSession, tmp_path: Path) -> None:
    warehouse = Warehouse.create(str(tmp_path / "tables"), buckets=2)
    ingest(spark, warehouse, [str(file) for file in whole_fleet.captures.glob("device000*")])
    derived.make_conversations(spark, warehouse)
    before = warehouse.snapshot()
    fleet.Device("late", fleet.Trouble(), 99, tmp_path, fleet.Truth()).live(
        60, NOON + 5 * 86_400 * fleet.SECOND
    )
    ingest(spark, warehouse, [str(file) for file in tmp_path.glob("late*")])
    done = derived.make_conversations(spark, warehouse)
    assert done.partitions == 1
    after = warehouse.snapshot()
    assert {part.path for part in before.of("conversations")} <= {
        part.path for part in after.of("conversations")
    }
