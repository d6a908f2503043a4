# SPDX-License-Identifier: MIT
"""Holes in recordings: between stretches that do not follow on one another, and after the last."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from . import schemas

SESSION = [each.name for each in schemas.SESSION]
#: What happened in the hole: the recorder's KSock was full, or there is no recording
LOST, GAP = "recorder_lost", "recording_gap"


def holes(stretches: DataFrame) -> DataFrame:
    """Return the holes: the session, ``kind``, ``from_ns`` and ``until_ns`` (CLOCK_MONOTONIC), ``ts``,
    ``count``.

    ``until_ns`` is null for the one after the end of a recording, of which nothing is known. ``count`` is how
    many messages the recorder says that it lost (LOST), or how many of its sequence numbers are missing
    (GAP), as far as that is known.
    """
    # A recorder numbers the messages of all its buses together; so whether files follow on one another shows
    # only in all of them.
    recording = Window.partitionBy("device", "boot").orderBy("first_ns", "first_seq", "capture")
    pieces = (
        stretches.groupBy("device", "boot", "capture", "first_seq", "last_seq")
        .agg(F.min("first_mono_ns").alias("first_ns"))
        .withColumn(
            "follows", F.coalesce(F.col("first_seq") == F.lag("last_seq").over(recording) + 1, F.lit(False))
        )
        .withColumn("chain", F.sum((~F.col("follows")).cast("bigint")).over(recording))
        .drop("first_ns", "follows")
    )
    keys = ["device", "boot", "capture", "first_seq", "last_seq"]
    bus = Window.partitionBy("session").orderBy("first_mono_ns", "first_lost", "begin")

    def after(name: str) -> Column:
        return F.lead(name).over(bus)

    return (
        stretches.join(pieces, keys)
        .withColumn("until_ns", after("first_mono_ns"))
        .withColumn("same_chain", F.coalesce(after("chain") == F.col("chain"), F.lit(False)))
        .withColumn("lost", F.greatest(after("first_lost") - F.col("last_lost"), F.lit(0)))
        .withColumn("missing", F.greatest(after("first_seq") - F.col("last_seq") - 1, F.lit(0)))
        .where(~F.col("same_chain") | (F.col("lost") > 0))
        .select(
            *SESSION,
            F.when(F.col("same_chain"), LOST).otherwise(GAP).alias("kind"),
            F.col("last_mono_ns").alias("from_ns"),
            "until_ns",
            F.col("last_ts").alias("ts"),
            F.coalesce(
                F.when(F.col("same_chain"), F.col("lost")).otherwise(F.col("missing")), F.lit(0)
            ).alias("count"),
        )
    )
