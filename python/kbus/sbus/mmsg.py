# SPDX-License-Identifier: MIT
"""recvmmsg and sendmmsg: many packets with one system call."""

from __future__ import annotations

import ctypes
import mmap
import socket
from collections.abc import Sequence

from .libc import failure, libc

#: how many packets go with one call
BATCH = 64

_DONTWAIT = socket.MSG_DONTWAIT
_NO_SIGNAL = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL


class _Part(ctypes.Structure):
    """struct iovec"""

    _fields_ = (("base", ctypes.c_void_p), ("len", ctypes.c_size_t))


class _Header(ctypes.Structure):
    """struct msghdr"""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_len", ctypes.c_uint32),
        ("parts", ctypes.POINTER(_Part)),
        ("parts_len", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_len", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):
    """struct mmsghdr"""

    _fields_ = (("header", _Header), ("len", ctypes.c_uint))


_recvmmsg = libc.recvmmsg
_recvmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p)
_sendmmsg = libc.sendmmsg
_sendmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)

_STEP = ctypes.sizeof(_Message) // 4
_LEN_AT = _Message.len.offset // 4
_PART_STEP = ctypes.sizeof(_Part) // ctypes.sizeof(ctypes.c_size_t)


class _Vector:
    """``BATCH`` messages of one part each."""

    def __init__(self) -> None:
        self.parts = (_Part * BATCH)()
        self.messages = (_Message * BATCH)()
        for message, part in zip(self.messages, self.parts):
            message.header.parts = ctypes.pointer(part)
            message.header.parts_len = 1
        self.address = ctypes.addressof(self.messages)


class Receiver:
    """Memory to receive ``BATCH`` packets of at most ``most`` bytes into; what is not used takes no room."""

    def __init__(self, most: int) -> None:
        # One byte more, so that a packet that is too long can be told from one that just fits.
        self._slot = most + 1
        self._memory = mmap.mmap(-1, self._slot * BATCH)
        self._view = memoryview(self._memory)
        self._vector = _Vector()
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for number, part in enumerate(self._vector.parts):
            part.base = start + number * self._slot
            part.len = self._slot
        self._lengths = memoryview(self._vector.messages).cast("B").cast("I")[_LEN_AT::_STEP]

    def receive(self, fd: int) -> list[bytes]:
        """Return the packets that are there, at most ``BATCH``; of each at most ``most`` bytes and one.

        Raises BlockingIOError if there is none, OSError as recvmmsg(2) fails. A packet of no bytes is the
        end of the connection or an empty packet, as with recv(2).
        """
        count = _recvmmsg(fd, self._vector.address, BATCH, _DONTWAIT, None)
        if count < 0:
            raise failure()
        view, slot = self._view, self._slot
        return [
            bytes(view[at : at + length])
            for at, length in zip(range(0, count * slot, slot), self._lengths[:count].tolist())
        ]


class Sender:
    """Packets that are laid out once and sent to any number of sockets."""

    def __init__(self) -> None:
        self._vector = _Vector()
        self._parts = memoryview(self._vector.parts).cast("B").cast("P")
        self._count = 0
        self._kept = b""

    def load(self, packets: Sequence[bytes]) -> None:
        """Lay out at most ``BATCH`` packets."""
        self._kept = b"".join(packets)
        at = ctypes.cast(ctypes.c_char_p(self._kept), ctypes.c_void_p).value or 0
        parts = self._parts
        index = 0
        for packet in packets:
            length = len(packet)
            parts[index] = at
            parts[index + 1] = length
            at += length
            index += _PART_STEP
        self._count = len(packets)

    def send(self, fd: int) -> int:
        """Send what is laid out, and return how many packets the socket took; 0 if it takes none.

        Why it did not take the next one, send(2) tells when that is tried again.
        """
        sent: int = _sendmmsg(fd, self._vector.address, self._count, _NO_SIGNAL)
        return max(0, sent)
