# SPDX-License-Identifier: MIT
"""How much of anything a bridge lets its clients use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Limits:
    """All of them can be set on the command line.

    ``packet`` is the length in bytes of the longest packet that is taken from a client, or sent to one: the
    first daemon's clients have buffers of so many bytes, and a longer packet would be cut. ``queued`` and
    ``queued_bytes`` are the hard limit of a client's queue, over which ``OVER_QUEUED`` messages and
    ``OVER_PACKETS`` times ``packet`` bytes of publishers who wait are queued. ``queued_bytes_in_all`` is the
    limit of all queues together. ``subscription_bytes`` is what a client's subscriptions may take: each
    counts as ``cost`` tells.

    The others are for all clients of a user together. Patterns with ``*`` are the only ones that take time
    with messages that they do not match: ``wildcards`` is how many segments these patterns may have, and
    ``globs`` how many times ``*`` may stand beside other bytes in different segments. ``user_clients`` is how
    many clients there may be, and ``user_queued_bytes`` is for what their queues hold; None is as many as the
    user leaves to others. ``user_subscriptions`` and ``user_subscription_bytes`` are for what they are
    subscribed to.
    """

    packet: int = 400 * 1024
    queued: int = 4096
    queued_bytes: int = 8 << 20
    queued_bytes_in_all: int = 256 << 20
    subscription_bytes: int = 256 << 20
    wildcards: int = 65536
    globs: int = 64
    user_clients: Optional[int] = None
    user_subscriptions: int = 250_000
    user_subscription_bytes: int = 512 << 20
    user_queued_bytes: Optional[int] = None


#: What ``packet`` can be: a batch of packets has to have room in the address space.
LONGEST_PACKET = 16 << 20
#: Segments of a pattern with ``*`` at most: somebody else's key may take a step for each of them.
DEEPEST_WILDCARD = 64
#: Room for what had been read of publishers when they began to wait: several batches of one, or of several.
OVER_QUEUED, OVER_PACKETS = 1024, 4
#: What a socket's buffer has to have room for beside a packet, roughly.
SOCKET_OVERHEAD = 4096
#: Bytes of memory that a queued packet takes beside its own.
PACKET_COST = 128
#: Bytes of memory that a subscription takes at most, beside its pattern: in all, and for each segment.
SUBSCRIPTION_COST, SEGMENT_COST = 1024, 512


def cost(pattern: bytes, separator: bytes) -> int:
    """Return how many bytes of memory a subscription to a pattern counts as."""
    return SUBSCRIPTION_COST + len(pattern) + SEGMENT_COST * (1 + pattern.count(separator))
