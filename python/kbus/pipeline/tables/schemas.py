# SPDX-License-Identifier: MIT
"""The tables: names, types and meaning of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..decode.columns import MESSAGES, SESSION, Column

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_ARROW: dict[str, pa.DataType] = {
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "double": pa.float64(),
    "int": pa.int32(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<date>": pa.list_(pa.field("element", pa.date32())),
    "array<string>": pa.list_(pa.field("element", pa.string())),
}

#: What spark.read.format("kbus") gives: a row a message, and a row for each piece of damage
SOURCE = (
    *MESSAGES,
    Column("path", "string", "the file"),
    Column(
        "corrupt",
        "string",
        "null for a message; else why these bytes (offset, length) of the file are of no use",
    ),
)

FILES = (
    Column("path", "string", "where the file was when it was ingested"),
    Column("sha256", "string", "of the file as it is; null for what came by streaming"),
    Column("size", "bigint", "bytes of the file; with streaming, those that have been read"),
    Column("mtime_ns", "bigint", "when it was last written, ns since 1970"),
    Column(
        "health",
        "string",
        "ok, torn, damaged, incomplete (its statistics count more messages than it has), empty,"
        " not a capture, copy (all of it is known), unreadable",
    ),
    Column("device", "string", "of its first section"),
    Column("recorder", "string", "version of the recorder"),
    Column("captures", "array<string>", "its sections: `capture` of each"),
    Column("messages", "bigint", "messages that were taken from it"),
    Column(
        "known", "bigint", "messages that were in the tables already, from another upload of the recording"
    ),
    Column("damaged", "bigint", "pieces of damage"),
    Column("skipped", "bigint", "bytes of these"),
    Column("reasons", "array<string>", "why, each reason once"),
    Column("received", "bigint", "messages that the recorder says it wrote; null without statistics"),
    Column("dropped", "bigint", "messages that it says it lost; likewise"),
    Column("first_ts", "timestamp", "of its earliest message"),
    Column("last_ts", "timestamp", "of its latest message"),
)

#: Where recordings are without a hole. What is not in a stretch was not seen.
STRETCHES = (
    *SESSION,
    Column("recorder", "string", "version of the recorder"),
    Column("capture", "string", "as in messages"),
    Column("begin", "bigint", "offset in the section of the first block that belongs to it"),
    Column("end", "bigint", "offset after the last one"),
    Column("first_seq", "bigint", "recorder's sequence number with which it begins, of any bus"),
    Column("last_seq", "bigint", "with which it ends"),
    Column("first_lost", "bigint", "`lost` of its first message"),
    Column("last_lost", "bigint", "`lost` of its last message"),
    Column("first_mono_ns", "bigint", "CLOCK_MONOTONIC of its first message"),
    Column("last_mono_ns", "bigint", "of its last"),
    Column("first_ts", "timestamp", "ts of its first message; the earliest if no recorder tells the order"),
    Column("last_ts", "timestamp", "ts of its last; the latest if no recorder tells the order"),
    Column("messages", "bigint", "how many messages it has"),
    Column("dates", "array<date>", "the dates of these"),
    Column("catches_all", "boolean", "whether the recorder was bound to $.*"),
)

CONVERSATIONS = (
    *SESSION,
    Column("network", "bigint", "id of the request"),
    Column("serial", "bigint", "id of the request"),
    Column("name", "string", "what was asked; for an orphan the name of the answer"),
    Column("requester", "bigint", "KSock id of who asked"),
    Column("replier", "bigint", "KSock id of who answered; null if nobody did"),
    Column("ts", "timestamp", "when the request was recorded; for an orphan the answer"),
    Column("mono_ns", "bigint", "likewise"),
    Column("latency_ns", "bigint", "CLOCK_MONOTONIC from request to answer as recorded; null without both"),
    Column("outcome", "string", "reply, failed, status, unanswered, incomplete, orphan"),
    Column("status", "string", "name of the status; null for other outcomes"),
    Column("request_bytes", "bigint", "bytes of the request's data; null for an orphan"),
    Column("answer_bytes", "bigint", "bytes of the answer's data; null without one"),
)

EVENTS = (
    *SESSION,
    Column("ts", "timestamp", "when it was recorded"),
    Column("mono_ns", "bigint", "likewise"),
    Column("kind", "string", "see the table of events"),
    Column("ksock", "bigint", "KSock id that it is about; 0 for the recorder or nobody"),
    Column("name", "string", "message name that it is about; null for none"),
    Column("count", "bigint", "how many messages"),
    Column("until_mono_ns", "bigint", "when the hole of recorder_lost or recording_gap ends; else null"),
)

_PERIOD = (Column("period", "timestamp", "when the minute or the hour begins, UTC"),)

TRAFFIC = (
    *_PERIOD,
    *SESSION,
    Column("name", "string", "message name"),
    Column("from", "bigint", "KSock id of the sender"),
    Column("size", "int", "class of the data's length: 0 for none, else k for 2**(k-1) to 2**k - 1 bytes"),
    Column("messages", "bigint", "how many"),
    Column("bytes", "bigint", "bytes of their data"),
    Column("requests", "bigint", "how many of them are Requests"),
    Column("answers", "bigint", "how many answer one"),
    Column("urgent", "bigint", "how many are urgent"),
    Column("numbered", "bigint", "how many have a serial number of KBUS (network_id 0)"),
    Column("last_serial", "bigint", "the highest of these serial numbers; 0 for none"),
)

LATENCY = (
    *_PERIOD,
    *SESSION,
    Column("name", "string", "name of the requests"),
    Column("replier", "bigint", "KSock id of who answered"),
    Column("step", "int", "k: latencies above g**(k-1) and up to g**k ns, g = 1.01 / 0.99"),
    Column("answers", "bigint", "how many"),
    Column("total_ns", "bigint", "their sum"),
    Column("longest_ns", "bigint", "the longest of them"),
)

OUTCOMES = (
    *_PERIOD,
    *SESSION,
    Column("name", "string", "name of the requests"),
    Column("outcome", "string", "as in conversations"),
    Column("status", "string", "likewise; empty for none"),
    Column("requests", "bigint", "how many"),
)

INCIDENTS = (
    *_PERIOD,
    *SESSION,
    Column("kind", "string", "as in events"),
    Column("ksock", "bigint", "likewise"),
    Column("name", "string", "likewise; empty for none"),
    Column("events", "bigint", "how many events"),
    Column("count", "bigint", "sum of their counts"),
)

PARTITIONS = (
    Column("date", "date", "UTC date of ts, of an aggregate that of period"),
    Column(
        "bucket", "int", "hash of the device, modulo the number of buckets that the tables were made with"
    ),
)

#: What holds the tables together: which step did what
STEPS = (
    Column("step", "bigint", "its number, one more than that of the step before"),
    Column("name", "string", "ingest, stream, conversations, aggregate, tidy, repair, upgrade"),
    Column("time", "timestamp", "when it was published"),
    Column("tables", "array<string>", "the tables that it changed"),
    Column("changes", "string", "JSON: the files that came and went"),
    Column("state", "string", "JSON: what steps remember, and the last step of each table"),
)

#: Tables whose files stand in directories by date and bucket
PARTITIONED = {
    "messages": MESSAGES,
    "conversations": CONVERSATIONS,
    "events": EVENTS,
    "traffic_minute": TRAFFIC,
    "traffic_hour": TRAFFIC,
    "latency_minute": LATENCY,
    "latency_hour": LATENCY,
    "outcomes_minute": OUTCOMES,
    "outcomes_hour": OUTCOMES,
    "incidents_minute": INCIDENTS,
    "incidents_hour": INCIDENTS,
}
#: Columns of these whose least and greatest values are told of each file: what is looked for
STATISTICS = ("session", "ts", "mono_ns", "name", "device")
TABLES = {**PARTITIONED, "files": FILES, "stretches": STRETCHES}


def columns_in(table: str) -> tuple[Column, ...]:
    """Return the columns of the files of a table; what their directories tell is not among them."""
    return TABLES.get(table, STEPS)


def spark_schema(columns: tuple[Column, ...]) -> StructType:
    """Return the schema of these columns for Spark."""
    # Here, as who asks in SQL does without Spark.
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(arrow_schema(columns))


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """Return the schema of these columns for Arrow."""
    return pa.schema([(each.name, _ARROW[each.type]) for each in columns])
