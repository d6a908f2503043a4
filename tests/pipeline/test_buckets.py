# SPDX-License-Identifier: MIT
"""A device is in the same bucket, whoever says it."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kbus.pipeline.tables.buckets import bucket_column, bucket_of


def test_python_and_spark_agree(spark: SparkSession) -> None:
    devices = ["", "pump", "Bürste", "a" * 300, *(f"device{number}" for number in range(100))]
    frame = spark.createDataFrame([(device,) for device in devices], "device string")
    rows = frame.select("device", bucket_column(F.col("device"), 16).alias("bucket")).collect()
    assert {row.device: row.bucket for row in rows} == {device: bucket_of(device, 16) for device in devices}
    assert len({row.bucket for row in rows}) == 16
