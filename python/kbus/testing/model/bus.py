# SPDX-License-Identifier: MIT
"""A reference model of one KBUS device: what the semantics and the decisions say, single-threaded and plain.

A `Device` holds the state, and a `ModelKsock` is what a program uses. What is refused raises an OSError
with the errno that the device gives and the rule as its text. Limits per user and memory are not modelled,
nor is blocking: every KSock is as if opened with O_NONBLOCK.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ... import _abi as abi
from . import names
from .ksock import ModelKsock
from .parts import CallClock, ModelBinding, Owner, PendingRequest
from .wire import MsgId

LAST_SERIAL = 2**32 - 1
LAST_KSOCK_ID = 2**32 - 1


@dataclass(frozen=True)
class DeviceLimits:
    """The module parameters that matter here (rule 33)."""

    queue_length: int = 100
    max_queue_length: int = 10000
    message_size: int = 1 << 20
    max_message_size: int = 16 << 20
    queue_bytes: int = 4 << 20
    events_aside: int = 1000


class Device:
    """One /dev/kbusN."""

    def __init__(
        self,
        limits: DeviceLimits = DeviceLimits(),
        last_serial: int = 0,
        next_ksock_id: int = 1,
        clock: CallClock | None = None,
    ) -> None:
        self.limits = limits
        self.last_serial = last_serial
        self.next_ksock_id = next_ksock_id
        self.max_message_size = limits.message_size
        self.report_binds = 0
        self.verbose = 0
        self.sent = 0
        self.clock = clock or CallClock()
        self.ksocks: list[ModelKsock] = []  # in the order of opening
        self.bindings: list[ModelBinding] = []  # the oldest first
        self.requests: list[
            PendingRequest
        ] = []  # without an answer yet, in the order in which they were sent

    def open(self, mode: str, owner: Owner | None = None) -> ModelKsock:
        """Rule 39: a KSock of `owner`, or this process; `mode` is r, w or rw.

        Ids in use are skipped.
        """
        while self.next_ksock_id in {ksock.id for ksock in self.ksocks}:
            self.next_ksock_id = following(self.next_ksock_id, LAST_KSOCK_ID)
        ksock = ModelKsock(
            self, self.next_ksock_id, mode, owner or Owner(os.getpid(), os.geteuid(), os.getegid())
        )
        self.next_ksock_id = following(self.next_ksock_id, LAST_KSOCK_ID)
        self.ksocks.append(ksock)
        return ksock

    def next_id(self) -> MsgId:
        """Rule 16: the next local id; serial numbers wrap to 1."""
        self.last_serial = following(self.last_serial, LAST_SERIAL)
        return MsgId(0, self.last_serial)

    def replier_for(self, name: bytes) -> ModelBinding | None:
        """Rule 9: the binding that a Request called `name` would go by."""
        matching = [bound for bound in self.bindings if bound.replier and names.matches(bound.name, name)]
        return min(matching, key=lambda bound: names.specificity(bound.name), default=None)

    def replier_of(self, name: bytes) -> ModelBinding | None:
        """Rule 12: the binding as replier to exactly `name`."""
        return next((bound for bound in self.bindings if bound.replier and bound.name == name), None)

    def listening_to(self, name: bytes) -> list[ModelBinding]:
        """The L bindings for messages called `name`: the most specific and, in a name, the newest first."""
        newest_first = reversed(self.bindings)
        matching = [bound for bound in newest_first if not bound.replier and names.matches(bound.name, name)]
        return sorted(matching, key=lambda bound: names.specificity(bound.name))

    @property
    def events_aside(self) -> int:
        """Rule 32: events that were set aside and are unread; what ends their list is not one of them."""
        queued = [copy for ksock in self.ksocks for copy in ksock.queue.copies if copy.over_limit]
        return sum(copy.message.name == abi.NAME_REPLIER_BIND_EVENT.encode() for copy in queued)


def following(number: int, last: int) -> int:
    """The number after `number`, 1 after `last`."""
    return number % last + 1
