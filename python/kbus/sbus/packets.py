# SPDX-License-Identifier: MIT
"""The sbus protocol: its packets, and patterns of routing keys. Pure functions.

There are two protocols, which differ in the separator of routing keys and in what kinds of packet there
are. Source: the protocol texts, revisions 1 and 2 (``dot``), 3 and 4 (``slash``).

``*`` matches any run of bytes, also an empty one, up to the next separator or the end. A pattern that ends
with the separator matches every key that begins with the rest up to and with that separator. The empty
pattern matches every key. Source: the bridge's specification, 'Patterns'.

What begins with ``!/cred/`` is not decided here: secret messages have a table of their own.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, Optional

from .counts import Dropped


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
#: what the option --protocol of commands means
PROTOCOL_HELP = "dot is revisions 1 and 2, slash 3 and 4 (default: slash)"
PROTOCOLS = {protocol.name: protocol for protocol in (DOT, SLASH)}

SUB, UNSUB, MSG, CMSG = b"SUB", b"UNSUB", b"MSG", b"CMSG"

#: The control message that asks for the drops of the client that asks. The protocol does not have it.
DROPPED = b"kbus/dropped"

_STARS = re.compile(rb"\*\*+")
#: Bytes from which on a regular expression finds a literal faster at worst.
_LONG = 16


class Packet(NamedTuple):
    """What a packet says. ``payload`` is empty where the protocol ignores it, or where there is none."""

    kind: bytes
    key: bytes
    payload: bytes


def parse(packet: bytes, protocol: Protocol = SLASH) -> Packet:
    """Return what a packet that a client has sent says.

    Raises Dropped, which names the cause, if it is none of the forms that the protocol has.
    """
    kind, blank, rest = packet.partition(b" ")
    if not blank or kind not in (SUB, UNSUB, MSG, CMSG) or (kind == CMSG and not protocol.has_control):
        raise Dropped(f"{packet[:20]!r} begins no message of the protocol")
    key, nul, payload = rest.partition(b"\0")
    if kind == MSG and not nul:
        raise Dropped("a MSG without a NUL after its routing key")
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


def normal(pattern: bytes) -> bytes:
    """Return a pattern that matches the same keys, without ``*`` beside ``*``."""
    return _STARS.sub(b"*", pattern) if b"**" in pattern else pattern


def is_exact(pattern: bytes, separator: bytes) -> bool:
    """Return whether a pattern matches just the key that it is."""
    return bool(pattern) and b"*" not in pattern and not pattern.endswith(separator)


def segment_matches(wanted: bytes, segment: bytes) -> bool:
    """Return whether one segment of a pattern matches one segment of a key.

    The time that this takes does not grow with the number of ways in which it could match.
    """
    first, parts, last = _parts(wanted)
    if last is None:
        return first == segment
    if not segment.startswith(first) or not segment.endswith(last):
        return False
    end = len(segment) - len(last)
    if end < len(first):
        return False
    position = len(first)
    for part in parts:
        position = _find(part, segment, position, end)
        if position < 0:
            return False
        position += len(part)
    return True


def _find(part: bytes, segment: bytes, begin: int, end: int) -> int:
    """Like ``segment.find``, which takes time for each byte of both for some that are long."""
    if len(part) < _LONG:
        return segment.find(part, begin, end)
    found = _literal(part).search(segment, begin, end)
    return -1 if found is None else found.start()


@lru_cache(maxsize=1024)
def _literal(part: bytes) -> re.Pattern[bytes]:
    return re.compile(re.escape(part))


@lru_cache(maxsize=1024)
def _parts(wanted: bytes) -> tuple[bytes, list[bytes], Optional[bytes]]:
    """What is before the first ``*``, between them, and after the last; None for that if there is none."""
    first, *parts = wanted.split(b"*")
    return first, parts, parts.pop() if parts else None
