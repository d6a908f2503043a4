# SPDX-License-Identifier: MIT
"""Captures that are uploaded while it runs: each message once, whatever dies when."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kbus import Announcement, Message
from kbus.pipeline.ingest.batch import ingest
from kbus.pipeline.ingest.stream import Followed, follow
from kbus.pipeline.source.streaming import FORGOTTEN
from kbus.pipeline.tables.steps import Entry
from kbus.pipeline.tables.upkeep import Tidied, tidy
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.captures import capture, info
from tests.pipeline.conftest import OPTIONS

PATIENCE = 300.0
#: Seconds after which a file does not grow any more: no machine is so slow
SETTLE = 10**6
LONG_AGO = 10**9


def many(count: int) -> list[Message]:
    return [Announcement(f"$.Count.N{number % 7}", str(number)) for number in range(count)]


def wait(what: str, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.2)


class Messages:
    """Collects the messages of batches, by the number of the batch."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[Any, ...]]] = {}

    def take(self, batch: DataFrame, number: int) -> None:
        rows = batch.select("device", "rec_seq", "corrupt").collect()
        self.batches[number] = [tuple(row) for row in rows]

    def numbers(self, device: str = "pump") -> list[int]:
        rows = [row for rows in self.batches.values() for row in rows if row[0] == device]
        return sorted(int(row[1]) for row in rows)


def run_once(spark: SparkSession, inbox: Path, checkpoint: Path, seen: Messages, **options: Any) -> None:
    stream = spark.readStream.format("kbus").options(settle=SETTLE, **options).load(str(inbox)).writeStream
    stream = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    stream.foreachBatch(seen.take).start().awaitTermination()


def test_files_that_come_grow_and_are_renamed(spark: SparkSession, tmp_path: Path) -> None:
    inbox, checkpoint, seen = tmp_path / "inbox", tmp_path / "checkpoint", Messages()
    inbox.mkdir()
    raw = capture(many(300))
    growing = inbox / "pump.pcapng.part"
    for length in (100, len(raw) // 2):
        growing.write_bytes(raw[:length])
        run_once(spark, inbox, checkpoint, seen)
    growing.write_bytes(raw)
    growing.rename(inbox / "pump.pcapng")
    (inbox / "valve.pcapng.gz").write_bytes(gzip.compress(capture(many(50), info("valve"))))
    run_once(spark, inbox, checkpoint, seen)
    run_once(spark, inbox, checkpoint, seen)
    assert seen.numbers() == list(range(1, 301))
    assert seen.numbers("valve") == list(range(1, 51))
    assert not [row for rows in seen.batches.values() for row in rows if row[2]]


def test_admission_control(spark: SparkSession, tmp_path: Path) -> None:
    inbox, seen = tmp_path / "inbox", Messages()
    inbox.mkdir()
    for number in range(6):
        (inbox / f"{number}.pcapng").write_bytes(capture(many(20), info(f"device{number}")))
    size = (inbox / "0.pcapng").stat().st_size
    run_once(spark, inbox, tmp_path / "checkpoint", seen, maxBytes=size * 2)
    assert [len(rows) for _, rows in sorted(seen.batches.items())] == [40, 40, 40]


@pytest.mark.long("test_gzip has the same without Spark")
def test_an_end_that_nobody_completes_is_damage(spark: SparkSession, tmp_path: Path) -> None:
    inbox, checkpoint, seen = tmp_path / "inbox", tmp_path / "checkpoint", Messages()
    inbox.mkdir()
    raw = capture(many(20))
    torn = inbox / "pump.pcapng"
    torn.write_bytes(raw[:-70])
    run_once(spark, inbox, checkpoint, seen)
    before = sum(len(rows) for rows in seen.batches.values())
    os.utime(torn, (LONG_AGO, LONG_AGO))
    run_once(spark, inbox, checkpoint, seen)
    damage = [row for rows in seen.batches.values() for row in rows if row[2]]
    assert len(damage) == 1 and sum(len(rows) for rows in seen.batches.values()) == before + 1
    # It is completed after all.
    torn.write_bytes(raw)
    run_once(spark, inbox, checkpoint, seen)
    assert seen.numbers() == list(range(1, 21))


def rows_of(spark: SparkSession, warehouse: Warehouse) -> list[tuple[Any, ...]]:
    columns = ("device", "rec_seq", "serial", "name", "data", "ts_ns", "mono_ns", "offset")
    return sorted(tuple(row) for row in warehouse.read(spark, "messages").select(*columns).collect())


def test_the_tables_grow_with_the_inbox(spark: SparkSession, tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    warehouse = Warehouse.create(str(tmp_path / "tables"), buckets=2)
    checkpoint = str(tmp_path / "checkpoint")
    raw = capture(many(100))
    torn = capture(many(10), info("valve"), is_sealed=False)[:-10]
    said: list[str] = []
    for turn, length in enumerate((len(raw) // 2, len(raw))):
        for name, counts in (("shorter", (20, 5)), ("longer", (5, 20))):
            recording = capture(many(counts[turn]), info(f"{name}{turn}"))
            (inbox / f"{name}.pcapng").write_bytes(recording)
        (inbox / "pump.pcapng").write_bytes(raw[:length])
        (inbox / f"copy{length}.pcapng").write_bytes(raw[: length // 2])
        notes = b"no capture" * length
        for name, content in (("notes.txt", notes), ("empty.pcapng", b""), ("torn.pcapng", torn)):
            (inbox / name).write_bytes(content)
            os.utime(inbox / name, (LONG_AGO, LONG_AGO))
        follow(spark, warehouse, str(inbox), checkpoint, 1, once=True, say=said.append)
    # Each once, though there is more of one.
    assert [each.removeprefix(f"{inbox}/") for each in said] == [
        "empty.pcapng: empty: it is empty",
        f"notes.txt: not a capture: {FORGOTTEN}",
        f"torn.pcapng: torn: {FORGOTTEN}",
    ]
    assert ingest(spark, warehouse, [str(inbox)]).messages == 0, "what a stream has taken in is known"
    messages = rows_of(spark, warehouse)
    assert [row[1] for row in messages if row[0] == "pump"] == list(range(1, 101))
    rows = warehouse.read(spark, "files").collect()
    # What `ingest` sees of files that end inside a block are rows of their own.
    files = {Path(row.path).name: row for row in rows if row.sha256 is None}
    assert files["pump.pcapng"].health == "ok"
    assert files["notes.txt"].health == "not a capture"
    counts_by_device = Counter(row[0] for row in messages)
    of_replaced = {"shorter0": 20, "shorter1": 5, "longer0": 5, "longer1": 20}
    assert counts_by_device == {"pump": 100, "valve": 9, **of_replaced}
    assert sum(row.messages for row in rows) == len(messages)
    assert len(files) == 8 and len(rows) == 10


@pytest.mark.parametrize("is_done", [False, True])
def test_a_batch_that_is_broken_off_is_given_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    """Its data is written then, and its step may be done; Spark knows of neither."""
    commit = Warehouse.commit

    def breaks_off(*words: Any) -> None:
        if is_done:
            commit(*words)
        raise RuntimeError("broken off")

    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "pump.pcapng").write_bytes(capture(many(40)))
    warehouse = Warehouse.create(str(tmp_path / "tables"), buckets=2)
    places = str(tmp_path / "inbox"), str(tmp_path / "checkpoint")
    with monkeypatch.context() as patch:
        patch.setattr(Warehouse, "commit", breaks_off)
        with pytest.raises(StreamingQueryException, match="broken off"):
            follow(spark, warehouse, *places, 1, once=True)
    assert _data_files(tmp_path / "tables")
    assert len(rows_of(spark, warehouse)) == (40 if is_done else 0)
    follow(spark, warehouse, *places, 1, once=True)
    assert [row[1] for row in rows_of(spark, warehouse)] == list(range(1, 41))


def test_tidy_may_come_in_the_middle_of_a_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both replace files of the table `files`: `tidy` small ones, and a batch the rows of files that grew."""
    commit, raw = Warehouse.commit, capture(many(300))
    inbox, tidied = tmp_path / "inbox", list[Tidied]()
    inbox.mkdir()
    warehouse = Warehouse.create(str(tmp_path / "tables"), buckets=2)
    for name, content in ("pump", raw[: len(raw) // 2]), ("valve", capture(many(50), info("valve"))):
        (inbox / f"{name}.pcapng").write_bytes(content)
        ingest(spark, warehouse, [str(inbox)])

    def tidies_before(self: Warehouse, entry: Entry, *words: Any) -> Any:
        if entry.step == "stream" and not tidied:
            tidied.append(tidy(spark, warehouse))
        return commit(self, entry, *words)

    monkeypatch.setattr(Warehouse, "commit", tidies_before)
    (inbox / "pump.pcapng").write_bytes(raw)
    done = follow(spark, warehouse, str(inbox), str(tmp_path / "checkpoint"), 1, once=True)
    assert tidied[0].before and done.batches == 1
    assert len(rows_of(spark, warehouse)) == 350
    files = warehouse.rows(warehouse.snapshot().of("files"))
    assert {row["device"]: row["messages"] for row in files} == {"pump": 300, "valve": 50}


SPARK = [part for key, value in OPTIONS.items() for part in ("--conf", f"{key}={value}")]
STREAM = ["stream", "--quiet", "--every", "1", "--master", "local[2]", *SPARK]
FOLLOW = [sys.executable, "-m", "kbus.pipeline", *STREAM]
#: The command, which is killed when it has done its first step
_KILLED = """
import os, signal, sys
from kbus.pipeline import cli
from kbus.pipeline.tables.warehouse import Warehouse

def commit(*words, commit=Warehouse.commit):
    commit(*words)
    os.killpg(0, signal.SIGKILL)

Warehouse.commit = commit
cli.main(sys.argv[1:])
"""


def test_killed_before_spark_knows_that_a_batch_is_done(spark: SparkSession, tmp_path: Path) -> None:
    inbox, tables = tmp_path / "inbox", tmp_path / "tables"
    inbox.mkdir()
    raw = capture(many(300))
    (inbox / "pump.pcapng").write_bytes(raw[: len(raw) // 2])
    command = [sys.executable, "-c", _KILLED, *STREAM, "--tables", str(tables), str(inbox)]
    done = subprocess.run(command, start_new_session=True, timeout=PATIENCE)
    assert done.returncode == -signal.SIGKILL
    assert (_last(tables / "_checkpoint" / "offsets"), _last(tables / "_checkpoint" / "commits")) == (0, -1)
    warehouse = Warehouse.open(str(tables))
    before = [row[1] for row in rows_of(spark, warehouse)]
    assert 100 < len(before) < 200
    (inbox / "pump.pcapng").write_bytes(raw)
    follow(spark, warehouse, str(inbox), str(tables / "_checkpoint"), 1, once=True)
    assert [row[1] for row in rows_of(spark, warehouse)] == list(range(1, 301))
    # Another checkpoint begins to count anew.
    shutil.rmtree(tables / "_checkpoint")
    (inbox / "valve.pcapng").write_bytes(capture(many(50), info("valve")))
    follow(spark, warehouse, str(inbox), str(tables / "_checkpoint"), 1, once=True)
    assert len(rows_of(spark, warehouse)) == 350


@pytest.mark.long("starts Spark several times")
def test_killed_in_the_middle_of_batches(spark: SparkSession, tmp_path: Path) -> None:
    """SIGKILL several times, each while a batch is being taken in; then every row is there, once."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    tables = tmp_path / "tables"
    warehouse = Warehouse.create(str(tables), buckets=2)
    raws = {f"device{number}": capture(many(20_000), info(f"device{number}")) for number in range(3)}
    commits = tables / "_checkpoint" / "commits"
    offsets = tables / "_checkpoint" / "offsets"
    command = [*FOLLOW, "--tables", str(tables), "--batch", "1000000", str(inbox)]

    killed_at = set()
    before_files: set[Path] = set()
    for number, (device, raw) in enumerate(raws.items()):
        before = _last(commits)
        with (inbox / f"{device}.pcapng.part").open("wb") as file:
            file.write(raw[: len(raw) // 2 + number])
        process = subprocess.Popen(command, start_new_session=True)
        try:
            _wait_for_batch(tables, before, before_files if number % 2 else None)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        killed_at.add((_last(offsets), _last(commits)))
        before_files = _data_files(tables)
        with (inbox / f"{device}.pcapng.part").open("ab") as file:
            file.write(raw[len(raw) // 2 + number :])
        (inbox / f"{device}.pcapng.part").rename(inbox / f"{device}.pcapng")
    assert any(offset > commit for offset, commit in killed_at), "no batch was interrupted"
    follow(spark, warehouse, str(inbox), str(tables / "_checkpoint"), 1, once=True)
    straight = Warehouse.create(str(tmp_path / "straight"), buckets=2)
    follow(spark, straight, str(inbox), str(tmp_path / "checkpoint"), 1, once=True)
    found = rows_of(spark, warehouse)
    assert len(found) == 60_000
    assert found == rows_of(spark, straight)


def _last(where: Path) -> int:
    return max((int(path.name) for path in where.glob("[0-9]*")), default=-1)


def _wait_for_batch(tables: Path, before: int, before_files: set[Path] | None) -> None:
    """Wait for a batch later than ``before`` to begin, and for its data unless ``before_files`` is None."""
    commits, offsets = tables / "_checkpoint" / "commits", tables / "_checkpoint" / "offsets"
    # A batch is begun when its offset is there, and done when its commit is.
    wait("a batch to begin", lambda: _last(offsets) > max(_last(commits), before))
    if before_files is not None:
        wait("its data", lambda: bool(_data_files(tables) - before_files))


def _data_files(tables: Path) -> set[Path]:
    return set((tables / "messages").rglob("*.parquet"))


def test_it_ends_when_it_is_told(spark: SparkSession, tmp_path: Path) -> None:
    inbox, checkpoint = tmp_path / "inbox", tmp_path / "checkpoint"
    inbox.mkdir()
    (inbox / "a.pcapng").write_bytes(capture(many(10)))
    warehouse = Warehouse.create(str(tmp_path / "tables"), buckets=2)

    done = Followed()

    def tell() -> None:
        wait("the first batch", lambda: (checkpoint / "commits" / "0").exists())
        wait("it to wait for the next one", lambda: done.is_waiting)
        os.kill(os.getpid(), signal.SIGTERM)

    telling = Thread(target=tell)
    telling.start()
    follow(spark, warehouse, str(inbox), str(checkpoint), 3600, done=done)
    telling.join()
    assert (done.batches, done.messages) == (1, 10)
    assert not spark.streams.active


@pytest.mark.long("starts Spark")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_when_it_is_told(tmp_path: Path, how: signal.Signals) -> None:
    inbox, tables = tmp_path / "inbox", tmp_path / "tables"
    inbox.mkdir()
    (inbox / "a.pcapng").write_bytes(capture(many(10)))
    command = [*FOLLOW, "--tables", str(tables), str(inbox)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    commits = tables / "_checkpoint" / "commits"
    wait("the first batch", lambda: (commits / "0").exists())
    process.send_signal(how)
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert said.startswith("stream: 1 batch, 10 messages;")


def _tell(kind: signal.Signals, default: object, after: float) -> None:
    """Send the signal so many seconds after its handler is no more the default one, which ends the tests."""
    wait("a handler", lambda: signal.getsignal(kind) is not default)
    time.sleep(after)
    os.kill(os.getpid(), kind)


@pytest.mark.long("takes time until it tells")
def test_it_can_be_told_at_any_moment(spark: SparkSession, tmp_path: Path) -> None:
    """No call to Spark is broken off, and the next ones are answered."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    warehouse = Warehouse.create(str(tmp_path / "tables"), buckets=2)
    kinds = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.getsignal(kind) for kind in kinds]
    for turn in range(4):
        (inbox / f"{turn}.pcapng").write_bytes(capture(many(10), info(f"device{turn}")))
        telling = Thread(target=_tell, args=(kinds[turn % 2], handlers[turn % 2], 0.4 + turn * 0.3))
        telling.start()
        follow(spark, warehouse, str(inbox), str(tmp_path / "checkpoint"), 1)
        telling.join()
        assert [signal.getsignal(kind) for kind in kinds] == handlers
    assert not spark.streams.active
    follow(spark, warehouse, str(inbox), str(tmp_path / "checkpoint"), 1, once=True)
    assert len(rows_of(spark, warehouse)) == 40
