# SPDX-License-Identifier: MIT
"""Parquet files of a table: writing them, from a task or from the driver, and reading those with few rows."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..decode.columns import Column
from . import schemas
from .parts import Part, Partition, WarehouseError, first_line, place_of, sync
from .stores import Store, arrow, delete, delete_below, inside, size_of

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

#: Rows of a partition that are kept in memory until they are written together
ROW_GROUP = 128 << 10
#: Bytes of all partitions that are kept in memory: the largest lot is written when there are more
_TOGETHER = 256 << 20
#: Partitions that a task writes to at a time. A device whose clock jumps about could open any number.
_OPEN = 256
#: Spark's property that tells tasks how the names of their files begin
_LOT = "kbus.lot"
#: A file that a task has written
WRITTEN = (
    Column("path", "string", "as in Part"),
    Column("rows", "bigint", "likewise"),
    Column("bytes", "bigint", "likewise"),
    Column("date", "string", "of its partition"),
    Column("bucket", "int", "likewise"),
)


class Parts:
    """Files of a table, one for each partition, which grow as rows come.

    Use it with ``with``: an exception in there deletes all of them. ``root`` is where the tables are. A file
    is named at random: who runs a task twice gets files twice, of which one is published. ``add`` and
    ``close`` raise WarehouseError, with the path, if a file can't be written.
    """

    def __init__(self, root: Store, table: str) -> None:
        self._root = root
        self._table = table
        self._format = _format(schemas.TABLES[table])
        self._open: dict[Optional[Partition], _Growing] = {}
        self._done: list[Part] = []
        self._waiting = 0

    def __enter__(self) -> Parts:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if error is not None:
            for growing in self._open.values():
                growing.discard()
            for part in self._done:
                delete(self._root / part.path)

    def add(self, partition: Optional[Partition], columns: Mapping[str, pa.Array]) -> None:
        """Add rows to a partition."""
        rows = pa.table(dict(columns))
        growing = self._open.pop(partition, None)
        if growing is None:
            if len(self._open) == _OPEN:
                # The one that has had no rows for the longest time.
                self._close(next(iter(self._open)))
            growing = _Growing(new_path(self._root, self._table, partition), self._format)
        self._open[partition] = growing
        self._waiting += rows.nbytes - growing.add(rows)
        if self._waiting > _TOGETHER:
            self._waiting -= max(self._open.values(), key=lambda each: each.waiting).flush()

    def close(self) -> list[Part]:
        """Finish all files and return them."""
        for partition in list(self._open):
            self._close(partition)
        return self._done

    def _close(self, partition: Optional[Partition]) -> None:
        growing = self._open[partition]
        self._waiting -= growing.waiting
        path, rows = growing.close()
        self._done.append(_part_of(self._root, self._table, path, rows, partition))
        del self._open[partition]


def by_partition(made: pa.Table) -> Iterator[tuple[Partition, dict[str, pa.Array]]]:
    """Yield the columns of rows by partition, of which they tell nothing then."""
    place = made["date"].cast(pa.int32()).to_numpy().astype(np.int64) << 32 | made["bucket"].to_numpy()
    made = made.drop_columns(["date", "bucket"])
    for each in np.unique(place).tolist():
        rows = made.filter(pa.array(place == each))
        day = date(1970, 1, 1) + timedelta(days=each >> 32)
        yield Partition(day.isoformat(), each & 0xFFFFFFFF), dict(zip(rows.column_names, rows.columns))


class _Growing:
    """A file that rows are added to. ``waiting`` is how many bytes of them are in memory."""

    def __init__(self, path: Store, how: Mapping[str, Any]) -> None:
        self._path = path
        self._format = how
        self._lots: list[pa.Table] = []
        self._writer: Optional[pq.ParquetWriter] = None
        self._rows = self._waiting_rows = 0
        self.waiting = 0

    def add(self, rows: pa.Table) -> int:
        """Add rows, and return how many bytes were written, of these and earlier ones."""
        self._lots.append(rows)
        self._waiting_rows += len(rows)
        self.waiting += rows.nbytes
        return self.flush() if self._waiting_rows >= ROW_GROUP else 0

    def flush(self) -> int:
        """Write what is in memory, and return how many bytes that were."""
        written = self.waiting
        if self._lots:
            table = pa.concat_tables(self._lots).unify_dictionaries()
            with _writing(self._path):
                if self._writer is None:
                    filesystem, name = arrow(self._path)
                    self._writer = pq.ParquetWriter(name, table.schema, filesystem=filesystem, **self._format)
                self._writer.write_table(table, row_group_size=ROW_GROUP)
            self._rows += len(table)
            self._lots, self._waiting_rows, self.waiting = [], 0, 0
        return written

    def close(self) -> tuple[Store, int]:
        self.flush()
        if self._writer:
            with _writing(self._path):
                self._writer.close()
        return self._path, self._rows

    def discard(self) -> None:
        """Delete the file."""
        if self._writer:
            # A store would keep what it has of a file that is not closed.
            with suppress(OSError, pa.ArrowException):
                self._writer.close()
        delete(self._path)


@contextmanager
def _writing(path: Store) -> Iterator[None]:
    """Have errors of the file system name the file: Arrow's don't."""
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else first_line(error)
        raise WarehouseError(f"can't write {path}: {why}") from error


#: Numbers that ascend, or nearly: their differences are small.
_ASCENDING = ("ts", "ts_ns", "mono_ns", "rec_seq", "serial", "reply_serial", "offset")
#: Few of these are equal.
_PLAIN = ("data", "latency_ns", *_ASCENDING)


def _format(columns: Sequence[Column]) -> dict[str, Any]:
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
        "write_statistics": [name for name in names if name in schemas.STATISTICS],
    }


def new_path(root: Store, table: str, partition: Optional[Partition] = None) -> Store:
    """Return where to write a new file."""
    # Who only reads should not wait for it.
    from pyspark import TaskContext

    task = TaskContext.get()
    lot = (task and task.getLocalProperty(_LOT)) or ""
    return place_of(root, table, partition) / f"{lot}{secrets.token_hex(12)}.parquet"


@contextmanager
def all_or_none(spark: SparkSession, root: Store) -> Iterator[None]:
    """Delete all that tasks have written to tables in here if there is an exception.

    Spark kills those that still run when one fails, so that these can't do it. To be left before a step is
    published.
    """
    lot = f"{secrets.token_hex(6)}-"
    spark.sparkContext.setLocalProperty(_LOT, lot)
    try:
        yield
    except BaseException:
        delete_below(root, lot)
        raise


def _part_of(root: Store, table: str, path: Store, rows: int, partition: Optional[Partition] = None) -> Part:
    """Return what is to be published of a file that has been written, once it is on the disk."""
    if isinstance(path, Path):
        with _writing(path):
            sync(path)
            for directory in path.parents:
                sync(directory)
                if directory == root:
                    break
    return Part(table, inside(path, root), rows, size_of(path), partition)


def write_rows(root: Store, table: str, rows: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Write a file of a table that has no partitions. Returns it, or nothing if there are no rows.

    Raises WarehouseError, with the path, if it can't be written.
    """
    if not rows:
        return []
    path = new_path(root, table)
    schema = schemas.arrow_schema(schemas.columns_in(table))
    filesystem, name = arrow(path)
    made = pa.Table.from_pylist(list(rows), schema)
    try:
        with _writing(path):
            pq.write_table(made, name, filesystem=filesystem, compression="snappy", store_schema=False)
        return [_part_of(root, table, path, len(rows))]
    except BaseException:
        delete(path)
        raise


def read_rows(path: Store, columns: Optional[list[str]] = None) -> list[dict[str, Any]]:
    """Return the rows of a file, all columns or these. Raises WarehouseError if it can't be read."""
    rows: list[dict[str, Any]] = read_table(path, columns).to_pylist()
    return rows


def opened(path: Store) -> pq.ParquetFile:
    """Open a file to read it batch by batch. Raises OSError, and ArrowInvalid if it is damaged."""
    filesystem, name = arrow(path)
    # Else each column of a row group is a request to a store.
    return pq.ParquetFile(name, filesystem=filesystem, pre_buffer=True)


def read_table(path: Store, columns: Optional[list[str]] = None, filters: Any = None) -> pa.Table:
    """Return a file's rows that Arrow's ``filters`` keep. Raises WarehouseError if it can't be read."""
    filesystem, name = arrow(path)
    try:
        return pq.read_table(name, columns=columns, filters=filters, filesystem=filesystem, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise WarehouseError(f"{path} can't be read: {error}") from error


def write_batches(root: Store, table: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write rows with their partitions, as a task, and yield which files these are."""
    # Spark says of some columns that they have no nulls.
    schema = schemas.arrow_schema((*schemas.TABLES[table], *schemas.PARTITIONS))
    with Parts(root, table) as parts:
        for batch in batches:
            for partition, columns in by_partition(pa.Table.from_batches([batch]).cast(schema)):
                parts.add(partition, columns)
        made = parts.close()
    yield told(made)


def written(table: str, rows: Iterable[Row]) -> list[Part]:
    """Return the files that rows with the columns WRITTEN tell of."""
    return [
        Part(table, each["path"], each["rows"], each["bytes"], Partition(each["date"], each["bucket"]))
        for each in rows
    ]


def told(parts: Iterable[Part]) -> pa.RecordBatch:
    """Return the rows that tell of these files, for a task to yield."""
    rows = [
        {"path": each.path, "rows": each.rows, "bytes": each.bytes, **each.partition._asdict()}
        for each in parts
        if each.partition
    ]
    return pa.RecordBatch.from_pylist(rows, schemas.arrow_schema(WRITTEN))
