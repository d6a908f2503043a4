# SPDX-License-Identifier: MIT
"""How times are written."""

from __future__ import annotations

import time
from typing import Optional

__all__ = ["CLOCKS", "NANOSECONDS", "TimeStyle"]

NANOSECONDS = 1_000_000_000

#: values of -t
CLOCKS = ("abs", "delta", "zero", "date")


class TimeStyle:
    """Writes times in one of the ways of ``-t``.

    ``abs`` is seconds since 1970, ``delta`` since the time before, ``zero`` since the first time, and
    ``date`` the local date and time; always with nine decimals.
    """

    def __init__(self, way: str) -> None:
        if way not in CLOCKS:
            raise ValueError(f"there is no way of writing times that is called {way!r}")
        self._way = way
        self._reference: Optional[int] = 0 if way in ("abs", "date") else None

    def text(self, time_ns: int) -> str:
        """The time, given in nanoseconds since 1970."""
        if self._reference is None:
            self._reference = time_ns
        elapsed = time_ns - self._reference
        if self._way == "delta":
            self._reference = time_ns
        # The clock can be set back meanwhile.
        sign = "-" if elapsed < 0 else ""
        whole, nanoseconds = divmod(abs(elapsed), NANOSECONDS)
        if self._way == "date":
            return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(whole))}.{nanoseconds:09d}"
        return f"{sign}{whole}.{nanoseconds:09d}"
