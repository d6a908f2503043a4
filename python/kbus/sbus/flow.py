# SPDX-License-Identifier: MIT
"""Flood control: what a client has asked for, what follows from it for one packet, and the queue of a client.

Each client has two sides. As a subscriber it says what happens to a packet that its socket would not take
(``soft``) and to one that its queue has no room for (``hard``). As a publisher it says by ``block``, and only
by that, that it would rather wait than have that happen. No client waits that has not said so. Source: the
bridge's specification, 'Flood control'.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Optional

from .limits import PACKET_COST

QUEUE, DISCARD, BLOCK, ERROR = "queue", "discard", "block", "error"
SOFT = (QUEUE, DISCARD, BLOCK, ERROR)
HARD = (DISCARD, BLOCK, ERROR)
ORDERS = ("queue", "stack", "random")

#: what goes first is the least of these: what the order says, when it came, packet
_Entry = tuple[int, int, bytes]


@dataclass
class FlowSettings:
    """What a client has asked for last; the defaults are for one that has not asked.

    ``order`` is one of ``ORDERS``; with ``echo`` it receives its own messages.
    """

    soft: str = QUEUE
    hard: str = DISCARD
    order: str = "queue"
    echo: bool = True

    def apply(self, key: bytes) -> bool:
        """Do what a control message with this key asks for. Returns False if it is none of flood control."""
        setting = CONTROLS.get(key)
        if setting is None:
            return False
        setattr(self, *setting)
        return True

    @property
    def is_plain(self) -> bool:
        """Whether it makes no difference that this client has published a message."""
        return self.echo and BLOCK not in (self.soft, self.hard)


CONTROLS: dict[bytes, tuple[str, object]] = {
    **{f"blocking/soft/{mode}".encode(): ("soft", mode) for mode in SOFT},
    **{f"blocking/hard/{mode}".encode(): ("hard", mode) for mode in HARD},
    **{f"order/{order}".encode(): ("order", order) for order in ORDERS},
    b"echo/off": ("echo", False),
    b"echo/on": ("echo", True),
}


def outcome(subscriber: FlowSettings, publisher: Optional[FlowSettings], is_full: bool) -> str:
    """Return what becomes of a packet that the subscriber's socket would not take.

    ``is_full`` says whether its queue has no room. ``publisher`` is None for a KBUS program and for a client
    that has not asked to be blocked. The result is QUEUE, DISCARD or ERROR (disconnect the subscriber), or
    BLOCK: read nothing more from the publisher until there is room, and queue it, over the limit if that is
    not by too much; otherwise do with it what is done if the publisher has not asked.
    """
    if subscriber.soft in (DISCARD, ERROR):
        return subscriber.soft
    if publisher is not None and (
        publisher.soft == BLOCK or (is_full and publisher.hard == BLOCK and subscriber.hard != ERROR)
    ):
        return BLOCK
    if not is_full:
        return QUEUE
    return ERROR if subscriber.hard == ERROR else DISCARD


def is_room(publisher: FlowSettings, used: float) -> bool:
    """Return whether a publisher that waits may go on; ``used`` of the queue is in use, 0 nothing, 1 all."""
    return used == 0 if publisher.soft == BLOCK else used <= 0.5


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
        self.order = self._arranged = "queue"
        self.count = 0
        self.bytes = 0
        #: a heap in the order ``_arranged``
        self._entries: list[_Entry] = []
        self._came = 0

    def push(self, packet: bytes) -> None:
        """Add a packet."""
        heappush(self._entries, _entry(self._arranged, self._came, packet))
        self._came += 1
        self.count += 1
        self.bytes += memory(packet)

    def first(self) -> bytes:
        """Return the packet that goes next. Raises IndexError if there is none."""
        # Only now is a change of the order followed: a client may change it all the time.
        if self._arranged != self.order:
            self._arranged = self.order
            self._entries = [_entry(self.order, came, packet) for _, came, packet in self._entries]
            heapify(self._entries)
        return self._entries[0][2]

    def pop(self) -> bytes:
        """Take away the packet that ``first`` has returned."""
        packet = heappop(self._entries)[2]
        self.count -= 1
        self.bytes -= memory(packet)
        return packet

    def clear(self) -> int:
        """Drop everything, and return how many packets that were."""
        count = self.count
        self._entries.clear()
        self.count = self.bytes = 0
        return count


def _entry(order: str, came: int, packet: bytes) -> _Entry:
    if order == "random":
        return -len(packet), came, packet
    return -came if order == "stack" else came, came, packet
