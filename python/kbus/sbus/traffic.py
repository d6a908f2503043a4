# SPDX-License-Identifier: MIT
"""Messages between the clients of a bridge and KBUS, as few Python operations for each as possible.

A publication waits here until there is a batch or nothing else to do; one call then sends all of them
and brings what has come, which includes them. Messages that follow each other and go to the same
clients are sent to each of them with one call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Optional

from .. import abi
from . import counts
from .bus import MOST_BYTES, MOST_MESSAGES, Bus, announcement
from .keymap import KeyMap
from .mmsg import BATCH, Sender
from .packets import MSG
from .peer import Peer

#: Entries of a cache. When it is full it is forgotten: whoever uses that many keys is as slow as without it.
_MOST_CACHED = 8192
#: How often what has come is taken before clients have their turn again.
_ROUNDS = 4

#: how packets with this key begin, and who gets them
_Route = tuple[bytes, tuple[Peer, ...]]
_NO_ROUTE: _Route = (b"", ())

_unpack_header = abi.MESSAGE_HEADER.unpack_from
_HEADER_SIZE = abi.MESSAGE_HEADER.size
_EXTENSION_SIZE = 2 * abi.ORIG_FROM.size
_EXTENDED, _URGENT = abi.BIT_EXTENDED, abi.BIT_URGENT
_PAD_SHIFT = abi.DATA_PAD_SHIFT
#: What the number of the client that published a message is, in the user bits of its flags.
NUMBER_SHIFT, MOST_NUMBER = 16, 0x3FFF
_KBUS_OWN = b"$.KBUS."


class Traffic:
    """What is on its way.

    ``frames`` are the publications that wait to be sent to KBUS. ``special`` are the clients, by number, for
    which it matters that a message is their own. ``changed`` collects the clients whose queue, or whose right
    to be read, is not as it was.
    """

    def __init__(self, bus: Bus, keymap: KeyMap, subscribers: Callable[[bytes], Iterable[Peer]]) -> None:
        self._bus = bus
        self._keymap = keymap
        self._subscribers = subscribers
        self._sender = Sender()
        self._names: dict[bytes, bytes] = {}
        self._routes: dict[bytes, _Route] = {}
        self.frames: list[bytes] = []
        self._frame_bytes = 0
        self._publishers: list[Peer] = []
        self.special: dict[int, Peer] = {}
        self.changed: set[Peer] = set()

    # From clients to KBUS.

    def publish(self, peer: Peer, key: bytes, payload: bytes) -> bool:
        """Send a message soon. Returns False if the key has to be introduced before."""
        name = self._names.get(key)
        if name is None:
            return False
        frame = announcement(name, payload, peer.number)
        self.frames.append(frame)
        self._publishers.append(peer)
        self._frame_bytes += len(frame)
        if self._frame_bytes >= MOST_BYTES or len(self.frames) >= MOST_MESSAGES:
            self.exchange()
        return True

    def introduce(self, key: bytes) -> None:
        """Have a key known. Raises NameTooLong, and PermissionError for a name of KBUS's own."""
        name = self._keymap.name(key)
        if name.startswith(_KBUS_OWN):
            raise PermissionError(f"{name.decode()} is below $.KBUS")
        if len(self._names) >= _MOST_CACHED:
            self._names.clear()
        self._names[key] = name

    def exchange(self) -> None:
        """Send what has been published, and deliver what has come, but not for ever."""
        bus = self._bus
        if bus.queued > bus.queue_length // 2:
            self._make_room()
        frames, publishers = self.frames, self._publishers
        self.frames, self._publishers, self._frame_bytes = [], [], 0
        done, error, received = bus.exchange(b"".join(frames))
        for peer in publishers[:done]:
            peer.counts.published += 1
        if received:
            self._deliver(received)
        if done < len(frames):
            self._send_rest(frames, publishers, done, error)
        for _ in range(_ROUNDS):
            if not bus.queued:
                return
            self._deliver(bus.exchange(b"")[2])

    def _make_room(self) -> None:
        """Deliver until what is sent now finds room in the queue, unless others keep filling it."""
        for _ in range(self._bus.queue_length):
            self._deliver(self._bus.exchange(b"")[2])
            if self._bus.queued <= self._bus.queue_length // 2:
                return

    def _send_rest(self, frames: list[bytes], publishers: list[Peer], done: int, error: int) -> None:
        """Go on after a message that was refused, or a signal."""
        while True:
            if error:
                publishers[done].drop(counts.REFUSED_BY_KBUS, os.strerror(error))
                done += 1
            if done == len(frames):
                return
            sent, error, received = self._bus.exchange(b"".join(frames[done:]))
            for peer in publishers[done : done + sent]:
                peer.counts.published += 1
            done += sent
            if received:
                self._deliver(received)
            if not error and done == len(frames):
                return

    def drain(self) -> None:
        """Send what has been published, and deliver all that has come until now."""
        self.exchange()
        left = self._bus.queued
        while left > 0 and self._bus.queued:
            left -= self._deliver(self._bus.exchange(b"")[2])

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits here or, as far as is known, in KBUS."""
        return not self.frames and not self._bus.queued

    # From KBUS to clients.

    def forget_routes(self, name: object) -> None:
        """Find out anew who gets messages of this name, or of all names if it is None."""
        if name is None:
            self._routes.clear()
        else:
            self._routes.pop(name, None)  # type: ignore[call-overload]

    def _find_route(self, name: bytes) -> _Route:
        if len(self._routes) >= _MOST_CACHED:
            self._routes.clear()
        key = self._keymap.key(name)
        targets = tuple(self._subscribers(key))
        route = (b"%s %s\0" % (MSG, key), targets) if targets else _NO_ROUTE
        self._routes[name] = route
        return route

    def _deliver(self, data: bytes) -> int:
        """Deliver messages, and return how many of them are not urgent."""
        routes, special, own = self._routes, self.special, self._bus.id
        calm = position = 0
        length = len(data)
        packets: list[bytes] = []
        last_route, last_publisher = _NO_ROUTE, None
        while position < length:
            _, _, _, _, _, _, sender, flags, name_len, data_words = _unpack_header(data, position)
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
            publisher: Optional[Peer] = None
            if special and sender == own:
                publisher = special.get(flags >> NUMBER_SHIFT & MOST_NUMBER)
            if route is not last_route or publisher is not last_publisher:
                if packets:
                    self.send(last_route[1], packets, last_publisher)
                packets = []
                last_route, last_publisher = route, publisher
            # A careless sender may claim padding where there is no data.
            packets.append(route[0] + data[data_at : end - (flags >> _PAD_SHIFT)] if data_words else route[0])
        if len(packets) == 1 and last_publisher is None:
            # What a client that waits for an answer waits for: a call less.
            for peer in last_route[1]:
                if not peer.send(packets[0], None):
                    self.changed.add(peer)
        elif packets:
            self.send(last_route[1], packets, last_publisher)
        return calm

    def send(self, targets: Iterable[Peer], packets: list[bytes], publisher: Optional[Peer]) -> None:
        """Send packets to clients. ``publisher`` is who published them, if that matters."""
        if publisher is not None and not publisher.settings.echo:
            targets = [peer for peer in targets if peer is not publisher]
        if len(packets) == 1:
            packet = packets[0]
            for peer in targets:
                if not peer.send(packet, publisher):
                    self.changed.add(peer)
        else:
            targets = tuple(targets)
            for begin in range(0, len(packets), BATCH):
                batch = packets[begin : begin + BATCH]
                self._sender.load(batch)
                for peer in targets:
                    if not peer.send_many(batch, publisher, self._sender):
                        self.changed.add(peer)
        if publisher is not None and publisher.waits_for:
            self.changed.add(publisher)
