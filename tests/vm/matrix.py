# SPDX-License-Identifier: MIT
"""`python3 -m tests.vm.matrix [KERNEL...]`: the tests that need the VM on each kernel, in a table."""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import re
import shutil
import subprocess
import sys
from dataclasses import astuple, dataclass
from pathlib import Path

from tests.setup import summary

from . import dmesg
from .arch import split
from .kernels import FROM_SOURCE

REPO = Path(__file__).parents[2]
RESULTS = REPO / "build" / "matrix"
TABLE = REPO / "docs" / "testing" / "kernels.inc"

STOCK = "6.1"
OTHERS = ("6.1-rt", "6.12", "6.12-rt", "arm64", "armhf", *FROM_SOURCE)
"""What KBUS is tested on beside STOCK, in the order of the table."""

LIMIT = 7200
"""Seconds for the tests on one kernel; on a busy machine an emulated processor is slow."""
GOOD = "clean"
_HEAD = """\
.. SPDX-License-Identifier: MIT
.. Made by `make matrix`.

.. csv-table::
   :header: "KERNEL=", "release", "processor", "tests", "seconds", "kernel log", "date", "commit"

"""
_INDENT = "   "


@dataclass(frozen=True)
class Row:
    """What came of the tests on one kernel; the texts of a line of the table."""

    kernel: str
    """As KERNEL= names it."""
    release: str
    """As the guest said; empty if it has not come up."""
    arch: str
    tests: str
    seconds: str
    """The tests' own time, without the boot."""
    verdict: str
    """GOOD, or what was wrong."""
    date: str
    commit: str


def evaluate(kernel: str, results: Path, status: int, date: str, commit: str) -> Row:
    """What is in the directory that a run on `kernel` has left; `status` is what make returned."""
    has_report = (results / "tests.xml").is_file()
    log, release = results / "kernel.log", results / "release"
    problems = dmesg.problems(log.read_text(errors="replace").replace("\r", "")) if log.is_file() else []
    passed, failed, skipped, seconds = summary.total(results)
    if not log.is_file():
        verdict = "could not be built"
    elif problems:
        verdict = re.sub(r"^\[[^]]*\] ", "", problems[0].splitlines()[0])
    elif not release.is_file():
        verdict = "did not boot"
    elif not has_report:
        verdict = "ended before the tests did"
    elif status != 0 and failed == 0:
        verdict = "clean, but the run failed"
    else:
        verdict = GOOD
    return Row(
        kernel,
        release.read_text().strip() if release.is_file() else "",
        split(kernel)[1].debian,
        summary.words(passed, failed, skipped) if has_report else "none",
        f"{seconds:.0f}" if has_report else "",
        verdict,
        date,
        commit,
    )


def merge(table: str, rows: list[Row]) -> str:
    """The text of the table with these rows in it; other rows stay, and what has never run says so."""
    old = [line.removeprefix(_INDENT) for line in table.splitlines() if line.startswith(_INDENT + '"')]
    order = [STOCK, *OTHERS]
    known = [Row(name, "", split(name)[1].debian, "not run", "", "", "", "") for name in order]
    merged = {row.kernel: list(astuple(row)) for row in known}
    merged.update({values[0]: values for values in csv.reader(old)})
    merged.update({row.kernel: list(astuple(row)) for row in rows})
    names = sorted(merged, key=lambda name: order.index(name) if name in order else len(order))
    lines = io.StringIO()
    csv.writer(lines, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(merged[name] for name in names)
    return _HEAD + "".join(_INDENT + line for line in lines.getvalue().splitlines(keepends=True))


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=REPO, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def _run(kernel: str) -> Row:
    results = RESULTS / kernel
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    # Before the tests, in which somebody may edit.
    commit = _git("describe", "--always", "--dirty", "--exclude=*")
    print(f"matrix: {kernel}", flush=True)
    target = "test-debug" if kernel in FROM_SOURCE else "test-vm"
    command = [
        "make",
        "-s",
        target,
        f"KERNEL={kernel}",
        f"results={results}",
        f"limit={LIMIT}",
        "parts=1",
        # User Mode Linux lacks what some tests need, and has one processor.
        "marks=not qemu" if kernel == "um" else "marks=",
    ]
    status = subprocess.run(command, cwd=REPO, check=False).returncode
    return evaluate(kernel, results / "1", status, datetime.date.today().isoformat(), commit)


def main() -> int:
    """Run the tests and rewrite the rows of the table, each when it is known; 1 unless all went well."""
    parser = argparse.ArgumentParser(prog="matrix", description="Run the tests of the VM on several kernels.")
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="as for make; all if none is given")
    options = parser.parse_args()
    bad = []
    for kernel in options.kernels or [STOCK, *OTHERS]:
        row = _run(kernel)
        TABLE.write_text(merge(TABLE.read_text() if TABLE.exists() else "", [row]))
        if row.verdict != GOOD or " 0 failed" not in row.tests:
            bad.append(f"matrix: {kernel}: {row.tests}; {row.verdict}")
    print("\n".join(bad or ["matrix: all is well"]))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
