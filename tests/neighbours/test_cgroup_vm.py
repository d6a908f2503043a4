# SPDX-License-Identifier: MIT
"""A neighbour in a cgroup with little memory: rule 37."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.effort import reduced
from tests.kernel.cgroup import kernel_memory
from tests.kernel.helpers import wait_until
from tests.neighbours.bystanders import Bystanders
from tests.neighbours.neighbour import StartNeighbour

MIB = 1 << 20


@pytest.mark.rule(37)
@pytest.mark.axiom("isolation", "lifetime")
@pytest.mark.parametrize(
    ("memory", "prepare", "fill"),
    [
        (24, "open 1 queue 10000 bind $.Own 1 send $.Own MEGABYTE 0 read", "flood $.Own MEGABYTE 0 read"),
        (4, "open 32 queue 10000 bind $.Own 1 send $.Own 0 0 read", "flood $.Own 0 0 read"),
        (4, "", "open 16 names $.Own.N 4096 close"),
    ],
    ids=["messages", "copies", "bindings"],
)
def test_a_cgroup_with_little_memory(
    cgroup: Path, bystanders: Bystanders, neighbour: StartNeighbour, memory: int, prepare: str, fill: str
) -> None:
    """That is less than a queue may have, and than a user may."""
    most = memory * MIB
    (cgroup / "memory.max").write_text(str(most))
    with neighbour(f"{prepare} {fill} done loop {fill}", cgroup=cgroup) as hoarder:
        assert hoarder.refused_with == "ENOMEM"
        wait_until(lambda: kernel_memory(cgroup) > most // 2, "the memory is used")
        for _ in range(reduced(3)):
            bystanders.window()
            assert kernel_memory(cgroup) <= most
        assert hoarder.is_running()
    events = dict(line.split() for line in (cgroup / "memory.events").read_text().splitlines())
    assert int(events["max"]) > 0
    assert events["oom_kill"] == "0"
    wait_until(lambda: kernel_memory(cgroup) < MIB, "the memory is free again")
