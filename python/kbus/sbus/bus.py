# SPDX-License-Identifier: MIT
"""The KBUS side of a bridge: one KSock, by which messages go out and come in, many with one call (TRANSFER).

Messages are packed and taken apart as bytes here, and not by ``kbus.Message``: a bridge looks only at the
name and passes the rest on, and making an object for each message took most of its time.
"""

from __future__ import annotations

import errno
import struct
from fcntl import ioctl
from functools import lru_cache

from .. import Ksock
from .. import _abi as abi
from .._transfer import INPUT, memory

#: How much is sent with one call. The kernel copies in as much at a time.
MOST_BYTES = 64 * 1024
MOST_MESSAGES = 128
_RECEIVE_SIZE = 256 * 1024

#: lost, sent, error, received, received_len, queued, next_len
_unpack_out = struct.Struct("=Q8x2I4x4I").unpack_from
_OUT_AT = 32
_pack_length = abi.U32.pack_into
_SEND_LEN_AT = 40
_TRANSFER = abi.IOC_TRANSFER


# Most messages have one of few names and lengths, and packing a header takes longer than copying one.
@lru_cache(maxsize=1024)
def _around(name: bytes, data_len: int, user_bits: int) -> tuple[bytes, bytes]:
    """Return what is before the data of a message, and after it up to where the next message begins."""
    padding = -data_len & 3
    header = abi.MESSAGE_HEADER.pack(
        abi.MSG_START_GUARD, 0, 0, 0, 0, 0, 0, user_bits << 16 | padding << abi.DATA_PAD_SHIFT,
        len(name), (data_len + padding) // 4,
    )  # fmt: skip
    before = header + name + bytes(-len(name) & 3)
    after = bytes(padding) + abi.U32.pack(abi.MSG_END_GUARD)
    return before, after + bytes(-(len(before) + data_len + len(after)) % abi.TRANSFER_ALIGN)


def announcement(name: bytes, data: bytes, user_bits: int) -> bytes:
    """Return an announcement as TRANSFER takes it. ``user_bits`` are bits 16 to 29 of the flags."""
    before, after = _around(name, len(data), user_bits)
    return b"".join((before, data, after))


class BridgeKsock:
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
        self._fill()

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
        """Stop listening to a name."""
        self.ksock.unbind(name.decode())

    def _fill(self) -> None:
        INPUT.pack_into(
            self._argument, 0,
            self._out_at, 0, self._in_at, abi.TRANSFER_NOW, 0, 0, len(self._in), 0, 0, 0,
        )  # fmt: skip
        self._filled = bytes(self._argument)

    def exchange(self, outgoing: bytes) -> tuple[int, int, bytes]:
        """Send messages, as ``announcement`` makes them, and take what has come.

        Returns how many were sent, the errno with which the next one was refused or 0, and the messages that
        were received, one after the other. Those after one that was refused are not sent.
        """
        length = len(outgoing)
        if length > len(self._out):
            self._out, self._out_at = memory(length)
            self._fill()
        self._out[:length] = outgoing
        argument = self._argument
        argument[:] = self._filled
        _pack_length(argument, _SEND_LEN_AT, length)
        try:
            ioctl(self._fd, _TRANSFER, argument)
        except InterruptedError:
            # Nothing has been done.
            return 0, 0, b""
        self.lost, sent, error, self.received, received_len, self.queued, next_len = _unpack_out(
            argument, _OUT_AT
        )
        received = self._in[:received_len].tobytes() if received_len else b""
        if next_len > len(self._in):
            self._in, self._in_at = memory(next_len)
            self._fill()
        # If a signal came before all of them were sent, that has refused none.
        return sent, 0 if error == errno.EINTR else error, received
