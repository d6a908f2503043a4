# SPDX-License-Identifier: MIT
"""`python3 -m tests.setup.summary FILE...`: what several runs of pytest, in JUnit files, come to."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree


def count(report: Path) -> tuple[int, int, int, float]:
    """How many tests of a report passed, failed and were skipped, and the seconds that they took.

    A report that is not there, because pytest never got to write it, counts as one failure.
    """
    if not report.is_file():
        return 0, 1, 0, 0.0
    suite = ElementTree.parse(report).getroot().find("testsuite")
    assert suite is not None
    number = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    failed = number["failures"] + number["errors"]
    passed = number["tests"] - failed - number["skipped"]
    return passed, failed, number["skipped"], float(suite.attrib["time"])


def words(passed: int, failed: int, skipped: int) -> str:
    """These numbers of tests in words; skipped ones only if there are any."""
    return f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")


def main() -> int:
    """Print a line for each report and one for all; 1 if anything failed, or if nothing ran."""
    totals = [0, 0, 0]
    for report in map(Path, sys.argv[1:]):
        *numbers, seconds = count(report)
        print(f"{report.stem}: {words(*numbers)} in {seconds:.0f} s")
        totals = [total + number for total, number in zip(totals, numbers)]
    print(words(*totals))
    return int(totals[1] > 0 or totals[0] == 0)


if __name__ == "__main__":
    sys.exit(main())
