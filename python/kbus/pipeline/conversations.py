# SPDX-License-Identifier: MIT
"""Requests and their answers: the table ``conversations``, as ``matching`` makes it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from . import matching, schemas
from .holes import Hole

#: How long after a request its answer may come, in seconds
WITHIN = 60
#: Messages whose requests and answers a task has in memory together
_TOGETHER = 2_000_000
#: Messages for which it pays to have a task
_PAYS = 1_000
_KEY = ("session", "id", "requester")


def conversations(
    messages: DataFrame, count: int, holes: Iterable[Hole], buckets: int, within: int = WITHIN
) -> DataFrame:
    """Return the table ``conversations``, with ``date`` and ``bucket``, of these messages, ``count`` of them.

    ``holes`` are those of all recordings, ``within`` is the time bound in seconds.
    """
    known = matching.sessions(holes, buckets)
    at_once = min(messages.sparkSession.sparkContext.defaultParallelism, -(-count // _PAYS))
    tasks = max(at_once, -(-count // _TOGETHER), 1)
    rows = _requests_and_answers(messages).repartition(tasks, *_KEY)
    return rows.mapInArrow(
        partial(matching.match, known, within * 1_000_000_000), schemas.spark_schema(matching.CONVERSATIONS)
    )


def _requests_and_answers(messages: DataFrame) -> DataFrame:
    """Return the rows that ``matching.ROWS`` describes."""
    is_answer = (F.col("reply_network") != 0) | (F.col("reply_serial") != 0)

    def id_of(network: str, serial: str) -> Column:
        return F.shiftleft(network, 32).bitwiseOR(F.col(serial))

    return messages.where(is_answer | F.col("want_a_reply")).select(
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
