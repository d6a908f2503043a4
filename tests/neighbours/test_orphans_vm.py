# SPDX-License-Identifier: MIT
"""A neighbour that closes a KSock with many unanswered Requests."""

from __future__ import annotations

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
COUNT = 10_000
"""Messages that are sent while it closes."""
GOAL = 3000
"""Microseconds that the worst SEND of a round may take. A close in one step takes 12 ms, in each round."""
ROUNDS = 12
"""How often that is measured before it is a failure: the host may stop an emulated processor for longer."""


@pytest.mark.rule(27)
def test_a_close_with_many_unanswered_requests(open_to_all: None, neighbour: StartNeighbour) -> None:
    """If a close were one step, a SEND would wait for the whole of it in each round."""
    queue, bytes = parameter("max_queue_length", REQUESTS), parameter("max_user_bytes", 1 << 30)
    measured: list[float] = []
    with queue, bytes, Stopwatch(is_first=True) as stopwatch:
        while not measured or min(measured) > GOAL:
            assert len(measured) < ROUNDS, measured
            # The answers are still owed after the close of who asked.
            with neighbour(f"open 1 queue {REQUESTS} serve $.Own done pause", uid=NOBODY - 1):
                asker = neighbour(f"open 1 queue {REQUESTS} flood $.Own 0 REQUEST done pause")
                stopwatch.begin("send", COUNT, 0)
                asker.kill()
                measured.append(stopwatch.end().max)
    print(measured)
