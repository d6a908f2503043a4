# SPDX-License-Identifier: MIT
"""How long others wait for what one client does. Ratios within a run: a machine may be emulated, and busy."""

from __future__ import annotations

import itertools

import pytest

from tests.sbus.bystander import Bystander
from tests.sbus.conftest import StartDaemon
from tests.sbus.running import settle
from tests.sbus.worst import WORST

_ATTEMPTS = 3
"""Something else may run on the machine for as long as an attempt takes."""


def percentile(times: list[float], percent: int) -> float:
    """Of times in order."""
    return times[len(times) * percent // 100]


@pytest.mark.parametrize("what", ["both ways", "all of them match", "beside other bytes"])
def test_the_worst_patterns_of_others(daemon: StartDaemon, what: str) -> None:
    """While somebody publishes new keys, they make a bystander's round trip at most 1.5 times as long."""
    running = daemon()
    bystander = Bystander(running)
    numbers = itertools.count()
    with bystander.client, running.client() as publisher:

        def publish() -> None:
            publisher.publish(WORST[what].key + b"%d" % next(numbers))

        ratios = []
        for _ in range(_ATTEMPTS):
            idle = bystander.round_trips(200, publish)
            with running.client() as hostile:
                hostile.control("blocking/soft/discard")
                for pattern in WORST[what].patterns:
                    hostile.subscribe(pattern)
                settle(hostile)
                bystander.round_trips(5, publish)
                busy = bystander.round_trips(200, publish)
            ratios.append(percentile(busy, 99) / percentile(idle, 99))
            if ratios[-1] <= 1.5:
                return
        raise AssertionError(ratios)
