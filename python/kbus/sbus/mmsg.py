# SPDX-License-Identifier: MIT
"""The C library, for what Python does not have: recvmmsg and sendmmsg, many packets with one call."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import struct
from collections.abc import Sequence

#: how many packets go with one call
BATCH = 64

_DONTWAIT = socket.MSG_DONTWAIT
_NO_SIGNAL = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL

libc = ctypes.CDLL(None, use_errno=True)


def failure() -> OSError:
    """Return why the last call failed."""
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


#: struct mmsghdr: name and length, parts and how many, control and length, flags; length of the message
_MESSAGE = struct.Struct("PIPNPNi0PI0P")
_LEN_AT = struct.calcsize("PIPNPNi0P")

_recvmmsg = libc.recvmmsg
_recvmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p)
_sendmmsg = libc.sendmmsg
_sendmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)


class _Vector:
    """``BATCH`` messages of one part each. ``parts`` are struct iovec: an address, a length, and so on."""

    def __init__(self) -> None:
        self._parts = (ctypes.c_size_t * (2 * BATCH))()
        self._messages = ctypes.create_string_buffer(BATCH * _MESSAGE.size)
        self.parts = memoryview(self._parts).cast("B").cast("P")
        self.address = ctypes.addressof(self._messages)
        first, step = ctypes.addressof(self._parts), 2 * ctypes.sizeof(ctypes.c_size_t)
        for number in range(BATCH):
            at = first + number * step
            _MESSAGE.pack_into(self._messages, number * _MESSAGE.size, 0, 0, at, 1, 0, 0, 0, 0)
        #: how long each message was that was received
        self.lengths = memoryview(self._messages).cast("B").cast("I")[_LEN_AT // 4 :: _MESSAGE.size // 4]


class Receiver:
    """Memory to receive ``BATCH`` packets of at most ``most`` bytes into; what is not used takes no room."""

    def __init__(self, most: int) -> None:
        # One byte more, so that a packet that is too long can be distinguished from one that just fits.
        self._slot = most + 1
        self._memory = mmap.mmap(-1, self._slot * BATCH)
        self._view = memoryview(self._memory)
        self._vector = _Vector()
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for number in range(BATCH):
            self._vector.parts[2 * number] = start + number * self._slot
            self._vector.parts[2 * number + 1] = self._slot

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
            for at, length in zip(range(0, count * slot, slot), self._vector.lengths[:count].tolist())
        ]


class PacketSender:
    """Packets that are laid out once and sent to any number of sockets."""

    def __init__(self) -> None:
        self._vector = _Vector()
        self._count = 0
        self._kept = b""

    def load(self, packets: Sequence[bytes]) -> None:
        """Lay out at most ``BATCH`` packets."""
        self._kept = b"".join(packets)
        at = ctypes.cast(ctypes.c_char_p(self._kept), ctypes.c_void_p).value or 0
        parts = self._vector.parts
        index = 0
        for packet in packets:
            length = len(packet)
            parts[index] = at
            parts[index + 1] = length
            at += length
            index += 2
        self._count = len(packets)

    def send(self, fd: int) -> int:
        """Send what is laid out, and return how many packets the socket took; 0 if it takes none.

        send(2) says why it did not take the next one, when that is tried again.
        """
        sent: int = _sendmmsg(fd, self._vector.address, self._count, _NO_SIGNAL)
        return max(0, sent)
