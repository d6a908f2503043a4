# SPDX-License-Identifier: MIT
"""Compressed captures that were put one after the other, of which the first is damaged or cut."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Iterator

from kbus import Announcement
from kbus.capture import pcapng

from .captures import INFO, capture, numbered

#: Members' messages are numbered from here
FIRST, SECOND = 1, 1001
COUNT = 40
A, B = (
    capture(numbered(COUNT), order, buses=[0, 3], first=first, info={**INFO, "device": device, "bus": [0, 3]})
    for device, order, first in (("lathe", pcapng.LITTLE, FIRST), ("press", pcapng.BIG, SECOND))
)
A_GZIP, B_GZIP = gzip.compress(A, mtime=0), gzip.compress(B, mtime=0)
#: What tells that it is gzip at all, its whole header, and its trailer
MAGIC, HEADER, TRAILER = 2, 10, 8


def flipped(at: int, bit: int) -> bytes:
    """The first one with one bit wrong."""
    return A_GZIP[:at] + bytes([A_GZIP[at] ^ 1 << bit]) + A_GZIP[at + 1 :]


def damaged(step: int) -> Iterator[tuple[str, bytes]]:
    """The first one with one wrong bit, in each byte of its header and of its end, and in some of the others.

    And cut in such places. Its magic number stays, without which it would be nothing.
    """
    end = len(A_GZIP)
    ends = [*range(MAGIC, HEADER), *range(end - TRAILER - 16, end)]
    for at in sorted({*ends, *range(HEADER, end, step)}):
        yield f"bit {at % 8} of byte {at}", flipped(at, at % 8)
        yield f"cut at {at}", A_GZIP[:at]


def as_before(first: bytes) -> bool:
    """Whether the damage has changed nothing that matters, as when it is in the time of the gzip header."""
    try:
        return gzip.decompress(first) == A
    except (OSError, EOFError, zlib.error):
        return False


#: Of random data, so that where something is in the gzip is where it is in the file, too
LONG = capture(
    [Announcement("$.A", random.Random(number).randbytes(1000)) for number in range(400)],
    info={**INFO, "device": "mill"},
)
