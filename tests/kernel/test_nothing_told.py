# SPDX-License-Identifier: MIT
"""No error, number or byte tells more of others' messages than listening to them or /proc/kbus does."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbus import Ksock, Request, reply_to
from tests.kernel import raw, transfer
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import bindings, device_stats, fill, ksock_stats, names, refused, take
from tests.kernel.module import parameter
from tests.kernel.processes import as_nobody

# Whoever may not look at /proc/kbus cannot see that nothing has changed.

REQUEST = raw.message(b"$.A", flags=raw.WANT_A_REPLY)
PATTERN = 0xA5


@pytest.fixture
def stranger(open_to_all: None, ksock: OpenKsock) -> Ksock:
    """A KSock that has to do with none of the others' messages."""
    return ksock()


# Errors.


@pytest.mark.rule(26)
@pytest.mark.abi("in_reply_to")
def test_replies_to_others_requests_are_refused_alike(ksock: OpenKsock, stranger: Ksock) -> None:
    """ECONNREFUSED does not tell whether there is such a Request, and how far it has got."""
    sender, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    answered = sender.send_msg(Request("$.A"))
    replier.send_msg(reply_to(take(replier)))
    names(sender)
    popped = sender.send_msg(Request("$.A"))
    replier.next_msg()
    unread = sender.send_msg(Request("$.A"))
    abandoned = sender.send_msg(Request("$.A"))
    sender.abandon(abandoned)
    never = (0, abandoned.serial_num + 1000)
    ids = [(0, id.serial_num) for id in (answered, popped, unread, abandoned)]
    for id in (*ids, never):
        with refused(errno.ECONNREFUSED, serials=1):
            raw.send(stranger, raw.message(b"$.A", to=sender.ksock_id(), in_reply_to=id))
        with refused(errno.ENOENT):
            raw.abandon(stranger, id)


@pytest.mark.rule(18)
@pytest.mark.abi("SEND")
def test_send_tells_nothing_of_who_listens(ksock: OpenKsock, stranger: Ksock) -> None:
    listener = ksock()
    listener.bind("$.Heard")
    fill(listener, "$.Full")
    serial = device_stats()["last_serial"]
    ids = [raw.send(stranger, raw.message(name)) for name in (b"$.Heard", b"$.Full", b"$.Nobody")]
    assert ids == [(0, serial + more) for more in (1, 2, 3)]


@pytest.mark.rule(21, 24, 35)
@pytest.mark.abi("REPLIER", "RESOLVE", "SEND")
def test_errors_say_what_proc_says(ksock: OpenKsock, stranger: Ksock) -> None:
    """EADDRNOTAVAIL, EPIPE and EBUSY tell of repliers and full queues; so do the files that all may read."""
    replier = ksock()
    with refused(errno.EADDRNOTAVAIL, serials=1):
        raw.send(stranger, REQUEST)
    assert (stranger.find_replier("$.A"), stranger.resolve("$.A"), bindings()) == (None, None, [])

    replier.bind("$.*", replier=True)
    (shown,) = bindings()
    assert (stranger.find_replier("$.*"), stranger.resolve("$.A")) == (shown.ksock_id, shown.ksock_id)
    with refused(errno.EPIPE, serials=1):
        raw.send(stranger, raw.message(b"$.A", flags=raw.WANT_A_REPLY, to=shown.ksock_id + 1000))

    fill(replier)
    full = ksock_stats(replier)
    assert full["queued"] == full["queue_limit"]
    with refused(errno.EBUSY, serials=1):
        raw.send(stranger, REQUEST)


@pytest.mark.rule(36)
@pytest.mark.abi("PEERINFO")
def test_a_closed_ksock_is_like_one_that_never_was(ksock: OpenKsock, stranger: Ksock) -> None:
    sender, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    raw.send(sender, REQUEST)
    # Its id is still kept from others, because of the Request.
    closed = sender.ksock_id()
    sender.close()
    for id in (closed, closed + 1000, 0):
        with refused(errno.ESRCH):
            raw.peer_info(stranger, id)


@pytest.mark.rule(11, 33, 37)
def test_limits_of_users_tell_nothing_of_other_users(ksock: OpenKsock, open_to_all: None) -> None:
    """ENOSPC, EMFILE and ENOBUFS count what the user has himself."""
    others = [ksock() for _ in range(5)]
    for other in others:
        other.bind("$.Others")
        os.write(other.fileno(), raw.message(b"$.A", bytes(10_000)))

    def try_it() -> None:
        first, second = Ksock(), Ksock()
        with refused(errno.EMFILE):
            Ksock()
        for _ in range(2):
            first.bind("$.A")
        with refused(errno.ENOSPC):
            second.bind("$.A")
        second.write_data(raw.message(b"$.A", bytes(10_000)))
        with refused(errno.ENOBUFS):
            first.write_data(raw.message(b"$.A", bytes(10_000)))
        for one in (first, second):
            one.close()

    with (
        parameter("max_user_ksocks", 2),
        parameter("max_user_bindings", 2),
        parameter("max_user_bytes", 30_000),
    ):
        as_nobody(try_it)


def test_numbers_are_those_of_the_ksock_itself(ksock: OpenKsock, stranger: Ksock) -> None:
    sender, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    raw.send(sender, REQUEST)
    raw.send(sender, REQUEST)
    replier.next_msg()
    assert raw.msg_id(stranger, "LASTSENT") == (0, 0)
    for name in ("NUMMSGS", "UNREPLIEDTO", "LENLEFT", "LOSTMSGS"):
        assert raw.number(stranger, name) == 0
    assert raw.returned_and_number(stranger, "NEXTMSG") == (0, 0)
    assert os.read(stranger.fileno(), 100) == b""


# Bytes.


@pytest.fixture
def edge() -> Iterator[raw.EdgeOfMemory]:
    memory = raw.EdgeOfMemory()
    yield memory
    memory.close()


NAME = ctypes.create_string_buffer(b"$.A", 3)
QUERY = struct.pack("=IQ", len(NAME), ctypes.addressof(NAME))
NOISE = bytes([PATTERN])


@pytest.mark.abi("every ioctl")
@pytest.mark.parametrize("which", [name for name, code in raw.IOCTLS.items() if code >> 30 & 2])
def test_an_ioctl_stores_its_answer_and_no_more(ksock: OpenKsock, edge: raw.EdgeOfMemory, which: str) -> None:
    one = ksock()
    one.bind("$.A", replier=True)
    one.bind("$.A")
    message = raw.message(b"$.A")
    id = struct.pack("=2I", *raw.send(one, message))
    following = struct.pack("=2I", 0, device_stats()["last_serial"] + 1)
    os.write(one.fileno(), message)
    mine, ask, off = (struct.pack("=I", value) for value in (one.ksock_id(), raw.ASK, raw.OFF))
    given, expected = {
        "KSOCKID": (NOISE * 4, mine),
        "REPLIER": (NOISE * 4 + QUERY, mine + QUERY),
        "RESOLVE": (NOISE * 4 + QUERY, mine + QUERY),
        "NEXTMSG": (NOISE * 4, struct.pack("=I", len(message))),
        "LENLEFT": (NOISE * 4, bytes(4)),
        "SEND": (NOISE * 8, following),
        "LASTSENT": (NOISE * 8, id),
        "MAXMSGS": (bytes(4), struct.pack("=I", 100)),
        "NUMMSGS": (NOISE * 4, struct.pack("=I", 1)),
        "UNREPLIEDTO": (NOISE * 4, bytes(4)),
        "MSGONLYONCE": (ask, off),
        "VERBOSE": (ask, off),
        "NEWDEVICE": (NOISE * 4, struct.pack("=I", len(list(Path("/sys/class/kbus").iterdir())))),
        "REPORTREPLIERBINDS": (ask, off),
        "MAXMSGSIZE": (bytes(4), struct.pack("=I", 1 << 20)),
        "LOSTMSGS": (NOISE * 8, bytes(8)),
        "REPORTLOST": (ask, off),
        # One message is queued, there is no room to receive it, and nothing to send.
        "TRANSFER": (
            transfer.ARGUMENT.pack(1, 2, 3, transfer.NEVER, 9, 0, 0, 9, 9, 0, 9, 9, 9, 9, 5, 0),
            transfer.ARGUMENT.pack(1, 2, 3, transfer.NEVER, 0, 0, 0, 0, 0, 0, 0, 0, 1, len(message), 5, 0),
        ),
        "PEERINFO": (mine + NOISE * 12, mine + struct.pack("=3I", os.getpid(), 0, 0)),
    }[which]
    assert len(given) == len(expected) == raw.IOCTLS[which] >> 16 & 0x3FFF
    # Right before memory that cannot be touched, and after memory that must not be.
    address = edge.store(NOISE * 8 + given) + 8
    raw.ioctl_at(one, which, address)
    assert edge.last(8 + len(given)) == NOISE * 8 + expected


@pytest.mark.rule(30)
@pytest.mark.parametrize("extended", [None, (1, 2, 3, 4)])
@pytest.mark.parametrize("name", [b"$.A", b"$.AB", b"$.ABC", b"$.ABCD", b"$." + b"A" * 998])
@pytest.mark.parametrize("words", [0, 1, 600, 5000])
def test_a_read_stores_the_message_and_no_more(
    ksock: OpenKsock, name: bytes, words: int, extended: tuple[int, int, int, int] | None
) -> None:
    """Byte for byte what was sent, on the way through single pages and by odd lengths."""
    one = ksock()
    one.bind(name.decode())
    id = raw.send(one, raw.message(name, bytes(range(1, 5)) * words, extended=extended))
    expected = raw.message(name, bytes(range(1, 5)) * words, extended=extended, id=id, from_=one.ksock_id())
    assert one.next_msg() == len(expected)
    seen = b""
    while True:
        memory = bytearray(NOISE * 1021)
        count = os.readv(one.fileno(), [memory])
        assert memory[count:] == NOISE * (len(memory) - count)
        seen += memory[:count]
        if not count:
            break
    assert seen == expected


@pytest.mark.rule(23, 27, 32)
def test_kbus_messages_byte_for_byte(ksock: OpenKsock) -> None:
    """What KBUS makes itself has no byte that it did not set."""
    one, sender, replier = ksock(), ksock(), ksock()
    one.bind("$.KBUS.*")
    one.report_lost_messages()
    with reporting(one):
        replier.bind("$.Abc", replier=True)
        request = raw.send(sender, raw.message(b"$.Abc", bytes(3000), flags=raw.WANT_A_REPLY))
        replier.unbind("$.Abc", replier=True)
    one.set_max_messages(3)
    one.bind("$.A")
    raw.send(sender, raw.message(b"$.A"))
    received = [raw.receive(one) for _ in range(4)]
    ids = [raw.parse(packet).id for packet in received]

    def event(is_bind: int, id: raw.Pair) -> bytes:
        data = struct.pack("=3I", is_bind, replier.ksock_id(), 5) + b"$.Abc\0\0\0"
        return raw.message(b"$.KBUS.ReplierBindEvent", data, id=id, flags=raw.SYNTHETIC)

    assert received == [
        event(1, ids[0]),
        event(0, ids[1]),
        raw.message(
            b"$.KBUS.Replier.Unbound",
            id=ids[2],
            in_reply_to=request,
            to=sender.ksock_id(),
            from_=replier.ksock_id(),
            flags=raw.SYNTHETIC,
        ),
        raw.message(
            b"$.KBUS.MessagesLost",
            struct.pack("=I", 1),
            id=ids[3],
            to=one.ksock_id(),
            flags=raw.SYNTHETIC,
        ),
    ]
    assert raw.receive(sender) == received[2]


@contextmanager
def reporting(ksock: Ksock) -> Iterator[None]:
    """Repliers' binds are reported on device 0."""
    ksock.report_replier_binds()
    try:
        yield
    finally:
        ksock.report_replier_binds(False)
