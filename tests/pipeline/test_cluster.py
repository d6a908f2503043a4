# SPDX-License-Identifier: MIT
"""Threads of one process, and the executors of a cluster, give the same tables, row by row."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kbus.pipeline.tables import schemas
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.conftest import Fleet

pytestmark = pytest.mark.long("another Spark, with two executors, takes in a whole fleet")


@pytest.fixture(scope="module")
def tables(whole_fleet: Fleet) -> list[Warehouse]:
    where = whole_fleet.captures.parent
    # Executors have current directories of their own.
    words = ["--master", "local-cluster[2,1,1024]", "--buckets", "2", "--tables", "executors", "captures"]
    command = [sys.executable, "-m", "tests.pipeline.killed", "run", "--quiet", *words]
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'python'}{os.pathsep}{root}"}
    subprocess.run(command, check=True, timeout=600, cwd=where, env=environment)
    return [whole_fleet.warehouse, Warehouse.open(str(where / "executors"))]


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
