# SPDX-License-Identifier: MIT
"""Who has subscribed to what, and who gets a message with a key.

A table finds the subscribers of a key in time that does not grow with the number of other subscriptions.
Exact patterns are in a dictionary, the others in a tree with a level for each segment.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, Optional, TypeVar

from . import patterns

Subscriber = TypeVar("Subscriber", bound=Hashable)

#: how often each has subscribed
Counts = dict[Subscriber, int]


class _Node(Generic[Subscriber]):
    """The patterns that begin with the same segments."""

    __slots__ = ("below", "ending", "globs", "segments")

    def __init__(self) -> None:
        #: those that go on with a segment, by what that is; ``*`` is any segment
        self.segments: dict[bytes, _Node[Subscriber]] = {}
        #: likewise, where ``*`` stands beside other bytes
        self.globs: dict[bytes, _Node[Subscriber]] = {}
        #: those of the pattern that ends here
        self.ending: Counts[Subscriber] = {}
        #: those of the pattern that ends here with the separator
        self.below: Counts[Subscriber] = {}

    def is_empty(self) -> bool:
        return not (self.segments or self.globs or self.ending or self.below)


class Table(Generic[Subscriber]):
    """Subscriptions to patterns. A pattern can be subscribed to several times, and is then counted."""

    def __init__(self, separator: bytes) -> None:
        self._separator = separator
        self._exact: dict[bytes, Counts[Subscriber]] = {}
        self._tree: _Node[Subscriber] = _Node()

    def add(self, pattern: bytes, who: Subscriber) -> None:
        """Subscribe once more."""
        if patterns.is_exact(pattern, self._separator):
            counts = self._exact.setdefault(pattern, {})
        else:
            segments, is_below = self._split(pattern)
            node = self._tree
            for segment in segments:
                node = _children(node, segment).setdefault(segment, _Node())
            counts = node.below if is_below else node.ending
        counts[who] = counts.get(who, 0) + 1

    def remove(self, pattern: bytes, who: Subscriber) -> bool:
        """Unsubscribe once. Returns False if there is nothing to unsubscribe from."""
        if patterns.is_exact(pattern, self._separator):
            counts = self._exact.get(pattern, {})
            if not _less(counts, who):
                return False
            if not counts:
                del self._exact[pattern]
            return True
        segments, is_below = self._split(pattern)
        path = [self._tree]
        for segment in segments:
            node = _children(path[-1], segment).get(segment)
            if node is None:
                return False
            path.append(node)
        if not _less(path[-1].below if is_below else path[-1].ending, who):
            return False
        while segments and path.pop().is_empty():
            segment = segments.pop()
            del _children(path[-1], segment)[segment]
        return True

    def find(self, key: bytes) -> dict[Subscriber, None]:
        """Return who has subscribed to a pattern that matches the key, each once."""
        found: dict[Subscriber, None] = dict.fromkeys(self._exact.get(key, ()))
        segments = key.split(self._separator)
        # The empty pattern matches also what has no separator.
        found.update(dict.fromkeys(self._tree.below))
        nodes = [self._tree]
        for index, segment in enumerate(segments):
            nodes = [after for node in nodes for after in _after(node, segment)]
            if not nodes:
                return found
            if index < len(segments) - 1:
                for node in nodes:
                    found.update(dict.fromkeys(node.below))
        for node in nodes:
            found.update(dict.fromkeys(node.ending))
        return found

    @property
    def is_empty(self) -> bool:
        """Whether nobody is subscribed to anything."""
        return not self._exact and self._tree.is_empty()

    def _split(self, pattern: bytes) -> tuple[list[bytes], bool]:
        """The segments of a pattern that is not exact, and whether it matches all that is below them."""
        if not pattern:
            return [], True
        segments = patterns.normal(pattern).split(self._separator)
        if segments[-1]:
            return segments, False
        return segments[:-1], True


def _children(node: _Node[Subscriber], segment: bytes) -> dict[bytes, _Node[Subscriber]]:
    return node.globs if b"*" in segment and segment != b"*" else node.segments


def _after(node: _Node[Subscriber], segment: bytes) -> list[_Node[Subscriber]]:
    after = [each for each in (node.segments.get(segment), node.segments.get(b"*")) if each is not None]
    # A key may have a * of its own.
    if segment == b"*":
        after = after[:1]
    if node.globs:
        after += [each for glob, each in node.globs.items() if patterns.segment_matches(glob, segment)]
    return after


def _less(counts: Counts[Subscriber], who: Subscriber) -> bool:
    count: Optional[int] = counts.get(who)
    if count is None:
        return False
    if count == 1:
        del counts[who]
    else:
        counts[who] = count - 1
    return True
