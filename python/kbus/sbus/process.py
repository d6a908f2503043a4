# SPDX-License-Identifier: MIT
"""The daemon as a process: going to the background, its pid file, and having enough descriptors."""

from __future__ import annotations

import fcntl
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Optional

from ..terminal.failures import Failure

DEFAULT_PIDFILE = "/run/sbus.pid"
#: Descriptors that a daemon needs for other things than clients.
_OWN = 12


class Background:
    """Forks; the process that goes on is in a session of its own, and the one that was called waits.

    That one ends with status 0 when ``ready`` is called, and with 1 if the other one ends before that. stderr
    stays open until then.
    """

    def __init__(self) -> None:
        reader, self._writer = os.pipe()
        if os.fork():
            os.close(self._writer)
            os._exit(0 if os.read(reader, 1) else 1)
        os.close(reader)
        os.setsid()

    def ready(self) -> None:
        """Let the process that was called end, and its standard streams go."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        if nowhere > 2:
            os.close(nowhere)
        os.write(self._writer, b"+")
        os.close(self._writer)


class PidFile:
    """A file with this process's id, locked as long as the process lives, and taken away in the end.

    Raises Failure if it cannot be written, or if a daemon that lives, or another process, has locked it.
    """

    def __init__(self, path: str, mode: int = 0o644) -> None:
        self._path: Optional[str] = path
        links = 0
        try:
            # The daemon that had it may have taken it away between open and flock.
            while not links:
                self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
                try:
                    fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.ftruncate(self._fd, 0)
                    os.write(self._fd, b"%d\n" % os.getpid())
                    links = os.fstat(self._fd).st_nlink
                finally:
                    if not links:
                        os.close(self._fd)
        except BlockingIOError:
            raise Failure(f"{path}: its daemon still lives, or another process has locked it") from None
        except OSError as error:
            raise Failure(f"{path}: {error.strerror}") from error

    def close(self) -> None:
        """Take it away, unless another file is there by now. Can be repeated."""
        if self._path is not None:
            with suppress(OSError):
                if os.path.samestat(os.lstat(self._path), os.fstat(self._fd)):
                    os.unlink(self._path)
            os.close(self._fd)
            self._path = None


def raise_descriptor_limit() -> None:
    """Let this process have as many descriptors as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def room_for_clients() -> int:
    """Return for how many clients this process may have descriptors: two for each, and some of its own."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(1, (soft - _OWN) // 2)


class Spare:
    """Two descriptors, as a client takes, that are given up while a client is refused for lack of any."""

    def __init__(self) -> None:
        self._fds: list[int] = []
        self._open()

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Do without them meanwhile."""
        self.close()
        yield
        self._open()

    def close(self) -> None:
        """Give them up."""
        while self._fds:
            os.close(self._fds.pop())

    def _open(self) -> None:
        # Another process may have taken them before.
        with suppress(OSError):
            while len(self._fds) < 2:
                self._fds.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
