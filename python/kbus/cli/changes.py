# SPDX-License-Identifier: MIT
"""What differs between two looks at the bindings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..inspect import Binding

__all__ = ["changes"]


def changes(before: Iterable[Binding], after: Iterable[Binding]) -> tuple[list[Binding], list[Binding]]:
    """The bindings that have gone and those that have come, each as often as that.

    Both are given with the newest first, as ``/proc/kbus/bindings`` has them; the oldest come first here.
    """
    before, after = list(before)[::-1], list(after)[::-1]
    return _without(before, after), _without(after, before)


def _without(these: list[Binding], others: list[Binding]) -> list[Binding]:
    there = Counter(others)
    left = []
    for each in these:
        if there[each]:
            there[each] -= 1
        else:
            left.append(each)
    return left
