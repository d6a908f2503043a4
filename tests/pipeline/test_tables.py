# SPDX-License-Identifier: MIT
"""The tables as Delta tables: what other readers see, who may change them, and what is left by the dead."""

from __future__ import annotations

import json
import os
import re
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from kbus.pipeline.tables import schemas, steps
from kbus.pipeline.tables.delta import Table
from kbus.pipeline.tables.footers import stats
from kbus.pipeline.tables.parquet import Parts, write_rows
from kbus.pipeline.tables.parts import Part, Partition, WarehouseError
from kbus.pipeline.tables.steps import Entry, Steps
from kbus.pipeline.tables.upkeep import clear
from kbus.pipeline.tables.warehouse import Snapshot, Warehouse
from tests.pipeline.captures import NOON
from tests.pipeline.conftest import Fleet
from tests.pipeline.readers import counts, counts_by_spark
from tests.pipeline.warehouses import a_file, check_that_one_of_two_wins, directory, tables

__all__ = ["tables"]


def test_any_reader_of_delta_sees_each_row_once(spark: SparkSession, original: Warehouse) -> None:
    snapshot = original.snapshot()
    found = counts(original)
    assert found == {table: sum(part.rows for part in snapshot.of(table)) for table in schemas.TABLES}
    assert found == counts_by_spark(spark, original)
    assert (found["messages"], found["conversations"]) == (180, 90)
    written = sum(
        pq.read_metadata(path).num_rows for path in (directory(original) / "conversations").rglob("*.parquet")
    )
    assert written > 90, "the superseded rows are there still"


@pytest.mark.parametrize("table", schemas.TABLES)
def test_filters_leave_nothing_out(whole_fleet: Fleet, table: str) -> None:
    """Whatever the log says, or does not say, of the values of a column."""
    found = DeltaTable(directory(whole_fleet.warehouse) / table).to_pyarrow_dataset()
    for name, column in zip(found.schema.names, found.to_table().columns):
        field = pc.field(name)
        assert found.count_rows(filter=field.is_null()) == column.null_count, name
        values = [] if pa.types.is_list(column.type) else column.drop_null()[:1]
        for value in values:
            assert found.count_rows(filter=field == value) == column.to_pylist().count(value.as_py()), name


def test_other_readers_see_the_columns(original: Warehouse) -> None:
    for table, columns in schemas.TABLES.items():
        names = [each.name for each in columns]
        ours = original.rows(original.snapshot().of(table))
        theirs = polars.read_delta(str(directory(original) / table)).select(names).to_dicts()
        assert sorted(map(repr, ours)) == sorted(map(repr, theirs))


def test_files_can_be_left_out_by_what_the_log_says(original: Warehouse) -> None:
    sessions = {row["session"] for row in original.rows(original.snapshot().of("messages"), ["session"])}
    actions = pa.table(DeltaTable(directory(original) / "messages").get_add_actions(flatten=True)).to_pylist()
    assert {(each["min.session"], each["max.session"]) for each in actions} == {
        (each, each) for each in sessions
    }
    assert {each["max.name"] for each in actions} == {"$.Ask"}
    first = datetime.fromtimestamp(NOON // 10**9, timezone.utc)
    assert min(each["min.ts"] for each in actions) == first
    assert sum(each["null_count.name"] for each in actions) == 0


def test_statistics_are_bounds(tmp_path: Path) -> None:
    """Times are told in milliseconds, and of long texts the beginning."""
    noon = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
    times = [noon + timedelta(microseconds=1), noon + timedelta(microseconds=1001)]
    columns = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "name": ["a" * 65, "b" * 65], "n": [None, 3]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", store_schema=False)
    assert json.loads(stats(pq.read_metadata(tmp_path / "a.parquet"))) == {
        "numRecords": 2,
        "minValues": {"ts": "2026-03-01T12:00:00.000Z", "name": "a" * 64, "n": 3},
        "maxValues": {"ts": "2026-03-01T12:00:00.002Z", "name": "b" * 64 + "\U0010ffff", "n": 3},
        "nullCount": {"ts": 0, "name": 0, "n": 1},
    }


@pytest.fixture
def empty(tmp_path: Path) -> Warehouse:
    return Warehouse.create(str(tmp_path / "tables"), buckets=2)


def test_of_two_writers_to_a_table_one_wins(empty: Warehouse) -> None:
    snapshot = empty.snapshot()
    one, other, elsewhere = (
        Entry(step, a_file(empty, table))
        for step, table in (("one", "files"), ("other", "files"), ("elsewhere", "stretches"))
    )
    assert empty.commit(one, snapshot).version == snapshot.version + 1
    with pytest.raises(WarehouseError, match="somebody else"):
        empty.commit(other, snapshot)
    assert empty.commit(elsewhere, snapshot).version == snapshot.version + 2
    now = empty.snapshot()
    assert (now.of("files"), now.of("stretches")) == (one.add, elsewhere.add)


def test_a_writer_that_is_late_by_a_moment_loses(empty: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    check_that_one_of_two_wins(empty, monkeypatch)


def test_a_step_is_done_whose_publication_is_not_told(
    empty: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a store's answer is lost, and it refuses the second try."""
    publish = Steps.publish
    monkeypatch.setattr(Steps, "publish", lambda steps, entry: publish(steps, entry) and False)
    one, snapshot = Entry("one", a_file(empty, "files")), empty.snapshot()
    now = empty.commit(one, snapshot)
    assert (now.of("files"), now.version) == (one.add, snapshot.version + 1)


class Death(BaseException):
    """What ends a program in the middle."""


@pytest.mark.parametrize("commits", range(3))
def test_a_step_that_dies_between_two_tables_is_done_by_the_next(
    empty: Warehouse, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    step = Entry("one", [*a_file(empty, "files"), *a_file(empty, "stretches")], note={"said": 1})
    dies_at(monkeypatch, commits)
    with pytest.raises(Death):
        empty.commit(step, empty.snapshot())
    monkeypatch.undo()
    # The first commit makes it happen.
    happened = commits > 0
    now = empty.snapshot()
    assert (len(now.of("files")), len(now.of("stretches"))) == (happened, happened)
    assert now.notes == ({"one": {"said": 1}} if happened else {})
    again = empty.commit(Entry("two", a_file(empty, "files")), now)
    assert len(again.of("files")) == happened + 1
    assert counts(empty)["files"] == happened + 1


def dies_at(patch: pytest.MonkeyPatch, commits: int) -> None:
    """Have a program die after so many commits to Delta tables."""
    done = [0]
    commit = Table.commit

    def counted(table: Table, *words: Any, **names: Any) -> bool:
        if done[0] == commits:
            raise Death
        done[0] += 1
        return commit(table, *words, **names)

    patch.setattr(Table, "commit", counted)


def test_what_a_step_has_written_is_needed_though_it_died(
    empty: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = a_file(empty, "files")
    dies_at(monkeypatch, 1)
    with pytest.raises(Death):
        empty.commit(Entry("one", made), empty.snapshot())
    monkeypatch.undo()
    os.utime(directory(empty) / made[0].path, (1, 1))
    clear(empty)
    assert counts(empty)["files"] == 1


def test_a_step_that_both_finish_is_done_once(empty: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    dies_at(monkeypatch, 1)
    with pytest.raises(Death):
        empty.commit(Entry("one", a_file(empty, "files")), empty.snapshot())
    monkeypatch.undo()
    commit = Table.commit

    def second(table: Table, *words: Any, **names: Any) -> bool:
        # Whoever is quicker comes between reading the log and adding to it.
        monkeypatch.setattr(Table, "commit", commit)
        Warehouse(str(directory(empty))).snapshot()
        return commit(table, *words, **names)

    monkeypatch.setattr(Table, "commit", second)
    assert len(empty.snapshot().of("files")) == 1
    assert counts(empty)["files"] == 1


def test_files_that_were_not_seen_are_not_published(empty: Warehouse) -> None:
    """A task on another machine has written them where this one does not see them, or they are cut."""
    snapshot = empty.snapshot()
    (part,) = a_file(empty, "files")
    path = directory(empty) / part.path
    raw = path.read_bytes()
    for remains, says in ((None, "is missing"), (raw[:-1], "has [0-9,]+ bytes of")):
        path.unlink() if remains is None else path.write_bytes(remains)
        with pytest.raises(WarehouseError, match=f"{part.path} {says}.* all machines must see the tables"):
            empty.commit(Entry("one", [part]), snapshot)
    path.write_bytes(bytes(len(raw)))
    with pytest.raises(WarehouseError, match=f"{part.path} is no Parquet file that is whole"):
        empty.commit(Entry("one", [part]), snapshot)
    assert empty.snapshot().of("files") == []


def test_a_long_log_is_not_read_from_its_beginning(empty: Warehouse) -> None:
    steps = directory(empty) / "steps"
    # Else it would have to be ten times as long.
    DeltaTable(steps).alter.set_table_properties({"delta.checkpointInterval": "10"})
    for number in range(15):
        now = empty.commit(Entry("nothing", note={"number": number}), empty.snapshot())
    for path in sorted((steps / "_delta_log").glob("*.json"))[:9]:
        path.unlink()
    assert empty.snapshot().notes == now.notes == {"nothing": {"number": 14}}


def test_of_two_formats_one_is_known(empty: Warehouse) -> None:
    steps = DeltaTable(directory(empty) / "steps")
    steps.alter.set_table_properties({"kbus.format": "3"}, raise_if_not_exists=False)
    with pytest.raises(WarehouseError, match="are of format 3, and this program knows format 2"):
        Warehouse.open(str(directory(empty)))


def test_what_was_read_stays_while_others_write(spark: SparkSession, tables: Warehouse) -> None:
    before: Snapshot = tables.snapshot()
    frame = tables.read_parts(spark, "messages", before.of("messages"))
    tables.commit(Entry("nothing", a_file(tables, "files")), tables.snapshot())
    assert (len(before.of("files")), frame.count()) == (3, 180)


def test_a_table_that_first_changes_after_old_steps_are_forgotten(
    empty: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        empty.commit(Entry("one", a_file(empty, "files")), empty.snapshot())
    monkeypatch.setattr(steps, "_KEPT", timedelta(0))
    Steps(directory(empty)).shorten(2)
    assert len(empty.entries(1)) == 1
    with pytest.raises(WarehouseError, match=r"what step 0 did to the tables in .* is forgotten"):
        empty.entries(-1)
    now = empty.commit(Entry("two", a_file(empty, "stretches")), empty.snapshot())
    assert (len(now.of("stretches")), now.version) == (1, 3)


def test_two_may_make_them_at_the_same_time(tmp_path: Path) -> None:
    root = str(tmp_path / "tables")
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(Warehouse.create, [root] * 4))
    for number, each in enumerate(made):
        each.commit(Entry("one", a_file(each, "files")), each.snapshot())
        assert len(made[0].snapshot().of("files")) == number + 1


def test_what_is_relied_on_is_on_the_disk(empty: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """First the data and the directory it is in, then what makes it happen, then the table's own log."""
    synced: list[str] = []
    fsync = os.fsync

    def told(descriptor: int) -> None:
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), directory(empty)))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", told)
    (part,) = a_file(empty, "files")
    assert synced == [part.path, "files", "."]
    empty.commit(Entry("one", [part]), empty.snapshot())
    wanted = [f"{table}/_delta_log/{1:020}.json" for table in ("steps", "files")]
    assert [path for path in synced if path in wanted] == wanted
    assert synced.index("steps/_delta_log") < synced.index(wanted[1]) < synced.index("files/_delta_log")


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """A file of this process can have so many bytes. Python ignores the signal that tells of more."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


def two_partitions(root: Path) -> list[Part]:
    with Parts(root, "messages") as parts:
        for bucket, count in enumerate((10, 1000)):
            rows = {"rec_seq": pa.array(range(count)), "data": pa.array(os.urandom(90) for _ in range(count))}
            parts.add(Partition("2026-03-01", bucket), rows)
        return parts.close()


def a_thousand_rows(root: Path) -> list[Part]:
    names = [each.name for each in schemas.TABLES["files"]]
    return write_rows(root, "files", [{**dict.fromkeys(names), "size": number} for number in range(1000)])


@pytest.mark.parametrize("write", [two_partitions, a_thousand_rows])
def test_what_can_not_be_written_is_told_with_the_place_and_deleted(
    tmp_path: Path, write: Callable[[Path], list[Part]]
) -> None:
    with room_for(5000), pytest.raises(WarehouseError) as told:
        write(tmp_path)
    assert re.fullmatch(
        rf"can't write {tmp_path}/(messages|files)/\S+\.parquet: File too large", str(told.value)
    )
    assert not list(tmp_path.rglob("*.parquet"))
    assert sum(part.rows for part in write(tmp_path)) >= 1000


def test_tables_are_where_they_were_when_the_current_directory_changes(
    tables: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory(tables).parent)
    found = Warehouse.open(directory(tables).name)
    monkeypatch.chdir(tmp_path / "tables")
    assert found.snapshot().of("messages") == tables.snapshot().of("messages")
    assert len(found.rows(found.snapshot().of("messages"))) == 180
