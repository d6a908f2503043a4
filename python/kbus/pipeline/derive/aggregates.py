# SPDX-License-Identifier: MIT
"""Aggregates a minute and an hour. All of them are counts, sums and maxima, so those of an hour are made of
minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from . import sketch


class Aggregate(NamedTuple):
    """An aggregate: from which table, how a row of that becomes one of a minute, and what adds up."""

    name: str
    source: str
    keys: tuple[str, ...]
    sums: tuple[str, ...]
    maxima: tuple[str, ...]
    prepare: Callable[[DataFrame], DataFrame]

    def minutes(self, rows: DataFrame) -> DataFrame:
        """Return the aggregate a minute of rows of its source, without what the session says."""
        return self._add_up(self.prepare(rows.withColumn("period", F.date_trunc("minute", "ts"))))

    def hours(self, minutes: DataFrame) -> DataFrame:
        """Return the aggregate an hour, likewise, from minutes."""
        return self._add_up(minutes.withColumn("period", F.date_trunc("hour", "period")))

    def _add_up(self, rows: DataFrame) -> DataFrame:
        # A session is one number here, and not four: to group by that is quicker.
        return rows.groupBy("period", "session", *self.keys, "date", "bucket").agg(
            *(F.sum(name).alias(name) for name in self.sums),
            *(F.max(name).alias(name) for name in self.maxima),
        )


def _traffic(messages: DataFrame) -> DataFrame:
    length = F.coalesce(F.octet_length("data"), F.lit(0)).cast("bigint")
    is_answer = (F.col("reply_network") != 0) | (F.col("reply_serial") != 0)
    is_numbered = F.col("network") == 0
    return messages.withColumns(
        {
            "bytes": length,
            "size": F.when(length == 0, 0).otherwise(F.length(F.bin(length))),
            "messages": F.lit(1).cast("bigint"),
            "requests": F.col("want_a_reply").cast("bigint"),
            "answers": is_answer.cast("bigint"),
            "urgent": F.col("urgent").cast("bigint"),
            "numbered": is_numbered.cast("bigint"),
            "last_serial": F.when(is_numbered, F.col("serial")).otherwise(F.lit(0)),
        }
    )


def _latency(conversations: DataFrame) -> DataFrame:
    latency = F.col("latency_ns")
    return conversations.where(F.col("outcome") == "reply").withColumns(
        {
            "step": sketch.step(latency),
            "answers": F.lit(1).cast("bigint"),
            "total_ns": latency,
            "longest_ns": latency,
        }
    )


def _outcomes(conversations: DataFrame) -> DataFrame:
    return conversations.withColumns(
        {"status": F.coalesce("status", F.lit("")), "requests": F.lit(1).cast("bigint")}
    )


def _incidents(events: DataFrame) -> DataFrame:
    return events.withColumns({"name": F.coalesce("name", F.lit("")), "events": F.lit(1).cast("bigint")})


AGGREGATES = (
    Aggregate(
        "traffic",
        "messages",
        ("name", "from", "size"),
        ("messages", "bytes", "requests", "answers", "urgent", "numbered"),
        ("last_serial",),
        _traffic,
    ),
    Aggregate(
        "latency",
        "conversations",
        ("name", "replier", "step"),
        ("answers", "total_ns"),
        ("longest_ns",),
        _latency,
    ),
    Aggregate("outcomes", "conversations", ("name", "outcome", "status"), ("requests",), (), _outcomes),
    Aggregate("incidents", "events", ("kind", "ksock", "name"), ("events", "count"), (), _incidents),
)
