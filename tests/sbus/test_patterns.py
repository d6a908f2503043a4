# SPDX-License-Identifier: MIT
"""Which keys a pattern matches: the specification's examples, and others at random."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbus.sbus import packets
from kbus.sbus.routing import Routes
from tests.sbus.reference import reference_matches


def matches(pattern: bytes, key: bytes, separator: bytes) -> bool:
    """Whether who has subscribed to the pattern gets the key."""
    table: Routes[int] = Routes(separator)
    table.add(pattern, 1)
    return bool(table.find(key))


@pytest.mark.parametrize("separator", [b"/", b"."])
@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        # The protocol text's examples.
        (b"a/*/c/", b"a/b/c/", True),
        (b"a/*/c/", b"a/b/c/d/e", True),
        (b"a/*/c/", b"a/b/c", False),
        (b"a/*/c/", b"a/c/d", False),
        (b"", b"", True),
        (b"", b"a/b", True),
        # 'an empty run', 'anywhere in a segment', 'up to the next separator or the end'
        (b"a/*", b"a/", True),
        (b"a*c", b"ac", True),
        (b"a*c", b"abbc", True),
        (b"a*c", b"a/c", False),
        (b"*b*", b"abc", True),
        (b"a", b"a/b", False),
        # 'up to and with that separator'
        (b"a/", b"a/", True),
        (b"a/", b"a", False),
        (b"/", b"/", True),
        (b"/", b"a/", False),
        # 'on bytes'
        (b"\xff*", b"\xff\xfe\n", True),
    ],
)
def test_rule_patterns(separator: bytes, pattern: bytes, key: bytes, expected: bool) -> None:
    pattern, key = pattern.replace(b"/", separator), key.replace(b"/", separator)
    assert matches(pattern, key, separator) == expected


@given(st.text("ab*./", max_size=12), st.text("ab*./", max_size=12), st.sampled_from("./"))
def test_longer_ones(pattern: str, key: str, separator: str) -> None:
    args = pattern.encode(), key.encode(), separator.encode()
    assert matches(*args) == reference_matches(*args)


@given(st.text("a*/", max_size=20), st.text("ab/", max_size=10))
def test_stars_beside_stars_change_nothing(pattern: str, key: str) -> None:
    normal = packets.normal(pattern.encode())
    assert b"**" not in normal
    assert matches(normal, key.encode(), b"/") == reference_matches(pattern.encode(), key.encode(), b"/")


@pytest.mark.long("measures time")
def test_time_does_not_grow_with_the_ways_to_match() -> None:
    """A regular expression would take for ever."""
    began = time.process_time()
    assert not matches(b"*a" * 400 + b"b", b"a" * 1000, b"/")
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("pattern", "expected"), [(b"a", True), (b"a/b", True), (b"", False), (b"a/", False), (b"a*", False)]
)
def test_exact(pattern: bytes, expected: bool) -> None:
    assert packets.is_exact(pattern, b"/") == expected
