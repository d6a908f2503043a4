# SPDX-License-Identifier: MIT
"""One table as a Delta table: which files belong to it, and since which step.

A commit names the files that come and go, and the step that it is of, as the version of the application
``kbus-pipeline``. Delta refuses the second of two commits that were begun at the same version and name one
application, so a step gets into a table once, whoever tries how often.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Optional

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from ..decode.columns import Column
from . import schemas
from .parts import Part, Partition, WarehouseError, first_line, sync
from .stores import Store, delta_options

_APPLICATION = "kbus-pipeline"
_PLACE = [each.name for each in schemas.PARTITIONS]


def columns_of(table: str) -> tuple[Column, ...]:
    """Return all columns of a table, also those that its directories tell."""
    columns = schemas.columns_in(table)
    return (*columns, *schemas.PARTITIONS) if table in schemas.PARTITIONED else columns


def create(root: Store, table: str, settings: Mapping[str, str]) -> None:
    """Make a table below ``root`` unless it is there."""
    settings = dict(settings)
    if table in schemas.PARTITIONED:
        # If the log lacks the bounds of a column, and this does not say so, filters of deltalake leave out
        # all rows.
        told = [each.name for each in columns_of(table) if each.name in schemas.STATISTICS]
        settings["delta.dataSkippingStatsColumns"] = ",".join(told)
    try:
        DeltaTable.create(
            str(root / table),
            schemas.arrow_schema(columns_of(table)),
            mode="ignore",
            partition_by=_PLACE if table in schemas.PARTITIONED else None,
            configuration=settings,
            # Settings of ours are none that Delta knows.
            raise_if_key_not_exists=False,
            storage_options=delta_options(root),
        )
    except (DeltaError, OSError) as error:
        if is_there(root, table):
            # Somebody else has made it at the same time.
            return
        raise WarehouseError(f"can't make a table in {root / table}: {first_line(error)}") from error
    _sync_log(root / table, -1)


def is_there(root: Store, table: str) -> bool:
    """Return whether there is a table of that name. Raises WarehouseError if that can't be found out."""
    try:
        return DeltaTable.is_deltatable(str(root / table), storage_options=delta_options(root))
    except (DeltaError, OSError) as error:
        raise WarehouseError(f"can't look for tables in {root}: {first_line(error)}") from error


class Table:
    """A table as it is at one version of it."""

    def __init__(self, root: Store, name: str) -> None:
        self.name = name
        self._where = root / name
        try:
            self._table = DeltaTable(str(self._where), storage_options=delta_options(root))
        except TableNotFoundError as error:
            raise WarehouseError(f"the table {self._where} is missing") from error
        except (DeltaError, OSError) as error:
            raise WarehouseError(
                f"the table {self._where} can't be read: {first_line(error)}: `kbus-pipeline repair` mends"
                " a log that a power cut has torn"
            ) from error

    @property
    def step(self) -> int:
        """The last step that has changed it; -1 for none."""
        found = self._table.transaction_version(_APPLICATION)
        return -1 if found is None else found

    @property
    def settings(self) -> dict[str, str]:
        """What it was made with."""
        return dict(self._table.metadata().configuration)

    def actions(self) -> pa.Table:
        """Return Delta's own table of the files."""
        return pa.table(self._table.get_add_actions(flatten=True))

    def parts(self) -> list[Part]:
        """Return the files that belong to the table."""
        found = self.actions()
        names = ["path", "num_records", "size_bytes"]
        if self.name in schemas.PARTITIONED:
            names += [f"partition.{name}" for name in _PLACE]
        return [self._part(*row) for row in zip(*(found[name].to_pylist() for name in names))]

    def _part(self, path: str, rows: int, size: int, date: Any = None, bucket: int = 0) -> Part:
        partition = Partition(date.isoformat(), bucket) if date is not None else None
        return Part(self.name, f"{self.name}/{path}", rows, size, partition)

    def commit(
        self, step: int, add: Iterable[Part], remove: Iterable[Part], is_data: bool = True, what: str = ""
    ) -> bool:
        """Add and remove files as a step, all at once; False if somebody else has been quicker.

        ``is_data`` is False if the same rows are only in other files.
        """
        properties = CommitProperties(
            custom_metadata={"step": step, "what": what}, app_transactions=[Transaction(_APPLICATION, step)]
        )
        return self._commit(add, remove, is_data, properties)

    def rearrange(self, add: Iterable[Part], remove: Iterable[Part]) -> bool:
        """Put what is in some files into others, which is no step; False as for ``commit``."""
        return self._commit(add, remove, False, CommitProperties())

    def _commit(
        self, add: Iterable[Part], remove: Iterable[Part], is_data: bool, properties: CommitProperties
    ) -> bool:
        now = int(time.time() * 1000)
        actions: list[Any] = [
            AddAction(self._inside(each), each.bytes, self._values(each), now, is_data, each.stats)
            for each in add
        ]
        actions += [
            RemoveAction(self._inside(each), is_data, now, each.bytes, self._values(each)) for each in remove
        ]
        before = self._table.version()
        try:
            self._table.create_write_transaction(
                actions,
                "append",
                schemas.arrow_schema(columns_of(self.name)),
                _PLACE if self.name in schemas.PARTITIONED else None,
                commit_properties=properties,
            )
        except CommitFailedError:
            return False
        except (DeltaError, OSError) as error:
            raise WarehouseError(f"can't change the table {self._where}: {first_line(error)}") from error
        _sync_log(self._where, before)
        return True

    def _inside(self, part: Part) -> str:
        return part.path.removeprefix(f"{self.name}/")

    def _values(self, part: Part) -> dict[str, Optional[str]]:
        return {key: str(value) for key, value in part.partition._asdict().items()} if part.partition else {}

    def vacuum(self) -> int:
        """Delete what nobody can need any more, by Delta's own rules, and return how many files.

        That is what was removed, or written and never added, longer ago than
        ``delta.deletedFileRetentionDuration`` says, a week unless it is set.
        """
        try:
            if not self._table.vacuum(dry_run=True, full=True):
                return 0
            return len(self._table.vacuum(dry_run=False, full=True))
        except DeltaError as error:
            raise WarehouseError(f"can't clear {self._where}: {first_line(error)}") from error


def _sync_log(where: Store, after: int) -> None:
    """Have what the log says after version ``after`` on the disk. Delta leaves that to the file system."""
    if not isinstance(where, Path):
        return
    log = where / "_delta_log"
    for path in log.glob("*.json"):
        if path.stem.isdigit() and int(path.stem) > after:
            sync(path)
    sync(log)
    sync(where)
