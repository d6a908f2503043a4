# SPDX-License-Identifier: MIT
"""The KBUS bindings of a bridge: what its clients want, shared and counted, with as few calls as may be.

All are listener's bindings of one KSock that takes each message once (MSGONLYONCE). What must not happen is
that an unbind takes away copies that others wait for: KBUS counts a copy as having come by the newest binding
that matches, and an unbind removes it. Hence:

* Nothing is bound that is covered already. So a wide binding is always newer than the narrow ones below it.
* What nobody wants any more stays bound until ``tidy`` is called. That costs nothing if it is wanted again
  soon, and clients that come and go all the time cause no calls.
* ``tidy`` binds what is missing without the wide bindings that are to go, then has everything read that
  had come before, and then unbinds. What comes meanwhile comes by what has just been bound.

KBUS limits the bindings of a KSock. When there are ``most``, a wider one is made in place of the next;
``tidy`` chooses anew.
"""

from __future__ import annotations

import errno
import heapq
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator
from typing import Optional

#: Seconds that something unwanted stays bound at least.
TIDY_AFTER = 1.0
#: Tidying takes no more than one part in so many of the time.
_SHARE = 100
#: With more names than that, bindings stay as they are: finding better ones would hold up everybody.
_MOST_TIDIED = 5000
#: Bindings that are left for wider ones.
_SPARE = 16


class Bindings:
    """The names that are wanted, and those that are bound.

    ``bind`` and ``unbind`` are called with a name; ``drain`` must have all messages read and dealt with
    that are queued when it is called. ``root`` is what all names begin with, with a dot. ``most`` is how many
    bindings there may be.
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
        self._most = most
        self.wanted: Counter[bytes] = Counter()
        #: an ordered set
        self.bound: dict[bytes, None] = {}
        #: when ``tidy`` is due, in seconds of the monotonic clock; None if it is not needed
        self.tidy_at: Optional[float] = None
        self._not_before = 0.0

    def want(self, name: bytes) -> None:
        """Have messages of this name come, which may end in a wildcard.

        Raises OSError if KBUS has no room or memory for it. Then it is not wanted.
        """
        if name not in self.wanted and name not in self.bound and not self._is_under(name, self.bound):
            self._add(name)
        self.wanted[name] += 1

    def unwant(self, name: bytes) -> None:
        """Take back one ``want``."""
        self.wanted[name] -= 1
        if not self.wanted[name]:
            del self.wanted[name]
            self._tidy_later()

    def tidy(self) -> None:
        """Bind what is wanted and nothing else, or what comes nearest to that within the limit."""
        self.tidy_at = None
        if len(self.wanted) > _MOST_TIDIED:
            return
        began = time.monotonic()
        target = self._target()
        going = {name: None for name in self.bound if name not in target}
        missing = [name for name in target if name not in self.bound]
        # What is older than a wide binding that goes must become newer. Nothing comes by it now, but what did
        # before the wide one was made must have been read.
        older = [name for name in target if name in self.bound and self._is_under(name, going)]
        if going:
            self._drain()
        for name in older:
            self._drop(name)
        try:
            for name in (*older, *missing):
                self._make(name)
        except OSError:
            # No room for both: those that were to go stay, and cover everything.
            self._tidy_later(_SHARE * TIDY_AFTER)
            return
        if going:
            self._drain()
        for name in going:
            self._drop(name)
        took = time.monotonic() - began
        self._not_before = time.monotonic() + _SHARE * took

    def _tidy_later(self, after: float = TIDY_AFTER) -> None:
        if self.tidy_at is None:
            self.tidy_at = max(time.monotonic() + after, self._not_before)

    def _is_under(self, name: bytes, wildcards: Container[bytes]) -> bool:
        return any(cover in wildcards for cover in _covers_of(name, self._root))

    def _add(self, name: bytes) -> None:
        """Bind, or bind something wider if there are too many."""
        first = self._root + name[len(self._root) :].split(b".")[0] + b"."
        candidates = [name] if len(self.bound) < self._most - _SPARE else []
        if name.startswith(first) and len(self.bound) < self._most - 1:
            candidates.append(first + b"*")
        candidates.append(self._root + b"*")
        for candidate in candidates:
            try:
                self._make(candidate)
            except OSError as error:
                if error.errno != errno.ENOSPC or candidate == candidates[-1]:
                    raise
                self._most = max(2 * _SPARE, len(self.bound))
            else:
                if candidate != name:
                    self._tidy_later()
                return

    def _make(self, name: bytes) -> None:
        self._bind(name)
        self.bound[name] = None

    def _drop(self, name: bytes) -> None:
        self._unbind(name)
        del self.bound[name]

    def _target(self) -> set[bytes]:
        """What is to be bound: the widest of what is wanted, and wider ones where there are too many."""
        widest = {name for name in self.wanted if not self._is_under(name, self.wanted)}
        most = (self._most - _SPARE) // 2
        return widest if len(widest) <= most else _widened(widest, self._root, most)


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


def _widened(names: set[bytes], root: bytes, most: int) -> set[bytes]:
    """At most so many wildcards and names that cover the names; those with few others beside them stay."""
    children: dict[bytes, set[bytes]] = {}
    for name in names:
        end = name.rfind(b".") + 1
        below = name
        while end >= len(root):
            siblings = children.setdefault(name[:end], set())
            if below in siblings:
                break
            siblings.add(below)
            below = name[:end]
            end = name.rfind(b".", 0, end - 1) + 1
    chosen = {root + b"*"}
    count = 1
    heap = [(len(children[root]), root)]
    while heap:
        extra, prefix = heapq.heappop(heap)
        if count + extra - 1 > most:
            break
        chosen.remove(prefix + b"*")
        count += extra - 1
        for child in children[prefix]:
            if child.endswith(b"."):
                chosen.add(child + b"*")
                heapq.heappush(heap, (len(children[child]), child))
            else:
                chosen.add(child)
    return chosen
