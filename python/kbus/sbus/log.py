# SPDX-License-Identifier: MIT
"""Where the daemon tells what happens: stderr in the foreground, syslog in the background."""

from __future__ import annotations

import contextlib
import sys
import syslog
import time

from ..cli.printable import printable

_in_background = False


def go_to_background() -> None:
    """Tell syslog from now on."""
    global _in_background
    _in_background = True
    syslog.openlog("kbus-sbusd", syslog.LOG_PID, syslog.LOG_DAEMON)


def say(text: str) -> None:
    """Tell one line. Nothing comes of it if that fails: the daemon serves on."""
    if _in_background:
        syslog.syslog(printable(text))
    else:
        with contextlib.suppress(OSError):
            print(printable(f"kbus-sbusd: {text}"), file=sys.stderr, flush=True)


class OfUsers:
    """Lines about what users do, at most one a second about each, and ``IN_ALL`` about all of them.

    Whoever reconnects is the same user, so that no client can fill the log.
    """

    #: lines a second
    IN_ALL = 10
    #: users that are remembered; when there are more, all are forgotten that were not told of just now
    _MOST_USERS = 1024

    def __init__(self) -> None:
        #: when a user was told of last, and how many lines there were not since
        self._users: dict[int, tuple[float, int]] = {}
        self._began = float("-inf")
        self._count = 0

    def say(self, uid: int, text: str) -> bool:
        """Tell one line about what a user does, unless it is too many; return whether it was told."""
        now = time.monotonic()
        at, untold = self._users.get(uid, (float("-inf"), 0))
        if now >= self._began + 1:
            self._began, self._count = now, 0
        if uid not in self._users and len(self._users) >= self._MOST_USERS:
            self._users = {each: seen for each, seen in self._users.items() if now < seen[0] + 1}
        if now < at + 1 or self._count >= self.IN_ALL:
            self._users[uid] = (at, untold + 1)
            return False
        self._users[uid] = (now, 0)
        self._count += 1
        say(f"{text} ({untold} other lines about this user are left out)" if untold else text)
        return True
