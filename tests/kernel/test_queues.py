# SPDX-License-Identifier: MIT
"""Full queues and what is missed: rules 20, 21 and 23."""

from __future__ import annotations

import errno
import struct

import pytest

from kbus import Announcement, Message, Request
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import fill, ksock_stats, names, packets, refused, take, texts, wait_until
from tests.kernel.module import parameter
from tests.kernel.processes import NOBODY, opened_by

A_REQUEST = raw.message(b"$.A", flags=raw.WANT_A_REPLY)
ALL_OR_FAIL = raw.message(b"$.A", flags=raw.ALL_OR_FAIL)
LOST = "$.KBUS.MessagesLost"


def _lost(packet: raw.Packet) -> int:
    """The number that a $.KBUS.MessagesLost carries."""
    assert packet.name == LOST.encode()
    return int(struct.unpack("=I", packet.data)[0])


@pytest.mark.rule(20)
@pytest.mark.abi("MAXMSGS")
def test_queue_length_is_set_and_clamped(ksock: OpenKsock) -> None:
    one, other = ksock(mode="r"), ksock()
    values = [0, 1, 0, 9999, 10000, 10001, 0xFFFFFFFF, 0, 7]
    assert [raw.number(one, "MAXMSGS", value) for value in values] == [
        *(100, 1, 1, 9999, 10000, 10000, 10000, 10000, 7)
    ]
    assert (one.max_messages(), other.max_messages()) == (7, 100)


@pytest.mark.rule(20, 33)
@pytest.mark.abi("MAXMSGS")
def test_administrators_set_the_lengths(ksock: OpenKsock) -> None:
    before = ksock()
    with parameter("default_queue_length", 5), parameter("max_queue_length", 20):
        one = ksock()
        assert (one.max_messages(), before.max_messages()) == (5, 100)
        assert one.set_max_messages(21) == 20
    assert one.set_max_messages(21) == 21


@pytest.mark.rule(20, 21)
@pytest.mark.abi("NUMMSGS", "LOSTMSGS")
@pytest.mark.axiom("loss")
def test_a_full_listener_misses_the_message(ksock: OpenKsock) -> None:
    full, roomy, sender = ksock(), ksock(), ksock()
    full.set_max_messages(2)
    for listener in (full, roomy):
        listener.bind("$.A")
    for data in (b"1", b"2", b"3", b"4"):
        sender.send_msg(Announcement("$.A", data))
    assert (full.num_messages(), raw.number(full, "LOSTMSGS")) == (2, 2)
    assert (ksock_stats(full)["lost"], ksock_stats(roomy)["lost"]) == (2, 0)
    assert texts(full) == [b"1", b"2"]
    assert texts(roomy) == [b"1", b"2", b"3", b"4"]
    assert (full.lost_messages(), roomy.lost_messages(), sender.lost_messages()) == (2, 0, 0)


@pytest.mark.rule(20)
@pytest.mark.parametrize("expected", ["reply", "abandoned"])
def test_slots_for_answers_count(ksock: OpenKsock, expected: str) -> None:
    sender, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    sender.bind("$.B")
    sender.set_max_messages(2)
    id = raw.send(sender, A_REQUEST)
    for data in (b"1", b"2"):
        replier.send_msg(Announcement("$.B", data))
    assert (sender.num_messages(), sender.lost_messages()) == (1, 1)
    if expected == "abandoned":
        raw.abandon(sender, id)
        replier.send_msg(Announcement("$.B", b"3"))
        assert texts(sender) == [b"1", b"3"]
    else:
        request = raw.parse(raw.receive(replier))
        raw.send(replier, raw.message(b"$.A", bytes(100_000), to=request.from_, in_reply_to=id))
        assert names(sender) == ["$.B", "$.A"]


@pytest.mark.rule(20, 21)
@pytest.mark.parametrize("limit", [1, 3])
def test_five_bindings_and_a_short_queue(ksock: OpenKsock, limit: int) -> None:
    listener, sender = ksock(), ksock()
    listener.set_max_messages(limit)
    for name in ["$.A", "$.A", "$.%", "$.*", "$.*"]:
        listener.bind(name)
    sender.send_msg(Announcement("$.A"))
    assert (listener.num_messages(), listener.lost_messages()) == (limit, 5 - limit)


@pytest.mark.rule(20)
def test_lowering_keeps_what_is_queued(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    listener.bind("$.A")
    for data in (b"1", b"2", b"3"):
        sender.send_msg(Announcement("$.A", data))
    assert listener.set_max_messages(2) == 2
    assert listener.num_messages() == 3
    take(listener)
    sender.send_msg(Announcement("$.A", b"missed"))
    take(listener)
    sender.send_msg(Announcement("$.A", b"4"))
    assert texts(listener) == [b"3", b"4"]
    assert listener.lost_messages() == 1


@pytest.mark.rule(20)
@pytest.mark.axiom("urgency")
def test_urgent_messages_need_room_too(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    raw.send(sender, raw.message(b"$.A", b"fast", flags=raw.URGENT))
    assert texts(full) == [None]
    assert full.lost_messages() == 1


@pytest.mark.rule(20, 33)
def test_full_by_bytes(ksock: OpenKsock) -> None:
    packet = raw.message(b"$.A", bytes(300))
    with parameter("max_queue_bytes", 3 * len(packet)):
        listener, sender = ksock(), ksock()
        listener.bind("$.A")
        listener.bind("$.A")
        raw.send(sender, packet)
        assert ksock_stats(listener)["bytes"] == 2 * len(packet)
        assert ksock_stats(listener)["bytes_limit"] == 3 * len(packet)
        raw.send(sender, packet)
        assert (listener.num_messages(), listener.lost_messages()) == (3, 1)
        with refused(errno.EBUSY, serials=1):
            raw.send(sender, ALL_OR_FAIL)
        assert len(packets(listener)) == 3
        assert ksock_stats(listener)["bytes"] == 0


@pytest.mark.rule(20)
def test_an_empty_queue_takes_a_copy_of_any_length(ksock: OpenKsock) -> None:
    long = raw.message(b"$.A", bytes(5000))
    with parameter("max_queue_bytes", 1000):
        listener, sender = ksock(), ksock()
        listener.bind("$.A")
        listener.bind("$.A")
        raw.send(sender, long)
        assert (listener.num_messages(), listener.lost_messages()) == (1, 1)
        raw.send(sender, raw.message(b"$.A"))
        assert (listener.num_messages(), listener.lost_messages()) == (1, 3)
        assert raw.parse(raw.receive(listener)).data == bytes(5000)


@pytest.mark.rule(21)
def test_a_full_replier_is_ebusy(ksock: OpenKsock) -> None:
    replier, listener, sender = ksock(), ksock(), ksock()
    fill(replier)
    replier.bind("$.A", replier=True)
    listener.bind("$.A")
    with refused(errno.EBUSY, serials=1):
        raw.send(sender, A_REQUEST)
    assert (listener.num_messages(), ksock_stats(sender)["awaiting"]) == (0, 0)
    take(replier)
    raw.send(sender, A_REQUEST)
    assert (listener.num_messages(), replier.num_messages()) == (1, 1)


@pytest.mark.rule(19, 21)
def test_the_flagged_copy_takes_the_only_room(ksock: OpenKsock) -> None:
    both, sender = ksock(), ksock()
    both.set_max_messages(1)
    both.bind("$.A")
    both.bind("$.A", replier=True)
    raw.send(sender, A_REQUEST)
    assert [message.wants_us_to_reply() for message in both] == [True]
    assert both.lost_messages() == 1


@pytest.mark.rule(21)
@pytest.mark.abi("ALL_OR_FAIL")
@pytest.mark.axiom("loss")
def test_all_or_fail(ksock: OpenKsock) -> None:
    full, roomy, sender = ksock(), ksock(), ksock()
    fill(full)
    for listener in (roomy, full):
        listener.bind("$.A")
    with refused(errno.EBUSY, serials=1):
        raw.send(sender, ALL_OR_FAIL)
    assert (roomy.num_messages(), full.lost_messages()) == (0, 0)
    take(full)
    raw.send(sender, ALL_OR_FAIL)
    assert (roomy.num_messages(), full.num_messages()) == (1, 1)


@pytest.mark.rule(21)
@pytest.mark.abi("ALL_OR_FAIL")
def test_all_or_fail_counts_copies(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    listener.set_max_messages(1)
    listener.bind("$.A")
    listener.bind("$.A")
    with refused(errno.EBUSY, serials=1):
        raw.send(sender, ALL_OR_FAIL)
    listener.want_messages_once(True)
    raw.send(sender, ALL_OR_FAIL)
    assert listener.num_messages() == 1


@pytest.mark.rule(21)
@pytest.mark.abi("ALL_OR_FAIL")
def test_all_or_fail_of_a_request(ksock: OpenKsock) -> None:
    full, replier, sender = ksock(), ksock(), ksock()
    fill(full, "$.A")
    replier.bind("$.A", replier=True)
    with refused(errno.EBUSY, serials=1):
        raw.send(sender, raw.message(b"$.A", flags=raw.ALL_OR_FAIL | raw.WANT_A_REPLY))
    assert (replier.num_messages(), ksock_stats(sender)["awaiting"]) == (0, 0)


@pytest.mark.rule(21)
@pytest.mark.abi("ALL_OR_WAIT", "ALL_OR_FAIL")
@pytest.mark.parametrize(
    "flags", [Message.ALL_OR_WAIT, Message.ALL_OR_FAIL, Message.ALL_OR_WAIT | Message.ALL_OR_FAIL]
)
def test_a_reply_waits_for_nobody(ksock: OpenKsock, flags: int) -> None:
    full, replier, sender = ksock(), ksock(), ksock()
    replier.bind("$.A", replier=True)
    id = raw.send(sender, A_REQUEST)
    fill(full)
    full.bind("$.A")
    raw.receive(replier)
    raw.send(replier, raw.message(b"$.A", flags=flags, to=sender.ksock_id(), in_reply_to=id))
    assert full.lost_messages() == 1
    assert take(sender).is_reply()


@pytest.mark.rule(23)
@pytest.mark.abi("LOSTMSGS")
def test_what_was_lost_stays_counted(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    for count in range(1, 4):
        sender.send_msg(Announcement("$.A"))
        assert raw.number(full, "LOSTMSGS") == count
    names(full)
    full.unbind("$.A")
    assert raw.number(full, "LOSTMSGS") == 3


@pytest.mark.rule(23)
@pytest.mark.abi("REPORTLOST")
def test_a_ksock_can_ask_for_reports(ksock: OpenKsock) -> None:
    full, other, sender = ksock(), ksock(), ksock()
    other.bind("$.*")
    full.bind("$.A")
    full.set_max_messages(2)
    assert full.report_lost_messages() is False
    for data in (b"1", b"2", b"3", b"4"):
        sender.send_msg(Announcement("$.A", data))
    assert full.num_messages() == 2
    take(full)
    assert full.num_messages() == 2
    take(full)
    report = raw.parse(raw.receive(full))
    assert _lost(report) == 2
    assert (report.flags, report.from_, report.in_reply_to, report.id[0]) == (raw.SYNTHETIC, 0, (0, 0), 0)
    assert (full.num_messages(), full.lost_messages()) == (0, 2)
    assert names(other) == ["$.A"] * 4


@pytest.mark.rule(23)
@pytest.mark.abi("REPORTLOST")
def test_each_report_counts_from_the_last(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    full.bind("$.A")
    full.set_max_messages(1)
    full.report_lost_messages()
    for missed in (1, 3):
        for _ in range(missed + 1):
            sender.send_msg(Announcement("$.A"))
        assert take(full).name == "$.A"
        assert [_lost(packet) for packet in packets(full)] == [missed]
    sender.send_msg(Announcement("$.A"))
    assert names(full) == ["$.A"]


@pytest.mark.rule(23, 28)
@pytest.mark.abi("ABANDON")
def test_it_is_reported_when_a_slot_that_was_set_aside_is_free_again(ksock: OpenKsock) -> None:
    """There is nothing to read until then."""
    ksock().bind("$.B", replier=True)
    full = ksock()
    full.bind("$.A")
    full.set_max_messages(1)
    full.report_lost_messages()
    id = raw.send(full, raw.message(b"$.B", flags=raw.WANT_A_REPLY))
    ksock().send_msg(Announcement("$.A"))
    assert full.num_messages() == 0
    raw.abandon(full, id)
    assert [_lost(packet) for packet in packets(full)] == [1]


@pytest.mark.rule(23, 41)
@pytest.mark.abi("REPORTLOST")
@pytest.mark.parametrize("limit", ["max_queue_bytes"])
def test_it_is_reported_when_a_limit_is_raised(ksock: OpenKsock, open_to_all: None, limit: str) -> None:
    closed, one, sender = ksock(), ksock(), opened_by(ksock, NOBODY)
    one.bind("$.A")
    one.report_lost_messages()
    raw.send(sender, raw.message(b"$.A"))
    sender.write_data(raw.message(b"$.A"))
    closed.close()
    with parameter(limit, 50):
        sender.send()
        assert (one.num_messages(), one.lost_messages()) == (1, 1)
    wait_until(lambda: one.num_messages() == 2, "it is told")
    assert [_lost(packet) for packet in packets(one)[1:]] == [1]


@pytest.mark.rule(23)
@pytest.mark.abi("REPORTLOST")
def test_earlier_misses_are_not_reported(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    sender.send_msg(Announcement("$.A"))
    full.report_lost_messages()
    assert names(full) == ["$.A"]
    assert full.lost_messages() == 1


@pytest.mark.rule(23)
def test_reports_are_not_made_unasked(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    full.bind("$.KBUS.*")
    sender.send_msg(Announcement("$.A"))
    assert names(full) == ["$.A"]
    assert full.lost_messages() == 1


@pytest.mark.rule(23)
@pytest.mark.abi("REPORTLOST")
@pytest.mark.parametrize("room", ["unbind", "longer queue"])
def test_reports_come_when_there_is_room(ksock: OpenKsock, room: str) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    full.report_lost_messages()
    sender.send_msg(Announcement("$.A"))
    if room == "unbind":
        full.unbind("$.A")
        expected = [LOST]
    else:
        full.set_max_messages(2)
        expected = ["$.A", LOST]
    assert full.num_messages() == len(expected)
    assert names(full) == expected


@pytest.mark.rule(23)
@pytest.mark.abi("REPORTLOST")
def test_reporting_is_a_switch(ksock: OpenKsock) -> None:
    one = ksock(mode="r")
    values = [raw.ASK, raw.ON, raw.ASK, raw.ON, raw.OFF, raw.ASK]
    assert [raw.number(one, "REPORTLOST", value) for value in values] == [0, 0, 1, 1, 1, 0]
    with refused(errno.EINVAL):
        raw.number(one, "REPORTLOST", 2)


@pytest.mark.rule(21)
@pytest.mark.axiom("isolation")
def test_a_full_ksock_is_nobody_elses_trouble(ksock: OpenKsock) -> None:
    full, roomy, replier, sender = ksock(), ksock(), ksock(), ksock()
    fill(full, "$.A")
    roomy.bind("$.A")
    replier.bind("$.A", replier=True)
    for _ in range(50):
        sender.send_msg(Announcement("$.A"))
        sender.send_msg(Request("$.A"))
    assert (roomy.num_messages(), replier.num_messages(), full.lost_messages()) == (100, 50, 100)
