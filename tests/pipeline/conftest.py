# SPDX-License-Identifier: MIT
"""One Spark for all tests of the pipeline: starting it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from kbus.pipeline import cli, register
from kbus.pipeline.report.scope import Scope, Tables
from kbus.pipeline.source import session
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline import fleet
from tests.pipeline.warehouses import of_many_steps

#: Little data, so Java need not do its best; nor need it check the classes of Spark, which takes a sixth
_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
OPTIONS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tables are made once, by the process that has all the tests of a module, or all that share them."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            names = getattr(item, "fixturenames", [])
            group = next((name for name in ("whole_fleet", "original") if name in names), item.path.name)
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # To plan a query anew as it runs takes longer than it does for so few rows. Those that start Spark do.
    spark = session.start("tests", "local[2]", {**OPTIONS, "spark.sql.adaptive.enabled": "false"})
    register(spark)
    yield spark
    spark.stop()


def command_in(spark: SparkSession, patch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command, in the Spark that is there already."""
    patch.setattr(session, "start", lambda *_: spark)
    patch.setattr(SparkSession, "stop", lambda _: None)

    return lambda *words: cli.main(list(words))


class Fleet(NamedTuple):
    """Recordings of a fleet, the truth about it, and what `run` made of them and said."""

    captures: Path
    truth: fleet.Truth
    warehouse: Warehouse
    tables: Tables
    report: Path
    said: list[str]


@pytest.fixture(scope="session")
def whole_fleet(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A fleet whose tables nobody changes."""
    where = tmp_path_factory.mktemp("fleet")
    captures = where / "captures"
    captures.mkdir()
    truth = fleet.make(captures)
    report = where / "report.html"
    places = ["--tables", str(where / "tables"), "--output", str(report), str(captures)]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as said:
        assert command_in(spark, patch)("run", "--quiet", "--buckets", "2", *places) == 0
    warehouse = Warehouse.open(str(where / "tables"))
    tables = Tables(spark, warehouse, Scope())
    return Fleet(captures, truth, warehouse, tables, report, said.getvalue().splitlines())


@pytest.fixture(scope="session")
def original(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Tables ``of_many_steps``, which nobody changes."""
    return of_many_steps(spark, tmp_path_factory.mktemp("original"))


@pytest.fixture
def pipeline(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command, for a test."""
    return command_in(spark, monkeypatch)
