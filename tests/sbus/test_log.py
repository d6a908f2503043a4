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


def test_one_line_a_second_about_a_user(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    told = log.OfUsers()
    assert [told.say(7, "x") for _ in range(1000)] == [True] + [False] * 999
    clock.now += 1.5
    assert told.say(7, "y")
    clock.now += 1.5
    assert told.say(7, "z")
    assert capsys.readouterr().err.splitlines() == [
        "kbus-sbusd: x",
        "kbus-sbusd: y (999 other lines about this user are left out)",
        "kbus-sbusd: z",
    ]


def test_some_lines_a_second_in_all(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    told = log.OfUsers()
    for _ in range(3):
        assert sum(told.say(uid, "x") for uid in range(5000)) == log.OfUsers.IN_ALL
        assert len(told._users) <= told._MOST_USERS
        clock.now += 1.5
    assert len(capsys.readouterr().err.splitlines()) == 3 * log.OfUsers.IN_ALL


def test_it_does_not_remember_all_users(clock: Clock) -> None:
    told = log.OfUsers()
    for uid in range(10 * told._MOST_USERS):
        assert told.say(uid, "x")
        clock.now += 0.15
    assert len(told._users) <= told._MOST_USERS
