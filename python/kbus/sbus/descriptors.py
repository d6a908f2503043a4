# SPDX-License-Identifier: MIT
"""Having enough descriptors, and what to do when there are no more."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sys
from typing import Optional

#: Descriptors that a daemon needs for other things than clients, generously.
_OWN = 32


def raise_descriptor_limit() -> None:
    """Let this process have as many descriptors as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def room_for_clients() -> int:
    """Return for how many clients this process may have descriptors: two for each, and some of its own."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(1, (soft - _OWN) // 2)


class Spare:
    """A descriptor that is given up for a moment, to tell somebody that there are no more."""

    def __init__(self) -> None:
        self._fd: Optional[int] = None
        self._open()

    def refuse(self, listening: socket.socket) -> None:
        """Accept a connection and close it, unless another process has taken the descriptor before."""
        self.close()
        with contextlib.suppress(OSError):
            listening.accept()[0].close()
        self._open()

    def close(self) -> None:
        """Give it up."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> None:
        with contextlib.suppress(OSError):
            self._fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
