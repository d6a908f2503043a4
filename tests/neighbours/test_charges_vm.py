# SPDX-License-Identifier: MIT
"""Messages are charged for what they take: rule 44."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.effort import DIVISOR
from tests.kernel import raw
from tests.kernel.cgroup import current
from tests.kernel.helpers import stats_lines
from tests.kernel.module import parameter
from tests.kernel.processes import NOBODY
from tests.neighbours.neighbour import StartNeighbour

MIB = 1 << 20
LIMIT = 32 * MIB
"""Bytes that the user may have: many times what each processor has in advance for a cgroup, 256 KiB."""
GOAL = 0.15
"""How far what is charged may be from what is taken."""


@pytest.mark.rule(37, 44)
@pytest.mark.axiom("isolation")
@pytest.mark.skipif(DIVISOR > 1, reason="a kernel that watches memory adds to each object")
@pytest.mark.parametrize("length", [64, 2 << 10, 64 << 10, 1 << 20])
def test_what_a_user_may_have_is_what_it_can_take(
    cgroup: Path, neighbour: StartNeighbour, length: int
) -> None:
    """A user's account is filled; the cgroup, which all memory is charged to, says what that took.

    The sender is another user, but in the same cgroup, so that it does not matter here who of the two pays.
    """
    words = (length - len(raw.message(b"$.Own"))) // 4
    with (
        parameter("max_user_bytes", LIMIT),
        parameter("max_queue_bytes", 1 << 30),
        parameter("max_queue_length", 1 << 20),
    ):
        neighbour(f"open 1 queue {1 << 20} bind $.Own 1 done pause", cgroup=cgroup)
        idle = current(cgroup)
        sending = f"open 1 flood $.Own {words} ALL_OR_FAIL done pause"
        with neighbour(sending, uid=NOBODY - 1, cgroup=cgroup) as sender:
            assert sender.refused_with == "EBUSY"
        taken = current(cgroup) - idle
        (queue,) = (line.numbers for line in stats_lines() if line.numbers.get("uid") == NOBODY)
    each = f"{queue['queued']} messages, each charged {LIMIT / queue['queued']:.0f} and taking "
    assert LIMIT / taken == pytest.approx(1, abs=GOAL), each + f"{taken / queue['queued']:.0f}"
