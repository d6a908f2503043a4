# SPDX-License-Identifier: MIT
"""Whoever reads /proc/kbus again and again holds up nobody who binds: rule 47."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.effort import reduced
from tests.kernel.helpers import device_stats
from tests.kernel.module import parameter
from tests.kernel.processes import NOBODY
from tests.neighbours.bystanders import INTERVAL
from tests.neighbours.neighbour import StartNeighbour
from tests.neighbours.scenarios import BUSY_ELSEWHERE
from tests.neighbours.stopwatch import Stopwatch, Times

GOAL = 2.0
"""How many times its idle value the time of others' BIND and UNBIND may be."""
ATTEMPTS = 3
"""How often that is measured before it is a failure: the host may stop a processor that holds a lock."""
MAX_USER_BINDINGS = reduced(65536)
COUNT = 2000
"""Pairs of BIND and UNBIND, in which time each of the readers takes a snapshot or more."""
BUSY = BUSY_ELSEWHERE.orders[0]
READERS = "done fork 8 loop file /proc/kbus/bindings"


@pytest.mark.rule(35, 47)
@pytest.mark.axiom("isolation")
def test_others_can_bind(open_to_all: None, neighbour: StartNeighbour) -> None:
    """With as many bindings as two users may have, and 8 readers who may read."""
    measured: list[tuple[Times, Times]] = []
    with ExitStack() as stack:
        stopwatch = stack.enter_context(Stopwatch())
        stack.enter_context(parameter("max_user_bindings", MAX_USER_BINDINGS))
        for uid in (NOBODY, NOBODY - 1):
            bound = neighbour("open 17 names $.Own.N 4096 done pause", uid=uid)
            assert bound.refused_with == "ENOSPC"
        assert device_stats()["bindings"] >= 2 * MAX_USER_BINDINGS

        def times(orders: str) -> Times:
            with neighbour(orders, uid=NOBODY - 2) as one:
                assert one.is_running()
                assert one.refused_with == ""
                return stopwatch.measure("bind", COUNT, INTERVAL)

        while not measured or measured[-1][1].mean > GOAL * measured[-1][0].mean:
            assert len(measured) < ATTEMPTS, measured
            measured.append((times(BUSY), times(READERS)))
    print(measured)
