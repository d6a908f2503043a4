# SPDX-License-Identifier: MIT
"""open, write, read, poll, epoll, fork and /proc/kbus, with each allocation and copy failing in turn."""

from __future__ import annotations

import errno
import os
import select
import struct

import pytest

from tests.debug import faults
from tests.debug.faults import Attempt, Call
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import PROC, device_stats, ksock_stats

LARGE = raw.message(b"$.A", bytes(range(256)) * 200)
"""Over several pages."""
SMALL = raw.message(b"$.A", bytes(range(100)))
AT_FDCWD = -100


def openat(path: str, flags: int) -> Call:
    return Call(faults.OPENAT, AT_FDCWD, faults.buffer(os.fsencode(path) + b"\0"), flags | os.O_CLOEXEC)


@pytest.mark.rule(39)
def test_open() -> None:
    def done(attempt: Attempt) -> None:
        assert device_stats()["ksocks"] == 1
        os.close(attempt.result)
        assert device_stats()["ksocks"] == 0

    faults.each("open", lambda: openat("/dev/kbus0", os.O_RDWR), done)


@pytest.mark.rule(13)
@pytest.mark.parametrize(("what", "packet"), [("small", SMALL), ("of many pages", LARGE)])
def test_write(ksock: OpenKsock, what: str, packet: bytes) -> None:
    one = ksock()
    one.bind("$.A")
    content = faults.buffer(packet)

    def done(attempt: Attempt) -> None:
        assert attempt.result == len(packet)
        one.send()
        assert raw.receive(one)[32:] == packet[32:]

    faults.each(f"write, {what}", lambda: Call(faults.WRITE, one.fileno(), content, len(packet)), done)


@pytest.mark.rule(13)
@pytest.mark.parametrize("split", [20, 40, 44, len(LARGE) - 5000])
def test_write_in_pieces(ksock: OpenKsock, split: int) -> None:
    one = ksock()
    one.bind("$.A")
    rest = faults.buffer(LARGE[split:])
    begun: list[int] = []

    def prepare() -> Call:
        # What was refused can be written again, so the beginning must still be there.
        if not begun:
            begun.append(os.write(one.fileno(), LARGE[:split]))
        return Call(faults.WRITE, one.fileno(), rest, len(rest))

    def done(attempt: Attempt) -> None:
        assert attempt.result == len(rest)
        begun.clear()
        one.send()
        assert raw.receive(one)[32:] == LARGE[32:]

    faults.each(f"write, the rest after {split} bytes", prepare, done)


@pytest.mark.rule(30)
@pytest.mark.parametrize(("what", "packet"), [("small", SMALL), ("of many pages", LARGE)])
def test_read(ksock: OpenKsock, what: str, packet: bytes) -> None:
    one = ksock()
    one.bind("$.A")
    content = faults.buffer(bytes(len(packet)))
    popped: list[int] = []

    def prepare() -> Call:
        if not popped:
            raw.send(one, packet)
            popped.append(one.next_msg())
        faults.store(content, bytes(len(packet)))
        return Call(faults.READ, one.fileno(), content, len(packet))

    def done(attempt: Attempt) -> None:
        popped.clear()
        # Where a copy fails after others, what was copied is given, and the rest is still there.
        rest = os.read(one.fileno(), len(packet))
        assert len(rest) == len(packet) - attempt.result
        assert (content.raw[: attempt.result] + rest)[32:] == packet[32:]

    faults.each(f"read, {what}", prepare, done)


@pytest.mark.rule(30)
def test_poll(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind("$.A")
    raw.send(one, SMALL)
    count = 64
    asked = struct.pack("=ihh", one.fileno(), select.POLLIN | select.POLLPRI, 0) * count
    content = faults.buffer(asked)

    def prepare() -> Call:
        faults.store(content, asked)
        return Call(faults.POLL, content, count, 0)

    def done(attempt: Attempt) -> None:
        assert attempt.result == count
        assert {pollfd[2] for pollfd in struct.iter_unpack("=ihh", content.raw)} == {select.POLLIN}

    faults.each("poll, of 64 at once", prepare, done)


@pytest.mark.rule(30)
def test_epoll(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind("$.A")
    event = faults.buffer(struct.pack("=IQ", select.EPOLLIN, 0))
    add = 1
    with select.epoll() as epoll:

        def done(_: Attempt) -> None:
            assert epoll.poll(0) == []
            raw.send(one, SMALL)
            assert [mask for _, mask in epoll.poll(0)] == [select.EPOLLIN]
            one.next_msg()
            epoll.unregister(one)

        faults.each(
            "epoll_ctl", lambda: Call(faults.EPOLL_CTL, epoll.fileno(), add, one.fileno(), event), done
        )


@pytest.mark.rule(31)
@pytest.mark.axiom("lifetime")
def test_fork(ksock: OpenKsock) -> None:
    one, sender = ksock(), ksock()
    one.bind("$.A", replier=True)
    raw.send(sender, raw.message(b"$.A", flags=raw.WANT_A_REPLY))

    def done(attempt: Attempt) -> None:
        os.waitpid(attempt.result, 0)
        # Neither a fork that failed, nor a child that has gone, closes what the parent has open.
        assert ksock_stats(one)["owed"] == 1

    faults.each("vfork", lambda: Call(faults.VFORK), done, refused=[errno.ENOMEM, errno.EAGAIN], starve=False)


@pytest.mark.rule(35)
@pytest.mark.parametrize("file", ["stats", "bindings"])
def test_proc(ksock: OpenKsock, file: str) -> None:
    for name in ("$.A", "$.B"):
        ksock().bind(name)
    path = str(PROC / file)
    text = (PROC / file).read_bytes()
    content = faults.buffer(bytes(4096))

    def opened(attempt: Attempt) -> None:
        assert os.read(attempt.result, 4096) == text
        os.close(attempt.result)

    faults.each(f"open of /proc/kbus/{file}", lambda: openat(path, os.O_RDONLY), opened)
    fds: list[int] = []

    def prepare() -> Call:
        if not fds:
            fds.append(os.open(path, os.O_RDONLY))
        return Call(faults.READ, fds[0], content, 4096)

    def read(attempt: Attempt) -> None:
        assert content.raw[: attempt.result] == text
        os.close(fds.pop())

    faults.each(f"read of /proc/kbus/{file}", prepare, read)
    assert (PROC / file).read_bytes() == text
