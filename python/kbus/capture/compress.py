# SPDX-License-Identifier: MIT
"""Compressing sealed captures beside the recording."""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import queue
import shutil
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Optional

from .part import PART, rename

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
                # There may have been no room for it meanwhile, or another recorder is compressing it.
                with suppress(FileNotFoundError, BlockingIOError):
                    compress(path)
            except OSError as error:
                self._say(f"can't compress {path}: {error.strerror}; it stays as it is")


def compress(path: Path) -> Path:
    """Replace a file by ``FILE.gz``, which has its mode and times, and return that.

    No symbolic link is followed. Raises OSError, for instance if there is a ``FILE.gz``, and BlockingIOError
    if another process is compressing it; then the file is as it was.
    """
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _replace(directory, path.name)
    finally:
        os.close(directory)
    return path.with_name(path.name + GZIP)


def _replace(directory: int, name: str) -> None:
    zipped, part = name + GZIP, name + GZIP + PART
    with open(name, "rb", opener=_opener(directory)) as source:
        # Whoever has the lock has the part file, too, and what is there of it is of one that has died.
        fcntl.flock(source, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            os.stat(zipped, dir_fd=directory, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), zipped)
        if not _is(source, directory, name):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        _remove(directory, part)
        try:
            _compress(source, directory, name, part)
            rename(part, zipped, directory)
        except OSError:
            _remove(directory, part)
            raise
        os.fsync(directory)
        if _is(source, directory, name):
            _remove(directory, name)


def _compress(source: BinaryIO, directory: int, name: str, part: str) -> None:
    """Write the new file ``part``, which has the mode and times of ``source``, and have the disk keep it."""
    status = os.fstat(source.fileno())
    mode = stat.S_IMODE(status.st_mode)
    with open(part, "xb", opener=_opener(directory, mode)) as file:
        os.fchmod(file.fileno(), mode)
        with gzip.GzipFile(name, "wb", fileobj=file, mtime=0) as target:
            shutil.copyfileobj(source, target, 1 << 18)
        file.flush()
        os.utime(file.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(file.fileno())


def _is(file: BinaryIO, directory: int, name: str) -> bool:
    """Return whether this is the file of that name."""
    with suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        return os.path.samestat(os.fstat(file.fileno()), status)
    return False


def _opener(directory: int, mode: int = 0) -> Callable[[str, int], int]:
    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=directory)

    return opener


def _remove(directory: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
