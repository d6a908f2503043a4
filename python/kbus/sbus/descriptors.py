# SPDX-License-Identifier: MIT
"""Having enough descriptors, and what to do when there are no more."""

from __future__ import annotations

import contextlib
import os
import resource
import socket


def raise_descriptor_limit() -> None:
    """Let this process have as many descriptors as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Spare:
    """A descriptor that is given up for a moment, to tell somebody that there are no more."""

    def __init__(self) -> None:
        self._fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def refuse(self, listening: socket.socket) -> None:
        """Accept a connection and close it."""
        os.close(self._fd)
        with contextlib.suppress(OSError):
            listening.accept()[0].close()
        self._fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Give it up for good."""
        os.close(self._fd)
