# SPDX-License-Identifier: MIT
"""A rate at which something is done: when the next is due, and whether that could be kept up."""

from __future__ import annotations

import time
from typing import Optional

from ..terminal.signals import EndSignals

__all__ = ["Pace"]

#: Seconds by which a busy machine may wake us late
_GRACE = 0.01
#: Which part of the rate is as good as all of it
_GOOD = 0.99


class Pace:
    """Waits so that things are done ``rate`` times a second.

    The times at which they are due follow from the first one, so that being late once does not make all
    that follow late. What can't be done in time is done as soon as possible, until that has been caught up
    with. Time in which there was nothing to do does not count.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._due: Optional[float] = None
        self._began = self._latest = 0.0
        self._done = 0
        self._most_late = 0.0

    def wait(self, asked: float, signals: EndSignals) -> None:
        """Wait until the next is due; since ``asked``, a time.monotonic(), there was nothing to do."""
        now = time.monotonic()
        if self._due is None:
            self._due = self._began = now
        elif now > self._due:
            idle = now - max(asked, self._due)
            self._due += idle
            self._began += idle
        signals.wait_until(self._due)
        self._latest = time.monotonic()
        self._most_late = max(self._most_late, self._latest - self._due)
        self._due += 1 / self._rate
        self._done += 1

    def shortfall(self) -> Optional[str]:
        """What could not be kept up, for people; None if it could."""
        reached = (self._done - 1) / max(self._latest - self._began, 1e-9)
        # What has been caught up with was only late.
        if self._most_late <= 1 / self._rate + _GRACE or reached >= _GOOD * self._rate:
            return None
        return (
            f"{self._rate:g} a second could not be kept up:"
            f" it was {reached:.4g} a second, and up to {self._most_late:.3f} s late"
        )
