# SPDX-License-Identifier: MIT
"""Leaks of the kernel's own, which must not hide those of the module: kmemleak's reports, told apart."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kernel.helpers import wait_until

KMEMLEAK = Path("/sys/kernel/debug/kmemleak")
YOUNGEST = 6.0
"""Seconds; what has been allocated less than five seconds ago is not reported."""


@contextmanager
def only_from(*functions: str) -> Iterator[None]:
    """Assert that what leaks in the block was allocated on behalf of one of these functions of the kernel.

    Their leaks are then forgotten, so that they do not fail the run.
    """
    yield
    end = time.monotonic() + YOUNGEST
    wait_until(lambda: time.monotonic() > end, "what was allocated last is old enough")
    # What has changed since the scan before is not reported, and to be new is a change.
    for _ in range(2):
        KMEMLEAK.write_text("scan")
    reports = re.split(r"^(?=unreferenced object)", KMEMLEAK.read_text(), flags=re.MULTILINE)[1:]
    KMEMLEAK.write_text("clear")
    by_others = [report for report in reports if not any(f" {name}+0x" in report for name in functions)]
    assert by_others == []
