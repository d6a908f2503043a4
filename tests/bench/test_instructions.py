# SPDX-License-Identifier: MIT
"""Messages take no more instructions than they may."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.bench import icount
from tests.bench.cpio import archive
from tests.vm import kernels

PROGRAMS = Path(__file__).parent / "c"
TOLERANCE = 0.05


@pytest.fixture
def kernel() -> Path:
    """What the budget is for: Debian's stock kernel."""
    if os.environ.get("KERNEL"):
        pytest.skip("the budget is for Debian's stock kernel")
    subprocess.run(["make", "-s", "-C", PROGRAMS], check=True)
    return icount.image(kernels.find(""))


@pytest.mark.long("counts instructions under emulation")
def test_messages_are_within_the_budget(kernel: Path) -> None:
    if not icount.MODULE.is_file():
        pytest.skip("there is no module: make module")
    budget = json.loads(icount.BUDGET.read_text())
    assert icount.exceeded(icount.count(kernel), budget["instructions"], budget["tolerance"]) == []


@pytest.mark.long("boots an emulated machine")
def test_a_module_that_cannot_be_loaded(kernel: Path, tmp_path: Path) -> None:
    module = tmp_path / "kbus.ko"
    module.write_bytes(b"no module")
    with pytest.raises(icount.BrokenMachineError, match=r"/kbus\.ko"):
        icount.count(kernel, module)


@pytest.mark.parametrize(("count", "is_wrong"), [(1049, False), (1051, True), (951, False), (949, True)])
def test_what_exceeds_the_budget(count: int, is_wrong: bool) -> None:
    """Too few is wrong, too: the next regression would have all of that room."""
    assert bool(icount.exceeded({"case": count}, {"case": 1000}, TOLERANCE)) == is_wrong


def test_each_case_has_a_budget_and_each_budget_a_case() -> None:
    assert icount.exceeded({"new": 1}, {"old": 1}, TOLERANCE) == ["new: no budget", "old: not counted"]
    budget = json.loads(icount.BUDGET.read_text())
    assert list(budget["instructions"]) == list(icount.CASES)


def test_an_archive_as_cpio_reads_it(tmp_path: Path) -> None:
    content = {"init": b"\x7fELF", "cases": b"one line\n"}
    subprocess.run(["busybox", "cpio", "-i", *content], input=archive(content), cwd=tmp_path, check=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == content


def test_an_archive_has_no_directories() -> None:
    with pytest.raises(ValueError, match="directory"):
        archive({"bin/sh": b""})
