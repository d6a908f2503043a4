# SPDX-License-Identifier: MIT
"""The table of subscriptions against a list that is searched with the plain matcher."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kbus.sbus import routing
from kbus.sbus.packets import normal
from kbus.sbus.routing import Routes
from tests.sbus.reference import reference_matches, words


class Plain:
    """What a table does, in the plainest way."""

    def __init__(self, separator: bytes) -> None:
        self.separator = separator
        self.all: Counter[tuple[bytes, int]] = Counter()

    def add(self, pattern: bytes, who: int) -> None:
        self.all[normal(pattern), who] += 1

    def remove(self, pattern: bytes, who: int) -> bool:
        pattern = normal(pattern)
        if not self.all[pattern, who]:
            return False
        self.all[pattern, who] -= 1
        return True

    def find(self, key: bytes) -> set[int]:
        return {
            who
            for (pattern, who), count in self.all.items()
            if count and reference_matches(pattern, key, self.separator)
        }


PATTERNS = st.text("ab*/", max_size=7).map(str.encode)
STEPS = st.lists(st.tuples(st.booleans(), PATTERNS, st.integers(0, 3)), max_size=40)


def test_each_short_pattern_alone() -> None:
    keys = words(b"ab*/", 4)
    for pattern in words(b"a*/", 5):
        table: Routes[int] = Routes(b"/")
        table.add(pattern, 1)
        for key in keys:
            assert bool(table.find(key)) == reference_matches(pattern, key, b"/"), (pattern, key)


@settings(max_examples=300)
@given(STEPS, st.lists(PATTERNS, min_size=1, max_size=5))
@example([(True, b"**", 0), (False, b"*", 0)], [b""])
def test_series_of_subscriptions(steps: list[tuple[bool, bytes, int]], keys: list[bytes]) -> None:
    table: Routes[int] = Routes(b"/")
    plain = Plain(b"/")
    for is_add, pattern, who in steps:
        if is_add:
            table.add(pattern, who)
            plain.add(pattern, who)
        else:
            assert table.remove(pattern, who) == plain.remove(pattern, who)
    for key in keys:
        assert set(table.find(key)) == plain.find(key)


def test_rule_kept_twice_delivered_once_unsubscribed_twice() -> None:
    for pattern in (b"a/b", b"a/*", b"a/", b"", b"a/b*"):
        table: Routes[str] = Routes(b"/")
        table.add(pattern, "client")
        table.add(pattern, "client")
        assert list(table.find(b"a/b")) == ["client"]
        assert table.remove(pattern, "client")
        assert list(table.find(b"a/b")) == ["client"]
        assert table.remove(pattern, "client")
        assert not table.find(b"a/b")
        assert not table.remove(pattern, "client")


def test_a_million_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    """SUB and UNSUB at random: the counts are right all the time, and in the end nothing is left.

    Patterns with ``*`` need several blocks.
    """
    monkeypatch.setattr(routing, "_BITS", 100)
    chance = random.Random(1)
    table: Routes[int] = Routes(b"/")
    counts: Counter[tuple[bytes, int]] = Counter()
    choices = [pattern for pattern in words(b"ab*/", 5) if b"**" not in pattern]
    for _ in range(1_000_000):
        subscription = chance.choice(choices), chance.randrange(4)
        if chance.random() < 0.5:
            table.add(*subscription)
            counts[subscription] += 1
        else:
            assert table.remove(*subscription) == (counts[subscription] > 0)
            counts[subscription] = max(0, counts[subscription] - 1)
    for subscription, count in counts.items():
        for _ in range(count):
            assert table.remove(*subscription)
    assert not table.remove(*subscription)
    assert all(not table.find(key) for key in words(b"ab/", 4))
    assert not (table._subscribed or table._places or table._blocks)
