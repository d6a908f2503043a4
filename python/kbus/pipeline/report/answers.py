# SPDX-License-Identifier: MIT
"""What the tables say, as small DataFrames. The docs have each as a formula; a test calculates each the slow
way.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..derive import sketch
from ..derive.holes import GAP, LOST
from .scope import Tables

_BUS = ["device", "bus"]
QUANTILES = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99}
#: How a request can end, and what the column is called that counts it
OUTCOMES = {
    "reply": "reply",
    # ``failed`` is the share of all that failed.
    "failed": "errors",
    "status": "status",
    "unanswered": "unanswered",
    "incomplete": "incomplete",
    "orphan": "orphan",
}
#: Those that were not answered as they should be
FAILED = ("errors", "status", "unanswered")
#: A clock that says an earlier time, or one that is later than now by more, is wrong.
EARLIEST, TOLERANCE = datetime(2020, 1, 1, tzinfo=timezone.utc), timedelta(days=1)
#: Serial numbers of KBUS are 1 to this
_SERIALS = 2**32 - 1
#: An hour is odd if it is further than so many deviations from the median of the same hour of earlier days,
ODD = 4.0
#: of which there must be so many,
EARLIER_DAYS = 3
#: of which the latest count.
LATEST_DAYS = 28


def observed(tables: Tables) -> DataFrame:
    """Return, for each device and bus, ``seconds``: how long it was recorded, without the holes."""
    spans = (
        tables["stretches"]
        .groupBy("session", *_BUS)
        .agg(F.min("first_mono_ns").alias("begin"), F.max("last_mono_ns").alias("end"))
    )
    holes = (
        tables["events"]
        .where(F.col("kind").isin(LOST, GAP))
        .join(spans.select("session", "begin", "end"), "session")
        .where((F.col("mono_ns") >= F.col("begin")) & (F.col("until_mono_ns") <= F.col("end")))
        .groupBy("session")
        .agg(F.sum(F.col("until_mono_ns") - F.col("mono_ns")).alias("missed"))
    )
    length = F.col("end") - F.col("begin") - F.coalesce("missed", F.lit(0))
    return spans.join(holes, "session", "left").groupBy(*_BUS).agg(F.sum(length / 1e9).alias("seconds"))


def rates(tables: Tables) -> DataFrame:
    """Return, for each device, bus and name: ``messages``, ``bytes`` of data, and ``rate`` in messages a
    second.
    """
    counted = (
        tables["traffic_hour"]
        .groupBy(*_BUS, "name")
        .agg(F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"))
    )
    rate = F.when(F.col("seconds") > 0, F.col("messages") / F.col("seconds"))
    return counted.join(observed(tables), _BUS, "left").withColumn("rate", rate).drop("seconds")


def hours(tables: Tables) -> DataFrame:
    """Return, for each device and hour: ``messages`` and ``bytes``."""
    return (
        tables["traffic_hour"]
        .groupBy("device", "period")
        .agg(F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"))
    )


def talkers(tables: Tables) -> DataFrame:
    """Return, for each session and sender: ``messages``, ``bytes``, and ``share`` of the messages of its
    session.
    """
    session = Window.partitionBy("session")
    return (
        tables["traffic_hour"]
        .groupBy("session", *_BUS, "from")
        .agg(F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"))
        .withColumn("share", F.col("messages") / F.sum("messages").over(session))
    )


def sizes(tables: Tables) -> DataFrame:
    """Return, for each device and class of size: ``messages``."""
    return tables["traffic_hour"].groupBy("device", "size").agg(F.sum("messages").alias("messages"))


def latency(tables: Tables, by: tuple[str, ...] = ("device", "bus", "name", "replier")) -> DataFrame:
    """Return, for each group: ``answers``, quantiles (within 1 %), ``mean_ns`` and ``longest_ns``, of
    replies.
    """
    steps = tables["latency_hour"]
    exact = steps.groupBy(*by).agg(
        (F.sum("total_ns") / F.sum("answers")).alias("mean_ns"), F.max("longest_ns").alias("longest_ns")
    )
    return sketch.quantiles(steps, list(by), QUANTILES).join(exact, list(by))


def outcomes(tables: Tables, by: tuple[str, ...] = ("device", "bus", "name")) -> DataFrame:
    """Return, for each group, how many requests ended in which way, and ``failed``: the share of those that
    failed. ``errors`` are those to which the replier answered that it failed.

    Incomplete ones, and answers without a request (``orphan``), are not known, and not counted in the share.
    """
    counted = (
        tables["outcomes_hour"]
        .groupBy(*by)
        .agg(
            *(
                F.sum(F.when(F.col("outcome") == kind, F.col("requests")).otherwise(0)).alias(column)
                for kind, column in OUTCOMES.items()
            )
        )
    )
    failed = sum((F.col(kind) for kind in FAILED), F.lit(0))
    known = failed + F.col("reply")
    return counted.withColumn("failed", F.when(known > 0, failed / known))


def repliers(tables: Tables) -> DataFrame:
    """Return, for each session and name that was bound: ``bound``, the share of the recorded time that it
    was.

    ``outages`` is how often it was not. What was bound when the recording began shows when it is unbound.
    """
    seen = (
        tables["stretches"]
        .groupBy("session")
        .agg(F.min("first_mono_ns").alias("begin"), F.max("last_mono_ns").alias("end"))
    )
    events = tables["events"].where(F.col("kind").isin("bind", "unbind"))
    order = Window.partitionBy("session", "name").orderBy("mono_ns", "kind_order")
    steps = (
        events.withColumn("kind_order", F.when(F.col("kind") == "unbind", 0).otherwise(1))
        .join(seen, "session")
        .withColumns(
            {
                "is_first": F.lag("kind").over(order).isNull(),
                "next_ns": F.coalesce(F.lead("mono_ns").over(order), F.col("end")),
            }
        )
    )
    before = F.when(
        F.col("is_first") & (F.col("kind") == "unbind"), F.col("mono_ns") - F.col("begin")
    ).otherwise(0)
    after = F.when(F.col("kind") == "bind", F.col("next_ns") - F.col("mono_ns")).otherwise(0)
    share = F.try_divide(F.sum(before + after), F.max("end") - F.min("begin"))
    return steps.groupBy("session", *_BUS, "name").agg(
        share.alias("bound"), F.sum((F.col("kind") == "unbind").cast("bigint")).alias("outages")
    )


def crashes(tables: Tables) -> DataFrame:
    """Return, for each session and replier that left requests unanswered when it went: how many
    (``requests``).
    """
    return (
        tables["events"]
        .where(F.col("kind").isin("gone_away", "ignored"))
        .groupBy("session", *_BUS, "ksock")
        .agg(F.sum("count").alias("requests"), F.min("ts").alias("ts"))
    )


def slow_listeners(tables: Tables) -> DataFrame:
    """Return, for each session: ``episodes`` of a full queue of the recorder, and ``messages`` it lost.

    Of what other listeners lose KBUS tells only them, so no recording has it.
    """
    return (
        tables["events"]
        .where(F.col("kind") == LOST)
        .groupBy("session", *_BUS)
        .agg(F.count("*").alias("episodes"), F.sum("count").alias("messages"))
    )


def backlogs(tables: Tables) -> DataFrame:
    """Return, for each session and replier: ``waiting``, the most requests that waited for it at a time."""
    answered = tables["conversations"].where(F.col("latency_ns").isNotNull())
    keys = ("session", *_BUS, "replier")
    end = F.col("mono_ns") + F.col("latency_ns")
    begun = answered.select(*keys, F.col("mono_ns").alias("time"), F.lit(1).alias("step"))
    ended = answered.select(*keys, end.alias("time"), F.lit(-1).alias("step"))
    order = Window.partitionBy("session", "replier").orderBy("time", F.desc("step"))
    depth = F.sum("step").over(order.rowsBetween(Window.unboundedPreceding, 0))
    return begun.union(ended).withColumn("depth", depth).groupBy(*keys).agg(F.max("depth").alias("waiting"))


def full_queues(tables: Tables) -> DataFrame:
    """Return, for each session and minute: ``unseen``, serial numbers that KBUS gave and no message was
    recorded with.

    A message that is refused, because a queue is full or nobody replies, has used one. Only where the
    recorder was bound to everything and had no hole in that session; the first minute of a session has
    nothing to compare with. Minutes are in the order of their serial numbers, as clocks are set. In which of
    two minutes a number is missing is not known where serials wrap.
    """
    complete = (
        tables["stretches"]
        .groupBy("session")
        .agg(F.min("catches_all").alias("catches_all"))
        .where(F.col("catches_all"))
        .join(tables["events"].where(F.col("kind").isin(LOST, GAP)), "session", "left_anti")
    )
    minutes = (
        tables["traffic_minute"]
        .groupBy("session", *_BUS, "period")
        .agg(F.sum("numbered").alias("numbered"), F.max("last_serial").alias("last"))
        .where(F.col("numbered") > 0)
        .join(complete.select("session"), "session", "left_semi")
    )
    session = Window.partitionBy("session")
    in_order = session.orderBy("last")
    # Serial numbers wrap: those above the widest gap, if that is wide, are those before.
    step = F.col("last") - F.lag("last").over(in_order)
    wrapped = F.min(F.when(F.col("step") > _SERIALS // 2, F.col("last"))).over(session)
    last = F.when(F.col("last") >= wrapped, F.col("last") - _SERIALS).otherwise(F.col("last"))
    before = F.lag("last").over(in_order)
    # The minute before a wrap seems to have more messages than it used numbers: those after it.
    excess = F.lag("unseen").over(in_order)
    excess = F.when(excess > 0, 0).otherwise(excess)
    is_after = (before <= 0) & (F.col("last") > 0)
    return (
        minutes.withColumn("step", step)
        .withColumn("last", last)
        .withColumn("unseen", F.col("last") - before - F.col("numbered"))
        .withColumn("unseen", F.col("unseen") + F.when(is_after, excess).otherwise(0))
        .where(F.col("unseen") > 0)
        .select("session", *_BUS, "period", "unseen")
    )


def odd_hours(tables: Tables) -> DataFrame:
    """Return the hours in which a device sent unusually many or few messages of a name.

    ``messages`` is compared with ``usual``, the median of the same hour of up to 28 earlier days, in
    ``deviations``: 1.4826 times the median distance from it, but not less than the root of the median, and 1.
    An hour without a message counts if the device was recorded in it, and an hour that the scope cuts does
    not.
    """
    traffic = tables["traffic_hour"]
    if tables.scope.since:
        traffic = traffic.where(F.col("period") >= F.lit(tables.scope.since))
    if tables.scope.until:
        traffic = traffic.where(F.col("period") <= F.lit(tables.scope.until - timedelta(hours=1)))
    counted = traffic.groupBy("device", "name", "period").agg(F.sum("messages").alias("messages"))
    recorded = traffic.select("device", "period").distinct()
    grid = recorded.join(counted.select("device", "name").distinct(), "device")
    full = grid.join(counted, ["device", "name", "period"], "left").fillna(0, ["messages"])
    same_hour = (
        Window.partitionBy("device", "name", F.hour("period")).orderBy("period").rowsBetween(-LATEST_DAYS, -1)
    )
    earlier = F.collect_list("messages").over(same_hour)
    compared = (
        full.withColumn("earlier", earlier)
        .where(F.size("earlier") >= EARLIER_DAYS)
        .withColumn("usual", _median(F.col("earlier")))
        .withColumn("distances", F.transform("earlier", lambda each: F.abs(each - F.col("usual"))))
    )
    deviation = F.greatest(_median(F.col("distances")) * 1.4826, F.sqrt("usual"), F.lit(1.0))
    return (
        compared.withColumn("deviations", (F.col("messages") - F.col("usual")) / deviation)
        .where(F.abs("deviations") > ODD)
        .select("device", "name", "period", "messages", "usual", "deviations")
    )


def _median(values: Column) -> Column:
    """Return the median of an array; null if it is empty."""
    ordered, size = F.array_sort(values), F.size(values)
    low = F.get(ordered, F.floor((size - 1) / 2).cast("int"))
    high = F.get(ordered, F.floor(size / 2).cast("int"))
    return (low + high) / 2


def silent(tables: Tables) -> DataFrame:
    """Return, for each device: ``last_ts``, its last message, ``behind_s``, how long before the last of
    all, and ``is_clock_right``.

    What was before the scope counts too: who is not heard in it is silent. A clock that was set counts as it
    was in the end of each session. It is wrong if all these times are impossible while those of another
    device are not. Then ``behind_s`` is null, and others are not compared with it.
    """
    all_devices = Window.partitionBy(F.lit(1))
    possible = F.max(F.when(is_possible(F.col("last_ts")), F.col("last_ts")))
    last = (
        tables.without_begin()["stretches"]
        .groupBy("device", "session")
        .agg(F.max_by("last_ts", F.struct("last_mono_ns", "last_seq")).alias("last_ts"))
        .groupBy("device")
        .agg(possible.alias("possible"), F.max("last_ts").alias("last_ts"))
        .withColumn(
            "is_clock_right", F.col("possible").isNotNull() | F.max("possible").over(all_devices).isNull()
        )
        .withColumn("last_ts", F.coalesce("possible", "last_ts"))
        .drop("possible")
    )
    right = F.when(F.col("is_clock_right"), F.col("last_ts"))
    behind = F.unix_micros(F.max(right).over(all_devices)) - F.unix_micros(right)
    return last.withColumn("behind_s", behind / 1e6)


def is_possible(time: Column) -> Column:
    """Return whether a clock that says this time may be right."""
    return time.between(F.lit(EARLIEST), F.lit(datetime.now(timezone.utc) + TOLERANCE))


def compared(before: Tables, after: Tables) -> DataFrame:
    """Return, for each name, what it was and is: messages, rate, answers, p50, p99 and failed, of two periods
    or versions.

    Rates are messages a second of recorded time, of all devices that are in the scope together.
    """
    columns = []
    sides = []
    for side, tables in (("before", before), ("after", after)):
        seconds = F.coalesce(F.sum("seconds"), F.lit(0.0))
        time = observed(tables).agg(seconds.alias("seconds"))
        counted = tables["traffic_hour"].groupBy("name").agg(F.sum("messages").alias("messages"))
        rate = F.when(F.col("seconds") > 0, F.col("messages") / F.col("seconds"))
        found = (
            counted.crossJoin(F.broadcast(time))
            .withColumn("rate", rate)
            .join(latency(tables, ("name",)).select("name", "answers", "p50_ns", "p99_ns"), "name", "full")
            .join(outcomes(tables, ("name",)).select("name", "failed"), "name", "full")
        )
        names = ("messages", "rate", "answers", "p50_ns", "p99_ns", "failed")
        columns += [f"{name}_{side}" for name in names]
        sides.append(found.select("name", *(F.col(name).alias(f"{name}_{side}") for name in names)))
    return sides[0].join(sides[1], "name", "full").select("name", *columns)
