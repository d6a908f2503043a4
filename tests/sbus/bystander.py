# SPDX-License-Identifier: MIT
"""A client that notices whether others get in its way."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.sbus.running import Daemon, receive, settle


class Bystander:
    """A client that goes on sending to itself, and knows how long that takes."""

    def __init__(self, running: Daemon) -> None:
        self.client = running.client()
        self.client.subscribe("bystander")
        settle(self.client)

    def round_trips(self, count: int = 200, before_each: Callable[[], None] = lambda: None) -> list[float]:
        """Seconds that each takes, the quickest first."""
        times = []
        for number in range(count):
            before_each()
            began = time.monotonic()
            self.client.publish("bystander", b"%d" % number)
            assert receive(self.client, 1) == [(b"bystander", b"%d" % number)]
            times.append(time.monotonic() - began)
        return sorted(times)

    def is_served(self) -> None:
        """It gets its own messages, however long that takes."""
        self.round_trips(5)
