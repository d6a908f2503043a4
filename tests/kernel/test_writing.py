# SPDX-License-Identifier: MIT
"""Writing a message, DISCARD, and SEND of what is not a message: rules 13 and 14."""

from __future__ import annotations

import errno
import os
import struct
from contextlib import closing

import pytest

from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import bindings_text, ksock_stats, refused, stats_text

NAME = b"$.Written"
GOOD = raw.message(NAME, b"words of it.")

U32_MAX = 0xFFFFFFFF
REPLY = (0, 77)

# Each is refused, with this errno, when this many of its bytes have come, and not before.
REFUSED = {
    "start guard": (raw.message(NAME, start=raw.END_GUARD), errno.EINVAL, 4),
    "swapped guard": (raw.message(NAME, start=0x6B627573), errno.EINVAL, 4),
    **{f"bit {bit}": (raw.message(NAME, flags=1 << bit), errno.EINVAL, 32) for bit in raw.RESERVED_BITS},
    "wait and fail": (raw.message(NAME, flags=raw.ALL_OR_WAIT | raw.ALL_OR_FAIL), errno.EINVAL, 32),
    "request and reply": (raw.message(NAME, flags=raw.WANT_A_REPLY, in_reply_to=REPLY), errno.EINVAL, 32),
    "reply to a network": (raw.message(NAME, flags=raw.WANT_A_REPLY, in_reply_to=(5, 0)), errno.EINVAL, 32),
    "name of 1001": (raw.message(b"$." + b"a" * 999), errno.ENAMETOOLONG, 36),
    "name of 2^32-1": (raw.message(NAME, name_len=U32_MAX), errno.ENAMETOOLONG, 36),
    "name of 2^31": (raw.message(NAME, name_len=1 << 31), errno.ENAMETOOLONG, 36),
    "data of 2^32-1": (raw.message(NAME, data_len=U32_MAX), errno.EMSGSIZE, 40),
    "data of 2^30": (raw.message(NAME, data_len=1 << 30), errno.EMSGSIZE, 40),
    "data of 2^30-13": (raw.message(NAME, data_len=(1 << 30) - 13), errno.EMSGSIZE, 40),
    "padding of the name": (raw.message(NAME, padding=b"\0\0?"), errno.EINVAL, 52),
    "end guard": (raw.message(NAME, end=raw.START_GUARD), errno.EINVAL, 56),
    "end guard of 0": (raw.message(NAME, b"data", end=0), errno.EINVAL, 60),
    "one byte more": (raw.message(NAME) + b"\0", errno.EMSGSIZE, 57),
    "two messages": (raw.message(NAME) + raw.message(NAME), errno.EMSGSIZE, 57),
}


@pytest.mark.rule(13)
@pytest.mark.abi("start_guard", "flags", "name_len", "data_len", "name", "end_guard")
@pytest.mark.parametrize(("packet", "number", "seen_at"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_wrong_is_refused_at_once(ksock: OpenKsock, packet: bytes, number: int, seen_at: int) -> None:
    one = ksock()
    one.bind("$.*")
    with refused(number):
        os.write(one.fileno(), packet)
    assert os.write(one.fileno(), packet[: seen_at - 1]) == seen_at - 1
    with refused(number):
        os.write(one.fileno(), packet[seen_at - 1 : seen_at])
    with refused(errno.ENOMSG):
        raw.msg_id(one, "SEND")
    raw.send(one, GOOD)
    assert raw.parse(raw.receive(one)).data == b"words of it."
    assert one.num_messages() == 0


@pytest.mark.rule(13)
@pytest.mark.parametrize(
    ("earlier", "later", "number"),
    [
        ({"start": 0}, {"flags": 1 << 4}, errno.EINVAL),
        ({"flags": 1 << 4}, {"name_len": 1001}, errno.EINVAL),
        ({"flags": raw.ALL_OR_WAIT | raw.ALL_OR_FAIL}, {"data_len": U32_MAX}, errno.EINVAL),
        ({"name_len": 1001}, {"data_len": U32_MAX}, errno.ENAMETOOLONG),
        ({"data_len": U32_MAX}, {"padding": b"???"}, errno.EMSGSIZE),
        ({"padding": b"???"}, {"end": 0}, errno.EINVAL),
    ],
)
def test_the_first_wrong_thing_counts(
    ksock: OpenKsock, earlier: dict[str, int], later: dict[str, int], number: int
) -> None:
    one = ksock()
    with refused(number):
        os.write(one.fileno(), raw.message(NAME, **{**earlier, **later}) + b"more")  # type: ignore[arg-type]


@pytest.mark.rule(13)
@pytest.mark.parametrize("size", [1, 3, 4, 7, 40, 64])
def test_pieces_of_any_size(ksock: OpenKsock, size: int) -> None:
    one = ksock()
    one.bind(NAME.decode())
    packet = raw.message(NAME, bytes(range(200)), extended=(1, 2, 3, 4))
    for start in range(0, len(packet), size):
        piece = packet[start : start + size]
        assert os.write(one.fileno(), piece) == len(piece)
    assert (one.num_messages(), ksock_stats(one)["sent"]) == (0, 0)
    raw.msg_id(one, "SEND")
    assert raw.parse(raw.receive(one)).data == bytes(range(200))


@pytest.mark.rule(13)
def test_nothing_is_delivered_before_send(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    listener.bind(NAME.decode())
    os.write(sender.fileno(), GOOD)
    assert (listener.num_messages(), listener.next_msg()) == (0, 0)
    raw.msg_id(sender, "SEND")
    assert listener.num_messages() == 1


@pytest.mark.rule(13)
def test_no_bytes_are_no_message(ksock: OpenKsock) -> None:
    one = ksock()
    assert os.write(one.fileno(), b"") == 0
    with refused(errno.ENOMSG):
        raw.msg_id(one, "SEND")
    os.write(one.fileno(), GOOD[:30])
    assert os.write(one.fileno(), b"") == 0
    os.write(one.fileno(), GOOD[30:])
    assert os.write(one.fileno(), b"") == 0
    raw.msg_id(one, "SEND")


@pytest.mark.rule(13)
def test_beyond_the_end_guard(ksock: OpenKsock) -> None:
    one = ksock()
    os.write(one.fileno(), GOOD)
    with refused(errno.EMSGSIZE):
        os.write(one.fileno(), GOOD)
    with refused(errno.ENOMSG):
        raw.msg_id(one, "SEND")


@pytest.mark.rule(13)
def test_both_waiting_flags_are_ignored_in_a_reply(ksock: OpenKsock) -> None:
    one = ksock()
    packet = raw.message(NAME, flags=raw.ALL_OR_WAIT | raw.ALL_OR_FAIL, in_reply_to=REPLY)
    assert os.write(one.fileno(), packet) == len(packet)
    with refused(errno.ECONNREFUSED, serials=1):
        raw.msg_id(one, "SEND")


@pytest.mark.rule(13)
def test_a_bad_address_drops_nothing(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind(NAME.decode())
    for start in range(0, len(GOOD), 16):
        with refused(errno.EFAULT):
            raw.write_from(one, 1, 16)
        os.write(one.fileno(), GOOD[start : start + 16])
    with refused(errno.EFAULT):
        raw.write_from(one, 1, 16)
    raw.msg_id(one, "SEND")
    assert raw.parse(raw.receive(one)).data == b"words of it."


@pytest.mark.rule(13)
@pytest.mark.parametrize("good", [2, 20, 41, 60])
def test_memory_that_ends_in_the_middle(ksock: OpenKsock, good: int) -> None:
    one = ksock()
    one.bind(NAME.decode())
    with closing(raw.EdgeOfMemory()) as memory:
        address = memory.store(GOOD[:good])
        try:
            written = raw.write_from(one, address, len(GOOD))
        except OSError as error:
            assert error.errno == errno.EFAULT
            written = 0
    assert written <= good
    os.write(one.fileno(), GOOD[written:])
    raw.msg_id(one, "SEND")
    assert raw.parse(raw.receive(one)).data == b"words of it."


@pytest.mark.rule(13)
def test_no_writing_without_write_access(ksock: OpenKsock) -> None:
    one = ksock(mode="r")
    with refused(errno.EBADF):
        os.write(one.fileno(), GOOD)


@pytest.mark.rule(14)
@pytest.mark.abi("SEND")
def test_send_without_a_message(ksock: OpenKsock) -> None:
    one = ksock()
    with refused(errno.ENOMSG):
        raw.msg_id(one, "SEND")
    raw.send(one, GOOD)
    with refused(errno.ENOMSG):
        raw.msg_id(one, "SEND")


@pytest.mark.rule(14)
@pytest.mark.abi("SEND")
@pytest.mark.parametrize("written", [1, 4, 39, 40, 41, len(GOOD) - 4, len(GOOD) - 1])
def test_send_of_half_a_message(ksock: OpenKsock, written: int) -> None:
    one = ksock()
    one.bind(NAME.decode())
    last = raw.send(one, GOOD)
    os.write(one.fileno(), GOOD[:written])
    with refused(errno.EINVAL):
        raw.msg_id(one, "SEND")
    with refused(errno.ENOMSG):
        raw.msg_id(one, "SEND")
    assert raw.msg_id(one, "LASTSENT") == last
    assert one.num_messages() == 1


@pytest.mark.rule(14)
@pytest.mark.parametrize(
    ("packet", "number", "serials"),
    [
        (raw.message(b"$.?"), errno.EBADMSG, 0),
        (raw.message(b"$.KBUS.A"), errno.EACCES, 0),
        (raw.message(NAME, flags=raw.WANT_A_REPLY), errno.EADDRNOTAVAIL, 1),
        (raw.message(NAME, in_reply_to=REPLY), errno.ECONNREFUSED, 1),
    ],
)
def test_after_a_failed_send_the_message_is_gone(
    ksock: OpenKsock, packet: bytes, number: int, serials: int
) -> None:
    one = ksock()
    os.write(one.fileno(), packet)
    with refused(number, serials):
        raw.msg_id(one, "SEND")
    with refused(errno.ENOMSG):
        raw.msg_id(one, "SEND")
    raw.send(one, GOOD)


@pytest.mark.rule(14)
@pytest.mark.abi("DISCARD")
@pytest.mark.parametrize("written", [0, 3, 40, len(GOOD)])
def test_discard_drops_the_message(ksock: OpenKsock, written: int) -> None:
    one = ksock()
    one.bind(NAME.decode())
    os.write(one.fileno(), GOOD[:written])
    before = stats_text(), bindings_text()
    assert raw.command(one, "DISCARD") == 0
    assert (stats_text(), bindings_text()) == before
    with refused(errno.ENOMSG):
        raw.msg_id(one, "SEND")
    assert raw.send(one, GOOD) == raw.msg_id(one, "LASTSENT")
    assert one.num_messages() == 1


@pytest.mark.rule(14)
@pytest.mark.abi("SEND")
def test_send_to_a_bad_address_sends_nothing(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind(NAME.decode())
    os.write(one.fileno(), GOOD)
    with refused(errno.EFAULT):
        raw.command(one, "SEND", 1)
    assert raw.msg_id(one, "LASTSENT") == (0, 0)
    with refused(errno.ENOMSG):
        raw.msg_id(one, "SEND")


@pytest.mark.rule(14)
def test_a_write_only_ksock_can_send(ksock: OpenKsock, write_only: raw.Descriptor) -> None:
    listener = ksock()
    listener.bind(NAME.decode())
    raw.send(write_only, GOOD)
    sender = struct.unpack("=I", raw.receive(listener)[24:28])[0]
    assert sender == raw.number(write_only, "KSOCKID")


@pytest.mark.rule(13, 14)
@pytest.mark.axiom("lifetime")
def test_half_a_message_dies_with_its_ksock(ksock: OpenKsock) -> None:
    one, listener = ksock(), ksock()
    listener.bind(NAME.decode())
    os.write(one.fileno(), GOOD)
    one.close()
    assert listener.num_messages() == 0
