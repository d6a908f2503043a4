# SPDX-License-Identifier: MIT
"""10,000 KSocks and 100,000 bindings on a device: what each costs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAM = Path(__file__).parent / "c" / "bin" / "scale"
PARAMETERS = Path("/sys/module/kbus/parameters")
KSOCKS, BINDINGS = 10_000, 100_000


def scale() -> dict[str, float]:
    """What c/scale.c prints: ns and bytes. Raises CalledProcessError."""
    print(f"{KSOCKS:,} KSocks and {BINDINGS:,} bindings", file=sys.stderr, flush=True)
    with ExitStack() as stack:
        stack.enter_context(_parameter("max_user_ksocks", 2 * KSOCKS))
        stack.enter_context(_parameter("max_user_bindings", 2 * BINDINGS))
        done = subprocess.run(
            [PROGRAM, str(KSOCKS), str(BINDINGS)], stdout=subprocess.PIPE, text=True, check=True
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
