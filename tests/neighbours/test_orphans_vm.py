# SPDX-License-Identifier: MIT
"""A neighbour that closes a KSock with many unanswered Requests."""

from __future__ import annotations

from statistics import median

import pytest

from tests.effort import DIVISOR
from tests.kernel.module import parameter
from tests.kernel.processes import NOBODY
from tests.neighbours.neighbour import StartNeighbour
from tests.neighbours.stopwatch import Stopwatch

pytestmark = [
    pytest.mark.axiom("isolation", "lifetime"),
    pytest.mark.skipif(DIVISOR > 1, reason="no place to measure times"),
]

REQUESTS = 100_000
"""Ten times as many as a KSock may have by default, to be seen among other delays of an emulated machine."""
ROUNDS, COUNT = 6, 10_000
"""Closes, and messages that are sent meanwhile."""
GOAL = 3000
"""Microseconds that the worst SEND of a round may take, by the median. Such a close in one step took 12 ms."""
ATTEMPTS = 2
"""How often that is measured before it is a failure."""


@pytest.mark.rule(27)
def test_a_close_with_many_unanswered_requests(open_to_all: None, neighbour: StartNeighbour) -> None:
    """If a close were one step, a SEND would wait for the whole of it in each round."""
    queue, bytes = parameter("max_queue_length", REQUESTS), parameter("max_user_bytes", 1 << 30)
    with queue, bytes, Stopwatch(is_first=True) as stopwatch:
        for _ in range(ATTEMPTS):
            measured = worst(stopwatch, neighbour)
            print(f"worst SEND, in us: {measured}")
            if median(measured) <= GOAL:
                return
    pytest.fail(f"worst SEND, in us: {measured}")


def worst(stopwatch: Stopwatch, neighbour: StartNeighbour) -> list[float]:
    """The worst SEND while a KSock with Requests closes, in each round."""
    times = []
    for _ in range(ROUNDS):
        # The answers are still owed after the close of who asked.
        with neighbour(f"open 1 queue {REQUESTS} serve $.Own done pause", uid=NOBODY - 1):
            asker = neighbour(f"open 1 queue {REQUESTS} flood $.Own 0 REQUEST done pause")
            stopwatch.begin("send", COUNT, 0)
            asker.kill()
            times.append(stopwatch.end().max)
    return times
