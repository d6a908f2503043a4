# SPDX-License-Identifier: MIT
"""The directory with the tables, and the log that says which files belong to them.

A table is a directory of Parquet files. A file belongs to its table if the log says so: ``_log/N.json``, one
entry a step, names the files that the step adds and removes, in all tables together. An entry appears at once
or not at all, and only one writer can make the Nth. So a step that dies before its entry has changed nothing,
whatever files it has left behind; the next step clears those away. Every hundredth entry is followed by
``N.all.json``, which names all files, so that the log is not read from its beginning for ever.

The directory must be on a file system that all machines of the cluster see, and on which a hard link is made
by one of two who try.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from . import schemas

#: Every so many entries there is a list of everything
_COMPLETE_EVERY = 100
#: Files that no entry names, and that are so old, are of a step that has died: seconds.
_ABANDONED = 24 * 3600
DEFAULT_BUCKETS = 16


class WarehouseError(Exception):
    """The directory can't be used; the text says why."""


class Partition(NamedTuple):
    """A directory within a table: a date, as ISO 8601, and a bucket of devices."""

    date: str
    bucket: int


@dataclass(frozen=True)
class Part:
    """A Parquet file of a table: its path within the directory of the tables, rows, bytes, and partition."""

    table: str
    path: str
    rows: int
    bytes: int
    partition: Optional[Partition] = None


@dataclass
class Entry:
    """A step: what it did, which files come and go, and what it wants to remember (``note``)."""

    step: str
    add: list[Part] = field(default_factory=list)
    remove: list[str] = field(default_factory=list)
    note: dict[str, Any] = field(default_factory=dict)
    version: int = -1

    def tables(self) -> set[str]:
        """Return the tables whose files it adds or removes."""
        return {part.table for part in self.add} | {path.split("/")[0] for path in self.remove}


@dataclass
class Snapshot:
    """The tables after ``version``: their files by path, and the last note of each step."""

    version: int
    buckets: int
    parts: dict[str, Part]
    notes: dict[str, dict[str, Any]]

    def of(self, table: str, partitions: Optional[Iterable[Partition]] = None) -> list[Part]:
        """Return the files of a table, only of these partitions if any are given."""
        wanted = None if partitions is None else set(partitions)
        return [
            part
            for part in self.parts.values()
            if part.table == table and (wanted is None or part.partition in wanted)
        ]


class Warehouse:
    """The tables in the directory ``root``."""

    def __init__(self, root: str) -> None:
        self.root = Path(root)
        self._log = self.root / "_log"

    @classmethod
    def create(cls, root: str, buckets: int = DEFAULT_BUCKETS) -> Warehouse:
        """Return the tables in ``root``, which are made if there are none. Raises WarehouseError."""
        warehouse = cls(root)
        try:
            warehouse._log.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WarehouseError(f"can't make tables in {root}: {error.strerror}") from error
        if warehouse._last() < 0:
            warehouse._publish(Entry("create", note={"buckets": buckets}), 0)
        return warehouse

    @classmethod
    def open(cls, root: str) -> Warehouse:
        """Return the tables in ``root``. Raises WarehouseError if there are none."""
        warehouse = cls(root)
        if not warehouse._log.is_dir() or warehouse._last() < 0:
            raise WarehouseError(f"there are no tables in {root}: `kbus-pipeline ingest` makes them")
        return warehouse

    def snapshot(self) -> Snapshot:
        """Return what the tables consist of now."""
        last = self._last()
        complete = [version for version in self._versions(".all.json") if version <= last]
        snapshot = Snapshot(-1, 0, {}, {})
        if complete:
            said = json.loads(self._path(complete[-1], ".all.json").read_text())
            parts = [_part(each) for each in said["parts"]]
            snapshot = Snapshot(
                complete[-1], said["buckets"], {each.path: each for each in parts}, said["notes"]
            )
        for entry in self.entries(snapshot.version):
            if entry.step == "create":
                snapshot.buckets = entry.note["buckets"]
            for path in entry.remove:
                del snapshot.parts[path]
            snapshot.parts.update({part.path: part for part in entry.add})
            snapshot.notes[entry.step] = entry.note
            snapshot.version = entry.version
        return snapshot

    def entries(self, after: int) -> list[Entry]:
        """Return the entries later than version ``after``."""
        return [self._entry(version) for version in range(after + 1, self._last() + 1)]

    def commit(self, entry: Entry, based_on: Snapshot) -> int:
        """Publish a step that was made from ``based_on``, and return its version.

        Raises WarehouseError if somebody else has published a step meanwhile that concerns the same tables.
        """
        version = based_on.version + 1
        while not self._publish(entry, version):
            if self._entry(version).tables() & entry.tables():
                raise WarehouseError(
                    f"somebody else has changed the tables in {self.root} meanwhile: start again"
                )
            version += 1
        if version % _COMPLETE_EVERY == 0:
            now = self.snapshot()
            said = {
                "buckets": now.buckets,
                "parts": [asdict(each) for each in now.parts.values()],
                "notes": now.notes,
            }
            self._write(self._path(version, ".all.json"), said)
        return version

    def directory(self, table: str, partition: Optional[Partition] = None) -> Path:
        """Return where files of a table, or of one of its partitions, are. It is made if it is not there."""
        path = self.root / table
        if partition:
            path = path / f"date={partition.date}" / f"bucket={partition.bucket}"
        path.mkdir(parents=True, exist_ok=True)
        return path

    def read(
        self, spark: SparkSession, table: str, partitions: Optional[Iterable[Partition]] = None
    ) -> DataFrame:
        """Return a table as it is now, only these partitions if any are given. ``date`` and ``bucket`` are
        columns.
        """
        return self.read_parts(spark, table, self.snapshot().of(table, partitions))

    def read_parts(self, spark: SparkSession, table: str, parts: Iterable[Part]) -> DataFrame:
        """Return the rows of these files of a table."""
        columns = schemas.TABLES[table]
        if table in schemas.PARTITIONED:
            columns = (*columns, *schemas.PARTITIONS)
        schema = schemas.spark_schema(columns)
        paths = [str(self.root / part.path) for part in parts]
        if not paths:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).option("basePath", str(self.root / table)).parquet(*paths)

    def rows(self, parts: Iterable[Part], columns: Optional[list[str]] = None) -> list[dict[str, Any]]:
        """Return the rows of these files without Spark, all columns or these: for tables with few rows."""
        found: list[dict[str, Any]] = []
        for part in parts:
            found += pq.read_table(self.root / part.path, columns=columns, partitioning=None).to_pylist()
        return found

    def clear_abandoned(self) -> int:
        """Remove files that no entry names, if they are a day old; return how many."""
        named = set(self.snapshot().parts)
        removed = 0
        for table in schemas.TABLES:
            for path in (self.root / table).rglob("*.parquet"):
                if (
                    str(path.relative_to(self.root)) not in named
                    and time.time() - path.stat().st_mtime > _ABANDONED
                ):
                    path.unlink()
                    removed += 1
        return removed

    def _versions(self, suffix: str) -> list[int]:
        names = [path.name for path in self._log.iterdir() if path.name.endswith(suffix)]
        return sorted(int(stem) for stem in (name[: -len(suffix)] for name in names) if stem.isdigit())

    def _last(self) -> int:
        return max(self._versions(".json"), default=-1)

    def _path(self, version: int, suffix: str) -> Path:
        return self._log / f"{version:012d}{suffix}"

    def _entry(self, version: int) -> Entry:
        said = json.loads(self._path(version, ".json").read_text())
        return Entry(
            said["step"], [_part(each) for each in said["add"]], said["remove"], said["note"], version
        )

    def _publish(self, entry: Entry, version: int) -> bool:
        said = asdict(entry)
        del said["version"]
        return self._write(self._path(version, ".json"), said)

    def _write(self, path: Path, said: Any) -> bool:
        """Write a file at once or not at all; False if it is there already."""
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            with draft.open("w") as file:
                json.dump(said, file)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, path)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        return True


def _part(said: dict[str, Any]) -> Part:
    partition = Partition(*said["partition"]) if said["partition"] else None
    return Part(said["table"], said["path"], said["rows"], said["bytes"], partition)
