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
