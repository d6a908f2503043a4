# SPDX-License-Identifier: MIT
"""The model against examples from the specification: full queues, waiting, reading, events."""

from __future__ import annotations

import errno
import select

from kbus import _abi as abi
from kbus.testing.model.bus import Device, DeviceLimits
from kbus.testing.model.parts import STATUS_LENGTH
from kbus.testing.model.wire import MsgId, parse
from tests.kernel.helpers import fails

from .steps import answer, ask, drain, queued, say, take


def test_rule_20_five_bindings_do_not_let_five_copies_in(device: Device) -> None:
    ksock = device.open("rw")
    assert (ksock.max_msgs(0), ksock.max_msgs(20000), ksock.max_msgs(1)) == (100, 10000, 1)
    for _ in range(5):
        ksock.bind(b"$.A", 0)
    with fails(errno.EBUSY):
        say(ksock, b"$.A", abi.BIT_ALL_OR_FAIL)
    assert (len(ksock.queue.copies), ksock.lost) == (0, 0)
    say(ksock, b"$.A")
    assert (len(ksock.queue.copies), ksock.lost) == (1, 4)


def test_rule_20_bytes() -> None:
    ksock = Device(DeviceLimits(queue_bytes=100)).open("rw")
    ksock.bind(b"$.A", 0)
    say(ksock, b"$.A", data=bytes(400))
    say(ksock, b"$.A")
    assert (len(ksock.queue.copies), ksock.lost) == (1, 1)
    take(ksock)
    for _ in range(3):
        say(ksock, b"$.A")
    assert (len(ksock.queue.copies), ksock.lost) == (2, 2)


def test_rules_20_and_21_the_own_answer_has_its_slot(device: Device) -> None:
    asker, replier = device.open("rw"), device.open("rw")
    asker.max_msgs(1)
    asker.bind(b"$.*", 0)
    replier.bind(b"$.A", 1)
    ask(asker, b"$.A")
    assert (len(asker.queue.copies), asker.lost) == (0, 1)
    with fails(errno.ENOLCK):
        ask(asker, b"$.A")
    answer(replier, take(replier))
    assert queued(asker) == [b"$.A"]
    assert asker.lost == 2


def test_rule_22_a_message_waits(device: Device) -> None:
    sender, listener = device.open("rw"), device.open("r")
    listener.bind(b"$.A", 0)
    listener.max_msgs(1)
    say(sender, b"$.A")
    with fails(errno.EAGAIN):
        say(sender, b"$.A", abi.BIT_ALL_OR_WAIT)
    with fails(errno.EALREADY):
        sender.write(b"kbus")
    assert not sender.poll() & select.POLLOUT
    take(listener)
    assert sender.poll() & select.POLLOUT
    assert sender.send() == MsgId(0, 2)
    with fails(errno.EAGAIN):
        say(sender, b"$.A", abi.BIT_ALL_OR_WAIT)
    sender.discard()
    with fails(errno.ENOMSG):
        sender.send()
    assert device.last_serial == 2
    assert listener.lost == 0


def test_rule_22_a_replier_that_leaves_ends_the_waiting(device: Device) -> None:
    sender, replier = device.open("rw"), device.open("rw")
    replier.bind(b"$.A", 1)
    replier.max_msgs(1)
    ask(sender, b"$.A")
    with fails(errno.EAGAIN):
        ask(sender, b"$.A", abi.BIT_ALL_OR_WAIT)
    replier.close()
    assert sender.poll() & select.POLLOUT
    with fails(errno.EADDRNOTAVAIL):
        sender.send()


def test_rule_23_messages_lost(device: Device) -> None:
    sender, listener = device.open("rw"), device.open("r")
    listener.bind(b"$.A", 0)
    listener.max_msgs(2)
    for _ in range(3):
        say(sender, b"$.A")
    listener.set_report_lost(1)
    for _ in range(2):
        say(sender, b"$.A")
    assert listener.lost == 3
    take(listener)
    _, report = drain(listener)
    assert (report.name, report.flags) == (b"$.KBUS.MessagesLost", abi.BIT_SYNTHETIC)
    assert (report.id, report.data) == (MsgId(0, 6), abi.U32.pack(2))


def test_rule_30_reading_and_urgency(device: Device) -> None:
    sender, listener = device.open("rw"), device.open("r")
    listener.bind(b"$.A", 0)
    assert listener.read(10) == b""
    assert listener.next_msg() == 0
    say(sender, b"$.A")
    say(sender, b"$.A")
    length = listener.next_msg()
    assert length == 48
    for _ in range(2):
        say(sender, b"$.A", abi.BIT_URGENT)
    assert listener.poll() == select.POLLIN | select.POLLPRI
    assert parse(listener.read(length)).id.serial_num == 1
    assert listener.read(1) == b""
    assert [message.id.serial_num for message in drain(listener)] == [4, 3, 2]


def test_rule_32_events(device: Device) -> None:
    binder, listener = device.open("rw"), device.open("rw")
    listener.bind(b"$.KBUS.ReplierBindEvent", 0)
    listener.max_msgs(1)
    binder.set_report_binds(1)
    binder.bind(b"$.Abc", 1)
    with fails(errno.EAGAIN):
        binder.unbind(b"$.Abc", 1)
    with fails(errno.EADDRINUSE):
        binder.bind(b"$.Abc", 1)
    binder.bind(b"$.Abc", 0)
    assert binder.replier(b"$.Abc") == binder.id
    (event,) = drain(listener)
    assert (event.flags, event.to, event.sender) == (abi.BIT_SYNTHETIC, 0, 0)
    assert event.data == abi.BIND_EVENT.pack(1, binder.id, 5) + b"$.Abc\0\0\0"


def test_rule_32_events_of_a_close_are_set_aside() -> None:
    device = Device(DeviceLimits(events_aside=2))
    binder, listener = device.open("rw"), device.open("rw")
    for letter in b"ABCDE":
        binder.bind(b"$.%c" % letter, 1)
    binder.set_report_binds(1)
    listener.bind(b"$.KBUS.ReplierBindEvent", 0)
    listener.max_msgs(1)
    binder.close()
    assert (len(listener.queue.copies), device.events_aside, listener.lost) == (4, 2, 2)
    events = drain(listener)
    assert [event.data[12:] for event in events] == [b"$.A\0", b"$.B\0", b"$.C\0", b""]
    assert events[-1].name == b"$.KBUS.UnbindEventsLost"
    assert device.events_aside == 0


def test_rule_20_slots_count_with_the_bytes_of_a_status() -> None:
    assert STATUS_LENGTH == 40 + 24 + 4
    device = Device(DeviceLimits(queue_bytes=2 * STATUS_LENGTH + 48))
    asker, replier = device.open("rw"), device.open("rw")
    asker.bind(b"$.B", 0)
    replier.bind(b"$.A", 1)
    for _ in range(2):
        ask(asker, b"$.A")
    with fails(errno.ENOLCK):
        ask(asker, b"$.A")
    for _ in range(2):
        say(replier, b"$.B")
    assert (len(asker.queue.copies), asker.lost) == (1, 1)
    replier.close()
    assert len(drain(asker)) == 3


def test_rule_20_an_empty_queue_with_a_slot_takes_nothing_longer_than_its_limit() -> None:
    device = Device(DeviceLimits(queue_bytes=200))
    asker, replier = device.open("rw"), device.open("rw")
    asker.bind(b"$.B", 0)
    replier.bind(b"$.A", 1)
    number = ask(asker, b"$.A")
    with fails(errno.EBUSY):
        say(replier, b"$.B", abi.BIT_ALL_OR_FAIL, bytes(400))
    with fails(errno.EAGAIN):
        say(replier, b"$.B", abi.BIT_ALL_OR_WAIT, bytes(400))
    asker.abandon(number)
    replier.send()


def test_rule_42_more_copies_than_the_limit(device: Device) -> None:
    sender, listener = device.open("rw"), device.open("rw")
    for _ in range(3):
        listener.bind(b"$.A", 0)
    assert listener.max_msgs(2) == 2
    with fails(errno.EBUSY):
        say(sender, b"$.A", abi.BIT_ALL_OR_WAIT)
    assert (device.last_serial, sender.waits, listener.lost) == (1, False, 0)
    listener.max_msgs(3)
    say(sender, b"$.A", abi.BIT_ALL_OR_WAIT)


def test_rule_42_is_seen_before_another_recipient_is_full(device: Device) -> None:
    sender, full, small = (device.open("rw") for _ in range(3))
    full.max_msgs(1)
    small.max_msgs(1)
    full.bind(b"$.A", 0)
    say(sender, b"$.A")
    for _ in range(2):
        small.bind(b"$.A", 0)
    with fails(errno.EBUSY):
        say(sender, b"$.A", abi.BIT_ALL_OR_WAIT)


def test_rule_42_a_limit_that_is_lowered_ends_the_waiting(device: Device) -> None:
    sender, listener = device.open("rw"), device.open("rw")
    for _ in range(2):
        listener.bind(b"$.A", 0)
    listener.max_msgs(2)
    say(sender, b"$.A")
    with fails(errno.EAGAIN):
        say(sender, b"$.A", abi.BIT_ALL_OR_WAIT)
    assert not sender.poll() & select.POLLOUT
    listener.max_msgs(1)
    assert sender.poll() & select.POLLOUT
    with fails(errno.EBUSY):
        sender.send()


def test_rule_42_the_own_slot_counts(device: Device) -> None:
    ksock = device.open("rw")
    ksock.bind(b"$.A", 1)
    ksock.max_msgs(1)
    with fails(errno.EBUSY):
        ask(ksock, b"$.A", abi.BIT_ALL_OR_WAIT)
    ksock.max_msgs(2)
    ask(ksock, b"$.A", abi.BIT_ALL_OR_WAIT)


def test_rule_42_bytes() -> None:
    device = Device(DeviceLimits(queue_bytes=100))
    sender, listener = device.open("rw"), device.open("rw")
    listener.bind(b"$.A", 0)
    say(sender, b"$.A", abi.BIT_ALL_OR_WAIT, bytes(400))
    take(listener)
    listener.bind(b"$.A", 0)
    with fails(errno.EBUSY):
        say(sender, b"$.A", abi.BIT_ALL_OR_WAIT, bytes(8))
    say(sender, b"$.A", abi.BIT_ALL_OR_WAIT)


def test_rule_42_an_observer_is_no_reason(device: Device) -> None:
    sender, observer = device.open("rw"), device.open("rw")
    for _ in range(2):
        observer.bind(b"$.A", abi.BIND_OBSERVER)
    observer.max_msgs(1)
    say(sender, b"$.A", abi.BIT_ALL_OR_WAIT)
    assert (len(observer.queue.copies), observer.lost) == (1, 1)
