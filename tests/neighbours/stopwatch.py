# SPDX-License-Identifier: MIT
"""c/stopwatch.c: how long a call takes somebody who has nothing to do with his neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.neighbours.bystanders import Program

SENT = "$.Stopwatch.Sent"
"""The name of the messages that `send` sends."""
SLOT = "$.Stopwatch.Slot"
"""The name of the messages that `read` takes; the queue holds one."""


class Times(NamedTuple):
    """How long some calls in a row took, in microseconds."""

    mean: float
    p50: float
    p99: float
    max: float


class Stopwatch:
    """A process with a sender and a reader. A context manager, which ends it."""

    def __init__(self) -> None:
        self._program = Program("stopwatch")

    def begin(self, what: str, count: int, interval: int) -> None:
        """Begin to "send", "read", or "bind" and unbind, once each `interval` microseconds."""
        self._program.tell(f"{what} {count} {interval}")

    def end(self) -> Times:
        """How long what was begun took, when it is done."""
        return Times(**self._program.answer())

    def measure(self, what: str, count: int, interval: int) -> Times:
        """`begin` and `end`."""
        self.begin(what, count, interval)
        return self.end()

    def __enter__(self) -> Stopwatch:
        return self

    def __exit__(self, *_: object) -> None:
        self._program.close()


def quiet(times: Sequence[Times], value: str) -> float:
    """The lower quartile of a value; see figures.quiet."""
    values = sorted(float(getattr(each, value)) for each in times)
    return values[len(values) // 4]
