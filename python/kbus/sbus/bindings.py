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

KBUS limits the bindings of a KSock, and those to wildcards of a user without CAP_SYS_RESOURCE. When there are
no more, a wider one is made in place of the next; ``tidy`` chooses anew. One wildcard is kept back for that.
"""

from __future__ import annotations

import errno
import heapq
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator
from typing import NamedTuple, Optional

#: Seconds that something unwanted stays bound at least.
TIDY_AFTER = 1.0
#: Tidying takes no more than one part in so many of the time.
_SHARE = 100
#: With more words in all names, bindings stay as they are: finding better ones would hold up everybody.
_MOST_TIDIED = 25_000
#: Bindings that are left for wider ones.
_SPARE = 16


class Allowed(NamedTuple):
    """How many bindings KBUS allows, and how many of them to wildcards."""

    most: int
    wildcards: int


class Bindings:
    """The names that are wanted, and those that are bound.

    ``bind`` and ``unbind`` are called with a name; ``drain`` must have all messages read and dealt with
    that are queued when it is called. ``root`` is what all names begin with, with a dot. ``allowed`` is what
    KBUS allows, as far as is known.
    """

    def __init__(
        self,
        bind: Callable[[bytes], None],
        unbind: Callable[[bytes], None],
        drain: Callable[[], None],
        root: bytes,
        allowed: Allowed,
    ) -> None:
        self._bind, self._unbind, self._drain = bind, unbind, drain
        self._root = root
        self._everything = root + b"*"
        self._allowed = self._now = allowed
        self._wildcards = 0
        self.wanted: Counter[bytes] = Counter()
        #: how many words all these names have
        self._words = 0
        #: an ordered set, the newest last
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
        """Bind what is wanted and nothing else, or what comes nearest to that within the limits."""
        self.tidy_at = None
        if self._words <= _MOST_TIDIED:
            began = time.monotonic()
            try:
                self._rebind(self._target())
            except OSError:
                # No room for both: those that were to go stay, and cover everything.
                self._tidy_later(_SHARE * TIDY_AFTER)
                return
            took = time.monotonic() - began
            self._not_before = time.monotonic() + _SHARE * took
        # Others of the same user may have made room.
        self._now = self._allowed

    def _rebind(self, target: set[bytes]) -> None:
        going = {name: None for name in self.bound if name not in target}
        if sum(map(_is_wildcard, (*target, *going))) > self._now.wildcards:
            # No room for the old and the new ones at a time, but for the one that covers them all.
            if self._everything not in self.bound:
                self._make(self._everything)
            if self._everything not in target:
                going[self._everything] = None
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

    def _tidy_later(self, after: float = TIDY_AFTER) -> None:
        if self.tidy_at is None:
            self.tidy_at = max(time.monotonic() + after, self._not_before)

    def _is_under(self, name: bytes, wildcards: Container[bytes]) -> bool:
        return any(cover in wildcards for cover in _covers_of(name, self._root))

    def _add(self, name: bytes) -> None:
        """Bind, or bind something wider if there are too many."""
        for candidate in list(self._candidates(name)):
            try:
                self._make(candidate)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                # There may be room again by then.
                self._tidy_later()
                if candidate == self._everything:
                    raise
            else:
                if candidate != name:
                    self._tidy_later()
                return

    def _candidates(self, name: bytes) -> Iterator[bytes]:
        """What can be bound for a name, the tightest first."""
        most, wildcards = self._now
        has_wildcard = self._wildcards < wildcards - 1
        if len(self.bound) < most - _SPARE and (has_wildcard or not _is_wildcard(name)):
            yield name
        if len(self.bound) < most - 1 and has_wildcard:
            if not _is_wildcard(name):
                yield name[: name.rfind(b".") + 1] + b"%"
            first = self._root + name[len(self._root) :].split(b".")[0] + b"."
            if name.startswith(first):
                yield first + b"*"
        yield self._everything

    def _learn(self, name: bytes) -> None:
        """There may be no more bindings, or no more to wildcards, than there are now."""
        most, wildcards = self._now
        if _is_wildcard(name):
            self._now = Allowed(most, self._wildcards)
        else:
            self._now = Allowed(max(2 * _SPARE, len(self.bound)), wildcards)

    def _make(self, name: bytes) -> None:
        try:
            self._bind(name)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                self._learn(name)
            raise
        self.bound[name] = None
        self._wildcards += _is_wildcard(name)

    def _drop(self, name: bytes) -> None:
        self._unbind(name)
        del self.bound[name]
        self._wildcards -= _is_wildcard(name)

    def _target(self) -> set[bytes]:
        """What is to be bound: the widest of what is wanted, and wider ones where there are too many."""
        widest = {name for name in self.wanted if not self._is_under(name, self.wanted)}
        most = Allowed((self._now.most - _SPARE) // 2, max(0, self._now.wildcards - 1))
        if len(widest) <= most.most and sum(map(_is_wildcard, widest)) <= most.wildcards:
            return widest
        return _widened(widest, self._root, most)


def _is_wildcard(name: bytes) -> bool:
    return name.endswith((b"*", b"%"))


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


def _widened(names: set[bytes], root: bytes, allowed: Allowed) -> set[bytes]:
    """What covers the names within limits, ``root*`` at worst; those with few others beside them stay."""
    below: dict[bytes, set[bytes]] = {}
    for name in names:
        for cover in _covers_of(name, root):
            siblings = below.setdefault(cover, set())
            if name in siblings:
                break
            siblings.add(name)
            name = cover
    everything = root + b"*"
    chosen = {everything}
    wildcards = 1
    heap = [(len(below[everything]), everything)] if below else []
    while heap:
        count, cover = heapq.heappop(heap)
        if len(chosen) + count - 1 > allowed.most:
            break
        more = sum(map(_is_wildcard, below[cover])) - 1
        if wildcards + more > allowed.wildcards:
            continue
        wildcards += more
        chosen.remove(cover)
        for name in below[cover]:
            chosen.add(name)
            if name in below:
                heapq.heappush(heap, (len(below[name]), name))
    return chosen
