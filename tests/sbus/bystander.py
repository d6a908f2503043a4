# SPDX-License-Identifier: MIT
"""A client that notices whether others get in its way."""

from __future__ import annotations

from tests.sbus.running import Daemon, receive, settle


class Bystander:
    """A client that goes on sending to itself."""

    def __init__(self, running: Daemon) -> None:
        self.client = running.client()
        self.client.subscribe("bystander")
        settle(self.client)

    def is_served(self, count: int = 5) -> None:
        """It gets its own messages, however long that takes."""
        for number in range(count):
            self.client.publish("bystander", b"%d" % number)
            assert receive(self.client, 1) == [(b"bystander", b"%d" % number)]
