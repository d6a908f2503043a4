# SPDX-License-Identifier: MIT
"""SEND, ids, and what KBUS changes in a message: rules 15 to 18."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial

import pytest

from kbus import Announcement, Ksock, MessageId
from tests.kernel import raw
from tests.kernel.conftest import NewDevice, OpenKsock
from tests.kernel.helpers import device_stats, fails, fill, names, packets, refused, take

U32_MAX = 0xFFFFFFFF
A_REQUEST = raw.message(b"$.A", flags=raw.WANT_A_REPLY)


def _request_to(ksock_id: int) -> bytes:
    return raw.message(b"$.A", flags=raw.WANT_A_REPLY, to=ksock_id)


@pytest.mark.rule(15)
@pytest.mark.parametrize(
    ("packet", "number"),
    [
        (raw.message(b"$.A.", flags=raw.WANT_A_REPLY), errno.EBADMSG),
        (raw.message(b"$.A.*", flags=raw.WANT_A_REPLY), errno.EBADMSG),
        (raw.message(b"$.KBUS.A", flags=raw.WANT_A_REPLY), errno.EACCES),
    ],
)
def test_form_is_checked_before_room(ksock: OpenKsock, packet: bytes, number: int) -> None:
    sender = ksock()
    fill(sender)
    with refused(number):
        raw.send(sender, packet)


@pytest.mark.rule(15)
def test_syntax_is_checked_before_whose_name_it_is(ksock: OpenKsock) -> None:
    one = ksock()
    with refused(errno.EBADMSG):
        raw.send(one, raw.message(b"$.KBUS.*"))


@pytest.mark.rule(15, 20)
@pytest.mark.abi("SEND")
def test_no_room_for_the_answer(ksock: OpenKsock) -> None:
    sender, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    replier.bind("$.A")
    fill(sender)
    with refused(errno.ENOLCK, serials=1):
        raw.send(sender, A_REQUEST)
    take(sender)
    raw.send(sender, A_REQUEST)
    with refused(errno.ENOLCK, serials=1):
        raw.send(sender, A_REQUEST)


@pytest.mark.rule(15)
def test_room_is_checked_before_repliers(ksock: OpenKsock) -> None:
    sender = ksock()
    fill(sender)
    with refused(errno.ENOLCK, serials=1):
        raw.send(sender, A_REQUEST)


@pytest.mark.rule(15)
def test_room_is_checked_before_the_replier_is_full(ksock: OpenKsock) -> None:
    sender, replier = ksock(), ksock()
    fill(sender)
    fill(replier, "$.Other")
    replier.bind("$.A", replier=True)
    with refused(errno.ENOLCK, serials=1):
        raw.send(sender, A_REQUEST)


@pytest.mark.rule(15, 24)
def test_no_replier_is_checked_before_whose_turn_it_is(ksock: OpenKsock) -> None:
    sender = ksock()
    with refused(errno.EADDRNOTAVAIL, serials=1):
        raw.send(sender, _request_to(sender.ksock_id()))


@pytest.mark.rule(15, 26)
def test_a_reply_to_nobody_is_to_a_requester_that_has_gone(ksock: OpenKsock) -> None:
    sender, replier, gone = ksock(), ksock(), ksock()
    gone_id = gone.ksock_id()
    gone.close()
    replier.bind("$.A", replier=True)
    raw.send(sender, A_REQUEST)
    request = raw.parse(raw.receive(replier))
    with refused(errno.EADDRNOTAVAIL, serials=1):
        raw.send(replier, raw.message(b"$.A", to=gone_id, in_reply_to=request.id))


@pytest.mark.rule(15, 24)
def test_whose_turn_is_checked_before_the_replier_is_full(ksock: OpenKsock) -> None:
    sender, replier = ksock(), ksock()
    fill(replier)
    replier.bind("$.A", replier=True)
    with refused(errno.EPIPE, serials=1):
        raw.send(sender, _request_to(sender.ksock_id()))


@pytest.mark.rule(15, 21)
@pytest.mark.axiom("loss")
def test_the_replier_is_checked_before_listeners(ksock: OpenKsock) -> None:
    sender, replier, listener = ksock(), ksock(), ksock()
    fill(replier)
    fill(listener, "$.Other")
    replier.bind("$.A", replier=True)
    listener.bind("$.A")
    with refused(errno.EBUSY, serials=1):
        raw.send(sender, A_REQUEST)
    assert raw.number(listener, "LOSTMSGS") == 0


@pytest.mark.rule(15)
@pytest.mark.abi("SEND")
def test_send_needs_write_access(ksock: OpenKsock) -> None:
    reader = ksock(mode="r")
    with refused(errno.EBADF):
        raw.msg_id(reader, "SEND")


@pytest.mark.rule(16)
@pytest.mark.abi("id", "LASTSENT")
@pytest.mark.axiom("order")
def test_serials_ascend_by_one(ksock: OpenKsock) -> None:
    first, second, listener = ksock(), ksock(), ksock()
    listener.bind("$.A")
    serial = device_stats()["last_serial"]
    sent = [raw.send(sender, raw.message(b"$.A", id=(0, 5))) for sender in (first, second, second, first)]
    assert sent == [(0, serial + n) for n in (1, 2, 3, 4)]
    assert [packet.id for packet in packets(listener)] == sent
    assert (first.last_msg_id(), second.last_msg_id()) == (MessageId(0, serial + 4), MessageId(0, serial + 3))
    assert device_stats()["last_serial"] == serial + 4


@pytest.mark.rule(16)
@pytest.mark.abi("LASTSENT")
def test_lastsent_of_a_new_ksock_is_zero(ksock: OpenKsock) -> None:
    assert raw.msg_id(ksock(mode="r"), "LASTSENT") == (0, 0)


@pytest.mark.rule(16)
@pytest.mark.abi("id")
@pytest.mark.parametrize("id", [(1, 0), (U32_MAX, U32_MAX), (7, 12)])
def test_ids_of_other_networks_are_left_alone(ksock: OpenKsock, id: raw.Pair) -> None:
    one = ksock()
    one.bind("$.A")
    serial = device_stats()["last_serial"]
    assert raw.send(one, raw.message(b"$.A", id=id)) == id
    assert raw.msg_id(one, "LASTSENT") == id
    assert raw.parse(raw.receive(one)).id == id
    assert device_stats()["last_serial"] == serial


def _no_room(ksock: OpenKsock, sender: Ksock) -> bytes:
    fill(sender)
    return A_REQUEST


def _no_replier(ksock: OpenKsock, sender: Ksock) -> bytes:
    return A_REQUEST


def _unexpected(ksock: OpenKsock, sender: Ksock) -> bytes:
    return raw.message(b"$.A", in_reply_to=(0, 1))


def _requester_gone(ksock: OpenKsock, sender: Ksock) -> bytes:
    sender.bind("$.A", replier=True)
    requester = ksock()
    raw.send(requester, A_REQUEST)
    request = raw.parse(raw.receive(sender))
    requester.close()
    return raw.message(b"$.A", to=request.from_, in_reply_to=request.id)


def _another_replier(ksock: OpenKsock, sender: Ksock) -> bytes:
    ksock().bind("$.A", replier=True)
    return _request_to(sender.ksock_id())


def _full_replier(ksock: OpenKsock, sender: Ksock) -> bytes:
    replier = ksock()
    fill(replier)
    replier.bind("$.A", replier=True)
    return A_REQUEST


def _full_listener(ksock: OpenKsock, sender: Ksock) -> bytes:
    fill(ksock(), "$.A")
    return raw.message(b"$.A", flags=raw.ALL_OR_FAIL)


@pytest.mark.rule(16)
@pytest.mark.abi("LASTSENT")
@pytest.mark.parametrize(
    ("prepare", "number"),
    [
        (_no_room, errno.ENOLCK),
        (_no_replier, errno.EADDRNOTAVAIL),
        (_unexpected, errno.ECONNREFUSED),
        (_requester_gone, errno.EADDRNOTAVAIL),
        (_another_replier, errno.EPIPE),
        (_full_replier, errno.EBUSY),
        (_full_listener, errno.EBUSY),
    ],
)
def test_undelivered_messages_have_used_a_serial(
    ksock: OpenKsock, prepare: Callable[[OpenKsock, Ksock], bytes], number: int
) -> None:
    sender = ksock()
    packet = prepare(ksock, sender)
    serial = device_stats()["last_serial"]
    with fails(number):
        raw.send(sender, packet)
    assert raw.msg_id(sender, "LASTSENT") == (0, serial + 1)
    assert raw.send(sender, raw.message(b"$.B")) == (0, serial + 2)


@pytest.mark.rule(16)
@pytest.mark.abi("LASTSENT")
def test_failures_of_form_leave_lastsent(ksock: OpenKsock) -> None:
    one = ksock()
    last = raw.send(one, raw.message(b"$.A"))
    for packet, number in (
        (raw.message(b"$.A")[:-1], errno.EINVAL),
        (raw.message(b"$.?"), errno.EBADMSG),
        (raw.message(b"$.KBUS.A"), errno.EACCES),
    ):
        with refused(number):
            raw.send(one, packet)
        assert raw.msg_id(one, "LASTSENT") == last


@pytest.mark.rule(16, 33)
def test_serials_wrap_to_one(ksock: OpenKsock, new_device: NewDevice) -> None:
    device = new_device(first_serial=U32_MAX - 1)
    one = ksock(device)
    one.bind("$.A")
    serials = [raw.send(one, raw.message(b"$.A")) for _ in range(3)]
    assert serials == [(0, U32_MAX - 1), (0, U32_MAX), (0, 1)]
    assert [packet.id for packet in packets(one)] == serials
    assert one.last_msg_id() == MessageId(0, 1)


@pytest.mark.rule(17)
@pytest.mark.abi(
    "from", "SYNTHETIC", "WANT_YOU_TO_REPLY", "to", "data", "orig_from", "final_to", "EXTENDED", "DATA_PAD"
)
@pytest.mark.parametrize("extended", [None, (1, 2, 3, 4)])
@pytest.mark.parametrize(
    "kept", [0, raw.URGENT, raw.ALL_OR_FAIL, raw.ALL_OR_WAIT, 0xFFFF0000, 0xAAAA0000, 0x55550000, 0xC0010008]
)
def test_what_kbus_changes(ksock: OpenKsock, kept: int, extended: tuple[int, int, int, int] | None) -> None:
    sender, listener = ksock(), ksock()
    listener.bind("$.A")
    packet = partial(raw.message, b"$.A", b"any data", to=4321, extended=extended)
    id = raw.send(sender, packet(flags=kept | raw.SYNTHETIC | raw.WANT_YOU_TO_REPLY, from_=99))
    assert raw.receive(listener) == packet(flags=kept, from_=sender.ksock_id(), id=id)


@pytest.mark.rule(17, 25)
@pytest.mark.abi("WANT_A_REPLY", "WANT_YOU_TO_REPLY")
def test_only_the_repliers_copy_is_flagged(ksock: OpenKsock) -> None:
    sender, replier, listener = ksock(), ksock(), ksock()
    replier.bind("$.A", replier=True)
    listener.bind("$.A")
    packet = partial(raw.message, b"$.A", b"data", to=replier.ksock_id(), extended=(9, 8, 7, 6))
    flags = raw.WANT_A_REPLY | 1 << 20
    id = raw.send(sender, packet(flags=flags | raw.WANT_YOU_TO_REPLY))
    received = partial(packet, from_=sender.ksock_id(), id=id)
    assert raw.receive(listener) == received(flags=flags)
    assert raw.receive(replier) == received(flags=flags | raw.WANT_YOU_TO_REPLY)


@pytest.mark.rule(17, 26)
@pytest.mark.abi("in_reply_to")
def test_a_reply_passes_as_it_is(ksock: OpenKsock) -> None:
    sender, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    request_id = raw.send(sender, A_REQUEST)
    raw.receive(replier)
    packet = partial(
        raw.message, b"$.Else", b"data", to=sender.ksock_id(), in_reply_to=request_id, extended=(5, 6, 7, 8)
    )
    kept = raw.ALL_OR_FAIL | 1 << 31
    id = raw.send(replier, packet(flags=kept | raw.SYNTHETIC, from_=3))
    assert raw.receive(sender) == packet(flags=kept, from_=replier.ksock_id(), id=id)


@pytest.mark.rule(18)
def test_nobody_listens(ksock: OpenKsock) -> None:
    one = ksock()
    serial = device_stats()["last_serial"]
    assert raw.send(one, raw.message(b"$.A")) == (0, serial + 1)
    one.bind("$.A")
    assert names(one) == []


@pytest.mark.rule(18)
def test_the_sender_may_listen(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind("$.A")
    one.send_msg(Announcement("$.A"))
    assert take(one).from_ == one.ksock_id()
