# SPDX-License-Identifier: MIT
"""Messages between the clients of a bridge and KBUS, as few Python operations for each as possible.

A publication waits here until there is a batch or nothing else to do; one call then sends all of them
and brings what has come, which includes them. Messages that follow each other and go to the same
clients are sent to each of them with one call.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable
from typing import Optional

from .. import _abi as abi
from . import counts
from .access import MOST_REMEMBERED, PUBLISH
from .bus import MOST_BYTES, MOST_MESSAGES, BridgeKsock, announcement
from .keymap import KeyMap
from .mmsg import BATCH, PacketSender
from .packets import MSG
from .peer import Peer

#: Entries of a cache. When it is full it is forgotten: a client that uses more keys is as slow as without it.
_MOST_CACHED = 8192
#: How many clients the routes of a cache have in all, of 8 bytes each.
_MOST_TARGETS = 1 << 20

#: how packets with this key begin, the clients that get them, and the subscribers that may not have them
_Route = tuple[bytes, tuple[Peer, ...], tuple[Peer, ...]]
_NO_ROUTE: _Route = (b"", (), ())

#: of a message's header what matters here: from, flags, name_len, data_len
_unpack_header = struct.Struct("=24x4I").unpack_from
_HEADER_SIZE = abi.MESSAGE_HEADER.size
_EXTENSION_SIZE = 2 * abi.ORIG_FROM.size
_EXTENDED, _URGENT = abi.BIT_EXTENDED, abi.BIT_URGENT
_PAD_SHIFT = abi.DATA_PAD_SHIFT
#: What the number of the client that published a message is, in the user bits of its flags.
NUMBER_SHIFT, MOST_NUMBER = 16, 0x3FFF


class ClientTraffic:
    """What is on its way.

    ``frames`` are the publications that wait to be sent to KBUS. ``special`` are the clients, by number, for
    which it matters that a message is their own. With ``is_stuck`` nothing more is to be taken from clients:
    KBUS has no room. A message of which the packet would have more than ``most_bytes`` is dropped.
    """

    def __init__(
        self,
        bus: BridgeKsock,
        keymap: KeyMap,
        subscribers: Callable[[bytes], Iterable[Peer]],
        most_bytes: int,
    ) -> None:
        self._bus = bus
        self._keymap = keymap
        self._subscribers = subscribers
        self._most_bytes = most_bytes
        #: names for KBUS alone to send, and where they would be below another root
        self.reserved = (b"$.KBUS.", keymap.prefix + b"KBUS.")
        self._sender = PacketSender()
        #: the message names of keys, for all clients that may publish to any
        self.names: dict[bytes, bytes] = {}
        self._routes: dict[bytes, _Route] = {}
        #: how many clients they have had in all since they were forgotten
        self._targets = 0
        self.frames: list[bytes] = []
        self._frame_bytes = 0
        #: how many messages have room in the queue, while others fill it up to half
        self._most = max(1, min(MOST_MESSAGES, bus.queue_length // 2))
        self._publishers: list[Peer] = []
        self.special: dict[int, Peer] = {}
        self.is_stuck = False

    # From clients to KBUS.

    def publish(self, peer: Peer, name: bytes, payload: bytes) -> None:
        """Send a message soon. ``name`` is that of its key, as the method ``name`` gives it."""
        frame = announcement(name, payload, peer.number)
        self.frames.append(frame)
        self._publishers.append(peer)
        self._frame_bytes += len(frame)
        if self._frame_bytes >= MOST_BYTES or len(self.frames) >= self._most:
            self.exchange()

    def name(self, peer: Peer, key: bytes) -> bytes:
        """Return the message name of a key, and have a client and those with the same rights remember it.

        Raises NameTooLong, Denied if the rules say so, and Dropped for a name of KBUS's own.
        """
        name = self._keymap.name(key)
        if name.startswith(self.reserved):
            raise counts.Dropped(f"{name.decode()} is KBUS's own", counts.KBUS_OWN)
        most = _MOST_CACHED
        if peer.rights is not None:
            peer.rights.check(PUBLISH, key)
            most = MOST_REMEMBERED
        if len(peer.names) >= most:
            peer.names.clear()
        peer.names[key] = name
        return name

    def exchange(self, is_readable: bool = True) -> None:
        """Send what has been published, and deliver what one call brings.

        ``is_readable`` says whether messages may have come since the last call. While others fill the queue,
        what has been published waits for the next call.
        """
        bus = self._bus
        if is_readable or bus.queued:
            self._receive()
            if bus.queued > bus.queue_length // 2:
                self.is_stuck = bool(self.frames)
                return
        if self.frames:
            self._send()

    def _receive(self) -> int:
        """Deliver what one call brings, and return how many messages of it are not urgent."""
        return self._deliver(self._bus.exchange(b"")[2])

    def _send(self) -> None:
        """Send what has been published, not more with a call than has room, and go on after one refused."""
        frames, publishers = self.frames, self._publishers
        self.frames, self._publishers, self._frame_bytes = [], [], 0
        self.is_stuck = False
        while frames:
            sent, error, received = self._bus.exchange(b"".join(frames[: self._most]))
            for peer in publishers[:sent]:
                peer.counts.published += 1
            if received:
                self._deliver(received)
            if error:
                publishers[sent].drop(counts.REFUSED_BY_KBUS, os.strerror(error))
                sent += 1
            del frames[:sent], publishers[:sent]

    def drain(self) -> None:
        """Send what has been published, and deliver all that has come until now."""
        self._receive()
        self._receive_queued()
        if self.frames:
            self._send()
            self._receive_queued()

    def _receive_queued(self) -> None:
        """Deliver what is queued; of what is urgent, comes meanwhile and so comes first, as much again."""
        bus = self._bus
        left, most = bus.queued, 2 * bus.queued
        while left > 0 and most > 0 and bus.queued:
            left -= self._receive()
            most -= bus.received

    # From KBUS to clients.

    def forget_routes(self, name: object) -> None:
        """Find out anew which clients get messages of this name, or of all names if it is None."""
        if name is None:
            self._routes.clear()
            self._targets = 0
        else:
            self._routes.pop(name, None)  # type: ignore[call-overload]

    def _find_route(self, name: bytes) -> _Route:
        key = self._keymap.key(name)
        found = tuple(self._subscribers(key))
        targets = tuple(peer for peer in found if peer.rights is None or peer.rights.may_receive(key))
        denied = () if len(targets) == len(found) else tuple({*found}.difference(targets))
        if len(self._routes) >= _MOST_CACHED or self._targets + len(found) > _MOST_TARGETS:
            self._routes.clear()
            self._targets = 0
        self._targets += len(found)
        route = (b"%s %s\0" % (MSG, key), targets, denied) if found else _NO_ROUTE
        self._routes[name] = route
        return route

    def _deliver(self, data: bytes) -> int:
        """Deliver messages, and return how many of them are not urgent."""
        routes, special, own = self._routes, self.special, self._bus.id
        most_bytes = self._most_bytes
        calm = position = 0
        length = len(data)
        packets: list[bytes] = []
        last_route, last_publisher = _NO_ROUTE, None
        while position < length:
            sender, flags, name_len, data_words = _unpack_header(data, position)
            name_at = position + _HEADER_SIZE
            if flags & _EXTENDED:
                name_at += _EXTENSION_SIZE
            if not flags & _URGENT:
                calm += 1
            data_at = name_at + ((name_len + 3) & ~3)
            end = data_at + 4 * data_words
            # From the end guard to where the next message begins.
            position = (end + 11) & ~7
            name = data[name_at : name_at + name_len]
            route = routes.get(name)
            if route is None:
                route = self._find_route(name)
            if route is _NO_ROUTE:
                continue
            # A careless sender may claim padding where there is no data.
            packet = route[0] + data[data_at : end - (flags >> _PAD_SHIFT)] if data_words else route[0]
            publisher: Optional[Peer] = None
            if special and sender == own:
                publisher = special.get(flags >> NUMBER_SHIFT & MOST_NUMBER)
            if len(packet) > most_bytes:
                self._drop_large(route, len(packet), publisher)
                continue
            if route is not last_route or publisher is not last_publisher:
                if packets:
                    self._forward(last_route, packets, last_publisher)
                packets = []
                last_route, last_publisher = route, publisher
            packets.append(packet)
        if len(packets) == 1 and last_publisher is None and not last_route[2]:
            # What a client that waits for an answer waits for: a call less.
            for peer in last_route[1]:
                peer.send(packets[0], None)
        elif packets:
            self._forward(last_route, packets, last_publisher)
        return calm

    def _forward(self, route: _Route, packets: list[bytes], publisher: Optional[Peer]) -> None:
        self.send(route[1], packets, publisher)
        self._withhold(route, len(packets), publisher)

    def _withhold(self, route: _Route, count: int, publisher: Optional[Peer]) -> None:
        for peer in route[2]:
            if peer is not publisher or peer.settings.echo:
                peer.drop(counts.SUBSCRIBE_DENIED, f"subscribe to {route[0][4:64]!r}", count)

    def _drop_large(self, route: _Route, length: int, publisher: Optional[Peer]) -> None:
        """Clients that know only sbus have buffers of a fixed length, and the kernel cuts what is longer."""
        for peer in route[1]:
            peer.drop(counts.TOO_LARGE_FOR_CLIENT, f"a packet of {length} bytes, over {self._most_bytes}")
        # None of them gets it, whatever else it is dropped for.
        self._withhold(route, 1, publisher)

    def send(self, targets: Iterable[Peer], packets: list[bytes], publisher: Optional[Peer]) -> None:
        """Send packets to clients. ``publisher`` is the client that published them, if that matters."""
        if publisher is not None and not publisher.settings.echo:
            targets = [peer for peer in targets if peer is not publisher]
        if len(packets) == 1:
            packet = packets[0]
            for peer in targets:
                peer.send(packet, publisher)
        else:
            targets = tuple(targets)
            for begin in range(0, len(packets), BATCH):
                batch = packets[begin : begin + BATCH]
                self._sender.load(batch)
                for peer in targets:
                    peer.send_many(batch, publisher, self._sender)
