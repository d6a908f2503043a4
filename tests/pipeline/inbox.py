# SPDX-License-Identifier: MIT
"""A directory of uploads, and a stream of what comes to it, without Spark."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kbus.pipeline.source.reading import Options
from kbus.pipeline.source.streaming import KbusStreamReader
from kbus.pipeline.tables import schemas

LONG_AGO = 10**9


class Inbox:
    """``numbers``, ``devices`` and ``damage`` are what has been read; ``offset`` is how far that is."""

    def __init__(self, where: Path) -> None:
        self.where = where
        columns = schemas.arrow_schema(schemas.SOURCE)
        self._reader = KbusStreamReader(
            Options({"path": str(where), "settle": "1000000"}), columns, gives_ranges=False
        )
        self.offset: dict[str, str] = {}
        self.numbers: list[int] = []
        self.devices: set[tuple[str, int]] = set()
        self.damage: list[str] = []

    def put(self, name: str, raw: bytes) -> None:
        (self.where / name).write_bytes(raw)

    def plan(self) -> list[InputPartition]:
        """Return the tasks for what is new."""
        begin, self.offset = self.offset, self._reader.latestOffset(self.offset, ReadAllAvailable())
        return list(self._reader.partitions(begin, self.offset))

    def read(self, tasks: list[InputPartition]) -> int:
        """Read these, and return how many messages there have been in all."""
        for task in tasks:
            for batch in self._reader.read(task):
                for row in batch.select(["rec_seq", "corrupt", "device", "bus"]).to_pylist():
                    if row["corrupt"]:
                        self.damage.append(row["corrupt"])
                    else:
                        self.numbers.append(row["rec_seq"])
                        self.devices.add((row["device"], row["bus"]))
        return len(self.numbers)

    def take(self) -> int:
        """Read what is new, and return how many messages there have been in all."""
        return self.read(self.plan())
