# SPDX-License-Identifier: MIT
"""One client of a bridge: its socket, its settings, and the queue of what the socket did not take."""

from __future__ import annotations

import errno
import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Optional

from . import counts, flow, log
from .access import Rights
from .calling import Calls
from .counts import BridgeCounts
from .flow import Backlog, memory
from .identity import Identity
from .limits import OVER_PACKETS, OVER_QUEUED, SOCKET_OVERHEAD, BridgeLimits, User
from .mmsg import BATCH, PacketSender

#: the kernel's number, which Python does not name
_SO_SNDBUFFORCE = 32
_SEND_FLAGS = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
_NOT_THERE = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.ESHUTDOWN)


class Total:
    """What all clients of a bridge share: the bytes of memory that their queues take, and the log.

    ``changed`` collects the clients whose queue, right to be read or stay is not as it was.
    """

    def __init__(self) -> None:
        self.queued_bytes = 0
        self.changed: set[Peer] = set()
        self.log = log.Limited()


class Peer:
    """A client. ``number``, from 1, is its own. ``user`` is what it shares with those of its user.

    ``publishers`` are those that wait for room in this client's queue, ``waits_for`` those for which this
    waits. ``is_doomed`` says why it is to be disconnected; one that ``has_left`` is, too.
    """

    def __init__(
        self,
        connected: socket.socket,
        identity: Identity,
        number: int,
        limits: BridgeLimits,
        total: Total,
        user: User,
    ) -> None:
        self.identity = identity
        self.user = user
        self.socket = connected
        _make_room(connected, limits.packet)
        self.fd = connected.fileno()
        self.number = number
        self.settings = flow.FlowSettings()
        self.backlog = Backlog()
        self.counts = BridgeCounts()
        #: what the rules for keys let it do, None if there are no rules
        self.rights: Optional[Rights] = None
        #: the message names of keys that it may publish to, shared with all that may do the same
        self.names: dict[bytes, bytes] = {}
        self.patterns: Counter[bytes] = Counter()
        #: its Requests, and those that it answers, once there have been any
        self.calls: Optional[Calls] = None
        self.publishers: set[Peer] = set()
        self.waits_for: set[Peer] = set()
        #: whether it had more than one packet when it was last read
        self.is_busy = False
        #: how often it has asked for statistics
        self.looked = 0
        self.is_at_end = False
        self.is_gone = False
        self.is_doomed: Optional[str] = None
        self.has_left = False
        self._limits = limits
        self._total = total

    def __repr__(self) -> str:
        own = self.identity.credentials
        return f"client {self.number} (process {own.pid}, user {own.uid})"

    @property
    def only_looks(self) -> bool:
        """Whether it has asked for statistics, and for nothing else."""
        return 0 < self.looked == self.counts.received

    def drop(self, cause: str, detail: object = "", count: int = 1) -> None:
        """Count packets that are dropped, and log it, not too often, or once for this client."""
        self.counts.dropped[cause] += count
        if cause in counts.TOLD_ONCE and self.counts.dropped[cause] > count:
            return
        self._total.log.say(f"{self!r}: dropped, {cause}{f': {detail}' if detail else ''}")

    def has_changed(self) -> None:
        """Have the server look at it: it may be to go, or other events are to be waited for."""
        self._total.changed.add(self)

    def doom(self, cause: str) -> None:
        """Have it disconnected as soon as nothing is being done with it."""
        if self.is_doomed is None:
            self.is_doomed = cause
        self.has_changed()

    def shut(self, cause: str) -> None:
        """Show it that it is disconnected, and disconnect it when all that it has sent has been read."""
        self._total.log.say(f"{self!r} is disconnected: {cause}")
        self.socket.shutdown(socket.SHUT_RDWR)
        self.lose()

    def send(self, packet: bytes, publisher: Optional[Peer], is_answer: bool = False) -> bool:
        """Send a packet, or do with it what flood control says. Returns False if it is dropped.

        ``publisher`` is the client that published it, if that matters. What this client has asked
        for is queued whatever it has asked for otherwise, over the limit if need be.
        """
        if not self.backlog.count and not self.is_gone:
            try:
                self.socket.send(packet, _SEND_FLAGS)
            except OSError as error:
                if self._has_failed(packet, error):
                    return False
            else:
                self.counts.delivered += 1
                return True
        self.has_changed()
        return self._keep(packet, publisher, is_answer)

    def send_many(self, packets: Sequence[bytes], publisher: Optional[Peer], sender: PacketSender) -> None:
        """Send packets, which ``sender`` has laid out; otherwise like ``send``."""
        done = 0
        if not self.backlog.count and not self.is_gone:
            done = sender.send(self.fd)
            self.counts.delivered += done
        # send() gives the reason why sendmmsg did not take it.
        for packet in packets[done:]:
            self.send(packet, publisher)

    def _has_failed(self, packet: bytes, error: OSError) -> bool:
        """Whether a packet that could not be sent is dealt with; False if it is to be tried again."""
        if error.errno == errno.EMSGSIZE:
            self.drop(counts.SOCKET_TOO_SMALL, f"{len(packet)} bytes; net.core.wmem_max is the limit")
            return True
        if error.errno not in _NOT_THERE:
            # EAGAIN; and ENOBUFS and ENOMEM, which are as good as a full socket.
            return False
        self.counts.dropped[counts.LEFT] += 1
        self.is_gone = True
        self.has_changed()
        return True

    def lose(self) -> None:
        """The client can receive nothing any more, so no publisher is to wait for it."""
        self.is_gone = True
        self.clear()
        self.release()
        self.has_changed()

    def _keep(self, packet: bytes, publisher: Optional[Peer], is_answer: bool) -> bool:
        if self.is_gone or self.is_doomed:
            self.counts.dropped[counts.LEFT] += 1
            return False
        settings = publisher.settings if publisher is not None else None
        what = flow.outcome(self.settings, settings, not self._has_room(packet))
        waits = what == flow.BLOCK
        if waits or (is_answer and what == flow.DISCARD):
            is_full = not self._has_room(packet, OVER_QUEUED, OVER_PACKETS * self._limits.packet)
            what = flow.outcome(self.settings, None, is_full) if is_full else flow.BLOCK
        if what == flow.ERROR:
            when = "a message would have to wait" if self.settings.soft == flow.ERROR else "its queue is full"
            self.shut(f"it asked for that if {when}")
            self.counts.dropped[counts.LEFT] += 1
        elif what == flow.DISCARD:
            self._discard(packet)
        else:
            self._push(packet)
        # A queue that has room already would wake no publisher, also if the user or all queues have none.
        if waits and publisher is not None and not flow.is_room(publisher.settings, self._used()):
            self.publishers.add(publisher)
            publisher.waits_for.add(self)
        return what in (flow.QUEUE, flow.BLOCK)

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
            held = self.user.queued_bytes
            why = f"{held} bytes wait for clients of user {self.user.uid} (--max-user-queued-bytes)"
            self.drop(counts.USER_QUEUED, why)
        else:
            self.drop(counts.QUEUE_FULL)

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
            packet = backlog.first()
            try:
                self.socket.send(packet, _SEND_FLAGS)
                self.counts.delivered += 1
            except OSError as error:
                if not self._has_failed(packet, error):
                    break
            self._charge(-memory(backlog.pop()))
            if self.is_gone:
                self.lose()
                return
        self.release()
        self.has_changed()

    def release(self) -> None:
        """Let the publishers go on that need not wait for this client any more."""
        used = self._used()
        for publisher in [each for each in self.publishers if flow.is_room(each.settings, used)]:
            self.publishers.discard(publisher)
            publisher.waits_for.discard(self)
            if not publisher.waits_for:
                publisher.has_changed()

    def _used(self) -> float:
        """How much of the queue is in use, 0 nothing, 1 all."""
        backlog, limits = self.backlog, self._limits
        return max(backlog.count / limits.queued, backlog.bytes / limits.queued_bytes)

    def wait_no_more(self) -> None:
        """Go on as a publisher, whichever clients have no room."""
        for other in self.waits_for:
            other.publishers.discard(self)
        self.waits_for.clear()

    def clear(self) -> None:
        """Drop what is queued."""
        self._charge(-self.backlog.bytes)
        dropped = self.backlog.clear()
        if dropped:
            self.counts.dropped[counts.LEFT] += dropped

    def close(self) -> None:
        """Disconnect."""
        self.lose()
        self.wait_no_more()
        self._total.changed.discard(self)
        if self.calls is not None:
            self.calls.close()
            # They know their client, and nothing looks for cycles.
            self.calls = None
        self.identity.close()
        self.socket.close()


def _make_room(connected: socket.socket, length: int) -> None:
    """Have a socket's buffer hold a packet of so many bytes, or as long as the system lets it be."""
    if connected.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) >= length + SOCKET_OVERHEAD:
        return
    # The kernel doubles what is set.
    for option in (socket.SO_SNDBUF, _SO_SNDBUFFORCE):
        with suppress(PermissionError):
            connected.setsockopt(socket.SOL_SOCKET, option, (length + SOCKET_OVERHEAD + 1) // 2)
