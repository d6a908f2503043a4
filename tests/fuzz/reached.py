# SPDX-License-Identifier: MIT
"""`python3 -m tests.fuzz.reached MODULE FILE...`: which places in the module's code no run has reached.

MODULE is a kbus.ko that KCOV instruments, the FILEs are what kbus-fuzz wrote for it as `reached.txt`. A place
is the return address of a call of __sanitizer_cov_trace_pc, which the compiler puts into each basic block.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

CALL_LENGTH = 4
"""From a call's relocation, which is its operand, to what comes after it, in bytes."""

_FUNCTION = re.compile(r"[0-9a-f]+ <(.+)>:")
_PLACE = re.compile(r"\s+([0-9a-f]+): R_X86_64_\w+\s+__sanitizer_cov_trace_pc\b")


def places(disassembly: Iterable[str]) -> dict[str, list[int]]:
    """The places of each function, as offsets in .text, from the lines of `objdump -dr`."""
    found: dict[str, list[int]] = {}
    function = ""
    for line in disassembly:
        heading = _FUNCTION.match(line)
        place = _PLACE.match(line)
        if heading:
            function = heading[1]
        elif place:
            found.setdefault(function, []).append(int(place[1], 16) + CALL_LENGTH)
    return found


def report(found: dict[str, list[int]], reached: set[int]) -> list[str]:
    """A line for each function of which a place has not been reached, and one for all."""
    lines = []
    for function, offsets in sorted(found.items()):
        missing = [f"{offset:x}" for offset in offsets if offset not in reached]
        if missing:
            lines.append(f"{function}: {len(missing)} of {len(offsets)} missing: {' '.join(missing)}")
    every = {offset for offsets in found.values() for offset in offsets}
    lines.append(f"{len(every & reached)} of {len(every)} places reached")
    return lines


def main() -> int:
    """0 once the report has been printed."""
    parser = argparse.ArgumentParser(prog="reached", description="Which places no run has reached.")
    parser.add_argument("module", type=Path)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a reached.txt")
    options = parser.parse_args()
    command = ["objdump", "-dr", "--no-show-raw-insn", "-j", ".text", str(options.module)]
    disassembly = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    reached = {int(word, 16) for file in options.files for word in file.read_text().split()}
    print("\n".join(report(places(disassembly.splitlines()), reached)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
