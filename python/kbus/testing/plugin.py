# SPDX-License-Identifier: MIT
"""A plug-in of pytest: the fixture ``kbus_bus``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .bus import Bus


@pytest.fixture
def kbus_bus() -> Iterator[Bus]:
    """A bus of its own for a test, in the place of the module; see ``kbus.testing.Bus``."""
    with Bus(quiet=True) as bus:
        yield bus
