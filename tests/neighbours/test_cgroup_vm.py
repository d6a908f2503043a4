# SPDX-License-Identifier: MIT
"""A neighbour in a cgroup with little memory: rule 37."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernel.cgroup import kernel_memory
from tests.kernel.helpers import wait_until
from tests.neighbours.bystanders import Bystanders
from tests.neighbours.neighbour import StartNeighbour

MEMORY = 24 << 20
"""Bytes; less than max_queue_bytes, and than a user may have."""


@pytest.mark.rule(37)
@pytest.mark.axiom("isolation", "lifetime")
@pytest.mark.parametrize(
    ("prepare", "fill"),
    [
        ("open 1 queue 10000 bind $.Own 1 send $.Own MEGABYTE 0 read", "flood $.Own MEGABYTE 0 read"),
        ("open 32 queue 10000 bind $.Own 1 send $.Own 0 0 read", "flood $.Own 0 0 read"),
        ("", f"open 16 names $.{'Own' * 120}.N 4096 close"),
    ],
    ids=["messages", "copies", "bindings"],
)
def test_a_cgroup_with_little_memory(
    cgroup: Path, bystanders: Bystanders, neighbour: StartNeighbour, prepare: str, fill: str
) -> None:
    (cgroup / "memory.max").write_text(str(MEMORY))
    with neighbour(f"{prepare} {fill} done loop {fill}", cgroup=cgroup) as hoarder:
        assert hoarder.refused_with == "ENOMEM"
        wait_until(lambda: kernel_memory(cgroup) > MEMORY // 2, "the memory is used")
        for _ in range(3):
            bystanders.window()
            assert kernel_memory(cgroup) <= MEMORY
        assert hoarder.is_running()
    events = dict(line.split() for line in (cgroup / "memory.events").read_text().splitlines())
    assert int(events["max"]) > 0
    assert events["oom_kill"] == "0"
    wait_until(lambda: kernel_memory(cgroup) < 1 << 20, "the memory is free again")
