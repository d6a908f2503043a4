# SPDX-License-Identifier: MIT
"""What others do in the middle of a call: where the kernel is preempted, a task of higher priority gets in.

All are on one processor. There a task of no priority runs only while the others sleep. So it is known who
waits when it makes a call, and who runs as soon as that has woken somebody.
"""

from __future__ import annotations

import os
import random
import select
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from kbus import Ksock
from tests.effort import reduced
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import PATIENCE
from tests.kernel.transfer import NEVER, Transfer

A = raw.message(b"$.A")
ROUNDS = 20
TRIES = reduced(6000)
"""Of what is decided by where a timer comes."""

pytestmark = pytest.mark.axiom("lifetime")


@pytest.fixture(autouse=True)
def _one_processor() -> Iterator[None]:
    """For the test, and what it starts."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


def at_priority(priority: int, work: Callable[[], None]) -> Callable[[], None]:
    """What a child does: `work`, in a thread that goes before those of lower priority."""

    def run() -> None:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
        work()

    return lambda: threading.Thread(target=run, daemon=True).start()


def come(pipe: int) -> None:
    """Wait until somebody writes."""
    ready, _, _ = select.select([pipe], [], [], PATIENCE)
    assert ready, "somebody sleeps for ever"
    os.read(pipe, 1)


@pytest.mark.rule(41, 45)
def test_who_is_being_woken_can_be_woken_again(child: StartChild, ksock: OpenKsock) -> None:
    """The reader reads, and sleeps again, and another message comes before SEND has woken it altogether."""
    listener, second = ksock(), ksock()
    listener.bind("$.A")
    (one_read, tell_one), (two_read, tell_two) = os.pipe(), os.pipe()

    def read() -> None:
        for tell in (tell_one, tell_two) * ROUNDS:
            Transfer(deadline=NEVER, receive_max=1).call(listener)
            os.write(tell, b"+")

    def send() -> None:
        while os.read(one_read, 1):
            raw.send(second, A)

    child(at_priority(2, read))
    child(at_priority(1, send))
    for _ in range(ROUNDS):
        raw.send(ksock(), A)
        come(two_read)


@pytest.mark.rule(45)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_who_is_about_to_be_woken_may_close(
    child: StartChild, ksock: OpenKsock, order: tuple[int, int]
) -> None:
    """It does as soon as SEND has woken the one before."""
    closed, tell = os.pipe()
    sender = ksock()

    def close() -> None:
        while True:
            both = [Ksock() for _ in order]
            for which in order:
                both[which].bind("$.A")
            with select.epoll() as epoll:
                epoll.register(both[1].fileno(), select.EPOLLIN)
                Transfer(deadline=NEVER, receive_max=1).call(both[0])
                both[1].close()
            both[0].close()
            os.write(tell, b"+")

    child(at_priority(1, close))
    for _ in range(ROUNDS):
        raw.send(sender, A)
        come(closed)


@pytest.mark.abi("REPLIER")
def test_a_replier_may_close_while_somebody_asks_for_it(child: StartChild, ksock: OpenKsock) -> None:
    done, tell = os.pipe()

    def come_and_go() -> None:
        for _ in range(TRIES):
            with Ksock() as replier:
                replier.bind("$.A", replier=True)
                time.sleep(random.uniform(0, 0.001))
        os.write(tell, b"+")

    child(at_priority(1, come_and_go))
    asker = ksock()
    while not select.select([done], [], [], 0)[0]:
        for _ in range(100):
            asker.find_replier("$.A")
