# SPDX-License-Identifier: MIT
"""Which part of the tables a question is about.

What is of one moment belongs to a scope by its time, a conversation by that of its request. What lasts,
stretches and holes, is cut where the scope begins and ends. Files belong to it if a part of them does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any, Optional

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..source.selection import parse_time
from ..tables.warehouse import Snapshot, Warehouse

_KEYS = ("since", "until", "device", "recorder", "load")
_HOUR, _MINUTE = timedelta(hours=1), timedelta(minutes=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Scope:
    """Times (``since`` belongs to it, ``until`` does not), and patterns with ``*`` for device, recorder and
    load. Aggregates are of minutes, so their times should be whole ones.
    """

    since: Optional[datetime] = None
    until: Optional[datetime] = None
    device: str = "*"
    recorder: str = "*"
    load: str = "*"

    @classmethod
    def parse(cls, text: str) -> Scope:
        """Return what ``since=TIME,until=TIME,device=PATTERN,recorder=PATTERN,load=PATTERN`` says, any of
        them.

        Raises ValueError.
        """
        said: dict[str, Any] = {}
        for each in filter(None, text.split(",")):
            key, equals, value = each.partition("=")
            if not equals or key not in _KEYS:
                raise ValueError(f"{each!r} is none of {', '.join(f'{key}=...' for key in _KEYS)}")
            if key in said or not value:
                raise ValueError(f"{key} is given twice" if key in said else f"{each!r} says nothing")
            said[key] = parse_time(value) if key in ("since", "until") else value
            if key in ("since", "until") and not _is_whole(said[key], _MINUTE):
                raise ValueError(f"{each!r} is no whole minute")
            if key in ("since", "until") and not 1970 <= said[key].year <= 2262:
                raise ValueError(f"{each!r} is not in the years from 1970 to 2262")
        scope = cls(**said)
        if scope.since and scope.until and scope.since >= scope.until:
            raise ValueError(f"{text!r} ends before it begins")
        return scope

    def __str__(self) -> str:
        said = {key: value for key, value in self.__dict__.items() if value not in (None, "*")}
        times = {
            key: f"{each:%Y-%m-%dT%H:%M:%SZ}" for key, each in said.items() if isinstance(each, datetime)
        }
        return ",".join(f"{key}={value}" for key, value in {**said, **times}.items()) or "everything"


class Tables:
    """The tables of one moment, as far as they are within a scope. Each is a DataFrame, by name."""

    def __init__(
        self, spark: SparkSession, warehouse: Warehouse, scope: Scope, snapshot: Optional[Snapshot] = None
    ):
        self.spark = spark
        self._warehouse = warehouse
        self._snapshot = snapshot or warehouse.snapshot()
        self._known: dict[str, DataFrame] = {}
        self.scope = scope

    def within(self, scope: Scope) -> Tables:
        """Return the same tables in another scope."""
        return Tables(self.spark, self._warehouse, scope, self._snapshot)

    def __getitem__(self, table: str) -> DataFrame:
        since, until = self.scope.since, self.scope.until
        if table == "files":
            return self._files()
        if table.endswith("_hour") and not all(_is_whole(each, _HOUR) for each in (since, until) if each):
            minutes = self[table.replace("_hour", "_minute")]
            return minutes.withColumn("period", F.date_trunc("hour", "period"))
        rows = self._matching(table)
        if table == "stretches":
            return _cut_stretches(rows, since, until)
        if table == "events":
            rows = _begun(rows, since)
        time = F.col("period" if "period" in rows.columns else "ts")
        return rows.where(_is_in(time, time, since, until))

    def without_begin(self) -> Tables:
        """Return the same tables, with what was before the scope too."""
        return self.within(replace(self.scope, since=None))

    def _read(self, table: str) -> DataFrame:
        if table not in self._known:
            self._known[table] = self._warehouse.read_parts(self.spark, table, self._snapshot.of(table))
        return self._known[table]

    def _matching(self, table: str) -> DataFrame:
        """Return the rows of the scope's devices, recorders and loads, of all times."""
        rows = _like(self._read(table), "device", self.scope.device)
        if "load" in rows.columns:
            rows = _like(rows, "load", self.scope.load)
        if "recorder" in rows.columns:
            return _like(rows, "recorder", self.scope.recorder)
        if self.scope.recorder != "*":
            stretches = _like(self._read("stretches"), "recorder", self.scope.recorder)
            rows = rows.join(F.broadcast(stretches.select("session").distinct()), "session", "left_semi")
        return rows

    def _files(self) -> DataFrame:
        """Return the files that have a part of a stretch of the scope, or no message but its device."""
        files = self._read("files")
        if self.scope == Scope():
            return files
        captures = self["stretches"].select("capture").distinct()
        has_messages = F.col("messages") + F.col("known") > 0
        found = (
            files.where(has_messages)
            .withColumn("capture", F.explode("captures"))
            .join(F.broadcast(captures), "capture", "left_semi")
            .drop("capture")
            .dropDuplicates(["path", "size", "mtime_ns", "sha256"])
        )
        if self.scope.since or self.scope.until or self.scope.load != "*":
            return found
        return found.union(self._matching("files").where(~has_messages))


def _is_whole(time: datetime, unit: timedelta) -> bool:
    return not (time - _EPOCH) % unit


def _is_in(first: Column, last: Column, since: Optional[datetime], until: Optional[datetime]) -> Column:
    """Return whether a part of the time from ``first`` to ``last`` is in a scope."""
    found = F.lit(True)
    if since:
        found &= last >= F.lit(since)
    if until:
        found &= first < F.lit(until)
    return found


def _cut_stretches(rows: DataFrame, since: Optional[datetime], until: Optional[datetime]) -> DataFrame:
    """Return the parts of stretches that are in a scope.

    Where a clock was set within a stretch, it is not known exactly at which CLOCK_MONOTONIC the scope begins
    and ends.
    """
    if not since and not until:
        return rows
    first, last = F.col("first_ts"), F.col("last_ts")
    rows = rows.where(_is_in(F.least(first, last), F.greatest(first, last), since, until))
    begin, end = F.col("first_mono_ns"), F.col("last_mono_ns")
    if since:
        begin = F.greatest(begin, F.least(end, end - _ns(F.lit(since), last)))
        first = F.greatest(first, F.lit(since))
    if until:
        end = F.greatest(begin, F.least(end, F.col("first_mono_ns") + _ns(F.col("first_ts"), F.lit(until))))
        last = F.least(last, F.lit(until))
    return rows.withColumns({"first_mono_ns": begin, "last_mono_ns": end, "first_ts": first, "last_ts": last})


def _begun(events: DataFrame, since: Optional[datetime]) -> DataFrame:
    """Return events, with holes that last longer than until ``since`` as if they began then."""
    if not since:
        return events
    length = F.col("until_mono_ns") - F.col("mono_ns")
    lasts = length > _ns(F.col("ts"), F.lit(since))
    return events.withColumn("ts", F.when(lasts, F.greatest("ts", F.lit(since))).otherwise(F.col("ts")))


def _ns(since: Column, until: Column) -> Column:
    return (F.unix_micros(until) - F.unix_micros(since)) * 1000


def _like(rows: DataFrame, column: str, pattern: str) -> DataFrame:
    if pattern == "*":
        return rows
    escaped = "".join(f"\\{each}" if each in "\\%_" else each for each in pattern)
    return rows.where(F.col(column).like(escaped.replace("*", "%")))
