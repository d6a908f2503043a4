# SPDX-License-Identifier: MIT
"""Which partitions must be made again because of what is new."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from .buckets import bucket_column
from .warehouse import Entry, Partition


class Stale(NamedTuple):
    """Partitions to make again, and those that must be read for it."""

    make: frozenset[Partition]
    read: frozenset[Partition]


def stale_conversations(stretches: DataFrame, new: DataFrame, within: int, buckets: int) -> Stale:
    """Return what new stretches change in conversations and events, given all stretches.

    A request may be answered in a stretch that begins ``within`` seconds after its own ends, and a hole lies
    between a stretch and the next one of the session. Which dates that concerns is what the stretches say,
    and not what follows from these times: a clock may have been set in between.
    """
    bound = within * 1_000_000_000
    order = Window.partitionBy("session").orderBy("first_mono_ns", "first_lost", "begin")
    numbered = stretches.select(
        "session", "device", "capture", "begin", "first_mono_ns", "last_mono_ns", "dates",
        F.row_number().over(order).alias("number"),
    ).cache()  # fmt: skip
    try:
        fresh = numbered.join(new.select("session", "capture", "begin"), ["session", "capture", "begin"])
        concerned = (
            numbered.alias("all").join(_near(fresh, bound), "session").where(_is_near()).select("all.*")
        )
        make = _partitions(concerned, buckets)
        if not make:
            return Stale(make, make)
        dates = [each.date for each in make]
        in_made = numbered.where(
            F.arrays_overlap("dates", F.array(*(F.to_date(F.lit(date)) for date in set(dates))))
        )
        needed = (
            numbered.alias("all").join(_near(in_made, bound), "session").where(_is_near()).select("all.*")
        )
        return Stale(make, make | _partitions(needed, buckets))
    finally:
        numbered.unpersist()


def _near(stretches: DataFrame, bound: int) -> DataFrame:
    return stretches.select(
        "session",
        (F.col("first_mono_ns") - bound).alias("from_ns"),
        (F.col("last_mono_ns") + bound).alias("to_ns"),
        F.col("number").alias("of"),
    )


def _is_near() -> Column:
    in_time = (F.col("all.last_mono_ns") >= F.col("from_ns")) & (F.col("all.first_mono_ns") <= F.col("to_ns"))
    return in_time | (F.col("all.number") == F.col("of") - 1)


def _partitions(stretches: DataFrame, buckets: int) -> frozenset[Partition]:
    bucket = bucket_column(F.col("device"), buckets).alias("bucket")
    rows = stretches.select(F.explode("dates").alias("date"), bucket).distinct().collect()
    return frozenset(Partition(row.date.isoformat(), row.bucket) for row in rows)


def changed(entries: Iterable[Entry], table: str) -> frozenset[Partition]:
    """Return the partitions of a table in which these entries have added or removed files."""
    found = {
        part.partition for entry in entries for part in entry.add if part.table == table and part.partition
    }
    removed = (path.split("/") for entry in entries for path in entry.remove)
    return frozenset(
        found | {Partition(date[5:], int(bucket[7:])) for name, date, bucket, _ in removed if name == table}
    )
