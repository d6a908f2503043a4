# SPDX-License-Identifier: MIT
"""The tests that 'Test your service' shows, and what they print."""

from __future__ import annotations

from pathlib import Path

from tests.testing.plugged import run_tests

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def test_the_tests_of_the_door() -> None:
    assert run_tests(EXAMPLES / "test_door.py").splitlines()[0].split() == ["..", "[100%]"]
