# SPDX-License-Identifier: MIT
"""Tables are kept in shape: few files, and none that nobody needs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import polars
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from kbus.pipeline.derive import derived
from kbus.pipeline.ingest.batch import ingest
from kbus.pipeline.tables import schemas
from kbus.pipeline.tables.parts import WarehouseError
from kbus.pipeline.tables.steps import Entry
from kbus.pipeline.tables.upkeep import clear, tidy
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.captures import capture, info
from tests.pipeline.readers import counts, counts_by_spark
from tests.pipeline.warehouses import a_file, asked, directory, rows, tables

__all__ = ["tables"]

HOUR = 3600
WEEK = 7 * 24 * HOUR


def test_small_files_are_put_together(spark: SparkSession, tables: Warehouse) -> None:
    before = rows(tables)
    done = tidy(spark, tables)
    now = tables.snapshot()
    partitions = {table: {part.partition for part in now.of(table)} for table in schemas.TABLES}
    assert {table: len(now.of(table)) for table in schemas.TABLES} == {
        table: len(found) for table, found in partitions.items()
    }
    assert done.before > done.after > 0
    assert rows(tables) == before
    found = counts(tables)
    assert found == counts_by_spark(spark, tables)
    assert found == {table: sum(each.values()) for table, each in before.items()}
    again = tidy(spark, tables)
    assert (again.before, again.after) == (0, 0)


def test_putting_together_makes_nothing_new(spark: SparkSession, tables: Warehouse) -> None:
    tidy(spark, tables)
    assert derived.make_conversations(spark, tables).partitions == 0
    assert derived.make_aggregates(spark, tables).partitions == 0


def test_what_comes_after_it_is_made(spark: SparkSession, tables: Warehouse, tmp_path: Path) -> None:
    tidy(spark, tables)
    (tmp_path / "late.pcapng").write_bytes(capture(asked(range(1, 11)), info("late")))
    ingest(spark, tables, [str(tmp_path / "late.pcapng")])
    assert derived.make_conversations(spark, tables).partitions == 1
    assert sum(rows(tables)["conversations"].values()) == 3 * 30 + 10


def test_putting_together_beside_others(spark: SparkSession, tables: Warehouse) -> None:
    """What only adds goes on; of two that replace the same file, the later one fails."""
    snapshot = tables.snapshot()
    adds = Entry("adds", a_file(tables, "files"))
    replaces = Entry("replaces", a_file(tables, "files"), snapshot.of("files")[:1])
    tidy(spark, tables)
    assert len(tables.commit(adds, snapshot).of("files")) == 2
    with pytest.raises(WarehouseError, match="somebody else"):
        tables.commit(replaces, snapshot)


def test_many_steps_are_a_few_files(spark: SparkSession, tables: Warehouse) -> None:
    steps = directory(tables) / "steps"
    assert len(DeltaTable(steps).file_uris()) == tables.snapshot().version + 1
    tidy(spark, tables)
    assert len(DeltaTable(steps).file_uris()) == 1
    found = polars.read_delta(str(steps)).sort("step")
    assert found["step"].to_list() == list(range(tables.snapshot().version + 1))
    assert found["name"].to_list()[:3] == ["ingest", "conversations", "aggregate"]


def test_what_nobody_needs_is_deleted(tables: Warehouse) -> None:
    """What was never added, or replaced, a week ago; not what a reader or a step may have still."""
    needed = {part.path for table in schemas.TABLES for part in tables.snapshot().of(table)}
    found = {
        str(path.relative_to(directory(tables))) for path in directory(tables).glob("*/date=*/*/*.parquet")
    }
    replaced = sorted(found - needed)
    assert replaced, "conversations were made several times"
    old, young = (
        directory(tables) / part.path for part in (*a_file(tables, "files"), *a_file(tables, "files"))
    )
    for path, age in ((old, WEEK + HOUR), (young, WEEK - HOUR)):
        os.utime(path, (time.time() - age,) * 2)
    assert clear(tables) == 1
    assert not old.exists() and young.exists()
    for table in schemas.TABLES:
        setting = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
        DeltaTable(directory(tables) / table).alter.set_table_properties(setting)
    # Aggregates of partitions that did not change stay.
    assert clear(tables) == len(replaced) + 1
    assert not young.exists()
    assert sum(rows(tables)["conversations"].values()) == 90
