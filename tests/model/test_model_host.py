# SPDX-License-Identifier: MIT
"""The model against examples from the specification: names, bindings, writing, sending."""

from __future__ import annotations

import errno

import pytest

from kbus import _abi as abi
from kbus.testing.model import names, stats
from kbus.testing.model.bus import Device
from kbus.testing.model.wire import NO_ID, MsgId, WireMessage
from tests.kernel.helpers import fails

from .steps import ask, drain, post, say, take


@pytest.mark.parametrize(
    "name", [b"$.A", b"$.Sensors.Kitchen", b"$.*", b"$.%", b"$.A.*", b"$.9", b"$." + 998 * b"a"]
)
def test_rule_1_legal_names(name: bytes) -> None:
    assert names.is_legal(name)


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b"$",
        b"$.",
        b"A",
        b".A",
        b"$A",
        b"$..A",
        b"$.A.",
        b"$.A..B",
        b"$.*.A",
        b"$.%A",
        b"$.A_B",
        b"$.A\0",
        b"$.\xb2",
    ],
)
def test_rule_1_illegal_names(name: bytes) -> None:
    assert not names.is_legal(name)


def test_rule_3_wildcards() -> None:
    assert names.matches(b"$.Sensors.*", b"$.Sensors.Kitchen")
    assert names.matches(b"$.Sensors.*", b"$.Sensors.Kitchen.Toaster")
    assert names.matches(b"$.Sensors.%", b"$.Sensors.Kitchen")
    assert not names.matches(b"$.Sensors.%", b"$.Sensors.Kitchen.Toaster")
    assert not names.matches(b"$.Sensors.*", b"$.Sensors")
    assert not names.matches(b"$.Sensors", b"$.sensors")
    assert not names.matches(b"$.Sens.*", b"$.Sensors.Kitchen")


def test_rule_9_the_most_specific_replier_is_asked(device: Device) -> None:
    """The example of the specification, 'Repliers'."""
    first, second, third, asker = (device.open("rw") for _ in range(4))
    first.bind(b"$.Sensors.*", 1)
    second.bind(b"$.Sensors.%", 1)
    third.bind(b"$.Sensors.Kitchen.Temperature", 1)
    assert asker.resolve(b"$.Sensors.Kitchen.Temperature") == third.id
    assert asker.resolve(b"$.Sensors.Kitchen") == second.id
    assert asker.resolve(b"$.Sensors.LivingRoom.Temperature") == first.id
    assert asker.resolve(b"$.Sensors") == 0
    assert asker.replier(b"$.Sensors.Kitchen") == 0
    assert asker.replier(b"$.Sensors.%") == second.id


def test_rules_6_and_7_bindings(device: Device) -> None:
    ksock = device.open("rw")
    for kind in (0, 0, 1):
        ksock.bind(b"$.A", kind)
    with fails(errno.EADDRINUSE):
        ksock.bind(b"$.A", 1)
    listed = stats.bindings_text(device).splitlines()[1:]
    assert [line[:13] + line[22:] for line in listed] == [f"  0:        1  {kind}  $.A" for kind in "RLL"]
    for kind in (0, 0):
        ksock.unbind(b"$.A", kind)
    with fails(errno.EINVAL):
        ksock.unbind(b"$.A", 0)


def test_rules_13_and_14_writing(device: Device) -> None:
    ksock = device.open("rw")
    with fails(errno.ENOMSG):
        ksock.send()
    raw = WireMessage(b"$.A", data=b"data").to_bytes()
    for byte in raw:
        ksock.write(bytes([byte]))
    with fails(errno.EMSGSIZE):
        ksock.write(b"x")
    with fails(errno.ENOMSG):
        ksock.send()
    ksock.write(raw[:-1])
    with fails(errno.EINVAL):
        ksock.write(b"x")
    ksock.write(raw[:-1])
    with fails(errno.EINVAL):
        ksock.send()
    with fails(errno.EINVAL):
        ksock.write(b"kbuS")
    with fails(errno.ENAMETOOLONG):
        ksock.write(WireMessage(b"$." + 999 * b"A").to_bytes())
    ksock.max_msg_size(100)
    with fails(errno.EMSGSIZE):
        ksock.write(WireMessage(b"$.A", data=bytes(56)).to_bytes()[:40])
    assert say(ksock, b"$.A", data=bytes(52)) == MsgId(0, 1)


def test_rule_15_the_order_of_checks(device: Device) -> None:
    """Each step takes away the cause of one failure, and the next one shows."""
    asker, replier, listener = (device.open("rw") for _ in range(3))
    listener.bind(b"$.A", 0)
    for ksock in (asker, replier, listener):
        ksock.max_msgs(1)
    asker.bind(b"$.Filler", 0)
    say(asker, b"$.Filler")
    say(asker, b"$.A")
    wrong = WireMessage(b"$.A", abi.BIT_WANT_A_REPLY | abi.BIT_ALL_OR_FAIL, to=99)
    with fails(errno.ENOLCK):
        post(asker, wrong)
    take(asker)
    with fails(errno.EADDRNOTAVAIL):
        post(asker, wrong)
    replier.bind(b"$.A", 1)
    replier.bind(b"$.Filler", 0)
    asker.unbind(b"$.Filler", 0)
    say(asker, b"$.Filler")
    with fails(errno.EPIPE):
        post(asker, wrong)
    with fails(errno.EBUSY):
        ask(asker, b"$.A", abi.BIT_ALL_OR_FAIL, replier.id)
    take(replier)
    with fails(errno.EBUSY):
        ask(asker, b"$.A", abi.BIT_ALL_OR_FAIL, replier.id)
    take(listener)
    assert device.last_serial == 8
    assert asker.last_sent == MsgId(0, 8)
    assert ask(asker, b"$.A", abi.BIT_ALL_OR_FAIL, replier.id) == MsgId(0, 9)
    assert listener.lost == 0


def test_rule_16_ids(device: Device) -> None:
    ksock = device.open("rw")
    device.last_serial = 2**32 - 2
    assert post(ksock, WireMessage(b"$.A", id=MsgId(7, 0))) == MsgId(7, 0)
    assert [say(ksock, b"$.A").serial_num for _ in range(3)] == [2**32 - 1, 1, 2]
    with fails(errno.EBADMSG):
        say(ksock, b"$.A.*")
    with fails(errno.EACCES):
        say(ksock, b"$.KBUS.A")
    assert ksock.last_sent == MsgId(0, 2)


def test_rule_17_what_the_sender_cannot_say(device: Device) -> None:
    ksock = device.open("rw")
    ksock.bind(b"$.A", 0)
    everything = 0xFFFF040E  # users' bits, EXTENDED, URGENT, and the two that are KBUS's
    post(ksock, WireMessage(b"$.A", everything, to=5, sender=99, extension=bytes(range(16))))
    (message,) = drain(ksock)
    assert message == WireMessage(b"$.A", 0xFFFF0408, MsgId(0, 1), to=5, sender=1, extension=bytes(range(16)))


def test_rule_19_messages_once(device: Device) -> None:
    ksock = device.open("rw")
    for kind in (0, 0, 1):
        ksock.bind(b"$.A", kind)
    assert (ksock.set_only_once(1), ksock.set_only_once(abi.SWITCH_ASK)) == (0, 1)
    say(ksock, b"$.A")
    ask(ksock, b"$.A")
    plain, flagged = drain(ksock)
    assert (plain.flags, flagged.flags) == (0, abi.BIT_WANT_A_REPLY | abi.BIT_WANT_YOU_TO_REPLY)


def test_rule_39_ksock_ids() -> None:
    device = Device(next_ksock_id=2**32 - 1)
    last, first, second = (device.open("rw") for _ in range(3))
    assert [ksock.id for ksock in (last, first, second)] == [2**32 - 1, 1, 2]
    first.close()
    device.next_ksock_id = 2**32 - 1
    assert [device.open("r").id for _ in range(2)] == [1, 3]


def test_access(device: Device) -> None:
    reader, writer = device.open("r"), device.open("w")
    with fails(errno.EBADF):
        reader.bind(b"$.A", 1)
    with fails(errno.EBADF):
        writer.bind(b"$.A", 1)
    with fails(errno.EBADF):
        writer.bind(b"$.A", 0)
    with fails(errno.EBADF):
        reader.write(b"kbus")
    with fails(errno.EBADF):
        reader.send()
    with fails(errno.EBADF):
        reader.set_report_binds(1)
    with fails(errno.EBADF):
        reader.max_msg_size(200)
    assert reader.max_msg_size(1) == 16 << 20
    reader.bind(b"$.A", 0)
    assert say(writer, b"$.A") == take(reader).id
    assert reader.last_sent == NO_ID
