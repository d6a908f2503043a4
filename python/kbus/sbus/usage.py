# SPDX-License-Identifier: MIT
"""How much the patterns with ``*`` of a client, and of all of its user, take: work for everybody's keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .limits import DEEPEST_WILDCARD, Limits


class OverLimit(ValueError):
    """The client, or its user, has as many subscriptions as it may have."""


class Usage:
    """What some patterns with ``*`` take. ``segments`` is how many segments they have.

    ``globs`` is how many ``*`` there are in different segments that have other bytes, too: one search in the
    key for each. The same segment at the same place is searched for once.
    """

    def __init__(self) -> None:
        self.segments = 0
        self.globs = 0
        #: how many patterns have this segment at this place
        self._places: Counter[tuple[int, bytes]] = Counter()

    def check(self, segments: Sequence[bytes], limits: Limits) -> None:
        """Raise OverLimit if one more pattern, with these segments, is too much."""
        if len(segments) > DEEPEST_WILDCARD:
            raise OverLimit(f"a pattern with * of over {DEEPEST_WILDCARD} segments")
        if self.segments + len(segments) > limits.wildcards:
            raise OverLimit(f"over {limits.wildcards} segments of the user's patterns with *")
        more = sum(_searches(place) for place in _globs(segments) if place not in self._places)
        if self.globs + more > limits.globs:
            raise OverLimit(f"over {limits.globs} times * beside other bytes in the user's patterns")

    def add(self, segments: Sequence[bytes]) -> None:
        """Have one more pattern with these segments."""
        self.segments += len(segments)
        for place in _globs(segments):
            if not self._places[place]:
                self.globs += _searches(place)
            self._places[place] += 1

    def remove(self, segments: Sequence[bytes]) -> None:
        """Have one less."""
        self.segments -= len(segments)
        for place in _globs(segments):
            self._less(place, 1)

    def subtract(self, other: Usage) -> None:
        """Have no more what ``other`` has."""
        self.segments -= other.segments
        for place, count in other._places.items():
            self._less(place, count)

    def _less(self, place: tuple[int, bytes], count: int) -> None:
        self._places[place] -= count
        if not self._places[place]:
            del self._places[place]
            self.globs -= _searches(place)


def _globs(segments: Sequence[bytes]) -> list[tuple[int, bytes]]:
    return [(index, each) for index, each in enumerate(segments) if b"*" in each and each != b"*"]


def _searches(place: tuple[int, bytes]) -> int:
    return place[1].count(b"*")
