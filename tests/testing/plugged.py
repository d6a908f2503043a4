# SPDX-License-Identifier: MIT
"""pytest, run in a process of its own with the plug-in of kbus.testing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import kbus

_PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "kbus.testing.plugin", "-p", "no:cacheprovider")


def run_tests(path: Path) -> str:
    """Run the tests in a file, which all must pass; what pytest has printed."""
    done = subprocess.run(
        [*_PYTEST, path.name],
        cwd=path.parent,
        env={**os.environ, "PYTHONPATH": str(Path(kbus.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
