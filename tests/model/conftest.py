# SPDX-License-Identifier: MIT
"""What the tests of the model share: the markers of the module's tests, and a device."""

from __future__ import annotations

import pytest

from tests.kernel.conftest import pytest_configure

from .bus import Device

__all__ = ["device", "pytest_configure"]


@pytest.fixture
def device() -> Device:
    """A device of the model on which nobody is."""
    return Device()
