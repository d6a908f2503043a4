# SPDX-License-Identifier: MIT
"""Neighbours in a line for room who may go on, and get no processor: rule 46."""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress

import pytest

from kbus import Ksock
from tests.effort import DIVISOR
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import texts
from tests.kernel.processes import NOBODY, become
from tests.kernel.room import waiting

pytestmark = [pytest.mark.axiom("isolation"), pytest.mark.rule(22, 46)]

IDLERS = 20
"""Processes of the neighbour's that send, and run when nobody else would."""
SECONDS = 6
GOAL = 1 / 3
"""Of the messages that a sender sends without the neighbour, so many are sent beside it."""


def run_as_nobody(policy: int, processor: int, what: str) -> None:
    """A thread of its own for the neighbour: it sends for ever, or only keeps the processor."""

    def run() -> None:
        os.sched_setaffinity(0, {processor})
        os.sched_setscheduler(0, policy, os.sched_param(0))
        while what == "spin":
            pass
        with Ksock() as sender:
            while True:
                with suppress(OSError):
                    raw.send(sender, waiting(b"idle"))

    become(NOBODY)
    threading.Thread(target=run, daemon=True).start()


def send_for_ever() -> None:
    """In a thread of its own."""

    def run() -> None:
        os.sched_setaffinity(0, {0})
        with Ksock() as sender:
            while True:
                raw.send(sender, waiting(b"mine"))

    threading.Thread(target=run, daemon=True).start()


def sent_in_a_while(full: Ksock) -> int:
    """How many of the sender's messages a reader gets who reads all the time."""
    count, until = 0, time.monotonic() + SECONDS
    poll = select.poll()
    poll.register(full.fileno(), select.POLLIN)
    while time.monotonic() < until:
        poll.poll(1000)
        count += texts(full).count(b"mine")
    return count


@pytest.mark.skipif(DIVISOR > 1, reason="no place to measure times")
@pytest.mark.skipif(os.cpu_count() == 1, reason="takes a processor of its own")
def test_who_gets_no_processor_again_and_again(
    ksock: OpenKsock, child: StartChild, open_to_all: None
) -> None:
    """Each time that it does, it is in line again, and has its turn before the sender."""
    full = ksock()
    full.set_max_messages(1)
    full.bind("$.A")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {0})
    try:
        child(send_for_ever)
        child(lambda: run_as_nobody(os.SCHED_OTHER, 1, "spin"))
        alone = sent_in_a_while(full)
        for _ in range(IDLERS):
            child(lambda: run_as_nobody(os.SCHED_IDLE, 1, "send"))
        beside = sent_in_a_while(full)
    finally:
        os.sched_setaffinity(0, before)
    print(f"{alone / SECONDS:.0f} messages a second, and {beside / SECONDS:.0f} beside the neighbour")
    assert beside > GOAL * alone
