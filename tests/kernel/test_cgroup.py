# SPDX-License-Identifier: MIT
"""A message is charged to its sender's cgroup, a queue to that of whoever opened it: rules 37 and 44.

Mounts cgroup2 for itself.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbus import Ksock
from tests.kernel import raw
from tests.kernel.cgroup import cgroup, current, enter, events, kernel_memory, new_cgroup
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import fails, packets, wait_until

__all__ = ["cgroup", "new_cgroup"]

pytestmark = [pytest.mark.rule(37, 44), pytest.mark.axiom("isolation")]

MIB = 1 << 20
PACKET = raw.message(b"$.A", bytes(MIB - 4096))
SMALL = raw.message(b"$.A")
COUNT = 3
"""So many fit into a queue."""
SLOT = 4 * struct.calcsize("P")
"""Bytes of a slot at least: its pointers, which are shorter on a processor of 32 bits."""
MCL_CURRENT = 1
LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def inside(group: Path) -> Iterator[None]:
    """This process is in the cgroup. To leave it, when it is full, takes no memory.

    Linux kills a process that has no memory for a page of its own, so all of them are there before, and none
    is still to be copied since a fork.
    """
    leave = os.open(group.parent / "cgroup.procs", os.O_WRONLY)
    assert LIBC.mlockall(MCL_CURRENT) == 0, os.strerror(ctypes.get_errno())
    enter(group)
    try:
        yield
    finally:
        os.write(leave, b"%d" % os.getpid())
        os.close(leave)
        LIBC.munlockall()


def grew(group: Path, idle: int) -> float:
    """MiB by which the cgroup has grown since `idle` was its `current`."""
    return (current(group) - idle) / MIB


def about(amount: int) -> object:
    """So many MiB, but for what the processors have in advance: 256 KiB each, which are not in use."""
    return pytest.approx(amount, abs=0.8)


def send_all(sender: Ksock) -> None:
    """Send COUNT messages of almost a MiB."""
    for _ in range(COUNT):
        raw.send(sender, PACKET)


@pytest.mark.parametrize("listeners", [1, 5])
def test_one_message_is_one_object_of_the_senders(ksock: OpenKsock, cgroup: Path, listeners: int) -> None:
    readers, sender = [ksock() for _ in range(listeners)], ksock()
    for reader in readers:
        reader.bind("$.A")
    idle = current(cgroup)
    with inside(cgroup):
        send_all(sender)
    assert grew(cgroup, idle) == about(COUNT)
    for reader in readers[:-1]:
        assert len(packets(reader)) == COUNT
    assert grew(cgroup, idle) == about(COUNT)
    assert len(packets(readers[-1])) == COUNT
    wait_until(lambda: grew(cgroup, idle) == about(0), "reading frees the memory")


@pytest.mark.axiom("lifetime")
def test_closing_frees_the_memory(ksock: OpenKsock, cgroup: Path) -> None:
    listener, sender = ksock(), ksock()
    listener.bind("$.A")
    idle = current(cgroup)
    with inside(cgroup):
        send_all(sender)
    assert grew(cgroup, idle) == about(COUNT)
    listener.close()
    wait_until(lambda: grew(cgroup, idle) == about(0), "closing frees the memory")


def test_what_is_being_written_is_the_writers(ksock: OpenKsock, cgroup: Path) -> None:
    sender = ksock()
    with inside(cgroup):
        assert os.write(sender.fileno(), PACKET) == len(PACKET)
    wait_until(lambda: kernel_memory(cgroup) >= len(PACKET), "the memory shows")
    sender.discard()
    wait_until(lambda: kernel_memory(cgroup) < len(PACKET) // 2, "DISCARD frees the memory")


@pytest.mark.rule(20)
@pytest.mark.abi("MAXMSGS")
def test_a_queue_belongs_to_who_opened_it(ksock: OpenKsock, cgroup: Path) -> None:
    """Its slots do: whoever sends to it needs no memory for them."""
    listener, sender = ksock(), ksock()
    with inside(cgroup):
        before = kernel_memory(cgroup)
        listener.set_max_messages(10_000)
    wait_until(lambda: kernel_memory(cgroup) > before + 10_000 * SLOT, "the slots show")
    listener.bind("$.A")
    full = kernel_memory(cgroup)
    for _ in range(1000):
        raw.send(sender, raw.message(b"$.A"))
    assert kernel_memory(cgroup) == pytest.approx(full, abs=MIB // 4)
    listener.close()


@pytest.mark.parametrize("size", [0, 2000, MIB - 4096], ids=["small", "longer", "large"])
def test_whose_cgroup_has_no_more_gets_enomem(ksock: OpenKsock, cgroup: Path, size: int) -> None:
    """A listener never reads: nobody is killed for that, and the listener has all that was sent."""
    listener, sender = ksock(), ksock()
    listener.set_max_messages(10_000)
    listener.bind("$.A")
    packet = raw.message(b"$.A", bytes(size))
    sent, limit = 0, 2 * MIB if size else MIB // 2
    with inside(cgroup):
        (cgroup / "memory.max").write_text(str(current(cgroup) + limit))
        with fails(errno.ENOMEM):
            for _ in range(10_000):
                raw.send(sender, packet)
                sent += 1
    assert events(cgroup)["oom_kill"] == 0
    assert (listener.num_messages(), listener.lost_messages()) == (sent, 0)
    assert sent * len(packet) * (8 if size == 0 else 3) > limit // 2
    assert len(packets(listener)) == sent


@pytest.mark.rule(14)
def test_memory_that_is_short_costs_no_serial_number(ksock: OpenKsock, cgroup: Path) -> None:
    listener, sender = ksock(), ksock()
    listener.bind("$.A")
    serial = raw.send(sender, SMALL)[1]
    with inside(cgroup):
        (cgroup / "memory.max").write_text(str(current(cgroup) + MIB // 4))
        with fails(errno.ENOMEM):
            raw.send(sender, PACKET)
    assert raw.send(sender, SMALL)[1] == serial + 1
