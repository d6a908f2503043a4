# SPDX-License-Identifier: MIT
"""A close that has much to do is in steps: others need not wait for all of it.

How long they wait is not looked at, as that says little on an emulated processor. Instead the test and
whoever closes share a processor, on which the test comes first. Whoever has a device's lock is not
interrupted, so that the test sees the bus between two steps of the close; of one step it only sees what was
before and after.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from kbus import Ksock
from tests.effort import reduced
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import packets
from tests.kernel.processes import Child

pytestmark = [pytest.mark.axiom("isolation"), pytest.mark.qemu("two processors")]

REQUESTS = reduced(9000)
MOST_MESSAGES = reduced(10_000)
"""What a queue takes: the answers, and messages that are sent meanwhile."""
PROBE = raw.message(b"$.Probe", bytes(3000), flags=raw.ALL_OR_FAIL)
NAP = 20e-6
"""Seconds for which the test leaves the processor to whoever closes, at least."""
ROUNDS = 20
"""How often a close may look like one step: a busy host may be late to tell that a nap is over."""


@pytest.fixture
def comes_first() -> Iterator[None]:
    """This process runs whenever it does not sleep, on a processor that its children have the rest of."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {0})
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    yield
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.sched_setaffinity(0, cpus)


def begin_close(ksock: Ksock, child: StartChild) -> Child:
    """Have another process close the KSock, which it does while this one sleeps."""
    other = child(lambda: None)
    ksock.close()
    os.kill(other.pid, signal.SIGKILL)
    return other


def has_ended(process: Child) -> bool:
    """Whether a process that was killed has closed all that it had."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def ask(asker: Ksock, replier: Ksock) -> None:
    """Send a Request, which the replier reads and does not answer."""
    raw.send(asker, raw.message(b"$.Service", flags=raw.WANT_A_REPLY))
    raw.receive(replier)


def probe(sender: Ksock) -> bool:
    """Whether there was room for one more message."""
    try:
        raw.send(sender, PROBE)
    except OSError as error:
        assert errno.errorcode[error.errno or 0] == "EBUSY"
        return False
    return True


def assert_is_seen(in_steps: Callable[[], bool]) -> None:
    """One of several closes must be seen to be in steps."""
    for _ in range(ROUNDS):
        if in_steps():
            return
    pytest.fail("it is one step each time")


@pytest.mark.rule(27, 46)
def test_requests_to_who_closes(ksock: OpenKsock, child: StartChild, comes_first: None) -> None:
    """Each is answered by a status. Others' messages are queued among these, not only before and after."""

    def close() -> bool:
        replier, asker, sender = ksock(), ksock(), ksock()
        replier.bind("$.Service", replier=True)
        asker.set_max_messages(MOST_MESSAGES)
        asker.bind("$.Probe")
        for _ in range(REQUESTS):
            ask(asker, replier)
        closing = begin_close(replier, child)
        while not has_ended(closing):
            time.sleep(NAP)
            # Room before the first one is not wanted: there may be none left when that comes.
            if asker.num_messages():
                probe(sender)
        is_status = [packet.name != b"$.Probe" for packet in packets(asker)]
        for one in (asker, sender):
            one.close()
        assert is_status.count(True) == REQUESTS
        first, last = is_status.index(True), len(is_status) - is_status[::-1].index(True)
        return False in is_status[first:last]

    assert_is_seen(close)
