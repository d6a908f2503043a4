# SPDX-License-Identifier: MIT
"""Memory that holds up whoever touches it: userfaultfd(2), and ioctl_userfaultfd(2)."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import select
import struct

_SYSTEM_CALL = {"x86_64": 323, "aarch64": 282, "armv7l": 388}[os.uname().machine]
_libc = ctypes.CDLL(None, use_errno=True)

_API_VERSION = 0xAA
_MODE_MISSING = 1
_API, _REGISTER, _ZEROPAGE = struct.Struct("=3Q"), struct.Struct("=4Q"), struct.Struct("=3Qq")


def _ioctl(fd: int, number: int, packer: struct.Struct, *values: int) -> None:
    request = 3 << 30 | packer.size << 16 | _API_VERSION << 8 | number
    fcntl.ioctl(fd, request, bytearray(packer.pack(*values)))


class LateMemory:
    """Pages of memory that are not there until `come`."""

    def __init__(self, pages: int) -> None:
        self._length = pages * mmap.PAGESIZE
        self._map = mmap.mmap(-1, self._length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._content = (ctypes.c_char * self._length).from_buffer(self._map)
        self.address = ctypes.addressof(self._content)
        # Without O_NONBLOCK, poll() and the like say at once that there is something.
        self._fd = _libc.syscall(_SYSTEM_CALL, os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        _ioctl(self._fd, 0x3F, _API, _API_VERSION, 0, 0)
        _ioctl(self._fd, 0x00, _REGISTER, self.address, self._length, _MODE_MISSING, 0)

    def is_wanted(self, seconds: float) -> bool:
        """Whether somebody touches it within this time."""
        return bool(select.select([self._fd], [], [], seconds)[0])

    def come(self) -> None:
        """Let whoever has touched it go on, with zeros in it."""
        _ioctl(self._fd, 0x04, _ZEROPAGE, self.address, self._length, 0, 0)

    def read(self, length: int) -> bytes:
        """The first bytes of it."""
        return self._map[:length]

    def close(self) -> None:
        """From here on it is memory like any other."""
        os.close(self._fd)
