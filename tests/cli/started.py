# SPDX-License-Identifier: MIT
"""Commands in processes of their own, on a bus that needs no module."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def started(path: str, *arguments: str, stderr: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    """Python with these arguments, on the bus at this path; it is killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", *arguments],
        env={**os.environ, "KBUS_TEST_BUS": path},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
