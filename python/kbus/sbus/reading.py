# SPDX-License-Identifier: MIT
"""Reading packets from clients: one with recv_into, many with recvmmsg, and the last of those that leave."""

from __future__ import annotations

import contextlib
import select
import socket

from .mmsg import Receiver
from .peer import Peer

_DONTWAIT = socket.MSG_DONTWAIT
#: How often a client that mostly sends one packet at a time is asked whether there are more.
_PROBE = 8
#: for credentials
_SPACE = socket.CMSG_SPACE(12)


class PacketReader:
    """Memory for packets of at most ``most`` bytes; of longer ones it gives that many bytes and one more."""

    def __init__(self, most: int) -> None:
        self._buffer = bytearray(most + 1)
        self._view = memoryview(self._buffer)
        self._receiver = Receiver(most)
        self._turn = 0

    def read(self, peer: Peer) -> list[bytes]:
        """Return what the client has sent, not necessarily all of it, an empty list if nothing.

        ``peer.is_at_end`` is True afterwards if the client will send no more, and all has been returned. One
        packet costs least with recv_into, many with recvmmsg; a client that had many is likely to have many.
        One that waits has one packet read, which is all that the caller has looked at.
        """
        self._turn += 1
        try:
            if not peer.waits_for and (peer.is_busy or not self._turn % _PROBE):
                received = self._receiver.receive(peer.fd)
                peer.is_busy = len(received) > 1
            else:
                length = peer.socket.recv_into(self._buffer, 0, _DONTWAIT)
                received = [self._view[:length].tobytes()]
        except BlockingIOError:
            return []
        except ConnectionResetError:
            # It has left without reading all. That is reported once; what it has sent is still there.
            return []
        except OSError as error:
            peer.doom(f"it cannot be read: {error.strerror}")
            return []
        return received if received[-1] else self._without_end(peer, received)

    def _without_end(self, peer: Peer, received: list[bytes]) -> list[bytes]:
        """Distinguish empty packets from the end, which looks the same but for its repetition."""
        if not is_closed(peer, select.POLLRDHUP):
            return received
        while received and not received[-1]:
            received.pop()
        # What is a packet, even an empty one, comes with credentials now, and the end does not.
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        while not peer.is_at_end:
            try:
                length, ancillary, *_ = peer.socket.recvmsg_into([self._buffer], _SPACE, _DONTWAIT)
            except ConnectionResetError:
                # It has closed its other side only now, without reading all.
                continue
            if length or ancillary:
                received.append(bytes(self._view[:length]))
            else:
                peer.is_at_end = True
        return received


def is_closed(peer: Peer, or_has: int = 0) -> bool:
    """Return whether neither side can send any more, or one of these events has happened."""
    poll = select.poll()
    poll.register(peer.fd, or_has)
    return bool(poll.poll(0))


def next_is_message(peer: Peer) -> bool:
    """Return whether the next packet of a client is a message to publish, without taking it."""
    with contextlib.suppress(BlockingIOError, ConnectionResetError):
        return peer.socket.recv(4, _DONTWAIT | socket.MSG_PEEK) == b"MSG "
    return False
