# SPDX-License-Identifier: MIT
"""Reading from clients that leave in the middle of it."""

from __future__ import annotations

import socket

from kbus.sbus.counts import Counts
from kbus.sbus.limits import Limits
from kbus.sbus.peer import Peer, Total
from kbus.sbus.reading import Reader


class LeftMeanwhile(socket.socket):
    """Our end of a connection whose other end is closed while the reader asks how it stands."""

    other: socket.socket

    def setsockopt(self, *args: object) -> None:
        super().setsockopt(*args)  # type: ignore[call-overload]
        self.other.close()


def test_a_client_leaves_with_mail_unread_while_its_last_packets_are_read() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connected = LeftMeanwhile(fileno=ours.detach())
    connected.other = theirs
    peer = Peer(connected, 1, Limits(), Total())
    assert peer.send(b"MSG a\0which is never read", None)
    for packet in (b"", b"SUB a", b"MSG a\0"):
        theirs.send(packet)
    theirs.shutdown(socket.SHUT_WR)
    reader = Reader(1000)
    received = []
    while not peer.is_at_end:
        received += reader.read(peer)
    assert received == [b"SUB a", b"MSG a\0"]
    assert peer.is_doomed is None
    assert peer.counts == Counts(delivered=1)
    peer.close()


def test_of_large_packets_few_are_read_at_once() -> None:
    """Others wait while they are copied, and meanwhile their sender can send as many again."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer = Peer(ours, 1, Limits(), Total())
    reader = Reader(100_000)
    peer.is_busy = True
    counts = []
    with theirs:
        for _ in range(2):
            for _ in range(3):
                theirs.send(bytes(40_000))
            counts.append(len(reader.read(peer)))
        counts.append(len(reader.read(peer)))
    assert counts == [3, 1, 2]
    peer.close()
