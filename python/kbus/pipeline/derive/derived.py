# SPDX-License-Identifier: MIT
"""The steps after ``ingest``: tables that are made of others, as far as these have changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..decode.columns import SESSION
from ..source.session import suit
from ..tables import schemas
from ..tables.buckets import bucket_of
from ..tables.parquet import WRITTEN, all_or_none, write_batches, written
from ..tables.parts import Part, Partition
from ..tables.steps import Entry
from ..tables.tasks import together
from ..tables.warehouse import Warehouse
from . import holes
from .aggregates import AGGREGATES, Aggregate
from .conversations import WITHIN, write_conversations
from .events import events
from .stale import added, changed, stale_conversations

_PLACE = [each.name for each in schemas.PARTITIONS]
_SESSION = [each.name for each in SESSION]


@dataclass
class Derived:
    """What a step did: partitions made, rows and bytes read, and written by table."""

    partitions: int = 0
    read_rows: int = 0
    read_bytes: int = 0
    written_rows: dict[str, int] = field(default_factory=dict)
    written_bytes: int = 0

    def has_read(self, parts: Iterable[Part]) -> None:
        """Count files that were read."""
        for part in parts:
            self.read_rows += part.rows
            self.read_bytes += part.bytes

    def has_written(self, parts: Iterable[Part]) -> None:
        """Count files that were written."""
        for part in parts:
            self.written_rows[part.table] = self.written_rows.get(part.table, 0) + part.rows
            self.written_bytes += part.bytes


def make_conversations(spark: SparkSession, warehouse: Warehouse, within: int = WITHIN) -> Derived:
    """Bring ``conversations`` and ``events`` up to date. ``within`` is the time bound of an answer, in
    seconds.

    With another time bound than before, all of them are made again. Raises WarehouseError.
    """
    snapshot = warehouse.snapshot()
    note = snapshot.notes.get("conversations", {})
    if note.get("within") == within:
        new = added(warehouse.entries(note["upto"]), "stretches")
    else:
        new = snapshot.of("stretches")
    done = Derived()
    if not new:
        return done
    stretches = warehouse.rows(snapshot.of("stretches"))
    stale = stale_conversations(stretches, warehouse.rows(new), within, snapshot.buckets)
    read = snapshot.of("messages", stale.read)
    done.has_read(read)
    suit(spark, done.read_rows)
    messages = warehouse.read_parts(spark, "messages", read)
    found = holes.holes(stretches)
    # Of the others, the events are in partitions that stay.
    to_make = [hole for hole in found if _partition_of(hole, snapshot.buckets) in stale.make]
    entry = Entry("conversations", note={"upto": snapshot.version, "within": within})

    def write_events() -> list[Part]:
        found = events(messages, holes.frame(spark, to_make), snapshot.buckets)
        return _write(warehouse, "events", found if stale.make == stale.read else _only(found, stale.make))

    with all_or_none(spark, warehouse.root):
        for parts in together(
            spark,
            lambda: write_conversations(
                warehouse.root, messages, read, found, snapshot.buckets, stale.make, within
            ),
            write_events,
        ):
            entry.add += parts
    for table in ("conversations", "events"):
        entry.remove += snapshot.of(table, stale.make)
    warehouse.commit(entry, snapshot)
    done.partitions = len(stale.make)
    done.has_written(entry.add)
    return done


def _partition_of(hole: holes.Hole, buckets: int) -> Partition:
    return Partition(hole["ts"].date().isoformat(), bucket_of(hole["device"], buckets))


def make_aggregates(spark: SparkSession, warehouse: Warehouse) -> Derived:
    """Bring the aggregates up to date. Raises WarehouseError."""
    snapshot = warehouse.snapshot()
    note = snapshot.notes.get("aggregate")
    entries = warehouse.entries(note["upto"]) if note else None
    entry = Entry("aggregate", note={"upto": snapshot.version})
    done = Derived()
    all_stale: set[Partition] = set()
    sessions = warehouse.read_parts(spark, "stretches", snapshot.of("stretches")).select(*_SESSION).distinct()
    to_make = []
    for aggregate in AGGREGATES:
        if entries is None:
            stale = frozenset(part.partition for part in snapshot.of(aggregate.source) if part.partition)
        else:
            stale = changed(entries, aggregate.source)
        if not stale:
            continue
        all_stale |= stale
        read = snapshot.of(aggregate.source, stale)
        done.has_read(read)
        to_make.append(partial(_aggregate, spark, warehouse, aggregate, read, sessions))
        for table in (f"{aggregate.name}_minute", f"{aggregate.name}_hour"):
            entry.remove += snapshot.of(table, stale)
    suit(spark, done.read_rows)
    with all_or_none(spark, warehouse.root):
        for parts in together(spark, *to_make):
            entry.add += parts
    if all_stale:
        warehouse.commit(entry, snapshot)
    done.partitions = len(all_stale)
    done.has_written(entry.add)
    return done


def _aggregate(
    spark: SparkSession, warehouse: Warehouse, aggregate: Aggregate, read: list[Part], sessions: DataFrame
) -> list[Part]:
    rows = warehouse.read_parts(spark, aggregate.source, read)
    table = f"{aggregate.name}_minute"
    minutes = _write(warehouse, table, _named(aggregate.minutes(rows), sessions, table))
    table = f"{aggregate.name}_hour"
    hours = aggregate.hours(warehouse.read_parts(spark, f"{aggregate.name}_minute", minutes))
    return minutes + _write(warehouse, table, _named(hours, sessions, table))


def _named(rows: DataFrame, sessions: DataFrame, table: str) -> DataFrame:
    """Return the rows with what their session says, in the order of the table's columns."""
    names = [each.name for each in schemas.TABLES[table]]
    return rows.join(sessions, "session").select(*names, *_PLACE)


def _only(rows: DataFrame, partitions: Iterable[Partition]) -> DataFrame:
    buckets: dict[str, list[int]] = {}
    for each in sorted(partitions):
        buckets.setdefault(each.date, []).append(each.bucket)
    wanted = F.lit(False)
    for date, members in buckets.items():
        wanted = wanted | ((F.col("date") == F.to_date(F.lit(date))) & F.col("bucket").isin(members))
    return rows.where(wanted)


def _write(warehouse: Warehouse, table: str, rows: DataFrame) -> list[Part]:
    """Write rows to new files of a table, one a partition. They belong to it when a step says so."""
    rows.sparkSession.sparkContext.setJobDescription(f"writing {table}")
    function = partial(write_batches, warehouse.root, table)
    # A task has all of its partitions, one after the other.
    sorted_rows = rows.repartition(*_PLACE).sortWithinPartitions(*_PLACE)
    return written(table, sorted_rows.mapInArrow(function, schemas.spark_schema(WRITTEN)).collect())
