# SPDX-License-Identifier: MIT
"""A neighbour closes a KSock with many unanswered Requests: in many steps, and others come in between."""

from __future__ import annotations

import os
import time
from array import array
from itertools import pairwise
from pathlib import Path

import pytest

from kbus import Ksock
from tests.effort import DIVISOR
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.module import parameter

pytestmark = [
    pytest.mark.axiom("isolation", "lifetime"),
    pytest.mark.skipif(DIVISOR > 1, reason="no place to measure times"),
    pytest.mark.skipif(os.cpu_count() == 1, reason="who closes has a processor, and who sends"),
]

REQUESTS = 20_000
"""More than a KSock may have by default, to be seen among other delays of an emulated machine."""
SENDS = 1.0
"""Seconds for which somebody else sends, in the middle of which the KSock is closed."""
GOAL = 0.4
"""Which part of the close may pass without a SEND. The whole of it is more than half if it is one step."""
ROUNDS = 12
"""How often that is measured before it is a failure: the host may stop an emulated processor at any time."""


def send_all_the_time(times: Path) -> None:
    """Send for a while, and leave in a file at what times each SEND was done."""
    sender, done = Ksock(), array("d")
    end = time.monotonic() + SENDS
    while not done or done[-1] < end:
        raw.send(sender, raw.message(b"$.Unrelated"))
        done.append(time.monotonic())
    times.write_bytes(done.tobytes())


def longest_wait(ksock: OpenKsock, times: Path) -> float:
    """Which part of the time that a close takes is the longest one in which another process sends nothing."""
    replier, asker = ksock(), ksock()
    for each in (replier, asker):
        each.set_max_messages(REQUESTS)
    replier.bind("$.Owes", replier=True)
    for _ in range(REQUESTS):
        raw.send(asker, raw.message(b"$.Owes", flags=raw.WANT_A_REPLY))
    pid = os.fork()
    if pid == 0:
        # The KSock is to be closed for good by the parent.
        asker.close()
        send_all_the_time(times)
        os._exit(0)
    time.sleep(SENDS / 2)
    began = time.monotonic()
    asker.close()
    ended = time.monotonic()
    assert os.waitpid(pid, 0)[1] == 0
    replier.close()
    done = array("d")
    done.frombytes(times.read_bytes())
    during = [began, *(each for each in done if began < each < ended), ended]
    return max(after - before for before, after in pairwise(during)) / (ended - began)


@pytest.mark.rule(27)
def test_a_close_with_many_unanswered_requests(ksock: OpenKsock, tmp_path: Path) -> None:
    measured: list[float] = []
    with parameter("max_queue_length", REQUESTS), parameter("max_user_bytes", 1 << 30):
        while not measured or min(measured) > GOAL:
            assert len(measured) < ROUNDS, measured
            measured.append(longest_wait(ksock, tmp_path / "times"))
    print(measured)
