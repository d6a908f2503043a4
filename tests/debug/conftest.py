# SPDX-License-Identifier: MIT
"""Fixtures of the tests that need a kernel that can make allocations and copies fail: KERNEL=um or debug."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.debug import faults
from tests.kernel.conftest import child, ksock, new_device, nothing_left

__all__ = ["child", "ksock", "new_device", "nothing_left"]


@pytest.fixture(scope="session", autouse=True)
def fault_injection() -> Iterator[None]:
    """Faults can be injected; what came of it is a table in $RESULTS/faults.inc afterwards."""
    faults.configure()
    yield
    if faults.counts and "RESULTS" in os.environ:
        Path(os.environ["RESULTS"], "faults.inc").write_text(faults.table())
