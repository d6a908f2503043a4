# SPDX-License-Identifier: MIT
"""Make a list that fails smaller: Zeller's ddmin, by complements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Optional, TypeVar

Item = TypeVar("Item")


def ddmin(items: Sequence[Item], first_failing: Callable[[list[list[Item]]], Optional[int]]) -> list[Item]:
    """The items that are left when none can be removed without the failure going away.

    `first_failing` is given several lists at once, with items in their order and never none of them, and
    gives the index of the first one that fails. Asking seldom matters, how many lists there are does not.
    ValueError if not even all the items fail.
    """
    left = list(items)
    if first_failing([left]) is None:
        raise ValueError("it does not fail")
    pieces = 2
    while len(left) > 1:
        size = max(1, len(left) // pieces)
        candidates = [left[:start] + left[start + size :] for start in range(0, len(left), size)]
        found = first_failing(candidates)
        if found is not None:
            left = candidates[found]
            pieces = max(2, pieces - 1)
        elif size == 1:
            break
        else:
            pieces *= 2
    return left
