# SPDX-License-Identifier: MIT
"""What happened on a bus besides messages: binds, unbinds, repliers that went, losses.

============== ==================================================================== =================== =====
kind           from                                                                 ksock               name
============== ==================================================================== =================== =====
bind           ``$.KBUS.ReplierBindEvent``                                          the replier         bound
unbind         ``$.KBUS.ReplierBindEvent``                                          the replier         bound
gone_away      ``$.KBUS.Replier.GoneAway``: a replier closed, a request was unread  the replier
ignored        ``$.KBUS.Replier.Ignored``: it closed, a request was read            the replier
unbound        ``$.KBUS.Replier.Unbound``: it unbound, a request was unread         the replier
no_room        ``$.KBUS.Replier.NoRoom``: the requester had no room for its answer  the replier
messages_lost  ``$.KBUS.MessagesLost``: a KSock was full, ``count`` messages        the one that lost
events_lost    ``$.KBUS.UnbindEventsLost``                                          the one that lost
recorder_lost  frames: the recorder's own KSock was full, until ``until_mono_ns``   0
recording_gap  frames: no recording, or a damaged one, until ``until_mono_ns``      0
============== ==================================================================== =================== =====
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from kbus import _abi as abi

from ..tables import schemas
from ..tables.buckets import bucket_column

_COLUMNS = [each.name for each in schemas.EVENTS]
_STATUSES = {
    abi.NAME_REPLIER_GONEAWAY: "gone_away",
    abi.NAME_REPLIER_IGNORED: "ignored",
    abi.NAME_REPLIER_UNBOUND: "unbound",
    abi.NAME_REPLIER_NOROOM: "no_room",
}
_LOSSES = {abi.NAME_MESSAGES_LOST: "messages_lost", abi.NAME_UNBIND_EVENTS_LOST: "events_lost"}
_NAMES = [abi.NAME_REPLIER_BIND_EVENT, *_STATUSES, *_LOSSES]
_EVENT_HEADER = abi.BIND_EVENT.size


def _u32(position: int) -> Column:
    """Return the u32 at this word of ``data``, in the byte order of the device; null if there is none."""
    digits = F.hex(F.substring("data", 4 * position + 1, 4))
    swapped = F.concat(*(F.substring(digits, at, 2) for at in (7, 5, 3, 1)))
    text = F.when(F.col("big_endian"), digits).otherwise(swapped)
    return F.when(F.length(digits) == 8, F.conv(text, 16, 10).cast(LongType()))


def _chosen(column: Column, values: dict[str, str]) -> Column:
    return reduce(
        lambda chain, item: chain.when(column == item[0], item[1]), values.items(), F.when(F.lit(False), "")
    )


def events(messages: DataFrame, holes: DataFrame, buckets: int) -> DataFrame:
    """Return the table ``events``, with ``date`` and ``bucket``, of these messages and holes."""
    name = F.col("name")
    told = messages.where(F.col("synthetic") & name.isin(_NAMES))
    is_bind = name == abi.NAME_REPLIER_BIND_EVENT
    is_loss = name.isin(list(_LOSSES))
    bound = F.expr(f"cast(substring(data, {_EVENT_HEADER + 1}, cast(name_len as int)) as string)")
    from_messages = (
        told.withColumn("name_len", F.coalesce(_u32(2), F.lit(0)))
        .withColumns(
            {
                "kind": F.when(is_bind, F.when(_u32(0) != 0, "bind").otherwise("unbind")).otherwise(
                    _chosen(name, {**_STATUSES, **_LOSSES})
                ),
                "ksock": F.when(is_bind, _u32(1)).when(is_loss, F.col("to")).otherwise(F.col("from")),
                "count": F.when(name == abi.NAME_MESSAGES_LOST, F.coalesce(_u32(0), F.lit(0))).otherwise(
                    F.lit(1)
                ),
                "name": F.when(is_bind, bound),
                "until_mono_ns": F.lit(None).cast("bigint"),
            }
        )
        .select(*_COLUMNS, F.to_date("ts").alias("date"), "bucket")
    )
    bucket = bucket_column(F.col("device"), buckets)
    from_holes = (
        holes.where(F.col("until_ns").isNotNull())
        .withColumns(
            {
                "mono_ns": F.col("from_ns"),
                "ksock": F.lit(0).cast("bigint"),
                "name": F.lit(None).cast("string"),
                "until_mono_ns": F.col("until_ns"),
            }
        )
        .select(*_COLUMNS, F.to_date("ts").alias("date"), bucket.alias("bucket"))
    )
    return from_messages.unionByName(from_holes)
