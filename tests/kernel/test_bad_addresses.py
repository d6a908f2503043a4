# SPDX-License-Identifier: MIT
"""Arguments of ioctls that cannot be read, or be read but not written: EFAULT, and nothing has changed."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator

import pytest

from tests.kernel import raw, transfer
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import refused

NAME = ctypes.create_string_buffer(b"$.A", 3)
QUERY = struct.pack("=IIQ", 0, len(NAME), ctypes.addressof(NAME))
WITH_ARGUMENT = [name for name, code in raw.IOCTLS.items() if code >> 30]
STORING = {
    "KSOCKID": bytes(4),
    "REPLIER": QUERY,
    "RESOLVE": QUERY,
    "NEXTMSG": bytes(4),
    "LENLEFT": bytes(4),
    "SEND": bytes(8),
    "LASTSENT": bytes(8),
    "MAXMSGS": struct.pack("=I", 5),
    "NUMMSGS": bytes(4),
    "UNREPLIEDTO": bytes(4),
    "MSGONLYONCE": struct.pack("=I", raw.ON),
    "VERBOSE": struct.pack("=I", raw.ON),
    "NEWDEVICE": bytes(4),
    "REPORTREPLIERBINDS": struct.pack("=I", raw.ON),
    "MAXMSGSIZE": bytes(4),
    "LOSTMSGS": bytes(8),
    "REPORTLOST": struct.pack("=I", raw.ON),
    "TRANSFER": bytes(112),
    "PEERINFO": bytes(16),
}
"""The ioctls that store something, with an argument that is otherwise good."""


@pytest.fixture
def edge() -> Iterator[raw.EdgeOfMemory]:
    memory = raw.EdgeOfMemory()
    yield memory
    memory.close()


def test_these_are_all_that_store() -> None:
    assert set(STORING) == {name for name, code in raw.IOCTLS.items() if code >> 30 & 2}


@pytest.mark.abi("every ioctl")
@pytest.mark.parametrize("which", WITH_ARGUMENT)
@pytest.mark.parametrize("there", [0, 1])
def test_memory_that_ends_too_early(ksock: OpenKsock, edge: raw.EdgeOfMemory, which: str, there: int) -> None:
    """None of the argument can be touched, or the first byte of it only."""
    one = ksock()
    one.bind("$.A")
    raw.send(one, raw.message(b"$.A"))
    os.write(one.fileno(), raw.message(b"$.A"))
    with refused(errno.EFAULT):
        raw.ioctl_at(one, which, edge.before_end(there))
    assert one.next_msg() == len(raw.message(b"$.A"))


@pytest.mark.abi("TRANSFER")
@pytest.mark.axiom("loss")
@pytest.mark.parametrize("writable", [88, 92, 108])
def test_an_argument_whose_end_cannot_be_written(
    ksock: OpenKsock, edge: raw.EdgeOfMemory, writable: int
) -> None:
    """Its flags and reserved words, which only TRANSFER itself leaves as they are."""
    one, packet = ksock(), ctypes.create_string_buffer(raw.message(b"$.A"))
    one.bind("$.A")
    raw.send(one, raw.message(b"$.A"))
    to_send, room = ctypes.addressof(packet), ctypes.create_string_buffer(100)
    argument = transfer.ARGUMENT.pack(
        *(to_send, 0, ctypes.addressof(room), 0, 0, len(packet) - 1, len(room)), *bytes(8), 0
    )
    address = edge.store(argument[:writable])
    with edge.readable_beyond(), refused(errno.EFAULT):
        raw.ioctl_at(one, "TRANSFER", address)
    assert one.num_messages() == 1


@pytest.mark.abi("every ioctl")
@pytest.mark.parametrize("which", STORING)
def test_memory_that_cannot_be_written(ksock: OpenKsock, edge: raw.EdgeOfMemory, which: str) -> None:
    one = ksock()
    one.bind("$.A", replier=True)
    one.bind("$.A")
    raw.send(one, raw.message(b"$.A"))
    os.write(one.fileno(), raw.message(b"$.A"))
    given = struct.pack("=I", one.ksock_id()) + bytes(12) if which == "PEERINFO" else STORING[which]
    address = edge.store(given)
    with edge.read_only(), refused(errno.EFAULT):
        raw.ioctl_at(one, which, address)
    assert one.next_msg() == len(raw.message(b"$.A"))
    assert (one.want_messages_once(just_ask=True), one.report_lost_messages(just_ask=True)) == (False, False)
