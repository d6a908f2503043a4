# SPDX-License-Identifier: MIT
"""How much of anything a bridge lets its clients use, and what the clients of each user have together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Optional

from .counts import TOO_MANY_SUBSCRIPTIONS, USER_CLIENTS, Dropped


@dataclass(frozen=True)
class BridgeLimits:
    """All of them can be set on the command line.

    ``packet`` is the length in bytes of the longest packet that is taken from a client, or sent to one: the
    first daemon's clients have buffers of so many bytes, and a longer packet would be cut. ``queued`` and
    ``queued_bytes`` are the hard limit of a client's queue, over which ``OVER_QUEUED`` messages and
    ``OVER_PACKETS`` times ``packet`` bytes of publishers that wait are queued. ``queued_bytes_in_all`` is the
    limit of all queues together.

    The others are for all clients of a user together. Patterns with ``*`` are the only ones that take time
    with messages that they do not match: ``wildcards`` is how much that may be, as ``work`` says.
    ``user_clients`` is how many clients there may be, and ``user_queued_bytes`` is for what their queues
    hold; None is as many as the user leaves to others. ``user_subscription_bytes`` is what their
    subscriptions may take: each counts as ``cost`` says.
    """

    packet: int = 400 * 1024
    queued: int = 4096
    queued_bytes: int = 8 << 20
    queued_bytes_in_all: int = 256 << 20
    wildcards: int = 65536
    user_clients: Optional[int] = None
    user_subscription_bytes: int = 256 << 20
    user_queued_bytes: Optional[int] = None


#: Connections that only root and the daemon's own user can have, unless there are few in all.
_RESERVED = 8
#: What ``packet`` can be: a batch of packets has to have room in the address space.
LONGEST_PACKET = 16 << 20
#: Segments of a pattern with ``*`` at most: another client's key may take a step for each of them.
DEEPEST_WILDCARD = 64
#: Room for what had been read of publishers when they began to wait: several batches of one, or of several.
OVER_QUEUED, OVER_PACKETS = 1024, 4
#: As how many segments a ``*`` beside other bytes counts.
SEARCH_COST = 128
#: What a socket's buffer has to have room for beside a packet, roughly.
SOCKET_OVERHEAD = 4096
#: Bytes of memory that a queued packet takes beside its own.
PACKET_COST = 128
#: Bytes of memory that a subscription takes at most, beside its pattern: in all, and for each segment.
SUBSCRIPTION_COST, SEGMENT_COST = 1024, 512


def work(segments: Sequence[bytes]) -> int:
    """Return how much work keys are that a pattern with ``*`` does not match.

    That is its segments, and more for each ``*`` beside other bytes, for which a segment is searched.
    """
    return len(segments) + SEARCH_COST * sum(each.count(b"*") for each in segments if each != b"*")


def cost(pattern: bytes, separator: bytes) -> int:
    """Return how many bytes of memory a subscription to a pattern counts as."""
    return SUBSCRIPTION_COST + len(pattern) + SEGMENT_COST * (1 + pattern.count(separator))


class OverLimit(Dropped):
    """A user has as much as it may have. The text names the user and the limit."""

    cause = TOO_MANY_SUBSCRIPTIONS


class User:
    """One user. All counts are of what its clients have at this moment.

    ``clients`` counts connections, from accept on, ``callers`` those of them that have a KSock of their own.
    ``queued_bytes`` are what queues for its clients take. ``wildcards`` is how much work their patterns with
    ``*`` are. ``users`` are all of them.
    """

    def __init__(self, uid: int, users: Users) -> None:
        self.uid = uid
        self.users = users
        self.clients = 0
        self.callers = 0
        self.subscriptions = 0
        self.subscription_bytes = 0
        self.queued_bytes = 0
        self.wildcards = 0

    def count(self, number: int, size: int, work: int) -> None:
        """Count 1 more subscription, or -1, of so many bytes and so much work."""
        self.subscriptions += number
        self.subscription_bytes += number * size
        self.wildcards += number * work


class Users:
    """All users that have something.

    ``most_clients`` is how many connections there can be in all. Unless ``limits.user_clients`` says how many
    of them one user may have, it may have as many as it leaves to others. So no user can take the last one,
    and neither can a few of them. Whatever others have, some are left for root and the daemon's own user, who
    may have any number, and look at the statistics then.
    """

    def __init__(self, limits: BridgeLimits, most_clients: int) -> None:
        self._limits = limits
        self._most_clients = most_clients
        self._reserved = min(_RESERVED, most_clients // 8)
        self._clients = 0
        self.callers = 0
        self._users: dict[int, User] = {}

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def check_clients(self, uid: int) -> None:
        """Raise Dropped if a user may not have one more connection."""
        user = self._users.get(uid)
        clients = user.clients if user is not None else 0
        most = self._limits.user_clients
        if most is not None and clients >= most:
            raise Dropped(f"user {uid} has {most} clients (--max-user-clients)", USER_CLIENTS)
        left = self.left(uid)
        if left < (clients + 1 if most is None and uid not in (0, os.geteuid()) else 1):
            why = f"user {uid} has {clients} clients and leaves {max(left, 0)} to others (--max-user-clients)"
            raise Dropped(why, USER_CLIENTS)

    def left(self, uid: int) -> int:
        """Return for how many more connections of a user there is room; two KSocks take that of one."""
        left = self._most_clients - self._clients - (self.callers + 1) // 2
        return left if uid in (0, os.geteuid()) else left - self._reserved

    def connect(self, uid: int) -> User:
        """Count one more connection of a user."""
        user = self._users.setdefault(uid, User(uid, self))
        self._clients += 1
        user.clients += 1
        return user

    def check(self, user: User, size: int, work: int) -> None:
        """Raise OverLimit if the user may not have a subscription more, of so many bytes and so much work."""
        limits = self._limits
        if user.wildcards + work > limits.wildcards:
            raise OverLimit(
                f"the patterns with * of user {user.uid} are too much work for keys (--max-wildcards)"
            )
        if user.subscription_bytes + size > limits.user_subscription_bytes:
            raise OverLimit(
                f"over {limits.user_subscription_bytes} bytes of subscriptions of user {user.uid}"
                " (--max-user-subscription-bytes)"
            )

    def disconnect(self, user: User) -> None:
        """Take back one ``connect``, when the client has no subscriptions any more."""
        self._clients -= 1
        user.clients -= 1
        if not user.clients:
            del self._users[user.uid]
