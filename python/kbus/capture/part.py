# SPDX-License-Identifier: MIT
"""A capture while it is written: whole blocks or nothing, and its last name only when it is done."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path
from typing import Optional, Union

PART = ".part"


class PartFile:
    """A new file ``path``, which is called ``path.part``, or has another such suffix, until it is sealed.

    Until then it is locked (flock), if the file system has locks, so that others can tell whether it is still
    written. Raises FileExistsError if there is one of either name, and OSError if it can't be made.
    """

    def __init__(self, path: Path, suffix: str = PART) -> None:
        self.path = path
        self._part = path.with_name(path.name + suffix)
        if path.exists():
            raise FileExistsError(f"{path} is there already")
        self._fd = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        # By its device and inode the file is known; no other one has them as long as it is open.
        self._status = os.fstat(self._fd)
        with contextlib.suppress(OSError):
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
            with contextlib.suppress(OSError):
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
        one is another, or is not as long as this one was; it stays as it is.
        """
        self._check_length()
        if sync:
            os.fsync(self._fd)
        if not self._has_name():
            raise OSError(errno.ESTALE, "another file has this name by now", str(self._part))
        self.close()
        rename(self._part, self.path)
        if sync:
            sync_directory(self.path.parent)
        return self.path

    def discard(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            self.close()
        with contextlib.suppress(FileNotFoundError):
            if self._has_name():
                self._part.unlink()

    def _check_length(self) -> None:
        if os.fstat(self._fd).st_size != self.size:
            self.is_torn = True
            raise OSError(errno.ESTALE, "somebody else has changed the file's length", str(self._part))

    def _has_name(self) -> bool:
        """Return whether its name is that of no other file: somebody may have removed or renamed this one.

        Raises OSError: FileNotFoundError if there is no file of this name.
        """
        return os.path.samestat(self._status, os.lstat(self._part))

    def close(self) -> None:
        """Close it without giving it its name. Can be repeated.

        Raises OSError if the disk tells only now that it has not kept what was written; the file is closed.
        """
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


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


#: What a file system says that knows no hard links, such as FAT
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def rename(before: Union[str, Path], after: Union[str, Path], directory: Optional[int] = None) -> None:
    """Give a file another name, but replace none. Names may be those of an open ``directory``.

    A machine that dies meanwhile may leave it both names. Where a file has one name only, as with FAT, one
    that appears at this moment is replaced. Raises OSError: FileExistsError if there is a file of that name.
    """
    try:
        os.link(before, after, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with contextlib.suppress(FileNotFoundError):
            os.stat(after, dir_fd=directory, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(after)) from None
        os.rename(before, after, src_dir_fd=directory, dst_dir_fd=directory)
        return
    # Whoever tidies may have been here already.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(before, dir_fd=directory)


def sync_directory(directory: Path) -> None:
    """Have the disk keep which files there are. Raises OSError."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
