# SPDX-License-Identifier: MIT
"""A capture while it is made: whole blocks or nothing, its last name only when it is done, compression."""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

PART = ".part"
GZIP = ".gz"


class PartFile:
    """A new file ``path``, which is called ``path.part``, or has another such suffix, until it is sealed.

    ``name`` is the path that it has now. Until it is sealed it is locked (flock), if the file system has
    locks, so that others can tell whether it is still written. Raises FileExistsError if there is one of
    either name, and OSError if it can't be made.
    """

    def __init__(self, path: Path, suffix: str = PART) -> None:
        self.path = path
        self.name = path.with_name(path.name + suffix)
        _refuse(path)
        self._fd = os.open(self.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        # By its device and inode the file is known; no other one has them as long as it is open.
        self._status = os.fstat(self._fd)
        with suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.size = 0
        self.is_torn = False

    def append(self, data: bytes) -> None:
        """Append all of ``data``; if there is no room for it, nothing. Raises OSError.

        If a part of it was written and can't be taken back, or somebody has changed the file's length, it
        ``is_torn``, and can only be closed.
        """
        self._check_length()
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

        Raises OSError: FileExistsError if there is such a file by now, ESTALE if what has the name of this
        one is another, or is not as long as this one was. ``name`` tells then what the file is called.
        """
        self._check_length()
        if sync:
            os.fsync(self._fd)
        if not self._has_name():
            raise OSError(errno.ESTALE, "another file has this name by now", str(self.name))
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
        with suppress(FileNotFoundError):
            if self._has_name():
                self.name.unlink()

    def _check_length(self) -> None:
        if os.fstat(self._fd).st_size != self.size:
            self.is_torn = True
            raise OSError(errno.ESTALE, "somebody else has changed the file's length", str(self.name))

    def _has_name(self) -> bool:
        """Return whether its name is that of no other file: somebody may have removed or renamed this one.

        Raises OSError: FileNotFoundError if there is no file of this name.
        """
        return os.path.samestat(self._status, self.name.lstat())

    def close(self) -> None:
        """Close it without giving it its name. Can be repeated.

        Raises OSError if the disk tells only now that it has not kept what was written; the file is closed.
        """
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _refuse(path: Path) -> None:
    """Raise FileExistsError if there is anything of this name."""
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def is_being_written(path: Path) -> bool:
    """Return whether this is a ``PartFile`` that somebody writes, as far as locks tell. Raises OSError."""
    # A FIFO would be waited for.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
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

    A ``FILE.gz`` of the same user is replaced: a crash has left it. No symbolic link is followed. Raises
    OSError, and BlockingIOError if somebody has locked the file, as who is compressing it has; then it is as
    it was.
    """
    zipped = path.with_name(path.name + GZIP)
    part = path.with_name(zipped.name + PART)
    # NFS locks only what is open for writing. To open a FIFO must not wait.
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as source:
        status = os.fstat(fd)
        if not is_own(status) or (os.path.lexists(zipped) and not is_own(zipped.lstat())):
            raise PermissionError(errno.EPERM, "it, or what has its new name, is of somebody else", str(path))
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever has the lock has the part file, too, and what is there of it is of one that has died.
        part.unlink(missing_ok=True)
        try:
            _compress(source, status, path.name, part)
            os.rename(part, zipped)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)
        path.unlink(missing_ok=True)
    return zipped


def _compress(source: BinaryIO, status: os.stat_result, name: str, part: Path) -> None:
    """Write the new file ``part``, which has the mode and times of the other, and have the disk keep it."""
    # Nobody is to get more by what is made here than to read or to write it.
    mode = status.st_mode & 0o666
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(fd, "wb") as file:
        os.fchmod(fd, mode)
        with gzip.GzipFile(name, "wb", fileobj=file, mtime=0) as target:
            shutil.copyfileobj(source, target, 1 << 18)
        file.flush()
        os.utime(fd, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(fd)


def is_own(status: os.stat_result) -> bool:
    """Return whether this is a file, and of whoever asks: others may call theirs as they like."""
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
