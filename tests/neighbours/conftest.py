# SPDX-License-Identifier: MIT
"""Fixtures of the tests with hostile neighbours. They run as root in the virtual machine of tests/vm."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kernel.cgroup import cgroup, cpu_max, new_cgroup
from tests.kernel.conftest import child, ksock, new_device, nothing_left, open_to_all
from tests.kernel.processes import NOBODY
from tests.neighbours.bystanders import BYSTANDERS_CPU, Bystanders
from tests.neighbours.neighbour import Neighbour, StartNeighbour

__all__ = [
    "bystanders",
    "cgroup",
    "child",
    "cpu_max",
    "elsewhere",
    "ksock",
    "neighbour",
    "new_cgroup",
    "new_device",
    "nothing_left",
    "open_to_all",
]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They compare times, or take long to fill what there is a limit of."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.long("compares times"))


MAX_FILES, MAX_PROCESSES = 30_000, 20_000


@pytest.fixture(autouse=True)
def elsewhere() -> Iterator[None]:
    """The test itself stays off the bystanders' processor, and neighbours have the usual high limits."""
    cpus = os.sched_getaffinity(0)
    limits = {which: resource.getrlimit(which) for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)}
    os.sched_setaffinity(0, cpus - {BYSTANDERS_CPU})
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_FILES, MAX_FILES))
    resource.setrlimit(resource.RLIMIT_NPROC, (MAX_PROCESSES, MAX_PROCESSES))
    yield
    for which, limit in limits.items():
        resource.setrlimit(which, limit)
    os.sched_setaffinity(0, cpus)


@pytest.fixture
def bystanders(nothing_left: None, open_to_all: None) -> Iterator[Bystanders]:
    """A sender and a listener of a user of their own."""
    pair = Bystanders()
    yield pair
    pair.close()


@pytest.fixture
def neighbour(nothing_left: None, open_to_all: None) -> Iterator[StartNeighbour]:
    """Starts neighbours; all are killed afterwards."""
    with ExitStack() as stack:

        def start(orders: str, uid: int = NOBODY, cgroup: Path | None = None) -> Neighbour:
            return stack.enter_context(Neighbour(orders, uid, cgroup))

        yield start
