# SPDX-License-Identifier: MIT
"""Which messages are wanted: what the data source can leave out before Spark sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Optional

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import datasource

from ..decode.batches import Messages

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Selection:
    """Devices (None: all), times in microseconds since 1970 (``since`` is wanted, ``until`` is not), name
    prefix.
    """

    devices: Optional[frozenset[str]] = None
    since: Optional[int] = None
    until: Optional[int] = None
    prefix: str = ""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Selection:
        """Return what ``device``, ``since``, ``until`` and ``name`` ask for. Raises ValueError."""
        devices = options.get("device")
        return cls(
            frozenset(devices.split(",")) if devices is not None else None,
            _option_time(options, "since"),
            _option_time(options, "until"),
            options.get("name", ""),
        )

    def narrowed(self, filters: Iterable[datasource.Filter]) -> Selection:
        """Return this, without what these filters of Spark rule out. Spark applies them once more itself."""
        selection = self
        for each in filters:
            selection = selection._narrowed_by(each)
        return selection

    def _narrowed_by(self, each: datasource.Filter) -> Selection:
        column = ".".join(getattr(each, "attribute", ()))
        value: Any = getattr(each, "value", None)
        if column == "device" and isinstance(each, (datasource.EqualTo, datasource.In)):
            values = frozenset(value) if isinstance(each, datasource.In) else frozenset([value])
            return replace(self, devices=values if self.devices is None else self.devices & values)
        if column == "name" and isinstance(each, (datasource.EqualTo, datasource.StringStartsWith)):
            return replace(self, prefix=max(self.prefix, value, key=len))
        if column == "ts" and isinstance(value, datetime):
            time = _microseconds(value)
            if isinstance(each, (datasource.GreaterThan, datasource.GreaterThanOrEqual)):
                return replace(self, since=time if self.since is None else max(self.since, time))
            if isinstance(each, (datasource.LessThan, datasource.LessThanOrEqual)):
                return replace(self, until=time + 1 if self.until is None else min(self.until, time + 1))
        return self

    def wants_device(self, device: str) -> bool:
        """Return whether messages of this device are wanted."""
        return self.devices is None or device in self.devices

    def rows(self, found: Messages) -> Optional[NDArray[np.bool_]]:
        """Return which rows are wanted, None if all are."""
        if self.since is None and self.until is None and not self.prefix:
            return None
        keep = np.ones(len(found), bool)
        time = found.parsed.ts_ns // 1000
        if self.since is not None:
            keep &= time >= self.since
        if self.until is not None:
            keep &= time < self.until
        if self.prefix:
            names = found.columns["name"]
            starts = pc.starts_with(names.dictionary, pattern=self.prefix)
            keep &= starts.to_numpy(zero_copy_only=False)[names.indices.to_numpy()]
        return None if keep.all() else keep


def _option_time(options: Mapping[str, str], name: str) -> Optional[int]:
    text = options.get(name)
    if text is None:
        return None
    try:
        return _microseconds(parse_time(text))
    except ValueError as error:
        raise ValueError(f"option {name}: {error}") from error


def parse_time(text: str) -> datetime:
    """Return the time that an ISO 8601 text says, UTC unless it says another zone. Raises ValueError."""
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"{text!r} is no time like 2026-03-01T12:00:00") from None
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


def _microseconds(time: datetime) -> int:
    zoned = time if time.tzinfo else time.replace(tzinfo=timezone.utc)
    delta = zoned - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def filtered(batch: pa.RecordBatch, keep: Optional[NDArray[np.bool_]]) -> pa.RecordBatch:
    """Return the rows of ``batch`` that are to be kept."""
    return batch if keep is None else batch.filter(pa.array(keep))
