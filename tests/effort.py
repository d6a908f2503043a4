# SPDX-License-Identifier: MIT
"""How much is made of tests that are the better the longer they take.

KBUS_TEST_DIVISOR divides it: on kernels that watch everything, each step takes long, and shows more.
"""

from __future__ import annotations

import os

DIVISOR = int(os.environ.get("KBUS_TEST_DIVISOR", "1"))


def reduced(amount: int) -> int:
    """So many rounds, seconds or things; fewer with a divisor, and one at least."""
    return max(1, amount // DIVISOR)
