# SPDX-License-Identifier: MIT
"""TRANSFER, with each allocation and copy failing in turn."""

from __future__ import annotations

import ctypes
import errno

import pytest

from kbus import Ksock
from tests.debug import faults
from tests.debug.faults import Attempt, Call
from tests.kernel import raw, transfer
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import device_stats, fails, ksock_stats, packets

pytestmark = pytest.mark.abi("TRANSFER")

MESSAGES = [raw.message(b"$.A", b"1" * 4), raw.message(b"$.A", b"2" * 8000), raw.message(b"$.A", b"3" * 4)]
"""One of them has pages."""
PACKED = transfer.pack(*MESSAGES)
ROOM = 1 << 14


class Argument:
    """The argument of TRANSFER in memory that is there, with buffers for what it points to."""

    def __init__(self, ksock: Ksock, to_send: bytes, room: int) -> None:
        self.ksock = ksock
        self.to_send = faults.buffer(to_send or b"\0")
        self.length = len(to_send)
        self.ids = faults.buffer(bytes(8 * len(MESSAGES)))
        self.room = faults.buffer(bytes(max(room, 1)))
        self.times = faults.buffer(bytes(8 * len(MESSAGES)))
        self.size = room
        self.argument = faults.buffer(bytes(transfer.ARGUMENT.size))

    def prepare(self) -> Call:
        addresses = map(ctypes.addressof, (self.to_send, self.ids, self.room))
        times = ctypes.addressof(self.times)
        words = transfer.ARGUMENT.pack(*addresses, transfer.NOW, 0, self.length, self.size, *[0] * 8, times)
        faults.store(self.argument, words)
        faults.store(self.room, bytes(len(self.room)))
        return faults.ioctl(self.ksock, "TRANSFER", self.argument)

    def words(self) -> tuple[int, ...]:
        """What is in the argument."""
        return transfer.ARGUMENT.unpack(self.argument.raw)


def nothing_written(sender: Ksock) -> None:
    """No message is left behind in the KSock."""
    with fails(errno.ENOMSG):
        raw.msg_id(sender, "SEND")
    assert device_stats()["waiting"] == 0


def test_sending(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    listener.bind("$.A")
    argument = Argument(sender, PACKED, 0)

    def done(attempt: Attempt) -> None:
        received = packets(listener)
        sent, error = argument.words()[7:9]
        expected = [raw.parse(message).data for message in MESSAGES][: len(received)]
        assert [packet.data for packet in received] == expected
        nothing_written(sender)
        if attempt.error:
            # What was done could not be told in the end, or nothing was done.
            assert len(received) in (0, len(MESSAGES))
            return
        assert sent == len(received)
        assert error in ((0,) if sent == len(MESSAGES) else (errno.ENOMEM, errno.EFAULT)) or (
            error == errno.EFAULT and sent > 0
        )

    faults.each("TRANSFER, sending three", argument.prepare, done, refused=[], despite=[errno.EFAULT])


def test_receiving(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    listener.bind("$.A")
    argument = Argument(listener, b"", ROOM)

    def prepare() -> Call:
        while ksock_stats(listener)["queued"]:
            raw.receive(listener)
        for message in MESSAGES:
            raw.send(sender, message)
        return argument.prepare()

    def done(attempt: Attempt) -> None:
        queued = ksock_stats(listener)["queued"]
        received, length = argument.words()[10:12]
        if attempt.error:
            # Nothing was received, or that it was could not be told in the end.
            assert queued in (0, len(MESSAGES))
            received = len(MESSAGES) - queued
            length = sum(len(message) + 7 & ~7 for message in MESSAGES[:received])
        assert received + queued == len(MESSAGES)
        found = transfer.unpack(received, argument.room.raw[:length])
        assert [raw.parse(packet).data for packet in found] == [
            raw.parse(message).data for message in MESSAGES[:received]
        ]

    faults.each("TRANSFER, receiving three", prepare, done, refused=[], despite=[errno.EFAULT])


@pytest.mark.rule(24, 25)
@pytest.mark.axiom("answer")
def test_a_request(ksock: OpenKsock) -> None:
    asker, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    argument = Argument(asker, raw.message(b"$.A", flags=raw.WANT_A_REPLY), 0)

    def done(attempt: Attempt) -> None:
        asked = packets(replier)
        nothing_written(asker)
        assert ksock_stats(asker)["awaiting"] == len(asked)
        if not attempt.error:
            assert len(asked) == argument.words()[7]
        for packet in asked:
            raw.send(replier, raw.message(b"$.A", to=packet.from_, in_reply_to=packet.id))
        assert len(packets(asker)) == len(asked)
        assert ksock_stats(asker)["awaiting"] == 0

    faults.each("TRANSFER, a Request", argument.prepare, done, refused=[], despite=[errno.EFAULT])
