# SPDX-License-Identifier: MIT
"""Routing key patterns: which keys they match. Pure functions on bytes.

``*`` matches any run of bytes, also an empty one, up to the next separator or the end. A pattern that ends
with the separator matches every key that begins with the rest up to and with that separator. The empty
pattern matches every key. Source: the bridge's specification, 'Patterns'.

What begins with ``!/cred/`` is not decided here: secret messages have a table of their own.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Optional

_STARS = re.compile(rb"\*\*+")
#: Bytes from which on a regular expression finds a literal faster at worst.
_LONG = 16


def normal(pattern: bytes) -> bytes:
    """Return a pattern that matches the same keys, without ``*`` beside ``*``."""
    return _STARS.sub(b"*", pattern) if b"**" in pattern else pattern


def is_exact(pattern: bytes, separator: bytes) -> bool:
    """Return whether a pattern matches just the key that it is."""
    return bool(pattern) and b"*" not in pattern and not pattern.endswith(separator)


def matches(pattern: bytes, key: bytes, separator: bytes) -> bool:
    """Return whether a pattern matches a key."""
    if not pattern:
        return True
    wanted = pattern.split(separator)
    given = key.split(separator)
    if not wanted[-1] and len(wanted) > 1:
        wanted.pop()
        # The separator after them must be there too.
        if len(given) <= len(wanted):
            return False
        given = given[: len(wanted)]
    return len(wanted) == len(given) and all(map(segment_matches, wanted, given))


def segment_matches(wanted: bytes, segment: bytes) -> bool:
    """Return whether one segment of a pattern matches one segment of a key.

    The time that this takes does not grow with the number of ways in which it could match.
    """
    first, parts, last = _parts(wanted)
    if last is None:
        return first == segment
    if not segment.startswith(first) or not segment.endswith(last):
        return False
    end = len(segment) - len(last)
    if end < len(first):
        return False
    position = len(first)
    for part in parts:
        position = _find(part, segment, position, end)
        if position < 0:
            return False
        position += len(part)
    return True


def _find(part: bytes, segment: bytes, begin: int, end: int) -> int:
    """Like ``segment.find``, which takes time for each byte of both for some that are long."""
    if len(part) < _LONG:
        return segment.find(part, begin, end)
    found = _literal(part).search(segment, begin, end)
    return -1 if found is None else found.start()


@lru_cache(maxsize=1024)
def _literal(part: bytes) -> re.Pattern[bytes]:
    return re.compile(re.escape(part))


@lru_cache(maxsize=1024)
def _parts(wanted: bytes) -> tuple[bytes, list[bytes], Optional[bytes]]:
    """What is before the first ``*``, between them, and after the last; None for that if there is none."""
    first, *parts = wanted.split(b"*")
    return first, parts, parts.pop() if parts else None
