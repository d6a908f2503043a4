# SPDX-License-Identifier: MIT
"""Requests and their answers, matched.

The id of a request is a number that comes again: serial numbers wrap, and start anew when the module is
loaded; ids with a network id are their sender's. So an answer belongs to a request of the same session, id
and requester, not later than the time bound after the message before it of that id; and of several that wait,
to the oldest, as KBUS does it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from . import schemas
from .buckets import bucket_column
from .holes import SESSION

#: How long after a request its answer may come, in seconds
WITHIN = 60
_KEY = ["session", "network", "serial", "requester"]
_COLUMNS = [each.name for each in schemas.CONVERSATIONS]


def _length(column: str) -> Column:
    return F.coalesce(F.octet_length(column), F.lit(0)).cast("bigint")


def conversations(messages: DataFrame, holes: DataFrame, buckets: int, within: int = WITHIN) -> DataFrame:
    """Return the table ``conversations``, with ``date`` and ``bucket``, of these messages.

    ``holes`` are those of all recordings, ``within`` is the time bound in seconds.
    """
    bound = within * 1_000_000_000
    # There is one after the end of each recording, so no session is missing.
    sessions = holes.groupBy(*SESSION).agg(F.collect_list(F.struct("from_ns", "until_ns")).alias("holes"))
    return (
        _with_outcome(_pairs(_requests_and_answers(messages), bound), sessions, bound)
        .withColumn("bucket", bucket_column(F.col("device"), buckets))
        .select(*_COLUMNS, F.to_date("ts").alias("date"), "bucket")
    )


def _requests_and_answers(messages: DataFrame) -> DataFrame:
    is_answer = (F.col("reply_network") != 0) | (F.col("reply_serial") != 0)
    return messages.where(is_answer | F.col("want_a_reply")).select(
        "session",
        F.when(is_answer, F.col("reply_network")).otherwise(F.col("network")).alias("network"),
        F.when(is_answer, F.col("reply_serial")).otherwise(F.col("serial")).alias("serial"),
        F.when(is_answer, F.col("to")).otherwise(F.col("from")).alias("requester"),
        is_answer.alias("is_answer"),
        "mono_ns",
        "rec_seq",
        "ts",
        "name",
        "synthetic",
        F.col("from").alias("sender"),
        _length("data").alias("bytes"),
    )


def _pairs(rows: DataFrame, bound: int) -> DataFrame:
    """Return one row a conversation, the request's part or the answer's null if there is none."""
    order = Window.partitionBy(*_KEY).orderBy("mono_ns", "rec_seq")
    # A new round begins when nothing of this id was heard for so long that nothing is waited for any more.
    pause = F.col("mono_ns") - F.lag("mono_ns").over(order)
    rows = rows.withColumn("round", F.sum((F.coalesce(pause, F.lit(0)) > bound).cast("int")).over(order))
    in_round = Window.partitionBy(*_KEY, "round").orderBy("mono_ns", "rec_seq")
    within = in_round.rowsBetween(Window.unboundedPreceding, 0)
    answers = F.sum(F.col("is_answer").cast("int")).over(within)
    requests = F.sum((~F.col("is_answer")).cast("int")).over(within)
    rows = rows.withColumn("answers", answers).withColumn("requests", requests)
    # An answer for which there was no request makes the surplus of answers higher than it ever was.
    surplus = F.max(F.col("answers") - F.col("requests")).over(within)
    rows = rows.withColumn("orphans", F.greatest(surplus, F.lit(0)))
    is_orphan = F.col("orphans") > F.coalesce(F.lag("orphans").over(in_round), F.lit(0))
    number = (
        F.when(~F.col("is_answer"), F.col("requests"))
        .when(is_orphan, -F.col("answers"))
        .otherwise(F.col("answers") - F.col("orphans"))
    )
    rows = rows.withColumn("number", number)

    def of_request(column: str) -> Column:
        return F.max(F.when(~F.col("is_answer"), F.col(column)))

    def of_answer(column: str) -> Column:
        return F.max(F.when(F.col("is_answer"), F.col(column)))

    return rows.groupBy(*_KEY, "round", "number").agg(
        of_request("mono_ns").alias("asked_ns"),
        of_request("ts").alias("asked_ts"),
        of_request("name").alias("asked"),
        of_request("bytes").alias("request_bytes"),
        of_answer("mono_ns").alias("answered_ns"),
        of_answer("ts").alias("answered_ts"),
        of_answer("name").alias("answer"),
        of_answer("bytes").alias("answer_bytes"),
        of_answer("sender").alias("replier"),
        of_answer("synthetic").alias("synthetic"),
    )


def _with_outcome(pairs: DataFrame, sessions: DataFrame, bound: int) -> DataFrame:
    asked, answered = F.col("asked_ns"), F.col("answered_ns")
    is_open = answered.isNull()

    def concerns(hole: Column) -> Column:
        """Return whether an answer could have come in the hole, where the recorder did not see it."""
        return (hole["from_ns"] < asked + bound) & (hole["until_ns"].isNull() | (hole["until_ns"] > asked))

    return (
        pairs.join(F.broadcast(sessions), "session")
        .withColumn(
            "outcome",
            F.when(asked.isNull(), "orphan")
            .when(~is_open & F.col("synthetic"), "status")
            .when(~is_open, "reply")
            .when(F.exists("holes", concerns), "incomplete")
            .otherwise("unanswered"),
        )
        .withColumn("status", F.when(F.col("outcome") == "status", F.col("answer")))
        .withColumn("name", F.coalesce("asked", "answer"))
        .withColumn("ts", F.coalesce("asked_ts", "answered_ts"))
        .withColumn("mono_ns", F.coalesce(asked, answered))
        .withColumn("latency_ns", answered - asked)
    )
