# SPDX-License-Identifier: MIT
"""How much work and memory something takes, which no other load on the machine changes."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any


def instructions(do: Callable[[], object]) -> int:
    """How many instructions Python runs for it; what C does is not counted."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        do()
    finally:
        sys.settrace(before)
    return count


def peak_memory(do: Callable[[], object]) -> int:
    """How many bytes of memory it has at most, what it returns included."""
    tracemalloc.start()
    try:
        kept = do()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del kept
    return peak
