# SPDX-License-Identifier: MIT
"""Compressing sealed captures beside the recording."""

from __future__ import annotations

import errno
import gzip
import os
import queue
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Optional

from .part import PART, sync_directory

GZIP = ".gz"
_NICE = 19


class Compressor:
    """A thread that replaces files by ``FILE.gz``, one after the other, when the processor is idle.

    A file that can't be compressed stays as it is, and ``say`` is told why.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._paths: queue.Queue[Optional[Path]] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="compressor", daemon=True)
        self._thread.start()

    def add(self, path: Path) -> None:
        """Compress this one too."""
        self._paths.put(path)

    def finish(self) -> None:
        """Wait until all have been compressed."""
        self._paths.put(None)
        self._thread.join()

    def _run(self) -> None:
        # Linux has a nice value for each thread.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        while (path := self._paths.get()) is not None:
            try:
                compress(path)
            except OSError as error:
                self._say(f"can't compress {path}: {error.strerror}; it stays as it is")


def compress(path: Path) -> Path:
    """Replace a file by ``FILE.gz``, and return that.

    Raises OSError, for instance if there is a ``FILE.gz``; then the file is as it was.
    """
    zipped = path.with_name(path.name + GZIP)
    if zipped.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(zipped))
    part = zipped.with_name(zipped.name + PART)
    try:
        with path.open("rb") as source, part.open("wb") as file:
            with gzip.GzipFile(path.name, "wb", fileobj=file, mtime=0) as target:
                shutil.copyfileobj(source, target, 1 << 18)
            file.flush()
            os.fsync(file.fileno())
        shutil.copystat(path, part)
        os.rename(part, zipped)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)
    path.unlink(missing_ok=True)
    return zipped
