# SPDX-License-Identifier: MIT
"""KSocks as ``/proc/kbus/stats`` shows them, and what they do a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Optional

from ...inspect import DeviceStats, KsockStats

__all__ = ["KsockRates", "Rates"]


class KsockRates(NamedTuple):
    """A KSock: what the module counts, its program, and messages a second since the look before."""

    stats: KsockStats
    command: str
    sent_rate: float
    received_rate: float
    lost_rate: float


class Rates:
    """Works out rates from one look at a device to the next. ``command_of`` names a process."""

    def __init__(self, command_of: Callable[[int], str]) -> None:
        self._command_of = command_of
        self._before: dict[int, KsockStats] = {}
        self._when: Optional[float] = None

    def look(self, device: DeviceStats, now: float) -> list[KsockRates]:
        """The KSocks at this time, in seconds. One that is new did all that it has done in this interval."""
        seconds = 0.0 if self._when is None else now - self._when
        rows = [self._rates(each, seconds) for each in device.ksocks]
        self._before = {each.ksock_id: each for each in device.ksocks}
        self._when = now
        return rows

    def _rates(self, now: KsockStats, seconds: float) -> KsockRates:
        before = self._before.get(now.ksock_id)
        sent, received, lost = (before.sent, before.received, before.lost) if before else (0, 0, 0)
        over = 1 / seconds if seconds > 0 else 0.0
        return KsockRates(
            now,
            self._command_of(now.pid),
            (now.sent - sent) * over,
            (now.received - received) * over,
            (now.lost - lost) * over,
        )
