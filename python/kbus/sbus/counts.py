# SPDX-License-Identifier: MIT
"""What a bridge counts, and reports: a JSON object for all of it, one for each client, one for each user."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from .limits import User
    from .peer import Peer

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
USER_QUEUED = "user-queued-bytes"
SOCKET_TOO_SMALL = "socket-too-small"
PUBLISH_DENIED = "publish-denied"
SUBSCRIBE_DENIED = "subscribe-denied"
LEFT = "client-left"
CAUSES = (
    *(MALFORMED, EMPTY, TOO_LARGE, TOO_LARGE_FOR_CLIENT, RESERVED, CREDENTIALS, NAME_TOO_LONG, KBUS_OWN),
    *(REFUSED_BY_KBUS, UNKNOWN_CONTROL, UNKNOWN_REQUEST, NOT_SUBSCRIBED, TOO_MANY_SUBSCRIPTIONS),
    *(SOCKET_FULL, QUEUE_FULL, USER_QUEUED, SOCKET_TOO_SMALL, PUBLISH_DENIED, SUBSCRIBE_DENIED, LEFT),
)
# Why a connection was closed at once.
NOT_PERMITTED = "user"
USER_CLIENTS = "user-clients"
NO_DESCRIPTORS = "descriptors"
REFUSALS = (NOT_PERMITTED, USER_CLIENTS, NO_DESCRIPTORS)
#: What is not reported to the client itself.
UNTOLD = frozenset({SUBSCRIBE_DENIED})
#: what is reported of a user
_OF_USER = ("clients", "subscriptions", "subscription_bytes", "queued_bytes")
#: Bytes of a packet of statistics at most, so that any socket takes it.
_PIECE = 16 * 1024
#: What is logged once for each client; the others as often as log.Limited allows.
TOLD_ONCE = frozenset({NAME_TOO_LONG, SUBSCRIBE_DENIED})


class Dropped(ValueError):
    """A packet from a client is dropped for ``cause``. With ``ends`` the client is disconnected, too."""

    cause = MALFORMED
    ends = False

    def __init__(self, text: str = "", cause: Optional[str] = None) -> None:
        super().__init__(text)
        if cause is not None:
            self.cause = cause


@dataclass
class BridgeCounts:
    """``received`` packets from the client, ``published`` messages that KBUS or the bridge took from it,
    ``delivered`` packets that its socket took, ``dropped`` by cause, high-water marks of its queue.
    """

    received: int = 0
    published: int = 0
    delivered: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    queued_max: int = 0
    queued_bytes_max: int = 0

    def add(self, other: BridgeCounts) -> None:
        """Add what another has counted."""
        self.received += other.received
        self.published += other.published
        self.delivered += other.delivered
        self.dropped += other.dropped
        self.queued_max = max(self.queued_max, other.queued_max)
        self.queued_bytes_max = max(self.queued_bytes_max, other.queued_bytes_max)

    def as_json(self) -> dict[str, Any]:
        """Return them as what becomes a JSON object."""
        return {**vars(self), "dropped": dict(sorted(self.dropped.items()))}


def records(
    peers: Collection[Peer],
    gone: BridgeCounts,
    facts: dict[str, Any],
    refused: dict[str, int],
    users: Iterable[User],
) -> list[dict[str, Any]]:
    """Return the statistics: of all of it, of each client, of each user.

    ``gone`` is what clients have counted that have left, ``facts`` about KBUS, ``refused`` how many
    connections were closed at once, and why.
    """
    total = BridgeCounts()
    total.add(gone)
    for peer in peers:
        total.add(peer.counts)
    in_all = {
        "clients": len(peers),
        "subscriptions": sum(sum(peer.patterns.values()) for peer in peers),
        "queued": sum(peer.backlog.count for peer in peers),
        "queued_bytes": sum(peer.backlog.bytes for peer in peers),
        **total.as_json(),
        "refused": refused,
        **facts,
    }
    of_users = [{"user": user.uid, **{name: getattr(user, name) for name in _OF_USER}} for user in users]
    return [in_all, *map(_of_client, peers), *of_users]


def _of_client(peer: Peer) -> dict[str, Any]:
    own = peer.identity.credentials
    return {
        "client": peer.number,
        "pid": own.pid,
        "uid": own.uid,
        "gid": own.gid,
        **vars(peer.settings),
        "waits": bool(peer.waits_for),
        "subscriptions": sum(peer.patterns.values()),
        "queued": peer.backlog.count,
        "queued_bytes": peer.backlog.bytes,
        **peer.counts.as_json(),
    }


def pieces(told: list[dict[str, Any]]) -> Iterator[bytes]:
    """Yield it as lines of JSON, some lines at a time, and in the end no bytes at all."""
    piece = b""
    for record in told:
        line = json.dumps(record).encode() + b"\n"
        if piece and len(piece) + len(line) > _PIECE:
            yield piece
            piece = b""
        piece += line
    yield piece
    yield b""
