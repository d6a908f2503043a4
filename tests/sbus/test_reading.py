# SPDX-License-Identifier: MIT
"""Reading from clients that leave in the middle of it."""

from __future__ import annotations

import socket

from kbus.sbus.counts import BridgeCounts
from kbus.sbus.identity import Identity
from kbus.sbus.limits import BridgeLimits, Users
from kbus.sbus.peer import Peer, Total
from kbus.sbus.reading import PacketReader


class LeftMeanwhile(socket.socket):
    """Our end of a connection whose other end is closed while the reader asks how it stands."""

    other: socket.socket

    def setsockopt(self, level: int, number: int, value: int) -> None:  # type: ignore[override]
        super().setsockopt(level, number, value)
        if number == socket.SO_PASSCRED:
            self.other.close()


def client_of(connected: socket.socket) -> Peer:
    """A client that has connected like that."""
    identity = Identity(connected)
    user = Users(BridgeLimits(), 1).connect(identity.credentials.uid)
    return Peer(connected, identity, 1, BridgeLimits(), Total(), user)


def test_a_client_leaves_with_mail_unread_while_its_last_packets_are_read() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connected = LeftMeanwhile(fileno=ours.detach())
    connected.other = theirs
    peer = client_of(connected)
    peer.send(b"MSG a\0which is never read", None)
    for packet in (b"", b"SUB a", b"MSG a\0"):
        theirs.send(packet)
    theirs.shutdown(socket.SHUT_WR)
    reader = PacketReader(1000)
    received = []
    while not peer.is_at_end:
        received += reader.read(peer)
    assert received == [b"SUB a", b"MSG a\0"]
    assert peer.is_doomed is None
    assert peer.counts == BridgeCounts(delivered=1)
    peer.close()


def test_of_one_that_waits_one_packet_is_read_at_a_time() -> None:
    """However many it had before, and often."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        peer, reader = client_of(ours), PacketReader(1000)
        for number in range(50):
            theirs.send(b"%d" % number)
        peer.is_busy = True
        peer.waits_for.add(peer)
        assert [reader.read(peer) for _ in range(20)] == [[b"%d" % number] for number in range(20)]
        peer.waits_for.clear()
        assert len(reader.read(peer)) == 30
        peer.close()
