# SPDX-License-Identifier: MIT
"""The model against examples from the specification: Requests and what answers them."""

from __future__ import annotations

import errno
from dataclasses import replace

from kbus import _abi as abi
from kbus.testing.model.bus import Device, DeviceLimits
from kbus.testing.model.parts import STATUS_LENGTH
from kbus.testing.model.wire import MsgId, WireMessage
from tests.kernel.helpers import fails

from .steps import answer, ask, drain, post, say, take


def test_rules_19_and_25_a_request_and_its_reply(device: Device) -> None:
    asker, replier, listener = (device.open("rw") for _ in range(3))
    replier.bind(b"$.A", 0)
    replier.bind(b"$.A", 1)
    listener.bind(b"$.*", 0)
    number = ask(asker, b"$.A")
    assert number == MsgId(0, 1)

    flagged, plain = drain(replier)
    wanted = abi.BIT_WANT_A_REPLY | abi.BIT_WANT_YOU_TO_REPLY
    assert (flagged.flags, plain.flags) == (wanted, abi.BIT_WANT_A_REPLY)
    assert flagged.sender == plain.sender == asker.id
    assert replier.unreplied == 1
    assert asker.reserved == 1

    answer(replier, flagged)
    assert replier.unreplied == 0
    assert asker.reserved == 0
    assert [message.in_reply_to for message in drain(asker)] == [number]
    assert [message.in_reply_to for message in drain(replier)] == [number]  # as listener
    assert [message.id.serial_num for message in drain(listener)] == [1, 2]
    with fails(errno.ECONNREFUSED):
        answer(replier, flagged)


def test_rule_10_unbinding_removes_what_came_by_it(device: Device) -> None:
    sender, ksock = device.open("rw"), device.open("rw")
    ksock.bind(b"$.A", 0)
    ksock.bind(b"$.*", 0)
    ksock.bind(b"$.A", 1)
    first, second = ask(sender, b"$.A", abi.BIT_URGENT), ask(sender, b"$.A")
    take(ksock)  # the first one, flagged
    assert ksock.unreplied == 1
    ksock.unbind(b"$.A", 1)
    ksock.unbind(b"$.*", 0)
    assert len(ksock.queue.copies) == 2
    (status,) = drain(sender)
    assert (status.name, status.in_reply_to, status.sender) == (b"$.KBUS.Replier.Unbound", second, ksock.id)
    post(ksock, WireMessage(b"$.A", in_reply_to=first, to=sender.id))
    assert [message.in_reply_to for message in drain(sender)] == [first]


def test_rule_24_stateful_requests(device: Device) -> None:
    asker, first, second = (device.open("rw") for _ in range(3))
    first.bind(b"$.A", 1)
    ask(asker, b"$.A", to=first.id)
    first.unbind(b"$.A", 1)
    with fails(errno.EADDRNOTAVAIL):
        ask(asker, b"$.A", to=first.id)
    second.bind(b"$.A", 1)
    with fails(errno.EPIPE):
        ask(asker, b"$.A", to=first.id)


def test_rule_26_who_may_reply(device: Device) -> None:
    asker, replier, other = (device.open("rw") for _ in range(3))
    replier.bind(b"$.A", 1)
    number = ask(asker, b"$.A")
    reply = WireMessage(b"$.A", in_reply_to=number, to=asker.id)
    with fails(errno.ECONNREFUSED):
        post(replier, reply)  # it has not been read yet
    take(replier)
    with fails(errno.ECONNREFUSED):
        post(other, reply)
    with fails(errno.ECONNREFUSED):
        post(replier, WireMessage(b"$.A", in_reply_to=number, to=other.id))
    with fails(errno.EINVAL):
        post(replier, WireMessage(b"$.A", abi.BIT_WANT_A_REPLY, in_reply_to=number, to=asker.id))
    asker.close()
    assert replier.unreplied == 0
    with fails(errno.EADDRNOTAVAIL):
        post(replier, reply)


def test_rule_27_the_replier_closes(device: Device) -> None:
    asker, replier, listener = (device.open("rw") for _ in range(3))
    replier.bind(b"$.A", 1)
    listener.bind(b"$.KBUS.Replier.*", 0)
    ids = [ask(asker, b"$.A", to=to) for to in (0, replier.id, 0)]
    take(replier)
    replier.close()
    statuses = drain(asker)
    ignored, gone = b"$.KBUS.Replier.Ignored", b"$.KBUS.Replier.GoneAway"
    assert [(status.name, status.in_reply_to) for status in statuses] == list(zip((ignored, gone, gone), ids))
    assert {(status.flags, status.to, status.sender, status.data) for status in statuses} == {
        (abi.BIT_SYNTHETIC, asker.id, 2, b"")
    }
    assert drain(listener) == statuses
    assert device.requests == []


def test_rule_28_abandon(device: Device) -> None:
    asker, replier = device.open("rw"), device.open("rw")
    replier.bind(b"$.A", 1)
    number = ask(asker, b"$.A")
    with fails(errno.ENOENT):
        replier.abandon(number)
    request = take(replier)
    asker.abandon(number)
    assert (asker.reserved, replier.unreplied) == (0, 0)
    with fails(errno.ECONNREFUSED):
        answer(replier, request)
    with fails(errno.ENOENT):
        asker.abandon(number)


def test_rule_43_a_reply_without_room() -> None:
    device = Device(DeviceLimits(queue_bytes=250))
    asker, replier, listener = (device.open("rw") for _ in range(3))
    asker.bind(b"$.B", 0)
    replier.bind(b"$.A", 1)
    listener.bind(b"$.A.*", 0)
    listener.bind(b"$.KBUS.Replier.*", 0)
    say(replier, b"$.B")
    number = ask(asker, b"$.A")
    request = take(replier)
    reply = WireMessage(b"$.A.B", in_reply_to=number, to=asker.id, data=bytes(200))
    with fails(errno.ENOBUFS):
        post(replier, reply)
    assert (replier.last_sent, device.last_serial) == (MsgId(0, 3), 4)
    assert (asker.reserved, replier.unreplied, device.requests) == (0, 0, [])
    with fails(errno.ECONNREFUSED):
        answer(replier, request)
    _, status = drain(asker)
    assert (status.name, status.flags, status.data) == (b"$.KBUS.Replier.NoRoom", abi.BIT_SYNTHETIC, b"")
    assert (status.id, status.in_reply_to) == (MsgId(0, 4), number)
    assert (status.sender, status.to) == (replier.id, asker.id)
    assert drain(listener) == [status]


def test_rule_43_a_long_reply_fits_an_empty_queue() -> None:
    device = Device(DeviceLimits(queue_bytes=200))
    asker, replier = device.open("rw"), device.open("rw")
    replier.bind(b"$.A", 1)
    numbers = [ask(asker, b"$.A") for _ in range(2)]
    drain(replier)
    reply = WireMessage(b"$.A", to=asker.id, data=bytes(400))
    with fails(errno.ENOBUFS):
        post(replier, replace(reply, in_reply_to=numbers[0]))  # the other slot is set aside
    assert take(asker).name == b"$.KBUS.Replier.NoRoom"
    post(replier, replace(reply, in_reply_to=numbers[1]))
    assert take(asker).data == bytes(400)


def test_rule_43_what_is_no_longer_than_a_status_always_fits() -> None:
    device = Device(DeviceLimits(queue_bytes=STATUS_LENGTH + 48))
    asker, replier = device.open("rw"), device.open("rw")
    asker.bind(b"$.B", 0)
    replier.bind(b"$.A", 1)
    number = ask(asker, b"$.A")
    say(replier, b"$.B")
    take(replier)
    post(replier, WireMessage(b"$.A", in_reply_to=number, to=asker.id, data=bytes(STATUS_LENGTH - 48)))
    assert asker.queue.bytes == device.limits.queue_bytes
