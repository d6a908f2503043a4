# SPDX-License-Identifier: MIT
"""From CLOCK_MONOTONIC to the time of day."""

from __future__ import annotations

import pytest

from kbus._transfer import WallClock

BOOT = 1_700_000_000_000_000_000
MS = 1_000_000


class Clocks:
    """The two clocks; each look at one takes ``look`` ns, and ``gap`` more before the second of three."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.offset, self.look, self.gap = 100 * MS, BOOT, 50, 0
        monkeypatch.setattr("kbus._transfer.time", self)
        self._clock = WallClock()

    def monotonic_ns(self) -> int:
        self.now += self.look
        return self.now

    def time_ns(self) -> int:
        self.now += self.look + self.gap
        return self.now + self.offset

    def times(self, first: int, last: int) -> tuple[int, int]:
        """The time of day of the first and the last of some messages."""
        offset = self._clock.offset(first, last)
        return first + offset, last + offset


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def test_the_time_between_two_messages_is_exact(clocks: Clocks) -> None:
    """Also if something else was run between the looks at the two clocks."""
    begin, _ = clocks.times(1000, 2000)
    assert abs(begin - 1000 - BOOT) <= 100
    for gap, look in ((20 * MS, 50), (0, 80), (3 * MS, 9000), (0, 50)):
        clocks.gap, clocks.look = gap, look
        assert clocks.times(5000, 6000) == (begin + 4000, begin + 5000)


@pytest.mark.parametrize("change", [-3_600_000 * MS, -2 * MS, 2 * MS, 3_600_000 * MS])
def test_a_clock_that_was_set_is_followed(clocks: Clocks, change: int) -> None:
    clocks.times(1000, 2000)
    clocks.offset += change
    begin, _ = clocks.times(3000, 4000)
    assert abs(begin - 3000 - BOOT - change) <= 100


def test_a_clock_that_is_made_slower_does_not_go_back(clocks: Clocks) -> None:
    _, last = clocks.times(1000, 2000)
    for at in range(2010, 3000, 10):
        clocks.offset -= 100
        begin, end = clocks.times(at, at)
        assert last <= begin == end
        last = end
    # Given time, it has caught up.
    begin, _ = clocks.times(50_000, 50_000)
    assert abs(begin - 50_000 - clocks.offset) <= 100


def test_a_clock_that_was_never_set(clocks: Clocks) -> None:
    clocks.offset = -90 * MS
    begin, _ = clocks.times(100 * MS, 100 * MS)
    assert abs(begin - 10 * MS) <= 100
