# SPDX-License-Identifier: MIT
"""The event loop of the daemon: clients come, are read and written, and go; it waits for KBUS and signals."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import time
from collections.abc import Container, Sequence
from types import FrameType
from typing import Optional

from ..cli.printable import json_text
from . import counts, log
from .bridge import Bridge, NoNumber
from .bus import Bus
from .calling import Calls
from .descriptors import Spare
from .identity import peer_credentials
from .listening import Listening
from .newcomers import Newcomers, has_left
from .peer import Peer
from .reading import Reader, next_is_message
from .timer import Timer
from .turns import Turns
from .users import OverUserLimit, User

_IN, _OUT, _HUP = select.EPOLLIN, select.EPOLLOUT, select.EPOLLHUP
_READABLE = _IN | _HUP | select.EPOLLERR
#: How many connections are accepted, which takes little, and how many of those become clients, which takes
#: more, before clients have their turn. Whoever connects in a loop fills the kernel's queue again and again.
_ACCEPTED, _ADMITTED = 64, 4
#: What ends the daemon cleanly: all that would end it, and could be somebody's mistake.
_ENDING = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGUSR2, signal.SIGALRM),
    *(signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR),
)
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Server:
    """Serves until SIGTERM or another signal to end comes or, with ``until_last``, until the last client has
    left, those not counted that only look at statistics.

    ``users`` may connect, everybody if it is None. ``grace`` is how many seconds clients have in the end to
    take what is queued for them.
    """

    def __init__(
        self,
        bridge: Bridge,
        bus: Bus,
        listening: Listening,
        users: Optional[Container[int]],
        until_last: bool,
        grace: float,
    ) -> None:
        self._bridge = bridge
        self._traffic = bridge.traffic
        self._bus = bus
        self._listening = listening
        self._users = users
        self._until_last = until_last
        self._grace = grace
        self._reader = Reader(bridge.limits.packet)
        self._spare = Spare()
        self._epoll = select.epoll()
        self._newcomers: Newcomers[tuple[socket.socket, User]] = Newcomers()
        self._peers: dict[int, Peer] = {}
        #: what epoll looks for at each client; a client is not there while it is not looked at
        self._interests: dict[int, int] = {}
        #: the clients that Requests and answers may come for, by the descriptors of their KSocks
        self._callers: dict[int, Peer] = {}
        #: packets that have been read, and wait for their client's next turn
        self._behind: dict[Peer, Sequence[bytes]] = {}
        self._turns = Turns()
        self._had_clients = False
        self._is_ending = False
        self._signals = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        #: when bindings are to be tidied, so that turns before that do not look at the clock
        self._timer = Timer()
        self._epoll.register(listening.socket.fileno(), _IN)
        self._epoll.register(bus.fileno(), _IN)
        self._epoll.register(self._signals[0], _IN)
        self._epoll.register(self._timer.fileno(), _IN)

    def handle_signals(self) -> None:
        """End at SIGTERM, SIGINT and the like, tell statistics at SIGUSR1, read rules anew at SIGHUP."""
        signal.set_wakeup_fd(self._signals[1], warn_on_full_buffer=False)
        for number in (*_ENDING, signal.SIGUSR1, signal.SIGHUP):
            signal.signal(number, _leave_to_the_loop)

    def run(self) -> None:
        """Serve."""
        bridge = self._bridge
        while not self._is_ending:
            has_more = self._behind or bridge.subscriptions.leaving or self._bus.queued or self._newcomers
            self._turn(0 if has_more else None)
        self._end()

    def close(self) -> None:
        """Close everything that this has opened."""
        for peer in list(self._peers.values()):
            self._disconnect(peer)
        while (newcomer := self._newcomers.take()) is not None:
            self._close(*newcomer)
        signal.set_wakeup_fd(-1)
        self._epoll.close()
        self._spare.close()
        self._timer.close()
        for fd in self._signals:
            os.close(fd)

    # One turn.

    def _turn(self, timeout: Optional[float]) -> bool:
        """Wait, and deal with what has happened. Returns False if nothing has, and nobody was let in."""
        has_news = is_time_to_tidy = has_callers = has_lost = False
        happened = self._epoll.poll(timeout)
        ready = dict.fromkeys(self._behind, 0)
        for fd, events in happened:
            peer = self._peers.get(fd)
            if peer is not None:
                ready[peer] = events
            elif fd == self._bus.fileno():
                has_news = True
            elif fd in self._callers:
                self._bring(self._callers[fd])
            elif fd == self._signals[0]:
                self._take_signals()
            elif fd == self._timer.fileno():
                is_time_to_tidy = True
            else:
                has_callers = True
        self._turns.serve(ready, self._serve)
        bridge, traffic = self._bridge, self._traffic
        if has_news or traffic.frames:
            traffic.exchange(has_news)
        if bridge.subscriptions.leaving:
            bridge.subscriptions.forget()
        if is_time_to_tidy:
            bridge.bindings.tidy()
        if bridge.bindings.tidy_at != self._timer.at:
            self._timer.set(bridge.bindings.tidy_at)
        if traffic.changed:
            has_lost = self._attend()
        if has_callers:
            # Those who have left have made room for them.
            self._accept()
        had_newcomers = bool(self._newcomers)
        if had_newcomers:
            has_lost |= self._admit()
        if has_lost and self._until_last and self._had_clients and not self._newcomers:
            self._is_ending |= all(each.only_looks for each in self._peers.values())
        return bool(happened or ready) or had_newcomers

    def _serve(self, peer: Peer, events: int) -> None:
        left = self._behind.get(peer)
        if events & _OUT:
            self._write(peer)
        if events & _READABLE:
            self._read(peer, events)
        if left is not None:
            self._take(peer, left)

    def _take_signals(self) -> None:
        """Do what signals want, once for all of a kind that have come: clients wait meanwhile."""
        came = set(os.read(self._signals[0], 4096))
        self._is_ending |= not came <= {signal.SIGUSR1, signal.SIGHUP}
        if signal.SIGUSR1 in came:
            for record in self._bridge.stats():
                log.say(json_text(record))
        if signal.SIGHUP in came and not self._is_ending:
            self._bridge.reread()

    # Clients.

    def _accept(self) -> None:
        """Take connections out of the kernel's queue, where users have no turns, as cheaply as may be."""
        for _ in range(_ACCEPTED):
            try:
                connected, _ = self._listening.socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS:
                    self._spare.refuse(self._listening.socket)
                    self._bridge.refused[counts.NO_DESCRIPTORS] += 1
                return
            pid, uid, _ = peer_credentials(connected)
            if self._users is not None and uid not in self._users:
                self._refuse(
                    connected, counts.NOT_PERMITTED, uid, f"user {uid} (process {pid}) may not connect"
                )
                continue
            try:
                user = self._bridge.users.connect(uid)
            except OverUserLimit as error:
                self._refuse(connected, counts.USER_CLIENTS, uid, f"process {pid} is refused: {error}")
            else:
                self._newcomers.add(uid, (connected, user))

    def _refuse(self, connected: socket.socket, cause: str, uid: int, line: str) -> None:
        connected.close()
        self._bridge.refused[cause] += 1
        self._bridge.log.say(uid, line)

    def _admit(self) -> bool:
        """Make clients of some of those that were accepted, a user in turn. True if any has left already."""
        has_lost = False
        for _ in range(_ADMITTED):
            newcomer = self._newcomers.take()
            if newcomer is None:
                break
            connected, user = newcomer
            if has_left(connected):
                self._close(connected, user)
                has_lost = self._had_clients = True
                continue
            try:
                peer = self._bridge.connect(connected, user)
            except NoNumber:
                self._close(connected, user)
                self._bridge.refused[counts.NO_NUMBER] += 1
                continue
            except OSError:
                self._close(connected, user)
                self._bridge.refused[counts.NO_DESCRIPTORS] += 1
                continue
            self._peers[peer.fd] = peer
            self._interests[peer.fd] = _IN
            self._epoll.register(peer.fd, _IN)
        return has_lost

    def _close(self, connected: socket.socket, user: User) -> None:
        connected.close()
        self._bridge.users.disconnect(user)

    def _read(self, peer: Peer, events: int) -> None:
        if events & _HUP and not peer.is_gone:
            # Nobody can receive anything there, so nobody is to wait for that.
            peer.is_gone = True
            peer.clear()
            self._traffic.changed.update(peer.released())
        if self._traffic.is_stuck or peer in self._behind:
            return
        if peer.waits_for and next_is_message(peer):
            # It is looked at again when there is room.
            self._look_for(peer, _OUT if peer.backlog.count and not events & _HUP else None)
            return
        if not peer.is_at_end:
            self._take(peer, self._reader.read(peer))
        if peer.is_at_end or peer.is_doomed:
            if (events & _HUP or peer.is_gone) and peer not in self._behind:
                peer.doom("it has left")
            self._traffic.changed.add(peer)

    def _take(self, peer: Peer, received: Sequence[bytes]) -> None:
        """Have a client's packets done, as many as it may in a turn."""
        left = received if self._traffic.is_stuck else self._bridge.take(peer, received)
        if left:
            self._behind[peer] = left
        else:
            self._behind.pop(peer, None)

    def _bring(self, peer: Peer) -> None:
        """Bring a client Requests, and answers to its own."""
        if peer.calls is None or peer.is_doomed:
            return
        for packet in peer.calls.receive():
            self._traffic.send([peer], [packet], None)
        self._traffic.changed.add(peer)

    def _write(self, peer: Peer) -> None:
        peer.flush()
        self._traffic.changed.update(peer.released())
        self._traffic.changed.add(peer)

    def _attend(self) -> bool:
        """Look at clients that have changed: whether they go, and what to wait for. True if any has gone."""
        has_lost = False
        changed = self._traffic.changed
        while changed:
            peer = changed.pop()
            if peer.is_closed:
                continue
            if peer.is_doomed is not None:
                if peer.is_doomed != "it has left":
                    uid = peer.identity.credentials.uid
                    self._bridge.log.say(uid, f"{peer!r} is disconnected: {peer.is_doomed}")
                self._disconnect(peer)
                has_lost = True
                continue
            self._look_for(peer, (0 if peer.is_at_end else _IN) | (_OUT if peer.backlog.count else 0))
            if peer.calls is not None:
                self._look_for_calls(peer, peer.calls)
        return has_lost

    def _look_for_calls(self, peer: Peer, calls: Calls) -> None:
        """Wait for Requests and answers. They wait in KBUS while the client does not take what it has."""
        fd = calls.fileno()
        wants = fd >= 0 and not peer.backlog.count and not calls.is_full
        if wants and fd not in self._callers:
            self._epoll.register(fd, _IN)
            self._callers[fd] = peer
        elif not wants and self._callers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def _look_for(self, peer: Peer, interest: Optional[int]) -> None:
        """Wait for these events at a client; None is not even for its end."""
        before = self._interests.get(peer.fd)
        if interest == before:
            return
        if interest is None:
            self._epoll.unregister(peer.fd)
            del self._interests[peer.fd]
            return
        if before is None:
            self._epoll.register(peer.fd, interest)
        else:
            self._epoll.modify(peer.fd, interest)
        self._interests[peer.fd] = interest

    def _disconnect(self, peer: Peer) -> None:
        self._look_for(peer, None)
        del self._peers[peer.fd]
        if peer.calls is not None and self._callers.pop(peer.calls.fileno(), None) is not None:
            self._epoll.unregister(peer.calls.fileno())
        if peer in self._behind:
            peer.counts.dropped[counts.LEFT] += len(self._behind.pop(peer))
        self._bridge.disconnect(peer)
        self._had_clients |= not peer.only_looks

    # The end.

    def _end(self) -> None:
        """Take no more clients, deliver what has been published, and give the slow ones some time."""
        self._epoll.unregister(self._listening.socket.fileno())
        self._listening.close()
        deadline = time.monotonic() + self._grace
        is_over = False
        while not is_over:
            left = max(0.0, deadline - time.monotonic())
            has_more = self._newcomers or self._behind
            is_slow = not has_more and any(peer.backlog.count for peer in self._peers.values())
            # When nothing can be read any more, all that was published has been delivered or is queued.
            is_over = not self._turn(left if is_slow else 0) or not left
        self._traffic.drain()
        self._attend()


def _leave_to_the_loop(number: int, frame: Optional[FrameType]) -> None:
    """The wakeup descriptor tells the loop."""
