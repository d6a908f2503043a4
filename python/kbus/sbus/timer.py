# SPDX-License-Identifier: MIT
"""A descriptor that can be read when it is time."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Optional

from .libc import failure, libc

_timerfd_create = libc.timerfd_create
_timerfd_create.argtypes = (ctypes.c_int, ctypes.c_int)
_timerfd_settime = libc.timerfd_settime
_timerfd_settime.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_TFD_TIMER_ABSTIME = 1


class _Times(ctypes.Structure):
    """struct itimerspec"""

    _fields_ = tuple((name, ctypes.c_long) for name in ("again_s", "again_ns", "at_s", "at_ns"))


class Timer:
    """A timerfd of the monotonic clock. Raises OSError as timerfd_create(2) fails."""

    def __init__(self) -> None:
        self._fd: int = _timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise failure()
        #: what it is set to
        self.at: Optional[float] = None

    def fileno(self) -> int:
        """The descriptor."""
        return self._fd

    def set(self, at: Optional[float]) -> None:
        """Be readable from ``at`` on, in seconds of ``time.monotonic()``, until it is set anew, or never."""
        # The time 0 would be never.
        ns = 0 if at is None else max(1, int(at * 1e9))
        times = _Times(0, 0, *divmod(ns, 10**9))
        if _timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, ctypes.byref(times), None):
            raise failure()
        self.at = at

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)
