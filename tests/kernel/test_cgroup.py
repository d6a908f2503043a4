# SPDX-License-Identifier: MIT
"""Memory is charged to the cgroup of whoever causes it: rule 37. Mounts cgroup2 for itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbus import Ksock
from tests.kernel import raw
from tests.kernel.cgroup import cgroup, kernel_memory
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import packets, wait_until

__all__ = ["cgroup"]

pytestmark = pytest.mark.rule(37)

PACKET = raw.message(b"$.A", bytes(1_000_000))
COUNT = 8
SMALLER = raw.message(b"$.A", bytes(250_000))
"""No more pages than a processor keeps for the next message."""


@pytest.mark.axiom("isolation")
def test_messages_are_charged_to_their_sender(ksock: OpenKsock, cgroup: Path, child: StartChild) -> None:
    listener = ksock()
    listener.bind("$.A")

    def send() -> Ksock:
        (cgroup / "cgroup.procs").write_text(str(os.getpid()))
        sender = Ksock()
        for _ in range(COUNT):
            raw.send(sender, PACKET)
        return sender

    child(send)
    wait_until(lambda: kernel_memory(cgroup) >= COUNT * len(PACKET), "the memory shows")
    assert len(packets(listener)) == COUNT
    wait_until(lambda: kernel_memory(cgroup) < len(PACKET), "reading frees the memory")


@pytest.mark.axiom("isolation")
def test_memory_that_is_used_again_is_charged_to_whoever_has_it(cgroup: Path, child: StartChild) -> None:
    count = 40

    def take_turns() -> Ksock:
        """In the root cgroup a message is read, which leaves memory; in the other one it stays queued."""
        os.sched_setaffinity(0, {0})
        reader, hoarder = Ksock(), Ksock()
        reader.bind("$.Read")
        hoarder.bind("$.A")
        for _ in range(count):
            (cgroup.parent / "cgroup.procs").write_text(str(os.getpid()))
            raw.send(reader, raw.message(b"$.Read", bytes(250_000)))
            assert len(packets(reader)) == 1
            (cgroup / "cgroup.procs").write_text(str(os.getpid()))
            raw.send(reader, SMALLER)
        return hoarder

    child(take_turns)
    wait_until(lambda: kernel_memory(cgroup) >= count * len(SMALLER), "all of it is charged")
