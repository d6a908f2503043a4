# SPDX-License-Identifier: MIT
"""Answers obey the limits on bytes, and a Request gets its one answer all the same: rule 43."""

from __future__ import annotations

import errno
import struct
import threading
from collections.abc import Iterator

import pytest

from kbus import Ksock
from tests.kernel import raw, transfer
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import device_stats, fails, ksock_stats, packets, refused, wait_until
from tests.kernel.module import parameter
from tests.kernel.processes import NOBODY, blocked_send, opened_by
from tests.kernel.test_requests import pop, replier

__all__ = ["replier"]

pytestmark = [pytest.mark.rule(43), pytest.mark.axiom("answer")]

NO_ROOM = b"$.KBUS.Replier.NoRoom"
A_REQUEST = raw.message(b"$.A", flags=raw.WANT_A_REPLY)
STATUS_LEN = len(raw.message(NO_ROOM))
"""Bytes of a status; the names of all of them are equally long when they are padded."""
QUEUE_BYTES = 10_000
"""The limit of each queue, where a test sets one."""
ROUGHLY = 256
"""More bytes than a status has, however they are counted."""


def packet_of(length: int, name: bytes = b"$.A", flags: int = 0) -> bytes:
    """A message that is so many bytes long."""
    return raw.message(name, bytes(length - len(raw.message(name))), flags=flags)


def answer(request: raw.Packet, length: int = STATUS_LEN, flags: int = 0) -> bytes:
    """A reply to this Request that is so many bytes long."""
    data = bytes(length - len(raw.message(b"$.A")))
    return raw.message(b"$.A", data, flags=flags, to=request.from_, in_reply_to=request.id)


def asked(sender: Ksock, replier: Ksock) -> raw.Packet:
    """Send a Request; it, as its replier has popped it."""
    raw.send(sender, A_REQUEST)
    return pop(replier)


def no_room(request: raw.Packet, replier: Ksock, serial: int) -> bytes:
    """The status, as the sender of this Request reads it."""
    return raw.message(
        NO_ROOM,
        flags=raw.SYNTHETIC,
        id=(0, serial),
        in_reply_to=request.id,
        to=request.from_,
        from_=replier.ksock_id(),
    )


@pytest.fixture
def sender(ksock: OpenKsock) -> Ksock:
    """A KSock that listens to $.Filler."""
    one = ksock()
    one.bind("$.Filler")
    return one


@pytest.fixture
def queue_bytes() -> Iterator[int]:
    """Queues take QUEUE_BYTES."""
    with parameter("max_queue_bytes", QUEUE_BYTES):
        yield QUEUE_BYTES


@pytest.mark.abi("SEND", "SYNTHETIC", "in_reply_to", "from", "to", "UNREPLIEDTO", "LASTSENT")
def test_a_reply_over_the_queues_limit(
    ksock: OpenKsock, sender: Ksock, replier: Ksock, queue_bytes: int
) -> None:
    request = asked(sender, replier)
    filler = raw.send(ksock(), packet_of(3000, b"$.Filler"))
    serial, sent = (device_stats()[name] for name in ("last_serial", "sent"))
    reply = answer(request, queue_bytes - 2000)
    with fails(errno.ENOBUFS):
        raw.send(replier, reply)
    assert raw.msg_id(replier, "LASTSENT") == (0, serial + 1)
    assert (device_stats()["last_serial"], device_stats()["sent"]) == (serial + 2, sent + 1)
    assert ksock_stats(replier)["sent"] == 0
    assert (ksock_stats(replier)["owed"], replier.num_unreplied_to()) == (0, 0)
    assert ksock_stats(sender)["awaiting"] == 0
    with refused(errno.ENOMSG):
        raw.msg_id(replier, "SEND")
    with refused(errno.ECONNREFUSED, serials=1):
        raw.send(replier, reply)
    with refused(errno.ECONNREFUSED, serials=1):
        raw.send(replier, answer(request))
    replier.close()
    assert [packet.id for packet in packets(sender)] == [filler, (0, serial + 2)]


@pytest.mark.abi("SYNTHETIC", "from", "to")
def test_the_status_byte_for_byte(ksock: OpenKsock, sender: Ksock, replier: Ksock, queue_bytes: int) -> None:
    request = asked(sender, replier)
    raw.send(ksock(), packet_of(3000, b"$.Filler"))
    serial = device_stats()["last_serial"]
    with fails(errno.ENOBUFS):
        raw.send(replier, answer(request, queue_bytes, raw.URGENT | 1 << 20))
    raw.receive(sender)
    assert raw.receive(sender) == no_room(request, replier, serial + 2)


@pytest.mark.parametrize("over", [False, True])
def test_the_limit_of_the_queue_to_the_byte(
    ksock: OpenKsock, sender: Ksock, replier: Ksock, queue_bytes: int, over: bool
) -> None:
    request = asked(sender, replier)
    raw.send(ksock(), packet_of(3000, b"$.Filler"))
    if over:
        with fails(errno.ENOBUFS):
            raw.send(replier, answer(request, queue_bytes - 3000 + 4))
    else:
        raw.send(replier, answer(request, queue_bytes - 3000))
    assert ksock_stats(sender)["bytes"] == 3000 + (STATUS_LEN if over else queue_bytes - 3000)
    assert [packet.name for packet in packets(sender)] == [b"$.Filler", NO_ROOM if over else b"$.A"]


@pytest.mark.parametrize("fits", [False, True])
def test_room_for_the_other_answers_stays_set_aside(
    ksock: OpenKsock, sender: Ksock, replier: Ksock, queue_bytes: int, fits: bool
) -> None:
    first, second = asked(sender, replier), asked(sender, replier)
    raw.send(ksock(), packet_of(3000, b"$.Filler"))
    if fits:
        raw.send(replier, answer(first, queue_bytes - 3000 - ROUGHLY))
    else:
        with fails(errno.ENOBUFS):
            raw.send(replier, answer(first, queue_bytes - 3000 - STATUS_LEN + 4))
    replier.close()
    assert ksock_stats(sender)["bytes_max"] <= queue_bytes
    answers = packets(sender)[1:]
    assert [packet.in_reply_to for packet in answers] == [first.id, second.id]
    assert [packet.name for packet in answers] == [
        b"$.A" if fits else NO_ROOM,
        b"$.KBUS.Replier.Ignored",
    ]


@pytest.mark.rule(20)
def test_announcements_leave_that_room(
    ksock: OpenKsock, sender: Ksock, replier: Ksock, queue_bytes: int
) -> None:
    asked(sender, replier)
    other = ksock()
    too_long = packet_of(queue_bytes - STATUS_LEN + 4, b"$.Filler", raw.ALL_OR_FAIL)
    raw.send(other, packet_of(100, b"$.Filler"))
    raw.receive(sender)
    with refused(errno.EBUSY, serials=1):
        raw.send(other, too_long)
    raw.send(other, packet_of(queue_bytes - ROUGHLY, b"$.Filler", raw.ALL_OR_FAIL))
    replier.close()
    assert ksock_stats(sender)["bytes_max"] <= queue_bytes
    assert [packet.name for packet in packets(sender)] == [b"$.Filler", b"$.KBUS.Replier.Ignored"]


@pytest.mark.rule(15, 20)
def test_no_request_without_room_for_a_status(
    ksock: OpenKsock, sender: Ksock, replier: Ksock, queue_bytes: int
) -> None:
    raw.send(ksock(), packet_of(queue_bytes - STATUS_LEN + 4, b"$.Filler"))
    with refused(errno.ENOLCK, serials=1):
        raw.send(sender, A_REQUEST)
    raw.receive(sender)
    raw.send(sender, A_REQUEST)
    assert ksock_stats(sender)["awaiting"] == 1


@pytest.mark.rule(20)
def test_a_long_reply_to_an_empty_queue(sender: Ksock, replier: Ksock, queue_bytes: int) -> None:
    request = asked(sender, replier)
    raw.send(replier, answer(request, 5 * queue_bytes))
    assert len(raw.receive(sender)) == 5 * queue_bytes
    assert sender.num_messages() == 0


@pytest.mark.rule(20)
def test_a_long_reply_to_a_queue_that_awaits_more(sender: Ksock, replier: Ksock, queue_bytes: int) -> None:
    first, second = asked(sender, replier), asked(sender, replier)
    with fails(errno.ENOBUFS):
        raw.send(replier, answer(first, 5 * queue_bytes))
    assert [packet.name for packet in packets(sender)] == [NO_ROOM]
    raw.send(replier, answer(second, 5 * queue_bytes))
    assert [packet.in_reply_to for packet in packets(sender)] == [second.id]


@pytest.mark.rule(20)
def test_the_slot_is_free_afterwards(
    ksock: OpenKsock, sender: Ksock, replier: Ksock, queue_bytes: int
) -> None:
    sender.set_max_messages(2)
    request = asked(sender, replier)
    raw.send(ksock(), packet_of(3000, b"$.Filler"))
    with fails(errno.ENOBUFS):
        raw.send(replier, answer(request, queue_bytes))
    for queued in (2, 1):
        assert sender.num_messages() == queued
        if queued == 2:
            with refused(errno.ENOLCK, serials=1):
                raw.send(sender, A_REQUEST)
        raw.receive(sender)
    for _ in range(2):
        raw.send(sender, A_REQUEST)
    with refused(errno.ENOLCK, serials=1):
        raw.send(sender, A_REQUEST)
    for _ in range(2):
        raw.send(replier, answer(pop(replier)))
    assert [packet.name for packet in packets(sender)] == [b"$.A", b"$.A"]


@pytest.mark.rule(23, 27)
def test_listeners_hear_the_status_and_not_the_reply(
    ksock: OpenKsock, sender: Ksock, replier: Ksock, queue_bytes: int
) -> None:
    request = asked(sender, replier)
    listener, watcher = ksock(), ksock()
    listener.bind("$.A")
    watcher.bind("$.KBUS.*")
    raw.send(ksock(), packet_of(3000, b"$.Filler"))
    serial = device_stats()["last_serial"]
    with fails(errno.ENOBUFS):
        raw.send(replier, answer(request, queue_bytes))
    assert (listener.num_messages(), listener.lost_messages()) == (0, 0)
    assert raw.receive(watcher) == no_room(request, replier, serial + 2)
    assert (watcher.num_messages(), watcher.lost_messages()) == (0, 0)


@pytest.mark.rule(19, 23)
def test_a_reply_may_fit_once(ksock: OpenKsock, sender: Ksock, replier: Ksock, queue_bytes: int) -> None:
    """A listener that misses its plain copy is none of the replier's business, be it the requester."""
    request = asked(sender, replier)
    sender.bind("$.A")
    raw.send(ksock(), packet_of(3000, b"$.Filler"))
    raw.send(replier, answer(request, 4000))
    assert [packet.name for packet in packets(sender)] == [b"$.Filler", b"$.A"]
    assert sender.lost_messages() == 1


def test_a_replier_that_asks_itself(ksock: OpenKsock, sender: Ksock, queue_bytes: int) -> None:
    sender.bind("$.A", replier=True)
    request = asked(sender, sender)
    raw.send(ksock(), packet_of(3000, b"$.Filler"))
    with fails(errno.ENOBUFS):
        raw.send(sender, answer(request, queue_bytes))
    assert [packet.name for packet in packets(sender)] == [b"$.Filler", NO_ROOM]
    assert (ksock_stats(sender)["awaiting"], ksock_stats(sender)["owed"]) == (0, 0)


@pytest.mark.abi("TRANSFER")
def test_transfer_says_it_too(ksock: OpenKsock, sender: Ksock, replier: Ksock, queue_bytes: int) -> None:
    other = ksock()
    requests = [asked(sender, replier), asked(other, replier)]
    raw.send(ksock(), packet_of(3000, b"$.Filler"))
    replies = [answer(requests[0], queue_bytes), answer(requests[1], queue_bytes)]
    refused_first = transfer.send(replier, *replies)
    assert (refused_first.sent, refused_first.error) == (0, errno.ENOBUFS)
    assert [packet.name for packet in packets(sender)] == [b"$.Filler", NO_ROOM]
    # The others of the call can be sent again.
    again = transfer.send(replier, replies[1])
    assert (again.sent, again.error) == (1, 0)
    assert [packet.name for packet in packets(other)] == [b"$.A"]


# What the requester's user may have.


@pytest.mark.rule(37)
@pytest.mark.axiom("isolation")
@pytest.mark.parametrize("fits", [False, True])
def test_a_reply_over_the_users_limit(
    ksock: OpenKsock, replier: Ksock, open_to_all: None, fits: bool
) -> None:
    sender, hoarder = (opened_by(ksock, NOBODY) for _ in range(2))
    hoarder.bind("$.Filler")
    with parameter("max_user_bytes", 200_000):
        request = asked(sender, replier)
        raw.send(ksock(), packet_of(100_000, b"$.Filler"))
        serial = device_stats()["last_serial"]
        if fits:
            raw.send(replier, answer(request, 50_000))
            assert len(raw.receive(sender)) == 50_000
        else:
            with fails(errno.ENOBUFS):
                raw.send(replier, answer(request, 150_000))
            assert raw.receive(sender) == no_room(request, replier, serial + 2)
    assert (hoarder.num_messages(), hoarder.lost_messages()) == (1, 0)


@pytest.mark.rule(37)
@pytest.mark.parametrize("held", ["queued", "being read"])
def test_an_empty_queue_of_a_user_over_the_limit(
    ksock: OpenKsock, replier: Ksock, open_to_all: None, held: str
) -> None:
    """The exception for an empty queue is none from the user's limit, while the user holds anything."""
    sender, hoarder = (opened_by(ksock, NOBODY) for _ in range(2))
    hoarder.bind("$.Filler")
    with parameter("max_user_bytes", 200_000):
        raw.send(ksock(), packet_of(100_000, b"$.Filler"))
        if held == "being read":
            assert hoarder.next_msg() == 100_000
        request = asked(sender, replier)
        with fails(errno.ENOBUFS):
            raw.send(replier, answer(request, 150_000))
        assert [packet.name for packet in packets(sender)] == [NO_ROOM]
        while hoarder.next_msg():
            pass
        request = asked(sender, replier)
        raw.send(replier, answer(request, 150_000))
        assert [packet.in_reply_to for packet in packets(sender)] == [request.id]


@pytest.mark.rule(20, 21, 37)
@pytest.mark.axiom("isolation", "loss")
def test_a_user_without_bytes_misses_what_it_need_not_have(ksock: OpenKsock, open_to_all: None) -> None:
    sender = ksock()
    first, second = (opened_by(ksock, NOBODY) for _ in range(2))
    first.bind("$.Filler")
    second.bind("$.A")
    with parameter("max_user_bytes", 200_000):
        raw.send(sender, packet_of(100_000, b"$.Filler"))
        raw.send(sender, packet_of(150_000))
        assert (second.num_messages(), second.lost_messages()) == (0, 1)
        with refused(errno.ENOBUFS, serials=1):
            raw.send(sender, packet_of(150_000, flags=raw.ALL_OR_FAIL))
        raw.receive(first)
        assert first.next_msg() == 0
        raw.send(sender, packet_of(150_000, flags=raw.ALL_OR_FAIL))
        assert second.num_messages() == 1


# Many of them.


@pytest.mark.rule(20)
@pytest.mark.axiom("isolation")
@pytest.mark.parametrize("end", ["answered", "closed"])
def test_many_long_replies_stay_within_the_limit(
    ksock: OpenKsock, sender: Ksock, replier: Ksock, end: str
) -> None:
    """Statuses included, and each Request has one answer, in order."""
    limit, count = 60_000, 100
    with parameter("max_queue_bytes", limit):
        ids = [raw.send(sender, A_REQUEST) for _ in range(count)]
        requests = [pop(replier) for _ in ids]
        answered = taken = 0
        for request in requests if end == "answered" else requests[: count // 2]:
            reply = answer(request, 2000 + answered % 7 * 4)
            try:
                raw.send(replier, reply)
                taken += 1
            except OSError as error:
                assert errno.errorcode[error.errno or 0] == "ENOBUFS"
            answered += 1
            assert ksock_stats(sender)["bytes"] <= limit
            assert sender.num_messages() == answered
        replier.close()
        assert (limit - count * ROUGHLY) // 2100 <= taken < 30
        assert ksock_stats(sender)["bytes_max"] <= limit
    answers = packets(sender)
    assert [packet.in_reply_to for packet in answers] == ids
    seen = [packet.name for packet in answers]
    assert seen.count(b"$.A") == taken
    assert seen.count(NO_ROOM) == answered - taken
    assert seen.count(b"$.KBUS.Replier.Ignored") == count - answered
    assert ksock_stats(sender)["bytes"] == 0


def test_other_requesters_get_their_replies(
    ksock: OpenKsock, sender: Ksock, replier: Ksock, queue_bytes: int
) -> None:
    """Who has no room is the only one to notice."""
    good = ksock()
    raw.send(good, packet_of(8000, b"$.Filler"))
    for number in range(20):
        requests = asked(sender, replier), asked(good, replier)
        with fails(errno.ENOBUFS):
            raw.send(replier, answer(requests[0], 3000))
        reply = raw.message(
            b"$.A", struct.pack("=I", number), to=requests[1].from_, in_reply_to=requests[1].id
        )
        raw.send(replier, reply)
        (packet,) = packets(good)
        assert packet.data == struct.pack("=I", number)
    assert [packet.name for packet in packets(sender)] == [b"$.Filler"] + [NO_ROOM] * 20


@pytest.mark.rule(22, 41)
def test_an_answer_shorter_than_its_room_is_room_for_others(ksock: OpenKsock) -> None:
    asker, replier, sender = ksock(), ksock(), ksock()
    asker.bind("$.B")
    replier.bind("$.A", replier=True)
    packet = raw.message(b"$.B", flags=raw.ALL_OR_WAIT)
    with parameter("max_queue_bytes", 3 * STATUS_LEN + len(packet) // 4):
        requests = [asked(asker, replier) for _ in range(3)]
        sending = blocked_send(sender, packet)
        for request in requests:
            raw.send(replier, answer(request, len(raw.message(b"$.A"))))
        sending.result()


@pytest.mark.rule(29)
@pytest.mark.parametrize("requests", [2, 16])
def test_serve_goes_on_whatever_ids_requests_have(
    ksock: OpenKsock, child: StartChild, open_to_all: None, requests: int
) -> None:
    """Somebody asks several times with one id, and has no room for the answers."""

    def serve() -> None:
        service = Ksock()
        arguments = ("$.A", lambda _: bytes(QUEUE_BYTES))
        threading.Thread(target=service.serve, args=arguments, daemon=True).start()
        wait_until(lambda: service.resolve("$.A") is not None, "it serves")

    asker, other = opened_by(ksock, NOBODY), ksock()
    asker.bind("$.Own")
    with parameter("max_queue_bytes", QUEUE_BYTES):
        child(serve)
        raw.send(asker, raw.message(b"$.Own"))
        for _ in range(requests):
            raw.send(asker, raw.message(b"$.A", flags=raw.WANT_A_REPLY, id=(7, 1)))
        wait_until(lambda: asker.num_messages() == 1 + requests, "all are answered")
        assert [packet.name for packet in packets(asker)[1:]] == [NO_ROOM] * requests
        assert len(other.call("$.A").data or b"") == QUEUE_BYTES
