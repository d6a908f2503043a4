# SPDX-License-Identifier: MIT
"""Parts of the tests: each test is in one of them."""

from __future__ import annotations

import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]


def collected(test: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-p", "tests.vm.part", "--collect-only", "-q"]
    done = subprocess.run(
        [*command, *options, str(test)], cwd=REPO, stdout=subprocess.PIPE, text=True, check=False
    )
    return [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_each_test_is_in_one(tmp_path: Path, parts: int) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("".join(f"def test_{number}(): pass\n" for number in range(7)))
    found = [collected(test, "--part", f"{number}/{parts}") for number in range(1, parts + 1)]
    assert sorted(chain(*found)) == collected(test) == [f"test_{number}" for number in range(7)]
    assert max(map(len, found)) <= min(map(len, found)) + 1


@pytest.mark.parametrize("part", ["0/2", "3/2", "2", "one/2"])
def test_what_is_no_part(tmp_path: Path, part: str) -> None:
    assert not collected(tmp_path, "--part", part)
