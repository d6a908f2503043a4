# SPDX-License-Identifier: MIT
"""A descriptor that shows what a KSock of the model is ready for: something to read, room to send."""

from __future__ import annotations

import contextlib
import os
import select
import socket


class Ready:
    """One end of a pair of sockets, whose other end a program polls.

    That is readable while a byte from here waits there, and writable unless it has been filled.

    A program that reads, writes or shuts down its end itself may be shown something wrong, but does no harm
    to others.
    """

    def __init__(self) -> None:
        self._own, self._theirs = socket.socketpair()
        self._own.setblocking(False)
        # Less to fill.
        self._theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        self._is_readable = False
        self._is_writable = True

    def show(self, mask: int) -> None:
        """Let poll give POLLIN and POLLOUT as the mask has them."""
        self._show_readable(bool(mask & select.POLLIN))
        self._show_writable(bool(mask & select.POLLOUT))

    def descriptor(self) -> int:
        """Return a descriptor to poll, which belongs to the caller."""
        return os.dup(self._theirs.fileno())

    def close(self) -> None:
        """Close this end, and this process's share in the other one."""
        self._own.close()
        self._theirs.close()

    def _show_readable(self, is_readable: bool) -> None:
        with contextlib.suppress(OSError):
            if is_readable and not self._is_readable:
                self._own.send(b"\0")
            elif self._is_readable and not is_readable:
                self._theirs.recv(1, socket.MSG_DONTWAIT)
        self._is_readable = is_readable

    def _show_writable(self, is_writable: bool) -> None:
        with contextlib.suppress(OSError):
            if is_writable and not self._is_writable:
                # Nothing is read for ever where the other end is shut down.
                while self._own.recv(1 << 16):
                    pass
            while self._is_writable and not is_writable:
                self._theirs.send(bytes(1 << 12), socket.MSG_DONTWAIT)
        self._is_writable = is_writable
