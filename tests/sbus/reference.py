# SPDX-License-Identifier: MIT
"""What patterns mean, in the plainest way: a regular expression made from the specification's sentences."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator


def reference_matches(pattern: bytes, key: bytes, separator: bytes) -> bool:
    """Whether the pattern matches the key."""
    if not pattern:
        return True
    inside = b"[^" + re.escape(separator) + b"]*"
    parts = [inside if byte == b"*" else re.escape(byte) for byte in each(pattern)]
    if pattern.endswith(separator):
        parts.append(b".*")
    return re.fullmatch(b"".join(parts), key, re.DOTALL) is not None


def each(data: bytes) -> Iterator[bytes]:
    """The bytes, one by one."""
    return (data[index : index + 1] for index in range(len(data)))


def words(alphabet: bytes, longest: int) -> list[bytes]:
    """Everything that can be written with these bytes, up to a length."""
    return [
        b"".join(letters)
        for length in range(longest + 1)
        for letters in itertools.product(list(each(alphabet)), repeat=length)
    ]
