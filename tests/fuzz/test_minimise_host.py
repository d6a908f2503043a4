# SPDX-License-Identifier: MIT
"""The minimiser, with a predicate in place of a virtual machine, and the files that it reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Optional

import pytest

from .cases import Operation, programs, read, render
from .ddmin import ddmin

TEXT = """worker 0 threads 3
program 7
0 open 0 0 2
1 close 0
program 8
2 take 0 0
worker 1 threads 3
program 7
0 send 1 0
"""


class Oracle:
    """Cases fail when they have what `fails` wants; counts how often it was asked."""

    def __init__(self, fails: Callable[[list[int]], bool]) -> None:
        self._fails = fails
        self.asked = 0

    def __call__(self, cases: list[list[int]]) -> Optional[int]:
        self.asked += 1
        assert [] not in cases
        return next((index for index, case in enumerate(cases) if self._fails(case)), None)


@pytest.mark.parametrize("needed", [{0}, {99}, {3, 50}, {17, 18, 19, 80}, set(range(40, 60))])
def test_what_is_needed_is_left_and_nothing_else(needed: set[int]) -> None:
    assert ddmin(range(100), Oracle(lambda items: needed <= set(items))) == sorted(needed)


def test_when_any_of_two_will_do_one_is_left() -> None:
    assert ddmin(range(64), Oracle(lambda items: 5 in items or 60 in items)) in ([5], [60])


def test_it_asks_seldom() -> None:
    oracle = Oracle(lambda items: {11, 700} <= set(items))
    assert ddmin(range(1000), oracle) == [11, 700]
    assert oracle.asked < 40


def test_what_does_not_fail_cannot_be_made_smaller() -> None:
    with pytest.raises(ValueError, match="does not fail"):
        ddmin([1, 2, 3], Oracle(lambda items: False))


def test_files_come_back_as_they_were(tmp_path: Path) -> None:
    file = tmp_path / "case.ops"
    file.write_text(TEXT)
    operations = read(file)
    assert operations[0] == Operation("worker 0 threads 3", "program 7", "0 open 0 0 2")
    assert render(operations) == TEXT
    assert [len(program) for program in programs(operations)] == [2, 1, 1]
    assert render(operations[2:3]) == "worker 0 threads 3\nprogram 8\n2 take 0 0\n"


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "case.ops"
    file.write_text(TEXT[:-3])
    assert render(read(file)) == TEXT[: TEXT.index("worker 1")]


def test_an_operation_needs_a_program(tmp_path: Path) -> None:
    file = tmp_path / "case.ops"
    file.write_text("worker 0 threads 3\n0 close 0\n")
    with pytest.raises(ValueError, match="not of a program: 0 close 0"):
        read(file)
