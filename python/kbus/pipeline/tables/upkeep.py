# SPDX-License-Identifier: MIT
"""Keeping the tables in shape: few files, and none that nobody can need any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Optional

import pyarrow as pa
from pyspark.sql import SparkSession

from . import schemas, tasks
from .delta import Table
from .parquet import Parts, all_or_none, opened
from .parts import Part, Partition
from .steps import STEPS, Entry, Steps
from .stores import Store
from .warehouse import Snapshot, Warehouse

#: Files with fewer bytes are put together, but not to ones with more than _LARGE.
_SMALL = 32 << 20
_LARGE = 128 << 20
#: Files that a task makes
_LOTS = 50


@dataclass
class Tidied:
    """What ``tidy`` did: files that it has put into others, these, and files that it has deleted."""

    before: int = 0
    after: int = 0
    cleared: int = 0


def tidy(spark: SparkSession, warehouse: Warehouse) -> Tidied:
    """Put small files of a partition together, and delete what nobody needs. Raises WarehouseError.

    Steps may go on beside it. Of two that would replace the same files, one fails; ``stream`` tries again.
    """
    done = Tidied()
    for table in schemas.TABLES:
        snapshot = warehouse.snapshot()
        lots = _lots(snapshot.of(table))
        if lots:
            together = tasks.grouped(lots, lambda lot: sum(part.bytes for part in lot), _LARGE, _LOTS)
            function = partial(_put_together, warehouse.root, table)
            with all_or_none(spark, warehouse.root):
                made = tasks.run(spark, function, together, f"putting files of {table} together")
            add, remove = [part for each in made for part in each], [part for lot in lots for part in lot]
            warehouse.commit(Entry("tidy", add, remove, is_data=False), snapshot)
            done.before += len(remove)
            done.after += len(add)
    _shorten(warehouse, warehouse.snapshot())
    done.cleared = clear(warehouse)
    return done


def _lots(parts: Iterable[Part]) -> list[list[Part]]:
    """Return which files are to become one."""
    small: dict[Optional[Partition], list[Part]] = defaultdict(list)
    for part in parts:
        if part.bytes < _SMALL:
            small[part.partition].append(part)
    return [
        lot
        for members in small.values()
        for lot in tasks.grouped(members, lambda part: part.bytes, _LARGE)
        if len(lot) > 1
    ]


def _put_together(root: Store, table: str, lots: list[list[Part]]) -> list[Part]:
    schema = schemas.arrow_schema(schemas.TABLES[table])
    with Parts(root, table) as together:
        for lot in lots:
            for part in lot:
                with opened(root / part.path) as file:
                    for batch in file.iter_batches():
                        # Spark wrote other types of times once.
                        rows = pa.Table.from_batches([batch]).cast(schema)
                        together.add(part.partition, dict(zip(rows.column_names, rows.columns)))
            # The next lot may be of the same partition.
            together.close()
        return together.close()


def _shorten(warehouse: Warehouse, snapshot: Snapshot) -> None:
    """Forget steps that no later one asks for."""
    notes = (snapshot.notes.get(step, {}) for step in ("conversations", "aggregate"))
    Steps(warehouse.root).shorten(min(note.get("upto", snapshot.version) for note in notes))


def clear(warehouse: Warehouse) -> int:
    """Delete files that nobody can need any more, by Delta's own rules, and return how many."""
    # Files of a step that died as it was published are in no log of a table before.
    warehouse.snapshot()
    return sum(Table(warehouse.root, table).vacuum() for table in (*schemas.TABLES, STEPS))
