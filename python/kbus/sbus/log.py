# SPDX-License-Identifier: MIT
"""Where the daemon tells what happens: stderr in the foreground, syslog in the background."""

from __future__ import annotations

import contextlib
import sys
import syslog

_in_background = False


def go_to_background() -> None:
    """Tell syslog from now on."""
    global _in_background
    _in_background = True
    syslog.openlog("kbus-sbusd", syslog.LOG_PID, syslog.LOG_DAEMON)


def say(text: str) -> None:
    """Tell one line. Nothing comes of it if that fails: the daemon serves on."""
    if _in_background:
        syslog.syslog(text)
    else:
        with contextlib.suppress(OSError):
            print(f"kbus-sbusd: {text}", file=sys.stderr, flush=True)
