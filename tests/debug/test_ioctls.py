# SPDX-License-Identifier: MIT
"""The ioctls that neither send nor bind, with each allocation and copy failing in turn."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

import pytest

from kbus import Announcement, Ksock
from tests.debug import faults
from tests.debug.faults import Attempt, Call
from tests.kernel import module, raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import ksock_stats, names, take

NAME = faults.buffer(b"$.A.Name")


@pytest.mark.rule(12)
@pytest.mark.parametrize(
    "which",
    [
        pytest.param("REPLIER", marks=pytest.mark.abi("REPLIER")),
        pytest.param("RESOLVE", marks=pytest.mark.abi("RESOLVE")),
    ],
)
def test_queries(ksock: OpenKsock, which: str) -> None:
    one = ksock()
    one.bind(NAME.raw.decode(), replier=True)
    query = struct.pack("=IIQ", 0, len(NAME), ctypes.addressof(NAME))
    argument = faults.buffer(query)

    def prepare() -> Call:
        faults.store(argument, query)
        return faults.ioctl(one, which, argument)

    def done(attempt: Attempt) -> None:
        assert attempt.result == 1
        assert struct.unpack_from("=I", argument.raw) == (one.ksock_id(),)

    faults.each(which, prepare, done)


@pytest.mark.parametrize(
    ("which", "value", "size", "answer"),
    [
        ("RESET", 0, 0, 0),
        ("MAXMSGS", 0, 4, 100),
        ("MAXMSGS", 7, 4, 7),
        ("NUMMSGS", 0, 4, 0),
        ("UNREPLIEDTO", 0, 4, 0),
        ("LENLEFT", 0, 4, 0),
        ("MSGONLYONCE", raw.OFF, 4, 0),
        ("VERBOSE", raw.OFF, 4, 0),
        ("REPORTREPLIERBINDS", raw.OFF, 4, 0),
        ("REPORTLOST", raw.ASK, 4, 0),
        ("MAXMSGSIZE", 0, 4, 1 << 20),
        ("LASTSENT", 0, 8, 0),
        ("LOSTMSGS", 0, 8, 0),
        ("DISCARD", 0, 0, 0),
    ],
)
def test_numbers(ksock: OpenKsock, which: str, value: int, size: int, answer: int) -> None:
    one = ksock()
    argument = faults.number(value, size)

    def prepare() -> Call:
        faults.store(argument, value.to_bytes(size, "little"))
        return faults.ioctl(one, which, argument if size else 0)

    def done(attempt: Attempt) -> None:
        assert attempt.result == 0
        assert int.from_bytes(argument.raw, "little") == answer

    faults.each(which if which != "MAXMSGS" else f"MAXMSGS {value}", prepare, done)


@pytest.mark.rule(36)
@pytest.mark.abi("PEERINFO")
def test_peerinfo(ksock: OpenKsock) -> None:
    one = ksock()
    asked = struct.pack("=4I", one.ksock_id(), 0, 0, 0)
    argument = faults.buffer(asked)

    def prepare() -> Call:
        faults.store(argument, asked)
        return faults.ioctl(one, "PEERINFO", argument)

    def done(_: Attempt) -> None:
        assert struct.unpack("=4I", argument.raw) == (one.ksock_id(), os.getpid(), 0, 0)

    faults.each("PEERINFO", prepare, done)


@pytest.mark.rule(28)
@pytest.mark.abi("ABANDON")
def test_abandon(ksock: OpenKsock) -> None:
    sender, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)

    def prepare() -> Call:
        if not ksock_stats(sender)["awaiting"]:
            raw.send(sender, raw.message(b"$.A", flags=raw.WANT_A_REPLY))
        return faults.ioctl(
            sender, "ABANDON", faults.buffer(struct.pack("=2I", *raw.msg_id(sender, "LASTSENT")))
        )

    def done(_: Attempt) -> None:
        assert ksock_stats(sender)["awaiting"] == 0
        assert not take(replier).wants_us_to_reply()

    faults.each("ABANDON", prepare, done)


@pytest.mark.rule(23)
@pytest.mark.abi("REPORTLOST")
def test_reportlost(ksock: OpenKsock) -> None:
    one = ksock()
    one.set_max_messages(1)
    one.bind("$.A")
    sender = ksock()

    def done(_: Attempt) -> None:
        raw.send(sender, raw.message(b"$.A"))
        raw.send(sender, raw.message(b"$.A"))
        assert names(one) == ["$.A", "$.KBUS.MessagesLost"]
        one.report_lost_messages(False)

    faults.each("REPORTLOST", lambda: faults.ioctl(one, "REPORTLOST", faults.number(raw.ON)), done)


@pytest.mark.abi("NEXTMSG")
def test_nextmsg(ksock: OpenKsock) -> None:
    one, sender = ksock(), ksock()
    one.bind("$.A")
    packet = raw.message(b"$.A")
    length = faults.number()

    def prepare() -> Call:
        if not one.num_messages():
            raw.send(sender, packet)
        return faults.ioctl(one, "NEXTMSG", length)

    def done(attempt: Attempt) -> None:
        assert (attempt.result, int.from_bytes(length.raw, "little")) == (1, len(packet))
        assert os.read(one.fileno(), len(packet))[32:] == packet[32:]

    faults.each("NEXTMSG", prepare, done)


@pytest.mark.rule(23)
@pytest.mark.axiom("loss")
@pytest.mark.abi("NEXTMSG", "MAXMSGS")
@pytest.mark.parametrize("makes_room", ["NEXTMSG", "MAXMSGS 2"])
def test_a_report_is_late_but_not_lost(ksock: OpenKsock, makes_room: str) -> None:
    sender, one = ksock(), ksock()
    name, _, value = makes_room.partition(" ")

    def prepare() -> Call:
        one.set_max_messages(1)
        for _ in range(2):
            sender.send_msg(Announcement("$.A"))
        # The first report takes what was ready for it; the second needs new memory.
        one.next_msg()
        sender.send_msg(Announcement("$.A"))
        assert ksock_stats(one)["queued"] == 1
        return faults.ioctl(one, name, faults.number(int(value or 0)))

    def done(_: Attempt) -> None:
        # Whoever reads until nothing is left, and looks again, has seen it.
        seen = names(one) + names(one)
        assert seen == ["$.KBUS.MessagesLost"] * (1 if makes_room == "NEXTMSG" else 2)

    one.bind("$.A")
    one.report_lost_messages()

    faults.each(f"{makes_room}, with a report of lost messages", prepare, done)


@pytest.mark.rule(33)
@pytest.mark.abi("NEWDEVICE")
def test_newdevice() -> None:
    argument = faults.number()
    made: list[int] = []

    def nodes() -> list[int]:
        return [len(list(Path(path).glob("kbus*"))) for path in ("/dev", "/sys/class/kbus")]

    def prepare() -> Call:
        assert nodes() == [1 + len(made)] * 2
        return faults.ioctl(one, "NEWDEVICE", argument)

    def done(_: Attempt) -> None:
        made.append(int.from_bytes(argument.raw, "little"))
        assert made[-1] == len(made)
        with Ksock(made[-1]) as there:
            assert there.ksock_id() == 1

    with module.reloaded(), Ksock() as one:
        faults.each("NEWDEVICE", prepare, done, starve=False)
