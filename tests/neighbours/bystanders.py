# SPDX-License-Identifier: MIT
"""Bystanders, who have nothing to do with their neighbours: programs that tell how long their calls took."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

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


class Program:
    """A program of c/, on BYSTANDERS_CPU and of the user UID, that answers each line with one of JSON."""

    def __init__(self, name: str, *arguments: int) -> None:
        self._process = subprocess.Popen(
            [PROGRAMS / name, str(BYSTANDERS_CPU), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=UID,
            group=UID,
            extra_groups=[],
        )

    def tell(self, line: str) -> None:
        """Have it begin something."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """What it says when that is done."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "it died, see its stderr"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End it."""
        self._process.communicate()
        assert self._process.returncode == 0


class Bystanders:
    """Two KSocks of one process: one sends messages to the other at a fixed rate."""

    def __init__(self) -> None:
        self._program = Program("probe", INTERVAL)

    def window(self, count: int = 100) -> Window:
        """Send `count` messages. All must come, in order."""
        self._program.tell(str(count))
        window = Window(**self._program.answer())
        assert window[:4] == (count, count, True, 0)
        return window

    def close(self) -> None:
        """End them."""
        self._program.close()
