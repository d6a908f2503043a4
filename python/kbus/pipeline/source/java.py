# SPDX-License-Identifier: MIT
"""The Java that Spark runs on, and how it starts and works quickly."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple, Optional

import pyspark

#: Java versions that Spark 4 runs on
_OLDEST_JAVA = 17

#: Nobody waits for a pause of Java's, and a collector that makes it short costs a seventh more in all.
FOR_MUCH = "-XX:+UseParallelGC"
#: To compile well takes longer than it saves, and so does a collection for room for the classes of Spark.
_FOR_LITTLE = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:MetaspaceSize=256m"
#: Java goes on without an archive that is damaged or of another Java, and says so to nobody.
_SHARED = "-XX:+IgnoreUnrecognizedVMOptions -XX:+VerifySharedSpaces -Xlog:disable -Xlog:all=error:stderr"
_LEAVE = "-XX:ArchiveClassesAtExit="


class NoSpark(Exception):
    """Spark can't be started here; the text says why, and what to do."""


class Work(NamedTuple):
    """What Spark is for: whether there is little to do, and whether that needs most of Spark's classes."""

    is_little: bool
    needs_most: bool


MUCH = Work(is_little=False, needs_most=False)


def check() -> str:
    """Return which Java there is for Spark, as a text. Raises NoSpark if there is none that will do."""
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
    found = {
        key.strip(): value.strip() for key, _, value in (line.partition("=") for line in said.splitlines())
    }
    version = found.get("java.specification.version")
    if not version:
        raise NoSpark(f"{java} does not say which version it is: {how}")
    if float(version) < _OLDEST_JAVA:
        raise NoSpark(f"{java} is Java {version}: {how}")
    return f"{found.get('java.home')} {found.get('java.vm.version')}"


def options(which: str, work: Work) -> str:
    """Return options for Java, ``which`` of them as ``check`` says it, for work on this machine.

    To read and check the classes of Spark takes longer than work on a small recording. The first Java that
    needs most of them leaves them in an archive as it ends, if it can, and ``keep`` keeps it for the next.
    """
    found = _FOR_LITTLE if work.is_little else FOR_MUCH
    key = hashlib.sha256(f"{which} {pyspark.__file__} {pyspark.__version__}".encode()).hexdigest()[:12]
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kbus")
        cache.mkdir(parents=True, exist_ok=True)
        whole = [each for each in cache.glob(f"spark-{key}-*.jsa") if each == _kept(each)]
    except (OSError, RuntimeError):
        # There is no place for it, or not even a home.
        return found
    if whole:
        return f'{found} {_SHARED} "-XX:SharedArchiveFile={whole[0]}"'
    if work.needs_most and os.access(cache, os.W_OK):
        return f'{found} {_SHARED} "{_LEAVE}{cache / f"spark-{key}.part"}"'
    return found


def left(said: str) -> Optional[Path]:
    """Return the archive that a Java with these options leaves as it ends, if any."""
    _, _, path = said.rstrip('"').partition(_LEAVE)
    return Path(path) if path else None


def keep(archive: Path) -> None:
    """Keep an archive for the next Java, once the one that leaves it has ended."""
    with contextlib.suppress(OSError):
        os.replace(archive, _kept(archive))


def _kept(archive: Path) -> Path:
    """Return the name of an archive, which says how long it is: Java fails with one that has been cut."""
    return archive.with_name(f"{'-'.join(archive.stem.split('-')[:2])}-{archive.stat().st_size}.jsa")
