# SPDX-License-Identifier: MIT
"""What the tests of the model share."""

from __future__ import annotations

import pytest

from kbus.testing.model.bus import Device


@pytest.fixture
def device() -> Device:
    """A device of the model on which nobody is."""
    return Device()
