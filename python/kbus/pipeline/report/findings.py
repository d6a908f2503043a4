# SPDX-License-Identifier: MIT
"""What the report tells, gathered from the answers: plain values, few enough for a person to read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..tables.tasks import together
from . import answers, devices, words
from .history import add_history
from .scope import Scope, Tables
from .thresholds import Thresholds

Row = dict[str, Any]
#: Rows of a table in the report
MOST = 12
#: Days before the latest hour of which the report shows the hours
DAYS = 60


@dataclass
class Findings:
    """The answers, as lists of rows. A list may be cut.

    ``totals`` says by the name of a list how many rows there are, ``of_all`` what holds for all of them.
    Sentences are about these.
    """

    scope: Scope
    compare: Optional[tuple[Scope, Scope]]
    thresholds: Thresholds
    totals: dict[str, int]
    of_all: dict[str, Row]
    health: dict[str, int]
    files: Row
    devices: list[Row]
    hours: list[Row]
    device_lines: dict[str, list[int]]
    device_names: dict[str, list[Row]]
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
    behind: list[str] = field(default_factory=list)
    """Steps that have not been done since what is new was ingested"""


def gather(
    tables: Tables, scope: Scope, compare: Optional[tuple[Scope, Scope]], thresholds: Thresholds
) -> Findings:
    """Return what there is to tell of these tables."""
    totals: dict[str, int] = {}
    of_all: dict[str, Row] = {}

    def top(name: str, rows: DataFrame, *order: Any, most: int = MOST, **values: Column) -> list[Row]:
        # In one query: each row has what holds for all.
        everything = Window.partitionBy(F.lit(1))
        whole = {"rows": F.count("*"), **values}
        rows = rows.withColumn(
            "whole", F.struct(*(each.over(everything).alias(key) for key, each in whole.items()))
        )
        found = [row.asDict() for row in rows.orderBy(*order).limit(most).collect()]
        wholes = [row.pop("whole").asDict() for row in found]
        of_all[name] = {key: wholes[0][key] or 0 if wholes else 0 for key in whole}
        totals[name] = of_all[name]["rows"]
        return found

    def one(rows: DataFrame) -> Row:
        return {key: value or 0 for key, value in rows.collect()[0].asDict().items()}

    def down(name: str) -> Any:
        return F.col(name).desc_nulls_last()

    def compared() -> list[Row]:
        if not compare:
            return []
        before, after = (tables.within(each) for each in compare)
        times = F.try_divide("p99_ns_after", "p99_ns_before")
        factor = F.greatest(times, F.try_divide(F.lit(1.0), times))
        is_told = (times > 0) & (F.least("answers_before", "answers_after") >= few)
        return top(
            "compared", answers.compared(before, after), down("messages_after"), "name",
            most=2 * MOST,
            changed=F.max(F.when(is_told, F.struct(factor, "name", times.alias("times")))),
        )  # fmt: skip

    def hours() -> list[Row]:
        of_all["hours"], found = _hours(answers.hours(tables))
        totals["hours"] = of_all["hours"]["rows"]
        add_history(tables, found)
        return found

    by_health = (
        tables["files"]
        .groupBy("health")
        .agg(
            F.count("*").alias("files"),
            F.sum("size").alias("size"),
            F.sum("damaged").alias("damaged"),
            F.sum("skipped").alias("skipped"),
        )
    )
    names = (
        tables["traffic_hour"]
        .groupBy("name")
        .agg(
            F.sum("messages").alias("messages"),
            F.sum("bytes").alias("bytes"),
            F.countDistinct("device").alias("devices"),
        )
    )
    is_silent = F.col("behind_s") > thresholds.limits("silence", "behind_s").yellow
    is_away = 1 - F.col("bound") > thresholds.limits("repliers", "away").yellow
    few = thresholds.number("speed", "few_replies")
    is_few = F.col("answers") < few
    sums: dict[str, Any] = {column: F.sum(column) for column in answers.OUTCOMES.values()}
    asked: dict[str, Callable[[], Any]] = {
        "devices": lambda: top(
            "devices", devices.about(tables, is_silent), down("trouble"), "device",
            most=devices.MOST_DEVICES,
            recorded=F.count_if(F.col("seconds").isNotNull()),
            silent=F.count_if(is_silent),
            longest=F.max(F.when(F.col("behind_s").isNotNull(), F.struct("behind_s", "device"))),
            wrong_clocks=F.count_if(~F.col("is_clock_right")),
        ),
        "hours": hours,
        "compared": compared,
        "by_health": lambda: [row.asDict() for row in by_health.collect()],
        "names": lambda: top("names", names, down("messages"), "name"),
        "talkers": lambda: top("talkers", answers.talkers(tables), down("messages"), "device", "from"),
        "sizes": lambda: top(
            "sizes",
            answers.sizes(tables).groupBy("size").agg(F.sum("messages").alias("messages")),
            "size",
            most=40,
        ),
        "latency": lambda: top(
            "latency",
            answers.latency(tables, ("name",)),
            is_few,
            down("p99_ns"),
            "name",
            few=F.count_if(is_few),
        ),
        "outcomes": lambda: top(
            "outcomes", answers.outcomes(tables, ("name",)), down("failed"), "name",
            **sums,
        ),
        "repliers": lambda: top(
            "repliers",
            answers.repliers(tables),
            F.col("bound").asc_nulls_last(),
            "device",
            "name",
            away=F.count_if(is_away),
            longest_away=F.max(1 - F.col("bound")),
        ),
        "crashes": lambda: top(
            "crashes",
            answers.crashes(tables),
            down("requests"),
            "device",
            "ksock",
            requests=F.sum("requests"),
        ),
        "backlogs": lambda: top(
            "backlogs", answers.backlogs(tables), down("waiting"), "device", "replier"
        ),
        "listeners": lambda: top("listeners", answers.slow_listeners(tables), down("messages"), "device"),
        "full_queues": lambda: top(
            "full_queues", answers.full_queues(tables), down("unseen"), "device", "period"
        ),
        "losses": lambda: one(
            tables["events"].agg(
                F.sum(F.when(F.col("kind") == "recorder_lost", F.col("count"))).alias("recorder_lost"),
                F.sum(F.when(F.col("kind") == "recording_gap", 1)).alias("recording_gaps"),
            )
        ),
        "odd": lambda: top(
            "odd", answers.odd_hours(tables), F.abs(F.col("deviations")).desc(), "device", "name", "period"
        ),
    }  # fmt: skip
    found = dict(zip(asked, together(tables.spark, *asked.values())))
    files: list[Row] = found.pop("by_health")
    shown = [row["device"] for row in found["devices"]]
    device_lines, device_names = together(
        tables.spark,
        lambda: devices.lines(tables, shown, found["hours"]),
        lambda: devices.names(tables, shown, few),
    )
    return Findings(
        scope=scope,
        compare=compare,
        thresholds=thresholds,
        totals=totals,
        of_all=of_all,
        health={row["health"]: row["files"] for row in files},
        files={key: sum(row[key] or 0 for row in files) for key in ("files", "size", "damaged", "skipped")},
        all_outcomes=of_all["outcomes"],
        device_lines=device_lines,
        device_names=device_names,
        **found,
    )


def _hours(hours: DataFrame) -> tuple[Row, list[Row]]:
    """Return what holds for all hours, and those of the last DAYS, by time.

    ``first`` and ``last`` are the first and last hour of clocks that are right, if there is any.
    """
    period = F.col("period")
    everything = Window.partitionBy(F.lit(1))
    right = F.when(answers.is_possible(period), period)
    whole = {
        "rows": F.count("*").over(everything),
        "messages": F.sum("messages").over(everything),
        "first": F.coalesce(F.min(right).over(everything), F.min("period").over(everything)),
        "last": F.coalesce(F.max(right).over(everything), F.max("period").over(everything)),
    }
    rows = (
        hours.groupBy("period")
        .agg(F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"))
        .withColumn("whole", F.struct(*(each.alias(key) for key, each in whole.items())))
        .where(
            (period > F.col("whole.last") - F.expr(f"interval {DAYS} days")) & (period <= F.col("whole.last"))
        )
        .orderBy("period")
        .collect()
    )
    found = [{**row.asDict(), "period": words.utc(row.period)} for row in rows]
    wholes = [row.pop("whole").asDict() for row in found]
    return wholes[0] if wholes else {"rows": 0, "messages": 0, "first": None, "last": None}, found
