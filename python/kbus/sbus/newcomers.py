# SPDX-License-Identifier: MIT
"""Accepted connections that nothing has been made for yet: users take turns, so that none fills the line."""

from __future__ import annotations

import array
import fcntl
import select
import socket
import termios
from collections import deque
from typing import Generic, Optional, TypeVar

Item = TypeVar("Item")


class Newcomers(Generic[Item]):
    """A queue for each user, by uid; ``take`` goes round the users."""

    def __init__(self) -> None:
        #: in the order in which users have their turn
        self._queues: dict[int, deque[Item]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, uid: int, item: Item) -> None:
        """Put one behind those of the same user."""
        self._queues.setdefault(uid, deque()).append(item)
        self._count += 1

    def take(self) -> Optional[Item]:
        """Return the oldest of the user whose turn it is, None if nobody waits."""
        uid = next(iter(self._queues), None)
        if uid is None:
            return None
        # Whoever has more goes to the end of the round.
        queue = self._queues.pop(uid)
        item = queue.popleft()
        if queue:
            self._queues[uid] = queue
        self._count -= 1
        return item


def has_left(connected: socket.socket) -> bool:
    """Return whether the other end is closed and nothing is to be read but, at most, empty packets."""
    poll = select.poll()
    poll.register(connected, 0)
    if not poll.poll(0):
        return False
    length = array.array("i", [0])
    fcntl.ioctl(connected, termios.FIONREAD, length)
    return not length[0]
