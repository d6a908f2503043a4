# SPDX-License-Identifier: MIT
"""The packets of the sbus protocol: what they look like, and what they say. Pure functions.

There are two protocols, which differ in the separator of routing keys and in what kinds of packet there
are. Source: the protocol texts, revisions 1 and 2 (``dot``), 3 and 4 (``slash``).
"""

from __future__ import annotations

from typing import NamedTuple


class Protocol(NamedTuple):
    """Which revisions of the protocol are spoken.

    ``separator`` is the byte between the segments of a routing key. With ``has_control`` there are
    control messages, secret messages and the reserved token ``!``.
    """

    name: str
    separator: bytes
    has_control: bool


#: revisions 1 and 2
DOT = Protocol("dot", b".", False)
#: revisions 3 and 4
SLASH = Protocol("slash", b"/", True)
PROTOCOLS = {protocol.name: protocol for protocol in (DOT, SLASH)}

SUB, UNSUB, MSG, CMSG = b"SUB", b"UNSUB", b"MSG", b"CMSG"

#: The control message that asks for the drops of whoever asks. The protocol does not have it.
DROPPED = b"kbus/dropped"


class Packet(NamedTuple):
    """What a packet says. ``payload`` is empty where the protocol ignores it, or where there is none."""

    kind: bytes
    key: bytes
    payload: bytes


def parse(packet: bytes, protocol: Protocol = SLASH) -> Packet:
    """Return what a packet that a client has sent says.

    Raises ValueError, which names the cause, if it is none of the forms that the protocol has.
    """
    kind, blank, rest = packet.partition(b" ")
    if not blank or kind not in (SUB, UNSUB, MSG, CMSG) or (kind == CMSG and not protocol.has_control):
        raise ValueError(f"{packet[:20]!r} begins no message of the protocol")
    key, nul, payload = rest.partition(b"\0")
    if kind == MSG and not nul:
        raise ValueError("a MSG without a NUL after its routing key")
    return Packet(kind, key, payload if kind in (MSG, CMSG) else b"")


def build(kind: bytes, key: bytes, payload: bytes = b"") -> bytes:
    """Return a packet; SUB and UNSUB take no payload.

    Raises ValueError if the key has a NUL, which no key can have.
    """
    if b"\0" in key:
        raise ValueError(f"the routing key {key!r} has a NUL")
    if kind in (SUB, UNSUB):
        return kind + b" " + key
    return kind + b" " + key + b"\0" + payload
