# SPDX-License-Identifier: MIT
"""The KBUS side of a bridge: one KSock, by which messages go out and come in, many with one call (TRANSFER).

Messages are packed and taken apart as bytes here, and not by ``kbus.Message``: a bridge looks only at the
name and passes the rest on, and making an object for each message took most of its time.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from fcntl import ioctl
from functools import lru_cache

from .. import Ksock, abi
from ..transfer import INPUT, memory

#: How much is sent with one call. The kernel copies in as much at a time.
MOST_BYTES = 64 * 1024
MOST_MESSAGES = 128
_RECEIVE_SIZE = 256 * 1024

#: lost, send_len and receive_len (not looked at), sent, error, kept, received, received_len, queued, next_len
_OUT = struct.Struct("=QQ7I")
_OUT_AT = 32
# To look these up in abi for each message would take longer than what is done with them.
_START_GUARD, _END_GUARD, _PAD_SHIFT = abi.MSG_START_GUARD, abi.MSG_END_GUARD, abi.DATA_PAD_SHIFT


@lru_cache(maxsize=1024)
def _packer(name_len: int, data_len: int) -> Callable[..., bytes]:
    """What packs a message with padding up to where the next one begins."""
    name_size, data_size = abi.padded(name_len), abi.padded(data_len)
    end = abi.MESSAGE_HEADER.size + name_size + data_size + abi.U32.size
    return struct.Struct(f"=10I{name_size}s{data_size}sI{-end % abi.TRANSFER_ALIGN}x").pack


def announcement(name: bytes, data: bytes, user_bits: int) -> bytes:
    """Return an announcement as TRANSFER takes it. ``user_bits`` are bits 16 to 29 of the flags."""
    name_len, data_len = len(name), len(data)
    return _packer(name_len, data_len)(
        _START_GUARD, 0, 0, 0, 0, 0, 0, user_bits << 16 | (-data_len & 3) << _PAD_SHIFT,
        name_len, (data_len + 3) >> 2, name, data, _END_GUARD,
    )  # fmt: skip


class Bus:
    """An open KBUS device with the longest queue that it allows.

    ``queued`` is how many messages waited after the last call, ``received`` how many it has brought, ``lost``
    how many this KSock has missed. Raises OSError as Ksock does.
    """

    def __init__(self, device: int) -> None:
        self.ksock = Ksock(device, nonblocking=True)
        self.ksock.want_messages_once(True)
        # Any number is cut down to what the administrator allows.
        self.queue_length = self.ksock.set_max_messages(abi.U32_MAX)
        self.id = self.ksock.ksock_id()
        self._fd = self.ksock.fileno()
        self.queued = 0
        self.received = 0
        self.lost = 0
        self._argument = bytearray(abi.TRANSFER.size)
        self._out, self._out_at = memory(MOST_BYTES)
        self._in, self._in_at = memory(_RECEIVE_SIZE)

    def fileno(self) -> int:
        """Return the descriptor of the KSock, which is readable when messages wait."""
        return self.ksock.fileno()

    def close(self) -> None:
        """Close the device."""
        self.ksock.close()

    def bind(self, name: bytes) -> None:
        """Listen to a name. Raises OSError."""
        self.ksock.bind(name.decode())

    def unbind(self, name: bytes) -> None:
        """Listen to it no more."""
        self.ksock.unbind(name.decode())

    def exchange(self, outgoing: bytes) -> tuple[int, int, bytes]:
        """Send messages, as ``announcement`` makes them, and take what has come.

        Returns how many were sent, the errno with which the next one was refused or 0, and the messages that
        were received, one after the other. Those after one that was refused are not sent.
        """
        length = len(outgoing)
        if length > len(self._out):
            self._out, self._out_at = memory(length)
        self._out[:length] = outgoing
        incoming, argument = self._in, self._argument
        INPUT.pack_into(
            argument, 0,
            self._out_at, 0, self._in_at, abi.TRANSFER_NOW, 0, length, len(incoming), 0, 0, 0,
        )  # fmt: skip
        try:
            ioctl(self._fd, abi.IOC_TRANSFER, argument)
        except InterruptedError:
            # Nothing has been done.
            return 0, 0, b""
        self.lost, _, sent, error, _, self.received, received_len, self.queued, next_len = _OUT.unpack_from(
            argument, _OUT_AT
        )
        received = incoming[:received_len].tobytes() if received_len else b""
        if next_len > len(incoming):
            self._in, self._in_at = memory(next_len)
        # If a signal came before all of them were sent, that has refused none.
        return sent, 0 if error == errno.EINTR else error, received
