# SPDX-License-Identifier: MIT
"""The KBUS bindings of a bridge: what its clients need, shared and counted, with as few calls as may be.

All are listener's bindings of one KSock that takes each message once (MSGONLYONCE). What must not happen is
that an unbind takes away copies that others wait for: KBUS counts a copy as having come by the newest binding
that matches, and an unbind removes it. Hence:

* Nothing is bound that is covered already. So a wide binding is always newer than the narrow ones below it.
* What no client needs any more stays bound until ``tidy`` is called. That costs nothing if it is needed again
  soon, and clients that come and go all the time cause no calls.
* ``tidy`` binds what is missing without the wide bindings that are to go, then has everything read that
  had come before, and then unbinds. What comes meanwhile comes by what has just been bound.

A KSock may have so many bindings. When more are needed, the name that covers all is bound in their place.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterator

NEVER = float("inf")
#: Seconds that something unwanted stays bound at least.
TIDY_AFTER = 1.0
#: With more words in all names, bindings stay as they are: finding better ones would delay all clients.
_MOST_TIDIED = 25_000
_PARAMETER = "/sys/module/kbus/parameters/max_ksock_bindings"


def most_bindings() -> int:
    """Return how many names KBUS lets a KSock be bound to."""
    try:
        with open(_PARAMETER) as parameter:
            return int(parameter.read())
    except OSError:
        # A service may not be allowed to read it. KBUS refuses one too many all the same.
        return 4096


class Bindings:
    """The names that are wanted, and those that are bound.

    ``bind`` and ``unbind`` are called with a name; ``drain`` must have all messages read and dealt with
    that are queued when it is called. ``root`` is what all names begin with, with a dot. ``most`` is how many
    may be bound.
    """

    def __init__(
        self,
        bind: Callable[[bytes], None],
        unbind: Callable[[bytes], None],
        drain: Callable[[], None],
        root: bytes,
        most: int,
    ) -> None:
        self._bind, self._unbind, self._drain = bind, unbind, drain
        self._root = root
        self._everything = root + b"*"
        self._most = most
        self.wanted: Counter[bytes] = Counter()
        #: how many words all these names have
        self._words = 0
        #: an ordered set, the newest last
        self.bound: dict[bytes, None] = {}
        #: when ``tidy`` is due, in seconds of the monotonic clock
        self.tidy_at = NEVER

    def want(self, name: bytes) -> None:
        """Have messages of this name come, which may end in a wildcard.

        Raises OSError if KBUS has no room or memory for it. Then it is not wanted.
        """
        if name not in self.wanted and name not in self.bound and not self._is_under(name, self.bound):
            # The last binding is for the one that covers all.
            self._make(name if len(self.bound) < self._most - 1 else self._everything)
        if name not in self.wanted:
            self._words += name.count(b".")
        self.wanted[name] += 1

    def unwant(self, name: bytes) -> None:
        """Take back one ``want``."""
        self.wanted[name] -= 1
        if not self.wanted[name]:
            del self.wanted[name]
            self._words -= name.count(b".")
            self._tidy_later()

    def tidy(self) -> None:
        """Bind what is wanted and nothing else, or all if that is too much."""
        self.tidy_at = NEVER
        if self._words > _MOST_TIDIED:
            return
        target = {name for name in self.wanted if not self._is_under(name, self.wanted)}
        try:
            if len(target) >= self._most or len({*target, *self.bound}) > self._most:
                self._rebind({self._everything})
            if len(target) < self._most:
                self._rebind(target)
        except OSError:
            # What was to go stays, and covers what could not be bound.
            self._tidy_later()

    def _rebind(self, target: set[bytes]) -> None:
        going = {name: None for name in self.bound if name not in target}
        # What is older than a wide binding that goes becomes newer, or goes too. Nothing comes by it now, but
        # what did before the wide one was made must have been read.
        age = {name: number for number, name in enumerate(self.bound)}
        older = [
            name
            for name in self.bound
            if any(cover in going and age[cover] > age[name] for cover in _covers_of(name, self._root))
        ]
        if going:
            self._drain()
        for name in older:
            self._drop(name)
        for name in target:
            if name not in self.bound:
                self._make(name)
        if going:
            self._drain()
        for name in going:
            if name in self.bound:
                self._drop(name)

    def _tidy_later(self) -> None:
        self.tidy_at = min(self.tidy_at, time.monotonic() + TIDY_AFTER)

    def _is_under(self, name: bytes, wildcards: Container[bytes]) -> bool:
        return any(cover in wildcards for cover in _covers_of(name, self._root))

    def _make(self, name: bytes) -> None:
        self._bind(name)
        self.bound[name] = None

    def _drop(self, name: bytes) -> None:
        self._unbind(name)
        del self.bound[name]


def _covers_of(name: bytes, root: bytes) -> Iterator[bytes]:
    """The wildcards that match all that a name matches, but for itself."""
    begin = len(root) - 1
    end = name.rfind(b".")
    if name[end + 1 :] not in (b"*", b"%"):
        yield name[: end + 1] + b"%"
    if name[end + 1 :] != b"*":
        yield name[: end + 1] + b"*"
    while end > begin:
        end = name.rfind(b".", begin, end)
        yield name[: end + 1] + b"*"
