# SPDX-License-Identifier: MIT
"""SEND in each of its forms, with each allocation and copy failing in turn."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable

import pytest

from kbus import Announcement, Ksock, reply_to
from tests.debug import faults
from tests.debug.faults import Attempt, Call
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import device_stats, fails, ksock_stats, names, packets, take

pytestmark = pytest.mark.abi("SEND")

LISTENERS = 6
"""More than SEND has queue items ready for before it looks who listens."""


class Send:
    """Writes `packet` before each SEND, and tells whether it got through, with what id."""

    def __init__(self, sender: Ksock, packet: bytes) -> None:
        self.sender = sender
        self.packet = packet
        self._id = faults.buffer(bytes(8))

    def prepare(self) -> Call:
        # A message left by the SEND before would make this one EMSGSIZE.
        assert os.write(self.sender.fileno(), self.packet) == len(self.packet)
        faults.store(self._id, bytes(8))
        return faults.ioctl(self.sender, "SEND", self._id)

    def id(self, attempt: Attempt) -> raw.Pair:
        """The id that the message must have got; only LASTSENT tells it if it could not be stored."""
        last = raw.msg_id(self.sender, "LASTSENT")
        stored = struct.unpack("=2I", self._id.raw)
        assert stored == ((0, 0) if attempt.error else last)
        assert last == (0, device_stats()["last_serial"])
        return last

    def each(self, what: str, done: faults.Done, prepare: Callable[[], Call] | None = None) -> None:
        """Like `faults.each`: ENOMEM refuses, after EFAULT the message has been sent."""
        faults.each(what, prepare or self.prepare, done, refused=[errno.ENOMEM], despite=[errno.EFAULT])
        with fails(errno.ENOMSG):
            raw.msg_id(self.sender, "SEND")


@pytest.mark.parametrize(
    ("how", "flags"),
    [
        ("announcement", 0),
        ("urgent announcement", raw.URGENT),
        ("announcement, ALL_OR_WAIT", raw.ALL_OR_WAIT),
        ("announcement, ALL_OR_FAIL", raw.ALL_OR_FAIL),
    ],
)
def test_announcements(ksock: OpenKsock, how: str, flags: int) -> None:
    listeners = [ksock() for _ in range(LISTENERS)]
    for listener in listeners:
        listener.bind("$.A")
    send = Send(ksock(), raw.message(b"$.A", bytes(100), flags=flags))

    def done(attempt: Attempt) -> None:
        id = send.id(attempt)
        assert [[packet.id for packet in packets(listener)] for listener in listeners] == [[id]] * LISTENERS

    send.each(f"SEND, {how}", done)


@pytest.mark.rule(22)
def test_a_message_that_waited(ksock: OpenKsock) -> None:
    listener, filler = ksock(), ksock()
    listener.set_max_messages(1)
    listener.bind("$.A")
    send = Send(ksock(nonblocking=True), raw.message(b"$.A", flags=raw.ALL_OR_WAIT))

    def prepare() -> Call:
        filler.send_msg(Announcement("$.A"))
        call = send.prepare()
        with fails(errno.EAGAIN):
            raw.msg_id(send.sender, "SEND")
        assert names(listener) == ["$.A"]
        return call

    def done(attempt: Attempt) -> None:
        # The message is gone, and with it its place in the line, even if nobody got it.
        assert device_stats()["waiting"] == 0
        assert names(listener) == ([] if attempt.error == errno.ENOMEM else ["$.A"])

    faults.each("SEND, after EAGAIN", prepare, done, refused=[], despite=[errno.ENOMEM, errno.EFAULT])


@pytest.mark.rule(24, 25)
@pytest.mark.axiom("answer")
@pytest.mark.parametrize(
    ("how", "flags"),
    [
        ("Request", 0),
        ("urgent Request", raw.URGENT),
        ("Request, ALL_OR_WAIT", raw.ALL_OR_WAIT),
        ("Request, ALL_OR_FAIL", raw.ALL_OR_FAIL),
    ],
)
def test_requests(ksock: OpenKsock, how: str, flags: int) -> None:
    sender, replier, listener = ksock(), ksock(), ksock()
    replier.bind("$.A", replier=True)
    replier.bind("$.A")
    listener.bind("$.%")
    # A slot that is not given back by a Request that fails is missed by the next one.
    sender.set_max_messages(1)
    send = Send(sender, raw.message(b"$.A", bytes(100), flags=flags | raw.WANT_A_REPLY))

    def done(attempt: Attempt) -> None:
        id = send.id(attempt)
        assert ksock_stats(sender)["awaiting"] == 1
        flagged, plain = take(replier), take(replier)
        assert (flagged.wants_us_to_reply(), plain.wants_us_to_reply()) == (True, False)
        replier.send_msg(reply_to(flagged))
        assert [packet.in_reply_to for packet in packets(sender)] == [id]
        assert len(names(listener)) == 2
        names(replier)

    send.each(f"SEND, {how}", done)


@pytest.mark.rule(26)
@pytest.mark.axiom("answer")
def test_replies(ksock: OpenKsock) -> None:
    sender, replier, listener = ksock(), ksock(), ksock()
    replier.bind("$.A", replier=True)
    for _ in range(LISTENERS):
        listener.bind("$.A")
    request = raw.message(b"$.A", flags=raw.WANT_A_REPLY)
    asked = raw.send(sender, request)
    send = Send(replier, reply_to(take(replier)).to_bytes())
    names(listener)

    def done(attempt: Attempt) -> None:
        nonlocal asked
        id = send.id(attempt)
        (answer,) = packets(sender)
        assert (answer.id, answer.in_reply_to) == (id, asked)
        assert len(names(listener)) == LISTENERS
        asked = raw.send(sender, request)
        names(listener)
        send.packet = reply_to(take(replier)).to_bytes()

    # A reply that is refused leaves the Request to be answered by the next one.
    send.each("SEND, reply", done)


@pytest.mark.rule(23)
@pytest.mark.axiom("loss")
def test_messages_that_some_miss(ksock: OpenKsock) -> None:
    full, roomy, filler = ksock(), ksock(), ksock()
    full.set_max_messages(1)
    full.report_lost_messages()
    for listener in (full, roomy):
        listener.bind("$.A")
    send = Send(ksock(), raw.message(b"$.A"))

    def prepare() -> Call:
        if not full.num_messages():
            filler.send_msg(Announcement("$.A"))
            assert names(roomy) == ["$.A"]
        return send.prepare()

    def done(attempt: Attempt) -> None:
        send.id(attempt)
        assert names(roomy) == ["$.A"]
        assert names(full) == ["$.A", "$.KBUS.MessagesLost"]

    send.each("SEND, a listener misses it", done, prepare)
