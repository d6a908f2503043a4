# SPDX-License-Identifier: MIT
"""Make a list that fails smaller: Zeller's ddmin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def ddmin(items: Sequence[Item], fails: Callable[[list[Item]], bool]) -> list[Item]:
    """The items that are left when none can be removed without `fails` becoming false.

    `fails` is asked with items in their order, never with none of them, and must be true of all of them:
    ValueError if it is not.
    """
    left = list(items)
    if not fails(left):
        raise ValueError("it does not fail")
    pieces = 2
    while len(left) > 1:
        size = max(1, len(left) // pieces)
        for start in range(0, len(left), size):
            rest = left[:start] + left[start + size :]
            if rest and fails(rest):
                left = rest
                pieces = max(2, pieces - 1)
                break
        else:
            if size == 1:
                break
            pieces *= 2
    return left
