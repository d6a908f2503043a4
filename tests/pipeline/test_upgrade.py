# SPDX-License-Identifier: MIT
"""Tables of an earlier version become Delta tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kbus.pipeline.derive import derived
from kbus.pipeline.ingest.batch import ingest
from kbus.pipeline.tables import schemas
from kbus.pipeline.tables.parts import WarehouseError
from kbus.pipeline.tables.upgrade import upgrade
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.captures import capture, info
from tests.pipeline.warehouses import asked, directory, rows, tables

__all__ = ["tables"]


def as_before(tables: Warehouse) -> None:
    """Make of tables what the earlier version had: the files, and its own log."""
    entries = tables.entries(-1)
    log = directory(tables) / "_log"
    log.mkdir()

    def told(part: Any) -> dict[str, Any]:
        place = list(part.partition) if part.partition else None
        return {
            "table": part.table,
            "path": part.path,
            "rows": part.rows,
            "bytes": part.bytes,
            "partition": place,
        }

    create = {"step": "create", "add": [], "remove": [], "note": {"buckets": tables.snapshot().buckets}}
    said = [create] + [
        {
            "step": entry.step,
            "add": [told(part) for part in entry.add],
            "remove": [part.path for part in entry.remove],
            "note": {key: value + (key == "upto") for key, value in entry.note.items()},
        }
        for entry in entries
    ]
    for number, each in enumerate(said):
        (log / f"{number:012d}.json").write_text(json.dumps(each))
    (log / "000000000003.all.json").write_text("{}")
    (directory(tables) / "_staging" / "left").mkdir(parents=True)
    shutil.rmtree(directory(tables) / "steps")
    for table in schemas.TABLES:
        shutil.rmtree(directory(tables) / table / "_delta_log")


def test_earlier_tables_become_delta_tables(
    spark: SparkSession, tables: Warehouse, tmp_path: Path, pipeline: Callable[..., int], capsys: Any
) -> None:
    before = rows(tables)
    as_before(tables)
    words = ["--tables", str(directory(tables))]
    for command in (["aggregate"], ["ingest", str(tmp_path)]):
        assert pipeline(*command, *words) == 1
        assert "are of an earlier version: `kbus-pipeline upgrade" in capsys.readouterr().err
    assert pipeline("upgrade", *words) == 0
    assert capsys.readouterr().out.startswith("upgrade: ")
    assert rows(tables) == before
    assert polars.read_delta(str(directory(tables) / "conversations")).height == 90
    assert not (directory(tables) / "_staging").exists()
    # It knows still what was done.
    assert derived.make_conversations(spark, tables).partitions == 0
    (tmp_path / "late.pcapng").write_bytes(capture(asked(range(1, 11)), info("late")))
    assert ingest(spark, tables, [str(tmp_path / "late.pcapng")]).messages == 20
    assert derived.make_conversations(spark, tables).partitions == 1
    assert derived.make_aggregates(spark, tables).partitions == 1
    assert pipeline("upgrade", *words) == 1
    assert "there are no tables of an earlier version" in capsys.readouterr().err


def test_an_upgrade_that_was_broken_off_is_done_again(
    tables: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows(tables)
    as_before(tables)

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    for target in ("kbus.pipeline.tables.steps.Steps.begin_with", "pathlib.Path.rename"):
        with monkeypatch.context() as patch:
            patch.setattr(target, dies)
            with pytest.raises(KeyboardInterrupt):
                upgrade(str(directory(tables)))
        with pytest.raises(WarehouseError, match="earlier version"):
            Warehouse.open(str(directory(tables)))
    assert rows(upgrade(str(directory(tables)))) == before


def test_times_that_spark_wrote_are_read(spark: SparkSession, tables: Warehouse, tmp_path: Path) -> None:
    """Earlier versions had Spark write aggregates, with times of 96 bits."""
    (part, *_) = tables.snapshot().of("traffic_hour")
    (want,) = {row["period"] for row in tables.rows([part])}
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        spark.read.parquet(str(directory(tables) / part.path)).coalesce(1).write.parquet(
            str(tmp_path / "written")
        )
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    (path,) = (tmp_path / "written").glob("*.parquet")
    assert pq.ParquetFile(path).schema.column(0).physical_type == "INT96"
    as_before(tables)
    shutil.copy(path, directory(tables) / part.path)
    for entry in (directory(tables) / "_log").glob("*.json"):
        said = json.loads(entry.read_text())
        for each in said.get("add", []):
            if each["path"] == part.path:
                each["bytes"] = path.stat().st_size
        entry.write_text(json.dumps(said))
    upgrade(str(directory(tables)))
    periods = polars.read_delta(str(directory(tables) / "traffic_hour"))["period"]
    assert set(periods.to_list()) == {want}
    assert {row["period"] for row in tables.read(spark, "traffic_hour").collect()} == {
        want.replace(tzinfo=None)
    }
