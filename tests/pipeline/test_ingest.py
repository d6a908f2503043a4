# SPDX-License-Identifier: MIT
"""Captures become tables, each message once, whatever is uploaded how often and dies when."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kbus import Announcement
from kbus.pipeline.ingest import Ingested, NotHealthy, ingest
from kbus.pipeline.warehouse import Entry, Part, Warehouse, WarehouseError
from tests.pipeline.captures import NOON, capture, info

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
    tables.put("notes.txt", b"no capture")
    tables.put("nothing.pcapng", capture([], info("quiet")))
    damaged = bytearray(capture(MANY, info("hit")))
    damaged[1000:1100] = bytes(100)
    tables.put("hit.pcapng", bytes(damaged))
    tables.ingest()
    rows = tables.rows("files", "path", "health", "damaged", "skipped", "received")
    health = {Path(str(path)).name: rest for path, *rest in rows}
    assert health["ok.pcapng"] == ["ok", 0, 0, 40]
    assert health["empty.pcapng"] == ["empty", 0, 0, None]
    assert health["notes.txt"] == ["not a capture", 1, 10, None]
    assert health["nothing.pcapng"] == ["ok", 0, 0, 0]
    assert health["torn.pcapng"][0] == "torn"
    assert health["hit.pcapng"][0] == "damaged" and int(str(health["hit.pcapng"][2])) >= 100


def test_strict_makes_damage_an_error_and_takes_nothing(tables: Tables) -> None:
    tables.put("ok.pcapng", capture(MANY))
    tables.put("torn.pcapng", capture(MANY, info("torn"))[:-100])
    with pytest.raises(NotHealthy, match=r"torn.pcapng is torn at byte \d+: the file ends inside a block"):
        tables.ingest(strict=True)
    assert tables.numbers() == []


def test_a_death_before_publishing_changes_nothing(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.put("a.pcapng", capture(MANY))

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Warehouse, "commit", dies)
        with pytest.raises(KeyboardInterrupt):
            tables.ingest()
    left = list((tables.warehouse.root / "messages").rglob("*.parquet"))
    assert left and tables.numbers() == []
    for path in left:
        os.utime(path, (time.time() - 2 * 86400,) * 2)
    assert tables.ingest().messages == 40
    assert tables.numbers() == [("pump", number) for number in range(1, 41)]
    assert not any(path.exists() for path in left), "what the dead step left is cleared away"


def test_of_two_writers_to_a_table_one_wins(tables: Tables) -> None:
    snapshot = tables.warehouse.snapshot()
    one, other, elsewhere = (
        Entry(step, add=[Part(table, f"{table}/{step}.parquet", 0, 0)])
        for step, table in (("one", "files"), ("other", "files"), ("elsewhere", "stretches"))
    )
    assert tables.warehouse.commit(one, snapshot) == snapshot.version + 1
    with pytest.raises(WarehouseError, match="somebody else"):
        tables.warehouse.commit(other, snapshot)
    assert tables.warehouse.commit(elsewhere, snapshot) == snapshot.version + 2
    assert sorted(tables.warehouse.snapshot().parts) == ["files/one.parquet", "stretches/elsewhere.parquet"]


def test_a_long_log_is_not_read_from_its_beginning(tables: Tables) -> None:
    tables.put("a.pcapng", capture(MANY))
    tables.ingest()
    for number in range(120):
        tables.warehouse.commit(Entry("nothing", note={"number": number}), tables.warehouse.snapshot())
    for path in sorted((tables.warehouse.root / "_log").glob("*.json"))[:90]:
        path.unlink()
    snapshot = tables.warehouse.snapshot()
    assert (snapshot.notes["nothing"]["number"], snapshot.buckets, len(snapshot.of("messages"))) == (
        119,
        2,
        1,
    )


def test_a_big_file_in_ranges(tables: Tables) -> None:
    tables.put("big.pcapng", capture(MANY * 10))
    done = ingest(tables.spark, tables.warehouse, [str(tables.inbox)], split=4096)
    assert done.messages == 400
    assert tables.numbers() == [("pump", number) for number in range(1, 401)]
    stretches = sorted(tables.rows("stretches", "first_seq", "last_seq", "messages"))
    assert len(stretches) > 1 and stretches[0][0] == 1 and stretches[-1][1] == 400
    assert all(later[0] == int(str(earlier[1])) + 1 for earlier, later in zip(stretches, stretches[1:]))
