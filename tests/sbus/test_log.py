# SPDX-License-Identifier: MIT
"""How often the daemon's log tells of what users do."""

from __future__ import annotations

import re
import select
import subprocess
import sys

import pytest

from kbus.sbus import log
from tests.kernel.helpers import PATIENCE


class Clock:
    """A time that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(log, "time", clock)
    return clock


def test_some_lines_a_second(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """And how many there were not."""
    told = log.Limited()
    for text in ("x", "y"):
        for _ in range(1000):
            told.say(text)
        clock.now += 1.5
    told.say("z")
    told.say("z")
    assert capsys.readouterr().err.splitlines() == [
        *["kbus-sbusd: x"] * told.MOST,
        "kbus-sbusd: y (990 lines before this are left out)",
        *["kbus-sbusd: y"] * (told.MOST - 1),
        "kbus-sbusd: z (990 lines before this are left out)",
        "kbus-sbusd: z",
    ]


SAY = """\
import sys
from kbus.sbus import log
told = log.Limited()
told.MOST = 3000
for number in range(2000):
    told.say("x" * 90)
print("done", flush=True)
sys.stdin.read(1)
told.say("last")
"""


def test_rule_nobody_needs_to_read_it() -> None:
    """What a pipe has no room for is left out, which the next line says."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", SAY], **pipes) as process:  # type: ignore[call-overload]
        assert select.select([process.stdout], [], [], PATIENCE)[0], "it goes on"
        told = [process.stderr.readline() for _ in range(100)]
        process.stdin.write(b"+")
        process.stdin.flush()
        told += process.stderr.readlines()
    last = re.fullmatch(rb"kbus-sbusd: last \((\d+) lines before this are left out\)\n", told.pop())
    assert last is not None
    assert told == [b"kbus-sbusd: " + b"x" * 90 + b"\n"] * (2000 - int(last[1]))
