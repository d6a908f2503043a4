# SPDX-License-Identifier: MIT
"""The time of day at which messages were sent: KBUS takes note of CLOCK_MONOTONIC."""

from __future__ import annotations

import time

#: ns. A clock that goes back by less was made slower, and not set.
_SLEWED = 1_000_000


class WallClock:
    """CLOCK_REALTIME less CLOCK_MONOTONIC.

    The two can't be read at the same moment, so the difference is known only to lie between two bounds. It
    stays what it was while it can, that the time between two messages be the same by either clock.
    """

    def __init__(self) -> None:
        self._offset = 0
        self._until = 0

    def offset(self, first: int, last: int) -> int:
        """Return the difference, in ns, for the time from ``first`` to ``last``, in ns of CLOCK_MONOTONIC.

        That must be not long ago, and not before the last call's time. With the difference it is not before
        that by CLOCK_REALTIME either, unless the clock was set back.
        """
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        offset = min(max(self._offset, wall - after), wall - before)
        if 0 < self._offset - offset < _SLEWED:
            offset = max(offset, self._offset - (first - self._until))
        self._offset, self._until = offset, last
        return offset
