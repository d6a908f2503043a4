# SPDX-License-Identifier: MIT
"""Subscriptions to patterns, and the subscribers of a key.

A table finds the subscribers of a key in time that does not grow with the number of other subscriptions
without ``*``.

Those with ``*`` are bits of an integer. A level, which is the place of a segment in a key, has for each
segment that patterns have there the integer of those patterns, and one for those with ``*``. So the patterns
that match are what is left when these are intersected, level by level. The work depends on how many levels
the key has, how many patterns there are and how many match, and not on in how many ways they could match: in
a tree of segments, patterns such as ``a/*/a`` and ``*/a/a`` make a search go two ways at each level.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Generic, TypeVar

from . import packets

Subscriber = TypeVar("Subscriber", bound=Hashable)

#: how often each has subscribed
Counts = dict[Subscriber, int]
#: Bits of an integer. One that is long is copied for each different segment; many short ones take more steps.
_BITS = 2048


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


class _Block:
    """As many patterns as an integer has bits."""

    def __init__(self) -> None:
        self._levels: list[_Level] = []
        self._patterns: list[bytes] = []
        self._free: list[int] = []
        self.used = 0

    @property
    def has_room(self) -> bool:
        return bool(self._free) or len(self._patterns) < _BITS

    def add(self, pattern: bytes, segments: Sequence[bytes], is_below: bool) -> int:
        """Add a pattern, and return the number of its bit."""
        if self._free:
            number = self._free.pop()
            self._patterns[number] = pattern
        else:
            number = len(self._patterns)
            self._patterns.append(pattern)
        bit = 1 << number
        self.used |= bit
        while len(self._levels) < len(segments):
            self._levels.append(_Level())
        for level, segment in zip(self._levels, segments):
            if segment == b"*":
                level.any |= bit
            else:
                having = level.globs if b"*" in segment else level.same
                having[segment] = having.get(segment, 0) | bit
        # The last one.
        if is_below:
            level.below |= bit
        else:
            level.ending |= bit
        return number

    def remove(self, number: int, segments: Sequence[bytes]) -> None:
        """Remove the pattern that has this bit."""
        others = ~(1 << number)
        self.used &= others
        for level, segment in zip(self._levels, segments):
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

    def find(self, segments: Sequence[bytes], tested: dict[tuple[int, bytes], bool]) -> Iterator[bytes]:
        """Yield the patterns that match; ``tested`` is what other blocks have found out."""
        last = len(segments) - 1
        alive = self.used
        matching = 0
        for index, (level, segment) in enumerate(zip(self._levels, segments)):
            reached = level.any | level.same.get(segment, 0)
            for glob, bits in level.globs.items():
                if bits & alive:
                    is_match = tested.get((index, glob))
                    if is_match is None:
                        is_match = tested[index, glob] = packets.segment_matches(glob, segment)
                    if is_match:
                        reached |= bits
            alive &= reached
            if not alive:
                break
            if index == last:
                matching |= alive & level.ending
            elif level.below:
                matching |= alive & level.below
        while matching:
            number = matching.bit_length() - 1
            yield self._patterns[number]
            matching ^= 1 << number


class Routes(Generic[Subscriber]):
    """Subscriptions to patterns. A pattern can be subscribed to several times, and is then counted."""

    def __init__(self, separator: bytes) -> None:
        self._separator = separator
        #: by pattern, without ``*`` beside ``*``
        self._subscribed: dict[bytes, Counts[Subscriber]] = {}
        #: The patterns with ``*``, by how many bits the number of segments has, so that few long ones do not
        #: make a search among many short ones long.
        self._blocks: dict[int, list[_Block]] = {}
        #: where each pattern with ``*`` is
        self._places: dict[bytes, tuple[_Block, int]] = {}

    def add(self, pattern: bytes, who: Subscriber) -> None:
        """Subscribe once more."""
        pattern = packets.normal(pattern)
        counts = self._subscribed.get(pattern)
        if counts is None:
            counts = self._subscribed[pattern] = {}
            if b"*" in pattern:
                self._place(pattern)
        counts[who] = counts.get(who, 0) + 1

    def remove(self, pattern: bytes, who: Subscriber) -> bool:
        """Unsubscribe once. Returns False if there is nothing to unsubscribe from."""
        pattern = packets.normal(pattern)
        counts = self._subscribed.get(pattern)
        if counts is None or who not in counts:
            return False
        counts[who] -= 1
        if not counts[who]:
            del counts[who]
            if not counts:
                del self._subscribed[pattern]
                if b"*" in pattern:
                    self._displace(pattern)
        return True

    def find(self, key: bytes) -> Collection[Subscriber]:
        """Return the subscribers of patterns that match the key, each once."""
        subscribed = self._subscribed
        # Every pattern matches the key that looks like it.
        found = dict(subscribed.get(key, {}))
        end = 0
        while True:
            if (counts := subscribed.get(key[:end])) is not None:
                found.update(counts)
            end = key.find(self._separator, end) + 1
            if not end:
                break
        if self._places:
            segments = key.split(self._separator)
            tested: dict[tuple[int, bytes], bool] = {}
            for size, blocks in self._blocks.items():
                if size <= len(segments).bit_length():
                    for block in blocks:
                        for pattern in block.find(segments, tested):
                            found.update(subscribed[pattern])
        return found

    def _place(self, pattern: bytes) -> None:
        segments, is_below = self._split(pattern)
        blocks = self._blocks.setdefault(len(segments).bit_length(), [])
        block = next((each for each in blocks if each.has_room), None)
        if block is None:
            block = _Block()
            blocks.append(block)
        self._places[pattern] = block, block.add(pattern, segments, is_below)

    def _displace(self, pattern: bytes) -> None:
        segments, _ = self._split(pattern)
        block, number = self._places.pop(pattern)
        block.remove(number, segments)
        if not block.used:
            size = len(segments).bit_length()
            self._blocks[size].remove(block)
            if not self._blocks[size]:
                del self._blocks[size]

    def _split(self, pattern: bytes) -> tuple[list[bytes], bool]:
        """The segments of a pattern, and whether it ends with a separator, behind which there is none."""
        segments = pattern.split(self._separator)
        return (segments, False) if segments[-1] else (segments[:-1], True)
