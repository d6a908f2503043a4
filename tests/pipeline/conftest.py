# SPDX-License-Identifier: MIT
"""One Spark for all tests of the pipeline: starting it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kbus.pipeline import session

OPTIONS = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g", "spark.default.parallelism": "2"}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    spark = session.start("tests", "local[2]", OPTIONS)
    yield spark
    spark.stop()
