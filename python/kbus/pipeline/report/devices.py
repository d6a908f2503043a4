# SPDX-License-Identifier: MIT
"""What there is to say of each device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from . import answers
from .scope import Tables

#: Devices that a report tells of
MOST_DEVICES = 1000
#: Points of the line of a device, each of as many hours as it takes
POINTS = 40
#: Names that the page of a device has, of a few devices and of many
_NAMES, _NAMES_OF_MANY, _MANY = 8, 3, 200


def about(tables: Tables, is_silent: Column) -> DataFrame:
    """Return a row a device, with ``trouble``, by which the worst come first."""
    by = ("device",)
    counted = (
        tables["traffic_hour"]
        .groupBy(*by)
        .agg(F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"))
    )
    lost = (
        tables["events"]
        .where(F.col("kind") == "recorder_lost")
        .groupBy(*by)
        .agg(F.sum("count").alias("lost"))
    )
    seconds = answers.observed(tables).groupBy(*by).agg(F.sum("seconds").alias("seconds"))
    crashed = answers.crashes(tables).groupBy(*by).agg(F.count("*").alias("crashes"))
    rows = counted
    for more in (
        answers.silent(tables),
        seconds,
        answers.latency(tables, by).select("device", "p50_ns", "p99_ns"),
        answers.outcomes(tables, by).select("device", "failed", "unanswered"),
        lost,
        crashed,
    ):
        rows = rows.join(more, list(by), "full")
    failed, none = F.coalesce("failed", F.lit(0.0)), F.lit(0)
    trouble = failed * 100 + F.least(F.coalesce("lost", none), F.lit(100)) / 10 + F.coalesce("crashes", none)
    is_away = F.coalesce(is_silent, F.lit(False)) | ~F.coalesce("is_clock_right", F.lit(True))
    trouble = trouble + F.when(is_away, 5).otherwise(0)
    return rows.fillna(0, ["lost", "crashes", "unanswered", "messages", "bytes"]).withColumn(
        "trouble", trouble
    )


def names(tables: Tables, devices: Sequence[str], few: float) -> dict[str, list[dict[str, Any]]]:
    """Return, for each of these devices, the names with which most went wrong, or that it has most of.

    Those that have fewer than ``few`` replies are not among the slow ones.
    """
    by = ("device", "name")
    most = _NAMES if len(devices) <= _MANY else _NAMES_OF_MANY
    slow = F.when(F.col("answers") >= few, F.col("p99_ns"))
    worst = Window.partitionBy("device").orderBy(
        F.desc_nulls_last("failed"), slow.desc_nulls_last(), F.desc("messages"), "name"
    )
    rows = (
        tables["traffic_hour"]
        .where(F.col("device").isin(list(devices)))
        .groupBy(*by)
        .agg(F.sum("messages").alias("messages"))
        .join(answers.latency(tables, by).select(*by, "answers", "p50_ns", "p99_ns"), list(by), "left")
        .join(answers.outcomes(tables, by).select(*by, "failed"), list(by), "left")
        .withColumn("names", F.count("*").over(Window.partitionBy("device")))
        .withColumn("place", F.row_number().over(worst))
        .where(F.col("place") <= most)
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows.orderBy("device", "place").collect():
        found.setdefault(row.device, []).append(row.asDict())
    return found


def lines(tables: Tables, devices: Sequence[str], hours: Sequence[dict[str, Any]]) -> dict[str, list[int]]:
    """Return, for each of these devices, its messages in up to POINTS equal parts of that time."""
    if not hours:
        return {}
    first, last = hours[0]["period"], hours[-1]["period"]
    whole = int((last - first).total_seconds()) // 3600 + 1
    each = -(-whole // POINTS)
    part = F.floor((F.unix_seconds("period") - int(first.timestamp())) / (3600 * each)).cast("int")
    rows = (
        answers.hours(tables)
        .where(F.col("period").between(F.lit(first), F.lit(last)) & F.col("device").isin(list(devices)))
        .groupBy("device", part.alias("part"))
        .agg(F.sum("messages").alias("messages"))
    )
    found = {device: [0] * -(-whole // each) for device in devices}
    for row in rows.collect():
        found[row.device][row.part] = row.messages
    return found
