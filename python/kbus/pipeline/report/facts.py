# SPDX-License-Identifier: MIT
"""What the report tells, gathered from the answers: plain values, few enough for a person to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .. import answers
from ..scope import Scope, Tables

Row = dict[str, Any]
#: Rows of a table in the report, and devices that it tells more of
MOST = 12
MOST_DEVICES = 40


@dataclass
class Facts:
    """The answers, as lists of rows; each list that is cut comes with how many there are (``totals``)."""

    scope: Scope
    compare: Optional[tuple[Scope, Scope]]
    totals: dict[str, int]
    health: dict[str, int]
    files: Row
    devices: list[Row]
    hours: list[Row]
    device_hours: list[Row]
    names: list[Row]
    talkers: list[Row]
    sizes: list[Row]
    latency: list[Row]
    outcomes: list[Row]
    all_outcomes: Row
    repliers: list[Row]
    crashes: list[Row]
    listeners: list[Row]
    backlogs: list[Row]
    full_queues: list[Row]
    losses: Row
    odd: list[Row]
    compared: list[Row]


def gather(tables: Tables, scope: Scope, compare: Optional[tuple[Scope, Scope]]) -> Facts:
    """Return what there is to tell of these tables."""
    totals: dict[str, int] = {}

    def top(name: str, rows: DataFrame, *order: Any, most: int = MOST) -> list[Row]:
        rows = rows.cache()
        try:
            totals[name] = rows.count()
            return [row.asDict() for row in rows.orderBy(*order).limit(most).collect()]
        finally:
            rows.unpersist()

    def one(rows: DataFrame) -> Row:
        return {key: value or 0 for key, value in rows.collect()[0].asDict().items()}

    def down(name: str) -> Any:
        return F.col(name).desc_nulls_last()

    files = tables["files"]
    names = (
        tables["traffic_hour"]
        .groupBy("name")
        .agg(
            F.sum("messages").alias("messages"),
            F.sum("bytes").alias("bytes"),
            F.countDistinct("device").alias("devices"),
        )
    )
    hours = answers.hours(tables)
    fleet_hours = hours.groupBy("period").agg(
        F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes")
    )
    devices = _devices(tables)
    listed = top("devices", devices, down("trouble"), "device", most=MOST_DEVICES)
    shown = [row["device"] for row in listed]
    compared: list[Row] = []
    if compare:
        before, after = (tables.within(each) for each in compare)
        compared = top(
            "compared", answers.compared(before, after), down("messages_after"), "name", most=2 * MOST
        )
    return Facts(
        scope=scope,
        compare=compare,
        totals=totals,
        health={row.health: row["count"] for row in files.groupBy("health").count().collect()},
        files=one(
            files.agg(
                F.count("*").alias("files"),
                F.sum("size").alias("size"),
                F.sum("messages").alias("messages"),
                F.sum("damaged").alias("damaged"),
                F.sum("skipped").alias("skipped"),
            )
        ),
        devices=listed,
        hours=top("hours", fleet_hours, "period", most=24 * 60),
        device_hours=top(
            "device_hours", hours.where(F.col("device").isin(shown)), "device", "period", most=100_000
        ),
        names=top("names", names, down("messages"), "name"),
        talkers=top("talkers", answers.talkers(tables), down("messages"), "device", "from"),
        sizes=top(
            "sizes",
            answers.sizes(tables).groupBy("size").agg(F.sum("messages").alias("messages")),
            "size",
            most=40,
        ),
        latency=top("latency", answers.latency(tables, ("name",)), down("p99_ns"), "name"),
        outcomes=top("outcomes", answers.outcomes(tables, ("name",)), down("failed"), "name"),
        all_outcomes=one(
            answers.outcomes(tables).agg(
                *(
                    F.sum(kind).alias(kind)
                    for kind in ("reply", "status", "unanswered", "incomplete", "orphan")
                )
            )
        ),
        repliers=top("repliers", answers.repliers(tables), "bound", "device", "name"),
        crashes=top("crashes", answers.crashes(tables), down("requests"), "device", "ksock"),
        backlogs=top("backlogs", answers.backlogs(tables), down("waiting"), "device", "replier"),
        listeners=top("listeners", answers.slow_listeners(tables), down("messages"), "device"),
        full_queues=top("full_queues", answers.full_queues(tables), down("unseen"), "device", "period"),
        losses=one(
            tables["events"].agg(
                F.sum(F.when(F.col("kind") == "recorder_lost", F.col("count"))).alias("recorder_lost"),
                F.sum(F.when(F.col("kind") == "recording_gap", 1)).alias("recording_gaps"),
            )
        ),
        odd=top(
            "odd", answers.odd_hours(tables), F.abs(F.col("deviations")).desc(), "device", "name", "period"
        ),
        compared=compared,
    )


def _devices(tables: Tables) -> DataFrame:
    """Return, for each device, what there is to say of it, and ``trouble``, by which the worst come first."""
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
    return rows.fillna(0, ["lost", "crashes", "unanswered", "messages", "bytes"]).withColumn(
        "trouble", trouble
    )
