# SPDX-License-Identifier: MIT
"""What the pipeline derives, by DuckDB and by Polars from the same Parquet files, on one core.

`python3 -m tests.pipeline.bench.yardstick TOOL WORK TABLES`: TOOL is duckdb or polars, WORK an aggregate, of
a minute, or `matching`. It prints how many rows that has, and how many rows of its source these count.

Nothing is written. The matching here is one of session, id and requester: it knows no time bound, no holes
and no ids that come again.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path
from typing import Any

from kbus.pipeline.derive.sketch import GROWTH
from kbus.pipeline.tables.warehouse import Warehouse

#: Works, and which table each is about
WORKS = {
    "traffic": "messages",
    "latency": "conversations",
    "outcomes": "conversations",
    "incidents": "events",
    "matching": "messages",
}
_SQL = {
    "traffic": """
select date_trunc('minute', ts), session, name, "from",
  case when data is null then 0 else cast(floor(log2(octet_length(data))) as int) + 1 end,
  count(*) as n, sum(coalesce(octet_length(data), 0)), count_if(want_a_reply),
  count_if(reply_network <> 0 or reply_serial <> 0), count_if(urgent), count_if(network = 0),
  max(case when network = 0 then serial else 0 end)
from messages group by all""",
    "latency": f"""
select date_trunc('minute', ts), session, name, replier,
  cast(ceil(ln(greatest(latency_ns, 1)) / {math.log(GROWTH)!r}) as int),
  count(*) as n, sum(latency_ns), max(latency_ns)
from conversations where outcome = 'reply' group by all""",
    "outcomes": """
select date_trunc('minute', ts), session, name, outcome, coalesce(status, ''), count(*) as n
from conversations group by all""",
    "incidents": """
select date_trunc('minute', ts), session, kind, ksock, coalesce(name, ''), count(*) as n, sum("count")
from events group by all""",
    "matching": """
with answers as (
  select session, reply_network as network, reply_serial as serial, "to" as "from", min(mono_ns) as mono_ns
  from messages where reply_network <> 0 or reply_serial <> 0 group by all)
select session, network, serial, "from", answers.mono_ns - messages.mono_ns as latency_ns, 1 as n
from messages left join answers using (session, network, serial, "from")
where want_a_reply""",
}


def main() -> int:
    """0 when it has been done."""
    parser = argparse.ArgumentParser(prog="tests.pipeline.bench.yardstick")
    parser.add_argument("tool", choices=("duckdb", "polars"))
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("tables")
    options = parser.parse_args()
    parts = Warehouse.open(options.tables).snapshot().of(WORKS[options.work])
    paths = [str(Path(options.tables, part.path)) for part in parts]
    tool = by_duckdb if options.tool == "duckdb" else by_polars
    print(*(tool(options.work, paths) if paths else (0, 0)))
    return 0


def by_duckdb(work: str, paths: list[str]) -> tuple[int, int]:
    """Return how many rows it has, and how many these count."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("set threads = 1")
    connection.execute("set TimeZone = 'UTC'")
    connection.read_parquet(paths).create_view(WORKS[work])
    # `max(r)` has all columns worked out.
    question = f"select count(*), sum(n), max(r) from (select n, r from ({_SQL[work]}) as r)"
    rows, counted, _ = connection.sql(question).fetchall()[0]
    return int(rows), int(counted or 0)


def by_polars(work: str, paths: list[str]) -> tuple[int, int]:
    """Return the same."""
    os.environ["POLARS_MAX_THREADS"] = "1"
    import polars as pl

    c, rows = pl.col, pl.scan_parquet(paths, hive_partitioning=False)
    length = c("data").bin.size().fill_null(0).cast(pl.Int64)
    is_answer = (c("reply_network") != 0) | (c("reply_serial") != 0)
    minute = c("ts").dt.truncate("1m").alias("period")
    numbered = c("network") == 0
    made: dict[str, Any] = {
        "traffic": lambda: rows.group_by(
            minute, "session", "name", "from", length.log(2).floor().alias("size")
        ).agg(
            pl.len().alias("n"), length.sum().alias("bytes"), c("want_a_reply").sum(),
            is_answer.sum().alias("answers"), c("urgent").sum(), numbered.sum().alias("numbered"),
            pl.when(numbered).then("serial").otherwise(0).max().alias("last_serial"),
        ),
        "latency": lambda: rows.filter(c("outcome") == "reply").group_by(
            minute, "session", "name", "replier",
            (c("latency_ns").clip(1).cast(pl.Float64).log() / math.log(GROWTH)).ceil().alias("step"),
        ).agg(pl.len().alias("n"), c("latency_ns").sum(), c("latency_ns").max().alias("longest_ns")),
        "outcomes": lambda: rows.group_by(minute, "session", "name", "outcome", c("status").fill_null(""))
        .agg(pl.len().alias("n")),
        "incidents": lambda: rows.group_by(minute, "session", "kind", "ksock", c("name").fill_null(""))
        .agg(pl.len().alias("n"), c("count").sum()),
        "matching": lambda: rows.filter(c("want_a_reply")).join(
            rows.filter(is_answer).group_by("session", "reply_network", "reply_serial", "to")
            .agg(c("mono_ns").min().alias("answered_ns")),
            left_on=["session", "network", "serial", "from"],
            right_on=["session", "reply_network", "reply_serial", "to"], how="left",
        ).select("session", "network", "serial", "from", c("answered_ns") - c("mono_ns"), n=pl.lit(1)),
    }  # fmt: skip
    found = made[work]().collect()
    return len(found), int(found["n"].sum())


if __name__ == "__main__":
    sys.exit(main())
