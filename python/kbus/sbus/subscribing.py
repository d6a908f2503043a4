# SPDX-License-Identifier: MIT
"""The subscriptions of all clients of a bridge, within their limits, and the KBUS bindings they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Optional

from . import packets, secret
from .bindings import Bindings
from .keymap import KeyMap
from .limits import DEEPEST_WILDCARD, OverLimit, Users, cost, work
from .peer import Peer
from .routing import Routes


class Subscriptions:
    """The subscriptions of all clients. Patterns that begin with ``!/cred/`` are complete, and kept apart.

    Those that no key can match, because its name would be too long, are counted and nothing more.

    ``changed`` is called with the message name that a subscription is about, or None if there may be
    several.
    """

    def __init__(
        self,
        keymap: KeyMap,
        bindings: Bindings,
        changed: Callable[[object], None],
        users: Users,
    ) -> None:
        self._keymap = keymap
        self._bindings = bindings
        self._changed = changed
        self._users = users
        self._public: Routes[Peer] = Routes(keymap.separator)
        self._secret: Routes[Peer] = Routes(keymap.separator)

    def add(self, peer: Peer, pattern: bytes) -> None:
        """Subscribe once more. Raises OverLimit, and OSError if KBUS refuses what it needs."""
        size, work = self._costs(pattern)
        self._users.check(peer.user, size, work)
        if self._is_secret(pattern):
            self._secret.add(pattern, peer)
        elif (name := self._keymap.binding(pattern)) is not None:
            self._bindings.want(name)
            self._public.add(pattern, peer)
            self._note(pattern, name)
        peer.patterns[pattern] += 1
        peer.user.count(1, size, work)

    def remove(self, peer: Peer, pattern: bytes) -> bool:
        """Unsubscribe once. Returns False if the client is not subscribed to this pattern."""
        if pattern not in peer.patterns:
            return False
        peer.patterns[pattern] -= 1
        if not peer.patterns[pattern]:
            del peer.patterns[pattern]
        name = self._release(peer, pattern)
        if name is not None:
            self._note(pattern, name)
        return True

    def leave(self, peer: Peer) -> None:
        """Remove all that a client has."""
        for pattern in peer.patterns.elements():
            self._release(peer, pattern)
        peer.patterns.clear()
        self._changed(None)

    def subscribers(self, key: bytes) -> Iterable[Peer]:
        """Return the clients that get a message with this key, which is no secret one."""
        return self._public.find(key)

    def secret_subscribers(self, key: bytes) -> Iterable[Peer]:
        """Return the clients that get a secret message with this complete key."""
        return (peer for peer in self._secret.find(key) if peer.identity.holds())

    def _release(self, peer: Peer, pattern: bytes) -> Optional[bytes]:
        """Undo what ``add`` has done; the name that it has wanted, if any."""
        peer.user.count(-1, *self._costs(pattern))
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
        self._changed(name if packets.is_exact(pattern, self._keymap.separator) else None)

    def _costs(self, pattern: bytes) -> tuple[int, int]:
        """Memory and work that a pattern takes. Raises OverLimit if it has too many segments."""
        separator = self._keymap.separator
        size = cost(pattern, separator)
        if b"*" not in pattern or not self._keymap.can_match(pattern):
            return size, 0
        segments = packets.normal(pattern).split(separator)
        if len(segments) > DEEPEST_WILDCARD:
            raise OverLimit(f"a pattern with * of over {DEEPEST_WILDCARD} segments")
        return size, work(segments)
