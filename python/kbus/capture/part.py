# SPDX-License-Identifier: MIT
"""A capture while it is made: whole blocks or nothing, its last name only when it is done, compression."""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import shutil
from contextlib import suppress
from pathlib import Path

from .input import open_file

PART = ".part"
GZIP = ".gz"


class PartFile:
    """A new file ``path``, which is called ``path.part``, or has another such suffix, until it is sealed.

    ``name`` is the path that it has now. Until it is sealed it is locked (flock), if the file system has
    locks, so that others can see whether it is still written. Raises FileExistsError if there is one of
    either name, and OSError if it can't be made.
    """

    def __init__(self, path: Path, suffix: str = PART) -> None:
        self.path = path
        self.name = path.with_name(path.name + suffix)
        _refuse(path)
        self._fd = os.open(self.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        with suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.size = 0
        self.is_torn = False

    def append(self, data: bytes) -> None:
        """Append all of ``data``; if there is no room for it, nothing. Raises OSError.

        If a part of it was written and can't be taken back, it ``is_torn``, and can only be closed.
        """
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            # What is left of a block would make the file unreadable from there on.
            self.is_torn = True
            with suppress(OSError):
                os.ftruncate(self._fd, self.size)
                os.lseek(self._fd, self.size, os.SEEK_SET)
                self.is_torn = False
            raise
        self.size += len(data)

    def sync(self) -> None:
        """Have the disk keep what was appended, whatever happens to the machine. Raises OSError."""
        os.fdatasync(self._fd)

    def seal(self, sync: bool) -> Path:
        """Give the file its name; with ``sync`` only when it is safe on the disk. Returns where it is.

        Raises OSError: FileExistsError if there is such a file by now. ``name`` is then what the file is
        called.
        """
        if sync:
            os.fsync(self._fd)
        self.close()
        _refuse(self.path)
        os.rename(self.name, self.path)
        self.name = self.path
        if sync:
            sync_directory(self.path.parent)
        return self.path

    def discard(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            self.close()
        self.name.unlink(missing_ok=True)

    def close(self) -> None:
        """Close it without giving it its name. Can be repeated.

        Raises OSError if the disk reports only now that it has not kept what was written; the file is closed.
        """
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _refuse(path: Path) -> None:
    """Raise FileExistsError if there is anything of this name."""
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def is_being_written(path: Path) -> bool:
    """Return whether this is a ``PartFile`` that is being written, as far as locks show. Raises OSError."""
    with open_file(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return isinstance(error, BlockingIOError)
    return False


def sync_directory(directory: Path) -> None:
    """Have the disk keep which files there are. Raises OSError."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def compress(path: Path) -> Path:
    """Replace a file by ``FILE.gz``, which has its mode and times, and return that.

    Raises OSError; then the file is as it was.
    """
    zipped = path.with_name(path.name + GZIP)
    part = path.with_name(zipped.name + PART)
    with open(path, "rb") as source:
        status = os.fstat(source.fileno())
        # Only the bits to read and to write are kept.
        mode = status.st_mode & 0o666
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with open(fd, "wb") as file:
                os.fchmod(fd, mode)
                with gzip.GzipFile(path.name, "wb", fileobj=file, mtime=0) as target:
                    shutil.copyfileobj(source, target, 1 << 18)
                file.flush()
                os.utime(fd, ns=(status.st_atime_ns, status.st_mtime_ns))
                os.fsync(fd)
            _refuse(zipped)
            os.rename(part, zipped)
        except OSError:
            part.unlink(missing_ok=True)
            raise
    sync_directory(path.parent)
    path.unlink(missing_ok=True)
    return zipped
