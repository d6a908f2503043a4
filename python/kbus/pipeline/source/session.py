# SPDX-License-Identifier: MIT
"""Getting a SparkSession, and saying what is missing if there is none to be had."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Optional

from pyspark import SparkConf
from pyspark.sql import SparkSession

import kbus

from .data_source import register

#: Java versions that Spark 4 runs on
_OLDEST_JAVA = 17
#: Rows from which on it pays to compile a query
_PAYS = 500_000

#: Nobody waits for a pause of Java's, and a collector that makes it short costs a seventh more in all.
_JAVA = "-XX:+UseParallelGC"

_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "true",
    # A column may be named `from`, and numbers that do not fit are errors.
    "spark.sql.ansi.enabled": "true",
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
}


class NoSpark(Exception):
    """Spark can't be started here; the text says why, and what to do."""


def start(
    name: str, master: Optional[str] = None, options: Optional[Mapping[str, str]] = None
) -> SparkSession:
    """Return a SparkSession that knows the format ``kbus``.

    ``master`` and ``options`` are Spark's; below spark-submit, which has its own, they may be left out.
    Raises NoSpark.
    """
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    settings = {**_DEFAULTS, "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1))}
    if is_submitted:
        # What was said on the command line of spark-submit holds.
        given = SparkConf()
        del settings["spark.sql.shuffle.partitions"]
        settings = {key: value for key, value in settings.items() if not given.contains(key)}
    else:
        _check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    package = str(Path(kbus.__file__).resolve().parent.parent)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if package not in paths:
        # The workers import kbus too, also where it is not installed but run from its sources.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [package, *paths]))
    settings = {**settings, "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"], **(options or {})}
    builder = SparkSession.builder.appName(name)
    if master or not (is_submitted or "spark.master" in settings):
        builder = builder.master(master or "local[*]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        raise NoSpark(f"Spark does not start: {str(error).splitlines()[0]}") from error
    register(spark)
    return spark


def suit(spark: SparkSession, rows: int) -> None:
    """Have Spark compile what it does from now on only if there are so many rows that it pays.

    It takes longer to compile a query than to interpret it for the recording of one device.
    """
    pays = rows >= _PAYS
    spark.conf.set("spark.sql.codegen.wholeStage", pays)
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if pays else "NO_CODEGEN")


def _check_java() -> None:
    """Raise NoSpark unless there is a Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    how = (
        f"Spark needs Java {_OLDEST_JAVA} or later. On Debian: apt-get install openjdk-17-jre-headless;"
        " elsewhere set JAVA_HOME to where one is"
    )
    if not java or not os.access(java, os.X_OK):
        raise NoSpark(f"no Java: {how}" if not home else f"no Java in JAVA_HOME, {home}: {how}")
    said = subprocess.run(
        [java, "-XshowSettings:properties", "-version"], capture_output=True, text=True
    ).stderr
    for line in said.splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "java.specification.version":
            if float(value) < _OLDEST_JAVA:
                raise NoSpark(f"{java} is Java {value.strip()}: {how}")
            return
    raise NoSpark(f"{java} does not say which version it is: {how}")
