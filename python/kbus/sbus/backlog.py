# SPDX-License-Identifier: MIT
"""The packets that a client's socket would not take, in the order in which they are to go."""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Union

ORDERS = ("queue", "stack", "random")

#: length (negative, as a heap has the least first), when it came, packet
_Entry = tuple[int, int, bytes]


class Backlog:
    """A queue of packets.

    ``order`` is ``queue`` (the oldest goes first), ``stack`` (the newest) or ``random`` (the largest, which
    frees memory as fast as possible). ``count`` is how many there are, ``bytes`` the sum of their lengths.
    """

    def __init__(self) -> None:
        self.order = "queue"
        self.count = 0
        self.bytes = 0
        self._entries: Union[deque[_Entry], list[_Entry]] = deque()
        self._came = 0

    def set_order(self, order: str) -> None:
        """Let what is queued, too, go in another order."""
        by_age = sorted(self._entries, key=lambda entry: entry[1])
        self._entries = by_age if order == "random" else deque(by_age)
        if order == "random":
            heapify(by_age)
        self.order = order

    def push(self, packet: bytes) -> None:
        """Add a packet."""
        entry = (-len(packet), self._came, packet)
        self._came += 1
        self.count += 1
        self.bytes += len(packet)
        if isinstance(self._entries, deque):
            self._entries.append(entry)
        else:
            heappush(self._entries, entry)

    def first(self) -> bytes:
        """Return the packet that goes next. Raises IndexError if there is none."""
        return self._entries[-1 if self.order == "stack" else 0][2]

    def pop(self) -> bytes:
        """Take away the packet that goes next. Raises IndexError if there is none."""
        if not isinstance(self._entries, deque):
            packet = heappop(self._entries)[2]
        else:
            packet = (self._entries.pop() if self.order == "stack" else self._entries.popleft())[2]
        self.count -= 1
        self.bytes -= len(packet)
        return packet

    def clear(self) -> int:
        """Drop everything, and return how many packets that were."""
        count = self.count
        self._entries.clear()
        self.count = self.bytes = 0
        return count
