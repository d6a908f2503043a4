# SPDX-License-Identifier: MIT
"""Subscriptions to patterns with ``*``, and which of them match a key.

Each subscription is a bit of an integer. A level, which is the place of a segment in a key, has for each
segment that patterns have there the integer of those patterns, and one for those with ``*``. So the patterns
that match are what is left when these are intersected, level by level. The work depends on how many levels
the key has and how many subscriptions there are, and not on in how many ways patterns could match: in a tree
of segments, patterns such as ``a/*/a`` and ``*/a/a`` make a search go two ways at each level.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

from . import patterns

Subscriber = TypeVar("Subscriber", bound=Hashable)

#: Bits of an integer. One that is long is copied for each different segment; many short ones take more steps.
_BITS = 2048


class Pattern(NamedTuple):
    """A pattern with ``*``; with ``is_below`` it ends with a separator, which is not among the segments."""

    segments: Sequence[bytes]
    is_below: bool


class _Level:
    """The bits of the patterns that have a segment at one place."""

    __slots__ = ("any", "below", "ending", "globs", "same")

    def __init__(self) -> None:
        #: those with ``*`` there
        self.any = 0
        #: those with this segment there
        self.same: dict[bytes, int] = {}
        #: likewise, where ``*`` stands beside other bytes
        self.globs: dict[bytes, int] = {}
        #: those that end there
        self.ending = 0
        #: those that end there with the separator
        self.below = 0


class _Block(Generic[Subscriber]):
    """As many subscriptions as an integer has bits."""

    def __init__(self) -> None:
        self._levels: list[_Level] = []
        self._owners: list[Subscriber] = []
        #: the bits of each subscriber
        self._held: dict[Subscriber, int] = {}
        self._used = 0
        self._free: list[int] = []

    @property
    def has_room(self) -> bool:
        return bool(self._free) or len(self._owners) < _BITS

    @property
    def is_empty(self) -> bool:
        return not self._used

    def add(self, pattern: Pattern, who: Subscriber) -> int:
        """Add a subscription, and return its bit."""
        if self._free:
            number = self._free.pop()
            self._owners[number] = who
        else:
            number = len(self._owners)
            self._owners.append(who)
        bit = 1 << number
        self._used |= bit
        self._held[who] = self._held.get(who, 0) | bit
        while len(self._levels) < len(pattern.segments):
            self._levels.append(_Level())
        for level, segment in zip(self._levels, pattern.segments):
            if segment == b"*":
                level.any |= bit
            else:
                having = level.globs if b"*" in segment else level.same
                having[segment] = having.get(segment, 0) | bit
        # The last one.
        if pattern.is_below:
            level.below |= bit
        else:
            level.ending |= bit
        return number

    def remove(self, number: int, pattern: Pattern) -> None:
        """Remove the subscription that has this bit."""
        who = self._owners[number]
        others = ~(1 << number)
        self._used &= others
        self._held[who] &= others
        if not self._held[who]:
            del self._held[who]
        for level, segment in zip(self._levels, pattern.segments):
            if segment == b"*":
                level.any &= others
            else:
                having = level.globs if b"*" in segment else level.same
                having[segment] &= others
                if not having[segment]:
                    del having[segment]
        level.below &= others
        level.ending &= others
        self._free.append(number)

    def find(
        self, segments: Sequence[bytes], found: dict[Subscriber, None], tested: dict[tuple[int, bytes], bool]
    ) -> None:
        """Add to ``found`` who has a pattern that matches; ``tested`` is what other blocks have found out."""
        last = len(segments) - 1
        alive = self._used
        matching = 0
        for index, (level, segment) in enumerate(zip(self._levels, segments)):
            reached = level.any | level.same.get(segment, 0)
            for glob, bits in level.globs.items():
                if bits & alive:
                    is_match = tested.get((index, glob))
                    if is_match is None:
                        is_match = tested[index, glob] = patterns.segment_matches(glob, segment)
                    if is_match:
                        reached |= bits
            alive &= reached
            if not alive:
                break
            if index == last:
                matching |= alive & level.ending
            elif level.below:
                matching |= alive & level.below
        # All bits of a subscriber at a time, so that this takes no longer the more of them match.
        while matching:
            who = self._owners[matching.bit_length() - 1]
            found[who] = None
            matching &= ~self._held[who]


class _Place(Generic[Subscriber]):
    """Where a subscription is, and how often it was made."""

    __slots__ = ("block", "count", "number")

    def __init__(self, block: _Block[Subscriber], number: int) -> None:
        self.block, self.number, self.count = block, number, 1


class Wildcards(Generic[Subscriber]):
    """Subscriptions to patterns with ``*``. One that is made several times is counted."""

    def __init__(self) -> None:
        #: By how many bits the number of segments has, so that few long patterns do not make a search among
        #: many short ones long.
        self._blocks: dict[int, list[_Block[Subscriber]]] = {}
        self._places: dict[tuple[bytes, Subscriber], _Place[Subscriber]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is none."""
        return not self._places and not self._blocks

    def add(self, text: bytes, pattern: Pattern, who: Subscriber) -> None:
        """Subscribe once more. ``text`` is the pattern as bytes, without ``*`` beside ``*``."""
        place = self._places.get((text, who))
        if place is not None:
            place.count += 1
            return
        blocks = self._blocks.setdefault(len(pattern.segments).bit_length(), [])
        block = next((each for each in blocks if each.has_room), None)
        if block is None:
            block = _Block()
            blocks.append(block)
        self._places[text, who] = _Place(block, block.add(pattern, who))

    def remove(self, text: bytes, pattern: Pattern, who: Subscriber) -> bool:
        """Unsubscribe once. Returns False if there is nothing to unsubscribe from."""
        place = self._places.get((text, who))
        if place is None:
            return False
        place.count -= 1
        if not place.count:
            del self._places[text, who]
            place.block.remove(place.number, pattern)
            if place.block.is_empty:
                size = len(pattern.segments).bit_length()
                self._blocks[size].remove(place.block)
                if not self._blocks[size]:
                    del self._blocks[size]
        return True

    def find(self, segments: Sequence[bytes], found: dict[Subscriber, None]) -> None:
        """Add to ``found`` who has subscribed to a pattern that matches the key with these segments."""
        most = len(segments).bit_length()
        tested: dict[tuple[int, bytes], bool] = {}
        for size, blocks in self._blocks.items():
            if size <= most:
                for block in blocks:
                    block.find(segments, found, tested)
