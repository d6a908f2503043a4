# SPDX-License-Identifier: MIT
"""What in a kernel log means that something is wrong."""

from __future__ import annotations

import re

WRONG = re.compile(
    "|".join(
        [
            r"\bWARNING: ",
            r"\bBUG: ",
            r"\bkernel BUG at ",
            r"\bOops: ",
            r"\bKernel panic\b",
            r"\bgeneral protection fault\b",
            r"\bunable to handle\b",
            r"\bCall Trace:",
            # lockdep, and what else watches over locks
            r"\bINFO: .*lock",
            r"\binconsistent lock state\b",
            r"\bsuspicious RCU usage\b",
            r"\bsleeping function called from invalid context\b",
            r"\bscheduling while atomic\b",
            # tasks and processors that get no further
            r"\bINFO: task .* blocked for more than\b",
            r"\bdetected (expedited )?stalls\b",
            r"\bself-detected stall\b",
            r"\bsoft lockup\b",
            r"\bhard LOCKUP\b",
            # memory
            r"\bKASAN: ",
            r"\bKCSAN: ",
            r"\bKFENCE: ",
            r"\bUBSAN: ",
            r"\bODEBUG: ",
            r"\brefcount_t: ",
            r"\blist_(add|del) corruption\b",
            r"\bpage allocation failure\b",
            r"\bOut of memory\b",
            r"\bObjects remaining\b",
            # KUnit
            r"\bnot ok \d",
        ]
    )
)

CONTEXT = 30
"""Lines shown from each line that is wrong."""


def problems(log: str) -> list[str]:
    """What is wrong in a kernel log: each problem with the lines that follow, CONTEXT in all."""
    lines = log.splitlines()
    pieces = []
    shown = 0
    for number, line in enumerate(lines):
        if number >= shown and WRONG.search(line):
            shown = number + CONTEXT
            pieces.append("\n".join(lines[number:shown]))
    return pieces
