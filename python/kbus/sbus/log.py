# SPDX-License-Identifier: MIT
"""Where the daemon logs what happens: stderr in the foreground, syslog in the background."""

from __future__ import annotations

import contextlib
import select
import sys
import syslog
import time

from ..terminal.output import printable

_in_background = False


def go_to_background() -> None:
    """Log to syslog from now on."""
    global _in_background
    _in_background = True
    syslog.openlog("kbus-sbusd", syslog.LOG_PID, syslog.LOG_DAEMON)


def say(text: str) -> bool:
    """Log one line. Returns False if that fails, or would have to wait: the daemon serves on."""
    if _in_background:
        syslog.syslog(printable(text))
        return True
    with contextlib.suppress(OSError):
        if select.select((), (2,), (), 0)[1]:
            # A pipe that has room takes so much at once.
            print(printable(f"kbus-sbusd: {text}")[: select.PIPE_BUF - 1], file=sys.stderr, flush=True)
            return True
    return False


class Limited:
    """Lines about what clients do, at most ``MOST`` a second, so that no client can fill the log."""

    MOST = 10

    def __init__(self) -> None:
        self._began = float("-inf")
        self._told = self._untold = 0

    def say(self, text: str) -> None:
        """Log one line, unless it is one too many."""
        now = time.monotonic()
        if now >= self._began + 1:
            self._began, self._told = now, 0
        if self._told >= self.MOST:
            self._untold += 1
            return
        self._told += 1
        line = f"{text} ({self._untold} lines before this are left out)" if self._untold else text
        self._untold = 0 if say(line) else self._untold + 1
