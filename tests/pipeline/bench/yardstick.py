# SPDX-License-Identifier: MIT
"""The same aggregation of the same Parquet files in DuckDB and in Spark, on one core.

`python3 -m tests.pipeline.bench.yardstick [--spark] TABLES`
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kbus.pipeline.tables.warehouse import Warehouse

#: What the aggregate `traffic_minute` is, as SQL that both understand; {size} is the class of the data's
#: length.
QUERY = """
select date_trunc('minute', ts) as period, session, name, "from", {size} as size,
  count(*) as messages, sum(coalesce(octet_length(data), 0)) as bytes,
  sum(case when want_a_reply then 1 else 0 end) as requests,
  sum(case when reply_network <> 0 or reply_serial <> 0 then 1 else 0 end) as answers,
  max(case when network = 0 then serial else 0 end) as last_serial
from messages group by 1, 2, 3, 4, 5
"""
_SIZE = {
    "duckdb": "case when coalesce(octet_length(data), 0) = 0 then 0"
    " else cast(floor(log2(octet_length(data))) as int) + 1 end",
    "spark": "case when coalesce(octet_length(data), 0) = 0 then 0 else length(bin(octet_length(data))) end",
}


def main() -> int:
    """0 when it has been done; it prints the number of rows and of messages."""
    parser = argparse.ArgumentParser(prog="tests.pipeline.bench.yardstick")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("tables")
    options = parser.parse_args()
    warehouse = Warehouse.open(options.tables)
    paths = [str(Path(options.tables, part.path)) for part in warehouse.snapshot().of("messages")]
    print(*(by_spark(paths) if options.spark else by_duckdb(paths)))
    return 0


def by_duckdb(paths: list[str]) -> tuple[int, int]:
    """Return how many rows the aggregate has, and how many messages these count."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("set threads = 1")
    connection.execute("set TimeZone = 'UTC'")
    connection.read_parquet(paths).create_view("messages")
    query = QUERY.format(size=_SIZE["duckdb"])
    rows, messages = connection.sql(f"select count(*), sum(messages) from ({query})").fetchall()[0]
    return int(rows), int(messages)


def by_spark(paths: list[str]) -> tuple[int, int]:
    """Return the same."""
    from kbus.pipeline.source import session

    spark = session.start("yardstick", "local[1]", {"spark.sql.shuffle.partitions": "8"})
    spark.read.parquet(*paths).createOrReplaceTempView("messages")
    query = QUERY.format(size=_SIZE["spark"]).replace('"from"', "`from`")
    row = spark.sql(f"select count(*) as rows, sum(messages) as messages from ({query})").collect()[0]
    return row["rows"], row["messages"]


if __name__ == "__main__":
    sys.exit(main())
