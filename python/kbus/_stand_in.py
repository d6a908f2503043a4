# SPDX-License-Identifier: MIT
"""An open device of the stand-in: its ioctls, whose arguments have addresses in them."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from typing import Any, NamedTuple, Optional, Protocol, Union

from . import _abi as abi
from ._device import DeviceFile

Argument = Union[bytes, bytearray]


class MsgId(NamedTuple):
    """A message id; {0, 0} is the id of no message."""

    network_id: int
    serial_num: int


class TransferAsked(NamedTuple):
    """What a TRANSFER is to do, in the order in which the socket of a ``kbus-testbus`` has it.

    ``room`` and ``receive_max`` limit what it brings, in bytes and messages; 0 messages are any number.
    ``kept`` is what the caller says of a message that waits, ``timed`` whether it wants times. ``deadline``
    is in ns of CLOCK_MONOTONIC.
    """

    to_send: bytes
    room: int
    receive_max: int
    kept: int
    timed: bool
    deadline: int


class TransferResult(NamedTuple):
    """What comes back from a call that does not wait."""

    ids: list[MsgId]
    """Of the messages that were sent."""
    error: int
    kept: int
    left: int
    """Bytes that are still to be sent."""
    packets: list[bytes]
    """The messages that were received, without the padding between them."""
    queued: int
    next_len: int
    lost: int
    times: list[int]
    """In which calls the messages were queued, 0 where that is not known, if it was asked for."""


def step(length: int) -> int:
    """How many bytes of a buffer go with a message."""
    return length + -length % abi.TRANSFER_ALIGN


class BusGone(OSError):
    """There is no bus at the socket, or it has gone; the text says where.

    The errno is ENOTCONN, which no call on the module's bus gives.
    """


class KsockCalls(Protocol):
    """An open KSock of the model, here or in another process."""

    def do(self, method: str, *arguments: Any) -> Any:
        """Call a method of the model's KSock."""

    def new_device(self) -> int:
        """NEWDEVICE."""

    def send(self, nonblocking: bool) -> tuple[int, int]:
        """SEND."""

    def transfer(self, asked: TransferAsked, nonblocking: bool, delivered: Any = None) -> TransferResult:
        """TRANSFER."""

    def close(self) -> None:
        """Close it."""


class StandInFile(DeviceFile):
    """A descriptor that can be polled, and the calls on it."""

    is_real = False

    def __init__(self, path: str, calls: KsockCalls, descriptor: int, mode: str, nonblocking: bool) -> None:
        self._calls = calls
        os.set_blocking(descriptor, not nonblocking)
        super().__init__(path, "r" if mode == "r" else "r+", opener=lambda path, flags: descriptor)

    def close(self) -> None:
        """Close it."""
        if not self.closed:
            super().close()
            self._calls.close()

    def is_nonblocking(self) -> bool:
        """Whether O_NONBLOCK is set."""
        return not os.get_blocking(self.fileno())

    def read_piece(self, count: int) -> bytes:
        """As read(2) does."""
        with _as_from_the_kernel(self):
            return bytes(self._calls.do("read", count))

    def write_piece(self, data: Union[memoryview, bytes]) -> int:
        """As write(2) does."""
        with _as_from_the_kernel(self):
            return int(self._calls.do("write", bytes(data)))

    @staticmethod
    def ioctl(file: Any, number: int, argument: Any = 0) -> int:
        """As ``fcntl.ioctl`` does, for the ioctls of KBUS."""
        with _as_from_the_kernel(file):
            if number not in _IOCTLS:
                raise OSError(errno.ENOTTY, "no ioctl of KBUS")
            return _IOCTLS[number](file, file._calls, argument)


class _as_from_the_kernel:
    """Gives OSErrors the text of their errno in place of a rule's; raises ValueError for a closed file."""

    def __init__(self, file: StandInFile) -> None:
        self._file = file

    def __enter__(self) -> None:
        self._file.fileno()

    def __exit__(self, kind: object, error: Optional[BaseException], traceback: object) -> None:
        if isinstance(error, OSError) and error.errno == errno.EBADF:
            self._file.fileno()
        if isinstance(error, OSError) and not isinstance(error, BusGone) and error.errno:
            raise OSError(error.errno, os.strerror(error.errno)) from None


Ioctl = Callable[[StandInFile, KsockCalls, Any], int]


def _u32(method: str) -> Ioctl:
    def call(file: StandInFile, calls: KsockCalls, argument: bytearray) -> int:
        abi.U32.pack_into(argument, 0, calls.do(method, *abi.U32.unpack_from(argument)))
        return 0

    return call


def _count(name: str) -> Ioctl:
    def call(file: StandInFile, calls: KsockCalls, argument: bytearray) -> int:
        # u32, u64 or a message id
        value = calls.do("counts")[name]
        if isinstance(value, int):
            argument[:] = value.to_bytes(len(argument), "little" if abi.U32.pack(1)[0] else "big")
        else:
            abi.MSG_ID.pack_into(argument, 0, *value)
        return 0

    return call


def _name(argument: Argument) -> tuple[int, Optional[bytes]]:
    first, length, address = abi.NAME_QUERY.unpack_from(argument)
    if not address:
        return first, None
    # One byte more than a name can have, so that a longer one is refused.
    return first, ctypes.string_at(address, min(length, abi.MAX_NAME_LEN + 1))


def _bind(method: str) -> Ioctl:
    def call(file: StandInFile, calls: KsockCalls, argument: Argument) -> int:
        kind, name = _name(argument)
        calls.do(method, name, kind)
        return 0

    return call


def _query(method: str) -> Ioctl:
    def call(file: StandInFile, calls: KsockCalls, argument: bytearray) -> int:
        _, name = _name(argument)
        found = calls.do(method, name)
        abi.U32.pack_into(argument, 0, found)
        return 1 if found else 0

    return call


def _plain(method: str) -> Ioctl:
    def call(file: StandInFile, calls: KsockCalls, argument: object) -> int:
        calls.do(method)
        return 0

    return call


def _reset(file: StandInFile, calls: KsockCalls, argument: object) -> int:
    return 0


def _next_msg(file: StandInFile, calls: KsockCalls, argument: bytearray) -> int:
    length = calls.do("next_msg")
    abi.U32.pack_into(argument, 0, length)
    return 1 if length else 0


def _send(file: StandInFile, calls: KsockCalls, argument: bytearray) -> int:
    abi.MSG_ID.pack_into(argument, 0, *calls.send(file.is_nonblocking()))
    return 0


def _abandon(file: StandInFile, calls: KsockCalls, argument: Argument) -> int:
    calls.do("abandon", abi.MSG_ID.unpack_from(argument))
    return 0


def _new_device(file: StandInFile, calls: KsockCalls, argument: bytearray) -> int:
    abi.U32.pack_into(argument, 0, calls.new_device())
    return 0


def _peer_info(file: StandInFile, calls: KsockCalls, argument: bytearray) -> int:
    ksock_id, *_ = abi.PEER_INFO.unpack_from(argument)
    abi.PEER_INFO.pack_into(argument, 0, ksock_id, *calls.do("peer", ksock_id))
    return 0


def _transfer(file: StandInFile, calls: KsockCalls, argument: bytearray) -> int:
    given = abi.TRANSFER.unpack_from(argument)
    send, ids, receive, deadline, _, send_len, receive_len, _, _, kept, *_, receive_max, times = given[:16]
    if any(given[16:]):
        raise OSError(22, "flags and reserved")

    def deliver(outcome: TransferResult) -> None:
        """Copy the outcome to the memory of the caller."""
        sent = len(outcome.ids)
        if ids and sent:
            _store(ids, b"".join(abi.MSG_ID.pack(*each) for each in outcome.ids))
        content = b""
        for packet in outcome.packets:
            content += bytes(step(len(content)) - len(content)) + packet
        length = step(len(content)) if content else 0
        _store(receive, content)
        if times:
            _store(times, b"".join(each.to_bytes(8, "little") for each in outcome.times))
        abi.TRANSFER.pack_into(
            argument, 0,
            send + send_len - outcome.left, ids, receive, deadline, outcome.lost,
            outcome.left, receive_len, sent, outcome.error, outcome.kept,
            len(outcome.packets), min(length, receive_len), outcome.queued, outcome.next_len, receive_max,
            times, 0, 0, 0, 0, 0, 0,
        )  # fmt: skip

    to_send = ctypes.string_at(send, send_len) if send_len else b""
    asked = TransferAsked(to_send, receive_len, receive_max, kept, bool(times), deadline)
    calls.transfer(asked, file.is_nonblocking(), deliver)
    return 0


def _store(address: int, content: bytes) -> None:
    if content:
        ctypes.memmove(address, content, len(content))


_IOCTLS: dict[int, Ioctl] = {
    abi.IOC_RESET: _reset,
    abi.IOC_BIND: _bind("bind"),
    abi.IOC_UNBIND: _bind("unbind"),
    abi.IOC_KSOCKID: _count("KSOCKID"),
    abi.IOC_REPLIER: _query("replier"),
    abi.IOC_NEXTMSG: _next_msg,
    abi.IOC_LENLEFT: _count("LENLEFT"),
    abi.IOC_SEND: _send,
    abi.IOC_DISCARD: _plain("discard"),
    abi.IOC_LASTSENT: _count("LASTSENT"),
    abi.IOC_MAXMSGS: _u32("max_msgs"),
    abi.IOC_NUMMSGS: _count("NUMMSGS"),
    abi.IOC_UNREPLIEDTO: _count("UNREPLIEDTO"),
    abi.IOC_MSGONLYONCE: _u32("set_only_once"),
    abi.IOC_VERBOSE: _u32("set_verbose"),
    abi.IOC_NEWDEVICE: _new_device,
    abi.IOC_REPORTREPLIERBINDS: _u32("set_report_binds"),
    abi.IOC_MAXMSGSIZE: _u32("max_msg_size"),
    abi.IOC_TRANSFER: _transfer,
    abi.IOC_LOSTMSGS: _count("LOSTMSGS"),
    abi.IOC_REPORTLOST: _u32("set_report_lost"),
    abi.IOC_RESOLVE: _query("resolve"),
    abi.IOC_ABANDON: _abandon,
    abi.IOC_PEERINFO: _peer_info,
}
