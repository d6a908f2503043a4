# SPDX-License-Identifier: MIT
"""Other readers of Delta, and what they see of the tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from pathlib import Path

import duckdb
import duckdb_extension_delta
import polars
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kbus.pipeline.tables import schemas, sql
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.warehouses import directory

EXTENSION = next(Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension"))


@cache
def delta_scan() -> duckdb.DuckDBPyConnection:
    """DuckDB with its own reader of Delta, without the network from which it comes otherwise."""
    connection = duckdb.connect()
    connection.load_extension(str(EXTENSION))
    return connection


READERS: dict[str, Callable[[str], int]] = {
    "deltalake": lambda table: DeltaTable(table).to_pyarrow_table().num_rows,
    "polars": lambda table: polars.read_delta(table).height,
    "delta_scan": lambda table: len(delta_scan().table_function("delta_scan", [table])),
}


def counts(warehouse: Warehouse) -> dict[str, int]:
    """The rows of each table. All readers agree about them, and `kbus-pipeline sql` does too."""
    where = directory(warehouse)
    found = {
        name: {table: count(str(where / table)) for table in schemas.TABLES}
        for name, count in READERS.items()
    }
    with sql.connect(where, list(schemas.TABLES)) as views:
        first = found["sql"] = {table: len(views.table(table)) for table in schemas.TABLES}
    assert all(each == first for each in found.values()), found
    return first


def counts_by_spark(spark: SparkSession, warehouse: Warehouse) -> dict[str, int]:
    """Likewise, by Spark."""
    snapshot = warehouse.snapshot()
    rows = [
        warehouse.read_parts(spark, table, snapshot.of(table)).select(F.lit(table).alias("table"))
        for table in schemas.TABLES
    ]
    found = reduce(DataFrame.unionAll, rows).groupBy("table").count().collect()
    return dict.fromkeys(schemas.TABLES, 0) | {row[0]: row[1] for row in found}
