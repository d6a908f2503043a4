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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Optional

from .part import PART, rename

GZIP = ".gz"
#: Seconds between two looks at whether a file is locked still, for instance by another recorder
_RETRY = 10.0
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
        locked: list[Path] = []
        path: Optional[Path] = None
        is_end = False
        while not is_end:
            try:
                path = self._paths.get(timeout=_RETRY if locked else None)
            except queue.Empty:
                locked = [each for each in locked if not self._compress(each)]
                continue
            is_end = path is None
            if path and not self._compress(path):
                self._say(f"{path} is not compressed yet: somebody has locked it")
                locked.append(path)
        for each in locked:
            self._compress(each)

    def _compress(self, path: Path) -> bool:
        """Compress a file, if that can be done. Return False if somebody has locked it."""
        try:
            # There may have been no room for it meanwhile.
            with suppress(FileNotFoundError):
                compress(path)
        except BlockingIOError:
            return False
        except OSError as error:
            self._say(f"can't compress {path}: {error.strerror}; it stays as it is")
        return True


def compress(path: Path) -> Path:
    """Replace a file by ``FILE.gz``, which has its mode and times, and return that.

    No symbolic link is followed. Raises OSError, for instance if there is a ``FILE.gz``, and BlockingIOError
    if somebody has locked it, as who is compressing it has; then the file is as it was.
    """
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _replace(directory, path.name)
    finally:
        os.close(directory)
    return path.with_name(path.name + GZIP)


def _replace(directory: int, name: str) -> None:
    zipped, part = name + GZIP, name + GZIP + PART
    # Whoever has the lock has the part file, too, and what is there of it is of one that has died.
    with open(name, "rb", opener=_opener(directory)) as source, _locked(source, directory, name):
        if not is_own(os.fstat(source.fileno())):
            raise PermissionError(errno.EPERM, "not a file of whoever compresses", name)
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


@contextmanager
def _locked(source: BinaryIO, directory: int, name: str) -> Iterator[None]:
    """Have a file locked for this process alone. Raises BlockingIOError if somebody else has locked it."""
    with ExitStack() as stack:
        try:
            fcntl.flock(source, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            # NFS gives such a lock only on what is open for writing.
            writable = stack.enter_context(open(name, "r+b", opener=_opener(directory)))
            fcntl.flock(writable, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _compress(source: BinaryIO, directory: int, name: str, part: str) -> None:
    """Write the new file ``part``, which has the mode and times of ``source``, and have the disk keep it."""
    status = os.fstat(source.fileno())
    # Nobody is to get more by what is made here than to read or to write it.
    mode = status.st_mode & 0o666
    with open(part, "xb", opener=_opener(directory, mode)) as file:
        os.fchmod(file.fileno(), mode)
        with gzip.GzipFile(name, "wb", fileobj=file, mtime=0) as target:
            shutil.copyfileobj(source, target, 1 << 18)
        file.flush()
        os.utime(file.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(file.fileno())


def is_own(status: os.stat_result) -> bool:
    """Return whether this is a file, and of whoever asks: others may call theirs as they like."""
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()


def _is(file: BinaryIO, directory: int, name: str) -> bool:
    """Return whether this is the file of that name."""
    with suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        return os.path.samestat(os.fstat(file.fileno()), status)
    return False


def _opener(directory: int, mode: int = 0) -> Callable[[str, int], int]:
    def opener(name: str, flags: int) -> int:
        # To open a FIFO must not wait.
        extra = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        return os.open(name, flags | extra, mode, dir_fd=directory)

    return opener


def _remove(directory: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
