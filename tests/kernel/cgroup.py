# SPDX-License-Identifier: MIT
"""A cgroup with the memory controller, for tests that charge kernel memory to one."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Protocol

import pytest

from tests.kernel.helpers import wait_until
from tests.kernel.patching import one_processor

_PR_SET_THP_DISABLE = 41


class NewCgroup(Protocol):
    """Makes one more cgroup with the memory controller; in the end nobody may be in it."""

    def __call__(self, name: str) -> Path: ...


@pytest.fixture
def new_cgroup(tmp_path: Path) -> Iterator[NewCgroup]:
    """Makes cgroups with the memory controller, side by side."""
    root = tmp_path / "cgroup"
    root.mkdir()
    subprocess.run(["mount", "-t", "cgroup2", "none", root], check=True)
    (root / "cgroup.subtree_control").write_text("+memory")
    _charge_kernel_memory()
    _take_small_pages()
    made: list[Path] = []

    def make(name: str) -> Path:
        group = root / name
        group.mkdir()
        made.append(group)
        return group

    yield make
    for group in made:
        wait_until(partial(_is_empty, group), "the cgroup is empty")
        group.rmdir()
    subprocess.run(["umount", root], check=True)


@cache
def _charge_kernel_memory() -> None:
    """The first cgroup with the controller switches that on, for good."""
    with tempfile.TemporaryDirectory() as root, one_processor():
        subprocess.run(["mount", "-t", "cgroup2", "none", root], check=True)
        first = Path(root, "kbus-first")
        first.mkdir()
        first.rmdir()
        subprocess.run(["umount", root], check=True)


@cache
def _take_small_pages() -> None:
    """What this process takes itself while it is in a cgroup is to be little, and not 2 MiB now and then."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


@pytest.fixture
def cgroup(new_cgroup: NewCgroup) -> Path:
    """A new cgroup with the memory controller."""
    return new_cgroup("kbus-test")


def _is_empty(group: Path) -> bool:
    return not (group / "cgroup.procs").read_text()


def enter(group: Path) -> None:
    """Move this process into the cgroup; what it has opened stays where it was opened."""
    (group / "cgroup.procs").write_text(str(os.getpid()))


def current(group: Path) -> int:
    """Bytes that the cgroup is charged for, and some that each processor has in advance for it."""
    return int((group / "memory.current").read_text())


def events(group: Path) -> dict[str, int]:
    """How often the cgroup was at its limits, and what came of it."""
    lines = (group / "memory.events").read_text().splitlines()
    return {name: int(count) for name, count in (line.split() for line in lines)}


def kernel_memory(group: Path) -> int:
    """Bytes of kernel memory that the cgroup is charged for."""
    stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return int(stat["kernel"])
