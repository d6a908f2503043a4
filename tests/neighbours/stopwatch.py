# SPDX-License-Identifier: MIT
"""c/stopwatch.c: how long SEND or NEXTMSG takes somebody who has nothing to do with his neighbours."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from tests.neighbours.bystanders import BYSTANDERS_CPU, PROGRAMS, UID

SLOT = "$.Stopwatch.Slot"
"""The name of the messages that `read` takes; the queue holds one."""


class Times(NamedTuple):
    """How long some calls in a row took, in microseconds."""

    mean: float
    p50: float
    p99: float
    max: float


class Stopwatch:
    """A process on BYSTANDERS_CPU, of the user UID. A context manager, which ends it.

    If it `is_first`, no other task takes the processor from it: whatever time it loses, it waits.
    """

    def __init__(self, is_first: bool = False) -> None:
        self._process = subprocess.Popen(
            [PROGRAMS / "stopwatch", str(BYSTANDERS_CPU)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=UID,
            group=UID,
            extra_groups=[],
        )
        if is_first:
            os.sched_setscheduler(self._process.pid, os.SCHED_FIFO, os.sched_param(1))

    def begin(self, what: str, count: int, interval: int) -> None:
        """Begin to "send" or "read", one message each `interval` microseconds."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what} {count} {interval}\n")
        self._process.stdin.flush()

    def end(self) -> Times:
        """How long what was begun took, when it is done."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the stopwatch died, see its stderr"
        return Times(**json.loads(line))

    def measure(self, what: str, count: int, interval: int) -> Times:
        """`begin` and `end`."""
        self.begin(what, count, interval)
        return self.end()

    def __enter__(self) -> Stopwatch:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        assert self._process.returncode == 0


def quiet(times: Sequence[Times], value: str) -> float:
    """The lower quartile of a value; see figures.quiet."""
    values = sorted(float(getattr(each, value)) for each in times)
    return values[len(values) // 4]
