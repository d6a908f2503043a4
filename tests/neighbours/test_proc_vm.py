# SPDX-License-Identifier: MIT
"""Rule 47: how long others' BIND and UNBIND take while /proc/kbus/bindings is read again and again."""

from __future__ import annotations

import os
import statistics
import time

import pytest

from kbus import Ksock
from tests.kernel.processes import in_child
from tests.neighbours.bystanders import BYSTANDERS_CPU
from tests.neighbours.neighbour import StartNeighbour

pytestmark = [pytest.mark.axiom("isolation"), pytest.mark.rule(47)]

GOAL = 2.0
"""How many times as long it may take as when nobody reads."""
SECONDS = 4.0
"""Of one window: more than a reader rests."""
WINDOWS, MOST_WINDOWS = 2, 8
BINDINGS = "open 17 names $.Own.N 4096"
READERS = f"{BINDINGS} done fork 8 loop file /proc/kbus/bindings"


def window() -> float:
    """The mean time of a BIND and its UNBIND, in microseconds, on a processor of its own."""

    def measure() -> float:
        os.sched_setaffinity(0, {BYSTANDERS_CPU})
        took = []
        with Ksock() as one:
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                began = time.perf_counter()
                one.bind("$.Bystander")
                one.unbind("$.Bystander")
                took.append((time.perf_counter() - began) * 1e6)
        took.sort()
        mean = statistics.fmean(took)
        print(f"mean {mean:.0f}, 99 % {took[len(took) * 99 // 100]:.0f}, max {took[-1]:.0f}", flush=True)
        return mean

    return in_child(measure)


def test_readers_of_bindings(neighbour: StartNeighbour) -> None:
    """By turns with as many bindings and a processor as busy; the host may disturb some of the windows."""
    idle, read = [], []
    for number in range(MOST_WINDOWS):
        with neighbour(f"{BINDINGS} done compute") as one:
            assert one.refused_with == "ENOSPC"
            idle.append(window())
        with neighbour(READERS):
            read.append(window())
        if number + 1 >= WINDOWS and statistics.median(read) <= GOAL * statistics.median(idle):
            return
    pytest.fail(f"{idle} {read}")
