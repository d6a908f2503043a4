# SPDX-License-Identifier: MIT
"""A cgroup with the memory controller, for tests that charge kernel memory to one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.helpers import wait_until


@pytest.fixture
def cgroup(tmp_path: Path) -> Iterator[Path]:
    """A new cgroup with the memory controller."""
    root = tmp_path / "cgroup"
    root.mkdir()
    subprocess.run(["mount", "-t", "cgroup2", "none", root], check=True)
    (root / "cgroup.subtree_control").write_text("+memory")
    group = root / "kbus-test"
    group.mkdir()
    yield group
    wait_until(lambda: not (group / "cgroup.procs").read_text(), "the cgroup is empty")
    group.rmdir()
    subprocess.run(["umount", root], check=True)


def kernel_memory(group: Path) -> int:
    """Bytes of kernel memory that the cgroup is charged for."""
    stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return int(stat["kernel"])
