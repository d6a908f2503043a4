# SPDX-License-Identifier: MIT
"""The packets that a client's socket would not take, in the order in which they are to go."""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Optional, Union

from .limits import PACKET_COST

ORDERS = ("queue", "stack", "random")

#: length (negative, as a heap has the least first), when it came, packet
_Entry = tuple[int, int, bytes]


def memory(packet: bytes) -> int:
    """Return how many bytes of memory a packet counts as while it is queued."""
    return len(packet) + PACKET_COST


class Backlog:
    """A queue of packets.

    ``order`` is ``queue`` (the oldest goes first), ``stack`` (the newest) or ``random`` (the largest, which
    frees memory as fast as possible); a change of it is for what is queued, too. ``count`` is how many there
    are, ``bytes`` the memory that they take.
    """

    def __init__(self) -> None:
        self.order = "queue"
        self.count = 0
        self.bytes = 0
        self._entries: Union[deque[_Entry], list[_Entry]] = deque()
        #: whether they are a heap; if not, they are in the order in which they came; None if they are neither
        self._is_heap: Optional[bool] = False
        self._came = 0

    def push(self, packet: bytes) -> None:
        """Add a packet."""
        entry = (-len(packet), self._came, packet)
        self._came += 1
        self.count += 1
        self.bytes += memory(packet)
        if self._is_heap and self.order == "random":
            heappush(self._entries, entry)  # type: ignore[arg-type]
        else:
            self._entries.append(entry)
            if self._is_heap:
                self._is_heap = None

    def _arrange(self) -> None:
        """Follow a change of the order. Only when a packet goes: a client may change it all the time."""
        is_random = self.order == "random"
        if self._is_heap is is_random:
            return
        by_age = sorted(self._entries, key=lambda entry: entry[1])
        self._entries = by_age if is_random else deque(by_age)
        if is_random:
            heapify(by_age)
        self._is_heap = is_random

    def first(self) -> bytes:
        """Return the packet that goes next. Raises IndexError if there is none."""
        self._arrange()
        return self._entries[-1 if self.order == "stack" else 0][2]

    def pop(self) -> bytes:
        """Take away the packet that goes next. Raises IndexError if there is none."""
        self._arrange()
        if not isinstance(self._entries, deque):
            packet = heappop(self._entries)[2]
        else:
            packet = (self._entries.pop() if self.order == "stack" else self._entries.popleft())[2]
        self.count -= 1
        self.bytes -= memory(packet)
        return packet

    def clear(self) -> int:
        """Drop everything, and return how many packets that were."""
        count = self.count
        self._entries.clear()
        self.count = self.bytes = 0
        return count
