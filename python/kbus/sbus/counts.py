# SPDX-License-Identifier: MIT
"""What a bridge counts, for each client and in all."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

# Why a packet from a client, or a copy for one, was dropped.
MALFORMED = "malformed"
EMPTY = "empty"
TOO_LARGE = "too-large"
TOO_LARGE_FOR_CLIENT = "too-large-for-client"
RESERVED = "reserved-token"
CREDENTIALS = "credentials"
NAME_TOO_LONG = "name-too-long"
KBUS_OWN = "names-of-kbus"
REFUSED_BY_KBUS = "refused-by-kbus"
UNKNOWN_CONTROL = "unknown-control"
UNKNOWN_REQUEST = "unknown-request"
NOT_SUBSCRIBED = "not-subscribed"
TOO_MANY_SUBSCRIPTIONS = "too-many-subscriptions"
SOCKET_FULL = "socket-full"
QUEUE_FULL = "queue-full"
USER_SUBSCRIPTIONS = "user-subscriptions"
USER_QUEUED = "user-queued-bytes"
SOCKET_TOO_SMALL = "socket-too-small"
PUBLISH_DENIED = "publish-denied"
SUBSCRIBE_DENIED = "subscribe-denied"
LEFT = "client-left"
CAUSES = (
    *(MALFORMED, EMPTY, TOO_LARGE, TOO_LARGE_FOR_CLIENT, RESERVED, CREDENTIALS, NAME_TOO_LONG, KBUS_OWN),
    *(REFUSED_BY_KBUS, UNKNOWN_CONTROL, UNKNOWN_REQUEST, NOT_SUBSCRIBED, TOO_MANY_SUBSCRIPTIONS),
    *(USER_SUBSCRIPTIONS,),
    *(SOCKET_FULL, QUEUE_FULL, USER_QUEUED, SOCKET_TOO_SMALL, PUBLISH_DENIED, SUBSCRIBE_DENIED, LEFT),
)
# Why a connection was closed at once.
NOT_PERMITTED = "user"
USER_CLIENTS = "user-clients"
NO_DESCRIPTORS = "descriptors"
NO_NUMBER = "clients"
REFUSALS = (NOT_PERMITTED, USER_CLIENTS, NO_DESCRIPTORS, NO_NUMBER)
#: What is not told to the client itself.
UNTOLD = frozenset({SUBSCRIBE_DENIED})
#: What is told of once for each client; the others as often as log.OfUsers allows.
TOLD_ONCE = frozenset({NAME_TOO_LONG, SUBSCRIBE_DENIED})


@dataclass
class Counts:
    """``received`` packets from the client, ``published`` messages that KBUS or the bridge took from it,
    ``delivered`` packets that its socket took, ``dropped`` by cause, high-water marks of its queue.
    """

    received: int = 0
    published: int = 0
    delivered: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    queued_max: int = 0
    queued_bytes_max: int = 0

    def add(self, other: Counts) -> None:
        """Add what another has counted."""
        self.received += other.received
        self.published += other.published
        self.delivered += other.delivered
        self.dropped += other.dropped
        self.queued_max = max(self.queued_max, other.queued_max)
        self.queued_bytes_max = max(self.queued_bytes_max, other.queued_bytes_max)

    def as_json(self) -> dict[str, Any]:
        """Return them as what becomes a JSON object."""
        return {
            "received": self.received,
            "published": self.published,
            "delivered": self.delivered,
            "dropped": dict(sorted(self.dropped.items())),
            "queued_max": self.queued_max,
            "queued_bytes_max": self.queued_bytes_max,
        }
