# SPDX-License-Identifier: MIT
"""`python3 -m tests.setup.summary DIRECTORY...`: what runs of pytest come to, and where their time went.

Each directory is that of a run. It has `tests.xml`, the JUnit file; a run in a guest also leaves `running`,
which names its last test.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

SLOWEST = 10


@dataclass
class Area:
    """Tests that belong together."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    tests: dict[str, float] = field(default_factory=dict)
    """Seconds by test."""


def read(run: Path) -> dict[str, Area]:
    """What a run came to, by the folder that the tests are in.

    A report that is not there, because pytest never got to write it, counts as one failure.
    """
    areas: dict[str, Area] = defaultdict(Area)
    if not (run / "tests.xml").is_file():
        areas["no report"].failed += 1
        return areas
    for case in ElementTree.parse(run / "tests.xml").getroot().iter("testcase"):
        # A module that could not be imported has no class name.
        name = f"{case.attrib['classname']}.{case.attrib['name']}".strip(".").removeprefix("tests.")
        area = areas[name.partition(".")[0]]
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            area.failed += 1
        elif "skipped" in kinds:
            area.skipped += 1
        else:
            area.passed += 1
        area.seconds += float(case.attrib["time"])
        area.tests[name] = float(case.attrib["time"])
    return areas


def total(run: Path) -> tuple[int, int, int, float]:
    """How many tests of a run passed, failed and were skipped, and the seconds that they took."""
    areas = read(run).values()
    passed, failed, skipped = (
        sum(getattr(area, name) for area in areas) for name in ("passed", "failed", "skipped")
    )
    return passed, failed, skipped, sum(area.seconds for area in areas)


def last_test(run: Path) -> str:
    """By whom a guest's limit was passed, or what it died of: the test that had begun; '' if nobody knows."""
    running = run / "running"
    return running.read_text().strip() if running.is_file() else ""


def words(passed: int, failed: int, skipped: int) -> str:
    """These numbers of tests in words; skipped ones only if there are any."""
    return f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")


def main() -> int:
    """Print a table, the slowest tests, and a line for all; 1 if anything failed, or if nothing ran."""
    everything: dict[str, float] = {}
    totals = [0, 0, 0]
    print(f"\n{'run':<12} {'area':<12} {'tests':>6} {'seconds':>8}")
    for run in map(Path, sys.argv[1:]):
        name = "/".join(run.parts[-2:]) if run.name.isdigit() else run.name
        for which, area in sorted(read(run).items(), key=lambda each: -each[1].seconds):
            numbers = (area.passed, area.failed, area.skipped)
            print(f"{name:<12} {which:<12} {sum(numbers):>6} {area.seconds:>8.1f}")
            totals = [total + number for total, number in zip(totals, numbers)]
            everything.update({f"{name} {test}": seconds for test, seconds in area.tests.items()})
            if which == "no report":
                print(f"{name}: ended without a report, in {last_test(run) or 'no test'}")
    print(f"\nThe {SLOWEST} slowest:")
    for test in sorted(everything, key=lambda test: -everything[test])[:SLOWEST]:
        print(f"{everything[test]:>8.1f} s  {test}")
    print(f"\n{words(*totals)}")
    return int(totals[1] > 0 or totals[0] == 0)


if __name__ == "__main__":
    sys.exit(main())
