# SPDX-License-Identifier: MIT
"""The event loop of the daemon: clients come, are read and written, and go; it waits for KBUS and signals."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import time
from collections.abc import Container
from contextlib import suppress
from typing import Optional

from ..terminal.output import json_text
from . import calling, counts, log
from .bindings import NEVER
from .bridge import Bridge
from .bus import BridgeKsock
from .calling import Calls
from .counts import Dropped
from .identity import peer_credentials
from .listening import MOST_WAITING, Listening
from .peer import Peer
from .process import Spare
from .reading import PacketReader, is_closed, next_is_message

_IN, _OUT, _HUP, _ONCE = select.EPOLLIN, select.EPOLLOUT, select.EPOLLHUP, select.EPOLLONESHOT
_READABLE = _IN | _HUP | select.EPOLLERR
#: What ends the daemon cleanly: all that would end it, and could be sent by mistake.
_ENDING = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGUSR2, signal.SIGALRM),
    *(signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR),
)
_NONE_FREE = "no descriptor is free, or no watch of epoll (fs.epoll.max_user_watches)"
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Signals:
    """Signals from now on, which a loop reads: SIGTERM and the like, SIGUSR1 and SIGHUP."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in (*_ENDING, signal.SIGUSR1, signal.SIGHUP):
            # The wakeup descriptor wakes the loop.
            signal.signal(number, lambda *_: None)

    def fileno(self) -> int:
        """Return what is readable when signals have come."""
        return self._reader

    def take(self) -> set[int]:
        """Return which have come, once each."""
        return set(os.read(self._reader, 4096))

    def close(self) -> None:
        """Take no more signals."""
        signal.set_wakeup_fd(-1)
        os.close(self._reader)
        os.close(self._writer)


class Server:
    """Serves until SIGTERM or another signal to end comes or, with ``until_last``, until the last client has
    left, those not counted that only look at statistics.

    ``users`` may connect, everybody if it is None. ``grace`` is how many seconds clients have in the end to
    take what is queued for them.
    """

    def __init__(
        self,
        bridge: Bridge,
        bus: BridgeKsock,
        listening: Listening,
        signals: Signals,
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
        self._reader = PacketReader(bridge.limits.packet)
        self._spare = Spare()
        self._epoll = select.epoll()
        self._peers = bridge.peers
        #: what epoll looks for at each client
        self._interests: dict[int, int] = {}
        #: what Requests and answers may come for, by the descriptors of the KSocks
        self._callers: dict[int, Calls] = {}
        self._had_clients = False
        self._is_ending = False
        self._signals = signals
        for each in (listening.socket, bus, signals):
            self._epoll.register(each.fileno(), _IN)

    def run(self) -> None:
        """Serve. End at SIGTERM and the like, log statistics at SIGUSR1, read rules anew at SIGHUP."""
        bridge = self._bridge
        while not self._is_ending:
            if self._traffic.frames or self._bus.queued:
                self._turn(0)
            else:
                due = min(bridge.bindings.tidy_at, bridge.deadlines[0][0] if bridge.deadlines else NEVER)
                self._turn(None if due == NEVER else max(0.0, due - time.monotonic()))
        self._end()

    def close(self) -> None:
        """Close everything that this has opened."""
        for peer in list(self._peers.values()):
            self._disconnect(peer)
        self._epoll.close()
        self._spare.close()

    # One turn.

    def _turn(self, timeout: Optional[float]) -> bool:
        """Wait, and deal with what has happened. Returns False if nothing has."""
        has_news = has_callers = False
        happened = self._epoll.poll(timeout)
        for fd, events in happened:
            peer = self._peers.get(fd)
            if peer is not None:
                if events & _OUT:
                    peer.flush()
                if events & _READABLE:
                    self._read(peer, events)
            elif fd == self._bus.fileno():
                has_news = True
            elif fd in self._callers:
                self._callers[fd].bring()
            elif fd == self._signals.fileno():
                self._take_signals()
            else:
                has_callers = True
        bridge, traffic = self._bridge, self._traffic
        if has_news or traffic.frames:
            traffic.exchange(has_news)
        if bridge.bindings.tidy_at != NEVER and time.monotonic() >= bridge.bindings.tidy_at:
            bridge.bindings.tidy()
        if bridge.deadlines:
            calling.expire(bridge.deadlines)
        has_lost = self._attend()
        if has_callers and not traffic.is_stuck:
            # Those that have left have made room for them.
            self._accept()
        if has_lost and self._until_last and self._had_clients:
            self._is_ending |= all(each.only_looks for each in self._peers.values())
        return bool(happened)

    def _take_signals(self) -> None:
        """Do what signals ask for, once for all of a kind that have come: clients wait meanwhile."""
        came = self._signals.take()
        self._is_ending |= not came <= {signal.SIGUSR1, signal.SIGHUP}
        if signal.SIGUSR1 in came:
            for record in self._bridge.stats():
                log.say(json_text(record))
        if signal.SIGHUP in came and not self._is_ending:
            self._bridge.reread()

    # Clients.

    def _accept(self) -> bool:
        """Accept the clients that wait, or refuse them. Returns False if none waits any more."""
        listening = self._listening.socket
        for _ in range(MOST_WAITING):
            try:
                self._let_in(listening.accept()[0])
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS:
                    with self._spare.given_up(), suppress(OSError):
                        self._refuse(listening.accept()[0], counts.NO_DESCRIPTORS, _NONE_FREE)
                        continue
                return False
        return True

    def _let_in(self, connected: socket.socket) -> None:
        try:
            uid = peer_credentials(connected)[1]
            if not self._may_connect(uid):
                raise Dropped("it may not connect", counts.NOT_PERMITTED)
            self._bridge.users.check_clients(uid)
            # It leaves epoll when it is closed, whatever fails.
            self._epoll.register(connected.fileno(), _IN)
            self._interests[self._bridge.connect(connected).fd] = _IN
        except Dropped as why:
            self._refuse(connected, why.cause, str(why))
        except OSError:
            self._refuse(connected, counts.NO_DESCRIPTORS, _NONE_FREE)

    def _may_connect(self, uid: int) -> bool:
        return self._users is None or uid in self._users

    def _refuse(self, connected: socket.socket, cause: str, why: str) -> None:
        """Close a connection. Of a user who may connect, what was sent without an error is done before."""
        pid, uid, _ = peer_credentials(connected)
        self._bridge.refused[cause] += 1
        self._bridge.log.say(f"user {uid} (process {pid}) is refused: {why}")
        if not self._may_connect(uid):
            connected.close()
            return
        connected.shutdown(socket.SHUT_RDWR)
        with self._spare.given_up():
            try:
                peer = self._bridge.connect(connected)
            except OSError:
                # The spare descriptors have been taken meanwhile.
                connected.close()
                return
            self._read_to_end(peer)
            self._bridge.disconnect(peer)

    def _read_to_end(self, peer: Peer) -> None:
        """Do all that a client has sent. Its socket is shut down, so it cannot send more meanwhile."""
        while not (peer.is_at_end or peer.is_doomed):
            self._bridge.take(peer, self._reader.read(peer))

    def _read(self, peer: Peer, events: int) -> None:
        if events & _HUP and not peer.is_gone:
            peer.lose()
        if self._traffic.is_stuck:
            return
        if peer.waits_for and next_is_message(peer):
            # It is looked at again when there is room.
            self._look_for(peer, _OUT if peer.backlog.count and not events & _HUP else _ONCE)
            return
        if not peer.is_at_end:
            self._bridge.take(peer, self._reader.read(peer))
        if peer.is_at_end:
            peer.has_left = peer.has_left or bool(events & _HUP) or peer.is_gone
            peer.has_changed()

    def _attend(self) -> bool:
        """Look at clients that have changed: whether they go, and what to wait for. True if any has gone."""
        has_lost = False
        changed = self._bridge.changed
        while changed:
            peer = changed.pop()
            if peer.is_doomed is not None or peer.has_left:
                if peer.is_doomed is not None:
                    self._bridge.log.say(f"{peer!r} is disconnected: {peer.is_doomed}")
                self._disconnect(peer)
                has_lost = True
                continue
            self._look_for(peer, (0 if peer.is_at_end else _IN) | (_OUT if peer.backlog.count else 0))
            calls = peer.calls
            if calls is None:
                continue
            if peer.is_gone:
                # It can receive nothing any more, but replies may be among the last packets.
                if not is_closed(peer):
                    self._callers.pop(calls.fileno(), None)
                    calls.close()
            elif calls.fileno() >= 0 and calls.fileno() not in self._callers:
                self._callers[calls.fileno()] = calls
                try:
                    self._epoll.register(calls.fileno(), _IN)
                except OSError:
                    peer.shut(_NONE_FREE)
        return has_lost

    def _look_for(self, peer: Peer, interest: int) -> None:
        """Wait for these events at a client, and its end; with ``_ONCE`` that is reported once."""
        if interest != self._interests[peer.fd]:
            self._epoll.modify(peer.fd, interest)
            self._interests[peer.fd] = interest

    def _disconnect(self, peer: Peer) -> None:
        # What is closed leaves epoll.
        self._interests.pop(peer.fd, None)
        if peer.calls is not None:
            self._callers.pop(peer.calls.fileno(), None)
        self._bridge.disconnect(peer)
        self._had_clients |= not peer.only_looks

    # The end.

    def _end(self) -> None:
        """Have connects and sends fail, deliver what was sent before, and give slow clients some time."""
        deadline = time.monotonic() + self._grace
        self._listening.take_away()
        if self._listening.address.fd is None:
            # No client can connect any more. An inherited socket may serve another daemon after this one.
            self._listening.socket.shutdown(socket.SHUT_RD)
        while self._accept() and time.monotonic() < deadline:
            pass
        self._epoll.unregister(self._listening.socket.fileno())
        self._listening.close()
        for peer in self._peers.values():
            peer.socket.shutdown(socket.SHUT_RD)
        while True:
            self._traffic.drain()
            self._attend()
            has_more = any(peer.backlog.count or not peer.is_at_end for peer in self._peers.values())
            left = deadline - time.monotonic()
            if left <= 0 or not has_more:
                break
            self._turn(left)
        for peer in self._peers.values():
            # It may have waited for one that does not read.
            self._read_to_end(peer)
        self._traffic.drain()
