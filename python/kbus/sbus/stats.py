# SPDX-License-Identifier: MIT
"""What a bridge tells of itself: a JSON object for all of it, one for each client, one for each user."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from .counts import Counts
from .peer import Peer
from .users import User

#: Bytes of a packet of statistics at most, so that any socket takes it.
_PIECE = 16 * 1024


def records(
    peers: Iterable[Peer],
    gone: Counts,
    facts: dict[str, Any],
    refused: dict[str, int],
    users: Iterable[User],
) -> list[dict[str, Any]]:
    """Return what there is to tell: about all of it, about each client, about each user.

    ``gone`` is what clients have counted that have left, ``facts`` about KBUS, ``refused`` how many
    connections were closed at once, and why.
    """
    peers = list(peers)
    total = Counts()
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
    return [in_all, *map(_of_client, peers), *map(_of_user, users)]


def _of_user(user: User) -> dict[str, Any]:
    return {
        "user": user.uid,
        "clients": user.clients,
        "subscriptions": user.subscriptions,
        "subscription_bytes": user.subscription_bytes,
        "queued_bytes": user.queued_bytes,
    }


def _of_client(peer: Peer) -> dict[str, Any]:
    own = peer.identity.credentials
    return {
        "client": peer.number,
        "pid": own.pid,
        "uid": own.uid,
        "gid": own.gid,
        "soft": peer.settings.soft,
        "hard": peer.settings.hard,
        "order": peer.settings.order,
        "echo": peer.settings.echo,
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
