# SPDX-License-Identifier: MIT
"""Getting a SparkSession."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import kbus

from . import java, surroundings
from .causes import cause_of

#: Rows from which on it pays to compile a query, and to share its work out
_PAYS = 500_000
#: Settings for fewer rows, and Spark's own
_FOR_FEW = {
    "spark.sql.codegen.wholeStage": ("false", "true"),
    "spark.sql.codegen.factoryMode": ("NO_CODEGEN", "FALLBACK"),
    "spark.sql.adaptive.enabled": ("false", "true"),
    "spark.sql.shuffle.partitions": ("1", "200"),
    "spark.sql.autoBroadcastJoinThreshold": ("-1", "10MB"),
    # The first rows are sorted as all are: else Spark compiles the order, whatever is said above.
    "spark.sql.execution.topKSortFallbackThreshold": ("0", "2147483632"),
}

#: What fails, exceptions tell.
_LOG_LEVEL = "spark.log.level"

_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    _LOG_LEVEL: "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "true",
    # A column may be named `from`, and numbers that do not fit are errors.
    "spark.sql.ansi.enabled": "true",
    # Else PySpark notes which line of Python made each piece of a query, which takes longer than that.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Else Spark starts other workers for a query than for the next.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.driver.extraJavaOptions": java.FOR_MUCH,
    "spark.executor.extraJavaOptions": java.FOR_MUCH,
}


def start(
    name: str,
    master: Optional[str] = None,
    options: Optional[Mapping[str, str]] = None,
    work: java.Work = java.MUCH,
) -> SparkSession:
    """Return a SparkSession.

    ``master`` and ``options`` are Spark's; below spark-submit, which has its own, they may be left out. What
    Java says on stderr is seen only with an option ``spark.log.level``. Raises java.NoSpark.
    """
    options = options or {}
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    settings = {**_DEFAULTS, "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1))}
    if is_submitted:
        # What was said on the command line of spark-submit holds, which Java knows.
        surroundings.launch_java(SparkConf(), shown=True)
        given = SparkConf()
        del settings["spark.sql.shuffle.partitions"]
        settings = {key: value for key, value in settings.items() if not given.contains(key)}
    else:
        master = master or options.get("spark.master", "local[*]")
        which = surroundings.check(master)
        # Where Python has it, and the variable TMPDIR.
        settings["spark.driver.defaultJavaOptions"] = shlex.quote(f"-Djava.io.tmpdir={tempfile.gettempdir()}")
        if master.startswith("local"):
            settings["spark.driver.extraJavaOptions"] = java.options(which, work)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    package = str(Path(kbus.__file__).resolve().parent.parent)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if package not in paths:
        # The workers import kbus too, also where it is not installed but run from its sources.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [package, *paths]))
    settings = {**settings, "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"], **options}
    conf = SparkConf().setAppName(name)
    if master:
        conf.setMaster(master)
    conf.setAll(list(settings.items()))
    surroundings.launch_java(conf, shown=_LOG_LEVEL in options)
    try:
        spark = SparkSession.builder.config(conf=conf).getOrCreate()
    except Exception as error:
        raise java.NoSpark(
            f"Spark does not start on {conf.get('spark.master')}: {cause_of(error)}"
        ) from error
    return spark


def stop(spark: SparkSession) -> None:
    """End Spark. This takes some seconds if its Java leaves an archive for the next ones."""
    archive = java.left(spark.conf.get("spark.driver.extraJavaOptions") or "")
    spark.stop()
    if archive:
        print("Java keeps the classes of Spark for later runs", file=sys.stderr, flush=True)
        gateway: Any = SparkContext._gateway
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        SparkContext._gateway = SparkContext._jvm = None
        java.keep(archive)


def suit(spark: SparkSession, rows: int) -> None:
    """Have Spark do what it does from now on as it is quickest for so many rows.

    For few, a single task is quicker than several that share them, and to interpret a query quicker than to
    compile it.
    """
    given = spark.sparkContext.getConf()
    for key, (few, default) in _FOR_FEW.items():
        spark.conf.set(key, few if rows < _PAYS else given.get(key, default))
