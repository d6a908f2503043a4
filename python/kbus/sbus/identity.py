# SPDX-License-Identifier: MIT
"""The process at the other end of a socket, and whether it is still there."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import struct
from collections.abc import Iterator
from typing import Optional

from .mmsg import libc
from .secret import Credentials

#: pid, uid and gid; the latter two have no sign
_UCRED = struct.Struct("=i2I")
#: the kernel's numbers, which Python does not name
_SO_PEERGROUPS = 59
_SO_PEERPIDFD = 77
_MOST_GROUPS = 65536


class Identity:
    """The process that connected a socket, with the credentials that it had then.

    A process that got the descriptor later, from its parent or through another socket, has the
    same credentials as long as the first one lives. When that has ended, another process may get its id. So
    ``holds`` is False from then on, and no process inherits an identity.

    Raises OSError if the socket is no Unix socket, or no descriptor is free.
    """

    def __init__(self, connected: socket.socket) -> None:
        pid, uid, gid = peer_credentials(connected)
        self.credentials = Credentials(gid, uid, pid, Groups(connected))
        self._process = _process(connected, pid)

    def holds(self) -> bool:
        """Return whether the process that connected has not ended."""
        if self._process is None:
            return False
        poll = select.poll()
        poll.register(self._process, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Forget the process. Can be repeated."""
        if self._process is not None:
            os.close(self._process)
            self._process = None


class Groups:
    """The supplementary groups of the process that connected a socket.

    The kernel is asked each time, as 65,536 of them would take megabytes here, for each client.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._connected = connected

    def __iter__(self) -> Iterator[int]:
        groups = (ctypes.c_uint32 * _MOST_GROUPS)()
        size = ctypes.c_uint32(ctypes.sizeof(groups))
        # Python's getsockopt() has no room for more than 256.
        fd = self._connected.fileno()
        if libc.getsockopt(fd, socket.SOL_SOCKET, _SO_PEERGROUPS, groups, ctypes.byref(size)):
            return iter(())
        return iter(groups[: size.value // ctypes.sizeof(ctypes.c_uint32)])


def peer_credentials(connected: socket.socket) -> tuple[int, int, int]:
    """Return the pid, uid and gid of the process that connected. Raises OSError if it is no Unix socket."""
    data = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, gid = _UCRED.unpack(data)
    return pid, uid, gid


def _process(connected: socket.socket, pid: int) -> Optional[int]:
    """A descriptor of the process; None if it has ended, or cannot be seen from here."""
    try:
        return connected.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        if error.errno != errno.ENOPROTOOPT:
            return None
    # Before Linux 6.5. Another process may have got the id since connect().
    try:
        return os.pidfd_open(pid)
    except (ProcessLookupError, ValueError):
        return None
    except OSError as error:
        if pid <= 0:
            return None
        raise error
