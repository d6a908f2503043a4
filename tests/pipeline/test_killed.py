# SPDX-License-Identifier: MIT
"""SIGKILL at random moments of `run`: the tables are whole each time, and in the end what they should be.

KBUS_TEST_KILLS is how often; `make kill-pipeline` has many.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars
import pytest
from pyspark.sql import SparkSession

from kbus.pipeline.tables import schemas
from kbus.pipeline.tables.check import check
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.captures import NOON, capture, info
from tests.pipeline.killed import without_report
from tests.pipeline.readers import counts, counts_by_spark
from tests.pipeline.warehouses import asked, directory

KILLS = int(os.environ.get("KBUS_TEST_KILLS", "2"))
HOUR = 3600 * 10**9
RUN = [sys.executable, "-m", "tests.pipeline.killed"]


def words(where: Path, tables: str, inbox: Path) -> list[str]:
    places = ["--tables", str(where / tables), "--output", str(where / "report.html"), str(inbox)]
    return ["run", "--quiet", "--buckets", "2", *places]


def record(inbox: Path, number: int) -> None:
    """Two days of a device, each time of another one."""
    begin = NOON + number % 3 * HOUR
    raw = capture(asked(range(1, 41)), info(f"device{number}"), begin_ns=begin, step_ns=HOUR // 2)
    (inbox / f"{number}.pcapng").write_bytes(raw)


def run_and_kill(command: list[str], after: float) -> bool:
    """Return whether it was killed, so long after Spark had started, before it had ended."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, start_new_session=True)
    assert process.stdout and process.stderr
    try:
        # What Java says comes on stderr.
        assert process.stdout.readline() == b"ready\n", process.stderr.read().decode()
        process.wait(after)
    except subprocess.TimeoutExpired:
        return True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert process.returncode == 0
    return False


@pytest.mark.long("starts Spark several times")
def test_killed_at_any_moment(
    spark: SparkSession, tmp_path: Path, pipeline: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_report(monkeypatch)
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    record(inbox, 0)
    begin = time.monotonic()
    assert pipeline(*words(tmp_path, "straight", inbox)) == 0
    longest = time.monotonic() - begin
    killed = recorded = 0
    while killed < KILLS:
        recorded += 1
        record(inbox, recorded)
        after = random.random() * longest
        if run_and_kill([*RUN, *words(tmp_path, "tables", inbox)], after):
            killed += 1
        else:
            longest = after
        if (tmp_path / "tables" / "steps").exists():
            warehouse = Warehouse.open(str(tmp_path / "tables"))
            found = check(warehouse, warehouse.snapshot())
            assert not found.problems, f"killed {after:.3f} s after it had begun"
            _read_by_others(warehouse)
    for tables in ("straight", "tables"):
        assert pipeline(*words(tmp_path, tables, inbox)) == 0
    warehouse = Warehouse.open(str(tmp_path / "tables"))
    assert counts(warehouse) == counts_by_spark(spark, warehouse)
    one, other = (_rows(tmp_path / tables) for tables in ("straight", "tables"))
    assert one == other and sum(one["messages"].values()) == 80 * (recorded + 1)


def _read_by_others(warehouse: Warehouse) -> None:
    counts(warehouse)
    for table in schemas.TABLES:
        rows = polars.read_delta(str(directory(warehouse) / table))
        assert rows.is_duplicated().sum() == 0


def _rows(tables: Path) -> dict[str, Counter[str]]:
    warehouse = Warehouse.open(str(tables))
    snapshot = warehouse.snapshot()
    return {table: Counter(map(repr, warehouse.rows(snapshot.of(table)))) for table in schemas.TABLES}
