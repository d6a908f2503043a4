# SPDX-License-Identifier: MIT
"""What Spark needs of the machine that it is started on, and what Java says when it does not start."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from . import java
from .causes import cause_of
from .java import NoSpark

#: What Java says of why it ends
_WHY = re.compile(
    r'^(?:Exception in thread "main" |# )?(\S.*(?:Error|Exception|Unrecognized|insufficient memory).*)',
    re.MULTILINE,
)


def check(master: str) -> str:
    """Return which Java there is, as ``java.check`` does.

    Raises NoSpark unless Spark can be started here, for this ``master``.
    """
    which = java.check()
    _check_temporary_directory()
    _check_host_name(master)
    return which


def launch_java(conf: SparkConf, shown: bool) -> None:
    """Start a Java for PySpark unless there is one. Raises NoSpark.

    What it says, then and later, is not seen unless it is to be ``shown``.
    """
    # PySpark has no other way to ask.
    if SparkContext._gateway:
        return
    with tempfile.TemporaryFile("w+") as said, ThreadPoolExecutor(1) as executor:
        where = None if shown else {"stdout": said, "stderr": subprocess.STDOUT}
        try:
            # In a thread, for which an interrupt waits: a Java that PySpark has not come to know would stay.
            gateway = executor.submit(launch_gateway, conf, where).result()
        except PySparkRuntimeError as error:
            said.seek(0)
            why = "\n".join(_WHY.findall(said.read())) or str(error)
            raise NoSpark(f"Spark does not start: {cause_of(Exception(why))}") from error
    SparkContext._ensure_initialized(gateway=gateway)


def _check_temporary_directory() -> None:
    """Raise NoSpark if Java can't load libraries from there."""
    where = tempfile.gettempdir()
    if os.statvfs(where).f_flag & os.ST_NOEXEC:
        raise NoSpark(
            f"Java loads libraries from the temporary directory, {where}, which is mounted noexec: set TMPDIR"
            " to another directory"
        )


def _check_host_name(master: str) -> None:
    """Have Spark on one machine do without its name; raise NoSpark if a cluster can't find it by that."""
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif "SPARK_LOCAL_IP" not in os.environ:
        name = socket.gethostname()
        try:
            socket.gethostbyname(name)
        except OSError as error:
            raise NoSpark(
                f"this machine's name, {name}, has no address: write it into /etc/hosts, or set"
                " SPARK_LOCAL_IP to an address at which the cluster finds this machine"
            ) from error
