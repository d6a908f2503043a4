# SPDX-License-Identifier: MIT
"""Whose clients are served in a turn of the loop: those of a user for some time, so that many are as one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from .peer import Peer
from .users import User

What = TypeVar("What")
#: Seconds that all clients of a user have in a turn, but for the last of them.
USER_TURN = 0.0005


class Turns:
    """Serves clients, and remembers whom it has passed over: these come first in the next turn."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._passed_over: list[Peer] = []

    def serve(self, ready: Mapping[Peer, What], serve: Callable[[Peer, What], None]) -> None:
        """Call ``serve`` for clients and what is ready at each, until their users have had their time."""
        if len(ready) < 2 and not self._passed_over:
            for peer, what in ready.items():
                serve(peer, what)
            return
        first = [peer for peer in self._passed_over if peer in ready]
        self._passed_over = []
        spent: dict[User, float] = {}
        for peer in dict.fromkeys((*first, *ready)):
            before = spent.get(peer.user, 0.0)
            if before > USER_TURN:
                self._passed_over.append(peer)
                continue
            began = self._now()
            serve(peer, ready[peer])
            spent[peer.user] = before + self._now() - began
