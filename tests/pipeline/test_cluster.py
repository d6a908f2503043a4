# SPDX-License-Identifier: MIT
"""Threads of one process, and the executors of a cluster, give the same tables, row by row."""

from __future__ import annotations

import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kbus.pipeline import schemas
from kbus.pipeline.warehouse import Warehouse
from tests.pipeline import fleet
from tests.pipeline.conftest import OPTIONS, command_in


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Warehouse]:
    where = tmp_path_factory.mktemp("cluster")
    captures = where / "captures"
    captures.mkdir()
    fleet.make(captures, seconds=120)
    options = [part for key, value in OPTIONS.items() for part in ("--conf", f"{key}={value}")]

    def words(root: str) -> list[str]:
        report = str(where / "report.html")
        places = ["--tables", str(where / root), "--output", report, str(captures)]
        return ["run", "--quiet", "--buckets", "4", *places]

    with pytest.MonkeyPatch.context() as patch:
        assert command_in(spark, patch)(*words("threads")) == 0
    cluster = [*words("executors"), "--master", "local-cluster[2,1,1024]", *options]
    subprocess.run([sys.executable, "-m", "kbus.pipeline", *cluster], check=True, timeout=600)
    return [Warehouse.open(str(where / root)) for root in ("threads", "executors")]


@pytest.mark.parametrize("table", [name for name in schemas.TABLES if name != "files"])
def test_every_table_is_the_same(tables: list[Warehouse], table: str) -> None:
    one, other = (_rows(warehouse, table) for warehouse in tables)
    assert one == other
    assert one


def _rows(warehouse: Warehouse, table: str) -> list[str]:
    rows = []
    for part in warehouse.snapshot().of(table):
        found = pq.read_table(warehouse.root / part.path, partitioning=None).to_pylist()
        rows += [f"{part.partition} {row}" for row in found]
    return sorted(rows)
