# SPDX-License-Identifier: MIT
"""spark.read.format("kbus"), in batches."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kbus import Announcement, Message
from kbus.capture import pcapng
from tests.pipeline.captures import NOON, capture, info
from tests.pipeline.test_scan import SAMPLES

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("captures")
    (where / "pump-0-20260301T120000Z-0001.pcapng").write_bytes(capture(SAMPLES))
    (where / "valve-0-20260301T120000Z-0001.pcapng").write_bytes(
        capture(SAMPLES, info("valve"), pcapng.BIG, begin_ns=NOON + 3600 * 10**9)
    )
    (where / "fan-0-20260301T120000Z-0001.pcapng.gz").write_bytes(
        gzip.compress(capture(SAMPLES, info("fan")))
    )
    return where


def test_all_columns_of_both_byte_orders_and_gzip(spark: SparkSession, captures: Path) -> None:
    rows = spark.read.format("kbus").load(str(captures)).orderBy("device", "rec_seq").collect()
    assert [(row.device, row.rec_seq) for row in rows] == [
        (device, number) for device in ("fan", "pump", "valve") for number in range(1, len(SAMPLES) + 1)
    ]
    for row in rows:
        sent = SAMPLES[row.rec_seq - 1]
        assert (row.name, None if row.data is None else bytes(row.data)) == (sent.name, sent.data)
        assert (row.to, row["from"]) == (sent.to, sent.from_)
        assert row.urgent == bool(sent.flags & Message.URGENT)
        assert row.ts_ns == NOON + (row.rec_seq - 1) * 10**6 + (3600 * 10**9 if row.device == "valve" else 0)
        assert row.corrupt is None


def test_only_the_columns_that_are_asked_for(spark: SparkSession, captures: Path) -> None:
    frame = spark.read.format("kbus").schema("name string, bus int").load(str(captures))
    assert frame.columns == ["name", "bus"]
    assert frame.where("name = '$.A'").count() == 3
    with pytest.raises(PySparkException, match="no column colour"):
        spark.read.format("kbus").schema("colour string").load(str(captures)).collect()


@pytest.mark.parametrize(
    "pushdown", ["true", pytest.param("false", marks=pytest.mark.long("is the default")), None]
)
@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("device = 'pump'", 6),
        ("device in ('pump', 'fan') and name like '$.A%'", 8),
        ("name = '$.A' and ts >= timestamp'2026-03-01 13:00:00'", 1),
        ("ts < timestamp'2026-03-01 12:00:00.002'", 4),
        ("ts > timestamp'2026-03-01 12:00:00.002' and device <> 'valve'", 6),
        ("ts <= timestamp'2026-03-01 12:00:00.002'", 6),
        ("ts >= timestamp'2026-03-01 12:00:00.004' and ts <= timestamp'2026-03-01 12:00:00.005'", 4),
        ("urgent", 3),
    ],
)
def test_filters_with_and_without_push_down(
    spark: SparkSession, captures: Path, where: str, count: int, pushdown: str | None
) -> None:
    before = str(spark.conf.get(PUSHDOWN))
    try:
        if pushdown is None:
            spark.conf.unset(PUSHDOWN)
        else:
            spark.conf.set(PUSHDOWN, pushdown)
        assert spark.read.format("kbus").load(str(captures)).where(where).count() == count
    finally:
        spark.conf.set(PUSHDOWN, before)


def test_options_select_without_any_setting(spark: SparkSession, captures: Path) -> None:
    reader = spark.read.format("kbus").option("device", "pump,valve").option("name", "$.Ask")
    assert reader.load(str(captures)).count() == 4
    assert reader.option("since", "2026-03-01T13:00:00").load(str(captures)).count() == 2
    assert reader.option("until", "2026-03-01T13:00:00.0025Z").load(str(captures)).count() == 1
    some = reader.option("since", "2026-03-01T12:00:00.002").option("until", "2026-03-01T12:00:00.003Z")
    assert some.load(str(captures)).count() == 1, "since belongs to it, until does not"
    with pytest.raises(PySparkException, match="yesterday"):
        reader.option("since", "yesterday").load(str(captures)).count()


def test_a_big_file_is_read_by_several_tasks(spark: SparkSession, tmp_path: Path) -> None:
    many = [Announcement("$.Count", str(number)) for number in range(5000)]
    (tmp_path / "big.pcapng").write_bytes(capture(many))
    frame = spark.read.format("kbus").option("split", "100000").load(str(tmp_path))
    assert frame.rdd.getNumPartitions() >= 5
    assert [row.rec_seq for row in frame.select("rec_seq").orderBy("rec_seq").collect()] == list(
        range(1, 5001)
    )
    assert frame.select(F.spark_partition_id()).distinct().count() >= 2


def test_damage_is_data_or_left_out_or_an_error(spark: SparkSession, tmp_path: Path) -> None:
    raw = bytearray(capture(SAMPLES))
    raw[400] ^= 0xFF
    (tmp_path / "bad.pcapng").write_bytes(bytes(raw[:-30]))
    (tmp_path / "notes.txt").write_text("not a capture at all")
    reader = spark.read.format("kbus")
    frame = reader.load(str(tmp_path))
    damage = frame.where("corrupt is not null").orderBy("path", "offset").collect()
    assert [Path(row.path).name for row in damage] == ["bad.pcapng", "bad.pcapng", "notes.txt"]
    assert damage[0].corrupt == "a packet whose checksum is wrong"
    assert damage[1].offset + damage[1].length == len(raw) - 30
    assert (damage[2].offset, damage[2].length) == (0, 20)
    assert frame.where("corrupt is null").count() == len(SAMPLES) - 1
    assert reader.option("mode", "dropmalformed").load(str(tmp_path)).count() == len(SAMPLES) - 1
    with pytest.raises(PySparkException, match=r"bad.pcapng: at byte \d+: a packet whose checksum is wrong"):
        reader.option("mode", "FAILFAST").load(str(tmp_path)).count()


@pytest.mark.parametrize(
    ("options", "says"),
    [({"mode": "HOPEFUL"}, "HOPEFUL"), ({"split": "many"}, "many"), ({"path": "/no/such"}, "no such file")],
)
def test_wrong_options_are_named(
    spark: SparkSession, captures: Path, options: dict[str, str], says: str
) -> None:
    with pytest.raises(PySparkException, match=says):
        spark.read.format("kbus").options(**{"path": str(captures), **options}).load().count()
