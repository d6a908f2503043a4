# SPDX-License-Identifier: MIT
"""Going to the background, and the pid file."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import Optional

DEFAULT_PIDFILE = "/run/sbus.pid"


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

    Raises OSError if it cannot be written: BlockingIOError if a daemon that lives has it.
    """

    def __init__(self, path: str) -> None:
        self._path: Optional[str] = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._fd, 0)
            os.write(self._fd, b"%d\n" % os.getpid())
        except BaseException:
            os.close(self._fd)
            raise

    def close(self) -> None:
        """Take it away. Can be repeated."""
        if self._path is not None:
            with suppress(OSError):
                os.unlink(self._path)
            os.close(self._fd)
            self._path = None
