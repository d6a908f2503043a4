# SPDX-License-Identifier: MIT
"""Where the tables are: a Delta table each, and ``steps``, which holds them together.

Tasks write Parquet files that nobody knows of. Then the driver looks at them, and publishes a step, which
makes them part of the tables, all at once or not at all; see ``steps`` and ``delta``.

That is a directory on a file system that all machines of the cluster see under the same name, and on which
a hard link is made by one of two who try; or an S3 store (see ``stores``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from . import delta, parts, schemas
from .delta import Table
from .fetch import fetched
from .footers import seen
from .parquet import read_rows
from .parts import ConflictError, Part, Partition, WarehouseError
from .steps import STEPS, Entry, Steps
from .stores import make_directory, store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULT_BUCKETS = 16
#: Of what is in the directory. 1 had a log of its own, which is found by its name.
_FORMAT = 2
OLD_LOG = "_log"
#: Settings of the Delta tables
_FORMAT_KEY, _BUCKETS_KEY = "kbus.format", "kbus.buckets"
#: How often a step is put into a table that others change, before that is an error
_TRIES = 100
#: Bytes of a table that a single task reads
_FEW = 16 << 20


@dataclass
class Snapshot:
    """The tables after step ``version``: their files, and the last note of each kind of step."""

    version: int
    buckets: int
    notes: dict[str, dict[str, Any]]
    tables: dict[str, Table]
    _parts: dict[str, list[Part]] = field(default_factory=dict)

    def of(self, table: str, partitions: Optional[Iterable[Partition]] = None) -> list[Part]:
        """Return the files of a table, only of these partitions if any are given."""
        if table not in self._parts:
            self._parts[table] = self.tables[table].parts()
        if partitions is None:
            return list(self._parts[table])
        wanted = set(partitions)
        return [part for part in self._parts[table] if part.partition in wanted]


class Warehouse:
    """The tables in ``root``. Raises ValueError if that is neither a directory nor in S3."""

    def __init__(self, root: str) -> None:
        self.root = store(root, "tables")

    @classmethod
    def create(cls, root: str, buckets: int = DEFAULT_BUCKETS) -> Warehouse:
        """Return the tables in ``root``, which are made if there are none. Raises WarehouseError."""
        warehouse = cls(root)
        try:
            make_directory(warehouse.root)
        except OSError as error:
            raise WarehouseError(f"can't make tables in {root}: {error.strerror}") from error
        warehouse._check_old()
        if not delta.is_there(warehouse.root, STEPS):
            settings = settings_of(buckets)
            # Who finds the last one finds all of them.
            for table in (*schemas.TABLES, STEPS):
                delta.create(warehouse.root, table, settings)
        warehouse._check_format()
        return warehouse

    @classmethod
    def open(cls, root: str) -> Warehouse:
        """Return the tables in ``root``. Raises WarehouseError if there are none."""
        warehouse = cls(root)
        warehouse._check_old()
        if not delta.is_there(warehouse.root, STEPS):
            raise WarehouseError(f"there are no tables in {root}: `kbus-pipeline ingest` makes them")
        warehouse._check_format()
        return warehouse

    def _check_old(self) -> None:
        if isinstance(self.root, Path) and (self.root / OLD_LOG).is_dir():
            raise WarehouseError(
                f"the tables in {self.root} are of an earlier version:"
                f" `kbus-pipeline upgrade --tables {self.root}` makes them Delta tables"
            )

    def _check_format(self) -> None:
        found = Table(self.root, STEPS).settings.get(_FORMAT_KEY)
        if found != str(_FORMAT):
            raise WarehouseError(
                f"the tables in {self.root} are of format {found}, and this program knows format {_FORMAT}"
            )

    def snapshot(self) -> Snapshot:
        """Return what the tables consist of now. What a step that died has left to do is done first."""
        for _ in range(_TRIES):
            steps = Steps(self.root)
            tables = {name: Table(self.root, name) for name in schemas.TABLES}
            latest = steps.state.latest
            behind = {name for name, table in tables.items() if table.step < latest.get(name, -1)}
            if behind:
                self._bring_up(steps, {name: tables[name].step for name in behind})
            elif all(table.step == latest.get(name, -1) for name, table in tables.items()):
                buckets = int(steps.settings[_BUCKETS_KEY])
                return Snapshot(steps.state.version, buckets, steps.state.notes, tables)
            # Else somebody has done a step since its rows were read.
        raise WarehouseError(f"the tables in {self.root} change too often to be looked at")

    def _bring_up(self, steps: Steps, done: dict[str, int]) -> None:
        """Put steps into the tables that do not have them, given the last one that each has."""
        for entry in steps.known_since(min(done.values())):
            for name in sorted(entry.tables() & done.keys()):
                table = Table(self.root, name)
                if table.step < entry.version:
                    add, remove = (
                        [part for part in found if part.table == name] for found in (entry.add, entry.remove)
                    )
                    # If somebody else was quicker, that is seen next time.
                    if not table.commit(entry.version, add, remove, entry.is_data, entry.step):
                        return

    def entries(self, after: int) -> list[Entry]:
        """Return the steps later than version ``after``."""
        return Steps(self.root).since(after)

    def commit(self, entry: Entry, based_on: Snapshot) -> Snapshot:
        """Publish a step that was made from ``based_on``, and return the tables as they are then.

        Raises ConflictError if another step that concerns the same tables has been published meanwhile, and
        WarehouseError if a file that it adds can't be seen from here.
        """
        entry.add = [seen(self.root, part) for part in entry.add]
        for _ in range(_TRIES):
            steps = Steps(self.root)
            since = steps.since(based_on.version)
            if any(other.is_same(entry) for other in since):
                # A store has published it, and has not come to say so.
                return self.snapshot()
            if any(entry.collides_with(other) for other in since):
                raise ConflictError(
                    f"somebody else has changed the tables in {self.root} meanwhile: start again"
                )
            if steps.publish(entry):
                return self.snapshot()
        raise WarehouseError(f"the tables in {self.root} change too often for a step to be published")

    def read(
        self, spark: SparkSession, table: str, partitions: Optional[Iterable[Partition]] = None
    ) -> DataFrame:
        """Return a table as it is now, only these partitions if any are given. ``date`` and ``bucket`` are
        columns.
        """
        return self.read_parts(spark, table, self.snapshot().of(table, partitions))

    def read_parts(self, spark: SparkSession, table: str, found: Iterable[Part]) -> DataFrame:
        """Return the rows of these files of a table. Raises WarehouseError if one is missing or cut."""
        found = list(found)
        schema = schemas.spark_schema(delta.columns_of(table))
        if not found:
            # Spark knows that nothing comes of it.
            return spark.createDataFrame([], schema).where("false")
        parts.check(self.root, found)
        if not isinstance(self.root, Path):
            return fetched(spark, self.root, table, found)
        paths = [f"file://{self.root / part.path}" for part in found]
        rows = spark.read.schema(schema).option("basePath", f"file://{self.root / table}").parquet(*paths)
        # What a single task has, need not be shuffled.
        return rows.coalesce(1) if sum(part.bytes for part in found) < _FEW else rows

    def rows(self, found: Iterable[Part], columns: Optional[list[str]] = None) -> list[dict[str, Any]]:
        """Return the rows of these files without Spark, all columns or these: for tables with few rows."""
        found = list(found)
        parts.check(self.root, found)
        return [row for part in found for row in read_rows(self.root / part.path, columns)]


def settings_of(buckets: int) -> dict[str, str]:
    """Return what Delta tables with so many buckets of devices are made with."""
    return {_FORMAT_KEY: str(_FORMAT), _BUCKETS_KEY: str(buckets)}
