# SPDX-License-Identifier: MIT
"""How often each call reads and writes user memory: nothing is read twice."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import NamedTuple

import pytest

from tests.debug import faults
from tests.debug.faults import Call
from tests.debug.watch import Touched, watched
from tests.kernel import raw, transfer
from tests.kernel.conftest import OpenKsock

pytestmark = pytest.mark.qemu("User Mode Linux copies without the hooks that count and fail copies")

NAME = faults.buffer(b"$.A")
NAMED = struct.pack("=IQ", len(NAME), ctypes.addressof(NAME))
ID = struct.pack("=2I", 0, 0xFFFF)


class Expected(NamedTuple):
    """What is given to an ioctl, and how often it may touch that, and a name that it points to."""

    given: bytes
    reads: int
    writes: int
    error: int = 0


def number(value: int, reads: int, writes: int, error: int = 0) -> Expected:
    return Expected(struct.pack("=I", value), reads, writes, error)


IOCTLS = {
    "BIND": Expected(bytes(4) + NAMED, 1, 0),
    "UNBIND": Expected(bytes(4) + NAMED, 1, 0, errno.EINVAL),
    "KSOCKID": number(0, 0, 1),
    "REPLIER": Expected(bytes(4) + NAMED, 1, 1),
    "NEXTMSG": number(0, 0, 1),
    "LENLEFT": number(0, 0, 1),
    # The address is tried before the message is sent.
    "SEND": Expected(bytes(8), 0, 2),
    "LASTSENT": Expected(bytes(8), 0, 1),
    "MAXMSGS": number(50, 1, 1),
    "NUMMSGS": number(0, 0, 1),
    "UNREPLIEDTO": number(0, 0, 1),
    "MSGONLYONCE": number(raw.ON, 1, 1),
    "VERBOSE": number(raw.OFF, 1, 1),
    # Likewise before the device is made.
    "NEWDEVICE": number(0, 0, 2),
    "REPORTREPLIERBINDS": number(raw.OFF, 1, 1),
    "MAXMSGSIZE": number(1 << 20, 1, 0),
    "LOSTMSGS": Expected(bytes(8), 0, 1),
    # Before anything is done, and after it
    "TRANSFER": Expected(bytes(112), 1, 2),
    "REPORTLOST": number(raw.ON, 1, 1),
    "RESOLVE": Expected(bytes(4) + NAMED, 1, 1),
    "ABANDON": Expected(ID, 1, 0, errno.ENOENT),
    "PEERINFO": Expected(struct.pack("=4I", 0xFFFF, 0, 0, 0), 1, 0, errno.ESRCH),
}
"""All of them but those without an argument."""


@pytest.mark.abi("every ioctl")
@pytest.mark.parametrize("which", IOCTLS)
def test_ioctls(ksock: OpenKsock, which: str) -> None:
    one = ksock()
    expected = IOCTLS[which]
    argument = faults.buffer(expected.given)

    def prepare() -> Call:
        one.discard()
        os.write(one.fileno(), raw.message(b"$.A"))
        faults.store(argument, expected.given)
        return faults.ioctl(one, which, argument)

    attempt, touched = watched(prepare, ctypes.addressof(argument))
    assert (attempt.error, touched) == (expected.error, Touched(expected.reads, expected.writes))


def test_all_ioctls_are_among_them() -> None:
    assert {*IOCTLS, "RESET", "DISCARD"} == set(raw.IOCTLS)


@pytest.mark.abi("PEERINFO")
def test_peerinfo_of_somebody(ksock: OpenKsock) -> None:
    one = ksock()
    argument = faults.buffer(struct.pack("=4I", one.ksock_id(), 0, 0, 0))
    _, touched = watched(lambda: faults.ioctl(one, "PEERINFO", argument), ctypes.addressof(argument))
    assert touched == Touched(1, 1)


@pytest.mark.abi("BIND", "UNBIND", "REPLIER", "RESOLVE")
@pytest.mark.parametrize("which", ["BIND", "UNBIND", "REPLIER", "RESOLVE"])
def test_names(ksock: OpenKsock, which: str) -> None:
    one = ksock()
    argument = faults.buffer(IOCTLS[which].given)

    def prepare() -> Call:
        one.bind("$.A")
        return faults.ioctl(one, which, argument)

    for position in range(len(NAME)):
        attempt, touched = watched(prepare, ctypes.addressof(NAME) + position)
        assert (attempt.error, touched) == (0, Touched(1, 0))


@pytest.mark.rule(13, 30)
@pytest.mark.parametrize("position", [0, 1, 4, 28, 32, 36, 39, 40, 43, 44, 2000, 4096, 9000, -4, -1])
def test_messages(ksock: OpenKsock, position: int) -> None:
    one = ksock()
    one.bind("$.A")
    packet = raw.message(b"$.A", bytes(10_000))
    content = faults.buffer(packet)
    where = ctypes.addressof(content) + position % len(packet)

    def write() -> Call:
        one.discard()
        return Call(faults.WRITE, one.fileno(), content, len(packet))

    attempt, touched = watched(write, where)
    assert (attempt.result, touched) == (len(packet), Touched(1, 0))

    def read() -> Call:
        one.discard()
        raw.send(one, packet)
        one.next_msg()
        return Call(faults.READ, one.fileno(), content, len(packet))

    attempt, touched = watched(read, where)
    assert (attempt.result, touched) == (len(packet), Touched(0, 1))


POSITIONS = [0, 1, 4, 28, 32, 36, 39, 40, 43, 44, 100, -4, -1]


def transferring(one: raw.HasFileno, **fields: int) -> Call:
    """TRANSFER with these fields, and no time to wait."""
    names = ["send", "ids", "receive", "deadline", "lost", "send_len", "receive_len"]
    values = [fields.get(name, 0) for name in names]
    return faults.ioctl(one, "TRANSFER", faults.buffer(transfer.ARGUMENT.pack(*values, *[0] * 9)))


@pytest.mark.abi("TRANSFER")
@pytest.mark.parametrize("length", [200, 10_000])
@pytest.mark.parametrize("position", POSITIONS)
def test_transferred_messages(ksock: OpenKsock, position: int, length: int) -> None:
    """Short ones are copied as they are, and then their flags, if those are others than the sender's."""
    one = ksock()
    one.bind("$.A")
    packet = raw.message(b"$.A", bytes(length))
    content = faults.buffer(packet)
    address = ctypes.addressof(content)
    where = address + position % len(packet)

    def send() -> Call:
        raw.receive(one)
        return transferring(one, send=address, send_len=len(packet))

    _, touched = watched(send, where)
    assert (one.num_messages(), touched) == (1, Touched(1, 0))

    def receive() -> Call:
        raw.receive(one)
        raw.send(one, packet)
        return transferring(one, receive=address, receive_len=len(packet))

    _, touched = watched(receive, where)
    assert (one.num_messages(), touched) == (0, Touched(0, 1))


@pytest.mark.abi("TRANSFER")
def test_ids(ksock: OpenKsock) -> None:
    one = ksock()
    packet = faults.buffer(raw.message(b"$.A"))
    ids = faults.buffer(ID)
    fields = {"send": ctypes.addressof(packet), "send_len": len(packet), "ids": ctypes.addressof(ids)}
    # The address is tried before the message is sent.
    _, touched = watched(lambda: transferring(one, **fields), ctypes.addressof(ids))
    assert touched == Touched(0, 2)
