# SPDX-License-Identifier: MIT
"""Counting how often the kernel touches a byte of user memory, with the processor's own breakpoints.

perf_event_open(2) sets them. They see every access, by get_user() and put_user() as well, and so more than
fault injection does. A breakpoint is for writing, or for reading and writing.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from collections.abc import Callable
from typing import NamedTuple

from tests.debug.faults import Attempt, Call

_PERF_EVENT_OPEN = 298
_TYPE_BREAKPOINT, _WRITING, _READING_AND_WRITING = 5, 2, 3
_DISABLED, _EXCLUDE_USER = 1 << 0, 1 << 4
_ENABLE, _DISABLE = 0x2400, 0x2401
_libc = ctypes.CDLL(None, use_errno=True)


class Touched(NamedTuple):
    """How often a byte was read and written by the kernel."""

    reads: int
    writes: int


def _breakpoint(address: int, kind: int) -> int:
    """A descriptor that counts accesses of this thread to the byte, once it is enabled."""
    attributes = struct.pack(
        *("=IIQQQQQIIQQ", _TYPE_BREAKPOINT, 72, 0, 0, 0, 0, _DISABLED | _EXCLUDE_USER, 0, kind, address, 1)
    )
    fd = _libc.syscall(_PERF_EVENT_OPEN, attributes, 0, -1, -1, 0)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "perf_event_open")
    return int(fd)


def watched(prepare: Callable[[], Call], address: int) -> tuple[Attempt, Touched]:
    """Make the call twice; how it ended, both times, and how often the kernel touched the byte in it.

    `prepare` gives the call, each time anew. There is one breakpoint at a time, because QEMU reports only one
    of two that an access meets.
    """
    attempts, counts = [], []
    for kind in (_READING_AND_WRITING, _WRITING):
        call = prepare()
        fd = _breakpoint(address, kind)
        try:
            fcntl.ioctl(fd, _ENABLE, 0)
            attempts.append(call.run())
            fcntl.ioctl(fd, _DISABLE, 0)
            counts.append(int.from_bytes(os.read(fd, 8), "little"))
        finally:
            os.close(fd)
    assert attempts[0] == attempts[1]
    both, writes = counts
    return attempts[0], Touched(both - writes, writes)
