# SPDX-License-Identifier: MIT
"""TRANSFER, of which every step is one of SEND, NEXTMSG and read (docs/abi/transfer.rst)."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from ..._stand_in import TransferResult, step
from . import delivery, wire
from .wire import MsgId

if TYPE_CHECKING:
    from .ksock import ModelKsock


def transfer(
    ksock: ModelKsock, to_send: bytes, room: int, receive_max: int, kept: int, timed: bool
) -> TransferResult:
    """The whole of it, with deadline 0."""
    check(ksock, to_send, room, kept)
    ksock.wants_times |= timed
    ids, error, kept, left = send(ksock, to_send, kept)
    packets, times = receive(ksock, room, receive_max)
    copies = ksock.queue.copies
    next_len = copies[0].message.length if copies else 0
    asked = times if timed else []
    outcome = TransferResult(ids, error, kept, left, packets, len(copies), next_len, ksock.lost, asked)
    if room:
        delivery.report_lost(ksock)
    return outcome


def check(ksock: ModelKsock, to_send: bytes, room: int, kept: int) -> None:
    """What is refused before anything is done."""
    if kept not in (0, 1):
        raise OSError(errno.EINVAL, "kept")
    if to_send or kept:
        ksock.need("w", "TRANSFER with something to send")
    if room:
        ksock.need("r", "TRANSFER with room to receive")


def send(ksock: ModelKsock, to_send: bytes, kept: int) -> tuple[list[MsgId], int, int, int]:
    """Send until something cannot be sent: ids, the errno, whether it is kept, bytes that are left."""
    ids: list[MsgId] = []
    while to_send or kept:
        try:
            raw = b"" if kept else take(ksock, to_send)
            if kept and not ksock.waits:
                raise OSError(errno.ENOMSG, "nothing waits")
            if not kept:
                if ksock.written:
                    raise OSError(errno.EALREADY, "something has been written")
                ksock.written = raw
            ids.append(ksock.send())
        except OSError as error:
            kept = int(error.errno == errno.EAGAIN)
            gone = to_send[step(len(raw)) :] if kept else to_send
            return ids, error.errno or 0, kept, len(gone)
        to_send = to_send[step(len(raw)) :]
        kept = 0
    return ids, 0, 0, 0


def take(ksock: ModelKsock, to_send: bytes) -> bytes:
    """The message at the beginning of these bytes, if it is whole and `write` would take it."""
    if len(to_send) < wire.HEADER_LEN:
        raise OSError(errno.EINVAL, "no whole header")
    limit = ksock.device.max_message_size
    wire.check(to_send[: wire.HEADER_LEN], 0, limit)
    length = wire.whole_length(to_send)
    if length > len(to_send):
        raise OSError(errno.EINVAL, "no whole message")
    wire.check(to_send[:length], 0, limit)
    return to_send[:length]


def receive(ksock: ModelKsock, room: int, receive_max: int) -> tuple[list[bytes], list[int]]:
    """Whatever is queued, fits and is wanted, and when it was queued."""
    packets: list[bytes] = []
    times: list[int] = []
    while ksock.queue.copies and (not receive_max or len(packets) < receive_max):
        length = ksock.queue.copies[0].message.length
        if length > room:
            break
        times.append(ksock.queue.copies[0].queued_at)
        packets.append(ksock.pop())
        room -= min(step(length), room)
    return packets, times
