# SPDX-License-Identifier: MIT
"""One Spark for all tests of the pipeline: starting it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kbus.pipeline import cli, session

#: Little data, so Java need not do its best
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
OPTIONS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A module's tables are made once, by the process that has all its tests."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group(item.path.name))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    spark = session.start("tests", "local[2]", OPTIONS)
    yield spark
    spark.stop()


def command_in(spark: SparkSession, patch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command, in the Spark that is there already."""
    patch.setattr(session, "start", lambda *_: spark)
    patch.setattr(SparkSession, "stop", lambda _: None)

    return lambda *words: cli.main(list(words))


@pytest.fixture
def pipeline(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command, for a test."""
    return command_in(spark, monkeypatch)
