# SPDX-License-Identifier: MIT
"""Whoever reads /proc/kbus again and again holds up nobody who binds: rule 47."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from tests.effort import reduced
from tests.kernel.helpers import device_stats
from tests.kernel.module import parameter
from tests.kernel.processes import NOBODY
from tests.neighbours.bystanders import BYSTANDERS_CPU, INTERVAL, PROGRAMS, UID
from tests.neighbours.neighbour import Neighbour, StartNeighbour
from tests.neighbours.scenarios import BUSY_ELSEWHERE

GOAL = 2.0
"""How many times its idle value the time of others' BIND and UNBIND may be."""
ATTEMPTS = 3
"""How often that is measured before it is a failure: the host may stop a processor that holds a lock."""
MAX_USER_BINDINGS = reduced(65536)
WINDOW = 4000
"""Milliseconds, in which each of the readers takes a snapshot or more."""
READERS = "done fork 8 loop file /proc/kbus/bindings"


class Times(NamedTuple):
    """How many pairs of BIND and UNBIND there were, and the microseconds that one took."""

    pairs: int
    mean: float
    max: float


class Binder:
    """A KSock of a process, which runs on BYSTANDERS_CPU as the user UID, and binds and unbinds."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [PROGRAMS / "binder", str(BYSTANDERS_CPU), str(INTERVAL)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=UID,
            group=UID,
            extra_groups=[],
        )

    def window(self) -> Times:
        """Bind and unbind for a while."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{WINDOW}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the binder died, see its stderr"
        return Times(**json.loads(line))

    def close(self) -> None:
        """End it."""
        self._process.communicate()
        assert self._process.returncode == 0


@pytest.fixture
def binder(nothing_left: None, open_to_all: None) -> Iterator[Binder]:
    """Somebody who binds and unbinds."""
    one = Binder()
    yield one
    one.close()


@pytest.mark.rule(35, 47)
@pytest.mark.axiom("isolation")
def test_others_can_bind(binder: Binder, neighbour: StartNeighbour) -> None:
    """With as many bindings as two users may have, and 8 readers who may read."""
    bindings = "open 17 names $.Own.N 4096 done pause"
    with ExitStack() as stack:
        stack.enter_context(parameter("max_user_bindings", MAX_USER_BINDINGS))
        for uid in (NOBODY, NOBODY - 1):
            assert stack.enter_context(neighbour(bindings, uid=uid)).refused_with == "ENOSPC"
        assert device_stats()["bindings"] >= 2 * MAX_USER_BINDINGS
        measured = []
        for _ in range(ATTEMPTS):
            idle = times(binder, BUSY_ELSEWHERE.orders[0])
            hostile = times(binder, READERS)
            measured.append((idle, hostile))
            if hostile.mean <= GOAL * idle.mean:
                break
        else:
            pytest.fail(f"idle and with readers: {measured}")
        print(measured)


def times(binder: Binder, orders: str) -> Times:
    with Neighbour(orders, NOBODY - 2) as neighbour:
        assert neighbour.is_running()
        assert neighbour.refused_with == ""
        return binder.window()
