# SPDX-License-Identifier: MIT
"""What a device of the model keeps: bindings, unanswered Requests, and copies of messages in queues."""

from __future__ import annotations

import time
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ... import _abi as abi
from .wire import MsgId, WireMessage

if TYPE_CHECKING:
    from .ksock import ModelKsock


STATUS_NAMES = (
    abi.NAME_REPLIER_GONEAWAY,
    abi.NAME_REPLIER_IGNORED,
    abi.NAME_REPLIER_UNBOUND,
    abi.NAME_REPLIER_NOROOM,
)
STATUS_LENGTH = max(WireMessage(name.encode()).length for name in STATUS_NAMES)
"""Bytes that are set aside with each slot (rule 43)."""


class Owner(NamedTuple):
    """The process, user and group that opened a KSock."""

    pid: int
    uid: int
    gid: int


@dataclass(eq=False)
class ModelBinding:
    """One BIND that is in force."""

    ksock: ModelKsock
    name: bytes
    replier: bool
    observer: bool = False

    @property
    def kind(self) -> int:
        """What BIND is given."""
        return abi.BIND_OBSERVER if self.observer else int(self.replier)


@dataclass(eq=False)
class PendingRequest:
    """A Request that SEND accepted and that has no answer yet (rules 26 to 29)."""

    id: MsgId
    sender: ModelKsock
    replier: ModelKsock
    popped: bool = False
    abandoned: bool = False


@dataclass(eq=False)
class Copy:
    """One message in one queue.

    `binding` is what it came by, None for an answer to its requester and for MessagesLost. `request` is set
    on the flagged copy of a Request. `over_limit` marks an event that is queued without room (rule 32).
    `queued_at` is the call in which it was queued, 0 if no recipient of the message had asked for it.
    """

    message: WireMessage
    binding: ModelBinding | None = None
    request: PendingRequest | None = None
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
        used = self.bytes + promised * length + reserved * STATUS_LENGTH
        by_bytes = (self.max_bytes - used) // length
        if queued + reserved == 0:
            by_bytes = max(1, by_bytes)  # so that no message is impossible to deliver
        return max(0, min(by_count, by_bytes))

    def takes_answer(self, length: int, reserved: int) -> bool:
        """Rule 43: whether an answer fits into the last of `reserved` slots; by count it always does."""
        others = reserved - 1
        used = self.bytes + others * STATUS_LENGTH
        is_alone = not self.copies and not others
        return length <= STATUS_LENGTH or used + length <= self.max_bytes or is_alone

    def could_take(self, copies: int, length: int, own_slots: int) -> bool:
        """Rule 42: whether the queue could ever take so many copies beside slots that their sender needs."""
        by_count = copies + own_slots <= self.limit
        by_bytes = copies * length + own_slots * STATUS_LENGTH <= self.max_bytes
        return by_count and (by_bytes or copies + own_slots == 1)

    def put(self, copies: list[Copy]) -> None:
        """Queue copies of one message; an URGENT one before everything that is queued."""
        urgent = bool(copies) and copies[0].message.is_urgent
        self.copies = copies + self.copies if urgent else self.copies + copies
        self.highest_count = max(self.highest_count, len(self.copies))
        self.highest_bytes = max(self.highest_bytes, self.bytes)

    def take(self) -> Copy:
        """The next copy, which leaves the queue."""
        return self.copies.pop(0)

    def remove_by(self, binding: ModelBinding) -> list[Copy]:
        """Rule 10: take out the copies that came by `binding`."""
        gone = [copy for copy in self.copies if copy.binding is binding]
        self.copies = [copy for copy in self.copies if copy.binding is not binding]
        return gone


class CallClock:
    """Knows which call was being made at which time of the machine."""

    def __init__(self) -> None:
        self._began: list[int] = []

    @property
    def now(self) -> int:
        """The number of the call that was begun last, 1 if none was."""
        return max(1, len(self._began))

    def begin(self) -> None:
        """The next call begins."""
        self._began.append(time.monotonic_ns())

    def call_at(self, ns: int) -> int:
        """The call that was being made at that time of CLOCK_MONOTONIC; 0 for the time 0, which is none."""
        return bisect_right(self._began, ns)
