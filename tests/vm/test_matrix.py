# SPDX-License-Identifier: MIT
"""The table of what passed on which kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import matrix

LOG = "[   13.205385] 9pnet: Limiting 'msize' to 512000\r\n"
WARNING = "[   12.345678] WARNING: CPU: 0 PID: 1 at queue.c:31 kbus_queue_push+0x4f/0x60 [kbus]\n"
CASE = '<testcase classname="tests.kernel.test_send" name="test_{number}" time="10">{failure}</testcase>'


def row(kernel: str, verdict: str = matrix.GOOD) -> matrix.Row:
    """A line of the table."""
    return matrix.Row(kernel, "6.12.1", "amd64", "7 passed, 0 failed", "62", verdict, "2020-02-02", "abc")


@pytest.mark.parametrize(
    ("release", "log", "failed", "status", "tests", "verdict"),
    [
        ("6.12.1", LOG, 0, 0, "7 passed, 0 failed", matrix.GOOD),
        ("6.12.1", LOG, 2, 2, "5 passed, 2 failed", matrix.GOOD),
        ("6.12.1", LOG, 0, 2, "7 passed, 0 failed", "clean, but the run failed"),
        ("6.12.1", LOG + WARNING, 0, 2, "7 passed, 0 failed", WARNING[15:-1]),
        ("6.12.1", LOG, None, 2, "none", "ended before the tests did"),
        ("", "", None, 2, "none", "did not boot"),
        ("", None, None, 2, "none", "could not be built"),
    ],
)
def test_line_says_what_came_of_a_run(
    tmp_path: Path,
    release: str,
    log: str | None,
    failed: int | None,
    status: int,
    tests: str,
    verdict: str,
) -> None:
    if log is not None:
        tmp_path.joinpath("kernel.log").write_text(log)
    if release:
        tmp_path.joinpath("release").write_text(f"{release}\n")
    if failed is not None:
        failures = ["<failure/>"] * failed + [""] * (7 - failed)
        cases = [CASE.format(number=number, failure=each) for number, each in enumerate(failures)]
        tmp_path.joinpath("tests.xml").write_text(
            f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>"
        )
    found = matrix.evaluate("6.12-arm64", tmp_path, status, "2020-02-02", "abc")
    assert (found.release, found.tests, found.verdict) == (release, tests, verdict)
    assert (found.arch, found.seconds) == ("arm64", "" if failed is None else "70")


def test_lines_of_other_kernels_stay_and_all_are_in_order() -> None:
    first = matrix.merge("", [row("armhf", 'says "no", twice'), row("6.12"), row("5.10")])
    second = matrix.merge(first, [row("6.12", "did not boot"), row("6.1")])
    lines = [line.strip() for line in second.splitlines() if line.startswith('   "')]
    found = {line.split(",")[0].strip('"'): line for line in lines}
    assert list(found) == [matrix.STOCK, *matrix.OTHERS, "5.10"]
    assert '"did not boot"' in found["6.12"]
    assert '"says ""no"", twice"' in found["armhf"]
    assert found["arm64"] == '"arm64","","arm64","not run","","","",""'
    assert matrix.merge(second, []) == second
