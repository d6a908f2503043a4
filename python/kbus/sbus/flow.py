# SPDX-License-Identifier: MIT
"""Flood control: what a client has asked for, and what follows from it for one packet. Pure.

Each client has two sides. As a subscriber it says what happens to a packet that its socket would not take
(``soft``) and to one that its queue has no room for (``hard``). As a publisher it says by ``block``, and only
by that, that it would rather wait than have that happen. Nobody waits who has not said so. Source: the
bridge's specification, 'Flood control'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .backlog import ORDERS

QUEUE, DISCARD, BLOCK, ERROR = "queue", "discard", "block", "error"
SOFT = (QUEUE, DISCARD, BLOCK, ERROR)
HARD = (DISCARD, BLOCK, ERROR)


@dataclass
class Settings:
    """What a client has asked for last; the defaults are for one that has not asked.

    ``order`` is one of ``backlog.ORDERS``; with ``echo`` it receives its own messages.
    """

    soft: str = QUEUE
    hard: str = DISCARD
    order: str = "queue"
    echo: bool = True

    def apply(self, key: bytes) -> bool:
        """Do what a control message with this key asks for. Returns False if it is none of flood control."""
        setting = _CONTROLS.get(key)
        if setting is None:
            return False
        setattr(self, *setting)
        return True

    @property
    def is_plain(self) -> bool:
        """Whether it makes no difference who has published a message of this client."""
        return self.echo and BLOCK not in (self.soft, self.hard)


_CONTROLS: dict[bytes, tuple[str, object]] = {
    **{f"blocking/soft/{mode}".encode(): ("soft", mode) for mode in SOFT},
    **{f"blocking/hard/{mode}".encode(): ("hard", mode) for mode in HARD},
    **{f"order/{order}".encode(): ("order", order) for order in ORDERS},
    b"echo/off": ("echo", False),
    b"echo/on": ("echo", True),
}
CONTROLS = tuple(_CONTROLS)


def outcome(subscriber: Settings, publisher: Optional[Settings], is_full: bool) -> str:
    """Return what becomes of a packet that the subscriber's socket would not take.

    ``is_full`` says whether its queue has no room. ``publisher`` is None for a KBUS program and for a client
    that has not asked to be blocked. The result is QUEUE, DISCARD or ERROR (disconnect the subscriber), or
    BLOCK: read nothing more from the publisher until there is room, and queue it, over the limit if that is
    not by too much; otherwise do with it what is done if the publisher has not asked.
    """
    if subscriber.soft in (DISCARD, ERROR):
        return subscriber.soft
    waits = publisher is not None and (
        publisher.soft == BLOCK or (is_full and publisher.hard == BLOCK and subscriber.hard != ERROR)
    )
    if waits:
        return BLOCK
    if not is_full:
        return QUEUE
    return ERROR if subscriber.hard == ERROR else DISCARD


def is_room(publisher: Settings, used: float) -> bool:
    """Return whether a publisher that waits may go on; ``used`` of the queue is in use, 0 nothing, 1 all."""
    return used == 0 if publisher.soft == BLOCK else used <= 0.5
