# SPDX-License-Identifier: MIT
"""Neighbours in a line for room who may go on, and get no processor: rule 46."""

from __future__ import annotations

import os
import select
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from pathlib import Path

import pytest

from kbus import Ksock
from tests.effort import DIVISOR
from tests.kernel import raw
from tests.kernel.cgroup import enter
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import fill, take
from tests.kernel.processes import NOBODY, become, blocked_send, processor_1_taken, workers_share
from tests.kernel.room import waiting

pytestmark = [pytest.mark.axiom("isolation"), pytest.mark.rule(22, 46)]

IDLERS = 20
"""Processes of the neighbour's that send, and run when nobody else would."""
SECONDS = 6
PERIOD = 10_000
"""Microseconds, less than after which a turn is lost."""
READ = 0.01
"""Seconds that the reader does something else, so that all of them are in line."""
QUEUES, WATCHED = 300, 1.4
"""Queues in each of which a turn was lost, and for how many seconds the kernel's workers are watched then."""
TURN_IS_LOST = 0.5
"""Seconds, after which both of its turns are."""
GOAL = 1 / 3
"""Of the messages that a sender sends without the neighbour, so many are sent beside it."""
LATE_GOAL = 0.55
"""The same, beside one who uses each turn before it is lost."""
MOMENT, MOMENTS, FAIR_SHARE = 0.25, 24, 0.75
"""In each of so many moments of so many seconds one sender sends this share of what another one does."""
PATIENCE, REMEMBERED, TURN = 0.1, 9, 0.001
"""Or its turns took so many seconds in this and so many moments before, but for so much of each."""


def run_as_nobody(policy: int, processor: int, what: str) -> None:
    """A thread of its own for the neighbour: it sends `what` for ever, or spins if that is "spin"."""

    def run() -> None:
        os.sched_setaffinity(0, {processor})
        os.sched_setscheduler(0, policy, os.sched_param(0))
        while what == "spin":
            pass
        with Ksock() as sender:
            while True:
                with suppress(OSError):
                    raw.send(sender, waiting(what.encode()))

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


def read_for_a_while(full: Ksock, seconds: float, pause: float = 0) -> tuple[Counter[bytes], float]:
    """Read all the time, but for a pause after each message.

    Returns how many messages of each sender there were, and by how many seconds they were late.
    """
    counts, late, until = Counter[bytes](), 0.0, time.monotonic() + seconds
    poll = select.poll()
    poll.register(full.fileno(), select.POLLIN)
    while (start := time.monotonic()) < until:
        message = full.read_next_msg()
        poll.poll(1000)
        late += max(time.monotonic() - start - TURN, 0)
        if message is not None:
            counts[message.data or b""] += 1
        time.sleep(pause)
    return counts, late


def sent_in_a_while(full: Ksock, pause: float = 0) -> int:
    """How many of the sender's messages a reader gets."""
    return read_for_a_while(full, SECONDS, pause)[0][b"mine"]


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
            child(lambda: run_as_nobody(os.SCHED_IDLE, 1, "idle"))
        beside = sent_in_a_while(full)
    finally:
        os.sched_setaffinity(0, before)
    print(f"{alone / SECONDS:.0f} messages a second, and {beside / SECONDS:.0f} beside the neighbour")
    assert beside > GOAL * alone


@pytest.mark.skipif(DIVISOR > 1, reason="no place to measure times")
@pytest.mark.skipif(os.cpu_count() == 1, reason="takes a processor of its own")
def test_who_uses_each_turn_just_before_it_is_lost(
    ksock: OpenKsock, child: StartChild, open_to_all: None, cpu_max: Path
) -> None:
    """A neighbour in a cgroup that may run for a millisecond every 80, and spins."""
    full = ksock()
    full.set_max_messages(1)
    full.bind("$.A")
    child(send_for_ever)
    alone = sent_in_a_while(full, READ)

    def late(what: str) -> None:
        enter(cpu_max.parent)
        run_as_nobody(os.SCHED_OTHER, 1, what)

    neighbours = [child(lambda: late("idle")) for _ in range(IDLERS)]
    neighbours.append(child(lambda: late("spin")))
    cpu_max.write_text(f"1000 {PERIOD}")
    beside = sent_in_a_while(full, READ)
    print(f"{alone / SECONDS:.0f} messages a second, and {beside / SECONDS:.0f} beside the neighbour")
    cpu_max.write_text(f"max {PERIOD}")
    for neighbour in neighbours:
        neighbour.kill()
    assert beside > LATE_GOAL * alone


@pytest.mark.skipif(DIVISOR > 1, reason="no place to measure times")
@pytest.mark.skipif(os.cpu_count() == 1, reason="takes a processor of its own")
def test_two_who_always_send_are_not_late(ksock: OpenKsock, child: StartChild, open_to_all: None) -> None:
    """One of them has its turn at any time, but each for a moment only: both send as much.

    On a machine with much else to do they are late indeed, and may be held back for that.
    """
    full = ksock()
    full.set_max_messages(1)
    full.bind("$.A")
    child(send_for_ever)
    child(lambda: run_as_nobody(os.SCHED_OTHER, 1, "also"))
    late = deque[float](maxlen=1 + REMEMBERED)
    for _ in range(MOMENTS):
        sent, late_now = read_for_a_while(full, MOMENT)
        late.append(late_now)
        least, most = sorted((sent[b"mine"], sent[b"also"]))
        print(f"{least} and {most} messages in a moment, {sum(late):.3f} s late")
        assert least > FAIR_SHARE * most or sum(late) > PATIENCE


@pytest.mark.skipif(DIVISOR > 1, reason="no place to measure times")
@pytest.mark.skipif(os.cpu_count() == 1, reason="takes a processor of its own")
def test_whose_turns_are_lost_keeps_no_worker_busy(ksock: OpenKsock) -> None:
    """It is remembered for two seconds in many queues, which is nobody's time."""
    queues = [ksock() for _ in range(QUEUES)]
    sending = []
    for number, full in enumerate(queues):
        fill(full, f"$.Full.{number}")
        packet = raw.message(b"$.Full.%d" % number, flags=raw.ALL_OR_WAIT)
        sending.append(blocked_send(ksock(), packet))
        os.sched_setaffinity(sending[-1].thread_id, {1})
    with processor_1_taken():
        for full in queues:
            take(full)
        time.sleep(TURN_IS_LOST)
        share = workers_share(WATCHED)
        assert not any(one.done for one in sending)
    print(f"the workers take {share:.3f} of a processor")
    for one in sending:
        one.result()
    assert share < 0.03
