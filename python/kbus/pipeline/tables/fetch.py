# SPDX-License-Identifier: MIT
"""Rows of tables in an S3 store, for Spark: tasks of Python fetch them, as Java needs libraries for that.

Spark can't see into these tasks, so all columns are fetched, whichever are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from . import schemas, tasks
from .delta import columns_of
from .parquet import opened
from .parts import Part
from .stores import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Bytes that a task fetches, about
_TOGETHER = 64 << 20


def fetched(spark: SparkSession, root: Store, table: str, parts: Sequence[Part]) -> DataFrame:
    """Return the rows of these files of a table, which is in ``root``."""
    lots = tasks.grouped(parts, lambda part: part.bytes, _TOGETHER)
    numbers = spark.range(0, len(lots), 1, len(lots))
    return numbers.mapInArrow(partial(_fetch, root, table, lots), schemas.spark_schema(columns_of(table)))


def _fetch(
    root: Store, table: str, lots: list[list[Part]], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the lots with these numbers."""
    schema = schemas.arrow_schema(columns_of(table))
    for part in (part for batch in numbers for number in batch[0].to_pylist() for part in lots[number]):
        with opened(root / part.path) as file:
            for batch in file.iter_batches():
                rows = pa.Table.from_batches([batch])
                if part.partition:
                    day = pa.scalar(date.fromisoformat(part.partition.date), pa.date32())
                    for column, value in (("date", day), ("bucket", pa.scalar(part.partition.bucket))):
                        rows = rows.append_column(column, pa.repeat(value, len(rows)))
                yield from rows.select(schema.names).cast(schema).to_batches()
