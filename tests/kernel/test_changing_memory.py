# SPDX-License-Identifier: MIT
"""User memory that changes during the call: it is read once, so that what has been checked is what is done.

Another process, on the other processor, keeps putting one content after the other into the memory that a call
reads. Whatever mixture of them the call meets, it must deal with as if nothing had changed. `tests/debug`
counts how often each call reads.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import mmap
import os
import re
import signal
import struct
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import pytest

from kbus import Ksock, reply_to
from tests.effort import reduced
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import bindings, ksock_stats, take, wait_until
from tests.kernel.transfer import Transfer

ROUNDS = reduced(250)
PATIENCE = 30
"""Seconds for the other process to be run at the same time, where the host has other work."""


def rounds(seen: Collection[object]) -> Iterator[None]:
    """So many times, and as many more as it takes to see two different things."""
    deadline = time.monotonic() + PATIENCE
    for count in itertools.count():
        if count >= ROUNDS and (len(seen) > 1 or time.monotonic() > deadline):
            return
        yield


class SharedMemory:
    """Memory that children share; `address` is that of its first byte."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, mmap.PAGESIZE)
        self._page = (ctypes.c_char * mmap.PAGESIZE).from_buffer(self._map)
        self.address = ctypes.addressof(self._page)

    @contextmanager
    def changing(self, *contents: bytes) -> Iterator[None]:
        """In the block, the memory begins with each of the contents in turn, all of the same length."""
        end = len(contents[0])
        self._map[:end] = contents[0]
        pid = os.fork()
        if pid == 0:
            while True:
                for content in contents:
                    self._map[:end] = content
        try:
            wait_until(lambda: self._map[:end] == contents[-1], "the memory changes")
            yield
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.fixture
def memory() -> SharedMemory:
    return SharedMemory()


Send = Callable[[Ksock, SharedMemory, int], int]


def write_and_send(ksock: Ksock, memory: SharedMemory, count: int) -> int:
    """Write the message that is in memory, and SEND it; 0 or the errno of what failed."""
    try:
        raw.write_from(ksock, memory.address, count)
        raw.msg_id(ksock, "SEND")
    except OSError as error:
        return error.errno or 0
    return 0


def transfer(ksock: Ksock, memory: SharedMemory, count: int) -> int:
    """Send the message that is in memory with TRANSFER; 0 or the errno of what failed."""
    return Transfer(bytes(count), room=0).call(ksock, {"send": memory.address}).error


ASKING = raw.WANT_A_REPLY
CONTENTS = {
    # Of the same length, name and data have other lengths.
    "lengths": (raw.message(b"$.A", bytes(16)), raw.message(b"$.ABCDE", bytes(12))),
    # Both together would be wrong.
    "flags": (raw.message(b"$.A", flags=raw.ALL_OR_WAIT), raw.message(b"$.A", flags=raw.ALL_OR_FAIL)),
    "kinds": (raw.message(b"$.A"), raw.message(b"$.A", flags=ASKING | raw.URGENT)),
    "extension": (raw.message(b"$.A", bytes(16)), raw.message(b"$.A", flags=ASKING, extended=(1, 2, 3, 4))),
    "name": (raw.message(b"$.A.B.CD"), raw.message(b"$.A.B..*")),
    "name of KBUS": (raw.message(b"$.KBUS.CD"), raw.message(b"$.KBOX.CD")),
    "padding": (raw.message(b"$.A.B"), raw.message(b"$.A.B", padding=b"abc")),
    "guards": (raw.message(b"$.A"), raw.message(b"$.A", start=1, end=2)),
}


@pytest.mark.rule(13, 15, 17, 24, 25)
@pytest.mark.axiom("answer")
@pytest.mark.abi("SEND", "TRANSFER")
@pytest.mark.parametrize("send", [write_and_send, transfer])
@pytest.mark.parametrize("what", CONTENTS)
def test_messages(ksock: OpenKsock, memory: SharedMemory, what: str, send: Send) -> None:
    first, second = CONTENTS[what]
    assert len(first) == len(second)
    sender, everybody, replier = ksock(), ksock(), ksock()
    everybody.bind("$.*")
    replier.bind("$.*", replier=True)
    seen: set[bytes] = set()
    with memory.changing(first, second):
        for _ in rounds(seen):
            error = send(sender, memory, len(first))
            received = raw.receive(everybody)
            assert bool(received) == (error == 0)
            seen.add(received[28:])
            assert error in (0, errno.EINVAL, errno.EMSGSIZE, errno.EBADMSG, errno.EACCES)
            if not received:
                continue
            message = raw.parse(received)
            assert len(received) == len(first)
            assert message.flags & (raw.ALL_OR_WAIT | raw.ALL_OR_FAIL) != raw.ALL_OR_WAIT | raw.ALL_OR_FAIL
            assert b"*" not in message.name
            assert not message.name.startswith(b"$.KBUS")
            assert ksock_stats(sender)["awaiting"] == bool(message.flags & ASKING)
            assert replier.num_messages() == bool(message.flags & ASKING)
            if message.flags & ASKING:
                replier.send_msg(reply_to(take(replier)))
                assert take(sender).is_reply()
                assert take(everybody).is_reply()
    # Both contents have been met, or the test would show nothing.
    assert len(seen) > 1


@pytest.mark.rule(8, 11)
@pytest.mark.abi("BIND")
@pytest.mark.parametrize("mode", ["r", "rw"])
def test_bind_requests(ksock: OpenKsock, memory: SharedMemory, mode: str) -> None:
    one = ksock(mode=mode)
    name = memory.address + 16
    first = struct.pack("=IIQ", 0, 3, name) + b"$.A.B"
    second = struct.pack("=IIQ", 1, 5, name) + b"$.C%%"
    outcomes: set[object] = set()
    with memory.changing(first, second):
        for _ in rounds(outcomes):
            try:
                raw.ioctl_at(one, "BIND", memory.address)
            except OSError as error:
                assert error.errno in (errno.EBADMSG, errno.EBADF)
                assert bindings() == []
                outcomes.add(error.errno)
                continue
            (binding,) = bindings()
            # The name may be a mixture too.
            assert re.fullmatch(r"\$\.[AC](\.[B%])?", binding.name)
            assert binding.kind == "L" or mode == "rw"
            one.unbind(binding.name, binding.kind == "R")
            outcomes.add(binding.name)
    assert len(outcomes) > 1


@pytest.mark.rule(12)
@pytest.mark.abi("REPLIER", "RESOLVE")
@pytest.mark.parametrize("which", ["REPLIER", "RESOLVE"])
def test_queries(ksock: OpenKsock, memory: SharedMemory, which: str) -> None:
    one = ksock()
    one.bind("$.A", replier=True)
    name = memory.address + 16
    # Only the length and the name change: the answer goes where ksock_id is.
    first, second = (struct.pack("=IQ", size, name) + text for size, text in ((3, b"$.A.B"), (5, b"$.B..")))
    outcomes: set[int] = set()
    with memory.changing(bytes(4) + first, bytes(4) + second):
        for _ in rounds(outcomes):
            try:
                outcomes.add(raw.ioctl_at(one, which, memory.address))
            except OSError as error:
                assert error.errno == errno.EBADMSG
                outcomes.add(-errno.EBADMSG)
    assert len(outcomes) > 1
