# SPDX-License-Identifier: MIT
"""Who does not read pays, and not the sender: rule 44."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.effort import reduced
from tests.kernel.cgroup import NewCgroup, current, events
from tests.kernel.helpers import wait_until
from tests.kernel.processes import NOBODY
from tests.neighbours.neighbour import StartNeighbour

pytestmark = [pytest.mark.axiom("isolation"), pytest.mark.rule(37, 44)]

MIB = 1 << 20
SENDERS_MEMORY = 24 * MIB
SECONDS = int(os.environ.get("KBUS_TEST_OBSERVED_SECONDS", reduced(8)))
"""For how long the sender sends, each time."""


@pytest.mark.parametrize("words", ["512", "MEGABYTE"])
@pytest.mark.parametrize("order", ["observe $.*", "bind $.Own 1"], ids=["observer", "listener"])
def test_a_sender_with_little_memory(
    new_cgroup: NewCgroup, neighbour: StartNeighbour, order: str, words: str
) -> None:
    """It sends more than it could have, to another user who reads nothing."""
    senders, readers = new_cgroup("sender"), new_cgroup("reader")
    (senders / "memory.max").write_text(str(SENDERS_MEMORY))
    neighbour(f"open 1 queue 10000 {order} done pause", uid=NOBODY - 1, cgroup=readers)
    with neighbour("open 1 send $.Own 0 0 done pause", cgroup=senders):
        idle = current(senders)
    with neighbour(f"open 1 chatter {SECONDS} $.Own {words} done pause", cgroup=senders) as sender:
        assert sender.refused_with == ""
        assert sender.is_running()
        assert_undisturbed(senders)
        assert current(readers) > SENDERS_MEMORY
        wait_until(lambda: current(senders) - idle <= MIB, "the sender has what it had when it was idle")
    assert_undisturbed(readers)


def assert_undisturbed(group: Path) -> None:
    """Nobody of the cgroup was killed, or had to look for memory."""
    seen = events(group)
    assert [seen[name] for name in ("max", "oom", "oom_kill")] == [0, 0, 0]
