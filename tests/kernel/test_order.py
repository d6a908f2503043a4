# SPDX-License-Identifier: MIT
"""The order in which messages are delivered, and MSGONLYONCE: rule 19, the axioms of order and urgency."""

from __future__ import annotations

import errno

import pytest

from kbus import Announcement, Request
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import packets, refused, texts

A_REQUEST = raw.message(b"$.A", flags=raw.WANT_A_REPLY)


@pytest.mark.rule(19)
@pytest.mark.abi("URGENT")
@pytest.mark.parametrize("flags", [0, raw.URGENT])
@pytest.mark.parametrize("replier_first", [True, False])
def test_the_flagged_copy_comes_first(ksock: OpenKsock, flags: int, replier_first: bool) -> None:
    sender, both = ksock(), ksock()
    both.bind("$.A", replier=replier_first)
    both.bind("$.A", replier=not replier_first)
    both.bind("$.*")
    for _ in range(2):
        raw.send(sender, raw.message(b"$.A", flags=flags | raw.WANT_A_REPLY))
    flagged = [packet.flags & raw.WANT_YOU_TO_REPLY for packet in packets(both)]
    assert flagged == [raw.WANT_YOU_TO_REPLY, 0, 0] * 2


@pytest.mark.rule(19)
@pytest.mark.abi("MSGONLYONCE")
def test_only_once_keeps_the_flagged_copy(ksock: OpenKsock) -> None:
    sender, both = ksock(), ksock()
    assert both.want_messages_once(True) is False
    for name in ("$.A", "$.A", "$.*"):
        both.bind(name)
    both.bind("$.A", replier=True)
    sender.send_msg(Announcement("$.A"))
    sender.send_msg(Request("$.A"))
    assert [message.wants_us_to_reply() for message in both] == [False, True]


@pytest.mark.rule(19, 26)
@pytest.mark.abi("MSGONLYONCE")
@pytest.mark.parametrize(("once", "copies"), [(False, 3), (True, 1)])
def test_a_requester_that_listens_too(ksock: OpenKsock, once: bool, copies: int) -> None:
    sender, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    id = raw.send(sender, A_REQUEST)
    raw.receive(replier)
    sender.want_messages_once(once)
    sender.bind("$.A")
    sender.bind("$.A")
    raw.send(replier, raw.message(b"$.A", to=sender.ksock_id(), in_reply_to=id))
    assert [packet.in_reply_to for packet in packets(sender)] == [id] * copies


@pytest.mark.rule(19)
@pytest.mark.abi("MSGONLYONCE")
def test_only_once_is_a_switch(ksock: OpenKsock) -> None:
    one = ksock(mode="r")
    values = [raw.ASK, raw.ON, raw.ASK, raw.ON, raw.OFF, raw.ASK]
    assert [raw.number(one, "MSGONLYONCE", value) for value in values] == [0, 0, 1, 1, 1, 0]
    for wrong in (2, 0xFFFFFFFE):
        with refused(errno.EINVAL):
            raw.number(one, "MSGONLYONCE", wrong)
    assert raw.number(one, "MSGONLYONCE", raw.ASK) == 0


@pytest.mark.rule(16)
@pytest.mark.axiom("order")
def test_all_queues_agree_on_the_order(ksock: OpenKsock) -> None:
    everything, some, first, second = ksock(), ksock(), ksock(), ksock()
    everything.bind("$.*")
    some.bind("$.B")
    some.bind("$.A")
    sent = [
        raw.send(sender, raw.message(name)) for sender in (first, second) for name in (b"$.A", b"$.B", b"$.C")
    ]
    seen = [packet.id for packet in packets(everything)]
    assert seen == sorted(sent) == sent
    assert [packet.id for packet in packets(some)] == [sent[index] for index in (0, 1, 3, 4)]


@pytest.mark.rule(19)
@pytest.mark.abi("URGENT")
@pytest.mark.axiom("urgency")
def test_urgent_messages_come_first(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind("$.A")
    for data, urgent in ((b"1", False), (b"2", True), (b"3", False), (b"4", True)):
        message = Announcement("$.A", data)
        message.set_urgent(urgent)
        one.send_msg(message)
    assert texts(one) == [b"4", b"2", b"1", b"3"]


@pytest.mark.rule(30)
@pytest.mark.abi("URGENT")
@pytest.mark.axiom("urgency")
def test_a_popped_message_is_not_overtaken(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind("$.A")
    one.send_msg(Announcement("$.A", b"a message of some length"))
    length = one.next_msg()
    raw.send(one, raw.message(b"$.A", b"fast", flags=raw.URGENT))
    assert one.len_left() == length
    assert raw.parse(one.read_data(length)).data == b"a message of some length"
    assert texts(one) == [b"fast"]
