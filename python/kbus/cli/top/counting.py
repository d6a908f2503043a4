# SPDX-License-Identifier: MIT
"""Reads a device for ``kbus top``: the messages, and what ``/proc/kbus/stats`` says."""

from __future__ import annotations

import time

from ... import Ksock, inspect
from ..._processes import command_of
from ...messages import received
from ...terminal.failures import proc_failure
from .rates import Rates
from .traffic import Traffic
from .views import Look, WaitingFor

__all__ = ["Counting"]


class Counting:
    """Counts what comes to ``ksock``, which is bound already."""

    def __init__(self, ksock: Ksock) -> None:
        self._ksock = ksock
        self._traffic = Traffic(time.monotonic())
        self._rates = Rates(command_of)
        self._unseen = 0
        # From now on KBUS takes note of when messages are sent.
        self.read()

    def read(self) -> int:
        """Count messages that are queued, as many as come with one system call; return how many."""
        batch = self._ksock.receive_bytes()
        now = time.monotonic()
        for message, at in zip(batch.messages, batch.times):
            self._traffic.take(received(message, 1)[0], at / 1e9 if at else now)
        return len(batch.messages)

    def clear(self) -> None:
        """Count from 0."""
        self._traffic.clear(time.monotonic())

    def look(self) -> Look:
        """What there is now. Raises a Failure if that can't be read."""
        now = time.monotonic()
        try:
            (device,) = inspect.stats(self._ksock.which)
        except OSError as error:
            raise proc_failure(error) from error
        # A KSock that waits no more, by these counts, may have an answer that is still queued here.
        queued = self._ksock.num_messages()
        while queued > 0 and (taken := self.read()):
            queued -= taken
        traffic = self._traffic
        traffic.end_interval(now)
        traffic.forget_all_but({each.ksock_id for each in device.ksocks if each.awaiting}, before=now)
        ksocks = self._rates.look(device, now)
        commands = {each.stats.ksock_id: each.command for each in ksocks}
        waiting = traffic.waiting()
        names = list(traffic.names.values())
        return Look(
            device=device.device,
            clock=time.strftime("%H:%M:%S"),
            messages=sum(each.rate for each in names),
            bytes=sum(each.byte_rate for each in names),
            names=names,
            ksocks=ksocks,
            waiting=[WaitingFor(each, now - each.since, commands.get(each.from_, "?")) for each in waiting],
            unseen=self._unseen_for_long(device, len(waiting)),
            lost=sum(each.lost for each in device.ksocks),
            lost_here=self._ksock.lost_messages(),
            not_followed=traffic.other_names + traffic.not_followed,
        )

    def _unseen_for_long(self, device: inspect.DeviceStats, seen: int) -> int:
        """How many of the Requests that wait have not been seen, now and at the look before.

        One that was sent just now may still be in the queue here.
        """
        before = self._unseen
        self._unseen = max(0, sum(each.awaiting for each in device.ksocks) - seen)
        return min(before, self._unseen)
