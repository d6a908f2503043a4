# SPDX-License-Identifier: MIT
"""Requests and their answers: the table ``conversations``, as ``matching`` makes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..tables import schemas
from ..tables.parquet import WRITTEN, Parts, by_partition, told, written
from ..tables.parts import Part, Partition
from ..tables.stores import Store
from . import matching
from .holes import Hole

#: How long after a request its answer may come, in seconds
WITHIN = 60
#: Messages whose requests and answers a task has in memory together, about
_TOGETHER = 2_000_000
#: Messages for which it pays to have a task
_PAYS = 1_000
_KEY = ("session", "id", "requester")


def write_conversations(
    root: Store,
    messages: DataFrame,
    read: Sequence[Part],
    holes: Iterable[Hole],
    buckets: int,
    make: frozenset[Partition],
    within: int = WITHIN,
) -> list[Part]:
    """Write the conversations in these messages to new files, as far as they are in partitions to ``make``.

    ``root`` is where the tables are, ``messages`` are what is in the files ``read``, ``holes`` those
    of all recordings, ``within`` is the time bound in seconds. The files belong to the table when a step says
    so.
    """
    known = matching.sessions(holes, buckets)
    context = messages.sparkSession.sparkContext
    counts = [0] * buckets
    for part in read:
        assert part.partition is not None
        counts[part.partition.bucket] += part.rows
    found = places(counts, context.defaultParallelism)
    tasks = max(each.first + each.tasks for each in found)
    rows = _requests_and_answers(messages, _task_of(found)).repartitionById(tasks, "task").drop("task")
    function = partial(_match_and_write, root, known, within * 1_000_000_000, make)
    context.setJobDescription("writing conversations")
    made = rows.mapInArrow(function, schemas.spark_schema(WRITTEN)).collect()
    return written("conversations", made)


class Place(NamedTuple):
    """The tasks that a bucket of devices is for: the first, and how many."""

    first: int
    tasks: int


def places(rows: Sequence[int], at_once: int) -> list[Place]:
    """Return which tasks buckets with so many messages are for, of which ``at_once`` run together.

    A task has whole buckets, so that it writes few files, or a part of one that is too large for it.
    """
    most = min(max(-(-sum(rows) // at_once), _PAYS), _TOGETHER)
    found = []
    tasks, room = 1, most
    for count in rows:
        if count <= room:
            found.append(Place(tasks - 1, 1))
            room -= count
        else:
            # A task that has nothing yet is the first of them.
            first = tasks - (room == most)
            more = -(-count // most)
            found.append(Place(first, more))
            tasks = first + more
            room = most - count if more == 1 else 0
    return found


def _task_of(found: Sequence[Place]) -> Column:
    def of_bucket(numbers: list[int]) -> Column:
        return F.element_at(F.lit(numbers), F.col("bucket") + 1)

    part = F.pmod(F.hash(*_KEY), of_bucket([each.tasks for each in found]))
    return of_bucket([each.first for each in found]) + part


def _requests_and_answers(messages: DataFrame, task: Column) -> DataFrame:
    """Return the rows that ``matching.ROWS`` describes, with the number of their ``task``."""
    is_answer = (F.col("reply_network") != 0) | (F.col("reply_serial") != 0)

    def id_of(network: str, serial: str) -> Column:
        return F.shiftleft(network, 32).bitwiseOR(F.col(serial))

    return (
        messages.where(is_answer | F.col("want_a_reply"))
        .select(
            "bucket",
            "session",
            F.when(is_answer, id_of("reply_network", "reply_serial"))
            .otherwise(id_of("network", "serial"))
            .alias("id"),
            F.when(is_answer, F.col("to")).otherwise(F.col("from")).alias("requester"),
            is_answer.alias("is_answer"),
            "mono_ns",
            "rec_seq",
            "ts",
            "name",
            "synthetic",
            F.col("from").alias("sender"),
            F.coalesce(F.octet_length("data"), F.lit(0)).cast("bigint").alias("bytes"),
        )
        .withColumn("task", task)
        .drop("bucket")
    )


def _match_and_write(
    root: Store,
    known: dict[int, matching.Session],
    bound: int,
    make: frozenset[Partition],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Write the conversations of a task, and yield which files these are."""
    with Parts(root, "conversations") as parts:
        for partition, columns in by_partition(matching.match(known, bound, batches)):
            if partition in make:
                parts.add(partition, columns)
        made = parts.close()
    yield told(made)
