# SPDX-License-Identifier: MIT
"""NEXTMSG, read and poll: rule 30."""

from __future__ import annotations

import errno
import os
import random
import select
import struct
from contextlib import closing

import pytest

from kbus import Announcement, Ksock
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import fill, names, refused, texts
from tests.kernel.processes import Polling

pytestmark = pytest.mark.rule(30)

DATA = struct.pack("=64I", *range(64))


@pytest.fixture
def one(ksock: OpenKsock) -> Ksock:
    """A KSock that listens to $.A, with two messages in its queue: one with DATA, one without."""
    opened = ksock()
    opened.bind("$.A")
    raw.send(opened, raw.message(b"$.A", DATA))
    raw.send(opened, raw.message(b"$.A"))
    return opened


def events(ksock: Ksock) -> int:
    """What poll says now, out of all that it could say."""
    poll = select.poll()
    poll.register(ksock.fileno(), 0xFFFF)
    return poll.poll(0)[0][1] if poll.poll(0) else 0


@pytest.mark.abi("LENLEFT")
def test_read_before_nextmsg_gives_nothing(one: Ksock) -> None:
    assert os.read(one.fileno(), 100) == b""
    assert raw.number(one, "LENLEFT") == 0
    assert one.num_messages() == 2


@pytest.mark.abi("NEXTMSG", "LENLEFT", "NUMMSGS")
def test_reading_in_pieces(one: Ksock) -> None:
    assert raw.number(one, "NUMMSGS") == 2
    returned, length = raw.returned_and_number(one, "NEXTMSG", 99)
    assert (returned, length) == (1, 40 + 4 + 256 + 4)
    assert raw.number(one, "NUMMSGS") == 1
    pieces = b""
    for size in (1, 2, 5, 0, 100, 1000):
        pieces += os.read(one.fileno(), size)
        assert raw.number(one, "LENLEFT") == length - len(pieces)
    assert raw.parse(pieces).data == DATA
    assert os.read(one.fileno(), 100) == b""
    assert one.num_messages() == 1


@pytest.mark.rule(13)
@pytest.mark.parametrize("piece", [997, 4096, 1 << 20])
def test_long_messages_in_pieces(ksock: OpenKsock, piece: int) -> None:
    """KBUS keeps them in chunks of 4 KiB, the first of which has its own notes too."""
    listener, sender = ksock(), ksock()
    listener.bind("$.A")
    for words in (*range(985, 1012), *range(2009, 2036), 40_000):
        data = random.Random(words).randbytes(4 * words)
        packet = raw.message(b"$.A", data)
        for start in range(0, len(packet), piece):
            os.write(sender.fileno(), packet[start : start + piece])
        raw.msg_id(sender, "SEND")
        length = listener.next_msg()
        received = b"".join(os.read(listener.fileno(), piece) for _ in range(0, length, piece))
        assert raw.parse(received).data == data


@pytest.mark.abi("NEXTMSG")
def test_nextmsg_drops_the_rest(one: Ksock) -> None:
    one.next_msg()
    os.read(one.fileno(), 50)
    length = one.next_msg()
    assert raw.parse(os.read(one.fileno(), 1000)).data == b""
    assert length == 40 + 4 + 4


@pytest.mark.abi("NEXTMSG", "LENLEFT")
def test_nextmsg_of_an_empty_queue(one: Ksock) -> None:
    one.next_msg()
    one.next_msg()
    os.read(one.fileno(), 1)
    assert raw.returned_and_number(one, "NEXTMSG", 99) == (0, 0)
    assert (os.read(one.fileno(), 100), raw.number(one, "LENLEFT")) == (b"", 0)
    assert raw.returned_and_number(one, "NEXTMSG", 99) == (0, 0)


def test_iteration_takes_what_is_queued(one: Ksock) -> None:
    assert texts(one) == [DATA, None]
    assert texts(one) == []


def test_a_popped_message_outlives_its_binding(one: Ksock) -> None:
    length = one.next_msg()
    one.unbind("$.A")
    assert one.num_messages() == 0
    assert raw.parse(os.read(one.fileno(), length)).data == DATA


def test_read_of_no_bytes(one: Ksock) -> None:
    length = one.next_msg()
    assert os.read(one.fileno(), 0) == b""
    assert one.len_left() == length


def test_read_to_a_bad_address_loses_nothing(one: Ksock) -> None:
    length = one.next_msg()
    with refused(errno.EFAULT):
        raw.read_to(one, 1, length)
    assert one.len_left() == length
    assert raw.parse(os.read(one.fileno(), length)).data == DATA


@pytest.mark.parametrize("room", [1, 39, 44, 45, 200])
def test_read_gives_what_fits_into_memory(one: Ksock, room: int) -> None:
    length = one.next_msg()
    with closing(raw.EdgeOfMemory()) as memory:
        got = raw.read_to(one, memory.before_end(room), length)
        # Processors that copy by words, such as arm64, stop at the last whole one.
        assert 0 < got <= room
        beginning = memory.last(room)[:got]
        with refused(errno.EFAULT):
            raw.read_to(one, memory.before_end(0), length)
    assert one.len_left() == length - got
    assert raw.parse(beginning + os.read(one.fileno(), length)).data == DATA


@pytest.mark.abi("NEXTMSG")
def test_nextmsg_to_a_bad_address_loses_nothing(one: Ksock) -> None:
    with refused(errno.EFAULT):
        raw.command(one, "NEXTMSG", 1)
    assert texts(one) == [DATA, None]


@pytest.mark.abi("NEXTMSG", "LENLEFT")
def test_reading_needs_read_access(write_only: raw.Descriptor) -> None:
    with refused(errno.EBADF):
        os.read(write_only.fd, 1)
    with refused(errno.EBADF):
        raw.number(write_only, "NEXTMSG")


# What poll says.


def test_poll_of_a_quiet_ksock(ksock: OpenKsock) -> None:
    assert events(ksock()) == select.POLLOUT | select.POLLWRNORM


@pytest.mark.rule(8)
def test_no_pollout_without_write_access(ksock: OpenKsock) -> None:
    assert events(ksock(mode="r")) == 0


def test_pollin_while_something_is_queued(one: Ksock) -> None:
    readable = select.POLLIN | select.POLLRDNORM
    assert events(one) & ~(select.POLLOUT | select.POLLWRNORM) == readable
    one.next_msg()
    assert events(one) & readable == readable
    one.next_msg()
    assert events(one) & readable == 0
    assert one.len_left() > 0


@pytest.mark.abi("URGENT")
def test_pollpri_while_the_next_is_urgent(one: Ksock) -> None:
    assert events(one) & select.POLLPRI == 0
    raw.send(one, raw.message(b"$.A", flags=raw.URGENT))
    assert events(one) & select.POLLPRI == select.POLLPRI
    one.next_msg()
    assert events(one) & select.POLLPRI == 0


def test_pollout_while_writing(one: Ksock) -> None:
    os.write(one.fileno(), raw.message(b"$.A")[:20])
    assert events(one) & select.POLLOUT == select.POLLOUT


@pytest.mark.parametrize("copies", [1, 2])
def test_a_sleeping_poll_is_woken_by_a_message(ksock: OpenKsock, copies: int) -> None:
    listener, sender = ksock(), ksock()
    for _ in range(copies):
        listener.bind("$.A")
    polling = Polling(listener, select.POLLIN | select.POLLPRI)
    sender.send_msg(Announcement("$.A"))
    assert polling.result() == select.POLLIN


@pytest.mark.abi("URGENT")
def test_a_poll_that_sleeps_for_pollpri_alone_is_woken(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    listener.bind("$.A")
    polling = Polling(listener, select.POLLPRI)
    sender.send_msg(Announcement("$.A"))
    raw.send(sender, raw.message(b"$.A", flags=raw.URGENT))
    assert polling.result() == select.POLLPRI


def test_epoll_tells_of_each_edge(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    listener.bind("$.A")
    with select.epoll() as epoll:
        epoll.register(listener.fileno(), select.EPOLLIN | select.EPOLLET)
        assert epoll.poll(0) == []
        for _ in range(2):
            sender.send_msg(Announcement("$.A"))
            assert epoll.poll(0) == [(listener.fileno(), select.EPOLLIN)]
            assert epoll.poll(0) == []
        assert names(listener) == ["$.A"] * 2


@pytest.mark.rule(21)
@pytest.mark.axiom("isolation")
def test_a_full_queue_is_no_reason_not_to_write(ksock: OpenKsock) -> None:
    one = ksock()
    fill(one)
    assert events(one) & select.POLLOUT == select.POLLOUT
