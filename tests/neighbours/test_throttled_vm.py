# SPDX-License-Identifier: MIT
"""A neighbour that is throttled while it sends, on a kernel that preempts the kernel's code too: rule 46."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.effort import DIVISOR
from tests.kernel.module import parameter
from tests.kernel.patching import one_processor
from tests.neighbours.neighbour import StartNeighbour
from tests.neighbours.stopwatch import Stopwatch

pytestmark = [
    pytest.mark.rule(46),
    pytest.mark.axiom("isolation"),
    pytest.mark.skipif(DIVISOR > 1, reason="no place to measure times"),
]

PREEMPT = Path("/sys/kernel/debug/sched/preempt")
GOAL = 20_000
"""Microseconds that the worst SEND of a window may take, in most windows."""
PERIOD = 1_000_000
"""Microseconds, of each of which a neighbour may run for a part."""
NEVER = 500_000
"""Microseconds that no SEND may take. Whoever is throttled is so for longer."""
WINDOWS, COUNT, INTERVAL = 3, 300, 10_000
"""Of some seconds each, in which a neighbour is throttled several times."""
BINDINGS = 4000
"""As many as make SEND of a neighbour long, so that it is nearly always there when it is throttled."""


@pytest.fixture
def preemptible() -> Iterator[None]:
    """A task can lose its processor anywhere in the kernel, but where a spinlock is held."""
    if not PREEMPT.exists():
        if "PREEMPT" not in os.uname().version:
            pytest.skip("this kernel does not preempt itself")
        yield
        return
    before = PREEMPT.read_text().partition("(")[2].partition(")")[0]
    with one_processor():
        PREEMPT.write_text("full")
    yield
    with one_processor():
        PREEMPT.write_text(before)


def _is_fast_beside(neighbour: StartNeighbour, orders: str, what: str, cpu_max: Path) -> None:
    """Whether others' calls take no longer beside a neighbour that may run for 2 ms in each second."""
    with Stopwatch() as stopwatch, neighbour(orders, cgroup=cpu_max.parent):
        cpu_max.write_text(f"2000 {PERIOD}")
        worst = sorted(stopwatch.measure(what, COUNT, INTERVAL).max for _ in range(WINDOWS))
    print(worst)
    assert worst[WINDOWS // 2] <= GOAL
    # The host may stop an emulated processor for a while, but not for that long.
    assert worst[-1] <= NEVER


def test_a_throttled_sender_delays_nobody(
    preemptible: None, cpu_max: Path, open_to_all: None, neighbour: StartNeighbour
) -> None:
    orders = f"open 1 queue 1 bind $.Own {BINDINGS} done loop send $.Own 0 0"
    with parameter("max_name_bindings", BINDINGS):
        _is_fast_beside(neighbour, orders, "send", cpu_max)


def test_who_binds_and_is_throttled_delays_no_other_bind(
    preemptible: None, cpu_max: Path, open_to_all: None, neighbour: StartNeighbour
) -> None:
    orders = "open 1 done loop serve $.Own unserve $.Own bind $.Own 9 unbind $.Own 9"
    _is_fast_beside(neighbour, orders, "bind", cpu_max)
