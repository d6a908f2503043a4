# SPDX-License-Identifier: MIT
"""Bystanders: one sends messages to the other at a fixed rate, and they tell how long each took."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import NamedTuple

PROGRAMS = Path(__file__).parent / "c" / "bin"
UID = 1000
BYSTANDERS_CPU, NEIGHBOURS_CPU = 0, 1
PING = "$.Bystander.Ping"
"""The name of the messages."""
INTERVAL = 1000
"""Microseconds from one message to the next."""


class Window(NamedTuple):
    """What came of some messages in a row; times in microseconds, from before `write` to after `read`."""

    sent: int
    received: int
    in_order: bool
    missed: int
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


class Bystanders:
    """Two KSocks of one process, which runs on BYSTANDERS_CPU as the user UID."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [PROGRAMS / "probe", str(BYSTANDERS_CPU), str(INTERVAL)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=UID,
            group=UID,
            extra_groups=[],
        )

    def window(self, count: int = 100) -> Window:
        """Send `count` messages. All must come, in order."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the bystanders died, see their stderr"
        window = Window(**json.loads(line))
        assert window[:4] == (count, count, True, 0)
        return window

    def close(self) -> None:
        """End them."""
        self._process.communicate()
        assert self._process.returncode == 0
