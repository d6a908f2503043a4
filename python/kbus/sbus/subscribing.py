# SPDX-License-Identifier: MIT
"""The subscriptions of all clients of a bridge, within their limits, and the KBUS bindings they need."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Optional

from . import patterns, secret
from .bindings import Bindings
from .keymap import KeyMap
from .limits import Limits, cost
from .peer import Peer
from .routing import Table
from .usage import OverLimit
from .users import Users

#: Seconds for which subscriptions of clients that have left are removed at a time, as others wait meanwhile.
_SLICE = 0.0002


class Subscriptions:
    """Who is subscribed to what. Patterns that begin with ``!/cred/`` are complete, and kept apart.

    Those that no key can match, because its name would be too long, are counted and nothing more.

    ``changed`` is called with the message name that somebody's subscription is about, or None if there may be
    several.
    """

    def __init__(
        self,
        keymap: KeyMap,
        bindings: Bindings,
        limits: Limits,
        changed: Callable[[object], None],
        users: Users,
    ) -> None:
        self._keymap = keymap
        self._bindings = bindings
        self._limits = limits
        self._changed = changed
        self._users = users
        self._public: Table[Peer] = Table(keymap.separator)
        self._secret: Table[Peer] = Table(keymap.separator)
        #: those for whom ``forget`` has something to do
        self.leaving: deque[Peer] = deque()

    def add(self, peer: Peer, pattern: bytes) -> None:
        """Subscribe once more. Raises OverLimit, OverUserLimit, and OSError if KBUS refuses what it needs."""
        size = cost(pattern, self._keymap.separator)
        if peer.subscription_bytes + size > self._limits.subscription_bytes:
            raise OverLimit(f"over {self._limits.subscription_bytes} bytes of subscriptions")
        segments = self._segments(pattern)
        peer.user.usage.check(segments, self._limits)
        self._users.check(peer.user, size)
        if self._is_secret(pattern):
            self._secret.add(pattern, peer)
        elif (name := self._keymap.binding(pattern)) is not None:
            self._bindings.want(name)
            self._public.add(pattern, peer)
            self._note(pattern, name)
        peer.patterns[pattern] += 1
        peer.subscription_bytes += size
        self._users.subscribe(peer.user, size)
        for each in (peer.user.usage, peer.usage):
            each.add(segments)

    def remove(self, peer: Peer, pattern: bytes) -> bool:
        """Unsubscribe once. Returns False if the client is not subscribed to this pattern."""
        if pattern not in peer.patterns:
            return False
        peer.patterns[pattern] -= 1
        if not peer.patterns[pattern]:
            del peer.patterns[pattern]
        peer.subscription_bytes -= cost(pattern, self._keymap.separator)
        for each in (peer.user.usage, peer.usage):
            each.remove(self._segments(pattern))
        name = self._release(peer, pattern)
        if name is not None:
            self._note(pattern, name)
        return True

    def leave(self, peer: Peer) -> None:
        """Remove all that a client has, which is not found any more from now on, some at a time."""
        self._changed(None)
        if peer.patterns:
            # At once, so that it can come back with as much.
            peer.user.usage.subtract(peer.usage)
            self.leaving.append(peer)

    def forget(self) -> None:
        """Remove some of the subscriptions of those who have left."""
        until = time.monotonic() + _SLICE
        while self.leaving:
            peer = self.leaving[0]
            if not peer.patterns:
                self.leaving.popleft()
                continue
            # From the end: to look for the first one of a dictionary takes longer the more are gone.
            pattern, count = peer.patterns.popitem()
            if count > 1:
                peer.patterns[pattern] = count - 1
            self._release(peer, pattern)
            if time.monotonic() > until:
                return

    def subscribers(self, key: bytes) -> Iterable[Peer]:
        """Return who gets a message with this key, which is no secret one."""
        return (peer for peer in self._public.find(key) if not peer.is_closed)

    def secret_subscribers(self, key: bytes) -> Iterable[Peer]:
        """Return who gets a secret message with this complete key."""
        return (peer for peer in self._secret.find(key) if not peer.is_closed and peer.identity.holds())

    def _release(self, peer: Peer, pattern: bytes) -> Optional[bytes]:
        """Undo what ``add`` has done; the name that it has wanted, if any."""
        self._users.unsubscribe(peer.user, cost(pattern, self._keymap.separator))
        if self._is_secret(pattern):
            self._secret.remove(pattern, peer)
            return None
        name = self._keymap.binding(pattern)
        if name is not None:
            self._public.remove(pattern, peer)
            self._bindings.unwant(name)
        return name

    def _is_secret(self, pattern: bytes) -> bool:
        return self._keymap.has_secrets and pattern.startswith(secret.PREFIX)

    def _note(self, pattern: bytes, name: bytes) -> None:
        self._changed(name if patterns.is_exact(pattern, self._keymap.separator) else None)

    def _segments(self, pattern: bytes) -> list[bytes]:
        """The segments of a pattern that takes time with keys that it does not match; none of any other."""
        if b"*" not in pattern or not self._keymap.can_match(pattern):
            return []
        return patterns.normal(pattern).split(self._keymap.separator)
