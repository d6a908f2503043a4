# SPDX-License-Identifier: MIT
"""Who has subscribed to what, and who gets a message with a key.

A table finds the subscribers of a key in time that does not grow with the number of other subscriptions
without ``*``. Those with ``*`` are in ``wildcards``.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from . import patterns
from .wildcards import Pattern, Wildcards

Subscriber = TypeVar("Subscriber", bound=Hashable)

#: how often each has subscribed
Counts = dict[Subscriber, int]


class Table(Generic[Subscriber]):
    """Subscriptions to patterns. A pattern can be subscribed to several times, and is then counted."""

    def __init__(self, separator: bytes) -> None:
        self._separator = separator
        #: those of patterns that match one key
        self._exact: dict[bytes, Counts[Subscriber]] = {}
        #: those of patterns that match what begins with them: they end with the separator, or are empty
        self._prefixes: dict[bytes, Counts[Subscriber]] = {}
        self._wildcards: Wildcards[Subscriber] = Wildcards()

    def add(self, pattern: bytes, who: Subscriber) -> None:
        """Subscribe once more."""
        if b"*" in pattern:
            normal = patterns.normal(pattern)
            self._wildcards.add(normal, self._split(normal), who)
        else:
            counts = self._plain(pattern).setdefault(pattern, {})
            counts[who] = counts.get(who, 0) + 1

    def remove(self, pattern: bytes, who: Subscriber) -> bool:
        """Unsubscribe once. Returns False if there is nothing to unsubscribe from."""
        if b"*" in pattern:
            normal = patterns.normal(pattern)
            return self._wildcards.remove(normal, self._split(normal), who)
        table = self._plain(pattern)
        counts = table.get(pattern)
        if counts is None or who not in counts:
            return False
        counts[who] -= 1
        if not counts[who]:
            del counts[who]
            if not counts:
                del table[pattern]
        return True

    def find(self, key: bytes) -> dict[Subscriber, None]:
        """Return who has subscribed to a pattern that matches the key, each once."""
        found: dict[Subscriber, None] = dict.fromkeys(self._exact.get(key, ()))
        prefixes = self._prefixes
        if prefixes:
            end = 0
            while True:
                if (counts := prefixes.get(key[:end])) is not None:
                    found.update(dict.fromkeys(counts))
                end = key.find(self._separator, end) + 1
                if not end:
                    break
        if not self._wildcards.is_empty:
            self._wildcards.find(key.split(self._separator), found)
        return found

    @property
    def is_empty(self) -> bool:
        """Whether nobody is subscribed to anything."""
        return not self._exact and not self._prefixes and self._wildcards.is_empty

    def _plain(self, pattern: bytes) -> dict[bytes, Counts[Subscriber]]:
        return self._exact if patterns.is_exact(pattern, self._separator) else self._prefixes

    def _split(self, normal: bytes) -> Pattern:
        segments = normal.split(self._separator)
        return Pattern(segments, False) if segments[-1] else Pattern(segments[:-1], True)
