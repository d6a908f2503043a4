# SPDX-License-Identifier: MIT
"""What happened in each hour: latency, how requests ended, and what was lost."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..derive.holes import GAP, LOST
from . import answers, words
from .scope import Tables

#: What each hour has, beside its ``period``, ``messages`` and ``bytes``, and what that is if nothing is known
COLUMNS: dict[str, Any] = {
    "answers": 0, "p50_ns": None, "p99_ns": None,
    "errors": 0, "status": 0, "unanswered": 0,
    "lost": 0, "holes": 0, "unseen": 0,
}  # fmt: skip


def add_history(tables: Tables, hours: list[dict[str, Any]]) -> None:
    """Add COLUMNS to rows of hours, which are in order."""
    if not hours:
        return
    by_period: dict[datetime, dict[str, Any]] = {row["period"]: row for row in hours}
    for row in hours:
        row.update(COLUMNS)
    period = F.col("period")
    for rows in _parts(tables):
        found = rows.where(period.between(F.lit(hours[0]["period"]), F.lit(hours[-1]["period"])))
        for each in found.collect():
            known = {key: each[key] for key in COLUMNS if key in each and each[key] is not None}
            by_period.get(words.utc(each.period), {}).update(known)


def _parts(tables: Tables) -> list[DataFrame]:
    """Return DataFrames with a row an hour, which have some of COLUMNS."""
    lost = F.sum(F.when(F.col("kind") == LOST, F.col("count"))).alias("lost")
    holes = F.count_if(F.col("kind") == GAP).alias("holes")
    hour = F.date_trunc("hour", "period").alias("period")
    return [
        answers.latency(tables, ("period",)).select("period", "answers", "p50_ns", "p99_ns"),
        answers.outcomes(tables, ("period",)).select("period", "errors", "status", "unanswered"),
        tables["events"]
        .where(F.col("kind").isin(LOST, GAP))
        .groupBy(F.date_trunc("hour", "ts").alias("period"))
        .agg(lost, holes),
        answers.full_queues(tables).groupBy(hour).agg(F.sum("unseen").alias("unseen")),
    ]
