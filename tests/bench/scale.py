# SPDX-License-Identifier: MIT
"""10,000 KSocks and 100,000 bindings on a device: what each costs, and what it does if there are few."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAM = Path(__file__).parent / "c" / "bin" / "scale"
PARAMETERS = Path("/sys/module/kbus/parameters")
KSOCKS = (10, 10_000)
EACH = 10
"""Bindings of a KSock."""


def scale() -> list[dict[str, float]]:
    """What c/scale.c prints, for few and for many: ns and bytes. Raises CalledProcessError."""
    with ExitStack() as stack:
        stack.enter_context(_parameter("max_user_ksocks", 2 * max(KSOCKS)))
        stack.enter_context(_parameter("max_user_bindings", 2 * EACH * max(KSOCKS)))
        return [_measure(ksocks, EACH * ksocks) for ksocks in KSOCKS]


def _measure(ksocks: int, bindings: int) -> dict[str, float]:
    print(f"{ksocks:,} KSocks and {bindings:,} bindings", file=sys.stderr, flush=True)
    done = subprocess.run(
        [PROGRAM, str(ksocks), str(bindings)], stdout=subprocess.PIPE, text=True, check=True
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@contextmanager
def _parameter(name: str, value: int) -> Iterator[None]:
    """A parameter of the module, until the end of the block."""
    path = PARAMETERS / name
    before = path.read_text()
    path.write_text(str(value))
    yield
    path.write_text(before)
