# SPDX-License-Identifier: MIT
"""A bus without KBUS, for tests of the daemon that need no module: all that is sent comes back."""

from __future__ import annotations

import os
import struct
from collections import deque
from types import SimpleNamespace

from kbus import _abi as abi
from kbus.sbus import daemon

_FROM_AT = struct.calcsize("=6I")


class EchoBus:
    """What `BridgeKsock` is, for one who is bound to everything."""

    id = 1
    queue_length = 10_000

    def __init__(self, device: int = 0, receive_size: int = 256 * 1024) -> None:
        self.ksock = SimpleNamespace(which=device)
        self.lost = 0
        self.received = 0
        self.bound: set[bytes] = set()
        self._receive_size = receive_size
        self._queue: deque[bytes] = deque()
        self._reader, self._writer = os.pipe()
        self._is_readable = False

    @property
    def queued(self) -> int:
        return len(self._queue)

    def fileno(self) -> int:
        return self._reader

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)

    def bind(self, name: bytes) -> None:
        self.bound.add(name)

    def unbind(self, name: bytes) -> None:
        self.bound.remove(name)

    def exchange(self, outgoing: bytes) -> tuple[int, int, bytes]:
        sent = 0
        while outgoing:
            message, outgoing = _first(outgoing)
            self.arrive(message, self.id)
            sent += 1
        received = b""
        self.received = 0
        while self._queue and len(received) + len(self._queue[0]) <= max(
            self._receive_size, len(self._queue[0])
        ):
            received += self._queue.popleft()
            self.received += 1
        if bool(self._queue) != self._is_readable:
            self._set_readable(bool(self._queue))
        return sent, 0, received

    def arrive(self, message: bytes, sender: int) -> None:
        """Queue a message, if there is room; before the others, if it is urgent."""
        if len(self._queue) >= self.queue_length:
            self.lost += 1
            return
        add = self._queue.appendleft if _flags(message) & abi.BIT_URGENT else self._queue.append
        add(message[:_FROM_AT] + abi.U32.pack(sender) + message[_FROM_AT + 4 :])

    def _set_readable(self, readable: bool) -> None:
        self._is_readable = readable
        if readable:
            os.write(self._writer, b".")
        else:
            os.read(self._reader, 1)


def use_no_kbus() -> None:
    """Have daemons of this process on a bus of their own."""
    vars(daemon).update(BridgeKsock=EchoBus)


def _flags(message: bytes) -> int:
    flags: int = abi.MESSAGE_HEADER.unpack_from(message)[7]
    return flags


def _first(messages: bytes) -> tuple[bytes, bytes]:
    """The first message, with the padding behind it, and the rest."""
    header = abi.MESSAGE_HEADER.unpack_from(messages)
    end = abi.MESSAGE_HEADER.size + abi.padded(header[8]) + 4 * header[9] + abi.U32.size
    end += -end % abi.TRANSFER_ALIGN
    return messages[:end], messages[end:]
