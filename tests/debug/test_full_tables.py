# SPDX-License-Identifier: MIT
"""BIND and SEND when a hash table must grow at once, and its memory cannot be had.

A table grows in a worker, in good time. Only if that does not come to run, an insertion has to do it. Here
the worker does not: this thread, and another while this one sleeps, keep the processor that it would run on.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import signal
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kbus import Ksock
from tests.debug import faults
from tests.debug.faults import Attempt, Call
from tests.kernel import module, raw
from tests.kernel.helpers import bindings, packets

pytestmark = pytest.mark.qemu("needs a processor that nothing else uses")

SIZE = 64
"""Entries that a new rhashtable has room for; it takes one more before it grows."""
NAME = faults.buffer(b"$.The.Last")
BIND = struct.pack("=II", 0, len(NAME))
THROTTLING = Path("/proc/sys/kernel/sched_rt_runtime_us")


class NewDevice:
    """A device with two KSocks on it, made again whenever the old one has been used."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self.is_used = True

    def renew(self) -> bool:
        """Have a device whose tables are new, if the last one has been used; whether that was so."""
        if not self.is_used:
            return False
        self.close()
        with Ksock() as asker:
            number = asker.new_device()
        self.one, self.other = (self._open.enter_context(Ksock(number)) for _ in range(2))
        for one in (self.one, self.other):
            one.set_max_messages(1000)
        self.is_used = False
        return True

    def close(self) -> None:
        """Close the KSocks."""
        self._open.close()


@pytest.fixture
def device() -> Iterator[NewDevice]:
    with module.reloaded():
        new = NewDevice()
        yield new
        new.close()


@contextmanager
def priority(pid: int, level: int) -> Iterator[None]:
    """Nothing of a lower level, or of none, takes the processor from the thread."""
    os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(level))
    try:
        yield
    finally:
        os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


@contextmanager
def keeper() -> Iterator[None]:
    """A process that has the processor while this thread sleeps, as it is forked where this one is pinned."""
    pid = os.fork()
    if pid == 0:
        while True:
            pass
    try:
        with priority(pid, 1):
            yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def thread_of_interrupts() -> int:
    """Where processor 0 does what interrupts leave to be done, if that is much."""
    names = Path("/proc").glob("[0-9]*/comm")
    return next(int(name.parent.name) for name in names if name.read_text() == "ksoftirqd/0\n")


@pytest.fixture
def processor(device: NewDevice) -> Iterator[None]:
    """Nothing but this thread, its keeper, and what has to do with interrupts, runs on processor 0."""
    limit = THROTTLING.read_text()
    before = os.sched_getaffinity(0)
    THROTTLING.write_text("-1")
    os.sched_setaffinity(0, {0})
    try:
        with priority(thread_of_interrupts(), 3), priority(0, 2), keeper():
            yield
    finally:
        os.sched_setaffinity(0, before)
        THROTTLING.write_text(limit)


def assert_growth_can_fail(table: str) -> None:
    """The memory for a larger table, or for a few entries in its place, is among what can be lacking."""
    nearly, full = (faults.counts[f"{table} {how}"].starved_refused for how in ("nearly full", "full"))
    assert full > nearly


@pytest.mark.abi("BIND")
def test_bind(processor: None, device: NewDevice) -> None:
    def prepare(count: int) -> Call:
        if device.renew():
            for number in range(count):
                device.other.bind(f"$.N{number}")
        request = BIND + struct.pack("=Q", ctypes.addressof(NAME))
        return faults.ioctl(device.one, "BIND", faults.buffer(request))

    def done(_: Attempt) -> None:
        assert bindings()[0].name == NAME.raw.decode()
        device.is_used = True

    faults.each("BIND, the table of names nearly full", lambda: prepare(SIZE - 10), done)
    faults.each("BIND, the table of names full", lambda: prepare(SIZE + 1), done)
    assert_growth_can_fail("BIND, the table of names")


@pytest.mark.rule(16)
@pytest.mark.axiom("answer")
@pytest.mark.abi("SEND")
def test_requests(processor: None, device: NewDevice) -> None:
    packet = raw.message(b"$.A", flags=raw.WANT_A_REPLY)
    expected = 0

    def prepare(count: int) -> Call:
        nonlocal expected
        if device.renew():
            device.other.bind("$.A", replier=True)
            for _ in range(count):
                raw.send(device.one, packet)
            expected = count
        assert os.write(device.one.fileno(), packet) == len(packet)
        return faults.ioctl(device.one, "SEND", faults.buffer(bytes(8)))

    def done(_: Attempt) -> None:
        # The serial of a Request that was refused is used by the next one.
        ids = [packet.id for packet in packets(device.other)]
        assert ids == [(0, serial) for serial in range(1, expected + 2)]
        device.other.close()
        assert len(packets(device.one)) == expected + 1
        device.is_used = True

    for what, count in (("nearly full", SIZE - 10), ("full", SIZE + 1)):
        faults.each(
            f"SEND, the table of Requests {what}",
            functools.partial(prepare, count),
            done,
            refused=[errno.ENOMEM],
            despite=[errno.EFAULT],
        )
    assert_growth_can_fail("SEND, the table of Requests")
