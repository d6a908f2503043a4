# SPDX-License-Identifier: MIT
"""What a packet of a capture holds: a header of 32 bytes, and then the KBUS message exactly as read.

The header, in the byte order of the machine that recorded it:

====== ==== ===============================================================
offset type
====== ==== ===============================================================
0      u16  version of this layout, 1
2      u16  length of the header, 32: the message begins there
4      u32  CRC-32 (of zlib) of all that follows this word, the message too
8      u64  recorder's sequence number
16     u64  CLOCK_MONOTONIC when the message was sent, ns
24     u64  messages that this KSock had lost by then
====== ==== ===============================================================

That is the byte order of the section, unless a tool has written the section anew on a machine of the
other one: editcap and mergecap do, and leave packets as they are. So it is the version that tells it.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from .. import abi
from .pcapng import BIG, LITTLE, NATIVE

VERSION = 1
#: version, length of the header, CRC
START = {order: struct.Struct(order + "HHI") for order in (LITTLE, BIG)}
#: sequence, mono_ns, lost
FACTS = {order: struct.Struct(order + "3Q") for order in (LITTLE, BIG)}
LENGTH = START[NATIVE].size + FACTS[NATIVE].size

_VERSION_BYTES = {order: struct.pack(order + "H", VERSION) for order in (LITTLE, BIG)}
_EXTENSION_WORDS = 2 * abi.ORIG_FROM.size // 4
_HEADER_WORDS = abi.MESSAGE_HEADER.size // 4


class Frame(NamedTuple):
    """What the recorder says about a message.

    ``sequence`` ascends by one with each message of a recorder, over all its files and devices. ``mono_ns``
    is CLOCK_MONOTONIC when it was sent, and so queued for the recorder, in ns; or when one was that had come
    before it, having overtaken it or on another device. ``lost`` counts what its KSock had lost by then.
    """

    sequence: int
    mono_ns: int
    lost: int


def order_of(packet: bytes) -> str:
    """Return the byte order of a packet. Raises ValueError if it is of another version than this."""
    for order in (LITTLE, BIG):
        if packet[:2] == _VERSION_BYTES[order]:
            return order
    raise ValueError(
        f"a packet that begins with {packet[:2].hex() or 'nothing'}, and not with version {VERSION}"
    )


def decode(packet: bytes, order: str) -> tuple[Frame, bytes]:
    """Return the frame, and the message in the order in which it was recorded.

    Raises ValueError, which names the cause, if the packet is damaged or of another version.
    """
    if len(packet) < LENGTH:
        raise ValueError(f"a packet of {len(packet)} bytes, and the header alone has {LENGTH}")
    version, length, crc = START[order].unpack_from(packet)
    if version != VERSION:
        raise ValueError(f"a packet of version {version}, and only {VERSION} is known")
    if not LENGTH <= length <= len(packet) or length % 4:
        raise ValueError(
            f"a packet of {len(packet)} bytes whose header says that it has {length} bytes itself"
        )
    if zlib.crc32(packet[START[order].size :]) != crc:
        raise ValueError("a packet whose checksum is wrong")
    return Frame(*FACTS[order].unpack_from(packet, START[order].size)), packet[length:]


def native(message: bytes, order: str) -> bytes:
    """Return a message in this machine's byte order. Its data are the sender's, and stay as they are.

    Raises ValueError if it is too short to have a header.
    """
    if order == NATIVE:
        return message
    if len(message) < abi.MESSAGE_HEADER.size + abi.U32.size:
        raise ValueError(f"not a message: {len(message)} bytes")
    words = _HEADER_WORDS
    (flags,) = struct.unpack_from(order + "I", message, 28)
    if flags & abi.BIT_EXTENDED:
        words += _EXTENSION_WORDS
    if len(message) < 4 * words + abi.U32.size:
        raise ValueError(f"not a message: {len(message)} bytes")
    header = struct.unpack_from(f"{order}{words}I", message)
    (end,) = struct.unpack_from(order + "I", message, len(message) - 4)
    return struct.pack(f"={words}I", *header) + message[4 * words : -4] + abi.U32.pack(end)
