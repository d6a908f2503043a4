# SPDX-License-Identifier: MIT
"""What a device of the model keeps: bindings, unanswered Requests, and copies of messages in queues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbus import abi

from .wire import Message, MsgId

if TYPE_CHECKING:
    from .ksock import Ksock


@dataclass(eq=False)
class Binding:
    """One BIND that is in force."""

    ksock: Ksock
    name: bytes
    replier: bool
    observer: bool = False

    @property
    def kind(self) -> int:
        """What BIND is given."""
        return abi.BIND_OBSERVER if self.observer else int(self.replier)


@dataclass(eq=False)
class Request:
    """A Request that SEND accepted and that has no answer yet (rules 26 to 29)."""

    id: MsgId
    sender: Ksock | None  # None once it has closed
    sender_id: int
    replier: Ksock
    popped: bool = False


@dataclass(eq=False)
class Copy:
    """One message in one queue.

    `binding` is what it came by, None for an answer to its requester and for MessagesLost. `request` is set
    on the flagged copy of a Request. `over_limit` marks an event that is queued without room (rule 32).
    `queued_at` is the call in which it was queued, 0 if nobody who got the message had asked for it.
    """

    message: Message
    binding: Binding | None = None
    request: Request | None = None
    over_limit: bool = False
    queued_at: int = 0


class Queue:
    """What is queued on one KSock, the next to be read first."""

    def __init__(self, limit: int, max_bytes: int) -> None:
        self.copies: list[Copy] = []
        self.limit = limit
        self.max_bytes = max_bytes
        self.highest_count = 0
        self.highest_bytes = 0

    @property
    def bytes(self) -> int:
        """Every copy counts its whole length, though the kernel shares the memory."""
        return sum(copy.message.length for copy in self.copies)

    def room(self, length: int, reserved: int, promised: int = 0) -> int:
        """Rule 20: how many copies of `length` bytes fit beside what is queued and `reserved` slots.

        `promised` copies of the same message come first and need no room.
        """
        queued = len(self.copies) + promised
        by_count = self.limit - queued - reserved
        by_bytes = (self.max_bytes - self.bytes - promised * length) // length
        if queued == 0:
            by_bytes = max(1, by_bytes)  # so that no message is impossible to deliver
        return max(0, min(by_count, by_bytes))

    def put(self, copies: list[Copy]) -> None:
        """Queue copies of one message; an URGENT one before everything that is queued."""
        urgent = bool(copies) and copies[0].message.is_urgent
        self.copies = copies + self.copies if urgent else self.copies + copies
        self.highest_count = max(self.highest_count, len(self.copies))
        self.highest_bytes = max(self.highest_bytes, self.bytes)

    def take(self) -> Copy:
        """The next copy, which leaves the queue."""
        return self.copies.pop(0)

    def remove_by(self, binding: Binding) -> list[Copy]:
        """Rule 10: take out the copies that came by `binding`."""
        gone = [copy for copy in self.copies if copy.binding is binding]
        self.copies = [copy for copy in self.copies if copy.binding is not binding]
        return gone
