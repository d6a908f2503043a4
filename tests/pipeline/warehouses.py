# SPDX-License-Identifier: MIT
"""Small tables for tests."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kbus import Message, MessageId, Reply, Request
from kbus.pipeline.derive import derived
from kbus.pipeline.ingest.batch import ingest
from kbus.pipeline.tables import schemas
from kbus.pipeline.tables.parquet import write_rows
from kbus.pipeline.tables.parts import Part, WarehouseError
from kbus.pipeline.tables.steps import Entry, Steps
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.captures import capture, info


def asked(serials: range) -> list[Message]:
    """Requests, and the replies to them."""
    found: list[Message] = []
    for serial in serials:
        request = Request("$.Ask", id=MessageId(0, 2 * serial))
        request.from_ = 7
        found += [request, Reply("$.Ask", b"", to=7, in_reply_to=request.id, id=MessageId(0, 2 * serial + 1))]
    return found


def directory(warehouse: Warehouse) -> Path:
    """Where tables are that are in no store."""
    assert isinstance(warehouse.root, Path)
    return warehouse.root


def a_file(warehouse: Warehouse, table: str) -> list[Part]:
    row: dict[str, Any] = dict.fromkeys(each.name for each in schemas.TABLES[table])
    return write_rows(warehouse.root, table, [row])


def take_in(spark: SparkSession, warehouse: Warehouse, *captures: Path) -> None:
    """Make all tables of these recordings too."""
    ingest(spark, warehouse, [str(path) for path in captures])
    derived.make_conversations(spark, warehouse)
    derived.make_aggregates(spark, warehouse)


def of_many_steps(spark: SparkSession, where: Path) -> Warehouse:
    """Tables of recordings that came one by one: many small files, some of them superseded."""
    warehouse = Warehouse.create(str(where / "tables"), buckets=2)
    for number in range(3):
        path = where / f"{number}.pcapng"
        path.write_bytes(capture(asked(range(1, 31)), info(f"device{number}")))
        ingest(spark, warehouse, [str(path)])
        if number != 1:
            derived.make_conversations(spark, warehouse)
            derived.make_aggregates(spark, warehouse)
    return warehouse


@pytest.fixture
def tables(original: Warehouse, tmp_path: Path) -> Warehouse:
    """A copy of the tables ``of_many_steps``."""
    shutil.copytree(directory(original), tmp_path / "tables")
    return Warehouse.open(str(tmp_path / "tables"))


def check_that_one_of_two_wins(warehouse: Warehouse, patch: pytest.MonkeyPatch) -> None:
    """Both have looked at what has been done, and then publish."""
    snapshot = warehouse.snapshot()
    one, other = (Entry(step, a_file(warehouse, "files")) for step in ("one", "other"))
    publish = Steps.publish

    def after_the_other(steps: Steps, entry: Entry) -> bool:
        patch.setattr(Steps, "publish", publish)
        warehouse.commit(other, snapshot)
        return publish(steps, entry)

    patch.setattr(Steps, "publish", after_the_other)
    with pytest.raises(WarehouseError, match="somebody else"):
        warehouse.commit(one, snapshot)
    assert warehouse.snapshot().of("files") == other.add


Rows = dict[str, Counter[str]]


def rows(warehouse: Warehouse) -> Rows:
    snapshot = warehouse.snapshot()
    return {table: Counter(map(repr, warehouse.rows(snapshot.of(table)))) for table in schemas.TABLES}
