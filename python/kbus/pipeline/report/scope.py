# SPDX-License-Identifier: MIT
"""Which part of the tables a question is about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Optional

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..source.selection import parse_time
from ..tables.warehouse import Snapshot, Warehouse

_KEYS = ("since", "until", "device", "recorder", "load")


@dataclass(frozen=True)
class Scope:
    """Times (``since`` belongs to it, ``until`` does not), and patterns with ``*`` for device, recorder and
    load.
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
            said[key] = parse_time(value) if key in ("since", "until") else value
        return cls(**said)

    def __str__(self) -> str:
        parts = [f"{key}={value}" for key, value in self.__dict__.items() if value not in (None, "*")]
        return ",".join(part.replace("+00:00", "Z").replace(" ", "T") for part in parts) or "everything"


class Tables:
    """The tables of one moment, as far as they are within a scope. Each is a DataFrame, by name."""

    def __init__(
        self, spark: SparkSession, warehouse: Warehouse, scope: Scope, snapshot: Optional[Snapshot] = None
    ):
        self._spark = spark
        self._warehouse = warehouse
        self._snapshot = snapshot or warehouse.snapshot()
        self._scope = scope

    def within(self, scope: Scope) -> Tables:
        """Return the same tables in another scope."""
        return Tables(self._spark, self._warehouse, scope, self._snapshot)

    def __getitem__(self, table: str) -> DataFrame:
        rows = self._warehouse.read_parts(self._spark, table, self._snapshot.of(table))
        time = next((name for name in ("period", "ts", "last_ts") if name in rows.columns), "last_ts")
        if self._scope.since:
            rows = rows.where(F.col(time) >= F.lit(self._scope.since))
        if self._scope.until:
            rows = rows.where(F.col(time) < F.lit(self._scope.until))
        rows = _like(rows, "device", self._scope.device)
        if "load" in rows.columns:
            rows = _like(rows, "load", self._scope.load)
        if self._scope.recorder != "*":
            if "recorder" not in rows.columns:
                stretches = self._warehouse.read_parts(
                    self._spark, "stretches", self._snapshot.of("stretches")
                )
                sessions = _like(stretches, "recorder", self._scope.recorder).select("session").distinct()
                return rows.join(F.broadcast(sessions), "session", "left_semi")
            rows = _like(rows, "recorder", self._scope.recorder)
        return rows


def _like(rows: DataFrame, column: str, pattern: str) -> DataFrame:
    if pattern == "*":
        return rows
    escaped = "".join(f"\\{each}" if each in "\\%_" else each for each in pattern)
    return rows.where(F.col(column).like(escaped.replace("*", "%")))
