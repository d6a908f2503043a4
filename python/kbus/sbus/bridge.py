# SPDX-License-Identifier: MIT
"""The bridge: what each packet of a client does. It knows no event loop.

Source: the bridge's specification and the protocol text.
"""

from __future__ import annotations

import json
import os
import socket
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Optional

from .. import abi
from . import calling, counts, log, packets, patterns, secret, stats
from .access import NoRules, Receivers, RulesFile, readers
from .bindings import Bindings
from .bus import Bus
from .counts import Counts
from .descriptors import room_for_clients
from .flow import BLOCK
from .identity import peer_credentials
from .keymap import KeyMap, NameTooLong
from .limits import Limits
from .packets import CMSG, SUB, UNSUB, Protocol
from .parameters import allowed_bindings
from .peer import Peer, Total
from .rules import Denied
from .subscribing import Subscriptions
from .traffic import MOST_NUMBER, Traffic
from .usage import OverLimit
from .users import OverUserLimit, User, Users

#: The control message that asks for statistics, for the daemon's own user and root.
STATS = b"kbus/stats"


class NoNumber(Exception):
    """There are as many clients as can be told from each other."""


class Bridge:
    """Clients on one side, a KBUS device on the other.

    ``server`` is the credential prefix: what servers in between put before a client's credentials, if any.
    ``rules`` say who may publish and subscribe where, None if everybody may everywhere. ``refused`` counts
    connections that were closed at once, by cause; ``log`` tells of what users do.
    """

    def __init__(
        self,
        bus: Bus,
        protocol: Protocol,
        root: str,
        limits: Limits,
        server: bytes = b"",
        rules: Optional[RulesFile] = None,
    ) -> None:
        self.protocol = protocol
        self.limits = limits
        self.peers: set[Peer] = set()
        self.refused: Counter[str] = Counter()
        self._bus = bus
        self._server = server
        self._rules = rules
        self._gone = Counts()
        self._total = Total()
        self.log = self._total.log
        self.users = Users(limits, min(MOST_NUMBER, room_for_clients()))
        self._numbers = deque(range(1, MOST_NUMBER + 1))
        keymap = self._keymap = KeyMap(protocol, root)
        self.traffic = Traffic(bus, keymap, self._receivers, limits.packet)
        self.bindings = Bindings(bus.bind, bus.unbind, self.traffic.drain, keymap.prefix, allowed_bindings())
        self.subscriptions = Subscriptions(
            keymap, self.bindings, limits, self.traffic.forget_routes, self.users
        )

    # Who is there.

    def connect(self, connected: socket.socket, user: Optional[User] = None) -> Peer:
        """Add a client, whose ``user`` has counted it already unless that is None.

        Raises NoNumber, OSError if there are no descriptors for it, and OverUserLimit without ``user``.
        """
        if user is None:
            user = self.users.connect(peer_credentials(connected)[1])
        if not self._numbers:
            raise NoNumber
        number = self._numbers.popleft()
        try:
            peer = Peer(connected, number, self.limits, self._total, user)
        except OSError:
            self._free(number)
            raise
        self._give_rights(peer)
        self.peers.add(peer)
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
        except NoRules as error:
            log.say(f"{error}; the rules stay as they were")
            return
        for peer in self.peers:
            self._give_rights(peer)
        self.traffic.forget_routes(None)
        rules = self._rules.rules
        default = "allow" if rules.default else "deny"
        log.say(f"{self._rules.path}: {len(rules.rules)} rules from now on, and default {default}")

    def _receivers(self, key: bytes) -> Receivers:
        """Who gets a message with this key, which is no secret one."""
        subscribers = self.subscriptions.subscribers(key)
        return (subscribers, None) if self._rules is None else readers(key, subscribers)

    def disconnect(self, peer: Peer) -> None:
        """Have it no more. What it has published is sent."""
        self.traffic.changed.update(peer.close())
        self.traffic.changed.discard(peer)
        self.traffic.special.pop(peer.number, None)
        self.peers.discard(peer)
        self._gone.add(peer.counts)
        self._free(peer.number)
        self.subscriptions.leave(peer)
        self.users.disconnect(peer.user)

    def _free(self, number: int) -> None:
        # The others are used first: what is on its way with this one arrives before it is somebody else's.
        self._numbers.append(number)

    # What clients send.

    def take(self, peer: Peer, received: Sequence[bytes]) -> Sequence[bytes]:
        """Do what packets of a client say, and return those that are left, for its next turn.

        Messages with known keys take little time, and are sent together. Anything else takes longer, up to as
        long as others' round trips, and so is the last of a turn.
        """
        most = self.limits.packet
        for done, packet in enumerate(received):
            if peer.is_doomed:
                # What is behind a packet that ends the connection does nothing.
                peer.counts.dropped[counts.LEFT] += len(received) - done
                break
            if len(packet) <= most and packet.startswith(b"MSG "):
                end = packet.find(b"\0", 4)
                if end >= 0 and self.traffic.publish(peer, packet[4:end], packet[end + 1 :]):
                    continue
            self._take_slow(peer, packet)
            if not peer.is_doomed:
                peer.counts.received += done + 1
                return received[done + 1 :]
        peer.counts.received += len(received)
        return ()

    def _take_slow(self, peer: Peer, packet: bytes) -> None:
        """Do what a packet says that is no message with a known key."""
        if len(packet) > self.limits.packet:
            peer.drop(counts.TOO_LARGE, f"a packet of more than {self.limits.packet} bytes")
        elif packet.startswith(b"MSG ") and (end := packet.find(b"\0", 4)) >= 0:
            key = packet[4:end]
            if self._introduce(peer, packet, key):
                self.traffic.publish(peer, key, packet[end + 1 :])
        elif not packet:
            peer.drop(counts.EMPTY)
        else:
            self._take_other(peer, packet)

    def _introduce(self, peer: Peer, packet: bytes, key: bytes) -> bool:
        """Whether a message with a key that is not known yet is for KBUS."""
        if self._uses_token(key):
            self._publish_secret(peer, packet, key)
            return False
        try:
            self.traffic.introduce(peer, key)
        except NameTooLong as error:
            peer.drop(counts.NAME_TOO_LONG, error)
        except PermissionError as error:
            peer.drop(counts.KBUS_OWN, error)
        except Denied as error:
            peer.drop(counts.PUBLISH_DENIED, error)
        else:
            return True
        return False

    def _publish_secret(self, peer: Peer, packet: bytes, key: bytes) -> None:
        complete = self._complete(peer, key, own_only=False)
        if complete is not None:
            # What the client has published before comes first.
            self._settle()
            peer.counts.published += 1
            self.traffic.send(self.subscriptions.secret_subscribers(complete), [packet], peer)

    def _take_other(self, peer: Peer, packet: bytes) -> None:
        try:
            kind, key, payload = packets.parse(packet, self.protocol)
        except ValueError as error:
            peer.drop(counts.MALFORMED, error)
            return
        # A client that unsubscribes has what came before that.
        self._settle()
        if kind == SUB:
            self._subscribe(peer, key)
        elif kind == UNSUB:
            self._unsubscribe(peer, key)
        else:
            self._control(peer, key, payload)

    def _settle(self) -> None:
        if not self.traffic.is_idle:
            self.traffic.drain()

    # Subscriptions.

    def _subscribe(self, peer: Peer, pattern: bytes) -> None:
        complete = self._complete(peer, pattern) if self._uses_token(pattern) else pattern
        if complete is None:
            return
        try:
            self.subscriptions.add(peer, complete)
        except OverLimit as error:
            peer.drop(counts.TOO_MANY_SUBSCRIPTIONS, error)
        except OverUserLimit as error:
            peer.drop(counts.USER_SUBSCRIPTIONS, error)
        except OSError as error:
            peer.drop(counts.REFUSED_BY_KBUS, f"cannot bind: {error.strerror}")
        else:
            self._warn(peer, complete)

    def _warn(self, peer: Peer, pattern: bytes) -> None:
        """Count and tell of a subscription to a single key that the rules deny. It stays: they may change."""
        if peer.rights is None or self._uses_token(pattern) or len(pattern) > abi.MAX_NAME_LEN:
            return
        if patterns.is_exact(pattern, self.protocol.separator):
            with suppress(Denied):
                self._count_denied(peer, counts.SUBSCRIBE_DENIED, peer.rights.check_subscribe, pattern)

    def _unsubscribe(self, peer: Peer, pattern: bytes) -> None:
        complete = self._complete(peer, pattern) if self._uses_token(pattern) else pattern
        if complete is not None and not self.subscriptions.remove(peer, complete):
            peer.drop(counts.NOT_SUBSCRIBED, repr(pattern[:40]))

    def _uses_token(self, key: bytes) -> bool:
        return self.protocol.has_control and secret.uses_token(key)

    def _complete(self, peer: Peer, key: bytes, own_only: bool = True) -> Optional[bytes]:
        """A secret key or pattern with all credentials in it; None if the client may not use it."""
        own = peer.identity.credentials
        try:
            parts = secret.split(key, self._server)
        except secret.Misuse as error:
            peer.drop(counts.CREDENTIALS, error)
            peer.doom(str(error))
            self.traffic.changed.add(peer)
            return None
        except secret.Invalid as error:
            peer.drop(counts.RESERVED, error)
            return None
        except NameTooLong as error:
            peer.drop(counts.NAME_TOO_LONG, error)
            return None
        # 0 is somebody whom this process cannot tell from others: he is in another pid namespace.
        if own_only and not (own.pid and parts.matches(own) and peer.identity.holds()):
            peer.drop(counts.CREDENTIALS, f"{key[:60]!r} is for somebody else")
            return None
        return parts.complete(own)

    # Control messages.

    def _control(self, peer: Peer, key: bytes, payload: bytes) -> None:
        if key == secret.WHOAMI:
            self._tell_who(peer)
        elif key == packets.DROPPED:
            # What the rules withhold is not told: it would say that there are such messages.
            own = {each: count for each, count in peer.counts.dropped.items() if each not in counts.UNTOLD}
            dropped = json.dumps(own, sort_keys=True).encode()
            self.traffic.send([peer], [packets.build(CMSG, packets.DROPPED, dropped)], None)
        elif key == STATS and peer.identity.credentials.uid in (0, os.geteuid()):
            peer.looked += 1
            told = stats.pieces(self.stats())
            self.traffic.send([peer], [packets.build(CMSG, STATS, piece) for piece in told], None)
        elif key in calling.KEYS:
            self._take_call(peer, key, payload)
        elif peer.settings.apply(key):
            self._follow(peer)
        else:
            peer.drop(counts.UNKNOWN_CONTROL, repr(key[:40]))

    def _take_call(self, peer: Peer, kind: bytes, payload: bytes) -> None:
        if peer.calls is None:
            peer.calls = calling.Calls(
                self._bus.ksock.which,
                peer.user,
                self._keymap,
                self.limits.packet,
                lambda key: self._check_call(peer, key),
                lambda key: self._check_serve(peer, key),
            )
        try:
            answer = peer.calls.take(kind, payload)
        except calling.Unknown as error:
            peer.drop(counts.UNKNOWN_REQUEST, error)
            return
        if answer is not None:
            self.traffic.send([peer], [answer], None)
        elif kind in calling.MESSAGES:
            peer.counts.published += 1
        # There may be something new to wait for.
        self.traffic.changed.add(peer)

    def _check_call(self, peer: Peer, key: bytes) -> None:
        """Raise what ``Calls`` wants to know."""
        if b"\0" in key or self._uses_token(key) or self._keymap.name(key).startswith(self.traffic.reserved):
            raise PermissionError(f"{key[:40]!r} has no replier")
        if peer.rights is not None:
            self._count_denied(peer, counts.PUBLISH_DENIED, peer.rights.check_publish, key)

    def _check_serve(self, peer: Peer, key: bytes) -> None:
        self._check_call(peer, key)
        if peer.rights is not None:
            self._count_denied(peer, counts.SUBSCRIBE_DENIED, peer.rights.check_subscribe, key)

    def _count_denied(self, peer: Peer, cause: str, check: Callable[[bytes], None], key: bytes) -> None:
        try:
            check(key)
        except Denied as error:
            peer.drop(cause, error)
            raise

    def _tell_who(self, peer: Peer) -> None:
        if not peer.identity.holds():
            peer.drop(counts.CREDENTIALS, "the process that connected has ended")
            return
        own = peer.identity.credentials.key()
        credentials = self._server + b"/" + own if self._server else own
        self.traffic.send([peer], [packets.build(CMSG, secret.WHOAMI, credentials)], None)

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
            self.traffic.changed.update(other.released())
        self.traffic.changed.add(peer)

    # Statistics.

    def stats(self) -> list[dict[str, Any]]:
        """Return what ``stats.records`` does."""
        facts = {
            "device": self._bus.ksock.which,
            "ksock": self._bus.id,
            "bindings": len(self.bindings.bound),
            "kbus_queued": self._bus.queued,
            "kbus_lost": self._bus.lost,
        }
        return stats.records(self.peers, self._gone, facts, dict(self.refused), self.users)
