# SPDX-License-Identifier: MIT
"""How many messages were lost while a section was recorded, if it has no statistics."""

from __future__ import annotations

from typing import Optional

from .header import LOST_BEFORE
from .reader import Facts


class Losses:
    """What was lost from the beginning of one section to its last message, as its messages tell.

    Nothing is known of a section that does not say what it is a recording of: a tool that has put several
    together leaves one section for them all.
    """

    def __init__(self) -> None:
        self._spans: dict[Optional[int], tuple[int, int]] = {}
        self._before: dict[Optional[int], int] = {}
        #: Of so many interfaces
        self._known = 0

    def add(self, facts: Facts) -> None:
        """Count what this message tells. They come in their order."""
        if "recorder" not in facts.section.info:
            return
        span = self._spans.get(facts.bus)
        first = span[0] if span else self._lost_before(facts)
        self._spans[facts.bus] = first, facts.lost

    def _lost_before(self, facts: Facts) -> int:
        interfaces, before = facts.section.interfaces, facts.section.info.get(LOST_BEFORE, [])
        # There may be more of them by now.
        for index in range(self._known, min(len(interfaces), len(before))):
            self._before[interfaces[index].bus] = before[index]
            self._known += 1
        return self._before.get(facts.bus, facts.lost)

    def of(self, bus: Optional[int]) -> int:
        """How many messages of this device."""
        first, last = self._spans.get(bus, (0, 0))
        return max(0, last - first)
