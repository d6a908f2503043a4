# SPDX-License-Identifier: MIT
"""The bridge: what each packet of a client does. It knows no event loop.

Source: the bridge's specification and the protocol text.
"""

from __future__ import annotations

import json
import os
import socket
from collections import Counter, deque
from collections.abc import Sequence
from functools import partial
from typing import Any, Optional

from .. import _abi as abi
from ..terminal.failures import Failure
from . import calling, counts, log, packets, secret
from .access import SUBSCRIBE, RulesFile
from .bindings import Bindings, most_bindings
from .bus import BridgeKsock
from .counts import BridgeCounts, Dropped
from .flow import BLOCK
from .identity import Identity
from .keymap import KeyMap
from .limits import BridgeLimits, Users
from .packets import CMSG, MSG, SUB, Protocol
from .peer import Peer, Total
from .process import room_for_clients
from .subscribing import Subscriptions
from .traffic import MOST_NUMBER, ClientTraffic

#: The control message that asks for statistics, for the daemon's own user and root.
STATS = b"kbus/stats"


class Bridge:
    """Clients on one side, a KBUS device on the other.

    ``server`` is the credential prefix: what servers in between put before a client's credentials, if any.
    ``rules`` say who may publish and subscribe where, None if everybody may everywhere. ``refused`` counts
    connections that were closed at once, by cause; ``log`` reports what users do.
    """

    def __init__(
        self,
        bus: BridgeKsock,
        protocol: Protocol,
        root: str,
        limits: BridgeLimits,
        server: bytes = b"",
        rules: Optional[RulesFile] = None,
    ) -> None:
        self.protocol = protocol
        self.limits = limits
        #: by descriptor
        self.peers: dict[int, Peer] = {}
        self.refused: Counter[str] = Counter()
        self._bus = bus
        self._server = server
        self._rules = rules
        self._gone = BridgeCounts()
        self._total = Total()
        #: clients to look at, as Total says
        self.changed = self._total.changed
        self.log = self._total.log
        # One number is for a client that is refused, whose packets are done nevertheless.
        self.users = Users(limits, min(MOST_NUMBER - 1, room_for_clients()))
        self.deadlines: calling.Deadlines = []
        self._numbers = deque(range(1, MOST_NUMBER + 1))
        keymap = self._keymap = KeyMap(protocol, root)
        self.traffic = ClientTraffic(
            bus, keymap, lambda key: self.subscriptions.subscribers(key), limits.packet
        )
        self.bindings = Bindings(bus.bind, bus.unbind, self.traffic.drain, keymap.prefix, most_bindings())
        self.subscriptions = Subscriptions(keymap, self.bindings, self.traffic.forget_routes, self.users)

    # Clients that come and go.

    def connect(self, connected: socket.socket) -> Peer:
        """Add a client, whether or not its user may have one more. Raises OSError if it lacks descriptors."""
        identity = Identity(connected)
        user = self.users.connect(identity.credentials.uid)
        peer = Peer(connected, identity, self._numbers.popleft(), self.limits, self._total, user)
        self._give_rights(peer)
        self.peers[peer.fd] = peer
        return peer

    def _give_rights(self, peer: Peer) -> None:
        if self._rules is None:
            peer.names = self.traffic.names
        else:
            peer.rights = self._rules.rules.of(peer.identity.credentials)
            peer.names = peer.rights.names

    def reread(self) -> None:
        """Read the rules anew, if there are any. If they are bad, the old ones stay, and the log says so."""
        if self._rules is None:
            return
        try:
            self._rules.read()
        except Failure as error:
            log.say(f"{error}; the rules stay as they were")
            return
        for peer in self.peers.values():
            self._give_rights(peer)
        self.traffic.forget_routes(None)
        rules = self._rules.rules
        default = "allow" if rules.default else "deny"
        log.say(f"{self._rules.path}: {len(rules.rules)} rules from now on, and default {default}")

    def disconnect(self, peer: Peer) -> None:
        """Remove the client. What it has published is sent."""
        peer.close()
        self.traffic.special.pop(peer.number, None)
        del self.peers[peer.fd]
        self._gone.add(peer.counts)
        # The others are used first: what is on its way with this one arrives before it is another client's.
        self._numbers.append(peer.number)
        self.subscriptions.leave(peer)
        self.users.disconnect(peer.user)

    # What clients send.

    def take(self, peer: Peer, received: Sequence[bytes]) -> None:
        """Do what packets of a client say. What is behind one that ends the connection does nothing."""
        most = self.limits.packet
        for done, packet in enumerate(received):
            if peer.is_doomed:
                peer.counts.dropped[counts.LEFT] += len(received) - done
                break
            if packet.startswith(b"MSG ") and len(packet) <= most and (end := packet.find(b"\0", 4)) >= 0:
                name = peer.names.get(packet[4:end])
                if name is not None:
                    self.traffic.publish(peer, name, packet[end + 1 :])
                    continue
            try:
                self._take_slow(peer, packet)
            except Dropped as why:
                peer.drop(why.cause, why)
                if why.ends:
                    peer.doom(str(why))
        peer.counts.received += len(received)

    def _take_slow(self, peer: Peer, packet: bytes) -> None:
        """Do what a packet says that is no message with a known key. Raises Dropped, or what is one."""
        if len(packet) > self.limits.packet:
            raise Dropped(f"a packet of more than {self.limits.packet} bytes", counts.TOO_LARGE)
        if not packet:
            raise Dropped(cause=counts.EMPTY)
        kind, key, payload = packets.parse(packet, self.protocol)
        if kind == MSG and not self._uses_token(key):
            self.traffic.publish(peer, self.traffic.name(peer, key), payload)
            return
        # What the client has published before comes first; and one that unsubscribes has what came before.
        if self.traffic.frames or self._bus.queued:
            self.traffic.drain()
        if kind == MSG:
            complete = secret.split(key, self._server).complete(peer.identity.credentials)
            peer.counts.published += 1
            self.traffic.send(self.subscriptions.secret_subscribers(complete), [packet], peer)
        elif kind == SUB:
            self._subscribe(peer, key)
        elif kind == CMSG:
            self._control(peer, key, payload)
        elif not self.subscriptions.remove(peer, self._complete(peer, key)):
            raise Dropped(repr(key[:40]), counts.NOT_SUBSCRIBED)

    # Subscriptions.

    def _subscribe(self, peer: Peer, pattern: bytes) -> None:
        complete = self._complete(peer, pattern)
        try:
            self.subscriptions.add(peer, complete)
        except OSError as error:
            raise Dropped(f"cannot bind: {error.strerror}", counts.REFUSED_BY_KBUS) from error
        if peer.rights is None or self._uses_token(pattern) or len(pattern) > abi.MAX_NAME_LEN:
            return
        if packets.is_exact(pattern, self.protocol.separator):
            # That is counted and logged. The subscription stays: rules may change.
            peer.rights.check(SUBSCRIBE, pattern)

    def _uses_token(self, key: bytes) -> bool:
        return self.protocol.has_control and secret.uses_token(key)

    def _complete(self, peer: Peer, pattern: bytes) -> bytes:
        """A pattern, with all credentials in it if it is a secret one. Raises Dropped if they are others'."""
        if not self._uses_token(pattern):
            return pattern
        own = peer.identity.credentials
        parts = secret.split(pattern, self._server)
        # 0 is any process of another pid namespace: this one cannot distinguish them.
        if not (own.pid and parts.matches(own) and peer.identity.holds()):
            raise Dropped(f"{pattern[:60]!r} is for another client", counts.CREDENTIALS)
        return parts.complete(own)

    # Control messages.

    def _control(self, peer: Peer, key: bytes, payload: bytes) -> None:
        if key == secret.WHOAMI:
            self._tell_who(peer)
        elif key == packets.DROPPED:
            # What the rules withhold is left out: it would show that there are such messages.
            own = {each: count for each, count in peer.counts.dropped.items() if each not in counts.UNTOLD}
            dropped = json.dumps(own, sort_keys=True).encode()
            peer.send(packets.build(CMSG, packets.DROPPED, dropped), None, is_answer=True)
        elif key == STATS and peer.identity.credentials.uid in (0, os.geteuid()):
            peer.looked += 1
            for piece in counts.pieces(self.stats()):
                peer.send(packets.build(CMSG, STATS, piece), None, is_answer=True)
        elif calling.is_about_calls(key):
            self._take_call(peer, key, payload)
        elif peer.settings.apply(key):
            self._follow(peer)
        else:
            raise Dropped(repr(key[:40]), counts.UNKNOWN_CONTROL)

    def _take_call(self, peer: Peer, kind: bytes, payload: bytes) -> None:
        if peer.calls is None:
            peer.calls = calling.Calls(
                self._bus.ksock.which,
                peer,
                self._keymap,
                self.limits.packet,
                partial(self._check_key, peer),
                self.deadlines,
            )
        peer.calls.take(kind, payload)

    def _check_key(self, peer: Peer, key: bytes, *uses: str) -> None:
        """The ``check`` of ``Calls``."""
        if b"\0" in key or self._uses_token(key) or self._keymap.name(key).startswith(self.traffic.reserved):
            raise Dropped(f"{key[:40]!r} has no replier", counts.KBUS_OWN)
        if peer.rights is not None:
            for what in uses:
                peer.rights.check(what, key)

    def _tell_who(self, peer: Peer) -> None:
        if not peer.identity.holds():
            raise Dropped("the process that connected has ended", counts.CREDENTIALS)
        own = peer.identity.credentials.key()
        credentials = self._server + b"/" + own if self._server else own
        peer.send(packets.build(CMSG, secret.WHOAMI, credentials), None, is_answer=True)

    def _follow(self, peer: Peer) -> None:
        """Do what follows from new settings of flood control."""
        settings = peer.settings
        peer.backlog.order = settings.order
        if settings.is_plain:
            self.traffic.special.pop(peer.number, None)
        else:
            self.traffic.special[peer.number] = peer
        if BLOCK not in (settings.soft, settings.hard):
            peer.wait_no_more()
        for other in list(peer.waits_for):
            # There may be room enough for what it waits for now.
            other.release()
        peer.has_changed()

    # Statistics.

    def stats(self) -> list[dict[str, Any]]:
        """Return what ``counts.records`` does."""
        facts = {
            "device": self._bus.ksock.which,
            "ksock": self._bus.id,
            "bindings": len(self.bindings.bound),
            "kbus_queued": self._bus.queued,
            "kbus_lost": self._bus.lost,
        }
        return counts.records(self.peers.values(), self._gone, facts, dict(self.refused), self.users)
