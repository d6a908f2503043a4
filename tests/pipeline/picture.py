# SPDX-License-Identifier: MIT
"""Makes the picture of a report for the docs: `python3 -m tests.pipeline.picture`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from kbus.pipeline.cli import main as pipeline
from tests.pipeline import fleet
from tests.pipeline.chromium import Chromium

DOCS = Path(__file__).parents[2] / "docs" / "pipeline" / "report.png"


def main() -> int:
    """0 if it has been made."""
    with tempfile.TemporaryDirectory() as name:
        where = Path(name)
        captures, report = where / "captures", where / "report.html"
        captures.mkdir()
        fleet.make(captures, seconds=3 * 3600)
        words = [
            "--quiet",
            "--master",
            "local[2]",
            "--tables",
            str(where / "tables"),
            "--output",
            str(report),
        ]
        status = pipeline(["run", *words, str(captures)])
        if status == 0:
            shutil.move(Chromium(where).picture(report, 1000, 1500).path, DOCS)
    return status


if __name__ == "__main__":
    sys.exit(main())
