# SPDX-License-Identifier: MIT
"""What is wrong with the tables is found, and mended."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kbus.pipeline.tables import footers, schemas
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.captures import NOON, capture, info
from tests.pipeline.test_ingest import MANY
from tests.pipeline.warehouses import asked, directory, rows, tables

__all__ = ["tables"]

HOUR = 3600 * 10**9


DAMAGE = {"is missing": None, r"has [\d,]+ bytes of [\d,]+": 100, "is no Parquet file that is whole": -1}


@pytest.mark.parametrize("says", DAMAGE)
@pytest.mark.parametrize("table", ["messages", "files", "traffic_hour"])
def test_a_file_that_is_not_whole_is_named(
    tables: Warehouse, pipeline: Callable[..., int], capsys: Any, table: str, says: str
) -> None:
    (part, *_) = tables.snapshot().of(table)
    path = directory(tables) / part.path
    cut = DAMAGE[says]
    if cut is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:cut] if cut > 0 else bytes(part.bytes))
    words = ["--tables", str(directory(tables))]
    assert pipeline("check", *words) == 1
    told = capsys.readouterr()
    (line,) = told.out.splitlines()
    assert line.startswith(str(path)) and "`kbus-pipeline repair`" in line
    assert told.err.startswith("kbus-pipeline check: 1 problems in ")


@pytest.mark.parametrize("command", ["check", "repair"])
def test_what_can_not_be_read_now_is_not_taken_for_damaged(
    tables: Warehouse,
    pipeline: Callable[..., int],
    capsys: Any,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    """As a store that has too much to do says: nothing is known of the file, so nothing is done about it."""

    def busy(path: object) -> bytes:
        raise OSError(errno.EIO, "slow down", str(path))

    before = tables.snapshot().version
    monkeypatch.setattr(footers, "_end_of", busy)
    assert pipeline(command, "--tables", str(directory(tables))) == 1
    assert "slow down" in capsys.readouterr().err
    assert tables.snapshot().version == before


@pytest.mark.parametrize("table", ["messages", "files", "stretches"])
def test_a_step_that_needs_it_names_it(
    tables: Warehouse, pipeline: Callable[..., int], capsys: Any, tmp_path: Path, table: str
) -> None:
    (tmp_path / "more.pcapng").write_bytes(capture(MANY, info("device0", boot="boot-2")))
    words = ["--quiet", "--tables", str(directory(tables))]
    assert pipeline("ingest", *words, str(tmp_path / "more.pcapng")) == 0
    capsys.readouterr()
    for part in tables.snapshot().of(table):
        (directory(tables) / part.path).write_bytes(b"PAR1")
    command = ["ingest", str(tmp_path)] if table == "files" else ["conversations"]
    assert pipeline(*command, *words) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert ".parquet has 4 bytes of " in line and line.endswith("`kbus-pipeline check` says what to do")


def test_a_table_made_of_others_is_made_again(
    spark: SparkSession, tables: Warehouse, pipeline: Callable[..., int]
) -> None:
    before = rows(tables)
    for table in ("conversations", "traffic_hour", "files"):
        for part in tables.snapshot().of(table):
            (directory(tables) / part.path).unlink()
    words = ["--quiet", "--tables", str(directory(tables))]
    assert pipeline("check", *words[1:]) == 1
    assert pipeline("repair", *words[1:]) == 0
    assert pipeline("check", *words[1:]) == 0
    assert not rows(tables)["conversations"]
    for step in ("conversations", "aggregate"):
        assert pipeline(step, *words) == 0
    after = rows(tables)
    assert {table for table in schemas.TABLES if after[table] != before[table]} == {"files"}


NAMES = ("device", "bus", "rec_seq", "serial", "ts", "mono_ns", "offset")


def numbers(warehouse: Warehouse) -> Counter[tuple[Any, ...]]:
    found = warehouse.rows(warehouse.snapshot().of("messages"), list(NAMES))
    return Counter(tuple(row[name] for name in NAMES) for row in found)


def test_messages_that_are_lost_are_taken_in_again(
    spark: SparkSession, tmp_path: Path, pipeline: Callable[..., int]
) -> None:
    """A recording of two buses goes past midnight; what is left of it stays, and comes no second time."""
    words = ["--tables", str(tmp_path / "tables")]
    warehouse = Warehouse.create(words[1], buckets=1)
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    # Noon is in the middle of what is recorded every hour.
    for device in ("pump", "valve"):
        raw = capture(asked(range(1, 21)), info(device), step_ns=HOUR, buses=(0, 3))
        (inbox / f"{device}.pcapng").write_bytes(raw)
    (inbox / "later.pcapng").write_bytes(capture(MANY, info("fan"), begin_ns=NOON + 100 * HOUR))
    assert pipeline("ingest", "--quiet", *words, str(inbox)) == 0
    assert pipeline("conversations", "--quiet", *words) == 0
    whole = numbers(warehouse)
    conversations = rows(warehouse)["conversations"]
    (lost,) = (part for part in warehouse.snapshot().of("messages") if "2026-03-02" in part.path)
    (directory(warehouse) / lost.path).unlink()
    assert pipeline("repair", *words) == 0
    assert pipeline("check", *words) == 0
    snapshot = warehouse.snapshot()
    assert sum(part.rows for part in snapshot.of("messages")) == 120 - lost.rows
    assert [Path(row["path"]).name for row in warehouse.rows(snapshot.of("files"))] == ["later.pcapng"]
    assert pipeline("ingest", "--quiet", *words, str(inbox)) == 0
    assert numbers(warehouse) == whole
    assert pipeline("check", *words) == 0
    assert pipeline("conversations", "--quiet", *words) == 0
    assert rows(warehouse)["conversations"] == conversations


def test_a_log_that_a_power_cut_has_torn(
    tables: Warehouse, pipeline: Callable[..., int], capsys: Any
) -> None:
    before = rows(tables)
    words = ["--tables", str(directory(tables))]
    for table in ("stretches", "steps"):
        log = directory(tables) / table / "_delta_log"
        last = max(log.glob("*.json"))
        torn = log / f"{int(last.stem) + 1:020d}.json"
        torn.write_text(last.read_text()[:100])
        assert pipeline("check", *words) == 1
        assert "`kbus-pipeline repair` mends a log" in capsys.readouterr().err
        assert pipeline("repair", *words) == 0
        assert not torn.exists()
    assert pipeline("check", *words) == 0
    assert rows(tables) == before
