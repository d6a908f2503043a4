# SPDX-License-Identifier: MIT
"""Buses on which commands can run without the module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kbus.testing import Bus
from tests.testing.reached import served


@pytest.fixture
def bus() -> Iterator[Bus]:
    """A bus inside this process."""
    with Bus(quiet=True) as one:
        yield one


@pytest.fixture
def bus_path() -> Iterator[str]:
    """A bus for this process and those that have this as KBUS_TEST_BUS."""
    with served() as path:
        yield path
