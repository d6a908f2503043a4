# SPDX-License-Identifier: MIT
"""How often the daemon's log tells of what users do."""

from __future__ import annotations

import pytest

from kbus.sbus import log


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
