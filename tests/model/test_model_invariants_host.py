# SPDX-License-Identifier: MIT
"""What must hold of the model whatever happens: the axioms, as far as one thread can show them."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import mock

from hypothesis import settings
from hypothesis.stateful import invariant

from kbus import _abi as abi
from kbus.testing.model.ksock import ModelKsock
from kbus.testing.model.parts import STATUS_LENGTH, Copy, Queue
from kbus.testing.model.wire import MsgId

from .machine import Machine


class Alone(Machine):
    """The model without a device at its side."""

    def __init__(self) -> None:
        super().__init__()
        # Requests by sender and id: all that SEND accepted, and those whose answer was read, or abandoned.
        self.accepted: Counter[tuple[int, MsgId]] = Counter()
        self.answered: Counter[tuple[int, MsgId]] = Counter()

    def call(self, ksock: ModelKsock, method: str, *arguments: object) -> Any:
        before = {other: taken(other) for other in self.ksocks}
        requests = list(self.device.requests)
        with mock.patch.object(ksock.queue, "take", Taker(ksock.queue)) as taker:
            outcome = super().call(ksock, method, *arguments)

        for other, was in before.items():
            over = sum(copy.over_limit for copy in other.queue.copies)
            assert taken(other) - over <= max(was, other.queue.limit), "rule 20"
            assert taken_bytes(other) <= other.queue.max_bytes or taken(other) - over <= 1, "rules 20 and 43"
        self.accepted.update((r.sender.id, r.id) for r in self.device.requests if r not in requests)
        self.answered.update(answers_of(ksock, taker.copies))
        if method == "abandon" and outcome is None:
            self.answered[ksock.id, MsgId(*map(int, arguments[0]))] += 1  # type: ignore[call-overload]
        return outcome

    @invariant()
    def order(self) -> None:
        for ksock in self.ksocks:
            messages = [copy.message for copy in ksock.queue.copies]
            urgent = [message.is_urgent for message in messages]
            assert urgent == sorted(urgent, reverse=True)
            local = [m.id.serial_num for m in messages if m.id.network_id == 0 and not m.is_urgent]
            assert local == sorted(local)

    @invariant()
    def an_answer(self) -> None:
        """Each accepted Request has one answer: read, queued, or with its slot set aside."""
        for ksock in self.ksocks:
            expected = Counter({key: count for key, count in self.accepted.items() if key[0] == ksock.id})
            found = Counter({key: count for key, count in self.answered.items() if key[0] == ksock.id})
            found.update(answers_of(ksock, ksock.queue.copies))
            found.update((r.sender.id, r.id) for r in self.device.requests if r.sender is ksock)
            assert found == expected

    @invariant()
    def flagged_copies(self) -> None:
        """Each unread Request has one copy, flagged, with its replier."""
        for ksock in self.ksocks:
            unread = [r for r in self.device.requests if r.replier is ksock and not r.popped]
            flagged = [c for c in ksock.queue.copies if c.request in self.device.requests]
            assert all(copy.message.flags & abi.BIT_WANT_YOU_TO_REPLY for copy in flagged)
            assert len(flagged) == len(unread)
            assert {id(c.request) for c in flagged} == {id(r) for r in unread}

    def teardown(self) -> None:
        while self.ksocks:
            self.ksocks.pop().close()
        assert (self.device.requests, self.device.bindings, self.device.ksocks) == ([], [], [])


class Taker:
    """Takes copies out of a queue, and notes them."""

    def __init__(self, queue: Queue) -> None:
        self._take = queue.take
        self.copies: list[Copy] = []

    def __call__(self) -> Copy:
        self.copies.append(self._take())
        return self.copies[-1]


def taken(ksock: ModelKsock) -> int:
    """Slots of the queue that are in use or set aside."""
    return len(ksock.queue.copies) + ksock.reserved


def taken_bytes(ksock: ModelKsock) -> int:
    """Bytes of the queue that are in use or set aside, without those of events that need no room."""
    copies = [copy for copy in ksock.queue.copies if not copy.over_limit]
    return sum(copy.message.length for copy in copies) + ksock.reserved * STATUS_LENGTH


def answers_of(ksock: ModelKsock, copies: list[Copy]) -> list[tuple[int, MsgId]]:
    """Of the copies, those that answer a Request of this KSock, as it and the Request's id."""
    return [(ksock.id, c.message.in_reply_to) for c in copies if c.binding is None and c.message.is_reply]


TestAlone = Alone.TestCase
TestAlone.settings = settings(
    max_examples=200, stateful_step_count=50, deadline=None, derandomize=True, database=None
)
