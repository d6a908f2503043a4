# SPDX-License-Identifier: MIT
"""The archive of Spark's classes, with Java itself."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

from kbus.pipeline.source.java import Work, check, keep, left, options

#: Says how it would start Spark, in a fraction of a second
SPARK = Path(pyspark.__file__).parent
(LAUNCHER,) = (SPARK / "jars").glob("spark-launcher_*.jar")
#: It looks for the directories of its sources otherwise.
LAUNCHED = {"SPARK_HOME": str(SPARK), "SPARK_SCALA_VERSION": "any"}
ASKED = [
    "-cp",
    str(LAUNCHER),
    "org.apache.spark.launcher.Main",
    "org.apache.spark.deploy.SparkSubmit",
    "a.py",
]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kbus"


def started(where: Path, needs_most: bool = True) -> bool:
    """Start Java with its options, and return whether it has taken classes from the archive."""
    said = options(check(), Work(is_little=True, needs_most=needs_most))
    log = where / "classes"
    command = ["java", *shlex.split(said), f"-Xlog:class+load:file={log}", *ASKED]
    done = subprocess.run(command, capture_output=True, env={**os.environ, **LAUNCHED}, timeout=300)
    assert (done.returncode, done.stderr) == (
        0,
        b"",
    ) and b"org.apache.spark.deploy.SparkSubmit" in done.stdout
    archive = left(said)
    if archive:
        keep(archive)
    return "source: shared objects file (top)" in log.read_text()


def test_the_first_java_makes_an_archive_for_the_next(cache: Path, tmp_path: Path) -> None:
    assert not started(tmp_path, needs_most=False) and not list(cache.iterdir())
    assert not started(tmp_path)
    assert len(list(cache.iterdir())) == 1
    assert started(tmp_path) and started(tmp_path, needs_most=False)


def cut(archive: Path) -> None:
    os.truncate(archive, archive.stat().st_size // 2)


def another(archive: Path) -> None:
    archive.write_bytes(b"something else")


def flipped(place: float) -> Callable[[Path], None]:
    def flip(archive: Path) -> None:
        data = bytearray(archive.read_bytes())
        data[int(place * len(data))] ^= 0xFF
        archive.write_bytes(data)

    return flip


@pytest.mark.parametrize("damage", [cut, another, flipped(0.0001), flipped(0.5), flipped(0.9)])
def test_java_goes_on_without_a_damaged_archive(
    damage: Callable[[Path], None], cache: Path, tmp_path: Path
) -> None:
    started(tmp_path)
    (archive,) = cache.iterdir()
    archive.chmod(0o600)
    damage(archive)
    assert not started(tmp_path)


def test_java_goes_on_without_a_cache(cache: Path, tmp_path: Path) -> None:
    cache.parent.write_text("no directory")
    assert not started(tmp_path)
