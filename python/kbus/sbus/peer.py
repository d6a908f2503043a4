# SPDX-License-Identifier: MIT
"""One client of a bridge: its socket, its settings, and the queue of what the socket did not take."""

from __future__ import annotations

import errno
import socket
from collections import Counter
from collections.abc import Sequence
from typing import Optional

from . import counts, flow, log
from .backlog import Backlog, memory
from .calling import Calls
from .counts import Counts
from .identity import Identity
from .limits import OVER_PACKETS, OVER_QUEUED, SOCKET_OVERHEAD, Limits
from .mmsg import BATCH, Sender
from .rules import Rights
from .usage import Usage
from .users import User

#: the kernel's number, which Python does not name
_SO_SNDBUFFORCE = 32
_SEND_FLAGS = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
_NOT_THERE = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.ESHUTDOWN)


class Total:
    """What all clients of a bridge share: the bytes of memory that their queues take, and the log."""

    def __init__(self) -> None:
        self.queued_bytes = 0
        self.log = log.OfUsers()


class Peer:
    """A client. ``number``, from 1, tells it from others. ``user`` is what it shares with those of its user.

    ``publishers`` are those who wait for room in this client's queue, ``waits_for`` those for whom this one
    waits. ``is_doomed`` says why it is to be disconnected.
    """

    def __init__(
        self,
        connected: socket.socket,
        number: int,
        limits: Limits,
        total: Total,
        user: Optional[User] = None,
    ) -> None:
        self.identity = Identity(connected)
        self.user = user or User(self.identity.credentials.uid)
        self.socket = connected
        self.fd = connected.fileno()
        self.number = number
        self.settings = flow.Settings()
        self.backlog = Backlog()
        self.counts = Counts()
        #: what the rules for keys let it do, None if there are no rules
        self.rights: Optional[Rights] = None
        #: the message names of keys that it may publish to, shared with all that may do the same
        self.names: dict[bytes, bytes] = {}
        self.patterns: Counter[bytes] = Counter()
        self.subscription_bytes = 0
        self.usage = Usage()
        #: its Requests, and those that it answers, once there have been any
        self.calls: Optional[Calls] = None
        self.publishers: set[Peer] = set()
        self.waits_for: set[Peer] = set()
        #: whether it had more than one packet when it was last read
        self.is_busy = False
        #: whether it had many bytes then
        self.is_bulky = False
        #: how often it has asked for statistics
        self.looked = 0
        self.is_at_end = False
        self.is_gone = False
        self.is_closed = False
        self.is_doomed: Optional[str] = None
        #: what its socket's buffer may hold, once it was made larger for a large packet
        self._buffer_bytes = 0
        self._limits = limits
        self._total = total

    def __repr__(self) -> str:
        own = self.identity.credentials
        return f"client {self.number} (process {own.pid}, user {own.uid})"

    @property
    def only_looks(self) -> bool:
        """Whether it has asked for statistics, and for nothing else."""
        return 0 < self.looked == self.counts.received

    def drop(self, cause: str, detail: object = "") -> None:
        """Count a packet that is dropped, and tell of it, not too often, or once for this client."""
        self.counts.dropped[cause] += 1
        if cause in counts.TOLD_ONCE and self.counts.dropped[cause] > 1:
            return
        line = f"{self!r}: dropped, {cause}{f': {detail}' if detail else ''}"
        self._total.log.say(self.identity.credentials.uid, line)

    def doom(self, cause: str) -> None:
        """Have it disconnected as soon as nothing is being done with it."""
        if self.is_doomed is None:
            self.is_doomed = cause

    def send(self, packet: bytes, publisher: Optional[Peer]) -> bool:
        """Send a packet, or do with it what flood control says.

        ``publisher`` is the client who published it, if it matters who that was. Returns False if that has
        changed what is to be waited for at this client.
        """
        if not self.backlog.count and not self.is_gone:
            try:
                self.socket.send(packet, _SEND_FLAGS)
            except OSError as error:
                if self._has_failed(packet, error):
                    return not self.is_gone
            else:
                self.counts.delivered += 1
                return True
        self._keep(packet, publisher)
        return False

    def send_many(self, packets: Sequence[bytes], publisher: Optional[Peer], sender: Sender) -> bool:
        """Send packets, which ``sender`` has laid out; otherwise like ``send``."""
        done = 0
        if not self.backlog.count and not self.is_gone:
            done = sender.send(self.fd)
            self.counts.delivered += done
        is_unchanged = True
        # What sendmmsg did not take, send() is to give the reason for.
        for packet in packets[done:]:
            is_unchanged = self.send(packet, publisher) and is_unchanged
        return is_unchanged

    def _send(self, packet: bytes) -> bool:
        """Send one packet, or drop it if it can never be sent. Returns False if it would block."""
        try:
            self.socket.send(packet, _SEND_FLAGS)
        except OSError as error:
            return self._has_failed(packet, error)
        self.counts.delivered += 1
        return True

    def _has_failed(self, packet: bytes, error: OSError) -> bool:
        """Whether a packet that could not be sent is dealt with; False if it is to be tried again."""
        if error.errno == errno.EMSGSIZE:
            return self._send_large(packet)
        if error.errno not in _NOT_THERE:
            # EAGAIN; and ENOBUFS and ENOMEM, which are as good as a full socket.
            return False
        self.is_gone = True
        self.counts.dropped[counts.LEFT] += 1
        return True

    def _send_large(self, packet: bytes) -> bool:
        """Send a packet for which the socket's buffer is too small, if it can be made larger."""
        # The kernel doubles what is set.
        more = 2 * (len(packet) + SOCKET_OVERHEAD) - self._buffer_bytes
        if more > self._left_for_user():
            self._drop_for_user()
            return True
        before = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        for option in (socket.SO_SNDBUF, _SO_SNDBUFFORCE):
            try:
                self.socket.setsockopt(socket.SOL_SOCKET, option, len(packet) + SOCKET_OVERHEAD)
            except PermissionError:
                continue
            if self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > max(before, len(packet)):
                self._charge(more)
                self._buffer_bytes += more
                return self._send(packet)
        self.drop(
            counts.SOCKET_TOO_SMALL, f"{len(packet)} bytes; the system's net.core.wmem_max is the limit"
        )
        return True

    def _keep(self, packet: bytes, publisher: Optional[Peer]) -> None:
        if self.is_gone or self.is_doomed:
            self.counts.dropped[counts.LEFT] += 1
            return
        settings = publisher.settings if publisher is not None else None
        what = flow.outcome(self.settings, settings, not self._has_room(packet))
        waits = what == flow.BLOCK
        if waits and not self._has_room(packet, OVER_QUEUED, OVER_PACKETS * self._limits.packet):
            what = flow.outcome(self.settings, None, is_full=True)
        if what == flow.ERROR:
            when = "a message would have to wait" if self.settings.soft == flow.ERROR else "its queue is full"
            self.doom(f"it asked for that if {when}")
            self.counts.dropped[counts.LEFT] += 1
        elif what == flow.DISCARD:
            self._discard(packet)
        else:
            self._push(packet)
        # Of an empty queue nobody would be told that it has room.
        if waits and publisher is not None and self.backlog.count:
            self.publishers.add(publisher)
            publisher.waits_for.add(self)

    def _has_room(self, packet: bytes, more: int = 0, more_bytes: int = 0) -> bool:
        """Whether a packet can be queued, with the limit of the queue higher by so much."""
        backlog, limits, size = self.backlog, self._limits, memory(packet)
        return (
            backlog.count < limits.queued + more
            and backlog.bytes + size <= limits.queued_bytes + more_bytes
            and size <= self._left_for_user()
            and self._total.queued_bytes + size <= limits.queued_bytes_in_all
        )

    def _left_for_user(self) -> int:
        """How many bytes may be queued for clients of its user, beside those that are."""
        most = self._limits.user_queued_bytes
        if most is None:
            most = self._limits.queued_bytes_in_all - self._total.queued_bytes
        return most - self.user.queued_bytes

    def _discard(self, packet: bytes) -> None:
        if self.settings.soft == flow.DISCARD:
            self.drop(counts.SOCKET_FULL)
        elif memory(packet) > self._left_for_user():
            self._drop_for_user()
        else:
            self.drop(counts.QUEUE_FULL)

    def _drop_for_user(self) -> None:
        held = self.user.queued_bytes
        why = f"{held} bytes wait for clients of user {self.user.uid} (--max-user-queued-bytes)"
        self.drop(counts.USER_QUEUED, why)

    def _push(self, packet: bytes) -> None:
        backlog = self.backlog
        backlog.push(packet)
        self._charge(memory(packet))
        self.counts.queued_max = max(self.counts.queued_max, backlog.count)
        self.counts.queued_bytes_max = max(self.counts.queued_bytes_max, backlog.bytes)

    def _charge(self, count: int) -> None:
        """Count bytes that are queued, or less than 0 that are not queued any more."""
        self._total.queued_bytes += count
        self.user.queued_bytes += count

    def flush(self) -> None:
        """Send what is queued, as far as the socket takes it, at most one batch."""
        backlog = self.backlog
        for _ in range(min(BATCH, backlog.count)):
            if not self._send(backlog.first()):
                break
            self._charge(-memory(backlog.pop()))
            if self.is_gone:
                self.clear()
                return

    def released(self) -> list[Peer]:
        """Return the publishers that need not wait for this client any more."""
        backlog, limits = self.backlog, self._limits
        used = max(backlog.count / limits.queued, backlog.bytes / limits.queued_bytes)
        free = [each for each in self.publishers if flow.is_room(each.settings, used)]
        for publisher in free:
            self.publishers.discard(publisher)
            publisher.waits_for.discard(self)
        return [publisher for publisher in free if not publisher.waits_for]

    def wait_no_more(self) -> None:
        """Go on as a publisher, whoever has no room."""
        for other in self.waits_for:
            other.publishers.discard(self)
        self.waits_for.clear()

    def clear(self) -> None:
        """Drop what is queued."""
        self._charge(-self.backlog.bytes)
        dropped = self.backlog.clear()
        if dropped:
            self.counts.dropped[counts.LEFT] += dropped

    def close(self) -> list[Peer]:
        """Disconnect. Returns the publishers that need not wait any more."""
        self.clear()
        self._charge(-self._buffer_bytes)
        self.wait_no_more()
        waited = list(self.publishers)
        self.publishers.clear()
        for publisher in waited:
            publisher.waits_for.discard(self)
        self.is_closed = True
        if self.calls is not None:
            self.calls.close()
        self.identity.close()
        self.socket.close()
        return [publisher for publisher in waited if not publisher.waits_for]
