# SPDX-License-Identifier: MIT
"""Changes that make the kernel patch code that all processors run: tracepoints, static keys and calls.

The kernel puts a breakpoint into the code while it changes it. A processor that QEMU emulates may go on with
that breakpoint for ever, and then the whole machine stands still: seen in less than a hundred changes with
both processors busy, and in none of 3000 with one of them off.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROCESSORS = Path("/sys/devices/system/cpu")


@contextmanager
def one_processor() -> Iterator[None]:
    """All other processors are off. Other tasks that were bound to them are so no more: do this first."""
    switches = [path for path in PROCESSORS.glob("cpu[0-9]*/online") if path.read_text() == "1\n"]
    # Where the first one can be switched off, too, it stays.
    others = [path for path in switches if path.parent.name != "cpu0"]
    bound_to = os.sched_getaffinity(0)
    for switch in others:
        switch.write_text("0")
    try:
        yield
    finally:
        for switch in others:
            switch.write_text("1")
        os.sched_setaffinity(0, bound_to)
