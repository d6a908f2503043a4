# SPDX-License-Identifier: MIT
"""How long others wait for what one client does. Ratios within a run: a machine may be emulated, and busy."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from threading import Thread

import pytest

from kbus.sbus import Client
from tests.kernel.conftest import StartChild
from tests.kernel.helpers import wait_until
from tests.sbus.bystander import Bystander
from tests.sbus.conftest import StartDaemon
from tests.sbus.running import settle
from tests.sbus.worst import WORST

pytestmark = pytest.mark.long("measures time")
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


def subscribe_and_unsubscribe(client: Client) -> None:
    """Something that is exact, so that it is bound and not bound."""
    client.subscribe("here/and/there")
    client.unsubscribe("here/and/there")


def subscribe_to_patterns(client: Client) -> None:
    """Who gets a key has to be found out anew each time."""
    client.subscribe("here/*/there")
    client.unsubscribe("here/*/there")


def publish_new_keys(client: Client) -> None:
    """Each of them once."""
    client.publish(f"at/{time.monotonic_ns()}")


@pytest.mark.parametrize("do", [subscribe_and_unsubscribe, subscribe_to_patterns, publish_new_keys])
def test_one_that_keeps_the_daemon_busy(
    daemon: StartDaemon, child: StartChild, do: Callable[[Client], None]
) -> None:
    """In a loop. A bystander's turn comes after one packet of it, so its round trip takes twice as long."""
    running = daemon()
    bystander = Bystander(running)

    def again_and_again() -> None:
        with running.client() as client:
            while True:
                do(client)

    with bystander.client:
        ratios = []
        for _ in range(_ATTEMPTS):
            idle = bystander.round_trips(100)
            busy = child(Thread(target=again_and_again, daemon=True).start)
            wait_until(lambda: running.stats()[0]["received"] > 1000, "it keeps the daemon busy")
            times = bystander.round_trips(100)
            busy.kill()
            ratios.append(percentile(times, 50) / percentile(idle, 50))
            if ratios[-1] <= 2:
                return
        raise AssertionError(ratios)
