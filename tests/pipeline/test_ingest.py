# SPDX-License-Identifier: MIT
"""Captures become tables, each message once, whatever is uploaded how often and dies when."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kbus import Announcement
from kbus.capture import Reader
from kbus.pipeline.ingest.batch import Ingested, NotHealthy, ingest
from kbus.pipeline.tables import parquet, tasks
from kbus.pipeline.tables.parts import Partition
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.captures import NOON, capture, info
from tests.pipeline.warehouses import directory

DAY = 86_400 * 10**9
MANY = [Announcement("$.Count", str(number)) for number in range(40)]


class Tables:
    """Tables in a temporary directory, and an inbox."""

    def __init__(self, spark: SparkSession, where: Path) -> None:
        self.spark = spark
        self.warehouse = Warehouse.create(str(where / "tables"), buckets=2)
        self.inbox = where / "inbox"
        self.inbox.mkdir()

    def put(self, name: str, raw: bytes) -> None:
        (self.inbox / name).write_bytes(raw)

    def ingest(self, strict: bool = False) -> Ingested:
        return ingest(self.spark, self.warehouse, [str(self.inbox)], strict)

    def rows(self, table: str, *columns: str) -> list[tuple[object, ...]]:
        frame = self.warehouse.read(self.spark, table)
        return sorted((tuple(row) for row in frame.select(*columns).collect()), key=str)

    def numbers(self) -> list[tuple[object, ...]]:
        return sorted(self.rows("messages", "device", "rec_seq"))


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    return Tables(spark, tmp_path)


def test_the_same_files_twice_and_under_another_name(tables: Tables) -> None:
    tables.put("a.pcapng", capture(MANY))
    first = tables.ingest()
    assert (first.files, first.messages, first.known_files) == (1, 40, 0)
    again = tables.ingest()
    assert (again.files, again.messages, again.known_files) == (0, 0, 1)
    tables.put("renamed.pcapng", capture(MANY))
    again = tables.ingest()
    assert (again.files, again.messages, again.known_files) == (0, 0, 2)
    assert tables.numbers() == [("pump", number) for number in range(1, 41)]
    assert len(tables.rows("files", "path")) == 1


def test_overlapping_uploads(tables: Tables) -> None:
    whole = capture(MANY)
    tables.put("a.pcapng.part", whole[: len(whole) // 2])
    assert 0 < tables.ingest().messages < 40
    tables.put("a.pcapng", whole)
    assert tables.ingest().known_messages > 0
    tables.put("b.pcapng", whole[: len(whole) // 3])
    tables.put("both.pcapng", capture(MANY, info("valve")) + whole)
    done = tables.ingest()
    assert (done.messages, done.health["torn"]) == (40, 1)
    assert tables.numbers() == [(device, number) for device in ("pump", "valve") for number in range(1, 41)]


def test_two_uploads_of_a_recording_in_one_run(tables: Tables) -> None:
    whole = capture(MANY)
    tables.put("a.pcapng", whole[: len(whole) // 2])
    tables.put("b.pcapng", whole)
    assert tables.ingest().messages == 40
    assert tables.numbers() == [("pump", number) for number in range(1, 41)]


def test_a_whole_upload_fills_the_holes_of_a_damaged_one(tables: Tables) -> None:
    whole = bytearray(capture(MANY))
    whole[len(whole) // 2] ^= 1
    tables.put("a.pcapng", bytes(whole))
    done = tables.ingest()
    assert (done.messages, done.damaged, done.health["damaged"]) == (39, 1, 1)
    tables.put("b.pcapng", capture(MANY))
    assert tables.ingest().messages == 1
    assert tables.numbers() == [("pump", number) for number in range(1, 41)]


def test_partitions_by_date_and_bucket(tables: Tables) -> None:
    devices = ("pump", "valve", "fan", "lamp")
    for device in devices:
        raw = capture(MANY, info(device), begin_ns=NOON + DAY // 2 - 20 * 10**6)
        tables.put(f"{device}.pcapng", raw)
    tables.ingest()
    dates = {(str(date), device) for date, device in tables.rows("messages", "date", "device")}
    assert dates == {(date, device) for date in ("2026-03-01", "2026-03-02") for device in devices}
    parts = tables.warehouse.snapshot().of("messages")
    assert {part.partition for part in parts} == {
        (date, bucket) for date in ("2026-03-01", "2026-03-02") for bucket in (0, 1)
    }
    assert all(
        part.path.startswith(f"messages/date={part.partition[0]}/bucket=") for part in parts if part.partition
    )


def test_the_health_of_files(tables: Tables) -> None:
    whole = capture(MANY)
    tables.put("ok.pcapng", whole)
    tables.put("torn.pcapng", capture(MANY, info("torn"))[:-100])
    tables.put("empty.pcapng", b"")
    tables.put("empty.pcapng.gz", gzip.compress(b""))
    tables.put("notes.txt", b"no capture")
    tables.put("nothing.pcapng", capture([], info("quiet")))
    damaged = bytearray(capture(MANY, info("hit")))
    damaged[1000:1100] = bytes(100)
    tables.put("hit.pcapng", bytes(damaged))
    hidden = capture(MANY, info("hidden"))
    first, second, *_ = (each.facts.offset for each in Reader(io.BytesIO(hidden)))
    tables.put("hidden.pcapng", hidden[:first] + hidden[second:])
    tables.ingest()
    rows = tables.rows("files", "path", "health", "damaged", "skipped", "received")
    health = {Path(str(path)).name: rest for path, *rest in rows}
    assert health["ok.pcapng"] == ["ok", 0, 0, 40]
    assert health["empty.pcapng"] == health["empty.pcapng.gz"] == ["empty", 1, 0, None]
    assert health["notes.txt"] == ["not a capture", 1, 10, None]
    assert health["nothing.pcapng"] == ["ok", 0, 0, 0]
    assert health["hidden.pcapng"] == ["incomplete", 0, 0, 40]
    assert health["torn.pcapng"][0] == "torn"
    assert health["hit.pcapng"][0] == "damaged" and int(str(health["hit.pcapng"][2])) >= 100


def test_strict_makes_damage_an_error_and_takes_nothing(tables: Tables) -> None:
    tables.put("ok.pcapng", capture(MANY))
    tables.put("torn.pcapng", capture(MANY, info("torn"))[:-100])
    with pytest.raises(NotHealthy, match=r"torn.pcapng is torn at byte \d+: the file ends inside a block"):
        tables.ingest(strict=True)
    assert tables.numbers() == []
    assert not list(directory(tables.warehouse).glob("messages/*/*/*.parquet"))


@pytest.mark.parametrize("content", [b"", gzip.compress(b"")], ids=["file", "gzip of nothing"])
def test_what_is_empty_is_no_capture(tables: Tables, content: bytes) -> None:
    """As `kbus info`, `play` and `recover` say it, too."""
    tables.put("x.pcapng.gz", content)
    with pytest.raises(NotHealthy, match=r"x\.pcapng\.gz is empty; nothing was taken in"):
        tables.ingest(strict=True)


def test_a_big_file_in_ranges(tables: Tables) -> None:
    tables.put("big.pcapng", capture(MANY * 10))
    done = ingest(tables.spark, tables.warehouse, [str(tables.inbox)], split=4096)
    assert done.messages == 400
    assert tables.numbers() == [("pump", number) for number in range(1, 401)]
    stretches = sorted(tables.rows("stretches", "first_seq", "last_seq", "messages"))
    assert len(stretches) > 1 and stretches[0][0] == 1 and stretches[-1][1] == 400
    assert all(later[0] == int(str(earlier[1])) + 1 for earlier, later in zip(stretches, stretches[1:]))


def test_tiny_files_of_many_devices_become_few(spark: SparkSession, tmp_path: Path) -> None:
    """In whatever order they come, a task writes at most one file a partition."""
    warehouse = Warehouse.create(str(tmp_path / "tables"), buckets=16)
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for number in range(100):
        raw = capture(MANY[:2], info(f"device{number}"), begin_ns=NOON + number % 2 * DAY)
        (inbox / f"{number:03}.pcapng").write_bytes(raw)
    assert ingest(spark, warehouse, [str(inbox)]).messages == 200
    parts = warehouse.snapshot().of("messages")
    assert len(parts) == len({part.partition for part in parts}) > 16


def test_a_partition_is_written_by_few_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """Devices of a bucket go to the same task, so that several tasks do not each write to all buckets."""
    warehouse = Warehouse.create(str(tmp_path / "tables"), buckets=4)
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for number in range(40):
        (inbox / f"{number:03}.pcapng").write_bytes(capture(MANY[:5], info(f"device{number}")))
    size = sum(path.stat().st_size for path in inbox.iterdir())
    ingest(spark, warehouse, [str(inbox)], split=size // 8)
    assert len(warehouse.snapshot().of("messages")) <= 4 + 9


def test_rows_that_wait_are_bounded(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of several days is written in turns when little memory is allowed, and is the same."""
    monkeypatch.setattr(parquet, "_TOGETHER", 1000)
    places = [Partition(f"2026-03-{day:02}", 0) for day in range(1, 6)]
    with parquet.Parts(tables.warehouse.root, "messages") as parts:
        for number in range(100):
            rows = {"rec_seq": pa.array([number]), "data": pa.array([b"x" * 90])}
            parts.add(places[number % len(places)], rows)
            assert parts._waiting < 1000 + 100 * len(places)
        done = parts.close()
    assert [part.partition for part in sorted(done, key=lambda each: each.path)] == places
    assert all(part.rows == 20 for part in done)


def test_tasks_have_limits() -> None:
    weights = [5, 5, 11, 1, 1, 1, 1, 9, 2]
    groups = tasks.grouped(weights, lambda each: each, limit=10, most=3)
    assert groups == [[5, 5], [11], [1, 1, 1], [1, 9], [2]]
