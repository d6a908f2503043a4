# SPDX-License-Identifier: MIT
"""What the clients of each user have together, and how much of it they may have."""

from __future__ import annotations

import os
from collections.abc import Iterator

from .limits import Limits
from .usage import Usage

#: Connections that only root and the daemon's own user can have, unless there are few in all.
_RESERVED = 8


class OverUserLimit(ValueError):
    """A user has as much as it may have. The text names the user and the limit."""


class User:
    """One user. All counts are of what its clients have at this moment.

    ``clients`` counts connections, from accept on, ``callers`` those of them that have a KSock of their own.
    ``subscriptions`` and ``subscription_bytes`` count those of clients that have left, too, until they are
    removed. ``queued_bytes`` are what queues for its clients take. ``usage`` is what the patterns with ``*``
    of clients that have not left take.
    """

    __slots__ = ("callers", "clients", "queued_bytes", "subscription_bytes", "subscriptions", "uid", "usage")

    def __init__(self, uid: int) -> None:
        self.uid = uid
        self.clients = 0
        self.callers = 0
        self.subscriptions = 0
        self.subscription_bytes = 0
        self.queued_bytes = 0
        self.usage = Usage()


class Users:
    """All users that have something.

    ``most_clients`` is how many connections there can be in all. Unless ``limits.user_clients`` says how many
    of them one user may have, it may have as many as it leaves to others. So no user can take the last one,
    and neither can a few of them. However many users there are, some connections are left for root and the
    daemon's own user, who look at the statistics then.
    """

    def __init__(self, limits: Limits, most_clients: int) -> None:
        self._limits = limits
        self._most_clients = most_clients
        self._reserved = min(_RESERVED, most_clients // 8)
        self._clients = 0
        self._users: dict[int, User] = {}

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def connect(self, uid: int) -> User:
        """Count one more connection of a user. Raises OverUserLimit."""
        user = self._users.get(uid) or User(uid)
        most = self._limits.user_clients
        if most is not None and user.clients >= most:
            raise OverUserLimit(f"user {uid} has {most} clients (--max-user-clients)")
        left = self._most_clients - self._clients
        if uid in (0, os.geteuid()):
            has_place = user.clients < left or (left > 0 and user.clients < self._reserved)
        else:
            left -= self._reserved
            has_place = user.clients < left
        if most is None and not has_place:
            raise OverUserLimit(
                f"user {uid} has {user.clients} clients, and {max(left, 0)} are left for others"
                " (--max-user-clients)"
            )
        self._users[uid] = user
        self._clients += 1
        user.clients += 1
        return user

    def disconnect(self, user: User) -> None:
        """Take back one ``connect``."""
        self._clients -= 1
        user.clients -= 1
        self._forget(user)

    def check(self, user: User, size: int) -> None:
        """Raise OverUserLimit if the user may not have one more subscription that takes so many bytes."""
        limits = self._limits
        if user.subscriptions >= limits.user_subscriptions:
            raise OverUserLimit(
                f"user {user.uid} has {user.subscriptions} subscriptions (--max-user-subscriptions)"
            )
        if user.subscription_bytes + size > limits.user_subscription_bytes:
            raise OverUserLimit(
                f"over {limits.user_subscription_bytes} bytes of subscriptions of user {user.uid}"
                " (--max-user-subscription-bytes)"
            )

    def subscribe(self, user: User, size: int) -> None:
        """Count one more subscription that takes so many bytes."""
        user.subscriptions += 1
        user.subscription_bytes += size

    def unsubscribe(self, user: User, size: int) -> None:
        """Take back one ``subscribe``."""
        user.subscriptions -= 1
        user.subscription_bytes -= size
        self._forget(user)

    def _forget(self, user: User) -> None:
        if not user.clients and not user.subscriptions:
            del self._users[user.uid]
