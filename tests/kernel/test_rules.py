# SPDX-License-Identifier: MIT
"""Every rule, axiom and part of the ABI has a test, and every marker means one of them."""

from __future__ import annotations

from tests.kernel.rules import coverage, subjects


def test_everything_is_covered() -> None:
    found = coverage()
    assert [subject for subject in subjects() if subject not in found] == []


def test_markers_name_something() -> None:
    assert set(coverage()) - set(subjects()) == set()
