# SPDX-License-Identifier: MIT
"""The time of the model: the number of the call that is being made, counted from 1."""

from __future__ import annotations

import time
from bisect import bisect_right


class Clock:
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
