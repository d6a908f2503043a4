# SPDX-License-Identifier: MIT
"""Writing Parquet files of a table, from a task or from the driver."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

import pyarrow as pa
import pyarrow.parquet as pq

from . import schemas
from .warehouse import Part, Partition, Warehouse

#: Rows that are kept in memory until they are written together
ROW_GROUP = 128 << 10
#: Partitions that a task writes to at a time. A device whose clock jumps about could open any number.
_OPEN = 8


class Parts:
    """Files of a table, one for each partition, which grow as rows come. Use it with ``with``.

    A file is named at random: who runs a task twice gets files twice, of which one is published.
    """

    def __init__(self, warehouse: Warehouse, table: str) -> None:
        self._warehouse = warehouse
        self._table = table
        self._format = _format(schemas.TABLES[table])
        self._open: dict[Partition, _Growing] = {}
        self._done: list[Part] = []

    def add(self, partition: Partition, columns: Mapping[str, pa.Array]) -> None:
        """Add rows to a partition."""
        growing = self._open.get(partition)
        if growing is None:
            if len(self._open) == _OPEN:
                self._close(next(iter(self._open)))
            path = new_path(self._warehouse, self._table, partition)
            growing = self._open[partition] = _Growing(path, self._format)
        growing.add(pa.table(dict(columns)))

    def close(self) -> list[Part]:
        """Finish all files and return them."""
        for partition in list(self._open):
            self._close(partition)
        return self._done

    def _close(self, partition: Partition) -> None:
        path, rows = self._open.pop(partition).close()
        self._done.append(part_of(self._warehouse, self._table, path, rows, partition))


class _Growing:
    """A file that rows are added to."""

    def __init__(self, path: Path, how: Mapping[str, Any]) -> None:
        self._path = path
        self._format = how
        self._waiting: list[pa.Table] = []
        self._writer: Optional[pq.ParquetWriter] = None
        self._rows = 0
        self._waiting_rows = 0

    def add(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self._waiting_rows += len(rows)
        if self._waiting_rows >= ROW_GROUP:
            self._flush()

    def close(self) -> tuple[Path, int]:
        self._flush()
        if self._writer:
            self._writer.close()
        return self._path, self._rows

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting).unify_dictionaries()
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema, **self._format)
        self._writer.write_table(table, row_group_size=ROW_GROUP)
        self._rows += len(table)
        self._waiting, self._waiting_rows = [], 0


#: Numbers that ascend, or nearly: their differences are small.
_ASCENDING = ("ts", "ts_ns", "mono_ns", "rec_seq", "serial", "reply_serial", "offset")
#: Few of these are equal.
_PLAIN = ("data", "latency_ns", *_ASCENDING)
#: What is looked for
_STATISTICS = ("session", "ts", "mono_ns", "name", "device")


def _format(columns: Sequence[schemas.Column]) -> dict[str, Any]:
    """Return how to write a table with these columns."""
    names = [each.name for each in columns]
    return {
        "compression": "snappy",
        # Spark would not read its dictionaries.
        "store_schema": False,
        "coerce_timestamps": "us",
        "use_dictionary": [
            each.name for each in columns if each.name not in _PLAIN and each.type != "boolean"
        ],
        "column_encoding": {name: "DELTA_BINARY_PACKED" for name in names if name in _ASCENDING},
        "write_statistics": [name for name in names if name in _STATISTICS],
    }


def new_path(warehouse: Warehouse, table: str, partition: Optional[Partition] = None) -> Path:
    """Return where to write a new file."""
    return warehouse.directory(table, partition) / f"{secrets.token_hex(12)}.parquet"


def part_of(
    warehouse: Warehouse, table: str, path: Path, rows: int, partition: Optional[Partition] = None
) -> Part:
    """Return what the log says of a file that has been written."""
    return Part(table, str(path.relative_to(warehouse.root)), rows, path.stat().st_size, partition)


def write_rows(warehouse: Warehouse, table: str, rows: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Write a file of a table that has no partitions. Returns it, or nothing if there are no rows."""
    if not rows:
        return []
    path = new_path(warehouse, table)
    schema = schemas.arrow_schema(schemas.TABLES[table])
    pq.write_table(pa.Table.from_pylist(list(rows), schema), path, compression="snappy", store_schema=False)
    return [part_of(warehouse, table, path, len(rows))]
