# SPDX-License-Identifier: MIT
"""The data source ``kbus``: captures as DataFrames, batch and streaming.

::

    from kbus.pipeline import register
    register(spark)
    spark.read.format("kbus").load("captures").where("name like '$.Pump.%'").show()

======== ============================================================================================
option   meaning
======== ============================================================================================
path     a file, a directory or a pattern
mode     PERMISSIVE (default): damage is a row with ``corrupt``; DROPMALFORMED: it is left out;
         FAILFAST: it is an error
split    bytes from which on a file is read by several tasks, 134217728 by default
device   only these devices, with commas between them
since    only messages from this time on, ISO 8601
until    only messages before this time
name     only messages whose name begins so
maxBytes streaming: take about so many bytes of captures at a time; a piece of 2 MiB is the least
settle   streaming: a file that nobody has written to for so many seconds is not growing any more (60)
ranges   streaming: true gives a row a range of a file that is new, and not its messages
======== ============================================================================================

The last four are also taken from filters on ``device``, ``ts`` and ``name``, if
``spark.sql.python.filterPushdown.enabled`` is true; without it Spark filters after reading. Rows of damage
come whatever is selected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Union

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from kbus.capture.input import open_file

from ..decode.paths import is_gzip, uploads
from ..decode.scan import Range, outline
from ..tables import schemas
from .reading import WHOLE, CorruptCapture, Options, Task, read_range, wanted_columns
from .streaming import RANGES, KbusStreamReader

__all__ = ["CorruptCapture", "KbusDataSource", "KbusReader", "register"]


class KbusDataSource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """Return what it is called in ``format()``."""
        return "kbus"

    def schema(self) -> Union[StructType, str]:
        """Return the columns of messages, and ``path`` and ``corrupt``; or those of ranges."""
        if self._gives_ranges():
            return ", ".join(f"{name} {'string' if name == 'path' else 'bigint'}" for name in RANGES.names)
        return schemas.spark_schema(schemas.SOURCE)

    def _gives_ranges(self) -> bool:
        return self.options.get("ranges", "false").lower() == "true"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads files as they are now."""
        return KbusReader(Options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what reads files as they come and grow."""
        gives_ranges = self._gives_ranges()
        columns = RANGES if gives_ranges else wanted_columns(schema)
        return KbusStreamReader(Options(self.options), columns, gives_ranges)


class _PushFilters:
    """``pushFilters`` of a reader, which Spark may call or not.

    A class that defines the method may not be read without ``spark.sql.python.filterPushdown.enabled``: Spark
    looks whether its function is that of DataSourceReader, and raises. This one says that it is.
    """

    def __init__(self, reader: KbusReader) -> None:
        self._reader = reader
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        self._reader.settings.selection = self._reader.settings.selection.narrowed(filters)
        return filters


class KbusReader(DataSourceReader):
    """Reads captures into the columns of ``schema``."""

    def __init__(self, settings: Options, schema: StructType) -> None:
        self.settings = settings
        self._columns = wanted_columns(schema)
        self.pushFilters = _PushFilters(self)  # type: ignore[method-assign]

    def partitions(self) -> list[InputPartition]:
        """Return a task a range of a big file, and a task for small files that have that size together."""
        tasks: list[InputPartition] = []
        parts: list[tuple[str, Range]] = []
        room = self.settings.split
        for path, size, _ in uploads(self.settings.path):
            if size > self.settings.split:
                tasks += [Task(((path, each),)) for each in self._ranges(path)]
                continue
            if parts and size > room:
                tasks.append(Task(tuple(parts)))
                parts, room = [], self.settings.split
            parts.append((path, WHOLE))
            room -= size
        return [*tasks, Task(tuple(parts))] if parts or not tasks else tasks

    def _ranges(self, path: str) -> list[Range]:
        try:
            with open_file(path) as file:
                return outline(file, None if is_gzip(file) else self.settings.split).ranges
        except OSError:
            # The task says why, if it can't read it either.
            return [WHOLE]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a task."""
        assert isinstance(partition, Task)
        for path, each in partition.parts:
            yield from read_range(path, each, self.settings, self._columns)


def register(spark: Any) -> None:
    """Make ``kbus`` known as a format to this SparkSession."""
    spark.dataSource.register(KbusDataSource)
